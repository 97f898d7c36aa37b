"""Rows of placements per pool, with runs of similar ones folded."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import chain
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.phrases import (
    compute_natural_sort_key,
    enclose,
    format_count,
    format_counts,
    format_first_items,
    format_list,
    format_ranges,
    group_by,
    join_texts,
    select_word_form,
)
from nexusform.placement_kinds.placement_kind import MAXIMUM_NAMES, VM
from nexusform.placement_kinds.registry import KINDS, format_location_text, get_kind_order
from nexusform.plans.impact.object_effects import (
    Effect,
    EffectCount,
    build_cluster_formatter,
    compute_effect,
    count_effects,
    describe_state,
    format_effect_verb,
)
from nexusform.plans.plan import PlacementAction, PlacementChange, PlacementTable, Plan
from nexusform.rendering.notation.colours import PLAIN, Painter
from nexusform.rendering.report.plan_sentences import describe_trigger, format_uncertainty_mark
from nexusform.resources.address import Address
from nexusform.scheduling.placement_decision import ObjectLocation
from nexusform.scheduling.racks.vms import Interval, Placement

# More moves than this are folded.
MAX_SINGLE_MOVES = 10

LocationFormatter: TypeAlias = Callable[[ObjectLocation], str]
ROLLING: Final = "kubernetes_version_changed"
AT_ONCE: Final = "re-created all at once:"
# Triggers that re-create all nodes of a pool, and the text before the new locations.
RECREATION_VERBS: Final[Mapping[str, str]] = {
    ROLLING: "rolling upgrade:",
    **dict.fromkeys(
        ("sku_changed", "zones_changed", "labels_changed", "taints_changed", "mode_changed"),
        AT_ONCE,
    ),
}


class ShownPlacements(StrEnum):
    """Values of the `-placements` flag."""

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
    """One line: symbol, objects (`cluster-d-pool1-0..23`), origin, target and trigger.

    `doubt` marks an uncertain target. `count` is the number of objects. `origin` and `target` are
    "" if there is none. Each effect has its own line. `machine_share` is the share of samples with
    this machine. `rows` are the objects.
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
    doubt: str = ""
    machine_share: float | None = None
    rows: tuple[PlacementChange, ...] = ()

    @property
    def is_recreation(self) -> bool:
        """Whether the target counts the re-created nodes of a pool instead of naming locations."""
        has_trigger = self.trigger in RECREATION_VERBS and self.effect is Effect.MOVED
        return has_trigger and not self.origin

    @property
    def is_left_cluster(self) -> bool:
        """Whether a placement leaves its clusters: their name is the label."""
        is_removed = self.effect is Effect.REMOVED and bool(self.rows)
        return is_removed and KINDS[self.rows[0].kind].by_resource

    @property
    def is_platform_choice(self) -> bool:
        """Whether the platform chooses the VMs to remove: the origin has the possible racks."""
        return any(row.is_chosen_removal for row in self.rows[:1])

    @property
    def remark(self) -> str:
        """Note with the trigger and a possible other result: `(new; or n0 if b arrives first)`.

        It is "" without either.
        """
        return enclose("(", join_texts((self.trigger, self.doubt), "; "), ")")


class PlacementLineGroup(Struct, frozen=True):
    """The lines of one pool, placement or workload; `table` is None without one.

    `name` is `cluster/pool`, or the address of the placement for a binding. `sites` are those of
    merged groups with equal lines.
    """

    name: str
    kind: str
    lines: tuple[PlacementLine, ...]
    table: PlacementTable | None = None
    sites: tuple[str, ...] = ()


