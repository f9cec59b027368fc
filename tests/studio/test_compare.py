"""Compare without a browser: what is picked is compared as a report compares it."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from unskew.errors import InputError
from unskew.report.results.comparison import compare
from unskew.report.results.front import trade_offs
from unskew.report.results.tables import csv_text, latex_text
from unskew.studio.compare import Comparer, exported

WriteRun = Callable[..., Path]


def groups_of(comparer: Comparer) -> dict[str, dict[str, Any]]:
    return {
        group["label"]: group for problem in comparer.listing()["problems"] for group in problem["groups"]
    }


def test_all_runs_are_compared_as_a_report_compares_them(six_runs: Path) -> None:
    """The same tables to the letter, and the same difference: 5 points over three paired seeds."""
    comparer = Comparer(six_runs)
    found, report = comparer.compared(), compare(six_runs)
    assert csv_text(found) == csv_text(report)
    assert exported(found, "latex")[0].decode() == latex_text(report)
    assert found.headline == report.headline
    assert found.tables[0][1][0].difference.mean == pytest.approx(0.05)


def test_groups_and_single_runs_are_picked(six_runs: Path) -> None:
    comparer = Comparer(six_runs)
    groups = groups_of(comparer)
    assert [run["seed"] for run in groups["fedavg"]["runs"]] == [0, 1, 2]
    alone = comparer.compared([groups["full"]["id"]])
    assert {record.spec.method for record in alone.records} == {"full"}
    two = comparer.compared([groups["full"]["id"], "fedavg-1"], baseline="full")
    assert sorted((r.spec.method, r.spec.seed) for r in two.records) == [
        ("fedavg", 1),
        *(("full", s) for s in range(3)),
    ]
    for bad in ("../sweep/fedavg-1", "nothing"):
        with pytest.raises(InputError):
            comparer.compared([bad])


def test_a_run_is_read_again_when_it_goes_on_and_only_then(six_runs: Path) -> None:
    comparer = Comparer(six_runs)
    before = {record.path: record for record in comparer.read()[0]}
    changed = six_runs / "fedavg-1"
    log = (changed / "rounds.jsonl").read_text().splitlines()
    (changed / "rounds.jsonl").write_text("\n".join(log[:2]) + "\n")
    after = {record.path: record for record in comparer.read()[0]}
    assert {path for path in before if before[path] is not after[path]} == {changed}
    shutil.rmtree(changed)
    assert len(comparer.read()[0]) == 5


def test_a_damaged_run_is_left_out_and_said(six_runs: Path) -> None:
    (six_runs / "fedavg-0" / "spec.json").write_text("{")
    comparer = Comparer(six_runs)
    assert "fedavg-0" in comparer.listing()["left_out"][0]
    assert len(comparer.compared().records) == 5


def test_labels_are_escaped(write_run: WriteRun, tmp_path: Path) -> None:
    for seed in range(2):
        write_run(
            f"r/a{seed}", [0.4, 0.5], method="fedavg", method_label="<script>alert(1)</script>", seed=seed
        )
    comparer = Comparer(tmp_path / "r")
    shown = comparer.shown(comparer.compared())
    assert "<script>alert" not in shown["html"]
    assert "&lt;script&gt;alert" in shown["html"]


def test_the_front_holds_whom_nobody_beats_in_all_three(write_run: WriteRun, tmp_path: Path) -> None:
    """fedavg moves least; sem reaches more but discloses; kld is worse than sem in all but its kinds, which tie."""
    told = {"sem": ["half-trained models"], "kld": ["label counts"]}
    for method, accuracy, extra in (("fedavg", 0.7, 0), ("sem", 0.8, 10), ("kld", 0.75, 20)):
        for seed in range(2):
            write_run(
                f"r/{method}-{seed}",
                [0.1, accuracy],
                method=method,
                seed=seed,
                lines={"bytes_peer": extra * 1000},
                result={"discloses": told.get(method, [])},
            )
    rows = compare(tmp_path / "r").tables[0][1]
    assert {one.row.group.label: one.beaten_by for one in trade_offs(rows)} == {
        "sem": "",
        "fedavg": "",
        "kld": "sem",
    }


@pytest.mark.parametrize(("kind", "start"), [("png", b"\x89PNG"), ("svg", b"<svg"), ("pdf", b"%PDF")])
def test_figures_are_exported(six_runs: Path, kind: str, start: bytes) -> None:
    content, _, name = exported(Comparer(six_runs).compared(), kind)
    assert content.startswith(start)
    assert name == f"compare.{kind}"


def test_a_table_is_exported(six_runs: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(exported(Comparer(six_runs).compared(), "csv")[0].decode())))
    assert [row["label"] for row in rows] == ["full", "fedavg"]
    with pytest.raises(InputError, match="exe"):
        exported(Comparer(six_runs).compared(), "exe")


def test_an_empty_folder_says_so(tmp_path: Path) -> None:
    comparer = Comparer(tmp_path)
    assert json.dumps(comparer.listing()) == '{"problems": [], "left_out": []}'
    with pytest.raises(InputError, match="no run in this folder"):
        comparer.compared()
