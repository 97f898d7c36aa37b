"""Tests of the questions of commands at a terminal, and of Ctrl-C at each point of an apply."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.terminals import CTRL_C, CTRL_D, list_lines, run_at_terminal

CONFIGURATION = """
provider "simulated" {
  fault {
    address   = "nexus_rack.*"
    operation = "create"
    delay     = "DELAY"
    times     = 0
  }
}
variable "racks" {
  type = number
}
resource "nexus_site" "lab" {
}
resource "nexus_rack" "r" {
  count         = var.racks
  site_id       = nexus_site.lab.id
  name          = "rack${count.index + 1}"
  machine_count = 1
}
"""
PROMPT = "Enter a value:"
NO_ANSWER = (
    "No answer on stdin. Add -auto-approve, or save a plan with `nexusform plan -out=FILE` and "
    "apply that file."
)
APPLY = [
    "Do you want to perform these actions?",
    "  nexusform will perform the actions described above.",
    "  Only 'yes' will be accepted to approve.",
]
FINISH = [
    "Apply interrupted. 2 steps remain. Finish it first?",
    "  nexusform will apply its remaining steps. Only 'yes' will be accepted;",
    "  `nexusform apply -discard` drops them.",
]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    write_configuration(tmp_path, "0s")
    return tmp_path


def write_configuration(directory: Path, delay: str) -> None:
    (directory / "main.nf.hcl").write_text(CONFIGURATION.replace("DELAY", delay))


def show_from(lines: list[str], first_line: str) -> list[str]:
    """Return the lines from the first one that equals `first_line`."""
    assert first_line in lines, lines
    return lines[lines.index(first_line) :]


@pytest.mark.parametrize(
    ("key", "end"),
    [
        (CTRL_C, [f"  {PROMPT} ^C", "Interrupted."]),
        ("no\n", [f"  {PROMPT} no", "Apply cancelled."]),
        (CTRL_D, [f"  {PROMPT}", "Apply cancelled.", NO_ANSWER]),
    ],
)
def test_apply_without_approval_changes_nothing(key: str, end: list[str], directory: Path) -> None:
    code, shown = run_at_terminal(["apply", "-var=racks=1"], [(PROMPT, key)], directory)
    assert code == 1
    assert show_from(list_lines(shown), APPLY[0]) == [*APPLY, *end]
    assert [path.name for path in directory.iterdir()] == ["main.nf.hcl"]


def test_interrupt_at_question_for_variable(directory: Path) -> None:
    code, shown = run_at_terminal(["apply"], [(PROMPT, CTRL_C)], directory)
    assert code == 1
    assert list_lines(shown) == ["var.racks (number)", f"  {PROMPT} ^C", "Interrupted."]


def test_questions_of_destroy_and_refresh_only(directory: Path) -> None:
    """A partial destroy names its objects, and the question names a workspace."""
    assert run_at_terminal(["workspace", "new", "a"], [], directory)[0] == 0
    code, shown = run_at_terminal(["apply", "-var=racks=2"], [(PROMPT, "yes\n")], directory)
    assert code == 0
    lines = list_lines(shown)
    assert 'Do you want to perform these actions in workspace "a"?' in lines
    assert "Apply complete! Resources: 3 added, 0 changed, 0 destroyed." in lines
    refused = [(PROMPT, "no\n")]
    _, shown = run_at_terminal(["destroy", "-var=racks=2"], refused, directory)
    title = 'Do you really want to destroy all resources in workspace "a"?'
    assert show_from(list_lines(shown), title) == [
        title,
        "  nexusform will destroy all objects listed above. There is no undo.",
        "  Only 'yes' will be accepted to approve.",
        f"  {PROMPT} no",
        "Destroy cancelled.",
    ]
    words = ["destroy", "-var=racks=2", "-target=nexus_rack.r[1]"]
    _, shown = run_at_terminal(words, refused, directory)
    text = " ".join(list_lines(shown))
    assert 'Do you really want to destroy 1 object (nexus_rack.r[1]) in workspace "a"?' in text
    (directory / "main.nf.hcl").write_text(
        CONFIGURATION.replace("DELAY", "0s") + 'output "new" {\n  value = 1\n}\n'
    )
    _, shown = run_at_terminal(["apply", "-var=racks=2", "-refresh-only"], refused, directory)
    text = " ".join(list_lines(shown))
    assert (
        "Would you like to update the state to reflect these detected changes in workspace "
        '"a"? nexusform will write these changes to the state without changing any object. '
        "Only 'yes' will be accepted to approve."
    ) in " ".join(text.split())


def test_first_interrupt_of_an_apply_lets_the_running_step_end(directory: Path) -> None:
    write_configuration(directory, "2s")
    words = ["apply", "-var=racks=2", "-parallelism=1"]
    keys = [(PROMPT, "yes\n"), ("r[0]: Creating...", CTRL_C)]
    code, shown = run_at_terminal(words, keys, directory)
    assert code == 1
    lines = list_lines(shown)
    assert show_from(lines, "Interrupt received.")[:3] == [
        "Interrupt received.",
        "Waiting for running steps; no further step starts. Interrupt again to exit at",
        "  once.",
    ]
    assert show_from(lines, "Steps: 2 done, 0 failed, 1 skipped.") == [
        "Steps: 2 done, 0 failed, 1 skipped.",
        "  done     nexus_site.lab   create",
        "  done     nexus_rack.r[0]  create",
        "  skipped  nexus_rack.r[1]  create: The apply was interrupted before it.",
        "╷",
        "│ Error: Unfinished apply",
        "│",
        "│ It was interrupted, 1 step not started. Completed steps are saved. To continue",
        "│ as planned, run `nexusform apply -resume`; a new plan starts from the current",
        "│ state.",
        "╵",
    ]


def test_second_interrupt_of_an_apply_and_question_to_finish_it(directory: Path) -> None:
    """The message has a line of its own, and the cursor that the bar has hidden is shown again."""
    write_configuration(directory, "60s")
    words = ["apply", "-var=racks=2", "-parallelism=1"]
    keys = [(PROMPT, "yes\n"), ("r[0]: Creating...", CTRL_C), ("Interrupt received.", CTRL_C)]
    code, shown = run_at_terminal(words, keys, directory)
    assert code == 1
    assert list_lines(shown)[-1] == (
        "Two interrupts received. Exiting at once. The next run checks the results of the running "
        "steps."
    )
    assert shown.rfind("\x1b[?25h") > shown.rfind("\x1b[?25l")
    write_configuration(directory, "0s")
    _, shown = run_at_terminal(["apply", "-var=racks=2"], [(PROMPT, "no\n")], directory)
    end = [*FINISH, f"  {PROMPT} no", "Apply cancelled."]
    assert show_from(list_lines(shown), FINISH[0]) == end
    code, shown = run_at_terminal(["apply", "-var=racks=2"], [(PROMPT, "yes\n")], directory)
    lines = show_from(list_lines(shown), FINISH[0])
    assert code == 0, lines
    assert lines[4] == "Finishing an earlier apply first. 2 steps remain."
