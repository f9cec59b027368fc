"""The models by name: their sizes, their cuts, and stacked training."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy

from unskew import expression
from unskew.errors import InputError
from unskew.models import MODELS, build, context, trees

SIZES = {
    "linear": 7_850,  # 784 x 10 + 10
    "mlp": 159_010,  # 784 x 200 + 200 + 200 x 10 + 10
    "small_cnn": 545_098,  # 896 + 18,496 + 4,096 x 128 + 128 + 1,290
    "thesis_mnist": 21_840,  # 260 + 5,020 + 320 x 50 + 50 + 510
    "thesis_fashion": 29_034,  # 416 + 32 + 12,832 + 64 + 15,690
    "thesis_cifar": 551_466,  # 10,272 + 55,680 + 221,952 in blocks, 2,048 x 128 + 128, 1,290
    "mcmahan_cnn": 1_663_370,  # the paper's own figure
    "sem_cnn": 1_663_370,
    "resnet9": 1_647_242,
    "daca_cnn": 1_663_370,
    "seol_kim_cnn": 3_431_754,  # 4,864 + 204,928 + 8,192 x 384 + 384 + 73,920 + 1,930
    "mobilenet_v2": 2_296_922,
    "audionet": 25_602,  # 424 + 1,200 + 4,704 + 18,624 + 650; each with 2 numbers a channel of batch norm
    "harnet": 691_974,  # 384 + 49,536 + 197,376 + 393,984 + 8,448 x 6 + 6
    "moon_cnn": 92_626,  # 456 + 2,416 + 48,120 + 10,164, a projection of 7,140 + 21,760, and 2,570
    "lenet": 44_426,  # 156 + 2,416 + 256 x 120 + 120 + 10,164 + 850
    # 1,792 + 73,856 + 295,168 + 590,080 + 1,180,160 + 3 x 2,359,808, dense 2 x 262,656, and 5,130
    "vgg11": 9_750_922,
}
# the others take the digits' 1x8x8, of which eight times less leaves mobilenet_v2 one pixel to normalise
SMALL = {
    "thesis_mnist": (1, 16, 16),
    "moon_cnn": (1, 16, 16),
    "lenet": (1, 16, 16),
    "harnet": (1, 64, 2),
    "mobilenet_v2": (1, 16, 16),
    "vgg11": (1, 32, 32),
}


def small(name: str, seed: int = 0) -> tuple[nn.Module, tuple[int, ...]]:
    shape = SMALL.get(name.partition("(")[0], (1, 8, 8))
    return build(name, shape, 10, seed=seed), shape


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_the_list_is_complete() -> None:
    assert list(MODELS) == list(SIZES)


@pytest.mark.parametrize("name", SIZES)
def test_has_the_stated_size(name: str) -> None:
    """On its native input and classes; what the class states is what there is."""
    net = build(name, MODELS[name].native, MODELS[name].classes)
    assert sum(p.numel() for p in net.parameters()) == SIZES[name] == MODELS[name].size


@pytest.mark.parametrize("name", SIZES)
def test_has_a_line_to_show_and_reads_back_its_signature(name: str) -> None:
    assert expression.summary(MODELS[name]).endswith(".")
    assert expression.build(expression.signature(MODELS[name]), MODELS, "model") == MODELS[name]()


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("name", [*SIZES, "thesis_cifar(double_softmax=true)"])
def test_cut_anywhere_it_is_the_same_model(name: str, mode: str) -> None:
    """head(embed(x)) equals forward(x) to the bit, and running statistics move once."""
    net, shape = small(name)
    net.train(mode == "train")
    x = torch.randn(3, *shape)
    params, _ = trees(net)
    with torch.no_grad():
        for layer in net.layers:
            _, whole = trees(net)
            _, cut = trees(net)
            out = functional_call(net, (params, whole), (x,))
            f = functional_call(net, (params, cut), (x,), {"upto": layer})
            assert torch.equal(functional_call(net, (params, cut), (f,), {"since": layer}), out)
            assert all(torch.equal(whole[key], cut[key]) for key in whole)
        net.eval()
        assert torch.equal(net.classify(net.features(x)), net(x))
        assert torch.equal(net.head(net.embed(x, net.layers[0]), net.layers[0]), net(x))
        assert net.features(x).ndim == 2


@pytest.mark.parametrize("name", SIZES)
def test_the_way_between_two_layers_is_open(name: str) -> None:
    net, shape = small(name)
    net.eval()
    x = torch.randn(2, *shape)
    f = net.embed(x, net.layers[0])
    assert torch.equal(net(f, since=net.layers[0], upto=net.layers[-1]), net.features(x))


def test_the_classifier_is_one_dense_layer() -> None:
    """Its input is the penultimate feature, for every model; methods that refit it rely on that."""
    for name in SIZES:
        net, shape = small(name)
        last = list(net.children())[-1]
        assert isinstance(last, nn.Linear)
        assert net.eval().features(torch.randn(2, *shape)).shape == (2, last.in_features)


def test_double_softmax_ends_in_probabilities() -> None:
    """As the thesis's toolkit did: the outputs sum to 1 before the loss takes its own softmax."""
    net = build("thesis_cifar(double_softmax=true)", (1, 8, 8), 10).eval()
    assert torch.allclose(net(torch.randn(4, 1, 8, 8)).sum(1), torch.ones(4))
    assert net.layers == build("thesis_cifar", (1, 8, 8), 10).layers


