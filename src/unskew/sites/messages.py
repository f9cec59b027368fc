"""What crosses between the coordinator and a site: a verb, plain values and named tensors. Data, never code.

A message is ``MAGIC``, the length of its header, the header (JSON), the bytes of its tensors, and a hash of all that.
Whoever reads one checks everything before it takes memory for a tensor: the hash, the sizes, the types. A reply names
the hash of the request that it answers, so that a reply to another request, or one sent again, is refused.
"""

from __future__ import annotations

import hashlib
import json
import math
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unskew.arrays import Array
from unskew.core.store import raw
from unskew.sites.carrier import LENGTH, MOST_MESSAGE

MAGIC = b"unskew 1"
DIGEST = 32

MOST_HEADER = 16 * 2**20
"""Bytes of a header: names, numbers and lists. Long lists travel as tensors."""

MOST_AXES = 16
MOST_DEPTH = 32

TYPES: dict[str, tuple[torch.dtype, Any]] = {
    "F64": (torch.float64, np.float64),
    "F32": (torch.float32, np.float32),
    "F16": (torch.float16, np.float16),
    "BF16": (torch.bfloat16, None),
    "I64": (torch.int64, np.int64),
    "I32": (torch.int32, np.int32),
    "I16": (torch.int16, np.int16),
    "I8": (torch.int8, np.int8),
    "U8": (torch.uint8, np.uint8),
    "BOOL": (torch.bool, np.bool_),
}
"""The only types that a tensor may have, by the names of the safetensors format."""

OF_TORCH = {kind: name for name, (kind, _) in TYPES.items()}
OF_NUMPY = {np.dtype(kind): name for name, (_, kind) in TYPES.items() if kind is not None}


class BadMessage(Exception):
    """Bytes that are no message, or not the one that was asked for: one sentence that says why."""


@dataclass(frozen=True)
class Message:
    """A verb, what it is about, and who sent it as the how-manieth of which session."""

    verb: str
    values: Mapping[str, Any] = field(default_factory=dict)
    session: str = ""
    number: int = 0
    answers: str = ""  # of a reply: the hash of the request
    nonce: str = field(default_factory=lambda: secrets.token_hex(16))

    def encode(self) -> bytes:
        """The bytes that travel."""
        tensors: list[tuple[str, tuple[int, ...], bytes]] = []
        header = {
            "verb": self.verb,
            "session": self.session,
            "number": self.number,
            "answers": self.answers,
            "nonce": self.nonce,
            "values": _pack(dict(self.values), tensors),
            "tensors": [[kind, list(shape)] for kind, shape, _ in tensors],
        }
        text = json.dumps(header, allow_nan=False, separators=(",", ":")).encode()
        if len(text) > MOST_HEADER:
            raise BadMessage(
                f"the header of {self.verb} takes {len(text):,} bytes, more than {MOST_HEADER:,}"
            )
        content = b"".join((MAGIC, len(text).to_bytes(LENGTH, "little"), text, *(raw for *_, raw in tensors)))
        return content + _digest(content)

    @classmethod
    def decode(cls, data: bytes, most: int = MOST_MESSAGE) -> Message:
        """The message in these bytes; anything strange is refused before memory is taken for it."""
        if len(data) > most:
            raise BadMessage(f"it takes {len(data):,} bytes, and {most:,} is the most that was expected")
        start = len(MAGIC) + LENGTH
        if len(data) < start + DIGEST or data[: len(MAGIC)] != MAGIC:
            raise BadMessage("it is no message of unskew, or of another version")
        content = memoryview(data)[:-DIGEST]
        if _digest(content) != data[-DIGEST:]:
            raise BadMessage("it was altered on its way: its hash is another")
        length = int.from_bytes(data[len(MAGIC) : start], "little")
        if length > min(MOST_HEADER, len(content) - start):
            raise BadMessage("its header is longer than itself")
        header = _read_header(bytes(content[start : start + length]))
        tensors = _read_tensors(header["tensors"], content[start + length :])
        values = _unpack(header["values"], tensors)
        if not isinstance(values, dict):
            raise BadMessage("its values have no names")
        return cls(header["verb"], values, *(header[n] for n in ("session", "number", "answers", "nonce")))

    def reply(self, request: bytes, verb: str = "answer", **values: Any) -> Message:
        """An answer to this message, which came as these bytes."""
        return Message(verb, values, self.session, self.number, fingerprint(request))


def fingerprint(data: bytes) -> str:
    """The hash by which a reply names its request."""
    return hashlib.blake2b(data, digest_size=DIGEST).hexdigest()


def read_reply(data: bytes, request: bytes, most: int = MOST_MESSAGE) -> Message:
    """The reply to exactly this request, or a sentence that says why it is none."""
    found = Message.decode(data, most)
    if found.answers != fingerprint(request):
        raise BadMessage("it answers another request: it was sent before, or is somebody else's")
    return found


