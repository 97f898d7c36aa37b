"""Language server: requests and notifications of the editor, with pygls.

Nothing is applied or written.
"""

import os
from bisect import bisect_right
from collections.abc import Iterable
from functools import lru_cache
from itertools import accumulate
from pathlib import Path

from lsprotocol import types as lsp
from lsprotocol.types import Diagnostic as Marker
from lsprotocol.types import Position
from msgspec import Struct, field
from msgspec.structs import replace
from pygls import uris
from pygls.exceptions import JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer

import nexusform
from nexusform.diagnostics.diagnostic import Diagnostic, SourceFile
from nexusform.diagnostics.levels import Level, get_diagnostic_level
from nexusform.diagnostics.phrases import join_texts
from nexusform.domains.editor.cursor_answers import Suggestion, build_hover_text, list_suggestions
from nexusform.domains.editor.editor_sandbox import open_editor_sandbox
from nexusform.domains.editor.module_files import (
    FileRange,
    ModuleText,
    Occurrence,
    RenameError,
    TextChange,
    get_native_body,
    list_quick_fixes,
    read_module,
    rename_symbol,
)
from nexusform.domains.editor.placement_preview import (
    PlacementPreview,
    build_saved_preview,
    list_placement_blocks,
)
from nexusform.language.formatter import format_text
from nexusform.language.syntax.syntax_nodes import Attribute, Block, Body
from nexusform.resources.address import MODE_PREFIXES, MODES
from nexusform.workflow.opening.command_context import create_editor_context
from nexusform.workflow.opening.directory_validation import validate_directory

_ITEM_KINDS = {
    "type": lsp.CompletionItemKind.Class,
    "argument": lsp.CompletionItemKind.Property,
    "block": lsp.CompletionItemKind.Struct,
    "value": lsp.CompletionItemKind.EnumMember,
    "reference": lsp.CompletionItemKind.Reference,
}
_SYMBOL_KINDS = {
    "argument": lsp.SymbolKind.Property,
    "block": lsp.SymbolKind.Struct,
    "data": lsp.SymbolKind.Interface,
    "locals": lsp.SymbolKind.Namespace,
    "module": lsp.SymbolKind.Module,
    "output": lsp.SymbolKind.Event,
    "provider": lsp.SymbolKind.Package,
    "resource": lsp.SymbolKind.Class,
    "variable": lsp.SymbolKind.Variable,
}
_SEVERITIES = {
    Level.ERROR: lsp.DiagnosticSeverity.Error,
    Level.WARNING: lsp.DiagnosticSeverity.Warning,
    Level.ADVICE: lsp.DiagnosticSeverity.Information,
    Level.NOTE: lsp.DiagnosticSeverity.Hint,
}


