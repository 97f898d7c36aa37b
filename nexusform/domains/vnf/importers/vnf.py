"""One VNF from a VNFD, a HOT file, or both: who says what, and where they contradict each other.

The VNFD's numbers and sizes come first, the HOT file fills in what it leaves open. Rules of both hold;
where both state the same one, the stricter form does.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics import Problem
from nexusform.documents.text_places import TextPlace
from nexusform.documents.yaml_text import Notes
from nexusform.domains.vnf.importers.hot import BASE_HOT, HotVnf, read_hot
from nexusform.domains.vnf.importers.tosca import read_vnfd
from nexusform.domains.vnf.importers.vnf_model import (
    CONTRADICTORY,
    INVALID_DOCUMENT,
    MACHINE,
    Rule,
    Size,
    Vdu,
    Vnf,
    VnfSources,
    counts,
    largest,
)

VNFD = "vnfd"


class ReadVnf(Struct, frozen=True):
    """A VNF and everything that was found while reading it, document by document."""

    vnf: Vnf
    findings: tuple[Problem, ...]


def read_vnf(sources: VnfSources) -> ReadVnf:
    """Read the documents and put together what they say. Never raises for what the user wrote."""
    notes = Notes(VNFD)
    descriptor = None
    template = None
    if sources.vnfd is not None:
        descriptor = read_vnfd(sources.vnfd, sources.parameters, sources.flavour_id, notes)
    if sources.base_hot is not None:
        known = {vdu.name: vdu.stated for vdu in descriptor.vdus} if descriptor is not None else {}
        template = read_hot(sources.base_hot, sources.nested, sources.parameters, known)
    all_notes = [notes, *(template.notes if template is not None else ())]
    by_file = {known.file: known for known in all_notes}
    if descriptor is None or (template is not None and not descriptor.vdus):
        vnf = template.vnf if template is not None else Vnf()
    elif template is None:
        vnf = replace(descriptor, vdus=tuple(_translated(vdu, descriptor.rules) for vdu in descriptor.vdus))
    else:
        vnf = _merged(descriptor, template, by_file)
    if not vnf.vdus and not any(_has_error(known) for known in all_notes):
        name = VNFD if sources.vnfd is not None else BASE_HOT
        by_file[name].error(
            TextPlace(1, 1),
            INVALID_DOCUMENT,
            "no VDU was found: no Vdu.Compute node and no OS::Nova::Server.",
        )
    return ReadVnf(vnf, tuple(chain.from_iterable(known.findings for known in all_notes)))


def _has_error(notes: Notes) -> bool:
    return any(problem.severity == "error" for problem in notes.findings)


def _translated(vdu: Vdu, rules: tuple[Rule, ...]) -> Vdu:
    """A VDU without a HOT file, as a translation of its rules into server groups would have it."""
    own = [rule for rule in rules if rule.scope == MACHINE and vdu.name in rule.vdus]
    kept_apart = any(rule.hard and not rule.affinity for rule in own)
    return replace(vdu, kept_apart=kept_apart, hinted=bool(own))


# --- both documents ----------------------------------------------------------------------------


def _merged(descriptor: Vnf, template: HotVnf, notes: dict[str, Notes]) -> Vnf:
    """The VNFD with what its HOT says beside it."""
    hot = template.vnf
    sizes = counts(descriptor).numbers
    vdus = [_vdu(vdu, hot.vdu(vdu.name), sizes[vdu.name], notes) for vdu in descriptor.vdus]
    for made in hot.vdus:
        if descriptor.vdu(made.name) is None:
            notes[made.origin.file].warn(
                TextPlace(made.origin.line, 1),
                CONTRADICTORY,
                f'"{made.name}" makes servers, and the VNFD has no VDU of that name; they are placed as the '
                f'VDU "{made.name}".',
            )
            vdus.append(made)
    rules = _rules(descriptor, hot, notes)
    return replace(descriptor, vdus=tuple(vdus), rules=rules, aspects=descriptor.aspects or hot.aspects)


def _vdu(vdu: Vdu, made: Vdu | None, size_now: int, notes: dict[str, Notes]) -> Vdu:
    """A VDU of the VNFD with what the HOT file adds. `size_now` is its number by the VNFD alone."""
    if made is None:
        notes[VNFD].warn(
            TextPlace(vdu.origin.line, 1),
            CONTRADICTORY,
            f'the VDU "{vdu.name}" is not made by base_hot: no server or group there has this name.',
        )
        return vdu
    size = Size(
        vdu.size.vcpus or made.size.vcpus,
        vdu.size.memory_gib or made.size.memory_gib,
        vdu.size.disk_gib if vdu.size.disk_gib is not None else made.size.disk_gib,
    )
    sized = replace(vdu, size=size, kept_apart=made.kept_apart, hinted=made.hinted, flavor=made.flavor)
    if not made.stated:
        return sized
    if vdu.stated and size_now != made.initial:
        _differs(made, vdu, f"has {made.initial} servers here and {size_now}", notes)
    if vdu.bounded and (vdu.minimum, vdu.maximum) != (made.minimum, made.maximum):
        _differs(made, vdu, f"may have {_bounds(made)} servers here and {_bounds(vdu)}", notes)
    if vdu.stated:
        return sized
    if not vdu.bounded:
        return replace(sized, minimum=made.minimum, maximum=made.maximum, initial=made.initial)
    most = made.initial if vdu.maximum is None else min(made.initial, vdu.maximum)
    return replace(sized, initial=max(most, vdu.minimum))


def _differs(made: Vdu, vdu: Vdu, what: str, notes: dict[str, Notes]) -> None:
    notes[made.origin.file].warn(
        TextPlace(made.origin.line, 1),
        CONTRADICTORY,
        f'"{vdu.name}" {what} in the VNFD ({vdu.origin}); the VNFD\'s numbers hold.',
    )


def _bounds(vdu: Vdu) -> str:
    if vdu.maximum is None:
        return f"{vdu.minimum} or more"
    return f"{vdu.minimum} to {vdu.maximum}" if vdu.minimum != vdu.maximum else f"{vdu.minimum}"


def _rules(descriptor: Vnf, hot: Vnf, notes: dict[str, Notes]) -> tuple[Rule, ...]:
    """The rules of both documents; of twins that of the VNFD, and contradictions are said."""
    kept = list(hot.rules)
    rules: list[Rule] = []
    most = _most_vms(descriptor)
    for rule in descriptor.rules:
        same = [other for other in kept if _overlap(rule, other)]
        for other in same:
            if _disagree(rule, other, most):
                _contradiction(rule, other, notes)
        twins = [other for other in same if other.affinity == rule.affinity and _covers(rule, other)]
        for twin in twins:
            kept.remove(twin)
        if rule.scope == MACHINE and not same and hot.vdus:
            notes[VNFD].warn(
                TextPlace(rule.origin.line, 1),
                CONTRADICTORY,
                f'the rule "{rule.name}" has no counterpart in base_hot: none of its VDUs is in a server '
                "group there. It is honoured; Heat alone would not.",
            )
        rules.append(rule)
    return (*rules, *kept)


def _overlap(rule: Rule, other: Rule) -> bool:
    return rule.scope == other.scope and bool(set(rule.vdus) & set(other.vdus))


def _covers(rule: Rule, other: Rule) -> bool:
    """Whether the rule asks for all that the other asks for."""
    return (rule.hard or not other.hard) and rule.most <= other.most and set(other.vdus) <= set(rule.vdus)


def _most_vms(descriptor: Vnf) -> dict[str, int]:
    """How many VMs each VDU has at its largest, whichever instantiation level it starts from."""
    levels = ["", *(level.name for level in descriptor.levels)]
    most: dict[str, int] = {}
    for level in levels:
        for vdu, number in largest(descriptor, level).numbers.items():
            most[vdu] = max(most.get(vdu, 0), number)
    return most


def _disagree(rule: Rule, other: Rule, most: Mapping[str, int]) -> bool:
    """Whether the rules ask for different things of VMs that there can be: one VM is together with itself
    and apart from itself, so an opposite rule needs two that are in both.
    """
    if rule.affinity != other.affinity:
        apart = other if rule.affinity else rule
        return sum(most.get(name, 1) for name in rule.vdus if name in other.vdus) > apart.most
    return rule.hard != other.hard or rule.most != other.most


def _contradiction(rule: Rule, other: Rule, notes: dict[str, Notes]) -> None:
    """Say it as a warning: only the plan knows the size, and refuses one that cannot meet both."""
    names = ", ".join(name for name in rule.vdus if name in other.vdus)
    mine, theirs = kind(rule), kind(other)
    if rule.affinity == other.affinity:
        text = "The stricter one holds."
    elif rule.hard and other.hard:
        most = other.most if rule.affinity else rule.most
        text = f"Both hold for at most {most} of these VMs; a size with more is refused."
    else:
        text = "Both are kept; a hard one comes before a soft one."
    notes[other.origin.file].warn(
        TextPlace(other.origin.line, 1),
        CONTRADICTORY,
        f'the server group "{other.name}" says {theirs}, and {rule.origin}, rule "{rule.name}", {mine}. '
        f"Both speak of {names}. {text}",
    )


def kind(rule: Rule) -> str:
    """A rule in words: "hard anti-affinity"."""
    most = f" with up to {rule.most} on one {rule.scope}" if rule.most > 1 else ""
    return f"{'hard' if rule.hard else 'soft'} {'affinity' if rule.affinity else 'anti-affinity'}{most}"
