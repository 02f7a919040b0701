"""docs/reproduction.md, written from the CSV files of the experiments alone: one file for each section."""
