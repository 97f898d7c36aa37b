"""What is made of a decision that came otherwise than foretold."""

from __future__ import annotations

from typing import Any

from nexusform.domains.hub.providers.prediction_verification import PredictionVerifier

FIGURES = {name: {"joined": "True"} for name in ("fra1", "lon1", "par1")}


def _on(*clusters: str) -> dict[str, dict[str, Any]]:
    return {cluster: {"state": "Bound"} for cluster in clusters}


def test_what_came_otherwise_though_nothing_changed_was_sure() -> None:
    settled = PredictionVerifier(FIGURES, FIGURES).verify_bindings("web", _on("fra1", "par1"), _on("lon1", "par1"))
    assert {miss.kind for miss in settled.wrong_predictions} == {"rule"}
    assert any(claim.is_certain and not claim.was_correct for claim in settled.predictions)


def test_beside_an_eviction_of_the_same_apply_no_decision_is_sure() -> None:
    settling = PredictionVerifier(FIGURES, FIGURES, has_eviction=True)
    settled = settling.verify_bindings("web", _on("fra1", "par1"), _on("lon1", "par1"))
    why = "an eviction of the same apply came before the hub decided, or after"
    assert [miss.message for miss in settled.wrong_predictions] == [
        f"fra1 was predicted as picked, but is not picked: {why}",
        f"lon1 was predicted as not picked, but is picked: {why}",
    ]
    assert not any(claim.is_certain for claim in settled.predictions)
