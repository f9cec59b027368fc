"""Flower's SuperLink, shut to all but sites: ``python -m unskew.sites.flower.superlink``, with Flower's own flags.

Flower serves three interfaces on one port. Sites need Fleet, where every request carries the signature of a registered
key. Control (which registers keys and starts apps) and Runtime ask nobody who they are, so here they answer this
machine alone.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from unskew.sites.flower.with_parent import end_with_parent

Scope = MutableMapping[str, Any]
FOR_SITES = ("/v1/fleet/",)


class SitesOnly:
    """Other machines reach nothing but what is for sites."""

    def __init__(self, app: Callable[..., Awaitable[None]]):
        self.app = app

    async def __call__(self, scope: Scope, receive: Any, send: Callable[..., Awaitable[None]]) -> None:
        if scope["type"] == "lifespan" or is_open(scope["path"], (scope.get("client") or ("",))[0]):
            await self.app(scope, receive, send)
            return
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 403, "headers": []})
            await send({"type": "http.response.body", "body": b"only this machine may ask that\n"})


def is_open(path: str, client: str) -> bool:
    """Whether a path answers a client: what is for sites all, the rest this machine."""
    if path.startswith(FOR_SITES):
        return True
    try:
        address = ipaddress.ip_address(client)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def main() -> None:
    from flwr.superlink import extensions
    from flwr.superlink.cli.flower_superlink import flower_superlink
    from starlette.middleware import Middleware

    end_with_parent()
    usual = extensions.get_middleware
    extensions.get_middleware = lambda: (Middleware(SitesOnly), *usual())
    flower_superlink()


if __name__ == "__main__":
    main()
