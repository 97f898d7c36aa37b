"""Decisions on grant requests from a plan, and its operations in the order of an apply.

The requests are those of ETSI SOL003. The module is pure.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final
from uuid import NAMESPACE_URL, uuid5

from msgspec import Struct, field

from nexusform.diagnostics.diagnostic import Severity
from nexusform.domains.vnf.importers.vnf_records import compute_vdu_counts
from nexusform.domains.vnf.serving.grant_requests import build_grant_requests
from nexusform.domains.vnf.types.vnf_documents import (
    RETRY_KEY,
    compute_target_levels,
    has_known_documents,
    has_standard_user_data,
    read_documents,
)
from nexusform.json_data.plain_data import get_mapping, get_text, list_mappings
from nexusform.plans.plan import Change, Plan

_TERMINATE: Final = "TERMINATE"
_SCALE: Final = "SCALE"
_HEAL: Final = "HEAL"
CREATED: Final = 201
INVALID: Final = 400
FORBIDDEN: Final = 403


class PlannedGrant(Struct, frozen=True):
    """Life-cycle operation in the plan, with its number in the VNF's change.

    `added` are the VNFCs by VDU, `removed` their number by VDU. `zones` are the zone id of each
    added VNFC: its availability zone and host, as OpenStack reads them. `healed_zones` are those of
    healed VNFCs by VDU and index.
    """

    address: str
    number: int
    descriptor_id: str
    operation: str
    added: Mapping[str, tuple[str, ...]]
    removed: Mapping[str, int]
    zones: Mapping[str, str]
    healed_zones: Mapping[str, str] = field(default_factory=dict)


class PlannedGrants(Struct, frozen=True):
    """All operations of a plan; `reason` rejects every request if the plan has errors."""

    grants: tuple[PlannedGrant, ...]
    reason: str = ""


class GrantRecord(Struct, frozen=True):
    """Granted request in the journal: the operation's id, its VNF instance, and the answer."""

    occurrence_id: str
    instance_id: str
    address: str
    answer: Mapping[str, Any]
    number: int = 0


class GrantResponse(Struct, frozen=True):
    """HTTP status and body; `record` is new for the journal."""

    status: int
    body: Mapping[str, Any] = field(default_factory=dict)
    record: GrantRecord | None = None


def list_planned_grants(plan: Plan) -> PlannedGrants:
    """Return the lifecycle operations of VNFs in a plan.

    For a failed plan, return none, and its errors as reason.
    """
    if plan.errored:
        errors = [
            problem.detail for problem in plan.diagnostics if problem.severity is Severity.ERROR
        ]
        return PlannedGrants(grants=(), reason="The plan failed: " + " ".join(errors))
    changes = {str(change.address): change for change in plan.changes}
    grants = []
    for address, request in build_grant_requests(plan).items():
        change = changes[address]
        for number, operation in enumerate(list_operations(change, request["operation"], request)):
            names = list(chain.from_iterable(operation.added.values()))
            grants.append(
                PlannedGrant(
                    address=address,
                    number=number,
                    descriptor_id=request.get("vnfdId", ""),
                    operation=operation.operation,
                    added=operation.added,
                    removed={vdu: len(vdu_names) for vdu, vdu_names in operation.removed.items()},
                    zones=build_zone_ids(change, names),
                    healed_zones=build_healed_zones(change, operation),
                )
            )
    return PlannedGrants(tuple(grants))


def decide_grant(
    request: Any, planned: PlannedGrants, records: Sequence[GrantRecord]
) -> GrantResponse:
    """Decide on a request: grant it if the plan has it, else reject it.

    A granted operation gets its answer again.
    """
    problem = _find_format_problem(request)
    if problem:
        return build_problem_details_response(INVALID, "Invalid grant request", problem)
    occurrence_id = request["vnfLcmOpOccId"]
    instance_id = request["vnfInstanceId"]
    for record in records:
        if record.occurrence_id == occurrence_id:
            # No new record.
            return GrantResponse(CREATED, record.answer)
    if planned.reason:
        return build_problem_details_response(FORBIDDEN, "Not granted", planned.reason)
    grant, reason = _find_planned_grant(request, planned.grants, records)
    if grant is None:
        return build_problem_details_response(FORBIDDEN, "Not granted", reason)
    answer = _build_grant(request, grant)
    return GrantResponse(
        CREATED,
        answer,
        GrantRecord(occurrence_id, instance_id, grant.address, answer, grant.number),
    )


