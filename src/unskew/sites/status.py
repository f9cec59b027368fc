"""How a federation stands: who is there, since when, with how many samples, and what each site allows."""

from __future__ import annotations

import datetime
import importlib
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unskew.sites.folders import FederationFolder

PATIENCE = 10.0
"""Seconds that a site has to say what it allows: one that trains answers later, and is shown as busy."""


def federation_status(folder: FederationFolder) -> dict[str, Any]:
    """Asks the server, where it runs, and every site that is there."""
    from unskew.sites.certificates import days_left
    from unskew.sites.flower.processes import superlink_since

    since = superlink_since(folder)
    told: dict[str, Any] = {
        "federation": folder.name,
        "address": folder.address,
        "running": since is not None,
        "since": None if since is None else _moment(since),
        "certificate_days": days_left(folder.certificate.read_bytes()),
        "sites": [{"site": site, "online": False} for site in folder.sites],
    }
    if since is not None:
        told["sites"] = _sites(folder)
    return told


def _sites(folder: FederationFolder) -> list[dict[str, Any]]:
    from unskew.sites.flower.carrier import FlowerCarrier

    with FlowerCarrier(folder) as carrier:
        # torch takes as long to load as Flower's app to start, so both begin at once
        beside = threading.Thread(target=importlib.import_module, args=("unskew.sites.survey",))
        beside.start()
        there = carrier.presence()
        beside.join()
        from unskew.sites.survey import Unwilling, survey

        said = survey(carrier, [site for site, found in there.items() if found.online], PATIENCE)
    rows = []
    for site, found in there.items():
        row: dict[str, Any] = {"site": site, "online": found.online}
        if found.online:
            row["since"] = _moment(datetime.datetime.fromisoformat(found.since).timestamp())
            about = said[site]
            if isinstance(about, Unwilling):
                row["problem"] = about.reason
            else:
                row |= {"version": about.version, "samples": about.samples, "clients": len(about.clients)}
                row["policy"] = about.policy.as_dict()
        rows.append(row)
    return rows


def limits_told(policy: dict[str, Any]) -> str:
    """What else a policy says, where it says more than the usual."""
    told = [f"at most {policy['max_rounds']} rounds"] if "max_rounds" in policy else []
    told += [f"from {policy['min_samples']} samples"] if policy["min_samples"] > 1 else []
    told += [f"from {policy['min_clients']} clients"] if policy["min_clients"] > 1 else []
    told += [f"models {', '.join(policy['models'])}"] if policy["models"] else []
    return "".join(f"; {word}" for word in told)


def _moment(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
