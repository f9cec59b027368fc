"""A real SuperLink on this machine, with TLS and keys: who is let in, what each is told, and whole runs over it."""

import http.client
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from contextlib import closing

import pytest

pytest.importorskip("flwr")

import torch

import unskew
from local_sites import LocalSites, deal
from unskew import InputError
from unskew.errors import RunFailed
from unskew.runs.load_data import load_federation
from unskew.runs.spec import Spec
from unskew.sites.carrier import Lost
from unskew.sites.certificates import make_key, private_pem
from unskew.sites.data import SiteData
from unskew.sites.flower.carrier import FlowerCarrier
from unskew.sites.flower.process_file import began, find_process
from unskew.sites.flower.processes import (
    check_reach,
    explain_end,
    start_superlink,
    start_supernode,
    stop_child,
    stop_superlink,
)
from unskew.sites.folders import SiteFolder
from unskew.sites.policy import Policy
from unskew.sites.private_files import write_private
from unskew.sites.provision import init_federation
from unskew.sites.serve import Door
from unskew.sites.site import Site
from unskew.sites.survey import AboutSite, gather_counts, survey

SETTINGS = Spec(
    dataset="digits",
    partition="dirichlet(3.0)",
    clients=4,
    samples_per_client=40,
    rounds=2,
    lr=0.1,
    batch=10,
    model="mlp(hidden=[8])",
    engine="loop",
)


def free_port():
    with closing(socket.socket()) as trial:
        trial.bind(("127.0.0.1", 0))
        return trial.getsockname()[1]


@pytest.fixture(scope="module")
def ops(tmp_path_factory):
    """A federation whose SuperLink runs; it ends with the tests, however they end."""
    made = init_federation(
        tmp_path_factory.mktemp("real") / "ops", ["north", "south", "east"], port=free_port()
    )
    with pytest.MonkeyPatch.context() as patch:
        for module in ("processes", "carrier"):  # a busy machine takes long to start Flower's commands
            patch.setattr(f"unskew.sites.flower.{module}.START_SECONDS", 300.0)
        start_superlink(made, with_parent=True)
        yield made
        stop_superlink(made)


@pytest.fixture(scope="module")
def sites(ops, tmp_path_factory):
    """Three sites with digits, of which north has two clients; nobody has started them."""
    folder = tmp_path_factory.mktemp("data")
    found = LocalSites(folder / "sites", deal(load_federation(SETTINGS, None)[0], folder / "npz", ops.sites))
    yield found
    found.close()


@pytest.fixture(scope="module")
def north(ops, sites, tmp_path_factory):
    """A site that is there: a table of six samples, of which label counts may leave."""
    table = tmp_path_factory.mktemp("table") / "visits.csv"
    rows = (f"{30 + k},{'AB'[k % 2]},{'xyz'[k % 3]}\n" for k in range(6))
    table.write_text("age,ward,diagnosis\n" + "".join(rows))
    policy = Policy(allow=frozenset({"label counts"}))
    site = Site("north", SiteData(table, "diagnosis", "ward"), ops.hand_out("north"), policy)
    door = Door(sites.sockets["north"], site.answer)
    threading.Thread(target=door.serve, daemon=True).start()
    node = start_supernode(SiteFolder.read(ops.hand_out("north")), door.path)
    yield door
    stop_child(node)
    door.close()


@pytest.fixture(scope="module")
def carrier(ops, north):
    """The line to the sites, once north is there."""
    with FlowerCarrier(ops) as made:
        ends = time.monotonic() + 120
        while "north" not in made.names() and time.monotonic() < ends:
            time.sleep(0.2)
        yield made


@pytest.fixture(scope="module")
def all_sites(ops, sites, north, carrier):
    """All three sites; behind north's SuperNode is now the one with digits. For the last tests."""
    north.close()
    sites.start_all()
    nodes = [start_supernode(SiteFolder.read(ops.hand_out(s)), sites.sockets[s]) for s in ("south", "east")]
    ends = time.monotonic() + 120
    while len(carrier.names()) < 3 and time.monotonic() < ends:
        time.sleep(0.2)
    yield sites
    for node in nodes:
        stop_child(node)


def test_a_registered_site_is_there_and_answers(carrier):
    """Who it is, what it allows, and the label counts that it agreed to give; the others are not there."""
    assert carrier.names() == ["north"]
    told = survey(carrier, ["north"])["north"]
    assert isinstance(told, AboutSite)
    assert (told.samples, told.clients, told.policy.allow) == (6, ("A", "B"), {"label counts"})
    counts = gather_counts(carrier, ["north"])
    assert counts.clients == ("north/A", "north/B")
    assert counts.classes == ("x", "y", "z")
    assert counts.counts.tolist() == [[1, 1, 1], [1, 1, 1]]


def test_the_studio_shows_who_is_connected_and_what_each_allows(ops, carrier):
    """The Sites screen asks as `unskew federation status` does, while others talk to the sites too."""
    federations = pytest.importorskip("unskew.studio.sites_view").federations
    (told,) = federations(ops.path)
    assert told["running"]
    shown = {site["site"]: site for site in told["sites"]}
    assert (shown["north"]["samples"], shown["north"]["clients"], shown["north"]["allows"]) == (
        6,
        2,
        "label counts",
    )
    assert not shown["south"]["online"]


def test_bytes_that_are_no_message_are_refused_by_the_site(carrier):
    """And the line stays open."""
    answer = carrier.ask({"north": b"\0" * 100}, 60.0)["north"]
    assert b"it is no message of unskew" in answer
    assert isinstance(survey(carrier, ["north"])["north"], AboutSite)


