"""Papers' systems and bounds as sums of parts. A new one is one line."""

from __future__ import annotations

PRESETS: dict[str, tuple[str, str]] = {
    "centralized": (
        "pooled+full",
        "All data in one place with a cohort's budget of sample-steps: the upper bound.",
    ),
    "local_only": (
        "alone",
        "Every client trains for itself, as often as it would in a federation, and sends nothing: the lower bound.",
    ),
    "seol_kim": (
        "kld+oversample+dynamic",
        "Seol & Kim's system: even cohorts, rare classes repeated, batches and rates by the data in use.",
    ),
    "2p_fedaug": (
        "phase_shift(2)+fedaug(0.8)",
        "The thesis's combination, chapter 6: two phases on data augmented to EMD 0.8.",
    ),
}
"""Name -> (expression, what it is)."""
