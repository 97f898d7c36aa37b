"""Answers about a placement's clusters and about one pod's node.

They have verdicts, scores and overridden objects.
"""

import difflib
from collections.abc import Iterable, Iterator, Sequence

from nexusform.diagnostics.phrases import format_list, select_word_form
from nexusform.domains.fleet.rendering.manifest_export import render_yaml
from nexusform.domains.fleet.scheduling.bindings import PlacementType
from nexusform.domains.fleet.scheduling.placement_explanation import (
    ClusterExplanation,
    PlacementExplanation,
    PreferredTermScore,
    SchedulingDrift,
)
from nexusform.domains.fleet.workflow.placement_reasons import PlacementReason, PodPlacementReason
from nexusform.domains.pods.importers.manifest_parser import Manifest
from nexusform.domains.pods.planning.pod_rows import REASONS
from nexusform.domains.pods.scheduling.cluster_records import PodState
from nexusform.domains.pods.scheduling.pod_explanation import NodeVerdict
from nexusform.plans.plan import PlacementAction
from nexusform.rendering.report.report_tree import Report, Row, Section, Table

_ACTION_TEXTS = {
    PlacementAction.PLACE: "placed",
    PlacementAction.REMOVE: "removed",
    PlacementAction.UPDATE: "updated",
    PlacementAction.MOVE: "moved",
    PlacementAction.LOSE: "lost",
    PlacementAction.FORGET: "forgotten",
}


def build_placement_report(reason: PlacementReason) -> Report:
    """Build the report of one placement, or of one of its clusters.

    Facts come first as sentences, then sections with details.
    """
    # cluster "": all clusters.
    cluster = reason.cluster
    explanation = reason.explanation
    clusters = _select_clusters_of_reason(reason)
    history = _describe_binding_history(clusters, reason)
    current_facts = _describe_missing_and_unscheduled_clusters(reason)
    kind = str(explanation.policy.placement_type)
    if explanation.policy.placement_type is PlacementType.PICK_N:
        number = explanation.number
        kind = f"PickN, {'every eligible cluster' if number is None else number}"
    policy = f"Policy: {kind} (policy snapshot {explanation.snapshot.index})."
    facts = [
        policy,
        *current_facts,
        *_describe_pick_batches(explanation),
        *history,
        *_describe_drift(reason.drift),
    ]
    sections: list[Section] = []
    if cluster:
        sections += [
            _build_verdict_section(cluster_explanation, explanation)
            for cluster_explanation in clusters
        ]
    else:
        sections.append(Section("Clusters", table=_build_table(explanation), name="clusters"))
    for verdict in clusters:
        if verdict.preferences:
            lines = [
                _format_preference(number, points)
                for number, points in enumerate(verdict.preferences, 1)
            ]
            sections.append(
                Section(
                    f"Preferences of {verdict.cluster}",
                    tuple(lines),
                    is_folded=True,
                    name="preferences",
                )
            )
    for name, failure in reason.failures.items():
        location = "there" if cluster else f"on {name}"
        text = f"{failure}. The cluster keeps its earlier objects."
        sections.append(
            Section(f"Overrides fail {location}", (text,), is_finding=True, name="failures")
        )
    # Else no object is overridden; `objects` is empty in a report on all clusters.
    if not reason.failures:
        sections += _build_override_sections(reason.objects, reason.rendered)
    title = f"{reason.address} {cluster}".strip()
    has_error = explanation.abort is not None
    return Report(
        title,
        _format_bound_clusters_or_error(explanation),
        has_error,
        tuple(facts),
        tuple(sections),
    )


def _select_clusters_of_reason(reason: PlacementReason) -> list[ClusterExplanation]:
    """Return the clusters in a report.

    The requested one, or all if the request is about the placement ("").
    """
    return [
        cluster
        for cluster in reason.explanation.clusters
        if reason.cluster in ("", cluster.cluster)
    ]


def _format_bound_clusters_or_error(explanation: PlacementExplanation) -> str:
    """Return the answer of a placement's report.

    It names the clusters with a binding, or the scheduler's error.
    """
    abort = explanation.abort
    if abort is not None:
        # "": the error is about no single cluster.
        location = f" at cluster {abort.cluster}" if abort.cluster else ""
        return f"the scheduler stops{location}: {abort.message}"
    bound_clusters = [
        cluster.cluster for cluster in explanation.clusters if cluster.binding is not None
    ]
    return f"bound to {format_list(bound_clusters)}" if bound_clusters else "bound to no cluster"


