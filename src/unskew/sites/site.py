"""A site: the long-lived process that holds samples and what its clients remember, and answers what its policy allows.

``answer`` takes the bytes of a request and gives those of an answer, whoever carried them. It trusts nobody: what is
asked is held against the site's own policy each time, and written to the officer's log before the answer leaves.
"""

from __future__ import annotations

import errno
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from unskew.core.method import Method
from unskew.core.slot_names import LABEL_COUNTS
from unskew.errors import InputError
from unskew.expression import parse
from unskew.machine.threads import single_threaded
from unskew.sites.data import DataUnfit, SiteData
from unskew.sites.forget import KeptRuns
from unskew.sites.messages import BadMessage, Message
from unskew.sites.names import check_name
from unskew.sites.officer_log import Entry, OfficerLog
from unskew.sites.policy import Policy, asked_by
from unskew.sites.training import RunSettings, SiteRun
from unskew.sites.words import ACCURACIES, RAW_SAMPLES, kinds_of
from unskew.version import __version__

SESSIONS = 1000
"""Coordinators' sessions whose last request is remembered, so that none is answered twice."""


class Site:
    """One site. ``folder`` is its own, for runs and memories; ``log`` is told of each request and answer."""

    def __init__(
        self,
        name: str,
        data: SiteData,
        folder: Path,
        policy: Policy | None = None,
        log: OfficerLog | None = None,
    ):
        self.name, self.data, self.folder = check_name(name, "site"), data, folder
        self.policy, self.log = policy or Policy(), log
        self._clients, self._sizes = data.clients()
        self.runs = KeptRuns(folder)
        self._run: tuple[str, SiteRun] | None = None
        self._sessions: OrderedDict[str, int] = OrderedDict()
        self._lock = threading.Lock()
        self.verbs: Mapping[str, Callable[[Mapping[str, Any]], tuple[str, dict[str, Any]]]] = {
            "about": self._about,
            "counts": self._counts,
            "start": self._start,
            "visit": self._visit,
            "query": self._query,
            "evaluate": self._evaluate,
            "models": self._models,
            "give": self._give,
            "take": self._take,
            "commit": self._commit,
        }

    @property
    def size(self) -> tuple[int, int]:
        """How many samples, and of how many clients."""
        return int(self._sizes.sum()), len(self._clients)

    def answer(self, request: bytes) -> bytes:
        """The answer to a request; one that is refused is answered by a sentence."""
        entry: dict[str, Any] = {"asked": "something that is no request", "bytes_in": len(request)}
        asked, here = Message("unknown"), ""
        try:
            asked = Message.decode(request)
            entry |= _told(asked)
            with self._lock, single_threaded():
                self._once(asked)
                if asked.verb not in self.verbs:
                    raise BadMessage(f"it asks for {asked.verb[:40]!r}, which there is not")
                sent, values = self.verbs[asked.verb](asked.values)
            found = asked.reply(request, "answer", site=self.name, **values).encode()
            return self._logged(Entry(**entry, sent=sent, bytes_out=len(found)), found)
        except DataUnfit as problem:
            verb, reason, here = "refused", f"the samples of site {self.name!r} {problem.told}", str(problem)
        except InputError as problem:
            verb, reason = "refused", str(problem)
        except BadMessage as problem:
            verb, reason = "refused", f"site {self.name!r} cannot take this request: {problem}"
        except OSError as problem:
            verb = "failed"
            full = problem.errno in (errno.ENOSPC, errno.EDQUOT)
            reason = (
                "its disk is full" if full else f"its disk fails: {problem.strerror or 'nobody knows why'}"
            )
        except Exception as problem:
            # what a strange request runs into is its own fault, and no reason to end; the problem's own words may
            # quote a sample, so they stay here
            verb, reason = "refused", f"site {self.name!r} cannot answer: {type(problem).__name__}"
            here = f"{type(problem).__name__}: {problem}"
        found = asked.reply(request, verb, site=self.name, reason=reason[:1000]).encode()
        said = f"{reason} (not told: {here})" if here else reason
        return self._logged(Entry(**entry, refused=said, bytes_out=len(found)), found)

    def forget_old(self) -> None:
        """Delete what was kept of runs of which nobody has asked for as long as the policy says."""
        days = self.policy.keep_days
        for run in self.runs.forget(days):
            if self.log is not None:
                self.log.write(
                    Entry(f"to forget what nobody has asked for in {days} days, by its policy", run=run)
                )

    def _logged(self, entry: Entry, found: bytes) -> bytes:
        if self.log is not None:
            try:
                self.log.write(entry)
            except OSError:
                if not entry.refused:  # what is not in the log does not leave
                    request = Message.decode(found)
                    return Message(
                        "failed",
                        {"site": self.name, "reason": "its disk is full, and what it cannot log it does not send"},
                        request.session, request.number, request.answers,
                    ).encode()  # fmt: skip
        return found

    def _once(self, asked: Message) -> None:
        """Refuse a request that was sent before, or an older one of the same session."""
        if not asked.session:
            raise BadMessage("it is of no session, so that nobody could tell whether it was sent before")
        if self._sessions.get(asked.session, -1) >= asked.number:
            raise BadMessage("it was sent before")
        self._sessions[asked.session] = asked.number
        self._sessions.move_to_end(asked.session)
        while len(self._sessions) > SESSIONS:
            self._sessions.popitem(last=False)

    # --- verbs: each gives what is said of the answer in the log, and the answer

    def _about(self, told: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        return "how many samples it has, its version and its policy", {
            "clients": list(self._clients),
            "sizes": self._sizes,
            "version": __version__,
            "policy": self.policy.as_dict(),
        }

    def _counts(self, told: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        self.policy.check(self.name, "the coordinator", LABEL_COUNTS)
        clients, classes, table = self.data.counts()
        return LABEL_COUNTS, {"clients": list(clients), "classes": list(classes), "counts": table}

    def _start(self, told: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        name, run = self._begun(told)
        run.shared.forget()
        self.runs.began(name, Message("start", dict(told)).encode())
        self.forget_old()
        given = {"counts": run.counts()} if told["counts"] else {}
        return "how many samples its clients train on" + (f", and {LABEL_COUNTS}" if given else ""), (
            run.sizes() | given
        )

    def _begun(self, told: Mapping[str, Any]) -> tuple[str, SiteRun]:
        """A run that the policy allows, ready to take part in."""
        settings = RunSettings.read(told["settings"])
        for call in parse(settings.method):  # before anything is imported that it names
            if ":" in call.name:
                self.policy.check_code(self.name, call.name, call.name.partition(":")[0].partition(".")[0])
        samples, clients = int(self._sizes.sum()), len(self._clients)
        asked = asked_by(Method.parse(settings.method))
        self.policy.check_run(self.name, asked, settings.model, settings.rounds, samples, clients)
        if told["counts"]:
            self.policy.check(self.name, "the run", LABEL_COUNTS)
        name = str(told["run"])
        run = SiteRun(settings, self.data, self.runs.path(name) / "memories")
        self._run = name, run
        return self._run

    def _visit(self, told: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        run = self._of(told)
        self.policy.check_rounds(self.name, int(told["moment"]["t"] or 0) + 1)
        if told["leg"]["settings"]["per_class"] is not None:
            # how many samples were trained on tells then how many of a class there are
            self.policy.check(self.name, "training on samples of chosen classes", LABEL_COUNTS)
        found = run.visit(told)
        sent = "how far models went that its clients keep" if told["leg"]["keeps"] else "trained models"
        beside = [f"what {part} reports" for part, tree in found["uploads"].items() if tree]
        if self.policy.allows(ACCURACIES):
            beside.append("their losses")
        else:
            found["vectors"]["loss"] = torch.full_like(found["vectors"]["loss"], torch.nan)
        return ", and ".join([sent, *beside]), found

    def _query(self, told: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        run, name = self._of(told), str(told["part"])
        for part in run.method.parts:
            if part.name == name:
                if not part.discloses:  # whatever it could be asked, in this run it has nothing to ask for
                    raise InputError(
                        f"{name} of this run discloses nothing, so site {self.name!r} answers it nothing"
                    )
                self.policy.check_method(self.name, [(name, phrase) for phrase in part.discloses])
        return f"answers for {name}", run.query(told)

    def _evaluate(self, told: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        self.policy.check(self.name, "the run", ACCURACIES)
        return ACCURACIES, self._of(told).evaluate(told)

    def _give(self, told: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        run, name = self._of(told), str(told["part"])
        asked = [
            (part.name, phrase)
            for part in run.method.prepare
            if part.name == name
            for phrase in part.discloses
        ]
        if not any(RAW_SAMPLES in kinds_of(phrase) for _, phrase in asked):
            raise InputError(f"{name[:40]} of this run sends no samples, so site {self.name!r} gives it none")
        self.policy.check_method(self.name, asked)
        found = run.give(told)
        return f"{sum(len(one['y']) for one in found['given']):,} {RAW_SAMPLES}", found

    def _take(self, told: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        run = self._of(told)
        if told["counted"]:
            self.policy.check(self.name, "the run", LABEL_COUNTS)
        return "how many samples its clients hold then", run.take(told)

    def _models(self, told: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        return "copies of the models that its clients keep", self._of(told).models(told)

    def _commit(self, told: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        return "nothing", self._of(told).commit(told)

    def _of(self, told: Mapping[str, Any]) -> SiteRun:
        """The run that is asked about; after a restart it is read from the site's own disk, and checked again."""
        name = check_name(str(told["run"]), "run")
        if self._run is None or self._run[0] != name:
            began = self.runs.beginning(name)
            if began is None:
                raise InputError(f"site {self.name!r} was not told of the run {name}, or has forgotten it")
            self._begun(Message.decode(began).values)[1].shared.restore()
        self.runs.asked(name)
        assert self._run is not None
        return self._run[1]


def _told(asked: Message) -> dict[str, Any]:
    """What the log says of a request."""
    values = asked.values
    found: dict[str, Any] = {"asked": WORDS.get(asked.verb, asked.verb[:40])}
    if asked.verb == "query":
        found["asked"] = f"{str(values.get('question'))[:40]} for {str(values.get('part'))[:40]}"
    if asked.verb == "start" and isinstance(settings := values.get("settings"), dict):
        found["asked"] = f"to take part in {str(settings.get('method'))[:200]}"
    if isinstance(run := values.get("run"), str):
        found["run"] = run[:60]
    moment = values.get("moment")
    if isinstance(moment, dict) and isinstance(t := moment.get("t"), int):
        found["round"] = t
    return found


WORDS = {
    "about": "what it has and allows",
    "counts": LABEL_COUNTS,
    "visit": "training",
    "evaluate": ACCURACIES,
    "give": RAW_SAMPLES,
    "take": "adding samples of other clients to its own",
    "models": "the models that its clients keep, to judge them",
    "commit": "forgetting what no checkpoint needs",
}
