"""Live Azure sites: clusters, agent pools and VMs are created, updated and deleted.

Racks and machines are only observed. After a change the resource is read back, so hosts of VMs are
those reported by Azure, not the predicted ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from itertools import chain
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Problem, Severity
from nexusform.diagnostics.phrases import enclose, format_count, format_first_items
from nexusform.domains.azure.importers.arm_resources import extract_resource_group, normalize_id
from nexusform.domains.azure.providers.arm_changes import ArmChange, ArmOperation, ArmTarget
from nexusform.domains.azure.providers.azure_actions import (
    MachineActionClient,
    build_action_change,
    build_cordon_change,
    build_cordon_result,
    is_cordon_only,
    list_machine_actions,
    run_action,
)
from nexusform.domains.azure.providers.azure_changes import (
    CLUSTER,
    PATCH_PROPERTIES,
    POOL,
    VM,
    SiteContext,
    build_azure_changes,
    find_prior_arguments,
)
from nexusform.domains.azure.providers.azure_requests import (
    MAX_READS,
    NODES_MISSING,
    VISIBILITY_TIMEOUT,
    ArmClient,
    AzureChangeFailed,
    build_failure_record,
    read_status_message,
)
from nexusform.domains.azure.providers.azure_subscription import (
    CLUSTERS,
    MACHINES,
    POOLS,
    VMS,
    AzureSubscription,
    convert_azure_errors,
    verify_absence,
)
from nexusform.domains.azure.providers.change_progress import (
    ChangeProgress,
    determine_progress,
    extract_names_from_id,
)
from nexusform.domains.azure.providers.creation_tags import has_creation_tag
from nexusform.domains.azure.providers.machine_cordons import (
    MACHINE,
    RACK,
    CordonAction,
    CordonRequest,
    find_cordon_requests,
)
from nexusform.domains.azure.providers.node_recreation import (
    build_unverified_server_warnings,
    describe_node_deletion,
    find_recreated_nodes,
    plan_node_recreations,
    recreate_nodes,
)
from nexusform.domains.azure.providers.observed_site import (
    GROUP_KEY,
    ObservedObjectComparison,
    ObservedSites,
    build_observed_object,
    find_missing_nodes,
)
from nexusform.domains.azure.providers.start_values import (
    build_machine_record,
    build_record_key,
    build_start_record,
    find_activity,
    format_last_change,
    list_identifying_facts,
    list_unshown_values,
    mark_own_step,
)
from nexusform.interfaces.plugins import (
    ChangeRequest,
    ChangeResult,
    ProviderProblem,
    ReadRequest,
    ReadResult,
    StepPending,
    StepProgress,
)
from nexusform.json_data.plain_data import get_mapping, get_text, list_mappings
from nexusform.providers.kubeconfig import TRUSTED, KubeconfigTrust
from nexusform.rendering.notation.json_values import omit_empty
from nexusform.scheduling.machine_actions import MACHINE_ACTION_TYPE
from nexusform.scheduling.racks.vms import CONTROL_PLANE
from nexusform.values.typed_value import UNKNOWN

# The importers are loaded where a site is read.
if TYPE_CHECKING:
    from nexusform.domains.azure.importers.az_import import ImportedSiteObject
    from nexusform.domains.azure.importers.az_records import AzSite

_MAX_NAMES: Final = 4
_MANUAL_ACTIONS: Final = {
    CordonAction.CORDON: "apply does not cordon it. It waits until Azure shows it cordoned.",
    CordonAction.UNCORDON: "apply does not uncordon it. It waits until Azure shows it uncordoned.",
    CordonAction.EMPTY: (
        "to be emptied, but not cordoned: Azure may place VMs there again. Set cordoned = true "
        "next to evacuate and "
        "cordon it before the apply. Or set act_on_machines = true in the provider block."
    ),
    CordonAction.KEEP: "it stays cordoned, because nexusform did not cordon it.",
}
_COMMAND_VERBS: Final = {
    CordonAction.CORDON: "cordon",
    CordonAction.UNCORDON: "uncordon",
    CordonAction.EMPTY: "cordon",
}
_AUTOMATIC_ACTIONS: Final = {
    CordonAction.CORDON: "cordons these machines",
    CordonAction.UNCORDON: "uncordons these machines",
    CordonAction.EMPTY: (
        "cordons these machines before their VMs move; they stay cordoned until evacuate is removed"
    ),
    CordonAction.KEEP: "leaves these machines cordoned, because nexusform did not cordon them",
}
_MANAGED_TYPES: Final = frozenset({CLUSTER, POOL, VM})
_HARDWARE_TYPES: Final = frozenset({MACHINE, RACK})
# Operation groups of the SDK by type.
_KINDS: Final = {CLUSTER: CLUSTERS, POOL: POOLS, VM: VMS}
# Fields common to the bodies of all objects of a site.
_COMMON_FIELDS: Final = ("location", "extendedLocation")
Values: TypeAlias = Mapping[str, Any]


class AzureSiteProvider(ObservedSites):
    """Sites of a subscription, read and changed through Azure."""

    sends_changes = True

    def __init__(
        self,
        name: str,
        source: str,
        subscription: AzureSubscription,
        *,
        acts_on_machines: bool = False,
        kubeconfig_trust: KubeconfigTrust = TRUSTED,
    ) -> None:
        """Prepare a provider that changes Azure.

        With `acts_on_machines`, it also cordons machines and runs actions.
        """
        super().__init__(
            name=name,
            source=source,
            advice="wait until it is done",
            read_sites=subscription.read_sites,
            verify_absence=partial(verify_absence, subscription),
            identity=subscription.identity,
        )
        self._acts_on_machines = self._runs_actions = acts_on_machines
        self._kubeconfig_trust = kubeconfig_trust
        self._subscription = subscription
        # Resource groups of objects created by this run, by id.
        self._created_groups: dict[str, str] = {}
        self._index_lock = Lock()
        self._index: _ArmIndex | None = None

    def list_warnings(self) -> list[Problem]:
        """Collect warnings about the sites.

        Some are about unverified Kubernetes API servers used to delete nodes.
        """
        return [*super().list_warnings(), *build_unverified_server_warnings(self._kubeconfig_trust)]

    def create(self, request: ChangeRequest) -> ChangeResult:
        """Create the object, or run the action of a machine; resume either.

        Raises ProviderProblem.
        """
        if request.key.type in _MANAGED_TYPES:
            return self._apply_change_request(request)
        if request.key.type == MACHINE_ACTION_TYPE and self._runs_actions:
            planned = request.planned_attributes
            change = build_action_change(
                planned, self._find_machine_id(str(planned["machine_id"])), request.start_values
            )
            try:
                with convert_azure_errors():
                    arm = self._subscription.make_arm_client(MachineActionClient)
                    arm.list_workloads = self._subscription.list_workloads
                    return run_action(arm, change, request)
            finally:
                # The action changes its machine.
                self._discard_cache()
        return self._change_machine_cordons(request, super().create)

    def update(self, request: ChangeRequest) -> ChangeResult:
        """Update the object, or resume its update.

        Raises ProviderProblem.
        """
        if request.key.type in _MANAGED_TYPES:
            return self._apply_change_request(request)
        return self._change_machine_cordons(request, super().update)

    def delete(self, request: ChangeRequest) -> None:
        """Delete the object, or wait until it is removed.

        Raises ProviderProblem.
        """
        if request.key.type not in _MANAGED_TYPES:
            super().delete(request)
            return
        group = self._find_resource_group(request, missing_ok=True)
        # Without a group it was never created.
        if group:
            # A deletion needs neither.
            context = SiteContext(group, common_fields={}, find_arm_id=str)
            self._subscription.make_arm_client(ArmClient).apply_changes(
                build_azure_changes(request, context), request
            )

    def read(self, requests: Sequence[ReadRequest]) -> list[ReadResult]:
        """Read the current objects and the progress of their changes.

        Raises ProviderProblem.
        """
        results = []
        for request, answer in zip(requests, super().read(requests), strict=True):
            if self._is_object_of_others(request, answer):
                results.append(ReadResult(attributes=None))
                continue
            progress = self._find_progress_of_begun_change(request, answer)
            results.append(
                replace(
                    answer, is_settled=progress.is_settled, note={**answer.note, **progress.note}
                )
            )
        return results

    def _is_object_of_others(self, request: ReadRequest, answer: ReadResult) -> bool:
        """Return True if an unfinished creation did not make the existing object.

        Its tag tells. An object without it was made again since, also after an accepted creation.
        """
        key = request.key
        is_creation = request.operation is not None and not request.attributes
        if not is_creation or key.type not in _MANAGED_TYPES or answer.attributes is None:
            return False
        arm_id = normalize_id(self._load_index().managed.get((key.type, key.id), ""))
        documents = self._subscription.documents
        return not any(
            has_creation_tag(body, request)
            for kind in (CLUSTERS, POOLS, VMS)
            for body in documents.get(kind, ())
            if normalize_id(str(body.get("id"))) == arm_id
        )

    def _find_progress_of_begun_change(
        self, request: ReadRequest, answer: ReadResult
    ) -> ChangeProgress:
        """Find the progress of a change begun by an earlier apply.

        The source is the Azure bodies of the object. A cluster has its own body and those of the
        pools in its block; separate pools are objects of their own.
        """
        was_begun = (
            request.planned is not None
            or request.is_being_deleted
            or request.unfinished_change is not None
        )
        key = request.key
        if not was_begun or key.type not in _MANAGED_TYPES or answer.attributes is None:
            # None in progress.
            return ChangeProgress()
        # ARM ids by type and id.
        managed = self._load_index().managed
        own_ids = {managed.get((key.type, key.id), "")}
        if key.type == CLUSTER:
            separate_pools = self._list_separate_pools()
            for (kind, object_id), arm_id in managed.items():
                is_own_pool = kind == POOL and object_id.startswith(f"{key.id}/")
                if is_own_pool and object_id not in separate_pools:
                    own_ids.add(arm_id)
        normalized_ids = set(map(normalize_id, own_ids))
        documents = self._subscription.documents
        bodies = [*documents.get(CLUSTERS, ()), *documents.get(VMS, ()), *documents.get(POOLS, ())]
        own_bodies = [
            body for body in bodies if normalize_id(str(body.get("id"))) in normalized_ids
        ]
        return determine_progress(request, answer.attributes, own_bodies, self._subscription.id)

    def describe_last_change(self, resource_type: str, name: str) -> str:
        """Return author and time of the last change of an object or a VM, as Azure records it."""
        arm_id = normalize_id(self._load_index().managed.get((resource_type, name), ""))
        for kind in (CLUSTERS, POOLS, VMS):
            for body in self._subscription.documents.get(kind, ()):
                nodes = list_mappings(body, "properties", "nodes")
                vm_names = {get_text(body, "name"), *(get_text(node, "name") for node in nodes)}
                is_vm = not resource_type and name in vm_names
                if is_vm or normalize_id(str(body.get("id"))) == arm_id:
                    return format_last_change(body)
        return ""

    def list_machine_activity(self, since: str) -> Mapping[str, str]:
        """Return the newest action that runs, or began since a time, by id of its machine."""
        index = self._load_index()
        activity: dict[str, str] = {}
        for machine_id, arm_id in index.hint_targets.items():
            body = index.machines.get(normalize_id(arm_id))
            text = find_activity(body, since) if body is not None else ""
            if text:
                activity[machine_id] = text
        return activity

    def list_site_facts(self) -> Mapping[str, str]:
        """Return what identifies the objects of the sites, and the newest actions."""
        index = self._load_index()
        object_ids = {normalize_id(arm_id): key for key, arm_id in index.hint_targets.items()}
        object_ids |= {normalize_id(arm_id): key for (_, key), arm_id in index.managed.items()}
        bodies = [*index.machines.values()]
        for kind in (CLUSTERS, POOLS, VMS):
            bodies += self._subscription.documents.get(kind, ())
        facts: dict[str, str] = {}
        for body in bodies:
            object_id = object_ids.get(normalize_id(str(body.get("id"))), "")
            if object_id:
                for name, value in list_identifying_facts(body):
                    facts[f"{object_id}: {name}"] = value
        return facts

    def collect_start_values(self, requests: Sequence[ChangeRequest]) -> list[Mapping[str, Any]]:
        """Return what was read of the resources of each change.

        A cluster includes its pools, because its deletion removes them, and its upgrade re-creates
        their nodes. Raises ProviderProblem.
        """
        index = self._load_index()
        bodies = {
            normalize_id(str(body.get("id"))): body
            for kind in (CLUSTERS, POOLS, VMS)
            for body in self._subscription.documents.get(kind, ())
        }
        actions_by_machine: dict[str, list[str]] = {}
        for request in requests:
            for machine_id, action in self._list_machine_actions(request):
                actions_by_machine.setdefault(machine_id, []).append(action)
        changed_pools = [request for request in requests if request.key.type == POOL]
        results: list[Mapping[str, Any]] = []
        for request in requests:
            records: dict[str, Any] = {}
            key = request.key
            own_ids = [(_KINDS.get(key.type, ""), index.managed.get((key.type, key.id), ""))]
            if key.type == CLUSTER:
                own_ids += [(POOLS, pool_id) for pool_id in index.pools_by_cluster.get(key.id, ())]
            for kind, arm_id in own_ids:
                if kind and normalize_id(arm_id) in bodies:
                    body = bodies[normalize_id(arm_id)]
                    record = build_start_record(body, PATCH_PROPERTIES[kind])
                    records[build_record_key(kind, extract_names_from_id(arm_id))] = record
            if key.type == CLUSTER:
                records |= _mark_changed_pools(key.id, records, changed_pools)
            for machine_id, _ in self._list_machine_actions(request):
                arm_id = index.hint_targets.get(machine_id, "")
                if normalize_id(arm_id) in index.machines:
                    workloads = [
                        body
                        for kind in (CLUSTERS, VMS)
                        for body in self._subscription.documents.get(kind, ())
                    ]
                    record = build_machine_record(
                        index.machines[normalize_id(arm_id)],
                        actions_by_machine[machine_id],
                        workloads,
                    )
                    records[build_record_key(MACHINES, extract_names_from_id(arm_id))] = record
            results.append(records)
        return results

    def list_unread_changes(self, requests: Sequence[ChangeRequest]) -> list[tuple[int, Problem]]:
        """Return an error for each action on a machine, whose state the plan did not read."""
        problems: list[tuple[int, Problem]] = []
        for number, request in enumerate(requests):
            titles = [f"{verb} {machine}" for machine, verb in self._list_machine_actions(request)]
            if titles:
                detail = (
                    f"{format_first_items(titles, _MAX_NAMES)}: an action depends on the state of "
                    "its machine, which this plan did not read. -refresh=false cannot be used "
                    "with machine actions. Plan without it."
                )
                problems.append((number, Problem((), "unsupported-by-provider", detail)))
        return problems

    def _list_machine_actions(self, request: ChangeRequest) -> list[tuple[str, str]]:
        """List the machine id and the verb of each action of a request that apply sends."""
        is_action = request.key.type == MACHINE_ACTION_TYPE and request.planned is not None
        is_sent = self._acts_on_machines and (is_action or request.key.type in _HARDWARE_TYPES)
        return list(list_machine_actions(request)) if is_sent else []

    def validate_changes(self, requests: Sequence[ChangeRequest]) -> list[tuple[int, Problem]]:
        """Return (index of the request, problem) for unsupported changes and manual tasks.

        Raises ProviderProblem.
        """
        # Possible targets of hints.
        planned_vms = {request.key.id for request in requests if request.key.type == VM}
        problems: list[tuple[int, Problem]] = []
        # Names by number of the change.
        recreated_nodes: dict[int, list[str]] = {}
        # By number of the request.
        updates_by_number: dict[int, list[ArmChange]] = {}
        for number, request in enumerate(requests):
            is_action = request.key.type == MACHINE_ACTION_TYPE and request.planned is not None
            if request.key.type not in _MANAGED_TYPES and not is_action:
                # An apply sends nothing for it.
                continue
            try:
                # Only for the error about an unknown machine.
                if is_action:
                    self._find_machine_id(str(request.planned_attributes["machine_id"]))
                    continue
                changes = self._plan_changes(request, planned_vms)
            except ProviderProblem as problem:
                problems.append((number, Problem((), "unsupported-by-provider", str(problem))))
                continue
            if updates := [item for item in changes if item.verb is ArmOperation.UPDATE]:
                updates_by_number[number] = updates
            if nodes := find_recreated_nodes(request, changes):
                recreated_nodes[number] = nodes
        if updates_by_number:
            # Read once for all requests.
            start_values = self._collect_readable_start_values(requests)
            problems += [
                (number, warning)
                for number, updates in updates_by_number.items()
                for warning in self._build_unshown_warnings(
                    requests[number], updates, start_values[number]
                )
            ]
        problems += super().validate_changes(requests)
        names = list(chain.from_iterable(recreated_nodes.values()))
        # One warning, at the first change.
        if names:
            title = f"{format_count(len(names), 'node')} ({format_first_items(names, _MAX_NAMES)})"
            detail = (
                f"Azure does not delete single nodes: to re-create {title}, "
                f"{describe_node_deletion()}."
            )
            warning = Problem((), "kubectl-deleted-nodes", detail, Severity.WARNING)
            problems.append((next(iter(recreated_nodes)), warning))
        return [*problems, *self._report_machines_to_cordon(requests)]

    def _collect_readable_start_values(
        self, requests: Sequence[ChangeRequest]
    ) -> list[Mapping[str, Any]]:
        """Return the start values of each change; empty ones if Azure cannot be read.

        Collecting them for the plan reports the problem.
        """
        try:
            return self.collect_start_values(requests)
        except ProviderProblem:
            return [{} for _ in requests]

    def _build_unshown_warnings(
        self, request: ChangeRequest, changes: Sequence[ArmChange], records: Values
    ) -> Iterator[Problem]:
        """Yield a warning if changes replace values in Azure that the plan does not show.

        `records` are the start values of the request.
        """
        texts: list[str] = []
        for change in changes:
            record = get_mapping(records, build_record_key(change.target.kind, change.target.names))
            prior = find_prior_arguments(change, request)
            texts += list_unshown_values(change, prior, record, is_sensitive=request.is_sensitive)
        if texts:
            detail = (
                f"Azure has other values than the state: {format_first_items(texts, _MAX_NAMES)}. "
                "The plan does not show these values. Check them before you apply."
            )
            yield Problem((), "unshown-azure-values", detail, Severity.WARNING)

    def _plan_changes(
        self, request: ChangeRequest, planned_vms: AbstractSet[str]
    ) -> list[ArmChange]:
        """Plan the Azure changes of a step.

        `planned_vms` are ids of VMs in the plan. Raises ProviderProblem.
        """

        def find_arm_id(object_id: str) -> str:
            # A planned VM may not exist yet. Its id is not sent, so any text does.
            return object_id if object_id in planned_vms else self._find_hint_arm_id(object_id)

        self._load_index()
        # A pool is in the group of its cluster, created possibly by the same plan.
        group = self._find_resource_group(request, missing_ok=request.key.type == POOL)
        return build_azure_changes(
            request, SiteContext(group, common_fields={}, find_arm_id=find_arm_id)
        )

    def _report_machines_to_cordon(
        self, requests: Sequence[ChangeRequest]
    ) -> Iterator[tuple[int, Problem]]:
        """Yield a warning per action with its machines to cordon, uncordon or empty.

        Either apply or an operator does this. The warning is at the index of the first request. If
        apply acts, also yield an error for each machine not listed by Azure.
        """
        requests_by_action: dict[CordonAction, list[tuple[int, CordonRequest]]] = {}
        for number, request in enumerate(requests):
            # The requests are of a rack or machine.
            for cordon_request in find_cordon_requests(request):
                requests_by_action.setdefault(cordon_request.action, []).append(
                    (number, cordon_request)
                )
        for action, numbered_requests in sorted(requests_by_action.items()):
            number, first = numbered_requests[0]
            names = format_first_items(
                [cordon_request.name for _, cordon_request in numbered_requests], _MAX_NAMES
            )
            if not self._acts_on_machines:
                machine_count = format_count(len(numbered_requests), "machine")
                detail = (
                    f"{machine_count} ({names}): "
                    f"{_MANUAL_ACTIONS[action]}{self._build_example(first)}"
                )
                yield number, Problem((), "manual-cordoning", detail, Severity.WARNING)
                continue
            detail = f"apply {_AUTOMATIC_ACTIONS[action]}: {names}."
            yield number, Problem((), "cordoned-machines", detail, Severity.WARNING)
            for machine_number, cordon_request in numbered_requests:
                try:
                    self._find_machine_id(cordon_request.id)
                except ProviderProblem as problem:
                    yield machine_number, Problem((), "unsupported-by-provider", str(problem))

    def _build_example(self, request: CordonRequest) -> str:
        """Build the sentence with the command of an operator for a machine.

        Return "" for an action without a command.
        """
        if request.action not in _COMMAND_VERBS:
            return ""
        machine_id = self._load_index().hint_targets.get(request.id, "")
        group = extract_resource_group(machine_id) or "MANAGED_RESOURCE_GROUP"
        arguments = (
            f"{_COMMAND_VERBS[request.action]} --name {request.name} --resource-group {group}"
        )
        return f" For example: az networkcloud baremetalmachine {arguments}"

    def _change_machine_cordons(
        self, request: ChangeRequest, observe_change: Callable[[ChangeRequest], ChangeResult]
    ) -> ChangeResult:
        """Apply the changed cordons of a rack or machine, and return its new values.

        If an operator has to do this, `observe_change` reads the result. Raises ProviderProblem.
        """
        if not self._acts_on_machines or request.key.type not in _HARDWARE_TYPES:
            # An operator changes it.
            return observe_change(request)
        requests = list(find_cordon_requests(request))
        changes = [
            build_cordon_change(
                cordon_request, self._find_machine_id(cordon_request.id), request.start_values
            )
            for cordon_request in requests
            if cordon_request.action is not CordonAction.KEEP
        ]
        if changes:
            self._subscription.make_arm_client(ArmClient).apply_changes(changes, request)
        if requests and is_cordon_only(request):
            # Azure confirmed it.
            return build_cordon_result(request)
        # This reads the new status.
        if changes:
            self._discard_cache()
        return observe_change(request)

    def _find_machine_id(self, machine_id: str) -> str:
        """Find the ARM id of a machine.

        Raises ProviderProblem.
        """
        arm_id = self._load_index().hint_targets.get(machine_id)
        if arm_id is None:
            _, rack, name = machine_id.split("/")
            raise ProviderProblem(
                f"Azure shows no machine {name} in rack {rack}. No action on it is possible. Use "
                "the machine name of "
                "Azure (see `nexusform import -from=azure`)."
            )
        return arm_id

    def _discard_cache(self) -> None:
        """Discard the sites read so far, and their index."""
        super()._discard_cache()
        with self._index_lock:
            self._index = None

    def _apply_change_request(self, request: ChangeRequest) -> ChangeResult:
        """Apply a change, re-create nodes if needed, and read the result.

        Raises ProviderProblem; after a change failed in Azure, it has the values for state.
        """
        group = self._find_resource_group(request)
        self._created_groups[request.key.id] = group
        site_name = request.key.id.partition("/")[0]
        common_fields = self._load_index().common_fields.get(site_name, {})
        context = SiteContext(group, common_fields, self._find_hint_arm_id)
        arm = self._subscription.make_arm_client(ArmClient)
        changes = build_azure_changes(request, context)
        try:
            arm.apply_changes(changes, request)
        except AzureChangeFailed as failure:
            # The predicted locations of VMs do not apply after a failure.
            values = dict(request.planned_attributes)
            # A cluster or a pool.
            if "nodes" in values:
                values["nodes"] = {}
                # A cluster; the count of a pool is an argument.
                if "agent_pool" in values:
                    values["node_count"] = 0
            else:  # a VM
                values |= dict.fromkeys(("machine", "rack", "availability_zone", "cells"))
            raise ProviderProblem(
                str(failure), object_exists=failure.object_exists, attributes=values
            ) from None
        if request.key.type != VM and request.prior is not None:
            cluster = _build_cluster_target(request, group)
            with convert_azure_errors():
                recreate_nodes(
                    arm,
                    cluster,
                    plan_node_recreations(request, changes),
                    request,
                    self._kubeconfig_trust,
                )
        # A later step of the object reads it.
        if request.is_release:
            return ChangeResult(request.planned_attributes)
        return self._read_until_applied(request, arm, group)

    def _find_resource_group(self, request: ChangeRequest, *, missing_ok: bool = False) -> str:
        """Find the resource group of an object.

        The group is the one observed in Azure, else the one used or recorded before, else the
        configured one. Return "" if there is none and `missing_ok`. Raises ProviderProblem for
        none, or if the configured one is another.
        """
        # The cluster of a pool.
        owner = _get_owner_id(request)
        kind = VM if request.key.type == VM else CLUSTER
        observed_group = extract_resource_group(self._load_index().managed.get((kind, owner), ""))
        recorded_group = get_text(request.private_note, GROUP_KEY)
        current_group = observed_group or self._created_groups.get(owner, "") or recorded_group
        requested_group = get_mapping(request.attributes, "azure").get("resource_group") or ""
        # Apply knows it, and compares it then.
        if requested_group is UNKNOWN:
            return current_group or "(known after apply)"
        group = str(current_group or requested_group or self._subscription.default_group)
        if requested_group.lower() not in {"", group.lower()}:
            raise ProviderProblem(
                f"{owner} is in resource group {current_group}, but its azure block sets "
                f"{requested_group}. Azure does "
                "not move it. Set its current resource group, or remove the argument."
            )
        if not group and not missing_ok:
            block = 'azure { resource_group = "..." }'
            raise ProviderProblem(
                f"{owner} has no resource group. Set it in its block `{block}`, or in the provider "
                "block."
            )
        return group

    def _load_index(self) -> _ArmIndex:
        """Return the index of ARM ids and machines of all sites, built by the first call.

        Raises ProviderProblem.
        """
        sites = self._read_sites().values()
        with self._index_lock:
            if self._index is None:
                bodies = self._subscription.documents.get(MACHINES, ())
                index = _ArmIndex(
                    machines={normalize_id(str(body.get("id"))): body for body in bodies}
                )
                for site in sites:
                    index.add_site(site)
                # The index is set only when it is complete.
                self._index = index
            return self._index

    def _find_hint_arm_id(self, object_id: str) -> str:
        """Find the ARM id of a placement hint's target.

        Raises ProviderProblem.
        """
        arm_id = self._load_index().hint_targets.get(object_id)
        if arm_id is not None:
            return arm_id
        # A VM created in this run.
        if object_id in self._created_groups:
            target = ArmTarget(
                VMS, self._created_groups[object_id], (object_id.rpartition("/")[2],)
            )
            return target.build_path(self._subscription.id)
        raise ProviderProblem(
            f'A placement hint refers to "{object_id}". Azure shows no VM, machine or rack with '
            "that name. Hints must refer to one of these."
        )

    def _read_until_applied(
        self, request: ChangeRequest, arm: ArmClient, group: str
    ) -> ChangeResult:
        """Read the object until Azure returns the requested values and a machine for each VM.

        After a while, VMs without machine are accepted, and recorded. If the same arguments differ
        in a row of reads, return Azure's values: apply reports the difference. Raises StepPending
        after the timeout or a failed read.
        """
        is_overdue = arm.start_deadline(VISIBILITY_TIMEOUT)
        # By read, the names of the differing arguments.
        reads_with_differences: list[tuple[str, ...]] = []
        while True:
            try:
                with convert_azure_errors():
                    observation = self._read_single_object(request, arm, group)
            except ProviderProblem as problem:
                # The change is done even if this read fails.
                raise StepPending(f"{problem} `nexusform apply -resume` checks again.") from None
            if observation is not None and observation.differing:
                # It is reported once.
                if not reads_with_differences:
                    names = " and ".join(observation.differing)
                    message = f"Azure finished, but shows another {names} than was planned"
                    request.report_progress(StepProgress(message=message))
                reads_with_differences.append(observation.differing)
                if reads_with_differences[-MAX_READS:] == [observation.differing] * MAX_READS:
                    # Azure will not take the planned values.
                    return observation.answer
            elif observation is not None and (
                _has_machine_for_each_vm(observation, request) or is_overdue()
            ):
                return self._record_missing_nodes(observation.answer, request, arm, group)
            if is_overdue():
                text = f"Azure finished the change of {request.key.id}, but does not show it."
                raise StepPending(f"{text} `nexusform apply -resume` checks again.")
            arm.wait(request, f"{request.key.id} is done, but its VM placement is not visible yet")

    def _record_missing_nodes(
        self, answer: ChangeResult, request: ChangeRequest, arm: ArmClient, group: str
    ) -> ChangeResult:
        """Return the answer, with missing nodes recorded as an unfinished change.

        A node planned without a machine may be missing, except after a failed change.
        """
        # None: all nodes are required.
        planned = None if request.unfinished_change else request.planned
        missing_nodes = find_missing_nodes(answer.attributes, planned)
        if not missing_nodes:
            # All are present, or not required.
            return answer
        nodes = answer.attributes["nodes"]
        # Of the first one; a record is about one pool.
        pool = str(nodes[missing_nodes[0]]["pool"])
        # A pool has its count in its own body, the control plane in the body of the cluster.
        target = _build_cluster_target(request, group)
        count_property = "controlPlaneNodeConfiguration"
        if pool != CONTROL_PLANE:
            target = ArmTarget(POOLS, group, (*target.names, pool))
            count_property = "count"
        reason = read_status_message(arm.get_body(target))
        present_count = len(nodes) - len(missing_nodes)
        present_text = f"{present_count} of {format_count(len(nodes), 'node')} of {request.key.id}"
        names = format_first_items(missing_nodes, _MAX_NAMES)
        message = f"Azure shows {present_text}; missing: {names}{enclose(' (', reason, ')')}."
        # The record has only the names of properties.
        expected = {count_property: None}
        change = ArmChange(
            ArmOperation.UPDATE, target, body={"properties": expected}, expected=expected
        )
        record = build_failure_record(
            target.build_path(self._subscription.id), NODES_MISSING, message, change, request
        )
        return replace(answer, unfinished_change=record)

    def _read_single_object(
        self, request: ChangeRequest, arm: ArmClient, group: str
    ) -> ObservedObjectComparison | None:
        """Read an object from Azure and compare it with the plan.

        Return None if it does not exist. Only its own bodies are read again. They are parsed like
        an export of a whole site.
        """
        from nexusform.domains.azure.importers.az_import import build_imported_sites, extract_pools
        from nexusform.domains.azure.importers.az_recorded_nodes import collect_recorded_nodes

        is_vm = request.key.type == VM
        name = request.key.id.rpartition("/")[2]
        target = ArmTarget(VMS, group, (name,)) if is_vm else _build_cluster_target(request, group)
        body = arm.get_body(target)
        if body is None:
            return None
        properties = get_mapping(body, "properties")
        # The VM itself, or the nodes of a cluster.
        vms = (properties, *list_mappings(properties, "nodes"))
        ids = {normalize_id(get_text(vm, "bareMetalMachineId")) for vm in vms} - {""}
        machine_bodies = self._load_index().machines
        # A machine added since the whole site was read.
        if not ids <= machine_bodies.keys():
            machine_bodies |= {
                normalize_id(str(row.get("id"))): row for row in self._subscription.list_machines()
            }
        documents = {
            target.kind: [body],
            MACHINES: [
                machine_bodies[machine_id]
                for machine_id in sorted(ids)
                if machine_id in machine_bodies
            ],
            "racks": list(self._subscription.documents.get("racks", ())),
        }
        if not is_vm:
            documents[POOLS] = self._subscription.list_pools(group, target.names[0])
        # The pool becomes an object, not a part of its cluster.
        if request.key.type == POOL:
            self._record_separate_pools([request.key])
        sites, _ = self._subscription.parse_sites(documents)
        # As in state; these few bodies may give another name.
        site_name = request.key.id.partition("/")[0]
        named_sites = [replace(site, name=site_name) for site in sites]
        imported_sites = build_imported_sites(
            named_sites, collect_recorded_nodes([request.planned_attributes])
        )
        separate_pools = self._list_separate_pools()
        objects: dict[tuple[str, str], ImportedSiteObject] = {}
        for site in imported_sites:
            objects |= {
                (item.type, item.id): item for item in extract_pools(site.objects, separate_pools)
            }
        return build_observed_object(request, objects)


class _ArmIndex(Struct, frozen=True):
    """Index of the sites in Azure.

    `managed` has the ids of clusters, pools and VMs by type and nexusform id. `pools_by_cluster`
    has the ids of pools by nexusform id of their cluster. `hint_targets` has the ids of targets of
    placement hints by nexusform id. `common_fields` has location and extended location by site.
    `machines` has bodies by lower-case id.
    """

    machines: dict[str, dict[str, Any]]
    managed: dict[tuple[str, str], str] = field(default_factory=dict)
    pools_by_cluster: dict[str, list[str]] = field(default_factory=dict)
    hint_targets: dict[str, str] = field(default_factory=dict)
    common_fields: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add_site(self, site: AzSite) -> None:
        """Add the objects of a site with their context.

        It also adds the possible targets of placement hints, and the fields common to the objects
        of the site.
        """
        inventory = site.inventory
        for cluster in inventory.clusters:
            cluster_id = f"{site.name}/{cluster.name}"
            self.managed[CLUSTER, cluster_id] = cluster.id
            self.pools_by_cluster[cluster_id] = [pool.id for pool in cluster.pools]
            self.managed.update(
                {(POOL, f"{cluster_id}/{pool.name}"): pool.id for pool in cluster.pools}
            )
        for vm in inventory.virtual_machines:
            self.managed[VM, f"{site.name}/{vm.name}"] = vm.id
            self.hint_targets[f"{site.name}/{vm.name}"] = vm.id
        for rack in inventory.racks:
            self.hint_targets[f"{site.name}/{rack.name}"] = rack.id
        for machine in inventory.machines:
            self.hint_targets[f"{site.name}/{machine.rack}/{machine.name}"] = machine.id
            body = self.machines.get(normalize_id(machine.id), {})
            # All objects of a site are at the location of its machines.
            if body.get("extendedLocation") and site.name not in self.common_fields:
                self.common_fields[site.name] = omit_empty(
                    {name: body.get(name) for name in _COMMON_FIELDS}
                )


def _mark_changed_pools(
    cluster_id: str, records: Mapping[str, Any], requests: Sequence[ChangeRequest]
) -> dict[str, Any]:
    """Return the records of the pools of a cluster that have a step of their own, among requests.

    The pool of a step may be new.
    """
    marked = {}
    for request in requests:
        owner_id, _, name = request.key.id.rpartition("/")
        if owner_id == cluster_id:
            key = build_record_key(POOLS, (cluster_id.rpartition("/")[2], name))
            marked[key] = mark_own_step(records.get(key, {}))
    return marked


def _build_cluster_target(request: ChangeRequest, group: str) -> ArmTarget:
    """Build the target of the cluster of a step on a cluster or pool."""
    return ArmTarget(CLUSTERS, group, (_get_owner_id(request).rpartition("/")[2],))


def _get_owner_id(request: ChangeRequest) -> str:
    """Return the id of a pool's cluster; of another object its own id."""
    return (
        str(request.attributes["kubernetes_cluster_id"])
        if request.key.type == POOL
        else request.key.id
    )


def _has_machine_for_each_vm(observation: ObservedObjectComparison, request: ChangeRequest) -> bool:
    """Return True if each VM planned on a machine is observed on one.

    After a failed change no node may be missing.
    """
    observed = observation.answer.attributes
    planned = request.planned_attributes
    if request.key.type == VM:
        return bool(observed.get("machine")) or not planned.get("machine")
    if request.unfinished_change is not None and find_missing_nodes(observed):
        # The change waits for the nodes that were missing before.
        return False
    observed_nodes = get_mapping(observed, "nodes")
    for name, planned_node in get_mapping(planned, "nodes").items():
        is_placed = bool(get_mapping(observed_nodes, name).get("machine"))
        if planned_node.get("machine") and not is_placed:
            return False
    return True
