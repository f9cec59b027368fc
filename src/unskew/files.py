"""Files that are whole or not there: whatever unskew writes as a whole is written here.

A draft is written beside its target, made durable, then renamed: the target is the old one or the new one, never half,
and a draft that fails is removed. Logs, which grow line by line, are the business of who keeps them.
"""

from __future__ import annotations

import glob
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

Content = str | bytes | Iterable[bytes | memoryview]
"""Text (written in UTF-8), bytes, or a stream of pieces of bytes."""


def write_file(path: Path, content: Content) -> None:
    """Write a file whole or not at all; its folder must exist."""
    data = content.encode() if isinstance(content, str) else content
    with replace_file(path) as draft, draft.open("wb") as file:
        for piece in [data] if isinstance(data, bytes) else data:
            file.write(piece)


@contextmanager
def replace_file(path: Path, make_folder: bool = False) -> Iterator[Path]:
    """A name beside ``path`` to write a draft to; the draft takes the place of ``path`` if nothing fails.

    For what writes files by their names; ``write_file`` is for what is in memory or comes in pieces.
    """
    if make_folder:
        path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield draft
        with draft.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def replace_folder(path: Path) -> Iterator[Path]:
    """A folder beside ``path`` to fill; it takes the place of ``path`` if nothing fails, and leaves no trace if not.

    Where the system can exchange two folders at once, whoever looks, and whoever is killed, finds the old one or the
    new one. Elsewhere the old one steps aside first; a process that was killed in between left it there, and the next
    that replaces the folder puts it back before anything else.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _put_back(path)
    beside = Path(tempfile.mkdtemp(prefix=f".{path.name}-", suffix=".tmp", dir=path.parent))
    draft = beside / "new"
    draft.mkdir()
    try:
        yield draft
        if not path.exists():
            os.replace(draft, path)
        elif not _exchange(draft, path):
            os.replace(path, beside / "old")
            os.replace(draft, path)
    except BaseException:
        _put_back(path)  # the new one could not follow
        raise
    finally:
        if path.exists() or not (beside / "old").exists():  # else that is all there is
            shutil.rmtree(beside)


def _put_back(path: Path) -> None:
    """Give a folder its name again that stepped aside for one that never came."""
    unique = "?" * 8  # of mkdtemp, and no more: another folder's name may begin with this one's
    for old in () if path.exists() else path.parent.glob(f".{glob.escape(path.name)}-{unique}.tmp/old"):
        os.replace(old, path)
        return


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two names at once; False where the system cannot."""
    if sys.platform != "linux":
        return False
    import ctypes  # which most commands do without

    this_folder, exchange = -100, 2
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    return bool(rename(this_folder, os.fsencode(one), this_folder, os.fsencode(other), exchange) == 0)
