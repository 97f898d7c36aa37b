"""Sites of an `az networkcloud` export: racks, machines and the VMs on them.

Machines are joined to racks by ARM id, ignoring case; racks give the zone, SKUs the capacity.
Errors are returned as findings; nothing raises.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain
from operator import attrgetter
from typing import Any, Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Problem, Severity
from nexusform.diagnostics.phrases import (
    enclose,
    format_count,
    format_first_items,
    group_by,
    join_texts,
    select_word_form,
)
from nexusform.documents.times import format_time, parse_time
from nexusform.domains.azure.importers.arm_resources import (
    ArmItem,
    Origin,
    extract_name,
    extract_parent_id,
    find_newest_change_time,
    normalize_id,
)
from nexusform.domains.azure.importers.az_capture_commands import (
    find_missing_base_kinds,
    find_uncaptured_kind_warnings,
)
from nexusform.domains.azure.importers.az_changes import (
    POOLS,
    ResourcesAfterChanges,
    ToolChange,
    apply_changes,
)
from nexusform.domains.azure.importers.az_documents import (
    ANY,
    AzResources,
    Documents,
    read_export_resources,
)
from nexusform.domains.azure.importers.az_field_checks import (
    LocatedFact,
    WrongKind,
    build_unread_warnings,
    find_missing_fields,
    find_unread_facts,
    find_wrong_kinds,
)
from nexusform.domains.azure.importers.az_machines import (
    MachineReadOptions,
    count_defined_machines,
    read_machines,
    read_planned_site,
    read_rack_skus,
    read_racks,
    select_compute_racks,
)
from nexusform.domains.azure.importers.az_records import (
    EXPORTED_AT,
    AzCluster,
    AzFailure,
    AzInventory,
    AzMachine,
    AzNode,
    AzRack,
    AzSite,
    AzVirtualMachine,
    AzVmLocation,
    AzVmSize,
)
from nexusform.domains.azure.importers.az_site_resources import read_site_resources
from nexusform.domains.azure.importers.az_workloads import (
    ListedVm,
    read_agent_pools_by_cluster,
    read_clusters,
    read_local_disk,
    read_node_creation_times,
    read_virtual_machines,
)
from nexusform.domains.azure.importers.azure_fields import normalize_value
from nexusform.domains.azure.importers.site_separation import (
    BASE_KINDS,
    select_site_resources,
    split_by_site,
)
from nexusform.doubts.doubt import Doubt, Influence
from nexusform.json_data.plain_data import get_mapping, get_text
from nexusform.scheduling.racks.vms import CONTROL_PLANE, MachineSku
from nexusform.scheduling.sku_catalogue import CATALOGUES, NEWEST

MAX_FINDINGS: Final = 50
WITHOUT_A_MACHINE: Final = "vms-without-machine"
_MAX_NAMES: Final = 5
_BASE_KINDS: Final = frozenset(BASE_KINDS)
# Numbers of vCPUs, and of GiB of memory and disk, of the VMs on a machine.
_Load: TypeAlias = tuple[int, int, int]


def read_inventory(
    documents: Documents,
    machine_sku_by_id: Mapping[str, str] | None = None,
    site: str | None = None,
) -> tuple[AzInventory, tuple[Problem, ...]]:
    """Read one site of the documents: the only one, or the one named `site`.

    Findings list errors first. `machine_sku_by_id` are machine SKUs (newest catalogue) by
    machineSkuId, with precedence over the rack's SKU.
    """
    findings: list[Problem] = []
    items, exported_at = _read_exported_resources(documents, findings)
    site_items, problems = select_site_resources(items, site)
    findings += problems
    field_facts = _find_field_facts(items, {"": site_items})
    inventory = _build_inventory(
        site_items, machine_sku_by_id, exported_at, field_facts.unread_by_site[""]
    )
    # No nodes are numbered.
    _report_uncaptured_kinds(items, [AzSite("", inventory)], findings, needs_node_times=False)
    findings += _build_field_findings(field_facts, findings)
    return inventory, _sort_and_limit_findings(findings)


def read_sites(
    documents: Documents, machine_sku_by_id: Mapping[str, str] | None = None
) -> tuple[tuple[AzSite, ...], tuple[Problem, ...]]:
    """Read all sites of the documents, sorted by name, separated by extended location.

    Findings list errors first.
    """
    findings: list[Problem] = []
    items, exported_at = _read_exported_resources(documents, findings)
    items_by_site = split_by_site(items)
    field_facts = _find_field_facts(items, items_by_site)
    sites = _build_sites(items_by_site, machine_sku_by_id, exported_at, field_facts, findings)
    _report_uncaptured_kinds(items, sites, findings)
    findings += _build_field_findings(field_facts, findings)
    for site in sites:
        findings += build_failure_findings(site.inventory.failures, site.name)
    return tuple(sites), _sort_and_limit_findings(findings)


def _report_uncaptured_kinds(
    items: AzResources,
    sites: Sequence[AzSite],
    findings: list[Problem],
    *,
    needs_node_times: bool = True,
) -> None:
    """Report missing lists of racks and machines.

    If these lists are complete, other data missing in the export is reported, too. With
    `needs_node_times`, this data includes the creation times of nodes, needed to number the nodes.
    """
    findings += find_missing_base_kinds(items)
    if not any(finding.severity is Severity.ERROR for finding in findings):
        findings += find_uncaptured_kind_warnings(items, sites, needs_node_times=needs_node_times)


class _FieldFacts(Struct, frozen=True):
    """Unread facts of the sites of an export, by site, and its values of a wrong kind by line.

    `origins` are those of the facts.
    """

    unread_by_site: Mapping[str, tuple[Doubt, ...]]
    origins: Mapping[Doubt, Origin]
    wrong_kinds: Sequence[tuple[WrongKind, int]]


def _find_field_facts(items: AzResources, items_by_site: Mapping[str, AzResources]) -> _FieldFacts:
    """Find the unread facts and values of a wrong kind with their lines; scan each file once."""
    located_by_site = {
        site: [
            *site_items.unread,
            *chain.from_iterable(
                find_unread_facts(kind, resources) for kind, resources in site_items.by_kind.items()
            ),
            *_find_missing_status(site_items),
            *_find_missing_disk_sizes(site_items),
        ]
        for site, site_items in items_by_site.items()
    }
    wrong_kinds = [
        wrong
        for kind, resources in items.by_kind.items()
        for wrong in find_wrong_kinds(kind, resources)
    ]
    origins = [
        *(located.origin for located in chain.from_iterable(located_by_site.values())),
        *(wrong.origin for wrong in wrong_kinds),
    ]
    lines_by_file = {
        file: items.find_lines(file, {origin.place for origin in file_origins})
        for file, file_origins in group_by(origins, attrgetter("file")).items()
    }

    def find_line(origin: Origin) -> int:
        return lines_by_file[origin.file][origin.place]

    origin_of_fact: dict[Doubt, Origin] = {}
    unread_by_site = {}
    for site, located_facts in located_by_site.items():
        facts = [replace(located.fact, line=find_line(located.origin)) for located in located_facts]
        unread_by_site[site] = tuple(facts)
        for fact, located in zip(facts, located_facts, strict=True):
            origin_of_fact[fact] = located.origin
    wrong_lines = [(wrong, find_line(wrong.origin)) for wrong in wrong_kinds]
    return _FieldFacts(unread_by_site, origin_of_fact, wrong_lines)


def _find_missing_status(items: AzResources) -> Iterator[LocatedFact]:
    """Yield the facts about existing resources without a status.

    A runtime upgrade of a Nexus cluster may be in progress then; that of a planned site has no
    status. A VM on a machine may be off, or leave it; a requested one has no machine.
    """
    if items.list_resources("bare_metal_machines"):
        yield from find_missing_fields("clusters", items.list_resources("clusters"))
    vms = items.list_resources("virtual_machines")
    yield from find_missing_fields(
        "virtual_machines", [vm for vm in vms if vm.read_value("bareMetalMachineId")]
    )


def _find_missing_disk_sizes(items: AzResources) -> Iterator[LocatedFact]:
    """Yield the facts about each VM with an OS disk of unknown size on its machine."""
    for vm in items.list_resources("virtual_machines"):
        if read_local_disk(vm) is None:
            origin = vm.find_origin()
            for influence in (Influence.PLACEMENT, Influence.CAPACITY):
                fact = Doubt(
                    # The machine of the VM itself is known.
                    "OS disk of the VM",
                    str(vm.read_value("name") or ""),
                    "diskSizeGB",
                    origin.file,
                    0,
                    influence,
                    reason="it is missing",
                )
                yield LocatedFact(fact, origin)


def _build_sites(
    items_by_site: Mapping[str, AzResources],
    machine_sku_by_id: Mapping[str, str] | None,
    exported_at: datetime | None,
    field_facts: _FieldFacts,
    findings: list[Problem],
) -> list[AzSite]:
    """Build the sites of an export, sorted by name.

    The resources add to `findings`; those of a site get its name.
    """
    sites = []
    for name, site_items in sorted(items_by_site.items()):
        first = len(findings)
        unread = field_facts.unread_by_site[name]
        inventory = _build_inventory(site_items, machine_sku_by_id, exported_at, unread)
        sites.append(AzSite(name, inventory))
        findings[first:] = [replace(finding, site_id=name) for finding in findings[first:]]
    return sites


def _build_field_findings(field_facts: _FieldFacts, findings: Iterable[Problem]) -> list[Problem]:
    """Build the warnings about values of a wrong kind and fields that are not read.

    Values that have a finding already are left out.
    """
    found = {(finding.file, finding.path) for finding in findings}
    warnings = [
        wrong.build_problem(line)
        for wrong, line in field_facts.wrong_kinds
        if (wrong.origin.file, wrong.origin.path) not in found
    ]
    # A field of machines of the same name on two sites is one of two resources.
    facts = [
        replace(fact, site_id=site)
        for site, site_facts in field_facts.unread_by_site.items()
        for fact in site_facts
        if (fact.file, field_facts.origins[fact].path) not in found
    ]
    return [*warnings, *build_unread_warnings(dict.fromkeys(facts))]


def read_changed_sites(
    documents: Documents, changes: Sequence[ToolChange], machine_sku_by_id: Mapping[str, str]
) -> tuple[tuple[AzSite, ...], ResourcesAfterChanges, tuple[Problem, ...]]:
    """Read the sites of an export after another tool's changes.

    Return also the changed resources, and findings.
    """
    findings: list[Problem] = []
    items, exported_at = _read_exported_resources(documents, findings)
    contents = {change.file: change.content for change in changes}
    items = replace(items, contents={**items.contents, **contents})
    changed = apply_changes(items, changes, findings)
    # Sites keep their names.
    changed_items = split_by_site(changed.items, before=items)
    all_items = _add_new_pools(changed)
    field_facts = _find_field_facts(all_items, split_by_site(all_items, before=items))
    sites = _build_sites(changed_items, machine_sku_by_id, exported_at, field_facts, findings)
    findings += _build_field_findings(field_facts, findings)
    # New VMs have no machine yet.
    findings = [finding for finding in findings if finding.id != WITHOUT_A_MACHINE]
    return tuple(sites), changed, _sort_and_limit_findings(findings)


def _add_new_pools(changed: ResourcesAfterChanges) -> AzResources:
    """Return the resources after changes, with the new agent pools."""
    pools = [*changed.items.list_resources(POOLS), *(pool.item for pool in changed.pools)]
    return replace(changed.items, by_kind={**changed.items.by_kind, POOLS: pools})


def _read_exported_resources(
    documents: Documents, findings: list[Problem]
) -> tuple[AzResources, datetime | None]:
    """Read all documents; return the resources, and the oldest time of export in them.

    The time is None if no document has a valid one.
    """
    items = read_export_resources(documents, findings)
    file_times: list[tuple[str, Any]] = [
        (name, content.decode("utf-8", "replace").lstrip("\ufeff").strip())
        for name, content in documents.get(EXPORTED_AT, ())
    ]
    moments = []
    for name, text in [*file_times, *items.export_times]:
        moment = parse_time(get_text(text))
        if moment is not None:
            moments.append(moment)
            continue
        excerpt = str(text)[:40]
        detail = (
            f'"{excerpt}" is not a time such as 2026-03-01T08:00:00Z. The age is taken from the '
            "resources."
        )
        findings.append(Problem((), "invalid-time", detail, Severity.WARNING, file=name))
    return items, min(moments, default=None)


def _build_inventory(
    items: AzResources,
    machine_sku_by_id: Mapping[str, str] | None,
    exported_at: datetime | None,
    unread: tuple[Doubt, ...],
) -> AzInventory:
    """Build the inventory of one site from its resources.

    `machine_sku_by_id` has machine SKUs set by the user. `unread` are the facts of the site that
    are not read.
    """
    catalogue = CATALOGUES[NEWEST]
    doubtful_kinds = items.unreadable_kinds | items.incomplete_kinds
    # A file of mixed kinds may hold racks and machines.
    if ANY in items.unreadable_kinds:
        doubtful_kinds |= _BASE_KINDS
    racks = read_racks(items.list_resources("racks"))
    machine_reading = MachineReadOptions(
        racks=racks,
        by_sku_id=get_mapping(machine_sku_by_id),
        rack_skus=read_rack_skus(items.list_resources("rack_skus")),
        has_rack_list="racks" not in doubtful_kinds,
    )
    machines = read_machines(items.list_resources("bare_metal_machines"), machine_reading)
    # Not captured: a site to be built.
    if not racks and doubtful_kinds.isdisjoint(_BASE_KINDS):
        racks, machines = read_planned_site(items.list_resources("clusters"), machine_reading)
    pools = read_agent_pools_by_cluster(items.list_resources("agent_pools"))
    clusters, nodes, skus = read_clusters(
        items.list_resources("kubernetes_clusters"),
        pools,
        items.clusters_with_pool_files,
        catalogue.vm_skus,
        has_all_pools=POOLS not in items.incomplete_kinds,
    )
    # VMs on unlisted machines are only reported if all machines were read, without errors.
    has_all_listed = len(machines) >= len(items.list_resources("bare_metal_machines"))
    has_machine_list = has_all_listed and doubtful_kinds.isdisjoint(_BASE_KINDS)
    vms = resolve_vm_placements(
        [*nodes, *read_virtual_machines(items.list_resources("virtual_machines"))],
        machines,
        racks.values(),
        catalogue.machine_skus,
        has_machine_list=has_machine_list,
    )
    node_times = read_node_creation_times(items.list_resources("nodes"))
    timed_nodes = [
        replace(vm, created_at=node_times.get(vm.name, vm.created_at))
        for vm in vms
        if isinstance(vm, AzNode)
    ]
    filled_clusters = _attach_nodes_to_clusters(clusters, timed_nodes)
    failures = chain.from_iterable(
        find_failures(kind, items.list_resources(kind)) for kind in FAILURE_KINDS
    )
    as_of = exported_at or find_newest_change_time(chain.from_iterable(items.by_kind.values()))
    compute_racks = select_compute_racks(racks, machines.values())
    defined_count = sum(map(count_defined_machines, items.list_resources("clusters")))
    used_racks = {machine.rack for machine in machines.values()}
    # The Nexus cluster of the site, if it was captured.
    nexus_clusters = items.list_resources("clusters")
    status = status_message = ""
    if len(nexus_clusters) == 1:
        status = normalize_value(
            "ClusterProperties.detailedStatus", nexus_clusters[0].read_text("detailedStatus", "")
        )
        status_message = nexus_clusters[0].read_text("detailedStatusMessage", "")
    return AzInventory(
        racks=compute_racks,
        machines=tuple(sorted(machines.values(), key=lambda m: m.name)),
        virtual_machines=tuple(vm for vm in vms if isinstance(vm, AzVirtualMachine)),
        clusters=filled_clusters,
        vm_skus=tuple(skus),
        exported_at=format_time(as_of) if as_of else None,
        is_age_certain=exported_at is not None,
        listed_kinds=items.listed_kinds,
        unlisted_clusters=items.unlisted_clusters,
        failures=(*failures, *chain.from_iterable(map(find_missing_nodes, filled_clusters))),
        supplies=read_site_resources(items),
        update_strategy=_read_update_strategy(items),
        # A VM on an unlisted machine, or more machines in definitions of racks: an incomplete list.
        lacks_machines=any(vm.unlisted_machine for vm in vms) or len(machines) < defined_count,
        racks_without_machines=frozenset(
            rack.name for rack in compute_racks if rack.name not in used_racks
        ),
        unread=(
            *unread,
            *_find_unknown_sizes(vms),
            *_find_ambiguous_machines(vms),
            *_find_unlisted_pools(filled_clusters),
        ),
        status=status,
        status_message=" ".join(status_message.split()),
    )


def _find_unknown_sizes(vms: Iterable[AzNode | AzVirtualMachine]) -> Iterator[Doubt]:
    """Yield a fact per node on a machine without vCPUs, memory or disk: it counts as none."""
    for vm in vms:
        is_unknown = 0 in (vm.shape.cpu_cores, vm.shape.memory_gib, vm.shape.disk_gib)
        if isinstance(vm, AzNode) and is_unknown and vm.placement is not None:
            for influence in (Influence.PLACEMENT, Influence.CAPACITY):
                yield Doubt(
                    "node",
                    vm.name,
                    "vmSkuName",
                    "",
                    0,
                    influence,
                    reason="neither its VM SKU nor its size is known",
                )


def _find_ambiguous_machines(vms: Iterable[AzNode | AzVirtualMachine]) -> Iterator[Doubt]:
    """Yield a fact per cluster with a node that is listed on several machines."""
    for cluster in sorted({vm.cluster for vm in vms if isinstance(vm, AzNode) and vm.is_duplicate}):
        reason = "a node is listed on two machines"
        yield Doubt("cluster", cluster, "nodes.bareMetalMachineId", "", 0, reason=reason)


def _find_unlisted_pools(clusters: Iterable[AzCluster]) -> Iterator[Doubt]:
    """Yield a fact per agent pool that its list lacks, and nodes show: its count is unknown."""
    for cluster in clusters:
        for name in cluster.unlisted_pools:
            reason = "the list of agent pools lacks it, and nodes are of it"
            yield Doubt(
                "agent pool",
                f"{cluster.name}/{name}",
                "count",
                "",
                0,
                Influence.EXISTENCE,
                reason=reason,
            )


def _read_update_strategy(items: AzResources) -> dict[str, Any] | None:
    """Read the update strategy of the site's Nexus cluster, with field names of nexusform.

    Return None if the site has no cluster or several, or if a field has another type than expected.
    """
    clusters = items.list_resources("clusters")
    if len(clusters) != 1:
        return None
    azure_strategy = clusters[0].read_value("updateStrategy")
    if not isinstance(azure_strategy, Mapping):
        return None
    strategy: dict[str, Any] = {}
    for name, (azure_name, kind) in _STRATEGY_FIELDS.items():
        strategy[name] = azure_strategy.get(azure_name)
        if not isinstance(strategy[name], kind | None):
            return None
    return {**strategy, "type": strategy["type"] or "Rack"}


# Fields of an updateStrategy, with their Python type, by nexusform name.
_STRATEGY_FIELDS: Final[Mapping[str, tuple[str, type[str | int]]]] = {
    "type": ("strategyType", str),
    "max_unavailable": ("maxUnavailable", int),
    "threshold_type": ("thresholdType", str),
    "threshold_value": ("thresholdValue", int),
    "wait_time_minutes": ("waitTimeMinutes", int),
}


def _attach_nodes_to_clusters(
    clusters: Iterable[AzCluster], nodes: Iterable[AzNode]
) -> tuple[AzCluster, ...]:
    """Return the clusters with their nodes and duplicate node records, sorted by name."""
    by_cluster = group_by(nodes, attrgetter("cluster", "is_duplicate"))
    filled = [
        replace(
            cluster,
            nodes=tuple(by_cluster.get((cluster.name, False), ())),
            duplicate_nodes=tuple(by_cluster.get((cluster.name, True), ())),
        )
        for cluster in clusters
    ]
    return tuple(sorted(filled, key=lambda cluster: cluster.name))


def _sort_and_limit_findings(findings: list[Problem]) -> tuple[Problem, ...]:
    """Return distinct findings, errors first.

    Return at most MAX_FINDINGS, and one more with the number of hidden findings. A finding on
    several sites, such as one about a rack SKU that they share, is about any site.
    """
    distinct: dict[Problem, Problem] = {}
    for finding in findings:
        common = replace(finding, site_id="")
        other = distinct.setdefault(common, finding)
        if other.site_id != finding.site_id:
            distinct[common] = common
    ordered = sorted(distinct.values(), key=lambda finding: finding.severity is not Severity.ERROR)
    if len(ordered) <= MAX_FINDINGS:
        return tuple(ordered)
    hidden_count = len(ordered) - MAX_FINDINGS
    summary = Problem(
        (),
        "more-findings",
        f"and {hidden_count} more, not shown.",
        # Of the most severe one not shown.
        ordered[MAX_FINDINGS].severity,
        file=ordered[MAX_FINDINGS].file,
    )
    return (*ordered[:MAX_FINDINGS], summary)


def resolve_vm_placements(
    listed_vms: Iterable[ListedVm],
    machines: Mapping[str, AzMachine],
    racks: Iterable[AzRack],
    machine_skus: Mapping[str, MachineSku],
    *,
    has_machine_list: bool,
) -> list[AzNode | AzVirtualMachine]:
    """Resolve the placement and NUMA cell count of each VM, sorted by name.

    `machines` are by lower-case id. A VM on an unlisted machine gets no placement, and a finding
    if all machines were read (`has_machine_list`). All VMs without a machine get no placement, and
    one finding together.
    """
    zones = {rack.name: rack.availability_zone for rack in racks}
    # Used capacity by machine, for a warning above its hardware.
    loads: dict[str, _Load] = {}
    unplaced: list[ListedVm] = []
    resolved: list[AzNode | AzVirtualMachine] = []
    all_hardware = (machine.find_hardware(machine_skus) for machine in machines.values())
    known_hardware = [hardware for hardware in all_hardware if hardware is not None]
    # The hardware with the largest NUMA cells is the reference for VMs without machine.
    largest = max(
        known_hardware,
        key=lambda size: (size.cpus_per_cell, size.memory_gib_per_cell),
        default=None,
    )
    # Nodes of several clusters may share a name.
    ordered = sorted(
        listed_vms,
        key=lambda item: (item.vm.name, getattr(item.vm, "cluster", ""), item.machine_id),
    )
    for listed_vm in ordered:
        # None for the id "" of a VM without a machine.
        machine = machines.get(normalize_id(listed_vm.machine_id))
        if machine is None:
            if not listed_vm.machine_id:  # not scheduled
                unplaced.append(listed_vm)
            elif has_machine_list:
                listed_vm.item.report(
                    "bareMetalMachineId",
                    "unknown-machine",
                    f'"{listed_vm.vm.name}" runs on the machine '
                    f'"{extract_name(listed_vm.machine_id)}", which is not in the list of '
                    "machines. Capture both lists again at the same time.",
                    Severity.WARNING,
                )
            shape = _fit_shape_to_minimum_numa_cells(listed_vm.vm.shape, largest)
            resolved.append(
                replace(
                    listed_vm.vm, shape=shape, unlisted_machine=extract_name(listed_vm.machine_id)
                )
            )
            continue
        hardware = machine.find_hardware(machine_skus)
        shape = _fit_shape_to_minimum_numa_cells(listed_vm.vm.shape, hardware)
        if hardware is not None:
            _add_vm_to_machine_load(loads, listed_vm, shape, machine.name, hardware)
        placement = AzVmLocation(machine.name, machine.rack, zones.get(machine.rack))
        resolved.append(replace(listed_vm.vm, shape=shape, placement=placement))
    if unplaced:
        names = format_first_items([listed_vm.vm.name for listed_vm in unplaced], _MAX_NAMES)
        count = format_count(len(unplaced), "VM")
        verb = select_word_form(len(unplaced), "is", "are")
        detail = (
            f"{count} of the export {verb} on no machine: {names}. Their capacity needs are not "
            "counted."
        )
        unplaced[0].item.report("bareMetalMachineId", WITHOUT_A_MACHINE, detail, Severity.WARNING)
    return resolved


def _fit_shape_to_minimum_numa_cells(shape: AzVmSize, hardware: MachineSku | None) -> AzVmSize:
    """Return the shape of a VM with the fewest NUMA cells able to hold it.

    It has at most all cells of its machine.
    """
    if hardware is None:
        # Without known hardware, as requested.
        return shape
    cells = max(shape.numa_cells, 1)
    while cells < hardware.cells and (
        # Per cell, rounded up.
        -(-shape.cpu_cores // cells) > hardware.cpus_per_cell
        or -(-shape.memory_gib // cells) > hardware.memory_gib_per_cell
    ):
        cells += 1
    return replace(shape, numa_cells=min(cells, hardware.cells))


def _exceeds_any(load: _Load, totals: _Load) -> bool:
    """Return whether a load exceeds the vCPUs, the memory or the disk of a machine."""
    return any(used > total for used, total in zip(load, totals, strict=True))


def _add_vm_to_machine_load(
    loads: dict[str, _Load], listed_vm: ListedVm, shape: AzVmSize, name: str, hardware: MachineSku
) -> None:
    """Add a VM of size `shape` to the load of the machine `name`.

    Warn once if the load exceeds the hardware.
    """
    totals = (
        hardware.cells * hardware.cpus_per_cell,
        hardware.cells * hardware.memory_gib_per_cell,
        hardware.disk_gib,
    )
    # Numbers of vCPUs, GiB of memory and GiB of disk.
    before = loads.get(name, (0, 0, 0))
    used_cpus, used_memory, used_disk = before
    cpus = used_cpus + shape.cpu_cores
    memory = used_memory + shape.memory_gib
    disk = used_disk + shape.disk_gib
    loads[name] = (cpus, memory, disk)
    # The warning was added with an earlier VM.
    was_overloaded = _exceeds_any(before, totals)
    if _exceeds_any(loads[name], totals) and not was_overloaded:
        listed_vm.item.report(
            "name",
            "overcommitted-machine",
            f'the VMs on the machine "{name}" use {cpus} vCPUs, {memory} GiB of memory and {disk} '
            f"GiB of disk, more than its hardware ({hardware.cells} x {hardware.cpus_per_cell} "
            f"vCPUs, {hardware.cells} x {hardware.memory_gib_per_cell} GiB, {hardware.disk_gib} "
            "GiB). It counts as full. Check machine_sku_by_id.",
            Severity.WARNING,
        )


FAILED: Final = "platform-reports-failure"
_BROKEN: Final = frozenset({"failed", "canceled", "cancelled"})
_ERROR: Final = frozenset({"error", "failed"})
_KIND_NAMES: Final = {
    "racks": "rack",
    "bare_metal_machines": "machine",
    "kubernetes_clusters": "Kubernetes cluster",
    "agent_pools": "agent pool",
    "virtual_machines": "virtual machine",
}
FAILURE_KINDS: Final = tuple(_KIND_NAMES)
_MAX_FAILURES: Final = 4


def find_failures(kind: str, items: Iterable[ArmItem]) -> Iterator[AzFailure]:
    """Find the objects of a kind with a failed provisioning state or detailed status.

    Each has the reason of Azure, if there is one.
    """
    for item in items:
        state = item.read_text("provisioningState", "")
        status = item.read_text("detailedStatus", "")
        has_failed = state.lower() in _BROKEN
        if not has_failed and status.lower() not in _ERROR:
            continue  # it works
        arm_id = item.read_text("id", "")
        name = item.read_text("name") or extract_name(arm_id)
        if kind == "agent_pools":
            cluster_name = extract_name(extract_parent_id(arm_id))
            name = f"{cluster_name}/{name}"
        message = item.read_text("detailedStatusMessage", "")
        # On one line.
        text = " ".join(message.split()).rstrip(".")
        yield AzFailure(
            kind, name, state if has_failed else status, join_texts((status, text), ": ")
        )


def find_missing_nodes(cluster: AzCluster) -> Iterator[AzFailure]:
    """Find pools with fewer nodes than their count: failures without a state.

    Skip nodes or counts not captured.
    """
    if not cluster.has_node_list:
        # Its nodes are unknown.
        return
    node_counts = Counter(node.pool for node in cluster.nodes)
    # Requested number of nodes by pool. Without a list of pools, the initial counts may be old.
    counts = {CONTROL_PLANE: cluster.control_plane_count}
    if cluster.has_pool_list:
        counts |= {pool.name: pool.count for pool in cluster.pools}
    for pool, count in counts.items():
        if node_counts[pool] < count:
            name = f"{cluster.name}/{pool}"
            yield AzFailure(
                "agent_pools",
                name,
                "",
                f"{node_counts[pool]} of {format_count(count, 'node')} there",
            )


def find_missing_node_facts(clusters: Iterable[AzCluster]) -> Iterator[Doubt]:
    """Yield the facts about pools with fewer nodes than their count.

    The platform may create the others on any machine.
    """
    for pool in chain.from_iterable(map(find_missing_nodes, clusters)):
        for influence in (Influence.PLACEMENT, Influence.CAPACITY):
            yield Doubt("agent pool", pool.name, "nodes", "", 0, influence, reason=pool.reason)


def build_failure_findings(failures: Sequence[AzFailure], site: str = "") -> list[Problem]:
    """Build one warning per kind and state, with names and reasons."""
    by_state = group_by(failures, attrgetter("kind", "state"))
    findings: list[Problem] = []
    for kind, state in sorted(
        by_state, key=lambda pair: (FAILURE_KINDS.index(pair[0]), pair[1])
    ):  # (kind, state)
        objects = by_state[kind, state]
        labels = [failure.name + enclose(" (", failure.reason, ")") for failure in objects]
        names = format_first_items(labels, _MAX_FAILURES)
        subject = f"{format_count(len(objects), _KIND_NAMES[kind])}{enclose(' of ', site)}"
        advice = "Nothing is changed automatically."
        if kind == "virtual_machines":
            resource = (
                f"nexus_virtual_machine.{objects[0].name}" if len(objects) == 1 else "ADDRESS"
            )
            advice = f"None is re-created automatically. Use `nexusform apply -replace={resource}`."
        if state:
            verb = select_word_form(len(objects), "is", "are")
            message = f"{subject} {verb} {state} (reported by Azure): {names}. {advice}"
        else:
            # An agent pool with fewer nodes than its count (find_missing_nodes).
            verb = select_word_form(len(objects), "lacks", "lack")
            message = (
                f"{subject} {verb} nodes: {names}. Azure lists no others. Nothing is sent for them."
            )
        findings.append(Problem((), FAILED, message, Severity.WARNING))
    return findings
