"""Planning of fleet_hub_manifest blocks.

Blocks with a cluster_id apply their pods there directly.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from math import inf
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from nexusform.configuration.declarations.configuration import ResourceBlock
from nexusform.diagnostics.diagnostic import Diagnostic, Problem, Severity, suggest_name
from nexusform.diagnostics.phrases import enclose, format_first_items, select_word_form
from nexusform.domains.pods.importers.api_resources import ApiKinds
from nexusform.domains.pods.importers.appliance_claims import (
    collect_appliance_claims,
    compute_storage_demand,
)
from nexusform.domains.pods.importers.kubernetes_workloads import collect_workloads
from nexusform.domains.pods.importers.manifest_parser import (
    INVALID,
    Manifest,
    parse_body,
    unwrap_envelopes,
)
from nexusform.domains.pods.planning.cluster_observation import (
    ExternalClusters,
    match_observed_clusters,
)
from nexusform.domains.pods.planning.cluster_pods import ObjectKey
from nexusform.domains.pods.planning.node_clusters import build_planned_clusters
from nexusform.domains.pods.planning.object_pods import PriorPods
from nexusform.domains.pods.planning.pod_phase import OBJECT_REPLACED, PodPhase
from nexusform.domains.pods.planning.pod_rows import parse_pod_record
from nexusform.domains.pods.planning.snapshot_uncertainty import warn_snapshot_doubts
from nexusform.domains.pods.scheduling.workload_warnings import WorkloadWarning
from nexusform.domains.pods.types.fleet_object_type import FleetObjectType
from nexusform.interfaces.plugins import PlanningKind, PluginRegistries
from nexusform.json_data.plain_data import get_mapping, get_text, get_value_at_path
from nexusform.placements.vm_demands import ClaimDemand
from nexusform.planning.instances.block_planner import BlockPlanner
from nexusform.planning.instances.instance import Instance
from nexusform.planning.name_resolution.name_evaluation import Evaluation
from nexusform.planning.phases import ScheduledPod
from nexusform.planning.preparation.planning_order import FLEET_PHASE
from nexusform.planning.vm_planning.vm_object import VmObject
from nexusform.plans.plan import Action
from nexusform.resources.address import Address, ConfigAddress
from nexusform.state.objects import InstanceState, State

_MAX_LISTED: Final = 5


def parse_objects(attributes: Mapping[str, Any]) -> tuple[Manifest, ...]:
    """Parse the objects of a manifest's attributes, with envelopes unwrapped."""
    reading = parse_body(get_text(attributes, "yaml_body"), get_text(attributes, "namespace"))
    return unwrap_envelopes(reading.manifests).manifests


def list_prior_pods(
    instances: Mapping[Address, InstanceState],
    registries: PluginRegistries,
    members: Mapping[str, str],
) -> Iterator[PriorPods]:
    """Yield the pods recorded in state by object and cluster.

    Objects are in the order of their creation. A manifest has pods on one cluster, a placement on
    each of its members. `members` maps names of Fleet members to cluster ids.
    """
    current_objects = [
        (address, item.current) for address, item in instances.items() if item.current is not None
    ]
    current_objects.sort(key=lambda address_and_object: address_and_object[1].creation)
    get_hub_objects = cache(partial(collect_hub_objects, instances, registries))
    for address, current in current_objects:
        workloads = current.attributes.get("workloads")
        resource_type = registries.resource_types.get(address.type)
        if not isinstance(workloads, Mapping) or resource_type is None:
            # No object with pods.
            continue
        cluster_id = _get_cluster_id(current.attributes)
        if resource_type.kind is PlanningKind.MANIFEST and cluster_id:
            manifests = parse_objects(current.attributes)
            yield PriorPods(str(address), cluster_id, workloads, manifests)
        if not isinstance(resource_type, FleetObjectType):
            continue
        if resource_type.list_applied_objects is None:
            continue  # no placement
        recorded_manifests = resource_type.list_applied_objects(
            current.attributes, current.private
        )  # by member
        for member in dict.fromkeys((*workloads, *(recorded_manifests or ()))):
            # An imported placement has no record: its members have the hub's objects.
            if recorded_manifests is None:
                manifests = get_hub_objects()
            else:
                manifests = unwrap_envelopes(recorded_manifests.get(member, ())).manifests
            member_workloads = get_mapping(workloads, member)
            # Otherwise it adds nothing there.
            if member_workloads or manifests:
                yield PriorPods(
                    str(address), members.get(member, member), member_workloads, manifests
                )