def _describe_missing_and_unscheduled_clusters(reason: PlacementReason) -> Iterator[str]:
    """Yield sentences about missing clusters and unscheduled bindings."""
    if not reason.is_fulfilled and reason.explanation.abort is None:
        yield "Not fulfilled: too few clusters are eligible for the policy."
    unscheduled = reason.unscheduled
    if unscheduled:
        clause = select_word_form(len(unscheduled), "It is", "They are")
        yield (
            f"Unscheduled, but not removed yet: {format_list(unscheduled)}. {clause} removed when "
            "the "
            "rollout budget allows it."
        )


def _describe_pick_batches(explanation: PlacementExplanation) -> Iterator[str]:
    """Yield sentences about the batches of picks, or about ranks without a pick.

    There is a batch per scheduling cycle.
    """
    batches = explanation.batches
    if len(batches) > 1:
        batch_texts = ", ".join(
            f"{number}. {format_list(batch)}" for number, batch in enumerate(batches, 1)
        )
        yield (
            "Topology spread picks clusters one by one, with new scores for each pick: "
            f"{batch_texts}."
        )
        yield "Other clusters have the scores and ranks of the last batch."
    elif not batches and any(cluster.rank is not None for cluster in explanation.clusters):
        yield "No cluster is picked now. Ranks show the order of further picks."


def _describe_binding_history(
    clusters: Sequence[ClusterExplanation], reason: PlacementReason
) -> Iterator[str]:
    """Yield a sentence per cluster.

    The action of this plan on its binding, or else since when state has the binding. Keeping a
    binding is an action only with a trigger, such as a changed member. Clusters without an action
    and a record have no sentence.
    """
    for cluster in clusters:
        name = cluster.cluster
        # Of the cluster's binding; None: the plan has no row for it.
        row = reason.rows.get(name)
        if row is not None and row.action in _ACTION_TEXTS:
            yield (
                f"In this plan {name} is {_ACTION_TEXTS[row.action]} ({row.trigger}): {row.reason}."
            )
        elif row is not None and row.trigger and cluster.is_bound and cluster.rejections:
            yield (
                f"In this plan {name} is kept ({row.trigger}): {reason.kept_reason}. A new pick "
                "would be "
                f"rejected: {_describe_rejection(cluster)}."
            )
        elif row is not None and row.trigger:
            yield f"In this plan {name} is kept ({row.trigger}): {row.reason}."
        elif name in reason.recorded and cluster.binding is not None:
            trigger, serial = reason.recorded[name]
            yield f"{name} is bound since state serial {serial} ({trigger})."


def _describe_rejection(cluster: ClusterExplanation) -> str:
    """Return the details of a cluster's first rejection, else its reason."""
    return "; ".join(cluster.details) or cluster.rejections[0].reason


def _describe_drift(drift: SchedulingDrift) -> Iterator[str]:
    """Yield the difference between the current clusters and those of fresh scheduling.

    Nothing if they are equal.
    """
    if not drift.gained_clusters and not drift.lost_clusters:
        return
    gained_text = "pick no other cluster"
    lost_text = ""
    if drift.gained_clusters:
        gained_text = f"pick {format_list(drift.gained_clusters)}"
    if drift.lost_clusters:
        lost_text = f" and drop {format_list(drift.lost_clusters)}"
    yield f"Fresh scheduling would {gained_text}{lost_text}. The plan moves no binding for it."


def _build_table(explanation: PlacementExplanation) -> Table:
    """Build a row per cluster, with ranks, scores and batches.

    Ranks and scores are shown if there are any, batches if there are several.
    """
    clusters = explanation.clusters
    if all(cluster.affinity_score is None for cluster in clusters):  # no PickN
        plain_rows = tuple(
            Row((cluster.cluster, _get_state(cluster), _format_scheduling_result(cluster)))
            for cluster in clusters
        )
        return Table(("cluster", "binding", "verdict"), plain_rows)
    has_batches = len(explanation.batches) > 1
    rows = tuple(
        Row(_build_cluster_row(cluster, explanation, has_batches=has_batches))
        for cluster in clusters
    )
    scores = ("rank", "spread", "affinity", "margin", "verdict")
    heads = ("cluster", "binding", *(("batch",) if has_batches else ()), *scores)
    number_columns = frozenset(heads.index(name) for name in ("rank", "spread", "affinity"))
    return Table(heads, rows, number_columns=number_columns)


