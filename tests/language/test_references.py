"""Tests of free names of expressions and bodies."""

import pytest

from nexusform.diagnostics.diagnostic import SourceFile
from nexusform.language.json_syntax import parse_json_file
from nexusform.language.parser import parse_expression, parse_file
from nexusform.language.references import list_body_traversals, list_traversals, parse_traversal
from nexusform.language.syntax.syntax_nodes import Traversal, TraverseAttribute


def format_traversal(found: Traversal) -> str:
    steps = (
        f".{step.name}" if isinstance(step, TraverseAttribute) else f"[{step.key!r}]"
        for step in found.steps
    )
    return found.root.name + "".join(steps)


FREE = {
    "1": [],
    "a": ["a"],
    "a.b[0]['c']".replace("'", '"'): ["a.b[0]['c']"],
    "a[b.c].d": ["a", "b.c"],
    "f(a, g(b)...)": ["a", "b"],
    '[a, {b = c, (d) = e, "${f}" = g}]': ["a", "c", "d", "e", "f", "g"],
    "a ? b : -c + !d": ["a", "b", "c", "d"],
    '"x ${a} %{ if b }${c}%{ else }${d}%{ endif }"': ["a", "b", "c", "d"],
    "a[*].b[c]": ["a", "c"],
    "a.*.b[c]": ["a", "c"],
    "[for k, v in k : v.x + w if k]": ["k", "w"],
    "{for v in a : v => k... if b}": ["a", "k", "b"],
    "[for v in a : [for w in v : w + v + x]]": ["a", "x"],
    '"%{ for k, v in c }${k}${v}${w}%{ endfor }${v}"': ["c", "w", "v"],
    "f(a)[b].c": ["a", "b"],
    "a.b + a.b": ["a.b", "a.b"],
}


@pytest.mark.parametrize("text", FREE)
def test_free_traversals_are_listed_in_source_order(text: str) -> None:
    expression, diagnostics = parse_expression(SourceFile("x", text))
    assert diagnostics == []
    assert expression is not None
    assert [format_traversal(each) for each in list_traversals(expression)] == FREE[text]


NATIVE = """
a = one
b {
  c = two
  dynamic "taint" {
    for_each = taint.three
    labels   = [taint.key]
    content {
      value = taint.value + four
      dynamic "inner" {
        for_each = taint.value.list
        iterator = each_one
        content {
          x = each_one.value + inner.five
        }
      }
    }
  }
}
z = six
"""

JSON = """
{
  "a": "${one}",
  "b": {
    "c": "${two}",
    "dynamic": {
      "taint": {
        "for_each": "${taint.three}",
        "labels": ["${taint.key}"],
        "content": {
          "value": "${taint.value + four}",
          "dynamic": [{"inner": [{
            "for_each": "${taint.value.list}",
            "iterator": "each_one",
            "content": {"x": "${each_one.value + inner.five}"}
          }]}]
        }
      }
    }
  },
  "z": "${six}"
}
"""


def test_free_names_of_body_exclude_dynamic_block_iterators() -> None:
    expected = ["one", "two", "taint.three", "four", "inner.five", "six"]
    native, _ = parse_file(SourceFile("a.nf.hcl", NATIVE))
    assert [format_traversal(each) for each in list_body_traversals(native)] == expected
    json_body, _ = parse_json_file(SourceFile("a.nf.json", JSON))
    assert [format_traversal(each) for each in list_body_traversals(json_body)] == expected


def test_names_of_json_properties_are_templates_too() -> None:
    body, _ = parse_json_file(SourceFile("a.nf.json", '{"a": {"${b.c}": "x ${d}", "plain {": 1}}'))
    assert [format_traversal(each) for each in list_body_traversals(body)] == ["b.c", "d"]


def test_json_reference_may_be_a_string() -> None:
    for text in ("a.b[0]", '"a.b[0]"'):
        expression, _ = parse_expression(SourceFile("x", text))
        assert expression is not None
        found = parse_traversal(expression)
        assert found is not None
        assert format_traversal(found) == "a.b[0]"
    for text in ("1", '"a b"', '"${a}"', "f(a)"):
        expression, _ = parse_expression(SourceFile("x", text))
        assert expression is not None
        assert parse_traversal(expression) is None
