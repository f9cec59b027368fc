"""``unskew reproduce``: the papers' tables and figures, run again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unskew.cli.app import app
from unskew.cli.options import Json
from unskew.cli.stopping import HeedStop, Interrupted
from unskew.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from unskew.reproduce.exhibit import Exhibit, Group
    from unskew.reproduce.known import Known, Source
    from unskew.reproduce.results import Judged
    from unskew.runs.sweep import Cell


@app.command()
def reproduce(
    name: Annotated[
        str | None, typer.Argument(metavar="[EXHIBIT]", help="Which table or figure; none: list them.")
    ] = None,
    cells: Annotated[
        list[str] | None,
        typer.Option("--cells", metavar="CELL", help="A group, a method, or group/method; default: all."),
    ] = None,
    rounds: Annotated[
        int | None, typer.Option("--rounds", min=1, help="Other than the paper's; then none is judged.")
    ] = None,
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
) -> int:
    """List the papers' tables and figures; with an EXHIBIT: run what is missing of it, ours beside theirs."""
    from unskew.reproduce.exhibit import exhibit_of, exhibits

    flags = {
        "--show": show or None,
        "--cells": cells or None,
        "--rounds": rounds,
        "--seeds": seeds,
        "--device": device,
        "--precision": precision,
        "--data-folder": data_folder,
        "--out": out,
        "--processes": processes,
        "--draw": draw,
    }
    given = [flag for flag, value in flags.items() if value is not None]
    if quick:
        _refuse(given, "--quick has settings of its own;")
        _quick([exhibit_of(name).name] if name else list(exhibits()), as_json)
        return 0
    if name is None:
        _refuse(given, "there is no EXHIBIT; name one that `unskew reproduce` lists, or")
        _list(as_json)
        return 0
    from unskew.reproduce.known import Known  # it loads what runs sweeps, and a list needs none of that

    exhibit = exhibit_of(name)
    if show:
        _refuse(given, "--show runs nothing;", but=("--show", "--cells", "--out", "--draw"))
    if not exhibit.groups:
        own = ("--cells", "--device", "--precision", "--processes")
        _refuse(
            [flag for flag in given if flag in own], f"{name} has no cells, only rows that are made on a CPU;"
        )
        made = {"rounds": "trained", "seeds": "drawn by seeds", "data_folder": "read from files"}
        for word, how in made.items():
            flag = f"--{word.replace('_', '-')}"
            if flag in given and word not in exhibit.takes:
                raise InputError(f"the rows of {name} are not {how}; leave {flag} out")
    place = out or Path("runs") / "reproduce" / name
    _check_place(place)
    group = None if draw is None else _check_picture(exhibit, cells or [], draw)
    numbers = _numbers(seeds)
    known = Known(exhibit, place, cells or [])
    if not show:
        settings = {"rounds": rounds, "device": device, "precision": precision, "data_folder": data_folder}
        wanted = {setting: value for setting, value in settings.items() if value is not None}
        known = replace(known, failed=_run(known, wanted, numbers, processes, as_json))
    _show(known, as_json)
    if known.failed:
        return 1
    if draw is not None:
        _draw(known, group, draw)
    return 0


def _refuse(given: list[str], why: str, but: tuple[str, ...] = ()) -> None:
    """A flag that would do nothing is an error."""
    if idle := [flag for flag in given if flag not in but]:
        raise InputError(f"{why} leave {idle[0]} out")


def _check_place(place: Path) -> None:
    """Refuse a folder of runs that cannot be one before anything is run."""
    there = next((part for part in (place, *place.parents) if part.exists()), place)
    if not there.is_dir():
        raise InputError(f"{there} is a file; name a folder for the runs by --out")


def _run(
    known: Known, given: dict[str, Any], seeds: list[int], processes: int | None, as_json: bool
) -> list[tuple[str, Cell]]:
    """The runs that are missing, then what the exhibit's own function makes of them; the runs that failed."""
    from unskew.cli.sweep import Teller
    from unskew.reproduce.making import Wanted
    from unskew.reproduce.running import make_kept_rows, run_exhibit
    from unskew.runs.sweep import allowed

    exhibit, place, failed = known.exhibit, known.place, []
    teller = Teller(not as_json)
    try:
        if exhibit.groups:
            teller.at_a_time = allowed(processes)
            with teller:
                ran = run_exhibit(exhibit, place, known.cells, given, seeds, teller.at_a_time, tell=teller)
            failed = ran.failed
        if exhibit.makes and not failed:
            wanted = Wanted(
                place,
                tuple(seeds),
                given.get("rounds"),
                given.get("data_folder"),
                options=exhibit.options,
                watch=[HeedStop()],
            )
            make_kept_rows(exhibit, wanted)
    except KeyboardInterrupt:
        if not exhibit.groups:
            raise
        typer.echo(f"interrupted: {teller.so_far()}; the same command goes on", err=True)
        raise Interrupted from None
    return failed


