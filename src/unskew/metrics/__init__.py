"""What there is to know about a federation's label counts, in numbers."""

from unskew.metrics.skew import Skew, emd, pairwise_emd, skew, system_emd

__all__ = ["Skew", "emd", "pairwise_emd", "skew", "system_emd"]