def collect_hub_objects(
    instances: Mapping[Address, InstanceState], registries: PluginRegistries
) -> tuple[Manifest, ...]:
    """Return the objects on the hub, candidates for selection by placements."""
    objects: list[Manifest] = []
    for address, instance in instances.items():
        current = instance.current
        if current is None or registries.get_kind(address.type) is not PlanningKind.MANIFEST:
            # Not created yet, or of another kind.
            continue
        # Else it is applied to this cluster alone.
        if not current.attributes.get("cluster_id"):
            objects += parse_objects(current.attributes)
    return tuple(objects)


def collect_prior_members(
    instances: Mapping[Address, InstanceState], registries: PluginRegistries
) -> dict[str, str]:
    """Return the fleet members in state: name -> id of the Kubernetes cluster."""
    members = {}
    for address, instance in instances.items():
        if (
            registries.get_kind(address.type) is PlanningKind.MEMBER
            and instance.current is not None
        ):
            attributes = instance.current.attributes
            cluster_id = get_text(attributes, "kubernetes_cluster_id")
            if cluster_id:
                members[str(attributes.get("name"))] = cluster_id
    return members


def create_pod_phase(
    blocks: BlockPlanner, objects: Iterable[VmObject], external: ExternalClusters
) -> PodPhase:
    """Create the pod phase of a plan.

    It predicts pods on the nodes of planned VMs (`objects`) and of other states. Pods of removed
    objects are removed first. If an object is only forgotten, its pods keep running.
    """
    registries = blocks.request.registries
    members = collect_prior_members(blocks.prior.instances, registries)
    outside_addresses = {
        str(item) for item in blocks.prior.instances if not blocks.selection.has(item)
    }
    prior_pods = list_prior_pods(blocks.prior.instances, registries, members)
    prior_objects = [
        replace(item, is_outside_targets=item.address in outside_addresses) for item in prior_pods
    ]
    objects = list(objects)
    clusters = {**external.clusters, **build_planned_clusters(objects)}
    observed_clusters = match_observed_clusters(external, clusters, objects)
    clusters |= {cluster_id: item.cluster for cluster_id, item in observed_clusters.items()}
    external.diagnostics += warn_snapshot_doubts(external, blocks.request.now)
    pods = PodPhase(clusters, prior_objects, members, external.pods, observed_clusters)
    for address, instance in blocks.instances.items():
        keeps_running = instance.action is Action.FORGET
        if instance.is_removed and instance.type.kind is PlanningKind.MANIFEST:
            cluster_id = _get_cluster_id(instance.before)
            pods.remove_pods(
                str(address), cluster_id, "workload_removed", keeps_running=keeps_running
            )
        elif instance.is_removed and instance.type.kind is PlanningKind.PLACEMENT:
            for member in get_mapping(instance.before, "workloads"):
                pods.remove_pods(str(address), member, keeps_running=keeps_running)
    return pods


def plan_members(blocks: BlockPlanner, evaluation: Evaluation) -> set[ConfigAddress]:
    """Plan the members that need no other object of a fleet, and return their blocks.

    Data blocks with nodes may refer to them, and are read afterwards.
    """
    types = blocks.request.registries.resource_types
    fleet_blocks = blocks.order.list_phase(FLEET_PHASE)
    others = {block.address for block in fleet_blocks}
    planned: set[ConfigAddress] = set()
    for block in fleet_blocks:
        needs = blocks.order.get_direct_dependencies(block.address)
        if types[block.type].kind is PlanningKind.MEMBER and others.isdisjoint(needs):
            blocks.plan_block(block, evaluation)
            planned.add(block.address)
    return planned


