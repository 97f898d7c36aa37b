"""Azure resources created, updated and deleted by a plan, with API bodies.

Values required by Azure but unknown to the plan are Inputs: Terraform variables, or environment
variables of a script.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import partial
from itertools import chain
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.domains.azure.importers.azure_request_bodies import (
    build_cluster_properties,
    build_new_pool_properties,
    build_placement_hints,
    build_pool_properties,
    build_updated_pool_properties,
    build_vm_properties,
    diff_request_bodies,
    get_known_mapping,
    list_pools,
    merge_bodies,
    omit_members,
    read_opaque_body,
)
from nexusform.json_data.plain_data import (
    Path,
    get_mapping,
    get_part,
    get_text,
    replace_part_at_path,
)
from nexusform.plans.plan import Action, Change, PlacementAction, Plan
from nexusform.rendering.notation.json_values import omit_empty

API_VERSION: Final = "2026-07-01"
CLUSTER: Final = "Microsoft.NetworkCloud/kubernetesClusters"
POOL: Final = f"{CLUSTER}/agentPools"
VM: Final = "Microsoft.NetworkCloud/virtualMachines"
_TYPES: Final = {
    "nexus_kubernetes_cluster": CLUSTER,
    "nexus_agent_pool": POOL,
    "nexus_virtual_machine": VM,
}
# Properties of an agent pool that Azure updates in place; any other change re-creates it.
_UPDATABLE_FIELDS: Final = frozenset({"count", "upgradeSettings"})
# Address without modules and keys.
_VM_ADDRESS: Final = re.compile(r"nexus_virtual_machine\.([A-Za-z_][\w-]*)")
_WORD: Final = re.compile(r"[A-Za-z][a-z0-9]*")
_INVALID_NAME_CHARACTERS: Final = re.compile(r"[^A-Za-z0-9]+")
_GERUNDS: Final = {"cordon": "cordoning", "evacuate": "evacuating", "uncordon": "uncordoning"}
_OBSERVING_PROVIDERS: Final = frozenset({"azure", "azure_export"})


class UserInput(Struct, frozen=True):
    """Value to be provided by the user.

    Words of its name, entry of a map ("" for the whole value), and meaning.
    """

    name_words: tuple[str, ...]
    entry: str
    meaning: str


LOCATION: Final = UserInput(("location",), entry="", meaning="Azure region of the resources.")
RESOURCE_GROUP: Final = UserInput(
    ("resource", "group", "id"), "", "Id of the resource group of clusters and VMs."
)
SUBSCRIPTION: Final = UserInput(
    ("subscription", "id"), entry="", meaning="Id of the subscription, a GUID."
)
KUBERNETES_VERSION: Final = UserInput(
    ("kubernetes", "version"), "", "Kubernetes version of new clusters."
)
ADMIN_USERNAME: Final = UserInput(
    ("admin", "username"), entry="", meaning="Administrator of new VMs."
)
VM_IMAGE: Final = UserInput(
    ("vm", "image"), entry="", meaning="Image of new VMs, as named in a registry."
)
CLOUD_SERVICES: Final = UserInput(
    ("cloud", "services", "network", "id"), "", "Id of the cloud services network."
)


class ResourceAction(StrEnum):
    """Action on a resource."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    REPLACE = "replace"


class AzureResource(Struct, frozen=True):
    """One resource with its parent's and its own name.

    `properties` is the body, complete for a new resource. `update_properties` and `update_tags` are
    the part sent by an update. `address` is the address of the block. `tags` and `group` ("" if
    unset) are from its azure block. `unknown_properties` are properties in Azure absent in
    arguments and azure block; writing the whole body would drop them. With `is_early`, it is an
    update to send before anything is placed.
    """

    type: str
    names: tuple[str, ...]
    action: ResourceAction
    site: str
    address: str
    properties: Mapping[str, Any] = field(default_factory=dict)
    update_properties: Mapping[str, Any] = field(default_factory=dict)
    update_tags: Mapping[str, Any] = field(default_factory=dict)
    tags: Mapping[str, Any] = field(default_factory=dict)
    group: str = ""
    unknown_properties: tuple[str, ...] = ()
    is_early: bool = False

    @property
    def label(self) -> str:
        """Identifier: the joined names.

        A VM keeps the name of its block: its samples (simulated draws) need it.
        """
        if (match := _VM_ADDRESS.fullmatch(self.address)) is not None:
            return match[1]
        text = _INVALID_NAME_CHARACTERS.sub("_", "_".join(self.names)).strip("_")
        return text if text[:1].isalpha() else f"_{text}"

    @property
    def title(self) -> str:
        """Names joined for messages."""
        return "/".join(self.names)


