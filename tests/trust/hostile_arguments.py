"""Every argument of every command, texts with hostile values, in sandboxed runs.

python -m tests.trust.hostile_arguments DIRECTORY PART PARTS

runs a part of them in one process, beside files of `write_secrets` in DIRECTORY. A kernel trace of
it shows what they open, start and connect to.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import click
from msgspec import Struct, field

from nexusform.cli.arguments import get_argument_file
from nexusform.cli.main import ROOT, run_command_line
from nexusform.files.external_files import ArgumentFile
from tests.trust.untrusted_files import write_tree

# A file outside of the work tree.
SECRET = "secret-of-the-runner"
# Values of other arguments that a command requires.
_REQUIRED = {"source": "a.b", "target": "a.c", "address": "a.b", "serial": "1"}
_MARKER_PATH = "/nonexistent/argument/"
_MARKER = re.compile(rf'"{_MARKER_PATH}(\d+)"')
# The path of an opened file, without links.
_OPENED = re.compile(r"= \d+<([^>]*)>$")
# Seconds; servers run until they are interrupted.
_MAXIMUM_SECONDS = 2


class DeclaredArgument(Struct, frozen=True):
    """A text argument of a command, and what it leads to.

    `required` are the values of the other positional arguments; None stands for this one. `plain`
    is the only value of a switch, number or choice.
    """

    command: str
    name: str
    usage: str
    required: tuple[str | None, ...]
    file: ArgumentFile | None
    plain: str = ""

    def build_words(self, value: str) -> list[str]:
        """Build the command line with a value of the argument."""
        flag = [f"{self.name}={value}"] if self.name.startswith("-") else []
        positionals = [value if word is None else word for word in self.required]
        return [*self.command.split(), *flag, *positionals]


def list_declared_arguments() -> list[DeclaredArgument]:
    """List the arguments of all commands whose value is a text, by its type."""
    return [argument for argument in list_arguments() if not argument.plain]


def list_arguments() -> list[DeclaredArgument]:
    """List the arguments of all commands: texts, switches, numbers and choices."""
    arguments: list[DeclaredArgument] = []
    for words, command in _list_commands(ROOT, (), click.Context(ROOT)):
        positionals = [item for item in command.params if isinstance(item, click.Argument)]
        for parameter in command.params:
            names = parameter.opts if isinstance(parameter, click.Option) else [parameter.name]
            required = tuple(
                None if item is parameter else _REQUIRED.get(str(item.name), "x")
                for item in positionals
                if item is parameter or item.required
            )
            arguments += [
                DeclaredArgument(
                    command=" ".join(words),
                    name=str(name),
                    usage=f"{' '.join(words)} {parameter.metavar or str(name).upper()}",
                    required=required,
                    # Of -var and -var-file only the latter has a file.
                    file=None if name == "-var" else get_argument_file(parameter),
                    plain=_choose_plain_value(parameter.type),
                )
                for name in names
            ]
    return arguments


def _choose_plain_value(kind: click.ParamType) -> str:
    """Return a value of a switch, number or choice; "" for a text."""
    if isinstance(kind, click.types.StringParamType):
        return ""
    if isinstance(kind, click.Choice):
        return str(next(iter(kind.choices)))
    return "true" if isinstance(kind, click.types.BoolParamType) else "1"


def _list_commands(
    command: click.Command, words: tuple[str, ...], context: click.Context
) -> Iterator[tuple[Sequence[str], click.Command]]:
    """Yield the commands below one, with their words."""
    if not isinstance(command, click.Group):
        yield words, command
        return
    for name in command.list_commands(context):
        inner_command = command.get_command(context, name)
        assert inner_command is not None
        yield from _list_commands(inner_command, (*words, name), context)


def list_hostile_values(argument: DeclaredArgument, tree: Path) -> list[str]:
    """List values that lead to a link, a script or a file outside in the forms of arguments."""
    if argument.plain:
        return [argument.plain]
    targets = ["link", "folder/link", "./evil", "linked-folder", str(tree / "link")]
    # An operator may name any file; a text names none.
    if argument.file is None:
        targets.append(str(tree.parent / SECRET))
    forms = ("{}", "key:{}", "json:{}", "path={}", "kube-scheduler={}", "a:b={}")
    return [form.format(target) for target in targets for form in forms]


def write_secrets(directory: Path) -> None:
    """Write the files outside of the work tree."""
    for folder in (directory, directory / "outside"):
        folder.mkdir(parents=True)
        (folder / SECRET).write_text('{"canary": 1}\n')


def _write_hostile_tree(tree: Path) -> None:
    """Write a work tree with links to a file and a directory outside, and with a script."""
    write_tree(tree)
    outside = tree.parent / "outside"
    evil = tree / "evil"
    evil.write_text("#!/bin/sh\ntouch ran\n")
    evil.chmod(0o755)
    for link, target in (
        ("link", tree.parent / SECRET),
        ("folder/link", tree.parent / SECRET),
        ("linked-folder", outside),
        ("folder/a.jsonl", tree.parent / SECRET),
        ("folder/a.nftest.hcl", tree.parent / SECRET),
        ("folder/a.csar", tree.parent / SECRET),
    ):
        path = tree / link
        path.unlink(missing_ok=True)
        path.symlink_to(target)


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def trace_arguments(directory: Path, home: Path, *numbers: str) -> str:
    """Run commands with hostile arguments under strace, and return its log."""
    log = directory / "kernel.log"
    calls = ["strace", "--seccomp-bpf", "-f", "-qq", "-y", "-o", str(log)]
    calls += ["-e", "trace=open,openat,execve,connect"]
    source = Path(__file__).parents[2]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(source), "HOME": str(home)}
    write_secrets(directory / "trees")
    words = [sys.executable, "-m", "tests.trust.hostile_arguments", str(directory / "trees")]
    subprocess.run(
        [*calls, *words, *numbers],
        env=environment,
        cwd=source,
        check=True,
        timeout=20_000,
        capture_output=True,
    )
    return log.read_text(errors="replace")


class TracedArgument(Struct):
    """What the runs with an argument did, as the kernel saw it."""

    argument: DeclaredArgument
    files: set[str] = field(default_factory=set)
    programs: set[str] = field(default_factory=set)
    connections: set[str] = field(default_factory=set)


def summarize_trace(kernel: str, directory: Path) -> list[TracedArgument]:
    """List what the runs of a trace did outside of their work tree, by argument.

    Files count below `directory`, where the secrets are: those of Python and of the system do not.
    """
    arguments = list_arguments()
    rows: list[TracedArgument] = []
    for line in kernel.splitlines():
        marker = _MARKER.search(line)
        if marker is not None:
            rows.append(TracedArgument(arguments[int(marker[1])]))
        if not rows:
            continue
        if "execve(" in line and line.endswith(" = 0"):
            program = line.partition('execve("')[2].partition('"')[0]
            if program != sys.executable:
                rows[-1].programs.add(program)
        elif "AF_INET" in line:
            rows[-1].connections.add(line.partition("connect(")[2])
        # A directory that is only passed is not read.
        opened = None if "O_PATH" in line else _OPENED.search(line)
        if opened is not None and _is_secret(Path(opened[1]), directory):
            rows[-1].files.add(opened[1])
    return rows


def _is_secret(path: Path, directory: Path) -> bool:
    """Return whether a file is neither in the work tree nor in the cache of the command itself."""
    cache = directory / "home" / ".cache" / "nexusform"
    own_directories = (directory / "trees" / "work", cache)
    # The names of a new cache are synced in the directories above it.
    if path in cache.parents:
        return False
    return path.is_relative_to(directory) and not any(map(path.is_relative_to, own_directories))


def main() -> None:
    tree = Path(sys.argv[1]) / "work"
    part = int(sys.argv[2])
    parts = int(sys.argv[3])
    signal.signal(signal.SIGALRM, _interrupt)
    os.environ["NF_INPUT"] = "0"
    for number, argument in list(enumerate(list_arguments()))[part::parts]:
        # It sets the work tree itself.
        if argument.name == "-confine":
            continue
        # No sandbox is open yet: the kernel shows where the runs of an argument start.
        with suppress(OSError):
            os.open(f"{_MARKER_PATH}{number}", os.O_RDONLY)
        values = list_hostile_values(argument, tree)
        for value in values if argument.plain else [*values, "folder"]:
            os.chdir(tree.parent)
            _write_hostile_tree(tree)
            os.chdir(tree)
            signal.alarm(_MAXIMUM_SECONDS)
            os.environ["NF_CONFINE"] = "true"
            try:
                run_command_line(argument.build_words(value))
            finally:
                signal.alarm(0)
            if (tree / "ran").exists():
                raise SystemExit(f"{argument.build_words(value)} ran a script")


if __name__ == "__main__":
    main()
