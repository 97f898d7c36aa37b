"""Resources of a subscription, split by Operator Nexus instance.

An instance is identified by its extended location (custom location). Its name is that of its Nexus
cluster (clusterId of machines, racks, Kubernetes clusters and VMs), else of the location. A site in
state keeps its recorded name.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Problem, Severity
from nexusform.diagnostics.phrases import format_count, format_first_items
from nexusform.domains.azure.importers.arm_resources import (
    ArmItem,
    extract_name,
    extract_parent_id,
    normalize_id,
)
from nexusform.domains.azure.importers.az_documents import NODES, AzResources
from nexusform.domains.azure.importers.az_records import AzSite
from nexusform.json_data.plain_data import get_mapping, get_text

DEFAULT_NAME: Final = "site"
# Kinds that are read with every site.
_SHARED_KINDS: Final = (NODES, "rack_skus")
# Kinds that are required for every site.
BASE_KINDS: Final = ("racks", "bare_metal_machines")
_MAX_NAMES: Final = 4
# Field with the id of the rack or machine of a resource.
_HOST_FIELDS: Final = {"bare_metal_machines": "rackId", "virtual_machines": "bareMetalMachineId"}


def split_by_site(items: AzResources, before: AzResources | None = None) -> dict[str, AzResources]:
    """Split resources by site name.

    Sites keep their names in `before`, the resources before a change. A resource is on the site of
    its location, Nexus cluster or parent. Otherwise a rack is on the site of its machines, and a VM
    on that of its machine. Without any of these, the resource is on the only site. With several
    sites it is ignored, and the list of its kind is incomplete.
    """
    names = _map_locations_to_site_names(items)
    default_name = DEFAULT_NAME
    if before is not None:
        names |= _map_locations_to_site_names(before)
        # Name that is used if no resource names its site.
        default_name = next(iter(split_by_site(before)), DEFAULT_NAME)
    site_by_rack = _find_sites_of_racks(items, names)
    sites: dict[str, dict[str, list[ArmItem]]] = {}
    unassigned: list[tuple[str, ArmItem]] = []
    # By lower-case id: sites of racks and clusters.
    site_by_id: dict[str, str] = {}
    # Before their children.
    parents = ("clusters", "racks", "bare_metal_machines", "kubernetes_clusters")
    kinds = (*parents, *(name for name in items.by_kind if name not in (*parents, *_SHARED_KINDS)))
    resources = [(kind, item) for kind in kinds for item in items.list_resources(kind)]
    for kind, item in resources:
        arm_id = item.read_value("id")
        # "" without an id.
        id_key = normalize_id(get_text(arm_id))
        site = _find_site(kind, item, names, site_by_id) or site_by_rack.get(id_key)
        if site is None:
            unassigned.append((kind, item))
            continue
        sites.setdefault(site, {}).setdefault(kind, []).append(item)
        if isinstance(arm_id, str):
            site_by_id[id_key] = site
    ignored_kinds = _assign_resources_to_only_site(unassigned, sites, default_name)
    items = replace(items, listed_kinds=items.listed_kinds - ignored_kinds)
    shared = {kind: items.list_resources(kind) for kind in _SHARED_KINDS}
    return {
        name: replace(items, by_kind={**site_resources, **shared})
        for name, site_resources in sites.items()
    }


def _find_sites_of_racks(items: AzResources, names: Mapping[str, str]) -> dict[str, str]:
    """Return the site of each rack that a machine names, by lower-case id.

    `names` are sites by location.
    """
    site_by_rack: dict[str, str] = {}
    for machine in items.list_resources("bare_metal_machines"):
        rack_id = machine.read_text("rackId")
        # By location or cluster, not by rack.
        site = _find_site(kind="", item=machine, names=names, site_by_id={})
        if rack_id and site:
            site_by_rack[normalize_id(rack_id)] = site
    return site_by_rack


def select_site_resources(
    items: AzResources, name: str | None
) -> tuple[AzResources, list[Problem]]:
    """Select the resources of the site `name`, or of the only site if it is None.

    Return a problem, and no resources, for an unknown name or several possible sites. Lists of
    workloads and Nexus clusters cover a whole subscription. So a site without racks and machines
    does not count if others have some.
    """
    sites = split_by_site(items)
    # With racks or machines; if there are none, with a Nexus cluster.
    candidates: list[str] = []
    for kinds in (BASE_KINDS, ("clusters",)):
        if not candidates:
            candidates = [
                site
                for site, resources in sites.items()
                if any(map(resources.list_resources, kinds))
            ]
    if name is None and len(candidates) == 1:
        return sites[candidates[0]], []
    if name in candidates:
        return sites[str(name)], []
    if name is None and not candidates:
        # Missing racks and machines are reported later.
        return items, []
    names = format_first_items(sorted(candidates), _MAX_NAMES)
    detail = (
        f"The export holds {format_count(len(candidates), 'site')} ({names}). Select one of them."
        if name is None
        else f'The export does not contain the site "{name}", but {names or "no site"}.'
    )
    return replace(items, by_kind={}), [Problem(("site",), "ambiguous-site", detail)]


def _assign_resources_to_only_site(
    unassigned: list[tuple[str, ArmItem]], sites: dict[str, dict[str, list[ArmItem]]], default: str
) -> frozenset[str]:
    """Assign resources without a site to the only one (`default` if none).

    With several sites, skip and report them, and return their kinds.
    """
    if len(sites) <= 1:
        site_name = next(iter(sites), default)
        for kind, item in unassigned:
            sites.setdefault(site_name, {}).setdefault(kind, []).append(item)
        return frozenset()
    for _, item in unassigned:
        item.report(
            "extendedLocation",
            "unknown-site-assignment",
            f'"{item.read_value("name")}" has no extendedLocation and no clusterId, and the export '
            f"contains {len(sites)} sites: it is ignored.",
            Severity.WARNING,
        )
    return frozenset(kind for kind, _ in unassigned)


def _find_site(
    kind: str, item: ArmItem, names: Mapping[str, str], site_by_id: Mapping[str, str]
) -> str | None:
    """Find the site of a resource.

    The site follows from its location (`names`), else its Nexus cluster, else its rack, machine or
    parent (`site_by_id`). Return None if none of these is known.
    """
    # A Nexus cluster names its site.
    if kind == "clusters":
        return item.read_text("name")
    location = read_extended_location(item)
    if location:
        return names[location]
    cluster_id = item.read_text("clusterId")
    # The id is of a Nexus cluster.
    if cluster_id:
        return extract_name(cluster_id)
    host_field = _HOST_FIELDS.get(kind)
    host_id = item.read_text(host_field) if host_field is not None else None
    if host_id and normalize_id(host_id) in site_by_id:
        return site_by_id[normalize_id(host_id)]
    # The parent of a pool is its cluster.
    parent_id = extract_parent_id(normalize_id(get_text(item.read_value("id"))))
    return site_by_id.get(parent_id)


def read_extended_location(item: ArmItem, field: str = "extendedLocation") -> str:
    """Return the lower-case id of a resource's extended location, "" without one."""
    return normalize_id(get_text(item.read_value(field), "name"))


