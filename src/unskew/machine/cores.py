"""How many cores this process may use: what it is bound to, what its container allows, what ``UNSKEW_CORES`` says."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from unskew.errors import InputError

LIMIT = "UNSKEW_CORES"
"""At most so many: a sweep gives each of its runs its share by it."""


def cores() -> int:
    """The cores this process may use, at least one; a part of one that a container has counts as a whole."""
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    allowed = [bound, *(quota for quota in (container_quota(), _limit()) if quota is not None)]
    return max(1, math.ceil(min(allowed)))


def container_quota(proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> float | None:
    """The cores that a container's or a scheduler's control groups allow; None where nothing bounds them.

    A group is bounded by all those above it. Inside a container its own path may not be there, but those above are.
    """
    try:
        lines = (proc / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return None
    quotas: list[float] = []
    for line in lines:
        _, kinds, path = (*line.split(":", 2), "", "")[:3]
        if not kinds:  # version 2
            quotas += [quota for group in _upwards(groups, path) if (quota := _version_2(group))]
        elif "cpu" in kinds.split(","):
            for mounted in {"cpu", kinds}:
                quotas += [
                    quota for group in _upwards(groups / mounted, path) if (quota := _version_1(group))
                ]
    return min(quotas, default=None)


def _upwards(root: Path, path: str) -> Iterator[Path]:
    """A group and all above it."""
    inside = PurePosixPath(path.lstrip("/"))
    return (root / above for above in (inside, *inside.parents))


def _version_2(group: Path) -> float | None:
    words = _words(group / "cpu.max")  # "150000 100000", or "max 100000"
    return _share(words[0], words[1]) if len(words) == 2 else None


def _version_1(group: Path) -> float | None:
    quota, period = _words(group / "cpu.cfs_quota_us"), _words(group / "cpu.cfs_period_us")
    return _share(quota[0], period[0]) if quota and period else None


def _words(file: Path) -> list[str]:
    try:
        return file.read_text().split()
    except OSError:
        return []


def _share(quota: str, period: str) -> float | None:
    try:
        used, of = int(quota), int(period)
    except ValueError:  # "max": no bound
        return None
    return used / of if used > 0 and of > 0 else None


def _limit() -> int | None:
    given = os.environ.get(LIMIT, "").strip()
    if not given:
        return None
    if not given.isdecimal() or int(given) < 1:
        raise InputError(f"{LIMIT} is a number of cores, at least 1, not {given!r}")
    return int(given)
