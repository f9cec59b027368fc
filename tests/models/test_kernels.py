"""The kernels for stacked clients, run by Triton's interpreter on the CPU, which conftest.py asks for.

They are measured by torch's own layers, client by client. ``tests/engines/gpu/test_on_a_gpu.py`` runs them on a GPU.
"""

from __future__ import annotations

import atexit
import contextlib
import math
import os
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn import functional as F

from unskew.core.client import Pool
from unskew.core.method import Method
from unskew.core.net import Net
from unskew.core.stacked_task import with_kernels
from unskew.core.task import CLASSIFICATION, Classification
from unskew.engines.gpu.fast import FastGPU
from unskew.engines.gpu.grouping import Way
from unskew.errors import InputError
from unskew.models import build
from unskew.models.kernels import available, convolution, normalisation
from unskew.models.kernels.beginning import Begun, PlannedSteps, PoolTensors, begin, knows
from unskew.models.kernels.books import add_losses
from unskew.models.kernels.rounding import RoundedCopies, rounded
from unskew.models.layers import BatchNorm, Dropout
from unskew.models.split import Stages
from unskew.models.stacked_layers import fits_kernels, use_kernels
from unskew.testing.toy_federation import apart, normed, play

pytest.importorskip("triton")

# Triton's bindings say at exit, at length, what they have not put away
atexit.register(lambda: os.dup2(os.open(os.devnull, os.O_WRONLY), 2))

CLIENTS = 2


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).requires_grad_()


def one_by_one(layer: nn.Module, tensors: dict[str, Tensor], x: Tensor) -> Tensor:
    """Each client's own call of torch's layer."""
    rows = [functional_call(layer, {k: v[i] for k, v in tensors.items()}, (x[i],)) for i in range(len(x))]
    return torch.stack(rows)


def at_once(layer: nn.Module, tensors: dict[str, Tensor], x: Tensor) -> Tensor:
    """All clients' by the kernels."""
    use_kernels(layer)
    return vmap(lambda given, x: functional_call(layer, given, (x,)))(tensors, x)


def differences(layer: Callable[[], nn.Module], tensors: dict[str, Tensor], x: Tensor) -> list[float]:
    """Of the outputs, the gradients and what is measured, relative to the largest of each."""
    found = []
    for way in (one_by_one, at_once):
        given = {k: v if v.requires_grad else v.clone() for k, v in tensors.items()}
        y = way(layer().train(), given, x)
        slope = torch.randn(y.shape, generator=torch.Generator().manual_seed(9))
        leaves = [x, *(v for v in given.values() if v.requires_grad)]
        grads = torch.autograd.grad(y, leaves, slope)
        found.append([y.detach(), *grads, *(v for v in given.values() if not v.requires_grad)])
    return [float((a - b).abs().max() / (b.abs().max() + 1e-12)) for b, a in zip(*found, strict=True)]


@pytest.mark.parametrize(
    ("channels", "out", "image", "side", "stride", "padding"),
    [
        (3, 5, (8, 8), 3, 1, 1),
        (4, 6, (9, 7), 5, 2, 2),
        (17, 20, (6, 6), 3, 1, 0),
        (32, 48, (5, 5), 3, 1, 1),
        (16, 32, (9, 9), (5, 3), (2, 1), (2, 0)),
        (64, 16, (1, 6), (1, 3), 1, 0),
        (16, 32, (3, 3), 3, 1, 0),  # a single place is left of an image: its steps say nothing
    ],
)
def test_a_convolution_and_its_gradients_are_those_of_each_client(
    channels: int, out: int, image: tuple[int, int], side: Any, stride: Any, padding: Any
) -> None:
    """Filters of any size, step and frame; channels that fill tiles and such that do not."""

    def layer() -> nn.Module:
        return nn.Sequential(nn.Conv2d(channels, out, side, stride, padding))

    tensors = {k: drawn(CLIENTS, *v.shape, seed=i) for i, (k, v) in enumerate(layer().named_parameters())}
    assert max(differences(layer, tensors, drawn(CLIENTS, 2, channels, *image, seed=5))) < 1e-5


