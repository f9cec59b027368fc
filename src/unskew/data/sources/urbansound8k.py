"""UrbanSound8K."""

from __future__ import annotations

import csv
import hashlib
import io
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import ClassVar, NamedTuple

import numpy as np

from unskew.arrays import Array
from unskew.data.audio import LogMel, read_wav
from unskew.data.dataset import Dataset, hold_out
from unskew.data.download import Remote
from unskew.data.files import contents, damaged, data_folder, one_of, read_file, read_npz
from unskew.data.sources.source import Form, Source
from unskew.errors import InputError
from unskew.files import replace_file
from unskew.progress import working

# FLea's features: 4 s of stereo at 44.1 kHz. Its 344 frames come from counting 44 samples a millisecond.
SPECTROGRAM = LogMel(rate=44_100, samples=4_000 * 44, bands=64, n_fft=1024, window=1024, hop=512)
_FOLDS = range(1, 11)
_TABLE = "UrbanSound8K.csv"
_TABLES = f"metadata/{_TABLE}|{_TABLE}"
_CACHE = "urbansound8k-logmel-2x64x344.npz"


def _read_audio(source: UrbanSound8K, place: Path) -> Dataset:
    """The log-mel features of the published wav files, computed once and kept beside them."""
    stamp = _stamp(place)
    arrays = None
    for cache in _cache_paths(place):
        if cache.is_file():
            try:
                arrays = read_npz(cache, "x", "y", "fold", "fsid", "stamp")
            except InputError:
                arrays = None  # ours, and made again from the wav files
            if arrays is not None and str(arrays["stamp"]) == stamp:
                break
            arrays = None
    if arrays is None:
        arrays = cut_features(source, place) | {"stamp": np.array(stamp)}
        _keep(arrays, place)
    return _split(source, arrays, arrays["x"], f"wav files in {place.name}, log-mel computed")


def cut_features(source: UrbanSound8K, place: Path) -> dict[str, Array]:
    """Clips in the order of the metadata table: features, class, fold and recording."""
    rows: list[Clip] | None = None
    pictures: dict[str, Array] = {}

    def picture(item: tuple[str, bytes]) -> tuple[str, Array]:
        name, data = item
        wave, rate = read_wav(data, f"{place}/{name}")
        stereo = wave[:2] if len(wave) > 1 else np.repeat(wave, 2, axis=0)
        # float32 would take 1.5 GB; float16 is exact to 0.06 dB
        return _key(name), SPECTROGRAM(SPECTROGRAM.fit(stereo, rate)).astype(np.float16)

    files = contents(place, lambda name: name.endswith(_TABLE) or _is_clip(name), _within())
    what = f"computing log-mel features of {place.name} (once; they are kept)"
    with ThreadPoolExecutor(os.cpu_count()) as pool, working(what, source.clips, at_once=True) as advance:
        while batch := list(islice(files, 32)):
            sounds = [item for item in batch if _is_clip(item[0])]
            for name, data in batch:
                if name.endswith(_TABLE):
                    rows = _rows(data, f"{place}/{name}", source.clips)
            pictures.update(pool.map(picture, sounds))
            advance(len(sounds))
    if rows is None:
        raise damaged(place, f"metadata/{_TABLE} is not in it")
    missing = [row.key for row in rows if row.key not in pictures]
    if missing:
        more = f" and {len(missing) - 1:,} more are" if len(missing) > 1 else " is"
        raise damaged(place, f"audio/{missing[0]}{more} not in it")
    return {
        "x": np.stack([pictures[row.key] for row in rows]),
        "y": np.array([row.label for row in rows], np.int64),
        "fold": np.array([row.fold for row in rows], np.int64),
        "fsid": np.array([row.fsid for row in rows], np.int64),
    }


class Clip(NamedTuple):
    """A line of the metadata table."""

    key: str
    fsid: int
    fold: int
    label: int


