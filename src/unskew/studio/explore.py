"""What the partition explorer shows: a partition, measured, drawn and judged, from the values of a form."""

from __future__ import annotations

import shlex
import threading
import time
import zipfile
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from unskew.data import Dataset, load
from unskew.data.cells import TABLES
from unskew.data.files import data_folder
from unskew.data.partition import FAMILIES, Family, Partition, partition, solutions
from unskew.data.partition.parameters import expression_of, parameters
from unskew.data.sources import SOURCES
from unskew.errors import InputError, unknown
from unskew.expression import parse_one, path_and_options, summary, write_value
from unskew.report.about import about, shortly, totals
from unskew.report.charts import client_class_matrix, client_sizes, emd_histogram
from unskew.report.diagnosis import Diagnosis, diagnose
from unskew.report.diagnosis_page import said
from unskew.report.results.gather import natural_key, read_record
from unskew.report.results.search import run_folders
from unskew.report.theme import themed, trust_charts
from unskew.studio.security import inside

MOST_DATASETS = 4  # whose labels are kept
MOST_FILES = 200  # offered by name
MOST_CLIENTS = 10_000  # of a slider's answer; the command line has no such bound
WIDE, HALF = 620, 420  # of plots: with the longest labels and the legend they fit beside the form
MEASURES = ("EMD of the system", "sparsity", "scarcity", "KLD", "size imbalance (Gini)")


@dataclass(frozen=True)
class Asked:
    """What the form says, checked but for what only the data knows."""

    data: str
    family: type[Family]
    values: Mapping[str, str]
    clients: int = 100
    fraction: float = 1.0
    seed: int = 0

    @classmethod
    def read(cls, form: Mapping[str, str]) -> Asked:
        """From texts: ``data``, ``family``, ``clients``, ``fraction``, ``seed`` and ``p.NAME`` for each parameter."""
        name = form.get("family", "dirichlet")
        if name not in FAMILIES:
            raise unknown("partition", name, FAMILIES)
        clients = read_number(form, "clients", "100", int)
        if clients > MOST_CLIENTS:
            raise InputError(
                f"the explorer draws at most {MOST_CLIENTS:,} clients, not {clients:,}; unskew partition takes more"
            )
        return cls(
            form.get("data", "digits"),
            FAMILIES[name],
            {key.removeprefix("p."): value for key, value in form.items() if key.startswith("p.")},
            clients,
            read_number(form, "fraction", "1", float),
            read_number(form, "seed", "0", int),
        )


def read_number(form: Mapping[str, str], name: str, otherwise: str, kind: Any) -> Any:
    text = form.get(name, "").strip() or otherwise
    try:
        return kind(text)
    except ValueError:
        wanted = "a whole number" if kind is int else "a number"
        raise InputError(f"{name} must be {wanted}, not {text[:40]!r}") from None