class EditorState(Struct):
    """State of the editor.

    It has open texts, files edited since they were saved, files with markers by directory,
    published diagnostics by file, and placement previews.
    """

    server: LanguageServer
    unsaved_texts: dict[str, str] = field(default_factory=dict)
    edited_files: set[str] = field(default_factory=set)
    marked_files: dict[str, set[str]] = field(default_factory=dict)
    published: dict[str, list[tuple[Marker, Diagnostic]]] = field(default_factory=dict)
    previews: dict[str, PlacementPreview] = field(default_factory=dict)

    def load_module(self, path: str) -> ModuleText:
        """Return the module of a file, with the unsaved texts of the editor."""
        directory = str(Path(path).parent)
        location = create_editor_context(directory, dict(os.environ))
        with open_editor_sandbox(location):
            return read_module(directory, self.unsaved_texts, location.confinement)

    def update_document(self, uri: str) -> None:
        """Update the text of a document from the editor, and check its module."""
        path = _resolve_path(uri)
        self.unsaved_texts[path] = self.server.workspace.get_text_document(uri).source
        self.publish_diagnostics(path)

    def publish_diagnostics(self, path: str) -> None:
        """Validate the module of a file and publish the diagnostics of its files.

        They include the findings of its last plan.
        """
        # The document is not stored as a file.
        if not path:
            return
        directory = str(Path(path).parent)
        location = create_editor_context(directory, dict(os.environ), self.unsaved_texts)
        with open_editor_sandbox(location):
            validation = validate_directory(location)
        by_file: dict[str, list[tuple[Marker, Diagnostic]]] = {}
        # They may have moved the lines of the findings.
        has_changes = self._has_unsaved_changes(directory)
        plan_findings = (
            () if has_changes else self.previews.get(directory, PlacementPreview()).findings
        )
        known_keys = {(finding.id, finding.subject) for finding in validation.diagnostics}
        new_findings = [
            finding for finding in plan_findings if (finding.id, finding.subject) not in known_keys
        ]
        for diagnostic in (*validation.diagnostics, *new_findings):
            # Without a location (`subject`) a diagnostic marks the start of the edited file.
            file = diagnostic.subject.filename if diagnostic.subject is not None else path
            marker = _build_marker(diagnostic, validation.sources.get(file))
            by_file.setdefault(file, []).append((marker, diagnostic))
        # Files that had markers and now have no diagnostics get an empty list, which
        # removes the markers.
        for file in {*by_file, *self.marked_files.get(directory, set()), path}:
            self.published[file] = by_file.get(file, [])
            markers = [marker for marker, _ in self.published[file]]
            parameters = lsp.PublishDiagnosticsParams(uris.from_fs_path(file) or "", markers)
            self.server.text_document_publish_diagnostics(parameters)
        self.marked_files[directory] = set(by_file)

    def update_preview(self, path: str) -> None:
        """Plan the saved files of a module, for hints and for findings of the plan."""
        # The document is no file.
        if not path:
            return
        directory = str(Path(path).parent)
        self.previews[directory] = build_saved_preview(directory)
        # To be shown next to findings of validation.
        if self.previews[directory].findings:
            self.publish_diagnostics(path)

    def _has_unsaved_changes(self, directory: str) -> bool:
        """Return whether a file of a module was changed since it was saved."""
        return any(str(Path(path).parent) == directory for path in self.edited_files)

    def get_preview(self, path: str) -> PlacementPreview:
        """Return the placement preview of the last plan of a file's module."""
        directory = str(Path(path).parent)
        preview = self.previews.get(directory, PlacementPreview())
        if not self._has_unsaved_changes(directory):
            return preview
        note = "Prediction for the saved text; unsaved changes are not included."
        return replace(
            preview, texts={key: f"{text}\n\n{note}" for key, text in preview.texts.items()}
        )


def create_server() -> LanguageServer:
    """Return the server, ready to be started."""
    server = LanguageServer(
        "nexusform", nexusform.__version__, lsp.TextDocumentSyncKind.Incremental
    )
    editor = EditorState(server)
    _register_document_handlers(server, editor)
    _register_information_handlers(server, editor)
    _register_navigation_handlers(server, editor)
    _register_edit_handlers(server, editor)
    return server


def _register_document_handlers(server: LanguageServer, editor: EditorState) -> None:
    """Register handlers that check opened and changed files, and plan opened and saved ones."""

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    def handle_open(parameters: lsp.DidOpenTextDocumentParams) -> None:
        editor.update_document(parameters.text_document.uri)
        editor.update_preview(_resolve_path(parameters.text_document.uri))

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    def handle_change(parameters: lsp.DidChangeTextDocumentParams) -> None:
        editor.edited_files.add(_resolve_path(parameters.text_document.uri))
        editor.update_document(parameters.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_SAVE)
    # A save validates, then plans.
    def handle_save(parameters: lsp.DidSaveTextDocumentParams) -> None:
        path = _resolve_path(parameters.text_document.uri)
        # This hides the findings of the previous plan, made for another text.
        editor.edited_files.add(path)
        editor.publish_diagnostics(path)
        editor.edited_files.discard(path)
        editor.update_preview(path)
        if server.client_capabilities.workspace and server.client_capabilities.workspace.inlay_hint:
            server.workspace_inlay_hint_refresh(None)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def handle_close(parameters: lsp.DidCloseTextDocumentParams) -> None:
        path = _resolve_path(parameters.text_document.uri)
        editor.edited_files.discard(path)
        # The file's own text counts again.
        if editor.unsaved_texts.pop(path, None) is not None:
            editor.publish_diagnostics(path)


