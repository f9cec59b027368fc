"""What was simulated is what is deployed: on the same data sites give the simulation's numbers, to the last bit."""

from __future__ import annotations

import os
import time
import warnings

import pytest
import torch

import unskew
from local_sites import LocalSites, deal
from unskew.cli import main
from unskew.runs.load_data import load_federation
from unskew.runs.spec import Spec
from unskew.sites.folders import SiteFolder
from unskew.sites.forget import KeptRuns
from unskew.sites.messages import Message
from unskew.sites.officer_log import OfficerLog
from unskew.sites.policy import Policy
from unskew.sites.provision import init_federation
from unskew.sites.site import Site

METHODS = (
    "fedavg",
    "fedprox",
    "scaffold",
    "fednova",
    "feddyn",
    "moon",
    "fedlc",
    "fedntd",
    "sem(via=relay)",
    "scaffold+sem(via=relay)",
    "phase_shift(2)",
    "fedaug(0.2)",
    "kld+oversample+dynamic",
    "flea(last)",
    "ccvr",
    "fedgen",
    "2p_fedaug",
    "phase_shift(2)+fedaug(0.2)",
    "fedfa",
    "scaffold+topk(0.1)+quantize(8)",
    "phase_shift(3)+scaffold+topk(0.1)",
    "local_only",
    "fed_data",
    "central_sharing(0.1)+fedaug(0.2)",
    "daca(e_th=0.0)",
    "scc",
    "centralized",
)

SIMULATED = Spec(
    dataset="digits",
    partition="dirichlet(3.0)",
    clients=4,
    samples_per_client=60,
    min_samples=20,
    rounds=3,
    lr=0.1,
    batch=10,
    model="mlp(hidden=[16])",
    engine="loop",
)


@pytest.fixture(scope="module")
def sites(tmp_path_factory):
    """Three processes, the first of which has two clients."""
    folder = tmp_path_factory.mktemp("sites")
    federation, _ = load_federation(SIMULATED, None)
    found = LocalSites(folder / "ops", deal(federation, folder / "data", ("north", "south", "east")))
    yield found.start_all()
    found.close()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("precision", ["fp32", "fp64"])
def test_sites_have_the_bits_of_the_simulation(sites, method, precision):
    settings = SIMULATED.as_dict() | {"method": method, "precision": precision}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        simulated = unskew.run(Spec(**settings), progress=False)
        deployed = unskew.run(Spec(**settings), progress=False, sites=str(sites.folder))
    for name, value in simulated.state.params.items():
        assert torch.equal(value, deployed.state.params[name]), name
    for line, other in zip(simulated.folder.lines, deployed.folder.lines, strict=True):
        assert other["global_test_accuracy"] == line["global_test_accuracy"]
        assert other["bytes"] == line["bytes"]
    assert deployed.folder.lines[0]["sites"]["bytes_up"] > 0


def test_sites_see_pixels_as_the_simulation_does(sites):
    """The coordinator's scale is what sites take: its digits from 0 to 1, not at mean 0 and spread 1."""
    simulated = unskew.run(SIMULATED, pixels="unit", progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        deployed = unskew.run(SIMULATED, pixels="unit", progress=False, sites=str(sites.folder))
    assert simulated.model.std.item() == deployed.model.std.item() == 16
    for name, value in simulated.state.params.items():
        assert torch.equal(value, deployed.state.params[name]), name


def test_the_server_keeps_names_of_memories_and_no_memory(sites, tmp_path):
    run = unskew.run(
        SIMULATED, method="scaffold", sites=str(sites.folder), out=tmp_path / "run", progress=False
    )
    rows = run.state.clients.rows["scaffold"]
    assert sorted(rows) == [0, 1, 2, 3]
    assert all(set(row) == {"version"} for row in rows.values())


def test_a_site_forgets_what_no_checkpoint_needs(sites, tmp_path):
    settings = {"method": "scaffold", "rounds": 6, "checkpoint": 0.0, "progress": False}
    run = unskew.run(SIMULATED, sites=str(sites.folder), out=tmp_path / "run", **settings)
    name = run.plan.engine.run
    kept = sorted((sites.folder / "south" / "runs" / name).glob("memories/*/scaffold-*"))
    assert [path.stem for path in kept] == ["scaffold-4000000", "scaffold-5000000", "scaffold-6000000"]


@pytest.mark.parametrize(
    ("method", "part"), [("phase_shift(2)+feddyn", "kept_model"), ("local_only", "own_model")]
)
def test_models_that_clients_keep_stay_at_their_sites(sites, tmp_path, method, part):
    """The server has their versions' names, and a run that goes on finds them there."""
    settings = {"method": method, "rounds": 5, "checkpoint": 0.0, "progress": False}
    simulated = unskew.run(SIMULATED, **settings)
    first = unskew.run(SIMULATED, **settings | {"rounds": 3}, sites=str(sites.folder), out=tmp_path / "run")
    rows = first.state.clients.rows[part]
    assert rows
    assert all(set(row) == {"version"} for row in rows.values())
    assert list((sites.folder / "south" / "runs" / first.plan.engine.run).glob(f"memories/*/{part}-*"))
    run = unskew.resume(tmp_path / "run", rounds=5, progress=False)
    for name, value in simulated.state.params.items():
        assert torch.equal(value, run.state.params[name]), name
    assert run.result["final"] == simulated.result["final"]
    last = (sites.folder / "north" / "sent.log").read_text().splitlines()[-4:]
    assert any("keep" in line for line in last)


def test_runs_that_nobody_asks_about_are_forgotten(tmp_path, capsys):
    """After as many days as the policy says, or by hand; who asks later is told so."""
    federation, _ = load_federation(SIMULATED, None)
    data = deal(federation, tmp_path / "data", ("north",))["north"]
    site = Site("north", data, tmp_path, Policy(keep_days=2), OfficerLog(tmp_path))
    for run, days in (("old", 3), ("new", 1)):
        site.runs.began(run, b"how it began")
        when = time.time() - days * 24 * 3600
        os.utime(tmp_path / "runs" / run / "start.message", (when, when))
    site.forget_old()
    assert list(site.runs.idle()) == ["new"]
    assert (
        "run old: asked to forget what nobody has asked for in 2 days" in (tmp_path / "sent.log").read_text()
    )
    request = Message("visit", {"run": "old"}, "session").encode()
    assert (
        "was not told of the run old, or has forgotten it"
        in Message.decode(site.answer(request)).values["reason"]
    )
    made = init_federation(tmp_path / "ops", ["north"])
    folder = made.hand_out("north")
    KeptRuns(SiteFolder.read(folder).state).began("third", b"how it began")
    assert main(["site", "clean", "north", "--folder", str(folder), "--days", "1"]) == 0
    assert "has forgotten nothing" in capsys.readouterr().out
    assert main(["site", "clean", "north", "--folder", str(folder)]) == 0
    assert "has forgotten 1 run: third" in capsys.readouterr().out
    assert not (folder / "state" / "runs" / "third").exists()


def test_clients_own_accuracies_come_with_consent(sites):
    run = unskew.run(SIMULATED, client_test=0.2, sites=str(sites.folder), progress=False)
    assert run.folder.lines[-1]["mean_client_test_accuracy"] > 0
    assert list(run.job.roster.names) == ["north/ward0", "north/ward1", "south", "east"]
