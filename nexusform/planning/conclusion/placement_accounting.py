"""Accounting of all objects.

Every VM, binding and pod of the prior state is accounted for after the plan. Each of them is
unchanged, moved, re-created in place, removed, forgotten, or its host is lost. The rows of a
plan are compared with both sides of its changes: a plan with inconsistent totals would be wrong
and is rejected.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic, build_error
from nexusform.diagnostics.phrases import group_by, select_word_form
from nexusform.interfaces.plugins import ResourceType, VmHandlers
from nexusform.placement_kinds.placement_kind import VM
from nexusform.placement_kinds.registry import KINDS, get_kind_order
from nexusform.planning.vm_planning.site_plans import SitePlan
from nexusform.plans.impact.object_effects import Effect, compute_effect
from nexusform.plans.plan import Action, Change, PlacementAction, PlacementChange, PlacementTotal
from nexusform.resources.address import Address

_REMOVAL_ACTIONS: Final = (PlacementAction.REMOVE, PlacementAction.FORGET)

# Names of objects of one kind; clusters may share names.
Names: TypeAlias = Counter[str]
Types: TypeAlias = Mapping[str, ResourceType]
Attributes: TypeAlias = Mapping[str, Any]


class AccountingResult(Struct, frozen=True):
    """Totals, and their inconsistencies as sentences."""

    totals: tuple[PlacementTotal, ...]
    mistakes: tuple[str, ...] = ()


def compute_totals(
    changes: Iterable[Change],
    rows: Iterable[PlacementChange],
    types: Types,
    sites: Mapping[str, SitePlan] | None = None,
    observed_attributes: Mapping[Address, Attributes] = MappingProxyType({}),
) -> AccountingResult:
    """Return the totals of all VMs, bindings and pods, and mistakes in the rows.

    With `sites` (after the plan), a VM on a missing machine is a mistake. Bindings in
    `observed_attributes` (of data sources) exist even if not in state.
    """
    rows_of = group_by(rows, lambda row: (row.address, row.kind))
    # By kind: counts by the field name of PlacementTotal.
    totals_by_kind: dict[str, Counter[str]] = {}
    # Rows in contradiction to the objects.
    mistakes: list[str] = []
    for change in changes:
        resource_type = types.get(change.address.type)
        # A deposed (replaced) object has no VMs to account for.
        if change.deposed or resource_type is None:
            continue
        for kind in list_placement_kinds(resource_type):
            own_rows = rows_of.pop((change.address, kind), [])
            totals_of_kind = totals_by_kind.setdefault(kind, Counter())
            attributes_before = change.before
            # A binding of KubeFleet: data sources read the existing ones.
            if KINDS[kind].is_observable:
                attributes_before = observed_attributes.get(change.address, attributes_before)
            before = collect_names(kind, resource_type, attributes_before)
            mistakes += _add_object_to_totals(
                totals_of_kind, change, kind, resource_type, own_rows, before
            )
            if resource_type.vms is not None and sites is not None:
                mistakes += _find_stranded_vms(change, resource_type.vms, own_rows, sites)
    mistakes += [
        f"{address} has rows of kind {kind} but no such object." for address, kind in rows_of
    ]
    totals: list[PlacementTotal] = []
    for kind in sorted(totals_by_kind, key=get_kind_order):
        counts = totals_by_kind[kind]
        # The plan shows no kind without objects.
        if counts["before"] or counts["added"]:
            after = counts["unchanged"] + counts["moved"] + counts["recreated"] + counts["added"]
            totals.append(PlacementTotal(kind, **counts, after=after))
    return AccountingResult(tuple(totals), tuple(mistakes))


def build_imbalance_error(mistakes: Sequence[str]) -> Iterator[Diagnostic]:
    """Yield the error for a plan with inconsistent totals, with the first mistake only.

    Yield nothing without mistakes.
    """
    if mistakes:
        detail = (
            f"{mistakes[0]} This is a bug in nexusform, not in the configuration. No changes were "
            "made. Report it with the configuration and the state."
        )
        yield build_error("unbalanced-plan-totals", detail)


def list_placement_kinds(resource_type: ResourceType) -> tuple[str, ...]:
    """Return the kinds of placed objects in a resource of this type.

    They are VMs, or for example bindings and pods.
    """
    return (VM,) if resource_type.vms is not None else resource_type.placement_kinds


def _add_object_to_totals(
    totals: Counter[str],
    change: Change,
    kind: str,
    resource_type: ResourceType,
    rows: list[PlacementChange],
    before: Names,
) -> Iterator[str]:
    """Add one resource to the totals of a kind.

    `before` counts the names of its objects before the plan. Yield an inconsistency for each name
    with another count after the plan than expected: before - removed + added, by the rows.
    """
    if change.action is Action.NO_OP and not rows:
        totals["before"] += before.total()
        totals["unchanged"] += before.total()
        return
    after = collect_names(kind, resource_type, change.after)
    row_counts = _PlacementRowCounts()
    for row in rows:
        row_counts.add_row_to_counts(row)
    # Rows by name: of prior objects, of new ones.
    existing = row_counts.existing
    added = row_counts.added
    if change.action is Action.FORGET:
        # The state forgets (no longer manages) all of them, even those losing their machine.
        row_counts.removed += row_counts.lost_names
    totals.update(row_counts.totals)
    totals["added"] += added.total()
    totals["host_lost"] += row_counts.lost_names.total()
    if kind != VM:
        # Observed pods and bindings exist, although state does not contain them.
        before |= existing
    totals["before"] += before.total()
    # Existing objects without a row.
    totals["unchanged"] += before.total() - existing.total()
    for name in sorted({*before, *after, *existing, *added}):
        expected_after = before[name] - row_counts.removed[name] + added[name]
        has_too_many_rows = existing[name] > before[name]
        if has_too_many_rows or after[name] != expected_after:
            yield (
                f'{change.address}: of {kind} "{name}" there '
                f"{select_word_form(before[name], 'is', 'are')} {before[name]} before and "
                f"{select_word_form(after[name], 'is', 'are')} {after[name]} after, but the rows "
                "of the plan differ."
            )


class _PlacementRowCounts(Struct):
    # Rows of one object: `existing` names before the plan, `removed` from the state,
    # `added` new ones. `totals` are the counts of rows by field of PlacementTotal, as far
    # as these determine it.
    existing: Names = field(default_factory=Counter)
    removed: Names = field(default_factory=Counter)
    lost_names: Names = field(default_factory=Counter)
    added: Names = field(default_factory=Counter)
    totals: Counter[str] = field(default_factory=Counter)

    def add_row_to_counts(self, row: PlacementChange) -> None:
        """Count the row of an object by its name and in the totals.

        The totals omit added and lost names: their numbers are known only after the last row.
        """
        effect = compute_effect(row)
        # It exists neither before nor after.
        if effect is Effect.NOT_CREATED:
            return
        # As in the attributes of its resource.
        name = KINDS[row.kind].format_name(row.pool, row.object)
        if row.action is PlacementAction.PLACE:
            self.added[name] += 1
            return
        self.existing[name] += 1
        if row.action in _REMOVAL_ACTIONS:
            self.removed[name] += 1
            self.totals["removed" if row.action is PlacementAction.REMOVE else "forgotten"] += 1
        elif row.action is PlacementAction.LOSE:
            self.lost_names[name] += 1
        elif row.action is not PlacementAction.MOVE or effect is Effect.WAITING:
            # Also a pod that waits before and after.
            self.totals["unchanged"] += 1
        elif effect is Effect.RECREATED:
            self.totals["recreated"] += 1
        elif effect is Effect.PLACED and row.kind == VM:
            # A VM without a machine counts as new: `before` counts its name, so subtract it again.
            self.totals["added"] += 1
            self.totals["before"] -= 1
        else:
            self.totals["moved"] += 1


def mark_waiting_pods(
    rows: Sequence[PlacementChange], changes: Iterable[Change], types: Types
) -> tuple[PlacementChange, ...]:
    """Return all rows, with those of waiting pods converted to rows of existing pods.

    A waiting pod is in state, but has no node yet. Planning gives it the row of a new pod (PLACE),
    so it would count as an addition.
    """
    rows_by_object: dict[Address, list[PlacementChange]] = {}
    for row in rows:
        # A pod: other kinds have no waiting objects.
        if KINDS[row.kind].build_waiting is not None:
            rows_by_object.setdefault(row.address, []).append(row)
    # Identities of rows of pods in state without a node.
    waiting_rows: set[int] = set()
    for change in changes:
        # A new object has no pods in state.
        if change.before is None or change.deposed:
            continue
        object_rows = rows_by_object.get(change.address, [])
        placing = [row for row in object_rows if row.action is PlacementAction.PLACE]
        if placing:
            waiting_rows |= set(
                map(id, _find_rows_of_waiting_pods(change, object_rows, placing, types))
            )
    return tuple(
        _convert_row_of_unscheduled_pod(row) if id(row) in waiting_rows else row for row in rows
    )


def _find_rows_of_waiting_pods(
    change: Change,
    object_rows: Iterable[PlacementChange],
    placing: Sequence[PlacementChange],
    types: Types,
) -> Iterator[PlacementChange]:
    """Yield those of the `placing` rows of one object that place a pod already in state.

    Pods of a Deployment share a name, so they are counted. If all rows were for new pods, before -
    removed + added would exist after the plan. For each pod less, one row is for a pod in state.
    """
    kind = placing[0].kind
    resource_type = types[change.address.type]
    before = collect_names(kind, resource_type, change.before)
    after = collect_names(kind, resource_type, change.after)
    row_counts = _PlacementRowCounts()
    for row in object_rows:
        row_counts.add_row_to_counts(row)
    for row in placing:
        name = KINDS[kind].format_name(row.pool, row.object)
        if after[name] < before[name] - row_counts.removed[name] + row_counts.added[name]:
            row_counts.added[name] -= 1
            yield row


def _convert_row_of_unscheduled_pod(row: PlacementChange) -> PlacementChange:
    """Convert the row of a placed pod already waiting in state.

    It moves if it gets a node, else it stays.
    """
    kind = KINDS[row.kind]
    assert kind.build_waiting is not None, "only rows of such kinds are converted"
    if row.target is None:
        # "": a kept pod has no reason.
        return replace(row, action=PlacementAction.KEEP, source=None, trigger="")
    # The same location without a node.
    waiting = kind.build_waiting(row.target)
    if kind.is_running(row.target):
        return replace(row, action=PlacementAction.MOVE, source=waiting)
    return replace(row, action=PlacementAction.KEEP, source=waiting, trigger="")


def collect_names(kind: str, resource_type: ResourceType, attributes: Attributes | None) -> Names:
    """Count the objects of a kind in the attributes of a resource by name.

    Pods may share a name.
    """
    if not attributes:
        return Counter()
    return Counter(KINDS[kind].list_names(resource_type, attributes))


def _find_stranded_vms(
    change: Change, handlers: VmHandlers, rows: list[PlacementChange], sites: Mapping[str, SitePlan]
) -> Iterator[str]:
    """Yield an inconsistency for each VM on a missing machine after the plan.

    A VM that a row reports as lost is no inconsistency.
    """
    # All are removed.
    if not change.after:
        return
    lost_names = {row.object for row in rows if row.action is PlacementAction.LOSE}
    # An id begins with the site.
    site = sites.get(str(change.after.get("id", "")).partition("/")[0])
    for vm in handlers.list_existing_vms(change.after):
        machine = vm.placement.machine
        has_machine = site is not None and machine in site.machines
        if not has_machine and vm.name not in lost_names:
            yield (
                f'{change.address}: the VM "{vm.name}" would stay on {machine}, which no longer '
                "exists."
            )
