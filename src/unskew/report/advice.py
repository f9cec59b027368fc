"""What to try against skew and scarcity: one entry a remedy, with what it needs, discloses and has shown.

A remedy's ``judge`` looks at a ``Situation`` and says ``try``, ``perhaps`` or ``no``, and why; then the part's own
check (``unskew.core.conditions``) is asked with the cohort and the rounds that are planned, and the book of results
(``unskew.report.evidence``) whether the part lost on data like this. What a part discloses is what it declares
(``unskew.parts.catalogue``). To advise a new part, add an entry to ``REMEDIES``; nothing else knows
their names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from unskew.core.conditions import problem_of
from unskew.expression import parse
from unskew.parts.catalogue import disclosures, parts
from unskew.report.evidence import LAYER, Evidence, Expected, form, points
from unskew.report.situation import (
    FALLS_FAR,
    FALLS_ON_FASHION,
    MILDLY_SCARCE,
    SCARCE,
    STARTS_TO_FALL,
    Situation,
)

Fit = Literal["try", "perhaps", "no"]
Judgement = tuple[Fit, str]


@dataclass(frozen=True)
class Remedy:
    """A part of a method, as a practitioner needs to know it."""

    part: str
    does: str
    needs: str
    evidence: str
    judge: Callable[[Situation], Judgement]
    # values advised instead of the defaults
    asks: Callable[[Situation], Mapping[str, Any]] = lambda situation: {}


@dataclass(frozen=True)
class Advice:
    """A remedy judged for one situation."""

    part: str
    fit: Fit
    why: str
    does: str
    needs: str
    discloses: str
    evidence: str
    available: bool

    def as_dict(self) -> dict[str, Any]:
        return dict(vars(self))


def advise(situation: Situation, evidence: Evidence | None = None) -> list[Advice]:
    """Every remedy judged, the fitting ones first; ``evidence`` is what was measured on data like this."""
    judged = []
    known = disclosures()
    for remedy in REMEDIES:
        fit, why = suited(remedy, situation, evidence or Evidence())
        told = ", ".join(known.get(remedy.part, ()))
        judged.append(
            Advice(
                remedy.part,
                fit,
                why,
                remedy.does,
                remedy.needs,
                told or "nothing beyond a model update",
                remedy.evidence,
                remedy.part in known,
            )
        )
    order: dict[Fit, int] = {"try": 0, "perhaps": 1, "no": 2}
    return sorted(judged, key=lambda advice: order[advice.fit])


def suited(remedy: Remedy, situation: Situation, evidence: Evidence) -> Judgement:
    """What the data calls for, unless the part's own check or the book has something against it."""
    if situation.one_class:
        return "no", "all samples are of one class: there is nothing to learn"
    values = remedy.asks(situation)
    fit, why = remedy.judge(situation)
    problem = problem_of(remedy.part, situation.planned, **values)
    if fit == "no":
        return fit, why
    if problem is not None:
        if problem.refused or problem.share >= 0.5:
            return "no", problem.sentence
        fit, why = "perhaps" if problem.share >= 0.1 else fit, f"{why}; but {problem.sentence}"
    lost = next((e for e in evidence.expected if e.lost and _is_usual(e.method, remedy.part, values)), None)
    return (fit, why) if lost is None else ("perhaps", f"{why}; {_loss(lost, remedy.part)}")


def _is_usual(method: str, part: str, values: Mapping[str, Any]) -> bool:
    """Whether a method of the book is this part alone, with its defaults and the values that are advised."""
    call, *more = parse(method)
    if more or call.name != part:
        return False
    known = parts()[part].parameters or {}
    usual = {name: LAYER if name == "layer" else value.default for name, value in known.items()} | dict(
        values
    )
    return all(usual[name] == value for name, value in (*zip(usual, call.args, strict=False), *call.kwargs))


