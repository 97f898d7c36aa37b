"""How many VMs each VDU of a VNF has at a given size, and what rules say about that many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from nexusform.diagnostics import Problem, did_you_mean
from nexusform.importers.vnf_model import MACHINE, RACK, SCOPES, SITE, Level, Rule, Vnf


class Clamped(Struct, frozen=True):
    """A VDU that would leave the bounds of its profile: what was asked for, and the bound that was taken."""

    vdu: str
    asked: int
    taken: int


class Counts(Struct, frozen=True):
    """VMs per VDU, and what was cut to the bounds of its profile."""

    numbers: Mapping[str, int]
    clamped: tuple[Clamped, ...] = ()


class Unmet(Struct, frozen=True):
    """A rule that so many VMs cannot meet: room for `room` of `vms`; `against` conflicts with it."""

    rule: Rule
    vms: int
    room: int
    against: Rule | None = None


def size_problems(vnf: Vnf, level: str, scale_levels: Mapping[str, int]) -> list[Problem]:
    """Levels and aspects that the documents do not have, and scale levels beyond their largest."""
    problems = []
    names = [known.name for known in vnf.levels]
    if level and level not in names:
        listed = f" There are: {', '.join(names)}." if names else " The documents describe none."
        problems.append(
            Problem(
                ("instantiation_level",),
                "unknown-size-of-the-vnf",
                f'There is no instantiation level "{level}".{did_you_mean(level, names)}{listed}',
            )
        )
    aspects = {aspect.name: aspect for aspect in vnf.aspects}
    for name, scale_level in scale_levels.items():
        aspect = aspects.get(name)
        if aspect is None:
            listed = f" There are: {', '.join(aspects)}." if aspects else " The documents describe none."
            problems.append(
                Problem(
                    ("scale_levels", name),
                    "invalid-scale-level",
                    f'There is no scaling aspect "{name}".{did_you_mean(name, aspects)}{listed}',
                )
            )
        elif not 0 <= scale_level <= aspect.max_level:
            problems.append(
                Problem(
                    ("scale_levels", name),
                    "invalid-scale-level",
                    f'The aspect "{name}" has the levels 0 to {aspect.max_level} ({aspect.origin}), not '
                    f"{scale_level}.",
                )
            )
    return problems


def counts(vnf: Vnf, level: str = "", scale_levels: Mapping[str, int] | None = None) -> Counts:
    """VMs per VDU at an instantiation level ("" = the default one), some aspects at levels of their own."""
    chosen = _level(vnf, level)
    base = chosen.scale_levels if chosen is not None else {}
    scale = {**base, **(scale_levels or {})}
    numbers = {}
    clamped = []
    for vdu in vnf.vdus:
        at_base = vdu.initial + sum(_added(vnf, vdu.name, base))
        size = chosen.sizes.get(vdu.name) if chosen is not None else None
        start = at_base if size is None else size
        asked = start + sum(_added(vnf, vdu.name, scale)) - sum(_added(vnf, vdu.name, base))
        taken = max(asked, vdu.minimum, 0)
        if vdu.maximum is not None:
            taken = min(taken, vdu.maximum)
        if taken != asked:
            clamped.append(Clamped(vdu.name, asked, taken))
        numbers[vdu.name] = taken
    return Counts(numbers, tuple(clamped))


def largest(vnf: Vnf, level: str = "") -> Counts:
    """VMs per VDU with every aspect at its largest level."""
    return counts(vnf, level, {aspect.name: aspect.max_level for aspect in vnf.aspects})


def _level(vnf: Vnf, name: str) -> Level | None:
    level_name = name or vnf.default_level
    return next((known for known in vnf.levels if known.name == level_name), None)


def _added(vnf: Vnf, vdu: str, levels: Mapping[str, int]) -> Iterator[int]:
    for aspect in vnf.aspects:
        for steps in aspect.steps:
            if steps.vdu == vdu:
                yield steps.total(min(levels.get(aspect.name, 0), aspect.max_level))


# --- rules against numbers ---------------------------------------------------------------------


def unmet(vnf: Vnf, numbers: Mapping[str, int], machines: int, racks: int) -> list[Unmet]:
    """The hard rules that so many VMs cannot meet on a site of so many machines and racks."""
    room = {MACHINE: machines, RACK: racks, SITE: 1}
    unmet_rules = []
    hard = [rule for rule in vnf.rules if rule.hard]
    keeping_apart = [rule for rule in hard if not rule.affinity]
    keeping_together = [rule for rule in hard if rule.affinity]
    for rule in keeping_apart:
        vms = sum(numbers.get(vdu, 0) for vdu in rule.vdus)
        most = room[rule.scope] * rule.most
        if vms > max(most, 1):
            unmet_rules.append(Unmet(rule, vms, most))
    for apart in keeping_apart:
        for together in keeping_together:
            if _conflict(apart, together, numbers):
                shared = sum(numbers.get(v, 0) for v in apart.vdus if v in together.vdus)
                unmet_rules.append(Unmet(apart, shared, apart.most, together))
    return unmet_rules


def _conflict(apart: Rule, together: Rule, numbers: Mapping[str, int]) -> bool:
    """Whether VMs must be in one place of a scope that keeps them apart."""
    narrower = SCOPES.index(together.scope) <= SCOPES.index(apart.scope)
    shared = sum(numbers.get(vdu, 0) for vdu in apart.vdus if vdu in together.vdus)
    return narrower and shared > apart.most
