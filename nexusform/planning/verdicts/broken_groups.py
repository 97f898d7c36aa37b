"""Placement groups that VMs which stand do not keep: a rule moves nobody, so the user is told who to heal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nexusform.demands import GroupRule
from nexusform.diagnostics import Diagnostic, Problem, Severity
from nexusform.planning.vms.triggers import VmKey
from nexusform.planning.vms.vm_object import VmObject
from nexusform.scheduling.racks.model import Placement

BROKEN_GROUP = "vms-stand-against-their-placement-group"
_NAMED = 5


def broken_groups(objects: Iterable[VmObject]) -> Iterator[Diagnostic]:
    """A warning per hard anti-affinity group of which more VMs share a place than it allows, because they
    stood there before.
    """
    for found in objects:
        if found.demand is None or found.going or not found.moves.stay:
            continue
        rules = dict.fromkeys(rule for pool in found.demand.pools for rule in pool.groups)
        for rule in rules:
            too_many = list(_too_many(found, rule)) if rule.hard and not rule.affinity else []
            if too_many:
                yield _warning(found, rule, too_many)


def _too_many(found: VmObject, rule: GroupRule) -> Iterator[tuple[str, list[str]]]:
    """Each place with too many VMs of the group, and those to be healed: the newest beyond its bound."""
    assert found.demand is not None
    there: dict[str, list[tuple[VmKey, str]]] = {}
    for pool in found.demand.pools:
        if pool.pool not in rule.pools:
            continue
        for number in pool.numbers:
            vm = found.placed.get((pool.pool, number))
            where = _where(vm.placement, rule.scope) if vm is not None else ""
            if vm is not None and where:
                there.setdefault(where, []).append(((pool.pool, number), vm.name))
    for where, members in there.items():
        beyond = [name for key, name in members[rule.most :] if key not in found.tokens]
        if beyond:
            yield where, beyond


def _where(place: Placement, scope: str) -> str:
    if scope == "machine":
        return place.machine
    return place.rack if scope == "rack" else ""


def _warning(found: VmObject, rule: GroupRule, too_many: list[tuple[str, list[str]]]) -> Diagnostic:
    places = [where for where, _ in too_many]
    names = [name for _, beyond in too_many for name in beyond]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    asked = " ".join(f"-replace='{found.instance.address}:{name}'" for name in names[:_NAMED])
    listed = ", ".join(places[:_NAMED]) + (" and others" if len(places) > _NAMED else "")
    group = rule.name.removeprefix("the others of ")
    return found.instance.problem(
        Problem(
            (),
            BROKEN_GROUP,
            f"{group} allows {rule.most} of its VMs on one {rule.scope}, and more stand on {listed}. "
            f"A rule moves no VM that stands. To part them, heal: {asked}{more}.",
            Severity.WARNING,
        )
    )
