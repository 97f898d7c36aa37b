"""The Azure resources that a plan makes, changes and removes, with the bodies that the API takes.

What Azure needs and a plan does not know is an Input: a variable of Terraform, an environment variable of a
script.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import partial
from itertools import chain
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.domains.azure.importers.az_bodies import (
    body_of,
    changed_part,
    cluster_properties,
    merged,
    new_pool_properties,
    ordered_pools,
    placement_hints,
    pool_properties,
    vm_properties,
)
from nexusform.plain_data import part_at, with_part
from nexusform.plans.plan import Action, Change, Plan

API_VERSION: Final = "2025-02-01"
CLUSTER: Final = "Microsoft.NetworkCloud/kubernetesClusters"
POOL: Final = f"{CLUSTER}/agentPools"
VM: Final = "Microsoft.NetworkCloud/virtualMachines"
_TYPES: Final = {"nexus_kubernetes_cluster": CLUSTER, "nexus_agent_pool": POOL, "nexus_virtual_machine": VM}
# What Azure changes of an agent pool that stands; the rest makes it anew.
_PATCHED: Final = frozenset({"count", "upgradeSettings"})
_BLOCK: Final = re.compile(r"nexus_virtual_machine\.([A-Za-z_][\w-]*)")  # without modules and keys
_WORD: Final = re.compile(r"[A-Za-z][a-z0-9]*")
_NOT_IN_NAME: Final = re.compile(r"[^A-Za-z0-9]+")


class Input(Struct, frozen=True):
    """What somebody has to fill in: its name in words, the entry of a map that is meant ("": all of it), and
    what it is for.
    """

    words: tuple[str, ...]
    entry: str
    meaning: str

    @property
    def snake(self) -> str:
        """As Terraform writes names."""
        return "_".join(self.words)

    @property
    def shouted(self) -> str:
        """As shells write names; each entry of a map has one of its own."""
        return _NOT_IN_NAME.sub(
            "_", "_".join([*self.words, self.entry] if self.entry else self.words)
        ).upper()


LOCATION: Final = Input(("location",), "", "Azure region of the resources.")
RESOURCE_GROUP: Final = Input(
    ("resource", "group", "id"), "", "Id of the resource group of clusters and VMs."
)
SUBSCRIPTION: Final = Input(("subscription", "id"), "", "Id of the subscription, a GUID.")
KUBERNETES_VERSION: Final = Input(("kubernetes", "version"), "", "Kubernetes version of new clusters.")
ADMIN_USERNAME: Final = Input(("admin", "username"), "", "Administrator of new VMs.")
VM_IMAGE: Final = Input(("vm", "image"), "", "Image of new VMs, as a registry names it.")
CLOUD_SERVICES: Final = Input(("cloud", "services", "network", "id"), "", "Id of the cloud services network.")


class Do(StrEnum):
    """What becomes of a resource."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    REPLACE = "replace"


class AzureObject(Struct, frozen=True):
    """One resource. `names` are its own and, before it, its cluster's; `properties` are the body, all of it
    for a new one; `changed` is the part of it that an update sends, with `changed_tags`. `address` is the
    block's, `tags` are those of its azure block, and `group` is the resource group in it ("": none is named).
    `unknown` names the parts of what stands in Azure that neither an argument nor its azure block says: a
    body written of it would drop them.
    """

    type: str
    names: tuple[str, ...]
    do: Do
    site: str
    address: str
    properties: Mapping[str, Any] = field(default_factory=dict)
    changed: Mapping[str, Any] = field(default_factory=dict)
    changed_tags: Mapping[str, Any] = field(default_factory=dict)
    tags: Mapping[str, Any] = field(default_factory=dict)
    group: str = ""
    unknown: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Its names as one identifier; of a VM the name of its block, by which the rule breaks ties."""
        if self.type == VM and (match := _BLOCK.fullmatch(self.address)) is not None:
            return match[1]
        text = _NOT_IN_NAME.sub("_", "_".join(self.names)).strip("_")
        return text if text[:1].isalpha() else f"_{text}"

    @property
    def title(self) -> str:
        """Its names for people."""
        return "/".join(self.names)


class Cordon(Struct, frozen=True):
    """A machine that a plan cordons, evacuates or uncordons; `address` is the block's."""

    machine: str
    verb: str
    site: str
    address: str

    @property
    def title(self) -> str:
        """What is done, for people."""
        return f"{_DOING[self.verb]} {self.machine}"


