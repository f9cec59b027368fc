"""What ``torch.func.functional_call`` is handed: a model's trees, and the context of one step."""

from __future__ import annotations

from torch import Tensor

from unskew.models.split import SplitModel


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
