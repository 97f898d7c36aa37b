"""Waiting for a hub to complete a request, and approval of stages."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.diagnostics.phrases import enclose, format_count, format_first_items
from nexusform.domains.fleet.importers.fleet_export import is_deleting, list_conditions
from nexusform.domains.hub.api.api_errors import ApiError
from nexusform.domains.hub.api.hub_cache import PARENT_LABEL, HubCache, get_namespaced_name
from nexusform.domains.hub.api.hub_client import ClientClock, HubClient
from nexusform.domains.hub.api.hub_kinds import KINDS, WORK, get_scoped_kind
from nexusform.domains.hub.providers.hub_bodies import HubObject
from nexusform.domains.hub.providers.object_access import (
    describe_deletion_blockers,
    get_uid,
    list_in_namespaces,
    list_objects_if_permitted,
)
from nexusform.domains.hub.providers.rollout_progress import (
    PARENT_NAMESPACE_LABEL,
    ObservedPlacementObjects,
    PlacementProgress,
    StagedRunProgress,
    check_placement_progress,
    check_run_progress,
    find_blocked_rollout,
    find_condition,
    get_generation,
    get_name,
    get_observed_index,
    get_target_cluster,
    is_approved,
    is_latest_snapshot_outdated,
    list_picked_clusters,
    list_predicted_failures,
)
from nexusform.domains.hub.providers.versioned_writes import send_to_current_version
from nexusform.interfaces.plugins import ChangeRequest, ProviderProblem, StepPending, StepProgress
from nexusform.json_data.plain_data import get_mapping, get_text, list_mappings, list_texts

_FIRST_INTERVAL: Final = 0.3  # seconds
_MAX_INTERVAL: Final = 5.0
# Seconds after which bindings are read directly because the cache lags.
_CACHE_LAG: Final = 1.0
_SLICE: Final = 0.2
# Prefix of the namespace of a member's Works.
MEMBER_NAMESPACE: Final = "fleet-member-"
# Seconds after which a predicted snapshot is not expected anymore.
_SNAPSHOT_TIMEOUT: Final = 90.0
# Seconds after which an unpredicted decision counts: if members were changed in the same apply, the
# hub decides again, and reports the previous decision as final until then.
_DECISION_DELAY: Final = 15.0
# Seconds for a placement of the same apply to appear.
_PLACEMENT_TIMEOUT: Final = 120.0
# Seconds for a hub to re-schedule after an eviction.
_RESCHEDULE_SECONDS: Final = 10.0
# Seconds after which an eviction stops waiting for a replacement.
_REPLACEMENT_TIMEOUT: Final = 120.0
_MAX_NAMES: Final = 4
_RESUME_HINT: Final = "`nexusform apply -resume` continues it."
_APPROVAL_MANAGER: Final = "nexusform"
Values = Mapping[str, Any]
# From the seconds since the start to whether it is done, and pending work.
ProgressCheck = Callable[[float], tuple[bool, str]]
_AGENT_PATH: Final = "/apis/apps/v1/namespaces/fleet-system/deployments/hub-agent"


class HubWaiter(Struct, frozen=True):
    """Waits until a condition is met, the step's time is over, or the run has to stop."""

    hub: HubClient
    cache: HubCache
    step: ChangeRequest
    timeout: float
    timing: ClientClock = field(default_factory=ClientClock)

    def wait_until(
        self,
        check: ProgressCheck,
        subject: str,
        count_changes: Callable[[], int | None] = lambda: None,
    ) -> None:
        """Check until `check` returns done, at growing intervals.

        If `count_changes` returns a number (the object is watched), check again as soon as it
        changes. Raises StepPending after the timeout, or if the run is to end.
        """
        start_time = self.timing.read_time()
        interval = _FIRST_INTERVAL
        # The last message, to report each once.
        reported = ""
        while True:
            # Before the check: later changes trigger another one.
            change_count = count_changes()
            elapsed = self.timing.read_time() - start_time
            is_done, message = check(elapsed)
            if is_done:
                return
            if message and message != reported:
                self.step.report_progress(StepProgress(message=message, is_waiting=True))
                reported = message
            if elapsed >= self.timeout:
                raise StepPending(
                    f"{subject} takes longer than its timeout: {message}. {_RESUME_HINT}"
                )
            # A watch ends the longer sleep early.
            deadline = self.timing.read_time() + (
                interval if change_count is None else _MAX_INTERVAL
            )
            # Sleep in slices to react to Ctrl-C and changes on the hub.
            while True:
                if self.step.should_stop():
                    raise StepPending(f"{subject}: {message}. {_RESUME_HINT}")
                remaining = deadline - self.timing.read_time()
                if remaining <= 0:
                    break  # check again
                if change_count is not None and count_changes() != change_count:
                    # The check runs again, since the object was changed.
                    break
                self.timing.sleep(min(remaining, _SLICE))
            interval = min(interval * 1.5, _MAX_INTERVAL)

    def wait_for_placement(
        self,
        kind: str,
        namespace: str,
        name: str,
        predicted: Values,
        sent: Values,
        describe_outdated: Callable[[PlacementProgress], str],
    ) -> tuple[PlacementProgress, PlacementProgress]:
        """Wait until a placement is rolled out (only scheduled, if staged update runs roll it out).

        Return its progress at the first scheduling decision and at the end. `predicted` are the
        planned attributes; `sent` is the object as sent, or {}. `describe_outdated` returns a
        message about a resource snapshot of older objects, "" for none.
        """
        planned = get_mapping(predicted, "bindings")
        failing = list_predicted_failures(predicted)
        path = KINDS[kind].build_path(name, namespace)
        # At the first scheduling decision.
        decision = PlacementProgress(is_done=False)
        # At the latest check.
        final = PlacementProgress(is_done=False)
        # Time since when the cached bindings are older than the placement.
        lag_start: float | None = None

        def check_progress(elapsed: float) -> tuple[bool, str]:
            """Return (done, pending work), and update `final`, `decision` and `lag_start`."""
            nonlocal final, decision, lag_start
            placement = self._read_placement(path, sent)
            if placement is None:
                raise ProviderProblem(
                    f"{kind} {name} was deleted while its rollout was waited for."
                )
            _reject_object_in_deletion(kind, placement)
            placement_objects, is_lagging = self._read_cached_placement(placement, planned)
            if is_lagging:
                lag_start = elapsed if lag_start is None else lag_start
                if elapsed - lag_start < _CACHE_LAG:
                    # The cache may catch up.
                    return False, final.message
            lag_start = None
            # Without a usable cache read from the hub.
            placement_objects = placement_objects or _read_needed_objects(
                self.hub, placement, planned
            )
            final = _determine_progress(placement_objects, planned, failing)
            if not decision.is_decided:
                decision = final
            if not final.is_done:
                return False, final.message
            unobserved = _describe_unobserved_change(
                placement, predicted, final, elapsed, describe_outdated
            )
            if unobserved:
                # The hub is done with an older change only.
                return False, unobserved
            final = replace(
                final, message=final.message or _describe_empty_selection(placement, predicted)
            )
            return True, final.message

        def count_changes() -> int | None:
            # None: poll a lagging cache.
            return self.cache.count_changes(path) if lag_start is None else None

        self.wait_until(check_progress, f"{kind} {name}", count_changes)
        if final.message:
            self.step.report_progress(StepProgress(message=final.message))
        return decision, final

    def _read_cached_placement(
        self, placement: Values, planned: Values
    ) -> tuple[ObservedPlacementObjects | None, bool]:
        """Return (placement with its cached bindings, False).

        Return (None, True) while the cache is older than the placement, and (None, False) without a
        cache, or if bindings alone do not show the progress.
        """
        if not _is_status_sufficient(placement, planned):
            return None, False
        binding_kind, _, _ = list_created_kinds(str(placement.get("kind")))
        name = get_namespaced_name(placement)
        cache = self.cache.find_collection_cache(KINDS[binding_kind].collection, name)
        version = get_text(placement, "metadata", "resourceVersion")
        bindings = cache.list_placement_objects(name, version) if cache is not None else None
        if bindings is None:
            # Without a cache nothing lags.
            return None, cache is not None
        return ObservedPlacementObjects(placement, bindings, is_partial=True), False

    def _read_placement(self, path: str, sent: Values) -> Values | None:
        """Return a placement, None if it was deleted.

        The cache may lag behind the object just sent (`sent`).
        """
        # None without a cache.
        change_count = self.cache.count_changes(path)
        current = self.cache.get(path)
        # It was read from the hub, or there is nothing to compare with.
        if change_count is None or not sent:
            return current
        # It was deleted, or (without any change) is not received yet.
        if current is None:
            return self.hub.get(path) if change_count else sent
        if get_uid(current) != get_uid(sent):
            # It was deleted and created again, before or after the request.
            return self.hub.get(path)
        # The newer one.
        return max(current, sent, key=get_generation)

    def wait_for_scheduling(self, kind: str, namespace: str, name: str) -> None:
        """Wait until the placement of a run or an eviction exists and is scheduled.

        A run that starts earlier fails permanently.
        """

        def check_scheduling(elapsed: float) -> tuple[bool, str]:
            """Return whether the placement is scheduled, and else why not."""
            placement_objects = read_placement_objects(self.hub, kind, namespace, name)
            if placement_objects is None:
                if elapsed > _PLACEMENT_TIMEOUT:
                    raise StepPending(f"{kind} {name} is not on the hub. {_RESUME_HINT}")
                return False, f"{kind} {name} is not on the hub yet"
            _reject_object_in_deletion(kind, placement_objects.placement)
            # The placement is done once it is scheduled.
            progress = check_placement_progress(placement_objects, planned={}, is_external=True)
            return progress.is_done, f"{kind} {name}: {progress.message}"

        self.wait_until(check_scheduling, f"{kind} {name}")

    def wait_for_removal(self, kind: str, namespace: str, name: str, path: str, uid: str) -> None:
        """Wait until a placement is removed with its bindings and Works.

        With `uid` "" it waits only for these two.
        """
        is_present = True

        def check_removal(_elapsed: float) -> tuple[bool, str]:
            """Return whether placement, bindings and Works are deleted, and else the rest.

            The rest is a text about the remaining objects. The placement is not read again once it
            is deleted (`is_present`).
            """
            nonlocal is_present
            body = self.cache.get(path) if is_present else None
            if uid and body is not None and get_uid(body) != uid:
                # Others created it again: the bindings are those of the new one.
                return True, ""
            is_present = uid != "" and get_uid(body) == uid
            if is_present:
                return False, f"{kind} {name} still exists"
            binding_kind, _, _ = list_created_kinds(kind)
            cache = self.cache.find_collection_cache(
                KINDS[binding_kind].collection, (namespace, name)
            )
            bindings = (
                cache.list_placement_objects((namespace, name), since="0")
                if cache is not None
                else []
            )
            # Without cached bindings (of any version), read both kinds from the hub: the cache
            # has no Works.
            blockers = _describe_bindings(bindings or []) or list_remaining_objects(
                self.hub, kind, namespace, name
            )
            return not blockers, format_first_items(blockers, _MAX_NAMES)

        def count_changes() -> int | None:
            # None: nothing left to watch.
            return self.cache.count_changes(path) if is_present else None

        self.wait_until(check_removal, f"The deletion of {kind} {name}", count_changes)

    def wait_for_run(
        self,
        kind: str,
        namespace: str,
        name: str,
        granted: AbstractSet[str],
        other_approvals: AbstractSet[str],
    ) -> StagedRunProgress:
        """Wait until a run has ended.

        This step grants the requested approvals named in `granted`. Other steps grant
        those in `other_approvals` (paths of requests, may grow meanwhile). Raises
        StepPending for another approval.
        """
        progress = StagedRunProgress(has_ended=False)
        pending_approval = ""
        requests_kind = KINDS[get_scoped_kind("ApprovalRequest", namespace)]

        def check_run(_elapsed: float) -> tuple[bool, str]:
            """Return whether the run has ended, and pending work; set `progress`.

            Also grant an approval of this step.
            """
            nonlocal progress, pending_approval
            body = self.hub.get(KINDS[kind].build_path(name, namespace))
            if body is None:
                raise ProviderProblem(f"{kind} {name} was deleted while it was waited for.")
            _reject_object_in_deletion(kind, body)
            selector = f"kubernetes-fleet.io/targetUpdateRun={name}"
            requests = self.hub.list_objects(
                requests_kind.build_collection(namespace), labelSelector=selector
            )
            progress = check_run_progress(body, requests)
            # Of the request, if one is pending.
            approval_path = requests_kind.build_path(progress.approval, namespace)
            # "" if no approval is pending.
            if progress.approval in granted:
                approve_request(self.hub, approval_path, name, self.step, self.timing)
                return False, progress.message
            if progress.approval:
                # The first time, the step that grants it may not have started yet.
                is_new = progress.approval != pending_approval
                pending_approval = progress.approval
                if is_new or approval_path in other_approvals:
                    return False, progress.message
                raise StepPending(
                    f"{kind} {name} waits for a person: {progress.approval} has to be approved. "
                    "Grant it there, and `nexusform apply -resume` continues; or write it in "
                    "approvals of the block, and apply."
                )
            return progress.has_ended, progress.message

        self.wait_until(check_run, f"{kind} {name}")
        return progress

    def wait_for_rescheduling(self, name: str, former_count: int) -> None:
        """Wait until a placement is rolled out again after an eviction, or its rollout is blocked.

        Wait for the former number of clusters only for a while: the hub may have no other cluster.
        A timeout is no error.
        """
        kind = "ClusterResourcePlacement"

        def check_replacement(elapsed: float) -> tuple[bool, str]:
            """Return (done, pending work).

            Done is a finished or blocked rollout to as many clusters as before.
            """
            placement_objects = read_placement_objects(self.hub, kind, namespace="", name=name)
            if placement_objects is None or elapsed > _REPLACEMENT_TIMEOUT:
                # It was deleted, or no cluster takes over in time.
                return True, ""
            _reject_object_in_deletion(kind, placement_objects.placement)
            is_run_managed = has_external_rollout(placement_objects.placement)
            progress = check_placement_progress(
                placement_objects, planned={}, is_external=is_run_managed
            )
            # After a while, a smaller number of clusters is the hub's final choice.
            is_picked = len(progress.bindings) >= former_count or elapsed > _RESCHEDULE_SECONDS
            message = progress.message or "the hub has not picked a cluster in its place yet"
            is_blocked = progress.is_decided and find_blocked_rollout(placement_objects) is not None
            return is_picked and (progress.is_done or is_blocked), f"{name}: {message}"

        self.wait_until(check_replacement, f"{kind} {name}")

    def wait_for_eviction(self, path: str, name: str) -> str:
        """Wait until an eviction is completed or deleted.

        Return why it was not executed, "" otherwise.
        """
        reason = ""

        def check_eviction(_elapsed: float) -> tuple[bool, str]:
            """Return whether the eviction is completed, and pending work; set `reason`."""
            nonlocal reason
            body = self.hub.get(path)
            if body is None:
                return True, ""
            is_completed, reason = read_eviction_result(body)
            return is_completed, "the hub has not processed it yet"

        self.wait_until(check_eviction, f"The eviction {name}")
        return reason


