"""One object's change in OpenTofu's layout: symbols in three columns, aligned `=`, hidden counts; and
changes that are the same but for the object's own names, put together.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from nexusform.placement_kinds.kinds import MAPS
from nexusform.plans.plan import Change, Plan
from nexusform.rendering.notation.colours import PLAIN, Painter, harmless, pad
from nexusform.rendering.notation.hcl_text import SENSITIVE, attribute_name, quoted, scalar
from nexusform.rendering.report.difference_tree import REPLACED, Difference, NodeKind, name_width
from nexusform.rendering.report.report import Report, Stanza
from nexusform.rendering.report.wording import SYMBOLS, headline, headline_address
from nexusform.schema import order_attribute
from nexusform.words import form

_COLOURS: Final = {"+": "green", "-": "red", "~": "yellow", "<=": "cyan", ".": "red"}
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


def stanza_text(stanza: Stanza, paint: Painter = PLAIN) -> str:
    """Comment lines, header and body; no newline at the end."""
    lines = [f"{paint(f'  # {harmless(stanza.address)}', 'bold')} {_headline(stanza, paint)}"]
    lines += [f"  # {harmless(text)}" for text in stanza.comments]
    lines.append(f"{head_symbol(stanza.symbol, paint)}{stanza.header} {{")
    lines += _Drawing(paint).body(stanza.body, 0)
    lines.append(f"{_BLANK}}}")
    return "\n".join(lines)


def _headline(stanza: Stanza, paint: Painter) -> str:
    front, _, last = harmless(stanza.headline).rpartition(" ")
    if last in ("destroyed", "replaced") and "not" not in front:
        return f"{front} {paint(last, 'bold', 'red')}"
    return harmless(stanza.headline)


def head_symbol(symbol: str, paint: Painter = PLAIN) -> str:
    """An action's symbol in the four columns before a header."""
    if symbol in ("-/+", "+/-"):
        first, second = symbol[0], symbol[2]
        return f"{paint(first, _COLOURS[first])}/{paint(second, _COLOURS[second])} "
    if not symbol:
        return _BLANK
    return f"{' ' * (3 - len(symbol))}{paint(symbol, _COLOURS[symbol])} "


def output_lines(nodes: Iterable[Difference], paint: Painter = PLAIN) -> list[str]:
    """Changes of outputs: one aligned line each, values below where they nest."""
    outputs = list(nodes)
    width = max((name_width(output.name) for output in outputs), default=0)
    return _Drawing(paint).attributes(outputs, -1, width)


def body_lines(node: Difference, paint: Painter = PLAIN) -> list[str]:
    """The lines of a block's body, indented as inside a stanza."""
    lines: list[str] = []
    for text in _Drawing(paint).body(node, 0):
        lines += text.split("\n")
    return lines


