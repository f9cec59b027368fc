"""The leaderboard of a problem: every group's accuracy, its difference to the baseline, and what it cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from unskew.readings import Reading
from unskew.report.results.baseline import baseline_of, is_unfair, main_baseline
from unskew.report.results.gather import ACCURACY, Record
from unskew.report.results.groups import Group, Problem
from unskew.report.results.reach import Reached, reached
from unskew.report.results.statistics import Difference, Estimate, Spread, estimate, holm, paired
from unskew.runs.chosen import ChosenOn


@dataclass(frozen=True, eq=False)
class Row:
    """One group in numbers: those of the report's first metric, on the global test set.

    ``final`` is that of the last judged round, ``best`` that of the best judged round, seed by seed, ``chosen_on``
    validation samples where all its runs have set some aside, else on the test set; ``difference`` is that of the
    finals. Costs are totals of a run, averaged over the seeds.
    """

    group: Group
    final: Estimate
    best: Estimate
    final_rounds: tuple[int, ...]
    best_rounds: tuple[int, ...]
    chosen_on: ChosenOn
    baseline: Group | None
    difference: Difference | None
    p_holm: float | None
    reached: tuple[Reached, ...]
    bytes: Estimate
    sample_steps: Estimate
    wall_s: Estimate
    # each once a round; None where the log is of a version that did not count them
    samples_used: float | None
    distinct_clients: float | None
    asked_a_round: float
    asked: float
    answered: float
    trained_only: float
    rejected: float
    late: float
    accuracy: float  # final accuracy, whatever the report goes by
    scores: Mapping[str, Estimate]  # every metric at the last round, where all seeds have a number
    blanks: Mapping[str, str]  # why the others have none

    @property
    def metric(self) -> Reading:
        """What the report goes by."""
        return self.final.metric

    @property
    def metrics(self) -> tuple[Reading, ...]:
        """What the report tells."""
        return self.group.counted[0].metrics

    @property
    def is_baseline(self) -> bool:
        return self.baseline is self.group

    @property
    def silent(self) -> float:
        """Clients that were asked and never answered; who trains but is not to upload, as in Phase-shift, did."""
        return max(0.0, self.asked - self.answered - self.trained_only - self.rejected)

    def as_dict(self) -> dict[str, Any]:
        """Plain values under names that say what they are."""
        d = self.difference
        return {
            "label": self.group.label,
            "method": self.group.method,
            "complete": self.group.complete,
            "diverged": sum(record.diverged for record in self.group.counted),
            "upper_bound": self.group.bound == "upper",
            "lower_bound": self.group.bound == "lower",
            "seeds": list(self.group.seeds),
            **_flat(f"final_{self.metric.name}", self.final),
            "final_rounds": list(self.final_rounds),
            **_flat(f"best_{self.metric.name}", self.best),
            "best_rounds": list(self.best_rounds),
            "best_chosen_on": self.chosen_on,
            "baseline": self.baseline.label if self.baseline else None,
            "difference_mean": d.mean if d else None,
            "difference_sd": d.sd if d else None,
            "difference_interval95": d.half if d else None,
            "difference_seeds": list(d.seeds) if d else [],
            "p": d.p if d else None,
            "p_holm": self.p_holm,
            "no_p_because": d.why if d else "",
            "metrics": {
                one.name: _flat("", self.scores[one.name])
                if one.name in self.scores
                else {"mean": None, "blank": self.blanks[one.name]}
                for one in self.metrics
            },
            "cost_to_target": {r.name: r.as_dict() for r in self.reached},
            "bytes_mean": self.bytes.mean,
            "sample_steps_mean": self.sample_steps.mean,
            "wall_s_mean": self.wall_s.mean,
            "samples_used_mean": self.samples_used,
            "distinct_clients_mean": self.distinct_clients,
            "asked_a_round_mean": self.asked_a_round,
            "asked_mean": self.asked,
            "answered_mean": self.answered,
            "trained_only_mean": self.trained_only,
            "rejected_mean": self.rejected,
            "late_mean": self.late,
        }


def leaderboard(
    problem: Problem,
    baseline: str | None = None,
    asked: Sequence[float] = (),
    spread: Spread = "ci",
) -> list[Row]:
    """One row a group, the best mean at the end first; what is not done comes after what is."""
    goals = targets(problem, main_baseline(problem, baseline), asked)
    rows = [_row(problem, group, baseline, goals, spread) for group in problem.judged]
    # the bound is no method that was tried: its test is not one of those that chance had to pass
    compared = [row.difference.p if row.difference and not row.group.bound else None for row in rows]
    rows = [replace(row, p_holm=p) for row, p in zip(rows, holm(compared), strict=True)]
    return sorted(
        rows, key=lambda row: (not row.group.complete, -row.metric.gain(row.final.mean), row.group.label)
    )


def targets(problem: Problem, main: Group | None, asked: Sequence[float] = ()) -> list[tuple[float, bool]]:
    """(target, whether somebody asked for it): of the report, else of the runs, else what the baseline ended at."""
    named = asked or sorted(
        {t for g in problem.judged for r in g.counted if _goes_by(r) == r.metric.name for t in r.spec.target}
    )
    if named or main is None or len(problem.judged) < 2:
        return [(goal, True) for goal in named]
    return [(estimate([record.value(record.final) for record in main.counted]).mean, False)]


def _row(
    problem: Problem,
    group: Group,
    baseline: str | None,
    goals: Sequence[tuple[float, bool]],
    spread: Spread,
) -> Row:
    runs = group.counted
    metric = runs[0].metric
    scores, blanks = _scores(runs, spread)
    base = baseline_of(problem, group, baseline)
    difference = None
    if base is not None and base is not group:
        difference = _compared(group, base, named=baseline is not None, spread=spread)

    def mean(name: str) -> float:
        return estimate([record.total(name) for record in runs]).mean

    def met(kind: str) -> float:
        return estimate([sum(len(who) for _, who in record.named(kind)) for record in runs]).mean

    return Row(
        group=group,
        final=estimate([record.value(record.final) for record in runs], spread, metric),
        best=estimate([record.value(record.best) for record in runs], spread, metric),
        final_rounds=tuple(int(record.final["round"]) for record in runs),
        best_rounds=tuple(int(record.best["round"]) for record in runs),
        chosen_on="validation" if all(record.chosen_on == "validation" for record in runs) else "test",
        baseline=base,
        difference=difference,
        p_holm=None,
        reached=tuple(reached(group, goal, asked) for goal, asked in goals),
        bytes=estimate([record.bytes_moved for record in runs]),
        sample_steps=estimate([record.total("sample_steps") for record in runs]),
        wall_s=estimate([record.total("wall_s") for record in runs]),
        samples_used=mean("samples_used") if _counted(runs, "samples_used") else None,
        distinct_clients=(
            estimate([record.lines[-1]["distinct_clients"] for record in runs]).mean
            if _counted(runs, "distinct_clients")
            else None
        ),
        asked_a_round=estimate([record.total("asked") / max(1, record.round) for record in runs]).mean,
        asked=mean("asked"),
        answered=mean("answered"),
        trained_only=mean("trained_only"),
        rejected=met("rejected"),
        late=met("late"),
        accuracy=estimate([record.evaluated[-1][ACCURACY] for record in runs]).mean,
        scores=scores,
        blanks=blanks,
    )


def _goes_by(record: Record) -> str:
    """The metric that the run's own targets are of."""
    return record.spec.metrics[0] if record.spec.metrics else "accuracy"


