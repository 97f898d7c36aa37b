"""Tests of `predict`: placements of VMs created by another tool's plan."""

from __future__ import annotations

import io
import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line
from nexusform.providers.clock import read_clock

EXPORT = Path(__file__).parents[4] / "examples" / "inventory" / "export"
TENANT = "/subscriptions/0f2c61d4-5a0b-4c1e-9d55-3c2f7a4b8e10/resourceGroups/lon1-tenant"
CORE = f"{TENANT}/providers/Microsoft.NetworkCloud/kubernetesClusters/core-amf"
TYPES = {
    "cluster": "Microsoft.NetworkCloud/kubernetesClusters@2025-02-01",
    "pool": "Microsoft.NetworkCloud/kubernetesClusters/agentPools@2025-02-01",
    "vm": "Microsoft.NetworkCloud/virtualMachines@2025-02-01",
}


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def build_change(
    kind: str,
    address: str,
    actions: list[str],
    properties: Mapping[str, Any] | None = None,
    *,
    unknown: Mapping[str, Any] | None = None,
    after_body: Any = None,
    **values: Any,
) -> dict[str, Any]:
    """Return an entry of `resource_changes`."""
    body = after_body if after_body is not None else {"properties": properties or {}}
    shown = {"type": TYPES[kind], "name": address.rpartition(".")[2], "body": body, **values}
    gone = actions == ["delete"]
    made = actions[0] == "create"
    module, _, name = address.rpartition("azapi_")
    change: dict[str, Any] = {
        "address": address,
        "mode": "managed",
        "type": f"azapi_{name.partition('.')[0]}",
        "name": name.partition(".")[2].partition("[")[0],
        "change": {
            "actions": actions,
            "before": None if made else shown,
            "after": None if gone else shown,
            "after_unknown": unknown or {},
        },
    }
    if "[" in name:
        change["index"] = json.loads(name.partition("[")[2].rstrip("]"))
    if module:
        change["module_address"] = module.rstrip(".")
    return change


def build_cluster(name: str, count: int = 3, **more: Any) -> dict[str, Any]:
    plane = {"count": count, "vmSkuName": "NC_G6_28_v1"}
    return build_change(
        "cluster",
        f"azapi_resource.{name}",
        ["create"],
        {"controlPlaneNodeConfiguration": plane, **more},
        name=name,
        parent_id=TENANT,
    )


def build_pool(name: str, count: int, actions: list[str], **more: Any) -> dict[str, Any]:
    settings = {"count": count, "vmSkuName": "NC_P22_112_v1", **more.pop("properties", {})}
    return build_change(
        "pool", f"azapi_resource.{name}", actions, settings, **{"name": name, **more}
    )


def write_plan(*changes: Mapping[str, Any], **root: Any) -> None:
    document = {
        "format_version": "1.2",
        "planned_values": {},
        "resource_changes": changes,
        "configuration": {"root_module": root},
    }
    Path("plan.json").write_text(json.dumps(document))


def run_predict(capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, str, str]:
    code = run_command_line(
        ["predict", "-terraform-plan=plan.json", f"-inventory={EXPORT}", "-samples=0", *more]
    )
    told = capsys.readouterr()
    return code, told.out, " ".join(told.err.replace("│", " ").split())


def predict_rows(capsys: pytest.CaptureFixture[str], *more: str) -> list[dict[str, Any]]:
    code, out, err = run_predict(capsys, "-report=json:-", *more)
    assert (code, err) == (0, ""), err
    return json.loads(out)["placement_changes"]


def build_reference(address: str, argument: str, *names: str) -> dict[str, Any]:
    return {"address": address, "expressions": {argument: {"references": list(names)}}}


# --- actions in Terraform's terms -----------------------------------------------------------------

VM_BODY = {"cpuCores": 4, "memorySizeGB": 16, "storageProfile": {"osDisk": {"diskSizeGB": 50}}}


def join_lines(text: str) -> str:
    return " ".join(text.replace("│", " ").split())


def test_comment_says_what_a_merge_does(capsys: pytest.CaptureFixture[str]) -> None:
    write_plan(build_cluster("new"))
    code, out, err = run_predict(capsys, "-next=apply", "-report=markdown:p.md")
    assert code == 0, err
    assert "Next: a merge applies the predicted changes" in join_lines(out)
    assert "**Next**: a merge applies the predicted changes\n" in Path("p.md").read_text("utf-8")
    assert "a merge" not in run_predict(capsys)[1]
    assert run_predict(capsys, "-next=merge")[0] != 0


