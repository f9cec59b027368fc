"""JSON objects that carry a checksum of themselves: one changed number, name or word is noticed.

The checksum is taken over the values and not over the bytes, so that white space and line ends may change, and it is
one more entry of the object: files stay plain JSON.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

CHECKSUM = "checksum"


def seal(content: dict[str, Any], indent: int | None = None) -> str:
    """The object as JSON text that ends with its checksum."""
    text = json.dumps(content)
    told = {**content, CHECKSUM: checksum(text)}
    return json.dumps(told, indent=indent)


def unseal(text: bytes | str, required: bool) -> dict[str, Any] | None:
    """The object without its checksum; None where it is not what was written, or no object at all.

    Versions before wrote no checksum: without ``required`` an object that has none is taken as it is.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    given = found.pop(CHECKSUM, None)
    if given is None:
        return None if required else found
    return found if given == checksum(json.dumps(found)) else None


def checksum(text: str) -> str:
    # a word in front, so that no program takes the digits for a number
    return "blake2b-" + hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
