"""Find what a user names: a site, a rack, a machine, a cluster, SKUs and mixes of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from nexusform.diagnostics import Diagnostic, did_you_mean, error
from nexusform.domains.whatif.questions.capacity import MixPart
from nexusform.scheduling.racks.vms import VmSku
from nexusform.words import listed
from nexusform.worlds.world_view import Cluster, OwnerKind, SiteView, WorldView

Named = TypeVar("Named")

_PART = re.compile(r"(?:(\d+)\s*[xX*]\s*)?(\S+)")
_TURNED = re.compile(r"(.+?)\s*[xX*]\s*(\d{1,7})")
_MOST_OF_A_PART = 1_000_000
_DIGITS = 9
_SHOWN = 20
_LONGEST = 60  # characters of what was typed


def find_site(world: WorldView, text: str) -> SiteView | Diagnostic:
    """A site by its id."""
    site = world.sites.get(text)
    return site if site is not None else _unknown("site", text, world.sites)


def one_site(world: WorldView, text: str) -> SiteView | Diagnostic:
    """A site by its id, or the only one where none is named."""
    if text or len(world.sites) == 1:
        return find_site(world, text) if text else next(iter(world.sites.values()))
    detail = f"There are {len(world.sites)} sites; name one by -site=ID: {listed(world.sites, _SHOWN)}."
    return error("ambiguous-name", detail, headline="Ambiguous site")


def find_spared(site: SiteView, texts: Iterable[str]) -> frozenset[str] | Diagnostic:
    """Addresses of resources with VMs, or `ADDRESS:OBJECT` for one VM."""
    known: dict[str, None] = {}
    for pool in site.pools:
        known[str(pool.address)] = None
        for vm in pool.vms:
            known |= {f"{pool.address}:{name}": None for name in vm.names}
    for text in texts:
        if text not in known:
            addresses = [name for name in known if ":" not in name]
            near = did_you_mean(text, known)
            named = f'Nothing with VMs on {site.id} has the address "{_short(text)}".'
            detail = f"{named}{near} Known: {listed(addresses, _SHOWN)}."
            return error("unknown-resource", detail)
    return frozenset(texts)


def find_rack(world: WorldView, text: str) -> tuple[SiteView, str] | Diagnostic:
    """An active rack by id (`<site>/<rack>`), or by a name that only one site has: its site and name."""
    by_id: dict[str, tuple[SiteView, str]] = {}
    for site in world.sites.values():
        by_id |= {f"{site.id}/{rack}": (site, rack) for rack in site.active_racks}
    return _by_id_or_name("rack", text, by_id, lambda site_and_rack: site_and_rack[1])


def find_machine(world: WorldView, text: str) -> tuple[SiteView, str] | Diagnostic:
    """A machine by id (`<site>/<rack>/<machine>` or `<site>/<machine>`), or by a name of one site only."""
    by_id: dict[str, tuple[SiteView, str]] = {}
    for site in world.sites.values():
        for machine in site.machines.values():
            if text == f"{site.id}/{machine.name}":
                return site, machine.name
            by_id[f"{site.id}/{machine.rack}/{machine.name}"] = (site, machine.name)
    return _by_id_or_name("machine", text, by_id, lambda site_and_machine: site_and_machine[1])


def find_cluster(world: WorldView, text: str) -> tuple[SiteView, Cluster] | Diagnostic:
    """A cluster (or VNF, or plain VM) by id, by address, or by a name that only one has."""
    by_id: dict[str, tuple[SiteView, Cluster]] = {}
    for site in world.sites.values():
        for cluster in site.clusters:
            if any(str(pool.address) == text for pool in cluster.pools):
                return site, cluster
            by_id[cluster.id] = (site, cluster)
    return _by_id_or_name("cluster", text, by_id, lambda site_and_cluster: site_and_cluster[1].name)


def find_kubernetes_cluster(world: WorldView, text: str) -> tuple[SiteView, Cluster] | Diagnostic:
    """As `find_cluster`, NKS clusters only."""
    answer = find_cluster(world, text)
    if isinstance(answer, Diagnostic):
        return answer
    cluster = answer[1]
    if cluster.kind is OwnerKind.NKS:
        return answer
    return error("not-a-kubernetes-cluster", f"{cluster.id} is no NKS cluster, so it has no such upgrade.")


def find_zones(sites: Iterable[SiteView], text: str) -> frozenset[str] | Diagnostic | None:
    """Zones from `1,2`; None for "". Each must be on one of the sites, planned racks included."""
    zones = _parts(text)
    if not zones:
        return None
    known: dict[str, None] = {}
    for site in sites:
        known |= dict.fromkeys(site.zones)
        known |= {rack.availability_zone: None for rack in site.racks}
    for zone in zones:
        if zone not in known:
            return _unknown("availability zone", zone, known)
    return frozenset(zones)


def find_skus(skus: Mapping[str, VmSku], names: Sequence[str]) -> tuple[VmSku, ...] | Diagnostic:
    """SKUs by name, each once; names may also be joined by commas."""
    chosen: dict[str, VmSku] = {}
    for name in _parts(",".join(names)):
        if name not in skus:
            return _unknown("VM SKU", name, skus)
        chosen[name] = skus[name]
    return tuple(chosen.values())


def _parts(text: str) -> list[str]:
    """What commas separate, without what is empty."""
    parts = [part.strip() for part in text.split(",")]
    return [part for part in parts if part]


def find_mix(skus: Mapping[str, VmSku], text: str) -> tuple[MixPart, ...] | Diagnostic:
    """A mix from `3xNC_P46_224_v1,NC_G6_28_v1`; the same SKU named twice is added up."""
    counts: Counter[str] = Counter()
    for written_part in map(str.strip, text.split(",")):
        count, name = _counted_sku(written_part, skus)
        turned = _TURNED.fullmatch(written_part)
        if name not in skus and turned is not None and turned[1] in skus:
            return error("invalid-mix", f"The number stands before its SKU: {turned[2]}x{turned[1]}.")
        if not name:
            detail = f'"{_short(written_part)}" is no part of a mix. Write NxSKU, for example {_EXAMPLE}.'
            return error("invalid-mix", detail)
        if name not in skus:
            return _unknown("VM SKU", name, skus)
        counts[name] += count
    if not all(0 < count <= _MOST_OF_A_PART for count in counts.values()):
        range_of = f"1 to {_MOST_OF_A_PART:,} VMs"
        return error("invalid-mix", f"Every part of a mix counts {range_of}, for example {_EXAMPLE}.")
    return tuple(MixPart(count, skus[name]) for name, count in counts.items())


def _counted_sku(text: str, skus: Collection[str]) -> tuple[int, str]:
    """How many and of which SKU a part of a mix is; "" for text that says neither."""
    # A SKU of the user's own may be called "2xlarge".
    if text in skus:
        return 1, text
    match = _PART.fullmatch(text)
    if match is None or text.isdigit():
        return 0, ""
    digits = match.group(1) or "1"
    return int(digits) if len(digits) < _DIGITS else _MOST_OF_A_PART + 1, match.group(2)


_EXAMPLE = "-mix=3xNC_P46_224_v1,6xNC_G6_28_v1"


def _by_id_or_name(
    kind: str, text: str, by_id: Mapping[str, Named], name_of: Callable[[Named], str]
) -> Named | Diagnostic:
    """The entry with this id, else the only one with this name; `kind` says in words what is looked for."""
    if text in by_id:
        return by_id[text]
    ids = [entry_id for entry_id, entry in by_id.items() if name_of(entry) == text]
    if len(ids) == 1:
        return by_id[ids[0]]
    if ids:
        return error(
            "ambiguous-name",
            f'Several are called "{text}"; name one by its id: {listed(ids, _SHOWN)}.',
            headline=f"Ambiguous {kind}",
        )
    return _unknown(kind, text, by_id)


_UNKNOWN: Final = {
    "site": "unknown-site",
    "rack": "unknown-rack",
    "machine": "unknown-machine",
    "cluster": "unknown-cluster",
    "availability zone": "unknown-availability-zone",
    "VM SKU": "unknown-vm-sku",
}


def _unknown(kind: str, text: str, known: Iterable[str]) -> Diagnostic:
    """The error of a name that nothing of this kind has, with the names that are `known`."""
    names = sorted(known, key=str.encode)
    near = did_you_mean(text, names)
    choice = f"Known: {listed(names, _SHOWN)}." if names else "There is none."
    return error(_UNKNOWN[kind], f'There is no {kind} "{_short(text)}".{near} {choice}')


def _short(text: str) -> str:
    """What was typed, cut when it is longer than any name."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
