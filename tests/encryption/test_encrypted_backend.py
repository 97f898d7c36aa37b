from __future__ import annotations

from nexusform.backends.memory import MemoryBackend
from nexusform.encryption.document_cipher import STATE, DocumentCipher, EncryptedBackend


class ReversingCipher(DocumentCipher):
    """Cipher with reversed documents after a version."""

    def __init__(self, version: bytes = b"1") -> None:
        self._version = version

    def encrypt(self, document: bytes, purpose: str) -> bytes:
        assert purpose == STATE
        return self._version + document[::-1]

    def decrypt(self, sealed: bytes, purpose: str, name: str) -> bytes:
        assert (purpose, name) == (STATE, "memory (default)")
        return sealed[1:][::-1]

    def is_current(self, sealed: bytes) -> bool:
        return sealed.startswith(self._version)


class RecordingBackend(MemoryBackend):
    """Backend with a record of its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    def read(self) -> bytes | None:
        self.calls.append("read")
        return super().read()

    def write(self, document: bytes) -> None:
        self.calls.append("write")
        super().write(document)


def test_write_reads_current_document_once_and_writes_only_changes() -> None:
    inner = RecordingBackend()
    backend = EncryptedBackend(inner, ReversingCipher())
    backend.write(b"one")
    backend.write(b"one")
    backend.write(b"two")
    assert inner.calls == ["read", "write", "read", "read", "write"]
    assert backend.read() == b"two"


def test_unchanged_document_is_rewritten_under_another_method() -> None:
    inner = RecordingBackend()
    EncryptedBackend(inner, ReversingCipher()).write(b"one")
    EncryptedBackend(inner, ReversingCipher(b"2")).write(b"one")
    assert inner.calls.count("write") == 2
