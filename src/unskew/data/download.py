"""Fetching a published file: mirrors in order, a checksum, a progress bar, and an atomic rename."""

from __future__ import annotations

import logging
import zipfile
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from unskew.files import replace_file
from unskew.progress import working
from unskew.version import __version__

log = logging.getLogger(__name__)

CONNECT_SECONDS = 5.0  # so that a machine without a network is told in seconds
STALL_SECONDS = 60.0  # a server that has answered may still be slow
_BLOCK = 1 << 18


class DownloadError(Exception):
    """Why a file could not be had; the data set makes it a sentence that says where to put which files."""


@dataclass(frozen=True)
class Remote:
    """A published file: its name, the addresses to try in order, and how to know that it is whole.

    ``checksum`` is ``md5:…`` or ``sha256:…``. Where none is published it is None; then a zip must pass its
    own check sums, and the data set's reader checks counts and shapes.
    """

    file: str
    addresses: tuple[str, ...]
    checksum: str | None
    megabytes: float


def fetch(remote: Remote, folder: Path) -> Path:
    """Download a file into a folder; nothing is left behind if it fails or is not the published one."""
    problems: list[str] = []
    target, is_new = folder / remote.file, not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DownloadError(f"{folder} cannot be made: {_reason(error)}") from None
    for address in remote.addresses:
        try:
            log.info("downloading %s from %s", remote.file, urlsplit(address).hostname)
            with replace_file(target) as partial:
                _download(remote, address, partial)
            return target
        except (OSError, DownloadError) as error:
            problem = f"{urlsplit(address).hostname}: {_reason(error)}"
            log.warning("%s could not be downloaded from %s", remote.file, problem)
            if problem not in problems:
                problems.append(problem)
    if is_new:
        with suppress(OSError):
            folder.rmdir()
    raise DownloadError("; ".join(problems))


def _download(remote: Remote, address: str, partial: Path) -> None:
    import pooch

    host = urlsplit(address).hostname
    with ExitStack() as shown:
        bar = _Bar(f"downloading {remote.file} ({remote.megabytes:,.0f} MB) from {host}", shown)
        download = pooch.HTTPDownloader(
            progressbar=bar,
            chunk_size=_BLOCK,
            timeout=(CONNECT_SECONDS, STALL_SECONDS),
            headers={"User-Agent": f"unskew/{__version__}", "Accept-Encoding": "identity"},
            hooks={"response": _keep_as_published},
        )
        download(address, str(partial), None)
    if remote.checksum is not None:
        method, _, expected = remote.checksum.partition(":")
        if pooch.file_hash(str(partial), alg=method) != expected:
            raise DownloadError(f"what it sent is not the published file ({method.upper()} differs)")
    elif remote.file.endswith(".zip"):
        _check_zip(partial)


def _keep_as_published(answer: Any, **settings: Any) -> None:
    """Some servers call a .gz file a packed answer; unpacked on the way it would not be the published file."""
    answer.raw.headers.discard("Content-Encoding")


class _Bar:
    """Our bar as pooch fills it: it says the total once a server has answered, and then block after block."""

    def __init__(self, what: str, shown: ExitStack) -> None:
        self.what, self.shown = what, shown
        self.done = self._total = 0

    @property
    def total(self) -> int:
        return self._total

    @total.setter
    def total(self, found: int) -> None:
        self._total = found
        begun = working(self.what, found or None, in_bytes=True, at_once=True)
        self.advance = self.shown.enter_context(begun)

    def update(self, amount: int) -> None:
        done = min(self.done + amount, self._total) if self._total else self.done + amount
        self.advance(done - self.done)  # pooch counts the last block as a whole one
        self.done = done

    def reset(self) -> None:
        pass

    def close(self) -> None:
        pass


def _check_zip(path: Path) -> None:
    try:
        with zipfile.ZipFile(path) as archive:
            bad = archive.testzip()
    except zipfile.BadZipFile:
        raise DownloadError("what it sent is not a whole zip archive") from None
    if bad is not None:
        raise DownloadError(f"{bad} in the archive it sent is damaged")


def _reason(error: BaseException) -> str:
    """Why it failed, in a few words."""
    if (answer := getattr(error, "response", None)) is not None:
        return f"answered {answer.status_code} {answer.reason}"
    if hasattr(error, "request"):  # it wraps what the connection said
        while (cause := error.__cause__ or error.__context__) is not None:
            error = cause
    if isinstance(error, TimeoutError):
        return "no answer"
    if hasattr(error, "partial") and hasattr(error, "expected"):  # bytes that came, and bytes that did not
        came, due = int(error.partial), int(error.partial + error.expected)
        return f"the connection broke off after {came:,} of {due:,} bytes"
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return str(text)
