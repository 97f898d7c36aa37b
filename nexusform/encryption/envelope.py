"""Documents as they are written when encrypted: a line of JSON around AES-GCM.

    {"encryption":{"version":1,"purpose":"state","method":"aes_gcm","keys":"pbkdf2.main","meta":{...},
     "nonce":"..."},"data":"..."}

Everything under `encryption` is authenticated with the data: a document that was changed, or that stands for
another purpose, does not open.
"""

from __future__ import annotations

import base64
import binascii
import json
import secrets
from collections.abc import Mapping
from typing import Any, Final

from nexusform.configuration.declared.configuration import Encryption, EncryptionTarget, MethodName
from nexusform.configuration.settings_block import UNENCRYPTED
from nexusform.encryption.keys import EncryptionProblem, Key, key_from, needing_cryptography
from nexusform.state_ports import SEALED_HEAD, is_sealed

STATE: Final = "state"
JOURNAL: Final = "journal"
PLAN: Final = "plan"
_VERSION: Final = 1
_NONCE_BYTES: Final = 12


def sealed_as(document: bytes) -> str:
    """The purpose that an encrypted document was written for; "" for one that is not encrypted."""
    if not is_sealed(document):
        return ""
    try:
        header, _ = _parts(document, "")
    except EncryptionProblem:
        return STATE  # damaged: opening it says so
    return str(header.get("purpose", ""))


class Sealer:
    """Encrypts and opens documents, each for a purpose (STATE, JOURNAL, PLAN).

    Keys are derived once per process: for writing one, for reading one per meta that is met.
    """

    def __init__(self, encryption: Encryption, target: EncryptionTarget) -> None:
        self._encryption = encryption
        self._target = target
        self._writing: dict[MethodName, Key] = {}
        self._reading: dict[tuple[MethodName, str], Key] = {}

    def check(self) -> None:
        """Raise a EncryptionProblem when nothing could be encrypted: no key is at hand."""
        keys = self._encryption.methods[self._target.method]
        if keys is not None:
            self._writing_key(keys)

    def is_current(self, document: bytes) -> bool:
        """Whether a document as it is stored was written with the method that is written with now."""
        keys = self._encryption.methods[self._target.method]
        if keys is None or not is_sealed(document):
            return keys is None and not is_sealed(document)
        header, _ = _parts(document, "")
        return bool(header.get("keys") == ".".join(keys))

    def seal(self, document: bytes, purpose: str) -> bytes:
        """The document encrypted, as one line without a line end. Raises EncryptionProblem."""
        keys = self._encryption.methods[self._target.method]
        if keys is None:
            return document
        with needing_cryptography("Encryption needs"):
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        key = self._writing_key(keys)
        nonce = secrets.token_bytes(_NONCE_BYTES)
        header = {
            "version": _VERSION,
            "purpose": purpose,
            "method": self._target.method[0],
            "keys": ".".join(keys),
            "meta": dict(key.meta),
            "nonce": base64.b64encode(nonce).decode(),
        }
        sealed = AESGCM(key.secret).encrypt(nonce, document, _bytes_of(header))
        data = base64.b64encode(sealed)
        return b"".join((SEALED_HEAD, _bytes_of(header), b',"data":"', data, b'"}'))

    def open(self, document: bytes, purpose: str, name: str) -> bytes:
        """The document as it was. Raises EncryptionProblem: not encrypted, changed, or no key opens it."""
        methods = (self._target.method, *self._target.fallbacks)
        if not is_sealed(document):
            if any(method[0] == UNENCRYPTED for method in methods):
                return document
            raise EncryptionProblem(
                f"{name} is not encrypted, but the configuration says that it is. To take an unencrypted one "
                'over, add a `fallback` with a method "unencrypted", and remove it after the next apply.'
            )
        header, data = _parts(document, name)
        if header.get("purpose") != purpose:
            raise EncryptionProblem(f"{name} was encrypted as a {header.get('purpose')}, not as a {purpose}.")
        reasons: list[str] = []
        for method in methods:
            keys = self._encryption.methods[method]
            if keys is None:
                continue
            try:
                return self._opened(keys, header, data)
            except EncryptionProblem as problem:
                reasons.append(str(problem))
        tried = " ".join(reasons) or "The configuration names no method that could."
        raise EncryptionProblem(f"{name} cannot be decrypted. {tried}")

    def _opened(self, keys: MethodName, header: Mapping[str, Any], data: bytes) -> bytes:
        """The document that data hold, with the key of one method. Raises EncryptionProblem."""
        with needing_cryptography("Encryption needs"):
            from cryptography.exceptions import InvalidTag
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        key = self._reading_key(keys, header)
        try:
            nonce = base64.b64decode(str(header.get("nonce", "")), validate=True)
            return AESGCM(key.secret).decrypt(nonce, data, _bytes_of(header))
        except (InvalidTag, ValueError, binascii.Error):
            raise EncryptionProblem(
                f"key_provider.{'.'.join(keys)}: its key does not open it: another key was used, or the "
                "document was changed."
            ) from None

    def _writing_key(self, keys: MethodName) -> Key:
        if keys not in self._writing:
            try:
                self._writing[keys] = key_from(self._encryption.key_providers[keys], None)
            except EncryptionProblem as problem:
                raise EncryptionProblem(f"Nothing can be encrypted. {problem}") from None
        return self._writing[keys]

    def _reading_key(self, keys: MethodName, header: Mapping[str, Any]) -> Key:
        """The key by which a document was encrypted, made once. Raises EncryptionProblem."""
        meta = header.get("meta")
        if not isinstance(meta, dict):
            raise EncryptionProblem("the document does not say what its key was made of.")
        known = keys, json.dumps(meta, sort_keys=True)
        if known not in self._reading:
            self._reading[known] = key_from(self._encryption.key_providers[keys], meta)
        return self._reading[known]


def _bytes_of(header: Mapping[str, Any]) -> bytes:
    return json.dumps(header, separators=(",", ":"), sort_keys=True).encode()


def _parts(document: bytes, name: str) -> tuple[dict[str, Any], bytes]:
    """Header and data of an encrypted document. Raises EncryptionProblem."""
    try:
        members = json.loads(document)
        header, data = members["encryption"], base64.b64decode(members["data"], validate=True)
        version = header["version"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise EncryptionProblem(
            f"{name} is encrypted but damaged: it is not the JSON that nexusform writes."
        ) from None
    if version != _VERSION:
        raise EncryptionProblem(
            f"{name} was encrypted by a newer nexusform (format {version}). Use that version."
        )
    return header, data
