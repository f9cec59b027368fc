"""Speed and scale, as ratios in one run: what ``make bench`` runs.

python -m benchmarks                          jobs A, B and C with peers, growth, partitions and selection at scale
python -m benchmarks A B --device cuda        what `unskew bench A B --device cuda` does, with torch and numpy alone
"""

from __future__ import annotations

import argparse
import json
import runpy
import sys

from unskew.bench.request import answered
from unskew.errors import InputError


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("jobs", nargs="*", help="standard jobs A to E")
    parser.add_argument("--engines", default="loop,fast")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--growth", action="store_true", dest="growing")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--block", type=int)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--json", action="store_true")
    flags = vars(parser.parse_args())
    as_json = flags.pop("json")

    def show(**changed: object) -> None:
        found = answered(
            tell=lambda line: print(line, file=sys.stderr, flush=True),
            show=lambda block: None if as_json else print(block, flush=True),
            **flags | changed,
        )
        print(json.dumps(found) if as_json else "", flush=True)
        if "stopped" in found:
            raise KeyboardInterrupt

    try:
        if len(sys.argv) > 1:
            show()
            return 0
        show(peers=True)
        show(growing=True)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    missed = 0
    for scale in ("benchmarks.partition_scale", "benchmarks.selection_scale", "benchmarks.views_scale"):
        try:
            runpy.run_module(scale, run_name="__main__", alter_sys=True)
        except SystemExit as end:
            missed |= int(end.code or 0)
    return missed


if __name__ == "__main__":
    sys.exit(main())
