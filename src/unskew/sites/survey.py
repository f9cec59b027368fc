"""What a coordinator asks all sites beside a run: who they are, what they allow, and their label counts."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from unskew.arrays import Array, Ids
from unskew.errors import InputError
from unskew.sites.carrier import Carrier, Lost
from unskew.sites.messages import BadMessage, Message, read_reply
from unskew.sites.policy import Policy
from unskew.sites.values import ids, mapping, sequence

DEADLINE = 60.0
MOST_ANSWER = 64 * 2**20
"""Bytes of an answer that holds no model."""


@dataclass(frozen=True)
class Unwilling:
    """A site that did not give what it was asked for, and why: one sentence."""

    reason: str


@dataclass(frozen=True)
class AboutSite:
    """What a site says of itself."""

    clients: tuple[str, ...]
    sizes: Ids
    version: str
    policy: Policy

    @property
    def samples(self) -> int:
        return int(self.sizes.sum())

    @classmethod
    def read(cls, told: Mapping[str, Any]) -> AboutSite:
        sizes = ids(told, "sizes")
        clients = tuple(str(name)[:200] for name in sequence(told, "clients"))
        if len(clients) != len(sizes) or not len(sizes) or sizes.min() < 0:
            raise BadMessage("it counts its samples in a way that cannot be")
        return cls(clients, sizes, str(told.get("version"))[:40], Policy.of(mapping(told, "policy")))


@dataclass(frozen=True)
class LabelCounts:
    """Label counts of all clients of all sites that gave them; ``clients`` are named site or site/client."""

    clients: tuple[str, ...]
    classes: tuple[str, ...]
    counts: Array
    unwilling: Mapping[str, str]


def ask_sites(
    carrier: Carrier, sites: Iterable[str], verb: str, deadline: float = DEADLINE
) -> dict[str, Message | Unwilling]:
    """One question to each of these sites; what comes back is checked before it is believed."""
    session = secrets.token_hex(8)
    requests = {site: Message(verb, {}, session).encode() for site in sites}
    found = carrier.ask(requests, deadline, MOST_ANSWER)
    return {site: _read(site, found[site], requests[site]) for site in requests}


def survey(
    carrier: Carrier, sites: Iterable[str], deadline: float = DEADLINE
) -> dict[str, AboutSite | Unwilling]:
    """What each site says of itself."""
    told = ask_sites(carrier, sites, "about", deadline)
    return {site: said if isinstance(said, Unwilling) else _about(site, said) for site, said in told.items()}


def gather_counts(carrier: Carrier, sites: Iterable[str]) -> LabelCounts:
    """The label counts of the sites that agreed to give them, as one table."""
    told = ask_sites(carrier, sites, "counts")
    given: list[tuple[str, tuple[str, ...], Array]] = []
    unwilling: dict[str, str] = {}
    for site, said in told.items():
        read = said if isinstance(said, Unwilling) else _counts(site, said)
        if isinstance(read, Unwilling):
            unwilling[site] = read.reason
        else:
            given += read
    classes = sorted({word for _, words, _ in given for word in words}, key=_order)
    place = {word: k for k, word in enumerate(classes)}
    table = np.zeros((len(given), len(classes)), np.int64)
    for row, (_, words, counts) in enumerate(given):
        table[row, [place[word] for word in words]] = counts
    return LabelCounts(tuple(name for name, _, _ in given), tuple(classes), table, unwilling)


def _read(site: str, found: bytes | Lost, request: bytes) -> Message | Unwilling:
    if isinstance(found, Lost):
        return Unwilling(f"site {site!r} {found.reason}")
    try:
        said = read_reply(found, request, MOST_ANSWER)
    except BadMessage as problem:
        return Unwilling(f"what site {site!r} sent is not taken: {problem}")
    if said.verb != "answer":
        return Unwilling(str(said.values.get("reason", f"site {site!r} refused"))[:1000])
    return said


def _about(site: str, said: Message) -> AboutSite | Unwilling:
    try:
        return AboutSite.read(said.values)
    except (BadMessage, InputError) as problem:  # also of a policy by another version
        return Unwilling(f"what site {site!r} says of itself cannot be read: {problem}")


def _counts(site: str, said: Message) -> list[tuple[str, tuple[str, ...], Array]] | Unwilling:
    values: Mapping[str, Any] = said.values
    clients, classes = values.get("clients"), values.get("classes")
    counts = np.asarray(values.get("counts"))
    if not (
        isinstance(clients, list)
        and isinstance(classes, list)
        and all(isinstance(word, str) for word in [*clients, *classes])
        and len(set(classes)) == len(classes)
        and counts.shape == (len(clients), len(classes))
        and counts.dtype.kind == "i"
        and bool((counts >= 0).all())
    ):
        return Unwilling(f"site {site!r} sent label counts that cannot be")
    return [
        (f"{site}/{name}" if name else site, tuple(classes), row)
        for name, row in zip(clients, counts, strict=True)
    ]


def _order(word: str) -> tuple[int, float, str]:
    """Numbers by size, then words."""
    try:
        return 0, float(word), word
    except ValueError:
        return 1, 0.0, word