class MachineCordon(Struct, frozen=True):
    """Machine to cordon, evacuate or uncordon; `address` is that of the block."""

    machine: str
    verb: str
    site: str
    address: str

    @property
    def title(self) -> str:
        """Description of the action for messages."""
        return f"{_GERUNDS[self.verb]} {self.machine}"


class RecreatedNode(Struct, frozen=True):
    """Node of a kept pool, to be deleted in its cluster, since Azure has no request for it.

    `name` is the VM's name in the plan, `platform_name` the name in the cluster ("" if unknown),
    `address` the address of the block.
    """

    cluster: str
    name: str
    platform_name: str
    address: str

    @property
    def title(self) -> str:
        """Description of the action for messages."""
        return f"re-creating {self.name}"


class MachineAction(Struct, frozen=True):
    """Run of a lifecycle action (`Restart`) on a machine.

    `body` is that of its azure block.
    """

    machine: str
    action: str
    site: str
    address: str
    body: Mapping[str, Any]

    @property
    def title(self) -> str:
        """Description of the action for messages."""
        return f"{self.action} of {self.machine}"


class PlannedAzureResources(Struct, frozen=True):
    """Resources of a plan.

    `ordered` are created and updated resources and re-created nodes. Early updates come first:
    lower counts, and the upgrade settings of an upgrade. The others follow in the order of VM
    placement, since locations depend on it. `deleted` are the deleted resources, and `skipped` the
    addresses of objects of kinds unknown to Azure. `cordons` and `machine_actions` are actions on
    machines, the latter in order of their windows.
    """

    ordered: tuple[AzureResource | RecreatedNode, ...] = ()
    deleted: tuple[AzureResource, ...] = ()
    skipped: tuple[str, ...] = ()
    cordons: tuple[MachineCordon, ...] = ()
    machine_actions: tuple[MachineAction, ...] = ()

    @property
    def applied(self) -> tuple[AzureResource, ...]:
        """Created and updated resources, in order."""
        return tuple(item for item in self.ordered if isinstance(item, AzureResource))

    @property
    def created(self) -> tuple[AzureResource, ...]:
        """Created resources."""
        return tuple(
            resource for resource in self.applied if resource.action is not ResourceAction.UPDATE
        )

    @property
    def sites(self) -> tuple[str, ...]:
        """Names of sites with created or updated resources."""
        return tuple(sorted({resource.site for resource in self.applied}))

    def build_location(self, site: str) -> UserInput:
        """Build the input for a site's extended location.

        With several sites each is an entry of a map.
        """
        meaning = "Id of the custom location of the site (its extended location)."
        if len(self.sites) < 2:
            return UserInput(("extended", "location", "id"), entry="", meaning=meaning)
        return UserInput(
            ("extended", "location", "ids"), site, "Ids of the custom locations, by site."
        )


