"""Where a plan of the saved files would put things, for hints beside the text."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.diagnostics import Diagnostic
from nexusform.domains.editor.module_text import ModuleText
from nexusform.language.syntax.nodes import Block, Body
from nexusform.placement_kinds.kinds import place_text
from nexusform.plans.plan import Mode, PlacementAction, PlacementChange, PlacementTable, Plan
from nexusform.rendering.report.folding import names_text
from nexusform.scheduling.racks.vms import Placement
from nexusform.words import counted
from nexusform.workflow.opening.place import place_in
from nexusform.workflow.opening.project import open_project
from nexusform.workflow.runs.locking import Locking
from nexusform.workflow.runs.run import PlanOptions, begin

_MOST_NAMES = 4
_AS_SAVED = "This is of the text as it was saved; what was typed since is not planned yet."


class Landing(Struct, frozen=True):
    """Where the objects of blocks land: by block (`nexus_kubernetes_cluster.a`) and pool, "" for all of it.

    `hints` are short, `texts` say more. `findings` are what the plan has to say of lines of the files.
    """

    hints: Mapping[tuple[str, str], str] = field(default_factory=dict)
    texts: Mapping[tuple[str, str], str] = field(default_factory=dict)
    findings: tuple[Diagnostic, ...] = ()

    def as_saved(self) -> Landing:
        """The same beside a text that was changed since."""
        return replace(self, texts={key: f"{text}\n\n{_AS_SAVED}" for key, text in self.texts.items()})


def plan_landing(directory: str) -> Landing:
    """The landing of a plan on the recorded state, made without a lock and without asking providers; an empty
    one when there is no plan.
    """
    place = place_in(directory, dict(os.environ))
    project = open_project(place).project
    if project is None:
        return Landing()
    locking = Locking(enabled=False, alone=True)
    with begin(project, "OperationTypePlan", locking, settles=False) as run:
        if not run.ready:
            return Landing()
        plan = run.plan(PlanOptions(mode=Mode.NORMAL, refresh=False, tie_breaks=0)).plan
    return landing(plan)


def landing(plan: Plan) -> Landing:
    """The landing of a plan. Several instances of a block are told together."""
    hints: dict[tuple[str, str], list[str]] = {}
    texts: dict[tuple[str, str], list[str]] = {}
    zones = _zones(plan)
    for table in plan.placement_tables:
        key = (str(table.address.config), table.pool)
        hints.setdefault(key, []).append(_spread(table))
        texts.setdefault(key, []).append(
            _pool_text(table, plan, zones.get((str(table.address), table.pool), []))
        )
    for row in plan.placements:
        if row.target is not None and not row.pool and row.kind in ("vm", "binding"):
            hints.setdefault((str(row.address.config), ""), []).append(_place(row))
    return Landing(
        {key: _first(each, "; ") for key, each in hints.items()},
        {key: _first(each, "\n\n") for key, each in texts.items()},
        tuple(finding for finding in plan.diagnostics if finding.subject is not None),
    )


def _zones(plan: Plan) -> dict[tuple[str, str], list[str]]:
    """The zones in which each pool stands after the plan."""
    zones: dict[tuple[str, str], dict[str, None]] = {}
    for row in plan.placements:
        if isinstance(row.target, Placement) and row.action is not PlacementAction.REMOVE:
            zones.setdefault((str(row.address), row.pool), {})[row.target.availability_zone] = None
    return {key: sorted(each) for key, each in zones.items()}


def _spread(table: PlacementTable) -> str:
    """`rack1..8: 3 each`, `rack1,2: 3, rack3: 2`."""
    racks: dict[int, list[str]] = {}
    for rack, count in table.actual_vms_per_rack.items():
        racks.setdefault(count, []).append(rack)
    if len(racks) == 1:
        ((count, names),) = racks.items()
        return f"{names_text(names)}: {count}{' each' if len(names) > 1 else ''}"
    return ", ".join(f"{names_text(names)}: {count}" for count, names in sorted(racks.items(), reverse=True))


def _pool_text(table: PlacementTable, plan: Plan, zones: list[str]) -> str:
    """`pool1: 12 VMs on zones 1, 4; room for 7 more`, and on which racks."""
    room = next(
        (row.after for row in plan.room if (row.site_id, row.sku) == (table.site_id, table.vm_sku_name)), None
    )
    more = f"; room for {room.free:,} more" if room is not None else ""
    where = f" on {'zone' if len(zones) == 1 else 'zones'} {', '.join(zones)}" if zones else ""
    return (
        f"{table.cluster}/{table.pool}: {counted(table.total_count, 'VM')}{where}{more}\n\n{_spread(table)} "
        "(predicted)"
    )


def _place(row: PlacementChange) -> str:
    assert row.target is not None, "only rows with a target are told"
    return place_text(row.target)


def _first(texts: list[str], between: str) -> str:
    shown = between.join(texts[:_MOST_NAMES])
    return f"{shown}{between}{len(texts) - _MOST_NAMES} more" if len(texts) > _MOST_NAMES else shown


# --- which block is told what --------------------------------------------------------------------


def blocks_that_place(module: ModuleText, path: str) -> Iterator[tuple[tuple[str, str], int]]:
    """The blocks of a file by the key under which a landing tells of them, and where their header ends."""
    tree = module.trees.get(path)
    for block in tree.blocks if tree is not None else ():
        if block.type != "resource" or len(block.labels) < 2:
            continue
        address = f"{block.labels[0].value}.{block.labels[1].value}"
        yield (address, ""), block.header_span.end.byte
        body = block.body
        for inner in body.blocks if isinstance(body, Body) else ():
            yield (address, pool_of(inner)), inner.header_span.end.byte


def pool_of(block: Block) -> str:
    """The pool that a nested block declares, as placements name it; its type where it declares none."""
    if block.type == "control_plane":
        return "control-plane"
    return block.labels[0].value if block.labels else block.type
