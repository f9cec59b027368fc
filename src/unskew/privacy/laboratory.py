"""Everything at once: what a run gave away, and what attackers get out of it, as files in the run's folder.

attack/attack.json     every number, with what it cost in time
attack/pictures.npz    originals and reconstructions, as numbers from 0 to 1
attack/*.png, attack.html   the same drawn (``unskew.report.attack.page``), where the drawing libraries are
"""

from __future__ import annotations

import importlib.util
import io
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from unskew.core.engine import Engine
from unskew.core.views import View
from unskew.data.files import read_npz
from unskew.errors import InputError, unknown
from unskew.expression import refuse_absurd
from unskew.files import write_file
from unskew.import_object import drawing_of
from unskew.machine.threads import single_threaded
from unskew.privacy.context import Context, identify
from unskew.privacy.exposure import exchanges, exposure
from unskew.privacy.inversion import Inversion, invert
from unskew.privacy.reconstruction import Reconstruction, reconstruct
from unskew.privacy.subject import Subject, subject
from unskew.progress import voice, working
from unskew.renamed import accepts_old_names
from unskew.runs.client_names import with_numbers
from unskew.runs.correlation import correlation
from unskew.runs.folder import reason
from unskew.sealed import seal, unseal
from unskew.version import __version__

FORMAT = 2
UNSEALED = 1
"""The version before, without a checksum."""

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
    """What came out, and where it lies; sections and pictures of earlier attacks stay until they are made again."""

    record: dict[str, Any]
    folder: Path
    pictures: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    page: Path | None = None

    @classmethod
    def at(cls, run: Path) -> Attacked:
        """What earlier attacks left in a run's folder, which must be one that can be written to."""
        folder = run / FOLDER
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder} is in the way of a folder; move it")
        if run.is_dir() and not os.access(folder if folder.exists() else run, os.W_OK):
            raise InputError(f"{run} may not be written to; copy the run to where it may")
        return cls(read(run) or {}, folder, saved_pictures(folder / "pictures.npz"))

    def save(self) -> None:
        """Write all numbers and pictures there are."""
        self.folder.mkdir(exist_ok=True)
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **{k: _bytes(v) for k, v in self.pictures.items()})  # type: ignore[arg-type]
        write_file(self.folder / "pictures.npz", buffer.getvalue())
        write_file(self.folder / "attack.json", seal(self.record, indent=1))

    def draw(self) -> None:
        """Draw what was saved, where it can be drawn."""
        if drawable() and self.folder.is_dir():
            self.page = drawing_of("unskew.report.attack.page:draw")(self.folder)


@accepts_old_names(data="dataset", views="view")
def attack(
    path: str | Path,
    *,
    only: Sequence[str] = (),
    rounds: Sequence[int] = (),
    view: Sequence[str] = (),
    reconstruction: Reconstruction | None = None,
    context: Context | None = None,
    inversion: Inversion | None = None,
    seed: int = 0,
    dataset: Any = None,
    model: Any = None,
    data_folder: str | None = None,
    device: str | None = None,
    engine: Engine | None = None,
    progress: bool = True,
) -> Attacked:
    """Attack a run and write what came out to its folder.

    ``only`` names some of ``ATTACKS``; ``rounds`` whose models are attacked (those that were kept, and the last, by
    default); ``view`` what is attacked where it is not what the method shares, such as ``features(conv1)`` of a run
    of FedAvg. A method that shares no data, with no view named, is judged by its updates alone. ``engine`` is one of
    your own for the clients to live in: attackers reach them by its verbs, and have samples of their own beside.
    """
    for how in (reconstruction, context, inversion):
        if how is not None:
            refuse_absurd(how)
    for name in only:
        if name not in ATTACKS:
            raise unknown("attack", name, ATTACKS)
    wanted = list(only) or list(ATTACKS)
    made = Attacked.at(Path(path))
    with single_threaded():
        given = {"dataset": dataset, "model": model, "data_folder": data_folder, "device": device}
        found = subject(path, **given, engine=engine)
        shown = found.views(tuple(view))
        if (
            only
            and not shown
            and (lacking := [n for n in only if n in ("correlation", "reconstruction", "context")])
        ):
            raise InputError(
                f"{found.spec.method} shares no data to attack by {lacking[0]}; name a view, such as "
                f"--view 'features({(found.net.judging.layers or ('conv1',))[0]})'"
            )
        at_rounds = list(dict.fromkeys(rounds)) or found.rounds
        if not at_rounds:
            raise InputError(
                f"{path} has no checkpoint that can be read, so there is no model to attack; let it run first"
            )
        for r in at_rounds:
            found.model(r)  # one that is not there is refused before any work
        if "inversion" in wanted:
            found.state()  # likewise
        made.record |= {
            "format": FORMAT,
            "unskew": __version__,
            "run": found.path.name,
            "method": found.spec.method,
            "dataset": found.dataset.name,
            "discloses": list(found.setup.job.method.discloses),
        }
        attempt = Attempt(
            found,
            shown,
            at_rounds,
            decoding=reconstruction or Reconstruction(samples=ON_A_CPU if found.device == "cpu" else None),
            detecting=context or Context(),
            inverting=inversion or Inversion(),
            seed=seed,
            progress=progress,
            pictures=made.pictures,
        )
        try:
            for name in (name for name in ATTACKS if name in wanted):
                began = time.perf_counter()
                section = getattr(attempt, name)()
                if section:
                    took = round(time.perf_counter() - began, 2)
                    cost = found.setup.run.measuring.added_to({})
                    made.record[name] = {"seed": seed, "wall_s": took} | section | cost
                    made.save()  # whatever comes next, this is kept
                elif only:
                    shape = "x".join(map(str, found.dataset.shape))
                    raise InputError(
                        f"there is nothing to attack by {name} in samples of shape {shape}; leave it out"
                    )
        except InputError:
            made.draw()  # what was found before stays, and is shown
            raise
        finally:
            found.setup.run.engine.close()
    made.draw()
    return made