def build_problem_details_response(status: int, title: str, detail: str) -> GrantResponse:
    """Return a rejection with problem details (RFC 7807)."""
    return GrantResponse(status, {"title": title, "status": status, "detail": detail})


def _find_format_problem(request: Any) -> str:
    """Return the first format problem of a request, or ""."""
    if not isinstance(request, Mapping):
        return "The body is not a JSON object."
    for name in ("vnfInstanceId", "vnfLcmOpOccId", "operation"):
        if not get_text(request, name):
            return f"{name} is missing."
    for name in ("addResources", "removeResources"):
        rows = request.get(name, [])
        # `list_mappings` leaves out other types.
        if list_mappings(request, name) != rows:
            return f"{name} is not a list of objects."
        if not all(get_text(row, "id") for row in rows):
            return f"A resource in {name} has no id."
    return ""


def _list_requested_vdus(request: Mapping[str, Any], name: str) -> Iterator[tuple[str, str]]:
    """Yield the id and VDU of each compute resource in the list `name` of a request.

    The VDU is "" if it is unknown.
    """
    for row in request.get(name, []):
        if row.get("type") == "COMPUTE":
            yield row["id"], str(row.get("resourceTemplateId") or row.get("vduId") or "")


def _find_planned_grant(
    request: Mapping[str, Any], grants: Sequence[PlannedGrant], records: Sequence[GrantRecord]
) -> tuple[PlannedGrant | None, str]:
    """Return the planned operation matching a grant request, and ""; or None and the reason.

    A match has the kind of the request, and adds and removes as many VMs of each VDU. The plan
    knows no instance of Tacker: the first grant binds one to a VNF of the plan. An operation is
    granted once, and again if it repeats a failed one.
    """
    instance_id = request["vnfInstanceId"]
    operation = request["operation"]
    addresses = {record.instance_id: record.address for record in records}
    # Last grant of each planned operation.
    latest = {(record.address, record.number): record for record in records}
    # The VNF of earlier operations of this instance.
    bound_address = addresses.get(instance_id)
    added = Counter(vdu for _, vdu in _list_requested_vdus(request, "addResources"))
    removed = Counter(vdu for _, vdu in _list_requested_vdus(request, "removeResources"))
    reason = f"The plan has no {operation} of this VNF."
    for grant in grants:
        is_other_vnf = bound_address not in (None, grant.address)
        if (
            grant.operation != operation
            or is_other_vnf
            or grant.descriptor_id not in ("", request.get("vnfdId"))
        ):
            # Another operation, VNF or descriptor.
            continue
        earlier = latest.get((grant.address, grant.number))
        if earlier is not None and not _is_repeated_operation(request, earlier):
            reason = f"The {operation} of {grant.address} in the plan was granted before."
            continue
        planned_added = Counter({vdu: len(names) for vdu, names in grant.added.items()})
        if (planned_added, Counter(grant.removed)) == (added, removed):
            return grant, ""
        reason = (
            f"The plan adds {_format_counts(planned_added)} and removes "
            f"{_format_counts(grant.removed)} at {grant.address}; the request adds "
            f"{_format_counts(added)} and removes {_format_counts(removed)}."
        )
    return None, f"{reason} Plan this operation with nexusform, and serve that plan."


def _is_repeated_operation(request: Mapping[str, Any], earlier: GrantRecord) -> bool:
    """Return whether an operation repeats the one granted `earlier`.

    The parameter RETRY_KEY names it as failed. A termination has no parameters, but an instance
    has only one.
    """
    if request["operation"] == _TERMINATE:
        return bool(request["vnfInstanceId"] == earlier.instance_id)
    failed_ids = get_text(request, "additionalParams", RETRY_KEY).split(",")
    return earlier.occurrence_id in failed_ids


