"""Objects with a changed provider: imported from the new one or created there; nothing is deleted at the old one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.configuration.declarations.configuration import DEFAULT_PROVIDER, ResourceBlock
from nexusform.diagnostics.diagnostic import Diagnostic, Severity, build_diagnostic
from nexusform.diagnostics.phrases import format_first_items
from nexusform.interfaces.plugins import ObjectKey, Provider, ReadRequest
from nexusform.planning.plan_request import ImportedObject, PlanRequest
from nexusform.planning.preparation.planning_order import iterate_modules
from nexusform.resources.address import Address, compute_address_order
from nexusform.state.objects import ObjectState

PROVIDER_CHANGED: Final = "provider-of-objects-changed"
_MAX_NAMES: Final = 6


class ProviderChanges(Struct):
    """Objects with a changed provider: `imports` exist at the new provider, `missing` ones do not."""

    imports: dict[Address, ImportedObject] = field(default_factory=dict)
    missing: dict[Address, ObjectState | None] = field(default_factory=dict)
    diagnostics: list[Diagnostic] = field(default_factory=list)


def find_provider_changes(request: PlanRequest, providers: Mapping[str, Provider]) -> ProviderChanges:
    """Find objects moved from the recording provider to an observing one. Raises ProviderProblem."""
    changes = ProviderChanges()
    for name, provider in sorted(providers.items()):
        if not provider.observes_objects or not provider.sends_changes:
            continue
        objects = sorted(_list_changed_objects(name, request), key=lambda entry: compute_address_order(entry[0]))
        requests = [
            ReadRequest(
                ObjectKey(address.type, str(recorded.attributes.get("id")), 0), recorded.attributes, str(address)
            )
            for address, recorded, _ in objects
        ]
        for (address, recorded, block), answer in zip(objects, provider.read(requests), strict=True):
            if answer.attributes is None:
                changes.missing[address] = None
                continue
            private = {**(recorded.private or {}), **answer.note} or None
            imported = replace(recorded, attributes=answer.attributes, provider=name, private=private)
            changes.imports[address] = ImportedObject(str(recorded.attributes.get("id")), imported, block.span)
    changes.diagnostics += _build_warning(changes)
    return changes


def _list_changed_objects(name: str, request: PlanRequest) -> Iterator[tuple[Address, ObjectState, ResourceBlock]]:
    """Yield the objects assigned to this provider by a block and recorded by another one."""
    blocks = {
        (tuple(module.path), block.type, block.name): block
        for module in iterate_modules(request.configuration.root)
        for block in module.resources.values()
        if block.mode == "managed" and block.provider == name
    }
    for address, instance in request.state.instances.items():
        current = instance.current
        path = tuple(step.name for step in address.module)
        block = blocks.get((path, address.type, address.name))
        if block is not None and current is not None and current.provider == DEFAULT_PROVIDER != name:
            yield address, current, block


def _build_warning(changes: ProviderChanges) -> Iterator[Diagnostic]:
    sentences = []
    if changes.imports:
        sentences.append(f"Imported without changes: {format_first_items([*map(str, changes.imports)], _MAX_NAMES)}.")
    if changes.missing:
        sentences.append(f"Missing, to be created: {format_first_items([*map(str, changes.missing)], _MAX_NAMES)}.")
    if sentences:
        detail = f"Simulated objects now have a real provider. {' '.join(sentences)}"
        yield build_diagnostic(Severity.WARNING, PROVIDER_CHANGED, detail)
