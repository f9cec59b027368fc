"""The report of runs as one HTML page."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from unskew.report.page import Block, Figure, Heading, Paragraph, TableBlock, save_page
from unskew.report.rendering import piece
from unskew.report.results import words
from unskew.report.results.comparison import Comparison
from unskew.report.results.data import class_names, data_section
from unskew.report.results.disclosure import disclosure_section
from unskew.report.results.front import has_front
from unskew.report.results.gather import Record
from unskew.report.results.groups import Problem, repeats
from unskew.report.results.joining import joining_section
from unskew.report.results.leaderboard import Row
from unskew.report.results.look import Style, styles
from unskew.report.results.markup import (
    STYLE,
    contents,
    differences,
    fold,
    matrix,
    notice,
    recipe,
)
from unskew.report.results.pictures import class_accuracies, class_heat_map, cost_bars
from unskew.report.results.repeat import alone, shared, whole
from unskew.report.results.search import left_out_told
from unskew.report.results.sections import curves_section, front_section, leaderboard_section, target_section
from unskew.report.results.sharing import sharing_section
from unskew.report.results.statistics import Spread
from unskew.report.results.tested import is_tested, tested_section
from unskew.report.results.usage import usage_bars, usage_told
from unskew.report.theme import themed, trusted


def save_report(compared: Comparison, path: Path, title: str | None = None) -> None:
    """Write the page, whole or not at all."""
    heading = title or compared.headline.title
    with trusted():
        content = list(blocks(compared, title))
    save_page(path, heading, content, _about(compared), STYLE)


def blocks(compared: Comparison, title: str | None = None) -> Iterator[Block]:
    """What the page holds, in order."""
    looks = styles([rows for _, rows in compared.tables])
    lead = compared.headline.lead
    yield Paragraph(f"{compared.headline.title}. {lead}" if title else lead)
    if compared.unfinished:
        n, of = len(compared.unfinished), len(compared.records)
        yield notice(
            [_unfinished(record) for record in compared.unfinished[:12]]
            + ([f"and {n - 12} more, in the list of runs"] if n > 12 else []),
            f"{n} of {of} run{'s' if of > 1 else ''} did not finish"
            + (": the leaderboard counts what is done" if n < of else ": these are the numbers so far"),
        )
    if left := [left for left in compared.left_out if not left.unfinished]:  # those are listed above
        yield notice(left_out_told(left), f"{len(left)} left out")
    several = len(compared.tables) > 1
    yield contents(_links(compared))
    if several:
        yield Heading("All settings", "all")
        yield matrix(compared.tables, looks)
    for at, ((problem, rows), note) in enumerate(zip(compared.tables, compared.remarks, strict=True)):
        if several:
            yield Heading(problem.name, f"problem{at}")
            yield Paragraph(words.problem_line(rows, note))
        yield from _problem(problem, rows, looks, f"-{at}" if several else "", 3 if several else 2)
    yield Heading("What leaves a client", "disclosure")
    yield from disclosure_section(compared.tables)
    yield Heading("All runs", "runs")
    yield from _runs(compared)
    yield Heading("Repeat it", "repeat")
    yield from _recipes(compared)
    yield Heading("How to read the numbers", "reading")
    yield from (Paragraph(text, quiet=True) for text in (PLUS_MINUS[compared.spread], *READING))


PLUS_MINUS: dict[Spread, str] = {
    "ci": "± is half the 95% interval of the mean by Student's t over seeds, also after a difference; sd is the "
    "standard deviation over seeds (n − 1). With one seed there is neither.",
    "sd": "± is the standard deviation over seeds (n − 1), after a difference that of the differences; an interval "
    "is the 95% interval of the mean by Student's t. With one seed there is neither.",
}

READING = (
    "Accuracy is the global test accuracy: the share of the data set's own test samples that the global model "
    "gets right. A report goes by the first metric that its runs name: accuracy, unless they name another. Final is "
    "that of the last round that was evaluated. Best is that of the best evaluated round, seed by seed. Where runs "
    "have set samples aside for validation, the best round is the one that is best on those, and the test set had no "
    "say in it; without, it is the best of all and was chosen on the test set: compare methods by the "
    "final then. Targets are reached on the test set.",
    "The difference to the baseline is paired: the same seed means the same split of the data, so both are "
    "compared seed by seed, over the seeds they share. p is the two-sided paired t-test; with fewer than two "
    "common seeds there is none. Where several methods are compared, Holm's correction is given beside it.",
    "Cost to a target: all that was spent from the start to the first evaluated round that reaches it, the mean over "
    "the seeds that do; who does not has no number. Where nobody named a target (report --target 0.8, or target of "
    "the runs), it is what the baseline ends at on average.",
    "A method has the same colour in every report. A difference is coloured only where it is more than chance "
    "explains: where Holm's corrected p is below 0.05. A run has diverged where its last loss is not finite "
    "or above 1,000, or no answer of its last round could be used.",
    "local_only is the lower bound: every client trains for itself, as often and on the same batches as it would in "
    "the federated runs, and each of these models is judged on the same test set. Its accuracy is the mean over "
    "clients. centralized, the upper bound, has all data in one place.",
    "Traffic counts bytes to clients, from clients and between clients; of the upper bound it is not shown, since "
    "there the data itself has moved. Sample-steps are samples times passes, over all clients. Seconds on the air "
    "are what the run's network makes of its bytes, raw samples sent before round 1 included. Bands in curves "
    "reach from the lowest to the highest seed.",
)


def _links(compared: Comparison) -> list[tuple[str, str]]:
    if len(compared.tables) > 1:
        first = [("all", "All settings")]
        names = words.short_names([problem for problem, _ in compared.tables])
        first += [(f"problem{at}", name) for at, name in enumerate(names)]
    else:
        first = [("leaderboard", "Leaderboard")]
        first += [("metrics", "By metric")] if len(compared.records[0].metrics) > 1 else []
        first += [("reach0", "Cost to a target")] if compared.tables[0][1][0].reached else []
        first += [("tested", "Clients")] if any(map(is_tested, compared.tables[0][1])) else []
        first += [("curves", "Learning curves"), ("classes", "By class")]
        first += [("front", "Trade-offs")] if has_front(compared.tables[0][1]) else []
        first += [("costs", "Costs"), ("faults", "Faults"), ("data", "Data")]
    return [*first, ("disclosure", "Disclosure"), ("runs", "All runs"), ("repeat", "Repeat it")]


def _problem(
    problem: Problem, rows: Sequence[Row], looks: Mapping[str, Style], tail: str, level: int
) -> Iterator[Block]:
    yield from leaderboard_section(rows, looks, tail, level)
    if joining := list(joining_section(rows, looks)):
        yield Heading("Should a client join?", f"joining{tail}", level)
        yield from joining
    if tested := list(tested_section(rows)):
        yield Heading("Every client on its own test samples", f"tested{tail}", level)
        yield from tested
    yield from target_section(rows, tail, level)
    yield from curves_section(rows, looks, tail, level)
    heat = class_heat_map(rows, class_names(problem))
    if heat is not None:
        yield Heading("Accuracy by class", f"classes{tail}", level)
        yield Figure(
            themed(heat), "Final global test accuracy by class, mean over seeds.", alt=_weakest(rows, problem)
        )
    yield from front_section(rows, looks, tail, level)
    bars = cost_bars([row for row in rows if not row.group.bound])
    if bars is not None:
        yield Heading("What it cost, by kind", f"costs{tail}", level)
        told = "; ".join(
            f"{row.group.label} {words.size(row.bytes.mean)}" for row in rows if not row.group.bound
        )
        yield Figure(themed(bars), alt=f"Bytes of a run by kind: {told}")
    used = usage_bars([row for row in rows if not row.group.bound], looks)
    if used is not None:
        yield Heading("Whom and what it used", f"used{tail}", level)
        yield Figure(
            themed(used),
            "Samples count once a round, however many epochs a client takes; means over seeds.",
            alt=usage_told(rows),
        )
    if shared := list(sharing_section(rows, class_names(problem))):
        yield Heading("Who shared with whom", f"sharing{tail}", level)
        yield from shared
    yield Heading("Faults", f"faults{tail}", level)
    yield from _faults(rows)
    yield from _sites(rows)
    yield Heading("The data", f"data{tail}", level)
    yield from data_section(problem)


def _sites(rows: Sequence[Row]) -> Iterator[Block]:
    """Of runs at real sites: what was really sent, beside the bytes that a method counts, and who was lost when."""
    said = [
        (row.group.label, record, record.sites)
        for row in rows
        for record in row.group.counted
        if record.sites is not None
    ]
    if not said:
        return
    head = ["method", "seed", "counted", "really sent to sites", "really sent back"]
    table = [
        [
            label,
            str(record.spec.seed),
            words.size(record.bytes_moved),
            words.size(told.down),
            words.size(told.up),
        ]
        for label, record, told in said
    ]
    yield TableBlock(head, table, frozenset(head[1:]))
    lost = [
        f"{label}, seed {record.spec.seed}: {site} had no part in round {', '.join(map(str, rounds))}"
        for label, record, told in said
        for site, rounds in told.lost.items()
    ]
    if lost:
        yield Paragraph("; ".join(lost) + ". The log says why.")


def _faults(rows: Sequence[Row]) -> Iterator[Block]:
    if all(words.faults(row) in ("none", words.DASH) for row in rows):
        yield Paragraph("Every client that was asked answered in time, and no answer was rejected.")
        return
    head = ["method", "asked", "answered", "of these late", "rejected as NaN or Inf", "never answered"]
    table = [
        [
            row.group.label,
            f"{row.asked:,.0f}",
            f"{row.answered:,.0f} ({row.answered / max(1, row.asked):.0%})",
            f"{row.late:,.0f}",
            f"{row.rejected:,.0f}",
            f"{row.silent:,.0f} ({row.silent / max(1, row.asked):.0%})",
        ]
        for row in rows
    ]
    yield TableBlock(head, table, frozenset(head[1:]))
    yield Paragraph("Clients, added up over a run's rounds; mean over seeds.", quiet=True)
    named = [
        f"{row.group.label}, seed {record.spec.seed}: {_clients(record.named('rejected'))}"
        for row in rows
        for record in row.group.counted
        if record.named("rejected")
    ]
    if named:
        yield fold("Whose answers were rejected", piece("blocks.html", "list")(named))


def _clients(named: Sequence[tuple[int, list[int]]]) -> str:
    said = [f"round {round}: {', '.join(map(str, who))}" for round, who in named[:20]]
    return "; ".join(said) + (f"; and in {len(named) - 20} more rounds" if len(named) > 20 else "")


def _weakest(rows: Sequence[Row], problem: Problem) -> str:
    names = class_names(problem)
    said = []
    for row in rows:
        known = [(v, at) for at, v in enumerate(class_accuracies(row)) if v is not None]
        if known:
            value, at = min(known)
            said.append(f"{row.group.label} is weakest on {names[at] if names else at} with {value:.0%}")
    return "Accuracy by class: " + "; ".join(said)


def _runs(compared: Comparison) -> Iterator[Block]:
    several = len(compared.tables) > 1
    unit = words.unit(compared.records[0].metric)
    head = ["method", "seed", "status", "rounds", f"final{unit}", f"best{unit}", "time", "folder"]
    table = []
    for problem, rows in compared.tables:
        order = [row.group for row in rows] + [g for g in problem.groups if not g.counted]
        for group in order:
            again = dict(repeats(group))
            for record in group.runs:
                state = record.status + (", diverged" if record.diverged else "")
                state += f", stopped: {record.stopped.reason}" if record.stopped else ""
                if record in again:
                    state += f", repeats {again[record].name}{_same(record, again[record])}"
                final = (
                    words.plain(record.value(record.final), record.metric) if record.judged else words.DASH
                )
                best = (
                    f"{words.plain(record.value(record.best), record.metric)} (round {record.best['round']})"
                    if record.judged
                    else words.DASH
                )
                cells = [group.label, str(record.spec.seed), state, f"{record.round} of {record.spec.rounds}"]
                cells += [final, best, words.duration(record.total("wall_s")), record.name]
                table.append(([problem.name] if several else []) + cells)
    listed = TableBlock(
        (["data"] if several else []) + head,
        table,
        frozenset({"seed", "rounds", f"final{unit}", f"best{unit}", "time"}),
    )
    yield listed if len(table) <= 24 else fold(f"{len(table)} runs", listed.html(0))


def _same(record: Record, counted: Record) -> str:
    if any(one.status != "done" or not one.judged for one in (record, counted)):
        return ""  # damage may have left a run that is done no number
    same = record.value(record.final) == counted.value(counted.final)
    return "" if same else ", with other numbers"


def _recipes(compared: Comparison) -> Iterator[Block]:
    """Every setting once, which is also what is printed; then each line of a leaderboard alone, to be copied."""
    groups = [group for problem, _ in compared.tables for group in problem.groups]
    several = len(compared.tables) > 1
    everything = whole(groups) if len(groups) > 1 else None
    if everything is not None:
        yield recipe("All runs in one sweep", everything, opened=True)
    else:
        for problem, _ in compared.tables:
            yield from _together(problem, several)
    for problem, rows in compared.tables:
        tail = f" on {problem.name}" if several else ""
        for row in rows if len(problem.groups) > 1 else ():
            yield recipe(f"{row.group.label}{tail}", alone(row.group), printed=False)


def _together(problem: Problem, several: bool) -> Iterator[Block]:
    """The runs of one problem: a sweep where they are one, else what they share and what each has of its own."""
    if len(problem.groups) == 1:
        (group,) = problem.groups
        yield recipe(
            f"{group.label} on {problem.name}" if several else group.label, alone(group), opened=True
        )
    elif (swept := whole(problem.groups)) is not None:
        yield recipe(f"All runs on {problem.name}", swept, opened=True)
    else:
        if several:
            yield Heading(problem.name, "", 3)
        yield differences(*shared(problem.groups))


def _unfinished(record: Record) -> str:
    who = f"{record.called}, seed {record.spec.seed}"
    at = f"after round {record.round} of {record.spec.rounds}"
    if record.judged:
        said = words.level(record.value(record.final), record.metric)
        at += f", last {record.metric.title} {said} (round {record.final['round']})"
    match record.status:
        case "failed":
            return f"{who}: failed {at}: {record.result.get('error', 'for a reason that was not kept')}"
        case "running":
            return f"{who}: still running, {at}"
        case _:
            hint = f"; go on with: unskew resume {shlex.quote(str(record.path))}" if record.path else ""
            return f"{who}: interrupted {at}{hint}"


def _about(compared: Comparison) -> str:
    found = compared.tables
    which = found[0][0].name if len(found) == 1 else f"{len(found)} settings of the data"
    methods = len({row.group.label for _, rows in found for row in rows})
    n = len(compared.records)
    seeds = len({record.spec.seed for record in compared.records})
    told = [f"{n} run{'s' if n > 1 else ''}"]
    if methods > 1:
        told.append(f"{methods} methods or settings")
    told.append(f"{seeds} seed{'s' if seeds > 1 else ''}")
    return " · ".join([which, *told])
