"""Report of `simulate rebalance`, as text and as data."""

from collections.abc import Iterator, Sequence
from typing import Any

from nexusform.diagnostics.phrases import enclose, format_count
from nexusform.domains.whatif.questions.eviction_search import (
    MAX_TRIALS,
    EvictionProposal,
    PlacementPolicy,
    RebalanceResult,
)
from nexusform.plans.plan import Feasibility
from nexusform.rendering.json.json_placements import FEASIBILITY_FORM
from nexusform.rendering.report.report_tree import CodeBlock, Report, Row, Section, Table

_COLUMNS = ("order", "evict", "from", "then on", "policy")


def build_rebalance_report(result: RebalanceResult, evictions: str, taints: str, path: str) -> Report:
    """Build the report; `evictions` and `taints` are the configuration, generated at `path` ("": nowhere)."""
    sections = tuple(_build_sections(result, evictions, taints, path))
    is_finding = bool(result.before.unknown) or (bool(result.waiting_bindings) and result.trial is None)
    return Report("Rebalancing of placements (from the state)", _format_verdict(result), is_finding, (), sections)


def _format_verdict(result: RebalanceResult) -> str:
    """Format the answer in a sentence: not known, not needed, found, not found, or impossible."""
    if not result.waiting_bindings and result.before.unknown:
        count = format_count(len(result.before.unknown), "binding")
        return f"Not known whether pods wait: the nodes of {count} are not known."
    if not result.waiting_bindings:
        return "No eviction is needed: no pods are waiting."
    waiting = format_count(len(result.waiting_bindings), "binding")
    if result.trial is not None:
        count = format_count(len(result.trial.evictions), "eviction")
        taints = format_count(len(result.trial.tainted_clusters), "taint")
        addition = f" and {taints}" if result.trial.tainted_clusters else ""
        return f"{count}{addition} let the pods of {waiting} run."
    if not result.is_proven:
        return f"No evictions found for {waiting} with waiting pods; the search ended at its limit."
    return f"No evictions help {waiting} with waiting pods."


def _build_sections(result: RebalanceResult, evictions: str, taints: str, path: str) -> Iterator[Section]:
    """Build the sections: a trial's evictions, proof and configuration, or reasons; waiting and unknown bindings."""
    if result.trial is not None:
        rows = []
        for number, item in enumerate(result.trial.evictions, 1):
            targets = list_newly_picked_clusters(result, str(item.address))
            cells = (str(number), item.placement, item.cluster, ", ".join(targets) or "no cluster", item.policy.value)
            rows.append(Row(cells))
        yield Section("Evictions, in this order", table=Table(_COLUMNS, tuple(rows), frozenset({0})))
        yield Section("Proof", (describe_minimality_proof(result),))
        if taints:
            yield Section("Taints (override file)", (_explain_taints(result),), code=CodeBlock(taints, "hcl"))
        yield Section("Configuration", (f"Written to {path}.",) if path else (), code=CodeBlock(evictions, "hcl"))
    elif result.waiting_bindings:
        yield Section("Reasons", tuple(list_failure_reasons(result)), is_finding=True)
    if result.trial is None:
        yield from _build_binding_section("Waiting pods", result.waiting_bindings)
    else:
        yield from _build_binding_section("Pods outside of the question still waiting", result.best.waiting)
    yield from _build_binding_section("Unknown", result.before.unknown)


def _build_binding_section(title: str, rows: Sequence[Feasibility]) -> list[Section]:
    """Build a section with a line for each binding and its reason; none without bindings."""
    lines = tuple(f"{row.placement.name} on {row.cluster}: {row.reason}" for row in rows)
    return [Section(title, lines)] if lines else []


def list_newly_picked_clusters(result: RebalanceResult, address: str) -> list[str]:
    """Return the clusters picked by a placement after the evictions and not before."""
    after, before = result.best.clusters.get(address, frozenset()), result.before.clusters.get(address, frozenset())
    return sorted(after - before)


def describe_minimality_proof(result: RebalanceResult) -> str:
    """Return why fewer evictions are not enough."""
    assert result.trial is not None
    size = len(result.trial.evictions)
    tried = sum(result.trial_counts[:size])  # plans with fewer evictions
    if size == 1:
        return "Without an eviction the pods keep waiting, so one is the minimum."
    plans = format_count(tried, "plan")
    return (
        f"Fewer do not suffice: every set of at most {format_count(size - 1, 'eviction')} able to help was planned "
        f"({plans}), and pods keep waiting. A waiting pod needs an eviction on its own cluster."
    )


def _explain_taints(result: RebalanceResult) -> str:
    """Explain the taints by the placements picked again on the same cluster without them."""
    assert result.trial is not None
    returning = [item for item in result.trial.evictions if item.cluster in result.trial.tainted_clusters]
    names = ", ".join(f"{item.placement} ({item.policy})" for item in returning)
    leaving = [item.placement for item in returning if item.policy is PlacementPolicy.PICK_ALL]
    loss = enclose(" ", ", ".join(leaving), " runs on one cluster less.")
    return (
        f"Without a taint the hub picks the same cluster again for {names}.{loss} "
        "Other placements cannot come to a tainted cluster. Without the taint, a PickAll placement returns."
    )


def list_failure_reasons(result: RebalanceResult) -> Iterator[str]:
    """Yield why no evictions help."""
    for item in result.fixed:
        yield f"{item.placement} on {item.cluster} cannot be evicted: its policy is PickFixed."
    for text in result.rejections:
        yield f"The hub rejects an eviction: {text}"
    for cluster in result.untaintable:
        yield (
            f"An evicted placement returns to {cluster} at once. The taint needs a fleet_member_cluster block of "
            f"{cluster} in the root module, with a literal name, without count and for_each."
        )
    for text in result.interruptions:
        yield f"Pods wait between two evictions. After {text}."
    if not result.candidates:
        yield "No binding can be evicted."
    elif result.is_proven:
        yield f"Every set of evictions able to help was planned ({format_count(sum(result.trial_counts), 'plan')})."
    else:
        yield f"The search ended after {format_count(sum(result.trial_counts), 'plan')} (limit: {MAX_TRIALS})."


def build_rebalance_document(result: RebalanceResult) -> dict[str, Any]:
    """Build the data of the answer."""
    trial = result.trial or EvictionProposal()
    proof = ""
    reasons: list[str] = []
    is_possible: bool | None = True  # None: not known
    if result.trial is not None:
        proof = describe_minimality_proof(result)
    elif result.waiting_bindings:
        is_possible, reasons = False, list(list_failure_reasons(result))
    elif result.before.unknown:
        is_possible = None
    return {
        "is_possible": is_possible,
        "is_proven": result.is_proven,
        "plans": sum(result.trial_counts),
        "evictions": [
            {
                "name": item.name,
                "placement": str(item.address),
                "cluster": item.cluster,
                "policy": item.policy.value,
                "targets": list_newly_picked_clusters(result, str(item.address)),
            }
            for item in trial.evictions
        ],
        "tainted_clusters": list(trial.tainted_clusters),
        "proof": proof,
        "reasons": reasons,
        "waiting_before": list(map(FEASIBILITY_FORM, result.before.waiting)),
        "waiting_after": list(map(FEASIBILITY_FORM, result.best.waiting)),
        "unknown": list(map(FEASIBILITY_FORM, result.before.unknown)),
    }
