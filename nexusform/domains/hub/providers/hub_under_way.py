"""What a hub is not done with: of a step that an earlier apply began, and of placements by themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nexusform.domains.fleet.scheduling.rollout import Stop
from nexusform.domains.hub.providers.hub_bodies import EVICTION, RUNS
from nexusform.domains.hub.providers.hub_standing import Shown, held_up, placement_standing, run_standing
from nexusform.domains.hub.providers.hub_watch import eviction_end, is_external
from nexusform.ports import UNFINISHED, ReadRequest

Values = Mapping[str, Any]


def placement_left(placement: Shown) -> str | Stop:
    """What the hub still has to do of a placement, "" where it is done with it; or where a rollout stops."""
    standing = placement_standing(placement, {}, external=is_external(placement.placement))
    stop = held_up(placement) if standing.decided and not standing.done else None
    return stop or ("" if standing.done else standing.words)


def not_done(type_name: str, body: Values) -> str:
    """What the hub still has to do of a run or an eviction, "" where it is done with it."""
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
