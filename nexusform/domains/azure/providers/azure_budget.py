"""How many requests a subscription is sent in a minute, over all processes that share a directory.

Azure Resource Manager counts requests by subscription, and many sites may share one. Whoever is about to send
takes the next free moment from a file, under the file's lock, and waits for it: requests are spread evenly,
whichever process sends them.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from nexusform.backends.deadlines import not_counted
from nexusform.ports import ProviderProblem
from nexusform.regular_files import PRIVATE

BUDGET_VARIABLE: Final = "NF_AZURE_REQUESTS"
_WRITTEN: Final = re.compile(r"(\d{1,6}):(.+)")
_LONGEST: Final = 64  # bytes of a moment


class Budget(Struct, frozen=True):
    """So many requests a minute; `directory` holds a file for each subscription."""

    a_minute: int
    directory: str
    now: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep

    def take(self, subscription_id: str) -> None:
        """Wait until the next request may be sent. Raises OSError."""
        due = self._next(subscription_id)
        left = due - self.now()
        if left > 0:
            self.sleep(left)

    def _next(self, subscription_id: str) -> float:
        """The next free moment, which is then taken."""
        path = Path(self.directory, f"{re.sub(r'[^A-Za-z0-9-]', '_', subscription_id.lower())}.next")
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, PRIVATE)
        try:
            _lock(descriptor)
            text = os.read(descriptor, _LONGEST).decode(errors="replace")
            now = self.now()
            # A moment far ahead is that of another clock, or damage.
            taken = float(text) if re.fullmatch(r"\d+\.\d+", text) else 0.0
            due = max(now, min(taken, now + 60.0))
            os.lseek(descriptor, 0, os.SEEK_SET)
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"{due + 60.0 / self.a_minute:.6f}".encode())
        finally:
            os.close(descriptor)  # which gives the lock back
        return due


def _lock(descriptor: int) -> None:
    if sys.platform == "win32":
        return
    import fcntl

    fcntl.flock(descriptor, fcntl.LOCK_EX)


def budget_of_environment() -> Budget | None:
    """What NF_AZURE_REQUESTS=N:DIRECTORY says; None when it is not set. Raises ProviderProblem."""
    text = os.environ.get(BUDGET_VARIABLE, "")
    if not text:
        return None
    match = _WRITTEN.fullmatch(text)
    if match is None or not int(match[1]):
        raise ProviderProblem(f'{BUDGET_VARIABLE} must be N:DIRECTORY, N requests a minute; it is "{text}".')
    return Budget(int(match[1]), match[2])


def sending_policies(subscription_id: str) -> list[Any]:
    """What the SDK's pipeline asks before each request, a repeated one too. Raises ProviderProblem."""
    found = budget_of_environment()
    if found is None:
        return []
    budget: Budget = found
    from azure.core.pipeline.policies import SansIOHTTPPolicy

    class InTurn(SansIOHTTPPolicy[Any, Any]):
        """Waits for its turn."""

        def on_request(self, request: Any) -> None:
            """Before a request is sent."""
            del request
            with not_counted():
                budget.take(subscription_id)

    return [InTurn()]
