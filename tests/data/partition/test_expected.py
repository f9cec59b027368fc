"""The EMD that is stated for a setting is the one that its partitions have."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew.cli import main
from unskew.data.partition import FAMILIES, expected_emd, partition, reach, solutions
from unskew.errors import InputError

EVEN = np.repeat(np.arange(10), 2000)
POOLS = {
    "even": np.repeat(np.arange(6), 100),
    "uneven": np.repeat(np.arange(6), [300, 20, 90, 60, 110, 40]),
    "few": np.repeat(np.arange(4), [9, 14, 3, 22]),
}


def measured(labels, expression: str, clients: int, seeds: int = 24, **scarce) -> tuple[float, float]:
    """The mean EMD of partitions by other seeds than a simulation's, and its standard error."""
    found = [
        partition(labels, expression, clients, 1000 + seed, **scarce).record["emd"] for seed in range(seeds)
    ]
    return float(np.mean(found)), float(np.std(found, ddof=1) / np.sqrt(seeds))


def agrees(stated, mean: float, error: float, draws: int) -> bool:
    """Within 0.005, or 4.5 standard errors of the two means: one chance in 100,000 a comparison."""
    return abs(stated - mean) <= max(0.005, 4.5 * np.hypot(error, stated.spread / np.sqrt(draws)))


share = st.sampled_from([0.05, 0.3, 0.6, 0.85, 1.0])
alpha = st.sampled_from([1e-5, 0.02, 0.1, 0.5, 3.0, 1e3])
some = st.integers(1, 4)
simple = st.one_of(
    st.just("iid"),
    st.builds("limit_labels({}, f={})".format, some, share),
    st.builds("q({})".format, share),
    st.builds("limit_labels_q({}, {})".format, some, share),
    st.builds("dirichlet({})".format, alpha),
    st.builds("dirichlet({}, cap=true)".format, alpha),
    st.builds("dirichlet_client({})".format, alpha),
    st.builds("labels({})".format, some),
    st.builds("shards({})".format, st.integers(1, 9)),
    st.builds("quantity({})".format, alpha),
)
target = st.builds("emd({})".format, st.sampled_from([0.0, 0.1, 0.2]))
any_family = st.one_of(simple, target, st.builds("mixed({}, {}, share={})".format, simple, simple, share))


@given(
    any_family,
    st.sampled_from(sorted(POOLS)),
    st.integers(2, 23),
    st.sampled_from([1.0, 0.4]),
    st.integers(0, 1),
)
@settings(max_examples=40, derandomize=True)
def test_what_is_stated_for_a_pool_is_measured_on_it(said, which, clients, fraction, least) -> None:
    """Any family, any number of clients, equal or unequal classes, all of the data or a part of it."""
    labels, scarce = POOLS[which], {"fraction": fraction, "min_samples": least}
    if clients * least > max(1, round(fraction * len(labels))):
        return  # refused: see the command's tests
    stated = expected_emd(said, labels, clients, **scarce)
    mean, error = measured(labels, said, clients, seeds=16, **scarce)
    assert agrees(stated, mean, error, 24)


@pytest.mark.parametrize(
    ("said", "clients"),
    [
        ("dirichlet_client(0.1085)", 20),  # 1.40 if no wish were refused
        ("dirichlet_client(0.2)", 5),
        ("shards(2)", 12),  # 24 shards of ten classes
        ("shards(1)", 15),
        ("shards(3)", 7),
        ("mixed(dirichlet_client(0.1), shards(2), share=0.5)", 24),
        ("mixed(labels(1), dirichlet_client(0.2), share=0.9)", 20),
        ("limit_labels(1)", 3),  # ten classes at three clients: four, three and three
        ("limit_labels(9, f=0.8)", 12),
        ("q(0.7)", 13),
        ("limit_labels_q(3, 0.5)", 7),
        ("labels(2)", 4),
        ("dirichlet(0.1)", 20),
        ("emd(1.3)", 7),
    ],
)
def test_what_is_stated_for_unlimited_samples_is_measured_on_many(said: str, clients: int) -> None:
    """On 20,000 samples of ten equal classes, within what the fewer than unlimited ones add by chance."""
    stated = expected_emd(said, 10, clients)
    mean, error = measured(EVEN, said, clients, seeds=12)
    assert abs(stated - mean) <= max(0.01, 4.5 * np.hypot(error, stated.spread / np.sqrt(60)))


@pytest.mark.parametrize("clients", [3, 7, 12, 20])
@pytest.mark.parametrize("name", sorted(set(FAMILIES) - {"mixed", "by", "quantity"}))
def test_no_setting_is_expected_beyond_the_reach_of_its_family(name: str, clients: int) -> None:
    """shards(1) was, of twelve clients: EMD 2.0 of at most 1.8."""
    low, high = reach(name, 10, clients)
    for setting in {"shards": ["shards(1)", "shards(2)", "shards(9)"], "labels": ["labels(1)", "labels(3)"],
                    "dirichlet_client": ["dirichlet_client(0.01)"], "dirichlet": ["dirichlet(0.01)"],
                    "limit_labels": ["limit_labels(2, f=0.4)"]}.get(name, []):  # fmt: skip
        stated = expected_emd(setting, 10, clients)
        assert low - 0.02 <= stated <= high + 0.02
    assert high <= 1.8 + 1e-9


