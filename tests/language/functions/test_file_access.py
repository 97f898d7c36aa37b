"""Tests of functions to read files and render templates, with a fake Files port."""

from __future__ import annotations

import fnmatch
from datetime import UTC, datetime

import pytest

from nexusform.diagnostics.diagnostic import Diagnostic, SourceFile, build_error
from nexusform.json_data.plain_data import convert_to_plain
from nexusform.language.evaluation_run import FileProblem
from nexusform.language.evaluator import evaluate_expression
from nexusform.language.functions.function import Functions
from nexusform.language.functions.registry import build_functions
from nexusform.language.parser import parse_expression
from nexusform.language.syntax.syntax_nodes import Traversal
from nexusform.values.typed_value import (
    DYNAMIC_UNKNOWN,
    SENSITIVE,
    UNKNOWN,
    Value,
    build_object,
    build_string,
    build_unknown,
)


class FakeFolder:
    """Fake of files in memory."""

    def __init__(self, content: dict[str, bytes]) -> None:
        self.content = content

    def read(self, path: str) -> bytes:
        if path not in self.content:
            raise FileProblem(f'No file exists at "{path}".')
        return self.content[path]

    def is_file(self, path: str) -> bool:
        return path in self.content

    def find_files(self, base: str, pattern: str) -> list[str]:
        inside = [p.removeprefix(base + "/") for p in self.content if p.startswith(base + "/")]
        return sorted(p for p in inside if fnmatch.fnmatchcase(p, pattern))

    def resolve_path(self, path: str) -> str:
        return f"/base/{path}"

    def expand_home(self, path: str) -> str:
        return path.replace("~", "/home/user", 1) if path.startswith("~") else path


class StoppedClock:
    """Fake of a clock stopped at noon."""

    def read_time(self) -> datetime:
        return datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)

    def sleep(self, seconds: float) -> None:
        del seconds


class FakeScope:
    """Scope of `var.x` for a few names."""

    def __init__(self, functions: Functions) -> None:
        self.functions = functions

    def lookup(self, traversal: Traversal) -> tuple[Value, int, list[Diagnostic]]:
        if traversal.root.name == "var":
            later = build_unknown()
            return (
                build_object({"later": later, "secret": build_string("s").add_marks(SENSITIVE)}),
                0,
                [],
            )
        return (
            DYNAMIC_UNKNOWN,
            len(traversal.steps),
            [build_error("invalid-reference", "", traversal.span)],
        )


FOLDER = FakeFolder(
    {
        "site/hello.txt": "h\u00e9".encode(),
        "site/a.yaml": b"a: 1",
        "site/b.yaml": b"b: 1",
        "site/raw.bin": b"\xff\xfe",
        "site/greeting.tftpl": b"Hello ${name}!\n%{ for z in zones ~}\n- ${z}\n%{ endfor ~}\n",
        "site/list.tftpl": b"${zones}",
        "site/wrong.tftpl": b"${nmae}",
        "site/broken.tftpl": b"${",
        "site/loop.tftpl": b'${templatefile("loop.tftpl", {})}',
    }
)


def evaluate_text(text: str, **more: object) -> tuple[Value, list[Diagnostic]]:
    expression, problems = parse_expression(SourceFile("t", text))
    assert expression is not None, problems
    functions = build_functions(FOLDER, StoppedClock(), "site", **more)  # type: ignore[arg-type]
    return evaluate_expression(expression, FakeScope(functions))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('file("hello.txt")', "h\u00e9"),
        ('filebase64("raw.bin")', "//4="),
        ('fileexists("hello.txt")', True),
        ('fileexists("no.txt")', False),
        ('fileset("~", "*.yaml")', []),
        ('fileset(".", "x")', []),
        ('filemd5("a.yaml")', "270f9e65a80226eccd82c99cdd0dd2fb"),
        ('length(filesha256("a.yaml"))', 64),
        ('abspath("x")', "/base/x"),
        ('pathexpand("~/x")', "/home/user/x"),
        (
            'templatefile("greeting.tftpl", { name = "you", zones = ["1", "2"] })',
            "Hello you!\n- 1\n- 2\n",
        ),
        ('templatefile("list.tftpl", { zones = ["1"] })', ["1"]),
        # Unlike a file, always text.
        ('templatestring("$${a + 1}", { a = 1 })', "2"),
    ],
)
def test_files_are_read_relative_to_base_directory(text: str, wanted: object) -> None:
    value, problems = evaluate_text(text)
    assert problems == []
    assert convert_to_plain(value)[0] == wanted


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ('file("no.txt")', 'No file exists at "site/no.txt".'),
        ('file("raw.bin")', "not valid UTF-8"),
        ('templatefile("wrong.tftpl", { name = 1 })', 'Did you mean "name"?'),
        ('templatefile("wrong.tftpl", { name = 1 })', "wrong.tftpl:1,3"),
        ('templatefile("broken.tftpl", {})', "broken.tftpl:1"),
        ('templatefile("loop.tftpl", {})', "32 levels deep"),
        ('templatefile("list.tftpl", [])', "must be a map"),
        ('templatefile("list.tftpl", { zones = null })', "the result of the template is null"),
        ('templatestring("$${a}", { a = null })', "the result of the template is null"),
        ('templatestring("$${a}", { a = [] })', "invalid template result: string required"),
        ('templatefile("list.tftpl", { "a b" = 1 })', 'invalid template variable name "a b"'),
    ],
)
def test_unreadable_files_are_reported(text: str, hint: str) -> None:
    _, problems = evaluate_text(text)
    assert len(problems) == 1
    assert hint in problems[0].detail


def test_unknown_and_sensitive_values_stay_so() -> None:
    assert evaluate_text("file(var.later)")[0].raw is UNKNOWN
    assert evaluate_text('templatefile("list.tftpl", var.later)')[0].raw is UNKNOWN
    assert evaluate_text('templatefile("list.tftpl", { zones = var.later })')[0].raw is UNKNOWN
    assert evaluate_text('templatefile("list.tftpl", { zones = var.secret })')[0].is_sensitive


def test_clock_is_read_only_during_apply() -> None:
    assert evaluate_text("timestamp()")[0].raw is UNKNOWN
    assert evaluate_text("uuid()")[0].raw is UNKNOWN
    assert evaluate_text("timestamp()", is_applying=True)[0].raw == "2026-03-01T12:00:00Z"
    assert evaluate_text("plantimestamp()")[0].raw == "2026-03-01T12:00:00Z"
    planned = datetime(2025, 1, 2, tzinfo=UTC)
    assert evaluate_text("plantimestamp()", plan_time=planned)[0].raw == "2025-01-02T00:00:00Z"
