"""Tests of what placements and manifests end on clusters: by kind, once, and as the gate says."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nexusform.placements.consequence_record import Consequence
from nexusform.placements.consequences import NO_CONSEQUENCES, ConsequenceSeverity, DataFate
from nexusform.planning.conclusion.site_records import add_site_capacity
from nexusform.plans.impact.guard_rails import apply_limits, parse_guard_rail_limits
from nexusform.plans.impact.object_effects import (
    REMOVAL_EFFECTS,
    Effect,
    compute_effect,
    count_plan_effects,
)
from nexusform.plans.plan import Mode, Plan
from nexusform.rendering.pull_request.plan_comment import render_markdown
from nexusform.rendering.report.plan_verdict import build_headline
from tests.domains.fleet.planning.fleet_harness import STAGES, build_member, build_placement
from tests.kill_points import scale_count
from tests.planning.harness import (
    RACKS,
    build_all_types,
    build_state,
    cluster,
    plan,
    pool,
    require_success,
)

NAMESPACE = "apiVersion: v1\nkind: Namespace\nmetadata: {name: web}\n"
CLAIM = """apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: web}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}%s}
"""
CLASS = """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast}
provisioner: p
reclaimPolicy: %s
"""
DEPLOYMENT = """apiVersion: apps/v1
kind: Deployment
metadata: {name: shop, namespace: web}
spec:
  replicas: %d
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      containers: [{name: c, image: i, envFrom: [{configMapRef: {name: settings}}]}]
"""
SETTINGS = """apiVersion: v1
kind: ConfigMap
metadata: {name: %s, namespace: web}
data: {a: b}
"""
SERVICE = """apiVersion: v1
kind: Service
metadata: {name: shop, namespace: web}
spec: {selector: {app: %s}, ports: [{port: 80}]}
"""
STATEFUL_SET = """apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: web}
spec:
  replicas: 2
  serviceName: db
  %s
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: c, image: i}]}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"""
QUOTA = """apiVersion: v1
kind: ResourceQuota
metadata: {name: limit, namespace: web}
spec: {hard: {pods: "100"}}
"""
DELETED_CLAIMS = "persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete, whenScaled: Delete}"


def build_manifest(*documents: str, name: str = "web", cluster_id: str = "") -> str:
    line = f"  cluster_id = {cluster_id}\n" if cluster_id else ""
    body = "---\n".join(documents)
    return f'resource "fleet_hub_manifest" "{name}" {{\n{line}  yaml_body = <<Y\n{body}Y\n}}\n'


def build_fleet(*documents: str, members: str = "ab", more: str = "") -> str:
    policy = 'placement_type = "PickAll"'
    fleet = "".join(map(build_member, members)) + build_placement(policy) + more
    return fleet + build_manifest(NAMESPACE, *documents)


def change(before: str, after: str, **options: Any) -> Plan:
    """Return the completed plan of a change."""
    result = require_success(plan(after, build_state(before), **options))
    return add_site_capacity(result, build_all_types()).plan


def find_consequences(subject: Plan) -> dict[str, Consequence]:
    """Return the consequences of a plan by subject."""
    return {consequence.subject: consequence for consequence in subject.impact.consequences}


@pytest.mark.parametrize(
    ("removed", "rest", "subject", "severity", "data"),
    [
        (CLAIM % "", "", "PersistentVolumeClaim web/data", "lasting", "lost"),
        (CLAIM % ", storageClassName: fast", "", "PersistentVolumeClaim web/data", "lasting",
         "unknown"),
        (DEPLOYMENT % 2, "", "Deployment web/shop", "lasting", None),
        (DEPLOYMENT % 0, "", "Deployment web/shop", "none", None),
        (STATEFUL_SET % "", "", "StatefulSet web/db", "lasting", "kept"),
        (STATEFUL_SET % DELETED_CLAIMS, "", "StatefulSet web/db", "lasting", "lost"),
        (SETTINGS % "settings", DEPLOYMENT % 2, "ConfigMap web/settings", "lasting", None),
        (SETTINGS % "other", DEPLOYMENT % 2, "ConfigMap web/other", "none", None),
        (SETTINGS % "settings", DEPLOYMENT % 0, "ConfigMap web/settings", "none", None),
        (SERVICE % "shop", DEPLOYMENT % 2, "Service web/shop", "lasting", None),
        (SERVICE % "db", DEPLOYMENT % 2, "Service web/shop", "none", None),
        (QUOTA, "", "ResourceQuota web/limit", "lasting", None),
    ],
)  # fmt: skip
def test_end_of_an_object_hurts_by_its_kind(
    removed: str, rest: str, subject: str, severity: str, data: str | None
) -> None:
    documents = [rest] if rest else []
    changed = change(build_fleet(removed, *documents), build_fleet(*documents))
    records = [item for item in changed.impact.consequences if item.subject == subject]
    assert [(item.severity, item.data, item.where) for item in records] == [
        (severity, data, ("a",)),
        (severity, data, ("b",)),
    ]


@pytest.mark.parametrize(("policy", "fate"), [("Retain", "kept"), ("Delete", "lost")])
def test_data_of_a_claim_follows_the_policy_of_its_class(policy: str, fate: str) -> None:
    """The class is on the cluster by a manifest of its own."""
    claim = CLAIM % ", storageClassName: fast"
    storage = build_placement('placement_type = "PickAll"', name="storage").replace(
        'kind    = "Namespace"\n    name    = "web"',
        'group = "storage.k8s.io"\n    kind    = "StorageClass"\n    name    = "fast"',
    ) + build_manifest(CLASS % policy, name="class")
    changed = change(build_fleet(claim, more=storage), build_fleet(more=storage))
    assert find_consequences(changed)["PersistentVolumeClaim web/data"].data == fate


def test_placement_that_leaves_a_cluster_names_lost_data_and_pods() -> None:
    fixed = 'placement_type = "PickFixed"\n    cluster_names = %s'
    fleet = build_member("a") + build_member("b")
    content = build_manifest(NAMESPACE, CLAIM % "", DEPLOYMENT % 3)
    changed = change(
        fleet + content + build_placement(fixed % '["a", "b"]'),
        fleet + content + build_placement(fixed % '["a"]'),
    )
    (record,) = changed.impact.consequences
    assert record.text == (
        "p leaves b: Namespace web and 2 objects are deleted; the data of "
        "PersistentVolumeClaim web/data is lost; 3 pods end"
    )
    assert (record.severity, record.data, record.objects) == ("lasting", "lost", 3)
    assert record.removed == {"binding": 1, "pod": 3}


def test_objects_stay_on_a_member_that_leaves_the_fleet() -> None:
    documents = (CLAIM % "", DEPLOYMENT % 3)
    changed = change(build_fleet(*documents), build_fleet(*documents, members="a"))
    records = find_consequences(changed)
    assert records["member b"].text == "member b leaves the fleet"
    assert records["member b"].severity == "none"
    record = records["p on b"]
    assert record.text == (
        "p leaves b: Namespace web and 2 objects stay, unmanaged; 3 pods keep running"
    )
    assert (record.severity, record.data, record.objects) == ("lasting", None, 0)
    (row,) = [row for row in changed.placements if row.object == "b"]
    assert row.leaves_objects
    assert "its objects stay, unmanaged" in row.reason
    assert not [
        step for item in changed.workloads.rollouts for step in item.steps if step.kind == "delete"
    ]


def test_destroy_plan_names_objects_and_data() -> None:
    changed = change(
        build_fleet(CLAIM % "", DEPLOYMENT % 3),
        build_fleet(CLAIM % "", DEPLOYMENT % 3),
        mode=Mode.DESTROY,
    )
    record = find_consequences(changed)["placement p"]
    assert record.title == (
        "placement p on a and b; the data of PersistentVolumeClaim web/data is lost"
    )
    assert (record.objects, record.data, record.removed["pod"]) == (6, "lost", 6)


SITE = RACKS + cluster("a", pools=pool("p", 2), count=3)
CLUSTER = "nexus_kubernetes_cluster.a.id"


def build_direct(*documents: str) -> str:
    return SITE + build_manifest(*documents, cluster_id=CLUSTER)


def test_direct_manifest_is_named_by_its_objects() -> None:
    documents = (NAMESPACE, DEPLOYMENT % 2, CLAIM % "")
    removed = change(build_direct(*documents), SITE)
    record = find_consequences(removed)["Namespace web and 2 objects"]
    assert record.text == (
        "Namespace web and 2 objects are deleted on a with 2 pods; the data of "
        "PersistentVolumeClaim web/data is lost"
    )
    assert (record.severity, record.data, record.removed) == ("lasting", "lost", {"pod": 2})
    shrunk = change(build_direct(*documents), build_direct(*documents[:2]))
    assert find_consequences(shrunk)["PersistentVolumeClaim web/data"].data == "lost"


LOCAL_VOLUME = """apiVersion: v1
kind: PersistentVolume
metadata: {name: disk}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: local
  persistentVolumeReclaimPolicy: Retain
  local: {path: /mnt}
  nodeAffinity:
    required:
      nodeSelectorTerms:
      - matchExpressions:
        - {key: kubernetes.io/hostname, operator: In, values: [a-p-0]}
