"""Canonical style: two spaces of indentation, aligned `=` and comments, even spacing.

Works on tokens, line by line, so comments, blank lines and line breaks stay as they are. Heredocs
are not touched. The style is that of `terraform fmt`, with its handling of quoted single
interpolations (an argument `"${x}"` becomes `x`) and of bare labels, which get quotation marks.
"""

from __future__ import annotations

from itertools import pairwise

from msgspec import Struct, field

from nexusform.diagnostics import Diagnostic
from nexusform.language.parser import parse_file
from nexusform.language.syntax import scanner
from nexusform.language.syntax.nodes import Body, TemplateWrap
from nexusform.language.syntax.positions import count_clusters
from nexusform.source import SourceFile

_OPENING = frozenset({"{", "[", "(", scanner.INTERPOLATION, scanner.DIRECTIVE})
_CLOSING = frozenset({"}", "]", ")", scanner.SEQUENCE_END})
_HEREDOC = "heredoc"
# After these a minus sign is a negation: nothing that could be subtracted from has come before.
_OPERATORS = frozenset({"+", "-", "*", "/", "%", "==", "!=", ">", ">=", "<", "<=", "&&", "||", "!"})
_BEFORE_NEGATION = _OPENING | _OPERATORS | {",", "=", ":", "?", "=>", ""}


class _Token(Struct):
    """A token with the spaces to write before it."""

    kind: str
    text: str
    start: int = -1
    spaces: int = 0

    @property
    def turn(self) -> int:
        """By how much the token changes the depth of brackets."""
        return (self.kind in _OPENING) - (self.kind in _CLOSING)


_NOTHING = _Token("", "")


class _Line(Struct):
    """One line in three cells, of which the second and third are aligned with their neighbours'."""

    lead: list[_Token]
    newline: str
    assign: list[_Token] = field(default_factory=list)
    comment: list[_Token] = field(default_factory=list)

    def text(self) -> str:
        """The line as it is to be written."""
        tokens = (*self.lead, *self.assign, *self.comment)
        return "".join(" " * token.spaces + token.text for token in tokens) + self.newline


def format_text(source: SourceFile) -> tuple[str, list[Diagnostic]]:
    """The text in canonical style; with syntax errors, the text as it was and the errors."""
    body, diagnostics = parse_file(source)
    if diagnostics:
        return source.text, diagnostics
    row = _tokens(scanner.scan(source.text, comments=True))
    old_style = _OldStyle()
    _note_old_style(body, source.text, old_style)
    for token in row:
        if token.start in old_style.bare_labels:
            token.text = f'"{token.text}"'
            token.kind = scanner.STRING
    lines = _lines(_unwrapped(row, old_style.wrapped))
    for line in lines:
        _split(line)
        _space(line.lead)
        _space(line.assign)
    _indent(lines)
    _align_assignments(lines)
    _align_comments(lines)
    return "".join(line.text() for line in lines), []


# --- tokens and lines --------------------------------------------------------------------------


def _tokens(tokens: scanner.Tokens) -> list[_Token]:
    """The tokens up to the end, a heredoc being one token."""
    row: list[_Token] = []
    index = 0
    while tokens.kinds[index] != scanner.END:
        kind, last = tokens.kinds[index], index
        if kind == scanner.OPEN_HEREDOC:
            kind, last = _HEREDOC, _heredoc_end(tokens, index)
        begin = tokens.starts[index]
        row.append(_Token(kind, tokens.text[begin : tokens.ends[last]], begin))
        index = last + 1
    return row


def _heredoc_end(tokens: scanner.Tokens, index: int) -> int:
    """The closing mark of the heredoc that begins at a token."""
    nesting = 0
    while True:
        kind = tokens.kinds[index]
        nesting += (kind == scanner.OPEN_HEREDOC) - (kind == scanner.CLOSE_HEREDOC)
        if nesting == 0:
            return index
        index += 1


def _unwrapped(row: list[_Token], wrapped: set[int]) -> list[_Token]:
    """Without the quotation marks of the arguments that are one interpolation on one line."""
    result: list[_Token] = []
    index = 0
    while index < len(row):
        end = _wrapper_end(row, index) if row[index].start in wrapped else None
        if end is None:
            result.append(row[index])
            index += 1
        else:
            result += row[index + 2 : end - 1]
            index = end + 1
    return result


class _OldStyle(Struct):
    """What is written in an older way, by character offset: wrapped values and bare labels."""

    wrapped: set[int] = field(default_factory=set)
    bare_labels: set[int] = field(default_factory=set)


def _note_old_style(body: Body, text: str, old_style: _OldStyle) -> None:
    """Note where a body is written in an old style: wrapped references, labels without quotes."""
    for attribute in body.attributes:
        if isinstance(attribute.expression, TemplateWrap):
            old_style.wrapped.add(_offset(text, attribute.expression.span.start.byte))
    for block in body.blocks:
        for label in block.labels:
            begin = _offset(text, label.span.start.byte)
            if text[begin] != '"':
                old_style.bare_labels.add(begin)
        if isinstance(block.body, Body):
            _note_old_style(block.body, text, old_style)


def _offset(text: str, byte: int) -> int:
    """The character at a byte of the text's UTF-8 form."""
    return byte if text.isascii() else len(text.encode()[:byte].decode())


