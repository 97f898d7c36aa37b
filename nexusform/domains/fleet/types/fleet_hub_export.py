"""data fleet_hub_export: a hub as listed by `kubectl get`.

Plans start from its bindings.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from itertools import chain
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Problem, Severity, has_errors
from nexusform.diagnostics.phrases import format_count, format_first_items, select_word_form
from nexusform.documents.scalars import parse_integer
from nexusform.documents.times import format_time
from nexusform.domains.fleet.importers.fleet_export import (
    ObservedBinding,
    ObservedPlacement,
    ObservedResourceSnapshot,
    build_missing_binding_warnings,
    build_missing_member_warnings,
    build_missing_override_warnings,
    build_missing_part_warnings,
    build_missing_placement_warnings,
    build_missing_snapshot_warnings,
    build_unlisted_warnings,
    check_observed_bindings,
    check_repeated_bindings,
    check_repeated_objects,
    check_separate_lists,
    find_external_manager,
    list_conditions,
    read_placements,
    select_fleet_objects,
    warn_older_members,
)
from nexusform.domains.fleet.importers.fleet_records import (
    ApplyStrategy,
    FleetUpdateStrategy,
    RunRecord,
    format_object_key,
)
from nexusform.domains.fleet.importers.hub_dump_fields import list_unread_facts
from nexusform.domains.fleet.importers.hub_objects import is_user_object, remove_server_fields
from nexusform.domains.fleet.importers.hub_records import (
    ObservedEviction,
    ObservedRun,
    read_evictions,
    read_runs,
)
from nexusform.domains.fleet.scheduling.policy_snapshots import compute_policy_hash
from nexusform.domains.fleet.scheduling.staged_update import Stage
from nexusform.domains.fleet.types.fleet_schemas import (
    BINDING,
    CONDITIONS,
    EVICTION,
    POLICY_SNAPSHOT,
    make_computed,
    make_object_type,
)
from nexusform.domains.fleet.types.fleet_staged import (
    FLEET_CLUSTER_STAGED_UPDATE_STRATEGY,
    FLEET_STAGED_UPDATE_STRATEGY,
)
from nexusform.domains.fleet.types.kubernetes_manifests import (
    ATTRIBUTES,
    MEMBER,
    MEMBER_TYPE,
    ManifestReader,
    build_id,
    check,
    find_observation_time,
    group_objects_by_kind,
    make_file_arguments,
    read_files,
)
from nexusform.domains.fleet.types.observed_policies import (
    PLACEMENT_TYPES,
    find_policy_facts,
    read_last_policy,
)
from nexusform.domains.pods.importers.manifest_parser import Manifest, is_fleet_group, list_services
from nexusform.doubts.doubt import Doubt
from nexusform.doubts.findings import hides_bindings
from nexusform.interfaces.plugins import DataResult, PlanningKind, ReadContext, ResourceType
from nexusform.json_data.plain_data import Path, get_mapping, get_text, list_mappings
from nexusform.kubernetes.dump_script import FLEET_KINDS
from nexusform.schemas.block_schema import BlockSchema
from nexusform.schemas.value_types import BOOL, STRING, ListType, MapType, ObjectType

COMMAND: Final = f"kubectl get {','.join(FLEET_KINDS)} -A -o json"
_MAX_NAMES: Final = 4
# Attributes of observed bindings in addition to those in state.
_OBSERVED_FIELDS: Final = make_object_type(
    "readiness failure apply", deleting=BOOL, overrides=ListType(STRING)
)
_OBSERVED_BINDING: Final = ObjectType.create(
    dict((*BINDING.attributes, *_OBSERVED_FIELDS.attributes))
)
_RUN: Final = make_object_type(
    "placement reason start_record",
    ended=BOOL,
    succeeded=BOOL,
    done=ListType(STRING),
    approvals=ListType(STRING),
    overrides=MapType(ListType(STRING)),
)
_PLACEMENT: Final = make_object_type(
    "type manifest",
    bindings=MapType(_OBSERVED_BINDING),
    policy_snapshot=POLICY_SNAPSHOT,
    resource_snapshots=ListType(make_object_type("", "index", objects=ListType(STRING))),
    override_snapshots=MapType(STRING),
    evictions=ListType(EVICTION),
    pending=BOOL,
    rejections=MapType(STRING),
    conditions=CONDITIONS,
    placement_statuses=ListType(
        make_object_type("cluster_name", "observed_resource_index", conditions=CONDITIONS)
    ),
)

_SCHEMA: Final = BlockSchema(
    {
        **make_file_arguments(
            f"Files, instead of directory. Export them with `{COMMAND}`.",
            "As in kubernetes_manifests.",
        ),
        "exported_at": make_computed(STRING, "observed_at, or the newest heartbeat of a member."),
        "is_complete": make_computed(
            BOOL,
            (
                "Whether all objects and fields that decide on placements were captured and read. "
                "If not, no change of a binding is certain."
            ),
        ),
        "placements": make_computed(
            MapType(_PLACEMENT),
            "Placements on the hub by id. A plan starts from these, not from state.",
        ),
        "override_snapshots": make_computed(
            MapType(STRING), "Override snapshots as manifests, by namespace and name."
        ),
        "evictions": make_computed(
            MapType(EVICTION), "Finished evictions by name. They evict nothing again."
        ),
        "runs": make_computed(MapType(_RUN), "Started staged runs by id, with their progress."),
        "managed_by": make_computed(
            MapType(STRING), 'Objects applied by Flux or Argo CD, by "<kind> <namespace>/<name>".'
        ),
        **{
            attribute: make_computed(MapType(STRING), f"{kind} manifests by id.")
            for kind, attribute in ATTRIBUTES.items()
        },
        "member_clusters": make_computed(MapType(MEMBER_TYPE), "MemberClusters by name."),
        "hub_objects": make_computed(
            MapType(STRING),
            (
                "Other objects, and those of the latest resource snapshots, as yaml_body by "
                '"<kind> <namespace>/<name>".'
            ),
        ),
    },
    description="A fleet hub from kubectl output. Live placements keep their clusters.",
)


def read_export(attributes: Mapping[str, Any], context: ReadContext) -> DataResult:
    """Read the files and the hub state in them."""
    reader = ManifestReader(lenient=attributes.get("lenient") is True, is_observed=True)
    argument_path = read_files(reader, attributes, context, f". Capture the hub with: {COMMAND}")
    if argument_path is None:  # unreadable directory
        return DataResult(attributes={}, problems=reader.problems)
    reader.report_findings(
        [
            *check_repeated_objects(reader.manifests),
            *check_separate_lists(reader.manifests),
            *build_unlisted_warnings(reader.manifests),
            *build_missing_member_warnings(reader.manifests),
        ],
        argument_path,
    )
    heartbeat = find_observation_time(reader.manifests, {})
    if heartbeat is not None:
        reader.report_findings(warn_older_members(reader.manifests, heartbeat), argument_path)
    answer = build_hub_attributes(reader, argument_path, attributes)
    if not answer.attributes:
        return answer  # problems only
    time = find_observation_time(reader.manifests, attributes)
    export_time = format_time(time) if time is not None else None
    identity = {"id": build_id(attributes), "exported_at": export_time}
    return replace(answer, attributes={**identity, **answer.attributes})


def build_hub_attributes(
    reader: ManifestReader,
    argument: Path,
    attributes: Mapping[str, Any],
    *,
    expects_members: bool = True,
) -> DataResult:
    """Build the attributes of a hub from its objects, with problems; no attributes after an error.

    Problems refer to `argument`. With `expects_members`, warn about placements without any member:
    the dump is incomplete.
    """
    manifests = reader.manifests
    missing = [
        *build_missing_binding_warnings(manifests),
        *build_missing_placement_warnings(manifests),
        *build_missing_part_warnings(manifests),
        *build_missing_snapshot_warnings(manifests),
        *build_missing_override_warnings(manifests),
    ]
    repeated = check_repeated_bindings(manifests)
    reader.report_findings([*check_observed_bindings(manifests), *repeated, *missing], argument)
    placements = read_placements(manifests)
    unread = (
        *list_unread_facts(manifests),
        *chain.from_iterable(map(find_policy_facts, placements.values())),
    )
    # The objects for all below.
    reader.manifests = _select_user_objects(manifests, placements)
    evictions = {eviction.name: eviction for eviction in read_evictions(manifests)}
    values = group_objects_by_kind(reader, argument, attributes)
    # The managing tools by title (kind and name) of their objects; "" without one.
    all_managers = {
        manifest.title: find_external_manager(manifest) for manifest in reader.manifests
    }
    managers = {title: manager for title, manager in sorted(all_managers.items()) if manager}
    problems = [*reader.problems, *_find_export_problems(placements, managers, argument)]
    lacks_members = placements and MEMBER not in {item.kind for item in manifests}
    if expects_members and lacks_members:
        effect = "Clusters with a binding count as members; nothing more is known of them."
        text = f"No MemberCluster was captured. {effect} Capture all with: {COMMAND}"
        problems.append(Problem(argument, "not-captured", text, Severity.WARNING))
    if has_errors(problems):
        return DataResult(attributes={}, problems=problems)
    overrides = _read_override_snapshots(manifests)
    placement_values = {
        key: _build_placement(placement, evictions.values(), overrides)
        for key, placement in sorted(placements.items())
    }
    hub_values = {
        "is_complete": is_complete(unread, problems),
        "placements": placement_values,
        "override_snapshots": dict(sorted(overrides.items())),
        "evictions": {
            name: _build_eviction(eviction) for name, eviction in sorted(evictions.items())
        },
        "runs": {
            run.key: _build_run(run)
            for run in sorted(read_runs(manifests), key=lambda run: run.key)
        },
        "managed_by": managers,
    }
    return DataResult({**hub_values, **values}, problems, unread_of_pods=unread)


def is_complete(unread: Collection[Doubt], problems: Iterable[Problem]) -> bool:
    """Return whether everything of a hub that decides on placements was read."""
    return not unread and not any(hides_bindings(problem.id) for problem in problems)


def _select_user_objects(
    manifests: list[Manifest], placements: Mapping[str, ObservedPlacement]
) -> list[Manifest]:
    """Return the user-created objects without server fields.

    The dump may lack objects selected by placements: those of each placement's latest resource
    snapshot are added, so an object may be listed twice.
    """
    services = list_services(manifests)
    user_objects = [manifest for manifest in manifests if is_user_object(manifest, services)]
    for placement in placements.values():
        if placement.snapshots:
            # The latest snapshot is the last.
            user_objects += placement.snapshots[-1].objects
    cleaned_objects: list[Manifest] = []
    for manifest in user_objects:
        # read with its status.
        is_member = is_fleet_group(manifest.group) and manifest.kind == MEMBER
        body = manifest.body if is_member else remove_server_fields(manifest.body)
        cleaned_objects.append(replace(manifest, body=body))
    return cleaned_objects


def _build_placement(
    placement: ObservedPlacement,
    evictions: Iterable[ObservedEviction],
    overrides: Mapping[str, str],
) -> dict[str, Any]:
    """Return a placement as a value of the data source.

    `overrides` are all override snapshots by name.
    """
    body = remove_server_fields(placement.manifest.body)
    resource_type = PLACEMENT_TYPES[placement.manifest.kind]
    index = placement.policy_index
    # No policy snapshot was captured: the newest one named by bindings.
    if index is None:
        index = max((item.policy_snapshot or 0 for item in placement.bindings.values()), default=0)
    used_names = set(chain.from_iterable(item.overrides for item in placement.bindings.values()))
    return {
        "type": resource_type.name,
        "manifest": json.dumps(body, ensure_ascii=False, indent=2),
        "bindings": {
            cluster: _build_binding(item) for cluster, item in sorted(placement.bindings.items())
        },
        "policy_snapshot": {
            "index": index,
            "hash": compute_policy_hash(read_last_policy(placement)),
            "number_of_clusters": placement.number_of_clusters,
        },
        "resource_snapshots": list(map(_build_resource_snapshot, placement.snapshots)),
        "override_snapshots": {
            name: overrides[name] for name in sorted(used_names) if name in overrides
        },
        "evictions": [
            _build_eviction(item) for item in evictions if item.placement == placement.key
        ],
        "pending": _is_scheduling_pending(placement),
        "rejections": dict(sorted(placement.rejections.items())),
        **build_status_attributes(placement.manifest),
    }


def build_placement_attributes(manifests: list[Manifest], key: str) -> dict[str, Any]:
    """Build the computed attributes of an observed placement for state; {} if the hub has none."""
    placement = read_placements(manifests).get(key)
    if placement is None:
        return {}
    attributes = _build_placement(placement, read_evictions(manifests), overrides={})
    selected_objects = list_mappings(placement.manifest.body, "status", "selectedResources")
    names = ("group", "version", "kind", "namespace", "name")
    return {
        "policy_snapshot": attributes["policy_snapshot"],
        "selected_resources": [
            {name: get_text(item, name) for name in names} for item in selected_objects
        ],
        "evictions": attributes["evictions"],
        # predicted by plans only.
        "workloads": {},
        **build_status_attributes(placement.manifest),
    }


def build_status_attributes(placement: Manifest) -> dict[str, Any]:
    """Return the status of a placement as attributes, with the condition Scheduled first."""
    conditions = _read_conditions(get_mapping(placement.body, "status"))
    sorted_conditions = sorted(
        conditions, key=lambda condition: not condition["type"].endswith("Scheduled")
    )
    return {"conditions": sorted_conditions, "placement_statuses": _read_statuses(placement)}


def _build_binding(binding: ObservedBinding) -> dict[str, Any]:
    """Build the JSON object of an observed binding."""
    return {
        "state": binding.state,
        "previous_state": binding.previous_state,
        "affinity_score": binding.affinity_score,
        "topology_spread_score": binding.topology_spread_score,
        "policy_snapshot": binding.policy_snapshot or 0,
        "resource_snapshot": binding.resource_snapshot,
        "provenance": "observed",
        "deleting": binding.deleting,
        "readiness": binding.readiness,
        "failure": binding.failure,
        "overrides": list(binding.overrides),
        "apply": _encode_apply_strategy(binding.apply),
    }


def _build_resource_snapshot(snapshot: ObservedResourceSnapshot) -> dict[str, Any]:
    """Build the JSON object of an observed resource snapshot."""
    return {
        "index": snapshot.index,
        "objects": [
            json.dumps(remove_server_fields(manifest.body), ensure_ascii=False)
            for manifest in snapshot.objects
        ],
    }


def _build_eviction(eviction: ObservedEviction) -> dict[str, Any]:
    """Build the JSON object of an observed eviction."""
    return {
        "name": eviction.name,
        "cluster_name": eviction.cluster,
        "valid": eviction.valid,
        "executed": eviction.executed,
        "reason": eviction.reason,
    }


def _build_run(run: ObservedRun) -> dict[str, Any]:
    """Build a staged run as a value of the data source.

    `start_record` holds the values fixed at its start.
    """
    return {
        "placement": run.placement,
        "ended": run.ended,
        "succeeded": run.succeeded,
        "reason": run.reason,
        "done": list(run.done),
        "approvals": list(run.approved),
        "overrides": {name: list(value) for name, value in run.overrides.items()},
        "start_record": json.dumps(_build_run_record(run), ensure_ascii=False),
    }


def _build_run_record(run: ObservedRun) -> dict[str, Any]:
    """Return the values fixed at the start of a run, as recorded by a plan."""
    record = RunRecord(
        policy_snapshot=run.policy_snapshot,
        cluster_count=run.cluster_count,
        resource_snapshot=run.resource_snapshot,
        strategy=_read_run_stages(run),
        stages=run.stages or None,
        apply=_read_apply_strategy(run.apply),
        done=run.done,
        ended=run.ended,
    )
    return record.build_note()


def _read_run_stages(run: ObservedRun) -> tuple[Stage, ...] | None:
    """Return the stages of a run's strategy at its start; None if the hub does not report it."""
    if run.strategy is None:
        return None
    resource_type = FLEET_CLUSTER_STAGED_UPDATE_STRATEGY
    kind = "ClusterStagedUpdateStrategy"
    # Any name: only the stages are read.
    metadata = {"name": "strategy"}
    if run.namespace:
        resource_type = FLEET_STAGED_UPDATE_STRATEGY
        kind = "StagedUpdateStrategy"
        metadata["namespace"] = run.namespace
    body = {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": kind,
        "metadata": metadata,
        "spec": run.strategy,
    }
    read_strategy = resource_type.build_fleet_object({**metadata, "manifest": json.dumps(body)})
    assert isinstance(read_strategy, FleetUpdateStrategy)
    return read_strategy.stages


