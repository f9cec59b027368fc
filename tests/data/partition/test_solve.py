"""From a wanted EMD, or a wanted sparsity and scarcity, to parameters."""

from __future__ import annotations

import numpy as np
import pytest

from unskew.data.partition import (
    FAMILIES,
    LimitLabels,
    expected_emd,
    partition,
    reach,
    solutions,
    solve_scarcity,
)
from unskew.data.partition.expected import ClassPool, Expected, expected_on
from unskew.data.partition.family import Family
from unskew.errors import InputError
from unskew.metrics import skew

BALANCED = np.repeat(np.arange(10), 5000)
UNEVEN = np.repeat(np.arange(10), [9000, 1500, 4000, 5000, 5000, 5500, 3000, 7000, 4500, 5500])


def test_every_solution_of_an_emd_is_listed() -> None:
    """Thesis table 4.3 for 1.4: ll(1, 0.78), ll(2, 0.88), ll(3, 1.00); and those of the other families."""
    found = dict(solutions(1.4, 10, 20))
    assert list(found)[:3] == [
        "limit_labels(t=1, f=0.7778)",
        "limit_labels(t=2, f=0.875)",
        "limit_labels(t=3, f=1.0)",
    ]
    assert {"q(q=0.8)", "limit_labels_q(t=2, q=0.9)", "emd(target=1.4)", "labels(q=3)"} <= set(found)
    assert {name.split("(")[0] for name in found} >= {"dirichlet", "dirichlet_client"}
    for expression, emd in found.items():
        assert emd == pytest.approx(1.4, abs=1e-3)
        assert expected_emd(expression, 10, 20) == pytest.approx(emd)


def test_solutions_of_1_6_are_the_two_of_the_thesis() -> None:
    """Section 3.4.2: ll(1, 0.89) and ll(2, 1.0)."""
    found = [name for name, _ in solutions(1.6, 10) if name.startswith("limit_labels(")]
    assert found == ["limit_labels(t=1, f=0.8889)", "limit_labels(t=2, f=1.0)"]


def test_the_emds_of_related_work_are_those_of_table_3_1() -> None:
    """As printed, to one digit; but for ll(3), which is 1.4 by eq. 3.6c (printed 1.2), and M = 62 where said."""
    table = [("q(0.5)", 10, 0.8), ("limit_labels(2)", 10, 1.6), ("limit_labels(5)", 10, 1.0),
             ("limit_labels(2, 0.2)", 10, 0.3), ("limit_labels(2, 0.6)", 10, 1.0), ("limit_labels(2, 0.8)", 10, 1.3),
             ("limit_labels(2)", 62, 1.9), ("limit_labels(2, 0.9)", 62, 1.7), ("limit_labels(1)", 10, 1.8),
             ("limit_labels(20)", 100, 1.6)]  # fmt: skip
    for expression, classes, printed in table:
        assert expected_emd(expression, classes, 100) == pytest.approx(printed, abs=0.05)
    assert expected_emd("dirichlet(0.5)", 10, 10) == pytest.approx(0.9, abs=0.05)
    assert expected_emd("dirichlet(0.1)", 10, 16) == pytest.approx(1.4, abs=0.07)


@pytest.mark.parametrize("target", [0.5, 1.0, 1.4])
@pytest.mark.parametrize("labels", [BALANCED, UNEVEN], ids=["balanced", "uneven"])
@pytest.mark.parametrize(
    "family",
    ["limit_labels", "limit_labels(2)", "q", "limit_labels_q", "dirichlet", "dirichlet_client", "emd"],
)
def test_a_family_asked_for_an_emd_has_it_on_the_data(family: str, labels: np.ndarray, target: float) -> None:
    """Also on unequal classes and 33 clients, where the closed forms no longer hold."""
    part = partition(labels, family, 33, seed=1, emd=target)
    assert part.record["emd"] == pytest.approx(target, abs=0.02)
    assert part.record["asked_emd"] == target
    assert part.record["expression"].startswith(family.split("(")[0])


