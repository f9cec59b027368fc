"""A site's policy: what may leave it beyond model updates, and with which runs it takes part.

Read at the coordinator before round 0, so that nobody is asked in vain, and at the site for each request, since a site
trusts nobody's reading but its own.
"""

from __future__ import annotations

import functools
import importlib.metadata
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from unskew.declared import named_classes
from unskew.errors import InputError
from unskew.files import write_file
from unskew.sites.words import MEANINGS, consent_words, read_allowed

FILE = "policy.toml"


@dataclass(frozen=True)
class Policy:
    """What a site allows. ``allow``: kinds of disclosure; ``models``: names, or none for all that unskew has;
    ``packages``: installed there, from which models and parts of one's own may be named; ``keep_days``: after how many
    days without a question what was kept of a run is deleted."""

    allow: frozenset[str] = frozenset()
    min_samples: int = 1
    min_clients: int = 1
    max_rounds: int | None = None
    models: frozenset[str] = frozenset()
    packages: frozenset[str] = frozenset()
    keep_days: int = 30

    def __post_init__(self) -> None:
        object.__setattr__(self, "allow", read_allowed(",".join(self.allow), bool(self.packages)))
        for name in ("min_samples", "min_clients", "max_rounds", "keep_days"):
            value = getattr(self, name)
            if value is None and name == "max_rounds":
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise InputError(f"{name} of a policy must be a whole number from 1, not {value!r}")
        for model in self.models - _models():
            if _package_of(model) is None:
                raise InputError(f"there is no model {model!r} to allow; see 'unskew models'")

    def allows(self, phrase: str) -> bool:
        """Whether what a part discloses, in its own words, may leave the site."""
        return phrase in self.allow or self.allow.issuperset(consent_words(phrase))

    def check(self, site: str, part: str, phrase: str) -> None:
        """Refuse one thing that a part asks a site for."""
        if not self.allows(phrase):
            missing = [word for word in consent_words(phrase) if word not in self.allow]
            raise InputError(
                f"{part} asks site {site!r} for {phrase}, and its policy does not allow that; leave {part} out, or "
                f'let the site start with --allow "{", ".join(missing)}"'
            )

    def check_method(self, site: str, asked: Iterable[tuple[str, str]]) -> None:
        """Refuse a method by what its parts disclose: (part, phrase) pairs, as ``asked_by`` gives them."""
        for part, phrase in asked:
            self.check(site, part, phrase)

    def check_model(self, site: str, model: str) -> None:
        """Refuse a model that is not on the site's list, and code of a package that it does not name."""
        name = model.partition("(")[0].strip()
        if name in self.models or (not self.models and name in _models()):
            return
        if (package := _package_of(name)) is None or self.models:
            known = ", ".join(sorted(self.models or _models()))
            raise InputError(f"model {name} is not one that site {site!r} trains; it trains {known}")
        self.check_code(site, f"model {name}", package)

    def check_code(self, site: str, what: str, package: str) -> None:
        """Refuse code that the site has not named, or that is not installed there: code is never sent."""
        if package not in self.packages:
            raise InputError(
                f"{what} is code of the package {package}, which site {site!r} does not allow; install it there and "
                f"let the site start with --package {package}"
            )
        if package not in importlib.metadata.packages_distributions():
            raise InputError(f"{what} is code of the package {package}, which is not installed at {site!r}")

    def check_size(self, site: str, samples: int, clients: int) -> None:
        """Refuse to take part with less than the policy wants: few samples say much of each."""
        for held, fewest, what in (
            (samples, self.min_samples, "samples"),
            (clients, self.min_clients, "clients"),
        ):
            if held < fewest:
                raise InputError(
                    f"site {site!r} takes part with {fewest} {what} or more, and it has {held}; run without it"
                )

    def check_rounds(self, site: str, rounds: int) -> None:
        """Refuse more rounds than the policy allows: every round says a little more."""
        if self.max_rounds is not None and rounds > self.max_rounds:
            raise InputError(
                f"the run has {rounds} rounds, and site {site!r} allows at most {self.max_rounds}; "
                f"write rounds = {self.max_rounds} or less"
            )

    def check_run(
        self,
        site: str,
        asked: Iterable[tuple[str, str]],
        model: str,
        rounds: int,
        samples: int,
        clients: int,
    ) -> None:
        """Refuse a run by all that is known of it before round 0."""
        self.check_method(site, asked)
        self.check_model(site, model)
        self.check_rounds(site, rounds)
        self.check_size(site, samples, clients)

    def as_dict(self) -> dict[str, Any]:
        """As ``policy.toml`` and a site's answer have it; what is not set is left out."""
        told = {f.name: getattr(self, f.name) for f in fields(self)}
        return {k: sorted(v) if isinstance(v, frozenset) else v for k, v in told.items() if v is not None}

    @staticmethod
    def of(table: Mapping[str, Any], where: str = "the policy") -> Policy:
        """What ``as_dict`` wrote, or a person: names and kinds of values are checked."""
        found: dict[str, Any] = {}
        names = [f.name for f in fields(Policy)]
        for name, value in table.items():
            if name not in names:
                raise InputError(f"{where} has no setting {name!r}; write one of {', '.join(names)}")
            if name in ("allow", "models", "packages"):
                if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
                    raise InputError(f'{name} of {where} must be a list of texts, such as {name} = ["..."]')
                value = frozenset(value)
            found[name] = value
        return Policy(**found)

    def save(self, folder: Path) -> None:
        """Write ``policy.toml``, for the site's people to read."""
        write_file(folder / FILE, self.written())

    def written(self) -> str:
        import tomli_w

        lines = [
            "# What may leave this site beyond model updates and how many samples it has, and with which runs it",
            "# takes part. Changes hold from the site's next start.",
            "# allow: any of",
            *(f"#   {kind}: {meaning}" for kind, meaning in MEANINGS.items()),
            "# models: empty for all that unskew has. packages: code installed here that a run may name.",
            "# keep_days: what was kept of a run is deleted once nobody has asked for it for so many days.",
        ]
        return "\n".join(lines) + "\n" + tomli_w.dumps(self.as_dict())

    @staticmethod
    def read(folder: Path) -> Policy:
        """The policy of a site's folder; where there is none, nothing is allowed."""
        path = folder / FILE
        try:
            return Policy.of(tomllib.loads(path.read_text("utf-8-sig")), str(path))
        except FileNotFoundError:
            return Policy()
        except (ValueError, RecursionError) as problem:
            if isinstance(problem, InputError):
                raise
            raise InputError(f"{path} is not valid TOML: {problem}") from None


def asked_by(method: Any) -> list[tuple[str, str]]:
    """(part, what it discloses) for each part of a ``Method``."""
    return [(part.name, phrase) for part in method.parts for phrase in part.discloses]


@functools.cache
def _models() -> frozenset[str]:
    return frozenset([kind.variable("name") for kind in named_classes("models")] + ["auto"])


def _package_of(name: str) -> str | None:
    """The package of ``package.module:Class``."""
    module, colon, _ = name.partition(":")
    return module.partition(".")[0] if colon else None
