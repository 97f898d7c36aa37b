"""Hints of plain VMs (outside of clusters and VNFs) and groups of VNFCs.

They request affinity to machines or racks, or anti-affinity.
"""

from nexusform.scheduling.racks.layout import Figure, NumberedSite, Usage
from nexusform.scheduling.racks.rule import (
    DemandFilter,
    RankedItemKind,
    RankingKey,
    RejectionCheck,
    ShortageContext,
)
from nexusform.scheduling.racks.vms import Demand, Hint, HintScope, Interval


def is_hint_violated(hint: Hint, machine: str, rack: str) -> bool:
    """Return whether a machine violates the hint.

    By its name, or for a hint over racks by its rack.
    """
    is_target = machine in hint.machines if hint.scope is HintScope.MACHINE else rack in hint.racks
    return is_target is not hint.is_affinity


def describe_hint_requirement(hint: Hint) -> str:
    """Return the requirement of the hint: `hard hint: not on the same rack as web-0`."""
    scope = "machine" if hint.scope is HintScope.MACHINE else "rack"
    strength = "hard" if hint.is_hard else "soft"
    side = "on the same" if hint.is_affinity else "not on the same"
    return f"{strength} hint: {side} {scope} as {hint.target}"


def _list_hard_hints(demand: Demand) -> tuple[Hint, ...]:
    """Return the mandatory hints of a VM."""
    return tuple([hint for hint in demand.constraints.hints if hint.is_hard])


def _list_soft_hints(demand: Demand, scope: HintScope) -> tuple[Hint, ...]:
    """Return the soft hints over machines, or over racks: they rank candidates and reject none."""
    return tuple(
        [hint for hint in demand.constraints.hints if hint.scope is scope and not hint.is_hard]
    )


def _build_hard_hint_check(layout: NumberedSite, demand: Demand) -> RejectionCheck:
    """Build the check of the hard hints, by machine number."""
    hard_hints = _list_hard_hints(demand)

    def find_rejection(number: int) -> str | None:
        machine = layout.machines[number]
        for hint in hard_hints:
            if is_hint_violated(hint, machine.name, machine.rack):
                return describe_hint_requirement(hint)
        return None

    return find_rejection


def _build_rack_figures(usage: Usage, demand: Demand) -> Figure | None:
    """Build the number of soft hints violated by a rack, by rack number; None without hints."""
    soft_hints = _list_soft_hints(demand, HintScope.RACK)
    if not soft_hints:
        return None
    names = usage.layout.rack_name
    return lambda rack: sum(
        is_hint_violated(hint, machine="", rack=names[rack]) for hint in soft_hints
    )


def _build_machine_figures(usage: Usage, demand: Demand) -> Figure | None:
    """Build the number of soft hints violated by a machine, by machine number.

    Return None without hints.
    """
    soft_hints = _list_soft_hints(demand, HintScope.MACHINE)
    if not soft_hints:
        return None
    machines = usage.layout.machines
    return lambda number: sum(
        is_hint_violated(hint, machines[number].name, rack="") for hint in soft_hints
    )


def _describe_violated_hints(_demand: Demand, count: int) -> str:
    return f"{count} soft hints violated" if count else ""


def _describe_machines_meeting_hints(demand: Demand, remaining: Interval, _before: Interval) -> str:
    # The text has the hints and machines: "2 leave 12".
    return f"{len(demand.hints)} leave {remaining}" if demand.hints else ""


def _describe_shortage(context: ShortageContext) -> str:
    texts = dict.fromkeys(
        describe_hint_requirement(hint) for hint in _list_hard_hints(context.demand)
    )
    return (
        "Hard placement hints reject every machine with enough capacity: " + "; ".join(texts) + "."
    )


FILTER = DemandFilter(
    name="hints",
    item=RankedItemKind.MACHINE,
    select_input=lambda demand: _list_hard_hints(demand) or None,
    build_check=_build_hard_hint_check,
    describe_shortage=_describe_shortage,
    line="  hints",
    describe_remaining=_describe_machines_meeting_hints,
)
RACK_KEY = RankingKey(
    rule="hints", build_figures=_build_rack_figures, describe=_describe_violated_hints
)
MACHINE_KEY = RankingKey(
    rule="hints", build_figures=_build_machine_figures, describe=_describe_violated_hints
)
