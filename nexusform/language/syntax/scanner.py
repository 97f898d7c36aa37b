"""Scanner of tokens, and their lines, columns and bytes.

Tokens are names, numbers, operators, and the pieces of templates.

A token is a kind and two character offsets, stored in three parallel lists because a large
configuration has hundreds of thousands of them. Punctuation is its own kind ("{", "=="). Comments
are omitted by default; a comment that ends its line counts as the newline.

Python counts characters; HCL counts lines, grapheme clusters and UTF-8 bytes. Plain ASCII text, the
usual case, needs no counting.
"""

import re
from bisect import bisect_right
from itertools import pairwise
from unicodedata import category

from msgspec import Struct, field

from nexusform.diagnostics.diagnostic import Position, Span

_FIRST = Position(1, 1, 0)
_BYTE_ORDER_MARK = "\ufeff"
_JOINER = "\u200d"
_MODIFIERS = range(0x1F3FB, 0x1F400)
_TAGS = range(0xE0020, 0xE0080)
_REGIONAL = range(0x1F1E6, 0x1F200)
# The lead, vowel and trail jamo, the composed syllables, and the pairs within one syllable (UAX
# #29, rules GB6 to GB8).
_HANGUL_PARTS = (
    ("L", range(0x1100, 0x1160)),
    ("V", range(0x1160, 0x11A8)),
    ("T", range(0x11A8, 0x1200)),
)
_HANGUL_SYLLABLE = range(0xAC00, 0xD7A4)
_HANGUL_PAIRS = frozenset({"LL", "LV", "LS", "LN", "VV", "VT", "SV", "ST", "NT", "TT"})


def _is_grapheme_extending_character(char: str) -> bool:
    """Check whether a character always belongs to the cluster before it."""
    code = ord(char)
    return (
        category(char) in {"Mn", "Me", "Mc"}
        or char in {_JOINER, "\u200c", "\uff9e", "\uff9f"}
        or code in _MODIFIERS
        or code in _TAGS
    )


def _is_pictographic(char: str) -> bool:
    """Check whether a joiner joins this character to an emoji before it.

    The check approximates the property by blocks of code points.
    """
    code = ord(char)
    return 0x2190 <= code <= 0x2BFF or 0x1F000 <= code <= 0x1FAFF or char in "\xa9\xae\u203c\u2049"


def _get_hangul_class(char: str) -> str:
    """Return the Hangul class of a character, or "" for another character.

    The class is L, V or T for a first consonant, vowel or last consonant, S for the syllable LV and
    N for LVT.
    """
    code = ord(char)
    if code in _HANGUL_SYLLABLE:
        # Every 28th syllable has no last consonant.
        return "N" if (code - 0xAC00) % 28 else "S"
    return next((name for name, part in _HANGUL_PARTS if code in part), "")


def count_clusters(text: str) -> int:
    """Count the grapheme clusters of the text: the characters that a reader sees.

    One may consist of several code points: a letter with a combining accent, the two letters of a
    flag, or joined emojis. A new cluster begins at every code point that no rule below joins to the
    one before it. The rules are those of UAX #29, without rare ones.
    """
    # Also an empty text.
    if text.isascii():
        return len(text) - text.count("\r\n")
    clusters = 1
    # Regional letters in a row; two are one flag.
    regional_count = 1 if ord(text[0]) in _REGIONAL else 0
    # Whether the current cluster is an emoji, so that a joiner may extend it.
    is_emoji = _is_pictographic(text[0])
    for before, char in pairwise(text):
        is_regional = ord(char) in _REGIONAL
        is_same_cluster = (
            (before == "\r" and char == "\n")
            or _is_grapheme_extending_character(char)
            # The second letter of a flag.
            or (is_regional and regional_count % 2 == 1)
            # An emoji joined to the one before it.
            or (before == _JOINER and is_emoji and _is_pictographic(char))
            # Parts of one Korean syllable; the first of them is U+1100.
            or (
                char >= "\u1100"
                and _get_hangul_class(before) + _get_hangul_class(char) in _HANGUL_PAIRS
            )
        )
        if not is_same_cluster:
            clusters += 1
        regional_count = regional_count + 1 if is_regional else 0
        # An extending character, such as a skin tone, leaves the cluster an emoji.
        is_emoji = _is_pictographic(char) or (is_emoji and _is_grapheme_extending_character(char))
    return clusters