def _wrapper_end(row: list[_Token], index: int) -> int | None:
    """The closing quotation mark of `"${...}"` when that is all there is, on one line."""
    nesting = 0
    for at in range(index + 1, len(row)):
        token = row[at]
        if token.kind in {scanner.NEWLINE, scanner.COMMENT, _HEREDOC}:
            return None
        nesting += token.turn
        if nesting == 0:
            closes = token.text == "}" and at + 1 < len(row) and row[at + 1].kind == scanner.CLOSE_QUOTE
            return at + 1 if closes else None
    return None


def _lines(row: list[_Token]) -> list[_Line]:
    """The tokens of a row of text, line by line."""
    lines: list[_Line] = []
    current: list[_Token] = []
    for token in row:
        if token.kind == scanner.NEWLINE:
            lines.append(_Line(current, token.text))
            current = []
        else:
            current.append(token)
    if current:
        lines.append(_Line(current, ""))
    return lines


def _split(line: _Line) -> None:
    """Move a comment at the end, and an assignment that ends on its line, to their own cells."""
    lead = line.lead
    if len(lead) > 1 and lead[-1].kind == scanner.COMMENT and not lead[-1].text.startswith("/*"):
        line.comment = [lead.pop()]
    for at in range(1, len(lead)):
        if lead[at].kind == "=":
            if sum(token.turn for token in lead[at:]) == 0:
                line.assign, line.lead = lead[at:], lead[:at]
            return


# --- spaces ------------------------------------------------------------------------------------


def _space(cell: list[_Token]) -> None:
    before = _NOTHING
    for token, after in pairwise(cell):
        after.spaces = int(_space_between(before, token, after))
        before = token


def _space_between(before: _Token, token: _Token, after: _Token) -> bool:
    """Whether a space stands between two tokens; `before` is the one before them."""
    kind, following = token.kind, after.kind
    if _tight(kind, following):
        return False
    if kind == ",":
        return True
    if (
        {kind, following} & {scanner.QUOTED_TEXT}
        or kind == scanner.OPEN_QUOTE
        or following == scanner.CLOSE_QUOTE
    ):
        return False
    if token.text == "in" and kind == scanner.IDENT and before.kind == scanner.IDENT:
        return True
    if following == "[" and (kind in {scanner.IDENT, scanner.NUMBER} or token.turn < 0):
        return False
    if kind == "!":
        return False
    if kind == "-":
        return before.kind not in _BEFORE_NEGATION
    return _space_at_brackets(token, after)


def _tight(kind: str, following: str) -> bool:
    """Pairs that are never parted."""
    return (
        "." in {kind, following}
        or following in {",", "..."}
        or (kind == scanner.IDENT and following in {"(", "::"})
        or (kind == "::" and following == scanner.IDENT)
    )


def _space_at_brackets(token: _Token, after: _Token) -> bool:
    """Whether a space stands between two tokens, one of which is a bracket or a brace."""
    kind, following = token.kind, after.kind
    if kind == "{" or following == "}":
        return (kind, following) != ("{", "}")
    if kind in {scanner.INTERPOLATION, scanner.DIRECTIVE} and following == "{":
        return True
    if kind == "}" and following == scanner.SEQUENCE_END:
        return True
    if kind == scanner.SEQUENCE_END and following in {scanner.INTERPOLATION, scanner.DIRECTIVE}:
        return False
    return not (token.turn > 0 or after.turn < 0)


# --- lines and their neighbours ----------------------------------------------------------------


def _indent(lines: list[_Line]) -> None:
    """A line that opens more brackets than it closes indents what follows by one step.

    How many brackets each step stands for is remembered, so that brackets which do not match
    line by line push nothing too far.
    """
    steps: list[int] = []
    for line in lines:
        if not line.lead:
            continue
        net = sum(token.turn for token in (*line.lead, *line.assign))
        closed = -net
        while closed > 0 and steps:
            taken = min(closed, steps[-1])
            closed -= taken
            steps[-1] -= taken
            if steps[-1] == 0:
                steps.pop()
        line.lead[0].spaces = 2 * len(steps)
        if net > 0:
            steps.append(net)


def _width(cells: list[_Token]) -> int:
    return sum(token.spaces + count_clusters(token.text) for token in cells)


def _align_assignments(lines: list[_Line]) -> None:
    for chain in _chains(lines, [bool(line.assign) for line in lines]):
        widest = max(_width(line.lead) for line in chain)
        for line in chain:
            line.assign[0].spaces = widest - _width(line.lead) + 1


def _align_comments(lines: list[_Line]) -> None:
    for chain in _chains(lines, [bool(line.comment) for line in lines]):
        widest = max(_width([*line.lead, *line.assign]) for line in chain)
        for line in chain:
            line.comment[0].spaces = widest - _width([*line.lead, *line.assign]) + 1


def _chains(lines: list[_Line], selected: list[bool]) -> list[list[_Line]]:
    """The runs of neighbouring lines that are selected."""
    chains: list[list[_Line]] = []
    previous = False
    for line, is_selected in zip(lines, selected, strict=True):
        if is_selected and previous:
            chains[-1].append(line)
        elif is_selected:
            chains.append([line])
        previous = is_selected
    return chains
