"""The numbers as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

MIB = 2**20


def text(report: dict[str, Any]) -> str:
    """A table a job, under one heading for the machine, and what it all means."""
    return "\n".join(
        [
            *opening(report),
            *(line for job in report["jobs"] for line in ["", *job_lines(job)]),
            "",
            *closing(report),
        ]
    )


def opening(report: dict[str, Any]) -> list[str]:
    """The machine, and how it was measured."""
    counted = max(
        (len(r.get("rounds", ())) for job in report["jobs"] for r in job.get("results", ())), default=0
    )
    how = f"medians of {counted} rounds played in turn, the first not counted"
    return [heading(report["machine"]), f"{report['precision']}, training only; {how}"]


def job_lines(job: dict[str, Any]) -> list[str]:
    """One job's table."""
    lines = [f"{job['job']}  {job['about']}"]
    if "skipped" in job:
        return [*lines, f"   {job['skipped']}"]
    return [
        *lines,
        f"   {job['parameters']:,} parameters, 3 x {job['multiply_adds'] / 1e6:,.2f} M multiply-adds a sample: "
        f"at the machine's peak {job['peak_samples_per_s']:,.0f} samples/s",
        *align(
            ["", "samples/s", "slowest", "fastest", "s/round", "x loop", "x best peer", "of peak"],
            [_row(r) for r in job["results"]],
        ),
        *(f"   {r['name']}: {r.get('problem') or r['about']}" for r in job["results"]),
    ]


def closing(report: dict[str, Any]) -> list[str]:
    """The peak, a line a job that says what its table means, and whether it is all."""
    lines = []
    if peak := report["machine"].get("peak_multiply_adds_per_s"):
        lines = [
            f"peak: {peak / 1e9:,.1f} G multiply-adds/s, of a large product or convolution: the best seen here"
        ]
    lines += [said for job in report["jobs"] if (said := meaning(job))]
    if "stopped" in report:
        lines.append(f"{report['stopped']}: this is all that was played by then")
    return lines


def meaning(job: dict[str, Any]) -> str:
    """A job's table in a line: our fastest engine beside the fastest library, or beside the plain loop."""
    ours = [r for r in job.get("results", ()) if r["kind"] == "engine" and "samples_per_s" in r]
    if not ours:
        return ""
    best = max(ours, key=lambda r: float(r["samples_per_s"]))
    beside = []
    if best["to_best_library"] is not None:
        beside.append(
            f"{best['to_best_library']:.1f} times the fastest library here ({best['best_library']})"
        )
    elif best["to_best_peer"] is not None:
        beside.append(f"{best['to_best_peer']:.1f} times a plain training loop")
    if best["to_loop"] is not None and best["name"] != "loop":
        beside.append(f"{best['to_loop']:.1f} times our loop engine")
    rate = f"{job['job']}: {best['name']} trains {best['samples_per_s']:,.0f} samples a second"
    return f"{rate}, {' and '.join(beside)}" if beside else rate


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
    """Three tables (by clients per round, by clients there are, by clients that remember), and what they mean."""
    lines = [heading(found["machine"])]
    for table in growth_tables(found):
        lines += ["", *table]
    return "\n".join([*lines, "", *growth_closing(found)])


def growth_tables(found: dict[str, Any]) -> list[list[str]]:
    """Those tables that there is a row of, in order."""
    crowd, held = found.get("population"), found.get("memory")
    tables = [_by_cohort(job) for job in found["cohort"] if job["rows"]]
    tables += [_by_population(crowd)] if crowd and crowd["rows"] else []
    return [*tables, *([_by_memory(held)] if held else [])]


def growth_closing(found: dict[str, Any]) -> list[str]:
    """What growth means, in a line, and whether it is all."""
    lines = []
    if len(rows := found.get("population", {"rows": []})["rows"]) > 1:
        few, many = rows[0], rows[-1]
        lines.append(
            f"a round of 100 among {many['clients']:,} clients takes {many['seconds'] / few['seconds']:.2f} times as "
            f"long as among {few['clients']:,}, and {many['peak_bytes'] / few['peak_bytes']:.2f} times the memory"
        )
    if "stopped" in found:
        lines.append(f"{found['stopped']}: this is all that was measured by then")
    return lines


def _by_cohort(job: dict[str, Any]) -> list[str]:
    rows = [
        [
            f"{r['cohort']:,}",
            f"{r['seconds']:.3f}",
            f"{1000 * r['seconds'] / r['cohort']:.2f}",
            f"{r['samples'] / r['seconds']:,.0f}",
        ]
        for r in job["rows"]
    ]
    return [
        f"Clients a round, job {job['job']}: {job['about']}",
        *align(["clients a round", "s/round", "ms a client", "samples/s"], rows),
        _grows("clients a round", job["exponent"]),
    ]


def _by_population(crowd: dict[str, Any]) -> list[str]:
    rows = [
        [
            f"{r['clients']:,}",
            f"{r['seconds']:.3f}",
            *(f"{r[k] / MIB:,.0f}" for k in ("peak_bytes", "list_bytes", "added_bytes")),
            f"{r['ready']:.1f}",
        ]
        for r in crowd["rows"]
    ]
    return [
        "Clients there are, 100 of them a round, 10 samples each",
        *align(["clients", "s/round", "peak MiB", "of it lists", "added by rounds", "ready in s"], rows),
        _grows("clients", crowd["exponent"]),
    ]


def _by_memory(held: dict[str, Any]) -> list[str]:
    columns = ("would_hold_bytes", "held_bytes", "disk_bytes", "peak_bytes")
    rows = [
        [
            f"{r['round']:,}",
            f"{r['clients']:,}",
            *(f"{r[k] / MIB:,.0f}" for k in columns),
            f"{r['seconds']:.2f}",
        ]
        for r in held["rows"]
    ]
    return [
        f"SCAFFOLD, {held['clients']:,} clients, {held['cohort']:,} a round, "
        f"at most {held['budget_bytes'] / MIB:,.0f} MiB of memories in memory",
        *align(["round", "remember", "all MiB", "in memory", "on disk", "peak MiB", "s/round"], rows),
    ]


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
