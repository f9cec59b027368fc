"""Files of one's own with bytes changed, lost or added: they are read, or one line says what is wrong."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from unskew.data import load
from unskew.data.partition import Partition, partition
from unskew.errors import InputError
from unskew.network import network_of
from unskew.runs.experiment_file import read_toml


def a_table() -> pd.DataFrame:
    words = {"word": [f"w{k % 5}" for k in range(60)], "label": [f"l{k % 3}" for k in range(60)]}
    return pd.DataFrame({"a": np.linspace(0, 1, 60), "b": np.arange(60), **words})


def an_image(path: Path) -> None:
    for label in ("cat", "dog"):
        (path / label).mkdir(parents=True)
        for at in range(3):
            pixels = np.arange(48, dtype=np.uint8).reshape(4, 4, 3) + at
            Image.fromarray(pixels).save(path / label / f"{at}.png")


def through_network(path: Path) -> None:
    network_of(f'wireless(gains="{path}")').check(5)


WRITTEN: dict[str, Callable[[Path], Any]] = {
    "t.csv": lambda path: a_table().to_csv(path, index=False),
    "t.tsv": lambda path: a_table().to_csv(path, index=False, sep="\t"),
    "t.parquet": lambda path: a_table().to_parquet(path),
    "u.parquet": lambda path: a_table().to_parquet(path, compression=None),
    "n.npz": lambda path: np.savez(path, x=np.ones((60, 4), np.float32), y=np.arange(60) % 3),
    "p.npz": lambda path: partition(np.arange(60) % 3, "iid", 5).save(path),
    "g.npy": lambda path: np.save(path, np.ones((6, 6))),
    "g.csv": lambda path: np.savetxt(path, np.ones((6, 6)), delimiter=","),
    "e.toml": lambda path: path.write_text(
        'rounds = 3\nmethod = "sem"\ntarget = [0.5]\n[sweep]\nseed = "0-4"\n'
    ),
    "images/cat/0.png": lambda path: an_image(path.parents[1]),
}
READ: dict[str, Callable[[Path], Any]] = {
    "p.npz": Partition.load,
    "g.npy": through_network,
    "g.csv": through_network,
    "e.toml": read_toml,
    "images/cat/0.png": lambda path: load(f"{path.parents[1]}(size=4)"),
}


def damaged(content: bytes, rng: random.Random) -> bytes:
    """One to three changes: a byte, a cut, a hole, or something that does not belong there."""
    odd = (b"\0", b"\n", b'"', b"'", b",", b"\xff\xfe", b"9" * 400, b"[" * 2000, b"1e999", b"nan", b"-")
    for _ in range(rng.choice([1, 1, 2, 3])):
        at = rng.randrange(max(1, len(content)))
        gap = rng.randrange(1, 30)
        content = rng.choice(
            [
                content[:at] + bytes([rng.randrange(256)]) + content[at + 1 :],
                content[:at],
                content[:at] + content[at + gap :],
                content[:at] + rng.choice(odd) + content[at:],
            ]
        )
    return content


@pytest.mark.parametrize("name", WRITTEN)
def test_a_damaged_file_is_read_or_told_in_one_line(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    WRITTEN[name](path)
    whole, rng = path.read_bytes(), random.Random(7)
    read = READ.get(name, load)
    read(path)
    for _ in range(60):
        path.write_bytes(damaged(whole, rng))
        said = ""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                read(path)
        except InputError as problem:
            said = str(problem)
        assert said.isprintable()
        assert len(said) < 1300


def test_words_that_no_longer_decode_are_told(tmp_path: Path) -> None:
    """pandas hands them out undecoded: the damage showed where somebody first looked, as an ArrowException."""
    path = tmp_path / "t.parquet"
    a_table().to_parquet(path, compression=None, use_dictionary=False, column_encoding="PLAIN")
    content = path.read_bytes()
    at = content.index(b"w3")
    path.write_bytes(content[:at] + b"\xff\xfe" + content[at + 2 :])
    with pytest.raises(InputError, match=r"t\.parquet cannot be read as a table \("):
        load(path)


def test_a_range_without_end_is_refused_before_it_is_made(tmp_path: Path) -> None:
    path = tmp_path / "e.toml"
    path.write_text('[sweep]\nseed = "0-99999999999999"\n')
    with pytest.raises(
        InputError, match=r"line 2: '0-99999999999999' are more than 100,000 values; sweep fewer"
    ):
        read_toml(path)


def test_images_are_measured_before_they_are_scaled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    an_image(tmp_path / "images")
    monkeypatch.setattr("unskew.machine.memory.memory", lambda: 10**8)
    with pytest.raises(
        InputError, match=r"6 images of 4096x4096 pixels would take 604 MB of memory, and there are 100 MB"
    ):
        load(f"{tmp_path / 'images'}(size=4096)")
