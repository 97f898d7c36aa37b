"""data fleet_hub_export: a hub as `kubectl get` shows it. A plan goes on from the bindings there."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from nexusform.diagnostics import Problem, Severity
from nexusform.domains.fleet.importers.fleet_export import (
    ShownBinding,
    ShownPlacement,
    ShownSnapshot,
    binding_problems,
    conditions_of,
    manager_of,
    missing_overrides,
    missing_snapshots,
    read_placements,
    whole,
)
from nexusform.domains.fleet.importers.fleet_model import (
    ApplyStrategy,
    BegunRun,
    FleetPlacement,
    FleetStrategy,
)
from nexusform.domains.fleet.importers.hub_objects import as_written, is_written
from nexusform.domains.fleet.importers.hub_records import ShownEviction, ShownRun, read_evictions, read_runs
from nexusform.domains.fleet.scheduling.snapshots import policy_hash
from nexusform.domains.fleet.scheduling.staged import Stage
from nexusform.domains.fleet.types.fleet_cluster_resource_placement import FLEET_CLUSTER_RESOURCE_PLACEMENT
from nexusform.domains.fleet.types.fleet_cluster_staged_update_strategy import (
    FLEET_CLUSTER_STAGED_UPDATE_STRATEGY,
)
from nexusform.domains.fleet.types.fleet_resource_placement import FLEET_RESOURCE_PLACEMENT
from nexusform.domains.fleet.types.fleet_schemas import BINDING
from nexusform.domains.fleet.types.fleet_staged_update_strategy import FLEET_STAGED_UPDATE_STRATEGY
from nexusform.domains.fleet.types.kubernetes_manifests import (
    ATTRIBUTES,
    MEMBER,
    MEMBER_TYPE,
    Reading,
    check,
    computed,
    identify,
    read_files,
    sorted_by_kind,
)
from nexusform.domains.pods.importers.kubernetes_manifests import Manifest, is_fleet_group
from nexusform.json_forms import Form
from nexusform.plain_data import Path
from nexusform.ports import DataAnswer, Kind, ReadContext, ResourceType
from nexusform.schema import Attribute, BlockSchema
from nexusform.value_types import BOOL, NUMBER, STRING, ListType, MapType, ObjectType
from nexusform.words import counted, first_of, form

_ASKED_FOR: Final = (
    *("clusterresourceplacements", "resourceplacements", "clusterresourcebindings", "resourcebindings"),
    *("clusterschedulingpolicysnapshots", "schedulingpolicysnapshots"),
    *("clusterresourcesnapshots", "resourcesnapshots", "clusterresourceoverrides", "resourceoverrides"),
    *("clusterresourceoverridesnapshots", "resourceoverridesnapshots"),
    *("clusterresourceplacementdisruptionbudgets", "clusterresourceplacementevictions"),
    *("clusterstagedupdatestrategies", "stagedupdatestrategies"),
    *("clusterstagedupdateruns", "stagedupdateruns", "clusterapprovalrequests", "approvalrequests"),
    "memberclusters",
)
COMMAND: Final = f"kubectl get {','.join(_ASKED_FOR)} -A -o json"
_TYPES: Final = {
    "ClusterResourcePlacement": FLEET_CLUSTER_RESOURCE_PLACEMENT,
    "ResourcePlacement": FLEET_RESOURCE_PLACEMENT,
}
_MOST_NAMED: Final = 4
_CONDITION: Final = ObjectType.of({"type": STRING, "status": STRING, "reason": STRING, "message": STRING})
# What a plan knows of bindings that a hub shows, beyond what state holds of them.
_SHOWN_BINDING: Final = ObjectType.of(
    {
        **dict(BINDING.attributes),
        "deleting": BOOL,
        "standing": STRING,
        "failure": STRING,
        "overrides": ListType(STRING),
        "apply": STRING,
    }
)
_SNAPSHOT: Final = ObjectType.of({"index": NUMBER, "objects": ListType(STRING)})
_EVICTION: Final = ObjectType.of(
    {"name": STRING, "cluster_name": STRING, "valid": BOOL, "executed": BOOL, "reason": STRING}
)
_RUN: Final = ObjectType.of(
    {
        "placement": STRING,
        "ended": BOOL,
        "succeeded": BOOL,
        "reason": STRING,
        "done": ListType(STRING),
        "approvals": ListType(STRING),
        "overrides": MapType(ListType(STRING)),
        "begun": STRING,
    }
)
_PLACEMENT: Final = ObjectType.of(
    {
        "type": STRING,
        "manifest": STRING,
        "bindings": MapType(_SHOWN_BINDING),
        "policy_snapshot": ObjectType.of({"index": NUMBER, "hash": STRING, "number_of_clusters": NUMBER}),
        "resource_snapshots": ListType(_SNAPSHOT),
        "override_snapshots": MapType(STRING),
        "evictions": ListType(_EVICTION),
        "pending": BOOL,
        "refusals": MapType(STRING),
        "conditions": ListType(_CONDITION),
        "placement_statuses": ListType(
            ObjectType.of(
                {
                    "cluster_name": STRING,
                    "observed_resource_index": NUMBER,
                    "conditions": ListType(_CONDITION),
                }
            )
        ),
    }
)

_SCHEMA: Final = BlockSchema(
    {
        "id": computed(STRING, "The directory, or the first file."),
        "directory": Attribute(
            STRING,
            "Directory with .yaml, .yml and .json files, without subdirectories.",
            optional=True,
        ),
        "files": Attribute(
            ListType(STRING), f"Files, instead of directory. Export them with `{COMMAND}`.", optional=True
        ),
        "lenient": Attribute(BOOL, "As in kubernetes_manifests.", optional=True),
        "observed_at": Attribute(
            STRING,
            "Time of the export (RFC 3339). Default: the newest heartbeat.",
            optional=True,
        ),
        "placements": computed(
            MapType(_PLACEMENT),
            "Placements on the hub by id. A plan starts from these, not from state.",
        ),
        "override_snapshots": computed(
            MapType(STRING),
            "Override snapshots as manifests, by namespace and name.",
        ),
        "evictions": computed(MapType(_EVICTION), "Finished evictions by name. They evict nothing again."),
        "runs": computed(
            MapType(_RUN),
            "Started staged runs by id, with their progress.",
        ),
        "managed_by": computed(
            MapType(STRING), 'Objects applied by Flux or Argo CD, by "<kind> <namespace>/<name>".'
        ),
        **{
            attribute: computed(MapType(STRING), f"{kind} manifests by id.")
            for kind, attribute in ATTRIBUTES.items()
        },
        "member_clusters": computed(MapType(MEMBER_TYPE), "MemberClusters by name."),
        "hub_objects": computed(
            MapType(STRING),
            'Other objects, and those of the latest resource snapshots, as yaml_body by "<kind> '
            '<namespace>/<name>".',
        ),
    },
    description="A fleet hub from kubectl output. Live placements keep their clusters.",
)


def read(attributes: Mapping[str, Any], context: ReadContext) -> DataAnswer:
    """Read the files; what the hub made says what stands."""
    reading = Reading(lenient=attributes.get("lenient") is True, shown=True)
    argument = read_files(reading, attributes, context, f". Capture the hub with: {COMMAND}")
    if argument is None:
        return DataAnswer({}, reading.problems)
    answer = hub_as_read(reading, argument, attributes)
    if not answer.attributes:
        return answer
    return replace(answer, attributes={"id": identify(attributes), **answer.attributes})


def hub_as_read(reading: Reading, argument: Path, attributes: Mapping[str, Any]) -> DataAnswer:
    """What a hub shows, of the objects that were read of it; nothing where these are in error. Problems are
    told at the argument.
    """
    shown = reading.manifests
    missing = [*missing_snapshots(shown), *missing_overrides(shown)]
    reading.take([*binding_problems(shown), *missing], argument)
    placements = read_placements(shown)
    reading.manifests = _as_written(shown, placements)
    evictions = {each.name: each for each in read_evictions(shown)}
    values = sorted_by_kind(reading, argument, attributes)
    managers = _managers(reading.manifests)
    problems = [*reading.problems, *_remarks(shown, placements, managers, argument)]
    if any(problem.severity is Severity.ERROR for problem in problems):
        return DataAnswer({}, problems)
    overrides = _override_snapshots(shown)
    standing = {
        key: _placement(one, evictions.values(), overrides) for key, one in sorted(placements.items())
    }
    known = {
        "placements": standing,
        "override_snapshots": dict(sorted(overrides.items())),
        "evictions": {name: _SHOWN_EVICTION(each) for name, each in sorted(evictions.items())},
        "runs": {run.key: _SHOWN_RUN(run) for run in sorted(read_runs(shown), key=lambda run: run.key)},
        "managed_by": managers,
    }
    return DataAnswer({**known, **values}, problems)


def _as_written(shown: list[Manifest], placements: Mapping[str, ShownPlacement]) -> list[Manifest]:
    """The objects that somebody wrote, without what servers say of them; also those that only the latest
    resource snapshots hold.
    """
    services = {(one.namespace, one.name) for one in shown if (one.group, one.kind) == ("", "Service")}
    kept = [one for one in shown if is_written(one, services)]
    for placement in placements.values():
        kept += placement.snapshots[-1].objects if placement.snapshots else ()
    return [one if _is_member(one) else replace(one, body=as_written(one.body)) for one in kept]


def _is_member(manifest: Manifest) -> bool:
    return is_fleet_group(manifest.group) and manifest.kind == MEMBER


def _placement(
    shown: ShownPlacement, evictions: Iterable[ShownEviction], overrides: Mapping[str, str]
) -> dict[str, Any]:
    """A placement as the data source shows it. `overrides` are all override snapshots, by name."""
    body = as_written(shown.manifest.body)
    kind = _TYPES[shown.manifest.kind]
    index = shown.policy_index
    if index is None:
        index = max((one.policy_snapshot or 0 for one in shown.bindings.values()), default=0)
    used = set(chain.from_iterable(one.overrides for one in shown.bindings.values()))
    return {
        "type": kind.name,
        "manifest": json.dumps(body, ensure_ascii=False, indent=2),
        "bindings": {cluster: _ONE_BINDING(one) for cluster, one in sorted(shown.bindings.items())},
        "policy_snapshot": {
            "index": index,
            "hash": policy_hash(_policy(shown, body)),
            "number_of_clusters": shown.number_of_clusters,
        },
        "resource_snapshots": [_snapshot(one) for one in shown.snapshots],
        "override_snapshots": {name: overrides[name] for name in sorted(used) if name in overrides},
        "evictions": [_SHOWN_EVICTION(one) for one in evictions if one.placement == shown.key],
        "pending": _is_pending(shown),
        "refusals": dict(sorted(shown.refusals.items())),
        **status_of(shown.manifest),
    }


def standing_placement(shown: list[Manifest], key: str) -> dict[str, Any]:
    """What state is to hold of a placement that a hub shows, beside its arguments; nothing where it shows
    none.
    """
    one = read_placements(shown).get(key)
    if one is None:
        return {}
    attributes = _placement(one, read_evictions(shown), {})
    selected = (one.manifest.body.get("status") or {}).get("selectedResources") or ()
    names = ("group", "version", "kind", "namespace", "name")
    return {
        "policy_snapshot": attributes["policy_snapshot"],
        "selected_resources": [{name: str(each.get(name) or "") for name in names} for each in selected],
        "evictions": attributes["evictions"],
        "workloads": {},
        **status_of(one.manifest),
    }


def status_of(placement: Manifest) -> dict[str, Any]:
    """What a hub says of a placement, as attributes."""
    return {"conditions": _scheduled_first(placement), "placement_statuses": _statuses(placement)}


def _policy(shown: ShownPlacement, body: dict[str, Any]) -> Any:
    """The policy of the latest snapshot, where one was captured: the placement's may be newer."""
    if shown.policy_index is not None:
        spec = {name: value for name, value in body.get("spec", {}).items() if name != "policy"}
        number = shown.number_of_clusters
        counted_in = {} if number is None else {"numberOfClusters": number}
        body = {**body, "spec": spec}
        if shown.policy is not None:
            body["spec"]["policy"] = {**shown.policy, **counted_in}
    kind = _TYPES[shown.manifest.kind]
    assert kind.fleet is not None
    names = {"name": shown.manifest.name, "namespace": shown.manifest.namespace}
    written = kind.fleet({**names, "manifest": json.dumps(body)})
    return written.policy if isinstance(written, FleetPlacement) else None


