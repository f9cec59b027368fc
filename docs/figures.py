"""Draws docs/img/digits.png, the picture that ``unskew diagnose`` makes: ``python docs/figures.py``."""

from __future__ import annotations

from pathlib import Path

from unskew.data import load
from unskew.data.partition import partition
from unskew.report.charts import partition_picture
from unskew.report.diagnosis import diagnose
from unskew.report.drawing import save_chart


def main() -> None:
    digits = load("digits")
    part = partition(digits, "dirichlet(0.1)", 50, 0, fraction=0.5)
    found = diagnose(part.counts, dataset="digits", labels=digits.labels)
    about = "digits · dirichlet(0.1) · 50 clients · half of the data"
    chart = partition_picture(found.counts, found.skew, found.labels, about)
    save_chart(chart, Path(__file__).parent / "img" / "digits.png", found.headline)


if __name__ == "__main__":
    main()
