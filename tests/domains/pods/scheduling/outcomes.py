"""Helpers to query a prediction."""

from __future__ import annotations

from nexusform.domains.pods.scheduling.pod_outcomes import PodOutcome, PodsPrediction


def list_pending_pods(prediction: PodsPrediction) -> list[PodOutcome]:
    return [outcome for outcome in prediction.outcomes if outcome.is_pending]


def count_running_pods(prediction: PodsPrediction, workload: str) -> int:
    return sum(bool(outcome.node) for outcome in prediction.list_outcomes(workload))
