"""Why a placement holds its clusters, as an answer: clusters, verdicts, scores, and overridden objects."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from nexusform.domains.fleet.scheduling.bindings import PlacementType
from nexusform.domains.fleet.scheduling.explanation import (
    ClusterExplanation,
    PlacementExplanation,
    PolicyDrift,
    Preference,
)
from nexusform.domains.fleet.workflow.reasons import PlacementReason
from nexusform.domains.pods.importers.kubernetes_manifests import Manifest
from nexusform.json_forms import Form
from nexusform.plans.plan import PlacementAction
from nexusform.rendering.answers.outline import Outline, Row, Section, Table
from nexusform.rendering.json.json_placements import REFUSAL
from nexusform.words import form, listed

_WORDS = {
    PlacementAction.PLACE: "placed",
    PlacementAction.REMOVE: "removed",
    PlacementAction.UPDATE: "updated",
    PlacementAction.MOVE: "moved",
    PlacementAction.LOSE: "without its cluster",
    PlacementAction.FORGET: "forgotten",
}


def placement_outline(reason: PlacementReason) -> Outline:
    """One placement, or one of its clusters."""
    cluster, explanation = reason.cluster, reason.explanation
    shown = _shown(reason)
    history = _history(shown, reason)
    standing = _standing(reason)
    facts = [_policy(explanation), *standing, *_how_picked(explanation), *history, *_drift(reason.drift)]
    sections: list[Section] = []
    if cluster:
        sections += [_verdict_section(explained, explanation) for explained in shown]
    else:
        sections.append(Section("Clusters", table=_table(explanation)))
    sections += [_preference_section(explained) for explained in shown if explained.preferences]
    for name, failure in reason.failures.items():
        where = "there" if cluster else f"on {name}"
        text = f"{failure}. What was there before stays."
        sections.append(Section(f"Overrides fail {where}", (text,), bad=True))
    if cluster and not reason.failures:
        sections += _overridden(reason.objects, reason.rendered)
    return Outline(
        f"{reason.address} {cluster}".strip(),
        _verdict(explanation),
        explanation.abort is not None,
        tuple(facts),
        tuple(sections),
    )


def _shown(reason: PlacementReason) -> list[ClusterExplanation]:
    """The clusters that are asked about."""
    return [cluster for cluster in reason.explanation.clusters if reason.cluster in ("", cluster.cluster)]


def _verdict(explanation: PlacementExplanation) -> str:
    """Who holds the placement, or why the scheduler stops."""
    if explanation.abort is not None:
        at = f" at cluster {explanation.abort.cluster}" if explanation.abort.cluster else ""
        return f"the scheduler stops{at}: {explanation.abort.message}"
    holders = [cluster.cluster for cluster in explanation.clusters if cluster.binding is not None]
    return f"held by {listed(holders)}" if holders else "held by no cluster"


def _policy(explanation: PlacementExplanation) -> str:
    """What kind of policy it is, in a sentence."""
    kind = str(explanation.policy.placement_type)
    if explanation.policy.placement_type is PlacementType.PICK_N:
        number = explanation.number
        kind = f"PickN, {'every eligible cluster' if number is None else number}"
    return f"Policy: {kind} (policy snapshot {explanation.snapshot.index})."


def _standing(reason: PlacementReason) -> Iterator[str]:
    """What is missing of what the policy asks for, and which bindings are given up and still there."""
    if not reason.fulfilled and reason.explanation.abort is None:
        yield "Not fulfilled: the policy asks for more clusters than it gets."
    given_up = reason.given_up
    if given_up:
        goes = form(len(given_up), "It goes", "They go")
        yield f"Unscheduled, and still there: {listed(given_up)}. {goes} when others make room for it."


def _how_picked(explanation: PlacementExplanation) -> Iterator[str]:
    """In which batches clusters are picked, and what ranks are of."""
    batches = explanation.batches
    if len(batches) > 1:
        picked = ", ".join(f"{number}. {listed(batch)}" for number, batch in enumerate(batches, 1))
        yield f"Picks are spread, so clusters are picked one by one, each scored anew: {picked}."
        yield "Of the others, scores and ranks are those of the last batch."
    elif not batches and any(cluster.rank is not None for cluster in explanation.clusters):
        yield "No cluster is picked now. Ranks say which of the others would come next."


def _history(shown: Sequence[ClusterExplanation], reason: PlacementReason) -> Iterator[str]:
    """What this plan does with each cluster, or since when it is held."""
    for cluster in shown:
        name = cluster.cluster
        row = reason.rows.get(name)
        if row is not None and (row.action in _WORDS or row.trigger):
            word = _WORDS.get(row.action, "kept")
            if word == "kept" and cluster.held and cluster.refusals:
                yield f"In this plan {name} stays ({row.trigger}) although {_missed(cluster)}: {reason.kept}."
            else:
                yield f"In this plan {name} is {word} ({row.trigger}): {row.reason}."
        elif name in reason.known and cluster.binding is not None:
            trigger, serial = reason.known[name]
            yield f"{name} holds it since state serial {serial} ({trigger})."


def _missed(cluster: ClusterExplanation) -> str:
    """What the first rule that refuses a cluster saw there, else its own words."""
    return "; ".join(cluster.observed) or cluster.refusals[0].reason


def _drift(drift: PolicyDrift) -> Iterator[str]:
    """What a fresh schedule would pick otherwise; nothing where it would pick the same."""
    if drift.gained or drift.lost:
        gained = f"pick {listed(drift.gained)}" if drift.gained else "pick nothing else"
        lost = f" and not {listed(drift.lost)}" if drift.lost else ""
        yield f"For information: a fresh schedule would {gained}{lost}. Nothing is moved for that."


def _table(explanation: PlacementExplanation) -> Table:
    """A row per cluster; ranks and scores where there are any, batches where there are several."""
    clusters = explanation.clusters
    if all(cluster.affinity_score is None for cluster in clusters):
        plain_rows = tuple(
            Row((cluster.cluster, _state(cluster), _short_verdict(cluster))) for cluster in clusters
        )
        return Table(("cluster", "holds it", "verdict"), plain_rows)
    in_batches = len(explanation.batches) > 1
    rows = tuple(Row(_scored_cells(cluster, explanation, in_batches=in_batches)) for cluster in clusters)
    scores = ("rank", "spread", "affinity", "margin", "verdict")
    heads = ("cluster", "holds it", *(("batch",) if in_batches else ()), *scores)
    return Table(heads, rows, frozenset(heads.index(head) for head in ("rank", "spread", "affinity")))


def _state(cluster: ClusterExplanation) -> str:
    """The state of the binding there, "" without one."""
    return str(cluster.binding.state) if cluster.binding is not None else ""


def _scored_cells(
    cluster: ClusterExplanation, explanation: PlacementExplanation, *, in_batches: bool
) -> tuple[str, ...]:
    """The cells of one cluster; only of those not chosen rank and margin say something."""
    chosen = cluster.held or (cluster.batch is not None and cluster.batch < len(explanation.batches))
    batch = (_figure(cluster.batch),) if in_batches else ()
    margin = "last picked" if cluster.cluster == explanation.last_picked else _margin(cluster)
    return (
        cluster.cluster,
        _state(cluster),
        *batch,
        "" if chosen else _figure(cluster.rank),
        _figure(cluster.topology_spread_score),
        _figure(cluster.affinity_score),
        "" if chosen else margin,
        _short_verdict(cluster),
    )


def _figure(value: int | None) -> str:
    return "" if value is None else str(value)


def _margin(cluster: ClusterExplanation) -> str:
    """What parts it from the last cluster picked: the first difference decides."""
    margin = cluster.margin
    if margin is None:
        return ""
    match margin.decided_by:
        case "topology_spread":
            return f"{margin.topology_spread:+d} spread"
        case "affinity":
            return f"{margin.affinity:+d} affinity"
        case "obsolete":
            return "stays" if margin.obsolete > 0 else "would be new"
        case _:
            return "by name"


def _short_verdict(cluster: ClusterExplanation) -> str:
    """Held, picked, refused by what, or outscored."""
    refused = ""
    if cluster.refusals:
        reported = cluster.refusals[0]
        further = f" (and {len(cluster.refusals) - 1} more)" if len(cluster.refusals) > 1 else ""
        refused = f"{reported.rule}: {_missed(cluster)}{further}"
    if cluster.held:
        return f"held; would be refused today by {refused}" if refused else "held"
    if cluster.picked:
        return "picked"
    if refused:
        return refused
    return "outscored" if cluster.margin is not None else "passes"


def _verdict_section(cluster: ClusterExplanation, explanation: PlacementExplanation) -> Section:
    """What every rule says of one cluster, and its rank."""
    # What the hub said when it picked a cluster is no answer to why it would not do so today.
    lines = [cluster.reported] if cluster.reported and not (cluster.held and cluster.refusals) else []
    if cluster.held:
        lines.append("It is held already: what holds a placement is not scheduled again.")
    verb = "would refuse it today" if cluster.held else "refuses"
    lines += [f"{refusal.rule} {verb}: {refusal.reason}" for refusal in cluster.refusals]
    lines += [f"  {each}" for each in cluster.observed]
    if not cluster.refusals:
        lines.append("No rule refuses it.")
    if not cluster.held and cluster.batch is not None and len(explanation.batches) > 1:
        lines.append(f"Picked in batch {cluster.batch} of {len(explanation.batches)}.")
    if cluster.rank is not None and not cluster.held:
        margin = _margin(cluster)
        against = f", against the last one picked ({explanation.last_picked}): {margin}" if margin else ""
        if cluster.cluster == explanation.last_picked:
            against = ", the last one picked"
        lines.append(
            f"Rank {cluster.rank}: topology spread {_figure(cluster.topology_spread_score)}, affinity "
            f"{_figure(cluster.affinity_score)}{against}."
        )
    return Section(f"What the rules say of {cluster.cluster}", tuple(lines))


def _preference_section(cluster: ClusterExplanation) -> Section:
    lines = tuple(_preference(number, preference) for number, preference in enumerate(cluster.preferences, 1))
    return Section(f"Preferences of {cluster.cluster}", lines, folded=True)


def _preference(number: int, preference: Preference) -> str:
    """What one preferred term gives a cluster, and why."""
    text = f"{number}. {preference.points} of {preference.weight}"
    if preference.share is not None:
        return f"{text}: {preference.property} is {preference.value}, {preference.share_text()} of the weight"
    return f"{text}: no value of {preference.property}" if preference.property else text


def _overridden(objects: Sequence[Manifest], rendered: Sequence[Manifest]) -> list[Section]:
    """The objects that overrides change there: what the cluster gets, and the difference."""
    on_cluster = {_identity(manifest): manifest for manifest in rendered}
    sections: list[Section] = []
    for manifest in objects:
        overridden = on_cluster.get(_identity(manifest))
        if overridden is None:
            sections.append(Section(f"{manifest.title} is left out by an override"))
        elif overridden.body != manifest.body:
            hub_lines, cluster_lines = _yaml(manifest.body), _yaml(overridden.body)
            lines = difflib.unified_diff(
                hub_lines, cluster_lines, "on the hub", "on the cluster", lineterm=""
            )
            sections.append(Section(f"{manifest.title} as overridden", commands=tuple(lines)))
            sections.append(
                Section(f"{manifest.title} on the cluster", commands=tuple(cluster_lines), folded=True)
            )
    return sections


def _identity(manifest: Manifest) -> tuple[str, str, str, str]:
    """What tells objects apart."""
    return (manifest.group, manifest.kind, manifest.namespace, manifest.name)


def _yaml(body: Mapping[str, Any]) -> list[str]:
    import yaml

    text: str = yaml.safe_dump(dict(body), sort_keys=False, default_flow_style=False, allow_unicode=True)
    return text.splitlines()


_PLACEMENT: Final = Form(
    PlacementReason,
    "address policy_snapshot=explanation.snapshot.index wanted=explanation.number "
    "last_picked=explanation.last_picked batches=explanation.batches clusters=. fresh_schedule=drift "
    "override_failures=failures fulfilled unscheduled=given_up",
    clusters=lambda reason: [_cluster_document(cluster, reason) for cluster in _shown(reason)],
    fresh_schedule="gained lost",
)
_STANDING: Final = Form(ClusterExplanation, "cluster state=binding.state picked held batch")
_CLUSTER: Final = Form(
    ClusterExplanation,
    "rank topology_spread_score affinity_score margin reported rejected=refusals observed preferences",
    margin="topology_spread affinity obsolete decided_by",
    rejected=REFUSAL,
    preferences=Form(
        Preference,
        "weight points share=. property? value?",
        share=lambda preference: preference.share_text() or None,
    ),
)


def placement_document(reason: PlacementReason) -> dict[str, Any]:
    """Why a placement has its clusters, as JSON data."""
    document = _PLACEMENT(reason)
    if reason.cluster:
        document["manifests"] = [dict(manifest.body) for manifest in reason.rendered]
        document["overrides_fail"] = reason.failures.get(reason.cluster)
    return document


def _cluster_document(cluster: ClusterExplanation, reason: PlacementReason) -> dict[str, Any]:
    row = reason.rows.get(cluster.cluster)
    known_trigger, serial = reason.known.get(cluster.cluster) or (None, None)
    return {
        **_STANDING(cluster),
        "trigger": (row.trigger if row is not None else "") or known_trigger,
        "serial": serial,
        **_CLUSTER(cluster),
    }
