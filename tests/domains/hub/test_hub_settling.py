"""What is made of a decision that came otherwise than foretold."""

from __future__ import annotations

from typing import Any

from nexusform.domains.hub.providers.hub_settling import Settling

FIGURES = {name: {"joined": "True"} for name in ("fra1", "lon1", "par1")}


def _on(*clusters: str) -> dict[str, dict[str, Any]]:
    return {cluster: {"state": "Bound"} for cluster in clusters}


def test_what_came_otherwise_though_nothing_changed_was_sure() -> None:
    settled = Settling(FIGURES, FIGURES).settle("web", _on("fra1", "par1"), _on("lon1", "par1"))
    assert {miss.kind for miss in settled.misses} == {"rule"}
    assert any(claim.is_sure and not claim.held for claim in settled.claims)


def test_beside_an_eviction_of_the_same_apply_no_decision_is_sure() -> None:
    settling = Settling(FIGURES, FIGURES, evicted=True)
    settled = settling.settle("web", _on("fra1", "par1"), _on("lon1", "par1"))
    why = "an eviction of the same apply came before the hub decided, or after"
    assert [miss.words for miss in settled.misses] == [
        f"fra1 was foretold as picked, and is not picked: {why}",
        f"lon1 was foretold as not picked, and is picked: {why}",
    ]
    assert not any(claim.is_sure for claim in settled.claims)
