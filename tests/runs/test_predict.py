"""A trained model takes raw inputs, and comes back from its folder without the training data."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from torch import nn

import unskew
from unskew.cli import main
from unskew.core.memory_names import OWN_MODEL
from unskew.data.intake import Inputs
from unskew.errors import InputError
from unskew.runs.ended import Run
from unskew.runs.predict import Prediction

SETTINGS = {"clients": 5, "cohort": 5, "rounds": 3, "lr": 0.1, "partition": "iid", "progress": False}


def unscaled() -> tuple[np.ndarray, np.ndarray]:
    """Two classes, told apart by a column whose numbers are thousands of times those of the other."""
    rng = np.random.default_rng(0)
    y = np.arange(200) % 2
    x = np.column_stack([rng.normal(5000, 100, 200) + 300 * y, rng.normal(0, 0.1, 200)])
    return x.astype(np.float32), np.where(y, "ill", "well")


def a_run(tmp_path: Path, **settings: object) -> Run:
    return unskew.run(dataset=unscaled(), out=tmp_path / "run", **{**SETTINGS, **settings})  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def patients(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table, and with a run on it."""
    folder = tmp_path_factory.mktemp("patients")
    rng = np.random.default_rng(1)
    ill = np.arange(120) % 2
    frame = pd.DataFrame(
        {
            "patient_id": np.arange(120) + 500,
            "pressure": rng.normal(120, 10, 120) + 40 * ill,
            "sex": np.array(["f", "m"])[rng.integers(0, 2, 120)],
            "site": np.array(["north", "south", "east"])[np.arange(120) % 3],
            "outcome": np.where(ill, "ill", "well"),
        }
    )
    frame.loc[[5, 6], "pressure"] = np.nan
    frame.to_csv(folder / "patients.csv", index=False)
    unskew.run(
        dataset=folder / "patients.csv", label="outcome", partition="by(site)", cohort=3, impute="median",
        rounds=4, lr=0.1, out=folder / "run", progress=False,
    )  # fmt: skip
    return folder


def test_the_module_that_comes_out_takes_raw_inputs() -> None:
    """Normalisation is inside it: on the unscaled test set it is as good as the run says."""
    x, y = unscaled()
    ended = unskew.run(dataset=(x, y), **SETTINGS)  # type: ignore[arg-type]
    data = unskew.from_arrays(x, y)
    with torch.no_grad():
        guess = ended.model(torch.from_numpy(data.x_test)).argmax(1).numpy()
    assert (guess == data.y_test).mean() == pytest.approx(ended.result["final"]["accuracy"])
    assert ended.result["final"]["accuracy"] > 0.9


def test_predict_gives_labels_and_probabilities() -> None:
    """The labels are the classes' names; a row of probabilities sums to 1; one sample is enough."""
    x, y = unscaled()
    ended = unskew.run(dataset=(x, y), **SETTINGS)  # type: ignore[arg-type]
    labels, probabilities = ended.predict(x)
    assert (labels == y).mean() > 0.9
    assert probabilities.sum(1) == pytest.approx(np.ones(200))
    assert ended.labels == ("ill", "well")
    alone = ended.predict(x[0])
    assert alone.labels.tolist() == labels[:1].tolist()
    with pytest.raises(
        InputError, match=r"x has the shape \(200, 1\), but this model takes rows of 2 numbers: give"
    ):
        ended.predict(x[:, :1])


def test_a_run_comes_back_from_its_folder(tmp_path: Path) -> None:
    """Model, labels, spec and log, with the same probabilities to the bit."""
    ended = a_run(tmp_path)
    back = unskew.load_run(tmp_path / "run")
    x, _ = unscaled()
    assert np.array_equal(back.predict(x).probabilities, ended.predict(x).probabilities)
    assert (back.labels, back.spec, back.done) == (ended.labels, ended.spec, True)
    assert back.log == ended.folder.lines
    assert back.result == ended.result
    assert (back.round, back.calibrated) == (3, False)
    assert "done, 3 rounds, model of round 3" in repr(back)


