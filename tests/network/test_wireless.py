"""Links by hand: rates, multicast delays, placement, files, and sentences about what does not fit."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unskew.errors import InputError
from unskew.network import Wireless, mean_rate, multicast_delay, network_of, random_closeness, rate


def test_a_rate_is_that_of_equation_9():
    """B = 100 kHz, P h / (I + B N0) = 0.2 x 3 / (0.1 + 1e5 x 1e-6) = 3: 1e5 x log2(4) = 200 kbit a second."""
    assert rate(3.0, 1e5, power=0.2, noise=1e-6, interference=0.1) == pytest.approx(200e3)


def test_a_signal_to_noise_ratio_stands_for_power_and_noise():
    """10 dB is a ratio of 10: with a gain of 1 and no fading 1e5 x log2(11) = 345,943 bits a second.

    Interference of 9 times the noise leaves 10 / (1 + 9) = 1: 1e5 x log2(2).
    """
    plain = Wireless(snr=10, fading="flat")
    assert plain.rates(2, 0)[0, 1] == pytest.approx(345_943, abs=1)
    assert Wireless(snr=10, fading="flat", interference=9).server_rates(3, 0) == pytest.approx(1e5)
    assert Wireless().rates(4, 3) == pytest.approx(Wireless(snr=10).rates(4, 3))


def test_a_negative_ratio_is_fine():
    """-30 dB is a ratio of 0.001: 1e5 x log2(1.001) = 144.2 bits a second."""
    assert network_of("wireless(snr=-30, fading=flat)").server_rates(1, 0)[0] == pytest.approx(144.2, abs=0.1)


def test_a_multicast_lasts_as_long_as_its_worst_link():
    """100 MNIST samples of 6276 bits at 200 and 100 kbit a second: 627,600 / 100,000 s (eq. 10)."""
    assert multicast_delay(100 * 6276, np.array([200e3, 100e3])) == pytest.approx(6.276)
    assert multicast_delay(100, np.array([])) == 0.0


def test_fading_is_exponential_the_same_both_ways_and_drawn_by_the_seed():
    """Gains 2^(v/B) - 1 over the ratio have mean 1 and standard deviation 1; another round draws others."""
    network = Wireless(snr=10)
    rates = network.rates(300, 0)
    gains = (2 ** (rates[np.triu_indices(300, 1)] / 1e5) - 1) / 10
    assert gains.mean() == pytest.approx(1, abs=0.02)
    assert gains.std() == pytest.approx(1, abs=0.03)
    assert np.array_equal(rates, rates.T)
    assert np.array_equal(rates, network.rates(300, 0))
    assert not np.array_equal(rates, network.rates(300, 1))
    assert not np.array_equal(network.server_rates(9, 0, 1), network.server_rates(9, 0, 2))


def test_links_drawn_one_by_one_do_not_depend_on_the_others():
    """A hand-over between two clients takes as long in any order, in either direction, in any company."""
    network = Wireless()
    two = network.link_seconds(1000, np.array([4, 1]), np.array([7, 2]), 9, 0, 3)
    assert network.link_seconds(1000, np.array([2]), np.array([1]), 9, 0, 3)[0] == two[1]
    assert network.link_seconds(1000, np.array([4]), np.array([7]), 9, 0, 4)[0] != two[0]


def test_the_mean_rate_over_fades():
    """At 0 dB B e E1(1) / ln 2 = 1e5 x 0.596347 / 0.693147; at -30 dB nearly as without fading; draws agree."""
    assert mean_rate(1.0, 1e5, 1.0, 1e-5) == pytest.approx(86_034.7, abs=0.1)
    assert mean_rate(1.0, 1e5, 1e-3, 1e-5) == pytest.approx(144.2, abs=0.2)
    draws = np.random.default_rng(0).exponential(size=1_000_000)
    assert rate(draws, 1e5, 10.0, 1e-5).mean() == pytest.approx(
        float(mean_rate(1.0, 1e5, 10.0, 1e-5)), rel=2e-3
    )
    assert mean_rate(0.0, 1e5, 1.0, 1e-5) == 0.0


def test_a_transfer_outlasts_its_fade():
    """The drawn fade for 0.1 s, then the mean rate of 86,035 bits a second at 0 dB; short ones see the fade alone."""
    network = Wireless(snr=0)
    now = network.server_rates(1, 0, 3)[0]
    short, long = now / 20, now * 0.1 + 86_034.7
    for bits, seconds in ((short, 0.05), (long, 1.1), (0.0, 0.0)):
        assert network.server_seconds(np.array([bits]), 1, 0, 3, "up")[0] == pytest.approx(seconds, rel=1e-5)
    held = replace(network, coherence=1e9)
    assert held.server_seconds(np.array([long]), 1, 0, 3, "up")[0] == pytest.approx(long / now)


def test_no_round_waits_for_one_faint_link():
    """With a fade held for ever the longest of 500 rounds is hundreds of times the median; it is not any more."""
    spent = [Wireless().server_seconds(np.full(10, 480e3), 10, 0, t, "down").max() for t in range(500)]
    assert max(spent) < 1.2 * np.median(spent)


def test_gains_may_differ_by_the_way(tmp_path):
    """The base station hears client 0 with a gain of 3 and reaches it with 1: two kilobits up, one down."""
    np.save(tmp_path / "gains.npy", np.array([[0, 3.0], [1.0, 0]]))
    network = Wireless(snr=0, fading="flat", bandwidth=1000, gains=str(tmp_path / "gains.npy"))
    assert network.server_rates(1, 0, way="up") == pytest.approx([2000])
    assert network.server_rates(1, 0, way="down") == pytest.approx([1000])


def test_placed_clients_lose_power_with_distance():
    """Within a disc of 100 m the gain is (d / 100)^-3: at least 1, and 8 at half the radius."""
    network = Wireless(snr=0, radius=100, fading="flat")
    distance = np.hypot(*network.positions(500, 0).T)
    assert distance.max() <= 100
    assert np.median(distance) == pytest.approx(100 / np.sqrt(2), abs=5)  # evenly over the area
    expected = 1e5 * np.log2(1 + np.maximum(distance / 100, 0.01) ** -3)
    assert network.server_rates(500, 0) == pytest.approx(expected)


def test_power_and_a_path_loss_at_one_metre():
    """1 W, 30 dB at a metre and d^-2: at distance d 10^-3 d^-2 W arrive over 1e5 x 1e-12 W of noise."""
    network = Wireless(power=1, noise=1e-12, radius=50, exponent=2, fading="flat")
    distance = np.maximum(np.hypot(*network.positions(20, 1).T), 1)
    assert network.server_rates(20, 1) == pytest.approx(1e5 * np.log2(1 + 1e-3 * distance**-2 / 1e-7))


def test_gains_may_be_given(tmp_path):
    """Two clients and, in the last row, the base station."""
    np.save(tmp_path / "gains.npy", np.array([[0, 3, 1], [3, 0, 7], [1, 7, 0.0]]))
    network = Wireless(snr=0, fading="flat", gains=str(tmp_path / "gains.npy"))
    assert network.rates(2, 0).tolist() == [[0, 2e5], [2e5, 0]]
    assert network.server_rates(2, 0) == pytest.approx([1e5, 3e5])
    np.savetxt(tmp_path / "gains.csv", [[0, 3], [3, 0]], delimiter=",")
    alone = Wireless(gains=str(tmp_path / "gains.csv"))
    Wireless(gains=str(tmp_path / "gains.csv"), round=0.7).check(2)
    for asks in (lambda: alone.check(2), lambda: alone.server_rates(2, 0)):  # a run sends models down
        with pytest.raises(InputError, match="add a last row and column for the base station"):
            asks()


def test_closeness_is_random_and_symmetric_or_given(tmp_path):
    """Uniform off the diagonal; a file is taken as it is."""
    trust = random_closeness(200, 0)
    assert np.array_equal(trust, trust.T)
    assert (trust.diagonal() == 1).all()
    off = trust[np.triu_indices(200, 1)]
    assert off.min() >= 0
    assert off.max() < 1
    assert off.mean() == pytest.approx(0.5, abs=0.01)
    np.save(tmp_path / "trust.npy", np.array([[1, 0.25], [0.25, 1]]))
    assert Wireless(closeness=str(tmp_path / "trust.npy")).trust(2, 0)[0, 1] == 0.25


SENTENCES = [
    ("wireless(snr=300)", "snr of wireless is in decibels, from -200 to 200, not 300"),
    ("wireless(bandwidth=0)", "bandwidth of wireless must be above 0, not 0"),
    ("wireless(power=1)", "power and noise of wireless belong together; give both, or snr"),
    ("wireless(snr=1, power=1, noise=1)", "wireless takes snr, or power and noise; keep one"),
    ("wireless(interference=-1)", "interference of wireless must be at least 0, not -1"),
    ("wireless(gains=a.npy, radius=3)", "wireless takes gains or a radius to place clients in; keep one"),
    ("wireless(fading=rician)", "fading of wireless must be rayleigh or flat, not rician"),
    ("wired()", "there is no network 'wired'; did you mean 'wireless'?"),
]


@pytest.mark.parametrize(("text", "sentence"), SENTENCES)
def test_bad_networks_are_told_in_one_sentence(text, sentence):
    """What is wrong, where, and what to write instead."""
    with pytest.raises(InputError) as told:
        network_of(text)
    assert str(told.value) == sentence


FILES = [
    (
        [[1, 0.2], [0.3, 1]],
        "closeness must be symmetric, but in .* client 0 trusts 1 by 0.2 and 1 trusts 0 by 0.3",
    ),
    ([[1, 0.2, 0], [0.2, 1, 0]], "closeness must be a matrix of 2 x 2 numbers, but .* holds 2 x 3"),
    (np.eye(3), "closeness must be a matrix of 2 x 2 numbers, but .* holds 3 x 3"),
    ([[1, 1.5], [1.5, 1]], "closeness lies between 0 and 1, but .* holds 1.5"),
    ([[1, -0.5], [-0.5, 1]], "closeness must be finite and not negative, but .* holds -0.5"),
    ([[1, np.nan], [np.nan, 1]], "closeness must be finite and not negative, but .* holds nan"),
]


@pytest.mark.parametrize(("table", "sentence"), FILES)
def test_a_closeness_that_does_not_fit_is_refused(tmp_path, table, sentence):
    """Wrong size, not symmetric, out of range: one sentence that names the file."""
    np.save(tmp_path / "trust.npy", np.asarray(table))
    with pytest.raises(InputError) as told:
        Wireless(closeness=str(tmp_path / "trust.npy")).check(2)
    assert re.search(sentence, str(told.value))


def test_files_that_are_not_there_or_hold_no_numbers(tmp_path):
    """One sentence each."""
    (tmp_path / "words.csv").write_text("a,b\nc,d\n")
    for name, sentence in (
        ("none.npy", "there is no file"),
        ("words.csv", "holds no numbers for gains; write one row of numbers a client"),
        ("gains.txt", "must be a .npy or .csv file"),
    ):
        with pytest.raises(InputError, match=sentence):
            Wireless(gains=str(tmp_path / name)).check(2)


@given(
    snr=st.floats(-60, 60), gain=st.floats(1e-6, 1e3), more=st.floats(1.01, 10), interference=st.floats(0, 5)
)
def test_more_gain_is_never_slower(snr, gain, more, interference):
    """Rates grow with gain and fall with interference, and stay finite."""
    ratio = 10 ** (snr / 10)
    slow, fast = (float(rate(g, 1e5, ratio, 1e-5, interference)) for g in (gain, gain * more))
    assert 0 < slow < fast < float("inf")
    assert float(rate(gain, 1e5, ratio, 1e-5)) >= slow
