"""A rehearsal refuses what a run's own set-up refuses, in the same words, with models that are only drawn."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from unskew.errors import InputError
from unskew.models import MODELS
from unskew.parts import PARTS, PRESETS
from unskew.runs import rehearsal, setup
from unskew.runs.checks import check_words
from unskew.runs.rehearsal import rehearse
from unskew.runs.setup import set_up
from unskew.runs.spec import Spec

SMALL: dict[str, Any] = {"clients": 10, "cohort": 2, "rounds": 2}

CHANGED: list[dict[str, Any]] = [
    *({"method": name} for name in (*PARTS, *PRESETS)),
    *({"method": f"scaffold+{name}", "cohort": 10} for name in (*PARTS, *PRESETS)),
    *({"model": name} for name in MODELS),
    {"method": "flea(conv1)"},
    {"method": "flea(last)"},
    {"method": "flea(nothing)", "model": "small_cnn"},
    {"method": "fedbr(width=60000, out=60000)"},
    {"method": "fedbr(group=1000)"},
    {"method": "phase_shift(50)"},
    {"method": "sem(via=others)", "cohort": 9},
    {"method": "fedgen(start=9)"},
    {"method": "moon", "model": "thesis_cifar", "batch_norm": "drop"},
    {"model": "mlp(hidden=[1000000, 1000000])"},
    {"cohort": 11},
    {"clients": 5000},
    {"metrics": ("auc",)},
    {"stop": "auc > 0.9"},
    {"stop": "mean_client_test_accuracy > 0.5"},
    {"budget": "3 s air"},
    *({"budget": f"{mb} MB"} for mb in (0.1, 0.2, 0.5, 1, 2, 500)),
    {"budget": "1 MB", "precision": "fp64"},
    {"budget": "1 MB", "method": "sem+topk(0.1)"},
    {"budget": "1 MB", "method": "central_sharing(0.1)", "cohort": 5},
    {"budget": "1 kB", "method": "local_only"},
    {"budget": "9.78 MB", "model": "thesis_cifar", "precision": "fp64"},
    *({"budget": "4.89 MB", "model": "thesis_cifar", "batch_norm": how} for how in ("average", "drop")),
    {"network": "wireless()", "budget": "3 s air"},
    {"measure": ("correlation",)},
    {"measure": ("gamma",), "method": "local_only"},
    {"keep": (1,), "method": "local_only"},
    {"crop": 9},
    {"crop": 2, "flip": True},
    {"engine": "loop", "compile": True},
    {"precision": "bf16", "device": "cpu"},
    {"workers": 1000, "device": "cpu"},
    {"device": "cuda:99"},
    {"device": "nothing"},
    {"ray": "auto"},
    {"label": "x"},
    {"emd": 1.95},
    {"validation": 0.2, "validation_of": "client", "client_test": 0.2},
    {"cohort": 0.5},
]


def set_up_whole(spec: Spec) -> Spec:
    """As a run does, before its first round."""
    made = set_up(spec)
    made.refuse_small_budget(spec)
    return made.settle(spec)


def said(function: Any, spec: Spec) -> tuple[Any, list[str]]:
    """What comes of a spec, or why it is refused, and of what it is warned."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            check_words(spec)
            found = function(spec)
        except InputError as problem:
            found = str(problem)
    return found, [str(one.message) for one in told]


@pytest.mark.parametrize(
    "changed", CHANGED, ids=lambda changed: ",".join(f"{k}={v}" for k, v in changed.items())
)
def test_a_rehearsal_says_what_a_set_up_says(
    changed: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Word for word, warnings included; and what it lets pass is the same spec."""
    try:
        spec = Spec.of(SMALL | changed)
    except InputError:
        pytest.skip("refused before data is read, by both")
    wanted = said(set_up_whole, spec)
    monkeypatch.setattr(setup, "set_up", lambda spec: pytest.fail("it was set up"))
    assert said(rehearse, spec) == wanted


@pytest.mark.parametrize(
    "changed",
    [
        {"budget": "1kB", "method": "fedbr"},
        {"budget": "500MB", "method": "fedbr"},
        {"model": "rehearsed:make"},
        {"method": "rehearsed:Softened"},
    ],
    ids=str,
)
def test_what_must_be_made_is_set_up(
    changed: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights that an objective adds, where their bytes count, and what is code of one's own: refused as a run is."""
    (tmp_path / "rehearsed.py").write_text(
        "from dataclasses import dataclass\n"
        "from typing import ClassVar\n"
        "from torch import nn\n"
        "from unskew.errors import InputError\n"
        "from unskew.parts import Aggregate\n"
        "def make(shape, classes):\n"
        "    return nn.Linear(3, classes)\n"
        "@dataclass(frozen=True)\n"
        "class Softened(Aggregate):\n"
        "    name: ClassVar[str] = 'softened'\n"
        "    def init_server(self, net):\n"
        "        raise InputError(f'no model of {len(net.trainable)} tensors')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "rehearsed", raising=False)
    seen: list[Spec] = []
    monkeypatch.setattr(setup, "set_up", lambda spec: seen.append(spec) or set_up(spec))
    spec = Spec.of(SMALL | changed)
    found, _ = said(rehearsal.rehearse, spec)
    assert seen == [spec]
    assert isinstance(found, Spec) == (changed.get("budget") == "500MB"), found
