"""Tests of applies with provider azure, through the SDK, against a local Azure Resource Manager."""

from __future__ import annotations

import dataclasses
import json
import re
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

pytest.importorskip("azure.mgmt.networkcloud")
from tests.crowded_server import read_body
from tests.domains.azure.providers.arm_server import (
    GROUP,
    LOCATION,
    PROVIDER,
    ArmServer,
    Faults,
    build_machine_id,
)
from tests.domains.azure.providers.azure_sites import (
    CLUSTER,
    NEW,
    SCALED,
    CommandRunner,
    write_configuration,
)

NODE_ANEW = "nexus_kubernetes_cluster.c:"
VM = f"{GROUP}/{PROVIDER}/virtualMachines/v"
BUSY = Faults(polls=4, conflicts=2, throttles=2, stale=3)


def format_pool(name: str, more: str = "", count: int = 2, mode: str = "User") -> str:
    return (
        f'  agent_pool "{name}" {{\n    count = {count}\n    vm_sku_name = "NC_P22_112_v1"\n'
        f'    mode = "{mode}"\n{more}  }}\n'
    )


def format_cluster(*parts: str) -> str:
    return f'resource "nexus_kubernetes_cluster" "c" {{\n{"".join(parts)}}}\n'


@pytest.mark.parametrize(
    "faults",
    [
        Faults(),
        Faults(polls=0),
        BUSY,
        Faults(resets=1, stale=1),
        Faults(polls=3, forgets=True),
        Faults(polls=5, vanishes=2, stale=2),
        Faults(polls=3, errors=(503, 429)),
        Faults(polls=3, bare=True),
        Faults(polls=2, gap=1, stale=2),
    ],
    ids=["plain", "at once", "busy", "reset", "forgotten", "vanishes", "errors", "located", "gap"],
)
def test_scale_out_is_sent_once_and_read_back(
    nexusform: CommandRunner, server: ArmServer, faults: Faults
) -> None:
    write_configuration(SCALED)
    server.site.faults = faults
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    assert nexusform.changes() == [("PATCH", "agentPools/np1")]
    assert server.site.bodies == [{"properties": {"count": 4}}]
    assert "predictions wrong" in nexusform.said or "prediction wrong" in nexusform.said
    state = json.loads(Path("state/nexusform.nfstate").read_text())
    attributes = next(r for r in state["resources"] if r["type"] == "nexus_kubernetes_cluster")
    shown = attributes["instances"][0]["attributes"]["nodes"].values()
    assert sorted(n["platform_name"] for n in shown) == sorted(n["name"] for n in nexusform.nodes())
    assert {n["provenance"] for n in shown} == {"observed"}
    assert nexusform("plan", "-detailed-exitcode") == 0, nexusform.said


def test_rack_of_a_machine_added_since_the_plan_is_recorded(
    nexusform: CommandRunner, server: ArmServer
) -> None:
    properties = {**server.site.properties(build_machine_id("m1")), "rackSlot": 9}

    def place_on_new_machine(_pool: str, _number: int) -> str:
        server.site.put(
            build_machine_id("m9"), {"extendedLocation": LOCATION, "properties": properties}
        )
        return "m9"

    write_configuration(SCALED)
    server.site.place = place_on_new_machine
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    state = json.loads(Path("state/nexusform.nfstate").read_text())
    (cluster,) = [item for item in state["resources"] if item["type"] == "nexus_kubernetes_cluster"]
    nodes = cluster["instances"][0]["attributes"]["nodes"].values()
    assert [node["machine"] for node in nodes if node["rack"] == "r1"].count("m9") == 2


def test_progress_of_operations_is_reported(nexusform: CommandRunner, server: ArmServer) -> None:
    write_configuration(SCALED)
    server.site.faults = Faults(polls=3, conflicts=1)
    assert nexusform("apply", "-auto-approve") == 0
    assert "Conflict: Another operation is in progress. Trying again." in nexusform.said
    assert "nexus_kubernetes_cluster.c: status in Azure: InProgress" in nexusform.said