class CharacterPositions:
    """Positions of the characters of one text.

    `start` is the position of the first character, if the text is a part of a file. A byte order
    mark at the start counts as bytes but has no column.
    """

    def __init__(self, filename: str, text: str, start: Position | None = None) -> None:
        """Find the start of each line.

        `start` is the position of the text in its file, if it is a part of one.
        """
        self._filename = filename
        self._text = text
        self._start = start or _FIRST
        self._ascii = text.isascii()
        # The offset at the start of each.
        lines = [0]
        find = text.find
        newline = text.find("\n")
        while newline >= 0:
            lines.append(newline + 1)
            newline = find("\n", newline + 1)
        self._lines = lines
        # The byte at the start of each line.
        self._line_bytes = None if self._ascii else self._compute_byte_offsets()
        self._known: dict[int, Position] = {}  # by offset
        # Spans are mostly requested in order, within one line of an ASCII file. The line of the
        # last one is kept: its number, and the offsets at its start and at the start of the next
        # line. offsets in the text are bytes of the file.
        self._simple = self._ascii and start is None
        self._line = 1
        self._low = 0
        self._high = 0

    def _compute_byte_offsets(self) -> list[int]:
        """Compute the byte at the start of each line."""
        offsets = []
        total = 0
        for begin, end in pairwise([*self._lines, len(self._text)]):
            offsets.append(total)
            total += len(self._text[begin:end].encode("utf-8", "surrogatepass"))
        return offsets

    def find_position(self, offset: int) -> Position:
        """Return the position of a character offset (0 to the length of the text)."""
        position = self._known.get(offset)
        if position is None:
            line = bisect_right(self._lines, offset) - 1
            begin = self._lines[line]
            start = self._start
            # ASCII: each character is a byte.
            if self._line_bytes is None:
                column = offset - begin
                byte = offset
            else:
                piece = self._text[begin:offset]
                byte = self._line_bytes[line] + len(piece.encode("utf-8", "surrogatepass"))
                visible = piece.removeprefix(_BYTE_ORDER_MARK) if line == 0 else piece
                column = count_clusters(visible)
            first_column = start.column if line == 0 else 1
            position = self._known[offset] = Position(
                start.line + line, first_column + column, start.byte + byte
            )
        return position

    def build_span(self, begin: int, end: int) -> Span:
        """Build the span between two character offsets, the end exclusive."""
        # ASCII from the start of the file: fast if the span lies on one line.
        if self._simple:
            # Not on the line of the span before.
            if not self._low <= begin < self._high:
                self._line = line = bisect_right(self._lines, begin)
                self._low = self._lines[line - 1]
                self._high = self._lines[line] if line < len(self._lines) else len(self._text) + 1
            if end < self._high:
                # Columns start at 1.
                line = self._line
                column_zero = self._low - 1
                start = Position(line, begin - column_zero, begin)
                return Span(self._filename, start, Position(line, end - column_zero, end))
        return Span(self._filename, self.find_position(begin), self.find_position(end))


class FixedPosition(CharacterPositions):
    """Positions of a text with another form in its file: all of it is at one span."""

    def __init__(self, fixed_span: Span) -> None:
        super().__init__(fixed_span.filename, "")
        self._fixed_span = fixed_span

    def find_position(self, offset: int) -> Position:  # noqa: ARG002 - the same answer for every offset
        """Return the start of the fixed span."""
        return self._fixed_span.start

    def build_span(self, begin: int, end: int) -> Span:  # noqa: ARG002 - the same answer for every range
        """Return the fixed span."""
        return self._fixed_span


def describe_span(span: Span) -> str:
    """Format a span for a sentence: `file:line,column-column`."""
    start = span.start
    end = span.end
    if start.line == end.line:
        return f"{span.filename}:{start.line},{start.column}-{end.column}"
    return f"{span.filename}:{start.line},{start.column}-{end.line},{end.column}"


IDENT = "name"
NUMBER = "number"
# A whole quoted string without any template sequence.
STRING = "string"
OPEN_QUOTE = "open quote"
CLOSE_QUOTE = "close quote"
OPEN_HEREDOC = "open heredoc"
CLOSE_HEREDOC = "close heredoc"
# A literal piece of a quoted template: backslash escapes apply.
QUOTED_TEXT = "quoted text"
# A literal piece of a heredoc or template file: no backslash escapes.
PLAIN_TEXT = "plain text"
INTERPOLATION = "${"
DIRECTIVE = "%{"
SEQUENCE_END = "sequence end"
NEWLINE = "newline"
COMMENT = "comment"
INVALID = "invalid"
QUOTED_NEWLINE = "newline in string"
END = "end of file"