def _register_information_handlers(server: LanguageServer, editor: EditorState) -> None:
    """Register handlers for completion, hover, and placement hints."""
    triggers = lsp.CompletionOptions(trigger_characters=[".", '"'])

    @server.feature(lsp.TEXT_DOCUMENT_COMPLETION, triggers)
    # For the text before the cursor.
    def handle_completion(parameters: lsp.CompletionParams) -> lsp.CompletionList:
        path = _resolve_path(parameters.text_document.uri)
        module = editor.load_module(path)
        source = module.files.get(path)
        if source is None:
            # The file is not a native one.
            return lsp.CompletionList(is_incomplete=False, items=[])
        offset = convert_to_byte(source.text, parameters.position)
        items = list_suggestions(module, path, offset)
        completion_items = [
            _build_completion_item(item, number, source, offset)
            for number, item in enumerate(items)
        ]
        return lsp.CompletionList(is_incomplete=False, items=completion_items)

    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    # Documentation at the pointer; None without any.
    def handle_hover(parameters: lsp.HoverParams) -> lsp.Hover | None:
        path = _resolve_path(parameters.text_document.uri)
        module = editor.load_module(path)
        source = module.files.get(path)
        if source is None:
            # The file is not a native one.
            return None
        offset = convert_to_byte(source.text, parameters.position)
        text = build_hover_text(module, editor.get_preview(path), path, offset)
        return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, text)) if text else None

    @server.feature(lsp.TEXT_DOCUMENT_INLAY_HINT)
    # Predicted places by block.
    def handle_inlay_hint(parameters: lsp.InlayHintParams) -> list[lsp.InlayHint]:
        path = _resolve_path(parameters.text_document.uri)
        module = editor.load_module(path)
        preview = editor.get_preview(path)
        hints = []
        for key, offset in list_placement_blocks(module, path):
            # The last plan placed objects of the block.
            if key in preview.hints:
                position = convert_to_position(module.files[path].text, offset)
                tooltip = preview.texts.get(key)
                hints.append(
                    lsp.InlayHint(position, preview.hints[key], tooltip=tooltip, padding_left=True)
                )
        return hints


