"""Reports of `simulate placement` and `simulate rebalance`."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from nexusform.diagnostics.phrases import enclose, format_count, format_list, select_word_form
from nexusform.domains.whatif.questions.placement_trials import (
    MAX_TRIALS,
    NAME,
    PlacementPolicy,
    RebalanceResult,
    SimulatedPlacement,
)
from nexusform.plans.plan import (
    Feasibility,
    FeasibilityResult,
    LossEffect,
    PlacementAction,
    Plan,
    RejectedCluster,
)
from nexusform.rendering.report.plan_conditions import (
    describe_placement_feasibility,
    describe_suggested_fixes,
    describe_unselected_cluster,
)
from nexusform.rendering.report.report_tree import CodeBlock, Report, Row, Section, Table

_FEASIBILITY_COLUMNS = (
    "cluster",
    "result",
    "missing nodes",
    "pool",
    "site capacity",
    "replicas",
    "at most",
)
_LOSS_COLUMNS = ("waiting, machine down", "waiting, rack down")
_EVICTION_COLUMNS = ("order", "evict", "from", "then on", "policy")


class PlacementFeasibility(Struct, frozen=True):
    """Bindings of a simulated placement, its rejected clusters, and other bindings.

    `others` are the bindings of other placements unable to run beside it. `candidates` are the
    rejected clusters with known nodes. `missing` describes the requested clusters without a binding
    ("" = none).
    """

    bindings: Sequence[Feasibility]
    rejected: Sequence[RejectedCluster]
    others: Sequence[Feasibility]
    candidates: Sequence[Feasibility]
    missing: str = ""

    @property
    def has_findings(self) -> bool:
        """Whether the placement runs on fewer clusters than requested or selected, or on none."""
        is_complete = bool(self.bindings) and not self.missing
        return not is_complete or any(
            row.result is not FeasibilityResult.RUNS for row in self.bindings
        )


def select_placement(plan: Plan, trial: SimulatedPlacement) -> PlacementFeasibility:
    """Select the rows of a plan about the simulated placement (named NAME).

    They are its bindings and rejected clusters, and the bindings of other placements unable to run.
    `missing` describes requested clusters without a binding: by name if the placement lists
    clusters, by number if it has a count.
    """
    # Names of clusters.
    selected = {
        row.object
        for row in plan.placements
        if row.kind == "binding"
        and row.action is PlacementAction.PLACE
        and row.address.name == NAME
    }
    unselected = [
        cluster for cluster in dict.fromkeys(trial.clusters) if cluster not in selected
    ]  # PickFixed
    missing = enclose("not selected: ", format_list(unselected))
    if trial.count is not None and trial.count > len(selected):
        missing = (
            f"{trial.count - len(selected):,} of {format_count(trial.count, 'requested cluster')} "
            "are missing"
        )
    bindings: list[Feasibility] = []
    candidates: list[Feasibility] = []
    others: list[Feasibility] = []
    for row in plan.workloads.feasibility:
        if row.placement.name == NAME:
            rows = bindings if row.is_selected else candidates
            rows.append(row)
        elif row.is_selected and row.result is not FeasibilityResult.RUNS:
            others.append(row)
    rejected = [row for row in plan.workloads.rejected_clusters if row.address.name == NAME]
    return PlacementFeasibility(bindings, rejected, others, candidates, missing)


def build_placement_report(answer: PlacementFeasibility, path: str) -> Report:
    """Build the report of one placement."""
    title = f"Placement of {path} (with the configuration of this directory)"
    verdict = "no cluster is selected, or the manifests have no pods"
    if answer.bindings:
        verdict = describe_placement_feasibility(answer.bindings)
    prefix = enclose("", answer.missing, "; ")
    sections = tuple(_build_placement_sections(answer))
    return Report(title, f"{prefix}{verdict}.", is_finding=answer.has_findings, sections=sections)


def _build_placement_sections(answer: PlacementFeasibility) -> list[Section]:
    """Build the sections: clusters, fixes, other placements, and rejections.

    The other placements are unable to run. Rejected clusters come last.
    """
    sections = []
    if answer.bindings:
        rows = tuple(map(_build_feasibility_row, answer.bindings))
        columns = (*_FEASIBILITY_COLUMNS, *_LOSS_COLUMNS, "reason")
        table = Table(columns, rows, number_columns=frozenset({2, 5, 6, 7, 8}))
        sections.append(Section("Clusters", table=table, name="clusters"))
    fixes = tuple(describe_suggested_fixes(answer.bindings))
    if fixes:
        sections.append(Section(title="", lines=fixes, name="suggested_fixes"))
    if answer.others:
        title = f"{format_count(len(answer.others), 'binding')} of other placements do not run"
        lines = tuple(
            f"{row.placement.name_with_keys} on {row.cluster}: {row.result} ({row.reason})"
            for row in answer.others
        )
        sections.append(Section(title, lines, is_finding=True, name="other_placements"))
    if answer.rejected:
        # A rejected cluster with known nodes has a note: whether the pods would run there.
        notes = {row.cluster: f" ({describe_unselected_cluster(row)})" for row in answer.candidates}
        rejections = tuple(
            f"{row.cluster}: {row.reason}{notes.get(row.cluster, '')}" for row in answer.rejected
        )
        sections.append(Section("Rejected clusters", rejections))
    return sections


def _build_feasibility_row(row: Feasibility) -> Row:
    """Build the row of a cluster, with "" for an unknown number.

    It is a finding unless all pods run there.
    """
    missing = "" if row.missing_nodes is None else str(row.missing_nodes)
    maximum = "" if row.replicas_max is None else str(row.replicas_max)
    # For the missing nodes.
    capacity = row.site_capacity if row.result is FeasibilityResult.RUNS_AFTER else ""
    # "" for one or none.
    several_pools = ", ".join(f"{pool} {count}" for pool, count in row.missing_by_pool.items())
    pools = several_pools or row.pool
    cells = (
        row.cluster,
        row.result.value,
        missing,
        pools,
        capacity,
        str(row.replicas_requested),
        maximum,
    )
    losses = (_format_loss_effect(row.one_machine_down), _format_loss_effect(row.one_rack_down))
    return Row((*cells, *losses, row.reason), is_finding=row.result is not FeasibilityResult.RUNS)


def _format_loss_effect(effect: LossEffect | None) -> str:
    """Format the waiting pods and the lost hardware: `2 (rack1)`, `0`, or `unknown`."""
    if effect is None:
        return "unknown"
    return f"{effect.waiting_pods} ({effect.lost})" if effect.waiting_pods else "0"


def build_rebalance_report(
    result: RebalanceResult, evictions: str, taints: str, path: str
) -> Report:
    """Build the report.

    `evictions` and `taints` are HCL texts, written to `path` ("": to no file).
    """
    sections = tuple(_build_rebalance_sections(result, evictions, taints, path))
    # Pods wait, and no evictions help.
    has_no_help = bool(result.waiting_bindings) and result.trial is None
    # With unknown pods, other pods may wait.
    is_finding = bool(result.before.unknown) or has_no_help or _is_nothing_known(result)
    title = "Rebalancing of placements (from the state)"
    return Report(title, _format_verdict(result), is_finding, sections=sections)


def _format_verdict(result: RebalanceResult) -> str:
    """Format the answer in a sentence: not known, not needed, found, not found, or impossible."""
    if not result.waiting_bindings and result.before.unknown:
        count = format_count(len(result.before.unknown), "binding")
        verb = select_word_form(len(result.before.unknown), "is", "are")
        return f"Not known whether pods wait: {count} {verb} unknown, listed below."
    if _is_nothing_known(result):
        return "Not known whether pods wait: no pods of these placements are known."
    if not result.waiting_bindings:
        return _format_unneeded(result)
    waiting = format_count(len(result.waiting_bindings), "binding")
    if result.trial is not None:
        count = format_count(len(result.trial.evictions), "eviction")
        taints = format_count(len(result.trial.tainted_clusters), "taint")
        addition = f" and {taints}" if result.trial.tainted_clusters else ""
        return f"{count}{addition} let the pods of {waiting} run."
    if not result.is_proven:
        return f"No evictions found for {waiting} with waiting pods; the search ended at its limit."
    return f"No evictions help {waiting} with waiting pods."


def _is_nothing_known(result: RebalanceResult) -> bool:
    """Return whether there are bindings, and the plan knows the pods of none of them."""
    has_known_pods = result.running_bindings or result.waiting_bindings or result.before.unknown
    return bool(result.bindings_without_known_pods) and not has_known_pods


def _format_unneeded(result: RebalanceResult) -> str:
    """Say why no eviction is needed, and of which bindings this is known."""
    if not result.running_bindings:
        return "No eviction is needed: there are no placements with pods."
    running = format_count(len(result.running_bindings), "binding")
    parts = [f"No eviction is needed: the pods of {running} run."]
    if result.others_waiting:
        count = format_count(len(result.others_waiting), "other binding")
        verb = select_word_form(len(result.others_waiting), "waits", "wait")
        parts.append(f"{count} {verb}, listed below.")
    if result.bindings_without_known_pods:
        count = format_count(len(result.bindings_without_known_pods), "binding")
        verb = select_word_form(len(result.bindings_without_known_pods), "has", "have")
        parts.append(f"{count} {verb} no known pods, listed below.")
    return " ".join(parts)


def _build_rebalance_sections(
    result: RebalanceResult, evictions: str, taints: str, path: str
) -> Iterator[Section]:
    """Build the sections: evictions with proof and HCL, or else reasons.

    Waiting and unknown bindings follow.
    """
    if result.trial is not None:
        rows = []
        for number, item in enumerate(result.trial.evictions, 1):
            targets = list_newly_picked_clusters(result, str(item.address))
            cells = (
                str(number),
                item.placement,
                item.cluster,
                ", ".join(targets) or "no cluster",
                item.policy.value,
            )
            rows.append(Row(cells))
        table = Table(_EVICTION_COLUMNS, tuple(rows), number_columns=frozenset({0}))
        yield Section("Evictions, in this order", table=table, name="evictions")
        yield Section("Proof", (describe_minimality_proof(result),))
        if taints:
            yield Section(
                "Taints (override file)",
                (_explain_taints(result),),
                code=CodeBlock(taints, "hcl"),
                name="taints",
            )
        yield Section(
            "Configuration",
            (f"Written to {path}.",) if path else (),
            code=CodeBlock(evictions, "hcl"),
        )
    elif result.waiting_bindings:
        yield Section("Reasons", tuple(list_failure_reasons(result)), is_finding=True)
    if result.trial is None:
        yield from _build_binding_section("Waiting pods", result.waiting_bindings)
    yield from _build_binding_section(
        "Pods outside of the question still waiting", result.others_waiting
    )
    yield from _build_binding_section("Unknown", result.before.unknown)
    names = tuple(
        f"{item.placement} on {item.cluster}" for item in result.bindings_without_known_pods
    )
    if names:
        yield Section("No known pods", names)


def _build_binding_section(title: str, rows: Sequence[Feasibility]) -> list[Section]:
    """Build a section with a line for each binding and its reason; none without bindings."""
    lines = tuple(f"{row.placement.name_with_keys} on {row.cluster}: {row.reason}" for row in rows)
    return [Section(title, lines)] if lines else []


def list_newly_picked_clusters(result: RebalanceResult, address: str) -> list[str]:
    """Return the clusters picked by a placement after the evictions and not before."""
    after = result.best.clusters.get(address, frozenset())
    before = result.before.clusters.get(address, frozenset())
    return sorted(after - before)


def describe_minimality_proof(result: RebalanceResult) -> str:
    """Return why fewer evictions are not enough."""
    assert result.trial is not None
    size = len(result.trial.evictions)
    # Plans with fewer evictions.
    tried = sum(result.trial_counts[:size])
    if size == 1:
        return "Without an eviction the pods keep waiting, so one is the minimum."
    plans = format_count(tried, "plan")
    return (
        f"Fewer do not suffice: every set of at most {format_count(size - 1, 'eviction')} able to "
        "help was planned "
        f"({plans}), and pods keep waiting. A waiting pod needs an eviction on its own cluster."
    )


def _explain_taints(result: RebalanceResult) -> str:
    """Explain the taints by the placements picked again on the same cluster without them."""
    assert result.trial is not None
    returning = [
        item for item in result.trial.evictions if item.cluster in result.trial.tainted_clusters
    ]
    names = ", ".join(f"{item.placement} ({item.policy})" for item in returning)
    leaving = [item.placement for item in returning if item.policy is PlacementPolicy.PICK_ALL]
    loss = enclose(
        " ",
        format_list(leaving),
        f" {select_word_form(len(leaving), 'runs', 'run')} on one cluster less.",
    )
    return (
        f"Without a taint the hub picks the same cluster again for {names}.{loss} Other placements "
        "cannot come to a tainted cluster. Without the taint, a PickAll placement returns."
    )


def list_failure_reasons(result: RebalanceResult) -> Iterator[str]:
    """Yield why no evictions help."""
    for item in result.fixed:
        yield f"{item.placement} on {item.cluster} cannot be evicted: its policy is PickFixed."
    for text in result.rejections:
        yield f"The hub rejects an eviction: {text}"
    for cluster in result.untaintable:
        yield (
            f"An evicted placement returns to {cluster} at once. The taint needs a "
            "fleet_member_cluster block of "
            f"{cluster} in the root module, with a literal name, without count and for_each."
        )
    for text in result.interruptions:
        yield f"Pods wait between two evictions. After {text}."
    if not result.candidates:
        yield "No binding can be evicted."
    elif result.is_proven:
        yield (
            "Every set of evictions able to help was planned "
            f"({format_count(sum(result.trial_counts), 'plan')})."
        )
    else:
        yield (
            f"The search ended after {format_count(sum(result.trial_counts), 'plan')} (limit: "
            f"{MAX_TRIALS})."
        )
