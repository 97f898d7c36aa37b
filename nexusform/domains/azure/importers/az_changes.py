"""Changes planned by another tool, merged into the resources of an export.

The changes are those of clusters, agent pools and VMs. Template bodies and exported bodies have the
same properties, so the same readers read both.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import chain
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Problem, Severity, suggest_name
from nexusform.diagnostics.phrases import format_first_items, format_list, select_word_form
from nexusform.documents.scalars import replace_scalars
from nexusform.domains.azure.importers.arm_resources import (
    SHAPE,
    ArmItem,
    Origin,
    describe_type,
    extract_name,
    normalize_id,
)
from nexusform.domains.azure.importers.az_documents import AzResources
from nexusform.domains.azure.importers.az_records import AzPool
from nexusform.domains.azure.importers.az_workloads import read_agent_pools_by_cluster
from nexusform.domains.azure.importers.azure_request_bodies import has_requested_values
from nexusform.domains.azure.importers.site_separation import read_extended_location
from nexusform.json_data.plain_data import (
    Path,
    get_mapping,
    get_text,
    get_value_at_path,
    list_mappings,
)
from nexusform.plans.impact.guard_rails import NOT_PREDICTED
from nexusform.scheduling.sku_catalogue import CATALOGUES, NEWEST

CLUSTERS: Final = "kubernetes_clusters"
POOLS: Final = "agent_pools"
VMS: Final = "virtual_machines"
TYPE_OF_KIND: Final[Mapping[str, str]] = {
    CLUSTERS: "Microsoft.NetworkCloud/kubernetesClusters",
    POOLS: "Microsoft.NetworkCloud/kubernetesClusters/agentPools",
    VMS: "Microsoft.NetworkCloud/virtualMachines",
}
KIND_OF: Final[Mapping[str, str]] = {name.lower(): kind for kind, name in TYPE_OF_KIND.items()}
# Resources of a fleet that decide placements on its clusters, by type in lower case or by type of
# Terraform. Azure writes them to the hub of the fleet.
_FLEET_NOUNS: Final[Mapping[str, str]] = {
    "microsoft.containerservice/fleets/managednamespaces": "managed namespace",
    "microsoft.containerservice/fleets/members": "fleet member",
    "azurerm_kubernetes_fleet_member": "fleet member",
}
INITIAL_POOLS: Final = "initialAgentPoolConfigurations"

# Values that decide placement or re-creation; they must be known. "*" is any entry of a list.
_POOL_FIELDS: Final = ("count", "vmSkuName", "availabilityZones")
_PLACEMENT_FIELDS: Final[Mapping[str, tuple[Path, ...]]] = {
    CLUSTERS: (
        *(("controlPlaneNodeConfiguration", name) for name in _POOL_FIELDS),
        *((INITIAL_POOLS, "*", name) for name in (*_POOL_FIELDS, "name")),
    ),
    POOLS: tuple((name,) for name in _POOL_FIELDS),
    VMS: (("cpuCores",), ("memorySizeGB",), ("storageProfile", "osDisk"), ("placementHints",)),
}
# A change of these fields re-creates an existing pool or cluster.
_RECREATION_FIELDS: Final[Mapping[str, tuple[Path, ...]]] = {
    CLUSTERS: (("kubernetesVersion",),),
    POOLS: (("labels",), ("taints",), ("mode",)),
    VMS: (),
}
_REQUIRED_FIELDS: Final[Mapping[str, tuple[Path, ...]]] = {
    CLUSTERS: (
        ("controlPlaneNodeConfiguration", "count"),
        ("controlPlaneNodeConfiguration", "vmSkuName"),
    ),
    POOLS: (("count",), ("vmSkuName",)),
    VMS: (("cpuCores",), ("memorySizeGB",), ("storageProfile", "osDisk", "diskSizeGB")),
}

_NAMES_WITHOUT_CASE: Final = frozenset({"kubernetesVersion", "mode", "vmSkuName"})


def find_fleet_noun(type_name: str) -> str:
    """Return the noun of a resource that Azure writes to the hub of a fleet, "" for others.

    `type_name` is the type in ARM, in lower case, or in Terraform.
    """
    return _FLEET_NOUNS.get(type_name, "")


def build_fleet_note(file: str, changes: Sequence[tuple[str, str]]) -> list[Problem]:
    """Return a note about changes of a fleet, as noun and name; nothing without any.

    VM placement does not depend on them.
    """
    if not changes:
        return []
    # One name leaves the terminal room for the rest of the sentence.
    titles = format_first_items([f"{noun} {name}" for noun, name in changes], 1)
    detail = (
        f"{titles} {select_word_form(len(changes), 'is', 'are')} not predicted: placements of a "
        "fleet are read from its hub (docs/provider-fleet.md)."
    )
    return [Problem((), "fleet-not-predicted", detail, Severity.WARNING, file=file)]


# Characters of a value in a message.
_MAX_VALUE_LENGTH: Final = 120


class AzAction(StrEnum):
    """Action on an object.

    CREATE and UPDATE imply if the object exists; PUT does either.
    """

    CREATE = "make"
    UPDATE = "change"
    DELETE = "remove"
    REPLACE = "replace"
    KEEP = "keep"


class ToolChange(Struct, frozen=True):
    """Change of one object by another tool.

    `names` are the parent and the own name. `id` is the ARM id, "" if only names identify the
    object. `body` has the requested values without the `unknown` ones, which have a reason by path
    (() is all). `previous_body` has the values that the other tool read before its change, {} if
    unknown. `address` is the object in the other tool, `file` its document with its `content`, and
    `place` the path of the body in it. `dependencies` are the addresses of objects created earlier.
    """

    kind: str
    names: tuple[str, ...]
    action: AzAction
    address: str
    file: str
    id: str = ""
    body: Mapping[str, Any] = field(default_factory=dict)
    previous_body: Mapping[str, Any] = field(default_factory=dict)
    unknown: Mapping[Path, str] = field(default_factory=dict)
    dependencies: tuple[str, ...] = ()
    content: bytes = b""
    place: Path = ()

    @property
    def origin(self) -> Origin:
        """Origin of the body."""
        return Origin(self.file, (self.address,), self.place)

    @property
    def title(self) -> str:
        """Parent and own name: `cluster/pool`."""
        return "/".join(self.names)


class NewAgentPool(Struct, frozen=True):
    """A new agent pool with the ARM id of its cluster, and its body."""

    cluster_id: str
    pool: AzPool
    address: str
    item: ArmItem


class ResourcesAfterChanges(Struct, frozen=True):
    """Resources of a site after the changes; ids in lower case.

    `pools` are the new agent pools, and `recreated_ids` the re-created clusters and VMs.
    `addresses` has the address in the other tool by id of new objects, in creation order.
    `affected_ids` are new and changed objects in execution order; an existing pool counts
    as its cluster.
    """

    items: AzResources
    pools: tuple[NewAgentPool, ...] = ()
    recreated_ids: frozenset[str] = frozenset()
    addresses: Mapping[str, str] = field(default_factory=dict)
    affected_ids: tuple[str, ...] = ()


def apply_changes(
    items: AzResources, changes: Sequence[ToolChange], findings: list[Problem]
) -> ResourcesAfterChanges:
    """Apply the changes, in creation order, to the resources of an export."""
    changed_site = _ChangedSite(items, findings)
    for change in changes:
        changed_site.apply_change(change)
    return changed_site.build_result()


def _normalize_region(region: object) -> str:
    """Return the name of an Azure region (`East US`: `eastus`), "" for another value."""
    return region.replace(" ", "").casefold() if isinstance(region, str) else ""


def _list_regions(items: AzResources) -> list[str]:
    """Return the Azure regions of the resources of a site, each once."""
    kinds = ("racks", "bare_metal_machines", CLUSTERS, VMS)
    resources = chain.from_iterable(items.list_resources(kind) for kind in kinds)
    regions = [_normalize_region(item.read_value("location")) for item in resources]
    return list(filter(None, dict.fromkeys(regions)))


def _list_extended_locations(items: AzResources) -> list[str]:
    """Return the extended locations of a site, each once.

    They are the locations of its racks, machines and Nexus clusters.
    """
    locations = [read_extended_location(item) for item in items.list_resources("racks")]
    locations += [
        read_extended_location(item) for item in items.list_resources("bare_metal_machines")
    ]
    locations += [
        read_extended_location(item, "clusterExtendedLocation")
        for item in items.list_resources("clusters")
    ]
    return list(filter(None, dict.fromkeys(locations)))


class _ChangedSite:
    """Bodies of a site by kind and lower-case id, with changes applied in turn."""

    def __init__(self, items: AzResources, findings: list[Problem]) -> None:
        """Index the resources before the changes; problems of changes are added to `findings`."""
        self.items = items
        self.findings = findings
        # By kind, then lower-case id.
        self.bodies: dict[str, dict[str, ArmItem]] = {}
        for kind in TYPE_OF_KIND:
            resources = items.list_resources(kind)
            ids = [
                normalize_id(str(item.read_value("id") or item.read_value("name")))
                for item in resources
            ]
            self.bodies[kind] = dict(zip(ids, resources, strict=True))
        # Before all changes.
        self.listed_bodies = {kind: dict(bodies) for kind, bodies in self.bodies.items()}
        self.locations = _list_extended_locations(items)
        self.regions = _list_regions(items)
        # Names of known VM SKUs of the catalogue and of the site.
        self.skus = set(CATALOGUES[NEWEST].vm_skus)
        sku_fields = ("vmSkuName", "controlPlaneNodeConfiguration", INITIAL_POOLS, "nodes")
        for item in chain(self.bodies[CLUSTERS].values(), self.bodies[POOLS].values()):
            self.skus.update(
                _list_vm_skus_of_body({name: item.read_value(name) for name in sku_fields})
            )
        self.pools: list[NewAgentPool] = []
        # Ids of clusters and VMs.
        self.recreated_ids: set[str] = set()
        # Ids of clusters with a deleted or replaced pool.
        self.clusters_losing_pools: set[str] = set()
        # Of new objects in the other tool, by id.
        self.addresses: dict[str, str] = {}
        # Of all changed objects: an ordered set.
        self.affected_ids: dict[str, None] = {}

    def build_result(self) -> ResourcesAfterChanges:
        """Build the result.

        It has the resources by kind, new pools, and the ids of re-created and affected objects.
        """
        by_kind = {
            **self.items.by_kind,
            **{kind: list(bodies.values()) for kind, bodies in self.bodies.items()},
        }
        # Clusters with removed pools. A re-created one has its initial pools, not
        # the captured ones.
        cluster_ids = self.clusters_losing_pools - self.recreated_ids
        remaining_clusters = [
            self.bodies[CLUSTERS][key] for key in cluster_ids if key in self.bodies[CLUSTERS]
        ]
        cluster_names = frozenset(
            str(item.read_value("name")).lower() for item in remaining_clusters
        )
        return ResourcesAfterChanges(
            # Pools of these clusters were removed: their list of pools is complete, even
            # if empty now.
            items=replace(self.items, by_kind=by_kind, clusters_with_pool_files=cluster_names),
            pools=tuple(self.pools),
            recreated_ids=frozenset(self.recreated_ids),
            addresses=self.addresses,
            affected_ids=tuple(self.affected_ids),
        )

    def apply_change(self, change: ToolChange) -> None:
        """Apply one change to the current bodies.

        A change that is impossible or not predictable is reported instead.
        """
        self._warn_if_changed_since_plan(change)
        if change.action is AzAction.KEEP:
            self._warn_if_not_in_inventory(change)
            return
        # The lower-case ARM id.
        key = self._find_id_key(change)
        if key is None:
            # It is reported, or is a pool deleted with its cluster.
            return
        # The key itself if it is not of a pool.
        cluster_key = key.rpartition("/agentpools/")[0] or key
        if change.action is AzAction.REPLACE and cluster_key in self.recreated_ids:
            # The old pool went with its cluster.
            change = replace(change, action=AzAction.CREATE)
        if change.kind == POOLS and cluster_key not in self.addresses:
            # No new cluster: its initial pools may include the changed one.
            self._add_initial_pools(cluster_key)
        exists = key in self.bodies[change.kind]
        if not self._is_consistent_with_inventory(change, exists=exists):
            return  # reported
        # Changes of a cluster precede those of its pools.
        self.affected_ids |= {cluster_key: None, key: None}
        if change.action is AzAction.DELETE:
            self._remove_object(change, key)
            return
        is_update = exists and change.action is not AzAction.REPLACE
        if not self._has_known_placement_values(change, is_update=is_update):
            return  # reported
        if change.kind == POOLS:
            self._apply_pool_change(change, key, exists=exists)
            return
        # The old object and its pools go.
        if change.action is AzAction.REPLACE:
            self._remove_object(change, key)
            self.recreated_ids.add(key)
        self.bodies[change.kind][key] = (
            self._update_item(change, key) if is_update else self._create_item(change, key)
        )

    def _find_id_key(self, change: ToolChange) -> str | None:
        """Return the lower-case ARM id of the changed object; a new one gets a made-up id.

        Return None for a pool deleted with its cluster. Report an ambiguous object or a pool
        without cluster, and return None.
        """
        if change.kind != POOLS:
            return self._find_or_build_id_key(change.kind, change.names[-1], change.id, change)
        cluster_id = change.id.rpartition("/")[0].rpartition("/")[0]  # without /agentPools/NAME
        owner = self._find_or_build_id_key(CLUSTERS, change.names[0], cluster_id, change)
        if owner is None:
            return None  # reported
        # An earlier change has deleted the cluster, perhaps to re-create it.
        is_deleted = owner in self.recreated_ids or (
            owner in self.affected_ids and owner not in self.bodies[CLUSTERS]
        )
        if change.action is AzAction.DELETE and is_deleted:
            # The pool was deleted with it.
            return None
        if owner in self.bodies[CLUSTERS]:
            return f"{owner}/agentpools/{change.names[-1].lower()}"
        detail = (
            f'the cluster "{change.names[0]}" of this pool is neither in the inventory nor '
            "created by this plan."
        )
        self._report(change, "missing-pool-cluster", detail)
        return None

    def _find_or_build_id_key(
        self, kind: str, name: str, arm_id: str, change: ToolChange
    ) -> str | None:
        """Return the lower-case ARM id of an object.

        `arm_id`, else the id found by name, else a made-up one. Among objects of the same name
        choose by location; report the change and return None if several remain.
        """
        if arm_id:
            return normalize_id(arm_id)
        full_type = TYPE_OF_KIND[kind]
        short_type = full_type.rpartition("/")[2].lower()
        # Ids of this kind and name in any resource group: .../kubernetesclusters/core
        keys = [key for key in self.bodies[kind] if key.endswith(f"/{short_type}/{name.lower()}")]
        location = normalize_id(get_text(change.body, "extendedLocation", "name"))
        # Those at the requested location take precedence.
        if len(keys) > 1 and location:
            keys = [
                key for key in keys if read_extended_location(self.bodies[kind][key]) == location
            ]
        if len(keys) > 1:
            detail = (
                f'the inventory holds {len(keys)} of the name "{name}". This plan does not '
                "identify one of them."
            )
            self._report(change, "unknown-object-state", detail)
            return None
        return keys[0] if keys else f"/new/providers/{full_type}/{name}".lower()

    def _warn_if_not_in_inventory(self, change: ToolChange) -> None:
        """Warn if the inventory lacks an existing cluster or VM, or a pool of a listed cluster.

        One with the location of another site is not reported.
        """
        key = normalize_id(change.id)
        if not key or key in self.bodies[change.kind]:
            # Its id is unknown, or it is listed.
            return
        title = change.title
        if change.kind == POOLS:
            cluster_id, _, pool_name = key.rpartition("/agentpools/")
            cluster = self.bodies[CLUSTERS].get(cluster_id)
            if cluster is None or self._has_pool_in_cluster(cluster, key):
                # The site of a missing cluster is unknown.
                return
            if get_value_at_path(change.body, "properties", "count") == 0:
                # It uses no capacity.
                return
            title = f"{extract_name(cluster_id)}/{pool_name}"
        location = normalize_id(get_text(change.body, "extendedLocation", "name"))
        if location and self.locations and location not in self.locations:
            # It is elsewhere.
            return
        if not location and self._is_in_other_region(change.body):
            return
        detail = f'the inventory has no "{title}", an existing object: its capacity may be in use.'
        self._report(change, NOT_PREDICTED, detail, severity=Severity.WARNING)

    def _warn_if_changed_since_plan(self, change: ToolChange) -> None:
        """Warn if the inventory differs from what the other tool read before its change.

        The inventory or the plan is then older than a change of the site. Compared are the values
        that decide placement or re-creation; warn if the plan has none of them.
        """
        if change.action is AzAction.CREATE:
            return
        key = normalize_id(change.id)
        item = self.listed_bodies[change.kind].get(key)
        if item is None:
            cluster = self.listed_bodies[CLUSTERS].get(key.rpartition("/agentpools/")[0])
            # Another missing object is reported as missing.
            if cluster is not None and self._has_pool_in_cluster(cluster, key):
                detail = (
                    "the inventory has no agent pools of this cluster, so the pool was not "
                    "compared with it. Capture the agent pools."
                )
                self._report(change, "not-compared", detail, severity=Severity.WARNING)
            return
        properties = get_mapping(change.previous_body, "properties")
        is_compared = False
        for path in (*_PLACEMENT_FIELDS[change.kind], *_RECREATION_FIELDS[change.kind]):
            planned = get_value_at_path(properties, *path)
            # Azure ignores initial pools after the creation.
            if planned is None or path[0] == INITIAL_POOLS:
                continue
            is_compared = True
            listed = get_value_at_path(item.read_value(str(path[0])), *path[1:])
            if has_requested_values(_normalize(listed, path), _normalize(planned, path)):
                continue
            name = ".".join(map(str, path))
            current = "absent" if listed is None else _format_value(listed)
            detail = (
                f'"{name}" was {_format_value(planned)} when this plan was made, but is '
                f"{current} in the inventory. The prediction uses the inventory. Capture the "
                "inventory and make the plan again."
            )
            self._report(
                change, NOT_PREDICTED, detail, ("properties", *path), severity=Severity.WARNING
            )
        if not is_compared:
            detail = (
                "this plan does not have the object's earlier values, so they were not compared "
                "with the inventory. Check that the inventory is current."
            )
            self._report(change, "not-compared", detail, severity=Severity.WARNING)

    def _has_pool_in_cluster(self, cluster: ArmItem, pool_id: str) -> bool:
        """Return whether the body of a cluster has a pool with this lower-case ARM id.

        It is that of a node or, if no pool of the cluster is listed, an initial pool.
        """
        cluster_id, _, name = pool_id.rpartition("/agentpools/")
        nodes = list_mappings(cluster.read_value("nodes"))
        if any(normalize_id(get_text(node, "agentPoolId")) == pool_id for node in nodes):
            return True
        if any(key.startswith(f"{cluster_id}/agentpools/") for key in self.listed_bodies[POOLS]):
            return False
        pools = list_mappings(cluster.read_value(INITIAL_POOLS))
        return any(get_text(pool, "name").lower() == name for pool in pools)

    def _is_consistent_with_inventory(self, change: ToolChange, *, exists: bool) -> bool:
        """Return False (reported) if the inventory lacks an object to change or remove.

        Warn if a new one exists.
        """
        if change.action is not AzAction.CREATE and not exists:
            missing_object = (
                f'"{change.title}" to {"remove" if change.action is AzAction.DELETE else "change"}'
            )
            detail = (
                f"the inventory has no {missing_object}. Capture the inventory again, or use "
                "another one."
            )
            self._report(change, "not-in-inventory", detail)
            return False
        if change.action is AzAction.CREATE and exists:
            detail = (
                f'"{change.title}" is to be created but is in the inventory: treated as a change.'
            )
            self._report(change, "already-exists", detail, severity=Severity.WARNING)
        return True

    def _has_known_placement_values(self, change: ToolChange, *, is_update: bool) -> bool:
        """Return True if all values for placement are known and, for a new object, present.

        An unknown or missing value is reported. With `is_update`, the object exists and is not
        replaced, so it keeps its values of absent properties.
        """
        finding_count = len(self.findings)
        decisive_paths = _PLACEMENT_FIELDS[change.kind]
        if is_update:
            # A re-created object is placed again.
            decisive_paths += _RECREATION_FIELDS[change.kind]
        for path, reason in change.unknown.items():
            property_path = path[1:] if path[:1] == ("properties",) else path
            # The unknown value may be a part of a decisive one, or contain it.
            if any(_is_prefix_of_other(property_path, decisive) for decisive in decisive_paths):
                self._report(
                    change, "unknown-in-plan", f"{reason}, so placement cannot be predicted.", path
                )
        properties = change.body.get("properties")
        if not isinstance(properties, Mapping | None):
            self._report(
                change,
                SHAPE,
                f"expected an object, not {describe_type(properties)}.",
                ("properties",),
            )
            return False
        location = change.body.get("extendedLocation")
        location_name = get_value_at_path(location, "name")
        if not isinstance(location, Mapping | None) or not isinstance(location_name, str | None):
            expected = "a string" if isinstance(location, Mapping) else "an object"
            value = location_name if isinstance(location, Mapping) else location
            detail = f"expected {expected}, not {describe_type(value)}."
            self._report(change, SHAPE, detail, ("extendedLocation",))
        count_path = ("controlPlaneNodeConfiguration", "count")
        if change.kind == CLUSTERS and get_value_at_path(properties, *count_path) == 0:
            self._report(change, SHAPE, "expected 1 or more, not 0.", ("properties", *count_path))
        if len(self.findings) > finding_count or not self._has_known_skus(change):
            return False  # reported above
        if is_update:
            # Absent values stay.
            return True
        missing = [
            path
            for path in _REQUIRED_FIELDS[change.kind]
            if get_value_at_path(properties, *path) is None
        ]
        for path in missing:
            self._report(
                change, "missing-field", f'"{path[-1]}" is missing.', ("properties", *path)
            )
        return not missing

    def _has_known_skus(self, change: ToolChange) -> bool:
        """Return True if the catalogue or the site has all VM SKUs of the body.

        Unknown SKUs are reported.
        """
        properties = get_mapping(change.body, "properties")
        unknown = [
            sku for sku in dict.fromkeys(_list_vm_skus_of_body(properties)) if sku not in self.skus
        ]
        for sku in unknown:
            suggestion = suggest_name(sku, self.skus)
            detail = (
                f'neither the catalogue ({NEWEST}) nor the site has a VM SKU "{sku}".{suggestion}'
            )
            self._report(change, "unknown-vm-sku", detail)
        return not unknown

    def _create_item(self, change: ToolChange, key: str) -> ArmItem:
        """Build the body of a new object from the change, and record its address.

        `key` is the lower-case ARM id.
        """
        body = {
            **change.body,
            "id": key,
            "name": change.names[-1],
            "type": TYPE_OF_KIND[change.kind],
            # The text sorts after every existing object.
            "systemData": {"createdAt": f"later-{len(self.addresses):06}"},
        }
        self._set_location(change, body)
        self.addresses[key] = change.address
        return ArmItem(change.origin, body, self.findings)

    def _is_in_other_region(self, body: Mapping[str, Any]) -> bool:
        """Return whether a body has another Azure region than all resources of the inventory."""
        region = _normalize_region(body.get("location"))
        return bool(region and self.regions) and region not in self.regions

    def _set_location(self, change: ToolChange, body: dict[str, Any]) -> None:
        """Set the location in the body of a new object.

        A location of the inventory stays. A missing one becomes the one of the only site, unless
        the object is in another region. Otherwise the body has no location; report this if the
        inventory has locations.
        """
        location = normalize_id(get_text(body, "extendedLocation", "name"))
        if location in self.locations:
            # It is known.
            return
        body.pop("extendedLocation", None)
        if not location and self._is_in_other_region(body):
            detail = (
                f'its location is "{body["location"]}". The inventory is of '
                f"{format_list(self.regions)}."
            )
            self._report(change, "unknown-extended-location", detail, ("location",))
            return
        if not self.locations:
            # No resource of the inventory has one.
            return
        if len(self.locations) == 1 and not location:
            body["extendedLocation"] = {"name": self.locations[0]}
            return
        display_name = extract_name(location)
        site_names = list(map(extract_name, self.locations))
        # One name in two subscriptions or groups: their full ids differ.
        if display_name in site_names:
            display_name = location
            site_names = self.locations
        message = (
            f'its extended location is "{display_name}"' if location else "it has no known one"
        )
        detail = f"{message}. The inventory is of {format_list(site_names)}."
        self._report(change, "unknown-extended-location", detail, ("extendedLocation", "name"))

    def _update_item(self, change: ToolChange, key: str) -> ArmItem:
        """Return the existing body of an object, merged with the requested properties.

        `key` is the lower-case ARM id. Azure ignores initial pools after a cluster's creation: do
        not merge them, but report counts unlike the existing ones.
        """
        item = self.bodies[change.kind][key]
        requested = dict(get_mapping(change.body, "properties"))
        initial_pools = requested.pop(INITIAL_POOLS, None)
        # Existing pools must be known for the comparison.
        if isinstance(initial_pools, list):
            self._add_initial_pools(key)
        for entry in list_mappings(initial_pools):
            pool = self.bodies[POOLS].get(f"{key}/agentpools/{str(entry.get('name')).lower()}")
            count = None
            current = "there is no such pool"
            if pool is not None:
                count = pool.read_number("count")
                current = f"{count} exist"
            if count != entry.get("count"):
                detail = (
                    f'the pool "{entry.get("name")}" requests {entry.get("count")} VMs here and '
                    f"{current}: {INITIAL_POOLS} applies only when a cluster is created. Declare "
                    f"the pool as a resource of type {TYPE_OF_KIND[POOLS]}."
                )
                self._report(
                    change,
                    "read-at-creation-only",
                    detail,
                    ("properties", INITIAL_POOLS),
                    severity=Severity.WARNING,
                )
        return item.merge_properties(requested, change.origin.get_part("properties"))

    def _add_initial_pools(self, cluster_id: str) -> None:
        """Add the initial pools of a cluster to the agent pools if none of its pools are listed."""
        pool_bodies = self.bodies[POOLS]
        cluster = self.bodies[CLUSTERS].get(cluster_id)
        if cluster is None or any(
            key.startswith(f"{cluster_id}/agentpools/") for key in pool_bodies
        ):
            # Unknown, or its pools are listed.
            return
        for entry in cluster.read_objects(INITIAL_POOLS):
            name = entry.read_text("name")
            if name:
                pool_id = f"{cluster_id}/agentPools/{name}"
                pool_bodies[pool_id.lower()] = entry.merge_properties(
                    {"id": pool_id}, entry.find_origin()
                )

    def _apply_pool_change(self, change: ToolChange, key: str, *, exists: bool) -> None:
        """Update an existing pool, else add a new one to `self.pools`.

        A replaced pool is removed first. `key` is its ARM id in lower case.
        """
        if exists and change.action is not AzAction.REPLACE:
            self.bodies[POOLS][key] = self._update_item(change, key)
            return
        if exists:
            self._remove_object(change, key)
        cluster_id = key.rpartition("/agentpools/")[0]
        name = change.names[-1]
        body = {**change.body, "id": f"{cluster_id}/agentPools/{name}", "name": name}
        item = ArmItem(change.origin, body, self.findings)
        # One, or none if malformed.
        for pool in read_agent_pools_by_cluster([item]).get(cluster_id, []):
            self.pools.append(NewAgentPool(cluster_id, pool, change.address, item))
            self.addresses[key] = change.address

    def _remove_object(self, change: ToolChange, key: str) -> None:
        """Remove an object, with the pools of a cluster or the nodes of a pool.

        `key` is the lower-case ARM id.
        """
        self.bodies[change.kind].pop(key, None)
        if change.kind == CLUSTERS:
            pools = self.bodies[POOLS].items()
            self.bodies[POOLS] = {
                pool_key: pool for pool_key, pool in pools if not pool_key.startswith(f"{key}/")
            }
        if change.kind != POOLS:
            # Only a pool has nodes in the body of another object.
            return
        cluster_id = key.rpartition("/agentpools/")[0]
        self.clusters_losing_pools.add(cluster_id)
        cluster = self.bodies[CLUSTERS][cluster_id]
        nodes = cluster.read_value("nodes")
        if isinstance(nodes, list):
            properties = {
                "nodes": [
                    node for node in nodes if normalize_id(get_text(node, "agentPoolId")) != key
                ]
            }
            # The remaining nodes have other indexes than in the file.
            unknown_place = cluster.find_field_origin("nodes").get_part("*").place
            origin = replace(cluster.find_origin("properties"), place=unknown_place)
            self.bodies[CLUSTERS][cluster_id] = cluster.merge_properties(properties, origin)

    def _report(
        self,
        change: ToolChange,
        kind: str,
        detail: str,
        path: Path = (),
        severity: Severity = Severity.ERROR,
    ) -> None:
        """Add a finding."""
        self.findings.append(
            Problem((change.address, *path), kind, detail, severity, file=change.file)
        )


def _normalize(value: Any, path: Path) -> Any:
    """Return the value of a field as Azure compares it.

    ARM ids, SKUs, modes and versions ignore case, and "v" before a version.
    """
    if path[-1] in _NAMES_WITHOUT_CASE:
        return get_text(value).lower().removeprefix("v") or value
    return replace_scalars(
        value,
        lambda _, scalar: normalize_id(scalar) if get_text(scalar).startswith("/") else scalar,
    )


def _format_value(value: Any) -> str:
    """Return a value as JSON, shortened for a message."""
    text = json.dumps(value)
    return text if len(text) <= _MAX_VALUE_LENGTH else f"{text[:_MAX_VALUE_LENGTH]}..."


def _list_vm_skus_of_body(body: Mapping[str, Any]) -> Iterator[str]:
    """List the VM SKUs in the body of a cluster or pool."""
    listed_parts = chain.from_iterable(
        list_mappings(body, name) for name in (INITIAL_POOLS, "nodes")
    )
    for part in (body, body.get("controlPlaneNodeConfiguration"), *listed_parts):
        sku = get_value_at_path(part, "vmSkuName")
        if isinstance(sku, str):
            yield sku


def _is_prefix_of_other(path: Path, pattern: Path) -> bool:
    """Return True if one path is a prefix of the other (zip ends with the shorter one).

    "*" matches any step.
    """
    return all(
        step in {"*", path_step} or path_step == "*"
        for step, path_step in zip(pattern, path, strict=False)
    )
