"""The model itself: statistics, the center's step, the master's step and prediction. NumPy and SciPy only."""
