"""Numbers and findings in words: what won, by how much, over what, and how sure one may be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unskew.readings import METRICS, Reading
from unskew.report.results.groups import Problem
from unskew.report.results.leaderboard import Row
from unskew.report.results.reach import Reached
from unskew.report.results.statistics import Difference, Estimate, Spread
from unskew.report.results.staying import gaining, lower_bound, range_of
from unskew.runs.chosen import ChosenOn
from unskew.runs.guessing import no_better, verdict

DASH = "–"
SURE = 0.05
MEANING: dict[Spread, str] = {"ci": "half the 95% interval", "sd": "the standard deviation"}
"""What ± is, in words."""


CHOSEN: dict[ChosenOn, str] = {"validation": "chosen on validation", "test": "chosen on the test set"}
"""On what the best round was chosen."""


@dataclass(frozen=True)
class Headline:
    """One line, and the sentences that back it."""

    title: str
    lead: str


def headline(
    found: Sequence[tuple[Problem, Sequence[Row]]], notes: Sequence[str] = (), stops: Sequence[str] = ()
) -> Headline:
    """What all problems together say, and what has to be said of their baselines and of runs that ended early."""
    said = _of_problem(found[0][1]) if len(found) == 1 else _of_problems(found)
    told = [note for note in notes if note]
    if len(found) > 1 and told:
        told = [f"In {len(told)} of them the baseline is not what one would expect; see below."]
    early = [stop for stop in stops if stop]
    told += ["Some runs were stopped early; see below."] if early and len(found) > 1 else early
    return Headline(said.title, " ".join([said.lead, *told]))


def _of_problems(found: Sequence[tuple[Problem, Sequence[Row]]]) -> Headline:
    leaders = [(problem, contenders(rows)[0]) for problem, rows in found]
    # who stands alone in a setting is ahead of nobody
    wins = Counter(contenders(rows)[0].group.label for _, rows in found if len(contenders(rows)) > 1)
    label, times = wins.most_common(1)[0] if wins else (leaders[0][1].group.label, 0)
    if len({row.group.label for _, rows in found for row in rows if not row.group.bound}) == 1:
        title = f"{label} in {len(found)} settings"
    elif not wins:
        title = f"{len(found)} settings, each with one method alone: nothing to compare"
    else:
        where = f"{times} of {len(found)}"
        if times == len(found):
            where = "both" if times == 2 else f"all {times}"
        once = " on one seed" if all(leader.final.n == 1 for _, leader in leaders) else ""
        title = f"{label} is ahead in {where} settings{once}"
    names = short_names([problem for problem, _ in found])
    void = [leader for _, leader in leaders if _guesses(leader)]
    if len(void) == len(leaders):
        title = f"No method is better than always answering the most frequent class in {len(found)} settings"
    elif void:
        title += (
            f"; in {len(void)} of {len(found)} it is no better than always answering the most frequent class"
        )
    told = [
        f"{name}: {leader.group.label} at {percent(leader.final)}"
        + (f", {verdict(known)}" if (known := _guesses(leader)) else "")
        for name, (_, leader) in zip(names, leaders, strict=True)
    ]
    if len(told) > 6:
        told = [*told[:5], f"and {len(told) - 5} more below"]
    tested = [leader for _, leader in leaders if leader.difference and leader.difference.p is not None]
    sure = sum(map(beyond_chance, tested))
    many = f"{len(tested)} lead{'s' * (len(tested) != 1)}"
    how = f" Of {many} over a baseline {sure} cannot be explained by chance." if tested else ""
    around = next((leader.final for _, leader in leaders if leader.final.around is not None), None)
    meaning = f" (± {MEANING[around.spread]})" if around else ""
    return Headline(
        title,
        f"Mean final {_judged_by(leaders[0][1])}{meaning} of the best method for each data setting: "
        f"{'; '.join(told)}.{how}",
    )


def problem_line(rows: Sequence[Row], note: str = "") -> str:
    """The headline of one problem among several, in a few sentences."""
    said = _of_problem(rows)
    return " ".join(filter(None, [f"{said.title}. {said.lead}", note]))


def short_names(found: Sequence[Problem]) -> list[str]:
    """The problems' names without the words that all of them share."""
    split = [problem.name.split(" · ") for problem in found]
    common = set.intersection(*(set(words) for words in split))
    short = [" · ".join(word for word in words if word not in common) for words in split]
    return short if all(short) else [problem.name for problem in found]


