"""``unskew methods [NAME]``: what there is to combine."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unskew.cli import completion
from unskew.cli.app import app
from unskew.cli.options import Json

if TYPE_CHECKING:
    from unskew.parts.catalogue import CatalogueEntry


@app.command()
def methods(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="One part or preset, or your own as package.module:Class, in full.",
            autocompletion=completion.methods,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """List the parts and presets a method is made of; with a NAME: paper, parameters, what it discloses."""
    from rich.console import Console

    from unskew.expression import write_value
    from unskew.parts.catalogue import REQUIRED, parts, presets

    console = Console()
    if name is None:
        if as_json:
            listed = {"parts": parts(), "presets": presets()}
            told = {
                kind: {n: entry.as_dict() for n, entry in found.items()} for kind, found in listed.items()
            }
            typer.echo(json.dumps(told))
            return
        _list(console)
        return
    about = find(name)
    if as_json:
        typer.echo(json.dumps(about.as_dict()))
        return
    console.print(f"[bold]{about.write}[/]  {about.slot}")
    console.print(_flowing(about.text), highlight=False, markup=False)
    if about.parameters:
        console.print("\nparameters")
        for parameter, detail in about.parameters.items():
            shown = REQUIRED if detail.default == REQUIRED else f"default {write_value(detail.default)}"
            console.print(f"  {parameter}: {detail.type}; {shown}", highlight=False, markup=False)
    if about.paper:
        console.print(f"\npaper      {about.paper}", highlight=False)
    console.print(
        f"discloses  {', '.join(about.discloses) or 'nothing beyond a model update'}", highlight=False
    )


def find(name: str) -> CatalogueEntry:
    """What there is to say of a part or a preset, or of one's own by package.module:Class, values or not."""
    from unskew.errors import unknown
    from unskew.parts.catalogue import entry_of_class, parts, presets

    if ":" in name:
        from unskew.core.method import own_part

        path = name.partition("(")[0].strip()
        return entry_of_class(own_part(path), path)
    known = {**parts(), **presets()}
    if name not in known:
        raise unknown("method or part", name, known)
    return known[name]


def _flowing(text: str, width: int = 100) -> str:
    """A docstring without the line breaks that only its file needs: after them the next word did not fit."""
    lines = text.splitlines()
    made = ""
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        word = after.split(" ", 1)[0]
        starts = not word or word.endswith(":")  # a paragraph, or what a parameter is
        made += line + (" " if not starts and len(line) + len(word) >= width else "\n")
    return made.rstrip().replace("``", "")


def shorten(signature: str, width: int = 40) -> str:
    """A signature that leaves room for what is said of it: its first parameters, where it has many."""
    if len(signature) <= width:
        return signature
    name, _, rest = signature.partition("(")
    first, comma, _ = rest[: width - len(name) - 4].rpartition(",")
    return f"{name}({first}{comma + ' ' if comma else ''}…)"


def _list(console: Any) -> None:
    from rich.markup import escape
    from rich.table import Table

    from unskew.core.slot_names import DECIDES, SLOTS
    from unskew.parts.catalogue import parts
    from unskew.parts.presets import PRESETS

    for slot, question in SLOTS.items():
        held = [entry for entry in parts().values() if entry.slot == slot]
        arity = "one" if slot in DECIDES else "any number"
        console.print(f"[bold]{slot}[/] [dim]({arity})[/]  {question}")
        table = Table(show_header=False, box=None, padding=(0, 2, 0, 2))
        table.add_column(no_wrap=True)
        table.add_column()
        for entry in held:
            sent = f"\n[yellow]discloses {', '.join(entry.discloses)}[/]" if entry.discloses else ""
            table.add_row(shorten(entry.write), escape(entry.summary) + sent)
        console.print(table if held else "  [dim]none in this version[/]")
    console.print("[bold]presets[/]")
    sums = Table(show_header=False, box=None, padding=(0, 2, 0, 2))
    sums.add_column(no_wrap=True)
    for preset, (expression, text) in PRESETS.items():
        sums.add_row(preset, f"{escape(text)}\n[dim]= {escape(expression)}[/]")
    console.print(sums)
    console.print("\njoin parts with +, e.g. [bold]scaffold+sem[/]; more: unskew methods NAME")