def _get_state(cluster: ClusterExplanation) -> str:
    """Return the state of the cluster's binding, "" without one."""
    return str(cluster.binding.state) if cluster.binding is not None else ""


def _build_cluster_row(
    cluster: ClusterExplanation, explanation: PlacementExplanation, *, has_batches: bool
) -> tuple[str, ...]:
    """Build the cells of one cluster.

    Name, state of its binding, batch (with `has_batches`), rank, scores, margin and verdict. A
    cluster bound, or picked in an earlier batch than the last, has no rank and no margin.
    """
    is_of_earlier_batch = cluster.batch is not None and cluster.batch < len(explanation.batches)
    is_unranked = cluster.is_bound or is_of_earlier_batch
    batch = (_format_number(cluster.batch),) if has_batches else ()
    rank = _format_number(cluster.rank)
    margin = _format_score_margin(cluster)
    if is_unranked:
        rank = ""
        margin = ""
    elif cluster.cluster == explanation.last_pick:
        margin = "last picked"
    return (
        cluster.cluster,
        _get_state(cluster),
        *batch,
        rank,
        _format_number(cluster.topology_spread_score),
        _format_number(cluster.affinity_score),
        margin,
        _format_scheduling_result(cluster),
    )


def _format_number(value: int | None) -> str:
    return "" if value is None else str(value)


def _format_score_margin(cluster: ClusterExplanation) -> str:
    """Return the difference to the last pick: the first nonzero part of the scores.

    The result is "" without ranks.
    """
    margin = cluster.margin
    if margin is None:
        return ""
    texts = {
        "topology_spread": f"{margin.topology_spread:+d} spread",
        "affinity": f"{margin.affinity:+d} affinity",
        # clusters bound under an earlier policy win ties.
        "obsolete": "kept" if margin.obsolete > 0 else "new",
        "name": "by name",
    }
    return texts[margin.deciding_part]


def _format_scheduling_result(cluster: ClusterExplanation) -> str:
    """Return the verdict: bound, picked, rejected by a rule, outscored, or passing the rules."""
    rejection_text = ""
    if cluster.rejections:
        first_rejection = cluster.rejections[0]
        more_text = (
            f" (and {len(cluster.rejections) - 1} more)" if len(cluster.rejections) > 1 else ""
        )
        rejection_text = f"{first_rejection.rule}: {_describe_rejection(cluster)}{more_text}"
    if cluster.is_bound:
        return (
            f"already bound; a new pick would be rejected by {rejection_text}"
            if rejection_text
            else "already bound"
        )
    if cluster.is_picked:
        return "picked"
    if rejection_text:
        return rejection_text
    # A margin compares the scores with a pick. Without picks now, the cluster only
    # passes the rules.
    return "outscored" if cluster.margin is not None else "passes"


def _build_verdict_section(
    cluster: ClusterExplanation, explanation: PlacementExplanation
) -> Section:
    """Build the section about one cluster.

    Its state, the rules rejecting it, and unless it is bound, its batch and rank. A bound cluster
    may have rejections, too: the rules count only for a new pick.
    """
    lines = []
    # The reason reported for a bound cluster is about its earlier pick, and rejections are about
    # a new one.
    has_earlier_reason = cluster.is_bound and bool(cluster.rejections)
    if cluster.reported_reason and not has_earlier_reason:
        lines.append(cluster.reported_reason)
    if cluster.is_bound:
        lines.append("Already bound: existing bindings are not rescheduled.")
    verb = "would reject a new pick" if cluster.is_bound else "rejects it"
    lines += [f"{rejection.rule} {verb}: {rejection.reason}" for rejection in cluster.rejections]
    lines += [f"  {detail}" for detail in cluster.details]
    if not cluster.rejections:
        lines.append("No rule rejects it.")
    if not cluster.is_bound:
        lines += _describe_batch_and_rank(cluster, explanation)
    return Section(f"Rule verdicts on {cluster.cluster}", tuple(lines), name="verdicts")


