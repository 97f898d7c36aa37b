"""Clusters that a fleet asks for: which sites hold them after the plan, and whether they meet the terms.

The answers stand in the data blocks, read once VMs, members and placements are planned.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from nexusform.address import Address
from nexusform.configuration.declared.configuration import ResourceBlock
from nexusform.diagnostics import Diagnostic, did_you_mean, error, warning
from nexusform.domains.fleet.importers.fleet_model import FleetMember
from nexusform.domains.fleet.planning.world import member_of
from nexusform.domains.fleet.scheduling.bindings import Member
from nexusform.domains.fleet.scheduling.cluster_requests import ClusterRequest, RequestSelector, unmet
from nexusform.domains.fleet.scheduling.properties import ALLOCATABLE, AVAILABLE, RESOURCE_PREFIX, TOTAL
from nexusform.domains.pods.planning.nodes import NodeCluster, total_of
from nexusform.domains.pods.scheduling.workloads import Node
from nexusform.plain_data import Path
from nexusform.planning.names.evaluation import Evaluation
from nexusform.planning.names.repetition import ResourceView
from nexusform.planning.request import PlanRequest
from nexusform.planning.vms.sites import SitePlan
from nexusform.planning.vms.vm_world import VmWorld
from nexusform.scheduling.kubelet import Kubelet, allocatable, capacity
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
                request_block = _RequestBlock(block, address, item.attributes, evaluation)
                attributes, diagnostics = _answered(request_block, request, world, fleet)
                items[key] = replace(item, attributes=attributes)
                problems += diagnostics
            name = (module.path, block.mode, block.type, block.name)
            evaluation.resources[name] = ResourceView(view.shape, items)
    return problems


class _Template(Struct, frozen=True):
    # The cluster that would be made. `zones` None: all of them.
    sku: str
    count: int
    zones: frozenset[str] | None
    labels: Mapping[str, str]


class _SelectorAnswer(Struct, frozen=True):
    # One selector over the fleet: who meets it, how many it lacks, whether it asks for clusters, and whether
    # the template's cluster would meet it. The fields are those of the attribute.
    members: list[str]
    missing: int
    asks: bool
    meets_terms: bool
    unmet: list[str]


class _SiteRoom(Struct, frozen=True):
    # Whether a site holds all VMs of the template. The fields are those of the attribute.
    fits: bool
    vms_at_least: int
    vms_at_most: int
    racks: list[str]
    reason: str | None


class _RequestBlock(Struct, frozen=True):
    # One data block: where it stands, and what it says.
    block: ResourceBlock
    address: Address
    attributes: Mapping[str, Any]
    evaluation: Evaluation

    def template(self) -> _Template:
        """The cluster that would be made."""
        written = self.attributes["template"]
        zones = written.get("zones")
        labels = {key: str(value) for key, value in (written.get("labels") or {}).items()}
        return _Template(
            str(written["sku"]),
            int(written["count"]),
            frozenset(zones) if zones is not None else None,
            labels,
        )

    def error(self, kind: str, detail: str, path: Path) -> Diagnostic:
        """An error at an argument."""
        prepared = self.evaluation.setting.prepared(self.block)
        span = prepared.locate(path) if prepared is not None else self.block.header_span
        return error(kind, detail, span, address=str(self.address), block=self.block.header)

    def warning(self, kind: str, detail: str, brief: str) -> Diagnostic:
        """A warning about the block."""
        span = self.block.header_span
        whole = warning(kind, detail, span, address=str(self.address), block=self.block.header)
        return replace(whole, brief=brief)


def _answered(
    request_block: _RequestBlock, request: PlanRequest, world: VmWorld, fleet: list[Member]
) -> tuple[dict[str, Any] | None, list[Diagnostic]]:
    """The block's attributes with its answers; None where the template is in error."""
    template = request_block.template()
    sites, skus = world.sites, world.after.skus
    sku = skus.get(template.sku)
    mistakes = list(_mistakes(request_block, template, skus, sites))
    if mistakes or sku is None:
        return None, mistakes
    source = request.registries.data_sources[request_block.block.type]
    assert source.fleet is not None
    document = source.fleet(request_block.attributes)
    assert isinstance(document, ClusterRequest)
    cluster = _cluster(template, sku)
    selectors = [_selector_answer(selector, document.kind, fleet, cluster) for selector in document.selectors]
    lacking = [answer for answer in selectors if answer.missing and answer.asks]
    unmet_terms = list(dict.fromkeys(chain.from_iterable(answer.unmet for answer in lacking)))
    rooms = {site.id: _room(site, sku, template) for site in sites.values()}
    answers = {
        "labels": dict(cluster.labels),
        "properties": _properties(cluster),
        "selectors": [asdict(answer) for answer in selectors],
        "meets_terms": all(answer.meets_terms for answer in lacking),
        "unmet": unmet_terms,
        "sites": {site: asdict(room) for site, room in rooms.items()},
    }
    subject = f"{document.kind} {document.name}"
    warnings: list[Diagnostic] = []
    if unmet_terms:
        warnings.append(_not_met(request_block, subject, unmet_terms))
    if lacking and not any(room.fits for room in rooms.values()):
        warnings.append(_fits_nowhere(request_block, subject, template, rooms))
    return {**request_block.attributes, **answers}, warnings


