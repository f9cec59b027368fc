"""Exhibits: their files are sound, and one tiny cell of each runs."""

from __future__ import annotations

import json
from types import CodeType, FunctionType

import pytest

import unskew
from unskew.cli import main
from unskew.core.method import Method
from unskew.errors import InputError
from unskew.import_object import import_object
from unskew.reproduce.curves import draw_curves
from unskew.reproduce.exhibit import chosen_groups, exhibit_of, exhibits
from unskew.reproduce.running import line_of, read_kept, run_exhibit
from unskew.runs.spec import Spec


@pytest.mark.parametrize("name", exhibits())
def test_the_file_of_an_exhibit_is_sound(name: str) -> None:
    """Every method can be parsed, every setting is one, every base is run, groups have names of their own."""
    exhibit = exhibit_of(name)
    assert exhibit.read in ("best", "end")
    assert len({group.name for group in exhibit.groups}) == len(exhibit.groups)
    for group in exhibit.groups:
        for method in group.methods:
            Method.parse(method)
            Spec.of({**group.settings_of(method), "method": method})
        assert {cell.over for cell in group.cells} <= set(group.methods)
        assert set(group.differs) <= set(group.methods)
        measured = {"emd", "ceiling", "chance", "sparsity", "median_size", "classes"}
        assert measured <= set(group.skew), "the diagnosis cannot compare a split that was not measured"


@pytest.mark.parametrize("name", [name for name, exhibit in exhibits().items() if not exhibit.groups])
def test_an_exhibit_takes_the_flags_that_its_function_reads(name: str) -> None:
    """Of the function that makes its rows and those that it hands ``Wanted`` on to; another flag would be in vain."""

    def named(code: CodeType) -> set[str]:
        inner = (named(const) for const in code.co_consts if isinstance(const, CodeType))
        return set(code.co_names).union(*inner)

    def read(function: FunctionType, seen: set[FunctionType]) -> set[str]:
        seen.add(function)
        names = named(function.__code__)
        others = [function.__globals__.get(word) for word in names]
        on = [f for f in others if isinstance(f, FunctionType) and "Wanted" in f.__annotations__.values()]
        return names.union(*(read(f, seen) for f in on if f not in seen))

    exhibit = exhibit_of(name)
    heeded = read(import_object(exhibit.makes, "exhibit"), set())
    assert set(exhibit.takes) == heeded & {"rounds", "seeds", "data_folder"}


def test_the_papers_numbers_are_those_that_are_printed() -> None:
    """SEM on FedAvg: 66.13 - 64.05; on SCAFFOLD over SCAFFOLD; Seol & Kim print gains alone."""
    cells = {cell.name: cell for cell in exhibit_of("sem-table1").cells}
    assert cells["cifar10-0.1/sem"].printed == 2.08
    assert cells["cifar10-0.1/scaffold+sem"].over == "scaffold"
    assert cells["cifar10-0.1/scaffold+sem"].printed == 0.39
    assert {c.method: c.printed for c in exhibit_of("seol-kim-case1").cells}["kld"] == 22.5


