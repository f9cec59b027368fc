"""How clients are run: the seam under which loop, fast and remote engines slide. One line an engine."""

from unskew.core.engine import Engine as Engine
from unskew.core.engine import Job as Job
from unskew.core.engine import RoundInputs as RoundInputs
from unskew.core.engine import RunPlan as RunPlan
from unskew.engines.loop import Loop as Loop
