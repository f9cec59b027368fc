"""A run over a cluster of three nodes ends in the bits of the fast engine, whoever is lost on the way; and a sweep over
it is the runs of one here, in the same folders, wherever a node writes them (one cluster serves both: it takes long to
start)."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from processes import descendants, words_of
from ray_cluster import Cluster, three_nodes
from unskew.cli.settings import setting_flags
from unskew.core.engine import Engine
from unskew.core.types import leaves
from unskew.engines.cluster import connect
from unskew.engines.cluster.actors import ClusterCrew
from unskew.engines.cluster.engine import OverRay
from unskew.engines.cluster.near import Neighbour
from unskew.engines.cpu.fast import FastCPU
from unskew.engines.gpu.fast import FastGPU
from unskew.machine.threads import single_threaded
from unskew.runs.folder import RunFolder, read_folder
from unskew.runs.on_ray import OnRay
from unskew.runs.rounds import play_rounds
from unskew.runs.running import run
from unskew.runs.setup import set_up
from unskew.runs.spec import Spec
from unskew.runs.sweep import Cell, sweep

METHODS = [
    "fedavg",
    "scaffold+sem",
    "fedprox(mu=0.1)+phase_shift(2)",
    "feddyn+fednova",
    "moon+fedavgm",
    "flea(last, share=0.5)",
    "fedgen(start=1, steps=3, batch=8)",
    "fedmix+fedadam",
    "fedaug(0.3)+topk(0.2)",
    "daca+quantize(8)",
    "kld+dynamic",
    "fedrs+oversample+ccvr",
]
"""Every slot, clients that remember, questions, raw samples that move."""


class Kept(OverRay):
    """An engine whose actors stay for the next run: starting them takes longer than these runs."""

    def close(self) -> None:
        pass


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Three nodes, of which the last says that it has a GPU, until tests pull their plugs: after those there are as few
    as a test needs, since a node costs a second and an actor of it two."""
    with three_nodes(2, forked=True) as found:
        found.add(num_gpus=1)
        yield found


@pytest.fixture(scope="module")
def engine(cluster: Cluster) -> Iterator[OverRay]:
    """One whose actors take the three nodes for other machines than the server's, as they will be elsewhere."""
    made = Kept(device="cpu")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("unskew.engines.cluster.actors.neighbour", lambda process, machine: None)
        play(made)
        while made.crew is not None and any(a.starting for a in made.crew.actors):  # type: ignore[attr-defined]
            play(made)
    yield made
    OverRay.close(made)


def play(engine: Engine, method: str = "fedavg", **more: Any) -> tuple[Any, Any]:
    """(everything that a resume would read, the log) of a small run."""
    settings = {"clients": 12, "cohort": 5, "rounds": 2, "model": "mlp", "epochs": 2, "fraction": 0.4}
    spec = Spec.of({"dataset": "digits", "method": method, "partition": "dirichlet(2)", **settings, **more})
    with single_threaded():
        setup = set_up(spec, engine=engine)
        folder = RunFolder(None)
        done = play_rounds(spec, setup, folder, setup.state, False, ())
    log = [{k: v for k, v in line.items() if k not in ("wall_s", "seconds")} for line in folder.lines]
    return done.state, log


def assert_same(one: Any, other: Any) -> None:
    """Two runs end in the same bits: model, server's and clients' memories, log."""
    (a, log_a), (b, log_b) = one, other
    for mine, theirs in (
        (a.params, b.params),
        (a.server, b.server),
        (
            {p: {str(c): a.clients.get(p, c, {}) for c in rows} for p, rows in a.clients.rows.items()},
            {p: {str(c): b.clients.get(p, c, {}) for c in rows} for p, rows in b.clients.rows.items()},
        ),
    ):
        left, right = leaves(mine), leaves(theirs)
        assert len(left) == len(right)
        assert all(torch.equal(x, y) for x, y in zip(left, right, strict=True))
    assert log_a == log_b


