"""Recorded steps: replayed, they are the steps that were recorded, for every objective there is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from unskew.bench.jobs import JOBS
from unskew.bench.options import Options
from unskew.bench.ours import Ours
from unskew.core.method import Method
from unskew.core.roster import Roster
from unskew.core.slots import Local, Objective, Step, Tune
from unskew.core.types import Cohort, PerClient, Tree
from unskew.data import Federation
from unskew.engines import first_layer
from unskew.engines.cpu.fast import FastCPU
from unskew.engines.recorded import KEPT, aten, layout_key, rewrite_graph
from unskew.engines.traced import trace
from unskew.parts import PARTS
from unskew.runs.choose_engine import choose
from unskew.runs.spec import Spec
from unskew.testing.toy_federation import play, tiny

OBJECTIVES = sorted(name for name, part in PARTS.items() if issubclass(part, Objective))


class Operations(TorchDispatchMode):
    """Counts what torch is really asked to do."""

    def __init__(self) -> None:
        super().__init__()
        self.count: Counter[Any] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count[func] += 1
        return func(*args, **(kwargs or {}))


def equal_clients() -> Federation:
    """Four clients of six samples: one shape, so that each test records few steps."""
    whole = tiny()
    return Federation(whole.dataset, np.arange(24) % len(whole.dataset.y), np.arange(5) * 6)


def apart(method: str, **settings: object) -> float:
    engine = FastCPU(workers=1, record=True)
    dense = {"model": "mlp(hidden=[5])", "rounds": 2, "batch": 3} | settings
    expected = play(Method.parse(method), equal_clients(), **dense)
    found = play(Method.parse(method), equal_clients(), engine=engine, **dense)
    pairs = ((expected.state.params[k], v) for k, v in found.state.params.items())
    return max(float((a - b).abs().max()) for a, b in pairs)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_every_objective_agrees_with_the_loop(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """To 1e-9 in float64 after two rounds of each part's own example; first layers are lifted where they can be."""
    monkeypatch.setattr(first_layer, "WORTH", float("inf"))
    assert apart(PARTS[name].example or name) < 1e-9


@pytest.mark.parametrize(
    "settings",
    [
        {"optimizer": "adam", "lr": 0.001},
        {"momentum": 0.9, "weight_decay": 0.01},
        {"clip": 0.1},
        {"batch": 4},
    ],
    ids=str,
)
def test_every_optimiser_and_a_short_batch_agree(settings: dict[str, object]) -> None:
    """Where the gradient does more than move the weight, it is not added to the weight as it is computed."""
    assert apart("fedavg", **settings) < 1e-9


@pytest.mark.parametrize("method", ["fedavg", "fedmix(group=2)", "moon"])
def test_stacked_filters_agree_with_the_loop(method: str) -> None:
    """With the batch innermost, to 1e-9 in float64; FedMix takes the gradient of a gradient."""
    settings = {"model": "small_cnn", "rounds": 2, "batch": 4}
    expected = play(Method.parse(method), equal_clients(), **settings).state.params
    engine = FastCPU(workers=1, block=4, record=True)
    found = play(Method.parse(method), equal_clients(), engine=engine, **settings).state.params
    assert max(float((found[k] - v).abs().max()) for k, v in expected.items()) < 1e-9


@pytest.mark.parametrize(
    ("model", "batch", "samples", "together"),
    [
        ("thesis_mnist", 10, 50, 10),
        ("thesis_mnist", 10, 12, 1),
        ("thesis_mnist", 64, 128, 1),
        ("small_cnn", 4, 8, 1),
    ],
)
def test_clients_with_few_small_filters_are_stacked(
    model: str, batch: int, samples: int, together: int
) -> None:
    """Where the patches of a batch are few, and short batches would not cost more than is gained."""
    job = replace(JOBS["B"], model=model, batch=batch, samples=samples, clients=20, cohort=10)
    for record, wanted in ((True, together), (False, 1)):
        ours = Ours.ready("loop", job, Options(jobs=[job]))
        engine = FastCPU(workers=1, record=record)
        assert engine.stack(ours.run.job) == wanted


def test_two_workers_stack_filters_to_the_same_bits() -> None:
    job = replace(JOBS["B"], samples=10, clients=20, cohort=12, epochs=1)
    found = []
    for workers in (1, 2):
        ours = Ours.ready("fast", job, Options(jobs=[job], workers=workers))
        assert "clients stacked" in ours.about
        ours.round()
        found.append(ours.state.params)
        ours.close()
    assert all(torch.equal(found[0][k], found[1][k]) for k in found[0])


