"""Draws docs/img/papers.png from the table of docs/papers.md: ``python docs/papers.py``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import altair as alt

from unskew.report.drawing import save_chart
from unskew.report.theme import BLUE, MUTED, SKY

HERE = Path(__file__).parent
PAPER, BEST, END = "the paper", "unskew, best round", "unskew, in the end"


def rows() -> list[dict[str, Any]]:
    """The lines of the table that have numbers, in order."""
    text = (HERE / "papers.md").read_text().partition("<!-- table -->")[2].partition("<!-- end table -->")[0]
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.strip().splitlines()[2:]]
    found = []
    for method, setting, printed, best, end, *_ in cells:
        if end != "diverges":
            name = re.sub(r"\[(.+)\]\(.*", r"\1", method)  # of a link
            values = {who: float(cell) for who, cell in ((PAPER, printed), (BEST, best), (END, end)) if cell}
            found.append({"label": f"{name} · {setting}"} | values)
    return found


def main() -> None:
    lines = rows()
    order = [row["label"] for row in lines]
    y = alt.Y("label:N").sort(order).axis(title=None, labelLimit=400, grid=False, ticks=False, domain=False)
    title = "gain over FedAvg, points"
    data = alt.InlineData(values=lines)
    between = alt.Chart(data).mark_rule(color=MUTED, opacity=0.4, strokeWidth=2)
    between = between.encode(y=y, x=alt.X(f"{PAPER}:Q").title(title), x2=f"{END}:Q")
    points = [
        {"label": row["label"], "who": who, "gain": row[who]}
        for row in lines
        for who in (PAPER, BEST, END)
        if who in row
    ]
    colour = alt.Color("who:N").scale(domain=[PAPER, BEST, END], range=[MUTED, SKY, BLUE])
    dots = alt.Chart(alt.InlineData(values=points)).mark_point(filled=True, size=70, opacity=1)
    dots = dots.encode(y=y, x=alt.X("gain:Q").title(title), color=colour.legend(title=None, orient="top"))
    zero = alt.Chart(alt.InlineData(values=[{"x": 0}])).mark_rule(color=MUTED).encode(x="x:Q")
    chart = alt.layer(zero, between, dots).properties(width=460, height=alt.Step(20))
    save_chart(chart, HERE / "img" / "papers.png", "Gains of the papers and ours")


if __name__ == "__main__":
    main()
