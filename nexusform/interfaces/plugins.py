"""Interfaces of resource types, data sources and providers.

interfaces/state_storage.py has those of state storage. `Files` and `Clock` are declared in
language/evaluation_run.py and exported again here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct, field

from nexusform.diagnostics.diagnostic import Problem
from nexusform.doubts.doubt import Doubt
from nexusform.json_data.plain_data import Path
from nexusform.language.evaluation_run import Clock, FileProblem, Files
from nexusform.placements.consequences import NO_CONSEQUENCES, ConsequenceTable
from nexusform.placements.prediction_scores import VerifiedPrediction
from nexusform.placements.vm_demands import PlacedVm, VmDemand
from nexusform.resources.address import Address, Mode
from nexusform.scheduling.racks.vms import Machine, VmSku
from nexusform.scheduling.site_inventory import PlanInventory
from nexusform.schemas.block_schema import BlockSchema
from nexusform.schemas.value_types import Type
from nexusform.state.objects import State

if TYPE_CHECKING:
    from nexusform.placements.node_properties import NodeProperties

__all__ = ["Clock", "FileProblem", "Files"]


class ResourceContext(Protocol):
    """Plan context of a resource type for the computation of its demand."""

    def find_sku(self, name: str, site_id: str = "") -> VmSku | None:
        """Find a VM SKU by name: of the site itself, the catalogue's, or a nexus_vm_sku's."""

    def list_sku_names(self, site_id: str = "") -> Sequence[str]:
        """List the known SKU names, sorted, with those of the site itself."""

    def find_cluster(self, cluster_id: str) -> Mapping[str, Any] | None:
        """Find the attributes of the nexus_kubernetes_cluster with this id, or None."""

    def find_hint_targets(self, resource_id: str) -> tuple[frozenset[str], frozenset[str]] | None:
        """Find the current machines and racks (names) for a placement hint's resource_id.

        They are a VM's machine and rack, a machine, or a rack. Return None for an unknown id.
        """

    def list_machines(self, site_id: str) -> Sequence[Machine] | None:
        """List the machines of a site; None if unknown, as for objects of a prior state."""


# VMs without machine, by pool and number, as recorded in the attributes of their object.
UnplacedVms: TypeAlias = Mapping[tuple[str, "int | str"], Mapping[str, Any]]


def _describe_plain_node(
    _attributes: Mapping[str, Any], _vm: PlacedVm, _cluster: Mapping[str, Any]
) -> NodeProperties:
    """Return the properties of a node without labels and taints."""
    from nexusform.placements.node_properties import NodeProperties

    return NodeProperties()


class VmHandlers(Struct, frozen=True):
    """Functions of a resource type of phase 4 about its VMs.

    All of these are pure. `build_demand(attributes, context, address)` -> its demand (None with
    problems if it is unknown). `list_existing_vms(attributes)` -> the VMs of a prior object.
    `list_unplaced_vms(attributes)` -> the VMs without a machine on the platform, by pool and
    number, as recorded in their attributes. `build_computed_attributes(attributes, context, placed,
    unplaced)` -> the computed attributes with the placements (`nodes`, `machine`, ...); it gets the
    arguments and, for an existing object, its earlier computed attributes. `check_skus(attributes,
    numa_cells)` -> a problem for every SKU in the arguments that is unknown or unsuitable, for
    checks without a plan; `numa_cells` has the NUMA cells of each known SKU by name.
    `describe_node(attributes, vm, cluster)` -> the node properties of one of its VMs; `cluster`
    are the attributes of the cluster of a separate pool, else its own.
    """

    build_demand: Callable[
        [Mapping[str, Any], ResourceContext, Address], tuple[VmDemand | None, list[Problem]]
    ]
    list_existing_vms: Callable[[Mapping[str, Any]], tuple[PlacedVm, ...]]
    build_computed_attributes: Callable[
        [Mapping[str, Any], ResourceContext, Sequence[PlacedVm], UnplacedVms], dict[str, Any]
    ]
    check_skus: Callable[[Mapping[str, Any], Mapping[str, int]], list[Problem]] = (
        lambda _values, _numa_cells: []
    )
    describe_node: Callable[[Mapping[str, Any], PlacedVm, Mapping[str, Any]], NodeProperties] = (
        _describe_plain_node
    )
    list_unplaced_vms: Callable[[Mapping[str, Any]], UnplacedVms] = lambda _values: {}


class RemoteStateQuery(Struct, frozen=True):
    """Query for a state: the backend's kind and settings, the workspace, and the data block.

    The data block requests the state.
    """

    reader: str
    backend: str
    config: Mapping[str, Any]
    workspace: str


# The state, its version and problems. None with problems if it cannot be read; their paths are in
# the query. The version changes with the content, and when an apply of the state begins or ends.
StateReader: TypeAlias = Callable[[RemoteStateQuery], tuple[State | None, str, list[Problem]]]


class ServerQuery(Struct, frozen=True):
    """Query of a data source to a server.

    `reader` is the name of the function that runs it, in `server_readers` of a domain.
    """

    reader: str
    arguments: Mapping[str, Any]


# Returns the response as text. Raises ExternalQueryProblem.
ServerReader: TypeAlias = Callable[[ServerQuery], str]


class ExternalQueryProblem(Exception):
    """Failure of an external query, or an unusable response, with the problem."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail)
        self.problem = problem