class PlacementSummary(Struct, frozen=True):
    """Numbers of objects of a kind ("" = all) by action, with their effects."""

    kind: str
    place: int = 0
    move: int = 0
    remove: int = 0
    keep: int = 0
    update: int = 0
    lose: int = 0
    forget: int = 0
    effects: tuple[EffectCount, ...] = ()

    @property
    def losses(self) -> list[tuple[str, int]]:
        """Numbers of objects that lose their host: ("machine", 33), ("node", 4)."""
        host_counts: Counter[str] = Counter()
        for effect_count in self.select_effects(Effect.LOST):
            host_counts[KINDS[effect_count.kind].host_noun] += effect_count.count
        return list(host_counts.items())

    @property
    def notes(self) -> list[str]:
        """Clauses about effects without an action of their own.

        Examples are `2 are re-created in place` and `3 stay Pending`.
        """
        counts: Counter[tuple[Effect, str]] = Counter()
        for effect_count in self.select_effects(*_NOTE_EFFECTS):
            # Its verb has no state.
            state = "" if effect_count.effect is Effect.UNPLACED else effect_count.state
            counts[_NOTE_EFFECTS[effect_count.effect], state] += effect_count.count
        return [
            f"{count:,} {format_effect_verb(effect, state, count)}"
            for (effect, state), count in counts.items()
        ]

    def select_effects(self, *effects: Effect) -> list[EffectCount]:
        """Return the counts of these effects."""
        return [effect_count for effect_count in self.effects if effect_count.effect in effects]


OUTCOMES: Mapping[Effect, str] = {
    Effect.PLACED: "to place",
    Effect.MOVED: "to move",
    Effect.RECREATED: "to re-create in place",
    Effect.UNPLACED: "without a node",
    Effect.REMOVED: "to remove",
    Effect.LOST: "host lost",
    Effect.FORGOTTEN: "to forget",
    Effect.UPDATED: "to update",
    Effect.NOT_CREATED: "not created",
    Effect.UNCHANGED: "kept",
}


def build_count_clauses(summary: PlacementSummary, paint: Painter = PLAIN) -> list[str]:
    """Return the clauses of the `Placements:` line.

    They are, for example, `3 to place`, `2 to move`, `1 to remove` and `5 kept`. Others follow if
    they are not 0. Moves and losses are highlighted.
    """
    moves = f"{summary.move:,} to move"
    # These also if 0.
    clauses = [
        f"{summary.place:,} to place",
        paint(moves, "bold", "yellow") if summary.move else moves,
        f"{summary.remove:,} to remove",
        f"{summary.keep:,} kept",
    ]
    clauses += format_counts([(summary.update, "to update")])
    # A host is a machine, a node or a member cluster.
    for host, number in summary.losses:
        loss = f"{number:,} {select_word_form(number, f'loses its {host}', f'lose their {host}')}"
        clauses.append(paint(loss, "bold", "red"))
    not_created = sum(
        effect_count.count for effect_count in summary.select_effects(Effect.NOT_CREATED)
    )
    return [*clauses, *format_counts([(summary.forget, "forgotten"), (not_created, "not created")])]


def describe_placement_effect(effect: Effect, state: str) -> str:
    """Return the outcome of an effect in a word or two.

    The outcome of a pod without a node is its state (`Pending`).
    """
    # The only state of re-created objects is `predicted`.
    if effect is Effect.RECREATED and state:
        return "re-created, probably on the same machine"
    return OUTCOMES.get(effect) or state


# The effects of the notes, each with the effect that the note counts.
_NOTE_EFFECTS: Final[Mapping[Effect, Effect]] = {
    Effect.RECREATED: Effect.RECREATED,
    Effect.UNPLACED: Effect.UNPLACED,
    Effect.WAITING: Effect.WAITING,
    Effect.STILL_WAITING: Effect.WAITING,
}


def list_vm_rows(plan: Plan) -> list[PlacementChange]:
    """Return the rows of VMs."""
    return [row for row in plan.placements if row.kind == VM]


def select_vm_rows(plan: Plan, *actions: PlacementAction) -> list[PlacementChange]:
    """Return the rows of VMs with one of these actions."""
    return [row for row in list_vm_rows(plan) if row.action in actions]


def select_placement_rows(plan: Plan, detail: ShownPlacements) -> Iterator[PlacementChange]:
    """Yield the rows of changed objects; with `all` also of kept ones."""
    for row in plan.placements:
        # A trigger: it was observed elsewhere.
        is_unchanged = row.action is PlacementAction.KEEP and not row.trigger
        if not is_unchanged or detail is ShownPlacements.ALL:
            yield row


