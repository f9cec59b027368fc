"""Names of sites and federations: they become names of folders, words of commands and lines of logs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from unskew.errors import InputError

LONGEST = 40


def check_name(name: str, what: str) -> str:
    """A name of letters, digits, - and _, that begins with a letter or a digit; nothing else gets into a path."""
    if not re.fullmatch(rf"[A-Za-z0-9][A-Za-z0-9_-]{{0,{LONGEST - 1}}}", name, re.ASCII):
        raise InputError(
            f"{name!r} cannot be the name of a {what}: write letters, digits, - and _, at most {LONGEST}, "
            "such as north"
        )
    return name


def check_site_names(names: Sequence[str]) -> tuple[str, ...]:
    """Names of sites that are told apart, also where files do not tell capitals from small letters."""
    if not names:
        raise InputError("a federation needs at least one site; write --sites north,south")
    seen: dict[str, str] = {}
    for name in names:
        check_name(name, "site")
        if (other := seen.get(name.lower())) is not None:
            raise InputError(f"two sites are named {other!r} and {name!r}; give each a name of its own")
        seen[name.lower()] = name
    return tuple(names)


def check_host(host: str) -> str:
    """A host name or an address: it stands in a certificate, a command and a file."""
    label = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
    if len(host) > 253 or not re.fullmatch(
        rf"{label}(?:\.{label})*|[0-9A-Fa-f:]*:[0-9A-Fa-f:.]+", host, re.ASCII
    ):
        raise InputError(f"{host!r} is no host name or address; write such as fl.example.org or 192.0.2.7")
    return host


def check_port(port: int) -> int:
    """A port that a process may take."""
    if not isinstance(port, int) or isinstance(port, bool) or not 1 <= port <= 65535:
        raise InputError(f"a port is a whole number from 1 to 65535, not {port!r}")
    return port
