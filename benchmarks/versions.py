"""Two versions of unskew side by side: ``python -m benchmarks.versions OTHER_TREE C --workers 2 --rounds 12``.

Each version plays a standard job in a process of its own, and rounds alternate, so that a busy machine slows both.
To get an earlier version: ``git worktree add ../before COMMIT``.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

HERE = Path(__file__).parents[1]
UNCOUNTED = 2  # rounds at the start, in which steps are recorded


def play(job: str, workers: int) -> None:
    """The player's side: a round for each line that comes in; says seconds and samples."""
    from unskew.bench.jobs import JOBS
    from unskew.bench.options import Options
    from unskew.bench.ours import Ours
    from unskew.machine.threads import single_threaded

    with single_threaded():
        ours = Ours.ready("fast", JOBS[job], Options(jobs=[JOBS[job]], workers=workers, rounds=99))
        for _ in sys.stdin:
            print(*ours.round(), flush=True)
        ours.close()


class Player:
    """A version that plays a job, a round at a time."""

    def __init__(self, tree: Path, job: str, workers: int):
        command = [sys.executable, __file__, str(tree), job, "--workers", str(workers), "--play"]
        environment = os.environ | {"PYTHONPATH": str(tree / "src")}
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment)

    def round(self) -> float:
        """Samples a second of one more round."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print("round", file=self.process.stdin, flush=True)
        seconds, samples = map(float, self.process.stdout.readline().split()[:2])
        return samples / seconds

    def end(self) -> None:
        """Let it go."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def main() -> int:
    """Print samples a second of both, and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("other", type=Path, help="the folder of the other version")
    parser.add_argument("job", choices=["A", "B", "C"])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--play", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.play:
        play(given.job, given.workers)
        return 0
    if not (given.other / "src" / "unskew").is_dir():
        parser.error(f"{given.other} has no src/unskew: name the folder of another version's working tree")
    players = [Player(tree, given.job, given.workers) for tree in (given.other.resolve(), HERE)]
    speeds = [tuple(player.round() for player in players) for _ in range(UNCOUNTED + given.rounds)]
    for player in players:
        player.end()
    other, here = zip(*speeds[UNCOUNTED:], strict=True)
    ratio = median(h / o for o, h in speeds[UNCOUNTED:])
    print(f"{given.other}: {median(other):,.0f} samples/s (median of {given.rounds} rounds)")
    print(f"here: {median(here):,.0f} samples/s; {ratio:.2f} times the other (median of pairs)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
