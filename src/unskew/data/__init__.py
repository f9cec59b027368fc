"""Data sets, their partitions over clients, and federations."""

from unskew.data.dataset import Dataset
from unskew.data.federation import Federation

__all__ = ["Dataset", "Federation"]
