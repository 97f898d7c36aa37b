"""Provider wrapper for sensitive settings: requests pass, messages are hidden."""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from typing import Any, Final, cast

from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Problem
from nexusform.interfaces.plugins import (
    CaptureProvider,
    ChangeRequest,
    ChangeResult,
    ChangeValidatingProvider,
    DryRunProvider,
    ObjectKey,
    PlanAwareProvider,
    Provider,
    ProviderProblem,
    ReadRequest,
    ReadResult,
    StepPending,
)
from nexusform.providers.optional_provider_interfaces import (
    IdentifiedProvider,
    IdentityComparison,
    WorkloadListingProvider,
)

HIDDEN_MESSAGE: Final = (
    "The message of the provider is hidden because a setting of it is sensitive. To see the message, use "
    "nonsensitive()."
)


def redact_provider(provider: Provider) -> Provider:
    """Wrap a provider to hide its messages. The wrapper implements only the protocols of the provider."""
    bases = [base for protocol, base in _OPTIONAL_PARTS.items() if isinstance(provider, protocol)]
    return cast("Provider", type("Discreet", (*bases, _RedactingProvider), {})(provider))


@contextmanager
def _hide_messages() -> Iterator[None]:
    """Replace the message of an error raised by a provider, and keep its kind and data."""
    try:
        yield
    except StepPending:
        raise StepPending(HIDDEN_MESSAGE) from None
    except ProviderProblem as problem:
        hidden = ProviderProblem(HIDDEN_MESSAGE, object_exists=problem.object_exists, attributes=problem.attributes)
        hidden.is_partial = problem.is_partial
        raise hidden from None


class _RedactingProvider:
    """Operations of every provider."""

    def __init__(self, provider: Any) -> None:
        self._provider = provider
        self.name = provider.name
        self.sends_changes = provider.sends_changes
        self.observes_objects = provider.observes_objects

    def read(self, requests: Sequence[ReadRequest]) -> list[ReadResult]:
        with _hide_messages():
            return cast("list[ReadResult]", self._provider.read(requests))

    def create(self, request: ChangeRequest) -> ChangeResult:
        with _hide_messages():
            return cast("ChangeResult", self._provider.create(request))

    def update(self, request: ChangeRequest) -> ChangeResult:
        with _hide_messages():
            return cast("ChangeResult", self._provider.update(request))

    def delete(self, request: ChangeRequest) -> None:
        with _hide_messages():
            self._provider.delete(request)

    def find(self, resource_type: str, object_id: str) -> tuple[ObjectKey, Mapping[str, Any]] | None:
        with _hide_messages():
            return cast("tuple[ObjectKey, Mapping[str, Any]] | None", self._provider.find(resource_type, object_id))

    def list_warnings(self) -> list[Problem]:
        return cast("list[Problem]", self._provider.list_warnings())


class _RedactingValidator(_RedactingProvider):
    def validate_changes(self, requests: Sequence[ChangeRequest]) -> list[tuple[int, Problem]]:
        with _hide_messages():
            problems = self._provider.validate_changes(requests)
        return [(number, replace(problem, detail=HIDDEN_MESSAGE, brief="")) for number, problem in problems]


class _RedactingDryRunReporter(_RedactingProvider):
    def describe_dry_run(self) -> str:
        return HIDDEN_MESSAGE if self._provider.describe_dry_run() else ""

    def list_skipped(self, requests: Sequence[ChangeRequest], reason: str) -> list[tuple[int, Problem]]:
        return cast("list[tuple[int, Problem]]", self._provider.list_skipped(requests, reason))


class _RedactingPlanAwareProvider(_RedactingProvider):
    def set_plan_responses(self, answers: Mapping[str, str]) -> None:
        self._provider.set_plan_responses(answers)


class _RedactingCaptureProvider(_RedactingProvider):
    def list_captures(self) -> list[tuple[str, str]]:
        return cast("list[tuple[str, str]]", self._provider.list_captures())


class _RedactingWorkloadListingProvider(_RedactingProvider):
    def list_workload_ids(self) -> AbstractSet[tuple[str, str]]:
        with _hide_messages():
            return cast("AbstractSet[tuple[str, str]]", self._provider.list_workload_ids())


class _RedactingIdentifiedProvider(_RedactingProvider):
    @property
    def has_fixed_identity(self) -> bool:
        return cast("bool", self._provider.has_fixed_identity)

    def read_identity(self, recorded: Mapping[str, Any], objects: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        with _hide_messages():
            return cast("Mapping[str, Any]", self._provider.read_identity(recorded, objects))

    def compare_identity(self, recorded: Mapping[str, Any], observed: Mapping[str, Any]) -> IdentityComparison:
        comparison = cast("IdentityComparison", self._provider.compare_identity(recorded, observed))
        return replace(comparison, difference=comparison.difference and HIDDEN_MESSAGE)

    def describe_identity(self, _identity: Mapping[str, Any]) -> str:
        return ""

    def keep_missing_objects(self) -> None:
        self._provider.keep_missing_objects()

    def has_missing_objects(self) -> bool:
        return cast("bool", self._provider.has_missing_objects())


# Optional protocols: the wrapper must implement only those of its provider.
_OPTIONAL_PARTS: Final[Mapping[Any, type[_RedactingProvider]]] = {
    ChangeValidatingProvider: _RedactingValidator,
    DryRunProvider: _RedactingDryRunReporter,
    PlanAwareProvider: _RedactingPlanAwareProvider,
    CaptureProvider: _RedactingCaptureProvider,
    WorkloadListingProvider: _RedactingWorkloadListingProvider,
    IdentifiedProvider: _RedactingIdentifiedProvider,
}
