"""Clusters of other states and clusters as kubectl printed them, with the pods on them, as data blocks have
read them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nexusform.address import Address, parse_address
from nexusform.configuration.declared.configuration import ResourceBlock
from nexusform.diagnostics import Diagnostic, error
from nexusform.domains.pods.importers.kubernetes_nodes import observation_of
from nexusform.domains.pods.planning.blocks import prior_members, prior_pods
from nexusform.domains.pods.planning.nodes import standing_clusters
from nexusform.domains.pods.planning.observed import Elsewhere, Seen
from nexusform.planning.names.evaluation import Evaluation
from nexusform.planning.preparation.order import modules
from nexusform.planning.request import PlanRequest
from nexusform.planning.vms.sites import Thing
from nexusform.ports import Kind, Registries
from nexusform.state.conformity import misfits
from nexusform.state.objects import InstanceState, ObjectState


def read_elsewhere(request: PlanRequest, evaluation: Evaluation) -> Elsewhere:
    """Read what the data blocks of the configuration name."""
    elsewhere = Elsewhere()
    for block, attributes in read_by(Kind.REMOTE_STATE, request, evaluation):
        _take_state(elsewhere, block, attributes, request.registries)
    for block, attributes in read_by(Kind.NODES, request, evaluation):
        cluster_id = str(attributes.get("cluster_id"))
        if cluster_id in elsewhere.observed:
            elsewhere.diagnostics.append(_observed_twice(block, cluster_id))
        elsewhere.observed[cluster_id] = Seen(block, observation_of(str(attributes.get("objects"))))
    return elsewhere


def _take_state(
    elsewhere: Elsewhere, block: ResourceBlock, attributes: Mapping[str, Any], registries: Registries
) -> None:
    """Take in the clusters of another state, and the pods on them."""
    instances = _instances(attributes, registries)
    catalogue = str(attributes.get("sku_catalogue") or "")
    things = [
        Thing(address, instance.current.attributes, instance.current.creation)
        for address, instance in instances.items()
        if instance.current is not None
    ]
    for cluster_id, cluster in standing_clusters(things, registries, catalogue).items():
        known = elsewhere.clusters.setdefault(cluster_id, cluster)
        if known != cluster:
            elsewhere.diagnostics.append(_twice(block, cluster_id))
    members = prior_members(instances, registries)
    elsewhere.pods += prior_pods(instances, registries, members)


def _instances(attributes: Mapping[str, Any], registries: Registries) -> dict[Address, InstanceState]:
    """The objects that were read, in their order. What is not as its type says (a test may put anything in
    the place of a state) is passed over.
    """
    instances: dict[Address, InstanceState] = {}
    resources = attributes.get("resources")
    for number, (text, values) in enumerate(resources.items() if isinstance(resources, Mapping) else ()):
        address = parse_address(text)
        kind = registries.resource_types.get(address.type)
        if kind is not None and not misfits(kind.schema, values):
            instances[address] = InstanceState(ObjectState(values, number))
    return instances


def _twice(block: ResourceBlock, cluster_id: str) -> Diagnostic:
    return error(
        "cluster-in-two-states",
        f'The cluster "{cluster_id}" stands in this state and in another one that is read, and they differ, '
        "so a member that names it could be either. Give sites names of their own, or read one of the two.",
        block.header_span,
        block=block.header,
    )


def _observed_twice(block: ResourceBlock, cluster_id: str) -> Diagnostic:
    return error(
        "cluster-observed-twice",
        f'Another data block reads the nodes of "{cluster_id}", too. One block takes several files.',
        block.header_span,
        block=block.header,
    )


def read_by(
    kind: Kind, request: PlanRequest, evaluation: Evaluation
) -> Iterator[tuple[ResourceBlock, Mapping[str, Any]]]:
    """The data blocks of a kind, with what each read."""
    for block, attributes in data_blocks(kind, request, evaluation):
        if attributes is not None:
            yield block, attributes


def data_blocks(
    kind: Kind, request: PlanRequest, evaluation: Evaluation
) -> Iterator[tuple[ResourceBlock, Mapping[str, Any] | None]]:
    """The data blocks of a kind, each with what it read, None where it could not be read."""
    sources = request.registries.data_sources
    for module in modules(request.configuration.root):
        for block in module.resources.values():
            if block.mode != "data" or block.type not in sources:
                continue
            if sources[block.type].kind is not kind:
                continue
            for instance in evaluation.module_instances(module.path):
                for item in evaluation.resource(instance, block).items.values():
                    yield block, item.attributes
