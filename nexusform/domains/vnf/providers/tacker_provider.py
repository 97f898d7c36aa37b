"""Life cycle of VNFs: instantiate, scale, heal, terminate, import."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Problem, Severity
from nexusform.diagnostics.phrases import format_list
from nexusform.domains.vnf.importers.vnf_records import Vnf
from nexusform.domains.vnf.providers.tacker_client import TackerClient
from nexusform.domains.vnf.providers.tacker_operations import (
    COMPLETED,
    OBJECT_KEY,
    OWNER_KEY,
    OperationFailed,
    OperationRunner,
    VnfChanged,
    VnfInstance,
    describe_other_operation,
    find_running_vnf,
    is_running,
    match_vnfcs,
    parse_instance,
)
from nexusform.domains.vnf.providers.vnf_start import (
    VnfStart,
    find_level_difference,
    find_vnf_difference,
    is_of_another_state,
)
from nexusform.domains.vnf.types.tacker_vnf import HEALED
from nexusform.domains.vnf.types.vnf_documents import (
    REQUEST,
    VIM_CONNECTIONS,
    VIM_CONNECTIONS_VERSION,
    compute_target_levels,
    has_known_documents,
    read_documents,
)
from nexusform.interfaces.plugins import (
    ChangeRequest,
    ChangeResult,
    ObjectKey,
    ProviderProblem,
    ReadRequest,
    ReadResult,
    StepProgress,
)
from nexusform.json_data.plain_data import get_mapping, get_text, list_mappings, replace_unknown
from nexusform.network.parallel_calls import call_in_parallel
from nexusform.providers.optional_provider_interfaces import FixedIdentity

# VNFs read at a time.
_MAX_PARALLEL_READS: Final = 16
_VNF: Final = "tacker_vnf"
# Key of a VNF's private note with the ids of its VNFCs, and mark of a step before its healing.
_IDS_KEY: Final = "vnfc_ids"
_BEFORE: Final = "before:"
_VIM_TYPES: Final = {"openstack": "ETSINFV.OPENSTACK_KEYSTONE.V_3"}


class TackerOptions(Struct, frozen=True):
    """Settings of the provider besides its endpoint; `timeout` of one operation in seconds."""

    on_failure: str
    timeout: float
    is_graceful: bool


class TackerProvider(FixedIdentity):
    """Provider for one Tacker, identified by its endpoint and project.

    VNFs of other projects appear not to exist.
    """

    observes_objects = True

    def __init__(self, name: str, client: TackerClient, options: TackerOptions) -> None:
        """Prepare the provider, identified by endpoint and project."""
        super().__init__({"endpoint": client.endpoint, "project": client.project})
        self.name = name
        self.sends_changes = True
        self._client = client
        self._options = options
        # VNFs read with the mark of another state: id and name.
        self._foreign_vnfs: dict[str, str] = {}
        # Names of VNFs read as not instantiated.
        self._terminated_vnfs: list[str] = []
        self._takes_ownership = False

    def set_permissions(
        self, _is_url_allowed: Callable[[str], bool], *, take_ownership: bool
    ) -> None:
        """Set whether owner marks of other states are replaced."""
        self._takes_ownership = take_ownership

    def read(self, requests: Sequence[ReadRequest]) -> list[ReadResult]:
        """Read VNFs.

        Raises ProviderProblem.
        """
        return call_in_parallel(self._read_object, requests, _MAX_PARALLEL_READS)

    def find(
        self, _resource_type: str, _object_id: str
    ) -> tuple[ObjectKey, Mapping[str, Any]] | None:
        """Return None, since an id alone is not enough.

        A VNF is imported with the arguments of its block.
        """
        return None

    def needs_arguments(self, resource_type: str) -> bool:
        """Return True for VNFs: their documents are in the block."""
        return resource_type == _VNF

    def find_configured_object(
        self, resource_type: str, arguments: Mapping[str, Any]
    ) -> tuple[ObjectKey, Mapping[str, Any]]:
        """Find the running VNF of a block for import, by its name and VNFD.

        Raises ProviderProblem.
        """
        _require_vnf(resource_type)
        vnf = read_documents(arguments).vnf
        name = get_text(arguments, "name")
        matches = [
            instance
            for instance in self._list_instances()
            if instance.is_instantiated and instance.name == name
            if vnf.descriptor_id in ("", instance.descriptor_id)
        ]
        if len(matches) != 1:
            count = (
                f"{len(matches)} running VNF instances" if matches else "no running VNF instance"
            )
            raise ProviderProblem(
                f'Tacker has {count} with the vnfInstanceName "{name}" and the vnfdId '
                f"{vnf.descriptor_id or '(any)'}. "
                "Set name in the block to the vnfInstanceName."
            )
        instance = matches[0]
        values = {
            **arguments,
            "id": f"{arguments['site_id']}/{name}",
            "vnf_instance_id": instance.id,
        }
        latest = self._build_reader().find_latest_operation(instance.id)
        if is_running(latest):
            raise ProviderProblem(describe_other_operation(latest))
        _require_reported_values(values, instance)
        return ObjectKey(resource_type, str(values["id"]), creation=0), _add_observed_vnfcs(
            values, instance
        )

    def list_warnings(self) -> list[Problem]:
        """Return warnings about an unverified server, and about VNFs of other states."""
        warnings = [
            Problem(
                (),
                "vnf-of-another-state",
                f"The VNF instance {instance_id} ({name}) has the owner mark of another state: "
                "that state created it, or imported and changed it. Two states of one VNF undo "
                "each other's changes. Remove it from one of them (`nexusform state rm`). "
                "This state changes it only with -take-ownership, which replaces the mark.",
                Severity.WARNING,
            )
            for instance_id, name in sorted(self._foreign_vnfs.items())
        ]
        warnings += [
            Problem(
                (),
                "vnf-not-instantiated",
                f"{name} is not instantiated in Tacker: another client terminated it, and its VNF "
                "instance remains. A plan with it replaces the instance; destroy deletes it.",
                Severity.WARNING,
            )
            for name in sorted(self._terminated_vnfs)
        ]
        if self._client.verifies_server:
            return warnings
        detail = (
            f"The certificates of {self._client.endpoint} and Keystone are not verified (`verify: "
            "false`): another server could answer and receive the credentials. Set cacert in "
            "clouds.yaml instead."
        )
        return [*warnings, Problem((), "unverified-server", detail, Severity.WARNING)]

    def validate_changes(self, requests: Sequence[ChangeRequest]) -> list[tuple[int, Problem]]:
        """Return the problems of changes not supported by Tacker.

        Each has the index of its request.
        """
        return [
            (index, problem)
            for index, request in enumerate(requests)
            if has_known_documents(request.planned_attributes)
            for problem in _list_change_problems(
                request.prior_attributes, request.planned_attributes
            )
        ]

    def create(self, request: ChangeRequest) -> ChangeResult:
        """Create a VNF, or resume an interrupted creation, and scale it to its levels.

        Delete it if its instantiation fails and is rolled back. Raises ProviderProblem, before
        anything is sent if the VNF exists and this creation did not make it.
        """
        planned = _require_planned_vnf(request)
        runner = self._build_runner(request)
        instance = self._find_unfinished_instance(request)
        if instance is None:
            instance = self._create_instance(request, planned)
        instance = self._finish_running(runner, instance, request)
        if not instance.is_instantiated:
            try:
                request_body = _build_instantiate_request(planned, request.write_only)
                runner.run(instance.id, "instantiate", request_body, find_running_vnf)
            except VnfChanged:
                raise
            except OperationFailed as problem:
                if problem.is_rolled_back:
                    runner.delete_instance(instance.id)
                    raise
                kept = (
                    f"The VNF instance {instance.id} stays in Tacker; the next apply instantiates "
                    "it again."
                )
                raise ProviderProblem(f"{problem} {kept}") from None
            instance = _require_instance(runner, instance.id)
        # Those of its instantiation.
        levels = compute_target_levels({**planned, "scale_levels": None})
        start = VnfStart(levels, last_result=instance)
        try:
            self._change_levels(runner, instance, planned, start)
        except OperationFailed as problem:
            observed = _add_observed_vnfcs(
                {**planned, "vnf_instance_id": instance.id}, _require_instance(runner, instance.id)
            )
            raise ProviderProblem(str(problem), object_exists=True, attributes=observed) from None
        return _build_result(
            {**planned, "vnf_instance_id": instance.id}, _require_instance(runner, instance.id)
        )

    def update(self, request: ChangeRequest) -> ChangeResult:
        """Scale a VNF, then heal the VNFCs to re-create; to release capacity, only scale in.

        Raises ProviderProblem.
        """
        planned = _require_planned_vnf(request)
        runner = self._build_runner(request)
        instance_id = get_text(planned, "vnf_instance_id")
        instance = self._finish_running(runner, _require_instance(runner, instance_id), request)
        _require_same_package(request.prior_attributes, instance)
        start = self._build_start(request)
        if request.resumed_operation is None:
            start = replace(start, vnfc_ids=_find_vnfcs_to_heal(planned, request.private_note))
        final = request.final_attributes or planned
        final_levels = compute_target_levels(planned)
        try:
            if self._takes_ownership:
                start = _replace_owner_mark(runner, instance, request, start)
            start = self._send_vim_connections(runner, instance, request, start)
            next_start = self._change_levels(
                runner, instance, final, start, only_in=request.is_release
            )
            if request.is_release:
                return ChangeResult(planned)
            is_scaled_in = any(start.find_step(aspect, final_levels) < 0 for aspect in final_levels)
            self._recreate_vnfcs(runner, instance, planned, next_start, is_scaled_in=is_scaled_in)
        except OperationFailed as problem:
            current = _require_instance(runner, instance_id)
            observed = _add_observed_vnfcs(request.prior or planned, current, request.private_note)
            raise ProviderProblem(str(problem), attributes=observed) from None
        return _build_result(planned, _require_instance(runner, instance_id))

    def delete(self, request: ChangeRequest) -> None:
        """Delete a VNF: terminate it, and delete its instance.

        Raises ProviderProblem.
        """
        runner = self._build_runner(request)
        instance_id = get_text(request.prior, "vnf_instance_id")
        instance = runner.read_instance(instance_id) if instance_id else None
        if instance is None:
            # It is already deleted, or was never created.
            return
        instance = self._finish_running(runner, instance, request)
        if instance.is_instantiated:
            kind = "GRACEFUL" if self._options.is_graceful else "FORCEFUL"
            start = self._build_start(request)
            vnfcs = request.prior_attributes.get("vnfcs")
            # An interrupted termination has removed some.
            if vnfcs is not None and request.resumed_operation is None:
                start = replace(start, vnfc_count=len(vnfcs))
            find_difference = partial(find_vnf_difference, start, {})
            runner.run(instance_id, "terminate", {"terminationType": kind}, find_difference)
        runner.delete_instance(instance_id)

    def _build_start(self, request: ChangeRequest) -> VnfStart:
        """Return the values that a step on a running VNF starts from."""
        lineage = "" if self._takes_ownership else request.lineage
        return VnfStart(compute_target_levels(request.prior_attributes), lineage=lineage)

    def _read_object(self, request: ReadRequest) -> ReadResult:
        """Read a VNF by its instance id.

        The VNF of an interrupted creation has none in the state: it is found by its owner mark. A
        VNF does not exist if it has no instance. Without an unfinished step, one that is not
        instantiated is a rest without VNFCs: others terminated it. The change of an unfinished
        step is not settled while an operation runs, or scale levels differ from the plan. Raises
        ProviderProblem while another operation runs: the values of the VNF are about to change.
        """
        _require_vnf(request.key.type)
        known = replace_unknown(request.known_attributes)
        reader = self._build_reader()
        instance_id = get_text(request.attributes, "vnf_instance_id")
        if not instance_id and request.planned is not None:
            mark = _build_owner_mark(request)
            owned = (row.id for row in self._list_instances() if row.owner == mark)
            instance_id = next(owned, "")
        # Before the instance: an operation that ends between both reads has changed it.
        latest = reader.find_latest_operation(instance_id) if instance_id else None
        document = self._client.read(f"/vnf_instances/{instance_id}") if instance_id else None
        if document is None:
            return ReadResult(attributes=None)
        instance = parse_instance(document)
        is_unfinished_step = request.planned is not None or request.is_being_deleted
        if is_running(latest):
            if not is_unfinished_step:
                raise ProviderProblem(f"{request.address}: {describe_other_operation(latest)}")
            return ReadResult({**known, "vnf_instance_id": instance.id}, is_settled=False)
        if not instance.is_instantiated:
            if is_unfinished_step:
                return ReadResult(attributes=None)
            self._terminated_vnfs.append(instance.name)
            rest = {**known, "vnf_instance_id": instance.id, "vnfcs": {}, "vnfc_ids": {}}
            return ReadResult(rest, is_whole=False)
        if not is_unfinished_step:
            _require_reported_values(known, instance)
        if is_of_another_state(instance, request.lineage):
            self._foreign_vnfs[instance.id] = instance.name
        observed = _add_observed_vnfcs({**known, "vnf_instance_id": instance.id}, instance)
        targets = compute_target_levels(request.planned) if request.planned is not None else {}
        is_settled = all(
            instance.scale_levels.get(aspect, 0) == level for aspect, level in targets.items()
        )
        return ReadResult(observed, is_settled=is_settled, note={_IDS_KEY: observed["vnfc_ids"]})

    def _build_reader(self) -> OperationRunner:
        """Return a runner that runs nothing, and only reads."""
        return OperationRunner(self._client, _NO_REQUEST, self._options.on_failure, 0.0)

    def _list_instances(self) -> list[VnfInstance]:
        return list(
            map(parse_instance, self._client.read_list("/vnf_instances", {"all_fields": ""}))
        )

    def _find_unfinished_instance(self, request: ChangeRequest) -> VnfInstance | None:
        """Return the VNF instance left by an unfinished creation of this object, None without one.

        Raises ProviderProblem if another VNF instance has its name.
        """
        mark = _build_owner_mark(request)
        instances = self._list_instances()
        # An earlier run started this step, or its object is recorded as tainted.
        is_repeated = request.resumed_operation is not None or request.is_repeated_create
        prefix = f"{mark.rpartition('#')[0]}#"
        candidates = [
            instance
            for instance in instances
            if (is_repeated and instance.owner == mark)
            # Left by a failed creation.
            or (not instance.is_instantiated and instance.owner.startswith(prefix))
        ]
        # Its own one first.
        candidates.sort(key=lambda instance: instance.owner != mark)
        unfinished = next(iter(candidates), None)
        _require_free_name(request, instances, candidates)
        return unfinished

    def _create_instance(self, request: ChangeRequest, planned: Mapping[str, Any]) -> VnfInstance:
        """Create the VNF instance of an object, not instantiated.

        Tacker allows equal names. If another client created one of this name since, delete the new
        instance and raise ProviderProblem.
        """
        body = {
            "vnfdId": read_documents(planned).vnf.descriptor_id,
            "vnfInstanceName": planned["name"],
            "metadata": {OWNER_KEY: _build_owner_mark(request), OBJECT_KEY: request.key.id},
        }
        instance = parse_instance(self._client.create_instance(body))
        try:
            _require_free_name(request, self._list_instances(), [instance])
        except ProviderProblem:
            self._client.write("DELETE", f"/vnf_instances/{instance.id}")
            raise
        return instance

    def _build_runner(self, request: ChangeRequest) -> OperationRunner:
        return OperationRunner(
            self._client, request, self._options.on_failure, self._options.timeout
        )

    def _finish_running(
        self, runner: OperationRunner, instance: VnfInstance, request: ChangeRequest
    ) -> VnfInstance:
        """Follow the operation in progress, and return the instance after it.

        An operation that is not of this step is rejected.
        """
        latest = runner.find_latest_operation(instance.id)
        if is_running(latest):
            # No earlier run started this step.
            if request.resumed_operation is None:
                raise ProviderProblem(describe_other_operation(latest))
            runner.follow_operation(str(latest["id"]))
        return _require_instance(runner, instance.id)

    def _change_levels(
        self,
        runner: OperationRunner,
        instance: VnfInstance,
        planned: Mapping[str, Any],
        start: VnfStart,
        *,
        only_in: bool = False,
    ) -> VnfStart:
        """Scale each aspect from its start to its planned level: first in, then out.

        With `only_in`, scale none out. Return the values that the next request starts from. Raises
        OperationFailed, also if Tacker has other levels before or after it, or between requests.
        """
        targets = compute_target_levels(planned)
        next_start = start
        runner.check_unchanged(instance.id, partial(find_vnf_difference, start, targets))
        for aspect in sorted(targets, key=lambda name: (start.find_step(name, targets) > 0, name)):
            difference = start.find_step(aspect, targets)
            level = _require_instance(runner, instance.id).scale_levels.get(aspect)
            is_done = difference == 0 or level == targets[aspect]
            if is_done or (only_in and difference > 0):
                # At its level, or scaled out in a later step.
                continue
            kind = "SCALE_OUT" if difference > 0 else "SCALE_IN"
            body: dict[str, Any] = {
                "type": kind,
                "aspectId": aspect,
                "numberOfSteps": abs(difference),
            }
            body |= _build_user_data(planned)
            find_difference = partial(find_vnf_difference, next_start, targets)
            runner.run(instance.id, "scale", body, find_difference)
            result = _require_instance(runner, instance.id)
            next_start = next_start.follow_request(result, {aspect: targets[aspect]})
        if not only_in:
            difference_after = find_level_difference(
                _require_instance(runner, instance.id), targets
            )
            if difference_after:
                raise VnfChanged(difference_after)
        return next_start

    def _send_vim_connections(
        self,
        runner: OperationRunner,
        instance: VnfInstance,
        request: ChangeRequest,
        start: VnfStart,
    ) -> VnfStart:
        """Send the write-only connections to VIMs if their version differs from the prior one.

        Return the values that the next request starts from.
        """
        planned = request.planned_attributes
        version = planned.get(VIM_CONNECTIONS_VERSION)
        connections = request.write_only.get(VIM_CONNECTIONS)
        is_new = version != request.prior_attributes.get(VIM_CONNECTIONS_VERSION)
        if request.is_release or not connections or not is_new:
            return start
        runner.modify(instance.id, {"vimConnectionInfo": connections})
        return replace(start, last_result=_require_instance(runner, instance.id))

    def _recreate_vnfcs(
        self,
        runner: OperationRunner,
        instance: VnfInstance,
        planned: Mapping[str, Any],
        start: VnfStart,
        *,
        is_scaled_in: bool,
    ) -> None:
        """Run the healing of the VNFCs (VMs) to re-create.

        It is skipped if an interrupted run of this step did it. The plan marks them
        (operation HEALED), without ids. Their ids are those of the last read; Tacker may have
        removed some since.
        """
        targets = compute_target_levels(planned)
        vnfc_ids = _find_vnfcs_to_heal(planned, runner.request.private_note)
        if is_scaled_in or runner.request.resumed_operation is not None:
            # Tacker may have removed or healed some.
            last_result = start.last_result or _require_instance(runner, instance.id)
            existing = {vnfc.id for vnfc in last_result.vnfcs}
            vnfc_ids = {name: vnfc for name, vnfc in vnfc_ids.items() if vnfc in existing}
        healed_ids = list(vnfc_ids.values())
        latest = runner.find_latest_operation(instance.id)
        if not healed_ids or _is_heal_already_executed(runner.request.resumed_operation, latest):
            # Nothing to heal any more.
            return
        # Journaled before the request: a later operation is then the one of this step.
        marker = f"{_BEFORE}{get_text(latest, 'id')}"
        runner.request.report_progress(StepProgress(operation=marker, message="healing"))
        start = replace(start, vnfc_ids=vnfc_ids)
        find_difference = partial(find_vnf_difference, start, targets)
        body = {"vnfcInstanceId": healed_ids, **_build_user_data(planned)}
        runner.run(instance.id, "heal", body, find_difference)


def _find_vnfcs_to_heal(
    planned: Mapping[str, Any], private_note: Mapping[str, Any]
) -> dict[str, str]:
    """Return the recorded id of each VNFC (VM) that the plan marks to re-create, by name."""
    recorded: Mapping[str, str] = get_mapping(private_note, _IDS_KEY)
    ids = get_mapping(planned, "vnfc_ids")
    vnfcs: Mapping[str, Mapping[str, Any]] = get_mapping(planned, "vnfcs")
    return {
        name: recorded[name]
        for name, vnfc in vnfcs.items()
        if vnfc.get("operation") == HEALED and name not in ids and recorded.get(name)
    }


_NO_REQUEST: Final = ChangeRequest(ObjectKey(_VNF, "", 0), address="", prior=None, planned=None)


def _build_owner_mark(request: ChangeRequest | ReadRequest) -> str:
    """Return the mark of an object's owner: lineage of the state, address and creation."""
    return f"{request.lineage}/{request.address}#{request.key.creation}"