def _reject_server_query(_question: ServerQuery) -> str:
    raise ExternalQueryProblem(Problem((), "unreadable-hub", "Servers cannot be queried here."))


class ReadContext(Struct, frozen=True):
    """Context of a data source: files and the time.

    `managed_names` are the names managed by the configuration (prior state and import blocks):
    clusters and VMs by name, separate pools as `<cluster>/<pool>`. `types` are the resource types
    by name. `read_state` reads the state of another configuration. `query_server` queries a server,
    once in a run. `list_configured(type)` returns the arguments of the configured blocks of a type;
    values from data or resources are unknown.
    """

    files: Files
    # RFC 3339, UTC.
    now: str
    managed_names: frozenset[str] = frozenset()
    types: Mapping[str, ResourceType] = field(default_factory=dict)
    read_state: StateReader = lambda _query: (
        None,
        "",
        [Problem((), "unreadable-state", "Other states cannot be read here.")],
    )
    query_server: ServerReader = _reject_server_query
    list_configured: Callable[[str], Sequence[Mapping[str, Any]]] = lambda _type: ()


class DataResult(Struct, frozen=True):
    """Result of a data source: its computed attributes (plain data) and problems.

    `sensitive_paths` are paths in the attributes that must not be displayed; `types` are the types
    of attributes with an open type in the schema; `unread` are facts of its documents that are not
    read, and `unread_of_pods` those that concern no VM of a site.
    """

    attributes: dict[str, Any]
    problems: Sequence[Problem] = ()
    sensitive_paths: tuple[Path, ...] = ()
    types: Mapping[str, Type] = field(default_factory=dict)
    unread: tuple[Doubt, ...] = ()
    unread_of_pods: tuple[Doubt, ...] = ()


class PlanningKind(StrEnum):
    """Kind of the objects of a type for planning, if the schema does not define it."""

    OTHER = "other"
    VM_SKU = "vm_sku"
    RACK = "rack"
    MACHINE = "machine"
    MACHINE_ACTION = "machine_action"
    # Separate pools may join it.
    CLUSTER = "cluster"
    MEMBER = "member"
    MANIFEST = "manifest"
    PLACEMENT = "placement"
    SEPARATION_RULE = "separation_rule"
    REMOTE_STATE = "remote_state"
    NODES = "nodes"
    HUB_EXPORT = "hub_export"


# New values of some arguments, and the problems.
ArgumentChange: TypeAlias = tuple[dict[str, Any], list[Problem]]


