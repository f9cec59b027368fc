"""Free Spoken Digit Dataset."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import ClassVar

import numpy as np

from unskew.arrays import Array
from unskew.data.audio import LogMel, read_wav
from unskew.data.dataset import Dataset
from unskew.data.download import Remote
from unskew.data.files import contents, damaged, read_npz
from unskew.data.sources.source import Form, Source

RATE = 8_000
# 8,064 samples and hops of 128 give 64 frames: a square picture of 1.008 s, into which 99.4% of clips fit.
# The window is 32 ms, as usual for speech; the longer transform keeps the lowest bands from being empty.
SPECTROGRAM = LogMel(rate=RATE, samples=8_064, bands=64, n_fft=512, window=256, hop=128)
_NAME = re.compile(r"(\d)_([A-Za-z]+)_(\d+)\.wav")
_TEST_TAKES = 5  # the authors' split: takes 0 to 4 of each speaker and digit are for testing


def _read_recordings(source: Fsdd, place: Path) -> Dataset:
    """Wav files ``recordings/{digit}_{speaker}_{take}.wav`` of a folder or the archive of the repository."""
    clips: dict[str, tuple[Array, str, str, int]] = {}

    def wanted(name: str) -> bool:
        path = PurePosixPath(name)
        return _NAME.fullmatch(path.name) is not None and path.parent.name in ("recordings", "")

    within = ("recordings",) if (place / "recordings").is_dir() else ("",)
    for name, data in contents(place, wanted, within):
        file = PurePosixPath(name).name
        digit, speaker, take = _NAME.fullmatch(file).groups()  # type: ignore[union-attr]  # wanted() has matched it
        wave, rate = read_wav(data, f"{place}/{name}")
        clips[file] = SPECTROGRAM.fit(wave.mean(axis=0), rate), digit, speaker, int(take)
    ordered = [clips[file] for file in sorted(clips)]
    waves, digits, speakers, takes = (list(column) for column in zip(*ordered, strict=True))
    counted = {(s, d): 0 for s in sorted(set(speakers)) for d in "0123456789"}
    for s, d in zip(speakers, digits, strict=True):
        counted[s, d] += 1
    for (s, d), n in counted.items():
        if n != source.takes:
            raise damaged(place, f"it has {n} recordings of digit {d} by {s}, not {source.takes}")
    return _dataset(
        source,
        np.stack(waves),
        np.array(digits, np.int64),
        np.array(speakers),
        np.array(takes) < _TEST_TAKES,
        f"{len(clips):,} recordings in {place.name}",
    )


def _read_packed(source: Fsdd, path: Path) -> Dataset:
    """All recordings as one int16 wave with offsets."""
    arrays = read_npz(path, "audio", "offsets", "y", "speaker", "speaker_names", "is_test", "sample_rate")
    offsets, rate = arrays["offsets"], int(arrays["sample_rate"])
    if len(offsets) != len(arrays["y"]) + 1 or offsets[-1] != len(arrays["audio"]):
        raise damaged(path, "its offsets do not fit its labels and its audio")
    wave = arrays["audio"].astype(np.float32) / 32_768
    clips = [SPECTROGRAM.fit(wave[a:b], rate) for a, b in pairwise(offsets)]
    speakers = arrays["speaker_names"][arrays["speaker"]]
    return _dataset(
        source, np.stack(clips), arrays["y"], speakers, arrays["is_test"], f"{path.name} (packed)"
    )


def _dataset(source: Fsdd, waves: Array, y: Array, speakers: Array, test: Array, files: str) -> Dataset:
    blocks = (waves[k : k + 64, None] for k in range(0, len(waves), 64))
    x = np.concatenate([SPECTROGRAM(block) for block in blocks])
    labels = tuple("0123456789")
    train = ~test
    columns = {"speaker": speakers[train]}
    return source.dataset(x[train], y[train], x[test], y[test], labels, files, columns=columns)


@dataclass(frozen=True)
class Fsdd(Source):
    """Free Spoken Digit Dataset: the digits 0 to 9 spoken by six people, as log-mel spectrograms.

    Each recording at 8 kHz is cut off or followed by silence to 1.008 s; 64 HTK mel bands up to 4 kHz, Hann
    window of 32 ms, hop of 16 ms, decibels over a range of 80. Test set: takes 0 to 4, as the authors say.

    Citation: Z. Jackson, C. Souza, J. Flaks, Y. Pan, H. Nicolas, A. Thite, Free Spoken Digit Dataset, 2018,
    doi:10.5281/zenodo.1342401.

    Licence: CC BY-SA 4.0.
    """

    name: ClassVar = "fsdd"
    kind: ClassVar = "spectrogram"
    counts: ClassVar = (2_700, 300)
    shape: ClassVar = (1, SPECTROGRAM.bands, SPECTROGRAM.frames)
    classes: ClassVar = 10
    columns: ClassVar = ("speaker",)
    takes: ClassVar[int] = 50
    home: ClassVar = "."
    forms: ClassVar = (
        Form(
            "the recordings",
            (
                "free-spoken-digit-dataset",
                "free-spoken-digit-dataset-master",
                "fsdd/free-spoken-digit-dataset",
                "fsdd/free-spoken-digit-dataset-master",
                "fsdd",
                "FSDD",
                ".",
            ),
            _read_recordings,
            needs=("recordings/0_jackson_0.wav|0_jackson_0.wav",),
        ),
        Form(
            "the archive of the repository",
            tuple(
                f"{folder}free-spoken-digit-dataset{version}.{ending}"
                for folder in ("", "fsdd/")
                for version in ("", "-master")
                for ending in ("zip", "tar.gz")
            ),
            _read_recordings,
        ),
        Form("packed wave", ("fsdd.npz", "fsdd/fsdd.npz"), _read_packed),
    )
    remotes: ClassVar = (
        Remote(
            "free-spoken-digit-dataset.zip",
            ("https://github.com/Jakobovski/free-spoken-digit-dataset/archive/refs/heads/master.zip",),
            None,
            20,
        ),
    )
