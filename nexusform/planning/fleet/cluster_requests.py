"""Clusters that a fleet asks for: which sites hold them after the plan, and whether they meet the terms.

The answers stand in the data blocks, read once VMs, members and placements are planned.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from nexusform.address import Address
from nexusform.configuration.configuration import ResourceBlock
from nexusform.diagnostics import Diagnostic, did_you_mean, error, warning
from nexusform.importers.fleet.fleet_model import FleetMember
from nexusform.plain_data import Path
from nexusform.planning.fleet.world import member_of
from nexusform.planning.names.evaluation import Evaluation
from nexusform.planning.names.repetition import ResourceView
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
                asked = _AskedCluster(block, address, item.attributes, evaluation)
                attributes, wrong = _answered(asked, request, world, fleet)
                items[key] = replace(item, attributes=attributes)
                problems += wrong
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


class _AskedCluster(Struct, frozen=True):
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
    asked: _AskedCluster, request: PlanRequest, world: VmWorld, fleet: list[Member]
) -> tuple[dict[str, Any] | None, list[Diagnostic]]:
    """The block's attributes with its answers; None where the template is in error."""
    template = asked.template()
    sites, skus = world.sites, world.after.skus
    sku = skus.get(template.sku)
    mistakes = list(_mistakes(asked, template, skus, sites))
    if mistakes or sku is None:
        return None, mistakes
    source = request.registries.data_sources[asked.block.type]
    assert source.fleet is not None
    document = source.fleet(asked.attributes)
    assert isinstance(document, ClusterRequest)
    cluster = _cluster(template, sku)
    selectors = [_selector_answer(each, document.kind, fleet, cluster) for each in document.selectors]
    lacking = [each for each in selectors if each.missing and each.asks]
    unmet_terms = list(dict.fromkeys(reason for each in lacking for reason in each.unmet))
    rooms = {site.id: _room(site, sku, template) for site in sites.values()}
    answers = {
        "labels": dict(cluster.labels),
        "properties": _properties(cluster),
        "selectors": [asdict(each) for each in selectors],
        "meets_terms": all(each.meets_terms for each in lacking),
        "unmet": unmet_terms,
        "sites": {site: asdict(room) for site, room in rooms.items()},
    }
    subject = f"{document.kind} {document.name}"
    warnings: list[Diagnostic] = []
    if unmet_terms:
        warnings.append(_not_met(asked, subject, unmet_terms))
    if lacking and not any(room.fits for room in rooms.values()):
        warnings.append(_fits_nowhere(asked, subject, template, rooms))
    return {**asked.attributes, **answers}, warnings


def _mistakes(
    asked: _AskedCluster, template: _Template, skus: Mapping[str, VmSku], sites: Mapping[str, SitePlan]
) -> Iterator[Diagnostic]:
    """What the template names and nobody knows."""
    if template.sku not in skus:
        detail = f'There is no VM SKU "{template.sku}".{did_you_mean(template.sku, skus)}'
        yield asked.error("unknown-vm-sku", detail, ("template", "sku"))
    known = {rack.availability_zone for site in sites.values() for rack in site.racks}
    known |= {machine.availability_zone for site in sites.values() for machine in site.machines.values()}
    choice = f" Known: {listed(sorted(known), 20)}." if known else " There is no rack."
    for zone in sorted((template.zones or frozenset()) - known):
        detail = f'No site has an availability zone "{zone}".{choice}'
        yield asked.error("unknown-availability-zone", detail, ("template", "zones"))


def _cluster(template: _Template, sku: VmSku) -> Member:
    """The member that the template makes, with nothing on it."""
    size = allocatable(sku, Kubelet())
    names = [f"node-{number}" for number in range(1, template.count + 1)]
    nodes = tuple(Node(name, {}, (), size.cpu, size.memory) for name in names)
    skus = (sku,) * template.count
    cluster = NodeCluster("", "", "", nodes, skus, total_of(capacity(each) for each in skus))
    return member_of(FleetMember("", template.labels), cluster, (0, 0))


def _properties(member: Member) -> dict[str, str]:
    usage = member.resources
    parts = {TOTAL: usage.total, ALLOCATABLE: usage.allocatable, AVAILABLE: usage.available}
    resources = {
        f"{RESOURCE_PREFIX}{kind}-{name}": str(amount)
        for kind, amounts in parts.items()
        for name, amount in amounts.items()
    }
    return dict(sorted({**member.properties, **resources}.items()))


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


def _not_met(asked: _AskedCluster, subject: str, unmet_terms: list[str]) -> Diagnostic:
    lines = "\n".join(f"  - {reason}" for reason in unmet_terms)
    text = f"A cluster as in template does not meet what {subject} asks for:\n{lines}"
    return asked.warning("cluster-request-is-not-met", text, f"{subject}: {unmet_terms[0]}")


def _fits_nowhere(
    asked: _AskedCluster, subject: str, template: _Template, rooms: Mapping[str, _SiteRoom]
) -> Diagnostic:
    lines = "\n".join(f"  - {site}: {room.reason}" for site, room in sorted(rooms.items()))
    size = f"{counted(template.count, 'VM')} of {template.sku}"
    text = (
        f"No site can hold the cluster that {subject} asks for ({size}):\n{lines or '  - there is no site'}"
    )
    return asked.warning("cluster-request-fits-nowhere", text, f"{subject}: no site holds {size}")
