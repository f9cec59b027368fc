"""What a sweep hands to the process of a cell: a spec file, which says what a command line could not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from unskew import InputError, Spec
from unskew.cli import main
from unskew.runs.cell_file import read_cell, write_cell
from unskew.runs.folder import read_folder
from unskew.runs.spec import Unsaid, UnsaidNumber
from unskew.runs.sweep import sweep

pytestmark = pytest.mark.usefixtures("quick_sweeps")

TINY: dict[str, Any] = {"clients": 4, "rounds": 1, "model": "linear", "partition": "iid", "engine": "loop"}


@pytest.mark.parametrize(
    "spec",
    [
        Spec(),
        Spec(cohort=10, partition="dirichlet(0.1)", client="site"),
        Spec(method_label="--json", features=("none", "1", "a, b"), target=(0.5, 0.75), keep=(1, 2)),
        Spec(cohort=0.5, nesterov=True, momentum=0.9, data_folder="-elsewhere", lr=1e-5),
    ],
)
def test_a_spec_comes_out_as_it_went_in(spec: Spec, tmp_path: Path) -> None:
    """Every value, and what nobody wrote is still what nobody wrote."""
    write_cell(tmp_path / "cell.json", spec, tmp_path / "run", {"target": (0.5,), "workers": 2})
    found, folder, renewed = read_cell(tmp_path / "cell.json")
    assert found == spec
    assert isinstance(found.partition, Unsaid) is isinstance(spec.partition, Unsaid)
    assert isinstance(found.cohort, UnsaidNumber) is isinstance(spec.cohort, UnsaidNumber)
    assert (folder, renewed) == (tmp_path / "run", {"target": (0.5,), "workers": 2})


def test_a_cell_has_the_settings_as_they_were_given(tmp_path: Path) -> None:
    """A label that looks like a flag, and a cohort that was written although it is the default."""
    done = sweep({"method_label": ["--debug"]}, tmp_path / "sweep", **TINY)
    assert [(cell.status, cell.error) for cell in done] == [("done", "")]
    assert read_folder(done[0].folder)[1].method_label == "--debug"
    assert read_folder(done[0].folder)[1].cohort == 4
    done = sweep({"seed": [0]}, tmp_path / "other", cohort=10, **TINY)
    assert [cell.error for cell in done] == [
        "error: the cohort of 10 is larger than the 4 clients; write cohort = 4 or less"
    ]
    again = sweep({"method_label": ["--debug"]}, tmp_path / "sweep", **TINY)  # its cohort is that of its data
    assert [cell.status for cell in again] == ["done"]


def test_another_file_is_refused_in_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever is in it."""
    for content in ("", "[]", "{}", '{"spec": 1, "folder": "x", "renewed": 2}'):
        (tmp_path / "cell.json").write_text(content)
        with pytest.raises(InputError, match="is no spec file of a sweep's cell"):
            read_cell(tmp_path / "cell.json")
    assert main(["cell", str(tmp_path / "nowhere.json")]) == 2
    assert "is no spec file" in capsys.readouterr().err
