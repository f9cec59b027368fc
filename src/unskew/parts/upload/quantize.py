"""Numbers of few bits in place of 32."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from unskew.core.slots import Upload
from unskew.core.types import Shape, Tree
from unskew.errors import InputError
from unskew.later import torch

if TYPE_CHECKING:
    from torch import Tensor

SCALES = "scales"


@dataclass(frozen=True)
class Quantize(Upload):
    """Uploads every number of an update in few bits, rounded at random so that nothing is biased (QSGD, Alistarh 2017).

    For each tensor of the change its largest magnitude M is sent as it is. Each number x is sent as a whole number from
    -s to s, with s = 2^(bits - 1) - 1: s x / M rounded up or down at random. The probability of rounding up is how far
    s x / M is above the lower whole number (section 3.1 of the paper, with M in place of the 2-norm). So the mean is x,
    and the error is less than M / s. Numbers are packed: ceil(n bits / 8) bytes for a tensor of n, and 4 for M (8 in
    float64).

    bits: what one number takes, from 2 to 31; 32 sends the model as it is and is FedAvg bit for bit.

    Left open, and taken: each tensor has one scale, where the paper also cuts tensors into buckets; whole numbers are
    packed in fixed length, where it codes them by how often they occur. Randomness depends on seed, round and client.
    """

    name: ClassVar[str] = "quantize"
    paper: ClassVar[str] = "Alistarh et al., QSGD, NeurIPS 2017"
    neutral: ClassVar[str | None] = "quantize(32)"
    example: ClassVar[str | None] = "quantize(8)"
    packs: ClassVar[bool] = True

    bits: int

    def __post_init__(self) -> None:
        if not 2 <= self.bits <= 32:
            raise InputError(f"bits of quantize is a whole number from 2 to 32, not {self.bits}")

    @property
    def encodes(self) -> bool:
        return self.bits < 32

    @property
    def levels(self) -> int:
        """The largest whole number, s."""
        return (1 << (self.bits - 1)) - 1

    def encode(self, change: Tree, memory: Tree, rng: np.random.Generator) -> tuple[Tree, Tree]:
        message: Tree = {}
        scales = []
        for name, value in change.items():
            flat = value.flatten()
            scale = flat.abs().max() if len(flat) else flat.new_zeros(())
            chance = torch.from_numpy(rng.random(len(flat))).to(flat.device)
            exact = flat.double() * (self.levels / scale.double()) if scale > 0 else flat.double() * 0
            below = exact.floor()
            whole = below + (chance < exact - below)
            # what is no number has a scale that is none, and decodes to nothing else
            codes = whole.nan_to_num(0.0).clamp(-self.levels, self.levels) + self.levels
            message[name] = pack(codes.long(), self.bits)
            scales.append(scale)
        return message | {SCALES: torch.stack(scales)}, memory

    def decode(self, message: Tree, shapes: Mapping[str, Shape]) -> Tree:
        found = {}
        for (name, shape), scale in zip(shapes.items(), message[SCALES], strict=True):
            codes = unpack(message[name], self.bits, math.prod(shape)) - self.levels
            found[name] = (codes.double() * (scale.double() / self.levels)).to(scale.dtype).view(shape)
        return found


def pack(codes: Tensor, bits: int) -> Tensor:
    """Whole numbers below 2^bits as bytes, one after the other, lowest bit first."""
    table = torch.zeros(-(-len(codes) * bits // 8) * 8, dtype=torch.uint8, device=codes.device)
    spread = table[: len(codes) * bits].view(len(codes), bits)
    for bit in range(bits):
        spread[:, bit] = (codes >> bit) & 1
    packed = torch.zeros(len(table) // 8, dtype=torch.uint8, device=codes.device)
    for bit in range(8):
        packed |= table[bit::8] << bit
    return packed


def unpack(packed: Tensor, bits: int, count: int) -> Tensor:
    """The inverse of ``pack``: the first ``count`` numbers."""
    table = torch.stack([(packed >> bit) & 1 for bit in range(8)], dim=1).flatten()
    spread = table[: count * bits].view(count, bits)
    codes = torch.zeros(count, dtype=torch.int64, device=packed.device)
    for bit in range(bits):
        codes |= spread[:, bit].long() << bit
    return codes
