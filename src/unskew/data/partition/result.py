"""A finished partition: who holds which samples, what was done to get there, and a file to publish it in."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unskew.arrays import Array, in_few_bytes, wide_blocks
from unskew.data.dataset import Dataset, check_labels
from unskew.data.federation import Federation, shown_name
from unskew.data.files import damaged, read_npz
from unskew.errors import InputError
from unskew.files import replace_file

FORMAT = "unskew partition 1"


@dataclass(frozen=True, eq=False)
class Partition:
    """Client k holds the samples ``indices[offsets[k]:offsets[k + 1]]``; ``counts`` is (client x class).

    ``record`` says exactly what was done and can be written as JSON: ``expression`` with every parameter,
    ``seed``,
    ``clients``, ``classes``, ``samples``, ``unused``, ``moves`` (samples moved so that no client is too
    small) and
    ``moved_to`` (how many clients that helped), ``emd`` as measured, ``notes``, the library's ``version``,
    and the hashes of the content (``sha256``) and of the labels it was made for (``labels_sha256``). Where the
    clients have names, as the values of a column, they are the record's ``names``.
    """

    indices: Array
    offsets: Array
    counts: Array
    record: dict[str, Any]

    def __post_init__(self) -> None:
        """Long lists are kept as a federation keeps them, so that it has the same ones and no copy."""
        for name, most in (("indices", int(self.indices.max(initial=0))), ("offsets", len(self.indices))):
            object.__setattr__(self, name, in_few_bytes(getattr(self, name), most))

    @property
    def clients(self) -> int:
        """How many clients there are."""
        return len(self.offsets) - 1

    @property
    def sizes(self) -> Array:
        """How many samples each client holds."""
        return np.diff(self.offsets).astype(np.int64, copy=False)

    @property
    def names(self) -> tuple[str, ...] | None:
        """The clients' own names, where they have any."""
        found = self.record.get("names")
        return None if found is None else tuple(found)

    def name_of(self, client: int) -> str:
        """What to call a client where people read: its name where clients have names, else its number."""
        return shown_name(self.names, int(client))

    def samples(self, client: int) -> Array:
        """The samples that a client holds, as places in the data set."""
        return np.asarray(self.indices[self.offsets[client] : self.offsets[client + 1]], np.int64)

    def federation(self, dataset: Dataset) -> Federation:
        """The data set dealt to the clients; refused if it is not the one the partition was made for."""
        self.check_labels(dataset, "the partition")
        return Federation(dataset, self.indices, self.offsets, names=self.names)

    def check_labels(self, data: Dataset | Array | Sequence[int], where: str) -> None:
        """Refuse labels other than those the partition was made for."""
        labels = data.y if isinstance(data, Dataset) else check_labels(data, None, "the labels")
        if labels_hash(labels) != self.record["labels_sha256"]:
            made_for = self.record.get("dataset") or "other labels"
            given = data.name if isinstance(data, Dataset) else "these labels"
            total = self.record["samples"] + self.record["unused"]
            raise InputError(
                f"{where} was made for {made_for} with {total} samples and does not fit {given} with "
                f"{len(labels)}; load the same data or make it again"
            )

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write an ``.npz`` file, whole or not at all."""
        target = Path(path)
        small = np.int32 if len(self.indices) + self.record["unused"] < 2**31 else np.int64
        with replace_file(target, make_folder=True) as draft, draft.open("wb") as file:
            np.savez(
                file,
                format=np.array(FORMAT),
                record=np.array(json.dumps(self.record)),
                indices=self.indices.astype(small),
                offsets=self.offsets.astype(np.int64, copy=False),
                counts=self.counts.astype(small),
            )
        return target

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], data: Dataset | Array | Sequence[int] | None = None
    ) -> Partition:
        """Read a saved partition, checked against its own hash and, if given, against the data's labels."""
        arrays = read_npz(Path(path), "format", "record", "indices", "offsets", "counts")
        if str(arrays["format"]) != FORMAT:
            raise InputError(f"{path} has the format {arrays['format']!s}, but this version reads {FORMAT}")
        try:
            indices, offsets, counts = (
                np.asarray(arrays[name], np.int64) for name in ("indices", "offsets", "counts")
            )
            record = dict(json.loads(str(arrays["record"])))
        except (ValueError, TypeError):
            raise damaged(Path(path), "its record or its lists of samples cannot be read") from None
        if content_hash(indices, offsets, counts) != record.get("sha256"):
            raise damaged(Path(path), "its content does not match its own SHA-256")
        names = record.get("names")  # which files of earlier versions lack
        if names is not None and not (
            isinstance(names, list)
            and len(names) == len(offsets) - 1
            and all(isinstance(n, str) for n in names)
        ):
            raise damaged(Path(path), "the names of its clients do not fit them")
        found = cls(indices, offsets, counts, record)
        if data is not None:
            found.check_labels(data, str(path))
        return found

    def __repr__(self) -> str:
        return (
            f"Partition({self.record['expression']!r}, {self.clients} clients, {len(self.indices)} samples, "
            f"EMD {self.record['emd']:.3f})"
        )


def content_hash(indices: Array, offsets: Array, counts: Array) -> str:
    """The same on every machine: little-endian 64-bit numbers, lengths first."""
    digest = hashlib.sha256(FORMAT.encode())
    for array in (indices, offsets, counts):
        digest.update(np.array(array.shape, "<i8").tobytes())
        for block in wide_blocks(array):
            digest.update(block.data)
    return digest.hexdigest()


def labels_hash(labels: Array) -> str:
    """The same for the labels alone."""
    return hashlib.sha256(np.ascontiguousarray(labels, "<i8").data).hexdigest()
