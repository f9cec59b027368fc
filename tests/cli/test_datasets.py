"""``unskew datasets``: readable, exact, and without loading anything."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from unskew.cli import main
from unskew.data.sources import SOURCES


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


def test_the_table_lists_every_data_set_with_its_facts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["datasets", "--data-folder", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = {line.split()[0]: line.split() for line in lines[1 : 1 + len(SOURCES)]}
    assert list(rows) == list(SOURCES)
    assert rows["digits"] == ["digits", "1,438", "359", "1x8x8", "10", "-", "embedded"]
    assert rows["uci_har"] == ["uci_har", "7,352", "2,947", "1x128x9", "6", "subject", "-"]
    assert rows["urbansound8k"][1:4] == ["7,895", "837", "2x64x344"]
    assert f"data folder: {tmp_path} (--data-folder or UNSKEW_DATA_FOLDER changes it)" in lines


def test_what_is_in_the_folder_is_marked_with_what_it_really_is(
    shared_data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["datasets", "--data-folder", str(shared_data)]) == 0
    out = capsys.readouterr().out
    rows = {line.split()[0]: line.split() for line in out.splitlines()[1 : 1 + len(SOURCES)]}
    assert rows["mnist"][-1] == "yes"
    assert rows["cifar100"][-1] == "-"
    assert rows["uci_har"][1:3] == ["7,415", "2,996"]
    assert "* uci_har: rebuilt from the raw recordings" in out


def test_json_is_one_object(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["datasets", "--data-folder", str(tmp_path), "--json"]) == 0
    listing = json.loads(capsys.readouterr().out)
    assert listing["folder"] == str(tmp_path)
    facts = {d["name"]: d for d in listing["datasets"]}
    assert facts["cifar10"] == {
        "name": "cifar10",
        "description": "Photographs in ten classes: 32x32 colour images.",
        "train": 50_000,
        "test": 10_000,
        "shape": [3, 32, 32],
        "kind": "image",
        "classes": 10,
        "client_columns": [],
        "present": False,
        "place": None,
        "note": "",
    }


@pytest.mark.parametrize("name", SOURCES)
def test_a_name_tells_citation_licence_files_and_where_they_are_looked_for(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["datasets", name, "--data-folder", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    for heading in ("samples", "one sample", "classes", "client columns", "citation", "licence", "here"):
        assert f"\n{heading} " in out
    if name != "digits":
        assert str(tmp_path) in out
        assert SOURCES[name].remotes[0].file in out
    assert main(["datasets", name, "--data-folder", str(tmp_path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["name"] == name
    assert told["citation"]
    assert len(told["downloads"]) == len(SOURCES[name].remotes)


def test_an_unknown_name_is_one_sentence_and_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["datasets", "minst"]) == 2
    assert capsys.readouterr().err == "error: there is no data set 'minst'; did you mean 'mnist'?\n"


def test_listing_imports_neither_torch_nor_anything_slow(tmp_path: Path) -> None:
    code = (
        "import sys; from unskew.cli import main; "
        f"main(['datasets', '--json', '--data-folder', {str(tmp_path)!r}]); "
        "print({'torch', 'pandas', 'sklearn', 'scipy', 'PIL'} & {m.split('.')[0] for m in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("set()")
