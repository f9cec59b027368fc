"""Models that do what few do: each was trained wrongly, or not at all, by an engine that should agree with the loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unskew.core.engine import Engine
from unskew.core.method import Method
from unskew.core.net import Net
from unskew.engines import first_layer
from unskew.engines.cpu.fast import FastCPU
from unskew.engines.gpu.fast import FastGPU
from unskew.engines.recorded_alone import RecordedStep
from unskew.models.building import build
from unskew.testing.toy_federation import apart, models, normed, play, tiny

SIZES = (5, 3, 9, 4, 7, 2)
SHAPE = (1, 6, 6)


class Dense(nn.Module):
    """Two dense layers; what it does to its samples first is said by others."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.out = nn.Linear(36, 5), nn.Linear(5, 3)
        self.register_buffer("shift", torch.full((36,), 0.7), persistent=False)
        self.scale = torch.linspace(1, 3, 36)

    def seen(self, x: Tensor) -> Tensor:
        return x

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.tanh(self.first(self.seen(x.flatten(1)))))


class Shifts(Dense):
    def seen(self, x: Tensor) -> Tensor:
        return x - self.shift


class Divides(Dense):
    def seen(self, x: Tensor) -> Tensor:
        return x / self.scale


class Halves(Dense):
    def seen(self, x: Tensor) -> Tensor:
        return x / 2 - 0.7


class Casts(Dense):
    def seen(self, x: Tensor) -> Tensor:
        return x.to(torch.bfloat16).to(x.dtype)


class Centres(Dense):
    """Looks across its batch."""

    def seen(self, x: Tensor) -> Tensor:
        return x - x.mean(0)


class Branches(Dense):
    """Does something else with small batches."""

    def seen(self, x: Tensor) -> Tensor:
        return x if len(x) > 2 else 2 * x


class Sums(Dense):
    """Of some of its weights only the sum counts: their gradient is one number, seen many times."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.Parameter(torch.full((7,), 0.1))

    def seen(self, x: Tensor) -> Tensor:
        return x * self.parts.sum()


class Scales(Dense):
    """A weight that is one number, as a learned temperature is."""

    def __init__(self) -> None:
        super().__init__()
        self.warmth = nn.Parameter(torch.tensor(1.3))

    def forward(self, x: Tensor) -> Tensor:
        return self.warmth * super().forward(x)


class Tokens(nn.Module):
    """An embedding whose row 0 is never trained."""

    def __init__(self) -> None:
        super().__init__()
        self.rows, self.out = nn.Embedding(8, 4, padding_idx=0), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.rows((x.flatten(1).clamp(-2, 2) + 2).long()).mean(1))


class TimeFirst(nn.Module):
    """Dropout over [time, batch, features], where a mask's place depends on how long the batch is."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.drop, self.out = nn.Linear(6, 5), nn.Dropout(0.5), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        steps = self.inner(x.squeeze(1)).transpose(0, 1)
        return self.out(self.drop(steps).mean(0))


