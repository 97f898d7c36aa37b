"""Folding of similar names and objects into runs, and short rows of the Nexus placement table."""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.name_ranges import (
    MAX_LISTED_NUMBERS,
    build_name_runs,
    format_names,
    format_part_names,
    format_range,
)
from nexusform.diagnostics.phrases import (
    compute_natural_sort_key,
    enclose,
    format_count,
    format_first_items,
    group_by,
    join_texts,
    select_word_form,
)
from nexusform.placement_kinds.placement_kind import VM
from nexusform.placement_kinds.registry import KINDS
from nexusform.plans.plan import PlacementTable, Plan, is_fully_decided
from nexusform.rendering.report.placement_rows import (
    MAX_SINGLE_MOVES,
    PlacementLine,
    PlacementLineGroup,
    build_folded_line,
    build_recreation_line,
)
from nexusform.resources.address import Address
from nexusform.scheduling.racks.vms import Interval

_MAX_PREFIXES: Final = 6
# Number of characters of keys in an address.
_MAX_KEYS_LENGTH: Final = 32

Key: TypeAlias = int | str | None
_KEY: Final = re.compile(r'(?:([0-9]+)|"([^"\\]*)")\]')
# Text that replaces the name of each site.
SITE: Final = "SITE"
# Rows of a site.
MAX_ROWS: Final = 40
# Beyond that, pools that differ in their cluster only share a row.
MAX_LISTED_POOLS: Final = 15
# Pools with equal lines without locations: more share a line.
_MAX_EQUAL_POOLS: Final = 2


def format_instances(names: Iterable[str], maximum: int = _MAX_PREFIXES) -> str:
    """Format names or addresses as runs: `rack.r[0..7,9], rack.spare`."""
    texts_by_key_presence = group_by(fold_instances(names), lambda text: text.endswith("]"))
    parts = texts_by_key_presence.get(True, [])
    # Without instance keys, names form runs by their numbers.
    if False in texts_by_key_presence:
        parts.append(format_names(texts_by_key_presence[False], maximum))
    return format_first_items(parts, maximum)


def fold_instances(names: Iterable[str]) -> list[str]:
    """Fold addresses of one block into one text.

    Examples are `rack.r[0..7,9]`, `app["a", "c" and 280 more]` and `rack.spare`.
    """
    by_block: dict[str, list[int | str]] = {}
    for name in dict.fromkeys(names):
        block, _, key = name.rpartition("[")
        match = _KEY.fullmatch(key)
        if match:
            # A number or a text.
            by_block.setdefault(block, []).append(int(match[1]) if match[1] else match[2])
        else:
            # A name without a key.
            by_block.setdefault(name, [])
    return [f"{block}{_truncate_keys(keys)}" if keys else block for block, keys in by_block.items()]


def merge_equal_groups(groups: Iterable[PlacementLineGroup]) -> list[PlacementLineGroup]:
    """Merge placements with equal clusters and actions, and pools that differ in names only.

    Pools of several clusters are merged first, then those of several sites.
    """
    # Groups with their positions.
    merged: list[tuple[int, PlacementLineGroup]] = []
    numbered = list(enumerate(groups))
    for members in group_by(numbered, lambda member: _build_pool_shape(member[1])).values():
        pools = [pool for _, pool in members]
        lines = chain.from_iterable(pool.lines for pool in pools)
        has_locations = any(not line.is_recreation for line in lines)
        # A folded line has no single locations: few of them are listed.
        maximum = MAX_SINGLE_MOVES if has_locations else _MAX_EQUAL_POOLS
        if len(pools) > maximum:
            merged.append((members[0][0], _merge_pools(pools)))
        else:
            merged += members
    in_order = [group for _, group in sorted(merged, key=lambda member: member[0])]
    return list(map(_merge_groups, group_by(in_order, _build_content_key).values()))


