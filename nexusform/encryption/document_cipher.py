"""Encrypted documents, a line of JSON around AES-GCM, and a backend that stores them.

    {"encryption":{"version":1,"purpose":"state","method":"aes_gcm","keys":"pbkdf2.main","meta":{...},
    "nonce":"..."},"data":"..."}

All members of `encryption` are authenticated with the data: a modified document, or one for another
purpose, cannot be decrypted.
"""

from __future__ import annotations

import base64
import binascii
import json
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Final

from nexusform.configuration.declarations.configuration import (
    Encryption,
    EncryptionTarget,
    MethodName,
)
from nexusform.configuration.settings_block import UNENCRYPTED
from nexusform.encryption.key_providers import (
    EncryptionKey,
    EncryptionProblem,
    derive_key,
    require_cryptography,
)
from nexusform.interfaces.state_storage import (
    ENCRYPTED_PREFIX,
    BackendProblem,
    BatchJournalBackend,
    CheckpointBackend,
    LockInfo,
    StateBackend,
    StoredStateVersion,
    VersionedBackend,
    is_encrypted,
)

STATE: Final = "state"
JOURNAL: Final = "journal"
PLAN: Final = "plan"
_VERSION: Final = 1
_NONCE_BYTES: Final = 12


def read_encryption_purpose(document: bytes) -> str:
    """Return the purpose of an encrypted document (`state`, `journal`, `plan`).

    Return "" for an unencrypted document.
    """
    return str(_read_header(document).get("purpose", "")) if is_encrypted(document) else ""


def _read_header(document: bytes) -> Mapping[str, Any]:
    """Return the header of an encrypted document.

    A damaged one counts as a state; its decryption reports it.
    """
    try:
        return _split_encrypted_document(document, name="")[0]
    except EncryptionProblem:
        return {"purpose": STATE}


class DocumentCipher:
    """Encryption of documents by purpose (STATE, JOURNAL, PLAN), each key derived once."""

    def __init__(self, encryption: Encryption, target: EncryptionTarget) -> None:
        self._encryption = encryption
        self._target = target
        # By name of the key provider.
        self._writing_keys: dict[MethodName, EncryptionKey] = {}
        # By that and the metadata of a document.
        self._reading_keys: dict[tuple[MethodName, str], EncryptionKey] = {}

    def check(self) -> None:
        """Raise an EncryptionProblem if no key for encryption is available.

        The method `unencrypted` needs none.
        """
        key_name = self._encryption.methods[self._target.method]
        if key_name is not None:
            self._get_writing_key(key_name)

    def is_current(self, document: bytes) -> bool:
        """Return whether a stored document is encrypted by the configured method.

        An unencrypted document is current if that is configured.
        """
        key_name = self._encryption.methods[self._target.method]
        # The method `unencrypted`.
        if key_name is None:
            return not is_encrypted(document)
        return is_encrypted(document) and _read_header(document).get("keys") == ".".join(key_name)

    def encrypt(self, document: bytes, purpose: str) -> bytes:
        """Return the document as one encrypted line, without a line end.

        Raises EncryptionProblem.
        """
        key_name = self._encryption.methods[self._target.method]
        # The method `unencrypted`.
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
        """Return the document, decrypted by the method or a fallback.

        Raises EncryptionProblem if none fits.
        """
        methods = (self._target.method, *self._target.fallbacks)
        if not is_encrypted(document):
            if any(kind == UNENCRYPTED for kind, _ in methods):
                # For example before the first encrypted write.
                return document
            raise EncryptionProblem(
                f"{name} is not encrypted, but the configuration requires encryption. To encrypt "
                "it, add a "
                '`fallback` with a method "unencrypted". Remove the fallback after the next apply.'
            )
        header, data = _split_encrypted_document(document, name)
        if header.get("purpose") != purpose:
            raise EncryptionProblem(
                f"{name} is encrypted as a {header.get('purpose')}, not as a {purpose}."
            )
        # One for each key that does not fit.
        reasons: list[str] = []
        for method in methods:
            key_name = self._encryption.methods[method]
            if key_name is None:
                # The method `unencrypted`.
                continue
            try:
                return self._decrypt_with_key(key_name, header, data)
            except EncryptionProblem as problem:
                reasons.append(str(problem))
        reason_text = " ".join(reasons) or "The configuration has no matching method."
        raise EncryptionProblem(f"{name} cannot be decrypted. {reason_text}")

    def _decrypt_with_key(
        self, key_name: MethodName, header: Mapping[str, Any], data: bytes
    ) -> bytes:
        """Decrypt the data with the key of a key provider.

        Raises EncryptionProblem.
        """
        with require_cryptography("Encryption needs"):
            from cryptography.exceptions import InvalidTag
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        meta = header.get("meta")
        if not isinstance(meta, dict):
            raise EncryptionProblem("the document has no metadata of its key.")
        # A document may have its own salt.
        cache_key = key_name, json.dumps(meta, sort_keys=True)
        if cache_key not in self._reading_keys:
            self._reading_keys[cache_key] = derive_key(
                self._encryption.key_providers[key_name], meta
            )
        key = self._reading_keys[cache_key]
        try:
            nonce = base64.b64decode(str(header.get("nonce", "")), validate=True)
            return AESGCM(key.secret).decrypt(nonce, data, _serialize_header(header))
        except (InvalidTag, ValueError, binascii.Error):
            raise EncryptionProblem(
                f"key_provider.{'.'.join(key_name)}: the key does not decrypt it. Another key was "
                "used, or the "
                "document was changed."
            ) from None

    def _get_writing_key(self, key_name: MethodName) -> EncryptionKey:
        """Return the key of a key provider for encryption, derived once with new metadata.

        Raises EncryptionProblem.
        """
        if key_name not in self._writing_keys:
            try:
                self._writing_keys[key_name] = derive_key(
                    self._encryption.key_providers[key_name], meta=None
                )
            except EncryptionProblem as problem:
                raise EncryptionProblem(f"Cannot encrypt. {problem}") from None
        return self._writing_keys[key_name]


