"""A Ray cluster of three nodes on this machine, for tests: one at a time, whichever of pytest's processes asks."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from forked_ray_worker import forked_workers

STORE = 80 * 2**20
"""Bytes of a node's object store: the least that Ray takes."""


class Cluster:
    """Nodes that come and go."""

    def __init__(self, inner: Any, nodes: int, worker: dict[str, str]):
        self.inner, self.worker = inner, worker
        self.address: str = inner.address
        self.head: str = inner.head_node.node_id
        self.nodes: dict[str, Any] = {}
        self.fill(nodes)

    def add(self, **more: Any) -> str:
        node = self.inner.add_node(num_cpus=1, object_store_memory=STORE, **self.worker, **more)
        self.nodes[node.node_id] = node
        return str(node.node_id)

    def fill(self, nodes: int = 3) -> None:
        """Add what is missing of so many nodes."""
        while 1 + len(self.nodes) < nodes:
            self.add()

    def remove(self, node: str) -> None:
        """As if its plug were pulled."""
        self.inner.remove_node(self.nodes.pop(node), allow_graceful=False)


@contextlib.contextmanager
def three_nodes(nodes: int = 3, joined: bool = True, forked: bool = False) -> Iterator[Cluster]:
    """A cluster; ``joined``: this process is connected to it, ``forked``: its workers have torch loaded already, where
    processes fork."""
    pytest.importorskip("ray")
    from unskew.engines.cluster.connect import load_ray

    ray = load_ray()
    from ray.cluster_utils import Cluster as Inner

    with (
        FileLock(Path(tempfile.gettempdir()) / "unskew-ray-tests.lock"),
        tempfile.TemporaryDirectory(prefix="unskew-ray-", dir="/tmp", ignore_cleanup_errors=True) as place,
        pytest.MonkeyPatch.context() as patch,
        contextlib.ExitStack() as stack,
    ):
        # sockets' paths are short there, and nothing is left of them. By its variable, since Ray writes the cluster's
        # address into its usual folder whatever it is told otherwise, and fails on a machine where that never was
        patch.setenv("RAY_TMPDIR", place)
        worker = (
            {"worker_path": stack.enter_context(forked_workers(Path(place)))}
            if forked and sys.platform == "linux"
            else {}
        )
        head = {
            **worker,
            "num_cpus": 1,
            "include_dashboard": False,
            "include_log_monitor": False,  # nor, below, who would add machines: nobody here asks either
            "no_monitor": True,
            "object_store_memory": STORE,
            "_system_config": {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500},
        }
        inner = Inner(initialize_head=True, head_node_args=head)
        try:
            if joined:
                ray.init(address=inner.address, log_to_driver=False, logging_level="ERROR")
            yield Cluster(inner, nodes, worker)
        finally:
            ray.shutdown()
            inner.shutdown()