def test_an_answer_of_more_than_was_expected_is_lost(carrier):
    """It is not opened."""
    found = carrier.ask({"north": b"x"}, 60.0, most=10)["north"]
    assert isinstance(found, Lost)
    assert "10 is the most that was expected" in found.reason


def test_a_site_of_no_federation_cannot_be_asked(carrier):
    """Names are looked up, never passed on."""
    with pytest.raises(InputError, match=r"has no site '\.\./north'"):
        carrier.ask({"../north": b""})


def test_a_key_that_nobody_registered_is_refused(ops, tmp_path):
    """With the right authority and the right address."""
    shutil.copytree(ops.hand_out("south"), tmp_path / "south")
    stranger = SiteFolder.read(tmp_path / "south")
    stranger.key.unlink()
    write_private(stranger.key, private_pem(make_key(), openssh=True))
    node = start_supernode(stranger, tmp_path / "nobody")
    try:
        code = node.wait(timeout=120)
    finally:
        stop_child(node)
    assert code != 0
    assert "does not know the key of site 'south'" in explain_end(stranger, code)


def test_a_coordinator_of_another_authority_is_not_trusted(ops, tmp_path):
    """A site that was given another authority's certificate sends nothing."""
    other = init_federation(tmp_path / "other", ["south"], port=ops.port)
    with pytest.raises(RunFailed, match=r"is not the coordinator .* nothing was sent"):
        check_reach(SiteFolder.read(other.hand_out("south")))
    check_reach(SiteFolder.read(ops.hand_out("south")))


def test_nothing_is_answered_without_tls(ops):
    """Plain HTTP gets no answer."""
    with socket.create_connection(("127.0.0.1", ops.port), timeout=60) as plain:
        plain.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        try:
            answer = plain.recv(100)
        except ConnectionResetError:
            answer = b""
    assert not answer.startswith(b"HTTP")


def test_a_request_without_a_signature_is_refused(ops):
    """The interface of sites wants a registered key's signature on every request."""
    context = ssl.create_default_context(cafile=str(ops.ca))
    with closing(http.client.HTTPSConnection("localhost", ops.port, timeout=60, context=context)) as there:
        body = {"Content-Type": "application/x-protobuf", "Content-Length": "0"}
        there.request("POST", "/v1/fleet/pull-messages", headers=body)
        assert there.getresponse().status in (401, 403, 404, 415, 422)


def test_a_second_start_and_a_taken_port_are_told(ops, tmp_path):
    """One sentence each, nothing started."""
    with pytest.raises(InputError, match="runs already"):
        start_superlink(ops)
    other = init_federation(tmp_path / "other", ["south"], port=ops.port)
    with pytest.raises(InputError, match=f"port {ops.port} cannot be taken"):
        start_superlink(other)


def test_a_key_that_others_can_read_is_not_used(ops, tmp_path):
    """Whoever copied the folder carelessly is told."""
    shutil.copytree(ops.hand_out("east"), tmp_path / "east")
    careless = SiteFolder.read(tmp_path / "east")
    careless.key.chmod(0o640)
    with pytest.raises(InputError, match="chmod 600"):
        start_supernode(careless, tmp_path / "nobody")


def test_flowers_files_are_private(ops, north):
    """Logs, state and settings of both sides lie in folders that only their owner enters."""
    for home in (ops.flower, ops.hand_out("north") / "flower"):
        assert home.stat().st_mode & 0o777 == 0o700
    assert (ops.flower / "superlink.log").stat().st_mode & 0o777 == 0o600


def test_a_node_ends_with_the_process_that_started_it(ops, tmp_path):
    """Also where that is killed: nothing is left behind."""
    program = (
        "import sys; from pathlib import Path\n"
        "from unskew.sites.flower.processes import start_supernode\n"
        "from unskew.sites.folders import SiteFolder\n"
        "node = start_supernode(SiteFolder.read(sys.argv[1]), Path(sys.argv[2]))\n"
        "print(node.pid, flush=True); node.wait()"
    )
    shutil.copytree(ops.hand_out("east"), tmp_path / "east", ignore=shutil.ignore_patterns("flower", "state"))
    words = [sys.executable, "-c", program, str(tmp_path / "east"), str(tmp_path / "nobody")]
    parent = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    pid = int(parent.stdout.readline())
    start = began(pid)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    ends = time.monotonic() + 120
    while began(pid) == start and time.monotonic() < ends:
        time.sleep(0.1)
    alive = began(pid) == start
    if alive:
        os.kill(pid, signal.SIGKILL)
    assert not alive


def test_the_superlink_that_was_written_down_is_the_one_that_runs(ops):
    """Its number and its start are known."""
    found = find_process(ops.flower / "superlink.json")
    assert found is not None


# --- a whole run over it


class Restart:
    """Flower's server ends after the first round, and is started again."""

    def __init__(self, ops):
        self.ops = ops

    def round_ended(self, round):
        if round.round == 1:
            stop_superlink(self.ops)
            start_superlink(self.ops, with_parent=True)


def test_a_run_over_flower_has_the_bits_of_the_simulation(ops, all_sites, tmp_path):
    """Over TLS, with keys: models handed over, memories that stay at the sites, questions to all. A server that is
    started again costs only time."""
    method = "scaffold+sem(via=relay)+ccvr"
    settings = {"sites": str(ops.path), "out": tmp_path / "run", "deadline": 600.0, "watch": [Restart(ops)]}
    run = unskew.run(SETTINGS, method=method, **settings, progress=False)
    simulated = unskew.run(SETTINGS, method=method, progress=False)
    for name, value in simulated.state.params.items():
        assert torch.equal(value, run.state.params[name]), name
    assert run.result["totals"]["bytes_travelled_up"] > run.result["totals"]["bytes_up"]
    assert run.result["rounds_without"] == {}
