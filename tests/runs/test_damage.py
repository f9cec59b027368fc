"""Files lost, cut or changed behind a run's back: it ends in the numbers of a run never touched, or in a sentence."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from filelock import FileLock
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn

from failing_runs import fails_after
from unskew.cli import main
from unskew.core.checkpoint_files import SEAL
from unskew.data.load import load
from unskew.data.partition import partition
from unskew.errors import InputError, RunFailed, one_line
from unskew.progress import Silent
from unskew.runs.ended import Run
from unskew.runs.folder import RunFolder, read_folder
from unskew.runs.result import params_hash
from unskew.runs.running import resume, run
from unskew.sealed import unseal
from unskew.testing.toy_federation import tiny

pytestmark = pytest.mark.filterwarnings("ignore:.*it goes on after round")

SETTINGS: dict[str, Any] = {
    "model": "mlp(hidden=[6])",
    "method": "scaffold",
    "cohort": 4,
    "rounds": 6,
    "lr": 0.1,
    "batch": 4,
    "drop": 0.2,
    "checkpoint": 0.0,
}


class Stops(Silent):
    """Something done to the run's folder once this many rounds are played."""

    def __init__(self, after: int, act: Callable[[], Any]):
        self.after, self.act = after, act

    def advance(self, line: dict[str, Any]) -> None:
        if line["round"] == self.after:
            self.act()


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Six rounds that nobody touched, with checkpoints of the last two."""
    return run(dataset=tiny(), out=tmp_path_factory.mktemp("runs") / "run", progress=False, **SETTINGS)


@pytest.fixture
def copied(original: Run, tmp_path: Path) -> Path:
    """The same folder, to be damaged, without its result: as a kill at the last moment leaves it."""
    assert original.path is not None
    shutil.copytree(original.path, tmp_path / "run")
    (tmp_path / "run" / "result.json").unlink()
    return tmp_path / "run"


def assert_same(one: Run, other: Run) -> None:
    """Every bit of the model, every line and every number of the result but the time."""
    assert params_hash(one.state.params) == params_hash(other.state.params)

    def timeless(told: Any) -> Any:
        if isinstance(told, dict):
            return {k: timeless(v) for k, v in told.items() if k != "wall_s"}
        return [timeless(v) for v in told] if isinstance(told, list) else told

    assert timeless(one.folder.lines) == timeless(other.folder.lines)
    assert timeless(one.result) == timeless(other.result)
    assert one.path is not None
    assert [unseal(text, required=True) for text in (one.path / "rounds.jsonl").open()] == one.folder.lines
    assert unseal((one.path / "result.json").read_text(), required=True) == one.result


# --- the log


def without_line(lines: list[bytes], at: int) -> list[bytes]:
    return lines[:at] + lines[at + 1 :]


LOGS: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "empty": lambda lines: [],
    "cut last line": lambda lines: [*lines[:-1], lines[-1][:40]],
    "lacks the last line": lambda lines: lines[:-1],
    "lacks two lines": lambda lines: lines[:-2],
    "lacks the first line": lambda lines: lines[1:],
    "lacks one in the middle": lambda lines: without_line(lines, 2),
    "garbage in the middle": lambda lines: [*lines[:2], b"%$&\n", *lines[3:]],
    "garbage beside all lines": lambda lines: [*lines[:2], b"%$&\n", *lines[2:]],
    "a line twice": lambda lines: [*lines[:2], lines[1], *lines[2:]],
    "an old line again": lambda lines: [*lines[:4], lines[0], *lines[4:]],
    "a blank line": lambda lines: [*lines[:3], b"\n", *lines[3:]],
    "not text": lambda lines: [*lines[:3], b"\xff\xfe\x00\n", *lines[3:]],
    "a list": lambda lines: [b"[1]\n", *lines],
    "an object of nothing": lambda lines: [*lines[:5], b"{}\n", *lines[5:]],
    "a bracket too many": lambda lines: [b"[" * 100_000, b"\n", *lines],
}


@pytest.mark.parametrize("checkpoints", [2, 1, 0])
@pytest.mark.parametrize("damage", LOGS)
def test_a_damaged_log_changes_no_number(damage: str, checkpoints: int, copied: Path, original: Run) -> None:
    """It goes on from the newest checkpoint whose rounds the log has, or starts over."""
    log = copied / "rounds.jsonl"
    log.write_bytes(b"".join(LOGS[damage](log.read_bytes().splitlines(keepends=True))))
    for path in sorted((copied / "state").iterdir(), reverse=True)[: 2 - checkpoints]:
        path.unlink()
    assert_same(resume(copied, dataset=tiny(), progress=False), original)


@pytest.mark.parametrize("checkpoints", [2, 1])
def test_a_lost_log_changes_no_number(checkpoints: int, copied: Path, original: Run) -> None:
    """The totals of a result are sums over the log, so rounds that it lacks are played again."""
    (copied / "rounds.jsonl").unlink()
    if checkpoints == 1:
        max((copied / "state").iterdir()).unlink()
    assert_same(resume(copied, dataset=tiny(), progress=False), original)


def test_a_run_that_is_done_gets_its_lost_log_back(original: Run, tmp_path: Path) -> None:
    """A result that says "done" is no reason to leave a log that is not whole."""
    assert original.path is not None
    shutil.copytree(original.path, tmp_path / "run")
    (tmp_path / "run" / "rounds.jsonl").unlink()
    assert_same(resume(tmp_path / "run", dataset=tiny(), progress=False), original)


def test_started_over_a_run_keeps_its_new_checkpoints(copied: Path, original: Run) -> None:
    """Checkpoints of later rounds, which cannot be used, do not count as the last two."""
    (copied / "rounds.jsonl").write_text("")
    with fails_after(3):
        resume(copied, dataset=tiny(), progress=False)
    assert sorted(p.stem for p in (copied / "state").iterdir()) == ["000001", "000002"]
    assert_same(resume(copied, dataset=tiny(), progress=False), original)


# --- checkpoints


def flip(path: Path, entry: str) -> None:
    """Change one bit of the header, of the seal, or in the middle of an entry."""
    content = bytearray(path.read_bytes())
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    if entry == "header":
        at = 8 + content[8:].index(b'"round') + 10
    else:
        found = next(v["data_offsets"] for k, v in header.items() if k.startswith(entry))
        at = 8 + size + sum(found) // 2
    content[at] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("left", [2, 1])
@pytest.mark.parametrize(
    "entry", ["header", "params/", "server/scaffold/", "clients/scaffold/", "ids/", SEAL]
)
def test_a_flipped_bit_in_a_checkpoint_changes_no_number(
    entry: str, left: int, copied: Path, original: Run
) -> None:
    """It is noticed wherever it is, and the checkpoint before is used, or none."""
    older, newer = sorted((copied / "state").iterdir())
    if left == 1:
        newer.unlink()
    flip(newer if left == 2 else older, entry)
    assert_same(resume(copied, dataset=tiny(), progress=False), original)


def rewritten(path: Path, lacking: tuple[str, ...]) -> None:
    """The same checkpoint by the library's own writer, without some entries."""
    with safe_open(path, framework="pt") as file:
        held = {k: file.get_tensor(k) for k in file.keys() if k not in lacking}  # noqa: SIM118
        metadata = file.metadata()
    save_file(held, path, metadata)


