"""The files of one directory as they stand in an editor: what they declare, where it is named,
and what changes when it gets another name.

Parsed trees are looked at, not a checked configuration: text that is being typed is rarely right.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import Struct

from nexusform.address import moved_block
from nexusform.configuration.loader import NATIVE
from nexusform.language.parser import parse_file
from nexusform.language.references import traversals
from nexusform.language.syntax.nodes import Attribute, Block, Body, Traversal, TraverseAttribute
from nexusform.regular_files import Confinement, read_regular
from nexusform.source import SourceFile, Span

_LARGEST: Final = 16 * 1024 * 1024  # bytes


class Range(NamedTuple):
    """A piece of a file, in bytes of its UTF-8 form; `end` is exclusive."""

    path: str
    start: int
    end: int


class Symbol(NamedTuple):
    """Something that a module declares: `kind` is variable, local, output, module, provider, resource or
    data; `type` is that of a resource or data source, "" otherwise.
    """

    kind: str
    type: str
    name: str

    @property
    def reference(self) -> str:
        """How expressions name it."""
        if self.kind in ("resource", "data"):
            return f"{'data.' if self.kind == 'data' else ''}{self.type}.{self.name}"
        return f"{_ROOTS.get(self.kind, self.kind)}.{self.name}"


class Naming(NamedTuple):
    """One place that names a symbol; `declares`: where it is declared."""

    symbol: Symbol
    range: Range
    declares: bool = False


class ModuleText(Struct, frozen=True):
    """The native files of a directory by absolute path, with their trees."""

    files: Mapping[str, SourceFile]
    trees: Mapping[str, Body]

    def namings(self) -> Iterator[Naming]:
        """Every place that names something that the module declares or should declare."""
        for path, tree in self.trees.items():
            text = self.files[path].text.encode()
            for block in tree.blocks:
                yield from _declared(path, text, block)
                yield from _named(path, text, block)

    def symbols(self) -> dict[Symbol, Range]:
        """What the module declares, and where; in the order of the files."""
        return {naming.symbol: naming.range for naming in self.namings() if naming.declares}

    def naming_at(self, path: str, at: int) -> Naming | None:
        """What is named at a byte of a file, the end of the name included."""
        for naming in self.namings():
            if naming.range.path == path and naming.range.start <= at <= naming.range.end:
                return naming
        return None

    def blocks_at(self, path: str, at: int) -> list[Block]:
        """The blocks around a byte of a file, the outermost first."""
        blocks: list[Block] = []
        body: object = self.trees.get(path)
        while isinstance(body, Body):
            around = next((b for b in body.blocks if _holds(b, at)), None)
            if around is None:
                break
            blocks.append(around)
            body = around.body
        return blocks

    def attribute_at(self, path: str, at: int) -> Attribute | None:
        """The argument in which a byte of a file stands."""
        blocks = self.blocks_at(path, at)
        body: object = blocks[-1].body if blocks else self.trees.get(path)
        if not isinstance(body, Body):
            return None
        return next(
            (each for each in body.attributes if _within(each.span.start.byte, at, each.span.end.byte)), None
        )

    def block_of(self, symbol: Symbol) -> Block | None:
        """The block that declares a symbol; of a local the `locals` block."""
        where = self.symbols().get(symbol)
        blocks = self.blocks_at(where.path, where.start) if where is not None else []
        return blocks[0] if blocks else None


def read_module(directory: str, unsaved: Mapping[str, str], confinement: Confinement) -> ModuleText:
    """The files of a directory, those in `unsaved` (by absolute path) as they stand in an editor."""
    paths = {str(path) for path in Path(directory).glob(f"*{NATIVE}")}
    paths |= {path for path in unsaved if path.endswith(NATIVE) and str(Path(path).parent) == directory}
    files = {}
    for path in sorted(paths):
        text = unsaved[path] if path in unsaved else _text(path, confinement)
        if text is not None:
            files[path] = SourceFile(path, text)
    trees = {path: _tree(path, source.text) for path, source in files.items()}
    return ModuleText(files, trees)


def _text(path: str, confinement: Confinement) -> str | None:
    try:
        return read_regular(confinement.followed(path), _LARGEST).decode()
    except (OSError, UnicodeDecodeError):
        return None


@lru_cache(maxsize=256)
def _tree(path: str, text: str) -> Body:
    return parse_file(SourceFile(path, text))[0]


def _holds(block: Block, at: int) -> bool:
    return isinstance(block.body, Body) and _within(block.span.start.byte, at, block.span.end.byte - 1)


def _within(start: int, at: int, end: int) -> bool:
    return start <= at <= end


# --- what is declared and named ------------------------------------------------------------------

_SINGLE: Final = ("variable", "output", "module", "provider")
_ROOTS: Final = {"variable": "var", "local": "local", "module": "module"}
_KINDS: Final = {root: kind for kind, root in _ROOTS.items()}
# First names of expressions that are no resource type.
_NO_TYPES: Final = frozenset({"each", "count", "self", "path", "terraform", "nexusform", "run"})


def _declared(path: str, text: bytes, block: Block) -> Iterator[Naming]:
    """What a block declares, and where it names that."""
    labels = block.labels
    if block.type in _SINGLE and len(labels) == 1:
        yield Naming(
            Symbol(block.type, "", labels[0].value), _unquoted(path, text, labels[0].span), declares=True
        )
    elif block.type in ("resource", "data") and len(labels) == 2:
        symbol = Symbol(block.type, labels[0].value, labels[1].value)
        yield Naming(symbol, _unquoted(path, text, labels[1].span), declares=True)
    elif block.type == "locals" and isinstance(block.body, Body):
        for local in block.body.attributes:
            yield Naming(Symbol("local", "", local.name), _range(path, local.name_span), declares=True)


def _named(path: str, text: bytes, block: Block) -> Iterator[Naming]:
    for traversal in _traversals(block):
        naming = _naming(path, text, traversal)
        # `from` of a moved block names what is no more.
        if naming is not None and not (block.type == "moved" and _is_source(block, traversal)):
            yield naming


def _traversals(block: Block) -> Iterator[Traversal]:
    if not isinstance(block.body, Body):
        return
    for attribute in block.body.attributes:
        yield from traversals(attribute.expression)
    for inner in block.body.blocks:
        yield from _traversals(inner)


def _is_source(block: Block, traversal: Traversal) -> bool:
    assert isinstance(block.body, Body), "native files only"
    source = next((each for each in block.body.attributes if each.name == "from"), None)
    return source is not None and source.span.start <= traversal.span.start < source.span.end


def _naming(path: str, text: bytes, traversal: Traversal) -> Naming | None:
    """What a reference names, by its first words; None for names that nobody declares."""
    names = [step for step in traversal.steps[:2] if isinstance(step, TraverseAttribute)]
    root = traversal.root.name
    if root in _KINDS and names:
        return Naming(Symbol(_KINDS[root], "", names[0].name), _undotted(path, text, names[0]))
    if root == "data" and len(names) == 2:
        return Naming(Symbol("data", names[0].name, names[1].name), _undotted(path, text, names[1]))
    if root not in _NO_TYPES and root not in _KINDS and root != "data" and names:
        return Naming(Symbol("resource", root, names[0].name), _undotted(path, text, names[0]))
    return None


def _undotted(path: str, text: bytes, step: TraverseAttribute) -> Range:
    start, end = step.span.start.byte, step.span.end.byte
    while start < end and text[start : start + 1] in (b".", b" ", b"\t", b"\n", b"\r"):
        start += 1
    return Range(path, start, end)


def _unquoted(path: str, text: bytes, span: Span) -> Range:
    whole = _range(path, span)
    quoted = text[whole.start : whole.start + 1] == b'"'
    return Range(path, whole.start + quoted, whole.end - quoted)


def _range(path: str, span: Span) -> Range:
    return Range(path, span.start.byte, span.end.byte)


# --- renaming -----------------------------------------------------------------------------------


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
    return moved_after(block, old.reference, new.reference)


def moved_after(block: Block, old: str, new: str) -> TextChange:
    """A `moved` block after another block."""
    path, end = block.span.filename, block.span.end.byte
    return TextChange(Range(path, end, end), f"\n\n{moved_block(old, new)}")
