"""Wav files and log-mel spectrograms, and the two data sets made of them."""

from __future__ import annotations

import io
import math
import sys
import tarfile
import wave
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from unskew.data import load
from unskew.data.audio import LogMel, read_wav
from unskew.data.sources import urbansound8k
from unskew.data.sources.fsdd import Fsdd
from unskew.data.sources.urbansound8k import UrbanSound8K
from unskew.errors import InputError


def wav(samples: np.ndarray, rate: int, width: int = 2) -> bytes:
    """[channels, n] in -1..1 as a PCM wav file of ``width`` bytes a sample."""
    scaled = np.round(np.atleast_2d(samples).T * (2 ** (8 * width - 1) - 1)).astype(np.int64)
    if width == 1:
        scaled += 128
    data = scaled.astype("<i8").reshape(-1, 1).view(np.uint8)[:, :width]
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(scaled.shape[1])
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(np.ascontiguousarray(data).tobytes())
    return out.getvalue()


def tone(hertz: float, rate: int, seconds: float, loud: float = 0.5) -> np.ndarray:
    return loud * np.sin(2 * np.pi * hertz * np.arange(int(rate * seconds)) / rate)


@pytest.mark.parametrize(("width", "error"), [(1, 1e-2), (2, 1e-4), (3, 1e-6), (4, 1e-6)])
def test_wav_files_of_every_width_give_the_same_wave(width: int, error: float) -> None:
    sound = np.stack([tone(50, 8000, 0.1), tone(90, 8000, 0.1)])
    read, rate = read_wav(wav(sound, 8000, width), "here")
    assert rate == 8000
    assert read == pytest.approx(sound, abs=error)


@pytest.mark.parametrize("kept", [10, 40, 300])
def test_a_wav_file_cut_short_is_refused(kept: int) -> None:
    with pytest.raises(InputError, match="here is damaged: "):
        read_wav(wav(tone(50, 8000, 0.1), 8000)[:kept], "here")


def test_a_compressed_wav_file_asks_for_soundfile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "soundfile", None)
    data = bytearray(wav(tone(50, 8000, 0.1), 8000))
    data[20] = 0x11  # IMA ADPCM
    with pytest.raises(InputError) as caught:
        read_wav(bytes(data), "clip.wav")
    assert str(caught.value) == (
        "clip.wav is a compressed wav file, which needs soundfile; run: pip install 'unskew[audio]'"
    )


def test_a_sine_gives_the_decibels_worked_out_by_hand() -> None:
    """Amplitude 1 at frequency 64/1024 of the rate: with a Hann window of N = 1024 the transform is N/4 = 256
    at its own place and N/8 = 128 at both neighbours, so the powers are 65,536 and twice 16,384; a band's
    power is those times its triangle's height at the three frequencies."""
    rate = 44_100
    spectrogram = LogMel(
        rate=rate, samples=1024 * 8, bands=64, n_fft=1024, window=1024, hop=512, range_db=200
    )
    step = rate / 1024
    picture = spectrogram(np.sin(2 * np.pi * 64 * step * np.arange(8192) / rate)[None])
    edges = [700 * (10 ** (2595 * math.log10(1 + rate / 1400) * k / 65 / 2595) - 1) for k in range(66)]

    def height(band: int, hertz: float) -> float:
        low, middle, high = edges[band : band + 3]
        return max(0.0, min((hertz - low) / (middle - low), (high - hertz) / (high - middle)))

    assert picture.shape == (1, 64, 17)
    loud = 0
    for band in range(64):
        powers = ((63, 16_384), (64, 65_536), (65, 16_384))
        power = sum(height(band, k * step) * p for k, p in powers)
        if power > 1:
            loud += 1
            assert picture[0, band, 8] == pytest.approx(10 * math.log10(power), abs=0.01)
    assert loud in (2, 3)


def test_silence_is_minus_100_decibels_and_nothing_lies_more_than_80_below_the_loudest() -> None:
    spectrogram = LogMel(rate=8000, samples=1024, bands=16, n_fft=256, window=256, hop=128)
    assert spectrogram(np.zeros((1, 1024), np.float32)) == pytest.approx(-100)
    half = np.concatenate([tone(1000, 8000, 0.064), np.zeros(512)])
    picture = spectrogram(half[None])
    assert picture.max() - picture.min() == pytest.approx(80, abs=1e-4)


