"""Runs from Python: what goes in, what comes out, what a folder holds, how a run that was stopped goes on."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import unskew
from failing_runs import fails_after
from unskew.core.method import Method
from unskew.data import Federation, from_arrays
from unskew.errors import InputError, RunFailed
from unskew.progress import Silent
from unskew.runs.ended import Run
from unskew.runs.result import params_hash
from unskew.runs.running import resume, run
from unskew.sealed import unseal
from unskew.testing.toy_federation import ready, tiny

SETTINGS: dict[str, Any] = {
    "model": "mlp(hidden=[6])",
    "cohort": 4,
    "rounds": 5,
    "lr": 0.1,
    "batch": 4,
    "late": 0.3,
    "drop": 0.2,
    "measure": ("divergence",),
    "evaluate": 2,
    "checkpoint": 0.0,
}

ROUND_KEYS = {
    "round",
    "bytes_down",
    "bytes_up",
    "bytes_peer",
    "bytes",
    "sample_steps",
    "asked",
    "answered",
    "wall_s",
}


class Stops(Silent):
    """Ctrl-C once this many rounds are played."""

    def __init__(self, after: int):
        self.after = after

    def advance(self, line: dict[str, Any]) -> None:
        if line["round"] == self.after:
            raise KeyboardInterrupt("stopped")


def timeless(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: v for k, v in line.items() if k != "wall_s"} for line in lines]


def same(one: Run, other: Run) -> bool:
    """Every bit of the model and every number of the log but the time."""
    written = (
        [unseal(text, required=True) for text in (one.path / "rounds.jsonl").read_text().splitlines()]
        if one.path
        else None
    )
    results = [
        {k: v for k, v in r.result.items() if k not in ("totals", "runs_on", "effective")}
        for r in (one, other)
    ]
    return (
        params_hash(one.state.params) == params_hash(other.state.params)
        and timeless(one.folder.lines) == timeless(other.folder.lines)
        and (written is None or written == one.folder.lines)
        and results[0] == results[1]
    )


@pytest.fixture(scope="module")
def whole() -> Run:
    """The run that nobody stopped, in memory."""
    return run(dataset=tiny(), progress=False, **SETTINGS)


# --- what goes in


def test_the_public_names_are_functions_and_classes() -> None:
    """``unskew.run`` stays the function although a file of that name was loaded."""
    import unskew.runs.rounds
    import unskew.runs.sweep

    assert unskew.run is run
    assert unskew.resume is resume
    assert callable(unskew.sweep)
    assert unskew.Method.parse("fedavg") == unskew.Method()
    assert unskew.Federation is Federation
    assert set(unskew.__all__) <= set(dir(unskew)) | set(unskew._PUBLIC)
    with pytest.raises(AttributeError, match="module 'unskew' has no attribute 'rnu'"):
        unskew.rnu  # noqa: B018


def test_a_run_by_name() -> None:
    """The name of a data set and settings as words, as in the README."""
    ended = unskew.run(
        method="fedavg",
        dataset="digits",
        partition="dirichlet(0.1)",
        clients=20,
        cohort=5,
        rounds=2,
        model="linear",
        progress=False,
    )
    assert ended.result["status"] == "done"
    assert ended.result["data"]["name"] == "digits"
    assert (ended.spec.dataset, ended.spec.clients, ended.path) == ("digits", 20, None)


def test_a_run_on_arrays_is_named_for_what_it_is() -> None:
    """Given data are not "digits", whatever the default data set is."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 4)), np.array(["no", "yes"] * 30)
    ended = run(
        dataset=(x, y), partition="iid", clients=5, cohort=2, rounds=2, model="linear", progress=False
    )
    assert ended.spec.dataset == "own data"
    assert "own data" in repr(ended)
    assert ended.result["data"]["labels"] == ["no", "yes"]
    again = run(
        dataset=from_arrays(x, y),
        partition="iid",
        clients=5,
        cohort=2,
        rounds=2,
        model="linear",
        progress=False,
    )
    assert ended.result["model_sha256"] == again.result["model_sha256"]


