"""Objects that go while one that is written alike comes: most likely they were renamed, and a `moved` block
keeps what stands.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from textwrap import indent
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from nexusform.address import Address, moved_block
from nexusform.diagnostics import Diagnostic, Problem, Severity
from nexusform.planning.instances.instance import Instance
from nexusform.plans.plan import Action
from nexusform.values import UNKNOWN
from nexusform.words import counted

RENAMED: Final = "looks-renamed"
_WITHOUT_BLOCK: Final = ("delete_because_no_resource_config", "delete_because_no_module")
_WITHOUT_KEY: Final = ("delete_because_each_key", "delete_because_count_index")
_MOST_COMPARED: Final = 20  # blocks, or instances of one block, of each side

# Instances that go or come together, by what tells them apart.
_Group: TypeAlias = dict[object, Instance]


def looks_renamed(instances: Collection[Instance]) -> Iterator[Diagnostic]:
    """Advice for each block, or instance of a block, that goes while exactly one like it comes."""
    standing = {instance.address.config for instance in instances if instance.prior is not None}
    going = [instance for instance in instances if instance.action is Action.DELETE]
    coming = [
        instance for instance in instances if instance.action is Action.CREATE and instance.prior is None
    ]
    types = {instance.address.type for instance in going} & {instance.address.type for instance in coming}
    for name in sorted(types):
        gone = [instance for instance in going if instance.address.type == name]
        new = [instance for instance in coming if instance.address.type == name]
        yield from _blocks(gone, [each for each in new if each.address.config not in standing])
        yield from _keys(gone, new)


def _blocks(gone: list[Instance], new: list[Instance]) -> Iterator[Diagnostic]:
    """Blocks that are not written any more, and blocks of which nothing stood."""
    old = _by_block(instance for instance in gone if instance.decision.reason in _WITHOUT_BLOCK)
    fresh = _by_block(new)
    for before, after in _pairs(list(old.values()), list(fresh.values())):
        first, second = next(iter(before.values())), next(iter(after.values()))
        pair = str(first.address.config), str(second.address.config)
        yield _advice(second, *pair, count=len(before))


def _keys(gone: list[Instance], new: list[Instance]) -> Iterator[Diagnostic]:
    """Instances of one block whose key is not asked for any more, and such as are new."""
    old: dict[object, list[_Group]] = {}
    for instance in gone:
        if instance.decision.reason in _WITHOUT_KEY:
            old.setdefault(instance.address.config, []).append({"": instance})
    fresh: dict[object, list[_Group]] = {}
    for instance in new:
        fresh.setdefault(instance.address.config, []).append({"": instance})
    for block, before in old.items():
        for one, other in _pairs(before, fresh.get(block, [])):
            yield _advice(other[""], str(one[""].address), str(other[""].address), count=1)


def _by_block(instances: Iterable[Instance]) -> dict[object, _Group]:
    """Instances by their block, and there by their keys."""
    groups: dict[object, _Group] = {}
    for instance in instances:
        groups.setdefault(instance.address.config, {})[_keys_of(instance.address)] = instance
    return groups


def _keys_of(address: Address) -> object:
    return (*(step.key for step in address.module if step.key is not None), address.key)


def _pairs(old: list[_Group], new: list[_Group]) -> Iterator[tuple[_Group, _Group]]:
    """Those that have exactly one like them on the other side."""
    if len(old) > _MOST_COMPARED or len(new) > _MOST_COMPARED:
        return
    likenesses = [(before, after) for before in old for after in new if _are_alike(before, after)]
    for before, after in likenesses:
        partners = sum(before is one or after is other for one, other in likenesses)
        if partners == 1:
            yield before, after


def _are_alike(before: _Group, after: _Group) -> bool:
    if before.keys() != after.keys():
        return False
    return all(_is_alike(before[key], after[key]) for key in before)


def _is_alike(gone: Instance, new: Instance) -> bool:
    """Whether what stands would be as the new one is written. A name that is not written stays as it is."""
    if gone.before is None or new.config is None or new.planned is None:
        return False
    written = {name for name, value in new.config.items() if value is not None}
    if new.block is not None and new.locate(("name",)) in (None, new.block.header_span):
        written.discard("name")  # the block's own stands in for it
    return all(_agrees(gone.before.get(name), new.planned.get(name)) for name in written)


def _agrees(before: Any, after: Any) -> bool:
    """Whether a value may be what it was: what is not known yet may be anything."""
    if after is UNKNOWN:
        return True
    if isinstance(after, Mapping) and isinstance(before, Mapping):
        return all(_agrees(before.get(name), value) for name, value in after.items() if value is not None)
    if isinstance(after, (list, tuple)) and isinstance(before, (list, tuple)):
        pairs = zip(before, after, strict=False)
        return len(before) == len(after) and all(_agrees(one, other) for one, other in pairs)
    return bool(before == after)


def _advice(instance: Instance, old: str, new: str, count: int) -> Diagnostic:
    which = old if count == 1 else f"{old} ({counted(count, 'instance')})"
    text = (
        f"{which} goes, and {new} comes, which is written alike. If it only has another name now, this keeps "
        f"what stands:\n\n{indent(moved_block(old, new), '  ')}"
    )
    brief = f"{new}: is {old} under another name? This keeps what stands"
    advice = instance.problem(Problem((), RENAMED, text, Severity.WARNING, brief=brief))
    return replace(advice, extra={"moved": {"from": old, "to": new}})