def test_clips_are_resampled_then_cut_off_or_followed_by_silence() -> None:
    spectrogram = LogMel(rate=8000, samples=800, bands=16, n_fft=256, window=256, hop=128)
    short = spectrogram.fit(tone(440, 16_000, 0.05), 16_000)
    assert short.shape == (800,)
    assert short[50:350] == pytest.approx(tone(440, 8000, 0.05)[50:350], abs=0.01)
    assert np.all(short[401:] == 0)
    assert spectrogram.fit(np.ones((2, 5000)), 8000).shape == (2, 800)


@dataclass(frozen=True)
class OneSpeaker(Fsdd):
    """As the published set; ten takes are enough for a test."""

    takes: ClassVar[int] = 10


def recordings(shared_data: Path, takes: int) -> dict[str, bytes]:
    with np.load(shared_data / "fsdd.npz") as packed:
        clips = np.split(packed["audio"], packed["offsets"][1:-1])
        names = packed["speaker_names"][packed["speaker"]]
        labels = list(zip(packed["y"], names, packed["take"], clips, strict=True))
    return {
        f"recordings/{digit}_{name}_{take}.wav": wav(clip / 32_767, 8000)
        for digit, name, take, clip in labels
        if name == "jackson" and take < takes
    }


def lay_out(files: dict[str, bytes], folder: Path) -> None:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


@pytest.mark.parametrize("form", ["folder", "zip"])
def test_fsdd_from_wav_files_equals_fsdd_from_the_packed_file(
    form: str, shared_data: Path, tmp_path: Path
) -> None:
    """Jackson's takes 0 to 9: half of them, takes 0 to 4, are for testing."""
    files = recordings(shared_data, 10)
    if form == "folder":
        lay_out(files, tmp_path / "free-spoken-digit-dataset")
    else:
        with zipfile.ZipFile(tmp_path / "free-spoken-digit-dataset.zip", "w") as archive:
            for name, data in files.items():
                archive.writestr(f"free-spoken-digit-dataset-master/{name}", data)
            archive.writestr("free-spoken-digit-dataset-master/metadata.py", "")
    data, whole = OneSpeaker().read(tmp_path), load("fsdd", shared_data)
    assert (len(data), len(data.y_test)) == (50, 50)
    test = whole.x_test[5:10]  # speaker after speaker within a digit: george 0-4, jackson 0-4
    assert data.x_test[:5] == pytest.approx(test, abs=1e-3)
    assert set(data.columns["speaker"]) == {"jackson"}


def test_a_missing_recording_is_named(shared_data: Path, tmp_path: Path) -> None:
    files = recordings(shared_data, 10)
    del files["recordings/7_jackson_3.wav"]
    lay_out(files, tmp_path / "fsdd")
    with pytest.raises(InputError, match="it has 9 recordings of digit 7 by jackson, not 10"):
        OneSpeaker().read(tmp_path)


@dataclass(frozen=True)
class TinyUrban(UrbanSound8K):
    """Four clips."""

    clips: ClassVar[int] = 4