def test_every_solution_for_a_pool_has_the_emd_that_is_stated() -> None:
    """Four unequal classes over eight clients, by other seeds."""
    labels = np.repeat(np.arange(4), [80, 25, 55, 40])
    found = solutions(0.8, labels, 8)
    assert {name.split("(")[0] for name, _ in found} >= {
        "limit_labels",
        "q",
        "dirichlet",
        "dirichlet_client",
        "emd",
    }
    for expression, stated in found:
        assert stated == pytest.approx(0.8, abs=0.011)
        mean, error = measured(labels, expression, 8, seeds=8)
        assert agrees(stated, mean, error, 24), expression


def test_what_few_clients_cannot_have_is_not_listed() -> None:
    """dirichlet_client of 20 clients reaches 1.60, and was listed for 1.75 with a setting that has 1.57."""
    listed = {name.split("(")[0] for name, _ in solutions(1.75, 10, 20)}
    assert "dirichlet_client" not in listed
    assert "emd" in listed
    assert reach("dirichlet_client", 10, 20)[1] == pytest.approx(1.60, abs=0.02)


def test_what_is_simulated_says_plus_or_minus_and_is_the_same_each_time() -> None:
    """A closed form is exact and has no spread; a simulation names the deviation of one partition."""
    exact, simulated = expected_emd("limit_labels(2)", 10, 20), expected_emd("dirichlet(0.1)", 10, 20)
    assert (str(exact), exact.spread) == ("1.6", 0.0)
    assert "±" in str(simulated)
    assert simulated == expected_emd("dirichlet(0.1)", 10, 20)
    drawn = [partition(EVEN, "dirichlet(0.1)", 20, seed).record["emd"] for seed in range(30)]
    assert simulated.spread == pytest.approx(np.std(drawn), rel=0.4)


def test_solve_takes_a_data_set_and_its_scarcity(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    """With 5 samples a client chance makes an EMD of its own, so that another setting has 1.0."""
    scarce = ["--clients", "10", "--samples-per-client", "5", "--json"]
    assert main(["partition", "--classes", "3", "--solve", "1.0", *scarce]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["pool"] == "3 equal classes of 5 samples a client"
    q = next(s for s in told["solutions"] if s["partition"].startswith("q("))
    assert q["spread"] > 0
    assert float(q["partition"][4:-1]) < 0.83  # 0.8333 of unlimited samples
    table = tmp_path / "visits.csv"
    table.write_text(
        "height,illness\n" + "".join(f"{i}.5,{('flu', 'cold')[i % 3 == 0]}\n" for i in range(60))
    )
    given = [str(table), "--label", "illness", "--clients", "3", "--fraction", "0.5"]
    assert main(["partition", *given, "--solve", "0.5"]) == 0
    assert "visits, 0.5 of its samples; 3 clients" in capsys.readouterr().out


def test_the_nearest_setting_is_the_nearest_of_all() -> None:
    """Few samples jump: what comes nearest is what no other setting of the family comes nearer than."""
    few = POOLS["few"][::3]
    found = partition(few, "emd", 5, emd=0.9, min_samples=0)
    off = abs(found.record["emd"] - 0.9)
    others = [
        partition(few, f"emd({target / 100})", 5, min_samples=0).record["emd"] for target in range(0, 135, 3)
    ]
    assert off <= min(abs(other - 0.9) for other in others) + 1e-9
    if off > 0.005:
        assert f"{off:.2g} off" in found.record["notes"][0]


@pytest.mark.parametrize("name", sorted(set(FAMILIES) - {"mixed", "by", "quantity", "iid"}))
def test_few_samples_are_solved_or_refused_with_their_range(name: str) -> None:
    """Of 63 samples every family comes nearest in some setting that is noted, or says what it can have."""
    few = np.repeat(np.arange(10), [11, 2, 5, 6, 6, 7, 4, 9, 6, 7])
    for clients, emd in ((5, 0.9), (20, 0.4), (20, 1.5)):
        try:
            record = partition(few, name, clients, 1, emd=emd).record
        except InputError as error:
            refusal = str(error)
            assert re.search(r"cannot reach EMD .* it is [\d.]+ to [\d.]+$|comes nearest with", refusal)
        else:
            noted = any("comes nearest" in note for note in record["notes"])
            assert noted == (abs(record["emd"] - emd) > 0.005)


def test_solutions_of_few_samples_are_listed() -> None:
    """Cuts that are too fine for ten samples are left out, not fatal."""
    found = dict(solutions(1.0, np.repeat([0, 1, 2], [4, 3, 3]), 5))
    assert all(stated == pytest.approx(1.0, abs=0.011) for stated in found.values())