def contenders(rows: Sequence[Row]) -> list[Row]:
    """Who can win: methods, not the bound; finished ones if there are any. In the order of the leaderboard."""
    methods = [row for row in rows if not row.group.bound] or list(rows)
    return [row for row in methods if row.group.complete] or methods


def _bounds(rows: Sequence[Row], first: Row) -> str:
    """What all data in one place reaches, and what clients reach that stay on their own."""
    said = ""
    upper = next((row for row in rows if row.group.bound == "upper" and row is not first), None)
    if upper:
        said += f" The upper bound, {upper.group.label}, reaches {percent(upper.final)}."
    alone = lower_bound(rows)
    if alone is None:
        return said
    low, high = range_of(alone)
    by_accuracy = alone.metric.name == "accuracy"  # by which each client's own model is listed
    between = f", between {low:.1%} and {high:.1%}" if high > low and by_accuracy else ""
    if alone is first:
        return f"{said} Each client trains for itself{between.replace(', between', ': they reach between')}."
    said += f" The lower bound, {alone.group.label}: a client on its own reaches {percent(alone.final)} on average"
    said += between
    better, of = gaining(alone, first)
    counted = f"; {better} of {of} do better with {first.group.label}" if of and by_accuracy else ""
    return f"{said}{counted}."


def _of_problem(rows: Sequence[Row]) -> Headline:
    """What one problem's leaderboard says; what makes the rest void comes first."""
    said, first = _of_methods(rows), contenders(rows)[0]
    alone = lower_bound(rows)
    if (
        alone is not None
        and alone is not first
        and not first.metric.better(first.final.mean, alone.final.mean)
    ):
        seeds = " on one seed" if alone.final.n == 1 or first.final.n == 1 else ""
        joining = f"Joining has not paid{seeds}: a client on its own reaches {brief(alone.final)} on average"
        said = Headline(f"{joining}, {first.group.label} {brief(first.final)}", f"{said.title}. {said.lead}")
    if known := _guesses(first):
        said = Headline(f"{_who(first, rows)} {verdict(known)}", f"{said.title}. {said.lead}")
    else:
        failing = [row.group.label for row in rows if row is not first and _guesses(row)]
        if failing:
            known = _known(first) or {}
            said = Headline(said.title, f"{said.lead} {_upper(verdict(known))}: {', '.join(failing)}.")
    return said


def _who(first: Row, rows: Sequence[Row]) -> str:
    methods = contenders(rows)
    return (
        f"{first.group.label} is"
        if len(methods) == 1
        else f"All methods, the best of them {first.group.label}, are"
    )


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _known(row: Row) -> Mapping[str, Any] | None:
    """The test set's most frequent class, where its runs know it."""
    return row.group.counted[0].data.get("most_frequent")


def _guesses(row: Row) -> Mapping[str, Any] | None:
    """That class, where the row does no better than always answering it."""
    known = _known(row)
    return known if no_better(row.accuracy, known) else None


