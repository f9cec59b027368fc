"""Data sets, their partitions over clients, and federations."""

from unskew.data.dataset import Dataset
from unskew.data.federation import Federation
from unskew.data.load import load
from unskew.data.own import from_arrays
from unskew.data.tables import from_frame

__all__ = ["Dataset", "Federation", "from_arrays", "from_frame", "load"]