@pytest.mark.parametrize("actions", [["create", "forget"], ["forget", "create"]])
def test_forgotten_object_remains_next_to_its_replacement(
    actions: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    entry = build_change(
        "vm", "azapi_resource.jump", actions, VM_BODY, name="jump2", parent_id=TENANT
    )
    old = {**entry["change"]["after"], "name": "jumpbox01"}
    old["id"] = f"{TENANT}/providers/Microsoft.NetworkCloud/virtualMachines/jumpbox01"
    entry["change"]["before"] = old
    write_plan(entry)
    (row,) = predict_rows(capsys)
    assert (row["trigger"], row["from"]) == ("new", None)
    code, out, err = run_predict(capsys, "-details")
    assert (code, "1 to place, 0 to move, 0 to remove" in out) == (0, True), out
    assert "on no machine" not in join_lines(out + err), "what comes has none in the export"


@pytest.mark.parametrize("actions", [["forget"], ["no-op"], ["read"]])
def test_untouched_objects_remain(actions: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    entry = build_pool("edge", 9, actions, id=f"{CORE}/agentPools/edge")
    if actions == ["forget"]:
        entry["change"]["after"] = None
    write_plan(entry)
    assert predict_rows(capsys) == []


def test_deposed_object_is_removed_next_to_its_successor(
    capsys: pytest.CaptureFixture[str],
) -> None:
    names = ["new", "old"]
    made, gone = (
        build_change("vm", "azapi_resource.jump", actions, VM_BODY, name=name, parent_id=TENANT)
        for name, actions in zip(names, (["create"], ["delete"]), strict=True)
    )
    write_plan(made, {**gone, "deposed": "1a2b3c4d"})
    code, _, err = run_predict(capsys)
    assert (code, "azapi_resource.jump: " in err) == (1, False), err
    assert 'azapi_resource.jump (deposed 1a2b3c4d): the inventory has no "old" to remove' in err


def test_age_of_the_export_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    """Example: a pull request of another tool, compared with an export of last month."""
    shutil.copytree(EXPORT, "export", dirs_exist_ok=True)
    write_plan(
        build_change("vm", "azapi_resource.jump", ["create"], VM_BODY, name="new", parent_id=TENANT)
    )
    Path("export/exported_at").write_text("2026-01-31T12:00:00Z")
    words = [
        "predict",
        "-terraform-plan=plan.json",
        "-inventory=export",
        "-samples=0",
        "-report=markdown:comment.md",
    ]
    assert run_command_line(words) == 0
    assert re.search(r"\nInventory: +\d+ days old\.\n", capsys.readouterr().out)
    assert re.search(r"\n\*\*inventory \d+ days old\*\*", Path("comment.md").read_text())
    assert "[!WARNING]" in Path("comment.md").read_text()
    Path("export/exported_at").write_text(read_clock())
    assert run_command_line(words) == 0
    assert re.search(r"\nInventory: +0 min old\.\n", capsys.readouterr().out)


def test_moved_address_is_matched_by_id(capsys: pytest.CaptureFixture[str]) -> None:
    pool_id = f"{CORE}/agentPools/agentpool1"
    grown = build_pool("agentpool1", 5, ["update"], id=pool_id)
    write_plan(
        {
            **grown,
            "address": "azapi_resource.after",
            "name": "after",
            "previous_address": grown["address"],
        }
    )
    assert {row["trigger"] for row in predict_rows(capsys)} == {"scale_out"}


def test_deferred_changes_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    later = build_pool("workers", 4, ["create"], unknown={"parent_id": True})
    document = {
        "format_version": "1.2",
        "planned_values": {},
        "resource_changes": [],
        "deferred_changes": [{"reason": "instance_count_unknown", "resource_change": later}],
        "complete": False,
    }
    Path("plan.json").write_text(json.dumps(document))
    code, out, _ = run_predict(capsys, "-details")
    assert code == 0
    assert "azapi_resource.workers: Terraform defers this resource to a later plan" in join_lines(
        out
    )
    assert run_predict(capsys, "-fail-on=removed:0")[0] == 1


@pytest.mark.parametrize(
    ("flag", "words"),
    [({"errored": True}, "could not finish"), ({"complete": False}, "not complete")],
)
def test_unfinished_plan_exceeds_every_guard_rail(
    flag: Mapping[str, bool], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_plan(build_cluster("a"))
    Path("plan.json").write_text(json.dumps(json.loads(Path("plan.json").read_text()) | flag))
    code, out, err = run_predict(capsys, "-details")
    assert (code, words in join_lines(out)) == (0, True), err
    assert run_predict(capsys, "-fail-on=capacity:1")[0] == 1


def test_plan_incomplete_by_resources_of_others_is_predicted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_plan(build_cluster("a"))
    other = {"resource_change": {"address": "kubernetes_manifest.x", "type": "kubernetes_manifest"}}
    document = json.loads(Path("plan.json").read_text()) | {
        "complete": False,
        "deferred_changes": [other],
    }
    Path("plan.json").write_text(json.dumps(document))
    code, out, err = run_predict(capsys, "-fail-on=removed:0")
    assert (code, "passed removed:0" in out) == (0, True), err


# --- new objects -------------------------------------------------------------------------------


def test_a_new_cluster_and_its_pools_are_placed(capsys: pytest.CaptureFixture[str]) -> None:
    initial = [{"name": "system", "count": 2, "mode": "System", "vmSkuName": "NC_G6_28_v1"}]
    write_plan(
        build_cluster("ran", initialAgentPoolConfigurations=initial),
        build_pool("workers", 4, ["create"], unknown={"parent_id": True, "id": True}),
        resources=[
            build_reference(
                "azapi_resource.workers", "parent_id", "azapi_resource.ran.id", "azapi_resource.ran"
            )
        ],
    )
    placed = predict_rows(capsys)
    assert {row["trigger"] for row in placed} == {"new"}
    assert [row["object"] for row in placed] == [
        *(f"ran-control-plane-{number}" for number in range(3)),
        *(f"ran-system-{number}" for number in range(2)),
        *(f"ran-workers-{number}" for number in range(4)),
    ]
    assert all(row["to"]["machine"].startswith("x01lon1c") for row in placed)


def test_body_may_be_a_json_string(capsys: pytest.CaptureFixture[str]) -> None:
    body = {
        "properties": {"controlPlaneNodeConfiguration": {"count": 1, "vmSkuName": "NC_G6_28_v1"}}
    }
    write_plan(
        build_change(
            "cluster", "azapi_resource.a", ["create"], after_body=json.dumps(body), parent_id=TENANT
        )
    )
    assert [row["object"] for row in predict_rows(capsys)] == ["a-control-plane-0"]


def test_pools_in_modules_find_their_clusters(capsys: pytest.CaptureFixture[str]) -> None:
    clusters = [
        build_change(
            "cluster",
            f'module.cluster["{key}"].azapi_resource.this',
            ["create"],
            {"controlPlaneNodeConfiguration": {"count": 1, "vmSkuName": "NC_G6_28_v1"}},
            name=key,
            parent_id=TENANT,
        )
        for key in ("a", "b")
    ]
    pools = [
        build_change(
            "pool",
            f'module.cluster["{key}"].module.pool.azapi_resource.this[0]',
            ["create"],
            {"count": count, "vmSkuName": "NC_G6_28_v1"},
            name="more",
            unknown={"parent_id": True},
        )
        for key, count in (("a", 1), ("b", 2))
    ]
    inner = {"resources": [build_reference("azapi_resource.this", "parent_id", "var.cluster_id")]}
    outer = {
        "resources": [{"address": "azapi_resource.this", "expressions": {}}],
        "module_calls": {
            "pool": {
                "expressions": {
                    "cluster_id": {"references": ["azapi_resource.this.id", "azapi_resource.this"]}
                },
                "module": inner,
            }
        },
    }
    write_plan(*clusters, *pools, module_calls={"cluster": {"expressions": {}, "module": outer}})
    workers = [row["object"] for row in predict_rows(capsys) if "-more-" in row["object"]]
    assert workers == ["a-more-0", "b-more-0", "b-more-1"]


def test_vm_larger_than_a_cell_uses_two_cells(capsys: pytest.CaptureFixture[str]) -> None:
    body = {"cpuCores": 60, "memorySizeGB": 100, "storageProfile": {"osDisk": {"diskSizeGB": 64}}}
    write_plan(
        build_change("vm", "azapi_resource.large", ["create"], body, name="big", parent_id=TENANT)
    )
    (row,) = predict_rows(capsys)
    assert (row["address"], row["object"], row["trigger"]) == (
        "nexus_virtual_machine.large",
        "big",
        "new",
    )
    assert row["to"]["numa_cells"] in ([0, 1], None)


def test_new_vm_without_the_size_of_its_disk_is_an_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    body = {"cpuCores": 4, "memorySizeGB": 16, "storageProfile": {}}
    write_plan(build_change("vm", "azapi_resource.v", ["create"], body, name="v", parent_id=TENANT))
    code, _, err = run_predict(capsys)
    assert code == 1
    assert '"diskSizeGB" is missing' in err, err


def test_creation_order_follows_references(capsys: pytest.CaptureFixture[str]) -> None:
    after = {"address": "azapi_resource.a", "expressions": {}, "depends_on": ["azapi_resource.b"]}
    write_plan(
        build_cluster("a"),
        build_cluster("b"),
        resources=[after, {"address": "azapi_resource.b", "expressions": {}}],
    )
    assert [row["object"][0] for row in predict_rows(capsys)] == ["b"] * 3 + ["a"] * 3


def test_undefined_creation_order_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    write_plan(build_cluster("a"), build_cluster("b"))
    code, out, _ = run_predict(capsys)
    assert code == 0
    assert (
        "the creation order of azapi_resource.a and azapi_resource.b is not defined"
    ) in " ".join(out.split())


def test_plan_of_unrelated_resources_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    write_plan()
    code, out, err = run_predict(capsys, "-detailed-exitcode")
    assert (code, err) == (0, "")
    assert "plan.json plans no clusters, pools or VMs of Microsoft.NetworkCloud" in " ".join(
        out.split()
    )
    assert predict_rows(capsys) == []


def test_comment_on_unrelated_plan_reports_nothing_to_predict(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_plan()
    code, out, _ = run_predict(capsys, "-report=markdown:-")
    assert code == 0
    assert (
        "nothing-to-predict: plan.json plans no clusters, pools or VMs of Microsoft.NetworkCloud"
        in out
    )


def build_fleet_change(address: str, action: str, arm_type: str = "") -> dict[str, Any]:
    """Return a change of a resource of a fleet; without `arm_type` one of azurerm."""
    values = {"type": f"{arm_type}@2026-06-01"} if arm_type else {"group": "a"}
    return {
        "address": address,
        "type": address.partition(".")[0],
        "name": address.partition(".")[2],
        "change": {
            "actions": [action],
            "before": None if action == "create" else values,
            "after": None if action == "delete" else values,
            "after_unknown": {},
        },
    }


FLEET = "Microsoft.ContainerService/fleets"


@pytest.mark.parametrize("more", [(), (build_cluster("new"),)])
def test_placements_of_a_fleet_are_read_from_its_hub(
    capsys: pytest.CaptureFixture[str], more: tuple[dict[str, Any], ...]
) -> None:
    write_plan(
        *more,
        build_fleet_change("azapi_resource.team", "create", f"{FLEET}/managedNamespaces"),
        build_fleet_change("azapi_resource.old", "delete", f"{FLEET}/managedNamespaces"),
        build_fleet_change("azapi_resource.same", "no-op", f"{FLEET}/managedNamespaces"),
        build_fleet_change("azapi_resource.run", "create", f"{FLEET}/updateRuns"),
        build_fleet_change("azurerm_kubernetes_fleet_member.lon1", "update"),
    )
    code, out, err = run_predict(capsys, "-fail-on=moved:0")
    assert (code, err) == (0, "")
    assert (
        "managed namespace azapi_resource.team and 2 more are not predicted: placements of a fleet "
        "are read from its hub" in join_lines(out)
    )
    write_plan(build_fleet_change("azapi_resource.same", "no-op", f"{FLEET}/managedNamespaces"))
    assert "hub" not in run_predict(capsys)[1]


def test_deferred_changes_are_not_called_absent(capsys: pytest.CaptureFixture[str]) -> None:
    """A plan with only deferred changes has resources, and their effects are unknown."""
    write_plan()
    document = json.loads(Path("plan.json").read_text())
    document["deferred_changes"] = [{"reason": "unknown", "resource_change": build_cluster("a")}]
    Path("plan.json").write_text(json.dumps(document))
    for flags in ((), ("-details",), ("-report=markdown:-",)):
        code, out, _ = run_predict(capsys, *flags)
        text = " ".join(out.split())
        assert code == 0
        assert (
            "Nothing predicted. No change of Azure Operator Nexus resources could be read" in text
        )
        assert "no clusters" not in text
        assert "contains no" not in text
    assert "nexusform: nothing predicted" in text
    assert "no running workload affected by the predicted changes; 1 resource not predicted" in text


@pytest.mark.parametrize(("region", "is_here"), [("UK South", True), ("westus", False)])
@pytest.mark.parametrize("is_in_body", [True, False])
def test_object_without_extended_location_in_another_region_is_reported(
    region: str, capsys: pytest.CaptureFixture[str], *, is_in_body: bool, is_here: bool
) -> None:
    """It is on another site, although the inventory has only one."""
    made = build_cluster("a")
    values = made["change"]["after"]
    (values["body"] if is_in_body else values)["location"] = region
    write_plan(made)
    code, _, said = run_predict(capsys)
    assert code == (0 if is_here else 1), said
    assert (f'its location is "{region}". The inventory is of uksouth.' in said) is not is_here


def test_location_with_same_name_is_reported_by_id(capsys: pytest.CaptureFixture[str]) -> None:
    made = build_cluster("a")
    group = (
        "resourceGroups/lon1-managed/providers/Microsoft.ExtendedLocation/customLocations/lon1-cl"
    )
    other = f"/subscriptions/00000000-0000-0000-0000-000000000001/{group}"
    made["change"]["after"]["body"]["extendedLocation"] = {"name": other, "type": "CustomLocation"}
    write_plan(made)
    code, _, said = run_predict(capsys)
    assert code == 1
    whole = said.replace(" ", "").lower()
    assert f'itsextendedlocationis"{other.lower()}"' in whole
    assert f"theinventoryisof{TENANT.partition('/resourceGroups')[0]}/{group.lower()}." in whole


# --- existing objects --------------------------------------------------------------------------


def test_existing_pool_grows(capsys: pytest.CaptureFixture[str]) -> None:
    write_plan(
        build_pool("agentpool1", 6, ["update"], id=f"{CORE}/agentPools/agentpool1", parent_id=CORE)
    )
    changed = predict_rows(capsys)
    assert [(row["action"], row["trigger"]) for row in changed] == [("place", "scale_out")] * 2
    assert [row["object"] for row in changed] == ["core-amf-agentpool1-4", "core-amf-agentpool1-5"]


def test_pool_of_a_cluster_without_a_pool_list_is_found_in_a_group_named_like_pools(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The pools of the cluster are read from its initialAgentPoolConfigurations."""
    shutil.copytree(EXPORT, "export")
    Path("export/agent_pools.core-amf.json").unlink()
    for file in Path("export").glob("*.json"):
        file.write_text(file.read_text().replace("lon1-tenant", "agentPools"))
    clusters = json.loads(Path("export/kubernetes_clusters.json").read_text())
    initial = {"name": "agentpool1", "count": 4, "vmSkuName": "NC_P22_112_v1", "mode": "System"}
    clusters[0]["initialAgentPoolConfigurations"] = [initial]
    Path("export/kubernetes_clusters.json").write_text(json.dumps(clusters))
    cluster_id = CORE.replace("lon1-tenant", "agentPools")
    write_plan(
        build_pool(
            "agentpool1",
            6,
            ["update"],
            id=f"{cluster_id}/agentPools/agentpool1",
            parent_id=cluster_id,
        )
    )
    assert (
        run_command_line(
            ["predict", "-terraform-plan=plan.json", "-inventory=export", "-samples=0"]
        )
        == 0
    )
    assert "2 to place, 0 to move, 0 to remove" in capsys.readouterr().out


def test_deleted_objects_are_removed(capsys: pytest.CaptureFixture[str]) -> None:
    write_plan(
        build_change("cluster", "azapi_resource.core", ["delete"], id=CORE, name="core-amf"),
        build_pool("agentpool1", 4, ["delete"], id=f"{CORE}/agentPools/agentpool1", parent_id=CORE),
    )
    changed = predict_rows(capsys)
    assert {(row["action"], row["trigger"]) for row in changed} == {("remove", "cluster_removed")}
    assert len(changed) == 7


def test_risks_are_those_of_every_plan(capsys: pytest.CaptureFixture[str]) -> None:
    """The plan of another tool is assessed by the same function, and by the same guard rails."""
    write_plan(
        build_change("cluster", "azapi_resource.core", ["delete"], id=CORE, name="core-amf"),
        build_pool("agentpool1", 4, ["delete"], id=f"{CORE}/agentPools/agentpool1", parent_id=CORE),
    )
    code, out, err = run_predict(capsys, "-fail-on=risk:0", "-report=json:p.json")
    assert code == 1, (out, err)
    [risk] = json.loads(Path("p.json").read_text())["decision"]["risks"]
    assert (risk["risk"], risk["severity"]) == ("destroyed-object", "lasting")


def test_deleted_pool_removes_its_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    write_plan(
        build_pool("agentpool1", 4, ["delete"], id=f"{CORE}/agentPools/agentpool1", parent_id=CORE)
    )
    changed = predict_rows(capsys)
    assert [(row["action"], row["trigger"]) for row in changed] == [("remove", "pool_removed")] * 4


def test_replaced_pool_is_placed_again(capsys: pytest.CaptureFixture[str]) -> None:
    write_plan(
        build_pool(
            "agentpool1",
            4,
            ["delete", "create"],
            id=f"{CORE}/agentPools/agentpool1",
            parent_id=CORE,
        )
    )
    actions = sorted(row["action"] for row in predict_rows(capsys))
    assert actions == ["place"] * 4 + ["remove"] * 4


def test_replaced_cluster_is_placed_again_with_planned_pools(
    capsys: pytest.CaptureFixture[str],
) -> None:
    again = ["delete", "create"]
    initial = [{"name": "fresh", "count": 2, "mode": "System", "vmSkuName": "NC_G6_28_v1"}]
    body = {
        "controlPlaneNodeConfiguration": {"count": 3, "vmSkuName": "NC_G12_56_v1"},
        "initialAgentPoolConfigurations": initial,
    }
    write_plan(
        build_change("cluster", "azapi_resource.core", again, body, id=CORE, name="core-amf"),
        build_pool("agentpool1", 1, again, id=f"{CORE}/agentPools/agentpool1", parent_id=CORE),
        resources=[
            build_reference("azapi_resource.agentpool1", "parent_id", "azapi_resource.core.id")
        ],
    )
    after = {row["object"] for row in predict_rows(capsys) if row["to"] is not None}
    assert after == {
        *(f"core-amf-control-plane-{number}" for number in range(3)),
        *("core-amf-fresh-0", "core-amf-fresh-1", "core-amf-agentpool1-0"),
    }


def write_bare_export(place: Path) -> None:
    """Write an export without agent pools; only a cluster has the name of the site."""
    place.mkdir()
    for name in ("racks.json", "bare_metal_machines.json", "kubernetes_clusters.json"):
        items = json.loads((EXPORT / name).read_text(encoding="utf-8"))
        if name == "kubernetes_clusters.json":
            items = [item for item in items if item["name"] == "core-amf"]
            made_with = {
                "name": "agentpool1",
                "count": 4,
                "mode": "System",
                "vmSkuName": "NC_P22_112_v1",
            }
            items[0]["initialAgentPoolConfigurations"] = [made_with]
        else:
            for item in items:
                for field in ("extendedLocation", "clusterId"):
                    item.pop(field, None)
                    item.get("properties", {}).pop(field, None)
        (place / name).write_text(json.dumps(items), encoding="utf-8")


FRESH = {
    "controlPlaneNodeConfiguration": {"count": 3, "vmSkuName": "NC_G12_56_v1"},
    "initialAgentPoolConfigurations": [
        {"name": "fresh", "count": 2, "mode": "System", "vmSkuName": "NC_G6_28_v1"}
    ],
}


@pytest.mark.parametrize(("actions", "after"), [(["delete"], 0), (["delete", "create"], 5)])
def test_site_keeps_name_after_deletion_of_its_naming_cluster(
    actions: list[str], after: int, capsys: pytest.CaptureFixture[str]
) -> None:
    write_bare_export(Path("site"))
    write_plan(
        build_change("cluster", "azapi_resource.core", actions, FRESH, id=CORE, name="core-amf")
    )
    code, out, err = run_predict(capsys, "-inventory=site", "-report=json:-")
    assert code == 0, err
    changed = json.loads(out)["placement_changes"]
    assert len([row for row in changed if row["from"] is not None]) == 7
    assert len([row for row in changed if row["to"] is not None]) == after


def test_deleted_only_initial_pool_removes_its_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    write_bare_export(Path("site"))
    write_plan(
        build_pool("agentpool1", 4, ["delete"], id=f"{CORE}/agentPools/agentpool1", parent_id=CORE)
    )
    code, out, err = run_predict(capsys, "-inventory=site", "-report=json:-")
    assert code == 0, err
    changed = json.loads(out)["placement_changes"]
    assert [(row["action"], row["trigger"]) for row in changed] == [("remove", "pool_removed")] * 4


def test_unchanged_objects_give_no_changes(capsys: pytest.CaptureFixture[str]) -> None:
    write_plan(
        build_pool("agentpool1", 9, ["no-op"], id=f"{CORE}/agentPools/agentpool1", parent_id=CORE)
    )
    code, out, err = run_predict(capsys, "-detailed-exitcode")
    assert (code, err) == (0, "")
    assert "No changes." in out


def test_initial_pools_of_existing_cluster_have_no_effect(
    capsys: pytest.CaptureFixture[str],
) -> None:
    initial = [{"name": "agentpool1", "count": 9, "vmSkuName": "NC_P22_112_v1"}]
    body = {"initialAgentPoolConfigurations": initial}
    write_plan(
        build_change("cluster", "azapi_resource.core", ["update"], body, id=CORE, name="core-amf")
    )
    code, out, err = run_predict(capsys)
    assert code == 0, err
    assert "No changes." in out, out
    assert err == ""
    assert 'the pool "agentpool1" requests 9 VMs here and 4 exist' in " ".join(out.split())


def test_pool_is_removed_with_its_replaced_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    plane = {"controlPlaneNodeConfiguration": {"count": 3, "vmSkuName": "NC_G6_28_v1"}}
    cluster = build_change(
        "cluster", "azapi_resource.core", ["delete", "create"], plane, id=CORE, name="core-amf"
    )
    pool = build_pool(
        "agentpool1", 4, ["delete"], id=f"{CORE}/agentPools/agentpool1", parent_id=CORE
    )
    write_plan(
        cluster,
        pool,
        resources=[build_reference(pool["address"], "parent_id", "azapi_resource.core.id")],
    )
    assert {row["action"] for row in predict_rows(capsys)} >= {"remove"}


# --- errors ------------------------------------------------------------------------------------


def test_unknown_values_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    one = build_pool(
        "p", 1, ["create"], parent_id=CORE, unknown={"body": {"properties": {"count": True}}}
    )
    del one["change"]["after"]["body"]["properties"]["count"]
    network = {"body": {"properties": {"attachedNetworkConfiguration": True}}}
    write_plan(one, build_pool("fine", 1, ["create"], parent_id=CORE, unknown=network))
    code, _, err = run_predict(capsys)
    assert code == 1
    assert "plan.json, azapi_resource.p.properties.count: this is known only after apply" in err
    assert "azapi_resource.fine" not in err


def test_entirely_unknown_body_is_reported_with_reason(capsys: pytest.CaptureFixture[str]) -> None:
    one = build_pool("p", 1, ["create"], parent_id=CORE, unknown={"body": True})
    del one["change"]["after"]["body"]
    write_plan(one)
    code, _, err = run_predict(capsys)
    assert code == 1
    assert "azapi_resource.p: the whole body is known only after apply" in err


def test_pool_without_cluster_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    write_plan(build_pool("p", 1, ["create"], unknown={"parent_id": True}))
    code, _, err = run_predict(capsys)
    assert code == 1
    assert "its references lead to no cluster of this plan" in err


def test_unknown_sku_has_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    write_plan(
        build_pool("p", 1, ["create"], parent_id=CORE, properties={"vmSkuName": "NC_P22_113_v1"})
    )
    code, _, err = run_predict(capsys)
    assert code == 1
    assert 'has a VM SKU "NC_P22_113_v1". Did you mean "NC_P22_112_v1"?' in err


def test_object_missing_in_inventory_cannot_change(capsys: pytest.CaptureFixture[str]) -> None:
    write_plan(build_pool("p", 1, ["update"], id=f"{CORE}/agentPools/p", parent_id=CORE))
    code, _, err = run_predict(capsys)
    assert code == 1
    assert 'the inventory has no "core-amf/p" to change' in err


@pytest.mark.parametrize(("name", "pools"), [("other", []), ("other", ["a"]), ("core-amf", ["a"])])
def test_object_missing_in_inventory_cannot_be_removed(
    name: str, pools: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    owner = f"{TENANT}/providers/{TYPES['cluster'].partition('@')[0]}/{name}"
    gone = [build_pool(pool, 1, ["delete"], id=f"{owner}/agentPools/{pool}") for pool in pools]
    write_plan(
        *gone or [build_change("cluster", "azapi_resource.c", ["delete"], id=owner, name=name)]
    )
    code, _, err = run_predict(capsys)
    assert code == 1
    assert ("neither in the inventory" if pools and name == "other" else "to remove") in err, err


def test_unchanged_cluster_missing_in_inventory_is_reported(
    capsys: pytest.CaptureFixture[str],
) -> None:
    plane = {"controlPlaneNodeConfiguration": {"count": 3, "vmSkuName": "NC_G6_28_v1"}}
    write_plan(
        build_change(
            "cluster", "azapi_resource.c", ["no-op"], plane, name="other", parent_id=TENANT
        )
    )
    code, out, err = run_predict(capsys, "-details")
    assert (code, 'the inventory has no "other", an existing object' in join_lines(out)) == (
        0,
        True,
    ), err
    assert run_predict(capsys, "-fail-on=capacity:1")[0] == 1


@pytest.mark.parametrize(
    ("name", "count", "is_reported"),
    [("other", 2, True), ("other", 0, False), ("agentpool1", 4, False)],
)
def test_unchanged_pool_missing_in_inventory_is_reported(
    name: str, count: int, is_reported: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    write_plan(build_pool(name, count, ["no-op"], id=f"{CORE}/agentPools/{name}"))
    code, out, err = run_predict(capsys, "-details")
    text = 'the inventory has no "core-amf/other", an existing object'
    assert (code, text in join_lines(out)) == (0, is_reported), err
    assert run_predict(capsys, "-fail-on=capacity:1")[0] == is_reported


@pytest.mark.parametrize(("count", "is_reported"), [(4, False), (5, True)])
def test_unchanged_pool_of_another_size_is_reported(
    count: int, is_reported: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    write_plan(build_pool("agentpool1", count, ["no-op"], id=f"{CORE}/agentPools/agentpool1"))
    code, out, err = run_predict(capsys, "-details")
    text = '"count" was 5 when this plan was made, but is 4 in the inventory'
    assert (code, text in join_lines(out)) == (0, is_reported), err
    assert run_predict(capsys, "-fail-on=capacity:1")[0] == is_reported


@pytest.mark.parametrize("is_text", [False, True], ids=["object", "text"])
@pytest.mark.parametrize(("previous", "is_reported"), [(4, False), (5, True)])
@pytest.mark.parametrize("actions", [["update"], ["delete"], ["delete", "create"]])
def test_pool_changed_since_the_plan_was_made_is_reported(
    actions: list[str],
    previous: int,
    is_reported: bool,
    is_text: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A colleague has added or removed a VM, which the change does not count on."""
    change = build_pool("agentpool1", 6, actions, id=f"{CORE}/agentPools/agentpool1")
    body: Any = {"properties": {"count": previous, "vmSkuName": "NC_P22_112_v1"}}
    change["change"]["before"] = {
        **change["change"]["before"],
        "body": json.dumps(body) if is_text else body,
    }
    write_plan(change)
    code, out, err = run_predict(capsys, "-details")
    text = '"count" was 5 when this plan was made, but is 4 in the inventory'
    assert (code, text in join_lines(out)) == (0, is_reported), err
    assert run_predict(capsys, "-fail-on=capacity:1")[0] == is_reported


@pytest.mark.parametrize("actions", [["no-op"], ["update"], ["delete"], ["delete", "create"]])
@pytest.mark.parametrize(
    ("name", "previous"),
    [
        ("vmSkuName", "NC_P46_224_v1"),
        ("availabilityZones", ["9"]),
        ("labels", [{"key": "k", "value": "v"}]),
        ("mode", "Other"),
    ],
)
def test_other_values_changed_since_the_plan_was_made_are_reported(
    name: str, previous: Any, actions: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    change = build_pool("agentpool1", 4, actions, id=f"{CORE}/agentPools/agentpool1")
    body = {"properties": {"count": 4, "vmSkuName": "NC_P22_112_v1", name: previous}}
    change["change"]["before"] = {**change["change"]["before"], "body": body}
    write_plan(change)
    code, out, err = run_predict(capsys, "-details")
    assert (code, f'"{name}" was ' in join_lines(out)) == (0, True), err
    assert '"count" was' not in out
    assert run_predict(capsys, "-fail-on=capacity:1")[0] == 1


def test_plan_without_earlier_values_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    change = build_pool("agentpool1", 6, ["update"], id=f"{CORE}/agentPools/agentpool1")
    change["change"]["before"] = {**change["change"]["before"], "body": None}
    write_plan(change)
    code, out, err = run_predict(capsys, "-details")
    text = "this plan does not have the object's earlier values"
    assert (code, text in join_lines(out)) == (0, True), err


@pytest.mark.parametrize("action", ["update", "no-op"])
def test_pool_without_a_list_of_pools_is_not_compared(
    action: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The initial count of a pool may be outdated, and a colleague may have changed the pool."""
    shutil.copytree(EXPORT, "other")
    Path("other/agent_pools.core-amf.json").unlink()
    clusters = json.loads(Path("other/kubernetes_clusters.json").read_text())
    pool = {"name": "agentpool1", "count": 4, "vmSkuName": "NC_P22_112_v1", "mode": "System"}
    clusters[0]["initialAgentPoolConfigurations"] = [pool]
    Path("other/kubernetes_clusters.json").write_text(json.dumps(clusters))
    monkeypatch.setitem(globals(), "EXPORT", Path("other"))
    change = build_pool("agentpool1", 6, [action], id=f"{CORE}/agentPools/agentpool1")
    write_plan(change)
    code, out, err = run_predict(capsys, "-details")
    text = "the inventory has no agent pools of this cluster, so the pool was not compared"
    assert (code, join_lines(out).count(text)) == (0, 1), err


@pytest.mark.parametrize(
    ("version", "is_reported"), [("1.30.4", False), ("V1.30.4", False), ("v1.30.3", True)]
)
def test_version_differs_only_by_its_numbers(
    version: str, is_reported: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Azure adds the prefix "v"."""
    body = {"kubernetesVersion": version}
    change = build_change("cluster", "azapi_resource.c", ["delete"], body, id=CORE, name="core-amf")
    write_plan(change)
    code, out, err = run_predict(capsys, "-details")
    assert (code, "when this plan was made" in join_lines(out)) == (0, is_reported), err


@pytest.mark.parametrize(("name", "value"), [("vmSkuName", "nc_p22_112_v1"), ("mode", "system")])
def test_names_in_another_case_are_the_same(
    name: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    change = build_pool("agentpool1", 4, ["update"], id=f"{CORE}/agentPools/agentpool1")
    body = {"properties": {"count": 4, name: value}}
    change["change"]["before"] = {**change["change"]["before"], "body": body}
    write_plan(change)
    code, out, err = run_predict(capsys, "-details")
    assert (code, "when this plan was made" in join_lines(out)) == (0, False), err


def test_control_plane_without_vms_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    write_plan(build_cluster("a", 0))
    code, _, err = run_predict(capsys)
    assert code == 1
    assert (
        "azapi_resource.a.properties.controlPlaneNodeConfiguration.count: expected 1 or more, not 0"
    ) in err


def test_existing_object_to_create_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    write_plan(build_pool("agentpool1", 5, ["create"], parent_id=CORE))
    code, out, err = run_predict(capsys)
    assert (code, err) == (0, "")
    assert "1 to place" in out
    assert '"core-amf/agentpool1" is to be created but is in the inventory' in " ".join(out.split())


def test_sandboxed_run_predicts(capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(EXPORT, "export")
    write_plan(build_cluster("a"))
    code = run_command_line(
        ["predict", "-terraform-plan=plan.json", "-inventory=export", "-samples=0", "-confine=."]
    )
    assert code == 0, capsys.readouterr().err
    assert "3 to place" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"PK\x03\x04", "this is a saved plan, not its JSON form"),
        (b'{"format_version": "1.0", "values": {}}', "this is a state"),
        (b"[1, 2]", "this is not a plan"),
        (b'{"planned_values": {}}', 'its "format_version" must be 0.x or 1.x and is missing'),
        (b'{"format_version": "2.0", "planned_values": {}}', 'must be 0.x or 1.x and is "2.0"'),
        (b'{"planned_values": ', "terraform show -json"),
    ],
)
def test_file_of_another_kind_is_reported(
    content: bytes, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("plan.json").write_bytes(content)
    code, _, err = run_predict(capsys)
    assert code == 1
    assert words in err


def test_no_file_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    write_plan(build_cluster("a"))
    shutil.copytree(EXPORT, "export")
    before = sorted(Path().rglob("*"))
    assert (
        run_command_line(
            ["predict", "-terraform-plan=plan.json", "-inventory=export", "-samples=0"]
        )
        == 0
    )
    assert "3 to place" in capsys.readouterr().out
    assert sorted(Path().rglob("*")) == before


def test_guard_rails_and_exit_codes_match_plan(capsys: pytest.CaptureFixture[str]) -> None:
    write_plan(build_cluster("a"))
    assert run_predict(capsys, "-detailed-exitcode")[0] == 2
    code, _, err = run_predict(capsys, "-fail-on=capacity:1000")
    assert code == 1
    assert "-fail-on=capacity:1000" in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "-terraform-plan=FILE or -arm-what-if=FILE"),
        (
            ["-terraform-plan=a", "-arm-what-if=b"],
            "Only one is allowed: -terraform-plan=FILE or -arm-what-if=FILE",
        ),
        (["-terraform-plan=a"], "-inventory=DIR"),
        (["-terraform-plan=a", "-inventory=b"], 'There is no file "a"'),
    ],
)
def test_usage_errors(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["predict", *arguments]) == 1
    assert words in " ".join(capsys.readouterr().err.replace("│", " ").split())


def test_failed_prediction_replaces_older_reports(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("r.md", "r.json"):
        Path(name).write_text("older")
    Path("t.json").write_text("{}")
    flags = [
        "-terraform-plan=t.json",
        f"-inventory={EXPORT}",
        "-report=markdown:r.md",
        "-report=json:r.json",
    ]
    assert run_command_line(["predict", *flags]) == 1
    assert "**Plan failed**: 1 error. No changes were made." in Path("r.md").read_text()
    assert json.loads(Path("r.json").read_text())["errored"] is True
    capsys.readouterr()


@pytest.mark.parametrize(
    ("tool_type", "resource_type"),
    [
        ("azapi_resource_action", "bareMetalMachines"),
        ("azapi_resource_action", "virtualMachines"),
        ("azapi_resource", "bareMetalMachines"),
        ("azapi_resource", "clusters"),
    ],
)
def test_types_not_read_are_named(
    tool_type: str, resource_type: str, capsys: pytest.CaptureFixture[str]
) -> None:
    change = build_change(
        "vm",
        f"{tool_type}.x",
        ["create"],
        name="x",
        type=f"Microsoft.NetworkCloud/{resource_type}@2025",
    )
    write_plan(change)
    code, out, err = run_predict(capsys)
    assert (code, f"Microsoft.NetworkCloud/{resource_type} is not read" in err) == (1, True), (
        out + err
    )
    write_plan(change, build_cluster("a"))
    assert run_predict(capsys)[0] == 0
    assert run_predict(capsys, "-fail-on=removed:0")[0] == 1
    kept = {**change["change"], "before": change["change"]["after"], "actions": ["no-op"]}
    write_plan({**change, "change": kept})
    assert run_predict(capsys, "-fail-on=removed:0")[0] == 0


@pytest.mark.parametrize(
    ("tool_type", "values", "name"),
    [
        (
            "azapi_resource",
            {"type": "Microsoft.NetworkCloud/newVms@2030-01-01"},
            "Microsoft.NetworkCloud/newVms",
        ),
        ("azapi_resource", {"type": "Microsoft.NetworkCloud/l3Networks@2030-01-01"}, ""),
        (
            "azapi_new_resource",
            {"type": "Microsoft.NetworkCloud/virtualMachines@2025-02-01"},
            "Microsoft.NetworkCloud/virtualMachines",
        ),
        (
            "azurerm_resource_group_template_deployment",
            {"template_content": '{"type": "Microsoft.NetworkCloud/virtualMachines"}'},
            "Microsoft.NetworkCloud",
        ),
        (
            "azurerm_resource_group_template_deployment",
            {"template_content": '{"type": "Microsoft.Storage/storageAccounts"}'},
            "",
        ),
    ],
)
def test_only_types_without_effects_are_ignored(
    tool_type: str, values: dict[str, Any], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A type that no version of nexusform knows may place VMs."""
    row = {"address": f"{tool_type}.x", "mode": "managed", "type": tool_type, "name": "x"}
    change = {"actions": ["create"], "before": None, "after": values, "after_unknown": {}}
    write_plan({**row, "change": change}, build_cluster("a"))
    code, out, err = run_predict(capsys, "-fail-on=removed:0")
    assert code == bool(name), out + err
    assert bool(name) == ("1 resource not predicted" in " ".join(out.split())), out
    if name:
        assert "-fail-on" in err
        details = run_predict(capsys, "-details")[1].replace("│", " ")
        assert f"{tool_type} of {name} is not read" in " ".join(details.split())


def test_capacity_is_unknown_beside_a_change_without_a_prediction(
    capsys: pytest.CaptureFixture[str],
) -> None:
    change = build_change("vm", "azapi_resource.x", ["create"], name="x")
    change["change"]["after"]["type"] = "Microsoft.NetworkCloud/newVms@2030-01-01"
    write_plan(change, build_cluster("a"))
    decision = json.loads(run_predict(capsys, "-report=json:-", "-samples=20")[1])["decision"]
    assert {row["after"] for row in decision["capacity"]} == {None}
    assert {row["result"] for row in decision["upgrades"]} == {"unknown"}
    assert decision["confidence"]["exact_rack_counts"] == 0


@pytest.mark.parametrize("part", ["resource_changes", "row", "nested row"])
def test_resource_without_a_change_is_part_of_a_plan(
    part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_plan(build_cluster("a"), build_cluster("b"))
    document = json.loads(Path("plan.json").read_text())
    resources = [
        {key: change[key] for key in ("address", "mode", "type", "name")}
        for change in document["resource_changes"]
    ]
    root: dict[str, Any] = {"resources": resources}
    if part == "nested row":
        resources[1]["address"] = "module.m.azapi_resource.b"
        root = {"resources": resources[:1], "child_modules": [{"resources": resources[1:]}]}
    document["planned_values"] = {"root_module": root}
    Path("plan.json").write_text(json.dumps(document))
    assert run_predict(capsys)[0] == (part == "nested row")
    document["resource_changes"].pop()
    if part == "resource_changes":
        del document["resource_changes"]
    Path("plan.json").write_text(json.dumps(document))
    code, out, err = run_predict(capsys)
    address = resources[1]["address"]
    text = f'{address}: it has "planned_values" but no change: this is only a part of a plan'
    assert (code, text in err) == (1, True), out + err


def test_two_changes_of_a_resource_are_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    write_plan(build_cluster("a"), build_cluster("a"))
    code, out, err = run_predict(capsys)
    assert (code, "the plan has two changes of it" in err) == (1, True), out + err


@pytest.mark.parametrize(("actions", "is_error"), [(["create"], True), (["delete"], False)])
def test_change_without_a_list_of_unknown_values(
    actions: list[str], *, is_error: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "new" if is_error else "jump"
    change = build_change("vm", "azapi_resource.x", actions, VM_BODY, name=name, parent_id=TENANT)
    del change["change"]["after_unknown"]
    write_plan(change)
    err = run_predict(capsys)[2]
    assert is_error == ('its "change.after_unknown" must be an object and is missing' in err), err


def test_plan_without_nexus_resources_is_empty(capsys: pytest.CaptureFixture[str]) -> None:
    write_plan()
    code, out, _ = run_predict(capsys)
    assert code == 0
    assert "Nothing to predict. The plan contains no Azure Operator Nexus resources." in " ".join(
        out.split()
    )
    assert "No changes" not in out
    assert run_predict(capsys, "-fail-on=empty:0")[0] == 1


def test_a_plan_is_read_from_stdin(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_plan(build_cluster("a"))
    content = Path("plan.json").read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert run_command_line(["predict", "-terraform-plan=-", f"-inventory={EXPORT}"]) == 0
    assert "3 to place" in capsys.readouterr().out
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
    assert run_command_line(["predict", "-terraform-plan=-", f"-inventory={EXPORT}"]) == 1
    assert "There is no plan on stdin." in capsys.readouterr().err


def test_cluster_that_azure_rejects_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    write_plan(build_cluster("a"))
    code, out, err = run_predict(capsys)
    assert code == 0
    assert "Azure will reject its creation" in " ".join((out + err).split())
    pool = {"name": "pool.1", "mode": "User", "count": 1, "vmSkuName": "NC_P22_112_v1"}
    write_plan(build_cluster("core-b", initialAgentPoolConfigurations=[pool]))
    text = " ".join("".join(run_predict(capsys)[1:]).split())
    assert "none of its pools has mode System" in text
    assert 'the name "pool.1" is invalid' in text
    write_plan(build_cluster("core-a"))
    assert "Azure will reject" not in "".join(run_predict(capsys)[1:])
