"""Where keys come from: one line in KEY_PROVIDERS adds a kind.

A key provider gives a key and what must stand beside the encrypted document so that the same key can be had
again (`meta`: a salt, a wrapped key); with the meta of a document it gives that document's key.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

from msgspec import Struct

from nexusform.backends.deadlines import Deadline
from nexusform.configuration.declared.configuration import KeyProviderBlock
from nexusform.state_ports import BackendProblem

KEY_BYTES: Final = 32
EXTERNAL_VARIABLE: Final = "NF_ENCRYPTION_COMMAND"
_SHORTEST_PASSPHRASE: Final = 16  # characters; OpenTofu's rule
_LEAST_ITERATIONS: Final = 200_000
_ITERATIONS: Final = 600_000
_MOST_ITERATIONS: Final = 100_000_000
_SALT_BYTES: Final = 32
_HASHES: Final = ("sha256", "sha512")
_COMMAND_SECONDS: Final = 60.0
_MAGIC: Final = "OpenTofu-External-Key-Provider"

Meta = Mapping[str, Any]


class EncryptionProblem(Exception):
    """A key cannot be had, a document not encrypted or opened, a signature is not that of the key.

    The message is for the user.
    """


class Key(Struct, frozen=True):
    """32 bytes, and what stands beside a document that is encrypted with them."""

    secret: bytes
    meta: Meta


# From the settings of a block and the meta of a document (None: a new one is to be written) to a key.
KeyProvider = Callable[[Mapping[str, str], Meta | None], Key]


def key_from(block: KeyProviderBlock, meta: Meta | None) -> Key:
    """The key of a block. Raises EncryptionProblem, which names the block."""
    name = f"key_provider.{block.kind}.{block.name}"
    provider = KEY_PROVIDERS.get(block.kind)
    if provider is None:
        raise EncryptionProblem(f"{name}: there is no such kind. Known are: {', '.join(KEY_PROVIDERS)}.")
    try:
        key = provider(block.settings, meta)
    except EncryptionProblem as problem:
        raise EncryptionProblem(f"{name}: {problem}") from None
    if len(key.secret) != KEY_BYTES:
        raise EncryptionProblem(
            f"{name}: a key of {KEY_BYTES} bytes is needed, this one has {len(key.secret)}."
        )
    return key


@contextmanager
def needing_cryptography(what: str) -> Iterator[None]:
    """Imports of the package; without it an EncryptionProblem says that `what` ("Signatures need") it."""
    try:
        yield
    except ImportError as missing:
        raise EncryptionProblem(
            f'{what} the package {missing.name}: pip install "nexusform[encryption]".'
        ) from None


def _pbkdf2(settings: Mapping[str, str], meta: Meta | None) -> Key:
    """A key derived from a passphrase, which stands in the block or in a variable that it names."""
    with needing_cryptography("Encryption needs"):
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.kdf.pbkdf2 import PBKDF2HMAC
    _only(settings, "passphrase", "passphrase_variable", "iterations", "hash_function")
    passphrase = settings.get("passphrase") or _variable(settings, "passphrase_variable")
    if len(passphrase) < _SHORTEST_PASSPHRASE:
        raise EncryptionProblem(f"the passphrase must have {_SHORTEST_PASSPHRASE} characters at least.")
    if meta is None:
        salt = secrets.token_bytes(_SALT_BYTES)
        iterations = _whole(settings.get("iterations", str(_ITERATIONS)))
        hash_name = settings.get("hash_function", "sha512")
    else:
        salt = _decoded(str(meta.get("salt", "")))
        iterations = _whole(str(meta.get("iterations", "")))
        hash_name = str(meta.get("hash_function", ""))
    if hash_name not in _HASHES:
        raise EncryptionProblem(f'hash_function = "{hash_name}": use {" or ".join(_HASHES)}.')
    algorithm = hashes.SHA256() if hash_name == "sha256" else hashes.SHA512()
    derivation = PBKDF2HMAC(algorithm, KEY_BYTES, salt, iterations)
    kept = {"salt": _encoded(salt), "iterations": iterations, "hash_function": hash_name}
    return Key(derivation.derive(passphrase.encode()), kept)


def _environment(settings: Mapping[str, str], _meta: Meta | None) -> Key:
    """A key that stands in a variable, as base64 or hexadecimal digits."""
    _only(settings, "variable")
    text = _variable(settings, "variable")
    if len(text) == 2 * KEY_BYTES:
        with suppress(ValueError):  # base64 of 48 bytes is as long; its length is complained about
            return Key(bytes.fromhex(text), {})
    return Key(_decoded(text), {})


def _azure_vault(settings: Mapping[str, str], meta: Meta | None) -> Key:
    """A key of its own for each run, wrapped by a key that never leaves Azure Key Vault."""
    _only(settings, "vault_uri", "key_name", "key_version")
    for name in ("vault_uri", "key_name"):
        if not settings.get(name):
            raise EncryptionProblem(f'the setting "{name}" is needed.')
    key_id = f"{settings['vault_uri'].rstrip('/')}/keys/{settings['key_name']}"
    if settings.get("key_version"):
        key_id += f"/{settings['key_version']}"
    if meta is None:
        secret = secrets.token_bytes(KEY_BYTES)
        wrapped_by, wrapped = vault_wrap(key_id, secret)
        return Key(secret, {"wrapped": _encoded(wrapped), "key_id": wrapped_by})
    # Unwrapped by the very version that wrapped it, but only by the key that the block names.
    wrapped_by = str(meta.get("key_id", ""))
    if not wrapped_by.startswith(key_id):
        raise EncryptionProblem(f"the document's key was wrapped by {wrapped_by}, not by {key_id}.")
    return Key(vault_unwrap(wrapped_by, _decoded(str(meta.get("wrapped", "")))), meta)


def vault_wrap(key_id: str, secret: bytes) -> tuple[str, bytes]:
    """Wrap by RSA-OAEP-256: its id with the version, and the wrapped bytes. Raises EncryptionProblem."""
    result = _in_vault(key_id, lambda client, algorithm: client.wrap_key(algorithm, secret))
    return str(result.key_id), bytes(result.encrypted_key)


def vault_unwrap(key_id: str, wrapped: bytes) -> bytes:
    """Unwrap what `vault_wrap` gave. Raises EncryptionProblem."""
    return bytes(_in_vault(key_id, lambda client, algorithm: client.unwrap_key(algorithm, wrapped)).key)


def _in_vault(key_id: str, ask: Callable[[Any, Any], Any]) -> Any:
    """Ask a key in a vault. Raises EncryptionProblem."""
    try:
        from azure.core.exceptions import AzureError
        from azure.identity import DefaultAzureCredential
        from azure.keyvault.keys.crypto import CryptographyClient, KeyWrapAlgorithm
    except ImportError as missing:
        raise EncryptionProblem(
            f'it needs the package {missing.name}: pip install "nexusform[azure]".'
        ) from None
    try:
        client = CryptographyClient(key_id, DefaultAzureCredential())
        deadline = Deadline(lambda: key_id)
        return deadline.within("use the key", lambda: ask(client, KeyWrapAlgorithm.rsa_oaep_256))
    except BackendProblem as problem:
        raise EncryptionProblem(str(problem)) from None
    except (AzureError, ValueError) as problem:
        raise EncryptionProblem(f"{key_id}: {str(problem).splitlines()[0]}") from None


def _external(settings: Mapping[str, str], meta: Meta | None) -> Key:
    """A key from a program, by OpenTofu's protocol for external key providers.

    The program comes from the environment alone: configuration may be somebody else's pull request.
    """
    import shlex
    import subprocess

    _only(settings)
    command = shlex.split(os.environ.get(EXTERNAL_VARIABLE, ""))
    if not command:
        raise EncryptionProblem(f"the variable {EXTERNAL_VARIABLE} must name the program.")
    try:
        done = subprocess.run(  # noqa: S603 - the operator's own program
            command,
            input=json.dumps(meta).encode(),
            stdout=subprocess.PIPE,
            timeout=_COMMAND_SECONDS,
            check=True,
        )
        header, _, answer = done.stdout.partition(b"\n")
        if json.loads(header).get("magic") != _MAGIC:
            raise EncryptionProblem(f"{command[0]} did not answer with the line of {_MAGIC}.")
        answered = json.loads(answer)
        which = "encryption_key" if meta is None else "decryption_key"
        return Key(_decoded(str(answered["keys"][which])), answered.get("meta") or {})
    except (OSError, subprocess.SubprocessError) as problem:
        raise EncryptionProblem(f"{command[0]} failed: {problem}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise EncryptionProblem(f"{command[0]} did not answer with a key.") from None


KEY_PROVIDERS: Final[Mapping[str, KeyProvider]] = {
    "pbkdf2": _pbkdf2,
    "environment": _environment,
    "azure_vault": _azure_vault,
    "external": _external,
}


# --- small things --------------------------------------------------------------------------------


def _only(settings: Mapping[str, str], *known: str) -> None:
    unknown = [name for name in settings if name not in known]
    if unknown:
        raise EncryptionProblem(
            f'there is no setting "{unknown[0]}". Known are: {", ".join(known) or "none"}.'
        )


def _variable(settings: Mapping[str, str], setting: str) -> str:
    """The content of the variable that a setting names."""
    variable = settings.get(setting, "")
    if not variable:
        raise EncryptionProblem(f'the setting "{setting}" is needed.')
    value = os.environ.get(variable, "")
    if not value:
        raise EncryptionProblem(f"the variable {variable} is not set.")
    return value


def _whole(text: str) -> int:
    if not text.isdigit() or not _LEAST_ITERATIONS <= int(text) <= _MOST_ITERATIONS:
        raise EncryptionProblem(
            f'iterations = "{text}": a whole number of {_LEAST_ITERATIONS:,} at least is needed.'
        )
    return int(text)


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise EncryptionProblem("it is neither base64 nor hexadecimal.") from None