def _build_pool_shape(group: PlacementLineGroup) -> object:
    """Return a key, equal for pools of a site that differ in the names of clusters and hosts only.

    The key of a group that is never merged differs from that of any other group.
    """
    if group.kind != VM or not group.lines:
        return id(group)
    shape: list[object] = []
    for line in group.lines:
        _, cluster, rest = _split_label(line)
        if not cluster:
            return id(group)
        target = line.target if line.is_recreation else ""
        texts = (line.symbol, line.action.value, line.effect.value, line.trigger, line.state)
        shape.append((texts, rest, target, line.doubt, bool(line.origin), line.count))
    first_row = group.lines[0].rows[0]
    return (first_row.site_id, first_row.pool, tuple(shape))


def _split_label(line: PlacementLine) -> tuple[str, str, str]:
    """Split the label of VMs into the text before their cluster, the cluster and the rest.

    An example is `("SITE/", "edge01", "-pool1-0..3")`. All three are "" for VMs without the name
    of their cluster.
    """
    cluster = line.rows[0].cluster if line.rows else ""
    for separator in "-/":
        before, found_cluster, rest = line.label.partition(f"{cluster}{separator}")
        if cluster and found_cluster and (not before or before.endswith("/")):
            return before, cluster, separator + rest
    return "", "", ""


def _merge_pools(groups: Sequence[PlacementLineGroup]) -> PlacementLineGroup:
    """Merge pools of one shape into one group: each of its lines has the VMs of all pools."""
    lines: list[PlacementLine] = []
    for equal_lines in zip(*(group.lines for group in groups), strict=True):
        rows = list(chain.from_iterable(line.rows for line in equal_lines))
        first_line = equal_lines[0]
        before, _, rest = _split_label(first_line)
        label = before + format_part_names((row.cluster for row in rows), rest[1:], rest[0])
        if first_line.is_recreation:
            merged_line = build_recreation_line(rows, first_line.state)
        elif first_line.is_platform_choice:
            tables = [group.table for group in groups if group.table is not None]
            racks = set(chain.from_iterable(table.possible_vms_per_rack for table in tables))
            origin = format_names(sorted(racks, key=compute_natural_sort_key))
            merged_line = replace(first_line, origin=origin, count=len(rows))
            label = f"{label} each"
        else:
            merged_line = build_folded_line(rows)
        lines.append(replace(merged_line, label=label))
    return replace(groups[0], lines=tuple(lines))


def _build_content_key(group: PlacementLineGroup) -> object:
    """Return a key, equal for groups to merge.

    These are placements with equal lines, and pools with equal lines apart from the id of their
    site. Other groups are never merged.
    """
    # Bindings of a placement.
    if KINDS[group.kind].by_resource:
        return group.kind, tuple(replace(line, rows=()) for line in group.lines)
    if group.table is not None and group.lines:
        return group.kind, _normalize_lines(group)
    # The key differs from that of any other group.
    return id(group)


def _normalize_lines(group: PlacementLineGroup) -> tuple[PlacementLine, ...]:
    """Return the lines of a pool with a placeholder for the id of its site.

    The placeholder makes them comparable with other sites.
    """
    assert group.table is not None, "the caller passes pools only"
    lines = []
    for line in group.lines:
        texts = (line.label, line.origin, line.target)
        label, origin, target = (replace_site(text, group.table.site_id) for text in texts)
        lines.append(
            replace(
                line, label=label.removeprefix(f"{SITE}/"), origin=origin, target=target, rows=()
            )
        )
    return tuple(lines)


def _merge_groups(groups: Sequence[PlacementLineGroup]) -> PlacementLineGroup:
    """Merge groups with equal lines into one.

    The groups of several placements get all their names, as in `app["a", "b"]`. Those of one pool
    on several sites get the list of sites.
    """
    if len(groups) == 1:
        return groups[0]
    # The name of bindings is the address of their placement.
    if KINDS[groups[0].kind].by_resource:
        return replace(groups[0], name=format_instances([group.name for group in groups]))
    sites = [group.table.site_id for group in groups if group.table is not None]
    return replace(groups[0], lines=_normalize_lines(groups[0]), sites=tuple(sites))


def format_keys(keys: Sequence[Key]) -> str:
    """Format instance keys in brackets: `[0..7,9]`, `["1".."8"]`, `["a", "b"]`."""
    return _format_bracketed_keys(keys, [text for text, _ in _group_keys_into_runs(keys)])


