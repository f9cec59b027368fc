"""A diagnosis for the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from unskew.data.federation import shown_name
from unskew.report.diagnosis import Diagnosis, Finding
from unskew.report.evidence import THE_BOOK

_FITS = {"try": "[bold green]try[/]", "perhaps": "[yellow]perhaps[/]", "no": "[dim]no[/]"}


def show(diagnosis: Diagnosis, console: Console) -> None:
    """Print what was found, what it means and what to try."""
    console.print(f"\n[bold]{escape(diagnosis.headline)}[/]")
    console.print(f"[dim]{escape(diagnosis.about)}[/]\n")
    console.print(findings_table(diagnosis.findings))
    console.print("\n[bold]What to try[/], and what it would disclose beyond model updates")
    console.print(f"[dim]for {diagnosis.situation.planned.said()}[/]\n", highlight=False)
    console.print(advice_table(diagnosis))
    if not all(advice.available for advice in diagnosis.advice):
        console.print("[dim]* not in this version of unskew yet[/]")
    console.print("\n[bold]What was measured on data like this[/]")
    console.print(f"[dim]{THE_BOOK}[/]\n", highlight=False)
    console.print(f"{escape(diagnosis.evidence.headline)}\n", highlight=False)
    if diagnosis.evidence.near:
        console.print(evidence_table(diagnosis), highlight=False)


def show_in_terminal(diagnosis: Diagnosis) -> None:
    """Print it where Python runs."""
    show(diagnosis, Console())


def findings_table(findings: tuple[Finding, ...]) -> Table:
    """Each number with its range, what blind dealing would give, and what it means."""
    table = _plain("measure", "value", "range and meaning")
    table.columns[1].justify = "right"
    table.columns[1].style = "bold"
    for found in findings:
        chance = f", by chance {found.chance}" if found.chance else ""
        source = f" [dim]({escape(found.evidence)})[/]" if found.evidence else ""
        apart = "\n" if found.evidence else "; "
        table.add_row(
            found.measure, found.value, f"[dim]{found.span}{chance}[/]{apart}{escape(found.meaning)}{source}"
        )
    return table


def numbers_table(findings: tuple[Finding, ...]) -> Table:
    """The numbers alone."""
    table = _plain("measure", "value", "range", "by chance")
    for at in (1, 3):
        table.columns[at].justify = "right"
    table.columns[1].style = "bold"
    for found in findings:
        table.add_row(found.measure, found.value, found.span, found.chance)
    return table


def advice_table(diagnosis: Diagnosis) -> Table:
    """Each remedy with whether to try it and why, what it needs, and what it discloses."""
    table = _plain("part", "fit", "why, what it needs, what it discloses")
    table.columns[0].style = "bold"
    for advice in diagnosis.advice:
        name = advice.part if advice.available else f"{advice.part}*"
        told = escape(advice.why)
        if advice.fit != "no":
            told += f"\n[dim]needs[/] {escape(advice.needs)}\n[dim]discloses[/] {escape(advice.discloses)}"
        table.add_row(name, _FITS[advice.fit], told)
    return table


def evidence_table(diagnosis: Diagnosis) -> Table:
    """The nearest settings of the book, and what methods gained over FedAvg there."""
    table = _plain("setting", "steps away", "points over FedAvg, ± half the 95% interval")
    table.columns[0].no_wrap = False
    table.columns[1].justify = "right"
    for said, steps, gained in diagnosis.evidence.rows():
        table.add_row(escape(said), steps, escape(gained))
    return table


def _plain(*heads: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for head in heads[:-1]:
        table.add_column(head, no_wrap=True)
    table.add_column(heads[-1])
    return table


def counts_table(diagnosis: Diagnosis) -> Padding | None:
    """The (client x class) counts themselves, where they fit on a screen."""
    clients, classes = diagnosis.counts.shape
    if clients > 40 or classes > 12:
        return None
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    named = diagnosis.names is not None
    table.add_column(
        "client", justify="left" if named else "right", style="" if named else "dim", max_width=32
    )
    for label in diagnosis.labels:
        table.add_column(escape(label), justify="right", no_wrap=True, max_width=10)
    table.add_column("samples", justify="right", style="bold")
    table.add_column("EMD", justify="right")
    for client, row in enumerate(diagnosis.counts.tolist()):
        cells = [f"{n:,}" if n else "[dim]·[/]" for n in row]
        table.add_row(
            escape(shown_name(diagnosis.names, client)),
            *cells,
            f"{sum(row):,}",
            f"{diagnosis.skew.emd_per_client[client]:.2f}",
        )
    return Padding(table, (1, 0, 0, 0))
