"""Reports: what a partition looks like, and what came out of runs. Nothing heavy is loaded before it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unskew.report.results.card import run_card
    from unskew.report.results.write import write_report

__all__ = ["run_card", "write_report"]


def __getattr__(name: str) -> Any:
    # charts take half a second to import, and training needs none
    if name == "write_report":
        from unskew.report.results.write import write_report

        return write_report
    if name == "run_card":
        from unskew.report.results.card import run_card

        return run_card
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
