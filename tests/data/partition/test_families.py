"""Every family against its paper: closed forms of the EMD, SEM's sparsities, and what each promises."""

from __future__ import annotations

import numpy as np
import pytest

from unskew.data.dataset import Dataset
from unskew.data.partition import PRESETS, build_family, expected_emd, partition
from unskew.data.partition.scarcity import expected_scarcity, expected_sparsity
from unskew.metrics import skew

BALANCED = np.repeat(np.arange(10), 5000)
MNIST = np.repeat(np.arange(10), [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949])
CIFAR100 = np.repeat(np.arange(100), 500)


def emds(expression: str, clients: int, seeds: int = 5) -> np.ndarray:
    return np.array([partition(BALANCED, expression, clients, seed).record["emd"] for seed in range(seeds)])


CLOSED_FORMS = [
    # 2f - 2tf/M (thesis eq. 3.6b)
    ("limit_labels(1, 0.78)", 1.404),
    ("limit_labels(2, 0.88)", 1.408),
    ("limit_labels(3)", 1.4),
    ("limit_labels(2, f=0.2)", 0.32),
    ("limit_labels(5)", 1.0),
    ("limit_labels(10)", 0.0),
    # 2q - 2/M (eq. 3.8)
    ("q(0.2)", 0.2),
    ("q(0.5)", 0.8),
    ("q(1.0)", 1.8),
    # 2q - 2t/M (eq. 3.13)
    ("limit_labels_q(2, 0.4)", 0.4),
    ("limit_labels_q(3, 0.9)", 1.2),
    ("limit_labels_q(3, 1.0)", 1.4),
    # what is asked for (eq. 3.9)
    ("emd(0.3)", 0.3),
    ("emd(1.4)", 1.4),
    ("emd(1.8)", 1.8),
    # 2 - 2q/M
    ("labels(1)", 1.8),
    ("labels(3)", 1.4),
]


@pytest.mark.parametrize("clients", [10, 20, 37])
@pytest.mark.parametrize(("expression", "closed"), CLOSED_FORMS)
def test_the_measured_emd_is_the_closed_form(expression: str, closed: float, clients: int) -> None:
    """On 50,000 balanced labels, over seeds, within max(0.005, 3 standard errors); 37 is no multiple of 10."""
    found = emds(expression, clients)
    error = found.std(ddof=1) / np.sqrt(len(found))
    assert found.mean() == pytest.approx(closed, abs=max(0.005, 3 * error))
    assert expected_emd(expression, 10, clients) == pytest.approx(closed)


def test_dirichlet_has_the_emd_of_the_thesis() -> None:
    """Section 3.2.3: Dir_10(0.5) with ten classes has EMD 0.86, standard deviation 0.059."""
    found = emds("dirichlet(0.5)", 10, seeds=40)
    assert found.mean() == pytest.approx(0.86, abs=0.02)
    assert found.std() == pytest.approx(0.059, abs=0.025)


def test_the_expected_emd_of_dirichlet_falls_from_its_limit_to_zero() -> None:
    """As alpha -> 0 whole classes land at random clients: 2 - 2/M - 2(M-1)/(MK) = 1.71 for 20 clients."""
    found = [expected_emd(f"dirichlet({a})", 10, 20) for a in (1e-6, 1e-2, 1.0, 1e2, 1e6)]
    assert found == sorted(found, reverse=True)
    assert found[0] == pytest.approx(1.71, abs=0.01)
    assert found[-1] == pytest.approx(0, abs=0.005)


def test_dirichlet_client_has_the_mean_deviation_of_a_beta() -> None:
    """alpha = 1, M = 2: shares are uniform on 0..1, so EMD = 2 E|u - 1/2| = 1/2, but for a few refused wishes."""
    family = build_family("dirichlet_client(1)")
    assert expected_emd(family, 2, 1000) == pytest.approx(0.5, abs=0.01)
    two = np.repeat([0, 1], 100_000)
    assert partition(two, family, 1000).record["emd"] == pytest.approx(0.5, abs=0.03)


def test_seol_and_kims_clients_hold_about_six_classes() -> None:
    """Section 5.2, alpha = 0.2: six on average. We find seven; a concentration of 0.2/M would leave three."""
    held, fewer = (
        (partition(BALANCED, f"dirichlet_client({alpha})", 100).counts > 0).sum(axis=1).mean()
        for alpha in (0.2, 0.02)
    )
    assert held == pytest.approx(7.1, abs=0.4)
    assert fewer == pytest.approx(3.1, abs=0.5)


