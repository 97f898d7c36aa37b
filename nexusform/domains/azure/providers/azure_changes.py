"""Azure changes for a step on a cluster, pool or VM, in execution order."""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.phrases import format_count, format_first_items
from nexusform.domains.azure.importers.azure_request_bodies import (
    build_cluster_properties,
    build_new_pool_properties,
    build_placement_hints,
    build_pool_properties,
    build_updated_pool_properties,
    build_vm_properties,
    diff_request_bodies,
    list_hugepages_problems,
    list_pools,
    merge_bodies,
    omit_members,
    read_opaque_body,
    select_members,
)
from nexusform.domains.azure.providers.arm_changes import ArmChange, ArmOperation, ArmTarget
from nexusform.domains.azure.providers.start_values import (
    build_deletion_start,
    build_record_key,
    build_repeated_creation_start,
    build_update_start,
    build_upgrade_start,
)
from nexusform.interfaces.plugins import ChangeRequest, ProviderProblem
from nexusform.json_data.plain_data import get_mapping
from nexusform.kubernetes.quantity import compute_amount_of_total
from nexusform.rendering.notation.json_values import omit_empty
from nexusform.values.typed_value import UNKNOWN

CLUSTER: Final = "nexus_kubernetes_cluster"
POOL: Final = "nexus_agent_pool"
VM: Final = "nexus_virtual_machine"
_RESOURCE_KINDS: Final = {
    CLUSTER: "kubernetes_clusters",
    POOL: "agent_pools",
    VM: "virtual_machines",
}
_MAX_FIXED: Final = 8
_PLANE: Final = "controlPlaneNodeConfiguration"
_VERSION: Final = "kubernetesVersion"
# Properties of an agent pool that Azure updates in place; any other change re-creates it.
_UPDATABLE_FIELDS: Final = frozenset({"count", "upgradeSettings", "administratorConfiguration"})
# Properties that a PATCH may have, by kind of resource. Everything else is fixed at creation.
PATCH_PROPERTIES: Final[Mapping[str, frozenset[str]]] = {
    "kubernetes_clusters": frozenset({"administratorConfiguration", _PLANE, _VERSION}),
    "agent_pools": _UPDATABLE_FIELDS,
    "virtual_machines": frozenset({"vmImageRepositoryCredentials"}),
}

Values = Mapping[str, Any]


class SiteContext(Struct, frozen=True):
    """Context of a step: resource group, common fields of bodies, lookup of ids for hints.

    The group is "" for a new object.
    """

    group: str
    common_fields: Values
    find_arm_id: Callable[[str], str]


def build_azure_changes(request: ChangeRequest, context: SiteContext) -> list[ArmChange]:
    """Build the changes of a step, each with the values that it starts from.

    Raises ProviderProblem for a change that Azure does not support.
    """
    changes = _build_changes(request, context)
    own_pools = {
        change.target.names[-1].casefold()
        for change in changes
        if change.verb is not ArmOperation.UPDATE
    }
    return [_add_start_values(change, request, own_pools) for change in changes]


def _add_start_values(
    change: ArmChange, request: ChangeRequest, own_pools: Collection[str]
) -> ArmChange:
    """Return a change with the values that it starts from.

    `own_pools` are the pools that the step creates or deletes, in lower case.
    """
    target = change.target
    records = request.start_values
    prior = find_prior_arguments(change, request)
    if change.verb is ArmOperation.DELETE:
        return replace(change, start=build_deletion_start(target, prior, records))
    if change.verb is ArmOperation.UPDATE:
        record = get_mapping(records, build_record_key(target.kind, target.names))
        start = build_update_start(change, prior, record)
        if _VERSION in get_mapping(change.expected):
            values = request.final_attributes or request.planned_attributes
            pools = build_upgrade_start(prior, values, records, own_pools)
            accepted = {**start.accepted, **pools.accepted}
            start = replace(start, accepted=accepted, own_pools=pools.own_pools)
        return replace(change, start=start)
    # Any other creation is only sent if the object does not exist.
    if change.is_retry:
        return replace(change, start=build_repeated_creation_start(change))
    return change


