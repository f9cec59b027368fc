"""``unskew site``: a site's side of a federation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from unskew.cli import completion
from unskew.cli.app import app

site = typer.Typer(
    no_args_is_help=True, help="Real sites, from a site's side: it keeps its data and says what may leave."
)
app.add_typer(site, name="site")

_POLICY = "Policy (overrules policy.toml of the site's folder)"


@site.command()
def start(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The site's name.")],
    data: Annotated[
        Path,
        typer.Option(
            "--data",
            metavar="PATH",
            help="A .csv, .tsv, .parquet or .npz file, or a folder of images by class.",
        ),
    ],
    label: Annotated[
        str | None, typer.Option("--label", metavar="COLUMN", help="The label column of a table.")
    ] = None,
    client_column: Annotated[
        str | None,
        typer.Option(
            "--client-column",
            metavar="COLUMN",
            help="The site holds several clients: the values of this column.",
        ),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option("--folder", metavar="FOLDER", help="What the coordinator handed over; default: ./NAME."),
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            "--allow",
            metavar="WORDS",
            help='What may leave beyond model updates, with commas: "label counts, features".',
            rich_help_panel=_POLICY,
        ),
    ] = None,
    min_samples: Annotated[
        int | None,
        typer.Option(
            "--min-samples",
            metavar="N",
            help="Take part with so many samples or more.",
            rich_help_panel=_POLICY,
        ),
    ] = None,
    min_clients: Annotated[
        int | None,
        typer.Option(
            "--min-clients",
            metavar="N",
            help="Take part with so many clients or more.",
            rich_help_panel=_POLICY,
        ),
    ] = None,
    max_rounds: Annotated[
        int | None,
        typer.Option(
            "--max-rounds",
            metavar="N",
            help="Take part in runs of so many rounds or fewer.",
            rich_help_panel=_POLICY,
        ),
    ] = None,
    keep_days: Annotated[
        int | None,
        typer.Option(
            "--keep-days",
            metavar="N",
            help="Delete what was kept of a run that nobody has asked about for so many days; 30 unless said.",
            rich_help_panel=_POLICY,
        ),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            metavar="NAME",
            help="Train this model and no others; several times for several.",
            rich_help_panel=_POLICY,
            autocompletion=completion.models,
        ),
    ] = None,
    package: Annotated[
        list[str] | None,
        typer.Option(
            "--package",
            metavar="NAME",
            help="Runs may name code of this package, which is installed here.",
            rich_help_panel=_POLICY,
        ),
    ] = None,
) -> None:
    """Hold this site's data and answer the coordinator, until Ctrl-C. Each request is printed and logged."""
    from unskew.sites.extra import need_extra
    from unskew.sites.folders import SiteFolder
    from unskew.sites.policy import Policy

    need_extra()
    found = SiteFolder.find(name, folder)
    given: dict[str, Any] = {"min_samples": min_samples, "min_clients": min_clients, "max_rounds": max_rounds}
    given |= {"keep_days": keep_days}
    given |= {"allow": _words(allow), "models": _words(model), "packages": _words(package)}
    said = {key: value for key, value in given.items() if value is not None}
    policy = Policy.of(Policy.read(found.path).as_dict() | said, "the policy")
    from unskew.sites.data import SiteData
    from unskew.sites.run_site import open_site, run_site

    console = Console(highlight=False, soft_wrap=True)

    def tell(line: str) -> None:
        console.print(escape(line))

    held = open_site(found, SiteData(data, label, client_column), policy, tell)
    samples, clients = held.size
    owners = f" of {clients:,} clients" if client_column else ""
    console.print(f"site [bold]{name}[/] has {samples:,} samples{owners}, and connects to {found.address}")
    console.print(f"beyond model updates it may send: {escape(', '.join(sorted(policy.allow)) or 'nothing')}")
    console.print(f"[dim]what it is asked and sends is written to {escape(str(found.path / 'sent.log'))}[/]")
    try:
        run_site(found, held, tell)
    except KeyboardInterrupt:
        console.print(f"site {name} has ended")


@site.command()
def clean(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The site's name.")],
    folder: Annotated[
        Path | None, typer.Option("--folder", metavar="FOLDER", help="The site's folder; default: ./NAME.")
    ] = None,
    days: Annotated[
        float, typer.Option("--days", metavar="N", help="Only runs that nobody has asked about for so long.")
    ] = 0.0,
) -> None:
    """Delete what this site keeps of runs: memories and models of its clients. Those runs cannot go on."""
    from unskew.sites.extra import need_extra
    from unskew.sites.folders import SiteFolder

    need_extra()
    found = SiteFolder.find(name, folder)
    from unskew.sites.run_site import clean_site

    gone = clean_site(found, days)
    told = f"{len(gone)} run{'s' if len(gone) > 1 else ''}: {', '.join(gone)}" if gone else "nothing"
    Console(highlight=False, soft_wrap=True).print(f"site [bold]{name}[/] has forgotten {told}")


def _words(given: list[str] | None) -> list[str] | None:
    """Words of a flag that is given several times, or once with commas."""
    if given is None:
        return None
    return [word.strip() for text in given for word in text.split(",") if word.strip()]
