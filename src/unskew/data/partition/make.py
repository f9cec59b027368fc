"""``partition()``: from labels and an expression to a finished partition."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from unskew import seeds
from unskew.arrays import Array, in_few_bytes
from unskew.data.dataset import Dataset, check_labels
from unskew.data.federation import census, shown_name
from unskew.data.partition.amount import amount_used, refuse_fewer
from unskew.data.partition.deal import scatter
from unskew.data.partition.family import Family, PartitionTask, build_family
from unskew.data.partition.presets import PRESETS
from unskew.data.partition.repair import repair
from unskew.data.partition.result import Partition, content_hash, labels_hash
from unskew.data.partition.solve import fit, solvable
from unskew.errors import InputError
from unskew.expression import Call, argument
from unskew.machine.memory import refuse_larger
from unskew.metrics import system_emd
from unskew.progress import working
from unskew.renamed import accepts_old_names
from unskew.version import __version__

MOST_CLIENTS = 10_000_000
"""Clients that a federation can have: with more, tables of who holds what take minutes to make."""


@accepts_old_names(data="dataset")
def partition(
    dataset: Dataset | Array | Sequence[int],
    expression: str | Family,
    clients: int | None = None,
    seed: int = 0,
    *,
    classes: int | None = None,
    fraction: float = 1.0,
    samples_per_client: int | None = None,
    min_samples: int = 1,
    emd: float | None = None,
) -> Partition:
    """Deal a data set's samples to clients: ``partition(dataset, "limit_labels(2, f=0.9)", clients=20)``.

    ``dataset`` is a data set or its labels. ``clients`` may be left out for a preset, which brings its paper's
    number, and for ``by(column)``, where the data says it. Scarcity: ``fraction`` uses that share of the
    samples (SEM's U), drawn at random; ``samples_per_client`` as many as make that the mean size. The rest
    is counted as unused.

    Clients with fewer than ``min_samples`` are given random samples of the largest clients, as few as will
    do; the record counts them. 0 allows empty clients. ``emd`` asks the family to find its own parameters:
    ``partition(dataset, "dirichlet", 20, emd=1.4)``; where several do, ``limit_labels`` takes them in turn by
    seed.
    """
    seed, min_samples = (argument(v, int, n) for v, n in ((seed, "seed"), (min_samples, "min_samples")))
    classes = argument(classes, int | None, "classes")
    clients = argument(clients, int | float | None, "clients")
    samples_per_client = argument(samples_per_client, int | None, "samples_per_client")
    fraction, emd = argument(fraction, float, "fraction"), argument(emd, float | None, "emd")
    labels, classes, columns, name = _read(dataset, classes)
    family = build_family(expression) if emd is None else None
    if emd is not None:
        solvable(expression, emd)
    clients = _clients(clients, expression, family, columns)
    used = _used(len(labels), clients, seed, fraction, samples_per_client)
    if min_samples < 0:
        raise InputError(f"min_samples must not be negative, not {min_samples}")
    refuse_fewer(clients, min_samples, len(used))
    # the table, a copy of it, and what a family draws for each of its cells
    refuse_larger(
        32 * clients * classes, f"a table of {clients:,} clients x {classes:,} classes", "take fewer"
    )

    used_labels = labels[used].astype(np.int16 if classes < 2**15 else np.int64)  # int16 sorts by radix
    sizes = np.bincount(used_labels, minlength=classes)
    task = PartitionTask(sizes, clients, seed, columns=columns, used=used)

    def settled(member: Family, task: PartitionTask) -> tuple[Array, int, int]:
        return repair(member.counts(task), min_samples, task.generator("repair"))

    if emd is not None:
        with working(f"partitions tried for EMD {emd:g}") as advance:

            def measured(member: Family) -> float:
                advance(1)
                return system_emd(settled(member, replace(task, notes=[]))[0])

            family = fit(expression, emd, task, measured)
    assert family is not None
    names = family.natural_names(columns)
    owners = family.owners(task)
    if owners is None:
        counts, moves, helped = settled(family, task)
        indices, offsets = scatter(counts, used[np.argsort(used_labels, kind="stable")])
    else:
        moves = helped = 0
        held = np.bincount(owners, minlength=clients)
        if held.min() < min_samples:
            raise InputError(
                f"client {shown_name(names, int(held.argmin()))} of {family} holds {held.min()}, fewer than "
                f"min_samples={min_samples}, and nobody else's samples may be moved to it; lower min_samples"
            )
        indices = used[np.lexsort((used, owners))]
        offsets = np.concatenate([[0], np.cumsum(held)])
        counts = census(labels, indices, offsets, classes)
    record = {
        "expression": _in_full(family),
        "seed": int(seed),
        "clients": clients,
        "classes": classes,
        "samples": len(used),
        "unused": len(labels) - len(used),
        "fraction": fraction,
        "samples_per_client": samples_per_client,
        "min_samples": min_samples,
        "moves": moves,
        "moved_to": helped,
        "asked_emd": emd,
        "emd": system_emd(counts),
        "notes": task.notes,
        "dataset": name,
        "version": __version__,
        "sha256": content_hash(indices, offsets, counts),
        "labels_sha256": labels_hash(labels),
    }
    if names is not None:
        record["names"] = list(names)
    return Partition(indices, offsets, counts, record)


def _read(
    data: Dataset | Array | Sequence[int], classes: int | None
) -> tuple[Array, int, Mapping[str, Array], str]:
    if isinstance(data, Dataset):
        if classes not in (None, data.classes):
            raise InputError(f"{data.name} has {data.classes} classes, not {classes}; leave classes out")
        labels, classes, columns, name = data.y, data.classes, data.columns, data.name
    else:
        if classes is not None and classes < 1:
            raise InputError(f"classes must be at least 1, not {classes}")
        labels = check_labels(data, classes, "the labels")
        classes = classes or int(labels.max(initial=0)) + 1
        columns, name = {}, ""
    if not len(labels):
        raise InputError("there are no samples to partition")
    return labels, classes, columns, name


def _clients(
    clients: int | None, expression: str | Family, family: Family | None, columns: Mapping[str, Array]
) -> int:
    natural = family.natural_clients(columns) if family else None
    if natural is not None and clients not in (None, natural):
        raise InputError(
            f"{family} makes {natural} clients, one a value; leave clients out or write {natural}"
        )
    if clients is None:
        preset = PRESETS.get(expression.strip()) if isinstance(expression, str) else None
        clients = natural if preset is None else preset.clients
    if clients is None:
        raise InputError(
            f"{expression} does not say how many clients there are; write how many, such as clients=20"
        )
    if not clients >= 1 or clients % 1:
        raise InputError(f"clients must be a whole number of at least 1, not {clients}")
    if clients > MOST_CLIENTS:
        raise InputError(f"clients must be at most {MOST_CLIENTS:,}, not {clients:g}")
    return int(clients)


def _used(total: int, clients: int, seed: int, fraction: float, samples_per_client: int | None) -> Array:
    """The samples that are dealt at all, in random order, in few bytes."""
    size = amount_used(total, clients, fraction, samples_per_client)
    return in_few_bytes(
        seeds.generator(seed, "partition", "used samples").permutation(total)[:size], total - 1
    )


def _in_full(family: Family) -> str:
    """The expression with every parameter, defaults too: a default may change, a record may not."""
    fields = dataclasses.fields(family)  # type: ignore[arg-type]
    return str(Call(family.name, (), tuple((f.name, getattr(family, f.name)) for f in fields)))
