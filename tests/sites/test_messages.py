"""What crosses is data: it comes back as it was, and whatever is strange about it is refused before it is opened."""

from __future__ import annotations

import json
import socket
import threading

import numpy as np
import pytest
import torch

from unskew.sites.carrier import Lost, ask_socket, receive_frame
from unskew.sites.messages import DIGEST, LENGTH, MAGIC, BadMessage, Message, _digest, read_reply

VALUES = {
    "tree": {"w": torch.randn(3, 4), "b": torch.zeros(0, 3), "deep": {"n": torch.tensor(3)}},
    "half": torch.ones(2, dtype=torch.bfloat16),
    "mask": torch.tensor([True, False]),
    "array": np.arange(4),
    "words": ["a", None, 2, 2.5, True],
    "pair": (1, "x"),
    "nothing": float("nan"),
}


def same(one, other) -> bool:
    if isinstance(one, dict):
        return set(one) == set(other) and all(same(one[k], other[k]) for k in one)
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    return type(one) is type(other) and (one == other or one != one)


def test_a_message_comes_back_as_it_was():
    sent = Message("visit", VALUES, "session", 7)
    found = Message.decode(sent.encode())
    assert (found.verb, found.session, found.number, found.nonce) == ("visit", "session", 7, sent.nonce)
    assert same(found.values, VALUES)


@pytest.mark.parametrize("value", [object(), {1: 2}, {"x": b"bytes"}, np.array(["word"]), np.array([1j])])
def test_nothing_but_data_travels(value):
    with pytest.raises(BadMessage, match="does not travel"):
        Message("visit", {"x": value}).encode()


def test_a_byte_that_was_altered_is_noticed():
    data = Message("visit", VALUES).encode()
    for place in range(0, len(data), 7):
        changed = bytearray(data)
        changed[place] ^= 1
        with pytest.raises(BadMessage):
            Message.decode(bytes(changed))


def test_a_reply_to_another_request_is_refused():
    first, second = (Message("visit", VALUES, "s", n).encode() for n in (1, 2))
    reply = Message.decode(first).reply(first, x=1).encode()
    assert read_reply(reply, first).values == {"x": 1}
    with pytest.raises(BadMessage, match="answers another request"):
        read_reply(reply, second)


def sealed(header: dict, content: bytes = b"") -> bytes:
    """A message as somebody would write it who means harm: the hash is right."""
    text = json.dumps(header).encode()
    whole = MAGIC + len(text).to_bytes(LENGTH, "little") + text + content
    return whole + _digest(whole)


def header(**changes) -> dict:
    usual = {"verb": "v", "session": "", "number": 0, "answers": "", "nonce": "", "values": {"tree": {}}}
    return usual | {"tensors": []} | changes


@pytest.mark.parametrize(
    ("told", "content", "why"),
    [
        (header(tensors=[["F32", [10**12]]]), b"", "larger than itself"),
        (header(tensors=[["F32", [2**62, 2**62]]]), b"", "larger than itself"),
        (header(tensors=[["F32", [-1]]]), b"", "impossible shape"),
        (header(tensors=[["F32", [1] * 99]]), b"1234", "impossible shape"),
        (header(tensors=[["OBJECT", [1]]]), b"1", "does not travel"),
        (header(tensors=[["BOOL", [1]]]), b"\7", "other values"),
        (header(), b"more", "more than its header tells"),
        (header(verb=3), b"", "verb is no str"),
        (header(values={"pickle": "x"}), b"", "a way that there is not"),
        (header(values={"tensor": 0}), b"", "did not come"),
        (header(values=[1]), b"", "no names"),
        (header() | {"code": "x"}, b"", "other fields"),
    ],
)
def test_a_strange_message_is_refused_before_memory_is_taken(told, content, why):
    with pytest.raises(BadMessage, match=why):
        Message.decode(sealed(told, content))


def test_a_header_longer_than_the_message_is_refused():
    whole = MAGIC + (2**60).to_bytes(LENGTH, "little")
    with pytest.raises(BadMessage, match="longer than itself"):
        Message.decode(whole + _digest(whole))
    with pytest.raises(BadMessage, match="no message"):
        Message.decode(b"x" * DIGEST)


def test_ten_gigabytes_are_refused_before_the_first_byte_is_read(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
        door.bind(str(tmp_path / "s"))
        door.listen()

        def boast() -> None:
            there, _ = door.accept()
            with there:
                receive_frame(there)
                there.sendall((10 * 2**30).to_bytes(LENGTH, "little"))

        thread = threading.Thread(target=boast)
        thread.start()
        found = ask_socket(tmp_path / "s", b"hello", 10.0)
        thread.join()
    assert found == Lost(
        "wants to send 10,737,418,240 bytes, and 2,147,483,648 is the most that was expected"
    )
