"""FLea's authors' scripts: what is changed, and that runs are made once."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from unskew.core.optimisers import Adam
from unskew.core.slots import Local
from unskew.errors import InputError
from unskew.reproduce.exhibit import exhibit_of
from unskew.reproduce.flea_decor import STEP, changed, new_every_step
from unskew.reproduce.flea_scripts import make
from unskew.reproduce.making import Wanted


def test_a_new_adam_in_every_step_goes_by_the_rate_whatever_the_gradient() -> None:
    """From 1 by 0.1 down, and by 0.1 down again, for gradients of 3 and of 0.5; then the old Adam is back."""
    before = Adam.step
    with changed([(STEP, new_every_step)]):
        rule = Adam(Local(optimizer="adam"))
        params = {"w": torch.ones(1)}
        state = rule.init(params)
        for count, slope in enumerate((3.0, 0.5)):
            rule.step(params, {"w": torch.full((1,), slope)}, state, 0.1, count)
    assert params["w"].item() == pytest.approx(0.8)
    assert Adam.step is before


def test_runs_that_are_there_are_read(tmp_path) -> None:
    """The second time no log changes, and the rows are the same."""
    wanted = Wanted(tmp_path, quick=True, options=exhibit_of("flea-scripts").options)
    rows = make(wanted)
    logs = {log: log.stat().st_mtime_ns for log in tmp_path.rglob("rounds.jsonl")}
    assert len(logs) == len(rows)
    assert make(wanted) == rows
    assert {log: log.stat().st_mtime_ns for log in logs} == logs
    with pytest.raises(InputError, match=r"was run with rounds = 1, not 40; choose another --out"):
        make(replace(wanted, quick=False, seeds=(0,)))
