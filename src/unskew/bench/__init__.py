"""How fast: the standard jobs, engines and peers side by side, and how cost grows.

Needs torch and numpy only, so that it runs on a GPU machine that has little else.
"""

from unskew.bench.compare import bench
from unskew.bench.jobs import JOBS, StandardJob, jobs_named
from unskew.bench.options import Options
from unskew.bench.scaling import growth
from unskew.bench.table import growth_text, text

__all__ = ["JOBS", "Options", "StandardJob", "bench", "growth", "growth_text", "jobs_named", "text"]
