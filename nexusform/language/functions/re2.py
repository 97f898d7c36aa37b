r"""RE2 patterns in Python's notation.

RE2 has no lookaround, no backreferences and no possessive or atomic groups; its `$`, `\s`, `\w`
and flags in the middle mean something slightly different. Both find the leftmost match and
prefer alternatives from left to right.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import lru_cache
from typing import Final

from nexusform.language.functions.linear_patterns import Pattern


class PatternProblem(ValueError):
    """A pattern that RE2 would refuse, or that cannot be carried over."""


_POSIX: Final = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": "\\x00-\\x7F",
    "blank": "\\t ",
    "cntrl": "\\x00-\\x1F\\x7F",
    "digit": "0-9",
    "graph": "!-\\~",
    "lower": "a-z",
    "print": " -\\~",
    "punct": "!-/:-@\\[-`{-\\~",
    "space": "\\t\\n\\v\\f\\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_PERL: Final = {"d": "0-9", "w": "0-9A-Za-z_", "s": "\\t\\n\\f\\r "}
_NOT_PERL: Final = {
    "D": "\\x00-/:-\U0010ffff",
    "W": "\\x00-/:-@\\[-^`{-\U0010ffff",
    "S": "\\x00-\\x08\\x0b\\x0e-\\x1f!-\U0010ffff",
}
_GROUP: Final = re.compile(r"\(\?P?<([A-Za-z0-9_]+)>")
_FLAGS: Final = re.compile(r"\(\?([imsU]*)(?:-([imsU]+))?([:)])")
_REPEAT: Final = re.compile(r"\{(\d+)(?:(,)(\d*))?\}")
_CODE: Final = re.compile(r"x(?:\{([0-9A-Fa-f]{1,6})\}|([0-9A-Fa-f]{2}))|([0-7]{1,3})")
_PROPERTY: Final = re.compile(r"[pP](?:\{(\^?)([A-Za-z_]+)\}|([A-Z]))")
_CONTROL: Final = {"a": "\\a", "f": "\\f", "n": "\\n", "r": "\\r", "t": "\\t", "v": "\\v"}
_MOST_REPEATS: Final = 1000


@lru_cache(maxsize=256)
def compile_re2(pattern: str) -> Pattern:
    """The pattern, ready to use. Raises PatternProblem."""
    translated = _Translation(pattern).run()
    try:
        return Pattern(translated)
    except (re.error, OverflowError, RecursionError) as problem:
        raise PatternProblem(f"{problem}, in {pattern}") from None


@lru_cache(maxsize=64)
def _category(name: str) -> str:
    # The characters of a Unicode general category, as ranges of a class.
    ranges: list[tuple[int, int]] = []
    for code in range(sys.maxunicode + 1):
        if unicodedata.category(chr(code)).startswith(name):
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1] = (ranges[-1][0], code)
            else:
                ranges.append((code, code))
    if not ranges:
        raise PatternProblem(f"the character class \\p{{{name}}} is not supported")
    return "".join([f"\\U{a:08x}-\\U{b:08x}" for a, b in ranges])


def _complement(name: str) -> str:
    edges = [int(part, 16) for part in re.findall(r"\\U([0-9a-f]{8})", _category(name))]
    starts = [0, *[e + 1 for e in edges[1::2]]]
    ends = [*[e - 1 for e in edges[::2]], sys.maxunicode]
    return "".join([f"\\U{a:08x}-\\U{b:08x}" for a, b in zip(starts, ends, strict=True) if a <= b])


class _Translation:
    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.out: list[str] = []
        # For every open group: how many brackets Python needs to close it, and whether `^` and
        # `$` mean lines.
        self.groups: list[tuple[int, bool]] = []
        self.extra = 0
        self.lines = False
        self.repeatable = False
        self.repeated = False

    def run(self) -> str:
        while self.at < len(self.pattern):
            self._step()
        if self.groups:
            raise PatternProblem(f"missing closing ) in {self.pattern}")
        return "".join(self.out) + ")" * self.extra

    def _step(self) -> None:
        character = self.pattern[self.at]
        if character in "*+?{":
            self._repetition(character)
            return
        self.repeatable, self.repeated = True, False
        if character == "\\":
            self._escape()
        elif character == "[":
            self._class()
        elif character == "(":
            self._open()
        elif character == ")":
            self._close()
        elif character == "$":
            self._put("(?=\\n|\\Z)" if self.lines else "\\Z", 1)
        elif character == "^":
            self._put("(?m:^)" if self.lines else "\\A", 1)
        elif character == "|":
            self._put("|", 1)
            self.repeatable = False
        else:
            self._put(character if character == "." else re.escape(character), 1)

    def _put(self, text: str, consumed: int) -> None:
        self.out.append(text)
        self.at += consumed

    def _repetition(self, character: str) -> None:
        text = character
        if character == "{":
            match = _REPEAT.match(self.pattern, self.at)
            if match is None:
                self.repeatable, self.repeated = True, False
                self._put("\\{", 1)
                return
            low, high = int(match[1]), int(match[3] or match[1])
            if low > high or high > _MOST_REPEATS:
                raise PatternProblem(f"invalid repeat count: `{match.group()}`")
            text = match.group()
        if not self.repeatable:
            raise PatternProblem(f"missing argument to repetition operator: `{text}`")
        if self.repeated:
            raise PatternProblem(f"invalid nested repetition operator: `{text}`")
        self._put(text, len(text))
        if self.pattern[self.at : self.at + 1] == "?":
            self._put("?", 1)
        self.repeated = True

    def _open(self) -> None:
        rest = self.pattern[self.at :]
        if not rest.startswith("(?"):
            self._push("(", 1)
            return
        name = _GROUP.match(rest)
        flags = _FLAGS.match(rest)
        if name is not None:
            self._push(f"(?P<{name[1]}>", name.end())
        elif flags is not None:
            self._flags(flags)
        else:
            raise PatternProblem(f"invalid or unsupported Perl syntax: `{rest[:3]}`")

    def _push(self, text: str, consumed: int) -> None:
        self.groups.append((self.extra, self.lines))
        self.extra = 0
        self._put(text, consumed)
        self.repeatable = False

    def _flags(self, match: re.Match[str]) -> None:
        on, off, closing = match[1], match[2] or "", match[3]
        if "U" in on or "U" in off:
            raise PatternProblem("the flag U is not supported; write *? and +? instead")
        text = "(?" + "".join(f for f in on if f in "is")
        without = "".join(f for f in off if f in "is")
        text += f"-{without}:" if without else ":"
        if closing == ":":
            self._push(text, match.end())
        else:
            # Flags for the rest of the group: a group of Python's own to its end.
            self.extra += 1
            self._put(text, match.end())
            self.repeatable = False
        self.lines = (self.lines or "m" in on) and "m" not in off

    def _close(self) -> None:
        if not self.groups:
            raise PatternProblem(f"unexpected ): {self.pattern}")
        closing = ")" * (self.extra + 1)
        self.extra, self.lines = self.groups.pop()
        self._put(closing, 1)

    def _escape(self) -> None:
        following = self.pattern[self.at + 1 : self.at + 2]
        if not following:
            raise PatternProblem("trailing backslash at end of expression: ``")
        if following == "Q":
            end = self.pattern.find("\\E", self.at + 2)
            end = len(self.pattern) if end < 0 else end
            literal = self.pattern[self.at + 2 : end]
            self._put(re.escape(literal), end + 2 - self.at)
        elif following in "Az":
            self._put("\\A" if following == "A" else "\\Z", 2)
        elif following in "bB":
            self._put(f"(?a:\\{following})", 2)
        elif following == "C":
            raise PatternProblem("the class \\C is not supported")
        else:
            text, consumed = self._escaped_class()
            self._put(f"[{text}]", consumed)

    def _escaped_class(self) -> tuple[str, int]:
        # What an escape stands for, as the inside of a class, and its length.
        following = self.pattern[self.at + 1 : self.at + 2]
        if following in _PERL:
            return _PERL[following], 2
        if following in _NOT_PERL:
            return _NOT_PERL[following], 2
        if following in _CONTROL:
            return _CONTROL[following], 2
        named = _PROPERTY.match(self.pattern, self.at + 1)
        if named is not None:
            negative = (named.group()[0] == "P") != (named[1] == "^")
            name = named[2] or named[3]
            return _complement(name) if negative else _category(name), 1 + len(named.group())
        code = _CODE.match(self.pattern, self.at + 1)
        if code is not None and (following in {"x", "0"} or len(code.group()) > 1):
            number = int(code[1] or code[2] or "0", 16) if following == "x" else int(code[3], 8)
            if number > sys.maxunicode:
                raise PatternProblem("invalid escape sequence")
            return f"\\U{number:08x}", 1 + len(code.group())
        if not following or following.isalnum():
            raise PatternProblem(f"invalid escape sequence: `\\{following}`")
        return re.escape(following), 2

    def _class(self) -> None:
        start = self.at
        self._put("[", 1)
        if self.pattern[self.at : self.at + 1] == "^":
            self._put("^", 1)
        first = True
        while True:
            if self.at >= len(self.pattern):
                raise PatternProblem(f"missing closing ]: `{self.pattern[start:]}`")
            character = self.pattern[self.at]
            if character == "]" and not first:
                self._put("]", 1)
                return
            first = False
            self._class_item(character)

    def _class_item(self, character: str) -> None:
        named = re.compile(r"\[:(\^?)(\w+):\]").match(self.pattern, self.at)
        if named is not None:
            inside = _POSIX.get(named[2])
            if inside is None or named[1]:
                raise PatternProblem(f"invalid or unsupported character class: `{named.group()}`")
            self._put(inside, len(named.group()))
        elif character == "\\":
            text, consumed = self._escaped_class()
            self._put(text, consumed)
        else:
            # A hyphen keeps its meaning between two characters; brackets and the like are plain.
            self._put("\\" + character if character in "[]&~|^" else character, 1)