def test_failed_operation_is_reported_and_retried_by_next_apply(
    nexusform: CommandRunner, server: ArmServer
) -> None:
    write_configuration(SCALED)
    server.site.faults = Faults(fails=1)
    assert nexusform("apply", "-auto-approve") == 1
    assert (
        "Azure could not change c/np1 (Failed): InsufficientResources: no machine has room"
        in nexusform.said
    )
    assert nexusform("apply", "-resume") == 0, nexusform.said
    assert len(nexusform.nodes()) == 7
    assert nexusform("plan", "-detailed-exitcode") == 0


@pytest.mark.parametrize("faults", [Faults(fails=1), Faults(fails=1, forgets=True)])
@pytest.mark.parametrize("rollback", [False, True])
@pytest.mark.parametrize("outcome", ["Failed", "Canceled"])
def test_failure_message_of_azure_is_reported_at_once(
    faults: Faults, outcome: str, rollback: bool, nexusform: CommandRunner, server: ArmServer
) -> None:
    """The message is that of the operation or, if it is unknown, of the resource.

    A rollback is no change.
    """
    write_configuration(SCALED)
    server.site.faults = dataclasses.replace(faults, outcome=outcome, rollback=rollback)
    server.site.asked.clear()
    assert nexusform("apply", "-auto-approve") == 1
    assert f"Azure could not change c/np1 ({outcome})" in nexusform.said, nexusform.said
    words = (
        "no machine has room" if faults.forgets else "InsufficientResources: no machine has room"
    )
    assert f"({outcome}): {words}" in nexusform.said
    # No five minutes of polling for a late result.
    assert len(server.site.asked) < 100


def test_failed_new_cluster_is_replaced(nexusform: CommandRunner, server: ArmServer) -> None:
    write_configuration(NEW)
    server.site.faults = Faults(fails=1)
    assert (
        nexusform("apply", "-auto-approve", "-parallelism=1", "-target=nexus_kubernetes_cluster.d")
        == 1
    )
    assert "Azure could not make d (Failed)" in nexusform.said
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    made = [(method, path) for method, path in nexusform.changes() if path.endswith("Clusters/d")]
    assert [method for method, _ in made] == ["PUT", "DELETE", "PUT"]
    assert nexusform("plan", "-detailed-exitcode") == 0


def test_failed_create_is_sent_again_by_a_resumed_apply(
    nexusform: CommandRunner, server: ArmServer
) -> None:
    write_configuration(NEW)
    server.site.faults = Faults(fails=1)
    assert (
        nexusform("apply", "-auto-approve", "-parallelism=1", "-target=nexus_kubernetes_cluster.d")
        == 1
    )
    assert "Azure could not make d (Failed)" in nexusform.said
    assert nexusform("apply", "-resume") == 0, nexusform.said
    assert nexusform.changes() == [("PUT", "kubernetesClusters/d")] * 2
    assert nexusform("plan", "-detailed-exitcode", "-target=nexus_kubernetes_cluster.d") == 0, (
        nexusform.said
    )


@pytest.mark.parametrize("status", [401, 403])
def test_sent_changes_are_kept_if_azure_forbids_polling(
    status: int, nexusform: CommandRunner, server: ArmServer
) -> None:
    """The operation continues while polling it is forbidden."""
    write_configuration(NEW)
    server.site.faults = Faults(polls=2, errors=(status,) * 60)
    assert nexusform("apply", "-auto-approve", "-parallelism=1") == 1
    assert "Error: Apply waiting" in nexusform.said, nexusform.said
    server.site.faults = Faults()
    assert nexusform("apply", "-resume") == 0, nexusform.said
    assert len(server.site.taken) == len(set(server.site.taken))
    assert nexusform("plan", "-detailed-exitcode") == 0


