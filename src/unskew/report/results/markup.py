"""Pieces of a report's page that only runs need: the leaderboard, the matrix of problems, notices, recipes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from unskew.report.results import words
from unskew.report.results.groups import Problem
from unskew.report.results.leaderboard import Row
from unskew.report.results.look import Style
from unskew.report.results.reach import Reached
from unskew.report.results.repeat import Recipe
from unskew.report.results.statistics import Estimate, Spread
from unskew.report.theme import RULE


@dataclass(frozen=True)
class Markup:
    """Finished HTML."""

    text: str

    def html(self, at: int) -> str:
        return self.text


@dataclass(frozen=True)
class Title:
    """A heading that can be linked to; ``level`` 2 or 3."""

    text: str
    name: str
    level: int = 2

    def html(self, at: int) -> str:
        name = f' id="{self.name}"' if self.name else ""
        return f"<h{self.level}{name}>{escape(self.text)}</h{self.level}>"


OTHER: dict[Spread, str] = {"ci": "the standard deviation (sd)", "sd": "the 95% interval"}
"""What stands below ± in the leaderboard, where ± is the one or the other."""


def leaderboard_table(rows: Sequence[Row], looks: Mapping[str, Style]) -> Markup:
    """Every group with what it reached, how sure that is and what it cost; the best final stands out."""
    seeds = max(row.final.n for row in rows)
    caption = "Global test accuracy of the global model, in percent" + (
        f": the mean over seeds ± {words.MEANING[rows[0].final.spread]}, and below it {OTHER[rows[0].final.spread]}. "
        "A difference is green or red where it is more than chance explains"
        if seeds > 1
        else "; with one seed there is no interval"
    )
    columns = _columns(rows, looks)
    head = "".join(f"<th{_kind(kind)} scope=col>{escape(title)}" for title, kind, _ in columns)
    body = "".join(
        f"<tr{_kind('bound' if row.group.bound else '')}>"
        + "".join(
            f'<td{_kind(kind)} data-title="{escape(title)}">{cell(row)}' for title, kind, cell in columns
        )
        for row in rows
    )
    return Markup(
        f"<div class=wide><table class='leaderboard stack'><caption>{caption}</caption>"
        f"<thead><tr>{head}</thead><tbody>{body}</tbody></table></div>"
    )


Column = tuple[str, str, Callable[[Row], str]]
"""Title, kind (the style class) and the HTML of a row's cell."""


