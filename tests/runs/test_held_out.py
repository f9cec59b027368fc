"""Clients' own test samples, and a validation set that rounds are chosen by."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import unskew
from unskew import InputError, Spec
from unskew.cli.run import _best
from unskew.core.held import OWN_TEST, VALIDATION
from unskew.core.method import Method
from unskew.engines.cpu.fast import FastCPU
from unskew.readings import METRICS
from unskew.runs.chosen import best_line, chosen_on
from unskew.testing import Walled
from unskew.testing.toy_federation import play, ready, tiny

SIZES = [12, 9, 2, 1, 0, 15]
TOY: dict[str, Any] = {
    "dataset": "digits",
    "partition": "dirichlet(0.3)",
    "clients": 8,
    "cohort": 4,
    "lr": 0.1,
    "progress": False,
    "workers": 1,
}


def shown(line: dict[str, Any]) -> dict[str, Any]:
    """What a line says of the samples that were held out."""
    return {k: v for k, v in line.items() if k.startswith("validation_") or "client_test" in k}


@pytest.mark.parametrize("of", ["all", "client"])
@pytest.mark.parametrize("method", ["fedavg", "fed_data(0.5)", "centralized", "local_only", "sem"])
def test_engines_agree_on_what_was_held_out(method, of):
    """The same samples, wherever they lie: in one pool, with workers, or each behind its client's wall."""
    given = {
        "client_test": 0.3,
        "validation": 0.3,
        "validation_of": of,
        "evaluate_clients": True,
        "rounds": 2,
    }
    expected = play(Method.parse(method), sizes=SIZES, **given)
    assert {"validation_accuracy", "mean_client_test_accuracy"} <= shown(expected.lines[-1]).keys()
    for engine in (FastCPU(1), Walled(Method.parse(method), clients=len(SIZES))):
        found = play(Method.parse(method), sizes=SIZES, engine=engine, **given)
        for one, other in zip(expected.lines, found.lines, strict=True):
            assert shown(one).keys() == shown(other).keys()
            for name, value in shown(one).items():
                assert shown(other)[name] == pytest.approx(value, abs=1e-9), name


@pytest.mark.parametrize(
    "method", ["fedavg", "fed_data(0.5)", "central_sharing(0.5)", "centralized", "fedaug(0.5)"]
)
def test_nobody_trains_on_what_was_held_out(method):
    """Neither dealt nor shared nor pooled samples are among them, and every method meets the same."""
    plain, given = (
        ready(Method.parse(m), tiny(sizes=SIZES), client_test=0.3, validation=0.2) for m in ("fedavg", method)
    )
    held = [setup.run.engine.holdings for setup in (plain, given)]
    for purpose in ("test", "validation"):
        aside = [holdings.dealt.aside[purpose].indices for holdings in held]
        assert aside[0].tolist() == aside[1].tolist()
        assert not set(aside[1]) & set(held[1].federation.indices)
    assert plain.job.roster.sizes.sum() == plain.job.roster.counts.sum() < sum(SIZES)


def test_test_accuracy_is_that_of_each_client_on_its_own_samples():
    """Worked out by hand from the model's own predictions."""
    ended = unskew.run(**TOY, rounds=2, client_test=0.25)
    holdings = ended.plan.engine.holdings
    data, tests = holdings.dataset, holdings.dealt.aside["test"]
    right = [
        np.mean(
            ended.predict(data.x[tests.samples(k)]).labels == np.array(data.labels)[data.y[tests.samples(k)]]
        )
        for k in range(8)
        if len(tests.samples(k))
    ]
    line, told = ended.folder.lines[-1], ended.result["client_tests"]
    assert line["mean_client_test_accuracy"] == pytest.approx(np.mean(right))
    assert line["worst_client_test_accuracy"] == pytest.approx(min(right))
    assert line["client_test_accuracy"]["sd"] == pytest.approx(np.std(right, ddof=1))
    assert [one["accuracy"] for one in told["each"]] == pytest.approx(right)
    assert [one["samples"] for one in told["each"]] == holdings.dealt.sizes.tolist()
    assert "mean_client_train_accuracy" not in line


