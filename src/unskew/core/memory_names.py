"""Names under which a run itself remembers things, at the server or at clients. No part may have one of them."""

from __future__ import annotations

LATE = "late"
"""At the server: updates that come a round late (``unskew.core.faults``)."""

TRAINED = "trained"
"""At the server: who has ever trained (``unskew.core.ledger``)."""

DIVERGENCE = "divergence"
"""At the server: the model that is trained centrally, to measure how far the global one is from it."""

STATISTICS = "batch_norm"
"""At a client: its own batch statistics, where the policy is ``local``."""

OWN_MODEL = "own_model"
"""At a client: the model that it trains for itself (``unskew.parts.schedule.alone``); at the server: what was found of
these models."""

KEPT_MODEL = "kept_model"
"""At a client far away: the model that it will upload later (``unskew.parts.schedule.phase_shift``). Engines on this
machine leave such models with the schedule."""

RESERVED = (LATE, TRAINED, DIVERGENCE, STATISTICS, OWN_MODEL, KEPT_MODEL)
