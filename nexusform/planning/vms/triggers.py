"""Why a VM comes, goes, or is placed anew: prior VMs against wanted ones. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct, field

from nexusform.demands import PlacedVm, PoolDemand, VmDemand

VmKey: TypeAlias = tuple[str, "int | str"]  # pool, number


class Moves(Struct):
    """What happens to the VMs of one resource instance, each with its trigger.

    `leave`: gone for good. `again`: placed anew under the same name (they leave first, but
    for an upgrade of Kubernetes). `arrive`: new. `stay`: untouched. Pools in wanted order, numbers ascending.
    """

    leave: dict[VmKey, str] = field(default_factory=dict)
    again: dict[VmKey, str] = field(default_factory=dict)
    arrive: dict[VmKey, str] = field(default_factory=dict)
    stay: list[VmKey] = field(default_factory=list)


class Situation(Struct, frozen=True):
    """What bears on the VMs of one instance besides its arguments.

    `whole` is the trigger that concerns every VM ("cluster_replaced", "requested", or the one of
    a removal), "" when there is none. `healed` are the names the user wants placed anew.
    `machine_trigger(machine)` is "machine_removed", "machine_evacuated" or "".
    """

    whole: str = ""
    healed: frozenset[str] = frozenset()
    machine_trigger: Callable[[str], str] = lambda _machine: ""


def compare(
    standing: tuple[PlacedVm, ...], before: VmDemand | None, wanted: VmDemand | None, situation: Situation
) -> Moves:
    """Sort the VMs of one instance by what happens to them.

    `before` is what the prior arguments asked for (to see which of them changed, and which nodes
    were deleted behind our back); `wanted` None means that the resource goes.
    """
    moves = Moves()
    have = {(vm.pool, vm.number): vm for vm in standing}
    pools = {pool.pool: pool for pool in wanted.pools} if wanted else {}
    former = {pool.pool: pool for pool in before.pools} if before else {}
    numbers = {name: frozenset(pool.numbers) for name, pool in pools.items()}
    gone = "pool_removed" if wanted else situation.whole
    for key, vm in have.items():
        if vm.pool not in pools:
            moves.leave[key] = gone
        elif vm.number not in numbers[vm.pool]:
            moves.leave[key] = situation.whole or "scale_in"
    renewed = bool(wanted and before and wanted.version != before.version)
    for pool in pools.values():
        old = former.get(pool.pool)
        changed = changed_argument(old, pool)
        known = set(old.numbers) if old else set()
        for number in pool.numbers:
            key = (pool.pool, number)
            present = have.get(key)
            if present is None:
                _arrival(moves, key, situation, old, was_there=number in known)
                continue
            trigger = _trigger(present, situation, renewed, changed)
            if trigger:
                moves.again[key] = trigger
            else:
                moves.stay.append(key)
    return moves


def _arrival(moves: Moves, key: VmKey, situation: Situation, old: PoolDemand | None, was_there: bool) -> None:
    if situation.whole:
        moves.again[key] = situation.whole
    elif was_there:
        moves.again[key] = "node_deleted"
    else:
        moves.arrive[key] = "scale_out" if old else "new"


def _trigger(vm: PlacedVm, situation: Situation, renewed: bool, changed: str) -> str:
    if vm.name in situation.healed:
        return "heal"
    if situation.whole:
        return situation.whole
    machine = situation.machine_trigger(vm.placement.machine)
    if machine:
        return machine
    return "kubernetes_version_changed" if renewed else changed


def changed_argument(old: PoolDemand | None, pool: PoolDemand) -> str:
    """The first of the pool's arguments, in order of precedence, that differs from before."""
    if old is None:
        return ""
    before = dict(old.triggers)
    return next((name for name, value in pool.triggers if before.get(name) != value), "")


def batch_size(text: str, pool_size: int) -> int:
    """How many VMs `max_surge` or `max_unavailable` allow at once: a count, or per cent of the
    pool rounded up.
    """
    if text.endswith("%"):
        return -(-int(text[:-1]) * pool_size // 100)
    return int(text)
