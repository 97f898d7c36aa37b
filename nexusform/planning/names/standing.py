"""The names of a configuration as they stand: resources as the state has them, nothing planned."""

from __future__ import annotations

from nexusform.address import Address
from nexusform.configuration.model import ResourceBlock
from nexusform.planning.names.bodies import PreparedBodies
from nexusform.planning.names.evaluation import Evaluation, ModuleInstance, Setting
from nexusform.planning.names.setting import setting_for
from nexusform.planning.names.views import ObjectView, ResourceView
from nexusform.planning.request import PlanRequest
from nexusform.ports import ResourceType
from nexusform.state.model import State


class StandingEvaluation(Evaluation):
    """An evaluation in which a resource is what the state holds of it; what it lacks is unknown."""

    def __init__(self, setting: Setting, request: PlanRequest) -> None:
        super().__init__(setting)
        self._state: State = request.state
        self._types = request.registries.resource_types

    def resource(self, instance: ModuleInstance, block: ResourceBlock) -> ResourceView:
        """The instances of a block, of data blocks too."""
        key = (instance.path, block.mode, block.type, block.name)
        if block.mode == "data" or key in self.resources:
            return super().resource(instance, block)
        kind = self._types.get(block.type)
        view = ResourceView("") if kind is None else self._standing(instance, block, kind)
        self.resources[key] = view
        return view

    def _standing(self, instance: ModuleInstance, block: ResourceBlock, kind: ResourceType) -> ResourceView:
        expansion, problems = self.expansion(block, self.scope(instance))
        self.diagnostics += problems
        if expansion is None or expansion.unknown:
            return ResourceView("")
        view = ResourceView(expansion.shape)
        for repetition in expansion.repetitions:
            address = Address(instance.path, "managed", block.type, block.name, repetition.key)
            known = self._state.instances.get(address)
            current = known.current if known is not None else None
            view.items[repetition.key] = ObjectView(
                current.attributes if current is not None else None,
                current.sensitive if current is not None else (),
                kind.schema,
                kind.present,
            )
        return view


def standing_evaluation(request: PlanRequest) -> StandingEvaluation:
    """The names of the request's configuration over its state."""
    bodies = PreparedBodies(request.registries.schemas)
    return StandingEvaluation(setting_for(request, bodies, request.state), request)
