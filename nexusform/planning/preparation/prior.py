"""What stands when planning begins, by block."""

from __future__ import annotations

from msgspec import Struct, field

from nexusform.address import Address, ConfigAddress
from nexusform.planning.request import PlanRequest
from nexusform.state.model import InstanceState, ObjectState


class Prior(Struct):
    """What stands, by block: the recorded state with what the providers found put over it."""

    instances: dict[Address, InstanceState]
    by_block: dict[ConfigAddress, list[Address]] = field(default_factory=dict)

    @staticmethod
    def of(request: PlanRequest) -> Prior:
        """The prior objects of a plan."""
        instances = dict(request.state.instances)
        for address, found in request.refreshed.items():
            known = instances.get(address)
            if known is None:
                continue
            if found is None and not known.deposed:
                del instances[address]
            else:
                instances[address] = InstanceState(found, known.deposed)
        prior = Prior(instances)
        for address in instances:
            prior.by_block.setdefault(address.config, []).append(address)
        return prior

    def dependencies(self, address: Address, deposed: str, default: tuple[str, ...]) -> tuple[str, ...]:
        """What state recorded of the object's dependencies; `default` when it knows no such object."""
        known = self.instances.get(address)
        if known is None:
            return default
        recorded = known.deposed.get(deposed) if deposed else known.current
        return recorded.dependencies if recorded is not None else default

    def object(self, address: Address) -> ObjectState | None:
        """The current object at an address."""
        known = self.instances.get(address)
        return known.current if known is not None else None