_DOING: Final = {"cordon": "cordoning", "evacuate": "evacuating", "uncordon": "uncordoning"}


class AzureObjects(Struct, frozen=True):
    """The resources of a plan: `placed` are those that are made and changed, in the order in which the plan
    places their VMs, since places depend on it; then `removed`. Objects of kinds that Azure does not have
    are `left_out`, by address. `cordons` is what becomes of machines.
    """

    placed: tuple[AzureObject, ...] = ()
    removed: tuple[AzureObject, ...] = ()
    left_out: tuple[str, ...] = ()
    cordons: tuple[Cordon, ...] = ()

    @property
    def made(self) -> tuple[AzureObject, ...]:
        """The resources that come."""
        return tuple(resource for resource in self.placed if resource.do is not Do.UPDATE)

    @property
    def sites(self) -> tuple[str, ...]:
        """The sites that resources come to or change on, by name."""
        return tuple(sorted({resource.site for resource in self.placed}))

    def location(self, site: str) -> Input:
        """The extended location of a site; where there are several, each is an entry of a map."""
        meaning = "Id of the custom location of the site (its extended location)."
        if len(self.sites) < 2:
            return Input(("extended", "location", "id"), "", meaning)
        return Input(("extended", "location", "ids"), site, "Ids of the custom locations, by site.")


def azure_objects(plan: Plan) -> AzureObjects:
    """What a plan does to resources of Azure."""
    clusters = {change.id: change for change in plan.changes if _TYPES.get(change.address.type) == CLUSTER}
    by_age = sorted(
        plan.changes, key=lambda change: (change.creation or change.prior_creation, str(change.address))
    )
    objects: list[AzureObject] = []
    for change in by_age:
        if change.address.type in _TYPES and change.action is not Action.NO_OP:
            group = _group_of(change, clusters)
            objects += (replace(one, group=group) for one in _resources_of(change, clusters))
    position = {str(change.address): number for number, change in enumerate(plan.changes)}
    placed = [resource for resource in objects if resource.do is not Do.DELETE]
    vnfs = [change for change in plan.changes if change.address.type == "tacker_vnf"]
    return AzureObjects(
        placed=tuple(sorted(placed, key=lambda resource: position[resource.address])),
        removed=tuple(resource for resource in objects if resource.do is Do.DELETE),
        left_out=tuple(str(vnf.address) for vnf in vnfs if vnf.action in _MADE),
        cordons=tuple(chain.from_iterable(map(_cordons, plan.changes))),
    )


def _group_of(change: Change, clusters: Mapping[str, Change]) -> str:
    """The resource group that a change's azure block names; a pool is in its cluster's."""
    values = change.after or change.before or {}
    owner = clusters.get(str(values.get("kubernetes_cluster_id")))
    if owner is not None:
        values = owner.after or owner.before or {}
    return str((values.get("azure") or {}).get("resource_group") or "")


def _cordons(change: Change) -> Iterator[Cordon]:
    """The machines of a rack or machine block that take new VMs no more, or again."""
    if change.action not in _MADE or change.after is None:
        return
    before, after = (_cordoned(change.address.type, side or {}) for side in (change.before, change.after))
    for machine in sorted(before.keys() | after.keys()):
        verb = after.get(machine, "uncordon")
        if verb != before.get(machine, "uncordon"):
            yield Cordon(machine, verb, str(change.id).partition("/")[0], str(change.address))


