"""Machines that became smaller than what stands on them: their VMs stay, and the user is told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from nexusform.address import Address
from nexusform.diagnostics import Diagnostic, Problem, Severity
from nexusform.planning.instances.instance import Instance
from nexusform.planning.plan import Action
from nexusform.planning.vms.sites import SitePlan
from nexusform.planning.vms.vm_object import VmObject
from nexusform.scheduling.racks.model import Machine

MOST_NAMED = 5


def overfull(
    instances: Mapping[Address, Instance], sites: Mapping[str, SitePlan], objects: Iterable[VmObject]
) -> list[Diagnostic]:
    """A warning per rack or machine resource that this plan changes and whose machines are then smaller
    than the VMs that stay on them.
    """
    if not any(vms.moves.stay for vms in objects):
        return []
    changed = {str(a): i for a, i in instances.items() if i.type.offer and i.action is not Action.NO_OP}
    too_small: dict[str, list[str]] = {}  # address of what offers the machines -> their names
    for site in sites.values():
        watched = {machine for machine, address in site.offered_by.items() if address in changed}
        for machine in _exceeded(site, watched):
            too_small.setdefault(site.offered_by[machine], []).append(machine)
    return [_warning(changed[address], machines) for address, machines in too_small.items()]


def _exceeded(site: SitePlan, watched: set[str]) -> list[str]:
    """Those of the watched machines that hold more than they have."""
    if not watched:
        return []
    cpus: Counter[tuple[str, int]] = Counter()
    memory: Counter[tuple[str, int]] = Counter()
    disk: Counter[str] = Counter()
    for vm in site.scheduler.vms():
        machine = vm.placement.machine
        if machine in watched:
            disk[machine] += vm.sku.disk_gib
            for cell in vm.placement.cells:
                cpus[machine, cell] += vm.sku.cpus_in_cell
                memory[machine, cell] += vm.sku.memory_in_cell

    small = {name for name, used in disk.items() if used > site.machines[name].disk_gib}
    small |= {
        name
        for (name, cell), used in cpus.items()
        if not _holds(site.machines[name], cell, used, memory[name, cell])
    }
    return [name for name in site.machines if name in small]


def _holds(machine: Machine, cell: int, cpus: int, memory: int) -> bool:
    return cell < machine.cells and cpus <= machine.cpus_per_cell and memory <= machine.memory_gib_per_cell


def _warning(instance: Instance, machines: list[str]) -> Diagnostic:
    named = ", ".join(machines[:MOST_NAMED])
    more = f" and {len(machines) - MOST_NAMED} more" if len(machines) > MOST_NAMED else ""
    return instance.problem(
        Problem(
            (),
            "machine-smaller-than-what-stands-on-it",
            f"With these figures {named}{more} of {instance.address} cannot hold the VMs that stand there. "
            "They stay and are counted; the machine takes no new VM until there is room again.",
            Severity.WARNING,
        )
    )
