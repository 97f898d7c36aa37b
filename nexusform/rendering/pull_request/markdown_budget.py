"""Keeping a report under a number of bytes: what matters least is cut first, and the cut is told."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

# Below this a shortened part would say nothing.
_LEAST: Final = 300


class Part(Struct, frozen=True):
    """A part of a report: its lines, and how they become text.

    `importance` decides what is cut first (lowest first); 0 lines of a part are never shown. A part
    with `whole` is kept as it is or left out.
    """

    title: str
    importance: int
    lines: tuple[str, ...]
    draw: Callable[[str], str] = lambda body: body
    whole: bool = False

    @property
    def text(self) -> str:
        """The part as it stands in the report."""
        return self.draw("\n".join(self.lines))


def fit(parts: Sequence[Part], most: int) -> str:
    """The parts one after the other, a blank line between, in at most `most` bytes with the newline."""
    kept = [part for part in parts if part.lines]
    texts = {id(part): part.text for part in kept}
    if _size(texts.values()) <= most:
        return "\n\n".join(texts.values()) + "\n"
    cuts: list[str] = []
    for part in sorted(kept, key=lambda p: p.importance):
        over = _size([*texts.values(), _note(cuts, most)]) - most
        if cuts and over <= 0:
            break
        # The note grows by what it will say of this part.
        told = _note([*cuts, f"{part.title} ({'0' * 24} lines shown)"], most)
        over = _size([*texts.values(), told]) - most
        shorter = _shortened(part, len(texts[id(part)].encode()) - over)
        if shorter is None:
            del texts[id(part)]
            cuts.append(f"{part.title} (left out)")
        else:
            texts[id(part)] = shorter.text
            shown = len(shorter.lines) - 1
            cuts.append(f"{part.title} ({shown:,} of {len(part.lines):,} lines shown)")
    return _clipped("\n\n".join([*texts.values(), _note(cuts, most)]) + "\n", most)


def _note(cuts: Sequence[str], most: int) -> str:
    return f"_Cut to stay within {most:,} bytes: {'; '.join(cuts)}._"


def _size(texts: Collection[str]) -> int:
    return sum(len(text.encode()) for text in texts) + 2 * max(len(texts) - 1, 0) + 1


def _shortened(part: Part, room: int) -> Part | None:
    """The part with as many of its first lines as there is room for; None where that says nothing."""
    if part.whole or room < _LEAST:
        return None
    low, high = 0, len(part.lines)
    while low < high:
        middle = (low + high + 1) // 2
        if len(_first(part, middle).text.encode()) <= room:
            low = middle
        else:
            high = middle - 1
    return _first(part, low) if low else None


def _first(part: Part, count: int) -> Part:
    left = len(part.lines) - count
    return replace(part, lines=(*part.lines[:count], f"... {left:,} more lines were cut"))


def _clipped(text: str, most: int) -> str:
    """The last resort, for a limit that not even the first lines keep to."""
    data = text.encode()
    if len(data) <= most:
        return text
    head = data[: max(most - 1, 0)].decode(errors="ignore")
    cut = head.rpartition("\n")[0] if "\n" in head else head
    return f"{cut}\n" if most else ""
