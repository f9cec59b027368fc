"""adapt(): our layers in a user's module, and where it can be cut."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from unskew.errors import InputError
from unskew.models import BatchNorm, Dropout, SplitModel, adapt, context, trees

SHAPE = (1, 8, 8)


def block(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU())


class VggLike(nn.Module):
    """features, pooling, a flatten in forward, classifier: the shape of torchvision's VGG and AlexNet."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(*block(1, 4), nn.MaxPool2d(2))
        self.avgpool = nn.AdaptiveAvgPool2d(2)
        self.classifier = nn.Sequential(nn.Linear(16, 6), nn.ReLU(), nn.Dropout(0.5), nn.Linear(6, 3))

    def forward(self, x):
        return self.classifier(torch.flatten(self.avgpool(self.features(x)), 1))


class Functional(nn.Module):
    """Functions between the layers, so that the children alone are not the model."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.drop = nn.Dropout(0.5)
        self.fc = nn.Linear(4, 3)

    def forward(self, x):
        return self.fc(self.drop(F.relu(self.conv(x)).mean((2, 3))))


class LogSoftmax(Functional):
    """Something follows the last dense layer, so that it cannot be found."""

    def forward(self, x):
        return F.log_softmax(super().forward(x), 1)


class Halves(LogSoftmax):
    """The same, with its halves written out."""

    layers = ("pooled",)

    def embed(self, x, layer):
        return self.drop(F.relu(self.conv(x)).mean((2, 3)))

    def head(self, f, layer):
        return F.log_softmax(self.fc(f), 1)


class Transformer(nn.Module):
    """Children called embed, layers and head are not the methods of those names."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(8, 6)
        self.layers = nn.ModuleList([nn.LayerNorm(6), nn.Linear(6, 6)])
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        x = self.embed(x[:, 0])
        for layer in self.layers:
            x = x + layer(x)
        return self.head(x.mean(1))


def check_cuts(net: SplitModel) -> None:
    """Every cut gives forward(x) to the bit, in eval mode and inside vmap of grad."""
    net.eval()
    x = torch.randn(2, 5, *SHAPE)
    params, buffers = trees(net)
    stacked = {name: torch.stack([value, value + 0.1]) for name, value in params.items()}
    for layer in net.layers:
        assert torch.equal(net.head(net.embed(x[0], layer), layer), net(x[0]))

        def cut(p, x, layer=layer):
            f = functional_call(net, (p, buffers), (x,), {"upto": layer})
            return functional_call(net, (p, buffers), (f,), {"since": layer}).square().sum()

        def whole(p, x):
            return functional_call(net, (p, buffers), (x,)).square().sum()

        ours, theirs = vmap(grad(cut))(stacked, x), vmap(grad(whole))(stacked, x)
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)