def _reject_object_in_deletion(kind: str, body: Values) -> None:
    """Raise ProviderProblem for an object in deletion: the hub does nothing else for it."""
    if is_deleting(body):
        blockers = describe_deletion_blockers(body)
        raise ProviderProblem(
            f"{kind} {get_name(body)} is being deleted on the hub{blockers}. Apply again "
            "afterwards."
        )


def read_eviction_result(body: Mapping[str, Any]) -> tuple[bool, str]:
    """Return whether an eviction is completed, and why it was not executed.

    The reason is "" if it was executed, or may still be.
    """
    for condition in list_conditions(body):
        result = (condition.get("type"), condition.get("status"))
        if result in (("Valid", "False"), ("Executed", "False")):
            return True, str(condition.get("message") or condition.get("reason"))
        if result == ("Executed", "True"):
            return True, ""
    return False, ""


def _determine_progress(
    placement_objects: ObservedPlacementObjects, planned: Values, failing: AbstractSet[str]
) -> PlacementProgress:
    """Return the progress of a placement.

    A blocked rollout counts as done, since it does not continue. `planned` are the predicted
    bindings, `failing` the messages about predicted failures.
    """
    is_run_managed = has_external_rollout(placement_objects.placement)
    progress = check_placement_progress(
        placement_objects, planned, is_external=is_run_managed, failing=failing
    )
    if progress.is_done or not progress.is_decided:
        return progress
    blocked = find_blocked_rollout(placement_objects)
    return progress if blocked is None else replace(progress, is_done=True, message=blocked.message)