def test_throttled_requests_are_retried(nexusform: CommandRunner, server: ArmServer) -> None:
    write_configuration(NEW)
    server.site.faults = Faults(polls=2, errors=(429,) * 60)
    assert nexusform("apply", "-auto-approve", "-parallelism=1") == 0, nexusform.said
    assert len(server.site.taken) == len(set(server.site.taken))
    assert nexusform("plan", "-detailed-exitcode") == 0


def test_permanent_conflict_is_an_error(nexusform: CommandRunner, server: ArmServer) -> None:
    write_configuration(SCALED)
    server.site.faults = Faults(conflicts=99, code="ScopeLocked")
    assert nexusform("apply", "-auto-approve") == 1
    assert "Azure rejects c" in nexusform.said
    assert server.site.faults.conflicts > 90


@pytest.mark.parametrize("vanishes", [0, 1])
def test_canceled_operation_fails_its_step(
    vanishes: int, nexusform: CommandRunner, server: ArmServer
) -> None:
    write_configuration(NEW)
    server.site.faults = Faults(polls=2, fails=1, outcome="Canceled", vanishes=vanishes)
    assert nexusform("apply", "-auto-approve", "-parallelism=1") == 1
    assert "(Canceled)" in nexusform.said, nexusform.said
    server.site.faults = Faults()
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    assert nexusform("plan", "-detailed-exitcode") == 0


def test_bodies_have_configured_properties_and_location(
    nexusform: CommandRunner, server: ArmServer
) -> None:
    write_configuration(NEW)
    assert nexusform("apply", "-auto-approve", "-parallelism=1") == 0, nexusform.said
    names = [path.rsplit("/", 1)[1] for _, path in server.site.taken]
    bodies = dict(zip(names, server.site.bodies, strict=True))
    # Proof of the creation without an answer.
    assert list(bodies["d"].pop("tags")) == ["nexusform-creation"]
    assert bodies["d"] == {
        "location": "eastus",
        "extendedLocation": LOCATION,
        "properties": {
            "networkConfiguration": {"cniNetworkId": "/n/cni", "cloudServicesNetworkId": "/n/csn"},
            "kubernetesVersion": "v1.29",
            "controlPlaneNodeConfiguration": {"count": 1, "vmSkuName": "NC_P10_56_v1"},
            "initialAgentPoolConfigurations": [
                {"name": "np1", "count": 2, "mode": "System", "vmSkuName": "NC_P22_112_v1"}
            ],
        },
    }
    assert bodies["more"]["extendedLocation"] == LOCATION
    assert bodies["v"]["properties"]["vmImage"] == "images/one"
    assert bodies["v"]["properties"]["storageProfile"]["osDisk"]["diskSizeGB"] == 64
    assert nexusform("destroy", "-auto-approve", "-target=nexus_kubernetes_cluster.d") == 0, (
        nexusform.said
    )
    assert ("DELETE", "kubernetesClusters/d") in nexusform.changes()


def test_existing_resource_of_same_name_is_never_imported(
    nexusform: CommandRunner, server: ArmServer
) -> None:
    write_configuration(NEW)
    assert nexusform("plan", "-out=p") == 0
    server.site.put(
        VM, {"properties": {"provisioningState": "Succeeded", "cpuCores": 2, "memorySizeGB": 4}}
    )
    assert nexusform("apply", "-parallelism=1", "p") == 1
    assert "v already exists in resource group tenants" in nexusform.said
    assert "PUT virtualMachines/v" not in [" ".join(change) for change in nexusform.changes()]


