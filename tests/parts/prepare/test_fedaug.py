"""FedAug by hand: the level, the share of unaltered data, what is added where, and the transforms."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from by_hand import holding, viewed
from unskew.augment import FAMILIES, alter
from unskew.core.method import Method
from unskew.data.dataset import Dataset
from unskew.errors import InputError
from unskew.metrics import system_emd
from unskew.parts.prepare import FedAug
from unskew.parts.prepare.fedaug import additions, distances, levels
from unskew.seeds import generator
from unskew.testing.toy_federation import play, ready

SKEWED = holding([[14, 1, 1], [1, 14, 1], [2, 1, 13], [6, 5, 5]])


def equation_5_4(counts, target):
    """L by algorithm 4, sorted decreasing as its loop needs."""
    ordered, classes = sorted(counts, reverse=True), len(counts)
    untouched = 0.0
    for i in range(1, classes):
        k = classes - i
        untouched += ordered[i - 1]
        level = (2 * k * untouched - target * untouched * classes) / (
            2 * k * classes + target * k * classes - 2 * k * k
        )
        if ordered[i] <= level:
            return level
    return level


def limit_labels(t, f, samples=1000, classes=10):
    """The label counts of a client of ll(t, f): eq. 3.5, as real numbers."""
    rare = samples * (1 - f) / classes
    return np.array([samples * f / t + rare] * t + [rare] * (classes - t))


def test_three_classes_by_hand():
    """Counts (14, 1, 1), target 0.8: two classes are raised, s = 14, k = 2, M = 3.

    Eq. 5.4: L = (2 x 2 x 14 - 0.8 x 14 x 3) / (2 x 2 x 3 + 0.8 x 2 x 3 - 2 x 4) = 22.4 / 8.8 = 2.5454.
    Whole numbers: (14, 2, 2) has the EMD 2 (14/18 - 1/3) = 0.889, (14, 3, 3) has 0.733; 0.733 is closer to 0.8.
    """
    counts = np.array([[14, 1, 1]])
    assert levels(counts, 0.8)[0] == pytest.approx(22.4 / 8.8)
    assert equation_5_4([14, 1, 1], 0.8) == pytest.approx(22.4 / 8.8)
    assert additions(counts, 0.8).tolist() == [[0, 2, 2]]


@pytest.mark.parametrize("target", [0.0, 0.4, 0.8])
@pytest.mark.parametrize(("t", "f"), [(1, 0.78), (2, 0.88), (3, 1.0), (2, 0.9)])
def test_the_level_is_that_of_equation_5_4_where_it_applies(t, f, target):
    """Every class left alone holds more than 1/M: bisection and the closed form agree."""
    counts = limit_labels(t, f)[None]
    level = levels(counts, target)[0]
    assert level == pytest.approx(equation_5_4(counts[0], target), rel=1e-9)
    assert distances(np.maximum(counts, level))[0] == pytest.approx(target, abs=1e-9)


def test_where_equation_5_4_misses_the_target_bisection_does_not():
    """Counts (50, 10, 1, 1), target 1: class two is left alone with less than a quarter of the data.

    Eq. 5.4 gives 100/18 = 5.6 for k = 3, below the 10 it would have to reach, and 0 for k = 2: nothing is added,
    and the EMD stays 2 (50/62 - 1/4) = 1.113. It is 1 where 50/N = 3/4, N = 66.67: both rare classes at 3.33.
    """
    counts = np.array([[50, 10, 1, 1]])
    wrong = equation_5_4(counts[0], 1.0)
    assert distances(np.maximum(counts, wrong))[0] == pytest.approx(1.113, abs=1e-3)
    assert levels(counts, 1.0)[0] == pytest.approx(1 + (200 / 3 - 62) / 2)
    assert additions(counts, 1.0).tolist() == [[0, 0, 2, 2]]


@pytest.mark.parametrize("target", [0.0, 0.3, 0.8, 1.1])
def test_the_realised_emd_is_the_target_up_to_whole_samples(target):
    """Dirichlet clients with every class: one sample a class moves the EMD by at most 2 k / n of it."""
    rng = generator(0, "dirichlet")
    counts = np.stack([rng.multinomial(500, rng.dirichlet([0.3] * 10)) + 1 for _ in range(200)])
    able = distances(counts) > target
    found = distances(counts + additions(counts, target))[able]
    assert able.sum() > 50
    assert np.abs(found - target).max() <= 2 * 10 / 510


# eq. 5.9 at EMD 1.4, worked out in FACTS; the thesis prints 0.13/0.39/0.64, 0.24/0.46/0.68 and 0.30/0.50/0.70
TABLE_5_1 = {(1, 0.78): (0.125, 0.374, 0.623), (2, 0.88): (0.221, 0.442, 0.664), (3, 1.0): (0.30, 0.50, 0.70)}


@pytest.mark.parametrize(("sampler", "shares"), TABLE_5_1.items())
def test_the_share_of_unaltered_data_is_that_of_equation_5_9(sampler, shares):
    """N / (N + k (L - L')), with L' the level that the rare classes have already."""
    counts = limit_labels(*sampler, samples=100_000).round().astype(np.int64)[None]
    counts = np.maximum(counts, 1)  # section 4.4: at least one sample of each class
    for target, share in zip((0.0, 0.4, 0.8), shares, strict=True):
        added = additions(counts, target).sum()
        assert counts.sum() / (counts.sum() + added) == pytest.approx(share, abs=6e-4)


def test_only_clients_above_the_target_are_augmented():
    """(6, 5, 5) is at 0.083 already; (14, 1, 1) becomes (14, 3, 3), and (2, 1, 13) becomes (2, 2, 13) at 0.863."""
    grown = viewed(FedAug(0.8), SKEWED)
    assert (grown.sizes - SKEWED.sizes).tolist() == [4, 4, 1, 0]
    assert grown.samples(3).tolist() == SKEWED.samples(3).tolist()
    assert np.abs(distances(grown.counts)[:3] - 0.8).max() < 0.07


def test_originals_stay_and_copies_keep_their_label():
    """A client's list begins with what it held; what was added comes from its own rare classes."""
    grown = viewed(FedAug(0.8), SKEWED)
    for client, one in enumerate(grown.held):
        held, before = grown.samples(client), SKEWED.samples(client)
        assert held[: len(before)].tolist() == before.tolist()
        assert (held[len(before) :] >= len(SKEWED.dataset)).all()
        assert np.array_equal(one.x()[: len(before)], SKEWED.dataset.x[before])
        assert one.pool_size == len(SKEWED.dataset)  # nothing but its own copies was made
    assert grown.counts.tolist()[0] == [14, 3, 3]


def test_epochs_and_weights_count_the_samples_before():
    """Equal compute: the budget is the un-augmented size, and so is what an update weighs."""
    grown = viewed(FedAug(0.8), SKEWED)
    assert grown.budget.tolist() == grown.weigh.tolist() == SKEWED.sizes.tolist()
    spent = [
        [line["sample_steps"] for line in play(Method.parse(m), SKEWED, batch=1, rounds=2).lines]
        for m in ("fedaug", "fedavg")
    ]
    assert spent[0] == spent[1]


def test_who_lacks_a_class_is_left_and_counted():
    """A client without class c cannot fill it; the first line of the log says how many there are."""
    lacking = holding([[14, 1, 1], [9, 1, 0], [0, 0, 7]])
    assert additions(lacking.counts, 0.8).any(1).tolist() == [True, False, False]
    lines = play(Method.parse("fedaug"), lacking).lines
    grown = viewed(FedAug(0.8), lacking)
    assert lines[0]["fedaug"] == {
        "augmented": 4,
        "unaltered_share": pytest.approx(33 / 37),
        "emd": system_emd(grown.counts),
        "left_for_lack_of_a_class": 2,
    }
    assert "fedaug" not in lines[1]


@pytest.mark.parametrize("method", ["fed_data(0.2, budget=own)+fedaug(0.2)", "fedaug(0.2)+oversample"])
def test_beside_other_parts_the_log_counts_its_own_copies_alone(method):
    """Neither samples that were sent, which an epoch may leave out, nor those that are repeated afterwards."""
    before = ready(Method.parse(method), SKEWED).job.roster.counts
    made = additions(before, 0.2).sum()
    told = play(Method.parse(method), SKEWED).lines[0]["fedaug"]
    assert told["augmented"] == made
    assert told["unaltered_share"] == pytest.approx(before.sum() / (before.sum() + made))


def test_copies_made_beside_oversample_are_no_repeats():
    """How much oversample lifts in the next round depends on what it repeated in this one, and on nothing else."""
    plays = [play(Method.parse(m), SKEWED, cohort=4) for m in ("oversample", "oversample+fedaug(0.2)")]
    alone, beside = (p.lines[0]["oversample"] for p in plays)
    assert beside == alone


def test_at_the_datas_own_emd_nothing_is_added():
    """A target at the largest client's EMD makes nothing; a run is FedAvg to the last bit."""
    own = float(distances(SKEWED.counts).max())
    assert all(one.made is None for one in viewed(FedAug(own), SKEWED).held)
    assert play(Method.of(FedAug(own)), SKEWED).hash == play(Method(), SKEWED).hash
    assert play(Method.parse("fedaug(0.4)"), SKEWED).hash != play(Method(), SKEWED).hash


def test_copies_are_redrawn_each_round_or_made_once():
    """Other copies every round, the same number of them; once makes the same copies in all."""
    first, second = (viewed(FedAug(0.8), SKEWED, t).held[0] for t in (0, 1))
    assert len(first) == len(second)
    assert not np.array_equal(first.x(), second.x())
    once = FedAug(0.8, redraw="once")
    before, later = (viewed(once, SKEWED, t).held[0] for t in (None, 3))
    assert np.array_equal(before.x(), later.x())
    assert viewed(FedAug(0.8), SKEWED, None).held[0].made is None


@pytest.mark.parametrize("redraw", ["each", "once"])
def test_a_resumed_run_makes_the_same_copies(redraw):
    """Stopped after every round it ends in the same bits."""
    method = Method.of(FedAug(0.4, redraw=redraw))
    whole, stopped = (play(method, SKEWED, rounds=3, stopped=s) for s in (False, True))
    assert whole == stopped


def test_copies_come_from_all_originals_in_turn():
    """Seven copies of three originals: each two or three times."""
    from unskew.parts.prepare.fedaug import take_in_turn

    drawn = take_in_turn(np.array([4, 5, 9]), 7, generator(0, "turn"))
    assert sorted(np.unique(drawn, return_counts=True)[1]) == [2, 2, 3]


SHAPES = {
    "image": [(1, 8, 8), (3, 8, 12), (4, 6, 6)],
    "series": [(1, 32, 3), (1, 1, 20), (1, 1, 1)],
    "spectrogram": [(1, 16, 24), (2, 4, 4)],
    "vector": [(7,)],
}


@pytest.mark.parametrize(("kind", "shape"), [(k, s) for k, shapes in SHAPES.items() for s in shapes])
def test_every_kind_of_data_is_altered_and_keeps_its_form(kind, shape):
    """Shape and type stay, numbers stay finite, most samples change, and the same seed draws the same."""
    assert set(SHAPES) == set(FAMILIES)
    rng = generator(0, kind)
    dtype = np.uint8 if kind in ("image", "spectrogram") else np.float32
    x = rng.uniform(0, 255, (40, *shape)).astype(dtype)
    std = np.ones(shape[0], np.float32)
    y = np.zeros(40, np.int64)
    data = Dataset("x", x, y, x[:1], y[:1], ("a",), kind, {}, np.zeros_like(std), std)
    out, again = (alter(data, x, generator(1, "draw")) for _ in range(2))
    assert out.shape == x.shape
    assert out.dtype == x.dtype
    assert np.isfinite(out).all()
    assert np.array_equal(out, again)
    assert np.array_equal(x, data.x)
    assert (out != x).reshape(40, -1).any(1).mean() >= (0.4 if kind == "spectrogram" else 0.8)


def test_a_mask_covers_little_and_holds_the_mean():
    """A masked sound keeps at least three quarters of its cells."""
    from unskew.augment.spectrogram import mask_bands

    masks = mask_bands(500, 64, generator(0, "mask")).sum(1).numpy()
    assert masks.max() <= 64 / 8
    assert 0.4 < (masks == 0).mean() < 0.7


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: FedAug(-0.1), "target of fedaug is an EMD, at least 0 and below 2, not -0.1"),
        (
            lambda: FedAug(1.5).check(SKEWED, 4),
            "target of fedaug must lie between 0 and 2 - 2/3 = 1.333, the largest EMD of 3 classes, not 1.5",
        ),
    ],
)
def test_bad_input_is_one_sentence(build, sentence):
    """What is wrong, where, and what to write instead."""
    with pytest.raises(InputError) as told:
        build()
    assert str(told.value) == sentence