def _cordoned(kind: str, attributes: Mapping[str, Any]) -> dict[str, str]:
    """How the machines that take no new VMs came to that, by name."""
    if kind == "nexus_rack":
        blocks = dict(attributes.get("machine_override") or {})
        cordoned = {name for name, block in blocks.items() if block.get("cordoned") is True}
    elif kind == "nexus_bare_metal_machine":
        blocks = {str(attributes.get("name")): attributes}
        cordoned = {name for name, block in blocks.items() if block.get("cordon_status") == "Cordoned"}
    else:
        return {}
    evacuated = {name: "evacuate" for name, block in blocks.items() if block.get("evacuate") is True}
    return {**dict.fromkeys(cordoned, "cordon"), **evacuated}


_MADE: Final = frozenset(
    {Action.CREATE, Action.REPLACE, Action.REPLACE_CREATE_FIRST, Action.UPDATE, Action.DELETE}
)
_DO: Final = {
    Action.CREATE: Do.CREATE,
    Action.UPDATE: Do.UPDATE,
    Action.DELETE: Do.DELETE,
    Action.REPLACE: Do.REPLACE,
    Action.REPLACE_CREATE_FIRST: Do.REPLACE,
}


def _resources_of(change: Change, clusters: Mapping[str, Change]) -> Iterator[AzureObject]:
    """The resources that one change makes, changes and removes; a cluster's pools are such of their own."""
    do = _DO.get(change.action)
    if do is None:
        return
    if do is Do.REPLACE and change.before and change.after and change.before["id"] != change.after["id"]:
        # Under another name it is another resource: the old one goes, the new one comes.
        yield from _resources_of(replace(change, action=Action.DELETE, after=None), clusters)
        yield from _resources_of(replace(change, action=Action.CREATE, before=None), clusters)
        return
    kind, address = _TYPES[change.address.type], str(change.address)
    attributes = _without_secrets(change.after or change.before or {}, change)
    before = _without_kept_secrets(change)
    if kind == POOL:
        names, site = _names_of_pool(attributes, clusters)
        pool = AzureObject(type=POOL, names=names, do=do, site=site, address=address)
        yield from _with_pool_body(pool, before, attributes, is_observed=_is_observed(change))
        return
    resource = AzureObject(
        type=kind,
        names=(str(attributes["name"]),),
        do=do,
        site=str(attributes["site_id"]),
        address=address,
        unknown=_unsaid(kind, attributes) if _is_observed(change) else (),
    )
    if do is Do.DELETE:
        yield resource
    elif kind == VM:
        made = replace(resource, properties=_new_vm(attributes), tags=_tags(attributes))
        yield made if do is not Do.UPDATE else _with_changed_body(made, before or {}, attributes)
    elif do is Do.UPDATE:
        yield from _changed_cluster(resource, before or {}, attributes, is_observed=_is_observed(change))
    else:
        yield replace(resource, properties=_new_cluster(attributes), tags=_tags(attributes))


def _names_of_pool(
    attributes: Mapping[str, Any], clusters: Mapping[str, Change]
) -> tuple[tuple[str, str], str]:
    """The names of a separate pool's cluster and its own, and the site of both."""
    cluster_id = str(attributes["kubernetes_cluster_id"])
    site, _, cluster_name = cluster_id.rpartition("/")
    if cluster_id in clusters:
        cluster = clusters[cluster_id].after or clusters[cluster_id].before or {}
        cluster_name = str(cluster.get("name", cluster_name))
    return (cluster_name, str(attributes["name"])), site


_OBSERVING: Final = frozenset({"azure", "azure_export"})


def _is_observed(change: Change) -> bool:
    """Whether what a change is about stands in Azure, so that its body may hold more than the arguments."""
    return change.before is not None and change.provider.partition(".")[0] in _OBSERVING


class _Cluster(Struct, frozen=True):
    """What Azure changes of a cluster that stands; `pools` are the arguments of its pools, by name."""

    version: str | None
    control_plane_count: int
    pools: Mapping[str, Mapping[str, Any]]


def _cluster_of(attributes: Mapping[str, Any]) -> _Cluster:
    """What Azure changes of a cluster, from its attributes."""
    return _Cluster(
        attributes.get("kubernetes_version"),
        attributes["control_plane"]["count"],
        dict(ordered_pools(attributes)),
    )