def _loss(lost: Expected, part: str) -> str:
    """Where the book has a part lose most, and which other form of it gained there."""
    worst = min(lost.measured, key=lambda m: m.weight * m.mean)
    others = {
        form(method): found
        for method, found in worst.setting.gains.items()
        if [call.name for call in parse(form(method))] == [part]
        and found["half"] is not None
        and found["mean"] > found["half"]
    }
    said = f"as it comes it lost points in the book: {worst}"
    if others:
        best = max(others, key=lambda method: others[method]["mean"] - others[method]["half"])
        said += f", where {best} gained {points(others[best])}"
    return said


BY_CHANCE = "skew is no more than chance here, and it gained where there is more"


def _sem(s: Situation) -> Judgement:
    if s.planned.cohort < 2:
        return "no", "there is no second client in a round to pair with"
    if s.sparsity >= 0.2:
        return (
            "try",
            f"{s.sparsity:.0%} of the client-class pairs are empty, and a pair of clients covers more",
        )
    if s.median_size <= SCARCE:
        return (
            "try",
            f"half of the clients hold at most {s.median_size:,.0f} samples, and a pair holds twice that",
        )
    return "perhaps", "it gained 1.2% even with no class missing (SEM, figure 5)"


def _flea(s: Situation) -> Judgement:
    if s.clients < 2:
        return "no", "there is no other client to share features with"
    if s.median_size <= SCARCE:
        return (
            "try",
            f"half of the clients hold at most {s.median_size:,.0f} samples, which FLea calls scarce",
        )
    if s.median_size <= MILDLY_SCARCE and s.skewed:
        return (
            "perhaps",
            f"the median client holds {s.median_size:,.0f} samples, mildly scarce by FLea's measure",
        )
    return "no", f"the median client holds {s.median_size:,.0f} samples; its gains were shown at 50 and 100"


def _fedaug(s: Situation) -> Judgement:
    if s.by_chance:
        return "no", BY_CHANCE
    if not s.reaches(FALLS_ON_FASHION):
        least = s.scaled(FALLS_ON_FASHION)
        return "no", f"below EMD {least:.2g} unaltered data did better than augmented data"
    if s.sparsity == 0:
        return "try", "every client holds every class, so each can be filled up"
    if s.all_classes > 0:
        return "perhaps", (
            f"{s.all_classes:.0%} of the clients hold every class and can be filled up; others are left as they are"
        )
    return (
        "no",
        f"{s.sparsity:.0%} of the client-class pairs are empty, and what is not there cannot be augmented",
    )


def _phase_shift(s: Situation) -> Judgement:
    active = s.planned.cohort
    if active < 20:
        more = f"; plan --cohort 20 of the {s.clients} clients" if s.clients >= 20 else ""
        return "no", f"two phases need at least 10 active clients each, and a cohort has {active}{more}"
    phases = _phases(s)["n"]
    saved = f"phase_shift({phases}) sends {1 - (phases + 1) / (2 * phases):.1%} less"
    if s.skewed:
        return "try", f"{saved} while drift is corrected every round"
    return "perhaps", f"{saved}; at this skew that is its only gain"


def _phases(s: Situation) -> dict[str, int]:
    return {"n": 4 if s.planned.cohort >= 40 else 2}


def _kld(s: Situation) -> Judgement:
    if s.planned.cohort >= s.clients:
        return "no", "all clients take part in every round, so there is none to choose"
    if s.single_class >= 0.5:
        return (
            "try",
            f"{s.single_class:.0%} of the clients hold a single class, so a random cohort lacks classes",
        )
    if s.reaches(FALLS_FAR) and not s.by_chance:
        few = f"{s.single_class:.0%} of the clients hold" if s.single_class else "no client holds"
        return (
            "perhaps",
            f"it evens out the labels of a cohort; but {few} a single class, and it gained most where 90% or more did",
        )
    return "no", "at milder skew it did as well as random cohorts"


def _oversample(s: Situation) -> Judgement:
    if s.single_class == 1:
        return "no", "every client holds a single class: there is nothing to balance"
    if s.skewed:
        return "perhaps", "classes that a client holds little of can be repeated; best together with kld"
    return "no", "at milder skew its gain was not noticeable"


