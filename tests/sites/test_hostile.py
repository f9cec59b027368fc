"""Sites that mean harm, and a coordinator that asks for more than it may: each is refused in a sentence."""

from __future__ import annotations

import secrets
from dataclasses import replace

import numpy as np
import pytest
import torch

import unskew
from local_sites import LocalSites, deal
from unskew.cli import main
from unskew.core.method import Method
from unskew.data import load
from unskew.errors import RunFailed
from unskew.runs.load_data import load_federation
from unskew.runs.spec import Spec
from unskew.sites.data import SiteData
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


def answering(change_tree):
    """A site whose answers to questions are changed before they leave."""

    def change(site):
        def answer(request: bytes) -> bytes:
            found = Message.decode(site.answer(request))
            if "answers" in found.values:
                changed = [change_tree(dict(tree)) for tree in found.values["answers"]]
                found = replace(found, values=dict(found.values) | {"answers": changed})
            return found.encode()

        return answer

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda tree: {k: v * torch.nan if v.is_floating_point() else v for k, v in tree.items()},
            "not finite",
        ),
        (lambda tree: {k: v[..., None] for k, v in tree.items()}, "looks unlike the others'"),
        (lambda tree: {f"{k}x": v for k, v in tree.items()}, "looks unlike the others'"),
        (
            lambda tree: tree | {"more": torch.zeros(90 * 2**20, dtype=torch.uint8)},
            "is the most that was expected",
        ),
        (lambda tree: 3, "no tensor"),
    ],
)
def test_a_wrong_answer_to_a_question_ends_the_run_in_a_sentence(two_good, change, said):
    two_good.restart("east", change=answering(change))
    with pytest.raises(RunFailed, match=f"ccvr asks all its clients, and site east .*{said}"):
        unskew.run(SETTINGS, method="ccvr", rounds=1, sites=str(two_good.folder), progress=False)


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


def asked(site, verb, values):
    request = Message(verb, values, secrets.token_hex(8)).encode()
    return Message.decode(site.answer(request))


def start(site, counts=False, run="first", data=None, **changes):
    dataset = data or load("digits")
    settings = _settings(SETTINGS, Method.parse("fedavg"), SETTINGS.model, dataset, 0, 3)
    settings = settings.as_dict() | changes
    return asked(site, "start", {"run": run, "counts": counts, "settings": settings})


@pytest.mark.parametrize(
    ("verb", "values", "said"),
    [
        ("counts", {}, "asks site 'north' for label counts"),
        ("hand_over", {}, "'hand_over', which there is not"),
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
        ({"first": 3}, "belong to more clients than the run counts here"),
        ({"everyone": 10**12}, "a run has at most"),
        ({"local": {"lr": 1.0, "evil": 1}}, "cannot answer"),
        ({"seed": "0"}, "seed of the run's settings cannot be"),
    ],
)
def test_a_run_that_asks_for_more_is_refused_at_the_site(site, changes, said):
    found = start(site, **changes)
    assert found.verb == "refused"
    assert said in found.values["reason"]
    assert not (site.folder / "runs").exists()


NONE = {"t": None, "own": False, "aside": None, "clients": np.zeros(0, np.int64), "told": {}}
ROSTER = {name: np.full(1, 30) for name in ("sizes", "budget", "weigh", "pooled")} | {
    "clients": np.zeros(1, np.int64), "everyone": 3, "mean_weight": 30.0,
}  # fmt: skip
QUESTION = {
    "run": "first", "roster": ROSTER, "moment": NONE, "model": {}, "values": {},
    "clients": np.zeros(1, np.int64), "part": "os:path", "question": "system",
}  # fmt: skip


def test_questions_of_other_parts_and_about_other_clients_are_refused(site):
    site.policy = Policy(allow=frozenset(["averages"]))
    assert start(site, method="fedmix").verb == "answer"
    assert "no part of this run's method" in asked(site, "query", QUESTION).values["reason"]
    found = asked(site, "query", QUESTION | {"part": "fedmix"}).values["reason"]
    assert "has no question 'system'" in found
    found = asked(site, "query", QUESTION | {"clients": np.array([2])}).values["reason"]
    assert "do not live at this site" in found


@pytest.mark.parametrize(
    ("method", "question", "values"),
    [
        ("balanced", "label_counts", {}),
        ("fedmix(mix=0)", "averages", {"seed": 0}),
        ("fedbr(mu=0, lam=0)", "averages", {"groups": np.arange(10)[None]}),
    ],
)
def test_a_part_that_discloses_nothing_is_no_way_around_the_policy(site, method, question, values):
    assert start(site, method=method).verb == "answer"
    part = method.partition("(")[0]
    found = asked(site, "query", QUESTION | {"part": part, "question": question, "values": values})
    assert found.verb == "refused"
    assert f"{part} of this run discloses nothing" in found.values["reason"]


def test_averages_are_of_as_many_samples_as_was_agreed_on(site):
    site.policy = Policy(allow=frozenset(["averages"]))
    assert start(site, method="fedbr").verb == "answer"
    question = QUESTION | {"part": "fedbr", "question": "averages"}
    assert asked(site, "query", question | {"values": {"groups": np.arange(10)[None]}}).verb == "answer"
    for groups in (np.zeros((1, 1), np.int64), np.zeros((1, 10), np.int64)):
        found = asked(site, "query", question | {"values": {"groups": groups}})
        assert "a mean of other than 10 samples" in found.values["reason"]


