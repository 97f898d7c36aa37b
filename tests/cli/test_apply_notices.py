"""Tests of apply messages about results other than planned."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from nexusform.cli.main import run_command_line
from nexusform.plans.saved import plan_file
from nexusform.values.typed_value import Refinement

# Two timestamps may be equal: then a number computed from them in the plan differs after apply.
_TWO = "[for moment in toset([timestamp(), timestamp()]) : moment]"

_VM = """
provider "simulated" {
  fault {
    address   = "nexus_virtual_machine.v"
    operation = "create"
    answer    = { machine = "r0-bm01" }
  }
}
resource "nexus_site" "s" {
}
resource "nexus_rack" "r0" {
  site_id       = nexus_site.s.id
  machine_count = 2
}
resource "nexus_virtual_machine" "v" {
  site_id    = nexus_site.s.id
  cpu_cores  = 4
  memory_gib = 16
  disk_gib   = 50
}
locals {
  place = "at ${nexus_virtual_machine.v.machine}"
}
"""


class Project:
    """Directory with one configuration file."""

    def __init__(self, directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
        self.directory = directory
        self._capfd = capfd

    def run(self, *arguments: str) -> int:
        return run_command_line([f"-chdir={self.directory}", *arguments])

    def printed(self) -> str:
        """Return the output since the last call, without frames, on one line."""
        captured = self._capfd.readouterr()
        return " ".join((captured.out + captured.err).replace("│", " ").split())

    def write(self, text: str) -> None:
        (self.directory / "main.nf.hcl").write_text(text)

    def apply(self, text: str) -> tuple[int, str]:
        self.write(text)
        code = self.run("apply", "-auto-approve", "-no-color")
        return code, self.printed()

    def outputs(self) -> dict[str, object]:
        self.printed()
        assert self.run("output", "-json") == 0
        return {
            name: each["value"] for name, each in json.loads(self._capfd.readouterr().out).items()
        }


@pytest.fixture
def project(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Project:
    return Project(tmp_path, capfd)


def test_output_other_than_planned_is_an_error(project: Project) -> None:
    code, said = project.apply(f'output "n" {{\n  value = length({_TWO})\n}}\n')
    assert code == 1
    assert (
        'Output "n" was known in the plan and has another value after apply. It was planned '
        "as 2 and is 1."
    ) in said
    assert project.outputs() == {}


def test_value_of_sensitive_output_is_not_printed(project: Project) -> None:
    text = f'output "n" {{\n  value     = "secret ${{length({_TWO})}}"\n  sensitive = true\n}}\n'
    code, said = project.apply(text)
    assert code == 1
    assert 'Output "n" was known' in said
    assert "secret " not in said


def test_argument_other_than_planned_stops_apply_before_first_step(project: Project) -> None:
    text = f'resource "nexus_site" "s" {{\n  name = "s${{length({_TWO})}}"\n}}\n'
    code, said = project.apply(text)
    assert code == 1
    assert '"name" of nexus_site.s was known in the plan' in said
    assert 'It was planned as "s2" and is "s1".' in said
    assert "Creating" not in said


def test_outputs_known_only_after_apply_are_kept(project: Project) -> None:
    text = 'resource "nexus_site" "s" {\n}\noutput "at" {\n  value = timestamp()\n}\n'
    assert project.apply(text)[0] == 0
    assert str(project.outputs()["at"]).startswith("20")


def test_outputs_follow_other_machine_of_a_tie(project: Project) -> None:
    text = (
        _VM
        + 'output "where" {\n  value = local.place\n}\n'
        + 'output "hush" {\n  value     = local.place\n  sensitive = true\n}\n'
        + 'output "site" {\n  value = nexus_site.s.name\n}\n'
    )
    code, said = project.apply(text)
    assert code == 0
    assert "1 VM runs on another machine allowed by the rule:" in said
    assert "nexus_virtual_machine.v: machine predicted r0-bm02, observed r0-bm01" in said
    assert "output: where predicted at r0-bm02, observed at r0-bm01" in said
    assert "output: hush predicted (sensitive value), observed (sensitive value)" in said
    assert project.outputs() == {"where": "at r0-bm01", "hush": "at r0-bm01", "site": "s"}
    assert project.run("plan", "-detailed-exitcode") == 0


@pytest.mark.parametrize(
    "answer",
    [
        "{ machine = null }",
        '{ machine = null, rack = null, availability_zone = null, provenance = "observed" }',
    ],
)
def test_vm_without_observed_machine_is_a_warning(project: Project, answer: str) -> None:
    """A complete apply must not pass over VMs in silence.

    A machine that was not observed is no wrong prediction.
    """
    code, said = project.apply(_VM.replace('{ machine = "r0-bm01" }', answer))
    assert code == 0
    assert "Warning: VMs without machine The provider reported no machine for v." in said
    assert "prediction wrong" not in said
    assert project.apply(_VM)[0] == 0
    assert "The provider reported no machine" not in project.printed()


@pytest.mark.parametrize(
    ("value", "planned"),
    [
        ('length(var.enabled ? [for s in toset([timestamp(), "x"]) : s if s != ""] : [])', 2),
        ('var.enabled ? ["a"] : jsondecode(timestamp())', ["a"]),
    ],
)
def test_value_unknown_in_plan_is_right_after_apply(
    project: Project, value: str, planned: object
) -> None:
    text = f'variable "enabled" {{\n  default = true\n}}\noutput "o" {{\n  value = {value}\n}}\n'
    assert project.apply(text)[0] == 0
    assert project.outputs() == {"o": planned}


@pytest.mark.parametrize(
    "text",
    [
        "locals {\n  tags = var.extra == null ? {} : var.extra\n  owner = local.tags.owner\n}\n",
        'locals {\n  zone = (var.zones != null ? var.zones : ["1"])[1]\n}\n',
        "locals {\n  name = (var.on ? var.sites : {}).a.name\n}\n",
    ],
)
def test_validate_does_not_guess_types(project: Project, text: str) -> None:
    variables = "".join(
        f'variable "{n}" {{\n  type = any\n}}\n' for n in ("extra", "zones", "sites")
    )
    project.write(variables + 'variable "on" {\n  type = bool\n}\n' + text)
    assert project.run("validate") == 0


@pytest.mark.parametrize(
    "text",
    [
        'output "p" {\n  value = parseint(timestamp(), 10)\n}\n',
        'locals {\n  l = parseint(timestamp(), 10)\n}\noutput "p" {\n  value = local.l\n}\n',
        (
            'output "p" {\n  value = [for x in jsondecode("[\\"${timestamp()}\\"]") : parseint(x, '
            "10)]\n}\n"
        ),
    ],
)
def test_expression_failing_with_known_values_stops_apply_early(
    project: Project, text: str
) -> None:
    code, said = project.apply('resource "nexus_site" "s" {\n}\n' + text)
    assert code == 1
    assert "Error: Invalid function argument" in said
    assert "base 10 integer" in said
    assert "on main.nf.hcl line" in said
    assert "Creating" not in said


def test_timestamps_in_template_files_are_known_after_apply(project: Project) -> None:
    (project.directory / "n.tftpl").write_text(f"${{length({_TWO})}}")
    text = 'output "n" {\n  value = templatefile("${path.module}/n.tftpl", {})\n}\n'
    code, said = project.apply(text)
    assert code == 1
    assert (
        'Output "n" was known in the plan and has another value after apply. It was planned '
        "as 2 and is 1."
    ) in said


def test_module_output_other_than_planned_names_root_output(project: Project) -> None:
    (project.directory / "m").mkdir()
    (project.directory / "m" / "main.nf.hcl").write_text(
        f'output "n" {{\n  value = length({_TWO})\n}}\n'
    )
    text = 'module "m" {\n  source = "./m"\n}\noutput "n" {\n  value = module.m.n\n}\n'
    project.write(text)
    assert project.run("init") == 0
    code, said = project.apply(text)
    assert code == 1
    assert (
        'Output "n" was known in the plan and has another value after apply. It was planned '
        "as 2 and is 1."
    ) in said


def test_condition_failing_with_known_values_stops_apply(project: Project) -> None:
    text = (
        'resource "nexus_site" "s" {\n  lifecycle {\n    precondition {\n'
        '      condition     = "${path.module}${timestamp()}" == "never"\n'
        '      error_message = "It is never."\n    }\n  }\n}\n'
    )
    code, said = project.apply(text)
    assert code == 1
    assert "Error: Resource precondition failed" in said
    assert "It is never." in said
    assert "Creating" not in said


def test_unknown_set_elements_may_have_any_value(project: Project) -> None:
    text = (
        'output "set" {\n  value = setunion([timestamp()], ["b"])\n}\n'
        f'output "fewer" {{\n  value = toset({_TWO})\n}}\n'
    )
    code, _ = project.apply(text)
    assert code == 0
    outputs = project.outputs()
    assert outputs["set"] == [*outputs["fewer"], "b"]  # type: ignore[misc]  # a list


def test_conditions_are_checked_again_after_wrong_prediction(project: Project) -> None:
    condition = (
        '    condition     = nexus_virtual_machine.v.machine == "r0-bm02"\n'
        '    error_message = "It must stand on the second machine."\n'
    )
    text = (
        _VM
        + f'output "where" {{\n  value = local.place\n  precondition {{\n{condition}  }}\n}}\n'
        + f'check "place" {{\n  assert {{\n{condition}  }}\n}}\n'
    )
    code, said = project.apply(text)
    assert code == 1
    assert "Error: Module output value precondition failed" in said
    assert "Warning: Check block assertion failed" in said
    assert project.outputs() == {"where": "at r0-bm01"}
    state = json.loads((project.directory / "state" / "nexusform.nfstate").read_text())
    assert {each["status"] for each in state["check_results"]} == {"fail"}


def test_postcondition_is_checked_again_after_wrong_prediction(project: Project) -> None:
    text = _VM.replace(
        "  disk_gib   = 50\n",
        "  disk_gib   = 50\n  lifecycle {\n    postcondition {\n"
        '      condition     = self.machine == "r0-bm02"\n'
        '      error_message = "It must stand on the second machine."\n    }\n  }\n',
    )
    code, said = project.apply(text)
    assert code == 1
    assert "Error: Resource postcondition failed" in said


def test_output_failing_after_wrong_prediction_keeps_its_value(project: Project) -> None:
    text = (
        _VM
        + 'output "number" {\n  value = local.place == "at r0-bm02" ? 1 : parseint("x", 10)\n}\n'
        + 'output "place" {\n  value = local.place\n}\n'
        + 'output "site" {\n  value = nexus_site.s.name\n}\n'
    )
    code, said = project.apply(text)
    assert code == 1
    assert 'in output "number"' in said
    assert 'cannot parse "x"' in said
    assert project.outputs() == {"place": "at r0-bm01", "site": "s"}


def test_refined_outputs_are_saved_in_plan_file_and_not_shown(project: Project) -> None:
    project.write('output "o" {\n  value = ["a-${timestamp()}"]\n}\n')
    path = project.directory / "saved"
    assert project.run("plan", f"-out={path}") == 0
    assert project.run("show", "-json", str(path)) == 0
    assert '"a-' not in project.printed().replace('"a-${timestamp()}"', "")
    saved, _ = plan_file.read_plan_file(path.read_bytes())
    assert saved is not None
    assert saved.plan.root_values.refined_outputs == {
        "o": (((0,), Refinement(not_null=True, prefix="a-")),)
    }
    # The saved refinements must hold at apply; otherwise nothing is applied.
    wrong = {"o": (((0,), Refinement(not_null=True, prefix="b-")),)}
    document = plan_file.write_plan_file(
        replace(saved.plan, root_values=replace(saved.plan.root_values, refined_outputs=wrong)),
        saved.configuration_files,
        saved.prior_state,
    )
    path.write_bytes(document)
    assert project.run("apply", "-no-color", str(path)) == 1
    assert "Its refined outputs differ from a new plan." in project.printed()
    path.write_bytes(
        plan_file.write_plan_file(saved.plan, saved.configuration_files, saved.prior_state)
    )
    assert project.run("apply", str(path)) == 0


def test_unselected_branch_of_unknown_type_has_no_effect(project: Project) -> None:
    text = """
