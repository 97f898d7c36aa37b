"""Why a VM fits nowhere: the filter that refused the last machines, and its sentence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from nexusform.scheduling.racks import opened
from nexusform.scheduling.racks.ledger import Ledger
from nexusform.scheduling.racks.model import Demand
from nexusform.scheduling.racks.rooms import Room
from nexusform.scheduling.racks.rule import Filter, HousedVm, Refuse
from nexusform.scheduling.racks.site import Site

NO_MACHINE: Final = "no_machine"


class Shortage(Struct, frozen=True):
    """Why nothing fits: the binding constraint in a word, for programs, and in sentences, for people."""

    demand: Demand
    binding: str
    reason: str


class _Scene:
    """As rule.Scene says; `machines` shrinks as the filters take their turn."""

    def __init__(self, ledger: Ledger, demand: Demand) -> None:
        self.demand = demand
        self.here = list(range(len(ledger.site.machines)))
        self.machines = self.here
        self._ledger = ledger
        self._steps = ledger.site.shape(demand.sku).steps

    @property
    def layout(self) -> Site:
        return self._ledger.site

    def room(self, machine: int) -> Room:
        return self._ledger.site.rooms.free(self._ledger.rooms[machine])

    def holds_when_empty(self, machine: int) -> bool:
        site = self._ledger.site
        return site.is_open[machine] and self._steps[site.start_rooms[machine]] is not None

    def vms(self) -> Iterator[HousedVm]:
        site = self._ledger.site
        for _, record in self._ledger.vms():
            sku = site.shapes[record.shape].sku
            yield HousedVm(site.pools[record.pool], sku, record.machine, site.rooms.cells(record.cells))


def find_shortage(ledger: Ledger, demand: Demand) -> Shortage:
    """Ask the filters once more and note which of them refused the last machines.

    What the demand says of racks comes first: reasons and figures are about the racks that it asks for.
    """
    scene = _Scene(ledger, demand)
    usage = ledger.usage(demand.vm.owner, demand.vm.pool)
    asked = opened.refusals_by_machine(ledger, usage, demand)
    chosen = [(rule, refuse) for rule, refuse in asked if opened.chooses_racks(rule)]
    shortage = _first_short(scene, chosen)
    if shortage is not None:
        return shortage
    scene.here = scene.machines
    if not scene.here:
        return Shortage(demand, NO_MACHINE, "There is no machine on the site.")
    others = [(rule, refuse) for rule, refuse in asked if not opened.chooses_racks(rule)]
    shortage = _first_short(scene, others)
    assert shortage is not None, "a machine passes every filter"
    return shortage


def _first_short(scene: _Scene, asked: list[tuple[Filter, Refuse | None]]) -> Shortage | None:
    for rule, refuse in asked:
        if refuse is None:
            continue
        left = [machine for machine in scene.machines if refuse(machine) is None]
        if not left:
            return Shortage(scene.demand, rule.binding or rule.name, rule.sentence(scene))
        scene.machines = left
    return None
