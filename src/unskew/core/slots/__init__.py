"""The slots of a round, one file each. This page is the extension guide.

A method is made of parts. A part is a frozen dataclass that stores hyper-parameters and nothing else. What the server
or a client remembers lives in ``State``, keyed by the part's name, and comes in as an argument. So a run can be
killed anywhere, and parts compose.

To add a method, write one file in the folder of its slot and one line in that folder's ``__init__.py``. The
whole of FedProx, for example:

    @dataclass(frozen=True)
    class FedProx(Objective):
        '''Pulls a client's model towards the one it started from (Li et al., MLSys 2020, eq. 2).'''

        name: ClassVar[str] = "fedprox"
        mu: float = 0.01  # mu, eq. 2

        def penalty(self, step: Step) -> Tensor:
            drift = sum(((p - step.anchor[k]) ** 2).sum() for k, p in step.params.items())
            return self.mu / 2 * drift

Its name on the command line, its listing, its docs and its checks (``unskew.testing.checks.check_part``) follow.
Slots that *decide* hold exactly one part (select, schedule, aggregate, advance); slots that *add* hold any number, in
the order written (prepare, tune, objective, upload, calibrate).

Read the page of your slot. For a loss that is ``objective.py``; only where clients also remember something, or tell
the server and are told, it goes on in ``exchange.py``. What a part needs of the engine that runs it is one record,
``needs.py``.
"""

from unskew.core.slots.advance import Advance as Advance
from unskew.core.slots.aggregate import Aggregate as Aggregate
from unskew.core.slots.calibrate import Calibrate as Calibrate
from unskew.core.slots.exchange import After as After
from unskew.core.slots.exchange import Exchange as Exchange
from unskew.core.slots.exchange import Visit as Visit
from unskew.core.slots.needs import Needs as Needs
from unskew.core.slots.objective import Objective as Objective
from unskew.core.slots.part import Depends as Depends
from unskew.core.slots.part import Part as Part
from unskew.core.slots.prepare import Prepare as Prepare
from unskew.core.slots.schedule import Play as Play
from unskew.core.slots.schedule import Schedule as Schedule
from unskew.core.slots.select import Select as Select
from unskew.core.slots.step import Batch as Batch
from unskew.core.slots.step import Out as Out
from unskew.core.slots.step import Step as Step
from unskew.core.slots.tune import Local as Local
from unskew.core.slots.tune import Tune as Tune
from unskew.core.slots.upload import Upload as Upload
