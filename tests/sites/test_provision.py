"""Making a federation: keys that only their owner reads, certificates that hold, nothing overwritten."""

import ssl

import pytest

pytest.importorskip("cryptography")

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from unskew import InputError
from unskew.sites import certificates, provision
from unskew.sites.folders import FederationFolder, SiteFolder
from unskew.sites.policy import Policy
from unskew.sites.private_files import check_private
from unskew.sites.provision import add_site, init_federation, remove_site, renew_certificate


@pytest.fixture(scope="module")
def ops(tmp_path_factory):
    return init_federation(
        tmp_path_factory.mktemp("coordinator") / "ops", ["north", "south"], "fl.example.org"
    )


def modes(folder):
    return {path: path.stat().st_mode & 0o777 for path in folder.rglob("*")}


def test_private_keys_are_their_owners_alone(ops):
    """Mode 600 for keys, 700 for folders."""
    found = modes(ops.path)
    keys = {path: mode for path, mode in found.items() if path.suffix == ".key"}
    assert len(keys) == 4
    assert set(keys.values()) == {0o600}
    assert {mode for path, mode in found.items() if path.is_dir()} == {0o700}
    assert ops.path.stat().st_mode & 0o777 == 0o700


def test_the_server_is_who_the_authority_says(ops):
    """Its certificate names the host and this machine, and is signed by the authority."""
    authority = x509.load_pem_x509_certificate(ops.ca.read_bytes())
    server = x509.load_pem_x509_certificate(ops.certificate.read_bytes())
    server.verify_directly_issued_by(authority)
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["fl.example.org", "localhost"]
    assert len(names.get_values_for_type(x509.IPAddress)) == 2
    ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(ops.certificate, ops.certificate_key)


def test_a_site_is_handed_its_own_key_and_nothing_of_others(ops):
    """Its folder has the authority's certificate, its key pair, where to go, and a policy that allows nothing."""
    site = SiteFolder.read(ops.hand_out("north"))
    assert (site.name, site.federation, site.address) == ("north", "ops", "fl.example.org:8443")
    assert {path.name for path in site.path.iterdir()} == {
        "ca.crt", "north.key", "north.pub", "policy.toml", "site.toml",
    }  # fmt: skip
    assert Policy.read(site.path) == Policy()
    assert site.public_key.read_bytes() == ops.public_key("north").read_bytes()
    key = serialization.load_ssh_private_key(site.key.read_bytes(), None)
    assert key.curve.name == "secp384r1"
    check_private(site.key)


def test_nothing_is_overwritten(ops):
    """A federation that is there stays."""
    before = ops.ca.read_bytes()
    with pytest.raises(InputError, match="is there already"):
        init_federation(ops.path, ["east"])
    with pytest.raises(InputError, match="two sites are named"):
        add_site(ops, "North")
    assert ops.ca.read_bytes() == before


@pytest.mark.parametrize("names", [["../north"], ["north", "a/b"], ["-x"], []])
def test_names_are_checked_before_anything_is_written(tmp_path, names):
    """No path through a site's name."""
    with pytest.raises(InputError):
        init_federation(tmp_path / "ops", names)
    assert list(tmp_path.iterdir()) == []


def test_a_federation_that_fails_leaves_nothing(tmp_path, monkeypatch):
    """Not half a federation, not a key."""

    def fail(*given):
        raise OSError("the disk is full")

    monkeypatch.setattr(provision, "make_server", fail)
    with pytest.raises(OSError, match="full"):
        init_federation(tmp_path / "ops", ["north"])
    assert list(tmp_path.iterdir()) == []


def test_certificates_are_renewed_and_sites_added(tmp_path):
    """The authority stays, so the sites need nothing new."""
    ops = init_federation(tmp_path / "ops", ["north"])
    authority, before = ops.ca.read_bytes(), ops.certificate.read_bytes()
    moved = renew_certificate(ops, host="192.0.2.7", port=9443)
    assert ops.ca.read_bytes() == authority
    assert ops.certificate.read_bytes() != before
    assert certificates.days_left(ops.certificate.read_bytes()) == certificates.SERVER_DAYS - 1
    assert modes(tmp_path / "ops")[ops.certificate_key] == 0o600
    assert SiteFolder.read(moved.hand_out("north")).address == "192.0.2.7:9443"
    grown = add_site(moved, "west")
    assert FederationFolder.read(tmp_path / "ops") == grown
    assert grown.sites == ("north", "west")
    assert SiteFolder.read(grown.hand_out("west")).address == "192.0.2.7:9443"


def test_a_site_is_removed(tmp_path):
    """Its key is no longer one to let in; the last site stays."""
    ops = init_federation(tmp_path / "ops", ["north", "south"])
    shrunk = remove_site(ops, "south")
    assert FederationFolder.read(tmp_path / "ops") == shrunk
    assert shrunk.sites == ("north",)
    assert [path.name for path in (tmp_path / "ops" / "keys").iterdir()] == ["north.pub"]
    with pytest.raises(InputError, match="no site 'south'"):
        remove_site(shrunk, "south")
    with pytest.raises(InputError, match="at least one site"):
        remove_site(shrunk, "north")


def test_a_key_that_others_can_read_is_refused(tmp_path):
    """Whoever copies a folder carelessly is told so."""
    key = tmp_path / "north.key"
    key.write_text("secret")
    key.chmod(0o644)
    with pytest.raises(InputError, match="chmod 600"):
        check_private(key)
