"""What is known of an unknown value beside its type: that it is not null, how a text begins, between
which bounds a number or the length of a collection lies.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct


class Refinement(Struct, frozen=True):
    """What holds of a value that is not known yet, as far as can be said.

    `prefix` is how a text begins; `lowest` and `highest` are numbers (None: no bound) and `shortest`
    and `longest` lengths (None: no bound), all inclusive.
    """

    not_null: bool = False
    prefix: str = ""
    lowest: Any = None
    highest: Any = None
    shortest: int = 0
    longest: int | None = None


NOTHING_KNOWN: Final = Refinement()
NOT_NULL: Final = Refinement(not_null=True)

# Letters and these take marks that follow and become other characters.
_COMBINING: Final = frozenset("<>=")


def beginning(prefix: str) -> Refinement:
    """That of a text of which only the beginning is known.

    A last character that may combine with what follows (`e` with an accent) is left out.
    """
    last = prefix[-1:]
    sure = last.isascii() and not last.isalpha() and last not in _COMBINING
    return Refinement(not_null=True, prefix=prefix if sure else prefix[:-1])


def fulfils(plain: Any, refinement: Refinement) -> bool:
    """Whether plain data, now known, is as was said of it while it was not."""
    if plain is None:
        return not refinement.not_null
    if isinstance(plain, str):
        return plain.startswith(refinement.prefix)
    if isinstance(plain, list | dict):
        longest = refinement.longest
        return refinement.shortest <= len(plain) and (longest is None or len(plain) <= longest)
    lowest, highest = refinement.lowest, refinement.highest
    return (lowest is None or lowest <= plain) and (highest is None or plain <= highest)


def either(first: Refinement, second: Refinement) -> Refinement:
    """What holds of a value that is one of two."""
    return Refinement(
        not_null=first.not_null and second.not_null,
        prefix=_common_prefix(first.prefix, second.prefix),
        lowest=_looser(min, first.lowest, second.lowest),
        highest=_looser(max, first.highest, second.highest),
        shortest=min(first.shortest, second.shortest),
        longest=_looser(max, first.longest, second.longest),
    )


def _looser(choose: Callable[[Any, Any], Any], first: Any, second: Any) -> Any:
    return None if first is None or second is None else choose(first, second)


def _common_prefix(first: str, second: str) -> str:
    count = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        count += 1
    return first[:count]
