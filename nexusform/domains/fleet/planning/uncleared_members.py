"""Unreachable members that may still have the objects of destroyed placements.

The private note of a member lists the keys of these placements until the member is reachable.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from nexusform.diagnostics.diagnostic import Diagnostic, Problem, Severity
from nexusform.diagnostics.phrases import format_list, select_word_form
from nexusform.domains.fleet.importers.fleet_records import FleetMember, FleetPlacement
from nexusform.domains.fleet.planning.fleet_snapshot import (
    UNCLEARED_PLACEMENTS,
    build_member,
    select_instances,
)
from nexusform.domains.fleet.planning.placement_records import CLEARED_LATER, read_bindings
from nexusform.domains.fleet.planning.planned_hub import read_prior_object
from nexusform.domains.fleet.scheduling.bindings import collect_clusters_with_resources
from nexusform.domains.fleet.scheduling.rules.cluster_eligibility import explain_ineligibility
from nexusform.interfaces.plugins import PlanningKind
from nexusform.json_data.plain_data import get_list, get_text, list_texts
from nexusform.planning.instances.instance import Instance

UNREACHABLE: Final = "rollout-to-unreachable-member"


def collect_destroyed_clusters(instances: Iterable[Instance]) -> set[str]:
    """Return the ids of the clusters that this plan destroys: nothing stays there."""
    return {
        get_text(instance.before, "id")
        for instance in instances
        if instance.is_destroyed and instance.type.vms is not None
    }


def collect_member_clusters(instances: Iterable[Instance]) -> dict[str, str]:
    """Return the ids of the clusters of members in state or after the plan, by member name."""
    cluster_ids: dict[str, str] = {}
    for instance in select_instances(instances, PlanningKind.MEMBER):
        for attributes in (instance.planned, instance.before):
            cluster_id = get_text(attributes, "kubernetes_cluster_id")
            if cluster_id:
                cluster_ids[get_text(attributes, "name")] = cluster_id
    return cluster_ids


def find_unreachable_in_state(instances: Iterable[Instance]) -> dict[str, str]:
    """Return why members in state are unreachable, by name.

    Leaving members are left out, and members on a cluster that this plan destroys.
    """
    instances = list(instances)
    destroyed_clusters = collect_destroyed_clusters(instances)
    reasons: dict[str, str] = {}
    for instance in select_instances(instances, PlanningKind.MEMBER):
        member = read_prior_object(instance) if instance.before is not None else None
        if not isinstance(member, FleetMember) or member.cluster_id in destroyed_clusters:
            continue
        known_member = build_member(member, cluster=None, requests=(0, 0))
        reason = explain_ineligibility(known_member)
        # The hub deletes the objects of a leaving one.
        if reason and not known_member.is_leaving:
            reasons[member.name] = reason
    return reasons


def record_uncleared_placements(
    instances: Sequence[Instance], unreachable: Mapping[str, str]
) -> Iterator[Diagnostic]:
    """Record destroyed placements in the notes of unreachable members; yield a warning for each.

    `unreachable` are the reasons by member. No new binding is on such a member.
    """
    recorded_members = {
        get_text(instance.planned if instance.planned is not None else instance.before, "name")
        for instance in select_instances(instances, PlanningKind.MEMBER)
        if not instance.is_removed
    }
    destroyed: dict[str, set[str]] = {}
    for instance in select_instances(instances, PlanningKind.PLACEMENT):
        placement = read_prior_object(instance) if instance.is_destroyed else None
        if not isinstance(placement, FleetPlacement):
            continue
        left = collect_clusters_with_resources(read_bindings(instance.before))
        left.update(get_list(instance.prior_note, CLEARED_LATER))
        names = [name for name in unreachable if name in left]
        for name in names:
            destroyed.setdefault(name, set()).add(placement.key)
        if names:
            reasons = {name: unreachable[name] for name in names}
            unrecorded = sorted(reasons.keys() - recorded_members)
            yield _build_warning(
                instance, f"The plan destroys {placement.key}", reasons, unrecorded
            )
    for instance in select_instances(instances, PlanningKind.MEMBER):
        attributes = instance.planned if instance.planned is not None else instance.before
        if instance.is_removed or attributes is None:
            continue
        name = str(attributes.get("name"))
        earlier: set[str] = set()
        if name in unreachable and not instance.is_replaced:
            earlier.update(list_texts(instance.prior_note, UNCLEARED_PLACEMENTS))
        if earlier:
            subject = f"An earlier apply destroyed {format_list(sorted(earlier), 4)}"
            yield _build_warning(instance, subject, {name: unreachable[name]})
        keys = sorted(earlier | destroyed.get(name, set()))
        note = instance.private if instance.private is not None else instance.prior_note
        if keys or UNCLEARED_PLACEMENTS in note:
            note = {key: value for key, value in note.items() if key != UNCLEARED_PLACEMENTS}
            instance.private = {**note, UNCLEARED_PLACEMENTS: keys} if keys else note


def _build_warning(
    instance: Instance,
    subject: str,
    reasons: Mapping[str, str],
    unrecorded_members: Sequence[str] = (),
) -> Diagnostic:
    """Build the warning about objects on unreachable members; `subject` names who destroys what.

    No object of the state records what is left on `unrecorded_members` (names).
    """
    names = format_list(list(reasons), 4)
    reasons_text = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
    agent = select_word_form(len(reasons), "agent works", "agents work")
    text = (
        f"{subject}, but whether and when the objects on {names} are deleted is unknown. "
        f"{reasons_text}. As long as that is so, the objects and pods there may stay. Restore the "
        "member, or delete them there."
    )
    if unrecorded_members:
        text += (
            f" Later plans do not repeat this for {format_list(unrecorded_members, 4)}: the state "
            "keeps no fleet_member_cluster of this name."
        )
    summary = f"{subject}: the objects on {names} may stay until the member {agent} again"
    problem = Problem((), UNREACHABLE, text, Severity.WARNING, brief=summary)
    return instance.build_diagnostic(problem)
