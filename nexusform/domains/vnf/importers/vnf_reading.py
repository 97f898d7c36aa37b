"""Reading of one VNF from a VNFD, a HOT file, or both, with their contradictions.

Numbers and sizes of the VNFD take precedence, the HOT file fills gaps. Rules of both apply; of
duplicate rules the stricter form is used.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Problem, Severity, has_errors
from nexusform.documents.yaml_documents import DocumentFindings, Node, TextPosition, build_problem
from nexusform.domains.vnf.importers.hot_servers import NOVA
from nexusform.domains.vnf.importers.hot_template import BASE_HOT, parse_hot
from nexusform.domains.vnf.importers.tosca_vnfd import parse_vnfd
from nexusform.domains.vnf.importers.vnf_records import (
    CONTRADICTORY,
    IGNORED,
    INVALID_DOCUMENT,
    MACHINE,
    NOT_GIVEN,
    WITHOUT_A_NUMBER,
    Origin,
    PlacementRule,
    Vdu,
    VduSize,
    Vnf,
    VnfSourceDocuments,
    compute_maximum_counts,
    compute_vdu_counts,
    count_vms,
)
from nexusform.doubts.doubt import Doubt, Influence
from nexusform.json_data.plain_data import get_mapping

VNFD = "vnfd"
# Parameter of HOT files that Tacker's user data sets.
_USER_DATA: Final = "nfv"
# Start of the parameters that name another user data than Tacker's default one.
_USER_DATA_CLASS: Final = "lcm-operation-user-data"
_CAPABILITIES: Final = "requested_additional_capabilities"


class ParsedVnf(Struct, frozen=True):
    """VNF, and the findings and unread facts of all documents."""

    vnf: Vnf
    findings: tuple[Problem, ...]
    unread: tuple[Doubt, ...] = ()


def read_vnf(sources: VnfSourceDocuments) -> ParsedVnf:
    """Read the VNFD and the HOT file and merge them.

    The result has all findings; invalid input raises nothing.
    """
    # Findings by document.
    notes = {VNFD: DocumentFindings(VNFD)}
    descriptor = Vnf()
    if sources.vnfd is not None:
        descriptor = parse_vnfd(sources.vnfd, sources.parameters, sources.flavour_id, notes[VNFD])
    if sources.base_hot is None:
        vnf = _add_scheduler_hints(descriptor)
    else:
        # Whether the number of VMs is given, by VDU.
        counted_vdus = {vdu.name: vdu.has_count for vdu in descriptor.vdus}
        parameters = _add_user_data(descriptor, sources.parameters)
        template = parse_hot(sources.base_hot, sources.nested, parameters, counted_vdus)
        notes |= {document_notes.file: document_notes for document_notes in template.notes}
        vnf = template.vnf
        if descriptor.vdus:
            vnf = _merge_vnfd_and_hot_file(descriptor, template.vnf, notes)
            if not any(name.startswith(_USER_DATA_CLASS) for name in parameters):
                _add_fixed_numbers(descriptor, template.vnf, notes)
    findings = list(
        chain.from_iterable(document_notes.findings for document_notes in notes.values())
    )
    if not vnf.vdus and not has_errors(findings):
        name = VNFD if sources.vnfd is not None else BASE_HOT
        detail = (
            "no VDU found: no Vdu.Compute node and no OS::Nova::Server. A CNF has pods: use "
            "fleet_hub_manifest."
        )
        findings.append(build_problem(name, TextPosition(1, 1), INVALID_DOCUMENT, detail))
    unread = _select_unread_facts(vnf, notes.values())
    # These warnings say the same.
    warned = {
        (problem.file, problem.line)
        for problem in findings
        if problem.id in (NOT_GIVEN, WITHOUT_A_NUMBER)
    }
    findings += [
        build_problem(
            fact.file, TextPosition(fact.line, 1), IGNORED, fact.describe(), Severity.WARNING
        )
        for fact in unread
        if (fact.file, fact.line) not in warned and not fact.reading_platform
    ]
    return ParsedVnf(vnf, tuple(findings), unread)


def _add_user_data(descriptor: Vnf, parameters: Mapping[str, object]) -> dict[str, object]:
    """Return the parameters with flavor and image of each VDU, as Tacker's user data sets them.

    The values of a request replace them. Source: DefaultUserData of Tacker 16.0, for a grant
    without flavors and images.
    """
    requested = get_mapping(parameters, _USER_DATA)
    requested_vdus = get_mapping(requested, "VDU")
    vdus: dict[str, object] = dict(requested_vdus)
    for vdu in descriptor.vdus:
        values = {"computeFlavourId": vdu.capability, "vcImageId": vdu.image}
        known = {name: value for name, value in values.items() if value}
        if known:
            vdus[vdu.name] = {**known, **get_mapping(requested_vdus, vdu.name)}
    if not vdus:
        return dict(parameters)
    return {**parameters, _USER_DATA: {**requested, "VDU": vdus}}


def _select_unread_facts(vnf: Vnf, notes: Iterable[DocumentFindings]) -> tuple[Doubt, ...]:
    """Return the unread facts of all documents that may change a VM.

    A fact of a VDU that the VNF does not have is one of the whole VNF. The order of servers changes
    nothing if there is one kind of them.
    """
    names = {vdu.name for vdu in vnf.vdus}
    # The capability of a VNFD is a flavor for Nova; other platforms do not know it.
    flavors = {vdu.name for vdu in vnf.vdus if vdu.capability and vdu.flavor == vdu.capability}
    facts = chain.from_iterable(
        (*document_notes.unread, *document_notes.list_wrong_kinds()) for document_notes in notes
    )
    selected = []
    for fact in facts:
        if fact.may_change is Influence.ORDER and len(names) <= 1:
            continue
        if fact.field == _CAPABILITIES and fact.pool in flavors:
            selected.append(replace(fact, reading_platform=NOVA))
        else:
            selected.append(fact if fact.pool in names else replace(fact, pool=""))
    return tuple(selected)


def _add_scheduler_hints(descriptor: Vnf) -> Vnf:
    """Return the VNF of a VNFD without a HOT file, with the marks of VDUs as from a HOT file.

    The marks are `has_scheduler_hints`, for VDUs in any rule for machines, and
    `has_anti_affinity`, for those in a hard anti-affinity rule. Tacker makes a server group of the
    servers of each rule for machines.
    """
    grouped_vdus: set[str] = set()
    separated_vdus: set[str] = set()
    for rule in descriptor.rules:
        if rule.scope != MACHINE:
            # Tacker makes no server group from it.
            continue
        grouped_vdus.update(rule.vdus)
        if rule.is_hard and not rule.is_affinity:
            separated_vdus.update(rule.vdus)
    vdus = tuple(
        replace(
            vdu,
            has_anti_affinity=vdu.name in separated_vdus,
            has_scheduler_hints=vdu.name in grouped_vdus,
        )
        for vdu in descriptor.vdus
    )
    return replace(descriptor, vdus=vdus)


def _merge_vnfd_and_hot_file(descriptor: Vnf, hot: Vnf, notes: dict[str, DocumentFindings]) -> Vnf:
    """Return the VNF of a VNFD with the details and VDUs added by its HOT file.

    Add contradictions to `notes`.
    """
    # Numbers of VMs by VDU.
    vnfd_numbers = compute_vdu_counts(descriptor).numbers
    vdus = [
        _add_hot_details(vdu, hot.find_vdu(vdu.name), vnfd_numbers[vdu.name], notes)
        for vdu in descriptor.vdus
    ]
    for hot_vdu in hot.vdus:
        if descriptor.find_vdu(hot_vdu.name) is None:
            detail = (
                f'the VNFD has no VDU for the servers of "{hot_vdu.name}"; they are placed as the '
                f'VDU "{hot_vdu.name}".'
            )
            _add_contradiction(hot_vdu.origin, detail, notes)
            vdus.append(hot_vdu)
    rules = _merge_rules(descriptor, hot, notes)
    return replace(
        descriptor, vdus=tuple(vdus), rules=rules, aspects=descriptor.aspects or hot.aspects
    )


def _add_hot_details(
    vdu: Vdu, hot_vdu: Vdu | None, current_size: int, notes: dict[str, DocumentFindings]
) -> Vdu:
    """Return a VDU of the VNFD with the additions of the HOT file.

    `current_size` is its number of VMs by the VNFD. The size and the numbers of the VNFD come
    first; those of the HOT file fill gaps. Differences are reported.
    """
    if hot_vdu is None:
        detail = (
            f'base_hot does not create the VDU "{vdu.name}": no server or group there has this '
            "name."
        )
        _add_contradiction(vdu.origin, detail, notes)
        return vdu
    size = VduSize(
        vdu.size.vcpus or hot_vdu.size.vcpus,
        vdu.size.memory_gib or hot_vdu.size.memory_gib,
        vdu.size.disk_gib if vdu.size.disk_gib is not None else hot_vdu.size.disk_gib,
    )
    merged_vdu = replace(
        vdu,
        size=size,
        has_anti_affinity=hot_vdu.has_anti_affinity,
        has_scheduler_hints=hot_vdu.has_scheduler_hints,
        flavor=hot_vdu.flavor,
        # The image of the VDU is not the one of a boot volume.
        image=hot_vdu.image or ("" if hot_vdu.boots_from_volume else vdu.image),
        availability_zone=hot_vdu.availability_zone,
        host=hot_vdu.host,
        boots_from_volume=hot_vdu.boots_from_volume,
        missing_template=hot_vdu.missing_template,
        unknown_flavor=hot_vdu.unknown_flavor,
        unknown_image=hot_vdu.unknown_image,
        awaited=hot_vdu.awaited,
        local_disks=hot_vdu.local_disks,
    )
    if not hot_vdu.has_count:
        # The HOT file gives no number, so those of the VNFD apply.
        return merged_vdu
    if vdu.has_count and current_size != hot_vdu.initial:
        _warn_vdu_difference(
            hot_vdu, vdu, f"has {hot_vdu.initial} servers here and {current_size}", notes
        )
    if vdu.has_bounds and (vdu.minimum, vdu.maximum) != (hot_vdu.minimum, hot_vdu.maximum):
        detail = (
            f"may have {_format_vdu_bounds(hot_vdu)} servers here and {_format_vdu_bounds(vdu)}"
        )
        _warn_vdu_difference(hot_vdu, vdu, detail, notes)
    if vdu.has_count:
        # The initial number of the VNFD applies.
        return merged_vdu
    if not vdu.has_bounds:
        return replace(
            merged_vdu, minimum=hot_vdu.minimum, maximum=hot_vdu.maximum, initial=hot_vdu.initial
        )
    # The number of the HOT file, within the bounds of the VNFD.
    initial = hot_vdu.initial if vdu.maximum is None else min(hot_vdu.initial, vdu.maximum)
    return replace(merged_vdu, initial=max(initial, vdu.minimum))


def _add_fixed_numbers(descriptor: Vnf, hot: Vnf, notes: dict[str, DocumentFindings]) -> None:
    """Add a doubt for each VDU whose number in the VNFD differs from a fixed one in the HOT file.

    Tacker's default user data passes the number of the VNFD as a parameter, and changes no other
    number: Heat creates those of the HOT file. Source: DefaultUserData of Tacker 16.0.
    """
    numbers = compute_vdu_counts(descriptor).numbers
    for vdu in descriptor.vdus:
        hot_vdu = hot.find_vdu(vdu.name)
        number = numbers[vdu.name]
        if hot_vdu is None or not hot_vdu.is_count_fixed or hot_vdu.initial == number:
            continue
        reason = (
            f"the VNFD has {number}, but the HOT file fixes {hot_vdu.initial}, which Tacker's "
            "default user data creates"
        )
        origin = hot_vdu.origin
        notes[origin.file].add_unread_fact(
            Node(data=None, position=TextPosition(origin.line, 1)),
            ("server", vdu.name),
            "count",
            Influence.EXISTENCE,
            reason=reason,
            pool=vdu.name,
        )


def _warn_vdu_difference(
    hot_vdu: Vdu, vdu: Vdu, difference: str, notes: dict[str, DocumentFindings]
) -> None:
    detail = (
        f'"{vdu.name}" {difference} in the VNFD ({vdu.origin}). The numbers of the VNFD are used.'
    )
    _add_contradiction(hot_vdu.origin, detail, notes)


def _add_contradiction(origin: Origin, detail: str, notes: dict[str, DocumentFindings]) -> None:
    """Add a warning about contradictory documents, at a declaration."""
    notes[origin.file].add_warning(TextPosition(origin.line, 1), CONTRADICTORY, detail)


def _format_vdu_bounds(vdu: Vdu) -> str:
    """Format the allowed numbers of VMs: "2", "2 to 4" or "2 or more"."""
    if vdu.maximum is None:
        return f"{vdu.minimum} or more"
    return f"{vdu.minimum}" if vdu.minimum == vdu.maximum else f"{vdu.minimum} to {vdu.maximum}"


def _merge_rules(
    descriptor: Vnf, hot: Vnf, notes: dict[str, DocumentFindings]
) -> tuple[PlacementRule, ...]:
    """Return the rules of the VNFD, and those of the HOT file that it does not include.

    Contradictions are reported. Two rules are compared if they have the same scope and a
    VDU in common.
    """
    hot_rules = list(hot.rules)
    # The largest number of VMs of each VDU over all instantiation levels, fully scaled out.
    maximum_numbers: Counter[str] = Counter()
    # "": the default one.
    for level_name in ("", *(level.name for level in descriptor.levels)):
        # The larger of both.
        maximum_numbers |= Counter(compute_maximum_counts(descriptor, level_name).numbers)
    for rule in descriptor.rules:
        rule_vdus = set(rule.vdus)
        overlapping_rules = [
            other
            for other in hot_rules
            if other.scope == rule.scope and not rule_vdus.isdisjoint(other.vdus)
        ]
        for other in overlapping_rules:
            if _is_contradicting_rule(rule, other, maximum_numbers):
                _warn_contradiction(rule, other, notes)
            # The VNFD's rule includes the other one if it is of its kind, as hard, and has all its
            # VDUs. The number of VMs per location needs no check: a VNFD always allows one per
            # location, the strictest number.
            is_as_strict = rule.is_affinity == other.is_affinity and rule.is_hard >= other.is_hard
            if is_as_strict and rule_vdus.issuperset(other.vdus):
                hot_rules.remove(other)
        # Heat knows rules for machines only.
        if rule.scope == MACHINE and not overlapping_rules and hot.vdus:
            detail = (
                f'the rule "{rule.name}" has no counterpart in base_hot: none of its VDUs is in a '
                "server group there. nexusform applies it; Heat alone does not."
            )
            _add_contradiction(rule.origin, detail, notes)
    return (*descriptor.rules, *hot_rules)


def _is_contradicting_rule(
    rule: PlacementRule, other: PlacementRule, maximum: Mapping[str, int]
) -> bool:
    """Return whether two rules with shared VDUs contradict each other.

    Two rules of a kind do if one is stricter. An affinity and an anti-affinity rule do if the
    shared VDUs can have more VMs than fit on one location. `maximum` has the largest number of
    VMs by VDU.
    """
    if rule.is_affinity != other.is_affinity:
        shared_vms = count_vms({*rule.vdus} & {*other.vdus}, maximum)
        # 1 in the affinity rule.
        return shared_vms > max(rule.max_per_location, other.max_per_location)
    return rule.is_hard != other.is_hard or rule.max_per_location != other.max_per_location


def _warn_contradiction(
    rule: PlacementRule, other: PlacementRule, notes: dict[str, DocumentFindings]
) -> None:
    """Warn about contradicting rules of a VNFD and of a server group.

    `rule` is of the VNFD, `other` of the group. The warning has the effect of both.
    """
    vdu_names = ", ".join(name for name in rule.vdus if name in other.vdus)
    first_kind = describe_vdu_placement_rule(rule)
    second_kind = describe_vdu_placement_rule(other)
    if rule.is_affinity == other.is_affinity:
        text = "The stricter one applies."
    elif rule.is_hard and other.is_hard:
        # 1 in the affinity rule.
        maximum = max(rule.max_per_location, other.max_per_location)
        text = f"Both can be met for at most {maximum} of these VMs. Larger sizes are rejected."
    else:
        text = "Both are kept. Hard rules have priority over soft ones."
    detail = (
        f'the server group "{other.name}" requires {second_kind}, but {rule.origin}, rule '
        f'"{rule.name}", requires {first_kind}. Both apply to {vdu_names}. {text}'
    )
    _add_contradiction(other.origin, detail, notes)


def describe_vdu_placement_rule(rule: PlacementRule) -> str:
    """Return a rule as text: "hard anti-affinity"."""
    suffix = (
        f" with up to {rule.max_per_location} on one {rule.scope}"
        if rule.max_per_location > 1
        else ""
    )
    strictness = "hard" if rule.is_hard else "soft"
    kind = "affinity" if rule.is_affinity else "anti-affinity"
    return f"{strictness} {kind}{suffix}"