def _truncate_keys(keys: Sequence[int | str]) -> str:
    """Format instance keys, limited to one line.

    The first run of keys is always visible, and the number of omitted keys follows the last one:
    `["a", "c" and 280 more]`.
    """
    # The first run is always visible.
    (first_text, first_count), *runs = _group_keys_into_runs(keys)
    hidden_count = len(keys) - first_count
    visible_texts = [first_text]
    for text, count in runs:
        if len(_format_bracketed_keys(keys, [*visible_texts, text])) > _MAX_KEYS_LENGTH:
            break
        visible_texts.append(text)
        hidden_count -= count
    if hidden_count:
        visible_texts[-1] += f" and {hidden_count:,} more"
    return _format_bracketed_keys(keys, visible_texts)


def _format_bracketed_keys(keys: Sequence[Key], texts: Sequence[str]) -> str:
    """Join the texts of keys: with spaces if a key is a string, else without."""
    has_names = any(isinstance(key, str) for key in keys)
    return f"[{(', ' if has_names else ',').join(texts)}]"


def _group_keys_into_runs(keys: Sequence[Key]) -> list[tuple[str, int]]:
    """Return pairs of a text and its number of instance keys.

    Numbers of `count` come first, then strings of `for_each`. A run without gaps is one pair,
    `("0..3", 4)` or `('"a1".."a8"', 8)`; the strings of a short run are a pair each.
    """
    from nexusform.rendering.notation.hcl_text import quote_string

    numbers = sorted(key for key in keys if isinstance(key, int))
    texts = [(run.span, len(run.numbers)) for run in build_name_runs(map(str, numbers))]
    for run in build_name_runs(key for key in keys if isinstance(key, str)):
        if len(run.numbers) > MAX_LISTED_NUMBERS:
            texts.append((f"{quote_string(run.first)}..{quote_string(run.last)}", len(run.numbers)))
        else:
            texts += [(quote_string(f"{run.prefix}{number}"), 1) for number in run.numbers]
    return texts


class FoldedAddresses(Struct, frozen=True):
    """Addresses that differ in one part: their positions and one text.

    `keys` lists the instance keys that the text only counts.
    """

    members: tuple[int, ...]
    text: str
    keys: str = ""


def fold_addresses(addresses: Sequence[Address], kinds: Sequence[object]) -> list[FoldedAddresses]:
    """Fold addresses that differ in one instance key or final number.

    Examples are `rack.r[0]` and `rack.r[1]`, or `rack.r1` and `rack.r2`. `kinds` has an element for
    each address; only addresses with equal elements fold. The members of a fold are positions in
    `addresses`. Every position is in one fold; folds are ordered by first member.
    """
    # Positions by kind and by address without its folded key.
    with_keys: dict[object, list[int]] = {}
    # Positions by kind, mode, type and module.
    without_keys: dict[object, list[int]] = {}
    for position, address in enumerate(addresses):
        key_position = _find_folded_key_position(address)
        if key_position is None:
            group = (kinds[position], address.mode, address.type, address.module)
            without_keys.setdefault(group, []).append(position)
        else:
            keys = _list_keys(address)
            # The folded key may differ.
            keys[key_position] = None
            modules = tuple(step.name for step in address.module)
            names = (modules, address.mode, address.type, address.name)
            with_keys.setdefault((kinds[position], names, tuple(keys), key_position), []).append(
                position
            )
    folds = [_fold_addresses_by_key(members, addresses) for members in with_keys.values()]
    for members in without_keys.values():
        folds += _fold_addresses_by_name(members, addresses)
    return sorted(folds, key=lambda fold: fold.members[0])


def _list_keys(address: Address) -> list[Key]:
    """Return the key of each module and of the object itself; None for a part without a key."""
    return [*(step.key for step in address.module), address.key]


def _find_folded_key_position(address: Address) -> int | None:
    """Return the position of the last key of an address in `_list_keys`; None without any key."""
    positions = [position for position, key in enumerate(_list_keys(address)) if key is not None]
    return positions[-1] if positions else None