def test_a_checkpoint_that_lacks_an_entry_counts_as_damaged(copied: Path, original: Run) -> None:
    """Also one of a version that wrote no seal."""
    first = next(iter(original.state.params))
    for path in (copied / "state").iterdir():
        rewritten(path, (f"params/{first}", SEAL))
    assert_same(resume(copied, dataset=tiny(), progress=False), original)


def test_a_checkpoint_without_a_seal_still_loads(copied: Path, original: Run) -> None:
    """Runs of versions before the seal go on from where they were."""
    for path in (copied / "state").iterdir():
        rewritten(path, (SEAL,))
    played: list[int] = []
    assert_same(resume(copied, dataset=tiny(), progress=Stops(6, lambda: played.append(6))), original)
    assert not played


# --- the result and other files


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"null", b"3", b"\xff", b"{}", b'{"status": 3}', b'{"status": "done"}']
)
def test_a_damaged_result_is_made_again(content: bytes, copied: Path, original: Run) -> None:
    """A resume needs nothing from that file, and a report takes it for that of a run that was stopped."""
    (copied / "result.json").write_bytes(content)
    assert not read_folder(copied)[0].is_done
    assert main(["report", str(copied), "-o", str(copied.parent / "page.html")]) in (0, 2)
    assert_same(resume(copied, dataset=tiny(), progress=False), original)


