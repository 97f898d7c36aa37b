"""The resources of one subscription -> those of each Operator Nexus instance.

An instance is where an extended location (its custom location) points. Its name is that of its Nexus
cluster, which machines, racks, Kubernetes clusters and VMs name in clusterId; a location that nothing
gives a name keeps its own. An export may tell that name later than it tells of the machines: a site that
state holds keeps the name that it has there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from nexusform.diagnostics import Problem, Severity
from nexusform.documents.shapes import text_at
from nexusform.domains.azure.importers.arm import Item, id_key, name_of
from nexusform.domains.azure.importers.az_documents import NODES, AzItems
from nexusform.domains.azure.importers.az_model import AzSite
from nexusform.words import counted, first_of

DEFAULT_NAME: Final = "site"
_OF_NO_SITE: Final = (NODES, "rack_skus")  # read with every site
GROUND: Final = ("racks", "bare_metal_machines")  # what nothing of a site can be said without
_MOST_NAMED: Final = 4
# What a resource of a kind belongs to, where it names no site: the field with that one's id.
_PARENTS: Final = (("bare_metal_machines", "rackId", "racks"),)


def by_site(items: AzItems, before: AzItems | None = None) -> dict[str, AzItems]:
    """The resources of each site by the site's name. What names none belongs to the only one there is. Sites
    are called as they were `before`: what told the name may be gone.
    """
    names = _names_of_locations(items)
    only = DEFAULT_NAME
    if before is not None:
        names |= _names_of_locations(before)
        only, *others = by_site(before) or (DEFAULT_NAME,)
        only = DEFAULT_NAME if others else only
    racks = _sites_of_racks(items, names)
    sites: dict[str, dict[str, list[Item]]] = {}
    homeless: list[tuple[str, Item]] = []
    site_of: dict[str, str] = {}  # id key of a rack or cluster -> its site
    for kind, item in _placed_first(items):
        site = _site_of(kind, item, names, site_of) or racks.get(id_key(str(item.value("id") or "")))
        if site is None:
            homeless.append((kind, item))
            continue
        sites.setdefault(site, {}).setdefault(kind, []).append(item)
        arm_id = item.value("id")
        if isinstance(arm_id, str):
            site_of[id_key(arm_id)] = site
    _settle(homeless, sites, only)
    shared = {kind: items.of(kind) for kind in _OF_NO_SITE}
    return {name: replace(items, by_kind={**of_site, **shared}) for name, of_site in sites.items()}


def the_site(items: AzItems, name: str | None) -> tuple[AzItems, list[Problem]]:
    """The resources of the site of that name, or of the only one there is, and why that cannot be told.

    Lists of tenants and of Nexus clusters are of a whole subscription: where racks or machines were captured,
    sites without any are no choice.
    """
    sites = by_site(items)
    standing = [one for one, own in sites.items() if any(map(own.of, GROUND))]
    standing = standing or [one for one, own in sites.items() if own.of("clusters")]
    if name in standing or (name is None and len(standing) == 1):
        return sites[name if name is not None else standing[0]], []
    if name is None and not standing:
        return items, []
    choice = first_of(sorted(standing), _MOST_NAMED)
    detail = (
        f"The export holds {counted(len(standing), 'site')} ({choice}). Say which one is meant."
        if name is None
        else f'The export does not show the site "{name}", but {choice or "none at all"}.'
    )
    return replace(items, by_kind={}), [Problem(("site",), "which-site", detail)]


def _settle(homeless: list[tuple[str, Item]], sites: dict[str, dict[str, list[Item]]], default: str) -> None:
    """What names no site goes to the only one; where there are several it is left out, and said."""
    if len(sites) <= 1:
        only = next(iter(sites), default)
        for kind, item in homeless:
            sites.setdefault(only, {}).setdefault(kind, []).append(item)
        return
    for _, item in homeless:
        item.report(
            "extendedLocation",
            "site-not-told",
            f'"{item.value("name")}" names no extendedLocation and no clusterId, and the export holds '
            f"{len(sites)} sites: it is left out.",
            Severity.WARNING,
        )


def _placed_first(items: AzItems) -> Iterator[tuple[str, Item]]:
    """The resources of sites with their kind, parents before what belongs to them."""
    first = ("clusters", "racks", "kubernetes_clusters")
    rest = (kind for kind in items.by_kind if kind not in (*first, *_OF_NO_SITE))
    for kind in (*first, *rest):
        for item in items.of(kind):
            yield kind, item


def _site_of(kind: str, item: Item, names: Mapping[str, str], site_of: Mapping[str, str]) -> str | None:
    """The site that a resource names, by its location, its cluster, its parent or the cluster that it is
    part of.
    """
    if kind == "clusters":
        return item.text("name")
    location = _location(item)
    if location:
        return names[location]
    cluster = item.text("clusterId")
    if cluster:
        return name_of(cluster)
    for of_kind, field, _ in _PARENTS:
        parent = item.text(field) if kind == of_kind else None
        if parent and id_key(parent) in site_of:
            return site_of[id_key(parent)]
    owner = id_key(str(item.value("id") or "")).rpartition("/")[0].rpartition("/")[0]
    return site_of.get(owner)


def _sites_of_racks(items: AzItems, names: Mapping[str, str]) -> dict[str, str]:
    """The site of each rack as its machines say it, by the rack's id key."""
    sites: dict[str, str] = {}
    for machine in items.of("bare_metal_machines"):
        rack_id = machine.text("rackId")
        site = _site_of("", machine, names, {})
        if rack_id and site:
            sites[id_key(rack_id)] = site
    return sites


