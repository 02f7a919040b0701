"""The report: one HTML page that tells what a run folder holds. It reads, and fits nothing."""
