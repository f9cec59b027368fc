"""build(): seeds, types, users' own models, and the sentences for what does not fit."""

from __future__ import annotations

import copy
import pickle
import random
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from unskew.errors import InputError
from unskew.models import MODELS, Stages, adapt, build, context, trees

SHAPE = (1, 8, 8)


class Plain(nn.Module):
    """A module as users write them: children, and functions in between."""

    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, width, 3)
        self.norm = nn.BatchNorm2d(width)
        self.drop = nn.Dropout2d(0.3)
        self.fc = nn.Linear(width, 10)

    def forward(self, x):
        return self.fc(F.relu(self.drop(self.norm(self.conv(x)))).mean((2, 3)))


def weights(net: nn.Module) -> list[torch.Tensor]:
    return [p.detach() for p in net.parameters()]


def equal(one: nn.Module, other: nn.Module) -> bool:
    return all(torch.equal(a, b) for a, b in zip(weights(one), weights(other), strict=True))


class TestSeed:
    def test_decides_the_weights_alone(self) -> None:
        """Neither what was drawn before nor torch's defaults matter."""
        first = build("small_cnn", SHAPE, 10, seed=3)
        torch.rand(17)
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            second = build("small_cnn", SHAPE, 10, seed=3)
            assert torch.get_default_dtype() == torch.float64
        finally:
            torch.set_default_dtype(before)
        assert equal(first, second)
        assert not equal(first, build("small_cnn", SHAPE, 10, seed=4))

    @pytest.mark.parametrize("model", [*MODELS, Plain, Plain()])
    def test_leaves_the_global_generators_alone(self, model) -> None:
        before = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()  # noqa: NPY002
        build(model, (1, 64, 32), 10)
        assert torch.equal(before[0], torch.get_rng_state())
        assert before[1:] == (np.random.get_state()[1].tolist(), random.getstate())  # noqa: NPY002

    def test_reaches_a_users_class(self) -> None:
        assert equal(build(Plain, SHAPE, 10, seed=1), build(Plain, SHAPE, 10, seed=1))
        assert not equal(build(Plain, SHAPE, 10, seed=1), build(Plain, SHAPE, 10, seed=2))

    def test_a_type_does_not_change_the_weights(self) -> None:
        """float64 weights are the float32 ones, widened."""
        single, double = build("mlp", SHAPE, 10), build("mlp", SHAPE, 10, dtype=torch.float64)
        assert weights(double)[0].dtype == torch.float64
        assert all(torch.equal(a.double(), b) for a, b in zip(weights(single), weights(double), strict=True))