def _changed_cluster(
    cluster: AzureObject,
    attributes_before: Mapping[str, Any],
    attributes: Mapping[str, Any],
    *,
    is_observed: bool,
) -> Iterator[AzureObject]:
    """The cluster itself, and its pools as resources of their own."""
    before, after = _cluster_of(attributes_before), _cluster_of(attributes)
    changed: dict[str, Any] = {}
    if before.version != after.version:
        changed["kubernetesVersion"] = after.version
    if before.control_plane_count != after.control_plane_count:
        changed["controlPlaneNodeConfiguration"] = {"count": after.control_plane_count}
    made = replace(cluster, properties=_new_cluster(attributes), changed=changed, tags=_tags(attributes))
    made = _with_changed_body(made, attributes_before, attributes)
    if made.changed or made.changed_tags:
        yield made
    pool = replace(cluster, type=POOL, unknown=())
    for name, arguments in after.pools.items():
        do = Do.UPDATE if name in before.pools else Do.CREATE
        named = replace(pool, names=(*cluster.names, name), do=do)
        yield from _with_pool_body(named, before.pools.get(name), arguments, is_observed=is_observed)
    for name, arguments in before.pools.items():
        if name not in after.pools:
            named = replace(pool, names=(*cluster.names, name), do=Do.DELETE)
            yield from _with_pool_body(named, arguments, arguments, is_observed=is_observed)


def _with_pool_body(
    pool: AzureObject, before: Mapping[str, Any] | None, after: Mapping[str, Any], *, is_observed: bool
) -> Iterator[AzureObject]:
    """A pool with its body, replaced where Azure does not change what changes; none if nothing does."""
    properties = pool_properties(after)
    do = pool.do
    changed: dict[str, Any] = {}
    if do is Do.UPDATE and before is not None:
        old = pool_properties(before)
        changed = {name: value for name, value in properties.items() if old.get(name) != value}
        dropped = old.keys() - properties.keys()
        sent = _with_changed_body(replace(pool, changed=changed), before, after)
        if not (sent.changed or sent.changed_tags or dropped):
            return
        if dropped or not _PATCHED.issuperset(changed):
            do = Do.REPLACE
        pool = sent
    body = properties if do is Do.UPDATE else new_pool_properties(after)
    with_azure_block = merged(_opaque(after), body)
    yield replace(
        pool,
        do=do,
        properties=with_azure_block,
        tags=_tags(after),
        unknown=_unsaid(POOL, after) if is_observed and do is not Do.CREATE else (),
    )


def _with_changed_body(made: AzureObject, before: Mapping[str, Any], after: Mapping[str, Any]) -> AzureObject:
    """A change of what stands with what of its azure block is otherwise than it was."""
    extra = changed_part(body_of(before), body_of(after))
    changed = {**(extra.get("properties") or {}), **made.changed}
    # Tags are one value: those that are not sent are gone.
    return replace(made, changed=changed, changed_tags=_tags(after) if "tags" in extra else {})


# What Azure knows of an object beyond the arguments. A body that is written of one which was taken over is
# all of it where its azure block says each of these: null, or nothing within, where Azure has none.
_TAGS: Final = "tags"
_BEYOND: Final[Mapping[str, tuple[str, ...]]] = {
    CLUSTER: (
        _TAGS,
        "aadConfiguration",
        "administratorConfiguration",
        "managedResourceGroupConfiguration",
        "networkConfiguration",
        "controlPlaneNodeConfiguration.administratorConfiguration",
    ),
    POOL: (_TAGS, "administratorConfiguration", "agentOptions", "attachedNetworkConfiguration"),
    VM: (
        _TAGS,
        "adminUsername",
        "bootMethod",
        "cloudServicesNetworkAttachment",
        "isolateEmulatorThread",
        "networkAttachments",
        "networkData",
        "sshPublicKeys",
        "userData",
        "virtioInterface",
        "vmDeviceModel",
        "vmImage",
        "vmImageRepositoryCredentials",
    ),
}