_ONE_BINDING: Final = Form(
    ShownBinding,
    "state previous_state affinity_score topology_spread_score policy_snapshot=. resource_snapshot "
    "provenance=. deleting standing failure overrides apply=.",
    policy_snapshot=lambda shown: shown.policy_snapshot or 0,
    provenance=lambda _: "observed",
    apply=lambda shown: _apply_text(shown.apply),
)


def _snapshot(shown: ShownSnapshot) -> dict[str, Any]:
    bodies = [as_written(one.body) for one in shown.objects]
    return {"index": shown.index, "objects": [json.dumps(body, ensure_ascii=False) for body in bodies]}


_SHOWN_EVICTION: Final = Form(ShownEviction, "name cluster_name=cluster valid executed reason")


# A staged run as the data source shows it; `begun` is what it began with, as plans read it.
_SHOWN_RUN: Final = Form(
    ShownRun,
    "placement ended succeeded reason done approvals=approved overrides begun=.",
    begun=lambda shown: json.dumps(_begun(shown), ensure_ascii=False),
)


def _begun(shown: ShownRun) -> dict[str, Any]:
    """What a run fixed when it began, as a plan notes it."""
    begun = BegunRun(
        policy_snapshot=shown.policy_snapshot,
        cluster_count=shown.cluster_count,
        resource_snapshot=shown.resource_snapshot,
        strategy=_strategy(shown),
        stages=shown.stages or None,
        apply=_apply_strategy(shown.apply),
        done=shown.done,
        ended=shown.ended,
    )
    return begun.note()


