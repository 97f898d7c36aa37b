r"""Patterns matched in time that grows with the text and the pattern, whatever they are.

Python's engine goes back and tries again, which for some patterns takes for ever: `(a+)+$`. Those
run here: the same search from left to right, remembering what has failed, so that nothing is tried
twice. The input is what re2.py writes, a small part of Python's notation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Protocol, TypeAlias, cast

MOST_STEPS: Final = 3_000_000  # of one search for all matches: some seconds, some 200 MB
_TRUSTED: Final = 1_000_000_000  # characters that Python's engine may look at
_MOST_INSTRUCTIONS: Final = 50_000
_UNBOUNDED: Final = -1


class TooSlow(Exception):
    """The pattern would take too long on the text."""


class Match(Protocol):
    """What a search finds."""

    def start(self) -> int:
        """Where it begins."""
        ...

    def end(self) -> int:
        """Where it ends."""
        ...

    def group(self, which: int | str = 0, /) -> str | None:
        """The text of the whole (0), or of a group by number or name; None when it took no part."""
        ...

    def groups(self) -> tuple[str | None, ...]:
        """The text of all groups."""
        ...


# --- the pattern as a tree ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Atom:
    """One character (`width` 1), or a condition on the place (0)."""

    test: re.Pattern[str]
    width: int


@dataclass(frozen=True, slots=True)
class _Group:
    inner: _Node
    number: int  # 0: does not capture


@dataclass(frozen=True, slots=True)
class _Repeat:
    inner: _Node
    low: int
    high: int  # _UNBOUNDED: no limit
    greedy: bool


@dataclass(frozen=True, slots=True)
class _Sequence:
    parts: tuple[_Node, ...]


@dataclass(frozen=True, slots=True)
class _Choice:
    branches: tuple[_Node, ...]


_Node: TypeAlias = _Atom | _Group | _Repeat | _Sequence | _Choice

_CONDITIONS: Final = ("\\A", "\\Z", "(?=\\n|\\Z)", "(?m:^)", "(?a:\\b)", "(?a:\\B)")
_OPENING: Final = re.compile(r"\((?:\?P<(\w+)>|\?([is]*)(?:-([is]+))?:)?")
_QUANTIFIER: Final = re.compile(r"(?:([*+?])|\{(\d+)(?:(,)(\d*))?\})(\?)?")
_CLASS: Final = re.compile(r"\[(?:\\.|[^\]\\])*\]", re.DOTALL)


@dataclass(slots=True)
class _Reader:
    """Reads a pattern in Python's notation."""

    text: str
    at: int = 0
    groups: int = 0
    names: dict[str, int] = field(default_factory=dict)

    def choice(self, flags: str) -> _Node:
        branches = [self._sequence(flags)]
        while self.text[self.at : self.at + 1] == "|":
            self.at += 1
            branches.append(self._sequence(flags))
        return branches[0] if len(branches) == 1 else _Choice(tuple(branches))

    def _sequence(self, flags: str) -> _Node:
        parts: list[_Node] = []
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            part = self._one(flags)
            quantifier = _QUANTIFIER.match(self.text, self.at)
            if quantifier is not None:
                self.at = quantifier.end()
                part = _repeated(part, quantifier)
            parts.append(part)
        return parts[0] if len(parts) == 1 else _Sequence(tuple(parts))

    def _one(self, flags: str) -> _Node:
        for condition in _CONDITIONS:
            if self.text.startswith(condition, self.at):
                self.at += len(condition)
                return _Atom(_test(condition, ""), 0)
        if self.text[self.at] == "(":
            return self._group(flags)
        start = self.at
        in_class = _CLASS.match(self.text, start)
        if in_class is not None:
            self.at = in_class.end()
        else:
            self.at += 2 if self.text[start] == "\\" else 1
        return _Atom(_test(self.text[start : self.at], flags), 1)

    def _group(self, flags: str) -> _Node:
        opening = _OPENING.match(self.text, self.at)
        assert opening is not None
        self.at = opening.end()
        number = 0
        if opening.group() == "(" or opening[1]:
            self.groups += 1
            number = self.groups
            if opening[1]:
                self.names[opening[1]] = number
        else:
            flags = "".join(f for f in "is" if f in flags + opening[2] and f not in (opening[3] or ""))
        inner = self.choice(flags)
        self.at += 1  # the closing bracket
        return _Group(inner, number)


