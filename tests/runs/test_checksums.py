"""Any byte of a run's folder changed: the same numbers come out, or a sentence does."""

from __future__ import annotations

import json
import random
import re
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from unskew.cli import main
from unskew.errors import InputError
from unskew.report.results.comparison import compare
from unskew.runs.ended import Run
from unskew.runs.folder import UNSEALED, read_folder
from unskew.runs.result import params_hash
from unskew.runs.running import resume, run
from unskew.runs.snapshots import read_model
from unskew.runs.sweep import plan_cells
from unskew.sealed import CHECKSUM, seal, unseal

SETTINGS: dict[str, Any] = {
    "dataset": "digits",
    "model": "mlp(hidden=[4])",
    "clients": 8,
    "cohort": 2,
    "rounds": 6,
    "checkpoint": 0.0,
    "keep": (2,),
}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Six rounds, of which round 2's model is kept."""
    return run(out=tmp_path_factory.mktemp("runs") / "run", progress=False, **SETTINGS)


@pytest.fixture
def copied(original: Run, tmp_path: Path) -> Path:
    assert original.path is not None
    shutil.copytree(original.path, tmp_path / "run")
    return tmp_path / "run"


def timeless(told: Any) -> Any:
    if isinstance(told, dict):
        return {k: timeless(v) for k, v in told.items() if k != "wall_s"}
    return [timeless(v) for v in told] if isinstance(told, list) else told


def flips(content: bytes, count: int, seed: int) -> Iterator[bytes]:
    """The content with one byte changed, as often as asked: one bit of it, or all of it."""
    rng = random.Random(seed)
    for at in sorted(rng.sample(range(len(content)), min(count, len(content)))):
        other = content[at] ^ rng.choice([1, 2, 4, 8, 16, 32, rng.randrange(1, 256)])
        yield content[:at] + bytes([other]) + content[at + 1 :]


def change(folder: Path, round: int, accuracy: float = 0.999) -> None:
    """Another accuracy in a round's line, as a flipped byte would have it."""
    log = folder / "rounds.jsonl"
    lines = log.read_text().splitlines(keepends=True)
    lines[round - 1] = re.sub(r'accuracy": [0-9.]+', f'accuracy": {accuracy}', lines[round - 1], count=1)
    log.write_text("".join(lines))


# --- the log


def test_every_line_and_result_carries_a_checksum_and_is_plain_json(original: Run) -> None:
    """pandas reads the log as it did, with one column more."""
    assert original.path is not None
    frame = pd.read_json(original.path / "rounds.jsonl", lines=True)
    assert list(frame["round"]) == [1, 2, 3, 4, 5, 6]
    assert list(frame["global_test_accuracy"]) == pytest.approx(
        [line["global_test_accuracy"] for line in original.folder.lines]
    )
    assert all(str(text).startswith("blake2b-") for text in frame[CHECKSUM])
    assert all(CHECKSUM not in line for line in original.folder.lines)
    for name in ("spec.json", "result.json"):
        assert unseal((original.path / name).read_bytes(), required=True) is not None


def test_no_changed_byte_of_the_log_changes_a_number(copied: Path, original: Run) -> None:
    """What is read is what was written, without the line that was hit, and that round is named."""
    log = copied / "rounds.jsonl"
    for changed in flips(log.read_bytes(), 300, seed=0):
        log.write_bytes(changed)
        folder = read_folder(copied)[0]
        found = folder.lines + folder.beyond
        assert all(line in original.folder.lines for line in found)
        lost = {line["round"] for line in original.folder.lines} - {line["round"] for line in found}
        spans = (*folder.damage.damaged, *folder.damage.missing)
        assert lost == {r for first, last in spans for r in range(first, last + 1)}


def test_no_changed_byte_of_spec_or_result_is_believed(copied: Path, original: Run) -> None:
    """A spec is refused in a sentence; a result counts as not known, and the log still has the numbers."""
    for name in ("spec.json", "result.json"):
        whole = (copied / name).read_bytes()
        _, spec, data = read_folder(copied)
        for changed in flips(whole, 150, seed=1):
            (copied / name).write_bytes(changed)
            if name == "spec.json" and unseal(changed, required=True) is None:
                with pytest.raises(InputError, match=r"is damaged: |has run format"):
                    read_folder(copied)
                continue
            folder, read_spec, read_data = read_folder(copied)
            assert (read_spec, read_data) == (spec, data)
            assert folder.result == original.result or (folder.result == {} and folder.damage.result)
        (copied / name).write_bytes(whole)


