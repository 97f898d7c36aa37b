"""Changes of objects and outputs in OpenTofu's layout, and groups of similar ones.

The module also renders the outputs of the short plan.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from nexusform.diagnostics.names import escape_control_characters, escape_name
from nexusform.diagnostics.phrases import enclose, format_count, select_word_form
from nexusform.plans.plan import Change, Plan
from nexusform.rendering.notation.colours import (
    PLAIN,
    Painter,
    count_columns,
    fill_to_width,
    render_symbol,
    truncate_around,
)
from nexusform.rendering.notation.hcl_text import (
    SENSITIVE,
    format_attribute_name,
    format_scalar,
    quote_string,
)
from nexusform.rendering.report.change_stanzas import REJECTED, ChangeStanza
from nexusform.rendering.report.difference_tree import (
    REPLACED,
    DifferenceNode,
    NodeKind,
    measure_name_width,
)
from nexusform.rendering.report.plan_sentences import format_headline, format_headline_address

_BLANK: Final = "    "

_NOTES: Final = {
    "sensitive": (
        "# Warning: this attribute value will be marked as sensitive and will not",
        "# display in UI output after applying this change.",
    ),
    "exposed": (
        "# Warning: this attribute value will no longer be marked as sensitive",
        "# after applying this change.",
    ),
}
SIGN_PATTERN: Final = re.compile(r"^( *)([-+~])( |$|/[-+] )")
_HEREDOC_START: Final = re.compile(r"( *)(?:[-+~] )?\S.*<<-EOT(?: #.*)?")
# Number of columns of a nesting level; a sign is in the third of them.
_LEVEL_WIDTH: Final = 4
_MAX_OUTPUTS: Final = 20
_MAX_OUTPUT_LINES: Final = 3
_MAX_UPDATE_LINES: Final = 5
# Of a longer output, if it is updated.
_MAX_CHANGED_LINES: Final = 4
_ARROW: Final = " -> "
_KINDS_WITH_PARTS: Final = frozenset(
    {NodeKind.MAP, NodeKind.OBJECT, NodeKind.LIST, NodeKind.SET, NodeKind.TEXT}
)


def render_stanza(stanza: ChangeStanza, paint: Painter = PLAIN) -> str:
    """Render comment lines, header and body without a final newline.

    `destroyed` and `replaced` are highlighted.
    """
    headline = escape_name(stanza.headline)
    front, _, last_word = headline.rpartition(" ")
    # `will not be destroyed`.
    if last_word in ("destroyed", "replaced") and "not" not in front:
        headline = f"{front} {paint(last_word, 'bold', 'red')}"
    lines = [f"{paint(f'  # {escape_name(stanza.address)}', 'bold')} {headline}"]
    lines += [f"  # {escape_name(text)}" for text in stanza.comments]
    lines.append(f"{render_symbol(stanza.symbol, paint)}{stanza.header} {{")
    lines += _DifferenceRenderer(paint).render_body(stanza.body, 0)
    lines.append(f"{_BLANK}}}")
    return "\n".join(lines)


def render_outputs(nodes: Iterable[DifferenceNode], paint: Painter = PLAIN) -> list[str]:
    """Render changes of outputs in aligned lines, with nested values below."""
    outputs = list(nodes)
    width = max((measure_name_width(output.name) for output in outputs), default=0)
    # The outputs are inside of no block.
    return _DifferenceRenderer(paint).render_attributes(outputs, level=-1, width=width)


def render_body_lines(node: DifferenceNode, paint: Painter = PLAIN) -> list[str]:
    """Render the lines of a block body, indented as inside a stanza."""
    lines: list[str] = []
    for text in _DifferenceRenderer(paint).render_body(node, 0):
        lines += text.split("\n")
    return lines


class _DifferenceRenderer:
    """Renderer of difference trees; `level` is the nesting depth of a node."""

    def __init__(self, paint: Painter) -> None:
        """Render the signs and notes of lines once, with their colours."""
        self._paint = paint
        self._signs = {sign: render_symbol(sign, paint) for sign in ("+", "-", "~", "", REPLACED)}
        self._arrow = f" {paint('->', 'yellow')} "
        self._null_arrow = f"{self._arrow}{paint('null', 'grey')}"
        self._replacement_note = f" {paint('# forces replacement', 'red')}"

    def render_body(self, node: DifferenceNode, level: int) -> list[str]:
        """Render the lines inside the braces: attributes, hidden counts, then nested blocks."""
        lines = self.render_attributes(node.children, level, node.width)
        lines += self._render_hidden_count(node.hidden, "attribute", level + 1)
        previous = ""
        for block in node.blocks:
            # No blank line between blocks of one type.
            if lines and block.name != previous:
                lines.append("")
            previous = block.name
            lines += self._render_block(block, level + 1)
        if node.hidden_blocks:
            lines += [""] if lines else []
            lines += self._render_hidden_count(node.hidden_blocks, "block", level + 1)
        return lines

    def _render_block(self, node: DifferenceNode, level: int) -> list[str]:
        """Render the lines of a nested block.

        A group of blocks unknown before apply is one line with a value.
        """
        margin = _BLANK * level
        label = f" {quote_string(node.label)}" if node.label else ""
        header = f"{margin}{self._signs[node.symbol]}{format_attribute_name(node.name)}{label}"
        if node.kind is not NodeKind.BLOCK:
            return [f"{header} {self.render_value(node, level, show_null=False)}"]
        replacement_note = self._replacement_note if node.forces_replacement else ""
        inner = self.render_body(node, level)
        if not inner:
            return [f"{header} {{}}{replacement_note}"]
        # The brace is below the name.
        return [f"{header} {{{replacement_note}", *inner, f"{margin}{_BLANK}}}"]

    def render_attributes(
        self,
        nodes: Iterable[DifferenceNode],
        level: int,
        width: int,
        *,
        is_map: bool = False,
        show_null: bool = True,
    ) -> list[str]:
        """Render attributes, or with `is_map` map entries, aligned at `=`.

        Comments note a change of sensitivity.
        """
        margin = _BLANK * (level + 1)
        lines: list[str] = []
        for node in nodes:
            lines += [f"{margin}{_BLANK}{text}" for text in _NOTES.get(node.note, ())]
            name = fill_to_width(
                quote_string(node.name) if is_map else format_attribute_name(node.name), width
            )
            value = self.render_value(node, level + 1, show_null=show_null)
            lines.append(f"{margin}{self._signs[node.symbol]}{name} = {value}")
        return lines

    def _render_hidden_count(self, count: int, noun: str, level: int) -> list[str]:
        """Render the line about hidden parts; [] without any."""
        text = f"# ({count} unchanged {select_word_form(count, noun)} hidden)"
        return [f"{_BLANK * level}{_BLANK}{self._paint(text, 'grey')}"] if count else []

    def render_value(self, node: DifferenceNode, level: int, *, show_null: bool = True) -> str:
        """Return the text right of `=` for a changed or unchanged value: `2 -> 3`.

        It has several lines for lists, maps and texts; `level` is their nesting. With `show_null`,
        `-> null` follows a deleted value.
        """
        replacement_note = self._replacement_note if node.forces_replacement else ""
        null_note = self._null_arrow if show_null and node.symbol == "-" else ""
        # A text in place of the value.
        if node.kind is NodeKind.CONDENSED:
            return f"{node.new}{replacement_note}"
        # Its children are the old and the new value.
        if node.kind is NodeKind.TYPE_CHANGED:
            old, new = (self.render_value(child, level, show_null=False) for child in node.children)
            return f"{old}{self._arrow}{new}{replacement_note}"
        opening, lines, closing = self._render_value_parts(node, level)
        if not lines:
            return f"{opening}{closing}{null_note}{replacement_note}"
        return "\n".join(
            [
                f"{opening}{replacement_note}",
                *lines,
                f"{_BLANK * level}{_BLANK}{closing}{null_note}",
            ]
        )

    def _render_value_parts(self, node: DifferenceNode, level: int) -> tuple[str, list[str], str]:
        """Return the first line of a value, the lines between, and the last line.

        The last line comes without its margin. A value of one line has only the first. Brackets or
        markers of texts enclose the others.
        """
        match node.kind:
            case NodeKind.LEAF if node.symbol == "~":
                return f"{format_scalar(node.old)}{self._arrow}{format_scalar(node.new)}", [], ""
            case NodeKind.LEAF:
                # A deleted value has no new one.
                return format_scalar(node.old if node.symbol == "-" else node.new), [], ""
            case NodeKind.SENSITIVE:
                return SENSITIVE, [], ""
            case NodeKind.JSON:
                child = node.children[0]
                # Only the whitespace of the texts differs.
                is_equal_data = node.symbol == "~" and not child.symbol
                note = f" {self._paint('# whitespace changes', 'grey')}" if is_equal_data else ""
                # "+" and "-" are before the attribute.
                sign = self._signs["~" if child.symbol == "~" else ""]
                value = self.render_value(child, level + 1, show_null=False)
                return f"jsonencode({note}", [f"{_BLANK * (level + 1)}{sign}{value}"], ")"
            case NodeKind.TEXT:
                return "<<-EOT", self._render_text_lines(node, level), "EOT"
            case NodeKind.LIST | NodeKind.SET:
                return "[", self._render_elements(node, level), "]"
            case _:
                return "{", self._render_entries(node, level), "}"

    def _render_elements(self, node: DifferenceNode, level: int) -> list[str]:
        """Render a line per element of a list or set.

        Counts of hidden elements are at their position.
        """
        margin = _BLANK * (level + 1)
        lines: list[str] = []
        for child in node.children:
            if child.kind is NodeKind.GAP:
                lines += self._render_hidden_count(child.hidden, "element", level + 1)
            else:
                value = self.render_value(child, level + 1, show_null=False)
                lines.append(f"{margin}{self._signs[child.symbol]}{value},")
        return [*lines, *self._render_hidden_count(node.hidden, "element", level + 1)]

    def _render_entries(self, node: DifferenceNode, level: int) -> list[str]:
        """Render the entries of a map or the attributes of an object.

        Then the count of hidden ones.
        """
        is_map = node.kind is NodeKind.MAP
        # With the quotation marks of keys.
        width = node.width + 2 if is_map else node.width
        lines = self.render_attributes(node.children, level, width, is_map=is_map, show_null=False)
        return [
            *lines,
            *self._render_hidden_count(
                node.hidden, "element" if is_map else "attribute", level + 1
            ),
        ]

    def _render_text_lines(self, node: DifferenceNode, level: int) -> list[str]:
        """Render the lines of a multi-line text with their signs."""
        margin = _BLANK * (level + 1)
        lines = []
        for line in node.children:
            text = escape_control_characters(str(line.old if line.symbol == "-" else line.new))
            # A created or deleted text has its sign at the attribute only.
            sign = self._signs[line.symbol] if node.symbol == "~" else _BLANK
            lines.append(f"{margin}{sign}{text}".rstrip())
        return lines


class StanzaGroup(Struct, frozen=True):
    """One rendered stanza, and the addresses of stanzas that differ in their own names only."""

    text: str
    other_addresses: tuple[str, ...]


def pair_stanzas(
    plan: Plan, stanzas: Iterable[ChangeStanza]
) -> list[tuple[Change, ChangeStanza | None]]:
    """Return every change with its stanza, found by address and headline.

    An unchanged object has no stanza (None).
    """
    by_headline = {
        (stanza.address, stanza.headline.removesuffix(REJECTED)): stanza for stanza in stanzas
    }
    keys = [(format_headline_address(change), format_headline(change)) for change in plan.changes]
    return [(change, by_headline.get(key)) for change, key in zip(plan.changes, keys, strict=True)]


def _replace_names(body: str, change: Change) -> str:
    """Replace the names of an object in a text by a null character.

    Its quoted id, name, instance key and (if unchanged) site.
    """
    sides = [side for side in (change.before, change.after) if side is not None]
    names = [
        change.address.key,
        *(side.get(attribute) for side in sides for attribute in ("id", "name")),
    ]
    sites = {side.get("site_id") for side in sides}
    # The object stays on its site.
    if len(sites) == 1:
        names += sites
    nonempty_names = [name for name in names if isinstance(name, str) and name]
    # With either quotation marks.
    texts = {quote(name) for name in nonempty_names for quote in (quote_string, repr)}
    # The longest may contain the others.
    for text in sorted(texts, key=len, reverse=True):
        body = body.replace(text, "\0")
    return body


def group_stanzas(pairs: Iterable[tuple[Change, ChangeStanza | None]]) -> list[StanzaGroup]:
    """Group equal changes, to show their text once.

    `pairs` have a change and its stanza (the lines about it), None for a change without lines.
    Stanzas are equal if they differ only in the names of their objects: id, name, instance key and
    site. A group has the text of its first stanza and the addresses of the others.
    """
    # First stanza of each group, by its text with the names masked.
    texts: dict[str, str] = {}
    # Of the further objects, by the same key.
    other_addresses: dict[str, list[str]] = {}
    for change, stanza in pairs:
        # Nothing to show for the change.
        if stanza is None:
            continue
        text = render_stanza(stanza)
        # Without the address in the first line, and without the name in the header.
        body = text.partition("\n")[2].replace(stanza.header, change.address.type, 1)
        group_key = f"{stanza.headline}\n{_replace_names(body, change)}"
        if group_key in texts:
            other_addresses[group_key].append(stanza.address)
        else:
            texts[group_key] = text
            other_addresses[group_key] = []
    return [
        StanzaGroup(text, tuple(other_addresses[group_key])) for group_key, text in texts.items()
    ]


def mark_text_lines(text: str) -> Iterator[tuple[str, bool]]:
    """Yield pairs of a line of stanzas and a boolean.

    It is True for an unchanged line inside of a multi-line text (`<<-EOT`). A dash at its beginning
    belongs to the text and is not the sign of a change.
    """
    # Start column of the current text; 0 outside of texts.
    text_column = 0
    for line in text.split("\n"):
        # A changed line of a text has its sign half a level right of `text_column`.
        sign = SIGN_PATTERN.match(line)
        is_changed = sign is not None and sign.end(1) == text_column + _LEVEL_WIDTH // 2
        yield line, bool(text_column) and not is_changed
        if not text_column:
            match = _HEREDOC_START.fullmatch(line)
            # A text is one level deeper than its attribute.
            text_column = (len(match[1]) // _LEVEL_WIDTH + 1) * _LEVEL_WIDTH if match else 0
        elif line.startswith(f"{' ' * text_column}EOT"):
            text_column = 0


def render_short_outputs(
    outputs: Sequence[DifferenceNode], width: int, paint: Painter
) -> list[str]:
    """Render changes of outputs with aligned names.

    Values too long or too wide become numbers of elements, with the first changed lines of an
    update.
    """
    visible_outputs = outputs[:_MAX_OUTPUTS]
    name_width = max(
        (count_columns(format_attribute_name(output.name)) for output in visible_outputs), default=0
    )
    lines: list[str] = []
    for output in visible_outputs:
        value_lines = "\n".join(render_outputs([output], paint)).split("\n")
        name = fill_to_width(format_attribute_name(output.name), name_width)
        front = f"{render_symbol(output.symbol, paint)}{name} ="
        max_lines = _MAX_UPDATE_LINES if output.symbol == "~" else _MAX_OUTPUT_LINES
        if len(value_lines) > max_lines or max(map(count_columns, value_lines)) > width:  # too long
            lines.append(f"{front} {_summarize_change(output, value_lines)}")
            lines += (
                _list_changed_texts(output, width, paint)
                if output.kind is NodeKind.LEAF
                else _list_changed_lines(output, value_lines, width)
            )
        elif len(value_lines) == 1:
            # The name is aligned with the other names.
            lines.append(f"{front}{value_lines[0].partition(' =')[2]}")
        else:
            lines += value_lines
    if len(outputs) > len(visible_outputs):
        lines.append(
            f"    and {format_count(len(outputs) - len(visible_outputs), 'more output')}; "
            "-details shows each."
        )
    return lines


def _list_changed_texts(output: DifferenceNode, width: int, paint: Painter) -> list[str]:
    """Return the old and the new text of a changed value, truncated around the first difference.

    There are none for a new or a deleted value, and for one that is not wholly known.
    """
    if output.symbol != "~" or not (isinstance(output.old, str) and isinstance(output.new, str)):
        return []
    # Without the quotation marks at the ends.
    old, new = format_scalar(output.old)[1:-1], format_scalar(output.new)[1:-1]
    start = _count_equal(old, new)
    end = _count_equal(old[start:][::-1], new[start:][::-1])
    lines = []
    for symbol, text in (("-", old), ("+", new)):
        front = f"{_BLANK}{render_symbol(symbol, paint)}"
        stop = len(text) - end
        parts = (f'"{text[:start]}', text[start:stop], f'{text[stop:]}"')
        lines.append(front + "".join(truncate_around(parts, width - count_columns(front))))
    return lines


def _count_equal(first: str, second: str) -> int:
    """Return the number of equal characters at the start of two texts."""
    pairs = zip(first, second, strict=False)
    return next(
        (index for index, (a, b) in enumerate(pairs) if a != b), min(map(len, (first, second)))
    )


def _list_changed_lines(
    output: DifferenceNode, value_lines: Sequence[str], width: int
) -> list[str]:
    """Return the first changed lines of a long value, with the number of further ones.

    They are those of an update of parts: a new or another value has no unchanged ones.
    """
    is_update = output.symbol == "~" and output.kind in _KINDS_WITH_PARTS
    if not is_update:
        return []
    changed_lines = [line for line in value_lines[1:] if SIGN_PATTERN.match(line)]
    if any(count_columns(line) > width for line in changed_lines[:_MAX_CHANGED_LINES]):
        return []
    shown_lines = changed_lines[:_MAX_CHANGED_LINES]
    more = len(changed_lines) - len(shown_lines)
    if more:
        shown_lines.append(f"        and {format_count(more, 'more line')}; -details shows each.")
    return shown_lines


def _summarize_change(output: DifferenceNode, value_lines: Sequence[str]) -> str:
    """Return the summary of a long value, with the short side of a change of its type."""
    summary = _summarize_value(output)
    if output.symbol != "~" or output.kind in _KINDS_WITH_PARTS:
        return summary
    old_text = value_lines[0].partition(" = ")[2].partition(_ARROW)[0]
    new_text = value_lines[-1].rpartition(_ARROW)[2]
    if value_lines[0].endswith((f"{_ARROW}{{", f"{_ARROW}[")):
        return f"{old_text}{_ARROW}{summary}"
    if value_lines[-1].startswith(("    }", "    ]")) and new_text != value_lines[-1]:
        return f"{summary}{_ARROW}{new_text}"
    return summary


def _count_lines(output: DifferenceNode, total: int) -> int:
    """Return the number of lines of a text; a newline at its end begins no further one."""
    lines = [child for child in output.children if child.symbol != "-"] or output.children
    return total - ("" in (lines[-1].old, lines[-1].new))


def _summarize_value(output: DifferenceNode) -> str:
    """Return the summary of a value too long to show.

    It has the number of parts, and the numbers of changed ones. Examples are `{5 keys}`,
    `[12 elements, 2 of them change]` and `{3 keys, 1 of them new, 2 removed}`. The total is that of
    the new value, or of the old one if it is deleted.
    """
    symbols = Counter(child.symbol for child in output.children)
    # Unchanged children are hidden. In a list, a gap takes the place of `child.hidden` of them.
    total = output.hidden + sum(
        child.hidden if child.kind is NodeKind.GAP else 1 for child in output.children
    )
    note = ""
    if output.symbol == "~":
        removed = symbols["-"]
        added = symbols["+"]
        changed = symbols["~"]
        # The children include removed elements, but the new value does not.
        total -= removed
        note += enclose(", ", added, " of them new")
        # If all change, the symbol says it.
        if 0 < changed < total:
            note += f", {changed} of them {select_word_form(changed, 'changes', 'change')}"
        note += enclose(", ", removed, " removed")
    match output.kind:
        case NodeKind.MAP | NodeKind.OBJECT:
            return f"{{{format_count(total, 'key')}{note}}}"
        case NodeKind.LIST | NodeKind.SET:
            return f"[{format_count(total, 'element')}{note}]"
        case NodeKind.TEXT:
            return f"({format_count(_count_lines(output, total), 'line')}{note})"
        case _:
            return "(a long value)"
