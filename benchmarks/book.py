"""Fill the book on a GPU, slot by slot: what is missing, in order, several runs side by side until the time is over.

python -m benchmarks.book list                                        what is missing, first things first
python -m benchmarks.book slot --out OUT --minutes 9 --data DATA      run the next of it; the same again goes on

It needs torch, numpy and scipy alone. Runs that came to their end are lines in OUT/results.jsonl, which
``python docs/book/make.py OUT/results.jsonl`` adds to the book; those that did not are OUT/run-0.tar and so on, to be
handed to the next slot by ``--resume FOLDER``. Under MPS small models share a GPU well, so that is started where it is
(``nvidia-cuda-mps-control``).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unskew.reproduce.exhibit import Group, exhibit_of, exhibits
from unskew.reproduce.line_settings import changed_settings
from unskew.reproduce.results import read_lines
from unskew.reproduce.running import line_of

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "book" / "results"
LARGEST = 15 * 2**20  # bytes of a file that comes back from a slot
BF16 = {"precision": "bf16", "compile": True}
TF32 = {"precision": "tf32"}
PLAN: tuple[
    tuple[str, tuple[str, ...], str, dict[str, Any]], ...
] = (  # exhibit, groups (none: all), seeds, settings
    ("sem-table1", ("cifar10-0.1",), "012", BF16),
    ("thesis-chapter6", (), "0", TF32),
    ("seol-kim-case3", (), "0", TF32),
    ("seol-kim-case1", (), "0", TF32),
    ("flea-table1", ("cifar10-qua3", "cifar10-dir0.5", "cifar10-dir0.1"), "012", BF16),
    ("flea-figure2", ("100",), "0", BF16),  # FedAvg is low in the paper without any skew, too
    ("daca-figure3", (), "012", TF32),
    ("niid-fashion", (), "012", TF32),
    ("niid-cifar10", (), "012", TF32),
    ("niid-mnist", (), "0", TF32),
    ("moon-table1", (), "0", TF32),
    ("fednova-table", (), "0", TF32),
    ("seol-kim-case2", (), "0", TF32),
    ("thesis-fedaug", (), "0", BF16),
    ("thesis-phase-shift", (), "0", BF16),
    ("daca-figure6", (), "0", TF32),
    ("flea-table1", (), "012", TF32),
    ("sem-table2", (), "0", BF16),
    ("sem-table3", (), "0", BF16),
    ("sem-table1", (), "0", BF16),
    ("flea-figure9", (), "0", BF16),
    ("flea-figure2", (), "0", BF16),
)


@dataclass(frozen=True)
class Job:
    """One run of the book."""

    group: Group
    method: str
    seed: int
    how: dict[str, Any]

    @property
    def name(self) -> str:
        return f"{self.group.exhibit}/{self.group.name}/{self.method}/seed={self.seed}"


def jobs() -> Iterator[Job]:
    """Every run of the plan, the base of a group first, seed by seed."""
    seen = set()
    for exhibit, wanted, seeds, how in PLAN:
        for seed in map(int, seeds):
            for group in exhibit_of(exhibit).groups:
                for method in group.methods if not wanted or group.name in wanted else ():
                    job = Job(group, method, seed, how)
                    if job.name not in seen:
                        seen.add(job.name)
                        yield job


def missing(results: Path) -> list[Job]:
    """What no line of results has, with the exhibit's settings; a mean over seeds stands for all of them."""
    groups = {(group.exhibit, group.name): group for one in exhibits().values() for group in one.groups}
    have = set()
    for exhibit, lines in read_lines(results).items():
        for line in lines:
            group = groups.get((exhibit, line["group"]))
            if group is not None and not line.get("stopped_after") and not changed_settings(line, group):
                have.add((exhibit, line["group"], line["method"], line.get("seed")))
    found = []
    for job in jobs():
        key = (job.group.exhibit, job.group.name, job.method)
        if (*key, job.seed) not in have and (*key, None) not in have:
            found.append(job)
    return found


