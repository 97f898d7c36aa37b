"""The blocks of a file and what stands in them, as an editor lists them beside the text."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from nexusform.domains.editor.module_text import ModuleText, Range
from nexusform.language.syntax.nodes import Attribute, Block, Body


class Entry(Struct, frozen=True):
    """One line of the outline. `kind` is the type of a top-level block, "block" for one inside of it, or
    "argument"; `whole` is all of it, `name_range` the part to go to.
    """

    name: str
    kind: str
    whole: Range
    name_range: Range
    inner: tuple[Entry, ...] = ()


def outline(module: ModuleText, path: str) -> tuple[Entry, ...]:
    """The entries of a file, in the order of the text."""
    tree = module.trees.get(path)
    return tuple(_in_order(tree, path, is_top=True)) if tree is not None else ()


def _in_order(body: Body, path: str, *, is_top: bool = False) -> Iterator[Entry]:
    inside: list[Block | Attribute] = [*body.attributes, *body.blocks]
    for each in sorted(inside, key=lambda one: one.span.start.byte):
        if isinstance(each, Block):
            yield _of_block(each, path, each.type if is_top else "block")
        else:
            whole = Range(path, each.span.start.byte, each.span.end.byte)
            name = Range(path, each.name_span.start.byte, each.name_span.end.byte)
            yield Entry(each.name, "argument", whole, name)


def _of_block(block: Block, path: str, kind: str) -> Entry:
    labels = [label.value for label in block.labels]
    name = " ".join([block.type, *labels])
    if kind in ("resource", "data") and len(labels) == 2:
        name = f"{'data.' if kind == 'data' else ''}{labels[0]}.{labels[1]}"
    header = block.header_span
    return Entry(
        name=name,
        kind=kind,
        whole=Range(path, header.start.byte, block.span.end.byte),
        name_range=Range(path, header.start.byte, header.end.byte),
        inner=tuple(_in_order(block.body, path)) if isinstance(block.body, Body) else (),
    )
