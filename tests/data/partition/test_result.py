"""Saved partitions, and every sentence a user may get for a bad one."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import numpy as np
import pytest

import unskew
from unskew.data.dataset import Dataset
from unskew.data.partition import PRESETS, Partition, build_family, partition
from unskew.errors import InputError
from unskew.expression import render

LABELS = np.arange(200) % 10


def people() -> Dataset:
    return Dataset(
        "people", np.zeros((6, 2)), np.array([0, 1, 0, 1, 1, 0]), np.zeros((1, 2)), np.array([0]), ("a", "b"),
        kind="vector", columns={"subject": np.array([3, 1, 3, 1, 1, 2]), "speaker": np.arange(6)},
    )  # fmt: skip


def test_a_saved_partition_comes_back_whole(tmp_path: Path) -> None:
    part = partition(LABELS, "dirichlet(0.3)", 7, seed=3, fraction=0.8)
    path = part.save(tmp_path / "split.npz")
    back = Partition.load(path, LABELS)
    for name in ("indices", "offsets", "counts"):
        assert np.array_equal(getattr(back, name), getattr(part, name))
    assert back.record == part.record
    assert [p.name for p in tmp_path.iterdir()] == ["split.npz"]


def test_the_file_has_the_same_bytes_every_time(tmp_path: Path) -> None:
    """A published partition can be checked by its file's checksum as well."""
    for name in ("a", "b"):
        partition(LABELS, "q(0.8)", 7).save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_the_record_says_exactly_what_was_done() -> None:
    record = partition(LABELS, "limit_labels(2)", 5, seed=4, samples_per_client=10).record
    assert json.loads(json.dumps(record)) == record
    told = {k: v for k, v in record.items() if "sha256" not in k}
    assert told == {
        "expression": "limit_labels(t=2, f=1.0, at_least=0)",
        "seed": 4,
        "clients": 5,
        "classes": 10,
        "samples": 50,
        "unused": 150,
        "fraction": 1.0,
        "samples_per_client": 10,
        "min_samples": 1,
        "moves": 0,
        "moved_to": 0,
        "asked_emd": None,
        "emd": record["emd"],
        "notes": [],
        "dataset": "",
        "version": unskew.__version__,
    }


def test_a_record_rebuilds_its_partition() -> None:
    for said in ("mixed(labels(1), dirichlet_client(0.2), share=0.9)", "quantity(2, law=power)", "emd(1.1)"):
        first = partition(LABELS, said, 9, seed=2).record
        again = partition(LABELS, first["expression"], 9, seed=2).record
        assert again == first


def test_every_preset_is_written_back_as_itself() -> None:
    for preset in PRESETS.values():
        family = build_family(preset.expression)
        assert build_family(render(family)) == family


