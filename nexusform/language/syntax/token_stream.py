"""Token stream of the parsers, and decoding of literal pieces of strings.

The parsers are those of bodies, expressions and templates. A syntax error is reported as a
diagnostic and then unwinds, by `MalformedSyntaxError`, to its body item (or the whole expression),
and parsing continues; the exception never leaves the parser.
"""

import re
from bisect import bisect_left
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from functools import partial
from unicodedata import normalize

from msgspec import Struct

from nexusform.diagnostics.diagnostic import Diagnostic, Span, build_error
from nexusform.language.syntax.scanner import (
    END,
    IDENT,
    INVALID,
    NEWLINE,
    NUMBER,
    OPEN_QUOTE,
    QUOTED_NEWLINE,
    STRING,
    CharacterPositions,
    Tokens,
)

# Maximum nesting of expressions, templates and blocks. Parsing, evaluation and storage recurse, so
# the limit is below the recursion limit of the interpreter.
MAX_DEPTH = 100

_BITWISE = {
    "&": ' Did you mean boolean AND ("&&")?',
    "|": ' Did you mean boolean OR ("||")?',
    "~": ' Did you mean boolean NOT ("!")?',
    "^": "",
}
_MULTI_LINE = (
    "Quoted strings may not be split over multiple lines. To produce a multi-line string, either "
    "use the "
    '\\n escape to represent a newline character or use the "heredoc" multi-line template syntax.'
)
_CHARACTERS = {
    "`": (
        'The "`" character is not valid. To create a multi-line string, use the "heredoc" syntax, '
        'like "<<EOT".'
    ),
    "'": 'Single quotes are not valid. Use double quotes (") to enclose strings.',
    ";": 'The ";" character is not valid. Use newlines to separate arguments and blocks, and '
    "commas "
    "to "
    "separate items in collection values.",
}
_CURLY_QUOTES_DETAIL = (
    '"Curly quotes" are not valid here. Text copied from documents often contains them. Write '
    "straight "
    'quotes instead: "...".'
)
_BARE_SEQUENCE = (
    'A sequence "${ ... }" is valid only inside quotes. Elsewhere write the expression alone, as '
    "in value = var.name."
)
CURLY_QUOTES = frozenset("\u201c\u201d\u201e\u201f\u2018\u2019\u201a\u201b")
_FOREIGN_WORDS = {"and": "&&", "or": "||", "is": "=="}
# Signs of other languages, as the two tokens they are scanned as: the sign, and advice.
_FOREIGN_SIGNS = {
    ("==", "="): ("===", 'Did you mean "=="?'),
    ("!=", "="): ("!==", 'Did you mean "!="?'),
    ("<", ">"): ("<>", 'Did you mean "!="?'),
    ("?", "?"): ("??", "Use coalesce(a, b); it returns the first value that is not null."),
    ("+", "+"): ("++", "Values do not change; give the new value another name."),
}
_HEREDOC = re.compile(r"<<(-?)[ \t]*([\"']?)([^\W\d][\w-]*)\2([^\r\n]*)")


class MalformedSyntaxError(Exception):
    """Error that unwinds to the nearest recovery point; its diagnostic is already reported."""


