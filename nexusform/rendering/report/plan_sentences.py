"""Sentences of a plan: headlines, reasons and verdicts."""

import math
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from nexusform.diagnostics.phrases import (
    enclose,
    format_count,
    format_duration,
    format_list,
    join_texts,
    select_word_form,
)
from nexusform.placement_kinds.placement_kind import VM
from nexusform.placement_kinds.registry import KINDS
from nexusform.placements.prediction_scores import PredictionRecordScore
from nexusform.plans.impact.guard_rails import NOTHING_TO_PREDICT, count_unpredicted_resources
from nexusform.plans.plan import (
    Action,
    Change,
    Mode,
    PlacementAction,
    PlacementChange,
    Plan,
    is_fully_decided,
)
from nexusform.resources.address import format_module

SYMBOLS: Final = {
    Action.NO_OP: "",
    Action.CREATE: "+",
    Action.READ: "<=",
    Action.UPDATE: "~",
    Action.DELETE: "-",
    Action.REPLACE: "-/+",
    Action.REPLACE_CREATE_FIRST: "+/-",
    Action.FORGET: ".",
}

# In the order of the legend.
LEGEND: Final = (
    (Action.CREATE, "create"),
    (Action.UPDATE, "update in-place"),
    (Action.DELETE, "destroy"),
    (Action.REPLACE, "destroy and then create replacement"),
    (Action.REPLACE_CREATE_FIRST, "create replacement and then destroy"),
    (Action.READ, "read (data resources)"),
    (Action.FORGET, "forget"),
)

REPLACE_ACTIONS: Final = (Action.REPLACE, Action.REPLACE_CREATE_FIRST)

_HEADLINES: Final = {
    Action.CREATE: "will be created",
    Action.READ: "will be read during apply",
    Action.UPDATE: "will be updated in-place",
    Action.DELETE: "will be destroyed",
    Action.FORGET: "will be removed from the nexusform state but will not be destroyed",
}

_REPLACEMENT_HEADLINES: Final = {
    "replace_because_tainted": "is tainted, so it must be replaced",
    "replace_by_request": "will be replaced, as requested",
    "replace_by_triggers": "will be replaced due to changes in replace_triggered_by",
    "replace_with_its_place": "will be replaced with its parent",
}

_REASONS: Final = {
    "delete_because_no_resource_config": (
        "(because {address.config_address} is not in configuration)"
    ),
    "delete_because_no_module": "(because {module} is not in configuration)",
    "delete_because_count_index": "(because index [{address.key}] is out of range for count)",
    "delete_because_each_key": '(because key ["{address.key}"] is not in for_each map)',
    "delete_because_wrong_repetition": "(because resource {repetition})",
    "delete_because_no_move_target": (
        "(because {previous} was moved to {address}, which is not in configuration)"
    ),
    "delete_because_enabled_false": "(because enabled is false)",
    "read_because_config_unknown": "(config refers to values not yet known)",
    "read_because_dependency_pending": "(depends on a resource or a module with changes pending)",
    "read_because_check_nested": "(config will be reloaded to verify a check block)",
}
# By class of an instance key that its block does not have; an object without a key needs one.
_REPETITIONS: Final = {int: "does not use count", str: "does not use for_each"}
_MAX_NAMES = 5
# The trigger concerns one cluster, the row another.
_OTHER_CLUSTER_TRIGGERS: Final[Mapping[str, str]] = {"cluster_left": "another cluster was removed"}
# For these triggers the reason is more specific: `moved on the hub: par1 -> lon1`. Forgotten
# objects are not removed.
_REMOVAL_TRIGGERS: Final = frozenset(
    {"cluster_removed", "placement_removed", "workload_removed", "binding_removed"}
)
_REASON_TRIGGERS: Final = frozenset({"moved_on_the_hub"})


def format_headline(change: Change) -> str:
    """Return the text after the address: `will be created`.

    A change without an action is an import or a move.
    """
    if change.action in REPLACE_ACTIONS:
        return _REPLACEMENT_HEADLINES.get(change.reason, "must be replaced")
    if change.action is Action.NO_OP:
        if change.importing:
            return "will be imported"
        if change.previous_address is not None:
            return f"has moved to {change.address}"
        return "is unchanged"
    return _HEADLINES[change.action]


def format_headline_address(change: Change) -> str:
    """Return the address before the headline.

    A move without another change has its old address there.
    """
    if (
        change.action is Action.NO_OP
        and change.previous_address is not None
        and not change.importing
    ):
        return str(change.previous_address)
    return format_object_address(change.address, change.deposed)


