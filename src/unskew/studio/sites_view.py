"""What the Sites screen shows: federations of the folder, sites whose folders are here, and runs over real sites."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from unskew.errors import InputError
from unskew.report.results.gather import Record
from unskew.sites.folders import FEDERATION, SITE, FederationFolder, SiteFolder
from unskew.sites.officer_log import LINES
from unskew.sites.policy import Policy
from unskew.sites.status import federation_status, limits_told

MOST_LINES = 100
"""Lines of an officer's log that are shown, the newest."""
TAIL = 400_000  # bytes that they are looked for in


def found_folders(folder: Path, name: str) -> Iterator[Path]:
    """Folders with a file of this name: the folder itself, and two levels below."""
    for pattern in (name, f"*/{name}", f"*/*/{name}"):
        yield from sorted(file.parent for file in folder.glob(pattern) if file.is_file())


def federations(folder: Path) -> list[dict[str, Any]]:
    """Every federation of the folder as it stands; one that cannot be asked says why."""
    told = []
    for place in found_folders(folder, FEDERATION):
        try:
            found = federation_status(FederationFolder.read(place))
        except (InputError, OSError, RuntimeError) as problem:
            told.append({"federation": place.name, "problem": str(problem), "sites": []})
            continue
        for site in found["sites"]:
            if "policy" in site:
                site["allows"] = (", ".join(site["policy"]["allow"]) or "nothing") + limits_told(
                    site["policy"]
                )
        told.append(found)
    return told


def sites_here(folder: Path) -> list[dict[str, Any]]:
    """Sites whose own folders are here: what they allow, and what they sent, the newest first."""
    told: list[dict[str, Any]] = []
    for place in found_folders(folder, SITE):
        if place.parent.name == "hand-out":
            continue  # a folder that is still to be carried to its site
        try:
            site = SiteFolder.read(place)
            policy = Policy.read(place)
        except (InputError, OSError) as problem:
            told.append({"site": place.name, "problem": str(problem), "sent": []})
            continue
        allows = (", ".join(sorted(policy.as_dict()["allow"])) or "nothing") + limits_told(policy.as_dict())
        told.append({"site": site.name, "allows": allows, "sent": sent_lines(place / LINES)})
    return told


def sent_lines(path: Path) -> list[dict[str, Any]]:
    """The last lines of an officer's log; one that is half written is left for the next time."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - TAIL))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return []
    found = []
    for line in lines[-MOST_LINES:]:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict):
            names = ("time", "run", "round", "asked", "sent", "bytes_in", "bytes_out", "refused")
            found.append({name: entry.get(name) for name in names})
    return found[::-1]


def runs_at_sites(records: list[Record]) -> list[dict[str, Any]]:
    """Runs over real sites, from the coordinator's log: bytes that really travelled, and who was lost."""
    told = []
    for record in records:
        noted = [line["sites"] for line in record.lines if isinstance(line.get("sites"), dict)]
        if noted:
            lost: dict[str, int] = {}
            for line in noted:
                for site in line.get("lost") or {}:
                    lost[site] = lost.get(site, 0) + 1
            told.append(
                {
                    "run": record.path.name if record.path else record.name,
                    "rounds": len(noted),
                    "bytes_down": sum(int(line.get("bytes_down") or 0) for line in noted),
                    "bytes_up": sum(int(line.get("bytes_up") or 0) for line in noted),
                    "lost": [f"{site} in {n} rounds" for site, n in sorted(lost.items())],
                }
            )
    return told
