"""The ray engine: the fast engine's groups and sums, carried out by a cluster. The bits are those of ``fast``."""

from __future__ import annotations

from typing import Any

from unskew.core.engine import Job, RunPlan
from unskew.core.holdings import Holdings
from unskew.engines.carrier import Carrier
from unskew.engines.cluster.connect import Connection, check_address, connect, load_ray
from unskew.engines.cpu.fast import FastCPU
from unskew.engines.gpu.grouping import SIDE_BY_SIDE
from unskew.errors import InputError, first_line
from unskew.machine.cores import cores


class OverRay(FastCPU):
    """Actors on every node of a Ray cluster, one a core; where Ray sees GPUs, one a GPU and none else.

    ``address``: ``host:port``, ``auto`` for the cluster that this machine is part of, or None for one of its own.
    ``device``: ``auto``, or ``cpu`` to leave GPUs alone, or ``cuda`` to insist on them.
    """

    name = "ray"
    gpu = "cuda"
    """What the GPU engine trains on where Ray sees a GPU."""

    def __init__(
        self,
        address: str | None = None,
        workers: int | None = None,
        block: int | None = None,
        record: bool = False,
        device: str = "auto",
        compile: bool = False,
        precision: str = "fp32",
        alone: bool = False,
    ):
        super().__init__(1 if alone else workers or cores(), block, record)
        if not alone:
            check_address(address)
        self.alone = alone  # one to measure by, which trains in this process
        self.address, self.most, self.device = address, workers, device
        self.gpu_options = (block, compile, precision)
        self.on_gpus = False
        self.places = (0, 0)
        self.connection: Connection | None = None  # to a cluster that nobody works on yet

    def choice(self, run: RunPlan) -> str:
        actors, nodes = self.places
        each = "GPU" if self.on_gpus else "core"
        how = super().choice(run).partition(", ")[2]
        how = f"up to {self.stack(run.job)} clients at once" if self.on_gpus else how
        many = f"{actors} actors on {nodes} node{'s' if nodes > 1 else ''}" if actors else "actors"
        return f"Ray: {many}, one a {each}, {how}"

    def stack(self, job: Job) -> int:
        return (self.block or SIDE_BY_SIDE) if self.on_gpus else super().stack(job)

    def check(self, job: Job) -> None:
        """Refuse a job that cannot be sent to other machines."""
        try:
            load_ray().cloudpickle.dumps(job)
        except Exception as problem:  # pickling asks anything of anybody
            raise InputError(
                f"the model or the method cannot be sent to other machines ({first_line(problem)}); keep what cannot "
                "be pickled (locks, open files) out of it, or write engine = fast"
            ) from None

    def join(self) -> None:
        """Join the cluster at the address; one of its own is started when there is work."""
        if self.connection is None and not self.alone and self.address not in (None, "local"):
            self.connection = connect(self.address, self.count)

    def close(self) -> None:
        super().close()
        if self.connection is not None:
            self.connection.close()
        self.connection = None

    def again(self) -> OverRay:
        twin = OverRay(None, 1, self.block, self.record, alone=True)  # it has one client to train
        twin.hold(Holdings(self.holdings.federation))
        return twin

    def hire(self) -> Carrier:
        if self.alone:
            return super().hire()
        from unskew.engines.cluster.actors import ClusterCrew

        connection = self.connection or connect(self.address, self.count)
        self.connection = None  # from here on it is the crew's to close
        try:
            self.on_gpus = self._sees_gpus(connection.ray)
            device = (self.gpu, *self.gpu_options) if self.on_gpus else None
            crew = ClusterCrew(connection, self.most, device)
        except BaseException:
            connection.close()
            raise
        self.places = crew.places
        return crew

    def _sees_gpus(self, ray: Any) -> bool:
        if self.device == "cpu":
            return False
        there = ray.cluster_resources().get("GPU", 0) >= 1
        if not there and self.device != "auto":
            raise InputError(
                "device = cuda, and no node of the Ray cluster has a GPU; write device = auto or cpu"
            )
        if not there and self.gpu_options[1:] != (False, "fp32") and self.gpu_options[2] != "fp64":
            raise InputError(
                "compile and precision tf32 or bf16 need a GPU, and no node of the Ray cluster has one"
            )
        return bool(there)
