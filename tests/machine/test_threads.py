"""A run computes the same, whatever its caller has torch do."""

from __future__ import annotations

import pytest
import torch

import unskew

MODES = {
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "default device": lambda: torch.device("meta"),
}


def trained() -> str:
    settings = {"clients": 4, "cohort": 2, "rounds": 1, "model": "linear", "engine": "loop"}
    return str(unskew.run(dataset="digits", progress=False, **settings).result["model_sha256"])


@pytest.mark.parametrize("mode", MODES)
def test_the_callers_modes_change_no_bit(mode: str) -> None:
    """Some of them failed in the first step; autocast changed numbers without a word."""
    expected = trained()
    with MODES[mode]():
        assert trained() == expected


def test_they_are_the_callers_again_afterwards() -> None:
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        trained()
        assert not torch.is_grad_enabled()
        assert torch.is_autocast_enabled("cpu")
