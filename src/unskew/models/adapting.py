"""A user's ``nn.Module``, made fit for federated training: our layers in place of torch's, and places to cut.

``adapt`` works on a copy and keeps every name in the state dict (but ``num_batches_tracked``). Where it finds
places to cut, in this order:

1. the module says so itself: it has ``layers``, ``embed(x, layer)`` and ``head(f, layer)``;
2. it is an ``nn.Sequential`` (nested ones are opened): after every step up to the last one with parameters;
3. its children, run in the order they were registered with a flatten before the first dense one, compute what
   it computes (torchvision's ResNet, VGG and AlexNet, for instance): as in 2;
4. it ends in an ``nn.Linear``: one place, ``features``, the input of that layer.

3 and 4 are tried on random inputs and weights, in training and in eval mode, so they need the shape of a
sample. A module that none of them fits trains like any other but has no layers.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard, cast

import torch
from torch import Tensor, nn

from unskew.errors import InputError
from unskew.models.layers import BatchNorm, Dropout, number_dropouts
from unskew.models.split import SplitModel
from unskew.models.trial import check_cut, check_gradient, check_pure, holds, probe, written

_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
_INSTANCE_NORMS = (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)
_DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)


def adapt(module: nn.Module, shape: tuple[int, ...] | None = None) -> SplitModel:
    """A copy of ``module`` with our dropout and batch norm and, where they can be found, places to cut.

    ``shape`` is the shape of one sample. Without it only an ``nn.Sequential`` or a module with its own
    ``embed`` and ``head`` is cut, and randomness inside ``forward`` is not noticed.
    """
    name = type(module).__name__
    if isinstance(module, torch.jit.ScriptModule):
        raise InputError(
            f"the model {name} is scripted (torch.jit), so its layers cannot be reached; give the module that it was "
            "made of"
        )
    module = copy.deepcopy(module)
    with torch.random.fork_rng(devices=[]):
        if shape is not None:
            probe(module, shape, name)  # also gives lazy layers their size
        module = number_dropouts(_replaced(module, "", {}))
        net = module if isinstance(module, SplitModel) else Adapted(module)
        if shape is not None:
            check_pure(net, shape, name)
            check_gradient(net, shape, name)
        if isinstance(net, Adapted):
            net.find_cuts(shape)
            net.spares = frozenset() if shape is None else written(net, net.steps, shape)
        if shape is not None and not (isinstance(net, Adapted) and net.by_construction):
            for layer in net.layers:
                check_cut(net, layer, shape, name)
    return net


def _replaced(module: nn.Module, path: str, done: dict[nn.Module, nn.Module]) -> nn.Module:
    """The module with torch's dropout and batch norm replaced by ours, deeply."""
    if module in done:
        return _another(done[module])
    new = done[module] = _counterpart(module, path or type(module).__name__)
    for name, child in module._modules.items():
        if child is not None:
            new._modules[name] = _replaced(child, f"{path}.{name}" if path else name, done)
    return new


def _another(module: nn.Module) -> nn.Module:
    """A second module over the same weights: ``functional_call`` does not put back those of one that is there twice.

    What is measured, such as batch norm's running statistics, each place measures for itself.
    """
    twin = copy.copy(module)
    twin._parameters, twin._buffers = dict(module._parameters), copy.deepcopy(module._buffers)
    twin._modules = {name: None if m is None else _another(m) for name, m in module._modules.items()}
    return twin


def _counterpart(module: nn.Module, path: str) -> nn.Module:
    if isinstance(module, _BATCH_NORMS):
        if type(module) not in _BATCH_NORMS:
            raise InputError(
                f"{path} is a {type(module).__name__}, a batch norm of its own kind that would count padded "
                "samples; use torch's nn.BatchNorm1d or 2d, or GroupNorm"
            )
        if module.momentum is None:
            raise InputError(
                f"{path} has momentum=None, a running average over all batches, which has no meaning over "
                "clients; give it a number such as momentum=0.1"
            )
        ours = BatchNorm(module.num_features, module.eps, module.momentum)
        ours.weight, ours.bias = module.weight, module.bias
        ours.running_mean, ours.running_var = module.running_mean, module.running_var
        return ours.train(module.training)
    if isinstance(module, _INSTANCE_NORMS) and module.track_running_stats:
        raise InputError(
            f"{path} is an instance norm with track_running_stats=True, whose averages would count padded "
            "samples; leave track_running_stats at False"
        )
    if type(module) in _DROPOUTS:
        p: Any = module.p
        return Dropout(p, channels=type(module) is not nn.Dropout).train(module.training)
    return module


class _Tapped(nn.Linear):
    """A dense layer that can be left out, to see what it is given."""

    left_out = False

    def forward(self, x: Tensor) -> Tensor:
        return x if self.left_out else super().forward(x)


