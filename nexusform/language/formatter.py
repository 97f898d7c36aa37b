"""Canonical style: two spaces of indentation, aligned `=` and comments, even spacing.

Works on tokens, line by line, so comments, blank lines and line breaks are kept. Heredocs are not
changed. The style is that of `terraform fmt`, with its handling of quoted single interpolations (an
argument `"${x}"` becomes `x`) and of bare labels, which are quoted.
"""

from collections.abc import Callable
from itertools import groupby, pairwise

from msgspec import Struct, field

from nexusform.diagnostics.diagnostic import Diagnostic, SourceFile
from nexusform.language.parser import parse_file
from nexusform.language.syntax import scanner
from nexusform.language.syntax.scanner import count_clusters
from nexusform.language.syntax.syntax_nodes import Body, TemplateWrap

_OPENING = frozenset({"{", "[", "(", scanner.INTERPOLATION, scanner.DIRECTIVE})
_CLOSING = frozenset({"}", "]", ")", scanner.SEQUENCE_END})
_HEREDOC = "heredoc"
# After these a minus sign is a negation: there is no left operand.
_OPERATORS = frozenset({"+", "-", "*", "/", "%", "==", "!=", ">", ">=", "<", "<=", "&&", "||", "!"})
_BEFORE_NEGATION = _OPENING | _OPERATORS | {",", "=", ":", "?", "=>", ""}


class _Token(Struct):
    """Token with the number of spaces before it."""

    kind: str
    text: str
    start: int = -1
    spaces: int = 0

    @property
    def depth_change(self) -> int:
        """Change of the bracket depth: 1 at an opening bracket, -1 at a closing one, else 0."""
        return (self.kind in _OPENING) - (self.kind in _CLOSING)


_NO_TOKEN = _Token(kind="", text="")


class _Line(Struct):
    """Line in three cells; the second and third are aligned with those of neighbouring lines."""

    lead: list[_Token]
    newline: str
    assign: list[_Token] = field(default_factory=list)
    comment: list[_Token] = field(default_factory=list)

    def render(self) -> str:
        """Render the line."""
        tokens = (*self.lead, *self.assign, *self.comment)
        return "".join(" " * token.spaces + token.text for token in tokens) + self.newline


def format_text(source: SourceFile) -> tuple[str, list[Diagnostic]]:
    """Format the text in canonical style.

    With syntax errors, return the original text and the errors.
    """
    body, diagnostics = parse_file(source)
    if diagnostics:
        return source.text, diagnostics
    tokens = _list_tokens_with_merged_heredocs(scanner.scan_text(source.text, with_comments=True))
    old_style = _OldStylePositions()
    _collect_old_style(body, source.text, old_style)
    for token in tokens:
        # A label without quotes gets them.
        if token.start in old_style.bare_labels:
            token.text = f'"{token.text}"'
            token.kind = scanner.STRING
    lines = _split_tokens_into_lines(_unwrap_interpolation_only_strings(tokens, old_style.wrapped))
    for line in lines:
        _split_line_into_alignment_cells(line)
        _set_token_spacing(line.lead)
        _set_token_spacing(line.assign)
    _set_indentation(lines)
    # Align the cells `= value` of consecutive lines, then the comments at their ends.
    _align_cells(lines, lambda line: line.assign, lambda line: line.lead)
    _align_cells(lines, lambda line: line.comment, lambda line: [*line.lead, *line.assign])
    return "".join(line.render() for line in lines), []


def _list_tokens_with_merged_heredocs(tokens: scanner.Tokens) -> list[_Token]:
    """Return the tokens up to the end; a heredoc is one token."""
    result: list[_Token] = []
    index = 0
    while tokens.kinds[index] != scanner.END:
        kind = tokens.kinds[index]
        last = index
        if kind == scanner.OPEN_HEREDOC:
            kind = _HEREDOC
            last = _find_heredoc_end(tokens, index)
        begin = tokens.starts[index]
        result.append(_Token(kind, tokens.text[begin : tokens.ends[last]], begin))
        index = last + 1
    return result


