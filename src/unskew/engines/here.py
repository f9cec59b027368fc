"""What the engines share whose clients all live on this machine, over one pool of samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from unskew.arrays import Array
from unskew.core.engine import Job
from unskew.core.held import OWN, Held, Made, Moment
from unskew.core.holdings import Holdings
from unskew.core.query import answer_here
from unskew.core.questions import Query
from unskew.core.roster import Roster
from unskew.core.sharing import Sharing
from unskew.core.slots import Prepare
from unskew.core.task import Answers, Sums
from unskew.core.types import Ids, Tree
from unskew.data.dataset import Dataset
from unskew.engines.device_data import DeviceData
from unskew.progress import working


class Here:
    """Holds the samples of all clients, and answers for each from its own.

    An engine adds how clients are trained (``visit``), and where samples lie on a device (``device_data``).
    """

    holdings: Holdings

    def hold(self, holdings: Holdings) -> None:
        self.holdings = holdings

    @property
    def dataset(self) -> Dataset:
        """Where the clients' samples, and the test set, lie."""
        return self.holdings.dataset

    def device_data(self, job: Job) -> DeviceData:
        """The samples on the device that computes; here anew each time, in this process."""
        return DeviceData(self.dataset, job.dtype)

    def judged(
        self,
        job: Job,
        model: Tree,
        places: Array | None,
        made: Made | None = None,
        details: bool = False,
    ) -> Answers:
        """What the model says of the test set, or of these samples; ``made`` ones come after the pool's.

        ``details``: these samples are the server's own, and told as the test set is.
        """
        return self.device_data(job).judge(job.judging_net, model, places, made=made, details=details)

    def query(self, job: Job, query: Query, clients: Ids, model: Tree, moment: Moment) -> Iterator[Tree]:
        return answer_here(job, self.holdings, query, clients.tolist(), model, moment)

    def evaluate(self, job: Job, model: Tree, clients: Ids | None = None, moment: Moment = OWN) -> Sums:
        data, task = self.dataset, job.net.task
        aside = None if moment.aside is None else self.holdings.dealt.aside[moment.aside]
        if aside is not None and clients is None:  # the server's own
            found = self.judged(job, model, aside.indices, details=True)
            return task.sums(data.y[aside.indices], found, data.classes)
        if aside is not None and clients is not None and aside.in_test:  # the test set has them too
            every = self.judged(job, model, None)
            found = {name: values[aside.indices] for name, values in every.items()}
            everyone = self.holdings.dealt.clients
            truth = data.y_test[aside.indices]
            return task.sums(truth, found, data.classes, aside.owners, everyone).take(clients)
        if clients is None:
            return task.sums(data.y_test, self.judged(job, model, None), data.classes)
        held = [self.holdings.held(int(c), moment, job.roster, job.method.prepare, job.seed) for c in clients]
        # all are judged at once, unless a client's samples are judged by their own statistics
        apart = job.batch_norm != "average" and job.net.buffers
        groups = [[h] for h in held] if apart and held else [held]
        found_apart = []
        with working("clients judged", len(groups)) as advance:
            for some in groups:
                found_apart.append(self.judged(job, model, *join_held(some)))
                advance(1)
        answers = {name: np.concatenate([f[name] for f in found_apart]) for name in found_apart[0]}
        owner = np.repeat(np.arange(len(held)), [len(h) for h in held])
        labels = np.concatenate([np.zeros(0, np.int64), *(h.labels for h in held)])
        return task.sums(labels, answers, data.classes, owner, len(held))

    def transfer(self, part: Prepare, sharing: Sharing, roster: Roster, seed: int) -> Roster:
        return self.holdings.transfer(part, sharing, roster, seed)


def join_held(held: Sequence[Held]) -> tuple[Array, Made | None]:
    """Several clients' samples as places of one pool; what clients made themselves comes behind its end."""
    places, made, pool = [], [], held[0].pool_size if held else 0
    behind = pool
    for one in held:
        places.append(np.where(one.places >= pool, one.places - pool + behind, one.places))
        if one.made is not None:
            made.append(one.made)
            behind += len(one.made[1])
    both = (np.concatenate([x for x, _ in made]), np.concatenate([y for _, y in made])) if made else None
    return np.concatenate([np.zeros(0, np.int64), *places]), both