def _format_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} x {vdu}" for vdu, count in sorted(counts.items())) or "none"


def _build_grant(request: Mapping[str, Any], grant: PlannedGrant) -> dict[str, Any]:
    """Build the grant: the zones, and the zone of each new resource.

    A zone is ZONE:HOST or ZONE of OpenStack.
    """
    names_left = {vdu: list(names) for vdu, names in grant.added.items()}
    zone_by_row: dict[str, str] = {}
    for row_id, vdu in _list_requested_vdus(request, "addResources"):
        # Each requested VM takes the next planned name of its VDU.
        name = names_left[vdu].pop(0)
        zone_by_row[row_id] = grant.zones.get(name, "")
    zones = sorted({*zone_by_row.values()} - {""})
    zone_ids = {zone: f"zone-{number}" for number, zone in enumerate(zones, start=1)}
    grant_id = str(uuid5(NAMESPACE_URL, f"{grant.address}/{request['vnfLcmOpOccId']}"))
    added = []
    for row in request.get("addResources", []):
        # "": no compute resource, or one without a zone.
        zone = zone_by_row.get(row["id"], "")
        zone_member = {"zoneId": zone_ids[zone]} if zone else {}
        added.append({"resourceDefinitionId": row["id"], **zone_member})
    removed = [{"resourceDefinitionId": row["id"]} for row in request.get("removeResources", [])]
    parameters = {name: {"locationConstraints": zone} for name, zone in grant.healed_zones.items()}
    answer: dict[str, Any] = {
        "id": grant_id,
        "vnfInstanceId": request["vnfInstanceId"],
        "vnfLcmOpOccId": request["vnfLcmOpOccId"],
        "zones": [{"id": zone_id, "zoneId": zone} for zone, zone_id in zone_ids.items()],
        "addResources": added,
        "removeResources": removed,
        # Tacker keeps the zone of a healed VNFC, unless the grant sets its HOT parameter.
        "additionalParams": {"nfv": {"VDU": parameters}} if parameters else {},
        "_links": {
            "self": {"href": f"/grant/v1/grants/{grant_id}"},
            **get_mapping(request, "_links"),
        },
    }
    return {name: value for name, value in answer.items() if value}


class PlannedOperation(Struct, frozen=True):
    """Operation with the names of its added and removed VNFCs by VDU."""

    operation: str
    added: Mapping[str, tuple[str, ...]]
    removed: Mapping[str, tuple[str, ...]]


def list_operations(
    change: Change, operation: str, request: Mapping[str, Any]
) -> Iterator[PlannedOperation]:
    """Yield the operations of Tacker for a change.

    `request` and `operation` are those of the change as a whole. Tacker instantiates at an
    instantiation level and scales one aspect at a time. A new VNF with one aspect above its first
    level yields INSTANTIATE with the VMs of the first level, then SCALE with the other ones.
    """
    added = _group_names_by_vdu(request["addResources"])
    removed = _group_names_by_vdu(request["removeResources"])
    attributes = change.after or change.before or {}
    # One operation, without levels.
    if operation == _TERMINATE or not has_known_documents(attributes):
        yield _build_operation(operation, added, removed)
        return
    healed: dict[str, list[str]] = {}
    # A VNFC both added and removed is healed.
    for vdu, added_names in added.items():
        removed_names = removed.get(vdu, [])
        healed[vdu] = [name for name in added_names if name in removed_names]
        added[vdu] = [name for name in added_names if name not in removed_names]
        removed[vdu] = [name for name in removed_names if name not in added_names]
    vnf = read_documents(attributes).vnf
    if operation == "INSTANTIATE":
        level_name = attributes.get("instantiation_level")
        # By aspect, before the scaling.
        levels: Mapping[str, int] = vnf.find_level(level_name).scale_levels
        counts = compute_vdu_counts(vnf, level_name).numbers
        yield _build_operation(operation, _take_vnfc_names(added, counts), {})
    else:
        levels = compute_target_levels(change.before or {})
    level_changes = {
        name: level - levels.get(name, 0)
        for name, level in compute_target_levels(attributes).items()
    }
    changed = [aspect for aspect in vnf.aspects if level_changes.get(aspect.name)]
    # Scale-ins come first.
    for aspect in sorted(changed, key=lambda aspect: (level_changes[aspect.name] > 0, aspect.name)):
        start = levels.get(aspect.name, 0)
        end = start + level_changes[aspect.name]
        counts = {
            step.vdu: abs(step.sum_increments(end) - step.sum_increments(start))
            for step in aspect.steps
        }
        if level_changes[aspect.name] > 0:
            yield _build_operation(_SCALE, _take_vnfc_names(added, counts), {})
        else:
            yield _build_operation(_SCALE, {}, _take_vnfc_names(removed, counts))
    # The names left, of VDUs without an aspect.
    if any([*added.values(), *removed.values()]):
        yield _build_operation(_SCALE, added, removed)
    if any(healed.values()):
        yield _build_operation(_HEAL, healed, healed)


