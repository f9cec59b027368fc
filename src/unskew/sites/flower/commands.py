"""Flower's commands one after the other in one process, since loading Flower takes longer than any of them:
``python -m unskew.sites.flower.commands``. A line of its input is the words of a command as a JSON list; a line of its
output is what that command printed, on its standard output and on its standard error, as a JSON list of both."""

from __future__ import annotations

import contextlib
import io
import json
import sys


def main() -> None:
    from flwr.cli.app import app

    answers = sys.stdout
    for line in sys.stdin:
        out, err = io.StringIO(), io.StringIO()
        vars(sys).update(stdout=out, __stdout__=out, stderr=err, __stderr__=err)  # Flower prints on all four
        with contextlib.suppress(SystemExit):
            app(json.loads(line), prog_name="flwr")
        print(json.dumps([out.getvalue(), err.getvalue()]), file=answers, flush=True)


if __name__ == "__main__":
    main()
