"""Schedulable: a machine takes new VMs only if its state allows it."""

from __future__ import annotations

from collections import Counter

from nexusform.scheduling.racks.rule import MachineFilter, ShortageContext
from nexusform.scheduling.racks.rules.zones import describe_zones
from nexusform.scheduling.racks.vms import Demand, Interval, Machine


def find_rejection(machine: Machine) -> str | None:
    """Return the reason why the machine takes no new VMs ("cordoned", ...), or None."""
    return machine.unschedulable_reason or None


def _describe_remaining(_demand: Demand, remaining: Interval, before: Interval) -> str:
    return f"{remaining} take new VMs" if remaining != before else ""


def _describe_shortage(context: ShortageContext) -> str:
    reason_counts = Counter(context.layout.machines[number].unschedulable_reason for number in context.machines)
    most_first = sorted(reason_counts.items(), key=lambda item: (-item[1], item[0]))
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in most_first)
    machines = len(context.machines)
    return f"None of the {machines:,} machines on the site ({describe_zones(context.demand)}) takes new VMs: {reasons}."


FILTER = MachineFilter(
    name="schedulable",
    find_rejection=find_rejection,
    describe_shortage=_describe_shortage,
    binding="not_schedulable",
    line="1 fits",
    describe_remaining=_describe_remaining,
)
