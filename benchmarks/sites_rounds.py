"""What a leg at real sites costs: FedAvg on three sites of this machine, simulated, over sockets, and over Flower.

python -m benchmarks.sites_rounds          100 rounds each; about two minutes
python -m benchmarks.sites_rounds 20       fewer

Simulated: the training alone. Over sockets: and messages, hashes and the sites' logs on their disks. Over Flower: and
its server, TLS, signatures and polls. What `unskew federation status` takes is timed too.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from contextlib import closing
from pathlib import Path

import numpy as np

import unskew
from unskew.runs.load_data import load_federation
from unskew.runs.spec import Spec
from unskew.sites.data import SiteData
from unskew.sites.flower.processes import start_superlink, stop_superlink
from unskew.sites.join import SOCKETS
from unskew.sites.officer_log import OfficerLog
from unskew.sites.provision import init_federation
from unskew.sites.serve import Door
from unskew.sites.site import Site
from unskew.sites.status import federation_status

NAMES = ("north", "south", "east")
SETTINGS = Spec(
    dataset="digits", partition="dirichlet(1.0)", clients=3, model="mlp", lr=0.1, engine="loop", evaluate=10
)


def main(rounds: int) -> None:
    """Three times the same run, and how long its rounds took."""
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory(prefix="unskew-") as name:
        folder = Path(name)
        deal(folder)
        tell("simulated", unskew.run(SETTINGS, rounds=rounds, progress=False), 0.0)
        over_sockets(folder, rounds)
        over_flower(folder, rounds)


def deal(folder: Path) -> None:
    """A file of samples for each site."""
    federation, _ = load_federation(SETTINGS, None)
    data = federation.dataset
    for k, name in enumerate(NAMES):
        at = federation.samples(k)
        np.savez(folder / f"{name}.npz", x=data.x[at], y=data.y[at])


def over_sockets(folder: Path, rounds: int) -> None:
    def live(name: str) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        place = folder / "near" / name
        place.mkdir(parents=True)
        site = Site(name, SiteData(folder / f"{name}.npz"), place, log=OfficerLog(place))
        Door(folder / f"{name}.sock", site.answer).serve()

    near = folder / "near"
    near.mkdir()
    (near / SOCKETS).write_text(json.dumps({name: str(folder / f"{name}.sock") for name in NAMES}))
    fork = multiprocessing.get_context("fork")
    sites = [fork.Process(target=live, args=(name,), daemon=True) for name in NAMES]
    try:
        for site in sites:
            site.start()
        while not all((folder / f"{name}.sock").exists() for name in NAMES):
            time.sleep(0.1)
        began = time.perf_counter()
        run = unskew.run(SETTINGS, rounds=rounds, sites=str(near), progress=False)
        tell("over sockets", run, time.perf_counter() - began)
    finally:
        for site in sites:
            site.terminate()
            site.join()


def over_flower(folder: Path, rounds: int) -> None:
    with closing(socket.socket()) as trial:
        trial.bind(("127.0.0.1", 0))
        port = trial.getsockname()[1]
    made = init_federation(folder / "ops", NAMES, port=port)
    command = [sys.executable, "-m", "unskew", "site", "start"]
    sites: list[subprocess.Popen[bytes]] = []
    start_superlink(made, with_parent=True)
    try:
        for name in NAMES:
            words = [
                *command,
                name,
                "--folder",
                str(made.hand_out(name)),
                "--data",
                str(folder / f"{name}.npz"),
            ]
            sites.append(subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        ends = time.monotonic() + 120
        while not all(s["online"] for s in federation_status(made)["sites"]) and time.monotonic() < ends:
            time.sleep(1.0)
        status = [sys.executable, "-m", "unskew", "federation", "status", str(made.path), "--json"]
        began = time.perf_counter()
        subprocess.run(status, check=True, stdout=subprocess.DEVNULL)
        print(f"unskew federation status: {time.perf_counter() - began:.1f} s", flush=True)
        began = time.perf_counter()
        run = unskew.run(SETTINGS, rounds=rounds, sites=str(made.path), progress=False)
        tell("over Flower", run, time.perf_counter() - began)
    finally:
        for site in sites:
            site.send_signal(signal.SIGINT)
        for site in sites:
            site.wait()
        stop_superlink(made)


def tell(how: str, run: unskew.Run, whole: float) -> None:
    walls = [line["wall_s"] for line in run.folder.lines]
    start = f", and {whole - sum(walls):.1f} s to begin and end" if whole else ""
    print(
        f"{how:>12}: {len(walls)} rounds in {sum(walls):.1f} s{start}; a round {statistics.median(walls):.3f} s in the "
        f"median, {min(walls):.3f} s the fastest, {max(walls):.3f} s the slowest "
        f"(load {os.getloadavg()[0]:.1f})",
        flush=True,
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
