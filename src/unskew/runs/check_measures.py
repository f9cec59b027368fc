"""What can be measured on request, and by which methods."""

from __future__ import annotations

from unskew.core.method import Method
from unskew.errors import InputError, unknown

MEASURES = {
    "divergence": "||w - w_c|| / ||w_c|| of the global model from one trained centrally in step (thesis 4.1)",
    "gamma": "F* - sum of n_k/n F_k*, the skew of the minimal losses (thesis eq. 3.1)",
    "correlation": "c of what is shared with the samples behind it, round by round (FLea eq. 8)",
}


def check_measures(names: tuple[str, ...], method: Method) -> None:
    for name in names:
        if name not in MEASURES:
            raise unknown("measurement", name, MEASURES)
    for name in ("divergence", "gamma"):
        if name in names and not method.schedule.exchanges:
            raise InputError(f"{name} looks at the global model, and {method} makes none; leave {name} out")
    if "correlation" in names and not any(part.sends for part in method.parts):
        raise InputError(
            f"correlation measures features or samples that are shared, and {method} shares none; leave it out"
        )
