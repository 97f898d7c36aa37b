"""Explanation of placements and of pods of hub objects and placements.

It shows every rule's verdict on every cluster.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from shlex import quote

from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import (
    Diagnostic,
    build_error,
    build_warning,
    select_errors,
    suggest_name,
)
from nexusform.diagnostics.phrases import format_first_items
from nexusform.domains.fleet.binding_kind import BINDING
from nexusform.domains.fleet.planning.fleet_phases import PlannedFleet, find_planned_fleet
from nexusform.domains.fleet.planning.placement_plan import PlacementPlan
from nexusform.domains.fleet.rendering.placement_report import (
    build_placement_report,
    build_pod_report,
)
from nexusform.domains.fleet.scheduling.member_list import MemberList
from nexusform.domains.fleet.workflow.placement_reasons import (
    PlacementReason,
    PodPlacementReason,
    build_placement_reason,
    build_pod_reasons,
)
from nexusform.domains.pods.pod_kind import POD
from nexusform.interfaces.plugins import PlanningKind
from nexusform.json_data.plain_data import get_list, get_text, get_value_at_path
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.planning.plan_request import PlanRequest
from nexusform.planning.planner import make_plan
from nexusform.plans.impact.object_effects import Effect, compute_effect
from nexusform.plans.plan import PlacementAction, PlacementChange
from nexusform.rendering.answers.explanation_text import DomainAnswer
from nexusform.resources.address import Address, AddressPattern


def explain_placements(
    result: PlanResult, fleet: PlannedFleet, pattern: AddressPattern, name: str
) -> tuple[list[PlacementReason], list[Diagnostic]] | None:
    """Explain placements on the cluster `name` ("": on all), with errors.

    The result is None without placements, or for a pod.
    """
    member_list = fleet.outcome.member_list
    placements = [
        placement
        for address, placement in fleet.outcome.placements.items()
        if pattern.is_match(address)
    ]
    if not placements:
        return None
    member_names = set(member_list.positions)
    configured_names = [
        placement.spec.configuration.effective_policy.cluster_names for placement in placements
    ]
    if name and name not in member_names.union(*configured_names):
        pod = name.rpartition("/")[2]
        if any(row.kind == POD and row.object == pod for row in result.plan.placements):
            return None  # `explain_pods` answers
        suggestion = suggest_name(name, sorted(member_names))
        unknown_nodes = describe_unknown_nodes(result, fleet, pattern)
        text = f'The fleet has no member cluster "{name}".{suggestion} {unknown_nodes}'
        return [], [build_error("no-such-object", text.rstrip())]
    return _build_reasons(result, placements, member_list, [name]), select_errors(
        result.diagnostics
    )


def explain_member(
    result: PlanResult, fleet: PlannedFleet, pattern: AddressPattern
) -> tuple[list[PlacementReason], list[Diagnostic]] | None:
    """Explain every placement's verdict on the member clusters at an address; None without any."""
    members = [change.after for change in result.plan.changes if pattern.is_match(change.address)]
    # "" for a removed one.
    names = [name for member in members if (name := get_text(member, "name"))]
    if not names:
        return None
    errors = select_errors(result.diagnostics)
    placements = fleet.outcome.placements.values()
    if not placements and not errors:
        text = f"No placement selects {', '.join(names)}: the configuration has none."
        errors.append(build_error("nothing-to-explain", text))
    member_list = fleet.outcome.member_list
    return _build_reasons(result, placements, member_list, names), errors


def _build_reasons(
    result: PlanResult,
    placements: Iterable[PlacementPlan],
    member_list: MemberList,
    clusters: Sequence[str],
) -> list[PlacementReason]:
    """Build the reasons of placements, cluster by cluster; the cluster "" means all."""
    # With a sensitive manifest or override, the objects of every placement may
    # contain sensitive values.
    types = ("fleet_hub_manifest", "fleet_cluster_resource_override", "fleet_resource_override")
    is_sensitive = any(
        change.sensitive_after for change in result.plan.changes if change.address.type in types
    )
    rows: dict[Address, list[PlacementChange]] = {}
    for row in result.plan.placements:
        if row.kind == BINDING:
            rows.setdefault(row.address, []).append(row)
    reasons = []
    for cluster, placement in product(clusters, placements):
        own_rows = rows.get(placement.spec.instance.address, ())
        reasons.append(
            build_placement_reason(
                placement, member_list, own_rows, cluster, is_sensitive=is_sensitive
            )
        )
    return reasons


NODES_UNKNOWN = "nodes-unknown"
_MAX_NAMES = 20


def explain_pods(
    result: PlanResult, fleet: PlannedFleet, pattern: AddressPattern, name: str
) -> tuple[tuple[PodPlacementReason, ...], list[Diagnostic]] | None:
    """Return reasons for the pods called `name` ("": the only pod), and diagnostics.

    Reasons are () if no pod has the name; the result is None if `pattern` has no pods. A name can
    start with a cluster or workload: `east/shop-0`, `east/web/Deployment/shop/shop-0`.
    """
    errors = select_errors(result.diagnostics)
    rows = [
        row for row in result.plan.placements if row.kind == POD and pattern.is_match(row.address)
    ]
    # pods after the plan.
    existing = [row for row in rows if row.target]
    rejected = {
        row.object: row.reason for row in rows if compute_effect(row) is Effect.NOT_CREATED
    }  # by name
    names = list(dict.fromkeys((*(row.object for row in existing), *rejected)))
    if not names:
        return None
    prefix, _, pod = (name or names[0]).rpartition("/")
    problem = _check_pod_name(pattern, name, names, rejected)
    if problem is not None:
        return (), [*errors, problem]
    unknown_nodes = describe_unknown_nodes(result, fleet, pattern)
    if unknown_nodes:
        errors.append(build_warning(NODES_UNKNOWN, unknown_nodes))
    # Of objects with pods.
    addresses = list(dict.fromkeys(str(row.address) for row in existing))
    reasons = build_pod_reasons(fleet.pods, addresses, pod)
    selected = [reason for reason in reasons if prefix in ("", *reason.prefixes)]
    if not selected:
        candidates = list(dict.fromkeys(f"{reason.cluster}/{pod}" for reason in reasons))
        text = (
            f'{pattern} has no pod "{name}". Known pods: '
            f"{format_first_items(candidates, _MAX_NAMES)}."
        )
        return (), [*errors, build_error("no-such-object", text)]
    return tuple(selected), errors


