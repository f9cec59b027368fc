"""The page in a real browser: every chart has drawn, with no network."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from one_browser import Browser, started_browser
from unskew.data.partition import partition
from unskew.report import write_report
from waiting import until

WriteRun = Callable[..., Path]
Opened = Callable[..., Any]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One that can reach nothing."""
    with started_browser("--host-resolver-rules=MAP * ~NOTFOUND", "--disable-quic") as found:
        yield found


@pytest.fixture
def opened(browser: Browser) -> Iterator[Callable[..., Any]]:
    """Open a report in a window of some size, and wait until its scripts have drawn what they can."""
    with contextlib.ExitStack() as windows:

        def drawn(page: Path, width: int = 1300, height: int = 900, **media: str) -> Any:
            shown = windows.enter_context(browser.window(width, height, **media))
            shown.goto(page.resolve().as_uri())
            shown.wait_for_selector("html[data-drawn]")
            return shown

        yield drawn


LOOK = """
() => {
  const root = document.documentElement;
  const seen = [...document.querySelectorAll("svg")].filter(svg => svg.getBoundingClientRect().width);
  const words = document.querySelector(".vega-embed text[fill='#1f2933']");
  dispatchEvent(new Event("beforeprint"));
  const folds = [...document.querySelectorAll("details.fold")];
  return {
    inner: innerWidth,
    reach: Math.max(root.scrollWidth, ...seen.map(svg => svg.getBoundingClientRect().right)),
    page: getComputedStyle(document.querySelector("main")).backgroundColor,
    words: words ? getComputedStyle(words).fill : "",
    paper: getComputedStyle(document.querySelector(".vega-embed svg")).backgroundColor,
    open: folds.filter(fold => fold.open).map(fold => fold.querySelector("summary").textContent),
    stays: folds.filter(fold => !fold.open).map(fold => fold.querySelector("summary").textContent),
  };
}
"""
"""What a page says of itself."""


def charts(document: str) -> list[str]:
    """What the browser made of each chart's place."""
    pieces = re.split(r'<div id="chart\d+"', document)[1:]
    return [piece.split('<script type="application/json"', 1)[0] for piece in pieces]


def test_every_chart_of_a_report_draws(six_runs: Path, tmp_path: Path, opened: Opened) -> None:
    """Two methods, three seeds, a bound, faults and a partition: curves, classes, costs and data are drawn."""
    made = partition(np.arange(200) % 3, "dirichlet(0.3)", clients=20, seed=0)
    for folder in (path.parent for path in six_runs.rglob("spec.json")):
        made.save(folder / "partition.npz")
    page = write_report(six_runs, tmp_path / "report.html")
    document = opened(page).content()
    assert 'data-drawn="true"' in document
    drawn = charts(document)
    assert len(drawn) == 5  # curves, classes, the front of what they trade, costs, partition
    assert all(chart.count("<svg") >= 1 and "could not be drawn" not in chart for chart in drawn)
    curves, classes, front, costs, held = drawn
    assert curves.count("mark-line") >= 4  # over rounds, bytes and sample-steps, and the loss
    assert curves.count("mark-area") >= 4  # with bands
    assert "full" in curves
    assert classes.count('aria-roledescription="rect mark"') >= 4  # two methods, two classes with samples
    assert "model to clients" in costs
    assert "mark-symbol" in front
    assert "mark-symbol" in held


def test_a_report_of_one_interrupted_run_draws(write_run: WriteRun, tmp_path: Path, opened: Opened) -> None:
    """One seed, two rounds, no partition kept and a loss that is NaN: what there is, is drawn."""
    folder = write_run("a", [0.2, 0.3], status="running", rounds=9, lines={"global_test_loss": float("nan")})
    document = opened(write_report(folder, tmp_path / "report.html")).content()
    assert 'data-drawn="true"' in document
    assert len(charts(document)) == 3
    assert "interrupted after round 2 of 9" in document


SEEN = "[...document.querySelectorAll('.mark-line path')].map(p => p.getAttribute('opacity'))"


