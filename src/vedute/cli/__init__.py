"""The command line: one small module per command, heavy imports inside the functions."""

from vedute.cli.app import main

__all__ = ["main"]
