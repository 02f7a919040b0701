"""The version of vedute, apart, so that every layer may write it down."""

__version__ = "0.1.0"
