"""Life-cycle operations of Tacker, and VNF instances as Tacker reports them.

Each operation is sent once and followed to its end.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from typing import Any, Final, TypeGuard

from msgspec import Struct

from nexusform.domains.vnf.providers.tacker_client import TackerClient, TackerProblem
from nexusform.domains.vnf.types.vnf_documents import RETRY_KEY, has_standard_user_data
from nexusform.interfaces.plugins import ChangeRequest, ProviderProblem, StepPending, StepProgress
from nexusform.json_data.plain_data import Path, format_path, get_mapping, get_text

COMPLETED: Final = "COMPLETED"
_ROLLED_BACK: Final = "ROLLED_BACK"
_FAILED: Final = "FAILED"
_FAILED_TEMP: Final = "FAILED_TEMP"
_ENDED: Final = (COMPLETED, _ROLLED_BACK, _FAILED)
_MAX_RETRIES: Final = 3
_FIRST_PAUSE: Final = 0.2
_INSTANTIATED: Final = "INSTANTIATED"
_INSTANTIATION_STATES: Final = (_INSTANTIATED, "NOT_INSTANTIATED")
_INFO: Final = "instantiatedVnfInfo"
# SOL003 has no limit; this one is that of a 32-bit integer.
_MAXIMUM_LEVEL: Final = 2**31 - 1
# Characters of an invalid value in a message.
_MAXIMUM_TEXT: Final = 60
# Keys of the instance's metadata: the mark of its owner, and the id of its object.
OWNER_KEY: Final = "nexusform"
OBJECT_KEY: Final = "nexusform_object"


class OperationFailed(ProviderProblem):
    """Operation without success.

    With `is_rolled_back`, nothing of it is left.
    """

    def __init__(self, message: str, *, is_rolled_back: bool) -> None:
        super().__init__(message)
        self.is_rolled_back = is_rolled_back


class VnfChanged(OperationFailed):
    """VNF changed by another client since the plan: nothing more is sent."""

    def __init__(self, message: str) -> None:
        super().__init__(message, is_rolled_back=False)


class OperationRunner(Struct, frozen=True):
    """Runner of the operations of one step.

    `on_failure` is the answer to FAILED_TEMP. `timeout` is in seconds.
    """

    client: TackerClient
    request: ChangeRequest
    on_failure: str
    timeout: float

    def read_instance(self, instance_id: str) -> VnfInstance | None:
        """Read an instance.

        Raises TackerProblem, StepPending.
        """
        document = self._read_or_postpone(f"/vnf_instances/{instance_id}")
        return parse_instance(document) if document is not None else None

    def find_latest_operation(self, instance_id: str) -> Mapping[str, Any] | None:
        """Return the latest operation of an instance, None if there is none."""
        query = {"filter": f"(eq,vnfInstanceId,{instance_id})"}
        operations = self.client.read_list("/vnf_lcm_op_occs", query)
        return max(operations, key=lambda row: get_text(row, "startTime"), default=None)

    def run(
        self,
        instance_id: str,
        action: str,
        body: Mapping[str, Any],
        find_difference: Callable[[VnfInstance], str],
    ) -> None:
        """Start an operation and follow it.

        `find_difference` compares the VNF with the values that the step started from, and returns a
        message, or "" if they are equal. It is called before each request. Raises VnfChanged,
        OperationFailed, TackerProblem, StepPending.
        """
        check = partial(self.check_unchanged, instance_id, find_difference)
        # The NFVO grants failed operations again if their ids are named.
        failed_operations = self._list_last_failed_operations(instance_id)
        failed_ids = [
            str(row.get("id"))
            for row in failed_operations
            if row.get("operation") == action.upper()
        ]
        # A termination has no parameters.
        if failed_ids and action != "terminate":
            parameters = {**get_mapping(body, "additionalParams"), RETRY_KEY: ",".join(failed_ids)}
            body = {**body, "additionalParams": parameters}
        check()
        with _defer_during_outage("It may have started the operation. "):
            answer = self.client.write(
                "POST", f"/vnf_instances/{instance_id}/{action}", body, check_before_retry=check
            )
        operation_id = answer.headers.get("location", "").rpartition("/")[2]
        if not operation_id:
            raise ProviderProblem(f"Tacker accepted {action} without the address of its operation.")
        self.follow_operation(operation_id)

    def modify(self, instance_id: str, body: Mapping[str, Any]) -> None:
        """Change information about a running VNF, and follow the operation.

        Raises VnfChanged, OperationFailed, TackerProblem, StepPending.
        """
        check = partial(self.check_unchanged, instance_id, lambda _instance: "")
        check()
        with _defer_during_outage("It may have started the operation. "):
            path = f"/vnf_instances/{instance_id}"
            answer = self.client.write("PATCH", path, body, check_before_retry=check)
        operation_id = answer.headers.get("location", "").rpartition("/")[2]
        if not operation_id:
            raise ProviderProblem(
                f"Tacker accepted the change of {', '.join(body)} without the address of its "
                "operation."
            )
        self.follow_operation(operation_id)

    def delete_instance(self, instance_id: str) -> None:
        """Delete an instance that is not instantiated.

        Raises VnfChanged, TackerProblem.
        """
        check = partial(self.check_unchanged, instance_id, find_running_vnf)
        self.client.write("DELETE", f"/vnf_instances/{instance_id}", check_before_retry=check)

    def check_unchanged(
        self, instance_id: str, find_difference: Callable[[VnfInstance], str]
    ) -> None:
        """Raise VnfChanged if another client changed the VNF, or changes it now.

        An absent VNF is left to the request.
        """
        instance = self.read_instance(instance_id)
        if instance is None:
            return
        difference = find_difference(instance)
        if difference:
            raise VnfChanged(difference)
        latest = self.find_latest_operation(instance_id)
        if is_running(latest):
            raise VnfChanged(describe_other_operation(latest))

    def _list_last_failed_operations(self, instance_id: str) -> list[Mapping[str, Any]]:
        """Return the latest operation of an instance if it failed.

        For a new instance, return the last 16 rolled-back ones of any instance: the instance of a
        failed instantiation is deleted, so an earlier attempt may be any of them.
        """
        latest = self.find_latest_operation(instance_id)
        if latest is None:
            rows = self.client.read_list(
                "/vnf_lcm_op_occs", {"filter": f"(eq,operationState,{_ROLLED_BACK})"}
            )
            return sorted(rows, key=lambda row: get_text(row, "startTime"))[-16:]
        return [latest] if latest.get("operationState") in (_ROLLED_BACK, _FAILED) else []

    def follow_operation(self, operation_id: str) -> Mapping[str, Any]:
        """Follow an operation to its end and return it.

        Raises OperationFailed, TackerProblem, StepPending.
        """
        self._report(operation_id, "started")
        clock = self.client.timing
        ends_at = clock.read_clock() + self.timeout
        pause = _FIRST_PAUSE
        failures = 0
        while True:
            operation = self._read_or_postpone(f"/vnf_lcm_op_occs/{operation_id}")
            if operation is None:
                raise ProviderProblem(f"Tacker no longer knows its operation {operation_id}.")
            state = str(operation.get("operationState"))
            if state == COMPLETED:
                return operation
            if state in _ENDED:
                is_rolled_back = state == _ROLLED_BACK
                end = (
                    "It was rolled back."
                    if is_rolled_back
                    else "It was not rolled back: check the stack in Heat."
                )
                error = _describe_operation_error(operation)
                raise OperationFailed(f"{error} {end}", is_rolled_back=is_rolled_back)
            if state == _FAILED_TEMP:
                failures += 1
                self._resolve_failed_operation(operation_id, operation, failures)
                # The pause is that for a new operation.
                pause = _FIRST_PAUSE
            if clock.read_clock() > ends_at or self.request.should_stop():
                raise StepPending(f"{operation.get('operation')} is {state} in Tacker. {_RESUME}")
            clock.sleep(pause)
            pause = clock.compute_next_pause(pause)
            self._report(operation_id, f"{operation.get('operation')} {state}")

    def _resolve_failed_operation(
        self, operation_id: str, operation: Mapping[str, Any], failures: int
    ) -> None:
        """Request the next action for an operation in the state FAILED_TEMP.

        It has failed for the `failures`-th time. After too many failures it is rolled back instead
        of retried, then failed. Tacker rolls back only an instantiation or a scale-out; any other
        operation fails at once.
        """
        action = self.on_failure
        if action == "retry" and failures > _MAX_RETRIES:
            action = "rollback"
        is_scale_in = get_text(operation, "operationParams", "type") == "SCALE_IN"
        can_roll_back = operation.get("operation") in ("INSTANTIATE", "SCALE") and not is_scale_in
        if action == "rollback" and (not can_roll_back or failures > _MAX_RETRIES + 1):
            action = "fail"
        try:
            with _defer_during_outage():
                self.client.write("POST", f"/vnf_lcm_op_occs/{operation_id}/{action}")
        except TackerProblem as problem:
            raise ProviderProblem(f"{_describe_operation_error(operation)} {problem}") from None

    def _read_or_postpone(self, path: str) -> Mapping[str, Any] | None:
        """Read an object, None if it is absent.

        Raises StepPending if Tacker is unreachable, else TackerProblem.
        """
        with _defer_during_outage():
            return self.client.read(path)

    def _report(self, operation_id: str, message: str) -> None:
        self.request.report_progress(StepProgress(operation=operation_id, message=message))


_RESUME: Final = "The next apply continues: nexusform apply -resume"


@contextmanager
def _defer_during_outage(consequence: str = "") -> Iterator[None]:
    """Raise StepPending, with `consequence`, if Tacker is unreachable: the next apply continues.

    Other errors pass.
    """
    try:
        yield
    except TackerProblem as problem:
        if problem.is_unreachable:
            raise StepPending(f"{problem} {consequence}{_RESUME}") from None
        raise


def is_running(operation: Mapping[str, Any] | None) -> TypeGuard[Mapping[str, Any]]:
    """Return whether an operation has not ended."""
    return operation is not None and str(operation.get("operationState")) not in _ENDED


def describe_other_operation(operation: Mapping[str, Any]) -> str:
    """Return the message about an operation of another client in progress."""
    state = operation.get("operationState")
    advice = "Retry it, roll it back or fail it in Tacker. " if state == _FAILED_TEMP else ""
    return (
        "Another operation of the VNF is in progress in Tacker: "
        f"{operation.get('operation')} ({state}), id {operation.get('id')}. {advice}Plan again "
        "once it has ended."
    )


def find_running_vnf(instance: VnfInstance) -> str:
    """Return the message about a VNF that must not be instantiated, "" if it is not."""
    if not instance.is_instantiated:
        return ""
    return (
        f"{instance.name} is instantiated in Tacker; this step started from a VNF instance that "
        "is not. Plan again."
    )


def _describe_operation_error(operation: Mapping[str, Any]) -> str:
    """Return a sentence on a failed operation.

    An example is "SCALE failed in Tacker: TITLE. DETAIL.".
    """
    error = get_mapping(operation, "error")
    sentences = []
    for name in ("title", "detail"):
        if error.get(name):
            reason = str(error[name]).strip().removesuffix(".")
            sentences.append(f"{reason}.")
    text = " ".join(sentences) or "no reason given."
    return f"{operation.get('operation')} failed in Tacker: {text}"


class ObservedVnfc(Struct, frozen=True):
    """VNFC of Tacker.

    `id` is the one of vnfcInfo, for healing; `order` is the order of creation.
    """

    id: str
    vdu: str
    zone: str
    order: tuple[int, str]

    @property
    def host(self) -> str:
        """Host in the zone, if Tacker reports it as ZONE:HOST, else ""."""
        return self.zone.partition(":")[2]


class VnfInstance(Struct, frozen=True):
    """Observed VNF instance.

    `owner` is the mark recorded at its creation, "" if nexusform did not create it. `object_id` is
    the id of its object, "" if unknown. `vim_connections` is a digest, as they contain secrets.
    """

    id: str
    name: str
    descriptor_id: str
    owner: str
    object_id: str
    is_instantiated: bool
    scale_levels: Mapping[str, int]
    vnfcs: tuple[ObservedVnfc, ...]
    vim_connections: str = ""
    flavour_id: str = ""


def parse_instance(document: Mapping[str, Any]) -> VnfInstance:
    """Parse a VnfInstance of Tacker's interface (SOL003); only an instantiated one has VNFCs.

    Raises TackerProblem for values that the interface does not allow.
    """
    state = document.get("instantiationState")
    if state not in _INSTANTIATION_STATES:
        expected = " or ".join(_INSTANTIATION_STATES)
        raise _build_invalid_value_problem(document, ("instantiationState",), state, expected)
    owner = get_text(document, "metadata", OWNER_KEY)
    is_instantiated = state == _INSTANTIATED
    return VnfInstance(
        id=get_text(document, "id"),
        name=get_text(document, "vnfInstanceName"),
        descriptor_id=get_text(document, "vnfdId"),
        owner=owner,
        # A mark of earlier versions is ID#CREATION.
        object_id=get_text(document, "metadata", OBJECT_KEY) or owner.rpartition("#")[0],
        is_instantiated=is_instantiated,
        scale_levels=_parse_scale_levels(document) if is_instantiated else {},
        vnfcs=tuple(_list_vnfcs(document)) if is_instantiated else (),
        vim_connections=_compute_digest(document.get("vimConnectionInfo")),
        flavour_id=get_text(document, _INFO, "flavourId") if is_instantiated else "",
    )


def _compute_digest(value: Any) -> str:
    """Return a digest of a JSON value; empty and absent ones are equal."""
    return hashlib.sha256(json.dumps(value or None, sort_keys=True).encode()).hexdigest()


def _parse_scale_levels(document: Mapping[str, Any]) -> dict[str, int]:
    """Return the scale levels by aspect.

    Raises TackerProblem with the position of an invalid value.
    """
    levels: dict[str, int] = {}
    for path, row in _list_rows(document, "scaleStatus"):
        aspect = row.get("aspectId")
        if not isinstance(aspect, str) or aspect in levels:
            aspect_path = (*path, "aspectId")
            expected = "the id of one aspect"
            raise _build_invalid_value_problem(document, aspect_path, aspect, expected)
        level: Any = row.get("scaleLevel")
        is_whole_number = isinstance(level, int) and not isinstance(level, bool)
        if not is_whole_number or not 0 <= level <= _MAXIMUM_LEVEL:
            level_path = (*path, "scaleLevel")
            expected = f"a whole number from 0 to {_MAXIMUM_LEVEL}"
            raise _build_invalid_value_problem(document, level_path, level, expected)
        levels[aspect] = level
    return levels


def _list_vnfcs(document: Mapping[str, Any]) -> Iterator[ObservedVnfc]:
    """Yield the VNFCs (VMs) of an instance, each with its zone and its order of creation.

    The order is (index in the VDU, time of creation). The index is 0 if Tacker has none. Raises
    TackerProblem with the position of an invalid value.
    """
    # By resource; a VNFC that is not started may have none.
    ids = {
        row.get("vnfcResourceInfoId"): _read_required_text(document, path, row, "id")
        for path, row in _list_rows(document, "vnfcInfo")
    }
    for path, row in _list_rows(document, "vnfcResourceInfo"):
        resource_id = _read_required_text(document, path, row, "id")
        metadata = get_mapping(row, "metadata")
        index = metadata.get("vdu_idx")
        yield ObservedVnfc(
            id=ids.get(resource_id, resource_id),
            vdu=_read_required_text(document, path, row, "vduId"),
            zone=str(row.get("zoneId") or metadata.get("zone") or ""),
            order=(index if isinstance(index, int) else 0, get_text(metadata, "creation_time")),
        )


def _read_required_text(
    document: Mapping[str, Any], path: Path, row: Mapping[str, Any], name: str
) -> str:
    """Return a text of a row that is not empty.

    Raises TackerProblem with the position of another value.
    """
    text = get_text(row, name)
    if not text:
        expected = "a text of at least one character"
        raise _build_invalid_value_problem(document, (*path, name), row.get(name), expected)
    return text


def _list_rows(document: Mapping[str, Any], name: str) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Yield the path and content of each row in a list of an instantiated VNF.

    An omitted list is empty. Raises TackerProblem if it is no list of objects.
    """
    info = document.get(_INFO)
    if not isinstance(info, Mapping):
        raise _build_invalid_value_problem(document, (_INFO,), info, "an object")
    rows = info.get(name, [])
    if not isinstance(rows, list):
        raise _build_invalid_value_problem(document, (_INFO, name), rows, "a list")
    for index, row in enumerate(rows):
        path: Path = (_INFO, name, index)
        if not isinstance(row, Mapping):
            raise _build_invalid_value_problem(document, path, row, "an object")
        yield path, row


