"""The pictures of the documentation: UNSKEW_STUDIO_PICTURES=docs/img pytest tests/studio/test_pictures.py."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import unskew

WANTED = os.environ.get("UNSKEW_STUDIO_PICTURES")
METHODS = ("fedavg", "scaffold", "phase_shift(2)", "daca", "sem")
SETTINGS: dict[str, Any] = {
    "dataset": "digits",
    "clients": 20,
    "cohort": 6,
    "rounds": 40,
    "lr": 0.1,
    "epochs": 2,
}


@pytest.mark.skipif(not WANTED, reason="pictures are taken where UNSKEW_STUDIO_PICTURES names a folder")
def test_pictures_of_runs_and_of_a_run(
    tmp_path: Path, open_studio: Callable[..., Any], look: Callable[..., Any]
) -> None:
    folder = tmp_path / "experiments"
    for method in METHODS:
        for seed in (0, 1, 2):
            unskew.run(**SETTINGS, method=method, seed=seed, out=folder / f"skew/{method}-seed{seed}")
    studio = open_studio(folder)
    seen = look(studio, 1280, 820)
    page = seen.open("/runs")
    page.locator("svg.line").nth(8).wait_for()
    seen.picture("runs")
    page.click("#new")
    page.locator("#set-method").wait_for()
    seen.picture("new")
    page = seen.open("/run/skew/sem-seed0")
    page.wait_for_selector("html[data-drawn]")
    seen.picture("run")
    page = seen.open("/partition")
    page.wait_for_selector("#found[aria-busy='false'] #matrix[data-drawn='true'] svg:visible")
    seen.picture("partition")
    page = seen.open("/compare")
    page.wait_for_selector("#results[aria-busy='false'] [data-drawn='true'] svg:visible")
    seen.picture("compare")
    night = look(studio, 1280, 820, color_scheme="dark")
    for method, at, shown in (("sem", 7.42, seen), ("daca", 1.1, night)):
        page = shown.open(f"/run/skew/{method}-seed0")
        page.wait_for_selector("html[data-drawn]")
        page.locator("#scrub").evaluate(
            f"one => {{ one.value = {at}; one.dispatchEvent(new Event('input')); }}"
        )
        page.evaluate(
            "document.querySelector('.bar').style.position = 'static'"
        )  # else it lies over the stage
        page.wait_for_timeout(900)
        page.locator("#replay").screenshot(path=f"{WANTED}/studio-replay-{method}.png")
    seen = look(studio, 390, 820)
    page = seen.open("/runs")
    page.locator("svg.line").nth(3).wait_for()
    seen.picture("phone")
    wanted = ("runs", "new", "run", "partition", "compare", "replay-sem", "replay-daca", "phone")
    assert all((Path(str(WANTED)) / f"studio-{name}.png").stat().st_size > 10_000 for name in wanted)
