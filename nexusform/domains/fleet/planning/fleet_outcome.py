"""Result of a fleet's plan: rows, computed attributes of placements, and warnings."""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, field, json
from msgspec.structs import asdict, replace

from nexusform.diagnostics.diagnostic import Diagnostic, Problem, Severity
from nexusform.diagnostics.phrases import (
    format_count,
    format_first_items,
    format_list,
    group_by,
    select_word_form,
)
from nexusform.domains.fleet.importers.fleet_documents import OLD_NODE_COUNT
from nexusform.domains.fleet.importers.fleet_export import READY, build_manifests
from nexusform.domains.fleet.importers.fleet_records import ABANDON, FleetPlacement
from nexusform.domains.fleet.planning.binding_rows import (
    CHANGE_REASONS,
    UNREAD_MEMBERS,
    add_doubt_about_members,
    build_removed_rows,
    explain_kept_bindings,
    find_unread_members,
)
from nexusform.domains.fleet.planning.cluster_contents import (
    ClusterContent,
    list_direct_contents,
    list_unplanned_contents,
)
from nexusform.domains.fleet.planning.fleet_snapshot import (
    FleetMemberState,
    ObservedHub,
    list_planned_members,
    select_instances,
)
from nexusform.domains.fleet.planning.object_ownership import build_ownership_warnings
from nexusform.domains.fleet.planning.override_rendering import collect_namespace_names
from nexusform.domains.fleet.planning.placement_iterations import PlacementIterations
from nexusform.domains.fleet.planning.placement_plan import NO_ROLLOUT_STEP, PlacementPlan
from nexusform.domains.fleet.planning.placement_records import (
    sort_selected_objects,
    write_bindings,
    write_eviction,
)
from nexusform.domains.fleet.planning.placement_spec import rename_policy_properties
from nexusform.domains.fleet.planning.planned_hub import read_prior_object
from nexusform.domains.fleet.planning.predicted_status import predict_placement_status
from nexusform.domains.fleet.planning.resource_selection import build_selected_object
from nexusform.domains.fleet.planning.uncleared_members import (
    UNREACHABLE,
    collect_member_clusters,
    find_unreachable_in_state,
    record_uncleared_placements,
)
from nexusform.domains.fleet.scheduling.bindings import (
    BindingState,
    Condition,
    PlacementType,
    collect_clusters_with_resources,
    index_by_cluster,
    select_scheduled_bindings,
    split_clusters,
)
from nexusform.domains.fleet.scheduling.member_list import MemberList
from nexusform.domains.fleet.scheduling.placement_explanation import compute_policy_drift
from nexusform.domains.fleet.scheduling.placement_status import FALSE
from nexusform.domains.pods.importers.manifest_parser import (
    Manifest,
    format_canonical_json,
    is_reserved_namespace,
)
from nexusform.domains.pods.planning.node_clusters import NodeCluster
from nexusform.domains.pods.pod_kind import UNREACHABLE_MEMBERS
from nexusform.interfaces.plugins import PlanningKind
from nexusform.json_data.plain_data import get_list, get_mapping, get_text, get_value_at_path
from nexusform.planning.instances.instance import Instance
from nexusform.plans.plan import ContentChange, PlacementChange, RejectedCluster, Rollout
from nexusform.resources.address import Address


class FleetOutcome(Struct, frozen=True):
    """Result of a fleet's plan.

    It has `rows` of all bindings, placements by address, members after the last iteration,
    rollouts, rejected clusters, the contents of clusters, values changed by overrides, and observed
    bindings of placements. Changes of `unreachable_members` are pending. `step_order` lists the
    addresses to complete before the step of an address, `content_addresses` the blocks with the
    objects of a placement. `clusters` are members with known nodes, by name. Removals from
    `members_in_doubt` are uncertain; it has the assumption by name.
    """

    rows: tuple[PlacementChange, ...] = ()
    placements: Mapping[Address, PlacementPlan] = field(default_factory=dict)
    member_list: MemberList = field(default_factory=lambda: MemberList(()))
    diagnostics: tuple[Diagnostic, ...] = ()
    rollouts: tuple[Rollout, ...] = ()
    rejected_clusters: tuple[RejectedCluster, ...] = ()
    contents: tuple[ClusterContent, ...] = ()
    unreachable_members: frozenset[str] = frozenset()
    content_changes: tuple[ContentChange, ...] = ()
    observed_attributes: Mapping[Address, Mapping[str, Any]] = field(default_factory=dict)
    step_order: Mapping[Address, Sequence[Address]] = field(default_factory=dict)
    content_addresses: Mapping[Address, Sequence[Address]] = field(default_factory=dict)
    clusters: Mapping[str, NodeCluster] = field(default_factory=dict)
    members_in_doubt: Mapping[str, str] = field(default_factory=dict)


