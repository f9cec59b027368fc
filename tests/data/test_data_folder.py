"""The data folder and the door to it: which folder, which name, which option."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest

from unskew.data import load
from unskew.data.dataset import hold_out
from unskew.data.files import contents, data_folder, read_npz
from unskew.data.sources import SOURCES, about
from unskew.errors import InputError
from unskew.expression import render


def test_the_folder_is_the_argument_then_the_variable_then_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNSKEW_DATA_FOLDER", str(tmp_path / "variable"))
    assert data_folder(tmp_path / "argument") == tmp_path / "argument"
    assert data_folder() == tmp_path / "variable"
    monkeypatch.delenv("UNSKEW_DATA_FOLDER")
    assert data_folder().parts[-2:] == ("unskew", "data")


def test_the_variable_is_used_to_load(shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSKEW_DATA_FOLDER", str(shared_data))
    assert len(load("uci_har")) == 7415


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("minst", {}, "there is no data set 'minst'; did you mean 'mnist'?"),
        ("digits(tset=0.1)", {}, "digits has no parameter 'tset'; it is digits(test=0.2, seed=0)"),
        ("digits", {"sed": 1}, "digits has no parameter 'sed'; it is digits(test=0.2, seed=0)"),
        ("digits(test=2)", {}, "test of digits must lie between 0 and 1, not 2.0"),
        (
            "uci_har(channels=gyro)",
            {},
            "channels of uci_har must be all or body_acc or body_gyro or total_acc, not gyro",
        ),
        ("digits+mnist", {}, "'digits+mnist' names 2 data sets; write one"),
        ("no/such.csv", {}, "there is no file or folder no/such.csv"),
        ("no.npz(test=0.1)", {}, "there is no file or folder no.npz"),
    ],
)
def test_a_wrong_name_or_option_is_one_sentence(name: str, options: dict[str, int], message: str) -> None:
    with pytest.raises(InputError) as caught:
        load(name, **options)
    assert str(caught.value) == message


def test_a_file_of_no_known_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "data.xlsx"
    path.write_bytes(b"")
    with pytest.raises(InputError) as caught:
        load(path)
    assert str(caught.value) == (
        f"cannot read {path}: own data is an .npz, .csv, .tsv or .parquet file or a folder of images by class"
    )


def test_a_registered_name_wins_over_a_folder_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "digits").mkdir()
    assert load("digits").classes == 10


@pytest.mark.parametrize("name", SOURCES)
def test_every_data_set_tells_what_it_is_whose_and_on_what_terms(name: str) -> None:
    source = SOURCES[name]
    told = about(source)
    assert told["description"].endswith(".")
    assert told["citation"]
    assert told["licence"]
    assert render(source()) == name
    assert all(remote.addresses for remote in source.remotes)


def test_importing_the_data_sets_loads_neither_torch_nor_anything_slow() -> None:
    code = (
        "import sys, unskew.data; "
        "print({'torch', 'pandas', 'sklearn', 'scipy', 'PIL'} & {m.split('.')[0] for m in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_a_folder_is_listed_only_where_it_is_told_to(tmp_path: Path) -> None:
    for name in ("a", "in/a", "out/a"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    found = dict(contents(tmp_path, lambda n: n.endswith("a"), ("", "in")))
    assert found == {"a": b"a", "in/a": b"in/a"}


def test_archives_are_read_without_unpacking_them(tmp_path: Path) -> None:
    """A member that would land outside the folder is only read, so it cannot."""
    path = tmp_path / "x.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        member = tarfile.TarInfo("../../outside")
        member.size = 3
        tar.addfile(member, io.BytesIO(b"abc"))
    assert dict(contents(path, lambda n: True)) == {"../../outside": b"abc"}
    assert [f.name for f in tmp_path.iterdir()] == ["x.tar.gz"]


def test_an_npz_file_is_never_unpickled(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, x=np.array([{}], object))
    with pytest.raises(InputError) as caught:
        read_npz(path)
    assert str(caught.value) == (
        f"array 'x' of {path} holds Python objects, which are not read for safety; "
        "save it as numbers or strings"
    )


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", b"text"])
def test_what_is_no_npz_file_is_named(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    path.write_bytes(data)
    with pytest.raises(InputError, match=f"^{path} is damaged: "):
        read_npz(path)


def test_holding_out_takes_the_same_share_of_each_class_and_leaves_one_to_train_on() -> None:
    y = np.array([0] * 100 + [1] * 10 + [2] * 2 + [3])
    held = hold_out(y, 0.2, seed=0)
    assert np.bincount(y[held], minlength=4).tolist() == [20, 2, 1, 0]
    assert np.array_equal(held, hold_out(y, 0.2, seed=0))
    assert not np.array_equal(held, hold_out(y, 0.2, seed=1))
    assert not hold_out(y, 0, seed=0).any()
