"""Execution of one apply step on a hub: write and wait."""

from collections.abc import Mapping, Sequence
from functools import partial
from shlex import quote
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.domains.fleet.importers.fleet_export import is_deleting
from nexusform.domains.fleet.planning.foreign_field_merge import ON_HUB
from nexusform.domains.fleet.planning.selected_resources import OPEN_CLUSTERS
from nexusform.domains.hub.api.api_errors import ApiError, ApiErrorKind
from nexusform.domains.hub.api.hub_cache import HubCache
from nexusform.domains.hub.api.hub_client import ClientClock, HubClient
from nexusform.domains.hub.api.hub_kinds import KINDS, MEMBER, get_scoped_kind
from nexusform.domains.hub.providers.content_verification import (
    NO_SNAPSHOTS,
    ContentVerifier,
    find_wrong_run_resources,
    verify_eviction,
    verify_run,
)
from nexusform.domains.hub.providers.creation_marks import (
    build_creation_manager,
    build_marked_body,
    format_creation,
    hand_over_fields,
    has_creation_mark,
    is_created_by_step,
    is_operation_of_earlier_version,
)
from nexusform.domains.hub.providers.field_ownership import (
    ExistingObject,
    build_hub_record,
    get_recorded_uid,
    is_already_applied,
    is_recreated,
    remove_ignored_fields,
)
from nexusform.domains.hub.providers.hub_bodies import (
    APPROVAL_TYPES,
    EVICTION_TYPE,
    MANIFEST_TYPE,
    MEMBER_TYPE,
    PLACEMENT_TYPES,
    RECORD_TYPES,
    RUN_TYPES,
    HubObject,
    build_empty_member,
    build_fleet_object,
    build_hub_objects,
    build_sent_objects,
    index_hub_objects,
    is_different,
)
from nexusform.domains.hub.providers.hub_wait import (
    ApplyCoordination,
    HubWaiter,
    approve_request,
    has_external_rollout,
    read_hub_version,
    read_placement_objects,
)
from nexusform.domains.hub.providers.namespace_content import find_new_content
from nexusform.domains.hub.providers.object_access import (
    HubOptions,
    convert_rejected_read,
    describe_deletion_blockers,
    describe_existing_object,
    describe_missing_member,
    find_object_path,
    format_request_rejection,
    get_identity,
    get_ownership_source,
    get_uid,
    hide_sensitive_values,
    list_objects_if_permitted,
    reject_tool_managed_object,
    require_object_path,
)
from nexusform.domains.hub.providers.override_rollout import OVERRIDE_TYPES, OverrideRollout
from nexusform.domains.hub.providers.prediction_verification import (
    Figures,
    PredictionVerifier,
    VerificationResult,
    has_scheduling_decision,
    read_figures,
)
from nexusform.domains.hub.providers.rollout_progress import (
    PlacementProgress,
    build_observed_bindings,
    is_approved,
)
from nexusform.domains.hub.providers.start_values import (
    CONTENT,
    find_result_difference,
    find_start_difference,
    has_start_values,
    prune_body,
)
from nexusform.domains.hub.providers.versioned_writes import CONFLICT_KINDS, send_to_current_version
from nexusform.interfaces.plugins import (
    EARLIER_CREATION_HINT,
    ChangeRequest,
    ChangeResult,
    ManualStepPending,
    ProviderProblem,
    StepPending,
    StepProgress,
)
from nexusform.json_data.plain_data import get_mapping, get_text, list_texts

Values = Mapping[str, Any]
EXTERNAL_PATCH: Final[Mapping[str, Any]] = {
    "spec": {"strategy": {"type": "External", "rollingUpdate": None}}
}


