"""A diagnosis as one HTML page."""

from __future__ import annotations

from pathlib import Path

from unskew.report.charts import partition_picture
from unskew.report.diagnosis import SOURCES, Diagnosis
from unskew.report.evidence import THE_BOOK
from unskew.report.page import Block, Figure, Heading, Paragraph, TableBlock, save_page
from unskew.report.theme import themed


def save_diagnosis(diagnosis: Diagnosis, path: str | Path) -> None:
    """Write the report: pictures, numbers in words, advice, sources."""
    save_page(path, diagnosis.headline, blocks(diagnosis), diagnosis.about)


def blocks(diagnosis: Diagnosis) -> list[Block]:
    """What the report holds, in order."""
    picture = partition_picture(
        diagnosis.counts,
        diagnosis.skew,
        diagnosis.labels,
        diagnosis.about,
        scarce=diagnosis.scarce,
        names=diagnosis.names,
    )
    report: list[Block] = [Figure(themed(picture)), *said(diagnosis), Heading("How this was made")]
    made = [[key, str(value)] for key, value in diagnosis.record.items() if value is not None]
    report.append(TableBlock(["partition", ""], made) if made else Paragraph("From label counts."))
    report.append(Heading("Sources"))
    report.extend(Paragraph(f"{name}: {source}", quiet=True) for name, source in SOURCES.items())
    return report


def said(diagnosis: Diagnosis) -> list[Block]:
    """What the numbers mean, and what to try, each with its evidence."""
    found = [
        [f.measure, f.value, f.span, f.chance, f"{f.meaning} ({f.evidence})" if f.evidence else f.meaning]
        for f in diagnosis.findings
    ]
    advised = [
        [a.part if a.available else f"{a.part}*", a.fit, f"{a.why} ({a.evidence})", a.needs, a.discloses]
        for a in diagnosis.advice
    ]
    report: list[Block] = [
        Heading("What the numbers mean"),
        TableBlock(
            ["measure", "value", "range", "by chance", "meaning"], found, frozenset({"value", "by chance"})
        ),
        Paragraph(
            "By chance: what dealing the same samples blindly to clients of the same sizes is expected to "
            "give. Small clients look skewed even then.",
            quiet=True,
        ),
        Heading("What to try, and what it would disclose"),
        Paragraph(f"For {diagnosis.situation.planned.said()}, as the parts' own checks see it.", quiet=True),
        TableBlock(
            ["part", "fit", "why, and the evidence", "needs", "discloses beyond model updates"], advised
        ),
    ]
    if not all(a.available for a in diagnosis.advice):
        report.append(Paragraph("* not in this version of unskew yet", quiet=True))
    report.append(Heading("What was measured on data like this"))
    report.append(Paragraph(f"{THE_BOOK[0].upper()}{THE_BOOK[1:]}.", quiet=True))
    report.append(Paragraph(diagnosis.evidence.headline))
    if near := diagnosis.evidence.rows(most=5, methods=8):
        heads = ["setting", "steps away", "points over FedAvg, ± half the 95% interval"]
        report.append(TableBlock(heads, [list(row) for row in near], frozenset({"steps away"})))
    return report