def _build_invalid_value_problem(
    document: Mapping[str, Any], path: Path, value: Any, expected: str
) -> TackerProblem:
    """Build the problem of a value that the interface does not allow at this path."""
    text = json.dumps(value)[:_MAXIMUM_TEXT]
    return TackerProblem(
        f"Tacker reports an invalid VNF instance {get_text(document, 'id')}: {format_path(path)} "
        f"is {text}, not {expected}. Check the VNF in Tacker."
    )


def match_vnfcs(attributes: Mapping[str, Any], observed: Sequence[ObservedVnfc]) -> dict[str, Any]:
    """Return the attributes with the observed VNFCs (VMs) and their ids by name.

    Names without a VNFC are removed. VNFCs with a recorded id keep their names. The others, in
    order of creation, take the free names of their VDU: first those recorded on the same host, then
    any, then new ones. If v-V1-0 is recorded with the id "a" and v-V1-1 without an id, the observed
    VNFCs "a", "b" and "c" of V1 become v-V1-0, v-V1-1 and the new v-V1-2.
    """
    recorded: Mapping[str, Mapping[str, Any]] = get_mapping(attributes, "vnfcs")
    recorded_ids: Mapping[str, str] = get_mapping(attributes, "vnfc_ids")
    names_by_id = {
        identifier: name for name, identifier in recorded_ids.items() if name in recorded
    }
    # VNFCs by name.
    matches = {names_by_id[vnfc.id]: vnfc for vnfc in observed if vnfc.id in names_by_id}
    unnamed = sorted(
        (vnfc for vnfc in observed if vnfc.id not in names_by_id), key=lambda vnfc: vnfc.order
    )
    for needs_same_host in (True, False):
        for vnfc in list(unnamed):
            name = _find_free_name(recorded, matches, vnfc, needs_same_host=needs_same_host)
            if name:
                matches[name] = vnfc
                unnamed.remove(vnfc)
    # Zones have the form ZONE:HOST.
    names_hosts = has_standard_user_data(attributes)
    vnfcs = {
        name: _build_vnfc(vnfc, matches[name], names_hosts=names_hosts)
        for name, vnfc in recorded.items()
        if name in matches
    }
    for vnfc in unnamed:
        # The new name is NAME-VDU-NUMBER with the smallest free number.
        prefix = f"{attributes['name']}-{vnfc.vdu}-"
        number = next(n for n in count() if f"{prefix}{n}" not in vnfcs)
        name = f"{prefix}{number}"
        matches[name] = vnfc
        # Without a record, a zone without a host leaves the host unknown (`names_hosts`).
        vnfcs[name] = _build_vnfc(
            {"vdu": vnfc.vdu, "number": number, "numa_cells": None}, vnfc, names_hosts=True
        )
    return {**attributes, "vnfcs": vnfcs, "vnfc_ids": {name: matches[name].id for name in vnfcs}}


