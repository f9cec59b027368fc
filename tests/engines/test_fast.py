"""The fast engine on a CPU: it agrees with the loop, and neither workers nor their deaths change a bit."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from unskew.core.faults import Faults
from unskew.core.holdings import Holdings
from unskew.core.method import Method
from unskew.core.net import Net
from unskew.core.roster import Roster
from unskew.core.round import play_round
from unskew.core.slots import Local
from unskew.core.state import State, initial_state
from unskew.data import Dataset, Federation
from unskew.engines import Engine, Job, Loop, RunPlan
from unskew.engines.cpu.fast import FastCPU
from unskew.engines.cpu.workers import Crew
from unskew.engines.gpu.fast import FastGPU, batch_sizes
from unskew.errors import InputError, RunFailed
from unskew.machine.threads import single_threaded
from unskew.models import build
from unskew.parts import PARTS
from unskew.parts.objective.fedprox import FedProx
from unskew.parts.select.uniform import Uniform
from unskew.runs.choose_engine import device_of
from unskew.runs.result import params_hash
from unskew.runs.spec import Spec
from unskew.testing.toy_federation import normed, play, tiny

SIZES = [7, 13, 1, 9, 6, 5, 11, 3]
METHODS = [
    m
    for m in ("fedavg", "scaffold", "scaffold+sem", "fedprox(mu=0.1)+phase_shift(2)")
    if all(p.split("(")[0] in PARTS for p in m.split("+"))
]


def made(shape: tuple[int, ...]) -> Federation:
    rng = np.random.default_rng(1)
    n = sum(SIZES)
    x, y = rng.integers(0, 255, (n, *shape), dtype=np.uint8), rng.integers(0, 4, n)
    scale = {"mean": np.full(shape[0], 120, np.float32), "std": np.full(shape[0], 60, np.float32)}
    return Federation(
        Dataset("made", x, y, x[:9], y[:9], tuple("abcd"), **scale), np.arange(n), np.cumsum([0, *SIZES])
    )


def run_of(
    method: Method,
    federation: Federation,
    net: Net,
    local: Local,
    engine: Engine,
    rounds: int,
    cohort: int,
    dtype: torch.dtype = torch.float32,
    **more: Any,
) -> RunPlan:
    """A run whose engine holds a federation's samples."""
    engine.hold(Holdings(federation))
    return RunPlan(
        Job(method, Roster.of(federation), net, local, 0, dtype=dtype), engine, rounds, cohort, **more
    )


def played(
    engine: Engine, model: Any, method: str, dtype: torch.dtype, rounds: int, **local: object
) -> State:
    side = (
        24 if model in ("resnet9", "thesis_mnist", "moon_cnn", "lenet") else 12
    )  # on less nothing would be left to see
    shape = (1, side, side)
    net = Net(build(model, shape, 4, 0, dtype))
    parsed = Method.parse(method)
    settings = Local(**({"batch": 4, "lr": 0.05, "epochs": 1.5} | local))
    run = run_of(parsed, made(shape), net, settings, engine, rounds, 5, dtype=dtype, faults=Faults(drop=0.2))
    state = initial_state(dict(net.initial), {p.name: p.init_server(net) for p in parsed.parts}, 0)
    for _ in range(rounds):
        state, _ = play_round(run, state)
    engine.close()
    return state


@cache
def by_the_loop(
    model: Any, method: str, dtype: torch.dtype, rounds: int, *local: tuple[str, object]
) -> State:
    """What the loop engine ends in, played once for all engines that are held against it."""
    return played(Loop(), model, method, dtype, rounds, **dict(local))


def apart(a: State, b: State) -> float:
    return max(float((a.params[k] - b.params[k]).abs().max()) for k in a.params)


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """As a run has it: two threads in one product would be another order of additions."""
    with single_threaded():
        yield


@pytest.fixture(scope="module")
def crew() -> Iterator[FastCPU]:
    """Two real worker processes, started once."""
    engine = FastCPU(workers=2)
    close, engine.close = engine.close, lambda: None  # type: ignore[method-assign]
    yield engine
    close()


