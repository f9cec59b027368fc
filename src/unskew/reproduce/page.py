"""The page of the book, made of the results: what was judged, what was not run, what the diagnosis takes from it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from unskew.report.evidence import Setting, held_out, signed
from unskew.report.situation import beyond_chance
from unskew.reproduce.exhibit import Exhibit, exhibits
from unskew.reproduce.making import as_markdown, rows_of, table_of
from unskew.reproduce.results import STATES, Gain, Judged, Line, gain, judge, only_rows, state


def evidence(lines: Mapping[str, Sequence[Line]]) -> list[dict[str, Any]]:
    """What the diagnosis is given: gains over FedAvg of every setting that was measured."""
    told = []
    for exhibit in (e for e in exhibits().values() if e.evidence):
        for group in exhibit.groups:
            found: dict[str, dict[str, Any]] = {}
            for cell in group.cells:
                against = type(cell)(cell.exhibit, cell.group, cell.method, group.base, None)
                got = gain(against, group, lines.get(exhibit.name, ()), "end")
                if got is not None and group.base in ("fedavg", "phase_shift(1)"):
                    half = None if got.half is None else round(got.half, 2)
                    found[cell.method] = {"mean": round(got.mean, 2), "half": half, "seeds": got.seeds}
            if found and group.skew:
                skew = group.skew
                told.append(
                    {
                        "exhibit": exhibit.name,
                        "group": group.name,
                        "said": group.said,
                        "dataset": str(group.experiment()[0]["dataset"]).partition("(")[0],
                        "emd": round(beyond_chance(skew["emd"], skew["chance"], skew["ceiling"]), 3),
                        "sparsity": skew["sparsity"],
                        "median_size": skew["median_size"],
                        "classes": skew["classes"],
                        "gains": found,
                    }
                )
    return told


def pack_evidence(lines: Mapping[str, Sequence[Line]]) -> str:
    """The text of the file that the diagnosis reads."""
    entries = [json.dumps(entry, ensure_ascii=False) for entry in evidence(lines)]
    return "[\n" + ",\n".join(entries) + "\n]\n"


def sections(lines: Mapping[str, Sequence[Line]]) -> dict[str, str]:
    """The made parts of the page, by their marks."""
    judged = {e.name: judge(e, lines.get(e.name, ())) for e in exhibits().values()}
    return {
        "exhibits": _exhibits(judged, lines),
        "gains": _gains(judged),
        "open": _not_run(judged, lines),
        "held out": _held_out(lines),
    }


def fill(text: str, made: Mapping[str, str]) -> str:
    """The page with its made parts made anew."""
    for mark, part in made.items():
        pattern = re.compile(rf"(<!-- {mark} -->\n).*?(<!-- end {mark} -->)", re.S)
        if not pattern.search(text):
            raise ValueError(f"the page has no mark <!-- {mark} -->")
        text = pattern.sub(lambda match, part=part: match[1] + part + "\n" + match[2], text)  # type: ignore[misc]
    return text


def row_sections(text: str, lines: Mapping[str, Sequence[Line]]) -> dict[str, str]:
    """The tables that a page shows of exhibits' rows, by their marks: ``rows EXHIBIT``."""
    made = {}
    for name in re.findall(r"<!-- rows ([\w.-]+) -->", text):
        head, cells = table_of(exhibits()[name], rows_of(lines.get(name, ())))
        made[f"rows {name}"] = as_markdown(head, cells)
    return made


def _exhibits(judged: Mapping[str, Sequence[Judged]], lines: Mapping[str, Sequence[Line]]) -> str:
    rows = ["| exhibit | paper | cells | state |", "|---|---|--:|---|"]
    for exhibit in exhibits().values():
        found = judged[exhibit.name]
        where = f"{exhibit.paper}, {exhibit.where}"
        rows.append(
            f"| `{exhibit.name}` | {where} | {len(found)} | {state(found, lines.get(exhibit.name, ()))} |"
        )
    return "\n".join(rows)


