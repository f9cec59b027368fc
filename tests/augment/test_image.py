"""Altered pictures."""

from __future__ import annotations

import numpy as np
import torch

from unskew.augment.image import image


def test_the_default_type_of_torch_changes_nothing() -> None:
    """Who has set it to float64 gets the same pictures; once it was an error."""
    pictures = torch.linspace(0, 255, 2 * 3 * 8 * 8).reshape(2, 3, 8, 8)
    usual = image(pictures, np.random.default_rng(0))
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        found = image(pictures, np.random.default_rng(0))
    finally:
        torch.set_default_dtype(before)
    assert torch.equal(found, usual)
