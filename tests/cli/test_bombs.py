"""Tests of configurations too large for any machine: they end in a diagnostic, within 1 GiB."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.kill_points import select_cases

# bytes of address space.
MOST_MEMORY = 1024 * 1024 * 1024
# seconds until a command counts as endless.
PATIENCE = 300


def build_doubling_locals(first: str, step: str, times: int = 60, name: str = "x") -> str:
    lines = [f"  {name}0 = {first}"]
    lines += [
        f"  {name}{n} = {step.replace('?', f'local.{name}{n - 1}')}" for n in range(1, times + 1)
    ]
    return "\n".join(["locals {", *lines, "}", ""])


def build_output(expression: str) -> str:
    return f'output "o" {{\n  value = {expression}\n}}\n'


LISTS = build_doubling_locals("[1]", "[?, ?]")
ALIASES = "a: &a [x, x, x, x, x, x, x, x]\\n" + "".join(
    f"{b}: &{b} [{', '.join([f'*{a}'] * 8)}]\\n"
    for a, b in zip("abcdefghi", "bcdefghij", strict=True)
)
CASES = {
    "for in for in for": build_output(
        "[for a in range(1000) : [for b in range(1000) : [for c in range(1000) : c]]]"
    ),
    "doubled text": build_doubling_locals('"abcdefgh"', '"${?}${?}"') + build_output("local.x60"),
    "doubled list": LISTS + build_output("local.x60"),
    "doubled list that can still be made": LISTS + build_output("local.x19"),
    "doubled list as text": LISTS + build_output("jsonencode(local.x60)"),
    "doubled list flattened": LISTS + build_output("flatten(local.x60)"),
    "doubled lists compared": LISTS
    + build_doubling_locals("[1]", "[?, ?]", name="y")
    + build_output("local.x60 == local.y60"),
    "doubled in one expression": build_output(
        "jsonencode(" + "[for x in [" * 40 + "[1]" + "] : [x, x]]" * 40 + ")"
    ),
    "joined": build_doubling_locals('"abc"', "join(?, [?, ?])") + build_output("local.x60"),
    "replaced": build_doubling_locals('"aaaaaaaa"', 'replace(?, "a", ?)')
    + build_output("local.x60"),
    "replaced by pattern": build_doubling_locals('"aaaaaaaa"', 'replace(?, "/a/", ?)')
    + build_output("local.x60"),
    "formatted": build_output('format("%1000000000s", "x")'),
    "encoded again": build_doubling_locals('"\\"\\\\"', "jsonencode(?)")
    + build_output("local.x60"),
    "products": build_output("setproduct(range(1000), range(1000), range(1000))"),
    "aliases": build_output(f'yamldecode("{ALIASES}")'),
    "brackets": build_output("[" * 100_000 + "]" * 100_000),
    "templates": build_output('"${' * 20_000 + "1" + '}"' * 20_000),
    "blocks": "a {\n" * 20_000 + "}\n" * 20_000,
    "count": (
        'resource "nexus_site" "s" {\n  count = 1000000000000\n  name  = "s${count.index}"\n}\n'
    ),
}


# One process plans all of them, so each starts with the leftovers of the ones before.
SCRIPT = """\
import contextlib, io, json, os, resource, sys
from nexusform.cli.main import run_command_line as run
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]),) * 2)
for directory in sys.argv[2:]:
    os.chdir(directory)
    told = io.StringIO()
    with contextlib.redirect_stderr(told), contextlib.redirect_stdout(io.StringIO()):
        code = run(["plan", "-no-color"])
    print(json.dumps([code, told.getvalue()]), flush=True)
"""


def plan_all(directory: Path, texts: Mapping[str, str]) -> dict[str, tuple[int, str]]:
    """Return exit code and messages of `plan` by name."""
    for name, text in texts.items():
        (directory / name).mkdir()
        (directory / name / "main.nf.hcl").write_text(text)
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            SCRIPT,
            str(MOST_MEMORY),
            *[str(directory / name) for name in texts],
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    return dict(zip(texts, [(code, told) for code, told in answers], strict=True))


@pytest.mark.skipif(sys.platform != "linux", reason="limits memory as Linux does")
def test_oversized_configurations_end_in_diagnostics(tmp_path: Path) -> None:
    texts = {name: CASES[name] for name in select_cases([*CASES])}
    for name, (code, told) in plan_all(tmp_path, texts).items():
        assert code == 1, name
        assert "│ Error: " in told, name
        assert "on main.nf.hcl line" in told, name
        assert "Internal error" not in told, name


@pytest.mark.skipif(sys.platform != "linux", reason="limits memory as Linux does")
def test_long_line_takes_little_memory(tmp_path: Path) -> None:
    text = 'locals {\n  a = "' + "x" * 40_000_000 + '"\n}\n'
    assert plan_all(tmp_path, {"long": text}) == {"long": (0, "")}
