"""A VNF as far as placement goes, whatever document it was read from (frozen); how many VMs each of its VDUs
has at a given size, and what its rules say about that many.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from msgspec import Struct, field

from nexusform.diagnostics import Problem, did_you_mean

MACHINE: Final = "machine"
RACK: Final = "rack"
SITE: Final = "site"
# From the narrowest to the widest.
SCOPES: Final = (MACHINE, RACK, SITE)

# More VMs than any VNF has: larger numbers are mistakes.
MOST_INSTANCES: Final = 10_000

CORRECTED: Final = "document-read-with-a-correction"
IGNORED: Final = "not-read-for-placement"
NOT_GIVEN: Final = "nested-template-not-given"
CONTRADICTORY: Final = "contradictory-documents"
WITHOUT_A_NUMBER: Final = "number-of-servers-without-a-value"
INVALID_DOCUMENT: Final = "invalid-vnf-document"


class Origin(Struct, frozen=True):
    """Where something was declared: the document (`vnfd`, `base_hot`, `nested["x.yaml"]`) and the line."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Size(Struct, frozen=True):
    """What one VM asks for: vCPUs, GiB of memory (in whole MiB) and GiB of local disk; None = not said."""

    vcpus: int | None = None
    memory_gib: float | None = None
    disk_gib: int | None = None


class Vdu(Struct, frozen=True):
    """One kind of VM. `initial` is its number at scale level 0; `maximum` None = unbounded. `stated` and
    `bounded`: the document gives the number, the bounds. What Tacker's management driver goes by, when it
    labels workers: `kept_apart`, in a server group of the whole VNF whose policy is exactly anti-affinity;
    `hinted`, the group that scales it hands scheduler_hints to its servers. `flavor` is the name of its
    flavor in the cloud, "" where no document gives one.
    """

    name: str
    origin: Origin
    size: Size = Size()
    minimum: int = 0
    maximum: int | None = None
    initial: int = 1
    stated: bool = True
    bounded: bool = True
    kept_apart: bool = False
    hinted: bool = False
    flavor: str = ""


class Rule(Struct, frozen=True):
    """All VMs of `vdus` together (`affinity`) or apart, in one `scope` ("machine", "rack", "site").

    Under anti-affinity at most `most` of them share a place. `label` is the scope as written.
    """

    name: str
    affinity: bool
    hard: bool
    scope: str
    vdus: tuple[str, ...]
    origin: Origin
    most: int = 1
    label: str = ""


class Steps(Struct, frozen=True):
    """How many VMs of one VDU each scale level adds; the last step repeats."""

    vdu: str
    added: tuple[int, ...]

    def total(self, level: int) -> int:
        """VMs added up to and including this level."""
        if not self.added or level <= 0:
            return 0
        return sum(self.added[:level]) + self.added[-1] * max(level - len(self.added), 0)


class Aspect(Struct, frozen=True):
    """A scaling aspect: levels 0..max_level, and what they add to each VDU."""

    name: str
    max_level: int
    steps: tuple[Steps, ...]
    origin: Origin


class Level(Struct, frozen=True):
    """An instantiation level: the scale level of each aspect, and the size of each VDU where given."""

    name: str
    scale_levels: Mapping[str, int]
    sizes: Mapping[str, int]
    origin: Origin

    def __hash__(self) -> int:
        return hash((self.name, self.origin))


class Vnf(Struct, frozen=True):
    """What the documents say about placement. VDUs in source order."""

    vdus: tuple[Vdu, ...] = ()
    rules: tuple[Rule, ...] = ()
    aspects: tuple[Aspect, ...] = ()
    levels: tuple[Level, ...] = ()
    default_level: str = ""

    def vdu(self, name: str) -> Vdu | None:
        """A VDU by name."""
        return next((v for v in self.vdus if v.name == name), None)


class VnfSources(Struct, frozen=True):
    """The texts as given; `nested` by file name. `parameters` are plain data."""

    vnfd: str | None = None
    base_hot: str | None = None
    nested: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, object] = field(default_factory=dict)
    flavour_id: str = ""


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
    levels = [known.name for known in vnf.levels]
    if level and level not in levels:
        detail = f'There is no instantiation level "{level}".{_known_names(level, levels)}'
        problems.append(Problem(("instantiation_level",), "unknown-size-of-the-vnf", detail))
    aspects = {aspect.name: aspect for aspect in vnf.aspects}
    for name, scale_level in scale_levels.items():
        aspect = aspects.get(name)
        if aspect is None:
            detail = f'There is no scaling aspect "{name}".{_known_names(name, aspects)}'
        elif not 0 <= scale_level <= aspect.max_level:
            levels_of_it = f"the levels 0 to {aspect.max_level} ({aspect.origin})"
            detail = f'The aspect "{name}" has {levels_of_it}, not {scale_level}.'
        else:
            continue
        problems.append(Problem(("scale_levels", name), "invalid-scale-level", detail))
    return problems


def _known_names(name: str, known: Collection[str]) -> str:
    """Which one may be meant, and which ones there are."""
    listed = f"There are: {', '.join(known)}." if known else "The documents describe none."
    return f"{did_you_mean(name, known)} {listed}"


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