def find_prior_arguments(change: ArmChange, request: ChangeRequest) -> Values:
    """Return the arguments of a changed resource before the step; {} for a new one.

    A pool in the block of a cluster has its own arguments.
    """
    prior = request.prior_attributes
    if request.key.type == CLUSTER and change.target.kind == _RESOURCE_KINDS[POOL]:
        return get_mapping(prior, "agent_pool", change.target.names[-1])
    return prior


def _build_changes(request: ChangeRequest, context: SiteContext) -> list[ArmChange]:
    """Build the changes of a step.

    Raises ProviderProblem for a change that Azure does not support.
    """
    kind = request.key.type
    prior = request.prior
    planned = request.planned
    values = planned or request.prior_attributes
    parent_names = (
        [str(values["kubernetes_cluster_id"]).rpartition("/")[2]] if kind == POOL else []
    )  # its cluster
    target = ArmTarget(_RESOURCE_KINDS[kind], context.group, (*parent_names, str(values["name"])))
    # First only release capacity; a later step does the rest.
    if request.is_release:
        return list(_build_capacity_releasing_changes(request, context))
    if planned is None:
        return [ArmChange(ArmOperation.DELETE, target)]
    if kind != VM and (problems := list_hugepages_problems(prior, planned)):
        raise ProviderProblem(" ".join(problems))
    if prior is None:
        creation = _build_object_creation(kind, target, planned, context)
        # An earlier try may have created it.
        return [replace(creation, is_retry=request.is_repeated_create)]
    if kind == CLUSTER:
        changes = list(_build_cluster_changes(target, prior, planned, context))
    elif kind == POOL:
        changes = list(_build_pool_changes(target, prior, planned, context.common_fields))
    else:
        changes = list(_build_vm_changes(target, prior, planned, context))
    # An earlier failure to repeat.
    if request.unfinished_change is not None:
        changes = _add_previously_failed_change(changes, request.unfinished_change, target, planned)
    return [part for change in changes for part in _split_upgrade(change)]


def _split_upgrade(change: ArmChange) -> list[ArmChange]:
    """Split an update with a Kubernetes version and a control-plane count: one request each.

    As for pools, a lower count precedes the upgrade and a higher count follows it. Resumed steps
    need a fixed order.
    """
    properties = get_mapping(change.expected)
    if change.verb is not ArmOperation.UPDATE or not {_VERSION, _PLANE} <= properties.keys():
        return [change]
    count = {_PLANE: {"count": get_mapping(properties, _PLANE)["count"]}}
    reduction = change.reduction
    count_change = replace(
        change, body={"properties": count}, expected=count, removed_tags=frozenset()
    )
    # The azure block may change other members of the control plane.
    plane = omit_members(get_mapping(change.body, "properties", _PLANE), ("count",))
    upgrade = replace(_omit_properties(change, [_PLANE]), reduction=None)
    if plane:
        body = merge_bodies(upgrade.body, {"properties": {_PLANE: plane}})
        upgrade = replace(upgrade, body=body)
    return [count_change, upgrade] if reduction else [upgrade, count_change]


