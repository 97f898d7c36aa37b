"""Tests of habits of Terraform users.

Each command line works, or its error names the right command.
"""

from __future__ import annotations

import io
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line
from nexusform.cli.other_tools import FLAG_HINTS, VARIABLE_HINTS, VariableHint

CONFIGURATION = """
variable "machines" {
  type    = number
  default = 2
}
resource "nexus_site" "lab" {}
resource "nexus_rack" "r" {
  count         = 2
  site_id       = nexus_site.lab.id
  name          = "r${count.index}"
  machine_count = var.machines
}
output "racks" {
  value = nexus_rack.r[*].id
}
"""
CLUSTER = """
resource "nexus_kubernetes_cluster" "core" {
  site_id = nexus_site.lab.id
  control_plane {
    count       = 1
    vm_sku_name = "NC_G6_28_v1"
  }
  agent_pool "workers" {
    count       = 1
    vm_sku_name = "NC_P10_56_v1"
  }
  depends_on = [nexus_rack.r]
}
"""
TABLE = Path(__file__).with_name("habits.txt").read_text(encoding="utf-8").splitlines()[1:]
HABITS = [tuple(part.strip() for part in line.split("=>")) for line in TABLE]
Result = tuple[int, str]


@pytest.fixture
def nf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Result]:
    """Run a command line in a directory with a configuration.

    Return the exit code and all output.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    Path("main.nf.hcl").write_text(CONFIGURATION)

    def call(*arguments: str) -> Result:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
        code = run_command_line(arguments)
        captured = capsys.readouterr()
        return code, " ".join((captured.out + captured.err).replace("│", " ").split())

    return call


def test_the_table_has_128_habits() -> None:
    assert len(dict(HABITS)) == len(HABITS) == 128


@pytest.mark.of_domains("remote_state")
@pytest.mark.parametrize(("line", "hint"), HABITS, ids=[habit[0] for habit in HABITS])
def test_habit_works_or_error_names_an_alternative(
    nf: Callable[..., Result], line: str, hint: str
) -> None:
    nf("plan", "-out=p")
    code, text = nf(*shlex.split(line))
    if hint:
        assert code == 1, text
        assert hint in text
    else:
        assert code in {0, 2}, text


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ("nexus_cluster", 'Did you mean "nexus_kubernetes_cluster"?'),
        ("nexus_vm", 'Did you mean "nexus_virtual_machine"?'),
        ("azapi_resource", "nexusform predict -terraform-plan=FILE"),
        ("azurerm_resource_group", "nexusform predict -terraform-plan=FILE"),
    ],
)
def test_resource_type_of_another_tool_is_reported(
    nf: Callable[..., Result], written: str, hint: str
) -> None:
    Path("main.nf.hcl").write_text(f'resource "{written}" "a" {{\n}}\n')
    code, text = nf("validate")
    assert (code, hint in text) == (1, True), text


def test_node_is_explained_by_its_name(nf: Callable[..., Result]) -> None:
    Path("main.nf.hcl").write_text(CONFIGURATION + CLUSTER)
    assert nf("plan", "-out=p")[0] == 0
    for source in (["-plan=p"], []):
        code, text = nf("explain", "core-workers-0", *source)
        assert code == 0, text
        assert text.startswith("core-workers-0")
        assert nf("apply", "-auto-approve")[0] == 0


def test_workspace_of_terraform_is_used_with_a_note(
    nf: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TF_WORKSPACE", "dev")
    code, text = nf("workspace", "show")
    assert (code, text) == (0, 'dev TF_WORKSPACE selects the workspace "dev".')
    monkeypatch.setenv("NF_WORKSPACE", "prod")
    assert nf("workspace", "show") == (0, "prod")


@pytest.mark.parametrize("entry", VARIABLE_HINTS, ids=lambda entry: entry.name)
def test_ignored_variable_of_terraform_names_an_alternative(
    nf: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, entry: VariableHint
) -> None:
    command = ["init"] if entry.commands else ["workspace", "show"]
    monkeypatch.setenv(entry.name, "0")
    code, text = nf(*command)
    assert (code, text.count(f"{entry.name} is ignored. ")) == (0, 1), text
    assert (entry.hint or f"Use {entry.replacement}.") in text
    if entry.commands:
        assert nf("workspace", "show") == (0, "default")
    if entry.replacement:
        monkeypatch.setenv(entry.replacement, "")
        assert entry.name not in nf(*command)[1]


def test_hint_names_only_flags_that_the_command_has() -> None:
    for entry in FLAG_HINTS:
        assert not entry.required_flag or f"-{entry.required_flag}" in entry.hint, entry


def test_init_without_a_backend_reads_no_backend(nf: Callable[..., Result]) -> None:
    Path("backend.nf.hcl").write_text(
        'nexusform {\n  backend "http" {\n    address = "http://127.0.0.1:9/state"\n  }\n}\n'
    )
    assert nf("init")[0] == 1
    code, text = nf("init", "-backend=false")
    assert code == 0, text
    assert not Path(".nexusform").exists()
