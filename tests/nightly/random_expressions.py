"""Compare random comparisons and function calls with `terraform console`.

Run: python -m tests.nightly.random_expressions COMPARISONS CALLS [SEED]

Each difference is printed with its expression; the result is 1 with a difference that
docs/language-differences.md does not document.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from nexusform.diagnostics.diagnostic import Diagnostic, SourceFile, has_errors
from nexusform.language.evaluator import evaluate_expression
from nexusform.language.parser import parse_expression
from nexusform.language.syntax.syntax_nodes import Traversal
from nexusform.language.type_conversion import convert_value
from nexusform.language.type_expressions import parse_type
from nexusform.rendering.answers.console_text import render_type, render_value
from nexusform.values.typed_value import DYNAMIC_UNKNOWN, Value, build_tuple
from tests.language.function_families import list_function_families

_ERROR = "an error"
_UNKNOWN_NAME = "terraform_data.x.output"
_BATCH = 250
_PRIMITIVES = ("string", "number", "bool")
_SCALARS = {
    "string": ('"a"', '"b"', '""', '"1"', '"true"', '"%s"', '"10.0.0.0/8"', '"a-b c"'),
    "number": ("0", "1", "2.5", "-3"),
    "bool": ("true", "false"),
}
# Functions with other results by design or by chance: files, clocks, random results, functions that
# only one of the two programs has, and text of several lines.
_LEFT_OUT = frozenset(
    {"abspath", "base64gunzip", "base64gzip", "bcrypt", "cidrcontains", "convert"}
    | {"ephemeralasnull", "file", "filebase64", "filebase64sha256", "filebase64sha512"}
    | {"fileexists", "filemd5", "fileset", "filesha1", "filesha256", "filesha512", "pathexpand"}
    | {"plantimestamp", "rsadecrypt", "templatefile", "templatestring", "timestamp", "type"}
    | {"urldecode", "uuid", "yamlencode"}
)


class _Scope:
    # Variables with their values; terraform_data.x.output is unknown.
    functions = {f.name: f for _, family in list_function_families() for f in family}  # noqa: RUF012 - never changed

    def __init__(self, variables: dict[str, Value]) -> None:
        self.variables = variables

    def lookup(self, traversal: Traversal) -> tuple[Value, int, list[Diagnostic]]:
        if traversal.root.name == "var":
            return self.variables[traversal.steps[0].name], 1, []  # type: ignore[union-attr]
        return DYNAMIC_UNKNOWN, 2, []


# --- random types and values ----------------------------------------------------------------------


class Expressions:
    """Random variables, and expressions with them."""

    def __init__(self, seed: int) -> None:
        """Draw a few variables with types and defaults, from which expressions are made."""
        self.random = random.Random(seed)
        self.null_share = 0.15
        # Type and default by name.
        self.variables: dict[str, tuple[str, str]] = {}
        # Literals like the defaults: they often equal them but for types.
        self.literals: dict[str, str] = {}
        for index in range(40):
            value_type = self.draw_type(2)
            default = self.draw_value(value_type)
            self.variables[f"v{index}"] = (value_type, default)
            self.literals[f"v{index}"] = default

    def draw_type(self, depth: int, *, may_be_open: bool = True) -> str:
        """Return a type expression of at most this depth; elements of collections have one type."""
        kinds = ["primitive", "list", "set", "map", "object", "tuple"] if depth else ["primitive"]
        kind = self.random.choice(kinds)
        if kind == "primitive":
            return self.random.choice([*_PRIMITIVES, "any"] if may_be_open else _PRIMITIVES)
        if kind in {"list", "set", "map"}:
            return f"{kind}({self.draw_type(depth - 1, may_be_open=False)})"
        if kind == "tuple":
            parts = [
                self.draw_type(depth - 1, may_be_open=may_be_open)
                for _ in range(self.random.randint(0, 2))
            ]
            return f"tuple([{', '.join(parts)}])"
        attributes = []
        for name in self.random.sample("abc", self.random.randint(1, 3)):
            part = self.draw_type(depth - 1, may_be_open=may_be_open)
            attributes.append(f"{name} = " + self.random.choice([part, f"optional({part})"]))
        return f"object({{{', '.join(attributes)}}})"

    def draw_value(self, value_type: str) -> str:
        """Return a literal that a type accepts, perhaps null."""
        if self.random.random() < self.null_share:
            return "null"
        if value_type == "any":
            return self.draw_value(self.draw_type(1, may_be_open=False))
        if value_type in _PRIMITIVES:
            return self.random.choice(_SCALARS[value_type])
        kind, _, inner = value_type.partition("(")
        inner = inner[:-1]
        if kind in {"list", "set"}:
            return f"[{', '.join(self._draw_elements(inner))}]"
        if kind == "map":
            pairs = zip("abc", self._draw_elements(inner), strict=False)
            return f"{{{', '.join(f'{name} = {value}' for name, value in pairs)}}}"
        parts = _split(inner[1:-1])
        if kind == "tuple":
            return f"[{', '.join(map(self.draw_value, parts))}]"
        attributes = []
        for part in parts:
            name, _, attribute_type = part.partition(" = ")
            if attribute_type.startswith("optional("):
                if self.random.random() < 0.5:
                    continue
                attribute_type = attribute_type[len("optional(") : -1]
            attributes.append(f"{name} = {self.draw_value(attribute_type)}")
        return f"{{{', '.join(attributes)}}}"

    def _draw_elements(self, value_type: str) -> list[str]:
        return [self.draw_value(value_type) for _ in range(self.random.randint(0, 2))]

    def draw_operand(self, name: str) -> str:
        """Return an expression for a variable's value: the variable, a literal, or one like it."""
        literal = self.literals[name]
        operand = self.random.choice(
            [f"var.{name}", f"var.{name}", literal, literal, self._draw_changed(literal)]
        )
        shape = self.random.random()
        if shape < 0.1:
            convert = self.random.choice(["tolist", "toset", "tomap", "tostring", "tonumber"])
            return f"{convert}({operand})"
        if shape < 0.14:
            return f"sensitive({operand})"
        if shape < 0.2:
            return f"[for x in [{operand}] : x][0]"
        if shape < 0.25:
            return f"(true ? {operand} : null)"
        return operand

    def _draw_changed(self, literal: str) -> str:
        """Return a literal with one scalar replaced by another, null or an unknown value."""
        scalars = list(re.finditer(r'"[^"]*"|\bnull\b|\btrue\b|\bfalse\b|-?\d[\d.]*', literal))
        if not scalars:
            return self.random.choice(["null", literal, _UNKNOWN_NAME])
        match = self.random.choice(scalars)
        other = self.random.choice(
            [
                *(scalar for group in _SCALARS.values() for scalar in group),
                "null",
                "null",
                "tostring(null)",
                "tonumber(null)",
                _UNKNOWN_NAME,
                f"tostring({_UNKNOWN_NAME})",
            ]
        )
        return literal[: match.start()] + other + literal[match.end() :]

    def draw_comparison(self) -> str:
        """Return an expression that depends on the equality of values."""
        name = self.random.choice(sorted(self.variables))
        first, second, third = (self.draw_operand(name) for _ in range(3))
        form = self.random.choice(
            [
                *["{a} == {b}"] * 4,
                *["{a} != {b}"] * 2,
                "contains([{a}, {c}], {b})",
                "contains(tolist([{a}, {c}]), {b})",
                "index([{a}, {c}], {b})",
                "distinct([{a}, {b}, {c}])",
                "[for x in [{a}, {c}] : x == {b}]",
                "[for x in [{a}, {c}] : 1 if x == {b}]",
                "{a} == {b} ? 1 : 2",
                "[{a}] == [{b}]",
                "{{ k = {a} }} == {{ k = {b} }}",
                "tolist([{a}]) == tolist([{b}])",
                "toset([{a}, {c}]) == toset([{b}])",
                "tomap({{ k = {a} }}) == tomap({{ k = {b} }})",
                "toset([{a}, {b}])",
                "setintersection([{a}, {c}], [{b}])",
                "setsubtract([{a}, {c}], [{b}])",
                "matchkeys([1, 2], [{a}, {c}], [{b}])",
                "[for s in [{a}, {b}] : s if s != null]",
                "{a} == null",
            ]
        )
        return form.format(a=first, b=second, c=third)

    def draw_call(self) -> str:
        """Return a call of a random function with random arguments."""
        self.null_share = 0.04
        names = sorted(_Scope.functions.keys() - _LEFT_OUT)
        function = _Scope.functions[self.random.choice(names)]
        arguments = []
        count = len(function.parameters)
        if function.variadic is not None:
            count += self.random.randint(0, 2)
        for position in range(count):
            parameter = function.get_parameter(position)
            if self.random.random() < 0.15:
                arguments.append(self.draw_operand(self.random.choice(sorted(self.variables))))
                continue
            wanted = re.sub(r"\s+", " ", render_type(parameter.type)).replace("dynamic", "any")
            if wanted == "any" and parameter.name not in {"value", "values", "args"}:
                wanted = self.random.choice(
                    ["list(any)", "map(any)", "set(string)", "list(string)"]
                )
            if not re.fullmatch(r"(list|set|map)?\(?\w+\)?", wanted):
                wanted = self.draw_type(1)
            arguments.append(self.draw_value(wanted))
        return f"{function.name}({', '.join(arguments)})"