def test_a_decaying_rate_needs_no_new_recording() -> None:
    """Rates are tensors of the step: three rounds of three rates are one recording."""
    engine = FastCPU(workers=1, record=True)
    close, engine.close = engine.close, lambda: None  # type: ignore[method-assign]
    dense = {"model": "mlp(hidden=[5])", "rounds": 3, "batch": 3, "decay": "exponential(0.5)"}
    play(Method.parse("fedavg"), equal_clients(), engine=engine, **dense)
    assert len(engine.recordings) == 1 < KEPT
    close()


def test_clients_of_all_sizes_share_a_few_recordings() -> None:
    """Five to eight samples in batches of at most 32 are all padded to eight, and the numbers are the loop's."""
    sizes, dense = (
        tiny(sizes=(5, 6, 7, 8)),
        {"model": "mlp(hidden=[5])", "rounds": 6, "batch": 32, "cohort": 1},
    )
    engine = FastCPU(workers=1, record=True)
    close, engine.close = engine.close, lambda: None  # type: ignore[method-assign]
    found = play(Method.parse("fedavg"), sizes, engine=engine, **dense)
    assert len(engine.recordings) == 1
    expected = play(Method.parse("fedavg"), sizes, **dense).state.params
    assert max(float((found.state.params[k] - v).abs().max()) for k, v in expected.items()) < 1e-9
    close()


def test_gradients_are_added_to_the_weights_without_being_kept() -> None:
    """For plain SGD each of four steps, and the one that tries the recording, runs one product for each layer's weights
    that adds to them in place."""
    engine = FastCPU(workers=1, record=True)
    with Operations() as run:
        play(
            Method.parse("fedavg"), equal_clients(), engine=engine, model="mlp(hidden=[5])", rounds=1, batch=3
        )
    assert run.count[aten.baddbmm_.default] == 2 * (1 + 4)


@pytest.mark.parametrize(
    "settings", [{"momentum": 0.9}, {"optimizer": "adam", "lr": 0.001}], ids=["sgd", "adam"]
)
def test_rules_of_several_terms_move_all_clients_in_one_pass(settings: dict[str, object]) -> None:
    """Each of four steps, and the one that tries the recording: one pass over memory where clients have one rate."""
    engine = FastCPU(workers=1, record=True)
    dense = {"model": "mlp(hidden=[5])", "rounds": 1, "batch": 3} | settings
    with Operations() as run:
        play(Method.parse("fedavg"), equal_clients(), engine=engine, **dense)
    passes = [aten._fused_sgd_.tensor_lr, aten._fused_adam_.tensor_lr]
    assert sum(run.count[op] for op in passes) >= 1 + 4
    terms = [aten._foreach_mul_.Scalar, aten._foreach_lerp_.Scalar, aten._foreach_addcmul_.Scalar]
    assert not [op for op in terms if run.count[op]]


@pytest.mark.parametrize("model", ["mlp(hidden=[5])", "small_cnn"])
def test_two_workers_move_weights_by_adam_to_the_same_bits(model: str) -> None:
    """In one pass, stacked and not."""
    settings = {"model": model, "batch": 4, "rounds": 2, "optimizer": "adam"}
    engines = [FastCPU(workers=n, record=True) for n in (1, 2)]
    one, two = (play(Method.parse("fedavg"), equal_clients(), engine=e, **settings) for e in engines)
    for engine in engines:
        engine.close()
    assert all(torch.equal(two.state.params[k], v) for k, v in one.state.params.items())


@dataclass(frozen=True)
class OwnRates(Tune):
    """Every client has another rate."""

    name: ClassVar[str] = "own_rates"

    def settings(self, t: int, cohort: Cohort, roster: Roster, local: Local) -> PerClient:
        return replace(cohort.settings, lr=0.01 * (1 + cohort.clients))


@pytest.mark.parametrize("settings", [{"momentum": 0.9}, {"optimizer": "adam"}], ids=["sgd", "adam"])
def test_clients_with_rates_of_their_own_agree(settings: dict[str, object]) -> None:
    """To 1e-9 in float64, whatever moves them."""
    method = replace(Method.parse("fedavg"), tune=(OwnRates(),))
    dense = {"model": "mlp(hidden=[5])", "rounds": 2, "batch": 3} | settings
    expected = play(method, equal_clients(), **dense).state.params
    found = play(method, equal_clients(), engine=FastCPU(workers=1, record=True), **dense).state.params
    assert max(float((found[k] - v).abs().max()) for k, v in expected.items()) < 1e-9