SEM = [  # labels, clients, U, alpha, sparsity as printed in tables I to III
    (MNIST, 100, 0.2, 0.1, 0.63),
    (MNIST, 100, 0.2, 0.3, 0.33),
    (MNIST, 100, 0.2, 0.5, 0.20),
    (BALANCED, 100, 0.2, 0.1, 0.61),
    (BALANCED, 100, 0.2, 0.3, 0.38),
    (BALANCED, 100, 0.2, 0.5, 0.22),
    (CIFAR100, 100, 0.2, 0.1, 0.78),
    (CIFAR100, 100, 0.2, 0.3, 0.64),
    (CIFAR100, 100, 0.2, 0.5, 0.58),
    (BALANCED, 100, 0.05, 0.1, 0.72),
    (BALANCED, 100, 0.10, 0.1, 0.67),
    (BALANCED, 100, 0.15, 0.1, 0.63),
    (BALANCED, 100, 1.0, 0.1, 0.54),
    (BALANCED, 500, 0.8, 0.5, 0.23),
    (BALANCED, 1000, 0.8, 0.5, 0.34),
    (BALANCED, 1500, 0.8, 0.5, 0.40),
    (BALANCED, 2000, 0.8, 0.5, 0.45),
]


@pytest.mark.parametrize(("labels", "clients", "used", "alpha", "printed"), SEM)
def test_sparsity_is_that_of_sem(
    labels: np.ndarray, clients: int, used: float, alpha: float, printed: float
) -> None:
    """Within 0.04 on average over seeds, and equal to the exact expectation."""
    found = np.mean(
        [
            skew(partition(labels, f"dirichlet({alpha})", clients, seed, fraction=used).counts).sparsity
            for seed in range(6)
        ]
    )
    assert found == pytest.approx(printed, abs=0.04)
    assert found == pytest.approx(expected_sparsity(np.bincount(labels) * used, clients, alpha), abs=0.015)


@pytest.mark.parametrize(
    ("clients", "used", "alpha", "printed"),
    [
        (100, 0.05, 0.1, 0.85),
        (100, 0.10, 0.1, 0.58),
        (100, 0.15, 0.1, 0.45),
        (100, 1.0, 0.1, 0.08),
        (500, 0.8, 0.5, 0.21),
        (1000, 0.8, 0.5, 0.74),
        (1500, 0.8, 0.5, 0.94),
        (2000, 0.8, 0.5, 0.99),
    ],
)
def test_scarcity_is_that_of_sem(clients: int, used: float, alpha: float, printed: float) -> None:
    """Counted below 50, as SEM's code does; one draw varies by up to 0.05. (Table II's 0.30 at U = 20% is
    left out: the recipe gives 0.38 on average.)"""
    found = np.mean(
        [
            skew(partition(BALANCED, f"dirichlet({alpha})", clients, s, fraction=used).counts).scarcity[
                "below"
            ]
            for s in range(6)
        ]
    )
    assert found == pytest.approx(printed, abs=0.06)
    assert found == pytest.approx(
        expected_scarcity(np.bincount(BALANCED) * used, clients, alpha, 49), abs=0.03
    )


def test_limit_labels_gives_clients_their_classes_in_equal_shares() -> None:
    """t = 2, f = 0.9, 20 clients: of 5000 samples a class, 500 go 25 to each client, 4500 to 4 owners."""
    counts = partition(BALANCED, "limit_labels(2, f=0.9)", 20).counts
    assert sorted(set(counts.ravel().tolist())) == [25, 1150]
    assert ((counts == 1150).sum(axis=1) == 2).all()
    assert ((counts == 1150).sum(axis=0) == 4).all()


def test_clients_own_many_different_pairs_of_classes() -> None:
    """There are 45 pairs; dealing the classes in order would give only 5 of them."""
    counts = partition(BALANCED, "limit_labels(2)", 200).counts
    assert len({tuple(np.flatnonzero(row)) for row in counts}) > 35


def test_at_least_gives_every_client_a_sample_of_every_class() -> None:
    """Thesis section 4.4, for f = 1: each class loses 20 of its samples to the clients that do not own it."""
    counts = partition(BALANCED, "limit_labels(3, at_least=1)", 20).counts
    assert counts.min() == 1
    assert ((counts > 1).sum(axis=1) == 3).all()


@pytest.mark.parametrize("q", [1, 2, 3, 7])
def test_labels_gives_q_classes_and_equal_sizes(q: int) -> None:
    part = partition(BALANCED, f"labels({q})", 100)
    assert ((part.counts > 0).sum(axis=1) == q).all()
    assert part.sizes.max() - part.sizes.min() <= q


def test_labels_gives_large_classes_more_owners() -> None:
    """MNIST: sizes stay within two percent of 600 although its largest class has 24% more than its smallest."""
    sizes = partition(MNIST, "labels(3)", 100).sizes
    assert sizes.min() > 585
    assert sizes.max() < 615


def test_shards_are_pieces_of_the_sorted_samples() -> None:
    """Two shards of 250 a client, none over a class border: one class of 500 or two of 250."""
    counts = partition(BALANCED, "shards(2)", 100).counts
    assert set(counts[counts > 0].tolist()) == {250, 500}
    assert expected_emd("shards(2)", 10, 100) == pytest.approx(emds("shards(2)", 100).mean(), abs=0.01)


