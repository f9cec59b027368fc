"""A request in words (flags) to numbers and text: what the command line and ``python -m benchmarks`` share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from unskew.bench.compare import bench, machine
from unskew.bench.jobs import jobs_named
from unskew.bench.options import PEERS, Options
from unskew.bench.scaling import growth
from unskew.bench.table import closing, growth_closing, growth_tables, heading, job_lines, opening
from unskew.runs.choose_engine import device_of


def answered(
    jobs: Sequence[str],
    tell: Callable[[str], None],
    show: Callable[[str], None],
    *,
    growing: bool = False,
    peers: bool = False,
    engines: str = "loop,fast",
    **settings: Any,
) -> dict[str, Any]:
    """The numbers, and their text to ``show``, job by job as they end.

    Where no job is named: A, B and C, on a GPU also D; for growth B alone.
    """
    options = Options(
        engines=[name.strip() for name in engines.split(",") if name.strip()],
        peers=tuple(PEERS) if peers else (),
        **settings,
    )
    usual = "ABCD" if device_of(options.spec()).type == "cuda" else "ABC"
    chosen = jobs_named(jobs or list("B" if growing else usual))
    options = replace(options, jobs=chosen)
    if growing:
        heads = iter([heading(machine(device_of(options.spec())))])
        found = growth(
            options, tell, lambda report: show("\n".join([*heads, "", *growth_tables(report)[-1]]))
        )
        show("\n".join(["", *growth_closing(found)]))
        return found

    def done(report: dict[str, Any]) -> None:
        first = opening(report) if len(report["jobs"]) == 1 else []
        show("\n".join([*first, "", *job_lines(report["jobs"][-1])]))

    found = bench(options, tell, done)
    show("\n".join(["", *closing(found)]))
    return found
