"""Key providers: one line in KEY_PROVIDERS adds a kind.

A key provider returns a key and the metadata stored next to the encrypted document to derive
the same key again (`meta`: a salt, a wrapped key); with the meta of a document it returns
that document's key.
"""

import base64
import binascii
import json
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

from msgspec import Struct

from nexusform.configuration.declarations.configuration import KeyProviderBlock
from nexusform.diagnostics.missing_packages import describe_missing_package
from nexusform.documents.scalars import parse_integer
from nexusform.files.access_record import read_variable
from nexusform.files.limited_program import run_program
from nexusform.files.program_environment import build_program_environment
from nexusform.interfaces.state_storage import BackendProblem
from nexusform.json_data.plain_data import get_mapping
from nexusform.network.deadlines import DeadlineRunner

KEY_BYTES: Final = 32
EXTERNAL_VARIABLE: Final = "NF_ENCRYPTION_COMMAND"
# Characters; OpenTofu's rule.
_MINIMUM_PASSPHRASE: Final = 16
_MINIMUM_ITERATIONS: Final = 200_000
_ITERATIONS: Final = 600_000
_MAXIMUM_ITERATIONS: Final = 100_000_000
_HASHES: Final = ("sha256", "sha512")
_COMMAND_SECONDS: Final = 60.0
_MAGIC: Final = "OpenTofu-External-Key-Provider"

Meta = Mapping[str, Any]


class EncryptionProblem(BackendProblem):
    """Missing key, failed encryption or decryption, or wrong signature: a message for the user."""


class EncryptionKey(Struct, frozen=True):
    """32 bytes, and the metadata stored next to documents encrypted with them."""

    secret: bytes
    meta: Meta


# From the settings of a block and the meta of a document (None: a new document) to a key.
KeyProvider = Callable[[Mapping[str, str], Meta | None], EncryptionKey]


def derive_key(block: KeyProviderBlock, meta: Meta | None) -> EncryptionKey:
    """Return the key of a `key_provider` block.

    `meta` is the metadata of the key in the document to decrypt; None requests a key to
    encrypt. Raises EncryptionProblem.
    """
    name = f"key_provider.{block.kind}.{block.name}"
    provider = KEY_PROVIDERS.get(block.kind)
    if provider is None:
        raise EncryptionProblem(f"{name}: unknown kind. Known kinds: {', '.join(KEY_PROVIDERS)}.")
    try:
        key = provider(block.settings, meta)
    except EncryptionProblem as problem:
        raise EncryptionProblem(f"{name}: {problem}") from None
    if len(key.secret) != KEY_BYTES:
        raise EncryptionProblem(
            f"{name}: the key must have {KEY_BYTES} bytes, not {len(key.secret)}."
        )
    return key


@contextmanager
def require_cryptography(phrase: str) -> Iterator[None]:
    """Convert an ImportError to an EncryptionProblem.

    `phrase` begins its message, such as "Signatures need".
    """
    try:
        yield
    except ImportError as problem:
        package = describe_missing_package(problem)
        raise EncryptionProblem(f"{phrase} {package}.") from None


def _derive_pbkdf2_key(settings: Mapping[str, str], meta: Meta | None) -> EncryptionKey:
    """Derive a key from a passphrase in the block or in its variable.

    Its parameters are those of `meta` (metadata of the document to decrypt), or for a new document
    (None) a new salt and the settings.
    """
    with require_cryptography("Encryption needs"):
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.kdf.pbkdf2 import PBKDF2HMAC
    _reject_unknown_key_settings(
        settings, "passphrase", "passphrase_variable", "iterations", "hash_function"
    )
    passphrase = settings.get("passphrase") or _read_environment_variable_of_setting(
        settings, "passphrase_variable"
    )
    if len(passphrase) < _MINIMUM_PASSPHRASE:
        raise EncryptionProblem(
            f"the passphrase must have at least {_MINIMUM_PASSPHRASE} characters."
        )
    if meta is None:
        salt = secrets.token_bytes(32)
        iterations = _parse_iterations(settings.get("iterations", str(_ITERATIONS)))
        hash_name = settings.get("hash_function", "sha512")
    else:
        salt = _decode_base64(str(meta.get("salt", "")))
        iterations = _parse_iterations(str(meta.get("iterations", "")))
        hash_name = str(meta.get("hash_function", ""))
    if hash_name not in _HASHES:
        raise EncryptionProblem(f'hash_function = "{hash_name}": use {" or ".join(_HASHES)}.')
    # SHA256 or SHA512.
    hash_algorithm = getattr(hashes, hash_name.upper())()
    derivation = PBKDF2HMAC(hash_algorithm, KEY_BYTES, salt, iterations)
    encoded_salt = base64.b64encode(salt).decode()
    new_meta = {"salt": encoded_salt, "iterations": iterations, "hash_function": hash_name}
    return EncryptionKey(derivation.derive(passphrase.encode()), new_meta)


