"""Machines and racks by number, in the order given: what does not change while VMs come and go."""

from __future__ import annotations

from collections.abc import Sequence

from nexusform.scheduling.racks.model import Machine


class Layout:
    """One site. Machines and racks are numbers from 0; every list is indexed by one of the two."""

    __slots__ = (
        "index",
        "machine_names",
        "machines",
        "machines_in",
        "rack_index",
        "rack_name",
        "rack_names",
        "rack_of",
        "rack_zone",
    )

    def __init__(self, machines: Sequence[Machine]) -> None:
        self.machines = tuple(machines)
        self.index = {machine.name: number for number, machine in enumerate(self.machines)}
        self.rack_index: dict[str, int] = {}
        self.rack_name: list[str] = []
        self.rack_zone: list[str] = []
        self.rack_of: list[int] = []
        self.machines_in: list[list[int]] = []
        for number, machine in enumerate(self.machines):
            self._add(number, machine)
        # As the tie-break digests them.
        self.machine_names = [machine.name.encode() for machine in self.machines]
        self.rack_names = [name.encode() for name in self.rack_name]

    def _add(self, number: int, machine: Machine) -> None:
        rack = self.rack_index.get(machine.rack)
        if rack is None:
            rack = self.rack_index[machine.rack] = len(self.rack_name)
            self.rack_name.append(machine.rack)
            self.rack_zone.append(machine.availability_zone)
            self.machines_in.append([])
        self.rack_of.append(rack)
        self.machines_in[rack].append(number)