def _add_previously_failed_change(
    changes: list[ArmChange], failed_change: Values, target: ArmTarget, planned: Values
) -> list[ArmChange]:
    """Return the changes of a step, with an earlier failed change sent again.

    `failed_change` is its record in state. If the step updates the same resource, both are one
    update. If it deletes or re-creates the resource, the failed change is dropped. Otherwise it is
    the last change, or the first one if it has only upgrade settings. `target` and `planned` are
    the object of the step. For a pool in the block of a cluster, they are the cluster.
    """
    arm_id = str(failed_change.get("id", ""))
    failed_target = target
    values = planned
    # A pool in the block of the cluster.
    if target.kind == "kubernetes_clusters" and "/agentPools/" in arm_id:
        pools = dict(list_pools(planned))
        pool_name = arm_id.rpartition("/")[2]
        if pool_name not in pools:
            # The pool is to be deleted.
            return changes
        failed_target = _build_pool_target(target, pool_name)
        values = pools[pool_name]
    if any(
        change.target == failed_target and change.verb is not ArmOperation.UPDATE
        for change in changes
    ):
        # The resource is deleted or re-created.
        return changes
    retry = _build_retry(failed_change, failed_target, values)
    numbers = [number for number, change in enumerate(changes) if change.target == failed_target]
    # Of several updates, the one that sends what failed.
    numbers.sort(
        key=lambda number: (
            get_mapping(retry.expected).keys().isdisjoint(get_mapping(changes[number].expected))
        )
    )
    for number in numbers[:1]:
        change = changes[number]
        sent_later = [
            name
            for other_number in numbers[1:]
            for name in get_mapping(changes[other_number].expected)
        ]
        retry = _omit_properties(retry, sent_later)
        # Values of the current change win.
        body = merge_bodies(retry.body, change.body)
        expected = {**get_mapping(retry.expected), **get_mapping(change.expected)}
        # A retry is sent even if Azure already shows its values.
        combined = replace(change, body=body, expected=expected, is_retry=retry.is_retry)
        return [*changes[:number], combined, *changes[number + 1 :]]
    # New settings of a pool precede an upgrade of its cluster.
    if get_mapping(retry.expected).keys() == {"upgradeSettings"}:
        return [retry, *changes]
    return [*changes, retry]


def _omit_properties(change: ArmChange, names: Collection[str]) -> ArmChange:
    """Return an update without these of its properties."""
    body = dict(get_mapping(change.body))
    properties = omit_members(get_mapping(body, "properties"), names)
    remaining = omit_members(body, ("properties",)) | omit_empty({"properties": properties})
    expected = omit_members(get_mapping(change.expected), names)
    return replace(change, body=remaining, expected=expected)


def _build_retry(failed_change: Values, target: ArmTarget, values: Values) -> ArmChange:
    """Build the update that sends a failed change again.

    It has the current values of the recorded properties of the change ("parts"). If none of these
    is known, the first property is sent. `is_retry` is False for a change still in progress: it is
    sent only if Azure does not show its values.
    """
    # Those that Azure can update in place; none of a VM.
    properties: dict[str, Any] = {}
    if target.kind == "agent_pools":
        properties = select_members(build_pool_properties(values), _UPDATABLE_FIELDS)
    elif target.kind == "kubernetes_clusters":
        properties = omit_members(
            build_cluster_properties(values), ("initialAgentPoolConfigurations",)
        )
        # Its other fields are fixed.
        properties[_PLANE] = {"count": properties[_PLANE]["count"]}
    names = [name for name in failed_change.get("parts", ()) if name in properties] or list(
        properties
    )[:1]
    expected = {name: properties[name] for name in names}
    body: dict[str, Any] = {"properties": expected}
    # The azure block was changed.
    if failed_change.get("body"):
        body = merge_bodies(_select_updatable_members(target, read_opaque_body(values)), body)
    return ArmChange(
        ArmOperation.UPDATE, target, body, expected, is_retry=not failed_change.get("in_progress")
    )


def _select_updatable_members(target: ArmTarget, body: Values) -> dict[str, Any]:
    """Select the members of a body allowed in a PATCH."""
    members = select_members(body, ("tags",))
    properties = select_members(get_mapping(body, "properties"), PATCH_PROPERTIES[target.kind])
    if properties:
        members["properties"] = properties
    return members