class _Drawing:
    """Draws difference trees; `level` is how many blocks a node stands in."""

    def __init__(self, paint: Painter) -> None:
        self._paint = paint
        self._signs = {sign: head_symbol(sign, paint) for sign in ("+", "-", "~", "", REPLACED)}
        self._arrow = f" {paint('->', 'yellow')} "
        self._null = f"{self._arrow}{paint('null', 'grey')}"
        self._forces = f" {paint('# forces replacement', 'red')}"

    # --- blocks ---

    def body(self, node: Difference, level: int) -> list[str]:
        """The lines inside the braces: attributes, what is hidden, then nested blocks."""
        lines = self.attributes(node.children, level, node.width)
        if node.hidden:
            lines.append(self._hidden(node.hidden, "attribute", level + 1))
        previous = ""
        for block in node.blocks:
            if (lines or previous) and block.name != previous:
                lines.append("")
            previous = block.name
            lines += self._block(block, level + 1)
        if node.hidden_blocks:
            lines += [""] if lines else []
            lines.append(self._hidden(node.hidden_blocks, "block", level + 1))
        return lines

    def _block(self, node: Difference, level: int) -> list[str]:
        """The lines of one nested block."""
        margin = _BLANK * level
        label = f" {quoted(node.label)}" if node.label else ""
        head = f"{margin}{self._signs[node.symbol]}{attribute_name(node.name)}{label}"
        if node.kind is not NodeKind.BLOCK:
            return [f"{head} {self.value(node, level, nulls=False)}"]
        forces = self._forces if node.forces else ""
        inner = self.body(node, level)
        if not inner:
            return [f"{head} {{}}{forces}"]
        return [f"{head} {{{forces}", *inner, f"{margin}{_BLANK}}}"]

    def attributes(self, nodes: Iterable[Difference], level: int, width: int) -> list[str]:
        """A line (or more) per attribute, `=` in one column."""
        margin = _BLANK * (level + 1)
        lines: list[str] = []
        for node in nodes:
            lines += [f"{margin}{_BLANK}{text}" for text in _NOTES.get(node.note, ())]
            name = pad(attribute_name(node.name), width)
            lines.append(f"{margin}{self._signs[node.symbol]}{name} = {self.value(node, level + 1)}")
        return lines

    def _hidden(self, count: int, word: str, level: int) -> str:
        text = f"# ({count} unchanged {form(count, word)} hidden)"
        return f"{_BLANK * level}{_BLANK}{self._paint(text, 'grey')}"

    # --- values ---

    def value(self, node: Difference, level: int, *, nulls: bool = True) -> str:
        """What stands right of `=`; `nulls` adds `-> null` to what goes."""
        forces = self._forces if node.forces else ""
        gone = self._null if nulls and node.symbol == "-" else ""
        match node.kind:
            case NodeKind.LEAF:
                return f"{self._leaf(node)}{gone}{forces}"
            case NodeKind.SENSITIVE:
                return f"{SENSITIVE}{gone}{forces}"
            case NodeKind.CONDENSED:
                return f"{node.new}{forces}"
            case NodeKind.TURNED:
                old, new = node.children
                after = self.value(new, level, nulls=False)
                return f"{self.value(old, level, nulls=False)}{self._arrow}{after}{forces}"
            case NodeKind.JSON:
                return self._json(node, level, forces, gone)
            case NodeKind.TEXT:
                return self._text(node, level, forces, gone)
            case NodeKind.LIST | NodeKind.SET:
                return self._enclosed("[]", self._elements(node, level), level, forces, gone)
            case _:
                return self._enclosed("{}", self._entries(node, level), level, forces, gone)

    def _leaf(self, node: Difference) -> str:
        if node.symbol == "-":
            return scalar(node.old)
        if node.symbol == "~":
            return f"{scalar(node.old)}{self._arrow}{scalar(node.new)}"
        return scalar(node.new)

    def _enclosed(self, brackets: str, lines: list[str], level: int, forces: str, gone: str) -> str:
        if not lines:
            return f"{brackets}{gone}{forces}"
        end = f"{_BLANK * level}{_BLANK}{brackets[1]}{gone}"
        return "\n".join([f"{brackets[0]}{forces}", *lines, end])

    def _elements(self, node: Difference, level: int) -> list[str]:
        """The lines of a list or a set."""
        margin = _BLANK * (level + 1)
        lines: list[str] = []
        for child in node.children:
            if child.kind is NodeKind.GAP:
                lines.append(self._hidden(child.hidden, "element", level + 1))
            else:
                value = self.value(child, level + 1, nulls=False)
                lines.append(f"{margin}{self._signs[child.symbol]}{value},")
        if node.hidden:
            lines.append(self._hidden(node.hidden, "element", level + 1))
        return lines

    def _entries(self, node: Difference, level: int) -> list[str]:
        """The lines of a map or an object."""
        is_map = node.kind is NodeKind.MAP
        margin = _BLANK * (level + 1)
        width = node.width + 2 if is_map else node.width
        lines: list[str] = []
        for child in node.children:
            lines += [f"{margin}{_BLANK}{text}" for text in _NOTES.get(child.note, ())]
            name = pad(quoted(child.name) if is_map else attribute_name(child.name), width)
            value = self.value(child, level + 1, nulls=False)
            lines.append(f"{margin}{self._signs[child.symbol]}{name} = {value}")
        if node.hidden:
            lines.append(self._hidden(node.hidden, "element" if is_map else "attribute", level + 1))
        return lines

    def _json(self, node: Difference, level: int, forces: str, gone: str) -> str:
        """`jsonencode(` with the structure inside."""
        child = node.children[0]
        if node.symbol == "~" and not child.symbol:
            forces = f" {self._paint('# whitespace changes', 'grey')}{forces}"
        sign = self._signs["~" if child.symbol == "~" else ""]
        inner = f"{_BLANK * (level + 1)}{sign}{self.value(child, level + 1, nulls=False)}"
        return "\n".join([f"jsonencode({forces}", inner, f"{_BLANK * level}{_BLANK}){gone}"])

    def _text(self, node: Difference, level: int, forces: str, gone: str) -> str:
        """A text of several lines as `<<-EOT`, each with its sign."""
        margin = _BLANK * (level + 1)
        changed = node.symbol == "~"
        lines = []
        for line in node.children:
            text = harmless(str(line.old if line.symbol == "-" else line.new))
            sign = self._signs[line.symbol] if changed else _BLANK
            lines.append(f"{margin}{sign}{text}".rstrip())
        end = f"{_BLANK * level}{_BLANK}EOT{gone}"
        return "\n".join([f"<<-EOT{forces}", *lines, end])


class Alike(Struct, frozen=True):
    """One change told in full, and the addresses of those like it."""

    change: Change
    others: tuple[str, ...]