@pytest.mark.parametrize("data", [{"x": 1}, 5, np.zeros((5, 2)), (np.zeros((5, 2)),), []])
def test_what_is_no_data_is_refused_in_one_sentence(data: Any) -> None:
    with pytest.raises(InputError, match=r"^dataset is a data set's name, a path, .* or arrays \(x, y\)"):
        run(dataset=data, progress=False)


def test_skew_is_told_before_and_after_preparation() -> None:
    """Pooled, nobody differs from the whole: EMD 0 with one client; without preparation there is no after."""
    settings = {"partition": "limit_labels(2)", "clients": 5, "cohort": 2, "rounds": 1, "model": "linear"}
    told = run(dataset="digits", method="centralized", progress=False, **settings).result
    assert told["skew"]["emd"] > 1.5
    assert (told["skew_prepared"]["emd"], told["skew_prepared"]["clients"]) == (0.0, 1)
    assert "skew_prepared" not in run(dataset="digits", progress=False, **settings).result


def test_a_federation_is_dealt_already(whole: Run) -> None:
    """Its clients are its own, and a partition beside it is refused instead of ignored."""
    assert (whole.spec.dataset, whole.spec.partition, whole.spec.clients) == ("tiny", "given", 8)
    with pytest.raises(InputError, match="a Federation is dealt to its clients already; leave partition out"):
        run(dataset=tiny(), partition="iid", **SETTINGS)


def test_a_method_needs_no_importable_class() -> None:
    """A part that was written in this very function runs: it is handed over, not named."""
    from dataclasses import dataclass
    from typing import ClassVar

    from unskew.core.method import Method
    from unskew.parts.aggregate import FedAvg

    @dataclass(frozen=True)
    class Here(FedAvg):
        """Averages."""

        name: ClassVar[str] = "here"

    one = run(dataset=tiny(), method=Method.of(Here()), progress=False, **SETTINGS)
    assert "Here" in one.spec.method
    plain = run(dataset=tiny(), progress=False, **SETTINGS)
    assert one.result["model_sha256"] == plain.result["model_sha256"]