def build_placement_summaries(plan: Plan) -> tuple[PlacementSummary, ...]:
    """Return a summary of all placements, then one per kind if there are several.

    Kinds are VM, pod and binding. Return () without placements. A summary has the numbers of
    objects by action. Kept VMs count, too, even without a row in the plan.
    """
    counts: defaultdict[str, Counter[PlacementAction]] = defaultdict(Counter)
    for row in plan.placements:
        # Such objects count by effect only.
        if compute_effect(row) is not Effect.NOT_CREATED:
            counts[row.kind][_get_displayed_action(row)] += 1
    # The plan counts all kept objects, but only some of them have a row. Those without a
    # row are VMs.
    kept_rows = sum(actions[PlacementAction.KEEP] for actions in counts.values())
    kept_without_row = max(0, plan.figures.unchanged_count - kept_rows)
    counts[VM][PlacementAction.KEEP] += kept_without_row
    effects = count_effects(plan.placements)
    if kept_without_row:
        effects = (
            *effects,
            EffectCount(kind=VM, effect=Effect.UNCHANGED, state="", count=kept_without_row),
        )
    kinds = sorted((kind for kind in counts if counts[kind].total()), key=get_kind_order)
    if not kinds:
        return ()
    total = _build_summary("", sum(counts.values(), Counter()), effects)
    effects_by_kind = group_by(effects, lambda effect_count: effect_count.kind)
    if len(kinds) == 1:
        # The summary of the kind would repeat it.
        return (total,)
    return (
        total,
        *(_build_summary(kind, counts[kind], effects_by_kind.get(kind, ())) for kind in kinds),
    )


def _get_displayed_action(row: PlacementChange) -> PlacementAction:
    """Return the action to show.

    PLACE for an existing VM without a machine (its row is a move), else the row's own.
    """
    is_placed = row.kind == VM and compute_effect(row) is Effect.PLACED
    return PlacementAction.PLACE if is_placed else row.action


def _build_summary(
    kind: str, actions: Counter[PlacementAction], effects: Iterable[EffectCount]
) -> PlacementSummary:
    """Build the summary of a kind.

    The number of an action is the field with its name, such as `place`.
    """
    counts = {action.name.lower(): actions[action] for action in PlacementAction}
    return PlacementSummary(kind, effects=tuple(effects), **counts)


def find_pools_recreated_at_once(plan: Plan) -> frozenset[tuple[str, str, str]]:
    """Return the pools (site, cluster, name) with several nodes in a single batch and no surge."""
    pools = set()
    for upgrade in plan.impact.upgrades:
        for pool in upgrade.pools:
            # A single node is always one batch.
            if pool.vms > 1 and pool.batches == 1 and not pool.surges:
                pools.add((upgrade.site_id, upgrade.cluster, pool.pool))
    return frozenset(pools)


def build_placement_groups(
    plan: Plan,
    detail: ShownPlacements,
    location_formatter: LocationFormatter = format_location_text,
) -> tuple[PlacementLineGroup, ...]:
    """Return a group of lines per changed pool, or with `detail` ALL per pool, those of VMs first.

    `location_formatter` formats the locations on lines of a single object.
    """
    if detail is ShownPlacements.NONE:
        return ()  # -placements=none
    rows_by_pool = group_by(
        select_placement_rows(plan, detail),
        lambda row: _build_pool_key(row.site_id, row.address, row.cluster, row.kind, row.pool),
    )
    tables = {
        _build_pool_key(table.site_id, table.address, table.cluster, VM, table.pool): table
        for table in plan.figures.placement_tables
    }
    simultaneous_pools = find_pools_recreated_at_once(plan)
    format_cluster = build_cluster_formatter((*plan.figures.placement_tables, *list_vm_rows(plan)))
    groups = []
    for pool_key in dict.fromkeys([*tables, *rows_by_pool]):
        pool_rows = rows_by_pool.get(pool_key, [])
        if pool_rows or detail is ShownPlacements.ALL:
            # Pods, bindings and removed clusters have none.
            table = tables.get(pool_key)
            group = _build_pool_group(
                pool_rows, table, detail, location_formatter, simultaneous_pools
            )
            # VM names contain the cluster: add the site if several have such a one.
            if pool_rows and group.kind == VM:
                # `SITE/` or "".
                prefix = format_cluster(pool_rows[0]).removesuffix(pool_rows[0].cluster)
                group = replace(
                    group,
                    lines=tuple(replace(line, label=prefix + line.label) for line in group.lines),
                )
            groups.append(group)
    # VMs come first: reports show their lines without the name of the pool as a heading.
    return tuple(sorted(groups, key=lambda group: get_kind_order(group.kind)))


