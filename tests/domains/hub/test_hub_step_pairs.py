"""Steps evaluated once by a hub wait for their inputs in the same plan, whichever write is slow: 33 pairs."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from tests.domains.hub.conftest import Told
from tests.domains.hub.hub_controller import Controller
from tests.domains.hub.hub_front import Front

_CONFIG = """
provider "fleet" {{}}
data "fleet_hub" "hub" {{}}

resource "fleet_hub_manifest" "web" {{
  provider  = fleet
  yaml_body = <<-Y
    apiVersion: v1
    kind: Namespace
    metadata: {{name: web, labels: {{version: "{n}"}}}}
    ---
    apiVersion: v1
    kind: ConfigMap
    metadata: {{name: settings, namespace: web, labels: {{a: b}}}}
    data: {{a: "{n}"}}
  Y
}}
resource "fleet_hub_manifest" "more" {{
  provider   = fleet
  depends_on = [fleet_hub_manifest.web]
  yaml_body  = <<-Y
    apiVersion: v1
    kind: ConfigMap
    metadata: {{name: more, namespace: web, labels: {{a: b}}}}
    data: {{a: "{n}"}}
  Y
}}
resource "fleet_cluster_resource_placement" "web" {{
  provider               = fleet
  revision_history_limit = 1{n}
  resource_selector {{
    version = "v1"
    kind    = "Namespace"
    name    = "web"
  }}
  policy {{
    placement_type     = "PickN"
    number_of_clusters = 4
  }}
  strategy {{
    type = "External"
  }}
}}
resource "fleet_cluster_resource_placement" "api" {{
  provider               = fleet
  revision_history_limit = 1{n}
  resource_selector {{
    version = "v1"
    kind    = "Namespace"
    name    = "web"
  }}
  policy {{
    placement_type     = "PickN"
    number_of_clusters = 4
  }}
}}
resource "fleet_member_cluster" "fra1" {{
  provider = fleet
  name     = "fra1"
  labels   = {{ tier = "{n}" }}
}}
resource "fleet_cluster_staged_update_strategy" "two" {{
  provider = fleet
  name     = "two"
  stage {{
    name = "canary"
    label_selector {{ match_labels = {{ env = "canary" }} }}
    after_stage_task {{ type = "Approval" }}
  }}
  stage {{
    name            = "rest"
    max_concurrency = {n}
    label_selector {{ match_labels = {{ env = "prod" }} }}
  }}
}}
"""
_ONCE = """
resource "fleet_cluster_resource_override" "web" {
  provider = fleet
  name     = "all"
  placement { name = "web" }
  cluster_resource_selector {
    version = "v1"
    kind    = "Namespace"
    name    = "web"
  }
  policy {
    override_rule {
      cluster_selector {}
      json_patch_override {
        op    = "add"
        path  = "/metadata/labels/changed"
        value = jsonencode("yes")
      }
    }
  }
}
resource "fleet_resource_override" "settings" {
  provider  = fleet
  name      = "settings"
  namespace = "web"
  placement { name = "web" }
  resource_selector {
    version = "v1"
    kind    = "ConfigMap"
    name    = "settings"
  }
  policy {
    override_rule {
      cluster_selector {}
      json_patch_override {
        op    = "add"
        path  = "/data/b"
        value = jsonencode("yes")
      }
    }
  }
}
resource "fleet_cluster_staged_update_run" "first" {
  provider                     = fleet
  name                         = "first"
  placement_name               = "web"
  staged_rollout_strategy_name = "two"
  state                        = "Run"
  approvals                    = ["first-after-canary"]
}
resource "fleet_cluster_staged_update_run" "second" {
  provider                     = fleet
  name                         = "second"
  placement_name               = "web"
  staged_rollout_strategy_name = "two"
  state                        = "Run"
}
resource "fleet_cluster_approval_request" "canary" {
  provider             = fleet
  name                 = "second-after-canary"
  parent_stage_rollout = fleet_cluster_staged_update_run.second.name
  target_stage         = "canary"
}
resource "fleet_placement_disruption_budget" "api" {
  provider      = fleet
  name          = "api"
  min_available = "3"
}
resource "fleet_placement_eviction" "lon1" {
  provider       = fleet
  name           = "lon1"
  placement_name = "api"
  cluster_name   = "lon1"
}
resource "fleet_placement_eviction" "par1" {
  provider       = fleet
  name           = "par1"
  placement_name = "api"
  cluster_name   = "par1"
}
"""
_RUNS = ("/clusterstagedupdateruns/first", "/clusterstagedupdateruns/second")
_APPROVAL = "/clusterapprovalrequests/second-after-canary/status"
_READERS = (*_RUNS, _APPROVAL)
_EVICTIONS = tuple(f"/clusterresourceplacementevictions/{name}" for name in ("lon1", "par1"))
_API = "/clusterresourceplacements/api"
# Each write, and the writes that follow it.
_FOLLOWERS = {
    "/namespaces/web": _READERS,
    "/configmaps/settings": _READERS,
    "/configmaps/more": _READERS,
    "/clusterresourceplacements/web": _READERS,
    "/clusterresourceoverrides/all": _READERS,
    "/resourceoverrides/settings": _READERS,
    "/clusterstagedupdatestrategies/two": _READERS,
    "/memberclusters/fra1": (*_READERS, *_EVICTIONS),
    "/clusterresourceplacementdisruptionbudgets/api": _EVICTIONS,
    _EVICTIONS[0]: (_EVICTIONS[1], _API),
    _EVICTIONS[1]: (_API,),
    _RUNS[0]: (_RUNS[1],),
    _RUNS[1]: (_APPROVAL,),
}


class SlowWrite:
    """Delays the first write of a path until another follower arrives, or half a second is over. `arrivals`
    are all writes in order, with "done" after the delayed one.
    """

    def __init__(self, hub: Front, path: str) -> None:
        self.arrivals: list[str] = []
        self._path, self._answer = path, hub.answer
        self._follower = threading.Event()
        hub.answer = self._delay  # type: ignore[method-assign]

    def _delay(self, method: str, target: str, token: str, content: bytes) -> tuple[int, Any]:
        path = target.partition("?")[0]
        if method == "GET" or "dryRun" in target:
            return self._answer(method, target, token, content)
        is_first = not any(each.endswith(self._path) for each in self.arrivals)
        self.arrivals.append(path)
        if any(path.endswith(follower) for follower in _FOLLOWERS[self._path]):
            self._follower.set()
        if not path.endswith(self._path) or not is_first:
            return self._answer(method, target, token, content)
        self._follower.wait(0.5)
        response = self._answer(method, target, token, content)
        self.arrivals.append("done")
        return response


def test_thirty_pairs_are_checked() -> None:
    assert sum(map(len, _FOLLOWERS.values())) >= 30


@pytest.mark.our_hub_alone
@pytest.mark.parametrize("path", _FOLLOWERS)
def test_a_slow_write_is_followed_by_what_reads_it(hub: Front, controller: Controller, told: Told, path: str) -> None:
    controller.evicts = True
    Path("main.nf.hcl").write_text(_CONFIG.format(n=1))
    code, said = told("apply", "-auto-approve")
    assert code == 0, said
    Path("main.nf.hcl").write_text(_CONFIG.format(n=2) + _ONCE)
    slow = SlowWrite(hub, path)
    code, said = told("apply", "-auto-approve")
    assert (code, "certain predictions" in said) == (0, False), said
    done = slow.arrivals.index("done")
    for follower in _FOLLOWERS[path]:
        (first, *_) = (number for number, each in enumerate(slow.arrivals) if each.endswith(follower))
        assert first > done, (path, follower, slow.arrivals)
    names = {
        binding["spec"]["resourceSnapshotName"]
        for binding in hub.all("ClusterResourceBinding")
        if binding["metadata"]["labels"]["kubernetes-fleet.io/parent-CRP"] == "web"
    }
    assert len(names) == 1, names
    for eviction in hub.all("ClusterResourcePlacementEviction"):
        conditions = {each["type"]: each["status"] for each in eviction["status"]["conditions"]}
        assert conditions == {"Valid": "True", "Executed": "True"}