def _strategy(shown: ShownRun) -> tuple[Stage, ...] | None:
    """The stages of a run's strategy as they were when it began."""
    if shown.strategy is None:
        return None
    kind = FLEET_STAGED_UPDATE_STRATEGY if shown.namespace else FLEET_CLUSTER_STAGED_UPDATE_STRATEGY
    named = {"name": "strategy", **({"namespace": shown.namespace} if shown.namespace else {})}
    body = {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "StagedUpdateStrategy" if shown.namespace else "ClusterStagedUpdateStrategy",
        "metadata": named,
        "spec": shown.strategy,
    }
    assert kind.fleet is not None
    read_strategy = kind.fleet({**named, "manifest": json.dumps(body)})
    return read_strategy.stages if isinstance(read_strategy, FleetStrategy) else None


def _apply_strategy(shown: Mapping[str, Any] | None) -> ApplyStrategy | None:
    if shown is None:
        return None
    force = (shown.get("serverSideApplyConfig") or {}).get("force")
    default = ApplyStrategy()
    return ApplyStrategy(
        type=str(shown.get("type") or default.type),
        comparison_option=str(shown.get("comparisonOption") or default.comparison_option),
        when_to_apply=str(shown.get("whenToApply") or default.when_to_apply),
        when_to_take_over=str(shown.get("whenToTakeOver") or default.when_to_take_over),
        allow_co_ownership=shown.get("allowCoOwnership") is True,
        force=force is True,
    )


