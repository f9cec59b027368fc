"""Exposure, reconstruction quality, views and separation, each by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew.core.method import Method
from unskew.core.net import Net
from unskew.core.views import Averages, Features, RawSamples, view, views_of
from unskew.errors import InputError
from unskew.metrics.clusters import davies_bouldin
from unskew.models import build
from unskew.privacy.exposure import expected, exposure, matrix
from unskew.privacy.quality import judge_likeness, match_samples, mse, psnr, ssim
from unskew.seeds import generator


def test_exposure_by_hand():
    """Four clients. Round 1: nobody gives. Round 2: 0 and 1 give to 1 and 2: pairs 01 02 11 12, 4/16.

    Round 3: 1 and 2 give to 2 and 3: 12 (known) 13 22 23, 7/16. Round 4 repeats round 2: still 7/16.
    """
    lines = [
        {"round": 1},
        {"round": 2, "exchanged": {"flea": {"from": [0, 1], "to": [1, 2]}}},
        {"round": 3, "exchanged": {"flea": {"from": [1, 2], "to": [2, 3]}}},
        {"round": 4, "exchanged": {"flea": {"from": [0, 1], "to": [1, 2]}}},
    ]
    assert exposure(lines, 4) == [0, 4 / 16, 7 / 16, 7 / 16]
    held = matrix(lines, 4)
    assert held.sum() == 7
    assert held[0, 2]
    assert not held[2, 0]


def test_what_goes_from_all_to_all_exposes_everything():
    """FedData and its like: eps is 100% from the first round on (FLea, section 4.4)."""
    lines = [{"round": 1, "exchanged": {"x": {"from": "all", "to": "all"}}}, {"round": 2}]
    assert exposure(lines, 1_000_000) == [1, 1]


def test_raw_samples_that_moved_expose_whoever_sent_them():
    """Client 0 hands to 1 directly (1 pair); clients 1 and 2 by way of the server to all three (6 pairs)."""
    shared = [
        {"part": "daca", "from": 0, "to": [1]},
        {"part": "fed_data", "from": 1, "to": ["server"]},
        {"part": "fed_data", "from": 2, "to": ["server"]},
        {"part": "fed_data", "from": "server", "to": "all"},
    ]
    assert exposure([{"round": 1, "shared": shared}], 3) == [7 / 9]


def test_the_papers_forty_percent_after_fifty_rounds():
    """A tenth of the clients a round: each round shows 1% of all pairs, so 1 - 0.99^49 = 38.9% after round 50."""
    eps = expected(0.1, 50)
    assert eps[0] == 0
    assert eps[1] == pytest.approx(0.01)
    assert eps[-1] == pytest.approx(1 - 0.99**49)
    assert eps[-1] < 0.40


def test_errors_by_hand():
    """Pixels 0, 0 against 0.2, 0 have MSE 0.02 and PSNR -10 log10 0.02 = 16.99 dB."""
    error = mse(torch.zeros(1, 1, 1, 2), torch.tensor([[[[0.2, 0.0]]]]))
    assert float(error) == pytest.approx(0.02)
    assert float(psnr(error)) == pytest.approx(16.9897, abs=1e-4)
    assert float(psnr(torch.zeros(1))) == pytest.approx(100)


def test_ssim_of_flat_images_is_that_of_their_means():
    """Without variance only (2ab + c1) / (a^2 + b^2 + c1) is left; a = 0.2, b = 0.6: 0.2401 / 0.4001."""
    a, b = torch.full((1, 3, 16, 16), 0.2), torch.full((1, 3, 16, 16), 0.6)
    assert float(ssim(a, b)) == pytest.approx(0.2401 / 0.4001, abs=1e-4)
    assert float(ssim(a, a)) == pytest.approx(1)


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 32, 32), (1, 128, 3), (7,)])
def test_quality_of_any_shape(shape):
    """A sample is like itself, whatever its shape, and unlike noise."""
    rng = generator(0, "quality", len(shape))
    x = torch.from_numpy(rng.random((4, *shape))).float()
    same, other = judge_likeness(x, x), judge_likeness(x, x.flip(0))
    assert same["mse"] == 0 < other["mse"]
    if len(shape) == 3:
        assert same["ssim"] == pytest.approx(1, abs=1e-4)
        assert other["ssim"] < 0.9
    else:
        assert "ssim" not in same  # a row of a table is no picture


def test_reconstructions_are_matched_to_their_originals():
    """Three samples that were found in another order."""
    x = torch.tensor([[0.0], [0.5], [1.0]])
    assert match_samples(x[[2, 0, 1]], x).tolist() == [1, 2, 0]


def test_an_average_is_the_mean_of_its_group_and_a_sample_itself():
    """Two groups of two samples of one number."""
    groups = torch.tensor([[[1.0], [3.0]], [[5.0], [9.0]]])
    net = None
    assert Averages(2).show(net, {}, groups).tolist() == [[2], [7]]  # type: ignore[arg-type]
    assert RawSamples().show(net, {}, groups).tolist() == [[1], [5]]  # type: ignore[arg-type]


def test_features_are_those_of_the_layer_in_evaluation_mode():
    """What the model's lower layers give, and for ``last`` what its classifier sees."""
    net = Net(build("mlp(hidden=[5, 4])", (1, 2, 2), 3))
    x = torch.ones(2, 1, 1, 2, 2)
    assert Features("dense1").show(net, net.initial, x).shape == (2, 5)
    assert torch.equal(
        Features("last").show(net, net.initial, x), Features("dense2").show(net, net.initial, x)
    )


