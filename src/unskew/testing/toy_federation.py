"""A tiny federation and a few rounds on it, in milliseconds: what ``unskew.testing.checks`` plays with."""

from __future__ import annotations

import contextlib
import copy
import pickle
import random
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from unskew.core.evaluate import judge_round
from unskew.core.evaluate_clients import own_models
from unskew.core.held import BEFORE
from unskew.core.ledger import Ledger
from unskew.core.memory import flatten
from unskew.core.method import Method
from unskew.core.query import ClientView
from unskew.core.round import begin_parts, play_round
from unskew.core.slots import Part, Select
from unskew.core.state import State, checkpoint, load_state, save_state
from unskew.core.step import LocalStep, LocalTraining, StepInputs
from unskew.core.types import Cohort, Ids, Leg, Tree, Update, nbytes
from unskew.core.upload import message_bytes
from unskew.data.dataset import Dataset, channel_moments
from unskew.data.federation import Federation
from unskew.engines import Engine, Job, Loop, RoundInputs
from unskew.engines.cpu.fast import FastCPU
from unskew.engines.gpu.fast import FastGPU
from unskew.errors import InputError
from unskew.files import write_file
from unskew.machine.threads import single_threaded
from unskew.models.building import Finished
from unskew.runs.result import fingerprint, params_hash
from unskew.runs.setup import Setup, set_up
from unskew.runs.spec import Spec
from unskew.seeds import generator

P = TypeVar("P", bound=Part)

MODEL = "mlp(hidden=[6])"
SIZES = (5, 3, 9, 4, 7, 2, 6, 8)


def tiny(sizes: Sequence[int] = SIZES, classes: int = 3, missing: int | None = None) -> Federation:
    """Clients with this many 6 x 6 images of bars, two classes each; nobody holds the class ``missing``."""
    rng = generator(0, "tiny")
    owner = np.repeat(np.arange(len(sizes)), sizes)
    y = (owner + np.arange(len(owner)) % 2) % classes
    if missing is not None:
        y = np.where(y == missing, (missing + 1) % classes, y)
    y_test = np.arange(10 * classes) % classes

    def images(labels: Ids) -> Any:
        x = rng.integers(0, 120, (len(labels), 1, 6, 6))
        x[np.arange(len(labels)), 0, labels * 2 % 6] += 120
        return x.astype(np.uint8)

    x, x_test = images(y), images(y_test)
    names = tuple("abcdefgh"[:classes])
    dataset = Dataset("tiny", x, y, x_test, y_test, names, "image", {}, *channel_moments(x_test))
    return Federation(dataset, np.arange(len(y)), np.concatenate([[0], np.cumsum(sizes)]))


