"""Policies that Tacker had before SOL001, and VNFDs still use: tacker.Placement and tacker.Scaling."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from nexusform.importers.tosca_topology import Topology
from nexusform.importers.vnf_model import CORRECTED, IGNORED, MOST_INSTANCES, Aspect, Origin, Steps
from nexusform.importers.yaml_node import Node, Notes

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
        least = _figure(topology, figures.at("min_instances"), notes) or 0
        most = _figure(topology, figures.at("max_instances"), notes)
        default = _figure(topology, figures.at("default_instances"), notes)
        initial = max(least, 1) if default is None else default
        step = max(_figure(topology, figures.at("increment"), notes) or 1, 1)
        levels = max((most if most is not None else initial) - initial, 0) // step
        steps = tuple(Steps(vdu, (step,)) for vdu in vdus)
        aspect = Aspect(name, levels, steps, Origin(notes.file, body.line))
        yield LegacyScaling(aspect, vdus, initial, least, most, body)


def _figure(topology: Topology, node: Node, notes: Notes) -> int | None:
    value = topology.value(node)
    if value.absent:
        return None
    number = value.number
    if number is None or not 0 <= number <= MOST_INSTANCES:
        notes.warn(node, IGNORED, f"this must be a whole number from 0 to {MOST_INSTANCES:,}; it is ignored.")
        return None
    return number


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
        notes.warn(strict, CORRECTED, "strict must be true or false; true is taken.")
    return affinity, strict.data is not False
