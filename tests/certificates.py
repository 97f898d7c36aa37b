"""Certificates for test servers, and keys that sign plans."""

from __future__ import annotations

import datetime as dt
import ipaddress
from pathlib import Path


def create_certificate(folder: Path, name: str = "localhost") -> tuple[Path, Path]:
    """Create a self-signed certificate for a name and for 127.0.0.1, and its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    names = [x509.DNSName(name), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    paths = folder / "server.pem", folder / "server.key"
    paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return paths


def create_signing_key(
    private: Path | str,
    public: Path | str | None = None,
    *,
    algorithm: str = "ed25519",
    password: bytes = b"",
) -> None:
    """Write a new private key as PEM, and its public key if requested.

    `algorithm` is ed25519 or rsa. With a password, the private key is encrypted.
    """
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ed25519, rsa

    key = (
        rsa.generate_private_key(public_exponent=65537, key_size=2048)
        if algorithm == "rsa"
        else ed25519.Ed25519PrivateKey.generate()
    )
    encryption = (
        serialization.BestAvailableEncryption(password)
        if password
        else serialization.NoEncryption()
    )
    content = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
    )
    # As openssl writes it: nobody else may read it.
    Path(private).touch(mode=0o600)
    Path(private).write_bytes(content)
    if public is not None:
        content = key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        Path(public).write_bytes(content)
