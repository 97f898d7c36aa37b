"""Plain data as JSON shows it: unknown leaves left out, masks beside it, secrets redacted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from nexusform.plain_data import Path, PathStep
from nexusform.rendering.notation.marks import trie
from nexusform.values import UNKNOWN

REDACTED: Final = "(sensitive value)"


def known_part(plain: Any) -> Any:
    """The data without its unknown leaves: properties left out, list elements null."""
    if plain is UNKNOWN:
        return None
    if isinstance(plain, Mapping):
        return {name: known_part(part) for name, part in plain.items() if part is not UNKNOWN}
    if _is_list(plain):
        return [known_part(part) for part in plain]
    return plain


def _is_list(plain: Any) -> bool:
    return plain.__class__ is list or plain.__class__ is tuple


def unknown_mask(plain: Any) -> Any:
    """True at unknown leaves; objects name only what holds one, a wholly known container is empty."""
    if plain is UNKNOWN:
        return True
    if isinstance(plain, Mapping):
        masks = {name: unknown_mask(part) for name, part in plain.items()}
        return {name: mask for name, mask in masks.items() if mask}
    if _is_list(plain):
        elements = [unknown_mask(part) for part in plain]
        return elements if any(elements) else []
    return False


def sensitive_mask(plain: Any, marks: Any) -> Any:
    """True at sensitive parts, in the shape of the data as `unknown_mask`."""
    if marks is True:
        return True
    inside = marks or {}
    if isinstance(plain, Mapping):
        masks = {name: sensitive_mask(plain[name], inside[name]) for name in plain if name in inside}
        return {name: mask for name, mask in masks.items() if mask}
    if _is_list(plain):
        return [sensitive_mask(part, inside.get(index)) for index, part in enumerate(plain)] if inside else []
    return False


def redacted(plain: Any, marks: Any) -> Any:
    """The data with its sensitive leaves hidden: text becomes "(sensitive value)", the rest null."""
    if marks is None:
        return plain
    if isinstance(plain, Mapping):
        return {name: redacted(part, _marks_of(name, marks)) for name, part in plain.items()}
    if _is_list(plain):
        return [redacted(part, _marks_of(index, marks)) for index, part in enumerate(plain)]
    if marks is not True:
        return plain
    return REDACTED if plain.__class__ is str else None


def _marks_of(step: PathStep, marks: Any) -> Any:
    """The marks of a part: all of a sensitive value is sensitive."""
    return True if marks is True else marks.get(step)


def shown(plain: Any, sensitive: Iterable[Path], *, show_sensitive: bool) -> Any:
    """The known part of the data, redacted unless `show_sensitive`."""
    known = known_part(plain)
    return known if show_sensitive else redacted(known, trie(sensitive))
