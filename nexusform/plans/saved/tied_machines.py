"""Tied machines of pools, as sets of classes of machines that a plan file stores once per site.

The rule allows any set of the machines of a site for the VMs of a pool. Hundreds of pools have such
a set each. Machines in the same sets are a class, and a set is a number with a bit per class.
Pools that are placed one after the other have similar sets. So a set is stored as its difference to
one of the sets before it.
"""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from typing import Final, TypeAlias

from msgspec.structs import replace

from nexusform.plans.plan import PlacementTable, Plan, SiteTies

_Names: TypeAlias = tuple[str, ...]

# More of them make a file a few percent smaller and take more time.
_MAX_DISTANCE: Final = 32


def replace_ties_by_sets(plan: Plan) -> Plan:
    """Return the plan with numbers of sets instead of classes or names of machines in its tables.

    An errored plan keeps neither, because nothing applies it.
    """
    if not any(
        table.tied_machines or table.tied_classes for table in plan.figures.placement_tables
    ):
        return plan
    plan = _replace_names_by_classes(plan)
    # By site: the number of each set, in the order of the tables.
    set_numbers: dict[str, dict[int, int]] = {}
    tables: list[PlacementTable] = []
    for table in plan.figures.placement_tables:
        tied_set = -1
        if table.tied_classes and not plan.errored:
            numbers = set_numbers.setdefault(table.site_id, {})
            tied_set = numbers.setdefault(int(table.tied_classes, 16), len(numbers))
        tables.append(replace(table, tied_classes="", tied_set=tied_set))
    ties_by_site = {ties.site_id: ties for ties in plan.figures.site_ties}
    site_ties = tuple(
        _join_classes(ties_by_site[site_id], tuple(numbers))
        for site_id, numbers in set_numbers.items()
    )
    return replace(
        plan, figures=replace(plan.figures, placement_tables=tuple(tables), site_ties=site_ties)
    )


def _replace_names_by_classes(plan: Plan) -> Plan:
    """Return a plan of an earlier version with a class per machine instead of names."""
    if not any(table.tied_machines for table in plan.figures.placement_tables):
        return plan
    # By site: the number of each machine, in site order.
    numbers_by_site: dict[str, dict[str, int]] = {}
    for site in plan.site_records.sites:
        names = (machine.facts.name for machine in site.machines)
        numbers_by_site[site.id] = {name: number for number, name in enumerate(names)}
    tables: list[PlacementTable] = []
    for table in plan.figures.placement_tables:
        numbers = numbers_by_site.setdefault(table.site_id, {})
        classes = 0
        for name in table.tied_machines:
            classes |= 1 << numbers.setdefault(name, len(numbers))
        tied_classes = f"{classes:x}" if classes else ""
        tables.append(replace(table, tied_machines=(), tied_classes=tied_classes))
    site_ties = tuple(
        SiteTies(site_id, tuple(numbers), tuple(numbers.values()))
        for site_id, numbers in numbers_by_site.items()
    )
    return replace(
        plan, figures=replace(plan.figures, placement_tables=tuple(tables), site_ties=site_ties)
    )


def _join_classes(ties: SiteTies, sets: Sequence[int]) -> SiteTies:
    """Return the machines in any of these sets of classes, with one class for the same sets.

    Machines are in site order, and classes in the order of their first machine.
    """
    width = ties.class_count
    # Of each class a digit per set: 1 if it is a member. The last class has the first digits.
    digits_by_set = [f"{members:0{width}b}" for members in sets]
    memberships = ["".join(digits) for digits in zip(*digits_by_set, strict=True)]
    memberships.reverse()
    machines: list[str] = []
    classes: list[int] = []
    numbers: dict[str, int] = {}
    for machine, number in zip(ties.machines, ties.classes, strict=True):
        membership = memberships[number]
        if "1" in membership:
            machines.append(machine)
            classes.append(numbers.setdefault(membership, len(numbers)))
    joined_sets = [int("".join(digits), 2) for digits in zip(*reversed(numbers), strict=True)]
    return SiteTies(ties.site_id, tuple(machines), tuple(classes), tuple(_write_sets(joined_sets)))


def _write_sets(sets: Sequence[int]) -> list[str]:
    """Return each set as its distance to a similar earlier one, a colon, and their difference.

    Distance 0 is the empty set.
    """
    texts: list[str] = []
    for position, members in enumerate(sets):
        candidates = [0, *reversed(sets[max(0, position - _MAX_DISTANCE) : position])]
        differences = [members ^ candidate for candidate in candidates]
        distance = min(range(len(differences)), key=lambda index: differences[index].bit_count())
        texts.append(f"{distance}:{_write_bits(differences[distance])}")
    return texts


