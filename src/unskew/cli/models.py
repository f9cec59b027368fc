"""``unskew models [NAME]``: what models there are, how large they are and where they can be cut."""

from __future__ import annotations

import inspect
import json
import math
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from unskew.cli import completion
from unskew.cli.app import app
from unskew.cli.options import Json
from unskew.errors import InputError
from unskew.garbage import garbage_put_off

if TYPE_CHECKING:
    from unskew.models.architecture import Architecture

Name = Annotated[
    str | None,
    typer.Argument(
        metavar="[NAME]",
        help="A model, as in mlp or 'mlp(hidden=[100])', or your own as package.module:Class: its layers.",
        autocompletion=completion.models,
    ),
]
Shape = Annotated[
    str | None, typer.Option("--shape", metavar="CxHxW", help="The shape of a sample, e.g. 1x28x28.")
]
Classes = Annotated[
    int | None,
    typer.Option("--classes", min=1, help="How many classes there are; default: as in the model's paper."),
]


@app.command()
def models(name: Name = None, shape: Shape = None, classes: Classes = None, as_json: Json = False) -> None:
    """What models there are; with a NAME: its layers, where it can be cut."""
    sample = _read_shape(shape)
    if name is not None:
        told = _one(name, sample, classes)
    else:
        told = _declared() if sample is None and classes is None else _list(sample, classes)
    if as_json:
        typer.echo(json.dumps(told, ensure_ascii=False, indent=2))
    elif name is None:
        _print_all(told)
    else:
        _print_one(told)


def _read_shape(text: str | None) -> tuple[int, ...] | None:
    from unskew.expression import number

    if text is None:
        return None
    sides = text.lower().split("x")
    if not all(side.isdecimal() and side.strip("0") for side in sides):
        raise InputError(f"--shape is whole numbers joined by x, such as 1x28x28, not {text!r}")
    return tuple(int(number(side, "in --shape")) for side in sides)


def _declared() -> dict[str, Any]:
    """Every model as it says of itself, read from its file: to make them all takes seconds."""
    from unskew.declared import classes_named_in
    from unskew.expression import signature_of

    return {
        "models": [
            {
                "name": model.variable("name"),
                "expression": signature_of(
                    model.variable("name"), {k: default for k, (_, default) in model.fields().items()}
                ),
                "description": model.text().split("\n", 1)[0],
                "paper": model.variable("paper"),
                "shape": list(model.variable("native")),
                "classes": model.variable("classes"),
                "parameters": model.variable("size"),
                "note": "",
            }
            for model in classes_named_in("models/zoo.py", "MODELS")
        ]
    }


def _list(shape: tuple[int, ...] | None, classes: int | None) -> dict[str, Any]:
    from unskew.expression import signature, summary
    from unskew.models.zoo import MODELS

    return {
        "models": [
            {
                "name": name,
                "expression": signature(model),
                "description": summary(model),
                "paper": model.paper,
                **_size(model(), shape or model.native, classes or model.classes),
            }
            for name, model in MODELS.items()
        ],
    }


def _size(model: Architecture, shape: tuple[int, ...], classes: int) -> dict[str, Any]:
    """The number of parameters for this shape, or null and why it cannot take it."""
    from unskew.machine.memory import in_words, memory
    from unskew.models.size import memory_of

    told: dict[str, Any] = {"shape": list(shape), "classes": classes}
    try:
        drawn = model.draw(shape, classes)
    except InputError as error:
        return told | {"parameters": None, "note": str(error)}
    needed = memory_of(drawn, shape)
    note = f"needs {in_words(needed)} of memory" if needed > memory() else ""
    return told | {"parameters": drawn.parameters, "note": note}


def _one(name: str, shape: tuple[int, ...] | None, classes: int | None) -> dict[str, Any]:
    """A model of the library as it is drawn; one of the user's own is made, and torch takes a second to load."""
    from unskew import expression
    from unskew.models.architecture import Architecture
    from unskew.models.zoo import MODELS

    call = expression.parse_one(name, "model")
    if ":" in call.name:
        if shape is None:
            raise InputError(f"for which samples? add their shape to {name}, e.g. --shape 1x28x28")
        return {"name": name, "expression": name} | _made(name, shape, classes or Architecture.classes)
    model = expression.build(call, MODELS, "model")
    expression.refuse_absurd(model)
    # unwrapped, so that lines are broken where the terminal ends
    text = [" ".join(part.split()) for part in (inspect.getdoc(type(model)) or "").split("\n\n")]
    told: dict[str, Any] = {
        "name": model.name,
        "expression": str(call),
        "signature": expression.signature(type(model)),
    }
    told |= {"description": text[0], "notes": text[1:], "paper": model.paper}
    return told | _drawn(model, shape or model.native, classes or model.classes)