def _fold_addresses_by_key(members: Sequence[int], addresses: Sequence[Address]) -> FoldedAddresses:
    """Fold addresses differing in one key, such as the instances of a block: `rack.r[0..7,9]`.

    `members` are their positions in `addresses`. With too many keys for a line, the text has their
    number, and `keys` lists them.
    """
    first_address = addresses[members[0]]
    if len(members) == 1:
        return FoldedAddresses(tuple(members), str(first_address))
    key_position = _find_folded_key_position(first_address)
    assert key_position is not None, "folded by a key"
    keys = [_list_keys(addresses[member])[key_position] for member in members]
    text = format_keys(keys)
    if len(text) <= _MAX_KEYS_LENGTH:
        return FoldedAddresses(tuple(members), _format_address(first_address, key_position, text))
    text = _format_address(first_address, key_position, f"[{len(keys):,} keys]")
    return FoldedAddresses(tuple(members), text, keys=format_names(map(str, keys)))


def _format_address(address: Address, key_position: int, keys: str) -> str:
    """Format the address with a text in place of the key at a position."""
    key_texts = ["" if key is None else format_keys([key]) for key in _list_keys(address)]
    key_texts[key_position] = keys
    *module_keys, own_key = key_texts
    modules = [
        f"module.{step.name}{key}" for step, key in zip(address.module, module_keys, strict=True)
    ]
    data_prefix = ["data"] if address.mode == "data" else []
    return ".".join([*modules, *data_prefix, address.type, f"{address.name}{own_key}"])


def _fold_addresses_by_name(
    members: Sequence[int], addresses: Sequence[Address]
) -> list[FoldedAddresses]:
    """Fold blocks of one type without keys by runs of names.

    `rack.r1` and `rack.r2` become `rack.r1,2`. `members` are the positions of these blocks in
    `addresses`, and so are those in the results.
    """
    by_name: Mapping[str, int] = {addresses[member].name: member for member in members}  # positions
    # A deposed object has the address of its replacement: fold nothing.
    if len(by_name) < len(members):
        return [FoldedAddresses((member,), str(addresses[member])) for member in members]
    folds: list[FoldedAddresses] = []
    for run in build_name_runs(by_name):
        positions = tuple(by_name[f"{run.prefix}{number}"] for number in run.numbers)
        first_address = addresses[positions[0]]
        front = str(first_address).removesuffix(first_address.name)
        folds.append(FoldedAddresses(positions, f"{front}{run.prefix}{run.span}"))
    return folds


class PoolRow(Struct, frozen=True):
    """Texts of a pool on `rack_count` racks, or of `pools` similar ones on several clusters.

    `exact_counts` and `exact_machines` are the numbers of placed VMs with an exact rack count or
    machine; "" without samples. `note` describes a deviation from the expected spread, or "".
    `spread` has the number of VMs of each rack.
    """

    cluster: str
    pool: str
    sku: str
    count: str
    racks: str
    per_rack: str
    exact_counts: str
    exact_machines: str
    note: str = ""
    pools: int = 1
    spread: str = ""
    rack_count: int = 0


class SitePools(Struct, frozen=True):
    """The rows of one site; `hidden_pools` have no row.

    `is_decided` means that all placed VMs have an explicit location and none is predicted. `names`
    are the names of equal sites.
    """

    site: str
    rows: tuple[PoolRow, ...]
    hidden_pools: int = 0
    is_decided: bool = False
    names: tuple[str, ...] = ()


def build_site_pools(
    plan: Plan, tables: Sequence[PlacementTable], maximum: int = MAX_LISTED_POOLS
) -> tuple[SitePools, ...]:
    """Build the rows of the pools of each site, from one table per pool.

    If there are more tables than `maximum`, pools with equal names, SKUs and sizes on a site share
    a row. A site shows MAX_ROWS rows; `hidden_pools` counts the pools of the others. Sites with
    equal rows are merged.
    """
    site_names = {site.id: site.name for site in plan.site_records.sites}
    tables_by_site = group_by(
        (table for table in tables if table.total_count), lambda table: table.site_id
    )
    sites = []
    # A table is for one pool.
    for site_id, site_tables in tables_by_site.items():
        # Each group becomes a row.
        pool_groups = [[table] for table in site_tables]
        # Pools with equal names, SKUs and sizes share a row.
        if len(tables) > maximum:
            similar = group_by(
                site_tables, lambda table: (table.pool, table.vm_sku_name, table.total_count)
            )
            pool_groups = list(similar.values())
        rows = [_build_pool_row(pool_tables, plan.figures.samples) for pool_tables in pool_groups]
        hidden_pools = sum(row.pools for row in rows[MAX_ROWS:])
        name = site_names.get(site_id, site_id)
        is_decided = is_fully_decided(site_tables)
        sites.append(
            SitePools(name, tuple(rows[:MAX_ROWS]), hidden_pools, is_decided, names=(name,))
        )
    return _fold_equal_sites(sites)