class ResourceType(Struct, frozen=True):
    """Resource type or data source; attribute values are plain data.

    `phase` is its planning phase (1..7; 0 for data). `build_id(attributes)` returns the id.
    `derive(attributes)` returns computed attributes that depend on the arguments alone.
    `check(attributes)` returns problems of the arguments beyond the schema; unknown scalars are
    UNKNOWN and must be accepted. `add_to_inventory(attributes, address, inventory)` adds the
    resource to the inventory and returns problems; the attributes may have observed facts
    (`add_observed_facts`). `vms` for types that place VMs. `read` for data sources: (arguments,
    context) -> the result. `present(attributes, name)` returns an attribute for expressions, if
    parts of it are derived instead of stored. `fill(arguments)` returns omitted arguments that
    follow from others (a manifest's name). `unpack(arguments, files)` returns arguments from a file
    referenced by another argument, and its problems. `adjust(arguments, prior)` returns arguments
    equal in meaning to the prior ones, and problems of the change. `kind` is the kind of its
    objects for the planner. `list_secrets(attributes)` are the paths of arguments with secrets, for
    any configuration. `placement_kinds` are the kinds of placements of its objects besides VMs.
    `concurrent_types` are types with objects that complete only after those of this type that refer
    to them (a run continues when its approval is granted): in an apply both start together.
    `split_write_only_body(arguments)` returns arguments with the saved parts of write-only
    arguments, and problems without any of their text. Types with write-only arguments have it.
    `correct_recorded_object(attributes, note)` returns the attributes of an object in state without
    errors of earlier versions; `note` is its private note. `consequences` are those of the actions
    on its objects. With `has_own_skus` only a plan knows the VM SKUs of its objects.
    """

    name: str
    phase: int
    schema: BlockSchema
    build_id: Callable[[Mapping[str, Any]], str]
    mode: Mode = "managed"
    derive: Callable[[Mapping[str, Any]], dict[str, Any]] = lambda _arguments: {}
    check: Callable[[Mapping[str, Any]], list[Problem]] = lambda _arguments: []
    add_to_inventory: Callable[[Mapping[str, Any], str, PlanInventory], list[Problem]] | None = None
    vms: VmHandlers | None = None
    read: Callable[[Mapping[str, Any], ReadContext], DataResult] | None = None
    present: Callable[[Mapping[str, Any], str], Any] | None = None
    fill: Callable[[Mapping[str, Any]], dict[str, Any]] = lambda _arguments: {}
    unpack_arguments: Callable[[Mapping[str, Any], Files], ArgumentChange] = (
        lambda _arguments, _files: ({}, [])
    )
    adjust: Callable[[Mapping[str, Any], Mapping[str, Any]], ArgumentChange] = (
        lambda _arguments, _prior: ({}, [])
    )
    kind: PlanningKind = PlanningKind.OTHER
    list_secrets: Callable[[Mapping[str, Any]], tuple[Path, ...]] = lambda _attributes: ()
    placement_kinds: tuple[str, ...] = ()
    concurrent_types: tuple[str, ...] = ()
    split_write_only_body: Callable[[Mapping[str, Any]], ArgumentChange] | None = None
    consequences: ConsequenceTable = NO_CONSEQUENCES
    has_own_skus: bool = False
    correct_recorded_object: (
        Callable[[Mapping[str, Any], Mapping[str, Any] | None], Mapping[str, Any]] | None
    ) = None

    @property
    def noun(self) -> str:
        """Type in words: "kubernetes cluster"."""
        return self.name.removeprefix("nexus_").replace("_", " ")


class ObjectKey(Struct, frozen=True):
    """Identity of an object at a provider.

    `creation` is 0 if it is unknown (import).
    """

    type: str
    id: str
    creation: int


class ReadRequest(Struct, frozen=True):
    """Request to read one object; `attributes` are the recorded ones.

    `address` is for messages and fault drills. `planned` is the planned object of a step that may
    have created it: a provider that finds it takes attributes it cannot observe from there.
    `unfinished_change` is its note of that name, `private_note` the whole private note.
    `is_being_deleted` means that an earlier run started its deletion, and it counts as removed
    after that. `lineage` is that of the state, for the owner mark of the object. `operation` is the
    last one reported by an unfinished step, "" if it sent nothing, None for other reads.
    """

    key: ObjectKey
    attributes: Mapping[str, Any]
    address: str = ""
    planned: Mapping[str, Any] | None = None
    unfinished_change: Mapping[str, Any] | None = None
    is_being_deleted: bool = False
    private_note: Mapping[str, Any] = field(default_factory=dict)
    lineage: str = ""
    operation: str | None = None

    @property
    def known_attributes(self) -> Mapping[str, Any]:
        """Return the attributes of the object in the state, else the planned ones, else {}.

        The planned ones are those of a step that may have created it.
        """
        return self.attributes or self.planned or {}


