"""Policies of a VNFD about instance numbers: initial deltas, aspects and levels, and the older policies
tacker.Placement and tacker.Scaling.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Final

from msgspec import Struct, field

from nexusform.diagnostics.diagnostic import suggest_name
from nexusform.documents.yaml_documents import DocumentFindings, Node
from nexusform.domains.vnf.importers.tosca_topology import Topology, parse_instance_count
from nexusform.domains.vnf.importers.vnf_records import (
    CORRECTED,
    IGNORED,
    INVALID_DOCUMENT,
    InstantiationLevel,
    Origin,
    ScalingAspect,
    VduScaleSteps,
)

_SCALING: Final = ("tosca.policies.tacker.scaling", "tosca.policies.scaling")
_PLACEMENT: Final = "tosca.policies.tacker.placement"
_POLICIES: Final = {"affinity": True, "anti-affinity": False}


class LegacyScaling(Struct, frozen=True):
    """Scaling policy: the scaled VDUs, and its figures."""

    aspect: ScalingAspect
    vdus: tuple[str, ...]
    initial: int
    minimum: int
    maximum: int | None
    node: Node


def list_legacy_scaling(topology: Topology, notes: DocumentFindings) -> Iterator[LegacyScaling]:
    """Yield the Scaling policies; each is an aspect of its name."""
    for name, body in topology.policies:
        if topology.get_standard_type(body) not in _SCALING:
            continue
        figures = body.get_node("properties")
        targets = body.get_node("targets").list_texts() or figures.get_node("targets").list_texts()
        node_names = {node for node, _ in topology.nodes}
        vdus = tuple(target for target, _ in targets if target in node_names)
        if not vdus:
            notes.add_warning(body, IGNORED, f'the policy "{name}" applies to no VDU; it is ignored.')
            continue
        minimum = parse_instance_count(topology.resolve_value(figures.get_node("min_instances")), notes) or 0
        maximum = parse_instance_count(topology.resolve_value(figures.get_node("max_instances")), notes)
        default = parse_instance_count(topology.resolve_value(figures.get_node("default_instances")), notes)
        initial = max(minimum, 1) if default is None else default
        step = max(parse_instance_count(topology.resolve_value(figures.get_node("increment")), notes) or 1, 1)
        levels = max((maximum if maximum is not None else initial) - initial, 0) // step
        steps = tuple(VduScaleSteps(vdu, (step,)) for vdu in vdus)
        aspect = ScalingAspect(name, levels, steps, Origin(notes.file, body.line))
        yield LegacyScaling(aspect=aspect, vdus=vdus, initial=initial, minimum=minimum, maximum=maximum, node=body)


def parse_legacy_placement(
    name: str, body: Node, topology: Topology, notes: DocumentFindings
) -> tuple[bool, bool] | None:
    """Return (is affinity, is hard) of a Placement policy, with defaults; None for any other."""
    if topology.get_standard_type(body) != _PLACEMENT:
        return None
    policy = topology.resolve_value(body.get_node("properties", "policy"))
    is_affinity = True if policy.is_absent else _POLICIES.get(policy.text)
    if is_affinity is None:
        notes.add_warning(policy, IGNORED, f'the policy "{name}" is neither affinity nor anti-affinity; it is ignored.')
        return None
    strict = topology.resolve_value(body.get_node("properties", "strict"))
    if not strict.is_absent and not isinstance(strict.data, bool):
        notes.add_error(strict, INVALID_DOCUMENT, "strict must be true or false.")
    return is_affinity, strict.data is not False


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


def parse_scaling(topology: Topology, notes: DocumentFindings) -> ScalingPolicies:
    """Return all instance numbers from the policies."""
    initial: dict[str, tuple[int, Node]] = {}
    for name, body in _select_policies(topology, "VduInitialDelta"):
        amount = topology.resolve_value(body.get_node("properties", "initial_delta", "number_of_instances"))
        number = parse_instance_count(amount, notes)
        for vdu in _collect_policy_targets(name, body, topology, notes):
            if number is not None:
                initial[vdu] = (number, amount)
    deltas = _collect_scaling_deltas(topology, notes)
    aspects = tuple(_list_scaling_aspects(topology, deltas, notes))
    for aspect, deltas_by_vdu in deltas.items():
        if all(known_aspect.name != aspect for known_aspect in aspects):
            first_deltas = next(iter(deltas_by_vdu.values()))
            hint = suggest_name(aspect, [known_aspect.name for known_aspect in aspects])
            policy = first_deltas.policy
            detail = f'the policy "{policy}" uses the aspect "{aspect}", which no ScalingAspects declares.{hint}'
            notes.add_warning(first_deltas.body, IGNORED, detail)
    bounds: dict[str, tuple[int, int | None]] = {}
    for legacy in list_legacy_scaling(topology, notes):
        aspects = (*aspects, legacy.aspect)
        for vdu in legacy.vdus:
            initial.setdefault(vdu, (legacy.initial, legacy.node))
            bounds[vdu] = legacy.minimum, legacy.maximum
    levels, default = _parse_levels(topology, notes)
    return ScalingPolicies(initial=initial, aspects=aspects, levels=levels, default_level=default, bounds=bounds)


def _select_policies(topology: Topology, kind: str) -> Iterator[tuple[str, Node]]:
    return ((name, body) for name, body in topology.policies if topology.get_kind(body) == kind)


def _collect_policy_targets(name: str, body: Node, topology: Topology, notes: DocumentFindings) -> list[str]:
    """Return the nodes targeted by a policy; unknown ones are reported."""
    targets = body.get_node("targets").list_texts()
    if not targets:
        notes.add_warning(body, IGNORED, f'the policy "{name}" names no target; it is ignored.')
    node_names = [node for node, _ in topology.nodes]
    for target, target_node in targets:
        if target not in node_names:
            detail = (
                f'the target "{target}" of "{name}" is not a node of this document.{suggest_name(target, node_names)}'
            )
            notes.add_warning(target_node, IGNORED, detail)
    return [target for target, _ in targets if target in node_names]


# --- aspects -----------------------------------------------------------------------------------


def _collect_scaling_deltas(topology: Topology, notes: DocumentFindings) -> dict[str, dict[str, _Deltas]]:
    """Return the VMs added by the steps of each aspect to each VDU."""
    by_aspect: dict[str, dict[str, _Deltas]] = {}
    for name, body in _select_policies(topology, "VduScalingAspectDeltas"):
        aspect = body.get_node("properties", "aspect").text
        amounts = {}
        for delta, part in body.get_node("properties", "deltas").list_fields():
            number = parse_instance_count(topology.resolve_value(part.get_node("number_of_instances")), notes)
            if number is not None:
                amounts[delta] = number
        for vdu in _collect_policy_targets(name, body, topology, notes):
            existing_deltas = by_aspect.setdefault(aspect, {}).get(vdu)
            if existing_deltas is not None:
                _warn_duplicate_deltas(aspect, vdu, (existing_deltas, _Deltas(name, amounts, body)), topology, notes)
            by_aspect[aspect][vdu] = _Deltas(name, amounts, body)
    return by_aspect


def _warn_duplicate_deltas(
    aspect: str, vdu: str, policies: tuple[_Deltas, _Deltas], topology: Topology, notes: DocumentFindings
) -> None:
    """Warn about two policies for one aspect and VDU; the name of one may hint at the intended VDU."""
    other_names = [name for name, _ in topology.nodes if name != vdu]
    wrong_policy, hint = policies[1], ""
    for deltas in policies:
        intended_vdu = next((name for name in other_names if deltas.policy.startswith(name)), None)
        if intended_vdu is not None:
            wrong_policy = deltas
            hint = f' By its name, "{wrong_policy.policy}" is for "{intended_vdu}".'
            break
    detail = (
        f'"{policies[0].policy}" (line {policies[0].body.line}) and "{policies[1].policy}" (line '
        f'{policies[1].body.line}) both set the increase of "{vdu}" for the aspect "{aspect}". '
        f"The last one is used; they are not added.{hint}"
    )
    notes.add_warning(wrong_policy.body.get_node("targets"), CORRECTED, detail)


def _list_scaling_aspects(
    topology: Topology, deltas: Mapping[str, Mapping[str, _Deltas]], notes: DocumentFindings
) -> Iterator[ScalingAspect]:
    """Yield the scaling aspects with the VMs added per step."""
    for _, body in _select_policies(topology, "ScalingAspects"):
        for name, part in body.get_node("properties", "aspects").list_fields():
            maximum = parse_instance_count(topology.resolve_value(part.get_node("max_scale_level")), notes)
            order = [text for text, _ in part.get_node("step_deltas").list_texts()]
            deltas_by_vdu = deltas.get(name, {})
            if not deltas_by_vdu:
                detail = f'the aspect "{name}" scales no VDU: no VduScalingAspectDeltas names it.'
                notes.add_warning(part, IGNORED, detail)
            known_deltas = set(chain.from_iterable(vdu_deltas.amounts for vdu_deltas in deltas_by_vdu.values()))
            for delta in order:
                if deltas_by_vdu and delta not in known_deltas:
                    hint = suggest_name(delta, sorted(known_deltas))
                    detail = f'the aspect "{name}" steps by "{delta}", which no VduScalingAspectDeltas defines.{hint}'
                    notes.add_error(part.get_node("step_deltas"), INVALID_DOCUMENT, detail)
            steps = []
            for vdu, vdu_deltas in deltas_by_vdu.items():
                ids = order or list(vdu_deltas.amounts)
                steps.append(VduScaleSteps(vdu, tuple(vdu_deltas.amounts.get(delta, 0) for delta in ids)))
            yield ScalingAspect(name, maximum or 0, tuple(steps), Origin(notes.file, part.line))


# --- instantiation levels ----------------------------------------------------------------------


def _parse_levels(topology: Topology, notes: DocumentFindings) -> tuple[tuple[InstantiationLevel, ...], str]:
    """Return the instantiation levels, and the name of the default one ("" = none)."""
    sizes: dict[str, dict[str, int]] = {}
    for name, body in _select_policies(topology, "VduInstantiationLevels"):
        targets = _collect_policy_targets(name, body, topology, notes)
        for level, part in body.get_node("properties", "levels").list_fields():
            number = parse_instance_count(topology.resolve_value(part.get_node("number_of_instances")), notes)
            if number is not None:
                sizes.setdefault(level, {}).update(dict.fromkeys(targets, number))
    scales: dict[str, dict[str, int]] = {}
    origins: dict[str, Origin] = {}
    default = ""
    for _, body in _select_policies(topology, "InstantiationLevels"):
        default = topology.resolve_value(body.get_node("properties", "default_level")).text or default
        for level, part in body.get_node("properties", "levels").list_fields():
            origins[level] = Origin(notes.file, part.line)
            scales[level] = {}
            for aspect, info in part.get_node("scale_info").list_fields():
                number = parse_instance_count(topology.resolve_value(info.get_node("scale_level")), notes)
                if number is not None:
                    scales[level][aspect] = number
        if default and default not in origins:
            detail = f'the default level "{default}" is not defined.{suggest_name(default, origins)}'
            notes.add_warning(body.get_node("properties", "default_level"), IGNORED, detail)
            default = ""
    names = list(dict.fromkeys([*origins, *sizes]))
    if not default and len(names) == 1:
        default = names[0]
    default_origin = Origin(notes.file, 1)
    levels = tuple(
        InstantiationLevel(name, scales.get(name, {}), sizes.get(name, {}), origins.get(name, default_origin))
        for name in names
    )
    return levels, default