ENGINES = {
    "inline": lambda: FastCPU(workers=1),
    "recorded": lambda: FastCPU(workers=1, record=True),
    "stage": lambda: FastGPU("cpu", block=3, stack=True),
    "side by side": lambda: FastGPU("cpu", block=3, stack=False),
}
MODELS = ["mlp(hidden=[9])", "small_cnn", "thesis_fashion", "resnet9"]
OTHERS = [
    "linear",
    "mcmahan_cnn",
    "sem_cnn",
    "daca_cnn",
    "seol_kim_cnn",
    "moon_cnn",
    "lenet",
    "thesis_mnist",
    "thesis_cifar",
]


@pytest.mark.parametrize(
    ("engine", "model"),
    [
        (e, m) for e in ENGINES for m in MODELS if e != "recorded" or m.startswith("mlp")
    ],  # only dense ones are
)
def test_it_agrees_with_the_loop_in_float64(engine: str, model: str) -> None:
    """Unequal clients, partial batches, lost clients, batch norm and dropout: 1e-9 after three rounds.

    Half an epoch of ResNet9, whose step takes long: what rounds hand on to one another small models show.
    """
    rounds, local = (1, {"epochs": 0.5}) if model == "resnet9" else (3, {})
    expected = by_the_loop(model, "fedavg", torch.float64, rounds, *local.items())
    found = played(ENGINES[engine](), model, "fedavg", torch.float64, rounds, **local)
    assert apart(expected, found) < 1e-9


@pytest.mark.parametrize("engine", ["inline", "stage", "side by side"])
@pytest.mark.parametrize("model", OTHERS)
def test_every_other_model_agrees(engine: str, model: str) -> None:
    """FLea's three are in test_modalities; one round on small images is enough for the layers to have met."""
    expected = by_the_loop(model, "fedavg", torch.float64, 1)
    assert apart(expected, played(ENGINES[engine](), model, "fedavg", torch.float64, 1)) < 1e-9


