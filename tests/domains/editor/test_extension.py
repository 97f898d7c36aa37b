"""Tests of editors/: the extension's files are valid for an editor."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from nexusform.cli.command_table import COMMANDS

FOLDER = Path(__file__).parents[3] / "editors" / "vscode"
GRAMMAR = json.loads(
    (FOLDER / "syntaxes" / "nexusform.tmLanguage.json").read_text(encoding="utf-8")
)
EXAMPLE = Path(__file__).parents[3] / "examples" / "nexus-document" / "clusters.nf.hcl"


def _rules(rule: Any) -> list[dict[str, Any]]:
    rules = [rule] if isinstance(rule, dict) else []
    inner = rule.values() if isinstance(rule, dict) else rule if isinstance(rule, list) else ()
    return rules + [found for each in inner for found in _rules(each)]


def test_manifest_names_existing_files_and_command() -> None:
    manifest = json.loads((FOLDER / "package.json").read_text(encoding="utf-8"))
    (language,), (grammar,) = (
        manifest["contributes"]["languages"],
        manifest["contributes"]["grammars"],
    )
    for path in (manifest["main"], language["configuration"], grammar["path"]):
        assert (FOLDER / path).is_file()
    assert grammar["scopeName"] == GRAMMAR["scopeName"]
    _, subcommand = manifest["contributes"]["configuration"]["properties"]["nexusform.command"][
        "default"
    ]
    assert subcommand in COMMANDS
    assert manifest["capabilities"]["untrustedWorkspaces"]["supported"] is False


def test_grammar_is_complete_and_matches_a_configuration() -> None:
    for rule in _rules(GRAMMAR):
        if isinstance(rule.get("include"), str):
            assert rule["include"].removeprefix("#") in GRAMMAR["repository"]
        for key in ("match", "begin"):
            if isinstance(rule.get(key), str):
                re.compile(rule[key])
    block = re.compile(GRAMMAR["repository"]["block"]["match"], re.MULTILINE)
    heads = {match[1] for match in block.finditer(EXAMPLE.read_text(encoding="utf-8"))}
    assert heads >= {"resource", "agent_pool", "control_plane"}
