"""``unskew methods [NAME]``: what there is to combine."""

from __future__ import annotations

import dataclasses
import inspect
import json
import typing
from typing import Annotated, Any

import typer

from unskew.cli import completion
from unskew.cli.app import app
from unskew.cli.options import Json
from unskew.errors import InputError


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

    from unskew.errors import unknown
    from unskew.expression import write_value
    from unskew.parts import PARTS, PRESETS

    console = Console()
    if name is None:
        if as_json:
            typer.echo(
                json.dumps({"parts": {n: about(n) for n in PARTS}, "presets": {n: about(n) for n in PRESETS}})
            )
            return
        _list(console)
        return
    if ":" not in name and name not in PARTS and name not in PRESETS:
        raise unknown("method or part", name, [*PARTS, *PRESETS])
    told = about(name)
    if as_json:
        typer.echo(json.dumps(told))
        return
    console.print(f"[bold]{told['write']}[/]  {told['slot']}")
    console.print(_flowing(told["text"]), highlight=False, markup=False)
    if told.get("parameters"):
        console.print("\nparameters")
        for parameter, detail in told["parameters"].items():
            default = detail["default"]
            shown = "required" if default == "required" else f"default {write_value(default)}"
            console.print(f"  {parameter}: {detail['type']}; {shown}", highlight=False, markup=False)
    if told["paper"]:
        console.print(f"\npaper      {told['paper']}", highlight=False)
    console.print(
        f"discloses  {', '.join(told['discloses']) or 'nothing beyond a model update'}", highlight=False
    )


def _flowing(text: str, width: int = 100) -> str:
    """A docstring without the line breaks that only its file needs: after them the next word did not fit."""
    lines = text.splitlines()
    made = ""
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        word = after.split(" ", 1)[0]
        starts = not word or word.endswith(":")  # a paragraph, or what a parameter is
        made += line + (" " if not starts and len(line) + len(word) >= width else "\n")
    return made.rstrip().replace("``", "")


def about(name: str) -> dict[str, Any]:
    """Everything a listing says of one part or preset."""
    from unskew.core.method import Method, own_part
    from unskew.expression import in_words, signature
    from unskew.parts import PARTS, PRESETS

    if name in PRESETS:
        expression, text = PRESETS[name]
        method = Method.parse(expression)
        return {
            "write": name,
            "slot": f"preset: {expression}",
            "text": text,
            "paper": "; ".join(dict.fromkeys(p.paper for p in method.parts if p.paper)),
            "discloses": list(method.discloses),
        }
    path = name.partition("(")[0].strip()  # with values or without
    cls = own_part(path) if ":" in path else PARTS[path]
    if not dataclasses.is_dataclass(cls):
        raise InputError(f"{path} must be a @dataclass(frozen=True), whose fields are its parameters")
    hints = typing.get_type_hints(cls)
    fields = {
        f.name: {
            "type": in_words(hints[f.name]),
            "default": f.default if f.default is not dataclasses.MISSING else "required",
        }
        for f in dataclasses.fields(cls)
    }
    return {
        "write": signature(cls).replace(cls.name, path, 1),
        "slot": cls.slot,
        "text": inspect.getdoc(cls) or "",
        "paper": cls.paper,
        "discloses": list(cls.discloses),
        "parameters": fields,
    }


def _short(signature: str, width: int = 40) -> str:
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
    from unskew.expression import signature, summary
    from unskew.parts import PARTS, PRESETS

    for slot, question in SLOTS.items():
        held = [c for c in PARTS.values() if c.slot == slot]
        arity = "one" if slot in DECIDES else "any number"
        console.print(f"[bold]{slot}[/] [dim]({arity})[/]  {question}")
        table = Table(show_header=False, box=None, padding=(0, 2, 0, 2))
        table.add_column(no_wrap=True)
        table.add_column()
        for cls in held:
            sent = f"\n[yellow]discloses {', '.join(cls.discloses)}[/]" if cls.discloses else ""
            table.add_row(_short(signature(cls)), escape(summary(cls)) + sent)
        console.print(table if held else "  [dim]none in this version[/]")
    console.print("[bold]presets[/]")
    presets = Table(show_header=False, box=None, padding=(0, 2, 0, 2))
    presets.add_column(no_wrap=True)
    for preset, (expression, text) in PRESETS.items():
        presets.add_row(preset, f"{escape(text)}\n[dim]= {escape(expression)}[/]")
    console.print(presets)
    console.print("\njoin parts with +, e.g. [bold]scaffold+sem[/]; more: unskew methods NAME")
