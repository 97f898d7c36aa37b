"""Tests of all functions: their examples, their reference page, their names."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nexusform.diagnostics.diagnostic import Diagnostic, SourceFile, build_error
from nexusform.language.evaluator import evaluate_expression
from nexusform.language.functions.function import Function, FunctionProblem, format_signature
from nexusform.language.functions.hashing import decode_base64
from nexusform.language.parser import parse_expression
from nexusform.language.syntax.syntax_nodes import Traversal
from nexusform.language.type_unification import compare_values
from nexusform.schemas.value_types import STRING, ListType, SetType
from nexusform.values.typed_value import DYNAMIC_UNKNOWN, UNKNOWN, Value
from tests.language.function_families import list_function_families

_PAGE = Path(__file__).parents[3] / "docs" / "reference" / "functions.md"

_TERRAFORM = "https://developer.hashicorp.com/terraform/language/functions"
# Functions of OpenTofu missing in Terraform.
_OPENTOFU = ("base64gunzip", "cidrcontains", "urldecode")

# Functions available to Terraform configurations, except bcrypt and rsadecrypt.
_EXPECTED = """
abs abspath alltrue anytrue base64decode base64encode base64gzip base64sha256 base64sha512 basename can ceil
chomp chunklist cidrhost cidrnetmask cidrsubnet cidrsubnets coalesce coalescelist compact concat contains
convert
csvdecode dirname distinct element endswith ephemeralasnull file filebase64 filebase64sha256 filebase64sha512
fileexists filemd5 fileset filesha1 filesha256 filesha512 flatten floor format formatdate formatlist indent
index issensitive join jsondecode jsonencode keys length log lookup lower matchkeys max md5 merge min
nonsensitive one parseint pathexpand plantimestamp pow range regex regexall replace reverse sensitive
setintersection setproduct setsubtract setunion sha1 sha256 sha512 signum slice sort split startswith
strcontains strrev substr sum templatefile templatestring textdecodebase64 textencodebase64 timeadd timecmp
timestamp title tobool tolist tomap tonumber toset tostring transpose trim trimprefix trimspace trimsuffix try
type upper urlencode uuid uuidv5 values yamldecode yamlencode zipmap
base64gunzip cidrcontains urldecode
"""  # noqa: E501


class ConstantScope:
    functions = {f.name: f for _, family in list_function_families() for f in family}  # noqa: RUF012 - never changed

    def lookup(self, traversal: Traversal) -> tuple[Value, int, list[Diagnostic]]:
        return (
            DYNAMIC_UNKNOWN,
            len(traversal.steps),
            [build_error("invalid-reference", "", traversal.span)],
        )


def evaluate_constant(text: str) -> Value:
    expression, problems = parse_expression(SourceFile("example", text))
    assert expression is not None, problems
    value, problems = evaluate_expression(expression, ConstantScope())
    assert problems == []
    return value


def test_every_expected_function_exists() -> None:
    assert sorted(ConstantScope.functions) == sorted(_EXPECTED.split())


_CALLS = [
    (e.call, e.result) for function in ConstantScope.functions.values() for e in function.examples
]


@pytest.mark.parametrize(("call", "result"), _CALLS)
def test_example_has_its_documented_result(call: str, result: str) -> None:
    got = evaluate_constant(call)
    wanted = evaluate_constant(result)
    if got.type != wanted.type:
        got = evaluate_constant(f"jsonencode({call})")
        wanted = evaluate_constant(f"jsonencode({result})")
    assert compare_values(got, wanted).raw is True


def render_reference() -> str:
    """Render the reference page of all functions, as Markdown."""
    families = list_function_families()
    count = sum(len(family) for _, family in families)
    own = ", ".join(f"`{name}`" for name in _OPENTOFU)
    lines = [
        "# Functions",
        "",
        (
            f"All {count} functions. They behave as [Terraform's functions]({_TERRAFORM}) of the "
            "same name;"
        ),
        f"{own} as OpenTofu's.",
        (
            "Exceptions: [language differences](../language-differences.md). An unknown argument "
            "gives an unknown"
        ),
        "result, a sensitive argument a sensitive result.",
    ]
    for title, family in families:
        lines += ["", f"## {title}", ""]
        for function in sorted(family, key=lambda f: f.name):
            lines.append(
                f"- `{format_signature(function)}`: "
                f"{function.description}{_render_example(function)}"
            )
    return "\n".join(lines) + "\n"


def _render_example(function: Function) -> str:
    """Render the first example of a function missing in Terraform."""
    if function.name not in _OPENTOFU:
        return ""
    example = function.examples[0]
    return f" `{example.call}` is `{example.result}`."


def test_reference_page_is_up_to_date() -> None:
    if os.environ.get("NEXUSFORM_REWRITE_GOLDEN"):
        _PAGE.write_text(render_reference(), encoding="utf-8")
    assert _PAGE.read_text(encoding="utf-8") == render_reference()


def test_every_parameter_is_described() -> None:
    for function in ConstantScope.functions.values():
        for parameter in [
            *function.parameters,
            *([function.variadic] if function.variadic else []),
        ]:
            assert parameter.description, function.name


def test_plantimestamp_is_a_timestamp() -> None:
    assert evaluate_constant("plantimestamp()").raw == datetime(2000, 1, 1, tzinfo=UTC).strftime(
        "%Y-%m-%dT%H:%M:%SZ"
    )


@pytest.mark.parametrize("length", [1, 3])
def test_formatlist_with_a_set_of_unknown_length_is_unknown(length: int) -> None:
    unknown = Value(STRING, UNKNOWN)
    # The unknown element may be equal to the other.
    words = Value(SetType(STRING), (Value(STRING, "a"), unknown))
    names = Value(ListType(STRING), (Value(STRING, "b"),) * length)
    result = ConstantScope.functions["formatlist"].body(Value(STRING, "%s %s"), words, names)
    assert (result.type, result.raw) == (ListType(STRING), UNKNOWN)


def test_error_of_base64decode_has_the_start_of_a_long_text() -> None:
    with pytest.raises(FunctionProblem) as problem:
        decode_base64(f"{'a' * 1000}!")
    assert problem.value.message.startswith('failed to decode base64 data "aaaaaaaaaa')
    assert len(problem.value.message) < 90
