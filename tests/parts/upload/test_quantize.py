"""Numbers of few bits, worked by hand: levels, bytes, and that nothing is biased."""

from __future__ import annotations

import pytest
import torch

from by_hand import numbers
from unskew.core.method import Method
from unskew.errors import InputError
from unskew.parts.upload import Quantize
from unskew.parts.upload.quantize import pack, unpack
from unskew.seeds import generator
from unskew.testing.toy_federation import play


class Fixed:
    """A generator that draws what it was given."""

    def __init__(self, *values: float):
        self.values = values

    def random(self, count: int):
        return numbers(*self.values[:count]).numpy()


def test_three_bits_by_hand():
    """3 bits: s = 3. Of (6, -6, 1, 3) with M = 6, s x / M = (3, -3, 0.5, 1.5).

    Drawn 0.4, both halves are rounded up: (3, -3, 1, 2), so (6, -6, 2, 4). Drawn 0.6, down: (3, -3, 0, 1), so
    (6, -6, 0, 2). Codes are levels + 3, 12 bits in two bytes: 6, 0, 4, 5 is 110 000 100 101 from the lowest bit up.
    """
    part, change = Quantize(3), {"w": numbers(6.0, -6.0, 1.0, 3.0)}
    message, memory = part.encode(change, {}, Fixed(*[0.4] * 4))  # type: ignore[arg-type]
    assert (message["scales"].tolist(), memory) == ([6.0], {})
    assert message["w"].tolist() == [0b00000110, 0b00001011]
    assert part.decode(message, {"w": (4,)})["w"].tolist() == [6.0, -6.0, 2.0, 4.0]
    message, _ = part.encode(change, {}, Fixed(*[0.6] * 4))  # type: ignore[arg-type]
    assert part.decode(message, {"w": (4,)})["w"].tolist() == [6.0, -6.0, 0.0, 2.0]


def test_the_mean_is_the_number_itself():
    """Ten thousand roundings of 0.3 in 2 bits, which knows -1, 0 and 1 times the largest: three in ten are 1."""
    part = Quantize(2)
    change = {"w": torch.cat([numbers(1.0), torch.full((10_000,), 0.3, dtype=torch.float64)])}
    message, _ = part.encode(change, {}, generator(0, "mean"))
    found = part.decode(message, {"w": (10_001,)})["w"][1:]
    assert set(found.tolist()) == {0.0, 1.0}
    assert float(found.mean()) == pytest.approx(0.3, abs=0.015)


def test_it_is_off_by_less_than_a_level():
    """In 8 bits, by less than M / 127; in 31 bits hardly at all."""
    change = {"w": torch.randn(1000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)}
    for bits in (8, 31):
        part = Quantize(bits)
        message, _ = part.encode(change, {}, generator(0, "off"))
        off = (part.decode(message, {"w": (1000,)})["w"] - change["w"]).abs().max()
        assert float(off) < float(change["w"].abs().max()) / (2 ** (bits - 1) - 1)


def test_bytes_by_hand():
    """The tiny model's tensors have 216, 6, 18 and 3 weights.

    In 8 bits that is 243 bytes and four scales of 4, so 259 a client in float32; in 3 bits
    81 + ceil(18 / 8) + ceil(54 / 8) + ceil(9 / 8) = 81 + 3 + 7 + 2 = 93, and 16 for the scales: 109.
    """
    for bits, each in ((8, 259), (3, 109)):
        (line,) = play(Method.parse(f"quantize({bits})"), rounds=1, precision="fp32").lines
        assert line["bytes"]["up"] == {"model": 4 * each}


@pytest.mark.parametrize("bits", range(2, 32))
def test_packing_loses_nothing(bits):
    """Eleven numbers of any width come back, and take as many bytes as their bits need."""
    codes = torch.from_numpy(generator(0, "codes", bits).integers(2**bits, size=11))
    codes[0], codes[1] = 0, 2**bits - 1
    packed = pack(codes, bits)
    assert len(packed) == -(-11 * bits // 8)
    assert unpack(packed, bits, 11).tolist() == codes.tolist()


def test_nothing_and_no_number_at_all():
    """A change of 0 stays 0, an empty tensor stays empty, and what is not finite is not made finite."""
    part = Quantize(4)
    message, _ = part.encode({"w": numbers(0.0, 0.0), "e": numbers()}, {}, generator(0, "none"))
    decoded = part.decode(message, {"w": (2,), "e": (0,)})
    assert (decoded["w"].tolist(), decoded["e"].tolist()) == ([0.0, 0.0], [])
    for wrong in (float("nan"), float("inf")):
        message, _ = part.encode({"w": numbers(wrong, 1.0)}, {}, generator(0, "wrong"))
        assert not torch.isfinite(part.decode(message, {"w": (2,)})["w"]).any()


@pytest.mark.parametrize("bits", [1, 0, 33])
def test_widths_that_there_are_not_are_refused(bits):
    """From 2 to 32."""
    with pytest.raises(InputError, match="bits of quantize is a whole number from 2 to 32"):
        Quantize(bits)


def test_what_comes_after_packed_bytes_is_refused():
    """quantize is last."""
    with pytest.raises(
        InputError, match="quantize packs numbers into bytes, and topk after it has none to encode"
    ):
        Method.parse("quantize(8)+topk(0.1)")