class TestReplacement:
    def test_keeps_names_weights_and_outputs(self) -> None:
        theirs = VggLike()
        for _ in range(3):
            theirs(torch.randn(4, *SHAPE))
        ours = adapt(theirs, SHAPE)
        expected = {k: v for k, v in theirs.state_dict().items() if not k.endswith("num_batches_tracked")}
        assert list(ours.state_dict()) == list(expected)
        assert all(torch.equal(v, expected[k]) for k, v in ours.state_dict().items())
        x = torch.randn(2, *SHAPE)
        assert torch.equal(ours.eval()(x), theirs.eval()(x))

    def test_reaches_every_depth_and_numbers_dropouts(self) -> None:
        ours = adapt(
            nn.Sequential(
                nn.Sequential(nn.Flatten(), nn.Dropout(0.1)),
                nn.Dropout(0.2),
                nn.Linear(64, 3),
                nn.BatchNorm1d(3),
            )
        )
        dropouts = [m for m in ours.modules() if isinstance(m, Dropout)]
        assert [(d.p, d.index) for d in dropouts] == [(0.1, 0), (0.2, 1)]
        assert isinstance(ours.module[3], BatchNorm)

    def test_leaves_the_users_module_alone(self) -> None:
        theirs = VggLike()
        before = {k: v.clone() for k, v in theirs.state_dict().items()}
        adapt(theirs, SHAPE)
        assert isinstance(theirs.features[1], nn.BatchNorm2d)
        assert type(theirs.classifier[3]) is nn.Linear
        assert all(torch.equal(v, before[k]) for k, v in theirs.state_dict().items())

    def test_loads_what_torch_saved(self) -> None:
        """A state dict with num_batches_tracked, as every torch batch norm has."""
        theirs = VggLike()
        ours = adapt(VggLike(), SHAPE)
        ours.load_state_dict(theirs.state_dict())
        x = torch.randn(2, *SHAPE)
        assert torch.equal(ours.eval()(x), theirs.eval()(x))

    def test_loads_trained_trees(self) -> None:
        """What functional_call trains carries the prefix of the wrapper, and loads as well."""
        ours, fresh = adapt(VggLike(), SHAPE), adapt(VggLike(), SHAPE)
        params, buffers = trees(ours)
        fresh.load_state_dict({**params, **buffers})
        assert all(torch.equal(v, ours.state_dict()[k]) for k, v in fresh.state_dict().items())

    def test_the_weights_of_a_shared_layer_stay_shared(self) -> None:
        """Its running statistics do not: what comes in at its two places differs."""
        norm, dense = nn.BatchNorm1d(64), nn.Linear(64, 64)
        module = nn.Sequential(nn.Flatten(), norm, dense, nn.ReLU(), norm, dense, nn.Linear(64, 3))
        ours = adapt(module, (1, 8, 8))
        assert ours.module[1].weight is ours.module[4].weight
        assert ours.module[2].weight is ours.module[5].weight
        assert isinstance(ours.module[4], BatchNorm)
        params, buffers = trees(ours)
        assert [name for name in params if "weight" in name] == [f"module.{i}.weight" for i in (1, 2, 6)]
        assert len([name for name in buffers if "running_mean" in name]) == 2
        x = torch.randn(2, 1, 8, 8)
        moved = {name: value + 0.1 for name, value in params.items()}
        first, again = (functional_call(ours, moved, (x,)) for _ in range(2))
        assert torch.equal(first, again)
        assert torch.equal(ours.module[2].weight, dense.weight)  # what was there is put back

    def test_group_and_layer_norm_pass(self) -> None:
        ours = adapt(
            nn.Sequential(nn.GroupNorm(1, 1), nn.Flatten(), nn.LayerNorm(64), nn.Linear(64, 3)), SHAPE
        )
        assert type(ours.module[0]) is nn.GroupNorm

    def test_a_norm_without_running_statistics_or_weights_works(self) -> None:
        theirs = nn.Sequential(
            nn.BatchNorm2d(1, affine=False, track_running_stats=False), nn.Flatten(), nn.Linear(64, 3)
        )
        ours = adapt(theirs, SHAPE)
        x = torch.randn(3, *SHAPE)
        assert torch.equal(ours.eval()(x), theirs.eval()(x))
        params, buffers = trees(ours)
        padded = torch.cat([x, torch.ones(1, *SHAPE)])
        out = functional_call(
            ours, (params, buffers, context(ours, None, torch.tensor([1.0, 1, 1, 0]))), (padded,)
        )
        torch.testing.assert_close(out[:3], ours(x))

    def test_train_and_eval_reach_the_users_own_flag(self) -> None:
        net = adapt(Functional(), SHAPE)
        assert not net.eval().module.training
        assert not net.module.drop.training
        assert net.train().module.training

    def test_a_users_train_method_is_kept(self) -> None:
        class Frozen(VggLike):
            def train(self, mode=True):
                super().train(mode)
                self.features.eval()
                return self

        assert not adapt(Frozen(), SHAPE).train().module.features.training


