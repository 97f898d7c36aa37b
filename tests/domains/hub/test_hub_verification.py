"""Tests of the verification of a decision unlike its prediction."""

from __future__ import annotations

from typing import Any

from nexusform.domains.hub.providers.prediction_verification import PredictionVerifier

FIGURES = {name: {"joined": "True"} for name in ("fra1", "lon1", "par1")}


def _on(*clusters: str) -> dict[str, dict[str, Any]]:
    return {cluster: {"state": "Bound"} for cluster in clusters}


def test_wrong_prediction_without_changes_was_certain() -> None:
    settled = PredictionVerifier(FIGURES, FIGURES).verify_bindings(
        "web", _on("fra1", "par1"), _on("lon1", "par1")
    )
    assert {miss.kind for miss in settled.wrong_predictions} == {"rule"}
    assert any(claim.is_certain and not claim.was_correct for claim in settled.predictions)
