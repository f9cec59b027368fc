"""Many pages that watch one run, and pages that are open for long: what they cost stays small."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from filelock import FileLock

from studio_runs import add_rounds
from unskew.parts.catalogue import disclosed_by
from unskew.report.results.gather import read_record
from unskew.studio import run_charts, run_view, tail
from unskew.studio.screens import run as run_screen
from unskew.studio.tail import MOST_TOLD, WAITING, Feed, LogTail

WriteRun = Callable[..., Path]
TABS = 50


@pytest.fixture
def live(write_run: WriteRun) -> Iterator[Path]:
    folder = write_run("live", [], method="seol_kim", rounds=30_000, status="running")
    add_rounds(folder, 1, [0.2, 0.3])
    with FileLock(folder / "lock"):
        yield folder


def test_fifty_tabs_share_one_reader_of_the_log(
    live: Path, open_studio: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    readers: set[int] = set()
    read = LogTail.read

    def counted(one: LogTail) -> Any:
        readers.add(id(one))
        return read(one)

    monkeypatch.setattr(LogTail, "read", counted)
    studio = open_studio(live.parent)
    at = (live / "rounds.jsonl").stat().st_size
    listening: list[int] = []

    async def listen(client: httpx.AsyncClient) -> None:
        address = f"{studio.root}/run-events/live?at={at}"
        async with client.stream("GET", address) as stream:
            async for line in stream.aiter_lines():
                if line.startswith("event: status"):
                    listening.append(1)
                    if len(listening) == TABS:
                        add_rounds(live, 3, [0.4])
                if line.startswith("data: [") and '"round": 3' in line:
                    return

    async def all_tabs() -> None:
        limits = httpx.Limits(max_connections=TABS)
        async with httpx.AsyncClient(
            cookies=dict(studio.client.cookies), limits=limits, timeout=30
        ) as client:
            await asyncio.wait_for(asyncio.gather(*(listen(client) for _ in range(TABS))), 60)

    asyncio.run(all_tabs())
    assert len(readers) == 1


def test_a_page_that_sleeps_is_not_waited_for_and_keeps_a_bounded_queue(tmp_path: Path) -> None:
    async def tell() -> list[str]:
        page: asyncio.Queue[str] = asyncio.Queue(WAITING)
        feed = Feed(LogTail(tmp_path / "none", False), dict, {page})
        for at in range(20_000):
            feed.tell("rounds", [{"round": at}])
        assert page.qsize() <= WAITING
        return [page.get_nowait() for _ in range(page.qsize())]

    assert asyncio.run(tell())[0].startswith("event: anew")


def test_who_has_missed_much_asks_for_the_curve_instead() -> None:
    assert tail.told(False, [{"round": at} for at in range(MOST_TOLD)])[0] == "rounds"
    assert tail.told(False, [{"round": at} for at in range(20_000)]) == ("anew", {})
    assert tail.told(True, []) == ("anew", {})


def test_a_tail_that_starts_within_a_line_reads_it_whole(tmp_path: Path) -> None:
    log = tmp_path / "rounds.jsonl"
    log.write_text('{"round": 1}\n{"round": 2}\n')
    assert LogTail(log, False, at=17).read() == (False, [{"round": 2}])
    assert LogTail(log, False, at=5).read()[1][0] == {"round": 1}


def test_sums_of_a_run_that_goes_on_are_read_once_for_all_pages(
    live: Path, open_studio: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[Path] = []
    read = run_view.record_of_folder
    monkeypatch.setattr(run_view, "record_of_folder", lambda path: (reads.append(path), read(path))[1])
    monkeypatch.setattr(run_screen, "PAUSES", 1e9)
    studio = open_studio(live.parent)
    for at in range(3, 8):
        add_rounds(live, at, [0.4])
        assert studio.get("/run-sums/live").status_code == 200
    assert len(reads) == 1


def test_a_picture_of_who_took_part_is_bounded(live: Path) -> None:
    few, columns, each, clients = run_charts.took_part(read_record(live))
    assert (columns, each, clients) == ([1, 2], 1, ["1", "2", "6", "7"])
    assert [(cell["client"], cell["round"]) for cell in few] == [("1", 1), ("2", 2), ("6", 1), ("7", 2)]
    add_rounds(live, 3, [0.5] * 1998)
    cells, columns, each, clients = run_charts.took_part(read_record(live))
    assert len(columns) <= run_charts.MOST_COLUMNS
    assert len(clients) == 10
    assert all(0 < cell["share"] <= 1 for cell in cells)
    assert len(run_view.overview(read_record(live))["points"]) <= run_view.MOST_POINTS


@pytest.mark.parametrize(("rounds", "ticks"), [(1, 1), (3, 2), (30_000, 6)])
def test_every_tick_of_a_curve_is_another_number(rounds: int, ticks: int) -> None:
    """No round stands twice below it, and no percentage beside it: 3%, 3%, 4%."""
    drawn = run_charts._curve("key", "Accuracy", True, rounds, "#000000")["encoding"]
    assert drawn["x"]["axis"]["tickCount"] == ticks
    assert drawn["y"]["axis"]["format"] == "%"  # as many decimals as the ticks need


def test_disclosures_of_a_run_that_goes_on_open_its_presets(live: Path) -> None:
    told = run_view.disclosed(read_record(live))
    assert any("(kld)" in said for said in told)
    assert disclosed_by("fedavg") == ()
    assert disclosed_by("mine:Part+sem")[0].startswith("not known")


def test_a_phase_keeps_its_models_and_a_handed_over_model_is_not_kept() -> None:
    phases = [{"by": "server", "clients": [6, 10]}, {"by": "server", "clients": [0, 1], "keeps": True}]
    assert run_view.kept(phases) == [0, 1]
    chain = [{"clients": [1, 2], "keeps": True}, {"clients": [2, 1], "from": [1, 2]}]
    assert run_view.kept(chain) == []
