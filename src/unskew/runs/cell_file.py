"""What a sweep hands to the process of a cell: a file with its spec, its folder, and what a resume of it changes.

Values travel as they are, whatever a command line could spell; what nobody wrote is left out, so that it still gives
way to what the data says. Beside it lies word for the run once a watcher of the sweep wants its end.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unskew.errors import InputError
from unskew.files import write_file
from unskew.runs.spec import Spec
from unskew.runs.watchers import RoundEnded


def write_cell(file: Path, spec: Spec, folder: Path, renewed: Mapping[str, Any]) -> None:
    """Write a cell's file, whole or not at all."""
    told = {"spec": spec.said(), "folder": str(folder), "renewed": dict(renewed)}
    write_file(file, json.dumps(told, indent=1))


def read_cell(file: Path) -> tuple[Spec, Path, dict[str, Any]]:
    """(spec, folder, what a resume changes) of a cell's file."""
    try:
        told = json.loads(file.read_text("utf-8"))
        spec, folder, renewed = told["spec"], Path(told["folder"]), dict(told["renewed"])
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise InputError(
            f"{file} is no spec file of a sweep's cell ({problem}); run the sweep itself"
        ) from None
    return Spec.of(_tuples(spec)), folder, _tuples(renewed)


def _tuples(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


def write_stop(file: Path, reason: str, by: str) -> None:
    """Leave word for a cell's process that it is to end, and who asks."""
    write_file(stop_file(file), json.dumps({"reason": reason, "by": by}))


def stop_file(cell: Path) -> Path:
    """Where word for a cell lies: beside the file that it was handed."""
    return cell.with_suffix(".stop")


class Listening:
    """In a cell's process: asks for the run's end once the sweep has left word."""

    _trusted = True

    def __init__(self, cell: Path):
        self.file = stop_file(cell)

    @property
    def _called(self) -> str:
        return str(self._word().get("by", "sweep"))

    def round_ended(self, round: RoundEnded) -> None:
        if word := self._word():
            round.stop(word["reason"])

    def _word(self) -> dict[str, str]:
        return dict(json.loads(self.file.read_text("utf-8"))) if self.file.exists() else {}