def test_closed_forms_are_taken_as_they_are_where_they_hold() -> None:
    assert partition(BALANCED, "limit_labels(2)", 20, emd=1.4).record["expression"] == (
        "limit_labels(t=2, f=0.875, at_least=0)"
    )
    assert partition(BALANCED, LimitLabels(2, at_least=1), 20, emd=1.2).record["expression"] == (
        "limit_labels(t=2, f=0.75, at_least=1)"
    )
    assert partition(BALANCED, "q", 20, emd=1.4).record["expression"] == "q(q=0.8)"


def test_several_solutions_take_turns_by_seed() -> None:
    """Thesis section 4.4: seeds such that each setting of EMD 1.4 appears."""
    taken = [partition(BALANCED, "limit_labels", 20, seed, emd=1.4).record["expression"] for seed in range(3)]
    assert [t.split(",")[0] for t in taken] == ["limit_labels(t=1", "limit_labels(t=2", "limit_labels(t=3"]


def test_mixed_turns_its_share_to_an_emd() -> None:
    """labels(1) has 1.8 and iid 0, so 1.4 is a share of 7/9 of the 90 clients."""
    part = partition(BALANCED, "mixed(labels(1), iid)", 90, emd=1.4)
    assert (part.counts > 0).sum(axis=1).tolist().count(1) == pytest.approx(70, abs=4)
    assert part.record["emd"] == pytest.approx(1.4, abs=0.02)


def test_reach_says_how_far_a_family_goes() -> None:
    assert reach("limit_labels(3)", 10, 20) == (0.0, pytest.approx(1.4))
    assert reach("limit_labels", 10, 20) == (0.0, pytest.approx(1.8))
    low, high = reach("dirichlet", 10, 20)
    assert (low, high) == (pytest.approx(0, abs=0.002), pytest.approx(1.71, abs=0.01))
    assert high.spread == pytest.approx(0.06, abs=0.02)
    assert reach("mixed(labels(1), emd(0.4))", 10, 20) == (pytest.approx(0.4), pytest.approx(1.8))
    assert reach("emd", 10, 5) == (0.0, pytest.approx(1.6))
    assert reach("iid", 10, 20) == (0.0, 0.0)


@pytest.mark.parametrize("name", sorted(set(FAMILIES) - {"mixed", "by", "quantity", "iid"}))
def test_the_top_of_its_reach_is_reached(name: str) -> None:
    """The highest EMD is one that the family's own solver still solves."""
    high = reach(name, 10, 20)[1]
    found = [emd for expression, emd in solutions(high, 10, 20) if expression.startswith(f"{name}(")]
    assert found
    assert all(emd == pytest.approx(high, abs=0.02) for emd in found)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda: partition(BALANCED, "dirichlet", 20, emd=1.9),
            "dirichlet cannot reach EMD 1.9 on these labels: with 20 clients it is 0.05052 to 1.72",
        ),
        (
            lambda: partition(BALANCED, "limit_labels(3)", 20, emd=1.5),
            "limit_labels(3) cannot reach EMD 1.5 on these labels: with 20 clients it is 0 to 1.4",
        ),
        (
            lambda: partition(BALANCED, "dirichlet(0.1)", 20, emd=1.4),
            "dirichlet(0.1) already fixes its skew with alpha; leave out alpha or the EMD of 1.4",
        ),
        (
            lambda: partition(BALANCED, "iid", 20, emd=1.4),
            "iid has no parameter that sets its EMD; leave out the EMD of 1.4",
        ),
        (
            lambda: partition(BALANCED, "labels", 20, emd=0.5),
            "no labels(q) has EMD 0.5 on these labels: it goes in steps, and labels(q=7) comes nearest with 0.6; write "
            "limit_labels or emd, which reach every value",
        ),
        (
            lambda: solutions(1.9, 10),
            "no family reaches EMD 1.9: with 10 classes and 20 clients it is 0 to 1.8",
        ),
        (lambda: solutions(2.5, 10), "an EMD lies between 0 and 2, not at 2.5"),
        (
            lambda: partition(BALANCED, "emd(1.9)", 20),
            "emd cannot reach 1.9 on these labels: with 20 clients it is 0 to 1.8",
        ),
        (
            lambda: solve_scarcity(BALANCED, 100, sparsity=0.9, scarcity=0.1),
            "no dirichlet split of these labels over 100 clients has scarcity 0.1 and sparsity 0.9; with that "
            "scarcity its sparsity is 0.00 to 0.55",
        ),
        (
            lambda: solve_scarcity(BALANCED[::100], 100, sparsity=0.5, scarcity=0.1),
            "100 clients with all 500 samples are scarcer than 0.1 at any skew; take fewer clients or a higher "
            "scarcity",
        ),
    ],
)
def test_what_cannot_be_reached_is_refused_with_the_range(call, sentence: str) -> None:
    with pytest.raises(InputError) as refused:
        call()
    assert str(refused.value) == sentence