def _describe_batch_and_rank(
    cluster: ClusterExplanation, explanation: PlacementExplanation
) -> Iterator[str]:
    """Yield the batch that picked a cluster, and its rank compared with the last pick.

    The batch is given only if there are several.
    """
    # One batch per scheduling cycle.
    if cluster.batch is not None and len(explanation.batches) > 1:
        yield f"Picked in batch {cluster.batch} of {len(explanation.batches)}."
    if cluster.rank is None:
        return
    margin = _format_score_margin(cluster)
    comparison = ""
    if cluster.cluster == explanation.last_pick:
        comparison = ", the last pick"
    elif margin:
        comparison = f", compared with the last pick ({explanation.last_pick}): {margin}"
    spread = _format_number(cluster.topology_spread_score)
    affinity = _format_number(cluster.affinity_score)
    yield f"Rank {cluster.rank}: topology spread {spread}, affinity {affinity}{comparison}."


def _format_preference(number: int, preference: PreferredTermScore) -> str:
    """Return the points of a cluster from one preferred term, with the reason."""
    text = f"{number}. {preference.points} of {preference.weight}"
    if preference.share is not None:
        return (
            f"{text}: {preference.property} is {preference.value}, {preference.format_share()} of "
            "the weight"
        )
    return f"{text}: no value of {preference.property}" if preference.property else text


def _build_override_sections(
    objects: Sequence[Manifest], rendered: Sequence[Manifest]
) -> list[Section]:
    """Build sections for objects changed by overrides.

    They show the difference, and the version on the cluster (`rendered`).
    """
    on_cluster = {manifest.identity: manifest for manifest in rendered}
    sections: list[Section] = []
    for manifest in objects:
        rendered_manifest = on_cluster.get(manifest.identity)
        if rendered_manifest is None:
            sections.append(Section(f"{manifest.title} is removed by an override"))
        elif rendered_manifest.body != manifest.body:
            hub_lines = render_yaml(manifest.body).splitlines()
            cluster_lines = render_yaml(rendered_manifest.body).splitlines()
            lines = difflib.unified_diff(
                hub_lines, cluster_lines, "on the hub", "on the cluster", lineterm=""
            )
            sections.append(Section(f"{manifest.title} as overridden", commands=tuple(lines)))
            sections.append(
                Section(
                    f"{manifest.title} on the cluster",
                    commands=tuple(cluster_lines),
                    is_folded=True,
                )
            )
    return sections


def build_pod_report(reason: PodPlacementReason) -> Report:
    """Build the report of one pod on one cluster.

    Its node, or why it has none, with scores and rejections.
    """
    outcome = reason.outcome
    zone = f"zone {reason.zone}" if reason.zone else ""
    location = " / ".join(text for text in (outcome.node, reason.machine, zone) if text)
    sections = []
    if any(verdict.total is not None for verdict in reason.nodes):
        sections.append(_build_node_scores_section(reason))
    if any(verdict.rejections for verdict in reason.nodes):
        sections.append(_build_rejections_section(reason.nodes))
    title = f"{outcome.name} ({outcome.workload}) on {reason.cluster}"
    answer = f"runs on {location}"
    if not outcome.node:
        unscheduled_texts = {
            PodState.PENDING: "stays Pending",
            PodState.GATED: "is not scheduled: SchedulingGated",
            PodState.FAILED: "is Failed: kubelet rejects it",
        }
        answer = unscheduled_texts[outcome.state]
    return Report(
        title, answer, not outcome.node, tuple(_describe_node_choice(reason)), tuple(sections)
    )


def _describe_node_choice(reason: PodPlacementReason) -> Iterable[str]:
    """Yield sentences about the reason for the pod's node.

    The first is about the cause of the decision, the next about its certainty.
    """
    outcome = reason.outcome
    if outcome.trigger:
        cause = REASONS.get(outcome.trigger, outcome.trigger)
        if outcome.preempted_by:
            cause = f"{outcome.preempted_by} has a higher priority and preempts it"
        yield f"Decided in this plan ({outcome.trigger}): {cause}."
    elif not outcome.node:
        yield (
            f"It was {outcome.state} and still "
            f"is{': every plan evaluates the rules again' * outcome.is_pending}."
        )
    else:
        yield "It runs and stays: the rules are not evaluated again for a running pod."
    if outcome.victims:
        victims = ", ".join(f"{pod.name} (priority {pod.spec.priority})" for pod in outcome.victims)
        yield (
            f"No node was free, so it evicts {victims}. The nodes below are those before the "
            "eviction."
        )
    yield from _describe_certainty(reason)
    if not outcome.node and outcome.reason:
        yield outcome.reason