def test_raw_samples_leave_with_consent_alone(site):
    """A run that sends them is refused, and one that does not is given none, whatever is asked of it."""
    assert "fed_data asks site 'north' for raw samples" in start(site, method="fed_data").values["reason"]
    assert start(site).verb == "answer"
    asking = {"run": "first", "roster": ROSTER, "clients": np.zeros(1, np.int64), "counts": None}
    found = asked(site, "give", asking | {"part": "fedavg"})
    assert (found.verb, "sends no samples" in found.values["reason"]) == ("refused", True)
    site.policy = Policy(allow=frozenset(["raw samples"]))
    assert start(site, method="fed_data", run="second").verb == "answer"
    found = asked(site, "give", asking | {"run": "second", "part": "fed_data", "counts": np.array([4])})
    assert len(found.values["given"][0]["y"]) == 4
    assert "sent 4 raw samples" in (site.folder / "sent.log").read_text().splitlines()[-1]


def leg_of(site, per_class=None):
    """A request to train client 0, as the coordinator writes it."""
    leg = {
        "clients": np.zeros(1, np.int64), "start": site._run[1].job.net.initial, "stacked": False, "anchor": None,
        "epochs": 1.0, "done": 0.0, "settings": {"batch": None, "lr": None, "per_class": per_class},
        "carry": None, "closing": True, "upload": True, "anchored": False, "own": False, "keeps": False, "blend": None,
    }  # fmt: skip
    moment = NONE | {"t": 0, "own": True}
    told = {"version": 1_000_000, "decay": 1.0, "leg": leg, "shared": {}, "moment": moment, "memory": {}}
    return told | {"run": "first", "roster": ROSTER, "commit": None}


def test_training_on_chosen_classes_counts_labels_and_needs_that_consent(site):
    assert start(site).verb == "answer"
    one_class = np.eye(1, 10, dtype=np.int64) * 1000
    found = asked(site, "visit", leg_of(site, one_class))
    assert found.verb == "refused"
    assert "asks site 'north' for label counts" in found.values["reason"]


def test_losses_leave_with_consent_to_accuracies_alone(site):
    assert start(site).verb == "answer"
    assert torch.isnan(asked(site, "visit", leg_of(site)).values["vectors"]["loss"]).all()
    site.policy = Policy(allow=frozenset(["accuracies"]))
    assert torch.isfinite(asked(site, "visit", leg_of(site)).values["vectors"]["loss"]).all()
    lines = (site.folder / "sent.log").read_text().splitlines()
    assert "losses" not in lines[1]
    assert "sent trained models, and their losses" in lines[2]


# --- what is wrong with samples is said where they are


def table_site(folder, label="illness"):
    rows = "".join(f"{k % 7},{name},{'ab'[k % 2]}\n" for k, name in enumerate(["1", "2", "Ada Lovelace"] * 8))
    (folder / "visits.csv").write_text("age,patient,illness\n" + rows)
    return Site("north", SiteData(folder / "visits.csv", label), folder, Policy(), OfficerLog(folder))


@pytest.mark.parametrize(
    ("columns", "secret"),
    [
        ("age,patient,illness\n1,2,a\n3,4,b\n", "Lovelace"),  # names asked for as numbers
        ("age,illness\n1,a\n3,c\n", "'b'"),  # a class that the coordinator does not know
        ("age,weight,illness\n1,2,a\n3,4,b\n", "patient"),  # a column that the site does not have
    ],
)
def test_a_refusal_quotes_no_sample(tmp_path, columns, secret):
    (tmp_path / "own.csv").write_text(columns * 1 + columns.partition("\n")[2] * 9)
    own = load(str(tmp_path / "own.csv"), label="illness", test=0.5)
    site = table_site(tmp_path)
    found = start(site, data=own)
    assert found.verb == "refused"
    assert found.values["reason"].startswith("the samples of site 'north' ")
    assert secret not in found.values["reason"]
    assert str(tmp_path) not in found.values["reason"]
    assert secret in (tmp_path / "sent.log").read_text()  # its own people see it


def test_a_run_cannot_make_a_label_of_another_column(tmp_path):
    (tmp_path / "own.csv").write_text("age,patient,illness\n" + "1,1,a\n3,2,b\n" * 10)
    own = load(str(tmp_path / "own.csv"), label="patient", test=0.5)
    found = start(table_site(tmp_path), data=own)
    assert "have another label than the run's, 'patient'" in found.values["reason"]


def test_a_request_of_no_session_is_refused(site):
    found = Message.decode(site.answer(Message("about").encode()))
    assert "it is of no session" in found.values["reason"]


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


# --- settings that mean nothing, or nothing good, at real sites


def test_settings_that_deal_samples_are_refused_beside_sites(two_good, tmp_path, capsys):
    """A flag of this run is refused; an experiment file that a simulation had runs unchanged, with a warning."""
    with pytest.raises(unskew.InputError, match="clients deals the samples of a simulation"):
        unskew.run(SETTINGS, clients=20, sites=str(two_good.folder), progress=False)
    words = ["run", "--sites", str(two_good.folder), "--out", str(tmp_path / "run"), "--dataset", "digits"]
    assert main([*words, "--fraction", "0.5"]) == 2
    assert "fraction deals the samples of a simulation" in capsys.readouterr().err
    two_good.restart("east")
    with pytest.warns(
        UserWarning, match="partition, clients, samples_per_client of the simulation deal nothing"
    ):
        unskew.run(SETTINGS, rounds=1, sites=str(two_good.folder), progress=False)


def test_the_coordinators_own_data_must_be_named(two_good, tmp_path, capsys):
    """No data set that nobody named is taken for it."""
    assert (
        main(["run", "--sites", str(two_good.folder), "--out", str(tmp_path / "run"), "--model", "mlp"]) == 2
    )
    assert "name them, such as dataset = coordinator.csv" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