def test_an_emd_below_what_few_samples_allow_is_refused_with_what_they_allow() -> None:
    """Ten samples over ten classes can never look alike in clients of two or three."""
    with pytest.raises(
        InputError,
        match=r"^dirichlet cannot reach EMD 0.1 on these labels: with 200 clients it is 1\.\d+ to 1\.\d+$",
    ):
        partition(BALANCED[::100], "dirichlet", 200, emd=0.1)


@pytest.mark.parametrize(("sparsity", "scarcity"), [(0.61, 0.38), (0.72, 0.85), (0.4, 0.5), (0.2, 0.9)])
def test_a_wanted_sparsity_and_scarcity_are_found(sparsity: float, scarcity: float) -> None:
    """The expectation is met exactly and draws scatter around it."""
    found = solve_scarcity(BALANCED, 100, sparsity=sparsity, scarcity=scarcity, below=True)
    assert (found.sparsity, found.scarcity) == (
        pytest.approx(sparsity, abs=0.002),
        pytest.approx(scarcity, abs=0.002),
    )
    drawn = [
        skew(
            partition(
                BALANCED, f"dirichlet({found.alpha})", 100, seed, fraction=found.fraction, min_samples=0
            ).counts
        )
        for seed in range(20)
    ]
    assert np.mean([d.sparsity for d in drawn]) == pytest.approx(sparsity, abs=0.01)
    assert np.mean([d.scarcity["below"] for d in drawn]) == pytest.approx(scarcity, abs=0.03)


def test_sems_own_setting_is_found_back() -> None:
    """Table II, U = 20%, alpha = 0.1: the recipe's 0.627 and 0.379 lead back to 0.1 and 0.2."""
    found = solve_scarcity(BALANCED, 100, sparsity=0.6268, scarcity=0.3793, below=True)
    assert found.alpha == pytest.approx(0.1, rel=0.01)
    assert found.fraction == pytest.approx(0.2, rel=0.01)


def test_more_classes_than_anyone_can_list_are_refused() -> None:
    """A million classes have a million settings, and would never end."""
    with pytest.raises(InputError, match=r"^settings are listed for at most 1000 classes, not 1000000; "):
        solutions(1.0, 1_000_000)


def test_many_classes_take_few_members_a_class(monkeypatch: pytest.MonkeyPatch) -> None:
    """About two members a class are asked for their EMD, by limit_labels and limit_labels_q.

    The shards of a client are drawn in numbers of ways that have thousands of digits.
    """
    asked = []

    def counted(member: Family, pool: ClassPool) -> Expected:
        asked.append(member)
        return expected_on(member, pool)

    monkeypatch.setattr("unskew.data.partition.solve.expected_on", counted)
    assert len(solutions(1.0, 1000)) > 1000
    assert len(asked) < 2.2 * 1000
    # h has the mean 1000 and, nearly normal, the deviation 29.24: EMD = 10 x 29.24 x sqrt(2/pi) / 10,000
    assert expected_emd("shards(10000)", 10, 20) == pytest.approx(0.02333, abs=2e-5)