def _build_pool_key(
    site_id: str, address: Address, cluster: str, kind: str, pool: str
) -> tuple[str, str, str, str]:
    """Return the key for grouping rows by pool.

    Plain VMs (outside of clusters) are grouped by site and resource block: the block is their
    `cluster`. Other objects are grouped by the address of their resource instance.
    """
    if cluster == str(address.config_address):
        return (site_id, cluster, kind, pool)
    return ("", str(address), kind, pool)


def _build_pool_group(
    rows: Sequence[PlacementChange],
    table: PlacementTable | None,
    detail: ShownPlacements,
    location_formatter: LocationFormatter,
    simultaneous_pools: frozenset[tuple[str, str, str]],
) -> PlacementLineGroup:
    """Build the lines of a pool.

    Rows form a run if their lines differ only in names and locations. A run has one line. If
    `detail` is ALL, or for a few moves, each row has a line instead. `simultaneous_pools` are
    pools, as (site, cluster, name), with all nodes re-created at once. `table` is None for a pool
    without a table of VM counts.
    """
    # Without rows there is a table, and only VMs have tables.
    kind = rows[0].kind if rows else VM
    # Nodes re-created for one of these triggers share a line.
    recreation_triggers = _find_recreation_triggers(rows, detail) if kind == VM else frozenset()
    lines: list[PlacementLine] = []
    for run in group_by(
        rows, lambda row: _collect_line_contents(row, recreation_triggers)
    ).values():
        is_move = compute_effect(run[0]) is Effect.MOVED or _is_observed_elsewhere(run[0])
        max_single_lines = MAX_SINGLE_MOVES if is_move else 1
        if run[0].is_chosen_removal:
            lines.append(_build_choice_line(run, table))
        elif run[0].trigger in recreation_triggers:
            is_at_once = (run[0].site_id, run[0].cluster, run[0].pool) in simultaneous_pools
            lines.append(build_recreation_line(run, AT_ONCE if is_at_once else ""))
        elif detail is ShownPlacements.ALL or len(run) <= max_single_lines:
            lines += [_build_single_line(row, location_formatter) for row in run]
        else:
            lines.append(build_folded_line(sorted(run, key=_get_sort_key)))
    if table:
        name = f"{table.cluster}/{table.pool}"
    elif KINDS[kind].by_resource:
        name = str(rows[0].address)
    else:
        name = join_texts((rows[0].cluster, rows[0].pool), "/")
    return PlacementLineGroup(name=name, kind=kind, lines=tuple(lines), table=table)


def _find_recreation_triggers(
    rows: Iterable[PlacementChange], detail: ShownPlacements
) -> frozenset[str]:
    """Return the triggers of re-created nodes to show in one line.

    They are those of many nodes, and of any rolling upgrade.
    """
    if detail is ShownPlacements.ALL:
        # Every node has its own line.
        return frozenset()
    counts = Counter(row.trigger for row in rows)
    # Nodes of a rolling upgrade always share a line.
    maximums = {**dict.fromkeys(RECREATION_VERBS, MAX_SINGLE_MOVES), ROLLING: 0}
    return frozenset(trigger for trigger, maximum in maximums.items() if counts[trigger] > maximum)


def _collect_line_contents(
    row: PlacementChange, recreation_triggers: frozenset[str]
) -> tuple[object, ...]:
    """Return everything on the line of a row except its name and locations.

    It is equal in all rows of a run.
    """
    # A node re-created on the same machine is part of the same line as moved ones.
    effect = Effect.MOVED if row.trigger in recreation_triggers else compute_effect(row)
    doubt = format_uncertainty_mark(row)
    return (
        row.action.value,
        describe_trigger(row),
        _get_states(row),
        effect,
        describe_state(row),
        doubt,
        row.chosen_by,
        row.leaves_objects,
    )