def _daca(s: Situation) -> Judgement:
    if s.by_chance:
        return "no", BY_CHANCE
    if not s.skewed:
        return "no", "the labels are even enough without moving samples"
    if s.least_emd <= 0.5:
        return (
            "perhaps",
            f"the most even client has EMD {s.least_emd:.2f} and could share with peers that trust it",
        )
    return "no", f"even the most even client has EMD {s.least_emd:.2f}: none is fit to share from"


def _scaffold(s: Situation) -> Judgement:
    if s.planned.visits < 2:
        return "no", (
            f"it remembers from visit to visit, and a client takes part {s.planned.visits:.2g} times in "
            f"{s.planned.rounds} rounds of {s.planned.cohort} of {s.clients:,} clients"
        )
    if s.by_chance:
        return "no", BY_CHANCE
    if s.skewed:
        return "perhaps", "corrects the drift of skewed clients, and combines with sem"
    return "no", f"there is little drift to correct below EMD {s.scaled(STARTS_TO_FALL):.2g}"


REMEDIES: tuple[Remedy, ...] = (
    Remedy(
        "sem",
        "trains each model at two randomly paired clients before it is averaged",
        "clients that can pass a model on, to a peer or through the server",
        "SEM, table I: FedAvg +3.2% on CIFAR-10 and +11.1% on CIFAR-100 (relative, alpha 0.1); "
        "tables II and III: +2.3% to +3.9% at every scarcity from 0.08 to 0.99",
        _sem,
    ),
    Remedy(
        "flea",
        "mixes local features with features shared by other clients",
        "a model that can be cut after its first layers",
        "FLea, table 1: CIFAR-10 with 100 samples a client, their most skewed split: 20.5% with FedAvg, "
        "44.4% with FLea",
        _flea,
    ),
    Remedy(
        "phase_shift",
        "groups of clients upload in turn while all keep correcting towards the last average",
        "10 active clients a phase, which stay for several rounds",
        "thesis, section 4.7: 4 phases on CIFAR-10 at EMD 1.4 sent 37.5% less at no loss, "
        "where sending less often lost 3%",
        _phase_shift,
        asks=_phases,
    ),
    Remedy(
        "fedaug",
        "fills up a client's rare classes with augmented samples until its EMD is 0.8",
        "a sample of each class at each client, and augmentations that keep the label",
        "thesis, section 5.4: at EMD 1.4 +10% on CIFAR-10, +2.4% on MNIST, +1.2% on Fashion-MNIST; "
        "no gain below 1.2",
        _fedaug,
    ),
    Remedy(
        "kld",
        "chooses clients, and how much of each class they use, so that a round's labels are even",
        "each client's label counts at the server",
        "Seol & Kim, figure 4: +22.5% over FedAvg where every client holds one class, "
        "+13% where 9 in 10 do, as good as FedAvg at their mildest skew",
        _kld,
    ),
    Remedy(
        "oversample",
        "repeats samples of a client's rare classes, less each round",
        "two or more classes at a client",
        "Seol & Kim, figure 5: +4% over FedAvg where 9 in 10 clients hold one class, "
        "not noticeable at their mildest skew",
        _oversample,
    ),
    Remedy(
        "scaffold",
        "corrects each local step by the drift measured in earlier rounds",
        "clients that come back and remember; twice the traffic",
        "SEM, table I: CIFAR-10 64.1% with FedAvg, 67.1% with SCAFFOLD, 67.4% with both (alpha 0.1)",
        _scaffold,
    ),
    Remedy(
        "daca",
        "clients with even labels share samples with nearby peers before training",
        "peers that trust each other, and a few clients with even labels",
        "DACA, figure 3: MNIST 96.42% to 98.72%, in 400 rounds instead of 1000, "
        "with 95 of 100 clients of one class",
        _daca,
    ),
)
