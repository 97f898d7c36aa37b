"""Why a placement holds its clusters, as an answer: clusters, verdicts, scores, and overridden objects."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nexusform.importers.kubernetes_manifests import Manifest
from nexusform.planning.plan import PlacementAction, PlacementChange
from nexusform.rendering.answers.outline import Outline, Row, Section, Table
from nexusform.scheduling.fleet.explanation import ClusterExplanation, Drift, Explanation, Preference
from nexusform.scheduling.fleet.model import PlacementType
from nexusform.words import listed

_WORDS = {
    PlacementAction.PLACE: "placed",
    PlacementAction.REMOVE: "removed",
    PlacementAction.UPDATE: "updated",
    PlacementAction.MOVE: "moved",
}


def placement_outline(
    title: str,
    cluster: str,
    explanation: Explanation,
    drift: Drift,
    *,
    anew: bool,
    rows: Mapping[str, PlacementChange],
    known: Mapping[str, tuple[str, int]],
    objects: Sequence[Manifest] = (),
    rendered: Sequence[Manifest] = (),
) -> Outline:
    """One placement, or one of its clusters."""
    shown = [c for c in explanation.clusters if cluster in ("", c.cluster)]
    facts = [_policy(explanation), _view(anew=anew), *_history(shown, rows, known), *_drift(drift)]
    sections: list[Section] = []
    if cluster:
        sections += [_verdicts(c, explanation) for c in shown]
    else:
        sections.append(Section("Clusters", table=_table(explanation)))
    sections += [s for c in shown if (s := _preferences(c)) is not None]
    if cluster:
        sections += _overridden(objects, rendered)
    held = [c.cluster for c in explanation.clusters if c.binding is not None]
    verdict = f"held by {listed(held)}" if held else "held by no cluster"
    if explanation.abort is not None:
        at = f" at cluster {explanation.abort.cluster}" if explanation.abort.cluster else ""
        verdict = f"the scheduler stops{at}: {explanation.abort.message}"
    return Outline(
        f"{title} {cluster}".strip(), verdict, explanation.abort is not None, tuple(facts), tuple(sections)
    )


def _policy(explanation: Explanation) -> str:
    kind = explanation.policy.placement_type
    wanted = explanation.wanted
    if kind is PlacementType.PICK_N:
        many = "every eligible cluster" if wanted is None else str(wanted)
        return f"Policy: PickN, {many} (policy snapshot {explanation.snapshot.index})."
    return f"Policy: {kind} (policy snapshot {explanation.snapshot.index})."


def _view(*, anew: bool) -> str:
    if anew:
        return (
            "Ranks and margins are those of a placement made anew today; what is held is not scheduled again."
        )
    return "Ranks and margins are those of the clusters that this plan picks from."


def _history(
    shown: Sequence[ClusterExplanation],
    rows: Mapping[str, PlacementChange],
    known: Mapping[str, tuple[str, int]],
) -> Iterator[str]:
    for each in shown:
        row = rows.get(each.cluster)
        if row is not None and (row.action in _WORDS or row.trigger):
            word = _WORDS.get(row.action, "kept")
            yield f"In this plan {each.cluster} is {word} ({row.trigger}): {row.reason}."
        elif each.cluster in known and each.binding is not None:
            trigger, serial = known[each.cluster]
            yield f"{each.cluster} holds it since state serial {serial} ({trigger})."


def _drift(drift: Drift) -> Iterator[str]:
    if drift.gained or drift.lost:
        gained = f"pick {listed(drift.gained)}" if drift.gained else "pick nothing else"
        lost = f" and not {listed(drift.lost)}" if drift.lost else ""
        yield f"For information: a fresh schedule would {gained}{lost}. Nothing is moved for that."


def _table(explanation: Explanation) -> Table:
    scored = any(c.affinity_score is not None for c in explanation.clusters)
    heads: tuple[str, ...] = ("cluster", "holds it", "verdict")
    if scored:
        heads = ("cluster", "holds it", "rank", "spread", "affinity", "margin", "verdict")
    rows = []
    for each in explanation.clusters:
        held = str(each.binding.state) if each.binding is not None else ""
        verdict = _short_verdict(each)
        if scored:
            figures = (
                _figure(each.rank),
                _figure(each.topology_spread_score),
                _figure(each.affinity_score),
                "last picked" if each.cluster == explanation.last_picked else _margin(each),
            )
            rows.append(Row((each.cluster, held, *figures, verdict)))
        else:
            rows.append(Row((each.cluster, held, verdict)))
    return Table(heads, tuple(rows), frozenset({2, 3, 4}) if scored else frozenset())


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
    if each.refusals:
        first = each.refusals[0]
        more = f" (and {len(each.refusals) - 1} more)" if len(each.refusals) > 1 else ""
        return f"{first.rule}: {first.reason}{more}"
    return "picked" if each.picked else "passes"


def _verdicts(each: ClusterExplanation, explanation: Explanation) -> Section:
    lines = [each.reported] if each.reported else []
    lines += [f"{refusal.rule} refuses: {refusal.reason}" for refusal in each.refusals]
    if not each.refusals:
        lines.append("No rule refuses it.")
    if each.rank is not None:
        margin = _margin(each)
        against = f", against the last one picked ({explanation.last_picked}): {margin}" if margin else ""
        if each.cluster == explanation.last_picked:
            against = ", the last one picked"
        lines.append(
            f"Rank {each.rank}: topology spread {_figure(each.topology_spread_score)}, affinity "
            f"{_figure(each.affinity_score)}{against}."
        )
    return Section(f"What the rules say of {each.cluster}", tuple(lines))


def _preferences(each: ClusterExplanation) -> Section | None:
    if not each.preferences:
        return None
    lines = tuple(_preference(number, p) for number, p in enumerate(each.preferences, 1))
    return Section(f"Preferences of {each.cluster}", lines, folded=True)


def _preference(number: int, preference: Preference) -> str:
    text = f"{number}. {preference.points} of {preference.weight}"
    if preference.share is not None:
        return f"{text}: {preference.property} is {preference.value}, {preference.share_text()} of the weight"
    return f"{text}: no value of {preference.property}" if preference.property else text


def _overridden(objects: Sequence[Manifest], rendered: Sequence[Manifest]) -> list[Section]:
    """The objects that overrides change there: what the cluster gets, and the difference."""
    after = {(m.group, m.kind, m.namespace, m.name): m for m in rendered}
    found = []
    for manifest in objects:
        now = after.get((manifest.group, manifest.kind, manifest.namespace, manifest.name))
        if now is None:
            found.append(Section(f"{manifest.title} is left out by an override"))
        elif now.body != manifest.body:
            before_text, after_text = _yaml(manifest.body), _yaml(now.body)
            lines = difflib.unified_diff(before_text, after_text, "on the hub", "on the cluster", lineterm="")
            found.append(Section(f"{manifest.title} as overridden", commands=tuple(lines)))
            found.append(Section(f"{manifest.title} on the cluster", commands=tuple(after_text), folded=True))
    return found


def _yaml(body: Mapping[str, Any]) -> list[str]:
    import yaml

    text: str = yaml.safe_dump(dict(body), sort_keys=False, default_flow_style=False, allow_unicode=True)
    return text.splitlines()


def placement_document(
    address: str,
    cluster: str,
    explanation: Explanation,
    drift: Drift,
    *,
    rows: Mapping[str, PlacementChange],
    known: Mapping[str, tuple[str, int]],
    rendered: Sequence[Manifest] = (),
) -> dict[str, Any]:
    """The same as JSON data."""
    return {
        "address": address,
        "policy_snapshot": explanation.snapshot.index,
        "wanted": explanation.wanted,
        "last_picked": explanation.last_picked,
        "clusters": [
            _cluster_document(c, rows, known) for c in explanation.clusters if cluster in ("", c.cluster)
        ],
        "fresh_schedule": {"gained": list(drift.gained), "lost": list(drift.lost)},
        **({"manifests": [dict(m.body) for m in rendered]} if cluster else {}),
    }


def _cluster_document(
    each: ClusterExplanation, rows: Mapping[str, PlacementChange], known: Mapping[str, tuple[str, int]]
) -> dict[str, Any]:
    row, noted, margin = rows.get(each.cluster), known.get(each.cluster), each.margin
    return {
        "cluster": each.cluster,
        "state": str(each.binding.state) if each.binding is not None else None,
        "picked": each.picked,
        "trigger": (row.trigger if row is not None and row.trigger else None)
        or (noted[0] if noted else None),
        "serial": noted[1] if noted else None,
        "rank": each.rank,
        "topology_spread_score": each.topology_spread_score,
        "affinity_score": each.affinity_score,
        "margin": None
        if margin is None
        else {
            "topology_spread": margin.topology_spread,
            "affinity": margin.affinity,
            "obsolete": margin.obsolete,
            "decided_by": margin.decided_by,
        },
        "reported": each.reported,
        "rejected": [{"candidate": r.candidate, "rule": r.rule, "reason": r.reason} for r in each.refusals],
        "preferences": [
            {
                "weight": p.weight,
                "points": p.points,
                "share": p.share_text() or None,
                "property": p.property or None,
                "value": p.value or None,
            }
            for p in each.preferences
        ],
    }