def _bytes(picture: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return picture if picture.dtype == np.uint8 else np.round(picture * 255).astype(np.uint8)


def saved_pictures(place: Path) -> dict[str, np.ndarray[Any, Any]]:
    """The pictures that earlier attacks left."""
    return read_npz(place) if place.exists() else {}


def read(run: Path) -> dict[str, Any] | None:
    """What attacks on a run found, where it was attacked."""
    place = run / FOLDER / "attack.json"
    if not place.is_file():
        return None
    try:
        content = place.read_bytes()
    except OSError as problem:
        raise InputError(f"cannot read {place} ({reason(problem)}); make it readable") from None
    record = unseal(content, required=False)
    if record is not None and record.get("format") == FORMAT:
        record = unseal(content, required=True)
    if record is None:
        raise InputError(
            f"{place} is damaged: it is not JSON that fits its checksum; remove it and attack the run again"
        )
    if not {"method", "dataset", "discloses"} <= set(record):
        raise InputError(f"{place} is damaged: it holds no record; remove it and attack the run again")
    return record if record.get("format") in (FORMAT, UNSEALED) else None


def drawable() -> bool:
    """Whether pictures can be drawn here: a GPU machine may have torch and numpy alone."""
    return all(importlib.util.find_spec(name) is not None for name in ("altair", "vl_convert", "PIL"))


@dataclass
class Attempt:
    """The attacks on a run, by their names in ``ATTACKS``; where there is nothing to attack nothing comes back."""

    found: Subject
    shown: dict[str, View]
    rounds: Sequence[int]
    decoding: Reconstruction
    detecting: Context
    inverting: Inversion
    seed: int
    progress: bool
    pictures: dict[str, np.ndarray[Any, Any]]

    @property
    def targets(self) -> list[tuple[str, View, int]]:
        """(part, what it shows, of which round's model); once where the model does not matter."""
        return [
            (part, v, r)
            for part, v in self.shown.items()
            for r in (self.rounds if v.of_model else self.rounds[-1:])
        ]

    def exposure(self) -> dict[str, Any]:
        clients, names = self.found.setup.job.roster.clients, self.found.setup.job.roster.names
        lines = [with_numbers(line, names) for line in self.found.folder.lines]
        return {
            "clients": clients,
            "rounds": [line["round"] for line in lines],
            "epsilon": exposure(lines, clients),
            "shares": any(True for line in lines for _ in exchanges(line, clients)),
        }

    def correlation(self) -> dict[str, Any]:
        """c of the models there are, and of every round where the run measured it as it went."""
        if not self.shown:
            return {}
        found, batch = self.found, self.found.spec.batch
        told: dict[str, Any] = {"batch": batch, "models": [], "over_rounds": {}}
        for part, v, r in self.targets:
            c = correlation(found.setup.run, found.model(r)[1], v, batch)
            told["models"].append({"part": part, "view": str(v), "round": r} | c)
        for part, v in self.shown.items():
            measured = [
                (line["round"], line["distance_correlation"][part])
                for line in found.folder.lines
                if part in (line.get("distance_correlation") or {})
            ]
            if measured:
                rounds, cs = zip(*measured, strict=True)
                told["over_rounds"][part] = {"view": str(v), "rounds": list(rounds), "c": list(cs)}
        return told

    def reconstruction(self) -> dict[str, Any]:
        how, results = self.decoding, []
        if not self.targets:
            return {}
        for key in [k for k in self.pictures if k.startswith("reconstruction ")]:
            del self.pictures[key]  # of an earlier attack
        with bar(
            "reconstruction", len(self.targets) * how.steps(len(self.found.dataset)), self.progress
        ) as advance:
            for part, v, r in self.targets:
                made = reconstruct(
                    self.found, self.found.model(r)[1], v, how, seed=self.seed, advance=advance
                )
                results.append({"part": part, "round": r} | made.record)
                self.pictures["originals"] = made.originals.numpy()
                self.pictures[f"reconstruction {v} round {r}"] = made.found.numpy()
        return {"settings": asdict(how), "results": results}

    def context(self) -> dict[str, Any]:
        how = self.detecting
        if not self.targets or len(self.found.dataset.shape) != 3:
            return {}
        with bar("context", len(self.targets) * how.work, self.progress) as advance:
            results = [
                {"part": part, "round": r}
                | identify(self.found, self.found.model(r)[1], v, how, seed=self.seed, advance=advance)
                for part, v, r in self.targets
            ]
        return {"settings": asdict(how), "results": results}

    def inversion(self) -> dict[str, Any]:
        """Of the last model, whatever rounds are named: an update needs what server and clients remember beside it."""
        with bar("inversion", self.inverting.work, self.progress) as advance:
            out = invert(self.found, self.inverting, seed=self.seed, advance=advance)
        self.pictures["inversion originals"] = out.originals.numpy()
        self.pictures["inversion found"] = out.found.numpy()
        return {"settings": asdict(self.inverting), "round": self.found.state().round} | out.record


@contextmanager
def bar(what: str, total: int, shown: bool) -> Iterator[Callable[[int], None]]:
    """How far an attack is, on standard error: a bar with the time left, or lines."""
    with voice(shown), working(f"{what}, steps", total) as advance:
        yield advance