# Texts of an apply strategy in the API, and their names here.
_APPLY_FIELDS: Final = {
    "type": "type",
    "comparisonOption": "comparison_option",
    "whenToApply": "when_to_apply",
    "whenToTakeOver": "when_to_take_over",
}


def _read_apply_strategy(spec: Mapping[str, Any] | None) -> ApplyStrategy | None:
    """Return the apply strategy in the API's form as a record; None without one."""
    if spec is None:
        return None
    force = get_mapping(spec, "serverSideApplyConfig").get("force")
    texts = {name: str(spec[field]) for field, name in _APPLY_FIELDS.items() if spec.get(field)}
    return ApplyStrategy(
        **texts, allow_co_ownership=spec.get("allowCoOwnership") is True, force=force is True
    )


def _encode_apply_strategy(spec: Mapping[str, Any] | None) -> str:
    """Return a binding's apply strategy as JSON, "" if not set."""
    strategy = _read_apply_strategy(spec)
    return "" if strategy is None else msgspec.json.encode(strategy).decode()


_OVERRIDE_SNAPSHOTS: Final = {
    "ClusterResourceOverrideSnapshot": "ClusterResourceOverride",
    "ResourceOverrideSnapshot": "ResourceOverride",
}


def _read_override_snapshots(manifests: Iterable[Manifest]) -> dict[str, str]:
    """Return override snapshots as manifests of their overrides, by name of the snapshot.

    The name has the form `[namespace/]web-2`. Their text is JSON. A label of the snapshot has the
    name of its override.
    """
    by_name: dict[str, str] = {}
    for manifest in select_fleet_objects(manifests, _OVERRIDE_SNAPSHOTS):
        spec = manifest.body.get("spec")
        if not isinstance(spec, Mapping):
            continue  # unreadable
        override_name = (
            manifest.labels.get("kubernetes-fleet.io/parent-resource-override") or manifest.name
        )
        metadata = {"name": override_name}
        if manifest.namespace:
            metadata["namespace"] = manifest.namespace
        kind = _OVERRIDE_SNAPSHOTS[manifest.kind]
        body = {"apiVersion": manifest.body.get("apiVersion"), "kind": kind, "metadata": metadata}
        name = format_object_key(manifest.namespace, manifest.name)
        by_name[name] = json.dumps({**body, "spec": spec.get("overrideSpec")}, ensure_ascii=False)
    return by_name


