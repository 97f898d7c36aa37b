"""What stands of what state remembers: asked of the providers that observe, before a plan is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from nexusform.address import Address
from nexusform.applying.agreement import agree
from nexusform.applying.outcomes import Whereabouts
from nexusform.applying.standing import unfinished_of
from nexusform.diagnostics import Diagnostic
from nexusform.log import logged
from nexusform.plain_data import path_text
from nexusform.planning.request import PlanRequest
from nexusform.ports import ObjectKey, Provider, ProviderProblem, ReadRequest, ResourceType
from nexusform.state.conformity import misfits
from nexusform.state.objects import ObjectState, State
from nexusform.workflow.opening.providers import objects_of
from nexusform.workflow.runs.changed_providers import moved_objects

Refreshed = dict[Address, ObjectState | None]


def as_it_stands(
    request: PlanRequest, providers: Mapping[str, Provider], telling: Callable[[str, str], None]
) -> tuple[PlanRequest, list[Diagnostic]]:
    """The request with what providers show, and what is to be said of it.

    `telling` gets address and id of each object that is asked for. Raises ProviderProblem.
    """
    types = request.registries.resource_types
    with logged("info", "objects read from the providers", providers=len(providers)):
        refreshed = refresh(request.state, providers, types, telling)
    moved = moved_objects(request, providers)
    found = replace(request, refreshed={**refreshed, **moved.missing}, imports=moved.adopting)
    return found, moved.diagnostics


def refresh(
    state: State,
    providers: Mapping[str, Provider],
    types: Mapping[str, ResourceType],
    telling: Callable[[str, str], None],
) -> Refreshed:
    """Objects that differ from what state remembers (None: gone).

    Only providers that observe are asked; `telling` gets address and id of each object asked for.
    Raises ProviderProblem.
    """
    differing: Refreshed = {}
    for name, provider in providers.items():
        if provider.observes:
            differing.update(_ask(state, provider, objects_of(state, name), types, telling))
    return differing


def _ask(
    state: State,
    provider: Provider,
    objects: Sequence[tuple[Address, ObjectState]],
    types: Mapping[str, ResourceType],
    telling: Callable[[str, str], None],
) -> Refreshed:
    """Read objects from one provider; those that differ from what state remembers, None for those that are
    gone. Raises ProviderProblem.
    """
    requests: list[ReadRequest] = []
    for address, known in objects:
        object_id = str(known.attributes.get("id", ""))
        telling(str(address), object_id)
        key = ObjectKey(address.type, object_id, known.creation)
        unfinished, noted = unfinished_of(known), known.private or {}
        request = ReadRequest(key, known.attributes, str(address), unfinished=unfinished, noted=noted)
        requests.append(request)
    differing: Refreshed = {}
    whereabouts = Whereabouts(lambda: state)
    for (address, known), answer in zip(objects, provider.read(requests), strict=True):
        if answer.attributes is None:
            differing[address] = None
            continue
        schema = types[address.type].schema if address.type in types else None
        mistakes = misfits(schema, answer.attributes) if schema is not None else []
        if mistakes:
            raise ProviderProblem(
                f"What provider {provider.name} answered for {address} is not what a {address.type} is: "
                f"{path_text(mistakes[0].path)}: {mistakes[0].detail}"
            )
        private = _noted(known.private, answer.note)
        if answer.attributes == known.attributes and private == known.private:
            continue
        attributes = whereabouts.followed(answer.attributes)
        if attributes != known.attributes:
            attributes = agree(str(address), schema, known.attributes, attributes, ()).attributes
        if attributes != known.attributes or private != known.private:
            differing[address] = replace(known, attributes=attributes, private=private)
    return differing


def _noted(private: Mapping[str, Any] | None, note: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The private note of an object with what a provider notes of it."""
    if not note:
        return private
    kept = {name: value for name, value in {**(private or {}), **note}.items() if value is not None}
    return kept or None
