"""Rate limit of requests to a subscription, shared by all processes through a directory.

Azure Resource Manager counts requests per subscription, shared by all its sites. A sender
reserves the next free time slot in a locked file and waits for it, so requests are spread evenly
over all processes.
"""

import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from nexusform.files.directories import make_directories
from nexusform.files.regular_files import open_regular_file
from nexusform.interfaces.plugins import ProviderProblem
from nexusform.network.deadlines import pause_deadline

BUDGET_VARIABLE: Final = "NF_AZURE_REQUESTS"
_BUDGET_FORMAT: Final = re.compile(r"(\d{1,6}):(.+)")
# Length of a stored timestamp.
_MAX_BYTES: Final = 64


class RequestRateLimit(Struct, frozen=True):
    """Maximum number of requests per minute; `directory` holds one file per subscription."""

    requests_per_minute: int
    directory: str
    read_time: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep

    def wait_for_slot(self, subscription_id: str) -> None:
        """Reserve the next time slot of a request, in a file shared by processes, and wait for it.

        Raises OSError.
        """
        path = Path(
            self.directory, f"{re.sub(r'[^A-Za-z0-9-]', '_', subscription_id.lower())}.next"
        )
        make_directories(path.parent, 0o700)
        descriptor = open_regular_file(path, os.O_RDWR | os.O_CREAT)
        try:
            if sys.platform != "win32":
                import fcntl

                fcntl.flock(descriptor, fcntl.LOCK_EX)
            # The next free time.
            text = os.read(descriptor, _MAX_BYTES).decode(errors="replace")
            now = self.read_time()
            free_from = float(text) if re.fullmatch(r"\d+\.\d+", text) else 0.0
            # A time far in the future is of another clock.
            slot_time = max(now, min(free_from, now + 60.0))
            os.lseek(descriptor, 0, os.SEEK_SET)
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"{slot_time + 60.0 / self.requests_per_minute:.6f}".encode())
        finally:
            # This releases the lock.
            os.close(descriptor)
        delay = slot_time - self.read_time()
        if delay > 0:
            self.sleep(delay)


def read_environment_rate_limit() -> RequestRateLimit | None:
    """Read NF_AZURE_REQUESTS=N:DIRECTORY, None if unset.

    Raises ProviderProblem.
    """
    text = os.environ.get(BUDGET_VARIABLE, "")
    if not text:
        return None
    match = _BUDGET_FORMAT.fullmatch(text)
    if match is None or not int(match[1]):
        raise ProviderProblem(
            f'{BUDGET_VARIABLE} must be N:DIRECTORY (N requests per minute), not "{text}".'
        )
    return RequestRateLimit(int(match[1]), match[2])


def build_rate_limit_policies(subscription_id: str) -> list[Any]:
    """Build the SDK pipeline policies for the rate limit; they also apply to retries.

    Raises ProviderProblem.
    """
    rate_limit = read_environment_rate_limit()
    if rate_limit is None:
        # No limit is set.
        return []
    wait_for_slot = rate_limit.wait_for_slot
    from azure.core.pipeline.policies import SansIOHTTPPolicy

    class RateLimitPolicy(SansIOHTTPPolicy[Any, Any]):
        """Policy that waits for the next time slot."""

        def on_request(self, request: Any) -> None:
            """Wait before a request is sent.

            The wait does not count towards the time limit of the request.
            """
            del request
            with pause_deadline():
                wait_for_slot(subscription_id)

    return [RateLimitPolicy()]