def _replace_owner_mark(
    runner: OperationRunner, instance: VnfInstance, request: ChangeRequest, start: VnfStart
) -> VnfStart:
    """Mark a VNF of another state as one of this state (`-take-ownership`).

    Return the values that the next request starts from.
    """
    if not is_of_another_state(instance, request.lineage):
        return start
    mark = {OWNER_KEY: _build_owner_mark(request), OBJECT_KEY: request.key.id}
    runner.modify(instance.id, {"metadata": mark})
    return replace(start, last_result=_require_instance(runner, instance.id))


def _require_free_name(
    request: ChangeRequest, instances: Sequence[VnfInstance], own_instances: Sequence[VnfInstance]
) -> None:
    """Raise ProviderProblem if another VNF instance has the name of the object to create.

    Instances of this object in the state, and those marked for an object of another site,
    may have it.
    """
    name = get_text(request.planned_attributes, "name")
    own_ids = {instance.id for instance in own_instances}
    own_ids |= {get_text(recorded, "vnf_instance_id") for recorded in request.recorded_objects}
    for instance in instances:
        is_other_object = instance.object_id not in ("", request.key.id)
        if instance.name != name or instance.id in own_ids or is_other_object:
            continue
        remedy = (
            f"Import it, or set another name:\nnexusform import {request.address} {request.key.id}"
        )
        if not instance.is_instantiated:
            remedy = "It is not instantiated. Delete it in Tacker, or set another name."
        raise ProviderProblem(
            f'A VNF instance with the name "{name}" already exists in Tacker: {instance.id}. '
            f"{_describe_owner(request, instance)} {remedy}"
        )


