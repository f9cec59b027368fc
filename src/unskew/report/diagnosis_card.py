"""A diagnosis at a glance, for a notebook: what was found and what to try, in plain HTML."""

from __future__ import annotations

from unskew.report.diagnosis import Diagnosis
from unskew.report.rendering import piece


def diagnosis_card(diagnosis: Diagnosis) -> str:
    """What a notebook shows for a diagnosis; its colours follow the notebook's own, light or dark."""
    numbers = [(found.measure, found.value) for found in diagnosis.findings]
    advice = [(advice.part, advice.fit, advice.why) for advice in diagnosis.advice if advice.fit != "no"]
    return piece("card.html", "diagnosis")(diagnosis.headline, diagnosis.about, numbers, advice)
