"""Tests of editor sessions with `nexusform lsp`, driven by pygls' own client."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pygls", reason="pygls is not installed")

from lsprotocol import types as lsp
from pygls.lsp.client import LanguageClient

from nexusform.resource_types.registry import RESOURCE_TYPES
from tests import commands

MAIN = """resource "nexus_site" "lab" {}

resource "nexus_rack" "rack" {
  for_each      = toset(["1", "2"])
  site_id       = nexus_site.lab.id
  name          = "räck${each.key}"
  machine_count = var.machines # \U0001d518 four
}

variable "machines" {
  description = "Machines of a rack"
  default     = 4
}
"""
CLUSTER = """resource "nexus_kubernetes_cluster" "web" {
  site_id = nexus_site.lab.id

  control_plane {
    count       = 3
    vm_sku_name = "NC_G12_56_v1"
  }
  agent_pool "pool1" {
    count       = 4
    vm_sku_name = "NC_P22_112_v1"
  }
}
"""


class Session:
    """An editor with one open folder."""

    def __init__(self, client: LanguageClient, folder: Path) -> None:
        self.client = client
        self.folder = folder
        self.told: dict[str, list[lsp.Diagnostic]] = {}
        self.texts: dict[str, str] = {}

    def uri(self, name: str) -> str:
        return (self.folder / name).as_uri()

    def open(self, name: str) -> None:
        self.texts[name] = (self.folder / name).read_text()
        item = lsp.TextDocumentItem(self.uri(name), "nexusform", 1, self.texts[name])
        self.client.text_document_did_open(lsp.DidOpenTextDocumentParams(item))

    def type(self, name: str, text: str) -> None:
        self.texts[name] = text
        document = lsp.VersionedTextDocumentIdentifier(2, self.uri(name))
        change = lsp.TextDocumentContentChangeWholeDocument(text)
        self.client.text_document_did_change(lsp.DidChangeTextDocumentParams(document, [change]))

    def insert(self, name: str, before: str, text: str) -> None:
        """Type a few letters after `before`, sent as an incremental change."""
        at = self.at(name, before)["position"]
        change = lsp.TextDocumentContentChangePartial(lsp.Range(at, at), text)
        self.texts[name] = self.texts[name].replace(before, before + text, 1)
        document = lsp.VersionedTextDocumentIdentifier(3, self.uri(name))
        self.client.text_document_did_change(lsp.DidChangeTextDocumentParams(document, [change]))

    def close(self, name: str) -> None:
        document = lsp.TextDocumentIdentifier(self.uri(name))
        self.client.text_document_did_close(lsp.DidCloseTextDocumentParams(document))

    def save(self, name: str) -> None:
        (self.folder / name).write_text(self.texts[name])
        document = lsp.TextDocumentIdentifier(self.uri(name))
        self.client.text_document_did_save(lsp.DidSaveTextDocumentParams(document))

    def at(self, name: str, before: str, word: str = "") -> dict[str, Any]:
        """Return the position after the first `before`, in UTF-16 units as in editors."""
        text = self.texts[name]
        head = text[: text.index(before) + len(before) - len(word)]
        line = head.rpartition("\n")[2]
        position = lsp.Position(head.count("\n"), len(line.encode("utf-16-le")) // 2)
        return {"text_document": lsp.TextDocumentIdentifier(self.uri(name)), "position": position}

    async def completions(self, name: str, before: str) -> dict[str, lsp.CompletionItem]:
        listed = await self.client.text_document_completion_async(
            lsp.CompletionParams(**self.at(name, before))
        )
        assert isinstance(listed, lsp.CompletionList)
        return {item.label: item for item in listed.items}

    async def hover(self, name: str, before: str) -> str:
        told = await self.client.text_document_hover_async(lsp.HoverParams(**self.at(name, before)))
        if told is None:
            return ""
        assert isinstance(told.contents, lsp.MarkupContent)
        return told.contents.value

    async def fixed(self, name: str, before: str) -> dict[str, str]:
        """Return the quick fixes at a position, each with its resulting text."""
        at = self.at(name, before)
        place = lsp.Range(at["position"], at["position"])
        context = lsp.CodeActionContext([])
        parameters = lsp.CodeActionParams(at["text_document"], place, context)
        actions = await self.client.text_document_code_action_async(parameters) or []
        made: dict[str, str] = {}
        for action in actions:
            assert isinstance(action, lsp.CodeAction)
            assert action.edit is not None
            ((_, changes),) = (action.edit.changes or {}).items()
            made[action.title] = _apply_edits(self.texts[name], changes)
        return made

    async def problems(self, name: str) -> list[lsp.Diagnostic]:
        """Return the diagnostics of a file after the server has answered all requests."""
        await self.client.text_document_hover_async(lsp.HoverParams(**self.at(name, "")))
        return self.told.get(self.uri(name), [])


@asynccontextmanager
async def _session(folder: Path) -> AsyncIterator[Session]:
    client = LanguageClient("a test", "1")
    session = Session(client, folder)

    @client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    def published(parameters: lsp.PublishDiagnosticsParams) -> None:
        session.told[parameters.uri] = list(parameters.diagnostics)

    await client.start_io(*commands.build_module_command("tests.domains.editor.language_server"))
    await client.initialize_async(lsp.InitializeParams(lsp.ClientCapabilities()))
    client.initialized(lsp.InitializedParams())
    yield session
    await client.shutdown_async(None)
    client.exit(None)
    await client.stop()


@pytest.fixture
def drive(tmp_path: Path) -> Callable[[Callable[[Session], Awaitable[None]]], None]:
    """Run a session in a folder of two files."""
    (tmp_path / "main.nf.hcl").write_text(MAIN)
    (tmp_path / "cluster.nf.hcl").write_text(CLUSTER)

    def run(story: Callable[[Session], Awaitable[None]]) -> None:
        async def run_session() -> None:
            async with _session(tmp_path) as session:
                await story(session)

        asyncio.run(asyncio.wait_for(run_session(), 60))

    return run


Drive = Callable[[Callable[[Session], Awaitable[None]]], None]


def test_unsaved_text_is_checked(drive: Drive) -> None:
    async def story(session: Session) -> None:
        session.open("main.nf.hcl")
        assert await session.problems("main.nf.hcl") == []
        session.type(
            "main.nf.hcl", MAIN.replace("machine_count = var.machines", "machine_cont = var.n")
        )
        problems = await session.problems("main.nf.hcl")
        assert {"unsupported-argument", "reference-to-undeclared-input-variable"} <= {
            p.code for p in problems
        }
        (wrong,) = [p for p in problems if p.code == "unsupported-argument"]
        assert (wrong.range.start.line, wrong.range.start.character) == (6, 2)
        assert 'Did you mean "machine_count"?' in wrong.message
        session.type("main.nf.hcl", MAIN)
        assert await session.problems("main.nf.hcl") == []

    drive(story)


CALLED = """
variable "size" {
  type     = object({ count = number })
  nullable = false
  validation {
    condition     = var.size.count < 10
    error_message = "Too large."
  }
}
variable "secret" {
  default = ""
}
variable "token" {
  default   = ""
  ephemeral = true
}
"""
CALLS = """
variable "token" {
  ephemeral = true
  default   = "t"
}
module "m" {
  source = "./m"
  size   = SIZE
}
"""


@pytest.mark.parametrize(
    ("size", "more", "code", "text"),
    [
        ("{ count = 1 }", "", "", ""),
        ('"large"', "", "invalid-value-for-input-variable", "object required"),
        ("{}", "", "invalid-value-for-input-variable", '"count" is required'),
        ("null", "", "required-variable-not-set", "null"),
        ("{ count = 12 }", "", "invalid-value-for-variable", "Too large."),
        ("{ count = 12 }", "count = 0", "invalid-value-for-variable", "Too large."),
        ("{ count = 1 }", "secret = var.token", "ephemeral-value-not-allowed", "phemeral"),
        ("{ count = 1 }", "token = var.token", "", ""),
    ],
)
def test_module_calls_are_checked(
    drive: Drive, tmp_path: Path, size: str, more: str, code: str, text: str
) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "main.nf.hcl").write_text(CALLED)
    (tmp_path / "calls.nf.hcl").write_text(CALLS.replace("SIZE", "{ count = 1 }"))

    async def story(session: Session) -> None:
        session.open("calls.nf.hcl")
        assert await session.problems("calls.nf.hcl") == []
        session.type("calls.nf.hcl", CALLS.replace("SIZE", f"{size}\n  {more}"))
        problems = await session.problems("calls.nf.hcl")
        if not code:
            assert problems == []
            return
        (problem,) = problems
        assert problem.code == code
        assert text in problem.message
        # The argument, or the rule's argument in the call.
        assert problem.range.start.line >= 6
        session.type("calls.nf.hcl", CALLS.replace("SIZE", "{ count = 1 }"))
        assert await session.problems("calls.nf.hcl") == []

    drive(story)


def test_names_and_values_are_completed(drive: Drive) -> None:
    async def story(session: Session) -> None:
        session.open("cluster.nf.hcl")
        text = CLUSTER + (
            '\nresource "nexus_rack" "more" {\n  name = "more"\n  site_id = \n  machine\n}\n'
            'resource "nex'
        )
        session.type("cluster.nf.hcl", text)
        skus = await session.completions("cluster.nf.hcl", 'vm_sku_name = "')
        assert skus["NC_P46_224_v1"].detail == "46 vCPUs (48 of the host), 224 GiB, 1 cell"
        arguments = await session.completions("cluster.nf.hcl", "  machine")
        assert arguments["machine_count"].detail == "number, required"
        assert arguments["machine_override"].insert_text_format is lsp.InsertTextFormat.Snippet
        # The argument is already set.
        assert "name" not in arguments
        references = await session.completions("cluster.nf.hcl", '"more"\n  site_id = ')
        assert next(iter(references)) == "nexus_site.lab.id"
        assert "var.machines" in references
        types = await session.completions("cluster.nf.hcl", '\nresource "nex')
        assert {*RESOURCE_TYPES} <= set(types)

    drive(story)


@pytest.mark.of_domains("fleet")
def test_reference_by_name_is_completed_with_the_name(drive: Drive) -> None:
    async def story(session: Session) -> None:
        session.open("main.nf.hcl")
        strategy = '\nresource "fleet_staged_update_strategy" "slow" {\n}\n'
        run = 'resource "fleet_staged_update_run" "r" {\n  staged_rollout_strategy_name = \n}\n'
        session.type("main.nf.hcl", MAIN + strategy + run)
        references = await session.completions("main.nf.hcl", "staged_rollout_strategy_name = ")
        assert next(iter(references)) == "fleet_staged_update_strategy.slow.name"

    drive(story)


def test_reference_is_completed_step_by_step(drive: Drive) -> None:
    async def story(session: Session) -> None:
        session.open("main.nf.hcl")
        for typed, expected in (
            ("var.", "machines"),
            ("nexus_kubernetes_cluster.", "web"),
            ("nexus_kubernetes_cluster.web.no", "nodes"),
        ):
            session.type("main.nf.hcl", f'{MAIN}\noutput "x" {{\n  value = {typed}\n}}\n')
            assert expected in await session.completions("main.nf.hcl", f"value = {typed}")

    drive(story)


def test_placements_are_shown_as_inlay_hints(drive: Drive) -> None:
    async def story(session: Session) -> None:
        session.open("cluster.nf.hcl")
        whole = lsp.Range(lsp.Position(0, 0), lsp.Position(99, 0))
        document = lsp.TextDocumentIdentifier(session.uri("cluster.nf.hcl"))
        hints = await session.client.text_document_inlay_hint_async(
            lsp.InlayHintParams(document, whole)
        )
        assert hints is not None
        pools = {hint.position.line: hint.label for hint in hints}
        assert pools[7] == "räck1,2: 2 each"
        assert "web/pool1: 4 VMs on zones" in await session.hover("cluster.nf.hcl", "agent_pool")
        assert "; capacity for" in await session.hover("cluster.nf.hcl", "agent_pool")
        assert "**`NC_P22_112_v1`** 22 vCPUs" in await session.hover("cluster.nf.hcl", '"NC_P22')
        assert "required" in await session.hover("cluster.nf.hcl", "  site_id")
        session.type("cluster.nf.hcl", CLUSTER.replace("count       = 4", "count       = 8"))
        session.save("cluster.nf.hcl")
        hints = await session.client.text_document_inlay_hint_async(
            lsp.InlayHintParams(document, whole)
        )
        assert hints is not None
        assert {hint.position.line: hint.label for hint in hints}[7] == "räck1,2: 4 each"

    drive(story)


def test_plan_diagnostics_are_those_of_saved_text(drive: Drive) -> None:
    """The cases are surge capacity, and VMs without capacity."""
    full = CLUSTER.replace("= 4", "= 29")
    too_many = CLUSTER.replace("= 4", "= 99")

    async def codes(session: Session) -> dict[Any, Any]:
        return {p.code: p.severity for p in await session.problems("cluster.nf.hcl")}

    async def story(session: Session) -> None:
        session.open("cluster.nf.hcl")
        assert "no-surge-capacity" not in await codes(session)
        session.type("cluster.nf.hcl", full)
        assert "no-surge-capacity" not in await codes(session)
        session.save("cluster.nf.hcl")
        assert (await codes(session))["no-surge-capacity"] is lsp.DiagnosticSeverity.Warning
        session.type("cluster.nf.hcl", too_many)
        assert "no-surge-capacity" not in await codes(session)
        session.save("cluster.nf.hcl")
        assert (await codes(session))["insufficient-capacity"] is lsp.DiagnosticSeverity.Error
        session.type("cluster.nf.hcl", CLUSTER)
        session.save("cluster.nf.hcl")
        assert not {"insufficient-capacity", "no-surge-capacity"} & (await codes(session)).keys()

    drive(story)


def test_predictions_are_for_the_saved_text(drive: Drive) -> None:
    said = "Prediction for the saved text"

    async def story(session: Session) -> None:
        session.open("cluster.nf.hcl")
        assert said not in await session.hover("cluster.nf.hcl", "agent_pool")
        session.type("cluster.nf.hcl", CLUSTER.replace("count       = 4", "count       = 8"))
        hover = await session.hover("cluster.nf.hcl", "agent_pool")
        assert "web/pool1: 4 VMs" in hover
        assert said in hover
        session.save("cluster.nf.hcl")
        hover = await session.hover("cluster.nf.hcl", "agent_pool")
        assert "web/pool1: 8 VMs" in hover
        assert said not in hover

    drive(story)


def test_file_has_an_outline(drive: Drive) -> None:
    def lines(symbols: Sequence[Any], indent: str = "") -> list[str]:
        told = []
        for each in symbols:
            assert (
                each.range.start
                <= each.selection_range.start
                <= each.selection_range.end
                <= each.range.end
            )
            told += [f"{indent}{each.name}", *lines(each.children or (), f"{indent}  ")]
        return told

    async def story(session: Session) -> None:
        session.open("cluster.nf.hcl")
        session.type(
            "cluster.nf.hcl", f'{CLUSTER}\ndata "nexus_inventory" "i" {{}}\nlocals {{\n  n = 1'
        )
        document = lsp.TextDocumentIdentifier(session.uri("cluster.nf.hcl"))
        told = await session.client.text_document_document_symbol_async(
            lsp.DocumentSymbolParams(document)
        )
        assert lines(told or []) == [
            "nexus_kubernetes_cluster.web",
            "  site_id",
            "  control_plane",
            "    count",
            "    vm_sku_name",
            "  agent_pool pool1",
            "    count",
            "    vm_sku_name",
            "data.nexus_inventory.i",
            "locals",
            "  n",
        ]

    drive(story)


def test_corrections_are_quick_fixes(drive: Drive) -> None:
    mistakes = [
        ("machine_count = var", "machine_cont = var", 'Replace "machine_cont" by "machine_count"'),
        ("= var.machines", "= var.machine", 'Replace "machine" by "machines"'),
        ('"nexus_rack"', '"nexus_rak"', 'Replace "nexus_rak" by "nexus_rack"'),
        ("toset(", "tosett(", 'Replace "tosett" by "toset"'),
        ("for_each      =", "for_eech      =", 'Replace "for_eech" by "for_each"'),
        ('"Machines of a rack"', "\u201cMachines of a rack\u201d", "Replace by straight quotes"),
    ]

    async def story(session: Session) -> None:
        session.open("main.nf.hcl")
        for right, wrong, title in mistakes:
            session.type("main.nf.hcl", MAIN)
            assert await session.fixed("main.nf.hcl", right) == {}
            session.type("main.nf.hcl", MAIN.replace(right, wrong))
            before = MAIN.partition(right)[0]
            fixed = [await session.fixed("main.nf.hcl", before + wrong[:end]) for end in (1, -2)]
            assert {title: MAIN} in fixed
            assert all(each in ({}, {title: MAIN}) for each in fixed)

    drive(story)


def test_quick_fix_adds_moved_block_for_renamed_resource(drive: Drive, tmp_path: Path) -> None:
    applied = [*commands.nexusform(), f"-chdir={tmp_path}", "apply", "-auto-approve"]
    subprocess.run(applied, check=True, capture_output=True)

    async def story(session: Session) -> None:
        session.open("cluster.nf.hcl")
        session.type("cluster.nf.hcl", CLUSTER.replace('"web"', '"front"', 1))
        session.save("cluster.nf.hcl")
        fixed = await session.fixed("cluster.nf.hcl", 'resource "nexus_kub')
        moved = (
            "moved {\n  from = nexus_kubernetes_cluster.web\n  to   = "
            "nexus_kubernetes_cluster.front\n}"
        )
        assert list(fixed.values()) == [f"{session.texts['cluster.nf.hcl'].rstrip()}\n\n{moved}\n"]
        session.type("cluster.nf.hcl", *fixed.values())
        session.save("cluster.nf.hcl")
        assert await session.fixed("cluster.nf.hcl", 'resource "nexus_kub') == {}

    drive(story)


def test_definition_and_rename_of_names(drive: Drive, tmp_path: Path) -> None:
    async def story(session: Session) -> None:
        session.open("cluster.nf.hcl")
        session.open("main.nf.hcl")
        place = session.at("cluster.nf.hcl", "nexus_site.la")
        where = await session.client.text_document_definition_async(lsp.DefinitionParams(**place))
        assert isinstance(where, lsp.Location)
        assert (where.uri, where.range.start) == (session.uri("main.nf.hcl"), lsp.Position(0, 23))
        edit = await session.client.text_document_rename_async(
            lsp.RenameParams(new_name="lon", **place)
        )
        assert edit is not None
        for uri, changes in (edit.changes or {}).items():
            name = uri.rpartition("/")[2]
            (tmp_path / name).write_text(_apply_edits(session.texts[name], changes))
        assert "nexus_site.lab" not in (tmp_path / "cluster.nf.hcl").read_text()
        main = (tmp_path / "main.nf.hcl").read_text()
        assert 'resource "nexus_site" "lon" {}\n\nmoved {\n  from = nexus_site.lab\n' in main
        place = session.at("main.nf.hcl", "var.mach")
        edit = await session.client.text_document_rename_async(
            lsp.RenameParams(new_name="servers", **place)
        )
        assert edit is not None
        ((_, changes),) = (edit.changes or {}).items()
        renamed = _apply_edits(MAIN, changes)
        assert renamed == MAIN.replace("var.machines", "var.servers").replace(
            '"machines"', '"servers"'
        )
        with pytest.raises(Exception, match="is not a valid name"):
            await session.client.text_document_rename_async(
                lsp.RenameParams(new_name="1x", **place)
            )

    drive(story)


def _apply_edits(text: str, changes: Any) -> str:
    lines = text.split("\n")

    def offset(position: lsp.Position) -> int:
        before = sum(len(line) + 1 for line in lines[: position.line])
        return before + len(
            lines[position.line].encode("utf-16-le")[: 2 * position.character].decode("utf-16-le")
        )

    for change in sorted(changes, key=lambda c: offset(c.range.start), reverse=True):
        text = (
            text[: offset(change.range.start)] + change.new_text + text[offset(change.range.end) :]
        )
    return text


def test_positions_after_incremental_change(drive: Drive) -> None:
    async def story(session: Session) -> None:
        session.open("main.nf.hcl")
        session.type("main.nf.hcl", MAIN.replace("räck", "r\U0001f600ck"))
        session.insert("main.nf.hcl", "r\U0001f600ck", "${var.none}")
        (problem,) = await session.problems("main.nf.hcl")
        assert problem.code == "reference-to-undeclared-input-variable"
        assert problem.range.start == lsp.Position(5, 26)

    drive(story)


def test_open_file_overrides_disk_until_it_is_closed(drive: Drive, tmp_path: Path) -> None:
    async def story(session: Session) -> None:
        session.open("main.nf.hcl")
        (tmp_path / "new.nf.hcl").write_text('variable "none" {\n  type = number\n}\n\nx = 1\n')
        session.open("new.nf.hcl")
        (tmp_path / "new.nf.hcl").unlink()
        session.insert("main.nf.hcl", "machine_count = var.machines", " + var.none")
        assert await session.problems("main.nf.hcl") == []
        assert [problem.code for problem in await session.problems("new.nf.hcl")] == [
            "unsupported-argument"
        ]
        session.close("new.nf.hcl")
        assert len(await session.problems("main.nf.hcl")) == 1
        assert session.told[session.uri("new.nf.hcl")] == []

    drive(story)


def test_json_files_are_checked_and_other_uris_are_ignored(drive: Drive, tmp_path: Path) -> None:
    async def story(session: Session) -> None:
        (tmp_path / "more.nf.json").write_text('{"output": {"a": {"value": "${var.none}"}}}')
        for uri in ("untitled:Untitled-1", f"git:{tmp_path}/main.nf.hcl?HEAD"):
            item = lsp.TextDocumentItem(uri, "nexusform", 1, "x = 1\n")
            session.client.text_document_did_open(lsp.DidOpenTextDocumentParams(item))
        session.open("more.nf.json")
        (problem,) = await session.problems("more.nf.json")
        assert problem.range.start == lsp.Position(0, 30)
        assert {uri for uri, problems in session.told.items() if problems} == {
            session.uri("more.nf.json")
        }
        assert all(uri.startswith(tmp_path.as_uri()) for uri in session.told)

    drive(story)


def test_file_is_formatted(drive: Drive) -> None:
    async def story(session: Session) -> None:
        session.open("main.nf.hcl")
        session.type("main.nf.hcl", MAIN.replace("  default     = 4", "default=4"))
        document = lsp.TextDocumentIdentifier(session.uri("main.nf.hcl"))
        options = lsp.FormattingOptions(2, insert_spaces=True)
        edits = await session.client.text_document_formatting_async(
            lsp.DocumentFormattingParams(document, options)
        )
        assert edits is not None
        assert _apply_edits(session.texts["main.nf.hcl"], edits) == MAIN

    drive(story)


def test_editor_exit_ends_server_silently() -> None:
    def build_message(**members: Any) -> bytes:
        body = json.dumps({"jsonrpc": "2.0", **members}).encode()
        return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)

    spoken = [
        build_message(
            id=1,
            method="initialize",
            params={"processId": None, "rootUri": None, "capabilities": {}},
        ),
        build_message(method="initialized", params={}),
        build_message(id=2, method="shutdown"),
        build_message(method="exit"),
    ]
    command = [sys.executable, "-m", "nexusform", "lsp"]
    ended = subprocess.run(
        command, input=b"".join(spoken), capture_output=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert b'"id":2,' in ended.stdout.replace(b" ", b"")