def test_pool_is_replaced_only_within_max_unavailable(nexusform: CommandRunner) -> None:
    label = '    labels = { a = "b" }\n'
    write_configuration(
        format_cluster(format_pool("np1", mode="System"), format_pool("web", label))
    )
    assert nexusform("plan") == 1
    assert "its 2 nodes would be down at once, but its max_unavailable allows 0" in nexusform.said
    whole = '    upgrade_settings {\n      max_unavailable = "100%"\n    }\n'
    write_configuration(
        format_cluster(format_pool("np1", mode="System"), format_pool("web", label + whole))
    )
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    assert nexusform.changes() == [("DELETE", "agentPools/web"), ("PUT", "agentPools/web")]
    assert nexusform("plan", "-detailed-exitcode") == 0


def test_pools_are_added_removed_and_scaled_in(nexusform: CommandRunner, server: ArmServer) -> None:
    write_configuration(
        format_cluster(format_pool("np1", mode="System", count=1), format_pool("other", count=1))
    )
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    assert nexusform.changes() == [
        ("DELETE", "agentPools/web"),
        ("PATCH", "agentPools/np1"),
        ("PUT", "agentPools/other"),
    ]
    assert server.site.resources[f"{CLUSTER}/agentpools/other"]["extendedLocation"] == LOCATION
    assert len(nexusform.nodes()) == 3
    assert nexusform("plan", "-detailed-exitcode") == 0


def test_tags_of_others_survive_a_change_of_tags(
    nexusform: CommandRunner, server: ArmServer
) -> None:
    cluster = server.site.resources[CLUSTER]
    cluster["tags"] = {"costCenter": "from a policy", "Owner": "someone"}
    for tags, expected in [
        (
            {"owner": "core", "env": "lab"},
            {"costCenter": "from a policy", "owner": "core", "env": "lab"},
        ),
        (
            {"owner": "core", "env": "lab", "cost": "7"},
            {"costCenter": "from a policy", "owner": "core", "env": "lab", "cost": "7"},
        ),
        ({"owner": "core"}, {"costCenter": "from a policy", "owner": "core"}),
        ({}, {"costCenter": "from a policy"}),
    ]:
        body = f"  azure {{\n    body = {{ tags = {json.dumps(tags)} }}\n  }}\n"
        write_configuration(format_cluster(body))
        assert nexusform("apply", "-auto-approve") == 0, nexusform.said
        assert server.site.resources[CLUSTER]["tags"] == expected
        assert nexusform("plan", "-detailed-exitcode") == 0, nexusform.said


def test_lost_change_of_tags_is_sent_again(nexusform: CommandRunner, server: ArmServer) -> None:
    for tags in ({"owner": "core", "env": "lab"}, {"owner": "core"}):
        server.site.faults = Faults(lost=1)
        write_configuration(
            format_cluster(f"  azure {{\n    body = {{ tags = {json.dumps(tags)} }}\n  }}\n")
        )
        assert nexusform("apply", "-auto-approve") == 0, nexusform.said
        assert server.site.resources[CLUSTER]["tags"] == tags


def test_node_is_re_created_manually(nexusform: CommandRunner, server: ArmServer) -> None:
    node = next(n["name"] for n in nexusform.nodes() if "web" in n["name"])
    assert nexusform("apply", "-auto-approve", f"-replace={NODE_ANEW}{node}") == 1
    kubectl = re.escape("kubectl --context=")
    assert re.search(rf"{kubectl}\S+ cordon {node} {kubectl}\S+ drain {node}", nexusform.said)
    assert re.search(rf"{kubectl}\S+ delete node {node}", nexusform.said)
    assert "Error: Apply waiting" in nexusform.said
    assert "Steps: 0 done, 0 failed, 1 waiting, 1 skipped." in nexusform.said
    # The node still exists.
    assert nexusform("apply", "-resume") == 1
    assert "Error: Apply waiting" in nexusform.said
    assert nexusform.changes() == []
    server.site.delete_node(node)
    assert nexusform("apply", "-resume") == 0, nexusform.said
    assert nexusform("plan", "-detailed-exitcode") == 0