def test_without_tests_of_their_own_clients_are_judged_on_training_samples_and_it_is_said():
    """The name says so; nothing is held out."""
    ended = unskew.run(**TOY, rounds=1, evaluate_clients=True)
    line = ended.folder.lines[-1]
    assert 0 <= line["worst_client_train_accuracy"] <= line["mean_client_train_accuracy"] <= 1
    assert not shown(line)
    assert "client_tests" not in ended.result


def test_a_killed_run_goes_on_with_the_same_samples_held_out(tmp_path):
    """Resumed from round 1, it ends as one that was never stopped."""
    given = TOY | {"client_test": 0.2, "validation": 0.1, "validation_of": "client", "checkpoint": 0.0}
    whole = unskew.run(**given, rounds=3)
    unskew.run(**given, rounds=1, out=tmp_path / "run")
    resumed = unskew.resume(tmp_path / "run", rounds=3, progress=False)
    assert resumed.result["model_sha256"] == whole.result["model_sha256"]
    assert [shown(line) for line in resumed.folder.lines] == [shown(line) for line in whole.folder.lines]
    assert resumed.result["client_tests"] == whole.result["client_tests"]


def test_the_best_round_is_chosen_on_validation_and_told_by_its_test_accuracy():
    """A higher test accuracy in another round does not tempt; of equal rounds the first."""
    values = [(0.5, 0.4), (0.6, 0.9), (0.9, 0.8), (0.7, 0.9)]
    lines = [
        {"round": t, "global_test_accuracy": test, "validation_accuracy": chosen}
        for t, (test, chosen) in enumerate(values, 1)
    ]
    assert best_line(lines)["round"] == 2
    assert chosen_on(lines) == "validation"
    plain = [{k: v for k, v in line.items() if k != "validation_accuracy"} for line in lines]
    assert best_line(plain)["round"] == 3
    assert chosen_on(plain) == "test"


def test_a_result_says_on_what_its_best_was_chosen():
    """With the number that it was chosen by."""
    best = unskew.run(**TOY, rounds=3, validation=0.2).result["best"]
    assert best["chosen_on"] == "validation"
    assert 0 <= best["validation_accuracy"] <= 1
    assert unskew.run(**TOY, rounds=1).result["best"]["chosen_on"] == "test"


@pytest.mark.parametrize("method", ["fedavg", "local_only"])
def test_data_given_in_python_is_held_out_too(method):
    """Of a federation that was dealt already, and of arrays."""
    federation = tiny(sizes=SIZES)
    for data in (federation, (federation.dataset.x, federation.dataset.y)):
        ended = unskew.run(
            dataset=data, method=method, rounds=1, client_test=0.3, validation=0.2, progress=False,
            **({} if data is federation else {"clients": 4}),
        )  # fmt: skip
        assert ended.result["data"]["aside"].keys() == {"test", "validation"}
        assert ended.result["best"]["chosen_on"] == "validation"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"client_test": 0.0},
            "client_test is a share of every client's samples above 0 and below 1, not 0.0",
        ),
        ({"validation": 1.0}, "validation is a share of the training data above 0 and below 1, not 1.0"),
        (
            {"validation_of": "client"},
            "validation_of says whose samples validation holds out; write validation",
        ),
    ],
)
def test_shares_that_cannot_be_are_refused(given, said):
    """Before anything is read."""
    with pytest.raises(InputError, match=said):
        Spec(**given)


def test_verbs_reach_what_was_held_out():
    """The engine's evaluate counts every client's held-out samples, and the server's."""
    setup = ready(Method(), tiny(sizes=SIZES), client_test=0.3, validation=0.2)
    run = setup.run
    sums = run.engine.evaluate(run.job, dict(run.job.net.initial), np.arange(6), OWN_TEST)
    assert sums.count.tolist() == [4, 3, 1, 0, 0, 5]
    assert run.as_dealt.aside["test"].tolist() == [4, 3, 1, 0, 0, 5]
    sums = run.engine.evaluate(run.job, dict(run.job.net.initial), None, VALIDATION)
    assert sums.count.sum() == len(run.engine.holdings.dealt.aside["validation"].indices) > 0