def test_a_table_is_not_needed_to_use_its_model(patients: Path, tmp_path: Path) -> None:
    """The folder alone, elsewhere, predicts raw rows: identifiers are passed over, gaps are filled."""
    shutil.copytree(patients / "run", tmp_path / "moved")
    frame = pd.read_csv(patients / "patients.csv")
    found = unskew.load_run(tmp_path / "moved")
    answers = found.predict(frame.drop(columns=["outcome", "patient_id"]))
    right = (answers.labels == frame["outcome"]).mean()
    assert right > 0.9
    assert found.predict(frame).accuracy == pytest.approx(right)
    assert found.names == ("east", "north", "south")
    assert (
        found.predict(frame.assign(outcome=frame["outcome"] == "ill")).accuracy is None
    )  # other names of classes
    with pytest.raises(
        InputError, match="the frame lacks the columns pressure, sex; it has patient_id, site, outcome"
    ):
        found.predict(frame.drop(columns=["pressure", "sex"]))
    with pytest.raises(
        InputError, match="column 'pressure' of the frame must hold numbers, but row 0 has 'high'"
    ):
        found.predict(frame.assign(pressure="high"))


def test_predict_writes_a_table_with_names_and_probabilities(
    patients: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every row of the input, its own columns first; and a count of the answers."""
    out = tmp_path / "out.csv"
    assert main(["predict", str(patients / "run"), str(patients / "patients.csv"), "-o", str(out)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("120 predicted: ")
    assert "of them are right" in said
    found = pd.read_csv(out)
    assert list(found.columns[-3:]) == ["prediction", "probability_ill", "probability_well"]
    assert found["patient_id"].tolist() == list(range(500, 620))
    assert set(found["prediction"]) <= {"ill", "well"}
    assert main(["predict", str(patients / "run"), str(patients / "patients.csv"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["rows"] == 120
    assert told["predictions"][0]["prediction"] == found["prediction"][0]


def test_numbers_of_classes_and_of_rows_are_told_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Classes 1 and 2; a file with another separator is read all the same, and one of classes 0 and 1 is noticed."""
    x, words = unscaled()
    frame = pd.DataFrame(x, columns=["a", "b"]).assign(label=(words == "ill") + 1)
    frame.to_csv(tmp_path / "semi.csv", index=False, sep=";")
    unskew.run(dataset=f"{tmp_path}/semi.csv(sep=';')", out=tmp_path / "run", **SETTINGS)  # type: ignore[arg-type]
    frame.assign(label=frame["label"] - 1).to_csv(tmp_path / "comma.csv", index=False)
    assert main(["predict", f"{tmp_path}/run", f"{tmp_path}/comma.csv", "-o", f"{tmp_path}/out.csv"]) == 0
    said = capsys.readouterr().out
    assert "of class 1" in said.splitlines()[0]
    assert "rows of 0 cannot be: the model knows 1, 2" in said
    assert main(["predict", f"{tmp_path}/run", f"{tmp_path}/semi.csv", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["unknown_classes"] == []


@pytest.mark.parametrize(
    ("sign", "sep", "above"),
    [("\t", r"\t", ""), ("  ", r"\s+", ""), (";", ";", "\n")],
    ids=["tab", "spaces", "line"],
)
def test_a_file_is_read_as_the_one_that_its_model_was_trained_on(
    sign: str, sep: str, above: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever separates its columns, and below empty lines, which a table may begin with."""
    x, words = unscaled()
    rows = [sign.join(["a", "b", "label"])] + [
        f"{a}{sign}{b}{sign}{w}" for (a, b), w in zip(x, words, strict=True)
    ]
    (tmp_path / "t.csv").write_text(above + "\n".join(rows) + "\n")
    unskew.run(dataset=f"{tmp_path}/t.csv(sep='{sep}')", out=tmp_path / "run", **SETTINGS)  # type: ignore[arg-type]
    assert main(["predict", f"{tmp_path}/run", f"{tmp_path}/t.csv", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == len(x)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["{folder}/run", "{folder}/none.csv"], "there is no file or folder {folder}/none.csv"),
        (["{folder}", "{folder}/patients.csv"], "{folder} is not a run folder: it has no spec.json"),
        (
            ["{folder}/run", "{folder}/patients.csv", "-o", "out.xlsx"],
            "predictions are written as .csv, .tsv or .parquet, not as 'out.xlsx'; write -o FILE.csv",
        ),
        (
            ["{folder}/run", "{folder}/run"],
            "this model takes rows with the columns pressure, sex, not pictures",
        ),
        (
            ["{folder}/run", "{folder}/patients.csv", "-o", "{folder}/patients.csv"],
            "{folder}/patients.csv is the data that is read, and would be lost; write to another file",
        ),
    ],
)
def test_bad_input_is_one_sentence(
    words: list[str], message: str, patients: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", *(word.format(folder=patients) for word in words)]) == 2
    assert capsys.readouterr().err.strip() == f"error: {message.format(folder=patients)}"


def test_rows_that_a_rule_drops_have_no_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With impute=drop a row with a gap keeps its place, with an empty label, and is not counted as predicted."""
    x, y = unscaled()
    frame = pd.DataFrame(x, columns=["a", "b"]).assign(label=y)
    frame.to_csv(tmp_path / "t.csv", index=False)
    told = {"dataset": tmp_path / "t.csv", "impute": "drop", "out": tmp_path / "run"}
    ended = unskew.run(**told, **SETTINGS)  # type: ignore[arg-type]
    frame.loc[3, "a"] = np.nan
    answers = ended.predict(frame)
    assert answers.labels[3] == ""
    assert np.isnan(answers.probabilities[3]).all()
    assert answers.left_out == 1
    frame.to_csv(tmp_path / "new.csv", index=False)
    assert main(["predict", f"{tmp_path}/run", f"{tmp_path}/new.csv", "-o", f"{tmp_path}/out.csv"]) == 0
    assert f"{len(frame) - 1} of {len(frame)} predicted: " in capsys.readouterr().out


def test_pictures_are_read_as_in_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder, paths and arrays give the same answers; another size, or shares of 1, are refused."""
    for label, shade in (("dark", 20), ("light", 200)):
        (tmp_path / "shades" / label).mkdir(parents=True)
        for k in range(10):
            Image.new("L", (6, 8), shade + k).save(tmp_path / "shades" / label / f"{k}.png")
    ended = unskew.run(
        dataset=tmp_path / "shades", out=tmp_path / "run", **{**SETTINGS, "clients": 2, "cohort": 2}
    )  # type: ignore[arg-type]
    answers = ended.predict(tmp_path / "shades")
    assert answers.accuracy == 1.0
    files = [tmp_path / "shades" / "dark" / f"{k}.png" for k in range(3)]
    assert ended.predict(files).labels.tolist() == ["dark"] * 3
    array = np.stack([np.asarray(Image.open(f)) for f in files])
    assert np.array_equal(ended.predict(array).probabilities, ended.predict(files).probabilities)
    with pytest.raises(
        InputError, match="trained on pictures of bytes, 0 to 255, and x holds numbers from 0 to 1"
    ):
        ended.predict(array / 255)
    Image.new("RGB", (9, 9), (200, 200, 200)).save(tmp_path / "other.png")
    assert main(["predict", str(tmp_path / "run"), str(tmp_path / "other.png")]) == 2
    assert "is 9x9 pixels but this model takes 6x8; scale it, or write --resize" in capsys.readouterr().err
    assert main(["predict", str(tmp_path / "run"), str(tmp_path / "other.png"), "--resize", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["predictions"][0]["prediction"] == "light"


def test_an_npz_file_can_be_predicted(tmp_path: Path) -> None:
    """Its x, and its y where it has one, by number or by name."""
    ended = a_run(tmp_path)
    x, y = unscaled()
    np.savez(tmp_path / "new.npz", x=x, y=y)
    assert ended.predict(tmp_path / "new.npz").accuracy == pytest.approx(
        (ended.predict(x).labels == y).mean()
    )
    np.savez(tmp_path / "bad.npz", a=x, b=y)
    with pytest.raises(InputError, match="must hold the array x; it holds a, b"):
        ended.predict(tmp_path / "bad.npz")


def test_an_unfinished_run_says_what_it_has(tmp_path: Path) -> None:
    """Stopped after two of five rounds: the model of its last checkpoint; before the first, none."""

    class Stop:
        def __enter__(self) -> None: ...

        def __exit__(self, *_: object) -> None: ...

        def advance(self, line: dict[str, int]) -> None:
            if line["round"] == 2:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        a_run(tmp_path, rounds=5, progress=Stop())
    found = unskew.load_run(tmp_path / "run")
    assert "not finished, 2 of 5 rounds, model of round 2" in repr(found)
    assert not found.done
    assert len(found.predict(unscaled()[0])) == 200
    shutil.rmtree(tmp_path / "run" / "state")
    again = unskew.load_run(tmp_path / "run")
    assert "no model yet" in repr(again)
    with pytest.raises(InputError, match="has no checkpoint yet, so there is no model in it; go on with"):
        _ = again.model


def test_the_calibrated_copy_is_what_is_kept(tmp_path: Path) -> None:
    """The folder's model is the one that the run was judged by; the global one is there as well."""
    ended = a_run(tmp_path, method="ccvr(virtual=20)", partition="labels(1)", epochs=2)
    back = unskew.load_run(tmp_path / "run")
    x, _ = unscaled()
    assert back.calibrated
    assert np.array_equal(back.predict(x).probabilities, ended.predict(x).probabilities)
    last = next(name for name in back.model.state_dict() if name.endswith("weight") and ".out" in name)
    assert not torch.equal(back.model.state_dict()[last], back.uncalibrated.state_dict()[last])


def test_a_module_given_in_python_is_given_again(tmp_path: Path) -> None:
    """The folder has its weights, frozen ones too, but not its code."""
    module = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 2))
    module[0].requires_grad_(False)
    ended = a_run(tmp_path, model=module)
    x, _ = unscaled()
    with pytest.raises(InputError, match=r"its weights are here but not its code: write unskew.load_run"):
        unskew.load_run(tmp_path / "run").predict(x)
    other = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 2))
    back = unskew.load_run(tmp_path / "run", model=other)
    assert np.array_equal(back.predict(x).probabilities, ended.predict(x).probabilities)
    assert np.array_equal(
        back.uncalibrated(torch.from_numpy(x)).detach(), ended.model(torch.from_numpy(x)).detach()
    )  # of the checkpoint, which has no frozen weights
    back.model.load_state_dict(ended.model.state_dict())
    with pytest.raises(InputError, match="do not fit the model given"):
        _ = unskew.load_run(tmp_path / "run", model=nn.Linear(2, 2)).model


