"""Federated learning that works when clients' data is skewed and scarce."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from unskew.later import looks_up
from unskew.version import __version__ as __version__

logging.getLogger("unskew").addHandler(logging.NullHandler())  # who listens decides what is shown, and where

if TYPE_CHECKING:
    from unskew.core.method import Method as Method
    from unskew.data import Dataset as Dataset
    from unskew.data import Federation as Federation
    from unskew.data import from_arrays as from_arrays
    from unskew.data import from_frame as from_frame
    from unskew.data.load import load as load
    from unskew.data.partition import partition as partition
    from unskew.errors import InputError as InputError
    from unskew.metrics.distance_correlation import distance_correlation as distance_correlation
    from unskew.metrics.own import Metric as Metric
    from unskew.report.diagnosis import Diagnosis as Diagnosis
    from unskew.report.diagnosis import diagnose as diagnose
    from unskew.report.results.write import write_report as write_report
    from unskew.runs.ended import Run as Run
    from unskew.runs.running import resume as resume
    from unskew.runs.running import run as run
    from unskew.runs.saved_model import load_run as load_run
    from unskew.runs.settings import Settings as Settings
    from unskew.runs.spec import Spec as Spec
    from unskew.runs.sweep import sweep as sweep
    from unskew.runs.watchers import Ended as Ended
    from unskew.runs.watchers import RoundEnded as RoundEnded
    from unskew.runs.watchers import Started as Started
    from unskew.runs.watchers import Watcher as Watcher
    from unskew.testing.checks import check_method as check_method
    from unskew.testing.checks import check_part as check_part

_PUBLIC = {
    "check_method": "testing.checks",
    "check_part": "testing.checks",
    "Dataset": "data",
    "Federation": "data",
    "distance_correlation": "metrics.distance_correlation",
    "Metric": "metrics.own",
    "from_arrays": "data",
    "from_frame": "data",
    "load": "data.load",
    "partition": "data.partition",
    "InputError": "errors",
    "Method": "core.method",
    "Run": "runs.ended",
    "resume": "runs.running",
    "run": "runs.running",
    "load_run": "runs.saved_model",
    "Settings": "runs.settings",
    "Spec": "runs.spec",
    "sweep": "runs.sweep",
    "Watcher": "runs.watchers",
    "Started": "runs.watchers",
    "RoundEnded": "runs.watchers",
    "Ended": "runs.watchers",
    "diagnose": "report.diagnosis",
    "Diagnosis": "report.diagnosis",
    "write_report": "report.results.write",
}

__all__ = [*_PUBLIC]


__getattr__ = looks_up(__name__, _PUBLIC)  # torch takes a second to load, and ``--help`` needs none


def __dir__() -> list[str]:
    """What is public, used already or not, and not what this file imports."""
    return sorted({*_PUBLIC, *(name for name in globals() if name.startswith("__"))})
