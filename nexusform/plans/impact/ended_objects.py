"""Objects that a plan destroys or replaces, by name, the most severe first."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from nexusform.diagnostics.phrases import (
    enclose,
    format_count,
    format_list,
    group_by,
    select_word_form,
)
from nexusform.json_data.plain_data import get_text
from nexusform.placement_kinds.placement_kind import KINDS, VM, get_kind_noun
from nexusform.plans.impact.object_effects import build_cluster_formatter, format_kind_counts
from nexusform.plans.plan import Action, Change, ContentChange, PlacementChange, Plan

_CLUSTER: Final = "nexus_kubernetes_cluster"
_AGENT_POOL: Final = "nexus_agent_pool"
_REPLACEMENTS: Final = (Action.REPLACE, Action.REPLACE_CREATE_FIRST)
_MAX_CLUSTERS: Final = 3


class EndedObject(Struct, frozen=True):
    """Object that a plan destroys or replaces.

    `name` is that of a cluster, pool or object on clusters, else the address. `vms` and `pods`
    (also bindings) run on it before the plan. `text` has the name with these numbers.
    """

    name: str
    address: str
    vms: int
    pods: int
    text: str
    is_workload: bool = False


def list_destroyed_objects(plan: Plan) -> list[EndedObject]:
    """Return the objects that a plan destroys, those on clusters too.

    Objects with the most VMs come first, then workloads and placements with the most pods.
    """
    return _sort_by_severity(
        [*_build_content_objects(plan), *_build_ended_objects(plan, (Action.DELETE,))]
    )


def list_replaced_objects(plan: Plan) -> list[EndedObject]:
    """Return the objects that a plan replaces, those with the most VMs first."""
    return _sort_by_severity(_build_ended_objects(plan, _REPLACEMENTS))


def _sort_by_severity(objects: Iterable[EndedObject]) -> list[EndedObject]:
    """Return objects by VMs, then workloads before others, then by pods; ties keep their order."""
    return sorted(objects, key=lambda ended: (-ended.vms, not ended.is_workload, -ended.pods))


def _build_ended_objects(plan: Plan, actions: Collection[Action]) -> Iterator[EndedObject]:
    """Yield the objects of changes with one of these actions."""
    if plan.errored:
        return
    changes = [change for change in plan.changes if change.action in actions]
    if not changes:
        return
    addresses = {change.address for change in changes}
    rows_by_address = group_by(
        [row for row in plan.placements if row.address in addresses and row.source is not None],
        lambda row: row.address,
    )
    prefixes = _list_cluster_prefixes(plan)
    for change in changes:
        # The current object of the address keeps its rows.
        rows = [] if change.deposed else rows_by_address.get(change.address, [])
        yield _build_ended_object(change, rows, prefixes)


def _list_cluster_prefixes(plan: Plan) -> dict[tuple[str, str], str]:
    """Return the name of each cluster in reports, by site id and cluster."""
    format_cluster = build_cluster_formatter(plan.placements)
    return {(row.site_id, row.cluster): format_cluster(row) for row in plan.placements}


def _build_ended_object(
    change: Change, rows: Sequence[PlacementChange], cluster_names: Mapping[tuple[str, str], str]
) -> EndedObject:
    """Build the record of one change; `rows` are the VMs, bindings and pods that it ends."""
    counts = Counter(row.kind for row in rows if KINDS[row.kind].is_running(row.source))
    address = str(change.address)
    name = address
    if rows and change.address.type in (_CLUSTER, _AGENT_POOL):
        row = rows[0]
        # A cluster created outside of nexusform has the name of its block only in the state.
        name = cluster_names[row.site_id, row.cluster]
        if change.address.type == _AGENT_POOL:
            name = f"{name}/{row.pool}"
    elif change.address.type == _CLUSTER:
        name = get_text(change.before, "name") or address
    if change.deposed:
        name = f"{name} (deposed object)"
    # A placement is on clusters; other objects have a number of VMs and pods.
    clusters = [row.object for row in rows if KINDS[row.kind].by_resource]
    location = format_list(clusters, _MAX_CLUSTERS)
    return EndedObject(
        name=name,
        address=address,
        vms=counts[VM],
        pods=counts.total() - counts[VM],
        text=name + (enclose(" on ", location) or enclose(" (", format_kind_counts(counts), ")")),
        is_workload=bool(counts),
    )


def _build_content_objects(plan: Plan) -> Iterator[EndedObject]:
    """Yield the objects that new content of placements ends on clusters."""
    ended = [change for change in plan.content_changes if change.is_loss]
    groups = group_by(ended, lambda change: (change.address, change.object)).values()
    for group in groups:
        first = group[0]
        yield EndedObject(
            name=first.object,
            address=str(first.address),
            vms=0,
            pods=sum(change.pods for change in group),
            text=_describe_content_object(group),
            is_workload=first.ends_workload,
        )


def _describe_content_object(changes: Sequence[ContentChange]) -> str:
    """Return an object with its clusters and pods: `Deployment web/api on a, b (3 pods each)`."""
    first = changes[0]
    clusters = format_list([change.cluster for change in changes], _MAX_CLUSTERS)
    total = sum(change.pods for change in changes)
    pods = ""
    if total:
        noun = get_kind_noun(first.pod_kind)
        is_equal = all(change.pods == first.pods for change in changes)
        each = select_word_form(len(changes), "", " each")
        pods = f" ({format_count(first.pods, noun)}{each})"
        if not is_equal:
            pods = f" ({format_count(total, noun)})"
    return f"{first.object} on {clusters}{pods}"
