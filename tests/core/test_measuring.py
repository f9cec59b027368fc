"""What is measured is counted once, where it happens, and apart from what the method costs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from unskew import run
from unskew.core.measuring import Measuring
from unskew.core.method import Method
from unskew.privacy import Inversion, attack
from unskew.runs.measure import gamma
from unskew.runs.running import resume
from unskew.testing.toy_federation import ready, tiny

SMALL: dict[str, Any] = {
    "dataset": "digits",
    "fraction": 0.2,
    "clients": 6,
    "cohort": 3,
    "rounds": 2,
    "epochs": 1,
    "model": "linear",
    "engine": "loop",
    "progress": False,
}
MODEL = (64 * 10 + 10) * 4
"""Bytes of a linear model of 8 x 8 pixels and ten classes."""

SUMS = (2 + 3 * 10) * 4
"""What a client tells of how a model did: loss, samples, and three counts a class, four bytes a number."""


def measured(ended: Any) -> list[dict[str, Any]]:
    return [line.get("measuring", {}) for line in ended.folder.lines]


def method_bytes(ended: Any) -> list[dict[str, Any]]:
    return [line["bytes"] for line in ended.folder.lines]


def test_a_run_that_measures_nothing_says_nothing_of_it() -> None:
    """No entry in a line, and totals of 0."""
    ended = run(**SMALL)
    assert not any("measuring" in line for line in ended.folder.lines)
    assert "measuring" not in ended.result
    totals = ended.result["totals"]
    assert (totals["bytes_measuring_down"], totals["bytes_measuring_up"]) == (0, 0)


def test_client_accuracies_cost_a_model_down_and_sums_up() -> None:
    """To each of six clients in each judged round; what the method costs stays as it is."""
    ended = run(evaluate_clients=True, **SMALL)
    one = {"down": {"client accuracies": 6 * MODEL}, "up": {"client accuracies": 6 * SUMS}}
    assert measured(ended) == [one, one]
    assert ended.result["totals"]["bytes_measuring_down"] == 2 * 6 * MODEL
    assert ended.result["totals"]["bytes_measuring_up"] == 2 * 6 * SUMS
    assert method_bytes(ended) == method_bytes(run(**SMALL))


def test_gamma_sends_a_model_to_each_client_and_wants_all_samples_in_one_place() -> None:
    """It is measured after the last round, so it stands in the result; a minimal loss takes eight bytes."""
    ended = run(measure=("gamma",), **SMALL)
    assert measured(ended) == [{}, {}]
    sample = 64 * 8 + 4  # bits: a pixel is a byte, and a label one of ten
    pooled = sum(-(-int(size) * sample // 8) for size in ended.job.roster.sizes)
    assert ended.result["measuring"] == {"down": {"gamma": 6 * MODEL}, "up": {"gamma": 6 * 8 + pooled}}
    assert ended.result["totals"]["bytes_measuring_up"] == 6 * 8 + pooled


def test_gamma_leaves_out_who_holds_nothing() -> None:
    """Such a client has no loss to minimise and no weight; the others' are weighed as if it were not there."""
    setup = ready(Method(), tiny((5, 0, 9, 1)))
    found = gamma(setup.run, setup.state.params, steps=20)
    assert (found["clients"], found["of_clients"]) == (3, 3)
    assert 0 < found["mean_local_minimum"] < found["global_minimum"]
    assert found["gamma"] == found["global_minimum"] - found["mean_local_minimum"]