def collect_azure_objects(plan: Plan) -> PlannedAzureResources:
    """Collect the Azure resources of a plan.

    Applied ones in the plan's order, deleted ones by age of their objects.
    """
    clusters = {
        change.id: change for change in plan.changes if _TYPES.get(change.address.type) == CLUSTER
    }
    changed = [change for change in plan.changes if change.action in _RESOURCE_ACTIONS]
    changes_by_age = sorted(
        changed, key=lambda change: (change.creation or change.prior_creation, str(change.address))
    )
    position = {str(change.address): number for number, change in enumerate(plan.changes)}
    deleted: list[AzureResource] = []
    applied: list[AzureResource] = []
    for change in changes_by_age:
        if change.address.type not in _TYPES:
            # Unknown to Azure.
            continue
        # A pool is in the resource group of its cluster.
        owner = _find_cluster(change, clusters)
        # It follows the upgrade of its cluster.
        position[str(change.address)] = max(
            position[str(change.address)], position[str(owner.address)]
        )
        group = get_text(_get_attributes(owner), "azure", "resource_group")
        for resource in _build_resources(change, is_upgraded=_is_upgraded(owner)):
            resource_in_group = replace(resource, group=group)
            if resource.action is ResourceAction.DELETE:
                deleted.append(resource_in_group)
            else:
                applied.append(resource_in_group)
    ordered: list[AzureResource | RecreatedNode] = [
        *applied,
        *_find_recreated_nodes(plan, clusters, applied),
    ]
    return PlannedAzureResources(
        ordered=tuple(
            sorted(
                ordered,
                key=lambda item: (
                    not (isinstance(item, AzureResource) and item.is_early),
                    position[item.address],
                ),
            )
        ),
        deleted=tuple(deleted),
        # VNFs are created by their VNF manager, not by Azure.
        skipped=tuple(
            str(change.address) for change in changed if change.address.type == "tacker_vnf"
        ),
        cordons=tuple(chain.from_iterable(map(_find_requested_cordons, changed))),
        machine_actions=tuple(_collect_machine_actions(plan)),
    )


def _find_recreated_nodes(
    plan: Plan, clusters: Mapping[str, Change], applied: Sequence[AzureResource]
) -> Iterator[RecreatedNode]:
    """Yield the nodes to re-create one by one: moved nodes of kept pools.

    `applied` are all applied resources. Azure itself re-creates the nodes of a cluster with another
    Kubernetes version, so these are left out.
    """
    updates = {change.address: change for change in plan.changes if change.action is Action.UPDATE}
    recreated_resources = {
        resource.names for resource in applied if resource.action is ResourceAction.REPLACE
    }
    for row in plan.placements:
        change = updates.get(row.address)
        if change is None or row.action is not PlacementAction.MOVE:
            # Not of an existing object, or the VM stays.
            continue
        if _TYPES.get(change.address.type) not in (CLUSTER, POOL):
            # The VM is not in a pool.
            continue
        cluster = _find_cluster(change, clusters)
        name = str(_get_attributes(change).get("kubernetes_cluster_id", change.id)).rpartition("/")[
            2
        ]
        is_in_recreated_pool = (name, row.pool) in recreated_resources
        if not _is_upgraded(cluster) and not is_in_recreated_pool:
            yield RecreatedNode(name, row.object, row.platform_name, str(row.address))


def _find_cluster(change: Change, clusters: Mapping[str, Change]) -> Change:
    """Find the change of a pool's cluster.

    For another object, or without the cluster in the plan, return `change`.
    """
    return clusters.get(str(_get_attributes(change).get("kubernetes_cluster_id")), change)


def _is_upgraded(cluster: Change) -> bool:
    """Return whether a cluster gets another Kubernetes version."""
    before = get_mapping(cluster.before)
    return before.get("kubernetes_version") != _get_attributes(cluster).get("kubernetes_version")


def _collect_machine_actions(plan: Plan) -> Iterator[MachineAction]:
    """Collect the runs of lifecycle actions, with secrets of their bodies as inputs."""
    changes = {change.address: change for change in plan.changes}
    for action in plan.impact.machine_actions:
        change = changes[action.address]
        body = read_opaque_body(
            _replace_by_inputs(_get_attributes(change), _build_secret_inputs(change))
        )
        yield MachineAction(
            action.machine, action.action, action.site_id, str(action.address), body
        )


def _get_attributes(change: Change) -> Mapping[str, Any]:
    """Return the planned attributes of an object; of a deleted one the prior ones."""
    return change.after or get_mapping(change.before)