class OnlyByBatch(nn.Module):
    """Batch norm that has no statistics of its own, also where it teaches."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Linear(36, 5), nn.BatchNorm1d(5, track_running_stats=False)
        self.out = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.relu(self.norm(self.first(x.flatten(1)))))


class Filters(nn.Module):
    """A few small filters, and a ReLU that writes where it reads."""

    def __init__(self, act: Callable[[Tensor], Tensor] | None = None) -> None:
        super().__init__()
        self.filters, self.out = nn.Conv2d(1, 4, 3, padding=1), nn.Linear(36, 3)
        self.act = act or nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(F.max_pool2d(self.act(self.filters(x)), 2).flatten(1))


class Overwrites(Filters):
    """Writes into its samples."""

    def forward(self, x: Tensor) -> Tensor:
        x -= 0.3
        x *= 0.5
        return super().forward(x)


class Attends(nn.Module):
    """A product that is turned, and then seen in another shape."""

    def __init__(self) -> None:
        super().__init__()
        self.filters, self.mix, self.out = nn.Conv2d(1, 4, 3, padding=1), nn.Linear(4, 4), nn.Linear(144, 3)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.filters(x).flatten(2).transpose(1, 2)
        attention = torch.softmax(tokens @ tokens.transpose(1, 2), -1)
        image = (attention @ tokens).transpose(1, 2).view(len(x), 4, 6, 6)
        return self.out(self.mix(image.permute(0, 2, 3, 1)).flatten(1))


MODELS = [
    *(Shifts, Divides, Halves, Casts, Centres, Branches, Sums, Scales),
    *(Tokens, TimeFirst, Filters, Overwrites, Attends),
]
ENGINES: dict[str, Callable[[], Engine]] = {
    "stacked, recorded": lambda: FastCPU(workers=1, record=True),
    "alone, recorded": lambda: FastCPU(workers=1, block=1, record=True),
    "stacked": lambda: FastCPU(workers=1),
    "as on a GPU, stacked": lambda: FastGPU("cpu", stack=True),
    "as on a GPU, side by side": lambda: FastGPU("cpu", stack=False),
}


def off(model: Callable[[], Any], engine: Engine, method: str = "fedavg", **settings: Any) -> float:
    """How far an engine's models are from the loop's after two rounds."""

    def ended(engine: Engine | None) -> Any:
        torch.manual_seed(0)
        held = tiny(sizes=SIZES)
        return play(Method.parse(method), held, engine=engine, model=model(), rounds=2, **settings).state

    return apart(models(ended(None)), models(ended(engine)))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("model", MODELS)
def test_engines_agree(model: type[nn.Module], engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where first layers are lifted, however few the samples."""
    monkeypatch.setattr(first_layer, "WORTH", float("inf"))
    assert off(model, ENGINES[engine]()) < 1e-9


@pytest.mark.parametrize("engine", ENGINES)
def test_engines_agree_of_one_client_whose_weight_is_one_number(engine: str) -> None:
    """Stacked by itself it is a row that torch takes for many: a recording that was tried wrote into it."""
    assert off(Scales, ENGINES[engine](), cohort=1) < 1e-9


@pytest.mark.parametrize("method", ["moon", "fedntd"])
@pytest.mark.parametrize("engine", ENGINES)
def test_teachers_that_judge_by_their_batch_agree(method: str, engine: str) -> None:
    assert off(OnlyByBatch, ENGINES[engine](), method) < 1e-9


@pytest.mark.parametrize("method", ["moon", "fedntd", "fedbr(group=2)", "fedmix(group=2)"])
@pytest.mark.parametrize("engine", ENGINES)
def test_parts_see_samples_as_they_were_before_the_model_wrote_into_them(method: str, engine: str) -> None:
    """Whoever asks the model twice, or looks at the samples afterwards; once torch refused the step."""

    class Copies(Overwrites):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x.clone())

    def ended(model: type[nn.Module], engine: Engine | None = None) -> Any:
        torch.manual_seed(0)
        held = tiny(sizes=SIZES)
        return play(Method.parse(method), held, engine=engine, model=model(), rounds=2).state

    assert apart(models(ended(Copies)), models(ended(Overwrites, ENGINES[engine]()))) < 1e-9


@pytest.mark.parametrize("engine", ENGINES)
def test_features_stay_as_they_were_where_the_next_layer_writes_into_them(engine: str) -> None:
    """FLea cuts before a ReLU and looks at the features after the rest of the model had them."""

    def ended(inplace: bool, engine: Engine | None = None) -> Any:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Flatten(), nn.Linear(36, 5), nn.ReLU(inplace), nn.Linear(5, 3))
        method = Method.parse('flea("1", share=0.5)')
        return play(method, tiny(sizes=SIZES), engine=engine, model=model, rounds=2).state

    assert apart(models(ended(inplace=False)), models(ended(True, ENGINES[engine]()))) < 1e-9