def build_zone_ids(change: Change, names: list[str]) -> dict[str, str]:
    """Return the zone id of each added VNFC (VM) as OpenStack reads it: ZONE:HOST, or ZONE.

    With the standard user data each VNFC has its own zone and host. The default user data uses the
    zone of one VNFC for its whole VDU: then only a zone shared by all of them is granted, and Nova
    selects the host.
    """
    attributes = change.after or {}
    vnfcs: Mapping[str, Mapping[str, Any]] = get_mapping(attributes, "vnfcs")
    if has_standard_user_data(attributes):
        return {
            name: f"{vnfcs[name]['availability_zone']}:{vnfcs[name]['machine']}" for name in names
        }
    zones: dict[str, set[str]] = {}
    for vnfc in vnfcs.values():
        zones.setdefault(vnfc["vdu"], set()).add(vnfc["availability_zone"])
    return {
        name: vnfcs[name]["availability_zone"]
        for name in names
        if len(zones[vnfcs[name]["vdu"]]) == 1
    }


def build_healed_zones(change: Change, operation: PlannedOperation) -> dict[str, str]:
    """Return the zone ids of healed VNFCs (VMs) by their names in the standard user data.

    An example is {"VDU1-0": "zone-a:host-3"}. The result is {} for other operations, and for a VNF
    without the standard user data of Tacker.
    """
    attributes = change.after or {}
    if operation.operation != _HEAL or not has_standard_user_data(attributes):
        return {}
    names = list(chain.from_iterable(operation.added.values()))
    vnfcs = get_mapping(attributes, "vnfcs")
    zones = build_zone_ids(change, names)
    return {f"{vnfcs[name]['vdu']}-{vnfcs[name]['number']}": zones[name] for name in names}


def _group_names_by_vdu(resources: list[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Group the names of VNFCs (VMs) by VDU.

    A removed one has its name in `resource`, since its id may be another.
    """
    names: dict[str, list[str]] = {}
    for resource in resources:
        name = resource["resource"]["resourceId"] if "resource" in resource else resource["id"]
        names.setdefault(resource["vduId"], []).append(name)
    return names


def _take_vnfc_names(
    names_by_vdu: dict[str, list[str]], counts: Mapping[str, int]
) -> dict[str, list[str]]:
    """Remove the first names of each VDU, as many as `counts` has, and return them."""
    taken = {}
    for vdu, count in counts.items():
        names = names_by_vdu.get(vdu, [])
        taken[vdu] = names[:count]
        names_by_vdu[vdu] = names[count:]
    return taken


def _build_operation(
    operation: str, added: Mapping[str, list[str]], removed: Mapping[str, list[str]]
) -> PlannedOperation:
    """Build an operation from the names of added and removed VNFCs (VMs) by VDU.

    VDUs without names are left out.
    """
    return PlannedOperation(
        operation,
        {vdu: tuple(names) for vdu, names in added.items() if names},
        {vdu: tuple(names) for vdu, names in removed.items() if names},
    )
