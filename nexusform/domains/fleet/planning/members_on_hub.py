"""Members of a hub, as state remembers them and as they will be. Of one that is there a plan has a say in
labels and taints, and in nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet

from msgspec.structs import replace

from nexusform.address import Address
from nexusform.diagnostics import Diagnostic, Problem
from nexusform.domains.fleet.importers.fleet_model import FleetMember
from nexusform.domains.fleet.planning.world import (
    LEFT_WITHOUT,
    UNSEEN,
    FleetMemberState,
    Pods,
    member_of,
    remember,
    remembered,
)
from nexusform.domains.fleet.scheduling.bindings import Member
from nexusform.domains.pods.planning.nodes import NodeCluster
from nexusform.planning.instances.instance import Instance
from nexusform.plans.plan import Action
from nexusform.ports import Kind


def as_it_will_be(instance: Instance, written: FleetMember, shown: Mapping[str, FleetMember]) -> FleetMember:
    """A member that is written: where a provider writes it to a hub, as that shows it beside what is
    written.
    """
    if not _is_there(instance, written.name, shown):
        return written
    return _over_shown(written, shown[written.name], _former(instance))


def _is_there(instance: Instance, name: str, shown: Mapping[str, FleetMember]) -> bool:
    """Whether a hub shows a member that a provider writes there."""
    return name in shown and instance.block is not None and bool(instance.block.provider)


def _former(instance: Instance) -> FleetMember | None:
    """The member as it was written before."""
    former = instance.type.fleet(instance.before) if instance.type.fleet and instance.before else None
    return former if isinstance(former, FleetMember) else None


def _over_shown(written: FleetMember, shown: FleetMember, former: FleetMember | None) -> FleetMember:
    """A member as the hub shows it, with the labels and taints that are written for it; what was written and
    is not any more goes. Taints are one list.
    """
    dropped = (former.labels.keys() if former is not None else set()) - written.labels.keys()
    labels = {name: value for name, value in shown.labels.items() if name not in dropped}
    had_taints = former is not None and bool(former.taints)
    taints = written.taints if written.taints or had_taints else shown.taints
    return replace(
        shown,
        labels={**labels, **written.labels},
        taints=taints,
        cluster_id=written.cluster_id,
        apply_fails=written.apply_fails,
    )


def read_members(
    instances: Iterable[Instance],
    clusters: Mapping[str, NodeCluster],
    pods: Pods,
    shown: Mapping[str, FleetMember],
    found_gone: AbstractSet[str],
) -> tuple[dict[str, FleetMemberState], list[Diagnostic]]:
    """The members of the plan by name: those that stay or come, and those that go. `clusters` are those
    that members may stand for, by id; `shown` are the members that a hub shows. They are there, written or
    not. `found_gone` are those of state that a provider did not find.
    """
    instances = list(instances)
    members: dict[str, FleetMemberState] = {}
    gone = set(found_gone) | set(_names_gone(instances))
    problems: list[Diagnostic] = []
    for instance in instances:
        if instance.type.kind is not Kind.MEMBER or instance.type.fleet is None:
            continue
        leaving = _leaving(instance)
        if leaving is not None and leaving.before is not None:
            members.setdefault(leaving.before.name, leaving)
        if instance.going or instance.broken or instance.planned is None:
            continue
        written = instance.type.fleet(instance.planned)
        if not isinstance(written, FleetMember):
            continue
        written = as_it_will_be(instance, written, shown)
        cluster = clusters.get(written.cluster_id) if written.cluster_id else None
        if written.cluster_id and cluster is None:
            problems.append(_unknown_cluster(instance, written.cluster_id, clusters))
            instance.broken = True
        # Of a member that is there the hub knows the figures; its nodes are where its pods go.
        figures = None if _is_there(instance, written.name, shown) else cluster
        requests = pods.requests(figures.id) if figures is not None else (0, 0)
        now = member_of(written, figures, requests)
        before = _before(instance, now, shown if figures is None else {})
        members[written.name] = FleetMemberState(
            instance.address,
            written,
            cluster,
            before,
            now,
            rejoins=before is None and now.name in gone,
            not_seen_leaving=_not_seen_leaving(instance),
        )
    for name, shown_member in shown.items():
        if name not in members and name not in gone:
            now = member_of(shown_member, None, (0, 0))
            members[name] = FleetMemberState(None, shown_member, None, now, now)
    return members, problems


def _names_gone(instances: Iterable[Instance]) -> Iterator[str]:
    """The members that are destroyed; of the same name may come anew."""
    for instance in instances:
        if instance.type.kind is Kind.MEMBER and (instance.action is Action.DELETE or instance.replaced):
            yield str((instance.before or {}).get("name"))


def _not_seen_leaving(instance: Instance) -> frozenset[str]:
    """The placements that were left out of a plan which made the member anew."""
    note = instance.prior.private if instance.prior is not None else None
    noted = (note or {}).get(LEFT_WITHOUT)
    return frozenset(map(str, noted)) if isinstance(noted, list | tuple) else frozenset()


def _leaving(instance: Instance) -> FleetMemberState | None:
    """The member that an instance was, when it goes or becomes another."""
    if instance.before is None or not (instance.going or instance.replaced):
        return None
    note = instance.prior.private if instance.prior is not None else None
    before = remembered(str(instance.before.get("name")), note or {})
    return FleetMemberState(instance.address, None, None, before, None)


def _before(instance: Instance, now: Member, shown: Mapping[str, FleetMember]) -> Member | None:
    """The member as placements saw it last, None when none has seen it: as the hub shows it, else as state
    noted it. One that state holds without a note is taken as it is: nothing tells what changed.
    """
    if now.name in shown and not instance.replaced:
        return member_of(shown[now.name], None, (0, 0))
    note = instance.prior.private if instance.prior is not None else None
    if instance.prior is None or instance.replaced or (note or {}).get("seen") is False:
        return None
    return remembered(now.name, note) if note else now


def note_members(members: Iterable[FleetMemberState], instances: Mapping[Address, Instance]) -> None:
    """Let state note the members as all placements have seen them. Where a placement was left out of the
    plan, what it has not seen stays to be seen.
    """
    placements = [instance for instance in instances.values() if instance.type.kind is Kind.PLACEMENT]
    left_out = [str(each.address) for each in placements if each.block is None and not each.going]
    for member in members:
        instance = instances.get(member.address) if member.address is not None else None
        if member.now is None or instance is None:
            continue
        if not left_out:
            instance.private = remember(member.now)
        elif member.before is None:
            without = left_out if member.rejoins else sorted(member.not_seen_leaving.intersection(left_out))
            instance.private = {**UNSEEN, LEFT_WITHOUT: without} if without else UNSEEN


def _unknown_cluster(instance: Instance, cluster_id: str, known: Mapping[str, NodeCluster]) -> Diagnostic:
    listed = f" Known clusters: {', '.join(sorted(known)[:8])}." if known else ""
    return instance.problem(
        Problem(
            ("kubernetes_cluster_id",),
            "unknown-cluster",
            f'No nexus_kubernetes_cluster or tacker_vnf has the id "{cluster_id}".{listed} Write a reference '
            "such as nexus_kubernetes_cluster.a.id, so that the cluster is planned first.",
        )
    )
