"""Lookup of user input: sites, racks, machines, clusters, SKUs and mixes.

Raises DiagnosticsError for invalid input.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from nexusform.diagnostics.diagnostic import DiagnosticsError, build_error, suggest_name
from nexusform.diagnostics.phrases import format_list
from nexusform.domains.whatif.questions.capacity import SkuCount
from nexusform.plans.site_capacity.occupancy import VmOwnerKind
from nexusform.scheduling.racks.vms import VmSku
from nexusform.snapshots.snapshot import SiteSnapshot, Snapshot, VmOwnerSnapshot

Named = TypeVar("Named")

_PART = re.compile(r"(?:(\d+)\s*[xX*]\s*)?(\S+)")
_REVERSED_PART = re.compile(r"(.+?)\s*[xX*]\s*(\d{1,7})")
_MAX_PART_COUNT = 1_000_000
_DIGITS = 9
_MAX_NAMES = 20
# Number of characters of user input.
_MAX_TEXT_LENGTH = 60
_EXAMPLE = "-mix=3xNC_P46_224_v1,6xNC_G6_28_v1"


def find_site(snapshot: Snapshot, text: str) -> SiteSnapshot:
    """Find a site by id."""
    if text not in snapshot.sites:
        raise _build_unknown_name_error("site", text, snapshot.sites)
    return snapshot.sites[text]


def find_only_site(snapshot: Snapshot, text: str) -> SiteSnapshot:
    """Find a site by the id in `text`, or the only site for "".

    Raises DiagnosticsError for none or several.
    """
    if text:
        return find_site(snapshot, text)
    if len(snapshot.sites) == 1:
        [site] = snapshot.sites.values()
        return site
    detail = (
        f"There are {len(snapshot.sites)} sites. Select one with -site=ID: "
        f"{format_list(snapshot.sites, _MAX_NAMES)}."
    )
    raise DiagnosticsError(build_error("ambiguous-name", detail, headline="Ambiguous site"))


def check_excluded_addresses(site: SiteSnapshot, texts: Iterable[str]) -> frozenset[str]:
    """Check and return the values of -not.

    A value is `ADDRESS` (of a resource with VMs), or `ADDRESS:OBJECT` for one VM. Raises
    DiagnosticsError for an unknown one.
    """
    candidates: dict[str, None] = {}
    for pool in site.pools:
        candidates[str(pool.address)] = None
        for vm in pool.vms:
            candidates |= {f"{pool.address}:{name}": None for name in vm.names}
    for text in texts:
        if text not in candidates:
            # VMs are too many to list.
            addresses = [name for name in candidates if ":" not in name]
            suggestion = suggest_name(text, candidates)
            message = f'No resource with VMs on {site.id} has the address "{_truncate_name(text)}".'
            detail = f"{message}{suggestion} Known: {format_list(addresses, _MAX_NAMES)}."
            raise DiagnosticsError(build_error("unknown-resource", detail))
    return frozenset(texts)


def find_rack(snapshot: Snapshot, text: str) -> tuple[SiteSnapshot, str]:
    """Find an active rack by id (`<site>/<rack>`) or unique name; return its site and name."""
    by_id = {
        f"{site.id}/{rack}": (site, rack)
        for site in snapshot.sites.values()
        for rack in site.active_racks
    }
    return _find_by_id_or_name("rack", text, by_id, lambda site_and_rack: site_and_rack[1])


def find_machine(snapshot: Snapshot, text: str) -> tuple[SiteSnapshot, str]:
    """Find a machine by id (`<site>/<rack>/<machine>` or `<site>/<machine>`) or unique name."""
    by_id: dict[str, tuple[SiteSnapshot, str]] = {}
    for site in snapshot.sites.values():
        for machine in site.machines.values():
            if text == f"{site.id}/{machine.name}":
                return site, machine.name
            by_id[f"{site.id}/{machine.rack}/{machine.name}"] = (site, machine.name)
    return _find_by_id_or_name("machine", text, by_id, lambda site_and_machine: site_and_machine[1])


def find_cluster(snapshot: Snapshot, text: str) -> tuple[SiteSnapshot, VmOwnerSnapshot]:
    """Find a cluster, a VNF or a VM outside of both.

    By id, by the address of one of its pools, or by unique name. Return it with its site. Raises
    DiagnosticsError for none and for several.
    """
    by_id: dict[str, tuple[SiteSnapshot, VmOwnerSnapshot]] = {}
    for site in snapshot.sites.values():
        for cluster in site.clusters:
            if any(str(pool.address) == text for pool in cluster.pools):
                return site, cluster
            by_id[cluster.id] = (site, cluster)
    return _find_by_id_or_name(
        "cluster", text, by_id, lambda site_and_cluster: site_and_cluster[1].name
    )


def find_kubernetes_cluster(snapshot: Snapshot, text: str) -> tuple[SiteSnapshot, VmOwnerSnapshot]:
    """Find an NKS cluster by id, address or unique name.

    Raises DiagnosticsError for none, several or another kind.
    """
    site, cluster = find_cluster(snapshot, text)
    if cluster.kind is not VmOwnerKind.NKS:
        detail = f"{cluster.id} is not an NKS cluster and has no Kubernetes upgrade."
        raise DiagnosticsError(build_error("not-a-kubernetes-cluster", detail))
    return site, cluster


def find_zones(sites: Iterable[SiteSnapshot], text: str) -> frozenset[str] | None:
    """Parse zones from `1,2`; None for "".

    Each must exist on one of the sites, planned racks included.
    """
    zones = _split_at_commas(text)
    if not zones:
        return None
    candidates: dict[str, None] = {}
    for site in sites:
        candidates |= dict.fromkeys(site.zones)
        candidates |= {rack.availability_zone: None for rack in site.racks}
    for zone in zones:
        if zone not in candidates:
            raise _build_unknown_name_error("availability zone", zone, candidates)
    return frozenset(zones)


def find_skus(skus: Mapping[str, VmSku], names: Sequence[str]) -> tuple[VmSku, ...]:
    """Find distinct SKUs by name; names may be joined by commas."""
    selected: dict[str, VmSku] = {}
    for name in _split_at_commas(",".join(names)):
        if name not in skus:
            raise _build_unknown_name_error("VM SKU", name, skus)
        selected[name] = skus[name]
    return tuple(selected.values())


def _split_at_commas(text: str) -> list[str]:
    """Split at commas without empty parts."""
    parts = [part.strip() for part in text.split(",")]
    return list(filter(None, parts))


def parse_sku_mix(skus: Mapping[str, VmSku], text: str) -> tuple[SkuCount, ...]:
    """Parse a mix such as `3xNC_P46_224_v1,NC_G6_28_v1`; counts of a repeated SKU are added."""
    counts: Counter[str] = Counter()
    for part_text in map(str.strip, text.split(",")):
        count, name = _parse_mix_part(part_text, skus)
        swapped = _REVERSED_PART.fullmatch(part_text)
        # NC_G6_28_v1x6: SKU, then number.
        if name not in skus and swapped is not None and swapped[1] in skus:
            detail = f"Write the number before the SKU: {swapped[2]}x{swapped[1]}."
            raise DiagnosticsError(build_error("invalid-mix", detail))
        if not name:
            detail = (
                f'"{_truncate_name(part_text)}" is not a valid part of a mix. Write NxSKU, for '
                f"example {_EXAMPLE}."
            )
            raise DiagnosticsError(build_error("invalid-mix", detail))
        if name not in skus:
            raise _build_unknown_name_error("VM SKU", name, skus)
        counts[name] += count
    if not all(0 < count <= _MAX_PART_COUNT for count in counts.values()):
        detail = (
            f"The count of a part must be 1 to {_MAX_PART_COUNT:,} VMs, for example {_EXAMPLE}."
        )
        raise DiagnosticsError(build_error("invalid-mix", detail))
    return tuple(SkuCount(count, skus[name]) for name, count in counts.items())


def _parse_mix_part(text: str, skus: Collection[str]) -> tuple[int, str]:
    """Parse one part of a mix, `3xSKU` or `SKU`, to its count and SKU, "" if it is invalid.

    The count is 1 by default.
    """
    # A SKU of the user's own may be called "2xlarge".
    if text in skus:
        return 1, text
    # The groups are the digits or None, and the SKU.
    match = _PART.fullmatch(text)
    # A count without a SKU.
    if match is None or text.isdigit():
        return 0, ""
    digits = match.group(1) or "1"
    # Do not convert a number of any length: above the maximum, the caller rejects it.
    count = int(digits) if len(digits) < _DIGITS else _MAX_PART_COUNT + 1
    return count, match.group(2)


def _find_by_id_or_name(
    kind: str, text: str, by_id: Mapping[str, Named], get_name: Callable[[Named], str]
) -> Named:
    """Find the entry with this id, else the only one with this name (`kind` in errors).

    Raises DiagnosticsError.
    """
    if text in by_id:
        return by_id[text]
    ids = [entry_id for entry_id, entry in by_id.items() if get_name(entry) == text]
    if len(ids) == 1:
        return by_id[ids[0]]
    if ids:
        detail = f'Several have the name "{text}"; use an id: {format_list(ids, _MAX_NAMES)}.'
        raise DiagnosticsError(build_error("ambiguous-name", detail, headline=f"Ambiguous {kind}"))
    raise _build_unknown_name_error(kind, text, by_id)


_UNKNOWN: Final = {
    "site": "unknown-site",
    "rack": "unknown-rack",
    "machine": "unknown-machine",
    "cluster": "unknown-cluster",
    "availability zone": "unknown-availability-zone",
    "VM SKU": "unknown-vm-sku",
}


def _build_unknown_name_error(kind: str, text: str, candidates: Iterable[str]) -> DiagnosticsError:
    """Build the error for an unknown name, with the candidates."""
    names = sorted(candidates, key=str.encode)
    suggestion = suggest_name(text, names)
    choice = f"Known: {format_list(names, _MAX_NAMES)}." if names else "None exists."
    detail = f'There is no {kind} "{_truncate_name(text)}".{suggestion} {choice}'
    return DiagnosticsError(build_error(_UNKNOWN[kind], detail))


def _truncate_name(text: str) -> str:
    """Truncate user input longer than any name."""
    return text if len(text) <= _MAX_TEXT_LENGTH else f"{text[:_MAX_TEXT_LENGTH]}..."
