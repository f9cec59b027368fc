"""Clients whose data together is as even over the classes as it can be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from unskew.arrays import NUMBERS_AT_ONCE, Array, small_type
from unskew.core.ledger import NUMBER_BYTES
from unskew.core.roster import Roster
from unskew.core.slot_names import LABEL_COUNTS
from unskew.core.slots import Select
from unskew.core.types import Cohort, Ids, Memory, PerClient
from unskew.errors import InputError


@dataclass(frozen=True)
class KLD(Select):
    """Picks clients until their joint data is nearly even over the classes (Seol & Kim, algorithm 2).

    The round's willing clients are sorted by size, the largest first. The first one is taken whole, and the size m of
    its largest class caps every class from then on. v_r is the data gathered so far. While its Kullback-Leibler
    divergence from the uniform distribution is not below ``threshold``, and fewer than ``h`` clients are in, the next
    client that holds the scarcest class is taken, with s_k = min(m - v_r, n_k) of each class (lines 15-17, with the v_r
    from before it was taken). A client trains on s_k samples of each class, drawn anew each round, and its update
    weighs what it trained on (eq. 2).

    threshold: theta_KLD, in nats. h: the most clients of a round; never more than the run's cohort are taken either.
    willing: how many clients want to take part in a round, drawn at random: a share below 1, a number, or ``all``.
    Section 4.2 chooses among the willing and does not say how many there are. If all clients were willing in every
    round, fixed counts would have the same clients train for ever.
    search: ``onward`` goes on down the list from the client taken last and around its end, as the printed loop does;
    ``top`` begins at the largest again.

    Left open, and taken: clients of equal size, and classes equally scarce, come in an order drawn for the round. A
    class that no willing client holds (any more) is passed over for the next scarcest. Where no class below m can be
    added to, selection ends with whom it has.
    """

    name: ClassVar[str] = "kld"
    paper: ClassVar[str] = "Seol & Kim, Sensors 2023, algorithm 2"
    discloses: ClassVar[tuple[str, ...]] = (LABEL_COUNTS,)

    threshold: float = 0.1
    h: int = 10
    willing: float | Literal["all"] = 0.5
    search: Literal["onward", "top"] = "onward"

    def __post_init__(self) -> None:
        if not self.threshold >= 0:
            raise InputError(f"threshold of kld is a divergence in nats, 0 or more, not {self.threshold}")
        if self.h < 1:
            raise InputError(f"h of kld must be at least 1, not {self.h}")
        if self.willing != "all" and not (0 < self.willing < 1 or self.willing == int(max(1, self.willing))):
            raise InputError(
                f"willing of kld is a share between 0 and 1, a whole number of clients or all, not {self.willing:g}"
            )

    @property
    def needs_counts(self) -> bool:
        return LABEL_COUNTS in self.discloses

    def check(self, roster: Roster, cohort: int) -> None:
        if self.willing != "all" and self.willing > roster.clients:
            raise InputError(
                f"kld(willing={self.willing:g}) counts on more than the {roster.clients} clients there are; write "
                f"willing = {roster.clients} or all"
            )

    def select(
        self, count: int, exclude: Ids, roster: Roster, memory: Memory, rng: np.random.Generator
    ) -> tuple[Cohort, Memory]:
        free = np.arange(roster.clients, dtype=small_type(roster.clients, roster.clients))
        free = np.delete(free, exclude) if len(exclude) else free
        rng.shuffle(free)  # where it lies, and in few bytes: there may be a million
        willing = free[: self._willing(roster.clients)]
        clients, amounts, divergence = balanced(
            roster.look_at_counts,
            largest_first(willing, roster.sizes),
            most=min(self.h, count),
            threshold=self.threshold,
            classes=rng.permutation(roster.dataset.classes),
            onward=self.search == "onward",
        )
        row = roster.dataset.classes * NUMBER_BYTES
        return Cohort(
            clients,
            PerClient(per_class=amounts),
            notes={"kld": {"divergence": divergence, "willing": len(willing)}},
            up={LABEL_COUNTS: len(willing) * row},
            down={"samples by class": len(clients) * row},
        ), memory

    def _willing(self, clients: int) -> int:
        if self.willing == "all":
            return clients
        return max(1, round(self.willing * clients)) if self.willing < 1 else int(self.willing)


def largest_first(clients: Ids, sizes: Array) -> Ids:
    """These clients ordered by size, those of equal size as they come."""
    if not any(sizes.strides):  # said once for all: nobody is larger
        return clients
    most = int(sizes.max(initial=0))
    # numbers of one or two bytes are ordered many times faster
    behind = np.empty(len(clients), small_type(most, len(clients)))
    for some in (slice(at, at + NUMBERS_AT_ONCE) for at in range(0, len(clients), NUMBERS_AT_ONCE)):
        behind[some] = most - sizes[clients[some]]
    return clients[np.argsort(behind, kind="stable")]


def balanced(
    counts: Array | Callable[[Ids], Array],
    ordered: Ids,
    *,
    most: int,
    threshold: float,
    classes: Ids,
    onward: bool = True,
) -> tuple[Ids, Ids, float]:
    """Algorithm 2 over ``ordered`` clients, the largest first: who, how much of each class, and the divergence.

    ``counts`` are all clients' label counts, or what gives the rows of some. ``classes`` is the order in which equally
    scarce classes come.
    """
    counts_of = counts if callable(counts) else counts.__getitem__
    volume = np.zeros(len(classes), np.int64)
    first = counts_of(ordered[:1]).astype(np.int64)
    if most < 1 or not first.any():
        return np.zeros(0, np.int64), np.zeros((0, len(volume)), np.int64), uneven(volume)
    taken, lacking = np.zeros(len(ordered), bool), np.zeros(len(volume), bool)
    places, amounts, at, cap = [0], [first[0]], 0, int(first.max())
    taken[0] = True
    volume += first[0]
    while len(places) < most and uneven(volume) >= threshold:
        found = None
        for scarce in classes[np.argsort(volume[classes], kind="stable")]:
            if volume[scarce] >= cap:
                break
            if not lacking[scarce]:
                found = _holder(counts_of, ordered, taken, int(scarce), at + 1 if onward else 0)
                if found is not None:
                    break
                lacking[scarce] = True
        if found is None:
            break
        at = found
        amounts.append(np.minimum(cap - volume, counts_of(ordered[at : at + 1])[0]))
        volume += amounts[-1]
        taken[at] = True
        places.append(at)
    return ordered[places].astype(np.int64), np.stack(amounts), uneven(volume)


def uneven(volume: Array) -> float:
    """The Kullback-Leibler divergence of these amounts from equal ones, in nats; log L, the largest, of nothing."""
    if not volume.any():
        return float(np.log(len(volume)))
    share = volume[volume > 0] / volume.sum()
    return max(0.0, float((share * np.log(share * len(volume))).sum()))


def _holder(
    counts_of: Callable[[Ids], Array], ordered: Ids, taken: Array, wanted: int, start: int
) -> int | None:
    """The place of the first client from ``start`` on, and around the end, that is free and holds the class."""
    for low, high in ((start, len(ordered)), (0, min(start, len(ordered)))):
        block = 32  # the first holder is mostly near: no need to look at all
        while low < high:
            some = slice(low, min(high, low + block))
            hits = (counts_of(ordered[some])[:, wanted] > 0) & ~taken[some]
            if hits.any():
                return low + int(hits.argmax())
            low, block = some.stop, min(2 * block, 8192)
    return None
