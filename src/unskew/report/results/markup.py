"""Pieces of a report's page that only runs need: the leaderboard, the matrix of problems, notices, recipes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from unskew.readings import Reading
from unskew.report.page import Piece, TableRow
from unskew.report.rendering import piece
from unskew.report.results import words
from unskew.report.results.groups import Problem
from unskew.report.results.leaderboard import Row
from unskew.report.results.look import Style
from unskew.report.results.reach import Reached
from unskew.report.results.repeat import Recipe
from unskew.report.results.scores import leads
from unskew.report.results.statistics import Estimate, Spread
from unskew.report.theme import RULE


def _results(name: str, *values: Any, **more: Any) -> Markup:
    return piece("results.html", name)(*values, **more)


OTHER: dict[Spread, str] = {"ci": "the standard deviation (sd)", "sd": "the 95% interval"}
"""What stands below ± in the leaderboard, where ± is the one or the other."""


def leaderboard_table(rows: Sequence[Row], looks: Mapping[str, Style]) -> Piece:
    """Every group with what it reached, how sure that is and what it cost; the best final stands out."""
    seeds = max(row.final.n for row in rows)
    metric = rows[0].metric
    caption = f"Global test {metric.title} of the global model{', in percent' if metric.percent else ''}" + (
        f": the mean over seeds ± {words.MEANING[rows[0].final.spread]}, and below it {OTHER[rows[0].final.spread]}. "
        "A difference is green or red where it is more than chance explains"
        if seeds > 1
        else "; with one seed there is no interval"
    )
    columns = _columns(rows, looks)
    lines = [
        TableRow([cell(row) for _, _, cell in columns], "bound" if row.group.bound else "") for row in rows
    ]
    return _table([(title, kind) for title, kind, _ in columns], lines, "leaderboard stack", caption)


Column = tuple[str, str, Callable[[Row], str]]
"""Title, kind (the style class) and a row's cell: a text, or a piece of HTML."""


def _columns(rows: Sequence[Row], looks: Mapping[str, Style]) -> list[Column]:
    """What there is to say about these rows; a column in which nothing differs from nothing is left out."""
    winner = words.contenders(rows)[0]
    low = min(min(row.final.within[0], *row.final.values) for row in rows)
    high = max(max(row.final.within[1], *row.final.values) for row in rows)
    alone = len(rows) == 1
    columns: list[Column] = [
        ("method", "who", lambda row: _name(row, looks, alone)),
        (
            f"final{words.unit(rows[0].metric)}",
            "number",
            lambda row: _estimate(row.final, bold=row is winner and not alone, full=True),
        ),
    ]
    if not alone or rows[0].final.n > 1:
        drawn = {"ci": "seeds and 95% interval", "sd": "seeds, mean ± sd"}[rows[0].final.spread]
        columns.append((drawn, "strip", lambda row: _strip(row, looks, low, high)))
    columns.append(
        (
            f"best{words.unit(rows[0].metric)}",
            "number",
            lambda row: _results(
                "with_note",
                _estimate(row.best, full=True),
                f"in round {words.span(row.best_rounds)}, {words.CHOSEN[row.chosen_on]}",
            ),
        )
    )
    if any(row.difference for row in rows):
        against = {row.baseline.label for row in rows if row.difference and row.baseline}
        named = f"against {against.pop()}" if len(against) == 1 else "against its baseline"
        columns += [(named, "number", _difference), ("p", "number", _chance)]
    for at, reached in enumerate(rows[0].reached[:3]):
        columns.append((f"rounds to {words.goal(reached)}", "number", _reached(at)))
    columns += [
        (
            "traffic",
            "number",
            lambda row: words.DASH if row.group.bound == "upper" else words.size(row.bytes.mean),
        ),
        ("sample-steps", "number", lambda row: words.amount(row.sample_steps.mean)),
        ("time", "number", lambda row: words.duration(row.wall_s.mean)),
    ]
    if any(words.faults(row) not in ("none", words.DASH) for row in rows):
        columns.append(("faults", "", words.faults))
    return columns


