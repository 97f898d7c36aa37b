"""Schedulable: a machine takes new VMs only when its state allows it."""

from __future__ import annotations

from collections import Counter

from nexusform.scheduling.racks.rule import MachineFilter, Scene
from nexusform.scheduling.racks.rules.zones import where
from nexusform.scheduling.racks.vms import Demand, Interval, Machine


def refuse(machine: Machine) -> str | None:
    """The machine's own refusal ("cordoned", ...); None when it takes new VMs."""
    return machine.refusal or None


def _count(_demand: Demand, left: Interval, before: Interval) -> str:
    return f"{left} take new VMs" if left != before else ""


def _sentence(scene: Scene) -> str:
    refusals = Counter(scene.layout.machines[number].refusal for number in scene.machines)
    most_first = sorted(refusals.items(), key=lambda item: (-item[1], item[0]))
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in most_first)
    machines = len(scene.machines)
    return f"None of the {machines:,} machines on the site ({where(scene.demand)}) takes new VMs: {reasons}."


FILTER = MachineFilter(
    name="schedulable",
    refuse=refuse,
    sentence=_sentence,
    binding="not_schedulable",
    line="1 fits",
    count=_count,
)