def plan_fleet_objects(
    blocks: BlockPlanner, evaluation: Evaluation, pods: PodPhase, planned: Collection[ConfigAddress]
) -> list[Diagnostic]:
    """Plan Fleet objects in order, after all VMs; independent manifests together.

    The members `planned` before are left out. Return the errors of manifests.
    """
    types = blocks.request.registries.resource_types
    fleet_blocks = blocks.order.list_phase(FLEET_PHASE)
    phase_blocks = [
        block
        for block in fleet_blocks
        if isinstance(types[block.type], FleetObjectType) and block.address not in planned
    ]
    manifest_addresses = {
        block.address for block in phase_blocks if types[block.type].kind is PlanningKind.MANIFEST
    }
    problems: list[Diagnostic] = []
    # Independent manifests, to be planned together.
    waiting_manifests: dict[ConfigAddress, ResourceBlock] = {}
    for block in phase_blocks:
        dependencies = blocks.order.get_direct_dependencies(block.address)
        if not waiting_manifests.keys().isdisjoint(dependencies):
            problems += plan_manifests(list(waiting_manifests.values()), blocks, evaluation, pods)
            waiting_manifests = {}
        if block.address in manifest_addresses:
            waiting_manifests[block.address] = block
        else:
            blocks.plan_block(block, evaluation)
    return problems + plan_manifests(list(waiting_manifests.values()), blocks, evaluation, pods)


def plan_manifests(
    manifest_blocks: Sequence[ResourceBlock],
    blocks: BlockPlanner,
    evaluation: Evaluation,
    pods: PodPhase,
) -> list[Diagnostic]:
    """Plan independent hub manifests.

    Return errors for unknown clusters. All pods of a cluster are scheduled in one queue. So every
    manifest is evaluated before the first pod is placed, and all pods are placed before the first
    action is decided: the placement is an attribute (`workloads`).
    """
    instances: list[Instance] = []
    for block in manifest_blocks:
        instances += _evaluate_manifests(block, blocks, evaluation)
    _remove_former_pods(instances, pods)
    problems = list(_reject_unknown_clusters(instances, pods.clusters))
    problems += _reject_unserved_versions(instances)
    workloads = _place_pods(instances, pods)
    for instance in instances:
        if instance.is_configured:
            blocks.decide_action(
                instance, {"workloads": workloads.get(instance.address)}, evaluation
            )
        blocks.add_instance(instance, evaluation)
    return problems


def _evaluate_manifests(
    block: ResourceBlock, blocks: BlockPlanner, evaluation: Evaluation
) -> list[Instance]:
    """Return the instances of a manifest's block, with their attributes as far as known.

    There is one per index of count or key of for_each.
    """
    expanded = blocks.expand(block, evaluation)
    assert expanded is not None, "a block of this phase has a resource type"
    blocks.diagnostics += expanded.diagnostics
    for instance in expanded.instances:
        if instance.is_configured:
            blocks.diagnostics += blocks.evaluate_known(instance, evaluation)
            if instance.config is not None and not instance.is_invalid:
                blocks.set_predicted_action(instance, evaluation)
    return list(expanded.instances)


def _reject_unknown_clusters(
    instances: Iterable[Instance], clusters: Collection[str]
) -> Iterator[Diagnostic]:
    """Yield an error for each manifest of an unknown cluster, and mark its instance as invalid."""
    for cluster_id, instance in _list_applied_manifests(instances):
        if cluster_id not in clusters:
            known_ids = sorted(clusters)
            choice = enclose(" Known: ", ", ".join(known_ids[:10]), ".")
            detail = (
                "No cluster has the id "
                f'"{cluster_id}".{suggest_name(cluster_id, known_ids)}{choice}'
            )
            yield instance.build_diagnostic(Problem(("cluster_id",), "unknown-cluster", detail))
            instance.is_invalid = True


