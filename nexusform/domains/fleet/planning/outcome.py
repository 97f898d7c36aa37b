"""What comes out of a fleet's plan: rows, each placement's computed attributes, and warnings."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from msgspec import Struct, field

from nexusform.address import Address
from nexusform.diagnostics import Diagnostic, Problem, Severity
from nexusform.domains.fleet.importers.fleet_documents import OLD_NODE_COUNT
from nexusform.domains.fleet.importers.fleet_model import (
    ABANDON,
    FleetPlacement,
)
from nexusform.domains.fleet.planning.contents import (
    has_resources,
    write_bindings,
    write_conditions,
    write_eviction,
    write_snapshot,
)
from nexusform.domains.fleet.planning.older_names import uses_old_name
from nexusform.domains.fleet.planning.ownership import ownership_warnings
from nexusform.domains.fleet.planning.placement import PlacementPlan
from nexusform.domains.fleet.planning.risks import placement_risks
from nexusform.domains.fleet.planning.rounds import Rounds
from nexusform.domains.fleet.planning.rows import CHANGES, removed_rows, why_kept
from nexusform.domains.fleet.planning.selecting import SelectorProblem, write_selected
from nexusform.domains.fleet.planning.status_after import status_after
from nexusform.domains.fleet.planning.world import FleetMemberState
from nexusform.domains.fleet.scheduling.bindings import BindingState, Condition
from nexusform.domains.fleet.scheduling.explanation import drift
from nexusform.domains.fleet.scheduling.roster import Roster
from nexusform.domains.fleet.scheduling.status import (
    CLUSTER_SCOPED,
    FALSE,
    NAMESPACED,
)
from nexusform.domains.pods.importers.kubernetes_manifests import Manifest, is_reserved
from nexusform.planning.instances.instance import Instance
from nexusform.plans.plan import PassedOver, PlacementChange, Rollout
from nexusform.ports import Kind
from nexusform.words import counted, form, listed


class FleetOutcome(Struct, frozen=True):
    """The rows of all bindings, the placements by address, the fleet after the last round, how what changes
    is rolled out, the clusters that were not picked, and the bindings of placements that a hub shows.
    """

    rows: tuple[PlacementChange, ...] = ()
    placements: Mapping[Address, PlacementPlan] = field(default_factory=dict)
    roster: Roster = field(default_factory=lambda: Roster(()))
    diagnostics: tuple[Diagnostic, ...] = ()
    rollouts: tuple[Rollout, ...] = ()
    passed_over: tuple[PassedOver, ...] = ()
    shown: Mapping[Address, Mapping[str, Any]] = field(default_factory=dict)


# Of a placement; those of larger fleets are asked for one by one (`explain`).
_MOST_PASSED_OVER: Final = 40


def passed_over(placements: Iterable[PlacementPlan]) -> Iterator[PassedOver]:
    """Why clusters of a small fleet have none of a placement, where the scheduler looked at it."""
    for placement in placements:
        unselected = placement.scheduled.status.unselected if placement.scheduled.status is not None else ()
        if len(unselected) <= _MOST_PASSED_OVER:
            for decision in unselected:
                yield PassedOver(placement.asked.instance.address, decision.cluster, decision.reason)


def shown_bindings(
    placements: Iterable[PlacementPlan],
) -> Iterator[tuple[Address, Mapping[str, Any]]]:
    """The bindings that placements begin with because a hub shows them, as attributes."""
    for placement in placements:
        if placement.asked.shown:
            yield placement.asked.instance.address, {"bindings": write_bindings(placement.asked.prior, {})}


def destroyed(instances: Iterable[Instance]) -> FleetOutcome:
    """The rows of a destroy plan."""
    going = [instance for instance in instances if instance.going and instance.type.kind is Kind.PLACEMENT]
    rows = chain.from_iterable(removed_rows(instance) for instance in going)
    return FleetOutcome(tuple(rows), diagnostics=tuple(not_abandoned(going)))


def not_abandoned(instances: Iterable[Instance]) -> Iterator[Diagnostic]:
    """Placements that go and ask for their objects to stay: KubeFleet has the field and reads it nowhere.

    Source: KubeFleet apis/placement/v1beta1 at e160c1cd; pkg/ does not name DeleteStrategy.
    """
    for instance in instances:
        if instance.type.kind is not Kind.PLACEMENT or not (instance.going or instance.replaced):
            continue
        read_object = instance.type.fleet
        placement = read_object(instance.before or {}) if read_object is not None else None
        if isinstance(placement, FleetPlacement) and placement.propagation_policy == ABANDON:
            text = (
                f"{placement.key} has deleteStrategy.propagationPolicy Abandon, which would leave its "
                "objects on the clusters. KubeFleet's API has the field and nothing in it acts upon it "
                "(e160c1cd), so this plan foretells that they go. A hub that does leaves them, and their "
                "pods, where they are."
            )
            yield instance.problem(Problem((), "delete-strategy-has-no-effect", text, Severity.WARNING))


def conclude_placement(placement: PlacementPlan) -> dict[str, Any]:
    """The computed attributes of a placement after the plan."""
    prior = placement.asked.prior_attributes
    attributes: dict[str, Any] = {
        "bindings": write_bindings(placement.held, _kept_provenance(placement)),
        "policy_snapshot": write_snapshot(placement.asked.snapshot),
        "selected_resources": write_selected(_shown_objects(placement)),
        "evictions": [
            *(prior.get("evictions") or ()),
            *(write_eviction(name, eviction) for name, eviction in placement.evictions),
        ],
        "workloads": _workloads(placement),
    }
    if placement.offer.refused is not None:
        return attributes | _left_as_it_is(placement)
    return attributes | status_after(placement)


def _shown_objects(placement: PlacementPlan) -> tuple[Manifest, ...]:
    """The objects of the one version that staged runs have brought everywhere, else those selected now."""
    versions = {binding.resource_snapshot for binding in placement.held}
    if not placement.asked.external or len(versions) != 1:
        return placement.offer.selected
    snapshot = placement.stock.snapshot(next(iter(versions)))
    return placement.offer.selected if snapshot is None else snapshot.objects


def _left_as_it_is(placement: PlacementPlan) -> dict[str, Any]:
    """The attributes of a placement that the hub looks no further at: its selectors are invalid."""
    prior = placement.asked.prior_attributes
    assert placement.offer.refused is not None
    prefix = NAMESPACED if placement.asked.written.namespace else CLUSTER_SCOPED
    message = _why_invalid(placement.offer.refused)
    invalid = Condition(f"{prefix}Scheduled", FALSE, "InvalidResourceSelectors", message)
    return {
        "policy_snapshot": prior.get("policy_snapshot"),
        "selected_resources": prior.get("selected_resources") or [],
        "conditions": [*write_conditions([invalid]), *(prior.get("conditions") or ())[1:]],
        "placement_statuses": prior.get("placement_statuses") or [],
    }


def _why_invalid(problem: SelectorProblem) -> str:
    """The message of the hub's condition."""
    return (
        "The resource selectors are invalid: failed to process the request due to a client error: "
        f"{problem.message}"
    )