_MAX_NAMES: Final = 4
_MEMBER_TYPE: Final = "fleet_member_cluster"
_MANIFEST_TYPE: Final = "fleet_hub_manifest"
# Per placement; larger fleets use `explain`.
_MAX_REJECTED_CLUSTERS: Final = 40
# Start of the hub's message about invalid selectors.
_INVALID_SELECTORS: Final = (
    "The resource selectors are invalid: failed to process the request due to a client error"
)


def find_rejected_clusters(placements: Iterable[PlacementPlan]) -> Iterator[RejectedCluster]:
    """Yield the clusters rejected in this plan's scheduling cycles, with reasons.

    Skip placements with too many.
    """
    for placement in placements:
        # None without a cycle.
        status = placement.scheduling.status
        if status is not None and len(status.unselected_decisions) <= _MAX_REJECTED_CLUSTERS:
            for decision in status.unselected_decisions:
                yield RejectedCluster(
                    placement.spec.instance.address, decision.cluster, decision.reason
                )


def build_observed_bindings(
    placements: Iterable[PlacementPlan],
) -> Iterator[tuple[Address, Mapping[str, Any]]]:
    """Yield the attribute `bindings` of each placement found on a hub, before the plan.

    The bindings are those observed before the plan.
    """
    for placement in placements:
        # {} if not found on a hub.
        if placement.spec.observed_attributes:
            bindings = write_bindings(placement.spec.prior_bindings, provenance={})
            yield (placement.spec.instance.address, {"bindings": bindings})


def build_destroy_outcome(instances: Iterable[Instance]) -> FleetOutcome:
    """Build the outcome of a destroy plan: the removed bindings and contents, and warnings.

    It reads no data blocks, so it knows only the members in state.
    """
    instances = tuple(instances)
    known_members = {
        get_text(item.before, "name") for item in select_instances(instances, PlanningKind.MEMBER)
    }
    removed = [
        item for item in select_instances(instances, PlanningKind.PLACEMENT) if item.is_removed
    ]
    unreachable = find_unreachable_in_state(instances)
    rows = [row for instance in removed for row in build_removed_rows(instance, unreachable)]
    diagnostics = (
        *record_uncleared_placements(instances, unreachable),
        *warn_abandon_policy(removed),
    )
    unread_members = find_unread_members(rows, known_members)
    contents = (
        *list_unplanned_contents(instances, (), collect_member_clusters(instances)),
        *list_direct_contents(instances),
    )
    return FleetOutcome(
        tuple(add_doubt_about_members(row, unread_members) for row in rows),
        contents=contents,
        diagnostics=diagnostics,
        members_in_doubt={
            **dict.fromkeys(unread_members, UNREAD_MEMBERS),
            **dict.fromkeys(unreachable, UNREACHABLE_MEMBERS),
        },
    )


def warn_abandon_policy(instances: Iterable[Instance]) -> Iterator[Diagnostic]:
    """Yield warnings about removed placements with propagation policy Abandon.

    KubeFleet ignores it. Source: KubeFleet apis/placement/v1beta1 at e160c1cd; pkg/ does
    not reference DeleteStrategy.
    """
    for instance in select_instances(instances, PlanningKind.PLACEMENT):
        if not instance.is_destroyed:
            # Not removed from a hub.
            continue
        placement = read_prior_object(instance)
        if isinstance(placement, FleetPlacement) and placement.propagation_policy == ABANDON:
            text = (
                f"{placement.key} has deleteStrategy.propagationPolicy Abandon, which should keep "
                "its "
                "objects on the clusters. KubeFleet has the field but ignores it (e160c1cd), so "
                "this "
                "plan predicts their removal. A hub that supports it keeps the objects and their "
                "pods."
            )
            yield instance.build_diagnostic(
                Problem((), "ineffective-delete-strategy", text, Severity.WARNING)
            )


