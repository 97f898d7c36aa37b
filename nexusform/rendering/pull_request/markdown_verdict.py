"""The first lines of a comment: may the plan be applied, and what does it do to what runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from nexusform.placement_kinds.kinds import VM
from nexusform.plans.impact.effects import (
    DISMISSED,
    LEAVING,
    Effect,
    effect_clauses,
    effect_of,
    is_told,
    number_of,
    state_of,
    told_pools,
    verb_of,
)
from nexusform.plans.plan import PlacementChange, Plan, Upgrade
from nexusform.rendering.pull_request.markdown_parts import code, commit_text, plain
from nexusform.rendering.report import wording
from nexusform.rendering.report.code_origin import CodeOrigin
from nexusform.rendering.report.overview import Overview, destroyed_clause
from nexusform.rendering.report.report import Report
from nexusform.rendering.report.stakes import lost_clauses
from nexusform.rendering.report.upgrade_words import is_stuck, upgrade_clause, upgrade_heading, upgrade_text
from nexusform.scheduling.racks.vms import Placement
from nexusform.words import counted, form, listed, natural

_LONGEST_LINE: Final = 700
_NAMED: Final = 4


def title_line(overview: Overview) -> str:
    """The heading of the comment."""
    return f"### nexusform: {plain(overview.headline)}"


def alert(plan: Plan, report: Report, overview: Overview) -> list[str]:
    """GitHub's box with the verdict: by what is at stake."""
    if overview.denied:
        lines = [f"**Denied** by {plain(overview.denied)}."]
        if report.errored:
            lines.append("Nothing is changed.")
        else:
            lines += [*map(plain, overview.breaches), f"If it were applied: {_sentences(plan, report)}"]
        return _boxed("CAUTION", [*lines, *_age_line(overview)])
    lines = [f"**Allowed.** {_sentences(plan, report)}".replace("** **", " ", 1)]
    lines += [f"**{plain(text)}.**" for text in (*overview.ending_rules, *overview.endangered[:_NAMED])]
    if overview.reasons:
        reasons = "; ".join(overview.reasons)
        lines.append(f"{plain(reasons[0].upper() + reasons[1:])}.")
    if overview.warned:
        lines.append(f"**Mind:** {plain(overview.warned)}.")
    lines += _age_line(overview)
    return _boxed(overview.stake.value.upper(), lines)


def _boxed(kind: str, lines: Iterable[str]) -> list[str]:
    """GitHub's box around lines."""
    return [f"> [!{kind}]", *(f"> {_clipped(line)}" for line in lines)]


def _clipped(line: str) -> str:
    """A line, cut where nobody would read it to its end."""
    return line if len(line) <= _LONGEST_LINE else f"{line[: _LONGEST_LINE - 3]}..."


def _age_line(overview: Overview) -> list[str]:
    """The age of the inventory, where it is too old to be passed over."""
    return [f"**The inventory is {plain(overview.inventory)}.**"] if overview.inventory_is_old else []


# --- what happens to what runs -----------------------------------------------------------------


def _sentences(plan: Plan, report: Report) -> str:
    """What moves, goes, comes and stays, a sentence each; what leaves its place stands out."""
    counts = report.summaries[0].effects
    destroyed = plan.to_destroy
    leaving = [*_upgraded(plan), *_elsewhere(plan), *_in_place(plan)]
    beside_moves = [
        effect_count
        for effect_count in counts
        if effect_count.kind != VM or effect_count.effect in (*DISMISSED, Effect.LOST)
    ]
    clauses = [*effect_clauses(beside_moves, LEAVING), *lost_clauses(plan)]
    leaving += [f"**{clause}.**" for clause in clauses]
    if destroyed:
        leaving.append(f"**{destroyed_clause(plan)}.**")
    waiting = [f"**{clause}.**" for clause in effect_clauses(counts, [Effect.WAITING])]
    coming = [f"{clause}." for clause in effect_clauses(counts, [Effect.PLACED])]
    staying = _others_sentence(report)
    sentences = [*(leaving or ["**Nothing moves.**"]), *waiting, *coming, staying]
    return " ".join(sentence for sentence in sentences if sentence).replace(".** **", ". ")


