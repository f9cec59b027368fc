"""Folders of federations and sites: what they say, and which names get into paths."""

import os

import pytest

from unskew import InputError
from unskew.sites.folders import FederationFolder, SiteFolder
from unskew.sites.names import check_host, check_name, check_port, check_site_names

BAD_NAMES = [
    "",
    ".",
    "..",
    "../north",
    "a/b",
    "a\\b",
    "/etc",
    "-north",
    "north\n",
    "north;id",
    "a b",
    "nörth",
    "x" * 41,
]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_names_that_would_leave_their_place_are_refused(name):
    """No path, no flag, no line break."""
    with pytest.raises(InputError, match="cannot be the name of a site"):
        check_name(name, "site")


def test_two_sites_need_two_names():
    """Also where files do not tell capitals apart."""
    assert check_site_names(["north", "south-2", "East_1"]) == ("north", "south-2", "East_1")
    with pytest.raises(InputError, match="'north' and 'North'"):
        check_site_names(["north", "North"])
    with pytest.raises(InputError, match="at least one site"):
        check_site_names([])


@pytest.mark.parametrize("host", ["", "a b", "--insecure", "http://x", "x:80", "x/y", "a..b", "x\n"])
def test_hosts_that_are_none_are_refused(host):
    """They stand in commands and certificates."""
    with pytest.raises(InputError, match="no host name or address"):
        check_host(host)


def test_hosts_and_ports():
    """Names and addresses of both kinds."""
    for host in ("localhost", "fl.example.org", "192.0.2.7", "::1", "2001:db8::7"):
        assert check_host(host) == host
    for port in (0, 65536, True, "80"):
        with pytest.raises(InputError, match="from 1 to 65535"):
            check_port(port)


def test_a_federation_is_read_as_it_was_written(tmp_path):
    """And knows its own sites only."""
    made = FederationFolder(tmp_path, "ops", "::1", 8443, ("north", "south"))
    (tmp_path / "federation.toml").write_text(made.written())
    assert FederationFolder.read(tmp_path) == made
    assert made.address == "[::1]:8443"
    with pytest.raises(InputError, match="no site 'east'; it has north, south"):
        made.hand_out("east")
    with pytest.raises(InputError, match="is no federation; make one"):
        FederationFolder.read(tmp_path / "other")


def test_a_federation_file_cannot_smuggle_a_path(tmp_path):
    """A name is checked where it is read, too."""
    (tmp_path / "federation.toml").write_text('name="ops"\nhost="h"\nport=1\nsites=["../../etc"]')
    with pytest.raises(InputError, match="cannot be the name of a site"):
        FederationFolder.read(tmp_path)


def test_a_site_is_found_here_or_with_the_coordinator(tmp_path, monkeypatch):
    """./north, else */hand-out/north, else --folder."""
    monkeypatch.chdir(tmp_path)
    site = SiteFolder(tmp_path / "ops" / "hand-out" / "north", "north", "localhost", 8443, "ops")
    site.path.mkdir(parents=True)
    (site.path / "site.toml").write_text(site.written())
    found = SiteFolder.find("north")
    assert (found.name, found.address) == ("north", "localhost:8443")
    assert os.path.samefile(found.path, site.path)
    with pytest.raises(InputError, match="no folder of a site 'south' here"):
        SiteFolder.find("south")
    with pytest.raises(InputError, match="not of 'south'"):
        SiteFolder.find("south", site.path)
