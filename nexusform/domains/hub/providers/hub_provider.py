"""Provider that reads, writes and waits for objects of a hub."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from itertools import chain, islice
from threading import Lock
from typing import Any, Final

from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Problem, Severity
from nexusform.diagnostics.phrases import enclose, join_texts
from nexusform.domains.hub.api.api_errors import ApiError
from nexusform.domains.hub.api.hub_cache import HubCache
from nexusform.domains.hub.api.hub_client import MAX_CONCURRENT, HubClient, HubConnection
from nexusform.domains.hub.providers.hub_bodies import (
    MANIFEST_TYPE,
    ObjectIdentity,
    index_hub_objects,
)
from nexusform.domains.hub.providers.hub_dry_run import (
    BEING_DELETED,
    HUB_REJECTION,
    OBJECT_EXISTS,
    HubDryRun,
)
from nexusform.domains.hub.providers.hub_reader import (
    HubReadFindings,
    find_manifest,
    find_object,
    read_objects,
)
from nexusform.domains.hub.providers.hub_wait import ApplyCoordination, read_hub_version
from nexusform.domains.hub.providers.namespace_content import list_namespace_content
from nexusform.domains.hub.providers.object_access import (
    HubOptions,
    convert_hub_errors,
    convert_lost_connection,
    get_uid,
)
from nexusform.domains.hub.providers.prediction_verification import Figures, read_plan_figures
from nexusform.domains.hub.providers.start_values import CONTENT, build_start_values
from nexusform.domains.hub.providers.step_writer import HubStepWriter
from nexusform.interfaces.plugins import (
    ChangeRequest,
    ChangeResult,
    ObjectKey,
    ProviderProblem,
    ReadRequest,
    ReadResult,
    StepProgress,
)
from nexusform.json_data.plain_data import get_mapping, get_text, list_mappings
from nexusform.network.parallel_calls import call_in_parallel
from nexusform.providers.optional_provider_interfaces import IdentityComparison

_SYSTEM_NAMESPACE: Final = "kube-system"
_TAG: Final = re.compile(r":v?(\d+\.\d+\.\d+[^:/@]*)(?:@.*)?$")
_UID_DIGITS: Final = 4
_FORBIDDEN: Final = 403
Values = Mapping[str, Any]


class FleetHubProvider:
    """Provider for one hub."""

    observes_objects = True

    def __init__(self, name: str, connection: HubConnection, options: HubOptions) -> None:
        """Keep the settings without connecting; a read-only hub receives no changes."""
        self.name = name
        self.sends_changes = not options.is_read_only
        self._connection = connection
        self._options = options
        # How many changes the hub accepts in dry runs.
        self._verdict = ""
        # Findings of all reads, for `list_warnings`.
        self._findings = HubReadFindings()
        # Addresses that are rejected because of an existing object.
        self._existing_addresses: frozenset[str] = frozenset()
        # Of members at planning, by URL of the hub.
        self._plan_figures: Mapping[str, Figures] = {}
        self._cache: HubCache | None = None
        self._cache_lock = Lock()
        self._coordination = ApplyCoordination()

    def set_permissions(self, allows: Callable[[str], bool], *, take_ownership: bool) -> None:
        """Set the operator's permissions for the run.

        `allows` returns True for the URL of an allowed server.
        """
        self._options = replace(
            self._options, allows_dry_run=allows, takes_ownership=take_ownership
        )
        self._connection.allow_servers(allows)

    def list_warnings(self) -> list[Problem]:
        """Return warnings about objects, placements and the connection.

        They are about re-created objects, blocked rollouts, placements in progress without a
        waiting apply, objects in deletion, fields set by others, and the connection.
        """
        warnings: list[Problem] = []
        for address, problems_by_title in self._findings.recreated.items():
            # Else an error of the plan reports it.
            if address not in self._existing_addresses:
                warnings += problems_by_title.values()
        warnings += self._findings.blocked.values()
        for address, message in self._findings.pending.items():
            detail = (
                f"The hub is not done with {address}: {message}. Nothing to send changes that; "
                "look there."
            )
            warnings.append(_build_warning("incomplete-placement", address, message, detail))
        for address, message in self._findings.deleting.items():
            detail = (
                f"{address}: {message}. Nothing is predicted for it. Plan again once it is gone."
            )
            warnings.append(_build_warning(BEING_DELETED, address, message, detail))
        for address, message in self._findings.foreign_fields.items():
            detail = (
                f"{address}: {message}. This configuration does not set it; its value on the hub "
                "is kept."
            )
            warnings.append(_build_warning("fields-owned-by-others", address, message, detail))
        return [*self._connection.list_warnings(), *warnings]

    has_fixed_identity = False

    def read_identity(self, recorded: Values, objects: Sequence[Values]) -> Values:
        """Return the identity of the hub: `uids` by namespace, `url` and `version`.

        A uid never changes, and no two clusters share one. Raises ProviderProblem.
        """
        with convert_hub_errors(requires_hub=self._options.validate_changes == "require"):
            hub = self._connection.connect()
            names_in_objects = (
                name for attributes in objects for name in _list_namespaces(attributes)
            )
            # A tenant may not read kube-system, but a namespace of its objects.
            namespaces = [
                _SYSTEM_NAMESPACE,
                *get_mapping(recorded, "uids"),
                *islice(names_in_objects, 1),
            ]
            uids: dict[str, str] = {}
            for name in dict.fromkeys(namespaces):  # each once
                uid = _read_namespace_uid(hub, name)
                # Else the namespace is missing, or may not be read.
                if uid:
                    uids[name] = uid
            tag = _TAG.search(read_hub_version(hub))
            return {"uids": uids, "url": hub.server, "version": tag[1] if tag is not None else ""}

    def compare_identity(self, recorded: Values, observed: Values) -> IdentityComparison:
        """Compare two hubs by the uid of kube-system, else of a namespace in both.

        Without such a namespace, name the obstacle.
        """
        recorded_uids = get_mapping(recorded, "uids")
        observed_uids = observed["uids"]
        common = recorded_uids.keys() & observed_uids.keys()
        # Prefer kube-system, then the other namespaces in their recorded order.
        name = next((name for name in (_SYSTEM_NAMESPACE, *recorded_uids) if name in common), None)
        if name is None:
            if not recorded_uids:
                obstacle = "the state records no uid of its hub"
            elif not observed_uids:
                obstacle = "no uid of a namespace may be read on this hub"
            else:
                obstacle = (
                    f"the state records the uid of {', '.join(recorded_uids)}, which this hub "
                    "does not show"
                )
            return IdentityComparison(obstacle=obstacle)
        if recorded_uids[name] == observed_uids[name]:
            # The same hub.
            return IdentityComparison()
        recorded_hub = f"{recorded_uids[name]} on {recorded.get('url')}"
        observed_hub = f"{observed_uids[name]} on {observed['url']}"
        difference = f"namespace {name} has the uid {recorded_hub} in the state, and {observed_hub}"
        return IdentityComparison(difference, permitting_flag_values=(observed_uids[name],))

    def describe_identity(self, identity: Values) -> str:
        """Describe the hub for the head of a plan.

        An example is `hub prod-eu (uid 3f2c, read 15:02:11, KubeFleet 0.3.1)`.
        """
        hub = self._connection.connect()
        # Uid of the first namespace.
        uid = next(iter(get_mapping(identity, "uids").values()), "")
        version = enclose("KubeFleet ", identity.get("version"))
        parts = (
            f"uid {uid[:_UID_DIGITS] or 'unknown'}",
            f"read {datetime.now(UTC):%H:%M:%S}",
            version,
        )
        return f"hub {hub.context or hub.server} ({join_texts(parts)})"

    def keep_missing_objects(self) -> None:
        """Report missing objects as unchanged from now on."""
        self._options = replace(self._options, keeps_missing=True)

    def has_missing_objects(self) -> bool:
        """Return whether the last read missed an object."""
        return bool(self._findings.missing)

    @property
    def pending_messages(self) -> dict[str, str]:
        """Pending work or blocked rollouts of the placements read, by address."""
        return {
            **self._findings.pending,
            **self._findings.deleting,
            **{address: blocked.brief for address, blocked in self._findings.blocked.items()},
        }

    def read(self, requests: Sequence[ReadRequest]) -> list[ReadResult]:
        """Read many objects, and keep the findings about them.

        Raises ProviderProblem.
        """
        if not requests:
            # No connection is made.
            return []
        with convert_hub_errors():
            answers, findings = read_objects(self._connection.connect(), self._options, requests)
            self._findings = self._findings.merge_later_findings(
                findings, {request.address for request in requests}
            )
            return answers

    def find(
        self, resource_type: str, object_id: str
    ) -> tuple[ObjectKey, Mapping[str, Any]] | None:
        """Return an object for import.

        Raises ProviderProblem.
        """
        with convert_hub_errors():
            return find_object(self._connection.connect(), self._options, resource_type, object_id)

    def needs_arguments(self, resource_type: str) -> bool:
        """Return True for a type imported by arguments of its block, not by an id.

        A manifest has several objects.
        """
        return resource_type == MANIFEST_TYPE

    def find_configured_object(
        self, resource_type: str, arguments: Mapping[str, Any]
    ) -> tuple[ObjectKey, Mapping[str, Any]]:
        """Return a manifest for import, with the hub's objects named in its arguments.

        Raises ProviderProblem.
        """
        with convert_hub_errors():
            return find_manifest(
                self._connection.connect(), self._options, resource_type, arguments
            )

    def validate_changes(self, requests: Sequence[ChangeRequest]) -> list[tuple[int, Problem]]:
        """Validate a plan by dry runs; return findings with the index of their change.

        Raises ProviderProblem.
        """
        dry_run = HubDryRun(self._connection, self._options, self._findings.recreated)
        findings = dry_run.validate_changes(requests)
        existing = [
            requests[number].address for number, problem in findings if problem.id == OBJECT_EXISTS
        ]
        self._existing_addresses = frozenset(existing)
        self._verdict = dry_run.verdict
        return findings

    def collect_start_values(self, requests: Sequence[ChangeRequest]) -> list[Mapping[str, Any]]:
        """Return the fields on the hub that each change starts from, as read for the plan.

        The start of a deleted namespace is its content. Raises ProviderProblem.
        """
        objects = self._findings.start_objects
        values: list[Mapping[str, Any]] = []
        for request in requests:
            start = build_start_values(request, objects.get(request.address, ()))
            namespaces = _list_deleted_namespaces(request, start)
            if namespaces:
                with convert_hub_errors():
                    hub = self._connection.connect()
                    start[CONTENT] = {
                        name: list_namespace_content(hub, name) for name in namespaces
                    }
            values.append(start)
        return values

    def check_preconditions(self, requests: Sequence[ChangeRequest]) -> list[tuple[int, Problem]]:
        """Compare all objects with the start of the plan, and let the hub validate all changes.

        Not those that the plan deletes first. Raises ProviderProblem.
        """
        deleted = set(chain.from_iterable(map(_list_deleted_objects, requests)))
        checked = {
            index: request
            for index, request in enumerate(requests)
            if deleted.isdisjoint(_list_new_objects(request))
            # An earlier step has written a part of it.
            and not request.is_repeated_create
            and not request.unfinished_change
        }

        def check_request(index: int) -> list[tuple[int, Problem]]:
            try:
                with self._open_writer(checked[index]) as writer:
                    writer.check_start()
            except ProviderProblem as problem:
                return [(index, Problem((), HUB_REJECTION, str(problem)))]
            return []

        results = call_in_parallel(check_request, checked, MAX_CONCURRENT)
        problems = list(chain.from_iterable(results))
        dry_run = HubDryRun(self._connection, self._options, self._findings.recreated)
        indexes = list(checked)
        for number, problem in dry_run.validate_changes(list(checked.values())):
            if problem.severity is Severity.ERROR:
                problems.append((indexes[number], problem))
        return problems

    def set_plan_responses(self, responses: Mapping[str, str]) -> None:
        """Store the figures of members read by data blocks when the plan was made.

        An example is the free capacity.
        """
        self._plan_figures = read_plan_figures(responses)

    def describe_dry_run(self) -> str:
        """Return the verdict on the last validated plan."""
        return self._verdict

    def list_skipped(
        self, requests: Sequence[ChangeRequest], reason: str
    ) -> list[tuple[int, Problem]]:
        """Return the findings for a plan without dry run."""
        return HubDryRun(self._connection, self._options, self._findings.recreated).list_skipped(
            requests, reason
        )

    def create(self, request: ChangeRequest) -> ChangeResult:
        """Create an object, or resume its creation.

        Raises ProviderProblem.
        """
        with self._open_writer(request) as writer:
            return writer.write()

    def update(self, request: ChangeRequest) -> ChangeResult:
        """Update an object, or resume its update.

        Raises ProviderProblem.
        """
        # Both apply the planned objects.
        return self.create(request)

    def delete(self, request: ChangeRequest) -> None:
        """Delete an object, and wait for the removal of its resources.

        Raises ProviderProblem.
        """
        with self._open_writer(request) as writer:
            writer.delete()

    @contextmanager
    def _open_writer(self, request: ChangeRequest) -> Iterator[HubStepWriter]:
        """Open the writer of a step.

        Requests without answer are repeated until the timeout of the step.
        """

        def report(message: str) -> None:
            request.report_progress(StepProgress(message=message))

        with ExitStack() as stack:
            stack.enter_context(convert_hub_errors())
            stack.enter_context(convert_lost_connection(request.address))
            hub = self._connection.connect()
            timing = self._connection.timing
            stack.enter_context(hub.limit_retries(self._options.timeout, report))
            with self._cache_lock:
                self._cache = self._cache or HubCache(hub, timing)
            # Figures of members at planning.
            figures = self._plan_figures.get(hub.server, {})
            yield HubStepWriter(
                hub, self._cache, self._options, request, timing, self._coordination, figures
            )


def _list_deleted_objects(request: ChangeRequest) -> set[ObjectIdentity]:
    """Return the identities of the objects that a step deletes."""
    prior = index_hub_objects(request.key.type, request.prior)
    return set(prior) - set(index_hub_objects(request.key.type, request.planned))


def _list_new_objects(request: ChangeRequest) -> set[ObjectIdentity]:
    """Return the identities of the objects that a step creates."""
    planned = index_hub_objects(request.key.type, request.planned)
    return set(planned) - set(index_hub_objects(request.key.type, request.prior))


def _list_deleted_namespaces(request: ChangeRequest, start_values: Values) -> list[str]:
    """Return the names of the namespaces that a change deletes, if the plan read them."""
    if request.planned is not None:
        return []
    hub_objects = index_hub_objects(request.key.type, request.prior).values()
    return [
        str(hub_object.body["metadata"]["name"])
        for hub_object in hub_objects
        if hub_object.is_namespace and "/".join(hub_object.identity) in start_values
    ]


def _build_warning(problem_id: str, address: str, message: str, detail: str) -> Problem:
    return Problem(
        (), problem_id, detail, Severity.WARNING, brief=f"{address}: {message}", address=address
    )


def _list_namespaces(attributes: Values) -> Iterator[str]:
    """Yield the namespaces of an object in state: of a manifest's objects, and its own."""
    for entry in list_mappings(attributes, "objects"):
        is_namespace = (entry.get("group"), entry.get("kind")) == ("", "Namespace")
        namespace = entry.get("name") if is_namespace else entry.get("namespace")
        if namespace:
            yield namespace
    if own_namespace := get_text(attributes, "namespace"):
        yield own_namespace


def _read_namespace_uid(hub: HubClient, namespace: str) -> str:
    """Return the uid of a namespace; "" if it is missing or may not be read."""
    try:
        return get_uid(hub.get(f"/api/v1/namespaces/{namespace}"))
    except ApiError as api_error:
        if api_error.status != _FORBIDDEN:
            raise
        return ""
