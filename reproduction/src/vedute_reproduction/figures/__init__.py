"""The figures of the experiments, one file for each kind."""
