"""Random sites to exercise every entry of the profile, and additional rules for it."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from nexusform.scheduling.racks import profile
from nexusform.scheduling.racks.layout import Figures, Usage
from nexusform.scheduling.racks.rack_scheduler import RackScheduler
from nexusform.scheduling.racks.rule import (
    CountFilter,
    RankedItemKind,
    RankingKey,
    RejectionCheck,
    ShortageContext,
)
from nexusform.scheduling.racks.vms import (
    Demand,
    Hint,
    HintScope,
    Machine,
    PlacementConstraints,
    RackSpread,
    UnschedulableReason,
    VmName,
    VmSku,
)
from nexusform.scheduling.sku_catalogue import CATALOGUES

SKUS = CATALOGUES["2026-03"].vm_skus
LARGE = VmSku("large-own", 10, 0, 60, 0, extra_large=True)
MENU = [
    SKUS["NC_P46_224_v1"],
    SKUS["NC_P54_224_v1"],
    SKUS["NC_P22_112_v1"],
    SKUS["NC_G12_56_v1"],
    SKUS["NC_G2_8_v1"],
    SKUS["NC_L46_224_v1"],
    VmSku("wide", 8, 0, 40, 0, numa_cells=2),
    LARGE,
    VmSku("flat", 0, 0, 0, 0),
    VmSku("functions", 2, 0, 4, 0, vfs=16),
]
# SKUs to be placed side by side on one machine, to get different machine keys.
SMALL_MENU = [LARGE, SKUS["NC_G2_8_v1"]]
HARDWARE = [("bom-1.7.3", 2, 48, 224, 3500), ("bom-2.0", 2, 56, 224, 2000), (None, 3, 60, 200, 900)]


def build_rack(name: str, count: int, zone: str = "1", **changes: Any) -> list[Machine]:
    """Return equal machines of one rack."""
    facts = {
        "machine_sku": "bom-1.7.3",
        "cells": 2,
        "cpus_per_cell": 48,
        "memory_gib_per_cell": 224,
    }
    facts |= {"disk_gib": 3500, **changes}
    return [Machine(f"{name}-bm{n:02d}", name, zone, n, **facts) for n in range(1, count + 1)]


def build_demand(
    number: int = 0, pool: str = "p", sku: str = "NC_G2_8_v1", owner: str = "c", **more: Any
) -> Demand:
    """Return the demand of a VM in a pool."""
    return Demand(VmName(owner, owner, pool, number), SKUS[sku], **more)


class RandomSite(Struct, frozen=True):
    """Site and the demands for VMs, in order."""

    machines: list[Machine]
    spread: RackSpread
    demands: list[Demand]


def draw_site(seed: int) -> RandomSite:
    """Return a random site; each batch of VMs of a pool has its constraints."""
    draw = Random(seed)
    machines = []
    for number in range(draw.randint(1, 4)):
        zone = draw.choice("123")
        for slot in range(1, draw.randint(1, 4) + 1):
            reasons = (UnschedulableReason("cordoned"),) if draw.random() < 0.15 else ()
            name = f"r{number}"
            machines.append(
                Machine(f"{name}-bm{slot}", name, zone, slot, *draw.choice(HARDWARE), reasons)
            )
    spread = draw.choice(list(RackSpread))
    demands: list[Demand] = []
    number = 0
    menu = draw.choice([MENU, SMALL_MENU])
    for _ in range(draw.randint(4, 10)):
        owner = draw.choice("abc")
        pool = draw.choice("pq")
        sku = draw.choice(menu)
        constraints = draw_constraints(Random(f"{seed} {number}"), machines)
        for _ in range(draw.randint(1, 5)):
            number += 1
            demands.append(Demand(VmName(owner, owner, pool, number), sku, constraints))
    return RandomSite(machines, spread, demands)


def run_random_site(seed: int) -> list[Any]:
    """Return every answer of a scheduler on a random site."""
    site = draw_site(seed)
    scheduler = RackScheduler(site.machines, site.spread, 8)
    answers: list[Any] = []
    for demand in site.demands:
        answer = scheduler.place(demand)
        answers.append(answer if isinstance(answer, tuple) else (answer.binding, answer.reason))
    return answers


def draw_constraints(draw: Random, machines: list[Machine]) -> PlacementConstraints:
    """Return the constraints of one batch.

    They have their own random generator, so an additional argument changes nothing else.
    """
    zones = draw.choice([None, None, frozenset("1"), frozenset("23")])
    return PlacementConstraints(zones, _draw_hints(draw, machines))


def _draw_hints(draw: Random, machines: list[Machine]) -> tuple[Hint, ...]:
    if draw.random() < 0.7:
        return ()
    near = draw.sample(machines, min(2, len(machines)))
    return (
        Hint(
            draw.random() < 0.5,
            draw.random() < 0.3,
            draw.choice(list(HintScope)),
            frozenset(machine.name for machine in near),
            frozenset(machine.rack for machine in near),
            "x",
        ),
    )


def build_limit(
    most: int, item: RankedItemKind = RankedItemKind.RACK, *, closing: bool = True, pool: str = "p"
) -> CountFilter:
    """Return an additional filter: at most `most` VMs of one pool on a rack or machine."""

    def open_rule(usage: Usage, asked: Demand) -> RejectionCheck | None:
        if asked.vm.pool != pool:
            return None
        counts = usage.pool.racks if item is RankedItemKind.RACK else usage.pool.machines
        return lambda number: (
            f"{counts[number]} VMs of {pool} already" if counts[number] >= most else None
        )

    def format_shortage(scene: ShortageContext) -> str:
        return f"Every {item} has {most} VMs of {scene.demand.vm.pool}."

    return CountFilter(
        name="pool_limit",
        item=item,
        build_check=open_rule,
        describe_shortage=format_shortage,
        is_monotonic=closing,
    )


def build_last_first_key() -> RankingKey:
    """Return an additional ranking key: the machine or rack with the highest number first."""

    def opens(_usage: Usage, _demand: Demand) -> Figures:
        return lambda item: 1000 - item

    return RankingKey(
        rule="last_first",
        build_figures=opens,
        describe=lambda _demand, figure: f"{figure}",
        bits=10,
    )


def change_profile(monkeypatch: pytest.MonkeyPatch, table: str, changed: Any) -> None:
    """Change one table of the profile for all sites."""
    monkeypatch.setattr(profile, table, changed)
    if table != "CELL_KEYS":
        monkeypatch.setattr(profile, "NEXUS", replace(profile.NEXUS, **{table.lower(): changed}))
