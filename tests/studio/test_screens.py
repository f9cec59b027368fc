"""The screens of runs and of one run, in a real browser."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from filelock import FileLock

from studio_runs import add_rounds, visits
from unskew.data.partition import partition

WriteRun = Callable[..., Path]
OpenStudio = Callable[..., Any]
Looks = Callable[..., Any]
EVIL = "<script>document.title='stolen'</script>"


@pytest.fixture
def runs(write_run: WriteRun, tmp_path: Path) -> Path:
    """Two methods of two seeds that are done, one that failed, one that was stopped, one that is damaged."""
    for seed in (0, 1):
        for method, top in (("fedavg", 0.7), ("sem", 0.8)):
            accuracies = [top * (1 - 0.8 ** (at + 1)) + 0.01 * seed for at in range(12)]
            done = {"final": {"accuracy": accuracies[-1]}, "best": {"accuracy": accuracies[-1]}}
            write_run(f"skew/{method}-{seed}", accuracies, method=method, seed=seed, result=done)
    write_run("failed", [0.3], method="full", rounds=3, status="failed", result={"error": "no more memory"})
    write_run("stopped", [0.3, 0.4], method="scaffold", rounds=30, status="running")
    (write_run("damaged", [0.3]) / "spec.json").write_text("{")
    return tmp_path


@pytest.fixture
def sem_run(write_run: WriteRun) -> Iterator[Path]:
    """A run of six rounds that goes on: its lock is held, its log says who trained."""
    labels = [str(label) for label in range(3)]
    folder = write_run("live/sem", [], method="sem", rounds=20, status="running", data={"labels": labels})
    partition(np.arange(200) % 3, "dirichlet(0.3)", clients=20, seed=0).save(folder / "partition.npz")
    add_rounds(folder, 1, [0.2, 0.3, 0.4, 0.45, 0.5, 0.52])
    with FileLock(folder / "lock"):
        yield folder


def until(holds: Callable[[], bool]) -> None:
    """Wait for something that no selector can say; pages forbid code made of text, the driver's too."""
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def names(page: Any) -> list[str]:
    return list(page.locator("td.name a").all_inner_texts())


def test_runs_are_listed_filtered_sorted_and_grouped(
    runs: Path, open_studio: OpenStudio, look: Looks
) -> None:
    seen = look(open_studio(runs))
    page = seen.open("/runs")
    page.locator("svg.line").first.wait_for()
    assert len(names(page)) == 7
    assert "7 runs: 1 damaged, 1 failed, 1 interrupted, 4 done" in page.locator("#summary").inner_text()
    assert "no more memory" in page.locator("tr", has_text="failed").first.inner_text()
    page.fill("#filter", "sem seed=1")
    assert names(page) == ["skew/sem-1"]
    page.fill("#filter", "nothing is called so")
    assert page.locator("#nothing").is_visible()
    page.fill("#filter", "")
    page.select_option("#status", "done")
    page.select_option("#sort", "best")
    assert names(page)[0] == "skew/sem-1"
    page.get_by_role("button", name="Metric").click()  # the heading sorts, and turns round what it has sorted
    assert names(page)[-1] == "skew/sem-1"
    page.get_by_role("button", name="Metric").click()
    assert names(page)[0] == "skew/sem-1"
    page.select_option("#group", "method")
    assert page.locator("tr.group").count() == 2
    assert "2 runs · mean" in page.locator("tr.group").first.inner_text()
    page.get_by_label("Compare skew/sem-1").check()
    page.get_by_label("Compare skew/sem-0").check()
    assert page.locator("#compare").inner_text() == "Compare 2 runs"
    seen.check_contrast()


def test_a_list_of_runs_is_live(
    runs: Path, write_run: WriteRun, open_studio: OpenStudio, look: Looks
) -> None:
    page = look(open_studio(runs)).open("/runs")
    page.locator("td.name a").first.wait_for()
    write_run("new-one", [0.9], rounds=2, status="running")
    page.locator("td.name a", has_text="new-one").wait_for()
    add_rounds(runs / "new-one", 2, [0.95])
    page.locator("tr", has_text="new-one").get_by_text("2 / 2").wait_for()
    assert page.locator("tr", has_text="new-one").count() == 1


