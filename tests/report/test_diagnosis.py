"""A diagnosis says in words what the numbers say, and cites who showed it."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import unskew
from unskew.errors import InputError
from unskew.report.diagnosis import Diagnosis, diagnose
from unskew.report.terminal import counts_table, numbers_table, show


def single(clients: int, each: int, classes: int = 10) -> np.ndarray:
    counts = np.zeros((clients, classes), int)
    counts[np.arange(clients), np.arange(clients) % classes] = each
    return counts


def meaning(found: Diagnosis, measure: str) -> str:
    return next(f.meaning for f in found.findings if f.measure.startswith(measure))


def printed(found: Diagnosis, width: int = 80) -> str:
    out = io.StringIO()
    show(found, Console(file=out, width=width))
    return out.getvalue()


def test_single_class_clients_are_severe() -> None:
    """EMD 1.8 of at most 1.8, and large clients."""
    found = diagnose(single(20, 6000), dataset="x")
    assert found.headline == (
        "Severe label skew (EMD 1.80 of at most 1.80); the median client holds 6,000 samples"
    )
    assert "beyond 1.4" in meaning(found, "EMD of the system")
    assert "not scarce" in meaning(found, "samples of the median")


def test_even_clients_are_not_skewed() -> None:
    """Equal labels everywhere: EMD 0, below what chance gives."""
    found = diagnose(np.full((10, 10), 50), dataset="x")
    assert found.headline.startswith("Label skew is no more than chance (EMD 0.00), and mildly scarce")


def test_levels_follow_the_thesis() -> None:
    """q of the own class gives EMD 2q - 0.2: mild at 0.5, strong at 0.65, severe at 0.85."""
    for own, word in ((500, "Mild"), (650, "Strong"), (850, "Severe")):
        other = (1000 - own) / 9
        counts = np.full((10, 10), round(other * 9)) + np.eye(10, dtype=int) * (9 * own - round(other * 9))
        assert diagnose(counts, dataset="x").headline.startswith(word)


def test_scaled_thresholds_are_said() -> None:
    """With two classes 1.4 means 0.78, and the reader is told."""
    found = diagnose(np.array([[100, 0], [0, 100]]), dataset="x")
    assert "beyond 0.78, which with ten classes would be 1.4" in meaning(found, "EMD of the system")


def test_one_client_is_said_to_have_no_skew() -> None:
    """Nothing to be skewed against."""
    alone = diagnose(np.array([[5, 5]]), dataset="x")
    assert alone.headline.startswith("One client holds everything")
    assert alone.findings[1].meaning == "there is one client"


def test_of_one_class_there_is_nothing_to_learn() -> None:
    """Said first; nothing is recommended."""
    found = diagnose(np.full((8, 1), 40), dataset="x")
    assert found.headline == "All samples are of one class: there is nothing to learn"
    assert meaning(found, "clients with a single class") == "all samples are of one class"
    assert found.evidence.recommended is None
    assert "there is nothing to learn" in found.evidence.headline


def test_the_dictionary_is_plain_json() -> None:
    """Every promised key, numbers as numbers, an empty client's EMD as null."""
    counts = single(20, 30)
    counts[3] = 0
    told = json.loads(
        json.dumps(diagnose(counts, dataset="x", record={"seed": 0}).as_dict(), allow_nan=False)
    )
    for key in ("emd", "sparsity", "scarcity", "kld", "jsd", "gini", "entropy"):
        assert isinstance(told[key], float), key
    assert told["clients"] == 20
    assert told["samples"] == 570
    assert told["classes"] == 10
    assert told["emd_per_client"][3] is None
    assert len(told["emd_per_client"]) == 20
    assert told["sizes"]["min"] == 0
    assert told["sizes"]["max"] == 30
    assert told["partition"] == {"seed": 0}
    assert {"part", "fit", "why", "needs", "discloses", "evidence", "available"} <= told["advice"][0].keys()


