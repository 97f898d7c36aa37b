"""The sentences of a plan, in one place: headlines, reasons, verdicts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from nexusform.address import module_text
from nexusform.forecasts import Score
from nexusform.placement_kinds.kinds import KINDS, brief_place
from nexusform.plans.impact.effects import Effect, effect_of, state_of
from nexusform.plans.plan import Action, Change, Mode, PlacementAction, PlacementChange, Plan
from nexusform.words import counted

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

REPLACES: Final = (Action.REPLACE, Action.REPLACE_CREATE_FIRST)

_HEADLINES: Final = {
    Action.CREATE: "will be created",
    Action.READ: "will be read during apply",
    Action.UPDATE: "will be updated in-place",
    Action.DELETE: "will be destroyed",
    Action.FORGET: "will be removed from the nexusform state but will not be destroyed",
}

_REPLACE_HEADLINES: Final = {
    "replace_because_tainted": "is tainted, so it must be replaced",
    "replace_by_request": "will be replaced, as requested",
    "replace_by_triggers": "will be replaced due to changes in replace_triggered_by",
    "replace_with_its_place": "will be replaced with what holds it",
}

_REASONS: Final = {
    "delete_because_enabled_false": "(because enabled is false)",
    "read_because_config_unknown": "(config refers to values not yet known)",
    "read_because_dependency_pending": "(depends on a resource or a module with changes pending)",
    "read_because_check_nested": "(config will be reloaded to verify a check block)",
}


def headline(change: Change) -> str:
    """What happens to the object, after its address: `will be created`."""
    if change.action in REPLACES:
        return _REPLACE_HEADLINES.get(change.reason, "must be replaced")
    if change.action is Action.NO_OP:
        if change.importing:
            return "will be imported"
        if change.previous_address is not None:
            return f"has moved to {change.address}"
        return "is unchanged"
    return _HEADLINES[change.action]


def headline_address(change: Change) -> str:
    """The address in front of the headline; a mere move starts with the old one."""
    if change.action is Action.NO_OP and change.previous_address is not None and not change.importing:
        return str(change.previous_address)
    deposed = f" (deposed object {change.deposed})" if change.deposed else ""
    return f"{change.address}{deposed}"


def comments(change: Change) -> tuple[str, ...]:
    """The further comment lines: why, moved from where, imported from what."""
    lines = [_reason(change)]
    move_is_said = change.action is Action.NO_OP or change.reason == "delete_because_no_move_target"
    if change.previous_address is not None and not move_is_said:
        lines.append(f"(moved from {change.previous_address})")
    if change.importing and change.action is not Action.NO_OP:
        lines.append(f'(imported from "{change.importing}")')
    return tuple(line for line in lines if line)


def _reason(change: Change) -> str:
    """Why the plan does it, in brackets; "" where nothing is to be said."""
    address = change.address
    if change.deposed:
        return "(left over from a partially-failed replacement of this instance)"
    if change.action is Action.FORGET:
        return ""  # its headline says it
    match change.reason:
        case "delete_because_no_resource_config":
            return f"(because {address.config} is not in configuration)"
        case "delete_because_no_module":
            return f"(because {module_text(address.module)} is not in configuration)"
        case "delete_because_count_index":
            return f"(because index [{address.key}] is out of range for count)"
        case "delete_because_each_key":
            return f'(because key ["{address.key}"] is not in for_each map)'
        case "delete_because_wrong_repetition":
            return _wrong_repetition(address.key)
        case "delete_because_no_move_target":
            old = change.previous_address or address
            return f"(because {old} was moved to {address}, which is not in configuration)"
        case reason:
            return _REASONS.get(reason, "")


def _wrong_repetition(key: int | str | None) -> str:
    """Why an instance with this key has no place in its block."""
    if isinstance(key, int):
        return "(because resource does not use count)"
    if isinstance(key, str):
        return "(because resource does not use for_each)"
    return "(because resource uses count or for_each)"


def plan_counts(plan: Plan) -> tuple[int, int, int, int, int]:
    """Imports, adds, changes, destroys, forgets."""
    imports = sum(1 for change in plan.changes if change.importing)
    return imports, plan.to_add, plan.to_change, plan.to_destroy, plan.count(Action.FORGET)


def plan_line(plan: Plan) -> str:
    """`Plan: 1 to add, 0 to change, 0 to destroy.`; tools read it, so not a letter more."""
    imports, add, change, destroy, forget = plan_counts(plan)
    front = f"{imports} to import, " if imports else ""
    back = f", {forget} to forget" if forget else ""
    return f"Plan: {front}{add} to add, {change} to change, {destroy} to destroy{back}."


_LONG_NUMBER: Final = re.compile(r"[0-9]{4,}")


def for_people(line: str) -> str:
    """A line of counts as it stands where no tool reads it: `Plan: 0 to add, 6,000 to change`."""
    return _LONG_NUMBER.sub(lambda number: f"{int(number[0]):,}", line)


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
            "nexusform has checked that the objects still match the result of your most recent changes, "
            "and found no differences."
        ),
    ),
    Mode.DESTROY: (
        "No changes. No objects need to be destroyed.",
        (
            "Either you have not created any objects yet or the existing objects were already deleted "
            "outside of nexusform."
        ),
    ),
}
_NOTHING_SELECTED: Final = {
    Mode.NORMAL: (
        "No changes. What is selected matches the configuration.",
        "nexusform has compared what -target and -exclude leave in, and nothing else.",
    ),
    Mode.REFRESH_ONLY: (
        "No changes. What is selected still matches the configuration.",
        "nexusform has checked what -target and -exclude leave in, and nothing else.",
    ),
    Mode.DESTROY: (
        "No changes. Nothing that is selected needs to be destroyed.",
        "-target and -exclude leave out all that the state holds, or what it needs: it stays as it is.",
    ),
}


_OF_WHAT_IS_DUE: Final = frozenset({"change-goes-on", "change-failed-before"})
_NOT_DONE: Final = (
    "Nothing to record. What an earlier apply began is not done yet.",
    (
        "nexusform has checked that the objects still match the result of your most recent changes, and "
        "found no differences. `nexusform plan` says what is due."
    ),
)


def no_changes(plan: Plan) -> tuple[str, str]:
    """The sentence for a plan that does nothing, and what was looked at."""
    if any(said.id in _OF_WHAT_IS_DUE for said in plan.diagnostics):
        return _NOT_DONE
    words = _NOTHING_SELECTED if plan.targets or plan.excludes else _NO_CHANGES
    return words[plan.mode]


ONLY_DRIFT: Final = (
    "Your configuration already applies the changes detected above, so applying this plan will only "
    "update the nexusform state to include them and won't change anything else."
)
ONLY_OUTPUTS: Final = (
    "You can apply this plan to save these new output values to the nexusform state, without changing "
    "any infrastructure."
)
ONLY_REFRESH: Final = (
    "This is a refresh-only plan, so nexusform will not take any actions to undo these. If you were "
    "expecting these changes then you can apply this plan to record the updated values in the nexusform "
    "state without changing anything else."
)
DRIFT_NOTE: Final = "Note: Objects have changed outside of nexusform"
DRIFT_DETAIL: Final = (
    "nexusform detected the following changes made outside of nexusform since the last apply"
)
DRIFT_RESPONSE: Final = (
    "Unless you have made equivalent changes to your configuration, or ignored the relevant attributes "
    "using ignore_changes, the following plan may include actions to undo or respond to these changes."
)
UNSAVED: Final = (
    "Note: You didn't use the -out option to save this plan, so nexusform can't guarantee to take exactly "
    'these actions if you run "nexusform {}" now.'
)


def claims_text(claims: Score) -> str:
    """As `40 of 52 settled claims held, 8 of the 8 that were sure; Brier score 0.120, by chance 0.310 (0 is
    best)`.
    """
    held = f"{claims.held:,} of {counted(claims.settled, 'settled claim')} held"
    held += f", {claims.sure_held:,} of the {claims.sure:,} that were sure" if claims.sure else ""
    lowered = "; shares are stated as low as they held" if claims.lowered else ""
    return f"{held}; Brier score {claims.brier:.3f}, by chance {claims.chance:.3f} (0 is best){lowered}"


# --- triggers ---------------------------------------------------------------------------------

# A trigger is about a cluster, and the row may be about another.
_OF_ANOTHER: Final[Mapping[str, str]] = {
    "cluster_left": "another cluster left",
}
# What happened tells more than what it is called: `moved on the hub: par1 -> lon1`.
# What is forgotten is not removed.
_OF_WHAT_GOES: Final = frozenset(
    {"cluster_removed", "placement_removed", "workload_removed", "binding_removed"}
)
_TOLD_BY_REASON: Final = frozenset({"moved_on_the_hub"})


def trigger_words(row: PlacementChange) -> str:
    """Why something happens to the object of a row: its trigger, where that does not mislead."""
    if row.trigger in _TOLD_BY_REASON:
        return row.reason
    if row.action is PlacementAction.FORGET and row.trigger in _OF_WHAT_GOES:
        return ""
    comes = row.action is PlacementAction.PLACE and KINDS[row.kind].by_resource
    return _OF_ANOTHER.get(row.trigger, row.trigger) if comes else row.trigger


class VmJourney(Struct, frozen=True):
    """One VM that comes or moves: the machine that it leaves ("" = none) and where it goes.

    `machine_share` is the share of the tie-breaks in which it is this machine, None when none was repeated.
    One that is re-created in its place leaves none; `in_place` says so, and whether that is only foretold.
    """

    vm: str
    origin: str
    target: str
    trigger: str
    machine_share: float | None
    in_place: str = ""


def vm_journeys(rows: Iterable[PlacementChange], tie_breaks: int) -> list[VmJourney]:
    """The VMs of rows, in their order; `tie_breaks` is how many repetitions their certainty stands on."""
    return [_journey(row, tie_breaks) for row in rows]


def _journey(row: PlacementChange, tie_breaks: int) -> VmJourney:
    """From where to where one VM goes, in words."""
    certainty = row.certainty if tie_breaks else None
    effect = effect_of(row)
    return VmJourney(
        vm=row.object,
        origin=brief_place(row.source) if effect is Effect.MOVED and row.source is not None else "",
        target=brief_place(row.target) if row.target is not None else "",
        trigger=row.trigger,
        machine_share=certainty.machine if certainty is not None else None,
        in_place=f"{state_of(row)} in place".lstrip() if effect is Effect.AGAIN else "",
    )
