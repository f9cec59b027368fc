"""Checkpoints as files: which a folder holds, and the newest that is whole. No torch is needed for it."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from unskew.errors import InputError
from unskew.version import __version__

Found = TypeVar("Found")

log = logging.getLogger("unskew.state")  # a name that users listen to: it stays where modules move

FORMAT = 2
"""Version of the checkpoint's layout. Format 1, with flat memories, is read as well; another is refused."""

SEAL = "blake2b"
"""The last tensor of a checkpoint: a hash of every byte before it."""

SEAL_BYTES = 32


def checkpoints(folder: Path) -> list[tuple[int, Path]]:
    """The checkpoints of a folder by the round in their names, oldest first."""
    return sorted((int(path.stem), path) for path in folder.glob("*.safetensors") if path.stem.isdecimal())


def is_whole(path: Path) -> bool:
    """Whether a sealed checkpoint has the bytes that were written."""
    content, left = hashlib.blake2b(digest_size=SEAL_BYTES), path.stat().st_size - SEAL_BYTES
    with open(path, "rb") as file:
        while left > 0 and (piece := file.read(min(left, 1 << 20))):
            content.update(piece)
            left -= len(piece)
        return file.read() == content.digest()


def newest(
    folder: Path, framework: str, read: Callable[[Any, dict[str, Any]], Found | None], known: int | None
) -> Found | None:
    """What ``read`` makes of the newest whole checkpoint, of the first ``known`` rounds; None where there is none.

    ``read`` is handed the open file, for ``framework`` ("pt", "np"), and what the file says of itself. It gives None
    for a file that is to be passed over.
    """
    # imported only here: a GPU machine may have torch and numpy alone
    from safetensors import SafetensorError, safe_open

    for _, path in reversed(checkpoints(folder)):
        try:
            with safe_open(path, framework=framework) as file:
                # one without a seal is of a version that did not seal
                if SEAL in file.keys() and not is_whole(path):  # noqa: SIM118  not a dict
                    log.warning("%s is damaged and left out", path)
                    continue
                about = json.loads(file.metadata()["unskew"])
                version = about["format"]
                if version in (1, FORMAT):
                    if known is not None and about["round"] > known:
                        continue
                    found = read(file, about)
                    if found is not None:
                        return found
                    continue
        except (SafetensorError, KeyError, TypeError, ValueError, AttributeError, OSError):
            log.warning("%s cannot be read and is left out", path)
            continue  # damaged from outside: the one before it is whole
        writer = f"unskew {about['unskew']}" if "unskew" in about else "another version of unskew"
        raise InputError(
            f"{path.name} was written by {writer}, in checkpoint format {version}, and unskew {__version__} reads "
            f"formats up to {FORMAT}; resume it with the version that wrote it"
        )
    return None


def saved_round(folder: Path, known: int, model: Mapping[str, tuple[int, ...]]) -> int | None:
    """The round of the newest checkpoint, as ``unskew.core.state.load_state`` would find it, by its header alone.

    It holds a ``model`` of these names and shapes. None also where its tensors must be read to tell: a checkpoint of an
    earlier version has no seal that says that it is what was written.
    """

    def read(file: Any, about: dict[str, Any]) -> int | None:
        names = set(file.keys())
        if SEAL not in names or about["format"] != FORMAT:
            return UNTOLD
        held = all(
            f"params/{name}" in names and tuple(file.get_slice(f"params/{name}").get_shape()) == shape
            for name, shape in model.items()
        )
        return int(about["round"]) if held else None

    found = newest(folder, "np", read, known)
    return None if found == UNTOLD else found


UNTOLD = -1
"""The round of a checkpoint whose header does not tell."""