@pytest.fixture
def sites(tmp_path):
    """A table of two sites, north with 12 rows and south with 8; every fourth row is to test on."""
    rng = np.random.default_rng(0)
    rows = ["site,a,b,split,label"]
    for k in range(20):
        site, split = ("north" if k < 12 else "south"), ("test" if k % 4 == 0 else "train")
        rows.append(
            f"{site},{rng.normal():.3f},{k % 2 + rng.normal():.3f},{split},{'no' if k % 2 else 'yes'}"
        )
    (tmp_path / "sites.csv").write_text("\n".join(rows) + "\n")
    return tmp_path / "sites.csv"


def test_a_test_column_says_what_every_client_is_tested_by(sites):
    """Rows 0, 4 and 8 are north's, 12 and 16 south's; the column is no feature, and clients go by their names."""
    ended = unskew.run(
        dataset=str(sites),
        client="site",
        test_column="split",
        evaluate_clients=True,
        rounds=1,
        progress=False,
    )
    each = ended.result["client_tests"]["each"]
    assert [(one["client"], one["tested"], one["samples"]) for one in each] == [
        ("north", 3, 9),
        ("south", 2, 6),
    ]
    assert ended.folder.lines[-1]["worst_client"] in ("north", "south")
    table = ended.job.roster.dataset.table
    assert table.unused["split"] == "says what to test on"
    assert table.used == ("a", "b")


def test_a_second_table_brings_every_client_its_tests(sites, tmp_path):
    """Its client column says whose a row is; a site that does not train is judged with the others alone."""
    (tmp_path / "later.csv").write_text("site,a,b,split,label\nsouth,0,1,train,no\nwest,0,0,train,yes\n")
    ended = unskew.run(
        dataset=f"{sites}(test=later.csv)", client="site", drop=["split"], evaluate_clients=True,
        rounds=1, progress=False,
    )  # fmt: skip
    (one,) = ended.result["client_tests"]["each"]
    assert (one["client"], one["tested"]) == ("south", 1)


def test_a_share_of_every_client_overrules_rows_that_were_held_out_of_all(sites):
    """client_test = 0.25 is a quarter of each site's training rows, whatever the test set is."""
    ended = unskew.run(
        dataset=str(sites), client="site", test_column="split", client_test=0.25, rounds=1, progress=False
    )
    assert [one["tested"] for one in ended.result["client_tests"]["each"]] == [2, 2]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("test_column", "nowhere"), "nowhere"),
        (("test_column", "label"), "says what to test on, so it cannot be the label"),
        (("test_column", "site"), "'north' in line 2; write test or train, 1 or 0, true or false"),
    ],
)
def test_a_test_column_that_cannot_be_is_refused(sites, change, said):
    """With what to write instead."""
    with pytest.raises(InputError, match=said):
        unskew.run(dataset=str(sites), rounds=1, progress=False, **dict([change]))


def test_what_only_the_server_can_tell_is_not_chosen_by_at_clients(sites):
    """AUC ranks single answers, and of clients' samples only counts leave."""
    given = {"dataset": str(sites), "client": "site", "rounds": 1, "progress": False, "metrics": ["auc"]}
    with pytest.raises(InputError, match="cannot choose by auc on validation samples that stay with clients"):
        unskew.run(**given, validation=0.2, validation_of="client")
    assert unskew.run(**given, validation=0.3).result["best"]["chosen_on"] == "validation"


def test_results_of_earlier_versions_are_shown_too():
    """They did not say on what the best round was chosen: it was the test set."""
    assert _best({"accuracy": 0.5, "round": 3}, METRICS["accuracy"]) == (
        "0.5000 at round 3, chosen on the test set"
    )