def _location(item: Item, field: str = "extendedLocation") -> str:
    """The key of a resource's extended location, "" where it has none."""
    return id_key(text_at(item.value(field), "name"))


def _names_of_locations(items: AzItems) -> dict[str, str]:
    """The name of the site that each extended location is: that of its Nexus cluster, else its own."""
    clusters: dict[str, str] = {}
    own: dict[str, str] = {}
    for kind, of_kind in items.by_kind.items():
        for item in of_kind:
            name, cluster = item.value("name"), item.value("clusterId")
            if kind == "clusters":
                # A Nexus cluster's own location is the manager's; its tenants' is the other one.
                clusters[_location(item, "clusterExtendedLocation")] = str(name)
                continue
            location = _location(item)
            own[location] = name_of(location)
            if isinstance(cluster, str) and cluster:
                clusters.setdefault(location, name_of(cluster))
    names = {**own, **clusters}
    names.pop("", None)
    return names


# --- the names that state has ------------------------------------------------------------------


def named_as_known(sites: Sequence[AzSite], objects: Iterable[Mapping[str, Any]]) -> tuple[AzSite, ...]:
    """The sites with the names that the attributes of objects in state have for them.

    A site under a name that state lacks is one that the export shows no more under its name, where it has
    most of the machines of that one, and no other site comes into question.
    """
    known = machines_by_site(objects)
    shown = {site.name for site in sites}
    heirs: dict[str, list[str]] = {}  # a new name -> the names in state that it may stand for
    owners: dict[tuple[str, str], list[str]] = {}
    for site in sites:
        for machine in site.inventory.machines if site.name not in known else ():
            owners.setdefault((machine.rack, machine.name), []).append(site.name)
    for name in sorted(known.keys() - shown):
        counts = Counter(new for machine in known[name] for new in owners.get(machine, ()))
        likely = [new for new, count in counts.items() if 2 * count > len(known[name])]
        if len(likely) == 1:
            heirs.setdefault(likely[0], []).append(name)
    names = {new: old[0] for new, old in heirs.items() if len(old) == 1}
    return tuple(replace(site, name=names.get(site.name, site.name)) for site in sites)


def machines_by_site(objects: Iterable[Mapping[str, Any]]) -> dict[str, set[tuple[str, str]]]:
    """The machines (rack and name) of each site, as the attributes of objects in state say it: those of
    machines, and those on which VMs stand.
    """
    machines: dict[str, set[tuple[str, str]]] = {}
    for attributes in objects:
        rack_id, parent = attributes.get("rack_id"), attributes.get("kubernetes_cluster_id")
        if rack_id:
            site, _, rack = str(rack_id).partition("/")
            machines.setdefault(site, set()).add((rack, str(attributes.get("name"))))
            continue
        site = str(attributes.get("site_id") or parent or "").partition("/")[0]
        if not site:
            continue
        of_site = machines.setdefault(site, set())
        nodes = attributes.get("nodes")
        for vm in (attributes, *(nodes.values() if isinstance(nodes, Mapping) else ())):
            if vm.get("machine") and vm.get("rack"):
                of_site.add((str(vm["rack"]), str(vm["machine"])))
    return machines
