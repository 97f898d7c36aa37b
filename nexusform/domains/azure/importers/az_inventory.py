"""An export of `az networkcloud` -> sites: racks, machines, and who stands on them.

Machines are joined to racks by ARM id (case does not matter), racks give the zone, SKUs the
capacity. Everything that is wrong comes back as findings; nothing raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics import Problem, Severity
from nexusform.documents.times import parse_time, time_text
from nexusform.domains.azure.importers.arm import id_key, name_of, newest_change
from nexusform.domains.azure.importers.az_capture import missing_ground, not_captured
from nexusform.domains.azure.importers.az_changes import AzChange, ChangedItems, lay_over
from nexusform.domains.azure.importers.az_documents import ANY, AzItems, Documents, read_items
from nexusform.domains.azure.importers.az_health import KINDS, missing_nodes, trouble_findings, troubles_of
from nexusform.domains.azure.importers.az_machines import (
    MachineReading,
    compute_racks,
    planned_site,
    read_machines,
    read_rack_skus,
    read_racks,
)
from nexusform.domains.azure.importers.az_model import (
    EXPORTED_AT,
    AzCluster,
    AzInventory,
    AzMachine,
    AzNode,
    AzPlacement,
    AzRack,
    AzShape,
    AzSite,
    AzTrouble,
    AzVirtualMachine,
)
from nexusform.domains.azure.importers.az_sites import GROUND, by_site, the_site
from nexusform.domains.azure.importers.az_supplies import read_supplies
from nexusform.domains.azure.importers.az_workloads import (
    ListedVm,
    PoolLists,
    node_creation_times,
    read_clusters,
    read_pools,
    read_virtual_machines,
)
from nexusform.scheduling.catalogue import CATALOGUES, NEWEST, Catalogue
from nexusform.scheduling.racks.vms import MachineSku
from nexusform.words import counted, first_of, form

MAX_FINDINGS: Final = 50
WITHOUT_A_MACHINE: Final = "vms-without-a-machine"
_MOST_NAMED: Final = 5
_GROUND: Final = frozenset(GROUND)


class _Reading(Struct, frozen=True):
    # What the resources of a site are read with.
    by_sku_id: Mapping[str, str]
    catalogue: Catalogue
    exported_at: datetime | None


def read_inventory(
    documents: Documents,
    machine_sku_by_id: Mapping[str, str] | None = None,
    catalogue: Catalogue | None = None,
    site: str | None = None,
) -> tuple[AzInventory, tuple[Problem, ...]]:
    """The one site that the documents describe, or that of several which `site` names, and what is wrong with
    them, errors first.

    `machine_sku_by_id` maps machineSkuId to a machine SKU of the catalogue (default: the newest
    one) and wins over the rack's SKU.
    """
    findings: list[Problem] = []
    items, reading = _read(documents, machine_sku_by_id, catalogue, findings)
    chosen, problems = the_site(items, site)
    findings += problems
    inventory = _inventory(chosen, reading)
    _say_missing(items, [inventory], findings, numbers_nodes=False)
    return inventory, _limited(findings)


def read_sites(
    documents: Documents,
    machine_sku_by_id: Mapping[str, str] | None = None,
    catalogue: Catalogue | None = None,
) -> tuple[tuple[AzSite, ...], tuple[Problem, ...]]:
    """The sites that the documents describe, by name, told apart by their extended locations; and what is
    wrong with the documents, errors first.
    """
    findings: list[Problem] = []
    items, reading = _read(documents, machine_sku_by_id, catalogue, findings)
    sites = [AzSite(name, _inventory(own, reading)) for name, own in sorted(by_site(items).items())]
    _say_missing(items, [site.inventory for site in sites], findings)
    for site in sites:
        findings += trouble_findings(site.inventory.troubles, site.name)
    return tuple(sites), _limited(findings)


def _say_missing(
    items: AzItems, inventories: Sequence[AzInventory], findings: list[Problem], *, numbers_nodes: bool = True
) -> None:
    """Say what was not captured, where what was can be read."""
    findings += missing_ground(items)
    if not any(finding.severity is Severity.ERROR for finding in findings):
        findings += not_captured(items, inventories, numbers_nodes=numbers_nodes)


def read_changed_sites(
    documents: Documents, changes: Sequence[AzChange]
) -> tuple[tuple[AzSite, ...], ChangedItems, tuple[Problem, ...]]:
    """The sites of an export as changes by another tool leave them, and what is wrong with either. That VMs
    wait for a machine is nothing to say of those that come.
    """
    findings: list[Problem] = []
    items, reading = _read(documents, None, None, findings)
    changed = lay_over(items, changes, findings)
    after = by_site(changed.items, before=items)
    sites = [AzSite(name, _inventory(own, reading)) for name, own in sorted(after.items())]
    findings = [finding for finding in findings if finding.id != WITHOUT_A_MACHINE]
    return tuple(sites), changed, _limited(findings)


def _read(
    documents: Documents,
    machine_sku_by_id: Mapping[str, str] | None,
    catalogue: Catalogue | None,
    findings: list[Problem],
) -> tuple[AzItems, _Reading]:
    """The resources of all documents, and what they are to be read with."""
    items = read_items(documents, findings)
    exported_at = _exported_at(documents, items.stated, findings)
    return items, _Reading(machine_sku_by_id or {}, catalogue or CATALOGUES[NEWEST], exported_at)


def _inventory(items: AzItems, reading: _Reading) -> AzInventory:
    """The site that resources describe."""
    catalogue = reading.catalogue
    unreadable = items.unreadable | items.incomplete | (_GROUND if ANY in items.unreadable else frozenset())
    racks = read_racks(items.of("racks"))
    machine_reading = MachineReading(
        racks, reading.by_sku_id, read_rack_skus(items.of("rack_skus")), "racks" not in unreadable
    )
    machines = read_machines(items.of("bare_metal_machines"), machine_reading)
    if not racks and not machines and unreadable.isdisjoint(_GROUND):
        racks, machines = planned_site(items.of("clusters"), machine_reading)
    pools = read_pools(items.of("agent_pools"))
    pool_lists = PoolLists(pools, items.pools_of)
    clusters, nodes, skus = read_clusters(items.of("kubernetes_clusters"), pool_lists, catalogue.vm_skus)
    placed = place(
        [*nodes, *read_virtual_machines(items.of("virtual_machines"))],
        machines,
        racks.values(),
        catalogue.machine_skus,
        # Of machines that were left out, an error tells.
        judges_machines=unreadable.isdisjoint(_GROUND)
        and len(machines) >= len(items.of("bare_metal_machines")),
    )
    made = node_creation_times(items.of("nodes"))
    of_clusters = [
        replace(vm, created_at=made.get(vm.name, vm.created_at)) for vm in placed if isinstance(vm, AzNode)
    ]
    filled = _with_nodes(clusters, of_clusters)
    age = reading.exported_at or newest_change(chain.from_iterable(items.by_kind.values()))
    return AzInventory(
        racks=compute_racks(racks, machines.values()),
        machines=tuple(sorted(machines.values(), key=lambda m: m.name)),
        virtual_machines=tuple(vm for vm in placed if isinstance(vm, AzVirtualMachine)),
        clusters=filled,
        vm_skus=tuple(skus),
        exported_at=time_text(age) if age else None,
        age_certain=reading.exported_at is not None,
        listed=items.listed,
        clusters_lacking=items.clusters_lacking,
        troubles=tuple(_troubles(items, filled)),
        supplies=read_supplies(items),
        update_strategy=_update_strategy(items),
    )


def _update_strategy(items: AzItems) -> dict[str, Any] | None:
    """How the Nexus cluster says its machines are upgraded; None where none says it, or several do."""
    told = [item.value("updateStrategy") for item in items.of("clusters")]
    if len(told) != 1 or not isinstance(told[0], Mapping):
        return None
    said = {ours: told[0].get(theirs) for ours, theirs in _OF_STRATEGY.items()}
    kinds = (("type", str), ("threshold_type", str), ("max_unavailable", int), ("threshold_value", int))
    if any(said[name] is not None and not isinstance(said[name], kind) for name, kind in kinds):
        return None
    return {**said, "type": said["type"] or "Rack"}


# Our names of the parts of an updateStrategy.
_OF_STRATEGY: Final = {
    "type": "strategyType",
    "max_unavailable": "maxUnavailable",
    "threshold_type": "thresholdType",
    "threshold_value": "thresholdValue",
    "wait_time_minutes": "waitTimeMinutes",
}


def _troubles(items: AzItems, clusters: Iterable[AzCluster]) -> Iterator[AzTrouble]:
    """What the platform says is not well, and the nodes that lack."""
    for kind in KINDS:
        yield from troubles_of(kind, items.of(kind))
    for cluster in clusters:
        yield from missing_nodes(cluster)


def _exported_at(
    documents: Documents, stated: Iterable[tuple[str, Any]], findings: list[Problem]
) -> datetime | None:
    """The oldest time at which the export says a part of it was made."""
    named: list[tuple[str, Any]] = [
        (name, content.decode("utf-8", "replace").lstrip("\ufeff").strip())
        for name, content in documents.get(EXPORTED_AT, ())
    ]
    moments = []
    for name, text in [*named, *stated]:
        moment = parse_time(text) if isinstance(text, str) else None
        if moment is not None:
            moments.append(moment)
            continue
        shown = str(text)[:40]
        detail = f'"{shown}" is not a time such as 2026-03-01T08:00:00Z; the age is taken from the resources.'
        findings.append(Problem((), "invalid-time", detail, Severity.WARNING, file=name))
    return min(moments, default=None)


def _with_nodes(clusters: Iterable[AzCluster], nodes: Iterable[AzNode]) -> tuple[AzCluster, ...]:
    """The clusters with their nodes, and nodes that stand twice apart, by name."""
    by_cluster: dict[tuple[str, bool], list[AzNode]] = {}
    for node in nodes:
        by_cluster.setdefault((node.cluster, node.is_second), []).append(node)
    filled = [
        replace(
            cluster,
            nodes=tuple(by_cluster.get((cluster.name, False), ())),
            seconds=tuple(by_cluster.get((cluster.name, True), ())),
        )
        for cluster in clusters
    ]
    return tuple(sorted(filled, key=lambda cluster: cluster.name))


def _limited(findings: list[Problem]) -> tuple[Problem, ...]:
    """Errors first, equal ones once, and at most MAX_FINDINGS of them."""
    ordered = sorted(dict.fromkeys(findings), key=lambda finding: finding.severity is not Severity.ERROR)
    if len(ordered) <= MAX_FINDINGS:
        return tuple(ordered)
    rest = len(ordered) - MAX_FINDINGS
    more = Problem(
        (),
        "more-findings",
        f"and {rest} more, not shown.",
        ordered[MAX_FINDINGS].severity,
        file=ordered[MAX_FINDINGS].file,
    )
    return (*ordered[:MAX_FINDINGS], more)


# --- from the ARM id of a machine to a placement ------------------------------------------------


def place(
    listed: Iterable[ListedVm],
    machines: Mapping[str, AzMachine],
    racks: Iterable[AzRack],
    machine_skus: Mapping[str, MachineSku],
    *,
    judges_machines: bool = True,
) -> list[AzNode | AzVirtualMachine]:
    """The VMs with their placements and the number of cells that they span, in order of name.

    `machines` by id key. A VM on a machine that the export does not list gets no placement; it is
    reported where the machines were read at all (`judges_machines`). VMs without a machine are counted.
    """
    zones = {rack.name: rack.availability_zone for rack in racks}
    loads: dict[str, AzShape] = {}
    homeless: list[ListedVm] = []
    placed: list[AzNode | AzVirtualMachine] = []
    largest = _largest(machines.values(), machine_skus)
    for one in sorted(listed, key=_order):
        machine = machines.get(id_key(one.machine_id)) if one.machine_id else None
        if machine is None:
            if not one.machine_id:
                homeless.append(one)
            elif judges_machines:
                _report_unknown_machine(one)
            placed.append(replace(one.vm, shape=_spanning(one.vm.shape, largest)))
            continue
        hardware = machine_skus.get(machine.machine_sku or "", machine.hardware)
        shape = _spanning(one.vm.shape, hardware)
        if hardware is not None:
            _add_load(loads, one, shape, machine.name, hardware)
        placement = AzPlacement(machine.name, machine.rack, zones.get(machine.rack))
        placed.append(replace(one.vm, shape=shape, placement=placement))
    _report_homeless(homeless)
    return placed


def _largest(machines: Iterable[AzMachine], machine_skus: Mapping[str, MachineSku]) -> MachineSku | None:
    """The hardware with the largest cells: what a VM without a machine fits, if anything."""
    known = (machine_skus.get(machine.machine_sku or "", machine.hardware) for machine in machines)
    sizes = [hardware for hardware in known if hardware is not None]
    return max(sizes, key=lambda one: (one.cpus_per_cell, one.memory_gib_per_cell), default=None)


def _order(one: ListedVm) -> tuple[str, str, str]:
    owner = one.vm.cluster if isinstance(one.vm, AzNode) else ""
    return (one.vm.name, owner, one.machine_id)


def _report_unknown_machine(one: ListedVm) -> None:
    one.item.report(
        "bareMetalMachineId",
        "unknown-machine",
        f'"{one.vm.name}" stands on the machine "{name_of(one.machine_id)}", which the list of machines '
        "does not have. Capture both lists again, at one time.",
        Severity.WARNING,
    )


def _report_homeless(vms: Sequence[ListedVm]) -> None:
    """Say once how many stand on no machine."""
    if not vms:
        return
    names = first_of([one.vm.name for one in vms], _MOST_NAMED)
    vms[0].item.report(
        "bareMetalMachineId",
        WITHOUT_A_MACHINE,
        f"{counted(len(vms), 'VM')} of the export {form(len(vms), 'is', 'are')} on no machine: {names}. The "
        "room that they take, or will take, is not counted.",
        Severity.WARNING,
    )


def _spanning(shape: AzShape, hardware: MachineSku | None) -> AzShape:
    """The shape with as many cells as it needs at least: a VM larger than one cell spans several."""
    if hardware is None:
        return shape
    cells = max(shape.numa_cells, 1)
    while cells < hardware.cells and (
        -(-shape.cpu_cores // cells) > hardware.cpus_per_cell
        or -(-shape.memory_gib // cells) > hardware.memory_gib_per_cell
    ):
        cells += 1
    return replace(shape, numa_cells=min(cells, hardware.cells))


def _add_load(
    loads: dict[str, AzShape], one: ListedVm, shape: AzShape, name: str, hardware: MachineSku
) -> None:
    """Count the VM on its machine; say so once when that is more than the machine has."""
    before = loads.get(name, AzShape(0, 0, 0, 0))
    after = AzShape(
        before.cpu_cores + shape.cpu_cores,
        before.memory_gib + shape.memory_gib,
        before.disk_gib + shape.disk_gib,
        0,
    )
    loads[name] = after
    if _overfull(after, hardware) and not _overfull(before, hardware):
        one.item.report(
            "name",
            "machine-more-than-full",
            f'the VMs on the machine "{name}" add up to {after.cpu_cores} vCPUs, {after.memory_gib} GiB of '
            f"memory and {after.disk_gib} GiB of disk, more than its hardware ({hardware.cells} x "
            f"{hardware.cpus_per_cell} vCPUs, {hardware.cells} x {hardware.memory_gib_per_cell} GiB, "
            f"{hardware.disk_gib} GiB). It counts as full. Check machine_sku_by_id.",
            Severity.WARNING,
        )


def _overfull(load: AzShape, hardware: MachineSku) -> bool:
    return (
        load.cpu_cores > hardware.cells * hardware.cpus_per_cell
        or load.memory_gib > hardware.cells * hardware.memory_gib_per_cell
        or load.disk_gib > hardware.disk_gib
    )