def _of_methods(rows: Sequence[Row]) -> Headline:
    running = contenders(rows)
    first = running[0]
    so_far = "" if first.group.complete else " so far"
    above = _bounds(rows, first)
    blown = " It diverged: its last loss is none that a model can have." if _blown(first) else ""
    if len(running) == 1:
        return Headline(
            f"{first.group.label} reaches {brief(first.final)} {_judged_by(first)}{so_far}",
            f"{'Last' if so_far else 'Final'} {first.metric.title} of the global model on the global test set: "
            f"{percent(first.final)} "
            f"{_over(first)}; best {percent(first.best)} {_when(first.best_rounds)}, {CHOSEN[first.chosen_on]}."
            f"{blown}{above}",
        )
    base = next((row for row in running if row.group is first.baseline), None)
    if base is None or base is first:
        return _first_is_the_baseline(running, so_far, blown + above, known=base is not None)
    apart = first.difference
    against = f"Final {_judged_by(first)} {percent(first.final)} {_over(first)}, against {percent(base.final)}.{blown}"
    if apart is None or apart.mean is None:
        why = f" The difference is not tested: {apart.why}." if apart else ""
        return Headline(f"{first.group.label} has {_top(first)}{so_far}", against + why + above)
    if abs(apart.mean) < 1e-12:
        return Headline(f"{first.group.label} and {base.group.label} are equal{so_far}", against + above)
    if first.metric.gain(apart.mean) < 0:
        return Headline(
            f"{first.group.label} has {_top(first, 'mean')}, but not on the seeds it shares with {base.group.label}",
            against + above,
        )
    if not beyond_chance(first):
        others = [f"{row.group.label} ({_gain(row)})" for row in running if _gains(row)]
        above = (f" More than chance explains: {', '.join(others)}." if others else "") + above
    return Headline(
        f"{first.group.label} {_lead(first, base.group.label)}{so_far}{_chance(first)}",
        f"{against} The difference is {points(apart.mean, first.metric)}{_sure(first)}.{above}",
    )


def _first_is_the_baseline(running: Sequence[Row], so_far: str, above: str, *, known: bool) -> Headline:
    """Nothing is above the baseline, as far as the seeds can tell; or there is none to compare with."""
    first, other = running[0], running[1]
    label = first.group.label
    # measured from the other side: its difference is to the baseline, which is first here
    apart = other.difference if known and other.baseline is first.group else None
    gap = apart.mean if apart and apart.mean is not None else other.final.mean - first.final.mean
    ahead = [row for row in running[1:] if _gains(row) and row.baseline is first.group]
    shared = [len(row.difference.seeds) for row in running[1:] if row.difference]
    if not known or not any(shared):
        title = f"{label} has {_top(first)}{so_far}"
    elif ahead:
        title = (
            f"{label} has {_top(first, 'mean')}, but {ahead[0].group.label} beats it on the seeds they share"
        )
    elif any(row.difference and row.difference.p is not None for row in running[1:]):
        title = f"Nothing beats {label}{so_far}"
    else:  # nothing could be tested
        once = " on one seed" if max(shared) == 1 else ""
        title = f"{label} is ahead of {other.group.label} by {points(abs(gap), first.metric)}{so_far}{once}"
        if abs(gap) < 1e-12:
            title = f"{label} and {other.group.label} are equal{so_far}{once}"
    return Headline(
        title,
        f"Final {_judged_by(first)} {percent(first.final)} {_over(first)}; next comes "
        f"{other.group.label} at {percent(other.final)}, {points(abs(gap), first.metric)} "
        f"{'below' if gap <= 0 else 'above'}{'' if first.metric.gain(gap) <= 0 else ' on the seeds they share'}"
        f"{_sure(other) if apart else ''}.{above}",
    )


def _lead(row: Row, other: str) -> str:
    """By how much a row is ahead, in a word that says no more than was tested."""
    assert row.difference is not None
    assert row.difference.mean is not None
    verb = "beats" if beyond_chance(row) else "is ahead of"
    return f"{verb} {other} by {points(abs(row.difference.mean), row.metric)}"


def _chance(row: Row) -> str:
    """The title's end where a lead is no win."""
    assert row.difference is not None
    if len(row.difference.seeds) == 1:
        return " on one seed"
    return ", which may be chance" if row.difference.p is not None and not beyond_chance(row) else ""


