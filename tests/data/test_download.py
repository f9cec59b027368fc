"""Downloading, through a server on this machine: checksums, mirrors, and nothing half-written."""

from __future__ import annotations

import gzip
import hashlib
import io
import socket
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from unskew.data import load
from unskew.data.download import DownloadError, Remote, fetch
from unskew.data.sources.cifar10 import Cifar10
from unskew.data.sources.idx import FILES
from unskew.data.sources.mnist import Mnist
from unskew.errors import InputError

CONTENT = b"the published file" * 100_000
SHA = "sha256:" + hashlib.sha256(CONTENT).hexdigest()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass

    def end_headers(self) -> None:
        if self.path.startswith("/short"):
            self.close_connection = True
        if self.path.startswith("/packed"):
            self.send_header("Content-Encoding", "gzip")
        super().end_headers()

    def copyfile(self, source: io.BufferedIOBase, outputfile: io.BufferedIOBase) -> None:  # type: ignore[override]
        data = source.read()
        outputfile.write(data[: len(data) // 2] if self.path.startswith("/short") else data)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Path]]:
    """An address and the folder behind it."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    folder = tmp_path / "served"
    folder.mkdir()
    handler = partial(Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{running.server_address[1]}", folder
        running.shutdown()
        thread.join()


def test_a_file_is_fetched_checked_and_named_at_the_end(
    server: tuple[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address, folder = server
    (folder / "data.bin").write_bytes(CONTENT)
    path = fetch(Remote("data.bin", (f"{address}/data.bin",), SHA, 1.8), tmp_path / "new" / "folder")
    assert path.read_bytes() == CONTENT
    assert [f.name for f in path.parent.iterdir()] == ["data.bin"]
    assert capsys.readouterr().err == "downloading data.bin (2 MB) from 127.0.0.1\n"


def test_a_terminal_shows_a_bar_with_the_amount(
    server: tuple[str, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "160")
    address, folder = server
    (folder / "data.bin").write_bytes(CONTENT)
    fetch(Remote("data.bin", (f"{address}/data.bin",), SHA, 1.8), tmp_path)
    shown = capsys.readouterr().err
    assert "downloading data.bin (2 MB) from 127.0.0.1" in shown
    assert "1.8/1.8 MB" in shown


def test_another_content_is_refused_and_nothing_is_left_behind(
    server: tuple[str, Path], tmp_path: Path
) -> None:
    address, folder = server
    (folder / "data.bin").write_bytes(b"<html>please log in</html>")
    with pytest.raises(DownloadError) as caught:
        fetch(Remote("data.bin", (f"{address}/data.bin",), SHA, 1), tmp_path / "here")
    assert str(caught.value) == "127.0.0.1: what it sent is not the published file (SHA256 differs)"
    assert not (tmp_path / "here").exists()


def test_a_packed_file_is_kept_as_it_was_published(server: tuple[str, Path], tmp_path: Path) -> None:
    """Also from servers that call it a packed answer, which others unpack on the way."""
    address, folder = server
    published = gzip.compress(CONTENT)
    (folder / "packed.gz").write_bytes(published)
    checksum = "md5:" + hashlib.md5(published).hexdigest()
    path = fetch(Remote("packed.gz", (f"{address}/packed.gz",), checksum, 1), tmp_path)
    assert path.read_bytes() == published


def test_a_downloaded_file_has_the_permissions_of_any_other(server: tuple[str, Path], tmp_path: Path) -> None:
    """Others who share the data folder can read it."""
    address, folder = server
    (folder / "data.bin").write_bytes(CONTENT)
    path = fetch(Remote("data.bin", (f"{address}/data.bin",), SHA, 1), tmp_path)
    assert path.stat().st_mode == (folder / "data.bin").stat().st_mode


def test_mirrors_are_tried_in_order(server: tuple[str, Path], tmp_path: Path) -> None:
    address, folder = server
    (folder / "bad.bin").write_bytes(b"bad")
    (folder / "good.bin").write_bytes(CONTENT)
    addresses = tuple(f"{address}/{name}.bin" for name in ("absent", "bad", "good"))
    path = fetch(Remote("data.bin", addresses, SHA, 1), tmp_path)
    assert path.read_bytes() == CONTENT


def test_a_connection_that_breaks_off_is_told_and_nothing_is_left_behind(
    server: tuple[str, Path], tmp_path: Path
) -> None:
    address, folder = server
    (folder / "short.bin").write_bytes(CONTENT)
    with pytest.raises(DownloadError, match=r"broke off after 900,000 of 1,800,000 bytes"):
        fetch(Remote("short.bin", (f"{address}/short.bin",), None, 1), tmp_path / "here")
    assert not (tmp_path / "here").exists()


def test_an_absent_file_is_told_with_the_answer(server: tuple[str, Path], tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match=r"127.0.0.1: answered 404 File not found"):
        fetch(Remote("x", (f"{server[0]}/x",), None, 1), tmp_path)


def test_a_zip_without_a_published_checksum_must_pass_its_own(
    server: tuple[str, Path], tmp_path: Path
) -> None:
    address, folder = server
    remote = Remote("set.zip", (f"{address}/set.zip",), None, 1)
    (folder / "set.zip").write_bytes(b"<html></html>")
    with pytest.raises(DownloadError, match="what it sent is not a whole zip archive"):
        fetch(remote, tmp_path / "here")
    with zipfile.ZipFile(folder / "set.zip", "w") as archive:
        archive.writestr("readme", "text" * 100)
    whole = (folder / "set.zip").read_bytes()
    (folder / "set.zip").write_bytes(whole.replace(b"text", b"tExt", 1))
    with pytest.raises(DownloadError, match="readme in the archive it sent is damaged"):
        fetch(remote, tmp_path / "here")
    (folder / "set.zip").write_bytes(whole)
    assert fetch(remote, tmp_path / "here").read_bytes() == whole


def test_a_data_set_that_is_not_there_is_downloaded_then_found(
    server: tuple[str, Path], tmp_path: Path
) -> None:
    """A set of three images: what is there already is not fetched again."""
    address, folder = server
    arrays = [np.zeros((2, 28, 28)), np.array([1, 2]), np.ones((1, 28, 28)), np.array([3])]
    remotes = []
    for file, array in zip(FILES, arrays, strict=True):
        header = b"\0\0\x08" + bytes([array.ndim]) + b"".join(n.to_bytes(4, "big") for n in array.shape)
        data = gzip.compress(header + array.astype(np.uint8).tobytes())
        (folder / f"{file}.gz").write_bytes(data)
        checksum = "md5:" + hashlib.md5(data).hexdigest()
        remotes.append(Remote(f"{file}.gz", (f"{address}/{file}.gz",), checksum, 0.1))

    @dataclass(frozen=True)
    class Tiny(Mnist):
        counts: ClassVar = (2, 1)
        checksums: ClassVar = (None,) * 4

    Tiny.remotes = tuple(remotes)
    root = tmp_path / "root"
    data = Tiny().read(root)
    assert (data.y.tolist(), data.y_test.tolist()) == ([1, 2], [3])
    for file in folder.iterdir():
        file.unlink()
    assert len(Tiny().read(root)) == 2


def test_without_a_network_one_sentence_says_which_files_go_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody(*asked: object, **more: object) -> object:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", nobody)
    with pytest.raises(InputError) as caught:
        load("mnist", tmp_path)
    assert str(caught.value) == (
        f"mnist is not in {tmp_path} and could not be downloaded (ossci-datasets.s3.amazonaws.com: Name or "
        "service not known; storage.googleapis.com: Name or service not known); put train-images-idx3-ubyte.gz, "
        "train-labels-idx1-ubyte.gz, t10k-images-idx3-ubyte.gz and t10k-labels-idx1-ubyte.gz into "
        f"{tmp_path}/mnist"
    )
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / "train-images-idx3-ubyte.gz").write_bytes(b"here already")
    with pytest.raises(InputError, match=r"; put train-labels-idx1-ubyte.gz, t10k-images"):
        load("mnist", tmp_path)
    with pytest.raises(InputError, match=f"put cifar-10-python.tar.gz into {tmp_path}$"):
        Cifar10().read(tmp_path)


def test_a_server_that_does_not_answer_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*asked: object, **more: object) -> object:
        raise TimeoutError("timed out")

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    with pytest.raises(DownloadError, match=r"^a.example: no answer; b.example: no answer$"):
        fetch(Remote("f", ("https://a.example/f", "https://b.example/f"), None, 1), tmp_path)
