"""Tied machines of pools, as classes of machines that a plan file stores once per site.

The rule allows any set of the machines of a site for the VMs of a pool. Hundreds of pools have such
a set each. Machines in the same sets are a class, and a set is a number with a bit per class.
"""

import re
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from msgspec.structs import replace

from nexusform.plans.plan import PlacementTable, Plan, SiteTies

_Names: TypeAlias = tuple[str, ...]


def replace_ties_by_classes(plan: Plan) -> Plan:
    """Return the plan with classes of machines instead of the names in its tables.

    An errored plan keeps neither, because nothing applies it.
    """
    if not any(table.tied_machines for table in plan.placement_tables):
        return plan
    sets_by_site: dict[str, list[_Names]] = {}
    if not plan.errored:
        for table in plan.placement_tables:
            if table.tied_machines:
                sets_by_site.setdefault(table.site_id, []).append(table.tied_machines)
    machine_order = {
        site.id: [machine.facts.name for machine in site.machines] for site in plan.sites
    }
    # By site and tied machines.
    classes: dict[tuple[str, _Names], str] = {}
    site_ties: list[SiteTies] = []
    for site_id, sets in sets_by_site.items():
        ties, classes_by_set = _classify_machines(site_id, sets, machine_order.get(site_id, ()))
        site_ties.append(ties)
        for names, text in classes_by_set.items():
            classes[site_id, names] = text
    tables = tuple(
        replace(
            table,
            tied_machines=(),
            tied_classes=classes.get((table.site_id, table.tied_machines), ""),
        )
        for table in plan.placement_tables
    )
    return replace(plan, placement_tables=tables, site_ties=tuple(site_ties))


def _classify_machines(
    site_id: str, sets: Sequence[_Names], machine_order: Iterable[str]
) -> tuple[SiteTies, dict[_Names, str]]:
    """Return the classes of the machines in sets, and the classes of each set.

    Machines are in site order, and classes in the order of their first machine.
    """
    distinct_sets = list(dict.fromkeys(sets))
    # The positions of the sets that include a machine.
    memberships: dict[str, list[int]] = {name: [] for name in machine_order}
    for position, names in enumerate(distinct_sets):
        for name in names:
            memberships.setdefault(name, []).append(position)
    machines = tuple(name for name, positions in memberships.items() if positions)
    numbers: dict[tuple[int, ...], int] = {}
    classes = tuple(numbers.setdefault(tuple(memberships[name]), len(numbers)) for name in machines)
    # The lowest bit is the last digit.
    digits = [bytearray(b"0" * len(numbers)) for _ in distinct_sets]
    for positions_of_class, number in numbers.items():
        for position in positions_of_class:
            digits[position][-1 - number] = ord("1")
    texts = {
        names: f"{int(digits[position].decode(), 2):x}"
        for position, names in enumerate(distinct_sets)
    }
    return SiteTies(site_id, machines, classes), texts


def has_valid_ties(plan: Plan) -> bool:
    """Return whether each machine in the ties of a plan has a class, and each class exists."""
    class_counts: dict[str, int] = {}
    for ties in plan.site_ties:
        if len(ties.machines) != len(ties.classes) or min(ties.classes, default=0) < 0:
            return False
        class_counts[ties.site_id] = max(ties.classes, default=-1) + 1
    for table in plan.placement_tables:
        if not table.tied_classes:
            continue
        if re.fullmatch("[0-9a-f]+", table.tied_classes) is None:
            return False
        if int(table.tied_classes, 16) >> class_counts.get(table.site_id, 0):
            return False
    return True


class TiedMachineReader:
    """Reader of the tied machines of a plan's pools, which builds the names of a set once."""

    def __init__(self, plan: Plan) -> None:
        """Take the classes of the plan's sites."""
        self._ties = {ties.site_id: ties for ties in plan.site_ties}
        self._names: dict[tuple[str, str], _Names] = {}

    def list_machines(self, table: PlacementTable) -> _Names:
        """Return the machines that the rule allows for VMs of the pool, in site order.

        Return () after too few samples.
        """
        if not table.tied_classes:
            return table.tied_machines
        ties = self._ties[table.site_id]
        key = (table.site_id, table.tied_classes)
        if key not in self._names:
            number_of_set = int(table.tied_classes, 16)
            # The first digit is that of class 0.
            digits = f"{number_of_set:b}"[::-1]
            self._names[key] = tuple(
                name
                for name, number in zip(ties.machines, ties.classes, strict=True)
                if digits[number : number + 1] == "1"
            )
        return self._names[key]
