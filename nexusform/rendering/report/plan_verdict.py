"""Verdict and notes of a plan.

They are the headline, rejection, impact, age of its inventory, and further sentences.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from nexusform.diagnostics.levels import Level, PlacementImpact
from nexusform.diagnostics.name_ranges import format_names, format_part_names
from nexusform.diagnostics.phrases import (
    enclose,
    format_count,
    format_counts,
    format_first_items,
    format_list,
    group_by,
    join_texts,
    select_word_form,
)
from nexusform.placement_kinds.placement_kind import VM
from nexusform.placements.consequence_record import Consequence, ConsequenceKind
from nexusform.plans.impact.consequence_texts import describe_risks
from nexusform.plans.impact.consequence_views import (
    list_destroyed_objects,
    list_replaced_objects,
    list_unnamed_risks,
)
from nexusform.plans.impact.guard_rails import (
    NOTHING_TO_PREDICT,
    count_unpredicted_resources,
    list_broken_limits,
)
from nexusform.plans.impact.object_effects import (
    LOSS_EFFECTS,
    Effect,
    build_cluster_formatter,
    compute_effect,
    count_content_effects,
    count_effects,
    count_objects_with_effects,
    count_plan_effects,
    describe_lost_vms,
    format_effect_clauses,
    format_kind_counts,
)
from nexusform.plans.maintenance import describe_stopped_vms
from nexusform.plans.numa_sampling import NumaSampling
from nexusform.plans.plan import (
    Mode,
    PlacementChange,
    Plan,
    SeparationVerdict,
    SeparationViolation,
    SitePredictionAccuracy,
)
from nexusform.plans.plan_checks import GuardRailOutcome
from nexusform.rendering.report import plan_sentences
from nexusform.rendering.report.decision_lines import (
    describe_effects,
    describe_left_clusters,
    format_title,
    list_blocking_reasons,
    list_blocking_rules,
    select_own_errors,
    select_unnamed_rows,
)
from nexusform.rendering.report.finding_entries import Finding, list_destructive_renames
from nexusform.rendering.report.plan_sentences import (
    count_resource_changes,
    describe_inventory,
    has_stale_inventory,
)

_GUESSES: Final = "This site does not follow the placement rule; the locations below are guesses."
MAX_SITES: Final = 6
_MAX_NAMES: Final = 6
_DESTROY: Final = "to destroy"
_SCALE_OUT: Final = "scale_out"
# Limit of destroyed or replaced objects in the headline.
_MAX_TITLE_OBJECTS: Final = 2
# A heading of the verdict.
INVENTORY: Final = "Inventory"


def build_headline(plan: Plan) -> str:
    """Return the result of a plan in one line.

    For a failed plan it is the first error. If no object moves or is lost, it has the counts of
    resources and placements: `1 to add, 7 VMs to place, nothing moves`. Otherwise clauses about
    moved and lost objects come first, and of the resources only those to destroy are counted.
    """
    if plan.is_failed:
        return _describe_failure(plan)
    if not plan.has_changes:
        if any(diagnostic.id == NOTHING_TO_PREDICT for diagnostic in plan.diagnostics):
            return (
                "nothing predicted" if count_unpredicted_resources(plan) else "nothing to predict"
            )
        return (
            "no changes to the state; a hub or site was not read"
            if plan.is_from_state
            else "no changes"
        )
    # Upgrades have their own clauses.
    rows = _select_rows_of_headline(plan)
    outside_upgrades = count_content_effects(count_effects(rows), plan.workloads.content_changes)
    # Upgrades have waiting VMs, too.
    waiting = format_effect_clauses(count_plan_effects(plan), [Effect.WAITING])
    placed = _describe_grown_pools(plan, rows) or describe_effects(
        outside_upgrades, [Effect.PLACED]
    )
    from nexusform.rendering.report.upgrade_sentences import describe_upgrades

    moving = [
        *describe_upgrades(plan.impact.upgrades),
        *describe_left_clusters(plan),
        *_name_pools(format_effect_clauses(outside_upgrades, LOSS_EFFECTS), rows),
    ]
    moving += [*describe_stopped_vms(plan.impact.machine_actions), *describe_lost_vms(plan)]
    ended = _describe_ended_objects(plan)
    named_objects = (*list_destroyed_objects(plan.impact), *list_replaced_objects(plan.impact))
    risks = [risk for risk in list_unnamed_risks(plan.impact) if risk.is_lasting]
    if moving or any(item.runs for item in named_objects):
        emptied = _describe_first_risk([risk for risk in risks if risk.is_emptied])
        clauses = [*ended, *emptied, *moving, *placed, *waiting]
    else:
        # A destroyed or replaced object explains the colour.
        is_named = any(ended.is_lasting for ended in named_objects)
        rest = [] if is_named else _describe_first_risk(risks) or ["nothing moves"]
        clauses = [*ended, *_describe_object_changes(plan), *placed, *rest, *waiting]
    return ", ".join(["blocked", *clauses] if plan.is_rejected else clauses)


def _describe_first_risk(risks: Sequence[Consequence]) -> list[str]:
    """Return a clause on the first of some risks, with the number of others; [] for none."""
    sentences = describe_risks(risks)
    if not sentences:
        return []
    (text, count), *_ = sentences
    others = sum(number for _, number in sentences) - count
    return [f"{text}{enclose(' and ', format_count(others, 'more risk') if others else '')}"]


def _select_rows_of_headline(plan: Plan) -> list[PlacementChange]:
    """Return the placements outside of upgrades, without those ended by a named object."""
    named_addresses = {
        ended.address for _, objects in _list_renamed_objects(plan) for ended in objects
    }
    for objects in (list_destroyed_objects(plan.impact), list_replaced_objects(plan.impact)):
        # A headline without all names has the total.
        if len(objects) <= _MAX_TITLE_OBJECTS:
            named_addresses |= {ended.address for ended in objects if ended.runs}
    return [
        row
        for row in select_unnamed_rows(plan)
        if not (compute_effect(row) is Effect.REMOVED and str(row.address) in named_addresses)
    ]


def _name_pools(clauses: Sequence[str], rows: Sequence[PlacementChange]) -> list[str]:
    """Return the clauses, with the pools of removed VMs: `3 VMs are removed from web/workers`.

    Many pools are not named.
    """
    removed = [row for row in rows if row.kind == VM and compute_effect(row) is Effect.REMOVED]
    # The pool of VMs outside of clusters is their address.
    if any(row.cluster.startswith(row.address.type) for row in removed):
        return list(clauses)
    clusters = group_by((row for row in removed if row.pool), lambda row: row.pool)
    if not clusters or len(clusters) > _MAX_TITLE_OBJECTS:
        return list(clauses)
    names = format_list(
        format_part_names((row.cluster for row in pool_rows), pool)
        for pool, pool_rows in clusters.items()
    )
    verb = select_word_form(len(removed), "is removed", "are removed")
    clause = f"{format_count(len(removed), 'VM')} {verb}"
    return [f"{text} from {names}" if text == clause else text for text in clauses]


def _describe_grown_pools(plan: Plan, rows: Sequence[PlacementChange]) -> list[str]:
    """Return a clause per larger pool: `fwd of oslo-upf 20 -> 94 VMs`.

    Return [] for many pools, or if further objects are placed.
    """
    placed = [row for row in rows if compute_effect(row) is Effect.PLACED]
    pools = group_by(placed, lambda row: (row.address, row.site_id, row.cluster, row.pool))
    is_scale_out = all(row.kind == VM and row.trigger == _SCALE_OUT for row in placed)
    if not is_scale_out or len(pools) > _MAX_TITLE_OBJECTS:
        return []
    sizes = {
        (table.address, table.site_id, table.cluster, table.pool): table.total_count
        for table in plan.figures.placement_tables
    }
    if not pools.keys() <= sizes.keys():
        return []
    format_cluster = build_cluster_formatter(plan.figures.placement_tables)
    return [
        f"{pool_rows[0].pool} of {format_cluster(pool_rows[0])} "
        f"{sizes[key] - len(pool_rows):,} -> {format_count(sizes[key], 'VM')}"
        for key, pool_rows in pools.items()
    ]


def _describe_ended_objects(plan: Plan) -> list[str]:
    """Return clauses with the names of renamed, destroyed and replaced objects.

    Examples are `nexus_kubernetes_cluster.a looks renamed: 33 VMs would be re-created; add this
    moved block` and `destroys cluster-c (15 VMs) and 2 more objects`.
    """
    destroyed = list_destroyed_objects(plan.impact)
    replaced = list_replaced_objects(plan.impact)
    renamed: list[Consequence] = []
    # By whether the object is the same: names, and the objects.
    names_by_kind: dict[bool, dict[str, list[Consequence]]] = {}
    for old_address, objects in _list_renamed_objects(plan):
        name = objects[0].subject if len(objects) == 1 else old_address
        is_same = all(ended.kind is ConsequenceKind.REPLACED for ended in objects)
        names_by_kind.setdefault(is_same, {})[name] = objects
        renamed += objects
    clauses = [
        _describe_renames(objects_by_name, is_same=is_same)
        for is_same, objects_by_name in names_by_kind.items()
    ]
    destroyed = [ended for ended in destroyed if ended not in renamed]
    replaced = [ended for ended in replaced if ended not in renamed]
    for verb, objects in (("destroys", destroyed), ("replaces", replaced)):
        names = [ended.title for ended in objects[:_MAX_TITLE_OBJECTS]]
        hidden_count = len(objects) - len(names)
        names += [format_count(hidden_count, "more object")] if hidden_count else []
        clauses += [f"{verb} {format_list(names)}"] if names else []
    return clauses


def _list_renamed_objects(plan: Plan) -> list[tuple[str, list[Consequence]]]:
    """Return the old address of each destructive rename, with its objects.

    It is the address of one object, or of a block with several.
    """
    ended_objects = [*list_destroyed_objects(plan.impact), *list_replaced_objects(plan.impact)]
    addresses = [str(item.extra["moved"]["from"]) for item in list_destructive_renames(plan)]
    return [
        (
            address,
            [
                ended
                for ended in ended_objects
                if ended.address == address or ended.address.startswith(f"{address}[")
            ],
        )
        for address in addresses
    ]


def _describe_renames(
    objects_by_name: Mapping[str, Sequence[Consequence]], *, is_same: bool
) -> str:
    """Return a clause on renamed objects: `a and b are deleted and created again (9 VMs) ...`.

    With `is_same` the plan creates objects with the ids of deleted ones.
    """
    count = len(objects_by_name)
    names = format_names(objects_by_name)
    runs: Counter[str] = Counter()
    for ended in chain.from_iterable(objects_by_name.values()):
        runs.update(ended.runs)
    counts = format_kind_counts(runs)
    blocks = select_word_form(count, "this moved block", f"these {count:,} moved blocks")
    if is_same:
        verb = select_word_form(count, "is", "are")
        return f"{names} {verb} deleted and created again ({counts}) without {blocks}"
    verb = select_word_form(count, "looks", "look")
    return f"{names} {verb} renamed: {counts} would be re-created; add {blocks}"


def _describe_failure(plan: Plan) -> str:
    """Return the first error and the number of others.

    Broken separation rules come before other errors.
    """
    reasons = [f"separation rule {rule} does not hold" for rule in list_blocking_rules(plan)]
    reasons += map(format_title, select_own_errors(plan))
    if not reasons:
        return "planning failed"
    text = f"planning failed: {reasons[0]}"
    return (
        text if len(reasons) == 1 else f"{text}, and {format_count(len(reasons) - 1, 'more error')}"
    )


def _describe_object_changes(plan: Plan) -> list[str]:
    """Return a clause per kind of change with its number of objects: `1 to add`.

    Without any, return one on the drift to record, on renamed objects, or on outputs.
    """
    verbs = ("to import", "to add", "to change", _DESTROY, "to forget")
    # The names of destroyed and replaced objects precede these clauses.
    counts = [
        (count, verb)
        for count, verb in zip(count_resource_changes(plan), verbs, strict=True)
        if verb != _DESTROY
    ]
    objects = format_counts(counts)
    if objects or plan.to_destroy:
        return objects
    if plan.options.mode is Mode.REFRESH_ONLY:
        drift_text = (
            f"{format_count(len(plan.observed.drift), 'object')} changed outside of nexusform"
        )
        return [drift_text if plan.observed.drift else "refresh only"]
    renamed = sum(change.previous_address is not None for change in plan.changes)
    # The caller knows of a change.
    return [f"{renamed:,} to rename" if renamed else "outputs only"]


def describe_rejection(plan: Plan) -> str:
    """Return the rules, errors and guard rails blocking an apply, in this order.

    Return "" if nothing blocks it.
    """
    if not plan.is_rejected:
        return ""
    # Rules come before errors.
    reasons = [reason.removeprefix("by ") for reason in list_blocking_reasons(plan)]
    limits = list_broken_limits(plan)
    reasons.append(enclose(f"{select_word_form(len(limits), 'guard rail')} ", format_list(limits)))
    # A plan can be marked `errored` without one.
    return join_texts(reasons, "; ") or "an error"


def format_current_verdict(verdict: SeparationVerdict) -> str:
    """Format the verdict on an observed placement: "broken", "unknown" or "holds"."""
    if verdict.violations:
        return "broken"
    return "unknown" if verdict.unchecked else "holds"


def format_violation(violation: SeparationViolation) -> str:
    """Format a violation of a separation rule.

    An example is `machine rack1-bm01: a-0, b-1; joined by b-1 (new)`.
    """
    locations = (
        ("machine", violation.machine),
        ("rack", violation.rack),
        ("site", violation.site_id),
    )
    # The narrowest one.
    location = next((f"{kind} {name}" for kind, name in locations if name), "")
    trigger_note = enclose(" (", violation.trigger, ")")
    joining_note = enclose("; joined by ", violation.violating_member, trigger_note)
    return f"{location}: {', '.join(violation.members)}{joining_note}"


_CONDITION_VERBS: Final = {
    "pass": ("holds", "hold"),
    "fail": ("fails", "fail"),
    "error": ("cannot be evaluated", "cannot be evaluated"),
    "unknown": ("is not known yet", "are not known yet"),
}


def count_findings(findings: Sequence[Finding]) -> list[str]:
    """Count findings by level.

    Examples are `2 errors`, `1 warning`, `1 piece of advice` and `3 not caused by this plan`.
    """
    existing = sum(finding.is_preexisting for finding in findings)
    levels = Counter(finding.level for finding in findings if not finding.is_preexisting)
    nouns = {
        Level.ERROR: ("error", "errors"),
        Level.WARNING: ("warning", "warnings"),
        Level.ADVICE: ("piece of advice", "pieces of advice"),
        Level.NOTE: ("note", "notes"),
    }
    counts = [
        (levels[level], select_word_form(levels[level], *noun)) for level, noun in nouns.items()
    ]
    return format_counts([*counts, (existing, "not caused by this plan")])


def compute_impact(plan: Plan) -> PlacementImpact:
    """Return the impact of a plan on running objects.

    LOSES if a consequence that the plan causes is lasting, or the plan failed. Return MOVES for
    temporary disruptions, doubts, and a plan that a limit blocks, else NONE.
    """
    # Nothing is known of a failed plan.
    if plan.errored or any(risk.is_lasting for risk in plan.impact.consequences):
        return PlacementImpact.LOSES
    counts = count_plan_effects(plan)
    risks = (
        count_objects_with_effects(
            counts, Effect.MOVED, Effect.RECREATED, Effect.WAITING, Effect.FORGOTTEN
        )
        > 0,
        plan.is_rejected,
        bool(plan.impact.outside_changes),
        any(risk.is_risk for risk in plan.impact.consequences),
        plan.to_destroy > 0,
        any(action.stopped_vms for action in plan.impact.machine_actions),
        has_stale_inventory(plan),
        any(verdict.satisfied != "always" for verdict in plan.verdicts.separation_verdicts),
        any(limit.result == GuardRailOutcome.REVIEW for limit in plan.verdicts.guard_rails),
        any(check.status in ("fail", "error") for check in plan.verdicts.checks),
    )
    return PlacementImpact.MOVES if any(risks) else PlacementImpact.NONE


def build_notes(plan: Plan) -> list[tuple[str, str]]:
    """Return pairs on upgrades, uncertainty, dry runs, rules and inputs, without empty ones.

    A pair is a heading and a sentence.
    """
    sentences: list[tuple[str, str]] = []
    if plan.impact.upgrades:
        from nexusform.rendering.report.upgrade_sentences import build_upgrade_notes

        sentences += build_upgrade_notes(plan.impact.upgrades)
    sentences += [
        ("NUMA cells", describe_unknown_cells(plan.figures.numa_sampling)),
        ("Scale-in", describe_scale_in(plan)),
    ]
    for score in plan.figures.prediction_scores[:MAX_SITES]:
        sentences.append((f"Predictions on {score.site}", _describe_accuracy(score)))
    sentences += [("Dry run", message) for message in plan.verdicts.dry_run_messages]
    sentences += [
        ("Separation", sentence)
        for sentence in _describe_separation(plan.verdicts.separation_verdicts)
    ]
    # Predicted results of conditions.
    statuses = Counter(check.status for check in plan.verdicts.checks)
    # `2 hold, 1 fails (predicted).`; without a sentence if all hold.
    if not statuses.keys() <= {"pass"}:
        counts = [
            (statuses[status], select_word_form(statuses[status], *verbs))
            for status, verbs in _CONDITION_VERBS.items()
        ]
        sentences.append(("Conditions", f"{', '.join(format_counts(counts))} (predicted)."))
    sentences.append((INVENTORY, enclose("", describe_inventory(plan), ".")))
    return [(heading, sentence) for heading, sentence in sentences if sentence]


def _describe_separation(verdicts: Iterable[SeparationVerdict]) -> Iterator[str]:
    """Yield a sentence per violated or unknown rule, then one for all others.

    They are violated in the plan or a sample.
    """
    # Verdicts of rules never violated.
    satisfied = []
    for verdict in verdicts:
        if verdict.satisfied == "unknown":
            yield f"{verdict.address} is unknown: {'; '.join(verdict.unchecked)}."
            continue
        if verdict.satisfied == "always":
            satisfied.append(verdict)
            continue
        violation_count = format_count(len(verdict.violations), verdict.scope)
        sample_count = verdict.sample_count
        violating_count = sample_count - verdict.satisfied_count
        share = f" (in {violating_count:,} of {sample_count:,} samples)" if sample_count else ""
        verb = "is violated" if verdict.satisfied == "never" else "may be violated"
        yield f"{verdict.address} {verb}{share}: {violation_count} shared, {verdict.enforcement}."
    if satisfied:
        names = format_names(verdict.address.name_with_keys for verdict in satisfied)
        sample_count = max(verdict.sample_count for verdict in satisfied)
        scope = f"in the plan and in {sample_count} samples" if sample_count else "in the plan"
        yield f"{names} {select_word_form(len(satisfied), 'holds', 'hold')}, {scope}."


def _describe_accuracy(score: SitePredictionAccuracy) -> str:
    """Return sentences about the accuracy of predictions on a site.

    They are about the replay of its history, with the VMs predicted correctly (`hits`), and about
    predictions of earlier plans. The reasons of results not verified come last.
    """
    sentences = []
    unverified = f"{score.unverified_count:,} not verified"
    if score.verified_count:
        share = _format_percent(score.hits / score.verified_count)
        clauses = [
            f"{score.hits:,} of {score.verified_count:,} verified VMs ({share}) run where predicted"
        ]
        # None: not counted.
        if score.certain_hits not in {None, score.hits}:
            clauses.append(f"{score.certain_hits:,} of them certain")
        if score.random_hits is not None:
            clauses.append(f"by chance {_format_percent(score.random_hits / score.verified_count)}")
        sentences.append(f"{', '.join([*clauses, unverified])}.")
    elif score.unverified_count:
        sentences.append(f"no VM could be verified, {unverified}.")
    # Those of earlier plans, verified after their apply.
    if score.predictions is not None:
        if score.predictions.is_no_better_than_chance:
            sentences.append(_GUESSES)
        sentences.append(f"{plan_sentences.format_prediction_accuracy(score.predictions)}.")
    return join_texts((*sentences, enclose("Not verified: ", score.not_verified, ".")), " ")


def _format_percent(share: float) -> str:
    return f"{share:.1%}".replace("%", " %")


def describe_unknown_cells(sampling: NumaSampling | None) -> str:
    """Return a sentence about the effect of unknown NUMA cells (of running VMs).

    Return "" if the plan depends on none.
    """
    if sampling is None:
        return ""
    from nexusform.scheduling.racks.uncertainty.splits import RULE_DESCRIPTIONS

    unknown_cells = f"NUMA use unknown on {format_count(sampling.machines, 'machine')}"
    if not sampling.sample_count:
        return f"{unknown_cells}; no other layout was sampled."
    fitting = f"{sampling.fitting_count:,} of {sampling.sample_count:,}"
    # The plan shows one of the layouts, made by a rule or by a numbered sample (None).
    rule = RULE_DESCRIPTIONS.get(str(sampling.displayed_sample))
    if rule is not None:
        return f"{unknown_cells}. Everything fits {rule}, and in {fitting} sampled layouts."
    if sampling.fitting_count == sampling.sample_count:
        fitting = f"all {sampling.sample_count:,}"
    return f"{unknown_cells}; everything fits in {fitting} sampled layouts."


def describe_scale_in(plan: Plan) -> str:
    """Return a sentence on the VMs that a rack may lose if the platform shrinks pools.

    Examples are `a rack may lose all VMs of b/pool1` and `a rack may keep only 2 of b/pool1`.
    Return "" without such pools.
    """
    format_cluster = build_cluster_formatter(plan.figures.placement_tables)
    clauses: dict[bool, list[str]] = {True: [], False: []}
    for table in plan.figures.placement_tables:
        remaining = table.minimum_remaining_on_rack
        if remaining is not None:
            pool = f"{format_cluster(table)}/{table.pool}"
            clauses[remaining == 0].append(f"{remaining:,} of {pool}" if remaining else pool)
    losses = join_texts(
        (
            enclose("a rack may lose all VMs of ", format_first_items(clauses[True], _MAX_NAMES)),
            enclose("a rack may keep only ", format_first_items(clauses[False], _MAX_NAMES)),
        ),
        "; ",
    )
    return enclose("Azure picks the VMs to remove; ", losses, ".")
