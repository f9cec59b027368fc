"""Files that are whole or not there: whatever unskew writes as a whole is written here.

A draft is written beside its target, made durable, then renamed: the target is the old one or the new one, never half,
and a draft that fails is removed. Logs, which grow line by line, are the business of who keeps them.
"""

from __future__ import annotations

import os
import shutil
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
    """A folder beside ``path`` to fill; it takes the place of ``path`` if nothing fails, and leaves no trace if not."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=f".{path.name}-", suffix=".tmp", dir=path.parent))
    draft = beside / "new"
    draft.mkdir()
    try:
        yield draft
        if path.exists():
            os.replace(path, beside / "old")
        os.replace(draft, path)
    except BaseException:
        if (beside / "old").exists() and not path.exists():  # the new one could not follow
            os.replace(beside / "old", path)
        raise
    finally:
        shutil.rmtree(beside)
