"""`predict -arm-what-if` and `-deployment-stack`: the same answers as for a Terraform plan."""

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


def body(arm_id: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    kinds = arm_id.rpartition("/providers/")[2].split("/")
    kind = "/".join([kinds[0], *kinds[1::2]])
    return {"apiVersion": "2025-02-01", "id": arm_id, "name": kinds[-1], "type": kind, "location": "uksouth"} | {
        "properties": properties
    }


def one(arm_id: str, change: str, after: Any = None, **more: Any) -> dict[str, Any]:
    """A change as `az deployment group what-if --no-pretty-print` writes it."""
    return {
        "resourceId": arm_id,
        "changeType": change,
        "before": None,
        "after": after,
        "delta": None,
        "unsupportedReason": None,
        **more,
    }


def what_if(*changes: Mapping[str, Any], **more: Any) -> list[str]:
    document = {"status": "Succeeded", "error": None, "changes": changes, "potentialChanges": None, **more}
    Path("what-if.json").write_text(json.dumps(document))
    return ["-arm-what-if=what-if.json"]


def stack(*changes: Mapping[str, Any]) -> list[str]:
    """The same as a deployment stack's what-if has it."""
    listed = [
        {
            "id": change["resourceId"],
            "changeType": change["changeType"][0].lower() + change["changeType"][1:],
            "changeCertainty": "definite",
            "resourceConfigurationChanges": {"before": change["before"], "after": change["after"], "delta": []},
        }
        for change in changes
    ]
    properties = {"provisioningState": "succeeded", "changes": {"resourceChanges": listed}}
    Path("stack.json").write_text(json.dumps({"name": "whatif", "properties": properties}))
    return ["-deployment-stack=stack.json"]


def predict(capsys: pytest.CaptureFixture[str], asked: list[str]) -> tuple[int, dict[str, Any], str]:
    code = run_command_line(["predict", *asked, f"-inventory={EXPORT}", "-samples=0", "-report=json:report.json"])
    told = capsys.readouterr()
    report = Path("report.json")
    out = json.loads(report.read_text()) if code != 1 and report.exists() else {}
    return code, out, " ".join((told.out + told.err).replace("│", " ").split())


COMING = (
    one(f"{NEW}/agentPools/workers", "Create", body(f"{NEW}/agentPools/workers", LARGE)),
    one(NEW, "Create", body(NEW, PARTS)),
    one(f"{TENANT}/providers/Microsoft.Network/virtualNetworks/x", "Create", {"name": "x"}),
    one(CORE, "Ignore", None),
)


@pytest.mark.parametrize("form", [what_if, stack])
def test_what_a_deployment_makes_lands_as_a_terraform_plan_says(capsys: pytest.CaptureFixture[str], form: Any) -> None:
    code, report, err = predict(capsys, form(*COMING))
    assert code == 0, err
    rows = {row["object"]: row["action"] for row in report["placement_changes"]}
    assert sorted(rows) == sorted(
        [f"edge-control-plane-{n}" for n in range(3)] + [f"edge-workers-{n}" for n in range(2)]
    )
    assert set(rows.values()) == {"place"}
    assert "has no order for" not in json.dumps(report) + err


@pytest.mark.parametrize("form", [what_if, stack])
def test_a_pool_that_grows_and_one_that_goes(capsys: pytest.CaptureFixture[str], form: Any) -> None:
    properties = dict(STANDING.get("properties") or STANDING)
    more = {**properties, "count": properties["count"] + 2}
    _, report, err = predict(capsys, form(one(POOL, "Modify", body(POOL, more))))
    assert [row["action"] for row in report["placement_changes"]] == ["place", "place"], err
    _, report, err = predict(capsys, form(one(POOL, "Delete")))
    assert {row["action"] for row in report["placement_changes"]} == {"remove"}, err
    _, report, err = predict(capsys, form(one(POOL, "NoChange", body(POOL, properties))))
    assert report["placement_changes"] == [], err


@pytest.mark.parametrize(
    ("changes", "more", "said"),
    [
        ((one(NEW, "Deploy"),), {}, "--result-format FullResourcePayloads"),
        ((one(NEW, "Unsupported", unsupportedReason="no what-if here"),), {}, "no what-if here"),
        ((one(NEW, "Create", 3),), {}, '"after" must be an object'),
        ((one(NEW, "Perhaps", {}),), {}, '"perhaps" is unknown'),
        ((7,), {}, "an object is needed here"),
        (
            (one(NEW, "Create", body(NEW, {**PARTS, "controlPlaneNodeConfiguration": "[reference('x').c]"})),),
            {},
            "reference('x').c",
        ),
        ((), {"error": {"code": "InvalidTemplate", "message": "line 3"}}, "InvalidTemplate: line 3"),
        ((), {"changes": None}, 'it has no list "changes"'),
    ],
)
def test_what_cannot_be_foretold_is_refused(
    capsys: pytest.CaptureFixture[str], changes: Any, more: Mapping[str, Any], said: str
) -> None:
    code, report, err = predict(capsys, what_if(*changes, **more))
    assert code == 1
    assert said in err
    assert "what-if.json" in err
    assert not report.get("placement_changes")


def test_what_may_change_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    nested = {"code": "NestedDeploymentShortCircuited", "message": "not expanded", "target": NEW}
    _, report, err = predict(capsys, what_if(potentialChanges=[COMING[1]], diagnostics=[nested]))
    text = json.dumps(report) + err
    assert "does not know whether edge will change" in text
    assert "NestedDeploymentShortCircuited" in text


def test_a_stack_without_its_what_if_tells_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    document = {"actionOnUnmanage": {"resources": "delete"}, "resources": [{"id": CORE, "status": "managed"}]}
    Path("stack.json").write_text(json.dumps({"properties": document}))
    code, _, err = predict(capsys, ["-deployment-stack=stack.json"])
    assert code == 1
    assert "without bodies" in err


def test_a_cluster_comes_before_its_pool_anyway(capsys: pytest.CaptureFixture[str]) -> None:
    pools = [f"{NEW}/agentPools/{name}" for name in ("x", "y")]
    made = [one(NEW, "Create", body(NEW, PARTS)), *(one(each, "Create", body(each, LARGE)) for each in pools)]
    assert "ambiguous-creation-order" not in ids_of(predict(capsys, what_if(*made[:2])))
    answer = predict(capsys, what_if(*made))
    assert "ambiguous-creation-order" in ids_of(answer)
    assert "has no order for 3 objects to create" in json.dumps(answer[1]) + answer[2]


def ids_of(answer: tuple[int, dict[str, Any], str]) -> set[str]:
    """The ids of what a report says."""
    return {each["id"] for each in answer[1]["diagnostics"]}


@pytest.mark.parametrize("form", [what_if, stack])
def test_an_unsupported_resource_does_not_stop_the_others(capsys: pytest.CaptureFixture[str], form: Any) -> None:
    unsupported = one(NEW.replace("/edge", "/other"), "Unsupported", unsupportedReason="no what-if here")
    changes = form(one(NEW, "Create", body(NEW, PARTS)), unsupported)
    code, report, err = predict(capsys, changes)
    assert (code, {row["action"] for row in report["placement_changes"]}) == (0, {"place"}), err
    (finding,) = [found for found in report["diagnostics"] if found["id"] == "resource-not-predicted"]
    assert "Azure could not predict other" in finding["detail"]
    assert predict(capsys, [*changes, "-fail-on=moved:0"])[0] == 1
