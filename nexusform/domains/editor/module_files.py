"""Files of one directory as in the editor.

The module finds declarations and their occurrences, renames them and offers quick fixes. It works
on syntax trees, not on a checked configuration, since text being edited is often invalid.
"""

import re
from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import Struct

from nexusform.configuration.loader import NATIVE
from nexusform.diagnostics.diagnostic import Diagnostic, SourceFile, Span, extract_suggested_name
from nexusform.files.regular_files import Confinement, read_regular
from nexusform.language.parser import parse_file
from nexusform.language.references import list_traversals
from nexusform.language.syntax.syntax_nodes import (
    Attribute,
    Block,
    Body,
    Traversal,
    TraverseAttribute,
)
from nexusform.language.syntax.token_stream import CURLY_QUOTES
from nexusform.resources.address import MODE_PREFIXES, MODES, render_moved_block

_MAX_FILE_BYTES: Final = 16 * 1024 * 1024  # bytes
# A step of a reference, or a word of a header.
_NAME: Final = re.compile(rb"[\w-]+")
_ID: Final = re.compile(rb"[\w./:-]+")
# How alike names are, 0 to 1.
_MIN_SIMILARITY: Final = 0.6
_IDENTIFIER: Final = re.compile(r"[^\W\d][\w-]*")


class FileRange(NamedTuple):
    """Part of a file in bytes of its UTF-8 form; `end` is exclusive."""

    path: str
    start: int
    end: int


class Symbol(NamedTuple):
    """Declaration in a module.

    `kind` is variable, local, output, module, provider, resource or data; `type` is that of a
    resource or data source, "" otherwise.
    """

    kind: str
    type: str
    name: str

    @property
    def reference(self) -> str:
        """Reference to the symbol in expressions.

        Examples are `var.size`, `nexus_rack.a` and `data.nexus_rack.b`.
        """
        if self.kind in MODES:
            return f"{MODE_PREFIXES[MODES[self.kind]]}{self.type}.{self.name}"
        return f"{_ROOTS.get(self.kind, self.kind)}.{self.name}"


class Occurrence(NamedTuple):
    """Occurrence of a symbol; with `is_declaration` it is the declaration."""

    symbol: Symbol
    range: FileRange
    is_declaration: bool = False


class ModuleText(Struct, frozen=True):
    """Native files of a directory by absolute path, with their syntax trees."""

    files: Mapping[str, SourceFile]
    trees: Mapping[str, Body]

    def list_occurrences(self) -> Iterator[Occurrence]:
        """Yield every occurrence of a symbol of the module, declared or not."""
        for path, tree in self.trees.items():
            text = self.files[path].text.encode()
            for block in tree.blocks:
                yield from _list_declarations(path, text, block)
                for traversal in _list_traversals(block):
                    yield from _resolve_traversal_to_symbol(path, text, traversal)

    def list_symbols(self) -> dict[Symbol, FileRange]:
        """Return the declarations of the module with their ranges, in the order of the files."""
        return {item.symbol: item.range for item in self.list_occurrences() if item.is_declaration}

    def find_occurrence(self, path: str, offset: int) -> Occurrence | None:
        """Return the name at a byte of a file, as occurrence of a symbol.

        The byte may also be just after the name.
        """
        for occurrence in self.list_occurrences():
            if (
                occurrence.range.path == path
                and occurrence.range.start <= offset <= occurrence.range.end
            ):
                return occurrence
        return None

    def list_blocks(self, path: str) -> tuple[Block, ...]:
        """Return the top-level blocks of a file; none for a file outside of the module."""
        return self.trees[path].blocks if path in self.trees else ()

    def find_blocks(self, path: str, offset: int) -> list[Block]:
        """Return the blocks around a byte of a file, outermost first."""
        blocks: list[Block] = []
        candidates = self.list_blocks(path)
        while True:
            enclosing_block = next(
                (
                    block
                    for block in candidates
                    if block.span.start.byte <= offset < block.span.end.byte
                ),
                None,
            )
            if enclosing_block is None:
                return blocks
            blocks.append(enclosing_block)
            candidates = get_native_body(enclosing_block).blocks

    def find_attribute(self, path: str, offset: int) -> Attribute | None:
        """Return the argument at a byte of a file, or None.

        None means that there is no argument, or that the file is unknown.
        """
        if path not in self.trees:
            return None
        blocks = self.find_blocks(path, offset)
        body = get_native_body(blocks[-1]) if blocks else self.trees[path]
        return next(
            (attribute for attribute in body.attributes if is_within(attribute.span, offset)), None
        )

    def find_declaration_block(self, symbol: Symbol) -> Block | None:
        """Return the top-level block with the declaration of a symbol (for a local, `locals`).

        Return None if the symbol is undeclared.
        """
        range_in_file = self.list_symbols().get(symbol)
        if range_in_file is None:
            return None
        start = range_in_file.start
        blocks = self.list_blocks(range_in_file.path)
        return next(
            (block for block in blocks if block.span.start.byte <= start < block.span.end.byte),
            None,
        )