class TestCuts:
    def test_a_sequential_is_cut_after_every_step(self) -> None:
        net = adapt(
            nn.Sequential(nn.Sequential(*block(1, 2)), nn.Flatten(), nn.Linear(128, 3), nn.Softmax(1))
        )
        assert net.layers == ("0.0", "0.1", "0.2", "1")
        check_cuts(net)

    def test_a_sequential_of_one_layer_is_cut_at_the_input(self) -> None:
        net = adapt(nn.Sequential(nn.Linear(8, 3)))
        x = torch.randn(2, 8)
        assert net.layers == ("input",)
        assert torch.equal(net.features(x), x)
        assert torch.equal(net.classify(x), net(x))

    def test_children_that_are_the_model_are_found(self) -> None:
        net = adapt(VggLike(), SHAPE)
        assert net.layers == (
            *(f"features.{at}" for at in range(4)),
            *("avgpool", "flatten", "classifier.0", "classifier.1", "classifier.2"),
        )
        assert net.features(torch.randn(2, *SHAPE)).shape == (2, 6)
        check_cuts(net)

    def test_a_dense_layer_at_the_end_is_found(self) -> None:
        net = adapt(Functional(), SHAPE)
        assert net.layers == ("features",)
        assert net.features(torch.randn(2, *SHAPE)).shape == (2, 4)
        assert torch.equal(net(torch.ones(2, 4), since="features", upto="features"), torch.ones(2, 4))
        check_cuts(net)

    def test_a_last_layer_of_zeros_hides_nothing(self) -> None:
        """Its output is 0 whatever comes before; the children alone would wrongly look like the model."""
        module = Functional()
        nn.init.zeros_(module.fc.weight)
        nn.init.zeros_(module.fc.bias)
        assert adapt(module, SHAPE).layers == ("features",)

    def test_halves_of_ones_own_are_used(self) -> None:
        net = adapt(Halves(), SHAPE)
        assert net.layers == ("pooled",)
        check_cuts(net)

    def test_children_called_embed_and_head_mean_nothing(self) -> None:
        net = adapt(Transformer(), SHAPE)
        assert net.layers == ("features",)
        check_cuts(net)

    def test_halves_that_do_not_fit_are_refused(self) -> None:
        class Wrong(Halves):
            def head(self, f, layer):
                return self.fc(f)

        with pytest.raises(InputError) as error:
            adapt(Wrong(), SHAPE)
        assert str(error.value) == (
            "the model Wrong does not fit together at the layer 'pooled': head(embed(x, 'pooled'), 'pooled') "
            "differs from forward(x); make embed and head the two halves of forward"
        )

    @pytest.mark.parametrize("shape", [SHAPE, None])
    def test_a_model_that_cannot_be_cut_trains_and_says_so_when_asked(self, shape) -> None:
        net = adapt(LogSoftmax(), shape)
        assert net(torch.randn(2, *SHAPE)).shape == (2, 3)
        assert net.layers == ()
        for ask in (
            lambda: net.features(torch.randn(2, *SHAPE)),
            lambda: net.embed(torch.randn(2, *SHAPE), "fc"),
        ):
            with pytest.raises(InputError) as error:
                ask()
            assert str(error.value) == (
                "LogSoftmax cannot be split: give it `layers` (the names of the places to cut, in order), "
                "`embed(x, layer)` and `head(f, layer)`, or make it an nn.Sequential"
            )

    def test_a_cut_model_trains_stacked_with_dropout(self) -> None:
        """The tapped model under vmap: seeds differ, so do the features; the same seed, the same features."""
        net = adapt(Functional(), SHAPE)
        params, _ = trees(net)
        x = torch.randn(*SHAPE)[None].expand(3, 4, *SHAPE)

        def features(seed, x):
            return functional_call(net, (params, context(net, seed)), (x,), {"upto": "features"})

        out = vmap(features)(torch.tensor([1, 2, 1]), x)
        assert torch.equal(out[0], out[2])
        assert not torch.equal(out[0], out[1])


class TestRefusals:
    @pytest.mark.parametrize(
        ("layer", "sentence"),
        [
            (
                nn.BatchNorm2d(1, momentum=None),
                "0 has momentum=None, a running average over all batches, which has no meaning over clients; give "
                "it a number such as momentum=0.1",
            ),
            (
                nn.InstanceNorm2d(1, track_running_stats=True),
                "0 is an instance norm with track_running_stats=True, whose averages would count padded samples; "
                "leave track_running_stats at False",
            ),
            (
                type("MyNorm", (nn.BatchNorm2d,), {})(1),
                "0 is a MyNorm, a batch norm of its own kind that would count padded samples; use torch's "
                "nn.BatchNorm1d or 2d, or GroupNorm",
            ),
        ],
    )
    def test_what_would_count_padding(self, layer: nn.Module, sentence: str) -> None:
        with pytest.raises(InputError) as error:
            adapt(nn.Sequential(layer, nn.Flatten(), nn.Linear(64, 3)))
        assert str(error.value) == sentence

    @pytest.mark.filterwarnings("ignore:None of the inputs")
    @pytest.mark.parametrize("use_reentrant", [False, True])
    def test_layers_that_are_called_again_for_the_gradient(self, use_reentrant: bool) -> None:
        """Checkpointing, in both of torch's ways: the second call would not see the weights of the step."""

        class Thrifty(nn.Sequential):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                found: torch.Tensor = checkpoint(super().forward, x, use_reentrant=use_reentrant)
                return found

        module = Thrifty(nn.Flatten(), nn.Linear(64, 3))
        with pytest.raises(InputError, match="gradient cannot be taken") as error:
            adapt(module, SHAPE)
        assert "torch.utils.checkpoint, call the layers directly" in str(error.value)
        assert "\n" not in str(error.value)

    @pytest.mark.parametrize("layer", [nn.AlphaDropout(0.5), nn.RReLU()])
    def test_randomness_inside_forward(self, layer: nn.Module) -> None:
        module = nn.Sequential(nn.Flatten(), layer, nn.Linear(64, 3))
        before = torch.get_rng_state()
        with pytest.raises(InputError) as error:
            adapt(module, SHAPE)
        assert str(error.value) == (
            "the model Sequential draws random numbers in its forward pass, so a run could not be repeated; make "
            "its dropout an nn.Dropout layer of the model, and set that of attention, recurrent layers and "
            "stochastic depth to 0"
        )
        assert torch.equal(before, torch.get_rng_state())
