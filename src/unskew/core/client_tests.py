"""How the model that a run ends with does on every client's own test samples, client by client."""

from __future__ import annotations

from typing import Any

import numpy as np

from unskew.core.engine import RunPlan
from unskew.core.evaluate import calibrate_copy
from unskew.core.evaluate_clients import LISTED, trained_clients
from unskew.core.memory_names import OWN_MODEL
from unskew.core.score import ACCURACIES, judge_clients, spread
from unskew.core.state import State
from unskew.metrics import skew


def list_client_tests(run: RunPlan, state: State) -> dict[str, Any]:
    """For the result: the spread over clients, and where they can be listed each by its name.

    Of each client also how many samples it trains on and is tested by, and how far its labels are from everybody's.
    """
    dealt = run.as_dealt
    tests = dealt.aside.get("test")
    if tests is None:
        return {}  # nobody has any
    if run.job.method.schedule.exchanges:
        model, again = calibrate_copy(run, state.params, state.round)
        run.measuring.trained(ACCURACIES, again)  # the last round's was not kept
        who, shares = judge_clients(run, model)
    else:
        who = trained_clients(run, state)
        shares = state.server[OWN_MODEL]["own"].numpy()[who]
        who, shares = who[~np.isnan(shares)], shares[~np.isnan(shares)]
    if not len(who):
        return {"client_tests": {"clients": 0, "of": dealt.clients}}
    told = spread(shares) | {"of": dealt.clients}
    if len(who) <= LISTED:
        apart = skew(dealt.counts).emd_per_client if dealt.counted else None
        told["each"] = [
            {
                "client": dealt.name_of(int(client)),
                "accuracy": float(share),
                "tested": int(tests[client]),
                "samples": int(dealt.sizes[client]),
                "emd": None if apart is None or not dealt.sizes[client] else float(apart[client]),
            }
            for client, share in zip(who, shares, strict=True)
        ]
    return {"client_tests": told}
