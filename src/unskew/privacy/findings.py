"""What attacks found, in words: for the terminal, the attack's page and a report's disclosure page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from unskew.privacy.quality import likeness, nearly


def findings(record: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """(attack, sentence) for everything that a record holds."""
    if "exposure" in record:
        yield "exposure", _exposure(record["exposure"])
    for told in (record.get("correlation") or {}).get("models", []):
        yield (
            "correlation",
            f"c = {told['mean']:.2f} (sd {told['sd']:.2f} over batches) of {_when(told)}",
        )
    for told in (record.get("reconstruction") or {}).get("results", []):
        yield "reconstruction", _reconstruction(told)
    for told in (record.get("context") or {}).get("results", []):
        yield "context", _context(told)
    if "inversion" in record:
        yield from (("inversion", sentence) for sentence in _inversion(record["inversion"]))


def _exposure(told: dict[str, Any]) -> str:
    if not told["shares"]:
        return "no client was given another's data"
    last = told["epsilon"][-1]
    return f"eps = {last:.1%} of all pairs of {told['clients']:,} clients after round {told['rounds'][-1]}"


def _reconstruction(told: dict[str, Any]) -> str:
    if told["epochs"] == 0:
        return f"{told['view']}: nothing to attack, the sample itself is shared"
    share = told["mse"] / max(told["blind"]["mse"], 1e-12)
    return (
        f"{_when(told)}: MSE {told['mse']:.4f}, {likeness(told)} on unseen samples; "
        f"{share:.0%} of the error of the mean sample "
        f"(MSE {told['blind']['mse']:.4f})"
    )


def _context(told: dict[str, Any]) -> str:
    first, last = told["points"][0], told["points"][-1]
    reach = told["samples_for_90"]
    said = f"90% accuracy from {reach:,} examples" if reach else "90% accuracy was not reached"
    return (
        f"{_when(told)}: {said} ({first['accuracy']:.0%} from {first['samples']:,}, "
        f"{last['accuracy']:.0%} from {last['samples']:,})"
    )


def _inversion(told: dict[str, Any]) -> Iterator[str]:
    one, whole, blind = told["one_step_one_sample"], told["whole_visit"], told["blind"]
    yield (
        f"one step on one sample: {likeness(one)} (best {nearly(one['best_psnr'])}) over {one['clients']} clients, "
        f"{_read(one)}; the mean sample gives {likeness(blind)}"
    )
    guess = whole.get("blind")  # attacks before this was measured have none
    yield (
        f"a whole visit on {whole['samples']} samples: {likeness(whole)} for {whole['searched']} of them, "
        f"{_read(whole)}" + (f"; {guess['guess']} gives {likeness(guess)}" if guess else "")
    )


def _read(told: dict[str, Any]) -> str:
    """How many labels an update told, beside how many a guess would have."""
    chance = f" (by chance {told['labels_by_chance']:.0%})" if "labels_by_chance" in told else ""
    return f"{told['labels_found']:.0%} of labels read{chance}"


def _when(told: dict[str, Any]) -> str:
    """What is seen, and of which model where that matters."""
    return (
        f"{told['view']} after round {told['round']}" if told["view"].startswith("features") else told["view"]
    )
