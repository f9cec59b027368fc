"""What the studio costs, in a real browser: how fast lists open, what tabs cost a run, whether a page grows.

python benchmarks/studio.py [list] [explore] [tabs] [day] [visits]: the named measurements, or all of them. Each prints
one line. Chromium must be installed; runs are of digits, in a folder that is deleted afterwards.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
from filelock import FileLock
from playwright.sync_api import sync_playwright

from unskew.runs.spec import Spec
from unskew.sealed import seal

TABS = 50


@contextlib.contextmanager
def studio(folder: Path) -> Iterator[str]:
    """A studio as a user starts it, in a process of its own; its address with the key."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "unskew", "studio", str(folder), "--no-open", "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as running:
        try:
            assert running.stdout is not None
            line = next(line for line in running.stdout if "token=" in line)
            yield next(word for word in line.split() if "token=" in word)
        finally:
            running.terminate()


@contextlib.contextmanager
def page(address: str) -> Iterator[Any]:
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium") or "chromium", args=["--no-sandbox", "--disable-gpu"]
        )
        opened = browser.new_context(viewport={"width": 1280, "height": 860}).new_page()
        opened.goto(
            address.replace("/?", "/static/icon.svg?")
        )  # the key becomes a cookie; no screen is loaded yet
        yield opened
        browser.close()


def write_run(folder: Path, played: int, status: str | None = "done", **settings: Any) -> Path:
    folder.mkdir(parents=True)
    spec = Spec.of({"dataset": "digits", "clients": 20, "rounds": played, **settings})
    about = {
        "format": 2,
        "unskew": "0",
        "spec": spec.as_dict(),
        "data": {"clients": 20, "labels": ["0", "1"]},
    }
    (folder / "spec.json").write_text(seal(about))
    (folder / "rounds.jsonl").write_text("".join(line(at) + "\n" for at in range(1, played + 1)))
    if status:
        (folder / "result.json").write_text(seal({"status": status, "final": {"accuracy": 0.8}}))
    return folder


def line(at: int) -> str:
    """A round's line as SEM writes it, with who trained."""
    cohort = [(at * 7 + k) % 20 for k in range(6)]
    leg = {"clients": cohort, "loss": [1.0] * 6, "moved": [0.1] * 6}
    said = {"round": at, "global_test_accuracy": 1 - 1 / (at + 1), "global_test_loss": 1 / at, "wall_s": 0.1}
    moved = {"bytes": {"down": {"model": 600}, "up": {"model": 600}, "peer": {"model": 600}}}
    visits = [{"by": "server", "keeps": True} | leg, {"by": "peer", "from": cohort[::-1]} | leg]
    return seal(said | moved | {"sample_steps": 100, "visits": visits}).strip()


FRAMES = "new Promise(done => requestAnimationFrame(() => setTimeout(() => done(performance.now()))))"


