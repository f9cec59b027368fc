"""The leaderboard for the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from unskew.report.results import words
from unskew.report.results.comparison import Comparison
from unskew.report.results.leaderboard import Row
from unskew.report.results.statistics import Estimate


def show(compared: Comparison, console: Console) -> None:
    """Print what won and every problem's leaderboard."""
    console.print(f"\n[bold]{escape(compared.headline.title)}[/]", highlight=False)
    console.print(escape(compared.headline.lead), highlight=False)
    for problem, rows in compared.tables:
        console.print(
            f"\n[dim]{escape(problem.name)} · global test accuracy in %, ± 95% interval over n seeds[/]"
        )
        console.print(table(rows))
    left = compared.unfinished
    if left:
        states = sorted({record.status for record in left})
        console.print(
            f"[yellow]{len(left)} of {len(compared.records)} runs did not finish[/] ({', '.join(states)})"
        )


def table(rows: tuple[Row, ...]) -> Table:
    """One problem's leaderboard."""
    compares = any(row.difference for row in rows)
    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    shown.add_column("method", style="bold", overflow="fold", min_width=20)
    heads = ["n", "final", "best"] + (["gain", "p"] if compares else [])
    for head in [*heads, "traffic", "time"]:
        shown.add_column(head, justify="right", no_wrap=True)
    winner = words.contenders(rows)[0]
    for row in rows:
        final = _estimate(row.final)
        cells = [escape(row.group.label) + (_tag(row) if len(rows) > 1 else ""), str(row.final.n)]
        cells += [
            f"[bold green]{final}[/]" if row is winner and len(rows) > 1 else final,
            words.plain(row.best.mean),
        ]
        if compares:
            apart = row.difference
            gain = apart.mean if apart else None
            cells.append(words.DASH if gain is None else words.signed(gain, 2))
            cells.append(words.p_text(apart.p) if apart else words.DASH)
        traffic = words.DASH if row.group.bound == "upper" else words.size(row.bytes.mean)
        cells += [traffic, words.duration(row.wall_s.mean)]
        shown.add_row(*cells)
    return shown


def _tag(row: Row) -> str:
    if row.group.bound:
        return f"\n[dim]{row.group.bound} bound[/]"
    if not row.group.complete:
        return "\n[yellow]unfinished[/]"
    return "\n[dim]baseline[/]" if row.is_baseline else ""


def _estimate(of: Estimate) -> str:
    return words.plain(of.mean) + (f" ± {words.plain(of.half)}" if of.half is not None else "")
