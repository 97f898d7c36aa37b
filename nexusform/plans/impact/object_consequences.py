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
from nexusform.placements.consequence_record import Consequence, ConsequenceKind
from nexusform.placements.consequences import (
    NO_CONSEQUENCES,
    ConsequenceSeverity,
    DataFate,
    Outcome,
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
        # By address and workload: `a/web/Deployment/api`.
        self.by_workload: dict[tuple[Address, str], list[PlacementChange]] = {}
        self.by_pool: dict[_PoolKey, list[PlacementChange]] = {}
        rows = [row for row in plan.placements if compute_effect(row) in _LOSSES]
        for row in rows:
            if row.address not in ended and KINDS[row.kind].by_resource:
                self.by_binding[row.address, row.object] = [row]
        for change in plan.content_changes:
            if change.leaves_cluster and change.address not in ended:
                self.by_binding.setdefault((change.address, change.cluster), [])
        for row in rows:
            if row.address in ended:
                self.by_object.setdefault(row.address, []).append(row)
            elif KINDS[row.kind].by_resource:
                continue
            elif KINDS[row.kind].runs_on_vms:
                binding = self.by_binding.get((row.address, row.cluster))
                if binding is None:
                    binding = self.by_workload.setdefault((row.address, row.pool), [])
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
        (change for change in plan.content_changes if change.leaves_cluster),
        lambda change: change.address,
    )
    yield from _find_ended_resources(plan, types, rows, names, content)
    yield from _find_left_clusters(rows, names, content)
    yield from _find_content_changes(plan, rows)
    yield from _find_smaller_workloads(rows)
    yield from _find_smaller_pools(plan, rows, names)
    yield from _find_weakened_objects(plan, types, names)


class _ObjectNames:
    """Names of objects in reports."""

    def __init__(self, plan: Plan, types: Types) -> None:
        self._types = types
        format_cluster = build_cluster_formatter(plan.placements)
        self._clusters = {
            (row.site_id, row.cluster): format_cluster(row)
            for row in plan.placements
            if row.kind == VM
        }
        self._changes = {change.address: change for change in plan.changes if not change.deposed}

    def format_cluster(self, site_id: str, cluster: str) -> str:
        """Return the name of a cluster, with its site if several sites have one of that name."""
        return self._clusters.get((site_id, cluster), cluster)

    def format_address(self, address: Address) -> str:
        """Return the name of the object at an address; the address if no change has it."""
        change = self._changes.get(address)
        return str(address) if change is None else self.format_change(change)

    def format_change(self, change: Change, rows: Sequence[PlacementChange] = ()) -> str:
        """Return the name of a changed object with its noun: `rack r1`; of a pool `a/p`."""
        resource_type = self._types.get(change.address.type)
        noun = resource_type.consequences.noun if resource_type is not None else ""
        values = change.before or change.after or {}
        name = get_text(values, "name")
        namespace = get_text(values, "namespace")
        if rows and rows[0].kind == VM and not noun:
            row = rows[0]
            # A cluster created outside of nexusform has the name of its block only in the state.
            name = self.format_cluster(row.site_id, row.cluster)
            # A pool with an address of its own.
            if get_text(values, "kubernetes_cluster_id"):
                name = f"{name}/{row.pool}"
        if not name:
            return str(change.address)
        return join_texts((noun, f"{enclose('', namespace, '/')}{name}"), " ")


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
    subjects = Counter(names.format_change(change) for change in changes)
    for change in changes:
        resource_type = types.get(change.address.type)
        rows = [] if change.deposed else rows_by_address.get(change.address, [])
        changes_of_content = () if change.deposed else content.get(change.address, ())
        removed = [] if change.deposed else lost.by_object.get(change.address, [])
        name = names.format_change(change, rows)
        # Racks of several sites may share a name.
        if subjects[names.format_change(change)] > 1:
            name = str(change.address)
        yield _build_resource_consequence(
            change, resource_type, name, rows, removed, changes_of_content
        )


def _build_resource_consequence(
    change: Change,
    resource_type: ResourceType | None,
    name: str,
    rows: Sequence[PlacementChange],
    removed: Sequence[PlacementChange],
    content: Sequence[ContentChange],
) -> Consequence:
    """Build the consequence of one resource; `rows` ran on it, `removed` ones end."""
    # A state may have a type that no domain has.
    table = resource_type.consequences if resource_type is not None else NO_CONSEQUENCES
    new_name = get_text(change.after, "name")
    old_name = get_text(change.before, "name")
    if change.action is Action.FORGET:
        kind, risk, outcome = ConsequenceKind.LEAVES, "left-object", table.leave
        verb = "stays, unmanaged"
    elif change.action in _REPLACEMENTS and new_name == old_name:
        kind, risk, outcome = ConsequenceKind.REPLACED, "replaced-object", table.replace
        verb = "is deleted and created again"
    else:
        kind, risk, outcome = ConsequenceKind.ENDS, "destroyed-object", table.delete
        verb = "is deleted"
    counts = Counter(row.kind for row in rows if KINDS[row.kind].is_running(row.source))
    clusters = _list_clusters(rows, content)
    # A type that places objects hurts nothing without them.
    places_objects = resource_type is not None and bool(
        resource_type.vms or resource_type.placement_kinds
    )
    is_empty = places_objects and not counts and not content
    if is_empty or change.deposed:
        outcome = Outcome()
    if change.deposed:
        name = f"{name} (deposed object)"
    location = format_list(clusters, _MAX_NAMES)
    vms_and_pods = format_kind_counts(_drop_bindings(counts))
    renaming = ""
    if change.action in _REPLACEMENTS and kind is ConsequenceKind.ENDS:
        renaming = f", because its name changes to {new_name}"
    text = join_texts(
        (
            f"{name} {verb}{enclose(' on ', location)}{enclose(' with ', vms_and_pods)}{renaming}",
            _describe_content(content),
        ),
        "; ",
    )
    return Consequence(
        kind=kind,
        risk=risk,
        severity=outcome.severity,
        subject=name,
        address=str(change.address),
        title=f"{name}{enclose(' on ', location) or enclose(' (', vms_and_pods, ')')}",
        text=text,
        runs=counts,
        where=clusters,
        data=_combine_data(outcome, content) if not is_empty else None,
        before=counts.total(),
        after=counts.total() - len(removed),
        removed=Counter(row.kind for row in removed),
        objects=len(content),
    )


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
    fates = {outcome.data, *(change.data for change in content)}
    return next((fate for fate in DataFate if fate in fates), None)


