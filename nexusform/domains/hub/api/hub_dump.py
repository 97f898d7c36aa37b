"""Everything of the fleet that a hub holds, each kind at one moment."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

from nexusform.diagnostics import Problem
from nexusform.domains.hub.api.hub import Hub, HubProblem, way_to_hub
from nexusform.domains.hub.api.hub_kinds import READ, HubKind
from nexusform.domains.hub.api.hub_words import Refusal, Refused
from nexusform.ports import OutsideProblem

CANNOT_READ = "the-hub-cannot-be-read"


def read_dump(arguments: Mapping[str, Any], confined: bool) -> str:
    """All objects as JSON: `server`, `read_at`, `items`. Raises OutsideProblem."""
    try:
        with closing(Hub(way_to_hub(arguments, confined=confined))) as hub:
            items = [item for kind in READ for item in _objects(hub, kind)]
    except HubProblem as problem:
        raise OutsideProblem(Problem((), CANNOT_READ, str(problem))) from None
    read_at = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return json.dumps({"server": hub.server, "read_at": read_at, "items": items})


def _objects(hub: Hub, kind: HubKind) -> list[dict[str, Any]]:
    """All objects of a kind. Raises OutsideProblem and HubProblem."""
    try:
        return hub.list(kind.collection)
    except Refused as refused:
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
