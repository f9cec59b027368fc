"""How torch computes in a run, whatever its caller has set."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def single_threaded() -> Iterator[None]:
    """One torch thread: faster for small batches, and the number of cores then cannot change a bit.

    And none of the modes that a caller may be in: ``no_grad``, ``inference_mode``, ``autocast``, a default device.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with contextlib.ExitStack() as modes:
            modes.enter_context(torch.inference_mode(False))
            modes.enter_context(torch.enable_grad())
            for kind in ("cpu", "cuda", "mps"):
                if torch.is_autocast_enabled(kind):
                    modes.enter_context(torch.autocast(kind, enabled=False))
            if torch.get_default_device().type != "cpu":  # looked at first: it slows every call down
                modes.enter_context(torch.device("cpu"))
            yield
    finally:
        torch.set_num_threads(before)
