"""Reading of one VNF from a VNFD, a HOT file, or both, with their contradictions. Numbers and sizes of the VNFD take
precedence, the HOT file fills gaps. Rules of both apply; of duplicate rules the stricter form is used.
"""

from collections.abc import Mapping
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Problem, has_errors
from nexusform.documents.yaml_documents import DocumentFindings, TextPosition
from nexusform.domains.vnf.importers.hot_template import BASE_HOT, HotVnf, parse_hot
from nexusform.domains.vnf.importers.tosca_vnfd import parse_vnfd
from nexusform.domains.vnf.importers.vnf_records import (
    CONTRADICTORY,
    INVALID_DOCUMENT,
    MACHINE,
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

VNFD = "vnfd"


class ParsedVnf(Struct, frozen=True):
    """VNF, and the findings of all documents."""

    vnf: Vnf
    findings: tuple[Problem, ...]


def read_vnf(sources: VnfSourceDocuments) -> ParsedVnf:
    """Read and merge the documents; the result has all findings. Never raises for invalid input."""
    vnfd_notes = DocumentFindings(VNFD)
    descriptor = Vnf()
    template = HotVnf(Vnf(), notes=())
    if sources.vnfd is not None:
        descriptor = parse_vnfd(sources.vnfd, sources.parameters, sources.flavour_id, vnfd_notes)
    if sources.base_hot is not None:
        counted_vdus = {vdu.name: vdu.has_count for vdu in descriptor.vdus}  # whether its number of VMs is given
        template = parse_hot(sources.base_hot, sources.nested, sources.parameters, counted_vdus)
    all_notes = [vnfd_notes, *template.notes]
    by_file = {document_notes.file: document_notes for document_notes in all_notes}
    if sources.base_hot is None:
        vnf = _add_scheduler_hints(descriptor)
    elif descriptor.vdus:
        vnf = _merge_vnfd_and_hot_file(descriptor, template, by_file)
    else:  # no VNFD, or one without VDUs
        vnf = template.vnf
    if not vnf.vdus and not any(has_errors(document_notes.findings) for document_notes in all_notes):
        name = VNFD if sources.vnfd is not None else BASE_HOT
        detail = "no VDU found: no Vdu.Compute node and no OS::Nova::Server."
        by_file[name].add_error(TextPosition(1, 1), INVALID_DOCUMENT, detail)
    return ParsedVnf(vnf, tuple(chain.from_iterable(document_notes.findings for document_notes in all_notes)))


def _add_scheduler_hints(descriptor: Vnf) -> Vnf:
    """Return the VNF of a VNFD without a HOT file: Tacker makes server groups from its rules for machines."""
    vdus = []
    for vdu in descriptor.vdus:
        machine_rules = [rule for rule in descriptor.rules if rule.scope == MACHINE and vdu.name in rule.vdus]
        has_anti_affinity = any(rule.is_hard and not rule.is_affinity for rule in machine_rules)
        vdus.append(replace(vdu, has_anti_affinity=has_anti_affinity, has_scheduler_hints=bool(machine_rules)))
    return replace(descriptor, vdus=tuple(vdus))


def _merge_vnfd_and_hot_file(descriptor: Vnf, template: HotVnf, notes: dict[str, DocumentFindings]) -> Vnf:
    """Return the VNF of the VNFD with the additions of its HOT file; report contradictions."""
    hot = template.vnf
    vnfd_numbers = compute_vdu_counts(descriptor).numbers  # of VMs by VDU
    vdus = [_add_hot_details(vdu, hot.find_vdu(vdu.name), vnfd_numbers[vdu.name], notes) for vdu in descriptor.vdus]
    for hot_vdu in hot.vdus:
        if descriptor.find_vdu(hot_vdu.name) is None:
            detail = (
                f'the VNFD has no VDU for the servers of "{hot_vdu.name}"; they are placed as the VDU "{hot_vdu.name}".'
            )
            _add_contradiction(hot_vdu.origin, detail, notes)
            vdus.append(hot_vdu)
    rules = _merge_rules(descriptor, hot, notes)
    return replace(descriptor, vdus=tuple(vdus), rules=rules, aspects=descriptor.aspects or hot.aspects)


def _add_hot_details(vdu: Vdu, hot_vdu: Vdu | None, current_size: int, notes: dict[str, DocumentFindings]) -> Vdu:
    """Return a VDU of the VNFD with the additions of the HOT file. `current_size` is its number of VMs by the VNFD."""
    if hot_vdu is None:
        detail = f'base_hot does not create the VDU "{vdu.name}": no server or group there has this name.'
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
        image=hot_vdu.image or vdu.image,
    )
    if not hot_vdu.has_count:
        return merged_vdu  # the numbers of the VNFD apply
    if vdu.has_count and current_size != hot_vdu.initial:
        _warn_vdu_difference(hot_vdu, vdu, f"has {hot_vdu.initial} servers here and {current_size}", notes)
    if vdu.has_bounds and (vdu.minimum, vdu.maximum) != (hot_vdu.minimum, hot_vdu.maximum):
        detail = f"may have {_format_vdu_bounds(hot_vdu)} servers here and {_format_vdu_bounds(vdu)}"
        _warn_vdu_difference(hot_vdu, vdu, detail, notes)
    if vdu.has_count:
        return merged_vdu  # the initial number of the VNFD applies
    if not vdu.has_bounds:
        return replace(merged_vdu, minimum=hot_vdu.minimum, maximum=hot_vdu.maximum, initial=hot_vdu.initial)
    # The number of the HOT file, within the bounds of the VNFD.
    initial = hot_vdu.initial if vdu.maximum is None else min(hot_vdu.initial, vdu.maximum)
    return replace(merged_vdu, initial=max(initial, vdu.minimum))


