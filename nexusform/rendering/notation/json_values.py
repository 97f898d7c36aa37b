"""Plain data as JSON shows it: unknown leaves left out, masks beside it, secrets redacted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from nexusform.plain_data import Path
from nexusform.rendering.notation.marks import trie
from nexusform.values import UNKNOWN

REDACTED: Final = "(sensitive value)"


def known_part(plain: Any) -> Any:
    """The data without its unknown leaves: properties left out, list elements null."""
    kind = plain.__class__
    if kind is dict or isinstance(plain, Mapping):
        return {k: known_part(v) for k, v in plain.items() if v is not UNKNOWN}
    if kind is list or kind is tuple:
        return [None if v is UNKNOWN else known_part(v) for v in plain]
    return None if plain is UNKNOWN else plain


def unknown_mask(plain: Any) -> Any:
    """True at unknown leaves; objects name only what holds one, a wholly known container is empty."""
    if plain is UNKNOWN:
        return True
    if isinstance(plain, Mapping):
        masks = {k: unknown_mask(v) for k, v in plain.items()}
        return {k: m for k, m in masks.items() if m}
    if plain.__class__ is list or plain.__class__ is tuple:
        items = [unknown_mask(v) for v in plain]
        return items if any(items) else []
    return False


def sensitive_mask(plain: Any, marks: Any) -> Any:
    """True at sensitive parts, in the shape of the data as `unknown_mask`."""
    if marks is True:
        return True
    if isinstance(plain, Mapping):
        if marks is None:
            return {}
        return {k: m for k, v in plain.items() if (m := sensitive_mask(v, marks.get(k)))}
    if plain.__class__ is list or plain.__class__ is tuple:
        if marks is None:
            return []
        return [sensitive_mask(v, marks.get(i)) for i, v in enumerate(plain)]
    return False


def redacted(plain: Any, marks: Any) -> Any:
    """The data with its sensitive leaves hidden: text becomes "(sensitive value)", the rest null."""
    if marks is None:
        return plain
    inside = marks if marks.__class__ is dict else {}
    if isinstance(plain, Mapping):
        return {k: redacted(v, True if marks is True else inside.get(k)) for k, v in plain.items()}
    if plain.__class__ is list or plain.__class__ is tuple:
        return [redacted(v, True if marks is True else inside.get(i)) for i, v in enumerate(plain)]
    if marks is not True:
        return plain
    return REDACTED if plain.__class__ is str else None


def shown(plain: Any, sensitive: Iterable[Path], *, show_sensitive: bool) -> Any:
    """The known part of the data, redacted unless `show_sensitive`."""
    known = known_part(plain)
    return known if show_sensitive else redacted(known, trie(sensitive))