def build_folded_line(run: Sequence[PlacementChange]) -> PlacementLine:
    """Build one line for several similar objects, `web-0..5  rack1 -> rack2`.

    The line has the label, origin and target of the objects. The rows have equal action, trigger,
    effect and states. If an update changes the state, the former state replaces the origin, and the
    new one precedes the target. The state of waiting objects (`Pending`) replaces the target.
    """
    first_row = run[0]
    # Both "" unless an update changes the state.
    state_before, state_after = _get_states(first_row)
    effect = compute_effect(first_row)
    state = describe_state(first_row)
    # The state of a re-created object is no waiting state, but a part of the verb: `predicted`.
    waiting_state = "" if effect is Effect.RECREATED else state
    has_origin = effect in _ORIGIN_EFFECTS or _is_observed_elsewhere(first_row)
    origin = _format_locations(first_row.kind, [row.source for row in run]) if has_origin else ""
    if effect is Effect.REMOVED and first_row.kind == VM and len(run) > MAXIMUM_NAMES:
        origin = _count_by_rack(row.source for row in run)
    target = _format_locations(first_row.kind, [row.target for row in run])
    # Both were shortened to the same racks, or both are empty.
    if origin == target:
        source_racks = _collect_racks(row.source for row in run)
        if source_racks and source_racks == _collect_racks(row.target for row in run):
            target = "the same racks"
    return PlacementLine(
        symbol=_SYMBOLS[_get_displayed_action(first_row)],
        action=_get_displayed_action(first_row),
        label=_format_run_label(run),
        effect=effect,
        origin=state_before or origin,
        target=waiting_state or join_texts((state_after, target), ": "),
        trigger=describe_trigger(first_row),
        count=len(run),
        state=state,
        doubt=format_uncertainty_mark(first_row),
        rows=tuple(run),
    )


def _count_by_rack(sources: Iterable[ObjectLocation | None]) -> str:
    """Format the racks of many VMs with their numbers: `8 racks, 3..5 per rack`."""
    counts = Counter(source.rack for source in sources if isinstance(source, Placement))
    if not counts:
        return ""
    racks = sorted(counts, key=compute_natural_sort_key)
    names = format_list(racks) if len(racks) <= MAXIMUM_NAMES else f"{len(racks):,} racks"
    lowest, highest = min(counts.values()), max(counts.values())
    each = f"{lowest:,}" if lowest == highest else f"{lowest:,}..{highest:,}"
    return f"{names}, {each} per rack"


def _build_choice_line(
    run: Sequence[PlacementChange], table: PlacementTable | None
) -> PlacementLine:
    """Build the line of VMs that the platform chooses: their number, and the racks of the pool.

    An example is `web/workers: 1 of 9 VMs  leaves r1, r2, r3 (scale_in; Azure chooses which)`.
    """
    row = run[0]
    count = len(run)
    before_count = count + (table.total_count if table is not None else 0)
    racks = list(table.rack_names) if table is not None else []
    return PlacementLine(
        symbol=_SYMBOLS[row.action],
        action=row.action,
        effect=compute_effect(row),
        label=f"{row.cluster}/{row.pool}: {count:,} of {before_count:,} VMs",
        origin=format_first_items(racks, MAXIMUM_NAMES),
        target="",
        trigger=f"{row.trigger}; {row.chosen_by} chooses which",
        count=count,
        rows=tuple(run),
    )


def build_recreation_line(run: Sequence[PlacementChange], state: str) -> PlacementLine:
    """Build one line for re-created nodes of a pool.

    Its target has counts in place and on other machines. The state of the line is AT_ONCE or "".
    """
    ordered = sorted(run, key=_get_sort_key)
    in_place = sum(compute_effect(row) is Effect.RECREATED for row in run)
    elsewhere = len(run) - in_place
    noun = select_word_form(elsewhere or in_place, "node", "nodes")
    counts = [(elsewhere, f"{noun} on other machines"), (in_place, "in place")]
    if not elsewhere:
        counts = [(in_place, f"{noun} in place")]
    return PlacementLine(
        symbol=_SYMBOLS[run[0].action],
        action=run[0].action,
        label=_format_run_label(ordered),
        # The effect counts for nodes in place, too.
        effect=Effect.MOVED,
        origin="",
        target=", ".join(format_counts(counts)),
        trigger=run[0].trigger,
        count=len(run),
        state=state,
        rows=tuple(ordered),
    )