def test_features_in_fewer_bytes_are_seen_as_they_travel():
    """One byte a number leaves at most 256 values in a row, and half precision is that of float16."""
    net = Net(build("mlp(hidden=[500])", (1, 2, 2), 3))
    x = torch.rand(2, 1, 1, 2, 2)
    full, half, byte = (
        Features("dense1", store).show(net, net.initial, x) for store in ("full", "half", "byte")
    )
    assert torch.equal(half, full.half().float())
    assert 0 < float((byte - full).abs().max()) < float(full.max()) / 255
    assert str(view("features(dense1, byte)")) == "features(dense1, byte)"


def test_views_are_read_from_text_and_from_parts():
    """An expression names a view; parts say theirs."""
    assert view("averages(4)") == Averages(4)
    assert str(view("features(conv1)")) == "features(conv1)"
    assert str(RawSamples()) == "samples"
    found = views_of(Method.parse("flea(last)+fedmix(group=4)").parts, 36)
    assert found == {"flea": Features("last"), "fedmix": Averages(4)}
    with pytest.raises(InputError, match="view"):
        view("feature(conv1)")
    assert views_of(Method.parse("fedmix(group=0)").parts, 36) == {
        "fedmix": Averages(36)
    }  # all of a client's


def test_davies_bouldin_by_hand():
    """Classes at 0, 2 and 10, 14: spreads 1 and 2, centres 11 apart, so (1 + 2) / 11."""
    assert davies_bouldin(np.array([[0.0], [2], [10], [14]]), np.array([0, 0, 1, 1])) == pytest.approx(3 / 11)
    assert np.isnan(davies_bouldin(np.zeros((3, 2)), np.zeros(3)))


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.integers(2, 5), st.integers(1, 6))
def test_davies_bouldin_is_sklearns(seed, classes, wide):
    """Beside the implementation that everybody uses."""
    from sklearn.metrics import davies_bouldin_score

    rng = generator(seed, "clusters")
    y = np.concatenate([np.arange(classes), rng.integers(0, classes, 20)])
    x = rng.normal(size=(len(y), wide)) + y[:, None]
    assert davies_bouldin(x, y) == pytest.approx(davies_bouldin_score(x, y))
