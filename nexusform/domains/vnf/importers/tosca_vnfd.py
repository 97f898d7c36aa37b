"""Parsing of a VNFD (ETSI SOL001 in TOSCA YAML): VDUs, sizes, counts, scaling, groups and rules.

SOL006 descriptors are passed to `sol006`. Tolerant: mistakes are read as intended, with a warning;
parts without effect on placement are ignored silently.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import chain, product
from math import ceil
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import suggest_name
from nexusform.documents.yaml_documents import DocumentFindings, Node
from nexusform.domains.vnf.importers.tosca_fields import add_unread_facts
from nexusform.domains.vnf.importers.tosca_topology import (
    Topology,
    parse_count_or_default,
    parse_instance_count,
    parse_rule_scope,
    parse_topology,
)
from nexusform.domains.vnf.importers.vnf_records import (
    CORRECTED,
    IGNORED,
    INVALID_DOCUMENT,
    MACHINE,
    RACK,
    SITE,
    SMALL_MINIMUM,
    InstantiationLevel,
    Origin,
    PlacementRule,
    ScalingAspect,
    Vdu,
    VduScaleSteps,
    VduSize,
    Vnf,
    is_valid_vdu_name,
)
from nexusform.domains.vnf.importers.vnf_text import (
    describe_foreign_kind,
    find_first_field,
    list_bodies,
    parse_documents,
)
from nexusform.json_data.plain_data import get_text
from nexusform.scheduling.racks.vms import convert_to_gib

_SCOPES: Final[Mapping[str, str]] = {
    "nfvi_node": MACHINE,
    "zone": RACK,
    "zone_group": SITE,
    "nfvi_pop": SITE,
}
_RULES: Final[Mapping[str, bool]] = {"AffinityRule": True, "AntiAffinityRule": False}


def parse_vnfd(
    text: str, parameters: Mapping[str, Any], flavour_id: str, notes: DocumentFindings
) -> Vnf:
    """Parse the VNF of a VNFD, by SOL001 (TOSCA); add findings to `notes`."""
    documents = parse_documents(text, notes)
    topology = parse_topology(documents, parameters, flavour_id, notes)
    add_unread_facts(topology)
    scaling = parse_scaling(topology)
    vdus = tuple(_list_vdus(topology, scaling))
    if not vdus:
        _report_documents_without_vdu(documents, notes)
    names = [vdu.name for vdu in vdus]
    groups = _collect_groups(topology, names)
    rules = tuple(_list_placement_rules(topology, names, groups))
    descriptor_ids = [
        topology.get_value(body, "properties", "descriptor_id").text for _, body in topology.nodes
    ]
    return Vnf(
        vdus=vdus,
        rules=rules,
        aspects=scaling.aspects,
        levels=scaling.levels,
        default_level=scaling.default_level,
        descriptor_id=next(filter(None, descriptor_ids), ""),
    )


def _report_documents_without_vdu(documents: list[Node], notes: DocumentFindings) -> None:
    """Report the kind of documents without a VDU: a HOT template, or another known kind."""
    for document in documents:
        if not find_first_field(
            document, "heat_template_version", "HeatTemplateFormatVersion"
        ).is_absent:
            notes.add_error(
                document, INVALID_DOCUMENT, "this is a HOT template: set it as base_hot."
            )
            return
    kind = describe_foreign_kind(document.data for document in documents)
    if kind:
        notes.add_error(documents[0], INVALID_DOCUMENT, f"this is {kind}.")


def _list_vdus(topology: Topology, scaling: ScalingPolicies) -> Iterator[Vdu]:
    """Yield the VDUs (kinds of VMs) and how many VMs they have.

    Report container groups, repeated and invalid names.
    """
    known_names: set[str] = set()
    for name, body in topology.nodes:
        kind = topology.get_standard_type(body)
        if kind.endswith("vdu.oscontainerdeployableunit"):
            detail = (
                f'the VDU "{name}" is a group of containers, not a VM; its pods are not placed '
                "here."
            )
            topology.notes.add_warning(body, IGNORED, detail)
            continue
        if not kind.endswith(("vdu.compute", "vdu.tacker")):
            continue  # no VDU
        if name in known_names:
            topology.notes.add_error(body, INVALID_DOCUMENT, f'the VDU "{name}" is defined twice.')
            continue
        known_names.add(name)
        if not is_valid_vdu_name(name):
            topology.notes.add_error(
                body, INVALID_DOCUMENT, f'the VDU "{name}" needs a name without "|" and "/".'
            )
            continue
        size = _parse_vdu_size(topology, body)
        # Tacker requests this image if the grant has none.
        image = topology.get_value(body, "properties", "sw_image_data", "name").text
        origin = Origin(topology.notes.file, body.line)
        yield _add_counts(
            Vdu(name, origin, size, image=image, capability=_find_capability(topology, body)),
            body,
            topology,
            scaling,
        )


def _find_capability(topology: Topology, body: Node) -> str:
    """Return the name of the requested capability of a VDU, which Tacker takes as its flavor.

    Source: Vnfd.get_compute_flavor of Tacker 16.0.
    """
    properties = body.get_node("capabilities", "virtual_compute", "properties")
    requested = properties.get_node("requested_additional_capabilities", "properties")
    return topology.get_value(requested, "requested_additional_capability_name").text


def _add_counts(vdu: Vdu, body: Node, topology: Topology, scaling: ScalingPolicies) -> Vdu:
    """Return the VDU with its minimum, maximum and initial number of VMs.

    A scaling policy sets the initial number. Without one it is the minimum, but at least one.
    `has_count` is true if a policy or level of the VNFD sets the number.
    """
    minimum, maximum = _parse_bounds(vdu.name, body, topology, scaling)
    profile = body.get_node("properties", "vdu_profile")
    if maximum is not None and maximum < minimum:
        detail = (
            f'the VDU "{vdu.name}" may have at most {maximum} instances, but at least {minimum}.'
        )
        topology.notes.add_error(profile, INVALID_DOCUMENT, detail)
    initial, initial_node = scaling.initial.get(vdu.name, (max(minimum, 1), profile))
    if initial < minimum:
        detail = (
            f'the initial delta gives "{vdu.name}" {initial}, less than its '
            f"min_number_of_instances of {minimum} (line "
            f"{profile.get_node('min_number_of_instances').line}). The larger number is used."
        )
        topology.notes.add_warning(initial_node, CORRECTED, detail)
        initial = minimum
    has_count = vdu.name in scaling.initial or any(
        vdu.name in level.sizes for level in scaling.levels
    )
    has_bounds = maximum is not None or minimum > 0
    return replace(
        vdu,
        minimum=minimum,
        maximum=maximum,
        initial=initial,
        has_count=has_count,
        has_bounds=has_bounds,
    )


def _parse_bounds(
    name: str, body: Node, topology: Topology, scaling: ScalingPolicies
) -> tuple[int, int | None]:
    """Return the minimum and maximum number of VMs of a VDU.

    They are from its vdu_profile, else from a scaling policy. Without both, return (0, None)
    with a warning.
    """
    profile = body.get_node("properties", "vdu_profile")
    if not profile.is_absent:
        lower = topology.get_value(profile, "min_number_of_instances")
        upper = topology.get_value(profile, "max_number_of_instances")
        minimum = parse_instance_count(lower, topology.notes, "the number of instances")
        return minimum or 0, parse_instance_count(upper, topology.notes, "the number of instances")
    if name in scaling.bounds:
        return scaling.bounds[name]
    # Tacker's own type of VDUs has no profile.
    if not topology.get_standard_type(body).endswith("tacker"):
        detail = f'the VDU "{name}" has no vdu_profile; its number of instances is unlimited.'
        topology.notes.add_warning(body, CORRECTED, detail)
    return 0, None


def _parse_vdu_size(topology: Topology, body: Node) -> VduSize:
    """Return the processors, memory and disk of a VDU; None for unknown ones.

    SOL001 has them in virtual_compute, with a list of disks. Without it the
    older nfv_compute counts.
    """
    compute = body.get_node("capabilities", "virtual_compute")
    # Some files leave it out.
    if not compute.get_node("properties").is_absent:
        compute = compute.get_node("properties")
    cpus = topology.get_value(compute, "virtual_cpu", "num_virtual_cpu")
    memory = topology.get_value(compute, "virtual_memory", "virtual_mem_size")
    parts = list_bodies(compute.get_node("virtual_local_storage"))
    disks = [topology.get_value(part, "size_of_storage") for part in parts]
    if compute.is_absent:
        legacy_compute = body.get_node("capabilities", "nfv_compute", "properties")
        cpus = topology.get_value(legacy_compute, "num_cpus")
        memory = topology.get_value(legacy_compute, "mem_size")
        disks = [topology.get_value(legacy_compute, "disk_size")]
    notes = topology.notes
    memory_mib = _parse_mib(memory, notes, _MEMORY_UNITS)
    disk_sizes = [size for disk in disks if (size := _parse_mib(disk, notes, _BYTES)) is not None]
    vcpus = cpus.number
    if not cpus.is_absent and (vcpus or 0) <= 0:
        notes.add_warning(
            cpus,
            IGNORED,
            "the number of virtual CPUs must be a whole number above 0; it is ignored.",
        )
        vcpus = None
    return VduSize(
        vcpus,
        # A memory of 0 is no size.
        convert_to_gib(memory_mib) if memory_mib else None,
        sum(ceil(convert_to_gib(size)) for size in disk_sizes) if disk_sizes else None,
    )


def _parse_mib(node: Node, notes: DocumentFindings, units: Mapping[str, int]) -> int | None:
    """Return a size in MiB; None if it is absent, or, with a warning, invalid."""
    if node.is_absent:
        return None
    size = convert_to_mib(node.data, units)
    if size is None:
        detail = (
            f'the size "{str(node.data)[:40]}" is not a number with a unit such as "4 GB" or "4 '
            'GiB".'
        )
        notes.add_warning(node, IGNORED, detail)
    return size


def _collect_groups(topology: Topology, vdus: list[str]) -> dict[str, tuple[str, ...]]:
    """Return the VDUs (kinds of VMs) of each placement group; report unknown members."""
    groups: dict[str, tuple[str, ...]] = {}
    for name, body in topology.groups:
        if topology.get_kind(body) != "PlacementGroup":
            # No placement group.
            continue
        description = body.get_node("description")
        if description.is_absent and body.get_node("properties", "description").is_absent:
            detail = f'the placement group "{name}" has no description, which SOL001 requires.'
            topology.notes.add_warning(body, CORRECTED, detail)
        members = find_first_field(body, "members", "targets").list_texts()
        member_names = _select_known_names(
            members, vdus, f'the member "{{}}" of "{name}" is not a VDU of this document.', topology
        )
        if not member_names:
            topology.notes.add_warning(
                body, IGNORED, f'the placement group "{name}" has no VDU as a member.'
            )
        groups[name] = tuple(dict.fromkeys(member_names))
    return groups


def _list_placement_rules(
    topology: Topology, vdus: list[str], groups: Mapping[str, tuple[str, ...]]
) -> Iterator[PlacementRule]:
    """Yield the placement rules among the policies, for their VDUs and groups of VDUs.

    AffinityRule and AntiAffinityRule of SOL001 are hard and have a scope. The older policy of
    Tacker is about machines.
    """
    for name, body in topology.policies:
        kind = topology.get_kind(body)
        rule = (
            (_RULES[kind], True) if kind in _RULES else parse_legacy_placement(name, body, topology)
        )  # True: hard
        if rule is None:
            # No placement policy, or an invalid one.
            continue
        is_affinity, is_hard = rule
        description = f'the target "{{}}" of "{name}" is not a VDU or placement group.'
        node_names = body.get_node("targets").list_texts()
        target_names = _select_known_names(node_names, [*vdus, *groups], description, topology)
        # The target of a rule is a VDU, or all VDUs of a placement group.
        target_vdus = chain.from_iterable(groups.get(target, (target,)) for target in target_names)
        targets = tuple(dict.fromkeys(target_vdus))
        # Scope of the older policy.
        scope = MACHINE
        label = "tacker.Placement"
        if kind in _RULES:
            scope_node = topology.get_value(body, "properties", "scope")
            label = scope_node.text
            scope = parse_rule_scope(
                (name, body), (label.lower(), scope_node), _SCOPES, topology.notes
            )
        if not targets:
            topology.notes.add_warning(
                body, IGNORED, f'the rule "{name}" applies to no VDU; it is ignored.'
            )
            continue
        if not is_affinity:
            _report_small_minimums(name, targets, topology)
        # An invalid scope ("") is reported already.
        if scope:
            origin = Origin(topology.notes.file, body.line)
            yield PlacementRule(name, is_affinity, is_hard, scope, targets, origin, label=label)


def _report_small_minimums(name: str, targets: tuple[str, ...], topology: Topology) -> None:
    """Report targets of an anti-affinity rule with a min_number_of_instances below 2."""
    for vdu, body in topology.nodes:
        node = topology.get_value(body, "properties", "vdu_profile", "min_number_of_instances")
        # None: not given.
        if vdu in targets and node.number in range(2):
            detail = (
                f'the rule "{name}" separates the VMs of "{vdu}", and its min_number_of_instances '
                f"is {node.number}. Tacker asks for 2 or more."
            )
            topology.notes.add_warning(node, SMALL_MINIMUM, detail)


def _select_known_names(
    references: list[tuple[str, Node]], known_names: list[str], description: str, topology: Topology
) -> list[str]:
    """Return the referenced names in `known_names`.

    Report names of no node of the document; skip other nodes silently. `description` is the report,
    with {} for the name.
    """
    for name, node in references:
        if name not in (*known_names, *topology.node_names):
            detail = f"{description.replace('{}', name, 1)}{suggest_name(name, known_names)}"
            topology.notes.add_warning(node, IGNORED, detail)
    return [name for name, _ in references if name in known_names]


_SIZE_PATTERN: Final = re.compile(r"\s*([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*([A-Za-z]+)\s*\Z")
_BYTES: Final = {
    "b": 1,
    "kb": 10**3,
    "kib": 2**10,
    "mb": 10**6,
    "mib": 2**20,
    "gb": 10**9,
    "gib": 2**30,
    "tb": 10**12,
    "tib": 2**40,
}
_MIB: Final = 2**20
_NANO: Final = 10**9


# Memory of flavors is counted in powers of two, whatever it is called: "4 GB" of it are 4 GiB.
_MEMORY_UNITS: Final = {**_BYTES, "kb": 2**10, "mb": 2**20, "gb": 2**30, "tb": 2**40}


def convert_to_mib(value: Any, units: Mapping[str, int]) -> int | None:
    """Return a size in whole MiB, rounded up.

    A size has a number and a known unit, such as "4 GB". Return None for another value.
    """
    match = _SIZE_PATTERN.match(get_text(value))
    if match is None:
        return None
    unit = units.get(match[2].lower())
    if unit is None:
        return None
    # Whole numbers keep the result exact.
    integer_part, _, fraction = match[1].partition(".")
    billionths = int(integer_part) * _NANO + int(fraction.ljust(9, "0"))
    return -(-billionths * unit // (_MIB * _NANO))  # rounded up


class _LegacyScaling(Struct, frozen=True):
    """Scaling policy of an older TOSCA profile.

    The policy has the numbers of VMs of each of its VDUs, and its aspect.
    """

    vdus: tuple[str, ...]
    minimum: int
    maximum: int | None
    initial: int
    body: Node
    aspect: ScalingAspect


def _parse_legacy_scaling(topology: Topology) -> Iterator[_LegacyScaling]:
    """Yield the older Scaling policies, each with an aspect.

    It has as many steps as fit between initial and maximum. With 2 VMs initially, 7 at most and an
    increment of 2, these are 2 steps.
    """
    for name, body in topology.policies:
        if topology.get_standard_type(body) not in (
            "tosca.policies.tacker.scaling",
            "tosca.policies.scaling",
        ):
            continue
        properties = body.get_node("properties")
        targets = (
            body.get_node("targets").list_texts() or properties.get_node("targets").list_texts()
        )
        vdus = tuple(target for target, _ in targets if target in topology.node_names)
        if not vdus:
            topology.notes.add_warning(
                body, IGNORED, f'the policy "{name}" applies to no VDU; it is ignored.'
            )
            continue
        minimum = parse_count_or_default(
            topology.get_value(properties, "min_instances"), topology.notes, default=0
        )
        maximum = parse_instance_count(
            topology.get_value(properties, "max_instances"), topology.notes
        )
        default_node = topology.get_value(properties, "default_instances")
        initial = parse_count_or_default(default_node, topology.notes, max(minimum, 1))
        step = max(
            parse_count_or_default(
                topology.get_value(properties, "increment"), topology.notes, default=1
            ),
            1,
        )
        # 0 without a maximum.
        levels = max((maximum or 0) - initial, 0) // step
        steps = tuple(VduScaleSteps(vdu, (step,)) for vdu in vdus)
        aspect = ScalingAspect(name, levels, steps, Origin(topology.notes.file, body.line))
        yield _LegacyScaling(vdus, minimum, maximum, initial, body, aspect)


def parse_legacy_placement(name: str, body: Node, topology: Topology) -> tuple[bool, bool] | None:
    """Return (is affinity, is hard) of a Placement policy, by default both.

    Return None for other and invalid policies.
    """
    if topology.get_standard_type(body) != "tosca.policies.tacker.placement":
        return None
    policy = topology.get_value(body, "properties", "policy")
    if not policy.is_absent and policy.text not in ("affinity", "anti-affinity"):
        topology.notes.add_warning(
            policy,
            IGNORED,
            f'the policy "{name}" is neither affinity nor anti-affinity; it is ignored.',
        )
        return None
    strict = topology.get_value(body, "properties", "strict")
    if not strict.is_absent and not isinstance(strict.data, bool):
        topology.notes.add_error(strict, INVALID_DOCUMENT, "strict must be true or false.")
    return policy.text != "anti-affinity", strict.data is not False


class ScalingPolicies(Struct, frozen=True):
    """Initial sizes (with their nodes) and bounds by VDU, aspects, and instantiation levels."""

    initial: Mapping[str, tuple[int, Node]] = field(default_factory=dict)
    aspects: tuple[ScalingAspect, ...] = ()
    levels: tuple[InstantiationLevel, ...] = ()
    default_level: str = ""
    bounds: Mapping[str, tuple[int, int | None]] = field(default_factory=dict)


class _Deltas(Struct, frozen=True):
    """VMs added by one aspect to one VDU, by delta id, and their policy."""

    policy: str
    amounts: Mapping[str, int]
    body: Node


def parse_scaling(topology: Topology) -> ScalingPolicies:
    """Return all instance numbers from the policies.

    They are listed by VDU (kind of VM), scaling aspect and instantiation level.
    """
    # Number of VMs and its node, by VDU.
    initial: dict[str, tuple[int, Node]] = {}
    for name, body in _select_policies(topology, "VduInitialDelta"):
        amount = topology.get_value(body, "properties", "initial_delta", "number_of_instances")
        number = parse_instance_count(amount, topology.notes)
        vdus = _collect_policy_targets(name, body, topology)
        if number is not None:
            initial |= dict.fromkeys(vdus, (number, amount))
    deltas = _collect_scaling_deltas(topology)
    aspects = tuple(_list_scaling_aspects(topology, deltas))
    _report_undeclared_aspects(deltas, [aspect.name for aspect in aspects], topology.notes)
    # Minimum and maximum by VDU; None if there is no maximum.
    bounds: dict[str, tuple[int, int | None]] = {}
    legacy_policies = list(_parse_legacy_scaling(topology))
    for legacy in legacy_policies:
        for vdu in legacy.vdus:
            # A number found earlier takes precedence.
            initial.setdefault(vdu, (legacy.initial, legacy.body))
            bounds[vdu] = (legacy.minimum, legacy.maximum)
    aspects = (*aspects, *(legacy.aspect for legacy in legacy_policies))
    levels, default = _parse_levels(topology)
    return ScalingPolicies(
        initial=initial, aspects=aspects, levels=levels, default_level=default, bounds=bounds
    )


def _select_policies(topology: Topology, kind: str) -> Iterator[tuple[str, Node]]:
    return ((name, body) for name, body in topology.policies if topology.get_kind(body) == kind)


def _collect_policy_targets(name: str, body: Node, topology: Topology) -> list[str]:
    """Return the nodes targeted by a policy; unknown ones are reported."""
    targets = body.get_node("targets").list_texts()
    if not targets:
        topology.notes.add_warning(
            body, IGNORED, f'the policy "{name}" names no target; it is ignored.'
        )
    description = f'the target "{{}}" of "{name}" is not a node of this document.'
    return _select_known_names(targets, topology.node_names, description, topology)


def _parse_counts(section: Node, key: str, topology: Topology) -> dict[str, int]:
    """Return the count at a key of each part of a section, by the part's name.

    Invalid ones are reported.
    """
    counts = {}
    for name, part in section.list_fields():
        number = parse_instance_count(topology.get_value(part, key), topology.notes)
        if number is not None:
            counts[name] = number
    return counts


def _report_undeclared_aspects(
    deltas: Mapping[str, Mapping[str, _Deltas]], names: list[str], notes: DocumentFindings
) -> None:
    """Warn about scaling aspects with deltas, if they are not among the declared `names`.

    There is one warning per aspect and VDU.
    """
    for aspect, deltas_by_vdu in deltas.items():
        if aspect not in names:
            first = next(iter(deltas_by_vdu.values()))
            hint = suggest_name(aspect, names)
            detail = (
                f'the policy "{first.policy}" uses the aspect "{aspect}", which no ScalingAspects '
                f"declares.{hint}"
            )
            notes.add_warning(first.body, IGNORED, detail)


def _collect_scaling_deltas(topology: Topology) -> dict[str, dict[str, _Deltas]]:
    """Return the VMs added by the steps of each aspect to each VDU.

    Report duplicate deltas; the last ones count.
    """
    by_aspect: dict[str, dict[str, _Deltas]] = {}
    for name, body in _select_policies(topology, "VduScalingAspectDeltas"):
        aspect = body.get_node("properties", "aspect").text
        amounts = _parse_counts(
            body.get_node("properties", "deltas"), "number_of_instances", topology
        )
        for vdu in _collect_policy_targets(name, body, topology):
            existing_deltas = by_aspect.setdefault(aspect, {}).get(vdu)
            if existing_deltas is not None:
                _warn_duplicate_deltas(
                    aspect, vdu, (existing_deltas, _Deltas(name, amounts, body)), topology
                )
            by_aspect[aspect][vdu] = _Deltas(name, amounts, body)
    return by_aspect


def _warn_duplicate_deltas(
    aspect: str, vdu: str, policies: tuple[_Deltas, _Deltas], topology: Topology
) -> None:
    """Warn about two policies for one scaling aspect and VDU.

    The name of one may hint at the intended VDU. A policy "VDU2_scaling" with the target VDU1 is
    likely for VDU2.
    """
    first, second = policies
    # "": no hint.
    wrong_policy = second
    intended_vdu = ""
    for deltas, name in product(policies, topology.node_names):
        if name != vdu and deltas.policy.startswith(name):
            wrong_policy = deltas
            intended_vdu = name
            # The first hint counts.
            break
    hint = f' By its name, "{wrong_policy.policy}" is for "{intended_vdu}".' if intended_vdu else ""
    detail = (
        f'"{first.policy}" (line {first.body.line}) and "{second.policy}" (line '
        f'{second.body.line}) both set the increase of "{vdu}" for the aspect "{aspect}". The last '
        f"one is used; they are not added.{hint}"
    )
    topology.notes.add_warning(wrong_policy.body.get_node("targets"), CORRECTED, detail)


def _list_scaling_aspects(
    topology: Topology, deltas: Mapping[str, Mapping[str, _Deltas]]
) -> Iterator[ScalingAspect]:
    """Yield the scaling aspects (VDUs scaled together) with the VMs added to each VDU by each step.

    `deltas` has these numbers by aspect, VDU and id of a delta. An aspect lists the deltas of its
    steps. Without a list, all deltas are steps. Aspects and deltas without numbers are reported.
    """
    for _, body in _select_policies(topology, "ScalingAspects"):
        for name, part in body.get_node("properties", "aspects").list_fields():
            maximum = parse_count_or_default(
                topology.get_value(part, "max_scale_level"), topology.notes, default=0
            )
            order = [text for text, _ in part.get_node("step_deltas").list_texts()]
            deltas_by_vdu = deltas.get(name, {})
            if not deltas_by_vdu:
                detail = f'the aspect "{name}" scales no VDU: no VduScalingAspectDeltas names it.'
                topology.notes.add_warning(part, IGNORED, detail)
                # Its deltas are not reported too.
                order = []
            known_deltas = set(
                chain.from_iterable(vdu_deltas.amounts for vdu_deltas in deltas_by_vdu.values())
            )
            for delta in order:
                if delta not in known_deltas:
                    hint = suggest_name(delta, sorted(known_deltas))
                    detail = (
                        f'the aspect "{name}" steps by "{delta}", which no VduScalingAspectDeltas '
                        f"defines.{hint}"
                    )
                    topology.notes.add_error(part.get_node("step_deltas"), INVALID_DOCUMENT, detail)
            steps = []
            for vdu, vdu_deltas in deltas_by_vdu.items():
                # Without step_deltas, all in their order.
                ids = order or list(vdu_deltas.amounts)
                steps.append(
                    VduScaleSteps(vdu, tuple(vdu_deltas.amounts.get(delta, 0) for delta in ids))
                )
            yield ScalingAspect(name, maximum, tuple(steps), Origin(topology.notes.file, part.line))


def _parse_levels(topology: Topology) -> tuple[tuple[InstantiationLevel, ...], str]:
    """Return the instantiation levels, and the default one.

    The default is the declared or the only level, else "".
    """
    # By level: number of VMs by VDU.
    numbers: dict[str, dict[str, int]] = {}
    for name, body in _select_policies(topology, "VduInstantiationLevels"):
        targets = _collect_policy_targets(name, body, topology)
        levels_node = body.get_node("properties", "levels")
        for level, number in _parse_counts(levels_node, "number_of_instances", topology).items():
            numbers.setdefault(level, {}).update(dict.fromkeys(targets, number))
    # By instantiation level: scale level by aspect.
    scale_levels: dict[str, dict[str, int]] = {}
    origins: dict[str, Origin] = {}
    default = ""
    for _, body in _select_policies(topology, "InstantiationLevels"):
        if declared := topology.get_value(body, "properties", "default_level").text:
            default = declared
            default_node = body.get_node("properties", "default_level")
        for level, part in body.get_node("properties", "levels").list_fields():
            origins[level] = Origin(topology.notes.file, part.line)
            scale_levels[level] = _parse_counts(
                part.get_node("scale_info"), "scale_level", topology
            )
    if default and default not in origins:
        detail = f'the default level "{default}" is not defined.{suggest_name(default, origins)}'
        topology.notes.add_warning(default_node, IGNORED, detail)
        default = ""
    names = list(dict.fromkeys([*origins, *numbers]))
    if not default and len(names) == 1:
        default = names[0]
    levels = []
    for name in names:
        # Of a level with numbers of VMs only.
        origin = origins.get(name, Origin(topology.notes.file, 1))
        levels.append(
            InstantiationLevel(name, scale_levels.get(name, {}), numbers.get(name, {}), origin)
        )
    return tuple(levels), default
