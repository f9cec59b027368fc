"""One normalisation: whoever shows a sample to a model shows it the same numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from unskew.data.dataset import Dataset
from unskew.engines.device_data import DeviceData
from unskew.models import build
from unskew.models.trained import TrainedModel
from unskew.runs.correlation import taken

X = np.arange(2 * 2 * 3 * 3, dtype=np.uint8).reshape(2, 2, 3, 3)
Y = np.zeros(2, np.int64)
PICTURES = Dataset(
    "two channels",
    X,
    Y,
    X,
    Y,
    ("a", "b"),
    mean=np.array([3, 20], np.float32),
    std=np.array([2, 4], np.float32),
)


def test_by_hand():
    """The first value of the first channel is (0 - 3) / 2, of the second (9 - 20) / 4; the way back is exact."""
    found = PICTURES.normalise(torch.from_numpy(X).double())
    assert found[0, :, 0, 0].tolist() == [-1.5, -2.75]
    assert PICTURES.restore(found).numpy() == pytest.approx(X)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_everybody_shows_a_model_the_same(dtype):
    """To the last bit: what clients train on and are judged by, what attackers take, what a finished model sees."""
    wanted = PICTURES.normalise(torch.from_numpy(X).to(dtype))
    pool = DeviceData(PICTURES, dtype).pool
    assert torch.equal(pool.take(torch.arange(2))[0], wanted)
    assert torch.equal(taken(PICTURES, np.arange(2), "cpu", dtype), wanted)
    net = build("mlp(hidden=[3])", (2, 3, 3), 2, 0, dtype)
    finished = TrainedModel(net, *PICTURES.scale_like(wanted))
    with torch.no_grad():
        assert torch.equal(finished(torch.from_numpy(X)), net(wanted))
