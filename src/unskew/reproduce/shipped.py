"""The results that come with an installed unskew: the repository's, without what only a picture needs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from unskew.reproduce.exhibit import Exhibit, exhibits
from unskew.reproduce.line_settings import changed_settings
from unskew.reproduce.results import Line, accuracy

FILE = Path(__file__).parent / "results.json"
LEFT_OUT = (
    "exhibit",
    "accuracy",
    "after_round",
    "setting",
    "judged_every",
    "bytes_down",
    "bytes_up",
    "bytes_peer",
    "sample_steps",
    "model_sha256",
    "final_loss",
    "origin",
    "emd",
    "sparsity",
    "scarcity",
)
"""What only a picture or the repository needs."""


@cache
def _shipped() -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = json.loads(FILE.read_text("utf-8"))
    return found


def shipped_lines(exhibit: str) -> list[dict[str, Any]]:
    """What was found of an exhibit so far."""
    return _shipped().get(exhibit, [])


def pack(lines: Mapping[str, Sequence[Line]]) -> str:
    """The file's text, from all lines of the repository."""
    known = exhibits()
    packed = []
    for name, found in sorted(lines.items()):
        short = [json.dumps(_short(line, known[name]), sort_keys=True) for line in found]
        packed.append(f"{json.dumps(name)}: [\n" + ",\n".join(short) + "\n]")
    return "{\n" + ",\n".join(packed) + "\n}\n"


def _short(line: Line, exhibit: Exhibit) -> dict[str, Any]:
    """A line whose curve became the numbers that are read off it."""
    if "row" in line:
        return {name: line[name] for name in ("group", "method", "row", "version", "seconds")}
    group = next(g for g in exhibit.groups if g.name == line["group"])
    short = {k: v for k, v in line.items() if k not in LEFT_OUT}
    if changed_settings(line, group):  # else they are the exhibit's
        short["setting"] = line["setting"]
    if line.get("accuracy"):
        readings: Iterable[Any] = ("best", "end", "final")
        for reading in readings:
            value = accuracy(line, group, reading)
            short[reading] = {"accuracy": None if value is None else round(value / 100, 6)}
    return short
