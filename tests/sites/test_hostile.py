"""Sites that mean harm, and a coordinator that asks for more than it may: each is refused in a sentence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import unskew
from local_sites import LocalSites, deal
from unskew.core.method import Method
from unskew.data import load
from unskew.runs.load_data import load_federation
from unskew.runs.spec import Spec
from unskew.sites.join import _settings
from unskew.sites.messages import Message
from unskew.sites.officer_log import OfficerLog
from unskew.sites.policy import Policy
from unskew.sites.site import Site

SETTINGS = Spec(
    dataset="digits",
    partition="dirichlet(3.0)",
    clients=3,
    samples_per_client=30,
    rounds=2,
    lr=0.1,
    batch=10,
    model="mlp(hidden=[8])",
    engine="loop",
)


@pytest.fixture(scope="module")
def dealt(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    return deal(load_federation(SETTINGS, None)[0], folder, ("north", "south", "east"))


@pytest.fixture(scope="module")
def two_good(dealt, tmp_path_factory):
    found = LocalSites(tmp_path_factory.mktemp("sites") / "ops", dealt)
    found.start("north")
    found.start("south")
    yield found
    found.close()


def altered(change_values):
    """A site whose trained models are changed before they leave; everything else about the answer is right."""

    def change(site):
        def answer(request: bytes) -> bytes:
            found = Message.decode(site.answer(request))
            if "params" in found.values:
                found = replace(found, values=change_values(dict(found.values)))
            return found.encode()

        return answer

    return change


def with_nan(values):
    return values | {"params": {k: torch.full_like(v, torch.nan) for k, v in values["params"].items()}}


def with_wrong_shapes(values):
    return values | {"params": {k: v[..., :-1] for k, v in values["params"].items()}}


def with_other_names(values):
    return values | {"params": {f"{k}x": v for k, v in values["params"].items()}}


def with_another_type(values):
    return values | {"params": {k: v.double() for k, v in values["params"].items()}}


def with_endless_weight(values):
    heavy = torch.full_like(values["vectors"]["examples"], torch.inf)
    return values | {"vectors": values["vectors"] | {"examples": heavy}}


def with_more_weight(values):
    return values | {"vectors": values["vectors"] | {"examples": values["vectors"]["examples"] * 1000}}


def with_strange_reports(values):
    count = len(values["vectors"]["examples"])
    return values | {"uploads": {"fedavg": {"x": torch.zeros(count)}}}


def with_too_much(values):
    return values | {"padding": torch.zeros(80 * 2**20, dtype=torch.uint8)}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (with_wrong_shapes, "has another shape than the run's model"),
        (with_other_names, "made of other tensors"),
        (with_another_type, "another type"),
        (with_endless_weight, "examples is no finite number"),
        (with_more_weight, "weighs other than the samples that it told of"),
        (with_strange_reports, "a part that the method does not have"),
        (with_too_much, "is the most that was expected"),
    ],
)
def test_a_wrong_answer_is_refused_and_said(two_good, change, said):
    two_good.restart("east", change=altered(change))
    run = unskew.run(SETTINGS, sites=str(two_good.folder), progress=False)
    for line in run.folder.lines:
        assert said in line["sites"]["lost"]["east"]
        assert line["answered"] == 2
    assert all(bool(torch.isfinite(v).all()) for v in run.state.params.values())


def test_nan_is_refused_as_in_a_simulation(two_good):
    two_good.restart("east", change=altered(with_nan))
    run = unskew.run(SETTINGS, sites=str(two_good.folder), progress=False)
    assert [line["rejected"] for line in run.folder.lines] == [["east"], ["east"]]
    assert all(bool(torch.isfinite(v).all()) for v in run.state.params.values())


def test_an_answer_that_was_sent_before_is_refused(two_good):
    def change(site):
        first = []

        def answer(request: bytes) -> bytes:
            found = site.answer(request)
            if Message.decode(request).verb == "visit":
                first.append(found)
                return first[0]
            return found

        return answer

    two_good.restart("east", change=change)
    run = unskew.run(SETTINGS, sites=str(two_good.folder), progress=False)
    assert "lost" not in run.folder.lines[0]["sites"]
    assert "answers another request" in run.folder.lines[1]["sites"]["lost"]["east"]


# --- a coordinator that asks for more, straight to a site


@pytest.fixture
def site(dealt, tmp_path):
    return Site("north", dealt["north"], tmp_path, Policy(max_rounds=5), OfficerLog(tmp_path))


def asked(site, verb, values, session="", number=0):
    request = Message(verb, values, session, number).encode()
    return Message.decode(site.answer(request))


def start(site, counts=False, run="first", **changes):
    settings = _settings(SETTINGS, Method.parse("fedavg"), SETTINGS.model, load("digits"), 0, 3)
    settings = settings.as_dict() | changes
    return asked(site, "start", {"run": run, "counts": counts, "settings": settings})


@pytest.mark.parametrize(
    ("verb", "values", "said"),
    [
        ("counts", {}, "asks site 'north' for label counts"),
        ("give", {}, "'give', which there is not"),
        ("visit", {"run": "never"}, "was not told of the run never"),
        ("visit", {"run": "../../etc"}, "cannot be the name of a run"),
        ("visit", {}, "cannot answer"),
        ("evaluate", {"run": "first"}, "asks site 'north' for accuracies"),
    ],
)
def test_what_the_policy_does_not_allow_is_refused(site, verb, values, said):
    found = asked(site, verb, values)
    assert found.verb == "refused"
    assert said in found.values["reason"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"method": "ccvr"}, "ccvr asks site 'north' for"),
        ({"method": "kld"}, "kld asks site 'north' for"),
        ({"method": "fed_data"}, "fed_data asks site 'north' for"),
        ({"counts": True}, "asks site 'north' for label counts"),
        ({"rounds": 6}, "allows at most 5"),
        ({"model": "os.path:join"}, "which site 'north' does not allow"),
        ({"method": "os.path:join"}, "which site 'north' does not allow"),
        ({"run": "a/b"}, "cannot be the name of a run"),
        ({"first": 3}, "other clients here than this site has"),
        ({"local": {"lr": 1.0, "evil": 1}}, "cannot answer"),
        ({"seed": "0"}, "seed of the run's settings cannot be"),
    ],
)
def test_a_run_that_asks_for_more_is_refused_at_the_site(site, changes, said):
    found = start(site, **changes)
    assert found.verb == "refused"
    assert said in found.values["reason"]
    assert not (site.folder / "runs").exists()


def test_questions_of_other_parts_and_about_other_clients_are_refused(site):
    assert start(site).verb == "answer"
    none = {"t": None, "own": False, "aside": None, "clients": np.zeros(0, np.int64), "told": {}}
    rows = {name: np.full(1, 30) for name in ("sizes", "budget", "weigh", "pooled")}
    roster = rows | {"clients": np.zeros(1, np.int64), "everyone": 3, "mean_weight": 30.0}
    question = {
        "run": "first", "roster": roster, "moment": none, "model": {}, "values": {},
        "clients": np.zeros(1, np.int64), "part": "os:path", "question": "system",
    }  # fmt: skip
    assert "no part of this run's method" in asked(site, "query", question).values["reason"]
    found = asked(site, "query", question | {"part": "fedavg"}).values["reason"]
    assert "has no question 'system'" in found
    found = asked(site, "query", question | {"clients": np.array([2])}).values["reason"]
    assert "do not live at this site" in found


def test_a_request_that_was_sent_before_is_refused(site):
    request = Message("about", {}, "session", 3).encode()
    assert Message.decode(site.answer(request)).verb == "answer"
    again = Message.decode(site.answer(request))
    assert (again.verb, "it was sent before" in again.values["reason"]) == ("refused", True)


def test_what_is_no_message_at_all_is_answered_by_a_sentence_and_logged(site):
    found = Message.decode(site.answer(b"\x80\x04 a pickle"))
    assert found.verb == "refused"
    assert "something that is no request" in (site.folder / "sent.log").read_text()


def test_what_cannot_be_logged_is_not_sent(site, monkeypatch):
    def full(*given):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(site.log, "write", full)
    found = asked(site, "about", {})
    assert found.verb == "failed"
    assert "what it cannot log it does not send" in found.values["reason"]


def test_a_method_is_refused_before_round_0_with_the_part_and_the_site(two_good):
    two_good.restart("east", policy=Policy())
    with pytest.raises(unskew.InputError, match=r"ccvr asks site 'east' for"):
        unskew.run(SETTINGS, method="ccvr", sites=str(two_good.folder), progress=False)
    with pytest.raises(unskew.InputError, match=r"write sem\(via=relay\)"):
        unskew.run(SETTINGS, method="sem", sites=str(two_good.folder), progress=False)
    with pytest.raises(unskew.InputError, match="raw samples"):
        unskew.run(SETTINGS, method="fed_data", sites=str(two_good.folder), progress=False)
