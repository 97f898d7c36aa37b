"""Lifecycle actions of machines in a plan, in order of execution."""

from __future__ import annotations

from msgspec import Struct

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