def _read_sets(texts: Sequence[str], class_count: int) -> list[int]:
    """Return the sets of classes in texts of `_write_sets`. Raises ValueError for other texts."""
    sets: list[int] = []
    for text in texts:
        distance_text, _, bits = text.partition(":")
        distance = int(distance_text)
        if not 0 <= distance <= len(sets):
            raise ValueError(f"no set {distance} before set {len(sets)}")
        reference = sets[-distance] if distance else 0
        sets.append(reference ^ _read_bits(bits, class_count))
    return sets


def _write_bits(number: int) -> str:
    """Return the gaps between the bits of a number as a Golomb-Rice code.

    A gap is the quotient by a power of 2 in ones, a zero, and the rest in as many digits as the
    first character of the text says. The others are the code after a one, in base 64.
    """
    rest_digits = max(0, (number.bit_length() // max(1, number.bit_count())).bit_length() - 1)
    digits = f"{number:b}"[::-1]
    code = ["1"]
    start = 0
    while (position := digits.find("1", start)) >= 0:
        quotient, rest = divmod(position - start, 1 << rest_digits)
        # The digits of the rest follow a one, so that none is missing.
        code.append("1" * quotient + "0" + f"{rest + (1 << rest_digits):b}"[1:])
        start = position + 1
    value = int("".join(code), 2)
    data = value.to_bytes((value.bit_length() + 7) // 8)
    return f"{rest_digits:x}{urlsafe_b64encode(data).decode().rstrip('=')}"


def _read_bits(text: str, bit_count: int) -> int:
    """Return the number with these gaps. Raises ValueError for another text, and more bits."""
    rest_digits = int(text[:1], 16)
    data = urlsafe_b64decode(f"{text[1:]}{'=' * (-len(text[1:]) % 4)}")
    code = f"{int.from_bytes(data):b}"
    number = 0
    next_bit = 0
    position = 1
    while position < len(code):
        zero = code.index("0", position)
        rest = code[zero + 1 : zero + 1 + rest_digits]
        next_bit += (zero - position << rest_digits) + int(f"0{rest}", 2)
        if next_bit >= bit_count:
            raise ValueError(f"no class {next_bit}")
        number |= 1 << next_bit
        next_bit += 1
        position = zero + 1 + rest_digits
    if position != len(code):
        raise ValueError("the last gap has no end")
    return number


def has_valid_ties(plan: Plan) -> bool:
    """Return whether each machine in the ties of a plan has a class, and each class and set exists.

    Ties in the forms of earlier versions are valid, too.
    """
    class_counts: dict[str, int] = {}
    set_counts: dict[str, int] = {}
    for ties in plan.figures.site_ties:
        if len(ties.machines) != len(ties.classes) or min(ties.classes, default=0) < 0:
            return False
        class_counts[ties.site_id] = ties.class_count
        set_counts[ties.site_id] = len(ties.sets)
        try:
            _read_sets(ties.sets, ties.class_count)
        except ValueError:
            return False
    for table in plan.figures.placement_tables:
        if not -1 <= table.tied_set < set_counts.get(table.site_id, 0):
            return False
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
        """Take the sets of classes of the plan's sites."""
        self._ties = {ties.site_id: ties for ties in plan.figures.site_ties}
        self._sets = {
            ties.site_id: _read_sets(ties.sets, ties.class_count) for ties in plan.figures.site_ties
        }
        self._names: dict[tuple[str, int], _Names] = {}

    def list_machines(self, table: PlacementTable) -> _Names:
        """Return the machines that the rule allows for VMs of the pool, in site order.

        Return () after too few samples.
        """
        if table.tied_set >= 0:
            members = self._sets[table.site_id][table.tied_set]
        elif table.tied_classes:
            # As in plan files of earlier versions.
            members = int(table.tied_classes, 16)
        else:
            return table.tied_machines
        key = (table.site_id, members)
        if key not in self._names:
            ties = self._ties[table.site_id]
            # The first digit is that of class 0.
            digits = f"{members:b}"[::-1]
            self._names[key] = tuple(
                name
                for name, number in zip(ties.machines, ties.classes, strict=True)
                if digits[number : number + 1] == "1"
            )
        return self._names[key]
