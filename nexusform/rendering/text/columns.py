"""Lines that keep to a width: labels in a column, sentences beside them, no word broken."""

from __future__ import annotations

from nexusform.rendering.notation.colours import columns, pad, wrap

_NARROWEST = 20  # columns for a sentence beside its label; with fewer it stands below


def hanging(label: str, text: str, indent: int, width: int, gap: int = 2) -> list[str]:
    """`label`, and the text in a column that starts at `indent`.

    Beside a longer label it stands where it fits on that line, else below.
    The label may hold colours; at least `gap` spaces are beside it. Lines have no space at their end.
    """
    room = width - indent
    if room < _NARROWEST:
        indent, room = 6, width - 6
    if label and columns(label) + gap > indent and columns(label) + gap + columns(text) <= width:
        return [f"{label}{' ' * gap}{text}".rstrip()]
    wrapped = wrap(text, max(room, _NARROWEST)) if text else []
    if not wrapped:
        return [label.rstrip()]
    margin = " " * indent
    if columns(label) + gap > indent and label:
        return [label.rstrip(), *(f"{margin}{line}" for line in wrapped)]
    first, *more = wrapped
    return [f"{pad(label, indent)}{first}", *(f"{margin}{line}" for line in more)]


def cut(lines: list[str], most: int, width: int) -> list[str]:
    """At most so many lines; "..." says where more was."""
    if len(lines) <= most:
        return lines
    last = lines[most - 1]
    while columns(last) + 4 > width and " " in last.strip():
        last = last.rpartition(" ")[0]
    return [*lines[: most - 1], f"{last} ..."]
