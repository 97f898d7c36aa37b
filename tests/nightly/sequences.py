"""Run random sequences of commands against terraform or tofu.

Sequences have life cycles, state surgery, flags, variables and tests.

Run: python -m tests.nightly.sequences PROGRAM MINUTES [SEQUENCES] [SEED] [KIND...] A difference is
printed with its kind and seed; the result is 1 with a difference.
"""

from __future__ import annotations

import io
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from nexusform.cli.main import run_command_line

_STEPS = 4
# Errors about addresses of -target, -exclude and -replace, in the table of differences.
_REJECTED_OPTIONS = ("Unknown address", "Nothing to replace", "Instance to replace required")
_RUN = re.compile(r'run "(\w+)"\.\.\. (pass|fail|skip|error)')


class SkippedDestructionError(Exception):
    """The other program did not destroy what it planned.

    Terraform 1.11 does so after a changed count, with -target.
    """


class Block:
    """A resource of both programs: `name` replaces it, `seed` updates it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.seed = 1
        self.repetition = ""
        self.lifecycle: dict[str, str] = {}

    def render(self, label: str, *, peer: bool) -> str:
        """Render the block for the other program (`peer`), or for nexusform."""
        key = {"count": "${count.index}", "for_each": "${each.key}"}.get(
            self.repetition.partition(" ")[0], ""
        )
        name = f'"{self.name}{key}"'
        arguments = f"triggers_replace = {name}\ninput = {self.seed}\n"
        if not peer:
            arguments = f"name = {name}\nscheduler {{\n tie_break_seed = {self.seed}\n}}\n"
        rules = "".join(
            f"{word} = {_translate(value, peer=peer)}\n" for word, value in self.lifecycle.items()
        )
        body = f"{self.repetition}\n{arguments}lifecycle {{\n{rules}}}\n"
        return f'resource "{_type(peer=peer)}" "{label}" {{\n{body}}}\n'


def _type(*, peer: bool) -> str:
    return "terraform_data" if peer else "nexus_site"


def _translate(text: str, *, peer: bool) -> str:
    names = (
        ("terraform_data", "input", "triggers_replace")
        if peer
        else ("nexus_site", "scheduler", "name")
    )
    for mark, name in zip(("TYPE", "SEED", "NAME"), names, strict=True):
        text = text.replace(mark, name)
    return text


class Pair:
    """One directory for each program, with the same configuration."""

    def __init__(self, program: str, directory: Path) -> None:
        self.program = program
        self.peer = directory / "peer"
        self.own = directory / "own"
        self.peer.mkdir()
        self.own.mkdir()

    def write(self, blocks: dict[str, Block], statements: Sequence[str] = ()) -> None:
        """Write the configuration of both."""
        for directory, suffix, peer in ((self.peer, "tf", True), (self.own, "nf.hcl", False)):
            text = "".join(block.render(label, peer=peer) for label, block in blocks.items())
            text += "".join(_translate(statement, peer=peer) for statement in statements)
            (directory / f"main.{suffix}").write_text(text)

    def run(self, *arguments: str) -> tuple[tuple[int, str], tuple[int, str]]:
        """Run a command with both.

        Return the exit codes with the texts.
        """
        peer = [_translate(argument, peer=True) for argument in arguments]
        answer = subprocess.run(
            [self.program, *peer, "-no-color"],
            cwd=self.peer,
            capture_output=True,
            text=True,
            check=False,
        )
        return (answer.returncode, answer.stdout + answer.stderr), self.run_own(*arguments)

    def run_own(self, *arguments: str) -> tuple[int, str]:
        """Run a command of nexusform."""
        out = io.TextIOWrapper(io.BytesIO(), write_through=True)
        err = io.StringIO()
        with chdir(self.own), redirect_stdout(out), redirect_stderr(err):
            code = run_command_line([_translate(argument, peer=False) for argument in arguments])
        return code, out.buffer.getvalue().decode() + err.getvalue()  # type: ignore[attr-defined]

    def start(self) -> None:
        """Prepare the directory of the other program."""
        subprocess.run([self.program, "init"], cwd=self.peer, capture_output=True, check=True)


def _list_actions(document: str) -> dict[str, Any]:
    changes = json.loads(document).get("resource_changes", [])
    return {
        change["address"].partition(".")[2]: (change["change"]["actions"], _get_reason(change))
        for change in changes
        if change["change"]["actions"] != ["no-op"] or "previous_address" in change
    }


def _get_reason(change: dict[str, Any]) -> str:
    """Return the reason of a change.

    The reason of a created object is in the table of differences, so it is "" here.
    """
    return "" if change["change"]["actions"] == ["create"] else change.get("action_reason", "")


def _compare_plan(pair: Pair, *flags: str) -> str:
    """Plan and apply with both.

    Return the difference, or "".
    """
    for directory in (pair.peer, pair.own):
        (directory / "p").unlink(missing_ok=True)
    peer, own = pair.run("plan", "-out=p", "-input=false", *flags)
    planned = re.findall(r"(\d+) to destroy", peer[1])
    if not peer[0] and any(summary in own[1] for summary in _REJECTED_OPTIONS):
        return ""
    if bool(peer[0]) != bool(own[0]):
        return f"plan {flags}: {peer[0]} and {own[0]}\n{peer[1]}\n{own[1]}"
    if peer[0]:
        return ""
    shown = [_list_actions(text) for _, text in pair.run("show", "-json", "p")]
    if shown[0] != shown[1]:
        return f"plan {flags}: {shown[0]} and {shown[1]}"
    peer, own = pair.run("apply", "-input=false", "p")
    if bool(peer[0]) != bool(own[0]):
        return f"apply: {peer[0]} and {own[0]}\n{peer[1]}\n{own[1]}"
    if re.findall(r"(\d+) destroyed", peer[1]) != planned:
        raise SkippedDestructionError
    return _compare_addresses(pair)


def _compare_addresses(pair: Pair) -> str:
    peer, own = (
        sorted(re.findall(r"(?:terraform_data|nexus_site)\.(\S+)", text))
        for _, text in pair.run("state", "list")
    )
    return "" if peer == own else f"state list: {peer} and {own}"


def _change_block(  # noqa: C901, PLR0912 - one branch per change
    draw: random.Random, blocks: dict[str, Block], *, newer: bool
) -> list[str]:
    """Change one block at random.

    Return the moved and removed statements.
    """
    label = draw.choice(sorted(blocks)) if blocks else ""
    change = draw.randrange(9 if blocks else 1)
    if change == 0:
        free = [name for name in "abcde" if name not in blocks]
        if free:
            blocks[free[0]] = Block(f"{free[0]}{draw.randrange(1000)}")
        return []
    block = blocks[label]
    if change == 1:
        block.name = f"{label}{draw.randrange(1000)}"
    elif change == 2:
        block.seed += 1
    elif change == 3:
        block.repetition = draw.choice(
            (
                "",
                "count = 1",
                "count = 2",
                'for_each = toset(["x", "y"])',
                'for_each = toset(["x"])',
            )
        )
        block.lifecycle.pop("enabled", None)
    elif change == 4:
        del blocks[label]
        for other in blocks.values():
            if label in other.lifecycle.get("replace_triggered_by", ""):
                del other.lifecycle["replace_triggered_by"]
        if draw.random() < 0.4:
            return [
                (
                    f"removed {{\n from = TYPE.{label}\n lifecycle {{\n"
                    f" destroy = {draw.choice(('true', 'false'))}\n }}\n}}\n"
                )
            ]
    elif change == 5:
        free = [name for name in "abcde" if name not in blocks]
        if free and not any(
            label in other.lifecycle.get("replace_triggered_by", "") for other in blocks.values()
        ):
            blocks[free[0]] = blocks.pop(label)
            return [f"moved {{\n from = TYPE.{label}\n to = TYPE.{free[0]}\n}}\n"]
    else:
        others = [name for name in sorted(blocks) if name < label]
        rules = {
            "create_before_destroy": "true",
            "prevent_destroy": draw.choice(("true", "false")),
            "ignore_changes": draw.choice(("all", "[SEED]", "[NAME]")),
        }
        if others:
            rules["replace_triggered_by"] = f"[TYPE.{draw.choice(others)}]"
        if newer and not block.repetition:
            rules["enabled"] = draw.choice(("true", "false"))
        word = draw.choice(sorted(rules))
        if block.lifecycle.pop(word, None) is None:
            block.lifecycle[word] = rules[word]
    return []


def _run_life_cycle(draw: random.Random, pair: Pair) -> str:
    newer = "tofu" in pair.program
    blocks: dict[str, Block] = {"a": Block("a"), "b": Block("b")}
    statements: list[str] = []
    pair.write(blocks)
    pair.start()
    for _ in range(_STEPS):
        if difference := _compare_plan(pair):
            return difference
        for _ in range(draw.randrange(1, 3)):
            statements = _change_block(draw, blocks, newer=newer)
        pair.write(blocks, statements)
    return _compare_plan(pair)


def _run_surgery(draw: random.Random, pair: Pair) -> str:
    blocks = {label: Block(label) for label in "abc"}
    blocks["b"].repetition = "count = 2"
    blocks["c"].repetition = 'for_each = toset(["x", "y"])'
    pair.write(blocks)
    pair.start()
    if difference := _compare_plan(pair):
        return difference
    addresses = [
        f"TYPE.{name}"
        for name in ("a", "b", "b[0]", "b[1]", 'c["x"]', 'c["y"]', "c", "d", "d[0]", "b[7]")
    ]
    for _ in range(_STEPS):
        command = draw.choice(("mv", "mv", "rm"))
        one = draw.choice(addresses)
        other = draw.choice(addresses)
        arguments = ("state", "mv", one, other) if command == "mv" else ("state", "rm", one)
        peer, own = pair.run(*arguments)
        if not peer[0] and "Move target exists" in own[1]:
            # In the table of differences.
            return ""
        if bool(peer[0]) != bool(own[0]):
            return f"{arguments}: {peer[0]} and {own[0]}\n{peer[1]}\n{own[1]}"
        if difference := _compare_addresses(pair):
            return f"{arguments}: {difference}"
    return _compare_plan(pair)


def _run_flags(draw: random.Random, pair: Pair) -> str:
    blocks = {label: Block(label) for label in "abc"}
    blocks["b"].repetition = "count = 2"
    blocks["c"].lifecycle["replace_triggered_by"] = "[TYPE.a]"
    pair.write(blocks)
    pair.start()
    addresses = [f"TYPE.{name}" for name in ("a", "b[0]", "b[1]", "c")]
    names = ["-target", "-target", "-replace", *(["-exclude"] if "tofu" in pair.program else [])]
    for _ in range(_STEPS):
        flags = [f"{draw.choice(names)}={draw.choice(addresses)}" for _ in range(draw.randrange(3))]
        flags += draw.choice(([], [], ["-destroy"], ["-refresh-only"], ["-refresh=false"]))
        if difference := _compare_plan(pair, *flags):
            return difference
        _change_block(draw, {"a": blocks["a"]}, newer=False)
        pair.write(blocks)
    return ""


_TYPES = (
    "string",
    "number",
    "bool",
    "list(string)",
    "set(number)",
    "map(string)",
    "object({a = string, b = optional(number, 3)})",
    "any",
    "tuple([string, bool])",
)
_VALUES = (
    "x",
    "7",
    "true",
    "null",
    '["a", "b"]',
    "[1, 2, 1]",
    '{a = "p"}',
    '{a = "p", b = "q"}',
    '["s", false]',
    "",
    "[",
    "1e3",
    '"quoted"',
)


def _run_variables(draw: random.Random, pair: Pair) -> str:
    text = ""
    flags = []
    for name in "abc":
        kind = draw.choice(_TYPES)
        sensitive = draw.random() < 0.2
        text += (
            f'variable "{name}" {{\n type = {kind}\n nullable = {draw.choice(("true", "false"))}\n'
        )
        if draw.random() < 0.4:
            value = draw.choice([value for value in _VALUES if value not in ("x", "", "[")])
            text += f" default = {value}\n"
        if draw.random() < 0.3:
            text += (
                f" validation {{\n condition = try(length(var.{name}) > 1, true)\n error_message "
                f'= "Too short."\n }}\n'
            )
        text += f" sensitive = {'true' if sensitive else 'false'}\n}}\n"
        text += f'output "{name}" {{\n value = var.{name}\n sensitive = true\n}}\n'
        if draw.random() < 0.8:
            flags += ["-var", f"{name}={draw.choice(_VALUES)}"]
    (pair.peer / "main.tf").write_text(text)
    (pair.own / "main.nf.hcl").write_text(text)
    peer, own = pair.run("apply", "-auto-approve", "-input=false", *flags)
    if bool(peer[0]) != bool(own[0]):
        return f"{flags}\n{text}\n{peer}\n{own}"
    if peer[0]:
        return ""
    peer, own = pair.run("output", "-json")
    return (
        "" if json.loads(peer[1]) == json.loads(own[1]) else f"{flags}\n{text}\n{peer[1]}\n{own[1]}"
    )


def _run_tests(draw: random.Random, pair: Pair) -> str:
    text = (
        'variable "n" {\n default = 1\n validation {\n condition = var.n < 5\n error_message = '
        '"Too large."\n }\n}\n'
        'output "double" {\n value = var.n * 2\n precondition {\n'
        ' condition = var.n != 3\n error_message = "No 3."\n }\n}\n'
        'check "even" {\n assert {\n condition = var.n % 2 == 0\n error_message = "Odd."\n }\n}\n'
    )
    runs = ""
    for number in range(_STEPS):
        runs += f'run "r{number}" {{\n command = {draw.choice(("plan", "apply"))}\n'
        if draw.random() < 0.8:
            runs += f" variables {{\n n = {draw.randrange(7)}\n }}\n"
        if draw.random() < 0.6:
            failures = draw.sample(("var.n", "output.double", "check.even"), draw.randrange(1, 3))
            runs += f" expect_failures = [{', '.join(failures)}]\n"
        condition = draw.choice(
            (
                "output.double == 4",
                "output.double > 1",
                "var.n == 2",
                "output.missing == 1",
                "run.r0.double == 2",
            )
        )
        runs += f' assert {{\n condition = {condition}\n error_message = "wrong"\n }}\n}}\n'
    for directory, suffix, tests in (
        (pair.peer, "tf", "a.tftest.hcl"),
        (pair.own, "nf.hcl", "a.nftest.hcl"),
    ):
        (directory / f"main.{suffix}").write_text(text)
        (directory / tests).write_text(runs)
    pair.start()
    peer, own = pair.run("test")
    found = [(bool(code), _RUN.findall(out)) for code, out in (peer, own)]
    return "" if found[0] == found[1] else f"{runs}\n{found[0]}\n{found[1]}\n{peer[1]}\n{own[1]}"


KINDS: dict[str, Callable[[random.Random, Pair], str]] = {
    "life-cycles": _run_life_cycle,
    "surgery": _run_surgery,
    "flags": _run_flags,
    "variables": _run_variables,
    "tests": _run_tests,
}


def compare_sequences(
    program: str, minutes: float, count: int, seed: int, kinds: Sequence[str]
) -> int:
    """Compare sequences of each kind in turn until the time ends.

    Return 1 with a difference.
    """
    end = time.monotonic() + minutes * 60
    equal = Counter[str]()
    different = Counter[str]()
    for number in range(seed, seed + count):
        for kind in kinds:
            if time.monotonic() > end:
                break
            with tempfile.TemporaryDirectory() as directory:
                try:
                    difference = KINDS[kind](
                        random.Random(f"{kind}{number}"), Pair(program, Path(directory))
                    )
                except SkippedDestructionError:
                    # The states differ from here on.
                    continue
            (different if difference else equal)[kind] += 1
            if difference:
                print(f"== {kind} {number}\n{difference}", flush=True)
    print({kind: f"{equal[kind]} equal, {different[kind]} different" for kind in kinds})
    return int(bool(different))


if __name__ == "__main__":
    _numbers = [float(text) for text in sys.argv[2:5]]
    _minutes, _count, _seed = [*_numbers, *(1.0, 100.0, 0.0)[len(_numbers) :]]
    os.environ["TF_CLI_CONFIG_FILE"] = os.devnull
    sys.exit(
        compare_sequences(
            sys.argv[1], _minutes, int(_count), int(_seed), sys.argv[5:] or list(KINDS)
        )
    )
