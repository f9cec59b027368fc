"""Clustered data sharing: heads multicast some of their samples to the members of their cluster (DACA).

What the three ways of clustering have in common; they differ in who becomes a head and whom a member joins.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from unskew.arrays import Array
from unskew.core import conditions
from unskew.core.conditions import enforce, planned
from unskew.core.held import Held
from unskew.core.ledger import NUMBER_BYTES
from unskew.core.roster import Roster
from unskew.core.sharing import Sharing, Transfer
from unskew.core.slot_names import LABEL_COUNTS
from unskew.core.slots import Prepare
from unskew.core.types import Ids
from unskew.data.partition.deal import shares
from unskew.errors import InputError
from unskew.network import Wireless, multicast_delay
from unskew.notices import warn
from unskew.seeds import generator

ALONE = -1
"""The head of a client that is in no cluster."""


@dataclass(frozen=True, eq=False)
class ClusterInputs:
    """What clusters are formed from: label counts, closeness, rates, and which links are good enough."""

    counts: Array  # [K, classes]
    closeness: Array  # [K, K]
    rates: Array  # [K, K] bits a second, [sender, receiver]
    linked: Array  # [K, K] the constrained graph G' (section III-C)
    in_time: Array  # [K, K] how many samples a link carries in T_th, at most what its sender holds


@dataclass(frozen=True, eq=False)
class Clusters:
    """Who gets samples from whom. ``head`` of a head is its own number; of a client without a link it is ``ALONE``."""

    head: Ids  # [K]
    volume: Ids  # [K] n_m^s, how many samples a head sends; 0 for the others
    delay: Array  # [K] seconds that takes
    links: Array  # [K] how many others it is linked to within the thresholds

    @property
    def heads(self) -> Ids:
        """Heads that share something, in order."""
        return np.flatnonzero(self.volume)

    @property
    def isolated(self) -> Ids:
        """Whom the thresholds leave without a single link."""
        return np.flatnonzero(self.links == 0)

    @property
    def empty_handed(self) -> Ids:
        """Members whose head sends nothing, because some link of the cluster carries not even one sample in time."""
        member = (self.head >= 0) & (self.head != np.arange(len(self.head)))
        return np.flatnonzero(member & (self.volume[self.head] == 0))

    def members(self, head: int) -> Ids:
        return np.flatnonzero((self.head == head) & (np.arange(len(self.head)) != head))

    @property
    def seconds(self) -> float:
        """tau^s: the longest of the clusters' delays (eq. 10)."""
        return float(self.delay.max(initial=0.0))


def heads_of(linked: Array, rank: Array) -> list[int]:
    """The heads. Nodes are gone through by ascending rank; a node becomes a head if it reaches somebody whom no head
    reaches yet, until every node is covered.

    Of equal ranks the node with more links comes first, then the lower number. A node without links covers itself
    alone.
    """
    order = np.lexsort((np.arange(len(rank)), -linked.sum(1), np.round(rank, 12)))
    covered = np.zeros(len(rank), bool)
    heads = []
    for node in order.tolist():
        reach = linked[node].copy()
        reach[node] = True
        if np.any(reach & ~covered):
            heads.append(node)
            covered |= reach
            if covered.all():
                break
    return heads


def joined(linked: Array, heads: list[int], affinity: Array) -> Ids:
    """Each node's head: of the heads that reach it, the one with the largest affinity to it ([K, heads]); ties go to
    the first."""
    reached = linked[heads].T
    head = np.full(len(linked), ALONE, np.int64)
    chosen = np.argmax(np.where(reached, affinity, -np.inf), axis=1)
    found = reached.any(1)
    head[found] = np.asarray(heads, np.int64)[chosen[found]]
    head[heads] = heads
    return head


def volumes(head: Ids, in_time: Array) -> Ids:
    """n_m^s = min over members of floor(T_th v_mc / a), at most n_m (11b, 11d); 0 without members."""
    found = np.zeros(len(head), np.int64)
    for m in np.unique(head[head >= 0]).tolist():
        members = np.flatnonzero((head == m) & (np.arange(len(head)) != m))
        found[m] = int(in_time[m, members].min()) if len(members) else 0
    return found


