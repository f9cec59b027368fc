"""``unskew studio``: runs in a browser, live."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from unskew.cli.app import app
from unskew.garbage import garbage_put_off


@app.command()
def studio(
    folder: Annotated[
        Path,
        typer.Argument(metavar="FOLDER", help="The folder that holds runs, at any depth."),
    ] = Path("."),
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            min=1,
            max=65535,
            help="Where to listen on this machine; default: 8765, or any free one.",
        ),
    ] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Look only: nothing is started, stopped or saved.")
    ] = False,
    no_open: Annotated[
        bool, typer.Option("--no-open", help="Print the address and open no browser.")
    ] = False,
    export: Annotated[
        Path | None,
        typer.Option(
            "--export",
            metavar="DIR",
            help="Write the pages to this folder, to be read without a studio, and end.",
        ),
    ] = None,
) -> None:
    """Open a local web page over runs: watch, replay, compare and start them."""
    from unskew.studio.serve import serve

    console = Console(highlight=False, soft_wrap=True)
    if export is not None:
        from unskew.studio.serve import check_folder, check_packages

        check_folder(folder)
        check_packages()
        with garbage_put_off():
            from unskew.studio.export import export_site

        console.print(f"written to [bold]{escape(str(export_site(folder, export)))}[/]")
        return

    def say(address: str) -> None:
        console.print(f"the studio is at [bold]{address}[/]", markup=True)
        console.print("the address holds its key: whoever has it can use this studio. Ctrl-C ends it.")

    try:
        serve(folder, port, read_only, not no_open, say)
    except KeyboardInterrupt:
        console.print("the studio has ended")
