"""How clients are run: the seam under which loop, fast and remote engines slide. One line an engine."""

from unskew.engines.engine import Engine as Engine
from unskew.engines.engine import Ground as Ground
from unskew.engines.engine import Job as Job
from unskew.engines.loop import Loop as Loop
