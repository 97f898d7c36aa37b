"""A slow write: dependent steps would overtake it."""

from __future__ import annotations

import threading
from typing import Any

from tests.domains.hub.hub_front import Front


class SlowWrite:
    """Delays the first write of a path until the arrival of one of its followers, or for `seconds`.

    `arrivals` are all writes in order, with "done" after the delayed one.
    """

    def __init__(self, hub: Front, path: str, *followers: str, seconds: float = 0.5) -> None:
        self.arrivals: list[str] = []
        self._path = path
        self._followers = followers
        self._seconds = seconds
        self._follower = threading.Event()
        self._hub = hub
        self._answer = hub.answer
        hub.answer = self._delay  # type: ignore[method-assign]

    def end(self) -> None:
        """Stop delaying writes."""
        self._hub.answer = self._answer  # type: ignore[method-assign]

    def _delay(self, method: str, target: str, token: str, content: bytes) -> tuple[int, Any]:
        path = target.partition("?")[0]
        if method == "GET" or "dryRun" in target:
            return self._answer(method, target, token, content)
        is_first = not any(each.endswith(self._path) for each in self.arrivals)
        self.arrivals.append(path)
        if any(path.endswith(follower) for follower in self._followers):
            self._follower.set()
        if not path.endswith(self._path) or not is_first:
            return self._answer(method, target, token, content)
        self._follower.wait(self._seconds)
        response = self._answer(method, target, token, content)
        self.arrivals.append("done")
        return response