def test_of_a_thousand_runs_only_those_in_sight_are_in_the_page(
    write_run: WriteRun, tmp_path: Path, open_studio: OpenStudio, look: Looks
) -> None:
    import shutil

    first = write_run("runs/0", [0.5, 0.6])
    for at in range(1, 1000):
        shutil.copytree(first, tmp_path / "runs" / str(at))
    page = look(open_studio(tmp_path)).open("/runs")
    page.locator("td.name a").first.wait_for()
    page.select_option("#sort", "name")
    assert page.locator("tbody tr").count() < 60
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    page.locator("td.name a", has_text="runs/999").wait_for()
    assert page.locator("tbody tr").count() < 60


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_on_a_phone_by_day_and_at_night(
    runs: Path, sem_run: Path, open_studio: OpenStudio, look: Looks, colours: str
) -> None:
    seen = look(open_studio(runs), 390, 800, color_scheme=colours)
    page = seen.open("/runs")
    page.locator("td.name a").first.wait_for()
    seen.check_width()
    seen.check_contrast()
    page = seen.open("/run/live/sem")
    page.wait_for_selector("html[data-drawn]")
    seen.check_width()
    seen.check_contrast()
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(246, 248, 250)" if colours == "light" else "rgb(13, 16, 20)")


def test_the_switch_turns_the_colours_and_is_remembered(
    runs: Path, open_studio: OpenStudio, look: Looks
) -> None:
    page = look(open_studio(runs), color_scheme="light").open("/runs")
    dark = "getComputedStyle(document.body).backgroundColor"
    page.click("#theme")
    page.click("#theme")
    assert page.evaluate(dark) == "rgb(13, 16, 20)"
    page.reload()
    assert page.evaluate(dark) == "rgb(13, 16, 20)"


def test_curves_grow_as_rounds_end(sem_run: Path, open_studio: OpenStudio, look: Looks) -> None:
    seen = look(open_studio(sem_run.parents[1]))
    page = seen.open("/run/live/sem")
    page.wait_for_selector("html[data-drawn]")
    assert page.locator("#round").inner_text() == "6 / 20"
    assert page.locator("#status").inner_text() == "running"
    line = "document.querySelector('#curves .mark-line path').getAttribute('d')"
    before = page.evaluate(line)
    add_rounds(sem_run, 7, [0.6, 0.7])
    page.get_by_text("8 / 20").wait_for()
    assert page.locator("#value").inner_text() == "70.0 %"
    until(lambda: page.evaluate(line) != before)
    seen.check_contrast()


def test_any_number_of_tabs_is_open_at_once(sem_run: Path, open_studio: OpenStudio, look: Looks) -> None:
    """A browser has six connections to a studio: tabs that nobody sees hold none, those that are seen share three."""
    studio = open_studio(sem_run.parents[1])
    seen = look(studio, alone=True)
    hide = "Object.defineProperty(document, 'hidden', {configurable: true, get: () => window.isHidden})"
    seen.page.context.add_init_script(hide)
    seen.page.goto(studio.door.address)
    tabs = [seen.page.context.new_page() for _ in range(7)]
    for tab in tabs:
        tab.goto(f"{studio.root}/run/live/sem")
        tab.wait_for_selector("html[data-drawn]")
    watching = studio.inner.feeds.feeds["live/sem"].pages
    assert len(watching) == 3
    add_rounds(sem_run, 7, [0.6, 0.7])
    for tab in tabs:
        tab.get_by_text("8 / 20").wait_for()
        tab.evaluate("window.isHidden = true; dispatchEvent(new Event('visibilitychange'))")
    until(lambda: not watching)
    add_rounds(sem_run, 9, [0.8])
    tabs[-1].evaluate("window.isHidden = false; dispatchEvent(new Event('visibilitychange'))")
    tabs[-1].get_by_text("9 / 20").wait_for()


def test_a_run_that_ends_or_vanishes_says_so(sem_run: Path, open_studio: OpenStudio, look: Looks) -> None:
    import shutil

    page = look(open_studio(sem_run.parents[1])).open("/run/live/sem")
    page.get_by_text("running", exact=True).wait_for()
    shutil.rmtree(sem_run)
    page.get_by_text("This run's folder was deleted").wait_for()
    assert page.locator("#curves").is_visible()


