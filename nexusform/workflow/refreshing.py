"""Asking the providers what stands, before planning."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from nexusform.address import Address, address_order
from nexusform.applying.agreement import agree
from nexusform.applying.outcomes import path_text
from nexusform.applying.whereabouts import Whereabouts
from nexusform.ports import ObjectKey, Provider, ProviderProblem, ReadRequest, ResourceType
from nexusform.state.conformity import misfits
from nexusform.state.model import ObjectState, State

Found = dict[Address, ObjectState | None]


def refresh(
    state: State,
    providers: Mapping[str, Provider],
    types: Mapping[str, ResourceType],
    telling: Callable[[str, str], None],
) -> Found:
    """Objects that differ from what state remembers (None: gone).

    Only providers that observe are asked; `telling` gets address and id of each object asked for.
    Raises ProviderProblem.
    """
    found: Found = {}
    for name, provider in providers.items():
        if provider.observes:
            found.update(_ask(state, provider, _objects_of(state, name), types, telling))
    return found


def _objects_of(state: State, provider: str) -> list[tuple[Address, ObjectState]]:
    objects = [
        (address, instance.current)
        for address, instance in state.instances.items()
        if instance.current is not None and instance.current.provider == provider
    ]
    return sorted(objects, key=lambda pair: address_order(pair[0]))


def _ask(
    state: State,
    provider: Provider,
    objects: Sequence[tuple[Address, ObjectState]],
    types: Mapping[str, ResourceType],
    telling: Callable[[str, str], None],
) -> Found:
    requests: list[ReadRequest] = []
    for address, known in objects:
        object_id = str(known.attributes.get("id", ""))
        telling(str(address), object_id)
        key = ObjectKey(address.type, object_id, known.creation)
        requests.append(ReadRequest(key, known.attributes, str(address)))
    found: Found = {}
    whereabouts = Whereabouts(lambda: state)
    for (address, known), answer in zip(objects, provider.read(requests), strict=True):
        if answer.attributes is None:
            found[address] = None
            continue
        schema = types[address.type].schema if address.type in types else None
        wrong = misfits(schema, answer.attributes) if schema is not None else []
        if wrong:
            raise ProviderProblem(
                f"What provider {provider.name} answered for {address} is not what a {address.type} is: "
                f"{path_text(wrong[0].path)}: {wrong[0].message}"
            )
        if answer.attributes == known.attributes:
            continue
        attributes = whereabouts.followed(answer.attributes)
        if attributes != known.attributes:
            seen = agree(str(address), schema, known.attributes, attributes, ())
            found[address] = replace(known, attributes=seen.attributes)
    return found