def _find_requested_cordons(change: Change) -> Iterator[MachineCordon]:
    """Yield the machines of a rack or machine block to cordon, evacuate or uncordon."""
    if change.after is None:
        # A removed machine stays as it is.
        return
    kind = change.address.type
    before = _read_cordon_actions(kind, get_mapping(change.before))
    after = _read_cordon_actions(kind, change.after)
    for machine in sorted(before.keys() | after.keys()):
        verb = after.get(machine, "uncordon")
        if verb != before.get(machine, "uncordon"):
            yield MachineCordon(
                machine, verb, str(change.id).partition("/")[0], str(change.address)
            )


def _read_cordon_actions(kind: str, attributes: Mapping[str, Any]) -> dict[str, str]:
    """Read the action of each machine to take out of service, by machine name.

    The action is "cordon" or "evacuate".
    """
    if kind not in _CORDONED_VALUES:
        return {}  # no hardware
    # Of a rack, by name of the machine.
    blocks = get_mapping(attributes, "machine_override")
    if kind == "nexus_bare_metal_machine":
        blocks = {str(attributes.get("name")): attributes}
    # Of a cordoned machine: ("cordoned", True) in a rack.
    argument, value = _CORDONED_VALUES[kind]
    cordoned = {name: "cordon" for name, block in blocks.items() if block.get(argument) == value}
    evacuated = {
        name: "evacuate" for name, block in blocks.items() if block.get("evacuate") is True
    }
    return {**cordoned, **evacuated}


# Argument with its value for a cordoned machine, by type.
_CORDONED_VALUES: Final[Mapping[str, tuple[str, Any]]] = {
    "nexus_rack": ("cordoned", True),
    "nexus_bare_metal_machine": ("cordon_status", "Cordoned"),
}


_RESOURCE_ACTIONS: Final = {
    Action.CREATE: ResourceAction.CREATE,
    Action.UPDATE: ResourceAction.UPDATE,
    Action.DELETE: ResourceAction.DELETE,
    Action.REPLACE: ResourceAction.REPLACE,
    Action.REPLACE_CREATE_FIRST: ResourceAction.REPLACE,
}


def _build_resources(change: Change, *, is_upgraded: bool) -> Iterator[AzureResource]:
    """Build the resources of one change.

    An update of a cluster has separate resources for its changed pools. With `is_upgraded`, the
    cluster gets another Kubernetes version.
    """
    action = _RESOURCE_ACTIONS[change.action]
    if action is ResourceAction.REPLACE and get_mapping(change.before).get("id") != get_mapping(
        change.after
    ).get("id"):
        # A new name means a new resource: the old one is deleted, the new one created.
        deletion = replace(change, action=Action.DELETE, after=None)
        creation = replace(change, action=Action.CREATE, before=None)
        yield from _build_resources(deletion, is_upgraded=is_upgraded)
        yield from _build_resources(creation, is_upgraded=is_upgraded)
        return
    kind = _TYPES[change.address.type]
    address = str(change.address)
    attributes = _replace_by_inputs(_get_attributes(change), _build_secret_inputs(change))
    # {} unless an update.
    before = _replace_unchanged_secrets(change)
    if kind == POOL:
        site, _, cluster_name = str(attributes["kubernetes_cluster_id"]).rpartition("/")
        names = (cluster_name, str(attributes["name"]))
        pool = AzureResource(type=POOL, names=names, action=action, site=site, address=address)
        yield from _build_pool_change(
            pool, before, attributes, is_observed=_is_observed(change), is_upgraded=is_upgraded
        )
        return
    resource = AzureResource(
        type=kind,
        names=(str(attributes["name"]),),
        action=action,
        site=str(attributes["site_id"]),
        address=address,
        unknown_properties=_find_properties_known_only_to_azure(kind, attributes)
        if _is_observed(change)
        else (),
    )
    if action is ResourceAction.DELETE:
        yield resource
    elif kind == VM:
        resource = replace(
            resource, properties=_build_vm_body(attributes), tags=_read_tags(attributes)
        )
        yield from _build_vm_change(resource, before, attributes)
    elif action is ResourceAction.UPDATE:
        yield from _build_cluster_update(
            resource, before, attributes, is_observed=_is_observed(change), is_upgraded=is_upgraded
        )
    else:
        yield replace(
            resource, properties=_build_cluster_body(attributes), tags=_read_tags(attributes)
        )


