"""Format of encrypted documents: a line of JSON around AES-GCM.

    {"encryption":{"version":1,"purpose":"state","method":"aes_gcm","keys":"pbkdf2.main","meta":{...},
    "nonce":"..."},"data":"..."}

All members of `encryption` are authenticated with the data: a modified document, or one for another purpose,
cannot be decrypted.
"""

import base64
import binascii
import json
import secrets
from collections.abc import Mapping
from typing import Any, Final

from nexusform.configuration.declarations.configuration import Encryption, EncryptionTarget, MethodName
from nexusform.configuration.settings_block import UNENCRYPTED
from nexusform.encryption.key_providers import EncryptionKey, EncryptionProblem, derive_key, require_cryptography
from nexusform.interfaces.state_storage import ENCRYPTED_PREFIX, is_encrypted

STATE: Final = "state"
JOURNAL: Final = "journal"
PLAN: Final = "plan"
_VERSION: Final = 1
_NONCE_BYTES: Final = 12


def read_encryption_purpose(document: bytes) -> str:
    """Return the purpose of an encrypted document (`state`, `journal`, `plan`); "" for an unencrypted one."""
    return str(_read_header(document).get("purpose", "")) if is_encrypted(document) else ""


def _read_header(document: bytes) -> Mapping[str, Any]:
    """Return the header of an encrypted document. A damaged one counts as a state; its decryption reports it."""
    try:
        return _split_encrypted_document(document, name="")[0]
    except EncryptionProblem:
        return {"purpose": STATE}


class DocumentCipher:
    """Encryption of documents by purpose (STATE, JOURNAL, PLAN), each key derived once."""

    def __init__(self, encryption: Encryption, target: EncryptionTarget) -> None:
        self._encryption = encryption
        self._target = target
        self._writing_keys: dict[MethodName, EncryptionKey] = {}
        self._reading_keys: dict[tuple[MethodName, str], EncryptionKey] = {}

    def check(self) -> None:
        """Raise an EncryptionProblem if no key for encryption is available; the method `unencrypted` needs none."""
        key_name = self._encryption.methods[self._target.method]
        if key_name is not None:
            self._get_writing_key(key_name)

    def is_current(self, document: bytes) -> bool:
        """Return whether a stored document is encrypted by the configured method (or unencrypted, if configured so)."""
        key_name = self._encryption.methods[self._target.method]
        if key_name is None:
            return not is_encrypted(document)
        return is_encrypted(document) and _read_header(document).get("keys") == ".".join(key_name)

    def encrypt(self, document: bytes, purpose: str) -> bytes:
        """Encrypt to one line without a line end; the method `unencrypted` keeps it. Raises EncryptionProblem."""
        key_name = self._encryption.methods[self._target.method]
        if key_name is None:
            return document
        with require_cryptography("Encryption needs"):
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        key = self._get_writing_key(key_name)
        nonce = secrets.token_bytes(_NONCE_BYTES)
        header = {
            "version": _VERSION,
            "purpose": purpose,
            "method": self._target.method[0],
            "keys": ".".join(key_name),
            "meta": dict(key.meta),
            "nonce": base64.b64encode(nonce).decode(),
        }
        sealed = AESGCM(key.secret).encrypt(nonce, document, _serialize_header(header))
        data = base64.b64encode(sealed)
        return b"".join((ENCRYPTED_PREFIX, _serialize_header(header), b',"data":"', data, b'"}'))

    def decrypt(self, document: bytes, purpose: str, name: str) -> bytes:
        """Return the document, decrypted by the method or a fallback. Raises EncryptionProblem if none fits."""
        methods = (self._target.method, *self._target.fallbacks)
        if not is_encrypted(document):
            if any(kind == UNENCRYPTED for kind, _ in methods):
                return document  # for example before the first encrypted write
            raise EncryptionProblem(
                f"{name} is not encrypted, but the configuration requires encryption. To encrypt it, add a "
                '`fallback` with a method "unencrypted". Remove the fallback after the next apply.'
            )
        header, data = _split_encrypted_document(document, name)
        if header.get("purpose") != purpose:
            raise EncryptionProblem(f"{name} is encrypted as a {header.get('purpose')}, not as a {purpose}.")
        reasons: list[str] = []  # one for each key that does not fit
        for method in methods:
            key_name = self._encryption.methods[method]
            if key_name is None:
                continue  # the method `unencrypted`
            try:
                return self._decrypt_with_key(key_name, header, data)
            except EncryptionProblem as problem:
                reasons.append(str(problem))
        reason_text = " ".join(reasons) or "The configuration has no matching method."
        raise EncryptionProblem(f"{name} cannot be decrypted. {reason_text}")

    def _decrypt_with_key(self, key_name: MethodName, header: Mapping[str, Any], data: bytes) -> bytes:
        """Decrypt the data with the key of a key provider. Raises EncryptionProblem."""
        with require_cryptography("Encryption needs"):
            from cryptography.exceptions import InvalidTag
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        meta = header.get("meta")
        if not isinstance(meta, dict):
            raise EncryptionProblem("the document has no metadata of its key.")
        cache_key = key_name, json.dumps(meta, sort_keys=True)  # a document may have its own salt
        if cache_key not in self._reading_keys:
            self._reading_keys[cache_key] = derive_key(self._encryption.key_providers[key_name], meta)
        key = self._reading_keys[cache_key]
        try:
            nonce = base64.b64decode(str(header.get("nonce", "")), validate=True)
            return AESGCM(key.secret).decrypt(nonce, data, _serialize_header(header))
        except (InvalidTag, ValueError, binascii.Error):
            raise EncryptionProblem(
                f"key_provider.{'.'.join(key_name)}: the key does not decrypt it. Another key was used, or the "
                "document was changed."
            ) from None

    def _get_writing_key(self, key_name: MethodName) -> EncryptionKey:
        """Return the key of a key provider for encryption, derived once with new metadata. Raises EncryptionProblem."""
        if key_name not in self._writing_keys:
            try:
                self._writing_keys[key_name] = derive_key(self._encryption.key_providers[key_name], meta=None)
            except EncryptionProblem as problem:
                raise EncryptionProblem(f"Cannot encrypt. {problem}") from None
        return self._writing_keys[key_name]


def _serialize_header(header: Mapping[str, Any]) -> bytes:
    return json.dumps(header, separators=(",", ":"), sort_keys=True).encode()


def _split_encrypted_document(document: bytes, name: str) -> tuple[dict[str, Any], bytes]:
    """Return header and data (still encrypted) of a document. Raises EncryptionProblem if it is damaged or newer."""
    try:
        members = json.loads(document)
        header, data = members["encryption"], base64.b64decode(members["data"], validate=True)
        version = header["version"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise EncryptionProblem(f"{name} is encrypted but damaged: it is not JSON written by nexusform.") from None
    if version != _VERSION:
        raise EncryptionProblem(f"{name} was encrypted by a newer nexusform (format {version}). Use that version.")
    return header, data
