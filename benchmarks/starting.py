"""How long every command that does not train takes, and a run until its first round: ``python -m benchmarks.starting``.

Each is started anew, with the compiled files that an installed unskew has and, from a copy of its own files, without;
the fastest of five counts, of the clock and of the processor. Wanted: half a second, and three to a first round.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import unskew
from unskew.bench.table import align

SETTINGS = ("--rounds", "2", "--clients", "10", "--cohort", "2")
HELPED = (
    *(
        "attack",
        "bench",
        "run",
        "resume",
        "datasets",
        "demo",
        "diagnose",
        "export",
        "methods",
        "metrics",
        "models",
    ),
    *("partition", "predict", "report", "reproduce", "studio", "sweep", "federation", "site"),
    *("federation init", "federation add", "federation remove", "federation renew", "federation start"),
    *("federation stop", "federation status", "site start", "site clean"),
)
COMMANDS = (
    *(
        "--version",
        "--help",
        "methods",
        "methods scaffold",
        "methods scaffold+sem",
        "models",
        "models resnet9",
    ),
    *("models resnet9 --shape 1x64x64 --classes 7", "models --shape 1x28x28", "datasets", "datasets digits"),
    *(
        "metrics",
        "reproduce",
        "reproduce balanced-digits --show",
        "partition digits dirichlet(0.1) --clients 20",
    ),
    *("partition --solve 1.2 --classes 10 --clients 20", "diagnose digits", "diagnose digits --json"),
    *(
        "report RUNS -o REPORT.html",
        "sweep SWEEP.toml --dry-run",
        "federation status NONE",
        "site clean NONE",
    ),
    *(f"{command} --help" for command in HELPED),
)
"""What does not train; NONE is a folder that is not there, RUNS one with two small runs."""

TRAINING = {
    "digits": ("run", "--rounds", "2"),
    "digits, two workers": ("run", "--rounds", "2", "--engine", "fast", "--workers", "2"),
    "resnet9 on CIFAR's shape, two workers": (
        *("run", "--dataset", "DATA.npz", "--model", "resnet9", "--rounds", "1", "--clients", "100"),
        *("--cohort", "4", "--epochs", "1", "--batch", "8", "--engine", "fast", "--workers", "2"),
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commands", nargs="*", help="Only those with one of these words.")
    parser.add_argument("--times", type=int, default=5)
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        bare = folder / "bare" / "unskew"
        shutil.copytree(Path(unskew.__file__).parent, bare, ignore=shutil.ignore_patterns("__pycache__"))
        make_material(folder)
        wanted = [c for c in COMMANDS if not flags.commands or any(word in c for word in flags.commands)]
        rows = []
        for command in ["import unskew", *wanted]:
            words = told(command, folder)
            row = [command]
            for path in (None, bare.parent):
                best = [
                    min(pair) for pair in zip(*(timed(words, path) for _ in range(flags.times)), strict=True)
                ]
                row += [f"{seconds:.2f}" for seconds in best]
            rows.append(row)
            print("  ".join(row), file=sys.stderr)
        header = ["command", "s", "of the processor", "s without compiled files", "of the processor"]
        print("\n".join(align(header, rows)))
        if not flags.commands:
            print(
                "\n".join(
                    [
                        "",
                        *align(
                            ["to the first round", "s", "of the processor", "s to the end"],
                            first_rounds(folder, flags.times),
                        ),
                    ]
                )
            )


def told(command: str, folder: Path) -> list[str]:
    """The words of a process."""
    if command == "import unskew":
        return [sys.executable, "-c", command]
    places = {"RUNS": "runs", "REPORT.html": "report.html", "SWEEP.toml": "sweep.toml", "NONE": "none"}
    words = [str(folder / places[word]) if word in places else word for word in command.split(" ")]
    return [sys.executable, "-m", "unskew", *words]


def timed(words: list[str], path: Path | None) -> tuple[float, float]:
    """Seconds of the clock and of the processor; ``path`` holds an unskew without compiled files."""
    said: dict[str, Any] = {} if path is None else {"PYTHONPATH": str(path), "PYTHONDONTWRITEBYTECODE": "1"}
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | said
    before, began = os.times(), time.perf_counter()
    subprocess.run(words, env=env, check=False, capture_output=True)
    seconds, after = time.perf_counter() - began, os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return seconds, spent


def make_material(folder: Path) -> None:
    """Two small runs to report on, a sweep to rehearse, and data of CIFAR's shape."""
    import numpy as np

    for seed in ("0", "1"):
        run = ["run", *SETTINGS, "--seed", seed, "-o", str(folder / "runs" / seed)]
        subprocess.run([sys.executable, "-m", "unskew", *run], check=True, capture_output=True)
    (folder / "sweep.toml").write_text('rounds = 1\nclients = 10\ncohort = 2\n[sweep]\nseed = "0-1"\n')
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (10_000, 3, 32, 32), np.uint8), rng.integers(0, 10, 10_000)
    np.savez(folder / "DATA.npz", x=images, y=labels)


def first_rounds(folder: Path, times: int) -> list[list[str]]:
    """From the command to the moment in which the first round begins, which a run's log tells, and to its end."""
    rows = []
    for name, words in TRAINING.items():
        found = []
        for number in range(times):
            out = folder / f"{name[:3]}{len(rows)}-{number}"
            given = [str(folder / word) if word == "DATA.npz" else word for word in words]
            began = time.time()
            code = (
                "import sys, time, unskew.core.round as r, unskew.runs.rounds as loop\n"
                "play = r.play_round\n"
                "def first(*given):\n"
                "    print('began', time.time(), time.process_time(), file=sys.stderr, flush=True)\n"
                "    loop.play_round = play\n"
                "    return play(*given)\n"
                "loop.play_round = first\n"
                "from unskew.cli import main\n"
                "sys.exit(main(sys.argv[1:]))\n"
            )
            done = subprocess.run(
                [sys.executable, "-c", code, *given, "-o", str(out)],
                capture_output=True,
                text=True,
                check=True,
            )
            line = next(line for line in done.stderr.splitlines() if line.startswith("began"))
            started, spent = map(float, line.split()[1:])
            found.append((started - began, spent, time.time() - began))
        rows.append([name, *(f"{min(seconds):.2f}" for seconds in zip(*found, strict=True))])
    return rows


if __name__ == "__main__":
    main()
