"""The measures of skew and scarcity, against numbers worked by hand."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from unskew.errors import InputError
from unskew.metrics import emd, pairwise_emd, skew, system_emd

LOG2 = math.log(2)


def test_two_clients_with_one_class_each() -> None:
    """p = (1/2, 1/2): EMD 1/2 + 1/2 = 1, KL = log 2, JSD = (log 4/3 + (log 2/3 + log 2)/2) / 2 = 0.2158."""
    found = skew([[4, 0], [0, 4]])
    assert found.emd == pytest.approx(1.0)
    assert found.kld == pytest.approx(LOG2)
    assert found.jsd == pytest.approx((math.log(4 / 3) + (math.log(2 / 3) + math.log(2)) / 2) / 2)
    assert (found.entropy, found.entropy_pooled) == (0.0, pytest.approx(LOG2))
    assert (found.sparsity, found.gini) == (0.5, 0.0)
    assert (found.clients, found.samples, found.classes) == (2, 8, 2)


def test_emd_weighs_clients_by_their_samples() -> None:
    """p = (3/4, 1/4). Client 0: 6 of 8 samples, all class 0, 1/2. Client 1: 2 of 8, all class 1, 3/2. 6/8 x
    1/2 + 2/8 x 3/2 = 3/4."""
    found = skew([[6, 0], [0, 2]])
    assert found.emd_per_client.tolist() == pytest.approx([0.5, 1.5])
    assert found.emd == pytest.approx(0.75)
    assert system_emd(np.array([[6, 0], [0, 2]])) == pytest.approx(0.75)
    assert found.sizes.tolist() == [6, 2]
    assert found.gini == pytest.approx(0.25)  # (-1 x 2 + 1 x 6) / (2 x 8)


def test_a_class_that_a_client_lacks_adds_nothing_to_its_divergence() -> None:
    """Eq. 3.2 with the ratio put right: client 0 is log(1 / (3/4)), finite although it lacks class 1."""
    found = skew([[6, 0], [0, 2]])
    assert found.kld_per_client.tolist() == pytest.approx([math.log(4 / 3), math.log(4)])


def test_scarcity_is_given_as_at_most_and_as_below() -> None:
    """Sizes 49, 50, 51: two of three have at most 50 samples, one of three has fewer."""
    found = skew([[49, 0], [50, 0], [0, 51]])
    assert found.scarcity == {"threshold": 50, "at_most": pytest.approx(2 / 3), "below": pytest.approx(1 / 3)}
    assert skew([[49], [50], [51]], scarce=51).scarcity["at_most"] == 1.0


def test_an_empty_client_has_no_distribution_and_no_weight() -> None:
    found = skew([[2, 2], [0, 0]])
    assert math.isnan(found.emd_per_client[1])
    assert (found.emd, found.kld, found.jsd) == (0.0, 0.0, 0.0)
    assert found.sparsity == 0.5
    told = found.as_dict()
    assert told["emd_per_client"] == [0.0, None]
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert "emd_per_client" not in found.as_dict(per_client=False)


def test_another_reference_may_be_given_as_counts() -> None:
    """Against uniform, (6, 2) is 1/4 + 1/4."""
    assert skew([[6, 2]]).emd == 0.0
    assert skew([[6, 2]], reference=np.array([5, 5])).emd == pytest.approx(0.5)


def test_emd_of_two_distributions_takes_counts_or_probabilities() -> None:
    assert emd([1, 1], [0.5, 0.5]) == 0.0
    assert emd([1, 0, 0], [0, 0, 7]) == 2.0


def test_pairwise_emd_is_between_every_two_clients() -> None:
    found = pairwise_emd([[1, 0], [0, 2], [3, 3], [0, 0]])
    assert found[:3, :3].tolist() == [[0, 2, 1], [2, 0, 1], [1, 1, 0]]
    assert np.isnan(found[3]).all()


@given(arrays(np.int64, st.tuples(st.integers(1, 8), st.integers(1, 6)), elements=st.integers(0, 50)))
@settings(max_examples=150)
def test_the_measures_keep_their_bounds_and_agree_with_one_another(counts: np.ndarray) -> None:
    """kld = H(pooled) - mean H; KL <= log M; JSD <= log 2; 0 <= EMD <= 2; Pinsker: EMD^2 <= 2 KL a client."""
    counts[0, 0] += 1
    found = skew(counts)
    assert found.kld == pytest.approx(found.entropy_pooled - found.entropy, abs=1e-9)
    assert found.emd == pytest.approx(system_emd(counts), abs=1e-9)
    assert -1e-12 <= found.emd <= 2
    assert 0 <= found.jsd <= LOG2 + 1e-12
    assert 0 <= found.gini < 1
    held = found.sizes > 0
    assert np.all(found.emd_per_client[held] ** 2 <= 2 * found.kld_per_client[held] + 1e-9)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda: skew([1, 2]),
            "counts must be a matrix with a row a client and a column a class, not of shape (2,)",
        ),
        (lambda: skew([[0.5]]), "counts must be whole numbers, not float64"),
        (lambda: skew([[-1, 2]]), "counts must not be negative"),
        (lambda: skew([[0, 0]]), "there is nothing to measure: the count matrix holds no samples"),
        (
            lambda: skew([[1, 1]], reference=np.ones(3)),
            "the reference has 3 classes but the count matrix has 2",
        ),
        (
            lambda: skew([[1, 1]], reference=np.array([1, 0])),
            "the reference gives class 1 no weight, but clients hold samples of it",
        ),
        (lambda: emd([1, 1], [1, 1, 1]), "cannot compare distributions over 2 and 3 classes"),
        (
            lambda: emd([1, -1], [1, 1]),
            "the first distribution must be one number of at least 0 a class, with a sum above 0",
        ),
        (
            lambda: pairwise_emd(np.ones((20_001, 1), np.int64)),
            "the pairs of 20001 clients do not fit in memory; take at most 20000 of them",
        ),
    ],
)
def test_bad_counts_are_refused_in_one_sentence(call, sentence: str) -> None:
    with pytest.raises(InputError) as refused:
        call()
    assert str(refused.value) == sentence
