"""``pixels``: what a model sees of images of 8-bit pixels."""

from __future__ import annotations

import numpy as np
import pytest

import unskew
from unskew.data import from_arrays
from unskew.errors import InputError

SETTINGS = {
    "partition": "iid",
    "clients": 4,
    "rounds": 1,
    "batch": 8,
    "model": "mlp(hidden=[4])",
    "progress": False,
}


def images(dtype: type = np.uint8, count: int = 40) -> tuple[np.ndarray, np.ndarray]:
    """Pictures of four by four pixels in two classes: dark and bright."""
    y = np.arange(count) % 2
    drawn = np.random.default_rng(0).integers(0, 128, (count, 1, 4, 4))
    return (drawn + 127 * y[:, None, None, None]).astype(dtype), y


def test_unit_pixels_are_divided_by_255():
    """0, 51 and 255 become 0, 0.2 and 1; by default they are at mean 0 and spread 1."""
    x = np.tile(np.array([0, 51, 255, 51], np.uint8), (10, 1, 4, 1))
    data = from_arrays(x, np.arange(10) % 2)
    seen = data.with_pixels("unit").normalise(x.astype(np.float64))
    assert seen[0, 0, 0].tolist() == pytest.approx([0, 0.2, 1, 0.2])
    assert data.with_pixels("standard") is data
    assert data.normalise(x.astype(np.float64)).mean() == pytest.approx(0, abs=1e-6)


def test_the_digits_have_seventeen_levels():
    """Their white is 16, so that they too reach from 0 to 1."""
    digits = unskew.load("digits").with_pixels("unit")
    seen = digits.normalise(digits.x.astype(np.float32))
    assert (seen.min(), seen.max()) == (0, 1)


def test_a_run_trains_and_predicts_on_unit_pixels(tmp_path):
    """The model is another, it has its scale inside it, and a run read from its folder has it too."""
    x, y = images()
    unit, standard = (
        unskew.run(dataset=(x, y), pixels=seen, out=tmp_path / seen, **SETTINGS)
        for seen in ("unit", "standard")
    )
    assert unit.result["model_sha256"] != standard.result["model_sha256"]
    assert unit.model.std.flatten().tolist() == [255]
    again = unskew.load_run(tmp_path / "unit")
    assert np.array_equal(again.predict(x).probabilities, unit.predict(x).probabilities)


@pytest.mark.parametrize("engine", ["loop", "fast"])
def test_a_federation_made_in_python_is_seen_alike(engine):
    """Samples given as arrays and as a federation end in the same model."""
    from unskew.data.federation import Federation

    x, y = images()
    parts = {f"client {k}": (x[k::4], y[k::4]) for k in range(4)}
    made = Federation.from_clients(parts)
    told = {name: value for name, value in SETTINGS.items() if name not in ("partition", "clients")}
    by_hand = Federation.from_clients({k: (v / 255.0, w) for k, (v, w) in parts.items()})
    by_hand.dataset.mean[:], by_hand.dataset.std[:] = 0, 1
    runs = [
        unskew.run(dataset=made, pixels="unit", engine=engine, precision="fp64", **told),
        unskew.run(dataset=by_hand, engine=engine, precision="fp64", **told),
    ]
    one, other = (run.frame()["global_test_loss"].iloc[-1] for run in runs)
    assert one == pytest.approx(other, rel=1e-6)


@pytest.mark.parametrize("x", [images(np.float32)[0], np.zeros((40, 5), np.float32)])
def test_what_has_no_8_bit_pixels_is_refused(x, tmp_path):
    """In one sentence, and nothing is written."""
    with pytest.raises(
        InputError, match=r"pixels = unit divides images of 8-bit pixels by 255, .*; leave pixels out"
    ):
        unskew.run(dataset=(x, images()[1]), pixels="unit", out=tmp_path / "run", **SETTINGS)
    assert not (tmp_path / "run").exists()
