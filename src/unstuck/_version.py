"""The one place that holds the version: the package, the wheel and `--version` read it."""

__version__ = "0.1.0"
