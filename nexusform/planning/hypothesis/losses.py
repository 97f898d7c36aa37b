"""Kinds of losses that a hypothetical plan can assume: `lost:KIND/NAME`.

A new kind is a `LossKind` in a module of its own, and a line in the table below. A domain names its
kinds in `domain_table.py`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from nexusform.domain_table import LazyTable, collect_loaders
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.planning.edits import Edit, LostMachines, VmReplacement


class LossKind(Struct, frozen=True):
    """Kind of a loss: `syntax` is its form, `list_edits` the edits by name of each object.

    `list_edits(before)` reads the plan without the loss. An object may have several names. `noun`
    names such an object in messages.
    """

    noun: str
    syntax: str
    list_edits: Callable[[PlanResult], Mapping[str, Sequence[Edit]]]


def _list_rack_edits(before: PlanResult) -> Mapping[str, Sequence[Edit]]:
    """Return the loss of each rack with machines, by SITE/RACK."""
    edits: dict[str, Sequence[Edit]] = {}
    for site in before.sites.values():
        racks: dict[str, list[str]] = {}
        for machine in site.machines.values():
            racks.setdefault(machine.rack, []).append(machine.name)
        for rack, machines in racks.items():
            edits[f"{site.id}/{rack}"] = (LostMachines(site.id, tuple(machines)),)
    return edits


def _list_machine_edits(before: PlanResult) -> Mapping[str, Sequence[Edit]]:
    """Return the loss of each machine, by SITE/MACHINE and by its id SITE/RACK/MACHINE."""
    edits: dict[str, Sequence[Edit]] = {}
    for site in before.sites.values():
        for machine in site.machines.values():
            loss = (LostMachines(site.id, (machine.name,)),)
            edits[f"{site.id}/{machine.name}"] = loss
            edits[f"{site.id}/{machine.rack}/{machine.name}"] = loss
    return edits


def _list_node_edits(before: PlanResult) -> Mapping[str, Sequence[Edit]]:
    """Return the loss of each existing VM, by CLUSTER/NODE and by SITE/CLUSTER/NODE.

    The platform re-creates a lost node by the placement rule, as `-replace` does.
    """
    edits: dict[str, Sequence[Edit]] = {}
    ambiguous: set[str] = set()
    for address, vm_object in before.objects.items():
        demand = vm_object.prior.demand
        for vm in vm_object.prior.existing.values():
            loss = (VmReplacement(f"{address}:{vm.name}"),)
            for name in vm.names:
                short_name = f"{demand.cluster}/{name}"
                if short_name in edits:
                    ambiguous.add(short_name)
                edits[short_name] = loss
                edits[f"{demand.site_id}/{short_name}"] = loss
    # Clusters of two sites have the same name: only the longer name is unique.
    return {name: loss for name, loss in edits.items() if name not in ambiguous}


RACK: Final = LossKind("rack", "SITE/RACK", _list_rack_edits)
MACHINE: Final = LossKind("machine", "SITE/MACHINE", _list_machine_edits)
NODE: Final = LossKind("node", "CLUSTER/NODE", _list_node_edits)

_KINDS: Final[Mapping[str, Callable[[], LossKind]]] = {
    "rack": lambda: RACK,
    "machine": lambda: MACHINE,
    "node": lambda: NODE,
}


def list_loss_kinds() -> Mapping[str, LossKind]:
    """Return the kinds of losses by their word in `lost:KIND/NAME`, those of domains last."""
    return LazyTable({**_KINDS, **collect_loaders("losses")})