def test_cells_of_a_sweep_run_on_the_cluster_as_here(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are skipped when done, fail alone, and are fetched as they run from nodes that do not see the folder. Before
    any engine has actors there, which would hold the cores."""
    settings: dict[str, Any] = {"dataset": "digits", "clients": 10, "rounds": 2}
    ray = connect.load_ray()
    free: list[float] = []

    def tell(cells: list[Cell]) -> None:
        free.append(ray.available_resources().get("GPU", 0.0))

    near: dict[str, Any] = {"on": "ray", "device": "cpu", **settings}
    done = sweep({"cohort": [10, 50]}, tmp_path / "a", tell=tell, **near)
    assert [cell.status for cell in done] == ["done", "failed"]
    assert done[1].error.startswith("error: ")
    assert [p.name for p in (tmp_path / "a").iterdir()] == ["cohort=10"]
    assert set(free) == {1.0}  # who may not use a GPU is given none
    again = sweep({"cohort": [10]}, tmp_path / "a", **near)
    assert [cell.status for cell in again] == ["done"]
    begin = OnRay.__init__

    def unseen(self: OnRay, *given: Any) -> None:
        begin(self, *given)
        self.mark.unlink()

    monkeypatch.setattr(OnRay, "__init__", unseen)
    far: dict[str, Any] = {"on": "ray", **settings, "rounds": 200}
    seen: list[int] = []

    def interrupt(cells: list[Cell]) -> None:
        tell(cells)
        seen.extend(cell.played for cell in cells if cell.status == "running")
        if seen and seen[-1]:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):  # once it is seen that rounds were played there
        sweep({"cohort": [10]}, tmp_path / "b", tell=interrupt, **far)
    assert 0.0 in free  # it had the GPU that there is
    saved = len((tmp_path / "b" / "cohort=10" / "rounds.jsonl").read_text().splitlines())
    assert saved >= seen[-1] > 0
    cells = sweep({"cohort": [10]}, tmp_path / "b", **far)
    assert cells[0].status == "done"
    assert cells[0].known == saved  # it went on from there
    for cell in (done[0], cells[0]):
        here = run(progress=False, **settings | {"rounds": cell.spec.rounds})
        assert cell.result["model_sha256"] == here.result["model_sha256"]


@pytest.mark.parametrize("method", METHODS)
def test_three_nodes_end_in_the_bits_of_the_fast_engine(method: str, engine: OverRay) -> None:
    """Twelve methods, in every slot of a round."""
    assert_same(play(engine, method), play(FastCPU(1), method))


def test_convolutions_and_recorded_steps_keep_their_bits(engine: OverRay) -> None:
    """Layouts travel, and a step recorded in an actor is the one recorded here."""
    more: dict[str, Any] = {"model": "small_cnn", "rounds": 1, "epochs": 1}
    assert_same(play(engine, **more), play(FastCPU(1), **more))
    engine.record = True
    try:
        engine.told.clear()
        assert_same(play(engine, "flea(last)"), play(FastCPU(1, record=True), "flea(last)"))
    finally:
        engine.record = False
        engine.told.clear()


def test_sums_alone_keep_their_bits(engine: OverRay, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where only a cohort's sum is kept, actors add the same blocks up."""
    monkeypatch.setattr("unskew.engines.cpu.summed.LARGEST_STACK", 0)
    assert_same(play(engine, "scaffold"), play(FastCPU(1), "scaffold"))


def test_where_ray_sees_a_gpu_an_actor_there_runs_the_gpu_engine(
    cluster: Cluster, engine: OverRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And CPUs train nothing. The node only says that it has a GPU: its engine runs on a CPU, as in its own tests. That
    another run has an actor on the node's only core keeps nobody from its GPU."""
    *_, node = cluster.nodes
    monkeypatch.setattr(OverRay, "gpu", "cpu")
    inside = Kept()
    try:
        found = play(inside, "scaffold+sem")
        assert inside.on_gpus
        assert inside.crew is not None
        assert [actor.node for actor in inside.crew.actors] == [node]  # type: ignore[attr-defined]
    finally:
        OverRay.close(inside)
    expected = play(FastGPU("cpu"), "scaffold+sem")
    for name, value in expected[0].params.items():
        assert torch.allclose(found[0].params[name], value, rtol=1e-5, atol=1e-7)


def test_a_node_removed_twice_in_a_round_changes_nothing(cluster: Cluster, engine: OverRay) -> None:
    """What a lost node had is given to others, and a node that comes is given work."""
    expected = play(FastCPU(1), "scaffold", clients=40, cohort=40, rounds=1)
    with remove_busy_nodes(cluster, 2):
        assert_same(play(engine, "scaffold", clients=40, cohort=40, rounds=1), expected)


@contextlib.contextmanager
def remove_busy_nodes(cluster: Cluster, count: int) -> Iterator[None]:
    """Pull so many plugs, each while its node has work."""
    give, removed = ClusterCrew._give, []

    def give_and_remove(self: ClusterCrew, waiting: Any, work: Any) -> None:
        give(self, waiting, work)
        if len(removed) < count and len(work) > 3:
            busy = [a for a in self.actors if a.doing and a.node in cluster.nodes]
            if busy:
                removed.append(busy[0].node)
                cluster.remove(busy[0].node)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ClusterCrew, "_give", give_and_remove)
        yield
    assert len(set(removed)) == count


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_actors_on_the_servers_machine_write_on_its_boards(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing that was trained travels; one whose node is lost is ended, so that it writes no more."""
    cluster.fill(2)
    near, ended, travelled = Kept(workers=2), [], []
    end, write = Neighbour.end, ClusterCrew._write
    monkeypatch.setattr(Neighbour, "end", lambda self: (ended.append(self), end(self)))
    monkeypatch.setattr(
        ClusterCrew, "_write", lambda self, piece, rows: (travelled.append(rows), write(self, piece, rows))
    )
    try:
        assert_same(play(near, "scaffold+sem"), play(FastCPU(1), "scaffold+sem"))
        with remove_busy_nodes(cluster, 1):
            assert_same(
                play(near, "moon", clients=40, cohort=40), play(FastCPU(1), "moon", clients=40, cohort=40)
            )
        monkeypatch.setattr("unskew.engines.cpu.summed.LARGEST_STACK", 0)
        assert_same(play(near, "scaffold"), play(FastCPU(1), "scaffold"))
    finally:
        OverRay.close(near)
    assert ended
    assert not any(rows is not None for rows in travelled)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_two_runs_share_a_cluster_and_one_that_is_killed_goes_on_with_more_nodes(
    cluster: Cluster, engine: OverRay, tmp_path: Path
) -> None:
    """Ours ends while another process plays; kill -9 leaves no actor of the other, which can be resumed."""
    until = time.monotonic() + 300
    expected = play(FastCPU(1))
    cluster.fill(2)
    assert_same(play(engine), expected)
    while len(ours := actors()) != 1 + len(cluster.nodes):  # one a node
        assert time.monotonic() < until
        time.sleep(0.1)
    spec = Spec.of({"dataset": "digits", "clients": 12, "cohort": 5, "rounds": 100_000, "checkpoint": 0.0})
    flags = [*setting_flags(spec.changed()), "--engine", "ray", "--ray", "auto"]
    other = subprocess.Popen(
        [sys.executable, "-m", "unskew", "run", "--out", str(tmp_path / "run"), *flags],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"RAY_ADDRESS": cluster.address},  # which of this machine's clusters it is part of
    )
    try:
        while played(tmp_path / "run") < 2:
            assert other.poll() is None
            assert time.monotonic() < until
            time.sleep(0.05)
        before = played(tmp_path / "run")
        assert_same(play(engine), expected)
        while played(tmp_path / "run") == before:
            assert time.monotonic() < until
            time.sleep(0.01)
        while len(actors()) != 2 * len(ours):  # a run begins with whichever actors are there by then
            assert time.monotonic() < until
            time.sleep(0.05)
    finally:
        other.kill()
        other.wait()
    while actors() != ours:
        assert time.monotonic() < until
        time.sleep(0.1)
    cluster.add()
    rounds = played(tmp_path / "run") + 10
    words = ["resume", str(tmp_path / "run"), "--rounds", str(rounds), "--ray", cluster.address]
    other = subprocess.Popen([sys.executable, "-m", "unskew", *words], stdout=subprocess.DEVNULL)
    try:
        while actors() <= ours:  # nobody else is there before it has loaded what it needs
            assert other.poll() is None
            assert time.monotonic() < until
            time.sleep(0.05)
        while other.poll() is None:  # two at once, and both end
            assert time.monotonic() < until
            assert_same(play(engine), expected)
        assert other.returncode == 0
    finally:
        other.kill()
        other.wait()
    found = read_folder(tmp_path / "run")[0]
    whole = run(progress=False, engine="fast", workers=1, **(spec.changed() | {"rounds": rounds}))
    assert found.result["model_sha256"] == whole.result["model_sha256"]
    while len(actors()) > 1 + len(cluster.nodes):  # ours, the one on the new node too
        assert time.monotonic() < until
        time.sleep(0.1)


def actors() -> set[int]:
    """The processes of actors on the nodes of this process's cluster."""
    return {pid for pid in descendants(os.getpid()) if words_of(pid).startswith("ray::Hand")}


def played(run: Path) -> int:
    log = run / "rounds.jsonl"
    return log.read_bytes().count(b"\n") if log.exists() else 0
