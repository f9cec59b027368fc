"""Keys and certificates of a federation: an authority, the server's certificate, a key pair for each site."""

from __future__ import annotations

import datetime
import ipaddress
from typing import TYPE_CHECKING

from unskew.sites.extra import need_extra

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

AUTHORITY_DAYS, SERVER_DAYS = 3650, 365


def make_key() -> EllipticCurvePrivateKey:
    """A private key on the curve P-384."""
    need_extra()
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP384R1())


def private_pem(key: EllipticCurvePrivateKey, openssh: bool = False) -> bytes:
    """A private key as text; Flower reads those of sites in OpenSSH's form."""
    from cryptography.hazmat.primitives import serialization as form

    kind = form.PrivateFormat.OpenSSH if openssh else form.PrivateFormat.PKCS8
    return key.private_bytes(form.Encoding.PEM, kind, form.NoEncryption())


def public_line(key: EllipticCurvePrivateKey, site: str) -> bytes:
    """A public key in OpenSSH's form, which Flower registers."""
    from cryptography.hazmat.primitives import serialization as form

    line = key.public_key().public_bytes(form.Encoding.OpenSSH, form.PublicFormat.OpenSSH)
    return line + f" {site}\n".encode()


def make_authority(key: EllipticCurvePrivateKey, federation: str) -> bytes:
    """The certificate of the federation's own authority. It signs no further authorities."""
    from cryptography import x509

    name = _name(f"{federation} authority")
    made = _begin(name, name, key, AUTHORITY_DAYS)
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    made = made.add_extension(_usage(signs_certificates=True), critical=True)
    return _signed(made, key)


def make_server(
    key: EllipticCurvePrivateKey, host: str, authority: bytes, authority_key: EllipticCurvePrivateKey
) -> bytes:
    """The server's certificate, for its host and for this machine itself."""
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID

    issuer = x509.load_pem_x509_certificate(authority).subject
    names = dict.fromkeys([host, "localhost", "127.0.0.1", "::1"])
    made = _begin(_name(host), issuer, key, SERVER_DAYS)
    made = made.add_extension(x509.SubjectAlternativeName([_alternative(n) for n in names]), critical=False)
    made = made.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    made = made.add_extension(_usage(signs_certificates=False), critical=True)
    made = made.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    return _signed(made.add_extension(identifier, critical=False), authority_key)


def read_key(data: bytes) -> EllipticCurvePrivateKey:
    """The authority's or the server's private key."""
    need_extra()
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric import ec

    key = form.load_pem_private_key(data, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key


def days_left(certificate: bytes) -> int:
    """Days until a certificate ends; below zero where it has ended."""
    need_extra()
    from cryptography import x509

    ends = x509.load_pem_x509_certificate(certificate).not_valid_after_utc
    return (ends - datetime.datetime.now(datetime.UTC)).days


def _begin(
    name: x509.Name, issuer: x509.Name, key: EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    from cryptography import x509

    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))  # clocks of sites differ
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _signed(made: x509.CertificateBuilder, key: EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.serialization import Encoding

    return made.sign(key, hashes.SHA384()).public_bytes(Encoding.PEM)


def _name(common: str) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common[:64])])


def _alternative(host: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _usage(signs_certificates: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
