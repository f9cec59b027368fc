"""The partition explorer without a browser: forms from declarations, answers that agree with the command line."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import pytest
from typer.testing import CliRunner

from unskew.cli import app
from unskew.data import load
from unskew.data.partition import FAMILIES, Family, Partition, build_family, partition
from unskew.data.partition.parameters import expression_of, parameters
from unskew.errors import InputError
from unskew.studio.explore import Asked, Explorer


@pytest.fixture
def explorer(tmp_path: Path) -> Explorer:
    return Explorer(tmp_path)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_form_begins_with_a_partition_that_can_be_made(name: str) -> None:
    """Of every family: what its fields declare is enough for a form whose first state is no error."""
    cls = FAMILIES[name]
    start = {one.name: str(one.start).lower() for one in parameters(cls, 10)}
    if name == "by":
        start["column"] = "the person"
    family = build_family(expression_of(cls, start, 10))
    for one in parameters(cls, 10):
        if one.low is not None and one.high is not None:
            assert one.low <= getattr(family, one.name) <= one.high
            for end in (one.low, one.high):
                build_family(expression_of(cls, start | {one.name: f"{end:g}"}, 10))


def test_a_family_of_ones_own_needs_no_line_here() -> None:
    """Plain annotations are enough: numbers slide from 0 to 1, whole ones to the classes, words are chosen."""

    @dataclass(frozen=True)
    class Own(Family):
        share: float
        many: int = 3
        law: Literal["a", "b"] = "b"
        name: ClassVar[str] = "own"

    Own.__annotations__ = {"share": float, "many": int, "law": Literal["a", "b"], "name": ClassVar[str]}
    found = {one.name: one for one in parameters(Own, 7)}
    assert (found["share"].low, found["share"].high) == (0, 1)
    assert (found["many"].low, found["many"].high, found["many"].start) == (1, 7, 3)
    assert (found["law"].choices, found["law"].start) == (("a", "b"), "b")


def test_what_is_shown_is_what_the_command_line_makes(explorer: Explorer, tmp_path: Path) -> None:
    """The command that the page offers, run as it stands, saves the partition that the page saves."""
    asked = Asked.read(
        {"family": "limit_labels", "p.t": "3", "p.f": "0.9", "clients": "12", "seed": "5", "fraction": ".5"}
    )
    shown = explorer.explore(asked)
    explorer.save(asked, "mine.npz")
    command = shlex.split(shown["commands"]["partition"])
    said = CliRunner().invoke(app, [*command[1:], "-o", str(tmp_path / "theirs.npz"), "--json"])
    assert said.exit_code == 0, said.output
    mine, theirs = (Partition.load(tmp_path / name) for name in ("mine.npz", "theirs.npz"))
    assert mine.record == theirs.record
    numbers = {one["measure"]: one["value"] for one in shown["numbers"]}
    assert numbers["EMD of the system"] == f"{json.loads(said.output)['emd']:.2f}"
    assert "--dataset digits --partition" in shown["commands"]["run"]


def test_an_emd_is_solved_with_what_the_form_says_where_it_can_be(explorer: Explorer) -> None:
    """EMD 1 with t = 4 needs f = 1/1.2; EMD 1.7 cannot be had with t = 4, so t gives way."""
    form = {"family": "limit_labels", "p.t": "4", "p.f": "1", "p.at_least": "0", "clients": "20"}
    assert explorer.solve(Asked.read(form), 1.0)["values"]["t"] == "4"
    found = explorer.solve(Asked.read(form), 1.7)
    assert found["values"]["t"] == "1"
    assert found["emd"] == pytest.approx(1.7, abs=0.03)
    listed = explorer.solve_all(Asked.read(form), 1.4)
    assert {"dirichlet", "limit_labels", "emd"} <= {one["family"] for one in listed}


def test_labels_are_kept_and_samples_are_not(explorer: Explorer) -> None:
    light = explorer.labels_of("digits")
    assert light.x.nbytes == 0
    assert explorer.labels_of("digits") is light
    whole = load("digits")
    made, same = (partition(data, "dirichlet(0.3)", 9) for data in (light, whole))
    assert made.record == same.record


def test_own_files_lie_in_the_folder(explorer: Explorer, tmp_path: Path) -> None:
    """A table of the folder is offered, read with options and split by its column; a partition is no data."""
    rows = "".join(f"{at / 7:.3f},{at % 3},{'<script>' if at % 2 else 'b'}\n" for at in range(60))
    (tmp_path / "readings.csv").write_text("x,activity,site\n" + rows)
    np.savez(tmp_path / "part.npz", offsets=np.zeros(2))
    assert explorer.offered()["files"] == ["readings.csv"]
    asked = Asked.read(
        {"data": "readings.csv(label=activity, client=site)", "family": "by", "p.column": "site"}
    )
    shown = explorer.explore(asked)
    assert shown["clients"] == 2
    assert "<script>" not in shown["said"]
    assert "readings.csv(label=activity, client=site)" in shown["commands"]["run"]


@pytest.mark.parametrize(
    ("form", "sentence"),
    [
        ({"data": "../secret.csv"}, "outside"),
        ({"data": "/etc/passwd"}, "outside"),
        ({"data": "nothing.csv"}, "there is no file"),
        ({"family": "nobody"}, "nobody"),
        ({"clients": "many"}, "clients must be a whole number"),
        ({"clients": "10000000"}, "at most 10,000 clients"),
        ({"p.alpha": "-1"}, "alpha of dirichlet must be above 0"),
        ({"p.alpha": "iid)+x("}, "partition"),
        ({"fraction": "7"}, "fraction"),
    ],
)
def test_bad_values_are_one_sentence(explorer: Explorer, form: dict[str, str], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        explorer.explore(Asked.read({"family": "dirichlet", "p.alpha": "0.1", **form}))


def test_nothing_is_saved_over_or_elsewhere(explorer: Explorer, tmp_path: Path) -> None:
    asked = Asked.read({"family": "iid", "clients": "4"})
    (tmp_path / "there.npz").write_text("mine")
    for name in ("there.npz", "../elsewhere.npz", "plain", ""):
        with pytest.raises(InputError):
            explorer.save(asked, name)
    assert (tmp_path / "there.npz").read_text() == "mine"
    assert [file.name for file in tmp_path.iterdir()] == ["there.npz"]


def test_dragging_needs_no_torch() -> None:
    """A partition is dealt, measured, judged and drawn in a process that has not loaded torch."""
    script = (
        "import sys, pathlib; from unskew.studio.explore import Asked, Explorer; "
        "Explorer(pathlib.Path('.')).explore(Asked.read({'p.alpha': '0.1'})); print('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.strip() == "False"
