"""Hints of plain VMs and groups of VNFCs: be with, or away from, machines or racks."""

from __future__ import annotations

from nexusform.scheduling.racks.layout import Figure, Layout, Usage
from nexusform.scheduling.racks.rule import DemandFilter, Item, Key, Refuse, Scene
from nexusform.scheduling.racks.vms import Demand, Hint, HintScope, Interval


def violated(hint: Hint, machine: str, rack: str) -> bool:
    """Whether standing on this machine goes against the hint. Its scope says which names count."""
    meets = machine in hint.machines if hint.scope is HintScope.MACHINE else rack in hint.racks
    return meets is not hint.affinity


def sentence(hint: Hint) -> str:
    """What the hint asks for, for people."""
    place = "machine" if hint.scope is HintScope.MACHINE else "rack"
    strength = "hard" if hint.hard else "soft"
    side = "on the same" if hint.affinity else "not on the same"
    return f"{strength} hint: {side} {place} as {hint.target}"


def _hard(demand: Demand) -> tuple[Hint, ...]:
    """The hints that a VM must obey."""
    hints = demand.terms.hints
    return tuple([hint for hint in hints if hint.hard]) if hints else ()


def _soft(demand: Demand, scope: HintScope) -> tuple[Hint, ...]:
    """The hints over machines, or over racks, that only rank."""
    return tuple([hint for hint in demand.hints if not hint.hard and hint.scope is scope])


def _opens(layout: Layout, demand: Demand) -> Refuse:
    """The refusals of the hard hints, by the number of a machine."""
    hard = _hard(demand)

    def refuse(number: int) -> str | None:
        machine = layout.machines[number]
        for hint in hard:
            if violated(hint, machine.name, machine.rack):
                return sentence(hint)
        return None

    return refuse


def _violated_by_rack(usage: Usage, demand: Demand) -> Figure | None:
    """How many soft hints a rack goes against, by its number; None where there are none."""
    if not demand.terms.hints:
        return None
    soft = _soft(demand, HintScope.RACK)
    names = usage.layout.rack_name
    return (lambda rack: sum(violated(hint, "", names[rack]) for hint in soft)) if soft else None


def _violated_by_machine(usage: Usage, demand: Demand) -> Figure | None:
    """How many soft hints a machine goes against, by its number; None where there are none."""
    if not demand.terms.hints:
        return None
    soft = _soft(demand, HintScope.MACHINE)
    machines = usage.layout.machines
    return (lambda number: sum(violated(hint, machines[number].name, "") for hint in soft)) if soft else None


def _words(_demand: Demand, count: int) -> str:
    return f"{count} soft hints violated" if count else ""


def _count(demand: Demand, left: Interval, _before: Interval) -> str:
    return f"{len(demand.hints)} leave {left}" if demand.hints else ""


def _no_machine(scene: Scene) -> str:
    texts = dict.fromkeys(sentence(hint) for hint in _hard(scene.demand))
    return "Hard placement hints refuse every machine that has room: " + "; ".join(texts) + "."


FILTER = DemandFilter(
    name="hints",
    item=Item.MACHINE,
    reads=lambda demand: _hard(demand) or None,
    opens=_opens,
    sentence=_no_machine,
    line="  hints",
    count=_count,
)
OF_RACK = Key(rule="hints", opens=_violated_by_rack, words=_words)
OF_MACHINE = Key(rule="hints", opens=_violated_by_machine, words=_words)
