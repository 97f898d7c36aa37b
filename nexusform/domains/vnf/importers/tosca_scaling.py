"""The policies of a VNFD that say how many instances there are: initial deltas, aspects, levels; and those
that Tacker had before SOL001 and VNFDs still use, tacker.Placement and tacker.Scaling.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Final

from msgspec import Struct, field

from nexusform.diagnostics import did_you_mean
from nexusform.documents.yaml_text import Node, Notes
from nexusform.domains.vnf.importers.tosca_topology import Topology, instance_count
from nexusform.domains.vnf.importers.vnf_model import (
    CORRECTED,
    IGNORED,
    INVALID_DOCUMENT,
    Aspect,
    Level,
    Origin,
    Steps,
)

_SCALING: Final = ("tosca.policies.tacker.scaling", "tosca.policies.scaling")
_PLACEMENT: Final = "tosca.policies.tacker.placement"
_POLICIES: Final = {"affinity": True, "anti-affinity": False}


class LegacyScaling(Struct, frozen=True):
    """One Scaling policy: the VDUs it scales, and its figures."""

    aspect: Aspect
    vdus: tuple[str, ...]
    initial: int
    least: int
    most: int | None
    node: Node


def legacy_scaling(topology: Topology, notes: Notes) -> Iterator[LegacyScaling]:
    """The Scaling policies; each is an aspect of its name."""
    for name, body in topology.policies:
        if topology.full_type(body) not in _SCALING:
            continue
        figures = body.at("properties")
        targets = body.at("targets").texts() or figures.at("targets").texts()
        known = {node for node, _ in topology.nodes}
        vdus = tuple(target for target, _ in targets if target in known)
        if not vdus:
            notes.warn(body, IGNORED, f'the policy "{name}" concerns no VDU; it is ignored.')
            continue
        least = instance_count(topology.value(figures.at("min_instances")), notes) or 0
        most = instance_count(topology.value(figures.at("max_instances")), notes)
        default = instance_count(topology.value(figures.at("default_instances")), notes)
        initial = max(least, 1) if default is None else default
        step = max(instance_count(topology.value(figures.at("increment")), notes) or 1, 1)
        levels = max((most if most is not None else initial) - initial, 0) // step
        steps = tuple(Steps(vdu, (step,)) for vdu in vdus)
        aspect = Aspect(name, levels, steps, Origin(notes.file, body.line))
        yield LegacyScaling(aspect=aspect, vdus=vdus, initial=initial, least=least, most=most, node=body)


def legacy_placement(name: str, body: Node, topology: Topology, notes: Notes) -> tuple[bool, bool] | None:
    """(affinity, hard) of a Placement policy, None for any other; what it leaves out has defaults."""
    if topology.full_type(body) != _PLACEMENT:
        return None
    policy = topology.value(body.at("properties", "policy"))
    affinity = True if policy.absent else _POLICIES.get(policy.text)
    if affinity is None:
        notes.warn(
            policy, IGNORED, f'the policy "{name}" is neither affinity nor anti-affinity; it is ignored.'
        )
        return None
    strict = topology.value(body.at("properties", "strict"))
    if not strict.absent and not isinstance(strict.data, bool):
        notes.error(strict, INVALID_DOCUMENT, "strict must be true or false.")
    return affinity, strict.data is not False


class Scaling(Struct, frozen=True):
    """Initial sizes (with where they stand) and bounds by VDU, aspects, and instantiation levels."""

    initial: Mapping[str, tuple[int, Node]] = field(default_factory=dict)
    aspects: tuple[Aspect, ...] = ()
    levels: tuple[Level, ...] = ()
    default_level: str = ""
    bounds: Mapping[str, tuple[int, int | None]] = field(default_factory=dict)


class _Deltas(Struct, frozen=True):
    """What one aspect adds to one VDU, by delta id, and the policy that says so."""

    policy: str
    amounts: Mapping[str, int]
    body: Node


def read_scaling(topology: Topology, notes: Notes) -> Scaling:
    """Everything that the policies say about numbers of instances."""
    initial: dict[str, tuple[int, Node]] = {}
    for name, body in _of_kind(topology, "VduInitialDelta"):
        amount = topology.value(body.at("properties", "initial_delta", "number_of_instances"))
        number = instance_count(amount, notes)
        for vdu in _targets(name, body, topology, notes):
            if number is not None:
                initial[vdu] = (number, amount)
    deltas = _deltas(topology, notes)
    aspects = tuple(_aspects(topology, deltas, notes))
    for aspect, per_vdu in deltas.items():
        if all(known.name != aspect for known in aspects):
            first = next(iter(per_vdu.values()))
            names = [known.name for known in aspects]
            notes.warn(
                first.body,
                IGNORED,
                f'the policy "{first.policy}" is for the aspect "{aspect}", which no ScalingAspects declares.'
                f"{did_you_mean(aspect, names)}",
            )
    bounds: dict[str, tuple[int, int | None]] = {}
    for old in legacy_scaling(topology, notes):
        aspects = (*aspects, old.aspect)
        for vdu in old.vdus:
            initial.setdefault(vdu, (old.initial, old.node))
            bounds[vdu] = old.least, old.most
    levels, default = _levels(topology, notes)
    return Scaling(initial=initial, aspects=aspects, levels=levels, default_level=default, bounds=bounds)


def _of_kind(topology: Topology, kind: str) -> Iterator[tuple[str, Node]]:
    return ((name, body) for name, body in topology.policies if topology.kind(body) == kind)


def _targets(name: str, body: Node, topology: Topology, notes: Notes) -> list[str]:
    """The nodes that a policy names; others are said."""
    targets = body.at("targets").texts()
    if not targets:
        notes.warn(body, IGNORED, f'the policy "{name}" names no target; it is ignored.')
    known = [node for node, _ in topology.nodes]
    for target, at in targets:
        if target not in known:
            notes.warn(
                at,
                IGNORED,
                f'the target "{target}" of "{name}" is no node of this document.'
                f"{did_you_mean(target, known)}",
            )
    return [target for target, _ in targets if target in known]


# --- aspects -----------------------------------------------------------------------------------


def _deltas(topology: Topology, notes: Notes) -> dict[str, dict[str, _Deltas]]:
    """What the steps of each aspect add to each VDU."""
    by_aspect: dict[str, dict[str, _Deltas]] = {}
    for name, body in _of_kind(topology, "VduScalingAspectDeltas"):
        aspect = body.at("properties", "aspect").text
        amounts = {}
        for delta, part in body.at("properties", "deltas").fields():
            number = instance_count(topology.value(part.at("number_of_instances")), notes)
            if number is not None:
                amounts[delta] = number
        for vdu in _targets(name, body, topology, notes):
            earlier = by_aspect.setdefault(aspect, {}).get(vdu)
            if earlier is not None:
                _told_twice(aspect, vdu, (earlier, _Deltas(name, amounts, body)), topology, notes)
            by_aspect[aspect][vdu] = _Deltas(name, amounts, body)
    return by_aspect


def _told_twice(
    aspect: str, vdu: str, both: tuple[_Deltas, _Deltas], topology: Topology, notes: Notes
) -> None:
    """Two policies for one aspect and VDU; the name of one may tell which VDU it was meant for."""
    others = [name for name, _ in topology.nodes if name != vdu]
    slip, hint = both[1], ""
    for deltas in both:
        meant = next((name for name in others if deltas.policy.startswith(name)), None)
        if meant is not None:
            slip = deltas
            hint = f' By its name, "{slip.policy}" is meant for "{meant}".'
            break
    notes.warn(
        slip.body.at("targets"),
        CORRECTED,
        f'"{both[0].policy}" (line {both[0].body.line}) and "{both[1].policy}" (line {both[1].body.line}) '
        f'both say what the aspect "{aspect}" adds to "{vdu}"; the last one counts, they are not '
        f"added up.{hint}",
    )


def _aspects(
    topology: Topology, deltas: Mapping[str, Mapping[str, _Deltas]], notes: Notes
) -> Iterator[Aspect]:
    """The scaling aspects with what a step of each adds to its VDUs."""
    for _, body in _of_kind(topology, "ScalingAspects"):
        for name, part in body.at("properties", "aspects").fields():
            most = instance_count(topology.value(part.at("max_scale_level")), notes)
            order = [text for text, _ in part.at("step_deltas").texts()]
            per_vdu = deltas.get(name, {})
            if not per_vdu:
                notes.warn(
                    part, IGNORED, f'the aspect "{name}" scales no VDU: no VduScalingAspectDeltas names it.'
                )
            _check_deltas(name, order, per_vdu, part, notes)
            steps = []
            for vdu, known in per_vdu.items():
                ids = order or list(known.amounts)
                steps.append(Steps(vdu, tuple(known.amounts.get(delta, 0) for delta in ids)))
            yield Aspect(name, most or 0, tuple(steps), Origin(notes.file, part.line))


def _check_deltas(
    aspect: str, order: list[str], per_vdu: Mapping[str, _Deltas], part: Node, notes: Notes
) -> None:
    """Report steps that no VDU describes."""
    for delta in order:
        if per_vdu and all(delta not in known.amounts for known in per_vdu.values()):
            named = sorted(set(chain.from_iterable(known.amounts for known in per_vdu.values())))
            notes.error(
                part.at("step_deltas"),
                INVALID_DOCUMENT,
                f'the aspect "{aspect}" steps by "{delta}", which no VduScalingAspectDeltas describes.'
                f"{did_you_mean(delta, named)}",
            )


# --- instantiation levels ----------------------------------------------------------------------


def _levels(topology: Topology, notes: Notes) -> tuple[tuple[Level, ...], str]:
    """The instantiation levels, and the name of the default one ("": none)."""
    sizes: dict[str, dict[str, int]] = {}
    for name, body in _of_kind(topology, "VduInstantiationLevels"):
        targets = _targets(name, body, topology, notes)
        for level, part in body.at("properties", "levels").fields():
            number = instance_count(topology.value(part.at("number_of_instances")), notes)
            if number is not None:
                sizes.setdefault(level, {}).update(dict.fromkeys(targets, number))
    scales: dict[str, dict[str, int]] = {}
    origins: dict[str, Origin] = {}
    default = ""
    for _, body in _of_kind(topology, "InstantiationLevels"):
        default = topology.value(body.at("properties", "default_level")).text or default
        for level, part in body.at("properties", "levels").fields():
            origins[level] = Origin(notes.file, part.line)
            scales[level] = {}
            for aspect, info in part.at("scale_info").fields():
                number = instance_count(topology.value(info.at("scale_level")), notes)
                if number is not None:
                    scales[level][aspect] = number
        if default and default not in origins:
            notes.warn(
                body.at("properties", "default_level"),
                IGNORED,
                f'the default level "{default}" is not described.{did_you_mean(default, origins)}',
            )
            default = ""
    names = list(dict.fromkeys([*origins, *sizes]))
    if not default and len(names) == 1:
        default = names[0]
    nowhere = Origin(notes.file, 1)
    return (
        tuple(
            Level(name, scales.get(name, {}), sizes.get(name, {}), origins.get(name, nowhere))
            for name in names
        ),
        default,
    )
