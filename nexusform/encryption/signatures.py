"""Signatures of plans: Ed25519, with keys in PEM as written by openssl.

    openssl genpkey -algorithm ed25519 -out plan.key
    openssl pkey -in plan.key -pubout -out plan.pub

The signature covers a digest over the parts of a plan, never the bytes of a file, so that
encryption and the order of parts do not matter.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from nexusform.encryption.key_providers import EncryptionProblem, require_cryptography

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

ALGORITHM: Final = "ed25519"
# Prevent reuse of a signature for another kind of document.
PLAN_PURPOSE: Final = b"nexusform plan, version 1\n"
REVOCATIONS_PURPOSE: Final = b"nexusform revocations, version 1\n"
_MAKE_KEY: Final = "openssl genpkey -algorithm ed25519"


def sign_digest(
    digest: str, key: bytes, name: str, purpose: bytes = PLAN_PURPOSE
) -> dict[str, str]:
    """Return the signature of a digest by a private key in PEM; `name` is its file.

    Raises EncryptionProblem.
    """
    with require_cryptography("Signatures need"):
        private_key = _load_private_key(key, name)
        signature = private_key.sign(purpose + digest.encode())
        return {
            "algorithm": ALGORITHM,
            "key": _compute_fingerprint(private_key.public_key()),
            "signature": base64.b64encode(signature).decode(),
        }


def check_signature(
    signature: Mapping[str, Any] | None,
    digest: str,
    key: bytes,
    name: str,
    purpose: bytes = PLAN_PURPOSE,
) -> None:
    """Raise EncryptionProblem unless the signature is of this digest by this `key`.

    The key is a public key, from the file `name`.
    """
    if signature is None:
        raise EncryptionProblem(
            "It is not signed. Sign an approved plan with `nexusform sign -key=KEYFILE PLANFILE`, "
            "or a new "
            "one with -sign=KEYFILE."
        )
    with require_cryptography("Signatures need"):
        from cryptography.exceptions import InvalidSignature

        public_key = _load_public_key(key, name)
        if signature.get("algorithm") != ALGORITHM:
            raise EncryptionProblem(
                "Its signature has a kind unknown to this version of nexusform."
            )
        fingerprint = _compute_fingerprint(public_key)
        if signature.get("key") != fingerprint:
            raise EncryptionProblem(
                f"It was signed with the key {signature.get('key')}, but {name} is {fingerprint}."
            )
        try:
            content = base64.b64decode(str(signature.get("signature")), validate=True)
            public_key.verify(content, purpose + digest.encode())
        except (InvalidSignature, binascii.Error):
            raise EncryptionProblem(
                "Its signature is invalid: the plan was changed after it was signed."
            ) from None


def sign_statement(payload_type: str, payload: bytes, key: bytes, name: str) -> dict[str, str]:
    """Return the DSSE signature of a payload by a private key in PEM; `name` is its file.

    Raises EncryptionProblem.
    """
    with require_cryptography("Signatures need"):
        private_key = _load_private_key(key, name)
        signature = private_key.sign(_encode_dsse_signed_bytes(payload_type, payload))
        fingerprint = _compute_fingerprint(private_key.public_key())
    return {"keyid": fingerprint, "sig": base64.b64encode(signature).decode()}


def check_statement(
    payload_type: str,
    payload: bytes,
    signatures: Sequence[Mapping[str, Any]],
    key: bytes,
    name: str,
) -> None:
    """Raise EncryptionProblem unless a DSSE signature is of this payload by this public key."""
    with require_cryptography("Signatures need"):
        from cryptography.exceptions import InvalidSignature

        public_key = _load_public_key(key, name)
        for signature in signatures:
            try:
                content = base64.b64decode(str(signature.get("sig")), validate=True)
                public_key.verify(content, _encode_dsse_signed_bytes(payload_type, payload))
            except (InvalidSignature, binascii.Error):
                # Perhaps the signature of another key.
                continue
            return
    raise EncryptionProblem(f"It has no valid signature of {name}")


def _encode_dsse_signed_bytes(payload_type: str, payload: bytes) -> bytes:
    """Return the signed bytes of an envelope: the pre-authentication encoding of DSSE."""
    return b"DSSEv1 %d %s %d %s" % (len(payload_type), payload_type.encode(), len(payload), payload)


def _compute_fingerprint(key: Ed25519PublicKey) -> str:
    return "SHA256:" + hashlib.sha256(key.public_bytes_raw()).hexdigest()[:32]


def _load_private_key(text: bytes, name: str) -> Ed25519PrivateKey:
    """Load the private key in a PEM text; `name` is its file for messages.

    Raises EncryptionProblem.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    if b"-----BEGIN PUBLIC KEY-----" in text:
        raise EncryptionProblem(f"{name} is a public key. Use the private key.")
    if b"ENCRYPTED" in text:
        remedy = f"Remove it (openssl pkey -in {name}), and let only the job read the file."
        raise EncryptionProblem(f"{name} is protected by a passphrase. {remedy}")
    try:
        key = load_pem_private_key(text, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise EncryptionProblem(
            f"{name} {_describe_invalid_key(text)} Create a private key: {_MAKE_KEY}."
        ) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise EncryptionProblem(f"{name} is not an Ed25519 key. Create one: {_MAKE_KEY}.")
    return key


def _load_public_key(text: bytes, name: str) -> Ed25519PublicKey:
    """Load the public key in a PEM text; `name` is its file for messages.

    Raises EncryptionProblem.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    command = f"openssl pkey -in {name} -pubout"
    if b"PRIVATE KEY-----" in text:
        remedy = f"Print its public key: {command}."
        raise EncryptionProblem(
            f"{name} is a private key; only the signer should have it. {remedy}"
        )
    try:
        key = load_pem_public_key(text)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        remedy = "Print a public key: openssl pkey -in KEYFILE -pubout."
        raise EncryptionProblem(f"{name} {_describe_invalid_key(text)} {remedy}") from None
    if not isinstance(key, Ed25519PublicKey):
        raise EncryptionProblem(f"{name} is not an Ed25519 key. Create one: {_MAKE_KEY}.")
    return key


def _describe_invalid_key(text: bytes) -> str:
    """Return why a text is no usable key, as the rest of a sentence about its file."""
    if b"OPENSSH" in text or text.startswith(b"ssh-"):
        return "is an OpenSSH key, not a PEM file of openssl."
    if b"-----BEGIN" not in text:
        return 'is not a PEM file: it has no line "-----BEGIN ...".'
    return "is damaged, or contains no key."
