"""Reading tokens one after another: what the parsers of bodies, expressions and templates share; and what
a literal piece of a string means, its escapes decoded, its Unicode normalised.

A syntax error is noted as a diagnostic and then unwinds, by `MalformedError`, to the body item (or the
whole expression) it stands in, where reading goes on; the exception never leaves the parser.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable
from unicodedata import normalize

from msgspec import Struct

from nexusform.diagnostics import Diagnostic, error
from nexusform.language.syntax.positions import Positions
from nexusform.language.syntax.scanner import (
    END,
    IDENT,
    INVALID,
    NEWLINE,
    NUMBER,
    OPEN_QUOTE,
    QUOTED_NEWLINE,
    STRING,
    Tokens,
)
from nexusform.source import Span

# How deep expressions, templates and blocks may nest. Reading, evaluating and storing a tree
# recurse, so the bound keeps every one of them clear of the interpreter's own limit.
MAX_DEPTH = 100

_BITWISE = {
    "&": ' Did you mean boolean AND ("&&")?',
    "|": ' Did you mean boolean OR ("||")?',
    "~": ' Did you mean boolean NOT ("!")?',
    "^": "",
}
_MULTI_LINE = (
    "Quoted strings may not be split over multiple lines. To produce a multi-line string, either use the "
    '\\n escape to represent a newline character or use the "heredoc" multi-line template syntax.'
)
_CHARACTERS = {
    "`": 'The "`" character is not valid. To create a multi-line string, use the "heredoc" syntax, '
    'like "<<EOT".',
    "'": 'Single quotes are not valid. Use double quotes (") to enclose strings.',
    ";": 'The ";" character is not valid. Use newlines to separate arguments and blocks, and commas to '
    "separate items in collection values.",
}
_CURLY = (
    '"Curly quotes" are not valid here. They come in when text is copied from documents or discussions. '
    'Write straight quotes instead: "...".'
)
_BARE_SEQUENCE = (
    'A sequence "${ ... }" stands within quotes only. Outside of them, write the expression alone, as in '
    "value = var.name."
)
CURLY_QUOTES = frozenset("\u201c\u201d\u201e\u201f\u2018\u2019\u201a\u201b")
_WORDS = {"and": "&&", "or": "||", "is": "=="}
# Signs of other languages, as the two tokens that they are read as: how they are written, and what is meant.
_SIGNS = {
    ("==", "="): ("===", 'Did you mean "=="?'),
    ("!=", "="): ("!==", 'Did you mean "!="?'),
    ("<", ">"): ("<>", 'Did you mean "!="?'),
    ("?", "?"): ("??", "Use coalesce(a, b), which gives the first that is not null."),
    ("+", "+"): ("++", "Values do not change; give the new value a name of its own."),
}
_HEREDOC = re.compile(r"<<(-?)[ \t]*([\"']?)([^\W\d][\w-]*)\2([^\r\n]*)")


class MalformedError(Exception):
    """Unwinds to the nearest place where reading can go on; its diagnostic is already noted."""


class TokenStream(Struct):
    """The tokens of a text, where reading stands in them, and what was wrong so far.

    With `skip_newlines`, as inside parentheses, newline tokens are passed over. `depth` counts
    the expressions and blocks that reading is inside of; `reach` is the greatest depth that a
    node of the expression at hand has in the finished tree.
    """

    tokens: Tokens
    positions: Positions
    diagnostics: list[Diagnostic]
    index: int = 0
    skip_newlines: bool = False
    depth: int = 0
    reach: int = 0
    block: str = ""

    def peek(self) -> str:
        """The kind of the next token."""
        kinds, index = self.tokens.kinds, self.index
        if self.skip_newlines and kinds[index] == NEWLINE:
            while kinds[index] == NEWLINE:
                index += 1
            self.index = index
        return kinds[index]

    def take(self) -> int:
        """Read the next token; gives its index. The END token is never passed."""
        kind = self.peek()
        index = self.index
        if kind != END:
            self.index = index + 1
        return index

    def peek_is_word(self, word: str) -> bool:
        """Whether the next token is this name (keywords are plain names in HCL)."""
        return self.peek() == IDENT and self.tokens.word(self.index) == word

    def span(self, first: int, last: int) -> Span:
        """The span from one token to another, both included."""
        return self.positions.span(self.tokens.starts[first], self.tokens.ends[last])

    def note(
        self, kind: str, detail: str, subject: Span, context: Span | None = None, headline: str = ""
    ) -> None:
        """Add a diagnostic and read on; a second one about the very same place is left out."""
        if self.diagnostics and self.diagnostics[-1].subject == subject:
            return
        self.diagnostics.append(
            error(kind, detail, subject, context=context, block=self.block, headline=headline)
        )

    def problem(
        self,
        kind: str,
        detail: str,
        index: int | None = None,
        since: int | None = None,
        headline: str = "",
    ) -> MalformedError:
        """Note a syntax error at a token (the next one) and give the exception to raise.

        `since` is the token where the construct began. A token that can never stand in the
        language is called that, whatever was expected in its place.
        """
        if index is None:
            self.peek()
            index = self.index
        if self._follows_not(index):
            index -= 1
        begin, end = self.tokens.starts[index], self.tokens.ends[index]
        token = self.tokens.kinds[index]
        # Of a string in the wrong place, its opening quotation mark is the subject.
        subject = self.positions.span(begin, begin + 1 if token == STRING else end)
        context = self.span(since, index) if since is not None and since <= index else None
        misfit = self._misfit(token, index)
        if misfit is not None:
            kind, detail = misfit
            headline = ""
        self.note(kind, detail, subject, context, headline)
        if self._begins_heredoc(index):
            self._leave_heredoc(begin)
        return MalformedError(kind)

    def _follows_not(self, index: int) -> bool:
        """Whether the token stands behind a `not` that is meant for an operator."""
        kinds = self.tokens.kinds
        return (
            index > 1
            and kinds[index] in {IDENT, NUMBER, STRING, OPEN_QUOTE}
            and kinds[index - 1] == IDENT
            and self.tokens.word(index - 1) == "not"
            and kinds[index - 2] not in {".", NEWLINE, "{"}
        )

    def _begins_heredoc(self, index: int) -> bool:
        """Whether `<<` stands here, which is a heredoc only where a name and the end of the line follow."""
        tokens = self.tokens
        return tokens.text.startswith("<<", tokens.starts[index]) and tokens.kinds[index] == "<"

    def _leave_heredoc(self, begin: int) -> None:
        """Go behind the text of a heredoc whose beginning is malformed: it is no configuration."""
        opened = _HEREDOC.match(self.tokens.text, begin)
        if opened is None:
            return
        closing = re.compile(rf"^[ \t]*{re.escape(opened.group(3))}[ \t]*\r?$", re.MULTILINE)
        closed = closing.search(self.tokens.text, opened.end())
        if closed is not None:
            last = len(self.tokens.kinds) - 1
            self.index = min(bisect_left(self.tokens.starts, closed.end()), last)

    def _misfit(self, kind: str, index: int) -> tuple[str, str] | None:
        """What to say of a token that the language does not have at all."""
        if kind in _BITWISE:
            return "unsupported-operator", f"Bitwise operators are not supported.{_BITWISE[kind]}"
        if kind == "**":
            return (
                "unsupported-operator",
                '"**" is not a supported operator. Exponentiation is not supported as an operator.',
            )
        if kind in _CHARACTERS:
            return "invalid-character", _CHARACTERS[kind]
        if kind == QUOTED_NEWLINE:
            return "invalid-multi-line-string", _MULTI_LINE
        if kind == INVALID:
            return self._invalid_character(index)
        if kind == IDENT:
            return self._foreign_operator(index)
        if self._begins_heredoc(index):
            return "invalid-expression", self._bad_heredoc(index)
        return self._foreign_sign(kind, index)

    def _invalid_character(self, index: int) -> tuple[str, str]:
        """What to say of a character that begins no token."""
        word = self.tokens.word(index)
        if word.startswith("/*"):
            return "unterminated-comment", 'There is no closing "*/" for this comment.'
        if word in CURLY_QUOTES:
            return "invalid-character", _CURLY
        if word == "$" and self.tokens.kinds[index + 1] == "{":
            return "invalid-character", _BARE_SEQUENCE
        return "invalid-character", "This character is not used within the language."

    def _foreign_sign(self, kind: str, index: int) -> tuple[str, str] | None:
        """What to say of another language's sign for an operator, of which this is the second half."""
        tokens = self.tokens
        before = tokens.kinds[index - 1] if index else ""
        written, instead = _SIGNS.get((before, kind), ("", ""))
        if not written or tokens.ends[index - 1] != tokens.starts[index]:
            return None
        return "unsupported-operator", f'There is no operator "{written}". {instead}'

    def _foreign_operator(self, index: int) -> tuple[str, str] | None:
        """What to say of another language's word for an operator."""
        word = self.tokens.word(index)
        following = self.tokens.kinds[index + 1]
        if word == "not" and self._follows_not(index + 1):
            return "unsupported-operator", 'There is no operator "not". Did you mean boolean NOT ("!")?'
        if following in {"=", ":"}:
            return None
        if word in _WORDS:
            return "unsupported-operator", f'There is no operator "{word}". Did you mean "{_WORDS[word]}"?'
        if word == "in" and self.tokens.kinds[index - 1] != "," and self._word_at(index - 1) != "for":
            return "unsupported-operator", 'There is no operator "in". Use contains(list, value).'
        if word == "if" and self._is_on_the_line("else", index):
            return "unsupported-operator", 'There is no "a if b else c". Write "b ? a : c".'
        return None

    def _word_at(self, index: int) -> str:
        return self.tokens.word(index) if index >= 0 and self.tokens.kinds[index] == IDENT else ""

    def _is_on_the_line(self, word: str, index: int) -> bool:
        """Whether a word stands behind a token, before the line ends."""
        while self.tokens.kinds[index] not in {NEWLINE, END}:
            index += 1
            if self._word_at(index) == word:
                return True
        return False

    def _bad_heredoc(self, index: int) -> str:
        """What is wrong with the line that should begin a heredoc."""
        opened = _HEREDOC.match(self.tokens.text, self.tokens.starts[index])
        if opened is None:
            return 'Behind "<<" a heredoc needs the name of its closing marker, as in "<<EOT".'
        dash, _, marker, _ = opened.groups()
        return (
            f"A heredoc begins with its marker alone, without blanks or quotes and with nothing behind it on "
            f'the line: write "<<{dash}{marker}".'
        )

    def descend(self) -> None:
        """Go one level deeper; a level too many is a syntax error. The caller restores `depth`."""
        self.depth += 1
        self.reach = max(self.reach, self.depth)
        self._check_depth()

    def lengthen(self, levels: int = 1) -> None:
        """Everything read of the expression at hand moves down, below a new node (or several)."""
        self.reach += levels
        self._check_depth()

    def _check_depth(self) -> None:
        if self.reach > MAX_DEPTH:
            raise self.problem(
                "configuration-is-nested-too-deeply",
                f"Expressions and blocks may be nested at most {MAX_DEPTH} levels deep, where each operator "
                "of a chain is a level too. Split this one up, for example with local values.",
            )


