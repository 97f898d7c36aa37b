"""Provider wrapper for sensitive settings: requests pass, messages are hidden."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Final, cast

from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Problem
from nexusform.interfaces.plugins import (
    CaptureProvider,
    ChangeRequest,
    ChangeValidatingProvider,
    DryRunProvider,
    PlanAwareProvider,
    PreconditionProvider,
    Provider,
    ProviderProblem,
    StepPending,
)
from nexusform.providers.optional_provider_interfaces import (
    IdentifiedProvider,
    IdentityComparison,
    ReadDependentProvider,
    RereadingProvider,
    SiteFactsProvider,
    StartValueProvider,
    WorkloadListingProvider,
)

HIDDEN_MESSAGE: Final = (
    "The message of the provider is hidden because a setting of it is sensitive. To see the "
    "message, use nonsensitive()."
)


def redact_provider(provider: Provider) -> Provider:
    """Wrap a provider to hide its messages.

    The wrapper implements the same optional protocols as the provider.
    """
    bases = [base for protocol, base in _OPTIONAL_PARTS.items() if isinstance(provider, protocol)]
    wrapper_class = type("RedactingProvider", (*bases, _RedactingProvider), {})
    return cast("Provider", wrapper_class(provider))


@contextmanager
def _hide_messages() -> Iterator[None]:
    """Replace the message of an error raised by a provider, and keep its kind and data."""
    try:
        yield
    except StepPending:
        raise StepPending(HIDDEN_MESSAGE) from None
    except ProviderProblem as problem:
        hidden = ProviderProblem(
            HIDDEN_MESSAGE, object_exists=problem.object_exists, attributes=problem.attributes
        )
        hidden.is_partial = problem.is_partial
        raise hidden from None


def _forward(name: str, *, hides_messages: bool = True) -> Callable[..., Any]:
    """Build a method to call the provider's method of this name.

    With `hides_messages`, an error has HIDDEN_MESSAGE.
    """

    def call_provider(self: _RedactingProvider, *arguments: Any) -> Any:
        method = getattr(self._provider, name)
        with _hide_messages() if hides_messages else nullcontext():
            return method(*arguments)

    return call_provider


class _RedactingProvider:
    """Operations of every provider."""

    def __init__(self, provider: Any) -> None:
        self._provider = provider
        self.name = provider.name
        self.sends_changes = provider.sends_changes
        self.observes_objects = provider.observes_objects

    read = _forward("read")
    create = _forward("create")
    update = _forward("update")
    delete = _forward("delete")
    find = _forward("find")
    list_warnings = _forward("list_warnings", hides_messages=False)


class _RedactingValidator(_RedactingProvider):
    def validate_changes(self, requests: Sequence[ChangeRequest]) -> list[tuple[int, Problem]]:
        with _hide_messages():
            problems = self._provider.validate_changes(requests)
        return [
            (index, replace(problem, detail=HIDDEN_MESSAGE, brief=""))
            for index, problem in problems
        ]


class _RedactingDryRunReporter(_RedactingProvider):
    def describe_dry_run(self) -> str:
        return HIDDEN_MESSAGE if self._provider.describe_dry_run() else ""

    list_skipped = _forward("list_skipped", hides_messages=False)


class _RedactingPlanAwareProvider(_RedactingProvider):
    set_plan_responses = _forward("set_plan_responses", hides_messages=False)


class _RedactingCaptureProvider(_RedactingProvider):
    list_captures = _forward("list_captures", hides_messages=False)


class _RedactingWorkloadListingProvider(_RedactingProvider):
    list_workload_ids = _forward("list_workload_ids")
    collect_site_notes = _forward("collect_site_notes")


class _RedactingStartValueProvider(_RedactingProvider):
    collect_start_values = _forward("collect_start_values")


class _RedactingPreconditionProvider(_RedactingProvider):
    def check_preconditions(self, requests: Sequence[ChangeRequest]) -> list[tuple[int, Problem]]:
        with _hide_messages():
            problems = self._provider.check_preconditions(requests)
        return [(index, replace(problem, detail=HIDDEN_MESSAGE)) for index, problem in problems]


class _RedactingSiteFactsProvider(_RedactingProvider):
    list_site_facts = _forward("list_site_facts")


class _RedactingReadDependentProvider(_RedactingProvider):
    def list_unread_changes(self, requests: Sequence[ChangeRequest]) -> list[tuple[int, Problem]]:
        problems = self._provider.list_unread_changes(requests)
        return [(index, replace(problem, detail=HIDDEN_MESSAGE)) for index, problem in problems]


class _RedactingRereadingProvider(_RedactingProvider):
    discard_reads = _forward("discard_reads")
    list_machine_activity = _forward("list_machine_activity")

    def describe_last_change(self, _resource_type: str, _name: str) -> str:
        return ""


class _RedactingIdentifiedProvider(_RedactingProvider):
    @property
    def has_fixed_identity(self) -> bool:
        return cast("bool", self._provider.has_fixed_identity)

    def compare_identity(
        self, recorded: Mapping[str, Any], observed: Mapping[str, Any]
    ) -> IdentityComparison:
        comparison = cast("IdentityComparison", self._provider.compare_identity(recorded, observed))
        return replace(comparison, difference=HIDDEN_MESSAGE if comparison.difference else "")

    def describe_identity(self, _identity: Mapping[str, Any]) -> str:
        return ""

    read_identity = _forward("read_identity")
    keep_missing_objects = _forward("keep_missing_objects", hides_messages=False)
    has_missing_objects = _forward("has_missing_objects", hides_messages=False)


# Optional protocols: the wrapper must implement only those of its provider.
_OPTIONAL_PARTS: Final[Mapping[Any, type[_RedactingProvider]]] = {
    ChangeValidatingProvider: _RedactingValidator,
    DryRunProvider: _RedactingDryRunReporter,
    PlanAwareProvider: _RedactingPlanAwareProvider,
    CaptureProvider: _RedactingCaptureProvider,
    WorkloadListingProvider: _RedactingWorkloadListingProvider,
    RereadingProvider: _RedactingRereadingProvider,
    ReadDependentProvider: _RedactingReadDependentProvider,
    StartValueProvider: _RedactingStartValueProvider,
    PreconditionProvider: _RedactingPreconditionProvider,
    SiteFactsProvider: _RedactingSiteFactsProvider,
    IdentifiedProvider: _RedactingIdentifiedProvider,
}