class TokenStream(Struct):
    """Tokens of a text, the current position, and the problems so far.

    With `skip_newlines`, as inside parentheses, newline tokens are skipped. `depth` counts the
    open expressions and blocks; `reach` is the greatest depth of a node of the current expression
    in the finished tree.
    """

    tokens: Tokens
    positions: CharacterPositions
    diagnostics: list[Diagnostic]
    index: int = 0
    skip_newlines: bool = False
    depth: int = 0
    reach: int = 0
    block: str = ""

    def peek(self) -> str:
        """Return the kind of the next token; with `skip_newlines` move past newlines first."""
        kinds = self.tokens.kinds
        index = self.index
        if self.skip_newlines:
            while kinds[index] == NEWLINE:
                index += 1
            self.index = index
        return kinds[index]

    def read_token(self) -> int:
        """Read the next token and return its index.

        The END token is never passed.
        """
        kind = self.peek()
        index = self.index
        if kind != END:
            self.index = index + 1
        return index

    def require_token(self, kind: str, diagnostic_id: str, detail: str, since: int | None) -> int:
        """Read the next token, of this kind, and return its index.

        Raises MalformedSyntaxError for any other token, after it is reported (`report_error`).
        """
        if self.peek() != kind:
            raise self.report_error(diagnostic_id, detail, since=since)
        return self.read_token()

    def is_next_word(self, word: str) -> bool:
        """Check whether the next token is this name (keywords are plain names in HCL)."""
        return self.peek() == IDENT and self.tokens.get_text(self.index) == word

    def read_loop_names(
        self, diagnostic_id: str, construct: str, missing_in: str, since: int | None = None
    ) -> tuple[str | None, str]:
        """Read `v in` or `k, v in` of a `for`.

        Return the names of key (None without one) and value. `construct` is the subject of the
        details of errors, `missing_in` the detail about a missing `in`.
        """
        key_name = None
        detail = f"{construct} requires variable name after 'for'."
        value_name = self.tokens.get_text(self.require_token(IDENT, diagnostic_id, detail, since))
        if self.peek() == ",":
            self.read_token()
            # Of two names the first is the key.
            key_name = value_name
            detail = f"{construct} requires value variable name after comma."
            value_name = self.tokens.get_text(
                self.require_token(IDENT, diagnostic_id, detail, since)
            )
        if not self.is_next_word("in"):
            raise self.report_error(diagnostic_id, missing_in, since=since)
        self.read_token()
        return key_name, value_name

    def build_span(self, first: int, last: int) -> Span:
        """Build the span from one token to another, both included."""
        return self.positions.build_span(self.tokens.starts[first], self.tokens.ends[last])

    def add_problem(
        self,
        diagnostic_id: str,
        detail: str,
        subject: Span,
        context: Span | None = None,
        headline: str = "",
    ) -> None:
        """Add a diagnostic, unless the previous one has the same subject.

        One message for a token is enough.
        """
        if self.diagnostics and self.diagnostics[-1].subject == subject:
            return
        error = build_error(
            diagnostic_id, detail, subject, context=context, block=self.block, headline=headline
        )
        self.diagnostics.append(error)

    def report_error(
        self,
        diagnostic_id: str,
        detail: str,
        index: int | None = None,
        since: int | None = None,
        headline: str = "",
    ) -> MalformedSyntaxError:
        """Report a syntax error at the token `index` and return the exception to raise.

        The default is the next token. `since` is the first token of the construct. A token foreign
        to the language gets its own error in place of the given one.
        """
        if index is None:
            self.peek()
            index = self.index
        if self._is_preceded_by_not_operator(index):
            # The word `not`, meant as an operator, is the error.
            index -= 1
        begin = self.tokens.starts[index]
        end = self.tokens.ends[index]
        token = self.tokens.kinds[index]
        # For a misplaced string, its opening quotation mark is the subject.
        subject = self.positions.build_span(begin, begin + 1 if token == STRING else end)
        context = self.build_span(since, index) if since is not None and since <= index else None
        invalid_token = self._describe_invalid_token(token, index)
        if invalid_token is not None:
            diagnostic_id, detail = invalid_token
            headline = ""
        self.add_problem(diagnostic_id, detail, subject, context, headline)
        if self._is_malformed_heredoc(index):
            self._skip_heredoc(begin)
        return MalformedSyntaxError(diagnostic_id)

    def _skip_heredoc(self, begin: int) -> None:
        """Skip a heredoc with a malformed start at the offset `begin`.

        Skip up to the line of its closing marker, because its text is not configuration. Nothing is
        skipped if the marker or the line is missing.
        """
        opening = _HEREDOC.match(self.tokens.text, begin)
        if opening is not None:
            # Without `<<`, `-` and quotes.
            marker = opening.group(3)
            closing = re.compile(rf"^[ \t]*{re.escape(marker)}[ \t]*\r?$", re.MULTILINE)
            closing_match = closing.search(self.tokens.text, opening.end())
            if closing_match is not None:
                last = len(self.tokens.kinds) - 1
                self.index = min(bisect_left(self.tokens.starts, closing_match.end()), last)

    def _is_preceded_by_not_operator(self, index: int) -> bool:
        """Check whether the token follows a `not` intended as an operator, as in `not x`.

        The token begins an operand. The `not` is no attribute (`a.not`), and no name at the start
        of a line or block.
        """
        kinds = self.tokens.kinds
        return (
            index > 1
            and kinds[index] in {IDENT, NUMBER, STRING, OPEN_QUOTE}
            and kinds[index - 1] == IDENT
            and self.tokens.get_text(index - 1) == "not"
            and kinds[index - 2] not in {".", NEWLINE, "{"}
        )

    def _is_malformed_heredoc(self, index: int) -> bool:
        """Check for `<<` without a valid name and line end."""
        tokens = self.tokens
        return tokens.text.startswith("<<", tokens.starts[index]) and tokens.kinds[index] == "<"

    def _describe_invalid_token(self, kind: str, index: int) -> tuple[str, str] | None:
        """Return the error id and detail for a token foreign to the language.

        Return None for any other token.
        """
        if kind in _BITWISE:
            return "unsupported-operator", f"Bitwise operators are not supported.{_BITWISE[kind]}"
        if kind == "**":
            detail = (
                '"**" is not a supported operator. Exponentiation is not supported as an operator.'
            )
            return "unsupported-operator", detail
        if kind in _CHARACTERS:
            return "invalid-character", _CHARACTERS[kind]
        if kind == QUOTED_NEWLINE:
            return "invalid-multi-line-string", _MULTI_LINE
        if kind == INVALID:
            return self._describe_invalid_character(index)
        if kind == IDENT:
            return self._describe_foreign_operator(index)
        if self._is_malformed_heredoc(index):
            return "invalid-expression", self._describe_bad_heredoc(index)
        # The token may be the second half of a foreign operator sign.
        tokens = self.tokens
        previous = tokens.kinds[index - 1] if index else ""
        # Such as "===", of "==" and "=".
        sign, advice = _FOREIGN_SIGNS.get((previous, kind), ("", ""))
        # With a blank between them it is no sign.
        if not sign or tokens.ends[index - 1] != tokens.starts[index]:
            return None
        return "unsupported-operator", f'There is no operator "{sign}". {advice}'

    def _describe_invalid_character(self, index: int) -> tuple[str, str]:
        """Return the error id and detail for a character with no meaning in the language.

        An open comment is one, too.
        """
        word = self.tokens.get_text(index)
        if word.startswith("/*"):
            return "unterminated-comment", 'There is no closing "*/" for this comment.'
        if word in CURLY_QUOTES:
            return "invalid-character", _CURLY_QUOTES_DETAIL
        if word == "$" and self.tokens.kinds[index + 1] == "{":
            return "invalid-character", _BARE_SEQUENCE
        return "invalid-character", "This character is not used within the language."

    def _describe_foreign_operator(self, index: int) -> tuple[str, str] | None:
        """Return the error id and detail for a word intended as an operator.

        Return None for any other word.
        """
        word = self.tokens.get_text(index)
        following = self.tokens.kinds[index + 1]
        # The next token follows this "not".
        if word == "not" and self._is_preceded_by_not_operator(index + 1):
            return (
                "unsupported-operator",
                'There is no operator "not". Did you mean boolean NOT ("!")?',
            )
        if following in {"=", ":"}:
            # The name of an argument or key.
            return None
        if word in _FOREIGN_WORDS:
            return (
                "unsupported-operator",
                f'There is no operator "{word}". Did you mean "{_FOREIGN_WORDS[word]}"?',
            )
        # `in` right after `for` or a comma is part of a malformed `for`.
        if (
            word == "in"
            and self.tokens.kinds[index - 1] != ","
            and self._get_identifier_text(index - 1) != "for"
        ):
            return "unsupported-operator", 'There is no operator "in". Use contains(list, value).'
        if word == "if" and self._has_word_on_line("else", index):
            return "unsupported-operator", 'There is no "a if b else c". Write "b ? a : c".'
        return None

    def _get_identifier_text(self, index: int) -> str:
        return self.tokens.get_text(index) if self.tokens.kinds[index] == IDENT else ""

    def _has_word_on_line(self, word: str, index: int) -> bool:
        """Check for a word after a token on the same line."""
        while self.tokens.kinds[index] not in {NEWLINE, END}:
            index += 1
            if self._get_identifier_text(index) == word:
                return True
        return False

    def _describe_bad_heredoc(self, index: int) -> str:
        """Describe the error in the first line of a heredoc."""
        opening = _HEREDOC.match(self.tokens.text, self.tokens.starts[index])
        if opening is None:
            return 'After "<<" write the closing marker of the heredoc, as in "<<EOT".'
        dash, _, marker, _ = opening.groups()
        return (
            "The marker of a heredoc has no blanks and no quotes, and ends its line: write "
            f'"<<{dash}{marker}".'
        )

    def enter_level(self) -> None:
        """Count an opened level in `depth`; the caller decrements it at the end.

        Too many levels are a syntax error.
        """
        self.depth += 1
        # Raises `reach` to the level, if it is lower.
        self.add_nesting_levels(max(self.depth - self.reach, 0))

    def add_nesting_levels(self, levels: int = 1) -> None:
        """Count one or several new nodes above the current expression.

        `reach`, the depth of its deepest node, grows by `levels`. Raises MalformedSyntaxError, with
        a diagnostic, beyond the maximum depth.
        """
        self.reach += levels
        if self.reach > MAX_DEPTH:
            raise self.report_error(
                "configuration-nested-too-deeply",
                f"Expressions and blocks may be nested at most {MAX_DEPTH} levels deep; each "
                "operator of a "
                "chain is one level. Split the expression up, for example with local values.",
            )


