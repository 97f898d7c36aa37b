"""What checkov asks of the placements in a plan: every check reads the plan file that checkov was given."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

from checkov.common.models.enums import CheckCategories, CheckResult
from checkov.common.util.type_forcers import force_list
from checkov.terraform.checks.resource.base_resource_check import BaseResourceCheck

# Reasons for which a VM may move without anybody being asked.
REPAIRS = {"machine_removed", "machine_evacuated", "node_deleted", "heal"}
WITH_POOLS = ["nexus_kubernetes_cluster", "nexus_agent_pool"]
WITH_VMS = [*WITH_POOLS, "nexus_virtual_machine", "tacker_vnf"]


class Plan:
    """A plan as JSON, its rows by the address of their resource."""

    def __init__(self, path: str) -> None:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
        self.changes = by_address(document["resource_changes"])
        self.placements = by_address(document["placement_changes"])
        self.diagnostics = by_address(document["diagnostics"])

    def after(self, address: str) -> dict[str, Any]:
        """A resource as the plan leaves it; what is known only after apply is absent."""
        rows = self.changes.get(address, ())
        return next((row["change"]["after"] for row in rows if row["change"]["after"]), {})


def by_address(rows: list[dict[str, Any]]) -> dict[str | None, list[dict[str, Any]]]:
    """Rows by their address; None holds those that speak of no resource."""
    found: dict[str | None, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        found[row.get("address")].append(row)
    return dict(found)


plan = lru_cache(Plan)


def moves_but_for_repairs(plan: Plan, address: str) -> Iterator[str]:
    """VMs that move although no machine of theirs is repaired or lost."""
    for row in plan.placements.get(address, ()):
        if row["kind"] == "vm" and row["action"] == "move" and row["trigger"] not in REPAIRS:
            places = f"{row['from']['machine']} to {row['to']['machine']}"
            yield f"{row['object']} moves from {places} ({row['trigger']})"


def refusals(plan: Plan, address: str) -> Iterator[str]:
    """Why the plan is refused. What speaks of no resource is said of each."""
    for finding in (*plan.diagnostics.get(address, ()), *plan.diagnostics.get(None, ())):
        if finding["level"] == "error":
            yield finding["summary"]


def pools_on_one_rack(plan: Plan, address: str) -> Iterator[str]:
    """Pools of three VMs or more that all stand on one rack."""
    racks = defaultdict(list)
    for node in plan.after(address).get("nodes", {}).values():
        racks[node["pool"]].append(node["rack"])
    for pool, places in racks.items():
        if len(places) >= 3 and len(set(places)) == 1:
            yield f"all of {pool} stands on {places[0]}"


def destroyed_clusters(plan: Plan, address: str) -> Iterator[str]:
    """Clusters of a site that are destroyed. checkov sees no resource that goes, so the site answers."""
    site = plan.after(address).get("id")
    for row in chain.from_iterable(plan.changes.values()):
        change = row["change"]
        goes = row["type"] == "nexus_kubernetes_cluster" and "delete" in change["actions"]
        if goes and change["before"]["site_id"] == site:
            yield f"{row['address']} is destroyed"


def warnings(plan: Plan, address: str) -> Iterator[str]:
    """What the plan warns of."""
    for finding in plan.diagnostics.get(address, ()):
        if finding["level"] == "warning" and not finding.get("held_before"):
            yield finding["summary"]


class PlacementCheck(BaseResourceCheck):
    """A check that fails for a resource when the plan holds anything against it, and says what."""

    def __init__(
        self, number: int, name: str, resources: list[str], objections: Callable[[Plan, str], Iterator[str]]
    ) -> None:
        super().__init__(name, f"CKV_NEXUSFORM_{number}", [CheckCategories.GENERAL_SECURITY], resources)
        self._objections = objections

    def scan_resource_conf(self, conf: dict[str, Any]) -> CheckResult:
        """What checkov calls for every resource."""
        self.details = list(self._objections(plan(force_list(conf["__file__"])[0]), conf["__address__"]))
        return CheckResult.FAILED if self.details else CheckResult.PASSED


REPAIRED = "VMs move only because a machine is repaired or lost"
SPREAD = "Pools of three VMs or more stand on two racks"
CHECKS = (
    PlacementCheck(1, REPAIRED, WITH_VMS, moves_but_for_repairs),
    PlacementCheck(2, SPREAD, WITH_POOLS, pools_on_one_rack),
    PlacementCheck(3, "No cluster is destroyed in passing", ["nexus_site"], destroyed_clusters),
    PlacementCheck(4, "The plan warns of nothing", ["nexus_*", "tacker_*", "fleet_*"], warnings),
    PlacementCheck(5, "The plan is not refused", ["nexus_*", "tacker_*", "fleet_*"], refusals),
)
