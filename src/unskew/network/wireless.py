"""Radio links between clients, and between them and a base station."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from unskew.arrays import Array, Ids
from unskew.errors import InputError
from unskew.expression import render
from unskew.network.closeness import given_closeness, mirrored, random_closeness
from unskew.network.matrix import read_matrix
from unskew.seeds import generator

Way = Literal["down", "up"]

FAINTEST = 1e-12  # a fade of exactly 0 would take for ever


def rate(
    gain: Array | float, bandwidth: float, power: float, noise: float, interference: float = 0.0
) -> Array:
    """Bits a second over a link of this gain: B log2(1 + P h / (I + B N0)) (DACA, eq. 9)."""
    sinr = power * np.asarray(gain, np.float64) / (interference + bandwidth * noise)
    return np.asarray(bandwidth * np.log1p(sinr) / math.log(2))


def mean_rate(
    gain: Array | float, bandwidth: float, power: float, noise: float, interference: float = 0.0
) -> Array:
    """Eq. 9 averaged over Rayleigh fades of mean 1: B e^(1/s) E1(1/s) / ln 2, where s is P h / (I + B N0)."""
    from scipy.special import hyperu

    sinr = power * np.asarray(gain, np.float64) / (interference + bandwidth * noise)
    mean = hyperu(1, 1, 1 / np.where(sinr > 0, sinr, 1))  # U(1, 1, x) is e^x E1(x)
    return np.asarray(np.where(sinr > 0, bandwidth * mean / math.log(2), 0.0))


def multicast_delay(bits: float, rates: Array) -> float:
    """Seconds until the slowest receiver has all bits: max over c of a n_m / v_mc (DACA, eq. 10)."""
    return float(np.max(bits / np.asarray(rates, np.float64), initial=0.0))


@dataclass(frozen=True)
class Wireless:
    """Clients and a base station in one cell, linked by radio (DACA, section II-C).

    v = B log2(1 + P h / (I + B N0)) bits a second (eq. 9); what one sender multicasts takes as long as its worst
    link (eq. 10). Everybody sends in a band of their own, so what is sent at once lasts as long as the slowest of it.

    snr: the mean of P h / (B N0) in decibels, negative too; 10 unless power and noise are given.
    bandwidth: B, in hertz, of every sender.
    power, noise: P in watts and N0 in watts a hertz, instead of snr.
    interference: I, in watts; with snr, in multiples of the noise B N0.
    fading: ``rayleigh`` multiplies every mean gain by an exponential draw of mean 1, anew each round; ``flat`` by 1.
    coherence: seconds that a fade lasts. What a round sends has the drawn fade for so long, and the mean rate over all
    fades after that. Samples shared before round 0 have one fade for all of them, since clusters are formed by it (eq.
    10).
    radius: places clients evenly over a disc of so many metres around the base station; the mean gain then falls
    with the distance to the power -exponent. The snr holds at the distance of the radius; with power, gain at one metre
    is -loss decibels. Without it all mean gains are 1.
    gains: a file (.npy, .csv) with the mean gains between clients instead; a last row and column more is the base
    station.
    closeness: a file with the social closeness between clients, 0 to 1; without it a random symmetric matrix.
    round: seconds that a round takes, as measured, instead of what its bytes take (DACA: 0.7).
    """

    name: ClassVar[str] = "wireless"

    snr: float | None = None
    bandwidth: float = 100e3
    power: float | None = None
    noise: float | None = None
    interference: float = 0.0
    fading: Literal["rayleigh", "flat"] = "rayleigh"
    coherence: float = 0.1
    radius: float | None = None
    exponent: float = 3.0
    loss: float = 30.0
    gains: str | None = None
    closeness: str | None = None
    round: float | None = None

    def __post_init__(self) -> None:
        if (self.power is None) != (self.noise is None):
            raise InputError("power and noise of wireless belong together; give both, or snr")
        if self.snr is not None and self.power is not None:
            raise InputError("wireless takes snr, or power and noise; keep one")
        if self.snr is not None and not -200 <= self.snr <= 200:
            raise InputError(f"snr of wireless is in decibels, from -200 to 200, not {self.snr:g}")
        for name in ("bandwidth", "power", "noise", "coherence", "radius", "exponent", "round"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise InputError(f"{name} of wireless must be above 0, not {value:g}")
        if not (math.isfinite(self.interference) and self.interference >= 0):
            raise InputError(f"interference of wireless must be at least 0, not {self.interference:g}")
        if self.gains is not None and self.radius is not None:
            raise InputError("wireless takes gains or a radius to place clients in; keep one")
        for name in ("gains", "closeness"):  # by its whole path, so that a run can be resumed from anywhere
            value = getattr(self, name)
            if value is not None and os.path.exists(value):
                object.__setattr__(self, name, str(Path(value).resolve()))

    def __str__(self) -> str:
        return render(self)

    def check(self, clients: int) -> None:
        """Refuse files that do not fit this many clients."""
        if self.gains is not None:
            table = read_matrix(self.gains, "gains", clients, clients + 1)
            if self.round is None:
                self._with_base_station(table, clients)
                if len(dead := np.flatnonzero(np.minimum(table[:clients, -1], table[-1, :clients]) <= 0)):
                    raise InputError(
                        f"the gain between client {dead[0]} and the base station is 0 in {self.gains}, so nothing ever "
                        "reaches it; give it a gain above 0, or wireless a round in seconds"
                    )
        if self.closeness is not None:
            given_closeness(self.closeness, clients)

    def trust(self, clients: int, seed: int) -> Array:
        """The social closeness between every two clients."""
        if self.closeness is not None:
            return given_closeness(self.closeness, clients)
        return random_closeness(clients, seed)

    def positions(self, clients: int, seed: int) -> Array:
        """Where clients are, in metres from the base station: evenly over the disc."""
        rng = generator(seed, "network", "positions")
        far, turn = (self.radius or 0.0) * np.sqrt(rng.random(clients)), 2 * np.pi * rng.random(clients)
        return np.stack([far * np.cos(turn), far * np.sin(turn)], axis=1)

    def rates(self, clients: int, seed: int, when: int | str = "sharing") -> Array:
        """Bits a second between every two clients, [sender, receiver]; 0 from a client to itself."""
        every = np.arange(clients)
        mean = self._mean_gains(every[:, None], every[None, :], clients, seed)
        fade = np.ones((clients, clients))
        if self.fading == "rayleigh":
            fade = mirrored(generator(seed, "network", "fading", when).exponential(size=fade.shape), 0.0)
        made = self._rate(mean * np.maximum(fade, FAINTEST))
        np.fill_diagonal(made, 0.0)
        return made

    def server_rates(self, clients: int, seed: int, when: int | str = "sharing", way: Way = "up") -> Array:
        """Bits a second between each client and the base station; only gains that are given differ by the way."""
        every = np.arange(clients)
        return self._rate(
            self._to_server(every, clients, seed, way) * self._server_fades(clients, seed, when)
        )

    def server_seconds(self, bits: Array, clients: int, seed: int, when: int, way: Way) -> Array:
        """How long so many bits take between each client and the base station; none take no time."""
        found = np.zeros(clients)
        busy = np.flatnonzero(bits)
        gain = self._to_server(busy, clients, seed, way)
        found[busy] = self._seconds(bits[busy], gain, self._server_fades(clients, seed, when)[busy])
        return found

    def link_seconds(
        self, bits: float, senders: Ids, receivers: Ids, clients: int, seed: int, when: int
    ) -> Array:
        """How long so many bits take over each of these links between clients; inf where the gain is 0."""
        fade = np.ones(len(senders))
        if self.fading == "rayleigh":  # link by link, without drawing all the others
            for at, (i, j) in enumerate(np.sort([senders, receivers], axis=0).T.tolist()):
                fade[at] = generator(seed, "network", "link", when, i, j).exponential()
        mean = self._mean_gains(senders, receivers, clients, seed)
        return self._seconds(np.full(len(senders), float(bits)), mean, np.maximum(fade, FAINTEST))

    def _to_server(self, who: Ids, clients: int, seed: int, way: Way) -> Array:
        base = np.full(len(who), clients)
        sender, receiver = (who, base) if way == "up" else (base, who)
        return self._mean_gains(sender, receiver, clients, seed)

    def _server_fades(self, clients: int, seed: int, when: int | str) -> Array:
        if self.fading == "flat":
            return np.ones(clients)
        drawn = generator(seed, "network", "base station", when).exponential(size=clients)
        return np.asarray(np.maximum(drawn, FAINTEST))

    def _seconds(self, bits: Array, gain: Array, fade: Array) -> Array:
        """The drawn fade while it lasts, and the mean over fades from then on.

        One fade held for ever would make a round as long as its faintest link: the mean of 1 / rate is infinite.
        """
        with np.errstate(divide="ignore"):
            now = self._rate(gain * fade)
            if self.fading == "flat":
                return np.asarray(bits / now)
            first = now * self.coherence
            later = self.coherence + (bits - first) / mean_rate(gain, *self._terms)
            return np.where(bits <= first, bits / now, later)

    def _rate(self, gain: Array) -> Array:
        return rate(gain, *self._terms)

    @property
    def _terms(self) -> tuple[float, float, float, float]:
        """B, P, N0 and I; with an snr, in multiples of the noise: B N0 = 1."""
        if self.power is not None and self.noise is not None:
            return self.bandwidth, self.power, self.noise, self.interference
        power = 10 ** ((10.0 if self.snr is None else self.snr) / 10)
        return self.bandwidth, power, 1 / self.bandwidth, self.interference

    def _with_base_station(self, table: Array, clients: int) -> None:
        if len(table) == clients:
            raise InputError(
                f"{self.gains} has gains between the {clients} clients only; add a last row and column for the "
                "base station, or give wireless a round in seconds"
            )

    def _mean_gains(self, senders: Ids, receivers: Ids, clients: int, seed: int) -> Array:
        """Mean gains of links, broadcast; number ``clients`` is the base station."""
        if self.gains is not None:
            table = read_matrix(self.gains, "gains", clients, clients + 1)
            if np.any(receivers == clients) or np.any(senders == clients):
                self._with_base_station(table, clients)
            return np.asarray(table[senders, receivers])
        shape = np.broadcast_shapes(senders.shape, receivers.shape)
        if self.radius is None:
            return np.ones(shape)
        at = np.concatenate([self.positions(clients, seed), np.zeros((1, 2))])
        distance = np.hypot(*(at[senders] - at[receivers]).transpose(-1, *range(len(shape))))
        if self.power is None:
            return np.asarray((np.maximum(distance / self.radius, 0.01)) ** -self.exponent)
        return np.asarray(10 ** (-self.loss / 10) * np.maximum(distance, 1.0) ** -self.exponent)
