"""Finding runs: in a folder and below it, nested or not, with what was left out and why."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from unskew.errors import InputError
from unskew.progress import working
from unskew.runs.folder import reason


@dataclass(frozen=True)
class LeftOut:
    """A run or a folder that no number of a report is of."""

    name: str
    why: str
    unfinished: bool = False  # a run that may still be counted once it is done


def run_folders(path: Path, left_out: list[LeftOut]) -> list[Path]:
    """The folder itself if it holds a run, and those below it that do, also inside of runs; what it may not look into.

    Folders whose names begin with a dot are not looked into: drafts, environments, histories.
    """
    if not path.exists():
        raise InputError(f"there is no run folder {path}")
    if not path.is_dir():
        raise InputError(f"{path} is a file; name the run folder, the one with spec.json in it")
    found: list[Path] = []
    with working(f"looking for runs in {path}") as advance:
        _look(path, found, left_out, set(), advance)
    if not found:
        hidden = f" ({left_out[0].name} was left out: {left_out[0].why})" if left_out else ""
        raise InputError(
            f"{path} is not a run folder and holds none: there is no spec.json in or below it{hidden}"
        )
    return found


def _look(
    first: Path,
    found: list[Path],
    left_out: list[LeftOut],
    seen: set[tuple[int, int]],
    advance: Callable[[int], None],
) -> None:
    """Walk down, every folder once: links may lead in a circle."""
    ahead = [first]
    while ahead:
        folder = ahead.pop()
        advance(1)
        try:
            about = folder.stat()
            if (about.st_dev, about.st_ino) in seen:
                continue
            seen.add((about.st_dev, about.st_ino))
            with os.scandir(folder) as entries:
                inner = [entry.name for entry in entries if entry.is_dir() or entry.name == "spec.json"]
        except OSError as problem:
            if folder == first:
                raise InputError(f"cannot read {folder} ({reason(problem)}); make it readable") from None
            left_out.append(LeftOut(str(folder), f"it cannot be read ({reason(problem)})"))
            continue
        if "spec.json" in inner and (folder / "spec.json").is_file():
            found.append(folder)
        for name in inner:
            if not name.startswith("."):
                if name != "spec.json":
                    ahead.append(folder / name)
            elif os.path.isfile(folder / name / "spec.json"):
                left_out.append(LeftOut(str(folder / name), "its name begins with a dot"))


def left_out_told(left_out: Sequence[LeftOut], most: int = 12) -> list[str]:
    """What was left out and why, a line each, and how many more there are."""
    told = [f"{left.name}: {left.why}" for left in left_out[:most]]
    return told + ([f"and {len(left_out) - most} more"] if len(left_out) > most else [])