def test_dirichlet_client_has_equal_sizes_although_pools_run_out() -> None:
    for alpha in (1e-6, 0.1, 1e6):
        sizes = partition(MNIST, f"dirichlet_client({alpha})", 77).sizes
        assert sizes.max() - sizes.min() <= 1


def test_quantity_skews_sizes_and_not_labels() -> None:
    for expression, gini in (("quantity(0.5)", 0.3), ("quantity(1.2, law=power)", 0.5)):
        found = skew(partition(BALANCED, expression, 20).counts)
        assert found.gini > gini
        assert found.emd < 0.1
    assert skew(partition(BALANCED, "quantity(1e6)", 20).counts).gini < 0.01


def test_cap_keeps_dirichlet_clients_more_equal() -> None:
    for seed in range(5):
        free, capped = (
            skew(partition(BALANCED, f"dirichlet(0.1, cap={cap})", 50, seed).counts).gini
            for cap in ("false", "true")
        )
        assert capped < free


def test_mixed_deals_to_two_groups() -> None:
    """DACA: 95 users hold one class, 5 hold all ten, and all hold about 500."""
    part = partition(BALANCED, "daca")
    held = (part.counts > 0).sum(axis=1)
    assert held.tolist() == [1] * 95 + [10] * 5
    assert part.sizes.min() > 450
    assert part.sizes.max() < 560


def test_presets_bring_their_papers_number_of_clients() -> None:
    for name, preset in PRESETS.items():
        assert partition(BALANCED, name).clients == preset.clients
    assert partition(BALANCED, "seol_kim_2", 20).clients == 20
    second = partition(BALANCED, "seol_kim_2").counts
    assert ((second > 0).sum(axis=1) == 1)[:180].all()
    assert (second > 0).sum(axis=1)[180:].mean() > 4


def test_by_follows_a_column() -> None:
    """Values in sorted order; nothing is moved and nothing is drawn."""
    people = np.array(["eve", "ada", "bob", "ada", "eve"])
    data = Dataset(
        "five", np.zeros((5, 1)), np.array([0, 1, 0, 1, 1]), np.zeros((1, 1)), np.array([0]), ("a", "b"),
        kind="vector", columns={"person": people},
    )  # fmt: skip
    part = partition(data, "by(person)")
    assert [part.samples(k).tolist() for k in range(3)] == [[1, 3], [2], [0, 4]]
    assert part.counts.tolist() == [[0, 2], [1, 0], [1, 1]]
    assert part.federation(data).samples(2).tolist() == [0, 4]


def test_fewer_clients_than_classes_own_several() -> None:
    """Three clients cannot hold ten classes one each; every class still has one owner, and the record says so."""
    part = partition(BALANCED, "limit_labels(1)", 3)
    assert ((part.counts > 0).sum(axis=0) == 1).all()
    assert part.record["notes"] == [
        "3 clients with 1 of the classes each cannot hold all 10: every class has one owner and clients own more"
    ]


def test_the_emd_family_meets_its_target_on_unequal_classes_and_any_clients() -> None:
    uneven = np.repeat(np.arange(7), [4000, 900, 2500, 2500, 6000, 1500, 3000])
    for clients in (4, 7, 11, 30):
        assert partition(uneven, "emd(0.9)", clients).record["emd"] == pytest.approx(0.9, abs=0.005)


def test_niid_labels_goes_round_and_deals_classes_evenly() -> None:
    """NIID-Bench's #C = k: client i has class i mod 10, k classes in all, as much of each as its other owners."""
    counts = partition(BALANCED, "niid_labels(3)", 20, 4).counts
    assert ((counts > 0).sum(axis=1) == 3).all()
    assert all(counts[i, i % 10] > 0 for i in range(20))
    for column in counts.T:
        held = column[column > 0]
        assert held.sum() == 5000
        assert held.max() - held.min() <= 1
    single = partition(BALANCED, "niid_1", 10, 0).counts
    assert np.array_equal(single, np.eye(10, dtype=int) * 5000)


def test_niid_labels_of_fewer_clients_than_classes_leaves_no_sample_out() -> None:
    """Client y mod K holds what nobody took, and the record says so."""
    found = partition(BALANCED, "niid_labels(1)", 3, 0)
    assert found.counts.sum() == len(BALANCED)
    assert found.counts[2].nonzero()[0].tolist() == [2, 5, 8]
    assert any("nobody took class 9, so client 0 holds it too" in note for note in found.record["notes"])


def test_the_dirichlet_split_of_niid_bench_has_its_cap_and_its_minimum() -> None:
    """Nobody of ten gets more of a class once it holds a tenth of all, and everybody holds at least ten samples."""
    for seed in range(5):
        sizes = partition(BALANCED, "niid_dir", seed=seed, min_samples=10).counts.sum(axis=1)
        assert len(sizes) == 10
        assert sizes.min() >= 10
