"""Placements as rows for people: runs of similar ones folded, per pool. Decides nothing."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct

from nexusform.address import Address
from nexusform.placement_kinds.kinds import KINDS, MOST_NAMES, VM, kind_order, place_text
from nexusform.plans.impact.effects import (
    LEAVING,
    Effect,
    EffectCount,
    effect_counts,
    effect_of,
    ground_of,
    is_told,
    state_of,
    told_pools,
    verb_of,
)
from nexusform.plans.plan import PlacementAction, PlacementChange, PlacementTable, Plan
from nexusform.rendering.notation.colours import PLAIN, Painter
from nexusform.rendering.report.upgrade_words import AT_ONCE, RECREATING, ROLLING, pools_at_once
from nexusform.rendering.report.wording import trigger_words
from nexusform.scheduling.decision import Place
from nexusform.scheduling.racks.vms import Placement
from nexusform.words import counted, form, spans

# More moves than this are folded.
SINGLE_MOVES = 10


SayPlace: TypeAlias = Callable[[Place], str]


class Detail(StrEnum):
    """The `-placements` flag."""

    CHANGED = "changed"
    ALL = "all"
    NONE = "none"


_SYMBOLS = {
    PlacementAction.PLACE: "+",
    PlacementAction.MOVE: "~",
    PlacementAction.REMOVE: "-",
    PlacementAction.KEEP: "=",
    PlacementAction.UPDATE: "~",
    PlacementAction.LOSE: "-",
    PlacementAction.FORGET: ".",
}


class PlacementLine(Struct, frozen=True):
    """One line: symbol, which objects (`cluster-d-pool1-0..23`), from where, to where, why.

    `count` is how many objects it stands for; `origin` and `target` are "" when there is none. Objects with
    another effect have a line of their own.
    """

    symbol: str
    action: PlacementAction
    effect: Effect
    label: str
    origin: str
    target: str
    trigger: str
    count: int = 1
    state: str = ""


class PlacementGroup(Struct, frozen=True):
    """The lines of one pool (or placement, or workload); `table` None when it has none.

    `name` is `cluster/pool` (of a binding the placement's address). `certainty` is a clause such as
    `VMs per rack certain for 24 of 24, machines for 4 of 24`, "" when nothing was placed or no repetition
    was run.
    """

    name: str
    kind: str
    lines: tuple[PlacementLine, ...]
    table: PlacementTable | None = None
    certainty: str = ""


class PlacementSummary(Struct, frozen=True):
    """How many objects of a kind ("" = all) are asked to do what, and what becomes of
    them.
    """

    kind: str
    place: int = 0
    move: int = 0
    remove: int = 0
    keep: int = 0
    update: int = 0
    lose: int = 0
    forget: int = 0
    effects: tuple[EffectCount, ...] = ()
    anew: int = 0  # of the VMs that move: those whose pool is made anew, as an upgrade tells

    @property
    def anything(self) -> bool:
        """Whether there is any object at all."""
        counts = (self.place, self.move, self.remove, self.keep, self.update, self.lose, self.forget)
        return any(counts)

    @property
    def lost(self) -> list[tuple[str, int]]:
        """How many lose what they stand on: ("machine", 33), ("node", 4)."""
        grounds: Counter[str] = Counter()
        for effect_count in self.effects:
            if effect_count.effect is Effect.LOST:
                grounds[ground_of(effect_count.kind)] += effect_count.count
        return list(grounds.items())

    @property
    def outcomes(self) -> list[tuple[int, str]]:
        """What becomes of them, in numbers and words: (3, "placed"), (2, "re-created in place")."""
        outcomes: Counter[str] = Counter()
        for effect_count in self.effects:
            outcomes[_outcome(effect_count)] += effect_count.count
        if self.anew:
            outcomes = self._without_the_anew(outcomes)
        return [(count, words) for words, count in outcomes.items()]

    @property
    def leaving(self) -> frozenset[str]:
        """Those of the words of `outcomes` that say of something that it does not stay where it runs."""
        words = {_outcome(each) for each in self.effects if each.effect in LEAVING}
        return frozenset(words | {_ANEW})

    def _without_the_anew(self, outcomes: Counter[str]) -> Counter[str]:
        """The counts with what is made anew pool by pool as a word of its own, and not as moves."""
        elsewhere = min(self.anew, outcomes[OUTCOMES[Effect.MOVED]])
        rest = outcomes - Counter(
            {OUTCOMES[Effect.MOVED]: elsewhere, OUTCOMES[Effect.AGAIN]: self.anew - elsewhere}
        )
        return Counter({_ANEW: self.anew}) + rest

    @property
    def remarks(self) -> list[str]:
        """What the counts of actions do not say: `2 are re-created in place`, `3 stay Pending`."""
        remarks: Counter[tuple[Effect, str]] = Counter()
        for effect_count in self.effects:
            if effect_count.effect in _REMARKED:
                waits_still = effect_count.effect is Effect.STILL_WAITING
                effect = Effect.WAITING if waits_still else effect_count.effect
                state = effect_count.state if effect in (Effect.WAITING, Effect.AGAIN) else ""
                remarks[effect, state] += effect_count.count
        return [f"{count:,} {verb_of(*key, count)}" for key, count in remarks.items()]


OUTCOMES: Mapping[Effect, str] = {
    Effect.PLACED: "placed",
    Effect.MOVED: "moved",
    Effect.AGAIN: "re-created in place",
    Effect.UNPLACED: "without a node",
    Effect.REMOVED: "removed",
    Effect.LOST: "without their machine",
    Effect.FORGOTTEN: "forgotten",
    Effect.UPDATED: "updated",
    Effect.NOT_MADE: "not made",
    Effect.KEPT: "kept",
}
_ANEW = "re-created pool by pool"


def count_clauses(summary: PlacementSummary, paint: Painter = PLAIN) -> list[str]:
    """What is asked for, as the `Placements:` line has it: `3 to place`, `2 to move`; moves and losses stand
    out.
    """
    moves = f"{summary.move:,} to move"
    clauses = [
        f"{summary.place:,} to place",
        paint(moves, "bold", "yellow") if summary.move else moves,
        f"{summary.remove:,} to remove",
        f"{summary.keep:,} kept",
    ]
    if summary.update:
        clauses.append(f"{summary.update:,} to update")
    for ground, number in summary.lost:
        lost = f"{number:,} {form(number, f'loses its {ground}', f'lose their {ground}')}"
        clauses.append(paint(lost, "bold", "red"))
    if summary.forget:
        clauses.append(f"{summary.forget:,} forgotten")
    refused = sum(each.count for each in summary.effects if each.effect is Effect.NOT_MADE)
    return [*clauses, f"{refused:,} not made"] if refused else clauses


def _outcome(each: EffectCount) -> str:
    """What became of objects, in a word or two: `moved`, `without their node`."""
    if each.effect is Effect.LOST:
        return f"without their {ground_of(each.kind)}"
    return outcome_of(each.effect, each.state)


def outcome_of(effect: Effect, state: str) -> str:
    """What becomes of objects, in a word or two."""
    if effect is Effect.AGAIN and state:
        return "re-created, predicted in place"
    return OUTCOMES.get(effect) or state


_REMARKED = frozenset({Effect.AGAIN, Effect.UNPLACED, Effect.WAITING, Effect.STILL_WAITING})


def summaries(plan: Plan) -> tuple[PlacementSummary, ...]:
    """The total first, then one per kind that is present (only when there are several)."""
    counts: defaultdict[str, Counter[PlacementAction]] = defaultdict(Counter)
    for row in plan.placements:
        counts[row.kind][row.action] += effect_of(row) is not Effect.NOT_MADE
    # The plan counts what stays; rows for it exist only on request. What no row tells is VMs.
    rows_kept = sum(actions[PlacementAction.KEEP] for actions in counts.values())
    untold = max(0, plan.kept - rows_kept)
    counts[VM][PlacementAction.KEEP] += untold
    effects = effect_counts(plan.placements)
    if untold:
        effects = (*effects, EffectCount(VM, Effect.KEPT, "", untold))
    total = _summary("", sum(counts.values(), Counter()), effects, _made_anew(plan))
    by_kind = []
    for kind in sorted(counts, key=kind_order):
        if counts[kind].total():
            of_kind = tuple(effect_count for effect_count in effects if effect_count.kind == kind)
            by_kind.append(_summary(kind, counts[kind], of_kind, total.anew if kind == VM else 0))
    return (total, *by_kind) if len(by_kind) > 1 else (total,)


def _made_anew(plan: Plan) -> int:
    """How many VMs are re-created because their pool is, whether on another machine or on theirs."""
    told = told_pools(plan)
    moves = (row for row in plan.placements if row.kind == VM and row.action is PlacementAction.MOVE)
    return sum(is_told(row, told) for row in moves) if told else 0


def _summary(
    kind: str, actions: Counter[PlacementAction], effects: tuple[EffectCount, ...], anew: int
) -> PlacementSummary:
    """The counts of one kind."""
    return PlacementSummary(
        kind,
        place=actions[PlacementAction.PLACE],
        move=actions[PlacementAction.MOVE],
        remove=actions[PlacementAction.REMOVE],
        keep=actions[PlacementAction.KEEP],
        update=actions[PlacementAction.UPDATE],
        lose=actions[PlacementAction.LOSE],
        forget=actions[PlacementAction.FORGET],
        effects=effects,
        anew=anew,
    )


# --- groups ------------------------------------------------------------------------------------


def placement_groups(plan: Plan, detail: Detail, say: SayPlace = place_text) -> tuple[PlacementGroup, ...]:
    """The pools that the plan touches (all of them with `all`), in the plan's order.

    Observations (kept, with a trigger) are always shown; plain kept rows only with `all`. `say` is how
    the place of a single object is written.
    """
    if detail is Detail.NONE:
        return ()
    rows: dict[_PoolKey, list[PlacementChange]] = {}
    for row in plan.placements:
        if row.action is not PlacementAction.KEEP or row.trigger or detail is Detail.ALL:
            rows.setdefault(_pool_of_row(row), []).append(row)
    tables = {_pool_of_table(table): table for table in plan.placement_tables}
    if detail is not Detail.ALL:
        tables = {pool: table for pool, table in tables.items() if pool in rows}
    pools = dict.fromkeys([*tables, *rows])
    at_once = pools_at_once(plan)
    groups = [
        _group(rows.get(pool, []), tables.get(pool), plan.tie_breaks, detail, say, at_once) for pool in pools
    ]
    # A VM's name says whose it is; bindings and pods stand under the name of what they belong to, so no VM
    # may follow one. Pods follow from bindings.
    return tuple(sorted(groups, key=lambda group: kind_order(group.kind)))


_PoolKey: TypeAlias = tuple[str, str, str, str]


def _pool_of_table(table: PlacementTable) -> _PoolKey:
    return _pool_key(table.site_id, table.address, table.cluster, VM, table.pool)


def _pool_of_row(row: PlacementChange) -> _PoolKey:
    return _pool_key(row.site_id, row.address, row.cluster, row.kind, row.pool)


def _pool_key(site_id: str, address: Address, cluster: str, kind: str, pool: str) -> _PoolKey:
    """The pool that a row belongs to: all VMs of a block of plain VMs are one."""
    if cluster == str(address.config):
        return (site_id, cluster, kind, pool)
    return ("", str(address), kind, pool)


def _group(
    rows: Sequence[PlacementChange],
    table: PlacementTable | None,
    tie_breaks: int,
    detail: Detail,
    say: SayPlace,
    at_once: frozenset[tuple[str, str, str]],
) -> PlacementGroup:
    """The lines of one pool: rows that do the same for the same reason are one run."""
    runs: dict[tuple[str, str, _States, Effect, str], list[PlacementChange]] = {}
    counts = Counter(row.trigger for row in rows)
    told = frozenset(trigger for trigger in counts if _is_recreation(trigger, counts[trigger], detail))
    for row in rows:
        effect = Effect.MOVED if row.kind == VM and row.trigger in told else effect_of(row)
        alike = (row.action.value, trigger_words(row), _states(row), effect, state_of(row))
        runs.setdefault(alike, []).append(row)
    lines: list[PlacementLine] = []
    for run in runs.values():
        anew = run[0].kind == VM and run[0].trigger in told
        lines += [_recreated(run, at_once)] if anew else _lines(run, detail, say)
    kind = rows[0].kind if rows else VM
    name = f"{table.cluster}/{table.pool}" if table else _group_name(rows[0])
    certainty = certainty_text(table) if table and table.placed and tie_breaks else ""
    return PlacementGroup(name=name, kind=kind, lines=tuple(lines), table=table, certainty=certainty)


def _group_name(row: PlacementChange) -> str:
    """What the rows of a group without a table stand under."""
    if KINDS[row.kind].by_resource:
        return str(row.address)
    names = [name for name in (row.cluster, row.pool) if name]
    return "/".join(names) or str(row.address)


def certainty_text(table: PlacementTable) -> str:
    """`VMs per rack certain for 24 of 24, machines for 4 of 24`."""
    racks = f"VMs per rack certain for {table.racks_certain:,} of {table.placed:,}"
    return f"{racks}, machines for {table.machines_certain:,} of {table.placed:,}"


def _lines(run: Sequence[PlacementChange], detail: Detail, say: SayPlace) -> list[PlacementLine]:
    """The lines of rows with one action, trigger, effect and the same states: one each, or one for all."""
    moves = effect_of(run[0]) is Effect.MOVED or _is_elsewhere(run[0])
    few_moves = moves and len(run) <= SINGLE_MOVES
    if detail is Detail.ALL or len(run) == 1 or few_moves:
        return [_single(row, say) for row in run]
    return [_folded(sorted(run, key=_by_number))]


def _folded(run: Sequence[PlacementChange]) -> PlacementLine:
    """One line for a run of rows with one action, trigger, effect and the same states."""
    first_row = run[0]
    state_before, state_after = _states(first_row)
    effect, state = effect_of(first_row), state_of(first_row)
    waits = "" if effect is Effect.AGAIN else state
    leaves = effect in _WITH_ORIGIN or _is_elsewhere(first_row)
    origin = _many_places(first_row.kind, [row.source for row in run]) if leaves else ""
    target = _many_places(first_row.kind, [row.target for row in run]) if first_row.target is not None else ""
    racks_left, racks_taken = _racks(row.source for row in run), _racks(row.target for row in run)
    if origin == target and racks_left and racks_left == racks_taken:
        target = "the same racks"
    return PlacementLine(
        symbol=_SYMBOLS[first_row.action],
        action=first_row.action,
        label=_run_label(run),
        effect=effect,
        origin=state_before or origin,
        target=waits or (f"{state_after}: {target}" if state_after else target),
        trigger=trigger_words(first_row),
        count=len(run),
        state=state,
    )


def _is_recreation(trigger: str, count: int, detail: Detail) -> bool:
    """Whether nodes of a pool that are made anew for this reason are told together, wherever they come to."""
    if detail is Detail.ALL or trigger not in RECREATING:
        return False
    return trigger == ROLLING or count > SINGLE_MOVES


def _recreated(run: Sequence[PlacementChange], at_once: frozenset[tuple[str, str, str]]) -> PlacementLine:
    """One line for nodes of a pool that are made anew, batch by batch or all at once."""
    ordered = sorted(run, key=_by_number)
    in_place = sum(effect_of(row) is Effect.AGAIN for row in run)
    counts = [(len(run) - in_place, "on other machines"), (in_place, "in place")]
    return PlacementLine(
        symbol=_SYMBOLS[run[0].action],
        action=run[0].action,
        label=_run_label(ordered),
        effect=Effect.MOVED,
        origin="",
        target=", ".join(f"{count:,} {where}" for count, where in counts if count),
        trigger=run[0].trigger,
        count=len(run),
        state=AT_ONCE if (run[0].site_id, run[0].cluster, run[0].pool) in at_once else "",
    )


_States: TypeAlias = tuple[str, str]


def _states(row: PlacementChange) -> _States:
    """The states before and after of what stays and changes its state; else both are empty."""
    if row.action is not PlacementAction.UPDATE or row.source is None or row.target is None:
        return "", ""
    state = KINDS[row.kind].state
    before, after = state(row.source), state(row.target)
    return ("", "") if before == after else (before, after)


def _by_number(row: PlacementChange) -> tuple[int, int, str]:
    """The sort key of a row: numbers by value, then keys."""
    number = _number(row)
    return (0, number, "") if isinstance(number, int) else (1, 0, number)


def _number(row: PlacementChange) -> int | str:
    """The number in the pool; of a plain VM, its index or key in its block."""
    key = row.address.key
    if key is None or row.cluster != str(row.address.config):
        return row.number
    return key


_WITH_ORIGIN = (Effect.MOVED, Effect.UNPLACED, Effect.REMOVED, Effect.LOST, Effect.FORGOTTEN)
# What is said before the place that objects leave, or that leaves them: of one and of several.
_PARTINGS: Mapping[Effect, tuple[str, str]] = {
    Effect.REMOVED: ("leaves", "leave"),
    Effect.LOST: ("loses", "lose"),
    Effect.FORGOTTEN: ("is forgotten and runs on, on", "are forgotten and run on, on"),
}
# Whoever has no node runs nowhere.
_NOWHERE = ("Pending", "SchedulingGated", "Failed")
_WAITS_ON = ("is forgotten and stays", "are forgotten and stay")


def parting(line: PlacementLine) -> str:
    """`leaves`, `lose`: what is said before the place of objects that this plan gives none; "" of others."""
    verbs = _PARTINGS.get(line.effect)
    if line.effect is Effect.FORGOTTEN and line.origin.partition(":")[0] in _NOWHERE:
        verbs = _WAITS_ON
    return form(line.count, *verbs) if verbs else ""


def _single(row: PlacementChange, say: SayPlace) -> PlacementLine:
    """The line of one row."""
    origin = _place_in_row(row, row.source, say) if row.source else ""
    target = _place_in_row(row, row.target, say) if row.target else ""
    effect = effect_of(row)
    if effect is Effect.MOVED and origin == target:  # another node of the same machine
        say = place_text
        origin = _place_in_row(row, row.source, say) if row.source else ""
        target = _place_in_row(row, row.target, say) if row.target else ""
    changes = effect is Effect.UPDATED and origin != target
    if not (changes or effect in _WITH_ORIGIN or _is_elsewhere(row)):
        origin = ""
    return PlacementLine(
        symbol=_SYMBOLS[row.action],
        action=row.action,
        effect=effect,
        label=_called(row),
        origin=origin,
        target=target,
        trigger=trigger_words(row),
        state=state_of(row),
    )


def line_verb(line: PlacementLine) -> str:
    """What is said before the target of objects that have no way to it: `re-created in place:`, `stays`."""
    if line.trigger in RECREATING and not line.origin and line.effect is Effect.MOVED:
        return line.state or RECREATING[line.trigger]
    match line.effect:
        case Effect.AGAIN:
            return f"{outcome_of(Effect.AGAIN, line.state)}:"
        case Effect.WAITING | Effect.STILL_WAITING if line.target == "Failed":
            return ""
        case Effect.WAITING | Effect.STILL_WAITING:
            return form(line.count, "stays", "stay")
        case Effect.NOT_MADE:
            return verb_of(line.effect, "", line.count)
        case _:
            return form(line.count, "stays:", "stay:")


def _called(row: PlacementChange) -> str:
    """An object's name, and the platform's own where it is known."""
    return f"{row.object} [{row.platform_name}]" if row.platform_name else row.object


def _is_elsewhere(row: PlacementChange) -> bool:
    """Whether it stays where it was observed, which is not where state has it."""
    return row.kind == VM and row.action is PlacementAction.KEEP and bool(row.trigger)


# --- places ------------------------------------------------------------------------------------


def _place_in_row(row: PlacementChange, place: Place, say: SayPlace) -> str:
    """A place as a row says it."""
    return KINDS[row.kind].beside(place, row.object) or say(place)


# --- folding -----------------------------------------------------------------------------------


def _run_label(rows: Sequence[PlacementChange]) -> str:
    """`prefix-0..3,5`: names that are one prefix and a number; anything else is listed or counted."""
    run_noun = KINDS[rows[0].kind].run_noun
    if run_noun:
        return counted(len(rows), run_noun)
    prefixes = {_prefix(row) for row in rows}
    prefix = prefixes.pop()
    if prefix is not None and not prefixes:
        numbers = [number for number in map(_number, rows) if isinstance(number, int)]
        return f"{prefix}{_ranges(numbers)}"
    if len(rows) <= MOST_NAMES:
        return ", ".join(row.object for row in rows)
    return f"{rows[0].object} and {len(rows) - 1} more"


def _prefix(row: PlacementChange) -> str | None:
    """An object's name without the number at its end; None where it does not end so."""
    number = _number(row)
    if isinstance(number, int) and row.object.endswith(str(number)):
        return row.object[: -len(str(number))]
    return None


def _ranges(numbers: Iterable[int]) -> str:
    """`0..3,5`."""
    return ",".join(str(low) if low == high else f"{low}..{high}" for low, high in spans(sorted(numbers)))


def _many_places(kind: str, places: Iterable[Place | None]) -> str:
    """Where several objects of one kind stand, in as few words as tell it."""
    return KINDS[kind].many([place for place in places if place is not None])


def _racks(places: Iterable[Place | None]) -> set[str]:
    return {place.rack for place in places if isinstance(place, Placement)}


# --- tables ------------------------------------------------------------------------------------


def either_text(numbers: Iterable[int]) -> str:
    """`3`, `3 or 4`, `3, 4 or 5`: different figures, ascending."""
    texts = [str(number) for number in sorted(set(numbers))]
    if len(texts) <= 1:
        return texts[0] if texts else "0"
    return f"{', '.join(texts[:-1])} or {texts[-1]}"


def table_row(table: PlacementTable) -> tuple[str, ...]:
    """The eight columns of the document's table.

    Cluster, pool, SKU, total count, expected racks, actual racks, expected and actual VMs per rack.
    """
    return (
        table.cluster,
        table.pool,
        table.vm_sku_name,
        f"{table.total_count:,}",
        str(table.expected_racks),
        str(table.actual_racks),
        either_text(table.expected_vms_per_rack),
        either_text(table.actual_vms_per_rack.values()),
    )
