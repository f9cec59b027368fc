"""Everything at once: what a run gave away, and what attackers get out of it, as files in the run's folder.

attack/attack.json     every number, with what it cost in time
attack/pictures.npz    originals and reconstructions, as numbers from 0 to 1
attack/*.png, attack.html   the same drawn (``unskew.privacy.page``), where the drawing libraries are
"""

from __future__ import annotations

import importlib.util
import io
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from unskew import __version__
from unskew.errors import InputError, unknown
from unskew.privacy.context import Context, identify
from unskew.privacy.correlation import correlation, drawn
from unskew.privacy.exposure import exchanges, exposure
from unskew.privacy.inversion import Inversion, invert
from unskew.privacy.reconstruction import Reconstruction, reconstruct
from unskew.privacy.subject import Subject, subject
from unskew.run import single_threaded
from unskew.state import write_atomically

FORMAT = 1
FOLDER = "attack"
ATTACKS = {
    "exposure": "who was given whose data: eps of every round, from the log",
    "correlation": "the distance correlation c of what is shared with the samples behind it",
    "reconstruction": "a decoder that turns what is shared back into samples",
    "context": "a detector of a mark in clients' samples, against how many examples it learns from",
    "inversion": "samples out of model updates",
}
"""Every attack by name, in the order they are made."""

ON_A_CPU = 5000
"""Samples that the reconstruction's attacker has on a CPU unless told otherwise: minutes instead of hours."""


@dataclass
class Attacked:
    """What came out, and where it lies."""

    record: dict[str, Any]
    folder: Path
    pictures: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    page: Path | None = None


def attack(
    path: str | Path,
    *,
    only: Sequence[str] = (),
    rounds: Sequence[int] = (),
    views: Sequence[str] = (),
    reconstruction: Reconstruction | None = None,
    context: Context | None = None,
    inversion: Inversion | None = None,
    seed: int = 0,
    data: Any = None,
    model: Any = None,
    data_folder: str | None = None,
    device: str | None = None,
    progress: bool = True,
) -> Attacked:
    """Attack a run and write what came out to its folder.

    ``only`` names some of ``ATTACKS``; ``rounds`` whose models are attacked (those that were kept, and the last, by
    default); ``views`` what is attacked where it is not what the method shares, such as ``features(conv1)`` of a run
    of FedAvg. A method that shares no data, with no view named, is judged by its updates alone.
    """
    for name in only:
        if name not in ATTACKS:
            raise unknown("attack", name, ATTACKS)
    wanted = list(only) or list(ATTACKS)
    began = time.perf_counter()
    with single_threaded():
        found = subject(path, data=data, model=model, data_folder=data_folder, device=device)
        shown = found.views(tuple(views))
        if (
            only
            and not shown
            and (lacking := [n for n in only if n in ("correlation", "reconstruction", "context")])
        ):
            raise InputError(
                f"{found.spec.method} shares no data to attack by {lacking[0]}; name a view, such as "
                f"--view 'features({(found.net.judging.layers or ('conv1',))[0]})'"
            )
        at_rounds = list(rounds) or found.rounds
        if not at_rounds:
            raise InputError(
                f"{path} has no checkpoint yet, so there is no model to attack; let it run first"
            )
        for r in at_rounds:
            found.model(r)  # one that is not there is refused before any work
        cpu = found.device == "cpu"
        how_r = reconstruction or Reconstruction(samples=ON_A_CPU if cpu else None)
        how_c, how_i = context or Context(), inversion or Inversion()
        pictures: dict[str, Any] = {}
        record: dict[str, Any] = {
            "format": FORMAT,
            "unskew": __version__,
            "run": found.path.name,
            "method": found.spec.method,
            "dataset": found.dataset.name,
            "seed": seed,
            "discloses": list(found.setup.job.method.discloses),
            "views": {part: str(v) for part, v in shown.items()},
            "rounds": at_rounds,
        }
        if "exposure" in wanted:
            record["exposure"] = _exposure(found)
        if "correlation" in wanted and shown:
            record["correlation"] = _correlation(found, shown, at_rounds)
        attackable = [
            (part, v, r) for part, v in shown.items() for r in (at_rounds if v.of_model else at_rounds[-1:])
        ]
        if "reconstruction" in wanted and attackable and len(found.dataset.shape):
            with bar(
                "reconstruction", len(attackable) * how_r.steps(len(found.dataset)), progress
            ) as advance:
                record["reconstruction"] = {"settings": asdict(how_r), "results": []}
                for part, v, r in attackable:
                    made = reconstruct(found, found.model(r)[1], v, how_r, seed=seed, advance=advance)
                    record["reconstruction"]["results"].append({"part": part, "round": r} | made.record)
                    pictures["originals"] = made.originals.numpy()
                    pictures[f"reconstruction {v} round {r}"] = made.found.numpy()
        if "context" in wanted and attackable and len(found.dataset.shape) == 3:
            with bar("context", len(attackable) * how_c.work, progress) as advance:
                record["context"] = {"settings": asdict(how_c), "results": []}
                for part, v, r in attackable:
                    told = identify(found, found.model(r)[1], v, how_c, seed=seed, advance=advance)
                    record["context"]["results"].append({"part": part, "round": r} | told)
        if "inversion" in wanted:
            with bar("inversion", how_i.work, progress) as advance:
                out = invert(found, how_i, seed=seed, advance=advance)
            record["inversion"] = {"settings": asdict(how_i), "round": found.state().round} | out.record
            pictures["inversion originals"] = out.originals.numpy()
            pictures["inversion found"] = out.found.numpy()
        found.setup.job.engine.close()
    record["wall_s"] = round(time.perf_counter() - began, 2)
    made_at = Attacked(record, found.path / FOLDER, pictures)
    save(made_at)
    return made_at


