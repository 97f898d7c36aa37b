"""What may happen to the members of a fleet: from flags (`member-1:env=prod`) to members."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import asdict, replace

from nexusform.diagnostics import Diagnostic, did_you_mean, error
from nexusform.domains.fleet.importers.fleet_model import FleetMember
from nexusform.domains.fleet.planning.world import member_of
from nexusform.domains.fleet.scheduling.bindings import Health, ResourceUsage
from nexusform.domains.fleet.scheduling.properties import RESOURCE_PREFIX
from nexusform.domains.fleet.scheduling.validation import check_member
from nexusform.domains.fleet.types.fleet_member_cluster import MEMBER_LABEL
from nexusform.domains.pods.planning.nodes import NodeCluster
from nexusform.kubernetes.matching import NO_SCHEDULE, Taint
from nexusform.kubernetes.quantity import Malformed, parse_quantity
from nexusform.words import listed

# What KubeFleet's `draincluster` puts on a member. Source: KubeFleet tools/utils/common.go.
CORDON: Final = Taint("cordon-key", "cordon-value", NO_SCHEDULE)
_SHOWN: Final = 20


class Verb(StrEnum):
    """What happens to a member."""

    LEAVE = "leave"
    DRAIN = "drain"
    JOIN = "join"
    TAINT = "taint"
    LABEL = "label"
    PROPERTY = "property"
    HEALTH = "health"


class Edit(Struct, frozen=True):
    """One thing that happens to a member. `key` is of the taint, label or property, `value` what it is then
    (None: it goes); of `join` the value is what the member is like, of `health` the health.
    """

    verb: Verb
    member: str
    key: str = ""
    value: str | None = None

    @property
    def text(self) -> str:
        """`member-1 leaves`, `member-2: label env=prod`."""
        match self.verb:
            case Verb.LEAVE:
                return f"{self.member} leaves"
            case Verb.DRAIN:
                return f"{self.member} is drained"
            case Verb.JOIN:
                return f"{self.member} joins" + (f" like {self.value}" if self.value else "")
            case Verb.HEALTH:
                return f"{self.member} is {self.value}"
        change = f"without {self.verb} {self.key}" if self.value is None else f"{self.verb} {self.setting}"
        return f"{self.member}: {change}"

    @property
    def setting(self) -> str:
        """Key and value: `env=prod`, `gone:NoSchedule`."""
        if self.verb is Verb.TAINT:
            return f"{self.key}={self.value}" if self.value else self.key
        return f"{self.key}={self.value}"


class Seat(Struct, frozen=True):
    """A member as a simulation takes it: as written, with the cluster that it is where its nodes are known.
    `others` is what pods ask for that nothing here brings (thousandths of a CPU, bytes).
    """

    written: FleetMember
    cluster: NodeCluster | None = None
    others: tuple[int, int] = (0, 0)


class Seats(Struct, frozen=True):
    """The members of a fleet by name, and the clusters that may join it, by id."""

    members: Mapping[str, Seat]
    clusters: Mapping[str, NodeCluster]


# --- from flags --------------------------------------------------------------------------------


def read_edits(flags: Mapping[Verb, Sequence[str]]) -> tuple[list[Edit], list[Diagnostic]]:
    """The edits that flags ask for, in the order of `flags`, and what is wrong with others."""
    edits: list[Edit] = []
    problems: list[Diagnostic] = []
    for verb, texts in flags.items():
        for text in texts:
            edit = _READERS[verb](verb, text)
            if edit is None:
                detail = f"-{verb}={text} does not say what happens. Write {_FORMS[verb]}."
                problems.append(error("invalid-simulation", detail))
            else:
                edits.append(edit)
    return edits, problems


_FORMS: Final[Mapping[Verb, str]] = {
    Verb.LEAVE: "-leave=MEMBER",
    Verb.DRAIN: "-drain=MEMBER",
    Verb.JOIN: "-join=MEMBER, or -join=MEMBER=LIKE with another member or a cluster that it is like",
    Verb.TAINT: "-taint=MEMBER:KEY[=VALUE][:NoSchedule], and -taint=MEMBER:KEY- to take one away",
    Verb.LABEL: "-label=MEMBER:KEY=VALUE, and -label=MEMBER:KEY- to take one away",
    Verb.PROPERTY: "-property=MEMBER:NAME=VALUE, and -property=MEMBER:NAME- to take one away",
    Verb.HEALTH: f"-health=MEMBER:HEALTH, with {listed((str(h) for h in Health), _SHOWN)}",
}


def _read_name(verb: Verb, text: str) -> Edit | None:
    """`MEMBER`; None for any other text."""
    return Edit(verb, text) if text and ":" not in text and "=" not in text else None


def _read_join(verb: Verb, text: str) -> Edit | None:
    """`MEMBER` or `MEMBER=LIKE`; None for any other text."""
    name, equals, like = text.partition("=")
    if not name or ":" in name or (equals and not like):
        return None
    return Edit(verb, name, value=like or None)


def _read_setting(verb: Verb, text: str) -> Edit | None:
    """`MEMBER:KEY=VALUE` sets, `MEMBER:KEY-` takes away; None when it is neither."""
    member, colon, setting = text.partition(":")
    if not member or not colon:
        return None
    if setting.endswith("-") and "=" not in setting:
        return Edit(verb, member, setting[:-1]) if setting != "-" else None
    key, equals, value = setting.partition("=")
    return Edit(verb, member, key, value) if key and equals else None


def _read_taint(verb: Verb, text: str) -> Edit | None:
    """`MEMBER:KEY=VALUE` or `MEMBER:KEY` sets, `MEMBER:KEY-` takes away; the effect may be left out."""
    member, colon, setting = text.partition(":")
    if not member or not colon:
        return None
    if setting.endswith("-") and "=" not in setting:
        return Edit(verb, member, setting[:-1].removesuffix(f":{NO_SCHEDULE}")) if setting != "-" else None
    setting = setting.removesuffix(f":{NO_SCHEDULE}")
    key, _, value = setting.partition("=")
    return Edit(verb, member, key, value) if key and ":" not in setting else None


def _read_health(verb: Verb, text: str) -> Edit | None:
    """`MEMBER:HEALTH`; None for any other text."""
    member, _, health = text.partition(":")
    is_known = health in {str(known_health) for known_health in Health}
    return Edit(verb, member, value=health) if member and is_known else None


_READERS: Final[Mapping[Verb, Callable[[Verb, str], Edit | None]]] = {
    Verb.LEAVE: _read_name,
    Verb.DRAIN: _read_name,
    Verb.JOIN: _read_join,
    Verb.TAINT: _read_taint,
    Verb.LABEL: _read_setting,
    Verb.PROPERTY: _read_setting,
    Verb.HEALTH: _read_health,
}


# --- to members --------------------------------------------------------------------------------


def edited(seats: Seats, edits: Iterable[Edit]) -> tuple[Mapping[str, Seat], list[Diagnostic]]:
    """The members once all of it has happened, those that join last; and what is wrong with edits."""
    members = dict(seats.members)
    problems: list[Diagnostic] = []
    have_left: set[str] = set()
    # Who joins is there before anything else happens to it.
    for edit in sorted(edits, key=lambda edit: edit.verb is not Verb.JOIN):
        seat = _edited(seats, members, edit, have_left)
        if isinstance(seat, Diagnostic):
            if seat not in problems:
                problems.append(seat)
        elif seat is None:
            have_left.add(edit.member)
            del members[edit.member]
        else:
            members[edit.member] = seat
    return members, problems


def _edited(
    seats: Seats, members: Mapping[str, Seat], edit: Edit, have_left: Collection[str]
) -> Seat | Diagnostic | None:
    """The member after an edit; None where it leaves. `have_left` are those that left by earlier edits."""
    if edit.verb is Verb.JOIN:
        seat = _joined(seats, edit)
    elif edit.member in have_left:
        detail = f"-{edit.verb}: {edit.member} leaves the fleet already; nothing more can happen to it."
        return error("invalid-simulation", detail)
    elif edit.member not in members:
        return _unknown("member", edit.member, members)
    elif edit.verb is Verb.LEAVE:
        return None
    else:
        seat = _changed(members[edit.member], edit)
    if isinstance(seat, Diagnostic):
        return seat
    problems = check_member(member_of(seat.written, seat.cluster, (0, 0)))
    return error("invalid-simulation", f"{edit.text}: {problems[0].detail}.") if problems else seat


def _joined(seats: Seats, edit: Edit) -> Seat | Diagnostic:
    """A new member, or one that stands and was not eligible."""
    standing = seats.members.get(edit.member)
    if standing is not None:
        return _joined_again(standing, edit)
    if edit.value is None:
        return Seat(_new_member(edit.member))
    like = seats.members.get(edit.value)
    if like is not None:
        return _member_like(like, edit.member)
    all_clusters = seats.clusters.values()
    clusters = [cluster for cluster in all_clusters if edit.value in (cluster.id, cluster.name)]
    if len(clusters) != 1:
        names = [*seats.members, *(cluster.id for cluster in all_clusters)]
        return _unknown("member or cluster", edit.value, names)
    [cluster] = clusters
    return Seat(_new_member(edit.member, cluster.id), cluster)


def _joined_again(standing: Seat, edit: Edit) -> Seat | Diagnostic:
    """A member that stands can only become eligible."""
    healthy = standing.written.health is Health.HEALTHY
    if edit.value or healthy:
        why = "has joined already" if healthy else "is a member already"
        detail = f"{edit.member} {why}: choose another name for one that joins."
        return error("invalid-simulation", detail)
    return replace(standing, written=replace(standing.written, health=Health.HEALTHY))


def _new_member(name: str, cluster_id: str = "") -> FleetMember:
    return FleetMember(
        name=name,
        labels={MEMBER_LABEL: name},
        taints=(),
        health=Health.HEALTHY,
        namespaces=None,
        cluster_id=cluster_id,
        properties={},
        resources=ResourceUsage(),
    )


def _member_like(like: Seat, name: str) -> Seat:
    """Another member of this name, on a cluster of its own."""
    labels = {**like.written.labels, MEMBER_LABEL: name}
    written = replace(like.written, name=name, labels=labels, health=Health.HEALTHY)
    return Seat(written, _copy_of(like.cluster, name))


def _copy_of(cluster: NodeCluster | None, name: str) -> NodeCluster | None:
    """A cluster with nodes like those of another on a site of its own, and nothing on them."""
    if cluster is None:
        return None
    site_id = f"simulated/{name}"
    return NodeCluster(**{**asdict(cluster), "id": site_id, "name": name, "site_id": site_id})


def _changed(seat: Seat, edit: Edit) -> Seat | Diagnostic:
    """The member after an edit that neither brings nor removes it."""
    written = seat.written
    match edit.verb:
        case Verb.DRAIN:
            taints = written.taints if CORDON in written.taints else (*written.taints, CORDON)
            return replace(seat, written=replace(written, taints=taints))
        case Verb.HEALTH:
            return replace(seat, written=replace(written, health=Health(edit.value or Health.HEALTHY)))
        case Verb.TAINT:
            return _tainted(seat, edit)
        case Verb.LABEL:
            return _with_entry(seat, edit, "labels", written.labels)
    if edit.key.startswith(RESOURCE_PREFIX):
        return _resourced(seat, edit)
    return _with_entry(seat, edit, "properties", written.properties)


def _tainted(seat: Seat, edit: Edit) -> Seat | Diagnostic:
    """The member with a taint of this key set, or without it."""
    standing = seat.written.taints
    taints = [taint for taint in standing if taint.key != edit.key]
    if edit.value is not None:
        taints.append(Taint(edit.key, edit.value, NO_SCHEDULE))
    elif len(taints) == len(standing):
        return _has_no(edit, [taint.key for taint in standing])
    return replace(seat, written=replace(seat.written, taints=tuple(taints)))


def _with_entry(seat: Seat, edit: Edit, where: str, standing: Mapping[str, str]) -> Seat | Diagnostic:
    """The member with a label or property set, or without it: an entry of `where`, which are `standing`."""
    if edit.value is None and edit.key not in standing:
        return _not_removable(seat, edit, standing)
    entries = {key: value for key, value in standing.items() if key != edit.key}
    if edit.value is not None:
        entries[edit.key] = edit.value
    return replace(seat, written=replace(seat.written, **{where: entries}))


def _not_removable(seat: Seat, edit: Edit, standing: Mapping[str, str]) -> Diagnostic:
    """A key cannot be taken away that nobody wrote, be it that a property follows from the nodes."""
    if edit.verb is Verb.PROPERTY and seat.cluster is not None:
        derived = member_of(seat.written, seat.cluster, (0, 0)).properties
        if edit.key in derived:
            detail = f"{edit.text}: it follows from the nodes of {seat.cluster.name}; give it another value."
            return error("invalid-simulation", detail)
    return _has_no(edit, standing)


def _resourced(seat: Seat, edit: Edit) -> Seat | Diagnostic:
    """The member with another amount of CPU or memory."""
    which, _, resource = edit.key.removeprefix(RESOURCE_PREFIX).partition("-")
    usage = seat.written.resources
    if seat.cluster is not None:
        return error(
            "invalid-simulation",
            f"{edit.text}: this figure follows from the nodes of {seat.cluster.name} and the pods on them.",
        )
    if which not in ("total", "allocatable", "available") or not resource:
        return error(
            "invalid-simulation",
            f"{edit.text}: there is no such property. Resources are {RESOURCE_PREFIX}available-cpu and the "
            "like, with total, allocatable or available.",
        )
    amounts = {name: amount for name, amount in getattr(usage, which).items() if name != resource}
    if edit.value is not None:
        amount = parse_quantity(edit.value)
        if isinstance(amount, Malformed):
            detail = f'{edit.text}: "{edit.value}" is not a valid quantity: {amount.message}.'
            return error("invalid-simulation", detail)
        amounts[resource] = amount
    return replace(seat, written=replace(seat.written, resources=replace(usage, **{which: amounts})))


def _has_no(edit: Edit, keys: Iterable[str]) -> Diagnostic:
    """A key cannot be taken away that a member does not have; `keys` are those that it has."""
    names = sorted(set(keys), key=str.encode)
    choice = f"It has: {listed(names, _SHOWN)}." if names else f"It has no {edit.verb} at all."
    detail = f'{edit.member} has no {edit.verb} "{edit.key}".{did_you_mean(edit.key, names)} {choice}'
    return error("invalid-simulation", detail)


def _unknown(what: str, name: str, known: Iterable[str]) -> Diagnostic:
    names = sorted(set(known), key=str.encode)
    choice = f"Known: {listed(names, _SHOWN)}." if names else "There is none."
    detail = f'There is no {what} "{name}".{did_you_mean(name, names)} {choice}'
    return error("invalid-simulation", detail)
