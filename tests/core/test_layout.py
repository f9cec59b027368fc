"""How numbers lie in memory, by shape and strides alone."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from unskew.core.layout import fills_memory

ROWS = torch.zeros(2, 3, 4)
IMAGES = torch.zeros(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize(
    "whole", [ROWS, ROWS.transpose(1, 2), IMAGES, ROWS[:1], torch.zeros(()), torch.zeros(5, 1).mT]
)
def test_a_whole_tensor_fills_its_memory_however_it_is_turned(whole: Tensor) -> None:
    assert fills_memory(whole.shape, whole.stride())
    assert torch.empty_like(whole).stride() == whole.stride()


@pytest.mark.parametrize("part", [ROWS[:, :2], ROWS[..., ::2], torch.zeros(2, 1).expand(2, 3), IMAGES[:, :2]])
def test_some_rows_and_one_number_seen_many_times_do_not(part: Tensor) -> None:
    assert not fills_memory(part.shape, part.stride())
    assert torch.empty_like(part).stride() != part.stride()
