"""What follows a collection answers only while it follows, whatever the hub says."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from nexusform.domains.hub.api.hub_cache import CollectionCache
from nexusform.domains.hub.api.hub_client import ClientClock, HubClient, ObjectList

BODY = {"metadata": {"name": "a", "namespace": "", "resourceVersion": "2"}}
Events = Callable[[], Iterator[tuple[str, Any]]]


class Watched:
    """A hub that lists one object, and whose watches say what they are told to."""

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


class Slept:
    """A clock that counts pauses in place of sleeping."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


def followed(hub: Watched, slept: Slept, ends: Callable[[CollectionCache], bool]) -> CollectionCache:
    mirror = CollectionCache(cast("HubClient", hub), "/things", ClientClock(sleep=slept.sleep))
    until = time.monotonic() + 120
    while not ends(mirror) and time.monotonic() < until:
        time.sleep(0.01)
    return mirror


@pytest.mark.parametrize("body", [{"metadata": "text"}, {"metadata": {"name": "a", "labels": ["x"]}}, ["x"]])
@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_event_that_is_no_object_ends_the_following(body: Any) -> None:
    def events() -> Iterator[tuple[str, Any]]:
        yield "MODIFIED", body

    hub = Watched([BODY], events)
    mirror = followed(hub, Slept(), lambda mirror: hub.watches > 0 and not mirror.is_active)
    assert not mirror.is_active  # else all would wait for what it saw last


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_list_of_something_else_is_not_followed() -> None:
    hub = Watched([{"metadata": ["x"]}], lambda: iter(()))
    mirror = followed(hub, Slept(), lambda _mirror: True)
    time.sleep(0.2)
    assert not mirror.is_active


def test_watches_that_end_at_once_are_begun_again_in_no_haste() -> None:
    slept = Slept()
    hub = Watched([BODY], lambda: iter(()))
    followed(hub, slept, lambda _mirror: hub.is_closed)
    assert slept.seconds >= hub.watches - 2
