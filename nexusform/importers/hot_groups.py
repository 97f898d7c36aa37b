"""Server groups of a HOT file: their policy, who is in them, and the rules that follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from nexusform.diagnostics import did_you_mean
from nexusform.importers.hot_values import Reference, Template, Unresolved
from nexusform.importers.vnf_model import CORRECTED, IGNORED, MACHINE, MOST_INSTANCES, Origin, Rule
from nexusform.importers.yaml_node import Node, Notes, whole_number

# policy -> (affinity, hard)
_POLICIES: Final[Mapping[str, tuple[bool, bool]]] = {
    "anti-affinity": (False, True),
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
        name,
        title if isinstance(title, str) else "",
        policy,
        _most(policy, properties, template),
        body,
        notes,
        template.repeated,
    )


def _policy(name: str, properties: Node, template: Template) -> str:
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
        notes.warn(
            written,
            CORRECTED,
            f'the server group "{name}" has {len(named)} policies; Nova takes one, the first.',
        )
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
    rule = properties.at("rules", _MOST)
    if rule.absent:
        return 1
    number = whole_number(template.value(rule))
    if policy != "anti-affinity":
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
                Rule(group.name, affinity, hard, MACHINE, tuple(vdus), origin, group.most, group.policy)
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
