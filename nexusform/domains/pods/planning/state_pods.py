"""Pods of a state on VMs, and their storage claims."""

from __future__ import annotations

from collections.abc import Mapping

from nexusform.domains.pods.importers.appliance_claims import collect_appliance_claims
from nexusform.domains.pods.importers.kubernetes_workloads import collect_workloads
from nexusform.domains.pods.importers.manifest_parser import Manifest
from nexusform.domains.pods.planning.manifest_blocks import collect_prior_members, list_prior_pods
from nexusform.domains.pods.planning.pod_rows import parse_pod_record
from nexusform.domains.pods.planning.storage_claims import compute_storage_demand
from nexusform.interfaces.plugins import PluginRegistries
from nexusform.placements.vm_demands import ClaimDemand
from nexusform.planning.phases import ScheduledPod
from nexusform.resources.address import Address
from nexusform.state.objects import InstanceState, State


def list_hosted_workloads(state: State, registries: PluginRegistries) -> list[ScheduledPod]:
    """Return the pods of a state on nodes, with the labels of their workloads."""
    hosted_workloads: list[ScheduledPod] = []
    for object_pods in list_prior_pods(state.instances, registries, collect_prior_members(state.instances, registries)):
        specs = {workload.key: workload.pod for workload in collect_workloads(object_pods.manifests).workloads}
        for key, existing_pods in object_pods.workloads.items():
            spec = specs.get(key)
            if spec is None:
                continue
            nodes = {name: parse_pod_record(values).node for name, values in existing_pods.items()}
            labels = dict(spec.labels)
            hosted_workloads += [
                ScheduledPod(object_pods.cluster_id, node, spec.namespace, name, labels)
                for name, node in nodes.items()
                if node
            ]
    return hosted_workloads


def compute_state_demand(
    instances: Mapping[Address, InstanceState], registries: PluginRegistries
) -> dict[str, ClaimDemand]:
    """Return the storage demand of existing objects on each cluster; the binding of claims is unknown."""
    manifests: dict[str, list[Manifest]] = {}
    pods: dict[str, dict[str, int]] = {}
    for object_pods in list_prior_pods(instances, registries, collect_prior_members(instances, registries)):
        manifests.setdefault(object_pods.cluster_id, []).extend(object_pods.manifests)
        pod_counts = pods.setdefault(object_pods.cluster_id, {})
        for key, existing_pods in object_pods.workloads.items():
            pod_counts[key] = len(existing_pods)
    return {
        cluster_id: compute_storage_demand(collect_appliance_claims(objects, pods[cluster_id]))
        for cluster_id, objects in manifests.items()
    }
