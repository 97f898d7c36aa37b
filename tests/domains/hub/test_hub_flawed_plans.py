"""What is wrong with a plan by itself and what the hub makes of the rest is said at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.domains.hub.conftest import Told
from tests.domains.hub.hub_front import Front
from tests.domains.hub.test_fleet_provider import write

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


def scaled_by_kubectl(hub: Front, told: Told) -> None:
    """A placement whose number of clusters somebody else owns now."""
    write()
    assert told("apply", "-auto-approve")[0] == 0
    placement = hub.get("ClusterResourcePlacement", "web")
    assert placement is not None
    names = {"apiVersion": placement["apiVersion"], "kind": placement["kind"], "metadata": {"name": "web"}}
    hub.put({**names, "spec": {"policy": {"numberOfClusters": 1}}}, "kubectl")


def add(text: str) -> None:
    with Path("main.nf.hcl").open("a") as file:
        file.write(text)


def test_the_hub_judges_what_is_sound_beside_what_is_in_error(hub: Front, told: Told) -> None:
    scaled_by_kubectl(hub, told)
    add(BUDGET.format("many") + HANGS)
    code, said = told("plan")
    assert code == 1
    assert '"many"' in said
    assert OTHERS in said
    assert "not-checked" in said
    words = "it depends on fleet_placement_disruption_budget.b, which has an error"
    assert "2 changes with errors, or dependent on one: fleet_placement_disruption_budget.b, fleet_" in said
    assert f"fleet_placement_eviction.e ({words})" in told("plan", "-details")[1]
    Path("main.nf.hcl").write_text(Path("main.nf.hcl").read_text().replace('"many"', '"1"'))
    code, said = told("plan")
    assert (code, OTHERS in said, "not-checked" in said) == (1, True, False), said


@pytest.mark.parametrize(
    "wrong",
    [
        'resource "fleet_placement_disruption_budget" "x" {\n  provider = fleet\n  nmae = "x"\n}\n',
        'resource "nexus_vm_sku" "x" {\n  name = "x"\n  vcpus = nothing.there\n  memory_gib = 8\n}\n',
        'locals {\n  x = tonumber("many")\n}\noutput "x" {\n  value = local.x\n}\n',
    ],
)
def test_what_is_wrong_elsewhere_keeps_no_change_from_being_judged(hub: Front, told: Told, wrong: str) -> None:
    scaled_by_kubectl(hub, told)
    add(wrong)
    code, said = told("plan")
    assert (code, OTHERS in said) == (1, True), said
    assert said.count("Error: ") == 2


def test_what_nobody_can_attribute_keeps_the_hub_from_being_asked_and_is_said(hub: Front, told: Told) -> None:
    scaled_by_kubectl(hub, told)
    rule = 'condition = var.n > 1\n    error_message = "No."'
    add(f'variable "n" {{\n  default = 1\n  validation {{\n    {rule}\n  }}\n}}\n')
    code, said = told("plan")
    assert (code, OTHERS in said) == (1, False), said
    assert "web (the plan has an error (Invalid value for variable))" in told("plan", "-details")[1]


@pytest.mark.parametrize(
    ("judge", "code", "severity"), [("auto", 0, "Warning"), ("require", 1, "Error"), ("off", 0, "")]
)
def test_a_plan_that_asks_no_provider_says_that_the_hub_did_not_judge_it(
    hub: Front, told: Told, judge: str, code: int, severity: str
) -> None:
    write()
    text = Path("main.nf.hcl").read_text()
    settings = f'{{\n  dry_run = "{judge}"\n  timeout = "30m"\n}}'
    Path("main.nf.hcl").write_text(text.replace('{ timeout = "30m" }', settings))
    hub.log.clear()
    ended, said = told("plan", "-refresh=false", "-details")
    words = "Server-side dry run skipped for 2 changes: -refresh=false skips providers."
    assert (ended, words in said, f"{severity}: Not checked" in said) == (code, bool(severity), bool(severity))
    assert [entry for entry in hub.log if entry[0] != "GET"] == []
    told("apply", "-auto-approve")
    ended, said = told("plan", "-refresh=false", "-detailed-exitcode")
    assert (ended, "Not checked" in said) == (0, False), said


def test_placements_that_the_plan_leaves_out_and_that_bring_what_it_writes_are_named(hub: Front, told: Told) -> None:
    write()
    assert told("apply", "-auto-approve")[0] == 0
    write(content="2")
    words = "ConfigMap web/settings is selected by ClusterResourcePlacement web (lon1, par1)"
    assert "selected-by-other-placements" not in told("plan")[1]
    code, said = told("plan", "-target=fleet_hub_manifest.web", "-details")
    assert (code, said.count(words)) == (0, 1), said
    write(content="1")
    assert "selected-by-other-placements" not in told("plan", "-target=fleet_hub_manifest.web")[1]
    assert hub.all("ClusterResourceBinding")
