"""A prediction counts as certain only while the figures of the members are those of the plan."""

from __future__ import annotations

from nexusform.domains.hub.providers.prediction_verification import CHANGED_FIGURES, PredictionVerifier

BOUND = {"state": "Bound", "affinity_score": 10, "topology_spread_score": 0}
FIGURES = {"par1": {"available cpu": "8"}, "lon1": {"available cpu": "4"}}


def test_predictions_are_certain_with_the_figures_of_the_plan() -> None:
    verifier = PredictionVerifier(FIGURES, FIGURES, open_clusters=dict.fromkeys(FIGURES, 0.5))
    result = verifier.verify_bindings("web", {"par1": BOUND}, {"par1": BOUND})
    picks = result.predictions[:2]  # of the clusters; the score comes after them
    assert [pick.chance for pick in picks] == [0.5, 0.5]
    assert [(pick.is_certain, pick.was_correct) for pick in picks] == [(True, True), (True, True)]


def test_no_prediction_is_certain_after_a_figure_changed() -> None:
    changed = {**FIGURES, "lon1": {"available cpu": "64"}}
    verifier = PredictionVerifier(FIGURES, changed)
    result = verifier.verify_bindings("web", {"par1": BOUND}, {"lon1": BOUND})
    assert not any(prediction.is_certain for prediction in result.predictions)
    assert {wrong.kind for wrong in result.wrong_predictions} == {CHANGED_FIGURES}
    assert result.wrong_predictions[0].changes == ("lon1: available cpu 4 -> 64",)


def test_no_prediction_is_certain_with_unknown_figures_of_the_plan() -> None:
    result = PredictionVerifier(None, FIGURES).verify_bindings("web", {"par1": BOUND}, {"par1": BOUND})
    assert not any(prediction.is_certain for prediction in result.predictions)


def test_a_prediction_without_an_open_decision_does_not_count() -> None:
    verifier = PredictionVerifier(FIGURES, FIGURES)
    assert verifier.verify_bindings("web", {"par1": BOUND}, {"par1": BOUND}).predictions == ()
    wrong = verifier.verify_bindings("web", {"par1": BOUND}, {"lon1": BOUND})
    assert [prediction.was_correct for prediction in wrong.predictions] == [False, False]