def _scores(runs: Sequence[Record], spread: Spread) -> tuple[dict[str, Estimate], dict[str, str]]:
    """Every metric of the report at the last evaluated round, and why there is none of the others."""
    scores, blanks = {}, {}
    for metric in runs[0].metrics:
        found = [(record, metric.of_line(record.evaluated[-1])) for record in runs]
        known = [value for _, value in found if value is not None]
        if len(known) == len(runs):
            scores[metric.name] = estimate(known, spread, metric)
        else:
            empty = [record for record, value in found if value is None]
            some = f" (in {len(empty)} of {len(runs)} seeds)" if known else ""
            blanks[metric.name] = empty[0].blank(metric) + some
    return scores, blanks


def _counted(runs: Sequence[Record], name: str) -> bool:
    """Whether every round of these runs has logged this."""
    return all(name in line for record in runs for line in record.lines)


def _compared(group: Group, base: Group, *, named: bool, spread: Spread) -> Difference:
    """What is done against what is done: a run that stopped early would be judged by other rounds.

    A faulty baseline is compared with only where somebody named it.
    """
    if not (group.complete and base.complete):
        who = "it has" if base.complete else "its baseline has"
        return Difference(None, None, None, (), f"{who} not finished")
    if not named and (why := is_unfair(group, base)):
        return Difference(None, None, None, (), why)
    return paired(_finals(group), _finals(base), spread, group.counted[0].metric)


def _finals(group: Group) -> dict[int, float]:
    return {record.spec.seed: record.value(record.final) for record in group.counted}


def _flat(name: str, of: Estimate) -> dict[str, float | None]:
    start = f"{name}_" if name else ""
    return {f"{start}mean": of.mean, f"{start}sd": of.sd, f"{start}interval95": of.half}