class HubStepWriter(Struct, frozen=True):
    """Writer of one step.

    `request` is the change, and receives the progress.
    """

    hub: HubClient
    cache: HubCache
    options: HubOptions
    request: ChangeRequest
    timing: ClientClock
    coordination: ApplyCoordination
    # The members' figures used by the plan, {} if it read none.
    plan_figures: Figures

    @property
    def _type_name(self) -> str:
        return self.request.key.type

    @property
    def _planned(self) -> Values:
        return self.request.planned_attributes

    @property
    def _waiter(self) -> HubWaiter:
        return HubWaiter(self.hub, self.cache, self.request, self.options.timeout, self.timing)

    @property
    def _creation_manager(self) -> str:
        return build_creation_manager(self.options.manager, self.request)

    def _read_existing(self, hub_object: HubObject) -> dict[str, Any] | None:
        return self.cache.get(find_object_path(self.hub, hub_object))

    def delete(self) -> None:
        """Delete the objects and wait for their removal.

        With the setting read_only nothing is deleted: the step fails until another tool has done
        it. A member cluster stays on the hub, without the labels and taints of nexusform. Raises
        ProviderProblem and ApiError.
        """
        if self._type_name in APPROVAL_TYPES:
            # The hub creates and deletes requests, and an approval stays granted.
            return
        prior = self.request.prior_attributes
        hub_objects = build_hub_objects(self._type_name, prior)
        # It stays; its labels and taints are released.
        if self._type_name == MEMBER_TYPE:
            if not self.options.is_read_only:
                self._release_member(hub_objects[0])
            return
        if self.options.is_read_only:
            # The remaining objects are for another tool to delete.
            existing = [hub_object for hub_object in hub_objects if self._read_existing(hub_object)]
            self._raise_until_changed_externally(existing, "delete")
            return
        for hub_object in reversed(hub_objects):
            self._delete_object(hub_object)
        if self._type_name in PLACEMENT_TYPES:
            uid = get_recorded_uid(self._type_name, hub_objects[0], self.request.private_note)
            self._waiter.wait_for_removal(
                *get_identity(self._type_name, prior), hub_objects[0].path, uid
            )
        elif self._type_name in OVERRIDE_TYPES:
            self._wait_for_override(prior, is_removed=True)

    def _release_member(self, member: HubObject) -> None:
        """Release the labels and taints of a member, if it exists.

        Raises ProviderProblem and ApiError.
        """
        released_body = build_empty_member(member.body["metadata"]["name"])

        def release(existing: Values | None, _conflict: ApiError | None) -> None:
            if existing is not None:
                self._check_unchanged(member, released_body, existing)
                self.hub.apply(member.path, released_body, self.options.manager, existing=existing)

        send_to_current_version(
            self.hub, member.path, self._read_existing(member), release, self.timing
        )

    def _delete_object(self, hub_object: HubObject) -> None:
        """Delete an object and wait for its removal; one re-created by others stays.

        Raises ProviderProblem.
        """
        body = self._read_existing(hub_object)
        if body is None:
            # An operator's choice: missing objects may still exist.
            if self.options.keeps_missing:
                raise ProviderProblem(
                    f"{hub_object.title} is not on {self.hub.server}, which may be another hub "
                    "than the recorded one. It stays in the state. To remove it there: nexusform "
                    f"state rm {quote(self.request.address)}"
                )
            return  # deleted already
        path = require_object_path(self.hub, hub_object)

        def delete(existing: Values | None, _conflict: ApiError | None) -> Values | None:
            """Delete the object, and return it; None if there is nothing to wait for."""
            return self._send_deletion(path, hub_object, existing)

        deleted_body = send_to_current_version(self.hub, path, body, delete, self.timing)
        if deleted_body is None:
            return
        if self._type_name in PLACEMENT_TYPES:
            # The caller waits for its bindings and Works, too.
            return

        def check_removal(_elapsed: float) -> tuple[bool, str]:
            """Return whether the object is removed, and else why it is not."""
            existing = self.cache.get(path)
            # Another one was created since.
            is_removed = existing is None or get_uid(existing) != get_uid(deleted_body)
            return (
                is_removed,
                f"{hub_object.title} still goes{describe_deletion_blockers(get_mapping(existing))}",
            )

        subject = f"The deletion of {hub_object.title}"
        self._waiter.wait_until(check_removal, subject, partial(self.cache.count_changes, path))

    def check_start(self) -> None:
        """Raise ProviderProblem if an object is not as the plan started from; write nothing."""
        if self._type_name in APPROVAL_TYPES or self.options.is_read_only:
            return
        if self.request.planned is None:
            for hub_object in build_hub_objects(self._type_name, self.request.prior_attributes):
                existing = self._read_existing(hub_object)
                is_other = existing is not None and is_recreated(
                    self._type_name, hub_object, existing, self.request.private_note
                )
                if existing is None or is_other or is_deleting(existing):
                    continue
                if self._type_name != MEMBER_TYPE:
                    reject_tool_managed_object(self.options, existing, "destroy")
                    self._check_unchanged(hub_object, None, existing)
            return
        prior_objects = index_hub_objects(self._type_name, self.request.prior)
        for hub_object in build_sent_objects(self.request):
            existing = self._read_existing(hub_object)
            is_managed = hub_object.identity in prior_objects
            self._ensure_object_is_writable(hub_object, existing, is_managed=is_managed)
            if existing is not None:
                sent_body = remove_ignored_fields(
                    hub_object.body, existing, self.request.ignored_paths, self.options.manager
                )
                self._check_unchanged(hub_object, sent_body, existing)

    def _send_deletion(
        self, path: str, hub_object: HubObject, existing: Values | None
    ) -> Values | None:
        """Delete an object and return it; None for a missing one, and for one that is kept.

        Raises ProviderProblem and ApiError.
        """
        if existing is None:
            return None
        if is_recreated(self._type_name, hub_object, existing, self.request.private_note):
            message = (
                f"{hub_object.title} was re-created by another manager since the plan, and is kept"
            )
            self.request.report_progress(StepProgress(message=message))
            self.coordination.kept_titles.add(hub_object.title)
            return None
        reject_tool_managed_object(self.options, existing, "destroy")
        # A resumed deletion has started.
        if not is_deleting(existing):
            self._check_unchanged(hub_object, None, existing)
            if hub_object.is_namespace:
                self._check_content(str(hub_object.body["metadata"]["name"]))
            self.hub.delete(path, existing)
        return existing

    def _check_content(self, namespace: str) -> None:
        """Raise ProviderProblem if others put objects into a namespace to delete."""
        recorded = get_mapping(self.request.start_values, CONTENT).get(namespace)
        difference = find_new_content(self.hub, namespace, recorded)
        if difference:
            raise ProviderProblem(difference)

    def _raise_until_changed_externally(self, hub_objects: Sequence[HubObject], verb: str) -> None:
        """Raise ManualStepPending if there are objects: another person has to change them."""
        if hub_objects:
            names = ", ".join(hub_object.title for hub_object in hub_objects)
            raise ManualStepPending(
                f"read_only: another person must {verb} {names} on {self.hub.server}."
            )

    def write(self) -> ChangeResult:
        """Create or update the objects, or resume that.

        Raises ProviderProblem and ApiError.
        """
        if self._type_name in APPROVAL_TYPES:
            return self._approve_request()
        if self._type_name in RUN_TYPES:
            kind, namespace, name = get_identity(self._type_name, self._planned)
            path = KINDS[kind].build_path(name, namespace)
            # Steps of its approvals wait until it ends.
            with self.coordination.track_run(path):
                return self._write_resource()
        return self._write_resource()

    def _write_resource(self) -> ChangeResult:
        """Write the objects and wait for the result.

        With read_only, write nothing and require the planned objects.
        """
        hub_objects = build_sent_objects(self.request)
        if self.options.is_read_only:
            different = [
                item for item in hub_objects if is_different(item.body, self._read_existing(item))
            ]
            self._raise_until_changed_externally(different, "write")
            return self._wait_for_result(written=())
        self._wait_until_schedulable(hub_objects[0])
        if self._type_name != EVICTION_TYPE:
            return self._write_and_wait(hub_objects)
        name = str(get_mapping(hub_objects[0].body, "spec").get("placementName"))
        placement_objects = read_placement_objects(self.hub, "ClusterResourcePlacement", "", name)
        former_count = (
            len(build_observed_bindings(placement_objects)) if placement_objects is not None else 0
        )
        result = self._write_and_wait(hub_objects)
        # After a new eviction, the hub picks a cluster in place of the evicted one.
        if self.request.prior is None:
            with convert_rejected_read(hub_objects[0]):
                self._waiter.wait_for_rescheduling(name, former_count)
        return result

    def _write_and_wait(self, hub_objects: Sequence[HubObject]) -> ChangeResult:
        """Write the objects, delete those removed from a manifest, and wait for the result.

        The objects are deleted from the last to the first.
        """
        written = self._write_objects(hub_objects)
        if self._type_name == MANIFEST_TYPE:
            current_identities = {hub_object.identity for hub_object in hub_objects}
            for identity, hub_object in reversed(
                index_hub_objects(self._type_name, self.request.prior).items()
            ):
                if identity not in current_identities:
                    self._verify_written_objects(written)
                    self._delete_object(hub_object)
        with convert_rejected_read(hub_objects[0]):
            result = self._wait_for_result(written)
            self._verify_written_objects(written)
        return result

    def _verify_written_objects(self, written: Sequence[ExistingObject]) -> None:
        """Raise ProviderProblem if another client changed a sent field since it was written.

        A cache may have an earlier object, so the hub is read for a difference.
        """
        for hub_object, response in written:
            path = find_object_path(self.hub, hub_object)
            for read in (self.cache.get, self.hub.get):
                difference = self._find_result_difference(hub_object, response, read(path))
                if not difference:
                    break
            else:
                raise ProviderProblem(difference, object_exists=True, attributes=self._planned)

    def _find_result_difference(
        self, hub_object: HubObject, response: Values, body: Values | None
    ) -> str:
        """Return the message about a change of a written object by others, "" for none.

        Evictions and runs are sent once: a controller may have deleted them.
        """
        if body is None and self._type_name in RECORD_TYPES:
            return ""
        return find_result_difference(self.request, hub_object, response, body)

    def _wait_until_schedulable(self, hub_object: HubObject) -> None:
        """Wait until the placement of a new run or eviction is scheduled; not for other objects.

        Raises StepPending.
        """
        if self._type_name not in RUN_TYPES | {EVICTION_TYPE}:
            # It needs no placement.
            return
        if self.request.prior is not None:
            # It is not new.
            return
        namespace = get_text(self._planned, "namespace")
        kind = get_scoped_kind("ResourcePlacement", namespace)
        name = str(get_mapping(hub_object.body, "spec").get("placementName"))
        if (
            self._type_name == EVICTION_TYPE
            and self.hub.get(KINDS[kind].build_path(name, namespace)) is None
        ):
            # The plan predicts an invalid eviction.
            return
        # Else it is sent already, or it is an object of others.
        if self._read_existing(hub_object) is None:
            self._waiter.wait_for_scheduling(kind, namespace, name)

    def _write_objects(self, hub_objects: Sequence[HubObject]) -> list[ExistingObject]:
        """Write the objects of a step in order; return each with its resulting body.

        Raises ProviderProblem.
        """
        prior = self.request.prior
        results: list[ExistingObject] = []
        prior_objects = index_hub_objects(self._type_name, prior)
        # Namespaces created by this step: they have no other objects yet.
        new_namespaces: set[str] = set()
        for hub_object in hub_objects:
            metadata = get_mapping(hub_object.body, "metadata")
            try:
                self._verify_written_objects(results)
                body = (
                    None
                    if metadata.get("namespace") in new_namespaces
                    else self._read_existing(hub_object)
                )
                is_managed = hub_object.identity in prior_objects
                result = self._write_object(hub_object, body, is_managed=is_managed)
            except ProviderProblem as problem:
                # A creation has made some of its objects.
                problem.is_partial = prior is None and bool(results)
                raise
            self.coordination.applied_objects[hub_object.identity] = hub_object
            results.append((hub_object, result))
            if body is None and hub_object.is_namespace:
                new_namespaces.add(str(metadata.get("name")))
        return results

    def _ensure_object_is_writable(
        self, hub_object: HubObject, body: Values | None, *, is_managed: bool
    ) -> None:
        """Raise ProviderProblem if an object must not be written.

        `body` is the object on the hub, None if missing. Members must exist. Existing objects must
        not be of another tool, re-created by another manager, or in deletion. They must be in state
        (`is_managed`), or written by an earlier run.
        """
        if body is None:
            if self._type_name == MEMBER_TYPE:
                raise ProviderProblem(describe_missing_member(hub_object))
            if is_managed and has_start_values(self.request, hub_object):
                raise ProviderProblem(
                    f"{hub_object.title} is not on the hub; the plan started from an existing "
                    "one. Plan again."
                )
            # It is new.
            return
        reject_tool_managed_object(self.options, body, "apply")
        if self._type_name == MEMBER_TYPE:
            # Others create and delete it.
            return
        is_other_object = is_managed and is_recreated(
            self._type_name, hub_object, body, self.request.private_note
        )
        if is_other_object and not self.options.takes_ownership:
            raise ProviderProblem(
                f"{hub_object.title} was deleted and re-created by another manager since the "
                "plan. Plan again, and the "
                "plan says what can be done."
            )
        if is_deleting(body):
            raise ProviderProblem(
                f"{hub_object.title} is being deleted on the hub; apply again once it is gone."
            )
        operation = self.request.resumed_operation
        if not is_managed and not is_created_by_step(
            operation, self._creation_manager, hub_object, body
        ):
            message = describe_existing_object(hub_object, self.request.key, self.request.address)
            if is_operation_of_earlier_version(operation):
                message += EARLIER_CREATION_HINT
            raise ProviderProblem(message)

    def _has_content(self, hub_object: HubObject, body: Values) -> bool:
        """Return True if an apply of an object would change nothing of it on the hub.

        Servers return some values in another form than sent, so a dry run decides about a
        difference. Raises ApiError.
        """
        if not is_different(hub_object.body, body):
            return True
        path = require_object_path(self.hub, hub_object)
        result = self.hub.apply(
            path, hub_object.body, self.options.manager, existing=body, force=True, dry_run=True
        )
        return not is_different(prune_body(result), prune_body(body))

    def _write_object(
        self, hub_object: HubObject, body: Values | None, *, is_managed: bool
    ) -> dict[str, Any]:
        """Apply an object to the version that the plan started from; return its new body.

        `body` is the existing one, None if new. Raises ProviderProblem.
        """
        path = require_object_path(self.hub, hub_object)

        def send(existing: Values | None, conflict: ApiError | None) -> dict[str, Any]:
            is_repeated = self.request.resumed_operation is not None or conflict is not None
            is_created = is_repeated and has_creation_mark(existing, self._creation_manager)
            if existing is not None and is_created:
                self._check_created_object(hub_object, existing)
                existing = self._complete_creation(path, hub_object, existing)
            body_to_send = remove_ignored_fields(
                hub_object.body, existing, self.request.ignored_paths, self.options.manager
            )
            is_applied = existing is not None and is_already_applied(
                body_to_send, existing, self.options.manager
            )
            # An earlier attempt without an answer wrote it, so its version is another one.
            is_written = is_applied and conflict is not None and conflict.is_repeated
            is_own = is_created or (is_managed and is_written)
            self._ensure_object_is_writable(hub_object, existing, is_managed=is_managed or is_own)
            if existing is not None and not is_own:
                self._check_unchanged(hub_object, body_to_send, existing)
            return self._send_object(
                path, hub_object, body_to_send, existing, is_done=is_applied and is_repeated
            )

        try:
            return send_to_current_version(self.hub, path, body, send, self.timing)
        except ApiError as api_error:
            if api_error.kind not in CONFLICT_KINDS:
                raise
            raise self._build_rejection(hub_object, api_error) from None

    def _send_object(
        self,
        path: str,
        hub_object: HubObject,
        body_to_send: Values,
        existing: Values | None,
        *,
        is_done: bool,
    ) -> dict[str, Any]:
        """Send an object to the version of the existing one; return its new body.

        `is_done` means that an earlier run or attempt has sent it. Raises ProviderProblem, and
        ApiError for a conflict of versions.
        """
        manager = self.options.manager
        try:
            if existing is not None and is_switching_to_external(hub_object.body, existing):
                message = f"{hub_object.title} is left to staged runs"
                self.request.report_progress(StepProgress(message=message))
                # This removes the settings of a rolling update first.
                existing = self.hub.merge(path, EXTERNAL_PATCH, manager, existing=existing)
            elif existing is not None and is_done:
                return dict(existing)
            if existing is None:
                marked_body = build_marked_body(body_to_send)
                created = self.hub.apply_new(path, marked_body, self._creation_manager)
                return self._complete_creation(path, hub_object, created)
            # Fields of others are overwritten with the user's consent alone.
            force = bool(get_ownership_source(self.options, self.request))
            return self.hub.apply(path, body_to_send, manager, existing=existing, force=force)
        except ApiError as api_error:
            if api_error.kind in CONFLICT_KINDS:
                raise
            raise self._build_rejection(hub_object, api_error) from None

    def _check_created_object(self, hub_object: HubObject, existing: Values) -> None:
        """Raise ProviderProblem if another client changed an object since this step created it."""
        if self._has_content(hub_object, existing):
            return
        raise ProviderProblem(
            find_result_difference(self.request, hub_object, hub_object.body, existing),
            object_exists=True,
            attributes=self._planned,
        )

    def _complete_creation(
        self, path: str, hub_object: HubObject, created: Values
    ) -> dict[str, Any]:
        """Record the uid of a created object, and hand its fields over; return its new body.

        Raises ApiError for a conflict of versions, and StepPending for another rejection.
        """
        creation = format_creation(hub_object, created)
        self.request.report_progress(StepProgress(operation=creation))
        creation_manager = self._creation_manager
        manager = self.options.manager
        # A server without records of field managers.
        if not has_creation_mark(created, creation_manager):
            return dict(created)
        entries = hand_over_fields(hub_object.body, created, creation_manager, manager)
        try:
            return self.hub.replace_managed_fields(path, entries, manager, created)
        except ApiError as api_error:
            # A controller has deleted it: an eviction or a run is sent once.
            if api_error.kind is ApiErrorKind.NOT_FOUND:
                return dict(created)
            if api_error.kind in CONFLICT_KINDS | {ApiErrorKind.TEMPORARY}:
                raise
            raise StepPending(
                f"{hub_object.title} was created, but the hub rejects its field manager {manager} "
                f"({api_error.status}): {api_error.reason}. Allow the patch, and "
                "`nexusform apply -resume` continues it."
            ) from None

    def _build_rejection(self, hub_object: HubObject, api_error: ApiError) -> ProviderProblem:
        """Build the problem of a rejected request, without values of a sensitive object."""
        api_error = hide_sensitive_values(api_error, hub_object, self.request)
        return ProviderProblem(format_request_rejection(api_error, hub_object))

    def _check_unchanged(
        self, hub_object: HubObject, sent_body: Values | None, existing: Values
    ) -> None:
        """Raise ProviderProblem if another client changed a field to send since the plan."""
        difference = find_start_difference(
            self.request,
            hub_object,
            sent_body,
            existing,
            self.options.manager,
            has_sent_values=partial(self._has_content, hub_object, existing),
        )
        if difference:
            raise ProviderProblem(difference)

    def _wait_for_result(self, written: Sequence[ExistingObject]) -> ChangeResult:
        """Wait until the hub has completed the change.

        Return the result with the verified predictions. `written` are the sent objects with the
        hub's responses, () with read_only.
        """
        planned = self._planned
        note = build_hub_record(self._type_name, written, self.options.manager)
        if self._type_name in PLACEMENT_TYPES:
            return self._wait_for_placement(written, note)
        if self._type_name in RUN_TYPES:
            run = self._wait_for_run()
            return ChangeResult(
                planned,
                note=note,
                verified_predictions=run.predictions,
                not_verified=run.not_verified,
            )
        if self._type_name in OVERRIDE_TYPES:
            self._wait_for_override(planned, is_removed=False)
        elif self._type_name == EVICTION_TYPE:
            name = str(planned["name"])
            reason = self._waiter.wait_for_eviction(
                build_hub_objects(self._type_name, planned)[0].path, name
            )
            # "" after an eviction.
            if reason:
                self.request.report_progress(
                    StepProgress(message=f"{name} was not executed: {reason}")
                )
            verified = verify_eviction(name, self.request.planned_note, reason)
            return ChangeResult(planned, note=note, verified_predictions=verified)
        return ChangeResult(planned, note=note)

    def _wait_for_placement(self, written: Sequence[ExistingObject], note: Values) -> ChangeResult:
        """Wait until a placement is rolled out.

        Return it with the observed bindings and the verified predictions. `note` is the record of
        the written object, {} without one. `decision` is the progress at the pick of clusters.
        """
        planned = self._planned
        identity = get_identity(self._type_name, planned)
        # A placement is one object.
        response = written[0][1] if written else {}
        verifier = ContentVerifier(self.hub, self.request, self.coordination)
        decision, final = self._waiter.wait_for_placement(
            *identity, planned, response, verifier.describe_outdated
        )
        verification = verifier.verify_placement(self._verify_predictions(decision, final), final)
        renumbered = verifier.report_renumbered_snapshots(final)
        self._report_wrong_predictions(verification)
        if note:
            # None: it is removed.
            note = {ON_HUB: {**note[ON_HUB], **verification.build_note()}, OPEN_CLUSTERS: None}
        is_run_managed = has_external_rollout(build_hub_objects(self._type_name, planned)[0].body)
        result = _add_bindings(planned, final, note, is_run_managed=is_run_managed)
        return replace(
            result,
            accepted_paths=(*renumbered, *verifier.list_waiting_paths()),
            verified_predictions=verification.predictions,
            remark=final.message,
            not_verified=verification.not_verified,
        )

    def _verify_predictions(
        self, decision: PlacementProgress, final: PlacementProgress
    ) -> VerificationResult:
        """Compare the predictions with the hub's first decision.

        Compare them with the bindings at the end instead if fewer are wrong then, as after an
        eviction in the same apply.
        """
        planned = get_mapping(self._planned, "bindings")
        prior = get_mapping(self.request.prior, "bindings")
        if self.request.prior is not None and not has_scheduling_decision(prior, planned):
            return VerificationResult()  # no prediction
        _kind, *namespace_and_name = get_identity(self._type_name, self._planned)
        name = "/".join(filter(None, namespace_and_name))
        verifier = PredictionVerifier(
            plan_figures=self.plan_figures,
            # The current ones are read for a wrong prediction only.
            current_figures=self.plan_figures,
            # After a policy change, spread scores can differ between runs.
            compares_spread=not prior,
            # Candidates of a random choice.
            open_clusters=get_mapping(self.request.planned_note, OPEN_CLUSTERS),
        )
        at_decision = verifier.verify_bindings(name, planned, decision.bindings)
        at_end = verifier.verify_bindings(name, planned, final.bindings)
        is_end_better = len(at_end.wrong_predictions) < len(at_decision.wrong_predictions)
        best, best_progress = (at_end, final) if is_end_better else (at_decision, decision)
        if not best.wrong_predictions:
            # All are correct.
            return best
        members = list_objects_if_permitted(partial(self.hub.list_objects, MEMBER.collection))
        if members is None:
            # A tenant may not list members: the cause stays unknown.
            return best
        current_figures = read_figures(members, self.hub.read_time(members))
        verifier = replace(
            verifier, current_figures=current_figures, version=read_hub_version(self.hub)
        )
        return verifier.verify_bindings(name, planned, best_progress.bindings)

    def _wait_for_override(self, attributes: Values, *, is_removed: bool) -> None:
        """Wait until the clusters of an override's placement have it or have lost it.

        With `is_removed`, they must have lost it. A blocked rollout is reported. Without permission
        to read the objects, report that and do not wait.
        """
        try:
            rollout = OverrideRollout(self.hub, self._type_name, attributes, is_deleted=is_removed)
            self._waiter.wait_until(
                rollout.check_progress, f"The rollout of {attributes.get('name')}"
            )
            if rollout.blocked_message:
                self.request.report_progress(StepProgress(message=rollout.blocked_message))
        except ApiError as api_error:
            if api_error.kind is not ApiErrorKind.PERMISSION:
                raise
            message = (
                f"it is not waited for until its clusters have it: {api_error.missing_permission}"
            )
            self.request.report_progress(StepProgress(message=message))

    def _wait_for_run(self) -> VerificationResult:
        """Wait for a run; return its verified predictions, if it is started.

        Raises ProviderProblem if it fails.
        """
        planned = self._planned
        granted = frozenset(list_texts(planned, "approvals"))
        identity = get_identity(self._type_name, planned)
        progress = self._waiter.wait_for_run(*identity, granted, self.coordination.granted_requests)
        if progress.failure:
            result = f"The run {planned['name']} ended without success: {progress.failure}."
            detail = f"{result} It goes no further; make another run."
            raise ProviderProblem(detail, object_exists=True, attributes=planned)
        return self._verify_run() if planned.get("state") == "Run" else VerificationResult()

    def _verify_run(self) -> VerificationResult:
        """Compare a completed run with the planned one.

        Raises ProviderProblem if it distributed other objects.
        """
        kind, namespace, name = get_identity(self._type_name, self._planned)
        run = self.hub.get(KINDS[kind].build_path(name, namespace)) or {}
        snapshot_kind = get_scoped_kind("ResourceSnapshot", namespace)
        placement = str(get_mapping(run, "spec").get("placementName"))
        content = ContentVerifier(self.hub, self.request, self.coordination)
        snapshots = content.list_snapshots(snapshot_kind, namespace, placement)
        difference = find_wrong_run_resources(
            run, self.request.planned_note, snapshots or (), self.coordination.applied_objects
        )
        if difference:
            detail = (
                f"The run {name} succeeded with other resources than planned: {difference}. "
                "Create another run."
            )
            raise ProviderProblem(detail, object_exists=True, attributes=self._planned)
        predictions = verify_run(name, self.request.planned_note, run)
        if snapshots is None:
            return VerificationResult(predictions, not_verified=NO_SNAPSHOTS)
        verification = content.verify_run(
            VerificationResult(predictions), snapshots, namespace, placement
        )
        self._report_wrong_predictions(verification)
        return verification

    def _report_wrong_predictions(self, verification: VerificationResult) -> None:
        for wrong_prediction in verification.wrong_predictions:
            self.request.report_progress(StepProgress(message=wrong_prediction.message))

    def _approve_request(self) -> ChangeResult:
        """Approve a request once its run has made it, unless `approved` is False.

        With read_only require approval by others. Raises StepPending if the run ends without the
        request, and ManualStepPending.
        """
        planned = self._planned
        if planned.get("approved") is False:
            # Nothing to send.
            return ChangeResult(planned)
        path = build_hub_objects(self._type_name, planned)[0].path
        name = str(planned["name"])
        run_name = str(build_fleet_object(self._type_name, planned).run)
        namespace = get_text(planned, "namespace")
        run_path = KINDS[get_scoped_kind("StagedUpdateRun", namespace)].build_path(
            run_name, namespace
        )
        if self.options.is_read_only:
            if not is_approved(get_mapping(self.hub.get(path))):
                raise ManualStepPending(
                    f"read_only: another person must approve {name} on {self.hub.server}."
                )
            return ChangeResult(planned)

        def check_approval(_elapsed: float) -> tuple[bool, str]:
            """Approve the request if it exists; return whether it did, else the work.

            The work is what is pending.
            """
            # Before the check, because the run may request it until its end.
            has_ended = run_path in self.coordination.ended_runs
            if approve_request(self.hub, path, run_name, self.request, self.timing):
                return True, ""
            if has_ended:
                raise StepPending(
                    f"{run_name} does not continue in this apply, and has not requested {name}."
                )
            return False, f"the run has not requested {name} yet"

        with self.coordination.track_approval(path):
            self._waiter.wait_until(check_approval, f"The approval {name}")
        return ChangeResult(planned)


def is_switching_to_external(sent_body: Values, existing: Values) -> bool:
    """Return True if a placement changes from rolling updates to staged runs."""
    is_placement = sent_body.get("kind") in ("ClusterResourcePlacement", "ResourcePlacement")
    return is_placement and has_external_rollout(sent_body) and not has_external_rollout(existing)


def _add_bindings(
    planned: Values, progress: PlacementProgress, note: Values, *, is_run_managed: bool
) -> ChangeResult:
    """Return the planned attributes with the bindings decided by the hub.

    Also return the paths of these bindings as observed ones.
    """
    predicted = get_mapping(planned, "bindings")
    bindings: dict[str, Any] = {}
    for cluster, observed in progress.bindings.items():
        bindings[cluster] = dict(observed)
        # With staged runs, a run of the same apply may continue the rollout: its
        # predicted values stay.
        if is_run_managed and predicted.get(cluster):
            bindings[cluster] |= {
                name: predicted[cluster][name] for name in ("state", "resource_snapshot")
            }
    paths = tuple(("bindings", cluster) for cluster in bindings)
    return ChangeResult({**planned, "bindings": bindings}, observed_paths=paths, note=note)
