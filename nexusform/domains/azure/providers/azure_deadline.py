"""How long one request to Azure may take in all, signing in and everything that is tried again included."""

from __future__ import annotations

from typing import Any

from nexusform.backends.deadlines import Deadline, GivenUp, silence_seconds, still_wanted
from nexusform.ports import ProviderProblem
from nexusform.state_ports import BackendProblem

_GIVEN_UP = "It was given up before it was sent."


def within_deadline(endpoint: str) -> Any:
    """What the SDK's pipeline runs each request in: it raises an AzureError when its time is up."""
    from azure.core.exceptions import ServiceResponseError
    from azure.core.pipeline.policies import HTTPPolicy

    deadline = Deadline(lambda: endpoint)

    class Within(HTTPPolicy[Any, Any]):
        """Waits no longer than that."""

        def send(self, request: Any) -> Any:
            """Send it on, in a thread that may be left behind."""
            try:
                return deadline.within("ask Azure", lambda: self.next.send(request))
            except GivenUp as problem:
                raise ServiceResponseError(str(problem)) from None

    return Within()


def wanted_transport() -> Any:
    """What sends: nothing that nobody waits for, and with a limit on silence. Raises ProviderProblem."""
    from azure.core.exceptions import ServiceRequestError
    from azure.core.pipeline.transport import RequestsTransport

    class Wanted(RequestsTransport):  # type: ignore[misc]  # the SDK has no types
        """Sends what is still wanted."""

        def send(self, request: Any, **options: Any) -> Any:
            """Send it."""
            if not still_wanted():
                raise ServiceRequestError(_GIVEN_UP)
            return super().send(request, **options)

    try:
        seconds = silence_seconds()
    except BackendProblem as problem:
        raise ProviderProblem(str(problem)) from None
    return Wanted(connection_timeout=seconds, read_timeout=seconds)
