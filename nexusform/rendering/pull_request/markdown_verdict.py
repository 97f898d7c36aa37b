"""First lines of a comment: whether the plan can be applied, and its effects on running objects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from nexusform.diagnostics.phrases import compute_natural_key, format_count, format_list, select_form
from nexusform.placement_kinds.kinds import VM
from nexusform.plans.impact.effects import (
    LOSS_EFFECTS,
    REMOVAL_EFFECTS,
    Effect,
    compute_effect,
    describe_state,
    format_effect_clauses,
    format_verb,
    is_upgrade_row,
    list_upgrade_pools,
)
from nexusform.plans.plan import PlacementChange, Plan, Upgrade
from nexusform.rendering.pull_request.markdown_parts import escape_plain_text, format_code, format_commit
from nexusform.rendering.report import wording
from nexusform.rendering.report.availability_losses import describe_lost_vms
from nexusform.rendering.report.code_origin import CodeOrigin
from nexusform.rendering.report.overview import Overview, describe_destroyed
from nexusform.rendering.report.plan_report import Report
from nexusform.rendering.report.upgrade_sentences import (
    describe_upgrade,
    describe_upgrade_course,
    format_upgrade_heading,
    is_blocked,
)
from nexusform.scheduling.racks.vms import Placement

_MAX_LINE_LENGTH: Final = 700
_MAX_NAMES: Final = 4


def render_title(overview: Overview) -> str:
    """Render the heading of the comment."""
    return f"### nexusform: {escape_plain_text(overview.headline)}"


def render_alert(plan: Plan, report: Report, overview: Overview) -> list[str]:
    """Render GitHub's alert box with the verdict; its kind is the impact."""
    if overview.rejection:
        lines = [
            f"**Blocked** by {escape_plain_text(overview.rejection)}.",
            *map(escape_plain_text, overview.guard_rail_violations),
            f"If applied: {_build_sentences(plan, report)}",
        ]
        if report.is_errored:
            lines = ["**Plan failed.** No changes were made."]
        return _render_box("CAUTION", [*lines, *_render_inventory_age(overview)])
    lines = [_build_sentences(plan, report)]
    lines += [
        f"**{escape_plain_text(text)}.**"
        for text in (*overview.weakened_rules, *overview.availability_losses[:_MAX_NAMES])
    ]
    if overview.checks:
        reasons = "; ".join(overview.checks)
        lines.append(f"{escape_plain_text(reasons[0].upper() + reasons[1:])}.")
    if overview.first_warning:
        lines.append(f"**Warning:** {escape_plain_text(overview.first_warning)}.")
    lines += _render_inventory_age(overview)
    return _render_box(overview.impact.value.upper(), lines)


def _render_box(kind: str, lines: Iterable[str]) -> list[str]:
    """Render GitHub's alert box around lines."""
    return [f"> [!{kind}]", *(f"> {_truncate_line(line)}" for line in lines)]


def _truncate_line(line: str) -> str:
    """Truncate a very long line."""
    return line if len(line) <= _MAX_LINE_LENGTH else f"{line[: _MAX_LINE_LENGTH - 3]}..."


def _render_inventory_age(overview: Overview) -> list[str]:
    """Render the age of a stale inventory."""
    return [f"**The inventory is {escape_plain_text(overview.inventory)}.**"] if overview.has_stale_inventory else []


# --- effects on running objects ----------------------------------------------------------------


def _build_sentences(plan: Plan, report: Report) -> str:
    """Build a sentence each for disruptions, waiting, new and kept objects; disruptions are highlighted."""
    counts = report.summaries[0].effects
    destroy_count = plan.to_destroy
    disruptions = [*_describe_upgrades(plan), *_describe_moves(plan), *_describe_recreations(plan)]
    other_counts = [
        effect_count
        for effect_count in counts
        if effect_count.kind != VM or effect_count.effect in (*REMOVAL_EFFECTS, Effect.LOST)
    ]
    clauses = [*format_effect_clauses(other_counts, LOSS_EFFECTS), *describe_lost_vms(plan)]
    disruptions += [f"**{clause}.**" for clause in clauses]
    if destroy_count:
        disruptions.append(f"**{describe_destroyed(plan)}.**")
    waiting = [f"**{clause}.**" for clause in format_effect_clauses(counts, [Effect.WAITING])]
    placed = [f"{clause}." for clause in format_effect_clauses(counts, [Effect.PLACED])]
    kept = [f"{clause}." for clause in format_effect_clauses(counts, [Effect.UNCHANGED])]
    sentences = [*(disruptions or ["**Nothing moves.**"]), *waiting, *placed, *kept]
    return " ".join(sentences).replace(".** **", ". ")


