"""Who is down while a plan is applied, and who stays down: by what nodes do, and when."""

from __future__ import annotations

import pytest

from nexusform.rendering.report.availability_losses import find_availability_losses
from nexusform.rendering.report.plan_verdict import build_headline
from tests.planning.harness import RACKS, cluster, good, plan, pool, state_of

OLD, NEW = 'kubernetes_version = "1.29.4"', 'kubernetes_version = "1.30.1"'
PAIRS = 'upgrade_settings {\n max_surge = "2"\n}'
ALL = 'upgrade_settings {\n max_surge = "100%"\n}'
BUDGET = """
    ---
    apiVersion: policy/v1
    kind: PodDisruptionBudget
    metadata: {name: shop, namespace: default}
    spec:
      minAvailable: 1
      selector: {matchLabels: {app: shop}}"""


def shop(replicas: int, more: str = "", kind: str = "Deployment") -> str:
    return f"""
resource "fleet_hub_manifest" "shop" {{
  cluster_id = nexus_kubernetes_cluster.a.id
  yaml_body  = <<-YAML
    apiVersion: apps/v1
    kind: {kind}
    metadata: {{name: shop, namespace: default}}
    spec:
      replicas: {replicas}
      selector: {{matchLabels: {{app: shop}}}}
      template:
        metadata: {{labels: {{app: shop}}}}
        spec:
          affinity:
            nodeAffinity:
              requiredDuringSchedulingIgnoredDuringExecution:
                nodeSelectorTerms:
                - matchExpressions:
                  - {{key: pool, operator: In, values: [p]}}
          containers: [{{name: shop, image: shop}}]{more}
  YAML
}}
"""


def text(version: str, more: str, settings: str = "", count: int = 4, sku: str = "NC_P10_56_v1") -> str:
    pools = pool("p", count, sku, more=f'{settings}\nlabels = {{ pool = "p" }}')
    return RACKS + cluster("a", arguments=version, pools=pools, count=3) + more


def at_stake(before: str, after: str) -> list[str]:
    return list(find_availability_losses(good(plan(after, state_of(before))).plan))


@pytest.mark.of_domains("fleet")
def test_an_upgrade_node_by_node_leaves_replicas_on_other_nodes_up() -> None:
    assert at_stake(text(OLD, shop(3)), text(NEW, shop(3))) == []


@pytest.mark.of_domains("fleet")
def test_the_only_replica_is_away_while_its_node_is_upgraded() -> None:
    down = ["a/default/Deployment/shop is down for some time: its only replica "]
    (said,) = at_stake(text(OLD, shop(1)), text(NEW, shop(1)))
    assert said.startswith(down[0])


@pytest.mark.of_domains("fleet")
def test_replicas_of_one_batch_go_together_unless_a_budget_keeps_one_up() -> None:
    (said,) = at_stake(text(OLD, shop(4), ALL), text(NEW, shop(4), ALL))
    assert said.startswith("a/default/Deployment/shop is down for some time: all of its 4 replicas ")
    assert at_stake(text(OLD, shop(4), PAIRS), text(NEW, shop(4), PAIRS)) == []
    assert at_stake(text(OLD, shop(4, BUDGET), ALL), text(NEW, shop(4, BUDGET), ALL)) == []


@pytest.mark.of_domains("fleet")
def test_a_pool_that_is_made_anew_at_once_takes_all_replicas_with_it() -> None:
    of_pool, said = at_stake(text(OLD, shop(3)), text(OLD, shop(3), sku="NC_P22_112_v1"))
    assert of_pool == "a/p has no node for some time: all 4 nodes are re-created at once"
    assert said.startswith("a/default/Deployment/shop is down for some time: all of its 3 replicas ")
    # The budget holds for evictions, and these are none.
    guarded = text(OLD, shop(3, BUDGET))
    assert len(at_stake(guarded, guarded.replace("NC_P10_56_v1", "NC_P22_112_v1"))) == 2


@pytest.mark.of_domains("fleet")
def test_whoever_finds_no_other_node_is_not_said_to_move() -> None:
    """The label that the pods ask for goes with the nodes."""
    other = text(OLD, shop(2)).replace('pool = "p"', 'pool = "other"')
    _, said = at_stake(text(OLD, shop(2)), other)
    assert said == "a/default/Deployment/shop has no replica left: all of its 2 replicas lose their nodes"


@pytest.mark.of_domains("fleet")
def test_the_title_of_an_upgrade_names_what_else_is_lost() -> None:
    upgraded = good(plan(text(NEW, shop(3)), state_of(text(OLD, shop(3))))).plan
    assert build_headline(upgraded) == "a is upgraded to 1.30.1"
    lost = text(NEW, shop(2)).replace('pool = "p"', 'pool = "other"')
    plan_with_loss = good(plan(lost, state_of(text(OLD, shop(2))))).plan
    title = build_headline(plan_with_loss)
    assert title == "a is upgraded to 1.30.1, 2 pods lose their nodes"


def planes(count: int, sku: str = "NC_G6_28_v1") -> str:
    return RACKS + cluster("a", count=count, plane=sku)


def test_a_control_plane_that_none_may_be_missing_of_from_now_on() -> None:
    (said,) = at_stake(planes(3), planes(1))
    assert said == "a keeps 1 of 3 control-plane VMs; losing one breaks etcd quorum"
    assert at_stake(planes(5), planes(3)) == []
    assert at_stake(planes(1), planes(3)) == []
    assert at_stake(planes(1), planes(1)) == []


@pytest.mark.of_domains("fleet")
def test_pods_of_a_manifest_that_is_made_anew_are_away_meanwhile() -> None:
    state = state_of(text(OLD, shop(3)))
    replaced = good(plan(text(OLD, shop(3)), state, replaces=("fleet_hub_manifest.shop",))).plan
    (said,) = find_availability_losses(replaced)
    assert said == "a/default/Deployment/shop is down for some time: all of its 3 replicas are re-created"
    # Taken away for good is no outage, and neither is a new workload.
    assert list(find_availability_losses(good(plan(text(OLD, ""), state)).plan)) == []
    assert at_stake(text(OLD, ""), text(OLD, shop(3))) == []
