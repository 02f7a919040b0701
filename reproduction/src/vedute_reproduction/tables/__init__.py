"""The tables of the experiments, with the paper's values in the next column."""
