"""Trying a model on random samples, to say in one sentence what is wrong with it before a run starts."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call

from unskew.errors import InputError, first_line
from unskew.models.functional import copied, trees
from unskew.models.split import SplitModel


def samples(module: nn.Module, shape: tuple[int, ...], count: int) -> Tensor:
    """Random samples of a shape, in the type and on the device of the model."""
    like = next((p for p in module.parameters() if p.is_floating_point()), torch.empty(0))
    generator = torch.Generator("cpu").manual_seed(0)
    return torch.randn(count, *shape, generator=generator, device="cpu").to(like.device, like.dtype)


def probe(module: nn.Module, shape: tuple[int, ...], name: str) -> Tensor:
    """What the model gives for two samples in eval mode, or one sentence if it cannot take them."""
    was = module.training
    module.eval()
    try:
        with torch.no_grad():
            return module(samples(module, shape, 2))  # type: ignore[no-any-return]
    except InputError:
        raise
    except Exception as error:  # anything may go wrong inside a user's model
        reason = first_line(error).rstrip(".")
        raise InputError(
            f"the model {name} cannot take samples of shape {say(shape)} ({reason}); change its layers or "
            "choose another model"
        ) from error
    finally:
        module.train(was)


def check_tensors(module: nn.Module, name: str) -> None:
    """Refuse weights and buffers that no run can take along."""
    for which, value in (*module.named_parameters(), *module.named_buffers()):
        if value.is_complex():
            what = "holds complex numbers, of which a run would lose half; keep them as torch.view_as_real has them"
        elif value.device.type == "meta":
            what = "is on the device 'meta', which holds no numbers; make the model on the CPU"
        elif value._backward_hooks:
            what = "has a hook, which a run would not call, since it puts its own weights in; leave it out"
        else:
            continue
        raise InputError(f"{which!r} of the model {name} {what}")


def check_output(given: object, shape: tuple[int, ...], classes: int, name: str) -> None:
    """One logit a class for each of the probe's two samples, or one sentence."""
    if isinstance(given, Tensor):
        if tuple(given.shape) == (2, classes) and given.is_floating_point():
            if given.dtype != torch.float32:
                kind = str(given.dtype).removeprefix("torch.")
                raise InputError(
                    f"the model {name} gives {kind}, and its weights are float32; end its forward with .float()"
                )
            return
        sort = "numbers" if given.is_floating_point() else str(given.dtype)
        what = (
            f"{say(tuple(given.shape[1:]))} {sort} a sample"
            if given.ndim > 1
            else f"shape {tuple(given.shape)}"
        )
    else:
        what = f"a {type(given).__name__}"
    raise InputError(
        f"the model {name} gives {what} for samples of shape {say(shape)}, but the data has {classes} "
        f"classes; make its last layer give {classes} numbers a sample"
    )


def outputs(net: SplitModel, shape: tuple[int, ...], layer: str | None = None) -> list[Tensor]:
    """What the model gives in training and in eval mode at shaken weights, whole or cut at a layer.

    Shaken, because a layer that starts at zero would hide what comes before it.
    """
    generator = torch.Generator("cpu").manual_seed(1)

    def shaken(value: Tensor) -> Tensor:
        if not value.is_floating_point():
            return value.clone()
        noise = torch.rand(value.shape, generator=generator, device="cpu")
        return value.detach() + 0.1 * noise.to(value.device, value.dtype)

    # as in a run: other tensors, such as a counter, stay in the module, and so would show in a second call
    tensors = {name: shaken(value) for name, value in (*net.named_parameters(), *trees(net)[1].items())}
    x = samples(net, shape, 3)
    was, given = net.training, []
    try:
        for mode in (True, False):
            net.train(mode)
            # batch norm writes into what it is handed
            fresh = {name: value.clone() for name, value in tensors.items()}
            with torch.no_grad():
                f = x if layer is None else functional_call(net, fresh, (x,), {"upto": layer})
                given.append(functional_call(net, fresh, (f,), None if layer is None else {"since": layer}))
    finally:
        net.train(was)
    return given


def same(one: list[Tensor], other: list[Tensor]) -> bool:
    return all(
        a.shape == b.shape and torch.allclose(a, b, 1e-4, 1e-5, equal_nan=True)
        for a, b in zip(one, other, strict=True)
    )


