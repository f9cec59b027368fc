"""A GPU is looked for without torch where no driver is."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from unskew.machine.gpus import gpu_there

LOOK = """
import sys
from unskew.machine import gpus
gpus._driver_there = lambda: False
assert not gpus.gpu_there() and "torch" not in sys.modules
gpus._driver_there = lambda: True
gpus.gpu_there()
assert "torch" in sys.modules
print("done")
"""


def test_where_no_driver_is_torch_is_not_asked() -> None:
    done = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr


@pytest.mark.parametrize("there", [True, False])
def test_once_torch_is_loaded_it_says(there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    assert gpu_there() is there