def _is_observed(change: Change) -> bool:
    """Return True if the object exists in Azure.

    Its body may then have more than the arguments.
    """
    return change.before is not None and change.provider.partition(".")[0] in _OBSERVING_PROVIDERS


def _build_vm_change(
    vm: AzureResource, before: Mapping[str, Any], after: Mapping[str, Any]
) -> Iterator[AzureResource]:
    """Yield a VM: a move to another machine re-creates it.

    An update without a change in Azure yields nothing.
    """
    if vm.action is not ResourceAction.UPDATE:
        yield vm
    elif before.get("machine") != after.get("machine"):
        yield replace(vm, action=ResourceAction.REPLACE)
    else:
        updated = _build_block_update(vm, before, after)
        if updated.update_properties or updated.update_tags:
            yield updated


def _build_cluster_update(
    cluster: AzureResource,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    *,
    is_observed: bool,
    is_upgraded: bool,
) -> Iterator[AzureResource]:
    """Yield the updates of a cluster and then of its pools, removed ones last.

    With `is_observed`, they exist in Azure. With `is_upgraded`, the cluster gets
    another Kubernetes version.
    """
    changed: dict[str, Any] = {}
    if is_upgraded:
        changed["kubernetesVersion"] = after.get("kubernetes_version")
    if before["control_plane"]["count"] != after["control_plane"]["count"]:
        changed["controlPlaneNodeConfiguration"] = {"count": after["control_plane"]["count"]}
    updated = replace(
        cluster,
        properties=_build_cluster_body(after),
        update_properties=changed,
        tags=_read_tags(after),
    )
    # This adds the changes of the azure block.
    updated = _build_block_update(updated, before, after)
    if updated.update_properties or updated.update_tags:
        prior_count = before["control_plane"]["count"]
        yield from _split_by_time(updated, prior_count, is_upgraded=is_upgraded)
    # Each pool gets its own unknown properties below.
    pool = replace(cluster, type=POOL, unknown_properties=())
    # Arguments by name.
    pools_before = dict(list_pools(before))
    pools_after = dict(list_pools(after))
    removed = omit_members(pools_before, pools_after)
    for name, arguments in {**pools_after, **removed}.items():
        action = ResourceAction.UPDATE if name in pools_before else ResourceAction.CREATE
        if name in removed:
            action = ResourceAction.DELETE
        pool_object = replace(pool, names=(*cluster.names, name), action=action)
        yield from _build_pool_change(
            pool_object,
            pools_before.get(name, {}),
            arguments,
            is_observed=is_observed,
            is_upgraded=is_upgraded,
        )


def _split_by_time(
    update: AzureResource, prior_count: Any, *, is_upgraded: bool
) -> Iterator[AzureResource]:
    """Yield an update in the parts that a plan assumes one after another.

    A lower count than `prior_count` comes first: these VMs leave before anything is placed. An
    upgrade of the cluster runs with the new upgrade settings, and new VMs follow it.
    """
    changed = update.update_properties
    plane = "controlPlaneNodeConfiguration"
    count = get_part(changed, (plane, "count")) if update.type == CLUSTER else changed.get("count")
    is_changed = isinstance(count, int) and isinstance(prior_count, int)
    early_names = {"upgradeSettings"} if is_upgraded else set[str]()
    late_names = set[str]()
    if is_changed and count < prior_count:
        early_names |= {"count", plane}
    elif is_changed and is_upgraded:
        late_names |= {"count", plane}
    early = {name: part for name, part in changed.items() if name in early_names}
    late = {name: part for name, part in changed.items() if name in late_names}
    other = omit_members(changed, (*early, *late))
    if early:
        yield replace(update, update_properties=early, update_tags={}, is_early=True)
    if other or update.update_tags:
        yield replace(update, update_properties=other)
    if late:
        yield replace(update, update_properties=late, update_tags={})