@dataclass
class Explorer:
    """Partitions of the data sets on this machine and of the files in one folder; keeps the labels it has read."""

    folder: Path
    data_folder: str | None = None
    held: OrderedDict[tuple[str, float], Dataset] = field(default_factory=OrderedDict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        trust_charts()

    def offered(self) -> dict[str, Any]:
        """Data sets that are here, files of the folder, and the families with a line about each."""
        place = data_folder(self.data_folder)
        here = [name for name, source in SOURCES.items() if not source.forms or source().find(place)]
        return {
            "datasets": here,
            "files": list(self._files()),
            "families": [{"name": name, "about": summary(cls)} for name, cls in FAMILIES.items()],
        }

    def form(self, asked: Asked) -> dict[str, Any]:
        """The parameters of the family on this data, for the form to show."""
        dataset = self.labels_of(asked.data)
        return {
            "parameters": [one.as_dict() for one in parameters(asked.family, dataset.classes)],
            "knob": asked.family.knob,
            "columns": [write_value(name) for name in dataset.columns],
            "samples": len(dataset),
            "about": summary(asked.family),
        }

    def explore(self, asked: Asked) -> dict[str, Any]:
        """Everything that the page shows of one partition."""
        start = time.perf_counter()
        dataset, part = self.dealt(asked)
        shown = picture_of(dataset, part)
        expression = shortly(part.record["expression"])
        return shown | {
            "commands": commands(self.named(asked.data), expression, asked, part),
            "milliseconds": round(1000 * (time.perf_counter() - start)),
        }

    def solve(self, asked: Asked, emd: float) -> dict[str, Any]:
        """The values of the family's parameters that give this EMD on this data."""
        dataset = self.labels_of(asked.data)
        free = {*asked.family.free} - {asked.family.knob}
        tries = [{asked.family.knob}, *([{asked.family.knob, *free}] if free else [])]
        for at, without in enumerate(tries):  # what the form says stays where it can
            expression = expression_of(asked.family, asked.values, dataset.classes, without)
            try:
                part = self._partition(asked, dataset, expression, emd)
            except InputError:
                if at + 1 == len(tries):
                    raise
            else:
                return {"values": values_of(part.record["expression"]), "emd": part.record["emd"]}
        raise AssertionError("the last way raises")

    def solve_all(self, asked: Asked, emd: float) -> list[dict[str, Any]]:
        """Every family's settings that have this EMD on this data."""
        found = solutions(emd, self.labels_of(asked.data), asked.clients, fraction=asked.fraction)
        return [
            {
                "expression": text,
                "emd": str(exact),
                "family": parse_one(text, "partition").name,
                "values": values_of(text),
            }
            for text, exact in found
        ]

    def save(self, asked: Asked, name: str) -> Path:
        """Write the partition into the folder; never over a file."""
        if not name.endswith(".npz"):
            raise InputError(
                f"a partition is saved as .npz, not as {name!r}; write {name or 'partition'}.npz"
            )
        place = inside(self.folder, name)
        if place.exists():
            raise InputError(f"{name} is there already; choose another name")
        return self.dealt(asked)[1].save(place)

    def dealt(self, asked: Asked) -> tuple[Dataset, Partition]:
        """The labels and who holds them."""
        dataset = self.labels_of(asked.data)
        return dataset, self._partition(
            asked, dataset, expression_of(asked.family, asked.values, dataset.classes)
        )

    def _partition(
        self, asked: Asked, dataset: Dataset, expression: str, emd: float | None = None
    ) -> Partition:
        # where the data says who the clients are, the slider does not
        clients = None if asked.family.natural_clients is not Family.natural_clients else asked.clients
        return partition(dataset, expression, clients, asked.seed, fraction=asked.fraction, emd=emd)

    def labels_of(self, data: str) -> Dataset:
        """A data set without its samples: labels and columns are all that a partition looks at."""
        path, inner = path_and_options(data, self.folder)
        if parse_name(data) in SOURCES:
            source = SOURCES[parse_name(data)]
            if source.forms and source().find(data_folder(self.data_folder)) is None:
                raise InputError(
                    f"{data} is not on this machine; unskew datasets {source.name} says where to get it"
                )
            key, named = (data, 0.0), data
        else:
            place = inside(self.folder, path)
            if not place.exists():
                raise InputError(f"there is no file {path!r} in the folder of this studio")
            key, named = (data, place.stat().st_mtime), f"{place}{inner}"
        with self.lock:
            if key not in self.held:
                try:
                    whole = load(named, self.data_folder)
                except InputError as problem:  # by the name that the page has for it
                    raise InputError(str(problem).replace(f"{self.folder.resolve()}/", "")) from None
                self.held[key] = replace(
                    whole,
                    x=np.empty((len(whole.y), 0), np.uint8),
                    x_test=np.empty((len(whole.y_test), 0), np.uint8),
                )
            self.held.move_to_end(key)
            while len(self.held) > MOST_DATASETS:
                self.held.popitem(last=False)
            return self.held[key]

    def named(self, data: str) -> str:
        """The data as a command line names it, from where the studio was started."""
        return data if parse_name(data) in SOURCES else str(self.folder / data)

    def _files(self) -> Iterator[str]:
        found = sorted(
            file
            for pattern in ("*", "*/*")
            for file in self.folder.glob(pattern)
            if file.is_file() and (file.suffix.lower() in TABLES or _holds_samples(file))
        )
        for file in found[:MOST_FILES]:
            yield file.relative_to(self.folder).as_posix()


def _holds_samples(file: Path) -> bool:
    """Whether an .npz file is data, and not a partition."""
    if file.suffix.lower() != ".npz":
        return False
    try:
        with zipfile.ZipFile(file) as held:
            return "offsets.npy" not in held.namelist()
    except (OSError, zipfile.BadZipFile):
        return False


def parse_name(data: str) -> str:
    """What stands before the brackets."""
    return data.partition("(")[0].strip()


def values_of(expression: str) -> dict[str, str]:
    """The parameters of an expression as a form shows them, with four digits."""
    call = parse_one(expression, "partition")
    return {
        name: f"{value:.4g}"
        if isinstance(value, float)
        else value
        if isinstance(value, str)
        else write_value(value)
        for name, value in call.kwargs
    }


def picture_of(dataset: Dataset, part: Partition) -> dict[str, Any]:
    """A partition in numbers, pictures and words."""
    found = diagnose(
        part.counts,
        dataset=dataset.name,
        about=about(dataset, part),
        labels=dataset.labels,
        record=part.record,
        names=part.names,
    )
    return shown_diagnosis(found)


def shown_diagnosis(found: Diagnosis) -> dict[str, Any]:
    """A diagnosis as the page takes it: the report's own charts and tables."""
    numbers = [one for one in found.findings if one.measure.startswith(MEASURES)]
    matrix = client_class_matrix(
        found.counts, found.skew, found.labels, found.about, width=WIDE, names=found.names
    )
    charts = {
        "matrix": matrix,
        "emd": emd_histogram(found.skew, width=HALF),
        "sizes": client_sizes(found.skew, scarce=found.scarce, width=HALF, names=found.names),
    }
    return {
        "headline": found.headline,
        "about": found.about,
        "clients": found.skew.clients,
        "numbers": [
            {"measure": one.measure, "value": one.value, "span": one.span, "chance": one.chance}
            for one in numbers
        ],
        "charts": {name: themed(chart) for name, chart in charts.items()},
        "said": "\n".join(str(block.html(at)) for at, block in enumerate(said(found))),
        "notes": list(found.record.get("notes") or ()),
    }


def held_partitions(folder: Path) -> list[dict[str, str]]:
    """The runs whose partition was kept: one for each partition, however many runs there are of it."""
    found: dict[str, dict[str, str]] = {}
    for place in sorted(run_folders(folder, []), key=natural_key):
        if (place / "partition.npz").is_file():
            try:
                part = Partition.load(place / "partition.npz")
            except InputError:
                continue  # a damaged one shows as such with its run
            record = part.record
            said = (
                f"{record.get('dataset') or 'data'} · {shortly(record['expression'])} · seed {record['seed']}"
            )
            found.setdefault(record["sha256"], {"name": place.relative_to(folder).as_posix(), "said": said})
    return list(found.values())


def partition_of_run(place: Path) -> dict[str, Any]:
    """What is known of a run's partition, from its folder alone: the data need not be here."""
    record = read_record(place)
    if record.partition is None:
        raise InputError(record.no_partition or f"{place.name} kept no partition")
    part = record.partition
    known = [str(name) for name in record.data.get("labels") or ()]
    names = known if len(known) == part.counts.shape[1] else None
    dataset = str(record.data.get("name") or "data")
    said_of_it = (
        f"{dataset} · {shortly(part.record['expression'])} · seed {part.record['seed']} · {totals(part)}"
    )
    found = diagnose(
        part.counts, dataset=dataset, about=said_of_it, labels=names, record=part.record, names=part.names
    )
    return shown_diagnosis(found)


def commands(data: str, expression: str, asked: Asked, part: Partition) -> dict[str, str]:
    """The same on the command line: the partition alone, and a run on it."""
    dealt = [] if part.names is not None else ["--clients", str(part.clients)]
    dealt += [] if asked.fraction == 1 else ["--fraction", f"{asked.fraction:g}"]
    seed = ["--seed", str(asked.seed)] if asked.seed else []
    return {
        "partition": shlex.join(["unskew", "partition", data, expression, *dealt, *seed]),
        "run": shlex.join(["unskew", "run", "--dataset", data, "--partition", expression, *dealt, *seed]),
    }
