"""Figures 2, 3 and 6 of DACA from run folders, as the recipes docs/recipes/daca_figure*.toml leave them.

    python docs/daca_runs.py 2 RUNS          # the loss over rounds, a line an EMD        -> docs/img/daca-figure-2.png
    python docs/daca_runs.py 3 RUNS          # loss and accuracy over rounds, by method   -> docs/img/daca-figure-3.png
    python docs/daca_runs.py 6 RUNS 0.9 0.95 # seconds until these accuracies, by volume  -> docs/img/daca-figure-6.png

RUNS is the sweep's folder. Each also prints its numbers as a table to put into docs/methods/daca.md.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import altair as alt

from unskew.report.drawing import save_chart
from unskew.report.results.gather import ACCURACY, Record, gather
from unskew.report.theme import BLUE, GREEN, MUTED, ORANGE, PINK, RED, SKY

IMAGES = Path(__file__).parent / "img"
LOSS = "global_test_loss"
METHODS = {
    "FedAvg": MUTED,
    "central sharing": GREEN,
    "central sharing, v_th": SKY,
    "SCC": ORANGE,
    "CEC": RED,
    "DACA": BLUE,
    "DACA, join=gain (ours)": PINK,
}


def named(record: Record) -> str:
    """A run's method as the paper calls it."""
    method = record.spec.method
    names = {
        "fedavg": "FedAvg",
        "central_sharing": "central sharing",
        "scc": "SCC",
        "cec": "CEC",
        "daca": "DACA",
    }
    name = names.get(method.partition("(")[0], method)
    if name == "central sharing" and "v_th" in method:
        return f"{name}, v_th"
    return name + (", join=gain (ours)" if "join=gain" in method else "")


