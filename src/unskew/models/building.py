"""From a name, a class, a function or a module to a model that fits the data."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from unskew import expression
from unskew.errors import InputError
from unskew.import_object import import_object
from unskew.models.adapting import adapt
from unskew.models.architecture import Architecture
from unskew.models.drawn import check_classes, drawn_for, named
from unskew.models.layers import number_dropouts
from unskew.models.made import made_model
from unskew.models.split import SplitModel
from unskew.models.trial import check_embeddings, check_output, check_tensors, probe
from unskew.seeds import key


@dataclass(frozen=True)
class Finished:
    """A model that ``build`` has made, for many runs of it: none of them makes it and tries it once more."""

    net: SplitModel
    shape: tuple[int, ...]
    classes: int
    seed: int
    dtype: torch.dtype

    @staticmethod
    def of(model: Any, shape: tuple[int, ...], classes: int, seed: int, dtype: torch.dtype) -> Finished:
        return Finished(build(model, shape, classes, seed, dtype), shape, classes, seed, dtype)


def build(
    model: str | Architecture | nn.Module | Callable[..., nn.Module] | Finished,
    shape: tuple[int, ...],
    classes: int,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
) -> SplitModel:
    """The model for samples of ``shape`` and this many classes, on the CPU, ready for ``functional_call``.

    ``model`` is an expression (``"mlp(hidden=[100, 50])"``), ``"package.module:Class"`` with arguments if it
    needs some, a class or a function that makes an ``nn.Module`` (called with ``shape`` and ``classes`` if it
    has parameters of these names), or a module, which is copied with its weights. One that is ``Finished`` is
    not copied: it is there to be read.

    New weights are a function of the seed alone: they do not depend on the type, torch's defaults or what was
    drawn before, and no global generator moves. The model is tried on two samples; one that cannot take them,
    or does not give one number per class, is refused.
    """
    shape = tuple(int(n) for n in shape)
    if isinstance(model, Finished):
        wanted = shape, classes, seed, dtype
        assert wanted == (model.shape, model.classes, model.seed, model.dtype), (
            "it was made for something else"
        )
        return model.net
    check_classes(classes)
    model = named(model)
    if isinstance(model, Architecture):
        drawn_for(model, shape, classes)
    with _alone(seed):
        name, made = _made(model, shape, classes)
        check_tensors(made, name)
        made = made.to(torch.float32)  # what is of another type inside fails here, and not in the first step
        check_embeddings(made, name)
        check_output(probe(made, shape, name), shape, classes, name)
        if isinstance(model, Architecture) and isinstance(made, SplitModel):
            net = number_dropouts(made)
        else:
            net = adapt(made, shape)
    return net.to("cpu", dtype).train()


@contextmanager
def _alone(seed: int) -> Iterator[None]:
    """torch's generator seeded and its defaults set aside, all put back afterwards."""
    default = torch.get_default_dtype()
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        # not torch.manual_seed, which would move the GPUs' generators too
        torch.default_generator.manual_seed(key(seed, "model") % 2**63)
        torch.set_default_dtype(torch.float32)
        try:
            yield
        finally:
            torch.set_default_dtype(default)


def _made(model: Any, shape: tuple[int, ...], classes: int) -> tuple[str, nn.Module]:
    """What the model is called in a sentence, and the model itself."""
    if isinstance(model, Architecture):
        return model.name, made_model(model.draw(shape, classes))
    if isinstance(model, nn.Module):
        return type(model).__name__, _copied(model, type(model).__name__)
    if isinstance(model, str):
        call = expression.parse_one(model, "model")
        return call.name, _called(import_object(call.name, "model"), call, shape, classes)
    if not callable(model):
        raise InputError(
            "a model is a name, package.module:Class, an nn.Module or a function that makes one, "
            f"not {model!r}"
        )
    name = getattr(model, "__name__", type(model).__name__)
    return name, _called(model, expression.Call(name), shape, classes)


def _copied(module: nn.Module, name: str) -> nn.Module:
    """A module of the caller's own, which stays as it is."""
    check_tensors(module, name)  # a copy has no hooks
    try:
        return copy.deepcopy(module).to("cpu")
    except Exception as error:  # it is the user's code
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise InputError(
            f"the model {name} cannot be copied ({reason}); let it remember nothing of its last call, or give a "
            "function that makes it"
        ) from error


def _called(make: Any, call: expression.Call, shape: tuple[int, ...], classes: int) -> nn.Module:
    """Make a user's model, with the shape and the classes where it asks for them by name."""
    if isinstance(make, nn.Module):
        return _copied(make, call.name)
    if not callable(make):
        raise InputError(
            f"{call.name} is of type {type(make).__name__}; name a class or function that makes an nn.Module"
        )
    given = dict(call.kwargs)
    try:
        wanted = inspect.signature(make).parameters
        taken = list(wanted)[: len(call.args)]
        for word, value in (("shape", shape), ("classes", classes)):
            if word in wanted and word not in given and word not in taken:
                given[word] = value
        made = make(*call.args, **given)
    except InputError:
        raise
    except Exception as error:  # it is the user's code
        raise InputError(
            f"{call} could not be made ({type(error).__name__}: {error}); write its arguments, as in "
            f"{call.name}(width=8), or give them defaults"
        ) from error
    if not isinstance(made, nn.Module):
        raise InputError(f"{call} gives a {type(made).__name__}, but a model must be a torch nn.Module")
    return made
