"""``unskew bench``."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from unskew.cli.app import app
from unskew.cli.options import Json
from unskew.cli.stopping import Interrupted
from unskew.garbage import garbage_put_off


@app.command()
def bench(
    jobs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[JOBS]", help="Standard jobs A to E; default A B C, and D on a GPU."),
    ] = None,
    engines: Annotated[
        str, typer.Option("--engines", help="Which of our engines: loop, fast, ray.")
    ] = "loop,fast",
    rounds: Annotated[
        int, typer.Option("--rounds", help="Counted rounds of each; one more is a warm-up.")
    ] = 5,
    peers: Annotated[
        bool, typer.Option("--peers", help="Also the other libraries that are installed (`make peers`).")
    ] = False,
    growing: Annotated[
        bool,
        typer.Option("--growth", help="Instead: how a round's cost grows with its clients, and with all."),
    ] = False,
    device: Annotated[str, typer.Option("--device", help="cpu, cuda, cuda:1 or auto.")] = "auto",
    workers: Annotated[int | None, typer.Option("--workers", help="Worker processes on a CPU.")] = None,
    block: Annotated[int | None, typer.Option("--block", help="Most clients stacked together.")] = None,
    compiled: Annotated[bool, typer.Option("--compile", help="Compile the GPU's step.")] = False,
    precision: Annotated[str, typer.Option("--precision", help="fp32, tf32, bf16 or fp64.")] = "fp32",
    as_json: Json = False,
) -> None:
    """How fast: our engines (and peers) on the standard jobs, rounds in turn, as ratios in one run."""
    with garbage_put_off():
        from unskew.bench.request import answered

    def tell(line: str) -> None:
        if not as_json:
            typer.echo(line, err=True)

    def show(block: str) -> None:
        if not as_json:
            typer.echo(block)

    found = answered(
        jobs or [],
        tell,
        show,
        growing=growing,
        peers=peers,
        engines=engines,
        rounds=rounds,
        device=device,
        workers=workers,
        block=block,
        compile=compiled,
        precision=precision,
    )
    if as_json:
        typer.echo(json.dumps(found))
    if "stopped" in found:
        raise Interrupted