@pytest.mark.parametrize("cut", convolution.TILINGS)
def test_a_convolution_is_the_same_however_it_is_cut(
    monkeypatch: pytest.MonkeyPatch, cut: convolution.Tiling
) -> None:
    """Which tiles are taken goes by how many programs they make: here each for few."""
    monkeypatch.setattr(convolution, "TILINGS", (cut._replace(enough=0),))

    def layer() -> nn.Module:
        return nn.Sequential(nn.Conv2d(32, 80, 3, padding=1))

    tensors = {k: drawn(CLIENTS, *v.shape, seed=i) for i, (k, v) in enumerate(layer().named_parameters())}
    assert max(differences(layer, tensors, drawn(CLIENTS, 2, 32, 3, 5, seed=5))) < 1e-5


def test_filters_are_rounded_once_a_step_and_their_copies_stand_for_them_no_longer() -> None:
    """A copy lies as its weight does, and stays where it is: steps of fewer clients may have been captured before."""
    copies, weight = RoundedCopies(), drawn(3, 4, 2, 3, 3).detach().transpose(2, 4)
    with copies.standing_for({"w": weight[:2]}, {"w": weight}):
        first = rounded(weight[:2], torch.bfloat16)
        assert torch.equal(first, weight[:2].bfloat16())
        assert first.stride() == weight.stride()
        assert rounded(weight[:2], torch.float32).data_ptr() == weight.data_ptr()
    weight += 1
    with copies.standing_for({"w": weight}, {"w": weight}):
        second = rounded(weight, torch.bfloat16)
        assert second.data_ptr() == first.data_ptr()
        assert torch.equal(second, weight.bfloat16())
    assert rounded(weight, torch.bfloat16).data_ptr() != first.data_ptr()


@pytest.mark.parametrize(("inputs", "outputs", "bias"), [(256, 10, True), (33, 3, False), (300, 70, True)])
def test_a_classifier_is_a_convolution_of_images_of_one_place(inputs: int, outputs: int, bias: bool) -> None:
    """In a model of the library, where nobody takes its weights for something else."""

    def layer() -> nn.Module:
        return Stages({"seen": nn.Identity(), "out": nn.Linear(inputs, outputs, bias)})

    assert use_kernels(layer()) == {"out.weight", "out.bias"} - (set() if bias else {"out.bias"})
    assert not use_kernels(nn.Sequential(nn.Linear(inputs, outputs)))
    tensors = {k: drawn(CLIENTS, *v.shape, seed=i) for i, (k, v) in enumerate(layer().named_parameters())}
    assert max(differences(layer, tensors, drawn(CLIENTS, 5, inputs, seed=5))) < 1e-5


