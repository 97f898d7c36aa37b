"""Lifecycle actions of machines in a plan, in order of execution."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from nexusform.diagnostics.phrases import format_count, select_word_form
from nexusform.resources.address import Address


class LeavingVm(Struct, frozen=True):
    """VM to move from a machine before its action, and its next machine."""

    name: str
    machine: str


class MachineAction(Struct, frozen=True):
    """Action on a machine. Actions of a site run one after another, by `window` (from 1), each up to `minutes`.
    `stopped_vms` stop with the machine; they start again there unless it stays off (`leaves_off`).
    """

    address: Address
    site_id: str
    site: str
    rack: str
    machine: str
    action: str
    window: int
    minutes: int
    leaves_off: bool = False
    is_disruptive: bool = True
    leaving_vms: tuple[LeavingVm, ...] = ()
    stopped_vms: tuple[str, ...] = ()


def select_stopped_vms(actions: Iterable[MachineAction]) -> frozenset[tuple[str, str]]:
    """Return the VMs stopped by actions, each once: site id, name."""
    return frozenset((action.site_id, vm) for action in actions for vm in action.stopped_vms)


def describe_stopped_vms(actions: Iterable[MachineAction]) -> list[str]:
    """Return `2 VMs stop`; empty without any."""
    count = len(select_stopped_vms(actions))
    return [f"{format_count(count, 'VM')} {select_word_form(count, 'stops', 'stop')}"] if count else []
