"""What a drawing says of a model is what torch makes of it."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from unskew.core.net import Net
from unskew.errors import InputError
from unskew.models import MODELS, BatchNorm, Dropout, build, drawing
from unskew.models.building import named

OTHER = {
    "harnet": (1, 70, 2),
    "audionet": (1, 41, 90),
    "linear": (9, 128),
    "mlp": (7,),
    "vgg11": (2, 33, 40),
}
"""Shapes that a model was not designed for; those not listed take images of 17 x 20 with two channels."""


def drawings() -> list[tuple[str, tuple[int, ...], int]]:
    found = []
    for name, model in MODELS.items():
        found += [(name, model.native, model.classes), (name, OTHER.get(name, (2, 17, 20)), 3)]
    sized = [("mlp(hidden=[10, 5])", (4,), 3), ("harnet(width=8)", (1, 128, 3), 6)]
    return [
        *found,
        *sized,
        ("moon_cnn(project=7)", (1, 16, 16), 4),
        ("thesis_cifar(double_softmax=true)", (3, 8, 8), 2),
    ]


@pytest.mark.parametrize(("name", "shape", "classes"), drawings())
def test_a_drawing_says_what_torch_makes(name: str, shape: tuple[int, ...], classes: int) -> None:
    """Shapes at every cut, parameters below it, every tensor, multiply-adds of the whole, and special layers."""
    drawn, net = named(name).draw(shape, classes), build(name, shape, classes).eval()
    assert drawn.layers == net.layers
    below, at, x = 0, shape, torch.zeros(1, *shape)
    for layer in drawn.layers:
        at, below = drawn.stages[layer].shaped(at), below + drawn.stages[layer].parameters
        assert at == tuple(net.embed(x, layer).shape[1:])
        children = dict(net.named_children())
        made = [children[stage] for stage in list(children)[: net.layers.index(layer) + 1]]
        assert below == sum(p.numel() for stage in made for p in stage.parameters())
    assert drawn.shaped(shape) == (classes,)
    assert drawn.parameters == sum(p.numel() for p in net.parameters())
    assert drawn.weights == {k: tuple(p.shape) for k, p in net.named_parameters()}
    assert drawn.weights | drawn.statistics == {k: tuple(v.shape) for k, v in net.state_dict().items()}
    assert drawn.multiply_adds(shape) == Net(net).multiply_adds(shape)
    for kind, torchs in ((drawing.Dropout, Dropout), (drawing.BatchNorm, BatchNorm)):
        drawn_of = sum(isinstance(layer, kind) for layer in drawn.all())
        assert drawn_of == sum(isinstance(module, torchs) for module in net.modules())


@pytest.mark.parametrize("name", MODELS)
def test_the_widest_place_of_a_model_is_the_largest_output_of_a_layer(name: str) -> None:
    """Which is what is asked of memory before a model is made."""
    shape, net = MODELS[name].native, build(name, MODELS[name].native, 10).eval()
    sizes = [torch.zeros(1, *shape).numel()]
    for module in net.modules():
        module.register_forward_hook(lambda module, given, out: sizes.append(out.numel()))
    net(torch.zeros(1, *shape))
    assert named(name).draw(shape, 10).widest(shape) == max(sizes)


def test_a_drawing_too_large_for_any_memory_is_refused_by_its_count() -> None:
    """Whole numbers have no end, so it is counted like any other."""
    with pytest.raises(InputError, match=r"mlp .* with 79,500,000,010 weights, would take .* of memory"):
        build("mlp(hidden=[100000000])", (1, 28, 28), 10)


def test_drawing_every_model_loads_no_torch() -> None:
    """Which takes a second, and ``unskew models NAME`` needs none."""
    code = (
        "import sys; from unskew.models.zoo import MODELS\n"
        "for m in MODELS.values(): assert m().draw(m.native, m.classes).parameters == m.size\n"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