def _is_scheduling_pending(placement: ObservedPlacement) -> bool:
    """Return True if the scheduler has not processed the current generation of the placement."""
    metadata = get_mapping(placement.manifest.body, "metadata")
    generation = metadata.get("generation")
    for condition in list_conditions(placement.manifest.body):
        if str(condition.get("type")).endswith("Scheduled"):
            is_known = condition.get("status") in ("True", "False")
            return not is_known or condition.get("observedGeneration", generation) != generation
    return True  # never processed


def _read_statuses(manifest: Manifest) -> list[dict[str, Any]]:
    """Return the status of each cluster of a placement."""
    status = get_mapping(manifest.body, "status")
    statuses = list_mappings(status, "perClusterPlacementStatuses") or list_mappings(
        status, "placementStatuses"
    )
    return [
        {
            "cluster_name": get_text(item, "clusterName"),
            "observed_resource_index": parse_integer(item.get("observedResourceIndex")),
            "conditions": _read_conditions(item),
        }
        for item in statuses
    ]


def _read_conditions(status: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the conditions of a placement or of one of its clusters."""
    names = ("type", "status", "reason", "message")
    return [
        {name: get_text(item, name) for name in names}
        for item in list_mappings(status, "conditions")
    ]


def _find_export_problems(
    placements: Mapping[str, ObservedPlacement], managers: Mapping[str, str], argument: Path
) -> list[Problem]:
    """Return an error about uncaptured bindings, and a warning about shared objects.

    These have other managers.
    """
    problems = []
    uncaptured = [
        key
        for key, placement in placements.items()
        if not placement.captured_count
        and any(status["cluster_name"] for status in _read_statuses(placement.manifest))
    ]
    if uncaptured:
        names = format_first_items(uncaptured, _MAX_NAMES)
        count = len(uncaptured)
        noun = select_word_form(count, "placement")
        verb = select_word_form(count, "reports", "report")
        pronoun = select_word_form(count, "it", "them")
        cause = f"The {noun} {names} {verb} clusters, but no binding of {pronoun} was captured."
        text = f"{cause} A plan would pick clusters again. Capture all with: {COMMAND}"
        problems.append(Problem(argument, "not-captured", text))
    if managers:
        manager_counts = [
            f"{name}: {count:,}" for name, count in sorted(Counter(managers.values()).items())
        ]
        summary = format_first_items(manager_counts, _MAX_NAMES)
        objects = (
            f"{format_count(len(managers), 'object')} of the hub "
            f"{select_word_form(len(managers), 'is', 'are')}"
        )
        text = (
            f"{objects} applied by other managers ({summary}). Change these objects in their "
            "source, "
            "because the manager reverts changes on the hub. `managed_by` lists the manager of "
            "each "
            "object."
        )
        problems.append(Problem(argument, "managed-elsewhere", text, Severity.WARNING))
    return problems


FLEET_HUB_EXPORT: Final = ResourceType(
    "fleet_hub_export",
    0,
    _SCHEMA,
    build_id,
    mode="data",
    check=check,
    read=read_export,
    kind=PlanningKind.HUB_EXPORT,
)
