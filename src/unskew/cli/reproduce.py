"""``unskew reproduce``: the papers' tables and figures, run again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unskew.cli.app import app
from unskew.cli.options import Json
from unskew.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from unskew.reproduce.exhibit import Exhibit
    from unskew.reproduce.results import Judged


@app.command()
def reproduce(
    name: Annotated[
        str | None, typer.Argument(metavar="[EXHIBIT]", help="Which table or figure; none: list them.")
    ] = None,
    cells: Annotated[
        list[str] | None,
        typer.Option("--cells", metavar="CELL", help="A group, a method, or group/method; default: all."),
    ] = None,
    rounds: Annotated[int | None, typer.Option("--rounds", min=1, help="Other than the paper's.")] = None,
    seeds: Annotated[
        str | None,
        typer.Option("--seeds", metavar="0-2", help="Which seeds, as 0-2 or 0,3; default: the recipe's."),
    ] = None,
    device: Annotated[str | None, typer.Option("--device", help="cpu, cuda or auto.")] = None,
    precision: Annotated[
        str | None, typer.Option("--precision", help="fp32, tf32, bf16 or fp64.", show_default=False)
    ] = None,
    data_folder: Annotated[
        str | None, typer.Option("--data-folder", metavar="FOLDER", help="Where published files lie.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FOLDER", help="Where the runs go; default: runs/reproduce/EXHIBIT."
        ),
    ] = None,
    processes: Annotated[int | None, typer.Option("--processes", "-j", help="Runs at a time.")] = None,
    show: Annotated[
        bool, typer.Option("--show", help="Only show what was found so far; run nothing.")
    ] = False,
    draw: Annotated[
        Path | None,
        typer.Option(
            "--draw",
            metavar="PICTURE.png",
            help="Draw it: the exhibit's own picture, or accuracy over rounds of one group.",
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="One tiny cell of every exhibit, on a CPU.")] = False,
    as_json: Json = False,
) -> None:
    """List the papers' tables and figures; with an EXHIBIT: run what is missing of it, ours beside theirs."""
    from unskew.reproduce.exhibit import exhibit_of, exhibits

    given = {"rounds": rounds, "device": device, "precision": precision, "data_folder": data_folder}
    if quick:
        if name is not None and name not in exhibits():
            exhibit_of(name)
        _quick([name] if name else list(exhibits()), as_json)
    elif name is None:
        _list(as_json)
    else:
        exhibit = exhibit_of(name)
        place = out or Path("runs") / "reproduce" / name
        lines = _found(exhibit, place)
        if not show:
            wanted = {k: v for k, v in given.items() if v is not None}
            lines = _merged(
                lines, _run(exhibit, place, cells or [], wanted, _numbers(seeds), processes, as_json)
            )
        _shown(exhibit, lines, cells or [], as_json)
        if draw is not None:
            _draw(exhibit, lines, cells or [], place, draw)


def _run(
    exhibit: Exhibit,
    place: Path,
    cells: list[str],
    given: dict[str, Any],
    seeds: list[int],
    processes: int | None,
    as_json: bool,
) -> list[dict[str, Any]]:
    """The runs that are missing, then what the exhibit's own function makes of them."""
    from unskew.cli.sweep import Teller
    from unskew.reproduce.making import Wanted, make_rows
    from unskew.reproduce.running import keep_lines, run_exhibit
    from unskew.runs.sweep import allowed

    fresh: list[dict[str, Any]] = []
    if exhibit.groups:
        teller = Teller(not as_json)
        teller.at_a_time = allowed(processes)
        with teller:
            fresh = run_exhibit(exhibit, place, cells, given, seeds, teller.at_a_time, tell=teller)
    if exhibit.makes:
        wanted = Wanted(
            place, tuple(seeds), given.get("rounds"), given.get("data_folder"), options=exhibit.options
        )
        made = make_rows(exhibit, wanted)
        keep_lines(place, made)
        fresh += made
    return fresh


def _draw(
    exhibit: Exhibit, lines: list[dict[str, Any]], wanted: list[str], runs: Path, picture: Path
) -> None:
    """The exhibit's own picture, or the curves of the group that was asked for, or of the only one there is."""
    from unskew.reproduce.curves import draw_curves
    from unskew.reproduce.making import draw_rows, rows_of

    if exhibit.draws:
        draw_rows(exhibit, rows_of(lines), runs, picture)
        return
    if not exhibit.groups:
        raise InputError(f"{exhibit.name} is a table: there is nothing to draw; leave --draw out")

    groups = [group for group in exhibit.groups if group.name in wanted or len(exhibit.groups) == 1]
    if len(groups) != 1:
        named = ", ".join(group.name for group in exhibit.groups)
        raise InputError(f"--draw draws one group: add --cells and one of {named}")
    draw_curves(lines, groups[0], picture)


def _numbers(text: str | None) -> list[int]:
    """Seeds, from 0-2 or 0,3."""
    if text is None:
        return []
    first, dash, last = text.partition("-")
    try:
        found = range(int(first), int(last) + 1) if dash else map(int, text.split(","))
        numbers = list(found)
    except ValueError:
        numbers = []
    if not numbers:
        raise InputError(f"--seeds is a range such as 0-2 or a list such as 0,3, not {text!r}")
    return numbers


