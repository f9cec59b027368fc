"""The reference engine: one client after the other, in this process; plain, and the one to agree with."""

from __future__ import annotations

import torch

from unskew.core.dispatch import gather_results, make_client_job
from unskew.core.engine import Job, RoundInputs, RunPlan
from unskew.core.holdings import Holdings
from unskew.core.step import LocalTraining
from unskew.core.types import Ids, Leg, Update
from unskew.engines.device_data import DeviceData
from unskew.engines.here import Here
from unskew.progress import working


class Loop(Here):
    """Calls the client function for one client at a time."""

    name = "loop"

    def __init__(self, device: torch.device | None = None) -> None:
        self.device = device or torch.device("cpu")
        self._data: DeviceData | None = None

    def choice(self, run: RunPlan) -> str:
        how = "one thread" if self.device.type == "cpu" else f"on {self.device}, no graphs"
        return f"one client after the other, {how}"

    def visit(self, job: Job, leg: Leg, rows: Ids, round_inputs: RoundInputs) -> Update:
        training = LocalTraining(job.net, job.method.objective, job.local, job.seed)
        returns = []
        with working("clients", len(rows)) as advance:
            for row in rows:
                returns += self.device_data(job).train(
                    training, [make_client_job(job, leg, int(row), round_inputs, self.holdings)]
                )
                advance(1)
        return gather_results(job, leg, rows, returns)

    def device_data(self, job: Job) -> DeviceData:
        if self._data is None or self._data.dataset is not self.dataset:
            self._data = DeviceData(self.dataset, job.dtype, self.device)
        return self._data

    def again(self) -> Loop:
        twin = Loop(self.device)
        twin.hold(Holdings(self.holdings.federation))
        twin._data = self._data  # over the same samples
        return twin

    def close(self) -> None:
        self._data = None
