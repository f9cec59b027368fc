"""``python -m unskew``."""

import sys

from unskew.cli import main

sys.exit(main())