def test_a_failed_save_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "split.npz"
    part = partition(LABELS, "iid", 5)
    part.save(path)
    before = path.read_bytes()
    broken = Partition(part.indices, part.offsets, part.counts, {**part.record, "seed": object()})
    with pytest.raises(TypeError):
        broken.save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["split.npz"]


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    """Cut short, overwritten, or changed with all its checksums put right: never half-used."""
    part = partition(LABELS, "iid", 5)
    path = part.save(tmp_path / "split.npz")
    whole = path.read_bytes()
    for content in (whole[: len(whole) // 2], b"", b"not a partition", whole[:400] + b"xx" + whole[402:]):
        path.write_bytes(content)
        with pytest.raises(
            InputError,
            match=rf"^{re.escape(str(path))} is damaged: .*; put a whole copy in its place or remove it$",
        ):
            Partition.load(path)
    moved = part.indices.copy()
    moved[[0, -1]] = moved[[-1, 0]]
    Partition(moved, part.offsets, part.counts, part.record).save(path)
    with pytest.raises(InputError) as refused:
        Partition.load(path)
    assert str(refused.value) == (
        f"{path} is damaged: its content does not match its own SHA-256; put a whole copy in its place or remove it"
    )


def test_other_labels_are_refused(tmp_path: Path) -> None:
    path = partition(LABELS, "iid", 5).save(tmp_path / "split.npz")
    with pytest.raises(InputError) as refused:
        Partition.load(path, LABELS[:-1])
    assert str(refused.value) == (
        f"{path} was made for other labels with 200 samples and does not fit these labels with 199; load the same "
        "data or make it again"
    )
    with pytest.raises(
        InputError, match=r"^the partition was made for people with 6 samples and does not fit people"
    ):
        partition(people(), "by(subject)").federation(
            Dataset("people", np.zeros((5, 2)), np.zeros(5), np.zeros((1, 2)), np.array([0]), ("a", "b"))
        )


def test_a_missing_or_foreign_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^cannot read .*none\.npz: No such file"):
        Partition.load(tmp_path / "none.npz")
    np.savez(tmp_path / "other.npz", x=np.zeros(3))
    with pytest.raises(InputError, match=r"other\.npz lacks the array 'format'; it holds x$"):
        Partition.load(tmp_path / "other.npz")


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (
            "dirichle(0.1)",
            "there is no partition 'dirichle'; did you mean 'dirichlet' or 'dirichlet_client'?",
        ),
        ("dacca", "there is no partition 'dacca'; did you mean 'daca'?"),
        ("limit_labels", "limit_labels lacks 't'; write limit_labels(t, f=1.0, at_least=0)"),
        (
            "limit_labels(1, 1, 1, 1)",
            "limit_labels(1, 1, 1, 1) has 4 values but limit_labels takes at most 3: limit_labels(t, f=1.0, "
            "at_least=0)",
        ),
        ("dirichlet(0)", "alpha of dirichlet must be above 0, not 0"),
        ("dirichlet(1e999)", "1e999 in 'dirichlet(1e999)' is too large a number; write one below 1e30"),
        ("dirichlet(-0.5)", "alpha of dirichlet must be above 0, not -0.5"),
        ("dirichlet_client(0)", "alpha of dirichlet_client must be above 0, not 0"),
        ("quantity(-1)", "alpha of quantity must be above 0, not -1"),
        ("limit_labels(2, f=1.5)", "f of limit_labels must lie between 0 and 1, not 1.5"),
        ("limit_labels(2, f=-0.1)", "f of limit_labels must lie between 0 and 1, not -0.1"),
        ("limit_labels(0)", "t of limit_labels must be a whole number of at least 1, not 0"),
        ("limit_labels(11)", "t of limit_labels is 11 but there are only 10 classes; write at most 10"),
        (
            "limit_labels_q(11, 0.5)",
            "t of limit_labels_q is 11 but there are only 10 classes; write at most 10",
        ),
        (
            "limit_labels(2, at_least=5)",
            "at_least=5 for 5 clients needs 25 samples of every class, but class 0 has 20; lower at_least or the "
            "number of clients",
        ),
        ("q(1.2)", "q of q must lie between 0 and 1, not 1.2"),
        ("limit_labels_q(2, 7)", "q of limit_labels_q must lie between 0 and 1, not 7"),
        ("labels(11)", "q of labels is 11 but there are only 10 classes; write at most 10"),
        ("shards(0)", "s of shards must be a whole number of at least 1, not 0"),
        ("emd(2)", "target of emd must lie between 0 and 2, not 2"),
        ("mixed(labels(1), iid, share=2)", "share of mixed must lie between 0 and 1, not 2"),
        ("mixed(1, iid)", "first of mixed must be a partition such as labels(1), not 1"),
        ("mixed(iid, by(x))", "mixed cannot hold by(...): a column already says whose every sample is"),
        ("by(subject)", "by(subject) needs a data set with columns, and this one has none"),
    ],
)
def test_a_bad_expression_is_refused_in_one_sentence(said: str, sentence: str) -> None:
    with pytest.raises(InputError) as refused:
        partition(LABELS, said, 5)
    assert str(refused.value) == sentence


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda: partition(LABELS, "iid"),
            "iid does not say how many clients there are; write how many, such as clients=20",
        ),
        (lambda: partition(LABELS, "iid", 0), "clients must be a whole number of at least 1, not 0"),
        (
            lambda: partition(LABELS, "iid", 201),
            "201 clients cannot hold at least 1 of only 200 samples each; write clients=200 or less, or "
            "min_samples=0 to allow empty ones",
        ),
        (
            lambda: partition([0, 1, 1], "iid", 2, min_samples=5),
            "2 clients cannot hold at least 5 of only 3 samples each; write min_samples=1 or less",
        ),
        (
            lambda: partition([0, 1, 1], "iid", 4, samples_per_client=1),
            "4 clients x 1 samples need 4, but there are 3; write at most clients=3",
        ),
        (lambda: partition([0.5, 1], "iid", 1), "the labels must be whole numbers, not float64"),
        (
            lambda: partition("digits", "iid", 1),
            "the labels must be whole numbers, not the word 'digits'; give unskew.load('digits')",
        ),
        (lambda: partition(["a", "b"], "iid", 1), "the labels must be whole numbers, not <U1"),
        (lambda: partition([0, -1], "iid", 1), "the labels must not be negative, but sample 1 has -1"),
        (lambda: partition([], "iid", 1), "there are no samples to partition"),
        (
            lambda: partition(LABELS, "iid", 2, classes=3),
            "the labels go from 0 to 2, but sample 9 has 9",
        ),
        (lambda: partition(LABELS, "iid", 2, fraction=0), "fraction must lie above 0 and up to 1, not 0"),
        (
            lambda: partition(LABELS, "iid", 2, fraction=0.5, samples_per_client=3),
            "fraction and samples_per_client both say how much data is used; write one",
        ),
        (
            lambda: partition(LABELS, "iid", 3, samples_per_client=70),
            "3 clients x 70 samples need 210, but there are 200; write at most samples_per_client=66",
        ),
        (
            lambda: partition(people(), "by(subjekt)"),
            "there is no column 'subjekt'; did you mean 'subject'?",
        ),
        (
            lambda: partition(people(), "by(subject)", 4),
            "by(column=subject) makes 3 clients, one a value; leave clients out or write 3",
        ),
        (
            lambda: partition(people(), "by(subject)", min_samples=2),
            "client 2 of by(column=subject) holds 1, fewer than min_samples=2, and nobody else's samples may be "
            "moved to it; lower min_samples",
        ),
    ],
)
def test_a_bad_request_is_refused_in_one_sentence(call, sentence: str) -> None:
    with pytest.raises(InputError) as refused:
        call()
    assert str(refused.value) == sentence


