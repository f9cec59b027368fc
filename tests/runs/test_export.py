"""A trained model leaves: each form gives the answers of the run's own model, without unskew."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open

import unskew
from unskew.cli import main
from unskew.errors import InputError
from unskew.runs.ended import Run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A small network on digits, two rounds, the model of the first kept."""
    out = tmp_path_factory.mktemp("export") / "run"
    return unskew.run(
        dataset="digits", clients=4, cohort=4, rounds=2, model="small_cnn", keep=(1,), out=out, progress=False
    )


@pytest.fixture(scope="module")
def samples(run: Run) -> np.ndarray[Any, Any]:
    """Seven raw samples: another number than the model was traced with."""
    return run.job.roster.dataset.x_test[:7].astype(np.float32)


def logits(run: Run, samples: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    with torch.no_grad():
        return run.model(torch.from_numpy(samples)).numpy()


def test_weights_have_names_a_scale_and_a_note(
    run: Run, samples: np.ndarray[Any, Any], tmp_path: Path
) -> None:
    """As many lines as a reader without unskew has: the layers by name, (x - mean) / std, the labels."""
    place = run.save(tmp_path / "model.safetensors")
    with safe_open(place, "np") as file:
        note = json.loads(file.metadata()["unskew"])
        held = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  not a dict
    model = run.model
    assert note["labels"] == list("0123456789")
    assert note["round"] == 2
    weights = {
        k.removeprefix("net."): v.numpy() for k, v in model.state_dict().items() if k.startswith("net.")
    }
    assert set(held) == {*weights, "input_mean", "input_std"}
    assert all(np.array_equal(held[k], v) for k, v in weights.items())
    assert np.array_equal(held["input_mean"], model.mean.numpy())


@pytest.mark.parametrize(
    "settings",
    [
        {"model": "thesis_fashion", "method": "ccvr"},
        {"model": "thesis_fashion", "batch_norm": "local", "precision": "fp64"},
        {"method": "fedbr", "model": "mlp(hidden=[20])"},
    ],
    ids=str,
)
def test_weights_copied_from_a_folder_are_the_bytes_that_a_model_writes(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    """Which is made of no module, and needs no torch."""
    out = tmp_path / "run"
    made = unskew.run(dataset="digits", clients=4, cohort=4, rounds=1, out=out, progress=False, **settings)
    read = unskew.load_run(out)
    assert read._arrays(tmp_path / "model.safetensors") is not None
    written = [one.save(tmp_path / f"{name}.safetensors") for name, one in (("made", made), ("read", read))]
    notes = []
    for place in written:
        with safe_open(place, "np") as file:
            notes.append(json.loads(file.metadata()["unskew"]))
    assert notes[0] == notes[1]
    assert written[0].read_bytes() == written[1].read_bytes()


def test_weights_of_a_model_of_ones_own_are_written_by_torch(run: Run, tmp_path: Path) -> None:
    """Its drawing is not known; and weights that do not fit the model's drawing are refused as before."""
    assert run.path is not None
    read = unskew.load_run(run.path)
    place = tmp_path / "model.safetensors"
    read._card["model"] = "unskew.models:McMahanCNN"
    assert read._arrays(place) is None
    read._card["model"] = "mlp"
    assert read._arrays(place) is None
    with pytest.raises(InputError, match="do not fit mlp"):
        read.save(place)


def test_a_program_answers_as_the_model(run: Run, samples: np.ndarray[Any, Any], tmp_path: Path) -> None:
    """torch alone loads it, and any number of samples goes in."""
    files = {"unskew.json": ""}
    program = torch.export.load(run.save(tmp_path / "model.pt2"), extra_files=files).module()
    for count in (1, 7):
        np.testing.assert_allclose(
            program(torch.from_numpy(samples[:count])).detach(), logits(run, samples)[:count], atol=1e-6
        )
    assert json.loads(files["unskew.json"])["input"] == {"dtype": "float32", "shape": ["N", 1, 8, 8]}


def test_onnx_answers_as_the_model(run: Run, samples: np.ndarray[Any, Any], tmp_path: Path) -> None:
    """Another runtime loads it."""
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    session = onnxruntime.InferenceSession(run.save(tmp_path / "model.onnx"))
    (found,) = session.run(None, {"x": samples})
    np.testing.assert_allclose(found, logits(run, samples), atol=1e-5)
    assert json.loads(session.get_modelmeta().custom_metadata_map["unskew"])["labels"] == list("0123456789")


def test_onnx_says_what_to_install(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extra nothing is written."""
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(InputError, match=r"pip install 'unskew\[onnx\]', or -o model.pt2"):
        run.save(tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_the_command_writes_the_model_of_a_round(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of those that were kept; the note says which."""
    place = tmp_path / "first.safetensors"
    assert main(["export", str(run.path), "-o", str(place), "--round", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["bytes"] == place.stat().st_size
    with safe_open(place, "pt") as file:
        assert json.loads(file.metadata()["unskew"])["round"] == 1
        name = next(n for n, p in run.model.named_parameters() if p.dim() > 1)
        assert not torch.equal(file.get_tensor(name.removeprefix("net.")), run.model.state_dict()[name])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["-o", "model.doc"], "a model is written as .safetensors, .pt2, .onnx, not as 'model.doc'"),
        (["-o", "nowhere/model.pt2"], "there is no folder nowhere to write model.pt2 in"),
        (["-o", "."], "a model is written as"),
        (["-o", "model.pt2", "--round", "7"], "but not of round 7"),
        (["-o", "model.pt2", "--client", "0"], "client 0 has no model of its own"),
        (["-o", "model.pt2", "--client", "0", "--round", "1"], "client and round name two models"),
        (
            ["-o", "{run}/model.safetensors"],
            "is what the run itself keeps, in a form of its own; write to another",
        ),
    ],
)
def test_bad_input_is_one_sentence(
    run: Run, words: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Exit code 2, and nothing is written."""
    monkeypatch.chdir(tmp_path)
    assert main(["export", str(run.path), *(word.format(run=run.path) for word in words)]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert sentence in said
    assert not list(tmp_path.iterdir())


def test_a_client_that_stayed_alone_gives_its_own(tmp_path: Path) -> None:
    """local_only: no global model leaves, a client's does."""
    alone = unskew.run(dataset="digits", clients=3, cohort=3, rounds=1, method="local_only", progress=False)
    with pytest.raises(InputError, match="makes no global model"):
        alone.save(tmp_path / "model.pt2")
    files = {"unskew.json": ""}
    torch.export.load(alone.save(tmp_path / "one.pt2", client=1), extra_files=files)
    assert json.loads(files["unskew.json"])["client"] == "1"


def test_what_torch_cannot_export_is_said_also_where_its_error_says_nothing(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error without a word, as ``raise NotImplementedError`` is, ended in an IndexError."""

    def silent(*given: object, **named: object) -> None:
        raise NotImplementedError

    monkeypatch.setattr(torch.export, "export", silent)
    with pytest.raises(InputError, match=r"torch cannot export this model \(NotImplementedError\)"):
        run.save(tmp_path / "model.pt2")
