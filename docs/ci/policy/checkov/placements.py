"""Checks of placements for checkov.

Every check reads the plan file of checkov.
"""

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

# Triggers that allow a VM to move.
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
        """Return the planned values of a resource, without values known only after apply."""
        rows = self.changes.get(address, ())
        return next((row["change"]["after"] for row in rows if row["change"]["after"]), {})


def by_address(rows: list[dict[str, Any]]) -> dict[str | None, list[dict[str, Any]]]:
    """Group rows by their address; None holds rows without a resource."""
    groups: dict[str | None, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[row.get("address")].append(row)
    return dict(groups)


plan = lru_cache(Plan)


def list_unexpected_moves(plan: Plan, address: str) -> Iterator[str]:
    """Yield VMs that move without a repaired or removed machine."""
    for row in plan.placements.get(address, ()):
        if row["kind"] == "vm" and row["action"] == "move" and row["trigger"] not in REPAIRS:
            places = f"{row['from']['machine']} to {row['to']['machine']}"
            yield f"{row['object']} moves from {places} ({row['trigger']})"


def list_errors(plan: Plan, address: str) -> Iterator[str]:
    """Yield the errors of the plan for a resource, general errors included."""
    for finding in (*plan.diagnostics.get(address, ()), *plan.diagnostics.get(None, ())):
        if finding["level"] == "error":
            yield finding["summary"]


def list_pools_on_one_rack(plan: Plan, address: str) -> Iterator[str]:
    """Yield pools of three or more VMs on one rack."""
    racks = defaultdict(list)
    for node in plan.after(address).get("nodes", {}).values():
        racks[node["pool"]].append(node["rack"])
    for pool, places in racks.items():
        if len(places) >= 3 and len(set(places)) == 1:
            yield f"all VMs of {pool} are on {places[0]}"


def list_destroyed_clusters(plan: Plan, address: str) -> Iterator[str]:
    """Yield the destroyed clusters of a site.

    checkov does not check deleted resources, so the site fails.
    """
    site = plan.after(address).get("id")
    for row in chain.from_iterable(plan.changes.values()):
        change = row["change"]
        is_deleted = row["type"] == "nexus_kubernetes_cluster" and "delete" in change["actions"]
        if is_deleted and change["before"]["site_id"] == site:
            yield f"{row['address']} is destroyed"


def list_warnings(plan: Plan, address: str) -> Iterator[str]:
    """Yield the warnings that the plan causes."""
    for finding in plan.diagnostics.get(address, ()):
        if finding["level"] == "warning" and not finding.get("preexisting"):
            yield finding["summary"]


class PlacementCheck(BaseResourceCheck):
    """A check that fails for a resource with findings, and lists them."""

    def __init__(
        self,
        number: int,
        name: str,
        resources: list[str],
        find_problems: Callable[[Plan, str], Iterator[str]],
    ) -> None:
        super().__init__(
            name, f"CKV_NEXUSFORM_{number}", [CheckCategories.GENERAL_SECURITY], resources
        )
        self._find_problems = find_problems

    def scan_resource_conf(self, conf: dict[str, Any]) -> CheckResult:
        """Check one resource; checkov calls this."""
        self.details = list(
            self._find_problems(plan(force_list(conf["__file__"])[0]), conf["__address__"])
        )
        return CheckResult.FAILED if self.details else CheckResult.PASSED


REPAIRED = "VMs move only for a repaired or removed machine"
SPREAD = "Pools of three or more VMs use two racks"
CHECKS = (
    PlacementCheck(1, REPAIRED, WITH_VMS, list_unexpected_moves),
    PlacementCheck(2, SPREAD, WITH_POOLS, list_pools_on_one_rack),
    PlacementCheck(3, "No cluster is destroyed", ["nexus_site"], list_destroyed_clusters),
    PlacementCheck(
        4, "The plan has no warnings", ["nexus_*", "tacker_*", "fleet_*"], list_warnings
    ),
    PlacementCheck(5, "The plan has no errors", ["nexus_*", "tacker_*", "fleet_*"], list_errors),
)