variable "on" {
  default = true
}
locals {
  later = jsondecode("[\\"${timestamp()}\\"]")
}
resource "nexus_site" "counted" {
  count = length(var.on ? ["a"] : local.later)
  name  = "c${count.index}"
}
resource "nexus_site" "keyed" {
  for_each = toset(var.on ? ["a"] : local.later)
  name     = each.key
}
provider "simulated" {
  dynamic "fault" {
    for_each = var.on ? [] : local.later
    content {
      address   = fault.value
      operation = "create"
    }
  }
}
output "mapped" {
  value = { for name in(var.on ? ["p"] : local.later) : name => 1 }
}
"""
    code, said = project.apply(text)
    assert code == 0
    assert "Resources: 2 added" in said
    assert project.outputs() == {"mapped": {"p": 1}}
    assert project.run("plan", "-detailed-exitcode") == 0
    text = text.replace("default = true", "default = false").replace(
        "var.on ? [] : local.later", "[]"
    )
    project.write(text)
    assert project.run("validate") == 0
    assert project.run("plan", "-no-color") == 1
    said = project.printed()
    assert "Error: Invalid count argument" in said
    assert "Error: Invalid for_each argument" in said


def test_json_stream_counts_forgotten_objects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text('resource "nexus_site" "s" {\n  name = "s"\n}\n')
    assert run_command_line(["apply", "-auto-approve"]) == 0
    Path("main.nf.hcl").write_text(
        "removed {\n  from = nexus_site.s\n  lifecycle {\n    destroy = false\n  }\n}\n"
    )
    capsys.readouterr()
    assert run_command_line(["apply", "-auto-approve", "-json"]) == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [e["changes"]["forget"] for e in events if e["type"] == "change_summary"] == [1, 1]


def test_vm_elsewhere_than_on_the_only_eligible_machine_is_a_wrong_certain_prediction(
    project: Project,
) -> None:
    cordoned = '  machine_count = 2\n  machine_override "r0-bm01" {\n    cordoned = true\n  }\n'
    code, printed = project.apply(_VM.replace("  machine_count = 2\n", cordoned))
    assert code == 2
    assert "v was predicted with certainty on r0-bm02, but runs on r0-bm01" in printed
