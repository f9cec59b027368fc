"""A site as it runs: its process that holds the samples, and Flower's beside it, until somebody ends both."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import filelock

from unskew.errors import InputError, RunFailed
from unskew.sites.data import SiteData
from unskew.sites.flower.processes import check_reach, explain_end, start_supernode, stop_child
from unskew.sites.folders import SiteFolder
from unskew.sites.forget import KeptRuns
from unskew.sites.officer_log import Entry, OfficerLog
from unskew.sites.policy import Policy
from unskew.sites.private_files import make_private_folder
from unskew.sites.serve import Door
from unskew.sites.site import Site

PAUSE = 5.0
"""Seconds until Flower's process is started again after it ended by itself."""


def open_site(
    folder: SiteFolder, data: SiteData, policy: Policy, show: Callable[[str], None] | None = None
) -> Site:
    """The site itself, with its data read once so that a wrong column is told now."""
    site = Site(folder.name, data, make_private_folder(folder.state), policy, OfficerLog(folder.path, show))
    site.forget_old()
    return site


def run_site(folder: SiteFolder, site: Site, tell: Callable[[str], None]) -> None:
    """Answer the coordinator until this process is interrupted. Nothing is left behind."""
    lock = _lock(folder)
    place = Path(tempfile.mkdtemp(prefix="unskew-"))  # short, since a socket's name may not be long; mode 700
    try:
        check_reach(folder)
        door = Door(place / "site", site.answer)
        threading.Thread(target=door.serve, daemon=True).start()
        try:
            _keep_connected(folder, door.path, tell)
        finally:
            door.close()
    finally:
        shutil.rmtree(place, ignore_errors=True)
        lock.release()


def clean_site(folder: SiteFolder, days: float) -> list[str]:
    """Delete what a site that does not run keeps of runs that nobody asked about for so many days; which runs."""
    with _lock(folder):
        gone = KeptRuns(folder.state).forget(days)
        for run in gone:
            OfficerLog(folder.path).write(Entry("to forget it, by hand (unskew site clean)", run=run))
    return gone


def _lock(folder: SiteFolder) -> filelock.BaseFileLock:
    lock = filelock.FileLock(folder.path / "site.lock")
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        raise InputError(f"site {folder.name!r} runs already from {folder.path}; stop that first") from None
    return lock


def _keep_connected(folder: SiteFolder, socket: Path, tell: Callable[[str], None]) -> None:
    """Flower's process, again and again: a coordinator may be restarted, but a key that it refuses stays refused."""
    while True:
        began = time.monotonic()
        node = start_supernode(folder, socket)
        try:
            code = node.wait()
        finally:
            stop_child(node)
        said = explain_end(folder, code)
        if "does not know the key" in said or time.monotonic() - began < 2 * PAUSE:
            raise RunFailed(said)
        tell(f"{said}; connecting again")
        time.sleep(PAUSE)
