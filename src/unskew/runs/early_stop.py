"""Watchers that ask for a run's end: a condition that holds, no progress, a budget that is spent.

What they say is a function of the log's lines, so that a run which was killed stops where it would have.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from unskew.core.method import Method
from unskew.core.roster import Roster
from unskew.errors import InputError
from unskew.machine.memory import in_words
from unskew.readings import METRICS, Reading
from unskew.runs.spec import Spec
from unskew.runs.stop_rule import Amount, StopRule, check_stop, find_number, read_budget, read_stop
from unskew.runs.watchers import RoundEnded, Started
from unskew.seeds import generator

COSTS = (
    "bytes_down",
    "bytes_up",
    "bytes_peer",
    "sample_steps",
    "samples_used",
    "asked",
    "answered",
    "distinct_clients",
    "wall_s",
)
"""Numbers that every line of a log has beside the round."""


LATEST = 5
"""Rounds by which the next one's cost is foreseen: the first of a run may take long for reasons of its own."""


class Stopper(ABC):
    """Looks at every line of the log once, in order."""

    _called: ClassVar[str]  # the setting that it comes of

    @abstractmethod
    def look(self, line: Mapping[str, Any]) -> str:
        """Why the run is to end after this round; nothing where it goes on."""

    def started(self, start: Started) -> None:
        why = ""
        for line in start.log:
            why = self.look(line)
        if why:
            start.stop(why)

    def round_ended(self, round: RoundEnded) -> None:
        if why := self.look(round.line):
            round.stop(why)


class StopWhen(Stopper):
    """Ends a run when a rule holds."""

    _called = "stop"

    def __init__(self, rule: StopRule):
        self.rule = rule

    def look(self, line: Mapping[str, Any]) -> str:
        return " and ".join(
            f"validation {one.text}" if _on_validation(line, one.name) else one.text
            for one in self.rule.met(line)
        )


class Patience(Stopper):
    """Ends a run that has not got better for so many rounds, by what it was judged by."""

    _called = "patience"

    def __init__(self, rounds: int, reading: Reading):
        self.rounds, self.reading = rounds, reading
        self.best: float | None = None
        self.at = 0

    def look(self, line: Mapping[str, Any]) -> str:
        if "global_test_accuracy" not in line:
            return ""
        _, value = find_number(line, self.reading.name)
        if value is not None and (self.best is None or self.reading.better(value, self.best)):
            self.best, self.at = value, line["round"]
        if line["round"] - self.at < self.rounds:
            return ""
        what = ("validation " if _on_validation(line, self.reading.name) else "") + self.reading.title
        if self.best is None:
            return f"no number for {what} for {_rounds(self.rounds)}"
        return f"no better {what} than {self.best:.4f} of round {self.at} for {_rounds(self.rounds)}"


def _rounds(count: int) -> str:
    return "a round" if count == 1 else f"{count} rounds"


class Budget(Stopper):
    """Ends a run before a round that would go beyond its budget, by the dearest of the last rounds.

    ``reserve`` is how many such rounds must still fit: two where a schedule needs one to collect what is out.
    """

    _called = "budget"

    def __init__(self, amounts: Iterable[Amount], reserve: int = 1):
        self.amounts, self.reserve = tuple(amounts), reserve
        self.spent = [0.0] * len(self.amounts)
        self.latest = [deque[float](maxlen=LATEST) for _ in self.amounts]

    def look(self, line: Mapping[str, Any]) -> str:
        why = ""
        for at, amount in enumerate(self.amounts):
            cost = amount.spent(line)
            self.spent[at] += cost
            self.latest[at].append(cost)
            beyond = self.spent[at] + self.reserve * max(self.latest[at]) > amount.most
            if beyond and not why:
                why = f"the budget of {amount.text} ({amount.say(self.spent[at])} spent)"
        return why


def stoppers(spec: Spec, method: Method, first: Reading) -> list[Stopper]:
    """The watchers that a run's settings ask for; ``first`` is the metric that it goes by."""
    found: list[Stopper] = []
    if spec.stop is not None:
        found.append(StopWhen(read_stop(spec.stop)))
    if spec.patience is not None:
        found.append(Patience(spec.patience, first))
    if spec.budget is not None:
        found.append(Budget(read_budget(spec.budget), 2 if method.schedule.last_round_differs else 1))
    return found


def refuse_small_budget(spec: Spec, method: Method, roster: Roster, cohort: int, model: int) -> None:
    """Refuse a budget of bytes that not even the first round can keep to: it would be played all the same.

    ``model`` is how many bytes of a model travel.
    """
    amounts = [] if spec.budget is None else [a for a in read_budget(spec.budget) if a.kind == "bytes"]
    if not amounts or not method.schedule.exchanges:
        return
    foreseen = method.select.foresee(cohort, roster, generator(spec.seed, "select", 0, 0))
    collects_later = method.schedule.last_round_differs
    # what is certain: where nobody can know who takes part, or who answers with what, that is one model on its way
    asked = 1 if foreseen is None or collects_later else len(foreseen)
    ways = 1 if collects_later or method.encoders or spec.drop else 2
    least = asked * ways * model
    for amount in amounts:
        if amount.most < least:
            many = f"{asked} client{'s' if asked > 1 else ''}"
            raise InputError(
                f"budget = {amount.text} is less than one round costs: a model of {in_words(model)} goes to {many}"
                f"{' and back' if ways == 2 else ''}, {amount.say(least)} in all; write budget = "
                f"{in_words(1.01 * least * spec.rounds)} for all {spec.rounds} rounds, or leave it out"
            )


def check_stopping(spec: Spec, metrics: Iterable[str], dealt: Roster) -> None:
    """Refuse a rule about what the log will not have; ``metrics`` are those that the data has."""
    if spec.budget is not None and spec.network is None:
        for amount in read_budget(spec.budget):
            if amount.kind == "air":
                raise InputError(
                    f"budget = {amount.text} needs clients that are linked; write network = wireless(), for example"
                )
    if spec.stop is None:
        return
    short = tuple(metrics)
    on = ("global_test", *(("validation",) if "validation" in dealt.aside else ()))
    whole = [f"{where}_{'loss' if name == 'log_loss' else name}" for where in on for name in short]
    own = "test" if dealt.aside.get("test") is not None else "train"
    known = (
        *short,
        "loss",
        "round",
        *((f"mean_client_{own}_accuracy", f"worst_client_{own}_accuracy") if spec.judges_clients else ()),
        *(("weight_divergence",) if "divergence" in spec.measure else ()),
        *(("air_s",) if spec.network is not None else ()),
        *COSTS,
        *whole,
    )
    check_stop(read_stop(spec.stop), known, [n for n in short if n in METRICS and METRICS[n].percent])


def _on_validation(line: Mapping[str, Any], name: str) -> bool:
    return find_number(line, name)[0] == f"validation_{'loss' if name == 'log_loss' else name}"