@lru_cache(maxsize=4096)
def _test(text: str, flags: str) -> re.Pattern[str]:
    return re.compile(f"(?{flags}:{text})" if flags else text)


def _repeated(inner: _Node, found: re.Match[str]) -> _Node:
    sign, low, comma, high, lazy = found.groups()
    if sign:
        bounds = {"*": (0, _UNBOUNDED), "+": (1, _UNBOUNDED), "?": (0, 1)}[sign]
    else:
        bounds = (int(low), int(high) if high else _UNBOUNDED if comma else int(low))
    return _Repeat(inner, *bounds, greedy=not lazy)


# --- how dangerous a pattern is ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Danger:
    """`endless`: going back may take exponential time. `loops`: how many repetitions without limit
    there are; time may grow with that power of the text's length. `turns`: how many choices stand
    one after the other; each may double the time.
    """

    endless: bool = False
    loops: int = 0
    turns: int = 0

    def fits(self, length: int) -> bool:
        """Whether Python's engine may be let loose on a text of this length."""
        if self.endless or self.turns > _MOST_TURNS:
            return False
        return self.loops < 2 or length ** (self.loops + 1) <= _TRUSTED


def _danger(node: _Node, *, repeated: bool = False) -> Danger:
    if isinstance(node, _Atom):
        return Danger()
    if isinstance(node, _Group):
        return _danger(node.inner, repeated=repeated)
    if isinstance(node, _Repeat):
        return _danger_of_repeat(node, repeated=repeated)
    choice = isinstance(node, _Choice)
    inside = node.branches if isinstance(node, _Choice) else node.parts
    found = [_danger(part, repeated=repeated) for part in inside]
    return Danger(
        any(d.endless for d in found) or (choice and repeated),
        sum(d.loops for d in found),
        sum(d.turns for d in found) + choice,
    )


def _danger_of_repeat(node: _Repeat, *, repeated: bool) -> Danger:
    """A repetition whose number may vary, inside of another one, can be shared out in many ways."""
    inner = _danger(node.inner, repeated=repeated or node.high == _UNBOUNDED or node.high > 1)
    varies = node.high != node.low
    many = varies and (node.high == _UNBOUNDED or node.high > _MANY)
    return Danger(
        inner.endless or (repeated and varies), inner.loops + many, inner.turns + (varies and not many)
    )


_MOST_TURNS: Final = 10
_MANY: Final = 20  # repetitions from which a limit is as good as none


# --- the program -------------------------------------------------------------------------------

# (kind, ...): ("test", pattern, width), ("split", first, second), ("jump", to), ("save", slot), ("match",)
_Instruction: TypeAlias = tuple[str, object, int]


class _Compiler:
    def __init__(self) -> None:
        self.program: list[_Instruction] = []

    def add(self, kind: str, first: object = None, second: int = 0) -> int:
        if len(self.program) >= _MOST_INSTRUCTIONS:
            raise TooSlow
        self.program.append((kind, first, second))
        return len(self.program) - 1

    def compile(self, node: _Node) -> None:
        if isinstance(node, _Atom):
            self.add("test", node.test, node.width)
        elif isinstance(node, _Sequence):
            for part in node.parts:
                self.compile(part)
        elif isinstance(node, _Group):
            self._group(node)
        elif isinstance(node, _Choice):
            self._choice(node)
        else:
            self._repeat(node)

    def _group(self, node: _Group) -> None:
        if node.number:
            self.add("save", None, 2 * node.number)
        self.compile(node.inner)
        if node.number:
            self.add("save", None, 2 * node.number + 1)

    def _choice(self, node: _Choice) -> None:
        leaving = []
        for branch in node.branches[:-1]:
            split = self.add("split")
            self.compile(branch)
            leaving.append(self.add("jump"))
            self.program[split] = ("split", split + 1, len(self.program))
        self.compile(node.branches[-1])
        for jump in leaving:
            self.program[jump] = ("jump", len(self.program), 0)

    def _repeat(self, node: _Repeat) -> None:
        for _ in range(node.low):
            self.compile(node.inner)
        if node.high == _UNBOUNDED:
            split = self.add("split")
            self.compile(node.inner)
            self.add("jump", split)
            self._close(split, greedy=node.greedy)
            return
        splits = []
        for _ in range(node.high - node.low):
            splits.append(self.add("split"))
            self.compile(node.inner)
        for split in splits:
            self._close(split, greedy=node.greedy)

    def _close(self, split: int, *, greedy: bool) -> None:
        inside, after = split + 1, len(self.program)
        self.program[split] = ("split", inside, after) if greedy else ("split", after, inside)


