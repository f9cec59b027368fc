"""The command ``unskew``, and ``python -m unskew``."""

import signal
import sys


def main() -> int:
    """Load the command line and run it; Ctrl-C while it loads ends the process without a word."""
    heeded = signal.getsignal(signal.SIGINT) == signal.default_int_handler
    if heeded:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from unskew.cli import main as command

    if heeded:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return command()


if __name__ == "__main__":  # worker processes import this module, too
    sys.exit(main())