def _mistakes(
    request_block: _RequestBlock,
    template: _Template,
    skus: Mapping[str, VmSku],
    sites: Mapping[str, SitePlan],
) -> Iterator[Diagnostic]:
    """What the template names and nobody knows."""
    if template.sku not in skus:
        detail = f'There is no VM SKU "{template.sku}".{did_you_mean(template.sku, skus)}'
        yield request_block.error("unknown-vm-sku", detail, ("template", "sku"))
    zones: set[str] = set()
    for site in sites.values():
        zones |= {rack.availability_zone for rack in site.racks}
        zones |= {machine.availability_zone for machine in site.machines.values()}
    choice = f" Known: {listed(sorted(zones), 20)}." if zones else " There is no rack."
    for zone in sorted((template.zones or frozenset()) - zones):
        detail = f'No site has an availability zone "{zone}".{choice}'
        yield request_block.error("unknown-availability-zone", detail, ("template", "zones"))


def _cluster(template: _Template, sku: VmSku) -> Member:
    """The member that the template makes, with nothing on it."""
    size = allocatable(sku, Kubelet())
    names = [f"node-{number}" for number in range(1, template.count + 1)]
    nodes = tuple(Node(name, {}, (), size.cpu, size.memory) for name in names)
    skus = (sku,) * template.count
    cluster = NodeCluster("", "", "", nodes, skus, total_of([capacity(sku)] * template.count))
    return member_of(FleetMember("", template.labels), cluster, (0, 0))


def _properties(member: Member) -> dict[str, str]:
    """The properties of a member by name, its resources among them as a fleet names them."""
    usage = member.resources
    amounts_by_kind = {TOTAL: usage.total, ALLOCATABLE: usage.allocatable, AVAILABLE: usage.available}
    properties = dict(member.properties)
    for kind, amounts in amounts_by_kind.items():
        for name, amount in amounts.items():
            properties[f"{RESOURCE_PREFIX}{kind}-{name}"] = str(amount)
    return dict(sorted(properties.items()))


def _selector_answer(
    selector: RequestSelector, kind: str, fleet: list[Member], cluster: Member
) -> _SelectorAnswer:
    """One selector over the members that stand, and over the cluster that would be made."""
    standing = [member.name for member in fleet if not unmet(selector, member)]
    # A request stands for one cluster that the scheduler did not find.
    missing = 1 if kind == "ClusterRequest" else max(0, selector.least - len(standing))
    reasons = list(unmet(selector, cluster))
    return _SelectorAnswer(standing, missing, selector.asks, not reasons, reasons)


def _room(site: SitePlan, sku: VmSku, template: _Template) -> _SiteRoom:
    """What of a SKU fits on a site after the plan."""
    by_rack = site.scheduler.free_by_rack(anybodys(sku, Terms(template.zones)))
    free = total(by_rack.values())
    racks = [rack for rack, room in by_rack.items() if room.least]
    fits = free.least >= template.count
    reason = None if fits else _why_not(free, template)
    return _SiteRoom(fits, free.least, free.most, racks, reason)


def _why_not(free: Interval, template: _Template) -> str:
    room = f"{free.least:,}" if free.exact else f"{free.least:,} to {free.most:,}"
    return f"{room} of {template.count:,} {template.sku} fit"


def _not_met(request_block: _RequestBlock, subject: str, unmet_terms: list[str]) -> Diagnostic:
    lines = "\n".join(f"  - {reason}" for reason in unmet_terms)
    text = f"A cluster as in template does not meet what {subject} asks for:\n{lines}"
    return request_block.warning("cluster-request-is-not-met", text, f"{subject}: {unmet_terms[0]}")


def _fits_nowhere(
    request_block: _RequestBlock, subject: str, template: _Template, rooms: Mapping[str, _SiteRoom]
) -> Diagnostic:
    lines = "\n".join(f"  - {site}: {room.reason}" for site, room in sorted(rooms.items()))
    size = f"{counted(template.count, 'VM')} of {template.sku}"
    text = (
        f"No site can hold the cluster that {subject} asks for ({size}):\n{lines or '  - there is no site'}"
    )
    return request_block.warning("cluster-request-fits-nowhere", text, f"{subject}: no site holds {size}")