def test_statistics_of_the_batch_judge_where_there_are_no_others(tmp_path: Path) -> None:
    """With batch_norm=local the model has none of its own; eval() does not make it use what was never measured."""
    rng = np.random.default_rng(0)
    y = np.arange(80) % 2
    x = (rng.normal(100, 30, (80, 1, 8, 8)) + 60 * y[:, None, None, None]).clip(0, 255).astype(np.uint8)
    settings = {**SETTINGS, "clients": 2, "cohort": 2}
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 2))
    ended = unskew.run(dataset=(x, y), model=model, batch_norm="local", out=tmp_path / "run", **settings)  # type: ignore[arg-type]
    data = unskew.from_arrays(x, y)
    right = (ended.predict(data.x_test).labels == np.array(data.labels)[data.y_test]).mean()
    assert right == pytest.approx(ended.result["final"]["accuracy"])
    with torch.no_grad():
        guess = ended.model.eval()(torch.from_numpy(data.x_test)).argmax(1).numpy()
    assert (guess == data.y_test).mean() == pytest.approx(right)
    back = unskew.load_run(tmp_path / "run", model=model)
    assert np.array_equal(back.predict(data.x_test).probabilities, ended.predict(data.x_test).probabilities)


@pytest.mark.parametrize("name", ["model.json", "model.safetensors"])
def test_damage_is_noticed(name: str, tmp_path: Path) -> None:
    """A changed byte is said, never predicted with; weights are taken from the checkpoint where they can."""
    ended = a_run(tmp_path)
    file = tmp_path / "run" / name
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    x, _ = unscaled()
    found = unskew.load_run(tmp_path / "run")
    if name == "model.json":
        with pytest.raises(InputError, match=r"model.json is damaged; with its data at hand, unskew.resume"):
            found.predict(x)
    else:
        with pytest.warns(
            UserWarning, match=r"model.safetensors is damaged; the last checkpoint is taken instead"
        ):
            assert np.array_equal(found.predict(x).probabilities, ended.predict(x).probabilities)