def _rows(table: bytes, where: str, clips: int) -> list[Clip]:
    try:
        rows = [
            Clip(f"fold{r['fold']}/{r['slice_file_name']}", int(r["fsID"]), int(r["fold"]), int(r["classID"]))
            for r in csv.DictReader(io.StringIO(table.decode("utf-8")))
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise damaged(where, f"it is not the published table ({type(error).__name__}: {error})") from None
    if len(rows) != clips:
        raise damaged(where, f"it lists {len(rows):,} clips, not {clips:,}")
    return rows


def _within() -> tuple[str, ...]:
    """The sub-folders of the published layout, and of the flat one that some hosts give out."""
    return "metadata", "", *(f"{audio}fold{k}" for audio in ("audio/", "") for k in _FOLDS)


def _is_clip(name: str) -> bool:
    path = PurePosixPath(name)
    return path.suffix == ".wav" and path.parent.name.startswith("fold") and not path.name.startswith(".")


def _key(name: str) -> str:
    return "/".join(PurePosixPath(name).parts[-2:])


def _stamp(place: Path) -> str:
    """Changes with the wav files and with how features are computed, so that a kept copy is never stale."""
    if place.is_dir():
        table = one_of(place, _TABLES)
        assert table is not None  # it is how the folder was found
        sizes = [f.stat().st_size for folder in _within() for f in (place / folder).glob("*.wav")]
        files = f"{hashlib.sha256(read_file(table)).hexdigest()} {len(sizes)} {sum(sizes)}"
    else:
        files = f"{place.name} {place.stat().st_size}"
    return f"{SPECTROGRAM} {files}"


def _cache_paths(place: Path) -> tuple[Path, ...]:
    """Beside the wav files, or in the user's cache where those lie in a folder that cannot be written to."""
    return (place if place.is_dir() else place.parent) / _CACHE, data_folder() / _CACHE


def _keep(arrays: dict[str, Array], place: Path) -> None:
    for cache in _cache_paths(place):
        try:
            with replace_file(cache, make_folder=True) as draft, draft.open("wb") as out:
                np.savez(out, **arrays)  # type: ignore[arg-type]  # its keywords are arrays, but for one flag
            return
        except OSError:
            continue


def _read_packed(source: UrbanSound8K, path: Path) -> Dataset:
    """Log-mel features of some folds, mono, as whole decibels above ``db_offset``."""
    arrays = read_npz(path, "x", "y", "fold", "fsid", "db_offset")
    if arrays["x"].ndim != 3 or len(arrays["x"]) != len(arrays["y"]):
        raise damaged(path, f"x has the shape {arrays['x'].shape} for {len(arrays['y'])} labels")
    folds = np.unique(arrays["fold"])
    note = f", folds {', '.join(map(str, folds))} only" if len(folds) < len(_FOLDS) else ""
    return _split(source, arrays, arrays["x"][:, None], f"{path.name} (packed, mono{note})")


def _split(source: UrbanSound8K, arrays: dict[str, Array], x: Array, files: str) -> Dataset:
    y, fold = arrays["y"].astype(np.int64), arrays["fold"].astype(np.int64)
    if source.test is not None:
        test = hold_out(y, source.test, source.seed)
    else:
        test = fold == source.test_fold
        if not test.any():
            there = ", ".join(str(k) for k in np.unique(fold))
            raise InputError(
                f"fold {source.test_fold} is not in {files.split(' (')[0]}; test_fold can be {there}"
            )
    columns = {"fsid": arrays["fsid"].astype(np.int64)[~test], "fold": fold[~test]}
    return source.dataset(x[~test], y[~test], x[test], y[test], source.labels, files, columns=columns)


@dataclass(frozen=True)
class UrbanSound8K(Source):
    """Ten kinds of city sound in clips of up to 4 s, as log-mel spectrograms.

    Of the wav files: 44.1 kHz, stereo (a mono clip twice), cut off or followed by silence to 4 s, 64 HTK mel
    bands, 1024 points, hop 512, decibels over a range of 80; kept as float16. The test set is fold
    ``test_fold``; ``test=0.2`` holds out a random fifth instead, as FLea does, drawn by ``seed``. Clips cut
    from one recording share its ``fsid``.

    Citation: J. Salamon, C. Jacoby, J. P. Bello, A Dataset and Taxonomy for Urban Sound Research, ACM
    Multimedia 2014.

    Licence: CC BY-NC 3.0 (not for commercial use).
    """

    name: ClassVar = "urbansound8k"
    kind: ClassVar = "spectrogram"
    clips: ClassVar[int] = 8_732
    counts: ClassVar = (7_895, 837)
    shape: ClassVar = (2, SPECTROGRAM.bands, SPECTROGRAM.frames)
    classes: ClassVar = 10
    columns: ClassVar = ("fsid", "fold")
    labels: ClassVar[tuple[str, ...]] = (
        "air_conditioner",
        "car_horn",
        "children_playing",
        "dog_bark",
        "drilling",
        "engine_idling",
        "gun_shot",
        "jackhammer",
        "siren",
        "street_music",
    )
    home: ClassVar = "."
    forms: ClassVar = (
        Form(
            "the published folder",
            ("UrbanSound8K", "urbansound8k/UrbanSound8K", "urbansound8k", "."),
            _read_audio,
            needs=(_TABLES,),
        ),
        Form(
            "the archive as published",
            ("UrbanSound8K.tar.gz", "urbansound8k/UrbanSound8K.tar.gz"),
            _read_audio,
        ),
        Form(
            "packed log-mel features of some folds",
            ("urbansound8k-folds-logmel.npz", "urbansound8k/urbansound8k-folds-logmel.npz"),
            _read_packed,
            note="folds 1, 2, 10 and part of 3, mono at 16 kHz, in whole decibels",
            counts=(2_148, 837),
            shape=(1, 64, 126),
        ),
    )
    remotes: ClassVar = (
        Remote(
            "UrbanSound8K.tar.gz",
            ("https://zenodo.org/records/1203745/files/UrbanSound8K.tar.gz",),
            "md5:9aa69802bbf37fb986f71ec1483a196e",
            6_023,
        ),
    )

    test_fold: int = 10
    test: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.test_fold not in _FOLDS:
            raise InputError(f"test_fold of urbansound8k must be 1 to 10, not {self.test_fold}")
        if self.test is not None and not 0 < self.test < 1:
            raise InputError(f"test of urbansound8k must lie between 0 and 1, not {self.test}")
