"""Model of a VNF for placement, independent of its documents.

The module also computes the numbers of VMs per VDU and size, and the unmet rules.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import dropwhile, product
from typing import Final

from msgspec import Struct, field

from nexusform.diagnostics.diagnostic import Problem, Severity, suggest_name
from nexusform.doubts.doubt import Doubt

MACHINE: Final = "machine"
RACK: Final = "rack"
SITE: Final = "site"
# From the narrowest to the widest.
SCOPES: Final = (MACHINE, RACK, SITE)

# Upper bound of VMs in a VNF: larger numbers are mistakes.
MAX_INSTANCES: Final = 10_000

CORRECTED: Final = "corrected-document"
IGNORED: Final = "not-read-for-placement"
NOT_GIVEN: Final = "nested-template-not-given"
CONTRADICTORY: Final = "contradictory-documents"
WITHOUT_A_NUMBER: Final = "unknown-server-count"
INVALID_DOCUMENT: Final = "invalid-vnf-document"
SMALL_MINIMUM: Final = "anti-affinity-below-two-instances"


class Origin(Struct, frozen=True):
    """Source of a declaration: the document and the line.

    The document is `vnfd`, `base_hot` or `nested["x.yaml"]`.
    """

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class VduSize(Struct, frozen=True):
    """Size of one VM: vCPUs, GiB of memory (in whole MiB) and GiB of local disk.

    None means unspecified.
    """

    vcpus: int | None = None
    memory_gib: float | None = None
    disk_gib: int | None = None


class Vdu(Struct, frozen=True):
    """Kind of VM.

    `initial` is its number at scale level 0; `maximum` None means unbounded. `has_count` and
    `has_bounds` are true if the document gives the number, and the bounds. Two fields are for the
    labels of Tacker's management driver: with `has_anti_affinity`, it is in a server group of the
    whole VNF with the exact policy anti-affinity; with `has_scheduler_hints`, its scaling group
    passes scheduler_hints to its servers. `flavor` is the name of its flavor in the cloud, `image`
    the one of its image; "" if unspecified, like the requested `availability_zone` and `host` of
    Nova. With `boots_from_volume` its root disk is a volume. `unknown_flavor` and `unknown_image`
    are the facts of those without a known value. `missing_template` is the nested template in which
    its server would be, "" if none is missing. Heat starts its servers after those of the
    `awaited` VDUs. `local_disks` are requested GiB of ephemeral disk and MiB of swap. `capability`
    is the one that a VNFD requests: Tacker takes it as the flavor. With `is_count_fixed` a HOT file
    has the number itself, no parameter.
    """

    name: str
    origin: Origin
    size: VduSize = VduSize()
    minimum: int = 0
    maximum: int | None = None
    initial: int = 1
    has_count: bool = True
    has_bounds: bool = True
    has_anti_affinity: bool = False
    has_scheduler_hints: bool = False
    flavor: str = ""
    image: str = ""
    availability_zone: str = ""
    host: str = ""
    boots_from_volume: bool = False
    missing_template: str = ""
    unknown_flavor: Doubt | None = None
    unknown_image: Doubt | None = None
    awaited: tuple[str, ...] = ()
    local_disks: tuple[int, int] = (0, 0)
    capability: str = ""
    is_count_fixed: bool = False


class PlacementRule(Struct, frozen=True):
    """Rule for all VMs of `vdus`.

    They run together (`is_affinity`) or apart, in one `scope` ("machine", "rack",
    "site"). Under anti-affinity at most `max_per_location` of them share a location.
    `label` is the configured scope.
    """

    name: str
    is_affinity: bool
    is_hard: bool
    scope: str
    vdus: tuple[str, ...]
    origin: Origin
    max_per_location: int = 1
    label: str = ""


class VduScaleSteps(Struct, frozen=True):
    """VMs of one VDU added per scale level; the last step repeats."""

    vdu: str
    increments: tuple[int, ...]

    def sum_increments(self, level: int) -> int:
        """Return the number of VMs added up to and including this level.

        The last increment repeats beyond the list.
        """
        repeated_levels = max(level - len(self.increments), 0)
        return sum(self.increments[: max(level, 0)]) + sum(self.increments[-1:]) * repeated_levels


class ScalingAspect(Struct, frozen=True):
    """Scaling aspect: levels 0..max_level, and the VMs added to each VDU."""

    name: str
    max_level: int
    steps: tuple[VduScaleSteps, ...]
    origin: Origin


class InstantiationLevel(Struct, frozen=True):
    """Instantiation level: the scale level of each aspect, and the explicit sizes of VDUs."""

    name: str
    scale_levels: Mapping[str, int]
    sizes: Mapping[str, int]
    origin: Origin

    def __hash__(self) -> int:
        return hash((self.name, self.origin))


_NO_LEVEL: Final = InstantiationLevel("", {}, {}, Origin(file="", line=0))


class Vnf(Struct, frozen=True):
    """Placement data of a VNF.

    VDUs in source order. `descriptor_id` belongs to the VNFD, "" without one.
    """

    vdus: tuple[Vdu, ...] = ()
    rules: tuple[PlacementRule, ...] = ()
    aspects: tuple[ScalingAspect, ...] = ()
    levels: tuple[InstantiationLevel, ...] = ()
    default_level: str = ""
    descriptor_id: str = ""

    def find_level(self, name: object) -> InstantiationLevel:
        """Return an instantiation level by name.

        The default for "" or None, an empty level for an unknown name.
        """
        levels = {level.name: level for level in self.levels}
        return levels.get(str(name or self.default_level), _NO_LEVEL)

    def find_vdu(self, name: str) -> Vdu | None:
        """Return a VDU by name."""
        return {vdu.name: vdu for vdu in self.vdus}.get(name)


class VnfSourceDocuments(Struct, frozen=True):
    """Texts of the documents; `nested` by file name.

    `parameters` are plain data.
    """

    vnfd: str | None = None
    base_hot: str | None = None
    nested: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, object] = field(default_factory=dict)
    flavour_id: str = ""


class ClampedCount(Struct, frozen=True):
    """Number of VMs limited by the bounds of the VDU's profile.

    `requested` is the number before the limit, and `applied` the number after it.
    """

    vdu: str
    requested: int
    applied: int


class VduVmCounts(Struct, frozen=True):
    """VMs per VDU, and the numbers limited by profile bounds."""

    numbers: Mapping[str, int]
    clamped_counts: tuple[ClampedCount, ...] = ()


class UnmetRule(Struct, frozen=True):
    """Rule violated by a number of VMs: only `capacity` of `vm_count` fit.

    `conflicting_rule` contradicts it.
    """

    rule: PlacementRule
    vm_count: int
    capacity: int
    conflicting_rule: PlacementRule | None = None


def is_valid_vdu_name(name: str) -> bool:
    """Return whether keys of VMs can hold the name: they use "|" and "/" as separators."""
    return name != "" and {"|", "/"}.isdisjoint(name)


def list_size_problems(
    vnf: Vnf, level: str | None, scale_levels: Mapping[str, int]
) -> list[Problem]:
    """Return problems with levels and aspects.

    They are unknown ones, and scale levels above their maximum.
    """
    problems = []
    level_names = [known_level.name for known_level in vnf.levels]
    if level and level not in level_names:
        detail = (
            f'The instantiation level "{level}" does not '
            f"exist.{_format_known_names(level, level_names)}"
        )
        problems.append(Problem(("instantiation_level",), "unknown-vnf-size", detail))
    aspects = {aspect.name: aspect for aspect in vnf.aspects}
    for name, scale_level in scale_levels.items():
        aspect = aspects.get(name)
        if aspect is None:
            detail = (
                f'The scaling aspect "{name}" does not exist.{_format_known_names(name, aspects)}'
            )
        elif not 0 <= scale_level <= aspect.max_level:
            range_text = f"the levels 0 to {aspect.max_level} ({aspect.origin})"
            detail = f'The aspect "{name}" has {range_text}, not {scale_level}.'
        else:
            continue
        problems.append(Problem(("scale_levels", name), "invalid-scale-level", detail))
    return problems


def _format_known_names(name: str, names: Collection[str]) -> str:
    names_text = f"Known names: {', '.join(names)}." if names else "The documents define none."
    return f"{suggest_name(name, names)} {names_text}"


def compute_vdu_counts(
    vnf: Vnf, level: object = "", scale_levels: Mapping[str, int] = {}
) -> VduVmCounts:
    """Return the VMs per VDU at an instantiation level, with overridden scale levels.

    A `level` of "" or None is the default one. The numbers of a level are those at its own scale
    levels. An overridden scale level adds the VMs of the steps above, or removes those of the steps
    below. The bounds of a VDU limit the result.
    """
    selected_level = vnf.find_level(level)
    base_levels = selected_level.scale_levels
    effective_levels = {**base_levels, **scale_levels}
    numbers = {}
    clamped_counts = []
    for vdu in vnf.vdus:
        base_increment = sum(_list_scale_increments(vnf, vdu.name, base_levels))
        base_count = selected_level.sizes.get(
            vdu.name, vdu.initial + base_increment
        )  # at `base_levels`
        requested = (
            base_count
            + sum(_list_scale_increments(vnf, vdu.name, effective_levels))
            - base_increment
        )
        applied = max(requested, vdu.minimum, 0)
        if vdu.maximum is not None:
            applied = min(applied, vdu.maximum)
        if applied != requested:
            clamped_counts.append(ClampedCount(vdu.name, requested, applied))
        numbers[vdu.name] = applied
    return VduVmCounts(numbers, tuple(clamped_counts))


def compute_maximum_counts(vnf: Vnf, level: object = "") -> VduVmCounts:
    """Return the VMs per VDU with every aspect at its maximum level."""
    return compute_vdu_counts(vnf, level, {aspect.name: aspect.max_level for aspect in vnf.aspects})


def _list_scale_increments(vnf: Vnf, vdu: str, levels: Mapping[str, int]) -> Iterator[int]:
    """Yield the number of VMs added to a VDU by each aspect at its level.

    A missing level counts as 0, and a level above the maximum as the maximum.
    """
    for aspect in vnf.aspects:
        for steps in aspect.steps:
            if steps.vdu == vdu:
                yield steps.sum_increments(min(levels.get(aspect.name, 0), aspect.max_level))


def count_vms(vdus: Iterable[str], numbers: Mapping[str, int]) -> int:
    """Return the number of VMs of these VDUs; `numbers` has the VMs by VDU."""
    return sum(numbers.get(vdu, 0) for vdu in vdus)


def build_dropped_rule_warnings(vnf: Vnf, numbers: Mapping[str, int]) -> Iterator[Problem]:
    """Yield a warning for affinity and for anti-affinity rules of the VNFD not sent by Tacker.

    Tacker ends its list of a kind at the first rule with fewer than two VMs, so later larger rules
    have no effect. `numbers` are the VMs by VDU.
    """
    vnfd_rules = [rule for rule in vnf.rules if rule.origin.file == "vnfd"]
    for is_affinity in (True, False):
        rules = [rule for rule in vnfd_rules if rule.is_affinity == is_affinity]
        unsent = list(dropwhile(lambda rule: count_vms(rule.vdus, numbers) > 1, rules))
        dropped = [rule for rule in unsent if count_vms(rule.vdus, numbers) > 1]
        if dropped:
            small = unsent[0]
            names = ", ".join(f'"{rule.name}"' for rule in dropped)
            detail = (
                f'{small.origin}: the rule "{small.name}" has fewer than 2 VMs. Tacker then '
                "leaves all later rules of "
                f"its kind out of the grant request: {names}. Move it to the end of the policies."
            )
            yield Problem(
                ("vnfd",),
                "rules-left-out-by-tacker",
                detail,
                Severity.WARNING,
                line=small.origin.line,
            )


def find_unmet_rules(
    vnf: Vnf, numbers: Mapping[str, int], machines: int, racks: int
) -> list[UnmetRule]:
    """Return the hard anti-affinity rules violated by `numbers` on a site of this size.

    `numbers` are the VMs by VDU. A rule is violated if it has too few locations for its VMs. It is
    also violated by a hard affinity rule within its scope: this keeps more of its VMs on one
    location than allowed.
    """
    location_counts = {MACHINE: machines, RACK: racks, SITE: 1}
    unmet_rules = []
    separating_rules: list[PlacementRule] = []
    joining_rules: list[PlacementRule] = []
    for rule in vnf.rules:
        if rule.is_hard:
            rules_of_kind = joining_rules if rule.is_affinity else separating_rules
            rules_of_kind.append(rule)
    for rule in separating_rules:
        vms = count_vms(rule.vdus, numbers)
        maximum = location_counts[rule.scope] * rule.max_per_location
        # One VM violates nothing.
        if vms > max(maximum, 1):
            unmet_rules.append(UnmetRule(rule, vms, maximum))
    for rule, joining_rule in product(separating_rules, joining_rules):
        # From machine to site.
        is_within_scope = SCOPES.index(joining_rule.scope) <= SCOPES.index(rule.scope)
        shared = count_vms({*rule.vdus} & {*joining_rule.vdus}, numbers)
        if is_within_scope and shared > rule.max_per_location:
            unmet_rules.append(UnmetRule(rule, shared, rule.max_per_location, joining_rule))
    return unmet_rules