def compute_final_attributes(placement: PlacementPlan) -> dict[str, Any]:
    """Compute the attributes of a placement after the plan.

    A placement in deletion keeps its status, and a placement with invalid selectors keeps all of it
    except the first condition.
    """
    prior = placement.spec.prior_attributes
    # Unchanged bindings keep their provenance: observed (on a hub) or predicted.
    prior_bindings = index_by_cluster(placement.spec.prior_bindings)
    recorded_bindings = get_mapping(prior, "bindings")
    provenance = {
        binding.cluster: recorded_bindings[binding.cluster].get("provenance", "predicted")
        for binding in placement.bindings
        if prior_bindings.get(binding.cluster) == binding
    }
    attributes: dict[str, Any] = {
        "bindings": write_bindings(placement.bindings, provenance),
        "policy_snapshot": asdict(placement.spec.policy_snapshot),
        "selected_resources": list(
            map(build_selected_object, sort_selected_objects(_find_reported_objects(placement)))
        ),
        "evictions": [
            *get_list(prior, "evictions"),
            *(write_eviction(name, eviction) for name, eviction in placement.evictions),
        ],
        "workloads": {
            cluster: {workload: dict(pods) for workload, pods in workloads.items()}
            for cluster, workloads in sorted(placement.workloads.items())
        },
    }
    if placement.spec.is_being_deleted:
        names_set_by_hub = (
            "policy_snapshot",
            "selected_resources",
            "conditions",
            "placement_statuses",
        )
        return attributes | {name: prior.get(name) for name in names_set_by_hub}
    if placement.selection.selector_problem is not None:
        return attributes | _build_invalid_placement_attributes(placement)
    attributes |= predict_placement_status(placement)
    for name in ("placement_statuses", "selected_resources"):
        recorded = get_list(placement.spec.instance.before, name)
        predicted = get_list(attributes, name)
        if recorded == predicted:
            continue
        # Compare the items as JSON texts, without regard to their order.
        recorded_texts = sorted(map(format_canonical_json, recorded))
        predicted_texts = sorted(map(format_canonical_json, predicted))
        if recorded_texts == predicted_texts:
            # Only the order differs, so nothing changed.
            attributes[name] = recorded
    return attributes


def _find_reported_objects(placement: PlacementPlan) -> tuple[Manifest, ...]:
    """Return the objects reported as selected: the current selection.

    With staged runs (External), it is the content of the clusters' resource snapshot, if all have
    the same one and it is known.
    """
    scheduled = select_scheduled_bindings(placement.bindings)
    snapshot_indexes = {binding.resource_snapshot for binding in scheduled}
    if not placement.spec.is_external or len(snapshot_indexes) != 1:
        return placement.selection.manifests
    snapshot = placement.snapshot_store.find_snapshot(snapshot_indexes.pop())
    return placement.selection.manifests if snapshot is None else snapshot.objects


def _build_invalid_placement_attributes(placement: PlacementPlan) -> dict[str, Any]:
    """Build the attributes of a placement with invalid selectors.

    The hub only reports them in its first condition.
    """
    prior = placement.spec.prior_attributes
    assert placement.selection.selector_problem is not None
    message = f"{_INVALID_SELECTORS}: {placement.selection.selector_problem.message}"
    invalid = Condition(
        f"{placement.spec.configuration.kind}Scheduled", FALSE, "InvalidResourceSelectors", message
    )
    return {
        "policy_snapshot": prior.get("policy_snapshot"),
        "selected_resources": get_list(prior, "selected_resources"),
        # The first condition of a placement is Scheduled.
        "conditions": [asdict(invalid), *get_list(prior, "conditions")[1:]],
        "placement_statuses": get_list(prior, "placement_statuses"),
    }


def build_placement_warnings(
    placements: Sequence[PlacementPlan],
    members: Mapping[str, FleetMemberState],
    iterations: PlacementIterations,
    observed: ObservedHub,
    unselected_addresses: Sequence[Address],
) -> Iterator[Diagnostic]:
    """Yield all warnings about placements, placement by placement.

    `unselected_addresses` are new objects outside the plan, because of -target or -exclude.
    """
    unselected_members = [item for item in unselected_addresses if item.type == _MEMBER_TYPE]
    unselected_manifests = [item for item in unselected_addresses if item.type == _MANIFEST_TYPE]
    # By cluster; needed for namespaced placements only.
    namespaces: dict[str, set[str]] = {}
    if any(placement.spec.configuration.namespace for placement in placements):
        namespaces = _collect_planned_namespaces_by_cluster(placements, members, iterations)
        _add_observed_namespaces(namespaces, observed)
    members_change = any(member.previous != member.planned for member in members.values())
    previous_members = MemberList(
        member.previous for member in members.values() if member.previous is not None
    )
    for placement in placements:
        yield from _warn_empty_selectors(placement, unselected_manifests)
        yield from _warn_missing_namespace(placement, namespaces)
        # An unread hub is an error already.
        if iterations.member_list.members or not observed.is_unread:
            yield from _warn_unscheduled_placement(placement, iterations, unselected_members)
        yield from _warn_old_property_name(placement, iterations)
        for cluster, content in placement.compute_final_resources().items():
            # Of an override or an envelope.
            if content.failure:
                text = (
                    f"On cluster {cluster}: {content.failure}. This version is not applied there."
                )
                kind = (
                    "envelope-cannot-be-opened"
                    if content.has_envelope_failure
                    else "override-failure"
                )
                yield _build_warning(placement, kind, text)
        yield from _warn_unreachable_members(placement)
        yield from _warn_pending_staged_changes(placement)
        yield from _warn_pending_overrides(placement)
        yield from _warn_unnoticed_change(placement)
        yield from _warn_missing_bindings(placement)
        yield from build_ownership_warnings(placement)
        yield from _warn_shared_machines(placement, members)
        for kind, text in find_placement_risks(placement, members):
            yield _build_warning(placement, kind, text)
        # Else this plan causes no difference.
        if members_change:
            yield from _warn_scheduling_drift(placement, iterations.member_list, previous_members)


