"""Values that a change of a resource in Azure starts from, and their comparison with Azure.

A plan records what it read of the resources that it changes. Before a request is sent, each member
of it must have its start value in Azure, or already the requested one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from nexusform.diagnostics.phrases import format_count
from nexusform.documents.times import parse_time
from nexusform.domains.azure.importers.azure_request_bodies import (
    UPGRADE_DEFAULTS,
    build_cluster_properties,
    build_pool_properties,
    build_vm_properties,
    has_requested_values,
    read_opaque_body,
    select_members,
)
from nexusform.domains.azure.providers.arm_changes import (
    POOLS,
    TAGS,
    ArmChange,
    ArmOperation,
    ArmTarget,
    MemberPath,
    StartValues,
)
from nexusform.json_data.plain_data import get_mapping, get_part, get_text, list_mappings

Values: TypeAlias = Mapping[str, Any]

_PROPERTIES: Final = "properties"
_SYSTEM_DATA: Final = "systemData"
_CREATION: Final = (_SYSTEM_DATA, "createdAt")
_COUNT: Final = (_PROPERTIES, "count")
_PLANE: Final = "controlPlaneNodeConfiguration"
_UPGRADE: Final = "upgradeSettings"
_POWER: Final = (_PROPERTIES, "powerState")
_READY: Final = (_PROPERTIES, "readyState")
_STATUS: Final = (_PROPERTIES, "detailedStatus")
_CORDON: Final = (_PROPERTIES, "cordonStatus")
# Key in the record of a pool that another step of the plan creates, changes or deletes.
# Key in the record of a machine: its numbers of nodes and VMs by owner.
_VM_COUNTS: Final = "vms"
# Actions that stop what runs on the machine.
_STOPPING_ACTIONS: Final = frozenset({"power_off", "restart", "reimage", "replace"})
_HAS_OWN_STEP: Final = "has_own_step"
# Computed from `actionStates` of a machine.
_NEWEST_ACTION: Final = ("newestAction",)
# Members of a pool that decide what an upgrade of its cluster does, and their values if absent.
_UPGRADE_MEMBERS: Final[Mapping[MemberPath, Any]] = {
    _COUNT: None,
    (_PROPERTIES, _UPGRADE, "maxSurge"): UPGRADE_DEFAULTS["max_surge"],
    (_PROPERTIES, _UPGRADE, "maxUnavailable"): UPGRADE_DEFAULTS["max_unavailable"],
    (_PROPERTIES, _UPGRADE, "drainTimeout"): UPGRADE_DEFAULTS["drain_timeout"],
}
# Properties recorded besides those that a PATCH may have. They identify what a deletion removes.
IDENTIFYING_PROPERTIES: Final = frozenset({"count", "cpuCores", "memorySizeGB", "vmSkuName"})
_VM_SKU: Final = (_PROPERTIES, "vmSkuName")
_SERIAL_NUMBER: Final = (_PROPERTIES, "serialNumber")
_ROLES: Final = (_PROPERTIES, "machineRoles")
_IN_PROGRESS: Final = "inprogress"
# It exchanges the machine.
_REPLACE: Final = "replace"
_COUNTED_NOUNS: Final[Mapping[MemberPath, str]] = {
    _COUNT: "node",
    (_PROPERTIES, _PLANE, "count"): "control plane node",
}
_NOUNS: Final[Mapping[MemberPath, str]] = {
    (_PROPERTIES, "kubernetesVersion"): "Kubernetes version",
    (_PROPERTIES, _UPGRADE, "maxSurge"): "max_surge",
    (_PROPERTIES, _UPGRADE, "maxUnavailable"): "max_unavailable",
    (_PROPERTIES, _UPGRADE, "drainTimeout"): "drain_timeout",
    (_PROPERTIES, "cpuCores"): "cpu_cores",
    (_PROPERTIES, "memorySizeGB"): "memory_gib",
    _CORDON: "cordon status",
    _POWER: "power state",
    _READY: "ready state",
    _STATUS: "detailed status",
    _CREATION: "creation time",
    _NEWEST_ACTION: "newest action",
    _VM_SKU: "VM SKU",
    _SERIAL_NUMBER: "serial number",
    _ROLES: "roles",
}

# Besides attributes, which a plan compares.
LISTED_FACTS: Final = (_CREATION, _VM_SKU, _SERIAL_NUMBER, _CORDON, _POWER, _READY, _STATUS)
_POLICY_HINT: Final = (
    "Probable cause: an Azure Policy sets this tag. Then configure the value of the policy."
)


def build_record_key(kind: str, names: Iterable[str]) -> str:
    """Return the key of a resource in the start values of a plan; Azure ignores case."""
    return "/".join((kind, *names)).casefold()


def build_start_record(body: Values, patch_properties: Collection[str]) -> dict[str, Any]:
    """Build the record of a resource as read for a plan.

    It has its tags, its creation time, and the properties that a PATCH may have
    (`patch_properties`) or that identify it.
    """
    names = IDENTIFYING_PROPERTIES.union(patch_properties)
    return {
        _PROPERTIES: select_members(get_mapping(body, _PROPERTIES), names),
        TAGS: dict(get_mapping(body, TAGS)),
        _SYSTEM_DATA: select_members(get_mapping(body, _SYSTEM_DATA), ("createdAt",)),
    }


def mark_own_step(record: Values) -> dict[str, Any]:
    """Return the record of a pool with a step of its own, which compares the pool."""
    return {**record, _HAS_OWN_STEP: True}


def build_machine_record(
    body: Values, own_actions: Collection[str], workloads: Iterable[Values] = ()
) -> dict[str, Any]:
    """Build the record of a machine as read for a plan.

    `own_actions` are all actions of this plan on this machine, such as "power_off",
    also repeated ones. `workloads` are the bodies of all clusters and VMs.
    """
    names = ("cordonStatus", "powerState", "actionStates", "serialNumber", "machineRoles")
    return {
        _PROPERTIES: select_members(get_mapping(body, _PROPERTIES), names),
        "own_actions": sorted(own_actions),
        _VM_COUNTS: dict(count_vms_on_machine(get_text(body, "id"), workloads)),
    }


def count_vms_on_machine(machine_id: str, workloads: Iterable[Values]) -> Counter[str]:
    """Return the numbers of nodes and VMs on a machine: by "cluster/pool", or name of the VM.

    A node of the same pool may get another name.
    """
    counts: Counter[str] = Counter()
    for body in workloads:
        properties = get_mapping(body, _PROPERTIES)
        name = get_text(body, "name")
        vms = [(name, properties)]
        for node in list_mappings(properties, "nodes"):
            pool = get_text(node, "agentPoolId").rpartition("/")[2] or "control plane"
            vms.append((f"{name}/{pool}", node))
        for owner, vm in vms:
            if get_text(vm, "bareMetalMachineId").casefold() == machine_id.casefold():
                counts[owner] += 1
    return counts


def find_stopped_difference(change: ArmChange, counts: Mapping[str, int]) -> str:
    """Return the message about VMs that an action would stop and the plan did not show, or ""."""
    start = change.start.vm_counts
    if start is None:
        return ""
    for owner, count in sorted(counts.items()):
        known = start.get(owner, 0)
        if count > known:
            fact = f"{change.target.title} runs {format_count(count, 'VM')} of {owner} in Azure"
            return f"{fact}; the plan started from {known or 'none'}. Plan again."
    return ""


def build_machine_start(record: Values, action: str, effects: Mapping[str, Values]) -> StartValues:
    """Build the start values of an action on a machine.

    `effects` are the properties of a machine after each action. Other actions of the plan may run
    before this one, so their effects are accepted. Without a record all values are unknown.
    """
    if not record:
        return StartValues(dict.fromkeys((_CORDON, _POWER, _NEWEST_ACTION), ()))
    # Another action of the same kind may run before this one, too.
    remaining_actions = [str(name) for name in record.get("own_actions", ())]
    if action in remaining_actions:
        remaining_actions.remove(action)
    own_actions = frozenset(remaining_actions)
    accepted: dict[MemberPath, tuple[Any, ...]] = {
        path: (
            read_member(record, path),
            *(effects[name][path[-1]] for name in own_actions if path[-1] in effects[name]),
        )
        for path in (_CORDON, _POWER)
    }
    accepted[_NEWEST_ACTION] = (_find_newest_action(record, own_actions),)
    accepted[_ROLES] = (read_member(record, _ROLES),)
    if _REPLACE not in own_actions:
        accepted[_SERIAL_NUMBER] = (read_member(record, _SERIAL_NUMBER),)
    vm_counts = record.get(_VM_COUNTS) if action in _STOPPING_ACTIONS else None
    return StartValues(accepted, own_actions, vm_counts=vm_counts)


def build_update_start(change: ArmChange, prior: Values, record: Values) -> StartValues:
    """Build the start values of an update, by member that it sends, and its identity.

    `prior` are the arguments before the step, `record` is that of the plan, {} without one. An
    earlier step of the same apply may have changed an argument, so the argument counts. For other
    members, such as tags, the record counts. Without it the recorded azure block counts.
    """
    arguments = {_PROPERTIES: _build_argument_properties(change.target.kind, prior)}
    block = read_opaque_body(prior)
    accepted: dict[MemberPath, tuple[Any, ...]] = {}
    for path, _ in list_targets(change):
        if _has_member(arguments, path):
            accepted[path] = (read_member(arguments, path),)
            # An argument has the default of a setting that Azure does not show.
            if record and _UPGRADE in path:
                accepted[path] += (read_member(record, path),)
        elif record:
            accepted[path] = (read_member(record, path),)
        else:
            accepted[path] = (read_member(block, path),) if _has_member(block, path) else ()
    for path in (_CREATION, _VM_SKU):
        value = read_member(record, path)
        if value is not None and path not in accepted:
            accepted[path] = (value,)
    return StartValues(accepted)


def build_deletion_start(
    target: ArmTarget, prior: Values, records: Mapping[str, Values]
) -> StartValues:
    """Build the start values of a deletion: it removes only the object that the plan read.

    `prior` are the arguments before the step, `records` those of the plan by key. A cluster is
    removed with its pools, so their counts are included.
    """
    properties = _build_argument_properties(target.kind, prior)
    accepted: dict[MemberPath, tuple[Any, ...]] = {
        (_PROPERTIES, name): (value,)
        for name, value in select_members(properties, IDENTIFYING_PROPERTIES).items()
    }
    own_record = records.get(build_record_key(target.kind, target.names), {})
    created_at = read_member(own_record, _CREATION)
    if created_at is not None:
        accepted[_CREATION] = (created_at,)
    if target.kind == "kubernetes_clusters":
        accepted[_PROPERTIES, _PLANE, "count"] = (get_part(properties, (_PLANE, "count")),)
        for name, record in _list_pool_records(records):
            for path in (_COUNT, _CREATION, _VM_SKU):
                _add_recorded_value(accepted, (POOLS, name), path, record)
        for name, pool in get_mapping(prior, "agent_pool").items():
            accepted[POOLS, name.casefold(), *_COUNT] = (pool["count"],)
    return StartValues(accepted)


def build_upgrade_start(
    prior: Values, planned: Values, records: Mapping[str, Values], own_pools: Collection[str]
) -> StartValues:
    """Build the start values of an upgrade besides those of its request: the nodes of the cluster.

    `prior` and `planned` are the arguments of the cluster before and after the step. The step
    creates or deletes `own_pools`, and changes others to their planned values. Names of pools are
    in lower case.
    """
    plane = (_PROPERTIES, _PLANE, "count")
    accepted: dict[MemberPath, tuple[Any, ...]] = {
        plane: tuple(
            read_member({_PROPERTIES: build_cluster_properties(values)}, plane)
            for values in (prior, planned)
        )
    }
    pools_with_steps = set()
    for name, record in _list_pool_records(records):
        if record.get(_HAS_OWN_STEP):
            pools_with_steps.add(name)
            continue
        if name not in own_pools:
            for identity in (_CREATION, _VM_SKU):
                _add_recorded_value(accepted, (POOLS, name), identity, record)
        for path, default in _UPGRADE_MEMBERS.items():
            value = read_member(record, path)
            accepted[POOLS, name, *path] = (default if value is None else value,)
    for values in (prior, planned):
        for name, arguments in get_mapping(values, "agent_pool").items():
            pool = {_PROPERTIES: build_pool_properties(arguments)}
            for path, default in _UPGRADE_MEMBERS.items():
                value = read_member(pool, path)
                key = (POOLS, name.casefold(), *path)
                accepted[key] = (*accepted.get(key, ()), default if value is None else value)
    return StartValues(accepted, own_pools=frozenset(pools_with_steps))


def _list_pool_records(records: Mapping[str, Values]) -> Iterator[tuple[str, Values]]:
    """Yield name and record of each pool of a cluster in the records of its step."""
    for key, record in records.items():
        kind, _, path = key.partition("/")
        if kind == "agent_pools":
            yield path.rpartition("/")[2], record


def _add_recorded_value(
    accepted: dict[MemberPath, tuple[Any, ...]],
    prefix: MemberPath,
    path: MemberPath,
    record: Values,
) -> None:
    """Accept the recorded value of a member, if the plan read one."""
    value = read_member(record, path)
    if value is not None:
        accepted[*prefix, *path] = (value,)


def build_repeated_creation_start(change: ArmChange) -> StartValues:
    """Build the start values of a creation that is sent again to an existing object.

    An earlier try left the object, with the requested values or without them.
    """
    return StartValues(
        {
            path: (target, None)
            for path, target in list_targets(change)
            if path[0] == TAGS or path in _COUNTED_NOUNS or path in _NOUNS
        }
    )


def list_targets(change: ArmChange) -> Iterator[tuple[MemberPath, Any]]:
    """Yield the path and the requested value of each member that a change sends.

    The value is None for a tag to remove. A list is one value. A deletion or an
    action yields nothing.
    """
    if change.verb not in (ArmOperation.CREATE, ArmOperation.UPDATE):
        return
    body = get_mapping(change.body)
    yield from _list_leaves(get_mapping(body, _PROPERTIES), (_PROPERTIES,))
    for name, value in get_mapping(body, TAGS).items():
        yield (TAGS, name), value
    for name in sorted(change.removed_tags):
        yield (TAGS, name), None


def _list_leaves(value: Any, path: MemberPath) -> Iterator[tuple[MemberPath, Any]]:
    """Yield path and value of the scalars, lists and empty objects below a path."""
    if isinstance(value, Mapping) and value:
        for name, part in value.items():
            yield from _list_leaves(part, (*path, name))
    elif len(path) > 1:
        yield path, value


def read_member(body: Any, path: MemberPath) -> Any:
    """Return the value of a member; None if it is absent. Names of tags have no case."""
    if path[0] == TAGS:
        tags = {name.casefold(): value for name, value in get_mapping(body, TAGS).items()}
        return tags.get(path[1].casefold())
    return get_part(body, path)


def _has_member(body: Values, path: MemberPath) -> bool:
    *parents, name = path
    return read_member(body, path) is not None or name in get_mapping(body, *parents)


def _build_argument_properties(kind: str, values: Values) -> dict[str, Any]:
    """Build the properties in Azure of the arguments of an object; {} without arguments."""
    if not values:
        return {}
    if kind == "kubernetes_clusters":
        properties = build_cluster_properties(values)
        del properties["initialAgentPoolConfigurations"]
        return properties
    return build_pool_properties(values) if kind == "agent_pools" else build_vm_properties(values)


def _find_newest_action(body: Any, ignored: Collection[str]) -> str | None:
    """Return the newest run of an action on a machine, such as "restart at 2026-01-01T00:00:00Z".

    Runs of the `ignored` actions do not count. Return None without any run.
    """
    ignored_names = {action.replace("_", "").casefold() for action in ignored}
    runs: list[tuple[str, str]] = []
    for run in list_mappings(body, _PROPERTIES, "actionStates"):
        # Microsoft.NetworkCloud/bareMetalMachines/powerOff/action.
        action_type = get_text(run, "actionType").removesuffix("/action")
        name = action_type.rpartition("/")[2]
        if name.casefold() not in ignored_names:
            runs.append((get_text(run, "startTime"), name))
    start, name = max(runs, key=lambda run: str(parse_time(run[0]) or ""), default=("", ""))
    return f"{name} at {start}" if name else None


def list_identifying_facts(body: Values) -> Iterator[tuple[str, str]]:
    """Yield name and value of what identifies a resource, its status, and its newest action."""
    for path in LISTED_FACTS:
        value = read_member(body, path)
        if value:
            yield _NOUNS[path], str(value)
    action = _find_newest_action(body, ())
    if action:
        yield _NOUNS[_NEWEST_ACTION], action


def find_activity(machine: Values, since: str) -> str:
    """Return the newest action on a machine that runs, or began since a time; "" without one."""
    begun = parse_time(since)
    newest = ""
    for run in list_mappings(machine, _PROPERTIES, "actionStates"):
        action_type = get_text(run, "actionType").removesuffix("/action")
        start = parse_time(get_text(run, "startTime"))
        is_later = begun is not None and start is not None and start >= begun
        if is_later or get_text(run, "status").casefold() == _IN_PROGRESS:
            newest = f"{action_type.rpartition('/')[2]} since {get_text(run, 'startTime')}"
    return newest


def has_target_values(change: ArmChange, observed: Values, *, was_sent: bool) -> bool:
    """Return True if a resource has all values that an update sends.

    With `was_sent`, Azure possibly has the request. Azure does not show some members, such as
    passwords: then these prove nothing.
    """
    for path, target in list_targets(change):
        value = read_member(observed, path)
        is_hidden = was_sent and value is None and path[0] != TAGS
        if is_hidden and not any(change.start.accepted.get(path, ())):
            continue
        if not _is_same_value(path, value, target):
            return False
    return True


def find_start_difference(
    change: ArmChange, observed: Values, *, was_sent: bool = False, is_sensitive: bool = False
) -> str:
    """Return the message about the first member with neither its start value nor the requested one.

    Return "" if the change may be sent. With `was_sent`, an own run of the action may be the newest
    one. With `is_sensitive` the message has no values.
    """
    targets = dict(list_targets(change))
    accepted_values = dict(change.start.accepted)
    pools = get_mapping(observed, POOLS)
    known_pools = {path[1] for path in accepted_values if path[0] == POOLS} | change.start.own_pools
    # Pools that the plan did not see would be removed or upgraded, too.
    for name in pools.keys() - known_pools:
        accepted_values[POOLS, name, *_COUNT] = (None,)
    for path, accepted in accepted_values.items():
        if path == _NEWEST_ACTION:
            value = _find_newest_action(observed, change.start.own_actions)
            is_started_by_step = was_sent
        else:
            value = read_member(observed, path)
            # A replacement that was sent exchanges the machine.
            is_started_by_step = was_sent and path == _SERIAL_NUMBER
            if path[0] == POOLS and value is None:
                value = _UPGRADE_MEMBERS.get(path[2:])
        is_pool_removed = path[0] == POOLS and path[1] not in pools
        if is_started_by_step or is_pool_removed:
            continue
        if path in targets and _is_same_value(path, value, targets[path]):
            continue
        if any(_is_same_value(path, value, start) for start in accepted):
            continue
        origin = "the plan did not read it"
        if path in (_CORDON, _POWER, _NEWEST_ACTION):
            origin += " (-refresh=false cannot be used with machine actions)"
        if accepted:
            origin = f"the plan started from {_format_value(path, accepted[0])}"
        is_hidden = is_sensitive or not _is_scalar(value) or not all(map(_is_scalar, accepted[:1]))
        return _describe_difference(
            change.target.title, path, value, "" if is_hidden else origin, observed
        )
    return ""


def find_later_difference(
    change: ArmChange, observed: Values | None, *, is_sensitive: bool = False
) -> str:
    """Return the message about the first member changed after an earlier request of the step.

    Return "" if no member changed. `observed` is the resource before the next request of the step.
    Members that Azure does not show are not compared, and of a new resource only those with a name
    of their own.
    """
    title = change.target.title
    if change.verb is ArmOperation.DELETE:
        if observed is None:
            return ""
        return f"{title} was created again in Azure after this apply deleted it. Plan again."
    if observed is None:
        return f"{title} was deleted in Azure after this apply wrote it. Plan again."
    targets = dict(list_targets(change))
    for path, target in targets.items():
        value = read_member(observed, path)
        is_compared = (
            change.verb is ArmOperation.UPDATE or path[0] == TAGS or path in _COUNTED_NOUNS
        )
        is_hidden_by_azure = value is None and path[0] != TAGS
        if not is_compared or is_hidden_by_azure or _is_same_value(path, value, target):
            continue
        is_hidden = is_sensitive or not _is_scalar(value) or not _is_scalar(target)
        origin = f"this apply requested {_format_value(path, target)}"
        return _describe_difference(
            change.target.title, path, value, "" if is_hidden else origin, observed
        )
    return ""


def find_result_difference(
    change: ArmChange, observed: Values, *, is_sensitive: bool = False
) -> str:
    """Return the message about the first member changed after an update was done.

    Return "" if no member changed. Only members without an argument are compared: the caller
    compares arguments. A member that Azure does not show is not compared.
    """
    for path, target in list_targets(change):
        value = read_member(observed, path)
        is_argument = path[1:] in _list_argument_paths(change)
        if is_argument or _is_same_value(path, value, target):
            continue
        if value is None and path[0] != TAGS:
            continue
        is_hidden = is_sensitive or not _is_scalar(value) or not _is_scalar(target)
        origin = f"this apply requested {_format_value(path, target)}"
        difference = _describe_difference(
            change.target.title, path, value, "" if is_hidden else origin, observed
        )
        return f"{difference} {_POLICY_HINT}" if path[0] == TAGS else difference
    return ""


def _list_argument_paths(change: ArmChange) -> set[MemberPath]:
    """Return the paths below `properties` that a change sends for arguments."""
    return {path for path, _ in _list_leaves(get_mapping(change.expected), ())} | {
        (name,) for name in get_mapping(change.expected)
    }


def list_unshown_values(
    change: ArmChange, prior: Values, record: Values, *, is_sensitive: bool
) -> Iterator[str]:
    """Yield a text about each value that an update replaces and the plan does not show.

    Azure blocks are not compared with Azure in a plan, so their values in Azure may be others.
    `prior` and `record` are as for `build_update_start`.
    """
    arguments = {_PROPERTIES: _build_argument_properties(change.target.kind, prior)}
    block = read_opaque_body(prior)
    for path, target in list_targets(change):
        value = read_member(record, path)
        if value is None or _has_member(arguments, path):
            continue
        if any(_is_same_value(path, value, known) for known in (read_member(block, path), target)):
            continue
        if is_sensitive or not _is_scalar(value) or not _is_scalar(target):
            yield f"another {_get_noun(path)} of {change.target.title}"
        else:
            after = "removes it" if target is None else f"sets {_format_value(path, target)}"
            yield (
                f"{_get_noun(path)} {_format_value(path, value)} of {change.target.title} (apply "
                f"{after})"
            )


def _is_same_value(path: MemberPath, first: Any, second: Any) -> bool:
    """Return True if two values of a member mean the same; empty and absent ones do."""
    if not first and not second:
        return True
    if path[-2:] == _CREATION:
        times = parse_time(str(first)), parse_time(str(second))
        return times[0] == times[1] if None not in times else first == second
    return has_requested_values(first, second)


def _is_scalar(value: Any) -> bool:
    return not isinstance(value, Mapping | list | tuple)


def _get_noun(path: MemberPath) -> str:
    """Return the words for a member: "tag owner", "max_surge"."""
    if path[0] == TAGS:
        return f"tag {path[1]}"
    return _COUNTED_NOUNS.get(path) or _NOUNS.get(path) or ".".join(path[1:])


def _format_value(path: MemberPath, value: Any) -> str:
    if value is None:
        return "none"
    if path[-2:] == _CREATION:
        return f"the one of {value}"
    return json.dumps(value, ensure_ascii=False) if path[0] == TAGS else str(value)


def _describe_difference(
    title: str, path: MemberPath, value: Any, origin: str, observed: Values
) -> str:
    """Describe a difference of a member in Azure.

    `origin` is the expected value, such as "the plan started from 4"; "" to show no values.
    """
    # Of a pool of the object.
    if path[0] == POOLS:
        return _describe_difference(f"{title}/{path[1]}", path[2:], value, origin, {})
    noun = _get_noun(path)
    if not origin:
        fact = f"{title} has another {noun} in Azure than the plan started from"
    elif path == _CREATION:
        fact = f"{title} was created again in Azure at {value}; {origin}"
    elif value is None:
        fact = f"{title} has no {noun} in Azure; {origin}"
    elif path in _COUNTED_NOUNS:
        fact = f"{title} has {format_count(value, noun)} in Azure; {origin}"
    else:
        fact = f"{title} has {noun} {_format_value(path, value)} in Azure; {origin}"
    return f"{fact}. Plan again.{_describe_last_change(observed)}"


def _describe_last_change(observed: Values) -> str:
    """Return the sentence about the last change of a resource that Azure records, "" without it."""
    text = format_last_change(observed)
    return f" Last change in Azure: {text}." if text else ""


def format_last_change(body: Values) -> str:
    """Return author and time of the last change of a resource, "" if Azure does not record them."""
    author = get_text(body, _SYSTEM_DATA, "lastModifiedBy")
    time = get_text(body, _SYSTEM_DATA, "lastModifiedAt")
    return f"by {author} at {time}" if author and time else ""
