"""Which classes each client owns: a random bipartite graph with prescribed degrees."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from unskew.arrays import Array
from unskew.data.partition.deal import shares
from unskew.data.partition.family import PartitionTask


def owners_of_classes(task: PartitionTask, each: int, weights: Array | None = None) -> list[Array]:
    """For every class the clients that own it; every client owns ``each`` different classes (Omega_k).

    A class has clients x each / classes owners (thesis eq. 3.4a), rounded up or down by chance where that is
    no whole number, or owners in proportion to ``weights``. Classes without samples have none.
    """
    rng = task.generator("owners")
    present = task.present
    if each > len(present):
        task.note(
            f"only {len(present)} of {task.classes} classes have samples, so clients own {len(present)}"
        )
        each = len(present)
    if task.clients * each < len(present):
        task.note(
            f"{task.clients} clients with {each} of the classes each cannot hold all {len(present)}: "
            "every class has one owner and clients own more"
        )
        slots = np.ones(len(present), np.int64)
    else:
        wanted = np.ones(len(present)) if weights is None else weights[present].astype(np.float64)
        slots = _slots(task.clients * each, task.clients, wanted, rng)
    table = _shuffled(_dealt(slots, task.clients, rng), rng)
    order = np.argsort(table, axis=None, kind="stable")
    starts = np.searchsorted(table.ravel()[order], np.arange(len(present) + 1))
    owners = [np.empty(0, np.int64)] * task.classes
    for i, y in enumerate(present):
        owners[int(y)] = order[starts[i] : starts[i + 1]] // table.shape[1]
    return owners


Cell = Callable[[int], tuple[float, float]]
"""From the owners of a class to the shares of it that an owner and that another client hold."""


def shares_of_owners(task: PartitionTask, each: int, cell: Cell) -> Array:
    """One draw of owners, and the share of all samples that each client then holds of each class."""
    owners = owners_of_classes(task, each)
    table = np.empty((task.clients, task.classes))
    for y, who in enumerate(owners):
        own, other = cell(len(who))
        table[:, y] = other
        table[who, y] = own
    return table / task.classes


def emd_of_owners(each: int, classes: int, clients: int, cell: Cell) -> float | None:
    """The EMD where clients own ``each`` of the classes, all equally large; ``None`` if it depends on who owns what.

    A client's EMD is twice what it holds of its own classes beyond their due, if it holds no less than its due of
    any of them and no more of any other. Summed over clients, that does not depend on who owns what.
    """
    each = min(each, classes)
    if clients * each < classes:  # every class has one owner, so clients own two numbers of classes
        few, more = divmod(classes, clients)
        own, other = cell(1)
        return sum(
            number * (j * abs(own - held) + (classes - j) * abs(other - held)) / classes
            for j, number in ((few, clients - more), (few + 1, more))
            for held in [(j * own + (classes - j) * other) / classes]
        )
    few, many = divmod(clients * each, classes)  # ``many`` classes have one owner more
    cells = [(classes - many, few, *cell(few))] + ([(many, few + 1, *cell(few + 1))] if many else [])
    total = 2 * (sum(number * owners * own for number, owners, own, _ in cells) - each) / classes
    if not many:
        return abs(total)
    (_, _, own_few, other_few), (_, _, own_many, other_many) = cells
    for i in {
        max(0, each - (classes - many)),
        min(each, many),
    }:  # its classes with one owner more: the fewest, the most
        held = (each - i) * own_few + i * own_many
        held += (classes - many - each + i) * other_few + (many - i) * other_many
        if (
            min(own_few, own_many) < held / classes - 1e-12
            or max(other_few, other_many) > held / classes + 1e-12
        ):
            return None
    return total


def _slots(total: int, most: int, weights: Array, rng: np.random.Generator) -> Array:
    """How many owners each class has: in proportion to ``weights``, but at least 1 and at most ``most``."""
    low, high = 0.0, most / weights.min()
    for _ in range(200):  # the scale at which the clipped proportions sum to the total
        scale = (low + high) / 2
        if scale in (low, high):
            break  # neighbouring numbers
        if np.clip(scale * weights, 1, most).sum() < total:
            low = scale
        else:
            high = scale
    return shares(total, np.clip(high * weights, 1, most), rng)


def _dealt(slots: Array, clients: int, rng: np.random.Generator) -> Array:
    """A row of classes a client: runs of one class dealt round the table, so that nobody gets one twice."""
    order = rng.permutation(len(slots))
    run = np.repeat(order, slots[order])
    rounds = -(-len(run) // clients)
    table = np.full(rounds * clients, -1, np.int64)  # -1: the last round did not reach this client
    table[: len(run)] = run
    return table.reshape(rounds, clients).T[rng.permutation(clients)]


def _shuffled(table: Array, rng: np.random.Generator) -> Array:
    """The same degrees, mixed: random pairs of clients exchange one class each where neither has it already.

    Dealing alone leaves only a few combinations of classes. A fixed number of rounds, in each of which every
    client meets one other, is enough for every slot to have moved about twice.
    """
    table = np.ascontiguousarray(table)
    clients, width = table.shape
    half = clients // 2
    if width < 2 or half == 0:
        return table
    for _ in range(2 * width + 8):
        meeting = rng.permutation(clients)
        a, b = meeting[:half], meeting[half : 2 * half]
        i, j = rng.integers(0, width, half), rng.integers(0, width, half)
        mine, theirs = table[a, i], table[b, j]
        clash = (table[a] == theirs[:, None]).any(axis=1) | (table[b] == mine[:, None]).any(axis=1)
        swap = ~clash & (mine >= 0) & (theirs >= 0)
        table[a[swap], i[swap]], table[b[swap], j[swap]] = theirs[swap], mine[swap]
    return table
