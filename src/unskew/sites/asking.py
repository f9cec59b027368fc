"""Requests to sites and their answers: asked all at once, asked again where one is away, counted, and checked."""

from __future__ import annotations

import logging
import math
import secrets
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from unskew.errors import InputError, RunFailed, one_line
from unskew.sites.carrier import MOST_MESSAGE, Carrier, Lost
from unskew.sites.messages import BadMessage, Message, read_reply

log = logging.getLogger("unskew.sites")

AGAIN = 0.5
"""Seconds after which a site that is away is asked again."""

Read = TypeVar("Read")


@dataclass
class Asking:
    """The coordinator's side of a carrier. A site that was lost is asked again in every leg, but not waited for."""

    carrier: Carrier
    deadline: float | None = None
    session: str = field(default_factory=lambda: secrets.token_hex(8))
    number: int = 0
    travelled: Counter[str] = field(default_factory=Counter)  # down, up, as they really travelled
    lost: dict[str, str] = field(default_factory=dict)  # site -> why, since somebody asked last
    away: set[str] = field(default_factory=set)  # sites that were lost when they were asked last

    def all(
        self,
        verb: str,
        requests: Mapping[str, Mapping[str, Any]],
        read: Callable[[str, Mapping[str, Any]], Read],
        most: int = MOST_MESSAGE,
    ) -> dict[str, Read]:
        """What ``read`` makes of each site's answer. Who gave none, or a wrong one, is left out and noted."""
        found: dict[str, Read] = {}
        waiting = self._not_away(requests)
        ends = None if self.deadline is None else time.monotonic() + self.deadline
        while waiting:
            answers = self._once(verb, waiting, ends, most)
            retry: dict[str, Mapping[str, Any]] = {}
            for site, (asked, answer) in answers.items():
                problem = answer.reason if isinstance(answer, Lost) else ""
                if isinstance(answer, bytes):
                    try:
                        found[site] = read(site, self._opened(asked, answer, most))
                    except Exception as wrong:  # whatever a strange answer runs into is no reason to end
                        problem = f"gave an answer that is refused: {_sentence(wrong)}"
                if not problem:
                    self.away.discard(site)
                elif isinstance(answer, Lost) and answer.away and site not in self.away and _left(ends) > 0:
                    retry[site] = waiting[site]
                else:
                    self.lose(site, problem)
            waiting = retry
            if waiting:
                time.sleep(min(AGAIN, max(0.0, _left(ends))))
        return {site: found[site] for site in requests if site in found}

    def take_notes(self) -> dict[str, Any]:
        """Bytes that travelled and sites that were lost since the last time; the account begins anew."""
        told: dict[str, Any] = {"bytes_down": self.travelled["down"], "bytes_up": self.travelled["up"]}
        if self.lost:
            told["lost"] = dict(sorted(self.lost.items()))
        self.travelled.clear()
        self.lost.clear()
        return told

    def _not_away(self, requests: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
        """Those to ask: who was lost last time is asked only where it is back."""
        if not self.away & set(requests):
            return dict(requests)
        back = set(self.carrier.names())
        for site in self.away & set(requests) - back:
            self.lose(site, "is still away")
        return {site: values for site, values in requests.items() if site not in self.away or site in back}

    def _once(
        self, verb: str, requests: Mapping[str, Mapping[str, Any]], ends: float | None, most: int
    ) -> dict[str, tuple[bytes, bytes | Lost]]:
        sent: dict[str, bytes] = {}
        for site, values in requests.items():
            self.number += 1
            sent[site] = Message(verb, values, self.session, self.number).encode()
        answers: dict[str, bytes | Lost]
        try:
            answers = self.carrier.ask(
                sent, None if ends is None else max(0.1, math.ceil(10 * _left(ends)) / 10), most
            )
        except (RunFailed, InputError) as broken:  # nobody can be reached: the SuperLink may come back
            if _left(ends) <= AGAIN:
                raise
            log.warning("%s", broken)
            self.away.clear()
            answers = {site: Lost("cannot be reached", away=True) for site in sent}
        found: dict[str, tuple[bytes, bytes | Lost]] = {}
        for site, request in sent.items():
            answer = answers.get(site, Lost("gave no answer"))
            self.travelled["down"] += len(request)
            self.travelled["up"] += len(answer) if isinstance(answer, bytes) else 0
            found[site] = request, answer
        return found

    def _opened(self, request: bytes, answer: bytes, most: int) -> Mapping[str, Any]:
        reply = read_reply(answer, request, most)
        if reply.verb in ("refused", "failed"):
            raise Refused(str(reply.values.get("reason"))[:1000])
        if reply.verb != "answer":
            raise BadMessage("it is no answer")
        return reply.values

    def lose(self, site: str, why: str) -> None:
        """Note that a site has no part in what was asked."""
        self.lost[site] = why = one_line(why)  # a site's words reach terminals and pages
        self.away.add(site)
        log.warning("site %s %s", site, why)


class Refused(ValueError):
    """A site's own sentence about why it does not answer."""


def _sentence(problem: Exception) -> str:
    return (
        str(problem) if isinstance(problem, (BadMessage, Refused)) else f"{type(problem).__name__}: {problem}"
    )


def _left(ends: float | None) -> float:
    return float("inf") if ends is None else ends - time.monotonic()