def _digest(content: bytes | memoryview) -> bytes:
    return hashlib.blake2b(content, digest_size=DIGEST).digest()


HEADER = {"verb": str, "session": str, "number": int, "answers": str, "nonce": str, "tensors": list}


def _read_header(text: bytes) -> dict[str, Any]:
    def refuse(constant: str) -> Any:
        raise BadMessage(f"its header has {constant}, which is no number")

    try:
        header = json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError):
        raise BadMessage("its header cannot be read") from None
    if not isinstance(header, dict) or set(header) != {*HEADER, "values"}:
        raise BadMessage("its header has other fields than a message has")
    for name, kind in HEADER.items():
        if type(header[name]) is not kind:
            raise BadMessage(f"its field {name} is no {kind.__name__}")
    return header


def _read_tensors(told: list[Any], content: memoryview) -> list[Tensor]:
    """The tensors that a header tells of: they must fill the rest of the message exactly."""
    layout, end = [], 0
    for entry in told:
        if not (isinstance(entry, list) and len(entry) == 2 and isinstance(entry[1], list)):
            raise BadMessage("a tensor has no type and shape")
        kind, shape = entry
        if not isinstance(kind, str) or kind not in TYPES:
            raise BadMessage("a tensor has a type that does not travel")
        if len(shape) > MOST_AXES or any(type(n) is not int or n < 0 for n in shape):
            raise BadMessage("a tensor has an impossible shape")
        dtype = TYPES[kind][0]
        begin, end = end, end + math.prod(shape) * torch.empty(0, dtype=dtype).element_size()
        if end > len(content):
            raise BadMessage("its tensors are larger than itself")
        layout.append((dtype, shape, begin, end))
    if end != len(content):
        raise BadMessage("it holds more than its header tells")
    found = []
    for dtype, shape, begin, end in layout:
        # a copy of its own: what was received is read-only, and need not lie where a tensor may
        held = bytearray(content[begin:end])
        if dtype == torch.bool and any(held.translate(None, b"\0\1")):
            raise BadMessage("a tensor of yes and no has other values")
        try:
            empty = torch.frombuffer(held, dtype=dtype) if held else torch.zeros(0, dtype=dtype)
            found.append(empty.reshape(shape))
        except (RuntimeError, TypeError, OverflowError):  # nothing in it, along axes without end
            raise BadMessage("a tensor has an impossible shape") from None
    return found


# --- plain values, each written as itself or under a sign that says what it is


def _pack(value: Any, tensors: list[tuple[str, tuple[int, ...], bytes]], depth: int = 0) -> Any:
    if depth > MOST_DEPTH:
        raise BadMessage("values are nested too deeply to travel")
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, Tensor):
        tensors.append((OF_TORCH[value.dtype], tuple(value.shape), raw(value).tobytes()))
        return {"tensor": len(tensors) - 1}
    if isinstance(value, np.ndarray):
        kind = OF_NUMPY.get(value.dtype)
        if kind is None:
            raise BadMessage(f"an array of {value.dtype} does not travel")
        tensors.append((kind, value.shape, np.ascontiguousarray(value).tobytes()))
        return {"array": len(tensors) - 1}
    if isinstance(value, tuple):
        return {"tuple": [_pack(v, tensors, depth + 1) for v in value]}
    if isinstance(value, list):
        return [_pack(v, tensors, depth + 1) for v in value]
    if isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
        return {"tree": {name: _pack(v, tensors, depth + 1) for name, v in value.items()}}
    raise BadMessage(f"a {type(value).__name__} does not travel: only numbers, words, lists and tensors do")


def _unpack(told: Any, tensors: list[Tensor], depth: int = 0) -> Any:
    if depth > 2 * MOST_DEPTH:
        raise BadMessage("its values are nested too deeply")
    if told is None or isinstance(told, (bool, int, float, str)):
        return told
    if isinstance(told, list):
        return [_unpack(v, tensors, depth + 1) for v in told]
    if not isinstance(told, dict) or len(told) != 1:
        raise BadMessage("a value is written in a way that there is not")
    ((sign, inner),) = told.items()
    if sign in ("tensor", "array"):
        if type(inner) is not int or not 0 <= inner < len(tensors):
            raise BadMessage("a tensor is named that did not come")
        if sign == "tensor":
            return tensors[inner]
        if tensors[inner].dtype == torch.bfloat16:
            raise BadMessage("an array has a type that does not travel")
        found: Array = tensors[inner].numpy()
        return found
    if sign == "tuple" and isinstance(inner, list):
        return tuple(_unpack(v, tensors, depth + 1) for v in inner)
    if sign == "tree" and isinstance(inner, dict):
        return {name: _unpack(v, tensors, depth + 1) for name, v in inner.items()}
    if sign == "float" and inner in ("nan", "inf", "-inf"):
        return float(inner)
    raise BadMessage("a value is written in a way that there is not")
