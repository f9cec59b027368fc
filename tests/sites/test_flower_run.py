"""A whole run over a real Flower federation on this machine, with TLS and keys: the simulation's bits."""

from __future__ import annotations

import socket
import time
from contextlib import closing

import pytest
import torch

pytest.importorskip("flwr")

import unskew
from local_sites import LocalSites, deal
from unskew.runs.load_data import load_federation
from unskew.runs.spec import Spec
from unskew.sites.flower.carrier import FlowerCarrier
from unskew.sites.flower.processes import start_superlink, start_supernode, stop_child, stop_superlink
from unskew.sites.folders import SiteFolder
from unskew.sites.provision import init_federation

SETTINGS = Spec(
    dataset="digits",
    partition="dirichlet(3.0)",
    clients=4,
    samples_per_client=40,
    rounds=3,
    lr=0.1,
    batch=10,
    model="mlp(hidden=[8])",
    engine="loop",
)
NAMES = ("north", "south", "east")


def free_port() -> int:
    with closing(socket.socket()) as trial:
        trial.bind(("127.0.0.1", 0))
        return trial.getsockname()[1]


@pytest.fixture(scope="module")
def ops(tmp_path_factory):
    """Three sites, one with two clients, each behind a SuperNode of its own; all end with the tests."""
    folder = tmp_path_factory.mktemp("flower")
    sites = LocalSites(folder / "data", deal(load_federation(SETTINGS, None)[0], folder / "npz", NAMES))
    sites.start_all()
    made = init_federation(folder / "ops", list(NAMES), port=free_port())
    start_superlink(made, with_parent=True)
    nodes = [start_supernode(SiteFolder.read(made.hand_out(name)), sites.sockets[name]) for name in NAMES]
    wait_for_all(made)
    yield made
    for node in nodes:
        stop_child(node)
    stop_superlink(made)
    sites.close()


def wait_for_all(made) -> None:
    with FlowerCarrier(made) as carrier:
        ends = time.monotonic() + 120
        while len(carrier.names()) < len(NAMES) and time.monotonic() < ends:
            time.sleep(0.2)


def same_bits(run, method: str) -> None:
    simulated = unskew.run(SETTINGS, method=method, progress=False)
    for name, value in simulated.state.params.items():
        assert torch.equal(value, run.state.params[name]), name


@pytest.mark.parametrize("method", ["fedavg", "scaffold+sem(via=relay)", "ccvr"])
def test_a_run_over_flower_has_the_bits_of_the_simulation(ops, method, tmp_path):
    settings = {"sites": str(ops.path), "out": tmp_path / "run", "progress": False}
    run = unskew.run(SETTINGS, method=method, **settings)
    same_bits(run, method)
    assert run.result["totals"]["bytes_travelled_up"] > run.result["totals"]["bytes_up"]
    assert run.result["rounds_without"] == {}


class Restart:
    """Flower's server ends after the first round, and is started again."""

    def __init__(self, ops):
        self.ops = ops

    def round_ended(self, round) -> None:
        if round.round == 1:
            stop_superlink(self.ops)
            start_superlink(self.ops, with_parent=True)


@pytest.mark.slow
def test_a_superlink_that_is_started_again_costs_only_time(ops):
    run = unskew.run(
        SETTINGS, method="scaffold", sites=str(ops.path), deadline=120.0, watch=[Restart(ops)], progress=False
    )
    same_bits(run, "scaffold")
