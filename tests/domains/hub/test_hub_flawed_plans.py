"""Tests of plans with errors.

Errors of the plan and dry-run results of its valid part are reported together.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.domains.hub.conftest import CommandRunner
from tests.domains.hub.hub_front import Body, Front, RequestRejection
from tests.domains.hub.test_fleet_provider import write_configuration

BUDGET = """
resource "fleet_placement_disruption_budget" "b" {{
  provider        = fleet
  name            = "web"
  max_unavailable = "{}"
}}
"""
HANGS = """
resource "fleet_placement_eviction" "e" {
  provider       = fleet
  name           = "e"
  placement_name = fleet_placement_disruption_budget.b.name
  cluster_name   = "lon1"
}
"""
OTHERS = ".spec.policy.numberOfClusters belongs to kubectl"


def scale_with_kubectl(hub: Front, run_command: CommandRunner) -> None:
    """Apply a placement, and let kubectl own its number of clusters."""
    write_configuration()
    assert run_command("apply", "-auto-approve")[0] == 0
    placement = hub.get("ClusterResourcePlacement", "web")
    assert placement is not None
    names = {
        "apiVersion": placement["apiVersion"],
        "kind": placement["kind"],
        "metadata": {"name": "web"},
    }
    hub.put({**names, "spec": {"policy": {"numberOfClusters": 1}}}, "kubectl")


def append_configuration(text: str) -> None:
    with Path("main.nf.hcl").open("a") as file:
        file.write(text)


def test_valid_part_of_plan_with_errors_is_validated(
    hub: Front, run_command: CommandRunner
) -> None:
    scale_with_kubectl(hub, run_command)
    append_configuration(BUDGET.format("many") + HANGS)
    code, said = run_command("plan")
    assert code == 1
    assert '"many"' in said
    assert OTHERS in said
    assert "not-checked" in said
    words = "it depends on fleet_placement_disruption_budget.b, which has an error"
    assert (
        "2 changes with errors, or dependent on one: fleet_placement_disruption_budget.b, fleet_"
        in said
    )
    assert f"fleet_placement_eviction.e ({words})" in run_command("plan", "-details")[1]
    Path("main.nf.hcl").write_text(Path("main.nf.hcl").read_text().replace('"many"', '"1"'))
    code, said = run_command("plan")
    assert (code, OTHERS in said, "not-checked" in said) == (1, True, False), said


@pytest.mark.parametrize(
    "wrong",
    [
        'resource "fleet_placement_disruption_budget" "x" {\n  provider = fleet\n  nmae = "x"\n}\n',
        (
            'resource "nexus_vm_sku" "x" {\n  name = "x"\n  vcpus = nothing.there\n  memory_gib = '
            "8\n}\n"
        ),
        'locals {\n  x = tonumber("many")\n}\noutput "x" {\n  value = local.x\n}\n',
    ],
)
def test_unrelated_error_does_not_prevent_dry_run(
    hub: Front, run_command: CommandRunner, wrong: str
) -> None:
    scale_with_kubectl(hub, run_command)
    append_configuration(wrong)
    code, said = run_command("plan")
    assert (code, OTHERS in said) == (1, True), said
    assert said.count("Error: ") == 2


def test_unattributable_error_prevents_dry_run_and_is_reported(
    hub: Front, run_command: CommandRunner
) -> None:
    scale_with_kubectl(hub, run_command)
    rule = 'condition = var.n > 1\n    error_message = "No."'
    append_configuration(f'variable "n" {{\n  default = 1\n  validation {{\n    {rule}\n  }}\n}}\n')
    code, said = run_command("plan")
    assert (code, OTHERS in said) == (1, False), said
    assert (
        "web (the plan has an error (Invalid value for variable))"
        in run_command("plan", "-details")[1]
    )


@pytest.mark.parametrize(
    ("judge", "code", "severity"), [("auto", 0, "Warning"), ("require", 1, "Error"), ("off", 0, "")]
)
def test_skipped_dry_run_is_reported(
    hub: Front, run_command: CommandRunner, judge: str, code: int, severity: str
) -> None:
    write_configuration()
    text = Path("main.nf.hcl").read_text()
    settings = f'{{\n  dry_run = "{judge}"\n  timeout = "30m"\n}}'
    Path("main.nf.hcl").write_text(text.replace('{ timeout = "30m" }', settings))
    hub.log.clear()
    ended, said = run_command("plan", "-refresh=false", "-details")
    words = "Server-side dry run skipped for 2 changes: -refresh=false skips providers."
    assert (ended, words in said, f"{severity}: Not checked" in said) == (
        code,
        bool(severity),
        bool(severity),
    )
    assert [entry for entry in hub.log if entry[0] != "GET"] == []
    run_command("apply", "-auto-approve")
    ended, said = run_command("plan", "-refresh=false", "-detailed-exitcode")
    assert (ended, "Not checked" in said) == (0, False), said


@pytest.mark.our_hub_alone
def test_other_placements_of_written_objects_may_be_unknown(
    hub: Front, run_command: CommandRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_configuration()
    assert run_command("apply", "-auto-approve")[0] == 0
    write_configuration(content="2")
    respond = hub.respond

    def reject_list(
        method: str, path: str, query: dict[str, str], token: str, content: bytes
    ) -> tuple[int, Body]:
        if path.endswith("/resourceplacements"):
            words = (
                'User "bob" cannot list resource "resourceplacements" in API group '
                '"placement.kubernetes-fleet.io"'
            )
            raise RequestRejection(403, f"resourceplacements is forbidden: {words}")
        return respond(method, path, query, token, content)

    monkeypatch.setattr(hub, "respond", reject_list)
    code, said = run_command("plan", "-target=fleet_hub_manifest.web", "-details")
    assert (
        code,
        said.count("It is unknown which other placements select the changed objects: "),
    ) == (0, 1), said
    assert 'user "bob" may not list resourceplacements' in said


def test_excluded_placements_of_written_objects_are_named(
    hub: Front, run_command: CommandRunner
) -> None:
    write_configuration()
    assert run_command("apply", "-auto-approve")[0] == 0
    write_configuration(content="2")
    words = "ConfigMap web/settings is selected by ClusterResourcePlacement web (lon1, par1)"
    assert "selected-by-other-placements" not in run_command("plan")[1]
    code, said = run_command("plan", "-target=fleet_hub_manifest.web", "-details")
    assert (code, said.count(words)) == (0, 1), said
    write_configuration(content="1")
    assert (
        "selected-by-other-placements"
        not in run_command("plan", "-target=fleet_hub_manifest.web")[1]
    )
    assert hub.all("ClusterResourceBinding")
