"""Placement groups that VMs which stand do not keep: a rule moves nobody, so the user is told who to heal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nexusform.demands import GroupRule, PlacedVm
from nexusform.diagnostics import Diagnostic, Problem, Severity
from nexusform.planning.vms.vm_object import VmObject
from nexusform.scheduling.racks.model import Placement

BROKEN_GROUP = "vms-stand-against-their-placement-group"
_NAMED = 5


def broken_groups(objects: Iterable[VmObject]) -> Iterator[Diagnostic]:
    """A warning per hard anti-affinity group of which more VMs share a place than it allows, because they
    stood there before.
    """
    for vms in objects:
        if vms.demand is None or vms.going or not vms.moves.stay:
            continue
        rules = dict.fromkeys(rule for pool in vms.demand.pools for rule in pool.groups)
        for rule in rules:
            too_many = list(_too_many(vms, rule)) if rule.hard and not rule.affinity else []
            if too_many:
                yield _warning(vms, rule, too_many)


def _too_many(vms: VmObject, rule: GroupRule) -> Iterator[tuple[str, list[str]]]:
    """Each place with too many VMs of the group, and those to be healed: the newest beyond its bound."""
    members: dict[str, list[PlacedVm]] = {}
    for vm in vms.placed_vms():
        where = _where(vm.placement, rule.scope)
        if where and vm.pool in rule.pools:
            members.setdefault(where, []).append(vm)
    for where, sharing in members.items():
        beyond = [vm.name for vm in sharing[rule.most :] if (vm.pool, vm.number) not in vms.tokens]
        if beyond:
            yield where, beyond


def _where(place: Placement, scope: str) -> str:
    if scope == "machine":
        return place.machine
    return place.rack if scope == "rack" else ""


def _warning(vms: VmObject, rule: GroupRule, too_many: list[tuple[str, list[str]]]) -> Diagnostic:
    places = [where for where, _ in too_many]
    names = [name for _, beyond in too_many for name in beyond]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    heal = " ".join(f"-replace='{vms.instance.address}:{name}'" for name in names[:_NAMED])
    listed = ", ".join(places[:_NAMED]) + (" and others" if len(places) > _NAMED else "")
    group = rule.name.removeprefix("the others of ")
    return vms.instance.problem(
        Problem(
            (),
            BROKEN_GROUP,
            f"{group} allows {rule.most} of its VMs on one {rule.scope}, and more stand on {listed}. "
            f"A rule moves no VM that stands. To part them, heal: {heal}{more}.",
            Severity.WARNING,
        )
    )
