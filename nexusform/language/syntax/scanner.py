"""Scanner of tokens: names, numbers, operators, and the pieces of templates.

A token is a kind and two character offsets, stored in three parallel lists because a large configuration has
hundreds of thousands of them. Punctuation is its own kind ("{", "=="). Comments are omitted by default; a
comment that ends its line counts as the newline.
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
PLAIN_TEXT = "plain text"  # a literal piece of a heredoc or template file: no backslash escapes
INTERPOLATION = "${"
DIRECTIVE = "%{"
SEQUENCE_END = "sequence end"
NEWLINE = "newline"
COMMENT = "comment"
INVALID = "invalid"
QUOTED_NEWLINE = "newline in string"
END = "end of file"

# Possessive where no other match is possible, so long text needs no memory for backtracking. Python before
# 3.11.5 backtracks wrongly in such groups; the failing alternative (?!) prevents that.
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
_MAX_INVALID = 1_000  # invalid characters: a text with more of them is no configuration
_SPACE = " \t\n\v\f\r\x85\xa0"


class Tokens(Struct):
    """Tokens of one text, in order, an END token last."""

    text: str
    kinds: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)

    def add(self, kind: str, start: int, end: int) -> None:
        """Append a token."""
        self.kinds.append(kind)
        self.starts.append(start)
        self.ends.append(end)

    def get_text(self, index: int) -> str:
        """Return the text of a token."""
        return self.text[self.starts[index] : self.ends[index]]


class _TemplateMode(Struct):
    """Open template: its expected end."""

    ending: str  # CLOSE_QUOTE, CLOSE_HEREDOC or END
    marker: str = ""
    line_start: bool = True


class _SequenceMode(Struct):
    """Open `${` or `%{`, and the number of open braces in it."""

    braces: int = 0


class _Scanner:
    """Scanner of a text in one pass. Open templates and sequences are a stack, not Python frames."""

    def __init__(self, text: str, *, with_comments: bool) -> None:
        self.text = text
        self.tokens = Tokens(text)
        self.with_comments = with_comments
        self.stack: list[_TemplateMode | _SequenceMode] = []
        self.offset = 1 if text.startswith("\ufeff") else 0
        self.invalid_count = 0

    def run(self) -> Tokens:
        """Scan to the end."""
        size = len(self.text)
        while self.offset < size:
            mode = self.stack[-1] if self.stack else None
            if not isinstance(mode, _TemplateMode):
                self._scan_code(mode)
            elif mode.ending == CLOSE_QUOTE:
                self._scan_quoted()
            else:
                self._scan_plain(mode)
        self.tokens.add(END, size, size)
        return self.tokens

    def _scan_code(self, mode: _SequenceMode | None) -> None:
        """Scan names, numbers and operators, until a template begins or ends."""
        next_token, text, offset, size = _NORMAL.match, self.text, self.offset, len(self.text)
        kinds, starts, ends = self.tokens.kinds, self.tokens.starts, self.tokens.ends
        plain = (None, IDENT, NEWLINE, STRING, None, None, NUMBER)
        has_non_ascii = not text.isascii()
        while offset < size:
            match = next_token(text, offset)
            group = match.lastindex if match else None
            if match is None or group is None:
                offset = size
                break
            begin, offset = match.span(group)
            if group == 4 or group == 11:  # noqa: PLR1714 - a set would be built for every token
                kinds.append(text[begin:offset])
            elif group < 4 or group == 6:
                if has_non_ascii and group == 1:
                    offset = _find_name_end(text, offset)
                kinds.append(plain[group])  # type: ignore[arg-type]
            else:
                self.offset = offset
                if self._scan_special(group, begin, offset, mode):
                    return
                offset = self.offset
                continue
            starts.append(begin)
            ends.append(offset)
        self.offset = offset

    def _scan_special(self, group: int, begin: int, end: int, mode: _SequenceMode | None) -> bool:
        """Scan the less common tokens; true if the mode changes."""
        if group == 5:
            return self._scan_brace(begin, end, mode)
        if group in {7, 8}:
            self._scan_comment(begin, end)
        elif group in {9, 10}:
            # Open a quoted text or a heredoc.
            if group == 10:
                self.tokens.add(OPEN_QUOTE, begin, end)
                self.stack.append(_TemplateMode(CLOSE_QUOTE))
            else:
                self.tokens.add(OPEN_HEREDOC, begin, end)
                name = _HEREDOC_NAME.match(self.text, begin)
                assert name is not None
                self.stack.append(_TemplateMode(CLOSE_HEREDOC, name.group(1)))
            return True
        else:
            self._scan_other(begin, end)
        return False

    def _scan_brace(self, begin: int, end: int, mode: _SequenceMode | None) -> bool:
        """Scan a brace. Return whether it ends the enclosing sequence."""
        word = self.text[begin:end]
        if word == "~":
            self.tokens.add(word, begin, end)
            return False
        if mode is not None:
            if word == "{":
                mode.braces += 1
            elif mode.braces == 0:
                self.tokens.add(SEQUENCE_END, begin, end)
                self.stack.pop()
                return True
            else:
                mode.braces -= 1
        self.tokens.add(SEQUENCE_END if word == "~}" else word, begin, end)
        return False

    def _scan_comment(self, begin: int, end: int) -> None:
        """Scan a comment, or its line end if comments are omitted."""
        ends_line = self.text[end - 1] == "\n" and self.text[begin : begin + 2] != "/*"
        if not self.with_comments:
            if ends_line:
                self.tokens.add(NEWLINE, begin, end)
            return
        stop = end
        if ends_line:
            stop = end - (2 if self.text[end - 2] == "\r" else 1)
        self.tokens.add(COMMENT, begin, stop)
        if ends_line:
            self.tokens.add(NEWLINE, stop, end)

    def _scan_other(self, begin: int, end: int) -> None:
        """Scan a name that starts outside ASCII, a comment without end, or an invalid character."""
        char = self.text[begin:end]
        if char == "/*":
            self.offset = len(self.text)
            self.tokens.add(INVALID, begin, self.offset)
        elif char.isidentifier():
            self.offset = _find_name_end(self.text, end)
            self.tokens.add(IDENT, begin, self.offset)
        else:
            self.invalid_count += 1
            self.tokens.add(INVALID, begin, end)
            if self.invalid_count > _MAX_INVALID:
                self.offset = len(self.text)

    def _enter_sequence(self, kind: str, begin: int, end: int) -> None:
        self.tokens.add(kind, begin, end)
        self.stack.append(_SequenceMode())

    def _scan_quoted(self) -> None:
        """Scan the next piece of a quoted template."""
        match = _QUOTED.match(self.text, self.offset)
        assert match is not None
        group, begin, end = match.lastindex, self.offset, match.end()
        self.offset = end
        if group == 1:
            self.tokens.add(QUOTED_TEXT, begin, end)
        elif group == 2:
            self.tokens.add(CLOSE_QUOTE, begin, end)
            self.stack.pop()
        elif group in {3, 4}:
            self._enter_sequence(INTERPOLATION if group == 3 else DIRECTIVE, begin, end)
        elif group == 5:
            # The string ends with its line, so a missing quotation mark does not affect the rest of the file.
            self.tokens.add(QUOTED_NEWLINE, begin, end)
            self.stack.pop()
            self.tokens.add(NEWLINE, begin, end)
        else:
            self.tokens.add(INVALID, begin, end)

    def _scan_plain(self, mode: _TemplateMode) -> None:
        """Scan the next piece of a heredoc or of a bare template: at most one line."""
        text, begin = self.text, self.offset
        if mode.marker and mode.line_start and self._scan_heredoc_end(mode.marker):
            return
        match = _PLAIN.match(text, begin)
        assert match is not None
        self.offset = end = match.end()
        if match.lastindex == 1:
            mode.line_start = text[end - 1] == "\n"
            self.tokens.add(PLAIN_TEXT, begin, end)
        else:
            mode.line_start = False
            self._enter_sequence(INTERPOLATION if match.lastindex == 2 else DIRECTIVE, begin, end)

    def _scan_heredoc_end(self, marker: str) -> bool:
        """Check for the heredoc's end marker on the current line, and scan it."""
        newline = self.text.find("\n", self.offset)
        if newline < 0 or self.text[self.offset : newline].strip(_SPACE) != marker:
            return False
        stop = newline - 1 if self.text[newline - 1] == "\r" else newline
        self.tokens.add(CLOSE_HEREDOC, self.offset, stop)
        self.tokens.add(NEWLINE, stop, newline + 1)
        self.offset = newline + 1
        self.stack.pop()
        return True


def _find_name_end(text: str, offset: int) -> int:
    """Find the end of a name that extends to `offset`, by the Unicode rules for identifiers."""
    while offset < len(text) and (text[offset] == "-" or ("a" + text[offset]).isidentifier()):
        offset += 1
    return offset


def scan_text(text: str, *, with_comments: bool = False) -> Tokens:
    """Scan configuration text; with `with_comments`, comments are tokens too."""
    return _Scanner(text, with_comments=with_comments).run()


def scan_template(text: str) -> Tokens:
    """Scan a bare template: the content of a template file or of quotes."""
    scanner = _Scanner(text, with_comments=False)
    scanner.stack.append(_TemplateMode(END))
    return scanner.run()
