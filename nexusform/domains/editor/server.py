"""The language server: what the editor sends and asks, by pygls. Nothing is applied or written here."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from lsprotocol import types as lsp
from lsprotocol.types import Diagnostic as Marker
from msgspec import Struct, field
from pygls import uris
from pygls.exceptions import JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer

import nexusform
from nexusform.configuration.loader import NATIVE
from nexusform.diagnostics import Diagnostic
from nexusform.domains.editor.completion import Suggestion, completions
from nexusform.domains.editor.fixes import fixes
from nexusform.domains.editor.hover import hover_text
from nexusform.domains.editor.landing import Landing, blocks_that_place, plan_landing
from nexusform.domains.editor.module_text import (
    ModuleText,
    Naming,
    Range,
    RenameProblem,
    TextChange,
    read_module,
    renamed,
)
from nexusform.domains.editor.outline import Entry, outline
from nexusform.domains.editor.positions import byte_at, position_at
from nexusform.language.formatter import format_text
from nexusform.source import SourceFile
from nexusform.weights import Level, level_of
from nexusform.workflow.opening.place import place_in
from nexusform.workflow.opening.validate import validate_directory

_KINDS = {
    "type": lsp.CompletionItemKind.Class,
    "argument": lsp.CompletionItemKind.Property,
    "block": lsp.CompletionItemKind.Struct,
    "value": lsp.CompletionItemKind.EnumMember,
    "reference": lsp.CompletionItemKind.Reference,
}
_SYMBOLS = {
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


class Editor(Struct):
    """What the server knows of the editor: its open texts, which of them are edited since they were saved,
    the marked files of directories, what was told of each file, and plans.
    """

    server: LanguageServer
    unsaved: dict[str, str] = field(default_factory=dict)
    edited: set[str] = field(default_factory=set)
    marked: dict[str, set[str]] = field(default_factory=dict)
    told: dict[str, list[tuple[Marker, Diagnostic]]] = field(default_factory=dict)
    landings: dict[str, Landing] = field(default_factory=dict)

    def module(self, path: str) -> ModuleText:
        """The module of a file, as it stands in the editor."""
        directory = str(Path(path).parent)
        return read_module(directory, self.unsaved, place_in(directory, dict(os.environ)).confinement)

    def look_at(self, uri: str) -> None:
        """Take a text as it stands in the editor now, and check its module."""
        path = _path(uri)
        self.unsaved[path] = self.server.workspace.get_text_document(uri).source
        self.check(path)

    def check(self, path: str) -> None:
        """Tell everything that is wrong with the module of a file."""
        if not path:
            return
        directory = str(Path(path).parent)
        place = place_in(directory, dict(os.environ), self.unsaved)
        validation = validate_directory(place)
        by_file: dict[str, list[tuple[Marker, Diagnostic]]] = {}
        for diagnostic in (*validation.diagnostics, *self._foretold(directory, validation.diagnostics)):
            file = diagnostic.subject.filename if diagnostic.subject is not None else path
            marker = _diagnostic(diagnostic, validation.sources.get(file))
            by_file.setdefault(file, []).append((marker, diagnostic))
        for file in {*by_file, *self.marked.get(directory, set()), path}:
            self.told[file] = by_file.get(file, [])
            markers = [marker for marker, _ in self.told[file]]
            self.server.text_document_publish_diagnostics(
                lsp.PublishDiagnosticsParams(uris.from_fs_path(file) or "", markers)
            )
        self.marked[directory] = set(by_file)

    def plan(self, path: str) -> None:
        """Make a plan of the saved files of a module, for hints and for what only a plan finds."""
        if not path:
            return
        directory = str(Path(path).parent)
        self.landings[directory] = plan_landing(directory)
        if self.landings[directory].findings:
            self.check(path)

    def _foretold(self, directory: str, told: Sequence[Diagnostic]) -> list[Diagnostic]:
        """What the last plan found beside what was told, while the module is what was planned."""
        known = {(each.id, each.subject) for each in told}
        findings = self.landings.get(directory, Landing()).findings
        new = [each for each in findings if (each.id, each.subject) not in known]
        return [] if self._is_edited(directory) else new

    def _is_edited(self, directory: str) -> bool:
        """Whether a file of a module was changed since it was saved."""
        return any(str(Path(path).parent) == directory for path in self.edited)

    def landing(self, path: str) -> Landing:
        """Where the last plan of a file's module puts things."""
        directory = str(Path(path).parent)
        landing = self.landings.get(directory, Landing())
        return landing.as_saved() if self._is_edited(directory) else landing


