"""Which checkpoints a folder holds, by their names alone: reading a run's folder needs no torch."""

from __future__ import annotations

from pathlib import Path


def checkpoints(folder: Path) -> list[tuple[int, Path]]:
    """The checkpoints of a folder by the round in their names, oldest first."""
    return sorted((int(path.stem), path) for path in folder.glob("*.safetensors") if path.stem.isdecimal())
