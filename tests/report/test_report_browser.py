"""The page in a real browser: every chart has drawn, with no network."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from unskew.data.partition import partition
from unskew.report import write_report

WriteRun = Callable[..., Path]


def browser() -> str:
    """Chromium; on CI it must be there, elsewhere the test skips."""
    found = next(
        (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))),
        "",
    )
    if not found:
        assert not os.environ.get("CI"), "CI must have a browser to look at the report with: install chromium"
        pytest.skip("there is no chromium on this machine to look at the report with")
    return found


def opened(page: Path, profile: Path) -> str:
    """The page's document after its scripts have run, in a browser that can reach nothing."""
    done = subprocess.run(
        [
            *(browser(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
            *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
            *(
                "--host-resolver-rules=MAP * ~NOTFOUND",
                f"--user-data-dir={profile}",
                "--disable-dev-shm-usage",
            ),
            *("--virtual-time-budget=20000", "--dump-dom", page.resolve().as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout


def charts(document: str) -> list[str]:
    """What the browser made of each chart's place."""
    pieces = re.split(r'<div id="chart\d+"', document)[1:]
    return [piece.split('<script type="application/json"', 1)[0] for piece in pieces]


def test_every_chart_of_a_report_draws(six_runs: Path, tmp_path: Path) -> None:
    """Two methods, three seeds, a bound, faults and a partition: curves, classes, costs and data are drawn."""
    made = partition(np.arange(200) % 3, "dirichlet(0.3)", clients=20, seed=0)
    for folder in (path.parent for path in six_runs.rglob("spec.json")):
        made.save(folder / "partition.npz")
    page = write_report(six_runs, tmp_path / "report.html")
    document = opened(page, tmp_path / "profile")
    assert 'data-drawn="true"' in document
    drawn = charts(document)
    assert len(drawn) == 4  # curves, classes, costs, partition
    assert all(chart.count("<svg") >= 1 and "could not be drawn" not in chart for chart in drawn)
    curves, classes, costs, held = drawn
    assert curves.count("mark-line") >= 4  # over rounds, bytes and sample-steps, and the loss
    assert curves.count("mark-area") >= 4  # with bands
    assert "full" in curves
    assert classes.count('aria-roledescription="rect mark"') >= 4  # two methods, two classes with samples
    assert "model to clients" in costs
    assert "mark-symbol" in held


def test_a_report_of_one_interrupted_run_draws(write_run: WriteRun, tmp_path: Path) -> None:
    """One seed, two rounds, no partition kept and a loss that is NaN: what there is, is drawn."""
    folder = write_run("a", [0.2, 0.3], status="running", rounds=9, lines={"global_test_loss": float("nan")})
    document = opened(write_report(folder, tmp_path / "report.html"), tmp_path / "profile")
    assert 'data-drawn="true"' in document
    assert len(charts(document)) == 3
    assert "interrupted after round 2 of 9" in document


CLICK = """
<script>
const wait = () => {
  if (!document.documentElement.dataset.drawn) return setTimeout(wait, 50);
  const name = [...document.querySelectorAll(".role-legend-label text")].find(t => t.textContent === "full");
  const seen = () => [...document.querySelectorAll(".mark-line path")].map(p => p.getAttribute("opacity"));
  const click = () => {
    for (const kind of ["pointerdown", "mousedown", "pointerup", "mouseup", "click"])
      name.dispatchEvent(new MouseEvent(kind, {bubbles: true, view: window}));
  };
  const steps = [seen()];
  click();
  setTimeout(() => {
    steps.push(seen());
    click();
    setTimeout(() => { steps.push(seen()); document.body.dataset.steps = steps.join(" "); }, 100);
  }, 100);
};
wait();
</script>
"""


def test_a_click_on_the_legend_singles_a_method_out_everywhere(six_runs: Path, tmp_path: Path) -> None:
    """Four panels of two lines: all are seen, then one of each pair fades, then all are seen again."""
    page = write_report(six_runs, tmp_path / "report.html")
    page.write_text(page.read_text().replace("</main>", CLICK + "</main>"))
    found = re.search(r'data-steps="([^"]*)"', opened(page, tmp_path / "profile"))
    assert found is not None
    before, chosen, after = (step.split(",") for step in found[1].split())
    assert before == ["1"] * 8
    assert sorted(chosen) == ["0.08"] * 4 + ["1"] * 4
    assert after == before