def matrix(tables: Sequence[tuple[Problem, Sequence[Row]]], looks: Mapping[str, Style]) -> Piece:
    """Final accuracy by method and problem, where there are several; the fewer of the two are the columns."""
    labels = list(dict.fromkeys(row.group.label for _, rows in tables for row in rows))
    metric = tables[0][1][0].metric
    names = words.short_names([problem for problem, _ in tables])
    methods: list[str] = [_results("swatched", _swatch(looks[label]), label) for label in labels]
    places: list[str] = [_results("link", f"problem{at}", name) for at, name in enumerate(names)]
    cells: list[list[str]] = []
    for label in labels:
        line = []
        for _, rows in tables:
            row = next((row for row in rows if row.group.label == label), None)
            best = row is words.contenders(rows)[0]
            line.append(_estimate(row.final, bold=best) if row else words.DASH)
        cells.append(line)
    if len(tables) > len(labels):
        cells = [list(column) for column in zip(*cells, strict=True)]
        down, across, first = places, labels, ""
    else:
        down, across, first = methods, places, "who"
    return _table(
        [("", first), *((title, "number") for title in across)],
        [TableRow([title, *line]) for title, line in zip(down, cells, strict=True)],
        "stack",
        f"Final global test {metric.title}{' in percent' if metric.percent else ''}, "
        f"mean ± {words.MEANING[tables[0][1][0].final.spread]}; in bold the best of each data setting, "
        "upper bounds aside",
    )


def cost_table(rows: Sequence[Row], at: int) -> Piece:
    """What it cost to reach the target at this place; who never does has empty cells, and it is said."""
    goal = words.goal(rows[0].reached[at])
    costs: list[tuple[str, Callable[[Reached], float | None], Callable[[float], str]]] = [
        ("rounds", lambda to: to.rounds, words.rounds),
        ("to clients", lambda to: to.cost.get("bytes_down"), words.size),
        ("from clients", lambda to: to.cost.get("bytes_up"), words.size),
        ("between clients", lambda to: to.cost.get("bytes_peer"), words.size),
        ("bytes together", lambda to: to.bytes, words.size),
        ("on the air", lambda to: to.cost.get("air_s"), words.duration),
        ("sample-steps", lambda to: to.cost.get("sample_steps"), words.amount),
    ]
    # what nobody has paid anything of is no column
    costs = [cost for cost in costs if any(cost[1](row.reached[at]) for row in rows) or cost[0] == "rounds"]
    several = any(row.final.n > 1 for row in rows)
    head = [
        "method",
        f"{'seeds that reach' if several else 'reaches'} {goal}",
        *(title for title, _, _ in costs),
    ]
    body = []
    for row in rows:
        to = row.reached[at]
        cells = [row.group.label, words.seeds_reaching(row, to)]
        for title, value_of, said in costs:
            value = value_of(to)
            hidden = row.group.bound == "upper" and (
                "clients" in title or title in ("bytes together", "on the air")
            )
            cells.append(words.DASH if hidden and to.seeds else "" if value is None else said(value))
        body.append(TableRow(cells))
    more = "more" if rows[0].metric.larger_is_better else "less"
    caption = f"From the start to the first evaluated round with {goal} or {more}" + (
        ", mean over the seeds that get there; empty where none does"
        if several
        else "; empty where it does not"
    )
    columns = [(title, "number" if k > 1 else "") for k, title in enumerate(head)]
    return _table(columns, body, "reach stack", caption)