@dataclass(frozen=True, slots=True)
class LinearMatch:
    """A match with the borders of its groups, -1 where one took no part."""

    text: str
    borders: tuple[int, ...]
    names: Mapping[str, int]

    def start(self) -> int:
        """Where it begins."""
        return self.borders[0]

    def end(self) -> int:
        """Where it ends."""
        return self.borders[1]

    def group(self, which: int | str = 0, /) -> str | None:
        """The text of the whole (0), or of a group; None when it took no part."""
        number = self.names[which] if isinstance(which, str) else which
        start, end = self.borders[2 * number : 2 * number + 2]
        return self.text[start:end] if start >= 0 and end >= 0 else None

    def groups(self) -> tuple[str | None, ...]:
        """The text of all groups."""
        return tuple([self.group(number) for number in range(1, len(self.borders) // 2)])


class _Search:
    """All matches in one text; steps are counted over all of them."""

    def __init__(self, program: list[_Instruction], groups: int, names: Mapping[str, int], text: str) -> None:
        self._program = program
        self._slots = 2 * (groups + 1)
        self._names = names
        self._text = text
        self._steps = 0

    def matches(self) -> Iterator[LinearMatch]:
        at = 0
        while at <= len(self._text):
            found = self._from(at)
            if found is None:
                return
            yield found
            at = found.end() + (found.start() == found.end())

    def _from(self, at: int) -> LinearMatch | None:
        """The leftmost match that begins at `at` or later."""
        failed: set[int] = set()
        for start in range(at, len(self._text) + 1):
            borders = self._at(start, failed)
            if borders is not None:
                return LinearMatch(self._text, tuple(borders), self._names)
        return None

    def _at(self, start: int, failed: set[int]) -> list[int] | None:
        """A match that begins here. What was tried once is never tried again: it failed then."""
        borders = [-1] * self._slots
        borders[0] = start
        # What is left to try, the last first: a place in program and text, or a border to put back.
        stack: list[tuple[int, int, int]] = [(0, start, -1)]
        while stack:
            at, place, slot = stack.pop()
            if slot >= 0:
                borders[slot] = place
            elif self._follow(at, place, borders, stack, failed):
                self._steps += len(failed)
                return borders
            if len(failed) + self._steps > MOST_STEPS:
                raise TooSlow
        return None

    def _follow(
        self, at: int, place: int, borders: list[int], stack: list[tuple[int, int, int]], failed: set[int]
    ) -> bool:
        """Go on from one place until it fails (False) or matches; other ways go onto the stack."""
        width = len(self._text) + 1
        while True:
            key = at * width + place
            if key in failed:
                return False
            failed.add(key)
            kind, first, second = self._program[at]
            at += 1
            if kind == "test":
                if first.match(self._text, place) is None:  # type: ignore[attr-defined]  # tests hold a pattern
                    return False
                place += second
            elif kind == "split":
                stack.append((second, place, -1))
                at = first  # type: ignore[assignment]  # a position
            elif kind == "jump":
                at = first  # type: ignore[assignment]  # a position
            elif kind == "save":
                stack.append((0, borders[second], second))
                borders[second] = place
            else:
                borders[1] = place
                return True


# --- the face ----------------------------------------------------------------------------------


class Pattern:
    """A compiled pattern; searches with Python's engine where that is sure to end soon."""

    def __init__(self, translated: str) -> None:
        self._python = re.compile(translated)
        self.groups = self._python.groups
        self.groupindex: Mapping[str, int] = self._python.groupindex
        self._tree = _Reader(translated).choice("")
        self.danger = _danger(self._tree)
        self._program: list[_Instruction] | None = None

    def search(self, text: str) -> Match | None:
        """The first match. Raises TooSlow."""
        return next(self.finditer(text), None)

    def finditer(self, text: str) -> Iterator[Match]:
        """All matches from left to right; raises TooSlow."""
        if self.danger.fits(len(text)):
            return cast("Iterator[Match]", self._python.finditer(text))
        return _Search(self._compiled(), self.groups, self.groupindex, text).matches()

    def _compiled(self) -> list[_Instruction]:
        if self._program is None:
            compiler = _Compiler()
            compiler.compile(self._tree)
            compiler.add("match")
            self._program = compiler.program
        return self._program