def _map_locations_to_site_names(items: AzResources) -> dict[str, str]:
    """Collect the site name of each extended location.

    It is the name of its Nexus cluster, else its own.
    """
    cluster_names: dict[str, str] = {}
    own_names: dict[str, str] = {}
    for kind, kind_items in items.by_kind.items():
        for item in kind_items:
            name = item.read_value("name")
            cluster_id = item.read_value("clusterId")
            if kind == "clusters":
                # `extendedLocation` of a Nexus cluster is that of its manager, not of its site.
                cluster_names[read_extended_location(item, "clusterExtendedLocation")] = str(name)
                continue
            location = read_extended_location(item)
            own_names[location] = extract_name(location)
            if isinstance(cluster_id, str) and cluster_id:
                cluster_names.setdefault(location, extract_name(cluster_id))
    names = {**own_names, **cluster_names}
    # The empty name is of items without a location.
    names.pop("", None)
    return names


def apply_recorded_site_names(
    sites: Sequence[AzSite], objects: Iterable[Mapping[str, Any]]
) -> tuple[AzSite, ...]:
    """Return the sites with their names in state.

    `objects` are the attributes of the objects in state. A new site (not in state) was renamed if
    it has most machines of a missing one (in state, but not observed). It keeps its new name if
    several new or missing sites match.
    """
    recorded_machines = collect_machines_by_site(objects)
    new_sites = [site for site in sites if site.name not in recorded_machines]
    missing_names = recorded_machines.keys() - {site.name for site in sites}
    # Names of the new sites with a machine, by its rack and name: two sites may have a machine of
    # the same name.
    owners: dict[tuple[str, str], list[str]] = {}
    for site in new_sites:
        for machine in site.inventory.machines:
            owners.setdefault((machine.rack, machine.name), []).append(site.name)
    # Names in state of the missing sites that match a new one, by the new name.
    candidates: dict[str, list[str]] = {site.name: [] for site in new_sites}
    for old_name in sorted(missing_names):
        machines = recorded_machines[old_name]
        # Number of these machines on each new site.
        counts: Counter[str] = Counter()
        for rack_and_name in machines:
            counts.update(owners.get(rack_and_name, ()))
        matches = [new_name for new_name, count in counts.items() if 2 * count > len(machines)]
        if len(matches) == 1:
            candidates[matches[0]].append(old_name)
    # With several old names for one new site, it stays unknown which one was renamed.
    old_names = {new_name: names[0] for new_name, names in candidates.items() if len(names) == 1}
    return tuple(replace(site, name=old_names.get(site.name, site.name)) for site in sites)


def collect_machines_by_site(
    objects: Iterable[Mapping[str, Any]],
) -> dict[str, set[tuple[str, str]]]:
    """Collect the machines of each site from attributes in state: machines, and hosts of VMs.

    The result has the rack and name of each machine by site: {"lab": {("rack1", "lab-m01")}}.
    """
    machines: dict[str, set[tuple[str, str]]] = {}
    for attributes in objects:
        if attributes.get("rack_id"):  # a machine
            site, _, rack = str(attributes["rack_id"]).partition("/")
            machines.setdefault(site, set()).add((rack, str(attributes.get("name"))))
            continue
        # The id of a site is its name; the id of a cluster is SITE/CLUSTER.
        owner_id = attributes.get("site_id") or attributes.get("kubernetes_cluster_id") or ""
        site = str(owner_id).partition("/")[0]
        if not site:
            # Of no site, such as a VM SKU.
            continue
        site_machines = machines.setdefault(site, set())
        # The object may be a VM itself, or a cluster or pool with nodes.
        for vm in (attributes, *get_mapping(attributes, "nodes").values()):
            if vm.get("machine") and vm.get("rack"):
                site_machines.add((str(vm["rack"]), str(vm["machine"])))
    return machines
