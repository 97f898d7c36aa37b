"""Helpers to query a prediction."""

from __future__ import annotations

from nexusform.domains.pods.scheduling.pod_outcomes import PodOutcome, Prediction


def list_pending_pods(prediction: Prediction) -> list[PodOutcome]:
    return [outcome for outcome in prediction.outcomes if outcome.is_pending]


def count_running_pods(prediction: Prediction, workload: str) -> int:
    return sum(bool(outcome.node) for outcome in prediction.list_outcomes(workload))
