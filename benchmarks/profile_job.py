"""Where the time of a standard job goes: ``python -m benchmarks.profile_job A B --rows 12``.

One worker in this process, the fast engine, one round after two that are not counted, by torch's profiler. What is
no operation of torch (Python, plans, autograd's own bookkeeping) is the rest of the round.
"""

from __future__ import annotations

import argparse
import time

from torch.profiler import ProfilerActivity, profile

from unskew.bench.jobs import JOBS
from unskew.bench.options import Options
from unskew.bench.ours import Ours
from unskew.bench.table import align
from unskew.machine.threads import single_threaded

UNCOUNTED = 2
"""Rounds at the start, in which steps are recorded and memory is taken."""


def shares(letter: str, rows: int) -> list[str]:
    """A table of the operations that take the most of a round's processor time."""
    job = JOBS[letter]
    with single_threaded():
        ours = Ours.ready("fast", job, Options(jobs=[job], workers=1, rounds=99))
        for _ in range(UNCOUNTED):
            ours.round()
        began = time.process_time()
        seconds, samples = ours.round()
        plain = time.process_time() - began
        with profile(activities=[ProfilerActivity.CPU]) as seen:
            began = time.process_time()
            ours.round()
            slowed = time.process_time() - began
        ours.close()
    found = sorted(seen.key_averages(), key=lambda e: -e.self_cpu_time_total)
    inside = sum(e.self_cpu_time_total for e in found) / 1e6
    table = [
        [e.key.removeprefix("aten::"), f"{e.self_cpu_time_total / 1e4 / slowed:.1f}%", f"{e.count:,}"]
        for e in found[:rows]
    ]
    table.append(["all operations", f"{100 * inside / slowed:.1f}%", f"{sum(e.count for e in found):,}"])
    about = (
        f"{letter}: {ours.about}; {samples / seconds:,.0f} samples/s, {plain:.2f} s of processor time a round"
    )
    return [f"{about} ({slowed:.2f} s while it is profiled)", *align(["", "of the time", "calls"], table)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("jobs", nargs="+", choices=sorted(JOBS))
    parser.add_argument("--rows", type=int, default=12)
    flags = parser.parse_args()
    for letter in flags.jobs:
        print("\n".join(["", *shares(letter, flags.rows)]), flush=True)


if __name__ == "__main__":
    main()
