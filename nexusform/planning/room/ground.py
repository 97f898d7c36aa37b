"""The sites that objects describe, empty: built from attributes of a state, or of one side of a plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from nexusform.address import Address
from nexusform.planning.vms.sites import SitePlan, build_sites
from nexusform.planning.vms.surroundings import PlanSurroundings
from nexusform.ports import Kind, Registries, ResourceType
from nexusform.scheduling.catalogue import CATALOGUES, NEWEST
from nexusform.scheduling.racks.model import VmSku
from nexusform.scheduling.world import Inventory


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
