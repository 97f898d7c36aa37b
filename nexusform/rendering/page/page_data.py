"""What the page's scripts work on: sites, VMs and changes as plain data, short names to keep it small.

Rows are lists; the order of their fields stands in FIELDS, which goes into the document too.
Secrets are hidden here as in every other text: changes are the drawn difference, not the values.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Final, Generic, TypeAlias, TypeVar

from msgspec import Struct

from nexusform.address import module_text
from nexusform.json_forms import Form
from nexusform.placement_kinds.kinds import KINDS, VM, place_text
from nexusform.plans.impact.effects import Effect, effect_of, state_of
from nexusform.plans.plan import (
    Change,
    PlacementChange,
    Plan,
    SeparationVerdict,
)
from nexusform.rendering.notation.json_values import known_part
from nexusform.rendering.page.domain_parts import parts_of_domains
from nexusform.rendering.page.legend import Paint, paints
from nexusform.rendering.page.packing import packed
from nexusform.rendering.page.rack_map import MapMachine, MapRack, MapVm, Mark, SiteMap, Sureness
from nexusform.rendering.report.placement_rows import outcome_of
from nexusform.rendering.report.report import Report, Stanza
from nexusform.rendering.report.upgrade_words import RECREATING
from nexusform.rendering.report.wording import SYMBOLS, headline, headline_address
from nexusform.rendering.text.stanza_text import drawn_changes, stanza_text
from nexusform.scheduling.decision import Place
from nexusform.scheduling.racks.vms import Placement, VmSku

FIELDS: Final = {
    "machine": ["name", "slot", "sku", "cells", "cpus", "memory", "refusal", "mark", "before", "after"],
    "vm": ["name", "address", "cluster", "pool", "sku", "mark", "before", "after", "more"],
    "sku": ["name", "cpus", "memory", "cpusInCell", "memoryInCell"],
    "change": ["address", "module", "type", "symbol", "headline", "text", "file", "line"],
    "row": ["kind", "object", "address", "group", "action", "from", "to", "trigger", "more", "at"],
}
_STEPS: Final = {Sureness.COUNT: 1, Sureness.LIKELY: 2, Sureness.LOT: 3}
_MARKS: Final = {Mark.KEPT: 0, Mark.PLACED: 1, Mark.MOVED: 2, Mark.REMOVED: 3}


def page_data(plan: Plan, report: Report, maps: Sequence[SiteMap]) -> dict[str, Any]:
    """The whole document; of a plan in error nothing that it would have done."""
    changes = () if plan.errored else drawn_changes(plan, report)
    placements = () if plan.errored else plan.placements
    document = {
        "fields": FIELDS,
        "sites": [_site(site) for site in maps],
        "changes": [_change(change, stanza) for change, stanza in changes],
        "rows": [_row(row) for row in placements if row.kind != VM],
        "members": [list(member) for part in parts_of_domains(plan) for member in part.members(plan)],
        "shared": _shared(plan.separation_rules),
        "errored": plan.errored,
        "denied": plan.denied,
        "tieBreaks": plan.tie_breaks,
    }
    return packed(document)


class StepFigure(Struct, frozen=True):
    """What a step leaves of a pool: whose, how many, and whether that is too few."""

    pool: str
    text: str
    bad: bool = False


class PlayStep(Struct, frozen=True):
    """One moment of a simulation: what it is, which machines are down, the numbers of the site's VMs that
    leave their place in it, and what it leaves of the pools that it touches.
    """

    title: str
    down: tuple[str, ...] = ()
    moves: tuple[int, ...] = ()
    figures: tuple[StepFigure, ...] = ()


class Play(Struct, frozen=True):
    """What is played on the map of a site. `moved` and `gone` say what becomes of VMs that leave."""

    site: SiteMap
    steps: tuple[PlayStep, ...]
    moved: str = ""
    gone: str = ""


def simulation_data(plays: Sequence[Play], rows: Sequence[PlacementChange] = ()) -> dict[str, Any]:
    """The document of a simulation: sites with their steps, bindings and pods (`rows`), and nothing else that
    a plan would add.
    """
    sites = [{**_site(play.site), "steps": list(map(_step, play.steps))} for play in plays]
    not_told: dict[str, Any] = {name: [] for name in ("changes", "members", "shared")}
    # What the marks of VMs are called, by number: stays, comes, moves, goes.
    marks = ["stays", "", plays[0].moved, plays[0].gone] if plays else []
    return {
        "fields": FIELDS,
        "sites": sites,
        **not_told,
        "rows": [_row(row) for row in rows],
        "marks": marks,
        "errored": False,
        "denied": False,
        "tieBreaks": 0,
    }


def _step(step: PlayStep) -> dict[str, Any]:
    figures = [[figure.pool, figure.text, figure.bad] for figure in step.figures]
    return {"title": step.title, "down": list(step.down), "moves": list(step.moves), "figures": figures}


# --- sites -------------------------------------------------------------------------------------


def _site(site: SiteMap) -> dict[str, Any]:
    """A site with its racks and VMs; names that repeat are numbers."""
    addresses, pools, skus = _Numbers[str](), _Numbers[str](), _Numbers[_Sku]()
    clusters = {cluster: number for number, cluster in enumerate(site.clusters)}
    vms: list[list[Any]] = []
    for vm in site.vms:
        numbers = (addresses.of(vm.address), clusters[vm.cluster], pools.of(vm.pool), skus.of(_sku(vm.sku)))
        vms.append([vm.name, *numbers, _MARKS[vm.mark], _place(vm.before), _place(vm.after), _more(vm)])
    return {
        "id": site.id,
        "name": site.name,
        "clusters": [_CLUSTER(paint) for paint in paints(site.clusters).values()],
        "addresses": addresses.names,
        "pools": pools.names,
        "skus": [list(sku) for sku in skus.names],
        "racks": [_RACK(rack) for rack in site.racks],
        "steps": [],
        "vms": vms,
    }


_Sku: TypeAlias = tuple[str, int, float, int, float]


def _sku(sku: VmSku) -> _Sku:
    return sku.name, sku.host_vcpus, sku.memory_gib, sku.cpus_in_cell, sku.memory_in_cell


_CLUSTER: Final = Form(Paint, "name=cluster key colour pattern=pattern_name")


_Name = TypeVar("_Name", bound=Hashable)


class _Numbers(Generic[_Name]):
    """Names as small numbers."""

    def __init__(self) -> None:
        self._numbers: dict[_Name, int] = {}

    def of(self, name: _Name) -> int:
        """The number of a name."""
        return self._numbers.setdefault(name, len(self._numbers))

    @property
    def names(self) -> list[_Name]:
        """The names in the order of their numbers."""
        return list(self._numbers)


def _machine(machine: MapMachine) -> list[Any]:
    """The fields of a machine, as FIELDS has them."""
    facts = machine.facts
    return [
        facts.name,
        facts.slot,
        facts.machine_sku or "",
        facts.cells,
        facts.cpus_per_cell,
        facts.memory_gib_per_cell,
        facts.refusal,
        _MARKS[machine.mark],
        list(machine.before),
        list(machine.after),
    ]


_RACK: Final = Form(MapRack, "name zone planned machines", machines=_machine)


def _place(place: Placement | None) -> list[Any] | None:
    return None if place is None else [place.rack, place.machine, place.availability_zone, *place.cells]


def _more(vm: MapVm) -> dict[str, Any] | None:
    """What the plan says of a VM beyond its place; None when it says nothing."""
    document = _explanation(vm.row) if vm.row is not None else {}
    effect = effect_of(vm.row) if vm.row is not None else Effect.KEPT
    if vm.row is not None and (vm.mark is not Mark.KEPT or effect is Effect.FORGOTTEN):
        fate = _FATES.get(effect)
        if effect is Effect.AGAIN:
            fate = outcome_of(effect, state_of(vm.row))
        if effect is Effect.MOVED and vm.row.trigger in RECREATING:
            fate = _ANEW
        document |= {"fate": fate} if fate else {}
    if vm.row is None and vm.mark is Mark.REMOVED:
        document["fate"] = _FATES[Effect.LOST]
    if vm.sure is not Sureness.UNKNOWN:
        document["sure"] = _STEPS[vm.sure]
    if vm.provenance and vm.provenance != "predicted":
        document["provenance"] = vm.provenance
    return document or None


_ANEW: Final = "re-created with its pool"
# Where a mark does not say what becomes of a VM.
_FATES: Final = {
    Effect.LOST: "without its machine",
    Effect.FORGOTTEN: "forgotten, runs on",
}


def _explanation(row: PlacementChange) -> dict[str, Any]:
    """What a row says beyond where its object goes."""
    document: dict[str, Any] = {}
    if row.trigger:
        document["trigger"] = row.trigger
    if row.reason and row.reason != row.trigger:
        document["reason"] = row.reason
    if row.certainty is not None:
        document["certainty"] = [row.certainty.rack_count, row.certainty.machine]
    if row.scores:
        document["scores"] = known_part(row.scores)
    if row.rejected:
        document["rejected"] = [[refusal.candidate, refusal.rule, refusal.reason] for refusal in row.rejected]
    return document


# --- changes -----------------------------------------------------------------------------------


def _change(change: Change, stanza: Stanza | None) -> list[Any]:
    """The fields of a change, as FIELDS has them."""
    text = stanza_text(stanza) if stanza is not None else ""
    span = change.source
    return [
        headline_address(change),
        module_text(change.address.module),
        change.address.type,
        SYMBOLS[change.action],
        headline(change),
        # The first line is the headline, which stands above it already.
        text.partition("\n")[2],
        span.filename if span else "",
        span.start.line if span else 0,
    ]


# --- bindings and pods -------------------------------------------------------------------------


def _row(row: PlacementChange) -> list[Any]:
    """The fields of a binding or a pod, as FIELDS has them."""
    explanation = _explanation(row)
    explanation.pop("trigger", None)
    return [
        row.kind,
        row.object,
        str(row.address),
        "/".join(text for text in (row.cluster, row.pool) if text),
        row.action.value,
        _where(row.source),
        _where(row.target),
        row.trigger,
        explanation or None,
        _at(row),
    ]


def _at(row: PlacementChange) -> list[str]:
    """Cluster, node and machine of a binding or a pod, for links; "" for what it has not."""
    place = row.target or row.source
    return [row.object, "", ""] if place is None else list(KINDS[row.kind].link(place))


def _shared(verdicts: Sequence[SeparationVerdict]) -> list[dict[str, Any]]:
    """Hardware that separation rules find shared."""
    shared: list[dict[str, Any]] = []
    for verdict in verdicts:
        for violation in verdict.violations:
            hardware = {"site": violation.site_id, "rack": violation.rack, "machine": violation.machine}
            shared.append({"rule": str(verdict.address), **hardware, "members": list(violation.members)})
    return shared


def _where(place: Place | None) -> str:
    return place_text(place) if place else ""