def _reject_unserved_versions(instances: Iterable[Instance]) -> Iterator[Diagnostic]:
    """Yield an error for each object of a version that no API server serves.

    Mark its instance as invalid. Objects of the hub are checked with its definitions.
    """
    api_kinds = ApiKinds()
    for _, instance in _list_applied_manifests(instances):
        for item in parse_objects(get_mapping(instance.config)):
            reason = api_kinds.explain_unserved_version(item.group, item.version, item.kind)
            if reason:
                text = f"yaml_body:{item.line}: {item.title}: {reason}."
                problem = Problem(("yaml_body",), INVALID, text, line=item.line)
                yield instance.build_diagnostic(problem)
                instance.is_invalid = True


def _list_applied_manifests(instances: Iterable[Instance]) -> Iterator[tuple[str, Instance]]:
    """Yield the valid manifests to apply to one cluster, each with the id of the cluster."""
    for instance in instances:
        cluster_id = _get_cluster_id(instance.config)
        if cluster_id and not instance.is_removed and not instance.is_invalid:
            yield cluster_id, instance


def _get_cluster_id(attributes: Mapping[str, Any] | None) -> str:
    """Return the cluster id of an object, "" if it has none or it is unknown."""
    return get_text(attributes, "cluster_id")


def _remove_former_pods(instances: Iterable[Instance], pods: PodPhase) -> None:
    """Remove the pods of deleted objects, and of objects moved to another cluster."""
    for instance in instances:
        previous_id = _get_cluster_id(instance.before)
        if not previous_id:
            # An object of the hub: its placements remove its pods.
            continue
        if instance.is_removed:
            pods.remove_pods(str(instance.address), previous_id, "workload_removed")
        elif instance.is_replaced:
            pods.remove_pods(str(instance.address), previous_id, OBJECT_REPLACED)
        elif instance.config is not None and _get_cluster_id(instance.config) != previous_id:
            pods.remove_pods(str(instance.address), previous_id)


def _place_pods(instances: Iterable[Instance], pods: PodPhase) -> dict[Address, Any]:
    """Place the pods of manifests cluster by cluster, older objects first.

    Return the attribute `workloads` of each.
    """
    by_cluster: dict[str, list[tuple[Instance, tuple[Manifest, ...]]]] = {}
    for cluster_id, instance in _list_applied_manifests(instances):
        body = get_value_at_path(instance.config, "yaml_body")
        # Else it is unknown until the apply.
        if isinstance(body, str):
            manifests = parse_objects(get_mapping(instance.config))
            by_cluster.setdefault(cluster_id, []).append((instance, manifests))
    values: dict[Address, Any] = {}
    for cluster_id, cluster_instances in by_cluster.items():
        # New objects follow the existing ones.
        cluster_instances.sort(
            key=lambda pair: pair[0].prior.creation if pair[0].prior is not None else inf
        )
        objects = [(str(instance.address), manifests) for instance, manifests in cluster_instances]
        values_by_address = pods.place_objects(cluster_id, objects)
        values |= {
            instance.address: values_by_address[str(instance.address)]
            for instance, _ in cluster_instances
        }
    return values


def list_manifest_diagnostics(
    pods: PodPhase, instances: Mapping[Address, Instance]
) -> Iterator[Diagnostic]:
    """Yield the problems of manifests at their blocks."""
    by_address = {str(address): instance for address, instance in instances.items()}
    for address, finding in pods.findings:
        instance = by_address.get(address)
        # Without an instance it has no block.
        if instance is not None:
            path = ("yaml_body",) if instance.type.kind is PlanningKind.MANIFEST else ()
            detail = (
                f"yaml_body:{finding.line}: {finding.detail}" if finding.line else finding.detail
            )
            yield instance.build_diagnostic(
                Problem(path, finding.id, detail, finding.severity, brief=finding.brief)
            )