def test_the_terminal_shows_numbers_words_sources_and_advice() -> None:
    """Within eighty columns; what this version cannot train with yet is marked, what it can is not."""
    text = printed(diagnose(single(50, 20), dataset="x", about="mine"))
    assert max(map(len, text.splitlines())) <= 80
    for word in (
        "EMD of the system",
        "1.80",
        "thesis",
        "SEM, table II",
        "sem",
        "discloses",
    ):
        assert word in text
    assert "sem*" not in text
    assert "not in this version" not in text


def test_labels_cannot_break_the_terminal() -> None:
    """Square brackets in a label are text, not markup."""
    found = diagnose(np.array([[3, 1], [1, 3]]), dataset="x", about="[red]mine[/]", labels=["[bold]", "[/]"])
    assert "[red]mine[/]" in printed(found)
    out = io.StringIO()
    Console(file=out, width=80).print(counts_table(found))
    assert "[bold]" in out.getvalue()


def test_counts_are_printed_only_where_they_fit() -> None:
    """Forty clients and twelve classes at most."""
    assert counts_table(diagnose(single(41, 5), dataset="x")) is None
    assert counts_table(diagnose(single(40, 5), dataset="x")) is not None
    assert numbers_table(diagnose(single(41, 5), dataset="x").findings).row_count == 10


def test_a_natural_split_is_not_told_of_recipes() -> None:
    """Sites are what they are: nothing is said of Dirichlet, limit_labels or q, in findings or in advice."""
    counts = np.vstack([single(5, 40), np.full((5, 10), 4)])
    found = diagnose(
        counts, dataset="x", record={"partition": "by(site)"}, names=[f"site {k}" for k in range(10)]
    )
    told = json.dumps(found.as_dict())
    assert not [word for word in ("Dirichlet", "dirichlet", "Dir(", "limit_labels", " q ") if word in told]
    dealt = json.dumps(diagnose(counts, dataset="x", record={"partition": "dirichlet(0.1)"}).as_dict())
    assert "as a Dirichlet split makes them" in dealt


def test_the_plan_is_said_with_the_advice() -> None:
    """In words for people, as settings for programs; a cohort beyond the clients is all of them."""
    found = diagnose(single(8, 20), dataset="x", cohort=20, rounds=5, steps=1)
    assert found.situation.planned.said() == "5 rounds of 8 clients, 1 step of batches of 32"
    assert found.as_dict()["planned"] == {"cohort": 8, "rounds": 5, "epochs": None, "steps": 1, "batch": 32}
    assert "for 5 rounds of 8 clients" in printed(found)


def test_a_partition_and_a_federation_say_what_they_know(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Name, labels, clients' names and how it was dealt need not be said again; it shows, saves and draws itself."""
    x, y = np.zeros((12, 2)), np.repeat(["flu", "cold"], 6)
    site = np.array(["north", "south"] * 3 + ["south"] * 6)
    data = unskew.from_arrays(x, y, columns={"site": site}, test=0, name="visits")
    part = unskew.partition(data, "by(site)")
    of_part, of_both = unskew.diagnose(part), unskew.diagnose(part.federation(data), epochs=3)
    assert (of_part.dataset, of_part.names, of_part.record["seed"]) == ("visits", ("north", "south"), 0)
    assert of_part.about == "visits · by(column=site) · seed 0 · 2 clients · 12 training samples"
    assert of_both.about == "visits · 2 clients · 12 training samples"
    assert (of_both.labels, of_both.names) == (("cold", "flu"), ("north", "south"))
    assert of_both.counts.tolist() == of_part.counts.tolist() == [[0, 3], [6, 3]]
    assert of_both.situation.planned.epochs == 3
    assert repr(of_both) == f"Diagnosis({of_both.about!r}: {of_both.headline})"
    of_both.show()
    assert "What to try" in capsys.readouterr().out
    assert "visits · 2 clients" in of_both.save(tmp_path / "page.html").read_text(encoding="utf-8")
    assert of_both.headline in of_both._repr_html_()


@pytest.mark.parametrize("given", ["digits", None, [1, 2], [[1, 2], [3]], [["a", "b"]]])
def test_what_does_not_say_who_holds_what_is_refused(given: object) -> None:
    with pytest.raises(
        InputError, match=r"^diagnose takes who holds what: a Federation, a partition such as unskew"
    ):
        unskew.diagnose(given)  # type: ignore[arg-type]