def format_object_address(address: object, deposed: str) -> str:
    """Return the address of an object as text, with the key of a deposed one."""
    return f"{address}{enclose(' (deposed object ', deposed, ')')}"


def build_change_comments(change: Change) -> tuple[str, ...]:
    """Return the further comment lines: reason, previous address and import id."""
    lines = [_format_reason(change)]
    # Else the move or import is the headline.
    if change.action is not Action.NO_OP:
        # This reason names both addresses.
        if change.reason != "delete_because_no_move_target":
            lines.append(enclose("(moved from ", change.previous_address, ")"))
        lines.append(enclose('(imported from "', change.importing, '")'))
    return tuple(filter(None, lines))


def _format_reason(change: Change) -> str:
    """Return the reason of the action in brackets.

    Return "" if there is none, or the headline has it already.
    """
    if change.deposed:
        return "(left over from a partially-failed replacement of this instance)"
    if change.action is Action.FORGET:
        # The headline contains it.
        return ""
    address = change.address
    return _REASONS.get(change.reason, "").format(
        address=address,
        module=format_module(address.module),
        previous=change.previous_address or address,
        repetition=_REPETITIONS.get(type(address.key), "uses count or for_each"),
    )


def count_resource_changes(plan: Plan) -> tuple[int, int, int, int, int]:
    """Return the numbers of imports, adds, changes, destroys and forgets."""
    imports = sum(bool(change.importing) for change in plan.changes)
    return imports, plan.to_add, plan.to_change, plan.to_destroy, plan.count(Action.FORGET)


def format_plan_line(plan: Plan) -> str:
    """Return `Plan: 1 to add, 0 to change, 0 to destroy.`.

    Tools parse this line, so its format is fixed.
    """
    return f"Plan: {_join_resource_counts(count_resource_changes(plan))}"


def _join_resource_counts(counts: Iterable[int]) -> str:
    imports, add, change, destroy, forget = counts
    front = enclose("", imports, " to import, ")
    back = enclose(", ", forget, " to forget")
    return f"{front}{add} to add, {change} to change, {destroy} to destroy{back}."


def format_resource_counts(counts: Iterable[int]) -> str:
    """Return the numbers of imports, adds, changes, destroys and forgets for readers."""
    return _separate_thousands(_join_resource_counts(counts))


def _separate_thousands(text: str) -> str:
    return re.sub(r"[0-9]{4,}", lambda number: f"{int(number[0]):,}", text)


_NO_CHANGES: Final = {
    Mode.NORMAL: (
        "No changes. Your infrastructure matches the configuration.",
        (
            "nexusform has compared your infrastructure against your configuration and found no "
            "differences, so no changes are needed."
        ),
    ),
    Mode.REFRESH_ONLY: (
        "No changes. Your infrastructure still matches the configuration.",
        (
            "nexusform has checked that the objects still match the result of your most recent "
            "changes, and found no differences."
        ),
    ),
    Mode.DESTROY: (
        "No changes. No objects need to be destroyed.",
        (
            "Either you have not created any objects yet or the existing objects were already "
            "deleted outside of nexusform."
        ),
    ),
}
_NO_CHANGES_FROM_STATE: Final = (
    "The state matches the configuration; a hub or site was not read.",
    (
        "Changes made there are unknown (exit code 1 with -detailed-exitcode). Plan again with "
        "access to it."
    ),
)
_NO_CHANGES_WITHOUT_REFRESH: Final = (
    "No changes. The state matches the configuration.",
    (
        "nexusform has not read the infrastructure (-refresh=false): changes made outside of "
        "nexusform are unknown."
    ),
)
_WHAT_WAS_READ_MATCHES: Final = "No changes. What was read matches the configuration."
_MISSING_DATA: Final = (
    "The data read is incomplete (see the warnings); changes there are not detected."
)
_NO_CHANGES_OF_LISTED_SITE: Final = (
    "No changes. Azure lists differences that no apply changes.",
    "They are below. Everything else that was read matches the configuration.",
)
_NO_SELECTED_CHANGES: Final = {
    Mode.NORMAL: (
        "No changes. The selected resources match the configuration.",
        "nexusform has compared only the resources that -target and -exclude select.",
    ),
    Mode.REFRESH_ONLY: (
        "No changes. The selected resources still match the configuration.",
        "nexusform has checked only the resources that -target and -exclude select.",
    ),
    Mode.DESTROY: (
        "No changes. No selected object needs to be destroyed.",
        "-target and -exclude select no object that can be destroyed.",
    ),
}

