"""What a run logs, through Python's ``logging`` under "unskew.run" (see ``unskew.notices``)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from unskew.core.engine import RunPlan
from unskew.readings import Reading
from unskew.runs.spec import Spec

run = logging.getLogger("unskew.run")


def log_start(spec: Spec, plan: RunPlan, done: int) -> None:
    """Log that a run begins, or goes on after so many rounds."""
    run.info(
        "%s on %s %s at round %d of %d: %s over %d clients, seed %d, engine %s",
        spec.method,
        spec.dataset,
        "goes on" if done else "begins",
        done + 1,
        spec.rounds,
        spec.partition,
        plan.job.roster.clients,
        spec.seed,
        plan.engine.name,
    )


def log_round(line: Mapping[str, Any], rounds: int, metric: Reading) -> None:
    """Log a round by its line in the run's log: how far, how good, and what went wrong."""
    number, asked, answered = line["round"], line["asked"], line["answered"]
    value = metric.of_line(line)
    good = "" if value is None else f", {metric.title} {metric.say(value)}"
    run.debug("round %d of %d: %d of %d clients answered%s", number, rounds, answered, asked, good)
    if refused := line.get("rejected"):
        run.warning(
            "round %d: updates that are not finite were refused, of clients %s", number, _listed(refused)
        )
    if late := line.get("late"):
        run.info("round %d: updates of clients %s landed a round late", number, _listed(late))
    if not answered and line["bytes_down"]:  # clients on their own are sent nothing and answer nothing
        run.warning("round %d is skipped: no update landed, and the model stays as it was", number)
    elif answered < asked - line.get("trained_only", 0):
        run.info("round %d: %d of %d clients answered", number, answered, asked)


def _listed(clients: Sequence[int | str]) -> str:
    return ", ".join(map(str, clients))
