"""How much memory there is, so that what cannot fit is refused in a sentence before it is allocated."""

from __future__ import annotations

import os
import re
from pathlib import Path

from unskew.errors import InputError


def memory() -> int:
    """Bytes of memory of this machine, or of the container that this is."""
    try:
        least = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on this system: nothing is refused
        return 1 << 62
    for name in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            least = min(least, int(Path(name).read_text()))
        except (OSError, ValueError):  # no such file, or "max"
            continue
    return least


def refuse_larger(needed: float, what: str, instead: str) -> None:
    """Refuse what takes more memory than there is; ``needed`` is in bytes and may be a low estimate."""
    if needed > (there := memory()):
        raise InputError(
            f"{what} would take {in_words(needed)} of memory, and there are {in_words(there)}; {instead}"
        )


def in_words(size: float) -> str:
    """31.4 GB, in powers of a thousand."""
    for unit in ("bytes", "kB", "MB", "GB", "TB", "PB"):
        if size < 1000 or unit == "PB":
            return f"{size:.3g} {unit}"
        size /= 1000
    return ""


def memory_sentence(error: BaseException) -> str | None:
    """What to say of an allocation that failed all the same; None where it was something else."""
    said = str(error)
    if re.search(r"shared memory", said):
        return (
            "there is too little shared memory (/dev/shm) for several processes; write --workers 1, or give this "
            "machine or container more of it (docker run --shm-size=2g)"
        )
    if not isinstance(error, MemoryError) and not re.search(
        r"can't allocate memory|[Oo]ut of memory|not enough memory|[Uu]nable to allocate", said
    ):
        return None
    tried = re.search(r"(?:tried to allocate|allocate) ([\d.,]+ ?[A-Za-z]+)", said)
    how = f" (it asked for {tried[1]} at once)" if tried else ""
    return f"this does not fit into memory{how}; take a smaller model, fewer clients a round or less data"