def system_emds(counts: Array, before: Array) -> tuple[float, float]:
    """(normalised, as printed) system EMD after sharing, against the label distribution of all data before (eq. 5).

    Printed, sum n~_k / n |p~_k - p_g| divides by the samples before, so it can rise although every client's
    distribution comes closer; normalised it divides by the samples after.
    """
    p = before.sum(0) / max(1, before.sum())
    moved = np.abs(counts - counts.sum(1, keepdims=True) * p).sum()
    return float(moved / max(1, counts.sum())), float(moved / max(1, before.sum()))


def emds(before: Roster, after: Roster) -> dict[str, float]:
    """How skewed clients were and are, for the log, where their label counts were given."""
    if not before.counted:
        return {}
    normalised, printed = system_emds(after.counts, before.counts)
    return {
        "emd_before": system_emds(before.counts, before.counts)[0],
        "emd_after": normalised,
        "emd_after_printed": printed,
    }


def after_sharing(counts: Array, clusters: Clusters) -> Array:
    """The counts that eq. 3 and 4 expect: a member's own, and n_m^s samples in its head's proportions."""
    sizes = np.maximum(1, counts.sum(1, keepdims=True))
    head = np.maximum(clusters.head, 0)
    got = (clusters.volume[head] * (clusters.head >= 0) * (clusters.head != np.arange(len(head))))[:, None]
    return np.asarray(counts + got * (counts / sizes)[head])