def _register_navigation_handlers(server: LanguageServer, editor: EditorState) -> None:
    """Register handlers for document symbols, definitions and references.

    They return None or [] if there is no symbol.
    """

    @server.feature(lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    def handle_document_symbols(parameters: lsp.DocumentSymbolParams) -> list[lsp.DocumentSymbol]:
        path = _resolve_path(parameters.text_document.uri)
        module = editor.load_module(path)
        tree = module.trees.get(path)
        return _list_symbols(tree, module.files[path].text, is_top=True) if tree is not None else []

    @server.feature(lsp.TEXT_DOCUMENT_DEFINITION)
    def handle_definition(parameters: lsp.DefinitionParams) -> lsp.Location | None:
        module, occurrence = _find_symbol_at_cursor(editor, parameters)
        range_in_file = (
            module.list_symbols().get(occurrence.symbol) if occurrence is not None else None
        )
        return _build_location(module, range_in_file) if range_in_file is not None else None

    @server.feature(lsp.TEXT_DOCUMENT_REFERENCES)
    # Of the name at the cursor.
    def handle_references(parameters: lsp.ReferenceParams) -> list[lsp.Location]:
        module, occurrence = _find_symbol_at_cursor(editor, parameters)
        if occurrence is None:
            return []
        includes_declaration = parameters.context.include_declaration
        return [
            _build_location(module, item.range)
            for item in module.list_occurrences()
            if item.symbol == occurrence.symbol
            and (includes_declaration or not item.is_declaration)
        ]


def _register_edit_handlers(server: LanguageServer, editor: EditorState) -> None:
    """Register handlers for formatting, renaming, and quick fixes."""

    @server.feature(lsp.TEXT_DOCUMENT_FORMATTING)
    # One edit of all, or none.
    def handle_formatting(parameters: lsp.DocumentFormattingParams) -> list[lsp.TextEdit]:
        path = _resolve_path(parameters.text_document.uri)
        source = editor.load_module(path).files.get(path)
        if source is None:
            # The file is not a native one (*.nf.hcl).
            return []
        # The problems are syntax errors.
        text, problems = format_text(source)
        full_range = lsp.Range(
            lsp.Position(0, 0), convert_to_position(source.text, len(source.text.encode()))
        )
        return [] if problems or text == source.text else [lsp.TextEdit(full_range, text)]

    @server.feature(lsp.TEXT_DOCUMENT_RENAME)
    def handle_rename(parameters: lsp.RenameParams) -> lsp.WorkspaceEdit | None:
        module, occurrence = _find_symbol_at_cursor(editor, parameters)
        if occurrence is None:
            # The cursor is on no renamable name.
            return None
        try:
            changes = rename_symbol(module, occurrence, parameters.new_name)
        except RenameError as problem:
            raise JsonRpcInvalidParams(str(problem)) from None
        return _build_edit(module, changes)

    actions = lsp.CodeActionOptions(code_action_kinds=[lsp.CodeActionKind.QuickFix])

    @server.feature(lsp.TEXT_DOCUMENT_CODE_ACTION, actions)
    # Fixes of selected findings.
    def handle_code_action(parameters: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        path = _resolve_path(parameters.text_document.uri)
        module = editor.load_module(path)
        findings_in_selection = [
            (marker, finding)
            for marker, finding in editor.published.get(path, [])
            if marker.range.start <= parameters.range.end
            and parameters.range.start <= marker.range.end
        ]
        return [
            lsp.CodeAction(
                quick_fix.title,
                lsp.CodeActionKind.QuickFix,
                [marker],
                edit=_build_edit(module, [quick_fix.change]),
            )
            for marker, finding in findings_in_selection
            for quick_fix in list_quick_fixes(module, finding)
        ]


def _find_symbol_at_cursor(
    editor: EditorState, parameters: lsp.DefinitionParams | lsp.ReferenceParams | lsp.RenameParams
) -> tuple[ModuleText, Occurrence | None]:
    """Return the module of the file, and the occurrence of a symbol at the cursor.

    The occurrence is None if there is no symbol.
    """
    path = _resolve_path(parameters.text_document.uri)
    module = editor.load_module(path)
    source = module.files.get(path)
    if source is None:
        return module, None
    return module, module.find_occurrence(path, convert_to_byte(source.text, parameters.position))


def _resolve_path(uri: str) -> str:
    """Return the file of a URI, "" for other documents.

    Other documents are, for example, an untitled text or an older version.
    """
    path = uris.to_fs_path(uri) if uri.startswith("file:") else None
    return os.path.realpath(path) if path else ""


def _build_range(text: str, start: int, end: int) -> lsp.Range:
    return lsp.Range(convert_to_position(text, start), convert_to_position(text, end))


def _build_marker(diagnostic: Diagnostic, source: SourceFile | None) -> Marker:
    """Build the marker of a diagnostic.

    If its position or the text is unknown, the marker is at the start of the file.
    """
    marker_range = lsp.Range(Position(0, 0), Position(0, 0))
    if diagnostic.subject is not None and source is not None:
        span = diagnostic.subject
        marker_range = _build_range(source.text, span.start.byte, span.end.byte)
    return Marker(
        range=marker_range,
        message=join_texts((diagnostic.summary, diagnostic.detail), "\n"),
        severity=_SEVERITIES[get_diagnostic_level(diagnostic)],
        code=diagnostic.id,
        source="nexusform",
    )


def _build_location(module: ModuleText, range_in_file: FileRange) -> lsp.Location:
    path, start, end = range_in_file
    return lsp.Location(
        uris.from_fs_path(path) or "", _build_range(module.files[path].text, start, end)
    )


def _build_edit(module: ModuleText, changes: Iterable[TextChange]) -> lsp.WorkspaceEdit:
    """Return the edit of a workspace, with the text changes grouped by file."""
    by_file: dict[str, list[lsp.TextEdit]] = {}
    for change in changes:
        location = _build_location(module, change.range)
        by_file.setdefault(location.uri, []).append(lsp.TextEdit(location.range, change.text))
    return lsp.WorkspaceEdit(changes=by_file)


def _list_symbols(body: Body, text: str, *, is_top: bool = False) -> list[lsp.DocumentSymbol]:
    """Return the blocks and arguments of a body as a tree, in source order.

    With `is_top`, its blocks are top-level ones.
    """
    symbols = []
    contents: list[Block | Attribute] = [*body.attributes, *body.blocks]
    for item in sorted(contents, key=lambda candidate: candidate.span.start.byte):
        if isinstance(item, Attribute):
            name = item.name
            kind = "argument"
            head = item.name_span
            children = []
        else:
            labels = [label.value for label in item.labels]
            name = " ".join([item.type, *labels])
            kind = item.type if is_top else "block"
            head = item.header_span
            # A resource or data block: its address.
            if kind in MODES and len(labels) == 2:
                name = f"{MODE_PREFIXES[MODES[kind]]}{labels[0]}.{labels[1]}"
            children = _list_symbols(get_native_body(item), text)
        symbols.append(
            lsp.DocumentSymbol(
                name=name,
                kind=_SYMBOL_KINDS.get(kind, lsp.SymbolKind.Object),
                range=_build_range(text, head.start.byte, item.span.end.byte),
                selection_range=_build_range(text, head.start.byte, head.end.byte),
                children=children,
            )
        )
    return symbols


def _build_completion_item(
    item: Suggestion, number: int, source: SourceFile, offset: int
) -> lsp.CompletionItem:
    """Build the item of a suggestion; the editor sorts the items by `number`."""
    replaced_range = _build_range(source.text, offset - item.typed_length, offset)
    return lsp.CompletionItem(
        label=item.label,
        kind=_ITEM_KINDS[item.kind],
        detail=item.detail,
        documentation=lsp.MarkupContent(lsp.MarkupKind.Markdown, item.text) if item.text else None,
        sort_text=f"{number:05}",
        # Text that the editor compares with the typed text.
        filter_text=item.insert if item.kind == "reference" else item.label,
        insert_text_format=lsp.InsertTextFormat.Snippet if item.kind == "block" else None,
        text_edit=lsp.TextEdit(replaced_range, item.insert),
    )


def convert_to_byte(text: str, position: Position) -> int:
    """Return the byte offset of an editor position; the end of the text if it has no such line."""
    lines, starts = _split_lines_with_offsets(text)
    if position.line >= len(lines):
        # The last start is one byte after the end.
        return starts[-1] - 1
    # A character of a position is a UTF-16 unit of two bytes.
    units = lines[position.line].decode().encode("utf-16-le")[: 2 * position.character]
    return starts[position.line] + len(units.decode("utf-16-le", errors="ignore").encode())


def convert_to_position(text: str, offset: int) -> Position:
    """Return the editor position (line and UTF-16 character) of a byte offset."""
    lines, starts = _split_lines_with_offsets(text)
    number = min(bisect_right(starts, offset) - 1, len(lines) - 1)
    line_prefix = lines[number][: offset - starts[number]].decode(errors="ignore")
    return Position(number, len(line_prefix.encode("utf-16-le")) // 2)


@lru_cache(maxsize=32)
def _split_lines_with_offsets(text: str) -> tuple[list[bytes], list[int]]:
    """Return the lines and their start bytes, then the start of a further line.

    The result is cached by file.
    """
    lines = text.encode().split(b"\n")
    return lines, [0, *accumulate(len(line) + 1 for line in lines)]
