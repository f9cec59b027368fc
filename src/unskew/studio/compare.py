"""What the Compare screen shows: picked runs of the folder, compared by the code of ``unskew report``."""

from __future__ import annotations

import hashlib
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unskew.errors import InputError, unknown
from unskew.report.page import Block, Heading, Paragraph
from unskew.report.results import words
from unskew.report.results.comparison import Comparison, compare_records
from unskew.report.results.damage import damage_told
from unskew.report.results.disclosure import disclosure_section
from unskew.report.results.gather import Record, read_record, with_metrics
from unskew.report.results.groups import Group, problems
from unskew.report.results.look import styles
from unskew.report.results.markup import notice
from unskew.report.results.search import LeftOut, left_out_told, run_folders
from unskew.report.results.sections import curves_section, front_section, leaderboard_section, target_section
from unskew.report.results.write import SUFFIXES, save
from unskew.report.theme import trust_charts
from unskew.studio.security import inside

FORMATS = {
    "png": "image/png",
    "svg": "image/svg+xml",
    "csv": "text/csv",
    "latex": "application/x-tex",
    "pdf": "application/pdf",
}
ROOM = 780  # pixels beside the list of runs, on a desk
WATCHED = ("spec.json", "rounds.jsonl", "result.json")

Stamp = tuple[tuple[int, int], ...]


@dataclass
class Comparer:
    """The runs of a folder, read once and again when their files change."""

    folder: Path
    held: dict[Path, tuple[Stamp, Record | str]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        trust_charts()

    def read(self) -> tuple[list[Record], list[LeftOut]]:
        """Every run that can be read, and what cannot."""
        left_out: list[LeftOut] = []
        try:
            folders = run_folders(self.folder, left_out)
        except InputError:
            return [], left_out  # there are no runs yet
        found: list[Record] = []
        with self.lock:
            for gone in self.held.keys() - set(folders):
                del self.held[gone]
            for folder in sorted(folders):
                record = self._record(folder)
                if isinstance(record, str):
                    left_out.append(LeftOut(self.named(folder), record))
                else:
                    found.append(record)
        return found, left_out

    def _record(self, folder: Path) -> Record | str:
        stamp = stamped(folder)
        known = self.held.get(folder)
        if known is None or known[0] != stamp:
            try:
                known = stamp, read_record(folder)
            except (InputError, OSError) as problem:
                known = stamp, str(problem)
            self.held[folder] = known
        return known[1]

    def named(self, folder: Path) -> str:
        """A run's name on the page: its place in the folder."""
        return folder.relative_to(self.folder).as_posix()

    def listing(self) -> dict[str, Any]:
        """What there is to pick: problems, their groups, and the runs of each."""
        records, left_out = self.read()
        return {
            "problems": [
                {
                    "name": problem.name,
                    "groups": [
                        {
                            "id": group_id(problem.name, group),
                            "label": group.label,
                            "complete": group.complete,
                            "runs": [self._told(record) for record in group.runs],
                        }
                        for group in problem.groups
                    ],
                }
                for problem in (problems(with_metrics(records)) if records else ())
            ],
            "left_out": left_out_told(left_out),
        }

    def _told(self, record: Record) -> dict[str, Any]:
        value = words.plain(record.value(record.final), record.metric) if record.judged else words.DASH
        assert record.path is not None
        return {
            "id": self.named(record.path),
            "seed": record.spec.seed,
            "status": record.status,
            "final": value,
        }

    def compared(
        self, picked: Sequence[str] = (), baseline: str | None = None, spread: Any = "ci"
    ) -> Comparison:
        """The picked groups and runs, or all of them, beside one another."""
        if spread not in ("ci", "sd"):
            raise unknown("spread", str(spread), ("ci", "sd"))
        records, left_out = self.read()
        if not records:
            raise InputError(
                "there is no run in this folder yet; start one on the Runs screen, or with unskew run"
            )
        if picked:
            records, left_out = self._picked(records, picked), []
        return compare_records(records, left_out, baseline or None, spread=spread)

    def _picked(self, records: Sequence[Record], picked: Sequence[str]) -> list[Record]:
        groups = {
            group_id(problem.name, group): group
            for problem in problems(with_metrics(records))
            for group in problem.groups
        }
        by_path = {record.path: record for record in records}
        wanted: dict[Path | None, None] = {}
        for name in picked:
            if name in groups:
                wanted |= dict.fromkeys(record.path for record in groups[name].runs)
            else:
                inside(self.folder, name)
                wanted[self.folder / name] = None
        found = [by_path[path] for path in wanted if path in by_path]
        if not found:
            raise InputError("none of the picked runs is there any more; pick others")
        return found

    def shown(self, compared: Comparison) -> dict[str, Any]:
        """A comparison as the page takes it: made by the report's own blocks."""
        return {
            "title": compared.headline.title,
            "lead": compared.headline.lead,
            "methods": sorted({record.spec.method for record in compared.records}),
            "html": "\n".join(str(block.html(at)) for at, block in enumerate(blocks(compared))),
        }


def blocks(compared: Comparison) -> list[Block]:
    """What the screen shows below its headline, in order."""
    looks = styles([rows for _, rows in compared.tables])
    several = len(compared.tables) > 1
    found: list[Block] = []
    if told := damage_told(compared.records):
        found.append(Paragraph(told))
    if compared.unfinished:
        lines = [f"{words_of(record)}" for record in compared.unfinished[:6]]
        more = len(compared.unfinished) - 6
        found.append(notice(lines + ([f"and {more} more"] if more > 0 else []), "Not finished"))
    for at, ((problem, rows), note) in enumerate(zip(compared.tables, compared.remarks, strict=True)):
        tail, level = f"-{at}", 3 if several else 2
        if several:
            found += [Heading(problem.name, f"problem{at}"), Paragraph(words.problem_line(rows, note))]
        found += leaderboard_section(rows, looks, tail, level)
        found += target_section(rows, tail, level)
        found += curves_section(rows, looks, tail, level, ROOM)
        found += front_section(rows, looks, tail, level, ROOM)
    found.append(Heading("What leaves a client", "disclosure"))
    found += disclosure_section(compared.tables)
    return found


def words_of(record: Record) -> str:
    """A run that is not done, in a line."""
    state = f"{record.status} after round {record.round} of {record.spec.rounds}"
    return f"{record.called}, seed {record.spec.seed}: {state}"


def exported(compared: Comparison, kind: str) -> tuple[bytes, str, str]:
    """A figure or table of the report: its bytes, their kind, and a name to save it under."""
    if kind not in FORMATS:
        raise unknown("format", kind, FORMATS)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / f"compare{SUFFIXES[kind][0]}"
        save(compared, place, kind)
        return place.read_bytes(), FORMATS[kind], place.name


def group_id(problem: str, group: Group) -> str:
    """Short, and the same as long as the group is: no run has a name like it."""
    return "g:" + hashlib.blake2b(f"{problem}\n{group.label}".encode(), digest_size=6).hexdigest()


def stamped(folder: Path) -> Stamp:
    """What changes when a run goes on."""
    found = []
    for name in WATCHED:
        try:
            about = (folder / name).stat()
            found.append((about.st_mtime_ns, about.st_size))
        except OSError:
            found.append((0, 0))
    return tuple(found)
