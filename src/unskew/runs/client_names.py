"""Clients by their names in what a run writes: a log line speaks of sites, whoever counts needs their numbers.

A round works with numbers. Where clients have names, as the values of a column, its line is written with them, and
read back where numbers are needed. Lists of clients and single ones are found by the names of their fields.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

from unskew.errors import InputError, unknown

ASIDE = ("server", "all")
"""Who is no client: a site of such a name is written with the word client before it."""

LISTS = ("rejected", "late", "isolated", "left_out")
"""Fields that hold clients, of a line or of what a part says in it."""

ENDS = ("from", "to")
"""Fields of an exchange that hold a client, several, the server or all."""


def keeper_of(
    client: int | str,
    clients: int,
    names: Sequence[str] | None,
    kept: Container[int],
    method: str,
    exchanges: bool,
) -> int:
    """The number of a client that keeps a model of its own, or one sentence.

    There are so many ``clients``, of whom those in ``kept`` do.
    """
    if exchanges:
        raise InputError(f"client {client!r} has no model of its own: {method} keeps a global model alone")
    if isinstance(client, str) and names is not None:
        if client not in names:
            raise unknown("client", client, names)
        at = names.index(client)
    elif isinstance(client, str) or not 0 <= client < clients:
        raise InputError(
            f"there is no client {client!r}: clients of this run have the numbers 0 to {clients - 1}"
        )
    else:
        at = int(client)
    if at not in kept:
        raise InputError(f"client {client!r} has no model of its own: it has not trained")
    return at


def with_names(line: Mapping[str, Any], names: Sequence[str] | None) -> dict[str, Any]:
    """A round's line with names for clients; without names as it is."""
    if names is None:
        return dict(line)
    written = [f"client {name}" if name in ASIDE else name for name in names]
    return _translated(line, lambda who: written[who] if isinstance(who, int) else who)


def with_numbers(line: Mapping[str, Any], names: Sequence[str] | None) -> dict[str, Any]:
    """A line as it was before it got names."""
    if names is None:
        return dict(line)
    number = {f"client {name}" if name in ASIDE else name: at for at, name in enumerate(names)}
    return _translated(line, lambda who: number.get(who, who) if isinstance(who, str) else who)


def _translated(line: Mapping[str, Any], one: Callable[[Any], Any]) -> dict[str, Any]:
    def all_of(who: Any) -> Any:
        return [one(client) for client in who] if isinstance(who, list) else one(who)

    def part(told: Any) -> Any:
        if not isinstance(told, Mapping):
            return told
        return {k: all_of(v) if k in LISTS and isinstance(v, list) else v for k, v in told.items()}

    def exchange(told: Mapping[str, Any]) -> dict[str, Any]:
        return {k: all_of(v) if k in ENDS else v for k, v in told.items()}

    found: dict[str, Any] = {}
    for key, value in line.items():
        if key in LISTS and isinstance(value, list):
            found[key] = all_of(value)
        elif key == "shared" and isinstance(value, list):
            found[key] = [exchange(entry) for entry in value]
        elif key == "exchanged" and isinstance(value, Mapping):
            found[key] = {name: exchange(given) for name, given in value.items()}
        else:
            found[key] = part(value)
    return found