def read_module(
    directory: str, unsaved_texts: Mapping[str, str], confinement: Confinement
) -> ModuleText:
    """Read the readable files of a directory.

    `unsaved_texts` (by absolute path) replace those on disk.
    """
    paths = set(map(str, Path(directory).glob(f"*{NATIVE}")))
    paths |= {
        path
        for path in unsaved_texts
        if path.endswith(NATIVE) and str(Path(path).parent) == directory
    }
    files = {}
    for path in sorted(paths):
        text = (
            unsaved_texts[path]
            if path in unsaved_texts
            else _read_configuration_file(path, confinement)
        )
        if text is not None:
            files[path] = SourceFile(path, text)
    trees = {path: _parse_configuration_file(path, source.text) for path, source in files.items()}
    return ModuleText(files, trees)


def _read_configuration_file(path: str, confinement: Confinement) -> str | None:
    """Return the text of a file, None if it cannot be read or is not UTF-8."""
    try:
        return read_regular(confinement.resolve_path_of_operator(path), _MAX_FILE_BYTES).decode()
    except (OSError, UnicodeDecodeError):
        return None


@lru_cache(maxsize=256)
def _parse_configuration_file(path: str, text: str) -> Body:
    """Return the syntax tree of a file, without its syntax errors.

    Unchanged files are not parsed again.
    """
    return parse_file(SourceFile(path, text))[0]


def is_within(span: Span, offset: int) -> bool:
    """Return whether a byte is in a span, including its end."""
    return span.start.byte <= offset <= span.end.byte


def get_native_body(block: Block) -> Body:
    """Return the body of a block of a native file; the editor reads no JSON."""
    assert isinstance(block.body, Body), "native files only"
    return block.body


_SINGLE_LABEL_BLOCKS: Final = ("variable", "output", "module", "provider")


_ROOTS: Final = {"variable": "var", "local": "local", "module": "module"}
_KINDS: Final = {root: kind for kind, root in _ROOTS.items()}
# Root names of expressions other than resource types.
_RESERVED_ROOTS: Final = frozenset(
    {"each", "count", "self", "path", "terraform", "nexusform", "run"}
)


def _list_declarations(path: str, text: bytes, block: Block) -> Iterator[Occurrence]:
    """Yield the names declared by a top-level block.

    Its own name, or all names in a `locals` block.
    """
    labels = block.labels
    if block.type in _SINGLE_LABEL_BLOCKS and len(labels) == 1:
        symbol = Symbol(block.type, type="", name=labels[0].value)
        yield Occurrence(symbol, _get_label_range(path, text, labels[0].span), is_declaration=True)
    elif block.type in ("resource", "data") and len(labels) == 2:
        symbol = Symbol(block.type, labels[0].value, labels[1].value)
        yield Occurrence(symbol, _get_label_range(path, text, labels[1].span), is_declaration=True)
    elif block.type == "locals":
        for local in get_native_body(block).attributes:
            range_in_file = FileRange(path, local.name_span.start.byte, local.name_span.end.byte)
            yield Occurrence(
                Symbol("local", type="", name=local.name), range_in_file, is_declaration=True
            )


def _list_traversals(block: Block) -> Iterator[Traversal]:
    """Yield the traversals in a block, except in `from` of a moved block.

    It names a former address.
    """
    body = get_native_body(block)
    for attribute in body.attributes:
        if (block.type, attribute.name) != ("moved", "from"):
            yield from list_traversals(attribute.expression)
    for inner in body.blocks:
        yield from _list_traversals(inner)


def _resolve_traversal_to_symbol(
    path: str, text: bytes, traversal: Traversal
) -> Iterator[Occurrence]:
    """Yield the symbol referenced by a traversal; nothing for names without a declaration."""
    match traversal.root.name, traversal.steps:
        case "data", (TraverseAttribute(kind), TraverseAttribute(name) as step, *_):
            yield Occurrence(Symbol("data", kind, name), _get_step_range(path, text, step))
        case root, (TraverseAttribute(name) as step, *_) if root not in {
            "data",
            *_RESERVED_ROOTS,
        }:  # `each`, `path`...
            # A root without a kind of its own is a resource type.
            symbol = (
                Symbol(_KINDS[root], type="", name=name)
                if root in _KINDS
                else Symbol("resource", root, name)
            )
            yield Occurrence(symbol, _get_step_range(path, text, step))


def _get_step_range(path: str, text: bytes, step: TraverseAttribute) -> FileRange:
    """Return the range of the name in a step such as `.name`.

    The dot and the blanks before the name are not part of it.
    """
    start = step.span.start.byte
    end = step.span.end.byte
    while start < end and text[start : start + 1] in (b".", b" ", b"\t", b"\n", b"\r"):
        start += 1
    return FileRange(path, start, end)


