"""Consequences for objects: what a plan deletes, replaces, leaves unmanaged, or shrinks.

Each removed, forgotten or lost VM, binding and pod of the plan belongs to one of them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from nexusform.diagnostics.phrases import (
    enclose,
    format_count,
    format_list,
    group_by,
    join_texts,
    select_word_form,
)
from nexusform.interfaces.plugins import ResourceType
from nexusform.json_data.plain_data import get_text
from nexusform.placement_kinds.placement_kind import VM
from nexusform.placement_kinds.registry import KINDS
from nexusform.placements.consequence_record import (
    DESTROYED_CONTENT,
    LEFT_CLUSTER,
    STOPPED_WORKLOAD,
    Consequence,
    ConsequenceKind,
)
from nexusform.placements.consequences import (
    LASTING_LOSS,
    NO_CONSEQUENCES,
    ConsequenceSeverity,
    ConsequenceTable,
    DataFate,
    ObjectChange,
    ObjectTitles,
    Outcome,
    combine_fates,
    get_worst_severity,
)
from nexusform.plans.impact.object_effects import (
    Effect,
    build_cluster_formatter,
    compute_effect,
    format_kind_counts,
)
from nexusform.plans.plan import (
    Action,
    Change,
    ContentChange,
    ContentEffect,
    PlacementAction,
    PlacementChange,
    Plan,
)
from nexusform.plans.site_capacity.occupancy import VmOwnerKind, get_owner_kind
from nexusform.resources.address import Address

Types: TypeAlias = Mapping[str, ResourceType]

_REPLACEMENTS: Final = (Action.REPLACE, Action.REPLACE_CREATE_FIRST)
_ENDINGS: Final = (Action.DELETE, Action.FORGET, *_REPLACEMENTS)
# Rows of objects that no longer run as a part of the state.
_LOSSES: Final = (Effect.REMOVED, Effect.FORGOTTEN, Effect.LOST)
_POOL_REMOVED: Final = "pool_removed"
# Its quorum has records of its own.
_CONTROL_PLANE: Final = "control-plane"
# Names of clusters, and of objects with data, in a text.
_MAX_NAMES: Final = 3


class _PoolKey(NamedTuple):
    """Pool that loses VMs: the resource with its site, cluster and name, and the effect on them."""

    address: Address
    site_id: str
    cluster: str
    pool: str
    effect: Effect


class _WorkloadKey(NamedTuple):
    """Workload that loses pods: the object that applies it, its site, and its pool in rows."""

    address: Address
    site_id: str
    workload: str


class _LostRows:
    """The rows of lost objects, by what explains them: each row is in one group."""

    def __init__(self, plan: Plan) -> None:
        # The current object of an address keeps the rows of a deposed one.
        ended = {
            change.address
            for change in plan.changes
            if change.action in _ENDINGS and not change.deposed
        }
        self.by_object: dict[Address, list[PlacementChange]] = {}
        # By placement and cluster.
        self.by_binding: dict[tuple[Address, str], list[PlacementChange]] = {}
        # By address, site and workload: `a/web/Deployment/api`.
        self.by_workload: dict[_WorkloadKey, list[PlacementChange]] = {}
        self.by_pool: dict[_PoolKey, list[PlacementChange]] = {}
        rows = [row for row in plan.placements if compute_effect(row) in _LOSSES]
        for row in rows:
            if row.address not in ended and KINDS[row.kind].by_resource:
                self.by_binding[row.address, row.object] = [row]
        # The names of clusters in rows of pods may differ from those of members.
        members: dict[tuple[Address, str, str], str] = {}
        for change in plan.workloads.content_changes:
            if change.leaves_cluster and change.address not in ended:
                self.by_binding.setdefault((change.address, change.cluster), [])
                cluster = change.workload.partition("/")[0]
                members[change.address, change.site_id, cluster] = change.cluster
        for row in rows:
            if row.address in ended:
                self.by_object.setdefault(row.address, []).append(row)
            elif KINDS[row.kind].by_resource:
                continue
            elif KINDS[row.kind].runs_on_vms:
                cluster = row.pool.partition("/")[0]
                member = members.get((row.address, row.site_id, cluster), cluster)
                binding = self.by_binding.get((row.address, member))
                if binding is None:
                    workload = _WorkloadKey(row.address, row.site_id, row.pool)
                    binding = self.by_workload.setdefault(workload, [])
                binding.append(row)
            else:
                key = _PoolKey(row.address, row.site_id, row.cluster, row.pool, compute_effect(row))
                self.by_pool.setdefault(key, []).append(row)


def find_object_consequences(plan: Plan, types: Types) -> Iterator[Consequence]:
    """Yield the consequences for objects: of resources, clusters of placements, content, pools."""
    rows = _LostRows(plan)
    names = _ObjectNames(plan, types)
    # Of a placement that ends or leaves a cluster, by address and cluster.
    content = group_by(
        (change for change in plan.workloads.content_changes if change.leaves_cluster),
        lambda change: change.address,
    )
    yield from _find_ended_resources(plan, types, rows, names, content)
    yield from _find_recreated_vms(plan, types, names)
    yield from _find_left_clusters(plan, rows, names)
    yield from _find_content_changes(plan, rows)
    yield from _find_smaller_workloads(rows)
    yield from _find_smaller_pools(plan, rows, names)
    yield from _find_weakened_objects(plan, types, names)


class _ObjectNames:
    """Names of objects in reports."""

    def __init__(self, plan: Plan, types: Types) -> None:
        self._types = types
        # A pod has the id of no site.
        vms = [row for row in plan.placements if row.kind == VM]
        # A new one may have another cluster.
        self._vms = {row.address: row for row in vms if row.source is not None}
        format_cluster = build_cluster_formatter(vms)
        self._clusters = {(row.site_id, row.cluster): format_cluster(row) for row in vms}
        self._changes = {change.address: change for change in plan.changes if not change.deposed}

    def format_cluster(self, site_id: str, cluster: str) -> str:
        """Return the name of a cluster, with its site if several sites have one of that name."""
        return self._clusters.get((site_id, cluster), cluster)

    def format_address(self, address: Address) -> str:
        """Return the name of the object at an address; the address if no change has it."""
        change = self._changes.get(address)
        return str(address) if change is None else self.format_change(change)

    def list_titles(self, change: Change) -> ObjectTitles:
        """Return the titles of the objects of a change that has no name."""
        table = _find_table(self._types.get(change.address.type))
        return table.list_titles(change.before or change.after or {})

    def format_change(self, change: Change) -> str:
        """Return the name of a changed object with its noun: `rack r1`; of a pool `a/p`."""
        noun = _find_table(self._types.get(change.address.type)).noun
        values = change.before or change.after or {}
        objects = self.list_titles(change)
        if objects.titles:
            return f"{_summarize_titles(objects.titles)}{enclose(' on ', objects.place)}"
        name = get_text(values, "name")
        namespace = get_text(values, "namespace")
        row = self._vms.get(change.address)
        if row is not None and not noun:
            # A cluster created outside of nexusform has the name of its block only in the state.
            name = self.format_cluster(row.site_id, row.cluster)
            # A pool with an address of its own.
            if get_text(values, "kubernetes_cluster_id"):
                name = f"{name}/{row.pool}"
        if not name:
            return str(change.address)
        return join_texts((noun, f"{enclose('', namespace, '/')}{name}"), " ")


def _find_table(resource_type: ResourceType | None) -> ConsequenceTable:
    """Return the consequences of a type; a state may have a type that no domain has."""
    return resource_type.consequences if resource_type is not None else NO_CONSEQUENCES


def _find_ended_resources(
    plan: Plan,
    types: Types,
    lost: _LostRows,
    names: _ObjectNames,
    content: Mapping[Address, Sequence[ContentChange]],
) -> Iterator[Consequence]:
    """Yield the consequence of each resource that is deleted, replaced or forgotten."""
    changes = [change for change in plan.changes if change.action in _ENDINGS]
    if not changes:
        return
    addresses = {change.address for change in changes}
    # All that runs on them before the plan, also what a replacement keeps.
    rows_by_address = group_by(
        [row for row in plan.placements if row.address in addresses and row.source is not None],
        lambda row: row.address,
    )
    created = {
        (change.address.type, change.id)
        for change in plan.changes
        if change.action is Action.CREATE and change.id
    }
    subjects = Counter(names.format_change(change) for change in changes)
    for change in changes:
        resource_type = types.get(change.address.type)
        rows = [] if change.deposed else rows_by_address.get(change.address, [])
        changes_of_content = () if change.deposed else content.get(change.address, ())
        removed = [] if change.deposed else lost.by_object.get(change.address, [])
        name = names.format_change(change)
        # Racks of several sites may share a name.
        if subjects[name] > 1:
            name = str(change.address)
        title_count = 0 if name == str(change.address) else len(names.list_titles(change).titles)
        # Its block or instance key changes without a moved block.
        is_readdressed = (
            change.action is Action.DELETE
            and not change.deposed
            and (change.address.type, change.id) in created
        )
        yield _build_resource_consequence(
            change,
            resource_type,
            _ObjectName(name, title_count),
            rows,
            removed,
            changes_of_content,
            is_readdressed=is_readdressed,
        )


def _find_recreated_vms(plan: Plan, types: Types, names: _ObjectNames) -> Iterator[Consequence]:
    """Yield the consequence of each VM or VNF that stays, and whose VMs are re-created."""
    ended = {change.address for change in plan.changes if change.action in _ENDINGS}
    recreated = [
        row
        for row in plan.placements
        if row.kind == VM
        and row.address not in ended
        and compute_effect(row) in (Effect.MOVED, Effect.RECREATED)
    ]
    for address, rows in group_by(recreated, lambda row: row.address).items():
        outcome = _find_table(types.get(address.type)).recreate
        if outcome.data is None:
            continue
        name = names.format_address(address)
        vms = format_count(len(rows), "VM")
        verb = select_word_form(len(rows), "is re-created", "are re-created")
        # A VM that its platform replaces is a new one.
        is_vm = get_owner_kind(address.type) is VmOwnerKind.VM
        location = "" if compute_effect(rows[0]) is Effect.RECREATED else " on another machine"
        sentence = f"{name} is re-created{location}" if is_vm else f"{name}: {vms} {verb}"
        yield Consequence(
            kind=ConsequenceKind.REPLACED if is_vm else ConsequenceKind.RESTARTS,
            risk="replaced-object" if is_vm else "local-data-lost",
            severity=outcome.severity,
            subject=name,
            address=str(address),
            title=f"{name} ({_OWN_DATA[outcome.data]})" if is_vm else "",
            text=f"{sentence}; {_LOCAL_DATA[outcome.data]}",
            runs={VM: len(rows)},
            data=outcome.data,
            before=len(rows),
            after=len(rows),
        )


# Of a VM, and of the VMs of a group.
_OWN_DATA: Final = {
    DataFate.LOST: "data lost",
    DataFate.UNKNOWN: "data may be lost",
    DataFate.KEPT: "data kept",
}
_LOCAL_DATA: Final = {
    DataFate.LOST: "its data is lost",
    DataFate.UNKNOWN: "data of local disks may be lost",
    DataFate.KEPT: "its data is kept",
}


class _ObjectName(NamedTuple):
    """Name of a resource; `titles` is the number of its objects if it is their name."""

    text: str
    titles: int


class _Ending(NamedTuple):
    """What becomes of a resource: its verbs for one and for many, and the declared outcome."""

    kind: ConsequenceKind
    risk: str
    verbs: tuple[str, str]
    outcome: Outcome


def _find_ending(change: Change, table: ConsequenceTable, *, is_readdressed: bool) -> _Ending:
    """Return what becomes of a resource that is deleted, replaced or forgotten."""
    is_renamed = get_text(change.after, "name") != get_text(change.before, "name")
    if change.action is Action.FORGET:
        verbs = ("stays, unmanaged", "stay, unmanaged")
        return _Ending(ConsequenceKind.LEAVES, "left-object", verbs, table.leave)
    if is_readdressed or (change.action in _REPLACEMENTS and not is_renamed):
        verbs = ("is deleted and created again", "are deleted and created again")
        return _Ending(ConsequenceKind.REPLACED, "replaced-object", verbs, table.replace)
    if table.departure:
        verbs = (table.departure, table.departure)
        return _Ending(ConsequenceKind.LEAVES, "left-object", verbs, table.delete)
    verbs = ("is deleted", "are deleted")
    return _Ending(ConsequenceKind.ENDS, "destroyed-object", verbs, table.delete)


def _build_resource_consequence(
    change: Change,
    resource_type: ResourceType | None,
    object_name: _ObjectName,
    rows: Sequence[PlacementChange],
    removed: Sequence[PlacementChange],
    content: Sequence[ContentChange],
    *,
    is_readdressed: bool,
) -> Consequence:
    """Build the consequence of one resource; `rows` ran on it, `removed` ones end.

    `is_readdressed` if the plan creates it again at another address.
    """
    table = _find_table(resource_type)
    ending = _find_ending(change, table, is_readdressed=is_readdressed)
    is_replaced = ending.kind is ConsequenceKind.REPLACED
    outcome = ending.outcome
    unfinished = ""
    if ending.kind is ConsequenceKind.ENDS:
        unfinished = table.find_unfinished(change.private or {})
    if unfinished:
        outcome = LASTING_LOSS
    unlisted = _count_unlisted_pods(content)
    counts = unlisted + Counter(row.kind for row in rows if KINDS[row.kind].is_running(row.source))
    clusters = _list_clusters(rows, content)
    # A type that places objects hurts nothing without them.
    places_objects = resource_type is not None and bool(
        resource_type.vms or resource_type.placement_kinds
    )
    is_empty = places_objects and not counts and not content
    if is_empty or change.deposed:
        outcome = Outcome()
    name, title_count = object_name
    if title_count:
        outcome = Outcome(get_worst_severity(change.severity for change in content))
    if change.deposed:
        name = f"{name} (deposed object)"
    location = format_list(clusters, _MAX_NAMES)
    # A VM is all that runs on itself.
    loses_own_data = outcome.data is DataFate.LOST
    vms_and_pods = "" if loses_own_data else format_kind_counts(_drop_bindings(counts))
    renaming = ""
    if change.action in _REPLACEMENTS and ending.kind is ConsequenceKind.ENDS:
        renaming = f", because its name changes to {get_text(change.after, 'name')}"
    verb = select_word_form(max(title_count, 1), *ending.verbs)
    sentence = join_texts(
        (f"{name} {verb}", enclose("on ", location), enclose("with ", vms_and_pods), unfinished),
        " ",
    )
    text = join_texts(
        (
            f"{sentence}{renaming}",
            "its data is lost" if loses_own_data else "",
            describe_lost_data(content) if title_count else _describe_content(content),
        ),
        "; ",
    )
    extent = enclose("on ", location) or enclose("(", vms_and_pods, ")")
    own_data = "(data lost)" if loses_own_data else ""
    removed_counts = unlisted + Counter(row.kind for row in removed)
    title = join_texts(
        (join_texts((name, extent, own_data, unfinished), " "), describe_lost_data(content)), "; "
    )
    return Consequence(
        kind=ending.kind,
        risk=ending.risk,
        severity=outcome.severity,
        subject=name,
        address=str(change.address),
        # Others ended what ran on a damaged object, or its creation failed.
        title="" if is_empty and is_replaced and change.tainted_before else title,
        text=text,
        runs=counts,
        where=clusters,
        data=_combine_data(outcome, content) if not is_empty else None,
        before=counts.total(),
        after=counts.total() - removed_counts.total(),
        removed=removed_counts,
        # The objects of a replaced manifest are created again.
        objects=0 if title_count and is_replaced else _count_ended_objects(content),
    )


def _count_unlisted_pods(content: Iterable[ContentChange]) -> Counter[str]:
    """Return the pods of changed objects that have no rows, by kind."""
    counts: Counter[str] = Counter()
    for change in content:
        if change.pods and not change.has_rows:
            counts[change.pod_kind] += change.pods
    return counts


def _count_ended_objects(content: Iterable[ContentChange]) -> int:
    """Return the number of objects that are deleted on clusters."""
    return sum(change.effect in (ContentEffect.REMOVED, ContentEffect.LEFT) for change in content)


def _drop_bindings(counts: Mapping[str, int]) -> dict[str, int]:
    """Return counts without those of placements: their clusters are named."""
    return {kind: count for kind, count in counts.items() if not KINDS[kind].by_resource}


def _list_clusters(
    rows: Iterable[PlacementChange], content: Iterable[ContentChange]
) -> tuple[str, ...]:
    """Return the clusters of bindings and of content, in their order."""
    bindings = [row.object for row in rows if KINDS[row.kind].by_resource]
    return tuple(dict.fromkeys([*bindings, *(change.cluster for change in content)]))


def _combine_data(outcome: Outcome, content: Iterable[ContentChange]) -> DataFate | None:
    """Return the worst fate of data: of the object, and of its content on clusters."""
    return combine_fates((outcome.data, *(change.data for change in content)))


def _describe_content(content: Sequence[ContentChange]) -> str:
    """Describe the objects that end or stay on clusters.

    `Namespace pcrf and 3 objects are deleted; the data of PersistentVolumeClaim pcrf/x is lost`.
    """
    titles = list(dict.fromkeys(change.object for change in content))
    if not titles:
        return ""
    if all(change.effect is ContentEffect.STAYS for change in content):
        verb = select_word_form(len(titles), "stays, unmanaged", "stay, unmanaged")
    else:
        verb = f"{select_word_form(len(titles), 'is', 'are')} deleted"
    return join_texts((f"{_summarize_titles(titles)} {verb}", describe_lost_data(content)), "; ")


def _summarize_titles(titles: Sequence[str]) -> str:
    """Return the name of several objects: `Namespace web and 2 objects`."""
    # A Namespace takes its objects along.
    first = next((title for title in titles if title.startswith("Namespace ")), titles[0])
    others = len(titles) - 1
    return f"{first}{enclose(' and ', format_count(others, 'object') if others else '')}"


def describe_lost_data(content: Iterable[ContentChange]) -> str:
    """Describe whose data is or may be lost; or "".

    `the data of PersistentVolumeClaim web/db is lost; that of StatefulSet web/a may be lost`.
    """
    owners: dict[DataFate | None, dict[str, None]] = {}
    for change in content:
        owners.setdefault(change.data, {})[change.object] = None
    lost = format_list(owners.get(DataFate.LOST, ()), _MAX_NAMES)
    unknown = format_list(owners.get(DataFate.UNKNOWN, ()), _MAX_NAMES)
    return join_texts(
        (
            enclose("the data of ", lost, " is lost"),
            enclose("that of " if lost else "the data of ", unknown, " may be lost"),
        ),
        "; ",
    )


def _find_left_clusters(plan: Plan, lost: _LostRows, names: _ObjectNames) -> Iterator[Consequence]:
    """Yield the consequence of each cluster that a placement of the plan leaves."""
    content = group_by(
        (change for change in plan.workloads.content_changes if change.leaves_cluster),
        lambda change: (change.address, change.cluster),
    )
    for (address, cluster), rows in lost.by_binding.items():
        changes = content.get((address, cluster), [])
        counts = Counter(row.kind for row in rows) + _count_unlisted_pods(changes)
        placement = names.format_address(address).removeprefix("placement ")
        pods = _drop_bindings(counts)
        stays = bool(changes) and all(item.effect is ContentEffect.STAYS for item in changes)
        verbs = ("keeps running", "keep running") if stays else ("ends", "end")
        verb = select_word_form(sum(pods.values()), *verbs)
        fate = enclose("", format_kind_counts(pods), f" {verb}")
        what = join_texts((_describe_content(changes), fate), "; ")
        yield Consequence(
            kind=ConsequenceKind.LEAVES if stays else ConsequenceKind.SHRINKS,
            risk=LEFT_CLUSTER,
            severity=ConsequenceSeverity.LASTING,
            subject=f"{placement} on {cluster}",
            address=str(address),
            text=f"{placement} leaves {cluster}{enclose(': ', what)}",
            title=f"{placement} on {cluster}",
            runs=counts,
            where=(cluster,),
            data=_combine_data(Outcome(), changes),
            before=1,
            removed=counts,
            objects=_count_ended_objects(changes),
        )


_CONTENT_VERBS: Final[Mapping[ContentEffect, tuple[str, str]]] = {
    ContentEffect.REMOVED: (DESTROYED_CONTENT, "is deleted"),
    ContentEffect.STOPPED: (STOPPED_WORKLOAD, "is scaled to 0"),
    ContentEffect.SCALED_IN: ("smaller-workload", "is scaled in"),
}


def _find_content_changes(plan: Plan, lost: _LostRows) -> Iterator[Consequence]:
    """Yield the consequence of each object of content that ends, or loses pods, on a cluster."""
    for change in plan.workloads.content_changes:
        if change.effect is ContentEffect.LOSES_DATA:
            yield _build_data_loss(change)
        if change.effect is ContentEffect.WEAKENED:
            yield _build_weakening(change)
        if change.effect not in _CONTENT_VERBS:
            continue
        risk, verb = _CONTENT_VERBS[change.effect]
        key = _WorkloadKey(change.address, change.site_id, change.workload)
        rows = lost.by_workload.pop(key, [])
        runs = {change.pod_kind: change.pods} if change.pods else {}
        pods = enclose(" (", format_kind_counts(runs), ")")
        extent = enclose(" with ", change.extent)
        sentence = f"{change.object} {verb} on {change.cluster}{extent}{pods}"
        is_last = change.remaining == 1
        kind = ConsequenceKind.LOSES_REDUNDANCY if is_last else ConsequenceKind.SHRINKS
        if is_last:
            total = format_count(change.pods + 1, "pod")
            sentence = (
                f"{change.object} keeps 1 of {total} on {change.cluster}, so losing it leaves none"
            )
            risk = "workload-without-redundancy"
        yield Consequence(
            kind=ConsequenceKind.ENDS if change.effect is ContentEffect.REMOVED else kind,
            risk=risk,
            severity=change.severity,
            subject=change.object,
            address=str(change.address),
            text=join_texts((sentence, describe_lost_data([change])), "; "),
            title=f"{change.object} on {change.cluster}{pods}",
            runs=runs,
            where=(change.cluster,),
            data=change.data,
            before=change.pods + change.remaining,
            after=change.remaining,
            removed=Counter(row.kind for row in rows) + _count_unlisted_pods([change]),
            objects=int(change.effect is ContentEffect.REMOVED),
        )


def _build_data_loss(change: ContentChange) -> Consequence:
    """Build the consequence of a volume whose node loses its disk."""
    return Consequence(
        kind=ConsequenceKind.ENDS,
        risk="local-data-lost",
        severity=change.severity,
        subject=change.object,
        address=str(change.address),
        text=f"{change.object} on {change.cluster} loses its data: {change.extent}",
        where=(change.cluster,),
        data=change.data,
        before=1,
    )


def _build_weakening(change: ContentChange) -> Consequence:
    """Build the consequence of an object that limits pods less than before."""
    return Consequence(
        kind=ConsequenceKind.LOSES_RULE,
        risk="rule-weakened",
        severity=change.severity,
        subject=change.object,
        address=str(change.address),
        text=f"{change.object} on {change.cluster} {change.extent}",
        where=(change.cluster,),
        before=1,
    )


def _find_smaller_workloads(lost: _LostRows) -> Iterator[Consequence]:
    """Yield the consequence of each workload with removed pods that no other record explains."""
    for (address, _, workload), rows in lost.by_workload.items():
        counts = Counter(row.kind for row in rows)
        forgotten = all(row.action is PlacementAction.FORGET for row in rows)
        verb = select_word_form(len(rows), "is removed", "are removed")
        if forgotten:
            verb = select_word_form(len(rows), "stays, unmanaged", "stay, unmanaged")
        yield Consequence(
            kind=ConsequenceKind.LEAVES if forgotten else ConsequenceKind.SHRINKS,
            risk="smaller-workload",
            severity=ConsequenceSeverity.NONE,
            subject=workload,
            address=str(address),
            text=f"{workload}: {format_kind_counts(counts)} {verb}",
            title=workload,
            runs=counts,
            where=tuple(dict.fromkeys(row.cluster for row in rows)),
            before=len(rows),
            removed=counts,
        )


def _find_smaller_pools(plan: Plan, lost: _LostRows, names: _ObjectNames) -> Iterator[Consequence]:
    """Yield the consequence of each pool that loses VMs: deleted, scaled to 0, or smaller."""
    if not lost.by_pool:
        return
    # A deleted pool has no table.
    sizes = {
        (table.address, table.site_id, table.cluster, table.pool): table.total_count
        for table in plan.figures.placement_tables
    }
    placed = Counter(
        (row.address, row.site_id, row.cluster, row.pool)
        for row in plan.placements
        if row.kind == VM and compute_effect(row) is Effect.PLACED
    )
    for key, rows in lost.by_pool.items():
        pool = key[:4]
        stays = sizes.get(pool, 0) - placed[pool]
        yield _build_pool_consequence(key, rows, names, stays + len(rows), sizes.get(pool, 0))


def _build_pool_consequence(
    key: _PoolKey, rows: Sequence[PlacementChange], names: _ObjectNames, before: int, after: int
) -> Consequence:
    """Build the consequence of a pool with `before` VMs, and `after` of them after the plan."""
    cluster = names.format_cluster(key.site_id, key.cluster)
    subject = f"{cluster}/{key.pool}"
    vms = format_count(before, "VM")
    kind, risk, severity = ConsequenceKind.SHRINKS, "smaller-pool", ConsequenceSeverity.NONE
    text = f"{subject} keeps {after:,} of its {vms}"
    title = f"{subject} ({format_count(len(rows), 'VM')})"
    if key.effect is Effect.FORGOTTEN:
        kind, risk = ConsequenceKind.LEAVES, "left-object"
        text = f"{subject}: {format_count(len(rows), 'VM')} keep running, unmanaged"
    elif key.effect is Effect.LOST:
        kind, risk, severity = ConsequenceKind.DOWN, "host-lost", ConsequenceSeverity.LASTING
        verb = select_word_form(len(rows), "loses its machine", "lose their machine")
        text = f"{subject}: {format_count(len(rows), 'VM')} {verb}"
    elif not after and rows[0].trigger == _POOL_REMOVED:
        kind, risk, severity = ConsequenceKind.ENDS, "pool-deleted", ConsequenceSeverity.LASTING
        text = f"pool {key.pool} of {cluster} is deleted with {vms}"
        title = f"pool {key.pool} of {cluster} ({vms})"
    elif not after:
        risk, severity = "pool-empty", ConsequenceSeverity.LASTING
        text = f"{subject} is scaled to 0: it keeps none of its {vms}"
    elif after == 1 and key.pool != _CONTROL_PLANE:
        kind, risk, severity = (
            ConsequenceKind.LOSES_REDUNDANCY,
            "pool-without-redundancy",
            ConsequenceSeverity.LASTING,
        )
        text = f"{subject} keeps 1 of its {vms}; losing it leaves none"
    return Consequence(
        kind=kind,
        risk=risk,
        severity=severity,
        subject=subject,
        address=str(key.address),
        text=text,
        title=title,
        runs={VM: before},
        where=_list_racks(rows),
        before=before,
        after=after,
        removed=Counter(row.kind for row in rows),
    )


def _list_racks(rows: Iterable[PlacementChange]) -> tuple[str, ...]:
    """Return the racks that VMs leave, by name; without those that the platform chooses."""
    racks: set[Any] = {getattr(row.origin, "rack", None) for row in rows}
    return tuple(sorted(racks - {None, ""}))


def _find_weakened_objects(plan: Plan, types: Types, names: _ObjectNames) -> Iterator[Consequence]:
    """Yield the consequence of each object whose change weakens a rule that it sets."""
    remaining: dict[str, list[Mapping[str, Any]]] = {}
    for change in plan.changes:
        if change.after is not None and not change.deposed:
            remaining.setdefault(change.address.type, []).append(change.after)
    for change in plan.changes:
        if change.before is None or change.after is None or change.action is Action.NO_OP:
            continue
        table = _find_table(types.get(change.address.type))
        ending = table.find_weakening(
            ObjectChange(change.before, change.after, change.note, remaining)
        )
        if ending:
            name = names.format_change(change)
            yield Consequence(
                kind=ConsequenceKind.LOSES_RULE,
                risk="rule-weakened",
                severity=ConsequenceSeverity.LASTING,
                subject=name,
                address=str(change.address),
                text=f"{name} {ending}",
                title=name,
                before=1,
            )
