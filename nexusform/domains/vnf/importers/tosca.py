"""A VNFD (ETSI SOL001 in TOSCA YAML) as far as placement goes: VDUs, sizes, counts, groups and rules. One of
SOL006 is recognised, and read by `sol006`.

Tolerant: what is written wrongly is read as meant, with a warning; what does not concern placement is
passed over in silence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import ceil
from typing import Any, Final

from msgspec.structs import replace

from nexusform.diagnostics import did_you_mean
from nexusform.documents.yaml_text import Node, Notes
from nexusform.domains.vnf.importers.foreign import foreign_kind
from nexusform.domains.vnf.importers.sol006 import descriptor_of, read_sol006
from nexusform.domains.vnf.importers.tosca_scaling import Scaling, legacy_placement, read_scaling
from nexusform.domains.vnf.importers.tosca_topology import Topology, instance_count, read_topology
from nexusform.domains.vnf.importers.vnf_model import (
    CORRECTED,
    IGNORED,
    INVALID_DOCUMENT,
    MACHINE,
    RACK,
    SITE,
    Origin,
    Rule,
    Size,
    Vdu,
    Vnf,
)
from nexusform.domains.vnf.importers.vnf_text import open_text
from nexusform.scheduling.racks.vms import gib

_VDU_TYPES: Final = ("vdu.compute", "vdu.tacker")
_CONTAINER: Final = "vdu.oscontainerdeployableunit"
_SCOPES: Final[Mapping[str, str]] = {
    "nfvi_node": MACHINE,
    "zone": RACK,
    "zone_group": SITE,
    "nfvi_pop": SITE,
}
_RULES: Final[Mapping[str, bool]] = {"AffinityRule": True, "AntiAffinityRule": False}
_GROUP: Final = "PlacementGroup"


def read_vnfd(text: str, parameters: Mapping[str, Any], flavour_id: str, notes: Notes) -> Vnf:
    """The VNF of a VNFD; what is to be said about it goes to `notes`."""
    documents = open_text(text, notes)
    descriptor = next(filter(None, map(descriptor_of, documents)), None)
    if descriptor is not None:
        return read_sol006(descriptor, flavour_id, notes)
    topology = read_topology(documents, parameters, flavour_id, notes)
    scaling = read_scaling(topology, notes)
    vdus = tuple(_vdus(topology, scaling, notes))
    if not vdus:
        _say_what_it_is(documents, notes)
    names = [vdu.name for vdu in vdus]
    groups = _groups(topology, names, notes)
    rules = tuple(_rules(topology, names, groups, notes))
    return Vnf(
        vdus=vdus,
        rules=rules,
        aspects=scaling.aspects,
        levels=scaling.levels,
        default_level=scaling.default_level,
    )


def _say_what_it_is(documents: list[Node], notes: Notes) -> None:
    """Name documents without a VDU that are of another kind."""
    known = ("heat_template_version", "HeatTemplateFormatVersion")
    for document in documents:
        if any(not document.at(key).absent for key in known):
            notes.error(document, INVALID_DOCUMENT, "this is a HOT template: give it as base_hot.")
            return
    kind = foreign_kind(document.data for document in documents)
    if kind:
        notes.error(documents[0], INVALID_DOCUMENT, f"this is {kind}.")


# --- VDUs --------------------------------------------------------------------------------------


def _vdus(topology: Topology, scaling: Scaling, notes: Notes) -> Iterator[Vdu]:
    """The VDUs that are VMs, each of a name once, with their numbers."""
    known: set[str] = set()
    for name, body in topology.nodes:
        kind = topology.full_type(body)
        if kind.endswith(_CONTAINER):
            notes.warn(
                body,
                IGNORED,
                f'the VDU "{name}" is a group of containers, not a VM; pods are placed elsewhere.',
            )
            continue
        if not kind.endswith(_VDU_TYPES):
            continue
        if name in known:
            notes.error(body, INVALID_DOCUMENT, f'the VDU "{name}" is described twice.')
            continue
        known.add(name)
        if not name or "|" in name or "/" in name:
            notes.error(body, INVALID_DOCUMENT, f'the VDU "{name}" needs a name without "|" and "/".')
            continue
        yield _counted(
            Vdu(name, Origin(notes.file, body.line), _size(topology, body, notes)),
            body,
            topology,
            scaling,
            notes,
        )


def _counted(vdu: Vdu, body: Node, topology: Topology, scaling: Scaling, notes: Notes) -> Vdu:
    """The VDU with its least, most and initial number."""
    profile = body.at("properties", "vdu_profile")
    bounds = scaling.bounds.get(vdu.name)
    if profile.absent and bounds is None and not topology.full_type(body).endswith("tacker"):
        notes.warn(
            body,
            CORRECTED,
            f'the VDU "{vdu.name}" has no vdu_profile; its number of instances is not bounded.',
        )
    lower, upper = (topology.value(profile.at(f"{end}_number_of_instances")) for end in ("min", "max"))
    least = instance_count(lower, notes, "the number of instances") or 0
    most = instance_count(upper, notes, "the number of instances")
    if profile.absent and bounds is not None:
        least, most = bounds
    if most is not None and most < least:
        detail = f'the VDU "{vdu.name}" may have at most {most} instances, and at least {least}.'
        notes.error(profile, INVALID_DOCUMENT, detail)
    start = scaling.initial.get(vdu.name)
    initial = start[0] if start is not None else max(least, 1)
    if start is not None and initial < least:
        notes.warn(
            start[1],
            CORRECTED,
            f'the initial delta gives "{vdu.name}" {initial}, less than its min_number_of_instances of '
            f"{least} (line {profile.at('min_number_of_instances').line}); the larger number is taken.",
        )
        initial = least
    stated = start is not None or any(vdu.name in level.sizes for level in scaling.levels)
    bounded = most is not None or least > 0
    return replace(vdu, minimum=least, maximum=most, initial=initial, stated=stated, bounded=bounded)


def _size(topology: Topology, body: Node, notes: Notes) -> Size:
    """The processors, memory and disk of a VDU, from the capabilities of either version."""
    compute = body.at("capabilities", "virtual_compute", "properties")
    if compute.absent:
        compute = body.at("capabilities", "virtual_compute")
    old = body.at("capabilities", "nfv_compute", "properties")
    if compute.absent and not old.absent:
        return Size(
            topology.value(old.at("num_cpus")).number,
            _memory(topology.value(old.at("mem_size")), notes),
            _storage(topology.value(old.at("disk_size")), notes),
        )
    cpus = topology.value(compute.at("virtual_cpu", "num_virtual_cpu"))
    number = cpus.number
    if not cpus.absent and (number is None or number < 1):
        notes.warn(cpus, IGNORED, "the number of virtual CPUs must be a whole number above 0; it is ignored.")
        number = None
    memory = _memory(topology.value(compute.at("virtual_memory", "virtual_mem_size")), notes)
    return Size(number, memory or None, _disk(topology, compute.at("virtual_local_storage"), notes))


def _disk(topology: Topology, storage: Node, notes: Notes) -> int | None:
    parts = [storage] if isinstance(storage.data, dict) else list(storage.items())
    sizes = [_storage(topology.value(part.at("size_of_storage")), notes) for part in parts]
    known = [size for size in sizes if size is not None]
    return sum(known) if known else None


def _memory(node: Node, notes: Notes) -> float | None:
    """Memory in GiB, in whole MiB."""
    size = _mib(node, notes, _OF_MEMORY)
    return None if size is None else gib(size)


def _storage(node: Node, notes: Notes) -> int | None:
    """A disk in whole GiB."""
    size = _mib(node, notes, _BYTES)
    return None if size is None else ceil(gib(size))


def _mib(node: Node, notes: Notes, units: Mapping[str, int]) -> int | None:
    """A size in MiB; a warning for one that cannot be read."""
    if node.absent:
        return None
    size = mib(node.data, units)
    if size is None:
        notes.warn(
            node,
            IGNORED,
            f'the size "{str(node.data)[:40]}" is not a number with a unit such as "4 GB" or "4 GiB".',
        )
    return size


# --- groups and rules --------------------------------------------------------------------------


def _groups(topology: Topology, vdus: list[str], notes: Notes) -> dict[str, tuple[str, ...]]:
    """The VDUs of each placement group."""
    groups: dict[str, tuple[str, ...]] = {}
    for name, body in topology.groups:
        if topology.kind(body) != _GROUP:
            continue
        description = body.at("description")
        if description.absent and body.at("properties", "description").absent:
            notes.warn(
                body, CORRECTED, f'the placement group "{name}" has no description, which SOL001 requires.'
            )
        members = body.at("members")
        if members.absent:
            members = body.at("targets")
        known = []
        for member, at in members.texts():
            if member in vdus:
                known.append(member)
            elif not _is_node(topology, member):
                notes.warn(
                    at,
                    IGNORED,
                    f'the member "{member}" of "{name}" is no VDU of this document.'
                    f"{did_you_mean(member, vdus)}",
                )
        if not known:
            notes.warn(body, IGNORED, f'the placement group "{name}" has no VDU as a member.')
        groups[name] = tuple(dict.fromkeys(known))
    return groups


def _is_node(topology: Topology, name: str) -> bool:
    """Virtual links may be members and targets, too; they are not placed."""
    return any(name == node for node, _ in topology.nodes)


def _rules(
    topology: Topology, vdus: list[str], groups: Mapping[str, tuple[str, ...]], notes: Notes
) -> Iterator[Rule]:
    """The rules of placement among the policies."""
    for name, body in topology.policies:
        affinity = _RULES.get(topology.kind(body))
        old = legacy_placement(name, body, topology, notes) if affinity is None else None
        if affinity is None and old is None:
            continue
        targets = _targets(name, body, topology, vdus, groups, notes)
        hard = True
        if old is not None:
            affinity, hard = old
            scope, label = MACHINE, "tacker.Placement"
        else:
            scope, label = _scope(name, body, topology, notes)
        if not targets:
            notes.warn(body, IGNORED, f'the rule "{name}" concerns no VDU; it is ignored.')
        elif scope:
            origin = Origin(notes.file, body.line)
            yield Rule(
                name=name,
                affinity=bool(affinity),
                hard=hard,
                scope=scope,
                vdus=targets,
                origin=origin,
                label=label,
            )


def _targets(
    name: str,
    body: Node,
    topology: Topology,
    vdus: list[str],
    groups: Mapping[str, tuple[str, ...]],
    notes: Notes,
) -> tuple[str, ...]:
    """The VDUs that a rule concerns, those of placement groups among them."""
    names: list[str] = []
    for target, at in body.at("targets").texts():
        if target in groups:
            names += groups[target]
        elif target in vdus:
            names.append(target)
        elif not _is_node(topology, target):
            hint = did_you_mean(target, [*vdus, *groups])
            notes.warn(at, IGNORED, f'the target "{target}" of "{name}" is no VDU or placement group.{hint}')
    return tuple(dict.fromkeys(names))


def _scope(name: str, body: Node, topology: Topology, notes: Notes) -> tuple[str, str]:
    """The scope in our words, and as written."""
    written = topology.value(body.at("properties", "scope"))
    if written.absent:
        notes.error(body, INVALID_DOCUMENT, f'the rule "{name}" names no scope, such as nfvi_node.')
        return "", ""
    scope = _SCOPES.get(written.text.lower())
    if scope is None:
        notes.warn(
            written,
            IGNORED,
            f'the rule "{name}" has the scope "{str(written.data)[:40]}", which says nothing about machines, '
            "racks or sites (nfvi_node, zone, zone_group, nfvi_pop); it is ignored.",
        )
        return "", ""
    return scope, written.text


# --- sizes -----------------------------------------------------------------------------------

_FORM: Final = re.compile(r"\s*([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*([A-Za-z]+)\s*\Z")
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
_OF_MEMORY: Final = {**_BYTES, "kb": 2**10, "mb": 2**20, "gb": 2**30, "tb": 2**40}


def mib(value: Any, units: Mapping[str, int]) -> int | None:
    """A size in whole MiB, rounded up; None when it has no known unit."""
    match = _FORM.match(value) if isinstance(value, str) else None
    if match is None:
        return None
    unit = units.get(match[2].lower())
    if unit is None:
        return None
    whole, _, fraction = match[1].partition(".")
    billionths = int(whole) * _NANO + int(fraction.ljust(9, "0") or "0")
    return -(-billionths * unit // (_MIB * _NANO))