# Possessive where no other match is possible, so long text needs no memory for backtracking. Python
# before 3.11.5 backtracks wrongly in such groups; the failing alternative (?!) prevents that.
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
# Groups of _NORMAL by number: the kind of the token, "" for punctuation (its own kind), None for
# one of varying kind.
_GROUP_KINDS = (None, IDENT, NEWLINE, STRING, "", None, NUMBER, None, None, None, None, "", None)
# Groups of None above.
_BRACE = 5
_LINE_COMMENT = 7
_BLOCK_COMMENT = 8
_HEREDOC = 9
_TEMPLATE = 10
_HEREDOC_NAME = re.compile(r"<<-?(.*?)\r?\n")
# Invalid characters: a text with more of them is no configuration.
_MAX_INVALID = 1_000
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


class _OpenTemplate(Struct):
    """Open template: its expected end."""

    # CLOSE_QUOTE, CLOSE_HEREDOC or END.
    ending: str
    marker: str = ""
    line_start: bool = True


class _OpenTemplateSequence(Struct):
    """Open `${` or `%{`, and the number of open braces in it."""

    braces: int = 0


class _Scanner:
    """Scanner of a text in one pass.

    Open templates and sequences are a stack, not Python frames.
    """

    def __init__(self, text: str, *, with_comments: bool) -> None:
        """Start after a byte order mark, if any; without `with_comments` comments are dropped."""
        self.text = text
        self.tokens = Tokens(text)
        self.with_comments = with_comments
        # The innermost one is last.
        self.stack: list[_OpenTemplate | _OpenTemplateSequence] = []
        # After a byte order mark.
        self.offset = 1 if text.startswith("\ufeff") else 0
        # Of characters, to stop after too many.
        self.invalid_count = 0

    def run(self) -> Tokens:
        """Scan to the end, piece by piece.

        A piece is code, or text of the innermost open string or heredoc.
        """
        size = len(self.text)
        while self.offset < size:
            # None: code outside of all templates.
            innermost = self.stack[-1] if self.stack else None
            if not isinstance(innermost, _OpenTemplate):
                self._scan_code(innermost)
            elif innermost.ending == CLOSE_QUOTE:
                match = _QUOTED.match(self.text, self.offset)
                assert match is not None
                # `group` is the alternative of _QUOTED.
                group = match.lastindex
                begin = self.offset
                end = match.end()
                self.offset = end
                if group == 1:  # literal text
                    self.tokens.add(QUOTED_TEXT, begin, end)
                elif group == 2:
                    self.tokens.add(CLOSE_QUOTE, begin, end)
                    self.stack.pop()
                elif group in {3, 4}:
                    self.tokens.add(INTERPOLATION if group == 3 else DIRECTIVE, begin, end)
                    self.stack.append(_OpenTemplateSequence())
                elif group == 5:
                    # The string ends with its line, so a missing quotation mark does not affect the
                    # rest of the file.
                    self.tokens.add(QUOTED_NEWLINE, begin, end)
                    self.stack.pop()
                    self.tokens.add(NEWLINE, begin, end)
                else:
                    # A backslash at the end of the file.
                    self.tokens.add(INVALID, begin, end)
            else:
                # A heredoc or template file.
                self._scan_unquoted_piece(innermost)
        self.tokens.add(END, size, size)
        return self.tokens

    def _scan_code(self, sequence: _OpenTemplateSequence | None) -> None:
        """Scan names, numbers and operators, until a template begins or ends.

        `sequence` is the innermost open `${ }` or `%{ }`, None outside of all.
        """
        next_token = _NORMAL.match
        text = self.text
        offset = self.offset
        size = len(self.text)
        kinds = self.tokens.kinds
        starts = self.tokens.starts
        ends = self.tokens.ends
        has_non_ascii = not text.isascii()
        while offset < size:
            match = next_token(text, offset)
            assert match is not None, "the pattern matches any text"
            group = match.lastindex
            if group is None:
                # Only blanks are left.
                offset = size
                break
            begin, offset = match.span(group)
            kind = _GROUP_KINDS[group]
            # A brace, comment, heredoc, template or invalid character.
            if kind is None:
                # The next call may move it further.
                self.offset = offset
                if self._scan_rare_token(group, begin, offset, sequence):
                    # A template begins or ends.
                    return
                offset = self.offset
                continue
            if has_non_ascii and kind == IDENT:
                offset = _find_name_end(text, offset)
            # Punctuation is its own kind.
            kinds.append(kind or text[begin:offset])
            starts.append(begin)
            ends.append(offset)
        self.offset = offset

    def _scan_rare_token(
        self, group: int, begin: int, end: int, sequence: _OpenTemplateSequence | None
    ) -> bool:
        """Scan a token of a less common group of `_NORMAL`.

        Return True if a template or sequence begins or ends. `end` is the end of the match. A name
        or an unclosed comment may be longer: `self.offset` is its end then.
        """
        # "{", "}", "~}" or "~".
        if group == _BRACE:
            return self._scan_brace(begin, end, sequence)
        if group in {_LINE_COMMENT, _BLOCK_COMMENT}:
            self._scan_comment(begin, end)
        elif group in {_HEREDOC, _TEMPLATE}:
            # The start of a heredoc or of a string with sequences.
            if group == _TEMPLATE:
                self.tokens.add(OPEN_QUOTE, begin, end)
                self.stack.append(_OpenTemplate(CLOSE_QUOTE))
            else:
                self.tokens.add(OPEN_HEREDOC, begin, end)
                name = _HEREDOC_NAME.match(self.text, begin)
                assert name is not None
                self.stack.append(_OpenTemplate(CLOSE_HEREDOC, name.group(1)))
            return True
        else:
            char = self.text[begin:end]
            # Without an end: the comment is the rest of the text.
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
                    # Skip the rest.
                    self.offset = len(self.text)
        return False

    def _scan_brace(self, begin: int, end: int, sequence: _OpenTemplateSequence | None) -> bool:
        """Scan a brace.

        Return whether it ends the enclosing sequence, `${ }` or `%{ }`. `sequence` is the enclosing
        one, None outside of all. A brace in it may be one of an object: these are counted.
        """
        word = self.text[begin:end]
        # Not before a brace: a token that no syntax allows.
        if word == "~":
            self.tokens.add(word, begin, end)
            return False
        # Inside `${ }` or `%{ }`, with `sequence.braces` open braces of its own.
        if sequence is not None:
            if word == "{":
                sequence.braces += 1
            elif sequence.braces == 0:
                self.tokens.add(SEQUENCE_END, begin, end)
                self.stack.pop()
                return True
            else:
                sequence.braces -= 1
        # "~}" closes no "{": a syntax error.
        self.tokens.add(SEQUENCE_END if word == "~}" else word, begin, end)
        return False

    def _scan_comment(self, begin: int, end: int) -> None:
        """Add the tokens of a comment.

        A COMMENT if wanted, then a NEWLINE if its text includes a line end.
        """
        ends_line = self.text[end - 1] == "\n" and self.text[begin : begin + 2] != "/*"
        # Without a token for it, the comment counts as a part of the line end.
        newline_begin = begin
        if self.with_comments:
            line_end = "\r\n" if self.text.endswith("\r\n", begin, end) else "\n"
            newline_begin = end - len(line_end) if ends_line else end
            self.tokens.add(COMMENT, begin, newline_begin)
        if ends_line:
            self.tokens.add(NEWLINE, newline_begin, end)

    def _scan_unquoted_piece(self, mode: _OpenTemplate) -> None:
        """Scan the next piece, at most one line, of the open heredoc or bare template (`mode`)."""
        text = self.text
        begin = self.offset
        # Only a heredoc has a marker.
        if mode.marker and mode.line_start and self._scan_heredoc_end(mode.marker):
            return
        match = _PLAIN.match(text, begin)
        assert match is not None
        self.offset = end = match.end()
        if match.lastindex == 1:  # literal text
            mode.line_start = text[end - 1] == "\n"
            self.tokens.add(PLAIN_TEXT, begin, end)
        else:
            # Group 2 is `${`, group 3 is `%{`.
            mode.line_start = False
            self.tokens.add(INTERPOLATION if match.lastindex == 2 else DIRECTIVE, begin, end)
            self.stack.append(_OpenTemplateSequence())

    def _scan_heredoc_end(self, marker: str) -> bool:
        """Scan the heredoc's end marker if it is all of the current line.

        Return whether it is.
        """
        # The line of the marker must have an end.
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
    # After a letter.
    while offset < len(text) and (text[offset] == "-" or ("a" + text[offset]).isidentifier()):
        offset += 1
    return offset


def scan_text(text: str, *, with_comments: bool = False) -> Tokens:
    """Scan configuration text; with `with_comments`, comments are tokens too."""
    return _Scanner(text, with_comments=with_comments).run()


def scan_template(text: str) -> Tokens:
    """Scan a bare template: the content of a template file or of quotes."""
    scanner = _Scanner(text, with_comments=False)
    # A template up to the end of the text.
    scanner.stack.append(_OpenTemplate(END))
    return scanner.run()
