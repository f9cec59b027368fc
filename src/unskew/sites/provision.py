"""Making a federation: its authority, its server's certificate, and a folder to hand to each site."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Sequence
from pathlib import Path

from unskew.errors import InputError
from unskew.files import replace_folder, write_file
from unskew.sites.certificates import (
    days_left,
    make_authority,
    make_key,
    make_server,
    private_pem,
    public_line,
    read_key,
)
from unskew.sites.folders import FEDERATION, SITE, FederationFolder, SiteFolder
from unskew.sites.names import check_name, check_site_names
from unskew.sites.policy import Policy
from unskew.sites.private_files import make_private_folder, write_private

PORT = 8443


def init_federation(
    path: str | Path, sites: Sequence[str], host: str = "localhost", port: int = PORT
) -> FederationFolder:
    """A new federation in a folder that is not there yet; its name is the folder's. All of it, or nothing."""
    target = Path(path)
    name = check_name(target.resolve().name, "federation")
    made = FederationFolder(target, name, host, port, check_site_names(sites))
    if target.exists():
        raise InputError(f"{target} is there already; add sites with `unskew federation add {target} SITE`")
    authority_key, server_key = make_key(), make_key()
    authority = make_authority(authority_key, name)
    with replace_folder(target) as draft:
        make_private_folder(draft)
        new = dataclasses.replace(made, path=draft)
        write_private(new.ca_key, private_pem(authority_key))
        write_private(new.certificate_key, private_pem(server_key))
        write_file(new.ca, authority)
        write_file(new.certificate, make_server(server_key, host, authority, authority_key))
        write_file(draft / FEDERATION, new.written())
        make_private_folder(draft / "keys")
        make_private_folder(draft / "hand-out")
        for site in sites:
            _make_site(new, site)
    return made


def add_site(folder: FederationFolder, site: str) -> FederationFolder:
    """One more site; the coordinator learns of its key at its next start."""
    check_name(site, "site")
    grown = dataclasses.replace(folder, sites=check_site_names([*folder.sites, site]))
    if (
        folder.path.joinpath("hand-out", site).exists()
        or folder.path.joinpath("keys", f"{site}.pub").exists()
    ):
        raise InputError(f"{folder.path} still has files of an earlier site {site!r}; choose another name")
    _make_site(grown, site)
    write_file(folder.path / FEDERATION, grown.written())  # last: a site without files is none
    return grown


def remove_site(folder: FederationFolder, site: str) -> FederationFolder:
    """Let a site in no longer, from the next start on; a site's own folder is its own."""
    folder.known(site)
    left = tuple(name for name in folder.sites if name != site)
    shrunk = dataclasses.replace(folder, sites=check_site_names(left))
    write_file(folder.path / FEDERATION, shrunk.written())  # first: a key that is still there opens nothing
    folder.public_key(site).unlink(missing_ok=True)
    shutil.rmtree(folder.hand_out(site), ignore_errors=True)
    return shrunk


def renew_certificate(
    folder: FederationFolder, host: str | None = None, port: int | None = None
) -> FederationFolder:
    """A new certificate and key of the server, by the same authority: sites need nothing new.

    With another ``host`` or ``port`` the sites' ``site.toml`` must say so too; those still here are rewritten.
    """
    moved = dataclasses.replace(folder, host=host or folder.host, port=port or folder.port)
    authority, authority_key = folder.ca.read_bytes(), read_key(folder.ca_key.read_bytes())
    if days_left(authority) < 1:
        raise InputError(
            f"the authority of {folder.path} has ended; make a new federation and hand out its folders"
        )
    key = make_key()
    certificate = make_server(key, moved.host, authority, authority_key)
    draft = folder.certificate_key.with_suffix(".new")
    draft.unlink(missing_ok=True)
    write_private(draft, private_pem(key))
    write_file(folder.certificate, certificate)
    draft.replace(folder.certificate_key)
    if moved != folder:
        write_file(folder.path / FEDERATION, moved.written())
        for site in moved.sites:
            if (moved.hand_out(site) / SITE).is_file():
                write_file(moved.hand_out(site) / SITE, _site_folder(moved, site).written())
    return moved


def _site_folder(folder: FederationFolder, site: str) -> SiteFolder:
    return SiteFolder(folder.hand_out(site), site, folder.host, folder.port, folder.name)


def _make_site(folder: FederationFolder, site: str) -> None:
    key = make_key()
    with replace_folder(folder.hand_out(site)) as draft:
        make_private_folder(draft)
        new = dataclasses.replace(_site_folder(folder, site), path=draft)
        write_private(new.key, private_pem(key, openssh=True))
        write_file(new.public_key, public_line(key, site))
        write_file(new.ca, folder.ca.read_bytes())
        write_file(draft / SITE, new.written())
        Policy().save(draft)
    write_file(folder.public_key(site), public_line(key, site))
