"""The verdict on a run that was attacked, in words: what comes first on its page, in the terminal and in JSON.

How well samples were rebuilt is judged by one measure in every attack: the mean squared error, as a share of the error
of knowing nothing but the mean sample.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

CLOSELY, RECOGNISABLY, TRACES = 0.1, 0.5, 0.9
"""Shares of the mean sample's error up to which samples are rebuilt closely, recognisably, or in traces."""

LABELS = 0.25
"""How far above chance labels must be read to count as read."""

SCALE = (
    f"Closely means at most {CLOSELY:.0%} of the error that the mean sample makes, recognisably at most "
    f"{RECOGNISABLY:.0%}, in traces at most {TRACES:.0%}. These attackers have the settings below; others may get more "
    "out of it, so that nothing found is no proof of safety."
)


@dataclass(frozen=True)
class Verdict:
    """One line, and the sentences that back it."""

    title: str
    sentences: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join((f"{self.title}.", *self.sentences))


def verdict(record: dict[str, Any]) -> Verdict:
    """What the attacks that were made say together; the worst of them makes the title."""
    method = record["method"]
    sentences = tuple(_sentences(record))
    shared = _shared(record)
    update = record.get("inversion")
    if _raw(record):
        title = f"{method} gives raw samples away: there is nothing left to attack"
    elif not shared and update is None:
        told = record.get("exposure") or {}
        given = told.get("shares")
        title = (
            f"{method} shows clients' data to others; whether samples come out of it was not tried"
            if given
            else f"{method} gives no client another's data; what its updates tell was not tried"
        )
    else:
        title = _samples(method, shared, update)
    return Verdict(title, sentences)


def _samples(method: str, shared: list[dict[str, Any]], update: dict[str, Any] | None) -> str:
    """How well samples come out of what a client really sends; then of the least it could send."""
    found = [(min(map(_share, shared)), "what it shares")] if shared else []
    if update is not None:
        found.append((_share_of_visit(update), "a client's update"))
    share, where = min(found)
    if share <= TRACES:
        title = f"Samples come out of {method} {_how(share)}, out of {where}"
    elif update is not None and _labels_read(update):
        title = f"Labels come out of {method}, samples do not"
    else:
        title = f"No samples come out of {method}"
    if update is not None and _how(worst := _share_of_one(update)) != _how(share) and worst < share:
        title += f"; in the worst case, one step on one sample, {_how(worst)}"
    return title


def _sentences(record: dict[str, Any]) -> Iterator[str]:
    told = record.get("exposure")
    if told is not None and told["shares"]:
        yield f"{told['epsilon'][-1]:.0%} of all pairs of clients were given something of the other's data."
    if _raw(record):
        yield "The samples themselves are shared."
    for one in _shared(record):
        share = _share(one)
        yield (
            f"Out of {one['view']} (round {one['round']}) unseen samples are rebuilt {_how(share)} by a decoder "
            f"({share:.0%} of the mean sample's error)."
        )
    for one in (record.get("context") or {}).get("results", []):
        last = one["points"][-1]
        reach = one["samples_for_90"]
        yield (
            f"A mark in clients' samples is detected in {one['view']} with 90% accuracy from {reach:,} examples."
            if reach
            else f"A mark in clients' samples is not detected in {one['view']} with 90% accuracy "
            f"({last['accuracy']:.0%} from {last['samples']:,} examples; chance is 50%)."
        )
    update = record.get("inversion")
    if update is not None:
        one, whole = update["one_step_one_sample"], update["whole_visit"]
        yield (
            f"Out of the update of a whole visit on {whole['samples']:,} samples they are rebuilt "
            f"{_how(_share_of_visit(update))} ({_share_of_visit(update):.0%} of the mean sample's error), out of one "
            f"step on one sample {_how(_share_of_one(update))} ({_share_of_one(update):.0%})."
        )
        yield f"Labels are read off the visit to {_labels(whole)}, off the one step to {_labels(one)}."


def _raw(record: dict[str, Any]) -> bool:
    """Whether samples themselves are shared: by what was attacked, or by what the method declares."""
    results = (record.get("reconstruction") or {}).get("results", [])
    own = [one for one in results if one["part"] in _parts(record)] or results
    return any(one["epochs"] == 0 for one in own) or any(
        "raw samples" in said for said in record["discloses"]
    )


def _parts(record: dict[str, Any]) -> set[str]:
    """The parts that disclose something; a view that an attacker chose is named otherwise."""
    return {said.rpartition("(")[2].rstrip(")") for said in record["discloses"]}


def _shared(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Reconstructions that had something to do."""
    return [one for one in (record.get("reconstruction") or {}).get("results", []) if one["epochs"]]


def _share(told: dict[str, Any]) -> float:
    return float(told["mse"]) / max(float(told["blind"]["mse"]), 1e-12)


def _share_of_one(update: dict[str, Any]) -> float:
    return float(update["one_step_one_sample"]["mse"]) / max(float(update["blind"]["mse"]), 1e-12)


def _share_of_visit(update: dict[str, Any]) -> float:
    whole = update["whole_visit"]
    blind = whole.get("blind") or update["blind"]  # attacks before this was measured have none
    return float(whole["mse"]) / max(float(blind["mse"]), 1e-12)


def _how(share: float) -> str:
    if share <= CLOSELY:
        return "closely"
    if share <= RECOGNISABLY:
        return "recognisably"
    return "in traces" if share <= TRACES else "not at all"


def _labels_read(update: dict[str, Any]) -> bool:
    return any(
        told["labels_found"] >= told.get("labels_by_chance", 0.0) + LABELS
        for told in (update["one_step_one_sample"], update["whole_visit"])
    )


def _labels(told: dict[str, Any]) -> str:
    chance = f" (by chance {told['labels_by_chance']:.0%})" if "labels_by_chance" in told else ""
    return f"{told['labels_found']:.0%}{chance}"