def _describe_unobserved_change(
    placement: Values,
    predicted: Values,
    progress: PlacementProgress,
    elapsed: float,
    describe_outdated: Callable[[PlacementProgress], str],
) -> str:
    """Return why a hub without pending work may not have observed the change yet.

    The result is "" if its state is final.
    """
    planned = get_mapping(predicted, "bindings")
    # Runs choose the content.
    if elapsed < _SNAPSHOT_TIMEOUT and not has_external_rollout(placement):
        if is_latest_snapshot_outdated(planned, progress.latest_snapshot):
            return "the hub has not taken a snapshot of the new content yet"
        if message := _describe_empty_selection(placement, predicted) or describe_outdated(
            progress
        ):
            return message
    if not planned or elapsed >= _DECISION_DELAY:
        # Nothing is predicted, or another pick is final.
        return ""
    is_other_pick = list_picked_clusters(planned) != list_picked_clusters(progress.bindings)
    return "the hub has not picked the predicted clusters" if is_other_pick else ""


def _describe_empty_selection(placement: Values, predicted: Values) -> str:
    """Return a message if a hub selects nothing although objects were predicted.

    The result is "" otherwise, and with staged runs.
    """
    predicted_objects = predicted.get("selected_resources") or ()
    selected_objects = list_mappings(placement, "status", "selectedResources")
    if selected_objects or not predicted_objects or has_external_rollout(placement):
        return ""
    return f"the hub selects no objects; predicted: {len(predicted_objects)}"


