"""Which warnings of a plan held before it: the same plan without its changes would say them as well. Told
last of all, when a plan has its sites and their room.

A kind of warning has one way to come about: its block changes, VMs or pods come to where they were not, pods
lose their nodes. Where nothing of the sort is in the plan, the warning was there before. Kinds not in
the table count as caused by the plan: what an export lacks does, since no state remembers what the last one
lacked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics import Diagnostic, Severity
from nexusform.domain_table import remarks_of_domains
from nexusform.placement_kinds.kinds import KINDS, VM
from nexusform.plans.impact.effects import Effect, effect_of
from nexusform.plans.plan import Action, Change, PlacementAction, PlacementChange, Plan
from nexusform.plans.room.occupancy import SiteRoom, sharing_as_before


class _Deeds(Struct, frozen=True):
    """What a plan does, by the addresses of resources: which change, to which bindings or pods come, of which
    pods newly wait, and of which any is touched. `vms_come` and `vms_leave` are said of all sites.
    """

    follows_another: bool
    changed: AbstractSet[str]
    rewritten: AbstractSet[str]
    bound: AbstractSet[str]
    pods_come: AbstractSet[str]
    pods_wait: AbstractSet[str]
    pods_touched: AbstractSet[str]
    vms_come: bool
    vms_leave: bool


def with_held_before(plan: Plan) -> Plan:
    """The plan with its warnings marked that held before it."""
    deeds = _deeds(plan)
    as_before = {
        "no-surge-room": _without_surge_room(plan),
        "shared-machine": sharing_as_before(plan.sites),
    }
    marked = [
        replace(diagnostic, held_before=True)
        if _held_before(diagnostic, deeds, as_before.get(diagnostic.id, frozenset()))
        else diagnostic
        for diagnostic in plan.diagnostics
    ]
    return replace(plan, diagnostics=tuple(marked))


def _held_before(diagnostic: Diagnostic, deeds: _Deeds, as_before: frozenset[str]) -> bool:
    """`as_before`: the addresses of which a warning of this kind said the same before."""
    if diagnostic.severity is Severity.ERROR:
        return False
    if diagnostic.address in as_before:
        return True
    cause = _CAUSE_OF.get(diagnostic.id, "")
    return deeds.follows_another and bool(cause) and not _CAUSES[cause](deeds, diagnostic.address)


def _without_surge_room(plan: Plan) -> frozenset[str]:
    """Resources whose clusters had no room for surge VMs before the plan, for any SKU that has none after."""
    newly: set[tuple[str, str]] = set()
    for row in plan.room:
        newly |= {(row.site_id, cluster) for cluster in _newly_without(row)}
    addresses: set[str] = set()
    of_this_plan: set[str] = set()
    for site in plan.sites:
        addresses |= {str(pool.address) for pool in site.pools}
        of_this_plan |= {str(pool.address) for pool in site.pools if (site.id, pool.cluster) in newly}
    return frozenset(addresses - of_this_plan)


def _newly_without(row: SiteRoom) -> set[str]:
    after = set(row.after.no_surge) if row.after is not None else set()
    return after - set(row.before.no_surge) if row.before is not None else after


_COMING: Final = (Effect.PLACED, Effect.MOVED, Effect.AGAIN)
_GOING: Final = (Effect.MOVED, Effect.UNPLACED, Effect.REMOVED)


def _deeds(plan: Plan) -> _Deeds:
    effects = [(row, effect_of(row)) for row in plan.placements]
    bindings = [(row, effect) for row, effect in effects if KINDS[row.kind].by_resource]
    pods_of_plan = [(row, effect) for row, effect in effects if KINDS[row.kind].on_vms]
    touched = [row for row, _ in pods_of_plan if row.action is not PlacementAction.KEEP]
    of_vms = {effect for row, effect in effects if row.kind == VM}
    return _Deeds(
        follows_another=plan.serial > 0,
        changed=_changed(plan),
        rewritten=frozenset(str(change.address) for change in plan.changes if _is_rewritten(change)),
        bound={str(row.address) for row, effect in bindings if effect in _COMING},
        pods_come={str(row.address) for row, effect in pods_of_plan if effect in _COMING},
        pods_wait={str(row.address) for row, effect in pods_of_plan if _newly_waits(row, effect)},
        pods_touched={str(row.address) for row in touched},
        vms_come=not of_vms.isdisjoint(_COMING),
        vms_leave=not of_vms.isdisjoint(_GOING),
    )


def _changed(plan: Plan) -> frozenset[str]:
    """Resources that the plan changes or takes over."""
    return frozenset(
        str(change.address)
        for change in plan.changes
        if change.action is not Action.NO_OP or change.importing or change.previous_address
    )


def _is_rewritten(change: Change) -> bool:
    """Whether a text of a resource differs: documents are texts, or several by their names."""
    before, after = change.before or {}, change.after or {}
    return any(before.get(name) != value and _is_text(value) for name, value in after.items())


def _is_text(value: Any) -> bool:
    if isinstance(value, dict):
        return bool(value) and all(isinstance(text, str) for text in value.values())
    return isinstance(value, str)


def _newly_waits(pod: PlacementChange, effect: Effect) -> bool:
    """Whether a pod has no node that had one, or comes without one; pods that wait on are none of these."""
    comes = pod.action is PlacementAction.PLACE
    return effect is Effect.UNPLACED or (effect is Effect.WAITING and comes)


# --- causes -------------------------------------------------------------------------------------


def _block(deeds: _Deeds, address: str) -> bool:
    return address in deeds.changed


def _document(deeds: _Deeds, address: str) -> bool:
    return address in deeds.rewritten


def _waiting(deeds: _Deeds, address: str) -> bool:
    return address in deeds.pods_wait


def _company(deeds: _Deeds, address: str) -> bool:
    """Pods come together where one comes, or where the machine beneath their node is another."""
    return deeds.vms_come or address in deeds.pods_come


def _rollout(deeds: _Deeds, address: str) -> bool:
    """What stands in the way of a rollout: the workload itself, or the nodes that there are for it."""
    return deeds.vms_come or deeds.vms_leave or address in deeds.pods_touched or address in deeds.changed


def _members(deeds: _Deeds, address: str) -> bool:
    """Clusters of a placement come to share a machine where VMs come, or where a cluster is picked."""
    return deeds.vms_come or address in deeds.bound


# What domains call the causes of their warnings, and who says whether a plan has such.
_CAUSES: Final[Mapping[str, Callable[[_Deeds, str], bool]]] = {
    "block": _block,
    "document": _document,
    "waiting": _waiting,
    "company": _company,
    "rollout": _rollout,
    "members": _members,
}
_CAUSE_OF: Final = {
    "even-control-plane": "block",
    **{kind: remark.cause for kind, remark in remarks_of_domains().items() if remark.cause},
}