def scores_table(rows: Sequence[Row], looks: Mapping[str, Style]) -> Piece:
    """Every metric of the report at the last evaluated round; what has no number says why on hovering."""

    def cell(row: Row, metric: Reading) -> Markup:
        of = row.scores.get(metric.name)
        if of is None:
            return _results("hovered", words.DASH, row.blanks[metric.name])
        return _estimate(of, bold=leads(row, rows, metric))

    metrics = rows[0].metrics
    body = [
        TableRow(
            [
                _results("swatched", _swatch(looks[row.group.label]), row.group.label),
                *(cell(row, metric) for metric in metrics),
            ],
            "bound" if row.group.bound else "",
        )
        for row in rows
    ]
    columns = [("method", "who"), *((m.title + words.unit(m), "number") for m in metrics)]
    several = max(row.final.n for row in rows) > 1
    around = f", mean over seeds ± {words.MEANING[rows[0].final.spread]}" if several else ""
    bold = "; in bold the best of each, bounds aside" if len(words.contenders(rows)) > 1 else ""
    return _table(columns, body, "stack", f"At the last evaluated round{around}{bold}")


def notice(lines: Sequence[str], title: str) -> Piece:
    """Something that must not be overlooked."""
    return Piece(_results("notice", title, lines))


def recipe(title: str, of: Recipe, *, opened: bool = False, printed: bool = True) -> Piece:
    """An experiment file that can be copied, and what to do with it; paper needs no second one of the same runs."""
    return Piece(_results("recipe", title, of, opened, printed))


def differences(common: str, own: Sequence[tuple[str, str]]) -> Piece:
    """The settings that all runs share, once, and what each has of its own."""
    return Piece(_results("differences", common, own))


def fold(title: str, inner: Markup) -> Piece:
    """What a reader need not see at once."""
    return Piece(piece("blocks.html", "fold")(title, inner))


def contents(links: Sequence[tuple[str, str]]) -> Piece:
    """Where to go on the page."""
    return Piece(_results("contents", links))


def _table(columns: Sequence[tuple[str, str]], rows: Sequence[TableRow], kind: str, caption: str) -> Piece:
    return Piece(piece("blocks.html", "table")(columns, rows, kind, caption))


def _name(row: Row, looks: Mapping[str, Style], alone: bool) -> Markup:
    tags = []
    if row.is_baseline and not row.group.bound and not alone:
        tags.append("baseline")
    if row.group.bound:
        tags.append(f"{row.group.bound} bound")
    if not row.group.complete:
        tags.append("unfinished")
    if any(record.diverged for record in row.group.counted):
        tags.append("diverged")
    n = row.final.n
    seeds = f"{n} seed{'' if n == 1 else 's'} · round {words.span(row.final_rounds)}"
    return _results("method", _swatch(looks[row.group.label]), row.group.label, seeds, tags)


def _swatch(look: Style) -> Markup:
    dash = ",".join(map(str, look.dash)) if look.dash[1] else "none"
    return _results("swatch", look.colour, dash)


def _estimate(of: Estimate, *, bold: bool = False, full: bool = False) -> Markup:
    mean = words.plain(of.mean, of.metric)
    if of.around is None or of.half is None:
        return _results("estimate", mean, "", "", bold)
    other = f"sd {words.plain(of.sd, of.metric)}"
    if of.spread == "sd":
        other = f"{words.plain(of.mean - of.half, of.metric)} to {words.plain(of.mean + of.half, of.metric)}"
    return _results("estimate", mean, words.plain(of.around, of.metric), other if full else "", bold)


def _difference(row: Row) -> Markup:
    apart = row.difference
    if apart is None or apart.mean is None:
        return _none(row)
    around = f"± {words.plain(apart.around, row.metric)}" if apart.around is not None else apart.why
    tone = words.tone(apart, row.p_holm)
    return _results("with_note", words.signed(apart.mean, 2, row.metric), around, tone, why=True)


def _chance(row: Row) -> Markup:
    apart = row.difference
    if apart is None or apart.p is None:
        return _none(row)
    corrected = row.p_holm not in (None, apart.p)
    return _results(
        "with_note", words.p_text(apart.p), f"Holm {words.p_text(row.p_holm)}" if corrected else ""
    )


def _none(row: Row) -> Markup:
    """A dash that says why there is no number: below it where that is a surprise, else on hovering."""
    if row.difference is not None and row.difference.mean is None:
        return _results("with_note", words.DASH, row.difference.why, why=True)
    if row.difference is not None:
        why = row.difference.why
    else:
        why = "this is the baseline" if row.is_baseline else "the baseline was not run here"
    return _results("hovered", words.DASH, why)