def _unsaid(kind: str, attributes: Mapping[str, Any]) -> tuple[str, ...]:
    """What only Azure knows of such an object, and its azure block does not say."""
    body = body_of(attributes)
    said = {_TAGS} & body.keys()
    for name, part in _opaque(attributes).items():
        said |= {name, *(f"{name}.{inner}" for inner in (part if isinstance(part, Mapping) else ()))}
    return tuple(name for name in _BEYOND[kind] if name not in said)


# --- bodies ------------------------------------------------------------------------------------


def _new_cluster(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a new cluster; Inputs stand where somebody has to fill in."""
    networks = "Ids of the CNI networks, by cluster."
    needed = {
        "kubernetesVersion": KUBERNETES_VERSION,
        **cluster_properties(attributes),
        "networkConfiguration": {
            "cloudServicesNetworkId": CLOUD_SERVICES,
            "cniNetworkId": Input(("cni", "network", "ids"), str(attributes["name"]), networks),
        },
    }
    extra = {name: _opaque(pool) for name, pool in ordered_pools(attributes)}
    initial = "initialAgentPoolConfigurations"
    pools = [{**merged(pool, extra[pool["name"]]), **pool} for pool in needed[initial]]
    return {**merged(needed, _opaque(attributes)), initial: pools}


def _opaque(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """The properties of the body in an azure block."""
    properties = body_of(attributes).get("properties")
    return properties if isinstance(properties, Mapping) else {}


def _tags(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """The tags in an azure block."""
    tags = body_of(attributes).get("tags")
    return tags if isinstance(tags, Mapping) else {}


def _without_secrets(attributes: Mapping[str, Any], change: Change) -> Mapping[str, Any]:
    """The attributes with Inputs for what of azure blocks is sensitive: exports are files like others."""
    for path in change.sensitive_after:
        if "azure" in path:
            words = tuple(_WORD.findall(str(path[-1])))
            meaning = f"Sensitive value of {'.'.join(map(str, path))}, by resource."
            secret = Input(("secret", *(word.lower() for word in words)), str(change.id), meaning)
            attributes = with_part(attributes, path, secret)
    return attributes


def _without_kept_secrets(change: Change) -> Mapping[str, Any] | None:
    """What stood before, with the same Inputs as what comes where a secret stays as it was."""
    if change.before is None or change.after is None:
        return change.before
    kept = [
        path for path in change.sensitive_after if part_at(change.before, path) == part_at(change.after, path)
    ]
    return _without_secrets(change.before, replace(change, sensitive_after=tuple(kept)))


def _new_vm(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a VM."""
    targets = "Ids in Azure of what placement hints name, by the id here."
    hints = placement_hints(attributes, partial(Input, ("resource", "ids"), meaning=targets))
    attachment = {"attachedNetworkId": CLOUD_SERVICES, "ipAllocationMethod": "Dynamic"}
    needed = {
        "adminUsername": ADMIN_USERNAME,
        "cloudServicesNetworkAttachment": attachment,
        **vm_properties(attributes),
        "vmImage": VM_IMAGE,
        **({"placementHints": hints} if hints else {}),
    }
    return {**merged(merged(needed, _opaque(attributes)), vm_properties(attributes))}


def distinct(inputs: Iterable[Input]) -> dict[tuple[str, ...], list[Input]]:
    """Inputs by their words, in the order in which they first come; the same input counts once."""
    by_words: dict[tuple[str, ...], list[Input]] = {}
    for needed in inputs:
        of_words = by_words.setdefault(needed.words, [])
        if needed not in of_words:
            of_words.append(needed)
    return by_words


def meaning_of(inputs: Sequence[Input]) -> str:
    """What inputs of the same words are for; of the entries of a map with their names."""
    meaning = inputs[0].meaning
    entries = ", ".join(needed.entry for needed in inputs if needed.entry)
    return f"{meaning[:-1]}: {entries}." if entries else meaning
