"""Why a placement holds its clusters, as an answer: clusters, verdicts, scores, and overridden objects."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nexusform.importers.kubernetes.kubernetes_manifests import Manifest
from nexusform.planning.plan import PlacementAction, PlacementChange
from nexusform.rendering.answers.outline import Outline, Row, Section, Table
from nexusform.rendering.json.json_placements import refusal_document
from nexusform.scheduling.fleet.bindings import PlacementType
from nexusform.scheduling.fleet.explanation import (
    ClusterExplanation,
    Margin,
    PlacementExplanation,
    PolicyDrift,
    Preference,
)
from nexusform.whatif.reasons import PlacementReason
from nexusform.words import listed

_WORDS = {
    PlacementAction.PLACE: "placed",
    PlacementAction.REMOVE: "removed",
    PlacementAction.UPDATE: "updated",
    PlacementAction.MOVE: "moved",
}


def placement_outline(reason: PlacementReason) -> Outline:
    """One placement, or one of its clusters."""
    cluster, explanation = reason.cluster, reason.explanation
    shown = _shown(reason)
    history = _history(shown, reason.rows, reason.known)
    facts = [_policy(explanation), *_how_picked(explanation), *history, *_drift(reason.drift)]
    sections: list[Section] = []
    if cluster:
        sections += [_verdict_section(each, explanation) for each in shown]
    else:
        sections.append(Section("Clusters", table=_table(explanation)))
    sections += [_preference_section(each) for each in shown if each.preferences]
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
    return [each for each in reason.explanation.clusters if reason.cluster in ("", each.cluster)]


def _verdict(explanation: PlacementExplanation) -> str:
    if explanation.abort is not None:
        at = f" at cluster {explanation.abort.cluster}" if explanation.abort.cluster else ""
        return f"the scheduler stops{at}: {explanation.abort.message}"
    holders = [each.cluster for each in explanation.clusters if each.binding is not None]
    return f"held by {listed(holders)}" if holders else "held by no cluster"


def _policy(explanation: PlacementExplanation) -> str:
    kind = str(explanation.policy.placement_type)
    if explanation.policy.placement_type is PlacementType.PICK_N:
        number = explanation.number
        kind = f"PickN, {'every eligible cluster' if number is None else number}"
    return f"Policy: {kind} (policy snapshot {explanation.snapshot.index})."


def _how_picked(explanation: PlacementExplanation) -> Iterator[str]:
    """In which batches clusters are picked, and what ranks are of."""
    batches = explanation.batches
    if len(batches) > 1:
        picked = ", ".join(f"{number}. {listed(batch)}" for number, batch in enumerate(batches, 1))
        yield f"Picks are spread, so clusters are picked one by one, each scored anew: {picked}."
        yield "Of the others, scores and ranks are those of the last batch."
    elif not batches and any(each.rank is not None for each in explanation.clusters):
        yield "Nothing is picked: what is held stays. Ranks are of the clusters that might come next."


def _history(
    shown: Sequence[ClusterExplanation],
    rows: Mapping[str, PlacementChange],
    known: Mapping[str, tuple[str, int]],
) -> Iterator[str]:
    """What this plan does with each cluster, or since when it is held."""
    for each in shown:
        row = rows.get(each.cluster)
        if row is not None and (row.action in _WORDS or row.trigger):
            word = _WORDS.get(row.action, "kept")
            yield f"In this plan {each.cluster} is {word} ({row.trigger}): {row.reason}."
        elif each.cluster in known and each.binding is not None:
            trigger, serial = known[each.cluster]
            yield f"{each.cluster} holds it since state serial {serial} ({trigger})."


def _drift(drift: PolicyDrift) -> Iterator[str]:
    if drift.gained or drift.lost:
        gained = f"pick {listed(drift.gained)}" if drift.gained else "pick nothing else"
        lost = f" and not {listed(drift.lost)}" if drift.lost else ""
        yield f"For information: a fresh schedule would {gained}{lost}. Nothing is moved for that."


def _table(explanation: PlacementExplanation) -> Table:
    """A row per cluster; ranks and scores where there are any, batches where there are several."""
    clusters = explanation.clusters
    if all(each.affinity_score is None for each in clusters):
        plain_rows = tuple(Row((each.cluster, _state(each), _short_verdict(each))) for each in clusters)
        return Table(("cluster", "holds it", "verdict"), plain_rows)
    in_batches = len(explanation.batches) > 1
    rows = tuple(Row(_scored_cells(each, explanation, in_batches=in_batches)) for each in clusters)
    scores = ("rank", "spread", "affinity", "margin", "verdict")
    heads = ("cluster", "holds it", *(("batch",) if in_batches else ()), *scores)
    return Table(heads, rows, frozenset(heads.index(head) for head in ("rank", "spread", "affinity")))


def _state(each: ClusterExplanation) -> str:
    return str(each.binding.state) if each.binding is not None else ""


def _scored_cells(
    each: ClusterExplanation, explanation: PlacementExplanation, *, in_batches: bool
) -> tuple[str, ...]:
    """The cells of one cluster; only of those not chosen rank and margin say something."""
    chosen = each.held or (each.batch is not None and each.batch < len(explanation.batches))
    batch = (_figure(each.batch),) if in_batches else ()
    margin = "last picked" if each.cluster == explanation.last_picked else _margin(each)
    return (
        each.cluster,
        _state(each),
        *batch,
        "" if chosen else _figure(each.rank),
        _figure(each.topology_spread_score),
        _figure(each.affinity_score),
        "" if chosen else margin,
        _short_verdict(each),
    )


def _figure(value: int | None) -> str:
    return "" if value is None else str(value)


def _margin(each: ClusterExplanation) -> str:
    """What parts it from the last cluster picked: the first difference decides."""
    margin = each.margin
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


def _short_verdict(each: ClusterExplanation) -> str:
    """Held, picked, refused by what, or outscored."""
    refused = ""
    if each.refusals:
        first = each.refusals[0]
        more = f" (and {len(each.refusals) - 1} more)" if len(each.refusals) > 1 else ""
        refused = f"{first.rule}: {first.reason}{more}"
    if each.held:
        return f"held; today {refused}" if refused else "held"
    if each.picked:
        return "picked"
    if refused:
        return refused
    return "outscored" if each.margin is not None else "passes"


def _verdict_section(each: ClusterExplanation, explanation: PlacementExplanation) -> Section:
    """What every rule says of one cluster, and its rank."""
    lines = [each.reported] if each.reported else []
    lines += [f"{refusal.rule} refuses: {refusal.reason}" for refusal in each.refusals]
    if not each.refusals:
        lines.append("No rule refuses it.")
    if each.held:
        lines.append("It is held already: what holds a placement is not scheduled again.")
    elif each.batch is not None and len(explanation.batches) > 1:
        lines.append(f"Picked in batch {each.batch} of {len(explanation.batches)}.")
    if each.rank is not None and not each.held:
        margin = _margin(each)
        against = f", against the last one picked ({explanation.last_picked}): {margin}" if margin else ""
        if each.cluster == explanation.last_picked:
            against = ", the last one picked"
        lines.append(
            f"Rank {each.rank}: topology spread {_figure(each.topology_spread_score)}, affinity "
            f"{_figure(each.affinity_score)}{against}."
        )
    return Section(f"What the rules say of {each.cluster}", tuple(lines))


def _preference_section(each: ClusterExplanation) -> Section:
    lines = tuple(_preference(number, preference) for number, preference in enumerate(each.preferences, 1))
    return Section(f"Preferences of {each.cluster}", lines, folded=True)


def _preference(number: int, preference: Preference) -> str:
    text = f"{number}. {preference.points} of {preference.weight}"
    if preference.share is not None:
        return f"{text}: {preference.property} is {preference.value}, {preference.share_text()} of the weight"
    return f"{text}: no value of {preference.property}" if preference.property else text


def _overridden(objects: Sequence[Manifest], rendered: Sequence[Manifest]) -> list[Section]:
    """The objects that overrides change there: what the cluster gets, and the difference."""
    on_cluster = {_identity(manifest): manifest for manifest in rendered}
    sections: list[Section] = []
    for manifest in objects:
        result = on_cluster.get(_identity(manifest))
        if result is None:
            sections.append(Section(f"{manifest.title} is left out by an override"))
        elif result.body != manifest.body:
            before, after = _yaml(manifest.body), _yaml(result.body)
            lines = difflib.unified_diff(before, after, "on the hub", "on the cluster", lineterm="")
            sections.append(Section(f"{manifest.title} as overridden", commands=tuple(lines)))
            sections.append(Section(f"{manifest.title} on the cluster", commands=tuple(after), folded=True))
    return sections


def _identity(manifest: Manifest) -> tuple[str, str, str, str]:
    return (manifest.group, manifest.kind, manifest.namespace, manifest.name)


def _yaml(body: Mapping[str, Any]) -> list[str]:
    import yaml

    text: str = yaml.safe_dump(dict(body), sort_keys=False, default_flow_style=False, allow_unicode=True)
    return text.splitlines()


def placement_document(reason: PlacementReason) -> dict[str, Any]:
    """Why a placement has its clusters, as JSON data."""
    explanation, drift = reason.explanation, reason.drift
    document: dict[str, Any] = {
        "address": str(reason.address),
        "policy_snapshot": explanation.snapshot.index,
        "wanted": explanation.number,
        "last_picked": explanation.last_picked,
        "batches": [list(batch) for batch in explanation.batches],
        "clusters": [
            _cluster_document(each, reason.rows.get(each.cluster), reason.known.get(each.cluster))
            for each in _shown(reason)
        ],
        "fresh_schedule": {"gained": list(drift.gained), "lost": list(drift.lost)},
        "override_failures": dict(reason.failures),
    }
    if reason.cluster:
        document["manifests"] = [dict(manifest.body) for manifest in reason.rendered]
        document["overrides_fail"] = reason.failures.get(reason.cluster)
    return document


def _cluster_document(
    each: ClusterExplanation, row: PlacementChange | None, known: tuple[str, int] | None
) -> dict[str, Any]:
    known_trigger, serial = known or (None, None)
    row_trigger = row.trigger if row is not None else ""
    return {
        "cluster": each.cluster,
        "state": str(each.binding.state) if each.binding is not None else None,
        "picked": each.picked,
        "held": each.held,
        "batch": each.batch,
        "trigger": row_trigger or known_trigger,
        "serial": serial,
        "rank": each.rank,
        "topology_spread_score": each.topology_spread_score,
        "affinity_score": each.affinity_score,
        "margin": None if each.margin is None else _margin_document(each.margin),
        "reported": each.reported,
        "rejected": [refusal_document(refusal) for refusal in each.refusals],
        "preferences": [_preference_document(preference) for preference in each.preferences],
    }


def _margin_document(margin: Margin) -> dict[str, Any]:
    return {
        "topology_spread": margin.topology_spread,
        "affinity": margin.affinity,
        "obsolete": margin.obsolete,
        "decided_by": margin.decided_by,
    }


def _preference_document(preference: Preference) -> dict[str, Any]:
    return {
        "weight": preference.weight,
        "points": preference.points,
        "share": preference.share_text() or None,
        "property": preference.property or None,
        "value": preference.value or None,
    }
