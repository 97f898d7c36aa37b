"""Doubts about the clusters listed by kubectl, as warnings and as uncertain moves of pods."""

from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic, build_warning
from nexusform.domains.pods.planning.snapshot_uncertainty import list_snapshot_doubts
from nexusform.domains.whatif.questions.pod_outage import ClusterPods
from nexusform.domains.whatif.workflow.simulation_input import SimulationInput


def add_observation_doubts(inputs: SimulationInput) -> SimulationInput:
    """Return the input with the doubts of a plan about the same files of kubectl.

    Each is a warning, and a doubt about the pods of its cluster.
    """
    warnings: list[Diagnostic] = []
    pods: dict[str, ClusterPods] = dict(inputs.pods)
    for cluster_id, snapshot in inputs.observations.clusters.items():
        doubts = tuple(list_snapshot_doubts(snapshot, inputs.start.request.now))
        warnings += [
            build_warning(doubt.finding, f"Cluster {cluster_id}: {doubt.detail}")
            for doubt, _ in doubts
        ]
        if cluster_id in pods:
            checks = tuple(is_affected for _, is_affected in doubts)
            pods[cluster_id] = replace(pods[cluster_id], doubts=checks)
    return replace(inputs, diagnostics=(*inputs.diagnostics, *warnings), pods=pods)
