"""Advice on renames.

An object is deleted and created again if a deleted and a new object of a type have one id. A rename
is probable if a deleted object has a similar new one. A `moved` block would keep the object. A pool
cannot be renamed.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain, product
from textwrap import indent
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic, Problem, Severity
from nexusform.diagnostics.phrases import enclose, format_count
from nexusform.json_data.plain_data import get_mapping
from nexusform.planning.instances.instance import Instance
from nexusform.plans.impact.object_effects import format_kind_counts
from nexusform.plans.plan import Action
from nexusform.resources.address import (
    Address,
    ConfigAddress,
    ModulePath,
    format_module,
    render_moved_block,
)
from nexusform.values.typed_value import UNKNOWN

RENAMED: Final = "probable-rename"
# The deleted object has VMs, bindings or pods.
DESTRUCTIVE: Final = "destructive-rename"
POOL_RENAMED: Final = "pool-rename"
_POOL_BLOCK: Final = "agent_pool"
_WITHOUT_BLOCK: Final = ("delete_because_no_resource_config", "delete_because_no_module")
_WITHOUT_KEY: Final = (
    "delete_because_each_key",
    "delete_because_count_index",
    "delete_because_wrong_repetition",
    "delete_because_no_module",
)
# Blocks, or instances of one block, of each side.
_MAXIMUM_COMPARED: Final = 20

# Instances deleted or created together, by their keys (see `_group_by_block`). A single instance
# has the key "".
_Group: TypeAlias = dict[object, Instance]


def build_rename_diagnostics(
    instances: Collection[Instance], removed: Mapping[Address, Mapping[str, int]]
) -> Iterator[Diagnostic]:
    """Yield advice for each deleted object that seems to be renamed, and for each renamed pool.

    Exactly one new object is similar to it, or has its id. Whole modules are compared first, then
    the blocks and the instance keys that are left. `removed` counts the VMs, bindings and pods
    removed with each object, by kind: advice about an object with any has another diagnostic id.
    """
    renamed_addresses: set[Address] = set()
    for before, after in _find_renamed_modules(instances):
        renamed_addresses |= {instance.address for instance in (*before.values(), *after.values())}
        addresses = format_module(_get_module_path(before)), format_module(_get_module_path(after))
        yield _build_advice(before, after, removed, addresses)
    yield from _build_block_advice(
        [instance for instance in instances if instance.address not in renamed_addresses], removed
    )


def _find_renamed_modules(instances: Iterable[Instance]) -> Iterator[tuple[_Group, _Group]]:
    """Yield removed module instances with the similar new one, as groups of objects.

    All objects of the removed instance are deleted, and the new one has only new objects of the
    same names. A module inside a renamed one is renamed with it.
    """
    by_names: dict[frozenset[object], tuple[list[_Group], list[_Group]]] = {}
    for position, groups in enumerate(_group_by_module(instances)):
        for group in groups:
            by_names.setdefault(frozenset(group), ([], []))[position].append(group)
    pairs = chain.from_iterable(_find_similar_pairs(old, new) for old, new in by_names.values())
    renamed: set[ModulePath] = set()
    # Callers first.
    for before, after in sorted(pairs, key=lambda pair: len(_get_module_path(pair[0]))):
        paths = (_get_module_path(before), _get_module_path(after))
        outer_paths = {path[:depth] for path in paths for depth in range(1, len(path))}
        if renamed.isdisjoint(outer_paths):
            renamed.update(paths)
            yield before, after


def _get_module_path(group: _Group) -> ModulePath:
    """Return the path of the module instance of a group, whose keys are addresses in the module."""
    name, instance = next(iter(group.items()))
    assert isinstance(name, Address)
    return instance.address.module[: len(instance.address.module) - len(name.module)]


def _group_by_module(instances: Iterable[Instance]) -> tuple[list[_Group], list[_Group]]:
    """Return the objects of removed module instances, and those of new ones.

    In a group they have their addresses in the module.
    """
    groups: tuple[dict[ModulePath, _Group], dict[ModulePath, _Group]] = ({}, {})
    kept: set[ModulePath] = set()
    for instance in instances:
        address = instance.address
        if address.mode != "managed":
            continue
        for depth in range(1, len(address.module) + 1):
            path = address.module[:depth]
            if instance.action in {Action.DELETE, Action.CREATE}:
                group = groups[instance.action is Action.CREATE].setdefault(path, {})
                group[replace(address, module=address.module[depth:])] = instance
            else:
                kept.add(path)
    # A module that keeps an object is neither removed nor new.
    kept |= groups[0].keys() & groups[1].keys()
    removed, new = (
        [group for path, group in modules.items() if path not in kept] for modules in groups
    )
    return removed, new


def _build_block_advice(
    instances: Collection[Instance], removed: Mapping[Address, Mapping[str, int]]
) -> Iterator[Diagnostic]:
    """Yield advice for blocks, then for the instance keys in one block."""
    existing_blocks: set[ConfigAddress] = set()
    deleted_by_type: defaultdict[str, list[Instance]] = defaultdict(list)
    created_by_type: defaultdict[str, list[Instance]] = defaultdict(list)
    for instance in instances:
        if instance.prior is not None:
            existing_blocks.add(instance.address.config_address)
        if instance.action is Action.UPDATE:
            yield from _find_renamed_pools(instance)
        if instance.action is Action.DELETE:
            deleted_by_type[instance.address.type].append(instance)
        elif instance.action is Action.CREATE:
            created_by_type[instance.address.type].append(instance)
    for name in sorted(deleted_by_type.keys() & created_by_type.keys()):
        deleted = deleted_by_type[name]
        created = created_by_type[name]
        # A block with prior objects is not new: its new keys are compared with its own
        # removed keys only.
        in_new_blocks = [
            instance
            for instance in created
            if instance.address.config_address not in existing_blocks
        ]
        in_removed_blocks = [
            instance for instance in deleted if instance.decision.reason in _WITHOUT_BLOCK
        ]
        renamed_blocks = _find_similar_pairs(
            _group_by_block(in_removed_blocks), _group_by_block(in_new_blocks)
        )
        renamed = [*renamed_blocks, *_find_changed_keys(deleted, created)]
        advised = {
            instance.address for pair in renamed for group in pair for instance in group.values()
        }
        renamed += _find_equal_ids(
            [instance for instance in deleted if instance.address not in advised],
            [instance for instance in created if instance.address not in advised],
        )
        for old, new in renamed:
            yield _build_advice(old, new, removed, _get_group_addresses(old, new))


def _find_equal_ids(
    deleted: Iterable[Instance], created: Iterable[Instance]
) -> Iterator[tuple[_Group, _Group]]:
    """Yield the deleted and created instances of one id, as groups of one.

    They are one object, whatever the blocks: one `count` is 0 now, and that of another block 1.
    """
    created_by_id = {_get_id(instance.planned): instance for instance in created}
    for instance in deleted:
        object_id = _get_id(instance.before)
        if object_id and object_id in created_by_id:
            yield {"": instance}, {"": created_by_id[object_id]}


def _find_changed_keys(
    deleted: list[Instance], created: list[Instance]
) -> Iterator[tuple[_Group, _Group]]:
    """Yield similar pairs of a deleted and a created instance of one block, as groups of one.

    Only keys differ.
    """
    new_groups = _list_single_groups(created)
    for block, old in _list_single_groups(deleted).items():
        with_removed_key = [group for group in old if group[""].decision.reason in _WITHOUT_KEY]
        yield from _find_similar_pairs(with_removed_key, new_groups.get(block, []))


def _list_single_groups(instances: Iterable[Instance]) -> dict[object, list[_Group]]:
    """Return a group of its own for each instance, by block.

    The only instance of a group has the key "".
    """
    groups: dict[object, list[_Group]] = {}
    for instance in instances:
        groups.setdefault(instance.address.config_address, []).append({"": instance})
    return groups


def _group_by_block(instances: Iterable[Instance]) -> list[_Group]:
    """Group instances by block.

    In a group they have the keys of their modules and their own, `("eu", 0)`.
    """
    groups: dict[object, _Group] = {}
    for instance in instances:
        keys = (
            *(step.key for step in instance.address.module if step.key is not None),
            instance.address.key,
        )
        groups.setdefault(instance.address.config_address, {})[keys] = instance
    return list(groups.values())


def _find_similar_pairs(old: list[_Group], new: list[_Group]) -> Iterator[tuple[_Group, _Group]]:
    """Yield the pairs of similar groups without another similar partner on either side.

    With two candidates, any advice would be a guess. Too many groups are not compared: that would
    take too long.
    """
    if max(len(old), len(new)) > _MAXIMUM_COMPARED:
        return
    similar_pairs = [
        (before, after) for before, after in product(old, new) if _is_similar_group(before, after)
    ]
    for before, after in similar_pairs:
        pairs_with_either = sum(
            before is first or after is second for first, second in similar_pairs
        )
        # This pair alone.
        if pairs_with_either == 1:
            yield before, after


def _is_similar_group(before: _Group, after: _Group) -> bool:
    """Return whether the instances of equal keys are similar; two single ones may change keys."""
    if before.keys() == after.keys():
        return all(_is_similar_instance(before[key], after[key]) for key in before)
    if len(before) == len(after) == 1:
        return _is_similar_instance(*before.values(), *after.values())
    return False


def _list_ids(instances: Iterable[Instance], *, is_new: bool) -> list[str]:
    """Return the sorted ids of new or deleted objects; the address of one with an unknown id."""
    return sorted(
        _get_id(instance.planned if is_new else instance.before) or str(instance.address)
        for instance in instances
    )


def _get_id(attributes: Any) -> str:
    """Return the id of an object; "" if it is not known."""
    object_id = get_mapping(attributes).get("id")
    return object_id if isinstance(object_id, str) else ""


def _find_renamed_pools(instance: Instance) -> Iterator[Diagnostic]:
    """Yield a warning for each pool of an object whose arguments a new pool has."""
    before = get_mapping(get_mapping(instance.before).get(_POOL_BLOCK))
    after = get_mapping(get_mapping(instance.planned).get(_POOL_BLOCK))
    added = {name: pool for name, pool in after.items() if name not in before}
    for old_name, old_pool in before.items():
        similar = [name for name, pool in added.items() if _is_compatible(old_pool, pool)]
        if old_name in after or len(similar) != 1:
            continue
        new_name = similar[0]
        added.pop(new_name)
        order = f"Add pool {new_name} first, move the workloads, then remove {old_name}."
        detail = (
            f"Pool {old_name} is removed and pool {new_name}, with the same arguments, is added. A "
            f"pool cannot be renamed: its VMs are deleted. {order}"
        )
        brief = f"{instance.address}: a pool cannot be renamed. {order}"
        path = (_POOL_BLOCK, new_name)
        yield instance.build_diagnostic(
            Problem(path, POOL_RENAMED, detail, Severity.WARNING, brief=brief)
        )


def _is_similar_instance(deleted: Instance, created: Instance) -> bool:
    """Return whether the deleted object has the id or all configured arguments of the new one.

    A name derived from the block may differ.
    """
    configured = {name for name, value in get_mapping(created.config).items() if value is not None}
    if created.locate(("name",)) in (None, created.locate(())):
        # It has no line of its own: the default is the name of the block.
        configured.discard("name")
    before = get_mapping(deleted.before)
    planned = get_mapping(created.planned)
    # One object under two addresses.
    if isinstance(planned.get("id"), str) and planned["id"] == before.get("id"):
        return True
    return all(_is_compatible(before.get(name), planned.get(name)) for name in configured)


def _is_compatible(before: Any, after: Any) -> bool:
    """Return whether the value of a deleted object may be equal to that of a new object.

    An unknown new value may become any value. A null in a new map is not compared.
    """
    if after is UNKNOWN:
        return True
    if isinstance(after, Mapping) and isinstance(before, Mapping):
        compared = {name: value for name, value in after.items() if value is not None}
        return all(_is_compatible(before.get(name), value) for name, value in compared.items())
    if isinstance(after, (list, tuple)) and isinstance(before, (list, tuple)):
        if len(before) != len(after):
            return False
        return all(map(_is_compatible, before, after))
    return bool(before == after)


def _build_advice(
    before: _Group,
    after: _Group,
    removed: Mapping[Address, Mapping[str, int]],
    addresses: tuple[str, str],
) -> Diagnostic:
    """Build the warning about a probable rename of these instances.

    It has the `moved` block to keep them, from one of the addresses to the other.
    """
    # Any of the block or module: the warning is about all.
    instance = next(iter(after.values()))
    old, new = addresses
    subject = old if len(before) == 1 else f"{old} ({format_count(len(before), 'instance')})"
    counts: Counter[str] = Counter()
    for deleted in before.values():
        counts.update(removed.get(deleted.address, {}))
    effect = enclose(" ", format_kind_counts(counts), " would be destroyed.")
    old_ids = _list_ids(before.values(), is_new=False)
    is_same_object = old_ids == _list_ids(after.values(), is_new=True)
    if is_same_object:
        ids, objects = ("id", "The object is") if len(before) == 1 else ("ids", "The objects are")
        text = (
            f"{subject} is removed and {new}, with the same {ids}, is added. {objects} deleted and "
            f"created again.{effect} This avoids it"
        )
        summary = f"{new}: {old} is deleted and created again.{effect} This avoids it"
    else:
        text = (
            f"{subject} is removed and {new}, with the same arguments, is added.{effect} If it was "
            "only renamed, this keeps the object"
        )
        summary = f"{new}: is this {old} renamed?{effect} This keeps the object"
    text = f"{text}:\n\n{indent(render_moved_block(old, new), '  ')}"
    kind = DESTRUCTIVE if counts else RENAMED
    problem = Problem((), kind, text, Severity.WARNING, brief=summary, is_multiline=True)
    return replace(instance.build_diagnostic(problem), extra={"moved": {"from": old, "to": new}})


def _get_group_addresses(before: _Group, after: _Group) -> tuple[str, str]:
    """Return the addresses to move from and to.

    They are those of the blocks if the instances keep their keys, else those of the instances.
    """
    old = next(iter(before.values())).address
    new = next(iter(after.values())).address
    if before.keys() == after.keys() and "" not in before:
        return str(old.config_address), str(new.config_address)
    return str(old), str(new)