def _workloads(placement: PlacementPlan) -> dict[str, dict[str, Any]]:
    """Where the pods of each cluster stand, by workload; clusters without pods are left out."""
    by_cluster = {}
    for cluster, workloads in sorted(placement.workloads.items()):
        if workloads:
            by_cluster[cluster] = {workload: dict(pods) for workload, pods in workloads.items()}
    return by_cluster


def _kept_provenance(placement: PlacementPlan) -> dict[str, str]:
    """How it is known where bindings are that stay as they are: what was observed stays observed."""
    prior = {binding.cluster: binding for binding in placement.asked.prior}
    recorded = placement.asked.prior_attributes.get("bindings") or {}
    return {
        binding.cluster: recorded[binding.cluster].get("provenance", "predicted")
        for binding in placement.held
        if prior.get(binding.cluster) == binding and binding.cluster in recorded
    }


# --- warnings ----------------------------------------------------------------------------------


def placement_warnings(
    placements: Sequence[PlacementPlan],
    members: Mapping[str, FleetMemberState],
    rounds: Rounds,
    *,
    unread: bool = False,
) -> Iterator[Diagnostic]:
    """All warnings, placement by placement. `unread`: a hub could not be read, and is an error already."""
    brought = _namespaces_brought(placements, members, rounds)
    members_change = any(member.before != member.now for member in members.values())
    for placement in placements:
        yield from _selecting_nothing(placement)
        yield from _without_namespace(placement, brought)
        if rounds.roster.members or not unread:
            yield from _unfulfilled(placement, rounds)
        yield from _older_name(placement, rounds)
        yield from _not_overridden(placement)
        yield from _left_to_runs(placement)
        yield from _overrides_waiting(placement)
        yield from _gone_on_the_hub(placement)
        yield from ownership_warnings(placement)
        yield from _shared(placement, members)
        for kind, text in placement_risks(placement, members):
            yield _warned(placement, kind, text)
        if members_change:
            yield from _drifted(placement, rounds)


