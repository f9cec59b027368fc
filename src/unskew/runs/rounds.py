"""The loop over rounds: played, judged, measured, and told to all who watch."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from unskew.core import idle
from unskew.core.engine import Remote, RunPlan
from unskew.core.evaluate import judge_round
from unskew.core.memory_names import DIVERGENCE
from unskew.core.round import play_round
from unskew.core.state import State
from unskew.notices import warn
from unskew.progress import Bar, Lines, Progress, ShownWork, Silent, progress_for, tell_columns, voice
from unskew.readings import Reading
from unskew.runs import logged
from unskew.runs.client_names import with_names
from unskew.runs.early_stop import stoppers
from unskew.runs.ended import Run, final_model
from unskew.runs.folder import RunFolder
from unskew.runs.judged_by import chosen
from unskew.runs.keeping import Keeper
from unskew.runs.measure import centralized_twin, correlation_watch, divergence, gamma
from unskew.runs.model_files import write_weights
from unskew.runs.result import add_apart, summary
from unskew.runs.setup import Setup
from unskew.runs.spec import Spec
from unskew.runs.watchers import Ended, RoundEnded, Started, Stopped, Watchers
from unskew.runs.with_model import make_trained_model


def play_rounds(
    spec: Spec,
    setup: Setup,
    folder: RunFolder,
    state: State,
    progress: bool | Progress,
    watch: Sequence[Any] = (),
    stopped: Stopped | None = None,
) -> Run:
    """Play what is left of the run; ``stopped``: it was asked before to end early."""
    plan, first = setup.run, chosen(spec.metrics, setup.about)[0]
    shown = ShownWork(first.title, first.key)
    bar = progress_for(progress, spec.method, spec.seed, spec.rounds, state.round, shown)
    if progress is True:
        tell_columns(setup.about)
    keeper = Keeper(spec, folder, state, plan.engine)
    own = (keeper, Logged(spec, plan, first), IdleWarning(plan), *stoppers(spec, plan.job.method, first))
    watchers = Watchers(own, (ProgressWatcher(bar), *watch))
    loop = RoundLoop(spec, setup, folder, keeper, watchers, stopped)
    if stopped is not None:
        plan.stops_after = stopped.rounds
    try:
        with voice(bar), bar:
            loop.play()
            result = loop.result()
            told = "" if loop.stopped is None else str(loop.stopped)
            watchers.tell("ended", Ended("done", keeper.state.round, result, told))
    except KeyboardInterrupt:
        watchers.tell("ended", Ended("interrupted", keeper.state.round))
        raise
    except Exception as problem:
        keeper.writable = folder.complaint(problem) is None
        error = f"{type(problem).__name__}: {problem}"
        watchers.tell("ended", Ended("failed", keeper.state.round, error=error))
        raise
    finally:
        plan.engine.close()
        loop.close()
    return Run(folder, spec, keeper.state, plan.job.net, setup.partition, plan)


class RoundLoop:
    """One run's rounds, from the state that its keeper has to the end of its plan, or to where it is asked to end."""

    def __init__(
        self,
        spec: Spec,
        setup: Setup,
        folder: RunFolder,
        keeper: Keeper,
        watchers: Watchers,
        stopped: Stopped | None,
    ):
        self.spec, self.setup, self.folder = spec, setup, folder
        self.plan, self.keeper, self.watchers, self.stopped = setup.run, keeper, watchers, stopped
        self.twin = centralized_twin(setup.run) if "divergence" in spec.measure else None
        self.correlation = correlation_watch(setup.run) if "correlation" in spec.measure else None
        if keeper.state.round:
            setup.run.measuring.take()  # a run that goes on has this in the line of its first round

    def close(self) -> None:
        if self.twin is not None:
            self.twin.engine.close()

    def play(self) -> None:
        """All rounds that are left."""
        spec, plan, done = self.spec, self.plan, self.keeper.state.round
        start = Started(
            spec, self.setup.about, self.folder.path, spec.rounds, done, self.folder.lines, self.watchers.ask
        )
        self.watchers.tell("started", start)
        self._stop_where_asked()
        while self.keeper.state.round < plan.end:
            self._play_one(self.keeper.state)
            self.keeper.save_if_due()
            self._stop_where_asked()
        self.keeper.checkpoint()

    def _play_one(self, state: State) -> None:
        began, spec, plan = time.perf_counter(), self.spec, self.plan
        after, ledger = play_round(plan, state)
        line: dict[str, Any] = {"round": after.round}
        if after.round % spec.evaluate == 0 or after.round == plan.end:
            ledger = judge_round(plan, after, ledger, spec.judges_clients)
        if self.twin is not None:
            apart, after.server[DIVERGENCE] = divergence(self.twin, after, after.server[DIVERGENCE])
            line["weight_divergence"] = apart
        if self.correlation is not None:
            line["distance_correlation"] = self.correlation(after.params)
        ledger = plan.measuring.added_to(ledger)
        if isinstance(plan.engine, Remote):
            line |= plan.engine.take_notes()
        line |= with_names(ledger, plan.job.roster.names)
        self._tell(line | {"wall_s": round(time.perf_counter() - began, 6)}, after)

    def _tell(self, line: dict[str, Any], state: State, again: bool = False) -> None:
        """Tell of a round; ``again``: only that it was judged once more."""
        ended = RoundEnded(
            line["round"],
            self.spec.rounds,
            line,
            self.watchers.ask,
            lambda: make_trained_model(self.plan.job.net, state.params, self.plan.job),
            state,
        )
        if not again:
            self.watchers.tell("round_ended", ended)
        if ended.evaluated:
            self.watchers.tell("evaluated", ended)

    def _stop_where_asked(self) -> None:
        """End after the last round, where somebody asked for it; after one more where a last round differs.

        A schedule that leaves something out in the field cannot know beforehand which round is the last, so that it
        is given one to collect it.
        """
        state, plan, asked = self.keeper.state, self.plan, self.watchers.asked
        if asked is None or self.stopped is not None or not state.round:
            return
        end = state.round + plan.job.method.schedule.last_round_differs
        if end >= plan.rounds:
            return  # as was planned
        reason, by = asked
        self.stopped = Stopped(reason, by, state.round, end, plan.rounds)
        plan.stops_after = end
        logged.run.info("%s is stopped: %s", self.spec.method, self.stopped)
        self.keeper.stopping(self.stopped)
        if end == state.round and self._judged_otherwise():
            self._judge_as_last(state)

    def _judged_otherwise(self) -> bool:
        """Whether the last line is not what it were if its round had been known to be the last."""
        calibrates = any(part.due(True) != part.due(False) for part in self.plan.job.method.calibrate)
        return calibrates or "global_test_accuracy" not in self.folder.lines[-1]

    def _judge_as_last(self, state: State) -> None:
        began, line = time.perf_counter(), self.folder.lines[-1]
        costs: dict[str, Any] = {
            name: line[name] for name in ("bytes", "air_s", "air", "measuring") if name in line
        }
        judged = judge_round(self.plan, state, costs, self.spec.judges_clients)
        line |= with_names(judged, self.plan.job.roster.names)
        line["wall_s"] = round(line["wall_s"] + time.perf_counter() - began, 6)
        self.folder.replace_last(line)
        self._tell(line, state, again=True)

    def result(self) -> dict[str, Any]:
        """What came out; the model is written first."""
        spec, plan, folder, state = self.spec, self.plan, self.folder, self.keeper.state
        result = summary(spec, self.setup, folder, state)
        if self.stopped is not None:
            result["stopped"] = self.stopped.as_dict()
        if "gamma" in spec.measure:
            result["gamma"] = gamma(plan, state.params)
        result = add_apart(result, folder, plan.measuring)
        if folder.path is not None and plan.job.method.schedule.exchanges:
            ended = final_model(plan, state)
            write_weights(folder.path, ended, state.round, calibrated=bool(plan.job.method.calibrate))
        return result


