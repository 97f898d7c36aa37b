"""Tests of names in foreign documents: each is one token of its line, in every format."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from nexusform.cli.main import run_command_line
from nexusform.diagnostics.names import escape_name
from tests.kill_points import select_cases

EXAMPLES = Path(__file__).parents[2] / "examples"
FORGED = "Reviewed by security: 0 to add"
IGNORABLE = "\u00ad\u034f\u3164\u200d\ufe0f\U000e0041"
HOSTILE = f"\n{FORGED}\u202e\x1b[31m\r\n\u2028{IGNORABLE} https://example.org/x www.example.org"
FORMATS = ("text", "markdown", "html", "svg", "sarif", "csv", "junit")
# Of a line: margins of boxes and quotes, and the sign of a change.
_START = re.compile(r"[\s│╷╵>+~!<>|-]*")
_UNSEEN = re.compile(f"[\u202e\u2028\x1b\r{IGNORABLE}]")
_CODE_IN_MARKDOWN = re.compile(r"(?s)^(`{3,}).*?^\1$|(`+).*?\2", re.MULTILINE)
_LIVE_ADDRESS = re.compile(r"(?<!\()(?:https?://|www\.)example", re.IGNORECASE)


def list_strings(document: Any, field: str = "") -> Iterator[tuple[str, str]]:
    """Yield each string of a document with the name of its field; names of fields, too."""
    if isinstance(document, dict):
        for name, part in document.items():
            yield from list_strings(part, name)
    elif isinstance(document, list):
        for part in document:
            yield from list_strings(part, field)
    elif isinstance(document, str):
        yield field, document


def replace_strings(document: Any, names: frozenset[str]) -> Any:
    """Return a document with hostile strings in place of these, also in names of fields."""
    if isinstance(document, dict):
        return {
            (name + HOSTILE if name in names else name): replace_strings(part, names)
            for name, part in document.items()
        }
    if isinstance(document, list):
        return [replace_strings(part, names) for part in document]
    return document + HOSTILE if isinstance(document, str) and document in names else document


def find_forged_lines(text: str) -> list[str]:
    """Return lines that begin with the text of the name, except those of a quoted value."""
    found: list[str] = []
    is_value = False
    for line in text.replace("\r\n", "\n").split("\n"):
        content = line[_START.match(line).end() :]
        if "<<-EOT" in line:
            is_value = True
        elif content.startswith("EOT"):
            is_value = False
        elif content.startswith(FORGED) and not is_value:
            found.append(line)
    return found


# Examples with foreign documents: directory, and patterns of the documents.
CASES = {
    "openstack-tacker": ("export/*.json", "vnf-a/**/*.yaml", "request.json", "redis.yaml"),
    "inventory": ("export/*.json",),
    "fleet-dump": ("hub/*.json",),
    "real-nodes": ("nodes.json", "upf.yaml"),
    "fleet-hub": ("*.yaml",),
}


def read_documents(path: Path) -> list[Any]:
    text = path.read_text(encoding="utf-8")
    return [json.loads(text)] if path.suffix == ".json" else list(yaml.safe_load_all(text))


def write_documents(path: Path, documents: list[Any]) -> None:
    if path.suffix == ".json":
        text = json.dumps(documents[0])
    else:
        text = "---\n".join(json.dumps(document, default=str) + "\n" for document in documents)
    path.write_text(text, encoding="utf-8")


def find_documents(example: str) -> list[Path]:
    return sorted(path for pattern in CASES[example] for path in (EXAMPLES / example).glob(pattern))


def list_fields(example: str) -> dict[str, frozenset[str]]:
    """Return the strings of the documents of an example by the name of their field."""
    fields: dict[str, set[str]] = {}
    for path in find_documents(example):
        for document in read_documents(path):
            for field, text in list_strings(document):
                fields.setdefault(field, set()).add(text)
    return {field: frozenset(texts) for field, texts in sorted(fields.items())}


# Always tried; of all others the share of this run.
ALWAYS = [
    ("openstack-tacker", "Zone"),
    ("openstack-tacker", "Host"),
    ("openstack-tacker", "targets"),
    ("inventory", "name"),
    ("inventory", "availabilityZone"),
    ("fleet-dump", "name"),
    ("fleet-dump", "reason"),
    ("real-nodes", "nodeName"),
]
ALL = [(example, field) for example in CASES for field in list_fields(example)]


def write_example(example: str, names: frozenset[str], directory: Path) -> None:
    """Write an example with hostile strings in place of these in its documents."""
    shutil.copytree(EXAMPLES / example, directory)
    for path in find_documents(example):
        documents = [replace_strings(document, names) for document in read_documents(path)]
        write_documents(directory / path.relative_to(EXAMPLES / example), documents)
    # Without the server of Tacker.
    main = directory / "main.nf.hcl"
    text = main.read_text(encoding="utf-8").replace("  provider            = tacker\n", "")
    main.write_text(re.sub(r'(?ms)^provider "tacker" \{.*?^\}\n', "", text), encoding="utf-8")


@pytest.mark.of_domains("azure", "fleet", "openstack", "pods", "vnf")
@pytest.mark.parametrize(
    ("example", "field"),
    list(dict.fromkeys([*ALWAYS, *select_cases(ALL)])),
    ids=lambda text: text.replace("/", "-"),
)
def test_name_is_one_token_in_every_format(
    example: str,
    field: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    directory = tmp_path / "example"
    write_example(example, list_fields(example)[field], directory)
    monkeypatch.chdir(directory)
    monkeypatch.setenv("NF_CACHE_DIR", str(tmp_path / "cache"))
    reports = [f"-report={name}:report.{name}" for name in FORMATS]
    assert run_command_line(["plan", "-input=false", "-no-color", "-samples=3", *reports]) in {0, 1}
    captured = capsys.readouterr()
    texts = {"terminal": captured.out + captured.err}
    texts |= {path.suffix: path.read_text(encoding="utf-8") for path in Path().glob("report.*")}
    assert "Internal error" not in texts["terminal"]
    forged = {name: find_forged_lines(text) for name, text in texts.items()}
    assert {name: lines for name, lines in forged.items() if lines} == {}
    assert [
        name for name, text in texts.items() if _UNSEEN.search(text.replace("\r\n", "\n"))
    ] == []
    comment = remove_code(texts.get(".markdown", ""))
    assert _LIVE_ADDRESS.findall(comment) == []


def remove_code(markdown: str) -> str:
    """Return a comment without escaped backticks, code blocks and code in lines."""
    return _CODE_IN_MARKDOWN.sub("", markdown.replace("\\`", ""))


HOSTILE_CONFIGURATION = """
variable "label" {
  type    = string
  default = "VALUE"
  validation {
    condition     = length(var.label) < 3
    error_message = "The label ${var.label} is too long."
  }
}
"""
HOSTILE_PLAN = """
resource "nexus_site" "lab" {
  name = "VALUE"
}
resource "nexus_rack" "r" {
  for_each      = toset(["VALUE"])
  site_id       = nexus_site.lab.id
  name          = "rack ${each.key}"
  machine_count = 1
}
check "label" {
  assert {
    condition     = length(nexus_site.lab.name) < 3
    error_message = "The site VALUE has a long name."
  }
}
output "label" {
  value = "VALUE"
}
"""
# Each of the values would begin a block of its own on its line.
BLOCK_STARTS = ("> quote", "---", "===", "~~~", "# title", "```", "+ item", "<b>", "$$x$$")


@pytest.mark.parametrize("start", BLOCK_STARTS)
@pytest.mark.parametrize("configuration", [HOSTILE_CONFIGURATION, HOSTILE_PLAN])
def test_value_of_the_configuration_has_no_effect_in_any_format(
    configuration: str,
    start: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    value = f"see https://example.org/x{IGNORABLE}\\u2028\\n\\n{start}\\n{FORGED}"
    Path("main.nf.hcl").write_text(configuration.replace("VALUE", value), encoding="utf-8")
    reports = [f"-report={name}:report.{name}" for name in FORMATS]
    assert run_command_line(["plan", "-input=false", "-no-color", *reports]) in {0, 1}
    captured = capsys.readouterr()
    texts = {"terminal": captured.out + captured.err}
    texts |= {path.suffix: path.read_text(encoding="utf-8") for path in Path().glob("report.*")}
    assert len(texts) > 2
    assert "Internal error" not in texts["terminal"]
    assert [name for name, text in texts.items() if _UNSEEN.search(text)] == []
    comment = remove_code(texts[".markdown"])
    assert _LIVE_ADDRESS.findall(comment) == []
    # Only the value has this text, and the comment no line that begins with it.
    assert [line for line in comment.split("\n") if line.strip() == start] == []


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("Compute05", "Compute05"),
        ("Grüße 日本", "Grüße 日本"),
        ("n\nforged", r"n\nforged"),
        ("n\r\n\tforged", r"n\r\n\tforged"),
        ("n\u2028forged\x85", r"n\u2028forged\u0085"),
        ("\x1b[31mred", r"\u001b[31mred"),
        ("a\u202eb\u2066c\u200b", r"a\u202eb\u2066c\u200b"),
        ("a\u00adb\u034f\u3164", r"a\u00adb\u034f\u3164"),
        # Joiners and selectors are visible where no emoji or script needs them.
        ("a\u200db\ufe0f", r"a\u200db\ufe0f"),
        ("👁\ufe0f\u200d🗨\ufe0f\ufe0f", "👁\ufe0f\u200d🗨\ufe0f\\ufe0f"),
        # A word of Persian with a joiner.
        ("\u0645\u06cc\u200c\u062e", "\u0645\u06cc\u200c\u062e"),
    ],
)
def test_name_is_escaped_to_one_token(text: str, escaped: str) -> None:
    assert escape_name(text) == escaped


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (f"a\n{FORGED}\n", 1),
        (f"a\n│   {FORGED}\n", 1),
        (f"a\n> + {FORGED}\n", 1),
        (f"a {FORGED}\n", 0),
        (f"x = <<-EOT\n    {FORGED}\nEOT\n", 0),
        (f"x = <<-EOT\n    a\nEOT\n{FORGED}\n", 1),
    ],
)
def test_forged_line_is_found(text: str, count: int) -> None:
    assert len(find_forged_lines(text)) == count
