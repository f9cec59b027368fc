"""What it cost to reach an accuracy: rounds, bytes, seconds on the air and sample-steps up to the first round there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unskew.readings import METRICS, Reading, check_target
from unskew.report.results.gather import Record
from unskew.report.results.groups import Group

COSTS = ("rounds", "bytes_down", "bytes_up", "bytes_peer", "air_s", "sample_steps")


@dataclass(frozen=True)
class Reached:
    """A target accuracy and a group: ``cost`` is the mean over those seeds that reach it, ``seeds`` of ``of``.

    A cost that the runs did not count (``air_s`` without a network) is missing. ``asked`` says whether somebody
    named the target; else it is what the baseline ended at.
    """

    target: float
    cost: Mapping[str, float]
    seeds: int
    of: int
    asked: bool = True
    metric: Reading = METRICS["accuracy"]

    @property
    def rounds(self) -> float | None:
        return self.cost.get("rounds")

    @property
    def bytes(self) -> float | None:
        """All that was moved: down, up and between clients."""
        if not self.seeds:
            return None
        return sum(self.cost[f"bytes_{direction}"] for direction in ("down", "up", "peer"))

    @property
    def name(self) -> str:
        """The target in a key or a column's name."""
        return f"{self.target:.4g}"

    def as_dict(self) -> dict[str, Any]:
        costs = {name: self.cost.get(name) for name in COSTS}
        return {**costs, "bytes": self.bytes, "seeds": self.seeds, "of": self.of}


def reached(group: Group, target: float, asked: bool = True) -> Reached:
    """When and at what cost a group's runs first reached a target."""
    found = [cost for record in group.counted if (cost := cost_until(record, target)) is not None]
    known = [name for name in COSTS if found and all(name in cost for cost in found)]
    means = {name: sum(cost[name] for cost in found) / len(found) for name in known}
    return Reached(target, means, len(found), len(group.counted), asked, group.counted[0].metric)


def cost_until(record: Record, target: float) -> dict[str, float] | None:
    """What a run had cost when it was first judged as good as the target; None where it never was."""
    round = record.first_round_at(target)
    if round is None:
        return None
    lines = [line for line in record.lines if line["round"] <= round]
    known = [name for name in COSTS[1:] if name != "air_s" or all("air_s" in line for line in lines)]
    return {"rounds": float(round)} | {name: record.total(name, round) for name in known}


def check_targets(targets: float | Sequence[float], names: Sequence[str] = ()) -> tuple[float, ...]:
    """The targets that somebody asks for, in rising order, each once; refused where the first metric has none such."""
    given = [targets] if isinstance(targets, (int, float)) else list(targets)
    for target in given:
        in_percent = isinstance(target, (int, float)) and 1 < target <= 100
        check_target(target, names, f"{target / 100:g}" if in_percent else "0.8")
    return tuple(sorted({float(target) for target in given}))