def _sure(row: Row) -> str:
    """How far a difference can be trusted."""
    apart = row.difference
    assert apart is not None
    if apart.mean is None:
        return f" (not tested: {apart.why})"
    if apart.half is None:
        return ", seen with one common seed only: run more seeds to know whether it is more than chance"
    if apart.p is None:
        return " for every seed, so there is nothing to test"
    low, high = apart.mean - apart.half, apart.mean + apart.half
    seeds = f"{len(apart.seeds)} paired seeds"
    chance = "more than chance explains" if beyond_chance(row) else "this may be chance"
    corrected = (
        f"; {p_value(row.p_holm, 'corrected ')} for the methods tried"
        if row.p_holm is not None and row.p_holm > apart.p
        else ""
    )
    ends = f"{signed(low, metric=row.metric)} to {signed(high, metric=row.metric)}"
    return f" (95% interval {ends} over {seeds}, {p_value(apart.p)}{corrected}): {chance}"


def beyond_chance(row: Row) -> bool:
    """Whether a difference stands, corrected for the methods that were tried."""
    return row.p_holm is not None and row.p_holm < SURE


def _gains(row: Row) -> bool:
    """Whether a row is above its baseline by more than chance explains."""
    return beyond_chance(row) and row.difference is not None and (row.difference.gain or 0) > 0


def _blown(row: Row) -> bool:
    return any(record.diverged for record in row.group.counted)


def _gain(row: Row) -> str:
    assert row.difference is not None
    assert row.difference.mean is not None
    unit = " points" if row.metric.percent else ""
    return f"{signed(row.difference.mean, metric=row.metric)}{unit}, {p_value(row.p_holm, 'corrected ')}"


def _over(row: Row) -> str:
    n = row.final.n
    rounds = _when(row.final_rounds)
    if n == 1:
        return f"{rounds} with one seed"
    return f"{rounds} (mean of {n} seeds ± {MEANING[row.final.spread]})"


def _when(rounds: Sequence[int]) -> str:
    low, high = min(rounds), max(rounds)
    return f"after round {low}" if low == high else f"after rounds {low} to {high}"


def percent(of: Estimate) -> str:
    """91.2% ± 0.9: the mean, and the spread where there is one."""
    around = plain(of.around, of.metric) if not of.metric.percent else f"{100 * (of.around or 0):.1f}"
    return brief(of) + (f" ± {around}" if of.around is not None else "")


def brief(of: Estimate) -> str:
    """91.2%, or 0.431 of what is no share."""
    return level(of.mean, of.metric)


def level(value: float, metric: Reading) -> str:
    """A value in a sentence: 91.2%, or 0.431 of what is no share."""
    return f"{value:.1%}" if metric.percent else plain(value, metric)


def plain(value: float | None, metric: Reading = METRICS["accuracy"]) -> str:
    """91.23, in a table whose head says percent; of what is no share its own number."""
    if value is None:
        return DASH
    if metric.percent:
        return f"{100 * value:.2f}"
    return f"{value:,.1f}" if abs(value) >= 1000 else f"{value:.3f}"


def signed(value: float, digits: int = 1, metric: Reading = METRICS["accuracy"]) -> str:
    """+2.3 points, with a real minus sign; what rounds to nothing has none."""
    text = f"{100 * value:+.{digits}f}" if metric.percent else f"{value:+.3f}"
    return text.replace("-", "−") if text.strip("+-0.") else text[1:]


def unit(metric: Reading) -> str:
    """What stands after a column's name: that it is in percent."""
    return ", %" if metric.percent else ""


def _judged_by(row: Row) -> str:
    return f"global test {row.metric.title}"


def _top(row: Row, what: str = "") -> str:
    """The highest accuracy, or the lowest loss."""
    return f"the {'highest' if row.metric.larger_is_better else 'lowest'} {what or row.metric.title}"