CLIPS = {
    "fold1/100-3-0-0.wav": wav(np.stack([tone(500, 44_100, 4), tone(900, 44_100, 4)]), 44_100),
    "fold1/100-3-0-1.wav": wav(tone(500, 22_050, 1), 22_050),
    "fold2/200-9-0-0.wav": wav(tone(500, 48_000, 4.2), 48_000, 3),
    "fold10/300-1-0-0.wav": wav(tone(500, 44_100, 2), 44_100, 1),
}
TABLE = """slice_file_name,fsID,start,end,salience,fold,classID,class
300-1-0-0.wav,300,0.0,2.0,1,10,1,car_horn
100-3-0-0.wav,100,0.0,4.0,1,1,3,dog_bark
100-3-0-1.wav,100,1.0,2.0,1,1,3,dog_bark
200-9-0-0.wav,200,0.0,4.2,2,2,9,street_music
"""
URBAN = {f"audio/{name}": data for name, data in CLIPS.items()} | {
    "metadata/UrbanSound8K.csv": TABLE.encode()
}


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many times features have been computed."""
    calls: list[Path] = []
    features = urbansound8k.cut_features

    def counting(source: UrbanSound8K, place: Path) -> dict[str, np.ndarray]:
        calls.append(place)
        return features(source, place)

    monkeypatch.setattr(urbansound8k, "cut_features", counting)
    return lambda: len(calls)


@pytest.mark.parametrize("form", ["folder", "flat folder", "archive"])
def test_urbansound8k_features_follow_the_table_and_are_computed_once(
    form: str, computed: Callable[[], int], tmp_path: Path
) -> None:
    if form == "folder":
        lay_out(URBAN, tmp_path / "UrbanSound8K")
    elif form == "flat folder":
        flat = {name.split("/", 1)[1]: content for name, content in URBAN.items()}
        lay_out(flat, tmp_path / "urbansound8k")
    else:
        with tarfile.open(tmp_path / "UrbanSound8K.tar.gz", "w:gz") as archive:
            for name, content in URBAN.items():
                member = tarfile.TarInfo(f"UrbanSound8K/{name}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    data = TinyUrban().read(tmp_path)
    assert data.x.shape == (3, 2, 64, 344)
    assert data.y.tolist() == [3, 3, 9]
    assert data.y_test.tolist() == [1]
    assert data.columns["fsid"].tolist() == [100, 100, 200]
    assert data.columns["fold"].tolist() == [1, 1, 2]
    # the first clip's channels differ in pitch, a mono clip's are the same; both show the tone of 500 Hz
    bands = data.x[:, :, :, 30].argmax(axis=-1)
    assert bands[0, 1] > bands[0, 0]
    assert bands[1:].tolist() == [[bands[0, 0]] * 2] * 2
    assert np.array_equal(data.x[1, 0], data.x[1, 1])
    assert np.array_equal(TinyUrban().read(tmp_path).x, data.x)
    assert computed() == 1


def test_features_are_made_again_when_the_clips_change_or_the_kept_copy_is_damaged(
    computed: Callable[[], int], tmp_path: Path
) -> None:
    folder = tmp_path / "UrbanSound8K"
    lay_out(URBAN, folder)
    first = TinyUrban().read(tmp_path)
    (kept,) = folder.glob("*.npz")
    kept.write_bytes(kept.read_bytes()[:5000])
    assert np.array_equal(TinyUrban().read(tmp_path).x, first.x)
    (folder / "audio/fold2/200-9-0-0.wav").write_bytes(CLIPS["fold1/100-3-0-1.wav"])
    assert not np.array_equal(TinyUrban().read(tmp_path).x, first.x)
    assert computed() == 3
    assert [f.name for f in folder.glob("*.npz*")] == [kept.name]


def test_a_damaged_clip_is_named_and_nothing_is_kept(tmp_path: Path) -> None:
    folder = tmp_path / "UrbanSound8K"
    cut = URBAN["audio/fold1/100-3-0-1.wav"][:5000]
    lay_out(URBAN | {"audio/fold1/100-3-0-1.wav": cut}, folder)
    with pytest.raises(InputError) as caught:
        TinyUrban().read(tmp_path)
    assert str(caught.value) == (
        f"{folder}/audio/fold1/100-3-0-1.wav is damaged: its header promises 44,144 bytes but it has 5,000; "
        "put a whole copy in its place or remove it"
    )
    assert list(folder.glob("*.npz")) == []


def test_a_table_with_other_counts_is_refused(tmp_path: Path) -> None:
    lay_out(URBAN, tmp_path / "UrbanSound8K")
    with pytest.raises(InputError, match=r"UrbanSound8K.csv is damaged: it lists 4 clips, not 8,732"):
        UrbanSound8K().read(tmp_path)


def test_a_clip_of_the_table_that_is_not_there_is_named(tmp_path: Path) -> None:
    lay_out({n: d for n, d in URBAN.items() if "300-1" not in n}, tmp_path / "UrbanSound8K")
    with pytest.raises(InputError, match=r"audio/fold10/300-1-0-0.wav is not in it"):
        TinyUrban().read(tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"test_fold": 11}, "test_fold of urbansound8k must be 1 to 10, not 11"),
        ({"test": 1.5}, "test of urbansound8k must lie between 0 and 1, not 1.5"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load("urbansound8k", **options)
