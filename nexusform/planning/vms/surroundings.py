"""What resource types may ask of a plan: SKUs, clusters by id, and what a placement hint points at."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from nexusform.scheduling.racks.model import Machine, VmSku

CLUSTER_TYPE = "nexus_kubernetes_cluster"

Targets: TypeAlias = tuple[frozenset[str], frozenset[str]]


def _nothing(_resource_id: str) -> Targets | None:
    return None


@dataclass(slots=True)
class PlanSurroundings:
    """The answers at one moment of a plan (a Surroundings of the ports)."""

    skus: Mapping[str, VmSku]
    clusters: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    targets: Callable[[str], Targets | None] = _nothing
    sites: Mapping[str, Sequence[Machine]] = field(default_factory=dict)

    def sku(self, name: str) -> VmSku | None:
        """A VM SKU by name."""
        return self.skus.get(name)

    def sku_names(self) -> Sequence[str]:
        """All known SKU names, sorted."""
        return sorted(self.skus)

    def cluster(self, cluster_id: str) -> Mapping[str, Any] | None:
        """The attributes of the cluster with this id."""
        return self.clusters.get(cluster_id)

    def hint_targets(self, resource_id: str) -> Targets | None:
        """Machines and racks that a hint's resource_id stands for."""
        return self.targets(resource_id)

    def machines(self, site_id: str) -> Sequence[Machine] | None:
        """The machines of a site."""
        return self.sites.get(site_id)
