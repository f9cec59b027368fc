"""Types of numpy arrays that all of unskew speaks of."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

Ids = npt.NDArray[np.int64]
"""Whole numbers: of clients, of samples, of positions in a list."""
