"""Runs of names and of objects that are alike, put together so that each stands in exactly one fold; and
the table of the Nexus document in short: a row per pool, expected figures only where they differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from nexusform.address import Address
from nexusform.placement_kinds.kinds import KINDS
from nexusform.plans.plan import PlacementTable, Plan, all_decided
from nexusform.rendering.notation.hcl_text import quoted
from nexusform.rendering.report.placement_rows import PlacementGroup
from nexusform.words import counted, first_of, spans

_NUMBERED: Final = re.compile(r"(.*?)([0-9]{1,15})", re.DOTALL)
_MOST_RUNS: Final = 6
_MOST_SPANS: Final = 12  # of numbers behind one prefix
_LONGEST_KEYS: Final = 32  # characters of keys in an address
_LONGEST_LIST: Final = 2  # numbers in a row that are listed rather than written as a span

Key: TypeAlias = int | str | None


class NameRun(Struct, frozen=True):
    """Names that differ in the number at their end alone: `prefix` and the numbers as they are written.

    A name without a number is its own prefix; `numbers` is then ("",).
    """

    prefix: str
    numbers: tuple[str, ...]

    @property
    def first(self) -> str:
        """The name with the lowest number."""
        return f"{self.prefix}{self.numbers[0]}"

    @property
    def last(self) -> str:
        """The name with the highest number."""
        return f"{self.prefix}{self.numbers[-1]}"

    @property
    def span(self) -> str:
        """The numbers in short: `1..8`, `7,8`, `4`, ""."""
        if len(self.numbers) > _LONGEST_LIST:
            return f"{self.numbers[0]}..{self.numbers[-1]}"
        return ",".join(self.numbers)


def name_runs(names: Iterable[str]) -> list[NameRun]:
    """Runs without a gap; every name is in exactly one. In the order of the first of each prefix.

    Numbers of one run are padded to one width (`08`, `09`, `10`) or not at all (`8`, `9`, `10`).
    """
    split_names = [_split(name) for name in dict.fromkeys(names)]
    padded = {(prefix, len(digits)) for prefix, digits in split_names if _is_padded(digits)}
    groups: dict[tuple[str, int], list[str]] = {}
    for prefix, digits in split_names:
        width = len(digits) if (prefix, len(digits)) in padded else 0
        groups.setdefault((prefix, width if digits else -1), []).append(digits)
    runs: list[NameRun] = []
    for (prefix, width), numbers in groups.items():
        runs += [NameRun(prefix, ("",))] if width < 0 else _number_runs(prefix, numbers)
    return runs


def _number_runs(prefix: str, numbers: Sequence[str]) -> list[NameRun]:
    """The runs among numbers that are padded alike."""
    written = {int(number): number for number in numbers}
    runs = []
    for low, high in spans(sorted(written)):
        runs.append(NameRun(prefix, tuple(written[number] for number in range(low, high + 1))))
    return runs


def _split(name: str) -> tuple[str, str]:
    """The name without the number at its end, and that number; "" where there is none."""
    match = _NUMBERED.fullmatch(name)
    return (match.group(1), match.group(2)) if match else (name, "")


def _is_padded(digits: str) -> bool:
    return len(digits) > 1 and digits.startswith("0")


def names_text(names: Iterable[str], most: int = _MOST_RUNS) -> str:
    """`rack1,2,4..7, db`: runs with their prefix said once; beyond `most` prefixes, and beyond a dozen runs
    of one, how many names more.
    """
    different = list(dict.fromkeys(names))
    runs: dict[str, list[NameRun]] = {}
    for run in name_runs(different):
        runs.setdefault(run.prefix, []).append(run)
    if len(runs) > most:
        return f"{', '.join(different[: most - 1])} and {len(different) - most + 1:,} more"
    return ", ".join(_numbers_text(prefix, alike) for prefix, alike in runs.items())


def instances_text(names: Iterable[str], most: int = _MOST_RUNS) -> str:
    """The same of what may be addresses: `rack.r[0..7,9], rack.spare`."""
    texts = instance_texts(names)
    keyed = [text for text in texts if text.endswith("]")]
    plain = [text for text in texts if not text.endswith("]")]
    folded = [names_text(plain, most)] if plain else []
    return first_of([*keyed, *folded], most)


def instance_texts(names: Iterable[str]) -> list[str]:
    """Addresses, those of one block in one: `rack.r[0..7,9]`, `app["a", "c" and 280 more]`, `rack.spare`."""
    by_block: dict[str, list[int | str]] = {}
    for name in dict.fromkeys(names):
        block, _, key = name.rpartition("[")
        match = _KEY.fullmatch(key)
        if block and match:
            by_block.setdefault(block, []).append(int(match[1]) if match[1] else match[2])
        else:
            by_block.setdefault(name, [])
    return [f"{block}{_few_keys(keys)}" if keys else block for block, keys in by_block.items()]


_KEY: Final = re.compile(r'(?:([0-9]+)|"([^"\\]*)")\]')


def alike_groups(groups: Iterable[PlacementGroup]) -> list[PlacementGroup]:
    """Placements of which the same becomes as one, under all of their names."""
    alike: dict[object, list[PlacementGroup]] = {}
    for group in groups:
        key = (group.kind, group.lines) if KINDS[group.kind].by_resource else id(group)
        alike.setdefault(key, []).append(group)
    return [
        replace(of_same[0], name=instances_text([group.name for group in of_same]))
        if of_same[1:]
        else of_same[0]
        for of_same in alike.values()
    ]


def _numbers_text(prefix: str, runs: Sequence[NameRun]) -> str:
    """`rack1,2,4..7`: names that differ in their number, as many as a line has room for."""
    shown = runs if len(runs) <= _MOST_SPANS else runs[: _MOST_SPANS - 4]
    hidden = sum(len(run.numbers) for run in runs[len(shown) :])
    note = f" and {hidden:,} more" if hidden else ""
    return f"{prefix}{','.join(run.span for run in shown)}{note}"


def keys_text(keys: Sequence[int | str]) -> str:
    """Instance keys as they stand in brackets: `[0..7,9]`, `["1".."8"]`, `["a", "b"]`."""
    return _bracketed_keys(keys, [text for text, _ in _key_spans(keys)])


def _few_keys(keys: Sequence[int | str]) -> str:
    """The same in no more than a line has room for, and how many more there are."""
    runs = _key_spans(keys)
    whole = _bracketed_keys(keys, [text for text, _ in runs])
    if len(whole) <= _LONGEST_KEYS:
        return whole
    shown: list[str] = []
    hidden = len(keys)
    for text, count in runs:
        if shown and len(_bracketed_keys(keys, [*shown, text])) > _LONGEST_KEYS:
            break
        shown.append(text)
        hidden -= count
    if hidden:
        shown[-1] += f" and {hidden:,} more"
    return _bracketed_keys(keys, shown)


def _bracketed_keys(keys: Sequence[int | str], texts: Sequence[str]) -> str:
    has_names = any(isinstance(key, str) for key in keys)
    return f"[{(', ' if has_names else ',').join(texts)}]"


def _key_spans(keys: Sequence[int | str]) -> list[tuple[str, int]]:
    """Keys in runs, and how many each run stands for."""
    numbers = sorted(key for key in keys if isinstance(key, int))
    texts = [(run.span, len(run.numbers)) for run in name_runs(map(str, numbers))]
    for run in name_runs(key for key in keys if isinstance(key, str)):
        if len(run.numbers) > _LONGEST_LIST:
            texts.append((f"{quoted(run.first)}..{quoted(run.last)}", len(run.numbers)))
        else:
            texts += [(quoted(f"{run.prefix}{number}"), 1) for number in run.numbers]
    return texts


# --- addresses ---------------------------------------------------------------------------------

_Shape: TypeAlias = tuple[object, ...]


class Folded(Struct, frozen=True):
    """Addresses that differ in one thing: which are at these positions of what was folded, and one text.

    `keys` says which instances they are where the text only counts them.
    """

    members: tuple[int, ...]
    text: str
    keys: str = ""


def fold_addresses(addresses: Sequence[Address], kinds: Sequence[object]) -> list[Folded]:
    """Addresses of one kind that differ in one instance key, or in the number at the end of their name.

    `kinds` says of each address what it is alike in. Every position is in exactly one fold; folds stand in
    the order of their first members.
    """
    with_keys: dict[object, list[int]] = {}
    without_keys: dict[object, list[int]] = {}
    for position, address in enumerate(addresses):
        slot = _last_key(address)
        if slot is None:
            likeness = (kinds[position], address.mode, address.type, address.module)
            without_keys.setdefault(likeness, []).append(position)
        else:
            with_keys.setdefault((kinds[position], _without(address, slot), slot), []).append(position)
    folds = [_keyed(members, addresses) for members in with_keys.values()]
    for members in without_keys.values():
        folds += _named(members, addresses)
    return sorted(folds, key=lambda fold: fold.members[0])


def _last_key(address: Address) -> int | None:
    """Which key an address may be folded by: -1 its own, 0, 1, ... that of a module; None when it has none.

    Its own key comes first, then that of the innermost module.
    """
    if address.key is not None:
        return -1
    for position in range(len(address.module) - 1, -1, -1):
        if address.module[position].key is not None:
            return position
    return None


def _without(address: Address, slot: int) -> _Shape:
    """The address without the key of that slot."""
    modules = [
        (step.name, None if position == slot else step.key) for position, step in enumerate(address.module)
    ]
    return (tuple(modules), address.mode, address.type, address.name, None if slot == -1 else address.key)


def _keyed(members: Sequence[int], addresses: Sequence[Address]) -> Folded:
    """Instances of one block, or of one block in instances of one module."""
    first_address = addresses[members[0]]
    if len(members) == 1:
        return Folded(tuple(members), str(first_address))
    slot = _last_key(first_address)
    assert slot is not None, "folded by a key"
    keys: list[int | str] = []
    for member in members:
        address = addresses[member]
        key = address.key if slot == -1 else address.module[slot].key
        assert key is not None, "of one shape"
        keys.append(key)
    text = keys_text(keys)
    if len(text) <= _LONGEST_KEYS:
        return Folded(tuple(members), _text_with(first_address, slot, text))
    return Folded(
        tuple(members), _text_with(first_address, slot, f"[{len(keys):,} keys]"), names_text(map(str, keys))
    )


def _text_with(address: Address, slot: int, keys: str) -> str:
    """The address with this text in place of the key of that slot."""
    steps: list[str] = []
    for position, step in enumerate(address.module):
        key = keys if position == slot else _bracketed(step.key)
        steps.append(f"module.{step.name}{key}")
    data_prefix = ["data"] if address.mode == "data" else []
    key_text = keys if slot == -1 else _bracketed(address.key)
    return ".".join([*steps, *data_prefix, address.type, f"{address.name}{key_text}"])


def _bracketed(key: Key) -> str:
    return "" if key is None else keys_text([key])


def _named(members: Sequence[int], addresses: Sequence[Address]) -> list[Folded]:
    """Blocks of one type without keys: those whose names are one run."""
    by_name: Mapping[str, int] = {addresses[member].name: member for member in members}
    if len(by_name) < len(members):  # deposed objects share an address
        return [Folded((member,), str(addresses[member])) for member in members]
    folds: list[Folded] = []
    for run in name_runs(by_name):
        positions = tuple(by_name[f"{run.prefix}{number}"] for number in run.numbers)
        first_address = addresses[positions[0]]
        front = str(first_address).removesuffix(first_address.name)
        folds.append(Folded(positions, f"{front}{run.prefix}{run.span}"))
    return folds


MOST_ROWS: Final = 40  # beyond, pools that differ in their cluster alone are one row


class PoolRow(Struct, frozen=True):
    """A pool, or alike pools of several clusters, as texts.

    `sure` is how many VMs have a rack that holds as many of the pool in every tie-break; "" when none was
    repeated or nothing is placed. `note` says what was expected, "" where that is what is. `pools` counts
    what it stands for.
    """

    cluster: str
    pool: str
    sku: str
    count: str
    racks: str
    per_rack: str
    sure: str
    note: str = ""
    pools: int = 1


class SitePools(Struct, frozen=True):
    """The rows of one site, by its name; `left_out` pools have none. `decided`: all VMs that are placed are
    told where to go, none is predicted.
    """

    site: str
    rows: tuple[PoolRow, ...]
    left_out: int = 0
    decided: bool = False


def site_pools(plan: Plan, tables: Sequence[PlacementTable]) -> tuple[SitePools, ...]:
    """These tables by site, each table in one row."""
    names = {site.id: site.name for site in plan.sites}
    by_site: dict[str, list[PlacementTable]] = {}
    for table in tables:
        if table.total_count:
            by_site.setdefault(table.site_id, []).append(table)
    are_folded = len(tables) > MOST_ROWS
    sites = []
    for site_id, its_tables in by_site.items():
        rows = _folded(its_tables, plan.tie_breaks) if are_folded else _single(its_tables, plan.tie_breaks)
        shown = rows[:MOST_ROWS]
        left_out = sum(row.pools for row in rows[MOST_ROWS:])
        name, decided = names.get(site_id, site_id), all_decided(its_tables)
        sites.append(SitePools(name, tuple(shown), left_out, decided))
    return tuple(sites)


def _single(tables: Iterable[PlacementTable], tie_breaks: int) -> list[PoolRow]:
    """A row for each table."""
    return [_row([table], tie_breaks) for table in tables]


def _folded(tables: Iterable[PlacementTable], tie_breaks: int) -> list[PoolRow]:
    """Pools of one name, SKU and size as one row, in the order of the first of each."""
    alike: dict[tuple[str, str, int], list[PlacementTable]] = {}
    for table in tables:
        alike.setdefault((table.pool, table.vm_sku_name, table.total_count), []).append(table)
    return [_row(members, tie_breaks) for members in alike.values()]


def _row(tables: Sequence[PlacementTable], tie_breaks: int) -> PoolRow:
    """One row of several pools that are placed alike."""
    first_table = tables[0]
    single = len(tables) == 1
    per_rack = list(chain.from_iterable(table.actual_vms_per_rack.values() for table in tables))
    racks = dict.fromkeys(chain.from_iterable(table.actual_vms_per_rack for table in tables))
    return PoolRow(
        cluster=names_text(table.cluster for table in tables),
        pool=first_table.pool,
        sku=first_table.vm_sku_name,
        count=f"{first_table.total_count:,}" if single else f"{len(tables):,} x {first_table.total_count:,}",
        racks=names_text(racks) if single else counted(len(racks), "rack"),
        per_rack=range_text(per_rack),
        sure=_sure(tables, tie_breaks),
        note=_expected(first_table) if single else _expected_of_many(tables),
        pools=len(tables),
    )


def _sure(tables: Sequence[PlacementTable], tie_breaks: int) -> str:
    """How many of the VMs have a sure rack, "" where nobody asked."""
    placed = sum(table.placed for table in tables)
    sure = sum(table.racks_certain for table in tables)
    total = sum(table.total_count for table in tables)
    if not tie_breaks or not placed:
        return ""
    return f"{sure:,}" if placed == total else f"{sure:,} of {placed:,}"


def range_text(numbers: Iterable[int]) -> str:
    """`3`, `3..5`."""
    different = sorted(set(numbers))
    if not different:
        return "-"
    low, high = different[0], different[-1]
    return str(low) if low == high else f"{low}..{high}"


def _differs(table: PlacementTable) -> bool:
    """Whether a pool is spread otherwise than expected."""
    numbers = set(table.actual_vms_per_rack.values())
    return table.actual_racks != table.expected_racks or not numbers <= set(table.expected_vms_per_rack)


def _expected(table: PlacementTable) -> str:
    """`expected 4 per rack; rack3,6 get 5, rack7,8 get 3`."""
    if not _differs(table):
        return ""
    per_rack = range_text(table.expected_vms_per_rack)
    on = "" if table.actual_racks == table.expected_racks else f" on {counted(table.expected_racks, 'rack')}"
    unusual = _unusual(table.actual_vms_per_rack, table.expected_vms_per_rack)
    return f"expected {per_rack} per rack{on}{f'; {unusual}' if unusual else ''}"


def _unusual(actual: Mapping[str, int], expected: tuple[int, int]) -> str:
    """The racks that get another number of VMs than expected: `rack3 gets 7, rack1..2 get 5`."""
    racks: dict[int, list[str]] = {}
    for rack, number in actual.items():
        if number not in expected:
            racks.setdefault(number, []).append(rack)
    texts = []
    for number in sorted(racks, reverse=True):
        verb = "gets" if len(racks[number]) == 1 else "get"
        texts.append(f"{names_text(racks[number])} {verb} {number}")
    return ", ".join(texts)


def _expected_of_many(tables: Iterable[PlacementTable]) -> str:
    """What was expected of those pools that are spread otherwise."""
    different = [table for table in tables if _differs(table)]
    if not different:
        return ""
    per_rack = range_text(chain.from_iterable(table.expected_vms_per_rack for table in different))
    clusters = names_text(table.cluster for table in different)
    return f"expected {per_rack} per rack for {clusters}"
