"""Objects whose block names another provider than the one that made them: what the new one shows is taken
over, and what it does not show is made there. Nothing is deleted at the former one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.address import Address, address_order
from nexusform.configuration.declared.configuration import DEFAULT_PROVIDER, ResourceBlock
from nexusform.diagnostics import Diagnostic, Severity, diagnostic
from nexusform.planning.preparation.order import modules
from nexusform.planning.request import Imported, PlanRequest
from nexusform.ports import ObjectKey, Provider, ReadRequest
from nexusform.state.objects import ObjectState
from nexusform.words import first_of

MOVED: Final = "provider-of-objects-changed"
_MOST_NAMED: Final = 6


class Moved(Struct):
    """`adopting` are objects that stand at their new provider, `missing` those that do not."""

    adopting: dict[Address, Imported] = field(default_factory=dict)
    missing: dict[Address, ObjectState | None] = field(default_factory=dict)
    diagnostics: list[Diagnostic] = field(default_factory=list)


def moved_objects(request: PlanRequest, providers: Mapping[str, Provider]) -> Moved:
    """Look up what moved from a provider that only recorded to one that looks. Raises ProviderProblem."""
    moved = Moved()
    for name, provider in sorted(providers.items()):
        if not provider.observes or not provider.sends:
            continue
        objects = sorted(_coming_to(name, request), key=lambda each: address_order(each[0]))
        asked = [
            ReadRequest(
                ObjectKey(address.type, str(known.attributes.get("id")), 0), known.attributes, str(address)
            )
            for address, known, _ in objects
        ]
        for (address, known, block), answer in zip(objects, provider.read(asked), strict=True):
            if answer.attributes is None:
                moved.missing[address] = None
                continue
            private = {**(known.private or {}), **answer.note} or None
            taken = replace(known, attributes=answer.attributes, provider=name, private=private)
            moved.adopting[address] = Imported(str(known.attributes.get("id")), taken, block.span)
    moved.diagnostics += _told(moved)
    return moved


def _coming_to(name: str, request: PlanRequest) -> Iterator[tuple[Address, ObjectState, ResourceBlock]]:
    """The objects of state that a block gives to this provider and that another one recorded."""
    blocks = {
        (tuple(module.path), block.type, block.name): block
        for module in modules(request.configuration.root)
        for block in module.resources.values()
        if block.mode == "managed" and block.provider == name
    }
    for address, instance in request.state.instances.items():
        current = instance.current
        path = tuple(step.name for step in address.module)
        block = blocks.get((path, address.type, address.name))
        if block is not None and current is not None and current.provider == DEFAULT_PROVIDER != name:
            yield address, current, block


def _told(moved: Moved) -> Iterator[Diagnostic]:
    said = []
    if moved.adopting:
        said.append(f"Taken over as they stand: {first_of([*map(str, moved.adopting)], _MOST_NAMED)}.")
    if moved.missing:
        said.append(f"Not there, so they are made: {first_of([*map(str, moved.missing)], _MOST_NAMED)}.")
    if said:
        detail = f"Objects that were simulated have a provider that acts now. {' '.join(said)}"
        yield diagnostic(Severity.WARNING, MOVED, detail)