def _split(text: str) -> list[str]:
    """Split at the commas outside of brackets."""
    parts: list[str] = []
    depth = 0
    start = 0
    for index, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and not depth:
            parts.append(text[start:index].strip())
            start = index + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts


# --- both programs --------------------------------------------------------------------------------


def evaluate_with_nexusform(texts: Sequence[str], scope: _Scope) -> list[Value | None]:
    """Return the values of expressions, None for those with an error."""
    return [_evaluate(text, scope) for text in texts]


def _evaluate(text: str, scope: _Scope) -> Value | None:
    expression, problems = parse_expression(SourceFile("random", text))
    assert expression is not None, (text, problems)
    value, problems = evaluate_expression(expression, scope)
    return None if has_errors(problems) else value


def build_scope(variables: dict[str, tuple[str, str]]) -> _Scope:
    """Return the scope with the variables, converted to their types."""
    scope = _Scope({})
    for name, (type_text, default) in variables.items():
        expression, _ = parse_expression(SourceFile("type", type_text))
        assert expression is not None
        value_type, problems = parse_type(expression)
        assert value_type is not None, problems
        value = _evaluate(default, scope)
        assert value is not None
        scope.variables[name] = convert_value(value, value_type)
    return scope


def ask_terraform(directory: Path, expression: str) -> list[str]:
    """Return what `terraform console` prints for each element of a tuple."""
    answer = subprocess.run(
        ["terraform", "console", "-no-color"],
        input=f"{expression}\n",
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=directory,
        env={**os.environ, "TF_CLI_CONFIG_FILE": str(directory / "empty.tfrc")},
    )
    if answer.returncode:
        raise RuntimeError(answer.stderr[:2000])
    return split_elements(answer.stdout)