def read_placement_objects(
    hub: HubClient, kind: str, namespace: str, name: str
) -> ObservedPlacementObjects | None:
    """Return a placement with its hub-created objects; None if it does not exist."""
    placement = hub.get(KINDS[kind].build_path(name, namespace))
    return (
        None if placement is None else read_created_objects(hub, placement, kind, namespace, name)
    )


def _read_needed_objects(
    hub: HubClient, placement: Values, planned: Values
) -> ObservedPlacementObjects:
    """Return a placement with its created objects.

    Read only its bindings (one request, not three) if these suffice.
    """
    kind = str(placement.get("kind"))
    if _is_status_sufficient(placement, planned):
        binding_kind, _, _ = list_created_kinds(kind)
        bindings = list_created_objects(hub, binding_kind, *get_namespaced_name(placement))
        return ObservedPlacementObjects(placement, bindings, is_partial=True)
    return read_created_objects(hub, placement, kind, *get_namespaced_name(placement))


def _is_status_sufficient(placement: Values, planned: Values) -> bool:
    """Return True if status and bindings alone show the progress.

    This holds without staged runs and with known snapshots.
    """
    requirements = (
        planned,
        has_been_scheduled(placement),
        not has_external_rollout(placement),
        get_observed_index(placement) is not None,
        all(isinstance(binding.get("resource_snapshot"), int) for binding in planned.values()),
    )
    return all(requirements)