def _found(exhibit: Exhibit, place: Path) -> list[dict[str, Any]]:
    """The book's lines, and those of runs that were made here before."""
    from unskew.reproduce.running import read_kept
    from unskew.reproduce.shipped import shipped_lines

    return _merged(shipped_lines(exhibit.name), read_kept(place))


def _merged(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All lines; of a method in a group only the newer, since old and new need not share their seeds."""
    again = {(line["group"], line["method"]) for line in new}
    return [line for line in old if (line["group"], line["method"]) not in again] + new


def _quick(names: list[str], as_json: bool) -> None:
    from unskew.reproduce.exhibit import exhibit_of
    from unskew.reproduce.running import run_quick

    told = [line for name in names for line in run_quick(exhibit_of(name))]
    if as_json:
        typer.echo(json.dumps(told))
        return
    for line in told:
        if "rows" in line:
            typer.echo(f"{line['exhibit']}: made {line['rows']} rows")
        else:
            typer.echo(
                f"{line['exhibit']}: {line['method']} ran on the digits, accuracy {line['accuracy']:.3f}"
            )


def _list(as_json: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    from unskew.reproduce.exhibit import exhibits
    from unskew.reproduce.results import judge, state
    from unskew.reproduce.shipped import shipped_lines

    rows = []
    for exhibit in exhibits().values():
        lines = shipped_lines(exhibit.name)
        judged = judge(exhibit, lines)
        rows.append(
            {
                "exhibit": exhibit.name,
                "paper": exhibit.paper,
                "where": exhibit.where,
                "title": exhibit.title,
                "cells": len(judged),
                "cpu": exhibit.cpu,
                "gpu": exhibit.gpu,
                "state": state(judged, lines),
            }
        )
    if as_json:
        typer.echo(json.dumps(rows))
        return
    table = Table(box=None, padding=(0, 2, 0, 0))
    for head in ("exhibit", "paper, where", "cells", "one run on a CPU · a GPU, a rough guess", "state"):
        table.add_column(head, no_wrap=head == "exhibit")
    for row in rows:
        table.add_row(
            str(row["exhibit"]),
            f"{row['paper']}, {row['where']}",
            str(row["cells"]),
            f"{row['cpu']} · {row['gpu']}",
            str(row["state"]),
        )
    console = Console()
    console.print(table, highlight=False)
    console.print("\nrun what is missing of one: [bold]unskew reproduce EXHIBIT[/]; only look: --show")


def _shown(exhibit: Exhibit, lines: list[dict[str, Any]], wanted: list[str], as_json: bool) -> None:
    """Ours beside theirs, a verdict a cell."""
    from rich.console import Console
    from rich.table import Table

    from unskew.reproduce.making import rows_of, table_of
    from unskew.reproduce.results import judge

    judged = [
        one
        for one in judge(exhibit, lines)
        if not wanted or {one.cell.group, one.cell.method, one.cell.name} & set(wanted)
    ]
    rows = rows_of(lines)
    if as_json:
        typer.echo(json.dumps([_as_dict(one) for one in judged] + [dict(row) for row in rows]))
        return
    console = Console()
    console.print(f"[bold]{exhibit.paper}, {exhibit.where}[/]: {exhibit.title}", highlight=False)
    if judged:
        console.print(
            f"gains in points of accuracy; the end is the {exhibit.end.removeprefix('the ')}; judged by the "
            f"{'best round' if exhibit.read == 'best' else 'end'}",
            highlight=False,
        )
        console.print(_judged_table(judged), highlight=False, markup=False)
    head, cells = table_of(exhibit, rows)
    if rows:
        table = Table(box=None, padding=(0, 2, 0, 0))
        for name in head:
            table.add_column(name, overflow="fold")
        for row in cells:
            table.add_row(*(cell.replace("`", "") for cell in row))
        console.print(table, highlight=False, markup=False)
    elif exhibit.makes:
        console.print("nothing was made of it yet")
    if exhibit.note:
        console.print(exhibit.note, highlight=False, markup=False)


def _judged_table(judged: list[Judged]) -> Table:
    """A row a cell."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0))
    for head in ("setting", "method, over", "paper", "best round", "in the end", "seeds", ""):
        table.add_column(head)
    for one in judged:
        printed = "" if one.cell.printed is None else f"{one.cell.printed:+.1f}"
        numbers = ["" if found is None else str(found) for found in (one.best, one.end)]
        seeds = "" if one.told is None else str(one.told.seeds)
        table.add_row(
            one.group.said, f"{one.cell.method}, {one.cell.over}", printed, *numbers, seeds, one.verdict
        )
    return table


def _as_dict(one: Judged) -> dict[str, Any]:
    return {
        "group": one.cell.group,
        "method": one.cell.method,
        "over": one.cell.over,
        "paper": one.cell.printed,
        **{k: None if g is None else dict(vars(g)) for k, g in (("best", one.best), ("end", one.end))},
        "verdict": one.verdict,
    }