def test_clients_who_stay_alone_have_their_own_models(tmp_path: Path) -> None:
    """local_only makes no global model; each client's own is asked by its name or number."""
    ended = a_run(tmp_path, method="local_only")
    back = unskew.load_run(tmp_path / "run")
    x, _ = unscaled()
    assert np.array_equal(back.predict(x, client=1).probabilities, ended.predict(x, client=1).probabilities)
    with pytest.raises(InputError, match="local_only makes no global model"):
        back.predict(x)
    del ended.state.clients.rows[OWN_MODEL][1]
    with pytest.raises(InputError, match="client 1 has no model of its own: it has not trained"):
        ended.predict(x, client=1)
    for one in (ended, back):
        for client in ("west", -1, 99):
            with pytest.raises(
                InputError, match=f"there is no client {client!r}: clients of this run have the numb"
            ):
                one.predict(x, client=client)


def test_a_client_that_is_not_there_is_named_beside_those_who_are(patients: Path, tmp_path: Path) -> None:
    alone = unskew.run(
        dataset=patients / "patients.csv", label="outcome", partition="by(site)", cohort=3, impute="median",
        method="local_only", rounds=1, out=tmp_path / "alone", progress=False,
    )  # fmt: skip
    for one in (alone, unskew.load_run(tmp_path / "alone")):
        with pytest.raises(InputError, match="there is no client 'west'; did you mean 'east'"):
            one.predict(patients / "patients.csv", client="west")
        with pytest.raises(
            InputError, match="there is no client 3: clients of this run have the numbers 0 to 2"
        ):
            one.predict(patients / "patients.csv", client=3)


