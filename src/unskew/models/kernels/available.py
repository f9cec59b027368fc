"""Whether a device has kernels for all clients at once."""

from __future__ import annotations

import functools
import importlib.util

import torch

from unskew.models.kernels.beginning import PlannedSteps, PoolTensors, begin
from unskew.models.kernels.books import add_losses
from unskew.models.kernels.convolution import Convolution, Walk
from unskew.models.kernels.cross_entropy import CrossEntropy
from unskew.notices import warn


@functools.cache
def has_kernels(device: torch.device) -> bool:
    """Whether the kernels run on a device, by trying: Triton, which torch brings along with CUDA, may be of another
    version, may find no C compiler for what starts its kernels, or the GPU may be too small for their tiles.

    Its interpreter (``TRITON_INTERPRET=1``) runs them on a CPU, slowly: for tests, which ask for them.
    """
    if device.type != "cuda" or importlib.util.find_spec("triton") is None:
        return False
    try:
        with torch.cuda.device(device):
            _try(device)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        why = str(error).strip().partition("\n")[0]
        warn(
            f"kernels that convolve for all clients at once cannot be used here ({type(error).__name__}: {why}); "
            "clients are trained side by side, which takes longer",
            stacklevel=2,
        )
        return False
    return True


def _try(device: torch.device, samples: int = 280) -> float:
    """A step of one client, waited for: samples looked up, a convolution, the loss, gradients. So many samples take the
    largest tiles."""
    one, none = torch.ones(1, device=device), torch.zeros(samples, dtype=torch.int64, device=device)
    planned = PlannedSteps(none[None, None], torch.ones(1, 1, samples, device=device), one[None], None)
    images = torch.zeros(1, 64, 12, 12, dtype=torch.uint8, device=device)
    pool = PoolTensors(images, none[:1], one[:, None, None], one[:, None, None])
    with torch.enable_grad():
        step = begin(none[:1], planned, pool, 1, torch.bfloat16, side_by_side=True)
        weight = torch.ones(1, 128, 64, 3, 3, device=device, requires_grad=True)
        y = Convolution.apply(step.x, weight, None, Walk((1, 1), (1, 1)))  # type: ignore[no-untyped-call]
        loss = CrossEntropy.apply(y.mean((3, 4)), step.y, step.weight, None)  # type: ignore[no-untyped-call]
        add_losses(one, loss.detach(), step.weight)
        return float(torch.autograd.grad(loss.sum(), weight)[0].sum() + one)