@pytest.mark.parametrize("most", [2**16 - 1, 3])
def test_a_convolution_over_many_places_adds_their_gradients_in_parts(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """More places than one program adds up; and in fewer parts where a GPU could not start as many programs."""
    monkeypatch.setattr(convolution, "MOST_PROGRAMS", most)

    def layer() -> nn.Module:
        return nn.Sequential(nn.Conv2d(2, 16, 3, padding=1, bias=False))

    x = drawn(CLIENTS, 2, 2, 12, 13, seed=5)
    assert max(differences(layer, {"0.weight": drawn(CLIENTS, 16, 2, 3, 3)}, x)) < 1e-5


@pytest.mark.parametrize("few", [0, 10**9])
@pytest.mark.parametrize("shape", [(5, 4, 6, 6), (7, 33), (3, 5, 20, 20), (4, 6, 9), (4, 3, 1, 1)])
def test_batch_norm_counts_the_samples_that_count(
    shape: tuple[int, ...], few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Images, features and sequences, in one tile and in several, small and large; padding holds infinities; averages
    move alike."""
    for way in ("FORWARD", "BACKWARD"):
        monkeypatch.setattr(normalisation, way, getattr(normalisation, way)._replace(few=few))

    def layer() -> nn.Module:
        return nn.Sequential(BatchNorm(shape[1]))

    x = drawn(CLIENTS, *shape, seed=5).detach()
    weight = torch.ones(CLIENTS, shape[0])
    weight[0, -1] = weight[1, -2:] = 0
    x[weight == 0] = torch.inf
    running = {
        "0.running_mean": torch.zeros(CLIENTS, shape[1]),
        "0.running_var": torch.ones(CLIENTS, shape[1]),
    }
    learned = {"0.weight": drawn(CLIENTS, shape[1], seed=1), "0.bias": drawn(CLIENTS, shape[1], seed=2)}
    given = learned | running | {"0.sample_weight": weight}
    assert max(differences(layer, given, x.requires_grad_())) < 1e-5


def test_batch_norm_takes_what_it_learned_however_it_lies() -> None:
    """An optimiser's layout follows the gradients', which may have clients side by side."""

    def layer() -> nn.Module:
        return nn.Sequential(BatchNorm(3, track_running_stats=False))

    learned = {
        f"0.{name}": drawn(3, CLIENTS, seed=i).detach().t().requires_grad_()
        for i, name in enumerate(("weight", "bias"))
    }
    assert max(differences(layer, learned, drawn(CLIENTS, 4, 3, 5, 5, seed=5))) < 1e-5


def test_batch_norm_refuses_weights_of_other_samples() -> None:
    """A kernel would read on behind them."""
    given = {"0.sample_weight": torch.ones(CLIENTS, 2)}
    with pytest.raises(InputError, match="got 6 rows but 2 sample weights"):
        at_once(nn.Sequential(BatchNorm(4)).train(), given, torch.randn(CLIENTS, 6, 4))


class Residual(nn.Module):
    """What users write: what layers put out is written into."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(4, 4, 3, padding=1, bias=False), BatchNorm(4)
        self.pool, self.relu = nn.MaxPool2d(2), nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.conv(x))
        y = self.norm(y)
        y += x
        y = self.pool(y)
        y *= 2
        return y


def test_models_write_into_what_layers_put_out() -> None:
    """Residual sums and ReLUs in place, as in most models that users have."""
    learned = {k: drawn(CLIENTS, *v.shape, seed=i) for i, (k, v) in enumerate(Residual().named_parameters())}
    running = {f"norm.running_{k}": torch.ones(CLIENTS, 4) for k in ("mean", "var")}
    assert max(differences(Residual, learned | running, drawn(CLIENTS, 3, 4, 6, 6, seed=5))) < 1e-5


def test_a_vmap_inside_another_is_torchs_own() -> None:
    """A part of one's own may run the model on several batches at once."""
    layers = nn.Sequential(nn.Conv2d(3, 16, 3), BatchNorm(16, track_running_stats=False), nn.MaxPool2d(2))
    given = {k: torch.randn(CLIENTS, *v.shape) for k, v in layers.named_parameters()}
    x = torch.randn(CLIENTS, 2, 4, 3, 6, 6)

    def one(given: dict[str, Tensor], x: Tensor) -> Tensor:
        return functional_call(layers, given, (x,))

    expected = [[one({k: v[i] for k, v in given.items()}, batch) for batch in x[i]] for i in range(CLIENTS)]
    use_kernels(layers)
    found = vmap(vmap(one, in_dims=(None, 0)))(given, x)
    assert torch.allclose(found, torch.stack([torch.stack(rows) for rows in expected]), atol=1e-5)


def test_the_relu_behind_batch_norm_is_done_by_it() -> None:
    """In a model of the library, which nobody cuts in between."""
    model = build("resnet9", (3, 8, 8), 10, 0).train()
    use_kernels(model)
    assert not [m for m in model.modules() if type(m) is nn.ReLU]
    x = torch.randn(2, 3, 8, 8)
    plain = build("resnet9", (3, 8, 8), 10, 0).train()
    assert torch.allclose(model(x), plain(x))


@pytest.mark.parametrize(("window", "image"), [(2, (6, 8)), ((4, 2), (9, 7)), (3, (3, 3))])
def test_max_pooling_hands_the_gradient_to_the_first_of_the_largest(
    window: Any, image: tuple[int, int]
) -> None:
    """Also where some places are under no window, and where several are the largest."""
    x = drawn(CLIENTS, 3, 40, *image, seed=5).detach().round().requires_grad_()
    assert max(differences(lambda: nn.Sequential(nn.MaxPool2d(window)), {}, x)) == 0


def test_dropout_leaves_out_the_same_values() -> None:
    """By each client's own seed."""

    def layer() -> nn.Module:
        return nn.Sequential(Dropout(0.3, index=2))

    seeds = torch.tensor([123456789012345, -98765432109876])
    assert max(differences(layer, {"0.seed": seeds}, drawn(CLIENTS, 6, 700))) < 1e-6


@pytest.mark.parametrize(("samples", "classes"), [(5, 10), (40, 70), (3, 1000), (1, 2)])
def test_cross_entropy_is_the_mean_of_what_counts(samples: int, classes: int) -> None:
    """With weights of any size, and padding, which may hold anything; one client has nothing else."""
    logits = (8 * drawn(4, samples, classes, seed=3).detach()).requires_grad_()
    targets = torch.randint(0, classes, (4, samples), generator=torch.Generator().manual_seed(4))
    weight = torch.ones(4, samples)
    weight[1], weight[2, -1], weight[3] = 0.1, 0, 0
    expected = torch.stack([CLASSIFICATION.loss(*one) for one in zip(logits, targets, weight, strict=True)])
    slopes = torch.tensor([1.0, -2.0, 0.5, 3.0])
    (steep,) = torch.autograd.grad(expected, logits, slopes)
    padded = torch.where(weight[:, :, None] > 0, logits.detach(), torch.nan).requires_grad_()
    found = vmap(with_kernels(CLASSIFICATION).loss)(padded, targets, weight)
    (gradient,) = torch.autograd.grad(found, padded, slopes)
    assert torch.allclose(found, expected, rtol=1e-5)
    assert torch.allclose(gradient, steep, rtol=1e-5, atol=1e-7)


def test_cross_entropy_of_outputs_in_bf16_is_in_float32() -> None:
    """Which are read as they come, and whose gradient goes back in their type; torch's own, too."""
    logits = drawn(CLIENTS, 5, 3).detach().to(torch.bfloat16).requires_grad_()
    targets, weight = torch.tensor([[0, 1, 2, 2, 0]] * CLIENTS), torch.rand(CLIENTS, 5)
    wide = logits.detach().float().requires_grad_()
    expected = torch.stack([CLASSIFICATION.loss(*one) for one in zip(wide, targets, weight, strict=True)])
    (steep,) = torch.autograd.grad(expected.sum(), wide)
    for classes in (targets, F.one_hot(targets, 3).float()):
        found = vmap(with_kernels(CLASSIFICATION).loss)(logits, classes, weight)
        (gradient,) = torch.autograd.grad(found.sum(), logits)
        assert torch.allclose(found, expected, rtol=1e-5)
        assert torch.allclose(gradient.float(), steep, rtol=2**-7)


def test_losses_are_added_up_but_for_those_who_wait() -> None:
    """A client that has finished trains on padding, of which anything may come."""
    losses, value = torch.arange(200, dtype=torch.float64), torch.rand(150)
    weight = torch.ones(150, 4)
    weight[3:140, 0], value[3] = 0, torch.nan
    expected = losses.clone()
    expected[:150] += torch.where(weight[:, 0] > 0, value, 0)
    add_losses(losses[:150], value, weight)
    assert torch.equal(losses, expected)


def test_a_loss_of_another_kind_is_torchs_own() -> None:
    """Classes that count differently, shares of classes, weights that are learned, a client alone, an own task."""
    task = with_kernels(CLASSIFICATION)
    logits, targets, weight = (
        drawn(CLIENTS, 5, 3),
        torch.tensor([[0, 1, 2, 2, 0]] * CLIENTS),
        torch.rand(CLIENTS, 5),
    )
    by_class, soft = torch.tensor([1.0, 2.0, 0.5]), F.one_hot(targets, 3).float()
    for given in ((targets, weight, by_class.expand(CLIENTS, 3)), (soft, weight), (targets,)):
        each = [CLASSIFICATION.loss(*one) for one in zip(logits, *given, strict=True)]
        assert torch.allclose(vmap(task.loss)(logits, *given), torch.stack(each))
    learned = weight.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(vmap(task.loss)(logits, targets, learned).sum(), learned)
    assert gradient.abs().sum() > 0
    assert torch.equal(
        task.loss(logits[0], targets[0], weight[0]), CLASSIFICATION.loss(logits[0], targets[0], weight[0])
    )

    class Own(Classification):
        pass

    assert type(with_kernels(own := Own())) is type(own)


def pool_of(kind: torch.dtype, channels: int = 3, last: bool = False, count: int = 11) -> PoolTensors:
    """Images with their labels, and by what they are normalised."""
    x = torch.randint(0, 256, (count, channels, 5, 7), generator=torch.Generator().manual_seed(0)).to(kind)
    x = x.contiguous(memory_format=torch.channels_last) if last else x
    mean, std = (torch.linspace(low, 100, channels).reshape(-1, 1, 1) for low in (90, 33))
    return PoolTensors(x, torch.arange(count) % 4, mean, std)


def planned_for(count: int, masks: bool = True) -> PlannedSteps:
    """Three steps of three clients, of four samples at most."""
    drawn = torch.Generator().manual_seed(1)
    places = torch.randint(0, count, (3, 3, 4), generator=drawn)
    weight, rate = torch.rand(3, 3, 4, generator=drawn), torch.rand(3, 3, generator=drawn)
    return PlannedSteps(
        places, weight, rate, torch.randint(0, 2**62, (3, 3), generator=drawn) if masks else None
    )


@pytest.mark.parametrize(
    ("kind", "channels", "last"),
    [(torch.uint8, 3, False), (torch.uint8, 1, False), (torch.float32, 3, False), (torch.uint8, 20, True)],
)
def test_a_step_begins_with_what_torch_looks_up(kind: torch.dtype, channels: int, last: bool) -> None:
    """To the bit: samples from pools of any layout, and all that is planned, for some of the clients."""
    pool = pool_of(kind, channels, last)
    planned = planned_for(len(pool.y), masks=channels == 3)
    assert knows(pool, planned)
    places, weight, rate, seeds = (None if v is None else v[1, :2] for v in planned)
    expected = Begun(*Pool(*pool).take(places), weight, rate, seeds)
    for side_by_side in (True, False):
        found = begin(torch.tensor([1]), planned, pool, 2, torch.float32, side_by_side)
        assert (found.x.stride(2) == 1) == (side_by_side or last)
        for mine, theirs in zip(found, expected, strict=True):
            assert theirs is None or torch.equal(mine, theirs)
        assert (found.seeds is None) == (seeds is None)


def test_a_step_begins_with_images_rounded_as_a_halved_net_rounds_them() -> None:
    """The net would do it as its first act. Triton's interpreter cuts digits off, where a GPU rounds."""
    pool = pool_of(torch.uint8)
    planned = planned_for(len(pool.y))
    found = begin(torch.tensor([2]), planned, pool, 3, torch.bfloat16, True)
    assert found.x.dtype is torch.bfloat16
    assert torch.allclose(found.x.float(), Pool(*pool).take(planned.places[2])[0], rtol=2**-7)


@pytest.mark.parametrize(
    "other",
    [
        {"x": torch.zeros(11, 60, dtype=torch.uint8)},
        {"x": torch.zeros(11, 3, 5, 7, dtype=torch.float64)},
        {"y": torch.zeros(11, 4)},
        {"mean": torch.zeros(3, 5, 7)},
        {"std": torch.zeros(3, 1, 1, dtype=torch.float64)},
    ],
)
def test_what_is_no_plain_pool_of_images_torch_looks_up(other: dict[str, Tensor]) -> None:
    """Rows of features, soft labels, a mean for each place, other types."""
    assert not knows(pool_of(torch.uint8)._replace(**other), planned_for(11))


def test_layers_that_are_not_stacked_are_torchs_own() -> None:
    """A single model, as a server has it, and images that all clients share."""
    layer = nn.Sequential(nn.Conv2d(3, 16, 3), BatchNorm(16), nn.MaxPool2d(2))
    x = torch.randn(4, 3, 8, 8)
    expected = layer.eval()(x)
    use_kernels(layer)
    assert torch.equal(layer(x), expected)
    stacked = {k: v.expand(CLIENTS, *v.shape) for k, v in layer.state_dict().items()}
    found = vmap(lambda given: functional_call(layer, given, (x,)))(stacked)
    assert torch.allclose(found, expected.expand_as(found), atol=1e-6)


@pytest.fixture
def trusted_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton's interpreter does not look for overflow of whole numbers, which takes nearly half of its time. For whole
    runs, of kernels whose own tests do look."""
    interpreter = pytest.importorskip("triton.runtime.interpreter")
    options = interpreter.InterpreterOptions(sanitize_overflow=False)
    monkeypatch.setattr(interpreter.interpreter_builder, "options", options)


@pytest.mark.parametrize("method", ["scaffold+sem", "moon", "fedmix(group=2)"])
def test_runs_have_the_numbers_of_the_loop(method: str, trusted_sums: None) -> None:
    """A whole round of the GPU's engine, with batch norm and dropout, in float32."""
    given: dict[str, Any] = {"model": normed, "precision": "fp32", "rounds": 1}
    engine = FastGPU("cpu", kernels=True, capture=False)
    found = play(Method.parse(method), engine=engine, **given)
    assert {room.way for room in engine.rooms} == {Way.KERNELS}
    assert apart(play(Method.parse(method), **given).state.params, found.state.params) < 1e-5


def test_float64_keeps_its_digits() -> None:
    """The kernels add in float32, so they do not run, also where they are asked for."""
    given: dict[str, Any] = {"model": normed, "precision": "fp64", "rounds": 1}
    engine = FastGPU("cpu", kernels=True, capture=False)
    found = play(Method.parse("fedavg"), engine=engine, **given)
    assert apart(play(Method.parse("fedavg"), **given).state.params, found.state.params) < 1e-12


@pytest.mark.parametrize(
    ("model", "shape", "fits"),
    [
        ("resnet9", (3, 32, 32), True),
        ("vgg11", (3, 32, 32), True),
        ("lenet", (1, 28, 28), False),  # of 6 filters
        ("mobilenet_v2", (3, 32, 32), False),  # filters of one channel each
        ("mlp", (1, 28, 28), False),
    ],
)
def test_models_fit_the_kernels_that_convolve_plainly_with_many_filters(
    model: str, shape: tuple[int, ...], fits: bool
) -> None:
    """Tensor cores take sixteen channels at once."""
    assert fits_kernels(build(model, shape, 10, 0)) == fits


def test_a_relu_outside_a_stage_stays() -> None:
    """A model of one's own may be cut before it."""
    own = nn.Sequential(nn.Conv2d(3, 16, 3), BatchNorm(16), nn.ReLU())
    use_kernels(own)
    assert type(own[2]) is nn.ReLU
    assert torch.equal(F.relu(own[1](x := torch.randn(2, 16, 4, 4))), own[2](own[1](x)))


class Own(nn.Module):
    """A model of one's own, as tutorials write them."""

    def __init__(self) -> None:
        super().__init__()
        self.filters, self.out = nn.Conv2d(3, 16, 3), nn.Linear(16 * 6 * 6, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.seen(x).flatten(1))

    def seen(self, x: Tensor) -> Tensor:
        return F.relu(self.filters(x))


class Views(Own):
    def seen(self, x: Tensor) -> Tensor:
        return self.filters(x).view(len(x), -1)


class UsesItsFilters(Own):
    def seen(self, x: Tensor) -> Tensor:
        return F.conv2d(x, self.filters.weight - self.filters.weight.mean())


@pytest.mark.parametrize(
    ("model", "runs"), [(Own, (True, True)), (Views, (False, False)), (UsesItsFilters, (True, False))]
)
def test_models_that_could_not_take_what_kernels_put_out_are_found_by_trying(
    model: type[Own], runs: tuple[bool, bool]
) -> None:
    """They are trained as before, and no run ends for it: in float32, and in bf16."""
    net = Net(build(model, (3, 8, 8), 10, 0))
    assert tuple(net.runs_with_kernels((3, 8, 8), half) for half in (False, True)) == runs
    assert Net(build("resnet9", (3, 8, 8), 10, 0)).runs_with_kernels((3, 8, 8), half=True)


def test_whether_kernels_can_be_had_is_tried_by_all_that_a_step_starts() -> None:
    """A trial that failed for a reason of its own would leave a GPU without them."""
    assert math.isfinite(available._try(torch.device("cpu"), samples=1))


def test_where_kernels_cannot_be_had_a_run_goes_on_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where there is no C compiler, which Triton needs to start its kernels."""

    def fails(device: torch.device) -> None:
        raise RuntimeError("Failed to find C compiler.\nPlease specify one")

    monkeypatch.setattr(available, "_try", fails)
    monkeypatch.setattr(torch.cuda, "device", contextlib.nullcontext)
    with pytest.warns(
        UserWarning, match=r"\(RuntimeError: Failed to find C compiler.\); clients are trained"
    ):
        assert not available.has_kernels.__wrapped__(torch.device("cuda"))