def _build_capacity_releasing_changes(
    request: ChangeRequest, context: SiteContext
) -> Iterator[ArmChange]:
    """Select the changes to the final object with fewer VMs.

    Deletions, and updates reduced to their lower counts. The upgrade settings of a separate pool
    are changed here, too, if an upgrade of its cluster waits for this step.
    """
    settings: dict[str, Any] = {}
    if request.key.type == POOL and request.planned is not None:
        difference = diff_request_bodies(
            build_pool_properties(request.prior_attributes),
            build_updated_pool_properties(request.prior_attributes, request.planned),
        )
        settings = select_members(difference, ("upgradeSettings",))
    for change in _build_changes(
        replace(request, planned=request.final_attributes, is_release=False), context
    ):
        if change.verb is ArmOperation.DELETE:
            yield change
        elif change.verb is ArmOperation.UPDATE and (change.reduction or settings):
            part = {**get_mapping(change.reduction), **settings}
            yield replace(change, body={"properties": part}, expected=part)


def _build_object_creation(
    kind: str, target: ArmTarget, values: Values, context: SiteContext
) -> ArmChange:
    """Build the request that creates an object."""
    # A pool needs no more than its arguments.
    if kind != POOL:
        _require_azure_block(target, values)
    if kind == CLUSTER:
        properties = build_cluster_properties(values)
        azure_blocks = {
            name: get_mapping(read_opaque_body(pool), "properties")
            for name, pool in list_pools(values)
        }
        properties["initialAgentPoolConfigurations"] = [
            merge_bodies(azure_blocks[pool["name"]], pool)
            for pool in properties["initialAgentPoolConfigurations"]
        ]
    elif kind == POOL:
        properties = build_new_pool_properties(values)
    else:
        hints = build_placement_hints(values, context.find_arm_id)
        properties = {**build_vm_properties(values), **omit_empty({"placementHints": hints})}
    return _build_create_change(target, properties, values, context.common_fields)


def _build_create_change(
    target: ArmTarget, properties: Values, values: Values, common_fields: Values
) -> ArmChange:
    """Build a create request.

    `properties` take precedence over the body of the azure block, and that over `common_fields`.
    """
    body = merge_bodies(
        merge_bodies(common_fields, read_opaque_body(values)), {"properties": properties}
    )
    return ArmChange(ArmOperation.CREATE, target, body)


def _require_azure_block(target: ArmTarget, values: Values) -> None:
    """Raise ProviderProblem if the required azure block is missing."""
    body = get_mapping(values, "azure").get("body")
    # Unknown during a plan.
    if body is UNKNOWN or body:
        return
    required_fields = {
        "kubernetes_clusters": (
            "networkConfiguration (CNI network, cloud services network) and keys"
        ),
        "virtual_machines": "vmImage, adminUsername, cloudServicesNetworkAttachment and keys",
    }
    raise ProviderProblem(
        f"{target.title} needs properties that nexusform does not know: "
        f"{required_fields[target.kind]}. Set them in the block `azure {{ body = {{ properties = "
        "{ ... } } }`."
    )