def _drawn(model: Architecture, shape: tuple[int, ...], classes: int) -> dict[str, Any]:
    from unskew.models import drawing
    from unskew.models.size import refuse_too_large

    drawn, at, below, layers = model.draw(shape, classes), shape, 0, []
    refuse_too_large(model, drawn, shape, classes)
    for name in drawn.layers:
        at, below = drawn.stages[name].shaped(at), below + drawn.stages[name].parameters
        layers.append({"layer": name, "activation": list(at), "parameters_below": below})
    every = list(drawn.all())
    return {
        "shape": list(shape),
        "classes": classes,
        "parameters": drawn.parameters,
        "multiply_adds": drawn.multiply_adds(shape),
        "layers": layers,
        "feature_layer": drawn.last_layer,
        "dropout_layers": sum(isinstance(layer, drawing.Dropout) for layer in every),
        "batch_norm_layers": sum(isinstance(layer, drawing.BatchNorm) for layer in every),
    }


def _made(name: str, shape: tuple[int, ...], classes: int) -> dict[str, Any]:
    with garbage_put_off():
        import torch

        from unskew.core.net import Net
        from unskew.models.building import build

    net = build(name, shape, classes).eval()
    own = [p.requires_grad_() for p in net.parameters()]
    x, layers = torch.zeros(1, *shape), []
    for layer in net.layers:
        activation = net.embed(x, layer)
        reached: tuple[Any, ...] = (None,)
        if activation.requires_grad:
            reached = torch.autograd.grad(activation.sum(), own, allow_unused=True)
        below = sum(p.numel() for p, g in zip(own, reached, strict=False) if g is not None)
        layers.append({"layer": layer, "activation": list(activation.shape[1:]), "parameters_below": below})
    seeds, weights = net.fed
    return {
        "shape": list(shape),
        "classes": classes,
        "parameters": sum(p.numel() for p in own),
        "multiply_adds": int(Net(net).multiply_adds(shape)),
        "layers": layers,
        "feature_layer": net.layers[-1] if net.layers else None,
        "dropout_layers": len(seeds),
        "batch_norm_layers": len(weights),
    }


def _print_all(told: dict[str, Any]) -> None:
    console = Console(highlight=False, markup=False)
    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading in ("write", "parameters", "input", "paper"):
        table.add_column(
            heading,
            justify="right" if heading == "parameters" else "left",
            overflow="fold",
            no_wrap=heading != "paper",
        )
    for model in told["models"]:
        size = "-" if model["parameters"] is None else f"{model['parameters']:,}"
        table.add_row(model["expression"], size, _say(model["shape"]), model["paper"] or "-")
    console.print(table)
    often, *rarely = Counter(model["classes"] for model in told["models"]).most_common()
    but = "".join(
        f", of {', '.join(m['name'] for m in told['models'] if m['classes'] == classes)} for {classes}"
        for classes, _ in rarely
    )
    console.print(f"\nParameters are for {often[0]} classes{but}.", soft_wrap=True)
    large = [f"{m['name']} {m['note']}" for m in told["models"] if m["note"] and m["parameters"] is not None]
    if large:
        console.print(f"More than this machine has: {', '.join(large)}.", soft_wrap=True)
    unfit = [model for model in told["models"] if model["parameters"] is None]
    if unfit:
        console.print(f"'-' cannot take such samples: {unfit[0]['note']}.", soft_wrap=True)
    console.print(
        "'unskew models NAME' shows a model's layers; package.module:Class names your own.", soft_wrap=True
    )


def _print_one(told: dict[str, Any]) -> None:
    console = Console(highlight=False, markup=False)
    console.print(told["expression"], style="bold")
    for paragraph in (told.get("description"), *told.get("notes", ())):
        if paragraph:
            console.print(paragraph)
    facts = Table(box=None, show_header=False, pad_edge=False)
    facts.add_column(style="bold")
    facts.add_column(overflow="fold")
    if "signature" in told:
        facts.add_row("write", told["signature"])
        facts.add_row("paper", told["paper"] or "-")
    facts.add_row("input", f"{_say(told['shape'])}, {told['classes']} classes")
    facts.add_row("parameters", f"{told['parameters']:,}")
    facts.add_row("multiply-adds", f"{told['multiply_adds']:,} a sample, forwards")
    kinds = [
        f"{told[key]} {kind}"
        for key, kind in (("dropout_layers", "dropout"), ("batch_norm_layers", "batch norm"))
        if told[key]
    ]
    facts.add_row("has", ", ".join(kinds) or "no dropout, no batch norm")
    console.print()
    console.print(facts)
    console.print()
    if not told["layers"]:
        console.print(
            "It has no layers to cut it at: give it `layers`, `embed(x, layer)` and `head(f, layer)`, or make it "
            "an nn.Sequential. Methods that share or compare features need them.",
        )
        return
    layers = Table(box=None, header_style="bold", pad_edge=False)
    for heading in ("cut after", "activation", "numbers a sample", "parameters below"):
        layers.add_column(heading, justify="left" if heading in ("cut after", "activation") else "right")
    for row in told["layers"]:
        mark = " (the feature)" if row["layer"] == told["feature_layer"] else ""
        numbers = f"{math.prod(row['activation']):,}"
        layers.add_row(row["layer"] + mark, _say(row["activation"]), numbers, f"{row['parameters_below']:,}")
    console.print(layers)


def _say(shape: list[int]) -> str:
    return "x".join(map(str, shape))