def _reached(at: int) -> Callable[[Row], str]:
    return lambda row: words.when_reached(row.reached[at], row.group.complete)


def _strip(row: Row, looks: Mapping[str, Style], low: float, high: float) -> Markup:
    """Seeds as dots over the interval, all rows on one scale; the numbers stand beside it."""
    width, pad = 130, 6

    def x(value: float) -> str:
        return f"{pad + (width - 2 * pad) * (value - low) / ((high - low) or 1):.1f}"

    tone = looks[row.group.label].colour
    a, b = row.final.within
    dots = [x(value) for value in row.final.values]
    return _results("strip", width, pad, RULE, tone, x(a), x(b), x(row.final.mean), dots)


STYLE = """
main { max-width: 1210px; }
header h1 { max-width: 42ch; }
header + p { font-size: 17px; max-width: 84ch; }
h3 { font-size: 16px; margin: 32px 0 4px; }
nav { margin: 20px 0 0; display: flex; flex-wrap: wrap; gap: 4px 18px; font-size: 13px; }
caption { caption-side: bottom; text-align: left; color: var(--muted); font-size: 13px; padding-top: 8px;
  max-width: min(1114px, 100vw - 112px); } /* a table wider than the window scrolls, and is not read along */
th { vertical-align: bottom; }
small { display: block; color: var(--muted); font-size: 12px; }
.leaderboard { font-size: 13.5px; }
.leaderboard th { font-size: 12.5px; }
.leaderboard th:not(:first-child) { max-width: 96px; white-space: normal; }
.reach th { white-space: normal; } .reach th:nth-child(2) { min-width: 7em; }
.strip { width: 130px; white-space: nowrap; }
.leaderboard th.strip { max-width: 130px; }
.around { color: var(--muted); }
.up { color: var(--up); font-weight: 600; } .down { color: var(--down); font-weight: 600; }
.bound td { background: var(--block); }
td.who { position: relative; padding-left: 30px; } .leaderboard td.who { min-width: 165px; }
.who small { white-space: nowrap; } small.why { max-width: 130px; white-space: normal; margin-left: auto; }
.swatch { position: absolute; left: 0; top: 15px; }
.tag { margin-left: 8px; padding: 0 6px; border: 1px solid var(--rule); border-radius: 9px; font-size: 11px;
  color: var(--muted); white-space: nowrap; }
.notice { border-left: 4px solid var(--edge); background: var(--alarm); padding: 10px 16px; margin: 20px 0;
  font-size: 14px; }
.notice ul { margin: 4px 0 0; padding-left: 20px; }
details { border-top: 1px solid var(--rule); padding: 8px 0; }
details > summary { cursor: pointer; }
details.fold > summary { color: var(--link); }
details:focus-within > summary:focus-visible, a:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
.vega-embed details { border: 0; padding: 0; }
pre { background: var(--block); border: 1px solid var(--rule); border-radius: 4px; padding: 10px 14px;
  overflow-x: auto; font-size: 12.5px; line-height: 1.5; color: var(--ink); margin: 4px 0 12px; }
.toml { font: 12.5px/1.5 ui-monospace, Menlo, Consolas, monospace; }
@media screen and (max-width: 700px) {
  header + p { font-size: 16px; }
  .stack td.who { padding: 0 0 2px 30px; } .stack .swatch { top: 6px; }
  .stack small { padding-left: 40%; } .stack td.who small { padding-left: 0; white-space: normal; }
  .stack .strip { display: none; }
  .stack tr.bound, .stack tr.bound td { background: var(--block); }
  .fold pre { white-space: pre-wrap; }
}
@media print { pre { white-space: pre-wrap; } nav, .strip { display: none; } h3 { break-after: avoid; }
  .leaderboard, .leaderboard th { font-size: 10px; } .leaderboard small { font-size: 9px; }
  .leaderboard td, .leaderboard th { padding-right: 6px; } .leaderboard td.who { min-width: 120px; } }
"""
