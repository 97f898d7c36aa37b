"""Writes to exactly the version of an object that was compared with the plan."""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, TypeVar

from nexusform.domains.hub.api.api_errors import ApiError, ApiErrorKind
from nexusform.domains.hub.api.hub_client import ClientClock, HubClient
from nexusform.json_data.plain_data import get_text

Body: TypeAlias = Mapping[str, Any]
Result = TypeVar("Result")
# Compares an object (None: missing) with the plan, and writes it; the second argument is the last
# conflict. Raises ProviderProblem for a difference.
SendChange: TypeAlias = Callable[[Body | None, ApiError | None], Result]
# An API server may check the managers of fields before the version.
CONFLICT_KINDS: Final = frozenset({ApiErrorKind.CONFLICT, ApiErrorKind.OTHER_MANAGER})
# Seconds of attempts for an object that others write all the time.
_RETRY_SECONDS: Final = 90.0
_FIRST_PAUSE: Final = 0.05
_MAX_PAUSE: Final = 2.0


def send_to_current_version(
    hub: HubClient, path: str, existing: Body | None, send: SendChange[Result], timing: ClientClock
) -> Result:
    """Send a change of an object, after a conflict of versions again to the object as read again.

    Each attempt compares the object with the plan. Raises ApiError.
    """
    deadline = timing.read_time() + _RETRY_SECONDS
    pause = _FIRST_PAUSE
    conflict: ApiError | None = None
    while True:
        try:
            return send(existing, conflict)
        except ApiError as api_error:
            if api_error.kind not in CONFLICT_KINDS or timing.read_time() > deadline:
                raise
            conflict = api_error
        # Not from a cache, which may have the earlier version.
        current = hub.get(path)
        if existing is not None and current is not None and _is_same_version(existing, current):
            # Another conflict than one of versions.
            raise conflict
        existing = current
        timing.sleep(pause)
        pause = min(pause * 2, _MAX_PAUSE)


def _is_same_version(body: Body, other: Body) -> bool:
    version = get_text(body, "metadata", "resourceVersion")
    return version == get_text(other, "metadata", "resourceVersion")