class KubernetesApiHandler(BaseHTTPRequestHandler):
    """API server with the requests to cordon and delete a node."""

    arm: ArmServer
    asked: list[tuple[str, str]]

    def log_message(self, *_: Any) -> None: ...

    def do_PATCH(self) -> None:
        read_body(self)
        self.asked.append((self.command, self.path.partition("?")[0]))
        name = self.path.partition("?")[0].rsplit("/", 1)[1]
        if self.command == "DELETE":
            self.arm.site.delete_node(name)
        content = json.dumps(
            {"kind": "Node", "apiVersion": "v1", "metadata": {"name": name}}
        ).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_DELETE = do_PATCH  # noqa: N815 - names of http.server


def test_node_is_re_created_through_kubeconfig(
    nexusform: CommandRunner, server: ArmServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("lightkube")
    node = next(n["name"] for n in nexusform.nodes() if "web" in n["name"])
    monkeypatch.setenv("NF_KUBECONFIG_DIR", str(tmp_path / "kube"))
    assert nexusform("apply", "-auto-approve", f"-replace={NODE_ANEW}{node}") == 1
    assert "kube/c.yaml cannot be used" in nexusform.said
    api = HTTPServer(
        ("127.0.0.1", 0),
        type("Api", (KubernetesApiHandler,), {"arm": server, "asked": (asked := [])}),
    )
    Thread(target=api.serve_forever, args=(0.02,), daemon=True).start()
    (tmp_path / "kube").mkdir()
    address = f"http://127.0.0.1:{api.server_address[1]}"
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": address}}],
        "users": [{"name": "u", "user": {}}],
    }
    (tmp_path / "kube" / "c.yaml").write_text(json.dumps(config))
    assert nexusform("plan") == 0, nexusform.said
    assert "is not verified" not in nexusform.said
    config["clusters"] = [
        {"name": "c", "cluster": {"server": address, "insecure-skip-tls-verify": True}}
    ]
    (tmp_path / "kube" / "c.yaml").write_text(json.dumps(config))
    assert nexusform("plan", "-details") == 0, nexusform.said
    assert f"c.yaml: The certificate of {address} is not verified" in nexusform.said
    try:
        assert nexusform("apply", "-resume") == 0, nexusform.said
    finally:
        api.shutdown()
        api.server_close()
    assert asked == [("PATCH", f"/api/v1/nodes/{node}"), ("DELETE", f"/api/v1/nodes/{node}")]
    assert nexusform("plan", "-detailed-exitcode") == 0


def test_standalone_vm_is_moved_by_replacement(nexusform: CommandRunner, server: ArmServer) -> None:
    write_configuration(NEW)
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    server.site.taken.clear()
    server.site.place = lambda _pool, _number: "m6"
    assert nexusform("apply", "-auto-approve", "-replace=nexus_virtual_machine.v:v") == 0, (
        nexusform.said
    )
    assert nexusform.changes() == [("DELETE", "virtualMachines/v"), ("PUT", "virtualMachines/v")]
    assert server.site.properties(VM)["bareMetalMachineId"] == build_machine_id("m6")
    assert nexusform("plan", "-detailed-exitcode") == 0


def test_configuration_errors_are_reported_by_plan(nexusform: CommandRunner) -> None:
    write_configuration(
        NEW.replace('vmImage = "images/one", adminUsername = "admin"', "cpuCores = 6")
    )
    assert nexusform("plan") == 1
    assert "properties.cpuCores follows from the arguments of the block" in nexusform.said
    # Azure ignores the case of names.
    write_configuration(
        NEW.replace('vmImage = "images/one", adminUsername = "admin"', "CPUcores = 6")
    )
    assert nexusform("plan") == 1
    assert "properties.CPUcores follows from the arguments of the block" in nexusform.said
    bare = NEW.partition("  azure {")[0] + "}\n"
    write_configuration(bare)
    assert nexusform("plan") == 1
    assert "lab/d has no resource group" in nexusform.said
    write_configuration(bare[:-2] + '  azure {\n    resource_group = "tenants"\n  }\n}\n')
    assert nexusform("plan") == 1
    assert "d needs properties that nexusform does not know: networkConfiguration" in nexusform.said


