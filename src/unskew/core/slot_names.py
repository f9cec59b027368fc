"""The questions of a round, in order: one a slot. Nothing here needs torch."""

from __future__ import annotations

SLOTS = {
    "prepare": "what data does each client train on?",
    "select": "who takes part this round?",
    "tune": "with which local settings?",
    "schedule": "how does a model travel through clients in a round?",
    "objective": "what does a client minimise?",
    "aggregate": "how do updates become the next model?",
    "calibrate": "what is done to a copy of the model before it is judged?",
}
DECIDES = ("select", "schedule", "aggregate")