def _build_cluster_changes(
    target: ArmTarget, prior: Values, planned: Values, context: SiteContext
) -> Iterator[ArmChange]:
    """Build changes of the cluster, then of deleted, changed and created pools.

    A Kubernetes upgrade runs with the upgrade settings and counts of its moment. So new settings
    and lower counts of pools precede it. `_split_upgrade` does the same for the control plane.
    """
    before = build_cluster_properties(prior)
    after = build_cluster_properties(planned)
    # Azure reads them only when it creates the cluster.
    fixed_fields = ("initialAgentPoolConfigurations",)
    expected = diff_request_bodies(
        omit_members(before, fixed_fields), omit_members(after, fixed_fields)
    )
    # The part of the update with a removal of VMs.
    is_reduced = after[_PLANE]["count"] < before[_PLANE]["count"]
    reduction = {_PLANE: expected[_PLANE]} if is_reduced else None
    pools = get_mapping(prior, "agent_pool")
    # The old pools are in the recorded order.
    old_pools = dict(list_pools(prior))
    old_pools |= {
        name: pools[name] for name in sorted(pools.keys() - old_pools.keys())
    }  # missing there
    new_pools = dict(list_pools(planned))
    body = merge_bodies(context.common_fields, read_opaque_body(planned))
    location_fields = select_members(body, ("location", "extendedLocation"))
    # Pools to delete.
    pool_changes = [
        ArmChange(ArmOperation.DELETE, _build_pool_target(target, name))
        for name in omit_members(old_pools, new_pools)
    ]
    for name, pool in new_pools.items():
        pool_target = _build_pool_target(target, name)
        if name in old_pools:
            pool_changes += _build_pool_changes(pool_target, old_pools[name], pool, location_fields)
        else:
            pool_changes.append(
                _build_create_change(
                    pool_target, build_new_pool_properties(pool), pool, location_fields
                )
            )
    if _VERSION in expected:
        yield from filter(None, map(_select_early_part, pool_changes))
        pool_changes = list(filter(None, map(_omit_early_part, pool_changes)))
    yield from _build_update(target, expected, prior, planned, reduction)
    yield from pool_changes


def _list_early_properties(change: ArmChange) -> list[str]:
    """List the properties of a change to send before an upgrade: settings and a lower count."""
    if change.verb is not ArmOperation.UPDATE:
        return []
    names = {"upgradeSettings", *get_mapping(change.reduction)}
    return [name for name in get_mapping(change.expected) if name in names]


def _select_early_part(change: ArmChange) -> ArmChange | None:
    """Select the part of a change of a pool to send before an upgrade of its cluster."""
    early = select_members(get_mapping(change.expected), _list_early_properties(change))
    if not early:
        return None
    return replace(change, body={"properties": early}, expected=early, removed_tags=frozenset())


def _omit_early_part(change: ArmChange) -> ArmChange | None:
    """Return the part of a change of a pool to send after an upgrade of its cluster."""
    early = _list_early_properties(change)
    if not early:
        return change
    late = replace(_omit_properties(change, early), reduction=None)
    return late if late.body or late.removed_tags else None


def _build_pool_target(cluster: ArmTarget, name: str) -> ArmTarget:
    return ArmTarget("agent_pools", cluster.group, (*cluster.names, name))


def _build_pool_changes(
    target: ArmTarget, prior: Values, planned: Values, common_fields: Values
) -> Iterator[ArmChange]:
    """Build changes of an existing agent pool.

    An update in place if possible, else deletion and creation.
    """
    before = build_pool_properties(prior)
    after = build_updated_pool_properties(prior, planned)
    # Only this one can be removed in place.
    removed_fields = before.keys() - after.keys() - {"upgradeSettings"}
    expected = diff_request_bodies(before, after)
    if not removed_fields and _UPDATABLE_FIELDS.issuperset(expected):
        reduction = {"count": after["count"]} if after["count"] < before["count"] else None
        yield from _build_update(target, expected, prior, planned, reduction)
        return
    # A re-creation takes all nodes down at once.
    count = int(before["count"])
    max_nodes = compute_max_unavailable(planned, count)
    if count > max_nodes:
        raise ProviderProblem(
            f"Azure must re-create the pool {target.title} for this change: its "
            f"{format_count(count, 'node')} would be down at once, but its max_unavailable allows "
            f'{max_nodes}. Set max_unavailable = "100%" in its upgrade_settings, or add a pool '
            "with another name, drain this one and remove it."
        )
    # Skip the deletion of a pool with the new fixed properties (None: absent), which an
    # earlier run re-created.
    skip_if = {**dict.fromkeys(removed_fields), **omit_members(after, _UPDATABLE_FIELDS)}
    yield ArmChange(ArmOperation.DELETE, target, skip_if=skip_if)
    yield _build_create_change(target, build_new_pool_properties(planned), planned, common_fields)


