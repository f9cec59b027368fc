"""``unskew datasets``: what data there is, where it lies, and what one of them is. Nothing is loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from unskew.cli import completion
from unskew.cli.app import app
from unskew.cli.options import DataFolder, Json

Name = Annotated[
    str | None,
    typer.Argument(
        metavar="[NAME]", help="One of them: tell all about it.", autocompletion=completion.datasets
    ),
]


@app.command()
def datasets(name: Name = None, data_folder: DataFolder = None, as_json: Json = False) -> None:
    """What data sets there are, and which of them are in the data folder."""
    from unskew.data.files import data_folder as chosen_folder
    from unskew.data.sources import SOURCES
    from unskew.errors import unknown

    folder = chosen_folder(data_folder)
    if name is not None and name not in SOURCES:
        raise unknown("data set", name, SOURCES)
    if name is not None:
        facts = _facts(name, folder) | _details(name, folder)
        if as_json:
            typer.echo(json.dumps(facts, ensure_ascii=False, indent=2))
        else:
            _print_one(facts)
        return
    listing = {"folder": str(folder), "datasets": [_facts(each, folder) for each in SOURCES]}
    if as_json:
        typer.echo(json.dumps(listing, ensure_ascii=False, indent=2))
    else:
        _print_all(listing)


def _facts(name: str, folder: Path) -> dict[str, Any]:
    """A data set as it lies in the data folder, or as published where it does not."""
    from unskew.data.sources import SOURCES, about

    source = SOURCES[name]
    found = source().find(folder)
    form = found[0] if found else None
    train, test = form.counts if form and form.counts else source.counts
    return {
        "name": name,
        "description": about(source)["description"],
        "train": train,
        "test": test,
        "shape": list(form.shape if form and form.shape else source.shape),
        "kind": source.kind,
        "classes": source.classes,
        "client_columns": list(source.columns),
        "present": found is not None or not source.forms,
        "place": str(found[1]) if found else None,
        "note": form.note if form else "",
    }


def _details(name: str, folder: Path) -> dict[str, Any]:
    from unskew.data.sources import SOURCES, about
    from unskew.expression import signature

    source = SOURCES[name]
    told = about(source)
    return {
        "expression": signature(source),
        "notes": told["notes"],
        "citation": told["citation"],
        "licence": told["licence"],
        "folder": str(folder),
        "forms": [
            {"what": form.what, "places": list(form.places), "note": form.note} for form in source.forms
        ],
        "downloads": [
            {
                "file": remote.file,
                "megabytes": remote.megabytes,
                "addresses": list(remote.addresses),
                "checksum": remote.checksum,
            }
            for remote in source.remotes
        ],
    }


def _size(shape: list[int]) -> str:
    return "x".join(map(str, shape))


def _there(facts: dict[str, Any]) -> str:
    if not facts["present"]:
        return "-"
    return "yes" if facts["place"] else "embedded"


def _print_all(listing: dict[str, Any]) -> None:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading in ("name", "train", "test", "shape", "classes", "client columns", "here"):
        numeric = heading in ("train", "test", "classes")
        table.add_column(heading, justify="right" if numeric else "left", overflow="fold")
    noted = []
    for facts in listing["datasets"]:
        mark = ""
        if facts["note"]:
            noted.append(f"{facts['name']}: {facts['note']}")
            mark = " *"
        table.add_row(
            facts["name"],
            f"{facts['train']:,}",
            f"{facts['test']:,}",
            _size(facts["shape"]),
            str(facts["classes"]),
            ", ".join(facts["client_columns"]) or "-",
            _there(facts) + mark,
        )
    console = Console(highlight=False, markup=False)
    console.print(table)
    console.print(
        f"\ndata folder: {listing['folder']} (--data-folder or UNSKEW_DATA_FOLDER changes it)", soft_wrap=True
    )
    for note in noted:
        console.print(f"* {note}", soft_wrap=True)
    console.print("'-' is downloaded on first use; 'unskew datasets NAME' tells where from.", soft_wrap=True)


def _print_one(facts: dict[str, Any]) -> None:
    console = Console(highlight=False, markup=False)
    console.print(facts["expression"], style="bold")
    console.print(facts["description"])
    if facts["notes"]:
        console.print(facts["notes"])
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    table.add_row("samples", f"{facts['train']:,} to train, {facts['test']:,} to test")
    table.add_row("one sample", f"{facts['kind']}, {_size(facts['shape'])}")
    table.add_row("classes", str(facts["classes"]))
    table.add_row("client columns", ", ".join(facts["client_columns"]) or "none")
    table.add_row("citation", facts["citation"])
    table.add_row("licence", facts["licence"])
    if facts["forms"]:
        table.add_row("folder", facts["folder"])
    for number, form in enumerate(facts["forms"], 1):
        places = ", ".join("the folder itself" if place == "." else place for place in form["places"])
        table.add_row(f"looked for, {number}", f"{form['what']}: {places}")
    if facts["downloads"]:
        table.add_row("downloads", _downloads(facts["downloads"]))
    there = facts["place"] or ("embedded" if facts["present"] else "no")
    table.add_row("here", there + (f" ({facts['note']})" if facts["note"] else ""))
    console.print()
    console.print(table)


def _downloads(remotes: list[dict[str, Any]]) -> str:
    """Files, size, hosts and how they are checked; --json has every address."""
    from urllib.parse import urlsplit

    files = ", ".join(remote["file"] for remote in remotes)
    size = sum(remote["megabytes"] for remote in remotes)
    hosts = " or ".join(dict.fromkeys(str(urlsplit(a).hostname) for r in remotes for a in r["addresses"]))
    checked = "checksum" if remotes[0]["checksum"] else "counts and shapes, for want of a published checksum"
    return f"{files} (about {size:,.0f} MB) from {hosts}, checked by {checked}"
