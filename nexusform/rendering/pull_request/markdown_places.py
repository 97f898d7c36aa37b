"""Where things go, in a comment: moves from place to place and the changes that cause them, new VMs,
clusters picked and dropped, pods, and the room that is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

from nexusform.placement_kinds.kinds import KINDS, VM, PlacementKind, titled
from nexusform.plans.impact.effects import Effect, effect_of, is_told, told_pools
from nexusform.plans.plan import (
    Action,
    Change,
    PlacementAction,
    PlacementChange,
    PlacementTable,
    Plan,
)
from nexusform.rendering.pull_request.markdown_parts import code, place_of, plain, table
from nexusform.rendering.report.code_origin import CodeOrigin
from nexusform.rendering.report.folding import instances_text, names_text, range_text
from nexusform.rendering.report.overview import Overview
from nexusform.rendering.report.placement_rows import (
    PlacementGroup,
    PlacementLine,
    either_text,
    line_verb,
    parting,
)
from nexusform.rendering.report.plain_words import sure_of
from nexusform.rendering.report.report import Report
from nexusform.rendering.report.rollout_rows import HEADS
from nexusform.rendering.report.room_table import RoomRow
from nexusform.rendering.report.wording import VmJourney, trigger_words, vm_journeys
from nexusform.scheduling.decision import Place
from nexusform.scheduling.racks.vms import Placement
from nexusform.words import counted, first_of, form, listed, natural

_MOST_ROWS: Final = 15
_FEW: Final = 12  # that many new VMs are listed one by one
_NAMED: Final = 10
_CAUSES: Final = 5
_NEW: Final = "new"  # the trigger that needs no word in a table of new VMs


# --- VMs one by one ----------------------------------------------------------------------------


def vm_rows(plan: Plan) -> list[str]:
    """The VMs that move, and new ones where they are few: `VM | leaves → goes to`; by pool
    where that would be many rows.
    """
    rows = _listed_vms(plan)
    return _vm_table(rows, plan, shares=False) if len(rows) <= _MOST_ROWS else _pool_table(rows)


def every_vm(plan: Plan) -> list[str]:
    """The VMs one by one, with how sure each machine is: `vm_rows` does not say all of that."""
    rows = [row for row in plan.placements if row.kind == VM and row.action is PlacementAction.MOVE]
    rows = rows if plan.upgrades else _listed_vms(plan)
    is_wanted = len(rows) > _MOST_ROWS or plan.upgrades or plan.tie_breaks
    return _vm_table(rows, plan, shares=True) if is_wanted else []


def _listed_vms(plan: Plan) -> list[PlacementChange]:
    vms = [row for row in plan.placements if row.kind == VM]
    told = told_pools(plan)
    moves = [row for row in vms if row.action is PlacementAction.MOVE and not (told and is_told(row, told))]
    new = [row for row in vms if row.action is PlacementAction.PLACE]
    return [*moves, *(new if len(new) <= _FEW else ())]


def _vm_table(rows: Sequence[PlacementChange], plan: Plan, *, shares: bool) -> list[str]:
    """A table of VMs that move or come; none without any. `shares`: in how many of the tie-breaks it is this
    machine.
    """
    journeys = vm_journeys(rows, plan.tie_breaks)
    if not journeys:
        return []
    heads = ["VM", "leaves → goes to" if any(journey.origin for journey in journeys) else "goes to"]
    certain = shares and any(journey.machine_share is not None for journey in journeys)
    if certain:
        heads.append("this machine")
    cells = [_vm_cells(journey, certain=certain) for journey in journeys]
    return table(heads, cells, figures=1 if certain else 0)


def _pool_table(rows: Sequence[PlacementChange]) -> list[str]:
    """VMs by their pool and what becomes of them, with the racks that they leave and come to."""
    groups: dict[tuple[str, str, Effect], list[PlacementChange]] = {}
    for row in rows:
        groups.setdefault((row.cluster, row.pool, effect_of(row)), []).append(row)
    cells = []
    for (cluster, pool, effect), members in groups.items():
        name = "/".join(part for part in (cluster, pool) if part) or members[0].object
        cells.append([code(name).replace("|", "\\|"), _racks_of(members, effect), f"{len(members):,}"])
    shown = cells[:_MOST_ROWS]
    if len(cells) > len(shown):
        shown[-1] = [f"and {len(cells) - len(shown) + 1:,} more", "", ""]
    return table(["Pool", "leave → go to", "VMs"], shown, figures=1)


def _racks_of(rows: Sequence[PlacementChange], effect: Effect) -> str:
    origins = _racks(row.source for row in rows)
    targets = f"**{_racks(row.target for row in rows)}**"
    if effect is Effect.AGAIN:
        return f"{targets}, in place"
    if origins == targets.strip("*"):
        return f"{targets}, to other machines of the same racks"
    return f"{origins} → {targets}" if origins else targets


def _racks(places: Iterable[Place | None]) -> str:
    names = {place.rack for place in places if isinstance(place, Placement)}
    return plain(names_text(sorted(names, key=natural)))


def _vm_cells(journey: VmJourney, *, certain: bool) -> list[str]:
    """The cells of one VM that comes or moves."""
    cells = [code(journey.vm).replace("|", "\\|"), _from_to(journey)]
    if certain:
        share = journey.machine_share
        cells.append(f"{share * 100:.0f} %" if share is not None else "-")
    return cells


def _from_to(journey: VmJourney) -> str:
    """From where to where a VM goes, and why a new one comes."""
    target = f"**{plain(journey.target)}**"
    if journey.in_place:
        return f"{target}, {journey.in_place}"
    if journey.origin:
        return f"{plain(journey.origin)} → {target}"
    return target if journey.trigger in ("", _NEW) else f"{target} ({plain(journey.trigger)})"


def causes_line(plan: Plan, origin: CodeOrigin) -> list[str]:
    """Why VMs move, `Because of main.nf.hcl:26.`."""
    moves = [row for row in plan.placements if row.kind == VM and row.action is PlacementAction.MOVE]
    if not moves:
        return []
    places = dict.fromkeys(place_of(change.source, origin) for change in causes_of_moves(plan))
    named = [place for place in places if place]
    named += [code("-replace")] if any(row.trigger in _BY_FLAG for row in moves) else []
    sentences = [f"Because of {first_of(named, _CAUSES)}."] if named else []
    return [" ".join(sentences)] if sentences else []


# --- pools -------------------------------------------------------------------------------------


def pool_rows(report: Report) -> list[str]:
    """Where the new VMs of every pool go, if they are too many to be listed. Pools that differ in their
    cluster alone are one row where there are many.
    """
    pools: list[tuple[PlacementGroup, int]] = []
    for group in report.groups:
        new = sum(line.count for line in group.lines if line.action is PlacementAction.PLACE)
        if group.kind == VM and new:
            pools.append((group, new))
    if sum(new for _, new in pools) <= _FEW:
        return []
    if len(pools) <= _MOST_ROWS:
        return table(_POOL_HEADS, [_pool_cells(group, new) for group, new in pools])
    rows = [_folded_cells(alike) for alike in _alike_pools(pools)]
    shown = rows[:_MOST_ROWS]
    if len(rows) > len(shown):
        shown[-1] = (f"and {len(rows) - len(shown) + 1:,} more", "", "")
    return table(_POOL_HEADS, shown)


_POOL_HEADS: Final = ("Pool", "new", "VMs per rack")


def _alike_pools(
    pools: Iterable[tuple[PlacementGroup, int]],
) -> Iterable[list[tuple[PlacementGroup, int]]]:
    """Pools of one name, SKU and size together, in the order of the first of each."""
    alike: dict[tuple[str, str, int, int], list[tuple[PlacementGroup, int]]] = {}
    for group, new in pools:
        pool = group.table
        key = (group.name, "", new, 0)
        if pool is not None:
            key = (pool.pool, pool.vm_sku_name, new, pool.total_count)
        alike.setdefault(key, []).append((group, new))
    return alike.values()


def _folded_cells(alike: Sequence[tuple[PlacementGroup, int]]) -> tuple[str, str, str]:
    """One row of several pools; of a single one as ever."""
    group, new = alike[0]
    tables = [each.table for each, _ in alike if each.table is not None]
    if len(alike) == 1 or not tables:
        return _pool_cells(group, new)
    numbers = chain.from_iterable(pool.actual_vms_per_rack.values() for pool in tables)
    racks = dict.fromkeys(chain.from_iterable(pool.actual_vms_per_rack for pool in tables))
    name = f"{names_text(pool.cluster for pool in tables)}/{tables[0].pool}"
    unusual = sum(bool(_expected(pool)) for pool in tables)
    note = f" ({unusual:,} otherwise than expected)" if unusual else ""
    count = f"{len(alike):,} x {new:,}"
    if new != tables[0].total_count:
        count += f" of {tables[0].total_count:,}"
    return plain(name), count, plain(f"{range_text(numbers)} on {counted(len(racks), 'rack')}{note}")


def _pool_cells(group: PlacementGroup, new: int) -> tuple[str, str, str]:
    if group.table is None:
        places = "; ".join(line.target for line in group.lines if line.action is PlacementAction.PLACE)
        return plain(group.name), f"{new:,}", plain(places)
    count = f"{new:,}" if new == group.table.total_count else f"{new:,} of {group.table.total_count:,}"
    return plain(group.name), count, plain(_spread(group.table))


def _spread(pool: PlacementTable) -> str:
    """`12 on rack7,8`; `4 on rack1,2, 5 on rack3 (expected 4 on 3 racks)`."""
    racks: dict[int, list[str]] = {}
    for rack, number in pool.actual_vms_per_rack.items():
        racks.setdefault(number, []).append(rack)
    texts = [f"{number:,} on {names_text(racks[number])}" for number in sorted(racks, reverse=True)]
    return f"{'; '.join(texts)}{_expected(pool)}"


def _expected(pool: PlacementTable) -> str:
    """What was expected, where something else comes of it."""
    numbers = set(pool.actual_vms_per_rack.values())
    as_expected = numbers <= set(pool.expected_vms_per_rack) and pool.actual_racks == pool.expected_racks
    if as_expected:
        return ""
    count = pool.expected_racks
    return f" (expected {either_text(pool.expected_vms_per_rack)} on {count:,} {form(count, 'rack')})"


def unexpected_pools(report: Report) -> list[str]:
    """Pools that are spread otherwise than expected, where no table of new VMs says so."""
    tables = [(group.name, group.table) for group in report.groups if group.table is not None]
    return [f"- {plain(name)}: {plain(_spread(pool))}" for name, pool in tables if _expected(pool)]


# --- bindings, pods, and what leaves -----------------------------------------------------------


def binding_lines(plan: Plan) -> list[str]:
    """`placement` picks **east** (trigger); drops **west** (trigger): a line for the placements of which the
    same becomes.
    """
    by_placement: dict[str, list[PlacementChange]] = {}
    for row in plan.placements:
        tells = row.action is not PlacementAction.KEEP or row.trigger
        if tells and KINDS[row.kind].by_resource:
            by_placement.setdefault(str(row.address), []).append(row)
    alike: dict[str, list[str]] = {}
    for name, rows in by_placement.items():
        alike.setdefault("; ".join(_binding_clauses(rows)), []).append(name)
    return [f"- {code(instances_text(names))} {clauses}" for clauses, names in alike.items()]


def _binding_verbs(kind: PlacementKind) -> dict[PlacementAction, str]:
    """What a resource does with those that it brings, in the order in which that is told."""
    return {
        PlacementAction.PLACE: kind.takes,
        PlacementAction.REMOVE: kind.drops,
        PlacementAction.MOVE: "moves",
        PlacementAction.UPDATE: "updates",
        PlacementAction.KEEP: "keeps",
        PlacementAction.LOSE: "loses",
        PlacementAction.FORGET: "is forgotten on",
    }


def _binding_clauses(rows: Sequence[PlacementChange]) -> list[str]:
    """`picks **east**` and so on: what a resource brings, by what becomes of it, and why."""
    groups: dict[tuple[PlacementAction, str], list[str]] = {}
    for row in rows:
        groups.setdefault((row.action, trigger_words(row)), []).append(f"**{plain(row.object)}**")
    clauses = []
    for action, verb in _binding_verbs(KINDS[rows[0].kind]).items():
        for (done, trigger), names in groups.items():
            if done is action:
                why = f" ({plain(trigger)})" if trigger else ""
                clauses.append(f"{verb} {listed(names, _NAMED)}{why}")
    return clauses


def leaving_lines(report: Report) -> list[str]:
    """VMs that leave or are told of where they stay: a line per run. Their names say whose they are."""
    in_table = (PlacementAction.PLACE, PlacementAction.MOVE)
    groups = [group for group in report.groups if group.kind == VM]
    lines = chain.from_iterable(group.lines for group in groups)
    return [f"- {_other_line(line)}" for line in lines if line.action not in in_table]


def pod_lines(report: Report) -> list[str]:
    """Pods and whose they are: a line per run."""
    groups = [group for group in report.groups if KINDS[group.kind].on_vms]
    lines: list[str] = []
    for group in groups:
        lines += [f"- {plain(group.name)}: {_other_line(line)}" for line in group.lines]
    return lines


def _other_line(line: PlacementLine) -> str:
    """One binding or pod, or a run of them: from where to where, and why."""
    who = code(line.label)
    target, origin = plain(line.target), plain(line.origin)
    why = f" ({plain(line.trigger)})" if line.trigger else ""
    match line.effect:
        case _ if parting(line):
            return f"{who} {f'{parting(line)} {origin}'.rstrip()}{why}"
        case Effect.PLACED:
            return f"{who} → **{target}**{why}"
        case _ if origin:
            return f"{who} {origin} → **{target}**{why}"
        case _:
            where = f"{line_verb(line)} {target}".lstrip()
            return f"{who} {where}{why}"


# --- counts and certainty ----------------------------------------------------------------------


def kind_lines(plan: Plan, report: Report) -> list[str]:
    """What happens to each kind, and how surely: `**VMs**: 53 placed, 162 kept. VMs per rack certain ...`."""
    summaries = report.summaries[1:] or report.summaries
    kind_of_all = next((row.kind for row in plan.placements), VM)
    lines: list[str] = []
    told = "".join(f" {plain(text)}" for text in _earlier_claims(plan))
    for summary in summaries:
        if not summary.anything:
            continue
        kind = summary.kind or kind_of_all
        counts_text = ", ".join(f"{count:,} {word}" for count, word in summary.outcomes)
        sure = sure_of(plan) if kind == VM and summary.place + summary.move else ""
        certainty = f" Sure of {sure}" if sure else ""
        earlier, told = (told, "") if sure else ("", told)
        lines.append(f"- **{titled(kind)}**: {counts_text}.{certainty}{earlier}")
    if lines and told:  # beside what this plan is sure of; a plan without VMs says it at the end
        lines[-1] += told
    return lines


_MOST_SCORES = 3


def _earlier_claims(plan: Plan) -> Iterator[str]:
    """What became of claims of earlier plans, beside what this one is sure of."""
    scores = [(score.site, score.claims) for score in plan.scores[:_MOST_SCORES] if score.claims is not None]
    for site, claims in scores:
        where = f" on {site}" if len(scores) > 1 else ""
        sure = f", {claims.sure_held:,} of the {claims.sure:,} that were sure" if claims.sure else ""
        yield f"Of {counted(claims.settled, 'earlier claim')}{where} {claims.held:,} held{sure}."


def causes_of_moves(plan: Plan) -> tuple[Change, ...]:
    """The changes that make VMs leave, in the plan's order.

    Of a VM whose own resource is told why it goes, that resource; of one that loses its machine, the
    machine or rack that changes. No line of a configuration makes those leave that -replace names.
    """
    moves = [row for row in plan.placements if row.kind == VM and row.action is PlacementAction.MOVE]
    by_hardware = {row.trigger for row in moves} & _OF_HARDWARE
    ids = set(_hardware_ids(row for row in moves if row.trigger in by_hardware))
    addresses = {row.address for row in moves if row.trigger not in by_hardware | _BY_FLAG}
    return tuple(
        change
        for change in plan.changes
        if change.action is not Action.NO_OP and (change.id in ids or change.address in addresses)
    )


_OF_HARDWARE = frozenset({"machine_evacuated", "machine_removed", "machine_replaced", "machine_forgotten"})
_BY_FLAG = frozenset({"requested", "heal"})


def _hardware_ids(rows: Iterable[PlacementChange]) -> Iterable[str]:
    """The ids that the racks and machines have which these VMs leave."""
    for row in rows:
        if isinstance(row.source, Placement):
            rack = f"{row.site_id}/{row.source.rack}"
            yield rack
            yield f"{rack}/{row.source.machine}"


_SITES: Final = 3  # that have a table in sight
_FEW_NAMES: Final = 4  # of sites with the same room


def room_lines(sites: Sequence[str], rows: Sequence[RoomRow]) -> list[str]:
    """The tables of the sites whose room changes, one below the other, and how many keep theirs."""
    if not rows:
        return []
    picked, others = _picked_sites(len(sites), rows)
    lines: list[str] = []
    for number in picked:
        lines += ["", *_site_table(sites[number], number, rows)]
    return [*lines[1:], *(["", others] if others else [])]


def _picked_sites(count: int, rows: Sequence[RoomRow]) -> tuple[list[int], str]:
    """The numbers of sites where the plan leaves less room, then of those it changes; where nothing changes
    anywhere, of the first. And what is said of the others.
    """
    changed = [number for number in range(count) if _changes(rows, number)]
    worse = [number for number in changed if any(row.worse[number] for row in rows)]
    ranked = [*worse, *(number for number in changed if number not in worse)]
    picked = sorted((ranked or list(range(count)))[:_SITES])
    if not changed:
        further = count - len(picked)
        return picked, f"and {counted(further, 'more site')}, with as much room as before" if further else ""
    kept, left_out = count - len(changed), len(changed) - len(picked)
    clauses = [f"{counted(left_out, 'more site')} with other room than before"] if left_out else []
    clauses += [f"{counted(kept, 'site')} with as much room as before"] if kept else []
    return picked, f"and {' and '.join(clauses)}" if clauses else ""


def _changes(rows: Sequence[RoomRow], number: int) -> bool:
    return any(row.values[number][0] != row.values[number][1] for row in rows)


def _site_table(site: str, number: int, rows: Iterable[RoomRow]) -> list[str]:
    """The room of one site, before and after."""
    return table((plain(site), "before", "after"), [_cells(row, number) for row in rows], figures=2)


def _cells(row: RoomRow, number: int) -> list[str]:
    """The cells of one figure of a site."""
    before, after = row.values[number]
    return [plain(row.label), plain(before), f"**{plain(after)}**" if row.worse[number] else plain(after)]


def all_rooms(overview: Overview) -> str:
    """Where some of the sites only have a table: all of them, as text; those with as much room as before, and
    as much as one another, under one heading.
    """
    if len(overview.sites) <= _SITES:
        return ""
    changed: list[str] = []
    kept: dict[tuple[str, ...], list[str]] = {}
    for number, site in enumerate(overview.sites):
        figures = [(row.label, *row.values[number]) for row in overview.room]
        if _changes(overview.room, number):
            changed += [f"{site}:", *(f"  {label}: {before} -> {after}" for label, before, after in figures)]
        else:
            kept.setdefault(tuple(f"  {label}: {after}" for label, _, after in figures), []).append(site)
    for same, names in kept.items():
        changed += [f"{names_text(names, _FEW_NAMES)}, as before:", *same]
    return "\n".join(changed)


_STEPS: Final = 20


def rollout_lines(report: Report) -> list[str]:
    """The steps of rollouts; times are the earliest."""
    lines: list[str] = []
    for rollout in report.rollouts:
        rows, left_out = rollout.first(_STEPS)
        cells = [list(map(plain, row)) for row in rows]
        lines += ["", code(rollout.title), "", *table(HEADS, cells)]
        lines += ["", f"{left_out}."] if left_out else []
    return lines[1:]
