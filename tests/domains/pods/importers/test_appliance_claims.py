"""Tests of claims on the storage appliance of a site, and of their sizes."""

from __future__ import annotations

import pytest

from nexusform.domains.pods.importers.appliance_claims import (
    collect_appliance_claims,
    compute_planned_storage_demand,
    compute_storage_demand,
)
from nexusform.domains.pods.importers.manifest_parser import parse_manifests

GIB = 1024**3


def collect_claims(text: str, pods: dict[str, int] | None = None, **options: object):  # noqa: ANN201
    reading = parse_manifests("objects.yaml", text)
    assert not reading.findings
    return collect_appliance_claims(reading.manifests, pods or {}, **options)  # type: ignore[arg-type]


def build_claim(
    name: str,
    size: str = "10Gi",
    storage_class: str = "nexus-volume",
    more: str = "",
    status: str = "",
) -> str:
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


def build_storage_class(
    name: str, provisioner: str, *, default: bool = False, created: str = ""
) -> str:
    marks = "{storageclass.kubernetes.io/is-default-class: 'true'}" if default else "{}"
    return f"""---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {{name: {name}, annotations: {marks}, creationTimestamp: "{created}"}}
provisioner: {provisioner}
"""


def build_stateful_set(
    replicas: int, policy: str = "{}", start: int = 0, size: str = "10Gi"
) -> str:
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


def compute_demand_after(before: str, now: str, stateful: frozenset[tuple[str, str]] = STATEFUL):  # noqa: ANN201
    return compute_planned_storage_demand(
        collect_claims(before), collect_claims(now), stateful, frozenset()
    )


def test_template_makes_a_claim_for_each_pod() -> None:
    assert list(collect_claims(build_stateful_set(3, start=2))) == [
        f"default/data-db-{at}" for at in (2, 3, 4)
    ]


def test_existing_claim_with_template_name_is_that_claim() -> None:
    found = collect_claims(
        build_stateful_set(2) + build_claim("data-db-0", "7Gi", more="volumeName: pv1")
    )
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
        (
            build_storage_class("nexus-volume", "nexus") + build_storage_class("fast", "nexus"),
            "fast",
            True,
        ),
        (
            build_storage_class("nexus-volume", "nexus") + build_storage_class("fast", "other"),
            "fast",
            False,
        ),
    ],
)
def test_claim_counts_by_its_class(classes: str, written: str, *, counts: bool) -> None:
    assert bool(collect_claims(classes + build_claim("a", storage_class=written))) is counts


DEFAULT_2026 = build_storage_class(
    "nexus-volume", "nexus", default=True, created="2026-01-01T00:00:00Z"
)


@pytest.mark.parametrize(
    ("classes", "counts"),
    [
        ("", True),
        (build_storage_class("nexus-volume", "nexus", default=True), True),
        (build_storage_class("local-path", "other", default=True), False),
        # Of several ones the newest counts, else the first by name.
        (
            DEFAULT_2026
            + build_storage_class("a-local", "other", default=True, created="2025-01-01T00:00:00Z"),
            True,
        ),
        (
            DEFAULT_2026
            + build_storage_class("z-local", "other", default=True, created="2026-01-02T00:00:00Z"),
            False,
        ),
        (
            DEFAULT_2026
            + build_storage_class("z-local", "other", default=True, created="2026-01-01T00:00:00Z"),
            True,
        ),
        # Without a default class, it waits for a manually created volume.
        (build_storage_class("local-path", "other"), False),
    ],
)
def test_claim_without_class_uses_the_default(classes: str, *, counts: bool) -> None:
    text = build_claim("a").replace('  storageClassName: "nexus-volume"\n', "")
    assert bool(collect_claims(classes + text)) is counts


def test_generic_ephemeral_claims_match_number_of_pods() -> None:
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
    demand = compute_storage_demand(collect_claims(text, {"default/DaemonSet/log": 4}))
    assert demand.size == 20 * GIB


def test_observed_unbound_claim_waits_and_bound_claim_does_not() -> None:
    text = build_claim("a", more="volumeName: pv1") + build_claim("b", "3Gi")
    seen = frozenset({("default", "a"), ("default", "b")})
    demand = compute_storage_demand(collect_claims(text, observed_names=seen, is_complete=True))
    assert (demand.size, demand.unbound_size, demand.unverified_sizes) == (13 * GIB, 3 * GIB, ())


def test_enlarged_claim_requests_the_difference() -> None:
    demand = compute_demand_after(build_claim("a", "10Gi"), build_claim("a", "25Gi"))
    assert (demand.size, demand.unbound_size) == (25 * GIB, 15 * GIB)
    # Its volume has not grown yet.
    status = "status: {capacity: {storage: 10Gi}}"
    growing = compute_storage_demand(
        collect_claims(build_claim("a", "25Gi", more="volumeName: pv1", status=status))
    )
    assert (growing.size, growing.unbound_size) == (25 * GIB, 15 * GIB)


def test_deleted_claim_frees_capacity() -> None:
    demand = compute_demand_after(
        build_claim("a", "10Gi") + build_claim("b", "2Gi"), build_claim("b", "2Gi")
    )
    assert (demand.size, demand.unbound_size) == (2 * GIB, -10 * GIB)


@pytest.mark.parametrize(
    ("policy", "now", "left"),
    [
        ("{}", build_stateful_set(3), 5),
        ("{whenScaled: Delete}", build_stateful_set(3), 3),
        ("{whenDeleted: Delete}", build_stateful_set(3), 5),
        ("{}", "", 5),
        ("{whenDeleted: Delete}", "", 0),
        ("{whenScaled: Delete}", "", 5),
    ],
)
def test_claims_outlive_pods_unless_retention_policy_deletes_them(
    policy: str, now: str, left: int
) -> None:
    demand = compute_demand_after(
        build_stateful_set(5, policy), now, STATEFUL if now else frozenset()
    )
    assert demand.size == left * 10 * GIB


def test_scaled_out_template_requests_only_new_claims() -> None:
    demand = compute_demand_after(build_stateful_set(3), build_stateful_set(5, size="20Gi"))
    assert (demand.size, demand.unbound_size) == ((3 * 10 + 2 * 20) * GIB, 2 * 20 * GIB)


def test_claim_without_size_is_named() -> None:
    text = build_claim("a").replace("resources: {requests: {storage: 10Gi}}", "")
    assert compute_storage_demand(collect_claims(text)).unsized_claim == "default/a"