def _warn_pending_overrides(placement: PlacementPlan) -> Iterator[Diagnostic]:
    """Warn about override changes waiting for a later rollout.

    They do not start a rollout themselves.
    """
    if placement.override_pending_clusters:
        names = format_list(placement.override_pending_clusters, 4)
        text = (
            f"The overrides of {placement.key} changed for {names}, but no rollout "
            "applies the change. It is applied with the next new content, binding or eviction. An "
            "override that names its placement is rolled out at once."
        )
        summary = (
            f"{names}: override changes are applied only with the next change of content or "
            "bindings"
        )
        yield _build_warning(placement, "override-effective-next-change", text, summary=summary)


def _warn_unnoticed_change(placement: PlacementPlan) -> Iterator[Diagnostic]:
    """Warn about new content in a reserved namespace, which a hub does not watch."""
    if placement.unnoticed is not None:
        namespace = placement.spec.configuration.namespace
        fact = f"the hub does not notice changes of objects in namespace {namespace}"
        text = (
            f"{placement.key}: {fact}, so its clusters keep the previous content. It is rolled out "
            "with the next change of the placement or of its scheduling decisions. Change "
            "revision_history_limit to start it, or move the objects to another namespace."
        )
        yield _build_warning(
            placement, "unnoticed-content-change", text, summary=f"{fact}; clusters keep the old"
        )


def _warn_missing_bindings(placement: PlacementPlan) -> Iterator[Diagnostic]:
    """Warn about clusters without a binding on the hub.

    The hub's status lists them, or the state has one.
    """
    # state has a binding there, the hub has none.
    removed = placement.hub_moves.removed_clusters
    # `deleted`: only in the status.
    _in_both, deleted = split_clusters(placement.manually_deleted_clusters, removed)
    if deleted:
        verb_phrase = select_word_form(len(deleted), "binding there was", "bindings there were")
        text = (
            f"The hub's status lists {placement.key} on {format_list(deleted, 4)}, but the "
            f"{verb_phrase} "
            "deleted or not captured. The plan predicts the next scheduling of the placement. It "
            "happens at "
            "once after an ordinary deletion. If the finalizers were removed first, it happens "
            "with the next change."
        )
        summary = f"the status lists {format_list(deleted, 4)}, but no binding exists there"
        yield _build_warning(placement, "binding-deleted", text, summary=summary)
    if removed:
        difference = (
            f"{placement.key} was predicted on {format_list(removed, 4)}, but the hub does not "
            "have it there"
        )
        text = f"{difference}. The plan starts from the bindings of the hub."
        summary = f"predicted on {format_list(removed, 4)}, but missing on the hub"
        yield _build_warning(placement, "missing-on-hub", text, summary=summary)


def _build_warning(
    placement: PlacementPlan,
    kind: str,
    text: str,
    path: tuple[str | int, ...] = (),
    *,
    summary: str = "",
) -> Diagnostic:
    """Build a warning about a placement.

    `summary` is a one-line form of a longer text, "" if it has none.
    """
    problem_summary = f"{placement.key}: {summary}" if summary else ""
    return placement.spec.instance.build_diagnostic(
        Problem(path, kind, text, Severity.WARNING, brief=problem_summary)
    )


def _describe_unselected_objects(addresses: Sequence[Address]) -> str:
    """Return that -target or -exclude leaves out these objects."""
    names = format_list([str(address) for address in addresses], _MAX_NAMES)
    return f"-target or -exclude leaves out {names}"


