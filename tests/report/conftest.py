"""Charts of reports are drawn with all of Altair's checks here, and without them elsewhere."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True, scope="module")
def checked(checked_charts: None) -> None:
    """Also where a report is written by the command."""