_NOTHING_TO_PREDICT: Final = (
    "Nothing to predict. The plan contains no Azure Operator Nexus resources.",
    (
        "nexusform places clusters, agent pools and virtual machines of Microsoft.NetworkCloud, "
        "and ignores the rest."
    ),
)
_NOTHING_PREDICTED: Final = (
    "Nothing predicted. No change of Azure Operator Nexus resources could be read completely.",
    "Their effects on placement are unknown. The warnings name the changes and the reasons.",
)
_PENDING_CHANGE_IDS: Final = frozenset({"change-in-progress", "change-failed-before"})
_WAITING_CHANGE_IDS: Final = frozenset(
    {
        "incomplete-rollout",
        "rollout-to-unreachable-member",
        "stuck-staged-run",
        "staged-run-awaiting-approval",
    }
)
_NO_NEW_CHANGES: Final = (
    "No changes. Changes of an earlier apply still wait.",
    "The warnings name them and what they wait for. Nothing else needs to be changed.",
)
_UNFINISHED: Final = (
    "Nothing to record. An earlier apply is not finished yet.",
    (
        "nexusform has checked that the objects still match the result of your most recent "
        "changes, and found no differences. `nexusform plan` lists the remaining changes."
    ),
)


HYPOTHETICAL_PLAN: Final = "Hypothetical plan"


def format_plan_title(plan: Plan, title: str, headline: str) -> str:
    """Format a title and the headline of a plan; a hypothetical plan has a title of its own."""
    return f"{HYPOTHETICAL_PLAN if plan.assumptions else title}: {headline}"


def describe_assumptions(plan: Plan) -> str:
    """Return the first sentences of every report of a hypothetical plan; "" for another plan."""
    if not plan.assumptions:
        return ""
    assumptions = format_list(plan.assumptions)
    return f"{HYPOTHETICAL_PLAN}: it assumes {assumptions}. It cannot be saved or applied."


def describe_inventory(plan: Plan) -> str:
    """Return the age of the oldest inventory of a plan, as `describe_inventory_age`."""
    return describe_inventory_age(
        [read.exported_at for read in plan.observed.inventories], plan.start.timestamp
    )


def describe_inventory_age(export_times: Iterable[str], now: str) -> str:
    """Return the age of the oldest inventory: `8 h old`, or `of unknown age`.

    Return "" without an inventory.
    """
    ages = [_compute_age(time, now) for time in export_times]
    if not ages:
        return ""
    count_note = f" (the oldest of {len(ages):,})" if len(ages) > 1 else ""
    age_text = "of unknown age" if max(ages) == math.inf else f"{format_age(max(ages))} old"
    return f"{age_text}{count_note}"


def has_stale_inventory(plan: Plan) -> bool:
    """Return whether an inventory was too old when the plan was made."""
    return any(read.is_stale for read in plan.observed.inventories)


def _compute_age(taken_at: str, now: str) -> float:
    """Return the seconds between two times (0 for a slightly later first one).

    Return infinity if one of them is not a time, or the first one is in the future.
    """
    from nexusform.documents.times import is_in_future

    if is_in_future(taken_at, now):
        return math.inf
    try:
        seconds = (datetime.fromisoformat(now) - datetime.fromisoformat(taken_at)).total_seconds()
    except (ValueError, TypeError):
        # It may be the oldest.
        return math.inf
    return max(seconds, 0.0)