@pytest.mark.parametrize("round", [1, 3, 6])
def test_a_changed_number_is_not_kept_by_a_resume(round: int, copied: Path, original: Run) -> None:
    """It plays again from the last sound round that has a checkpoint, and ends in the same bits."""
    change(copied, round)
    with pytest.warns(UserWarning, match=rf"in .*run, round {round} is damaged; it goes on after round \d$"):
        again = resume(copied, progress=False)
    assert params_hash(again.state.params) == params_hash(original.state.params)
    assert timeless(again.folder.lines) == timeless(original.folder.lines)
    assert timeless(again.result) == timeless(original.result)
    assert not read_folder(copied)[0].damage
    resume(copied, progress=False)  # and says nothing any more


def test_random_damage_anywhere_ends_in_the_same_bits_or_a_sentence(copied: Path, original: Run) -> None:
    """Any file of the folder but the spec, which cannot be made again."""
    assert original.path is not None
    rng = random.Random(2)
    files = sorted(
        p.relative_to(original.path) for p in original.path.rglob("*") if p.is_file() and p.stat().st_size
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in files:
            whole = (original.path / name).read_bytes()
            (copied / name).write_bytes(next(flips(whole, 1, rng.randrange(100))))
            if name.name == "spec.json":
                with pytest.raises(InputError, match="damaged"):
                    resume(copied, progress=False)
                (copied / name).write_bytes(whole)
                continue
            again = resume(copied, progress=False)
            assert timeless(again.result) == timeless(original.result), name
            assert timeless(again.folder.lines) == timeless(original.folder.lines), name


def test_a_damaged_partition_is_written_again(copied: Path, original: Run) -> None:
    """Also of a run that is done; a report says that it cannot be drawn until then."""
    assert original.path is not None
    whole = (original.path / "partition.npz").read_bytes()
    (copied / "partition.npz").write_bytes(whole[:100])
    assert main(["report", str(copied), "-o", str(copied / "page.html")]) == 0
    assert "Who held what cannot be drawn" in (copied / "page.html").read_text()
    resume(copied, progress=False)
    assert (copied / "partition.npz").stat().st_size == len(whole)


def test_a_kept_model_is_refused_whatever_byte_is_changed(copied: Path, original: Run) -> None:
    """Its header, its weights, its seal."""
    place = copied / "models" / "000002.safetensors"
    whole = place.read_bytes()
    before = params_hash(read_model(copied, 2)[1])
    assert before != params_hash(original.state.params)
    for changed in flips(whole, 60, seed=3):
        place.write_bytes(changed)
        with pytest.raises(InputError, match=r"000002\.safetensors is damaged; remove it, or name another"):
            read_model(copied, 2)


# --- runs of the version before


def of_the_version_before(folder: Path) -> None:
    """The same files as that version wrote them: without checksums."""
    for name in ("spec.json", "result.json"):
        content = unseal((folder / name).read_bytes(), required=True)
        assert content is not None
        if name == "spec.json":
            content["format"] = UNSEALED
        (folder / name).write_text(json.dumps(content, indent=1))
    lines = [unseal(text, required=True) for text in (folder / "rounds.jsonl").read_bytes().splitlines()]
    (folder / "rounds.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_a_run_of_the_version_before_is_read_resumed_and_reported(copied: Path, original: Run) -> None:
    """Its lines are believed as they are; those that are added carry checksums."""
    of_the_version_before(copied)
    assert read_folder(copied)[0].lines == original.folder.lines
    assert not compare(copied).headline.title.startswith("In ")
    for path in (copied / "state").glob("00000[56]*"):
        path.unlink()
    lines = (copied / "rounds.jsonl").read_text().splitlines(keepends=True)
    (copied / "rounds.jsonl").write_text("".join(lines[:4]))
    (copied / "result.json").write_text('{"status": "running"}')
    again = resume(copied, progress=False)
    assert timeless(again.folder.lines) == timeless(original.folder.lines)
    assert timeless(again.result) == timeless(original.result)
    assert CHECKSUM in (copied / "rounds.jsonl").read_text().splitlines()[-1]
    assert not read_folder(copied)[0].damage


def test_a_checksum_that_is_there_is_checked_whatever_the_version(copied: Path) -> None:
    """A spec that calls itself of the version before does not make damaged lines sound."""
    about = unseal((copied / "spec.json").read_bytes(), required=True)
    assert about is not None
    (copied / "spec.json").write_text(json.dumps(about | {"format": UNSEALED}))
    change(copied, 4)
    assert str(read_folder(copied)[0].damage) == "round 4 is damaged"


def test_reformatting_is_no_damage(copied: Path, original: Run) -> None:
    """The checksum is of the values: other white space and line ends are the same object."""
    lines = [json.loads(text) for text in (copied / "rounds.jsonl").read_text().splitlines()]
    (copied / "rounds.jsonl").write_bytes(
        b"\r\n".join(json.dumps(line, separators=(",", ":")).encode() for line in lines)
    )
    folder = read_folder(copied)[0]
    assert (folder.lines, bool(folder.damage)) == (original.folder.lines, False)


def test_what_json_cannot_tell_apart_has_one_checksum() -> None:
    """Tuples, whole-number keys, NaN and words of any script come back as they were written."""
    content = {"a": (1, 2.5, float("nan")), 3: "für 世界 \ud800", "b": {"c": None}}
    assert unseal(seal(content), required=True) is not None
    assert unseal(seal(content, indent=1), required=True) is not None
    assert unseal(seal({}), required=True) == {}


# --- reports


def test_a_report_names_the_damaged_rounds_first(copied: Path, original: Run) -> None:
    """Its other numbers are those of the rounds that are left."""
    final = original.result["final"]["accuracy"]
    change(copied, 3)
    said = compare(copied).headline
    assert said.title == (f"In run run, round 3 is damaged. fedavg reaches {final:.1%} global test accuracy")
    assert said.lead.startswith(
        f"In {copied}, round 3 is damaged; numbers are of what is left, and `unskew resume {copied}` makes the rest "
        "again. "
    )


@pytest.mark.parametrize(
    ("kept", "told"),
    [
        ([1, 2, 3, 6], "rounds 4 to 5 are missing"),
        ([1, 2, 3], "rounds 4 to 6 are missing"),
        ([2, 4, 6], "rounds 1, 3 and 5 are missing"),
    ],
)
def test_a_report_names_the_missing_rounds(kept: list[int], told: str, copied: Path) -> None:
    log = copied / "rounds.jsonl"
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(lines[r - 1] for r in kept))
    assert compare(copied).headline.title.startswith(f"In run run, {told}. ")


def test_rounds_lost_from_a_stopped_run_are_told_by_its_checkpoints(copied: Path) -> None:
    """Without a result nobody else knows that there were more."""
    (copied / "result.json").write_text(seal({"status": "running"}))
    log = copied / "rounds.jsonl"
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:2]))
    assert compare(copied).headline.title.startswith("In run run, rounds 3 to 6 are missing. ")


