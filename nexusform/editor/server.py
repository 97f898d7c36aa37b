"""The language server: what the editor sends and asks, by pygls. Nothing is applied or written here."""

from __future__ import annotations

import os
from pathlib import Path

from lsprotocol import types as lsp
from lsprotocol.types import Diagnostic as Marker
from msgspec import Struct, field
from pygls import uris
from pygls.exceptions import JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer

import nexusform
from nexusform.configuration.loader import NATIVE
from nexusform.diagnostics import Diagnostic, Severity
from nexusform.editor.completion import Suggestion, completions
from nexusform.editor.hover import hover_text
from nexusform.editor.landing import Landing, blocks_that_place, plan_landing
from nexusform.editor.module_text import ModuleText, Naming, Range, RenameProblem, read_module, renamed
from nexusform.language.formatter import format_text
from nexusform.source import SourceFile
from nexusform.workflow.place import place_in
from nexusform.workflow.validate import validate_directory

_KINDS = {
    "type": lsp.CompletionItemKind.Class,
    "argument": lsp.CompletionItemKind.Property,
    "block": lsp.CompletionItemKind.Struct,
    "value": lsp.CompletionItemKind.EnumMember,
    "reference": lsp.CompletionItemKind.Reference,
}
_SEVERITIES = {
    Severity.ERROR: lsp.DiagnosticSeverity.Error,
    Severity.WARNING: lsp.DiagnosticSeverity.Warning,
}


class Editor(Struct):
    """What the server knows of the editor: its open texts, the marked files of directories, and plans."""

    server: LanguageServer
    unsaved: dict[str, str] = field(default_factory=dict)
    marked: dict[str, set[str]] = field(default_factory=dict)
    landings: dict[str, Landing] = field(default_factory=dict)

    def module(self, path: str) -> ModuleText:
        """The module of a file, as it stands in the editor."""
        directory = str(Path(path).parent)
        return read_module(directory, self.unsaved, place_in(directory, dict(os.environ)).confinement)

    def check(self, path: str) -> None:
        """Tell everything that is wrong with the module of a file."""
        directory = str(Path(path).parent)
        place = place_in(directory, dict(os.environ), self.unsaved)
        validation = validate_directory(place)
        by_file: dict[str, list[Marker]] = {}
        for diagnostic in validation.diagnostics:
            file = diagnostic.subject.filename if diagnostic.subject is not None else path
            source = validation.sources.get(file)
            by_file.setdefault(file, []).append(_diagnostic(diagnostic, source))
        for file in {*by_file, *self.marked.get(directory, set()), path}:
            self.server.text_document_publish_diagnostics(
                lsp.PublishDiagnosticsParams(uris.from_fs_path(file) or "", by_file.get(file, []))
            )
        self.marked[directory] = set(by_file)

    def plan(self, path: str) -> None:
        """Make a plan of the saved files of a module, for hints."""
        self.landings[str(Path(path).parent)] = plan_landing(str(Path(path).parent))

    def landing(self, path: str) -> Landing:
        """Where the last plan of a file's module puts things."""
        return self.landings.get(str(Path(path).parent), Landing())


