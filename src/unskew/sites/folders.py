"""The folders of a federation: what the coordinator keeps, and what is handed to each site.

ops/                       the coordinator's; only its owner may read it
  federation.toml          name, host, port, sites
  ca.crt, ca.key           signs the server's certificate; the key never leaves this folder
  server.crt, server.key   who the coordinator is
  keys/north.pub           whom it lets in
  hand-out/north/          to carry to the site, then to delete here
    site.toml, ca.crt, north.key, north.pub
  flower/                  Flower's own files, logs and process numbers
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from unskew.errors import InputError
from unskew.sites.names import check_host, check_name, check_port, check_site_names

FEDERATION, SITE = "federation.toml", "site.toml"


@dataclass(frozen=True)
class Folder:
    """What both folders have: a name, where the coordinator is reached, and whose certificate it shows."""

    path: Path
    name: str
    host: str
    port: int

    def __post_init__(self) -> None:
        check_host(self.host)
        check_port(self.port)

    @property
    def address(self) -> str:
        """Where sites reach the coordinator."""
        return join_address(self.host, self.port)

    @property
    def ca(self) -> Path:
        return self.path / "ca.crt"

    @property
    def flower(self) -> Path:
        """Flower's own files, apart from those of any other Flower on this machine."""
        return self.path / "flower"


@dataclass(frozen=True)
class FederationFolder(Folder):
    """The coordinator's folder, as its ``federation.toml`` says."""

    sites: tuple[str, ...]

    def __post_init__(self) -> None:
        check_name(self.name, "federation")
        super().__post_init__()
        check_site_names(self.sites)

    @staticmethod
    def read(path: str | Path) -> FederationFolder:
        """The federation that a folder holds."""
        folder = Path(path)
        table = _read(
            folder / FEDERATION, f"{folder} is no federation; make one with `unskew federation init`"
        )
        sites = table.get("sites")
        if not isinstance(sites, list) or not all(isinstance(site, str) for site in sites):
            raise InputError(f'{folder / FEDERATION} must name its sites: sites = ["north", "south"]')
        said = {k: _text(table, k, folder / FEDERATION) for k in ("name", "host")}
        return FederationFolder(folder, port=table.get("port", 0), sites=tuple(sites), **said)

    def written(self) -> str:
        """What ``federation.toml`` says."""
        told = {"name": self.name, "host": self.host, "port": self.port, "sites": list(self.sites)}
        return tomli_w.dumps(told)

    @property
    def ca_key(self) -> Path:
        return self.path / "ca.key"

    @property
    def certificate(self) -> Path:
        return self.path / "server.crt"

    @property
    def certificate_key(self) -> Path:
        return self.path / "server.key"

    def public_key(self, site: str) -> Path:
        return self.path / "keys" / f"{self.known(site)}.pub"

    def hand_out(self, site: str) -> Path:
        """The folder to carry to a site."""
        return self.path / "hand-out" / self.known(site)

    def known(self, site: str) -> str:
        """A site of this federation, by name."""
        if site not in self.sites:
            raise InputError(f"federation {self.name!r} has no site {site!r}; it has {', '.join(self.sites)}")
        return site


@dataclass(frozen=True)
class SiteFolder(Folder):
    """A site's own folder, as its ``site.toml`` says."""

    federation: str

    def __post_init__(self) -> None:
        check_name(self.name, "site")
        check_name(self.federation, "federation")
        super().__post_init__()

    @staticmethod
    def read(path: str | Path) -> SiteFolder:
        """The site that a folder holds."""
        folder = Path(path)
        table = _read(folder / SITE, f"{folder} is no site's folder; ask the coordinator for it")
        said = {k: _text(table, k, folder / SITE) for k in ("name", "federation", "host")}
        return SiteFolder(folder, port=table.get("port", 0), **said)

    @staticmethod
    def find(name: str, folder: str | Path | None = None) -> SiteFolder:
        """The folder of the site of this name: ``folder``, ./NAME, or on the coordinator's machine */hand-out/NAME."""
        if folder is not None:
            found = SiteFolder.read(folder)
            if found.name != name:
                raise InputError(f"{folder} is the folder of site {found.name!r}, not of {name!r}")
            return found
        check_name(name, "site")
        here = Path(name)
        if (here / SITE).is_file():
            return SiteFolder.find(name, here)
        near = sorted(path.parent for path in Path().glob(f"*/hand-out/{name}/{SITE}"))
        if len(near) == 1:
            return SiteFolder.find(name, near[0])
        if near:
            raise InputError(
                f"{' and '.join(map(str, near))} are both folders of a site {name!r}; add --folder {near[0]}"
            )
        raise InputError(
            f"there is no folder of a site {name!r} here; ask the coordinator for it, and write --folder FOLDER "
            "where it lies elsewhere"
        )

    def written(self) -> str:
        """What ``site.toml`` says."""
        told = {"name": self.name, "federation": self.federation, "host": self.host, "port": self.port}
        return tomli_w.dumps(told)

    @property
    def key(self) -> Path:
        """The site's private key."""
        return self.path / f"{self.name}.key"

    @property
    def public_key(self) -> Path:
        return self.path / f"{self.name}.pub"

    @property
    def state(self) -> Path:
        """What the site remembers: client memories and kept models, by run and round."""
        return self.path / "state"


def join_address(host: str, port: int) -> str:
    """host:port, with brackets around an address that has colons itself."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _read(path: Path, missing: str) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8-sig"))
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(missing) from None
    except (ValueError, RecursionError) as problem:
        raise InputError(f"{path} is not valid TOML: {problem}") from None


def _text(table: Mapping[str, Any], name: str, path: Path) -> str:
    if not isinstance(value := table.get(name), str):
        raise InputError(f'{path} must say its {name}: {name} = "..."')
    return value