def test_a_log_that_is_gone_is_one_sentence(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody is told to wait for a first evaluation that there was."""
    (copied / "rounds.jsonl").unlink()
    assert main(["report", str(copied)]) == 2
    assert capsys.readouterr().err == (
        f"error: in {copied}, rounds 1 to 6 are missing; numbers are of what is left, and `unskew resume {copied}` "
        "makes the rest again\n"
    )


def test_a_damaged_result_takes_no_run_out_of_the_mean(copied: Path, original: Run) -> None:
    """The log has all rounds, so its numbers stand."""
    (copied / "result.json").write_text("{")
    compared = compare(copied)
    assert compared.headline.title.startswith("In run run, result.json is damaged. fedavg reaches ")
    assert not compared.unfinished
    assert compared.as_dict()["runs"][0]["damage"] == "result.json is damaged"


def test_tables_of_damaged_runs_come_with_a_warning(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """CSV and LaTeX have no headline of their own."""
    change(copied, 3)
    for name in ("table.csv", "table.tex"):
        assert main(["report", str(copied), "-o", str(copied.parent / name), "--json"]) == 0
        assert f"warning: in {copied}, round 3 is damaged" in capsys.readouterr().err


def test_an_attack_wants_a_whole_log(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change(copied, 3)
    assert main(["attack", str(copied), "--only", "exposure"]) == 2
    assert capsys.readouterr().err == (
        f"error: in {copied}, round 3 is damaged; make it whole by `unskew resume {copied}`, then attack it\n"
    )


# --- sweeps


def test_a_damaged_cell_of_a_sweep_is_not_done(tmp_path: Path) -> None:
    """A result that says "done" is not enough where its log is damaged."""
    settings = SETTINGS | {"rounds": 2, "keep": ()}
    (cell,) = plan_cells(settings, {"seed": [0]}, tmp_path)
    run(cell.spec, out=cell.folder, progress=False)
    assert plan_cells(settings, {"seed": [0]}, tmp_path)[0].status == "done"
    change(cell.folder, 2)
    assert plan_cells(settings, {"seed": [0]}, tmp_path)[0].status == "waiting"
