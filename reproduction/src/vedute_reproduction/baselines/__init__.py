"""The methods that ours is compared with."""