def _describe_owner(request: ChangeRequest, instance: VnfInstance) -> str:
    """Return a sentence on who created a VNF instance."""
    if not instance.owner:
        return "nexusform did not create it."
    if instance.owner.rpartition("#")[0] == instance.object_id:
        return "Its owner mark does not name a state."
    lineage = instance.owner.partition("/")[0]
    if lineage == request.lineage:
        return "This state created it, but has no record of it."
    return "Another state created it."


def _require_vnf(resource_type: str) -> None:
    if resource_type != _VNF:
        raise ProviderProblem(
            f'Provider "tacker" has no objects of type {resource_type}. Set another provider.'
        )


def _require_planned_vnf(request: ChangeRequest) -> Mapping[str, Any]:
    """Return the planned attributes of a VNF, with None for unknown values.

    Raises ProviderProblem for another type.
    """
    _require_vnf(request.key.type)
    planned: Mapping[str, Any] = replace_unknown(request.planned_attributes)
    return planned


def _require_instance(runner: OperationRunner, instance_id: str) -> VnfInstance:
    """Return an instance.

    Raises ProviderProblem if it does not exist.
    """
    instance = runner.read_instance(instance_id)
    if instance is None:
        raise ProviderProblem(f"Tacker has no VNF instance {instance_id}.")
    return instance


