"""The numbers as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

MIB = 2**20


def text(report: dict[str, Any]) -> str:
    """A table a job, under one heading for the machine."""
    lines = [heading(report["machine"])]
    counted = max(
        (len(r.get("rounds", ())) for job in report["jobs"] for r in job.get("results", ())), default=0
    )
    lines.append(
        f"{report['precision']}, training only; medians of {counted} rounds played in turn, the first not counted"
    )
    peak = report["machine"]["peak_multiply_adds_per_s"] / 1e9
    lines.append(f"peak: a matrix product at {peak:,.1f} G multiply-adds/s, the best seen during the run")
    for job in report["jobs"]:
        lines += ["", f"{job['job']}  {job['about']}"]
        if "skipped" in job:
            lines.append(f"   {job['skipped']}")
            continue
        lines.append(
            f"   {job['parameters']:,} parameters, 3 x {job['multiply_adds'] / 1e6:,.2f} M multiply-adds a sample: "
            f"at the machine's peak {job['peak_samples_per_s']:,.0f} samples/s"
        )
        lines += align(
            ["", "samples/s", "slowest", "fastest", "s/round", "x loop", "x best peer", "of peak"],
            [_row(r) for r in job["results"]],
        )
        lines += [f"   {r['name']}: {r.get('problem') or r['about']}" for r in job["results"]]
    return "\n".join(lines)


def _row(found: dict[str, Any]) -> list[str]:
    if "samples_per_s" not in found:
        return [found["name"], *["-"] * 7]
    return [
        found["name"],
        f"{found['samples_per_s']:,.0f}",
        f"{found['slowest']:,.0f}",
        f"{found['fastest']:,.0f}",
        f"{found['seconds_per_round']:.3g}",
        _times(found["to_loop"]),
        _times(found["to_best_peer"]),
        f"{100 * found['of_peak']:.1f}%",
    ]


def growth_text(found: dict[str, Any]) -> str:
    """Three tables: by clients per round, by clients there are, by clients that remember."""
    lines = [heading(found["machine"])]
    for job in found["cohort"]:
        lines += ["", f"Clients a round, job {job['job']}: {job['about']}"]
        lines += align(
            ["clients a round", "s/round", "ms a client", "samples/s"],
            [
                [
                    f"{r['cohort']:,}",
                    f"{r['seconds']:.3f}",
                    f"{1000 * r['seconds'] / r['cohort']:.2f}",
                    f"{r['samples'] / r['seconds']:,.0f}",
                ]
                for r in job["rows"]
            ],
        )
        lines.append(_grows("clients a round", job["exponent"]))
    crowd = found["population"]
    lines += ["", "Clients there are, 100 of them a round, 10 samples each"]
    lines += align(
        ["clients", "s/round", "peak MiB", "of it lists", "added by rounds", "ready in s"],
        [
            [
                f"{r['clients']:,}",
                f"{r['seconds']:.3f}",
                *(f"{r[k] / MIB:,.0f}" for k in ("peak_bytes", "list_bytes", "added_bytes")),
                f"{r['ready']:.1f}",
            ]
            for r in crowd["rows"]
        ],
    )
    lines.append(_grows("clients", crowd["exponent"]))
    held = found["memory"]
    budget = held["budget_bytes"] / MIB
    lines += [
        "",
        f"SCAFFOLD, {held['clients']:,} clients, {held['cohort']:,} a round, "
        f"at most {budget:,.0f} MiB of memories in memory",
    ]
    columns = ("would_hold_bytes", "held_bytes", "disk_bytes", "peak_bytes")
    lines += align(
        ["round", "remember", "all MiB", "in memory", "on disk", "peak MiB", "s/round"],
        [
            [
                f"{r['round']:,}",
                f"{r['clients']:,}",
                *(f"{r[k] / MIB:,.0f}" for k in columns),
                f"{r['seconds']:.2f}",
            ]
            for r in held["rows"]
        ],
    )
    return "\n".join(lines)


def heading(machine: dict[str, Any]) -> str:
    """The machine in a line."""
    where = "" if machine["device"] == "cpu" else f"{machine['device']}, "
    load = "" if machine["load"] is None else f", load {machine['load']:.2f}"
    after = machine.get("load_after")
    load += "" if after is None else f" before and {after:.2f} after"
    return (
        f"{where}{machine['processor']}, {machine['cores']} cores, torch {machine['torch']}, "
        f"{machine['date']}{load}"
    )


def align(header: Sequence[str], rows: Sequence[Sequence[str]], margin: str = "   ") -> list[str]:
    """Columns, the first to the left and the others to the right."""
    widths = [max(len(line[i]) for line in (header, *rows)) for i in range(len(header))]
    lines = []
    for line in (header, *rows):
        cells = [line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True))]
        lines.append((margin + "  ".join(cells)).rstrip())
    return lines


def _times(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _grows(what: str, power: float | None) -> str:
    return "" if power is None else f"   time a round ~ ({what})^{power:.2f}"
