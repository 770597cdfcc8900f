"""Certificates and node keys for trying out TLS on this machine.

A real federation uses its own PKI: whoever runs the SuperLink has a certificate for its host name
from an authority the sites trust, and every site makes its own key and sends only the public half.
Here one process makes all of them, so none of them proves anything to anybody else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_VALID = timedelta(days=30)
_AUTHORITY = "flr loopback authority"


@dataclass(frozen=True)
class Certificates:
    """Where the authority's certificate and the SuperLink's certificate and key lie."""

    authority: Path
    server: Path
    server_key: Path


def make_certificates(folder: Path) -> Certificates:
    """An authority and a SuperLink certificate for localhost, good for 30 days, made anew.

    The authority's key is never written: nothing else can be signed with it later.
    """
    folder.mkdir(parents=True, exist_ok=True)
    made = Certificates(folder / "ca.crt", folder / "server.pem", folder / "server.key")
    authority, server = _new_key(), _new_key()
    hosts = [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]
    more = (
        x509.SubjectAlternativeName(hosts),
        x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()),
        x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]),
    )
    made.authority.write_bytes(_certificate(_AUTHORITY, authority, authority))
    made.server.write_bytes(_certificate("localhost", server, authority, more))
    _write_private(made.server_key, server, PrivateFormat.PKCS8)
    return made


def make_node_key(path: Path) -> Path:
    """Writes a SuperNode's private key, as ssh-keygen would; gives the public one, `path`.pub."""
    path.parent.mkdir(parents=True, exist_ok=True)
    key = _new_key()
    _write_private(path, key, PrivateFormat.OpenSSH)
    public = path.with_name(f"{path.name}.pub")
    text = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    public.write_bytes(text + b"\n")
    return public


def _new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP384R1())


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePrivateKey,
    more: Sequence[x509.ExtensionType] = (),
) -> bytes:
    """Of the authority where a key signs itself, else of what the authority vouches for."""
    signs, now = key is signer, datetime.now(UTC)
    others = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
    usage = x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        **dict.fromkeys((*others, "encipher_only", "decipher_only"), False),
    )
    limits = x509.BasicConstraints(ca=signs, path_length=0 if signs else None)
    subject, issuer = (
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, n)]) for n in (name, _AUTHORITY)
    )
    serial, start = x509.random_serial_number(), now - timedelta(minutes=5)
    builder = x509.CertificateBuilder(
        issuer, subject, key.public_key(), serial, start, now + _VALID
    )
    builder = builder.add_extension(usage, critical=True).add_extension(limits, critical=True)
    for extension in (x509.SubjectKeyIdentifier.from_public_key(key.public_key()), *more):
        builder = builder.add_extension(extension, critical=False)
    return builder.sign(signer, hashes.SHA384()).public_bytes(Encoding.PEM)


def _write_private(path: Path, key: ec.EllipticCurvePrivateKey, form: PrivateFormat) -> None:
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)  # nobody else may read it, not even while it is being written
    path.write_bytes(key.private_bytes(Encoding.PEM, form, NoEncryption()))
