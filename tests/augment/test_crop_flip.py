"""Images moved and mirrored: by hand, and as a setting of a run."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn.functional import pad

import unskew
from unskew.augment.crop_flip import crop_flip
from unskew.errors import InputError
from unskew.runs.move_images import MoveImages

SETTINGS = {
    "dataset": "digits",
    "partition": "labels(3)",
    "fraction": 0.2,
    "clients": 8,
    "cohort": 4,
    "rounds": 2,
    "epochs": 2,
    "batch": 16,
    "precision": "fp64",
    "progress": False,
}


def test_a_row_of_three_pixels_by_hand() -> None:
    """1 2 3 moved by one: what lies at 0 comes from 1, and beyond the edge it is mirrored: 2 3 2."""
    x = torch.tensor([1.0, 2.0, 3.0]).view(1, 1, 1, 3).repeat(3, 1, 1, 1)
    shift, flip = torch.tensor([[0, 1], [0, 0], [0, -1]]), torch.tensor([0, 1, 1])
    found = crop_flip(x, shift, flip)[:, 0, 0].tolist()
    assert found == [[2, 3, 2], [3, 2, 1], [2, 3, 2]]


def test_moving_is_padding_by_mirrored_pixels_and_cropping() -> None:
    """As torch pads: every place of the crop; a mirrored image is the mirrored one, moved."""
    x = torch.arange(2 * 3 * 6 * 5, dtype=torch.float64).view(2, 3, 6, 5)
    padded = pad(x, (2, 2, 2, 2), mode="reflect")
    for down in range(-2, 3):
        for right in range(-2, 3):
            wanted = padded[:, :, 2 + down : 8 + down, 2 + right : 7 + right]
            shift = torch.tensor([[down, right]] * 2)
            assert torch.equal(crop_flip(x, shift, torch.zeros(2)), wanted)
            mirrored = crop_flip(x, shift, torch.ones(2))
            assert torch.equal(mirrored, crop_flip(x.flip(-1), shift, torch.zeros(2)))


def test_the_draws_reach_every_place_and_no_further() -> None:
    """-2 to 2 pixels each way, half of the images mirrored; none where flip is off."""
    drawn = MoveImages(crop=2, flip=True).draw(np.random.default_rng(0), 50, 8)
    assert drawn["shift"].shape == (50, 8, 2)
    assert set(np.unique(drawn["shift"])) == {-2, -1, 0, 1, 2}
    assert drawn["flip"].mean() == pytest.approx(0.5, abs=0.1)
    assert not MoveImages(crop=2).draw(np.random.default_rng(0), 50, 8)["flip"].any()


@pytest.mark.parametrize("model", ["mlp(hidden=[8])", "small_cnn"])
@pytest.mark.parametrize("method", ["fedavg", "scaffold+sem"])
def test_engines_have_the_same_images(model: str, method: str) -> None:
    """To 1e-9 in float64 on the loop and on the fast engine; and other images than without the settings."""
    given = SETTINGS | {"model": model, "method": method}
    loop = unskew.run(crop=1, flip=True, engine="loop", **given)
    fast = unskew.run(crop=1, flip=True, engine="fast", workers=1, **given)
    off = unskew.run(crop=0, flip=False, engine="loop", **given)
    plain = unskew.run(engine="loop", **given)
    for name, value in loop.state.params.items():
        assert torch.allclose(value, fast.state.params[name], rtol=0, atol=1e-9)
        assert torch.equal(off.state.params[name], plain.state.params[name])
    assert any(not torch.equal(loop.state.params[k], plain.state.params[k]) for k in plain.state.params)


def test_what_cannot_be_moved_is_refused_in_a_sentence() -> None:
    """Vectors are no images; an image of eight pixels is not moved by eight; a negative number is none."""
    with pytest.raises(InputError, match="at most crop = 7"):
        unskew.run(crop=8, **SETTINGS)
    with pytest.raises(InputError, match="crop must be at least 0"):
        unskew.run(crop=-1, **SETTINGS)
    x, y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
    with pytest.raises(InputError, match=r"flip alters images, and .* kind vector"):
        unskew.run(dataset=(x, y, x, y), partition="iid", clients=4, flip=True, rounds=1, progress=False)