class TestOwnModels:
    @pytest.fixture
    def zoo(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A module of the user's in the current folder, which is not on the path."""
        (tmp_path / "my_zoo.py").write_text(
            "import torch\n"
            "from torch import nn\n"
            "class Net(nn.Sequential):\n"
            "    def __init__(self):\n"
            "        super().__init__(nn.Flatten(), nn.Linear(64, 10))\n"
            "class Fitted(nn.Module):\n"
            "    def __init__(self, shape, classes, width=3):\n"
            "        super().__init__()\n"
            "        self.conv = nn.Conv2d(shape[0], width, 3)\n"
            "        self.fc = nn.Linear(width, classes)\n"
            "    def forward(self, x):\n"
            "        return self.fc(self.conv(x).relu().mean((2, 3)))\n"
            "class Needy(nn.Module):\n"
            "    def __init__(self, width):\n"
            "        super().__init__()\n"
            "def number(): return 3\n"
            "value = 3\n"
        )
        (tmp_path / "broken_zoo.py").write_text("import nothing_of_this_name\n")
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "path", [p for p in sys.path if p not in ("", str(tmp_path))])
        monkeypatch.delitem(sys.modules, "my_zoo", raising=False)
        return tmp_path

    @pytest.mark.usefixtures("zoo")
    def test_by_package_module_and_class(self) -> None:
        net = build("my_zoo:Net", SHAPE, 10)
        assert net(torch.randn(2, *SHAPE)).shape == (2, 10)
        assert list(net.state_dict()) == ["1.weight", "1.bias"]

    @pytest.mark.usefixtures("zoo")
    def test_shape_and_classes_go_where_they_are_asked_for(self) -> None:
        assert build("my_zoo:Fitted", (3, 8, 8), 4).module.fc.out_features == 4
        assert build("my_zoo:Fitted(width=5)", (3, 8, 8), 4).module.conv.out_channels == 5
        assert build("my_zoo:Fitted(classes=6)", (3, 8, 8), 6).module.fc.out_features == 6

    @pytest.mark.usefixtures("zoo")
    @pytest.mark.parametrize(
        ("name", "sentence"),
        [
            ("my_zoo:Nett", "there is no 'Nett' in 'my_zoo'; did you mean my_zoo:Net?"),
            ("my_zoo:Other", "there is no 'Other' in 'my_zoo'; write package.module:Class"),
            (
                "my_zoo.py:Net",
                "my_zoo.py:Net names a file, and a model is named as Python imports it: write my_zoo:Net in the folder "
                "of my_zoo.py, or with that folder on PYTHONPATH",
            ),
            ("my_zoo:value", "my_zoo:value is of type int; name a class or function that makes an nn.Module"),
            ("my_zoo:number", "my_zoo:number gives a int, but a model must be a torch nn.Module"),
            (
                "my_zoo:Needy",
                "my_zoo:Needy could not be made (TypeError: Needy.__init__() missing 1 required positional "
                "argument: 'width'); write its arguments, as in my_zoo:Needy(width=8), or give them defaults",
            ),
            (
                "no_such_zoo:Net",
                "cannot import 'no_such_zoo' for the model no_such_zoo:Net (ModuleNotFoundError: No module named "
                "'no_such_zoo'); write package.module:Class, as Python would import it from here",
            ),
            (
                "broken_zoo:Net",
                "cannot import 'broken_zoo' for the model broken_zoo:Net (ModuleNotFoundError: No module named "
                "'nothing_of_this_name'); write package.module:Class, as Python would import it from here",
            ),
        ],
    )
    def test_says_what_is_wrong_with_a_name(self, name: str, sentence: str) -> None:
        with pytest.raises(InputError) as error:
            build(name, SHAPE, 10)
        assert str(error.value) == sentence

    def test_a_module_is_copied_with_its_weights(self) -> None:
        mine = Plain().eval()
        net = build(mine, SHAPE, 10, seed=5)
        assert equal(mine, net)
        assert isinstance(mine.norm, nn.BatchNorm2d)
        assert not mine.training
        with torch.no_grad():
            net.module.fc.bias += 1
        assert not equal(mine, net)

    def test_a_function_and_an_architecture_make_models(self) -> None:
        assert build(
            lambda classes: nn.Sequential(nn.Flatten(), nn.Linear(64, classes)), SHAPE, 3
        ).layers == ("0",)
        assert equal(build(MODELS["mlp"](), SHAPE, 3), build("mlp", SHAPE, 3))

    def test_lazy_layers_get_their_size(self) -> None:
        net = build(
            lambda: nn.Sequential(nn.Flatten(), nn.LazyLinear(5), nn.LazyBatchNorm1d(), nn.Linear(5, 3)),
            SHAPE,
            3,
        )
        assert net.state_dict()["1.weight"].shape == (5, 64)
        assert list(net.state_dict())[2:6] == ["2.weight", "2.bias", "2.running_mean", "2.running_var"]

    def test_survives_pickling_and_copying(self) -> None:
        """Workers get the model by pickle; weights and cuts come along, still joined to the module."""
        net = build(Plain, SHAPE, 10)
        x = torch.randn(2, *SHAPE)
        for other in (pickle.loads(pickle.dumps(net)), copy.deepcopy(net)):
            assert torch.equal(other.eval()(x), net.eval()(x))
            assert torch.equal(other.classify(other.features(x)), net(x))
            with torch.no_grad():
                other.module.fc.weight.zero_()
                other.module.fc.bias.fill_(2)
            assert torch.equal(other(x), torch.full((2, 10), 2.0))


class TestTrees:
    def test_hold_trainable_weights_and_running_statistics(self) -> None:
        net = build(Plain, SHAPE, 10)
        params, buffers = trees(net)
        names = ["conv.weight", "conv.bias", "norm.weight", "norm.bias", "fc.weight", "fc.bias"]
        assert list(params) == [f"module.{name}" for name in names]
        assert list(buffers) == ["module.norm.running_mean", "module.norm.running_var"]
        params["module.fc.bias"].add_(1)
        assert not torch.equal(params["module.fc.bias"], net.module.fc.bias)

    def test_leave_frozen_weights_in_the_model(self) -> None:
        mine = Plain()
        mine.conv.requires_grad_(False)
        params, _ = trees(build(mine, SHAPE, 10))
        assert "module.conv.weight" not in params
        assert "module.fc.weight" in params

    def test_context_feeds_what_is_there(self) -> None:
        net = build(Plain, SHAPE, 10)
        seed, weight = torch.tensor(3), torch.ones(4)
        assert context(net, seed, weight) == {"module.drop.seed": seed, "module.norm.sample_weight": weight}
        assert context(net, None, None) == {}
        assert context(build("mlp", SHAPE, 10), seed, weight) == {}


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (
            nn.Sequential(nn.Flatten(), nn.Linear(64, 7)),
            "the model Sequential gives 7 numbers a sample for samples of shape 1x8x8, but the data has 10 classes; "
            "make its last layer give 10 numbers a sample",
        ),
        (
            nn.Conv2d(1, 10, 3),
            "the model Conv2d gives 10x6x6 numbers a sample for samples of shape 1x8x8, but the data has 10 "
            "classes; make its last layer give 10 numbers a sample",
        ),
        (
            nn.LSTM(8, 10),
            "the model LSTM cannot take samples of shape 1x8x8 (LSTM: Expected input to be 2D or 3D, got 4D "
            "instead); change its layers or choose another model",
        ),
        (
            nn.Sequential(nn.Flatten(), nn.Linear(784, 10)),
            "the model Sequential cannot take samples of shape 1x8x8 (mat1 and mat2 shapes cannot be multiplied "
            "(2x64 and 784x10)); change its layers or choose another model",
        ),
    ],
)
def test_a_model_that_does_not_fit_is_refused_in_one_sentence(model: nn.Module, sentence: str) -> None:
    with pytest.raises(InputError) as error:
        build(model, SHAPE, 10)
    assert str(error.value).replace("addmm: ", "") == sentence  # torch says so once something was exported


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"a model is a name, package\.module:Class, an nn.Module or a function"
    ):
        build(3, SHAPE, 10)