def holds(net: SplitModel, layer: str, shape: tuple[int, ...]) -> bool:
    """Whether the model cut at a layer computes what it computes whole."""
    try:
        cut = outputs(net, shape, layer)
    except Exception:  # a guessed cut may fail in any way
        return False
    return same(outputs(net, shape), cut)


def check_cut(net: SplitModel, layer: str, shape: tuple[int, ...], name: str) -> None:
    if not same(outputs(net, shape), outputs(net, shape, layer)):
        raise InputError(
            f"the model {name} does not fit together at the layer {layer!r}: head(embed(x, {layer!r}), "
            f"{layer!r}) differs from forward(x); make embed and head the two halves of forward"
        )


def written(net: SplitModel, steps: Sequence[nn.Module], shape: tuple[int, ...]) -> frozenset[str | None]:
    """Where the model writes into what it is handed, as ``nn.ReLU(inplace=True)`` does: after which layers, or None
    for a sample. ``steps``: those that it is a chain of, where it is one."""
    handed: list[tuple[str | None, Tensor, int]] = []

    def hand(layer: str | None, value: Tensor) -> Tensor:
        if isinstance(value, Tensor):  # what is none is refused in a sentence of its own
            handed.append((layer, value, value._version))
        return value

    was = net.training
    net.eval()
    with torch.no_grad():
        x = samples(net, shape, 2)
        if steps:
            x = hand(None, x)
            for at, step in enumerate(steps):
                x = step(x)
                x = hand(net.layers[at], x) if at < len(net.layers) else x
        else:
            net(hand(None, x))
            for layer in net.layers:
                net.head(hand(layer, net.embed(x.clone(), layer)), layer)
    net.train(was)
    return frozenset(layer for layer, value, before in handed if value._version != before)


def check_pure(net: SplitModel, shape: tuple[int, ...], name: str) -> None:
    """Refuse a model that draws random numbers itself, or remembers in itself: its runs could not be repeated."""
    before, tried = torch.get_rng_state(), copied(net)
    repeats = same(outputs(tried, shape), outputs(tried, shape))
    if not torch.equal(before, torch.get_rng_state()):
        raise InputError(
            f"the model {name} draws random numbers in its forward pass, so a run could not be repeated; make "
            "its dropout an nn.Dropout layer of the model, and set that of attention, recurrent layers and "
            "stochastic depth to 0"
        )
    if not repeats:
        raise InputError(
            f"the model {name} gives other numbers when it is called again with the same weights and samples, so a "
            "run could not be repeated; let it draw no random numbers but by nn.Dropout layers, and keep what it "
            "remembers in buffers of floats (register_buffer)"
        )


def check_gradient(net: SplitModel, shape: tuple[int, ...], name: str) -> None:
    """Refuse a model whose gradient cannot be taken as a step takes it: by weights that were put in for one call.

    ``torch.utils.checkpoint`` calls layers a second time, when that call is over and the weights are gone again.
    """
    weights = {
        key: value.detach().clone().requires_grad_()
        for key, value in net.named_parameters()
        if value.requires_grad
    }
    if not weights:
        return  # said in words of its own where clients are to train it
    measured = {key: value.detach().clone() for key, value in net.named_buffers()}
    trained = copy.deepcopy(net).requires_grad_(False).train()  # as the module of a run is
    try:
        with torch.enable_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what is wrong is said below
            given = functional_call(trained, weights | measured, (samples(net, shape, 3),))
            torch.autograd.grad(given.sum(), list(weights.values()), allow_unused=True)
    except Exception as error:  # anything may go wrong inside a user's model
        reason = first_line(error).rstrip(".")
        raise InputError(
            f"the model {name} cannot be trained: its gradient cannot be taken ({reason}); where it uses "
            "torch.utils.checkpoint, call the layers directly, and leave out what cuts the gradient off (no_grad, "
            "detach)"
        ) from error


def check_embeddings(net: nn.Module, name: str) -> None:
    """Refuse embeddings that change their own weights when they are asked, or whose gradients are sparse."""
    for layer in net.modules():
        if isinstance(layer, nn.Embedding | nn.EmbeddingBag) and (layer.max_norm is not None or layer.sparse):
            what = (
                "max_norm, so that looking a row up changes the weights"
                if layer.max_norm is not None
                else "sparse=True, and gradients are averaged whole here"
            )
            raise InputError(f"the model {name} has an {type(layer).__name__} with {what}; leave it out")


def say(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "()"