def read_created_objects(
    hub: HubClient, placement: Mapping[str, Any], kind: str, namespace: str, name: str
) -> ObservedPlacementObjects:
    """Return a placement with its hub-created objects; before it is scheduled it has none."""
    if not has_been_scheduled(placement):
        return ObservedPlacementObjects(placement, bindings=())
    bindings, policies, snapshots = (
        list_created_objects(hub, created_kind, namespace, name)
        for created_kind in list_created_kinds(kind)
    )
    return ObservedPlacementObjects(placement, bindings, policies, snapshots)


def has_been_scheduled(placement: Mapping[str, Any]) -> bool:
    """Return True if the hub has scheduled the current generation of a placement."""
    return bool(find_condition(placement, f"{placement.get('kind')}Scheduled"))


def list_created_kinds(kind: str) -> tuple[str, str, str]:
    """Return the kinds created by a hub for placements of a kind.

    These are bindings, policy snapshots and resource snapshots.
    """
    prefix = kind.removesuffix("ResourcePlacement")
    return (
        f"{prefix}ResourceBinding",
        f"{prefix}SchedulingPolicySnapshot",
        f"{prefix}ResourceSnapshot",
    )


def list_created_objects(
    hub: HubClient, kind: str, namespace: str, name: str
) -> list[dict[str, Any]]:
    """Return the hub-created objects of a kind for a placement."""
    return list_in_namespaces(hub, KINDS[kind], [namespace], labelSelector=f"{PARENT_LABEL}={name}")


def has_external_rollout(placement: Mapping[str, Any]) -> bool:
    """Return True if staged runs roll out a placement."""
    return get_mapping(placement, "spec", "strategy").get("type") == "External"


