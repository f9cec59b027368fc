"""Random words that are a function of a seed and a place: masks of dropout, orders of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unskew.later import torch

if TYPE_CHECKING:
    from torch import Tensor


def random_words(seed: Tensor, stream: int, count: int) -> Tensor:
    """``count`` int32 words, uniform in -2**31..2**31-1: a function of the seed, the stream and the place alone.

    Multiplied places, scrambled twice as in splitmix (Steele et al., OOPSLA 2014), with the seed's halves as two
    keys: with one, two streams would often be the same words in another order. Whole numbers that wrap around, so
    a CPU and a GPU agree to the bit. ``seed`` is a 0-d int64 tensor of random bits (``unskew.core.client.mask_seeds``);
    under ``vmap`` it may be batched.
    """
    first, second = (seed ^ (0x61C88647 * (stream + 1))).to(torch.int32), (seed >> 32).to(torch.int32)
    word = torch.arange(count, dtype=torch.int32, device=seed.device) ^ first
    word = word.mul_(0x1E3779B9).add_(second)
    word = (word >> 15).bitwise_xor_(word).mul_(0x7FEB352D)
    return (word >> 13).bitwise_xor_(word).mul_(0x119DE1F3)