def _fold_equal_sites(sites: Sequence[SitePools]) -> tuple[SitePools, ...]:
    """Fold sites with equal rows into one, apart from the names of sites, racks and clusters.

    The rows of several sites have general names: `SITE-rack1,2`.
    """
    folded_sites: list[SitePools] = []
    for general_site, members in group_by(sites, _remove_site_names).items():
        rows = _restore_site_names(general_site.rows, members)
        if rows is not None:
            folded_sites.append(_merge_sites(general_site, rows, members))
            continue
        # The clusters of a row have several prefixes, so fold only sites with equal clusters.
        similar = group_by(
            members, lambda site: tuple(replace_site(row.cluster, site.site) for row in site.rows)
        )
        for similar_sites in similar.values():
            rows = _restore_site_names(general_site.rows, similar_sites)
            assert rows is not None, "equal clusters have one prefix"
            folded_sites.append(_merge_sites(general_site, rows, similar_sites))
    return tuple(folded_sites)


def _remove_site_names(site: SitePools) -> SitePools:
    """Return the site without names, as the key for folding equal sites.

    SITE replaces the name of the site. Clusters have their position on the site as name. The racks
    of a single pool become their number: `3 racks`.
    """
    clusters = list(dict.fromkeys(row.cluster for row in site.rows))
    rows: list[PoolRow] = []
    for row in site.rows:
        # Of several pools: `3 racks each`.
        racks = row.racks
        if row.pools == 1:
            racks = format_count(row.rack_count, "rack")
        general_row = replace(
            row,
            cluster=str(clusters.index(row.cluster)),
            pool=replace_site(row.pool, site.site),
            racks=racks,
            note=replace_site(row.note, site.site),
            spread="",
        )
        rows.append(general_row)
    return replace(site, site="", names=(), rows=tuple(rows))


def _merge_sites(
    general_site: SitePools, rows: tuple[PoolRow, ...], members: Sequence[SitePools]
) -> SitePools:
    """Return one site for all members: with these rows, but unchanged if there is only one."""
    if len(members) == 1:
        return members[0]
    names = tuple(member.site for member in members)
    return replace(general_site, site=f"{format_names(names)}, each", rows=rows, names=names)


def _restore_site_names(
    rows: Sequence[PoolRow], sites: Sequence[SitePools]
) -> tuple[PoolRow, ...] | None:
    """Return the common `rows` of equal sites with names for all of them.

    In the names of clusters and racks, SITE replaces the name of the site: `SITE-rack1,2`. A row
    gets the clusters of all sites. It gets the racks if they are equal on all sites, else it keeps
    their number. Return None if the clusters of a row have no common prefix.
    """
    named_rows: list[PoolRow] = []
    for number, row in enumerate(rows):
        # One text if equal on all.
        racks = {replace_site(site.rows[number].racks, site.site) for site in sites}
        clusters = dict.fromkeys(
            replace_site(site.rows[number].cluster, site.site) for site in sites
        )
        if len({run.prefix for run in build_name_runs(clusters)}) > 1:
            return None
        # The number of racks.
        common_racks = racks.pop() if len(racks) == 1 else row.racks
        named_rows.append(replace(row, cluster=format_names(clusters), racks=common_racks))
    return tuple(named_rows)


def replace_site(text: str, site: str) -> str:
    """Replace the name of a site, as a whole word, by a placeholder."""
    return (
        re.sub(rf"(?<![A-Za-z0-9_]){re.escape(site)}(?![A-Za-z0-9_])", SITE, text)
        if site in text
        else text
    )


