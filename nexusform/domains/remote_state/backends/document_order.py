"""Order of the documents of a state server, as seen from this machine.

A cache or a lagging copy of the server may answer with an old document. Their order is kept in a
file beside the local journal, so that a later command notices an old document, too.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from nexusform.files.regular_files import PRIVATE, read_regular, remove_file, write_file_atomically

_MAX_FILE_BYTES: Final = 1 << 20
_MAX_DOCUMENTS: Final = 500


class SeenDocument(Struct, frozen=True, omit_defaults=True):
    """Document that the server had: its digest, and lineage and serial unless it is encrypted.

    The serial is -1 if it is unknown. The digest is "" for no document.
    """

    digest: str
    lineage: str = ""
    serial: int = -1

    def precedes(self, newer: SeenDocument) -> bool:
        """Return whether lineage and serial prove that this document is older."""
        return bool(self.lineage) and self.lineage == newer.lineage and self.serial < newer.serial


class DocumentOrder:
    """File with the documents of one address, the newest last."""

    def __init__(self, path: Path) -> None:
        """Keep the path of the file.

        `problem` is why the file cannot be used, "" otherwise: an older document is not noticed.
        """
        self.path = path
        self.problem = ""

    def load(self) -> list[SeenDocument]:
        """Return the documents seen so far; [] without a usable file."""
        try:
            content = read_regular(self.path, _MAX_FILE_BYTES, follow=False)
            return msgspec.json.decode(content, type=list[SeenDocument])
        except FileNotFoundError:
            # This machine has seen none.
            return []
        except (OSError, msgspec.MsgspecError) as failure:
            self.problem = f"cannot be read ({_describe_failure(failure)})"
            return []

    def is_outdated(self, document: SeenDocument, seen: list[SeenDocument]) -> bool:
        """Return whether a newer document than this one was seen before.

        No document is older than any document.
        """
        if not seen or document.digest == seen[-1].digest:
            return False
        is_replaced = any(document.digest == earlier.digest for earlier in seen)
        return not document.digest or is_replaced or document.precedes(seen[-1])

    def add(self, document: SeenDocument, seen: list[SeenDocument]) -> None:
        """Add the newest document after those seen before."""
        if seen[-1:] == [document]:
            return
        earlier = [entry for entry in seen if entry.digest != document.digest]
        content = msgspec.json.encode([*earlier, document][-_MAX_DOCUMENTS:])
        try:
            write_file_atomically(self.path, content, PRIVATE, makes_directories=True)
        except OSError as failure:
            self.problem = f"cannot be written ({_describe_failure(failure)})"

    def remove(self) -> None:
        """Forget the documents, since the state is deleted."""
        remove_file(self.path, missing_ok=True)


def _describe_failure(failure: OSError | msgspec.MsgspecError) -> str:
    return (failure.strerror if isinstance(failure, OSError) else None) or "not valid"


class _StateIdentity(Struct, frozen=True):
    """Identifying members of a state document; others are ignored."""

    lineage: str
    serial: int


def describe_document(document: bytes | None, digest: bytes) -> SeenDocument:
    """Return the record of a document with this digest; None: the server has none."""
    if document is None:
        return SeenDocument("")
    with suppress(msgspec.MsgspecError, ValueError, RecursionError):
        identity = msgspec.json.decode(document, type=_StateIdentity)
        return SeenDocument(digest.decode(), identity.lineage, identity.serial)
    return SeenDocument(digest.decode())