def _apply_text(shown: Mapping[str, Any] | None) -> str:
    """How a binding says to apply, as plans read it; "" where it does not say."""
    strategy = _apply_strategy(shown)
    return "" if strategy is None else msgspec.json.encode(strategy).decode()


_OVERRIDE_SNAPSHOTS: Final = {
    "ClusterResourceOverrideSnapshot": "ClusterResourceOverride",
    "ResourceOverrideSnapshot": "ResourceOverride",
}


def _override_snapshots(shown: Iterable[Manifest]) -> dict[str, str]:
    """Override snapshots as manifests of the overrides that they hold, by name, with their namespace."""
    by_name: dict[str, str] = {}
    for one in shown:
        kind = _OVERRIDE_SNAPSHOTS.get(one.kind) if is_fleet_group(one.group) else None
        spec = one.body.get("spec")
        if kind is None or not isinstance(spec, Mapping):
            continue
        names = {"name": one.labels.get(_TRACKED) or one.name, "namespace": one.namespace}
        metadata = {name: value for name, value in names.items() if value}
        body = {"apiVersion": one.body.get("apiVersion"), "kind": kind, "metadata": metadata}
        name = f"{one.namespace}/{one.name}" if one.namespace else one.name
        by_name[name] = json.dumps({**body, "spec": spec.get("overrideSpec")}, ensure_ascii=False)
    return by_name


