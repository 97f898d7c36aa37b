"""Refresh of the state: objects are read from observing providers before planning."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.applying.answer_comparison import compare_answer
from nexusform.applying.provider_calls import get_failed_change, merge_note
from nexusform.applying.step_results import MachineLocations
from nexusform.configuration.declarations.configuration import DEFAULT_PROVIDER, ResourceBlock
from nexusform.diagnostics.diagnostic import Diagnostic, Severity, build_diagnostic
from nexusform.diagnostics.phrases import format_first_items
from nexusform.files.run_log import log_duration
from nexusform.interfaces.plugins import (
    ObjectKey,
    Provider,
    ProviderProblem,
    ReadRequest,
    ResourceType,
)
from nexusform.json_data.plain_data import format_path
from nexusform.planning.plan_request import ImportedObject, PlanRequest
from nexusform.planning.preparation.planning_order import iterate_modules
from nexusform.resources.address import Address, ConfigAddress, compute_address_order
from nexusform.state.attribute_validation import validate_attributes
from nexusform.state.objects import ObjectState, State
from nexusform.workflow.opening.provider_setup import list_objects

PROVIDER_CHANGED: Final = "provider-of-objects-changed"
SITE: Final = "nexus_site"
_MAX_NAMES: Final = 6
# None: missing at its provider.
Refreshed = dict[Address, ObjectState | None]


def refresh_request(
    request: PlanRequest, providers: Mapping[str, Provider], on_read: Callable[[str, str], None]
) -> tuple[PlanRequest, list[Diagnostic]]:
    """Return the request with refreshed objects and imports, and diagnostics.

    Raises ProviderProblem.
    """
    types = request.registries.resource_types
    with log_duration("objects read from the providers", providers=len(providers)):
        refreshed = refresh_objects(request.state, providers, types, on_read)
    changes = find_provider_changes(request, providers)
    refreshed_request = replace(
        request,
        refreshed_objects={**refreshed, **changes.missing},
        imports=changes.imports,
        site_notes=_collect_notes_of_new_sites(request, providers),
    )
    return refreshed_request, changes.diagnostics


def _collect_notes_of_new_sites(
    request: PlanRequest, providers: Mapping[str, Provider]
) -> dict[tuple[str, str], Mapping[str, Any]]:
    """Read the facts of the sites that the configuration has and the state has not.

    The result is by provider and site id. Raises ProviderProblem.
    """
    recorded = {address.config_address for address, _ in request.state.list_current_objects()}
    names = {
        block.provider
        for module in iterate_modules(request.configuration.root)
        for block in module.resources.values()
        if block.mode == "managed" and block.type == SITE and block.address not in recorded
    }
    observing = {
        name: provider
        for name, provider in providers.items()
        if name in names and provider.observes_objects
    }
    notes: dict[tuple[str, str], Mapping[str, Any]] = {}
    if not observing:
        return notes
    from nexusform.providers.optional_provider_interfaces import WorkloadListingProvider

    for name, provider in sorted(observing.items()):
        if isinstance(provider, WorkloadListingProvider):
            for site_id, note in provider.collect_site_notes().items():
                notes[name, site_id] = note
    return notes


def refresh_objects(
    state: State,
    providers: Mapping[str, Provider],
    types: Mapping[str, ResourceType],
    on_read: Callable[[str, str], None],
) -> Refreshed:
    """Return the objects changed since the state was written; None for a missing one.

    Only providers of a site are read: others know just the state. `on_read` is called with the
    address and id of each object. Raises ProviderProblem.
    """
    changed_objects: Refreshed = {}
    for name, provider in providers.items():
        if provider.observes_objects:
            changed_objects.update(
                _read_objects(state, provider, list_objects(state, name), types, on_read)
            )
    return changed_objects


def _read_objects(
    state: State,
    provider: Provider,
    objects: Sequence[tuple[Address, ObjectState]],
    types: Mapping[str, ResourceType],
    on_read: Callable[[str, str], None],
) -> Refreshed:
    """Read objects from one provider; return the changed ones by address (None: no longer there).

    An object is changed if an attribute has another value, or if its private note differs: data of
    the provider besides the attributes. Raises ProviderProblem.
    """
    requests: list[ReadRequest] = []
    for address, recorded in objects:
        object_id = str(recorded.attributes.get("id", ""))
        on_read(str(address), object_id)
        key = ObjectKey(address.type, object_id, recorded.creation)
        unfinished = get_failed_change(recorded)
        request = ReadRequest(
            key,
            recorded.attributes,
            str(address),
            unfinished_change=unfinished,
            lineage=state.lineage,
            private_note=recorded.note,
        )
        requests.append(request)
    changed_objects: Refreshed = {}
    locations = MachineLocations(lambda: state)
    for (address, recorded), answer in zip(objects, provider.read(requests), strict=True):
        if answer.attributes is None:
            changed_objects[address] = None
            continue
        schema = types[address.type].schema if address.type in types else None
        mismatches = validate_attributes(schema, answer.attributes) if schema is not None else []
        if mismatches:
            raise ProviderProblem(
                f"Provider {provider.name} returned invalid attributes for {address} "
                f"({address.type}): {format_path(mismatches[0].path)}: {mismatches[0].detail}"
            )
        private_note = merge_note(recorded, answer.note).private
        is_tainted = recorded.tainted or not answer.is_whole
        if (answer.attributes, private_note, is_tainted) == (
            recorded.attributes,
            recorded.private,
            recorded.tainted,
        ):
            # The usual case, decided without the costs of the next steps.
            continue
        # The answer gets racks and zones of its machines.
        attributes = locations.update_locations(answer.attributes)
        # This marks changed values as observed; its counts are unused.
        if attributes != recorded.attributes:
            attributes = compare_answer(
                str(address), schema, recorded.attributes, attributes, observed=()
            ).attributes
        changed = replace(recorded, attributes=attributes, private=private_note, tainted=is_tainted)
        if changed != recorded:
            changed_objects[address] = changed
    return changed_objects


class ProviderChanges(Struct):
    """Objects with a changed provider.

    `imports` exist at the new provider, `missing` ones do not.
    """

    imports: dict[Address, ImportedObject] = field(default_factory=dict)
    missing: dict[Address, ObjectState | None] = field(default_factory=dict)
    diagnostics: list[Diagnostic] = field(default_factory=list)


def find_provider_changes(
    request: PlanRequest, providers: Mapping[str, Provider]
) -> ProviderChanges:
    """Read simulated objects now assigned to a real provider: found ones become imports.

    Raises ProviderProblem.
    """
    changes = ProviderChanges()
    for name, provider in sorted(providers.items()):
        # Not the provider of a real site.
        if not provider.observes_objects or not provider.sends_changes:
            continue
        objects = sorted(
            _list_changed_objects(name, request), key=lambda entry: compute_address_order(entry[0])
        )
        requests: list[ReadRequest] = []
        for address, recorded, _ in objects:
            # Unknown creation, as in an import.
            key = ObjectKey(address.type, str(recorded.attributes.get("id")), 0)
            requests.append(
                ReadRequest(key, recorded.attributes, str(address), private_note=recorded.note)
            )
        for (address, recorded, block), answer in zip(
            objects, provider.read(requests), strict=True
        ):
            if answer.attributes is None:
                changes.missing[address] = None
                continue
            private = {**recorded.note, **answer.note} or None
            imported = replace(
                recorded, attributes=answer.attributes, provider=name, private=private
            )
            changes.imports[address] = ImportedObject(
                str(recorded.attributes.get("id")), imported, block.span
            )
    changes.diagnostics += _build_warning(changes)
    return changes


def _list_changed_objects(
    name: str, request: PlanRequest
) -> Iterator[tuple[Address, ObjectState, ResourceBlock]]:
    """Yield the objects that a block moves from the default provider to the provider `name`.

    The default provider is the simulated one. Each item is a tuple: the address of the object, its
    recorded state, and the block that names the new provider.
    """
    if name == DEFAULT_PROVIDER:
        return
    # Of this provider; one may have several objects.
    blocks: dict[ConfigAddress, ResourceBlock] = {}
    for module in iterate_modules(request.configuration.root):
        for block in module.resources.values():
            if block.mode == "managed" and block.provider == name:
                blocks[block.address] = block
    for address, current in request.state.list_current_objects():
        block_of_object = blocks.get(address.config_address)
        if current.provider == DEFAULT_PROVIDER and block_of_object is not None:
            yield address, current, block_of_object


def _build_warning(changes: ProviderChanges) -> Iterator[Diagnostic]:
    """Yield a warning about the imported and missing objects, if there are any."""
    sentences = []
    if changes.imports:
        sentences.append(
            "Imported without changes: "
            f"{format_first_items([*map(str, changes.imports)], _MAX_NAMES)}."
        )
    if changes.missing:
        sentences.append(
            "Missing, to be created: "
            f"{format_first_items([*map(str, changes.missing)], _MAX_NAMES)}."
        )
    if sentences:
        detail = f"Simulated objects now have a real provider. {' '.join(sentences)}"
        yield build_diagnostic(Severity.WARNING, PROVIDER_CHANGED, detail)