def save(made: Attacked) -> None:
    """Write the numbers and, where they can be drawn, the pictures; a part attacked before stays as it was."""
    made.folder.mkdir(exist_ok=True)
    place = made.folder / "attack.json"
    if place.is_file():
        made.record = _merged(read(made.folder.parent) or {}, made.record)
    before = made.folder / "pictures.npz"
    if before.is_file():
        with np.load(before) as held:
            made.pictures = {k: held[k] for k in held.files} | made.pictures
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **{k: _bytes(v) for k, v in made.pictures.items()})  # type: ignore[arg-type]
    write_atomically(before, buffer.getvalue())
    write_atomically(place, json.dumps(made.record, indent=1))
    if drawable():
        from unskew.privacy.page import draw

        made.page = draw(made.folder)


def _bytes(picture: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return picture if picture.dtype == np.uint8 else np.round(picture * 255).astype(np.uint8)


def _merged(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """This attack over an earlier one of the same run: sections that were not made again are kept."""
    kept = {k: before[k] for k in ATTACKS if k in before and k not in now}
    return now | kept


def read(run: Path) -> dict[str, Any] | None:
    """What attacks on a run found, where it was attacked."""
    place = run / FOLDER / "attack.json"
    if not place.is_file():
        return None
    try:
        record: dict[str, Any] = json.loads(place.read_text())
    except ValueError:
        raise InputError(f"{place} is damaged: it is not JSON; remove it and attack the run again") from None
    return record if record.get("format") == FORMAT else None


def drawable() -> bool:
    """Whether pictures can be drawn here: a GPU machine may have torch and numpy alone."""
    return all(importlib.util.find_spec(name) is not None for name in ("altair", "vl_convert", "PIL"))


def _exposure(found: Subject) -> dict[str, Any]:
    clients = found.setup.job.federation.clients
    lines = found.folder.lines
    return {
        "clients": clients,
        "rounds": [line["round"] for line in lines],
        "epsilon": exposure(lines, clients),
        "shares": any(True for line in lines for _ in exchanges(line, clients)),
    }


def _correlation(found: Subject, shown: dict[str, Any], rounds: Sequence[int]) -> dict[str, Any]:
    """c of the models there are, and of every round where the run measured it as it went."""
    batch = found.spec.batch
    told: dict[str, Any] = {"batch": batch, "models": [], "over_rounds": {}}
    for part, v in shown.items():
        batches = drawn(found.dataset, v, batch, found.spec.seed, found.device, found.dtype)
        for r in rounds if v.of_model else rounds[-1:]:
            told["models"].append(
                {"part": part, "view": str(v), "round": r}
                | correlation(found.net, found.model(r)[1], v, batches)
            )
        measured = [
            (line["round"], line["distance_correlation"][part])
            for line in found.folder.lines
            if part in (line.get("distance_correlation") or {})
        ]
        if measured:
            told["over_rounds"][part] = {"rounds": [r for r, _ in measured], "c": [c for _, c in measured]}
    return told


@contextmanager
def bar(what: str, total: int, shown: bool) -> Iterator[Callable[[int], None]]:
    """How far an attack is, on standard error: a bar with the time left, or a line about every tenth."""
    from rich.console import Console

    if not shown:
        yield lambda amount: None
        return
    console = Console(stderr=True)
    if console.is_terminal:
        from rich import progress as rich

        columns = (rich.TextColumn("[bold]{task.description}"), rich.BarColumn(), rich.MofNCompleteColumn())
        with rich.Progress(*columns, rich.TimeRemainingColumn(), console=console) as drawn_bar:
            task = drawn_bar.add_task(what, total=total)
            yield lambda amount: drawn_bar.advance(task, amount)
        return
    began, done = time.monotonic(), 0

    def line(amount: int) -> None:
        nonlocal done
        done, before = done + amount, done
        if done * 10 // total != before * 10 // total:
            left = (time.monotonic() - began) / done * max(0, total - done)
            console.print(f"{what}: step {done:,} of {total:,}, {left:.0f} s left", highlight=False)

    yield line
