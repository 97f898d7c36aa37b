"""The servers of a HOT file: how often each is made, how large it is, and their groups: the policy, who is in
them, and the rules that follow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec import Struct, field

from nexusform.diagnostics import did_you_mean
from nexusform.documents.yaml_text import Node, Notes, whole_number
from nexusform.domains.vnf.importers.hot_values import Reference, Template, Unresolved
from nexusform.domains.vnf.importers.vnf_model import (
    CORRECTED,
    IGNORED,
    INVALID_DOCUMENT,
    MACHINE,
    MOST_INSTANCES,
    WITHOUT_A_NUMBER,
    Aspect,
    Origin,
    Rule,
    Size,
    Steps,
    Vdu,
)
from nexusform.scheduling.racks.vms import gib

ANTI_AFFINITY: Final = "anti-affinity"
# policy -> (affinity, hard)
_POLICIES: Final[Mapping[str, tuple[bool, bool]]] = {
    ANTI_AFFINITY: (False, True),
    "affinity": (True, True),
    "soft-anti-affinity": (False, False),
    "soft-affinity": (True, False),
}
_MOST: Final = "max_server_per_host"


class ServerGroup(Struct, frozen=True):
    """A server group; `policy` "" when it has none that is known. `title` is its name in the cloud."""

    name: str
    title: str
    policy: str
    most: int
    node: Node
    notes: Notes
    repeated: bool


def read_server_group(name: str, body: Node, template: Template) -> ServerGroup:
    """The group that an OS::Nova::ServerGroup makes."""
    properties, notes = body.at("properties"), template.notes
    title = template.value(properties.at("name"))
    policy = _policy(name, properties, template)
    return ServerGroup(
        name=name,
        title=title if isinstance(title, str) else "",
        policy=policy,
        most=_most(policy, properties, template),
        node=body,
        notes=notes,
        repeated=template.repeated,
    )


def _policy(name: str, properties: Node, template: Template) -> str:
    """The policy of a server group; "", and a warning, when there is none that Nova knows."""
    notes = template.notes
    written = properties.at("policies")
    if written.absent:
        written = properties.at("policy")
    value = template.value(written)
    named = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    if isinstance(value, Unresolved) or any(isinstance(part, Unresolved) for part in named):
        notes.warn(
            written,
            IGNORED,
            f'the policy of "{name}" needs a value for {_what(value, named)}; give it in parameters.',
        )
        return ""
    if not named:
        notes.warn(written, IGNORED, f'the server group "{name}" has no policy; it is ignored.')
        return ""
    if len(named) > 1:
        detail = f'the server group "{name}" has {len(named)} policies; Nova takes one.'
        notes.error(written, INVALID_DOCUMENT, detail)
    policy = str(named[0])
    if policy not in _POLICIES:
        notes.warn(
            written,
            IGNORED,
            f'the server group "{name}" has the unknown policy "{policy[:40]}".'
            f"{did_you_mean(policy, _POLICIES)}",
        )
        return ""
    return policy


def _what(value: Any, named: Sequence[Any]) -> str:
    unresolved = (
        value if isinstance(value, Unresolved) else next(p for p in named if isinstance(p, Unresolved))
    )
    return unresolved.what


def _most(policy: str, properties: Node, template: Template) -> int:
    """How many servers of an anti-affinity group one host may hold: max_server_per_host, else 1."""
    rule = properties.at("rules", _MOST)
    if rule.absent:
        return 1
    number = whole_number(template.value(rule))
    if policy != ANTI_AFFINITY:
        template.notes.warn(rule, IGNORED, f"{_MOST} is for the policy anti-affinity only; it is ignored.")
        return 1
    if number is None or not 1 <= number <= MOST_INSTANCES:
        template.notes.warn(rule, IGNORED, f"{_MOST} must be a whole number above 0; 1 is taken.")
        return 1
    return number


def rules_of(
    groups: Mapping[Reference, ServerGroup], members: Sequence[tuple[str, Any, Node, Notes]]
) -> tuple[Rule, ...]:
    """One rule per group with members. `members` are VDU, resolved scheduler_hints, where, whose."""
    inside: dict[Reference, list[str]] = {}
    for vdu, value, node, notes in members:
        joined = _group(vdu, value, node, notes, groups)
        if joined is not None:
            inside.setdefault(joined, []).append(vdu)
    rules = []
    for reference, group in groups.items():
        vdus = inside.get(reference, [])
        if not vdus:
            group.notes.warn(group.node, IGNORED, f'the server group "{group.name}" has no member.')
        elif group.repeated:
            group.notes.warn(
                group.node,
                IGNORED,
                f'the server group "{group.name}" is made anew for every member of the scaling group around '
                "it, so it keeps nobody apart or together.",
            )
        elif group.policy:
            affinity, hard = _POLICIES[group.policy]
            origin = Origin(group.notes.file, group.node.line)
            rules.append(
                Rule(
                    name=group.name,
                    affinity=affinity,
                    hard=hard,
                    scope=MACHINE,
                    vdus=tuple(vdus),
                    origin=origin,
                    most=group.most,
                    label=group.policy,
                )
            )
    return tuple(rules)


def _group(
    vdu: str, value: Any, node: Node, notes: Notes, groups: Mapping[Reference, ServerGroup]
) -> Reference | None:
    """The group that scheduler_hints of a VDU name, by reference or by name."""
    group_name = value
    if isinstance(value, dict):
        for hint in value:
            if hint != "group":
                notes.warn(
                    node, IGNORED, f'the scheduler hint "{hint}" of "{vdu}" is not read; only "group" is.'
                )
        group_name = value.get("group")
    if group_name in (None, "", []):
        return None
    if isinstance(group_name, Reference):
        if group_name in groups:
            return group_name
        known = [group.name for group in groups.values()]
        notes.warn(
            node,
            IGNORED,
            f'"{vdu}" is to be in "{group_name.name}", which is no server group.'
            f"{did_you_mean(group_name.name, known)}",
        )
        return None
    if isinstance(group_name, str):
        named = [reference for reference, group in groups.items() if group_name in {group.title, group.name}]
        if len(named) == 1:
            return named[0]
    what = group_name.what if isinstance(group_name, Unresolved) else f'"{str(group_name)[:40]}"'
    notes.warn(
        node, IGNORED, f'"{vdu}" is to be in the server group {what}, which these documents do not make.'
    )
    return None


HINTS: Final = "scheduler_hints"
_DESIRED: Final = ("desired_capacity", "DesiredCapacity", "size")


class Open(Struct, frozen=True):
    """A number without a value: what lacks it, in words, and where."""

    what: str
    node: Node
    notes: Notes


class Repeat(Struct, frozen=True):
    """How often what is being read is made: at least, at most, and to begin with; and the scaling group
    that says so. `open` is where it leaves the number to a value that nobody gives.
    """

    least: int = 1
    most: int | None = 1
    members: int = 1
    group: str = ""
    said: bool = False
    open: Open | None = None


class Hints(Struct, frozen=True):
    """scheduler_hints that stand outside of a server, around it."""

    value: Any
    node: Node
    notes: Notes


class Reading(Struct):
    """What has been found so far in all templates."""

    nested: Mapping[str, str]
    known: Mapping[str, bool] = field(default_factory=dict)
    notes: dict[str, Notes] = field(default_factory=dict)
    opened: dict[str, Node | None] = field(default_factory=dict)
    vdus: dict[str, Vdu] = field(default_factory=dict)
    scaled_by: dict[str, str] = field(default_factory=dict)
    groups: dict[Reference, ServerGroup] = field(default_factory=dict)
    members: list[tuple[str, Any, Node, Notes]] = field(default_factory=list)
    policies: dict[str, tuple[str, int]] = field(default_factory=dict)
    seen: int = 0


def type_of(body: Node) -> str:
    """The type of a resource."""
    return body.at("type").text or body.at("Type").text


def properties_of(body: Node) -> Node:
    """The properties of a resource."""
    properties = body.at("properties")
    return body.at("Properties") if properties.absent else properties


# --- how often ---------------------------------------------------------------------------------


class _Sizes(NamedTuple):
    """How many members a group has at least, at most (None: not bounded) and to begin with; whether the last
    is said, and where it is written.
    """

    least: int
    most: int | None
    members: int
    said: bool
    written: Node


def repeat_of(template: Template, resource: tuple[str, Node], outer: Repeat) -> Repeat:
    """How often a group makes its resource."""
    name, body = resource
    is_fixed = body.at("type").text == "OS::Heat::ResourceGroup"
    sizes = _fixed_sizes(template, body) if is_fixed else _scaled_sizes(template, resource)
    bounded = sizes.most is not None and outer.most is not None
    return Repeat(
        least=min(sizes.least * outer.least, MOST_INSTANCES),
        most=min((sizes.most or 0) * (outer.most or 0), MOST_INSTANCES) if bounded else None,
        members=min(sizes.members * outer.members, MOST_INSTANCES),
        group=name,
        said=sizes.said and (outer.said or not outer.group),
        open=_open(template, name, sizes.written) or outer.open,
    )


def _fixed_sizes(template: Template, body: Node) -> _Sizes:
    """Of a ResourceGroup: its count, else one."""
    written = properties_of(body).at("count")
    count = _count(template, written)
    number = 1 if count is None else count
    return _Sizes(number, number, number, count is not None or written.absent, written)


def _scaled_sizes(template: Template, resource: tuple[str, Node]) -> _Sizes:
    """Of a group that scales: its sizes, and the desired capacity, else the smallest size, else one."""
    name, body = resource
    properties = properties_of(body)
    low = _count(template, first_of(properties, "min_size", "MinSize"))
    most = _count(template, first_of(properties, "max_size", "MaxSize"))
    written = first_of(properties, *_DESIRED)
    desired = _count(template, written)
    least = low or 0
    members = next((number for number in (desired, low) if number is not None), 1)
    for wrong in _contradictions(members, least, most):
        template.notes.error(properties, INVALID_DOCUMENT, f'the group "{name}" {wrong}.')
    said = desired is not None or (written.absent and low is not None)
    return _Sizes(least, most, members, said, written)


def _open(template: Template, group: str, written: Node) -> Open | None:
    value = template.value(written)
    if not isinstance(value, Unresolved):
        return None
    what = f'the number of servers of "{group}" needs a value for {value.what}'
    return Open(what, written, template.notes)


def first_of(node: Node, *names: str) -> Node:
    """The first of several properties that is there."""
    return next((child for name in names if not (child := node.at(name)).absent), node.at(names[0]))


def _contradictions(members: int, least: int, most: int | None) -> Iterator[str]:
    """Say how the sizes of a group contradict each other."""
    if most is not None and most < least:
        yield f"has a max_size of {most}, below its min_size of {least}"
    elif most is not None and members > most:
        yield f"wants {members} members, more than its max_size of {most}"
    elif members < least:
        yield f"wants {members} members, less than its min_size of {least}"


def _count(template: Template, node: Node) -> int | None:
    """A number of members or servers; None when it is absent or no such number."""
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


# --- servers -----------------------------------------------------------------------------------


def note_server(
    reading: Reading,
    template: Template,
    name: str,
    properties: Node,
    repeat: Repeat,
    hints: tuple[Hints, ...],
) -> None:
    """Note one kind of server and the hints that concern it."""
    notes = template.notes
    around = template.scope.rpartition("/")[2] or repeat.group
    called = name
    if name not in reading.known:  # the VNFD may call a VDU like what stands around its server
        called = next(
            (n for n in (around, repeat.group) if n in reading.known.keys() - reading.vdus.keys()), name
        )
    if called in reading.vdus:
        called = f"{around}-{name}" if around not in {"", name} else f"{name}-{properties.line}"
        if called in reading.vdus:
            notes.warn(properties, IGNORED, f'a second server is called "{called}"; it is passed over.')
            return
        notes.warn(
            properties, CORRECTED, f'a second server is called "{name}"; it is taken as the VDU "{called}".'
        )
    if not called or "|" in called or "/" in called:
        notes.error(properties, INVALID_DOCUMENT, f'the server "{called}" needs a name without "|" and "/".')
        return
    flavor = template.value(properties.at("flavor"))
    size = _size(template, flavor)
    origin = Origin(notes.file, properties.line)
    own = properties.at(HINTS)
    # Tacker's driver looks at what the top template hands on, never into a nested one.
    hinted = bool(hints) or (not own.absent and not template.chain)
    reading.vdus[called] = Vdu(
        name=called,
        origin=origin,
        size=size,
        minimum=repeat.least,
        maximum=repeat.most,
        initial=repeat.members,
        stated=repeat.said,
        bounded=repeat.said,
        hinted=hinted,
        flavor=flavor if isinstance(flavor, str) else "",
    )
    reading.scaled_by[called] = repeat.group
    if repeat.open is not None and not reading.known.get(called):
        text = f"{repeat.open.what}; give it in parameters. Until then the least, or 1, is taken."
        repeat.open.notes.warn(repeat.open.node, WITHOUT_A_NUMBER, text)
    _note_place(reading, template, called, properties, hints)


def _note_place(
    reading: Reading, template: Template, called: str, properties: Node, hints: tuple[Hints, ...]
) -> None:
    """Note what a server says of its place: its own hints, else the nearest around it; no zone is read."""
    notes, own = template.notes, properties.at(HINTS)
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
            detail = (
                f'scheduler_hints is passed on, but the server "{called}" does not use it ({notes.file}).'
            )
            nearest.notes.error(nearest.node, INVALID_DOCUMENT, detail)


def _size(template: Template, flavor: object) -> Size:
    """The size of a flavour that the template itself makes; a flavour by name says nothing about size."""
    if not isinstance(flavor, Reference) or flavor.scope != template.scope:
        return Size()
    made = properties_of(template.root.at("resources", flavor.name))
    ram = whole_number(template.value(made.at("ram")))
    return Size(
        whole_number(template.value(made.at("vcpus"))) or None,
        gib(ram) if ram else None,
        whole_number(template.value(made.at("disk"))),
    )


def aspects_of(reading: Reading) -> tuple[Aspect, ...]:
    """One aspect per scaling group: from its desired size to its largest."""
    aspects: dict[str, Aspect] = {}
    for name, group in reading.scaled_by.items():
        vdu = reading.vdus[name]
        if not group or vdu.maximum is None or vdu.maximum <= vdu.initial:
            continue
        aspect, step = reading.policies.get(group, (group, 1))
        levels = (vdu.maximum - vdu.initial) // step
        earlier = aspects.get(aspect)
        steps = (*(earlier.steps if earlier else ()), Steps(name, (step,)))
        most = min(levels, earlier.max_level) if earlier else levels
        aspects[aspect] = Aspect(aspect, most, steps, vdu.origin)
    return tuple(aspects.values())