def _find_heredoc_end(tokens: scanner.Tokens, index: int) -> int:
    """Find the closing mark of the heredoc that starts at a token."""
    # An interpolation may hold another heredoc.
    nesting = 0
    while True:
        kind = tokens.kinds[index]
        if kind == scanner.OPEN_HEREDOC:
            nesting += 1
        elif kind == scanner.CLOSE_HEREDOC:
            nesting -= 1
            if nesting == 0:
                return index
        index += 1


def _unwrap_interpolation_only_strings(
    tokens: list[_Token], wrapped_offsets: set[int]
) -> list[_Token]:
    """Replace `"${x}"` by `x` at the `wrapped_offsets` of the text.

    One on several lines is kept.
    """
    result: list[_Token] = []
    index = 0
    while index < len(tokens):
        end = _find_template_end(tokens, index) if tokens[index].start in wrapped_offsets else None
        if end is None:
            result.append(tokens[index])
            index += 1
        else:
            # Without `"${` and `}"`.
            result += tokens[index + 2 : end - 1]
            index = end + 1
    return result


class _OldStylePositions(Struct):
    """Character offsets of old style: arguments like `"${x}"`, and labels without quotes."""

    wrapped: set[int] = field(default_factory=set)
    bare_labels: set[int] = field(default_factory=set)


def _collect_old_style(body: Body, text: str, old_style: _OldStylePositions) -> None:
    """Add the offsets of values like `"${x}"` and of labels without quotes in a body.

    The offsets in its blocks are added, too.
    """
    for attribute in body.attributes:
        if isinstance(attribute.expression, TemplateWrap):
            old_style.wrapped.add(
                _convert_byte_to_character_offset(text, attribute.expression.span.start.byte)
            )
    for block in body.blocks:
        for label in block.labels:
            begin = _convert_byte_to_character_offset(text, label.span.start.byte)
            if text[begin] != '"':
                old_style.bare_labels.add(begin)
        if isinstance(block.body, Body):
            _collect_old_style(block.body, text, old_style)


def _convert_byte_to_character_offset(text: str, byte: int) -> int:
    """Convert a byte offset of the text's UTF-8 form to a character offset."""
    return byte if text.isascii() else len(text.encode()[:byte].decode())


def _find_template_end(tokens: list[_Token], index: int) -> int | None:
    """Find the closing quotation mark of the string at `index`.

    Return None unless the string is one `${...}` on one line.
    """
    # Open brackets, the first of them `${`.
    nesting = 0
    for position in range(index + 1, len(tokens)):
        token = tokens[position]
        if token.kind in {scanner.NEWLINE, scanner.COMMENT, _HEREDOC}:
            # More than one line.
            return None
        nesting += token.depth_change
        # After the end of the first sequence.
        if nesting == 0:
            following = tokens[position + 1].kind if position + 1 < len(tokens) else ""
            return position + 1 if token.text == "}" and following == scanner.CLOSE_QUOTE else None
    return None


def _split_tokens_into_lines(tokens: list[_Token]) -> list[_Line]:
    """Split tokens at their newlines; the last line may have none."""
    lines: list[_Line] = []
    current: list[_Token] = []
    for token in tokens:
        if token.kind == scanner.NEWLINE:
            lines.append(_Line(current, token.text))
            current = []
        else:
            current.append(token)
    if current:
        lines.append(_Line(current, newline=""))
    return lines


def _split_line_into_alignment_cells(line: _Line) -> None:
    """Split a line into the cells to align with neighboring lines.

    The cells are `name`, `= value` and the comment at the end. All tokens of the line are in `lead`
    at first. A value that continues on later lines stays in `lead`.
    """
    lead = line.lead
    if len(lead) > 1 and lead[-1].kind == scanner.COMMENT and not lead[-1].text.startswith("/*"):
        line.comment = [lead.pop()]
    for index in range(1, len(lead)):
        # The first one.
        if lead[index].kind == "=":
            open_brackets = sum(token.depth_change for token in lead[index:])
            # The value ends on this line.
            if open_brackets == 0:
                line.assign = lead[index:]
                line.lead = lead[:index]
            return


def _set_token_spacing(cell: list[_Token]) -> None:
    """Set the spaces before every token of a cell except the first."""
    previous = _NO_TOKEN
    for token, after in pairwise(cell):
        after.spaces = int(_has_space_between(previous, token, after))
        previous = token


