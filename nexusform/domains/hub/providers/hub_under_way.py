"""What a hub is not done with: of a step that an earlier apply began, and of placements by themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nexusform.domains.hub.providers.hub_bodies import EVICTION, PLACEMENTS, RUNS
from nexusform.domains.hub.providers.hub_standing import Shown, held_up, placement_standing, run_standing
from nexusform.domains.hub.providers.hub_watch import eviction_end, is_external
from nexusform.ports import UNFINISHED, ReadRequest

Values = Mapping[str, Any]


def not_done(type_name: str, body: Values, placement: Shown | None) -> str:
    """What the hub still has to do of an object, "" where it is done with it. `placement` is what it shows of
    one.
    """
    if type_name in PLACEMENTS and placement is not None:
        standing = placement_standing(placement, {}, external=is_external(placement.placement))
        ends = standing.done or (standing.decided and held_up(placement))
        return "" if ends else standing.words
    if type_name in RUNS:
        run = run_standing(body, ())
        return "" if run.ended else run.words
    if type_name == EVICTION:
        return "" if eviction_end(body)[0] else "the hub has not looked at it yet"
    return ""


def is_going(request: ReadRequest) -> bool:
    """Whether an earlier apply began to delete an object, and may not be through with that."""
    return request.going or bool((request.unfinished or {}).get("deletes"))


def noted(request: ReadRequest, title: str, words: str) -> dict[str, Any]:
    """What state notes of an object that an earlier apply began to change: that this goes on, or is over."""
    if request.planned is None and not request.unfinished and not request.going:
        return {}
    if not words:
        return {UNFINISHED: None}
    going = is_going(request)
    what = "to delete it" if going else "to write it"
    said = f"An earlier apply began {what}, and the hub is not done with {title} yet: {words}."
    note = {"words": said, "brief": f"{title} waits: {words}", "goes_on": True}
    return {UNFINISHED: {**note, "deletes": True} if going else note}