def _read_environment_key(settings: Mapping[str, str], _meta: Meta | None) -> EncryptionKey:
    """Read a key from a variable, as base64 or hexadecimal digits.

    Its metadata is empty.
    """
    _reject_unknown_key_settings(settings, "variable")
    text = _read_environment_variable_of_setting(settings, "variable")
    if len(text) == 2 * KEY_BYTES:
        # The base64 text of 48 bytes has this length, too; the caller reports their number.
        with suppress(ValueError):
            return EncryptionKey(bytes.fromhex(text), meta={})
    return EncryptionKey(_decode_base64(text), meta={})


def _get_vault_wrapped_key(settings: Mapping[str, str], meta: Meta | None) -> EncryptionKey:
    """Unwrap the key in `meta` (metadata of the document to decrypt) by Azure Key Vault.

    For a new document (None), create a random key and wrap it.
    """
    _reject_unknown_key_settings(settings, "vault_uri", "key_name", "key_version")
    for name in ("vault_uri", "key_name"):
        if not settings.get(name):
            raise EncryptionProblem(f'the setting "{name}" is required.')
    key_id = f"{settings['vault_uri'].rstrip('/')}/keys/{settings['key_name']}"
    if settings.get("key_version"):
        key_id += f"/{settings['key_version']}"
    if meta is None:
        secret = secrets.token_bytes(KEY_BYTES)
        wrapped_by, wrapped = wrap_key(key_id, secret)
        return EncryptionKey(
            secret, {"wrapped": base64.b64encode(wrapped).decode(), "key_id": wrapped_by}
        )
    # Any version of the block's key may have wrapped it (without key_version), but no other key.
    wrapped_by = str(meta.get("key_id", ""))
    if not f"{wrapped_by}/".startswith(f"{key_id}/"):
        raise EncryptionProblem(f"the document's key was wrapped by {wrapped_by}, not by {key_id}.")
    return EncryptionKey(unwrap_key(wrapped_by, _decode_base64(str(meta.get("wrapped", "")))), meta)


def wrap_key(key_id: str, secret: bytes) -> tuple[str, bytes]:
    """Wrap a key by RSA-OAEP-256; return the id of the used key, with version, and bytes.

    Raises EncryptionProblem.
    """
    result = _call_key_vault(key_id, lambda client, algorithm: client.wrap_key(algorithm, secret))
    return str(result.key_id), bytes(result.encrypted_key)


def unwrap_key(key_id: str, wrapped: bytes) -> bytes:
    """Unwrap a key wrapped by `wrap_key`.

    Raises EncryptionProblem.
    """
    return bytes(
        _call_key_vault(key_id, lambda client, algorithm: client.unwrap_key(algorithm, wrapped)).key
    )