def _overrides_waiting(placement: PlacementPlan) -> Iterator[Diagnostic]:
    """A warning for overrides that clusters do not get by themselves."""
    waiting = placement.overrides_wait
    if waiting:
        text = (
            f"Overrides make something else of what {placement.key} brings to {listed(waiting, 4)}, "
            "and nothing brings that there by itself: it reaches the clusters with the next change, which is "
            "new content, another binding or an eviction. An override that names its placement is rolled out "
            "at once."
        )
        brief = f"overrides reach {listed(waiting, 4)} only with the next change of content or bindings"
        yield _warned(placement, "override-waits-for-the-next-change", text, brief=brief)


def _gone_on_the_hub(placement: PlacementPlan) -> Iterator[Diagnostic]:
    """A warning for clusters that state has and a hub does not show any more."""
    gone = placement.moved_on_the_hub[1]
    deleted = [cluster for cluster in placement.deleted_by_hand if cluster not in gone]
    if deleted:
        which, was = form(len(deleted), "binding", "bindings"), form(len(deleted), "was", "were")
        text = (
            f"The hub's status says that {placement.key} is on {listed(deleted, 4)}, and the {which} "
            f"there {was} deleted, or not captured. The plan foretells what the scheduler does when it looks "
            "at the placement again: at once after an ordinary deletion, and with the next change where the "
            "finalizers of the binding were taken away first."
        )
        brief = f"the status names {listed(deleted, 4)}, and no binding is there"
        yield _warned(placement, "binding-was-deleted", text, brief=brief)
    if gone:
        text = (
            f"The hub does not show {placement.key} on {listed(gone, 4)} any more, where it was "
            "foretold to be. The plan goes on from what the hub shows."
        )
        brief = f"gone on the hub from {listed(gone, 4)}, where it was foretold to be"
        yield _warned(placement, "gone-on-the-hub", text, brief=brief)


def _warned(
    placement: PlacementPlan, kind: str, text: str, path: tuple[str | int, ...] = (), *, brief: str = ""
) -> Diagnostic:
    """A warning about a placement; `brief` says it in a line where the text's first sentence is longer."""
    said = f"{placement.key}: {brief}" if brief else ""
    return placement.asked.instance.problem(Problem(path, kind, text, Severity.WARNING, brief=said))


def _selecting_nothing(placement: PlacementPlan) -> Iterator[Diagnostic]:
    """Warnings for selectors that select nothing, or what nobody may select."""
    in_blocks = bool((placement.asked.instance.config or {}).get("resource_selector"))

    def at(number: int) -> tuple[str | int, ...]:
        return ("resource_selector", number) if in_blocks else ("manifest",)

    selectors = placement.asked.written.selectors
    refused = placement.offer.refused
    if refused is not None:
        text = (
            f"{_why_invalid(refused)}. {refused.advice} The hub accepts the placement and leaves it as it "
            "is: nothing is selected or scheduled."
        )
        place, brief = at(refused.selector), refused.message
        yield _warned(placement, "invalid-resource-selectors", text, place, brief=brief)
        return
    for number in placement.offer.idle:
        text = (
            f"{selectors[number].title} selects nothing: no fleet_hub_manifest brings such an object to the "
            "hub, or it is of a kind that is never selected. Name one that is there, or add it."
        )
        brief = f"no fleet_hub_manifest brings {selectors[number].title} to the hub, or it is never selected"
        yield _warned(placement, "selector-selects-nothing", text, at(number), brief=brief)


