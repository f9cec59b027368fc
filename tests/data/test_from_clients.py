"""Clients' own data, one by one: arrays, frames, files on disk, torch data sets."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.data import Dataset as TorchDataset
from torch.utils.data import IterableDataset, TensorDataset

import unskew
from unskew import Federation
from unskew.data.mapped import is_mapped
from unskew.errors import InputError

RUN = {"cohort": 2, "rounds": 2, "lr": 0.1, "progress": False}


def samples(n: int, seed: int, shift: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    return (rng.normal(size=(n, 4)) + y[:, None] + shift).astype(np.float32), np.array(["a", "b", "c"])[y]


def test_every_client_brings_its_own_samples_under_its_name() -> None:
    """A fifth of each of its classes is held out, and is its part of the test set."""
    clients = {"north": samples(30, 0), "south": samples(60, 1)}
    found = Federation.from_clients(clients, name="sites")
    assert found.names == ("north", "south")
    assert found.sizes.tolist() == [24, 48]
    assert found.tests is not None
    assert found.aside["test"].sizes.tolist() == [6, 12]
    assert found.dataset.labels == ("a", "b", "c")
    own = {tuple(row) for row in clients["south"][0].tolist()}
    assert {tuple(row) for row in found.dataset.x[found.samples(1)].tolist()} <= own
    assert {tuple(row) for row in found.dataset.x_test[6:].tolist()} <= own


def test_clients_test_data_is_what_they_are_judged_by() -> None:
    """The mean over clients is that of the accuracies on their own test samples."""
    clients = {who: (*samples(30, k), *samples(9, 10 + k)) for k, who in enumerate(("north", "south"))}
    found = Federation.from_clients(clients)
    assert len(found.dataset.y_test) == 18
    ended = unskew.run(dataset=found, evaluate_clients=True, **RUN)  # type: ignore[arg-type]
    right = [(ended.predict(x).labels == y).mean() for _, _, x, y in clients.values()]
    line = ended.folder.lines[-1]
    assert line["mean_client_test_accuracy"] == pytest.approx(np.mean(right))
    assert line["worst_client_test_accuracy"] == pytest.approx(min(right))
    assert ended.result["data"]["names"] == ["north", "south"]
    assert ended.result["discloses"] == ["means and deviations over all clients"]


def frame(n: int, seed: int) -> pd.DataFrame:
    x, y = samples(n, seed)
    rng = np.random.default_rng(seed)
    return pd.DataFrame(x, columns=list("pqrs")).assign(sex=rng.choice(["f", "m"], n), outcome=y)


def test_frames_are_one_table_with_names(tmp_path: Path) -> None:
    """Words are one-hot over all clients, gaps are filled, and raw rows can be predicted."""
    clients = {"north": frame(30, 0), "south": (frame(45, 1), frame(12, 2))}
    clients["north"].loc[2, "p"] = np.nan  # type: ignore[union-attr]
    found = Federation.from_clients(clients, label="outcome", impute="median", drop=["s"])
    assert found.dataset.table is not None
    assert found.dataset.table.features == ("p", "q", "r", "sex=f", "sex=m")
    assert found.sizes.tolist() == [24, 45]
    assert found.tests is not None
    assert found.aside["test"].sizes.tolist() == [6, 12]
    ended = unskew.run(dataset=found, out=tmp_path / "run", **RUN)  # type: ignore[arg-type]
    assert len(unskew.load_run(tmp_path / "run").predict(clients["north"])) == 30
    own = Federation.from_clients(clients, label="outcome", impute="drop", fit="client")
    assert own.sizes.sum() == 24 + 45 - 1 or own.aside["test"].offsets[-1] == 17  # type: ignore[index]  # the gap may be in either
    assert own.dataset.x[own.samples(1)][:, :4].mean(0) == pytest.approx(np.zeros(4), abs=1e-5)
    assert ended.result["discloses"][0].startswith("column means and deviations, median values")


def test_a_frame_may_have_its_labels_beside_it() -> None:
    whole = frame(30, 0)
    x, y = whole.drop(columns="outcome"), whole["outcome"]
    found = Federation.from_clients({"a": (x, y), "b": (x, y)}, test=0)
    assert found.dataset.table is not None
    assert found.dataset.table.label == "outcome"
    assert found.sizes.tolist() == [30, 30]


def test_neighbouring_stretches_of_a_file_are_used_where_they_lie(tmp_path: Path) -> None:
    """Nothing is copied: the pool is the file."""
    x, y = samples(90, 0)
    np.save(tmp_path / "x.npy", x)
    big = np.load(tmp_path / "x.npy", mmap_mode="r")
    held = samples(9, 5)
    found = Federation.from_clients({"a": (big[:40], y[:40], *held), "b": (big[40:], y[40:], *held)})
    place = is_mapped(found.dataset.x)
    assert place is not None
    assert Path(place.file) == tmp_path / "x.npy"
    assert np.array_equal(found.dataset.x, x)


@pytest.mark.parametrize("engine", [{"engine": "loop"}, {"engine": "fast", "workers": 2}])
def test_files_of_several_clients_stay_on_disk(tmp_path: Path, engine: dict[str, object]) -> None:
    """They are joined in a file, which goes with the federation; a run over it gives the numbers of one in memory."""
    clients = {}
    for k, who in enumerate(("a", "b", "c")):
        x, y = samples(40, k)
        np.save(tmp_path / f"{who}.npy", x)
        clients[who] = (np.load(tmp_path / f"{who}.npy", mmap_mode="r"), y)
    on_disk = Federation.from_clients(clients)
    place = is_mapped(on_disk.dataset.x)
    assert place is not None
    assert is_mapped(on_disk.dataset.x_test) is not None
    in_memory = Federation.from_clients(clients, on_disk=False)
    assert is_mapped(in_memory.dataset.x) is None
    runs = [unskew.run(dataset=f, **RUN, **engine) for f in (on_disk, in_memory)]  # type: ignore[arg-type]
    assert runs[0].result["model_sha256"] == runs[1].result["model_sha256"]
    assert Path(place.file).exists()
    del on_disk, runs
    gc.collect()
    assert not Path(place.file).exists()


class Squares(TorchDataset):  # type: ignore[type-arg]
    """Grey pictures, as torch data sets give them: one at a time, the label as a number."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, k: int) -> tuple[torch.Tensor, int]:
        if not 0 <= k < self.n:
            raise IndexError
        return torch.full((1, 6, 6), float(k % 2)), k % 2


