"""Tests of the collection cache under failures: it answers only during an active watch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from nexusform.domains.hub.api.hub_cache import CollectionCache
from nexusform.domains.hub.api.hub_client import ClientClock, HubClient, ObjectList

BODY = {"metadata": {"name": "a", "namespace": "", "resourceVersion": "2"}}
Events = Callable[[], Iterator[tuple[str, Any]]]


class FakeHub:
    """A hub with a list of one object and configurable watches."""

    def __init__(self, items: list[Any], events: Events) -> None:
        self._items = items
        self._events = events
        self.is_closed = False
        self.watches = 0

    def list_at_version(self, _path: str) -> ObjectList:
        return ObjectList(self._items, "1")

    def watch(self, _path: str, _version: str) -> Iterator[tuple[str, Any]]:
        self.watches += 1
        if self.watches >= 20:
            self.is_closed = True
        return self._events()


class FakeClock:
    """A clock that adds up pauses and does not sleep."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


def run_cache(
    hub: FakeHub, slept: FakeClock, ends: Callable[[CollectionCache], bool]
) -> CollectionCache:
    mirror = CollectionCache(cast("HubClient", hub), "/things", ClientClock(sleep=slept.sleep))
    until = time.monotonic() + 120
    while not ends(mirror) and time.monotonic() < until:
        time.sleep(0.01)
    return mirror


@pytest.mark.parametrize(
    "body", [{"metadata": "text"}, {"metadata": {"name": "a", "labels": ["x"]}}, ["x"]]
)
@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_invalid_event_ends_the_watch(body: Any) -> None:
    def events() -> Iterator[tuple[str, Any]]:
        yield "MODIFIED", body

    hub = FakeHub([BODY], events)
    mirror = run_cache(hub, FakeClock(), lambda mirror: hub.watches > 0 and not mirror.is_active)
    # Otherwise, all readers would wait for its last content.
    assert not mirror.is_active


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_invalid_list_is_not_watched() -> None:
    hub = FakeHub([{"metadata": ["x"]}], lambda: iter(()))
    mirror = run_cache(hub, FakeClock(), lambda _mirror: True)
    time.sleep(0.2)
    assert not mirror.is_active


def test_immediately_ended_watches_are_restarted_with_pauses() -> None:
    slept = FakeClock()
    hub = FakeHub([BODY], lambda: iter(()))
    run_cache(hub, slept, lambda _mirror: hub.is_closed)
    assert slept.seconds >= hub.watches - 2
