"""Hints of plain VMs and groups of VNFCs: be with, or away from, machines or racks."""

from __future__ import annotations

from nexusform.scheduling.racks.faces import Host, KeyPart, RackUse
from nexusform.scheduling.racks.model import Demand, Hint, HintScope


def violated(hint: Hint, machine: str, rack: str) -> bool:
    """Whether standing on this machine goes against the hint. Its scope says which names count."""
    meets = machine in hint.machines if hint.scope is HintScope.MACHINE else rack in hint.racks
    return meets is not hint.affinity


def count_violated(demand: Demand, scope: HintScope, machine: str, rack: str) -> int:
    """How many soft hints of this scope the place violates: the first key of its step."""
    return sum(
        violated(hint, machine, rack) for hint in demand.hints if not hint.hard and hint.scope is scope
    )


def refuse(demand: Demand, host: Host) -> str | None:
    """Why a hard hint keeps the VM off this machine; None when none does."""
    for hint in demand.hints:
        if hint.hard and violated(hint, host.machine.name, host.machine.rack):
            return sentence(hint)
    return None


def of_rack(demand: Demand, rack: RackUse) -> KeyPart:
    """Soft hints of rack scope that the rack violates."""
    return _part(count_violated(demand, HintScope.RACK, "", rack.name))


def of_machine(demand: Demand, host: Host) -> KeyPart:
    """Soft hints of machine scope that the machine violates."""
    return _part(count_violated(demand, HintScope.MACHINE, host.machine.name, host.machine.rack))


def _part(count: int) -> KeyPart:
    return KeyPart("hints", count, f"{count} soft hints violated" if count else "")


def sentence(hint: Hint) -> str:
    """What the hint asks for, for people."""
    place = "machine" if hint.scope is HintScope.MACHINE else "rack"
    strength = "hard" if hint.hard else "soft"
    side = "on the same" if hint.affinity else "not on the same"
    return f"{strength} hint: {side} {place} as {hint.target}"
