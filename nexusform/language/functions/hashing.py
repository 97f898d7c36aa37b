"""Hashes and UUIDs."""

import hashlib
from collections.abc import Callable
from typing import Final

from nexusform.language.functions.function import Function, FunctionProblem, build_plain_function
from nexusform.language.value_descriptions import truncate_text
from nexusform.schemas.value_types import STRING
from nexusform.values.typed_value import UNKNOWN, Value


def encode_base64(data: bytes) -> str:
    """Encode bytes in base64."""
    import binascii

    return binascii.b2a_base64(data, newline=False).decode("ascii")


def decode_base64(text: str) -> bytes:
    """Decode base64 to bytes, ignoring line ends.

    Raises FunctionProblem.
    """
    import binascii

    try:
        return binascii.a2b_base64(text.replace("\r", "").replace("\n", ""), strict_mode=True)
    except (binascii.Error, ValueError):
        raise FunctionProblem(
            f'failed to decode base64 data "{truncate_text(text, 40)}"', argument=0
        ) from None


_Hash = Callable[[bytes], str]


def _build_hash(algorithm: str, encode: Callable[[bytes], str] = bytes.hex) -> _Hash:
    """Build the function to hash bytes by an algorithm of hashlib.

    `encode` converts the digest to text.
    """
    return lambda data: encode(hashlib.new(algorithm, data, usedforsecurity=False).digest())


# Name, description and implementation of each hash.
HASHES: Final[tuple[tuple[str, str, _Hash], ...]] = (
    ("base64sha256", "SHA-256 in base64", _build_hash("sha256", encode_base64)),
    ("base64sha512", "SHA-512 in base64", _build_hash("sha512", encode_base64)),
    ("md5", "MD5 in hexadecimal", _build_hash("md5")),
    ("sha1", "SHA-1 in hexadecimal", _build_hash("sha1")),
    ("sha256", "SHA-256 in hexadecimal", _build_hash("sha256")),
    ("sha512", "SHA-512 in hexadecimal", _build_hash("sha512")),
)

_SAMPLES: Final = {
    "base64sha256": "LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=",
    "md5": "5d41402abc4b2a76b9719d911017c592",
    "sha1": "aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d",
    "sha256": "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824",
}


def _build_hash_function(name: str, description: str, digest: _Hash) -> Function:
    """Build the function of a hash, with an example if its result is short."""
    # None: it is long.
    hash_of_hello = _SAMPLES.get(name)
    return build_plain_function(
        name,
        f"The {description} of the text's UTF-8 bytes.",
        [("str", STRING, "the text")],
        compute=lambda text: digest(text.encode()),
        examples=[(f'{name}("hello")', f'"{hash_of_hello}"')] if hash_of_hello else [],
    )


def _compute_uuid5(namespace: str, name: str) -> str:
    """Compute the UUID (version 5) of a name in a namespace.

    Raises FunctionProblem.
    """
    import uuid

    namespaces = {
        "dns": uuid.NAMESPACE_DNS,
        "url": uuid.NAMESPACE_URL,
        "oid": uuid.NAMESPACE_OID,
        "x500": uuid.NAMESPACE_X500,
    }
    try:
        namespace_id = namespaces[namespace] if namespace in namespaces else uuid.UUID(namespace)
    except ValueError:
        message = (
            f'"{namespace}" is not a namespace: give a UUID, or one of "dns", "url", "oid" and '
            '"x500"'
        )
        raise FunctionProblem(message, argument=0) from None
    return str(uuid.uuid5(namespace_id, name))


FUNCTIONS: Final = (
    *[_build_hash_function(*hash_entry) for hash_entry in HASHES],
    Function(
        "uuid", "A random UUID, known only after apply.", (), STRING, lambda: Value(STRING, UNKNOWN)
    ),
    build_plain_function(
        "uuidv5",
        "The UUID of a name in a namespace.",
        [
            ("namespace", STRING, 'a UUID, or "dns", "url", "oid", "x500"'),
            ("name", STRING, "the name"),
        ],
        compute=_compute_uuid5,
        examples=[('uuidv5("dns", "www.terraform.io")', '"a5008fae-b28c-5ba5-96cd-82b4c53552d6"')],
    ),
)