def _warn_vdu_difference(hot_vdu: Vdu, vdu: Vdu, difference: str, notes: dict[str, DocumentFindings]) -> None:
    detail = f'"{vdu.name}" {difference} in the VNFD ({vdu.origin}). The numbers of the VNFD are used.'
    _add_contradiction(hot_vdu.origin, detail, notes)


def _add_contradiction(origin: Origin, detail: str, notes: dict[str, DocumentFindings]) -> None:
    """Add a warning about contradictory documents, at a declaration."""
    notes[origin.file].add_warning(TextPosition(origin.line, 1), CONTRADICTORY, detail)


def _format_vdu_bounds(vdu: Vdu) -> str:
    if vdu.maximum is None:
        return f"{vdu.minimum} or more"
    return f"{vdu.minimum}" if vdu.minimum == vdu.maximum else f"{vdu.minimum} to {vdu.maximum}"


def _merge_rules(descriptor: Vnf, hot: Vnf, notes: dict[str, DocumentFindings]) -> tuple[PlacementRule, ...]:
    """Return the rules of both documents without duplicates in the HOT file; report contradictions.

    A HOT rule is a duplicate if a VNFD rule of its kind and scope has all its VDUs and is at least as hard.
    A VNFD always allows one VM per location, the strictest number.
    """
    hot_rules = list(hot.rules)
    # The maximum number of VMs per VDU over all instantiation levels.
    levels = ["", *(level.name for level in descriptor.levels)]  # "": the default one
    maximum_numbers: dict[str, int] = {}
    for level in levels:
        for vdu, number in compute_maximum_counts(descriptor, level).numbers.items():
            maximum_numbers[vdu] = max(maximum_numbers.get(vdu, 0), number)
    for rule in descriptor.rules:
        overlapping_rules = [
            other for other in hot_rules if rule.scope == other.scope and set(rule.vdus) & set(other.vdus)
        ]
        for other in overlapping_rules:
            if _is_contradicting_rule(rule, other, maximum_numbers):
                _warn_contradiction(rule, other, notes)
            is_as_strict = rule.is_affinity == other.is_affinity and rule.is_hard >= other.is_hard
            if is_as_strict and set(other.vdus) <= set(rule.vdus):
                hot_rules.remove(other)
        if rule.scope == MACHINE and not overlapping_rules and hot.vdus:  # Heat knows rules for machines only
            detail = (
                f'the rule "{rule.name}" has no counterpart in base_hot: none of its VDUs is in a server '
                "group there. nexusform applies it; Heat alone does not."
            )
            _add_contradiction(rule.origin, detail, notes)
    return (*descriptor.rules, *hot_rules)


def _is_contradicting_rule(rule: PlacementRule, other: PlacementRule, maximum: Mapping[str, int]) -> bool:
    """Return whether rules with shared VDUs contradict each other: an affinity and an anti-affinity rule, if `maximum`
    (numbers of VMs by VDU) allows more shared VMs than may be on one location; two rules of a kind, if one is stricter.
    """
    if rule.is_affinity != other.is_affinity:
        shared_vms = count_vms({*rule.vdus} & {*other.vdus}, maximum)
        return shared_vms > max(rule.max_per_location, other.max_per_location)  # 1 in the affinity rule
    return rule.is_hard != other.is_hard or rule.max_per_location != other.max_per_location


def _warn_contradiction(rule: PlacementRule, other: PlacementRule, notes: dict[str, DocumentFindings]) -> None:
    """Warn about contradicting rules of a VNFD (`rule`) and of a server group (`other`), with the effect of both."""
    vdu_names = ", ".join(filter(other.vdus.__contains__, rule.vdus))
    first_kind, second_kind = describe_vdu_placement_rule(rule), describe_vdu_placement_rule(other)
    if rule.is_affinity == other.is_affinity:
        text = "The stricter one applies."
    elif rule.is_hard and other.is_hard:
        maximum = max(rule.max_per_location, other.max_per_location)  # 1 in the affinity rule
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
    suffix = f" with up to {rule.max_per_location} on one {rule.scope}" if rule.max_per_location > 1 else ""
    strictness = "hard" if rule.is_hard else "soft"
    kind = "affinity" if rule.is_affinity else "anti-affinity"
    return f"{strictness} {kind}{suffix}"