def _gains(judged: Mapping[str, Sequence[Judged]]) -> str:
    rows = [
        "| method | over | setting | paper | ours, best round | ours, in the end | seeds | |",
        "|---|---|---|--:|--:|--:|--:|---|",
    ]
    for exhibit in exhibits().values():
        for one in judged[exhibit.name]:
            if one.told is None:
                continue
            printed = "" if one.cell.printed is None else signed(one.cell.printed)
            numbers = " | ".join("" if g is None else str(g) for g in (one.best, one.end))
            method = (
                f"[`{one.cell.method}`]({exhibit.page})"
                if exhibit.page != "papers.md"
                else f"`{one.cell.method}`"
            )
            said = f"`{one.cell.over}` | {one.group.said} | {printed} | {numbers} | {one.told.seeds}"
            rows.append(f"| {method} | {said} | {one.verdict} |")
    return "\n".join(rows)


def _not_run(judged: Mapping[str, Sequence[Judged]], lines: Mapping[str, Sequence[Line]]) -> str:
    rows = ["| exhibit | cells not run | command | one run on a CPU | on a GPU |", "|---|--:|---|---|---|"]
    for exhibit in exhibits().values():
        missing = [one for one in judged[exhibit.name] if one.verdict == "not run"]
        if missing and not (only_rows(judged[exhibit.name]) and rows_of(lines.get(exhibit.name, ()))):
            groups = dict.fromkeys(one.cell.group for one in missing)
            whole = len(groups) == len(exhibit.groups)
            cells = "" if whole else "".join(f" --cells {name}" for name in groups)
            rows.append(
                f"| `{exhibit.name}` | {len(missing)} | `unskew reproduce {exhibit.name}{cells}` | {exhibit.cpu} | "
                f"{exhibit.gpu} |"
            )
    return "\n".join(rows)


def _held_out(lines: Mapping[str, Sequence[Line]]) -> str:
    judged = held_out([Setting(**entry) for entry in evidence(lines)])
    there = [one for one in judged if one["gain"] is not None]
    won = sum(one["gain"] > 0 for one in there)
    first = [one for one in there if one["judged"] == one["recommended"]]
    best = sum(one["gain"] > 0 for one in first)
    methods, winners = (sum(one[key] for one in there) for key in ("run_there", "won_there"))
    rows = [
        f"It beats FedAvg in **{won} of {len(there)}** settings. Where the first recommendation itself was run there: "
        f"{best} of {len(first)}. Blind choice among all that was run in those {len(there)} settings: {winners} of "
        f"{methods}. In "
        f"{len(judged) - len(there)} other settings nothing was near, or nothing that was recommended was run.",
        "",
        "<!-- from: python docs/book/make.py -->",
        "| setting | recommended without its data set | the first of these that was run there | gain over FedAvg |",
        "|---|---|---|--:|",
    ]
    for one in judged:
        gained = "" if one["gain"] is None else signed(one["gain"])
        cells = [
            f"{one['setting']} (`{one['exhibit']}`)",
            _code(one["recommended"]),
            _code(one["judged"]),
            gained,
        ]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def _code(name: str | None) -> str:
    return "nothing" if name is None else f"`{name}`"


def points(lines: Mapping[str, Sequence[Line]]) -> list[tuple[str, float, Gain | None, Gain | None]]:
    """What the picture shows: of every claim that was run, the paper's gain and ours."""
    found = []
    for exhibit in exhibits().values():
        for one in judge(exhibit, lines.get(exhibit.name, ())):
            if one.told is not None and one.cell.printed is not None:
                label = f"{_short(one, exhibit)} · {one.group.said}"
                label += "" if one.verdict in STATES else f", {one.verdict}"
                found.append((label, one.cell.printed, one.best, one.end))
    return found


def _short(one: Judged, exhibit: Exhibit) -> str:
    """A method's name where there is little room."""
    method = one.cell.method
    return method if len(method) <= 30 else method.partition("(")[0] + "(…)"
