"""Views of the consequences of a plan: objects that end, that are replaced, and risks."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

from msgspec.structs import replace

from nexusform.diagnostics.phrases import enclose, format_list, group_by
from nexusform.placement_kinds.placement_kind import VM
from nexusform.placements.consequence_record import CONTENT_RISKS, Consequence, ConsequenceKind
from nexusform.placements.consequences import ConsequenceSeverity, DataFate
from nexusform.plans.impact.object_effects import format_kind_counts


class ConsequenceHolder(Protocol):
    """Impact of a plan, or the record of its decision."""

    @property
    def consequences(self) -> Sequence[Consequence]:
        """Consequences of the plan."""
        ...


_OBJECT_KINDS: Final = (ConsequenceKind.ENDS, ConsequenceKind.REPLACED)
# Names of clusters in a title.
_MAX_CLUSTERS: Final = 3


def list_destroyed_objects(impact: ConsequenceHolder) -> list[Consequence]:
    """Return the objects that a plan destroys, those on clusters too.

    Objects with the most VMs come first, then workloads and placements with the most pods.
    """
    return _sort_by_size(_select_objects(impact, ConsequenceKind.ENDS))


def list_replaced_objects(impact: ConsequenceHolder) -> list[Consequence]:
    """Return the objects that a plan replaces, those with the most VMs first."""
    return _sort_by_size(_select_objects(impact, ConsequenceKind.REPLACED))


def list_plan_risks(impact: ConsequenceHolder) -> list[Consequence]:
    """Return what the plan hurts, and another placement does not: lasting or temporary."""
    return [consequence for consequence in impact.consequences if consequence.is_risk]


def list_unnamed_risks(impact: ConsequenceHolder) -> list[Consequence]:
    """Return the risks that are not named as destroyed or replaced objects."""
    return [risk for risk in list_plan_risks(impact) if not _is_object(risk)]


def list_assessed_risks(impact: ConsequenceHolder) -> list[Consequence]:
    """Return the risks of a plan, and those that the state had before it."""
    return [
        consequence
        for consequence in impact.consequences
        if consequence.severity is not ConsequenceSeverity.NONE
    ]


def list_reported_consequences(impact: ConsequenceHolder) -> list[Consequence]:
    """Return the destroyed objects, the replaced ones, then the other risks of a plan."""
    return [
        *list_destroyed_objects(impact),
        *list_replaced_objects(impact),
        *list_unnamed_risks(impact),
    ]


def _is_object(consequence: Consequence) -> bool:
    """Return whether the lines of destroyed and replaced objects name the subject."""
    return bool(consequence.title) and consequence.kind in _OBJECT_KINDS


def _select_objects(impact: ConsequenceHolder, kind: ConsequenceKind) -> Iterable[Consequence]:
    """Yield the objects of a kind; equal ones on several clusters as one."""
    objects = [item for item in impact.consequences if item.kind is kind and _is_object(item)]
    groups = group_by(objects, lambda item: (item.risk, item.address, item.subject, item.data))
    for group in groups.values():
        yield _add_data(group[0] if len(group) == 1 else _merge_clusters(group))


# Of content; other objects say in their title whose data it is.
_DATA_REMARKS: Final[Mapping[DataFate | None, str]] = {
    DataFate.LOST: "its data is lost",
    DataFate.UNKNOWN: "its data may be lost",
}


def _add_data(consequence: Consequence) -> Consequence:
    """Return the record of an object of a cluster with the fate of its data in the title."""
    remark = _DATA_REMARKS.get(consequence.data, "")
    if consequence.risk not in CONTENT_RISKS or not remark:
        return consequence
    return replace(consequence, title=f"{consequence.title}; {remark}")


def _merge_clusters(group: Sequence[Consequence]) -> Consequence:
    """Return one record of an object that ends on several clusters."""
    runs: Counter[str] = Counter()
    for consequence in group:
        runs.update(consequence.runs)
    clusters = tuple(name for consequence in group for name in consequence.where)
    is_equal = all(consequence.runs == group[0].runs for consequence in group)
    pods = format_kind_counts(group[0].runs if is_equal else runs)
    each = " each" if is_equal else ""
    return replace(
        group[0],
        title=(
            f"{group[0].subject} on {format_list(clusters, _MAX_CLUSTERS)}"
            f"{enclose(' (', pods, f'{each})')}"
        ),
        runs=runs,
        where=clusters,
        before=sum(consequence.before for consequence in group),
    )


def _sort_by_size(consequences: Iterable[Consequence]) -> list[Consequence]:
    """Return objects by VMs, then by data and workloads, then by pods; ties keep their order."""
    return sorted(
        consequences,
        key=lambda ended: (
            -ended.runs.get(VM, 0),
            not ended.runs,
            ended.severity is ConsequenceSeverity.NONE,
            -sum(ended.runs.values()),
        ),
    )


def select_added_consequences(
    consequences: Iterable[Consequence], others: Iterable[Consequence]
) -> tuple[Consequence, ...]:
    """Return what a plan causes and another one does not, or not as badly, the worst first."""
    known = {_get_identity(consequence): consequence for consequence in others}
    added: list[Consequence] = []
    for consequence in consequences:
        other = known.get(_get_identity(consequence))
        is_known = (
            other is not None
            and other.severity.rank >= consequence.severity.rank
            and other.before - other.after >= consequence.before - consequence.after
        )
        if consequence.is_caused and not is_known:
            added.append(consequence)
    return tuple(sorted(added, key=lambda consequence: -consequence.severity.rank))


def _get_identity(consequence: Consequence) -> tuple[str, str, str]:
    return consequence.risk, consequence.address, consequence.subject