SHAPES = (2, 3, 4), (2, 1, 1), (2, 3, 5), (2, 5, 4), (2, 3, 4), (3, 4)
"""Of two clients' weights, rates and factors, and of two terms, one of them the same for both."""


def moves(step: Callable[..., Tensor]) -> tuple[Callable[..., Any], list[Any]]:
    """A step of two clients with weights w, rates r, factors a and b and terms c and d; and what it ends in."""
    traced = trace(step, [torch.ones(shape) for shape in SHAPES])
    rewrite_graph(traced)
    return traced.compiled(), [n.target for n in traced.graph.nodes if n.op == "call_function"]


def test_a_direction_that_is_a_sum_is_added_term_by_term() -> None:
    """w - r (a b - c + d), as SCAFFOLD moves: no sum of the size of w is made."""

    def step(w: Tensor, r: Tensor, a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> Tensor:
        torch._foreach_addcmul_([w], [a @ b - c + d], [r], value=-1)
        return w

    play, does = moves(step)
    assert not {aten.add.Tensor, aten.sub.Tensor, aten.bmm.default} & {*does}
    drawn = [
        torch.rand(s, dtype=torch.float64)
        for s in [(2, 3, 4), (2, 1, 1), (2, 3, 5), (2, 5, 4), (2, 3, 4), (3, 4)]
    ]
    mine, theirs = ([v.clone() for v in drawn] for _ in range(2))
    torch.testing.assert_close(play(*mine), step(*theirs))


def test_a_sum_that_is_read_again_or_whose_terms_change_stays_a_sum() -> None:
    """The sum is given back; a term is the weight itself; a term is written to before the move."""

    def given_back(w: Tensor, r: Tensor, a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> Tensor:
        direction = a @ b + c
        torch._foreach_addcmul_([w], [direction], [r], value=-1)
        return direction + w

    def of_the_weight(w: Tensor, r: Tensor, a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> Tensor:
        torch._foreach_addcmul_([w], [a @ b + w], [r], value=-1)
        return w + 0

    def written(w: Tensor, r: Tensor, a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> Tensor:
        direction = a @ b + c
        c.mul_(2)
        torch._foreach_addcmul_([w], [direction], [r], value=-1)
        return w + c

    for step in (given_back, of_the_weight, written):
        play, _ = moves(step)
        drawn = [torch.rand(shape) for shape in SHAPES]
        mine, theirs = ([v.clone() for v in drawn] for _ in range(2))
        torch.testing.assert_close(play(*mine), step(*theirs))
        torch.testing.assert_close(mine[0], theirs[0])


class Factors(nn.Module):
    """A first layer whose weight is a product: each factor's gradient is made of the other."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = (
            nn.Parameter(torch.ones(5, 2)),
            nn.Parameter(torch.linspace(-1, 1, 72).view(2, 36)),
        )
        self.out = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.out(torch.tanh(x.flatten(1) @ (self.left @ self.right).T))
        return found


class Tied(nn.Module):
    """One weight there and back, a parameter nobody uses, and one that is a single number."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(-1, 1, 144).view(4, 36).sin())
        self.unused, self.scale = nn.Parameter(torch.ones(3)), nn.Parameter(torch.tensor(1.5))
        self.frozen = nn.Linear(36, 36).requires_grad_(False)
        self.out = nn.Linear(36, 3)

    def forward(self, x: Tensor) -> Tensor:
        there = torch.relu(self.frozen(x.flatten(1)) @ self.weight.T)
        found: Tensor = self.out(there @ self.weight) * self.scale
        return found


class Overwriting(nn.Module):
    """Copies that are written to through a view, and activations that are changed where they lie."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.bias, self.out = nn.Linear(36, 5), nn.Parameter(torch.ones(5)), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        copied = torch.mul(self.bias, 1)
        copied.view(-1).mul_(3.0)
        found: Tensor = self.out(
            nn.functional.relu(self.first(x.flatten(1)) + copied - self.bias, inplace=True)
        )
        return found


NORMED = nn.Sequential(
    nn.Flatten(), nn.Linear(36, 7), nn.BatchNorm1d(7), nn.ReLU(), nn.Dropout(0.3), nn.Linear(7, 3)
)


@pytest.mark.parametrize("model", [Factors(), Tied(), Overwriting(), NORMED], ids=lambda m: type(m).__name__)
def test_models_that_share_and_overwrite_memory_agree(model: nn.Module) -> None:
    """Weights made of weights, used twice or not at all, copies written to, statistics kept in the middle."""
    for settings in ({}, {"batch": 4}):  # clients of six samples: whole batches, and short ones
        assert apart("fedavg", model=model, **settings) < 1e-9


@dataclass(frozen=True)
class OfWeights(Objective):
    """Directions made of the weights themselves, and a hyper-parameter that has no hash."""

    name: ClassVar[str] = "of_weights"
    shares: list[float] = field(default_factory=lambda: [0.5])

    def correct(self, grads: Tree, step: Step) -> Tree:
        return {k: p if p.dim() < 2 else self.shares[0] * p @ p.T @ p for k, p in step.params.items()}


def test_a_direction_made_of_weights_agrees() -> None:
    """w <- w - r w w' w: the last product reads the weights that it is added to."""
    method = replace(Method.parse("fedavg"), objective=(OfWeights(),))
    dense = {"model": "mlp(hidden=[5])", "rounds": 2, "lr": 0.01}
    expected = play(method, equal_clients(), **dense).state.params
    found = play(method, equal_clients(), engine=FastCPU(workers=1, record=True), **dense).state.params
    assert max(float((found[k] - v).abs().max()) for k, v in expected.items()) < 1e-9


def recorded_from(step: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    """A function of two tensors, recorded and rewritten as a step is."""
    return rewritten(step, torch.ones(2, 3), torch.ones(2, 3))


def rewritten(step: Callable[..., Tensor], *values: Tensor) -> Callable[..., Tensor]:
    traced = trace(step, list(values))
    rewrite_graph(traced)
    return traced.compiled()


@pytest.mark.parametrize("written", ["copy", "original", "view of the copy"])
def test_a_copy_stays_where_it_or_its_original_changes(written: str) -> None:
    """y = 1 x, then x or y is doubled: x + y is 3 where both were 1, and 2 with neither."""

    def step(x: Tensor, y: Tensor) -> Tensor:
        copied = aten.mul.Scalar(x, 1)
        shown = copied.view(6)
        {"copy": copied, "original": x, "view of the copy": shown}[written].mul_(2)
        return x + shown.view(2, 3) + y

    found = recorded_from(step)(torch.ones(2, 3), torch.zeros(2, 3))
    assert torch.equal(found, torch.full((2, 3), 3.0))


def test_a_copy_of_what_nobody_changes_is_dropped_unless_its_type_is_another() -> None:
    """1 x is x; but 1.0 x of whole numbers is not whole any more."""
    same, ones = recorded_from(lambda x, y: aten.mul.Scalar(x, 1) + y), torch.ones(2, 3)
    with Operations() as run:
        assert torch.equal(same(ones, ones), ones + ones)
    assert not run.count[aten.mul.Scalar]
    whole = torch.ones(3, dtype=torch.int64)
    assert rewritten(lambda x: aten.mul.Scalar(x, 1.0) / 2, whole)(whole).dtype == torch.float32


def test_a_constant_that_is_written_to_is_made_anew_each_time() -> None:
    """A counter that begins at 0 in every step is 1 after any of them."""
    counting = recorded_from(lambda x, y: torch.scalar_tensor(0.0).add_(1) + x * 0)
    assert [float(counting(torch.ones(2, 3), torch.ones(2, 3)).max()) for _ in range(3)] == [1, 1, 1]


def test_a_product_is_computed_before_its_factors_change() -> None:
    """(a b)^T is read after a was doubled: it is that of the a there was."""

    def step(a: Tensor, b: Tensor) -> Tensor:
        product = torch.bmm(a, b)
        a.mul_(2)
        return product.transpose(1, 2) + 0

    ones = torch.ones(1, 2, 2)
    found = rewritten(step, ones.clone(), ones)
    assert torch.equal(found(ones.clone(), ones), torch.full((1, 2, 2), 2.0))


def test_tensors_that_lie_differently_are_other_recordings() -> None:
    """One number shown three times cannot be viewed as three numbers in a row can."""
    shown, whole = ({"shared/part/share": v} for v in (torch.ones(1).expand(3), torch.ones(3)))
    assert layout_key(shown) != layout_key(whole)


def test_a_longer_run_records_where_a_shorter_one_does() -> None:
    """Steps are recorded by the work of a round, so the first rounds of both are the same to the bit."""
    cpu = torch.device("cpu")
    for rounds in (1, 10, 1000):
        for work, recorded in ((3e9, True), (1e9, False)):
            engine = choose(Spec(rounds=rounds), cpu, rounds * work)
            assert isinstance(engine, FastCPU)
            assert engine.record is recorded
