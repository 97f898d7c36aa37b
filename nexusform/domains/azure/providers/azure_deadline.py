"""Time limit of one request to Azure, including sign-in and retries."""

from __future__ import annotations

from typing import Any

from nexusform.interfaces.plugins import ProviderProblem
from nexusform.interfaces.state_storage import BackendProblem
from nexusform.network.deadlines import Deadline, OperationAbandoned, compute_silence_limit, is_caller_waiting
from nexusform.network.limited_session import build_limited_session
from nexusform.network.read_limits import CONNECT_SECONDS

_CANCELLED_MESSAGE = "The change was cancelled before it was sent."


def build_deadline_policy(endpoint: str) -> Any:
    """Build the SDK pipeline policy that raises AzureError after the time limit of a request."""
    from azure.core.exceptions import ServiceResponseError
    from azure.core.pipeline.policies import HTTPPolicy

    deadline = Deadline(lambda: endpoint)

    class DeadlinePolicy(HTTPPolicy[Any, Any]):
        """Policy with a time limit."""

        def send(self, request: Any) -> Any:
            """Send the request in a thread that may outlive the time limit."""
            try:
                return deadline.run("ask Azure", lambda: self.next.send(request))
            except OperationAbandoned as problem:
                raise ServiceResponseError(str(problem)) from None

    return DeadlinePolicy()


def build_transport(endpoint: str) -> Any:
    """Build the transport to an endpoint with a read timeout; it does not send cancelled requests. Raises
    ProviderProblem.
    """
    from azure.core.exceptions import ServiceRequestError
    from azure.core.pipeline.transport import RequestsTransport

    class CancellableTransport(RequestsTransport):  # type: ignore[misc]  # the SDK has no types
        """Transport that skips cancelled requests."""

        def send(self, request: Any, **options: Any) -> Any:
            """Send the request unless it was cancelled."""
            if not is_caller_waiting():
                raise ServiceRequestError(_CANCELLED_MESSAGE)
            return super().send(request, **options)

    try:
        seconds = compute_silence_limit()
    except BackendProblem as problem:
        raise ProviderProblem(str(problem)) from None
    session = build_limited_session(endpoint)
    return CancellableTransport(session=session, connection_timeout=min(CONNECT_SECONDS, seconds), read_timeout=seconds)
