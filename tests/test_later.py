"""torch comes with the first use, and nothing lies between then."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

USE = """
import sys
import unskew.core.types as first
import unskew.parts as parts
from unskew import Method
method = Method.parse("scaffold+sem")
parts.PARTS
assert "torch" not in sys.modules
first.no_rows()
import torch
import unskew.core.task as second
import unskew.later
assert first.torch is second.torch is unskew.later.torch is torch
assert sys.modules[type(method.aggregate).__module__].torch is torch
print("done")
"""


def test_torch_takes_its_place_everywhere_with_its_first_use() -> None:
    """Parts are read without it; modules imported before and after that have torch itself."""
    done = subprocess.run([sys.executable, "-c", USE], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr


@pytest.mark.parametrize("name", ["unskew", "unskew.models", "unskew.report"])
def test_every_public_name_of_a_package_is_found_when_it_is_asked_for(name: str) -> None:
    """And then stands there; another is no attribute, in Python's own words."""
    package = importlib.import_module(name)
    for public in package.__all__:
        assert vars(package).get(public, getattr(package, public)) is vars(package)[public]
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'nothing'"):
        package.nothing  # noqa: B018
