"""Edits of fleet members, from flags (`member-1:env=prod`) to members."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic, DiagnosticsError, build_error, suggest_name
from nexusform.diagnostics.phrases import enclose, format_list
from nexusform.domains.fleet.importers.fleet_records import FleetMember
from nexusform.domains.fleet.planning.fleet_snapshot import build_member
from nexusform.domains.fleet.scheduling.bindings import Health
from nexusform.domains.fleet.scheduling.fleet_api_validation import check_member
from nexusform.domains.fleet.scheduling.properties import RESOURCE_PREFIX
from nexusform.domains.fleet.types.fleet_member_cluster import MEMBER_LABEL
from nexusform.domains.pods.planning.node_clusters import NodeCluster
from nexusform.kubernetes.matching import NO_SCHEDULE, Taint
from nexusform.kubernetes.quantity import InvalidQuantity, parse_quantity

# Taint set by KubeFleet's `draincluster`. Source: KubeFleet tools/utils/common.go.
CORDON: Final = Taint("cordon-key", "cordon-value", NO_SCHEDULE)
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


class SimulatedMember(Struct, frozen=True):
    """Member of a simulation: its record, and its cluster if the nodes are known.

    `unmanaged_requests`: requests of unmanaged pods (thousandths of a CPU, bytes).
    """

    record: FleetMember
    cluster: NodeCluster | None = None
    unmanaged_requests: tuple[int, int] = (0, 0)


class SimulatedFleet(Struct, frozen=True):
    """Members of a fleet by name, and the clusters available to join, by id."""

    members: Mapping[str, SimulatedMember]
    clusters: Mapping[str, NodeCluster]


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


def apply_member_edits(
    simulated_fleet: SimulatedFleet, edits: Iterable[MemberEdit]
) -> Mapping[str, SimulatedMember]:
    """Return the members by name after the edits, joined ones last.

    Raises one DiagnosticsError for invalid edits.
    """
    members = dict(simulated_fleet.members)
    problems: list[Diagnostic] = []
    departed: set[str] = set()
    # Joins are applied before other edits of the same member.
    for edit in sorted(edits, key=lambda edit: edit.kind is not MemberEditKind.JOIN):
        try:
            member = _apply_edit(simulated_fleet, members, edit, departed)
        except DiagnosticsError as error:
            # Several edits of one member may have the same error.
            problems += [problem for problem in error.diagnostics if problem not in problems]
            continue
        if member is None:
            departed.add(edit.member)
            del members[edit.member]
        else:
            members[edit.member] = member
    if problems:
        raise DiagnosticsError(*problems)
    return members


def _apply_edit(
    simulated_fleet: SimulatedFleet,
    members: Mapping[str, SimulatedMember],
    edit: MemberEdit,
    departed: Collection[str],
) -> SimulatedMember | None:
    """Return the member after an edit, or None if it leaves.

    `members` are those after the earlier edits, without the `departed` ones. Raises
    DiagnosticsError if the edit is impossible, or makes the member invalid.
    """
    if edit.kind is MemberEditKind.JOIN:
        member = _join_member(simulated_fleet, edit)
    elif edit.member in departed:
        detail = (
            f"-{edit.kind}: {edit.member} already leaves the fleet. Remove the other changes of it."
        )
        raise DiagnosticsError(build_error("invalid-simulation", detail))
    elif edit.member not in members:
        raise _build_unknown_object_error("member", edit.member, members)
    elif edit.kind is MemberEditKind.LEAVE:
        return None
    else:
        member = _change_member(members[edit.member], edit)
    # requests: not checked.
    problems = check_member(build_member(member.record, member.cluster, requests=(0, 0)))
    if problems:
        raise DiagnosticsError(
            build_error("invalid-simulation", f"{edit.text}: {problems[0].detail}.")
        )
    return member


def _join_member(simulated_fleet: SimulatedFleet, edit: MemberEdit) -> SimulatedMember:
    """Return a new member, or an unhealthy one made healthy.

    `edit.value` names a member to copy or a cluster; with None, it has no nodes. Raises
    DiagnosticsError for an existing name, or an unknown member or cluster.
    """
    existing = simulated_fleet.members.get(edit.member)
    if existing is not None:
        is_healthy = existing.record.health is Health.HEALTHY
        # Only an unhealthy member without a template joins again.
        if edit.value or is_healthy:
            reason = "already joins" if is_healthy else "is already a member"
            detail = f"{edit.member} {reason}. Choose another name for the new member."
            raise DiagnosticsError(build_error("invalid-simulation", detail))
        return replace(existing, record=replace(existing.record, health=Health.HEALTHY))
    if edit.value is None:
        return SimulatedMember(FleetMember(edit.member, {MEMBER_LABEL: edit.member}))
    # None: it may name a cluster, see below.
    template = simulated_fleet.members.get(edit.value)
    if template is not None:
        labels = {**template.record.labels, MEMBER_LABEL: edit.member}
        record = replace(template.record, name=edit.member, labels=labels, health=Health.HEALTHY)
        template_cluster = template.cluster
        if template_cluster is not None:
            # The new member has equal nodes, on a site of its own and without pods.
            site_id = f"simulated/{edit.member}"
            identity = {"id": site_id, "name": edit.member, "site_id": site_id}
            template_cluster = replace(template_cluster, **identity)
        return SimulatedMember(record, template_cluster)
    all_clusters = simulated_fleet.clusters.values()
    clusters = [cluster for cluster in all_clusters if edit.value in (cluster.id, cluster.name)]
    # No such cluster, or an ambiguous name.
    if len(clusters) != 1:
        names = [*simulated_fleet.members, *(cluster.id for cluster in all_clusters)]
        raise _build_unknown_object_error("member or cluster", edit.value, names)
    [cluster] = clusters
    return SimulatedMember(
        FleetMember(edit.member, {MEMBER_LABEL: edit.member}, cluster_id=cluster.id), cluster
    )


def _change_member(member: SimulatedMember, edit: MemberEdit) -> SimulatedMember:
    """Return the member after an edit other than join or leave.

    Raises DiagnosticsError for an impossible one.
    """
    record = member.record
    match edit.kind:
        case MemberEditKind.DRAIN:
            taints = dict.fromkeys((*record.taints, CORDON))
            return replace(member, record=replace(record, taints=tuple(taints)))
        case MemberEditKind.HEALTH:
            return replace(member, record=replace(record, health=Health(str(edit.value))))
        case MemberEditKind.TAINT:
            return _set_taint(member, edit)
        case MemberEditKind.LABEL:
            return _set_label_or_property(member, edit, "labels", record.labels)
    if edit.key.startswith(RESOURCE_PREFIX):
        return _set_resource_property(member, edit)
    return _set_label_or_property(member, edit, "properties", record.properties)


def _set_resource_property(member: SimulatedMember, edit: MemberEdit) -> SimulatedMember:
    """Return the member with an amount of a resource set, or removed if the edit has no value.

    Raises DiagnosticsError for an unknown name, an invalid amount, and removing a missing one. With
    known nodes, amounts cannot be set: they are computed.
    """
    if member.cluster is not None:
        detail = (
            f"{edit.text}: the value is computed from the nodes of {member.cluster.name} and "
            "their pods."
        )
        raise DiagnosticsError(build_error("invalid-simulation", detail))
    resources = member.record.resources
    # The rest of the key is such as `total-cpu`: a field of `resources`, and a key in its mapping.
    field_name, _, resource = edit.key.removeprefix(RESOURCE_PREFIX).partition("-")
    if field_name not in ("total", "allocatable", "available") or not resource:
        detail = (
            f"{edit.text}: unknown property. Resource properties are "
            f"{RESOURCE_PREFIX}available-cpu and "
            "so on, with total, allocatable or available."
        )
        raise DiagnosticsError(build_error("invalid-simulation", detail))
    amounts = dict(getattr(resources, field_name))
    if edit.value is None:
        if resource not in amounts:
            raise _build_missing_key_error(
                edit, [f"{RESOURCE_PREFIX}{field_name}-{name}" for name in amounts]
            )
        del amounts[resource]
    else:
        amount = parse_quantity(edit.value)
        if isinstance(amount, InvalidQuantity):
            detail = f'{edit.text}: "{edit.value}" is not a valid quantity: {amount.message}.'
            raise DiagnosticsError(build_error("invalid-simulation", detail))
        amounts[resource] = amount
    return replace(
        member, record=replace(member.record, resources=replace(resources, **{field_name: amounts}))
    )


def _set_taint(member: SimulatedMember, edit: MemberEdit) -> SimulatedMember:
    """Return the member with a taint set (effect NoSchedule), or removed (value None).

    A missing one is an error.
    """
    existing = member.record.taints
    taints = [taint for taint in existing if taint.key != edit.key]
    if edit.value is not None:
        taints.append(Taint(edit.key, edit.value, NO_SCHEDULE))
    elif len(taints) == len(existing):
        raise _build_missing_key_error(edit, [taint.key for taint in existing])
    return replace(member, record=replace(member.record, taints=tuple(taints)))


def _set_label_or_property(
    member: SimulatedMember, edit: MemberEdit, field_name: str, existing: Mapping[str, str]
) -> SimulatedMember:
    """Return the member with a label or property set, or removed if the edit has no value.

    `existing` are the entries of `field_name` in its record. Raises DiagnosticsError for removing a
    missing or computed one.
    """
    # Nothing to remove.
    if edit.value is None and edit.key not in existing:
        if edit.kind is MemberEditKind.PROPERTY and member.cluster is not None:
            # requests: not used.
            properties = build_member(member.record, member.cluster, requests=(0, 0)).properties
            # computed from nodes, such as their number.
            if edit.key in properties:
                detail = (
                    f"{edit.text}: the value comes from the nodes of {member.cluster.name}; set "
                    "another value."
                )
                raise DiagnosticsError(build_error("invalid-simulation", detail))
        raise _build_missing_key_error(edit, existing)
    entries = {key: value for key, value in existing.items() if key != edit.key}
    if edit.value is not None:
        entries[edit.key] = edit.value
    return replace(member, record=replace(member.record, **{field_name: entries}))


def _build_missing_key_error(edit: MemberEdit, keys: Iterable[str]) -> DiagnosticsError:
    """Build the error for removing a missing key; `keys` are the existing ones."""
    names = sorted(set(keys), key=str.encode)
    choice = f"It has: {format_list(names, _MAX_NAMES)}." if names else f"It has no {edit.kind}."
    detail = (
        f'{edit.member} has no {edit.kind} "{edit.key}".{suggest_name(edit.key, names)} {choice}'
    )
    return DiagnosticsError(build_error("invalid-simulation", detail))


def _build_unknown_object_error(
    noun: str, name: str, candidates: Iterable[str]
) -> DiagnosticsError:
    """Build the error for an unknown member or cluster.

    It has the most similar name and the known ones.
    """
    names = sorted(set(candidates), key=str.encode)
    choice = f"Known: {format_list(names, _MAX_NAMES)}." if names else "None exists."
    detail = f'There is no {noun} "{name}".{suggest_name(name, names)} {choice}'
    return DiagnosticsError(build_error("invalid-simulation", detail))