@pytest.mark.usefixtures("server")
def test_resource_group_known_after_apply(nexusform: CommandRunner) -> None:
    """Apply creates the objects in it.

    A later plan compares it with the current group at apply only.
    """
    later = NEW.replace(
        'resource_group = "tenants"', 'resource_group = substr("tenants${timestamp()}", 0, 7)'
    )
    write_configuration(later)
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    assert ("PUT", "virtualMachines/v") in nexusform.changes()
    for group in ("tenants", ""):
        write_configuration(later.replace("mode        =", f"# {group}\n    mode        ="))
        assert nexusform("plan") == 0, nexusform.said
    write_configuration(later.replace('"tenants${', '"strange${'))
    assert nexusform("plan") == 0, nexusform.said


def test_object_in_deletion_counts_as_removed(nexusform: CommandRunner, server: ArmServer) -> None:
    """Azure may omit it from lists before it answers 404."""
    write_configuration(NEW)
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    unlisted = next(path for path in server.site.resources if path.endswith("/virtualmachines/v"))
    server.site.resources[unlisted]["properties"]["provisioningState"] = "Deleting"
    listed = server.site.of_type
    server.site.of_type = lambda kind, under: [
        body for body in listed(kind, under) if body["name"] != "v"
    ]  # type: ignore[method-assign]
    assert nexusform("plan") == 0, nexusform.said
    assert "Plan: 1 to add, 0 to change, 0 to destroy." in nexusform.said


def test_missing_role_assignment_is_no_deletion(
    nexusform: CommandRunner, server: ArmServer
) -> None:
    """Azure omits from its lists what the client may not read."""
    write_configuration(NEW)
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    server.site.hidden = "tenants"
    for command in (
        ("plan",),
        ("apply", "-auto-approve"),
        ("plan", "-destroy"),
        ("apply", "-refresh-only", "-auto-approve"),
    ):
        assert nexusform(*command) == 1, nexusform.said
        assert (
            "lab/c in resource group tenants, and does not allow to read it (status 403)"
            in nexusform.said
        )
        assert "lab/d in resource" in nexusform.said
        assert "lab/v in resource" in nexusform.said
    server.site.hidden = "-"
    assert nexusform("plan", "-detailed-exitcode") == 0, nexusform.said


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize(("group", "name"), [("tenants", "lab/c"), ("hosted", "lab/r1/m1")])
def test_imported_object_is_not_removed_because_its_role_assignment_is(
    nexusform: CommandRunner, server: ArmServer, group: str, name: str, read_only: bool
) -> None:
    """The import records resource groups; no refresh is needed before."""
    if read_only:
        main = Path("main.nf.hcl")
        main.write_text(main.read_text().replace("}\n", "  read_only = true\n}\n"))
    server.site.hidden = group
    state = Path("state/nexusform.nfstate").read_bytes()
    for command in (("plan",), ("plan", "-destroy"), ("reconcile", "-from=azure")):
        assert nexusform(*command) == 1, nexusform.said
        assert (
            f"{name} in resource group {group}, and does not allow to read it (status 403)"
            in nexusform.said
        )
    assert Path("state/nexusform.nfstate").read_bytes() == state
    server.site.hidden = "-"
    assert nexusform("plan", "-detailed-exitcode") == 0, nexusform.said


def test_manual_deletion_is_not_done_because_a_role_assignment_is_missing(
    nexusform: CommandRunner, server: ArmServer
) -> None:
    main = Path("main.nf.hcl")
    main.write_text(main.read_text().replace("}\n", "  read_only = true\n}\n"))
    assert nexusform("plan", "-destroy", "-target=nexus_kubernetes_cluster.c", "-out=p") == 0, (
        nexusform.said
    )
    server.site.hidden = "tenants"
    assert nexusform("apply", "p") == 1, nexusform.said
    assert "lab/c in resource group tenants, and does not allow to read it" in nexusform.said
    server.site.hidden = "-"
    assert nexusform("plan", "-detailed-exitcode") == 0, nexusform.said