def _call_key_vault(key_id: str, operation: Callable[[Any, Any], Any]) -> Any:
    """Run `operation` with the client of a key vault and an algorithm, in limited time.

    Raises EncryptionProblem.
    """
    try:
        from azure.core.exceptions import AzureError
        from azure.core.pipeline.transport import RequestsTransport
        from azure.identity import DefaultAzureCredential
        from azure.keyvault.keys.crypto import CryptographyClient, KeyWrapAlgorithm
    except ImportError as import_error:
        package = describe_missing_package(import_error)
        raise EncryptionProblem(f"it needs {package}.") from None
    # Loaded on first use.
    from nexusform.files.sandbox import declare_server
    from nexusform.network.azure_identity import build_sign_in_transport, create_configured_identity
    from nexusform.network.connection_errors import describe_request_error
    from nexusform.network.limited_session import build_limited_session

    declare_server(key_id)
    try:
        session = build_limited_session(key_id)
        client = CryptographyClient(
            key_id,
            create_configured_identity({})
            or DefaultAzureCredential(transport=build_sign_in_transport()),
            transport=RequestsTransport(session=session, connection_verify=session.verify),
        )
        # The name in messages.
        deadline = DeadlineRunner(lambda: key_id)
        return deadline.run("use the key", lambda: operation(client, KeyWrapAlgorithm.rsa_oaep_256))
    except BackendProblem as problem:
        raise EncryptionProblem(str(problem)) from None
    except (AzureError, ValueError) as problem:
        raise EncryptionProblem(f"{key_id}: {describe_request_error(problem)}") from None


def _run_external_provider(settings: Mapping[str, str], meta: Meta | None) -> EncryptionKey:
    """Return a key from the program in NF_ENCRYPTION_COMMAND.

    `meta` is the metadata next to the document to decrypt; None requests a key to encrypt. By
    OpenTofu's protocol the program reads it as JSON, and prints a line with _MAGIC and a line
    with the key.
    """
    import shlex
    import subprocess

    _reject_unknown_key_settings(settings)
    command = shlex.split(read_variable(EXTERNAL_VARIABLE))
    if not command:
        raise EncryptionProblem(f"the variable {EXTERNAL_VARIABLE} must name the program.")
    try:
        result = run_program(
            command,
            build_program_environment(signs_in=True),
            _COMMAND_SECONDS,
            json.dumps(meta).encode(),
            captures_errors=False,
        )
        result.check_returncode()
        header, _, answer = result.stdout.partition(b"\n")
        if json.loads(header).get("magic") != _MAGIC:
            raise EncryptionProblem(f"{command[0]} did not print the line of {_MAGIC}.")
        response = json.loads(answer)
        encoded_key = response["keys"]["encryption_key" if meta is None else "decryption_key"]
        return EncryptionKey(_decode_base64(str(encoded_key)), get_mapping(response, "meta"))
    except (OSError, subprocess.SubprocessError) as problem:
        raise EncryptionProblem(f"{command[0]} failed: {problem}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise EncryptionProblem(f"{command[0]} did not print a key.") from None


KEY_PROVIDERS: Final[Mapping[str, KeyProvider]] = {
    "pbkdf2": _derive_pbkdf2_key,
    "environment": _read_environment_key,
    "azure_vault": _get_vault_wrapped_key,
    "external": _run_external_provider,
}


def _reject_unknown_key_settings(settings: Mapping[str, str], *known: str) -> None:
    """Raise EncryptionProblem for a setting not in `known`."""
    unknown = [name for name in settings if name not in known]
    if unknown:
        raise EncryptionProblem(
            f'unknown setting "{unknown[0]}". Known settings: {", ".join(known) or "none"}.'
        )


def _read_environment_variable_of_setting(settings: Mapping[str, str], setting: str) -> str:
    """Return the value of the variable named by a setting.

    Raises EncryptionProblem without either.
    """
    variable = settings.get(setting, "")
    if not variable:
        raise EncryptionProblem(f'the setting "{setting}" is required.')
    value = read_variable(variable)
    if not value:
        raise EncryptionProblem(f"the variable {variable} is not set.")
    return value


def _parse_iterations(text: str) -> int:
    """Parse a number of iterations within the limits.

    Raises EncryptionProblem.
    """
    iterations = parse_integer(text)
    if iterations is None or not _MINIMUM_ITERATIONS <= iterations <= _MAXIMUM_ITERATIONS:
        raise EncryptionProblem(
            f'iterations = "{text}" must be a whole number of at least {_MINIMUM_ITERATIONS:,}.'
        )
    return iterations


def _decode_base64(text: str) -> bytes:
    """Decode base64.

    Raises EncryptionProblem; its message also names the other format of keys.
    """
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise EncryptionProblem("it is neither base64 nor hexadecimal.") from None
