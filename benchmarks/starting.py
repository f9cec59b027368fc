"""How long every command that does not train takes, and a run until its first round: ``python -m benchmarks.starting``.

Each is started anew, with the compiled files that an installed unskew has and, from a copy of its own files, without;
the fastest of five counts, of the clock and of the processor. Wanted: half a second, and three to a first round.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import unskew
from unskew.bench.table import align

SETTINGS = ("--rounds", "2", "--clients", "10", "--cohort", "2")
ASKED: dict[str, tuple[str, ...]] = {
    "": ("--version",),
    "methods": ("", "scaffold", "--json"),
    "models": ("", "resnet9", "resnet9 --shape 1x64x64 --classes 7", "--shape 1x28x28"),
    "datasets": ("", "digits"),
    "metrics": ("",),
    "reproduce": ("", "balanced-digits --show"),
    "partition": (
        "digits dirichlet(0.1) --clients 20",
        "--solve 1.2 --classes 10 --clients 20",
    ),
    "diagnose": ("digits", "digits --json", "digits -o DIAGNOSIS.html"),
    "report": ("RUNS", "RUNS -o REPORT.html", "RUNS -o REPORT.csv"),
    "run": ("--dry-run", "--dry-run --method scaffold+sem --model lenet --dataset DATA.npz"),
    "sweep": ("SWEEP.toml --dry-run", "METHODS.toml --dry-run"),
    "studio": ("RUNS --export NEW-PAGES",),
    "federation init": ("NEW-FEDERATION --sites north,south",),
    "federation add": ("FEDERATION NEW",),
    "federation renew": ("FEDERATION",),
    "federation remove": ("FEDERATION NEW",),
    "federation status": ("FEDERATION", "NONE"),
    "federation stop": ("FEDERATION",),
    "site clean": ("NONE",),
}
"""What is asked of a command, in words after its name, where it does not train. Words in capitals are files and folders
made for it; NEW is another one every time, and NONE one that is not there."""

COMPUTES: dict[str, tuple[str, ...]] = {
    "export": ("RUNS/0 -o MODEL.safetensors",),
    "predict": ("RUNS/0 SAMPLES.npz",),
    "resume": ("RUNS/0",),
}
"""The same of commands that need a trained model in their hands, and so torch."""

LASTS = ("attack", "bench", "cell", "demo", "federation start", "site start")
"""Commands that train, or stay: only their help is asked for."""

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
        wanted = [c for c in asked() if not flags.commands or any(word in c for word in flags.commands)]
        rows = []
        for command in ["import unskew", *wanted]:
            row, number = [command], itertools.count()
            for path in (None, bare.parent):
                found = [timed(told(command, folder, next(number)), path) for _ in range(flags.times)]
                row += [f"{min(seconds):.2f}" for seconds in zip(*found, strict=True)]
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


def asked() -> list[str]:
    """Every command with all that is asked of it, then the help of each; one that nobody thought of is refused."""
    every = every_command()
    known = {**ASKED, **COMPUTES}
    if strange := [name for name in every if name not in known and name not in LASTS]:
        raise SystemExit(f"say in ASKED, COMPUTES or LASTS what is to be asked of: {', '.join(strange)}")
    given = [f"{name} {words}".strip() for name, several in known.items() for words in several]
    return given + [f"{name} --help".strip() for name in ["", *every]]


def every_command() -> list[str]:
    """The names of all commands, and of those of groups with their group's."""
    from unskew.cli.app import commands

    return list(_walked(commands(), ""))


def _walked(group: Any, called: str) -> Iterator[str]:
    for name, command in group.commands.items():
        whole = f"{called} {name}".strip()
        if hasattr(command, "commands"):
            yield from _walked(command, whole)
        else:
            yield whole


def told(command: str, folder: Path, number: int) -> list[str]:
    """The words of a process, when it is asked the so-manieth time."""
    if command == "import unskew":
        return [sys.executable, "-c", command]
    names = {"NEW": f"site{number}", "NEW-PAGES": f"PAGES{number}", "NEW-FEDERATION": f"FEDERATION{number}"}
    words = [names.get(word, word) for word in command.split(" ")]
    words = [str(folder / word.lower()) if word[:3].isupper() else word for word in words]
    return [sys.executable, "-m", "unskew", *words]


def timed(words: list[str], path: Path | None) -> tuple[float, float]:
    """Seconds of the clock and of the processor; ``path`` holds an unskew without compiled files."""
    said: dict[str, Any] = {} if path is None else {"PYTHONPATH": str(path), "PYTHONDONTWRITEBYTECODE": "1"}
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | said
    before, began = os.times(), time.perf_counter()
    done = subprocess.run(words, env=env, check=False, capture_output=True, text=True)
    seconds, after = time.perf_counter() - began, os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    if done.returncode and not words[-1].endswith("none"):
        raise SystemExit(f"{' '.join(words)} was refused: {done.stderr}")
    return seconds, spent


def make_material(folder: Path) -> None:
    """Six small runs to report on, sweeps to rehearse, and data of CIFAR's shape."""
    import numpy as np

    for number, (method, seed) in enumerate(itertools.product(("fedavg", "scaffold"), "012")):
        run = ["run", *SETTINGS, "--method", method, "--seed", seed, "-o", str(folder / "runs" / str(number))]
        subprocess.run([sys.executable, "-m", "unskew", *run], check=True, capture_output=True)
    cells = "rounds = 1\nclients = 10\ncohort = 2\n[sweep]\n"
    (folder / "sweep.toml").write_text(cells + 'seed = "0-1"\n')
    (folder / "methods.toml").write_text(
        cells + 'method = ["fedavg", "fedprox(0.1)", "scaffold+sem", "moon"]\n'
    )
    init = ["federation", "init", str(folder / "federation"), "--sites", "north,south"]
    subprocess.run([sys.executable, "-m", "unskew", *init], check=True, capture_output=True)
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (10_000, 3, 32, 32), np.uint8), rng.integers(0, 10, 10_000)
    np.savez(folder / "data.npz", x=images, y=labels)
    np.savez(folder / "samples.npz", x=rng.integers(0, 17, (5, 1, 8, 8), np.uint8))


def first_rounds(folder: Path, times: int) -> list[list[str]]:
    """From the command to the moment in which the first round begins, which a run's log tells, and to its end."""
    rows = []
    for name, words in TRAINING.items():
        found = []
        for number in range(times):
            out = folder / f"{name[:3]}{len(rows)}-{number}"
            given = [str(folder / "data.npz") if word == "DATA.npz" else word for word in words]
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
