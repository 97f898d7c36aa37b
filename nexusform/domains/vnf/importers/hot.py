"""A HOT file with its nested templates, as far as placement goes: servers, how many, and server groups.

Tolerant, like tosca.py: what stands in the wrong place is read as meant, with a warning.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.documents.yaml_text import Node, Notes, whole_number
from nexusform.domains.vnf.importers.foreign import foreign_kind
from nexusform.domains.vnf.importers.hot_servers import (
    ANTI_AFFINITY,
    HINTS,
    Hints,
    Reading,
    Repeat,
    aspects_of,
    first_of,
    note_server,
    properties_of,
    read_server_group,
    repeat_of,
    rules_of,
    type_of,
)
from nexusform.domains.vnf.importers.hot_values import Reference, Template, vdu_in_path
from nexusform.domains.vnf.importers.sol006 import descriptor_of
from nexusform.domains.vnf.importers.vnf_model import CORRECTED, IGNORED, INVALID_DOCUMENT, NOT_GIVEN, Vnf
from nexusform.domains.vnf.importers.vnf_text import open_text

BASE_HOT: Final = "base_hot"
_GROUPS: Final = (
    "OS::Heat::AutoScalingGroup",
    "OS::Heat::InstanceGroup",
    "AWS::AutoScaling::AutoScalingGroup",
)
_SERVERS: Final = ("OS::Nova::Server", "AWS::EC2::Instance")
_DEEPEST: Final = 8
# Resources that are looked at in all, nested templates counted each time they are used.
_MOST_RESOURCES: Final = 20_000


class HotVnf(Struct, frozen=True):
    """The VNF of a HOT file, and what is to be said about each document."""

    vnf: Vnf
    notes: tuple[Notes, ...]


def read_hot(
    text: str, nested: Mapping[str, str], parameters: Mapping[str, Any], known: Mapping[str, bool]
) -> HotVnf:
    """The VNF of a HOT file and its nested templates by file name. `known` are the VDUs of a VNFD beside it,
    and whether it says how many of each there are.
    """
    reading = Reading(nested, known)
    notes = reading.notes[BASE_HOT] = Notes(BASE_HOT)
    documents = open_text(text, notes)
    for document in documents[:1]:
        is_vnfd = not document.at("tosca_definitions_version").absent or descriptor_of(document) is not None
        kind = "a VNFD: give it as vnfd" if is_vnfd else foreign_kind([document.data])
        if kind:
            notes.error(document, INVALID_DOCUMENT, f"this is {kind}.")
            break
        if document.at("heat_template_version").absent and document.at("HeatTemplateFormatVersion").absent:
            notes.warn(
                document, CORRECTED, "heat_template_version is missing; Heat refuses a template without it."
            )
        _template(reading, Template(notes, document, parameters), Repeat(), (), 0)
    rules = rules_of(reading.groups, reading.members)
    apart = {name for rule in rules if rule.label == ANTI_AFFINITY for name in rule.vdus}
    vdus = tuple(replace(vdu, kept_apart=vdu.name in apart) for vdu in reading.vdus.values())
    return HotVnf(Vnf(vdus, rules, aspects_of(reading)), tuple(reading.notes.values()))


def _template(
    reading: Reading, template: Template, repeat: Repeat, hints: tuple[Hints, ...], depth: int
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
    reading: Reading,
    template: Template,
    resource: tuple[str, Node],
    repeat: Repeat,
    hints: tuple[Hints, ...],
    depth: int,
) -> None:
    """Read one resource by its type: servers, groups of them, their rules, policies and nested templates."""
    name, body = resource
    kind = type_of(body)
    if kind in _SERVERS:
        note_server(reading, template, name, properties_of(body), repeat, hints)
    elif kind in _GROUPS or kind == "OS::Heat::ResourceGroup":
        _scaling_group(reading, template, resource, repeat, hints, depth)
    elif kind == "OS::Nova::ServerGroup":
        reading.groups[Reference(template.scope, name)] = read_server_group(name, body, template)
    elif kind in {"OS::Heat::ScalingPolicy", "AWS::AutoScaling::ScalingPolicy"}:
        _scaling_policy(reading, template, name, properties_of(body))
    elif _is_template(kind, reading.nested):
        _nested(reading, template, resource, kind, repeat, hints, depth)


# --- groups of servers -------------------------------------------------------------------------


def _scaling_group(
    reading: Reading,
    template: Template,
    resource: tuple[str, Node],
    outer: Repeat,
    hints: tuple[Hints, ...],
    depth: int,
) -> None:
    """Read what a group repeats. `outer` is how often what the group stands in is made."""
    name, body = resource
    notes, properties = template.notes, properties_of(body)
    repeated = repeat_of(template, resource, outer)
    misplaced = properties.at(HINTS)
    if not misplaced.absent:
        notes.warn(
            misplaced,
            CORRECTED,
            f'scheduler_hints stands on the group "{name}" itself, where Heat knows no such property; it '
            "belongs on the OS::Nova::Server that the group makes. It is read as if it stood there.",
        )
        hints = (*hints, Hints(template.value(misplaced), misplaced, notes))
    inner = properties.at("resource")
    if inner.absent:
        inner = properties.at("resource_def")
    kind = type_of(inner)
    within = replace(template, repeated=True)
    if kind in _SERVERS:
        called = vdu_in_path(inner.data) or name
        note_server(reading, within, called, properties_of(inner), repeated, hints)
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
        note_server(reading, within, name, Node(None, body.place), repeated, hints)
    else:
        notes.warn(
            inner, IGNORED, f'the group "{name}" repeats "{kind}", which is no server; it is passed over.'
        )


def _scaling_policy(reading: Reading, template: Template, name: str, properties: Node) -> None:
    """Remember which aspect scales a group out, and by how many."""
    group = template.value(first_of(properties, "auto_scaling_group_id", "AutoScalingGroupName"))
    step = whole_number(template.value(first_of(properties, "scaling_adjustment", "ScalingAdjustment")))
    if isinstance(group, Reference) and step is not None and step > 0:
        reading.policies[group.name] = (name.removesuffix("_scale_out"), step)


# --- nested templates --------------------------------------------------------------------------


def _is_template(kind: str, nested: Mapping[str, str]) -> bool:
    return kind in nested or kind.lower().endswith((".yaml", ".yml", ".template", ".hot"))


def _nested(
    reading: Reading,
    template: Template,
    resource: tuple[str, Node],
    kind: str,
    repeat: Repeat,
    hints: tuple[Hints, ...],
    depth: int,
) -> None:
    """Read a nested template, as often as the resource that names it is made."""
    name, body = resource
    notes, properties = template.notes, properties_of(body)
    passed = properties.at(HINTS)
    if not passed.absent:
        hints = (*hints, Hints(template.value(passed), passed, notes))
    file = next((n for n in (kind, kind.rpartition("/")[2]) if n in reading.nested), "")
    file = file or next((n for n in reading.nested if n.rpartition("/")[2] == kind.rpartition("/")[2]), "")
    if not file:
        notes.warn(
            body,
            NOT_GIVEN,
            f'the nested template "{kind}" is neither given in "nested" nor in the package; one server each '
            f'is taken for "{name}", and server groups, sizes and scaling that it may hold are not seen.',
        )
        note_server(reading, template, vdu_in_path(body.data) or name, Node(None, body.place), repeat, hints)
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


def _open(reading: Reading, file: str) -> Node | None:
    if file not in reading.opened:
        notes = reading.notes[file] = Notes(f'nested["{file}"]')
        reading.opened[file] = next(iter(open_text(reading.nested[file], notes)), None)
    return reading.opened[file]