@pytest.mark.parametrize(
    "column", [np.array([1, np.nan, 2, 2, 1, 1]), np.array([1, None, 2, 2, 1, 1], object)]
)
def test_samples_without_a_client_are_refused(column: np.ndarray) -> None:
    """A NaN would be a client of its own."""
    data = dataclasses.replace(people(), columns={"subject": column})
    with pytest.raises(InputError) as caught:
        partition(data, "by(subject)")
    assert str(caught.value) == (
        "column 'subject' is empty or NaN in 1 of 6 training samples, so they belong to no client; fill it in "
        "or drop those samples"
    )


@pytest.mark.parametrize("broken", [{"record": "{not JSON"}, {"record": "3"}, {"indices": ["a", "b"]}])
def test_a_partition_whose_arrays_are_nonsense_is_refused(broken: dict[str, object], tmp_path: Path) -> None:
    """The archive may be whole and what it holds may not be."""
    path = partition(LABELS, "iid", 5).save(tmp_path / "split.npz")
    with np.load(path) as archive:
        arrays = dict(archive)
    np.savez(path, **(arrays | {key: np.array(value) for key, value in broken.items()}))
    with pytest.raises(
        InputError, match=f"^{path} is damaged: its record or its lists of samples cannot be read"
    ):
        Partition.load(path)