def split_elements(text: str) -> list[str]:
    """Return the normalized text of each element of a printed tuple (or tuple type)."""
    lines = text.strip().splitlines()[1:-1]
    indentation = len(lines[0]) - len(lines[0].lstrip()) if lines else 0
    elements: list[list[str]] = []
    for line in lines:
        is_first = line[indentation : indentation + 1] not in {" ", "", ")", "]", "}"}
        if is_first and not line[:indentation].strip():
            elements.append([])
        elements[-1].append(line)
    return [_normalize("\n".join(element)).removesuffix(",") for element in elements]


def prepare_terraform(directory: Path, variables: dict[str, tuple[str, str]]) -> None:
    """Write the configuration with the variables and an unknown value, and initialize it."""
    text = 'resource "terraform_data" "x" {\n  input = 1\n}\n'
    for name, (type_text, default) in variables.items():
        text += f'variable "{name}" {{\n  type = {type_text}\n  default = {default}\n}}\n'
    (directory / "main.tf").write_text(text)
    (directory / "empty.tfrc").write_text("")
    subprocess.run(["terraform", "init"], cwd=directory, check=True, capture_output=True)


def find_failing_expressions(directory: Path, texts: Sequence[str]) -> list[bool]:
    """Return for each expression whether terraform reports an error."""
    parts = [f'try([{text}] == null, "{_ERROR}")' for text in texts]
    return [answer == f'"{_ERROR}"' for answer in ask_terraform(directory, f"[{', '.join(parts)}]")]


def _normalize(text: str) -> str:
    return re.sub(r"(?<=[\[({]) | (?=[\])}])|,(?= ?[\])}])", "", " ".join(text.split()))


