"""The provider beside a real hub: an API server of Kubernetes and KubeFleet's hub agent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.domains.hub.api_programs import CRDS, PROGRAMS, lacking
from tests.domains.hub.conftest import Told
from tests.domains.hub.real_hub import RealHub
from tests.domains.hub.test_fleet_provider import write
from tests.domains.hub.test_hub_order import BUDGET, SECOND
from tests.domains.hub.test_hub_runs import EVICTION, EXTERNAL, RUN, add

NEEDED = ("etcd", "kube-apiserver", "kube-controller-manager", "hubagent")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(lacking(*NEEDED)), reason=lacking(*NEEDED) or "-")]


@pytest.fixture(scope="module")
def real_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealHub]:
    hub = RealHub(PROGRAMS, CRDS, tmp_path_factory.mktemp("hub"))
    hub.join({name: {"env": "prod"} for name in ("ams1", "lon1", "par1")} | {"fra1": {"env": "canary"}})
    yield hub
    hub.close()


def test_a_plan_becomes_what_it_said(
    real_hub: RealHub, told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NF_FLEET_KUBECONFIG", str(real_hub.kubeconfig))
    for step in ({"number": 2}, {"number": 3}, {"number": 3, "content": "2"}, {"number": 1, "content": "2"}):
        write(**step)
        code, said = told("apply", "-auto-approve")
        assert code == 0, said
        assert "missed" not in said
        code, said = told("plan", "-detailed-exitcode")
        assert code == 0, said
    names = {"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacement"}
    selector = {"group": "", "version": "v1", "kind": "Namespace", "name": "web"}
    spec = {"resourceSelectors": [selector], "policy": {"numberOfClusters": 4}}
    path = "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourceplacements/web"
    real_hub.apply(path, {**names, "metadata": {"name": "web"}, "spec": spec}, "somebody")
    code, said = told("plan")
    assert code == 1
    assert ".spec.policy.numberOfClusters belongs to somebody" in said
    assert told("apply", "-auto-approve", "-take-ownership")[0] == 0
    assert told("destroy", "-auto-approve")[0] == 0
    for kind in ("clusterresourcebindings", "works"):
        assert real_hub.call("GET", f"/apis/placement.kubernetes-fleet.io/v1beta1/{kind}")["items"] == []


def test_runs_distribute_the_content_of_their_plan(
    real_hub: RealHub, told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NF_FLEET_KUBECONFIG", str(real_hub.kubeconfig))
    first = RUN.format(more='approvals = ["first-after-canary"]')
    for content, runs in (("1", first), ("2", first + SECOND)):
        write(number=4, content=content, more=EXTERNAL)
        add(runs)
        code, said = told("apply", "-auto-approve")
        assert code == 0, said
        assert told("plan", "-detailed-exitcode")[0] == 0
    path = "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourcebindings"
    snapshots = {each["spec"]["resourceSnapshotName"] for each in real_hub.call("GET", path)["items"]}
    assert snapshots == {"web-1-snapshot"}
    assert told("destroy", "-auto-approve")[0] == 0


def test_a_budget_of_the_plan_blocks_an_eviction(
    real_hub: RealHub, told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NF_FLEET_KUBECONFIG", str(real_hub.kubeconfig))
    write()
    assert told("apply", "-auto-approve")[0] == 0
    add(BUDGET + EVICTION)
    code, said = told("apply", "-auto-approve")
    assert code == 0, said
    assert "lon1 was not carried out: Eviction is blocked by specified" in said
    assert told("destroy", "-auto-approve")[0] == 0
