"""Windows of sensors and spectrograms with every part there is, and the real sets with FLea's models for them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import unskew
from by_hand import viewed
from unskew.augment import FAMILIES
from unskew.core.method import Method
from unskew.data.dataset import Dataset, channel_moments
from unskew.data.federation import Federation
from unskew.expression import build
from unskew.parts import PARTS
from unskew.seeds import generator
from unskew.testing.plays import example
from unskew.testing.toy_federation import apart, other_engines, play

KINDS = {"series": ((1, 64, 2), "harnet"), "spectrogram": ((1, 12, 20), "audionet")}

WIDE = {"ccvr": "ccvr(variant=features, share=0.5)", "fedbr": "fedbr(width=16, out=8, group=4)"}
"""What HARNet's thousands of features want to be written."""


def federation(kind: str, shape: tuple[int, ...] | None = None) -> Federation:
    """Five clients of three classes, all of which they hold, one far more than the others; a class is a pitch."""
    rng = generator(0, "modalities", kind)
    shape = shape or KINDS[kind][0]
    counts = [[6, 1, 1], [1, 6, 1], [1, 1, 6], [5, 2, 1], [1, 2, 5]]
    y = np.concatenate([np.repeat([0, 1, 2], row) for row in counts])
    y_test = np.arange(12) % 3

    def samples(labels):
        time = np.arange(shape[-2])[:, None] if kind == "series" else np.arange(shape[-1])
        wave = np.sin(time * (labels.reshape(-1, 1, 1, 1) + 1) / 3)
        return (wave + 0.3 * rng.standard_normal((len(labels), *shape))).astype(np.float32)

    x, x_test = samples(y), samples(y_test)
    data = Dataset(f"tiny {kind}", x, y, x_test, y_test, ("a", "b", "c"), kind, {}, *channel_moments(x))
    return Federation(data, np.arange(len(y)), np.cumsum([0, *map(sum, counts)]))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", PARTS)
def test_every_part_takes_every_kind_of_data(name, kind):
    """One round and a bit of FLea's model for it, in batch norm's presence: the model moves and stays finite."""
    held, model = federation(kind), KINDS[kind][1]
    part = build(WIDE[name], PARTS, "part") if name in WIDE else example(PARTS[name])
    settings = {"rounds": 2, "epochs": 1, "batch": 4, "lr": 0.02, "cohort": 2, "precision": "fp32"}
    played = play(Method.of(part), held, model=model, **settings)
    assert played.hash != played.started
    assert all(torch.isfinite(v).all() for v in played.state.params.values())


@pytest.mark.parametrize("kind", KINDS)
def test_engines_agree_on_fleas_models(kind):
    """Batch norm and short batches included, to 1e-9 in float64."""
    held, model = federation(kind), KINDS[kind][1]
    method = Method.parse("fedaug(0.3)+fedgen(start=1, steps=2, batch=4)+scaffold")
    settings = {"rounds": 2, "epochs": 1, "batch": 3, "lr": 0.02, "cohort": 2}
    expected = play(method, held, model=model, **settings)
    for engine in other_engines():
        found = play(method, held, model=model, engine=engine, **settings)
        assert apart(expected.state.params, found.state.params) < 1e-9


@pytest.mark.parametrize("kind", KINDS)
def test_fedaug_alters_by_the_kind_of_data(kind):
    """Skewed clients get copies: of their own samples, changed, with the shape and the spread of the rest."""
    held = federation(kind)
    grown = viewed(Method.parse("fedaug(0.2, redraw=once)").prepare[0], held)
    new = np.concatenate([one.made[0] for one in grown.held if one.made is not None])
    assert new.shape[1:] == held.dataset.shape
    assert not any((new[0] == old).all() for old in held.dataset.x)
    assert 0.5 < new.std() / held.dataset.x.std() < 2
    assert kind in FAMILIES


def test_the_published_shapes_train():
    """Of UCI-HAR's three sensors, and of UrbanSound8K in stereo: a step each, and FLea's cut."""
    for kind, shape, model in (("series", (1, 128, 3), "harnet"), ("spectrogram", (2, 64, 344), "audionet")):
        method = Method.parse("flea(conv2, share=0.5)+fedaug(0.3)")
        settings = {"rounds": 2, "epochs": None, "steps": 1, "batch": 4, "cohort": 2, "precision": "fp32"}
        played = play(method, federation(kind, shape), model=model, **settings)
        assert played.hash != played.started
        assert played.lines[-1]["global_test_loss"] is not None


REAL = [
    ("uci_har(channels=body_acc)", "harnet", (1, 128, 3), "flea(conv2)"),
    ("urbansound8k(test=0.2)", "audionet", (1, 64, 126), "flea(conv2)+fedaug(0.8)"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("dataset", "model", "shape", "method"), REAL)
def test_real_recordings_train_end_to_end(dataset, model, shape, method, shared_data):
    """From the file to an accuracy, on FLea's partition, with its model cut where it cuts it."""
    run = unskew.run(
        dataset=dataset,
        data_folder=str(shared_data),
        partition="labels(3)",
        clients=30,
        samples_per_client=20,
        cohort=2,
        rounds=2,
        epochs=1,
        batch=16,
        optimizer="adam",
        lr=0.001,
        model=model,
        method=method,
        engine="loop",
        evaluate=2,
        progress=False,
    )
    assert unskew.load(dataset, data_folder=str(shared_data)).shape == shape
    assert run.result["final"]["accuracy"] > 0
    assert run.folder.lines[-1]["bytes"]["down"]["model for flea"] > 0