def _check_pod_name(
    pattern: AddressPattern, name: str, names: list[str], rejected: Mapping[str, str]
) -> Diagnostic | None:
    """Return an error if `name` does not select one pod in `names`; "" selects the only pod.

    `rejected` has the reasons for pods not created, by name.
    """
    if not name and len(names) > 1:
        text = (
            f"{pattern} has several pods. Specify one of: {format_first_items(names, _MAX_NAMES)}."
        )
        return build_error("ambiguous-pod", text)
    pod = (name or names[0]).rpartition("/")[2]
    if pod in rejected:
        return build_error(
            "no-such-object", f'The pod "{pod}" of {pattern} is not created: {rejected[pod]}.'
        )
    if pod not in names:
        return build_error(
            "no-such-object", f'{pattern} has no pod "{pod}".{suggest_name(pod, names)}'
        )
    return None


def describe_unknown_nodes(result: PlanResult, fleet: PlannedFleet, pattern: AddressPattern) -> str:
    """Return a sentence about picked members with unknown nodes, so without predicted pods.

    The result is "" without any. Only the placements that match `pattern` count. Nodes are known
    for the clusters in `fleet.pods.clusters`.
    """
    cluster_ids = dict(fleet.pods.members)  # by member
    # members of this plan.
    for change in result.plan.changes:
        cluster_id = get_value_at_path(change.after, "kubernetes_cluster_id")
        if change.address.type == "fleet_member_cluster" and cluster_id:
            cluster_ids[str(get_value_at_path(change.after, "name"))] = str(cluster_id)
    names: list[str] = []
    for row in result.plan.placements:
        if row.kind != BINDING or row.action is PlacementAction.REMOVE:
            # No picked member.
            continue
        # A member without a cluster of its own is known by its name.
        has_known_nodes = cluster_ids.get(row.object, row.object) in fleet.pods.clusters
        if not has_known_nodes and pattern.is_match(row.address):
            names.append(row.object)
    if not names:
        return ""
    name_list = ", ".join(names[:_MAX_NAMES]) + (" and others" if len(names) > _MAX_NAMES else "")
    return (
        f"Nodes unknown: {name_list}. Without kubernetes_cluster_id, a member has figures but no "
        "nodes. Pods of the placement are not predicted there."
    )


def _name_selecting_placements(
    result: PlanResult, fleet: PlannedFleet, pattern: AddressPattern
) -> tuple[tuple[PodPlacementReason, ...], list[Diagnostic]] | None:
    """Build an error with the placements that select objects of the manifests at `pattern`.

    The result is None without any.
    """
    manifests = [change.after for change in result.plan.changes if pattern.is_match(change.address)]
    objects = [item for manifest in manifests for item in get_list(manifest, "objects")]
    identities = {
        (item["group"], item["kind"], item["namespace"], item["name"]) for item in objects
    }
    placements = fleet.outcome.placements.items()
    selecting = [
        key
        for key, plan in placements
        if identities & {item.identity for item in plan.selection.manifests}
    ]
    if not selecting:
        return None
    commands = "".join(
        f"\n    nexusform explain {quote(str(address))}" for address in selecting[:_MAX_NAMES]
    )
    text = f"{pattern} has no pods of its own: placements select its objects. Run:\n{commands}"
    return (), [*select_errors(result.diagnostics), build_error("nothing-to-explain", text)]


def explain_fleet(request: PlanRequest, pattern: AddressPattern, name: str) -> DomainAnswer | None:
    """Explain placements, members, and pods of placements and manifests.

    The result is None for an address without any of these.
    """
    kind = request.registries.get_kind(pattern.type)
    if kind not in (PlanningKind.MEMBER, PlanningKind.PLACEMENT, PlanningKind.MANIFEST):
        return None
    # certainties and fixes are not needed.
    planned = make_plan(replace(request, samples=0, includes_remedies=False))
    fleet = find_planned_fleet(planned)
    if fleet is None:
        return None
    explained = (
        explain_placements(planned, fleet, pattern, name)
        if kind is PlanningKind.PLACEMENT
        else None
    )
    if kind is PlanningKind.MEMBER:
        explained = explain_member(planned, fleet, pattern)
    if explained is not None:
        reasons, errors = explained
        reports = tuple(map(build_placement_report, reasons))
        return DomainAnswer(
            reports,
            tuple(errors),
            allows_errors=True,
            inventories=planned.plan.observed.inventories,
        )
    pods = explain_pods(planned, fleet, pattern, name) or _name_selecting_placements(
        planned, fleet, pattern
    )
    if pods is None:
        return None
    pod_answers, errors = pods
    reports = tuple(map(build_pod_report, pod_answers))
    notes = tuple(item for item in errors if item.id == NODES_UNKNOWN)
    return DomainAnswer(
        reports, tuple(errors), notes, inventories=planned.plan.observed.inventories
    )