def test_one_tiny_cell_of_every_exhibit_runs(capsys) -> None:
    """By the command; on the embedded digits, so that no data is needed."""
    assert main(["reproduce", "--quick", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {line["exhibit"] for line in told} == set(exhibits())
    assert all(line["rows"] > 0 if "rows" in line else 0 <= line["accuracy"] <= 1 for line in told)
    made = {line["exhibit"] for line in told if "rows" in line}
    assert made == {name for name, exhibit in exhibits().items() if exhibit.makes}


def test_cells_are_named_by_group_or_method_and_bring_their_base() -> None:
    """What is compared with something needs that something too."""
    exhibit = exhibit_of("sem-table1")
    chosen = {g.name: methods for g, methods in chosen_groups(exhibit, ["mnist-0.1/scaffold+sem"])}
    assert chosen == {"mnist-0.1": ("scaffold", "scaffold+sem")}
    assert len(list(chosen_groups(exhibit, []))) == len(exhibit.groups)
    with pytest.raises(InputError, match="there is no cell of sem-table1 'mnist'"):
        list(chosen_groups(exhibit, ["mnist"]))


@pytest.mark.usefixtures("quick_sweeps")
def test_an_exhibit_is_run_once_and_its_lines_are_kept(tmp_path) -> None:
    """Two methods, one seed, one round on the digits; the second time nothing is run again."""
    exhibit = exhibit_of("flea-digits")
    given = {"rounds": 1, "epochs": 1.0, "workers": 1}
    lines = run_exhibit(exhibit, tmp_path, ["fedmix"], given, [3], 1).lines
    assert [(line["method"], line["seed"]) for line in lines] == [("fedavg", 3), ("fedmix", 3)]
    line = lines[0]
    assert line["setting"]["partition"] == "labels(3)"
    assert len(line["accuracy"]) == 1
    assert line["version"]
    assert line["seconds"] >= 0
    log = next((tmp_path / "digits").glob("*fedavg*")) / "rounds.jsonl"
    before = log.stat().st_mtime_ns
    assert run_exhibit(exhibit, tmp_path, ["fedmix"], given, [3], 1).lines == lines
    assert log.stat().st_mtime_ns == before
    assert line_of(log.parent, exhibit.groups[0]) == line
    run_exhibit(exhibit, tmp_path, ["fedavg"], given, [4], 1)  # lines of other runs stay
    assert [(line["method"], line["seed"]) for line in read_kept(tmp_path)] == [
        ("fedavg", 3),
        ("fedmix", 3),
        ("fedavg", 4),
    ]


def test_a_line_of_a_model_that_is_calibrated_at_the_end_has_no_rounds_before_it(tmp_path) -> None:
    """They are FedAvg's, and a mean over the last ten would be, too."""
    settings = {"clients": 10, "cohort": 5, "rounds": 2, "epochs": 1, "progress": False}
    unskew.run(dataset="digits", method="ccvr(virtual=20)", out=tmp_path / "end", **settings)
    unskew.run(dataset="digits", method="ccvr(virtual=20, every=true)", out=tmp_path / "each", **settings)
    end, each = (line_of(tmp_path / name, exhibit_of("flea-digits").groups[0]) for name in ("end", "each"))
    assert "accuracy" not in end
    assert "best" not in end
    assert end["final"]["round"] == 2
    assert len(each["accuracy"]) == 2


@pytest.mark.usefixtures("quick_sweeps")
def test_lines_of_finished_runs_are_kept_when_the_rest_is_interrupted(tmp_path) -> None:
    """Ctrl-C after the first of two runs: its line is there."""

    def interrupt(cells) -> None:
        if any(cell.status == "done" for cell in cells):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_exhibit(exhibit_of("flea-digits"), tmp_path, ["fedmix"], {"rounds": 1}, [0], 1, tell=interrupt)
    assert [line["method"] for line in read_kept(tmp_path)] == ["fedavg"]


def test_the_command_says_what_is_wrong(capsys) -> None:
    """An exhibit that there is not, and seeds that are none."""
    assert main(["reproduce", "sem-table9"]) == 2
    assert "there is no exhibit 'sem-table9'; did you mean" in capsys.readouterr().err
    assert main(["reproduce", "flea-digits", "--seeds", "some"]) == 2
    assert "--seeds is a range such as 0-2" in capsys.readouterr().err


def test_the_list_and_a_table_are_shown(capsys) -> None:
    """Every exhibit with its state; ours beside theirs with a verdict."""
    assert main(["reproduce", "--json"]) == 0
    listed = {row["exhibit"]: row for row in json.loads(capsys.readouterr().out)}
    assert set(listed) == set(exhibits())
    assert "reproduced" in listed["sem-table1"]["state"]
    assert main(["reproduce", "sem-table1", "--show", "--cells", "cifar10-0.1/sem", "--json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)
    assert one["verdict"] == "holds"
    assert one["paper"] == 2.08
    assert one["best"]["mean"] == pytest.approx(2.777, abs=0.01)
    assert main(["reproduce", "sem-table1", "--show"]) == 0
    assert "SEM on five bases" in capsys.readouterr().out


def test_curves_are_drawn_of_one_group_with_runs(tmp_path, capsys) -> None:
    """From lines that have curves; the installed lines have none, and several groups are one too many."""
    group = exhibit_of("sem-table1").groups[0]
    base = {"exhibit": "sem-table1", "group": group.name, "seed": 0, "judged_every": 5}
    lines = [base | {"method": m, "accuracy": [0.2, 0.4, 0.5]} for m in ("fedavg", "sem", "scaffold")]
    picture = draw_curves(lines, group, tmp_path / "curves.png", window=3, part="sem")
    assert picture.read_bytes().startswith(b"\x89PNG")
    command = ["reproduce", "sem-table1", "--show", "--draw", str(tmp_path / "none.png")]
    assert main(command) == 2
    assert "--draw draws one group" in capsys.readouterr().err
    assert main([*command, "--cells", group.name]) == 2
    assert "is here with its curve; run it first" in capsys.readouterr().err
    assert not (tmp_path / "none.png").exists()
