"""Text to tokens: names, numbers, operators, and the pieces of templates.

A token is a kind and two character offsets, kept in three parallel lists because a large
configuration has hundreds of thousands of them. Punctuation is its own kind ("{", "==").
Comments are left out unless asked for; a comment that ends its line counts as the newline.
"""

from __future__ import annotations

import re

from msgspec import Struct, field

IDENT = "name"
NUMBER = "number"
STRING = "string"  # a whole quoted string without any template sequence
OPEN_QUOTE = "open quote"
CLOSE_QUOTE = "close quote"
OPEN_HEREDOC = "open heredoc"
CLOSE_HEREDOC = "close heredoc"
QUOTED_TEXT = "quoted text"  # a literal piece of a quoted template: backslash escapes apply
PLAIN_TEXT = "plain text"  # a literal piece of a heredoc or template file: they do not
INTERPOLATION = "${"
DIRECTIVE = "%{"
SEQUENCE_END = "sequence end"
NEWLINE = "newline"
COMMENT = "comment"
INVALID = "invalid"
QUOTED_NEWLINE = "newline in string"
END = "end of file"

# Possessive where nothing could match otherwise: long text then needs no memory to go back. Before 3.11.5
# Python took along what the last round of such a group had read when it failed halfway; an alternative that
# fails at once, (?!), goes back.
_NORMAL = re.compile(
    r"""[ \t]*(?:
    ([A-Za-z_][A-Za-z0-9_-]*)                                   # 1 name
    |(\r?\n)                                                    # 2 newline
    |("(?:[^"\\\r\n$%]++|\\[^\r\n]|\$(?!\$?\{)|%(?!%?\{)|(?!))*+")   # 3 plain string
    |(==|!=|<=|>=|=>|&&|\|\||\.\.\.|::|\*\*|[=.,()\[\]+\-*%!?:>&|^;'`])   # 4 punctuation
    |([{}]|~\}|~)                                               # 5 braces
    |([0-9](?:[0-9]++|\.*+[0-9]|\.*+[eE][+-]?[0-9]|(?!))*+)     # 6 number
    |((?:\#|//)[^\n]*\n?)                                       # 7 comment to the end of the line
    |(/\*(?s:.*?)\*/)                                           # 8 comment
    |(<<-?[^\W\d][\w-]*\r?\n)                                   # 9 heredoc
    |(["])                                                      # 10 template
    |(/(?!\*)|<)                                                # 11 what begins neither of them
    |(/\*|.)                                                    # 12 anything else
    |\Z)""",
    re.VERBOSE,
)
_QUOTED = re.compile(
    r"""((?:[^"\\$%\r\n]++|\\[^\r\n]|\$\$\{|%%\{|[$%](?!\{)|(?!))++)  # 1 literal
    |(")                                                       # 2 end
    |(\$\{~?)                                                  # 3 interpolation
    |(%\{~?)                                                   # 4 directive
    |(\\?(?:\r?\n|\r))                                         # 5 the line ends too early
    |(\\)                                                      # 6 backslash at the end of the file
    """,
    re.VERBOSE,
)
_PLAIN = re.compile(
    r"""((?:[^$%\n]++|\$\$\{|%%\{|[$%](?!\{)|(?!))++\n?|\n)      # 1 literal, at most a line
    |(\$\{~?)                                                  # 2 interpolation
    |(%\{~?)                                                   # 3 directive
    """,
    re.VERBOSE,
)
_HEREDOC_NAME = re.compile(r"<<-?(.*?)\r?\n")
_MOST_ODD = 1_000  # characters of no meaning: what has more of them is no configuration
_SPACE = " \t\n\v\f\r\x85\xa0"


class Tokens(Struct):
    """The tokens of one text, in order, an END token last."""

    text: str
    kinds: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)

    def add(self, kind: str, start: int, end: int) -> None:
        """Append a token."""
        self.kinds.append(kind)
        self.starts.append(start)
        self.ends.append(end)

    def word(self, index: int) -> str:
        """The text of a token."""
        return self.text[self.starts[index] : self.ends[index]]