def _select_vms(plan: Plan, effect: Effect) -> list[PlacementChange]:
    """Return the VM rows with this effect, without those covered by `upgrades`."""
    upgrade_pools = list_upgrade_pools(plan)
    return [
        row
        for row in plan.placements
        if row.kind == VM
        and compute_effect(row) is effect
        and not (upgrade_pools and is_upgrade_row(row, upgrade_pools))
    ]


def _describe_upgrades(plan: Plan) -> list[str]:
    """Describe the upgraded clusters."""
    return [
        f"**{escape_plain_text(_format_upgrade_start(upgrade))}** {escape_plain_text(describe_upgrade_course(upgrade))}"
        for upgrade in plan.upgrades
    ]


def _format_upgrade_start(upgrade: Upgrade) -> str:
    """Return the start of the line of an upgrade, before its versions and obstacles."""
    if is_blocked(upgrade):
        return f"{format_upgrade_heading(upgrade)}:"
    return f"{upgrade.cluster} is upgraded:" if upgrade.is_rolling else f"{describe_upgrade(upgrade)}:"


def _describe_moves(plan: Plan) -> list[str]:
    """Describe the moved VMs: sources, triggers and targets."""
    moves = _select_vms(plan, Effect.MOVED)
    if not moves:
        return []
    sources = [row.source for row in moves if isinstance(row.source, Placement)]
    machines = {source.machine for source in sources}
    racks = {source.rack for source in sources}
    source_names = machines if len(machines) <= _MAX_NAMES else racks
    subject = f"{format_count(len(moves), 'VM')} to move from"
    names = format_list([escape_plain_text(name) for name in sorted(source_names, key=compute_natural_key)], _MAX_NAMES)
    return [f"**{subject} {names}**{_format_triggers(moves)}, re-created {_describe_targets(moves)}."]


def _describe_recreations(plan: Plan) -> list[str]:
    """Describe the VMs re-created in place, or predicted to be."""
    moves_by_state: dict[str, list[PlacementChange]] = {}
    for row in _select_vms(plan, Effect.RECREATED):
        moves_by_state.setdefault(describe_state(row), []).append(row)
    return [
        f"**{format_count(len(moves), 'VM')} "
        f"{format_verb(Effect.RECREATED, state, len(moves))}**{_format_triggers(moves)}."
        for state, moves in moves_by_state.items()
    ]


def _format_triggers(moves: Sequence[PlacementChange]) -> str:
    """Format the triggers of moves in brackets."""
    triggers = ", ".join(dict.fromkeys(escape_plain_text(row.trigger) for row in moves if row.trigger))
    return f" ({triggers})" if triggers else ""


def _describe_targets(moves: Sequence[PlacementChange]) -> str:
    """Return a short description valid for the targets of all moved VMs."""
    pairs = [(row.source, row.target) for row in moves]
    changes = {
        (source.rack, target.rack)
        for source, target in pairs
        if isinstance(source, Placement) and isinstance(target, Placement)
    }
    if any(source != target for source, target in changes):
        return f"on {select_form(len(moves), 'another machine', 'other machines')}"
    racks = {source for source, _ in changes}
    return f"in {escape_plain_text(racks.pop())}" if len(racks) == 1 else "in the same racks"


# --- last line ---------------------------------------------------------------------------------


def render_last_line(report: Report, overview: Overview, origin: CodeOrigin) -> str:
    """Render `Plan: ...` with commit and inventory."""
    plan_line = wording.format_thousands(report.verdict)
    verdict = format_code(plan_line) if report.has_changes else plan_line
    inventory = f"inventory {escape_plain_text(overview.inventory)}" if overview.inventory else ""
    return " · ".join(text for text in (verdict, format_commit(origin), inventory) if text)
