"""Pictures of partitions: what they say and how much they hold."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from unskew.metrics import skew
from unskew.report.charts import (
    client_class_matrix,
    client_sizes,
    emd_histogram,
    partition_picture,
    shown_clients,
)
from unskew.report.theme import themed


def dealt(clients: int, classes: int = 10, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    counts = random.poisson(random.gamma(0.3, 20, (clients, classes)))
    counts[counts.sum(1) == 0, 0] = 1
    return counts


def values(specification: dict[str, Any]) -> list[dict[str, Any]]:
    """Every row of data that a chart carries; Altair keeps them by name at the top."""
    return [row for rows in specification["datasets"].values() for row in rows]


def names(classes: int) -> list[str]:
    return [f"class {c}" for c in range(classes)]


def test_the_matrix_holds_every_count_that_is_not_zero() -> None:
    """Two clients, three classes: an empty pair is drawn as nothing."""
    counts = np.array([[5, 0, 1], [0, 2, 0]])
    drawn = values(client_class_matrix(counts, skew(counts), ["a", "b", "c"], "mine").to_dict())
    assert drawn == [
        {"client": 0, "class": "a", "samples": 5},
        {"client": 0, "class": "c", "samples": 1},
        {"client": 1, "class": "b", "samples": 2},
    ]


def test_few_clients_are_bubbles_and_many_are_colours() -> None:
    """Area up to sixty clients, colour beyond."""
    few, many = dealt(60), dealt(61)
    assert client_class_matrix(few, skew(few), names(10), "").to_dict()["mark"]["type"] == "circle"
    assert client_class_matrix(many, skew(many), names(10), "").to_dict()["mark"]["type"] == "rect"


def test_titles_state_what_is_seen() -> None:
    """A client lacks a mean number of classes; so many lie beyond EMD 1; so many are scarce."""
    counts = np.array([[100, 0], [0, 100], [10, 10]])
    measured = skew(counts)
    assert client_class_matrix(counts, measured, ["a", "b"], "").title.text == (
        "A client lacks 0.7 of the 2 classes on average"
    )
    assert themed(emd_histogram(measured))["title"]["text"] == "No client lies beyond EMD 1.0"
    assert themed(client_sizes(measured))["title"]["text"] == "1 of 3 clients holds at most 50 samples"


def test_thresholds_are_those_that_the_words_go_by() -> None:
    """Measured with ten classes, of 1.8 at most; two uneven ones have 1 - 0.8^2 - 0.2^2 twice, 0.64: a third of each.

    Half of the samples are client 0's and of class a alone, so its EMD is 0.4; client 1 has 0.6 of a, which is 0.4.
    """
    measured = skew(np.array([[100, 0], [60, 40]]))
    drawn = themed(emd_histogram(measured, ceiling=0.64))
    assert drawn["title"]["text"] == "Every client lies beyond EMD 0.36"
    assert drawn["title"]["subtitle"][0] == "shaded: where accuracy fell (from 0.36) and fell far"
    assert [band["from"] for band in values(drawn) if set(band) == {"from", "to"}] == pytest.approx(
        [0.3556, 0.4978], abs=1e-4
    )
    assert themed(emd_histogram(measured, ceiling=0.0))["title"]["text"] == "No client lies beyond EMD 1.0"
    picture = json.dumps(
        themed(partition_picture(np.array([[100, 0], [60, 40]]), measured, ["a", "b"], "mine"))
    )
    assert "Every client lies beyond EMD 0.36" in picture


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        (np.ones((2, 2), int), "Every client holds both classes"),
        (np.eye(3, dtype=int), "Every client holds a single class"),
        (np.ones((2, 3), int), "Every client holds all 3 classes"),
    ],
)
def test_extremes_are_called_by_name(counts: np.ndarray, said: str) -> None:
    """No average where there is none."""
    assert client_class_matrix(counts, skew(counts), names(3), "").title.text == said


def test_of_many_clients_an_even_sample_is_drawn_and_said() -> None:
    """Ten thousand clients: every fiftieth, in their own order, and the subtitle says so."""
    assert shown_clients(10_000, 10).tolist() == list(range(0, 10_000, 50))
    counts = dealt(10_000)
    chart = client_class_matrix(counts, skew(counts), names(10), "")
    assert "one client in 50 is drawn" in chart.title.subtitle[1]
    assert {v["client"] % 50 for v in values(chart.to_dict())} == {0}


@pytest.mark.parametrize(("clients", "classes"), [(1, 1), (5, 3), (100, 10), (100_000, 10), (300, 500)])
def test_a_picture_stays_small(clients: int, classes: int) -> None:
    """Whatever the number of clients, a picture holds at most some thousand marks."""
    counts = np.tile(dealt(min(clients, 1000), classes), (-(-clients // 1000), 1))[:clients]
    specification = themed(partition_picture(counts, skew(counts), names(classes), "mine"))
    assert len(json.dumps(specification)) < 2_000_000


def test_the_histogram_counts_every_client_that_has_samples() -> None:
    """Three clients, one of them empty: two are counted."""
    counts = np.array([[4, 0], [0, 4], [0, 0]])
    drawn = values(emd_histogram(skew(counts)).to_dict())
    assert sum(v.get("clients", 0) for v in drawn) == 2


def test_the_size_distribution_counts_every_client() -> None:
    """A hundred clients fall into bins that split at the scarcity threshold."""
    counts = dealt(100)
    drawn = values(client_sizes(skew(counts), scarce=50).to_dict())
    held = {
        group: sum(v["clients"] - v["none"] for v in drawn if v["group"] == group)
        for group in ("scarce", "more")
    }
    assert held["scarce"] == int((counts.sum(1) <= 50).sum())
    assert sum(held.values()) == 100