def test_stages_of_ones_own_are_a_model() -> None:
    """A SplitModel of the user's is taken as it is, with our layers put in."""
    net = build(
        Stages(
            {"a": nn.Sequential(nn.Flatten(), nn.Linear(64, 5), nn.BatchNorm1d(5)), "b": nn.Linear(5, 10)}
        ),
        SHAPE,
        10,
    )
    assert net.layers == ("a",)
    assert context(net, None, torch.ones(2)).keys() == {"a.2.sample_weight"}


def test_adapt_alone_needs_no_shape() -> None:
    net = adapt(nn.Sequential(nn.Flatten(), nn.Linear(64, 10)))
    assert net.layers == ("0",)


@pytest.mark.parametrize(
    ("option", "said"), [("max_norm", "changes the weights"), ("sparse", "averaged whole")]
)
def test_embeddings_that_write_to_themselves_or_are_sparse_are_refused(option: str, said: str) -> None:
    """In a sentence, before anything runs: engines would give other numbers, or fail in the middle."""
    layer = nn.Embedding(5, 10, **{option: True if option == "sparse" else 1.0})
    model = nn.Sequential(nn.Flatten(), Looked(layer))
    with pytest.raises(InputError, match=f"has an Embedding with {option}.*{said}"):
        build(model, (1, 2, 2), 10)


class Looked(nn.Module):
    """The mean of rows that are looked up."""

    def __init__(self, rows: nn.Embedding) -> None:
        super().__init__()
        self.rows = rows

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.rows(x.long().clamp(0, 4)).mean(1)


class Remembers(nn.Linear):
    """Remembers what it saw in a place of its own: a counter, a buffer that is not saved, an attribute."""

    def __init__(self, where: str) -> None:
        super().__init__(4, 3)
        self.where, self.seen = where, 0.0
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("passing", torch.zeros(4), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.where == "count":
            self.count += 1
        elif self.where == "passing":
            self.passing = 0.9 * self.passing + x.detach().mean(0)
        else:
            self.seen += 1.0
        given: torch.Tensor = super().forward(x - self.passing) * (1 + 0.1 * self.count + self.seen)
        return given


@pytest.mark.parametrize("where", ["count", "passing", "attribute"])
def test_a_model_that_remembers_where_no_run_looks_is_refused(where: str) -> None:
    """Each worker would remember something else, and a resume nothing."""
    with pytest.raises(InputError) as error:
        build(Remembers(where), (4,), 3)
    assert str(error.value) == (
        "the model Remembers gives other numbers when it is called again with the same weights and samples, so a run "
        "could not be repeated; let it draw no random numbers but by nn.Dropout layers, and keep what it remembers in "
        "buffers of floats (register_buffer)"
    )


def odd(change: Callable[[nn.Linear], object]) -> nn.Linear:
    layer = nn.Linear(4, 3)
    change(layer)
    return layer


class Wide(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x).double()


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (
            odd(lambda m: m.register_buffer("phase", torch.ones(3, dtype=torch.complex64))),
            "'phase' of the model Linear holds complex numbers, of which a run would lose half; keep them as "
            "torch.view_as_real has them",
        ),
        (
            odd(lambda m: m.weight.register_hook(lambda slope: slope * 0)),
            "'weight' of the model Linear has a hook, which a run would not call, since it puts its own weights in; "
            "leave it out",
        ),
        (
            nn.Linear(4, 3, device="meta"),
            "'weight' of the model Linear is on the device 'meta', which holds no numbers; make the model on the CPU",
        ),
        (Wide(4, 3), "the model Wide gives float64, and its weights are float32; end its forward with .float()"),
        (
            nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 3), Wide(3, 3), nn.Linear(3, 3).double()),
            "the model Sequential cannot take samples of shape 4 (mat1 and mat2 must have the same dtype, but got "
            "Double and Float); change its layers or choose another model",
        ),
        (
            odd(lambda m: setattr(m, "last", m(torch.zeros(1, 4)))),
            "the model Linear cannot be copied (Only Tensors created explicitly by the user",
        ),
    ],
)  # fmt: skip
def test_what_a_run_would_lose_or_trip_over_is_refused(model: nn.Module, sentence: str) -> None:
    """Not silently left out, nor found in the first step."""
    with pytest.raises(InputError) as error:
        build(model, (4,), 3)
    assert str(error.value).startswith(sentence)