class Viewing(nn.Module):
    """A model as users write them: a view after pooling, and perhaps a branch, which vmap cannot run."""

    def __init__(self, branches: bool):
        super().__init__()
        self.branches = branches
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.norm = nn.GroupNorm(2, 4)
        self.out = nn.Linear(4 * 36, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.max_pool2d(torch.relu(self.norm(self.conv(x))), 2)
        if self.branches and x.sum() < 0:
            x = -x
        return self.out(x.view(x.shape[0], -1))


@pytest.mark.parametrize("branches", [False, True])
def test_a_model_that_vmap_cannot_run_runs_side_by_side(branches: bool) -> None:
    """Stacked where it can be, and the loop's numbers either way."""
    found = []
    for engine in (
        Loop(),
        FastGPU("cpu", block=3, stack=True),
        FastCPU(workers=1),
        FastCPU(workers=1, block=3),
    ):
        torch.manual_seed(3)
        net = Net(build(Viewing(branches).double(), (1, 12, 12), 4, 0, torch.float64))
        run = run_of(
            Method.parse("fedavg"),
            made((1, 12, 12)),
            net,
            Local(batch=4),
            engine,
            2,
            5,
            dtype=torch.float64,
        )
        state = initial_state(
            dict(net.initial), {p.name: p.init_server(net) for p in run.job.method.parts}, 0
        )
        for _ in range(2):
            state, _ = play_round(run, state)
        found.append(state)
        if isinstance(engine, FastGPU):
            assert ("side by side" in engine.choice(run)) is branches
    assert max(apart(found[0], other) for other in found[1:]) < 1e-9


def dense(shape: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(144, 7), nn.BatchNorm1d(7), nn.ReLU(), nn.Linear(7, classes))


@pytest.mark.parametrize("model", [dense, "small_cnn", "thesis_fashion"], ids=["dense", "small", "fashion"])
def test_bf16_is_close(model: Any) -> None:
    """Half the digits, stacked and side by side, with batch norm in dense and in convolving models."""
    expected = by_the_loop(model, "fedavg", torch.float32, 1)
    for stack in (True, False):
        found = played(FastGPU("cpu", precision="bf16", stack=stack), model, "fedavg", torch.float32, 1)
        assert apart(expected, found) < 0.2


@pytest.mark.parametrize(
    ("method", "foreseen"),
    [("fedavg", True), ("full", True), ("sem", True), ("scaffold+sem", True), ("kld(h=5)", False)],
)
def test_plans_are_made_one_leg_ahead(method: str, foreseen: bool) -> None:
    """All after the first leg, where the next one can be foreseen, but for SEM's odd client, which trains alone; the
    loop's numbers either way."""
    expected = by_the_loop("mlp(hidden=[9])", method, torch.float64, 3)
    engine = FastGPU("cpu")
    assert apart(expected, played(engine, "mlp(hidden=[9])", method, torch.float64, 3)) < 1e-9
    ready, late = engine.plans_ahead
    odd = 2 if "sem" in method else 0  # after round 0; one is lost in some
    assert ready + late > 0
    assert late <= odd if foreseen else ready == 0


def by_channel(shape: tuple[int, ...], classes: int) -> nn.Module:
    """A wide filter, then one a channel, then a narrow one: what MobileNet is made of."""
    return nn.Sequential(
        nn.Conv2d(shape[0], 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(),
        nn.Conv2d(6, 6, 3, padding=1, groups=6), nn.Conv2d(6, 4, 1), nn.ReLU(),
        nn.Flatten(), nn.Linear(4 * 144, classes),
    )  # fmt: skip


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_filters_of_one_channel_agree_in_the_layout_of_tensor_cores(optimizer: str) -> None:
    """Channels-last wherever there are tensor cores; an engine says so, and its numbers are the loop's."""
    local = {"optimizer": optimizer, "lr": 0.01}
    expected = played(Loop(), by_channel, "fedavg", torch.float64, 2, **local)
    engine = FastGPU("cpu", block=3, precision="tf32")
    assert apart(expected, played(engine, by_channel, "fedavg", torch.float64, 2, **local)) < 1e-9
    net = Net(build(by_channel, (1, 12, 12), 4, 0, torch.float64))
    run = run_of(Method.parse("fedavg"), made((1, 12, 12)), net, Local(batch=4), engine, 1, 5)
    assert "channels last" in engine.choice(run)


@pytest.mark.parametrize(("batch", "sizes"), [(4, 4), (8, 6), (20, 8)])
def test_a_stage_knows_how_many_sizes_batches_have(batch: int, sizes: int) -> None:
    """By hand, of 7, 13, 1, 9, 6, 5, 11, 3: modulo 4 {3, 1, 2} and 4; modulo 8 {7, 5, 1, 6, 3} and 8; below 20 all."""
    engine = FastGPU("cpu", stack=False)
    run = run_of(
        Method.parse("fedavg"), made((1, 12, 12)), Net(build("thesis_fashion", (1, 12, 12), 4, 0)),
        Local(batch=batch), engine, 1, 8,
    )  # fmt: skip
    job = run.job
    memories = {p.name: p.init_server(job.net) for p in job.method.parts}
    play_round(run, initial_state(dict(job.net.initial), memories, 0))
    assert batch_sizes(job, job.roster) == sizes
    assert "side by side" in engine.choice(run)
    assert [room.exact for room in engine.rooms] == [True]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("method", METHODS)
def test_every_kind_of_method_agrees(engine: str, method: str) -> None:
    """Client memory, hand-overs and models in flight come through the same."""
    settings = {"momentum": 0.9} if method == "fedavg" else {}
    expected = by_the_loop("mlp(hidden=[9])", method, torch.float64, 3, *settings.items())
    found = played(ENGINES[engine](), "mlp(hidden=[9])", method, torch.float64, 3, **settings)
    assert apart(expected, found) < 1e-9


@pytest.mark.parametrize(
    "settings",
    [
        {"optimizer": "adam", "lr": 0.001},
        {"nesterov": True, "momentum": 0.9, "weight_decay": 0.01},
        {"clip": 0.1},
    ],
    ids=str,
)
def test_every_optimiser_agrees(settings: dict[str, object]) -> None:
    """Adam, momentum, decay and clipping, stacked or not, are one arithmetic."""
    expected = played(Loop(), "mlp(hidden=[9])", "fedavg", torch.float64, 3, **settings)
    for engine in ENGINES.values():
        assert (
            apart(expected, played(engine(), "mlp(hidden=[9])", "fedavg", torch.float64, 3, **settings))
            < 1e-9
        )


@pytest.mark.parametrize("engine", ENGINES)
def test_a_rate_that_has_come_down_to_0_leaves_the_losses_as_they_are(engine: str) -> None:
    """``linear`` ends at 0: those clients train on, and are not those who only wait for others to finish."""
    plays = [play(Method.parse("fedavg"), engine=e, decay="linear") for e in (Loop(), ENGINES[engine]())]
    expected, found = (p.lines[-1]["visits"][0]["loss"] for p in plays)
    assert min(expected) > 0
    assert found == pytest.approx(expected, rel=1e-3)


def drawn(engine: Engine, model: Any, method: str) -> State:
    """Where clients of very different sizes end by a method that draws for every batch."""
    method = method.replace(
        "steps=3", "steps=3, batch=8"
    )  # the server's own steps, of which nothing is looked at
    parsed = Method.parse(f"{method}+dynamic(beta=2)")
    return play(parsed, tiny((20, 1, 3, 7, 11)), engine=engine, model=model, lr=0.05, cohort=5).state


@cache
def drawn_by_the_loop(model: Any, method: str) -> State:
    """The same by the loop engine, played once for all engines that are held against it."""
    return drawn(Loop(), model, method)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("model", ["mlp(hidden=[6])", normed], ids=["dense", "normed"])
@pytest.mark.parametrize(
    "method",
    ["flea(last, share=0.5)", "fedgen(start=1, steps=3)", "fedgen(variant=latent, match=1, steps=3)"],
)
def test_what_is_drawn_for_batches_of_different_sizes_agrees(engine: str, model: Any, method: str) -> None:
    """Rows that only fill up what another client draws count nowhere, in batch norm neither."""
    assert apart(drawn_by_the_loop(model, method), drawn(ENGINES[engine](), model, method)) < 1e-9


@pytest.mark.parametrize("model", ["mlp(hidden=[9])", "small_cnn"])
def test_it_agrees_with_the_loop_in_float32(model: str) -> None:
    """One round of plain SGD: 1e-4."""
    expected = played(Loop(), model, "fedavg", torch.float32, 1)
    for engine in ENGINES.values():
        assert apart(expected, played(engine(), model, "fedavg", torch.float32, 1)) < 1e-4


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("model", ["mlp(hidden=[9])", "thesis_fashion"])
def test_the_number_of_workers_changes_no_bit(crew: FastCPU, method: str, model: str) -> None:
    """Two processes end in exactly the model of one."""
    inline = played(FastCPU(workers=1), model, method, torch.float32, 3)
    assert params_hash(played(crew, model, method, torch.float32, 3).params) == params_hash(inline.params)


def test_a_killed_worker_is_replaced_and_changes_no_bit(crew: FastCPU) -> None:
    """kill -9 between two legs of a run: its clients are trained again, the numbers are those of a quiet run."""
    quiet = played(FastCPU(workers=1), "small_cnn", "fedavg", torch.float32, 3)

    class Struck(FastCPU):
        """The crew, which loses a worker before its second leg."""

        legs = 0

        def visit(self, *given: Any) -> Any:
            self.legs += 1
            if self.legs == 2:
                assert crew.crew is not None
                os.kill(crew.crew.workers[0].process.pid, signal.SIGKILL)
            return crew.visit(*given)

    before = crew.crew.replaced if crew.crew is not None else 0
    assert params_hash(played(Struck(), "small_cnn", "fedavg", torch.float32, 3).params) == params_hash(
        quiet.params
    )
    assert crew.crew is not None
    assert crew.crew.replaced == before + 1


def echo(setup: dict[str, object], work: np.ndarray) -> np.ndarray:
    """Answers as large as the question."""
    return work


def test_large_questions_and_large_answers_do_not_wait_for_each_other() -> None:
    """Megabytes both ways through pipes of kilobytes, with work waiting: SCAFFOLD's control variates do this."""
    crew = Crew(2, echo)
    try:
        work = [np.full(500_000, i, np.float32) for i in range(8)]
        found = crew.map(work)
        assert [float(f[0]) for f in found] == list(range(8))
        assert all(len(f) == 500_000 for f in found)
    finally:
        crew.close()


def die(setup: dict[str, object], work: int) -> int:
    """Work that kills whoever takes it."""
    os.kill(os.getpid(), signal.SIGKILL)
    return work


def test_work_that_kills_every_worker_ends_in_a_sentence() -> None:
    """Three deaths on the same clients are no accident; nobody waits for ever."""
    crew = Crew(1, die)
    try:
        with pytest.raises(RunFailed, match="workers died on the same clients"):
            crew.map([1])
    finally:
        crew.close()


def test_closing_leaves_no_process_and_no_shared_memory() -> None:
    """After close the workers are gone, and so is what they shared."""
    before = set(Path("/dev/shm").glob("*")) if Path("/dev/shm").is_dir() else set()
    engine = FastCPU(workers=2)
    played_on = Net(build("mlp(hidden=[9])", (1, 12, 12), 4, 0, torch.float32))
    method = Method.parse("fedavg")
    run = run_of(method, made((1, 12, 12)), played_on, Local(batch=8), engine, 1, 5)
    play_round(run, initial_state(dict(played_on.initial), {p.name: {} for p in method.parts}, 0))
    assert engine.crew is not None
    workers = [w.process for w in engine.crew.workers]
    engine.close()
    assert not any(w.is_alive() for w in workers)
    if before or Path("/dev/shm").is_dir():
        assert not {p for p in set(Path("/dev/shm").glob("*")) - before if "torch" in p.name}


@pytest.mark.parametrize("make", [lambda: FastCPU(workers=2), lambda: FastGPU("cpu", precision="tf32")])
def test_an_engine_may_go_on_with_a_job_of_another_kind(make: Any) -> None:
    """On the same data: other numbers, shapes under the same names, layers, layouts and ways; as a fresh one would."""
    shape, reused = (1, 12, 12), make()
    federation = made(shape)
    holdings = Holdings(federation)
    for model, dtype, cohort in (
        ("mlp(hidden=[9])", torch.float32, 5),
        ("mlp(hidden=[9])", torch.float64, 5),
        ("mlp(hidden=[5])", torch.float64, 5),
        ("small_cnn", torch.float32, 5),
        (by_channel, torch.float32, 5),
        ("mlp(hidden=[5])", torch.float32, 3),
    ):
        hashes = []
        for engine in (reused, make()):
            net, method = Net(build(model, shape, 4, 0, dtype)), Method.parse("fedavg")
            engine.hold(holdings)
            roster = Roster.of(federation)
            job = Job(method, roster, net, Local(batch=4), 0, dtype=dtype)
            run = RunPlan(job, engine, 2, cohort)
            state = initial_state(dict(net.initial), {p.name: p.init_server(net) for p in method.parts}, 0)
            for _ in range(2):
                state, _ = play_round(run, state)
            engine.evaluate(job, state.params)
            hashes.append(params_hash(state.params))
            if engine is not reused:
                engine.close()
        assert hashes[0] == hashes[1]
    reused.close()


@pytest.mark.parametrize(
    ("method", "cohort", "block", "stacks"),
    [
        ("fedavg", 31, None, False),
        ("fedavg", 32, None, True),
        ("fedavg", 32, 8, False),
        ("full", 2, None, True),
        ("centralized", 32, None, False),
    ],
)
def test_it_is_the_clients_of_a_round_that_decide_whether_they_are_stacked(
    method: str, cohort: int, block: int | None, stacks: bool
) -> None:
    """small_cnn over 40 clients."""
    shape = (1, 12, 12)
    data = made(shape).dataset
    federation = Federation(data, np.arange(40), np.arange(41))
    parsed = Method.parse(method)
    roster, holdings = Roster.of(federation), Holdings(federation)
    for part in parsed.prepare:
        roster = holdings.transfer(part, part.transfers(roster, cohort, 0), roster, 0)
    engine, net = FastGPU("cpu", block=block), Net(build("small_cnn", shape, 4, 0))
    engine.hold(holdings)
    run = RunPlan(Job(parsed, roster, net, Local(batch=4), 0), engine, 1, cohort)
    assert ("stacked" in engine.choice(run)) is stacks


@pytest.mark.parametrize(
    ("model", "cohort", "memory", "most"),
    [("mlp(hidden=[9])", 300, 10**12, 256), ("mlp(hidden=[9])", 300, 10**6, 16), ("small_cnn", 5, 10**12, 64),
     ("small_cnn", 5, 10**8, 26), ("small_cnn", 5, 4 * 10**7, 9), ("small_cnn", 5, 10**5, 1)],
)  # fmt: skip
def test_blocks_are_sized_to_memory(model: str, cohort: int, memory: int, most: int) -> None:
    """Four fifths of it, less the samples' 7,920 bytes.

    mlp: 1,345 weights and 166 outputs, so 7 x 5,380 + 4 x 166 x 4 samples x 4 bytes = 48,284 a client; 792,080 hold 16.
    small_cnn, which pools before ReLU: 7 x 372,752 = 2,609,264, and 4 x 11,204 x 4 x 4 = 717,056 for the step, which 16
    streams have: (79,992,080 - 16 x 717,056) / 2,609,264 = 26; with less than 16 of both, 31,992,080 / 3,326,320 = 9.
    """
    shape = (1, 12, 12)
    engine, net = FastGPU("cpu", memory=memory), Net(build(model, shape, 4, 0))
    run = run_of(Method.parse("fedavg"), made(shape), net, Local(batch=4), engine, 1, cohort)
    assert f"up to {most} clients" in engine.choice(run)


class Remembering(Uniform):
    """Reads its memory, as a rule of one's own may."""

    name = "remembering"

    def init_server(self, net: Net) -> Any:
        return {"seen": torch.zeros(1)}

    def select(self, count: int, exclude: Any, federation: Federation, memory: Any, rng: Any) -> Any:
        cohort, _ = super().select(count, exclude, federation, memory, rng)
        return cohort, {"seen": memory["seen"] + 1}


class Scheduled(FedProx):
    """Knows how long each round is, and of no round after the last."""

    name = "scheduled"

    def budget_factor(self, t: int) -> float:
        return (1.0, 2.0, 1.0)[t]


@pytest.mark.parametrize("part", [Remembering(), Scheduled(mu=0.1)])
def test_a_leg_is_not_foreseen_by_asking_parts_what_they_cannot_know(part: Any) -> None:
    shape, found = (1, 12, 12), []
    for engine in (Loop(), FastGPU("cpu")):
        net, method = Net(build("mlp(hidden=[9])", shape, 4, 0, torch.float64)), Method.of(part)
        run = run_of(method, made(shape), net, Local(batch=4), engine, 3, 5, torch.float64)
        state = initial_state(dict(net.initial), {p.name: p.init_server(net) for p in method.parts}, 0)
        for _ in range(3):
            state, _ = play_round(run, state)
        found.append(state)
    assert apart(*found) < 1e-9


@pytest.mark.parametrize("method", [m for m in METHODS if m in ("fedavg", "scaffold")])
def test_a_cohort_too_large_to_keep_is_summed_where_it_trains(
    crew: FastCPU, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sum of models is the same model, to rounding, and any number of workers gives the same bits."""
    expected = played(FastCPU(workers=1), "mlp(hidden=[9])", method, torch.float64, 3)
    monkeypatch.setattr("unskew.engines.cpu.summed.LARGEST_STACK", 0)
    inline = played(FastCPU(workers=1), "mlp(hidden=[9])", method, torch.float64, 3)
    assert 0 <= apart(expected, inline) < 1e-12
    assert params_hash(played(crew, "mlp(hidden=[9])", method, torch.float64, 3).params) == params_hash(
        inline.params
    )


@pytest.mark.parametrize(
    ("method", "sizes", "cohort"),
    [("fedavg", (5, 0, 9, 4), 4), ("fedavg", (0, 0, 6), 1), ("feddyn+fedavg", (5, 3, 9, 4), 4)],
)
def test_a_sum_serves_clients_without_samples_and_parts_that_weigh_otherwise(
    method: str, sizes: tuple[int, ...], cohort: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who holds nothing weighs nothing; FedDyn's h is a plain mean, also where the model is weighed by samples."""
    expected = play(Method.parse(method), tiny(sizes), engine=Loop(), cohort=cohort)
    monkeypatch.setattr("unskew.engines.cpu.summed.LARGEST_STACK", 0)
    found = play(Method.parse(method), tiny(sizes), engine=FastCPU(workers=1), cohort=cohort)
    assert apart(expected.state, found.state) < 1e-12


@pytest.mark.parametrize(
    ("device", "engine", "message"),
    [
        ("abacus", "auto", "there is no device 'abacus'; write cpu, cuda, cuda:1 or auto"),
        ("meta", "auto", "device 'meta' is not supported; write cpu, cuda, cuda:1 or auto"),
        (
            "cuda:99",
            "auto",
            r"device 'cuda:99' is not on this machine, which has \d+ GPUs; write cpu or auto",
        ),
        ("cuda", "loop", "the loop engine runs on the cpu; write engine = fast for a GPU"),
    ],
)
def test_a_device_that_cannot_be_used_is_said_in_a_sentence(device: str, engine: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        device_of(Spec(device=device, engine=engine))