def _require_reported_values(attributes: Mapping[str, Any], instance: VnfInstance) -> None:
    """Raise ProviderProblem if Tacker reports a running VNF without its levels or its VNFCs.

    They may be omitted if the VNF has none. Otherwise they are unknown, not unchanged or removed:
    Tacker removes no VNFC without a change of levels. A VNFC of a VDU without a description is
    not to be removed, either.
    """
    _require_same_package(attributes, instance)
    known_vdus = {vdu.name for vdu in read_documents(attributes).vnf.vdus}
    unknown_vdus = sorted({vnfc.vdu for vnfc in instance.vnfcs} - known_vdus)
    if unknown_vdus:
        raise ProviderProblem(
            f"The VNF instance {instance.id} ({instance.name}) has VNFCs of the VDU "
            f"{format_list(unknown_vdus)} in Tacker, and its documents do not have this VDU. Set "
            "the package of the running VNF, and import it again."
        )
    targets = compute_target_levels(attributes)
    missing = [f"the level of {aspect}" for aspect in targets.keys() - instance.scale_levels.keys()]
    if all(instance.scale_levels.get(name, level) == level for name, level in targets.items()):
        vnfcs = get_mapping(attributes, "vnfcs")
        ids = get_mapping(attributes, "vnfc_ids")
        recorded = Counter(get_text(vnfcs, name, "vdu") for name in ids if name in vnfcs)
        unreported = recorded - Counter(vnfc.vdu for vnfc in instance.vnfcs)
        missing += [
            f"{number} of {recorded[vdu]} VNFCs of {vdu}" for vdu, number in unreported.items()
        ]
    if missing:
        raise ProviderProblem(
            f"Tacker does not report {format_list(sorted(missing))} of the VNF instance "
            f"{instance.id} ({instance.name}). Check the VNF in Tacker, and plan again."
        )


