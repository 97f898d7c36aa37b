"""Optional interfaces of providers.

Identities, lists of workloads, start values, objects found by the arguments of their block.
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct

from nexusform.diagnostics.diagnostic import Problem
from nexusform.interfaces.plugins import ChangeRequest, ObjectKey


@runtime_checkable
class FinderByArguments(Protocol):
    """Provider with imports by the arguments of a block instead of an id."""

    def needs_arguments(self, resource_type: str) -> bool:
        """Return whether an import finds objects of this type by arguments, not by an id.

        The arguments are those of their block.
        """

    def find_configured_object(
        self, resource_type: str, arguments: Mapping[str, Any]
    ) -> tuple[ObjectKey, Mapping[str, Any]]:
        """Find the real objects of a block to import.

        Return key and attributes to record. Raises ProviderProblem.
        """


@runtime_checkable
class WorkloadListingProvider(Protocol):
    """Provider of sites with a list of all clusters and VMs, managed or not."""

    def list_workload_ids(self) -> AbstractSet[tuple[str, str]]:
        """Return (type, id) of each cluster and VM.

        Raises ProviderProblem.
        """

    def collect_site_notes(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the observed facts of each site by its id, as in the private note of a site.

        Raises ProviderProblem.
        """


@runtime_checkable
class StartValueProvider(Protocol):
    """Provider that compares its system with the values that the plan was made on.

    The plan file and the journal have these values. Each step gets those of its address
    (`ChangeRequest.start_values`), also when it is resumed.
    """

    def collect_start_values(self, requests: Sequence[ChangeRequest]) -> list[Mapping[str, Any]]:
        """Return the values of each change as read for this plan, as plain data.

        They may include values without an attribute, such as the creation time. Return one result
        for each request, in the same order; {} for none. Raises ProviderProblem.
        """


@runtime_checkable
class SiteFactsProvider(Protocol):
    """Provider that reads facts of whole sites which are no attributes of an object."""

    def list_site_facts(self) -> Mapping[str, str]:
        """Return facts as read, such as {"lab/c/web: creation time": "2026-01-01T00:00:00Z"}.

        A fact starts with the id of its object. Others do not change it by moving VMs. Raises
        ProviderProblem.
        """


@runtime_checkable
class ReadDependentProvider(Protocol):
    """Provider with changes that depend on values which only its system has, not the state."""

    def list_unread_changes(self, requests: Sequence[ChangeRequest]) -> list[tuple[int, Problem]]:
        """Return errors for the changes that a plan from the state alone must not contain.

        Each has the index of its request.
        """


@runtime_checkable
class RereadingProvider(Protocol):
    """Provider that can read its sites again in the same run."""

    def discard_reads(
        self, objects: Iterable[Mapping[str, Any]], managed: Iterable[tuple[str, str]]
    ) -> None:
        """Make the next read ask the system again.

        `objects` and `managed` are those of the state now, as for `StateUser`.
        """

    def describe_last_change(self, resource_type: str, name: str) -> str:
        """Return author and time of the last change of an object as read; "" if unknown.

        `name` is its id. With "" as the type it is the platform's name of a VM.
        """

    def list_machine_activity(self, since: str) -> Mapping[str, str]:
        """Return the newest action that runs, or began since a time, by id of its machine."""


class IdentityComparison(Struct, frozen=True):
    """Comparison of the recorded identity of a system with the observed one.

    `difference` names both if they differ. A run then needs -allow-other-hub with one of
    `permitting_flag_values`. `obstacle` is why they cannot be compared.
    """

    difference: str = ""
    permitting_flag_values: tuple[str, ...] = ()
    obstacle: str = ""


@runtime_checkable
class IdentifiedProvider(Protocol):
    """Provider of a system with an identity.

    With `has_fixed_identity`, the settings of the provider are the identity.
    """

    has_fixed_identity: bool

    def read_identity(
        self, recorded: Mapping[str, Any], objects: Sequence[Mapping[str, Any]]
    ) -> Mapping[str, Any]:
        """Read the identity.

        The state has the identity `recorded` and these `objects`. Raises ProviderProblem.
        """

    def compare_identity(
        self, recorded: Mapping[str, Any], observed: Mapping[str, Any]
    ) -> IdentityComparison:
        """Compare a recorded identity with the observed one."""

    def describe_identity(self, identity: Mapping[str, Any]) -> str:
        """Describe the system for the head of a plan; "" if it was not read."""

    def keep_missing_objects(self) -> None:
        """Make later reads report missing objects as unchanged.

        This system may not be the recorded one.
        """

    def has_missing_objects(self) -> bool:
        """Return whether the last read did not find some recorded objects on the system."""


class FixedIdentity:
    """Identity of a system by its settings, such as address, subscription or location.

    It is empty for files.
    """

    has_fixed_identity = True

    def __init__(self, identity: Mapping[str, str]) -> None:
        self._identity = identity

    def read_identity(
        self, _recorded: Mapping[str, Any], _objects: Sequence[Mapping[str, Any]]
    ) -> Mapping[str, Any]:
        """Return the settings of the provider: they are its identity."""
        return self._identity

    def compare_identity(
        self, recorded: Mapping[str, Any], observed: Mapping[str, Any]
    ) -> IdentityComparison:
        """Compare the settings in the state with those of the provider.

        A setting missing in either is equal.
        """
        for name, value in observed.items():
            recorded_value = str(recorded.get(name) or "")
            if value and recorded_value not in ("", value):
                difference = f"{name} is {recorded_value} in the state, and {value} here"
                return IdentityComparison(
                    difference, permitting_flag_values=(value,)
                )  # of -allow-other-hub
        return IdentityComparison()

    def describe_identity(self, _identity: Mapping[str, Any]) -> str:
        """Return no title; reports name the objects."""
        return ""

    def keep_missing_objects(self) -> None:
        """Ignore the request: the identity is always known, so missing objects were deleted."""

    def has_missing_objects(self) -> bool:
        """Return False.

        Only called for systems with an unknown identity, and here it is always known.
        """
        return False
