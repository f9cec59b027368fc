"""Calls as users write them, for mypy and never run: an ``ignore`` that ignores nothing is an error to it."""

from __future__ import annotations

import numpy as np

import unskew
from unskew import Federation, Method, RoundEnded, Settings, Spec, Watcher
from unskew.parts.schedule import SEM


def well_written(federation: Federation) -> None:
    """Names and values that are right are no type errors."""
    settings: Settings = {"partition": "dirichlet(0.1)", "rounds": 5, "target": [0.8], "keep": (1, 2)}
    unskew.run(dataset="digits", **settings)
    unskew.run(dataset=federation, method=Method.of(SEM()), cohort=0.5, engine="fast", progress=False)
    unskew.run(dataset=(np.zeros((4, 2)), [0, 1, 0, 1]), optimizer="adam", out="runs/one")
    unskew.run(Spec(rounds=3), lr=0.1).report("report.html")
    unskew.run(dataset="digits", stop="accuracy > 0.9", patience=3, budget="1MB", watch=[object()])
    unskew.resume("runs/one", stop=None, watch=[object()])
    unskew.sweep({"seed": "0-4"}, "runs/many", processes=2, **settings)
    unskew.partition(unskew.load("digits", data_folder="data"), "iid", clients=4).federation(
        federation.dataset
    )


class EachRound(Watcher):
    """A watcher need not have all four methods."""

    def round_ended(self, round: RoundEnded) -> None:
        print(round.line)


def with_results(federation: Federation) -> None:
    """What is measured and watched has types of its own."""
    told: unskew.Diagnosis = unskew.diagnose(federation, rounds=20)
    told.show()
    unskew.diagnose([[1, 2], [3, 4]]).save("page.html")
    unskew.run(dataset=federation, watch=[EachRound()])


def misspelt(federation: Federation) -> None:
    """A setting that does not exist, an old name, and a value of another kind."""
    unskew.run(dataset="digits", rouns=5)  # type: ignore[call-arg]
    unskew.run(data=federation)  # type: ignore[call-arg]
    unskew.run(rounds="five")  # type: ignore[arg-type]
    unskew.run(optimizer="adams")  # type: ignore[arg-type]
    unskew.sweep({"seed": "0-4"}, "runs/many", metod="sem")  # type: ignore[call-arg]
    unskew.resume("runs/one", data=federation)  # type: ignore[call-arg]
    unskew.partition(federation.dataset, "iid", client=4)  # type: ignore[call-arg]
    Spec(rouns=5)  # type: ignore[call-arg]
    settings: Settings = {"rouns": 5}  # type: ignore[typeddict-unknown-key]
    unskew.run(**settings)