_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,4}|U[0-9a-fA-F]{0,8}|.|\Z)|\$\$\{|%%\{", re.DOTALL)
_TEMPLATE_ESCAPE = re.compile(r"([$%])\1\{")
_SIMPLE = {
    "\\n": "\n",
    "\\r": "\r",
    "\\t": "\t",
    '\\"': '"',
    "\\\\": "\\",
    "$${": "${",
    "%%{": "%{",
}

MAX_NUMBER_LENGTH = 4000
_MAX_EXPONENT = 10_000


def parse_exact_number(word: str) -> int | Decimal | None:
    """Parse a number exactly; None if it is malformed or too large.

    Its length and exponent are limited.
    """
    if len(word) > MAX_NUMBER_LENGTH:
        return None
    # A whole number.
    if word.lstrip("-").isdigit():
        return int(word)
    # Two points or exponents, or an exponent that no decimal holds.
    with suppress(InvalidOperation):
        value = Decimal(word)
        return value if abs(value.adjusted()) <= _MAX_EXPONENT else None
    return None


# Arguments: the problem, its first and last character.
ReportEscape = Callable[[str, int, int], None]


def normalize_text(text: str) -> str:
    """Normalize the text to Unicode normal form C, as HCL does for every string."""
    return text if text.isascii() else normalize("NFC", text)


def decode_quoted_text(text: str, report_escape: ReportEscape) -> str:
    """Decode the content of quotation marks.

    `report_escape` is called for invalid escapes.
    """
    # No escape: all have a backslash or are "$${" or "%%{".
    if "\\" not in text and "{" not in text:
        return normalize_text(text)
    return normalize_text(_ESCAPE.sub(partial(_decode_match, report_escape), text))


def _decode_match(report_escape: ReportEscape, match: re.Match[str]) -> str:
    """Return the text of an escape found by _ESCAPE, and report an invalid one."""
    escape = match.group()
    if escape in _SIMPLE:
        return _SIMPLE[escape]
    problem, decoded = _decode_escape(escape)
    if problem:
        report_escape(problem, *match.span())
    return decoded


# Errors by selector, the character after the backslash.
_ESCAPE_RULES = {
    "u": "The \\u escape sequence must be followed by four hexadecimal digits.",
    "U": "The \\U escape sequence must be followed by eight hexadecimal digits.",
    "": "Backslash must be followed by an escape sequence selector character.",
}


def _decode_escape(escape: str) -> tuple[str, str]:
    r"""Decode an escape by \uXXXX or \UXXXXXXXX.

    Return the error, "" if it is valid, and the text. With an error the text is "", or for an
    unknown selector (the character after the backslash) the selector.
    """
    selector = escape[1:2]
    # With all its digits.
    if len(escape) == {"u": 6, "U": 10}.get(selector):
        code = int(escape[2:], base=16)  # noqa: FURB166 - "\\u" is no prefix that int() knows
        # Beyond Unicode, or half of a surrogate pair.
        if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            return f"Cannot encode character U+{code:04x} in UTF-8.", ""
        return "", chr(code)
    if selector in _ESCAPE_RULES:
        return _ESCAPE_RULES[selector], ""
    return f'The symbol "{selector}" is not a valid escape sequence selector.', selector


def decode_plain(text: str) -> str:
    """Decode a literal piece of a heredoc or template file: only `$${` and `%%{` are escapes."""
    if "{" in text:
        # `$${` becomes `${`.
        text = _TEMPLATE_ESCAPE.sub(r"\1{", text)
    return normalize_text(text)
