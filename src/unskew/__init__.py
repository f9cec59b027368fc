"""Federated learning that works when clients' data is skewed and scarce."""

__version__ = "0.1.0"
