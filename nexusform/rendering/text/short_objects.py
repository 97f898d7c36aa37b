"""Objects and outputs of the short plan: a line each, those that are alike in one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nexusform.rendering.notation.colours import Painter, columns, harmless, pad
from nexusform.rendering.notation.hcl_text import attribute_name
from nexusform.rendering.report.difference import Difference, Kind
from nexusform.rendering.report.object_rows import ObjectFold
from nexusform.rendering.text.columns import cut, hanging
from nexusform.rendering.text.stanza_text import head_symbol, output_lines
from nexusform.words import counted, form

_MOST_LINES: Final = 3  # of one object
_MOST_FOLDS: Final = 80
_MOST_OUTPUTS: Final = 20
_MOST_OUTPUT_LINES: Final = 3
_URGENT: Final = ("-", "-/+", "+/-", ".")


def object_lines(folds: Sequence[ObjectFold], width: int, paint: Painter) -> list[str]:
    """A line per fold; where there are very many, what is destroyed stands first and the rest is counted."""
    shown = list(folds)
    if len(shown) > _MOST_FOLDS:
        shown.sort(key=lambda fold: fold.symbol not in _URGENT)
        shown = shown[:_MOST_FOLDS]
    longest = max((columns(harmless(fold.label)) for fold in shown), default=0)
    indent = min(longest, width // 2) + 6
    lines: list[str] = []
    for fold in shown:
        lines += _fold(fold, indent, width, paint)
    hidden = sum(len(fold.rows) for fold in folds) - sum(len(fold.rows) for fold in shown)
    if hidden:
        lines.append(f"    and {counted(hidden, 'more object')}; -details shows each.")
    return lines


def _fold(fold: ObjectFold, indent: int, width: int, paint: Painter) -> list[str]:
    """`  + nexus_rack.rack["1".."8"]      rack1..8, 16 machines each, bom-1.7.3`."""
    label = f"{head_symbol(fold.symbol, paint)}{harmless(fold.label)}"
    words = ", ".join(word for word in fold.words if word)
    if fold.name:
        words = f"{fold.name}: {words}" if words else fold.name
    return cut(hanging(label, harmless(words), indent, width), _MOST_LINES + 1, width)


def short_output_lines(outputs: Sequence[Difference], width: int, paint: Painter) -> list[str]:
    """Changes of outputs, long values as a count of what they hold."""
    shown = outputs[:_MOST_OUTPUTS]
    longest = max((columns(attribute_name(output.name)) for output in shown), default=0)
    lines: list[str] = []
    for output in shown:
        drawn = "\n".join(output_lines([output], paint)).split("\n")
        front = f"{head_symbol(output.symbol, paint)}{pad(attribute_name(output.name), longest)} ="
        if len(drawn) > _MOST_OUTPUT_LINES or max(map(columns, drawn)) > width:
            lines.append(f"{front} {_held(output)}")
        elif len(drawn) == 1:
            lines.append(f"{front}{drawn[0].partition(' =')[2]}")
        else:
            lines += drawn
    if len(outputs) > len(shown):
        lines.append(f"    and {counted(len(outputs) - len(shown), 'more output')}; -details shows each.")
    return lines


def _held(output: Difference) -> str:
    """`{5 keys}`, `[12 elements, 2 of them change]`."""
    changed = sum(1 for child in output.children if child.symbol)
    total = changed + output.hidden + sum(1 for child in output.children if not child.symbol)
    verb = form(changed, "changes", "change")
    part = f", {changed} of them {verb}" if output.symbol == "~" and changed < total else ""
    match output.kind:
        case Kind.MAP | Kind.OBJECT:
            return f"{{{counted(total, 'key')}{part}}}"
        case Kind.LIST | Kind.SET:
            return f"[{counted(total, 'element')}{part}]"
        case Kind.TEXT:
            return f"({counted(total, 'line')}{part})"
        case _:
            return "(a long value)"
