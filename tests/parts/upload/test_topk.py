"""Top-k with and without feedback, worked by hand: what is sent, what is remembered, and how many bytes it takes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from by_hand import FakeNet, numbers
from unskew.core.method import Method
from unskew.core.upload import decode_change, encode_change, message_bytes
from unskew.errors import InputError
from unskew.parts.upload import TopK
from unskew.seeds import generator
from unskew.testing.toy_federation import play

RNG = generator(0, "upload")


def test_the_largest_of_all_weights_are_sent():
    """Of a = (1, -5, 2) and b = (0, 3), share 0.4 keeps two of five: -5 at place 1 of a, and 3 at place 1 of b."""
    part, change = TopK(0.4, feedback=False), {"a": numbers(1.0, -5.0, 2.0), "b": numbers(0.0, 3.0)}
    message, _ = part.encode(change, {}, RNG)
    assert {k: v.tolist() for k, v in message.items()} == {
        "a": [-5.0],
        "places of a": [1],
        "b": [3.0],
        "places of b": [1],
    }
    decoded = part.decode(message, {"a": (3,), "b": (2,)})
    assert (decoded["a"].tolist(), decoded["b"].tolist()) == ([0.0, -5.0, 0.0], [0.0, 3.0])


def test_what_was_not_sent_is_added_the_next_time():
    """share 1/2 of two weights sends one.

    (3, 2): 3 is sent, 2 remembered. Then (1, 1): with the memory (1, 3), so 3 is sent in place 1 and 1 is remembered.
    """
    part = TopK(0.5)
    memory = part.init_client(FakeNet())  # type: ignore[arg-type]
    message, memory = part.encode({"w": numbers(3.0, 2.0)}, memory, RNG)
    assert (message["w"].tolist(), message["places of w"].tolist()) == ([3.0], [0])
    assert memory["unsent"]["w"].tolist() == [0.0, 2.0]
    message, memory = part.encode({"w": numbers(1.0, 1.0)}, memory, RNG)
    assert (message["w"].tolist(), message["places of w"].tolist()) == ([3.0], [1])
    assert memory["unsent"]["w"].tolist() == [1.0, 0.0]


def test_nothing_is_lost_with_feedback():
    """After any number of rounds, what was sent and what is remembered add up to all changes."""
    part, total, sent = TopK(0.3), np.zeros(7), np.zeros(7)
    memory = {"unsent": {"w": torch.zeros(7, dtype=torch.float64)}}
    for _ in range(20):
        change = RNG.normal(size=7)
        total += change
        message, memory = part.encode({"w": torch.from_numpy(change)}, memory, RNG)
        sent += part.decode(message, {"w": (7,)})["w"].numpy()
    assert sent + memory["unsent"]["w"].numpy() == pytest.approx(total)


def test_bytes_by_hand():
    """The tiny model has 36 x 6 + 6 + 6 x 3 + 3 = 243 weights; a tenth, rounded up, is 25.

    In float32 that is 25 numbers of 4 bytes and 25 places of 4: 200 bytes a client, where the model takes 972. In
    float64 it is 25 x 12 = 300.
    """
    for precision, model, each in (("fp32", 4 * 243, 200), ("float64", 8 * 243, 300)):
        (line,) = play(Method.parse("topk(0.1)"), rounds=1, precision=precision).lines
        assert line["bytes"]["up"] == {"model": 4 * each}
        assert line["bytes"]["down"] == {"model": 4 * model}


def test_equal_magnitudes_go_to_the_first_place():
    """Of (1, -1, 1, 1) two are the first two, and a difference that only float64 sees decides nothing."""
    part = TopK(0.5, feedback=False)
    for change in (numbers(1.0, -1.0, 1.0, 1.0), numbers(1.0, -1.0, 1.0 + 1e-12, 1.0 + 1e-12)):
        assert part.encode({"w": change}, {}, RNG)[0]["places of w"].tolist() == [0, 1]


def test_at_least_one_number_is_sent_and_a_share_is_exact():
    """0.001 of two weights is one; 0.1 of thirty is three, not four."""
    assert len(TopK(0.001, feedback=False).encode({"w": numbers(1.0, 2.0)}, {}, RNG)[0]["w"]) == 1
    assert len(TopK(0.1, feedback=False).encode({"w": torch.arange(30.0)}, {}, RNG)[0]["w"]) == 3


def test_what_is_no_number_is_sent_and_seen():
    """A NaN among large numbers comes first, so that the server can reject it."""
    change = {"w": torch.tensor([1e9, float("nan"), 1e9, 1e9])}
    message, _ = TopK(0.25, feedback=False).encode(change, {}, RNG)
    assert message["places of w"].tolist() == [1]


def test_with_quantize_the_places_stay_and_the_numbers_shrink():
    """Two of five numbers in 8 bits: 2 bytes, 2 scales of 8 for the two tensors, 2 places of 4. In all 26."""
    parts = Method.parse("topk(0.4, feedback=false)+quantize(8)").encoders
    change = {"a": numbers(1.0, -5.0, 2.0), "b": numbers(0.0, 3.0)}
    message, _ = encode_change(parts, change, {"topk": {}, "quantize": {}}, 0, 0, 0)
    assert message_bytes(parts, message) == 2 + 2 * 8 + 2 * 4
    decoded = decode_change(parts, message)  # the largest of a tensor is exact
    assert (decoded["a"].tolist(), decoded["b"].tolist()) == ([0.0, -5.0, 0.0], [0.0, 3.0])


@pytest.mark.parametrize("share", [0, -0.1, 1.5])
def test_a_share_that_is_none_is_refused(share):
    """Above 0 and up to 1."""
    with pytest.raises(
        InputError, match="share of topk is a share of an update's numbers, above 0 and up to 1"
    ):
        TopK(share)