def get_unfinished_message(unfinished: Mapping[str, Any]) -> str:
    """Return the message of the note about an unfinished change.

    Earlier versions recorded it as "words".
    """
    return str(unfinished.get("message") or unfinished.get("words", ""))


class ReadResult(Struct, frozen=True):
    """Current attributes, or None if the object does not exist.

    `is_observed` is False if they only repeat the request, because what was captured of a real
    system lacks the object. `is_settled` is False while a change of the object is in progress: its
    step is not completed. `is_whole` is False for a rest of an object that others took down: a plan
    replaces it, as after a failed create. `note` is merged into the object's private note in state;
    None values are removed from it.
    """

    attributes: Mapping[str, Any] | None
    is_observed: bool = True
    is_settled: bool = True
    is_whole: bool = True
    note: Mapping[str, Any] = field(default_factory=dict)


# End of the message about an existing object that an unfinished creation may have made.
EARLIER_CREATION_HINT: Final = (
    " If an earlier version of nexusform started this creation, the object may be its own: it left "
    "no mark. Then run `nexusform apply -discard`, and import the object."
)


class StepProgress(Struct, frozen=True):
    """Progress of a step, reported by its provider.

    `operation` is an external operation of the step in progress, in the provider's own format (a
    URL). It is passed to the step again (`ChangeRequest.resumed_operation`) if this run ends first.
    It replaces the earlier one, unless it starts with OPERATION_CONTINUATION. `message` is for
    people. `is_waiting` means that everything was requested, and the step only waits, so that
    others may start.
    """

    operation: str | None = None
    message: str = ""
    is_waiting: bool = False


class ChangeRequest(Struct, frozen=True):
    """Request to create, update or delete one object.

    `address` is for messages and fault drills; `prior` is None on create, `planned` None on delete.
    Creates are idempotent by the key. With `is_release` this update only removes VMs, to release
    capacity for others; `final_attributes` is the object after all of its steps.
    `resumed_operation` is None unless an earlier run started this step: then its last reported
    operation, "" if there was none. `report_progress` takes progress of the step and returns after
    it is recorded. `has_operator` means that a person is available for manual actions.
    `should_stop` returns whether the run is to end soon. `unfinished_change` is the object's note
    of an earlier failed change: it is applied as well. `private_note` is the whole private note.
    `ignored_paths` are arguments with other managers. For dry runs, `replaced_attributes` are those
    of an object deleted before this one is created, and `skip_reason` is why it cannot be
    validated, or "". `planned_note` is the private note of the object after the plan.
    `is_repeated_create` means that an earlier try of this create failed, but its object exists.
    `is_sensitive` means that no value of the object may be in a message. `write_only` are its
    write-only arguments. `lineage` is that of the state: with address and creation it is the owner
    mark of an object. `recorded_objects` are the objects at the address in the state.
    `start_values` are those that the provider collected when the plan was made
    (`StartValueProvider`), {} if the plan did not read its system.
    """

    key: ObjectKey
    address: str
    prior: Mapping[str, Any] | None
    planned: Mapping[str, Any] | None
    is_release: bool = False
    final_attributes: Mapping[str, Any] | None = None
    resumed_operation: str | None = None
    report_progress: Callable[[StepProgress], None] = lambda _progress: None
    has_operator: bool = False
    should_stop: Callable[[], bool] = lambda: False
    unfinished_change: Mapping[str, Any] | None = None
    private_note: Mapping[str, Any] = field(default_factory=dict)
    ignored_paths: tuple[Path, ...] = ()
    replaced_attributes: Mapping[str, Any] | None = None
    skip_reason: str = ""
    planned_note: Mapping[str, Any] = field(default_factory=dict)
    is_repeated_create: bool = False
    is_sensitive: bool = False
    write_only: Mapping[str, Any] = field(default_factory=dict)
    lineage: str = ""
    recorded_objects: tuple[Mapping[str, Any], ...] = ()
    start_values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def planned_attributes(self) -> Mapping[str, Any]:
        """Planned attributes, {} on delete."""
        return self.planned or {}

    @property
    def prior_attributes(self) -> Mapping[str, Any]:
        """Prior attributes, {} on create."""
        return self.prior or {}

    @property
    def attributes(self) -> Mapping[str, Any]:
        """Planned attributes; on delete the prior ones."""
        return self.planned or self.prior_attributes