def test_what_is_missing_after_training_is_told_so(patients: Path) -> None:
    """Another rule would be a setting of training, and a row of no client has no scale of its own."""
    rows = pd.read_csv(patients / "patients.csv").dropna()
    settings = {"by": "site", "cohort": 3, "rounds": 1, "progress": False}
    plain = unskew.run(dataset=unskew.from_frame(rows, "outcome", "site"), **settings)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"; fill them in, or train with a rule for them, impute=median, "):
        plain.predict(rows.assign(pressure=np.nan))
    own = unskew.from_frame(rows, "outcome", "site", fit="client")
    scaled = unskew.run(dataset=own, **settings)  # type: ignore[arg-type]
    with pytest.raises(
        InputError, match=r"^column 'site' of the frame, which says whose a row is, is empty in"
    ):
        scaled.predict(rows.assign(site=None))


def test_answers_are_written_as_pandas_writes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where pandas was not needed to read the input, it is not loaded for that: quotes, NaN and small numbers too."""
    shares = np.array([[0.1 + 0.2, 1e-11], [np.nan, 1.0], [0.0, 1 / 3]])
    names = ("a, b", 'the "other"')
    rows = {"file": ["x.png", "with, comma.png", "ä.png"]}
    answers = Prediction(np.array(["a, b", "", "1"]), shares, names, Inputs(shares, rows))
    for separator in (",", "\t"):
        by_pandas = answers.frame().to_csv(index=False, sep=separator)
        assert answers.csv(separator) == by_pandas
        with monkeypatch.context() as without:
            without.delitem(sys.modules, "pandas")
            assert answers.csv(separator) == by_pandas
