"""Data sets, their partitions over clients, and federations."""

from unskew.data.dataset import Dataset
from unskew.data.federation import Federation
from unskew.data.load import load
from unskew.data.own import from_arrays

__all__ = ["Dataset", "Federation", "from_arrays", "load"]
