"""Which parts of a value are sensitive, or force a replacement: paths, seen from any part of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct

from nexusform.plain_data import Path, PathStep


def trie(paths: Iterable[Path]) -> Any:
    """Paths as nested dicts by step: True where a path ends, None when there is no path."""
    root: Any = None
    for path in paths:
        if not path:
            return True
        root = {} if root is None else root
        node = root
        for step in path[:-1]:
            node = node.setdefault(step, {})
            if node is True:
                break
        else:
            node[path[-1]] = True
    return root


class Marks(Struct, frozen=True):
    """Paths as tries, seen from one value: True = this value, a dict = parts of it, None = none."""

    old: Any = None
    new: Any = None
    forces: Any = None

    @staticmethod
    def of(old: Iterable[Path] = (), new: Iterable[Path] = (), forces: Iterable[Path] = ()) -> Marks:
        """From lists of paths."""
        marks = Marks(trie(old), trie(new), trie(forces))
        return NO_MARKS if marks == NO_MARKS else marks

    def at(self, old: PathStep | None, new: PathStep | None) -> Marks:
        """Seen from a part: its step on each side."""
        if self is NO_MARKS:
            return self
        inner = Marks(
            _down(self.old, old), _down(self.new, new), _down(self.forces, new if new is not None else old)
        )
        return NO_MARKS if inner == NO_MARKS else inner


NO_MARKS: Final = Marks()


def _down(trie: Any, step: PathStep | None) -> Any:
    return trie.get(step) if trie.__class__ is dict else None
