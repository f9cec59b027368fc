"""The report of runs that share raw samples over a network: who with whom, and accuracy against seconds."""

from __future__ import annotations

import numpy as np
import pytest

import unskew
from unskew.report import write_report
from unskew.report.clusters import MIXED, Cluster, cluster_picture
from unskew.report.results.comparison import compare
from unskew.report.results.curves import AIR, learning_curves
from unskew.report.results.look import styles


@pytest.fixture(scope="module")
def runs():
    settings = {"dataset": "digits", "partition": "daca", "clients": 20, "cohort": 4, "rounds": 2}
    return [
        unskew.run(method=method, network="wireless(snr=10)", progress=False, **settings)
        for method in ("fedavg", "daca", "central_sharing(0.05)")
    ]


def titles(chart):
    """All titles of a chart's panels."""
    specification = chart.to_dict()
    return [panel.get("title") for row in specification["vconcat"] for panel in row.get("hconcat", [row])]


def test_accuracy_is_drawn_against_time_on_the_air(runs):
    """Seconds add up over rounds, what was shared before them included; without a network there is no such panel."""
    (_, rows) = compare(runs).tables[0]
    assert "Global test accuracy against time on the air" in titles(learning_curves(rows, styles([rows])))
    record = next(row.group.counted[0] for row in rows if row.group.method == "daca")
    assert AIR.of(record)[-1] == pytest.approx(runs[1].result["totals"]["air_s"])
    plain = unskew.run(dataset="digits", clients=10, cohort=2, rounds=1, progress=False)
    (_, rows) = compare([plain]).tables[0]
    assert "Global test accuracy against time on the air" not in titles(learning_curves(rows, styles([rows])))


@pytest.mark.parametrize("rounds", [1, 2, 3, 50])
def test_no_round_and_a_half_stands_below_a_curve(rounds):
    """Vega makes one tick more than there are steps, where it is only told the smallest step: 1, 1.5, 2, 2.5, 3."""
    ended = unskew.run(dataset="digits", clients=5, cohort=2, rounds=rounds, model="linear", progress=False)
    (_, rows) = compare([ended]).tables[0]
    first = learning_curves(rows, styles([rows])).to_dict()["vconcat"][0]
    while "layer" in first:
        first = first["layer"][0]
    assert first["encoding"]["x"]["axis"]["tickCount"] == max(1, min(6, rounds - 1))


def test_the_page_says_who_shared_with_whom(runs, tmp_path):
    """The table has every sharing method, the picture the clusters of the one that clusters."""
    text = write_report(runs, tmp_path / "page.html").read_text()
    assert "Who shared with whom" in text
    assert "raw samples to peers (daca)" in text
    assert "heads share with" in text or "no sharing" in text
    assert "Who shared with whom" not in write_report(runs[:1], tmp_path / "plain.html").read_text()


def test_the_picture_has_every_client_once():
    """Two clusters and one client alone: four members and lines, two heads, and what each holds most of."""
    counts = np.array([[5, 5], [9, 0], [0, 9], [9, 1], [1, 9], [4, 4], [7, 0]])
    chart = cluster_picture(
        [Cluster(0, (1, 2), 5), Cluster(5, (3, 4), 8), Cluster(None, (6,))], counts, ["cat", "dog"], "title"
    )
    drawn = chart.to_dict()
    links, nodes, _, _, notes = (drawn["datasets"][layer["data"]["name"]] for layer in drawn["layer"])
    assert sorted(node["client"] for node in nodes) == list(range(7))
    assert [node["client"] for node in nodes if node["role"] == "head"] == [0, 5]
    assert {node["client"]: node["holds"] for node in nodes}[0] == MIXED
    assert {node["client"]: node["holds"] for node in nodes}[4] == "dog"
    assert len(links) == 4
    told = {note["text"] for note in notes}
    assert told == {"5 samples to 2", "8 samples to 2", "no sharing"}
