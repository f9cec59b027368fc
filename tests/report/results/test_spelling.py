"""How a report spells methods is how methods spell themselves."""

from __future__ import annotations

import pytest

from unskew.core.method import Method
from unskew.errors import InputError
from unskew.parts import PARTS, PRESETS
from unskew.report.results.spelling import canonical, declared_disclosures

BY_THEMSELVES = [
    written
    for part in PARTS.values()
    for written in (part.name, part.neutral, part.example)
    if written is not None
]
TOGETHER = [
    "scaffold+sem",
    "sem + scaffold",
    "fedprox(0.01)",
    "fedprox(mu=0.1, adaptive=true)+sem(pairing=emd)",
    "scaffold+fedavg(uniform=true)",
    "scaffold+fedavg(uniform=false)",
    "scaffold+fedavg",
    "fedavg+uniform+plain+server_sgd",
    "feddyn+fednova",
    "flea(conv1, share=0.2)+fedavg",
    "oversample+fedaug(0.8)+kld",
    "fedaug(0.8)+oversample+full",
    "topk(0.1)+quantize(8)",
    "central_sharing(beta=0)",
]
REFUSED = [
    "fedprox+fedprox",
    "sem+phase_shift(2)",
    "centralized(1)",
    "nothing_such(2)",
    "fedprox(nu=1)",
    "fedprox(mu=word)",
    "fedprox(",
    "fedprox(1, 2, 3, 4, 5, 6)",
    "mine.parts:Softened",
]


@pytest.mark.parametrize("written", [*BY_THEMSELVES, *PRESETS, *TOGETHER, *REFUSED])
def test_it_is_the_spelling_and_the_disclosure_of_the_method_itself(written: str) -> None:
    """For every part at its defaults and with values, for presets and sums; what is none stays as written."""
    try:
        method = Method.parse(written)
    except InputError:
        assert canonical(written) == written
        assert written not in TOGETHER
    else:
        assert canonical(written) == str(method)
        assert declared_disclosures(written) == method.discloses


@pytest.mark.parametrize("written", REFUSED)
def test_what_a_method_refuses_discloses_nothing_that_is_known(written: str) -> None:
    """Misspelt, of another version, or somebody's own, whose code a report must not import."""
    assert declared_disclosures(written) is None


def test_values_decide_what_is_disclosed() -> None:
    """Where a part says so by a rule."""
    assert declared_disclosures("fedprox(0.1)") == ()
    assert declared_disclosures("fedprox(0.1, adaptive=true)") == (
        "its loss under the global model (fedprox)",
    )


def test_parts_that_contradict_one_another_are_spelt_all_the_same() -> None:
    """Whether they may stand together is asked before a run; another version may have run them."""
    assert canonical("quantize(8)+topk(0.1)") == "quantize(bits=8)+topk(share=0.1)"
