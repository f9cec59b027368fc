"""How models that clients keep are judged: each on the same global test set, then their mean and their spread.

A round changes the models of its cohort alone, so only these are judged anew; what was found of the others is in the
state. The cost of a round is that of its cohort, however many clients there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from unskew.arrays import Array
from unskew.core.engine import Remote, RunPlan
from unskew.core.measure import model_bytes, try_at_clients
from unskew.core.memory_names import OWN_MODEL
from unskew.core.score import (
    ACCURACIES,
    describe_clients,
    evaluate_model,
    metric_names,
    name_scores,
    name_validation,
    own_data,
    score_test,
    score_validation,
    spread,
    validation_names,
)
from unskew.core.state import State
from unskew.core.types import Ids, Tree
from unskew.progress import working

LISTED = 10_000
"""Clients up to which a result lists the accuracy of each."""

SCORE = "score_"
"""What the table of each metric begins with, in what the state remembers of clients' models."""

VALIDATED = "validation_"
"""The same, on the samples that were set aside to choose by."""


def mark_stale(found: Tree, clients: Ids, everyone: int) -> Tree:
    """What is known of clients' models once these have trained on."""
    stale = found["stale"].clone() if found else torch.zeros(everyone, dtype=torch.bool)
    stale[torch.from_numpy(clients)] = True
    return found | {"stale": stale}


def judge_own_models(run: RunPlan, state: State, clients: bool = False) -> dict[str, Any]:
    """A round's line on the clients' own models; ``state`` takes what was found of those that had trained on.

    The accuracy is the plain mean over the clients that have trained: a small client that stays alone is as alone as
    a large one. With ``clients`` also that of each model on its owner's own data.
    """
    known = state.server.get(OWN_MODEL, {})
    validated = validation_names(run)
    dataset, everyone = run.job.roster.dataset, run.job.roster.clients
    table = {
        "right": torch.zeros(everyone, dataset.classes, dtype=torch.int32),
        "loss": torch.zeros(everyone, dtype=torch.float64),
        "own": torch.zeros(everyone, dtype=torch.float64),
        "stale": torch.zeros(everyone, dtype=torch.bool),
        **{SCORE + name: torch.zeros(everyone, dtype=torch.float64) for name in metric_names(run)},
        **{VALIDATED + name: torch.full((everyone,), torch.nan, dtype=torch.float64) for name in validated},
    } | known
    table = {name: value.cpu().clone() for name, value in table.items()}
    who = trained_clients(run, state)
    # a checkpoint of a version that did not keep these
    if not all(SCORE + name in known for name in metric_names(run)):
        table["stale"][torch.from_numpy(who)] = True
    stale = np.flatnonzero(table["stale"].numpy()).tolist()
    with working("clients' models judged", len(stale)) as advance:
        for client, model in zip(stale, _kept_models(run, state, stale), strict=True):
            for name, value in _judge_one(run, model, client, clients).items():
                table[name][client] = value
            advance(1)
    table["stale"][:] = False
    state.server[OWN_MODEL] = table
    if not len(who):
        return evaluate_model(run, state.params, clients) | {"own_models": {"clients": 0, "of": everyone}}
    count = np.bincount(dataset.y_test, minlength=dataset.classes)
    hits = table["right"].numpy()[who].astype(np.float64)
    by_class = [float(r / n) if n else None for r, n in zip(hits.mean(0), count, strict=True)]
    means = {name: float(table[SCORE + name].numpy()[who].mean()) for name in metric_names(run)}
    found: dict[str, Any] = name_scores(means, {"per_class_accuracy": by_class}) | {
        "own_models": spread(hits.sum(1) / count.sum()) | {"of": everyone}
    }
    if "validation" in run.as_dealt.aside:
        judged = {name: _mean_known(table[VALIDATED + name].numpy()[who]) for name in validated}
        found |= name_validation(judged)
    at_home = table["own"].numpy()[who]
    if clients:  # not everybody may have data to be judged on
        found |= describe_clients(run, who[~np.isnan(at_home)], at_home[~np.isnan(at_home)])
    return found


def _mean_known(values: Array) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


def _kept_models(run: RunPlan, state: State, clients: list[int]) -> Iterator[Tree]:
    """The models that these clients keep: here, or copies of what clients far away keep themselves."""
    if isinstance(run.engine, Remote):
        yield from run.engine.kept_models(run.job, np.array(clients, np.int64), state.clients)
        return
    for client in clients:
        yield {k: v.to(run.device) for k, v in state.clients.get(OWN_MODEL, client, {}).items()}


def _judge_one(run: RunPlan, model: Tree, client: int, own: bool) -> dict[str, Any]:
    """One client's model: right answers by class and every metric on the test set, and accuracy on its own data."""
    sums = run.engine.evaluate(run.job, model)
    run.measuring.asked("clients' own models", 0, model_bytes(run, model))  # the test set is at the server
    at_home = 0.0
    if own:
        home = own_data(run.as_dealt)[1]
        found = try_at_clients(run, ACCURACIES, model, np.array([client]), home, theirs=True)
        # a client may have no data to be judged on
        at_home = float(found.means()["accuracy"][0]) if found.count[0] else np.nan
    (right,) = sums.right_by_class()
    scores = {SCORE + name: value for name, value in score_test(run, sums).items()}
    if "validation" in run.as_dealt.aside:
        scores |= {VALIDATED + name: v for name, v in score_validation(run, model, client).items()}
    loss = float(sums.means()["loss"][0])
    return {"right": torch.from_numpy(right.astype(np.int32)), "loss": loss, "own": at_home, **scores}


def trained_clients(run: RunPlan, state: State) -> Ids:
    """Who has a model of its own, trained on some sample."""
    kept = np.array(sorted(state.clients.rows.get(OWN_MODEL, {})), np.int64)
    return kept[run.job.roster.sizes[kept] > 0]


def list_by_client(run: RunPlan, state: State) -> dict[str, Any]:
    """For the result: the spread, and the accuracy of every client's model by its name where they can be listed."""
    who = trained_clients(run, state)
    if not len(who):
        return {"clients": 0, "of": run.job.roster.clients}
    right = state.server[OWN_MODEL]["right"].numpy()[who].sum(1)
    accuracies = right / len(run.job.roster.dataset.y_test)
    told = spread(accuracies) | {"of": run.job.roster.clients}
    if len(who) <= LISTED:
        named = zip(map(run.job.roster.name_of, who.tolist()), accuracies.tolist(), strict=True)
        told["each"] = [{"client": name, "accuracy": value} for name, value in named]
    return told


def own_models(state: State) -> Iterator[tuple[int, Tree]]:
    """Every client's own model, one after the other."""
    for client in sorted(state.clients.rows.get(OWN_MODEL, {})):
        yield client, state.clients.get(OWN_MODEL, client, {})
