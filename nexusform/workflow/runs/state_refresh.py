"""Refresh of the state: objects are read from observing providers before planning."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from nexusform.applying.answer_comparison import compare_answer
from nexusform.applying.provider_calls import get_failed_change
from nexusform.applying.step_results import MachineLocations
from nexusform.diagnostics.diagnostic import Diagnostic
from nexusform.files.run_log import log_duration
from nexusform.interfaces.plugins import ObjectKey, Provider, ProviderProblem, ReadRequest, ResourceType
from nexusform.json_data.plain_data import format_path
from nexusform.planning.plan_request import PlanRequest
from nexusform.resources.address import Address
from nexusform.state.attribute_validation import validate_attributes
from nexusform.state.objects import ObjectState, State
from nexusform.workflow.opening.provider_setup import list_objects
from nexusform.workflow.runs.provider_changes import find_provider_changes

Refreshed = dict[Address, ObjectState | None]


def refresh_request(
    request: PlanRequest, providers: Mapping[str, Provider], on_read: Callable[[str, str], None]
) -> tuple[PlanRequest, list[Diagnostic]]:
    """Return the request with refreshed objects, and diagnostics; `on_read` gets each. Raises ProviderProblem."""
    types = request.registries.resource_types
    with log_duration("info", "objects read from the providers", providers=len(providers)):
        refreshed = refresh_objects(request.state, providers, types, on_read)
    changes = find_provider_changes(request, providers)
    refreshed_request = replace(request, refreshed_objects={**refreshed, **changes.missing}, imports=changes.imports)
    return refreshed_request, changes.diagnostics


def refresh_objects(
    state: State,
    providers: Mapping[str, Provider],
    types: Mapping[str, ResourceType],
    on_read: Callable[[str, str], None],
) -> Refreshed:
    """Return the objects that differ from the state (None: missing). Only observing providers are read;
    `on_read` is called with address and id of each object. Raises ProviderProblem.
    """
    changed_objects: Refreshed = {}
    for name, provider in providers.items():
        if provider.observes_objects:
            changed_objects.update(_read_objects(state, provider, list_objects(state, name), types, on_read))
    return changed_objects


def _read_objects(
    state: State,
    provider: Provider,
    objects: Sequence[tuple[Address, ObjectState]],
    types: Mapping[str, ResourceType],
    on_read: Callable[[str, str], None],
) -> Refreshed:
    """Read objects from one provider; return the different ones, None for missing. Raises ProviderProblem."""
    requests: list[ReadRequest] = []
    for address, recorded in objects:
        object_id = str(recorded.attributes.get("id", ""))
        on_read(str(address), object_id)
        key = ObjectKey(address.type, object_id, recorded.creation)
        unfinished, private_note = get_failed_change(recorded), recorded.private or {}
        request = ReadRequest(
            key, recorded.attributes, str(address), unfinished_change=unfinished, private_note=private_note
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
                f"Provider {provider.name} returned invalid attributes for {address} ({address.type}): "
                f"{format_path(mismatches[0].path)}: {mismatches[0].detail}"
            )
        private = _merge_private_notes(recorded.private, answer.note)
        if answer.attributes == recorded.attributes and private == recorded.private:
            continue
        attributes = locations.update_locations(answer.attributes)
        if attributes != recorded.attributes:
            attributes = compare_answer(str(address), schema, recorded.attributes, attributes, ()).attributes
        if attributes != recorded.attributes or private != recorded.private:
            changed_objects[address] = replace(recorded, attributes=attributes, private=private)
    return changed_objects


def _merge_private_notes(private: Mapping[str, Any] | None, note: Mapping[str, Any]) -> Mapping[str, Any] | None:
    if not note:
        return private
    merged = {name: value for name, value in {**(private or {}), **note}.items() if value is not None}
    return merged or None