def make_server() -> LanguageServer:
    """The server, ready to be started."""
    server = LanguageServer("nexusform", nexusform.__version__, lsp.TextDocumentSyncKind.Incremental)
    editor = Editor(server)
    _follow_documents(server, editor)
    _answer_questions(server, editor)
    _lead_to_names(server, editor)
    _change_text(server, editor)
    return server


def _follow_documents(server: LanguageServer, editor: Editor) -> None:
    """Check what is opened and typed, and plan what is opened and saved."""

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    def opened(parameters: lsp.DidOpenTextDocumentParams) -> None:
        editor.look_at(parameters.text_document.uri)
        editor.plan(_path(parameters.text_document.uri))

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    def changed(parameters: lsp.DidChangeTextDocumentParams) -> None:
        editor.edited.add(_path(parameters.text_document.uri))
        editor.look_at(parameters.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_SAVE)
    def saved(parameters: lsp.DidSaveTextDocumentParams) -> None:
        path = _path(parameters.text_document.uri)
        editor.edited.add(path)  # what the plan before found is not said of this text
        editor.check(path)
        editor.edited.discard(path)
        editor.plan(path)
        if server.client_capabilities.workspace and server.client_capabilities.workspace.inlay_hint:
            server.workspace_inlay_hint_refresh(None)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def closed(parameters: lsp.DidCloseTextDocumentParams) -> None:
        path = _path(parameters.text_document.uri)
        editor.edited.discard(path)
        if editor.unsaved.pop(path, None) is not None:
            editor.check(path)


def _answer_questions(server: LanguageServer, editor: Editor) -> None:
    """Completion, hover, and hints of where things land."""
    triggers = lsp.CompletionOptions(trigger_characters=[".", '"'])

    @server.feature(lsp.TEXT_DOCUMENT_COMPLETION, triggers)
    def complete(parameters: lsp.CompletionParams) -> lsp.CompletionList:
        path = _path(parameters.text_document.uri)
        module = editor.module(path)
        source = module.files.get(path)
        if source is None:
            return lsp.CompletionList(is_incomplete=False, items=[])
        at = byte_at(source.text, parameters.position)
        items = completions(module, path, at)
        listed = [_item(item, number, source, at) for number, item in enumerate(items)]
        return lsp.CompletionList(is_incomplete=False, items=listed)

    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    def hover(parameters: lsp.HoverParams) -> lsp.Hover | None:
        path = _path(parameters.text_document.uri)
        module = editor.module(path)
        source = module.files.get(path)
        if source is None:
            return None
        text = hover_text(module, editor.landing(path), path, byte_at(source.text, parameters.position))
        return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, text)) if text else None

    @server.feature(lsp.TEXT_DOCUMENT_INLAY_HINT)
    def hint(parameters: lsp.InlayHintParams) -> list[lsp.InlayHint]:
        path = _path(parameters.text_document.uri)
        module, landing = editor.module(path), editor.landing(path)
        hints = []
        for key, at in blocks_that_place(module, path):
            if key in landing.hints:
                position = position_at(module.files[path].text, at)
                tooltip = landing.texts.get(key)
                hints.append(lsp.InlayHint(position, landing.hints[key], tooltip=tooltip, padding_left=True))
        return hints


