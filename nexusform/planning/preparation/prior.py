"""What stands when planning begins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from nexusform.address import Address, ConfigAddress
from nexusform.diagnostics import Diagnostic
from nexusform.planning.plan import Mode
from nexusform.planning.preparation.importing import with_imports
from nexusform.planning.preparation.moves import apply_moves, refreshed_after
from nexusform.planning.preparation.selection import Selection
from nexusform.planning.request import Imported, PlanRequest
from nexusform.state.model import InstanceState, ObjectState, State


class Prior(Struct, frozen=True):
    """What stands when planning begins.

    `state` is the recorded state under the addresses that moved blocks give, as if it held the objects
    that are to be taken over already (`imports`). `instances` are its instances with what the providers
    observed put over them, `by_block` the addresses of these. `previous` maps an address to the one it was
    recorded under, where they differ. `diagnostics` are about the moves.
    """

    state: State
    instances: Mapping[Address, InstanceState]
    by_block: Mapping[ConfigAddress, Sequence[Address]]
    previous: Mapping[Address, Address]
    imports: Mapping[Address, Imported]
    diagnostics: tuple[Diagnostic, ...]

    def object(self, address: Address) -> ObjectState | None:
        """The current object at an address."""
        instance = self.instances.get(address)
        return instance.current if instance is not None else None

    def deposed(self, address: Address) -> Mapping[str, ObjectState]:
        """What is left of replacements that could not be finished, by deposed key."""
        instance = self.instances.get(address)
        return instance.deposed if instance is not None else {}

    def dependencies(self, address: Address, deposed: str, default: tuple[str, ...]) -> tuple[str, ...]:
        """What state recorded of the object's dependencies; `default` when it knows no such object."""
        recorded = self.deposed(address).get(deposed) if deposed else self.object(address)
        return recorded.dependencies if recorded is not None else default


def prior_of(request: PlanRequest) -> Prior:
    """What stands before a plan. Objects are taken over by normal plans only."""
    moved, problems = apply_moves(request.configuration, request.state)
    imports = request.imports if request.mode is Mode.NORMAL else {}
    state = with_imports(moved.state, imports)
    instances = _as_observed(state.instances, refreshed_after(request.refreshed, moved.previous))
    return Prior(state, instances, _by_block(instances), moved.previous, imports, tuple(problems))


def selected(prior: Prior, selection: Selection) -> Prior:
    """Without the objects that would be taken over, and that this plan leaves out."""
    left_out = {address for address in prior.imports if not selection.has(address)}
    if not left_out:
        return prior
    instances = {address: i for address, i in prior.instances.items() if address not in left_out}
    imports = {address: i for address, i in prior.imports.items() if address not in left_out}
    return replace(prior, instances=instances, by_block=_by_block(instances), imports=imports)


def _as_observed(
    recorded: Mapping[Address, InstanceState], observed: Mapping[Address, ObjectState | None]
) -> dict[Address, InstanceState]:
    """The recorded instances as the providers found them (None: gone)."""
    instances = dict(recorded)
    for address, current in observed.items():
        instance = instances.get(address)
        if instance is None:
            continue
        if current is None and not instance.deposed:
            del instances[address]
        else:
            instances[address] = InstanceState(current, instance.deposed)
    return instances


def _by_block(addresses: Iterable[Address]) -> dict[ConfigAddress, list[Address]]:
    by_block: dict[ConfigAddress, list[Address]] = {}
    for address in addresses:
        by_block.setdefault(address.config, []).append(address)
    return by_block
