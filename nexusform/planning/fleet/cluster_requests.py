"""Clusters that a fleet asks for: which sites hold them after the plan, and whether they meet the terms.

The answers stand in the data blocks, read once VMs, members and placements are planned.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from nexusform.address import Address
from nexusform.configuration.configuration import ResourceBlock
from nexusform.diagnostics import Diagnostic, did_you_mean, error, warning
from nexusform.importers.fleet_model import FleetMember
from nexusform.plain_data import Path
from nexusform.planning.fleet.world import member_of
from nexusform.planning.names.evaluation import Evaluation
from nexusform.planning.names.repetition import ObjectView, ResourceView
from nexusform.planning.request import PlanRequest
from nexusform.planning.vms.nodes import NodeCluster, total_of
from nexusform.planning.vms.sites import SitePlan
from nexusform.planning.vms.vm_world import VmWorld
from nexusform.scheduling.fleet.bindings import Member
from nexusform.scheduling.fleet.cluster_requests import ClusterRequest, RequestSelector, unmet
from nexusform.scheduling.fleet.properties import ALLOCATABLE, AVAILABLE, RESOURCE_PREFIX, TOTAL
from nexusform.scheduling.kubelet import Kubelet, allocatable, capacity
from nexusform.scheduling.pods.workloads import Node
from nexusform.scheduling.racks.vms import Interval, Terms, VmSku, anybodys, total
from nexusform.values import UNKNOWN
from nexusform.words import counted, listed


def answer_cluster_requests(
    blocks: Iterable[ResourceBlock],
    request: PlanRequest,
    evaluation: Evaluation,
    world: VmWorld,
    members: Iterable[Member],
) -> list[Diagnostic]:
    """Fill in what these data blocks could not read before, and say what does not fit."""
    fleet = sorted(members, key=lambda member: member.name)
    problems: list[Diagnostic] = []
    for block in blocks:
        for module in evaluation.module_instances(block.address.module):
            view = evaluation.resource(module, block)
            items = dict(view.items)
            for key, item in view.items.items():
                if item.attributes is None or item.attributes.get("sites") is not UNKNOWN:
                    continue  # in error, or a test stands in for it
                address = Address(module.path, "data", block.type, block.name, key)
                asked = _Asked(block, address, item, evaluation)
                items[key], wrong = _answered(asked, request, world, fleet)
                problems += wrong
            name = (module.path, block.mode, block.type, block.name)
            evaluation.resources[name] = ResourceView(view.shape, items)
    return problems


class _Asked(Struct, frozen=True):
    # One data block: where it stands, and what it says.
    block: ResourceBlock
    address: Address
    view: ObjectView
    evaluation: Evaluation

    @property
    def template(self) -> Mapping[str, Any]:
        """The cluster that would be made."""
        template: Mapping[str, Any] = (self.view.attributes or {})["template"]
        return template

    def error(self, kind: str, detail: str, path: Path) -> Diagnostic:
        """An error at an argument."""
        prepared = self.evaluation.setting.prepared(self.block)
        span = prepared.locate(path) if prepared is not None else self.block.header_span
        return error(kind, detail, span, address=str(self.address), block=self.block.header)

    def warning(self, kind: str, detail: str) -> Diagnostic:
        """A warning about the block."""
        span = self.block.header_span
        return warning(kind, detail, span, address=str(self.address), block=self.block.header)


def _answered(
    asked: _Asked, request: PlanRequest, world: VmWorld, fleet: list[Member]
) -> tuple[ObjectView, list[Diagnostic]]:
    """The block with its answers; without any where the template is in error."""
    attributes = asked.view.attributes or {}
    sites, skus = world.sites, world.after.skus
    sku = skus.get(str(asked.template["sku"]))
    problems = list(_mistakes(asked, skus, sites))
    if problems or sku is None:
        return replace(asked.view, attributes=None), problems
    source = request.registries.data_sources[asked.block.type]
    assert source.fleet is not None
    document = source.fleet(attributes)
    assert isinstance(document, ClusterRequest)
    cluster = _cluster(asked.template, sku)
    selectors = [_selector(each, document.kind, fleet, cluster) for each in document.selectors]
    lacking = [each for each in selectors if each["missing"] and each["asks"]]
    unmet_terms = list(dict.fromkeys(reason for each in lacking for reason in each["unmet"]))
    rooms = {site.id: _room(site, sku, asked.template) for site in sites.values()}
    answers = {
        "labels": dict(cluster.labels),
        "properties": _properties(cluster),
        "selectors": selectors,
        "meets_terms": all(each["meets_terms"] for each in lacking),
        "unmet": unmet_terms,
        "sites": rooms,
    }
    if lacking:
        problems += _warnings(asked, document, unmet_terms, rooms)
    return replace(asked.view, attributes={**attributes, **answers}), problems


def _mistakes(
    asked: _Asked, skus: Mapping[str, VmSku], sites: Mapping[str, SitePlan]
) -> Iterator[Diagnostic]:
    """What the template names and nobody knows."""
    name = str(asked.template["sku"])
    if name not in skus:
        detail = f'There is no VM SKU "{name}".{did_you_mean(name, skus)}'
        yield asked.error("unknown-vm-sku", detail, ("template", "sku"))
    known = {rack.availability_zone for site in sites.values() for rack in site.racks}
    known |= {machine.availability_zone for site in sites.values() for machine in site.machines.values()}
    for zone in asked.template.get("zones") or ():
        if zone not in known:
            choice = f" Known: {listed(sorted(known), 20)}." if known else " There is no rack."
            detail = f'No site has an availability zone "{zone}".{choice}'
            yield asked.error("unknown-availability-zone", detail, ("template", "zones"))


def _cluster(template: Mapping[str, Any], sku: VmSku) -> Member:
    """The member that the template makes, with nothing on it."""
    size = allocatable(sku, Kubelet())
    count = int(template["count"])
    nodes = tuple(Node(f"node-{n}", {}, (), size.cpu, size.memory) for n in range(1, count + 1))
    skus = (sku,) * count
    cluster = NodeCluster("", "", "", nodes, skus, total_of(capacity(each) for each in skus))
    labels = {key: str(value) for key, value in (template.get("labels") or {}).items()}
    return member_of(FleetMember("", labels), cluster, (0, 0))


def _properties(member: Member) -> dict[str, str]:
    usage = member.resources
    parts = {TOTAL: usage.total, ALLOCATABLE: usage.allocatable, AVAILABLE: usage.available}
    resources = {
        f"{RESOURCE_PREFIX}{kind}-{name}": str(amount)
        for kind, amounts in parts.items()
        for name, amount in amounts.items()
    }
    return dict(sorted({**member.properties, **resources}.items()))


def _selector(selector: RequestSelector, kind: str, fleet: list[Member], cluster: Member) -> dict[str, Any]:
    """One selector over the members that stand, and over the cluster that would be made."""
    standing = [member.name for member in fleet if not unmet(selector, member)]
    # A request stands for one cluster that the scheduler did not find.
    missing = 1 if kind == "ClusterRequest" else max(0, selector.least - len(standing))
    reasons = unmet(selector, cluster)
    return {
        "members": standing,
        "missing": missing,
        "asks": selector.asks,
        "meets_terms": not reasons,
        "unmet": list(reasons),
    }


def _room(site: SitePlan, sku: VmSku, template: Mapping[str, Any]) -> dict[str, Any]:
    zones = template.get("zones")
    terms = Terms(frozenset(zones) if zones is not None else None)
    by_rack = site.scheduler.free_by_rack(anybodys(sku, terms))
    free, count = total(by_rack.values()), int(template["count"])
    return {
        "fits": free.least >= count,
        "vms_at_least": free.least,
        "vms_at_most": free.most,
        "racks": [rack for rack, room in by_rack.items() if room.least],
        "reason": None if free.least >= count else _why_not(free, count, sku),
    }


def _why_not(free: Interval, count: int, sku: VmSku) -> str:
    room = f"{free.least:,}" if free.exact else f"{free.least:,} to {free.most:,}"
    return f"{room} of {count:,} {sku.name} fit"


def _warnings(
    asked: _Asked, document: ClusterRequest, unmet_terms: list[str], rooms: Mapping[str, dict[str, Any]]
) -> Iterator[Diagnostic]:
    """The request that is not met, and the cluster that nobody can hold."""
    what = f"{document.kind} {document.name}"
    if unmet_terms:
        lines = "\n".join(f"  - {reason}" for reason in unmet_terms)
        text = f"A cluster as in template does not meet what {what} asks for:\n{lines}"
        brief = f"{what}: {unmet_terms[0]}"
        yield replace(asked.warning("cluster-request-is-not-met", text), brief=brief)
    if not any(room["fits"] for room in rooms.values()):
        lines = "\n".join(f"  - {site}: {room['reason']}" for site, room in sorted(rooms.items()))
        size = f"{counted(int(asked.template['count']), 'VM')} of {asked.template['sku']}"
        text = (
            f"No site can hold the cluster that {what} asks for ({size}):\n{lines or '  - there is no site'}"
        )
        brief = f"{what}: no site holds {size}"
        yield replace(asked.warning("cluster-request-fits-nowhere", text), brief=brief)
