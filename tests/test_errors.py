"""Where an error of a user's own came up."""

from __future__ import annotations

from pathlib import Path

import pytest

from unskew.errors import first_line, own_line


def raised(*files: Path) -> ValueError:
    """An error of the last of these files, which the one before it called, and so on."""
    call: dict[str, object] = {}
    for file in reversed(files):
        line = "inner()" if call else "raise ValueError('sad')"
        names = dict(call)
        exec(compile(f"def inner_():\n    {line}\n", str(file), "exec"), names)
        call = {"inner": names["inner_"]}
    with pytest.raises(ValueError, match="sad") as caught:
        call["inner"]()  # type: ignore[operator]
    return caught.value


@pytest.mark.parametrize("folder", ["site-packages", "dist-packages"])
def test_what_is_installed_is_nobodys_own(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also below a home folder, where ``pip install --user`` puts it."""
    monkeypatch.chdir(tmp_path)
    installed = tmp_path / "lib" / folder / "torch" / "nn.py"
    assert own_line(raised(tmp_path / "mine.py", installed)) == "mine.py, line 2"


def test_where_there_is_no_folder_any_more_a_path_is_told_in_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    error = raised(tmp_path / "mine.py")
    monkeypatch.chdir(here)
    here.rmdir()
    assert own_line(error) == f"{tmp_path}/mine.py, line 2"


def test_of_an_error_the_first_line_is_told_or_its_class() -> None:
    """Some errors have pages to say, and some nothing."""
    assert first_line(ValueError("\n it is\nlonger")) == "it is"
    assert first_line(NotImplementedError()) == "NotImplementedError"
