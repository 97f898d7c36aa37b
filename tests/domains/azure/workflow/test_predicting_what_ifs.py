"""Tests of `predict -arm-what-if` and `-deployment-stack`.

They must give the same answers as for a Terraform plan.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line
from tests.domains.azure.workflow.test_prediction import CORE, EXPORT, TENANT

NEW = f"{TENANT}/providers/Microsoft.NetworkCloud/kubernetesClusters/edge"
SMALL = {"count": 3, "vmSkuName": "NC_G6_28_v1"}
LARGE = {"count": 2, "vmSkuName": "NC_P22_112_v1", "mode": "User"}
PARTS = {"controlPlaneNodeConfiguration": SMALL, "kubernetesVersion": "1.29.4"}
STANDING = json.loads((EXPORT / "agent_pools.core-amf.json").read_text())[0]
POOL = str(STANDING["id"])


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def build_body(arm_id: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    kinds = arm_id.rpartition("/providers/")[2].split("/")
    kind = "/".join([kinds[0], *kinds[1::2]])
    return {
        "apiVersion": "2025-02-01",
        "id": arm_id,
        "name": kinds[-1],
        "type": kind,
        "location": "uksouth",
    } | {"properties": properties}


def build_change(arm_id: str, change: str, after: Any = None, **more: Any) -> dict[str, Any]:
    """Return a change in the format of `az deployment group what-if --no-pretty-print`."""
    return {
        "resourceId": arm_id,
        "changeType": change,
        "before": None,
        "after": after,
        "delta": None,
        "unsupportedReason": None,
        **more,
    }


def write_what_if(*changes: Mapping[str, Any], **more: Any) -> list[str]:
    document = {
        "status": "Succeeded",
        "error": None,
        "changes": changes,
        "potentialChanges": None,
        **more,
    }
    Path("what-if.json").write_text(json.dumps(document))
    return ["-arm-what-if=what-if.json"]


def write_deployment_stack(*changes: Mapping[str, Any]) -> list[str]:
    """Write the same changes as the what-if result of a deployment stack."""
    listed = [
        {
            "id": change["resourceId"],
            "changeType": change["changeType"][0].lower() + change["changeType"][1:],
            "changeCertainty": "definite",
            "resourceConfigurationChanges": {
                "before": change["before"],
                "after": change["after"],
                "delta": [],
            },
        }
        for change in changes
    ]
    properties = {"provisioningState": "succeeded", "changes": {"resourceChanges": listed}}
    Path("stack.json").write_text(json.dumps({"name": "whatif", "properties": properties}))
    return ["-deployment-stack=stack.json"]


def run_predict(
    capsys: pytest.CaptureFixture[str], asked: list[str]
) -> tuple[int, dict[str, Any], str]:
    code = run_command_line(
        ["predict", *asked, f"-inventory={EXPORT}", "-samples=0", "-report=json:report.json"]
    )
    told = capsys.readouterr()
    report = Path("report.json")
    out = json.loads(report.read_text()) if code != 1 and report.exists() else {}
    return code, out, " ".join((told.out + told.err).replace("│", " ").split())


COMING = (
    build_change(
        f"{NEW}/agentPools/workers", "Create", build_body(f"{NEW}/agentPools/workers", LARGE)
    ),
    build_change(NEW, "Create", build_body(NEW, PARTS)),
    build_change(
        f"{TENANT}/providers/Microsoft.Network/virtualNetworks/x", "Create", {"name": "x"}
    ),
    build_change(CORE, "Ignore", None),
)


@pytest.mark.parametrize("form", [write_what_if, write_deployment_stack])
def test_new_deployment_is_placed_as_by_a_terraform_plan(
    capsys: pytest.CaptureFixture[str], form: Any
) -> None:
    code, report, err = run_predict(capsys, form(*COMING))
    assert code == 0, err
    rows = {row["object"]: row["action"] for row in report["placement_changes"]}
    assert sorted(rows) == sorted(
        [f"edge-control-plane-{n}" for n in range(3)] + [f"edge-workers-{n}" for n in range(2)]
    )
    assert set(rows.values()) == {"place"}
    assert "has no order for" not in json.dumps(report) + err


@pytest.mark.parametrize("form", [write_what_if, write_deployment_stack])
def test_growing_and_deleted_pools(capsys: pytest.CaptureFixture[str], form: Any) -> None:
    properties = dict(STANDING.get("properties") or STANDING)
    more = {**properties, "count": properties["count"] + 2}
    _, report, err = run_predict(capsys, form(build_change(POOL, "Modify", build_body(POOL, more))))
    assert [row["action"] for row in report["placement_changes"]] == ["place", "place"], err
    _, report, err = run_predict(capsys, form(build_change(POOL, "Delete")))
    assert {row["action"] for row in report["placement_changes"]} == {"remove"}, err
    _, report, err = run_predict(
        capsys, form(build_change(POOL, "NoChange", build_body(POOL, properties)))
    )
    assert report["placement_changes"] == [], err


@pytest.mark.parametrize("form", [write_what_if, write_deployment_stack])
@pytest.mark.parametrize("change_type", ["Modify", "Delete"])
def test_pool_changed_since_the_what_if_is_reported(
    capsys: pytest.CaptureFixture[str], change_type: str, form: Any
) -> None:
    properties = dict(STANDING.get("properties") or STANDING)
    listed = properties["count"]
    after = build_body(POOL, {**properties, "count": listed + 2})
    for previous in (listed, listed + 1):
        before = build_body(POOL, {**properties, "count": previous})
        change = build_change(POOL, change_type, None if change_type == "Delete" else after)
        _, report, err = run_predict(capsys, form({**change, "before": before}))
        warning = f" was {previous} when this plan was made, but is {listed} in the inventory"
        assert (warning in json.dumps(report)) == (previous != listed), err


@pytest.mark.parametrize(
    ("changes", "more", "said"),
    [
        ((build_change(NEW, "Deploy"),), {}, "--result-format FullResourcePayloads"),
        (
            (build_change(NEW, "Unsupported", unsupportedReason="no what-if here"),),
            {},
            "no what-if here",
        ),
        ((build_change(NEW, "Create", 3),), {}, '"after" must be an object'),
        ((build_change(NEW, "Perhaps", {}),), {}, '"perhaps" is unknown'),
        ((7,), {}, "expected an object"),
        (
            (
                build_change(
                    NEW,
                    "Create",
                    build_body(
                        NEW, {**PARTS, "controlPlaneNodeConfiguration": "[reference('x').c]"}
                    ),
                ),
            ),
            {},
            "reference('x').c",
        ),
        (
            (),
            {"error": {"code": "InvalidTemplate", "message": "line 3"}},
            "InvalidTemplate: line 3",
        ),
        ((COMING[1],), {"status": "Failed"}, 'the status of this what-if is "Failed"'),
        ((), {"status": "Running"}, 'the status of this what-if is "Running"'),
        ((COMING[1],), {"status": None}, "the status of this what-if is missing (status)"),
        ((COMING[1],), {"status": ""}, "the status of this what-if is missing (status)"),
        ((), {"status": None, "properties": {"status": "Canceled"}}, 'is "Canceled"'),
        ((), {"changes": None}, 'it has no list "changes"'),
    ],
)
def test_unpredictable_changes_are_rejected(
    capsys: pytest.CaptureFixture[str], changes: Any, more: Mapping[str, Any], said: str
) -> None:
    code, report, err = run_predict(capsys, write_what_if(*changes, **more))
    assert code == 1
    assert said in err
    assert "what-if.json" in err
    assert not report.get("placement_changes")


def test_potential_changes_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    nested = {"code": "NestedDeploymentShortCircuited", "message": "not expanded", "target": NEW}
    code, _, err = run_predict(
        capsys, write_what_if(potentialChanges=[COMING[1]], diagnostics=[nested])
    )
    assert code == 1
    assert "does not know whether edge will change" in err
    assert "NestedDeploymentShortCircuited" in err


DEPLOYMENT = f"{TENANT}/providers/Microsoft.Resources/deployments/nested"
MACHINE = f"{TENANT}/providers/Microsoft.NetworkCloud/bareMetalMachines/rack1"


@pytest.mark.parametrize(
    "more",
    [
        {"potentialChanges": [build_change(NEW.replace("/edge", "/other"), "Create", {})]},
        {
            "diagnostics": [
                {"code": "NestedDeploymentShortCircuited", "message": "not expanded", "target": NEW}
            ]
        },
        {"changes": [*COMING, build_change(DEPLOYMENT, "Create", {"name": "nested"})]},
        {"changes": [*COMING, build_change(MACHINE, "Modify", {"name": "rack1"})]},
    ],
)
def test_resources_without_prediction_exceed_every_guard_rail(
    capsys: pytest.CaptureFixture[str], more: Mapping[str, Any]
) -> None:
    changes = write_what_if(*COMING, **more)
    answer = run_predict(capsys, changes)
    assert (answer[0], len(answer[1]["placement_changes"])) == (0, 5), answer[2]
    assert "resource-not-predicted" in list_diagnostic_ids(answer)
    assert run_predict(capsys, [*changes, "-fail-on=moved:0"])[0] == 1


@pytest.mark.parametrize("form", [write_what_if, write_deployment_stack])
def test_managed_namespaces_are_read_from_a_hub(
    capsys: pytest.CaptureFixture[str], form: Any
) -> None:
    namespaces = f"{TENANT}/providers/Microsoft.ContainerService/fleets/f/managedNamespaces"
    team = build_change(f"{namespaces}/team", "Create", {"name": "team"})
    for changes in ([team], [team, build_change(NEW, "Create", build_body(NEW, PARTS))]):
        answer = run_predict(capsys, [*form(*changes), "-fail-on=moved:0"])
        assert answer[0] == 0, answer[2]
        [note] = [item for item in answer[1]["diagnostics"] if item["id"] == "fleet-not-predicted"]
        assert (
            "managed namespace team is not predicted: placements of a fleet are" in note["detail"]
        )
    unchanged = form(build_change(f"{namespaces}/team", "NoChange", {"name": "team"}))
    assert "fleet-not-predicted" not in list_diagnostic_ids(run_predict(capsys, unchanged))


def test_unchanged_deployments_and_machines_are_no_findings(
    capsys: pytest.CaptureFixture[str],
) -> None:
    changes = [build_change(MACHINE, "NoChange", {}), build_change(DEPLOYMENT, "Ignore", {})]
    assert "resource-not-predicted" not in list_diagnostic_ids(
        run_predict(capsys, write_what_if(*changes))
    )


def test_stack_without_its_what_if_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    document = {
        "actionOnUnmanage": {"resources": "delete"},
        "resources": [{"id": CORE, "status": "managed"}],
    }
    Path("stack.json").write_text(json.dumps({"properties": document}))
    code, _, err = run_predict(capsys, ["-deployment-stack=stack.json"])
    assert code == 1
    assert "without bodies" in err


def test_cluster_precedes_its_pool_without_references(capsys: pytest.CaptureFixture[str]) -> None:
    pools = [f"{NEW}/agentPools/{name}" for name in ("x", "y")]
    made = [
        build_change(NEW, "Create", build_body(NEW, PARTS)),
        *(build_change(each, "Create", build_body(each, LARGE)) for each in pools),
    ]
    assert "ambiguous-creation-order" not in list_diagnostic_ids(
        run_predict(capsys, write_what_if(*made[:2]))
    )
    answer = run_predict(capsys, write_what_if(*made))
    assert "ambiguous-creation-order" in list_diagnostic_ids(answer)
    assert "has no order for 3 objects to create" in json.dumps(answer[1]) + answer[2]


def list_diagnostic_ids(answer: tuple[int, dict[str, Any], str]) -> set[str]:
    """Return the ids of the diagnostics in a report."""
    return {each["id"] for each in answer[1]["diagnostics"]}


@pytest.mark.parametrize("form", [write_what_if, write_deployment_stack])
def test_unsupported_resource_does_not_stop_the_prediction(
    capsys: pytest.CaptureFixture[str], form: Any
) -> None:
    unsupported = build_change(
        NEW.replace("/edge", "/other"), "Unsupported", unsupportedReason="no what-if here"
    )
    changes = form(build_change(NEW, "Create", build_body(NEW, PARTS)), unsupported)
    code, report, err = run_predict(capsys, changes)
    assert (code, {row["action"] for row in report["placement_changes"]}) == (0, {"place"}), err
    (finding,) = [
        found for found in report["diagnostics"] if found["id"] == "resource-not-predicted"
    ]
    assert "Azure could not predict other" in finding["detail"]
    assert run_predict(capsys, [*changes, "-fail-on=moved:0"])[0] == 1


EXPRESSION = (
    "[resourceId('Microsoft.NetworkCloud/kubernetesClusters', reference('n').outputs.name.value)]"
)


@pytest.mark.parametrize("form", [write_what_if, write_deployment_stack])
@pytest.mark.parametrize(
    "arm_id", [EXPRESSION, "[reference(resourceId('Microsoft.Resources/deployments', 'n')).id]"]
)
def test_id_with_an_expression_is_not_predicted(
    capsys: pytest.CaptureFixture[str], form: Any, arm_id: str
) -> None:
    unsupported = build_change(arm_id, "Unsupported", unsupportedReason="no id.")
    code, _, err = run_predict(capsys, form(unsupported))
    assert (code, "Resource not predicted" in err) == (1, True), err
    changes = form(build_change(NEW, "Create", build_body(NEW, PARTS)), unsupported)
    assert "resource-not-predicted" in list_diagnostic_ids(run_predict(capsys, changes))
    assert run_predict(capsys, [*changes, "-fail-on=moved:0"])[0] == 1


def test_ids_of_other_types_may_have_expressions(capsys: pytest.CaptureFixture[str]) -> None:
    role = f"{TENANT}/providers/Microsoft.Authorization/roleAssignments/[guid('a/b')]"
    ids = (
        role,
        "[resourceId('Microsoft.Network/virtualNetworks', reference('n').outputs.x)]",
        TENANT,
    )
    changes = [
        *(build_change(each, "Unsupported") for each in ids),
        build_change("", "Create", extension={"name": "k"}),
    ]
    code, report, err = run_predict(capsys, write_what_if(*changes))
    assert code == 0, err
    assert "resource-not-predicted" not in list_diagnostic_ids((code, report, err))


@pytest.mark.parametrize("form", [write_what_if, write_deployment_stack])
@pytest.mark.parametrize(
    "arm_id", [f"{NEW}/", NEW.replace("/providers/", "/Providers/"), NEW.upper()]
)
def test_id_may_be_of_any_case(capsys: pytest.CaptureFixture[str], form: Any, arm_id: str) -> None:
    _, report, err = run_predict(
        capsys, form(build_change(arm_id, "Create", build_body(NEW, PARTS)))
    )
    assert len(report["placement_changes"]) == 3, err


@pytest.mark.parametrize("form", [write_what_if, write_deployment_stack])
@pytest.mark.parametrize("arm_id", ["", None, "edge", NEW.rpartition("/")[0]])
def test_unusable_id_is_an_error(
    capsys: pytest.CaptureFixture[str], form: Any, arm_id: Any
) -> None:
    code, _, err = run_predict(
        capsys, form({**build_change(NEW, "Create", build_body(NEW, PARTS)), "resourceId": arm_id})
    )
    assert (code, "its id " in err) == (1, True), err


@pytest.mark.parametrize("form", [write_what_if, write_deployment_stack])
@pytest.mark.parametrize(("site", "code"), [("", 1), ("lon1-cl", 1), ("par1", 0)])
def test_unchanged_cluster_outside_the_inventory(
    capsys: pytest.CaptureFixture[str], form: Any, site: str, code: int
) -> None:
    machines = json.loads((EXPORT / "bare_metal_machines.json").read_text())
    location = machines[0]["extendedLocation"]["name"].replace("lon1-cl", site)
    body = build_body(NEW, PARTS) | ({"extendedLocation": {"name": location}} if site else {})
    for change in (
        build_change(NEW, "NoChange", body),
        build_change(NEW, "Ignore", None, before=body),
    ):
        report = run_predict(capsys, form(change))
        assert ("resource-not-predicted" in list_diagnostic_ids(report), report[0]) == (
            code == 1,
            0,
        ), report[2]
        assert run_predict(capsys, [*form(change), "-fail-on=capacity:1"])[0] == code