def compute_max_unavailable(values: Values, count: int) -> int:
    """Compute the maximum number of unavailable nodes in a pool from its upgrade_settings.

    The pool has `count` nodes.
    """
    text = str(get_mapping(values, "upgrade_settings").get("max_unavailable") or "0")
    # The amount is rounded like the plan's batches, so that apply matches the plan.
    return compute_amount_of_total(text, count)


def _build_update(
    target: ArmTarget,
    expected: Values,
    prior: Values,
    planned: Values,
    reduction: Values | None = None,
) -> Iterator[ArmChange]:
    """Build the update of an existing resource.

    The update has its changed properties (`expected`) and the changed part of its azure block.
    Yield nothing without changes. `reduction` are the properties with a lower number of VMs.
    """
    recorded = read_opaque_body(prior)
    requested = read_opaque_body(planned)
    block_changes = diff_request_bodies(recorded, requested)
    # A body added to an imported object may describe existing values.
    if recorded:
        _reject_unpatchable_azure_block_changes(target, block_changes)
    block_changes = _select_updatable_members(target, block_changes)
    old_tags = _index_tags(recorded)
    tags = _index_tags(requested)
    # The request adds the tags that stay.
    block_changes.pop("tags", None)
    changed_tags = {
        name: value
        for key, (name, value) in tags.items()
        if key not in old_tags or old_tags[key][1] != value
    }
    block_changes |= omit_empty({"tags": changed_tags})
    removed_tags = frozenset(name for key, (name, _) in old_tags.items() if key not in tags)
    if expected or block_changes or removed_tags:
        body = merge_bodies(block_changes, {"properties": expected}) if expected else block_changes
        yield ArmChange(
            ArmOperation.UPDATE,
            target,
            body,
            expected,
            removed_tags=removed_tags,
            reduction=reduction,
        )


def _index_tags(body: Values) -> dict[str, tuple[str, Any]]:
    """Return name and value of the tags in a body, by name in lower case: Azure ignores case."""
    return {name.casefold(): (name, value) for name, value in get_mapping(body, "tags").items()}


def _reject_unpatchable_azure_block_changes(target: ArmTarget, body: Values) -> None:
    """Raise ProviderProblem for changed members of an azure block that PATCH cannot change."""
    fixed_members = omit_members(body, ("properties", "tags"))
    fixed_properties = omit_members(get_mapping(body, "properties"), PATCH_PROPERTIES[target.kind])
    if fixed_properties:
        fixed_members["properties"] = fixed_properties
    fixed = [".".join(path) for path in _list_scalar_paths(fixed_members)]
    if fixed:
        names = format_first_items(fixed, _MAX_FIXED)
        raise ProviderProblem(
            f"Azure cannot change {names} of {target.title} after its creation. Undo the change "
            "of the azure block, or "
            "re-create the object: -replace=ADDRESS for a cluster or VM, another name for a pool."
        )


def _list_scalar_paths(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """List the paths of the scalars, lists and empty objects in a body.

    {"tags": {"a": "1"}, "zones": ["1", "2"]} has the paths ("tags", "a") and ("zones",).
    """
    if isinstance(value, Mapping) and value:
        for name, part in value.items():
            yield from _list_scalar_paths(part, (*path, name))
    elif path:
        yield path


def _build_vm_changes(
    target: ArmTarget, prior: Values, planned: Values, context: SiteContext
) -> Iterator[ArmChange]:
    """Build changes of a VM: a move re-creates it.

    Without a new machine it is only deleted.
    """
    old_machine = prior.get("machine")
    new_machine = planned.get("machine")
    if old_machine == new_machine:
        # Only of the azure block.
        yield from _build_update(target, expected={}, prior=prior, planned=planned)
        return
    # The new machine is checked before the deletion.
    if new_machine:
        _require_azure_block(target, planned)
    if old_machine:
        yield ArmChange(ArmOperation.DELETE, target)
    if new_machine:
        yield _build_object_creation(VM, target, planned, context)