def _warn_empty_selectors(
    placement: PlacementPlan, unselected_manifests: Sequence[Address]
) -> Iterator[Diagnostic]:
    """Warn about the first selector rejected by the hub, or about those without a match.

    The hub's rejection is reported first. `unselected_manifests` are new ones outside the plan.
    """
    # Selectors come from blocks, else from the text of a manifest: a warning points there.
    in_blocks = bool(get_value_at_path(placement.spec.instance.config, "resource_selector"))
    selectors = placement.spec.configuration.selectors
    paths = [
        ("resource_selector", number) if in_blocks else ("manifest",)
        for number in range(len(selectors))
    ]
    selector_problem = placement.selection.selector_problem
    if selector_problem is not None:
        effect = "The hub accepts the placement, but selects and schedules nothing."
        text = (
            f"{_INVALID_SELECTORS}: {selector_problem.message}. {selector_problem.advice} {effect}"
        )
        path = paths[selector_problem.selector]
        summary = selector_problem.message
        yield _build_warning(placement, "invalid-resource-selectors", text, path, summary=summary)
        # The hub selects nothing at all.
        return
    for number in placement.selection.empty_selectors:
        cause = "No fleet_hub_manifest adds such an object, or its kind is never selected."
        text = (
            f"{selectors[number].title} selects nothing. {cause} Select an existing object, or "
            "add it."
        )
        summary = f"no fleet_hub_manifest adds {selectors[number].title}, or it is never selected"
        if unselected_manifests:
            left_out = _describe_unselected_objects(unselected_manifests)
            selected = f"{selectors[number].title} selects nothing in this plan"
            summary = f"{selected}; {left_out}"
            # Whether one of them is such an object is unknown.
            text = f"{selected}. {cause} {left_out}: if one of these is meant, select it as well."
        yield _build_warning(
            placement, "empty-resource-selection", text, paths[number], summary=summary
        )


def _collect_planned_namespaces_by_cluster(
    placements: Sequence[PlacementPlan],
    members: Mapping[str, FleetMemberState],
    iterations: PlacementIterations,
) -> dict[str, set[str]]:
    """Return the namespaces of each cluster after the plan.

    They are collected by the hub, applied directly, or placed.
    """
    namespaces: dict[str, set[str]] = {}
    for member in list_planned_members(members):
        direct = collect_namespace_names(iterations.shared_objects.direct.get(member.name, {}))
        namespaces[member.name] = direct.union(member.namespaces or ())
    for placement in placements:
        for cluster, content in placement.compute_final_resources().items():
            namespaces.setdefault(cluster, set()).update(collect_namespace_names(content.manifests))
    return namespaces


def _add_observed_namespaces(namespaces: dict[str, set[str]], observed: ObservedHub) -> None:
    """Add to `namespaces` (by cluster) those of available placements.

    These are a placement's own namespace, and those that it selects.
    """
    for (_type, key), attributes in observed.placements.items():
        # "" for a cluster-scoped placement.
        namespace, _, _name = key.rpartition("/")
        # "" matches no namespace.
        names = {namespace}
        # The latest, if any.
        for snapshot in get_list(attributes, "resource_snapshots")[-1:]:
            # few objects need parsing.
            texts = [text for text in snapshot["objects"] if '"Namespace"' in text]
            names |= collect_namespace_names(build_manifests(map(json.decode, texts)))
        for cluster, binding in get_mapping(attributes, "bindings").items():
            if binding.get("readiness") == READY:
                namespaces.setdefault(cluster, set()).update(names)


def _warn_missing_namespace(
    placement: PlacementPlan, namespaces: Mapping[str, set[str]]
) -> Iterator[Diagnostic]:
    """Warn about clusters without the namespace of a namespaced placement.

    `namespaces` are those of each cluster.
    """
    namespace = placement.spec.configuration.namespace
    # reserved ones exist on every cluster.
    if not namespace or is_reserved_namespace(namespace):
        return
    clusters = placement.compute_final_resources()
    lacking = [cluster for cluster in clusters if namespace not in namespaces.get(cluster, ())]
    if lacking:
        text = (
            f"The namespace {namespace} is missing on {', '.join(lacking)}, so the objects cannot "
            "be "
            "applied there. Place it with a fleet_cluster_resource_placement that selects the "
            'Namespace (selection_scope = "NamespaceOnly"). If it exists already, add it to '
            "namespaces of the member."
        )
        yield _build_warning(placement, "missing-cluster-namespace", text)


