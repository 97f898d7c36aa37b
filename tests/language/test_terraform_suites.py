"""Tests of the comparison with Terraform's and OpenTofu's own tests.

NEXUSFORM_TERRAFORM_TREE names a downloaded source tree of either; without it, the tables below are
read, which have the form of theirs.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nexusform.schemas.value_types import STRING
from nexusform.values.typed_value import (
    NO_REFINEMENT,
    NOT_NULL,
    UNKNOWN,
    Value,
    add_refinement,
    build_number,
    build_string,
    build_unknown,
    get_refinement,
)
from tests.nightly.go_tables import GoCase, parse_expression_tables, parse_function_tables
from tests.nightly.suite_translation import (
    NEXUSFORM,
    TERRAFORM,
    Unsayable,
    read_test_table,
    translate_text,
)
from tests.nightly.terraform_suites import (
    INTENDED,
    compare_console_texts,
    compare_expressions,
    compare_formatting,
    compare_functions,
    evaluate_case,
    list_unintended,
)

PAGE = Path(__file__).parents[2] / "docs" / "language-differences.md"
EXPRESSIONS = """
	tests := map[string][]struct {
		src  string
		want cty.Value
	}{
		"abs": {
			{
				`abs(-2)`,
				cty.NumberIntVal(2),
			},
		},
		"abspath": {
			{
				`abspath(".")`,
				cty.StringVal((func() string { return "x" })()),
			},
		},
	}

"""
FUNCTIONS = """
func TestUpper(t *testing.T) {
	small := cty.StringVal("a")
	tests := []struct {
		Text cty.Value
		Want cty.Value
		Err  bool
	}{
		{
			small,
			cty.StringVal("A"),
			false,
		},
		{
			cty.MapVal(map[string]cty.Value{"k": small}),
			cty.NilVal,
			true,
		},
		{
			makeValue(),
			cty.StringVal("A"),
			false,
		},
	}
	for _, test := range tests {
		got, err := Upper(test.Text)
	}
}
"""
CONFIGURATION = """
terraform {
  required_providers {
    a = {
      source = "b/c"
    }
  }
}
resource "test_thing" "x" {
  count = 2
  size  = var.size
  disk {
    kind = terraform.workspace
  }
}
output "o" {
  value = test_thing.x[0].size.deep
}
"""


def test_tables_of_go_are_read() -> None:
    assert list(parse_expression_tables(EXPRESSIONS)) == [
        ("abs", "abs(-2)", build_number(2)),
        ("abspath", 'abspath(".")', None),
    ]
    good, wrong, unreadable = parse_function_tables(FUNCTIONS)
    assert good == GoCase("TestUpper 1", "upper(a0)", {"a0": build_string("a")}, build_string("A"))
    assert isinstance(wrong, GoCase)
    assert wrong.result is None
    assert unreadable == "TestUpper 3: other code"


def test_configurations_are_translated() -> None:
    ours = translate_text(CONFIGURATION, "main.tf", NEXUSFORM)
    theirs = translate_text(CONFIGURATION, "main.tf", TERRAFORM)
    value = "sha1(jsonencode({ size = var.size, disk_kind = nexusform.workspace }))"
    assert f'resource "nexus_site" "test_thing_x" {{\n  name = {value}\n  count = 2\n}}' in ours
    assert "value = nexus_site.test_thing_x[0].id" in ours
    assert "value = terraform_data.test_thing_x[0].id" in theirs
    with pytest.raises(Unsayable, match="block data"):
        translate_text('data "a" "b" {\n}\n', "main.tf", NEXUSFORM)


def test_table_of_test_files_is_read() -> None:
    table = (
        'tcs := map[string]struct {\n\t}{\n\t\t"a-b": {\n\t\t\targs: []string{"-var=x=1"},\n'
        '\t\t\texpectedOut: []string{"1 passed, 2 failed."},\n\t\t\tcode: 1,\n\t\t},\n\t}\n'
        "\tfor name"
    )
    assert read_test_table(table) == {"a-b": (1, "1 passed, 2 failed", ["-var=x=1"], {}, "a-b")}


def test_intended_differences_are_documented() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert [subject for subject in INTENDED.values() if subject not in page] == []


def test_unknown_ephemeral_value_stays_unknown_without_known_facts(tmp_path: Path) -> None:
    unknown = add_refinement(build_unknown(STRING), NOT_NULL)
    ephemeral = Value(STRING, UNKNOWN, frozenset({"ephemeral", "sensitive"}), unknown.refinement)
    result = evaluate_case("ephemeralasnull(x)", {"x": ephemeral}, tmp_path)
    assert result == Value(STRING, UNKNOWN, frozenset({"sensitive"}))
    assert isinstance(result, Value)
    assert get_refinement(result) == NO_REFINEMENT
    plain = evaluate_case("ephemeralasnull(x)", {"x": unknown}, tmp_path)
    assert isinstance(plain, Value)
    assert get_refinement(plain) == NOT_NULL


@pytest.mark.skipif("NEXUSFORM_TERRAFORM_TREE" not in os.environ, reason="needs a source tree")
def test_functions_have_the_same_results() -> None:
    tree = Path(os.environ["NEXUSFORM_TERRAFORM_TREE"])
    for comparison in (
        compare_expressions(tree),
        compare_functions(tree),
        compare_formatting(tree),
        compare_console_texts(tree),
    ):
        assert comparison.compared > 30
        assert list_unintended(comparison) == []