class ChangeResult(Struct, frozen=True):
    """Attributes after a create or update.

    `observed_paths` are the paths observed by the provider (a predicted value there may differ from
    the plan). At `accepted_paths` another value is no wrong prediction, and an object is not
    counted. `unfinished_change` is the unapplied part of the change, for the object's note: it is
    reported as an error, and the applied part is saved. `note` is merged into the object's private
    note, and so are the plan's
    `verified_predictions` about the object, if the provider can verify them. `remark` is the
    unfinished part of a completed step, as predicted, for the end of the apply, `not_verified`
    describes results without permission to read them.
    """

    attributes: Mapping[str, Any]
    observed_paths: tuple[Path, ...] = ()
    unfinished_change: Mapping[str, Any] | None = None
    note: Mapping[str, Any] = field(default_factory=dict)
    verified_predictions: tuple[VerifiedPrediction, ...] = ()
    remark: str = ""
    not_verified: str = ""
    accepted_paths: tuple[Path, ...] = ()


class ProviderProblem(Exception):
    """Failed step at the provider.

    `object_exists` means that a create failed after the object was created; `attributes` are then
    its attributes. `unfinished_change` is recorded for an existing object: the change is pending
    until it is completed. `is_unreachable` means that the system has no usable answer, and a plan
    may start from the state instead. `is_partial` means that a create failed after some of its
    objects were created; the next run reads them, as after a crash.
    """

    def __init__(
        self,
        message: str,
        *,
        object_exists: bool = False,
        attributes: Mapping[str, Any] | None = None,
        unfinished_change: Mapping[str, Any] | None = None,
        is_unreachable: bool = False,
    ) -> None:
        """Keep the facts about the failure.

        `attributes` and `unfinished_change` apply if the object exists.
        """
        super().__init__(message)
        self.is_unreachable = is_unreachable
        # Set later, if only some objects of a create exist.
        self.is_partial = False
        # A create failed after the object was created.
        self.object_exists = object_exists
        # Attributes of this object.
        self.attributes = attributes
        # The change left to complete, if the object exists.
        self.unfinished_change = unfinished_change


class StepPending(ProviderProblem):
    """Started and unfinished step: the next run resumes it.

    The message is the reason for waiting.
    """


class ManualStepPending(ProviderProblem):
    """Step of another manager, at a read-only provider: the requested change is not present yet."""


class Provider(Protocol):
    """Provider: applies steps.

    Calls may be concurrent.
    """

    # Name as shown in JSON: "nexusform.dev/builtin/simulated".
    name: str
    # False if nothing is sent from this machine.
    sends_changes: bool
    # False if read() can only return the recorded state (refresh may skip it).
    observes_objects: bool

    def read(self, requests: Sequence[ReadRequest]) -> list[ReadResult]:
        """Read objects at once.

        Return one result for each request, in the same order.
        """

    def create(self, request: ChangeRequest) -> ChangeResult:
        """Create the object.

        Raises ProviderProblem.
        """

    def update(self, request: ChangeRequest) -> ChangeResult:
        """Update the object in place.

        Raises ProviderProblem.
        """

    def delete(self, request: ChangeRequest) -> None:
        """Delete the object; a missing one is no error.

        Raises ProviderProblem.
        """

    def find(
        self, resource_type: str, object_id: str
    ) -> tuple[ObjectKey, Mapping[str, Any]] | None:
        """Find the only object of that type and id, for import.

        Return its key and attributes; None without it.
        """

    def list_warnings(self) -> list[Problem]:
        """List warnings about the objects read so far."""