def _moved_vms(plan: Plan, effect: Effect) -> list[PlacementChange]:
    """The rows of VMs to which this happens, but for those that `upgrades` tell."""
    told = told_pools(plan)
    return [
        row
        for row in plan.placements
        if row.kind == VM and effect_of(row) is effect and not (told and is_told(row, told))
    ]


def _upgraded(plan: Plan) -> list[str]:
    """Which clusters are upgraded, and how that goes."""
    return [f"**{plain(_clause(upgrade))}** {plain(upgrade_text(upgrade))}" for upgrade in plan.upgrades]


def _clause(upgrade: Upgrade) -> str:
    """How the line of an upgrade begins; its versions follow, and what stops it."""
    if is_stuck(upgrade):
        return f"{upgrade_heading(upgrade)}:"
    return f"{upgrade.cluster} is upgraded:" if upgrade.rolls else f"{upgrade_clause(upgrade)}:"


def _elsewhere(plan: Plan) -> list[str]:
    """Which VMs leave what, why, and where they come to."""
    moves = _moved_vms(plan, Effect.MOVED)
    if not moves:
        return []
    sources = [row.source for row in moves if isinstance(row.source, Placement)]
    machines = {source.machine for source in sources}
    racks = {source.rack for source in sources}
    left = machines if len(machines) <= _NAMED else racks
    leave = f"{counted(len(moves), 'VM')} {form(len(moves), 'leaves', 'leave')}"
    names = listed([plain(name) for name in sorted(left, key=natural)], _NAMED)
    again = f"{form(len(moves), 'is', 'are')} re-created {_where_to(moves)}"
    return [f"**{leave} {names}**{_why(moves)} and {again}."]


def _in_place(plan: Plan) -> list[str]:
    """Which VMs are made anew and come back to their machine, or are foretold to."""
    of_states: dict[str, list[PlacementChange]] = {}
    for row in _moved_vms(plan, Effect.AGAIN):
        of_states.setdefault(state_of(row), []).append(row)
    return [
        f"**{counted(len(moves), 'VM')} {verb_of(Effect.AGAIN, state, len(moves))}**{_why(moves)}."
        for state, moves in of_states.items()
    ]


def _why(moves: Sequence[PlacementChange]) -> str:
    """The triggers of moves, in brackets."""
    triggers = ", ".join(dict.fromkeys(plain(row.trigger) for row in moves if row.trigger))
    return f" ({triggers})" if triggers else ""


def _where_to(moves: Sequence[PlacementChange]) -> str:
    """Where moved VMs come to, in as few words as are true of all of them."""
    pairs = [(row.source, row.target) for row in moves]
    changes = {
        (source.rack, target.rack)
        for source, target in pairs
        if isinstance(source, Placement) and isinstance(target, Placement)
    }
    if any(source != target for source, target in changes):
        return f"on {form(len(moves), 'another machine', 'other machines')}"
    racks = {source for source, _ in changes}
    return f"inside {plain(racks.pop())}" if len(racks) == 1 else "inside the same racks"


def _others_sentence(report: Report) -> str:
    """`14 VMs and 10 pods stay where they are.`, or "" where nothing stays."""
    counts = report.summaries[0].effects
    where = form(number_of(counts, Effect.KEPT), "it is", "they are")
    return "".join(f"{clause} where {where}." for clause in effect_clauses(counts, [Effect.KEPT]))


# --- last line ---------------------------------------------------------------------------------


def last_line(report: Report, overview: Overview, origin: CodeOrigin) -> str:
    """`Plan: ...` and what it was made of: commit and inventory."""
    told = wording.for_people(report.verdict)
    verdict = code(told) if report.has_changes else told
    inventory = f"inventory {plain(overview.inventory)}" if overview.inventory else ""
    return " · ".join(text for text in (verdict, commit_text(origin), inventory) if text)
