"""The questions of a round, in order: one a slot; and words that parts declare. Nothing here needs torch."""

from __future__ import annotations

SLOTS = {
    "prepare": "what data does each client train on?",
    "select": "who takes part this round?",
    "tune": "with which local settings?",
    "schedule": "how does a model travel through clients in a round?",
    "objective": "what does a client minimise?",
    "upload": "in which form does an update leave the client?",
    "aggregate": "how do updates become one change?",
    "advance": "how far does the server step along it?",
    "calibrate": "what is done to a copy of the model before it is judged?",
}
USUAL = {"select": "uniform", "schedule": "plain", "aggregate": "fedavg", "advance": "server_sgd"}
"""What the slots that decide hold where neither an expression nor a part of it says otherwise."""

DECIDES = tuple(USUAL)

LABEL_COUNTS = "label counts"
"""What a client discloses where a part needs to know how many samples of each class it holds."""
