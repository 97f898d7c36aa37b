"""Watches of the hub server of the tests: events since a version, and new events."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tests.domains.hub.hub_front import copy_body

if TYPE_CHECKING:
    from tests.domains.hub.hub_server import HubServer

Body = dict[str, Any]
_LOOK = 0.05
# Seconds; the controller also acts on every request.
_ACTS = 0.5


class EventLog:
    """Events of a hub, in order.

    Versions before `oldest` are forgotten: their readers have to list again.
    """

    def __init__(self) -> None:
        self.oldest = 0
        self._events: list[tuple[int, str, Body]] = []

    def note(self, version: int, kind: str, body: Body) -> None:
        self._events.append((version, kind, body))

    def forget(self) -> None:
        """Forget old versions as an API server does."""
        self.oldest = self._events[-1][0] if self._events else 0
        self._events.clear()

    def since(self, version: int) -> list[tuple[int, str, Body]]:
        return [event for event in self._events if event[0] > version]

    def list_objects_at(self, version: int) -> list[Body]:
        """Return the objects that existed at a version."""
        standing: dict[tuple[str, str, str], Body] = {}
        for at, kind, body in self._events:
            name = body["kind"], body["metadata"].get("namespace", ""), body["metadata"]["name"]
            if at <= version and kind != "DELETED":
                standing[name] = body
            elif at <= version:
                standing.pop(name, None)
        return list(standing.values())


def watch_events(
    server: HubServer, group: str, kind: str, namespace: str, query: dict[str, str]
) -> Iterator[Body]:
    """Yield the events of a watch until its timeout."""
    version = int(query["resourceVersion"])
    until = time.monotonic() + float(query.get("timeoutSeconds", "60"))
    acted = time.monotonic()
    while time.monotonic() < until and not server.closed:
        with server.lock:
            if time.monotonic() - acted > _ACTS:
                server.act()
                acted = time.monotonic()
            if version < server.happened.oldest:
                message = f"too old resource version: {version} ({server.version})"
                yield {
                    "type": "ERROR",
                    "object": {
                        "kind": "Status",
                        "code": 410,
                        "reason": "Expired",
                        "message": message,
                    },
                }
                return
            events = server.happened.since(version)
        for version, what, body in events:  # noqa: B007 - the last one is where the next look begins
            metadata = body["metadata"]
            of_group = str(body["apiVersion"]).rpartition("/")[0]
            if (of_group, body["kind"]) == (group, kind) and namespace in (
                "",
                metadata.get("namespace"),
            ):
                yield {"type": what, "object": copy_body(body)}
        time.sleep(_LOOK)


def is_selected(wanted: list[str], body: Body) -> bool:
    labels = body["metadata"].get("labels") or {}
    for each in wanted:
        if each.startswith("!"):
            if each[1:] in labels:
                return False
        elif "=" not in each:
            if each not in labels:
                return False
        elif labels.get(each.partition("=")[0]) != each.partition("=")[2]:
            return False
    return True
