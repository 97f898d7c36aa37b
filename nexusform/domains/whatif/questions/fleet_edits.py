"""Edits of fleet members, from flags (`member-1:env=prod`) to edits of a plan."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct

from nexusform.diagnostics.diagnostic import Diagnostic, DiagnosticsError, build_error, suggest_name
from nexusform.diagnostics.phrases import enclose, format_list
from nexusform.domains.fleet.scheduling.bindings import Health
from nexusform.domains.fleet.types.fleet_member_cluster import MEMBER_LABEL
from nexusform.json_data.plain_data import get_list, get_mapping
from nexusform.kubernetes.matching import NO_SCHEDULE
from nexusform.planning.edits import Edit, RemovedInstance
from nexusform.planning.plan_request import ArgumentAdjustment
from nexusform.plans.plan import Plan
from nexusform.resources.address import Address

MEMBER_TYPE: Final = "fleet_member_cluster"
# Taint set by KubeFleet's `draincluster`. Source: KubeFleet tools/utils/common.go.
_CORDON: Final = {"key": "cordon-key", "value": "cordon-value", "effect": NO_SCHEDULE}
# Blocks of a member, not arguments.
_BLOCKS: Final = ("taint", "resources")
_MAX_NAMES: Final = 20


class MemberEditKind(StrEnum):
    """Kind of an edit."""

    LEAVE = "leave"
    DRAIN = "drain"
    JOIN = "join"
    TAINT = "taint"
    LABEL = "label"
    PROPERTY = "property"
    HEALTH = "health"


class MemberEdit(Struct, frozen=True):
    """One edit of a member.

    `key` is that of the taint, label or property, `value` the new value (None: removed). For `join`
    the value is the template, for `health` the health.
    """

    kind: MemberEditKind
    member: str
    key: str = ""
    value: str | None = None

    @property
    def text(self) -> str:
        """Description: `member-1 leaves`, `member-2: label env=prod`."""
        match self.kind:
            case MemberEditKind.LEAVE:
                return f"{self.member} leaves"
            case MemberEditKind.DRAIN:
                return f"{self.member} is drained"
            case MemberEditKind.JOIN:
                return f"{self.member} joins" + (enclose(" like ", self.value))
            case MemberEditKind.HEALTH:
                return f"{self.member} is {self.value}"
        # The taint, label or property is removed.
        if self.value is None:
            return f"{self.member}: without {self.kind} {self.key}"
        # A taint may be set without a value ("").
        is_key_only = self.kind is MemberEditKind.TAINT and not self.value
        return f"{self.member}: {self.kind} {self.key}" + ("" if is_key_only else f"={self.value}")


def parse_member_edits(flags: Mapping[MemberEditKind, Sequence[str]]) -> list[MemberEdit]:
    """Parse the texts of flags to edits, in order.

    Raises one DiagnosticsError for all invalid texts.
    """
    edits: list[MemberEdit] = []
    problems: list[Diagnostic] = []
    for verb, texts in flags.items():
        for text in texts:
            edit = _PARSERS[verb](verb, text)
            if edit is None:
                detail = f"-{verb}={text} is not a valid change. Write {_SYNTAX[verb]}."
                problems.append(build_error("invalid-simulation", detail))
            else:
                edits.append(edit)
    if problems:
        raise DiagnosticsError(*problems)
    return edits


_SYNTAX: Final[Mapping[MemberEditKind, str]] = {
    MemberEditKind.LEAVE: "-leave=MEMBER",
    MemberEditKind.DRAIN: "-drain=MEMBER",
    MemberEditKind.JOIN: "-join=MEMBER, or -join=MEMBER=LIKE to copy another member or a cluster",
    MemberEditKind.TAINT: (
        "-taint=MEMBER:KEY[=VALUE][:NoSchedule], and -taint=MEMBER:KEY- to remove one"
    ),
    MemberEditKind.LABEL: "-label=MEMBER:KEY=VALUE, and -label=MEMBER:KEY- to remove one",
    MemberEditKind.PROPERTY: (
        "-property=MEMBER:NAME=VALUE, and -property=MEMBER:NAME- to remove one"
    ),
    MemberEditKind.HEALTH: (
        f"-health=MEMBER:HEALTH, with {format_list(map(str, Health), _MAX_NAMES)}"
    ),
}


def _parse_member_edit(verb: MemberEditKind, text: str) -> MemberEdit | None:
    """Parse `MEMBER`; None if invalid."""
    has_further_parts = ":" in text or "=" in text
    return MemberEdit(verb, text) if text and not has_further_parts else None


def _parse_join_edit(verb: MemberEditKind, text: str) -> MemberEdit | None:
    """Parse `MEMBER` or `MEMBER=LIKE`; None if invalid."""
    name, equals, template = text.partition("=")
    if not name or ":" in name:
        return None
    # `MEMBER=` has no LIKE.
    if equals and not template:
        return None
    return MemberEdit(verb, name, value=template or None)


def _parse_setting_edit(verb: MemberEditKind, text: str) -> MemberEdit | None:
    """Parse `MEMBER:KEY=VALUE` (set) or `MEMBER:KEY-` (remove); None if invalid.

    A taint may have no value, and end with its only effect: `MEMBER:KEY=VALUE:NoSchedule`.
    """
    is_taint = verb is MemberEditKind.TAINT
    effect = f":{NO_SCHEDULE}" if is_taint else ""
    member, _, setting = text.partition(":")
    is_removal = setting.endswith("-") and "=" not in setting
    setting = setting.removesuffix("-" if is_removal else "").removesuffix(effect)
    key, equals, value = setting.partition("=")
    # Of a taint: NoSchedule was removed above.
    has_other_effect = ":" in setting
    # A label or property must have a value to be set.
    has_needed_value = is_removal or bool(equals)
    is_valid = not has_other_effect if is_taint else has_needed_value
    return (
        MemberEdit(verb, member, key, None if is_removal else value)
        if member and key and is_valid
        else None
    )


def _parse_health_edit(verb: MemberEditKind, text: str) -> MemberEdit | None:
    """Parse `MEMBER:HEALTH`; None if invalid."""
    member, _, health = text.partition(":")
    is_valid = bool(member) and health in list(Health)
    return MemberEdit(verb, member, value=health) if is_valid else None


_PARSERS: Final[Mapping[MemberEditKind, Callable[[MemberEditKind, str], MemberEdit | None]]] = {
    **dict.fromkeys((MemberEditKind.LEAVE, MemberEditKind.DRAIN), _parse_member_edit),
    MemberEditKind.JOIN: _parse_join_edit,
    **dict.fromkeys(
        (MemberEditKind.TAINT, MemberEditKind.LABEL, MemberEditKind.PROPERTY), _parse_setting_edit
    ),
    MemberEditKind.HEALTH: _parse_health_edit,
}


class MemberEdits(Struct, frozen=True):
    """Edits of a plan, the blocks of joined members as text, and the drained members."""

    edits: tuple[Edit, ...]
    blocks: str
    drained: tuple[str, ...]


class _Member:
    """Member during the edits: its arguments, and those that change."""

    def __init__(self, address: Address, arguments: Mapping[str, Any], *, is_joined: bool) -> None:
        """Start with the arguments of a plan, or of a block to add."""
        self.address = address
        self.arguments = dict(arguments)
        self.is_joined = is_joined
        self.changed: dict[str, None] = {}

    def set_argument(self, name: str, value: Any) -> None:
        """Change an argument."""
        self.arguments[name] = value
        self.changed[name] = None

    def set_entry(self, edit: MemberEdit, name: str) -> None:
        """Set or remove an entry of a map, such as a label."""
        entries = dict(get_mapping(self.arguments, name))
        if edit.value is not None:
            entries[edit.key] = edit.value
        elif entries.pop(edit.key, None) is None:
            raise _build_missing_key_error(edit, entries)
        self.set_argument(name, entries)

    def set_taint(self, edit: MemberEdit) -> None:
        """Set or remove the taint of a key."""
        existing = get_list(self.arguments, "taint")
        taints = [taint for taint in existing if taint["key"] != edit.key]
        if edit.value is not None:
            taints.append({"key": edit.key, "value": edit.value, "effect": NO_SCHEDULE})
        elif len(taints) == len(existing):
            raise _build_missing_key_error(edit, [taint["key"] for taint in existing])
        self.set_argument("taint", taints)


def build_plan_edits(plan: Plan, edits: Iterable[MemberEdit]) -> MemberEdits:
    """Build the edits of a plan, which is the one without them.

    The planner checks the values. Raises one DiagnosticsError for unknown members and keys.
    """
    members = {
        str(change.after["name"]): _Member(change.address, change.after, is_joined=False)
        for change in plan.changes
        if change.address.type == MEMBER_TYPE and change.after is not None and not change.deposed
    }
    if not members:
        detail = (
            f"There is no {MEMBER_TYPE} in the configuration. Add one, or change to the directory "
            "that declares the fleet."
        )
        raise DiagnosticsError(build_error("nothing-to-simulate", detail))
    problems: list[Diagnostic] = []
    departed: dict[str, RemovedInstance] = {}
    # Joins are applied before other edits of the same member.
    ordered_edits = sorted(edits, key=lambda edit: edit.kind is not MemberEditKind.JOIN)
    for edit in ordered_edits:
        try:
            _apply_edit(members, departed, edit)
        except DiagnosticsError as error:
            # Several edits of one member may have the same error.
            problems += [problem for problem in error.diagnostics if problem not in problems]
    if problems:
        raise DiagnosticsError(*problems)
    adjustments = [
        ArgumentAdjustment(member.address, (name,), member.arguments[name])
        for member in members.values()
        if not member.is_joined
        for name in member.changed
    ]
    drained = dict.fromkeys(
        edit.member for edit in ordered_edits if edit.kind is MemberEditKind.DRAIN
    )
    return MemberEdits(
        (*departed.values(), *adjustments), _render_blocks(members.values()), tuple(drained)
    )


def _apply_edit(
    members: dict[str, _Member], departed: dict[str, RemovedInstance], edit: MemberEdit
) -> None:
    """Apply an edit to the members, and move leaving ones to `departed`.

    Raises DiagnosticsError.
    """
    if edit.member in departed:
        detail = (
            f"-{edit.kind}: {edit.member} already leaves the fleet. Remove the other changes of it."
        )
        raise DiagnosticsError(build_error("invalid-simulation", detail))
    if edit.kind is MemberEditKind.JOIN:
        members[edit.member] = _join_member(members, edit)
    elif edit.member not in members:
        raise _build_unknown_member_error(edit.member, members)
    elif edit.kind is MemberEditKind.LEAVE:
        departed[edit.member] = RemovedInstance(members.pop(edit.member).address)
    else:
        _change_member(members[edit.member], edit)


def _render_blocks(members: Iterable[_Member]) -> str:
    """Render the blocks of joined members."""
    return "".join(
        f'resource "{MEMBER_TYPE}" "{member.address.name}" {_render_body(member.arguments)}'
        for member in members
        if member.is_joined
    )


def _render_body(arguments: Mapping[str, Any]) -> str:
    """Render the body of a block; HCL reads values in JSON syntax."""
    lines: list[str] = []
    for name, value in arguments.items():
        if name in _BLOCKS:
            blocks = value if isinstance(value, list) else [value]
            lines += [f"{name} {_render_body(block)}" for block in blocks if block is not None]
        else:
            lines.append(f"{name} = {_render_value(value)}\n")
    return f"{{\n{''.join(lines)}}}\n"


def _render_value(value: Any) -> str:
    """Render a value without templates in its texts."""
    text = json.dumps(value, ensure_ascii=False)
    return text.replace("${", "$${").replace("%{", "%%{")


def _join_member(members: Mapping[str, _Member], edit: MemberEdit) -> _Member:
    """Return a new member; raises DiagnosticsError.

    `edit.value` names a member without nodes to copy, or the id of a cluster.
    """
    if edit.member in members:
        detail = f"{edit.member} is already a member. Choose another name for the new member."
        raise DiagnosticsError(build_error("invalid-simulation", detail))
    address = Address((), "managed", MEMBER_TYPE, f"simulated-{len(members)}")
    arguments: dict[str, Any] = {"name": edit.member, "labels": {MEMBER_LABEL: edit.member}}
    template = members.get(edit.value or "")
    if template is None:
        if edit.value is not None:
            arguments["kubernetes_cluster_id"] = edit.value
        return _Member(address, arguments, is_joined=True)
    if template.arguments.get("kubernetes_cluster_id"):
        detail = (
            f"{edit.text}: {edit.value} has nodes, and two members cannot share them. Add a "
            f"cluster to the configuration, and use -join={edit.member}=ID with its id."
        )
        raise DiagnosticsError(build_error("invalid-simulation", detail))
    copied = {name: template.arguments.get(name) for name in ("properties", "resources", "taint")}
    labels = {**get_mapping(template.arguments, "labels"), **arguments["labels"]}
    return _Member(address, {**copied, **arguments, "labels": labels}, is_joined=True)


def _change_member(member: _Member, edit: MemberEdit) -> None:
    """Apply an edit other than join or leave; raises DiagnosticsError for a missing key."""
    match edit.kind:
        case MemberEditKind.DRAIN:
            taints = get_list(member.arguments, "taint")
            if _CORDON not in taints:
                member.set_argument("taint", [*taints, _CORDON])
        case MemberEditKind.HEALTH:
            member.set_argument("health", edit.value)
        case MemberEditKind.TAINT:
            member.set_taint(edit)
        case MemberEditKind.LABEL:
            member.set_entry(edit, "labels")
        case MemberEditKind.PROPERTY:
            member.set_entry(edit, "properties")


def _build_missing_key_error(edit: MemberEdit, keys: Iterable[str]) -> DiagnosticsError:
    """Build the error for removing a missing key; `keys` are the existing ones."""
    names = sorted(set(keys), key=str.encode)
    choice = f"It has: {format_list(names, _MAX_NAMES)}." if names else f"It has no {edit.kind}."
    detail = (
        f'{edit.member} has no {edit.kind} "{edit.key}".{suggest_name(edit.key, names)} {choice}'
    )
    return DiagnosticsError(build_error("invalid-simulation", detail))


def _build_unknown_member_error(name: str, candidates: Iterable[str]) -> DiagnosticsError:
    """Build the error for an unknown member, with the most similar name and the known ones."""
    names = sorted(set(candidates), key=str.encode)
    choice = f"Known: {format_list(names, _MAX_NAMES)}."
    detail = f'There is no member "{name}".{suggest_name(name, names)} {choice}'
    return DiagnosticsError(build_error("invalid-simulation", detail))
