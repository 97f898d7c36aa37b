"""Hubs as data blocks have read them: what stands on a real one, whatever state remembers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct, field

from nexusform.configuration.configuration import ResourceBlock
from nexusform.planning.instances.instance import Instance
from nexusform.planning.names.evaluation import Evaluation
from nexusform.planning.preparation.order import modules
from nexusform.planning.request import PlanRequest
from nexusform.ports import Kind


class ShownHub(Struct, frozen=True):
    """What hubs show: the attributes of placements by their type and id, and the names of the members."""

    placements: Mapping[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    members: frozenset[str] = frozenset()

    def of(self, instance: Instance) -> Mapping[str, Any]:
        """What a hub shows of a placement; nothing of one that is made anew."""
        if instance.replaced or instance.config is None:
            return {}
        return self.placements.get((instance.type.name, instance.type.identify(instance.config)), {})


def shown_hub(request: PlanRequest, evaluation: Evaluation) -> ShownHub:
    """Read what the data blocks of the configuration name."""
    placements: dict[tuple[str, str], Mapping[str, Any]] = {}
    members: set[str] = set()
    for _, attributes in read_by(Kind.HUB_EXPORT, request, evaluation):
        for key, shown in (attributes.get("placements") or {}).items():
            namespace, _, name = key.rpartition("/")
            rest = {each: value for each, value in shown.items() if each != "type"}
            placements[shown["type"], key] = {"name": name, "namespace": namespace or None, **rest}
        members.update(attributes.get("member_clusters") or ())
    return ShownHub(placements, frozenset(members))


def read_by(
    kind: Kind, request: PlanRequest, evaluation: Evaluation
) -> Iterator[tuple[ResourceBlock, Mapping[str, Any]]]:
    """The data blocks of a kind, with what each read."""
    sources = request.registries.data_sources
    for module in modules(request.configuration.root):
        for block in module.resources.values():
            if block.mode != "data" or block.type not in sources:
                continue
            if sources[block.type].kind is not kind:
                continue
            for instance in evaluation.module_instances(module.path):
                for item in evaluation.resource(instance, block).items.values():
                    if item.attributes is not None:
                        yield block, item.attributes