def _build_pool_row(tables: Sequence[PlacementTable], samples: int) -> PoolRow:
    """Build the row of one pool, or of several pools with equal names, SKUs and VM counts.

    Each pool has its own table. The row of several pools has ranges and numbers in place
    of single values.
    """
    first_table = tables[0]
    # Number of VMs of each rack.
    vm_counts = chain.from_iterable(
        chain.from_iterable(table.rack_counts.values()) for table in tables
    )
    racks = dict.fromkeys(chain.from_iterable(table.rack_names for table in tables))  # names
    row = PoolRow(
        cluster=format_names(table.cluster for table in tables),
        pool=first_table.pool,
        sku=first_table.vm_sku_name,
        count=f"{first_table.total_count:,}",
        racks=format_names(racks),
        per_rack=format_range(vm_counts),
        exact_counts=_format_certain_count(
            tables, [table.racks_certain for table in tables], samples
        ),
        exact_machines=_format_certain_count(
            tables, [table.machines_certain for table in tables], samples
        ),
        pools=len(tables),
        rack_count=len(racks),
    )
    if len(tables) == 1:
        # The VMs per rack: `12 on rack7,8`; `5 on rack3; 4 on rack1,2`.
        rack_counts = first_table.rack_counts
        by_count = group_by(rack_counts, lambda rack: rack_counts[rack])
        spread = "; ".join(
            f"{Interval(*count)} on {format_names(by_count[count])}"
            for count in sorted(by_count, reverse=True)
        )
        return replace(row, note=_describe_expected_spread(first_table), spread=spread)
    # Describe the pools with another spread than expected: `uneven (even would be 4 per rack):
    # cluster-d`; "" without any.
    unexpected = list(filter(_has_unexpected_spread, tables))
    expected = format_range(
        chain.from_iterable(table.expected_vms_per_rack for table in unexpected)
    )
    note = enclose(
        f"uneven (even would be {expected} per rack): ",
        format_names(table.cluster for table in unexpected),
    )
    rack_totals = [len(table.rack_counts) for table in tables]
    return replace(
        row,
        # Number of pools, and of VMs per pool.
        count=f"{len(tables):,} x {row.count}",
        racks=(
            f"{format_range(rack_totals)} {select_word_form(max(rack_totals), 'rack', 'racks')} "
            "each"
        ),
        note=note,
    )


def _format_certain_count(
    tables: Iterable[PlacementTable], certain: Iterable[int], samples: int
) -> str:
    """Format how many of the placed VMs are certain: `168 of 215`.

    Return "" without placed VMs or repeated runs (samples).
    """
    placed = sum(table.placed for table in tables)
    if not samples or not placed:
        return ""
    return f"{sum(certain):,} of {placed:,}"


def _has_unexpected_spread(table: PlacementTable) -> bool:
    """Return whether a pool's spread over racks differs from the expected one.

    It is on more or fewer racks, or a rack has another number of its VMs.
    """
    if table.possible_vms_per_rack:
        return False
    numbers = set(table.actual_vms_per_rack.values())
    return table.actual_racks != table.expected_racks or not numbers <= set(
        table.expected_vms_per_rack
    )


def _describe_expected_spread(table: PlacementTable) -> str:
    """Return a sentence on the racks with unexpected numbers of VMs, or "".

    An example is `uneven: 5 on rack3,6, 3 on rack7,8; even would be 4`.
    """
    if not _has_unexpected_spread(table):
        return ""
    even = f"even would be {format_range(table.expected_vms_per_rack)}"
    if table.actual_racks != table.expected_racks:
        even += f" on {format_count(table.expected_racks, 'rack')}"
    # By number of VMs.
    racks = group_by(table.actual_vms_per_rack, lambda rack: table.actual_vms_per_rack[rack])
    # Racks with an unexpected number of VMs, most VMs first.
    unexpected_racks = [
        f"{number} on {format_names(racks[number])}"
        for number in sorted(racks.keys() - set(table.expected_vms_per_rack), reverse=True)
    ]
    return join_texts((f"uneven{enclose(': ', ', '.join(unexpected_racks))}", even), "; ")
