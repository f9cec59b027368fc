"""Heads of good data, members unlike them: distribution-based adaptive clustering."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from unskew.arrays import Array
from unskew.core.slot_names import LABEL_COUNTS
from unskew.parts.prepare.clustered import Clustered, ClusterInputs


@dataclass(frozen=True)
class Daca(Clustered):
    """Shares samples of the clients closest to the global label distribution with those unlike them (Hu et al., DACA).

    G' keeps the links with e_kj >= e_th and v_kj >= v_th. Heads are the nodes of lowest EMD sum_i |p_k(i) - p_g(i)|
    (eq. 1, condition 2), as few as cover G'; a member joins the linked head that it is most unlike, max D_EMD(c, m)
    (eq. 14, condition 3). Head m multicasts n_m^s = min over members of floor(T_th v_mc / a) samples, at most n_m
    (11b, 11d), in its own class proportions (eq. 4).

    Algorithm 1 prints heads in descending order of EMD and n_m^s = min T_th / v; conditions 2 and 3 and eq. 10 give the
    above. Links and closeness are those of the run's ``network``, else of ``wireless(snr=10)``. Who has no link
    within the thresholds is reported and left without sharing.

    e_th: how close two clients must be (11c), 0 to 1.
    T_th: how long a cluster's multicast may take, in seconds (11d).
    v_th: the slowest link that counts, in bits a second; by default a / T_th, at which one sample arrives in time.
    volume: at most so many samples a head, beside what (11b) and (11d) allow.
    weigh: what an update weighs by: the client's ``own`` samples (eq. 8 as printed), or all that it ``held`` then.
    budget: what a local epoch passes over: all samples ``held``, or as many as the client's ``own``.
    join: whom a member joins: the head it is most ``unlike``, as the paper has it, or the one whose samples bring it
    closest to the global distribution (``gain``). A head of one class is most unlike members of all others, and helps
    them little; gain does not fall for it.
    """

    name: ClassVar[str] = "daca"
    paper: ClassVar[str] = "DACA (Hu et al.), algorithm 1"
    discloses: ClassVar[tuple[str, ...]] = (LABEL_COUNTS, "raw samples to peers")
    neutral: ClassVar[str | None] = "daca(e_th=1)"  # random closeness is below 1, so nobody is linked

    join: Literal["unlike", "gain"] = "unlike"

    def rank(self, given: ClusterInputs) -> Array:
        return np.asarray(np.abs(_distributions(given.counts) - _global(given)).sum(1))

    def affinity(self, given: ClusterInputs, heads: list[int]) -> Array:
        p = _distributions(given.counts)
        if self.join == "unlike":
            return np.stack([np.abs(p - p[m]).sum(1) for m in heads], axis=1)
        mixed = (_distributions(given.counts + given.in_time[m][:, None] * p[m]) for m in heads)  # eq. 4
        return -np.stack([np.abs(after - _global(given)).sum(1) for after in mixed], axis=1)


def _distributions(counts: Array) -> Array:
    return np.asarray(counts / np.maximum(1, counts.sum(1, keepdims=True)))


def _global(given: ClusterInputs) -> Array:
    return np.asarray(given.counts.sum(0) / max(1, given.counts.sum()))