def _get_label_range(path: str, text: bytes, span: Span) -> FileRange:
    """Return the range of a label without its quotes; a label may be written without them."""
    start = span.start.byte
    end = span.end.byte
    quote_length = 1 if text[start : start + 1] == b'"' else 0
    return FileRange(path, start + quote_length, end - quote_length)


class TextChange(NamedTuple):
    """Replacement of a range of a file by `text`."""

    range: FileRange
    text: str


class RenameError(ValueError):
    """Reason why a symbol cannot be renamed, for the user."""


def rename_symbol(module: ModuleText, occurrence: Occurrence, name: str) -> list[TextChange]:
    """Return the text changes that rename a symbol.

    Raises RenameError. A resource also gets a `moved` block: without one its objects would be
    destroyed and re-created elsewhere.
    """
    symbol = occurrence.symbol
    if not _IDENTIFIER.fullmatch(name):
        raise RenameError(
            f'"{name}" is not a valid name. Use letters, digits, _ and -, starting with a letter.'
        )
    if symbol.kind == "provider":
        raise RenameError("Providers cannot be renamed.")
    new_symbol = symbol._replace(name=name)
    declarations = module.list_symbols()
    if symbol not in declarations:
        raise RenameError(f"{symbol.reference} is not declared in this module.")
    # The same name again is no error.
    if new_symbol in declarations and new_symbol != symbol:
        raise RenameError(f"{new_symbol.reference} is already declared.")
    changes = [
        TextChange(item.range, name) for item in module.list_occurrences() if item.symbol == symbol
    ]
    if symbol.kind == "resource" and new_symbol != symbol:
        block = module.find_declaration_block(symbol)
        assert block is not None, "it is declared"
        changes.append(create_moved_block(block, symbol.reference, new_symbol.reference))
    return changes


def create_moved_block(block: Block, old: str, new: str) -> TextChange:
    """Return the change to insert a `moved` block (from `old` to `new`) after `block`."""
    path = block.span.filename
    end = block.span.end.byte
    return TextChange(FileRange(path, end, end), f"\n\n{render_moved_block(old, new)}")


class QuickFix(NamedTuple):
    """Text change with its title for the editor's list."""

    title: str
    change: TextChange


def list_quick_fixes(module: ModuleText, finding: Diagnostic) -> Iterator[QuickFix]:
    """Yield the possible changes for a finding: another name, straight quotes, a `moved` block.

    Often there is none.
    """
    span = finding.subject
    if span is None or span.filename not in module.files:
        # No place in the module to change.
        return
    text = module.files[span.filename].text.encode()
    range_in_file = FileRange(span.filename, span.start.byte, span.end.byte)
    suggested_name = extract_suggested_name(finding.detail)
    if suggested_name:
        yield from _suggest_name(text, range_in_file, suggested_name)
    if finding.id == "invalid-character":
        # Start of the line.
        start = text.rfind(b"\n", 0, range_in_file.start) + 1
        end = text.find(b"\n", start)
        # -1: the last line.
        line = text[start : end if end >= 0 else len(text)].decode(errors="replace")
        new_line = "".join('"' if letter in CURLY_QUOTES else letter for letter in line)
        if new_line != line:
            line_range = FileRange(range_in_file.path, start, start + len(line.encode()))
            yield QuickFix("Replace by straight quotes", TextChange(line_range, new_line))
    # Addresses of a resource renamed without a `moved` block.
    move = finding.extra.get("moved")
    blocks = module.find_blocks(range_in_file.path, range_in_file.start)
    if move and blocks:
        old = str(move["from"])
        new = str(move["to"])
        yield QuickFix(
            f"Add a moved block from {old} to {new}", create_moved_block(blocks[0], old, new)
        )


def _suggest_name(text: bytes, range_in_file: FileRange, name: str) -> Iterator[QuickFix]:
    """Yield a fix to replace the most similar word of the range by `name`.

    Nothing without a word similar enough.
    """
    similarities: list[tuple[float, re.Match[bytes]]] = []
    # A name is compared with each step of a reference, an id such as `a/b.c` with whole ids.
    pattern = _NAME if _NAME.fullmatch(name.encode()) else _ID
    for word in pattern.finditer(text, range_in_file.start, range_in_file.end):
        current_word = word[0].decode(errors="replace").casefold()
        similarities.append((SequenceMatcher(None, current_word, name.casefold()).ratio(), word))
    if not similarities:
        return
    best_ratio, word = max(similarities, key=lambda ratio_and_word: ratio_and_word[0])
    # Else the word at fault is uncertain.
    is_unique = sum(ratio == best_ratio for ratio, _ in similarities) == 1
    current_word = word[0].decode(errors="replace")
    if best_ratio >= _MIN_SIMILARITY and is_unique and current_word != name:
        location = FileRange(range_in_file.path, word.start(), word.end())
        yield QuickFix(f'Replace "{current_word}" by "{name}"', TextChange(location, name))
