"""A measurement's way to clients: an engine's verbs, with their bytes in the account of what was measured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from unskew.core.engine import RunPlan
from unskew.core.held import Moment
from unskew.core.questions import Answerer, Query
from unskew.core.task import Sums
from unskew.core.types import Ids, Tree, nbytes


def model_bytes(run: RunPlan, model: Tree) -> int:
    """What travels of a model."""
    return run.job.net.travelling_bytes(model, run.job.batch_norm)


def try_at_clients(
    run: RunPlan, what: str, model: Tree, clients: Ids, moment: Moment, theirs: bool = False
) -> Sums:
    """How a model does on the data of each of these clients: it goes down to each, and the sums come up.

    ``theirs``: the model is the client's own, and is there already.
    """
    found = run.engine.evaluate(run.job, model, clients, moment)
    run.measuring.evaluated(what, 0 if theirs else model_bytes(run, model), found)
    return found


def ask_to_measure(
    run: RunPlan,
    what: str,
    part: Answerer,
    question: str,
    clients: Iterable[int],
    model: Tree,
    moment: Moment,
    **values: Any,
) -> Iterator[Tree]:
    """These clients' answers, one after the other: the model goes down to each, if there is one, an answer comes up.

    The question itself, a name and a few values, is not counted; nor is a method's.
    """
    asked = np.array([int(c) for c in clients], np.int64)
    size = model_bytes(run, model)
    for answer in run.engine.query(run.job, Query(part.name, question, values), asked, model, moment):
        run.measuring.asked(what, size, nbytes(answer))
        yield answer