def curve(record: Record, measure: str, label: Any) -> list[dict[str, Any]]:
    stride = max(1, len(record.judged) // 300)
    lines = [line for at, line in enumerate(record.judged) if at % stride == 0 or line is record.judged[-1]]
    return [
        {"x": line["round"], "y": line[measure], "label": label}
        for line in lines
        if line[measure] is not None
    ]


PLAIN = alt.Y("y:Q").axis(title=None, format="~g", tickCount=6).scale(zero=False)
PERCENT = alt.Y("y:Q").axis(title=None, format="%", tickCount=6).scale(domain=[0.7, 1])
LOG = alt.Y("y:Q").axis(title=None, format="~g", values=[0.02, 0.05, 0.1, 0.2, 0.5, 1, 2])
LOG = LOG.scale(type="log", domain=[0.018, 4], nice=False)


def lines(rows: list[dict[str, Any]], title: str, colour: alt.Color, y: alt.Y) -> Any:
    x = alt.X("x:Q").axis(title="round", grid=False, tickCount=6).scale(nice=False)
    chart = alt.Chart(alt.InlineData(values=rows), title=title).mark_line(clip=True)
    return chart.encode(x=x, y=y, color=colour).properties(width=340, height=260)


def figure_2(records: list[Record]) -> None:
    """The smaller the system EMD, the lower the loss."""
    records = sorted(records, key=lambda record: record.result["skew"]["emd"])
    labels = [f"{record.result['skew']['emd']:.2f}" for record in records]
    rows = [
        point for record, label in zip(records, labels, strict=True) for point in curve(record, LOSS, label)
    ]
    palette = [SKY, BLUE, GREEN, ORANGE, RED, PINK]
    colour = alt.Color("label:N").scale(domain=labels, range=palette[: len(labels)]).sort(labels)
    colour = colour.legend(title="system EMD", symbolType="stroke", symbolOpacity=1)
    chart = lines(rows, "Test loss over rounds by system EMD", colour, LOG).properties(width=560)
    save_chart(chart, IMAGES / "daca-figure-2.png", "Loss by system EMD")
    print("| system EMD | partition | loss | accuracy | rounds |\n|--:|---|--:|--:|--:|")
    for record, label in zip(records, labels, strict=True):
        final = record.final
        print(
            f"| {label} | `{record.spec.partition}` | {final[LOSS]:.3f} | {final[ACCURACY]:.2%} | {record.round} |"
        )


def figure_3(records: list[Record]) -> None:
    """Loss and accuracy of every method, and what was shared."""
    present = [name for name in METHODS if any(named(record) == name for record in records)]
    colour = alt.Color("label:N").scale(domain=present, range=[METHODS[name] for name in present])
    colour = colour.legend(
        title=None, orient="bottom", symbolType="stroke", symbolOpacity=1, columns=6, labelLimit=300
    )
    both = [
        lines([point for r in records for point in curve(r, measure, named(r))], title, colour, y)
        for measure, title, y in ((LOSS, "Test loss", PLAIN), (ACCURACY, "Test accuracy", PERCENT))
    ]
    chart = alt.hconcat(*both, spacing=40).resolve_scale(color="shared")
    save_chart(chart, IMAGES / "daca-figure-3.png", "DACA, figure 3")
    targets = records[0].spec.target
    head = [
        "method",
        "system EMD",
        "after 40 rounds",
        "after 100",
        "final",
        "loss",
        *(f"rounds to {t:.0%}" for t in targets),
    ]
    print(f"| {' | '.join(head)} |\n|---|{'--:|' * (len(head) - 1)}")
    for record in sorted(records, key=lambda r: present.index(named(r))):
        note = next((v for v in record.lines[0].values() if isinstance(v, dict) and "emd_after" in v), {})
        emd = note.get("emd_after") or record.result["skew"]["emd"]
        reached = [record.first_round_at(t) or "–" for t in targets]
        then = {line["round"]: f"{line[ACCURACY]:.2%}" for line in record.judged}
        cells = [named(record), f"{emd:.3f}", then.get(40, "–"), then.get(100, "–")]
        cells += [f"{record.final[ACCURACY]:.2%}", f"{record.final[LOSS]:.3f}", *map(str, reached)]
        print(f"| {' | '.join(cells)} |")


def figure_6(records: list[Record], targets: list[float]) -> None:
    """Seconds until each target is reached: sharing before round 1, and 0.7 s a round."""
    rows = [
        {
            "label": named(record),
            "volume": volume(record.spec.method),
            "sharing": (record.lines[0].get("air") or {}).get("samples", 0.0),
            "rounds": record.round,
            "seconds": [line["air_s"] for line in record.lines],
            "reached": [record.first_round_at(target) for target in targets],
        }
        for record in records
    ]
    present = [name for name in METHODS if any(row["label"] == name for row in rows)]
    colour = alt.Color("label:N").scale(domain=present, range=[METHODS[name] for name in present])
    panels = []
    for at, target in enumerate(targets):
        points = [
            {"label": r["label"], "volume": r["volume"], "seconds": sum(r["seconds"][: r["reached"][at]])}
            for r in rows
            if r["reached"][at]
        ]
        base = alt.Chart(alt.InlineData(values=points), title=f"until {target:.0%} test accuracy").encode(
            x=alt.X("volume:Q").axis(title="samples shared, 1.0 = 600", grid=False).scale(domain=[0, 1]),
            y=alt.Y("seconds:Q").axis(title="seconds" if at == 0 else None, tickCount=5),
            color=colour.legend(title=None, orient="bottom", symbolType="stroke", symbolOpacity=1),
        )
        panels.append(base.mark_line(point=alt.OverlayMarkDef(size=50)).properties(width=340, height=260))
    title = alt.TitleParams("Total time against the volume shared", subtitle="sharing, then 0.7 s a round")
    chart = alt.hconcat(*panels, spacing=40, title=title).resolve_scale(color="shared", y="shared")
    save_chart(chart, IMAGES / "daca-figure-6.png", "DACA, figure 6")
    head = ["method", "volume", "sharing, s"]
    head += [cell for target in targets for cell in (f"rounds to {target:.0%}", "total, s")]
    print(f"| {' | '.join(head)} |\n|---|{'--:|' * (len(head) - 1)}")
    for row in sorted(rows, key=lambda r: (present.index(r["label"]), r["volume"])):
        cells = [row["label"], f"{row['volume']:g}", f"{row['sharing']:.1f}"]
        for reached in row["reached"]:
            spent = sum(row["seconds"][: reached or row["rounds"]])
            more = "" if reached else "over "  # the run ended before
            cells += [f"{more}{reached or row['rounds']}", f"{more}{spent:.0f}"]
        print(f"| {' | '.join(cells)} |")


def volume(method: str) -> float:
    """How much a method shares, 1.0 being 600 samples of MNIST's 60,000."""
    if found := re.search(r"volume=(\d+)", method):
        return int(found[1]) / 600
    if found := re.search(r"central_sharing\((?:beta=)?([\d.]+)", method):
        return float(found[1]) * 100
    return 0.0


def main() -> None:
    if len(sys.argv) < 3 or sys.argv[1] not in ("2", "3", "6"):
        raise SystemExit(__doc__)
    records = [record for record in gather([Path(sys.argv[2])]) if record.judged]
    match sys.argv[1]:
        case "2":
            figure_2(records)
        case "3":
            figure_3(records)
        case _:
            figure_6(records, [float(target) for target in sys.argv[3:]] or [0.9])


if __name__ == "__main__":
    main()