def test_a_model_of_ones_own_is_copied_and_its_frozen_weights_stay() -> None:
    """The run works on a copy; the model that comes out has the names of the one that went in."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(36, 4), nn.ReLU(), nn.Linear(4, 3))
    model[1].requires_grad_(False)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    ended = run(dataset=tiny(), progress=False, **(SETTINGS | {"model": model}))
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    after = ended.model.net.state_dict()
    assert torch.equal(after["1.weight"], before["1.weight"])
    assert not torch.equal(after["3.weight"], before["3.weight"])
    model.load_state_dict(after)


def test_the_model_that_comes_out_is_the_one_that_was_judged(whole: Run) -> None:
    data = tiny().dataset
    with torch.no_grad():
        guess = whole.model(torch.tensor(data.x_test)).argmax(1).numpy()
    assert (guess == data.y_test).mean() == pytest.approx(whole.result["final"]["accuracy"])


# --- what comes out


def test_the_log_has_the_names_that_scripts_rely_on(whole: Run) -> None:
    for line in whole.folder.lines:
        assert set(line) >= ROUND_KEYS
    judged = [line["round"] for line in whole.folder.lines if "global_test_accuracy" in line]
    assert judged == [2, 4, 5]
    assert all("global_test_loss" in line for line in whole.folder.lines if "global_test_accuracy" in line)
    assert all(line["weight_divergence"] > 0 for line in whole.folder.lines)


def test_the_result_has_the_names_that_scripts_rely_on(whole: Run) -> None:
    result = whole.result
    assert result["status"] == "done"
    named = {"accuracy", "balanced_accuracy", "macro_f1", "worst_class", "log_loss", "round"}
    assert set(result["final"]) == named
    assert set(result["best"]) == {*named, "chosen_on"}
    assert result["final"]["round"] == 5
    assert result["best"]["accuracy"] == max(
        line["global_test_accuracy"] for line in whole.folder.lines if "global_test_accuracy" in line
    )
    for name in ("bytes_down", "bytes_up", "bytes_peer", "sample_steps", "asked", "answered", "wall_s"):
        assert result["totals"][name] == pytest.approx(sum(line[name] for line in whole.folder.lines))
    assert result["skew"]["clients"] == 8
    assert result["discloses"] == []
    assert result["model_sha256"] == params_hash(whole.state.params)
    assert result["late"] == sum(len(line.get("late", [])) for line in whole.folder.lines)
    json.dumps(result, allow_nan=False)


def test_rounds_to_a_target_are_the_first_that_reach_it() -> None:
    settings = SETTINGS | {"evaluate": 1, "target": (0.0, 1.0), "late": 0.0, "drop": 0.0, "lr": 1e-9}
    assert run(dataset=tiny(), progress=False, **settings).result["rounds_to_target"] == {
        "0.0": 1,
        "1.0": None,
    }


def test_a_run_that_explodes_says_so_in_valid_json() -> None:
    """A loss that is not a number is null: NaN is no JSON, and a report must be able to read it."""
    settings = SETTINGS | {"lr": 1e30, "rounds": 6, "late": 0.0, "measure": ()}
    ended = run(dataset=tiny(), progress=False, **settings)
    assert ended.folder.lines[-1]["global_test_loss"] is None
    assert ended.result["rejected"] > 0
    json.dumps([ended.result, *ended.folder.lines], allow_nan=False)


def test_measurements_of_a_run_that_explodes_are_null(tmp_path: Path) -> None:
    """What is not a number is no JSON, neither in what is returned nor in the files."""
    few = tiny(sizes=[4, 3, 5])
    settings = SETTINGS | {"lr": 1e30, "cohort": 2, "late": 0.0, "measure": ("divergence", "gamma")}
    ended = run(dataset=few, out=tmp_path / "run", progress=False, **settings)
    assert ended.result["gamma"]["gamma"] is None
    for name in ("result.json", "rounds.jsonl"):
        assert "NaN" not in (tmp_path / "run" / name).read_text()
        assert "Infinity" not in (tmp_path / "run" / name).read_text()


def test_a_diverged_model_has_no_correlation(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part whose correlation is not a number is left out of the line; a divergence is null."""
    from unskew.readings import number_or_none
    from unskew.runs.measure import correlation_watch

    monkeypatch.setattr("unskew.runs.correlation.watch", lambda *_: lambda model: {"a": 0.5, "b": np.nan})
    assert correlation_watch(ready(Method()).run)({}) == {"a": 0.5}
    assert [number_or_none(value) for value in (1.5, np.nan, np.inf)] == [1.5, None, None]


def test_the_log_as_a_table(whole: Run) -> None:
    """One row a round, nested costs as columns of their own."""
    frame = whole.frame()
    assert isinstance(frame, pd.DataFrame)
    assert frame["round"].tolist() == [1, 2, 3, 4, 5]
    assert (frame["bytes_up"] == frame["bytes_up_model"]).all()


def test_a_report_is_written_for_a_run(whole: Run, tmp_path: Path) -> None:
    report = pytest.importorskip("unskew.report")
    if not hasattr(report, "write_report"):
        pytest.skip("this version has no report yet")
    path = whole.report(tmp_path / "report.html")
    assert path.read_text().lstrip().lower().startswith("<!doctype html>")


