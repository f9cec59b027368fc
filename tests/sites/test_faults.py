"""What goes wrong at sites: the run ends with what it should, nothing is lost, and the log says it."""

from __future__ import annotations

import errno
import os
import signal
import time

import pytest
import torch

import unskew
from local_sites import FORK, LocalSites, deal
from unskew.errors import RunFailed
from unskew.runs.load_data import load_federation
from unskew.runs.spec import Spec
from unskew.sites import kept
from unskew.sites.messages import Message

SETTINGS = Spec(
    dataset="digits",
    partition="dirichlet(3.0)",
    clients=3,
    samples_per_client=40,
    rounds=4,
    lr=0.1,
    batch=10,
    model="mlp(hidden=[8])",
    engine="loop",
    method="scaffold",
    checkpoint=0.0,
)


@pytest.fixture(scope="module")
def dealt(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    return deal(load_federation(SETTINGS, None)[0], folder, ("north", "south", "east"))


@pytest.fixture
def sites(dealt, simulated, tmp_path):  # forked once all is imported that training needs
    found = LocalSites(tmp_path / "ops", dealt)
    for name in ("north", "south"):
        found.start(name)
    yield found
    found.close()


@pytest.fixture(scope="module")
def simulated():
    return unskew.run(SETTINGS, progress=False)


def at_round(t: int, what):
    """A site that does something of its own in round ``t``, once; ``what(site, request)`` gives the answer."""

    def change(site):
        done = []

        def answer(request: bytes) -> bytes:
            asked = Message.decode(request)
            if asked.verb == "visit" and asked.values["moment"]["t"] == t and not done:
                done.append(1)
                return what(site, request)
            return site.answer(request)

        return answer

    return change


def same_model(run, other) -> bool:
    return all(torch.equal(v, other.state.params[k]) for k, v in run.state.params.items())


def lost(run) -> list[dict[str, str]]:
    return [line["sites"].get("lost", {}) for line in run.folder.lines]


def die(site, request):
    site.answer(request)  # it has trained, and kept what it remembers of it; nobody will ever ask for that
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_site_killed_in_a_leg_and_started_again_trains_again(sites, simulated):
    sites.start("east", change=at_round(1, die), again=True)
    run = unskew.run(SETTINGS, sites=str(sites.folder), progress=False)
    assert same_model(run, simulated)
    assert lost(run) == [{}, {}, {}, {}]


def test_a_site_that_is_started_again_still_has_what_others_gave_it(sites):
    sites.start("east", change=at_round(1, die), again=True)
    settings = {"method": "fed_data(0.3)+phase_shift(2)", "progress": False}
    run = unskew.run(SETTINGS, **settings, sites=str(sites.folder))
    assert same_model(run, unskew.run(SETTINGS, **settings))
    assert lost(run) == [{}, {}, {}, {}]


def test_a_site_that_never_comes_back_is_left_out_and_named(sites, simulated):
    sites.start("east", change=at_round(1, die))
    run = unskew.run(SETTINGS, sites=str(sites.folder), deadline=3.0, progress=False)
    first, *later = lost(run)
    assert first == {}
    assert all("east" in each for each in later)
    assert later[1] == {"east": "is still away"}
    assert [line["answered"] for line in run.folder.lines] == [3, 2, 2, 2]


def away_when_judged(site):
    """A site that trains, and is gone whenever it is asked how a model does there."""

    def answer(request: bytes) -> bytes:
        judging = Message.decode(request).verb == "evaluate"
        return b"" if judging else site.answer(request)

    return answer


def test_a_site_that_is_away_when_models_are_judged_has_no_accuracy(sites):
    """It is no client with an accuracy of 0: the mean, the worst and the result are of those that answered."""
    sites.start("east", change=away_when_judged)
    settings = {"method": "fedfa", "evaluate_clients": True, "rounds": 2, "progress": False}
    run = unskew.run(SETTINGS, **settings, sites=str(sites.folder), deadline=3.0)
    for line in run.folder.lines:
        told = line["client_train_accuracy"]
        assert told["clients"] == 2
        assert line["mean_client_train_accuracy"] == told["mean"]
        assert told["min"] > 0


def test_a_slow_site_misses_the_deadline_and_takes_part_again(sites):
    def doze(site, request):
        time.sleep(5)
        return site.answer(request)

    sites.start("east", change=at_round(1, doze))
    run = unskew.run(SETTINGS, sites=str(sites.folder), deadline=3.0, progress=False)
    assert lost(run)[1] == {"east": "gave no answer within 3 s"}
    assert run.folder.lines[1]["answered"] == 2


def test_a_full_disk_at_a_site_costs_it_the_round(sites):
    def full(site, request):
        def no_room(*given):
            raise OSError(errno.ENOSPC, "No space left on device")

        usual, kept.write_file = kept.write_file, no_room
        try:
            return site.answer(request)
        finally:
            kept.write_file = usual

    sites.start("east", change=at_round(1, full))
    run = unskew.run(SETTINGS, sites=str(sites.folder), progress=False)
    assert lost(run) == [{}, {"east": "gave an answer that is refused: its disk is full"}, {}, {}]
    assert [line["answered"] for line in run.folder.lines] == [3, 2, 3, 3]


class KilledAfter:
    """The coordinator's end, in the middle of its run."""

    def __init__(self, rounds: int):
        self.rounds = rounds

    def round_ended(self, round) -> None:
        if round.round == self.rounds:
            os.kill(os.getpid(), signal.SIGKILL)


def test_a_coordinator_that_was_killed_goes_on_where_it_was(sites, simulated, tmp_path):
    sites.start("east")

    def coordinate() -> None:
        settings = {"sites": str(sites.folder), "out": tmp_path / "run", "progress": False}
        unskew.run(SETTINGS, **settings, watch=[KilledAfter(3)])

    process = FORK.Process(target=coordinate)
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    for name in ("north", "south", "east"):  # sites need not have lived on
        sites.restart(name)
    run = unskew.resume(tmp_path / "run", progress=False)
    assert same_model(run, simulated)


def test_a_run_goes_on_without_a_site_that_was_there_when_it_began(sites, tmp_path):
    sites.start("east")
    unskew.run(SETTINGS, sites=str(sites.folder), out=tmp_path / "run", progress=False)
    sites.kill("east")
    run = unskew.resume(tmp_path / "run", rounds=5, deadline=3.0, progress=False)
    assert run.folder.lines[4]["answered"] == 2


def test_a_question_that_a_site_does_not_answer_ends_the_run_in_a_sentence(sites, tmp_path):
    sites.start("east", change=at_round(1, die))
    settings = {"method": "ccvr", "rounds": 2, "deadline": 3.0, "progress": False, "out": tmp_path / "run"}
    with pytest.raises(RunFailed, match=r"ccvr asks all its clients, and site east .*unskew resume"):
        unskew.run(SETTINGS, sites=str(sites.folder), **settings)
    sites.restart("east")
    run = unskew.resume(tmp_path / "run", progress=False)
    assert run.result["status"] == "done"


def test_a_site_that_is_not_there_at_the_start_is_named(sites):
    with pytest.raises(unskew.InputError, match="these sites are not there: east"):
        unskew.run(SETTINGS, sites=str(sites.folder), progress=False)