def _build_pool_change(
    pool: AzureResource,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    *,
    is_observed: bool,
    is_upgraded: bool,
) -> Iterator[AzureResource]:
    """Yield a pool with its body, replaced if Azure cannot update it in place.

    Yield nothing for an unchanged pool. With `is_observed` it exists in Azure, possibly with
    properties unknown to the plan. With `is_upgraded` its cluster gets another Kubernetes version.
    """
    properties = build_pool_properties(after)
    action = pool.action
    changed: dict[str, Any] = {}
    if action is ResourceAction.UPDATE:
        old_properties = build_pool_properties(before)
        properties = build_updated_pool_properties(before, after)
        changed = {
            name: value for name, value in properties.items() if old_properties.get(name) != value
        }
        # An update cannot remove properties.
        dropped = old_properties.keys() - properties.keys()
        updated = _build_block_update(replace(pool, update_properties=changed), before, after)
        if not (updated.update_properties or updated.update_tags or dropped):
            # It is unchanged.
            return
        if dropped or not _UPDATABLE_FIELDS.issuperset(changed):
            action = ResourceAction.REPLACE
        pool = updated
    body = properties if action is ResourceAction.UPDATE else build_new_pool_properties(after)
    has_unknown_body = is_observed and action is not ResourceAction.CREATE
    resource = replace(
        pool,
        action=action,
        properties=merge_bodies(_read_opaque_properties(after), body),
        tags=_read_tags(after),
        unknown_properties=_find_properties_known_only_to_azure(POOL, after)
        if has_unknown_body
        else (),
    )
    if action is ResourceAction.UPDATE:
        prior_count = build_pool_properties(before)["count"]
        yield from _split_by_time(resource, prior_count, is_upgraded=is_upgraded)
    else:
        yield resource


def _build_block_update(
    resource: AzureResource, before: Mapping[str, Any], after: Mapping[str, Any]
) -> AzureResource:
    """Return an update with the changed part of the azure block."""
    block_changes = diff_request_bodies(read_opaque_body(before), read_opaque_body(after))
    changed = {**get_mapping(block_changes, "properties"), **resource.update_properties}
    # Tags are one value: tags not sent are removed.
    has_changed_tags = _read_tags(before) != _read_tags(after)
    return replace(
        resource,
        update_properties=changed,
        update_tags=_read_tags(after) if has_changed_tags else {},
    )


# Properties in Azure besides the arguments. The body of an imported object is complete if its azure
# block has each of these: null or an empty value for those absent in Azure.
_TAGS: Final = "tags"
_EXTRA_PROPERTIES: Final = {
    CLUSTER: f"{_TAGS} aadConfiguration administratorConfiguration "
    "managedResourceGroupConfiguration networkConfiguration "
    "controlPlaneNodeConfiguration.administratorConfiguration",
    POOL: f"{_TAGS} administratorConfiguration agentOptions attachedNetworkConfiguration",
    VM: f"{_TAGS} adminUsername bootMethod cloudServicesNetworkAttachment isolateEmulatorThread "
    "networkAttachments networkData sshPublicKeys userData virtioInterface vmDeviceModel "
    "vmImage vmImageRepositoryCredentials",
}


def _find_properties_known_only_to_azure(
    kind: str, attributes: Mapping[str, Any]
) -> tuple[str, ...]:
    """Find the properties of an object known only to Azure and absent in its azure block."""
    configured = {_TAGS} & read_opaque_body(attributes).keys()
    for name, part in _read_opaque_properties(attributes).items():
        configured.add(name)
        # Members of objects count, too, as `administratorConfiguration` of
        # `controlPlaneNodeConfiguration` does.
        configured.update(f"{name}.{inner}" for inner in get_known_mapping(part))
    return tuple(name for name in _EXTRA_PROPERTIES[kind].split() if name not in configured)