def test_measurements_on_request() -> None:
    """Centralised training does not diverge from itself; Gamma is the difference of its two minima."""
    settings = SETTINGS | {"late": 0.0, "drop": 0.0, "measure": ("divergence", "gamma"), "rounds": 2}
    few = tiny(sizes=[4, 3, 5])
    settings |= {"cohort": 2}
    alone = run(dataset=few, progress=False, method="centralized", **settings)
    assert [line["weight_divergence"] for line in alone.folder.lines] == [0.0, 0.0]
    skewed = run(dataset=few, progress=False, **settings)
    found = skewed.result["gamma"]
    assert found["gamma"] == pytest.approx(found["global_minimum"] - found["mean_local_minimum"])
    assert found["gamma"] > 0


# --- the folder


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The same run with a folder."""
    return run(dataset=tiny(), out=tmp_path_factory.mktemp("runs") / "done", progress=False, **SETTINGS)


def test_a_folder_holds_what_re_creates_the_run(done: Run, whole: Run) -> None:
    assert same(done, whole)
    assert done.path is not None
    names = {p.name for p in done.path.iterdir()}
    kept = {"model.json", "model.safetensors"}
    assert names - {"lock"} == {"spec.json", "rounds.jsonl", "result.json", "state", *kept}
    assert unseal((done.path / "result.json").read_text(), required=True) == done.result
    assert {p.name for p in (done.path / "state").iterdir()} == {"000004.safetensors", "000005.safetensors"}


def test_a_run_that_is_done_is_returned_as_it_is(done: Run) -> None:
    assert done.path is not None
    before = {p: p.stat().st_mtime_ns for p in done.path.rglob("*.*")}
    again = resume(done.path, dataset=tiny(), progress=False)
    assert same(again, done)
    assert {p: p.stat().st_mtime_ns for p in done.path.rglob("*.*")} == before


def refused(sentence: str, **given: Any) -> None:
    with pytest.raises(InputError) as problem:
        run(progress=False, **(SETTINGS | given))
    assert str(problem.value) == sentence


def test_a_folder_that_is_taken_is_refused(done: Run, tmp_path: Path) -> None:
    assert done.path is not None
    refused(f"{done.path} already holds a run (done); choose another folder", dataset=tiny(), out=done.path)
    (tmp_path / "notes.txt").write_text("mine")
    refused(f"{tmp_path} is not empty and holds no run; choose another folder", dataset=tiny(), out=tmp_path)
    file = tmp_path / "notes.txt"
    refused(f"{file} is a file; name a folder for the run", dataset=tiny(), out=file)
    assert file.read_text() == "mine"


def test_a_taken_folder_is_refused_before_anything_takes_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To read data or to meet sites may take minutes."""
    (tmp_path / "notes.txt").touch()
    monkeypatch.setattr("unskew.runs.running.set_up", lambda *_, **__: pytest.fail("it was set up first"))
    refused(
        f"{tmp_path} is not empty and holds no run; choose another folder", dataset="digits", out=tmp_path
    )
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]


def test_what_is_refused_writes_nothing(tmp_path: Path) -> None:
    """Everything is loaded, built and checked before the folder is made."""
    out = tmp_path / "run"
    for wrong in (
        {"cohort": 50},
        {"method": "nope"},
        {"measure": ("x",)},
        {"model": "nope"},
        {"decay": "nope"},
    ):
        with pytest.raises(InputError):
            run(dataset=tiny(), out=out, progress=False, **(SETTINGS | wrong))
    assert not out.exists()


def test_a_folder_that_is_no_run_cannot_be_resumed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"{tmp_path} is not a run folder: it has no spec.json"):
        resume(tmp_path)
    for damage in ("not json", "{}", "[]", '{"format": 1}'):
        (tmp_path / "spec.json").write_text(damage)
        with pytest.raises(InputError, match=r"spec\.json is damaged: it is not the JSON of a run"):
            resume(tmp_path)


def test_a_folder_of_another_version_is_refused(done: Run, tmp_path: Path) -> None:
    assert done.path is not None
    old = tmp_path / "old"
    shutil.copytree(done.path, old)
    about = json.loads((old / "spec.json").read_text())
    (old / "spec.json").write_text(json.dumps(about | {"format": 0, "unskew": "0.0.1"}))
    with pytest.raises(InputError) as problem:
        resume(old, dataset=tiny())
    assert str(problem.value) == (
        f"{old} has run format 0, this version reads 2; use the unskew that wrote it (0.0.1)"
    )


