"""The domains of nexusform beside its engine, one entry each: what a domain brings, and whom it may import.

The engine imports no domain. It reads this table, and imports what an entry names when a configuration, a
state or a command line asks for it: a plan pays for the domains that it names. An entry whose folder is not
there counts as absent.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from msgspec import Struct

PACKAGE: Final = "nexusform.domains"


class Domain(Struct, frozen=True, kw_only=True):
    """What one domain brings. Modules are named below its folder, objects as `module:NAME`.

    `uses`: the other domains that it may import. `rim`: its rooms and modules that may reach files, clocks
    and sockets. `resource_types` and `data_sources`: names of types to their modules; `nexus_inventory` is
    what its module calls NEXUS_INVENTORY.
    """

    name: str
    what: str
    uses: tuple[str, ...] = ()
    rim: tuple[str, ...] = ()
    resource_types: tuple[str, ...] = ()
    data_sources: tuple[str, ...] = ()

    def object_of(self, target: str) -> Any:
        """Import what a field names as `module:NAME`."""
        module, _, name = target.partition(":")
        return getattr(import_module(f"{PACKAGE}.{self.name}.{module}"), name)


_ALL: Final = (
    Domain(
        name="azure",
        what="A site as Azure shows it, and acting on it",
        rim=("providers", "workflow", "cli"),
        data_sources=("nexus_inventory",),
    ),
    Domain(
        name="vnf",
        what="VNFs: what TOSCA and HOT files ask of machines and of one another",
        resource_types=("tacker_vnf",),
    ),
    Domain(
        name="pods",
        what="Pods on nodes, as kube-scheduler and the controllers around it place them",
        data_sources=("kubernetes_nodes",),
    ),
    Domain(
        name="fleet",
        what="Placements on the member clusters of a fleet, as KubeFleet decides them",
        uses=("pods",),
        rim=("workflow",),
        resource_types=(
            "fleet_member_cluster",
            "fleet_hub_manifest",
            "fleet_cluster_resource_override",
            "fleet_resource_override",
            "fleet_placement_disruption_budget",
            "fleet_placement_eviction",
            "fleet_cluster_staged_update_strategy",
            "fleet_cluster_staged_update_run",
            "fleet_staged_update_strategy",
            "fleet_staged_update_run",
            "fleet_cluster_approval_request",
            "fleet_approval_request",
            "fleet_cluster_resource_placement",
            "fleet_resource_placement",
        ),
        data_sources=("fleet_hub_export", "kubernetes_manifests", "fleet_cluster_request"),
    ),
    Domain(
        name="whatif",
        what="Questions: what would happen if",
        uses=("fleet", "pods", "remote_state"),
        rim=("workflow", "cli"),
    ),
    Domain(
        name="testing",
        what="`nexusform test`: assertions over plans",
        rim=("workflow", "cli"),
    ),
    Domain(name="editor", what="The language server", rim=("cli",)),
    Domain(name="explorer", what="A plan to play with in a browser", rim=("server", "cli")),
    Domain(
        name="remote_state",
        what="State where a team reaches it: remote backends and encryption",
        rim=("backends", "encryption", "workflow"),
    ),
)


@cache
def domains() -> Mapping[str, Domain]:
    """The domains whose folders are there, by name."""
    return {each.name: each for each in _ALL if find_spec(f"{PACKAGE}.{each.name}") is not None}
