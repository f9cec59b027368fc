"""Reports: what a partition looks like, and what came out of runs. Nothing heavy is loaded before it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unskew.later import looks_up

if TYPE_CHECKING:
    from unskew.report.results.card import run_card as run_card
    from unskew.report.results.write import write_report as write_report

_PUBLIC = {"run_card": "results.card", "write_report": "results.write"}

__all__ = [*_PUBLIC]

__getattr__ = looks_up(__name__, _PUBLIC)  # charts take half a second to import, and training needs none
