"""Terraform's and OpenTofu's own tests of the language, compared with nexusform.

    python -m tests.nightly.terraform_suites TREE...

TREE is a downloaded source tree of Terraform or OpenTofu. Nothing of it is kept here. The report
names each difference; the exit code is 1 if one is not listed in INTENDED.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from difflib import SequenceMatcher
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct

from nexusform.diagnostics.diagnostic import Diagnostic, SourceFile, has_errors
from nexusform.language.evaluator import evaluate_expression
from nexusform.language.formatter import format_text
from nexusform.language.functions.registry import build_functions
from nexusform.language.parser import parse_expression
from nexusform.language.syntax.syntax_nodes import Traversal
from nexusform.rendering.answers.console_text import render_value
from nexusform.values.typed_value import (
    Refinement,
    Value,
    build_object,
    build_string,
    get_refinement,
)
from nexusform.workflow.opening.system_io import ConfinedFileAccess
from tests.nightly.go_tables import (
    GoCase,
    parse_expression_tables,
    parse_function_tables,
    parse_text_table,
)
from tests.nightly.suite_translation import (
    NEXUSFORM,
    TERRAFORM,
    Unsayable,
    read_test_table,
    translate_tree,
)

_PLAN_TIME = datetime(2004, 4, 25, 15, tzinfo=UTC)
_LOCALS = {
    "greeting_template": build_string("Hello, ${name}!"),
    "ephemeral": Value(build_string("").type, "ephemeral", frozenset({"ephemeral"})),
}


_REJECTED = "rejected"
# Rules of nexus_site that terraform_data does not have.
_TYPE_RULES = frozenset(
    ("Duplicate site", "Placement argument unknown", "Sensitive value decides a placement",
     "Cannot import non-existent remote object")
)  # fmt: skip
_GO_MAXIMUM = (1 << 63) - 1
# They rename an object without a text, and expect that its id stays.
_IDS_ARE_NAMES = ("with_state_key",)
# Cases that cannot be said: by the start of their names.
_UNSAYABLE = {
    "TestStrContains 5": "Go calls the function without the conversion of its arguments",
    "TestFileExists 5": "the test sets permissions, which do not bind root",
    # The attribute behind the star is that of terraform_data.
    "terraform/testdata/plan-count-splat-reference": "an attribute that only one type has",
    "tofu/testdata/plan-count-splat-reference": "an attribute that only one type has",
    "TestFileExists 6": "the test sets permissions, which do not bind root",
}
# Intended differences: the start of a case, and its subject in docs/language-differences.md.
INTENDED = {
    'base64gzip("test")': "`base64gzip`",
    "TestBase64Gzip": "`base64gzip`",
    "TestCidrSubnets 2": "`cidrsubnets` of IPv6 with more than 32 new bits",
    "provider-functions-available": "`bcrypt`, `rsadecrypt`, functions of providers",
    "pass_with_variables": "two `run` blocks of one name",
    "multiple_files_with_invalid_filter": "`test -filter` of a file that does not exist",
    "global_var_refs": "a run whose variables have an error, in a test file",
    "parallel-errors": "runs with `parallel = true` after an error in another run",
    "fmt general_in.tf 34": "A comment between block labels stays.",
    "fmt general_in.tf 47": '`"${ }"` around a multi-line expression',
    "fmt general_in.tf 49": '`"${ }"` around a multi-line expression',
    "fmt general_in.tf 50": '`"${ }"` around a multi-line expression',
    "fmt general_in.tf 52": '`"${ }"` around a multi-line expression',
    "fmt variable_type_in.tf": "Terraform 0.11 types",
    # Words of OpenTofu that terraform 1.11 does not know.
    "command/testdata/skip-destroy": "`lifecycle { destroy = false }`",
    "tofu/testdata/skip-destroy": "`lifecycle { destroy = false }`",
    "valid-files/output-type-constraint": "`type` of outputs",
    "terraform/testdata/apply-output-type-constraint": "`type` of outputs",
    "configs/testdata/valid-modules/override-output": "`deprecated` of variables and outputs",
    "configs/testdata/valid-modules/override-variable": "`deprecated` of variables and outputs",
}


class Comparison(Struct):
    """Result of a suite: cases compared, cases left out with their reason, and differences."""

    suite: str
    compared: int = 0
    left_out: list[str] = []
    differences: list[tuple[str, str]] = []


class _SuiteClock:
    def read_time(self) -> datetime:
        return _PLAN_TIME


class _SuiteScope:
    """Scope of one case: the arguments by name."""

    def __init__(self, names: Mapping[str, Value], directory: Path) -> None:
        self._names = names
        self.functions = build_functions(
            ConfinedFileAccess(), _SuiteClock(), str(directory), plan_time=_PLAN_TIME
        )

    def lookup(self, traversal: Traversal) -> tuple[Value, int, list[Diagnostic]]:
        """Return the value of a name."""
        return self._names[traversal.root.name], 0, []


def evaluate_case(text: str, names: Mapping[str, Value], directory: Path) -> Value | str:
    """Return the value of an expression; the text of the errors if it is wrong."""
    expression, problems = parse_expression(SourceFile("case", text))
    if expression is None:
        return "; ".join(problem.detail for problem in problems)
    value, problems = evaluate_expression(expression, _SuiteScope(names, directory))
    if has_errors(problems):
        return "; ".join(f"{problem.id}: {problem.detail}" for problem in problems)
    return value


def compare_expressions(tree: Path) -> Comparison:
    """Compare the table of expressions."""
    result = Comparison("expressions", left_out=[], differences=[])
    directory = tree / "internal/lang/testdata/functions-test"
    text = (tree / "internal/lang/functions_test.go").read_text()
    for function, source, wanted in parse_expression_tables(text):
        if wanted is None:
            result.left_out.append(f"{source}: the result is other code")
            continue
        if function not in _SuiteScope({}, directory).functions:
            result.left_out.append(f"{source}: no such function")
            continue
        result.compared += 1
        names = {"local": build_object(_LOCALS)}
        found = evaluate_case(source, names, directory)
        note_difference(result, source, found, wanted)
    return result


def compare_functions(tree: Path) -> Comparison:
    """Compare the tables of the functions."""
    result = Comparison("functions", left_out=[], differences=[])
    directory = tree / "internal/lang/funcs"
    known = _SuiteScope({}, directory).functions
    for file in sorted(directory.glob("*_test.go")):
        for case in parse_function_tables(file.read_text()):
            if not isinstance(case, GoCase):
                result.left_out.append(case)
            elif case.expression.partition("(")[0] not in known:
                result.left_out.append(f"{case.name}: no function {case.expression}")
            else:
                result.compared += 1
                found = evaluate_case(case.expression, case.arguments, directory)
                note_difference(result, f"{case.name}: {describe_case(case)}", found, case.result)
    return result


def describe_case(case: GoCase) -> str:
    """Return a case as text."""
    return re.sub(r"\ba[0-9]+\b", lambda match: repr(case.arguments[match[0]]), case.expression)


def note_difference(
    result: Comparison, name: str, found: Value | str, wanted: Value | None
) -> None:
    """Add a difference to a comparison, unless it is an intended one."""
    for start, reason in _UNSAYABLE.items():
        if f"{name}:".startswith(f"{start}:"):
            result.compared -= 1
            result.left_out.append(f"{name}: {reason}")
            return
    if isinstance(found, str) and wanted is None:
        return
    if isinstance(found, Value) and wanted is not None and is_same_value(found, wanted):
        return
    result.differences.append((name, f"found {found!r}, expected {wanted or 'an error'!r}"))


def is_same_value(found: Value, wanted: Value) -> bool:
    """Return whether two values are the same with types, marks and known facts.

    nexusform may know more facts about an unknown part.
    """
    if found != wanted:
        return False
    if not found.is_known:
        return has_facts(get_refinement(found), get_refinement(wanted))
    parts = zip(found.parts, wanted.parts, strict=True)
    return all(is_same_value(part, wanted_part) for part, wanted_part in parts)


def has_facts(found: Refinement, wanted: Refinement) -> bool:
    """Return whether the facts include all wanted ones."""
    longest = [wanted.highest, wanted.longest]
    # Go's largest whole number is no bound here.
    highest = [number for number in longest if number not in (None, _GO_MAXIMUM)]
    return (
        (found.not_null or not wanted.not_null)
        and found.prefix.startswith(wanted.prefix)
        and (wanted.lowest is None or (found.lowest is not None and found.lowest >= wanted.lowest))
        and found.shortest >= wanted.shortest
        and all(
            bound is not None and bound <= number
            for number in highest
            for bound in [found.highest if wanted.highest == number else found.longest]
        )
    )


def compare_console_texts(tree: Path) -> Comparison:
    """Compare the texts of values in `console`."""
    result = Comparison("console", left_out=[], differences=[])
    for value, wanted in parse_text_table((tree / "internal/repl/format_test.go").read_text()):
        result.compared += 1
        found = render_value(value)
        if found != wanted:
            result.differences.append((f"console {value!r}", f"{found!r}, not {wanted!r}"))
    return result


def compare_formatting(tree: Path) -> Comparison:
    """Compare the formatting of the input files of `fmt`, line by line."""
    result = Comparison("formatting", left_out=[], differences=[])
    for path in sorted((tree / "internal/command/testdata").glob("*fmt/*_in.*")):
        text, problems = format_text(SourceFile(path.name, path.read_text()))
        assert not has_errors(problems)
        expected = path.with_name(path.name.replace("_in.", "_out.")).read_text()
        matcher = SequenceMatcher(None, text.splitlines(), expected.splitlines(), autojunk=False)
        for kind, start, end, other_start, other_end in matcher.get_opcodes():
            result.compared += end - start
            if kind != "equal":
                lines = text.splitlines()[start:end]
                wanted = expected.splitlines()[other_start:other_end]
                name = f"fmt {path.name} {start + 1}"
                result.differences.append((name, f"found {lines}, expected {wanted}"))
    return result


def compare_test_files(tree: Path) -> Comparison:
    """Compare exit code and counts of the directories of test files."""
    result = Comparison("test files", left_out=[], differences=[])
    base = tree / "internal/command/testdata/test"
    table = read_test_table((tree / "internal/command/test_test.go").read_text())
    for name, (code, counts, arguments, variables, directory) in table.items():
        with tempfile.TemporaryDirectory() as temporary:
            try:
                translate_tree(base / directory, Path(temporary), NEXUSFORM)
            except Unsayable as problem:
                result.left_out.append(f"{name}: {problem}")
                continue
            words = [word.replace("tftest.hcl", "nftest.hcl") for word in arguments]
            found_code, text = run_here(Path(temporary), ["test", *words], variables)
        if "must be a name of at least one character" in text or name in _IDS_ARE_NAMES:
            result.left_out.append(f"{name}: the text of a site is its name and its id")
            continue
        if bool(code) != bool(found_code) and find_type_rules(text):
            result.left_out.append(f"{name}: {', '.join(find_type_rules(text))}")
            continue
        result.compared += 1
        if bool(code) != bool(found_code) or counts not in text:
            result.differences.append((name, f"exit {found_code}, not {code} {counts}: {text}"))
    return result


def list_configurations(tree: Path) -> Iterator[tuple[str, Path]]:
    """List the configurations of a tree: directories, and single files in suites of files."""
    configs = tree / "internal/configs/testdata"
    for suite in ("valid-files", "invalid-files", "error-files", "warning-files"):
        for path in sorted((configs / suite).glob("*.tf")):
            yield f"{suite}/{path.name}", path
    parents = [
        configs / "valid-modules",
        configs / "invalid-modules",
        configs / "config-diagnostics",
        *(tree / f"internal/{name}/testdata" for name in ("command", "terraform", "tofu")),
        tree / "internal/command/testdata/validate-invalid",
    ]
    directories = [path for parent in parents for path in parent.glob("*")]
    for path in sorted(path for path in directories if path.is_dir() and any(path.glob("*.tf"))):
        yield str(path.relative_to(tree / "internal")), path


def compare_configurations(tree: Path) -> Comparison:
    """Compare the results of `validate` and of a first plan with those of terraform."""
    result = Comparison("configurations", left_out=[], differences=[])
    for name, path in list_configurations(tree):
        with tempfile.TemporaryDirectory() as temporary:
            directories = [Path(temporary, word) for word in ("source", "nexusform", "terraform")]
            for directory in directories:
                directory.mkdir()
            source, ours, theirs = directories
            if path.is_dir():
                source = path
            else:
                (source / "main.tf").write_bytes(path.read_bytes())
            try:
                translate_tree(source, ours, NEXUSFORM)
                translate_tree(source, theirs, TERRAFORM)
            except Unsayable as problem:
                result.left_out.append(f"{name}: {problem}")
                continue
            expected = run_terraform(theirs)
            found = run_nexusform(ours)
        note_result(result, name, found, expected)
    return result


def note_result(
    result: Comparison, name: str, found: tuple[str, str], expected: tuple[str, str]
) -> None:
    """Add the results of a configuration to a comparison."""
    if name in _UNSAYABLE:
        result.left_out.append(f"{name}: {_UNSAYABLE[name]}")
        return
    if found[0] == _REJECTED and expected[0] != _REJECTED and find_type_rules(found[1]):
        result.left_out.append(f"{name}: {', '.join(find_type_rules(found[1]))}")
        return
    result.compared += 1
    if expected[0] != found[0]:
        result.differences.append((name, f"found {found}, expected {expected}"))


def find_type_rules(text: str) -> list[str]:
    """Return the errors of an output if all are rules of nexus_site, else []."""
    errors = set(re.findall(r"Error: (.+?) (?:with|on) ", text))
    return sorted(errors) if errors <= _TYPE_RULES else []


def run_terraform(directory: Path) -> tuple[str, str]:
    """Return the result of terraform: of `validate`, and of a plan if that is successful."""
    environment = {**os.environ, "TF_CLI_CONFIG_FILE": os.devnull, "TF_INPUT": "0"}
    output = ""
    for words in (("init", "-backend=false"), ("validate",), ("plan",)):
        done = subprocess.run(
            ["terraform", *words, "-no-color"], cwd=directory, env=environment,
            capture_output=True, text=True, check=False, timeout=120, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        output = " ".join((done.stdout + done.stderr).split())
        if done.returncode:
            return _REJECTED, output
    return summarize_plan(output), output


def run_nexusform(directory: Path) -> tuple[str, str]:
    """Return the result of nexusform: of `validate`, and of a plan if that is successful."""
    for command in ("validate", "plan"):
        code, output = run_here(directory, [command])
        if code:
            return _REJECTED, output
    return summarize_plan(output), output


def summarize_plan(output: str) -> str:
    """Return the counts of a plan."""
    counts = re.search(r"(\d+) to add", output)
    return f"{counts[1] if counts else 0} to add"


def run_here(
    directory: Path, arguments: list[str], variables: Mapping[str, str] = MappingProxyType({})
) -> tuple[int, str]:
    """Run nexusform in a directory; return its exit code, and its output in one line."""
    command = [sys.executable, "-m", "nexusform", *arguments, "-no-color"]
    renamed = {name.replace("TF_VAR_", "NF_VAR_"): text for name, text in variables.items()}
    environment = {**os.environ, **renamed, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, check=False,
        timeout=120, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return done.returncode, " ".join((done.stdout + done.stderr).replace("│", " ").split())


def list_comparisons(tree: Path) -> Iterator[Comparison]:
    """Compare each suite of a tree."""
    yield compare_expressions(tree)
    yield compare_functions(tree)
    yield compare_formatting(tree)
    yield compare_console_texts(tree)
    yield compare_test_files(tree)
    if shutil.which("terraform") is not None:
        yield compare_configurations(tree)


def main(arguments: list[str]) -> int:
    """Print the comparisons of each tree."""
    count = 0
    for argument in arguments:
        for comparison in list_comparisons(Path(argument)):
            unintended = list_unintended(comparison)
            count += len(unintended)
            print(
                f"{argument} {comparison.suite}: {comparison.compared} compared, "
                f"{len(comparison.left_out)} left out, {len(comparison.differences)} differ, "
                f"{len(unintended)} of them not intended",
                flush=True,
            )
            for name, text in unintended:
                print(f"  {name}\n    {text}")
    return int(count > 0)


def list_unintended(comparison: Comparison) -> list[tuple[str, str]]:
    """Return the differences that docs/language-differences.md does not list."""
    return [
        (name, text)
        for name, text in comparison.differences
        if not any(name.startswith(start) for start in INTENDED)
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