def format_age(seconds: float) -> str:
    """Format seconds as `25 min`, `8 h` or `3 days`."""
    minutes = int(seconds // 60)
    hours = int(seconds // 3600)
    days = int(seconds // 86400)
    if hours < 2:
        return f"{minutes} min"
    return f"{hours} h" if hours < 48 else f"{days:,} days"


def _describe_missing_data(plan: Plan) -> str:
    """Return sentences on missing data and unread facts, "" for a plan that read everything."""
    ledger = plan.ledger
    is_missing = ledger.lacks_capacity_data or ledger.lacks_objects or plan.has_unread_objects
    unread = enclose("Not read: ", ledger.describe(), ".")
    return join_texts((_MISSING_DATA if is_missing else "", unread), " ")


def has_waiting_changes(plan: Plan) -> bool:
    """Return whether changes of an earlier apply still wait, by the warnings about them."""
    ids = {diagnostic.id for diagnostic in plan.diagnostics}
    return plan.options.mode is not Mode.DESTROY and not ids.isdisjoint(_WAITING_CHANGE_IDS)


def describe_no_changes(plan: Plan) -> tuple[str, str]:
    """Return a headline and a sentence on the comparison, for a plan without changes.

    The headline is `No changes. ...`. The first matching reason decides: an unfinished earlier
    apply, nothing to predict, a plan from the state alone, changes that wait. Otherwise the mode
    and the selection (-target, -exclude) do. Missing data, an old inventory and `-refresh=false`
    change the texts.
    """
    ids = {diagnostic.id for diagnostic in plan.diagnostics}
    # Changes of an earlier apply are not finished.
    if ids & _PENDING_CHANGE_IDS:
        return _UNFINISHED
    if NOTHING_TO_PREDICT in ids:
        has_unpredicted_resources = count_unpredicted_resources(plan) > 0
        return _NOTHING_PREDICTED if has_unpredicted_resources else _NOTHING_TO_PREDICT
    if plan.is_from_state:
        return _NO_CHANGES_FROM_STATE
    if has_waiting_changes(plan):
        return _NO_NEW_CHANGES
    is_partial = bool(plan.options.targets or plan.options.excludes)
    texts_by_mode = _NO_SELECTED_CHANGES if is_partial else _NO_CHANGES
    headline, note = texts_by_mode[plan.options.mode]
    # The infrastructure was read, though perhaps not all of it.
    if "refresh-skipped" not in ids:
        notes = _describe_missing_data(plan)
        if plan.observed.listed and not is_partial:
            listed_headline, listed_note = _NO_CHANGES_OF_LISTED_SITE
            return listed_headline, join_texts((listed_note, notes), " ")
        if plan.options.mode is not Mode.DESTROY and has_stale_inventory(plan):
            age_note = (
                f"The inventory is {describe_inventory(plan)}: later changes of the infrastructure "
                "are unknown."
            )
            stale_headline = headline if is_partial and not notes else _WHAT_WAS_READ_MATCHES
            return stale_headline, join_texts((notes, age_note), " ")
        return (_WHAT_WAS_READ_MATCHES, notes) if notes else (headline, note)
    # Nothing was read: the usual headline of a complete plan, `Your infrastructure matches ...`,
    # would be wrong.
    headline_without_refresh, note_without_refresh = _NO_CHANGES_WITHOUT_REFRESH
    is_complete_plan = plan.options.mode is Mode.NORMAL and not is_partial
    return headline_without_refresh if is_complete_plan else headline, note_without_refresh


def describe_object_counts(plan: Plan) -> str:
    """Return the line with the counts of changed objects for readers, with thousands separators.

    An example is `Plan: 0 to add, 6,000 to change, ...`. Return the sentence for no changes of a
    plan without any.
    """
    if not plan.has_changes:
        sentence, _ = describe_no_changes(plan)
        return sentence
    return _separate_thousands(format_plan_line(plan))


ONLY_DRIFT: Final = (
    "Your configuration already applies the changes detected above, so applying this plan will "
    "only update the nexusform state to include them and won't change anything else."
)
ONLY_OUTPUTS: Final = (
    "You can apply this plan to save these new output values to the nexusform state, without "
    "changing any infrastructure."
)
ONLY_REFRESH: Final = (
    "This is a refresh-only plan, so nexusform will not take any actions to undo these. If you "
    "were expecting these changes then you can apply this plan to record the updated values in the "
    "nexusform state without changing anything else."
)
DRIFT_NOTE: Final = "Note: Objects have changed outside of nexusform"
DRIFT_DETAIL: Final = (
    "nexusform detected the following changes made outside of nexusform since the last apply"
)
DRIFT_RESPONSE: Final = (
    "Unless you have made equivalent changes to your configuration, or ignored the relevant "
    "attributes using ignore_changes, the following plan may include actions to undo or respond to "
    "these changes."
)
UNSAVED: Final = (
    "Note: You didn't use the -out option to save this plan, so nexusform can't guarantee to take "
    'exactly these actions if you run "nexusform {}" now.'
)


def format_prediction_accuracy(score: PredictionRecordScore) -> str:
    """Return the numbers of correct predictions, with the Brier score and the score by chance.

    0 is best.
    """
    text = f"{score.correct:,} of {format_count(score.verified, 'verified prediction')} correct"
    if score.certain:
        text += f", {score.certain_correct:,} of {score.certain:,} certain ones"
    wrong = score.verified - score.correct
    wrong_certain = score.certain - score.certain_correct
    uncertain_misses = wrong - wrong_certain
    if uncertain_misses:
        text += f"; {uncertain_misses:,} uncertain ones fell the other way"
    text += f"; Brier score {score.brier:.3f}, by chance {score.chance:.3f} (0 is best)"
    if score.skill is not None:
        text += f", skill {score.skill:.2f} (1 is best)"
    if score.has_lowered_shares:
        text += "; shares are lowered to the measured accuracy"
    return text


def describe_trigger(row: PlacementChange) -> str:
    """Return the trigger of a placement change as text: `scale_out`.

    A misleading name is replaced. For example, `cluster_removed` becomes "" for a forgotten VM,
    because it is not removed itself.
    """
    if row.trigger in _REASON_TRIGGERS:
        return row.reason
    if row.kind == VM and row.action is PlacementAction.MOVE and row.source is None:
        # Whatever the trigger.
        return "had no machine"
    if row.action is PlacementAction.FORGET and row.trigger in _REMOVAL_TRIGGERS:
        # The object itself stays.
        return ""
    is_new_binding = row.action is PlacementAction.PLACE and KINDS[row.kind].by_resource
    if is_new_binding:
        # A trigger about another cluster has a text with that cluster.
        return _OTHER_CLUSTER_TRIGGERS.get(row.trigger, row.trigger)
    return row.trigger


def format_uncertainty_mark(row: PlacementChange) -> str:
    """Return `uncertain` for a location with an assumption in the score `depends_on`.

    For a kept VM of a smaller pool, return the platform that may remove it instead. Return "" for
    a certain location.
    """
    if row.chosen_by:
        return f"{row.chosen_by} may remove it"
    return "uncertain" if row.doubt else ""


def describe_plan_origin(plan: Plan) -> str:
    """Return the place and time of a plan for its signer; "" without a record."""
    origin = plan.basis.origin
    if origin is None:
        return ""
    facts = (
        f"{origin.repository}, directory {origin.directory}",
        f"commit {origin.commit}",
        f"state {origin.location} ({origin.backend})",
        f"workspace {plan.options.workspace}",
        f"serial {plan.start.serial}",
        f"made at {plan.start.timestamp}",
        enclose("valid for ", format_duration(plan.basis.max_age) if plan.basis.max_age else ""),
    )
    return join_texts(facts)


def describe_plan_evaluation(plan: Plan) -> str:
    """Return facts about the evaluation: sandboxed or not, its files, servers and programs.

    Return "" without a record.
    """
    evaluation = plan.basis.evaluation
    if evaluation is None:
        return ""
    server_noun = select_word_form(len(evaluation.origins), "server")
    program_noun = select_word_form(len(evaluation.programs), "program")
    facts = (
        f"{format_count(len(evaluation.files), 'file')} read",
        enclose(
            "", sum(not file.in_root for file in evaluation.files), " outside of the work tree"
        ),
        enclose(f"{server_noun} ", format_list(evaluation.origins, _MAX_NAMES)),
        enclose(f"{program_noun} ", format_list(evaluation.programs, _MAX_NAMES)),
    )
    return f"{join_texts(facts)}; sandbox {'on' if evaluation.confined else 'off'}"


def _describe_arrival_assumption(plan: Plan) -> str:
    """Return the assumption on requests to platforms that place VMs in their own order, or ""."""
    tables = [table for table in plan.figures.placement_tables if table.placed and table.platform]
    if not tables:
        return ""
    platforms = " and ".join(sorted({table.platform for table in tables}))
    doubts = dict.fromkeys(table.doubt for table in tables if table.doubt)
    tried = (
        f"Not certain: {'; '.join(doubts)}."
        if doubts
        else "Exact machines are equal in every order of arrival, whether earlier VMs still build "
        "or have finished."
    )
    return (
        f" {tried} Assumed: {platforms} handles one request after another, and only those of this "
        "plan: no other tenants, live migrations, evacuations, disabled services or changed "
        "aggregates meanwhile. Existing networks request no bandwidth of hosts (QoS)."
    )


def describe_certainty(plan: Plan) -> str:
    """Return a sentence on the certainty of the predicted locations of all placed VMs.

    It has the number of VMs with the same rack count, and the same machine, in every sample.
    """
    if is_fully_decided(plan.figures.placement_tables):
        return "Tacker takes them from the grants of nexusform, if it asks for them."
    if not plan.figures.samples:
        return "Predicted. Confidence not computed: no samples."
    racks = sum(table.racks_certain for table in plan.figures.placement_tables)
    machines = sum(table.machines_certain for table in plan.figures.placement_tables)
    text = (
        f"Predicted. Confidence over {plan.figures.samples} samples: rack counts exact for "
        f"{racks:,} of {plan.placed_vms:,}, machines for {machines:,} of {plan.placed_vms:,}, "
        "if the placement rule holds."
    )
    text += _describe_arrival_assumption(plan)
    if plan.figures.numa_sampling is None:
        return text
    from nexusform.rendering.notation.sample_text import describe_numa_samples

    return f"{text} NUMA cells: {describe_numa_samples(plan.figures.numa_sampling)}"
