"""The model that comes out of a run: raw inputs in, logits out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor

from unskew.data.dataset import normalise
from unskew.models.layers import BatchNorm
from unskew.models.split import SplitModel


class TrainedModel(SplitModel):
    """A trained model with its normalisation inside: it takes samples as the data set holds them.

    ``net`` is the model itself, with the names of the one that went in; it sees ``(x - mean) / std``. ``mean`` and
    ``std`` are buffers, one value per channel, so a saved state keeps them. Inputs of any type, and on any device,
    are moved to the model's own. Where clients keep or drop their batch-norm statistics the model has none of its
    own (``by_batch``), so a sample is judged by those of its batch, in ``eval`` mode too.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, net: SplitModel, mean: Any, std: Any, by_batch: bool = False) -> None:
        super().__init__()
        self.net, self.layers, self.by_batch = net, net.layers, by_batch
        like = next(net.parameters())
        for name, value in (("mean", mean), ("std", std)):
            self.register_buffer(name, torch.as_tensor(value).to(like).clone())
        if by_batch:
            for norm in self._norms():
                norm.momentum = 0.0
        self.eval()

    def forward(self, x: Tensor, *, since: str | None = None, upto: str | None = None) -> Tensor:
        """Logits of raw samples; ``since`` and ``upto`` cut at layers, as in every model here."""
        if since is None:  # what comes in at a later layer is no raw input
            x = normalise(torch.as_tensor(x).to(self.mean), self.mean, self.std)
        return self.net(x, since=since, upto=upto)  # type: ignore[no-any-return]

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """Take what ``state_dict`` gave; the net reads its own part, since an adapted module has its own names."""
        inner = {name.removeprefix("net."): v for name, v in state_dict.items() if name.startswith("net.")}
        found = self.net.load_state_dict(inner, strict=strict, assign=assign)
        outer = {name: v for name, v in state_dict.items() if not name.startswith("net.")}
        strange = [*found.unexpected_keys, *(name for name in outer if name not in ("mean", "std"))]
        missing = [*found.missing_keys, *(name for name in ("mean", "std") if name not in outer)]
        if strict and (strange or missing):
            raise RuntimeError(
                f"this state does not fit: it lacks {missing or 'nothing'}, and has {strange} too many"
            )
        with torch.no_grad():
            for name in ("mean", "std"):
                if name in outer:
                    getattr(self, name).copy_(outer[name])
        return type(found)(missing, strange)

    def train(self, mode: bool = True) -> Self:
        """As of every module, but for norms that have no statistics of their own."""
        super().train(mode)
        if self.by_batch:
            for norm in self._norms():
                norm.train()
        return self

    def _norms(self) -> list[BatchNorm]:
        return [module for module in self.net.modules() if isinstance(module, BatchNorm)]