def _check_picture(exhibit: Exhibit, wanted: list[str], picture: Path) -> Group | None:
    """The group whose curves are to be drawn, None for an exhibit's own picture; refused before anything is run."""
    from unskew.report.drawing import picture_target
    from unskew.reproduce.exhibit import chosen_groups

    groups = [group for group, _ in chosen_groups(exhibit, wanted)]
    if not exhibit.draws and not exhibit.groups:
        raise InputError(f"{exhibit.name} is a table: there is nothing to draw; leave --draw out")
    if not exhibit.draws and len(groups) != 1:
        named = ", ".join(group.name for group in groups)
        raise InputError(f"--draw draws one group: add --cells and one of {named}")
    picture_target(picture)
    if exhibit.picture and picture.suffix.lower() != exhibit.picture:
        raise InputError(
            f"the picture of {exhibit.name} can only be drawn as {exhibit.picture}, not as {picture.name!r}"
        )
    return None if exhibit.draws else groups[0]


def _draw(known: Known, group: Group | None, picture: Path) -> None:
    """The exhibit's own picture, or the curves of what was chosen in a group."""
    from unskew.reproduce.curves import draw_curves
    from unskew.reproduce.making import draw_rows, rows_of

    if group is None:
        draw_rows(known.exhibit, rows_of(known.row_lines()), known.place, picture)
        return
    methods = next(methods for chosen, methods in known.chosen() if chosen.name == group.name)
    draw_curves([line for line in known.lines_here() if line["method"] in methods], group, picture)


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


def _quick(names: list[str], as_json: bool) -> None:
    from unskew.reproduce.exhibit import exhibit_of
    from unskew.reproduce.running import run_quick

    told = [line for name in names for line in run_quick(exhibit_of(name), [HeedStop()])]
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


def _show(known: Known, as_json: bool) -> None:
    """Ours beside theirs, a verdict a cell; then why runs failed."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from unskew.reproduce.making import rows_of, table_of

    exhibit, judged, lines = known.exhibit, known.judged(), known.row_lines()
    errors = {f"{group}/{cell.name}": cell.error.removeprefix("error: ") for group, cell in known.failed}
    if as_json:
        told = [_as_dict(one, source) for one, source in judged] + rows_of(lines)
        typer.echo(json.dumps(told + [{"failed": name, "error": said} for name, said in errors.items()]))
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
    head, cells = table_of(exhibit, rows_of(lines))
    if lines:
        table = Table(box=None, padding=(0, 2, 0, 0))
        for name in head:
            table.add_column(name, overflow="fold")
        for row in cells:
            table.add_row(*(cell.replace("`", "") for cell in row))
        console.print(table, highlight=False, markup=False)
        if changed := lines[0].get("setting"):
            said = ", ".join(f"{name} = {value}" for name, value in changed.items())
            console.print(f"made with {said}, other than the exhibit's", highlight=False, markup=False)
    elif exhibit.makes:
        console.print("nothing was made of it yet")
    if exhibit.note:
        console.print(exhibit.note, highlight=False, markup=False)
    for name, said in errors.items():
        console.print(f"[red]{escape(name)}[/]: {escape(said)}", soft_wrap=True, highlight=False)


def _judged_table(judged: list[tuple[Judged, Source]]) -> Table:
    """A row a cell; whose runs they are is told where some were made here."""
    from rich.table import Table

    from unskew.report.evidence import signed

    columns: dict[str, list[str]] = {
        "setting": [one.group.said for one, _ in judged],
        "method, over": [f"{one.cell.method}, {one.cell.over}" for one, _ in judged],
        "paper": ["" if (gain := one.cell.printed) is None else signed(gain) for one, _ in judged],
        "best round": ["" if one.best is None else str(one.best) for one, _ in judged],
        "in the end": ["" if one.end is None else str(one.end) for one, _ in judged],
        "seeds": ["" if one.told is None else str(one.told.seeds) for one, _ in judged],
        "": [one.verdict + _machines(one) for one, _ in judged],
        "runs": [source for _, source in judged],
    }
    if "here" not in columns["runs"]:
        del columns["runs"]
    if not any(columns["paper"]):  # an experiment of our own
        del columns["paper"]
    table = Table(box=None, padding=(0, 2, 0, 0))
    for head in columns:
        in_words = head in ("setting", "method, over", "")
        table.add_column(head, overflow="fold", no_wrap=not in_words)
    for row in zip(*columns.values(), strict=True):
        table.add_row(*row)
    return table


def _machines(one: Judged) -> str:
    """What was compared across machines or precisions says so."""
    return f", on {' and '.join(one.machines)}" if len(one.machines) > 1 else ""


def _as_dict(one: Judged, source: Source) -> dict[str, Any]:
    return {
        "group": one.cell.group,
        "method": one.cell.method,
        "over": one.cell.over,
        "paper": one.cell.printed,
        **{k: None if g is None else dict(vars(g)) for k, g in (("best", one.best), ("end", one.end))},
        "verdict": one.verdict,
        "runs": source or None,
        "machines": list(one.machines),
    }