_ESCAPE = re.compile(
    r"\\(?:u[0-9a-fA-F]{0,4}|U[0-9a-fA-F]{0,8}|.|\Z)|\$\$\{|%%\{",
    re.DOTALL,
)
_TEMPLATE_ESCAPE = re.compile(r"([$%])\1\{")
_SIMPLE = {"\\n": "\n", "\\r": "\r", "\\t": "\t", '\\"': '"', "\\\\": "\\", "$${": "${", "%%{": "%{"}

Complain = Callable[[str, int, int], None]  # what is wrong, and from which to which character


def normalized(text: str) -> str:
    """The text in Unicode normal form C, as HCL keeps every string."""
    return text if text.isascii() else normalize("NFC", text)


def decode_quoted(text: str, complain: Complain) -> str:
    """The meaning of what stands between quotation marks. `complain` hears of bad escapes."""
    if "\\" not in text and "{" not in text:
        return normalized(text)

    def replace(match: re.Match[str]) -> str:
        escape = match.group()
        simple = _SIMPLE.get(escape)
        if simple is not None:
            return simple
        problem, meaning = _unusual(escape)
        if problem:
            complain(problem, *match.span())
        return meaning

    return normalized(_ESCAPE.sub(replace, text))


def _unusual(escape: str) -> tuple[str, str]:
    r"""What is wrong with an escape (nothing for a good \u or \U) and what it stands for."""
    selector = escape[1:2]
    if len(escape) in {6, 10} and (selector == "U") == (len(escape) == 10):
        code = int(escape[2:], base=16)  # noqa: FURB166 - "\\u" is no prefix that int() knows
        if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            return f"Cannot encode character U+{code:04x} in UTF-8.", ""
        return "", chr(code)
    if selector == "u":
        return "The \\u escape sequence must be followed by four hexadecimal digits.", ""
    if selector == "U":
        return "The \\U escape sequence must be followed by eight hexadecimal digits.", ""
    if not selector:
        return "Backslash must be followed by an escape sequence selector character.", ""
    return f'The symbol "{selector}" is not a valid escape sequence selector.', selector


def decode_plain(text: str) -> str:
    """The meaning of a literal piece of a heredoc or template file: only `$${` and `%%{` are escapes."""
    if "{" in text:
        text = _TEMPLATE_ESCAPE.sub(r"\1{", text)
    return normalized(text)
