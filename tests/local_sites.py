"""Sites as processes of this machine behind Unix sockets, for tests: real processes that can be killed and started."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pandas  # noqa: F401  so that a site, which is forked, need not

from unskew.engines.cpu.workers import die_with
from unskew.sites.carrier import connect
from unskew.sites.data import SiteData
from unskew.sites.officer_log import OfficerLog
from unskew.sites.policy import Policy
from unskew.sites.serve import Door
from unskew.sites.site import Site
from unskew.sites.words import MEANINGS

EVERYTHING = Policy(allow=frozenset(MEANINGS))
FORK = multiprocessing.get_context("fork")


def live_again(*given) -> None:
    """A site that is started again, without what a test changed, whenever it was killed."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    while True:
        me = os.getpid()
        child = os.fork()
        if not child:
            die_with(me)
            live(*given)
        os.waitpid(child, 0)
        given = (*given[:-1], None)


def live(name: str, data: SiteData, folder: Path, policy: Policy, socket: Path, change) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    site = Site(name, data, folder, policy, OfficerLog(folder))
    Door(socket, change(site) if change else site.answer).serve()


class LocalSites:
    """Sites by name, and the folder that a run is given as ``sites``."""

    def __init__(self, folder: Path, data: dict[str, SiteData], policy: Policy = EVERYTHING):
        self.folder, self.data, self.policy = folder, data, policy
        self.short = Path(tempfile.mkdtemp(prefix="unskew-"))  # paths of sockets must be short
        self.sockets = {name: self.short / f"{name}.sock" for name in data}
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "sockets.json").write_text(json.dumps({k: str(v) for k, v in self.sockets.items()}))
        self.processes: dict[str, multiprocessing.process.BaseProcess] = {}

    def start(self, name: str, policy: Policy | None = None, change=None, again: bool = False) -> None:
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        given = name, self.data[name], folder, policy or self.policy, self.sockets[name], change
        process = FORK.Process(target=live_again if again else live, args=given, daemon=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            process.start()
        self.processes[name] = process
        while process.is_alive():
            try:
                connect(self.sockets[name], 5.0).close()
                return
            except OSError:
                time.sleep(0.01)
        raise AssertionError(f"site {name} ended")

    def start_all(self) -> LocalSites:
        for name in self.data:
            self.start(name)
        return self

    def restart(self, name: str, **more) -> None:
        if name in self.processes:
            self.kill(name)
        self.start(name, **more)

    def kill(self, name: str) -> None:
        process = self.processes.pop(name)
        os.kill(process.pid, signal.SIGKILL)
        process.join()

    def close(self) -> None:
        for name in list(self.processes):
            self.kill(name)
        for path in self.sockets.values():
            path.unlink(missing_ok=True)
        self.short.rmdir()


def deal(federation, folder: Path, names: tuple[str, ...]) -> dict[str, SiteData]:
    """The samples of a simulated federation as a file a site: the same clients, in the same order."""
    found = {}
    folder.mkdir(parents=True, exist_ok=True)
    share = np.array_split(np.arange(federation.clients), len(names))
    for name, clients in zip(names, share, strict=True):
        places = np.concatenate([federation.samples(int(c)) for c in clients])
        ward = np.concatenate(
            [np.full(len(federation.samples(int(c))), f"ward{i}") for i, c in enumerate(clients)]
        )
        data = federation.dataset
        np.savez(folder / f"{name}.npz", x=data.x[places], y=data.y[places], ward=ward)
        found[name] = SiteData(folder / f"{name}.npz", client="ward" if len(clients) > 1 else None)
    return found
