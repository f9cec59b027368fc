"""The code of the documentation, run page by page: the tests use it, and so do you to refresh what commands print.

    python docs/snippets.py docs/cli.md        # paste what the page's exact commands print now

A page is played from top to bottom in an empty folder. Python blocks run in one namespace; a block with a title
(```toml title="compare.toml") is written to a file of that name; of console blocks every line ``$ unskew ...`` is
run, and what is shown below it must be what is printed but for numbers and where lines break; a line … stands for any
lines. A comment on the line before a block changes that:

    <!-- not run: why -->    it is only shown
    <!-- exact -->           numbers and line breaks too

An exact ```text block is what the Python block before it prints.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]
WIDTH = 96
"""Columns of a terminal in these pages."""

_FENCE = re.compile(
    r"^(?:<!-- (?P<mark>[^\n]*?) -->\n)?```(?P<language>\w+)(?P<options>[^\n]*)\n(?P<text>.*?)^```$",
    re.M | re.S,
)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    language: str
    text: str
    mark: str
    title: str
    line: int
    span: tuple[int, int]  # of its text, in the page

    @property
    def why_not(self) -> str | None:
        """The reason why it is not run, if it is not."""
        return self.mark.removeprefix("not run: ") if self.mark.startswith("not run: ") else None

    def commands(self) -> list[tuple[str, list[str]]]:
        """Each line after a ``$`` with what is shown below it."""
        found: list[tuple[str, list[str]]] = []
        for line in self.text.replace("\\\n", " ").splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            elif found:
                found[-1][1].append(line)
        return found


def pages() -> list[Path]:
    """Every page there is, the README first."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(text: str) -> list[Block]:
    """The blocks of a page, in order."""
    made = []
    for match in _FENCE.finditer(text):
        title = re.search(r'title="([^"]+)"', match["options"])
        line = text.count("\n", 0, match.start("text")) + 1
        made.append(
            Block(
                match["language"],
                match["text"],
                match["mark"] or "",
                title[1] if title else "",
                line,
                match.span("text"),
            )
        )
    return made


def play(page: Path) -> Iterator[tuple[Block, str]]:
    """Run a page's blocks in the current folder; each with what it printed. Raises where one fails."""
    name = f"page_{page.stem}".replace("-", "_")
    module = sys.modules[name] = ModuleType(name)  # so that a class defined in a block has a home
    printed = ""
    try:
        for block in blocks(page.read_text(encoding="utf-8")):
            if block.why_not is not None:
                continue
            if block.title:
                Path(block.title).write_text(block.text, encoding="utf-8")
            elif block.language == "python":
                code = compile("\n" * (block.line - 1) + block.text, str(page), "exec")
                with contextlib.redirect_stdout(io.StringIO()) as said:
                    exec(code, module.__dict__)
                printed = said.getvalue()
                yield block, printed
            elif block.language == "text" and block.mark == "exact":
                yield block, printed
            elif block.language == "console":
                said = "".join(
                    f"$ {line}\n{_run(line, shown, page, block)}" for line, shown in block.commands()
                )
                yield block, said
    finally:
        del sys.modules[name]


def _run(line: str, shown: list[str], page: Path, block: Block) -> str:
    """What a command prints. One that is shown with an error must end in one."""
    if line.split()[0] != "unskew":
        return "".join(f"{text}\n" for text in shown)
    words = shlex.split(line)
    from unskew.cli import main

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(words[1:])
    wanted = 2 if any(text.startswith("error: ") for text in shown) else 0
    if code != wanted:
        raise AssertionError(f"{page.name}, line {block.line}: `{line}` ended with {code}: {err.getvalue()}")
    said = (out.getvalue() or (err.getvalue() if wanted else "")).replace(os.environ["HOME"], "~")
    return "".join(f"{text.rstrip()}\n" for text in said.strip("\n").splitlines())


def matches(shown: str, said: str) -> bool:
    """Whether what is shown is what was said; a line … stands for any number of lines."""
    pieces = re.split(r"^\s*…\s*\n", _plain(shown), flags=re.M)
    return re.fullmatch(".*".join(map(re.escape, pieces)), _plain(said), flags=re.S) is not None


def unlike(block: Block, said: str) -> list[str]:
    """The commands below which something else is shown than was said, but for numbers and where lines break."""
    printed = Block("console", said, "", "", 0, (0, 0)).commands()
    return [
        command
        for (command, shown), (_, lines) in zip(block.commands(), printed, strict=True)
        if any(shown) and not _alike(shown, lines)
    ]


def _alike(shown: list[str], lines: list[str]) -> bool:
    pieces = [_worded(piece) for piece in re.split(r"^\s*…\s*$", "\n".join(shown), flags=re.M)]
    return re.fullmatch(".*".join(map(re.escape, pieces)), _worded("\n".join(lines))) is not None


def _worded(text: str) -> str:
    """Text with every number, sign and unit of time included, as #, and without the space between words."""
    text = re.sub(r"\d+(?:[.,]\d+)* (?:ms|s|min|h)\b", "#", text)
    text = re.sub(r"(?<![\w(])[−+-]?\d+(?:[.,]\d+)*", "#", text)
    return "".join(text.split())


def _plain(text: str) -> str:
    lines = (line.rstrip() for line in text.replace("\\\n", " ").splitlines())
    return "".join(f"{line}\n" for line in lines if line)


@contextlib.contextmanager
def quiet_place() -> Iterator[None]:
    """An empty folder in an empty home, no data folder named, and a terminal of a known width."""
    kept, environment, paths = os.getcwd(), dict(os.environ), list(sys.path)
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"HOME": folder, "XDG_CACHE_HOME": f"{folder}/.cache"}
        os.environ |= {"COLUMNS": str(WIDTH), "TERM": "dumb"}
        os.environ.pop("UNSKEW_DATA_FOLDER", None)
        (work := Path(folder, "work")).mkdir()
        os.chdir(work)
        try:
            yield
        finally:
            os.chdir(kept)
            os.environ.clear()
            os.environ.update(environment)
            sys.path[:] = paths


def paste(page: Path) -> None:
    """Put what the page's exact blocks print now in the place of what it shows."""
    text = page.read_text(encoding="utf-8")
    with quiet_place():
        played = [(block, said) for block, said in play(page) if block.mark == "exact"]
    for block, said in reversed(played):
        if not matches(block.text, said):
            start, stop = block.span
            text = text[:start] + said + text[stop:]
            print(f"{page.name}, line {block.line}: pasted anew")
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        paste(Path(argument).resolve())
