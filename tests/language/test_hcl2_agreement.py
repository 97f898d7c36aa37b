"""Tests of agreement with the hcl2 package: it reads the same arguments, blocks, names and numbers.

Only text accepted by both is compared. Text accepted by hcl2 but forbidden by HCL, and the reverse,
is listed in docs/language-differences.md and tested below against nexusform.
"""

import re
from pathlib import Path
from typing import Any

import hcl2
import pytest

from nexusform.diagnostics.diagnostic import SourceFile
from nexusform.language.body_decoding import decode_attributes
from nexusform.language.parser import parse_expression, parse_file
from nexusform.language.references import list_traversals
from nexusform.language.syntax.scanner import IDENT, NUMBER, scan_text
from nexusform.language.syntax.syntax_nodes import (
    Body,
    Literal,
    ObjectCons,
    StringLiteral,
    TemplateWrap,
    TupleCons,
)

ROOT = Path(__file__).parents[2]

CLUSTER = """
# A site with one cluster.
resource "nexus_kubernetes_cluster" "a" {
  site_id = nexus_site.east.id
  name    = "a-${var.env}"

  control_plane {
    count       = 3
    vm_sku_name = "NC_G6_28_v1"
  }

  agent_pool "np1" {
    count              = var.size * 2 + 1
    vm_sku_name        = local.skus["worker"][0]
    availability_zones = [for z in var.zones : upper(z) if z != "3"]
    labels             = { role = "worker", tier = var.env == "prod" ? "gold" : "tin" }
  }

  lifecycle {
    prevent_destroy = true
    ignore_changes  = [agent_pool["np1"].count]
  }
}

locals {
  by_name = { for k, v in var.machines : k => v.slot... }
  ids     = nexus_rack.r[*].id
  ratio   = 1.5e3
  text    = <<-EOT
    one ${local.two}
  EOT
}
"""

SOURCES = {"cluster": CLUSTER}
SOURCES |= {
    path.relative_to(ROOT).as_posix(): path.read_text("utf-8")
    for path in sorted((ROOT / "examples").rglob("*.hcl"))
}


def outline_nexusform_body(body: Body) -> list[Any]:
    items: list[tuple[int, Any]] = []
    for attribute in body.attributes:
        start = attribute.name_span.start
        items.append((start.byte, (attribute.name, start.line, start.column)))
    for block in body.blocks:
        start = block.type_span.start
        assert isinstance(block.body, Body)
        labels = [label.value for label in block.labels]
        items.append(
            (
                start.byte,
                (block.type, labels, start.line, start.column, outline_nexusform_body(block.body)),
            )
        )
    return [item for _, item in sorted(items, key=lambda each: each[0])]


def outline_hcl2_body(body: Any) -> list[Any]:
    items: list[Any] = []
    for child in body.children:
        if child.data == "attribute":
            name = child.children[0].children[0]
            items.append((str(name), name.line, name.column))
        elif child.data == "block":
            inner = next(part for part in child.children if getattr(part, "data", "") == "body")
            head = [
                part
                for part in child.children[: child.children.index(inner)]
                if hasattr(part, "data")
            ]
            words = [
                "".join(
                    str(token) for token in part.scan_values(lambda token: token.type != "DBLQUOTE")
                )
                for part in head
                if part.data != "new_line_or_comment"
            ]
            first = head[0].children[0]
            items.append((words[0], words[1:], first.line, first.column, outline_hcl2_body(inner)))
    return items


def list_nexusform_words(text: str) -> list[tuple[str, int]]:
    tokens = scan_text(text)
    return [
        (tokens.get_text(index), tokens.starts[index])
        for index, kind in enumerate(tokens.kinds)
        if kind in {IDENT, NUMBER}
    ]


def list_hcl2_words(tree: Any) -> list[tuple[str, int]]:
    skipped = {"STRING_CHARS", "NL_OR_COMMENT", "HEREDOC_TEMPLATE", "HEREDOC_TEMPLATE_TRIM"}
    return [
        (str(token), token.start_pos)
        for token in tree.scan_values(lambda token: token.type not in skipped)
        if re.match(r"\w", token)
    ]


@pytest.mark.parametrize("name", SOURCES)
def test_hcl2_finds_same_arguments_and_blocks_at_same_positions(name: str) -> None:
    body, diagnostics = parse_file(SourceFile(name, SOURCES[name]))
    assert diagnostics == []
    tree = hcl2.parses_to_tree(SOURCES[name])
    assert outline_nexusform_body(body) == outline_hcl2_body(tree.children[0])


@pytest.mark.parametrize("name", SOURCES)
def test_hcl2_finds_same_names_and_numbers(name: str) -> None:
    without_heredocs = re.sub(r"<<-?(\w+)\n.*?\n\s*\1\n", "null\n", SOURCES[name], flags=re.DOTALL)
    assert list_nexusform_words(without_heredocs) == list_hcl2_words(
        hcl2.parses_to_tree(without_heredocs)
    )


def convert_to_data(expression: Any) -> Any:
    if isinstance(expression, TupleCons):
        return [convert_to_data(item) for item in expression.items]
    if isinstance(expression, ObjectCons):
        return {
            key.expression.root.name if key.bare else key.expression.value: convert_to_data(value)
            for key, value in expression.items
        }
    if isinstance(expression, (Literal, StringLiteral)):
        return expression.value
    assert isinstance(expression, TemplateWrap) or list_traversals(expression)
    return "a reference"


def test_text_written_by_hcl2_is_read_as_intended() -> None:
    data = {
        "name": '"np1"',
        "count": 3,
        "zones": ['"1"', '"2"'],
        "labels": {"role": '"worker"', "on": True, "none": None},
        "site": "${nexus_site.east.id}",
    }
    body, diagnostics = parse_file(SourceFile("written.hcl", hcl2.dumps(data)))
    assert diagnostics == []
    found, _ = decode_attributes(body)
    assert {name: convert_to_data(each.expression) for name, each in found.items()} == {
        "name": "np1",
        "count": 3,
        "zones": ["1", "2"],
        "labels": {"role": "worker", "on": True, "none": None},
        "site": "a reference",
    }


REFUSED_BY_HCL = {
    "a = 1\na = 2": "Attribute redefined",
    "a = 1 b = 2": "Missing newline after argument",
    "a\n{\n}": "Argument or block definition required",
    'a = "x\ny"': "Invalid multi-line string",
    "a = { b = 1 c = 2 }": "Missing attribute separator",
    'a = "\\q"': "Invalid escape sequence",
    'a "${b}" {\n}': "Invalid string literal",
}


@pytest.mark.parametrize("text", REFUSED_BY_HCL)
def test_text_forbidden_by_hcl_is_rejected_despite_hcl2(text: str) -> None:
    _, diagnostics = parse_file(SourceFile("x.hcl", text))
    assert diagnostics[0].summary == REFUSED_BY_HCL[text]


@pytest.mark.parametrize(
    "text",
    [
        "!!a",
        "größe",
        '"${~ x ~}"',
        '"${\n  x\n}"',
        "/* c */ 3",
        "1.50",
        '"$${a"',
        "{ for_each = 1 }",
        "a ?\nb : c",
    ],
)
def test_text_allowed_by_hcl_is_read_despite_hcl2(text: str) -> None:
    expression, diagnostics = parse_expression(SourceFile("x.hcl", text))
    assert diagnostics == []
    assert expression is not None