def list_remaining_objects(hub: HubClient, kind: str, namespace: str, name: str) -> list[str]:
    """Return the remaining bindings and Works of a placement with their blockers.

    Without permission for Works the bindings suffice: their finalizer waits for the Works.
    """
    binding_kind, _, _ = list_created_kinds(kind)
    descriptions = _describe_bindings(list_created_objects(hub, binding_kind, namespace, name))
    for work in list_works(hub, namespace, name) or ():
        cluster = get_text(work, "metadata", "namespace").removeprefix(MEMBER_NAMESPACE)
        descriptions.append(f"{cluster}: Work {get_name(work)}{_describe_finalizers(work)}")
    return descriptions


def list_works(hub: HubClient, namespace: str, name: str) -> list[dict[str, Any]] | None:
    """Return the Works of a placement (its objects by cluster, as sent there).

    The result is None without permission.
    """
    namespace_selector = (
        f"{PARENT_NAMESPACE_LABEL}={namespace}" if namespace else f"!{PARENT_NAMESPACE_LABEL}"
    )
    selector = f"{PARENT_LABEL}={name},{namespace_selector}"
    return list_objects_if_permitted(
        partial(hub.list_objects, WORK.collection, labelSelector=selector)
    )


def _describe_bindings(bindings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a line for each binding: its cluster, name and finalizers."""
    return [
        f"{get_target_cluster(binding)}: binding {get_name(binding)}{_describe_finalizers(binding)}"
        for binding in bindings
    ]


def _describe_finalizers(body: Mapping[str, Any]) -> str:
    names = list_texts(body, "metadata", "finalizers")
    return enclose(f" (held by {format_count(len(names), 'finalizer')}: ", ", ".join(names), ")")


def read_hub_version(hub: HubClient) -> str:
    """Return the image of the hub's agent; "" if it is not readable."""
    try:
        agent = hub.get(_AGENT_PATH)
    except ApiError:
        return ""
    return get_text(agent, "spec", "template", "spec", "containers", 0, "image")


class ApplyCoordination(Struct):
    """Shared record of the steps of one apply: runs, and approvals they wait for.

    `granted_requests` are paths of requests granted by a step, `ended_runs` paths of runs with a
    finished step, `applied_objects` the objects sent so far by identity, `kept_titles` the kept
    objects of others.
    """

    granted_requests: set[str] = field(default_factory=set)
    ended_runs: set[str] = field(default_factory=set)
    applied_objects: dict[tuple[str, str, str, str], HubObject] = field(default_factory=dict)
    kept_titles: set[str] = field(default_factory=set)

    @contextmanager
    def track_approval(self, request: str) -> Iterator[None]:
        """Record an approval request as granted by a step of this apply.

        A failed step undoes the record.
        """
        self.granted_requests.add(request)
        try:
            yield
        except BaseException:
            self.granted_requests.discard(request)
            raise

    @contextmanager
    def track_run(self, run: str) -> Iterator[None]:
        """Record the end of a run's step (done or failed).

        Steps of its approvals wait no longer.
        """
        self.ended_runs.discard(run)
        try:
            yield
        finally:
            self.ended_runs.add(run)


def approve_request(
    hub: HubClient, path: str, run: str, step: ChangeRequest, timing: ClientClock
) -> bool:
    """Approve a request of a run; return False if it does not exist.

    An already approved one is not sent. Raises ProviderProblem for a request of another
    run, and ApiError.
    """

    def approve(request: Values | None, _conflict: ApiError | None) -> bool:
        if request is None or is_approved(request):
            return request is not None
        requesting_run = get_text(request, "spec", "parentStageRollout")
        if requesting_run != run:
            raise ProviderProblem(
                f"{request.get('kind')} {get_name(request)} is for the run {requesting_run}, not "
                f"{run}. Plan again."
            )
        step.report_progress(StepProgress(message=f"{get_name(request)} is approved"))
        status = _build_approved_status(request)
        hub.merge(f"{path}/status", {"status": status}, _APPROVAL_MANAGER, existing=request)
        return True

    return send_to_current_version(hub, path, hub.get(path), approve, timing)


def _build_approved_status(request: Values) -> dict[str, Any]:
    """Build the status of an approved request.

    The approval is a condition. A merge patch replaces the whole list of conditions.
    """
    other_conditions = [
        dict(item) for item in list_conditions(request) if item.get("type") != "Approved"
    ]
    approval = {
        "type": "Approved",
        "status": "True",
        "reason": "ApprovedByNexusform",
        "message": "approved by the configuration",
        "observedGeneration": get_generation(request),
        "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    return {"conditions": [*other_conditions, approval]}
