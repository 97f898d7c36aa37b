"""Which claims are made on the storage appliance of a site, and how much each asks."""

from __future__ import annotations

import pytest

from nexusform.domains.pods.importers.appliance_claims import collect_appliance_claims
from nexusform.domains.pods.importers.manifest_parser import parse_manifests
from nexusform.domains.pods.planning.storage_claims import compute_planned_storage_demand, compute_storage_demand

GIB = 1024**3


def claims(text: str, pods: dict[str, int] | None = None, **options: object):  # noqa: ANN201
    reading = parse_manifests("objects.yaml", text)
    assert not reading.findings
    return collect_appliance_claims(reading.manifests, pods or {}, **options)  # type: ignore[arg-type]


def claim(name: str, size: str = "10Gi", storage_class: str = "nexus-volume", more: str = "", status: str = "") -> str:
    return f"""---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: {name}, namespace: default}}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: "{storage_class}"
  resources: {{requests: {{storage: {size}}}}}
  {more}
{status}
"""


def storage_class(name: str, provisioner: str, *, default: bool = False) -> str:
    marks = "{storageclass.kubernetes.io/is-default-class: 'true'}" if default else "{}"
    return f"""---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {{name: {name}, annotations: {marks}}}
provisioner: {provisioner}
"""


def stateful_set(replicas: int, policy: str = "{}", start: int = 0, size: str = "10Gi") -> str:
    return f"""---
apiVersion: apps/v1
kind: StatefulSet
metadata: {{name: db, namespace: default}}
spec:
  replicas: {replicas}
  serviceName: db
  ordinals: {{start: {start}}}
  persistentVolumeClaimRetentionPolicy: {policy}
  selector: {{matchLabels: {{app: db}}}}
  template:
    metadata: {{labels: {{app: db}}}}
    spec: {{containers: [{{name: db, image: db:1}}]}}
  volumeClaimTemplates:
  - metadata: {{name: data}}
    spec:
      accessModes: [ReadWriteOnce]
      storageClassName: nexus-volume
      resources: {{requests: {{storage: {size}}}}}
"""


STATEFUL = frozenset({("default", "db")})


def after(before: str, now: str, stateful: frozenset[tuple[str, str]] = STATEFUL):  # noqa: ANN201
    return compute_planned_storage_demand(claims(before), claims(now), stateful, frozenset())


def test_each_template_makes_a_claim_for_each_pod() -> None:
    assert list(claims(stateful_set(3, start=2))) == [f"default/data-db-{at}" for at in (2, 3, 4)]


def test_a_claim_that_stands_under_the_name_of_a_template_is_that_claim() -> None:
    found = claims(stateful_set(2) + claim("data-db-0", "7Gi", more="volumeName: pv1"))
    assert {name: (each.size, each.is_bound) for name, each in found.items()} == {
        "default/data-db-0": (7 * GIB, True),
        "default/data-db-1": (10 * GIB, None),
    }


@pytest.mark.parametrize(
    ("classes", "written", "counts"),
    [
        ("", "nexus-volume", True),
        ("", "nexus-shared", False),
        ("", "local-path", False),
        ("", "", False),
        (storage_class("nexus-volume", "nexus") + storage_class("fast", "nexus"), "fast", True),
        (storage_class("nexus-volume", "nexus") + storage_class("fast", "other"), "fast", False),
    ],
)
def test_a_claim_counts_by_its_class(classes: str, written: str, *, counts: bool) -> None:
    assert bool(claims(classes + claim("a", storage_class=written))) is counts


@pytest.mark.parametrize(
    ("classes", "counts"),
    [
        ("", True),
        (storage_class("nexus-volume", "nexus", default=True), True),
        (storage_class("local-path", "other", default=True), False),
        # There is no default class: it waits for a volume that somebody makes.
        (storage_class("local-path", "other"), False),
    ],
)
def test_a_claim_without_a_class_has_the_default(classes: str, *, counts: bool) -> None:
    text = claim("a").replace('  storageClassName: "nexus-volume"\n', "")
    assert bool(claims(classes + text)) is counts


def test_claims_that_come_with_pods_are_as_many_as_these() -> None:
    text = """
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: log, namespace: default}
spec:
  selector: {matchLabels: {app: log}}
  template:
    metadata: {labels: {app: log}}
    spec:
      containers: [{name: log, image: log:1}]
      volumes:
      - name: scratch
        ephemeral:
          volumeClaimTemplate:
            spec:
              accessModes: [ReadWriteOnce]
              storageClassName: nexus-volume
              resources: {requests: {storage: 5Gi}}
"""
    demand = compute_storage_demand(claims(text, {"default/DaemonSet/log": 4}))
    assert demand.size == 20 * GIB


def test_what_was_seen_unbound_waits_and_what_was_seen_bound_does_not() -> None:
    text = claim("a", more="volumeName: pv1") + claim("b", "3Gi")
    seen = frozenset({("default", "a"), ("default", "b")})
    demand = compute_storage_demand(claims(text, observed_names=seen, is_complete=True))
    assert (demand.size, demand.unbound_size, demand.unverified_sizes) == (13 * GIB, 3 * GIB, ())


def test_a_claim_that_is_made_larger_asks_for_the_rest() -> None:
    demand = after(claim("a", "10Gi"), claim("a", "25Gi"))
    assert (demand.size, demand.unbound_size) == (25 * GIB, 15 * GIB)
    # Half of the way: its volume has not grown yet.
    status = "status: {capacity: {storage: 10Gi}}"
    growing = compute_storage_demand(claims(claim("a", "25Gi", more="volumeName: pv1", status=status)))
    assert (growing.size, growing.unbound_size) == (25 * GIB, 15 * GIB)


def test_a_claim_that_goes_leaves_its_room() -> None:
    demand = after(claim("a", "10Gi") + claim("b", "2Gi"), claim("b", "2Gi"))
    assert (demand.size, demand.unbound_size) == (2 * GIB, -10 * GIB)


@pytest.mark.parametrize(
    ("policy", "now", "left"),
    [
        ("{}", stateful_set(3), 5),
        ("{whenScaled: Delete}", stateful_set(3), 3),
        ("{whenDeleted: Delete}", stateful_set(3), 5),
        ("{}", "", 5),
        ("{whenDeleted: Delete}", "", 0),
        ("{whenScaled: Delete}", "", 5),
    ],
)
def test_claims_outlive_their_pods_unless_their_stateful_set_says_otherwise(policy: str, now: str, left: int) -> None:
    demand = after(stateful_set(5, policy), now, STATEFUL if now else frozenset())
    assert demand.size == left * 10 * GIB


def test_a_template_scaled_out_asks_for_new_claims_alone() -> None:
    demand = after(stateful_set(3), stateful_set(5, size="20Gi"))
    assert (demand.size, demand.unbound_size) == ((3 * 10 + 2 * 20) * GIB, 2 * 20 * GIB)


def test_a_claim_that_cannot_be_read_is_named() -> None:
    text = claim("a").replace("resources: {requests: {storage: 10Gi}}", "")
    assert compute_storage_demand(claims(text)).unsized_claim == "default/a"
