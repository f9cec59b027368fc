"""What clients may be asked to disclose, in a few words that a policy is written with.

Parts say in a phrase what leaves a client beyond a model update (``unskew methods``). A policy allows kinds of
disclosure, each by the words that such phrases have in common; a phrase that no kind covers, of a part of one's own, is
allowed by itself, as it is written, at a site that runs code of a package of one's own.
"""

from __future__ import annotations

import re

from unskew.core.slot_names import LABEL_COUNTS
from unskew.errors import InputError

RAW_SAMPLES, AVERAGES, FEATURES, ACCURACIES = "raw samples", "averages", "features", "accuracies"
HALF_TRAINED, CONTROL_VARIATES = "half-trained models", "control variates"

KINDS = {
    LABEL_COUNTS: (r"label counts", r"how many samples"),
    FEATURES: (r"features",),
    AVERAGES: (r"averages",),
    RAW_SAMPLES: (r"raw samples",),
    ACCURACIES: (r"accurac(y|ies)", r"loss"),
    HALF_TRAINED: (r"half-trained models?",),
    CONTROL_VARIATES: (r"control variates?",),
}
"""Kind of disclosure -> what the phrases of parts that disclose it say."""

MEANINGS = {
    LABEL_COUNTS: "how many samples of each class each client has",
    FEATURES: "what layers of a model make of samples, or their means and covariances",
    AVERAGES: "means over several samples, and of their labels",
    RAW_SAMPLES: "samples as they are, to the coordinator, and through it to other sites",
    ACCURACIES: "how well a model does on its samples, by class; losses",
    HALF_TRAINED: "a model to another client before its training has ended",
    CONTROL_VARIATES: "what SCAFFOLD sends beside a model, of the same size",
}
"""What a site can allow."""


def kinds_of(phrase: str) -> list[str]:
    """The kinds of disclosure that a phrase speaks of: none where a part has words of its own."""
    said = phrase.lower()
    return [kind for kind, words in KINDS.items() if any(re.search(rf"\b{word}\b", said) for word in words)]


def consent_words(phrase: str) -> list[str]:
    """What a policy must allow for a part that discloses this: its kinds, or the phrase itself."""
    return kinds_of(phrase) or [phrase]


def read_allowed(text: str, packages: bool = False) -> frozenset[str]:
    """The kinds that ``label counts, features`` allows; words that nobody could ask for are refused.

    ``packages``: parts of one's own may run there, so that a phrase of theirs may be meant.
    """
    words = [" ".join(word.split()) for word in text.split(",")]
    return frozenset(_known(word, packages) for word in words if word)


def _known(word: str, packages: bool) -> str:
    if word.lower() in MEANINGS:
        return word.lower()
    if packages and not kinds_of(word) and len(word.split()) > 2:
        return word  # the phrase of a part of one's own
    own = ", or the whole phrase of a part of your own" if packages else ""
    raise InputError(f"a site cannot allow {word!r}; write one of {', '.join(MEANINGS)}{own}")
