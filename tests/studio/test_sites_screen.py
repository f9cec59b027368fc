"""The Sites screen: a federation that does not run, a site with its officer's log, a run over sites."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from waiting import until

pytest.importorskip("flwr", reason="real sites need unskew[sites]")

from unskew.sites.officer_log import Entry, OfficerLog
from unskew.sites.provision import init_federation

WriteRun = Callable[..., Path]


def test_who_is_there_what_is_allowed_and_what_was_sent(
    open_studio: Callable[..., Any], look: Callable[..., Any], write_run: WriteRun, tmp_path: Path
) -> None:
    study = tmp_path / "study"
    study.mkdir()
    made = init_federation(study / "ops", ["north", "south"])
    made.hand_out("north").rename(study / "north")
    log = OfficerLog(study / "north")
    log.write(Entry("training", "a model update", 81_604, 81_233, run="first-study", round=0))
    log.write(Entry("label counts", run="first-study", refused="north does not allow it"))
    write_run(
        "over", [0.1, 0.2], lines={"sites": {"bytes_down": 500, "bytes_up": 70, "lost": {"south": "away"}}}
    ).rename(study / "over")
    found = look(open_studio(study, read_only=True))
    page = found.open("/sites")
    until(page, "document.querySelectorAll('#shown .card').length === 3")
    found.picture("sites")
    log.write(Entry("training", "a model update", 10, 1234, run="<script>alert(1)</script>", round=1))
    page.click("#again")
    until(page, "document.getElementById('shown').textContent.includes('1,234')")
    told = page.inner_text("#shown")
    assert "does not run" in told
    assert "a model update" in told
    assert "<script>alert(1)</script>" in told
    assert "refused: north does not allow it" in told
    assert "south in 2 rounds" in told
    assert "1,000" in told
    found.check_contrast()