def tone(apart: Difference, p: float | None) -> str:
    """Whether a difference may be coloured: ``up`` or ``down`` beyond chance, '' where it may be chance."""
    if p is None or p >= SURE or not apart.mean or not signed(apart.mean, 2, apart.metric).strip("+−0."):
        return ""
    return "up" if (apart.gain or 0) > 0 else "down"


def points(share: float, metric: Reading = METRICS["accuracy"]) -> str:
    """2.3 points; of what is no share its own number."""
    if not metric.percent:
        return plain(share, metric).replace("-", "−")
    text = f"{100 * share:.1f}"
    return f"{text} point{'' if text == '1.0' else 's'}"


def p_value(p: float | None, word: str = "") -> str:
    """p = 0.013, or p < 0.001."""
    return DASH if p is None else f"{word}p {p_text(p, '= ')}"


def p_text(p: float | None, equals: str = "") -> str:
    if p is None:
        return DASH
    return "< 0.001" if p < 0.001 else f"{equals}{p:.3f}" if p < 0.1 else f"{equals}{p:.2f}"


def size(count: float) -> str:
    """3.0 MB, in powers of a thousand."""
    return _scaled(count, ("B", "kB", "MB", "GB", "TB", "PB"), " ")


def amount(count: float) -> str:
    """14.1 k, 2.3 M."""
    return f"{count:,.0f}" if count < 10_000 else _scaled(count, ("", "k", "M", "G", "T"), " ")


def _scaled(count: float, units: Sequence[str], space: str) -> str:
    at = 0
    while count >= 999.5 and at < len(units) - 1:
        count, at = count / 1000, at + 1
    digits = 0 if at == 0 or count >= 100 else 1 if count >= 10 else 2
    return f"{count:.{digits}f}{space}{units[at]}".rstrip()


def duration(seconds: float) -> str:
    if seconds < 0.95:
        return f"{seconds:.2f} s"
    if seconds < 59.5:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 3597 else f"{seconds / 3600:.1f} h"


def span(rounds: Sequence[int]) -> str:
    """20, or 17–20."""
    low, high = min(rounds), max(rounds)
    return str(low) if low == high else f"{low}–{high}"


def rounds(mean: float) -> str:
    """18, or 18.5 where seeds differ."""
    return f"{mean:.0f}" if mean % 1 < 0.05 else f"{mean:.1f}"


def when_reached(reached: Reached, complete: bool = True) -> str:
    """The mean round, and how many seeds got there if not all."""
    if reached.rounds is None:
        return "never" if complete else "not so far"
    text = rounds(reached.rounds)
    return text if reached.seeds == reached.of else f"{text} ({reached.seeds} of {reached.of} seeds)"


def seeds_reaching(row: Row, reached: Reached) -> str:
    """How many seeds reached a target; where none did, how near the best came."""
    if reached.seeds:
        return f"{reached.seeds} of {reached.of}" if reached.of > 1 else "yes"
    when = "never" if row.group.complete else "not so far"
    return f"{when}; at best {level(row.metric.best(row.best.values), row.metric)}"


def goal(reached: Reached) -> str:
    """80%, as a target is said; by another metric than accuracy also which."""
    metric = reached.metric
    value = f"{100 * reached.target:.4g}%" if metric.percent else f"{reached.target:.4g}"
    return value if metric.name == "accuracy" else f"{value} {metric.title}"


def faults(row: Row) -> str:
    """What went missing, in a few words."""
    if not row.asked:
        return DASH
    said = []
    if row.silent >= 0.5:
        said.append(f"{row.silent / row.asked:.0%} silent")
    if row.late >= 0.5:
        said.append(f"{row.late / row.asked:.0%} late")
    if row.rejected >= 0.5:
        said.append(f"{row.rejected / row.asked:.0%} rejected")
    return ", ".join(said) or "none"