_TRACKED: Final = "kubernetes-fleet.io/parent-resource-override"


def _is_pending(shown: ShownPlacement) -> bool:
    """Whether the scheduler has not looked at the placement as it is written."""
    metadata = shown.manifest.body.get("metadata") or {}
    generation = metadata.get("generation")
    for condition in conditions_of(shown.manifest.body):
        if str(condition.get("type")).endswith("Scheduled"):
            is_known = condition.get("status") in ("True", "False")
            return not is_known or condition.get("observedGeneration", generation) != generation
    return True


def _scheduled_first(manifest: Manifest) -> list[dict[str, Any]]:
    """The conditions; first that of the scheduler, which says whether the placement is fulfilled."""
    conditions = _conditions((manifest.body.get("status") or {}).get("conditions"))
    return sorted(conditions, key=lambda one: not one["type"].endswith("Scheduled"))


def _statuses(manifest: Manifest) -> list[dict[str, Any]]:
    """What the hub says of each cluster of a placement."""
    status = manifest.body.get("status") or {}
    listed = status.get("perClusterPlacementStatuses") or status.get("placementStatuses") or ()
    return [
        {
            "cluster_name": str(each.get("clusterName") or ""),
            "observed_resource_index": whole(each.get("observedResourceIndex")),
            "conditions": _conditions(each.get("conditions")),
        }
        for each in listed
        if isinstance(each, Mapping)
    ]


def _conditions(listed: Any) -> list[dict[str, Any]]:
    names = ("type", "status", "reason", "message")
    each = listed if isinstance(listed, list) else ()
    return [{name: str(one.get(name) or "") for name in names} for one in each if isinstance(one, Mapping)]


def _managers(manifests: list[Manifest]) -> dict[str, str]:
    """Who manages objects that a tool applied, by kind and name."""
    managers: dict[str, str] = {}
    for manifest in manifests:
        who = manager_of(manifest)
        if who:
            where = f"{manifest.namespace}/" if manifest.namespace else ""
            managers[f"{manifest.kind} {where}{manifest.name}"] = who
    return dict(sorted(managers.items()))


def _holds_clusters(shown: ShownPlacement) -> bool:
    """Whether a placement's status says that it picked any."""
    return any(status["cluster_name"] for status in _statuses(shown.manifest))


def _remarks(
    shown: list[Manifest],
    placements: Mapping[str, ShownPlacement],
    managers: Mapping[str, str],
    argument: Path,
) -> list[Problem]:
    """What was not captured, and who else writes."""
    problems = []
    kinds = {one.kind for one in shown}
    bare = [key for key, one in placements.items() if _holds_clusters(one) and not one.captured]
    if bare:
        which, of_them = form(len(bare), "placement", "placements"), form(len(bare), "it", "them")
        text = (
            f"The {which} {first_of(bare, _MOST_NAMED)} {form(len(bare), 'says that it holds', 'hold')} "
            f"clusters, and no binding of {of_them} was captured: a plan would pick clusters anew. Capture "
            f"all with: {COMMAND}"
        )
        problems.append(Problem(argument, "not-captured", text))
    if placements and MEMBER not in kinds:
        text = (
            "No MemberCluster was captured: clusters that the configuration does not describe either count "
            f"as gone. Capture all with: {COMMAND}"
        )
        problems.append(Problem(argument, "not-captured", text, Severity.WARNING))
    if managers:
        who = Counter(managers.values())
        each = first_of([f"{name}: {count:,}" for name, count in sorted(who.items())], _MOST_NAMED)
        objects = f"{counted(len(managers), 'object')} of the hub {form(len(managers), 'is', 'are')}"
        text = (
            f"{objects} applied by others ({each}). Change such objects where those read them: what is "
            "written to the hub beside that is taken back. `managed_by` lists who applies what."
        )
        problems.append(Problem(argument, "managed-from-elsewhere", text, Severity.WARNING))
    return problems


FLEET_HUB_EXPORT: Final = ResourceType(
    "fleet_hub_export", 0, _SCHEMA, identify, mode="data", check=check, read=read, kind=Kind.HUB_EXPORT
)
