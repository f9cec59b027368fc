"""What is said of parts without importing them is what they are."""

from __future__ import annotations

import pytest

from unskew.core.method import Method
from unskew.core.slot_names import LABEL_COUNTS
from unskew.parts import PARTS, PRESETS
from unskew.parts.catalogue import disclosures, entry_of_class, parts, presets


def test_every_part_is_listed_in_the_order_of_its_slot():
    """As the slots' folders list them, and no other."""
    assert list(parts()) == list(PARTS)


@pytest.mark.parametrize("name", PARTS)
def test_what_is_read_of_a_part_is_what_its_class_says(name):
    """Slot, docstring, paper, disclosures, and every parameter with type and default."""
    assert parts()[name] == entry_of_class(PARTS[name], name)


@pytest.mark.parametrize("name", PRESETS)
def test_what_is_said_of_a_preset_is_what_its_method_says(name):
    """Its parts' papers and disclosures, in the order of the slots."""
    method = Method.parse(name)
    assert presets()[name].discloses == method.discloses
    assert presets()[name].paper == "; ".join(dict.fromkeys(p.paper for p in method.parts if p.paper))


def test_whoever_needs_label_counts_says_so():
    """DACA and kld always, sem when it pairs by them; no part needs what it does not disclose."""
    needing = {name for name in PARTS if _default(name) is not None and _default(name).needs_counts}
    assert needing == {"daca", "kld"}
    assert all(LABEL_COUNTS in disclosures()[name] for name in needing)
    sem = Method.parse("sem(pairing=emd)").schedule
    assert sem.needs_counts
    assert LABEL_COUNTS in sem.discloses


def _default(name):
    try:
        return PARTS[name]()
    except TypeError:
        return None