def _describe_certainty(reason: PodPlacementReason) -> Iterator[str]:
    """Yield a sentence on whether another run of the scheduler could decide differently.

    An uncertain outcome may have another node (`alternative`) if an assumption (`doubt`)
    does not hold.
    """
    outcome = reason.outcome
    # No decision of this plan, so nothing uncertain.
    if reason.is_current:
        yield "Verdicts of the rules on every node at present:"
    elif outcome.node and outcome.is_certain:
        # Pods of one template are interchangeable, except those of these kinds: their names or
        # nodes are fixed.
        has_template = {"StatefulSet", "DaemonSet", "Pod"}.isdisjoint(
            outcome.workload.split("/")[:2]
        )
        result = (
            "puts the same number of these pods on this node" if has_template else "picks this node"
        )
        yield f"Certain: every run of the scheduler {result}."
    elif outcome.alternative:
        yield (
            f"Not certain: {outcome.node or 'no node'}, or {outcome.alternative} ({outcome.doubt})."
        )
    elif outcome.node:
        yield _describe_uncertainty(reason)


def _describe_uncertainty(reason: PodPlacementReason) -> str:
    """Return a sentence about the reason for the uncertainty.

    The reason is unknown rules, or random choices of the scheduler.
    """
    if reason.outcome.spec is not None and reason.outcome.spec.has_unknown_rules:
        return (
            "One possible outcome: this plan does not know all of its scheduling rules (see the "
            "warning)."
        )
    feasible_count = sum(verdict.total is not None for verdict in reason.nodes)
    # pods to preempt.
    if reason.outcome.victims:
        return "One possible outcome: the scheduler picks at random among equal nodes or victims."
    if feasible_count > 1:
        return (
            f"One possible outcome: {feasible_count} nodes are feasible, and the scheduler picks "
            "at "
            "random among equal ones."
        )
    return "One possible outcome: the only node left after random choices for earlier pods."


def _build_node_scores_section(reason: PodPlacementReason) -> Section:
    """Build the section with the points of feasible nodes by rule.

    The chosen node has a row of its own; other nodes with equal points share a row.
    """
    # rejected ones have no total.
    feasible = [verdict for verdict in reason.nodes if verdict.total is not None]
    # In order, each once.
    rules = dict.fromkeys(rule for verdict in feasible for rule in verdict.points)
    # node names by ("chosen" or "", points by rule, total).
    groups: dict[tuple[str, ...], list[str]] = {}
    for verdict in feasible:
        mark = "chosen" if verdict.node == reason.outcome.node else ""
        points = [str(verdict.points.get(rule, 0)) for rule in rules]
        groups.setdefault((mark, *points, f"{verdict.total:,}"), []).append(verdict.node)
    rows: list[Row] = []
    for (mark, *figures), names in groups.items():
        name_text = f"{names[0]} (chosen)" if mark else ", ".join(names)
        rows.append(Row((name_text, *figures)))
    heads = ("node", *rules, "total")
    number_columns = frozenset(range(1, len(heads)))
    return Section(
        "Feasible nodes by points",
        table=Table(heads, tuple(rows), number_columns=number_columns),
        name="nodes",
    )


def _build_rejections_section(nodes: Sequence[NodeVerdict]) -> Section:
    """Build the section with a row per rejecting rule.

    Nodes with equal rejections share the rows.
    """
    groups: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for verdict in nodes:
        reasons = []
        for rejection in verdict.rejections:
            hint = verdict.hints.get(rejection.rule)
            reasons.append(
                (rejection.rule, f"{rejection.reason}: {hint}" if hint else rejection.reason)
            )
        groups.setdefault(tuple(reasons), []).append(verdict.node)
    rows = [
        Row((", ".join(names), *reason)) for reasons, names in groups.items() for reason in reasons
    ]
    table = Table(("node", "rule", "reason"), tuple(rows))
    return Section("Rejected nodes", table=table, name="rejected")
