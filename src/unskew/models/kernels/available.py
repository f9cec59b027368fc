"""Whether a device has kernels for all clients at once."""

from __future__ import annotations

import functools
import importlib.util

import torch

from unskew.models.kernels.convolution import Convolution, Walk
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
            f"kernels that convolve for all clients at once cannot be had here ({type(error).__name__}: {why}); "
            "clients are trained side by side, which takes longer",
            stacklevel=2,
        )
        return False
    return True


def _try(device: torch.device) -> None:
    """A convolution and its gradient in the largest tiles, waited for."""
    with torch.enable_grad():
        x = torch.ones(1, 280, 64, 12, 12, dtype=torch.bfloat16, device=device)
        weight = torch.ones(1, 128, 64, 3, 3, device=device, requires_grad=True)
        y = Convolution.apply(x, weight, None, Walk((1, 1), (1, 1)))  # type: ignore[no-untyped-call]
        torch.autograd.grad(y.float().sum(), weight)[0].sum().item()