class Adapted(SplitModel):
    """A user's module behind the calling convention of ``SplitModel``.

    It is the child ``module``, so ``functional_call`` knows its tensors as ``module.fc.weight`` (it finds them
    by attribute, and a user may well have a child called ``layers`` or ``features``). ``state_dict`` and
    ``load_state_dict`` speak of the module itself; the latter takes names with and without that prefix.
    """

    module: nn.Module
    steps: tuple[nn.Module, ...]  # a chain that computes what the module computes
    tap: str | None = None  # or the name of the dense layer that it ends in
    spares: frozenset[str | None] = frozenset()  # after which layers it is handed a copy; None is a sample

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        self.training = module.training
        self.steps = ()

    @property
    def by_construction(self) -> bool:
        """Whether the cuts were found here, and so fit together."""
        return bool(self.steps) or self.tap is not None

    def forward(self, x: Tensor, *, since: str | None = None, upto: str | None = None) -> Tensor:
        start, end = self.span(since, upto)
        if since in self.spares:  # it would write into what a part may look at again
            x = x.clone()
        if since is None and upto is None:
            out = self.module(x)
        elif start == end:
            out = x
        elif self.steps:
            out = x
            for step in self.steps[start:end]:
                out = step(out)
        elif self.tap is not None:
            classifier = cast(_Tapped, self.module.get_submodule(self.tap))
            out = classifier(x) if upto is None else self._without(classifier, x)
        elif since is None:
            out = cast(Any, self.module).embed(x, upto)
        elif upto is None:
            out = cast(Any, self.module).head(x, since)
        else:
            raise InputError(
                f"{type(self.module).__name__} has `embed` and `head` but no way between two layers; cut it at "
                f"{since!r} or at {upto!r}"
            )
        return cast(Tensor, out)

    def _without(self, classifier: _Tapped, x: Tensor) -> Any:
        classifier.left_out = True  # as functional_call does with the weights: for this call only
        try:
            return self.module(x)
        finally:
            classifier.left_out = False

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        return self.module.state_dict(*args, **kwargs)

    def load_state_dict(self, state_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        known = self.module.state_dict()
        plain = {n if n in known else n.removeprefix("module."): value for n, value in state_dict.items()}
        return self.module.load_state_dict(plain, *args, **kwargs)

    def unsplit(self) -> InputError:
        return InputError(
            f"{type(self.module).__name__} cannot be split: give it `layers` (the names of the places to cut, "
            "in order), `embed(x, layer)` and `head(f, layer)`, or make it an nn.Sequential"
        )

    def __repr__(self) -> str:
        return f"Adapted({type(self.module).__name__})"

    def find_cuts(self, shape: tuple[int, ...] | None) -> None:
        """Look for places to cut, in the order of this file's first lines."""
        names = getattr(self.module, "layers", None)
        # methods of the class, since many a transformer has a child called embed or head
        halves = all(callable(getattr(type(self.module), half, None)) for half in ("embed", "head"))
        if halves and isinstance(names, (tuple, list)) and names and all(isinstance(n, str) for n in names):
            self.layers = tuple(names)
        elif _is_chain(self.module):
            self._chain(list(_opened(self.module)))
        elif shape is not None and not self._chain_holds(shape):
            self.layers, self.steps = (), ()
            self._tap_last_dense(shape)

    def _chain_holds(self, shape: tuple[int, ...]) -> bool:
        steps = list(_opened(self.module))
        kinds = [type(step) for _, step in steps]
        if nn.Linear in kinds and nn.Flatten not in kinds:
            steps.insert(kinds.index(nn.Linear), ("flatten", nn.Flatten()))
        if not steps:
            return False
        self._chain(steps)
        return holds(self, self.last_layer, shape)

    def _chain(self, steps: list[tuple[str, nn.Module]]) -> None:
        """Cut after every step up to the last one that has parameters: the classifier."""
        trained = [at for at, (_, step) in enumerate(steps) if next(step.parameters(), None) is not None]
        if not trained or trained[-1] == 0:
            steps = [("input", nn.Identity()), *steps]
            trained = [1]
        self.layers = tuple(name for name, _ in steps[: trained[-1]])
        self.steps = tuple(step for _, step in steps)

    def _tap_last_dense(self, shape: tuple[int, ...]) -> None:
        dense = [name for name, module in self.module.named_modules() if type(module) is nn.Linear]
        if dense and dense[-1]:
            classifier = self.module.get_submodule(dense[-1])
            classifier.__class__ = _Tapped
            self.layers, self.tap = ("features",), dense[-1]
            if not holds(self, "features", shape):
                classifier.__class__ = nn.Linear
                self.layers, self.tap = (), None


def _is_chain(module: nn.Module | None) -> TypeGuard[nn.Sequential]:
    return isinstance(module, nn.Sequential) and type(module).forward is nn.Sequential.forward


def _opened(module: nn.Module, prefix: str = "") -> Iterator[tuple[str, nn.Module]]:
    """The steps of a chain: children in order, with nested Sequentials opened."""
    for name, child in module._modules.items():
        if _is_chain(child):
            yield from _opened(child, f"{prefix}{name}.")
        elif child is not None:
            yield prefix + name, child