def _warn_unscheduled_placement(
    placement: PlacementPlan, iterations: PlacementIterations, unselected_members: Sequence[Address]
) -> Iterator[Diagnostic]:
    """Warn if there are no members, scheduling stops, or too few clusters are eligible.

    For a PickAll, too few means none. The first of these takes precedence. `unselected_members` are
    new ones outside the plan.
    """
    if not iterations.member_list.members:
        text = (
            f"No fleet_member_cluster is declared, so {placement.key} is placed on no cluster. "
            "Declare one for each cluster of the fleet (kubernetes_cluster_id is the id of the "
            'cluster). To use the members of a running hub, read data "fleet_hub".'
        )
        summary = "no fleet_member_cluster is declared; declare one for each cluster of the fleet"
        if unselected_members:
            left_out = _describe_unselected_objects(unselected_members)
            pronoun = select_word_form(len(unselected_members), "it", "them")
            summary = f"placed on no cluster, because {left_out}; select {pronoun} as well"
            text = f"{placement.key} is {summary}."
        yield _build_warning(placement, "no-member-cluster", text, summary=summary)
        return
    if placement.scheduling.abort is not None:
        location = (
            f" at cluster {placement.scheduling.abort.cluster}"
            if placement.scheduling.abort.cluster
            else ""
        )
        text = (
            f"The scheduler stops{location}: {placement.scheduling.abort.message}. Existing "
            "bindings are kept."
        )
        yield _build_warning(placement, "scheduling-stopped", text)
        return
    status = placement.scheduling.status
    placement_type = placement.spec.configuration.placement_type
    # No cycle ran in this plan.
    if status is None:
        return
    if status.is_fulfilled:
        if placement_type is PlacementType.PICK_ALL and not placement.bindings:
            members = format_count(len(iterations.member_list.members), "member cluster")
            text = (
                f"The policy of {placement.key} selects none of {members}. For the hub this is not "
                "an error."
            )
            yield _build_warning(
                placement, "no-selected-cluster", text, summary=f"selects none of {members}"
            )
        return
    decisions = status.unselected_decisions
    message = status.condition.message
    # Each reason of a PickFixed policy names its cluster.
    if placement_type is PlacementType.PICK_FIXED:
        reasons = [decision.reason for decision in decisions]
        summary = format_first_items(reasons, 2, "; ")
    else:
        clusters_by_reason = group_by(decisions, lambda decision: decision.reason)
        reasons = [
            f"{format_list([decision.cluster for decision in group], _MAX_NAMES)}: "
            f"{reason.removeprefix('ClusterUnschedulable, ')}"
            for reason, group in clusters_by_reason.items()
        ]
        found = format_count(len(status.selected_bindings), "cluster")
        number = placement.spec.policy_snapshot.number_of_clusters
        summary = f"found {found} of {number}; {reasons[0] if reasons else ''}".rstrip("; ")
    text = f"{message[:1].upper()}{message[1:]}. {'; '.join(reasons)}".rstrip(". ") + "."
    yield _build_warning(placement, "unfulfilled-placement", text, summary=summary)


def _warn_unreachable_members(placement: PlacementPlan) -> Iterator[Diagnostic]:
    """Warn about rollouts to members that the hub counts as disconnected or unhealthy."""
    removed = collect_clusters_with_resources(
        placement.spec.prior_bindings
    ) - collect_clusters_with_resources(placement.bindings)
    reasons = {
        name: reason
        for name, reason in placement.selection.clusters.unreachable.items()
        if name in placement.clusters_applied_later | placement.clusters_cleared_later
    }
    if not reasons:
        return
    names = format_list(list(reasons), 4)
    agent = select_word_form(len(reasons), "agent works", "agents work")
    reasons_text = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
    changed_now = placement.rollout.clusters | removed
    subject = "An earlier apply changed" if changed_now.isdisjoint(reasons) else "The plan changes"
    text = (
        f"{subject} objects of {placement.key} on {names}, but whether and when the change "
        f"is applied there is unknown. {reasons_text}. As long as that is so, the objects and pods "
        "there may stay as they are, and later waves wait. Restore the member, or move the "
        "placement to another cluster first."
    )
    summary = f"changes on {names} are applied only once the member {agent} again"
    yield _build_warning(placement, UNREACHABLE, text, summary=summary)


def _warn_old_property_name(
    placement: PlacementPlan, iterations: PlacementIterations
) -> Iterator[Diagnostic]:
    """Warn about a policy with the old name of a property.

    The warning requires that no member has the property by this name.
    """
    policy = placement.spec.configuration.effective_policy
    # Nothing to rename.
    if rename_policy_properties(policy, iterations.member_list) is policy:
        return
    lines = get_text(placement.spec.instance.config, "manifest").splitlines()
    line_numbers = [number for number, line in enumerate(lines, 1) if OLD_NODE_COUNT in line]
    # The policy is written in blocks.
    at_line = ""
    path = ("policy",)
    if line_numbers:
        at_line = f"manifest:{line_numbers[0]}: "
        path = ("manifest",)
    consequence = (
        "No cluster has that property. Use the new name, or set lenient = true to accept the old "
        "one."
    )
    if placement.spec.configuration.accepts_old_names:
        consequence = (
            "It is read as the new name: no cluster has the old property. A real hub has no such "
            "property."
        )
    text = (
        f"{at_line}kubernetes.azure.com/node-count is the old name of "
        f"kubernetes-fleet.io/node-count. {consequence}"
    )
    summary = "kubernetes.azure.com/node-count is now kubernetes-fleet.io/node-count"
    yield _build_warning(placement, "older-property-name", text, path, summary=summary)