def test_a_replay_is_played_paused_and_scrubbed_by_mouse_and_keyboard(
    sem_run: Path, open_studio: OpenStudio, look: Looks
) -> None:
    page = look(open_studio(sem_run.parents[1])).open("/run/live/sem")
    caption = page.locator("#caption")
    page.get_by_text("Round 1: the global model goes to 2 clients.").wait_for()
    assert page.locator("circle.model").count() == 2
    page.focus("#scrub")
    page.keyboard.press("ArrowRight")
    assert "Round 2" in caption.inner_text()
    page.keyboard.press("End")
    assert "Round 6" in caption.inner_text()
    page.keyboard.press("Home")
    page.locator("#scrub").evaluate("one => { one.value = 1.45; one.dispatchEvent(new Event('input')); }")
    assert "hand-over: each half-trained model goes to another client (1 → 6, 6 → 1)" in caption.inner_text()
    page.focus("#scrub")
    page.keyboard.press("Home")
    page.select_option("#speed", "3")
    page.focus("#scrub")
    page.keyboard.press("Space")
    page.get_by_text(re.compile("^Round [2-5]")).wait_for()
    page.click("#play")
    assert page.locator("#play").inner_text() == "Play"
    stopped = caption.inner_text()
    time.sleep(0.3)
    assert caption.inner_text() == stopped


def test_without_motion_models_stand_still(sem_run: Path, open_studio: OpenStudio, look: Looks) -> None:
    page = look(open_studio(sem_run.parents[1]), reduced_motion="reduce").open("/run/live/sem")
    page.get_by_text("Round 1: the global model").wait_for()
    where = "document.querySelector('circle.model').getAttribute('transform')"
    before = page.evaluate(where)
    page.locator("#scrub").evaluate("one => { one.value = 1.05; one.dispatchEvent(new Event('input')); }")
    assert page.evaluate(where) == before


def test_costs_clients_and_holdings_are_told(sem_run: Path, open_studio: OpenStudio, look: Looks) -> None:
    page = look(open_studio(sem_run.parents[1])).open("/run/live/sem")
    page.wait_for_selector("html[data-drawn]")
    assert "its half-trained model to another client (sem)" in page.locator("#faults").inner_text()
    assert page.locator("#bytes").inner_text() == "120 kB"
    client = page.locator("#clients tbody tr").nth(1).inner_text().split()
    assert client[:5] == ["1", "2", "6", "1.500", "0.400"]  # rounds 1 and 6, the second leg's numbers
    page.wait_for_selector("#took-chart[data-drawn=true]")
    page.click("#held summary")
    page.wait_for_selector("#held-chart[data-drawn=true]")


def test_a_run_that_cannot_be_read_has_a_page_that_says_so(
    runs: Path, open_studio: OpenStudio, look: Looks
) -> None:
    studio = open_studio(runs)
    seen = look(studio)
    page = seen.open("/run/damaged")
    assert "This run cannot be read" in page.inner_text("main")
    page = seen.open("/run/failed")
    assert "no more memory" in page.inner_text("main")
    assert studio.get("/run/never").status_code == 404


def test_names_from_runs_are_text_and_never_html(
    write_run: WriteRun, tmp_path: Path, open_studio: OpenStudio, look: Looks
) -> None:
    name = EVIL.replace("/", "_")
    told: dict[str, Any] = {"result": {"error": EVIL}, "data": {"labels": [EVIL, "b", "c"]}}
    folder = write_run(name, [0.5, 0.6], method_label=EVIL, status="failed", **told)
    add_rounds(folder, 3, [0.5])
    studio = open_studio(tmp_path)
    page = look(studio).open("/runs")
    page.locator("td.name a").first.wait_for()
    assert names(page) == [name]
    assert EVIL in page.locator("td.name small").first.text_content()
    page.locator("td.name a").first.click()
    page.wait_for_selector("html[data-drawn]")
    assert page.title().startswith(name)
    assert page.locator("h1").inner_text() == name
    assert page.evaluate("document.querySelectorAll('main script:not([type])').length") == 0


def test_the_page_is_used_by_keyboard_alone(runs: Path, open_studio: OpenStudio, look: Looks) -> None:
    page = look(open_studio(runs)).open("/runs")
    page.locator("td.name a").first.wait_for()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    page.focus("#new")
    page.keyboard.press("Enter")
    page.locator("#set-method").wait_for()
    assert page.evaluate("document.activeElement.id") == "set-method"
    page.keyboard.press("Escape")
    assert not page.locator("#dialog").is_visible()
    assert page.evaluate("document.activeElement.id") == "new"
    page.locator("td.name a").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/run/"))


def test_visits_of_a_round_say_who_handed_over_to_whom() -> None:
    first, second = visits(3)
    assert second["from"] == first["clients"]