def test_a_click_on_the_legend_singles_a_method_out_everywhere(
    six_runs: Path, tmp_path: Path, opened: Opened
) -> None:
    """Six panels of two lines: all are seen, then one of each pair fades, then all are seen again."""
    shown = opened(write_report(six_runs, tmp_path / "report.html"))
    name = shown.locator(".role-legend-label text", has_text=re.compile("^full$")).first
    before = shown.evaluate(SEEN)
    assert before == ["1"] * 12
    name.click()
    until(shown, f"{SEEN}.filter(opacity => opacity === '0.08').length >= 6")
    assert sorted(shown.evaluate(SEEN)) == ["0.08"] * 6 + ["1"] * 6
    name.click()
    until(shown, f"!{SEEN}.includes('0.08')")
    assert shown.evaluate(SEEN) == before


def test_nothing_is_wider_than_a_phone(
    six_runs: Path, write_run: WriteRun, tmp_path: Path, opened: Opened
) -> None:
    """390 pixels: no chart and no table reaches beyond, with long names, three targets and a failed run."""
    long = "fedprox(mu=0.123456789)+feddecorr(beta=0.987654321)"
    for seed in (0, 1):
        write_run(f"sweep/long-{seed}", [0.3, 0.4, 0.5], method=long, seed=seed, lines={"air_s": 1.0})
    write_run("sweep/failed", [0.3], method="sem", rounds=3, status="failed", result={"error": "x" * 300})
    made = partition(np.arange(200) % 3, "dirichlet(0.3)", clients=20, seed=0)
    for folder in (path.parent for path in six_runs.rglob("spec.json")):
        made.save(folder / "partition.npz")
    page = write_report(six_runs, tmp_path / "report.html", target=(0.3, 0.85, 0.99))
    seen = opened(page, 390, 800).evaluate(LOOK)
    assert seen["inner"] == 390
    assert seen["reach"] <= 390


def test_the_page_is_dark_at_night_and_light_on_paper(six_runs: Path, tmp_path: Path, opened: Opened) -> None:
    """The page, a chart's ground and a chart's words turn; what is drawn keeps its colours for print and export."""
    page = write_report(six_runs, tmp_path / "report.html")
    day = opened(page, 1200, 800).evaluate(LOOK)
    night = opened(page, 1200, 800, color_scheme="dark").evaluate(LOOK)
    assert (day["page"], day["words"]) == ("rgb(255, 255, 255)", "rgb(31, 41, 51)")
    assert (night["page"], night["words"]) == ("rgb(20, 24, 29)", "rgb(230, 234, 240)")
    assert night["paper"] == night["page"]
    assert "@media screen and (prefers-color-scheme: dark)" in page.read_text()


def test_print_unfolds_everything_but_what_it_has_already(
    six_runs: Path, tmp_path: Path, opened: Opened
) -> None:
    """The one sweep is printed; the same runs method by method stay folded, and are left out on paper."""
    seen = opened(write_report(six_runs, tmp_path / "report.html"), 1200, 800).evaluate(LOOK)
    assert seen["open"] == ["All runs in one sweep"]
    assert seen["stays"] == ["full", "fedavg"]


def test_runs_that_are_no_grid_share_their_settings_once(
    write_run: WriteRun, tmp_path: Path, opened: Opened
) -> None:
    """What is common stands once, what differs beside each name; nothing else of it is printed."""
    write_run("runs/a", [0.5], lr=0.3, batch=7)
    write_run("runs/b", [0.5], method="full", lr=0.2, batch=7)
    write_run("runs/c", [0.5], method="sem", lr=0.2, batch=7, seed=3)
    page = write_report(tmp_path / "runs", tmp_path / "report.html")
    text = page.read_text().split('id="repeat"')[1]
    assert text.split("<details")[0].count("batch = 7") == 1
    assert 'method = "sem"<br>lr = 0.2<br>seed = 3' in unescape(text)
    assert opened(page, 1200, 800).evaluate(LOOK)["open"] == []