def _get_states(row: PlacementChange) -> tuple[str, str]:
    """Return the states before and after of an updated object.

    Both are empty if equal, and for other actions.
    """
    if row.action is not PlacementAction.UPDATE or row.source is None or row.target is None:
        return "", ""
    get_state = KINDS[row.kind].get_state
    before = get_state(row.source)
    after = get_state(row.target)
    if before == after:
        return "", ""
    return before, after


def _get_sort_key(row: PlacementChange) -> tuple[int, int, str]:
    """Return the sort key of a row: numbers by value, then `for_each` keys as text."""
    number = _get_number_or_key(row)
    return (0, number, "") if isinstance(number, int) else (1, 0, number)


def _get_number_or_key(row: PlacementChange) -> int | str:
    """Return the number in the pool, or the instance key of a plain VM (outside of clusters)."""
    key = row.address.key
    # The `cluster` of a plain VM is its block.
    if key is None or row.cluster != str(row.address.config_address):
        return row.number
    return key


_ORIGIN_EFFECTS = (Effect.MOVED, Effect.UNPLACED, Effect.REMOVED, Effect.LOST, Effect.FORGOTTEN)
# Verbs before the location of departing objects: singular and plural.
_DEPARTURE_VERBS: Mapping[Effect, tuple[str, str]] = {
    Effect.REMOVED: ("removed from", "removed from"),
    Effect.LOST: ("loses", "lose"),
    Effect.FORGOTTEN: ("is forgotten and stays on", "are forgotten and stay on"),
}
# Objects without a node do not run.
_UNSCHEDULED_STATES = ("Pending", "SchedulingGated", "Failed")
_PENDING_DEPARTURE = ("is forgotten and stays", "are forgotten and stay")


def get_leaving_verb(line: PlacementLine) -> str:
    """Return the verb for objects removed, lost or forgotten, else "".

    It is `removed from`, `loses` or `is forgotten and stays on`.
    """
    if line.effect is Effect.REMOVED and not line.origin:
        return "removed"
    verbs = _DEPARTURE_VERBS.get(line.effect)
    if line.effect is Effect.FORGOTTEN:
        sources = [(KINDS[row.kind], row.source) for row in line.rows if row.source is not None]
        states = {kind.get_state(source) for kind, source in sources}
        # The origin is a state, not a location.
        if line.origin.partition(":")[0] in states.union(_UNSCHEDULED_STATES):
            verbs = _PENDING_DEPARTURE
    return select_word_form(line.count, *verbs) if verbs else ""


def _build_single_line(
    row: PlacementChange, location_formatter: LocationFormatter
) -> PlacementLine:
    """Build the line of one row.

    Its origin is shown only if the object leaves it, or was observed elsewhere. Its target carries
    the doubt about it, and the share of samples with the same machine.
    """
    effect = compute_effect(row)
    origin, target = _format_row_locations(row, location_formatter)
    # A move between nodes of one machine: only the long form has nodes.
    if effect is Effect.MOVED and origin == target:
        origin, target = _format_row_locations(row, format_location_text)
    # The formatted location includes the state.
    has_new_state = effect is Effect.UPDATED and origin != target
    if not (has_new_state or effect in _ORIGIN_EFFECTS or _is_observed_elsewhere(row)):
        origin = ""
    # `or n0 if b arrives first`, "" if unknown.
    other_location = enclose("or ", row.scores.get("otherwise"))
    return PlacementLine(
        symbol=_SYMBOLS[_get_displayed_action(row)],
        action=_get_displayed_action(row),
        effect=effect,
        label=f"{row.object}{enclose(' [', row.platform_name, ']')}",
        origin=origin,
        target=target,
        trigger=describe_trigger(row),
        state=describe_state(row),
        doubt=other_location or format_uncertainty_mark(row),
        machine_share=row.certainty.machine if row.certainty is not None else None,
        rows=(row,),
    )


