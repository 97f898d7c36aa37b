"""What Azure is not done with of what an earlier apply began, and what of that failed while nobody looked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from nexusform.domains.azure.providers.azure_changes import POOL, Surroundings, changes_of
from nexusform.domains.azure.providers.azure_requests import (
    BROKEN,
    NODES_MISSING,
    RESTING,
    ArmChange,
    Verb,
    note_of,
    state_of,
    words_of,
)
from nexusform.domains.azure.providers.azure_subscription import Body, group_of
from nexusform.ports import UNFINISHED, ChangeRequest, ProviderProblem, ReadRequest
from nexusform.scheduling.racks.vms import CONTROL_PLANE
from nexusform.words import counted


class Standing(Struct, frozen=True):
    """Whether nothing goes on of what an apply began of an object (`settled`), and what state notes of it."""

    settled: bool = True
    note: Mapping[str, Any] = {}


def standing_of(
    request: ReadRequest, seen: Mapping[str, Any], bodies: Sequence[Body], subscription_id: str
) -> Standing:
    """How far Azure is with what an earlier apply began of an object that shows as `seen`. `bodies` are its
    own and those of its parts.
    """
    short = _short(request.key.type, seen)
    busy = [body for body in bodies if state_of(body) not in RESTING]
    if request.planned is None and not request.going:
        return Standing(not busy, _since_noted(request.unfinished or {}, bodies, busy, short))
    changes = _begun(request, bodies, subscription_id)
    if busy:
        return Standing(settled=False, note={UNFINISHED: _goes_on(request, busy, changes)})
    failed = _failed(request, bodies, changes, short)
    if failed is None:
        return Standing()
    return Standing(settled=failed["code"] == NODES_MISSING, note={UNFINISHED: failed})  # that one stands


def _since_noted(
    noted: Mapping[str, Any], bodies: Sequence[Body], busy: Sequence[Body], short: Mapping[str, str]
) -> Mapping[str, Any]:
    """What becomes of the note that state has of a change of ours; {} where it stays as it is."""
    body = _with_id(bodies, str(noted.get("id")))
    if busy and noted.get("goes_on"):
        return {}
    if body is None:  # a pool that was to go is gone; one that was to come, and did not, differs
        return {UNFINISHED: None} if noted.get("goes_on") else {}
    goes_on, why = bool(noted.get("goes_on")), _undone(body, short)
    if not why or noted.get("going"):  # whoever brought it about; what was to go, and stands, shows by itself
        return {UNFINISHED: None}
    if not goes_on:
        return {}
    kept = {name: noted[name] for name in ("id", "parts", "body")}
    return {UNFINISHED: {**kept, "code": why[0], "times": 1, "words": why[1], "looked_up": True}}


def _undone(body: Body, short: Mapping[str, str]) -> tuple[str, str] | None:
    """Code and words of why what was begun of a resource did not come about; None when it did."""
    state, names = state_of(body), _names(str(body.get("id")))
    begun = f"What an earlier apply began of {'/'.join(names)}"
    if state in BROKEN:
        return state, f"{begun} ended {state}: {words_of(body) or 'Azure does not say why'}."
    there = short.get(names[1] if len(names) > 1 else CONTROL_PLANE)
    return (NODES_MISSING, f"{begun} is over, and Azure shows {there}.") if there else None


def _short(kind: str, seen: Mapping[str, Any]) -> dict[str, str]:
    """By the name of a pool, how many of its nodes are there where some are not: "2 of 4 nodes"."""
    nodes = seen.get("nodes") or {}
    there = Counter(str(node["pool"]) for node in nodes.values() if node.get("platform_name"))
    if not there:  # the nodes were not captured, or there is none yet
        return {}
    if kind == POOL:
        asked = {str(seen["name"]): seen["node_count"]}
    else:
        asked = {CONTROL_PLANE: (seen.get("control_plane") or {}).get("count")}
        asked |= {name: pool["count"] for name, pool in (seen.get("agent_pool") or {}).items()}
    return {
        name: f"{there[name]} of {counted(count, 'node')}"
        for name, count in asked.items()
        if isinstance(count, int) and there[name] < count
    }


# --- after an apply that did not come to its end --------------------------------------------------


def _begun(request: ReadRequest, bodies: Sequence[Body], subscription_id: str) -> dict[str, ArmChange]:
    """The changes of the step that was begun, by the key of the id of what they change."""
    step = _step(request)
    if request.going or not bodies:
        return {}
    around = Surroundings(group_of(str(bodies[0].get("id"))), {}, lambda our_id: our_id)
    try:
        changes = changes_of(step, around)
    except ProviderProblem:
        return {}
    return {_key(change.target.path(subscription_id)): change for change in changes}


def _step(request: ReadRequest) -> ChangeRequest:
    return ChangeRequest(
        request.key,
        request.address,
        request.attributes or None,
        request.planned,
        unfinished=request.unfinished,
    )


def _goes_on(request: ReadRequest, busy: Sequence[Body], changes: Mapping[str, ArmChange]) -> dict[str, Any]:
    """The note of a change that Azure works on."""
    body = next((one for one in busy if _key(str(one.get("id"))) in changes), busy[0])
    arm_id = str(body.get("id"))
    change = changes.get(_key(arm_id))
    doing = "delete" if request.going else "make" if not request.attributes else "change"
    standing = f"{'/'.join(_names(arm_id))} is {state_of(body)}"
    words = f"An earlier apply began to {doing} it, and Azure is not done: {standing}."
    noted = {"id": arm_id, "parts": [], "body": False, "code": "", "times": 1}
    if change is not None:
        noted = note_of(arm_id, "", "", change, _step(request))
    more = {"going": True} if request.going else {}
    return {**noted, "words": words, "brief": standing, "goes_on": True, **more}


def _failed(
    request: ReadRequest, bodies: Sequence[Body], changes: Mapping[str, ArmChange], short: Mapping[str, str]
) -> dict[str, Any] | None:
    """The note of a change that shows as it was asked for, and failed or lacks nodes. What does not show it
    differs from what is asked, and is due by that.
    """
    from nexusform.domains.azure.importers.az_bodies import shows

    for body in bodies:
        arm_id, why = str(body.get("id")), _undone(body, short)
        change = changes.get(_key(arm_id))
        if why is None or change is None or change.verb is Verb.DELETE:
            continue
        if change.verb is Verb.CREATE or shows(body.get("properties"), change.shown or {}):
            return {**note_of(arm_id, *why, change, _step(request)), "looked_up": True}
    return None


def _with_id(bodies: Sequence[Body], arm_id: str) -> Body | None:
    return next((body for body in bodies if _key(str(body.get("id"))) == _key(arm_id)), None)


def _key(arm_id: str) -> str:
    from nexusform.domains.azure.importers.arm import id_key

    return id_key(arm_id)


def _names(arm_id: str) -> list[str]:
    """The names in an id: of a cluster, and of a pool of it."""
    return arm_id.rpartition("/providers/")[2].split("/")[2::2]
