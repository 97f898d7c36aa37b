"""Clusters of other states and clusters listed by kubectl, with their pods, from data blocks."""

from collections.abc import Iterator, Mapping
from typing import Any

from nexusform.configuration.declarations.configuration import ResourceBlock
from nexusform.diagnostics.diagnostic import build_error
from nexusform.domains.pods.importers.kubectl_snapshot import parse_snapshot
from nexusform.domains.pods.planning.cluster_observation import (
    ClusterSnapshotBlock,
    ExternalClusters,
)
from nexusform.domains.pods.planning.manifest_blocks import collect_prior_members, list_prior_pods
from nexusform.domains.pods.planning.node_clusters import build_existing_clusters
from nexusform.interfaces.plugins import PlanningKind, PluginRegistries
from nexusform.json_data.plain_data import get_text
from nexusform.planning.name_resolution.name_evaluation import Evaluation
from nexusform.planning.plan_request import PlanRequest
from nexusform.planning.preparation.planning_order import iterate_modules
from nexusform.planning.vm_planning.site_plans import SiteObject
from nexusform.resources.address import Address, parse_address
from nexusform.state.attribute_validation import validate_attributes
from nexusform.state.objects import InstanceState, ObjectState


def collect_external_clusters(request: PlanRequest, evaluation: Evaluation) -> ExternalClusters:
    """Return the clusters read by the data blocks of the configuration."""
    external = ExternalClusters()
    for block, attributes in list_read_blocks(PlanningKind.REMOTE_STATE, request, evaluation):
        _add_clusters_of_state(external, block, attributes, request.registries)
    for block, attributes in list_read_blocks(PlanningKind.NODES, request, evaluation):
        cluster_id = str(attributes.get("cluster_id"))
        if cluster_id in external.snapshots:
            text = (
                f'Another data block already reads the nodes of "{cluster_id}". List all files in '
                "one block."
            )
            problem = build_error(
                "duplicate-observed-cluster", text, block.header_span, block=block.header
            )
            external.diagnostics.append(problem)
        external.snapshots[cluster_id] = ClusterSnapshotBlock(
            block, parse_snapshot(str(attributes.get("objects"))), attributes
        )
    return external


def _add_clusters_of_state(
    external: ExternalClusters,
    block: ResourceBlock,
    attributes: Mapping[str, Any],
    registries: PluginRegistries,
) -> None:
    """Add the clusters and pods of another state to `external`.

    It is an error if a cluster differs between states.
    """
    # Objects of a known type with valid attributes, in order; their positions count as their
    # order of creation.
    instances: dict[Address, InstanceState] = {}
    objects: dict[Address, SiteObject] = {}
    resources = attributes.get("resources")
    known_resources = resources if isinstance(resources, Mapping) else {}
    for number, (instance_text, values) in enumerate(known_resources.items()):
        address = parse_address(instance_text)
        kind = registries.resource_types.get(address.type)
        if kind is not None and not validate_attributes(kind.schema, values):
            instances[address] = InstanceState(ObjectState(values, number))
            objects[address] = SiteObject(address, values, number)
    catalogue = get_text(attributes, "sku_catalogue")
    for cluster_id, cluster in build_existing_clusters(
        objects.values(), registries, catalogue
    ).items():
        if external.clusters.setdefault(cluster_id, cluster) != cluster:
            text = (
                f'The cluster "{cluster_id}" exists in this state and in another one, with '
                "different contents. Use different names, or read only one of the two states."
            )
            problem = build_error(
                "conflicting-cluster-states", text, block.header_span, block=block.header
            )
            external.diagnostics.append(problem)
    members = collect_prior_members(instances, registries)
    external.pods += list_prior_pods(instances, registries, members)


def list_read_blocks(
    kind: PlanningKind, request: PlanRequest, evaluation: Evaluation
) -> Iterator[tuple[ResourceBlock, Mapping[str, Any]]]:
    """Yield the readable data blocks of a kind, each with the attributes read."""
    for block, attributes in list_data_blocks(kind, request, evaluation):
        if attributes is not None:
            yield block, attributes


def list_data_blocks(
    kind: PlanningKind, request: PlanRequest, evaluation: Evaluation
) -> Iterator[tuple[ResourceBlock, Mapping[str, Any] | None]]:
    """Yield the data blocks of a kind with the attributes read, None if unreadable.

    A block is yielded once per instance: for each instance of its module, and each item of its
    count or for_each.
    """
    types = {
        name for name, source in request.registries.data_sources.items() if source.kind is kind
    }
    for module in iterate_modules(request.configuration.root):
        for block in module.resources.values():
            if block.mode != "data" or block.type not in types:
                continue
            for instance in evaluation.list_module_instances(module.path):
                # By count or for_each.
                for item in evaluation.get_resource(instance, block).items.values():
                    yield block, item.attributes