def slot(flags: argparse.Namespace) -> int:
    """Run the next jobs side by side until they are done or the time is over."""
    began = time.monotonic()
    place, out = Path(flags.work), Path(flags.out)
    out.mkdir(parents=True, exist_ok=True)
    for packed in sorted(Path(flags.resume).glob("run-*.tar")) if flags.resume else ():
        with tarfile.open(packed) as tar:
            tar.extractall(place, filter="data")
    if not flags.no_mps and shutil.which("nvidia-cuda-mps-control"):
        subprocess.run(["nvidia-cuda-mps-control", "-d"], check=False)
    wanted = tuple(flags.only or [""])
    waiting = [job for job in missing(Path(flags.results)) if job.name.startswith(wanted)]
    # those that a slot before this one began come first
    waiting.sort(key=lambda job: not _folder(place, job).exists())
    running: dict[subprocess.Popen[bytes], Job] = {}
    done: list[Job] = []
    try:
        while (waiting or running) and time.monotonic() - began < 60 * flags.minutes:
            while waiting and len(running) < flags.at_once:
                job = waiting.pop(0)
                print(f"{time.monotonic() - began:6.0f} s: {job.name}", flush=True)
                command = [sys.executable, "-m", "benchmarks.book", "one", job.name, "--work", str(place)]
                command += ["--device", flags.device] + (["--data", flags.data] if flags.data else [])
                command += ["--tiny"] if flags.tiny else []
                running[subprocess.Popen(command, env=os.environ | {"OMP_NUM_THREADS": "2"})] = job
            time.sleep(0.2)
            for process in [p for p in running if p.poll() is not None]:
                job = running.pop(process)
                print(
                    f"{time.monotonic() - began:6.0f} s: {job.name} ended with {process.returncode}",
                    flush=True,
                )
                if process.returncode == 0:
                    done.append(job)
                    _write(out, place, done)
    finally:
        for process in running:
            process.send_signal(signal.SIGINT)  # a run saves itself
        for process in running:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    packed = _pack(out, place, list(running.values()))
    print(f"{len(done)} runs done, {packed} of {len(running)} others packed, {len(waiting)} not begun")
    return 0


def _write(out: Path, place: Path, done: list[Job]) -> None:
    lines = [line_of(_folder(place, job), job.group) for job in done]
    (out / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")


def _pack(out: Path, place: Path, stopped: list[Job]) -> int:
    """What a next slot can go on with: at most seven, of what may come back."""
    packed = 0
    for job in stopped:
        folder, file = _folder(place, job), out / f"run-{packed}.tar"
        if packed < 7 and folder.exists():
            with tarfile.open(file, "w") as tar:
                tar.add(folder, folder.relative_to(place).as_posix())
            if file.stat().st_size > LARGEST:
                file.unlink()
            else:
                packed += 1
    return packed


def _folder(place: Path, job: Job) -> Path:
    """Letters, digits and a few signs alone, so that a folder can travel."""
    return place / "".join(c if c.isalnum() or c in ".=-" else "_" for c in job.name)


def one(flags: argparse.Namespace) -> int:
    """One run, from where it was stopped where it was."""
    from unskew import resume, run

    job = next(job for job in jobs() if job.name == flags.name)
    folder = _folder(Path(flags.work), job)
    if (folder / "spec.json").exists():
        resume(folder, data_folder=flags.data, progress=False)
        return 0
    settings = {
        **job.group.settings_of(job.method),
        **job.how,
        "device": flags.device,
        "data_folder": flags.data,
    }
    if flags.device == "cpu":
        settings |= {"precision": "fp32", "compile": False}
    if flags.tiny:
        from unskew.reproduce.running import QUICK

        settings |= QUICK
    run(method=job.method, seed=job.seed, out=folder, progress=False, **settings)
    return 0


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.book", description=__doc__.splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    listed = verbs.add_parser("list", help="what is missing, first things first")
    taken = verbs.add_parser("slot", help="run the next of it")
    single = verbs.add_parser("one", help="one run, as a slot starts it")
    single.add_argument("name")
    taken.add_argument("--out", required=True, help="where lines of results and stopped runs go")
    taken.add_argument("--minutes", type=float, default=9)
    taken.add_argument("--at-once", type=int, default=8)
    taken.add_argument("--resume", help="a folder with run-*.tar of the slot before")
    taken.add_argument("--no-mps", action="store_true")
    taken.add_argument(
        "--only",
        action="append",
        help="runs whose names begin so: an exhibit, or one of its cells; repeatable",
    )
    for some in (listed, taken):
        some.add_argument("--results", default=str(RESULTS))
    for some in (taken, single):
        some.add_argument("--work", default="/tmp/book")
        some.add_argument("--data", help="where published files lie")
        some.add_argument("--device", default="cuda")
        some.add_argument("--tiny", action="store_true", help="one round on the digits: that it works at all")
    flags = parser.parse_args(words)
    if flags.verb == "list":
        found = missing(Path(flags.results))
        print("\n".join(job.name for job in found))
        print(f"{len(found)} runs are missing")
        return 0
    return slot(flags) if flags.verb == "slot" else one(flags)


if __name__ == "__main__":
    sys.exit(main())
