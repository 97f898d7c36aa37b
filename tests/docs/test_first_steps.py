"""Tests of the README and the READMEs of all examples, typed as a reader types them.

All commands of a page run from top to bottom in one shell, in a checkout with the environment that
the first command of the README makes: `pip install .` without extras and packages of the tests.
A line that installs an extra is not typed: the commands after it name the extra, and succeed in an
environment that has it.

Blocks of `sh` in a page of an example need a server or a cluster of the reader. They fail here, but
never with an internal error.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import Struct

from tests.docs.bare_environments import create_environment
from tests.docs.documented_domains import of_documented_domains
from tests.docs.test_builds import fill_once, skip_if_unreachable
from tests.kill_points import long_case

pytestmark = of_documented_domains
ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [README, *sorted(ROOT.glob("examples/*/README.md"))]
BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
# The end of a command in the output, with its exit code.
END = "\x1d"
INSTALLS_EXTRA = re.compile(r"pip install -q (?:-e )?'\.\[(\w+)\]'")
INSTALLS = re.compile(r"^python3 -m venv \.venv && \.venv/bin/pip install -q \. && ")
# Other shells and the tests are not programs of a first step.
SYSTEM_PATH = "/usr/bin:/bin"


class Command(Struct, frozen=True):
    """Command of a page, its exit code, and the lines of its output that the page shows.

    `is_own`: it needs a server or a cluster of the reader.
    """

    text: str
    code: int
    shown: tuple[str, ...] = ()
    is_own: bool = False

    @property
    def extra(self) -> str:
        """The extra that it installs, "" for none."""
        found = INSTALLS_EXTRA.search(self.text)
        return found[1] if found else ""


def read_commands(page: Path) -> Iterator[Command]:
    """Yield the commands of a page from top to bottom."""
    for _, language, body in BLOCK.findall(page.read_text(encoding="utf-8")):
        if language == "console":
            for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
                text, *shown = part.splitlines()
                yield Command(text, read_exit_code(text), tuple(shown))
        elif language == "sh":
            lines = body.replace("\\\n", "").splitlines()
            yield from (Command(t, read_exit_code(t), is_own=page != README) for t in lines)


def read_exit_code(text: str) -> int:
    return int(text.partition(" # exit code ")[2] or 0)


def type_commands(
    commands: list[Command], checkout: Path, home: Path, path: str = SYSTEM_PATH
) -> list[tuple[int, str]]:
    """Type commands into one shell in a checkout; return exit code and output of each.

    A server runs in the background until the end.
    """
    lines = ["trap 'kill $(jobs -p) 2>/dev/null' EXIT"]
    for command in commands:
        is_server = command.text.startswith("nexusform serve ")
        lines += [f"{command.text} &" if is_server else command.text, f'echo "{END}$?{END}"']
    ignored = ("NF_", "NEXUSFORM_", "PYTHON", "VIRTUAL_ENV")
    variables = {k: v for k, v in os.environ.items() if not k.startswith(ignored)}
    variables |= {"PATH": path, "HOME": str(home), "KUBECONFIG": os.devnull, "COLUMNS": "80"}
    done = subprocess.run(
        ["bash", "-c", "\n".join(lines)],
        cwd=checkout,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=500,
        check=False,
    )
    parts = done.stdout.split(END)
    return [(int(parts[i + 1]), parts[i]) for i in range(0, len(parts) - 1, 2)]


def copy_checkout(directory: Path, environment: Path | None) -> Path:
    """Copy what the pages use, with an environment; without one, all files that pip needs."""
    ignored = shutil.ignore_patterns("state", ".nexusform")
    shutil.copytree(ROOT / "examples", directory / "examples", ignore=ignored)
    if environment is None:
        for name in ("nexusform", "packaging"):
            shutil.copytree(ROOT / name, directory / name)
        for name in ("pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"):
            shutil.copy(ROOT / name, directory / name)
    else:
        (directory / ".venv").symlink_to(environment)
        (directory / "tests").symlink_to(ROOT / "tests")
    return directory


def find_failures(commands: list[Command], results: list[tuple[int, str]]) -> list[str]:
    """Return what differs from the page, and each internal error."""
    assert len(results) == len(commands), results[-1:]
    failures = []
    for command, (code, output) in zip(commands, results, strict=True):
        lost = [
            line
            for line in command.shown
            if line != "..." and line.removesuffix("...").rstrip() not in output
        ]
        is_bug = "Internal error" in output or "Traceback" in output
        if is_bug or (not command.is_own and (code != command.code or lost)):
            failures.append(f"$ {command.text}\n{output}exit code {code}, not shown: {lost}")
    return failures


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill_once(tmp_path_factory, "bare", create_environment)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.parent.relative_to(ROOT)))
def test_page_runs_from_top_to_bottom_on_the_bare_install(
    page: Path, bare: Path, tmp_path: Path
) -> None:
    checkout = copy_checkout(tmp_path, bare)
    commands = list(read_commands(page))
    assert commands
    without = [
        Command(INSTALLS.sub("", each.text), each.code, each.shown, each.is_own)
        for each in commands
        if not each.extra
    ]
    results = type_commands(without, checkout, tmp_path)
    extras = [each.extra for each in commands if each.extra]
    if page == README or not extras:
        assert find_failures(without, results) == []
        return
    # Without its extra, the page has no internal error, and a command names the extra.
    output = "".join(output for _, output in results)
    assert "Internal error" not in output
    assert f"'.[{extras[0]}]'" in " ".join(output.replace("│", " ").split())


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES[1:] if any(each.extra for each in read_commands(page))],
    ids=lambda page: page.parent.name,
)
def test_page_runs_with_the_extras_that_it_installs(page: Path, tmp_path: Path) -> None:
    commands = list(read_commands(page))
    environment = tmp_path / "environment"
    create_environment(environment, *{each.extra for each in commands if each.extra})
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    copy_checkout(checkout, environment)
    with_extras = [each for each in commands if not each.extra]
    assert find_failures(with_extras, type_commands(with_extras, checkout, tmp_path)) == []


@pytest.mark.slow
@long_case
def test_first_command_of_the_readme_installs_and_the_page_runs(tmp_path: Path) -> None:
    checkout = copy_checkout(tmp_path, None)
    commands = [each for each in read_commands(README) if not each.extra]
    assert INSTALLS.match(commands[0].text)
    path = f"{Path(sys.executable).resolve().parent}:{SYSTEM_PATH}"
    results = type_commands(commands, checkout, Path.home(), path)
    skip_if_unreachable(results[0][1])
    assert find_failures(commands, results) == []
    listed = subprocess.run(
        [checkout / ".venv/bin/pip", "list"], capture_output=True, text=True, check=True
    ).stdout.lower()
    assert "nexusform" in listed
    assert "lightkube" not in listed