def loss(
    net: nn.Module, params, buffers, x: Tensor, y: Tensor, weight: Tensor, seed: Tensor, pad: bool
) -> Tensor:
    extra = context(net, seed, weight if pad else None)
    out = functional_call(net, (params, buffers, extra), (x,))
    return (cross_entropy(out, y, reduction="none") * weight).sum() / weight.sum()


STACKED = [
    "mlp",
    "thesis_mnist",
    "thesis_fashion",
    "thesis_cifar",
    "resnet9",
    "mobilenet_v2",
    "audionet",
    "harnet",
]


@pytest.mark.parametrize("name", STACKED)
def test_stacked_training_equals_a_loop(name: str) -> None:
    """Three clients, each with its own weights, batch, padding and dropout seed, under vmap of grad."""
    net, shape = small(name)
    net.double()
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3, 4, *shape, generator=generator, dtype=torch.float64)
    y = torch.randint(10, (3, 4), generator=generator)
    weight = torch.tensor([[1.0, 1, 1, 1], [1, 1, 0, 0], [1, 1, 1, 0]], dtype=torch.float64)
    seeds = torch.tensor([11, 12, 2**61])
    models = [trees(build(name, shape, 10, seed=k, dtype=torch.float64)) for k in range(3)]
    params = {key: torch.stack([p[key] for p, _ in models]) for key in models[0][0]}
    buffers = {key: torch.stack([b[key] for _, b in models]) for key in models[0][1]}

    def gradient(p, b, x, y, w, s):
        return grad(lambda p, b: loss(net, p, b, x, y, w, s, pad=True))(p, b)

    stacked = vmap(gradient)(params, buffers, x, y, weight, seeds)
    for k, (p, b) in enumerate(models):
        kept = int(weight[k].sum())
        alone = grad(
            lambda p, b, k=k, n=kept: loss(net, p, b, x[k, :n], y[k, :n], weight[k, :n], seeds[k], False)
        )(p, b)
        for key in alone:
            torch.testing.assert_close(stacked[key][k], alone[key], rtol=1e-7, atol=1e-9)
        for key in b:
            torch.testing.assert_close(buffers[key][k], b[key], rtol=1e-7, atol=1e-9)


def test_dropout_seeds_change_the_outcome_and_nothing_else_does() -> None:
    net, shape = small("resnet9")
    x = torch.randn(4, *shape)
    params, _ = trees(net)

    def out(seed: int) -> Tensor:
        _, buffers = trees(net)
        return functional_call(net, (params, buffers, context(net, torch.tensor(seed))), (x,))

    assert torch.equal(out(1), out(1))
    assert not torch.equal(out(1), out(2))


def test_channels_last_gives_the_same_numbers() -> None:
    net, shape = small("resnet9")
    net.double().eval()
    x = torch.randn(2, *shape, dtype=torch.float64)
    expected = net(x)
    net.to(memory_format=torch.channels_last)
    torch.testing.assert_close(net(x.to(memory_format=torch.channels_last)), expected)


@pytest.mark.parametrize(
    "name", [n for n in SIZES if n not in ("thesis_mnist", "harnet", "moon_cnn", "lenet", "vgg11")]
)
@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 9, 12)])
def test_takes_small_and_uneven_images(name: str, shape: tuple[int, ...]) -> None:
    assert build(name, shape, 7)(torch.randn(2, *shape)).shape == (2, 7)


@pytest.mark.parametrize(
    ("name", "layer", "activation"),
    [
        ("mobilenet_v2", "block0", (16, 32, 32)),  # 16,384 numbers where an image has 3,072
        ("audionet", "conv2", (16, 16, 86)),  # 64 and 344 halved twice
        ("harnet", "conv2", (128, 20, 7)),  # 17,920 numbers where a window has 384
    ],
)
def test_flea_cuts_here(name: str, layer: str, activation: tuple[int, ...]) -> None:
    """Its models have the layer that FLea shares features of, with the shape that FLea shares."""
    net = build(name, MODELS[name].native, MODELS[name].classes).eval()
    assert tuple(net.embed(torch.zeros(1, *MODELS[name].native), layer).shape[1:]) == activation


