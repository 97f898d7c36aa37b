"""Lifecycle actions of machines in Azure.

An action runs once: before the request, its step records the newest run in `actionStates` of the
machine. A later run is its own, and is awaited instead of requested again.

Cordon and uncordon requests: Azure performs them if the provider block has `act_on_machines`;
otherwise an operator does. A machine is cordoned while its block has `cordoned` or `evacuate`, and
uncordoned only by the change that removes both, if nexusform cordoned it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from msgspec.structs import replace

from nexusform.documents.times import parse_time
from nexusform.domains.azure.importers.arm_resources import extract_resource_group
from nexusform.domains.azure.importers.azure_request_bodies import select_members
from nexusform.domains.azure.providers.arm_changes import (
    ArmChange,
    ArmOperation,
    ArmTarget,
    StartValues,
)
from nexusform.domains.azure.providers.azure_requests import (
    VISIBILITY_TIMEOUT,
    ArmClient,
    AzureChangeFailed,
    RetryLater,
)
from nexusform.domains.azure.providers.azure_subscription import MACHINES
from nexusform.domains.azure.providers.machine_cordons import (
    MACHINE,
    CordonAction,
    CordonRequest,
    find_cordon_requests,
    find_machine_record,
)
from nexusform.domains.azure.providers.start_values import (
    build_machine_start,
    build_record_key,
    count_vms_on_machine,
    find_stopped_difference,
)
from nexusform.interfaces.plugins import (
    ChangeRequest,
    ChangeResult,
    ProviderProblem,
    StepPending,
    StepProgress,
)
from nexusform.json_data.plain_data import get_mapping, get_text, list_mappings
from nexusform.providers.clock import read_clock
from nexusform.resource_types.machine_facts import CORDONED_STATUS, UNCORDONED, CordonOwner
from nexusform.scheduling.machine_actions import (
    ACTION_KINDS,
    FAILED,
    MACHINE_ACTION_TYPE,
    SUCCEEDED,
    record_result,
)
from nexusform.scheduling.site_inventory import OBSERVED_KEY

# By action: verb, body, and properties visible once it is done (None: its runs are compared).
_REQUESTS: Final[
    Mapping[str, tuple[ArmOperation, Mapping[str, Any] | None, Mapping[str, Any] | None]]
] = {
    "Cordon": (ArmOperation.CORDON, {"evacuate": "False"}, {"cordonStatus": "Cordoned"}),
    "PowerOff": (ArmOperation.POWER_OFF, {"skipShutdown": "False"}, {"powerState": "Off"}),
    "Restart": (ArmOperation.RESTART, None, None),
    "Reimage": (ArmOperation.REIMAGE, {"safeguardMode": "All"}, None),
    "Replace": (ArmOperation.REPLACE, {"safeguardMode": "All"}, None),
}
# Properties of a machine that an action of the same plan may leave.
_EFFECTS: Final[Mapping[str, Mapping[str, Any]]] = {
    ArmOperation.CORDON.value: {"cordonStatus": "Cordoned"},
    ArmOperation.UNCORDON.value: {"cordonStatus": "Uncordoned"},
    ArmOperation.POWER_OFF.value: {"powerState": "Off"},
    ArmOperation.RESTART.value: {"powerState": "On"},
    ArmOperation.REIMAGE.value: {"powerState": "On"},
    ArmOperation.REPLACE.value: {"powerState": "On"},
}
# Marker if Azure shows no earlier run.
_NO_RUN: Final = "-"
_STATUS: Final = "cordonStatus"
_CORDON_ARGUMENTS: Final = frozenset({"cordoned", "cordon_status", "evacuate", "machine_override"})


def build_action_change(
    planned: Mapping[str, Any], arm_id: str, start_values: Mapping[str, Any]
) -> ArmChange:
    """Build the request of a machine action.

    Its body has default fields and those of the azure block. `start_values` are those of the plan.
    """
    action = str(planned["action"])
    verb, default_body, expected = _REQUESTS[action]
    block_body = get_mapping(planned, "azure", "body")
    target = ArmTarget(MACHINES, extract_resource_group(arm_id), (arm_id.rpartition("/")[2],))
    return ArmChange(
        verb=verb,
        target=target,
        # None: the action takes no body.
        body=None if default_body is None else {**default_body, **block_body},
        expected=expected,
        time_limit=ACTION_KINDS[action].minutes * 60.0,
        start=_build_start(target, verb, start_values),
    )


def _build_start(
    target: ArmTarget, verb: ArmOperation, start_values: Mapping[str, Any]
) -> StartValues:
    record = get_mapping(start_values, build_record_key(target.kind, target.names))
    return build_machine_start(record, verb.value, _EFFECTS)


def list_machine_actions(request: ChangeRequest) -> Iterator[tuple[str, str]]:
    """Yield the machine id and the verb of each action on a machine that a request needs."""
    if request.key.type == MACHINE_ACTION_TYPE:
        verb, _, _ = _REQUESTS[str(request.planned_attributes["action"])]
        yield str(request.planned_attributes["machine_id"]), verb.value
        return
    for cordon_request in find_cordon_requests(request):
        if cordon_request.action is not CordonAction.KEEP:
            is_uncordon = cordon_request.action is CordonAction.UNCORDON
            verb = ArmOperation.UNCORDON if is_uncordon else ArmOperation.CORDON
            yield cordon_request.id, verb.value


def run_action(arm: ArmClient, change: ArmChange, request: ChangeRequest) -> ChangeResult:
    """Run an action to its end and return its result for state.

    Raises ProviderProblem. If an accepted action fails, the problem has the attributes for the
    state, with the result Failed.
    """
    planned = dict(request.planned_attributes)
    started = read_clock()
    try:
        arm.apply_changes([change], request)
    except AzureChangeFailed as failure:
        attributes = record_result(planned, started, read_clock(), FAILED)
        raise ProviderProblem(str(failure), object_exists=True, attributes=attributes) from None
    # The newest one.
    run = find_action_run(arm.get_body(change.target), change.verb, marker="")
    start = str(run.get("startTime") or started)
    end = str(run.get("endTime") or read_clock())
    return ChangeResult(record_result(planned, start, end, SUCCEEDED))


def find_action_run(
    body: Mapping[str, Any] | None, verb: ArmOperation, marker: str
) -> Mapping[str, Any]:
    """Find the newest run of an action.

    Return {} if none is newer than `marker`, the start of an earlier run or "".
    """
    action_name = verb.value.replace("_", "")
    matching = []
    for run in list_mappings(body, "properties", "actionStates"):
        # A type of a run: Microsoft.NetworkCloud/bareMetalMachines/powerOff/action.
        action_type = get_text(run, "actionType").lower().removesuffix("/action")
        if action_type.rpartition("/")[2] == action_name:
            matching.append(run)
    newest: Mapping[str, Any] = max(matching, key=_parse_action_start_time, default={})
    if str(newest.get("startTime")) == marker:
        # No newer run.
        return {}
    # None: there is no marker, or it is not a time.
    before = parse_time(marker)
    return newest if before is None or _parse_action_start_time(newest) > before else {}


def _parse_action_start_time(run: Mapping[str, Any]) -> datetime:
    """Return the start of a run; a run without a valid time counts as the oldest."""
    return parse_time(get_text(run, "startTime")) or datetime.min.replace(tzinfo=UTC)


class MachineActionClient(ArmClient):
    """Run actions without a lasting effect on the properties of their machine.

    Their runs are compared. `list_workloads` returns the bodies of all clusters and VMs.
    """

    list_workloads: Callable[[], Iterable[Mapping[str, Any]]]

    def check_start_values(
        self,
        change: ArmChange,
        observed: Mapping[str, Any] | None,
        step: ChangeRequest,
        *,
        was_sent: bool,
    ) -> None:
        """Also raise ProviderProblem if the action would stop VMs that arrived since the plan."""
        super().check_start_values(change, observed, step, was_sent=was_sent)
        if observed is None or change.start.vm_counts is None or was_sent:
            return
        counts = count_vms_on_machine(get_text(observed, "id"), self.list_workloads())
        difference = find_stopped_difference(change, counts)
        if difference:
            raise ProviderProblem(difference)

    def _apply_change(self, change: ArmChange, step: ChangeRequest, *, was_sent: bool) -> None:
        """Run an action and wait for it.

        With `was_sent`, an earlier request possibly reached Azure. The marker of a request is the
        start of the newest run in `actionStates` before it. Only a later run is of this request.
        """
        # It is done once these properties are visible, like any other change.
        if change.expected is not None:
            super()._apply_change(change, step, was_sent=was_sent)
            return
        is_overdue = self.start_deadline(change.time_limit)
        while True:
            # Else Azure never started it: send it again.
            if was_sent and self._wait_for_run(change, step):
                return
            body = self.get_body(change.target)
            if body is None:
                raise ProviderProblem(
                    f"{change.target.title} was deleted: Azure does not show it. Plan again."
                )
            self.check_start_values(change, body, step, was_sent=was_sent)
            run = find_action_run(body, change.verb, marker="")
            change = replace(change, marker=get_text(run, "startTime") or _NO_RUN)
            try:
                # URL of the operation, "" for none.
                url = self.send_change(change, body, step)
            except RetryLater as retry:
                if is_overdue() and not retry.may_be_sent:
                    raise ProviderProblem(f"Azure rejects the action: {retry}") from None
                step.report_progress(
                    StepProgress(message=f"{str(retry).rstrip('.')}. Trying again.")
                )
                self.wait(step, f"{retry}", retry.seconds)
                was_sent = retry.may_be_sent
                continue
            if url and self.wait_for_operation(url, change, step):
                # Azure reported a success.
                return
            # The operation is unknown: its run decides.
            was_sent = True

    def _wait_until_visible(
        self, change: ArmChange, step: ChangeRequest, etag_before: str, *, succeeded: bool
    ) -> None:
        """Wait for the visible effect of an action, if it has one (`expected`).

        Without one, the end of its run suffices.
        """
        if change.expected is not None:
            super()._wait_until_visible(change, step, etag_before, succeeded=succeeded)

    def _wait_for_run(self, change: ArmChange, step: ChangeRequest) -> bool:
        """Wait for the run of a possibly sent action; return False if it never started.

        Raises ProviderProblem.
        """
        is_missing_too_long = self.start_deadline(VISIBILITY_TIMEOUT)
        is_overdue = self.start_deadline(change.time_limit)
        while True:
            body = self.get_body(change.target)
            run = find_action_run(body, change.verb, change.marker)
            status = get_text(run, "status")
            if status == "Completed":
                return True
            if status == "Failed":
                raise AzureChangeFailed(change, status, {"message": run.get("message")})
            name = f"The {change.verb.value.replace('_', '')} of {change.target.title}"
            if not run and is_missing_too_long():
                if isinstance(get_mapping(body, "properties").get("actionStates"), list):
                    # Azure lists its runs, and this is none of them.
                    return False
                raise ProviderProblem(
                    f"{name} was possibly sent, and Azure does not show its runs. Check the "
                    "machine. If it "
                    "did not run, write another run_id."
                )
            if is_overdue():
                minutes = f"{change.time_limit / 60:.0f} minutes"
                raise StepPending(
                    f"{name} is in progress for over {minutes}. `nexusform apply -resume` checks "
                    "it."
                )
            self.wait(step, f"{name} is in progress")


def build_cordon_change(
    request: CordonRequest, arm_id: str, start_values: Mapping[str, Any]
) -> ArmChange:
    """Build the request that cordons or uncordons a machine.

    Its VMs keep running: clusters drain their own nodes. `start_values` are those of the plan.
    """
    target = ArmTarget(MACHINES, extract_resource_group(arm_id), (request.name,))
    if request.action is CordonAction.UNCORDON:
        return ArmChange(
            ArmOperation.UNCORDON,
            target,
            expected={_STATUS: UNCORDONED},
            start=_build_start(target, ArmOperation.UNCORDON, start_values),
        )
    # An evacuation (EMPTY) is a cordon in Azure, too.
    return ArmChange(
        ArmOperation.CORDON,
        target,
        body={"evacuate": "False"},
        expected={_STATUS: CORDONED_STATUS},
        start=_build_start(target, ArmOperation.CORDON, start_values),
    )


def build_cordon_result(request: ChangeRequest) -> ChangeResult:
    """Build the result of a cordon-only step: the planned object, with the new status."""
    planned = dict(request.planned_attributes)
    records = dict(get_mapping(request.private_note, OBSERVED_KEY))
    for cordon_request in find_cordon_requests(request):
        before = find_machine_record(request, cordon_request.id)
        change = _predict_machine_facts_after_action(cordon_request.action, before)
        if request.key.type == MACHINE:
            planned |= select_members(change, ("cordon_status",))
            # A machine has one record, a rack one by machine.
            records |= change
        else:
            records[cordon_request.name] = {**before, **change}
    return ChangeResult(planned, note={OBSERVED_KEY: records})


def _predict_machine_facts_after_action(
    action: CordonAction, before: Mapping[str, Any]
) -> dict[str, Any]:
    """Build the changed facts of a machine after an action; {} for none.

    An earlier cordon keeps its owner.
    """
    if action is CordonAction.UNCORDON:
        return {"cordon_status": UNCORDONED, "cordoned_by": None}
    if action is CordonAction.KEEP:
        # Nothing is sent.
        return {}
    owner = before.get("cordoned_by") if before.get("cordon_status") == CORDONED_STATUS else None
    return {"cordon_status": CORDONED_STATUS, "cordoned_by": owner or CordonOwner.NEXUSFORM}


def is_cordon_only(request: ChangeRequest) -> bool:
    """Return True if a step changes only cordon and evacuation arguments."""
    prior = request.prior_attributes
    planned = request.planned_attributes
    return all(
        prior.get(name) == value for name, value in planned.items() if name not in _CORDON_ARGUMENTS
    )