def normed(shape: tuple[int, ...], classes: int) -> nn.Module:
    """A small convolutional network with batch norm and dropout."""
    return nn.Sequential(
        nn.Conv2d(shape[0], 3, 3, padding=1),
        nn.BatchNorm2d(3),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(3 * (shape[1] // 2) * (shape[2] // 2), classes),
    )


def deep(shape: tuple[int, ...], classes: int) -> nn.Module:
    """Two convolutions, the second over several channels: their layout in memory decides how sums are rounded."""
    return nn.Sequential(
        nn.Conv2d(shape[0], 8, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, padding=1),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(8 * (shape[1] // 2) * (shape[2] // 2), classes),
    )


@dataclass
class Played:
    """A few rounds: the log, the last state, and the fingerprints of the first and the last model.

    ``drew_from``: the modules whose global generators moved meanwhile. ``first``: the checkpoint after the first round,
    where it was asked for.
    """

    lines: list[dict[str, Any]]
    hash: str
    started: str
    state: State = field(compare=False)
    drew_from: tuple[str, ...] = field(default=(), compare=False)
    first: bytes = field(default=b"", compare=False)


class RefusedSetup(InputError):
    """A method refused its clients or its model before the first round."""


def ready(
    method: Method,
    federation: Federation | None = None,
    *,
    model: Any = MODEL,
    engine: Engine | None = None,
    sizes: Sequence[int] = SIZES,
    counts: bool = True,
    **settings: Any,
) -> Setup:
    """A method made ready to play on a federation, or on one that nobody else holds, in float64.

    ``counts``: whether the server is given label counts.
    """
    held = federation or tiny(sizes)
    usual: dict[str, Any] = {"rounds": 3, "epochs": 2, "batch": 4, "lr": 0.1, "seed": 1}
    usual |= {"precision": "float64", "cohort": min(4, held.clients), "engine": "loop"}
    spec, data = Spec(**(usual | settings)), held.dataset
    if isinstance(model, str | FunctionType):  # not a module, which may be another next time
        dtype = torch.float64 if spec.precision == "fp64" else torch.float32
        model = _finished(model, data.shape, data.classes, spec.seed, dtype)
    return set_up(spec, held, model, method, engine, counts=counts)


_finished = lru_cache(maxsize=64)(Finished.of)
"""Models as they begin: making and trying one takes longer than a round of it."""


def play(
    method: Method,
    federation: Federation | None = None,
    *,
    engine: Engine | None = None,
    stopped: bool = False,
    whole: Played | None = None,
    keep_first: bool = False,
    evaluate_clients: bool = False,
    **settings: Any,
) -> Played:
    """Play and judge a few rounds; ``stopped`` reads everything back from disk after each of them.

    Where the same rounds were played as a ``whole`` which was to ``keep_first``, a stopped run goes on from its first:
    until then they are the same.
    """
    before = _global_generators()
    first = b"" if whole is None else whole.first
    with single_threaded(), _folder_for(stopped) as folder:
        try:
            setup = ready(copy.deepcopy(method), federation, engine=engine, **settings)
        except InputError as problem:
            raise RefusedSetup(*problem.args) from problem
        lines, state = [], setup.state
        if whole is not None:
            assert stopped
            assert first
            write_file(folder / "000001.safetensors", first)
            lines, state = whole.lines[:1], read_back(folder, setup.run.device)
        for t in range(len(lines), setup.run.rounds):
            if stopped and t > (whole is not None):
                # a copy of the method as it was: what a part kept to itself is gone, as after a kill
                setup = ready(copy.deepcopy(method), federation, engine=engine, **settings)
            state, ledger = play_round(setup.run, state)
            both = judge_round(setup.run, state, ledger, evaluate_clients)
            lines.append({"round": state.round} | both)
            if stopped:
                save_state(state, folder)
                state = read_back(folder, setup.run.device)
            elif keep_first and not t:
                first = b"".join(checkpoint(state))
        setup.run.engine.close()
    after = _global_generators()
    moved = tuple(name for name, old in before.items() if after[name] != old)
    return Played(lines, fingerprint(state), params_hash(setup.state.params), state, moved, first)


def read_back(folder: Path, device: str) -> State:
    """The last checkpoint in a folder, as a resume reads it."""
    read = load_state(folder)
    assert read is not None
    return read.to(device)


@contextlib.contextmanager
def _folder_for(stopped: bool) -> Iterator[Path]:
    """A folder to read a state back from; none is made where nobody does."""
    if not stopped:
        yield Path()
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def _global_generators() -> dict[str, Any]:
    """The states of the generators that nobody may draw from."""
    numpy = pickle.dumps(np.random.get_state(legacy=False))  # noqa: NPY002  to see that nobody used it
    return {"torch": torch.get_rng_state().numpy().tobytes(), "numpy": numpy, "random": random.getstate()}


class CountingLoop(Loop):
    """The loop engine, keeping books: bytes of what parts upload and of what they share, by part."""

    name = "ledger"

    def __init__(self) -> None:
        super().__init__()
        self.up: Counter[str] = Counter()
        self.down: Counter[str] = Counter()
        self.messages = 0  # bytes of encoded updates

    def visit(self, job: Job, leg: Leg, rows: Ids, round_inputs: RoundInputs) -> Update:
        update = super().visit(job, leg, rows, round_inputs)
        for message in update.messages:
            self.messages += message_bytes(job.method.encoders, message)
        if leg.upload:
            self.up.update({part: nbytes(tree) for part, tree in update.uploads.items()})
        if leg.source == "server":
            self.down.update(
                {part: len(leg.clients) * nbytes(tree) for part, tree in round_inputs.shared.items()}
            )
        return update


def other_engines() -> list[Engine]:
    """Every engine beside the loop that can run here, in this process."""
    gpu = FastGPU("cuda" if torch.cuda.is_available() else "cpu")
    return [FastCPU(workers=1), gpu]


def backwards(part: P, verb: str) -> P:
    """The part with the clients in the other order: those it selects, or those whose update it is handed."""
    plain = getattr(type(part), verb)

    def turned(self: P, first: Any, *rest: Any) -> Any:
        if isinstance(part, Select):
            cohort, memory = plain(self, first, *rest)
            back = np.arange(len(cohort.clients))[::-1].copy()
            return Cohort(cohort.clients[back], cohort.settings.rows(back)), memory
        update = rest[0]
        return plain(self, first, update.take(np.arange(len(update))[::-1].copy()), *rest[1:])

    kind = type(type(part).__name__, (type(part),), {verb: turned})
    made: P = kind(**{f.name: getattr(part, f.name) for f in fields(part) if f.init})
    return made


def one_step(setup: Setup, padding: int) -> Tree:
    """Loss, gradient and batch statistics of one step on three samples and this much padding."""
    run, job = setup.run, setup.job
    memory, net, parts = begin_parts(run, setup.state.server, Ledger(0)), job.net, job.method.objective
    held = run.engine.holdings.held(0, BEFORE, job.roster, (), job.seed)  # type: ignore[attr-defined]
    view = ClientView.of(job, held, dict(net.initial))
    x, y = view.samples(torch.arange(3)), view.labels[:3]
    weight = torch.cat([torch.ones(3, dtype=x.dtype), torch.zeros(padding, dtype=x.dtype)])
    x = torch.cat([x, torch.full((padding, *x.shape[1:]), 50.0, dtype=x.dtype)])
    y = torch.cat([y, torch.zeros(padding, dtype=y.dtype)])
    params = {k: net.initial[k].clone().requires_grad_() for k in net.trainable}
    buffers = {k: net.initial[k].clone() for k in net.buffers}
    inputs = StepInputs(
        buffers=buffers,
        x=x,
        y=y,
        weight=weight,
        anchor={k: v.detach() + 0.1 for k, v in params.items()} | {k: v.clone() for k, v in buffers.items()},
        census=torch.from_numpy(held.counts),
        shared=job.method.hand_out(memory, 0),
        mine=job.method.init_client(net, 1.0),
        draws={o.name: _first(o.draw(generator(0, "step", o.name), 1, 6), x.dtype) for o in parts},
        seed=torch.tensor(7),
    )
    training = LocalTraining(net, parts, job.local, job.seed)
    grads, value = LocalStep(training).gradients(params, inputs, padded=padding > 0)
    return {"loss": value} | grads | {f"statistic {k}": v for k, v in buffers.items()}


def _first(arrays: Mapping[str, Any], dtype: torch.dtype) -> Tree:
    return {
        k: torch.from_numpy(np.ascontiguousarray(v[0])).to(dtype if v.dtype.kind == "f" else torch.int64)
        for k, v in arrays.items()
    }


def models(state: State) -> Tree:
    """Every model that was trained: the global one, and those that clients keep."""
    kept = {f"{client}/{k}": v for client, model in own_models(state) for k, v in model.items()}
    return state.params | kept


def remembered(state: State) -> Tree:
    """All that is remembered between rounds, by whose it is and its name."""
    server = {
        f"{part}/{k} of the server": v for part, m in state.server.items() for k, v in flatten(m).items()
    }
    store = state.clients
    return server | {
        f"{part}/{k} of client {client}": v
        for part, rows in store.rows.items()
        for client in rows
        for k, v in flatten(store.get(part, client, {})).items()
    }


def apart(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> float:
    """The largest difference between two trees of the same names, on whatever devices they lie; NaN where one is."""
    found = [(one[k].cpu() - other[k].cpu()).detach().abs().max().double() for k in one]
    return float(torch.stack(found).max())