def list_pod_risk_warnings(
    pods: PodPhase, instances: Mapping[Address, Instance]
) -> Iterator[Diagnostic]:
    """Yield the risks of pods at their blocks.

    Each kind of risk of a workload is reported once, with all locations.
    """
    by_address = {str(address): instance for address, instance in instances.items()}
    yield from _warn_missing_namespaces(pods, by_address)
    clusters = pods.list_object_clusters()
    risks_by_kind: dict[tuple[str, str, str], list[_Risk]] = {}
    for address, cluster, warning in pods.warnings:
        risks_by_kind.setdefault((address, warning.workload, warning.kind), []).append(
            (cluster, warning)
        )
    for (address, _, kind), risks in risks_by_kind.items():
        instance = by_address.get(address)
        if instance is not None:
            # The texts name the cluster if the object is on several.
            is_named = len(clusters[address]) > 1
            problem = Problem(
                (), kind, _merge_pod_warnings(risks, is_named=is_named), Severity.WARNING
            )
            yield replace(
                instance.build_diagnostic(problem), brief=_merge_summaries(risks, is_named=is_named)
            )


def _warn_missing_namespaces(
    pods: PodPhase, instances: Mapping[str, Instance]
) -> Iterator[Diagnostic]:
    """Yield warnings about single-cluster objects in a missing namespace."""
    for (address, cluster_id), missing in find_missing_namespaces(pods, instances.values()).items():
        cluster = pods.clusters[cluster_id].name
        for namespace in sorted(missing):
            detail = (
                f"The namespace {namespace} is missing on {cluster}, so its objects cannot be "
                "applied. Add a Namespace to yaml_body. If it exists, add it to namespaces of the "
                "member."
            )
            brief = f"{namespace}: missing on {cluster}"
            problem = Problem(
                ("yaml_body",), "missing-cluster-namespace", detail, Severity.WARNING, brief=brief
            )
            yield instances[address].build_diagnostic(problem)


def find_missing_namespaces(
    pods: PodPhase, instances: Collection[Instance]
) -> dict[ObjectKey, set[str]]:
    """Return the missing namespaces of each manifest on its cluster, by address and cluster id."""
    addresses = {str(item.address) for item in instances if item.type.kind is PlanningKind.MANIFEST}
    # Configured namespaces by cluster id.
    member_namespaces: dict[str, set[str]] = {}
    for instance in instances:
        names = get_value_at_path(instance.config, "namespaces")
        if instance.type.kind is PlanningKind.MEMBER and isinstance(names, Collection):
            cluster_id = get_text(instance.config, "kubernetes_cluster_id")
            member_namespaces.setdefault(cluster_id, set()).update(names)
    return {
        (address, cluster_id): missing - member_namespaces.get(cluster_id, set())
        for address, cluster_id, missing in pods.list_missing_namespaces()
        # Those of placements are reported with the placement.
        if address in addresses
    }


# The cluster's name, and the risk there.
_Risk: TypeAlias = tuple[str, WorkloadWarning]


def _merge_pod_warnings(risks: Sequence[_Risk], *, is_named: bool) -> str:
    """Merge warnings of one kind about one workload, with the names of their clusters (`is_named`).

    Warnings about a shared machine or rack have a `location`: the first is described, the others
    are listed. Without a location, each cluster has its text.
    """
    cluster, first_warning = risks[0]
    if not first_warning.location:
        return _merge_by_cluster(risks, is_named=is_named)
    detail = f"On cluster {cluster}: {first_warning.detail}" if is_named else first_warning.detail
    location_texts = dict.fromkeys(
        f"{warning.location} ({cluster_name})" if is_named else warning.location
        for cluster_name, warning in risks
    )
    further_locations = list(location_texts)[1:]
    if further_locations:
        detail += f" Its pods also share {format_first_items(further_locations, _MAX_LISTED)}."
    return detail


