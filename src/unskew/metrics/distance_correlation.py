"""Distance correlation: how far two descriptions of the same samples know of each other.

Székely, Rizzo and Bakirov, *Measuring and testing dependence by correlation of distances*, 2007; in the squared form
of FLea's eq. 8 (Xia et al., KDD 2024). The statistic of the papers and packages is its root.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unskew.later import torch

if TYPE_CHECKING:
    from torch import Tensor


def distance_correlation(x: Tensor, f: Tensor, weight: Tensor | None = None, squared: bool = True) -> Tensor:
    """nu2(x, f) / sqrt(nu2(x, x) nu2(f, f)) of a batch, from 0 (independent) to 1; its root unless ``squared``.

    nu2(a, b) is the mean over pairs of samples of the product of double-centred Euclidean distances. ``weight``
    counts samples (0 on padding). Where one side does not vary, as with a single sample, it is 0. It can be
    differentiated everywhere: between equal samples, and at 0, the gradient is taken as 0.
    """
    counted = torch.ones(len(x), dtype=f.dtype, device=f.device) if weight is None else weight.to(f.dtype)
    a, b = _centred(x.to(f.dtype), counted), _centred(f, counted)
    pairs = counted[:, None] * counted[None, :] / counted.sum().clamp_min(1.0) ** 2
    scale = _root((pairs * a * a).sum()) * _root((pairs * b * b).sum())
    varies = scale > 0
    found = ((pairs * a * b).sum() / torch.where(varies, scale, 1)).clamp_min(0) * varies
    return found if squared else _root(found)


def _centred(values: Tensor, weight: Tensor) -> Tensor:
    """C E C of appendix B: distances less the means of their row and column, plus the mean of all."""
    total = weight.sum().clamp_min(1.0)
    flat = values.flatten(1)
    # by the products of vectors near their mean: all differences at once would take pairs x numbers of memory
    flat = torch.where(weight[:, None] > 0, flat, 0)
    flat = flat - (flat * weight[:, None]).sum(0) / total
    products = flat @ flat.T
    lengths = products.diagonal()
    apart = 1 - torch.eye(len(flat), dtype=flat.dtype, device=flat.device)
    distances = _root((lengths[:, None] + lengths[None, :] - 2 * products).clamp_min(0) * apart)
    row = (distances * weight).sum(1) / total
    return distances - row[:, None] - row[None, :] + (row * weight).sum() / total


def _root(value: Tensor) -> Tensor:
    """The square root, with the gradient 0 at 0."""
    positive = value > 0
    return torch.sqrt(torch.where(positive, value, 1)) * positive
