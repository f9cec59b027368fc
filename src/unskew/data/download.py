"""Fetching a published file: mirrors in order, a checksum, a progress bar, and an atomic rename."""

from __future__ import annotations

import hashlib
import http.client
import logging
import urllib.error
import urllib.request
import zipfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
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
        except (OSError, http.client.HTTPException, DownloadError) as error:
            problem = f"{urlsplit(address).hostname}: {_reason(error)}"
            log.warning("%s could not be downloaded from %s", remote.file, problem)
            if problem not in problems:
                problems.append(problem)
    if is_new:
        with suppress(OSError):
            folder.rmdir()
    raise DownloadError("; ".join(problems))


def _download(remote: Remote, address: str, partial: Path) -> None:
    with open_address(address) as answer:
        length = answer.headers.get("Content-Length")
        total = int(length) if length and length.isdigit() else None
        method, _, expected = (remote.checksum or "md5:").partition(":")
        digest = hashlib.new(method, usedforsecurity=False)
        host = urlsplit(address).hostname
        what = f"downloading {remote.file} ({remote.megabytes:,.0f} MB) from {host}"
        received = 0
        with partial.open("wb") as out, working(what, total, in_bytes=True, at_once=True) as advance:
            while block := answer.read(_BLOCK):
                out.write(block)
                digest.update(block)
                received += len(block)
                advance(len(block))
    if total is not None and received != total:
        raise DownloadError(f"the connection broke off after {received:,} of {total:,} bytes")
    if expected and digest.hexdigest() != expected:
        raise DownloadError(f"what it sent is not the published file ({method.upper()} differs)")
    if not expected and remote.file.endswith(".zip"):
        _check_zip(partial)


def _check_zip(path: Path) -> None:
    try:
        with zipfile.ZipFile(path) as archive:
            bad = archive.testzip()
    except zipfile.BadZipFile:
        raise DownloadError("what it sent is not a whole zip archive") from None
    if bad is not None:
        raise DownloadError(f"{bad} in the archive it sent is damaged")


def open_address(address: str) -> Any:
    """Open a web address: given up soon if nobody answers, patient once somebody has."""
    request = urllib.request.Request(address, headers={"User-Agent": f"unskew/{__version__}"})
    opener = urllib.request.build_opener(_PatientHTTP, _PatientHTTPS)
    return opener.open(request, timeout=CONNECT_SECONDS)


class _Patient(http.client.HTTPConnection):
    def connect(self) -> None:
        super().connect()
        self.sock.settimeout(STALL_SECONDS)


class _PatientTLS(http.client.HTTPSConnection):
    def connect(self) -> None:
        super().connect()
        self.sock.settimeout(STALL_SECONDS)


class _PatientHTTP(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_Patient, req)


class _PatientHTTPS(urllib.request.HTTPSHandler):
    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(cast(Any, _PatientTLS), req)


def _reason(error: BaseException) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"answered {error.code} {error.reason}"
    if isinstance(error, urllib.error.URLError) and isinstance(error.reason, BaseException):
        error = error.reason
    if isinstance(error, TimeoutError):
        return "no answer"
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return str(text)