def _merge_by_cluster(risks: Iterable[_Risk], *, is_named: bool) -> str:
    """Join the texts of warnings, equal texts once after all of their clusters.

    Only the first text names the workload.
    """
    clusters_by_text: dict[str, list[str]] = {}
    for cluster, warning in risks:
        clusters_by_text.setdefault(warning.detail, []).append(cluster)
    # Such as `Deployment shop/web: `, from the first text on: equal for all warnings of a workload.
    subject = ""
    texts: list[str] = []
    for text, text_clusters in clusters_by_text.items():
        noun = select_word_form(len(text_clusters), "cluster")
        prefix = f"On {noun} {format_first_items(text_clusters, _MAX_LISTED)}: " if is_named else ""
        texts.append(f"{prefix}{text.removeprefix(subject)}")
        subject = subject or f"{text.partition(': ')[0]}: "
    return " ".join(texts)


def _merge_summaries(risks: Sequence[_Risk], *, is_named: bool) -> str:
    """Return warnings of one kind as one line with the first reason.

    With `is_named`, the line names the cluster of each, such as `shop/web: 2 Pending on c1; 1
    Pending on c2: reason`.
    """
    _, first_warning = risks[0]
    # Such as `shop/web: 2 Pending: reason`.
    subject, _, text = first_warning.summary.partition(": ")
    if not is_named or not text:
        return first_warning.summary
    _, colon, reason = text.partition(": ")
    # The middle parts (`2 Pending`), each with its cluster.
    parts: list[str] = []
    for cluster, warning in risks:
        _, _, text_of_cluster = warning.summary.partition(": ")
        count_and_state, _, _ = text_of_cluster.partition(": ")
        parts.append(f"{count_and_state} on {cluster}")
    return f"{subject}: {'; '.join(parts)}{colon}{reason}"


def list_scheduled_pods(state: State, registries: PluginRegistries) -> list[ScheduledPod]:
    """Return the pods of a state on nodes, with the labels of their workloads."""
    scheduled_pods: list[ScheduledPod] = []
    for object_pods in list_prior_pods(
        state.instances, registries, collect_prior_members(state.instances, registries)
    ):
        workloads = collect_workloads(object_pods.manifests).by_key
        for key, existing_pods in object_pods.workloads.items():
            if key not in workloads:
                # Its labels are unknown.
                continue
            spec = workloads[key].pod
            for name, values in existing_pods.items():
                node = parse_pod_record(values).node
                if node:
                    pod = ScheduledPod(
                        object_pods.cluster_id, node, spec.namespace, name, dict(spec.labels)
                    )
                    scheduled_pods.append(pod)
    return scheduled_pods


def compute_state_demand(
    instances: Mapping[Address, InstanceState], registries: PluginRegistries
) -> dict[str, ClaimDemand]:
    """Return the storage demand of existing objects by cluster.

    State does not record whether claims are bound.
    """
    manifests_by_cluster: dict[str, list[Manifest]] = {}
    # Then by workload.
    pod_counts_by_cluster: dict[str, dict[str, int]] = {}
    for object_pods in list_prior_pods(
        instances, registries, collect_prior_members(instances, registries)
    ):
        manifests_by_cluster.setdefault(object_pods.cluster_id, []).extend(object_pods.manifests)
        pod_counts = pod_counts_by_cluster.setdefault(object_pods.cluster_id, {})
        for key, existing_pods in object_pods.workloads.items():
            pod_counts[key] = len(existing_pods)
    return {
        cluster_id: compute_storage_demand(
            collect_appliance_claims(objects, pod_counts_by_cluster[cluster_id])
        )
        for cluster_id, objects in manifests_by_cluster.items()
    }
