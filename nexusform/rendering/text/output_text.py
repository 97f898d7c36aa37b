"""Changes of outputs in the short plan."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from nexusform.diagnostics.phrases import enclose, format_count, select_word_form
from nexusform.rendering.notation.colours import Painter, count_columns, fill_to_width, render_symbol
from nexusform.rendering.notation.hcl_text import format_attribute_name
from nexusform.rendering.report.difference_tree import DifferenceNode, NodeKind
from nexusform.rendering.text.change_stanza_text import render_outputs

_MAX_OUTPUTS: Final = 20
_MAX_OUTPUT_LINES: Final = 3


def render_short_outputs(outputs: Sequence[DifferenceNode], width: int, paint: Painter) -> list[str]:
    """Render changes of outputs with aligned names; values too long or too wide become numbers of elements."""
    visible_outputs = outputs[:_MAX_OUTPUTS]
    name_width = max((count_columns(format_attribute_name(output.name)) for output in visible_outputs), default=0)
    lines: list[str] = []
    for output in visible_outputs:
        value_lines = "\n".join(render_outputs([output], paint)).split("\n")
        name = fill_to_width(format_attribute_name(output.name), name_width)
        front = f"{render_symbol(output.symbol, paint)}{name} ="
        if len(value_lines) > _MAX_OUTPUT_LINES or max(map(count_columns, value_lines)) > width:  # too long
            lines.append(f"{front} {_summarize_value(output)}")
        elif len(value_lines) == 1:  # aligned with the other names
            lines.append(f"{front}{value_lines[0].partition(' =')[2]}")
        else:
            lines += value_lines
    if len(outputs) > len(visible_outputs):
        lines.append(
            f"    and {format_count(len(outputs) - len(visible_outputs), 'more output')}; -details shows each."
        )
    return lines


def _summarize_value(output: DifferenceNode) -> str:
    """Return a summary of a long value: `{5 keys}`, `[12 elements, 2 of them change]`, `{3 keys, 1 of them new, 2
    removed}`. The total is that of the new value, or of the old one if it is deleted.
    """
    symbols = Counter(child.symbol for child in output.children)
    # A gap replaces hidden elements.
    total = output.hidden + sum(child.hidden if child.kind is NodeKind.GAP else 1 for child in output.children)
    note = ""
    if output.symbol == "~":
        removed, added, changed = symbols["-"], symbols["+"], symbols["~"]
        total -= removed  # the children include removed elements
        note += enclose(", ", added, " of them new")
        if 0 < changed < total:  # if all change, the symbol says it
            note += f", {changed} of them {select_word_form(changed, 'changes', 'change')}"
        note += enclose(", ", removed, " removed")
    match output.kind:
        case NodeKind.MAP | NodeKind.OBJECT:
            return f"{{{format_count(total, 'key')}{note}}}"
        case NodeKind.LIST | NodeKind.SET:
            return f"[{format_count(total, 'element')}{note}]"
        case NodeKind.TEXT:
            return f"({format_count(total, 'line')}{note})"
        case _:
            return "(a long value)"
