"""Fleet members before and after a plan.

For members on a hub, a plan changes labels and taints only.
"""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic
from nexusform.domains.fleet.importers.fleet_records import FleetMember
from nexusform.domains.fleet.planning.fleet_snapshot import (
    UNCLEARED_PLACEMENTS,
    UNNOTIFIED_PLACEMENTS,
    UNPROCESSED,
    FleetMemberState,
    FleetPodPredictor,
    build_member,
    build_member_record,
    parse_member_record,
    select_instances,
)
from nexusform.domains.fleet.planning.foreign_field_merge import build_object
from nexusform.domains.fleet.planning.planned_hub import read_prior_object
from nexusform.domains.fleet.scheduling.bindings import Member
from nexusform.domains.pods.planning.node_clusters import NodeCluster
from nexusform.interfaces.plugins import PlanningKind
from nexusform.json_data.plain_data import get_value_at_path, list_texts
from nexusform.planning.instances.instance import Instance
from nexusform.resources.address import Address


def merge_observed_member(
    instance: Instance, configuration: FleetMember, observed_member: FleetMember
) -> FleetMember:
    """Return the member that a hub has after a provider writes the configuration.

    This is the member observed on the hub, with the configured labels and taints. Labels added
    there by others stay, those removed from the configuration do not.
    """
    previous_member = read_prior_object(instance)
    assert isinstance(previous_member, FleetMember)
    # From the configuration.
    removed_labels = previous_member.labels.keys() - configuration.labels.keys()
    labels = {
        name: value for name, value in observed_member.labels.items() if name not in removed_labels
    }
    # One owner sets the whole list.
    has_taints = bool(configuration.taints or previous_member.taints)
    return replace(
        observed_member,
        labels={**labels, **configuration.labels},
        taints=configuration.taints if has_taints else observed_member.taints,
        cluster_id=configuration.cluster_id,
        apply_fails=configuration.apply_fails,
    )


def build_members(
    instances: Iterable[Instance],
    clusters: Mapping[str, NodeCluster],
    pods: FleetPodPredictor,
    observed: Mapping[str, FleetMember],
    missing_members: AbstractSet[str],
) -> tuple[dict[str, FleetMemberState], list[Diagnostic]]:
    """Return the members by name, and errors about unknown clusters.

    Members removed by the plan are included. `clusters` are possible clusters of members, by id.
    `observed` are all members of a hub, by name, even without configuration. `missing_members` are
    names of members in state, not found by a provider.
    """
    members: dict[str, FleetMemberState] = {}
    member_instances = select_instances(instances, PlanningKind.MEMBER)
    leaving = [item for item in member_instances if item.is_destroyed]
    leaving_names = {
        *missing_members,
        *(str(get_value_at_path(instance.before, "name")) for instance in leaving),
    }
    problems: list[Diagnostic] = []
    for instance in member_instances:
        if instance.before is not None and instance.loses_prior_object:
            name_only = FleetMember(str(instance.before.get("name")))
            leaving_member = parse_member_record(name_only.name, instance.prior_note)
            # Another instance may join a cluster of this name, before or after: it has priority.
            members.setdefault(
                name_only.name,
                FleetMemberState(instance.address, name_only, previous=leaving_member),
            )
        # With errors, an existing member stays as it is.
        attributes = instance.before if instance.is_invalid else instance.planned
        if attributes is None:
            # No member after the plan, or a new one with errors.
            continue
        member = _build_configured_member(instance, attributes, clusters, pods, observed)
        member.is_rejoining = member.previous is None and member.configuration.name in leaving_names
        members[member.configuration.name] = member
        if instance.is_invalid:
            continue
        if member.configuration.cluster_id and member.cluster is None:
            problems.append(
                _build_unknown_cluster_error(instance, member.configuration.cluster_id, clusters)
            )
            instance.is_invalid = True
    for name, observed_member in observed.items():
        # Not configured: unchanged by the plan.
        if name not in members and name not in leaving_names:
            planned = build_member(observed_member, cluster=None, requests=(0, 0))
            members[name] = FleetMemberState(
                None, configuration=observed_member, previous=planned, planned=planned
            )
    return members, problems


