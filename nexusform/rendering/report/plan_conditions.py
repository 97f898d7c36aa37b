"""Lines about a plan as a whole.

They are about machines out of service, machine actions, and the feasibility of each placement.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from textwrap import shorten
from typing import Final

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
from nexusform.placements.consequences import ConsequenceSeverity
from nexusform.plans.maintenance import PlannedMachineAction
from nexusform.plans.plan import (
    Action,
    Feasibility,
    FeasibilityResult,
    LossEffect,
    PlacementAction,
    Plan,
)
from nexusform.plans.site_capacity.occupancy import (
    OutOfService,
    SiteVms,
    list_out_of_service,
    select_largest_sku_rows,
)
from nexusform.resource_types.machine_facts import CORDON_FACTS, ROLES
from nexusform.scheduling.racks.vms import UNKNOWN_STATE

_MAX_CLUSTERS: Final = 3
_MAX_REASON: Final = 160


def describe_feasibility(plan: Plan) -> Iterator[str]:
    """Yield lines on the clusters able to run the workloads of placements.

    First a placement has a line on its selected clusters: `payments: runs on 3 of 4; west needs 2
    more nodes in pool workers (...)`. If several placements run on all their selected clusters,
    these placements share a line. Clusters on which nothing is known share a line, if the plan
    changes their placement. Lines on tested fixes, lost machines and racks, and unselected clusters
    follow, if known.
    """
    by_selection = group_by(plan.workloads.feasibility, lambda row: row.is_selected)
    selected = by_selection.get(True, [])
    placements = group_by(
        (row for row in selected if not _is_unknown(row)), lambda row: row.placement
    )
    # On some cluster.
    incomplete = {row.placement for row in selected if row.result is not FeasibilityResult.RUNS}
    unknown_counts = Counter(row.placement for row in selected if _is_unknown(row))
    complete = [address for address in placements if address not in incomplete]
    has_shared_line = len(complete) > 1
    if has_shared_line:
        names = format_list(address.name_with_keys for address in complete)
        # Several placements may select the same cluster.
        bindings = format_count(sum(len(placements[address]) for address in complete), "binding")
        yield f"{names}: run on all selected clusters ({bindings})"
    for address, rows in placements.items():
        if address in incomplete or not has_shared_line:
            text = describe_placement_feasibility(rows, unknown_counts[address])
            yield f"{address.name_with_keys}: {text}"
    yield from _describe_unknown_clusters(plan, filter(_is_unknown, selected))
    yield from describe_suggested_fixes(selected)
    if plan.workloads.untested_bindings:
        bindings = format_count(plan.workloads.untested_bindings, "binding")
        yield (
            f"Fixes not tested for {bindings} with waiting pods: the plan is large (-details "
            "tests up to 12)"
        )
    for address, rows in placements.items():
        yield from _describe_loss_effects(address.name_with_keys, rows)
    for address, unselected_rows in group_by(
        by_selection.get(False, []), lambda row: row.placement
    ).items():
        yield (
            f"{address.name_with_keys}, clusters not selected: "
            f"{'; '.join(map(describe_unselected_cluster, unselected_rows))}"
        )


def describe_suggested_fixes(rows: Iterable[Feasibility]) -> Iterator[str]:
    """Yield a line per suggested fix, with the bindings that run after it; lasting losses last."""
    fixes = [(fix, row) for row in rows for fix in row.suggested_fixes]
    fixes.sort(key=lambda pair: ConsequenceSeverity(pair[0]["severity"]).rank)
    for text, pairs in group_by(fixes, lambda pair: str(pair[0]["text"])).items():
        names = format_first_items(
            [f"{row.placement.name_with_keys} on {row.cluster}" for _, row in pairs], _MAX_CLUSTERS
        )
        yield f"Suggested fix (tested) for {names}: {text}"


_LOSS_EFFECTS: Final[Mapping[str, Callable[[Feasibility], LossEffect | None]]] = {
    "machine": lambda row: row.one_machine_down,
    "rack": lambda row: row.one_rack_down,
}


def _describe_loss_effects(name: str, rows: Sequence[Feasibility]) -> Iterator[str]:
    """Yield a line on the loss of one machine, and one on the loss of one rack.

    Losses that were not computed have no line.

    A line lists the clusters with pods left without a node.
    """
    for hardware, get_effect in _LOSS_EFFECTS.items():
        effects = {row.cluster: get_effect(row) for row in rows}
        # None: not computed.
        if not any(effects.values()):
            continue
        clauses = []
        for cluster, effect in effects.items():
            if effect is not None and effect.waiting_pods:
                pods = f"{format_count(effect.waiting_pods, 'pod')} of {cluster}"
                verb = select_word_form(effect.waiting_pods, "has", "have")
                clauses.append(f"{pods} {verb} no node without {effect.lost}")
        text = format_first_items(clauses, _MAX_CLUSTERS, "; ") or "all pods have a node"
        yield f"{name}, one {hardware} down: {text}"


def describe_unselected_cluster(row: Feasibility) -> str:
    """Describe the feasibility on an unselected cluster: `west would run it`."""
    # None if it runs.
    describe = _DESCRIPTIONS.get(row.result)
    return describe(row) if describe is not None else f"{row.cluster} would run it"


def _is_unknown(row: Feasibility) -> bool:
    """Return whether nothing is known about a binding."""
    return row.result is FeasibilityResult.UNKNOWN and not row.is_waiting


def _describe_unknown_clusters(plan: Plan, rows: Iterable[Feasibility]) -> Iterator[str]:
    """Yield one line on the clusters of changed placements on which nothing is known, and why."""
    changed = {change.address for change in plan.changes if change.action is not Action.NO_OP}
    # A kept placement with a trigger is observed to change.
    changed |= {
        row.address
        for row in plan.placements
        if row.action is not PlacementAction.KEEP or row.trigger
    }
    clauses: list[str] = []
    by_reason = group_by(
        (row for row in rows if row.placement in changed), _format_truncated_reason
    )
    for reason, equal_rows in by_reason.items():
        names = [
            f"{address.name_with_keys} runs on "
            f"{format_first_items([row.cluster for row in members], _MAX_CLUSTERS)}"
            for address, members in group_by(equal_rows, lambda row: row.placement).items()
        ]
        clauses.append(f"{format_first_items(names, _MAX_CLUSTERS)} ({reason})")
    if clauses:
        yield f"Not known: whether {'; '.join(clauses)}"


def describe_placement_feasibility(rows: Sequence[Feasibility], unknown_count: int = 0) -> str:
    """Return `runs on 3 of 4` clusters, then the other clusters by result.

    `unknown_count` further clusters are unknown.
    """
    rows_by_result = group_by(rows, lambda row: row.result)
    running_count = len(rows_by_result.get(FeasibilityResult.RUNS, []))
    clauses = [f"runs on {running_count:,} of {len(rows):,}"]
    if unknown_count:
        clauses = [f"runs on {running_count:,} of {len(rows):,} known clusters"]
    for result, describe in _DESCRIPTIONS.items():
        if result in rows_by_result:
            clauses.append(
                format_first_items(list(map(describe, rows_by_result[result])), _MAX_CLUSTERS, "; ")
            )
    return "; ".join(clauses)


def _describe_missing_nodes(row: Feasibility) -> str:
    """Return `west needs 2 more nodes in pool workers (site capacity: yes)`.

    The pool may be unknown.
    """
    nodes = []
    for pool, count in row.missing_pools.items():
        nodes.append(f"{format_count(count, 'more node')}{enclose(' in pool ', pool)}")
    return f"{row.cluster} needs {format_list(nodes)} (site capacity: {row.site_capacity})"


def _format_truncated_reason(row: Feasibility) -> str:
    """Return the reason on one line; "..." replaces the end of a long one."""
    return shorten(row.reason.rstrip("."), _MAX_REASON, placeholder=" ...", break_on_hyphens=False)


_DESCRIPTIONS: Final[Mapping[FeasibilityResult, Callable[[Feasibility], str]]] = {
    FeasibilityResult.RUNS_AFTER: _describe_missing_nodes,
    FeasibilityResult.WAITS: lambda row: f"{row.cluster} waits for {_format_truncated_reason(row)}",
    FeasibilityResult.REJECTED: lambda row: (
        f"{row.cluster} rejects it ({_format_truncated_reason(row)})"
    ),
    FeasibilityResult.CANNOT_RUN: lambda row: (
        f"{row.cluster} cannot run it ({_format_truncated_reason(row)})"
    ),
    FeasibilityResult.UNKNOWN: lambda row: (
        f"{row.cluster} is unknown ({_format_truncated_reason(row)})"
    ),
}

_MAX_VMS: Final = 6
_MINUTES_PER_HOUR: Final = 60


def describe_machine_actions(plan: Plan) -> Iterator[str]:
    """Yield a line per site with several actions, and a line per action.

    An example is `Window 1 on lab: Restart ...`.
    """
    for _, group in groupby(plan.impact.machine_actions, key=lambda action: action.site_id):
        actions = list(group)
        if len(actions) > 1:
            total = _format_minutes(sum(action.minutes for action in actions))
            yield (
                f"Machine actions on {actions[0].site}: {len(actions):,}, one after another, up to "
                f"{total}."
            )
        yield from map(_describe_action, actions)


_REPLACE: Final = "Replace"
_DISKS: Final[Mapping[str, str]] = {
    "Preserve": "Azure keeps the data on its disks (storagePolicy Preserve).",
    "DiscardAll": "Azure clears its disks (storagePolicy DiscardAll).",
}
_UNSET_DISKS: Final = (
    "Its disks may be cleared: set storagePolicy in the azure block to Preserve or DiscardAll."
)


def _describe_action(action: PlannedMachineAction) -> str:
    """Return sentences on the maintenance window of an action.

    They have its time, the VMs to move before, and the VMs stopped in it.
    """
    limit = _format_minutes(action.minutes)
    sentences = [
        (
            f"Window {action.window} on {action.site}: {action.action} of {action.machine}, up to "
            f"{limit}."
        )
    ]
    if action.leaving_vms:
        moves = [
            f"{vm.name} to {vm.machine}" if vm.machine else f"{vm.name} (removed)"
            for vm in action.leaving_vms
        ]
        sentences.append(
            f"{_format_list('VM leaves', 'VMs leave', moves)} first. Moved VMs do not return by "
            "themselves."
        )
    if action.stopped_vms:
        end = "stay down until a start of the machine" if action.leaves_off else "start again there"
        sentences.append(
            f"{_format_list('VM stops', 'VMs stop', action.stopped_vms)}. Stopped VMs {end}."
        )
    if action.action == _REPLACE:
        sentences.append(_DISKS.get(action.options.get("storagePolicy", ""), _UNSET_DISKS))
    if action.options.get("safeguardMode") == "None":
        sentences.append("Azure skips its safeguards (safeguardMode None).")
    if not action.is_disruptive:  # a cordon
        sentences.append("No VM stops. The machine takes no new VM.")
    elif not (action.leaving_vms or action.stopped_vms):
        sentences.append("No VM runs there.")
    return " ".join(sentences)


def _format_list(singular: str, plural: str, names: Sequence[str]) -> str:
    """Format `3 VMs leave (a, b, c)`; a long list ends with the number of further names."""
    return f"{format_count(len(names), singular, plural)} ({format_first_items(names, _MAX_VMS)})"


def _format_minutes(minutes: int) -> str:
    """Format `40 min`, `3 h` or `3 h 40 min`."""
    hours, rest = divmod(minutes, _MINUTES_PER_HOUR)
    return join_texts((f"{hours:,} h" if hours else "", enclose("", rest, " min")), " ")


_MAX_GROUPS: Final = 5
_AZURE: Final = "azure"
_OWNERS: Final = {"nexusform": "nexusform", _AZURE: "Azure"}
_AZURE_RULE: Final = (
    "Azure cordons a degraded compute machine after 15 minutes. Azure uncordons a recovered "
    "machine after 2 hours."
)


def describe_out_of_service(plan: Plan) -> Iterator[str]:
    """Yield a line per site with its machines out of service by reason.

    The line has the capacity without them. An example is `Out of service: 5 of 16 machines (4 Off:
    BMC unreachable; ...). Capacity ...`.
    """
    sites = {site.id: site for site in plan.site_records.sites}
    capacities = {
        row.site_id: after for row, after in select_largest_sku_rows(plan.site_records.capacity)
    }
    for site_id, rows in group_by(
        list_out_of_service(plan.site_records.sites), lambda row: row.site_id
    ).items():
        site = sites[site_id]
        scope = f" on {site.name}" if len(sites) > 1 else ""
        total = _count_compute_machines(site)
        reasons = "; ".join(_count_by_reason(rows))
        sentences = [f"Out of service{scope}: {len(rows):,} of {total:,} machines ({reasons})."]
        if site_id in capacities:
            capacity = capacities[site_id]
            after_rack_loss = capacity.free_interval_after_rack_loss
            sentences.append(
                f"Capacity without them: {capacity.free_interval} ({after_rack_loss} with one "
                "rack down)."
            )
        if any(row.status.cordoned_by == _AZURE for row in rows):
            sentences.append(_AZURE_RULE)
        yield " ".join(sentences)


def _count_by_reason(rows: Iterable[OutOfService]) -> list[str]:
    """Count machines by reason, most first.

    Examples are `4 Off: BMC unreachable` and `1 cordoned by Azure: Degraded: port down`.
    """
    counts = Counter(_describe_machine(row) for row in rows)
    # By count, then by text.
    ordered = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
    hidden_count = sum(count for _, count in ordered[_MAX_GROUPS:])
    return [
        *(f"{count:,} {text}" for text, count in ordered[:_MAX_GROUPS]),
        *format_counts([(hidden_count, "more")]),
    ]


def _count_compute_machines(site: SiteVms) -> int:
    """Count the compute machines of a site after the plan, without planned racks.

    The roles of other machines exclude VMs.
    """
    planned_racks = {rack.name for rack in site.racks if rack.is_planned}
    return sum(
        machine.exists_after
        and machine.facts.rack not in planned_racks
        and not any(reason.fact == ROLES for reason in machine.facts.unschedulable_reasons)
        for machine in site.machines
    )


def _describe_machine(row: OutOfService) -> str:
    """Return the main reason for a machine to be out of service, and the message.

    The reason is a word such as `Off`; the platform reports the message.
    """
    status = row.status
    reason = row.main_reason
    if reason.fact in CORDON_FACTS and reason.value != UNKNOWN_STATE:
        text = f"cordoned by {_OWNERS.get(str(status.cordoned_by), 'another manager')}"
    else:
        text = reason.title or reason.text
    return f"{text}: {status.message.rstrip('.')}" if status.message else text