def test_a_torch_data_set_with_a_length_is_a_client(tmp_path: Path) -> None:
    """By index, whole (TensorDataset), with a test set beside it; written to a folder where that is asked for."""
    whole = TensorDataset(torch.zeros(10, 1, 6, 6), torch.arange(10) % 2)
    found = Federation.from_clients(
        {"a": Squares(20), "b": (Squares(30), Squares(4)), "c": whole}, on_disk=tmp_path
    )
    assert found.dataset.shape == (1, 6, 6)
    assert found.sizes.tolist() == [16, 30, 8]
    assert (tmp_path / "x.bin").exists()


class Endless(IterableDataset):  # type: ignore[type-arg]
    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter([])


@pytest.mark.parametrize(
    ("clients", "options", "message"),
    [
        ({}, {}, "from_clients takes a dictionary of clients' names, each with (x, y)"),
        (
            {"a": samples(9, 0)[:1]},
            {},
            "client 'a' has a tuple of 1; give (x, y), (x, y, x_test, y_test), a DataFrame",
        ),
        (
            {"a": samples(9, 0), "b": (samples(9, 0)[0][:, :2], samples(9, 0)[1])},
            {},
            "samples of client 'b' have the shape (2,), those of client 'a' (4,)",
        ),
        ({"a": (samples(9, 0)[0], [1, 2])}, {}, "x of client 'a' has the shape (9, 4) and y (2,)"),
        ({"a": Endless()}, {}, "client 'a' has a torch data set without a length"),
        ({1: samples(9, 0), "1": samples(9, 0)}, {}, "two clients are called '1'"),
        ({"a": samples(9, 0)}, {"impute": "median"}, "impute is about the columns of DataFrames"),
        (
            {"a": frame(9, 0), "b": frame(9, 0).drop(columns="q")},
            {"label": "outcome"},
            "in the frame of client 'b' there is no shared column 'q'",
        ),
        (
            {"a": frame(9, 0), "b": frame(9, 0)},
            {"label": "outcom"},
            "in the frame of client 'a' there is no label column 'outcom'; did you mean 'outcome'?",
        ),
    ],
)
def test_bad_clients_are_refused_in_one_sentence(clients: dict, options: dict, message: str) -> None:  # type: ignore[type-arg]
    with pytest.raises(InputError) as caught:
        Federation.from_clients(clients, **options)
    assert str(caught.value).startswith(message)