def compare_batch(
    directory: Path, texts: Sequence[str], scope: _Scope, counts: Counter[str]
) -> Iterator[tuple[str, str, str]]:
    """Yield each expression with different results: the text, that of nexusform and terraform's.

    Count the expressions with an error in both programs.
    """
    values = evaluate_with_nexusform(texts, scope)
    failing = find_failing_expressions(directory, texts)
    compared: list[tuple[str, Value]] = []
    for text, result, fails in zip(texts, values, failing, strict=True):
        if (result is None) is not fails:
            yield text, "error" if result is None else "value", "error" if fails else "value"
        elif result is None:
            counts["errors in both"] += 1
        else:
            compared.append((text, result))
    whole = f"[{', '.join(text for text, _ in compared)}]"
    ours = build_tuple([value for _, value in compared])
    columns = (
        [text for text, _ in compared],
        split_elements(render_value(ours)),
        split_elements(render_type(ours.type)),
        ask_terraform(directory, whole),
        ask_terraform(directory, f"type({whole})"),
    )
    for text, value, value_type, their_value, their_type in zip(*columns, strict=True):
        our_text = f"{value} of type {value_type}"
        their_text = f"{their_value} of type {their_type}"
        if our_text != their_text:
            yield text, our_text, their_text


_ELEMENT_CONVERSION = re.compile(
    r"\b(tolist|toset|tomap|concat|distinct|chunklist|coalesce|coalescelist|contains|index|matchkeys"
    r"|merge|setintersection|setproduct|setsubtract|setunion|flatten|lookup|element|slice|one)\("
)


def find_documented_reason(text: str, types: str, ours: str, theirs: str) -> str | None:
    """Return the row of docs/language-differences.md that explains a difference, or None.

    `types` are the types of the variables in the expression.
    """
    everything = text + types
    has_open_part = "null" in everything or _UNKNOWN_NAME in text
    is_conversion = _ELEMENT_CONVERSION.search(text) is not None
    # Each row, and whether the difference is of its kind. The first one counts.
    rows = (
        ("signum of a fraction", text.startswith("signum(")),
        ("format of null", re.match(r"format(list)?\(.*\bnull\b", text)),
        (
            "numbers are finite, and have one zero",
            re.match(r"pow\(0, -|log\((0,|.*, [01]\))", text),
        ),
        ("element with a negative index", re.match(r"element\(.*, -", text)),
        ("cidrsubnet with negative numbers", re.match(r"cidrsubnet\(.*, -", text)),
        ("substr of length 0 from the end", re.match(r"substr\(.*, -\d, 0\)", text)),
        (
            "null and unknown elements take the type of the others",
            (ours, theirs) == ("value", "error") and is_conversion and has_open_part,
        ),
        (
            "known facts about an unknown value",
            "(known after apply)" in theirs and _UNKNOWN_NAME in text,
        ),
        (
            "a null in a set stays sensitive",
            "null" in text and "sensitive" in text and "sensitive" in ours,
        ),
        (
            "order of sets of lists and objects",
            sorted(ours) == sorted(theirs) and "set(" in everything + ours,
        ),
        (
            "a map and an object of other values",
            (ours, theirs) == ("error", "value") and is_conversion and "map(object(" in everything,
        ),
        (
            "null in a converted map",
            text.startswith("matchkeys(") and "map(" in everything and "null" in everything,
        ),
        (
            "lists, sets and tuples as elements of one collection",
            is_conversion and "set(" in everything and "[" in text,
        ),
    )
    return next((row for row, is_explained in rows if is_explained), None)


def main(arguments: Sequence[str]) -> int:
    """Compare the expressions; return 1 if a result differs."""
    comparisons, calls = int(arguments[0]), int(arguments[1])
    seed = int(arguments[2]) if len(arguments) > 2 else 0
    counts: Counter[str] = Counter()
    for kind, total in (("comparison", comparisons), ("call", calls)):
        for first in range(0, total, _BATCH):
            expressions = Expressions(seed * 1000 + first)
            draw = expressions.draw_comparison if kind == "comparison" else expressions.draw_call
            texts = [draw() for _ in range(min(_BATCH, total - first))]
            scope = build_scope(expressions.variables)
            counts[kind] += len(texts)
            with tempfile.TemporaryDirectory() as folder:
                directory = Path(folder)
                prepare_terraform(directory, expressions.variables)
                for text, ours, theirs in compare_batch(directory, texts, scope, counts):
                    used = sorted(set(re.findall(r"var\.(v\d+)", text)))
                    where = {name: expressions.variables[name] for name in used}
                    reason = find_documented_reason(text, str(where), ours, theirs)
                    counts[f"{kind}: {reason or 'different'}"] += 1
                    if reason is None:
                        print(f"{text}\n  {where}\n  nexusform: {ours}\n  terraform: {theirs}")
    print(json.dumps(counts, indent=2))
    return int(any(kind.endswith(": different") for kind in counts))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
