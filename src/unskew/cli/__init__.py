"""The command line: one module a command, imported here, where each registers its own."""

from __future__ import annotations

from unskew.cli import attack as attack
from unskew.cli import bench as bench
from unskew.cli import cell as cell
from unskew.cli import datasets as datasets
from unskew.cli import demo as demo
from unskew.cli import diagnose as diagnose
from unskew.cli import export as export
from unskew.cli import federation as federation
from unskew.cli import methods as methods
from unskew.cli import metrics as metrics
from unskew.cli import models as models
from unskew.cli import partition as partition
from unskew.cli import predict as predict
from unskew.cli import report as report
from unskew.cli import reproduce as reproduce
from unskew.cli import run as run
from unskew.cli import site as site
from unskew.cli import studio as studio
from unskew.cli import sweep as sweep
from unskew.cli.app import app as app
from unskew.cli.app import main as main