@dataclass(frozen=True)
class Clustered(Prepare):
    """Forms clusters on the graph of links that are trusted and fast enough, and shares within them.

    e_th: how close two clients must be (11c), 0 to 1.
    T_th: how long a cluster's multicast may take, in seconds (11d).
    v_th: the slowest link that counts, in bits a second; by default the rate at which one sample arrives in T_th.
    volume: at most so many samples a head, beside what (11b) and (11d) allow.
    weigh: what an update weighs by: the client's ``own`` samples (eq. 8 as printed), or all that it ``held`` then.
    budget: what a local epoch passes over: all samples ``held``, or as many as the client's ``own``.
    """

    discloses: ClassVar[tuple[str, ...]] = ("raw samples to peers",)
    paper: ClassVar[str] = "DACA (Hu et al.)"

    e_th: float = 0.5
    T_th: float = 1.0
    v_th: float | None = None
    volume: int | None = None
    weigh: Literal["own", "held"] = "own"
    budget: Literal["held", "own"] = "held"

    def __post_init__(self) -> None:
        if not 0 <= self.e_th <= 1:
            raise InputError(f"e_th of {self.name} is a closeness from 0 to 1, not {self.e_th:g}")
        if not (math.isfinite(self.T_th) and self.T_th > 0):
            raise InputError(f"T_th of {self.name} is a time above 0 seconds, not {self.T_th:g}")
        if self.v_th is not None and not (math.isfinite(self.v_th) and self.v_th >= 0):
            raise InputError(f"v_th of {self.name} is a rate of at least 0 bits a second, not {self.v_th:g}")
        if self.volume is not None and self.volume < 1:
            raise InputError(f"volume of {self.name} is at least 1 sample, not {self.volume}")

    @property
    def sends(self) -> str:
        return "samples"

    @property
    def needs_counts(self) -> bool:
        return LABEL_COUNTS in self.discloses  # clusters are formed by them

    def check(self, roster: Roster, cohort: int) -> None:
        enforce(conditions.clustered(planned(roster, cohort), self.name))

    def plan(self, roster: Roster, seed: int) -> Clusters:
        """The clusters, before anything is sent. Links are the run's network's, else those of ``wireless``."""
        network, clients = roster.network or Wireless(), roster.clients
        trust, rates = network.trust(clients, seed), network.rates(clients, seed)
        known = roster.counts if self.needs_counts or roster.counted else roster.sizes[:, None]
        return self.clusters(known, trust, rates, roster.dataset.bits)

    def clusters(self, counts: Array, closeness: Array, rates: Array, bits: int) -> Clusters:
        """The clusters of these label counts, closeness and rates, for samples of so many bits."""
        sizes = counts.sum(1)
        linked = (closeness >= self.e_th) & (rates >= (bits / self.T_th if self.v_th is None else self.v_th))
        linked &= (sizes > 0)[:, None] & (sizes > 0)[None, :]  # who holds nothing has no distribution
        np.fill_diagonal(linked, False)
        in_time = np.minimum(np.floor(self.T_th * rates / bits + 1e-9), sizes[:, None])
        if self.volume is not None:
            in_time = np.minimum(in_time, self.volume)
        given = ClusterInputs(counts, closeness, rates, linked, in_time)
        heads = heads_of(linked, self.rank(given))
        links = np.asarray((linked | linked.T).sum(1))
        head = joined(linked, heads, self.affinity(given, heads))
        head[links == 0] = ALONE
        volume = volumes(head, in_time)
        delay = np.zeros(len(head))
        for m in np.flatnonzero(volume).tolist():
            members = np.flatnonzero((head == m) & (np.arange(len(head)) != m))
            delay[m] = multicast_delay(bits * volume[m], rates[m, members])
        return Clusters(head, volume, delay, links)

    def rank(self, given: ClusterInputs) -> Array:
        """Who becomes a head first: one number a node, the lowest first."""
        raise TypeError(f"{self.name} does not say who becomes a head: define rank()")

    def affinity(self, given: ClusterInputs, heads: list[int]) -> Array:
        """Whom a member joins: [K, heads], the largest of those that reach it."""
        raise TypeError(f"{self.name} does not say whom a member joins: define affinity()")

    def transfers(self, roster: Roster, cohort: int, seed: int) -> Sharing:
        clusters = self.plan(roster, seed)
        nothing = "" if len(clusters.heads) else "; nothing is shared at all"
        if len(alone := clusters.isolated):
            warn(
                f"the thresholds of {self.name} leave {len(alone)} of {roster.clients} clients without a link, and "
                f"so without sharing{nothing}",
                stacklevel=2,
            )
        if len(empty := clusters.empty_handed):
            warn(
                f"{len(empty)} of {roster.clients} clients get nothing by {self.name}, since the slowest link of "
                f"their cluster carries not one sample in T_th = {self.T_th:g} s{nothing}: write a larger T_th, or no "
                "v_th",
                stacklevel=2,
            )
        heads = clusters.heads.tolist()
        transfers = tuple(
            Transfer(
                m, tuple(clusters.members(m).tolist()), int(clusters.volume[m]), float(clusters.delay[m])
            )
            for m in heads
        )
        asked = NUMBER_BYTES * roster.counts.size if self.needs_counts else 0
        bits = roster.dataset.bits
        return Sharing(
            self.name,
            transfers,
            bits,
            clusters.seconds,
            self.weigh,
            self.budget,
            counts=asked,
            report=self._report(clusters),
        )

    def give(self, held: Held, samples: int, seed: int) -> Ids:
        """In the head's own class proportions (eq. 4)."""
        rng = generator(seed, self.name, held.client)
        wanted = shares(samples, held.counts.astype(np.float64), rng)
        members = (np.flatnonzero(held.labels == c) for c in range(len(wanted)))
        sent = [rng.permutation(m)[:n] for m, n in zip(members, wanted.tolist(), strict=True) if n]
        return np.concatenate(sent)

    def shared(self, sharing: Sharing, before: Roster, after: Roster) -> Mapping[str, Any]:
        more = int(after.sizes.sum() - before.sizes.sum())
        timed = {"shared_samples": more, "delay_s": round(sharing.seconds, 6)}
        return {**sharing.report, **timed, **emds(before, after)}

    def notes(self, roster: Roster) -> Mapping[str, Any]:
        return roster.told_of(self.name)

    def _report(self, clusters: Clusters) -> dict[str, Any]:
        return {
            "clusters": len(clusters.heads),
            "members": int(sum(len(clusters.members(m)) for m in clusters.heads.tolist())),
            "isolated": clusters.isolated.tolist(),
            **({"empty_handed": empty.tolist()} if len(empty := clusters.empty_handed) else {}),
        }
