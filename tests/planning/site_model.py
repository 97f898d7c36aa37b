"""Model of a small site and its placement rule.

It is written from the text of the rule, without planner code. The five steps are those of
tests/scheduling/racks/brute_force.py; the order of removals, re-placements, rolling batches and
additions in one plan is modelled here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.scheduling.racks.vms import (
    Demand,
    Machine,
    Placement,
    PlacementConstraints,
    RackSpread,
    UnschedulableReason,
    VmName,
)
from nexusform.scheduling.sku_catalogue import CATALOGUES
from tests.scheduling.racks.brute_force import BruteForce

SKUS = CATALOGUES["2026-03"].vm_skus
PLANE = "control-plane"
CHANGES = ("sku", "zones", "labels", "taints", "mode")

Key = tuple[str, int]
Place = tuple[str, tuple[int, ...]]


class Pool(Struct, frozen=True):
    name: str
    count: int
    sku: str
    zones: tuple[str, ...] = ()
    labels: str = ""
    taints: str = ""
    mode: str = "User"
    surge: str = "1"
    unavailable: str = "0"


class Block(Struct, frozen=True):
    """A cluster, with its control plane as first pool, or a separate pool `of` a cluster."""

    name: str
    pools: tuple[Pool, ...]
    version: str = "1.30"
    of: str = ""

    @property
    def cluster(self) -> str:
        return self.of or self.name

    @property
    def address(self) -> str:
        kind = "nexus_agent_pool" if self.of else "nexus_kubernetes_cluster"
        return f"{kind}.{self.name}"

    def vm(self, key: Key) -> str:
        return f"{self.cluster}-{key[0]}-{key[1]}"

    def each(self) -> Iterator[Key]:
        for pool in self.pools:
            for number in range(pool.count):
                yield pool.name, number

    def pool(self, name: str) -> Pool | None:
        return next((p for p in self.pools if p.name == name), None)


class Rack(Struct, frozen=True):
    name: str
    machines: int
    overrides: tuple[tuple[int, str], ...] = ()


class Site(Struct, frozen=True):
    racks: tuple[Rack, ...]
    blocks: tuple[Block, ...]
    spread: str = "pool"
    seed: int = 8

    def block(self, address: str) -> Block | None:
        return next((b for b in self.blocks if b.address == address), None)

    def planning_order(self) -> list[Block]:
        """Return the blocks in planning order: repeatedly the first one with its cluster done."""
        waiting = list(self.blocks)
        taken = []
        while waiting:
            done = {b.name for b in taken if not b.of}
            block = next(b for b in waiting if not b.of or b.of in done)
            waiting.remove(block)
            taken.append(block)
        return taken


# --- as a configuration ------------------------------------------------------------------------


def build_document(site: Site) -> dict[str, Any]:
    """Return the site as JSON configuration, with its blocks in order."""
    scheduler = {"rack_spread": site.spread, "tie_break_seed": site.seed}
    blocks: list[Any] = [{"nexus_site": {"s": {"scheduler": scheduler}}}]
    for rack in site.racks:
        values: dict[str, Any] = {"site_id": "${nexus_site.s.id}", "machine_count": rack.machines}
        if rack.overrides:
            values["machine_override"] = {
                f"{rack.name}-bm{slot:02d}": {what: True} for slot, what in rack.overrides
            }
        blocks.append({"nexus_rack": {rack.name: values}})
    blocks += [{b.address.split(".")[0]: {b.name: _build_block(b)}} for b in site.blocks]
    return {"resource": blocks}


def _build_block(block: Block) -> dict[str, Any]:
    if block.of:
        pool = _build_pool(block.pools[0])
        pool["node_count"] = pool.pop("count")
        return {"kubernetes_cluster_id": f"${{nexus_kubernetes_cluster.{block.of}.id}}", **pool}
    plane = block.pools[0]
    written: dict[str, Any] = {"count": plane.count, "vm_sku_name": plane.sku}
    if plane.zones:
        written["availability_zones"] = list(plane.zones)
    pools = {p.name: _build_pool(p) for p in block.pools[1:]}
    found = {"site_id": "s", "kubernetes_version": block.version, "control_plane": written}
    return {**found, "agent_pool": pools} if pools else found


def _build_pool(pool: Pool) -> dict[str, Any]:
    found: dict[str, Any] = {"count": pool.count, "vm_sku_name": pool.sku, "mode": pool.mode}
    if pool.zones:
        found["availability_zones"] = list(pool.zones)
    if pool.labels:
        found["labels"] = {"x": pool.labels}
    if pool.taints:
        found["taint"] = [{"key": pool.taints, "effect": "NoSchedule"}]
    found["upgrade_settings"] = {"max_surge": pool.surge, "max_unavailable": pool.unavailable}
    return found


# --- the placement rule ------------------------------------------------------------------------


class AppliedBlock(Struct):
    """An applied block, with its creation number and the places of its VMs."""

    block: Block
    created: int
    places: dict[Key, Place] = field(default_factory=dict)
    skus: dict[Key, str] = field(default_factory=dict)


class ExpectedPlan(Struct):
    """Expected result of one plan.

    It has the (action, trigger) of every changed VM, the blocks after it, the (cluster, pool) pairs
    without capacity, and the pairs rejected as last System pool.
    """

    happens: dict[str, tuple[str, str]] = field(default_factory=dict)
    after: dict[str, AppliedBlock] = field(default_factory=dict)
    failing: list[tuple[str, str]] = field(default_factory=list)
    refused: set[tuple[str, str]] = field(default_factory=set)

    def places(self) -> dict[str, Place]:
        return {
            s.block.vm(key): place for s in self.after.values() for key, place in s.places.items()
        }


class _BlockPlan(Struct):
    standing: AppliedBlock | None
    block: Block | None
    leave: dict[Key, str] = field(default_factory=dict)
    again: dict[Key, str] = field(default_factory=dict)
    arrive: dict[Key, str] = field(default_factory=dict)
    places: dict[Key, Place] = field(default_factory=dict)
    whole: str = ""


class PlacementRule:
    """Model of one plan by the rule.

    `prior` holds the existing blocks by address.
    """

    def __init__(
        self,
        site: Site,
        prior: dict[str, AppliedBlock],
        heal: frozenset[str] = frozenset(),
        requested: frozenset[str] = frozenset(),
    ) -> None:
        self.site = site
        self.prior = prior
        self.heal = heal
        self.requested = requested
        self.machines = {m.name: m for m in build_machines(site)}
        self.evacuating = {m for m, what in _list_overrides(site) if what == "evacuate"}
        self.room = BruteForce(list(self.machines.values()), RackSpread(site.spread), site.seed)
        self.held: dict[tuple[str, Key], int] = {}
        self.result = ExpectedPlan()

    def plan(self) -> ExpectedPlan:
        """Compute the expected plan."""
        works = {a: _BlockPlan(s, self.site.block(a)) for a, s in self.prior.items()}
        works |= {
            b.address: _BlockPlan(None, b) for b in self.site.blocks if b.address not in works
        }
        for address, work in works.items():
            self._occupy_existing(address, work)
        for work in works.values():
            self._classify_vms(work)
        self._reject_last_system_pools(works)
        for address, work in works.items():
            for key in (*work.leave, *(k for k, t in work.again.items() if not _is_rolling(t))):
                self._free(address, key)
        back = [(w.standing.created, a) for a, w in works.items() if w.standing and w.block]
        for _, address in sorted(back):
            self._place_again(address, works[address])
        for block in self.site.planning_order():
            work = works[block.address]
            for key in block.each():
                if key in work.arrive:
                    self._place(work, key)
        self._build_result(works)
        return self.result

    # --- affected VMs ---

    def _occupy_existing(self, address: str, work: _BlockPlan) -> None:
        if work.standing is None:
            return
        for key, (machine, cells) in work.standing.places.items():
            host = self.machines.get(machine)
            if host is not None:
                sku = SKUS[work.standing.skus[key]]
                place = Placement(machine, host.rack, host.availability_zone, cells)
                self.held[address, key] = self.room.occupy(
                    _build_vm_name(work.standing.block, key), sku, place
                )

    def _classify_vms(self, work: _BlockPlan) -> None:
        old = work.standing
        new = work.block
        if new is None:
            assert old is not None
            gone = "pool_removed" if old.block.of else "cluster_removed"
            work.leave = dict.fromkeys(old.places, gone)
            return
        if old is None:
            work.arrive = dict.fromkeys(new.each(), "new")
            return
        work.whole = self._get_replacement_trigger(old.block, new)
        for key in old.places:
            pool = new.pool(key[0])
            if pool is None:
                work.leave[key] = "pool_removed"
            elif key[1] >= pool.count:
                work.leave[key] = work.whole or "scale_in"
        for key in new.each():
            if key not in old.places:
                if work.whole:
                    work.again[key] = work.whole
                else:
                    work.arrive[key] = "scale_out" if old.block.pool(key[0]) else "new"
                continue
            trigger = self._get_vm_trigger(work, key)
            if trigger:
                work.again[key] = trigger
            else:
                work.places[key] = old.places[key]

    def _reject_last_system_pools(self, works: dict[str, _BlockPlan]) -> None:
        """Reject changes that delete and re-create the last System pool of a cluster."""
        systems = [
            (s.block.cluster, p)
            for s in self.prior.values()
            for p in s.block.pools
            if p.mode == "System"
        ]
        for work in works.values():
            if work.standing is None or work.block is None or work.whole:
                continue
            cluster = work.block.cluster
            for old in work.standing.block.pools:
                new = work.block.pool(old.name)
                if old.mode != "System" or new is None or sum(c == cluster for c, _ in systems) > 1:
                    continue
                stands = any(key[0] == old.name for key in work.standing.places)
                if stands and any(_get_value(old, c) != _get_value(new, c) for c in CHANGES):
                    self.result.refused.add((cluster, old.name))

    def _get_replacement_trigger(self, old: Block, new: Block) -> str:
        owner_then = old if not old.of else self.prior[f"nexus_kubernetes_cluster.{old.of}"].block
        owner_now = new if not new.of else self.site.block(f"nexus_kubernetes_cluster.{new.of}")
        assert owner_now is not None
        plane_then = owner_then.pools[0]
        plane_now = owner_now.pools[0]
        changed = (plane_then.sku, set(plane_then.zones)) != (plane_now.sku, set(plane_now.zones))
        is_owner_replaced = changed or owner_now.address in self.requested
        # A pool cannot outlive its cluster.
        if new.address in self.requested and not (new.of and is_owner_replaced):
            return "requested"
        return "cluster_replaced" if is_owner_replaced else ""

    def _get_vm_trigger(self, work: _BlockPlan, key: Key) -> str:
        old = work.standing
        new = work.block
        assert old is not None
        assert new is not None
        machine = old.places[key][0]
        if new.vm(key) in self.heal:
            return "heal"
        if work.whole:
            return work.whole
        if machine not in self.machines:
            return "machine_removed"
        if machine in self.evacuating:
            return "machine_evacuated"
        if self._version(old.block, now=False) != self._version(new, now=True):
            return "kubernetes_version_changed"
        then = old.block.pool(key[0])
        now = new.pool(key[0])
        assert then is not None
        assert now is not None
        if key[0] == PLANE:
            return ""
        differing = (c for c in CHANGES if _get_value(then, c) != _get_value(now, c))
        return next((f"{c}_changed" for c in differing), "")

    def _version(self, block: Block, *, now: bool) -> str:
        if not block.of:
            return block.version
        address = f"nexus_kubernetes_cluster.{block.of}"
        owner = self.site.block(address) if now else self.prior[address].block
        assert owner is not None
        return owner.version

    # --- placements ---

    def _free(self, address: str, key: Key) -> None:
        handle = self.held.pop((address, key), None)
        if handle is not None:
            self.room.release(handle)

    def _place_again(self, address: str, work: _BlockPlan) -> None:
        assert work.block is not None
        for key in work.block.each():
            if key in work.again and not _is_rolling(work.again[key]):
                self._place(work, key)
        for pool in work.block.pools:
            rolling = [
                k
                for k in work.block.each()
                if k[0] == pool.name and _is_rolling(work.again.get(k, ""))
            ]
            self._roll_pool(address, work, pool, rolling)

    def _roll_pool(self, address: str, work: _BlockPlan, pool: Pool, keys: list[Key]) -> None:
        surge = 1 if pool.name == PLANE else _compute_amount(pool.surge, pool.count)
        size = surge or _compute_amount(pool.unavailable, pool.count)
        while keys:
            batch = keys[:size]
            keys = keys[size:]
            if not surge:
                for key in batch:
                    self._free(address, key)
            for key in batch:
                self._place(work, key)
            if surge:
                for key in batch:
                    self._free(address, key)

    def _place(self, work: _BlockPlan, key: Key) -> None:
        block = work.block
        assert block is not None
        pool = block.pool(key[0])
        assert pool is not None
        last = None
        if work.again.get(key) == "heal":
            assert work.standing is not None
            last = work.standing.places[key][0]
        zones = frozenset(pool.zones) or None
        answer = self.room.place(
            Demand(
                _build_vm_name(block, key),
                SKUS[pool.sku],
                PlacementConstraints(zones),
                last_resort=last,
            )
        )
        if answer is None:
            self.result.failing.append((block.cluster, pool.name))
        else:
            work.places[key] = answer[1].machine, answer[1].cells

    def _build_result(self, works: dict[str, _BlockPlan]) -> None:
        newest = max([s.created for s in self.prior.values()], default=0)
        happens = self.result.happens
        for work in works.values():
            if work.standing is not None:
                happens |= {work.standing.block.vm(k): ("remove", t) for k, t in work.leave.items()}
        for block in self.site.planning_order():
            work = works[block.address]
            created = work.standing.created if work.standing is not None and not work.whole else 0
            if not created:
                newest += 1
                created = newest
            stood = work.standing.places if work.standing is not None else {}
            for key, trigger in (work.again | work.arrive).items():
                if key in work.places:
                    happens[block.vm(key)] = ("move" if key in stood else "place", trigger)
            skus = {k: p.sku for k in work.places if (p := block.pool(k[0]))}
            self.result.after[block.address] = AppliedBlock(block, created, work.places, skus)


def build_machines(site: Site) -> list[Machine]:
    refused = dict(_list_overrides(site))
    machines = []
    for rack in site.racks:
        for slot in range(1, rack.machines + 1):
            name = f"{rack.name}-bm{slot:02d}"
            reasons = (UnschedulableReason(refused[name]),) if name in refused else ()
            machines.append(
                Machine(name, rack.name, rack.name, slot, "bom-1.7.3", 2, 48, 224, 3500, reasons)
            )
    return machines


def _list_overrides(site: Site) -> Iterator[tuple[str, str]]:
    for rack in site.racks:
        for slot, what in rack.overrides:
            if slot <= rack.machines:
                yield f"{rack.name}-bm{slot:02d}", what


def _build_vm_name(block: Block, key: Key) -> VmName:
    return VmName(block.cluster, block.cluster, *key)


def _get_value(pool: Pool, what: str) -> object:
    value = getattr(pool, what)
    return frozenset(value) if what == "zones" else value


def _is_rolling(trigger: str) -> bool:
    return trigger == "kubernetes_version_changed"


def _compute_amount(text: str, pool: int) -> int:
    return -(-int(text[:-1]) * pool // 100) if text.endswith("%") else int(text)


def replace_block(site: Site, block: Block) -> Site:
    """Return the site with one block replaced by its new version."""
    return replace(
        site, blocks=tuple(block if b.address == block.address else b for b in site.blocks)
    )
