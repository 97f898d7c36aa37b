"""Why a VM comes, goes, or is placed anew: prior VMs against those that are asked for. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct, field

from nexusform.demands import PlacedVm, PoolDemand, VmDemand

VmKey: TypeAlias = tuple[str, "int | str"]  # pool, number


class Moves(Struct):
    """What happens to the VMs of one resource instance, each with its trigger.

    `leave`: gone for good. `again`: placed anew under the same name (they leave first, but
    for an upgrade of Kubernetes). `arrive`: new. `stay`: untouched. Pools in the order of the demand,
    numbers ascending.
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
    standing: tuple[PlacedVm, ...],
    prior_demand: VmDemand | None,
    demand: VmDemand | None,
    situation: Situation,
) -> Moves:
    """Sort the VMs of one instance by what happens to them.

    `prior_demand` is what the prior arguments asked for (to see which of them changed, and which nodes
    were deleted behind our back); `demand` None means that the resource goes.
    """
    moves = Moves()
    standing_by_key = {(vm.pool, vm.number): vm for vm in standing}
    pools = {pool.pool: pool for pool in demand.pools} if demand else {}
    numbers = {name: frozenset(pool.numbers) for name, pool in pools.items()}
    for key, vm in standing_by_key.items():
        if vm.pool not in pools:
            moves.leave[key] = "pool_removed" if demand else situation.whole
        elif vm.number not in numbers[vm.pool]:
            moves.leave[key] = situation.whole or "scale_in"
    prior_pools = {pool.pool: pool for pool in prior_demand.pools} if prior_demand else {}
    upgraded = bool(demand and prior_demand and demand.version != prior_demand.version)
    for pool in pools.values():
        prior = prior_pools.get(pool.pool)
        changed = changed_argument(prior, pool)
        prior_numbers = set(prior.numbers) if prior else set()
        for number in pool.numbers:
            key = (pool.pool, number)
            vm_there = standing_by_key.get(key)
            if vm_there is None:
                _arrival(moves, key, situation, prior, was_there=number in prior_numbers)
                continue
            trigger = _trigger(vm_there, situation, upgraded, changed)
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


def _trigger(vm: PlacedVm, situation: Situation, upgraded: bool, changed: str) -> str:
    if vm.name in situation.healed:
        return "heal"
    if situation.whole:
        return situation.whole
    machine = situation.machine_trigger(vm.placement.machine)
    if machine:
        return machine
    return "kubernetes_version_changed" if upgraded else changed


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