def _namespaces_brought(
    placements: Sequence[PlacementPlan], members: Mapping[str, FleetMemberState], rounds: Rounds
) -> dict[str, set[str]]:
    """The namespaces that are on each member, as far as anything tells."""
    brought: dict[str, set[str]] = {}
    if not any(placement.asked.written.namespace for placement in placements):
        return brought
    for name, member in members.items():
        of_member = member.now.namespaces if member.now is not None else None
        direct_objects = rounds.sharing.direct.get(name, {})
        direct = {object_id.name for object_id in direct_objects if object_id.kind == "Namespace"}
        brought[name] = {*(of_member or ()), *direct}
    for placement in placements:
        for cluster, content in placement.contents_after().items():
            names = {manifest.name for manifest in content.manifests if manifest.kind == "Namespace"}
            brought.setdefault(cluster, set()).update(names)
    return brought


def _without_namespace(placement: PlacementPlan, brought: Mapping[str, set[str]]) -> Iterator[Diagnostic]:
    """Clusters of a namespaced placement to which nobody brings its namespace."""
    namespace = placement.asked.written.namespace
    if not namespace or is_reserved(namespace):
        return
    without = [cluster for cluster in placement.contents_after() if namespace not in brought.get(cluster, ())]
    if without:
        text = (
            f"Nothing brings the namespace {namespace} to {', '.join(without)}, and without it the objects "
            "cannot be applied there. Place it with a fleet_cluster_resource_placement that selects the "
            'Namespace (selection_scope = "NamespaceOnly"), or name it in namespaces of the member where it '
            "is there already."
        )
        yield _warned(placement, "namespace-is-not-on-the-cluster", text)


def _unfulfilled(placement: PlacementPlan, rounds: Rounds) -> Iterator[Diagnostic]:
    """A warning where the fleet has no cluster, where the scheduler stops, or finds too few clusters."""
    if not rounds.roster.members:
        text = (
            f"No fleet_member_cluster is declared, so {placement.key} is placed on no cluster. "
            "Declare one for each cluster of the fleet (its kubernetes_cluster_id names the cluster), or "
            'read the members of a running hub: data "fleet_hub".'
        )
        brief = "no fleet_member_cluster is declared; declare one for each cluster of the fleet"
        yield _warned(placement, "no-member-cluster", text, brief=brief)
        return
    if placement.scheduled.abort is not None:
        at = f" at cluster {placement.scheduled.abort.cluster}" if placement.scheduled.abort.cluster else ""
        text = f"The scheduler stops{at}: {placement.scheduled.abort.message}. What stands is kept."
        yield _warned(placement, "scheduling-stopped", text)
        return
    status = placement.scheduled.status
    if status is None or status.fulfilled:
        return
    reasons = [f"  - {decision.cluster}: {decision.reason}" for decision in status.unselected]
    message = status.condition.message
    text = "\n".join([f"{message[:1].upper()}{message[1:]}.", *reasons])
    yield _warned(placement, "placement-is-not-fulfilled", text)


def _older_name(placement: PlacementPlan, rounds: Rounds) -> Iterator[Diagnostic]:
    """A warning where a policy uses the older name of a property that no member has."""
    policy = placement.asked.written.policy
    if policy is None or not uses_old_name(policy):
        return
    if any(OLD_NODE_COUNT in member.properties for member in rounds.roster.members):
        return
    manifest = (placement.asked.instance.config or {}).get("manifest")
    lines = manifest.splitlines() if isinstance(manifest, str) else []
    numbers = [number for number, line in enumerate(lines, 1) if OLD_NODE_COUNT in line]
    at_line = f"manifest:{numbers[0]}: " if numbers else ""
    consequence = (
        "is read as that: no cluster has a property of the older name. A real hub finds no such property "
        "today."
        if placement.asked.written.old_names
        else "no cluster has a property of it. Write today's name; lenient = true would read it as that."
    )
    older = "kubernetes.azure.com/node-count is the older name of kubernetes-fleet.io/node-count and"
    text = f"{at_line}{older} {consequence}"
    brief = "kubernetes.azure.com/node-count is called kubernetes-fleet.io/node-count today"
    where = ("manifest",) if at_line else ("policy",)
    yield _warned(placement, "older-property-name", text, where, brief=brief)