def _lead_to_names(server: LanguageServer, editor: Editor) -> None:
    """Outlines, definitions and references."""

    @server.feature(lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    def list_blocks(parameters: lsp.DocumentSymbolParams) -> list[lsp.DocumentSymbol]:
        path = _path(parameters.text_document.uri)
        module = editor.module(path)
        return [_symbol(module, entry) for entry in outline(module, path)]

    @server.feature(lsp.TEXT_DOCUMENT_DEFINITION)
    def define(parameters: lsp.DefinitionParams) -> lsp.Location | None:
        module, naming = _naming(editor, parameters)
        where = module.symbols().get(naming.symbol) if naming is not None else None
        return _location(module, where) if where is not None else None

    @server.feature(lsp.TEXT_DOCUMENT_REFERENCES)
    def refer(parameters: lsp.ReferenceParams) -> list[lsp.Location]:
        module, naming = _naming(editor, parameters)
        if naming is None:
            return []
        with_declaration = parameters.context.include_declaration
        return [
            _location(module, each.range)
            for each in module.namings()
            if each.symbol == naming.symbol and (with_declaration or not each.declares)
        ]


def _change_text(server: LanguageServer, editor: Editor) -> None:
    """Formatting, renaming, and what messages propose."""

    @server.feature(lsp.TEXT_DOCUMENT_FORMATTING)
    def form(parameters: lsp.DocumentFormattingParams) -> list[lsp.TextEdit]:
        path = _path(parameters.text_document.uri)
        source = editor.module(path).files.get(path)
        if source is None or not path.endswith(NATIVE):
            return []
        text, problems = format_text(source)
        whole = lsp.Range(lsp.Position(0, 0), position_at(source.text, len(source.text.encode())))
        return [] if problems or text == source.text else [lsp.TextEdit(whole, text)]

    @server.feature(lsp.TEXT_DOCUMENT_RENAME)
    def rename(parameters: lsp.RenameParams) -> lsp.WorkspaceEdit | None:
        module, naming = _naming(editor, parameters)
        if naming is None:
            return None
        try:
            changes = renamed(module, naming, parameters.new_name)
        except RenameProblem as problem:
            raise JsonRpcInvalidParams(str(problem)) from None
        return _edit(module, changes)

    actions = lsp.CodeActionOptions(code_action_kinds=[lsp.CodeActionKind.QuickFix])

    @server.feature(lsp.TEXT_DOCUMENT_CODE_ACTION, actions)
    def fix(parameters: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        path = _path(parameters.text_document.uri)
        module = editor.module(path)
        near = [
            (marker, found)
            for marker, found in editor.told.get(path, [])
            if marker.range.start <= parameters.range.end and parameters.range.start <= marker.range.end
        ]
        return [
            lsp.CodeAction(
                each.title, lsp.CodeActionKind.QuickFix, [marker], edit=_edit(module, [each.change])
            )
            for marker, found in near
            for each in fixes(module, found)
        ]


def _naming(
    editor: Editor, parameters: lsp.DefinitionParams | lsp.ReferenceParams | lsp.RenameParams
) -> tuple[ModuleText, Naming | None]:
    path = _path(parameters.text_document.uri)
    module = editor.module(path)
    source = module.files.get(path)
    if source is None:
        return module, None
    return module, module.naming_at(path, byte_at(source.text, parameters.position))


# --- what the protocol calls things ---------------------------------------------------------------


def _path(uri: str) -> str:
    """The file of a URI; "" for what is no file, such as an untitled text or an older version of one."""
    path = uris.to_fs_path(uri) if uri.startswith("file:") else None
    return os.path.realpath(path) if path else ""


def _range(module: ModuleText, where: Range) -> lsp.Range:
    text = module.files[where.path].text
    return lsp.Range(position_at(text, where.start), position_at(text, where.end))


def _location(module: ModuleText, where: Range) -> lsp.Location:
    return lsp.Location(uris.from_fs_path(where.path) or "", _range(module, where))


def _edit(module: ModuleText, changes: Iterable[TextChange]) -> lsp.WorkspaceEdit:
    by_file: dict[str, list[lsp.TextEdit]] = {}
    for change in changes:
        uri = uris.from_fs_path(change.range.path) or ""
        by_file.setdefault(uri, []).append(lsp.TextEdit(_range(module, change.range), change.text))
    return lsp.WorkspaceEdit(changes=by_file)


def _symbol(module: ModuleText, entry: Entry) -> lsp.DocumentSymbol:
    return lsp.DocumentSymbol(
        name=entry.name,
        kind=_SYMBOLS.get(entry.kind, lsp.SymbolKind.Object),
        range=_range(module, entry.whole),
        selection_range=_range(module, entry.name_range),
        children=[_symbol(module, inner) for inner in entry.inner],
    )


def _item(item: Suggestion, number: int, source: SourceFile, at: int) -> lsp.CompletionItem:
    replaced = lsp.Range(position_at(source.text, at - item.typed), position_at(source.text, at))
    return lsp.CompletionItem(
        label=item.label,
        kind=_KINDS[item.kind],
        detail=item.detail,
        documentation=lsp.MarkupContent(lsp.MarkupKind.Markdown, item.text) if item.text else None,
        sort_text=f"{number:05}",
        filter_text=item.insert if item.kind == "reference" else item.label,
        insert_text_format=lsp.InsertTextFormat.Snippet if item.kind == "block" else None,
        text_edit=lsp.TextEdit(replaced, item.insert),
    )


def _diagnostic(diagnostic: Diagnostic, source: SourceFile | None) -> Marker:
    nowhere = lsp.Position(0, 0)
    where = lsp.Range(nowhere, nowhere)
    if diagnostic.subject is not None and source is not None:
        span = diagnostic.subject
        where = lsp.Range(position_at(source.text, span.start.byte), position_at(source.text, span.end.byte))
    detail = f"\n{diagnostic.detail}" if diagnostic.detail else ""
    return Marker(
        range=where,
        message=f"{diagnostic.summary}{detail}",
        severity=_SEVERITIES[level_of(diagnostic)],
        code=diagnostic.id,
        source="nexusform",
    )