def _build_cluster_body(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Build the body of a new cluster.

    The body merges user inputs for missing values, the arguments, and the azure block; a later one
    replaces values of an earlier one. In a pool the arguments take precedence over its azure block.
    """
    description = "Ids of the CNI networks, by cluster."
    body = {
        "kubernetesVersion": KUBERNETES_VERSION,
        **build_cluster_properties(attributes),
        "networkConfiguration": {
            "cloudServicesNetworkId": CLOUD_SERVICES,
            "cniNetworkId": UserInput(
                ("cni", "network", "ids"), str(attributes["name"]), description
            ),
        },
    }
    azure_blocks = {name: _read_opaque_properties(pool) for name, pool in list_pools(attributes)}
    initial = "initialAgentPoolConfigurations"
    pools = [{**merge_bodies(pool, azure_blocks[pool["name"]]), **pool} for pool in body[initial]]
    return {**merge_bodies(body, _read_opaque_properties(attributes)), initial: pools}


def _read_opaque_properties(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the `properties` in the body of an azure block."""
    return get_known_mapping(read_opaque_body(attributes), "properties")


def _read_tags(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the tags in an azure block."""
    return get_known_mapping(read_opaque_body(attributes), "tags")


def _build_secret_inputs(change: Change) -> dict[Path, UserInput]:
    """Build an input for each sensitive value of azure blocks, by path.

    Exports are plain files, so they must not contain these values.
    """
    inputs: dict[Path, UserInput] = {}
    used_names: Counter[tuple[str, ...]] = Counter()
    for path in change.sensitive_after:
        if "azure" in path:
            words = ("secret", *(word.lower() for word in _WORD.findall(str(path[-1]))))
            used_names[words] += 1
            # Secrets of one resource may end with the same word; each needs a name of its own.
            number = (str(used_names[words]),) if used_names[words] > 1 else ()
            meaning = f"Sensitive value of {'.'.join(map(str, path))}, by resource."
            inputs[path] = UserInput((*words, *number), str(change.id), meaning)
    return inputs


def _replace_by_inputs(
    attributes: Mapping[str, Any], inputs: Mapping[Path, UserInput]
) -> Mapping[str, Any]:
    """Return the attributes with inputs in place of the values at these paths."""
    for path, secret in inputs.items():
        attributes = replace_part_at_path(attributes, path, secret)
    return attributes


def _replace_unchanged_secrets(change: Change) -> Mapping[str, Any]:
    """Return the attributes before an update, with inputs for the unchanged secrets.

    Return {} for another action.
    """
    if change.action is not Action.UPDATE:
        return {}
    before = get_mapping(change.before)
    after = change.after
    inputs = _build_secret_inputs(change).items()
    unchanged = {
        path: secret for path, secret in inputs if get_part(before, path) == get_part(after, path)
    }
    # In both, so that they do not seem changed.
    return _replace_by_inputs(before, unchanged)


def _build_vm_body(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Build the body of a VM.

    Its sizes take precedence over the azure block, the block over inputs.
    """
    targets = "Azure ids of the targets of placement hints, by their id here."
    hints = build_placement_hints(
        attributes, partial(UserInput, ("resource", "ids"), meaning=targets)
    )
    attachment = {"attachedNetworkId": CLOUD_SERVICES, "ipAllocationMethod": "Dynamic"}
    body = {
        "adminUsername": ADMIN_USERNAME,
        "cloudServicesNetworkAttachment": attachment,
        **build_vm_properties(attributes),
        "vmImage": VM_IMAGE,
        **omit_empty({"placementHints": hints}),
    }
    body_with_block = merge_bodies(body, _read_opaque_properties(attributes))
    return {**merge_bodies(body_with_block, build_vm_properties(attributes))}


def group_inputs_by_name(inputs: Iterable[UserInput]) -> dict[tuple[str, ...], list[UserInput]]:
    """Group distinct inputs by name, in order of first use."""
    by_words: dict[tuple[str, ...], list[UserInput]] = {}
    for item in inputs:
        same_name = by_words.setdefault(item.name_words, [])
        if item not in same_name:
            same_name.append(item)
    return by_words