def _build_configured_member(
    instance: Instance,
    attributes: Mapping[str, Any],
    clusters: Mapping[str, NodeCluster],
    pods: FleetPodPredictor,
    observed: Mapping[str, FleetMember],
) -> FleetMemberState:
    """Return the member of an instance with these planned attributes.

    Its `cluster` is None if it is unknown.
    """
    configuration = build_object(instance, attributes)
    assert isinstance(configuration, FleetMember)
    # It writes the member to a hub.
    has_provider = instance.block is not None and bool(instance.block.provider)
    is_managed_on_hub = has_provider and configuration.name in observed
    if is_managed_on_hub:
        configuration = merge_observed_member(instance, configuration, observed[configuration.name])
    # data blocks may have nodes of a member.
    cluster = clusters.get(configuration.cluster_id or configuration.name)
    # Properties and resources are computed from the nodes, unless a hub reports those
    # of its members.
    measured_cluster = None if is_managed_on_hub else cluster
    requests = (
        pods.sum_requests(measured_cluster.id) if measured_cluster is not None else (0, 0)
    )  # CPU, memory
    planned = build_member(configuration, measured_cluster, requests)
    # computed figures have no report to compare.
    reported = observed if measured_cluster is None else {}
    return FleetMemberState(
        address=instance.address,
        configuration=configuration,
        cluster=cluster,
        previous=_find_previous_member(instance, planned, reported),
        planned=planned,
        # Earlier versions recorded "left_without".
        unnotified_placements=frozenset(
            list_texts(instance.prior_note, UNNOTIFIED_PLACEMENTS)
            or list_texts(instance.prior_note, "left_without")
        ),
    )


def _build_unknown_cluster_error(
    instance: Instance, cluster_id: str, clusters: Iterable[str]
) -> Diagnostic:
    """Build the error for a member on a cluster that is not among the known `clusters` (ids)."""
    names = ", ".join(sorted(clusters)[:8])
    listed = f" Known clusters: {names}." if names else ""
    advice = (
        "Use a reference such as nexus_kubernetes_cluster.a.id, so that the cluster is planned "
        "first."
    )
    text = f'No nexus_kubernetes_cluster or tacker_vnf has the id "{cluster_id}".{listed} {advice}'
    return instance.build_error("unknown-cluster", text, ("kubernetes_cluster_id",))


def _find_previous_member(
    instance: Instance, planned: Member, observed: Mapping[str, FleetMember]
) -> Member | None:
    """Return the member as last processed by placements, None if never.

    It is read from the hub, or from its private data in state (the note). Without a note, a member
    in state counts as unchanged.
    """
    if instance.is_replaced:
        # A new member of the same name.
        return None
    if planned.name in observed:
        return build_member(observed[planned.name], cluster=None, requests=(0, 0))
    note = instance.prior_note
    # New, or UNPROCESSED.
    # Earlier versions recorded "seen".
    is_processed = note.get("is_processed", note.get("seen"))
    if instance.prior is None or is_processed is False:
        return None
    has_record = bool(note.keys() - {UNCLEARED_PLACEMENTS})
    return parse_member_record(planned.name, note) if has_record else planned


def record_processed_members(
    members: Iterable[FleetMemberState], instances: Mapping[Address, Instance]
) -> None:
    """Record in `private` of the members that all placements have processed their changes.

    If the plan excludes placements (by -target), the change stays pending for them: a later plan
    finds it again.
    """
    placements = select_instances(instances.values(), PlanningKind.PLACEMENT)
    excluded = [str(placement.address) for placement in placements if placement.is_unselected]
    for member in members:
        if member.planned is None or member.address is None:
            # removed, or without configuration: no note to write.
            continue
        instance = instances[member.address]
        if not excluded:
            instance.private = build_member_record(member.planned)
            continue
        if member.previous is not None:
            # It keeps its record, so its change is found again.
            continue
        # A new member. If one of its name left, now (`is_rejoining`) or before, excluded placements
        # do not know it yet.
        unnotified = (
            excluded
            if member.is_rejoining
            else sorted(member.unnotified_placements.intersection(excluded))
        )
        instance.private = (
            {**UNPROCESSED, UNNOTIFIED_PLACEMENTS: unnotified} if unnotified else UNPROCESSED
        )