@pytest.mark.usefixtures("server")
def test_object_outside_of_the_listed_resource_group_is_not_removed(
    nexusform: CommandRunner,
) -> None:
    write_configuration(NEW)
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    main = Path("main.nf.hcl")
    main.write_text(main.read_text().replace("}\n", '  resource_group = "others"\n}\n'))
    assert nexusform("plan") == 1, nexusform.said
    assert (
        "lab/v in resource group tenants, but it exists: the provider lists only resource group "
        "others"
    ) in nexusform.said


HINTED = """
  placement_hint {
    hint_type            = "AntiAffinity"
    resource_id          = TARGET.id
    scheduling_execution = "Hard"
    scope                = "Machine"
  }
"""


@pytest.mark.parametrize(
    ("target", "is_refused"),
    [
        ("nexus_kubernetes_cluster.c", True),
        ("nexus_kubernetes_cluster.d", True),
        ("nexus_rack.r1", False),
        ("nexus_virtual_machine.w", False),
    ],
)
def test_placement_hint_unsupported_by_azure_is_reported_by_plan(
    target: str, is_refused: bool, nexusform: CommandRunner
) -> None:
    other = NEW[NEW.index('resource "nexus_virtual_machine" "v"') :].replace('"v"', '"w"')
    hinted = NEW.replace(
        "  disk_gib   = 64\n", f"  disk_gib   = 64\n{HINTED.replace('TARGET', target)}"
    )
    write_configuration(hinted + other)
    assert nexusform("plan") == int(is_refused), nexusform.said
    assert ("Hints must refer to one of these" in nexusform.said) == is_refused, nexusform.said


MACHINE = """resource "nexus_bare_metal_machine" "m1" {
  STATES
}
"""


@pytest.mark.parametrize(
    ("states", "said"),
    [
        ("cordoned = true", "apply does not cordon it. It waits until Azure shows it cordoned."),
        ("evacuate = true", "to be emptied, but not cordoned: Azure may place VMs there again."),
        (
            "cordoned = true\n  evacuate = true",
            "az networkcloud baremetalmachine cordon --name m1 --resource-group hosted",
        ),
    ],
)
def test_manual_machine_changes_are_reported_by_plan(
    states: str, said: str, nexusform: CommandRunner
) -> None:
    Path("machines_override.nf.hcl").write_text(MACHINE.replace("STATES", states))
    assert nexusform("plan", "-details") == 0, nexusform.said
    assert f"1 machine (m1): {said}" in nexusform.said or said in nexusform.said, nexusform.said
    is_emptied = "evacuate" in states
    assert ("apply prints the kubectl commands" in nexusform.said) == is_emptied


