"""Objects that new content of placements removes from clusters: clauses and names."""

from collections.abc import Iterator, Sequence
from typing import Final

from nexusform.diagnostics.phrases import format_count, format_list, group_by, select_word_form
from nexusform.placement_kinds.placement_kind import get_kind_noun
from nexusform.plans.plan import ContentChange, ContentEffect, Plan

_MAX_OBJECTS: Final = 5
_MAX_CLUSTERS: Final = 3


def describe_content_losses(plan: Plan) -> list[str]:
    """Return clauses: `2 workloads to end`, `4 other objects to remove from clusters`.

    Pods of known number are counted by the effects of the plan.
    """
    workloads = sum(change.ends_workload for change in plan.content_changes)
    others = sum(change.is_loss for change in plan.content_changes) - workloads
    clauses = [f"{format_count(workloads, 'workload')} to end"] if workloads else []
    if others:
        noun = "other object" if workloads else "object"
        clauses.append(f"{format_count(others, noun)} to remove from clusters")
    recreated = sum(
        change.effect is ContentEffect.ROLLED_OUT and not change.pods and not change.has_rows
        for change in plan.content_changes
    )
    if recreated:
        clauses.append(f"pods of {format_count(recreated, 'DaemonSet')} to re-create")
    return clauses


def list_destroyed_objects(plan: Plan) -> Iterator[str]:
    """Yield a name per object that ends on clusters: `Deployment web/api on a, b (3 pods each)`.

    Workloads with the most pods come first, at most five objects in all, then a count.
    """
    ended = [change for change in plan.content_changes if change.is_loss]
    groups = list(group_by(ended, lambda change: (change.address, change.object)).values())
    # Stable: the order of the placements and their objects decides ties.
    groups.sort(key=lambda group: (not group[0].ends_workload, -_count_pods(group)))
    for group in groups[:_MAX_OBJECTS]:
        yield _describe_object(group)
    if groups[_MAX_OBJECTS:]:
        yield f"{format_count(len(groups) - _MAX_OBJECTS, 'more object')}"


def _describe_object(changes: Sequence[ContentChange]) -> str:
    """Return an object with its clusters and pods."""
    first = changes[0]
    clusters = format_list([change.cluster for change in changes], _MAX_CLUSTERS)
    total = _count_pods(changes)
    pods = ""
    if total:
        noun = get_kind_noun(first.pod_kind)
        is_equal = all(change.pods == first.pods for change in changes)
        each = select_word_form(len(changes), "", " each")
        pods = f" ({format_count(first.pods, noun)}{each})"
        if not is_equal:
            pods = f" ({format_count(total, noun)})"
    return f"{first.object} on {clusters}{pods}"


def _count_pods(changes: Sequence[ContentChange]) -> int:
    return sum(change.pods for change in changes)
