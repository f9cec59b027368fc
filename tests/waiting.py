"""Waiting for a page: it forbids code made of text, so the browser is asked again and again."""

from __future__ import annotations

from typing import Any


def until(page: Any, expression: str, seconds: float = 60) -> None:
    """Wait until an expression is true on the page."""
    for _ in range(int(20 * seconds)):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"this never came true: {expression}")