def _warn_pending_staged_changes(placement: PlacementPlan) -> Iterator[Diagnostic]:
    """Warn about changes of resources or overrides on clusters without a staged run.

    Only runs of this plan count.
    """
    # Nothing changed, or the strategy is not External.
    if placement.current.staged_trigger is None:
        return
    pending = [
        binding.cluster
        for binding in placement.bindings
        if binding.has_resources and placement.find_rollout_step(binding.cluster) == NO_ROLLOUT_STEP
    ]
    if pending:
        change = CHANGE_REASONS[placement.current.staged_trigger]
        text = (
            f"{change[:1].upper()}{change[1:]}, and the strategy is External. Only a new staged "
            "run "
            f"applies the change to {format_list(pending, 4)}. A run that already started keeps "
            "its "
            "earlier values."
        )
        yield _build_warning(placement, "changes-awaiting-staged-run", text)


def _warn_shared_machines(
    placement: PlacementPlan, members: Mapping[str, FleetMemberState]
) -> Iterator[Diagnostic]:
    """Warn about machines with nodes of several picked members.

    The text names the machine with most of them. A plan without a new cluster or node on any of
    them has not caused it.
    """
    prior_clusters = {
        binding.cluster
        for binding in placement.spec.prior_bindings
        if binding.state is not BindingState.UNSCHEDULED
    }
    # By site and machine.
    clusters_on: dict[tuple[str, str], set[str]] = {}
    clusters_on_before: dict[tuple[str, str], set[str]] = {}
    for binding in placement.bindings:
        member = members.get(binding.cluster)
        if binding.state is BindingState.UNSCHEDULED or member is None or member.cluster is None:
            # Not picked, or its nodes are not known.
            continue
        changed_nodes = member.cluster.new_nodes | member.cluster.recreated_nodes
        for node in member.cluster.nodes:
            machine = (member.cluster.site_id, node.machine)
            clusters_on.setdefault(machine, set()).add(binding.cluster)
            if binding.cluster in prior_clusters and node.name not in changed_nodes:
                clusters_on_before.setdefault(machine, set()).add(binding.cluster)
    machines = {machine: clusters for machine, clusters in clusters_on.items() if len(clusters) > 1}
    if not machines:
        return
    is_preexisting = all(
        clusters_on_before.get(machine) == clusters for machine, clusters in machines.items()
    )
    # Of equal counts, the last site and machine by name.
    (site, machine_name), clusters = max(
        sorted(machines.items(), reverse=True), key=lambda item: len(item[1])
    )
    cluster_names = ", ".join(sorted(clusters))
    text = (
        f"Machines with nodes of more than one picked cluster: {len(machines)}. The loss "
        f"of machine {machine_name} (site {site}) affects nodes of {cluster_names} at once. Keep "
        "the clusters in different racks (availability_zones). A nexus_separation_rule rejects "
        "plans that mix them."
    )
    more = (
        f"; the same applies to {format_count(len(machines) - 1, 'other machine')}"
        if len(machines) > 1
        else ""
    )
    summary = f"losing machine {machine_name} affects nodes of {cluster_names} at once{more}"
    warning = _build_warning(placement, "placement-members-share-machines", text, summary=summary)
    yield replace(warning, is_preexisting=is_preexisting)


