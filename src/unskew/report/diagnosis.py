"""How skewed and how scarce, in numbers and in words, with the evidence each word rests on."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from unskew.import_object import drawing_of
from unskew.metrics import Skew, skew
from unskew.renamed import accepts_old_names
from unskew.report.about import read_counts
from unskew.report.advice import Advice, advise
from unskew.report.evidence import Evidence, evidence_for
from unskew.report.situation import (
    FALLS_FAR,
    FALLS_ON_FASHION,
    MILDLY_SCARCE,
    NOT_SCARCE,
    SCARCE,
    STARTS_TO_FALL,
    Situation,
    is_as_measured,
)

if TYPE_CHECKING:
    from unskew.data import Federation
    from unskew.data.partition import Partition

SOURCES = {
    "thesis": "I. Cornelis, Federated Learning from Non-IID Data, MSc thesis, TU Delft, 2022",
    "SEM": "SEM: A Simple Yet Efficient Model-agnostic Local Training Mechanism to Tackle Data Sparsity and "
    "Scarcity in Federated Learning",
    "FLea": "T. Xia et al., FLea: Addressing Data Scarcity and Label Skew in Federated Learning via "
    "Privacy-preserving Feature Augmentation, KDD 2024",
    "Seol & Kim": "M. Seol, T. Kim, Performance Enhancement in Federated Learning by Reducing Class "
    "Imbalance of Non-IID Data, Sensors 2023, 23, 1152",
    "DACA": "G. Hu et al., Clustered Data Sharing for Non-IID Federated Learning over Wireless Networks",
}


@dataclass(frozen=True)
class Finding:
    """One number, the range it lies in, what blind dealing would give, what it means, and who showed that."""

    measure: str
    value: str
    span: str
    meaning: str
    evidence: str = ""
    chance: str = ""


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """What is known about one partition of one data set."""

    dataset: str
    about: str
    labels: tuple[str, ...]
    counts: npt.NDArray[Any]
    skew: Skew
    scarce: int
    situation: Situation
    headline: str
    findings: tuple[Finding, ...]
    advice: tuple[Advice, ...]
    record: Mapping[str, Any]
    names: tuple[str, ...] | None = None
    evidence: Evidence = field(default_factory=Evidence)

    def show(self) -> None:
        """Print it, as ``unskew diagnose`` does."""
        drawing_of("unskew.report.terminal:show_in_terminal")(self)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page, one HTML file with pictures, and return where it is."""
        drawing_of("unskew.report.diagnosis_page:save_diagnosis")(self, path)
        return Path(path)

    def __repr__(self) -> str:
        return f"Diagnosis({self.about!r}: {self.headline})"

    def _repr_html_(self) -> str:
        return str(drawing_of("unskew.report.diagnosis_card:diagnosis_card")(self))

    def _per_client(self) -> list[dict[str, Any]]:
        """Every client by its name."""
        measured = zip(
            self.names or (), self.skew.sizes.tolist(), self.skew.emd_per_client.tolist(), strict=True
        )
        return [
            {"client": name, "samples": int(size), "emd": None if np.isnan(emd) else round(emd, 6)}
            for name, size, emd in measured
        ]

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain values, for ``--json``."""
        sizes = self.skew.sizes
        low, quarter, median, three_quarters, high = np.percentile(sizes, [0, 25, 50, 75, 100]).tolist()
        return {
            "dataset": self.dataset,
            "headline": self.headline,
            "emd": self.skew.emd,
            "emd_per_client": [
                None if np.isnan(emd) else round(emd, 6) for emd in self.skew.emd_per_client.tolist()
            ],
            **({} if self.names is None else {"per_client": self._per_client()}),
            "kld": self.skew.kld,
            "jsd": self.skew.jsd,
            "entropy": self.skew.entropy,
            "gini": self.skew.gini,
            "sparsity": self.skew.sparsity,
            "scarcity": self.skew.scarcity["at_most"],
            "scarcity_below": self.skew.scarcity["below"],
            "scarcity_threshold": self.scarce,
            "emd_ceiling": self.situation.ceiling,
            "emd_by_chance": self.situation.chance_emd,
            "sparsity_by_chance": self.situation.chance_sparsity,
            "clients": self.skew.clients,
            "samples": self.skew.samples,
            "classes": self.skew.classes,
            "sizes": {
                "min": int(low),
                "p25": quarter,
                "median": median,
                "mean": float(sizes.mean()),
                "p75": three_quarters,
                "max": int(high),
            },
            "partition": dict(self.record),
            "planned": {
                name: getattr(self.situation.planned, name)
                for name in ("cohort", "rounds", "epochs", "steps", "batch")
            },
            "findings": [dict(vars(finding)) for finding in self.findings],
            "advice": [advice.as_dict() for advice in self.advice],
            "evidence": self.evidence.as_dict(),
        }


@accepts_old_names(data="dataset")
def diagnose(
    counts: Federation | Partition | npt.ArrayLike,
    *,
    dataset: str | None = None,
    about: str = "",
    labels: Sequence[str] | None = None,
    record: Mapping[str, Any] | None = None,
    scarce: int = 50,
    names: Sequence[str] | None = None,
    **plan: Any,
) -> Diagnosis:
    """Measure who holds what, and say what the numbers mean and what to try.

    ``counts`` is a Federation, a Partition or a (client x class) table of label counts. ``names`` are the clients' own,
    ``labels`` those of the classes, ``dataset`` what the data is called, ``about`` the line that says which data it is
    and ``record`` how it was dealt: what a Federation or a Partition knows of it need not be said. A client that holds
    at most ``scarce`` samples is scarce. ``plan`` is what a run would be told, for the advice: cohort, rounds, epochs
    or steps, batch; what is left out is as in a run that says nothing.

        told = unskew.diagnose(unskew.partition(unskew.load("digits"), "dirichlet(0.1)", clients=20))
        told.show()
    """
    known = read_counts(counts)
    table: npt.NDArray[Any] = known["counts"]
    dataset, about = dataset or known["dataset"], about or ("" if dataset else known.get("about", ""))
    labels = known.get("labels") if labels is None else labels
    record = known.get("record") if record is None else record
    names = known.get("names") if names is None else names
    measured = skew(table, scarce=scarce)
    situation = Situation.of(table, measured, **plan)
    evidence = evidence_for(situation)
    advice = tuple(advise(situation, evidence))
    unfit = frozenset(one.part for one in advice if one.fit == "no")
    return Diagnosis(
        dataset=dataset,
        about=about or dataset,
        labels=tuple(labels) if labels is not None else tuple(map(str, range(table.shape[1]))),
        counts=table,
        skew=measured,
        scarce=scarce,
        situation=situation,
        headline=_headline(situation),
        findings=(
            _emd(situation),
            _spread(measured, natural(record, names)),
            _missing(situation),
            _sparsity(situation),
            _scarcity(situation, scarce),
            _size(measured, situation),
            _gini(measured),
            *_for_reference(measured),
        ),
        advice=advice,
        record=record or {},
        names=tuple(names) if names is not None else None,
        # one voice: what is advised against is not recommended below
        evidence=replace(evidence, unfit=unfit),
    )


def natural(record: Mapping[str, Any] | None, names: Sequence[str] | None) -> bool:
    """Whether clients are what they are, not dealt by a recipe."""
    return names is not None or str((record or {}).get("partition", "")).startswith("by(")


def _headline(s: Situation) -> str:
    if s.one_class:
        return "All samples are of one class: there is nothing to learn"
    if s.clients == 1:
        labels = "One client holds everything, so there is no label skew"
    elif s.by_chance:
        labels = f"Label skew is no more than chance (EMD {s.emd:.2f})"
    elif s.reaches(FALLS_FAR):
        labels = f"Severe label skew (EMD {s.emd:.2f} of at most {s.ceiling:.2f})"
    elif s.reaches(STARTS_TO_FALL):
        labels = f"Strong label skew (EMD {s.emd:.2f} of at most {s.ceiling:.2f})"
    else:
        labels = f"Mild label skew (EMD {s.emd:.2f} of at most {s.ceiling:.2f})"
    held = f"the median client holds {s.median_size:,.0f} {'sample' if s.median_size == 1 else 'samples'}"
    if s.median_size <= SCARCE:
        return f"{labels}, and scarce: {held}"
    if s.median_size <= MILDLY_SCARCE:
        return f"{labels}, and mildly scarce: {held}"
    return f"{labels}; {held}"


def _emd(s: Situation) -> Finding:
    def beyond(threshold: float) -> str:
        scaled = s.scaled(threshold)
        return (
            f"beyond {threshold}"
            if is_as_measured(threshold, s.ceiling)
            else f"beyond {scaled:.2f}, which with ten classes would be {threshold}"
        )

    if s.by_chance:
        meaning = f"no more than blind dealing to clients of these sizes gives ({s.chance_emd:.2f})"
    elif s.reaches(FALLS_FAR):
        meaning = f"{beyond(FALLS_FAR)}, where accuracy drops far"
    elif s.reaches(FALLS_ON_FASHION):
        meaning = f"{beyond(FALLS_ON_FASHION)}, where accuracy falls on Fashion-MNIST as well as on CIFAR-10"
    elif s.reaches(STARTS_TO_FALL):
        meaning = (
            f"{beyond(STARTS_TO_FALL)}, where accuracy starts to fall on CIFAR-10 (from 1.2 on Fashion-MNIST)"
        )
    else:
        meaning = f"below {s.scaled(STARTS_TO_FALL):.2g}, where plain averaging lost little"
    return Finding(
        "EMD of the system",
        f"{s.emd:.2f}",
        f"0 to {s.ceiling:.2f}",
        meaning,
        "" if s.by_chance else "thesis, figures 3.4 and 3.5",
        f"{s.chance_emd:.2f}",
    )


def _spread(measured: Skew, natural: bool) -> Finding:
    low, median, high = np.nanpercentile(measured.emd_per_client, [5, 50, 95]).tolist()
    if measured.clients == 1:
        return Finding("EMD of the median client", f"{median:.2f}", "0 to 2", "there is one client")
    if high - low < 0.25:
        meaning = "clients are about equally skewed" + (
            "" if natural else ", as limit_labels and q make them"
        )
    else:
        meaning = f"nine in ten clients lie between {low:.2f} and {high:.2f}"
        meaning += "" if natural else ", as a Dirichlet split makes them"
    return Finding("EMD of the median client", f"{median:.2f}", "0 to 2", meaning, "thesis, figure 3.3")


def _missing(s: Situation) -> Finding:
    value = f"{s.single_class:.0%}"
    if s.one_class:
        meaning = "all samples are of one class"
        evidence = ""
    elif s.single_class >= 0.5:
        meaning = "most clients cannot tell any two classes apart; random cohorts swing from round to round"
        evidence = "Seol & Kim, figure 3: cases 1 and 2"
    elif s.all_classes == 0:
        meaning = "no client holds every class: harder than the same EMD with a few samples of each"
        evidence = "thesis, section 3.4.2: ll(2, 1.0) against ll(1, 0.89)"
    elif s.all_classes == 1:
        meaning = "every client holds every class"
        evidence = ""
    else:
        meaning = f"{s.all_classes:.0%} of the clients hold every class"
        evidence = ""
    return Finding("clients with a single class", value, "0% to 100%", meaning, evidence)


def _sparsity(s: Situation) -> Finding:
    top = 1 - 1 / s.classes
    if s.sparsity < 0.2:
        meaning = "few client-class pairs are empty"
    elif s.sparsity <= 1.1 * s.chance_sparsity + 0.01:
        meaning = "empty pairs, but only because clients are small: blind dealing leaves as many"
    else:
        meaning = f"a client lacks {s.sparsity * s.classes:.1f} of {s.classes} classes on average"
    return Finding(
        "sparsity",
        f"{s.sparsity:.2f}",
        f"0 to {top:.2f}",
        f"{meaning}; FedAvg on CIFAR-10 reached 67.9% at 0.22, 65.2% at 0.38 and 64.1% at 0.61",
        "SEM, table I",
        f"{s.chance_sparsity:.2f}",
    )


def _scarcity(s: Situation, scarce: int) -> Finding:
    return Finding(
        f"scarcity (at most {scarce})",
        f"{s.scarcity:.2f}",
        "0 to 1",
        f"the share of clients with at most {scarce} samples; FedAvg on CIFAR-10 reached 71.1% at 0.08, "
        "61.2% at 0.45 and 52.4% at 0.85 (with less data in all)",
        "SEM, table II",
    )


def _size(measured: Skew, s: Situation) -> Finding:
    n = s.median_size
    if n <= SCARCE:
        meaning = "scarce: with 100 a client FedAvg reached 37% on evenly dealt CIFAR-10, with 5000 75%"
    elif n <= MILDLY_SCARCE:
        meaning = (
            "mildly scarce: with 500 a client FedAvg reached 56% on evenly dealt CIFAR-10, with 5000 75%"
        )
    elif n < NOT_SCARCE:
        meaning = "between mildly scarce (500) and not scarce (5000)"
    else:
        meaning = "not scarce"
    sizes = measured.sizes
    return Finding(
        "samples of the median client",
        f"{n:,.0f}",
        f"{sizes.min():,} to {sizes.max():,}",
        meaning,
        "FLea, section 2.3.1",
    )


def _gini(measured: Skew) -> Finding:
    top = 1 - 1 / measured.clients
    if measured.gini < 0.1:
        meaning = "clients hold about equally much"
    elif measured.gini < 0.4:
        meaning = "sizes differ moderately"
    else:
        meaning = "a few clients hold most; such splits were the hardest of equal EMD on Fashion-MNIST"
    evidence = "thesis, section 3.4.1" if measured.gini >= 0.4 else ""
    return Finding("size imbalance (Gini)", f"{measured.gini:.2f}", f"0 to {top:.2f}", meaning, evidence)


def _for_reference(measured: Skew) -> tuple[Finding, ...]:
    top = float(np.log(measured.classes))
    return (
        Finding(
            "KLD",
            f"{measured.kld:.2f}",
            "0 and up",
            "divergence of a client's labels from the whole, in nats",
        ),
        Finding("JSD", f"{measured.jsd:.2f}", "0 to 0.69", "the same made symmetric and bounded, in nats"),
        Finding(
            "label entropy", f"{measured.entropy:.2f}", f"0 to {top:.2f}", "0: one class a client; high: even"
        ),
    )
