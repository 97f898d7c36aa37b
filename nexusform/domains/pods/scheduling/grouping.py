"""Records by key."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

_Item = TypeVar("_Item")
_Key = TypeVar("_Key", bound=Hashable)


def group_by(items: Iterable[_Item], get_key: Callable[[_Item], _Key]) -> dict[_Key, list[_Item]]:
    """Return the items by key, in their order."""
    groups: dict[_Key, list[_Item]] = {}
    for item in items:
        groups.setdefault(get_key(item), []).append(item)
    return groups