def test_data_given_in_python_must_be_given_again(done: Run) -> None:
    with pytest.raises(InputError, match=r"was run on data given in Python; resume it there: unskew\.resume"):
        resume(done.path or "")


@pytest.mark.parametrize("what", ["x", "y", "x_test", "y_test"])
def test_other_data_are_noticed_wherever_they_differ(done: Run, what: str) -> None:
    """The last sample alone is enough."""
    from dataclasses import replace

    other = tiny()
    array = getattr(other.dataset, what).copy()
    array[-1] = (array[-1] + 1) % 3
    changed = replace(other, dataset=replace(other.dataset, **{what: array}))
    with pytest.raises(InputError) as problem:
        resume(done.path or "", dataset=changed)
    assert str(problem.value) == (
        f"the data of {done.path} is not what the run began with; give it the same data"
    )


# --- stopped and resumed


@pytest.mark.parametrize("after", [1, 2, 3, 4, 5])
def test_an_interrupt_after_any_round_leaves_a_run_that_goes_on(
    after: int, whole: Run, tmp_path: Path
) -> None:
    """Ctrl-C writes a last checkpoint, so nothing is played twice; the log says "running"."""
    out = tmp_path / "run"
    settings = SETTINGS | {"checkpoint": 1000.0}
    with pytest.raises(KeyboardInterrupt):
        run(dataset=tiny(), out=out, progress=Stops(after), **settings)
    assert json.loads((out / "result.json").read_text())["status"] == "running"
    assert [p.name for p in (out / "state").iterdir()] == [f"{after:06d}.safetensors"]
    assert same(resume(out, dataset=tiny(), progress=False), whole)