@pytest.mark.parametrize("name", ["rounds.jsonl", "result.json", "lock", "state"])
def test_a_folder_in_place_of_a_file_is_named(name: str, copied: Path) -> None:
    """And a file in place of a folder."""
    place = copied / name
    if place.is_dir():
        shutil.rmtree(place)
        place.write_text("")
        sentence = f"{place} is a file where a run needs a folder; move it away"
    else:
        place.unlink(missing_ok=True)
        place.mkdir()
        sentence = f"{place} is a folder where a run needs a file; move it away"
    with pytest.raises(InputError) as problem:
        resume(copied, dataset=tiny(), progress=False)
    assert str(problem.value) == sentence
    place.rmdir() if place.is_dir() else place.unlink()
    resume(copied, dataset=tiny(), progress=False)


@pytest.mark.parametrize("name", ["spec.json", "rounds.jsonl", "result.json"])
def test_a_file_that_may_not_be_read_is_named(
    name: str, copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Path.read_bytes
    (copied / "result.json").write_text("{}")

    def read_bytes(path: Path) -> bytes:
        if path.name == name:
            raise PermissionError(13, "Permission denied", str(path))
        return plain(path)

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    with pytest.raises(InputError) as problem:
        resume(copied, dataset=tiny())
    assert str(problem.value) == f"cannot read {copied / name} (permission denied); make it readable"


def test_a_spec_whose_data_is_no_table_is_damaged(copied: Path) -> None:
    about = json.loads((copied / "spec.json").read_text())
    (copied / "spec.json").write_text(json.dumps(about | {"data": 5}))
    with pytest.raises(InputError, match=r"spec\.json is damaged: it is not the JSON of a run"):
        resume(copied, dataset=tiny())


def test_a_run_that_is_done_needs_no_writing(
    original: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a read-only disk it is returned as it is."""

    def locked(folder: RunFolder) -> Any:
        raise AssertionError("nothing is to be written")

    assert original.path is not None
    monkeypatch.setattr(RunFolder, "locked", locked)
    assert_same(resume(original.path, dataset=tiny(), progress=False), original)


def test_a_run_that_is_not_done_cannot_go_on_in_a_read_only_folder(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sentence says what to do with a run that is there already."""

    def acquire(lock: FileLock) -> None:
        raise OSError(errno.EROFS, "Read-only file system", str(lock.lock_file))

    monkeypatch.setattr(FileLock, "acquire", acquire)
    with pytest.raises(InputError) as problem:
        resume(copied, dataset=tiny())
    assert str(problem.value) == (
        f"no run can be written to {copied} (read-only file system); make it writable, or resume a copy of it"
    )


def test_an_interrupt_on_a_full_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last checkpoint that Ctrl-C writes may not fit: the run goes on from the one before."""
    out = tmp_path / "run"

    def full(file: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def interrupt() -> None:
        monkeypatch.setattr(os, "fsync", full)
        raise KeyboardInterrupt

    with pytest.raises(RunFailed) as problem:
        run(dataset=tiny(), out=out, progress=Stops(3, interrupt), **SETTINGS)
    assert str(problem.value) == (
        f"the disk of {out} is full after round 3; the checkpoint of round 2 is whole: make room, then "
        f"`unskew resume {out}`"
    )
    monkeypatch.undo()
    assert resume(out, dataset=tiny(), progress=False).result["status"] == "done"


@pytest.mark.parametrize("after", [1, 3])
def test_a_folder_deleted_under_a_run_is_told(after: int, tmp_path: Path) -> None:
    out = tmp_path / "run"
    with pytest.raises(RunFailed) as problem:
        run(
            dataset=tiny(),
            out=out,
            progress=Stops(after, lambda: shutil.rmtree(out)),
            **SETTINGS | {"checkpoint": 99.0},
        )
    assert str(problem.value) == f"{out} was deleted while its run went on; start it again"
    assert not out.exists()


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """Something else was put in its place while the run went on; with that away the run goes on."""
    out = tmp_path / "run"

    def disturb() -> None:
        (out / "state").write_text("mine")

    settings = SETTINGS | {"checkpoint": 99.0}
    with pytest.raises(RunFailed) as problem:
        run(dataset=tiny(), out=out, progress=Stops(2, disturb), **settings)
    assert str(problem.value) == (
        f"{out / 'state'} cannot be written (file exists); see to it, then `unskew resume {out}`"
    )
    (out / "state").unlink()
    assert resume(out, dataset=tiny(), progress=False).result["status"] == "done"


@pytest.mark.parametrize("name", ["a" * 300, "/".join(["b" * 200] * 30)])
def test_a_name_that_is_too_long_is_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / name
    with pytest.raises(InputError) as problem:
        run(dataset=tiny(), out=out, progress=False, **SETTINGS)
    told = f"no run can be written to {out} (file name too long); choose another folder"
    assert str(problem.value) == one_line(told)
    with pytest.raises(InputError, match=r"^cannot read .* \(file name too long\); name a run's folder$"):
        resume(out)


# --- what is given in Python


def net(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(36, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 3))
    nn.init.zeros_(model[1].weight.requires_grad_(False)).add_(0.1)
    return model


OWN = {k: v for k, v in SETTINGS.items() if k not in ("model", "method")} | {"checkpoint": 99.0}


def test_a_model_given_in_python_keeps_its_first_weights(tmp_path: Path) -> None:
    """A run stopped before its first checkpoint goes on by the weights that it began with."""
    whole = run(dataset=tiny(), model=net(0), out=tmp_path / "whole", progress=False, **OWN)
    out = tmp_path / "run"
    with fails_after(2):
        run(dataset=tiny(), model=net(0), out=out, progress=False, **OWN)
    assert [p.name for p in (out / "state").iterdir()] == ["000000.safetensors"]
    assert_same(resume(out, dataset=tiny(), model=net(1), progress=False), whole)


def test_another_model_is_refused_where_it_would_count(tmp_path: Path) -> None:
    """Without any checkpoint its weights do, and what is frozen always does."""
    out = tmp_path / "run"
    whole = run(dataset=tiny(), model=net(0), out=out, progress=False, **OWN)
    thawed = net(0)
    thawed[1].weight.data.add_(1)
    with pytest.raises(
        InputError, match="has other frozen weights or statistics than the one that the run began"
    ):
        resume(out, dataset=tiny(), model=thawed)
    shutil.rmtree(out / "state")
    with pytest.raises(
        InputError, match="has no checkpoint to go on from, and the model given has other weights"
    ):
        resume(out, dataset=tiny(), model=net(1))
    again = resume(out, dataset=tiny(), model=net(0), progress=False)
    assert again.result["model_sha256"] == whole.result["model_sha256"]


def test_data_given_by_name_at_a_resume_is_what_is_read(tmp_path: Path) -> None:
    """A file that was moved is found again, and other data are noticed."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 4)).astype(np.float32), np.arange(60) % 3
    first, moved, other = tmp_path / "first.npz", tmp_path / "moved.npz", tmp_path / "other.npz"
    np.savez(first, x=x, y=y)
    np.savez(other, x=x + 1, y=y)
    settings = {"partition": "iid", "clients": 5, "cohort": 2, "rounds": 3, "model": "linear"}
    whole = run(dataset=first, out=tmp_path / "whole", progress=False, **settings)
    out = tmp_path / "run"
    with fails_after(2):
        run(dataset=first, out=out, progress=False, **settings)
    os.rename(first, moved)
    for wrong in (other, str(other), "digits"):
        with pytest.raises(InputError, match="is not what the run began with; give it the same data"):
            resume(out, dataset=wrong)
    assert_same(resume(out, dataset=moved, progress=False), whole)


def test_a_file_that_is_gone_is_asked_for_by_its_flag(tmp_path: Path) -> None:
    """Of a saved partition the run has a copy of its own, and the sentence names it."""
    x, y = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32), np.arange(60) % 3
    data, dealt, out = tmp_path / "data.npz", tmp_path / "dealt.npz", tmp_path / "run"
    np.savez(data, x=x, y=y)
    partition(load(data), "iid", 5).save(dealt)
    run(dataset=data, partition=str(dealt), cohort=2, rounds=1, model="linear", out=out, progress=False)
    os.rename(data, tmp_path / "moved.npz")
    os.unlink(dealt)
    lost = f"{out} was run with {{}}, which is not there any more; say where it lies now by --{{}}"
    with pytest.raises(InputError) as problem:
        resume(out, rounds=2)
    assert str(problem.value) == lost.format(f"dataset = {data}", "dataset")
    with pytest.raises(InputError) as problem:
        resume(out, rounds=2, dataset=tmp_path / "moved.npz")
    kept = str(out / "partition.npz")
    assert str(problem.value) == lost.format(f"partition = {dealt}", f"partition, such as {kept}")
    again = resume(out, rounds=2, dataset=tmp_path / "moved.npz", partition=kept, progress=False)
    assert again.result["rounds"] == 2


def test_a_federation_cannot_be_resumed_by_name(copied: Path) -> None:
    with pytest.raises(InputError) as problem:
        resume(copied, dataset="digits")
    assert str(problem.value) == (
        f"{copied} was run on a Federation given in Python; give it as dataset=..., not digits"
    )
    with pytest.raises(InputError, match=r"^dataset is a data set's name, a path, "):
        resume(copied, dataset=5)  # type: ignore[arg-type]