def _not_overridden(placement: PlacementPlan) -> Iterator[Diagnostic]:
    for cluster, content in placement.contents_after().items():
        if content.failure:
            text = f"On cluster {cluster}: {content.failure}. Nothing of this version is applied there."
            kind = "envelope-cannot-be-opened" if content.unopened else "overrides-cannot-be-applied"
            yield _warned(placement, kind, text)


def _left_to_runs(placement: PlacementPlan) -> Iterator[Diagnostic]:
    """Changes that nothing carries to the clusters before somebody makes a staged run."""
    if placement.standing.left_to_runs is None:
        return
    waiting = [
        binding.cluster
        for binding in placement.held
        if has_resources(binding) and placement.turn_of(binding.cluster) is None
    ]
    if waiting:
        change = CHANGES[placement.standing.left_to_runs]
        text = (
            f"{change[:1].upper()}{change[1:]}, and the strategy is External: nothing of it reaches "
            f"{listed(waiting, 4)} before a staged run brings it. Write another run; one that began before "
            "keeps what it had then."
        )
        yield _warned(placement, "changes-wait-for-a-staged-run", text)


def _shared(placement: PlacementPlan, members: Mapping[str, FleetMemberState]) -> Iterator[Diagnostic]:
    """Picked members that stand on the same machines."""
    clusters_on = _clusters_by_machine(placement, members)
    shared = {place: clusters for place, clusters in clusters_on.items() if len(clusters) > 1}
    if not shared:
        return
    (site, machine), clusters = max(sorted(shared.items(), reverse=True), key=lambda item: len(item[1]))
    listed = ", ".join(sorted(clusters))
    text = (
        f"Machines that hold nodes of more than one picked cluster: {len(shared)}. The loss of machine "
        f"{machine} (site {site}) takes nodes of {listed} down at once. Keep the clusters in different racks "
        "(availability_zones); a nexus_separation_rule makes a plan that mixes them fail."
    )
    others = counted(len(shared) - 1, "other machine")
    more = f"; so does that of {others}" if len(shared) > 1 else ""
    brief = f"the loss of machine {machine} takes nodes of {listed} down at once{more}"
    yield _warned(placement, "members-of-a-placement-share-machines", text, brief=brief)


def _clusters_by_machine(
    placement: PlacementPlan, members: Mapping[str, FleetMemberState]
) -> dict[tuple[str, str], set[str]]:
    """The picked members with nodes on a machine, by site and machine."""
    clusters_on: dict[tuple[str, str], set[str]] = {}
    for binding in placement.held:
        member = members.get(binding.cluster)
        if binding.state is BindingState.UNSCHEDULED or member is None or member.cluster is None:
            continue
        for node in member.cluster.nodes:
            clusters_on.setdefault((member.cluster.site_id, node.machine), set()).add(binding.cluster)
    return clusters_on


def _drifted(placement: PlacementPlan, rounds: Rounds) -> Iterator[Diagnostic]:
    """What a fresh schedule would choose, told where a plan changes members under a placement that stays:
    information, never an action.
    """
    if placement.asked.created or placement.scheduled.abort is not None:
        return
    roster = rounds.roster
    difference = drift(
        placement.held,
        roster,
        placement.asked.policy_in(roster),
        placement.asked.snapshot,
        placement.asked.written.namespace,
    )
    if not difference.gained and not difference.lost:
        return
    verbs = []
    if difference.gained:
        verbs.append(f"hold {', '.join(difference.gained)}")
    if difference.lost:
        verbs.append(f"not hold {', '.join(difference.lost)}")
    text = (
        "With the members as this plan leaves them, a placement made anew would "
        f"{' and '.join(verbs)}. Nothing is moved "
        f"for that: {why_kept(placement)}. "
        f"`nexusform explain {shlex.quote(str(placement.address))}` shows every cluster's verdict."
    )
    brief = f"made anew it would {' and '.join(verbs)}; nothing is moved for that"
    yield _warned(placement, "a-fresh-schedule-would-choose-otherwise", text, brief=brief)
