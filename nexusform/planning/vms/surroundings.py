"""What resource types may ask of a plan: SKUs, clusters by id, and what a placement hint points at; and the
empty sites that the attributes of objects describe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct, field

from nexusform.address import Address
from nexusform.diagnostics import Diagnostic, did_you_mean, error
from nexusform.planning.preparation.prior import Prior
from nexusform.planning.request import PlanRequest
from nexusform.planning.vms.sites import SitePlan, build_sites
from nexusform.ports import Kind, Registries, ResourceType
from nexusform.scheduling.catalogue import CATALOGUES, NEWEST, catalogue
from nexusform.scheduling.racks.model import Machine, VmSku
from nexusform.scheduling.world import Inventory

Targets: TypeAlias = tuple[frozenset[str], frozenset[str]]


def _nothing(_resource_id: str) -> Targets | None:
    return None


class PlanSurroundings(Struct):
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


def vm_skus(request: PlanRequest, inventory: Inventory) -> tuple[dict[str, VmSku], list[Diagnostic]]:
    """All VM SKUs: the catalogue's of the plan's version, and
    the user's own.
    """
    version = catalogue_version(request)
    listed = catalogue(version)
    problems = []
    if listed is None:
        known = ", ".join(sorted(CATALOGUES))
        detail = f'There is no SKU catalogue "{version}".{did_you_mean(version, CATALOGUES)} Known: {known}.'
        span = request.configuration.settings.sku_catalogue_span
        problems.append(error("unknown-sku-catalogue", detail, span))
        listed = CATALOGUES[NEWEST]
    own = {sku.name: sku for sku in inventory.skus.values()}
    return {**listed.vm_skus, **own}, problems


def catalogue_version(request: PlanRequest) -> str:
    """The version that the plan uses and state will record."""
    return request.configuration.settings.sku_catalogue or request.state.catalogue or NEWEST


def surroundings_before(
    prior: Prior, skus: Mapping[str, VmSku], types: Mapping[str, ResourceType]
) -> PlanSurroundings:
    """The SKUs and clusters as they stood: what prior arguments meant."""
    inventory = Inventory()
    clusters: dict[str, Mapping[str, Any]] = {}
    for address in prior.instances:
        resource_type, current = types.get(address.type), prior.object(address)
        if resource_type is None or current is None:
            continue
        if resource_type.kind is Kind.CLUSTER:
            clusters.setdefault(resource_type.identify(current.attributes), current.attributes)
        elif resource_type.kind is Kind.VM_SKU and resource_type.offer is not None:
            resource_type.offer(current.attributes, str(address), inventory)
    # Of a SKU that is declared still, today's figures count.
    own = {sku.name: sku for sku in inventory.skus.values()}
    return PlanSurroundings({**own, **skus}, clusters, lambda _resource_id: (frozenset(), frozenset()))


# --- the sites that objects describe -----------------------------------------------------------


class Thing(Struct, frozen=True):
    """One object: its address, attributes (plain data) and creation number."""

    address: Address
    attributes: Mapping[str, Any]
    creation: int


class Ground(Struct, frozen=True):
    """The sites that things describe, by id and without any VM.

    `things` are those of known types, in the order given, with their type. `skus` are all VM SKUs that
    may be asked for; `surroundings` is what the demands of the things are read against.
    """

    sites: Mapping[str, SitePlan]
    things: tuple[tuple[ResourceType, Thing], ...]
    skus: Mapping[str, VmSku]
    surroundings: PlanSurroundings


def lay_ground(things: Iterable[Thing], registries: Registries, catalogue: str = "") -> Ground:
    """Build the sites. `catalogue` is the SKU catalogue's version ("" or an unknown one = the newest)."""
    types = registries.resource_types
    known = tuple(
        (types[thing.address.type], thing)
        for thing in things
        if thing.address.mode == "managed" and thing.address.type in types
    )
    inventory = Inventory()
    for kind, thing in sorted(known, key=lambda pair: pair[0].phase):
        if kind.offer is not None:
            kind.offer(thing.attributes, str(thing.address), inventory)
    catalogued = (CATALOGUES.get(catalogue) or CATALOGUES[NEWEST]).vm_skus
    skus = {**catalogued, **{sku.name: sku for sku in inventory.skus.values()}}
    # Where hints point decides nothing any more: everybody has a place.
    surroundings = PlanSurroundings(skus, targets=lambda _id: (frozenset(), frozenset()))
    for kind, thing in known:
        if kind.kind is Kind.CLUSTER:
            surroundings.clusters.setdefault(kind.identify(thing.attributes), thing.attributes)
    return Ground(build_sites(inventory)[0], known, skus, surroundings)
