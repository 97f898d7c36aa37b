"""Configurations that stand for more than any machine holds end in a diagnostic, within 1 GiB."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

MOST_MEMORY = 1024 * 1024 * 1024  # bytes of address space
PATIENCE = 300  # seconds after which they count as endless


def doubled(first: str, step: str, times: int = 60, name: str = "x") -> str:
    lines = [f"  {name}0 = {first}"]
    lines += [f"  {name}{n} = {step.replace('?', f'local.{name}{n - 1}')}" for n in range(1, times + 1)]
    return "\n".join(["locals {", *lines, "}", ""])


def output(expression: str) -> str:
    return f'output "o" {{\n  value = {expression}\n}}\n'


LISTS = doubled("[1]", "[?, ?]")
ALIASES = "a: &a [x, x, x, x, x, x, x, x]\\n" + "".join(
    f"{b}: &{b} [{', '.join([f'*{a}'] * 8)}]\\n" for a, b in zip("abcdefghi", "bcdefghij", strict=True)
)
CASES = {
    "for in for in for": output("[for a in range(1000) : [for b in range(1000) : [for c in range(1000) : c]]]"),
    "doubled text": doubled('"abcdefgh"', '"${?}${?}"') + output("local.x60"),
    "doubled list": LISTS + output("local.x60"),
    "doubled list that can still be made": LISTS + output("local.x19"),
    "doubled list as text": LISTS + output("jsonencode(local.x60)"),
    "doubled list flattened": LISTS + output("flatten(local.x60)"),
    "doubled lists compared": LISTS + doubled("[1]", "[?, ?]", name="y") + output("local.x60 == local.y60"),
    "doubled in one expression": output("jsonencode(" + "[for x in [" * 40 + "[1]" + "] : [x, x]]" * 40 + ")"),
    "joined": doubled('"abc"', "join(?, [?, ?])") + output("local.x60"),
    "replaced": doubled('"aaaaaaaa"', 'replace(?, "a", ?)') + output("local.x60"),
    "replaced by pattern": doubled('"aaaaaaaa"', 'replace(?, "/a/", ?)') + output("local.x60"),
    "formatted": output('format("%1000000000s", "x")'),
    "encoded again": doubled('"\\"\\\\"', "jsonencode(?)") + output("local.x60"),
    "products": output("setproduct(range(1000), range(1000), range(1000))"),
    "aliases": output(f'yamldecode("{ALIASES}")'),
    "brackets": output("[" * 100_000 + "]" * 100_000),
    "templates": output('"${' * 20_000 + "1" + '}"' * 20_000),
    "blocks": "a {\n" * 20_000 + "}\n" * 20_000,
    "count": 'resource "nexus_site" "s" {\n  count = 1000000000000\n  name  = "s${count.index}"\n}\n',
}


# One process for all of them: each is met with what the ones before have left.
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


def planned(directory: Path, texts: Mapping[str, str]) -> dict[str, tuple[int, str]]:
    """The exit code and the messages of `plan`, by name."""
    for name, text in texts.items():
        (directory / name).mkdir()
        (directory / name / "main.nf.hcl").write_text(text)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(MOST_MEMORY), *[str(directory / name) for name in texts]],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    return dict(zip(texts, [(code, told) for code, told in answers], strict=True))


@pytest.mark.skipif(sys.platform != "linux", reason="limits memory as Linux does")
def test_bombs_end_in_diagnostics(tmp_path: Path) -> None:
    for name, (code, told) in planned(tmp_path, CASES).items():
        assert code == 1, name
        assert "│ Error: " in told, name
        assert "on main.nf.hcl line" in told, name
        assert "Internal error" not in told, name


@pytest.mark.skipif(sys.platform != "linux", reason="limits memory as Linux does")
def test_a_long_line_takes_little_memory(tmp_path: Path) -> None:
    text = 'locals {\n  a = "' + "x" * 40_000_000 + '"\n}\n'
    assert planned(tmp_path, {"long": text}) == {"long": (0, "")}