def measure_list(folder: Path) -> None:
    methods = ("fedavg", "sem", "daca", "scaffold", "fedprox(0.1)")
    for at in range(1000):
        write_run(folder / f"sweep/{methods[at % 5]}-{at // 5}", 100, method=methods[at % 5], seed=at // 5)
    with studio(folder) as address, page(address) as seen:
        root = address.split("/?")[0]
        opened = []
        for _ in range(6):  # the first reads the folder, and compiles the page
            seen.goto(f"{root}/runs", wait_until="commit")
            seen.wait_for_selector("td.name a")
            opened.append(seen.evaluate(f"({FRAMES})"))
        change = """async ([name, value]) => {
            const one = document.getElementById(name), start = performance.now();
            one.value = value; one.dispatchEvent(new Event("input"));
            await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
            return performance.now() - start;
        }"""
        asked = [
            ("sort", "name"),
            ("sort", "best"),
            ("group", "method"),
            ("filter", "sem seed=1"),
            ("filter", ""),
        ]
        acts = [seen.evaluate(change, pair) for pair in asked * 4]
        gaps = seen.evaluate("""() => new Promise(done => {
            const gaps = [], end = document.body.scrollHeight; let before = performance.now(), y = 0;
            const step = now => { gaps.push(now - before); before = now; y += end / 120; scrollTo(0, y);
              if (y < end) requestAnimationFrame(step); else done(gaps); };
            requestAnimationFrame(step); })""")
    print(
        f"1,000 runs: first row painted after {opened[0]:.0f} ms (folder not yet read), then {median(opened[1:])}; "
        f"sort, filter or group: {median(acts)}; scrolling: {median(gaps)} a frame"
    )


def median(values: list[float]) -> str:
    return f"{statistics.median(values):.0f} ms (slowest {max(values):.0f})"


def measure_explore(folder: Path) -> None:
    move = """async share => {
        const range = document.getElementById("range-p.alpha"), found = document.getElementById("found");
        const start = performance.now();
        range.value = share; range.dispatchEvent(new Event("input"));
        while (found.getAttribute("aria-busy") === "true") await new Promise(done => setTimeout(done, 1));
        await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
        return performance.now() - start;
    }"""
    with studio(folder) as address, page(address) as seen:
        seen.goto(address.split("/?")[0] + "/partition")
        seen.wait_for_selector("#found[aria-busy='false'] #matrix[data-drawn='true'] svg")
        took = [seen.evaluate(move, 20 + 7 * at) for at in range(25)][5:]
        clients = seen.evaluate("document.querySelector('[name=clients]').value")
        said = seen.locator("#took").inner_text()
    print(f"explorer, {clients} clients: slider moved to picture drawn, {median(took)}. {said}")


def measure_tabs(folder: Path) -> None:
    """Seconds of a run's rounds, with nobody watching and with fifty pages, in turns."""
    alone, watched = [], []
    run_once(folder / "warm", lambda: None)
    with studio(folder) as address:
        for turn in range(4):
            alone.append(run_once(folder / f"alone-{turn}", lambda: None))
            name = f"watched-{turn}"
            watched.append(run_once(folder / name, lambda name=name: watch(address, name)))
    ratios = [w / a for w, a in zip(watched, alone, strict=True)]
    print(
        f"{TABS} pages that watch a run: its rounds take {statistics.median(ratios):.3f} times as long "
        f"({', '.join(f'{ratio:.3f}' for ratio in ratios)}; {statistics.median(alone):.1f} s alone)"
    )


def run_once(folder: Path, also: Callable[[], Any]) -> float:
    settings = ["dataset=digits", "clients=50", "cohort=10", "rounds=150", "method=sem", "engine=loop"]
    command = [sys.executable, "-m", "unskew", "run", "--out", str(folder)]
    command += [part for pair in settings for part in (f"--{pair.split('=')[0]}", pair.split("=")[1])]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        while not (folder / "rounds.jsonl").exists() and running.poll() is None:
            time.sleep(0.05)
        stop = also()
        running.wait()
    if stop is not None:
        stop()
    lines = (folder / "rounds.jsonl").read_text().splitlines()
    return sum(json.loads(text)["wall_s"] for text in lines[10:])


def watch(address: str, name: str) -> Callable[[], None]:
    """Fifty connections to a run's events, as fifty pages hold them; returns what ends them."""
    loop = asyncio.new_event_loop()
    root = address.split("/?")[0]

    async def listen(client: httpx.AsyncClient) -> None:
        async with client.stream("GET", f"{root}/run-events/{name}?at=0") as stream:
            async for _ in stream.aiter_bytes():
                pass

    async def listen_all() -> None:
        async with httpx.AsyncClient(timeout=None, limits=httpx.Limits(max_connections=TABS)) as client:
            await client.get(address)
            await asyncio.gather(*(listen(client) for _ in range(TABS)))

    def work() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            loop.run_until_complete(task)

    task = loop.create_task(listen_all())
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return lambda: (loop.call_soon_threadsafe(task.cancel), thread.join())[0]  # type: ignore[func-returns-value]


def measure_day(folder: Path) -> None:
    """A page of a run and the list of runs, as tens of thousands of rounds go by: heap and nodes do not grow."""
    live = write_run(folder / "live", 2000, None, rounds=200_000, method="sem")
    played = 2000
    with FileLock(live / "lock"), studio(folder) as address, page(address) as seen:
        root = address.split("/?")[0]
        for where, ready, step in (("/run/live", "html[data-drawn]", 500), ("/runs", "svg.line", 2000)):
            seen.goto(root + where)
            seen.wait_for_selector(ready)
            sizes = []
            for rounds in (4000, 20_000, 20_000):
                grow(live, seen, played, rounds, step)
                played += rounds
                sizes.append(size(seen))
            heap = ", ".join(f"{megabytes:.1f}" for megabytes, _ in sizes)
            nodes = ", ".join(f"{count:,}" for _, count in sizes)
            print(
                f"{where} after 4,000, 24,000 and 44,000 more rounds: heap {heap} MB, nodes {nodes}",
                flush=True,
            )


def grow(live: Path, seen: Any, played: int, rounds: int, step: int) -> None:
    """Rounds end, many at a time, faster than any run's; the page follows all of them."""
    for first in range(played + 1, played + rounds + 1, step):
        with (live / "rounds.jsonl").open("a") as log:
            log.write("".join(line(at) + "\n" for at in range(first, first + step)))
        seen.get_by_text(f"{first + step - 1} / 200000").wait_for()


def size(seen: Any) -> tuple[float, int]:
    asked = seen.context.new_cdp_session(seen)
    asked.send("Performance.enable")
    for _ in range(2):
        seen.wait_for_timeout(1500)
        asked.send("HeapProfiler.collectGarbage")
    found = {one["name"]: one["value"] for one in asked.send("Performance.getMetrics")["metrics"]}
    return found["JSHeapUsedSize"] / 1e6, int(found["Nodes"])


def measure_visits(folder: Path) -> None:
    """Rounds with and without the line's ``visits``, in turns in one process."""
    import unskew
    from unskew.core import ledger

    warnings.simplefilter("ignore")

    told, plain = ledger.visit_told, lambda leg, update: {"by": leg.source, "clients": []}
    took: dict[bool, list[float]] = {True: [], False: []}
    for turn in range(7):
        for full in (True, False):
            ledger.visit_told = told if full else plain  # type: ignore[assignment]
            out = folder / f"visits-{turn}-{full}"
            settings: dict[str, Any] = {"clients": 50, "cohort": 10, "rounds": 60, "method": "sem"}
            unskew.run(dataset="digits", **settings, seed=turn, out=out, progress=False)
            lines = (out / "rounds.jsonl").read_text().splitlines()
            took[full].append(sum(json.loads(text)["wall_s"] for text in lines[3:]))
    ratios = [a / b for a, b in zip(took[True][1:], took[False][1:], strict=True)]
    print(f"visits in the log of SEM on digits: a round takes {statistics.median(ratios):.3f} times as long")


MEASURED = {
    "list": measure_list,
    "explore": measure_explore,
    "tabs": measure_tabs,
    "day": measure_day,
    "visits": measure_visits,
}


def main() -> None:
    for name in sys.argv[1:] or MEASURED:
        with tempfile.TemporaryDirectory() as folder:
            MEASURED[name](Path(folder))


if __name__ == "__main__":
    main()
