"""Two versions of unskew side by side: ``python -m benchmarks.versions OTHER_TREE C --workers 2 --rounds 12``.

Each version plays a standard job in a process of its own, and rounds alternate, so that a busy machine slows both.
To get an earlier version: ``git worktree add ../before COMMIT``. ``--model lenet --cohort 10`` plays the job with
another model and fewer clients a round. With one worker, which is the player's own process, the processor's time is
compared too.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

HERE = Path(__file__).parents[1]
UNCOUNTED = 2  # rounds at the start, in which steps are recorded


def play(letter: str, workers: int, changed: dict[str, object]) -> None:
    """The player's side: a round for each line that comes in; says seconds, samples and seconds of the processor."""
    from unskew.bench.jobs import JOBS
    from unskew.bench.options import Options
    from unskew.bench.ours import Ours
    from unskew.machine.threads import single_threaded

    job = replace(JOBS[letter], **changed)  # type: ignore[arg-type]
    with single_threaded():
        ours = Ours.ready("fast", job, Options(jobs=[job], workers=workers, rounds=99))
        for _ in sys.stdin:
            began = time.process_time()
            print(*ours.round(), time.process_time() - began, flush=True)
        ours.close()


class Player:
    """A version that plays a job, a round at a time."""

    def __init__(self, tree: Path, flags: list[str]):
        command = [sys.executable, __file__, *flags, "--play"]
        environment = os.environ | {"PYTHONPATH": str(tree / "src")}
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment)

    def round(self) -> tuple[float, float]:
        """Samples a second of one more round, by the clock and by the processor's time."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print("round", file=self.process.stdin, flush=True)
        seconds, samples, processor = map(float, self.process.stdout.readline().split()[:3])
        return samples / seconds, samples / processor

    def end(self) -> None:
        """Let it go."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def main() -> int:
    """Print samples a second of both, and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("other", type=Path, help="the folder of the other version")
    parser.add_argument("job", choices=["A", "B", "C", "D", "E"])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--model", help="in place of the job's own")
    parser.add_argument("--cohort", type=int, help="clients a round, in place of the job's own")
    parser.add_argument("--play", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.play:
        changed = {name: getattr(given, name) for name in ("model", "cohort") if getattr(given, name)}
        play(given.job, given.workers, changed)
        return 0
    if not (given.other / "src" / "unskew").is_dir():
        parser.error(f"{given.other} has no src/unskew: name the folder of another version's working tree")
    players = [Player(tree, sys.argv[1:]) for tree in (given.other.resolve(), HERE)]
    rounds = [[player.round() for player in players] for _ in range(UNCOUNTED + given.rounds)][UNCOUNTED:]
    for player in players:
        player.end()
    other, here = (median(pair[i][0] for pair in rounds) for i in (0, 1))
    ratio, by_processor = (median(pair[1][by] / pair[0][by] for pair in rounds) for by in (0, 1))
    print(f"{given.other}: {other:,.0f} samples/s (median of {given.rounds} rounds)")
    print(f"here: {here:,.0f} samples/s; {ratio:.2f} times the other (median of pairs)")
    if given.workers == 1:
        print(f"by the processor's time: {by_processor:.2f} times the other")
    return 0


if __name__ == "__main__":
    sys.exit(main())