def _describe_content(content: Sequence[ContentChange]) -> str:
    """Describe the objects that end or stay on clusters.

    `Namespace pcrf and 3 objects are deleted; the data of PersistentVolumeClaim pcrf/x is lost`.
    """
    # A Namespace takes its objects along.
    titles = sorted(
        dict.fromkeys(change.object for change in content),
        key=lambda title: not title.startswith("Namespace "),
    )
    if not titles:
        return ""
    others = f" and {format_count(len(titles) - 1, 'object')}" if len(titles) > 1 else ""
    if all(change.effect is ContentEffect.STAYS for change in content):
        verb = select_word_form(len(titles), "stays, unmanaged", "stay, unmanaged")
    else:
        verb = f"{select_word_form(len(titles), 'is', 'are')} deleted"
    return join_texts((f"{titles[0]}{others} {verb}", describe_lost_data(content)), "; ")


def describe_lost_data(content: Iterable[ContentChange]) -> str:
    """Describe whose data is lost: `the data of PersistentVolumeClaim web/db is lost`; or ""."""
    lost = dict.fromkeys(change.object for change in content if change.data is DataFate.LOST)
    return enclose("the data of ", format_list(lost, _MAX_NAMES), " is lost")


def _find_left_clusters(
    lost: _LostRows, names: _ObjectNames, content: Mapping[Address, Sequence[ContentChange]]
) -> Iterator[Consequence]:
    """Yield the consequence of each cluster that a placement of the plan leaves."""
    for (address, cluster), rows in lost.by_binding.items():
        changes = [change for change in content.get(address, ()) if change.cluster == cluster]
        counts = Counter(row.kind for row in rows)
        placement = names.format_address(address).removeprefix("placement ")
        pods = format_kind_counts(_drop_bindings(counts))
        what = join_texts((_describe_content(changes), enclose("", pods, " end")), "; ")
        stays = bool(changes) and all(item.effect is ContentEffect.STAYS for item in changes)
        yield Consequence(
            kind=ConsequenceKind.LEAVES if stays else ConsequenceKind.SHRINKS,
            risk="placement-leaves-cluster",
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
            objects=0 if stays else len(changes),
        )


_CONTENT_VERBS: Final[Mapping[ContentEffect, tuple[str, str]]] = {
    ContentEffect.REMOVED: ("destroyed-content", "is deleted"),
    ContentEffect.STOPPED: ("stopped-workload", "is scaled to 0"),
    ContentEffect.SCALED_IN: ("smaller-workload", "is scaled in"),
}


def _find_content_changes(plan: Plan, lost: _LostRows) -> Iterator[Consequence]:
    """Yield the consequence of each object of content that ends, or loses pods, on a cluster."""
    for change in plan.content_changes:
        if change.effect not in _CONTENT_VERBS:
            continue
        risk, verb = _CONTENT_VERBS[change.effect]
        rows = lost.by_workload.pop((change.address, change.workload), [])
        runs = {change.pod_kind: change.pods} if change.pods else {}
        pods = enclose(" (", format_kind_counts(runs), ")")
        is_shrinking = change.effect is ContentEffect.SCALED_IN
        yield Consequence(
            kind=ConsequenceKind.SHRINKS if is_shrinking else ConsequenceKind.ENDS,
            risk=risk,
            severity=ConsequenceSeverity.NONE if is_shrinking else change.severity,
            subject=change.object,
            address=str(change.address),
            text=join_texts(
                (f"{change.object} {verb} on {change.cluster}{pods}", describe_lost_data([change])),
                "; ",
            ),
            title=f"{change.object} on {change.cluster}{pods}",
            runs=runs,
            where=(change.cluster,),
            data=change.data,
            before=change.pods,
            removed=Counter(row.kind for row in rows) or runs,
            objects=int(change.effect is ContentEffect.REMOVED),
        )


def _find_smaller_workloads(lost: _LostRows) -> Iterator[Consequence]:
    """Yield the consequence of each workload with removed pods that no other record explains."""
    for (address, workload), rows in lost.by_workload.items():
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
        for table in plan.placement_tables
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
    for change in plan.changes:
        resource_type = types.get(change.address.type)
        if resource_type is None or change.before is None or change.after is None:
            continue
        if change.action is Action.NO_OP:
            continue
        ending = resource_type.consequences.find_weakening(change.before, change.after)
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