"""
LOCAL_CLAIM = CLAIM % ", storageClassName: local, volumeName: disk"
WITH_VOLUME = (DEPLOYMENT % 1).replace(
    ", envFrom: [{configMapRef: {name: settings}}]", ""
) + "      volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]\n"


@pytest.mark.parametrize(
    ("after", "ending"),
    [
        (cluster("a", pools=pool("p", 2, "NC_P22_112_v1"), count=3), "is re-created"),
        (cluster("a", pools=pool("p", 0), count=3), "is removed"),
    ],
)
def test_local_volume_of_a_lost_node_loses_its_data(after: str, ending: str) -> None:
    content = build_manifest(NAMESPACE, LOCAL_VOLUME, LOCAL_CLAIM, WITH_VOLUME, cluster_id=CLUSTER)
    changed = change(SITE + content, RACKS + after + content)
    record = find_consequences(changed)["PersistentVolumeClaim web/data"]
    assert record.text == (
        f"PersistentVolumeClaim web/data on a loses its data: node a-p-0 {ending}"
    )
    assert (record.severity, record.data) == ("lasting", "lost")
    (pod,) = [row for row in changed.placements if row.kind == "pod"]
    if ending == "is re-created":
        assert pod.scores["certain"] is False
        assert pod.scores["depends_on"] == "a local volume on the new node"


def test_volume_in_the_network_survives_a_re_created_node() -> None:
    volume = LOCAL_VOLUME.replace("local: {path: /mnt}", "nfs: {server: s, path: /x}")
    content = build_manifest(NAMESPACE, volume, LOCAL_CLAIM, WITH_VOLUME, cluster_id=CLUSTER)
    after = RACKS + cluster("a", pools=pool("p", 2, "NC_P22_112_v1"), count=3)
    changed = change(SITE + content, after + content)
    assert not any(record.data for record in changed.impact.consequences)


def test_replaced_manifest_loses_only_data() -> None:
    for documents, severity, data in (
        ((NAMESPACE, DEPLOYMENT % 2), ConsequenceSeverity.NONE, None),
        ((NAMESPACE, CLAIM % ""), ConsequenceSeverity.LASTING, DataFate.LOST),
    ):
        text = build_direct(*documents)
        replaced = change(text, text, replaces=("fleet_hub_manifest.web",))
        record = find_consequences(replaced)["Namespace web and 1 object"]
        assert (record.kind, record.severity, record.data) == ("replaced", severity, data)


def test_placement_at_another_address_loses_what_a_replaced_one_loses() -> None:
    """It is deleted before it is created again, so its objects end on the clusters."""
    text = build_fleet(CLAIM % "", DEPLOYMENT % 3)
    renamed = text.replace('_placement" "p" {', '_placement" "q" {\n  name = "p"')
    changed = change(text, renamed)
    (record,) = changed.impact.consequences
    assert record.text == (
        "placement p is deleted and created again on a and b; Namespace web and 2 objects are "
        "deleted; the data of PersistentVolumeClaim web/data is lost"
    )
    assert (record.objects, record.data, record.removed["binding"]) == (6, "lost", 2)
    (advice,) = [item for item in changed.diagnostics if item.id == "destructive-rename"]
    assert "2 fleet bindings would be destroyed" in advice.brief
    assert "(2 fleet bindings) without this moved block" in build_headline(changed)


ROLLING = """strategy {
  rolling_update {
    max_unavailable            = "1"
    unavailable_period_seconds = 60
  }
}"""
EXTERNAL = 'strategy {\n  type = "External"\n}'
APPROVAL = """after_stage_task {
      type = "Approval"
    }"""
RUN = """
resource "fleet_cluster_staged_update_run" "r" {
  placement_name               = "p"
  staged_rollout_strategy_name = fleet_cluster_staged_update_strategy.s.name
  state                        = "Run"
}
"""
TAINTED = 'taint {\n  key    = "x"\n  effect = "NoSchedule"\n}'
TOLERATED = 'placement_type = "PickAll"\n toleration {\n key = "x"\n operator = "Exists"\n }'
BUDGET = """
resource "fleet_placement_disruption_budget" "p" {
  min_available = "2"
}
"""
OVERRIDE = """
resource "fleet_resource_override" "o" {
  namespace = "web"
  resource_selector {
    group   = "apps"
    version = "v1"
    kind    = "Deployment"
    name    = "shop"
  }
  policy {
    override_rule {
      cluster_selector {}
      json_patch_override {
        op    = "replace"
        path  = "/spec/replicas"
        value = "5"
      }
    }
  }
}
"""


DEDICATED = """
      taint {
        key    = "dedicated"
        value  = "upf"
        effect = "NoSchedule"
      }"""


def build_pool(taint: str) -> str:
    return RACKS + cluster("a", pools=pool("p", 2, more=taint) + pool("q", 2))


def build_staged(strategy: str = STAGES, run: str = RUN) -> str:
    members = build_member("a", {"ring": "4"}) + build_member("b", {"ring": "3"})
    content = build_manifest(NAMESPACE, DEPLOYMENT % 2)
    placement = build_placement('placement_type = "PickAll"', EXTERNAL)
    return members + content + placement + strategy + run


def build_rolling(
    strategy: str = ROLLING,
    *,
    more: str = "",
    taint: str = "",
    policy: str = 'placement_type = "PickAll"',
) -> str:
    members = build_member("a", more=taint) + build_member("b")
    content = build_manifest(NAMESPACE, DEPLOYMENT % 2)
    return members + content + build_placement(policy, strategy) + more


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        (build_rolling(), build_rolling(ROLLING.replace('"1"', '"100%"')),
         "placement p changes its rollout from max_unavailable 1 to 100%"),
        (build_rolling(), build_rolling(ROLLING.replace("60", "5")),
         "placement p changes its rollout from unavailable_period_seconds 60 to 5"),
        (build_rolling(more=BUDGET), build_rolling(more=BUDGET.replace("2", "1")),
         "disruption budget p changes from min_available 2 to 1"),
        (build_rolling(more=BUDGET), build_rolling(), "disruption budget p is deleted"),
        (build_rolling(more=OVERRIDE), build_rolling(), "override web/o is deleted"),
        (build_rolling(taint=TAINTED, policy=TOLERATED), build_rolling(policy=TOLERATED),
         "member a loses taint x"),
        (build_staged(run=""), build_staged(STAGES.replace(APPROVAL, ""), run=""),
         "staged strategy s loses the approval after stage one"),
        (build_staged(run=""), build_staged(STAGES.replace(
            'name = "two"', 'name = "two"\n max_concurrency = "2"'), run=""),
         "staged strategy s changes from max_concurrency 1 to 2 in stage two"),
        (build_staged(run=""), build_staged("", run=""), "staged strategy s is deleted"),
        (build_staged(), build_staged(run=""),
         "staged run r is deleted in mid-run: 1 of 2 clusters is updated"),
        (build_staged(), build_staged(run=RUN.replace('"Run"', '"Stop"')),
         "staged run r stops in mid-run: 1 of 2 clusters is updated"),
        (build_pool(DEDICATED), build_pool(""),
         "a loses taint dedicated=upf:NoSchedule, so other pods may come to pool p"),
        (build_pool(DEDICATED), build_pool(DEDICATED.replace("NoSchedule", "PreferNoSchedule")),
         "a loses taint dedicated=upf:NoSchedule, so other pods may come to pool p"),
    ],
)  # fmt: skip
def test_rule_that_ends_or_becomes_weaker_is_a_lasting_risk(
    before: str, after: str, text: str
) -> None:
    changed = change(before, after)
    assert [item.text for item in changed.impact.consequences if item.is_lasting] == [text]
    assert not any(item.is_lasting for item in change(before, before).impact.consequences)


BUDGET_OBJECT = """apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: shop, namespace: web}
spec: {%s, selector: {matchLabels: {app: shop}}}
"""
RANGE = """apiVersion: v1
kind: LimitRange
metadata: {name: sizes, namespace: web}
spec: {limits: [{type: Container, max: {cpu: %s}}]}
"""
PRIORITY = """apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: %s
"""


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        (BUDGET_OBJECT % "minAvailable: 2", BUDGET_OBJECT % "minAvailable: 1",
         "PodDisruptionBudget web/shop on a changes from minAvailable 2 to 1"),
        (BUDGET_OBJECT % "maxUnavailable: 1", BUDGET_OBJECT % "maxUnavailable: 50%",
         "PodDisruptionBudget web/shop on a changes from maxUnavailable 1 to 50%"),
        (BUDGET_OBJECT % "minAvailable: 1", BUDGET_OBJECT % "minAvailable: 2", ""),
        (QUOTA, QUOTA.replace("100", "1k"),
         "ResourceQuota web/limit on a changes from pods 100 to 1k"),
        (QUOTA, QUOTA.replace("pods", "services"),
         "ResourceQuota web/limit on a changes from pods 100 to none"),
        (RANGE % 2, RANGE % "2500m",
         "LimitRange web/sizes on a changes from Container max cpu 2 to 2500m"),
        (RANGE % 2, RANGE % "1500m", ""),
        (PRIORITY % 1000, PRIORITY % 10,
         "PriorityClass high on a changes from value 1000 to 10"),
        (PRIORITY % 10, PRIORITY % 1000, ""),
    ],
)  # fmt: skip
def test_limit_of_pods_that_becomes_weaker_is_a_lasting_risk(
    before: str, after: str, text: str
) -> None:
    shop = (DEPLOYMENT % 1).replace("containers", "priorityClassName: high\n      containers")
    documents = (NAMESPACE, shop)
    changed = change(build_direct(*documents, before), build_direct(*documents, after))
    texts = [item.text for item in changed.impact.consequences if item.is_lasting]
    assert texts == [text] * bool(text)


def test_stricter_rule_or_finished_run_is_no_risk() -> None:
    for before, after in (
        (build_rolling(ROLLING.replace('"1"', '"3"')), build_rolling()),
        (build_rolling(), build_rolling(taint=TAINTED)),
        # After maintenance, placements may return to the member.
        (build_rolling(taint=TAINTED), build_rolling()),
        (build_pool(DEDICATED), build_pool(DEDICATED.replace("NoSchedule", "NoExecute"))),
        (build_staged(STAGES.replace(APPROVAL, "")), build_staged(
            STAGES.replace(APPROVAL, ""), run=RUN.replace('"Run"', '"Stop"'))),
        (build_staged(STAGES.replace(APPROVAL, ""), run=""), build_staged(run="")),
        (build_staged(STAGES.replace(APPROVAL, "")), build_staged(
            STAGES.replace(APPROVAL, ""), run="")),
    ):  # fmt: skip
        assert not any(item.is_lasting for item in change(before, after).impact.consequences)


def test_types_that_place_or_hold_something_declare_consequences() -> None:
    """An entry that holds VMs, bindings, pods or data and declares nothing is an omission."""
    silent = [
        name
        for name, resource_type in build_all_types().resource_types.items()
        if (resource_type.vms is not None or resource_type.placement_kinds)
        and resource_type.consequences == NO_CONSEQUENCES
    ]
    assert silent == []


@st.composite
def draw_fleets(draw: st.DrawFn) -> str:
    """Draw a fleet with contents; a pair of draws is a change."""
    members = [name for name in "abc" if draw(st.integers(0, 3))]
    documents = [
        document
        for document in (
            DEPLOYMENT % draw(st.integers(0, 3)),
            STATEFUL_SET % draw(st.sampled_from(["", DELETED_CLAIMS])),
            CLAIM % "",
            SETTINGS % "settings",
            QUOTA,
        )
        if draw(st.booleans())
    ]
    text = "".join(map(build_member, members))
    text += cluster("k", pools=pool("p", draw(st.integers(1, 3))), count=1)
    if draw(st.integers(0, 3)):
        text += build_member("k", more=f"kubernetes_cluster_id = {CLUSTER.replace('.a.', '.k.')}")
    if draw(st.integers(0, 4)):
        text += build_manifest(NAMESPACE, *documents)
    for name in "pq":
        number = draw(st.integers(0, 3))
        policy = f'placement_type = "PickN"\n    number_of_clusters = {number}'
        if draw(st.booleans()):
            text += build_placement(policy, name=name)
    if draw(st.booleans()):
        direct = (DEPLOYMENT % draw(st.integers(0, 3))).replace("web", "default")
        text += build_manifest(direct, name="direct", cluster_id=CLUSTER.replace(".a.", ".k."))
    return RACKS + text


@settings(
    max_examples=scale_count(60),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(draw_fleets(), draw_fleets(), st.booleans())
def test_each_loss_has_one_consequence_and_colour_and_gate_agree(
    before: str, after: str, is_destroyed: bool
) -> None:
    if plan(before).plan.errored:
        return
    mode = Mode.DESTROY if is_destroyed else Mode.NORMAL
    result = plan(after, build_state(before), mode=mode)
    if result.plan.errored:
        return
    changed = add_site_capacity(result, build_all_types()).plan
    explained: Counter[str] = Counter()
    for consequence in changed.impact.consequences:
        explained.update(consequence.removed)
    totals: Counter[str] = Counter()
    for counted in count_plan_effects(changed):
        if counted.effect in (*REMOVAL_EFFECTS, Effect.LOST):
            totals[counted.kind] += counted.count
    assert explained == totals
    rows = [row for row in changed.placements if compute_effect(row) in REMOVAL_EFFECTS]
    assert explained.total() >= len(rows)
    is_lasting = any(consequence.is_lasting for consequence in changed.impact.consequences)
    checked = apply_limits(changed, parse_guard_rail_limits("risk:0"))
    [gate] = checked.verdicts.guard_rails
    assert (gate.result == "blocked") == is_lasting
    alert = render_markdown(changed, {}).split("\n")[1]
    assert (alert == "> [!CAUTION]") == is_lasting
