"""Reading of known resources on a hub, and of objects to import."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, Final, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Problem
from nexusform.diagnostics.phrases import format_first_items, group_by
from nexusform.domains.fleet.importers.fleet_export import build_manifests, is_deleting
from nexusform.domains.fleet.types.fleet_hub_export import build_placement_attributes
from nexusform.domains.hub.api.hub_cache import CACHE_THRESHOLD, PARENT_LABEL, get_parent_placement
from nexusform.domains.hub.api.hub_client import HubClient
from nexusform.domains.hub.api.hub_kinds import KINDS
from nexusform.domains.hub.providers.creation_marks import (
    build_creation_manager,
    is_created_by_step,
)
from nexusform.domains.hub.providers.field_ownership import (
    build_hub_record,
    build_recreation_warning,
    describe_foreign_fields,
    is_identity_only,
    is_recreated,
)
from nexusform.domains.hub.providers.hub_bodies import (
    APPROVAL_TYPES,
    EVICTION_TYPE,
    KINDS_BY_TYPE,
    MEMBER_TYPE,
    PLACEMENT_TYPES,
    RECORD_TYPES,
    RUN_TYPES,
    HubObject,
    build_hub_objects,
    build_observed_attributes,
    find_differences,
    read_imported_arguments,
    read_member_taints,
)
from nexusform.domains.hub.providers.hub_wait import (
    has_been_scheduled,
    has_external_rollout,
    list_created_kinds,
    list_remaining_objects,
    read_created_objects,
    read_eviction_result,
)
from nexusform.domains.hub.providers.object_access import (
    HubOptions,
    describe_deletion_blockers,
    find_object_path,
    get_identity,
    list_applied_fields,
    list_in_namespaces,
    read_existing_bodies,
    reject_tool_managed_object,
)
from nexusform.domains.hub.providers.override_rollout import OVERRIDE_TYPES, OverrideRollout
from nexusform.domains.hub.providers.rollout_progress import (
    ObservedPlacementObjects,
    build_observed_bindings,
    build_placement_manifests,
    check_placement_progress,
    check_run_progress,
    find_blocked_rollout,
    get_labels,
    is_approved,
)
from nexusform.domains.hub.providers.start_values import prune_body
from nexusform.domains.pods.importers.manifest_parser import format_canonical_json
from nexusform.interfaces.plugins import ObjectKey, ProviderProblem, ReadRequest, ReadResult
from nexusform.json_data.plain_data import get_list, get_mapping, get_part
from nexusform.resource_types.registry import RESOURCE_TYPES
from nexusform.schemas.block_schema import UNFINISHED_KEY

Values = Mapping[str, Any]
T = TypeVar("T")
_MAX_NAMES: Final = 4
# Predicted attributes of a placement, whatever is observed.
PREDICTED_ATTRIBUTES: Final = ("selected_resources", "workloads")
_STATUSES: Final = "placement_statuses"
_EVICTION_COLLECTION: Final = KINDS["ClusterResourcePlacementEviction"].collection


class HubReadFindings(Struct, frozen=True):
    """Findings about objects by address.

    Pending work of placements without a waiting apply, foreign fields, objects re-created by others
    (by title), blocked rollouts, objects in deletion, and missing objects. `start_objects` are the
    objects as read, which a change of the plan starts from.
    """

    pending: dict[str, str] = field(default_factory=dict)
    foreign_fields: dict[str, str] = field(default_factory=dict)
    recreated: dict[str, dict[str, Problem]] = field(default_factory=dict)
    blocked: dict[str, Problem] = field(default_factory=dict)
    deleting: dict[str, str] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)
    start_objects: dict[str, list[tuple[HubObject, Values]]] = field(default_factory=dict)

    def merge_later_findings(
        self, later: HubReadFindings, addresses: Collection[str]
    ) -> HubReadFindings:
        """Return the findings, with the ones about `addresses` replaced.

        They are replaced by the `later` ones of a later read.
        """
        return HubReadFindings(
            _remove_addresses(self.pending, addresses) | later.pending,
            _remove_addresses(self.foreign_fields, addresses) | later.foreign_fields,
            _remove_addresses(self.recreated, addresses) | later.recreated,
            _remove_addresses(self.blocked, addresses) | later.blocked,
            _remove_addresses(self.deleting, addresses) | later.deleting,
            (self.missing - set(addresses)) | later.missing,
            _remove_addresses(self.start_objects, addresses) | later.start_objects,
        )


def _remove_addresses(findings: Mapping[str, T], addresses: Collection[str]) -> dict[str, T]:
    return {address: finding for address, finding in findings.items() if address not in addresses}


def read_objects(
    hub: HubClient, options: HubOptions, requests: Sequence[ReadRequest]
) -> tuple[list[ReadResult], HubReadFindings]:
    """Read many objects; return answers and findings.

    Raises ApiError and HubProblem.
    """
    reader = _HubObjectReader(hub, requests)
    findings = HubReadFindings()
    # Each adds its findings.
    answers = [_read_object(reader, options, request, findings) for request in requests]
    return answers, findings


def _read_object(
    reader: _HubObjectReader, options: HubOptions, request: ReadRequest, findings: HubReadFindings
) -> ReadResult:
    """Read a resource from the hub.

    Return its attributes, and its note (record of its objects) for state. Attributes stay as
    recorded if the hub has the same. Add warnings and missing resources to `findings`.
    """
    key = request.key
    recorded = request.known_attributes
    if key.type in APPROVAL_TYPES:
        approval = reader.hub.get(build_hub_objects(key.type, recorded)[0].path)
        is_granted = is_approved(get_mapping(approval))
        # An approval in state stays, even without its request. One of an interrupted step (planned)
        # is absent until it is granted, so the step is repeated.
        return ReadResult(recorded if is_granted or request.planned is None else None)
    hub_objects = build_hub_objects(key.type, recorded)
    # It has no objects on a hub.
    if not hub_objects:
        return ReadResult(recorded)
    # Objects and bodies.
    managed = _select_managed_objects(reader, options, request, hub_objects, findings)
    if not managed:
        findings.missing.add(request.address)
        return _build_missing_object_result(reader.hub, options, request)
    findings.start_objects[request.address] = [
        (hub_object, prune_body(body)) for hub_object, body in managed
    ]
    bodies = [body for _, body in managed]
    attributes: Values = recorded
    if len(bodies) < len(hub_objects) or _has_differences(managed):
        attributes = build_observed_attributes(key.type, recorded, hub_objects, bodies)
    note = build_hub_record(key.type, managed, options.manager, request.private_note)
    if key.type in PLACEMENT_TYPES:
        attributes, pending_work = _read_observed_placement(
            reader, request, bodies[0], attributes, findings
        )
    elif key.type in OVERRIDE_TYPES and (request.planned is not None or request.unfinished_change):
        _, pending_work = OverrideRollout(
            reader.hub, key.type, recorded, is_deleted=False
        ).check_progress()
    else:
        # "" unless it is a run or an eviction.
        pending_work = describe_pending_work(key.type, bodies[0])
    # {} without an unfinished one.
    unfinished_note = build_unfinished_note(request, hub_objects[0].title, pending_work)
    # The note describes it already.
    reported_work = "" if unfinished_note else pending_work
    _add_deletion_and_pending_work_findings(findings, request, managed, reported_work)
    # Not settled after an interrupted step: it is repeated to verify its predictions.
    return ReadResult(attributes, is_settled=request.planned is None, note=note | unfinished_note)


def _read_observed_placement(
    reader: _HubObjectReader,
    request: ReadRequest,
    body: Values,
    attributes: Values,
    findings: HubReadFindings,
) -> tuple[Values, str]:
    """Return the attributes of a placement together with the observed ones, and its pending work.

    The work is "" if it is done. A blocked rollout cannot continue: it is no pending work, but
    added to `findings`.
    """
    recorded = request.known_attributes
    placement = reader.read_created_objects(body, *get_identity(request.key.type, recorded))
    # Only cluster-scoped placements have evictions.
    evictions = () if recorded.get("namespace") else reader.evictions
    observed = {**attributes, **_build_observed_placement(placement, attributes, evictions)}
    is_run_managed = has_external_rollout(body)
    progress = check_placement_progress(placement, planned={}, is_external=is_run_managed)
    if progress.is_done:
        return observed, ""
    # The hub has picked clusters.
    blocked = find_blocked_rollout(placement) if progress.is_decided else None
    if blocked is not None:
        findings.blocked[request.address] = replace(
            blocked.build_problem(), address=request.address
        )
        return observed, ""
    return observed, progress.message


def _add_deletion_and_pending_work_findings(
    findings: HubReadFindings,
    request: ReadRequest,
    managed: Sequence[tuple[HubObject, dict[str, Any]]],
    message: str,
) -> None:
    """Add the objects in deletion, else the pending work of a placement, to `findings`.

    `message` is the pending work, "" for none.
    """
    deleting = [
        f"{hub_object.title} is being deleted{describe_deletion_blockers(body)}"
        for hub_object, body in managed
        if is_deleting(body) and request.key.type != MEMBER_TYPE
    ]
    if deletion_message := format_first_items(deleting, _MAX_NAMES, separator="; "):
        findings.deleting[request.address] = deletion_message
    elif message and request.key.type in PLACEMENT_TYPES:
        findings.pending[request.address] = message


def _select_managed_objects(
    reader: _HubObjectReader,
    options: HubOptions,
    request: ReadRequest,
    hub_objects: Sequence[HubObject],
    findings: HubReadFindings,
) -> list[tuple[HubObject, dict[str, Any]]]:
    """Return the existing objects of a resource, with their bodies.

    Objects re-created by others are omitted, unless the operator takes ownership. In read-only
    mode others create all objects, so none is omitted. Re-created objects and foreign fields are
    added to `findings`.
    """
    type_name = request.key.type
    address = request.address
    managed: list[tuple[HubObject, dict[str, Any]]] = []
    for hub_object in hub_objects:
        body = reader.read_body(hub_object)
        if body is None or _is_object_of_others(options, request, hub_object, body):
            continue  # missing
        # An object of another uid is no longer ours.
        is_other_object = not options.is_read_only and is_recreated(
            type_name, hub_object, body, request.private_note
        )
        # Records (runs, evictions) are done once they are sent.
        if is_other_object and type_name not in RECORD_TYPES:
            problem = build_recreation_warning(
                request, hub_object, body, is_taken_over=options.takes_ownership
            )
            findings.recreated.setdefault(address, {})[hub_object.title] = problem
        if not is_other_object or options.takes_ownership:
            managed.append((hub_object, body))
    foreign_text = describe_foreign_fields(type_name, managed, options.manager)
    if foreign_text:
        findings.foreign_fields[address] = foreign_text
    return managed


def _is_object_of_others(
    options: HubOptions, request: ReadRequest, hub_object: HubObject, body: Values
) -> bool:
    """Return True if an unfinished creation did not make an existing object.

    In read-only mode others create all objects. Members join by another program.
    """
    is_creation = request.operation is not None and not request.attributes
    if not is_creation or options.is_read_only or request.key.type == MEMBER_TYPE:
        return False
    creation_manager = build_creation_manager(options.manager, request)
    return not is_created_by_step(request.operation, creation_manager, hub_object, body)


def _build_missing_object_result(
    hub: HubClient, options: HubOptions, request: ReadRequest
) -> ReadResult:
    """Return the result for a resource missing on the hub.

    It has no attributes, or those in state if it is kept there. Runs and evictions are kept, and
    all resources with `keeps_missing`. A deleted placement or override is kept until its bindings
    and Works are deleted, or its rollout has ended.
    """
    type_name = request.key.type
    recorded = request.known_attributes
    is_deletion = is_deletion_in_progress(request)
    is_kept = options.keeps_missing or (type_name in RECORD_TYPES and not is_deletion)
    # Not for an interrupted step, to be repeated.
    if request.planned is None and is_kept:
        return ReadResult(recorded)
    if not is_deletion:
        return ReadResult(None)
    # The title is about the rest of an incomplete deletion.
    title = ""
    message = ""
    if type_name in PLACEMENT_TYPES:
        kind, namespace, name = get_identity(type_name, recorded)
        blockers = list_remaining_objects(hub, kind, namespace, name)
        title = f"{kind} {name}"
        message = format_first_items(blockers, _MAX_NAMES)
    elif type_name in OVERRIDE_TYPES:
        title = KINDS_BY_TYPE[type_name]
        _, message = OverrideRollout(hub, type_name, recorded, is_deleted=True).check_progress()
    if not message:
        return ReadResult(None)
    return ReadResult(
        recorded, is_settled=False, note=build_unfinished_note(request, title, message)
    )


def find_object(
    hub: HubClient, options: HubOptions, resource_type: str, object_id: str
) -> tuple[ObjectKey, Values] | None:
    """Return an object to import, None if it does not exist.

    Raises ProviderProblem, ApiError and HubProblem.
    """
    kind = KINDS_BY_TYPE.get(resource_type)
    if kind is None:
        raise ProviderProblem(f"A {resource_type} cannot be imported from a hub one by one.")
    namespace, _, name = object_id.rpartition("/")
    body = hub.get(KINDS[kind].build_path(name, namespace))
    if body is None:
        return None
    reject_tool_managed_object(options, body, "import")
    attributes: dict[str, Any] = {"id": object_id, "name": name}
    if resource_type == MEMBER_TYPE:
        # The hub adds the label.
        name_label = "kubernetes-fleet.io/member-name"
        labels = {label: value for label, value in get_labels(body).items() if label != name_label}
        attributes |= {
            "labels": labels or None,
            "taint": read_member_taints(body),
            "health": "Healthy",
        }  # by default
    else:
        attributes |= read_imported_arguments(resource_type, body)
    if namespace:
        attributes["namespace"] = namespace
    if resource_type in PLACEMENT_TYPES:
        placement = read_created_objects(hub, body, kind, namespace, name)
        attributes |= _build_placement_attributes(
            placement, object_id, hub.list_objects(_EVICTION_COLLECTION)
        )
        attributes["bindings"] = build_observed_bindings(placement)
    # 0: not numbered yet.
    return ObjectKey(resource_type, object_id, creation=0), attributes


def find_manifest(
    hub: HubClient, options: HubOptions, resource_type: str, arguments: Values
) -> tuple[ObjectKey, Values]:
    """Return key and attributes of a manifest to import, its objects as on the hub.

    All must exist and belong to the field manager of this configuration. Raises ProviderProblem,
    ApiError and HubProblem.
    """
    hub_objects = build_hub_objects(resource_type, arguments)
    if not hub_objects:
        raise ProviderProblem(f"The hub {hub.server} has no object.")
    existing: list[dict[str, Any]] = []
    missing: list[str] = []
    for hub_object in hub_objects:
        body = hub.get(find_object_path(hub, hub_object))
        if body is None:
            missing.append(hub_object.title)
        else:
            existing.append(body)
    if missing:
        raise ProviderProblem(
            f"The hub {hub.server} has no {format_first_items(missing, _MAX_NAMES)}."
        )
    for hub_object, body in zip(hub_objects, existing, strict=True):
        reject_tool_managed_object(options, body, "import")
        # An apply of an identity alone leaves no trace of its manager.
        is_own = is_identity_only(hub_object.body) or list_applied_fields(body, options.manager)
        if not is_own and not options.takes_ownership:
            raise ProviderProblem(
                f"{hub_object.title} was not applied by the field manager {options.manager}. To "
                "import it, repeat the "
                "command with -take-ownership."
            )
    manifest_type = RESOURCE_TYPES[resource_type]
    attributes = {**arguments, **manifest_type.derive(arguments)}
    if _has_differences(zip(hub_objects, existing, strict=True)):
        attributes = build_observed_attributes(resource_type, attributes, hub_objects, existing)
    object_id = manifest_type.build_id(arguments)
    # 0: not numbered yet.
    return ObjectKey(resource_type, object_id, creation=0), {**attributes, "id": object_id}


class _HubObjectReader:
    """Reader of hub objects, once each."""

    def __init__(self, hub: HubClient, requests: Sequence[ReadRequest]) -> None:
        """Read the objects of all requests but approvals; on demand what the hub refuses."""
        self.hub = hub
        # Of kinds with many requests.
        self._namespaces: dict[str, set[str]] = {}
        # By kind and placement.
        self._by_placement: dict[str, dict[tuple[str, str], list[dict[str, Any]]]] = {}
        read = [request for request in requests if request.key.type not in APPROVAL_TYPES]
        # Bodies by path; None if missing.
        self._bodies = read_existing_bodies(
            hub,
            chain.from_iterable(
                build_hub_objects(request.key.type, request.known_attributes) for request in read
            ),
        )
        for type_name, type_requests in group_by(read, lambda request: request.key.type).items():
            if type_name in PLACEMENT_TYPES and len(type_requests) >= CACHE_THRESHOLD:
                namespaces = {
                    get_identity(type_name, request.known_attributes)[1]
                    for request in type_requests
                }
                # The empty namespace is of cluster-scoped kinds.
                self._namespaces[KINDS_BY_TYPE[type_name]] = namespaces - {""}

    @cached_property
    def evictions(self) -> list[dict[str, Any]]:
        """All evictions of placements."""
        return self.hub.list_objects(_EVICTION_COLLECTION)

    def read_created_objects(
        self, body: Values, kind: str, namespace: str, name: str
    ) -> ObservedPlacementObjects:
        """Return a placement with its hub-created objects.

        If these are many, they are listed once for all placements.
        """
        if kind not in self._namespaces:  # few placements
            return read_created_objects(self.hub, body, kind, namespace, name)
        if not has_been_scheduled(body):
            return ObservedPlacementObjects(body, bindings=())
        # Lists of bindings, policies and snapshots.
        created = []
        for created_kind in list_created_kinds(kind):
            if created_kind not in self._by_placement:
                namespaces = self._namespaces[kind]
                bodies = list_in_namespaces(
                    self.hub, KINDS[created_kind], namespaces, labelSelector=PARENT_LABEL
                )
                self._by_placement[created_kind] = group_by(bodies, get_parent_placement)
            created.append(self._by_placement[created_kind].get((namespace, name), []))
        bindings, policies, snapshots = created
        return ObservedPlacementObjects(body, bindings, policies, snapshots)

    def read_body(self, hub_object: HubObject) -> dict[str, Any] | None:
        """Return an object, None if it does not exist."""
        path = find_object_path(self.hub, hub_object)
        if path not in self._bodies:
            self._bodies[path] = self.hub.get(path)
        return self._bodies[path]


def describe_pending_work(type_name: str, body: Values) -> str:
    """Return the pending work of a run or an eviction, "" if done, and for other types."""
    if type_name in RUN_TYPES:
        progress = check_run_progress(body, requests=())
        return "" if progress.has_ended else progress.message
    is_completed, _reason = read_eviction_result(body)
    return (
        "the hub has not processed it yet"
        if type_name == EVICTION_TYPE and not is_completed
        else ""
    )


def is_deletion_in_progress(request: ReadRequest) -> bool:
    """Return True if an earlier apply started the deletion of an object."""
    return request.is_being_deleted or bool(get_part(request.unfinished_change, ("deletes",)))


def build_unfinished_note(request: ReadRequest, title: str, message: str) -> dict[str, Any]:
    """Return the entry of the private data in state about an unfinished earlier apply.

    {} if there was none. Its value is None, to remove it, if the hub has completed the apply. Else
    it describes the pending work (`message`).
    """
    if request.planned is None and not request.unfinished_change and not request.is_being_deleted:
        return {}
    if not message:
        return {UNFINISHED_KEY: None}
    action = "to write it"
    marks = {"in_progress": True}
    if is_deletion_in_progress(request):
        action = "to delete it"
        marks = {"in_progress": True, "deletes": True}
    sentence = (
        f"An earlier apply began {action}, and the hub is not done with {title} yet: {message}."
    )
    return {UNFINISHED_KEY: {"message": sentence, "brief": f"{title} waits: {message}", **marks}}


def _has_differences(existing: Iterable[tuple[HubObject, Values]]) -> bool:
    """Return True if any object differs from the sent one in more than its API version.

    The server converts the API version.
    """
    differences = (find_differences(hub_object.body, body) for hub_object, body in existing)
    return any(path != ("apiVersion",) for path in chain.from_iterable(differences))


def _build_observed_placement(
    placement_objects: ObservedPlacementObjects, attributes: Values, evictions: Sequence[Values]
) -> dict[str, Any]:
    """Return the observed attributes of a placement except predicted ones.

    Values recorded in state (`attributes`) stay if the hub has the same ones: statuses in another
    order, and bindings of another provenance.
    """
    hub_attributes = _build_placement_attributes(
        placement_objects, str(attributes.get("id")), evictions
    )
    observed = {
        name: value for name, value in hub_attributes.items() if name not in PREDICTED_ATTRIBUTES
    }
    # Statuses per cluster, as text to compare them in any order.
    statuses = sorted(map(format_canonical_json, get_list(observed, _STATUSES)))
    recorded_statuses = sorted(map(format_canonical_json, get_list(attributes, _STATUSES)))
    if statuses == recorded_statuses and _STATUSES in attributes:
        # Another order is no change.
        observed[_STATUSES] = attributes[_STATUSES]
    merged: dict[str, Any] = {}
    for cluster, binding in build_observed_bindings(placement_objects).items():
        recorded = get_mapping(attributes, "bindings", cluster)
        is_unchanged = all(
            recorded.get(name) == value for name, value in binding.items() if name != "provenance"
        )
        # The recorded provenance may be "predicted".
        merged[cluster] = recorded if is_unchanged else binding
    return {**observed, "bindings": merged}


def _build_placement_attributes(
    placement_objects: ObservedPlacementObjects, key: str, evictions: Sequence[Values]
) -> dict[str, Any]:
    return build_placement_attributes(
        [*build_placement_manifests(placement_objects), *build_manifests(evictions)], key
    )