def _columns(rows: Sequence[Row], looks: Mapping[str, Style]) -> list[Column]:
    """What there is to say about these rows; a column in which nothing differs from nothing is left out."""
    winner = words.contenders(rows)[0]
    low = min(min(row.final.within[0], *row.final.values) for row in rows)
    high = max(max(row.final.within[1], *row.final.values) for row in rows)
    alone = len(rows) == 1
    columns: list[Column] = [
        ("method", "who", lambda row: _name(row, looks, alone)),
        ("final, %", "number", lambda row: _estimate(row.final, bold=row is winner and not alone, full=True)),
    ]
    if not alone or rows[0].final.n > 1:
        drawn = {"ci": "seeds and 95% interval", "sd": "seeds, mean ± sd"}[rows[0].final.spread]
        columns.append((drawn, "strip", lambda row: _strip(row, looks, low, high)))
    columns.append(
        (
            "best, %",
            "number",
            lambda row: (
                _estimate(row.best, full=True) + f"<small>in round {words.span(row.best_rounds)}</small>"
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


def matrix(tables: Sequence[tuple[Problem, Sequence[Row]]], looks: Mapping[str, Style]) -> Markup:
    """Final accuracy by method and problem, where there are several; the fewer of the two are the columns."""
    labels = list(dict.fromkeys(row.group.label for _, rows in tables for row in rows))
    names = words.short_names([problem for problem, _ in tables])
    methods = [f"{_swatch(looks[label])}{escape(label)}" for label in labels]
    places = [f'<a href="#problem{at}">{escape(name)}</a>' for at, name in enumerate(names)]
    cells = []
    for label in labels:
        across = []
        for _, rows in tables:
            row = next((row for row in rows if row.group.label == label), None)
            best = row is words.contenders(rows)[0]
            across.append(_estimate(row.final, bold=best) if row else words.DASH)
        cells.append(across)
    if len(tables) > len(labels):
        cells = [list(column) for column in zip(*cells, strict=True)]
        down, across, first, plain = places, [escape(label) for label in labels], "", labels
    else:
        down, across, first, plain = methods, places, " class=who", names
    head = "".join(f"<th class=number scope=col>{title}" for title in across)
    body = "".join(
        f"<tr><td{first}>{title}"
        + "".join(
            f'<td class=number data-title="{escape(of)}">{cell}' for of, cell in zip(plain, line, strict=True)
        )
        for title, line in zip(down, cells, strict=True)
    )
    return Markup(
        "<div class=wide><table class=stack><caption>Final global test accuracy in percent, "
        f"mean ± {words.MEANING[tables[0][1][0].final.spread]}; "
        "in bold the highest of each data setting, upper bounds aside</caption>"
        f"<thead><tr><th scope=col>{head}</thead><tbody>{body}</tbody></table></div>"
    )


def cost_table(rows: Sequence[Row], at: int) -> Markup:
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
        cells = [escape(row.group.label), escape(words.seeds_reaching(row, to))]
        for title, value_of, said in costs:
            value = value_of(to)
            hidden = row.group.bound == "upper" and (
                "clients" in title or title in ("bytes together", "on the air")
            )
            cells.append(words.DASH if hidden and to.seeds else "" if value is None else said(value))
        body.append(cells)
    caption = f"From the start to the first evaluated round with {goal} or more" + (
        ", mean over the seeds that get there; empty where none does"
        if several
        else "; empty where it does not"
    )
    lines = "".join(
        "<tr>"
        + "".join(
            f"<td{_kind('number' if k > 1 else '')} data-title='{escape(head[k])}'>{cell}"
            for k, cell in enumerate(cells)
        )
        for cells in body
    )
    titles = "".join(
        f"<th{_kind('number' if k > 1 else '')} scope=col>{escape(title)}" for k, title in enumerate(head)
    )
    return Markup(
        f"<div class=wide><table class='reach stack'><caption>{caption}</caption>"
        f"<thead><tr>{titles}</thead><tbody>{lines}</tbody></table></div>"
    )


def notice(lines: Sequence[str], title: str) -> Markup:
    """Something that must not be overlooked."""
    items = "".join(f"<li>{escape(line)}" for line in lines)
    return Markup(f"<div class=notice role=note><strong>{escape(title)}</strong><ul>{items}</ul></div>")


def recipe(title: str, of: Recipe, *, opened: bool = False, printed: bool = True) -> Markup:
    """An experiment file that can be copied, and what to do with it; paper needs no second one of the same runs."""
    notes = "".join(f"<p>{escape(note)}</p>" for note in of.notes)
    return Markup(
        f"<details class='fold{'' if printed else ' screen'}'{' open' if opened else ''}>"
        f"<summary>{escape(title)}</summary>{notes}"
        f"<p class=quiet>experiment.toml</p><pre>{escape(of.toml)}</pre>"
        f"<p class=quiet>then</p><pre>{escape(chr(10).join(of.commands))}</pre></details>"
    )


def differences(common: str, own: Sequence[tuple[str, str]]) -> Markup:
    """The settings that all runs share, once, and what each has of its own."""
    rows = "".join(
        f"<tr><td>{escape(label)}<td class=toml>{escape(lines).replace(chr(10), '<br>')}"
        for label, lines in own
    )
    return Markup(
        f"<p>All runs have these settings:</p><pre>{escape(common)}</pre><p>and of their own:</p>"
        f"<div class=wide><table><tbody>{rows}</tbody></table></div>"
    )


def fold(title: str, inner: str) -> Markup:
    return Markup(f"<details class=fold><summary>{escape(title)}</summary>{inner}</details>")


def contents(links: Sequence[tuple[str, str]]) -> Markup:
    """Where to go on the page."""
    items = "".join(f'<a href="#{name}">{escape(text)}</a>' for name, text in links)
    return Markup(f"<nav aria-label=Contents>{items}</nav>")


def _kind(name: str) -> str:
    return f" class={name}" if name else ""


def _name(row: Row, looks: Mapping[str, Style], alone: bool) -> str:
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
    marks = "".join(f"<span class=tag>{tag}</span>" for tag in tags)
    return f"{_swatch(looks[row.group.label])}<b>{escape(row.group.label)}</b><small>{seeds}{marks}</small>"


def _swatch(look: Style) -> str:
    dash = ",".join(map(str, look.dash)) if look.dash[1] else "none"
    return (
        "<svg class=swatch width=22 height=10 aria-hidden=true><line x1=0 x2=22 y1=5 y2=5 "
        f'stroke="{look.colour}" stroke-width=3 stroke-dasharray="{dash}" /></svg>'
    )


def _estimate(of: Estimate, *, bold: bool = False, full: bool = False) -> str:
    mean = f"<b>{words.plain(of.mean)}</b>" if bold else words.plain(of.mean)
    if of.around is None or of.half is None:
        return mean
    other = f"sd {words.plain(of.sd)}"
    if of.spread == "sd":
        other = f"{words.plain(of.mean - of.half)} to {words.plain(of.mean + of.half)}"
    return f"{mean} <span class=around>± {words.plain(of.around)}</span>" + (
        f"<small>{other}</small>" if full else ""
    )


def _difference(row: Row) -> str:
    apart = row.difference
    if apart is None or apart.mean is None:
        return _none(row)
    around = f"± {words.plain(apart.around)}" if apart.around is not None else escape(apart.why)
    tone = words.tone(apart, row.p_holm)
    return f"<span{_kind(tone)}>{words.signed(apart.mean, 2)}</span><small class=why>{around}</small>"


def _chance(row: Row) -> str:
    apart = row.difference
    if apart is None or apart.p is None:
        return _none(row)
    corrected = row.p_holm not in (None, apart.p)
    return words.p_text(apart.p) + (f"<small>Holm {words.p_text(row.p_holm)}</small>" if corrected else "")


def _none(row: Row) -> str:
    """A dash that says why there is no number: below it where that is a surprise, else on hovering."""
    if row.difference is not None and row.difference.mean is None:
        return f"{words.DASH}<small class=why>{escape(row.difference.why)}</small>"
    if row.difference is not None:
        why = row.difference.why
    else:
        why = "this is the baseline" if row.is_baseline else "the baseline was not run here"
    return f'<span title="{escape(why)}">{words.DASH}</span>'


def _reached(at: int) -> Callable[[Row], str]:
    return lambda row: words.when_reached(row.reached[at], row.group.complete)


def _strip(row: Row, looks: Mapping[str, Style], low: float, high: float) -> str:
    """Seeds as dots over the interval, all rows on one scale; the numbers stand beside it."""
    width, pad = 130, 6

    def x(value: float) -> str:
        return f"{pad + (width - 2 * pad) * (value - low) / ((high - low) or 1):.1f}"

    tone = looks[row.group.label].colour
    a, b = row.final.within
    dots = "".join(
        f'<circle cx="{x(value)}" cy=10 r=3.5 fill="{tone}" fill-opacity=.45 />' for value in row.final.values
    )
    return (
        f"<svg width={width} height=20 aria-hidden=true>"
        f'<line x1={pad} x2={width - pad} y1=10 y2=10 stroke="{RULE}" />'
        f'<line x1="{x(a)}" x2="{x(b)}" y1=10 y2=10 stroke="{tone}" stroke-width=2 />{dots}'
        f'<line x1="{x(row.final.mean)}" x2="{x(row.final.mean)}" y1=3 y2=17 stroke="{tone}" stroke-width=3 />'
        "</svg>"
    )


STYLE = """
main { max-width: 1180px; }
header h1 { max-width: 42ch; }
header + p { font-size: 17px; max-width: 84ch; }
h3 { font-size: 16px; margin: 32px 0 4px; }
nav { margin: 20px 0 0; display: flex; flex-wrap: wrap; gap: 4px 18px; font-size: 13px; }
caption { caption-side: bottom; text-align: left; color: var(--muted); font-size: 13px; padding-top: 8px; }
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