def make_server() -> LanguageServer:
    """The server, ready to be started."""
    server = LanguageServer("nexusform", nexusform.__version__, lsp.TextDocumentSyncKind.Full)
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
        path = _path(parameters.text_document.uri)
        editor.unsaved[path] = parameters.text_document.text
        editor.check(path)
        editor.plan(path)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    def changed(parameters: lsp.DidChangeTextDocumentParams) -> None:
        path = _path(parameters.text_document.uri)
        editor.unsaved[path] = parameters.content_changes[-1].text
        editor.check(path)

    @server.feature(lsp.TEXT_DOCUMENT_DID_SAVE)
    def saved(parameters: lsp.DidSaveTextDocumentParams) -> None:
        path = _path(parameters.text_document.uri)
        editor.check(path)
        editor.plan(path)
        if server.client_capabilities.workspace and server.client_capabilities.workspace.inlay_hint:
            server.workspace_inlay_hint_refresh(None)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def closed(parameters: lsp.DidCloseTextDocumentParams) -> None:
        editor.unsaved.pop(_path(parameters.text_document.uri), None)


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
        at = _byte(source, parameters.position)
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
        text = hover_text(module, editor.landing(path), path, _byte(source, parameters.position))
        return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, text)) if text else None

    @server.feature(lsp.TEXT_DOCUMENT_INLAY_HINT)
    def hint(parameters: lsp.InlayHintParams) -> list[lsp.InlayHint]:
        path = _path(parameters.text_document.uri)
        module, landing = editor.module(path), editor.landing(path)
        hints = []
        for key, at in blocks_that_place(module, path):
            if key in landing.hints:
                position = _position(module.files[path], at)
                tooltip = landing.texts.get(key)
                hints.append(lsp.InlayHint(position, landing.hints[key], tooltip=tooltip, padding_left=True))
        return hints


def _lead_to_names(server: LanguageServer, editor: Editor) -> None:
    """Definitions and references."""

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
    """Formatting and renaming."""

    @server.feature(lsp.TEXT_DOCUMENT_FORMATTING)
    def form(parameters: lsp.DocumentFormattingParams) -> list[lsp.TextEdit]:
        path = _path(parameters.text_document.uri)
        source = editor.module(path).files.get(path)
        if source is None or not path.endswith(NATIVE):
            return []
        text, problems = format_text(source)
        whole = lsp.Range(lsp.Position(0, 0), _position(source, len(source.text.encode())))
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
        by_file: dict[str, list[lsp.TextEdit]] = {}
        for change in changes:
            uri = uris.from_fs_path(change.range.path) or ""
            by_file.setdefault(uri, []).append(lsp.TextEdit(_range(module, change.range), change.text))
        return lsp.WorkspaceEdit(changes=by_file)


def _naming(
    editor: Editor, parameters: lsp.DefinitionParams | lsp.ReferenceParams | lsp.RenameParams
) -> tuple[ModuleText, Naming | None]:
    path = _path(parameters.text_document.uri)
    module = editor.module(path)
    source = module.files.get(path)
    return module, module.naming_at(path, _byte(source, parameters.position)) if source is not None else None


# --- between positions of the protocol (UTF-16 units) and bytes ----------------------------------


def _path(uri: str) -> str:
    return os.path.realpath(uris.to_fs_path(uri) or uri)


def _byte(source: SourceFile, position: lsp.Position) -> int:
    lines = source.text.split("\n")
    if position.line >= len(lines):
        return len(source.text.encode())
    before = sum(len(line.encode()) + 1 for line in lines[: position.line])
    units = lines[position.line].encode("utf-16-le")[: 2 * position.character]
    return before + len(units.decode("utf-16-le", errors="ignore").encode())


def _position(source: SourceFile, at: int) -> lsp.Position:
    before = source.text.encode()[:at].decode(errors="ignore")
    line = before.rpartition("\n")[2]
    return lsp.Position(before.count("\n"), len(line.encode("utf-16-le")) // 2)


def _range(module: ModuleText, where: Range) -> lsp.Range:
    source = module.files[where.path]
    return lsp.Range(_position(source, where.start), _position(source, where.end))


def _location(module: ModuleText, where: Range) -> lsp.Location:
    return lsp.Location(uris.from_fs_path(where.path) or "", _range(module, where))


def _item(item: Suggestion, number: int, source: SourceFile, at: int) -> lsp.CompletionItem:
    replaced = lsp.Range(_position(source, at - item.typed), _position(source, at))
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
        where = lsp.Range(_position(source, span.start.byte), _position(source, span.end.byte))
    detail = f"\n{diagnostic.detail}" if diagnostic.detail else ""
    return Marker(
        range=where,
        message=f"{diagnostic.summary}{detail}",
        severity=_SEVERITIES[diagnostic.severity],
        code=diagnostic.id,
        source="nexusform",
    )
