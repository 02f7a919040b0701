"""The paper's evaluation: methods side by side on the same folds, tables and figures beside the paper's own."""
