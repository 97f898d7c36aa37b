"""Tests of the provider on a real hub: an API server of Kubernetes and KubeFleet's hub agent."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from nexusform.domains.hub.api.hub_kinds import MEMBER, READ_KINDS
from tests.domains.hub.api_programs import CRDS, PROGRAMS, ApiPrograms, find_obstacle
from tests.domains.hub.conftest import CommandRunner
from tests.domains.hub.real_hub import RealHub
from tests.domains.hub.test_fleet_provider import write_configuration
from tests.domains.hub.test_hub_identity import COMMANDS
from tests.domains.hub.test_hub_order import BUDGET, SECOND
from tests.domains.hub.test_hub_runs import EVICTION, EXTERNAL, RUN, append_configuration
from tests.kill_points import long_case

NEEDED = ("etcd", "kube-apiserver", "kube-controller-manager", "hubagent")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(find_obstacle(*NEEDED)), reason=find_obstacle(*NEEDED) or "-"),
    long_case,
]


@pytest.fixture(scope="module")
def real_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealHub]:
    hub = RealHub(PROGRAMS, CRDS, tmp_path_factory.mktemp("hub"))
    hub.join(
        {name: {"env": "prod"} for name in ("ams1", "lon1", "par1")} | {"fra1": {"env": "canary"}}
    )
    yield hub
    hub.close()


def test_apply_matches_plan(
    real_hub: RealHub, run_command: CommandRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NF_FLEET_KUBECONFIG", str(real_hub.kubeconfig))
    for step in (
        {"number": 2},
        {"number": 3},
        {"number": 3, "content": "2"},
        {"number": 1, "content": "2"},
    ):
        write_configuration(**step)
        code, said = run_command("apply", "-auto-approve")
        assert code == 0, said
        assert "missed" not in said
        code, said = run_command("plan", "-detailed-exitcode")
        assert code == 0, said
    names = {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterResourcePlacement",
    }
    selector = {"group": "", "version": "v1", "kind": "Namespace", "name": "web"}
    spec = {"resourceSelectors": [selector], "policy": {"numberOfClusters": 4}}
    path = "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourceplacements/web"
    real_hub.apply(path, {**names, "metadata": {"name": "web"}, "spec": spec}, "somebody")
    code, said = run_command("plan")
    assert code == 1
    assert ".spec.policy.numberOfClusters belongs to somebody" in said
    assert run_command("apply", "-auto-approve", "-take-ownership")[0] == 0
    assert run_command("destroy", "-auto-approve")[0] == 0
    for kind in ("clusterresourcebindings", "works"):
        assert (
            real_hub.call("GET", f"/apis/placement.kubernetes-fleet.io/v1beta1/{kind}")["items"]
            == []
        )


def test_runs_apply_content_of_their_plan(
    real_hub: RealHub, run_command: CommandRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NF_FLEET_KUBECONFIG", str(real_hub.kubeconfig))
    first = RUN.format(more='approvals = ["first-after-canary"]')
    for content, runs in (("1", first), ("2", first + SECOND)):
        write_configuration(number=4, content=content, more=EXTERNAL)
        append_configuration(runs)
        code, said = run_command("apply", "-auto-approve")
        assert code == 0, said
        assert run_command("plan", "-detailed-exitcode")[0] == 0
    path = "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourcebindings"
    snapshots = {
        each["spec"]["resourceSnapshotName"] for each in real_hub.call("GET", path)["items"]
    }
    assert snapshots == {"web-1-snapshot"}
    assert run_command("destroy", "-auto-approve")[0] == 0


def test_planned_budget_blocks_an_eviction(
    real_hub: RealHub, run_command: CommandRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NF_FLEET_KUBECONFIG", str(real_hub.kubeconfig))
    write_configuration()
    assert run_command("apply", "-auto-approve")[0] == 0
    append_configuration(BUDGET + EVICTION)
    code, said = run_command("apply", "-auto-approve")
    assert code == 0, said
    assert "lon1 was not executed: Eviction is blocked by specified" in said
    assert run_command("destroy", "-auto-approve")[0] == 0


def use_hub(programs: ApiPrograms, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NF_FLEET_KUBECONFIG", str(programs.kubeconfig))


def list_versions(programs: ApiPrograms) -> dict[str, str]:
    """Return the resource versions of all objects of a fleet, with their content."""
    paths = [kind.collection for kind in READ_KINDS if kind != MEMBER] + [
        "/api/v1/configmaps",
        "/api/v1/namespaces",
    ]
    bodies = [body for path in paths for body in programs.call("GET", path)["items"]]
    return {body["metadata"]["uid"]: body["metadata"]["resourceVersion"] for body in bodies}


def test_no_command_changes_anything_with_another_hub(
    real_hub: RealHub,
    api_programs: ApiPrograms,
    run_command: CommandRunner,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    use_hub(real_hub, monkeypatch)
    write_configuration()
    assert run_command("apply", "-auto-approve")[0] == 0
    write_configuration(content="2")
    assert run_command("plan", "-out=x.nfplan")[0] == 0
    state = run_command("state", "pull")[1]
    versions = [list_versions(hub) for hub in (real_hub, api_programs)]
    use_hub(api_programs, monkeypatch)
    uids = [
        hub.call("GET", "/api/v1/namespaces/kube-system")["metadata"]["uid"]
        for hub in (real_hub, api_programs)
    ]
    for words in COMMANDS:
        code, said = run_command(*words)
        assert code == 1, (words, said)
        assert (
            f"namespace kube-system has the uid {uids[0]} on {real_hub.url} in the state" in said
        ), (words, said)
        assert f"-allow-other-hub={uids[1]}" in said, (words, said)
    assert [list_versions(hub) for hub in (real_hub, api_programs)] == versions
    assert run_command("state", "pull")[1] == state
    use_hub(real_hub, monkeypatch)
    assert run_command("destroy", "-auto-approve")[0] == 0


def test_lost_state_is_imported_without_writes(
    real_hub: RealHub, run_command: CommandRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    use_hub(real_hub, monkeypatch)
    write_configuration()
    assert run_command("apply", "-auto-approve")[0] == 0
    shutil.rmtree("state")
    versions = list_versions(real_hub)
    code, said = run_command("import", "-from=hub", "-generate-config-out=hub.nf.hcl")
    assert code == 0, said
    code, said = run_command("plan", "-detailed-exitcode")
    assert (code, "No changes." in said) == (0, True), said
    assert list_versions(real_hub) == versions
    assert run_command("destroy", "-auto-approve")[0] == 0


def test_second_of_two_plans_is_stale(
    real_hub: RealHub, run_command: CommandRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    use_hub(real_hub, monkeypatch)
    write_configuration()
    assert run_command("apply", "-auto-approve")[0] == 0
    for content, name in (("2", "first.nfplan"), ("3", "second.nfplan")):
        write_configuration(content=content)
        assert run_command("plan", f"-out={name}")[0] == 0
    code, said = run_command("apply", "first.nfplan")
    assert code == 0, said
    versions = list_versions(real_hub)
    code, said = run_command("apply", "second.nfplan")
    assert (code, "plan again" in said.lower()) == (1, True), said
    assert list_versions(real_hub) == versions
    assert run_command("apply", "-auto-approve")[0] == 0
    assert run_command("plan", "-detailed-exitcode")[0] == 0
    assert run_command("destroy", "-auto-approve")[0] == 0


def test_reader_plans_and_cannot_apply(
    real_hub: RealHub, run_command: CommandRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user bob may read all objects of the hub and write none."""
    monkeypatch.chdir(tmp_path)
    group = "rbac.authorization.k8s.io"
    rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]
    role = {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": "reader"}}
    real_hub.apply(f"/apis/{group}/v1/clusterroles/reader", {**role, "rules": rules})
    binding = {
        **role,
        "kind": "ClusterRoleBinding",
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "reader"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "bob"}],
    }
    real_hub.apply(f"/apis/{group}/v1/clusterrolebindings/reader", binding)
    kubeconfig = tmp_path / "bob"
    kubeconfig.write_text(real_hub.kubeconfig.read_text().replace("admin-token", "bob-token"))
    monkeypatch.setenv("NF_FLEET_KUBECONFIG", str(kubeconfig))
    write_configuration()
    versions = list_versions(real_hub)
    code, said = run_command("apply", "-auto-approve")
    assert (code, "Traceback" in said) == (1, False), said
    assert 'user "bob" may not patch namespaces' in said, said
    assert list_versions(real_hub) == versions
    use_hub(real_hub, monkeypatch)
    code, said = run_command("apply", "-auto-approve")
    assert code == 0, said
    # A reader plans.
    monkeypatch.setenv("NF_FLEET_KUBECONFIG", str(kubeconfig))
    code, said = run_command("plan", "-detailed-exitcode")
    assert code == 0, said
    use_hub(real_hub, monkeypatch)
    assert run_command("destroy", "-auto-approve")[0] == 0


def test_unreachable_member_is_named_and_apply_resumes(
    real_hub: RealHub, run_command: CommandRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    use_hub(real_hub, monkeypatch)
    write_configuration(number=4)
    assert run_command("apply", "-auto-approve")[0] == 0
    real_hub.unreachable.add("lon1")
    write_configuration(number=4, content="2", timeout="20s")
    code, said = run_command("apply", "-auto-approve")
    assert (code, "Traceback" in said) == (1, False), said
    assert "lon1" in said, said
    real_hub.unreachable.clear()
    write_configuration(number=4, content="2")
    code, said = run_command("apply", "-resume")
    assert code == 0, said
    code, said = run_command("plan", "-detailed-exitcode")
    assert code == 0, said
    assert run_command("destroy", "-auto-approve")[0] == 0