def test_a_part_may_remember_the_very_tensor_that_is_sent() -> None:
    """MOON's old model is the global one at a first visit, and a recording must not take the two for one."""
    settings: dict[str, Any] = {"batch_norm": "drop", "model": normed, "rounds": 3}
    held, method = tiny(sizes=(8, 8, 8, 8)), Method.parse("moon")
    found = play(method, held, engine=FastCPU(workers=1, block=1, record=True), **settings)
    assert apart(models(play(method, held, **settings).state), models(found.state)) < 1e-9


def test_plain_models_are_stacked_and_others_are_not() -> None:
    """By what their gradients show; so that care costs nobody else's speed."""

    def stackable(model: nn.Module) -> bool:
        return Net(build(model, SHAPE, 3, 0, torch.float64)).stackable(SHAPE)

    assert stackable(Dense())
    assert stackable(Shifts())
    assert not any(map(stackable, (Centres(), Branches(), Tokens(), TimeFirst(), OnlyByBatch())))


class Reader(nn.Module):
    """A layer of torch's own attention, for which ``vmap`` has no rule on a CPU."""

    def __init__(self) -> None:
        super().__init__()
        self.attention, self.out = nn.MultiheadAttention(6, 2, batch_first=True), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        seen = x[:, 0]
        return self.out(self.attention(seen, seen, seen, need_weights=False)[0].mean(1))  # type: ignore[no-any-return]


@pytest.mark.parametrize("engine", ["stacked, recorded", "alone, recorded"])
def test_what_vmap_does_client_by_client_is_not_stacked(engine: str) -> None:
    """Each client by itself is faster, and agrees; and ``vmap`` may do so again where somebody else asks it."""
    net = Net(build(Reader(), SHAPE, 3, 0, torch.float64))
    assert net.stackable(SHAPE)
    assert not net.stackable(SHAPE, loops=False)
    assert torch._C._functorch._is_vmap_fallback_enabled()  # type: ignore[attr-defined]
    assert off(Reader, ENGINES[engine]()) < 1e-9


def test_a_recording_that_does_something_else_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the cause: it is tried once on other numbers, and the step as written is played instead."""
    import unskew.engines.recorded_alone as alone

    def wrong(traced: Any, weights: int) -> Callable[..., Any]:
        return lambda *given: [2 * found if found is not None else None for found in traced(*given)]

    monkeypatch.setattr(alone, "rewrite_alone", wrong)
    used = []
    monkeypatch.setattr(
        RecordedStep, "_recording", lambda self, *given: used.append(found := kept(self, *given)) or found
    )
    assert off(Filters, FastCPU(workers=1, block=1, record=True), batch=3) < 1e-9
    assert used
    assert set(used) == {None}


def test_a_lifted_layer_that_does_something_else_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is tried as well, after the rest of the step was."""
    import unskew.engines.recorded as recorded

    def wrong(traced: Any, names: list[str], pool: Any) -> tuple[str, ...]:
        found = lift(traced, names, pool)
        for node in traced.graph.nodes:
            if node.target is torch.ops.aten.index_add_.default:
                node.kwargs = {"alpha": 2 * node.kwargs["alpha"]}
        lifted.append(found)
        return found

    lift, lifted = recorded.lift_first_layers, list[tuple[str, ...]]()
    monkeypatch.setattr(first_layer, "WORTH", float("inf"))
    monkeypatch.setattr(recorded, "lift_first_layers", wrong)
    assert off(Dense, FastCPU(workers=1, record=True)) < 1e-9
    assert any(lifted)


kept = RecordedStep._recording


class Looked(Dense):
    """Remembers the samples that it saw last, for its user to look at."""

    def seen(self, x: Tensor) -> Tensor:
        self.last = x
        return x


def test_a_model_may_remember_what_it_saw() -> None:
    """Whether clients can be stacked was tried on the model that workers get, and stacked numbers cannot travel."""
    model = Looked()
    hashes = [
        play(Method.parse("fedavg"), tiny(SIZES), engine=FastCPU(workers=workers), model=model).hash
        for workers in (1, 2)
    ]
    assert hashes[0] == hashes[1]
