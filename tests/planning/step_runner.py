"""Runs the steps of a plan in a random valid order, and checks capacity."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from typing import Any

from nexusform.plans.plan import Action, Plan, Step, StepKind
from nexusform.scheduling.sku_catalogue import CATALOGUES
from nexusform.state.objects import State

SKUS = CATALOGUES["2026-03"].vm_skus
Cell = tuple[str, int]


def list_vm_sizes(
    attributes: Mapping[str, Any] | None,
) -> list[tuple[str, list[int], int, int, int]]:
    """Return machine, cells, vCPUs and GiB per cell, and disk of every VM of an object."""
    found = []
    for node in ((attributes or {}).get("nodes") or {}).values():
        sku = SKUS[node["vm_sku_name"]]
        row = (
            node["machine"],
            node["numa_cells"],
            sku.cpus_in_cell,
            sku.memory_in_cell,
            sku.disk_gib,
        )
        found.append(row)
    if attributes and "cpu_cores" in attributes and attributes.get("machine"):
        cells = attributes["cells"]
        cpus = -(-attributes["cpu_cores"] // len(cells))
        memory = -(-attributes["memory_gib"] // len(cells))
        found.append((attributes["machine"], cells, cpus, memory, attributes["disk_gib"]))
    return found


class ProviderObjects:
    """Objects of a provider by type, id and creation number."""

    def __init__(
        self, state: State, cell: tuple[int, int], disk: int, only: frozenset[str]
    ) -> None:
        self.objects: dict[tuple[str, str, int], Mapping[str, Any]] = {}
        for address, instance in state.instances.items():
            for old in (instance.current, *instance.deposed.values()):
                if old is not None:
                    self.objects[address.type, old.attributes["id"], old.creation] = old.attributes
        self.cell = cell
        self.disk = disk
        self.only = only

    def check(self, when: str) -> None:
        """Check that no cell and no disk exceeds its capacity."""
        cpus: Counter[Cell] = Counter()
        memory: Counter[Cell] = Counter()
        disk: Counter[str] = Counter()
        for attributes in self.objects.values():
            for machine, cells, cpu, gib, space in list_vm_sizes(attributes):
                disk[machine] += space
                for cell in cells:
                    cpus[machine, cell] += cpu
                    memory[machine, cell] += gib
        for name, cell in cpus:
            if name in self.only:
                used = (cpus[name, cell], memory[name, cell], disk[name])
                limits = (*self.cell, self.disk)
                assert all(u <= m for u, m in zip(used, limits, strict=True)), (
                    when,
                    name,
                    cell,
                    used,
                )


def run(
    plan: Plan,
    state: State,
    seed: int,
    cell: tuple[int, int] = (48, 224),
    disk: int = 3500,
    *,
    watch: bool = True,
) -> ProviderObjects:
    """Run every step in a valid order chosen by `seed`.

    With `watch`, check the capacity after each step.
    """
    machines = {
        name
        for change in plan.changes
        if change.address.type == "nexus_rack"
        and change.after is not None
        and change.before is not None
        for name in change.after["machines"]
    }
    room = ProviderObjects(state, cell, disk, frozenset(machines))
    if watch:
        room.check("before")
    chosen = random.Random(seed)
    waiting = {step.id: set(step.waits_for) for step in plan.steps}
    steps = {step.id: step for step in plan.steps}
    while waiting:
        ready = sorted(step for step, others in waiting.items() if not others)
        assert ready, f"these wait for each other: {sorted(waiting)}"
        step = chosen.choice(ready)
        del waiting[step]
        for others in waiting.values():
            others.discard(step)
        _run_step(plan, steps[step], room)
        if watch:
            room.check(f"after {steps[step].kind} {plan.changes[steps[step].change].address}")
    return room


def _run_step(plan: Plan, step: Step, room: ProviderObjects) -> None:
    change = plan.changes[step.change]
    kind = change.address.type
    if step.kind is StepKind.GATE:
        return
    if step.kind is StepKind.CREATE:
        assert step.planned is not None
        key = (kind, step.planned["id"], change.creation)
        # A provider knows an object by its id alone, except during create_before_destroy.
        own = (change.prior_creation,) if change.action is Action.REPLACE_CREATE_FIRST else ()
        twins = [creation for *id_, creation in room.objects if (*id_,) == key[:2]]
        assert set(twins) <= set(own), f"{key} exists already"
        room.objects[key] = step.planned
        return
    assert step.prior is not None
    key = (kind, step.prior["id"], change.prior_creation)
    assert room.objects[key] == step.prior, "the provider is told something else than what stands"
    if step.kind in (StepKind.DELETE, StepKind.FORGET):
        del room.objects[key]
    else:
        assert step.planned is not None
        room.objects[key] = step.planned


def check_counts(plan: Plan) -> None:
    """Check that the steps match the counts of the `Plan:` line."""
    kinds = Counter(step.kind for step in plan.steps)
    assert kinds[StepKind.CREATE] == plan.to_add
    assert kinds[StepKind.UPDATE] == plan.to_change
    assert kinds[StepKind.DELETE] == plan.to_destroy
    assert kinds[StepKind.FORGET] == plan.count(Action.FORGET)