def test_nodes_deleted_without_drain_are_reported_by_plan(
    nexusform: CommandRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = next(n["name"] for n in nexusform.nodes() if "web" in n["name"])
    monkeypatch.setenv("NF_KUBECONFIG_DIR", "kube")
    assert nexusform("plan", "-details", f"-replace={NODE_ANEW}{node}") == 0, nexusform.said
    assert f"to re-create 1 node ({node}), apply cordons and deletes them" in nexusform.said
    assert "without a drain" in nexusform.said


def test_sensitive_parts_of_body_are_sent_and_never_shown(
    nexusform: CommandRunner, server: ArmServer
) -> None:
    secret = 'variable "key" {\n  sensitive = true\n  default   = "s3cr3t"\n}\n'
    write_configuration(
        secret + NEW.replace('vmImage = "images/one"', 'vmImage = "images/one", userData = var.key')
    )
    assert nexusform("plan", "-details") == 0
    assert "s3cr3t" not in nexusform.text
    server.site.faults = Faults(conflicts=1)
    assert nexusform("apply", "-auto-approve", "-parallelism=1") == 0
    assert "s3cr3t" not in nexusform.text
    assert "s3cr3t" in json.dumps(server.site.bodies)


def test_read_only_provider_sends_nothing(nexusform: CommandRunner, server: ArmServer) -> None:
    write_configuration(SCALED)
    main = Path("main.nf.hcl")
    main.write_text(main.read_text().replace("}\n", "  read_only = true\n}\n"))
    assert nexusform("apply", "-auto-approve") == 0
    assert "is not changed yet" in nexusform.said
    assert server.site.taken == []


def test_tokens_are_sent_to_the_endpoint_only(nexusform: CommandRunner, server: ArmServer) -> None:
    """An operation at another address is not polled: the resource itself shows its end."""
    write_configuration(SCALED)
    endpoint = server.endpoint
    server.endpoint = "https://elsewhere.invalid"
    try:
        assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    finally:
        server.endpoint = endpoint
    assert nexusform.changes() == [("PATCH", "agentPools/np1")]


@pytest.mark.parametrize("address", ["http://localhost:1", "https://x y", "https://"])
def test_endpoint_requires_https(
    address: str, nexusform: CommandRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NF_AZURE_ENDPOINT", address)
    assert nexusform("plan") == 1
    assert f'must start with https:// and contain a host, not "{address}"' in nexusform.said


def test_documented_configuration_converges(nexusform: CommandRunner, server: ArmServer) -> None:
    page = (Path(__file__).parents[4] / "docs" / "provider-azure.md").read_text()
    example = page.partition("```hcl\n")[2].partition("```")[0]
    block, _, rest = example.partition("\n\n")
    assert block.startswith('provider "azure"')
    Path("more.nf.hcl").write_text(rest.replace("lon1", "lab"))
    assert nexusform("fmt", "-check", "more.nf.hcl") == 0, nexusform.said
    assert nexusform("plan") == 0, nexusform.said
    assert "Plan: 1 to add" in nexusform.said
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    assert server.site.properties(f"{GROUP}/{PROVIDER}/kubernetesClusters/core/agentPools/upf")[
        "agentOptions"
    ]
    assert nexusform("plan", "-detailed-exitcode") == 0, nexusform.said


def test_difference_shown_by_azure_is_reported_at_once(
    nexusform: CommandRunner, server: ArmServer
) -> None:
    """Later plans still request an argument not returned by the platform.

    This is reported.
    """
    labelled = format_pool("more", '    labels = { a = "b" }\n', count=1)
    write_configuration(
        format_cluster(format_pool("np1", mode="System"), format_pool("web"), labelled)
    )
    server.site.keeps_out = ("labels",)
    server.site.asked.clear()
    assert nexusform("apply", "-auto-approve") == 1
    assert "shows another agent_pool than was planned" in nexusform.said, nexusform.said
    assert 'agent_pool.more.labels was planned as {"a": "b"}' in nexusform.said, nexusform.said
    # No five minutes of polling for a late result.
    assert len(server.site.asked) < 100
    assert nexusform.changes() == [("PUT", "agentPools/more")]
    assert nexusform("plan") == 1
    assert "Azure must re-create the pool c/more" in nexusform.said


def test_change_shown_in_other_form_is_reported_at_once(
    nexusform: CommandRunner, server: ArmServer
) -> None:
    write_configuration(
        'resource "nexus_kubernetes_cluster" "c" {\n  kubernetes_version = "v1.30"\n}\n'
    )
    server.site.keeps_out = ("kubernetesVersion",)
    server.site.asked.clear()
    assert nexusform("apply", "-auto-approve") == 1
    assert "shows another kubernetes_version than was planned" in nexusform.said
    assert len(server.site.asked) < 100
    assert nexusform("plan", "-detailed-exitcode") == 2
