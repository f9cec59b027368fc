"""Files are whole or not there, and one module writes them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import unskew
from unskew import files
from unskew.files import Content, replace_file, replace_folder, write_file


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("naïve\n", "naïve\n".encode()),
        (b"\x00\xff", b"\x00\xff"),
        ((piece for piece in (b"one", memoryview(b" two"))), b"one two"),
    ],
    ids=["text", "bytes", "stream"],
)
def test_text_bytes_and_streams_are_written_as_they_are(
    content: Content, found: bytes, tmp_path: Path
) -> None:
    """Text in UTF-8, and no line end is changed."""
    write_file(tmp_path / "x", content)
    assert (tmp_path / "x").read_bytes() == found


def test_a_write_that_fails_leaves_the_old_file_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is found full when the draft is made durable."""
    target = tmp_path / "result.json"
    write_file(target, "old")

    def full(file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_file(target, "new")
    assert target.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["result.json"]


def test_a_stream_that_breaks_off_leaves_the_old_file(tmp_path: Path) -> None:
    """What came before it broke off is not kept either."""

    def pieces():
        yield b"half"
        raise RuntimeError

    write_file(tmp_path / "x", b"old")
    with pytest.raises(RuntimeError):
        write_file(tmp_path / "x", pieces())
    assert (tmp_path / "x").read_bytes() == b"old"
    assert [f.name for f in tmp_path.iterdir()] == ["x"]


def test_a_draft_takes_its_name_only_when_whole(tmp_path: Path) -> None:
    """Work that fails in between leaves what was there."""
    path = tmp_path / "x"
    path.write_text("old")

    def fail_halfway() -> None:
        with replace_file(path) as draft:
            draft.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_halfway()
    assert path.read_text() == "old"
    assert [f.name for f in tmp_path.iterdir()] == ["x"]


def test_a_folder_is_made_only_where_it_is_asked_for(tmp_path: Path) -> None:
    """A run whose folder was deleted must hear of it, not write into a new one."""
    with pytest.raises(FileNotFoundError):
        write_file(tmp_path / "gone" / "x", "text")
    assert list(tmp_path.iterdir()) == []
    with replace_file(tmp_path / "made" / "x", make_folder=True) as draft:
        draft.write_text("text")
    assert (tmp_path / "made" / "x").read_text() == "text"


def test_permissions_are_those_of_a_new_file(tmp_path: Path) -> None:
    """As the user's umask says, as if it were simply opened and written."""
    (tmp_path / "plain").write_text("")
    write_file(tmp_path / "whole", "")
    assert (tmp_path / "whole").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_folder_is_replaced_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    """An old one goes when the new one is filled, and stays when that fails."""
    target = tmp_path / "demo"
    for text in ("old", "new"):
        with replace_folder(target) as draft:
            (draft / text).write_text(text)
    assert [f.name for f in target.iterdir()] == ["new"]

    def fail_halfway() -> None:
        with replace_folder(target) as draft:
            (draft / "half").write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_halfway()
    assert [f.name for f in target.iterdir()] == ["new"]
    assert [f.name for f in tmp_path.iterdir()] == ["demo"]


def test_no_other_module_renames_drafts_or_writes_files_at_once() -> None:
    """There is one atomic writer and one progress bar; a second would be a second set of promises."""
    source = Path(unskew.__file__).parent
    writes = re.compile(r"os\.(replace|rename)\(|\.write_text\(|\.write_bytes\(")
    bars = re.compile(r"\bBarColumn\b")
    found = {"writes": set(), "bars": set()}
    for file in source.rglob("*.py"):
        text = file.read_text("utf-8")
        name = file.relative_to(source).as_posix()
        to_a_draft = "import replace_file" in text  # whose name may be handed to what writes by names
        found["writes"] |= {name} if writes.search(text) and not to_a_draft else set()
        found["bars"] |= {name} if bars.search(text) else set()
    assert found == {"writes": {"files.py"}, "bars": {"progress.py"}}


def test_the_old_folder_comes_back_where_the_new_one_could_not_follow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where folders cannot be exchanged at once: the first rename moved the old one aside, the second failed."""
    target = tmp_path / "runs"
    with replace_folder(target) as draft:
        (draft / "a").write_text("old")
    monkeypatch.setattr(files, "_exchange", lambda one, other: False)
    _fail_at(monkeypatch, 2)
    with pytest.raises(OSError, match="Input/output"), replace_folder(target) as draft:
        (draft / "a").write_text("new")
    assert (target / "a").read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_an_old_folder_that_cannot_come_back_is_kept_beside_and_put_back_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rename that puts it back fails too; the next to replace the folder finds it."""
    target = tmp_path / "runs"
    with replace_folder(target) as draft:
        (draft / "a").write_text("old")
    monkeypatch.setattr(files, "_exchange", lambda one, other: False)
    _fail_at(monkeypatch, 2, 3)
    with pytest.raises(OSError, match="Input/output"), replace_folder(target) as draft:
        (draft / "a").write_text("new")
    assert [p.read_text() for p in tmp_path.glob("*/old/a")] == ["old"]
    with pytest.raises(RuntimeError), replace_folder(target):
        raise RuntimeError
    assert (target / "a").read_text() == "old"


def test_a_folder_that_stepped_aside_is_not_taken_for_one_whose_name_begins_alike(tmp_path: Path) -> None:
    """What is left of run-1 does not become run."""
    left = tmp_path / ".run-1-abcd1234.tmp" / "old"
    left.mkdir(parents=True)
    with pytest.raises(RuntimeError), replace_folder(tmp_path / "run"):
        raise RuntimeError
    assert left.exists()
    assert not (tmp_path / "run").exists()


def _fail_at(monkeypatch: pytest.MonkeyPatch, *which: int) -> None:
    """Let the renames with these numbers fail."""
    renames, rename = [], os.replace

    def fails(source: Path, goal: Path) -> None:
        renames.append(source)
        if len(renames) in which:
            raise OSError(5, "Input/output error")
        rename(source, goal)

    monkeypatch.setattr(os, "replace", fails)


KILLED = """
import os, pathlib, shutil, sys
from unskew import files

target, instant = pathlib.Path(sys.argv[1]), int(sys.argv[2])
if sys.argv[3] == "aside":
    files._exchange = lambda one, other: False
calls = 0


def killed_at_instant(real):
    def call(*given):
        global calls
        calls += 1
        if calls == instant:
            os._exit(9)
        return real(*given)

    return call


for module, name in ((files, "_exchange"), (os, "replace"), (shutil, "rmtree")):
    setattr(module, name, killed_at_instant(getattr(module, name)))
with files.replace_folder(target) as draft:
    (draft / "a").write_text("new")
"""


@pytest.mark.parametrize(
    ("how", "instant"),
    [("exchanged", 1), ("exchanged", 2), *(("aside", instant) for instant in (1, 2, 3, 4))],
)
def test_a_process_killed_while_it_replaces_a_folder_loses_nothing(
    how: str, instant: int, tmp_path: Path
) -> None:
    """Whenever it is killed, the next who replaces the folder finds the old one whole, or the new one."""
    target = tmp_path / "runs"
    with replace_folder(target) as draft:
        (draft / "a").write_text("old")
    done = subprocess.run([sys.executable, "-c", KILLED, str(target), str(instant), how], check=False)
    assert done.returncode == 9
    if how == "exchanged" and sys.platform == "linux":
        assert (target / "a").read_text() in ("old", "new")
    with pytest.raises(RuntimeError), replace_folder(target):
        raise RuntimeError
    assert (target / "a").read_text() in ("old", "new")
