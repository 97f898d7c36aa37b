"""Tests of availability losses: workloads down during or after an apply.

Changes of their nodes are the cause.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from nexusform.diagnostics.levels import Level, get_diagnostic_level
from nexusform.placements.consequence_record import Consequence
from nexusform.planning.conclusion.site_records import add_site_capacity
from nexusform.plans.impact import risk_assessment
from nexusform.plans.impact.consequence_views import list_assessed_risks, list_plan_risks
from nexusform.plans.impact.decision_figures import build_decision
from nexusform.plans.impact.risk_assessment import RISK_FINDERS
from nexusform.plans.plan import Plan
from nexusform.rendering.report.decision_lines import build_decision_lines
from nexusform.rendering.report.plan_verdict import build_headline
from nexusform.state.objects import EMPTY, State
from tests.planning.harness import (
    RACKS,
    add_consequences,
    build_all_types,
    build_state,
    cluster,
    plan,
    pool,
    require_success,
    vms,
)

OLD = 'kubernetes_version = "1.29.4"'
NEW = 'kubernetes_version = "1.30.1"'
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


def build_shop(replicas: int, more: str = "", kind: str = "Deployment") -> str:
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


def build_configuration(
    version: str, more: str, settings: str = "", count: int = 4, sku: str = "NC_P10_56_v1"
) -> str:
    pools = pool("p", count, sku, more=f'{settings}\nlabels = {{ pool = "p" }}')
    return RACKS + cluster("a", arguments=version, pools=pools, count=3) + more


def find_texts(subject: Plan) -> list[str]:
    return [risk.text for risk in list_plan_risks(add_consequences(subject).impact)]


def list_losses(before: str, after: str) -> list[str]:
    return find_texts(require_success(plan(after, build_state(before))).plan)


@pytest.mark.of_domains("fleet")
def test_rolling_upgrade_keeps_replicas_on_other_nodes_up() -> None:
    assert (
        list_losses(
            build_configuration(OLD, build_shop(3)), build_configuration(NEW, build_shop(3))
        )
        == []
    )


@pytest.mark.of_domains("fleet")
def test_single_replica_is_down_during_upgrade_of_its_node() -> None:
    down = ["a/default/Deployment/shop is down for some time: its only replica "]
    (said,) = list_losses(
        build_configuration(OLD, build_shop(1)), build_configuration(NEW, build_shop(1))
    )
    assert said.startswith(down[0])


@pytest.mark.of_domains("fleet")
def test_replicas_in_one_batch_are_down_unless_a_budget_protects_one() -> None:
    (said,) = list_losses(
        build_configuration(OLD, build_shop(4), ALL), build_configuration(NEW, build_shop(4), ALL)
    )
    assert said.startswith(
        "a/default/Deployment/shop is down for some time: all of its 4 replicas "
    )
    assert (
        list_losses(
            build_configuration(OLD, build_shop(4), PAIRS),
            build_configuration(NEW, build_shop(4), PAIRS),
        )
        == []
    )
    assert (
        list_losses(
            build_configuration(OLD, build_shop(4, BUDGET), ALL),
            build_configuration(NEW, build_shop(4, BUDGET), ALL),
        )
        == []
    )


@pytest.mark.of_domains("fleet")
def test_pool_re_created_at_once_takes_all_replicas_down() -> None:
    of_pool, said = list_losses(
        build_configuration(OLD, build_shop(3)),
        build_configuration(OLD, build_shop(3), sku="NC_P22_112_v1"),
    )
    assert of_pool == "a/p has no node for some time: all 4 nodes are re-created at once"
    assert said.startswith(
        "a/default/Deployment/shop is down for some time: all of its 3 replicas "
    )
    # The budget limits only evictions, and here there are none.
    guarded = build_configuration(OLD, build_shop(3, BUDGET))
    assert len(list_losses(guarded, guarded.replace("NC_P10_56_v1", "NC_P22_112_v1"))) == 2


@pytest.mark.of_domains("fleet")
def test_pods_without_another_node_are_reported_as_lost() -> None:
    """The label required by the pods is removed with the nodes."""
    other = build_configuration(OLD, build_shop(2)).replace('pool = "p"', 'pool = "other"')
    _, said = list_losses(build_configuration(OLD, build_shop(2)), other)
    assert (
        said
        == "a/default/Deployment/shop has no replica left: all of its 2 replicas lose their nodes"
    )


@pytest.mark.of_domains("fleet")
def test_upgrade_headline_includes_other_losses() -> None:
    upgraded = require_success(
        plan(
            build_configuration(NEW, build_shop(3)),
            build_state(build_configuration(OLD, build_shop(3))),
        )
    ).plan
    assert build_headline(upgraded) == "a is upgraded to 1.30.1"
    lost = build_configuration(NEW, build_shop(2)).replace('pool = "p"', 'pool = "other"')
    plan_with_loss = require_success(
        plan(lost, build_state(build_configuration(OLD, build_shop(2))))
    ).plan
    title = build_headline(plan_with_loss)
    assert title == "a is upgraded to 1.30.1, 2 pods lose their nodes"


def build_control_planes(count: int, sku: str = "NC_G6_28_v1") -> str:
    return RACKS + cluster("a", count=count, plane=sku)


def test_control_plane_without_fault_tolerance_is_reported() -> None:
    (said,) = list_losses(build_control_planes(3), build_control_planes(1))
    assert said == "a keeps 1 of 3 control-plane VMs; losing one breaks etcd quorum"
    assert list_losses(build_control_planes(5), build_control_planes(3)) == []
    assert list_losses(build_control_planes(1), build_control_planes(3)) == []
    assert list_losses(build_control_planes(1), build_control_planes(1)) == []


def build_evacuated_racks(machines: Iterable[str]) -> str:
    """Return three racks; VMs leave the given machines."""
    names = ", ".join(f'"{name}"' for name in machines)
    override = f"""
  dynamic "machine_override" {{
    for_each = [for name in [{names}] : name if startswith(name, "r${{count.index}}-")]
    labels   = [machine_override.value]
    content {{
      evacuate = true
    }}
  }}
}}
"""
    return RACKS.rstrip().removesuffix("}") + override


def find_machines(state: State, pool_name: str) -> list[str]:
    """Return the machines of the nodes of a pool, in order of their numbers."""
    nodes = vms(state).values()
    return [str(node["machine"]) for node in nodes if node["pool"] == pool_name]


@pytest.mark.parametrize("count", [3, 5])
def test_scale_out_hides_no_lost_quorum(count: int) -> None:
    state = build_state(build_control_planes(3))
    racks = build_evacuated_racks(find_machines(state, "control-plane")[:2])
    after = racks + cluster("a", count=count)
    texts = find_texts(require_success(plan(after, state)).plan)
    assert texts == ["a loses etcd quorum: 2 of 3 control-plane VMs down at once"]


def test_pool_of_evacuated_nodes_has_no_node() -> None:
    state = build_state(RACKS + cluster("a", pools=pool("p", 2), count=3))
    machines = find_machines(state, "p")
    for evacuated, texts in (
        (machines, ["a/p has no node for some time: all 2 nodes are re-created at once"]),
        (machines[:1], []),
    ):
        racks = build_evacuated_racks(evacuated)
        # A new node does not exist yet.
        for count in (2, 3):
            after = racks + cluster("a", pools=pool("p", count), count=3)
            pool_risks = [risk for risk in assess(after, state) if risk.risk == "pool-down"]
            assert [risk.text for risk in pool_risks] == texts
            assert all(risk.severity == "temporary" for risk in pool_risks)


def test_replaced_cluster_repeats_no_risk_for_its_pools() -> None:
    before = RACKS + cluster("a", pools=pool("p", 2), count=3)
    replaced = plan(before, build_state(before), replaces=("nexus_kubernetes_cluster.a",))
    result = add_site_capacity(require_success(replaced), build_all_types())
    assert [risk.risk for risk in list_plan_risks(result.plan.impact)] == ["replaced-object"]


def test_evacuated_nodes_of_an_upgraded_pool_count_once() -> None:
    big = pool("p", 3, "NC_P22_112_v1")
    state = build_state(RACKS + cluster("a", arguments=OLD, pools=big))
    racks = build_evacuated_racks(find_machines(state, "p")[:2])
    made = require_success(plan(racks + cluster("a", arguments=NEW, pools=big), state)).plan
    recreated = [row for row in made.placements if row.trigger == "machine_evacuated"]
    assert build_decision(made).impact.max_down == len(recreated) == 2


@pytest.mark.parametrize("count", [3, 4])
def test_scale_out_hides_no_pool_without_a_node(count: int) -> None:
    before = RACKS + cluster("a", pools=pool("p", 3))
    after = RACKS + cluster("a", pools=pool("p", count, "NC_P10_56_v1"))
    assert list_losses(before, after) == [
        "a/p has no node for some time: all 3 nodes are re-created at once"
    ]


@pytest.mark.of_domains("fleet")
def test_pods_of_re_created_manifest_are_down_meanwhile() -> None:
    state = build_state(build_configuration(OLD, build_shop(3)))
    replaced = require_success(
        plan(build_configuration(OLD, build_shop(3)), state, replaces=("fleet_hub_manifest.shop",))
    ).plan
    (said,) = find_texts(replaced)
    assert (
        said
        == "a/default/Deployment/shop is down for some time: all of its 3 replicas are re-created"
    )
    # A permanent removal is no outage but a loss. A new workload is neither.
    removed = require_success(plan(build_configuration(OLD, ""), state)).plan
    assert find_texts(removed) == ["Deployment default/shop is deleted on a with 3 pods"]
    assert list_losses(build_configuration(OLD, ""), build_configuration(OLD, build_shop(3))) == []


def assess(files: str, state: State) -> list[Consequence]:
    """Return the risks of a plan with its sites."""
    result = add_site_capacity(require_success(plan(files, state)), build_all_types())
    return list_assessed_risks(result.plan.impact)


SMALL = cluster("a", pools=pool("p", 2), count=3)


@pytest.mark.parametrize(
    ("after", "risk", "text"),
    [
        ("", "destroyed-object", "a is deleted with 5 VMs"),
        (
            cluster("a", pools=pool("p", 0), count=3),
            "pool-empty",
            "a/p is scaled to 0: it keeps none of its 2 VMs",
        ),
        (
            cluster("a", pools=pool("p", 1), count=3),
            "pool-without-redundancy",
            "a/p keeps 1 of its 2 VMs; losing it leaves none",
        ),
        (cluster("a", count=3), "pool-deleted", "pool p of a is deleted with 2 VMs"),
        (
            cluster("a", arguments='name = "b"', pools=pool("p", 2), count=3),
            "destroyed-object",
            "a is deleted with 5 VMs, because its name changes to b",
        ),
        (
            cluster("a", pools=pool("p", 2), count=1),
            "control-plane-shrinks",
            "a keeps 1 of 3 control-plane VMs; losing one breaks etcd quorum",
        ),
    ],
)
def test_lasting_risks_of_a_plan(after: str, risk: str, text: str) -> None:
    state = build_state(RACKS + SMALL)
    [finding] = assess(RACKS + after, state)
    assert (finding.risk, finding.text) == (risk, text)
    assert (finding.severity, finding.since) == ("lasting", "plan")
    assert finding.address == "nexus_kubernetes_cluster.a"
    assert finding.before > finding.after
    # Once, by the plan that causes it.
    if after:
        assert assess(RACKS + after, build_state(RACKS + after, state)) == []


def test_control_plane_on_one_rack_is_a_risk_once() -> None:
    pinned = RACKS + cluster("a", count=3).replace(
        "count       = 3", 'count       = 3\n    availability_zones = ["r0"]'
    )
    [new] = assess(pinned, EMPTY)
    rack = "r0"
    assert new.risk == "control-plane-on-one-rack"
    assert new.text == (
        f"a has all 3 control-plane VMs on {rack}; losing that rack breaks etcd quorum"
    )
    assert (new.severity, new.since, new.before, new.after) == ("lasting", "plan", 0, 0)
    # It exists before the next plan: an existing finding, and no risk of that plan.
    result = add_site_capacity(plan(pinned, build_state(pinned)), build_all_types())
    [existing] = list_assessed_risks(result.plan.impact)
    assert existing.since == "state"
    assert list_plan_risks(result.plan.impact) == []
    [finding] = [
        problem for problem in result.diagnostics if problem.id == "control-plane-on-one-rack"
    ]
    assert finding.is_preexisting


def test_control_plane_on_two_racks_is_advice_and_then_an_existing_finding() -> None:
    """No placement avoids the loss: it is no risk of the plan, but its report says so once."""
    racks = RACKS.replace("count         = 3", "count         = 2", 1)
    configuration = racks + cluster("a", count=3)
    for state, is_preexisting in ((EMPTY, False), (build_state(configuration), True)):
        result = add_site_capacity(plan(configuration, state), build_all_types())
        assert list_plan_risks(result.plan.impact) == []
        [finding] = [
            problem for problem in result.diagnostics if problem.id == "too-few-racks-for-quorum"
        ]
        assert finding.brief == "losing one rack breaks etcd quorum of a"
        assert finding.detail.startswith(
            "a has 2 of 3 control-plane VMs on r1; losing that rack breaks etcd quorum. No "
        )
        assert get_diagnostic_level(finding) is Level.ADVICE
        assert finding.is_preexisting is is_preexisting


def test_control_plane_that_loses_its_third_rack_is_a_risk_of_the_plan() -> None:
    configuration = RACKS + cluster("a", count=3)
    fewer_racks = configuration.replace("count         = 3", "count         = 2", 1)
    risks = [risk.risk for risk in assess(fewer_racks, build_state(configuration))]
    assert "control-plane-on-one-rack" in risks


def test_control_plane_on_a_site_of_one_rack_says_nothing() -> None:
    one_rack = RACKS.replace("count         = 3", "count         = 1", 1)
    assert assess(one_rack + cluster("a", count=3), EMPTY) == []


@pytest.mark.parametrize(
    ("dropped", "before", "after", "text"),
    [
        (
            "control planes",
            RACKS + SMALL,
            RACKS + cluster("a", pools=pool("p", 2)),
            "a keeps 1 of 3 control-plane VMs",
        ),
        (
            "racks",
            RACKS,
            RACKS
            + cluster("a", count=3).replace(
                "count       = 3", 'count       = 3\n    availability_zones = ["r0"]'
            ),
            "a has all 3 control-plane VMs on r0",
        ),
        (
            "upgrades",
            RACKS + SMALL,
            RACKS + cluster("a", pools=pool("p", 2, "NC_P22_112_v1"), count=3),
            "a/p has no node for some time",
        ),
    ],
)
def test_dropped_risk_is_missing_in_the_decision(
    dropped: str, before: str, after: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = require_success(plan(after, build_state(before)))

    def list_decision_texts() -> str:
        shown = add_site_capacity(made, build_all_types()).plan
        return "\n".join(str(line) for line in build_decision_lines(shown))

    assert text in list_decision_texts()
    # A restored item would be the last one, and change the order of risks in later tests.
    finders = {name: find for name, find in RISK_FINDERS.items() if name != dropped}
    monkeypatch.setattr(risk_assessment, "RISK_FINDERS", finders)
    assert text not in list_decision_texts()


def test_some_re_created_vms_are_a_consequence_but_no_risk() -> None:
    text = RACKS + cluster("a", pools=pool("p", 2), count=3)
    address = "nexus_kubernetes_cluster.a"
    replaced = (f"{address}:a-p-0", f"{address}:a-control-plane-0")
    result = require_success(plan(text, build_state(text), replaces=replaced))
    made = add_site_capacity(result, build_all_types()).plan
    assert {(item.kind.value, item.subject, item.text) for item in made.impact.consequences} == {
        ("restarts", "a/p", "a/p: 1 of 2 nodes is re-created"),
        ("restarts", "a", "a: 1 of 3 control-plane VMs is re-created"),
    }
    assert list_plan_risks(made.impact) == []
