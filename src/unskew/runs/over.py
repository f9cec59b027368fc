"""Whether a run has nothing left to do, by all that a resume checks, told without torch."""

from __future__ import annotations

from unskew.core.checkpoint_files import saved_round
from unskew.runs.loading import is_saved
from unskew.runs.rehearsal import Rehearsed, adds_weights, draw, must_be_made
from unskew.runs.resuming import Resumption


def is_over(asked: Resumption) -> bool:
    """Whether the run is whole and can be given back as it is; False also where only torch can tell."""
    spec, about = asked.spec, asked.about
    from_python = any(about.get(name) for name in ("given", "own_model", "own_metrics"))
    if not asked.over or asked.told_anew or from_python or must_be_made(spec) or adds_weights(spec):
        return False
    found = draw(spec)
    data = found.loaded.fingerprint
    if asked.has_data(data) and not _is_whole(asked, found):
        return False  # and what else there is to say of it, the resume will say
    found.check()
    asked.refuse_other_data(data)
    return True


def _is_whole(asked: Resumption, found: Rehearsed) -> bool:
    """Whether the folder holds the model that the run ended with, and who held which samples."""
    saved = saved_round(asked.place / "state", asked.known_rounds(), found.tensors)
    if saved is None or saved < asked.end:
        return False
    return is_saved(found.loaded.partition, asked.place / "partition.npz")
