"""Document symbols of a file: its blocks and their content."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from nexusform.domains.editor.module_files import FileRange, ModuleText
from nexusform.language.syntax.syntax_nodes import Attribute, Block, Body


class DocumentSymbol(Struct, frozen=True):
    """Symbol of a document. `kind` is the type of a top-level block, "block" for a nested one, or "argument";
    `full_range` is its whole text, `name_range` the target of a selection.
    """

    name: str
    kind: str
    full_range: FileRange
    name_range: FileRange
    children: tuple[DocumentSymbol, ...] = ()


def list_document_symbols(module: ModuleText, path: str) -> tuple[DocumentSymbol, ...]:
    """Return the symbols of a file in source order."""
    tree = module.trees.get(path)
    return tuple(_list_symbols(tree, path, is_top=True)) if tree is not None else ()


def _list_symbols(body: Body, path: str, *, is_top: bool = False) -> Iterator[DocumentSymbol]:
    items: list[Block | Attribute] = [*body.attributes, *body.blocks]
    for item in sorted(items, key=lambda candidate: candidate.span.start.byte):
        if isinstance(item, Block):
            yield _build_block_symbol(item, path, item.type if is_top else "block")
        else:
            full_range = FileRange(path, item.span.start.byte, item.span.end.byte)
            name = FileRange(path, item.name_span.start.byte, item.name_span.end.byte)
            yield DocumentSymbol(item.name, "argument", full_range, name)


def _build_block_symbol(block: Block, path: str, kind: str) -> DocumentSymbol:
    labels = [label.value for label in block.labels]
    name = " ".join([block.type, *labels])
    if kind in ("resource", "data") and len(labels) == 2:
        name = f"{'data.' if kind == 'data' else ''}{labels[0]}.{labels[1]}"
    header = block.header_span
    return DocumentSymbol(
        name=name,
        kind=kind,
        full_range=FileRange(path, header.start.byte, block.span.end.byte),
        name_range=FileRange(path, header.start.byte, header.end.byte),
        children=tuple(_list_symbols(block.body, path)) if isinstance(block.body, Body) else (),
    )
