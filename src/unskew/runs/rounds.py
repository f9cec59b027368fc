"""The loop over rounds: played, judged, measured, logged, saved."""

from __future__ import annotations

import contextlib
import time
from typing import Any

from unskew.core import idle
from unskew.core.evaluate import judge_round
from unskew.core.round import play_round
from unskew.core.state import State, save_state
from unskew.notices import warn
from unskew.progress import Progress, ShownWork, progress_for, tell_columns, voice
from unskew.runs import logged
from unskew.runs.client_names import with_names
from unskew.runs.ended import Run, final_model
from unskew.runs.folder import RunFolder
from unskew.runs.judged_by import chosen
from unskew.runs.measure import centralized_twin, correlation_watch, divergence, gamma
from unskew.runs.result import summary
from unskew.runs.saved_model import write_weights
from unskew.runs.setup import Setup
from unskew.runs.snapshots import keep_model
from unskew.runs.spec import Spec


def play_rounds(spec: Spec, setup: Setup, folder: RunFolder, state: State, progress: bool | Progress) -> Run:
    """Play what is left of the run."""
    plan, job = setup.run, setup.job
    first = chosen(spec.metrics, setup.about)[0]
    told = ShownWork(first.title, first.key)
    bar = progress_for(progress, spec.method, spec.seed, spec.rounds, state.round, told)
    if progress is True:
        tell_columns(setup.about)
    logged.log_start(spec, plan, state.round)
    checkpoints = folder.path / "state" if folder.path is not None else None
    saved_at, warned = time.monotonic(), False
    twin = centralized_twin(plan) if "divergence" in spec.measure else None
    watch = correlation_watch(plan) if "correlation" in spec.measure else None
    try:
        with voice(bar), bar:
            while state.round < spec.rounds:
                began = time.perf_counter()
                after, ledger = play_round(plan, state)
                line: dict[str, Any] = {"round": after.round}
                if after.round % spec.evaluate == 0 or after.round == spec.rounds:
                    ledger = judge_round(plan, after, ledger, spec.judges_clients)
                if twin is not None:
                    apart, after.server["divergence"] = divergence(twin, after, after.server["divergence"])
                    line["weight_divergence"] = apart
                if watch is not None:
                    line["distance_correlation"] = watch(after.params)
                ledger = with_names(ledger, job.roster.names)
                folder.append(line | ledger | {"wall_s": round(time.perf_counter() - began, 6)})
                state = after  # not before it is in the log: an interrupt saves the last round that is
                bar.advance(folder.lines[-1])
                logged.log_round(folder.lines[-1], spec.rounds, first)
                if not warned and (
                    idling := idle.warning(folder.lines[-1], job.method.schedule.name, job.local)
                ):
                    warn(idling, stacklevel=2)
                    warned = True
                if folder.path is not None and state.round in spec.keep:
                    keep_model(folder.path, state)
                due = time.monotonic() - saved_at >= spec.checkpoint or state.round == spec.rounds
                if checkpoints is not None and due:
                    folder.sync()  # a checkpoint never knows more rounds than the log
                    save_state(state, checkpoints)
                    saved_at = time.monotonic()
                    logged.run.info("round %d: checkpoint saved in %s", state.round, checkpoints)
            result = summary(spec, setup, folder, state)
            if "gamma" in spec.measure:
                result["gamma"] = gamma(plan, state.params)
        if folder.path is not None and job.method.schedule.exchanges:
            ended = final_model(plan, state)
            write_weights(folder.path, ended, state.round, calibrated=bool(job.method.calibrate))
        folder.save(result)
        ended_at = first.say(result["final"][first.name])
        logged.run.info("%s is done: %s %s", spec.method, first.title, ended_at)
    except KeyboardInterrupt:
        logged.run.warning("%s was interrupted after round %d", spec.method, state.round)
        if checkpoints is not None and state.round:
            folder.rewind(state.round)  # the interrupt may have come in the middle of a line
            save_state(state, checkpoints)
        raise
    except Exception as problem:
        logged.run.error("%s failed after round %d: %s", spec.method, state.round, problem)
        if folder.complaint(problem) is None:
            with contextlib.suppress(OSError):
                folder.save(
                    {
                        "status": "failed",
                        "error": f"{type(problem).__name__}: {problem}",
                        "round": state.round,
                    }
                )
        raise
    finally:
        plan.engine.close()
        if twin is not None:
            twin.engine.close()
    return Run(folder, spec, state, job.net, setup.partition, plan)
