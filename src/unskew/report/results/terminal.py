"""The leaderboard for the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from unskew.readings import Reading
from unskew.report.results import words
from unskew.report.results.choice import choices
from unskew.report.results.comparison import Comparison
from unskew.report.results.leaderboard import Row
from unskew.report.results.scores import blanks_told, leads
from unskew.report.results.search import left_out_told
from unskew.report.results.statistics import Estimate


def show(compared: Comparison, console: Console) -> None:
    """Print what won and every problem's leaderboard."""
    console.print(f"\n[bold]{escape(compared.headline.title)}[/]", highlight=False)
    console.print(escape(compared.headline.lead), highlight=False)
    meaning = {"ci": "± 95% interval over n seeds", "sd": "± standard deviation over n seeds"}[
        compared.spread
    ]
    for (problem, rows), note in zip(compared.tables, compared.remarks, strict=True):
        console.print(f"\n[dim]{escape(problem.name)} · global test {_said(rows[0].metric)}, {meaning}[/]")
        if note and len(compared.tables) > 1:
            console.print(f"[yellow]{escape(note)}[/]", highlight=False)
        console.print(table(rows))
        for choice in choices(rows):
            console.print(escape(choice.in_words()), highlight=False)
        if len(rows[0].metrics) > 1:
            console.print("\n[dim]by every metric, at the last evaluated round, mean over seeds[/]")
            console.print(scores(rows, console.width))
            for line in blanks_told(rows):
                console.print(f"[dim]{escape(line)}[/]", highlight=False, soft_wrap=True)
        for at, goal in enumerate(rows[0].reached):
            if goal.asked:
                console.print(f"\n[dim]cost to reach {words.goal(goal)}, mean over the seeds that do[/]")
                console.print(costs(rows, at))
    left = compared.unfinished
    if left:
        states = sorted({record.status for record in left})
        console.print(
            f"[yellow]{len(left)} of {len(compared.records)} runs did not finish[/] ({', '.join(states)})"
        )
    if compared.left_out:
        console.print("[yellow]left out:[/]")
    for line in left_out_told(compared.left_out):
        console.print(f"  {escape(line)}", highlight=False, soft_wrap=True)


def table(rows: tuple[Row, ...]) -> Table:
    """One problem's leaderboard."""
    compares = any(row.difference for row in rows)
    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    shown.add_column("method", style="bold", overflow="fold", min_width=20)
    change = "gain" if rows[0].metric.larger_is_better else "change"
    heads = ["n", "final", "best"] + ([change, "p"] if compares else [])
    for head in [*heads, "traffic", "time"]:
        shown.add_column(head, justify="right", no_wrap=True)
    winner = words.contenders(rows)[0]
    for row in rows:
        final = _estimate(row.final)
        cells = [escape(row.group.label) + (_tag(row) if len(rows) > 1 else ""), str(row.final.n)]
        cells += [
            f"[bold]{final}[/]" if row is winner and len(rows) > 1 else final,
            words.plain(row.best.mean, row.metric),
        ]
        if compares:
            apart = row.difference
            gain = apart.mean if apart else None
            cells.append(words.DASH if gain is None else toned(row, words.signed(gain, 2, row.metric)))
            cells.append(words.p_text(apart.p) if apart else words.DASH)
        traffic = words.DASH if row.group.bound == "upper" else words.size(row.bytes.mean)
        cells += [traffic, words.duration(row.wall_s.mean)]
        shown.add_row(*cells)
    return shown


def costs(rows: tuple[Row, ...], at: int) -> Table:
    """What it cost to reach the target at this place; empty cells where nobody did."""
    reached = [row.reached[at] for row in rows]
    peers = any(to.cost.get("bytes_peer") for to in reached)
    air = any("air_s" in to.cost for to in reached)
    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    shown.add_column("method", style="bold", overflow="fold", min_width=12)
    shown.add_column("reached", overflow="fold", min_width=7)
    heads = ["rounds", "down", "up", *(["peer"] if peers else []), *(["air"] if air else []), "steps"]
    for head in heads:
        shown.add_column(head, justify="right", no_wrap=True)
    for row, to in zip(rows, reached, strict=True):
        cells = [escape(row.group.label), words.seeds_reaching(row, to)]
        if to.rounds is not None:
            ways = ["down", "up", *(["peer"] if peers else [])]
            moved = [
                words.DASH if row.group.bound == "upper" else words.size(to.cost[f"bytes_{way}"])
                for way in ways
            ]
            seconds = to.cost.get("air_s")
            timed = words.DASH if row.group.bound == "upper" or seconds is None else words.duration(seconds)
            cells += [words.rounds(to.rounds), *moved, *([timed] if air else [])]
            cells.append(words.amount(to.cost["sample_steps"]))
        shown.add_row(*cells)
    return shown


def toned(row: Row, text: str) -> str:
    """Green or red where a difference is more than chance explains."""
    assert row.difference is not None
    colour = {"up": "green", "down": "red"}.get(words.tone(row.difference, row.p_holm))
    return f"[{colour}]{text}[/]" if colour else text


def _tag(row: Row) -> str:
    if row.group.bound:
        return f"\n[dim]{row.group.bound} bound[/]"
    if not row.group.complete:
        return "\n[yellow]unfinished[/]"
    if any(record.diverged for record in row.group.counted):
        return "\n[yellow]diverged[/]"
    return "\n[dim]baseline[/]" if row.is_baseline else ""


def _estimate(of: Estimate) -> str:
    around = f" ± {words.plain(of.around, of.metric)}" if of.around is not None else ""
    return words.plain(of.mean, of.metric) + around


def _said(metric: Reading) -> str:
    return metric.title + (" in %" if metric.percent else "")


def scores(rows: tuple[Row, ...], width: int) -> Table:
    """Every metric of the report, the best method of each in bold."""
    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    shown.add_column("method", style="bold", overflow="fold", min_width=(least := 12))
    heads = [metric.title + words.unit(metric) for metric in rows[0].metrics]
    if least + sum(2 + len(head) for head in heads) > width:
        heads = [head.replace(" ", "\n") for head in heads]  # left to itself, the table would cut off digits
    for head in heads:
        shown.add_column(head, justify="right")
    for row in rows:
        cells = []
        for metric in rows[0].metrics:
            of = row.scores.get(metric.name)
            text = words.DASH if of is None else words.plain(of.mean, metric)
            cells.append(f"[bold]{text}[/]" if leads(row, rows, metric) else text)
        shown.add_row(escape(row.group.label), *cells)
    return shown
