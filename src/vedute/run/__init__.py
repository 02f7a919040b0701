"""A run: settings, centers, the rounds, where their state is kept, and the fitted model."""
