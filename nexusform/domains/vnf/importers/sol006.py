"""A VNFD as ETSI SOL006 describes it (YANG, written as YAML), the form of OSM's packages, as far as placement
goes: VDUs, sizes, deployment flavours, levels, scaling, affinity and anti-affinity.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from math import ceil
from typing import Any, Final

from msgspec import Struct

from nexusform.diagnostics import did_you_mean
from nexusform.documents.shapes import mappings_at
from nexusform.documents.yaml_text import Node, Notes
from nexusform.domains.vnf.importers.tosca_topology import instance_count
from nexusform.domains.vnf.importers.vnf_model import (
    IGNORED,
    INVALID_DOCUMENT,
    MACHINE,
    RACK,
    SITE,
    Aspect,
    Level,
    Origin,
    Rule,
    Size,
    Steps,
    Vdu,
    Vnf,
)
from nexusform.scheduling.racks.vms import gib

_DESCRIPTOR: Final = "vnfd"
_FLAVOUR: Final = "df"
_GROUP: Final = "affinity-or-anti-affinity-group"
_LOCAL_RULE: Final = "local-affinity-or-anti-affinity-rule"
_SCOPES: Final[Mapping[str, str]] = {
    "nfvi-node": MACHINE,
    "zone": RACK,
    "zone-group": SITE,
    "nfvi-pop": SITE,
}
_TYPES: Final[Mapping[str, bool]] = {"affinity": True, "anti-affinity": False}
_MIB_OF_A_GB: Final = 1024
_LARGEST_SIZE: Final = 10**6


class _Known(Struct, frozen=True):
    """What the parts of a descriptor refer to: the names of its VDUs, and what is to be said."""

    vdus: Sequence[str]
    notes: Notes

    def vdu(self, at: Node, used_by: str) -> str:
        """The VDU that is named; "" for one that there is not, which is said."""
        name = _text(at)
        if name in self.vdus:
            return name
        hint = did_you_mean(name, self.vdus)
        self.notes.warn(at, IGNORED, f'{used_by} names the VDU "{name}", which is not described here.{hint}')
        return ""


def descriptor_of(document: Node) -> Node | None:
    """The descriptor in a document, None for one of another kind."""
    for wrapper in (document, *(part for key, part in document.fields() if _bare(key) == "nfv")):
        for key, part in wrapper.fields():
            if _bare(key) != _DESCRIPTOR:
                continue
            first = next(part.items(), part)
            if not first.at(_FLAVOUR).absent or not first.at("vdu").absent or not first.at("kdu").absent:
                return first
    return None


def flavours_of(says: Mapping[str, Any]) -> list[str]:
    """The deployment flavours that a document (plain data) describes; none where it is of another kind."""
    descriptors = [part for key, part in says.items() if _bare(str(key)) == _DESCRIPTOR]
    flavours = chain.from_iterable(mappings_at(part, _FLAVOUR) for part in descriptors)
    return [str(each["id"]) for each in flavours if each.get("id") is not None]


def read_sol006(descriptor: Node, flavour_id: str, notes: Notes) -> Vnf:
    """The VNF of a descriptor in one of its flavours; what is to be said about it goes to `notes`."""
    bodies = _by_id(descriptor.at("vdu"), "VDU", notes)
    flavour = _flavour(descriptor, flavour_id, notes)
    _say_of_containers(descriptor, notes)
    if flavour is None:
        return Vnf()
    known = _Known(tuple(bodies), notes)
    profiles = _profiles(flavour, known)
    levels = tuple(_levels(flavour, known))
    default = _default_level(flavour, levels, notes)
    first = next((level for level in levels if level.name == default), None)
    sizes = first.sizes if first is not None else {}
    vdus = tuple(
        _vdu(name, body, descriptor, profiles.get(name), sizes.get(name), notes)
        for name, body in bodies.items()
    )
    return Vnf(
        vdus=vdus,
        rules=tuple(_rules(flavour, profiles, known)),
        aspects=tuple(_aspects(flavour, known)),
        levels=levels,
        default_level=default,
    )


def _bare(key: str) -> str:
    """A key without the YANG module that may stand before it (`etsi-nfv-descriptors:vnfd`)."""
    return key.rpartition(":")[2]


def _text(node: Node) -> str:
    """A name: a text, or a number that stands where one is meant."""
    is_number = isinstance(node.data, int | float) and not isinstance(node.data, bool)
    return str(node.data) if is_number else node.text


def _by_id(section: Node, what: str, notes: Notes) -> dict[str, Node]:
    """The entries of a list by their id, each of an id once."""
    entries: dict[str, Node] = {}
    for body in [section] if isinstance(section.data, dict) else section.items():
        name = _text(body.at("id"))
        if not name or "|" in name or "/" in name:
            notes.error(body, INVALID_DOCUMENT, f'a {what} needs an id without "|" and "/".')
        elif name in entries:
            notes.error(body, INVALID_DOCUMENT, f'the {what} "{name}" is described twice.')
        else:
            entries[name] = body
    return entries


def _flavour(descriptor: Node, flavour_id: str, notes: Notes) -> Node | None:
    """The deployment flavour that is asked for, or the only one."""
    flavours = _by_id(descriptor.at(_FLAVOUR), "deployment flavour (df)", notes)
    listed = ", ".join(f'"{name}"' for name in flavours)
    if flavour_id in flavours:
        return flavours[flavour_id]
    if not flavours:
        detail = "the descriptor has no deployment flavour (df): how many VMs there are stands there."
        notes.error(descriptor, INVALID_DOCUMENT, detail)
        return None
    if not flavour_id and len(flavours) == 1:
        return next(iter(flavours.values()))
    asked = f'and flavour_id is "{flavour_id}"' if flavour_id else "and flavour_id names none of them"
    hint = did_you_mean(flavour_id, flavours)
    detail = f"the descriptor has the deployment flavours {listed}, {asked}.{hint}"
    notes.error(descriptor.at(_FLAVOUR), INVALID_DOCUMENT, detail)
    return None


def _say_of_containers(descriptor: Node, notes: Notes) -> None:
    """Name what is no VM: groups of containers, which a cluster that runs already takes."""
    for unit in descriptor.at("kdu").items():
        name = _text(unit.at("name")) or _text(unit.at("id"))
        detail = (
            f'the KDU "{name}" is a chart or bundle for a cluster, not a VM; its pods are placed elsewhere.'
        )
        notes.warn(unit, IGNORED, detail)


# --- VDUs --------------------------------------------------------------------------------------


def _profiles(flavour: Node, known: _Known) -> dict[str, Node]:
    """The profile of each VDU in the flavour."""
    profiles: dict[str, Node] = {}
    for profile in flavour.at("vdu-profile").items():
        name = known.vdu(profile.at("id"), "a vdu-profile")
        if name:
            profiles.setdefault(name, profile)
    return profiles


def _vdu(
    name: str, body: Node, descriptor: Node, profile: Node | None, level: int | None, notes: Notes
) -> Vdu:
    """A VDU with its least, most and initial number."""
    if profile is None:
        notes.error(body, INVALID_DOCUMENT, f'the VDU "{name}" has no vdu-profile in the flavour.')
    ends = [None if profile is None else profile.at(f"{end}-number-of-instances") for end in ("min", "max")]
    least, most = (None if end is None else instance_count(end, notes) for end in ends)
    # YANG says that the least is 1 where none is written.
    minimum = 1 if least is None and profile is not None else least or 0
    if most is not None and most < minimum:
        detail = f'the VDU "{name}" has at most {most} instances, and at least {minimum}.'
        notes.error(profile, INVALID_DOCUMENT, detail)
    return Vdu(
        name=name,
        origin=Origin(notes.file, body.line),
        size=_size(name, body, descriptor, notes),
        minimum=minimum,
        maximum=most,
        initial=max(minimum, 1) if level is None else max(level, minimum),
        stated=level is not None,
        bounded=profile is not None,
    )


def _size(name: str, body: Node, descriptor: Node, notes: Notes) -> Size:
    """The processors, memory and disk of a VDU, from the descriptions that it names."""
    computes = _by_id(descriptor.at("virtual-compute-desc"), "virtual-compute-desc", notes)
    named = body.at("virtual-compute-desc")
    compute = computes.get(_text(named))
    if compute is None:
        what = f"names no virtual-compute-desc that is described here{did_you_mean(_text(named), computes)}"
        notes.warn(
            named if not named.absent else body, IGNORED, f'the VDU "{name}" {what}; its size is open.'
        )
        compute = Node(None, body.place)
    cpus = _amount(compute.at("virtual-cpu", "num-virtual-cpu"), notes)
    memory = _amount(compute.at("virtual-memory", "size"), notes)
    return Size(
        None if cpus is None else ceil(cpus),
        None if memory is None else gib(ceil(memory * _MIB_OF_A_GB)),
        _disk(body, descriptor, notes),
    )


def _disk(body: Node, descriptor: Node, notes: Notes) -> int | None:
    """The local disks of a VDU in GiB; persistent ones are volumes of their own."""
    storages = {_text(each.at("id")): each for each in descriptor.at("virtual-storage-desc").items()}
    sizes: list[int] = []
    for named, at in body.at("virtual-storage-desc").texts():
        storage = storages.get(named)
        if storage is None:
            hint = did_you_mean(named, storages)
            notes.warn(at, IGNORED, f'the virtual-storage-desc "{named}" is not described here.{hint}')
        elif "persistent" not in storage.at("type-of-storage").text:
            size = _amount(storage.at("size-of-storage"), notes)
            sizes += [] if size is None else [ceil(size)]
    return sum(sizes) if sizes else None


def _amount(node: Node, notes: Notes) -> float | None:
    """A number above 0, also as a text; None when it is absent or no such number, which is said."""
    if node.absent:
        return None
    try:
        number = 0.0 if isinstance(node.data, bool) else float(str(node.data))
    except ValueError:
        number = 0.0
    if not 0 < number <= _LARGEST_SIZE:
        notes.warn(node, IGNORED, f'"{str(node.data)[:40]}" is no number above 0; it is ignored.')
        return None
    return number


# --- levels and scaling ------------------------------------------------------------------------


def _levels(flavour: Node, known: _Known) -> Iterator[Level]:
    """The instantiation levels of the flavour."""
    for name, body in _by_id(flavour.at("instantiation-level"), "instantiation-level", known.notes).items():
        sizes: dict[str, int] = {}
        for part in body.at("vdu-level").items():
            vdu = known.vdu(part.at("vdu-id"), f'the instantiation-level "{name}"')
            number = instance_count(part.at("number-of-instances"), known.notes)
            if vdu:
                sizes[vdu] = 1 if number is None else number
        scale = {
            _text(part.at("scaling-aspect-id")): instance_count(part.at("scale-level"), known.notes) or 0
            for part in body.at("scaling-info").items()
        }
        yield Level(name, scale, sizes, Origin(known.notes.file, body.line))


def _default_level(flavour: Node, levels: Sequence[Level], notes: Notes) -> str:
    """The level that counts where none is asked for: the one that is named, else the only one."""
    named = flavour.at("default-instantiation-level")
    names = [level.name for level in levels]
    if _text(named) in names:
        return _text(named)
    if not named.absent:
        hint = did_you_mean(_text(named), names)
        notes.error(named, INVALID_DOCUMENT, f'there is no instantiation-level "{_text(named)}".{hint}')
    elif len(names) > 1:
        detail = "no default-instantiation-level is named, and there are several instantiation-levels."
        notes.error(flavour.at("instantiation-level"), INVALID_DOCUMENT, detail)
    return names[0] if names else ""


def _aspects(flavour: Node, known: _Known) -> Iterator[Aspect]:
    """The scaling aspects of the flavour, with what each level adds."""
    for name, body in _by_id(flavour.at("scaling-aspect"), "scaling-aspect", known.notes).items():
        details = body.at("aspect-delta-details")
        deltas = {_text(each.at("id")): each for each in details.at("deltas").items()}
        order = [step for step, _ in body.at("step-deltas").texts()] or list(deltas)
        added: dict[str, list[int]] = {}
        for position, step in enumerate(order):
            for part in deltas[step].at("vdu-delta").items() if step in deltas else ():
                vdu = known.vdu(part.at("id"), f'the scaling-aspect "{name}"')
                number = instance_count(part.at("number-of-instances"), known.notes)
                if vdu:
                    added.setdefault(vdu, [0] * len(order))[position] = 1 if number is None else number
        steps = tuple(Steps(vdu, tuple(numbers)) for vdu, numbers in added.items())
        most = instance_count(body.at("max-scale-level"), known.notes)
        if most is None:
            known.notes.error(body, INVALID_DOCUMENT, f'the scaling-aspect "{name}" has no max-scale-level.')
        yield Aspect(name, most or 0, steps, Origin(known.notes.file, body.line))


# --- rules -------------------------------------------------------------------------------------


def _rules(flavour: Node, profiles: Mapping[str, Node], known: _Known) -> Iterator[Rule]:
    """What the groups of the flavour and the profiles themselves ask for."""
    groups = _by_id(flavour.at(_GROUP), _GROUP, known.notes)
    members: dict[str, list[str]] = {name: [] for name in groups}
    for vdu, profile in profiles.items():
        for entry in profile.at(_GROUP).items():
            at = entry if entry.text else entry.at("id")
            if _text(at) in members:
                members[_text(at)].append(vdu)
            else:
                hint = did_you_mean(_text(at), groups)
                detail = f'the group "{_text(at)}" of the VDU "{vdu}" is not described in the flavour.{hint}'
                known.notes.warn(at, IGNORED, detail)
    for name, body in groups.items():
        if not members[name]:
            known.notes.warn(body, IGNORED, f'the group "{name}" has no VDU; it is ignored.')
            continue
        yield from _rule(name, body, ("type", "scope"), tuple(members[name]), known.notes)
    for vdu, profile in profiles.items():
        for number, body in enumerate(profile.at(_LOCAL_RULE).items(), 1):
            name = f"{vdu}-{number}"
            yield from _rule(name, body, ("affinity-type", "affinity-scope"), (vdu,), known.notes)


def _rule(
    name: str, body: Node, keys: tuple[str, str], vdus: tuple[str, ...], notes: Notes
) -> Iterator[Rule]:
    """One rule, where its type and scope are such that it says something about machines, racks or sites."""
    kind, scope = (body.at(key) for key in keys)
    affinity = _TYPES.get(_bare(_text(kind)))
    if affinity is None:
        detail = f'the rule "{name}" is neither affinity nor anti-affinity ({keys[0]}); it is ignored.'
        notes.warn(kind, IGNORED, detail)
        return
    label = _bare(_text(scope)).replace("_", "-")
    if scope.absent:
        notes.error(body, INVALID_DOCUMENT, f'the rule "{name}" names no scope, such as nfvi-node.')
        return
    place = _SCOPES.get(label)
    if place is None:
        detail = (
            f'the rule "{name}" has the scope "{_text(scope)[:40]}", which says nothing about machines, '
            "racks or sites (nfvi-node, zone, zone-group, nfvi-pop); it is ignored."
        )
        notes.warn(scope, IGNORED, detail)
        return
    yield Rule(name, affinity, True, place, vdus, Origin(notes.file, body.line), label=label)
