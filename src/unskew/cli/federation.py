"""``unskew federation``: a coordinator's side of real sites."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from unskew.cli.app import app
from unskew.cli.options import Json

if TYPE_CHECKING:
    pass

federation = typer.Typer(
    no_args_is_help=True, help="Real sites, from the coordinator's side: keys, server, who is there."
)
app.add_typer(federation, name="federation")

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="The federation's folder.")]
SOON = 30
"""Days before its end from which a certificate is spoken of."""


@federation.command()
def init(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A new folder; its name is the federation's.")
    ],
    sites: Annotated[
        str, typer.Option("--sites", metavar="NAMES", help="The sites, with commas: north,south,east.")
    ],
    host: Annotated[
        str, typer.Option("--host", help="The name or address by which sites reach this machine.")
    ] = "localhost",
    port: Annotated[int, typer.Option("--port", help="The one port that sites need.")] = 8443,
    as_json: Json = False,
) -> None:
    """Make a federation: an authority, the server's certificate, and a folder with a key to hand to each site."""
    from unskew.sites.provision import init_federation

    made = init_federation(folder, [name.strip() for name in sites.split(",") if name.strip()], host, port)
    handed = {site: str(made.hand_out(site)) for site in made.sites}
    if as_json:
        typer.echo(json.dumps({"folder": str(folder), "address": made.address, "hand_out": handed}))
        return
    console = _console()
    console.print(f"federation [bold]{made.name}[/] at {made.address}, in {escape(str(folder))}")
    for site, path in handed.items():
        console.print(f"  hand to {site}: {escape(path)}")
    console.print(f"each folder holds the site's private key: carry it safely, then delete it here. Then: "
                  f"unskew federation start {escape(str(folder))}")  # fmt: skip


@federation.command()
def add(
    folder: Folder, site: Annotated[str, typer.Argument(metavar="SITE", help="The new site's name.")]
) -> None:
    """Add a site; it is let in from the federation's next start on."""
    from unskew.sites.folders import FederationFolder
    from unskew.sites.provision import add_site

    grown = add_site(FederationFolder.read(folder), site)
    _console().print(f"hand to {site}: {escape(str(grown.hand_out(site)))}")


@federation.command()
def remove(
    folder: Folder, site: Annotated[str, typer.Argument(metavar="SITE", help="The site's name.")]
) -> None:
    """Let a site in no longer; it is shut out from the federation's next start on."""
    from unskew.sites.folders import FederationFolder
    from unskew.sites.provision import remove_site

    remove_site(FederationFolder.read(folder), site)
    _console().print(
        f"site {site} is shut out from the next start on: stop the federation, then start it again"
    )


@federation.command()
def renew(
    folder: Folder,
    host: Annotated[
        str | None, typer.Option("--host", help="Sites reach this machine by another name.")
    ] = None,
    port: Annotated[int | None, typer.Option("--port", help="Another port.")] = None,
) -> None:
    """Renew the server's certificate; sites need nothing new unless --host or --port change."""
    from unskew.sites.certificates import SERVER_DAYS
    from unskew.sites.folders import FederationFolder
    from unskew.sites.provision import renew_certificate

    before = FederationFolder.read(folder)
    moved = renew_certificate(before, host, port)
    console = _console()
    console.print(f"the server's certificate holds for {SERVER_DAYS} days; it is used from the next start on")
    if moved.address != before.address:
        console.print(f"tell every site: host and port in site.toml are now {moved.host} and {moved.port}")


@federation.command()
def start(
    folder: Folder,
    foreground: Annotated[
        bool, typer.Option("--foreground", help="Stay, and stop with Ctrl-C: for systemd and containers.")
    ] = False,
) -> None:
    """Start the server that sites connect to: TLS only, registered keys only."""
    from unskew.sites.flower.processes import start_superlink, stop_child, stop_superlink
    from unskew.sites.folders import FederationFolder

    found = FederationFolder.read(folder)
    process = start_superlink(found, with_parent=foreground)
    console = _console()
    console.print(f"federation [bold]{found.name}[/] listens at {found.address} for {', '.join(found.sites)}")
    if not foreground:
        console.print(f"[dim]stop it with: unskew federation stop {escape(str(folder))}[/]")
        return
    try:
        code = process.wait()
    except KeyboardInterrupt:
        stop_child(process)
        console.print(f"federation {found.name} has ended")
        return
    finally:
        stop_superlink(found)
    from unskew.errors import RunFailed

    raise RunFailed(f"Flower's SuperLink ended with code {code}; see {found.flower}")


@federation.command()
def stop(folder: Folder) -> None:
    """Stop the server; sites wait for it to come back."""
    from unskew.sites.flower.processes import stop_superlink
    from unskew.sites.folders import FederationFolder

    found = FederationFolder.read(folder)
    ran = stop_superlink(found)
    _console().print(f"federation {found.name} {'has ended' if ran else 'did not run'}")


@federation.command()
def status(folder: Folder, as_json: Json = False) -> None:
    """Who is there, since when, with which version and how many samples, and what each site allows."""
    from unskew.sites.folders import FederationFolder
    from unskew.sites.status import federation_status

    found = FederationFolder.read(folder)
    told = federation_status(found)
    if as_json:
        typer.echo(json.dumps(told))
        return
    console = _console()
    if not told["running"]:
        console.print(
            f"federation {found.name} does not run; start it with: unskew federation start {escape(str(folder))}"
        )
    else:
        console.print(f"federation [bold]{found.name}[/] at {found.address} since {told['since']}")
        console.print(_table(told["sites"]))
    if told["certificate_days"] < SOON:
        console.print(
            f"[yellow]the server's certificate ends in {told['certificate_days']} days[/]; renew it with: "
            f"unskew federation renew {escape(str(folder))}"
        )


def _table(rows: list[dict[str, Any]]) -> Table:
    from unskew.sites.status import limits_told

    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("site", "since", "version", "samples", "clients", "allows"):
        table.add_column(name, justify="right" if name in ("samples", "clients") else "left")
    for row in rows:
        if not row["online"]:
            table.add_row(row["site"], "[yellow]not there[/]")
        elif "problem" in row:
            table.add_row(row["site"], row["since"], "", "", "", escape(row["problem"]))
        else:
            allowed = f"{', '.join(row['policy']['allow']) or 'nothing'}{limits_told(row['policy'])}"
            cells = (row["version"], f"{row['samples']:,}", f"{row['clients']:,}", allowed)
            table.add_row(row["site"], row["since"], *map(escape, cells))
    return table


def _console() -> Console:
    return Console(highlight=False, soft_wrap=True)
