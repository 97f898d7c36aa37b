"""A HOT file with its nested templates, as far as placement goes: servers, how many, and server groups.

Tolerant, like tosca.py: what stands in the wrong place is read as meant, with a warning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from nexusform.importers.hot_groups import ServerGroup, read_server_group, rules_of
from nexusform.importers.hot_values import Reference, Template, Unresolved, vdu_in_path
from nexusform.importers.vnf_model import (
    CORRECTED,
    IGNORED,
    INVALID_DOCUMENT,
    MOST_INSTANCES,
    Aspect,
    Origin,
    Size,
    Steps,
    Vdu,
    Vnf,
)
from nexusform.importers.vnf_text import open_text
from nexusform.importers.yaml_node import Node, Notes, whole_number

BASE_HOT: Final = "base_hot"
_GROUPS: Final = (
    "OS::Heat::AutoScalingGroup",
    "OS::Heat::InstanceGroup",
    "AWS::AutoScaling::AutoScalingGroup",
)
_SERVERS: Final = ("OS::Nova::Server", "AWS::EC2::Instance")
_HINTS: Final = "scheduler_hints"
_DEEPEST: Final = 8
# Resources that are looked at in all, nested templates counted each time they are used.
_MOST_RESOURCES: Final = 20_000
_MIB_PER_GIB: Final = 1024


@dataclass(frozen=True, slots=True)
class _Repeat:
    """How often what is being read is made: least, most, wanted; and the scaling group that says so."""

    least: int = 1
    most: int | None = 1
    wanted: int = 1
    group: str = ""
    said: bool = True


@dataclass(frozen=True, slots=True)
class _Hints:
    """scheduler_hints that stand outside of a server, around it."""

    value: Any
    node: Node
    notes: Notes


@dataclass(slots=True)
class _Reading:
    """What has been found so far in all templates."""

    nested: Mapping[str, str]
    notes: dict[str, Notes] = field(default_factory=dict)
    opened: dict[str, Node | None] = field(default_factory=dict)
    vdus: dict[str, Vdu] = field(default_factory=dict)
    scaled_by: dict[str, str] = field(default_factory=dict)
    groups: dict[Reference, ServerGroup] = field(default_factory=dict)
    members: list[tuple[str, Any, Node, Notes]] = field(default_factory=list)
    policies: dict[str, tuple[str, int]] = field(default_factory=dict)
    seen: int = 0


@dataclass(frozen=True, slots=True)
class HotVnf:
    """The VNF of a HOT file, and what is to be said about each document."""

    vnf: Vnf
    notes: tuple[Notes, ...]


def read_hot(text: str, nested: Mapping[str, str], parameters: Mapping[str, Any]) -> HotVnf:
    """The VNF of a HOT file and its nested templates by file name."""
    reading = _Reading(nested)
    notes = reading.notes[BASE_HOT] = Notes(BASE_HOT)
    documents = open_text(text, notes)
    for document in documents[:1]:
        if document.at("heat_template_version").absent and document.at("HeatTemplateFormatVersion").absent:
            notes.warn(
                document, CORRECTED, "heat_template_version is missing; Heat refuses a template without it."
            )
        _template(reading, Template(notes, document, parameters), _Repeat(), (), 0)
    rules = rules_of(reading.groups, reading.members)
    vnf = Vnf(tuple(reading.vdus.values()), rules, _aspects(reading))
    return HotVnf(vnf, tuple(reading.notes.values()))


def _template(
    reading: _Reading, template: Template, repeat: _Repeat, hints: tuple[_Hints, ...], depth: int
) -> None:
    """Read the resources of one template."""
    resources = template.root.at("resources")
    if resources.absent:
        resources = template.root.at("Resources")
    if not isinstance(resources.data, dict):
        template.notes.warn(template.root, IGNORED, "the template has no resources.")
    for name, body in resources.fields():
        reading.seen += 1
        if reading.seen > _MOST_RESOURCES:
            template.notes.error(
                body,
                INVALID_DOCUMENT,
                f"the nested templates unfold to more than {_MOST_RESOURCES:,} resources.",
            )
            return
        _resource(reading, template, (name, body), repeat, hints, depth)


def _resource(
    reading: _Reading,
    template: Template,
    resource: tuple[str, Node],
    repeat: _Repeat,
    hints: tuple[_Hints, ...],
    depth: int,
) -> None:
    name, body = resource
    kind = _type(body)
    if kind in _SERVERS:
        _server(reading, template, name, _properties(body), repeat, hints)
    elif kind in _GROUPS or kind == "OS::Heat::ResourceGroup":
        _scaling_group(reading, template, resource, repeat, hints, depth)
    elif kind == "OS::Nova::ServerGroup":
        reading.groups[Reference(template.scope, name)] = read_server_group(name, body, template)
    elif kind in {"OS::Heat::ScalingPolicy", "AWS::AutoScaling::ScalingPolicy"}:
        _scaling_policy(reading, template, name, _properties(body))
    elif _is_template(kind, reading.nested):
        _nested(reading, template, resource, kind, repeat, hints, depth)


def _type(body: Node) -> str:
    return body.at("type").text or body.at("Type").text


def _properties(body: Node) -> Node:
    found = body.at("properties")
    return body.at("Properties") if found.absent else found


# --- groups of servers -------------------------------------------------------------------------


def _scaling_group(
    reading: _Reading,
    template: Template,
    resource: tuple[str, Node],
    outer: _Repeat,
    hints: tuple[_Hints, ...],
    depth: int,
) -> None:
    name, body = resource
    notes, properties = template.notes, _properties(body)
    repeated = _repeat(template, resource, outer)
    misplaced = properties.at(_HINTS)
    if not misplaced.absent:
        notes.warn(
            misplaced,
            CORRECTED,
            f'scheduler_hints stands on the group "{name}" itself, where Heat knows no such property; it '
            "belongs on the OS::Nova::Server that the group makes. It is read as if it stood there.",
        )
        hints = (*hints, _Hints(template.value(misplaced), misplaced, notes))
    inner = properties.at("resource")
    if inner.absent:
        inner = properties.at("resource_def")
    kind = _type(inner)
    within = replace(template, repeated=True)
    if kind in _SERVERS:
        called = vdu_in_path(inner.data) or name
        _server(reading, within, called, _properties(inner), repeated, hints)
    elif kind and _is_template(kind, reading.nested):
        _nested(reading, within, (name, inner), kind, repeated, hints, depth)
    elif kind in _GROUPS or kind == "OS::Heat::ResourceGroup":
        if depth < _DEEPEST:
            _scaling_group(reading, within, (name, inner), repeated, hints, depth + 1)
    elif not kind:
        notes.warn(
            body,
            CORRECTED,
            f'the group "{name}" does not say what it repeats (no resource); one server each is taken.',
        )
        _server(reading, within, name, Node(None, body.place), repeated, hints)
    else:
        notes.warn(
            inner, IGNORED, f'the group "{name}" repeats "{kind}", which is no server; it is passed over.'
        )


def _repeat(template: Template, resource: tuple[str, Node], outer: _Repeat) -> _Repeat:
    """How often a group makes its resource."""
    name, body = resource
    properties = _properties(body)
    if body.at("type").text == "OS::Heat::ResourceGroup":
        count = _count(template, properties.at("count"))
        number = 1 if count is None else count
        least, wanted = number, number
        most: int | None = number
        said = count is not None or properties.at("count").absent
    else:
        low = _count(template, _first(properties, "min_size", "MinSize"))
        high = _count(template, _first(properties, "max_size", "MaxSize"))
        desired = _count(template, _first(properties, "desired_capacity", "DesiredCapacity", "size"))
        least, most = low or 0, high
        wanted = desired if desired is not None else (low if low is not None else 1)
        said = desired is not None or low is not None
        wanted = _within(template, (name, body), wanted, least, most)
    bound = None if most is None or outer.most is None else min(most * outer.most, MOST_INSTANCES)
    return _Repeat(
        min(least * outer.least, MOST_INSTANCES),
        bound,
        min(wanted * outer.wanted, MOST_INSTANCES),
        name,
        said and outer.said,
    )


def _first(node: Node, *names: str) -> Node:
    return next((found for name in names if not (found := node.at(name)).absent), node.at(names[0]))


def _within(template: Template, resource: tuple[str, Node], wanted: int, least: int, most: int | None) -> int:
    name, body = resource
    if most is not None and wanted > most:
        template.notes.warn(
            _properties(body),
            CORRECTED,
            f'the group "{name}" wants {wanted} members, more than its max_size of {most}.',
        )
        return max(most, 0)
    if wanted < least:
        template.notes.warn(
            _properties(body),
            CORRECTED,
            f'the group "{name}" wants {wanted} members, less than its min_size of {least}; {least} are '
            "taken.",
        )
        return least
    return wanted


def _count(template: Template, node: Node) -> int | None:
    if node.absent:
        return None
    value = template.value(node)
    number = whole_number(value)
    if number is not None and 0 <= number <= MOST_INSTANCES:
        return number
    if not isinstance(value, Unresolved):
        template.notes.warn(
            node, IGNORED, f"this must be a whole number from 0 to {MOST_INSTANCES:,}; it is ignored."
        )
    return None


def _scaling_policy(reading: _Reading, template: Template, name: str, properties: Node) -> None:
    """Remember which aspect scales a group out, and by how many."""
    group = template.value(_first(properties, "auto_scaling_group_id", "AutoScalingGroupName"))
    step = whole_number(template.value(_first(properties, "scaling_adjustment", "ScalingAdjustment")))
    if isinstance(group, Reference) and step is not None and step > 0:
        reading.policies[group.name] = (name.removesuffix("_scale_out"), step)


# --- nested templates --------------------------------------------------------------------------


def _is_template(kind: str, nested: Mapping[str, str]) -> bool:
    return kind in nested or kind.lower().endswith((".yaml", ".yml", ".template", ".hot"))


def _nested(
    reading: _Reading,
    template: Template,
    resource: tuple[str, Node],
    kind: str,
    repeat: _Repeat,
    hints: tuple[_Hints, ...],
    depth: int,
) -> None:
    name, body = resource
    notes, properties = template.notes, _properties(body)
    passed = properties.at(_HINTS)
    if not passed.absent:
        hints = (*hints, _Hints(template.value(passed), passed, notes))
    file = next((n for n in (kind, kind.rpartition("/")[2]) if n in reading.nested), "")
    file = file or next((n for n in reading.nested if n.rpartition("/")[2] == kind.rpartition("/")[2]), "")
    if not file:
        notes.warn(
            body,
            IGNORED,
            f'the nested template "{kind}" is not given in "nested"; one server each is taken for "{name}".',
        )
        _server(reading, template, vdu_in_path(body.data) or name, Node(None, body.place), repeat, hints)
        return
    if file in template.chain or depth >= _DEEPEST:
        notes.error(
            body, INVALID_DOCUMENT, f'the nested template "{file}" is used inside itself, or too deeply.'
        )
        return
    root = _open(reading, file)
    if root is None:
        return
    values = {key: template.value(part) for key, part in properties.fields()}
    inner = Template(
        reading.notes[file],
        root,
        values,
        f"{template.scope}/{name}",
        template.repeated,
        (*template.chain, file),
    )
    _template(reading, inner, repeat, hints, depth + 1)


def _open(reading: _Reading, file: str) -> Node | None:
    if file not in reading.opened:
        notes = reading.notes[file] = Notes(f'nested["{file}"]')
        reading.opened[file] = next(iter(open_text(reading.nested[file], notes)), None)
    return reading.opened[file]


# --- servers -----------------------------------------------------------------------------------


def _server(
    reading: _Reading,
    template: Template,
    name: str,
    properties: Node,
    repeat: _Repeat,
    hints: tuple[_Hints, ...],
) -> None:
    """Note one kind of server and the hints that concern it."""
    notes = template.notes
    called = name
    if called in reading.vdus:
        called = (
            f"{repeat.group}-{name}" if repeat.group and repeat.group != name else f"{name}-{properties.line}"
        )
        if called in reading.vdus:
            notes.warn(properties, IGNORED, f'a second server is called "{called}"; it is passed over.')
            return
        notes.warn(
            properties, CORRECTED, f'a second server is called "{name}"; it is taken as the VDU "{called}".'
        )
    if not called or "|" in called or "/" in called:
        notes.error(properties, INVALID_DOCUMENT, f'the server "{called}" needs a name without "|" and "/".')
        return
    size = _size(template, properties)
    origin = Origin(notes.file, properties.line)
    reading.vdus[called] = Vdu(
        called, origin, size, repeat.least, repeat.most, repeat.wanted, repeat.said, repeat.said
    )
    reading.scaled_by[called] = repeat.group
    own = properties.at(_HINTS)
    zone = properties.at("availability_zone")
    if not zone.absent and isinstance(template.value(zone), str):
        notes.warn(
            zone, IGNORED, f'the availability zone of "{called}" is not read; only groups place servers.'
        )
    if not own.absent:
        reading.members.append((called, template.value(own), own, notes))
    elif hints:
        nearest = hints[-1]
        reading.members.append((called, nearest.value, nearest.node, nearest.notes))
        if nearest.notes is not notes:
            nearest.notes.warn(
                nearest.node,
                CORRECTED,
                f'scheduler_hints is passed on, but the server "{called}" does not use it ({notes.file}); it '
                "is read as if it did.",
            )


def _size(template: Template, properties: Node) -> Size:
    """The size of a flavour that the template itself makes; a flavour by name says nothing about size."""
    flavor = template.value(properties.at("flavor"))
    if not isinstance(flavor, Reference) or flavor.scope != template.scope:
        return Size()
    made = _properties(template.root.at("resources", flavor.name))
    ram = whole_number(template.value(made.at("ram")))
    return Size(
        whole_number(template.value(made.at("vcpus"))) or None,
        -(-ram // _MIB_PER_GIB) if ram else None,
        whole_number(template.value(made.at("disk"))),
    )


def _aspects(reading: _Reading) -> tuple[Aspect, ...]:
    """One aspect per scaling group: from its desired size to its largest."""
    found: dict[str, Aspect] = {}
    for name, group in reading.scaled_by.items():
        vdu = reading.vdus[name]
        if not group or vdu.maximum is None or vdu.maximum <= vdu.initial:
            continue
        aspect, step = reading.policies.get(group, (group, 1))
        levels = (vdu.maximum - vdu.initial) // step
        earlier = found.get(aspect)
        steps = (*(earlier.steps if earlier else ()), Steps(name, (step,)))
        most = min(levels, earlier.max_level) if earlier else levels
        found[aspect] = Aspect(aspect, most, steps, vdu.origin)
    return tuple(found.values())
