"""From what a user names (runs, run folders, a sweep's folder) to the records that a report is made of."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from filelock import FileLock, Timeout

from unskew.errors import InputError, unknown
from unskew.progress import working
from unskew.readings import METRICS, Reading, check_twice
from unskew.report.results.search import LeftOut, run_folders
from unskew.report.results.spelling import declared_disclosures
from unskew.runs.chosen import ChosenOn, best_line, chosen_on
from unskew.runs.folder import Damage, read_folder
from unskew.runs.judged_by import chosen, explain_blank, reading_of
from unskew.runs.spec import Spec
from unskew.runs.watchers import Stopped

if TYPE_CHECKING:
    from unskew.data.partition import Partition
    from unskew.runs.ended import Run

    Named: TypeAlias = Run | str | Path
    Runs: TypeAlias = Named | Sequence[Named]

ACCURACY = METRICS["accuracy"].key
DIRECTIONS = ("down", "up", "peer")
DIVERGED = 1e3
"""A loss that no model has that still learns: a guess among a million classes has 14."""


@dataclass(frozen=True)
class Travelled:
    """Bytes as they were sent to sites and back, and site -> the rounds in which it had no part."""

    down: int
    up: int
    lost: dict[str, list[int]]


@dataclass(frozen=True, eq=False)
class Record:
    """One run as a report sees it, whatever state it is in. ``name`` is its folder, or its place in a list."""

    name: str
    path: Path | None
    spec: Spec
    data: dict[str, Any]
    lines: Sequence[dict[str, Any]]
    result: dict[str, Any]
    status: str  # done, failed, running, or interrupted: said to be running, but nobody holds its lock
    held: Partition | None = field(default=None, repr=False)
    damage: Damage = field(default_factory=Damage)
    label: str | None = None  # what the report is told to call its method
    metrics: tuple[Reading, ...] = (METRICS["accuracy"],)  # that the report tells; it goes by the first

    @property
    def called(self) -> str:
        """What the method is called: by the report's own label, by the run's, else by its expression."""
        return self.label or self.spec.method_label or self.spec.method

    @property
    def metric(self) -> Reading:
        """What the report goes by."""
        return self.metrics[0]

    @cached_property
    def evaluated(self) -> list[dict[str, Any]]:
        """The rounds in which the global model was judged on the global test set."""
        return [line for line in self.lines if number(line.get(ACCURACY)) is not None]

    @cached_property
    def judged(self) -> list[dict[str, Any]]:
        """Those of them that have a number to go by."""
        return [line for line in self.evaluated if self.metric.of_line(line) is not None]

    def value(self, line: dict[str, Any]) -> float:
        """The number of a judged round that the report goes by."""
        found = self.metric.of_line(line)
        assert found is not None
        return found

    def blank(self, metric: Reading) -> str:
        """Why the last round has no number of a metric."""
        return explain_blank(metric, self.evaluated[-1], self.data)

    @property
    def round(self) -> int:
        """How many rounds were played."""
        return int(self.lines[-1]["round"]) if self.lines else 0

    @property
    def stopped(self) -> Stopped | None:
        """Why it ended before its last round, where it is done and did."""
        return Stopped.read(self.result.get("stopped")) if self.status == "done" else None

    @property
    def ends_after(self) -> int:
        """How many rounds it has when it is done."""
        return self.spec.rounds if self.stopped is None else self.stopped.rounds

    @property
    def final(self) -> dict[str, Any]:
        """The last round that was judged."""
        return self.judged[-1]

    @property
    def best(self) -> dict[str, Any]:
        """The first of the rounds that are best, on what they are ``chosen_on``."""
        return best_line(self.judged, self.metric)

    @property
    def chosen_on(self) -> ChosenOn:
        """Validation samples where the run set some aside, else the test set."""
        return chosen_on(self.judged, self.metric)

    @property
    def diverged(self) -> bool:
        """Whether training blew up: the last loss is none that a model can have, or no last answer was usable."""
        if not self.evaluated:
            return False
        # a log without losses says nothing of them
        loss = number(self.evaluated[-1].get("global_test_loss", 0.0))
        last = self.lines[-1]
        rejected = len(last.get("rejected") or ())
        kept = max(0, int(last.get("trained_only") or 0) - rejected)  # of clients that were not to upload
        refused = bool(rejected) and not last.get("answered") and not kept
        return loss is None or loss > DIVERGED or refused

    def total(self, name: str, last: int | None = None) -> float:
        """A cost, added up over the rounds, or over those up to the ``last``."""
        return sum(
            number(line.get(name)) or 0 for line in self.lines if last is None or int(line["round"]) <= last
        )

    @property
    def bytes_moved(self) -> float:
        return sum(moved(line) for line in self.lines)

    @property
    def sites(self) -> Travelled | None:
        """What really went to sites and came back, and in which rounds each was lost; None of a simulation."""
        told = {int(line["round"]): line["sites"] for line in self.lines if "sites" in line}
        if not told:
            return None
        lost: dict[str, list[int]] = {}
        for number_, line in told.items():
            for site in line.get("lost", {}):
                lost.setdefault(site, []).append(number_)
        down, up = (sum(line[f"bytes_{way}"] for line in told.values()) for way in ("down", "up"))
        return Travelled(down, up, lost)

    def bytes_by_kind(self) -> Counter[tuple[str, str]]:
        """(direction, kind) -> bytes, over all rounds."""
        kinds: Counter[tuple[str, str]] = Counter()
        for line in self.lines:
            for direction in DIRECTIONS:
                for kind, count in (line.get("bytes") or {}).get(direction, {}).items():
                    kinds[direction, kind] += count
        return kinds

    def named(self, kind: str) -> list[tuple[int, list[int]]]:
        """(round, clients) of the answers that were ``rejected`` or came ``late``."""
        return [(int(line["round"]), list(line[kind])) for line in self.lines if line.get(kind)]

    def first_round_at(self, target: float) -> int | None:
        """The first round that is as good as the target."""
        reaches = self.metric.reaches
        return next((int(line["round"]) for line in self.judged if reaches(self.value(line), target)), None)

    @property
    def discloses(self) -> tuple[str, ...] | None:
        """What left a client beyond a model update: as logged, else as the method declares; None: not known."""
        if "discloses" in self.result:
            return tuple(self.result["discloses"])
        return declared_disclosures(self.spec.method)

    @property
    def partition(self) -> Partition | None:
        """Who held what; None where that was not kept or cannot be read any more."""
        return self._partition[0]

    @property
    def no_partition(self) -> str:
        """Why it cannot be read, where it is there."""
        return self._partition[1]

    @cached_property
    def _partition(self) -> tuple[Partition | None, str]:
        from unskew.data.partition import Partition

        if self.held is not None or self.path is None or not (self.path / "partition.npz").exists():
            return self.held, ""
        try:
            return Partition.load(self.path / "partition.npz"), ""
        except InputError as problem:
            return None, str(problem)  # the numbers stand without the picture


def gather(runs: Runs) -> list[Record]:
    """The records of runs, run folders, or folders with run folders at any depth; each folder once."""
    return look_into(runs)[0]


def look_into(runs: Runs) -> tuple[list[Record], list[LeftOut]]:
    """The records that ``gather`` gives, and what was found beside them but cannot be read."""
    named = list_names(runs)
    if not named:
        raise InputError("there is nothing to report: name at least one run folder")
    records: list[Record] = []
    left_out: list[LeftOut] = []
    folders: dict[
        Path, tuple[Path, bool]
    ] = {}  # by their whole path: as found, and whether it was named itself
    for item in named:
        if not isinstance(item, (str, Path)):
            if not hasattr(item, "folder"):
                raise InputError(f"a report is of runs, or of folders that hold them, not of {item!r}")
            if item.path is None:
                records.append(record_of(item, f"run {len(records) + 1}, in memory"))
                continue
            item = item.path
        for folder in sorted(run_folders(Path(item), left_out), key=natural_key):
            folders.setdefault(folder.resolve(), (folder, folder == Path(item)))
    with working("reading runs", len(folders)) as advance:
        for folder, was_named in folders.values():
            try:
                records.append(read_record(folder))
            except InputError as problem:
                if was_named or len(folders) == 1:
                    raise
                left_out.append(LeftOut(str(folder), str(problem)))
            advance(1)
    if not records:
        raise InputError(f"none of {len(folders)} runs can be read, the first since {left_out[-1].why}")
    return records, left_out


def list_names(runs: Runs) -> list[Named]:
    """What was named, as a list, whether it was one thing or many."""
    return list(runs) if isinstance(runs, Sequence) and not isinstance(runs, str) else [runs]


def natural_key(path: Path | str) -> list[tuple[float, str]]:
    """Sort seed-2 before seed-10, and dirichlet(0.05) before dirichlet(0.1)."""
    words = re.split(r"(\d+(?:\.\d+)?)", str(path))
    return [(float(word), "") if word[:1].isdigit() else (-1.0, word) for word in words]


def record_of(run: Run, name: str = "this run") -> Record:
    """A run that is at hand, as it stands."""
    folder = run.folder
    return Record(
        name,
        run.path,
        run.spec,
        folder.result.get("data", {}),
        folder.lines,
        folder.result,
        folder.result.get("status", "interrupted"),
        getattr(run, "partition", None),
        metrics=chosen(run.spec.metrics, folder.result.get("data", {})),
    )


def with_metrics(records: Sequence[Record], asked: Sequence[str] = ()) -> list[Record]:
    """The records with what the report tells of them: what was asked for, else what the runs were judged by.

    Where runs name different metrics first, the report goes by accuracy.
    """
    if asked:
        check_twice(asked)
        given = {name: record for record in records for name in record.data.get("own_metrics") or {}}
        for name in asked:
            if name not in METRICS and name not in given:
                raise unknown("metric in these runs called", name, {*METRICS, *given})
        wanted = tuple(reading_of(name, given[name].data if name in given else {}) for name in asked)
    else:
        lists = [chosen(record.spec.metrics, record.data) for record in records]
        every = list({reading.name: reading for some in lists for reading in some}.values())
        first = lists[0][0] if len({some[0].name for some in lists}) == 1 else METRICS["accuracy"]
        wanted = (first, *(reading for reading in every if reading.name != first.name))
    return [replace(record, metrics=wanted) for record in records]


def read_record(path: Path) -> Record:
    """A run's folder as it stands, whatever state it is in."""
    folder, spec, data = read_folder(path)
    status = folder.result.get("status", "running")
    if folder.damage.result and len(folder.lines) == spec.rounds:
        status = "done"  # the log has it all
    elif status == "running" and not is_alive(path):
        status = "interrupted"
    lines = [with_new_names(line, data) for line in folder.lines + folder.beyond]
    return Record(str(path), path, spec, data, lines, folder.result, status, damage=folder.damage)


def with_new_names(line: dict[str, Any], data: Mapping[str, Any]) -> dict[str, Any]:
    """A line of a log; earlier versions did not say on which samples clients' accuracies were found."""
    kind = "test" if data.get("of_clients") else "train"
    return {RENAMED[name].format(kind) if name in RENAMED else name: value for name, value in line.items()}


RENAMED = {
    "mean_client_accuracy": "mean_client_{}_accuracy",
    "worst_client_accuracy": "worst_client_{}_accuracy",
}


def is_alive(path: Path) -> bool:
    """Whether a process holds the folder: a kill, however hard, lets go of the lock."""
    lock = FileLock(path / "lock", timeout=0)
    if not Path(lock.lock_file).is_file():
        return False
    try:
        lock.acquire()
    except Timeout:
        return True
    except OSError:
        return False  # a read-only copy: nobody can be writing here
    lock.release()
    return False


def moved(line: dict[str, Any]) -> float:
    """All bytes of a round: down, up and between clients."""
    return sum(number(line.get(f"bytes_{direction}")) or 0 for direction in DIRECTIONS)


def number(value: Any) -> float | None:
    """A finite number, or None: a diverged model logs NaN."""
    return value if isinstance(value, (int, float)) and math.isfinite(value) else None
