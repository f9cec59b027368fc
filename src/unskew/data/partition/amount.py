"""How much of a data set is dealt to clients."""

from __future__ import annotations

from unskew.errors import InputError


def amount_used(total: int, clients: int, fraction: float, samples_per_client: int | None) -> int:
    """How many of ``total`` samples are dealt."""
    if not 0 < fraction <= 1:
        raise InputError(f"fraction must lie above 0 and up to 1, not {fraction:g}")
    if samples_per_client is None:
        return max(1, round(fraction * total))
    if fraction != 1:
        raise InputError("fraction and samples_per_client both say how much data is used; write one")
    if samples_per_client < 1:
        raise InputError(f"samples_per_client must be at least 1, not {samples_per_client}")
    size = samples_per_client * clients
    if size > total:
        most = f"samples_per_client={total // clients}" if total >= clients else f"clients={total}"
        raise InputError(
            f"{clients} clients x {samples_per_client} samples need {size}, but there are {total}; write at most {most}"
        )
    return size


def refuse_fewer(clients: int, min_samples: int, used: int) -> None:
    """Refuse more clients than can hold so many samples each."""
    if clients * min_samples <= used:
        return
    instead = "min_samples=0 to allow empty ones"
    if used >= min_samples:
        instead = f"clients={used // min_samples} or less, or {instead}"
    elif used >= clients:
        instead = f"min_samples={used // clients} or less"
    who = "1 client" if clients == 1 else f"{clients} clients"
    raise InputError(f"{who} cannot hold at least {min_samples} of only {used} samples each; write {instead}")