def test_the_thesiss_combination_is_a_preset():
    """Chapter 6 by name; both parts are at their defaults."""
    assert str(Method.parse("2p_fedaug")) == "fedaug+phase_shift"


def test_doing_nothing_is_warned_of():
    """Everybody above the target lacks a class: the run is FedAvg and says so once; elsewhere nothing is said."""
    nobody = holding([[8, 0, 0], [0, 8, 0], [3, 3, 2]])
    with pytest.warns(
        UserWarning, match="fedaug does nothing: the 2 clients above EMD 0.8 each lack a class"
    ):
        assert viewed(FedAug(0.8), nobody).sizes.tolist() == nobody.sizes.tolist()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        viewed(FedAug(0.8), nobody, 1)
        viewed(FedAug(0.8), SKEWED)
        viewed(FedAug(1.9), nobody)


def test_the_whole_level_is_the_neighbour_of_the_real_one_that_comes_closer():
    """500 random clients: the level L of eq. 5.4 is real, and a client fills up to its floor or its ceiling."""
    counts = generator(0, "levels").integers(1, 60, (500, 7))
    for target in (0.1, 0.4, 0.8):
        real, filled = levels(counts, target), counts + additions(counts, target)
        above = distances(counts) > target + 1e-12
        for row, level, whole in zip(counts[above], real[above], filled[above], strict=True):
            near = [np.maximum(row, n) for n in (np.floor(level + 1e-9), np.ceil(level - 1e-9))]
            off = [abs(distances(n[None])[0] - target) for n in near]
            assert whole.tolist() == near[0 if off[0] <= off[1] else 1].tolist()