def test_an_interrupt_in_the_middle_of_a_line_loses_nothing(
    whole: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The round is in memory but not yet in the file: the checkpoint must not know more than the log."""
    from unskew.runs.folder import RunFolder

    out, plain = tmp_path / "run", RunFolder.append

    def append(self: RunFolder, line: dict[str, Any]) -> None:
        if line["round"] == 3:
            self.lines.append(line)
            raise KeyboardInterrupt
        plain(self, line)

    monkeypatch.setattr(RunFolder, "append", append)
    with pytest.raises(KeyboardInterrupt):
        run(dataset=tiny(), out=out, progress=False, **SETTINGS)
    monkeypatch.undo()
    assert same(resume(out, dataset=tiny(), progress=False), whole)


def test_an_interrupt_while_a_round_is_judged_keeps_the_rounds_before(
    whole: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fourth round is played and not yet in the log: what is saved is the third."""
    module = sys.modules["unskew.runs.rounds"]
    out, plain = tmp_path / "run", module.judge_round

    def judged(plan: Any, state: Any, *rest: Any) -> Any:
        if state.round == 4:
            raise KeyboardInterrupt
        return plain(plan, state, *rest)

    monkeypatch.setattr(module, "judge_round", judged)
    with pytest.raises(KeyboardInterrupt):
        run(dataset=tiny(), out=out, progress=False, **SETTINGS | {"checkpoint": 1000.0})
    monkeypatch.undo()
    assert [p.name for p in (out / "state").iterdir()] == ["000003.safetensors"]
    assert same(resume(out, dataset=tiny(), progress=False), whole)


def test_a_run_that_failed_says_why_and_goes_on(whole: Run, tmp_path: Path) -> None:
    out = tmp_path / "run"
    with fails_after(3):
        run(dataset=tiny(), out=out, progress=False, **SETTINGS)
    told = unseal((out / "result.json").read_text(), required=True)
    assert told == {"status": "failed", "error": "ZeroDivisionError: stopped", "round": 3}
    refused(
        f"{out} already holds a run (failed); go on with it by `unskew resume {out}`",
        dataset=tiny(),
        out=out,
    )
    assert same(resume(out, dataset=tiny(), progress=False), whole)


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """A run with checkpoints of rounds 3 and 4, as a kill would leave it."""
    out = tmp_path / "stopped"
    with fails_after(5):
        run(dataset=tiny(), out=out, progress=False, **SETTINGS)
    return out


def test_a_line_cut_by_a_kill_is_played_again(stopped: Path, whole: Run) -> None:
    log = stopped / "rounds.jsonl"
    text = log.read_text()
    log.write_text(text[: text.rindex('"sample_steps"')])
    assert same(resume(stopped, dataset=tiny(), progress=False), whole)


def test_a_damaged_checkpoint_costs_a_round_not_the_run(stopped: Path, whole: Run) -> None:
    newest = max((stopped / "state").iterdir())
    newest.write_bytes(newest.read_bytes()[:100])
    assert same(resume(stopped, dataset=tiny(), progress=False), whole)


def test_without_a_checkpoint_it_begins_anew(stopped: Path, whole: Run) -> None:
    shutil.rmtree(stopped / "state")
    (stopped / "result.json").unlink()
    assert same(resume(stopped, dataset=tiny(), progress=False), whole)


def test_a_run_killed_in_its_first_moment_gets_its_partition_back(tmp_path: Path) -> None:
    """The partition is written after the spec; a report draws it."""
    settings = {
        "dataset": "digits",
        "clients": 8,
        "cohort": 2,
        "rounds": 1,
        "model": "linear",
        "progress": False,
    }
    ended = run(out=tmp_path / "run", **settings)
    assert ended.path is not None
    for name in ("partition.npz", "result.json", "rounds.jsonl"):
        (ended.path / name).unlink()
    shutil.rmtree(ended.path / "state")
    again = resume(ended.path, progress=False)
    assert (ended.path / "partition.npz").exists()
    assert again.result["model_sha256"] == ended.result["model_sha256"]


def test_a_disk_that_fills_at_any_write_ends_in_one_sentence(
    whole: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever write fails, the last checkpoint is whole, and the resumed run is the run never stopped."""
    plain, sentences = os.fsync, set()
    for fails in range(1, 40):
        out, writes = tmp_path / str(fails), 0

        def fsync(file: int, fails: int = fails) -> None:
            nonlocal writes
            writes += 1
            if writes == fails:
                raise OSError(errno.ENOSPC, "No space left on device")
            plain(file)

        monkeypatch.setattr(os, "fsync", fsync)
        try:
            run(dataset=tiny(), out=out, progress=False, **SETTINGS)
        except RunFailed as problem:
            sentence = str(problem).replace(str(out), "RUN")
        else:
            break  # it needs fewer writes than that
        finally:
            monkeypatch.setattr(os, "fsync", plain)
        sentences.add(sentence)
        assert not list(out.rglob("*.tmp"))
        whole_ones = [p.stem for p in (out / "state").glob("*.safetensors")]
        assert ("checkpoint of round" in sentence) == bool(whole_ones)
        assert ("start it again" in sentence) == (not (out / "spec.json").exists())
        if (out / "spec.json").exists():
            ended = resume(out, dataset=tiny(), progress=False)
        else:
            ended = run(dataset=tiny(), out=out, progress=False, **SETTINGS)
        assert same(ended, whole)
    assert "the disk of RUN is full; make room, then start it again" in sentences
    assert "the disk of RUN is full; make room, then `unskew resume RUN`" in sentences
    assert (
        "the disk of RUN is full after round 1; there is no checkpoint yet: make room, then `unskew resume RUN`"
    ) in sentences
    assert (
        "the disk of RUN is full after round 3; the checkpoint of round 2 is whole: make room, then "
        "`unskew resume RUN`"
    ) in sentences
    assert len(sentences) >= 6
