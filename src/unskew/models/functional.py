"""A model as a function: its trees, the context of one step, and the call."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.func import functional_call

from unskew.models.split import SplitModel

M = TypeVar("M", bound=nn.Module)

_PLACES: WeakKeyDictionary[nn.Module, dict[str, tuple[dict[str, Any], str]]] = WeakKeyDictionary()
"""Where each tensor of a module lies, by its name. Modules are never given other layers once they were called."""


def trees(net: SplitModel) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """(trainable parameters, persistent float buffers such as batch norm's running statistics), as copies.

    Frozen parameters and whole-number buffers are in neither: they stay in ``net``, are never trained and
    never travel.
    """
    parameters = {name: p.detach().clone() for name, p in net.named_parameters() if p.requires_grad}
    passing = {
        f"{path}.{name}" if path else name
        for path, module in net.named_modules()
        for name in module._non_persistent_buffers_set
    }
    buffers = {
        name: b.detach().clone()
        for name, b in net.named_buffers()
        if name not in passing and b.is_floating_point()
    }
    return parameters, buffers


def copied(module: M) -> M:
    """``copy.deepcopy`` of a module, in less than half the time: most of what that goes through are the empty tables of
    hooks that every layer has."""
    return _copied(module, {})


def _copied(module: M, known: dict[int, Any]) -> M:
    if id(module) in known:
        return known[id(module)]  # type: ignore[no-any-return]
    kind: Any = type(module)
    if not _is_plain(kind):
        return copy.deepcopy(module, known)
    made = known[id(module)] = object.__new__(type(module))
    for name, value in vars(module).items():
        if name == "_modules" and id(value) not in known:
            found = known[id(value)] = type(value)()
            found.update((k, layer if layer is None else _copied(layer, known)) for k, layer in value.items())
        elif type(value) in (dict, OrderedDict) and not value and id(value) not in known:
            found = known[id(value)] = type(value)()
        else:
            found = copy.deepcopy(value, known)
        made.__dict__[name] = found
    return made


@cache
def _is_plain(kind: Any) -> bool:
    """Whether a module of this class is what its ``__dict__`` says, and nobody has said how else to copy it."""
    own = ("__deepcopy__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__slots__")
    known = nn.Module, nn.modules.conv._ConvNd, object  # torch's, for what was saved long ago
    return not any(name in vars(c) for c in kind.__mro__ if c not in known for name in own)


def context(net: SplitModel, seed: Tensor | None = None, weight: Tensor | None = None) -> dict[str, Tensor]:
    """The entries to merge into ``functional_call``'s dict for one step.

    ``seed`` (0-d int64) fixes every dropout mask of the step; ``weight`` ([B], 0 on padding) says which
    samples batch norm counts. Running statistics change in the buffers that are handed over, so under
    ``vmap`` and ``grad`` these must be arguments of the function, stacked like the parameters.
    """
    seeds, weights = net.fed
    entries = {} if seed is None else dict.fromkeys(seeds, seed)
    if weight is not None:
        entries.update(dict.fromkeys(weights, weight))
    return entries


def call(
    module: nn.Module, tensors: Mapping[str, Tensor], x: Tensor, tied: bool, **cut: str | None
) -> Tensor:
    """``torch.func.functional_call``: the module with these tensors in the place of its own.

    torch looks every name up anew at each call, which takes a small model as long as its arithmetic. Here places are
    looked up once; torch's own function is called where a tensor has two names (``tied``) and in a compiled step.
    """
    if tied or torch.compiler.is_compiling():
        return functional_call(module, dict(tensors), (x,), cut, tie_weights=tied)  # type: ignore[no-any-return]
    places = _PLACES.get(module)
    if places is None:
        places = _PLACES[module] = _places(module)
    before = []
    try:
        for name, tensor in tensors.items():
            holder, key = places[name]
            before.append((holder, key, holder[key]))
            holder[key] = tensor
        return module(x, **cut)  # type: ignore[no-any-return]
    finally:
        for holder, key, tensor in reversed(before):
            holder[key] = tensor


def _places(module: nn.Module) -> dict[str, tuple[dict[str, Any], str]]:
    """The dictionary that each parameter and buffer of the module lies in, and its key there."""
    return {
        f"{path}.{key}" if path else key: (holder, key)
        for path, part in module.named_modules(remove_duplicate=False)
        for holder in (part._parameters, part._buffers)
        for key in holder
    }