def _require_same_package(attributes: Mapping[str, Any], instance: VnfInstance) -> None:
    """Raise ProviderProblem if another client changed the VNFD or the flavour of a running VNF."""
    expected_values = {
        "vnfdId": (instance.descriptor_id, read_documents(attributes).vnf.descriptor_id),
        "flavourId": (instance.flavour_id, get_text(attributes, "flavour_id")),
    }
    for name, (value, expected) in expected_values.items():
        if value and expected and value != expected:
            raise ProviderProblem(
                f"The VNF instance {instance.id} ({instance.name}) has the {name} {value} in "
                f"Tacker, not {expected}: another client changed it. Remove the VNF from the state "
                "(`nexusform state rm`), and import it with the package of this VNFD and its "
                "flavour_id."
            )


def _add_observed_vnfcs(
    attributes: Mapping[str, Any], instance: VnfInstance, note: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return attributes with observed VNFCs and scale levels.

    Ids in the note (private data) have precedence.
    """
    recorded_ids = get_mapping(note, _IDS_KEY)
    known = {**attributes, "vnfc_ids": recorded_ids} if recorded_ids else attributes
    observed = match_vnfcs(known, instance.vnfcs)
    targets = compute_target_levels(attributes)
    different = {
        aspect: instance.scale_levels[aspect]
        for aspect, level in targets.items()
        # One without a report is as planned.
        if instance.scale_levels.get(aspect, level) != level
    }
    if different:
        observed["scale_levels"] = {**get_mapping(attributes, "scale_levels"), **different}
    return observed


def _build_result(planned: Mapping[str, Any], instance: VnfInstance) -> ChangeResult:
    """Return the attributes after a step, with paths and a note.

    The paths are of the observed VNFCs (VMs). The note is private data in state with their ids. A
    VNFC is observed if Tacker knows its host or no machine was planned. Otherwise its machine
    stays a prediction.
    """
    attributes = match_vnfcs(planned, instance.vnfcs)
    located_ids = {vnfc.id for vnfc in instance.vnfcs if vnfc.host}
    ids: Mapping[str, str] = attributes["vnfc_ids"]
    vnfcs: Mapping[str, Mapping[str, Any]] = attributes["vnfcs"]
    paths = tuple(
        ("vnfcs", name)
        for name in ids
        if ids[name] in located_ids or not vnfcs[name].get("machine")
    )
    return ChangeResult(attributes, observed_paths=paths, note={_IDS_KEY: ids})


def _is_heal_already_executed(
    resumed_operation: str | None, latest: Mapping[str, Any] | None
) -> bool:
    """Return whether an interrupted run of this step healed already.

    `latest` is the latest operation of the VNF.
    """
    outcome = (get_text(latest, "operation"), get_text(latest, "operationState"))
    if not resumed_operation or outcome != ("HEAL", COMPLETED):
        return False
    # The run recorded _BEFORE with the id of the previous operation, then the id of the healing.
    operation_id = get_text(latest, "id")
    if resumed_operation.startswith(_BEFORE):
        # The healing started since.
        return resumed_operation != f"{_BEFORE}{operation_id}"
    return resumed_operation == operation_id


def _build_instantiate_request(
    planned: Mapping[str, Any], write_only: Mapping[str, Any]
) -> dict[str, Any]:
    """Build the request from the instantiate request of the block and its arguments."""
    text = planned.get(REQUEST)
    body: dict[str, Any] = json.loads(text) if isinstance(text, str) else {}
    connections = body.get("vimConnectionInfo")
    # As in version 1 of the interface: version 2 has a map by id.
    if isinstance(connections, list):
        connections_by_id: dict[str, dict[str, Any]] = {}
        for number, row in enumerate(list_mappings(connections)):
            fields = {
                name: _VIM_TYPES.get(str(value), value)
                for name, value in row.items()
                if name != "id"
            }
            # Without an id: by its number in the list.
            connections_by_id[str(row.get("id") or number)] = fields
        body["vimConnectionInfo"] = connections_by_id
    if write_only.get(VIM_CONNECTIONS):
        body["vimConnectionInfo"] = write_only[VIM_CONNECTIONS]
    body["flavourId"] = planned.get("flavour_id")
    if planned.get("instantiation_level"):
        body["instantiationLevelId"] = planned["instantiation_level"]
    if planned.get("parameters"):
        body["additionalParams"] = planned["parameters"]
    return body


def _build_user_data(planned: Mapping[str, Any]) -> dict[str, Any]:
    """Return the user data class and its file as parameters for an operation.

    They are {} if there are none.
    """
    parameters = get_mapping(planned, "parameters")
    selected = {
        name: value
        for name, value in parameters.items()
        if name.startswith("lcm-operation-user-data")
    }
    return {"additionalParams": selected} if selected else {}


def _list_change_problems(
    prior: Mapping[str, Any], planned: Mapping[str, Any]
) -> Iterator[Problem]:
    """Yield the changes of a VNF not supported by Tacker.

    A VNF without an instance is to be created.
    """
    if not prior.get("vnf_instance_id"):
        yield from _list_creation_problems(read_documents(planned).vnf, planned)
        return
    # Tacker changes these arguments only with another package.
    fixed = ("vnfd", "base_hot", "nested", "flavour_id")
    # Since its instantiation.
    changed = [name for name in fixed if planned.get(name) != prior.get(name)]
    # An omitted level is the default one of the VNFD.
    levels = [
        read_documents(values).vnf.find_level(values.get("instantiation_level"))
        for values in (prior, planned)
    ]
    if levels[0] != levels[1]:
        changed.append("instantiation_level")
    if changed:
        detail = (
            f"Tacker cannot change {', '.join(changed)} of a running VNF. Restore them, or replace "
            "the VNF with -replace."
        )
        yield Problem((changed[0],), "unsupported-vnf-change", detail)


def _list_creation_problems(vnf: Vnf, planned: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield the missing facts for the creation of a VNF.

    These facts are the ids of descriptor and flavour, and the numbers of VMs at its level.
    """
    if not vnf.descriptor_id:
        yield Problem(
            ("vnfd",),
            "unsupported-vnf-change",
            "Tacker needs a VNFD with a descriptor_id: set csar.",
        )
    if not planned.get("flavour_id"):
        yield Problem(
            ("flavour_id",),
            "unsupported-vnf-change",
            "Tacker needs the deployment flavour: set flavour_id.",
        )
    level = vnf.find_level(planned.get("instantiation_level"))
    # Without a number.
    missing = [vdu.name for vdu in vnf.vdus if vdu.name not in level.sizes]
    if missing:
        detail = (
            "Tacker takes the number of VMs from VduInstantiationLevels only, and creates none for "
            f"{', '.join(missing)}. Add the policies InstantiationLevels and "
            "VduInstantiationLevels to the VNFD."
        )
        yield Problem(("vnfd",), "no-instantiation-level", detail)
