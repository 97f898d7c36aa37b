"""Lint rules ask the planner: trials are plans with edits, and there are few of them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from nexusform.advice.lint_input import LintPool, SiteUsage, measure_usage
from nexusform.planning.edits import Edit, apply_edits
from nexusform.planning.plan_request import ArgumentAdjustment, PlanRequest
from nexusform.planning.planner import make_plan
from nexusform.workflow.opening import linting
from tests.planning.harness import RACKS, at, build_request, cluster, pool

PINNED = "".join(
    cluster(
        f"c{number}",
        pools="".join(
            pool(name, 4, "NC_G6_28_v1", f'availability_zones = ["r{number % 3}"]')
            for name in ("w", "x")
        ),
    )
    for number in range(8)
)


def record_trials(monkeypatch: pytest.MonkeyPatch) -> list[PlanRequest]:
    requests: list[PlanRequest] = []

    def record(request: PlanRequest) -> object:
        requests.append(request)
        return make_plan(request)

    monkeypatch.setattr(linting, "make_plan", record)
    return requests


def test_sixteen_pins_cost_one_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    request = build_request(RACKS + PINNED)
    result = make_plan(request)
    trials = record_trials(monkeypatch)
    findings = linting.lint_plan(result, request, everything=True)
    assert sum(finding.id == "zones-pinned" for finding in findings) == 16
    assert sum("availability_zones" in str(trial.adjustments) for trial in trials) == 1


def test_pin_without_a_shared_machine_needs_no_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    pinned = cluster("a", pools=pool("w", 2, "NC_G6_28_v1", 'availability_zones = ["r0"]'))
    request = build_request(RACKS + pinned)
    result = make_plan(request)
    trials = record_trials(monkeypatch)
    [finding] = linting.lint_plan(result, request, everything=True)
    assert finding.brief == "a/w: limited to 1 zone, at no cost now"
    assert trials == []
    assert linting.lint_plan(result, request) == []


def test_trials_of_a_hypothetical_plan_keep_its_assumptions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    edits: Sequence[Edit] = [
        ArgumentAdjustment(at("nexus_kubernetes_cluster.c0"), ("agent_pool", "w", "count"), 3)
    ]
    request = apply_edits(build_request(RACKS + PINNED), edits)
    result = make_plan(request)
    trials = record_trials(monkeypatch)
    linting.lint_plan(result, request)
    assert trials
    assert all(trial.adjustments[0] == edits[0] for trial in trials)


def test_measured_order_is_that_of_the_configuration_with_larger_pools_first() -> None:
    """Twin: the same blocks, written in the other order."""
    small, large = pool("s", 2, "NC_G12_56_v1"), pool("l", 10, "NC_P46_224_v1")
    request = build_request(RACKS + cluster("a", pools=small + large))
    result = make_plan(request)
    findings = linting.lint_plan(result, request)
    [finding] = [finding for finding in findings if finding.id == "small-before-large"]
    usages: list[SiteUsage] = []
    for pools in (small + large, large + small):
        planned = make_plan(build_request(RACKS + cluster("a", pools=pools)))
        lint_pools: list[LintPool] = list(linting._build_lint_pools(planned.objects))
        usage = measure_usage(planned.sites["s"].scheduler, lint_pools)
        assert usage is not None
        usages.append(usage)
    gain = usages[1].free_largest - usages[0].free_largest
    assert gain > 0
    figures = f"({usages[1].free_largest} instead of {usages[0].free_largest})"
    assert figures in finding.detail