def _find_free_name(
    recorded: Mapping[str, Mapping[str, Any]],
    used: Collection[str],
    vnfc: ObservedVnfc,
    *,
    needs_same_host: bool,
) -> str:
    """Return the first recorded name of the VDU of a VNFC, not in `used`, else "".

    The name is on the host of the VNFC if needed.
    """
    for name, record in recorded.items():
        if record["vdu"] != vnfc.vdu or name in used:
            continue
        # "": Tacker reports no host.
        is_same_host = vnfc.host != "" and record.get("machine") == vnfc.host
        if is_same_host or not needs_same_host:
            return name
    return ""


def _build_vnfc(
    vnfc: Mapping[str, Any], observed: ObservedVnfc, *, names_hosts: bool
) -> dict[str, Any]:
    """Return a VNFC (VM) at its observed zone and host, else as recorded.

    With `names_hosts`, requested zones are ZONE:HOST. An observed zone without a host was then
    selected by Tacker, and the host is unknown ("").
    """
    zone, _, host = observed.zone.partition(":")
    is_recorded_zone = zone in ("", vnfc.get("availability_zone"))
    if not host and not names_hosts and is_recorded_zone:
        # Nothing contradicts the record.
        return dict(vnfc)
    if host and vnfc.get("machine") == host:
        # In its recorded rack and zone.
        return {**vnfc, "provenance": "observed"}
    # Cells are not reported.
    moved = {"machine": host, "rack": zone, "availability_zone": zone, "numa_cells": None}
    return {**vnfc, **moved, "provenance": "observed"}