class _Template(Struct):
    """A template the scanner is inside of: how it ends."""

    ending: str  # CLOSE_QUOTE, CLOSE_HEREDOC or END
    marker: str = ""
    line_start: bool = True


class _Sequence(Struct):
    """A `${` or `%{` the scanner is inside of, and how many braces are open within."""

    braces: int = 0


class _Scanner:
    """One pass over a text. What it is inside of is a stack, so depth costs no Python frames."""

    def __init__(self, text: str, *, comments: bool) -> None:
        self.text = text
        self.tokens = Tokens(text)
        self.comments = comments
        self.stack: list[_Template | _Sequence] = []
        self.at = 1 if text.startswith("\ufeff") else 0
        self.odd = 0

    def run(self) -> Tokens:
        """Scan to the end."""
        size = len(self.text)
        while self.at < size:
            inside = self.stack[-1] if self.stack else None
            if not isinstance(inside, _Template):
                self._code(inside)
            elif inside.ending == CLOSE_QUOTE:
                self._quoted()
            else:
                self._plain(inside)
        self.tokens.add(END, size, size)
        return self.tokens

    def _code(self, inside: _Sequence | None) -> None:
        """Names, numbers and operators, until a template begins or ends."""
        next_token, text, at, size = _NORMAL.match, self.text, self.at, len(self.text)
        kinds, starts, ends = self.tokens.kinds, self.tokens.starts, self.tokens.ends
        plain = (None, IDENT, NEWLINE, STRING, None, None, NUMBER)
        wide = not text.isascii()
        while at < size:
            match = next_token(text, at)
            group = match.lastindex if match else None
            if match is None or group is None:
                at = size
                break
            begin, at = match.span(group)
            if group == 4 or group == 11:  # noqa: PLR1714 - a set would be built for every token
                kinds.append(text[begin:at])
            elif group < 4 or group == 6:
                if wide and group == 1:
                    at = _name_end(text, at)
                kinds.append(plain[group])  # type: ignore[arg-type]
            else:
                self.at = at
                if self._special(group, begin, at, inside):
                    return
                at = self.at
                continue
            starts.append(begin)
            ends.append(at)
        self.at = at

    def _special(self, group: int, begin: int, end: int, inside: _Sequence | None) -> bool:
        """The tokens that need a thought; true when the mode changes."""
        if group == 5:
            return self._brace(begin, end, inside)
        if group in {7, 8}:
            self._comment(begin, end)
        elif group in {9, 10}:
            self._open_template(group, begin, end)
            return True
        else:
            self._odd(begin, end)
        return False

    def _brace(self, begin: int, end: int, inside: _Sequence | None) -> bool:
        """Take a brace; whether it ends the sequence inside which tokens are."""
        word = self.text[begin:end]
        if word == "~":
            self.tokens.add(word, begin, end)
            return False
        if inside is not None:
            if word == "{":
                inside.braces += 1
            elif inside.braces == 0:
                self.tokens.add(SEQUENCE_END, begin, end)
                self.stack.pop()
                return True
            else:
                inside.braces -= 1
        self.tokens.add(SEQUENCE_END if word == "~}" else word, begin, end)
        return False

    def _comment(self, begin: int, end: int) -> None:
        """Take a comment, or the line end in it where comments do not count."""
        ends_line = self.text[end - 1] == "\n" and self.text[begin : begin + 2] != "/*"
        if not self.comments:
            if ends_line:
                self.tokens.add(NEWLINE, begin, end)
            return
        stop = end
        if ends_line:
            stop = end - (2 if self.text[end - 2] == "\r" else 1)
        self.tokens.add(COMMENT, begin, stop)
        if ends_line:
            self.tokens.add(NEWLINE, stop, end)

    def _open_template(self, group: int, begin: int, end: int) -> None:
        """Go into a quoted text or a heredoc."""
        if group == 10:
            self.tokens.add(OPEN_QUOTE, begin, end)
            self.stack.append(_Template(CLOSE_QUOTE))
            return
        self.tokens.add(OPEN_HEREDOC, begin, end)
        name = _HEREDOC_NAME.match(self.text, begin)
        assert name is not None
        self.stack.append(_Template(CLOSE_HEREDOC, name.group(1)))

    def _odd(self, begin: int, end: int) -> None:
        """A name that begins outside ASCII, a comment without end, or a character of no meaning."""
        char = self.text[begin:end]
        if char == "/*":
            self.at = len(self.text)
            self.tokens.add(INVALID, begin, self.at)
        elif char.isidentifier():
            self.at = _name_end(self.text, end)
            self.tokens.add(IDENT, begin, self.at)
        else:
            self.odd += 1
            self.tokens.add(INVALID, begin, end)
            if self.odd > _MOST_ODD:
                self.at = len(self.text)

    def _enter(self, kind: str, begin: int, end: int) -> None:
        self.tokens.add(kind, begin, end)
        self.stack.append(_Sequence())

    def _quoted(self) -> None:
        """The next piece of a quoted template."""
        match = _QUOTED.match(self.text, self.at)
        assert match is not None
        group, begin, end = match.lastindex, self.at, match.end()
        self.at = end
        if group == 1:
            self.tokens.add(QUOTED_TEXT, begin, end)
        elif group == 2:
            self.tokens.add(CLOSE_QUOTE, begin, end)
            self.stack.pop()
        elif group in {3, 4}:
            self._enter(INTERPOLATION if group == 3 else DIRECTIVE, begin, end)
        elif group == 5:
            # The string is taken to end with its line, so that one forgotten quotation mark
            # does not turn the rest of the file inside out.
            self.tokens.add(QUOTED_NEWLINE, begin, end)
            self.stack.pop()
            self.tokens.add(NEWLINE, begin, end)
        else:
            self.tokens.add(INVALID, begin, end)

    def _plain(self, inside: _Template) -> None:
        """The next piece of a heredoc or of a bare template: at most one line."""
        text, begin = self.text, self.at
        if inside.marker and inside.line_start and self._closes(inside.marker):
            return
        match = _PLAIN.match(text, begin)
        assert match is not None
        self.at = end = match.end()
        if match.lastindex == 1:
            inside.line_start = text[end - 1] == "\n"
            self.tokens.add(PLAIN_TEXT, begin, end)
        else:
            inside.line_start = False
            self._enter(INTERPOLATION if match.lastindex == 2 else DIRECTIVE, begin, end)

    def _closes(self, marker: str) -> bool:
        """Whether the line here is the heredoc's end marker; takes it when it is."""
        newline = self.text.find("\n", self.at)
        if newline < 0 or self.text[self.at : newline].strip(_SPACE) != marker:
            return False
        stop = newline - 1 if self.text[newline - 1] == "\r" else newline
        self.tokens.add(CLOSE_HEREDOC, self.at, stop)
        self.tokens.add(NEWLINE, stop, newline + 1)
        self.at = newline + 1
        self.stack.pop()
        return True


def _name_end(text: str, at: int) -> int:
    """Where a name that has reached `at` ends, by the Unicode rules for identifiers."""
    while at < len(text) and (text[at] == "-" or ("a" + text[at]).isidentifier()):
        at += 1
    return at


def scan(text: str, *, comments: bool = False) -> Tokens:
    """The tokens of configuration text; with `comments`, comments are tokens too."""
    return _Scanner(text, comments=comments).run()


def scan_template(text: str) -> Tokens:
    """The tokens of a bare template: what stands in a template file or between quotes."""
    scanner = _Scanner(text, comments=False)
    scanner.stack.append(_Template(END))
    return scanner.run()
