"""Tests of objects deleted and re-created by others under the same name: they are unmanaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.domains.hub.conftest import CommandRunner
from tests.domains.hub.hub_front import Front
from tests.domains.hub.test_fleet_provider import list_writes, write_configuration

ADDRESS = "fleet_cluster_resource_placement.web"
IMPORT = f"""
import {{
  to = {ADDRESS}
  id = "web"
}}
"""


def recreate_placement(hub: Front) -> dict[str, Any]:
    """Delete and re-create the placement web as another manager."""
    placement = hub.get("ClusterResourcePlacement", "web")
    assert placement is not None
    names = {
        "apiVersion": placement["apiVersion"],
        "kind": placement["kind"],
        "metadata": {"name": "web"},
    }
    hub.remove(placement)
    hub.act()
    again = hub.put({**names, "spec": json.loads(json.dumps(placement["spec"]))}, "kubectl-create")
    hub.act()
    return again


def test_object_recreated_by_others_is_not_overwritten(
    hub: Front, run_command: CommandRunner
) -> None:
    write_configuration()
    assert run_command("apply", "-auto-approve")[0] == 0
    again = recreate_placement(hub)
    write_configuration(number=3)
    code, said = run_command("plan")
    assert code == 1
    made_at = again["metadata"]["creationTimestamp"]
    assert (
        f"{ADDRESS}: the ClusterResourcePlacement web that nexusform made is gone; the one on the "
        f"hub was made at {made_at} by kubectl-create. It is not ours." in said
    )
    assert said.count("kubectl-create") == 1
    hub.log.clear()
    code, said = run_command("destroy", "-auto-approve", f"-target={ADDRESS}")
    assert (code, "object-recreated-by-others" in said) == (0, True), said
    assert list_writes(hub) == []


def test_object_recreated_by_others_is_imported_as_suggested(
    hub: Front, run_command: CommandRunner
) -> None:
    write_configuration()
    run_command("apply", "-auto-approve")
    again = recreate_placement(hub)
    said = run_command("plan")[1]
    assert f"`nexusform state rm {ADDRESS}`" in said
    assert f'import {{ to = {ADDRESS}, id = "web" }}' in said
    assert run_command("state", "rm", ADDRESS)[0] == 0
    with Path("main.nf.hcl").open("a") as file:
        file.write(IMPORT)
    code, said = run_command("apply", "-auto-approve")
    assert (code, "1 imported, 0 added, 0 changed" in said) == (0, True), said
    code, said = run_command("plan", "-detailed-exitcode")
    assert (code, "made-anew" in said) == (0, False), said
    (placement,) = hub.all("ClusterResourcePlacement")
    assert placement["metadata"]["uid"] == again["metadata"]["uid"]


def test_take_ownership_overwrites_recreated_placement(
    hub: Front, run_command: CommandRunner
) -> None:
    write_configuration()
    run_command("apply", "-auto-approve")
    again = recreate_placement(hub)
    write_configuration(number=3)
    code, said = run_command("apply", "-auto-approve", "-take-ownership")
    assert (code, "; it is imported" in said) == (0, True), said
    (placement,) = hub.all("ClusterResourcePlacement")
    assert placement["metadata"]["uid"] == again["metadata"]["uid"]
    assert placement["spec"]["policy"]["numberOfClusters"] == 3
    code, said = run_command("plan", "-detailed-exitcode")
    assert (code, "made-anew" in said) == (0, False), said


def test_saved_plan_does_not_overwrite_recreated_placement(
    hub: Front, run_command: CommandRunner
) -> None:
    write_configuration()
    run_command("apply", "-auto-approve")
    write_configuration(number=3)
    assert run_command("plan", "-out=x.nfplan")[0] == 0
    recreate_placement(hub)
    hub.log.clear()
    code, said = run_command("apply", "x.nfplan")
    assert (code, "was deleted and re-created by another manager since the plan" in said) == (
        1,
        True,
    ), said
    assert list_writes(hub) == []


def test_reconcile_reports_recreated_placement(hub: Front, run_command: CommandRunner) -> None:
    write_configuration()
    run_command("apply", "-auto-approve")
    recreate_placement(hub)
    code, said = run_command("reconcile", "-from=hub")
    assert code == 2, said


def recreate_settings(hub: Front, value: str) -> dict[str, Any]:
    """Delete and re-create the ConfigMap of the manifest as another manager."""
    settings = hub.get("ConfigMap", "settings", "web")
    assert settings is not None
    names = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings", "namespace": "web"},
    }
    hub.remove(settings)
    hub.act()
    return hub.put({**names, "data": {"a": value}}, "kubectl-create")


def test_recreated_manifest_object_is_not_overwritten_or_deleted(
    hub: Front, run_command: CommandRunner
) -> None:
    write_configuration()
    assert run_command("apply", "-auto-approve")[0] == 0
    assert run_command("plan", "-detailed-exitcode")[0] == 0
    again = recreate_settings(hub, "1")
    code, said = run_command("plan")
    words = "the ConfigMap web/settings that nexusform made is gone; the one on the hub was made at"
    assert (code, said.count(words)) == (1, 1), said
    assert "or overwrite it: nexusform apply -take-ownership." in said
    hub.log.clear()
    code, said = run_command("destroy", "-auto-approve")
    assert (
        code,
        "fleet_hub_manifest.web: ConfigMap web/settings was re-created on the hub" in said,
    ) == (0, True)
    assert [path for _, path in list_writes(hub) if "configmaps" in path] == []
    settings = hub.get("ConfigMap", "settings", "web")
    assert settings is None or settings["metadata"]["uid"] == again["metadata"]["uid"]


def test_take_ownership_overwrites_recreated_manifest_object(
    hub: Front, run_command: CommandRunner
) -> None:
    write_configuration()
    run_command("apply", "-auto-approve")
    again = recreate_settings(hub, "2")
    code, said = run_command("apply", "-auto-approve", "-take-ownership")
    assert (code, "; it is imported" in said) == (0, True), said
    settings = hub.get("ConfigMap", "settings", "web")
    assert settings is not None
    assert (settings["data"], settings["metadata"]["uid"]) == ({"a": "1"}, again["metadata"]["uid"])
    code, said = run_command("plan", "-detailed-exitcode")
    assert (code, "made-anew" in said) == (0, False), said


def test_saved_plan_does_not_delete_recreated_object(
    hub: Front, run_command: CommandRunner
) -> None:
    write_configuration()
    run_command("apply", "-auto-approve")
    text = Path("main.nf.hcl").read_text()
    part = text[text.index("    ---\n") : text.index("  Y\n")]
    Path("main.nf.hcl").write_text(text.replace(part, ""))
    assert run_command("plan", "-out=x.nfplan")[0] == 0
    again = recreate_settings(hub, "1")
    code, said = run_command("apply", "x.nfplan")
    words = "ConfigMap web/settings was re-created by another manager since the plan, and is kept"
    assert (code, words in said) == (0, True), said
    settings = hub.get("ConfigMap", "settings", "web")
    assert settings is not None
    assert settings["metadata"]["uid"] == again["metadata"]["uid"]


def test_read_only_provider_accepts_recreated_objects(
    hub: Front, run_command: CommandRunner
) -> None:
    write_configuration()
    run_command("apply", "-auto-approve")
    text = Path("main.nf.hcl").read_text()
    settings = '{\n  timeout = "30m"\n  read_only = true\n}'
    Path("main.nf.hcl").write_text(text.replace('{ timeout = "30m" }', settings))
    recreate_settings(hub, "1")
    code, said = run_command("plan", "-detailed-exitcode")
    assert (code, "made-anew" in said) == (0, False), said