class ProgressWatcher:
    """The bar, the lines, or what the caller brought to show how far a run is."""

    _called = "progress"

    def __init__(self, bar: Progress):
        self.bar = bar
        self._trusted = type(bar) in (Silent, Lines, Bar)

    def round_ended(self, round: RoundEnded) -> None:
        self.bar.advance(dict(round.line))

    def ended(self, end: Ended) -> None:
        if end.stopped and hasattr(self.bar, "stopped"):
            self.bar.stopped(end.stopped)


class IdleWarning:
    """Warns once of models that travel to clients who do not train them."""

    def __init__(self, plan: RunPlan):
        self.plan, self.warned = plan, False

    def round_ended(self, round: RoundEnded) -> None:
        job = self.plan.job
        if not self.warned and (told := idle.warning(round.line, job.method.schedule.name, job.local)):
            self.warned = True
            warn(told, stacklevel=2)


class Logged:
    """What Python's ``logging`` hears of a run."""

    def __init__(self, spec: Spec, plan: RunPlan, first: Reading):
        self.spec, self.plan, self.first = spec, plan, first

    def started(self, start: Started) -> None:
        logged.log_start(self.spec, self.plan, start.played)

    def round_ended(self, round: RoundEnded) -> None:
        logged.log_round(round.line, self.spec.rounds, self.first)

    def ended(self, end: Ended) -> None:
        method = self.spec.method
        if end.status == "done":
            number = self.first.say(end.result["final"][self.first.name])
            logged.run.info("%s is done: %s %s", method, self.first.title, number)
        elif end.status == "interrupted":
            logged.run.warning("%s was interrupted after round %d", method, end.rounds)
        else:
            problem = end.error.partition(": ")[2] or end.error
            logged.run.error("%s failed after round %d: %s", method, end.rounds, problem)