def _warn_scheduling_drift(
    placement: PlacementPlan, member_list: MemberList, previous_members: MemberList
) -> Iterator[Diagnostic]:
    """Warn if a fresh scheduling would pick other clusters after this plan's changes of members.

    No binding moves. A plan that changes nothing of the difference has not caused it.
    """
    # just scheduled, or reported already.
    if placement.spec.is_new or placement.scheduling.abort is not None:
        return
    difference = compute_policy_drift(
        placement.bindings, *placement.build_scheduling_arguments(member_list)
    )
    verbs = []
    if difference.gained_clusters:
        verbs.append(f"pick {', '.join(difference.gained_clusters)}")
    if difference.lost_clusters:
        verbs.append(f"drop {', '.join(difference.lost_clusters)}")
    if not verbs:
        return  # no difference
    text = (
        f"With the members of this plan, fresh scheduling would {' and '.join(verbs)}. The plan "
        f"moves no binding for it: {explain_kept_bindings(placement)}. `nexusform explain "
        f"{shlex.quote(str(placement.address))}` shows the verdict on every cluster."
    )
    summary = f"fresh scheduling would {' and '.join(verbs)}; the plan moves no binding for it"
    previous_difference = compute_policy_drift(
        placement.spec.prior_bindings, *placement.build_scheduling_arguments(previous_members)
    )
    warning = _build_warning(placement, "schedule-drift", text, summary=summary)
    yield replace(warning, is_preexisting=difference == previous_difference)


_LOCATION: Final = "fleet.azure.com/location"


def find_placement_risks(
    placement: PlacementPlan, members: Mapping[str, FleetMemberState]
) -> Iterator[tuple[str, str]]:
    """Yield risks of a placement as (id, text).

    Interrupted workloads, volumes left behind, a useless spread.
    """
    snapshots = placement.snapshot_store.snapshots
    # Of the newest snapshot.
    objects = snapshots[-1].objects if snapshots else placement.selection.manifests
    workloads = [
        manifest
        for manifest in objects
        if manifest.kind in ("Deployment", "StatefulSet", "ReplicaSet")
    ]
    volume_users = [manifest for manifest in objects if _has_persistent_volume_claims(manifest)]
    yield from _find_wave_without_ready_copy(placement, workloads)
    clusters_before = collect_clusters_with_resources(placement.spec.prior_bindings)
    clusters_after = collect_clusters_with_resources(placement.bindings)
    removed = sorted(clusters_before - clusters_after)
    added = sorted(clusters_after - clusters_before)
    if volume_users and removed and added:
        names = format_first_items([manifest.title for manifest in volume_users], _MAX_NAMES)
        text = (
            f"{placement.key} moves from {format_first_items(removed, _MAX_NAMES)} to "
            f"{format_first_items(added, _MAX_NAMES)}. The volumes of {names} are not moved and "
            "start "
            "empty. Copy the data first."
        )
        yield "volumes-left-behind", text
    yield from _find_ineffective_spread(placement, members)


def _find_wave_without_ready_copy(
    placement: PlacementPlan, workloads: list[Manifest]
) -> Iterator[tuple[str, str]]:
    """Yield a warning about a wave that removes the last ready cluster before a new one is ready.

    The warning is a pair of id and text.
    """
    ready = collect_clusters_with_resources(placement.spec.prior_bindings)
    added = collect_clusters_with_resources(placement.bindings) - ready
    # Nothing runs, or nothing moves.
    if not workloads or not ready or not added:
        return
    for number, wave in enumerate(placement.rollout.waves, 1):
        ready -= set(wave.deleted_clusters)
        if not ready:
            names = format_first_items([manifest.title for manifest in workloads], _MAX_NAMES)
            added_names = format_first_items(sorted(added), _MAX_NAMES)
            text = (
                f"Wave {number} of {placement.key} removes {names} from the last cluster before "
                f"{added_names} can be ready. No copy is ready until then. With max_unavailable = "
                '"0" and '
                "a max_surge, the new copy starts first."
            )
            yield "brief-unavailability", text
            return
        # Before the next wave.
        ready |= set(wave.bound_clusters)


def _has_persistent_volume_claims(manifest: Manifest) -> bool:
    """Return True for a volume claim or a StatefulSet with claim templates."""
    templates = get_value_at_path(manifest.body, "spec", "volumeClaimTemplates")
    return manifest.kind == "PersistentVolumeClaim" or (
        manifest.kind == "StatefulSet" and bool(templates)
    )


def _find_ineffective_spread(
    placement: PlacementPlan, members: Mapping[str, FleetMemberState]
) -> Iterator[tuple[str, str]]:
    """Yield a warning, as (id, text), about a spread over locations if all members share one.

    There are at least two.
    """
    constraints = placement.spec.configuration.effective_policy.spread_constraints
    if all(constraint.topology_key != _LOCATION for constraint in constraints):
        # No spread over locations.
        return
    # None without the label.
    locations = [member.labels.get(_LOCATION) for member in list_planned_members(members)]
    if None not in locations and len({*locations}) == 1 < len(locations):
        cause = (
            f"{placement.key} spreads over {_LOCATION}, but all {len(locations)} members are in "
            f"{locations[0]}."
        )
        yield "spread-over-one-value", f"{cause} Spread over a label with several values."
