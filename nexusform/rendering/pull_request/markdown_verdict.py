"""The first lines of a comment: may the plan be applied, and what does it do to what runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from nexusform.planning.plan import PlacementAction, PlacementChange, Plan
from nexusform.rendering.pull_request.markdown_parts import CodeOrigin, code, commit_text, plain
from nexusform.rendering.report.entries import Entries
from nexusform.rendering.report.overview import Overview
from nexusform.rendering.report.report import Report
from nexusform.scheduling.racks.vms import Placement
from nexusform.words import counted, form, listed, natural

_LONGEST_LINE: Final = 700
_NAMED: Final = 4


def title_line(plan: Plan, overview: Overview) -> str:
    """The heading of the comment."""
    moved = len(_moved_vms(plan))
    if overview.denied or not moved:
        return f"### nexusform: {overview.headline}"
    machines = form(moved, "another machine", "other machines")
    return f"### nexusform: {counted(moved, 'VM')} {form(moved, 'is', 'are')} re-created on {machines}"


def alert(plan: Plan, report: Report, overview: Overview, entries: Entries) -> list[str]:
    """GitHub's box with the verdict: CAUTION when refused, WARNING where a look is needed, else NOTE."""
    if overview.denied:
        lines = [f"**Denied** by {plain(overview.denied)}."]
        return _boxed("CAUTION", [*lines, *_age_line(overview)])
    lines = [_sentences(plan, report)]
    if overview.reasons:
        reasons = "; ".join(overview.reasons)
        lines.append(f"{plain(reasons[0].upper() + reasons[1:])}.")
    lines += _age_line(overview)
    return _boxed("WARNING" if _needs_a_look(plan, overview, entries) else "NOTE", lines)


def _boxed(kind: str, lines: Iterable[str]) -> list[str]:
    return [f"> [!{kind}]", *(f"> {_clipped(line)}" for line in lines)]


def _clipped(line: str) -> str:
    return line if len(line) <= _LONGEST_LINE else f"{line[: _LONGEST_LINE - 3]}..."


def _needs_a_look(plan: Plan, overview: Overview, entries: Entries) -> bool:
    """Whether somebody should read on although the plan is allowed."""
    leaving = {PlacementAction.MOVE, PlacementAction.REMOVE}
    return (
        any(row.action in leaving for row in plan.placements)
        or plan.to_destroy > 0
        or overview.inventory_is_old
        or any(entry.fails for entry in entries.caused)
        or any(verdict.holds != "always" for verdict in plan.separation_rules)
        or any(check.status in ("fail", "error") for check in plan.checks)
    )


def _age_line(overview: Overview) -> list[str]:
    """The age of the inventory, where it is too old to be passed over."""
    return [f"**The inventory is {plain(overview.inventory)}.**"] if overview.inventory_is_old else []


# --- what happens to what runs -----------------------------------------------------------------


def _sentences(plan: Plan, report: Report) -> str:
    """What moves, comes, goes and stays, a sentence each."""
    destroyed = plan.to_destroy
    sentences = [_moves_sentence(plan), *_placed_sentences(plan), _others_sentence(report)]
    if destroyed:
        verb = form(destroyed, "is", "are")
        sentences.append(f"**{counted(destroyed, 'object')} {verb} destroyed or replaced.**")
    return " ".join(sentence for sentence in sentences if sentence)


def _moved_vms(plan: Plan) -> list[PlacementChange]:
    return [row for row in plan.placements if row.kind == "vm" and row.action is PlacementAction.MOVE]


def _moves_sentence(plan: Plan) -> str:
    """The sentence of an allowed plan: which VMs leave what, why, and where they come to."""
    moves = _moved_vms(plan)
    others = sum(row.action is PlacementAction.MOVE for row in plan.placements) - len(moves)
    if not moves:
        if others:
            return f"**Allowed. {counted(others, 'placement')} {form(others, 'moves', 'move')}.**"
        return "**Allowed. Nothing moves.**"
    machines = {row.source.machine for row in moves if isinstance(row.source, Placement)}
    leave = f"{counted(len(moves), 'VM')} {form(len(moves), 'leaves', 'leave')}"
    names = listed([plain(machine) for machine in sorted(machines, key=natural)], _NAMED)
    why = ", ".join(dict.fromkeys(plain(row.trigger) for row in moves if row.trigger))
    again = f"{form(len(moves), 'is', 'are')} re-created {_where_to(moves)}"
    return f"**Allowed. {leave} {names}**{f' ({why})' if why else ''} and {again}."


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


_NOUNS: Final = {"vm": ("VM", "VMs"), "binding": ("fleet binding", "fleet bindings"), "pod": ("pod", "pods")}
_VERBS: Final = (
    (PlacementAction.PLACE, "is placed", "are placed"),
    (PlacementAction.REMOVE, "is removed", "are removed"),
)


def _placed_sentences(plan: Plan) -> list[str]:
    """What comes and what goes, by kind: `53 VMs and 4 pods are placed`."""
    sentences: list[str] = []
    for action, is_done, are_done in _VERBS:
        counts = []
        total = 0
        for kind, nouns in _NOUNS.items():
            number = sum(row.kind == kind and row.action is action for row in plan.placements)
            total += number
            if number:
                counts.append(counted(number, *nouns))
        if counts:
            sentences.append(f"{listed(counts)} {form(total, is_done, are_done)}.")
    return sentences


def _others_sentence(report: Report) -> str:
    kept = report.summaries[0].keep
    if not kept:
        return ""
    only_vms = len(report.summaries) == 1
    who = counted(kept, "VM") if only_vms else counted(kept, "placement")
    return f"{who} {form(kept, 'stays', 'stay')} where {form(kept, 'it is', 'they are')}."


# --- last line ---------------------------------------------------------------------------------


def last_line(report: Report, overview: Overview, origin: CodeOrigin) -> str:
    """`Plan: ...` and what it was made of: commit and inventory."""
    verdict = code(report.verdict) if report.has_changes else report.verdict
    inventory = f"inventory {plain(overview.inventory)}" if overview.inventory else ""
    return " · ".join(text for text in (verdict, commit_text(origin), inventory) if text)
