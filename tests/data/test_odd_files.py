"""Files as browsers, spreadsheets and colleagues leave them: read, or refused in a sentence that helps."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import unskew
from unskew.cli import main
from unskew.data import load
from unskew.data.own import from_arrays
from unskew.errors import InputError
from unskew.studio.explore import Explorer

ROWS = "age,sex,site,label\n" + "".join(f"{k % 7}.5,{'fm'[k % 2]},{'ab'[k % 2]},{k % 3}\n" for k in range(30))


@pytest.fixture(autouse=True)
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("place", ["table (1).csv", "data (old)/table.csv", "data (old)/table (1).csv"])
def test_brackets_in_a_name_are_no_options(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    """As a browser calls a file that it has loaded before; every command reads it."""
    Path(place).parent.mkdir(exist_ok=True)
    Path(place).write_text(ROWS)
    assert main(["diagnose", place, "--label", "label", "--by", "site"]) == 0
    assert main(["partition", place, "by(site)", "--label", "label"]) == 0
    assert main(["partition", f"{place}(label=label)", "by(site)"]) == 0
    assert main(["run", "--dataset", place, "--label", "label", "--by", "site", "--dry-run"]) == 0
    assert "error" not in capsys.readouterr().err


def test_the_studio_reads_such_a_file_from_its_folder(tmp_path: Path) -> None:
    """Which is not the one where the process is."""
    folder = tmp_path / "runs"
    folder.mkdir()
    (folder / "table (1).csv").write_text(ROWS)
    assert Explorer(folder).labels_of("table (1).csv(label=label)").labels == ("0", "1", "2")


@pytest.mark.parametrize("name", ["visits.xlsx", "visits.csv.gz", "visits.json"])
def test_what_cannot_be_read_is_not_helped_by_leaving_the_label_out(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The sentence says what can be read, and not that --label is wrong."""
    Path(name).write_bytes(b"PK")
    for words in (["diagnose", name], ["run", "--dry-run", "--dataset", name]):
        assert main([*words, "--label", "outcome"]) == 2
        assert "own data is an .npz, .csv, .tsv or .parquet file" in capsys.readouterr().err


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize("name", ["pipe.csv", "pipe.npz"])
def test_a_pipe_is_refused_instead_of_waited_for(name: str) -> None:
    """A file is read more than once, and a pipe cannot be."""
    os.mkfifo(name)
    with pytest.raises(InputError, match=rf"^{name} is no file but a pipe or a device; write what it gives"):
        load(name)


def test_a_number_that_no_computer_holds_is_refused() -> None:
    """Whole numbers of hundreds of digits, at which pandas stumbles."""
    number = "9" * 400
    Path("huge.csv").write_text("age,bmi,label\n" + "".join(f"{number},{k}.5,{k % 2}\n" for k in range(12)))
    with pytest.raises(InputError, match=r"^column 'age' of huge.csv is infinite in 12 of 12 rows"):
        load("huge.csv")
    frame = pd.DataFrame({"age": [10**400, 1, 2, 3], "label": [0, 1, 0, 1]})
    with pytest.raises(InputError, match=r"^column 'age' of the frame is infinite in 1 of 4 rows"):
        unskew.from_frame(frame)


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (
            "1,f,a,0,9,9\n",
            "line 32 of odd.csv has 6 values, the header 4 names; quote a value that holds the separator, or take out "
            "what is too much",
        ),
        (
            '1,"f,a,0\n',
            "line 32 of odd.csv opens a quotation mark that nothing closes; close it or take it out",
        ),
    ],
)
def test_a_line_that_cannot_be_taken_apart_is_named(more: str, sentence: str) -> None:
    """In words of ours, with the line as an editor counts it."""
    Path("odd.csv").write_text(ROWS + more)
    with pytest.raises(InputError) as problem:
        load("odd.csv")
    assert str(problem.value) == sentence


def test_a_column_of_other_data_is_named_by_client_too(capsys: pytest.CaptureFixture[str]) -> None:
    """``--client site`` is ``--by site`` in a run as it is in a diagnosis, whatever the data is."""
    np.savez(
        "own.npz", x=np.random.default_rng(0).normal(size=(30, 3)), y=np.arange(30) % 3, site=["a", "b"] * 15
    )
    settings: dict[str, Any] = {"dataset": "own.npz", "rounds": 1, "progress": False, "engine": "loop"}
    one, other = unskew.run(client="site", **settings), unskew.run(by="site", **settings)
    assert one.result["final"] == other.result["final"]
    assert one.job.roster.names == ("a", "b")
    assert main(["run", "--dataset", "own.npz", "--client", "ward"]) == 2
    assert capsys.readouterr().err == "error: own has no column 'ward'; it has site\n"
    assert main(["run", "--dataset", "own.npz", "--label", "y"]) == 2
    assert "label names the label column of an own table, which" in capsys.readouterr().err


def pictures(*folders: str) -> None:
    for k, folder in enumerate(folders):
        Path(folder).mkdir(parents=True)
        for n in range(4):
            Image.new("L", (4, 4), 20 * k + n).save(Path(folder, f"{n}.png"))


def test_train_and_test_may_be_written_in_capitals() -> None:
    """They would be two classes, Train and Test, and nobody would be told."""
    pictures("Set/Train/cat", "Set/Train/dog", "Set/Test/cat", "Set/Test/dog")
    found = load("./Set")
    assert (found.labels, len(found.y), len(found.y_test)) == (("cat", "dog"), 8, 8)


def test_a_folder_for_each_site_is_noticed() -> None:
    """The sites would be the classes: it may be meant, so it is a warning."""
    pictures("sites/north/ill", "sites/north/well", "sites/south/ill", "sites/south/well")
    with pytest.warns(
        UserWarning, match="the classes of sites are its sub-folders, north, south, and each of them"
    ):
        assert load("./sites").labels == ("north", "south")


@pytest.mark.filterwarnings("error")
def test_folders_below_a_class_are_not_always_sites() -> None:
    """Where one class lies in one folder, or has folders of its own, nothing is said."""
    pictures("pets/cat", "pets/dog/big", "pets/dog/small")
    assert load("./pets").labels == ("cat", "dog")
    pictures("cars/red/2020", "cars/blue/2020", "cars/blue/2021")
    assert load("./cars").labels == ("blue", "red")


@pytest.mark.parametrize("given", [None, 3, ["digits"], pd.DataFrame({"a": [1]}), np.zeros(3)])
def test_load_says_what_it_takes(given: Any) -> None:
    """A frame or an array is what people hand over first."""
    with pytest.raises(
        InputError, match=r"^load takes a data set's name or a path, not a .*from_frame\(frame"
    ):
        load(given)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"test": "x"}, "test must be a number, not x"),
        ({"seed": "x"}, "seed must be a whole number, not x"),
        ({"seed": 1.5}, "seed must be a whole number, not 1.5"),
    ],
)
def test_numbers_of_arrays_are_numbers(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as problem:
        from_arrays(np.zeros((6, 2)), [0, 1] * 3, **options)
    assert str(problem.value) == sentence
