"""scikit-learn's digits, read without loading scikit-learn."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from unskew.data.sources.digits import embedded


def test_they_are_those_that_scikit_learn_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    """From its file as from its function, which is asked where the file is not found."""
    from sklearn.datasets import load_digits

    theirs = load_digits()
    x, y = embedded()
    assert x.shape == (1797, 1, 8, 8)
    assert np.array_equal(x[:, 0], theirs.images)
    assert np.array_equal(y, theirs.target)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    again, labels = embedded()
    assert np.array_equal(again, x)
    assert np.array_equal(labels, y)
    assert (again.dtype, labels.dtype) == (x.dtype, y.dtype)
