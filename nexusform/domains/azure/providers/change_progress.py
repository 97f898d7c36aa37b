"""Unfinished and failed changes of an earlier apply, as observed in Azure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.phrases import format_count
from nexusform.domains.azure.importers.arm_resources import extract_resource_group, normalize_id
from nexusform.domains.azure.importers.azure_request_bodies import (
    has_requested_values,
    merge_bodies,
    select_members,
)
from nexusform.domains.azure.providers.arm_changes import ArmChange, ArmOperation
from nexusform.domains.azure.providers.azure_changes import POOL, SiteContext, build_azure_changes
from nexusform.domains.azure.providers.azure_requests import (
    FAILED_STATES,
    FINAL_STATES,
    NODES_MISSING,
    build_failure_record,
    read_provisioning_state,
    read_status_message,
)
from nexusform.domains.azure.providers.azure_subscription import Body
from nexusform.interfaces.plugins import ChangeRequest, ProviderProblem, ReadRequest
from nexusform.json_data.plain_data import get_mapping
from nexusform.scheduling.racks.vms import CONTROL_PLANE
from nexusform.schemas.block_schema import UNFINISHED_KEY


class ChangeProgress(Struct, frozen=True):
    """Progress of an object's changes.

    `is_settled` if none is in progress, and the record for state.
    """

    is_settled: bool = True
    note: Mapping[str, Any] = {}


def determine_progress(
    request: ReadRequest, observed: Mapping[str, Any], bodies: Sequence[Body], subscription_id: str
) -> ChangeProgress:
    """Determine the progress of changes begun by an earlier apply on an object.

    Return also the update of its private note. `observed` are the attributes of the object, and
    `bodies` the bodies in Azure of the object and its pools.
    """
    missing_counts = _describe_incomplete_pools(request.key.type, observed)
    # With a change in progress.
    busy = [body for body in bodies if read_provisioning_state(body) not in FINAL_STATES]
    # No interrupted step, only a recorded change.
    if request.planned is None and not request.is_being_deleted:
        record_update = _update_record(
            get_mapping(request.unfinished_change), bodies, busy, missing_counts
        )
        return ChangeProgress(is_settled=not busy, note=record_update)
    changes = _build_begun_changes(request, bodies, subscription_id)
    if busy:
        record = _build_record_of_busy_change(request, busy, changes)
        return ChangeProgress(is_settled=False, note={UNFINISHED_KEY: record})
    failure = _find_failure_record(request, bodies, changes, missing_counts)
    if failure is None:
        return ChangeProgress()  # all done
    # With missing nodes the step is done; after another failure it is repeated.
    return ChangeProgress(
        is_settled=failure["code"] == NODES_MISSING, note={UNFINISHED_KEY: failure}
    )


def _build_record_of_busy_change(
    request: ReadRequest, busy: Sequence[Body], changes: Mapping[str, ArmChange]
) -> dict[str, Any]:
    """Build the record of a change in progress.

    It is preferably one of the interrupted step (`changes`, by resource id).
    """
    body = next(
        (candidate for candidate in busy if normalize_id(str(candidate.get("id"))) in changes),
        busy[0],
    )
    arm_id = str(body.get("id"))
    change = changes.get(normalize_id(arm_id))
    record: dict[str, Any] = {"id": arm_id, "parts": [], "body": False, "code": "", "times": 1}
    if change is not None:
        record = build_failure_record(
            arm_id, code="", message="", change=change, step=_rebuild_step(request)
        )
    verb = "change" if request.attributes else "make"
    extra_fields = {}
    if request.is_being_deleted:
        # The verb marks a deletion.
        verb = "delete"
        extra_fields = {"going": True}
    status = f"{'/'.join(extract_names_from_id(arm_id))} is {read_provisioning_state(body)}"
    message = f"An earlier apply started to {verb} it; the change is in progress: {status}."
    return {**record, "message": message, "brief": status, "in_progress": True, **extra_fields}


def _update_record(
    record: Mapping[str, Any],
    bodies: Sequence[Body],
    busy: Sequence[Body],
    missing_counts: Mapping[str, str],
) -> Mapping[str, Any]:
    """Return the update of the private note in state with the record of a change.

    {} keeps the record. UNFINISHED_KEY has a new record after a failure, or None to remove it.
    `busy` are the bodies with a change in progress. `missing_counts` has a text such as "2 of 4
    nodes" by pool.
    """
    arm_id = str(record.get("id"))
    body = next(
        (body for body in bodies if normalize_id(str(body.get("id"))) == normalize_id(arm_id)), None
    )
    was_in_progress = bool(record.get("in_progress"))
    if busy and was_in_progress:
        # Still in progress.
        return {}
    # A deleted pool is removed; a missing new pool is visible as drift.
    if body is None:
        return {UNFINISHED_KEY: None} if was_in_progress else {}
    failure = _explain_failure(body, missing_counts)
    # Remove it if it is done, or a failed deletion ("going"): the object itself shows this.
    if not failure or record.get("going"):
        return {UNFINISHED_KEY: None}
    if not was_in_progress:
        # The recorded failure lasts.
        return {}
    kept_fields = select_members(record, ("id", "parts", "body"))
    code, message = failure
    return {
        UNFINISHED_KEY: {
            **kept_fields,
            "code": code,
            "times": 1,
            "message": message,
            "looked_up": True,
        }
    }


def _explain_failure(body: Body, missing_counts: Mapping[str, str]) -> tuple[str, str] | None:
    """Return why the last change of a resource failed, or nodes are missing after it; else None.

    The result is a code and a message. `missing_counts` has a text such as "2 of 4 nodes" by pool.
    """
    state = read_provisioning_state(body)
    names = extract_names_from_id(str(body.get("id")))
    subject = f"A change from an earlier apply of {'/'.join(names)}"
    if state in FAILED_STATES:
        return (
            state,
            f"{subject} ended {state}: {read_status_message(body) or 'Azure does not say why'}.",
        )
    # An id of a pool names its cluster, too.
    pool = names[1] if len(names) > 1 else CONTROL_PLANE
    if pool not in missing_counts:
        return None
    return NODES_MISSING, f"{subject} has ended, and Azure shows {missing_counts[pool]}."


def _describe_incomplete_pools(kind: str, observed: Mapping[str, Any]) -> dict[str, str]:
    """Describe the present nodes by incomplete pool: "2 of 4 nodes".

    Nodes not listed by Azure count as missing.
    """
    nodes = get_mapping(observed, "nodes")
    present = Counter(str(node["pool"]) for node in nodes.values() if node.get("platform_name"))
    if kind == POOL:
        requested = {str(observed["name"]): observed["node_count"]}
    else:
        requested = {CONTROL_PLANE: get_mapping(observed, "control_plane").get("count")}
        requested |= {
            name: pool["count"] for name, pool in get_mapping(observed, "agent_pool").items()
        }
    return {
        name: f"{present[name]} of {format_count(count, 'node')}"
        for name, count in requested.items()
        if isinstance(count, int) and present[name] < count
    }


def _build_begun_changes(
    request: ReadRequest, bodies: Sequence[Body], subscription_id: str
) -> dict[str, ArmChange]:
    """Build the changes of the interrupted step by lower-case id of the resource.

    Return {} for a deletion, or if the step is unknown.
    """
    step = _rebuild_step(request)
    if request.is_being_deleted or not bodies:
        return {}
    # Bodies of creations are not compared later, so common fields and ids of hints do not matter.
    group = extract_resource_group(str(bodies[0].get("id")))
    context = SiteContext(group, common_fields={}, find_arm_id=lambda object_id: object_id)
    try:
        changes = build_azure_changes(step, context)
    except ProviderProblem:
        # The repeated step reports them.
        return {}
    changes_by_id: dict[str, ArmChange] = {}
    for change in changes:
        arm_id = normalize_id(change.target.build_path(subscription_id))
        earlier = changes_by_id.get(arm_id)
        combined = change
        # An upgrade of the cluster runs between two updates of its pool.
        if earlier is not None and earlier.verb is change.verb is ArmOperation.UPDATE:
            body = merge_bodies(earlier.body, change.body)
            expected = {**get_mapping(earlier.expected), **get_mapping(change.expected)}
            combined = replace(change, body=body, expected=expected)
        changes_by_id[arm_id] = combined
    return changes_by_id


def _rebuild_step(request: ReadRequest) -> ChangeRequest:
    """Rebuild the request of the interrupted step from a request to read its object."""
    return ChangeRequest(
        key=request.key,
        address=request.address,
        prior=request.attributes or None,
        planned=request.planned,
        unfinished_change=request.unfinished_change,
    )


def _find_failure_record(
    request: ReadRequest,
    bodies: Sequence[Body],
    changes: Mapping[str, ArmChange],
    missing_counts: Mapping[str, str],
) -> dict[str, Any] | None:
    """Return the record of the first change that failed or lacks nodes.

    Return None if there is no such change, or if the object has other values
    than requested (drift).
    """
    for body in bodies:
        arm_id = str(body.get("id"))
        failure = _explain_failure(body, missing_counts)
        change = changes.get(normalize_id(arm_id))
        if failure is None or change is None or change.verb is ArmOperation.DELETE:
            # Nothing to record.
            continue
        expected = get_mapping(change.expected)
        if change.verb is ArmOperation.CREATE or has_requested_values(
            body.get("properties"), expected
        ):
            record = build_failure_record(arm_id, *failure, change, _rebuild_step(request))
            # Found by a read, not by a step.
            return {**record, "looked_up": True}
    return None


def extract_names_from_id(arm_id: str) -> list[str]:
    """Return the names in an ARM id: cluster, then pool if any."""
    return arm_id.rpartition("/providers/")[2].split("/")[
        2::2
    ]  # of NAMESPACE/TYPE/NAME[/TYPE/NAME]
