"""Hashes of trees that did not change since they were computed.

A tree is unchanged if path, size, times and inode of every file are. A change sets the change time,
which no program can set back without changing the clock. As in git's index, a tree that changed
just now is not kept: a second change may have the same time.
"""

import hashlib
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from nexusform.files.file_trees import compute_tree_fingerprint, compute_tree_hash
from nexusform.files.regular_files import PRIVATE, read_regular, write_file_atomically

_SETTLED_NANOSECONDS: Final = 2_000_000_000
_MAX_ENTRY_BYTES: Final = 1024


class TreeHashCache:
    """Cache of hashes in a directory of the user; None keeps nothing."""

    def __init__(self, directory: str | None) -> None:
        """Use a directory, created for the first entry."""
        self._directory = Path(directory, "trees") if directory else None

    def compute_hash(self, tree: Path) -> str:
        """Return the hash of a tree.

        Raises UnsafeTree, OSError.
        """
        if self._directory is None:
            return compute_tree_hash(tree)
        name = hashlib.sha256(os.fsencode(os.path.realpath(tree))).hexdigest()
        entry = self._directory / name
        fingerprint, newest_change = compute_tree_fingerprint(tree)
        with suppress(OSError, ValueError):
            known_fingerprint, known_hash = read_regular(entry, _MAX_ENTRY_BYTES).decode().split()
            if known_fingerprint == fingerprint:
                return known_hash
        tree_hash = compute_tree_hash(tree)
        if newest_change + _SETTLED_NANOSECONDS < time.time_ns():
            with suppress(OSError):
                content = f"{fingerprint} {tree_hash}".encode()
                write_file_atomically(entry, content, PRIVATE, makes_directories=True)
        return tree_hash
