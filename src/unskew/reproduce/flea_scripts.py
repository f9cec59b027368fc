"""What FLea's authors' scripts do otherwise than the paper says, to every method: one thing changed at a time.

``unskew reproduce flea-scripts``. They make a new Adam in every step, so that a step is the rate times the gradient's
sign, and they let the rate fall faster. The runs lie in the exhibit's folder, and one that was stopped goes on.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from unskew.errors import InputError
from unskew.reproduce.exhibit import HERE
from unskew.reproduce.flea_decor import STEP, Change, changed, new_every_step
from unskew.reproduce.making import Row, Wanted
from unskew.reproduce.running import QUICK
from unskew.runs.ended import Run
from unskew.runs.experiment_file import read_toml
from unskew.runs.folder import read_folder
from unskew.runs.running import resume, run
from unskew.runs.spec import Spec
from unskew.runs.sweep import folder_name

CHANGES: dict[str, tuple[list[Change], dict[str, Any]]] = {
    "nothing": ([], {}),
    "a new Adam in every step": ([(STEP, new_every_step)], {}),
    "their rate": ([], {"decay": "linear(0.1, over=51)"}),
}


def make(wanted: Wanted) -> list[Row]:
    """Of every setting, change and method: the best round and the mean of the last ten, means over seeds."""
    told: list[Row] = []
    for said, setting in wanted.options.items():
        for change in setting["changes"]:
            for method in setting["methods"][:1] if wanted.quick else setting["methods"]:
                found = []
                for seed in (0,) if wanted.quick else wanted.seeds or (0,):
                    ran = _run(wanted, said, change, method, seed)
                    accuracy = [100 * line["global_test_accuracy"] for line in ran.folder.lines]
                    found.append((max(accuracy), np.mean(accuracy[-10:])))
                best, end = np.mean(found, axis=0).tolist()
                numbers = {"best round": f"{best:.1f}", "mean of the last ten": f"{end:.1f}"}
                told.append(
                    {
                        "setting": said,
                        "change": change,
                        "method": f"`{method}`",
                        **numbers,
                        "seeds": len(found),
                    }
                )
    return told


def _run(wanted: Wanted, said: str, change: str, method: str, seed: int) -> Run:
    """One run, in this process so that a change of Adam reaches it; one that is there goes on, or is read."""
    changes, settings = CHANGES[change]
    setting = wanted.options[said]
    place = wanted.runs / Path(folder_name(said), folder_name(f"change={change},method={method},seed={seed}"))
    given: Any = {
        **read_toml(HERE / "recipes" / f"{setting['recipe']}.toml")[0],
        **setting["settings"],
        **settings,
    }
    given |= {"rounds": wanted.rounds} if wanted.rounds else {}
    given |= QUICK if wanted.quick else {"engine": "fast", "workers": 1}
    with changed(changes):
        if (place / "spec.json").exists():
            had, rounds = read_folder(place)[1].rounds, Spec.of(given).rounds
            if had != rounds:
                raise InputError(f"{place} was run with rounds = {had}, not {rounds}; choose another --out")
            return resume(place, data_folder=wanted.data_folder, progress=False, watch=wanted.watch)
        given |= {"method": method, "seed": seed, "data_folder": wanted.data_folder}
        return run(out=place, progress=False, watch=wanted.watch, **given)
