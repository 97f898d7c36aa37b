"""Everything of the fleet that a hub holds, at one moment.

Kinds that are listed one after another do not fit together: a placement that goes meanwhile still tells of
clusters, and its bindings are no longer there. So the first list tells the moment (versions of one hub are in
order), and all others are asked for as they were then.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime
from typing import Any, Final

from nexusform.diagnostics import Problem
from nexusform.domains.hub.api.hub import Hub, HubProblem, way_to_hub
from nexusform.domains.hub.api.hub_kinds import READ, HubKind
from nexusform.domains.hub.api.hub_words import Refusal, Refused
from nexusform.log import log
from nexusform.ports import OutsideProblem

CANNOT_READ = "the-hub-cannot-be-read"
_MOMENTS: Final = 3  # how often all is read again because the moment grew too old
_NO_MOMENT: Final = frozenset({400, 410, 422})  # refusals of a moment that is too old, or is not understood


def read_dump(arguments: Mapping[str, Any], confined: bool) -> str:
    """All objects as JSON: `server`, `read_at`, `items`. Raises OutsideProblem."""
    try:
        with closing(Hub(way_to_hub(arguments, confined=confined))) as hub:
            items = _everything(hub)
    except HubProblem as problem:
        raise OutsideProblem(Problem((), CANNOT_READ, str(problem))) from None
    read_at = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return json.dumps({"server": hub.server, "read_at": read_at, "items": items})


def _everything(hub: Hub) -> list[dict[str, Any]]:
    """All objects of one moment; where a hub keeps none that long, each kind as it is when it is asked for.
    Raises OutsideProblem and HubProblem.
    """
    for _ in range(_MOMENTS):
        try:
            return _of_one_moment(hub)
        except _MomentLost as lost:
            log("debug", "hub read again", why=str(lost))
    return [item for kind in READ for item in _objects(hub, kind, "")[0]]


class _MomentLost(Exception):
    """The hub no longer knows how it stood at the moment that is asked for."""


def _of_one_moment(hub: Hub) -> list[dict[str, Any]]:
    """Raises _MomentLost, OutsideProblem and HubProblem."""
    items: list[dict[str, Any]] = []
    moment = ""
    for kind in READ:
        listed, version = _objects(hub, kind, moment)
        moment = moment or version
        items += listed
    return items


def _objects(hub: Hub, kind: HubKind, moment: str) -> tuple[list[dict[str, Any]], str]:
    """All objects of a kind, and of which moment they are. Raises _MomentLost, OutsideProblem, HubProblem."""
    try:
        listed = hub.listed(kind.collection, moment)
    except Refused as refused:
        if moment and refused.status in _NO_MOMENT:
            raise _MomentLost(str(refused)) from None
        if refused.kind is Refusal.RIGHTS:
            detail = (
                f"{hub.server} does not let {kind.plural} be listed: {refused.missing_right or refused.words}"
                ". Reading needs get and list of them."
            )
        elif refused.status == 404:
            detail = (
                f"{hub.server} serves no {kind.plural}: it is no hub of KubeFleet, or of an older version. "
                "Name the context of the hub."
            )
        elif refused.kind is Refusal.NOT_SIGNED_IN:
            detail = f"{hub.server} does not know who asks (401). Sign in again, or renew the token."
        else:
            detail = f"{hub.server} does not list {kind.plural} ({refused.status}): {refused.words}"
        raise OutsideProblem(Problem((), CANNOT_READ, detail)) from None
    return listed.items, listed.version
