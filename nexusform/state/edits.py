"""Changes that users make to a state by hand: move, remove, taint. Pure; nothing is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec.structs import replace

from nexusform.address import Address, AddressPattern, ModulePath, ModuleStep, address_order
from nexusform.diagnostics import Refused, error
from nexusform.state.objects import InstanceState, ObjectState, State
from nexusform.words import listed


def matching(state: State, patterns: Sequence[AddressPattern], object_id: str = "") -> list[Address]:
    """The instances that any of the patterns names (no patterns: all), in order of address.

    With `object_id` only those whose object has that id.
    """
    addresses = []
    for address, instance in state.instances.items():
        is_named = not patterns or any(pattern.matches(address) for pattern in patterns)
        if is_named and (not object_id or _has_id(instance, object_id)):
            addresses.append(address)
    return sorted(addresses, key=address_order)


def _has_id(instance: InstanceState, object_id: str) -> bool:
    return instance.current is not None and instance.current.attributes.get("id") == object_id


def without(state: State, addresses: Iterable[Address]) -> State:
    """The state without these instances, deposed objects included. What depended on a block of which
    nothing is left no longer does.
    """
    gone = set(addresses)
    instances = {a: i for a, i in state.instances.items() if a not in gone}
    left = {str(address.config) for address in instances}
    nowhere = {str(address.config): frozenset[str]() for address in gone if str(address.config) not in left}
    if nowhere:
        instances = {a: _each_object(i, lambda o: _depending(o, nowhere)) for a, i in instances.items()}
    return replace(state, instances=instances)


# --- moving ------------------------------------------------------------------------------------

Pairs = tuple[tuple[Address, Address], ...]


def moves(state: State, source: AddressPattern, target: AddressPattern) -> Pairs:
    """What moving `source` to `target` means: (from, to) for every instance, in order.

    An instance key that neither names is kept. Raises Refused.
    """
    if source == target:
        raise _refused("nothing-to-move", f"Source and target are both {source}.")
    _check_kinds(source, target)
    sources = matching(state, [source])
    if not sources:
        raise _refused(
            "nothing-to-move", f"The state holds no {source}. `nexusform state list` shows what it holds."
        )
    pairs = tuple((address, _renamed(address, source, target)) for address in sources)
    _check_targets(state, pairs, target)
    return pairs


def _check_kinds(source: AddressPattern, target: AddressPattern) -> None:
    if bool(source.type) != bool(target.type):
        raise _refused(
            "source-and-target-are-of-different-kinds",
            f"{_kind(source)} ({source}) cannot become {_kind(target)} ({target}).",
        )
    if (source.mode, source.type) != (target.mode, target.type):
        raise _refused(
            "source-and-target-are-of-different-types",
            f"{source} and {target} must be of one resource type: the objects in a state stay what they are.",
        )


def _kind(pattern: AddressPattern) -> str:
    return "a resource" if pattern.type else "a module"


def _renamed(address: Address, source: AddressPattern, target: AddressPattern) -> Address:
    depth = len(source.module)
    module = (*_renamed_steps(address.module[:depth], source.module, target.module), *address.module[depth:])
    if not target.type:
        return replace(address, module=module)
    keeps_key = source.key is None and target.key is None
    return replace(address, module=module, name=target.name, key=address.key if keeps_key else target.key)


def _renamed_steps(actual: ModulePath, source: ModulePath, target: ModulePath) -> ModulePath:
    if len(source) != len(target):
        return target
    return tuple(
        ModuleStep(to.name, have.key if to.key is None and named.key is None else to.key)
        for have, named, to in zip(actual, source, target, strict=True)
    )


def _check_targets(state: State, pairs: Pairs, target: AddressPattern) -> None:
    targets = {new for _, new in pairs}
    if len(targets) < len(pairs):
        raise _refused(
            "several-instances-for-one-address",
            "More than one instance would get the same address. Name one of them in full, or move them one "
            f"by one to keys of {target}.",
        )
    moving = {old for old, _ in pairs}
    taken = sorted(
        (new for new in targets if new in state.instances and new not in moving), key=address_order
    )
    # A resource is either one instance without a key or several with keys, never both.
    mixed = {(new.resource, new.key is None) for new in targets}
    for address in state.instances:
        if address not in moving and (address.resource, address.key is not None) in mixed:
            taken.append(address)
    if taken:
        raise _refused(
            "target-address-is-taken",
            f"The state holds {taken[0]} already. Move or remove that first (state mv, state rm).",
        )


def moved(state: State, pairs: Pairs) -> State:
    """The state with instances at their new addresses; dependencies on them follow."""
    names = dict(pairs)
    instances = {names.get(address, address): instance for address, instance in state.instances.items()}
    followed = _followed(state.instances, instances, pairs)
    if followed:
        instances = {a: _each_object(i, lambda o: _depending(o, followed)) for a, i in instances.items()}
    return replace(state, instances=instances)


def _followed(
    before: Mapping[Address, InstanceState], after: Mapping[Address, InstanceState], pairs: Pairs
) -> dict[str, frozenset[str]]:
    """For every block that instances left: the blocks where its former instances stand now."""
    left = {str(old.config) for old, new in pairs if old.config != new.config}
    places: dict[str, set[str]] = {name: set() for name in left}
    for old, new in pairs:
        if str(old.config) in left:
            places[str(old.config)].add(str(new.config))
    for address in before:
        name = str(address.config)
        if name in left and address in after:
            places[name].add(name)
    return {name: frozenset(now) for name, now in places.items()}


def _depending(object_state: ObjectState, followed: Mapping[str, frozenset[str]]) -> ObjectState:
    if not any(name in followed for name in object_state.dependencies):
        return object_state
    now = {new for name in object_state.dependencies for new in followed.get(name, (name,))}
    return replace(object_state, dependencies=tuple(sorted(now)))


def _each_object(instance: InstanceState, change: Callable[[ObjectState], ObjectState]) -> InstanceState:
    current = None if instance.current is None else change(instance.current)
    return InstanceState(current, {key: change(old) for key, old in instance.deposed.items()})


# --- tainting ----------------------------------------------------------------------------------


def only_instance(state: State, pattern: AddressPattern) -> Address | None:
    """The one instance that a pattern names, None when there is none. Raises Refused."""
    if not pattern.type:
        raise _refused("not-a-resource", f"{pattern} is a module; name one resource instance in it.")
    if pattern.mode == "data":
        raise _refused("not-a-resource", f"{pattern} is a data source, which is read anew in every plan.")
    named = [a for a in matching(state, [pattern]) if state.instances[a].current is not None]
    if len(named) > 1:
        shown = listed((str(address) for address in named), most=5)
        raise _refused("several-instances", f"{pattern} names {len(named)} instances; name one: {shown}.")
    return named[0] if named else None


def without_taint(state: State, address: Address) -> State:
    """Return the state with the taint of one object removed. Raises Refused."""
    instance = state.instances[address]
    assert instance.current is not None
    if not instance.current.tainted:
        raise _refused("not-tainted", f"{address} is not tainted, so there is no mark to take away.")
    changed = replace(instance.current, tainted=False)
    return state.with_instance(address, replace(instance, current=changed))


def _refused(kind: str, detail: str) -> Refused:
    return Refused(error(kind, detail))