_TIGHT_PAIRS = {(scanner.IDENT, "("), (scanner.IDENT, "::"), ("::", scanner.IDENT)}
_BRACES_IN_SEQUENCES = {
    (scanner.INTERPOLATION, "{"),
    (scanner.DIRECTIVE, "{"),
    ("}", scanner.SEQUENCE_END),
}
_ADJACENT_SEQUENCES = {
    (scanner.SEQUENCE_END, begin) for begin in (scanner.INTERPOLATION, scanner.DIRECTIVE)
}


def _has_space_between(before: _Token, token: _Token, after: _Token) -> bool:
    """Check whether the formatted line has a space between the neighbors `token` and `after`.

    `before` is the token in front of `token`: it shows whether `-` subtracts or negates. The first
    rule that applies decides, and the rules about brackets come last.
    """
    kind = token.kind
    following = after.kind
    if kind == "." or following in {".", ",", "..."} or (kind, following) in _TIGHT_PAIRS:
        return False
    if kind == ",":
        return True
    begins_string_content = kind in {scanner.QUOTED_TEXT, scanner.OPEN_QUOTE}
    ends_string_content = following in {scanner.QUOTED_TEXT, scanner.CLOSE_QUOTE}
    if begins_string_content or ends_string_content:
        # Blanks in a string are content.
        return False
    if token.text == "in" and before.kind == scanner.IDENT:
        # `for x in [...]`.
        return True
    is_closing_bracket = token.depth_change < 0
    if following == "[" and (kind in {scanner.IDENT, scanner.NUMBER} or is_closing_bracket):
        # An index, as in `items[0]` or `f(x)[0]`.
        return False
    if kind == "!":
        return False
    if kind == "-":
        # Only a subtraction has a space after it: `a - b`, but `-b`.
        return before.kind not in _BEFORE_NEGATION
    return _has_space_at_brackets(token, after)


def _has_space_at_brackets(token: _Token, after: _Token) -> bool:
    """Check whether a space separates two tokens, by the rules of brackets.

    Braces have spaces inside, other brackets have none. Two sequences (`${...}`,
    `%{...}`) stay together.
    """
    kind = token.kind
    following = after.kind
    if kind == "{" or following == "}":
        # None in {}
        return (kind, following) != ("{", "}")
    if (kind, following) in _BRACES_IN_SEQUENCES:
        # Such as "${ {".
        return True
    # After an opening or before a closing one.
    is_inside_brackets = token.depth_change > 0 or after.depth_change < 0
    return not is_inside_brackets and (kind, following) not in _ADJACENT_SEQUENCES


def _set_indentation(lines: list[_Line]) -> None:
    """Set the indentation: a line that leaves brackets open indents the lines after it by one step.

    One step of two spaces is for all brackets left open by one line; it ends once all of
    them are closed.
    """
    # The number of open brackets of each step.
    steps: list[int] = []
    for line in lines:
        if not line.lead:
            # An empty line.
            continue
        # Opening minus closing brackets.
        net = sum(token.depth_change for token in (*line.lead, *line.assign))
        to_close = -net
        while to_close > 0 and steps:
            reduction = min(to_close, steps[-1])
            to_close -= reduction
            steps[-1] -= reduction
            if steps[-1] == 0:
                steps.pop()
        line.lead[0].spaces = 2 * len(steps)
        if net > 0:
            steps.append(net)


def _align_cells(
    lines: list[_Line],
    get_cell: Callable[[_Line], list[_Token]],
    get_tokens_before: Callable[[_Line], list[_Token]],
) -> None:
    """Align one cell of consecutive lines.

    It starts one space after the widest text before it.
    """
    for has_cell, neighbours in groupby(lines, lambda line: bool(get_cell(line))):
        chain = list(neighbours) if has_cell else []
        widths = [
            sum(t.spaces + count_clusters(t.text) for t in get_tokens_before(line))
            for line in chain
        ]
        for line, width in zip(chain, widths, strict=True):
            get_cell(line)[0].spaces = max(widths) - width + 1
