"""Tests of steps evaluated once by a hub.

They wait for their inputs in the same plan, whichever write is slow: 46 pairs. Each write is
delayed by NEXUSFORM_HUB_DELAY seconds.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.domains.hub.conftest import CommandRunner
from tests.domains.hub.hub_controller import Controller
from tests.domains.hub.hub_front import Front
from tests.domains.hub.slow_writes import SlowWrite
from tests.domains.hub.test_hub_order import BUDGET, NAMESPACED_OVERRIDE, OVERRIDE, SECOND
from tests.domains.hub.test_hub_runs import EVICTION, FIRST, STRATEGY
from tests.kill_points import select_cases

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
resource "fleet_member_cluster" "fra1" {{
  provider = fleet
  name     = "fra1"
  labels   = {{ tier = "{n}" }}
}}
"""
_PLACEMENT = """
resource "fleet_cluster_resource_placement" "{name}" {{
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
    type = "{strategy}"
    apply_strategy {{
      allow_co_ownership = true
    }}
  }}
}}
"""
_APPROVAL_REQUEST = """
resource "fleet_cluster_approval_request" "canary" {
  provider             = fleet
  name                 = "second-after-canary"
  parent_stage_rollout = fleet_cluster_staged_update_run.second.name
  target_stage         = "canary"
}
"""


def _build_configuration(n: int) -> str:
    """Return the configuration of a plan.

    It is the first one, or one with objects that a hub evaluates once.
    """
    placements = [
        _PLACEMENT.format(name=name, n=n, strategy=strategy)
        for name, strategy in (("web", "External"), ("api", "RollingUpdate"))
    ]
    strategy = STRATEGY.format().replace(
        'name = "rest"', f'name = "rest"\n    max_concurrency = {n}'
    )
    text = _CONFIG.format(n=n) + "".join(placements) + strategy
    if n == 1:
        return text
    evictions = EVICTION + EVICTION.replace("lon1", "par1")
    runs = FIRST.format(more='approvals = ["first-after-canary"]') + SECOND.replace(
        "  approvals ", "  # "
    )
    once = (BUDGET.replace("2", "3") + evictions).replace('"web"', '"api"')
    return (
        text
        + OVERRIDE
        + NAMESPACED_OVERRIDE.replace("NAME", "settings")
        + runs
        + _APPROVAL_REQUEST
        + once
    )


_RUNS = ("/clusterstagedupdateruns/first", "/clusterstagedupdateruns/second")
_APPROVAL = "/clusterapprovalrequests/second-after-canary/status"
_READERS = (*_RUNS, _APPROVAL)
_EVICTIONS = tuple(f"/clusterresourceplacementevictions/{name}" for name in ("lon1", "par1"))
_CONTENT = ("/namespaces/web", "/configmaps/settings", "/configmaps/more")
_API = "/clusterresourceplacements/api"
# Each write, and the writes after it
FOLLOWERS = {
    "/namespaces/web": _READERS,
    "/configmaps/settings": _READERS,
    "/configmaps/more": _READERS,
    "/clusterresourceplacements/web": _READERS,
    "/clusterresourceoverrides/web": _READERS,
    "/resourceoverrides/settings": (*_READERS, *_EVICTIONS, _API, *_CONTENT),
    "/clusterstagedupdatestrategies/two": _READERS,
    "/memberclusters/fra1": (*_READERS, *_EVICTIONS, _API, *_CONTENT),
    "/clusterresourceplacementdisruptionbudgets/api": _EVICTIONS,
    _EVICTIONS[0]: (_EVICTIONS[1], _API),
    _EVICTIONS[1]: (_API, *_CONTENT),
    _RUNS[0]: (_RUNS[1],),
    _RUNS[1]: (_APPROVAL,),
}


def test_at_least_thirty_pairs_are_checked() -> None:
    assert sum(map(len, FOLLOWERS.values())) >= 30


def check_pairs(hub: Front, run_command: CommandRunner, path: str, seconds: float) -> None:
    """Delay a write of a plan, and check the order of its followers and their results."""
    Path("main.nf.hcl").write_text(_build_configuration(1))
    code, said = run_command("apply", "-auto-approve")
    assert code == 0, said
    Path("main.nf.hcl").write_text(_build_configuration(2))
    slow = SlowWrite(hub, path, *FOLLOWERS[path], seconds=seconds)
    code, said = run_command("apply", "-auto-approve")
    slow.end()
    assert (code, "certain predictions" in said) == (0, False), said
    done = slow.arrivals.index("done")
    for follower in FOLLOWERS[path]:
        (first, *_) = (
            number for number, each in enumerate(slow.arrivals) if each.endswith(follower)
        )
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


@pytest.mark.our_hub_alone
@pytest.mark.parametrize("path", select_cases(list(FOLLOWERS)))
def test_readers_follow_a_slow_write(
    hub: Front, controller: Controller, run_command: CommandRunner, path: str
) -> None:
    controller.evicts = True
    check_pairs(hub, run_command, path, float(os.environ.get("NEXUSFORM_HUB_DELAY") or 0.5))