@runtime_checkable
class ChangeValidatingProvider(Protocol):
    """Provider that reports unsupported changes and manual actions before an apply."""

    def validate_changes(self, requests: Sequence[ChangeRequest]) -> list[tuple[int, Problem]]:
        """Validate the changes of a plan.

        Return problems with the index of their change: errors for unsupported ones. Raises
        ProviderProblem if validation is impossible.
        """


@runtime_checkable
class PreconditionProvider(Protocol):
    """Provider that checks all steps of a plan before the first one writes."""

    def check_preconditions(self, requests: Sequence[ChangeRequest]) -> list[tuple[int, Problem]]:
        """Return errors of steps that would be refused, each with the index of its request.

        Nothing is written. Raises ProviderProblem.
        """


@runtime_checkable
class DryRunProvider(Protocol):
    """Provider with a server-side dry run of a plan.

    It also gets deletions (without `planned`), and changes with errors (`skip_reason`), and reports
    that these were not validated.
    """

    def describe_dry_run(self) -> str:
        """Describe the result of the last server-side dry run, in sentences; "" without one."""

    def list_skipped(
        self, requests: Sequence[ChangeRequest], reason: str
    ) -> list[tuple[int, Problem]]:
        """Return problems about changes not dry-run for this `reason`.

        Each has the index of its request.
        """


@runtime_checkable
class PlanAwareProvider(Protocol):
    """Provider that compares results with the server responses of a plan."""

    def set_plan_responses(self, responses: Mapping[str, str]) -> None:
        """Set the server responses to the data blocks of the plan to apply, by query."""


@runtime_checkable
class PermissionedProvider(Protocol):
    """Provider with operator permissions for a run."""

    def set_permissions(
        self, is_url_allowed: Callable[[str], bool], *, take_ownership: bool
    ) -> None:
        """Set which URLs may get the credentials, and whether foreign fields are overwritten.

        Foreign fields are those of other managers.
        """


class SiteCapture(Struct, frozen=True):
    """Captured site with the time of the capture, RFC 3339.

    The time is "" if it is unknown. With `is_newest_change` it is the time of the newest change
    in the site.
    """

    site: str
    time: str
    is_newest_change: bool = False


@runtime_checkable
class CaptureProvider(Protocol):
    """Provider of captured sites."""

    def list_captures(self) -> list[SiteCapture]:
        """List the captured sites."""


@runtime_checkable
class StateUser(Protocol):
    """Provider that needs the recorded objects of the state."""

    def set_state_objects(
        self, objects: Iterable[Mapping[str, Any]], managed: Iterable[tuple[str, str]]
    ) -> None:
        """Receive parts of the state.

        They are the attributes of this provider's `objects`, and (type, id) of all objects.
        """


class PluginRegistries(Struct, frozen=True):
    """Tables of plug-ins by name.

    A table may load its values on access, so look up only what you need.
    """

    resource_types: Mapping[str, ResourceType] = field(default_factory=dict)
    data_sources: Mapping[str, ResourceType] = field(default_factory=dict)

    def get_kind(self, type_name: str) -> PlanningKind:
        """Return the planning kind of a type; OTHER for an unknown type."""
        return (
            self.resource_types[type_name].kind
            if type_name in self.resource_types
            else PlanningKind.OTHER
        )

    @property
    def schemas(self) -> Mapping[Mode, Mapping[str, BlockSchema]]:
        """Schema of each type by mode and name."""
        return {
            "managed": _SchemaTable(self.resource_types),
            "data": _SchemaTable(self.data_sources),
        }


class _SchemaTable(Mapping[str, BlockSchema]):
    """Schemas of a table of types, each loaded on access."""

    def __init__(self, types: Mapping[str, ResourceType]) -> None:
        self._types = types

    def __getitem__(self, name: str) -> BlockSchema:
        return self._types[name].schema

    def __contains__(self, name: object) -> bool:
        return name in self._types

    def __iter__(self) -> Iterator[str]:
        return iter(self._types)

    def __len__(self) -> int:
        return len(self._types)
