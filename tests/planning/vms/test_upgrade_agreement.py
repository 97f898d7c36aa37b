"""Tests of agreement: a plan and `simulate kubernetes-upgrade` give equal verdicts.

200 random version changes are tried.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import DiagnosticsError
from nexusform.domains.whatif.questions.kubernetes_upgrade_path import find_upgrade_path
from nexusform.domains.whatif.questions.pod_snapshot import build_pods
from nexusform.planning.conclusion.site_records import add_site_capacity
from nexusform.plans.maintenance import Upgrade
from nexusform.plans.site_capacity.site_resource_capacity import (
    SiteResources,
    build_site_resources_note,
)
from nexusform.rendering.report.upgrade_sentences import build_upgrade_runbook
from nexusform.snapshots.snapshot import build_snapshot, list_state_objects
from nexusform.state.objects import State
from tests.domains.whatif.questions.failures import build_start
from tests.planning.harness import build_all_types, cluster, plan, pool
from tests.worlds.small_worlds import build_applied_state, build_racks

pytestmark = pytest.mark.of_domains("fleet")

SITES = 10
CHANGES_PER_SITE = 10
SKUS = ("NC_G6_28_v1", "NC_P22_112_v1", "NC_P46_224_v1")
SETTINGS = (
    "",
    'max_surge = "2"\n drain_timeout = 600',
    'max_surge = "50%"',
    'max_surge = "0"\n max_unavailable = "1"\n drain_timeout = 3600',
    'max_surge = "0"\n max_unavailable = "3"',
)
SHOP = """
resource "fleet_hub_manifest" "shop" {{
  cluster_id = nexus_kubernetes_cluster.a.id
  yaml_body  = <<-YAML
    apiVersion: apps/v1
    kind: Deployment
    metadata: {{name: shop, namespace: default}}
    spec:
      replicas: {replicas}
      selector: {{matchLabels: {{app: shop}}}}
      template:
        metadata: {{labels: {{app: shop}}}}
        spec: {{containers: [{{name: shop, image: shop}}]}}
    ---
    apiVersion: policy/v1
    kind: PodDisruptionBudget
    metadata: {{name: shop, namespace: default}}
    spec:
      minAvailable: {available}
      selector: {{matchLabels: {{app: shop}}}}
  YAML
}}
"""


class Sample:
    """A random site with one cluster, its pods and a catalogue."""

    def __init__(self, random: Random) -> None:
        settings = [random.choice(SETTINGS) for _ in range(2)]
        blocks = [f"upgrade_settings {{\n {text}\n}}" if text else "" for text in settings]
        pools = "".join(
            pool(name, random.randint(1, 4), random.choice(SKUS), more=block)
            for name, block in zip("pq", blocks, strict=True)
        )
        count = random.choice([1, 3])
        replicas = random.randint(1, 2)
        self.workloads = SHOP.format(replicas=replicas, available=random.randint(0, replicas))
        self.workloads = random.choice(["", self.workloads])
        machines = random.choice([(4,), (3, 3), (6, 2), (8,)])
        self.rest = build_racks(*machines) + self.workloads
        self.arguments = {"count": count, "pools": pools}
        self.version = random.choice(["1.30.3", "v1.30.3", "v1.29.8"])
        state = build_applied_state(self.build_text(self.version))
        self.supplies = random.choice([None, self.build_site_supplies(random)])
        self.state = state if self.supplies is None else record_supplies(state, self.supplies)

    def build_text(self, version: str) -> str:
        arguments: Any = self.arguments
        return self.rest + cluster("a", arguments=f'kubernetes_version = "{version}"', **arguments)

    def build_site_supplies(self, random: Random) -> SiteResources:
        all_versions = [
            "v1.29.8-4.1.0",
            "v1.30.3-4.2.0",
            "v1.30.5-4.2.0",
            "v1.31.2-4.3.0",
            "v1.32.1-4.4.0",
        ]
        versions = tuple(sorted(random.sample(all_versions, random.randint(1, 5))))
        ends = tuple(
            (text, random.choice(["2025-12-31", "2026-02-28", "2027-01-31"])) for text in versions
        )
        offers = tuple(random.sample(all_versions, 2)) if random.random() < 0.5 else ()
        return SiteResources(
            versions=versions, available_until=ends, upgrades=(("a", offers),) if offers else ()
        )


def record_supplies(state: State, supplies: SiteResources) -> State:
    address, instance = next((a, i) for a, i in state.instances.items() if a.type == "nexus_site")
    assert instance.current is not None
    noted = replace(
        instance, current=replace(instance.current, private=build_site_resources_note(supplies))
    )
    return state.replace_instance(address, noted)


def draw_version(random: Random) -> str:
    # A likely next version, for frequent upgrades.
    if random.random() < 0.6:
        return random.choice(["1.30", "1.30.5", "v1.31", "1.31.2", "v1.31.2-4.3.0"])
    minor = random.randint(27, 34)
    patch = random.choice(["", f".{random.randint(0, 9)}"])
    return random.choice(["", "v"]) + f"{random.choice([1, 1, 1, 2])}.{minor}{patch}"


def describe_verdicts(upgrade: Upgrade) -> dict[str, Any]:
    """Return all verdicts on one upgrade as text."""
    return {
        "pools": [
            (p.pool, p.vms, p.batches, p.minimum_up, p.failed_batch, p.quorum, p.is_lost)
            for p in upgrade.pools
        ],
        "budgets": upgrade.budgets,
        "single_replicas": upgrade.single_replicas,
        "hours": upgrade.drain_hours,
        "lost": upgrade.lost_pools,
        "feasible": upgrade.is_feasible,
        "runbook": build_upgrade_runbook(upgrade),
    }


def get_plan_verdicts(sample: Sample, version: str) -> Any:
    result = add_site_capacity(
        plan(sample.build_text(version), sample.state), build_all_types()
    ).plan
    rejections = [
        (p.id, p.detail)
        for p in result.diagnostics
        if p.severity.value == "error"
        and p.id in ("no-such-upgrade", "abandoned-kubernetes-version")
    ]
    return rejections or [describe_verdicts(upgrade) for upgrade in result.impact.upgrades]


def get_simulation_verdicts(sample: Sample, version: str) -> Any:
    things = list_state_objects(sample.state)
    snapshot = build_snapshot(things, build_all_types(), sample.state.catalogue)
    site = snapshot.sites["s"]
    try:
        [way] = find_upgrade_path(
            build_start(sample.state),
            site,
            site.clusters,
            version,
            build_pods(sample.state, build_all_types()),
            "2026-01-01T00:00:00Z",
        ).clusters
    except DiagnosticsError as problem:
        return [(p.id, p.detail) for p in problem.diagnostics]
    if len(way.hops) > 1:
        return f"set v{way.hops[0].end} next"
    return [describe_verdicts(hop.course) for hop in way.hops]


def test_plan_and_simulation_agree() -> None:
    random = Random(48)
    verdicts: dict[str, int] = {}
    for _ in range(SITES):
        sample = Sample(random)
        for _ in range(CHANGES_PER_SITE):
            version = draw_version(random)
            planned = get_plan_verdicts(sample, version)
            simulated = get_simulation_verdicts(sample, version)
            if isinstance(simulated, str):
                [(_, detail)] = planned
                assert simulated in detail, version
                kind = "skips"
            else:
                assert planned == simulated, (version, sample.version, sample.supplies)
                first = simulated[0] if simulated else ()
                kind = "none" if not first else "upgrade" if isinstance(first, dict) else first[0]
                for name in (
                    ("budgets", "lost", "single_replicas") if isinstance(first, dict) else ()
                ):
                    verdicts[name] = verdicts.get(name, 0) + bool(first[name])
                if isinstance(first, dict) and not first["feasible"]:
                    verdicts["infeasible"] = verdicts.get("infeasible", 0) + 1
            verdicts[kind] = verdicts.get(kind, 0) + 1
    frequent = {kind for kind, count in verdicts.items() if count > 1}
    assert frequent == {
        *("none", "upgrade", "skips", "no-such-upgrade", "abandoned-kubernetes-version"),
        *("budgets", "lost", "single_replicas", "infeasible"),
    }
