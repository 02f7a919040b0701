"""Rows stay here: tables, study files, scaling, synthetic data and scenarios."""
