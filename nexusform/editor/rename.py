"""Renaming what a module declares, everywhere in the module; what is renamed keeps its objects."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from nexusform.editor.module_text import ModuleText, Naming, Range, Symbol

_IDENTIFIER: Final = re.compile(r"[^\W\d][\w-]*")


class TextChange(NamedTuple):
    """`text` in place of a range of a file."""

    range: Range
    text: str


class RenameProblem(ValueError):
    """Why something cannot be renamed, for the user."""


def renamed(module: ModuleText, naming: Naming, name: str) -> list[TextChange]:
    """The changes that give a symbol another name. Raises RenameProblem.

    A resource gets a `moved` block as well: without one its objects would be destroyed and made anew,
    elsewhere.
    """
    symbol = naming.symbol
    if not _IDENTIFIER.fullmatch(name):
        raise RenameProblem(f'"{name}" is not a name: letters, digits, _ and -, beginning with a letter.')
    if symbol.kind == "provider":
        raise RenameProblem("A provider's name says which provider it is.")
    new = symbol._replace(name=name)
    declared = module.symbols()
    if symbol not in declared:
        raise RenameProblem(f"{symbol.reference} is not declared in this module.")
    if new in declared and new != symbol:
        raise RenameProblem(f"{new.reference} is declared already.")
    changes = [TextChange(each.range, name) for each in module.namings() if each.symbol == symbol]
    if symbol.kind == "resource" and new != symbol:
        changes.append(_moved(module, symbol, new))
    return changes


def _moved(module: ModuleText, old: Symbol, new: Symbol) -> TextChange:
    """A `moved` block after the resource's."""
    block = module.block_of(old)
    assert block is not None, "it is declared"
    path, end = block.span.filename, block.span.end.byte
    text = f"\n\nmoved {{\n  from = {old.reference}\n  to   = {new.reference}\n}}"
    return TextChange(Range(path, end, end), text)