def test_audionet_of_a_mono_spectrogram_is_smaller() -> None:
    """8 filters of 5x5 see one channel less: 25,602 - 200."""
    assert sum(p.numel() for p in build("audionet", (1, 64, 126), 10).parameters()) == 25_402


def test_vgg11s_filters_start_as_its_authors_have_them() -> None:
    """Of 128 filters of 3x3: a spread of sqrt(2 / (9 x 128)) = 0.0417; biases are 0."""
    conv = build("vgg11", (3, 32, 32), 10).stage2[0]
    assert abs(conv.weight.std().item() - 0.0417) < 0.001
    assert not conv.bias.any()


def test_audionets_filters_start_as_kaiming_has_them() -> None:
    """Of 16 x 9 inputs: a spread of sqrt(2 / (1 + 0.1 ** 2) / 144) = 0.1173; biases are 0."""
    conv = build("audionet", (2, 64, 344), 10).conv3[0]
    assert abs(conv.weight.std().item() - 0.1173) < 0.005
    assert not conv.bias.any()


@pytest.mark.parametrize("shape", [(9, 128), (13,), (2, 64, 12)])
def test_dense_models_take_any_shape(shape: tuple[int, ...]) -> None:
    for name in ("linear", "mlp(hidden=[8, 5])"):
        assert build(name, shape, 4)(torch.randn(2, *shape)).shape == (2, 4)


@pytest.mark.parametrize(
    ("name", "shape", "sentence"),
    [
        (
            "thesis_mnist",
            (1, 8, 8),
            "thesis_mnist needs images of at least 16x16, not 8x8; use small_cnn, mlp or linear",
        ),
        (
            "resnet9",
            (9, 128),
            "resnet9 takes images (channels x height x width), not samples of shape 9x128; use mlp or linear, "
            "or reshape the data",
        ),
        ("mlp(hidden=[])", (4,), "hidden of mlp is a list of layer sizes such as [200], not []"),
        ("mlp(hidden=[3, 0])", (4,), "hidden of mlp is a list of layer sizes such as [200], not [3, 0]"),
        ("resnet9(dropout=1)", (3, 8, 8), "dropout of resnet9 is a share from 0 to below 1, not 1.0"),
        ("vgg11(dropout=-1)", (3, 32, 32), "dropout of vgg11 is a share from 0 to below 1, not -1.0"),
        (
            "seol_kim_cnn(hidden=[3])",
            (3, 8, 8),
            "hidden of seol_kim_cnn is the sizes of two dense layers such as [384, 192], not [3]",
        ),
        (
            "harnet",
            (9, 128),
            "harnet takes windows (1 x time x sensors), not samples of shape 9x128; use mlp or linear, or reshape "
            "the data",
        ),
        (
            "harnet",
            (3, 32, 32),
            "harnet needs windows of at least 64 readings, not 32 (samples are 3x32x32, which it reads as 1 x time "
            "x sensors); use mlp or linear",
        ),
        ("harnet(width=0)", (1, 128, 3), "width of harnet must be at least 1 filter, not 0"),
        ("resnet", (3, 8, 8), "there is no model 'resnet'; did you mean 'resnet9' or 'lenet' or 'harnet'?"),
        ("mlp(width=3)", (4,), "mlp has no parameter 'width'; it is mlp(hidden=[200])"),
    ],
)
def test_says_what_is_wrong(name: str, shape: tuple[int, ...], sentence: str) -> None:
    with pytest.raises(InputError) as error:
        build(name, shape, 10)
    assert str(error.value) == sentence


def test_a_narrow_harnet_keeps_its_ratios() -> None:
    """8, 16, 32, 32 filters: 16 a sample at conv2, and 32 x 33 inputs of the last layer."""
    shapes = {
        name: tuple(value.shape)
        for name, value in build("harnet(width=8)", (1, 128, 3), 6).named_parameters()
    }
    assert [shapes[f"conv{at}.0.weight"][:2] for at in (1, 2, 3, 4)] == [(8, 1), (16, 8), (32, 16), (32, 32)]
    assert shapes["out.weight"] == (6, 32 * 33)


def test_a_layer_that_does_not_exist_is_named() -> None:
    net = build("small_cnn", (1, 8, 8), 10)
    with pytest.raises(InputError, match="there is no layer 'conv3'; did you mean 'conv2' or 'conv1'"):
        net.embed(torch.randn(1, 1, 8, 8), "conv3")
    with pytest.raises(InputError, match="the layer 'conv1' comes before 'conv2'; swap since and upto"):
        net(torch.randn(1, 1, 8, 8), since="conv2", upto="conv1")
