"""Makes the book of its results: ``python docs/book/make.py``.

From ``docs/book/results/*.jsonl``: the made parts of docs/papers.md, the tables of exhibits' rows on any page (between
``<!-- rows EXHIBIT -->`` and its end), numbers in prose that
``<!-- = SOURCE -->`` follows (``unskew.reproduce.prose``), pictures, and the two files that an installed unskew brings
along (what ``unskew reproduce`` shows, and what ``unskew diagnose`` recommends from). Lines of new runs are added by
``python docs/book/make.py runs/reproduce/EXHIBIT/results.jsonl``: they take the place of older lines of the same run,
and of means over seeds. A line whose settings are not the exhibit's is refused before anything is written.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import altair as alt

from unskew.errors import InputError
from unskew.files import write_file
from unskew.report.drawing import save_chart
from unskew.report.evidence import FILE as EVIDENCE
from unskew.report.theme import BLUE, MUTED, SKY
from unskew.reproduce.curves import draw_curves
from unskew.reproduce.exhibit import exhibits
from unskew.reproduce.line_settings import changed_settings, say_changed
from unskew.reproduce.making import draw_rows, rows_of
from unskew.reproduce.page import fill, pack_evidence, points, row_sections, sections
from unskew.reproduce.prose import MARKED, fill_numbers
from unskew.reproduce.results import Line, read_lines, read_results
from unskew.reproduce.running import merge_lines
from unskew.reproduce.shipped import FILE as SHIPPED
from unskew.reproduce.shipped import pack

HERE = Path(__file__).parent
DOCS = HERE.parent
RESULTS, IMAGES = HERE / "results", DOCS / "img"
DRAWN = {
    "daca-figure4": "daca-figure-4.png",
    "daca-figure5": "daca-figure-5.png",
    "daca-figure6": "daca-figure-6.png",
    "daca-clusters": "daca-clusters.png",
    "seol-kim-round": "seol_kim.svg",
    "thesis-figure3.1": "emd-of-dirichlet.png",
    "thesis-figure3.2": "sizes-of-dirichlet.png",
    "thesis-figure3.3": "emds-of-dirichlet.png",
}
"""Exhibits whose pictures need nothing but their rows."""
PAPER, BEST, END = "the paper", "unskew, best round", "unskew, in the end"


def made() -> dict[Path, str]:
    """Every file that is made of the results, with its text."""
    lines = read_lines(RESULTS)
    files = {SHIPPED: pack(lines), EVIDENCE: pack_evidence(lines)}
    for page in (*DOCS.glob("*.md"), *DOCS.glob("methods/*.md")):
        text = page.read_text("utf-8")
        parts = row_sections(text, lines) | (sections(lines) if page.name == "papers.md" else {})
        filled = fill_numbers(fill(text, parts), lines)
        if parts or MARKED.search(text):
            files[page] = filled
    return files


def draw(lines: dict[str, list[Line]]) -> None:
    """A dumbbell for every claim that was run."""
    rows: list[dict[str, Any]] = []
    for label, printed, best, end in points(lines):
        told = {PAPER: printed, BEST: best and best.mean, END: end and end.mean}
        rows += [{"label": label, "who": who, "gain": v} for who, v in told.items() if v is not None]
    order = list(dict.fromkeys(row["label"] for row in rows))
    y = alt.Y("label:N").sort(order).axis(title=None, labelLimit=400, grid=False, ticks=False, domain=False)
    x = alt.X("gain:Q").title("gain, points")
    data = alt.InlineData(values=rows)
    colour = alt.Color("who:N").scale(domain=[PAPER, BEST, END], range=[MUTED, SKY, BLUE])
    between = alt.Chart(data).mark_line(color=MUTED, opacity=0.4).encode(y=y, x=x, detail="label:N")
    dots = alt.Chart(data).mark_point(filled=True, size=70, opacity=1)
    dots = dots.encode(y=y, x=x, color=colour.legend(title=None, orient="top"))
    zero = alt.Chart(alt.InlineData(values=[{"x": 0}])).mark_rule(color=MUTED).encode(x="x:Q")
    chart = alt.layer(zero, between, dots).properties(width=460, height=alt.Step(18))
    save_chart(chart, IMAGES / "papers.png", "Gains of the papers and ours")


def fit(file: Path) -> list[dict[str, Any]]:
    """The lines of new runs, if all are for the book: of cells that there are, with the exhibits' own settings."""
    lines = read_results(file)
    for number, line in enumerate(lines, 1):
        if (problem := unfit(line)) is not None:
            raise InputError(f"{file}, line {number} is not for the book: {problem}; nothing was added")
    return lines


def unfit(line: Line) -> str | None:
    """Why a line is not for the book."""
    if line["exhibit"] not in exhibits():
        return f"there is no exhibit {line['exhibit']!r}"
    if "row" in line:
        changed = line.get("setting", {})
        return f"its row is of runs with {_said(changed)}, other than the exhibit's" if changed else None
    groups = {group.name: group for group in exhibits()[line["exhibit"]].groups}
    group = groups.get(line["group"])
    if group is None or line["method"] not in group.methods:
        return f"{line['exhibit']} has no cell {line['group']}/{line['method']}"
    changed = changed_settings(line, group)
    return f"its run has {say_changed(changed, group, line['method'])}" if changed else None


def _said(changed: Line) -> str:
    return ", ".join(f"{name} = {value}" for name, value in changed.items())


def add(new: list[dict[str, Any]]) -> None:
    """The lines of new runs, into the repository's."""
    for exhibit in dict.fromkeys(line["exhibit"] for line in new):
        target = RESULTS / f"{exhibit}.jsonl"
        old = read_results(target) if target.exists() else []
        kept = merge_lines(old, [line for line in new if line["exhibit"] == exhibit])
        write_file(target, "".join(json.dumps(line) + "\n" for line in kept))


def main() -> None:
    try:
        new = [line for file in sys.argv[1:] for line in fit(Path(file))]
    except (InputError, OSError) as problem:
        sys.exit(f"error: {problem}")
    add(new)
    for file, text in made().items():
        file.write_text(text, encoding="utf-8")
    lines = read_lines(RESULTS)
    draw(lines)
    for name, picture in DRAWN.items():
        draw_rows(exhibits()[name], rows_of(lines[name]), RESULTS, IMAGES / picture)
    group = exhibits()["sem-table1"].groups[0]
    draw_curves(lines["sem-table1"], group, IMAGES / "curves-sem.png", window=9, part="sem")


if __name__ == "__main__":
    main()