def get_action_text(line: PlacementLine) -> str:
    """Return the text before the location of objects shown without an origin.

    Examples are `re-created in place:` and `stays`. The state of a waiting object follows without a
    colon: `stays Pending`. Return "" before `Failed`.
    """
    if line.trigger in RECREATION_VERBS and line.effect is Effect.MOVED:
        # The state, if any, is AT_ONCE.
        return line.state or RECREATION_VERBS[line.trigger]
    match line.effect:
        case Effect.RECREATED:
            return f"{describe_placement_effect(Effect.RECREATED, line.state)}:"
        case Effect.WAITING | Effect.STILL_WAITING if line.target == "Failed":
            # The state needs no verb, unlike `stays Pending`.
            return ""
        case Effect.WAITING | Effect.STILL_WAITING:
            return select_word_form(line.count, "stays", "stay")
        case Effect.NOT_CREATED:
            return format_effect_verb(line.effect, state="", count=line.count)
        case _:
            # It is kept or updated at its location, the target of the line.
            return select_word_form(line.count, "stays:", "stay:")


def _is_observed_elsewhere(row: PlacementChange) -> bool:
    """Return whether a kept VM was observed at another location than in the state.

    Other kept VMs have no trigger.
    """
    return row.kind == VM and row.action is PlacementAction.KEEP and bool(row.trigger)


def _format_row_locations(
    row: PlacementChange, location_formatter: LocationFormatter
) -> tuple[str, str]:
    """Return the origin and the target of a row as text, "" for none.

    Some kinds have a short form next to a name.
    """
    origin, target = (
        (KINDS[row.kind].format_next_to_name(location, row.object) or location_formatter(location))
        if location
        else ""
        for location in (row.source, row.target)
    )
    return origin, target


def _format_run_label(rows: Sequence[PlacementChange]) -> str:
    """Return the names of objects as `prefix-0..3,5`.

    Without a common prefix return all names, or for many the first one: `a and 7 more`. For a kind
    without numbered names return `3 clusters`.
    """
    run_noun = KINDS[rows[0].kind].run_noun
    if run_noun:
        return format_count(len(rows), run_noun)
    prefix = _get_name_prefix(rows[0])
    if prefix is not None and set(map(_get_name_prefix, rows)) == {prefix}:
        numbers = sorted(int(row.object.removeprefix(prefix)) for row in rows)
        return f"{prefix}{format_ranges(numbers)}"
    if len(rows) <= MAXIMUM_NAMES:
        return ", ".join(row.object for row in rows)
    return f"{rows[0].object} and {len(rows) - 1} more"


def _get_name_prefix(row: PlacementChange) -> str | None:
    """Return the name of an object without its final number; None if it does not end with it."""
    number = _get_number_or_key(row)
    if isinstance(number, int) and row.object.endswith(str(number)):
        return row.object[: -len(str(number))]
    return None


def _format_locations(kind: str, locations: Iterable[ObjectLocation | None]) -> str:
    """Format the locations of several objects of one kind in short form."""
    return KINDS[kind].format_many([location for location in locations if location is not None])


def _collect_racks(locations: Iterable[ObjectLocation | None]) -> set[str]:
    """Return the names of the racks; locations other than machines have none."""
    return {location.rack for location in locations if isinstance(location, Placement)}


def format_alternatives(numbers: Iterable[int]) -> str:
    """Format distinct numbers in ascending order: `3`, `3 or 4`, `3, 4 or 5`; `0` without any."""
    *first_texts, last_text = map(str, sorted(set(numbers) or {0}))
    return f"{', '.join(first_texts)} or {last_text}" if first_texts else last_text


def _format_vms_per_rack(table: PlacementTable) -> str:
    """Return the numbers of VMs per rack: `3 or 4`, or `0 to 2` if the platform chooses."""
    if not table.possible_vms_per_rack:
        return format_alternatives(table.actual_vms_per_rack.values())
    numbers = list(chain.from_iterable(table.rack_counts.values()))
    return str(Interval(min(numbers), max(numbers)))


def build_table_row(table: PlacementTable) -> tuple[str, ...]:
    """Return the eight cells of a pool in the placement table.

    They are cluster and pool to actual VMs per rack.
    """
    return (
        table.cluster,
        table.pool,
        table.vm_sku_name,
        f"{table.total_count:,}",
        str(table.expected_racks),
        str(table.actual_racks),
        format_alternatives(table.expected_vms_per_rack),
        _format_vms_per_rack(table),
    )