def test_divergence_pools_the_samples_once_and_a_resume_does_not_count_them_again(tmp_path: Path) -> None:
    """Before the first round, so they are in its line; the twin itself is trained where they are."""
    ended = run(measure=("divergence",), out=tmp_path / "run", **SMALL)
    sample = 64 * 8 + 4
    pooled = sum(-(-int(size) * sample // 8) for size in ended.job.roster.sizes)
    assert measured(ended) == [{"down": {}, "up": {"divergence": pooled}}, {}]
    longer = resume(tmp_path / "run", rounds=3, progress=False)
    assert measured(longer) == [{"down": {}, "up": {"divergence": pooled}}, {}, {}]
    already = run(method="centralized", measure=("divergence",), **SMALL)
    assert measured(already) == [{}, {}]


def test_correlation_sends_a_model_only_where_what_is_shared_changes_with_it() -> None:
    """Ten batches a round of features; of averages once, before the first round, and no model goes along."""
    features = run(method="flea(last, share=0.5)", measure=("correlation",), batch=4, **SMALL)
    for told in measured(features):
        assert told["down"]["correlation"] % MODEL == 0
        assert told["down"]["correlation"] >= 10 * MODEL
        assert (
            told["up"]["correlation"] == 10 * 4 * (64 + 64) * 4
        )  # samples, and the feature: a linear model's input
    averages = run(method="fedmix(group=2)", measure=("correlation",), batch=4, **SMALL)
    assert measured(averages) == [{"down": {}, "up": {"correlation": 10 * 4 * (64 + 64) * 4}}, {}]


def test_models_that_clients_keep_come_up_to_be_judged() -> None:
    """The test set is at the server; on their own data they are judged where they are."""
    ended = run(method="local_only", evaluate_clients=True, **SMALL)
    told = measured(ended)[0]
    assert told == {"down": {}, "up": {"clients' own models": 3 * MODEL, "client accuracies": 3 * SUMS}}
    assert ended.result["totals"]["bytes_up"] == 0


def test_validation_at_clients_is_counted_and_a_servers_own_is_free() -> None:
    """Those of them who set samples aside are sent the model."""
    assert measured(run(validation=0.2, validation_of="all", **SMALL)) == [{}, {}]
    ended = run(validation=0.2, validation_of="client", **SMALL)
    held = int((ended.plan.as_dealt.aside["validation"] > 0).sum())
    assert measured(ended)[0] == {"down": {"validation": held * MODEL}, "up": {"validation": held * SUMS}}


def test_tests_of_clients_are_told_once_more_for_the_result() -> None:
    """The result lists the last model client by client: it goes down again, and the result says so."""
    ended = run(client_test=0.3, **SMALL)
    tested = int((ended.plan.as_dealt.aside["test"] > 0).sum())
    once = {"down": {"client accuracies": tested * MODEL}, "up": {"client accuracies": tested * SUMS}}
    assert [*measured(ended), ended.result["measuring"]] == [once, once, once]
    assert ended.result["totals"]["bytes_measuring_down"] == 3 * tested * MODEL


def test_the_laboratory_says_what_its_questions_cost(tmp_path: Path) -> None:
    """A model down and an update up for each client that is watched, and its samples for the judge."""
    run(out=tmp_path / "run", **SMALL)
    quick = Inversion(steps=2, images=2, most=1)
    made = attack(tmp_path / "run", only=["inversion"], inversion=quick, progress=False)
    told = made.record["inversion"]["measuring"]
    assert told["down"] == {"updates": 3 * MODEL}  # two on one sample, and a whole visit
    assert told["up"]["updates"] == 3 * MODEL
    smallest = made.record["inversion"]["whole_visit"]["samples"]
    assert told["up"]["the samples to judge by"] == (2 + smallest) * (64 * 4 + 8)
    seen = attack(tmp_path / "run", only=["correlation"], view=["samples"], progress=False)
    assert set(seen.record["correlation"]["measuring"]["up"]) == {"correlation"}
    assert seen.record["correlation"]["measuring"]["down"] == {}
    json.dumps(seen.record)


def test_an_account_is_added_to_a_line_once() -> None:
    """What a line has is kept, and the account begins anew."""
    account = Measuring()
    account.asked("gamma", 10, 4)
    line = account.added_to({"measuring": {"down": {"gamma": 1}, "up": {"validation": 2}}})
    assert line == {"measuring": {"down": {"gamma": 11}, "up": {"gamma": 4, "validation": 2}}}
    assert account.added_to(line) is line
    assert account.take() == {}


def test_numbers_for_views_are_told_once_a_client_and_round_and_listed_apart() -> None:
    """Two numbers of four bytes to each of three clients by oversample, none by fedaug; ``bytes_down`` has neither."""
    ended = run(method="oversample", **SMALL)
    assert [line["told_for_views"] for line in ended.folder.lines] == [{"oversample": 3 * 2 * 4}] * 2
    assert ended.result["totals"]["bytes_told_for_views"] == 2 * 3 * 2 * 4
    assert ended.result["totals"]["bytes_down"] == 2 * 3 * MODEL
    twice = run(method="oversample+sem(via=others)", **SMALL | {"epochs": 4}).folder.lines[0]
    assert twice["told_for_views"] == {"oversample": twice["asked"] * 2 * 4}
    plain = run(method="fedaug(0.4)", **SMALL)
    assert not any("told_for_views" in line for line in plain.folder.lines)
    assert "bytes_told_for_views" not in plain.result["totals"]
