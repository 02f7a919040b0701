"""Rounds between centers and master: in one process, or across machines."""