def _serialize_header(header: Mapping[str, Any]) -> bytes:
    return json.dumps(header, separators=(",", ":"), sort_keys=True).encode()


def _split_encrypted_document(document: bytes, name: str) -> tuple[dict[str, Any], bytes]:
    """Return header and data (still encrypted) of a document.

    Raises EncryptionProblem if it is damaged or newer.
    """
    try:
        members = json.loads(document)
        header = members["encryption"]
        data = base64.b64decode(members["data"], validate=True)
        version = header["version"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise EncryptionProblem(
            f"{name} is encrypted but damaged: it is not JSON written by nexusform."
        ) from None
    if version != _VERSION:
        raise EncryptionProblem(
            f"{name} was encrypted by a newer nexusform (format {version}). Use that version."
        )
    return header, data


class EncryptedBackend:
    """Encryption around another backend.

    The lock information stays readable.
    """

    def __init__(self, inner: StateBackend, cipher: DocumentCipher) -> None:
        self.inner = inner
        self._cipher = cipher

    def describe(self) -> str:
        """Return the location of the inner backend."""
        return self.inner.describe()

    def read(self) -> bytes | None:
        """Return the state document, None if there is none.

        Raises BackendProblem if no key decrypts it.
        """
        document = self.inner.read()
        return None if document is None else self._cipher.decrypt(document, STATE, self.describe())

    def write(self, document: bytes) -> None:
        """Encrypt and replace the document, unless the stored one is equal and up to date.

        It is up to date if it has the current method.
        """
        stored = self.inner.read()
        if (
            stored is None
            or not self._cipher.is_current(stored)
            or self._decrypt_or_none(stored) != document
        ):
            self.inner.write(self._cipher.encrypt(document, STATE))

    def is_outdated(self) -> bool:
        """Return whether the stored document is encrypted by a fallback.

        Such a document is to be written again.
        """
        document = self.inner.read()
        return document is not None and not self._cipher.is_current(document)

    def check(self) -> None:
        """Raise a BackendProblem if no key for writing is available."""
        self._cipher.check()

    def encrypt_document(self, document: bytes) -> bytes:
        """Return a state document as stored by this backend.

        Raises BackendProblem.
        """
        return self._cipher.encrypt(document, STATE)

    def append(self, record: bytes) -> None:
        """Add one encrypted record to the journal."""
        self.inner.append(self._cipher.encrypt(record, JOURNAL))

    def append_all(self, records: Sequence[bytes]) -> None:
        """Add records in order, encrypted.

        This is a single call if the inner backend has one for several records.
        """
        encrypted_records = self._encrypt_records(records)
        if isinstance(self.inner, BatchJournalBackend):
            self.inner.append_all(encrypted_records)
            return
        for record in encrypted_records:
            self.inner.append(record)

    def read_journal(self) -> list[bytes]:
        """Return the records that are not in the document yet.

        Raises BackendProblem.
        """
        name = f"The journal of {self.describe()}"
        return [self._cipher.decrypt(record, JOURNAL, name) for record in self.inner.read_journal()]

    def move_foreign_journal(self) -> str:
        """Move a journal that continues another document to a file beside it, still encrypted.

        Return the path of that file, "" if there is no such journal.
        """
        return self.inner.move_foreign_journal()

    def write_merged_state(self, document: bytes, keep: Sequence[bytes] = ()) -> None:
        """Encrypt and write the document, then empty the journal except for records to keep."""
        encrypted_records = self._encrypt_records(keep)
        self.inner.write_merged_state(self._cipher.encrypt(document, STATE), encrypted_records)

    def lock(self, info: LockInfo) -> list[str]:
        """Acquire the lock or raise StateLocked; return warnings."""
        return self.inner.lock(info)

    def unlock(self, lock_id: str) -> None:
        """Release the lock."""
        self.inner.unlock(lock_id)

    def read_lock(self) -> LockInfo | None:
        """Return the holder of the lock."""
        return self.inner.read_lock()

    def force_unlock(self, lock_id: str) -> None:
        """Break the lock with this id."""
        self.inner.force_unlock(lock_id)

    def list_workspaces(self) -> list[str]:
        """Return the workspaces of the inner backend."""
        return self.inner.list_workspaces()

    def select_workspace(self, name: str) -> EncryptedBackend:
        """Return the backend of another workspace with the same keys."""
        return EncryptedBackend(self.inner.select_workspace(name), self._cipher)

    def delete_workspace(self, name: str) -> None:
        """Remove a workspace's state, with the lock held on it here."""
        self.inner.delete_workspace(name)

    def list_versions(self) -> list[StoredStateVersion]:
        """Return the earlier documents, newest first; none if the inner backend keeps none."""
        return self.inner.list_versions() if isinstance(self.inner, VersionedBackend) else []

    def read_version(self, version: str) -> bytes:
        """Return an earlier document by its id.

        Raises BackendProblem.
        """
        if not isinstance(self.inner, VersionedBackend):
            raise BackendProblem(f'No version "{version}" of {self.describe()}.')
        return self._cipher.decrypt(self.inner.read_version(version), STATE, f"Version {version}")

    def needs_checkpoint(self) -> bool:
        """Return whether the inner backend needs the document now."""
        return isinstance(self.inner, CheckpointBackend) and self.inner.needs_checkpoint()

    def write_checkpoint(self, document: bytes, records: Sequence[bytes]) -> None:
        """Write the encrypted document to the inner backend during an apply."""
        assert isinstance(self.inner, CheckpointBackend)
        encrypted_records = self._encrypt_records(records)
        self.inner.write_checkpoint(self._cipher.encrypt(document, STATE), encrypted_records)

    def _decrypt_or_none(self, document: bytes) -> bytes | None:
        """Return the document; None if no key decrypts it.

        Then it is replaced without comparison.
        """
        try:
            return self._cipher.decrypt(document, STATE, self.describe())
        except EncryptionProblem:
            return None

    def _encrypt_records(self, records: Sequence[bytes]) -> list[bytes]:
        return [self._cipher.encrypt(record, JOURNAL) for record in records]
