"""What a library should log, through Python's ``logging`` under "unskew": nothing is shown until somebody listens.

    import logging

    logging.basicConfig(level=logging.INFO)

Errors and warnings are what a user may have to act on, infos what happens once in a while, debug what happens every
round. Progress bars and the command line's own lines are not logged.
"""

from __future__ import annotations

import logging
import warnings


def warn(message: str, stacklevel: int = 1) -> None:
    """Warn as ``warnings.warn`` does, which the command line prints, and log it too."""
    logging.getLogger("unskew.warnings").warning("%s", message)
    warnings.warn(message, stacklevel=stacklevel + 1)