class AlikeStanzas(Struct, frozen=True):
    """One stanza drawn, and the addresses of those that differ from it in their own names only."""

    text: str
    others: tuple[str, ...]


def drawn_changes(plan: Plan, report: Report) -> list[tuple[Change, Stanza | None]]:
    """Every change with its stanza, where it has one."""
    stanzas = {(stanza.address, stanza.headline): stanza for stanza in report.stanzas}
    keys = [(headline_address(change), headline(change)) for change in plan.changes]
    return [(change, stanzas.get(key)) for change, key in zip(plan.changes, keys, strict=True)]


def compared(side: Mapping[str, Any]) -> dict[str, Any]:
    """An object's attributes as far as a list of changes tells them.

    Placements have a part of their own, and the order of labelled blocks stands beside them.
    """
    orders = {order_attribute(name) for name in side}
    left_out = orders | MAPS.keys()
    return {name: plain for name, plain in side.items() if name not in left_out}


def alike_changes(plan: Plan) -> list[Alike]:
    """The changes that do something, in the plan's order of the first of each group.

    Objects that come or go are alike by type; others when the same parts change in the same way.
    """
    groups: dict[tuple[Any, ...], list[Change]] = {}
    for change in plan.changes:
        if SYMBOLS[change.action]:
            groups.setdefault(_likeness(change), []).append(change)
    return [_alike(first, others) for first, *others in groups.values()]


def _alike(change: Change, others: Iterable[Change]) -> Alike:
    return Alike(change, tuple(str(other.address) for other in others))


def _likeness(change: Change) -> tuple[Any, ...]:
    """What changes of one group have in common."""
    kind = (change.action, headline(change), change.address.type)
    if change.before is None or change.after is None:
        return kind
    before, after = compared(change.before), compared(change.after)
    own_names = _own_names(change)
    parts = []
    for name in sorted({**before, **after}):
        old, new = before.get(name), after.get(name)
        if old != new:
            parts.append((name, _masked(repr(old), own_names), _masked(repr(new), own_names)))
    return (*kind, tuple(parts))


def alike_stanzas(drawn: Iterable[tuple[Change, Stanza | None]]) -> list[AlikeStanzas]:
    """The stanzas, those that differ only in the object's own names told once."""
    texts: dict[str, str] = {}
    others: dict[str, list[str]] = {}
    for change, stanza in drawn:
        if stanza is None:
            continue
        text = stanza_text(stanza)
        body = text.partition("\n")[2].replace(stanza.header, change.address.type, 1)
        likeness = f"{stanza.headline}\n{_masked(body, _own_names(change))}"
        if likeness in texts:
            others[likeness].append(stanza.address)
        else:
            texts[likeness] = text
            others[likeness] = []
    return [AlikeStanzas(text, tuple(others[likeness])) for likeness, text in texts.items()]


def _own_names(change: Change) -> list[str]:
    """What tells the object from its siblings: id, name and instance key, as they are drawn."""
    names = [change.address.key]
    for side in (change.before, change.after):
        if side is not None:
            names += [side.get("id"), side.get("name")]
    drawn: set[str] = set()
    for name in names:
        if isinstance(name, str) and name:
            drawn |= {quoted(name), repr(name)}
    # A longer name may hold a shorter one, so it is masked first.
    return sorted(drawn, key=len, reverse=True)


def _masked(text: str, names: Sequence[str]) -> str:
    """A text with names blotted out, to be compared with that of objects of other names."""
    for name in names:
        text = text.replace(name, "\0")
    return text


# --- signs in what was drawn -------------------------------------------------------------------

SIGN: Final = re.compile(r"^( *)([-+~])( |$|/[-+] )")
_TEXT_BEGINS: Final = re.compile(r"( *)(?:[-+~] )?\S.*<<-EOT(?: #.*)?")
_LEVEL: Final = 4  # columns of a level of a stanza; a sign stands in the third of them


def own_lines(text: str) -> Iterator[tuple[str, bool]]:
    """The lines of stanzas, and of each whether it is somebody's own: a line of a text (a manifest) in which
    a dash is no sign. A sign stands only where stanzas put one.
    """
    text_column = 0  # where the lines of the text begin that this line stands in; 0 = in none
    for line in text.split("\n"):
        yield line, bool(text_column) and not _is_signed_at(line, text_column + _LEVEL // 2)
        if not text_column:
            begins = _TEXT_BEGINS.fullmatch(line)
            text_column = (len(begins.group(1)) // _LEVEL + 1) * _LEVEL if begins else 0
        elif line.startswith(f"{' ' * text_column}EOT"):
            text_column = 0


def _is_signed_at(line: str, column: int) -> bool:
    match = SIGN.match(line)
    return match is not None and match.end(1) == column
