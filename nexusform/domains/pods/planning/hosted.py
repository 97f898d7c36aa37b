"""The pods that a state has on VMs."""

from __future__ import annotations

from nexusform.domains.pods.importers.kubernetes_workloads import workloads_of
from nexusform.domains.pods.planning.blocks import prior_members, prior_pods
from nexusform.domains.pods.planning.rows import read_note
from nexusform.planning.phases import HostedWorkload
from nexusform.ports import Registries
from nexusform.state.objects import State


def hosted_in_state(state: State, registries: Registries) -> list[HostedWorkload]:
    """The pods that state has on nodes, with the labels of the workloads that they came of."""
    hosted: list[HostedWorkload] = []
    for brought in prior_pods(state.instances, registries, prior_members(state.instances, registries)):
        specs = {workload.key: workload.pod for workload in workloads_of(brought.manifests).workloads}
        for key, standing in brought.workloads.items():
            spec = specs.get(key)
            if spec is None:
                continue
            nodes = {name: read_note(values).node for name, values in standing.items()}
            labels = dict(spec.labels)
            hosted += [
                HostedWorkload(brought.cluster_id, node, spec.namespace, name, labels)
                for name, node in nodes.items()
                if node
            ]
    return hosted
