"""Why a VM is where it is: the scheduler's explanation, step by step, as text."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from nexusform.rendering.notation.colours import Painter, harmless
from nexusform.scheduling.decision import Certainty, Refusal
from nexusform.scheduling.racks.explanation import Explanation, Ranked
from nexusform.scheduling.racks.faces import KeyPart
from nexusform.scheduling.racks.model import Placement, VmSku

_INDENT = " " * 15
# So many refusal lines and tied names are shown unless all are asked for.
_LINES = 8
_NAMES = 6


def render_explanation(
    name: str,
    explanation: Explanation,
    certainty: Certainty | None = None,
    tie_breaks: int = 0,
    *,
    rack_machines: Collection[str] = (),
    every: bool = False,
    colour: bool = False,
) -> str:
    """The five steps for one VM, with a newline at the end.

    `name` is the VM's as shown; `rack_machines` are the names of all machines of the chosen rack
    (default: those whose names start with the rack's). `every` lists each refused machine of the
    site rather than those of the chosen rack and a count.
    """
    paint = Painter(colour)
    lines = [_title(name, explanation, paint), *_filters(explanation)]
    if explanation.placement is not None:
        lines += _rack(explanation)
        lines += _machine(explanation, rack_machines, every=every)
        lines.append(_cells(explanation, explanation.placement))
    if every or explanation.placement is None:
        lines += _refusals(explanation, every=every)
    if certainty is not None and tie_breaks:
        lines.append(certainty_text(certainty, tie_breaks))
    return "\n".join(lines) + "\n"


def sku_text(sku: VmSku) -> str:
    """`NC_P46_224_v1: 48 host vCPUs, 224 GiB, 1 cell`."""
    cells = "1 cell" if sku.numa_cells == 1 else f"{sku.numa_cells} cells"
    return f"{sku.name}: {sku.host_vcpus} host vCPUs, {sku.memory_gib} GiB, {cells}"


def placement_place(placement: Placement) -> str:
    """`rack7 / rack7-bm06 / cell 1`."""
    word = "cell" if len(placement.cells) == 1 else "cells"
    numbers = "+".join(str(c) for c in placement.cells)
    return f"{placement.rack} / {placement.machine} / {word} {numbers}"


def _title(name: str, explanation: Explanation, paint: Painter) -> str:
    place = placement_place(explanation.placement) if explanation.placement else "fits nowhere"
    return (
        f"{paint(harmless(name), 'bold')} ({harmless(sku_text(explanation.demand.sku))}) -> {harmless(place)}"
    )


def _step(number: str, name: str, text: str) -> str:
    return f"  {number} {name:<9}: {harmless(text)}"


# --- steps 1 and 2 -----------------------------------------------------------------------------


def _filters(explanation: Explanation) -> list[str]:
    left = {f.rule: f.machines for f in explanation.filters}
    total = explanation.total_machines
    fits, zones = left.get("fits", total), left.get("zones", total)
    texts = [f"{total} machines"]
    before = total
    words = {"schedulable": "take new VMs", "hardware": "have hardware for the SKU", "disk": "have the disk"}
    for rule, words_of in words.items():
        if left.get(rule, before) != before:
            before = left[rule]
            texts.append(f"{before} {words_of}")
    size = (
        "a free cell of that size"
        if explanation.demand.sku.numa_cells == 1
        else "enough free cells of that size"
    )
    lines = [_step("1", "fits", f"{', '.join(texts)}, {fits} have {size}")]
    wanted = explanation.demand.zones
    if wanted is None:
        lines.append(_step("2", "zones", f"all; {zones} stay"))
    else:
        lines.append(_step("2", "zones", f"{{{', '.join(sorted(wanted))}}} leave {zones}"))
    hints = left.get("hints", zones)
    if explanation.demand.hints:
        lines.append(_step(" ", "hints", f"{len(explanation.demand.hints)} leave {hints}"))
    return lines


# --- steps 3 to 5 ------------------------------------------------------------------------------


def _figures(keys: Iterable[KeyPart]) -> str:
    return ", ".join(k.text for k in keys if k.text)


def _names(ranked: Sequence[Ranked]) -> str:
    names = [r.name for r in ranked[:_NAMES]]
    if len(ranked) > _NAMES:
        return f"{', '.join(names)} and {len(ranked) - _NAMES} more"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _rack(explanation: Explanation) -> list[str]:
    best = explanation.racks[0]
    tied = explanation.tied_racks
    if len(tied) > 1:
        return [
            _step("3", "rack", f"{_names(tied)} tie ({_figures(best.keys)}): tie-break chose {best.name}")
        ]
    lines = [_step("3", "rack", f"{best.name} ({_figures(best.keys)})")]
    if len(explanation.racks) > 1:
        second = explanation.racks[1]
        lines.append(f"{_INDENT}next best: {harmless(f'{second.name} ({_figures(second.keys)})')}")
    return lines


def _machine(explanation: Explanation, rack_machines: Collection[str], *, every: bool) -> list[str]:
    best = explanation.machines[0]
    tied = explanation.tied_machines
    if len(tied) > 1:
        text = f"{_names(tied)} tie ({_figures(best.keys)}): tie-break chose {best.name}"
    else:
        text = f"{best.name} ({_figures(best.keys)})"
    lines = [_step("4", "machine", text)]
    second = explanation.next_best
    if second is not None and len(tied) <= 1:
        lines.append(f"{_INDENT}next best: {harmless(f'{second.name} ({_figures(second.keys)})')}")
    if not every:
        front = f"{explanation.racks[0].name}-"
        known = frozenset(rack_machines)
        mine = [
            r
            for r in explanation.refusals
            if (r.candidate in known if known else r.candidate.startswith(front))
        ]
        lines += [f"{_INDENT}refused  : {text}" for text in _grouped(mine)[:_LINES]]
        others = len(explanation.refusals) - len(mine)
        if others:
            lines.append(f"{_INDENT}elsewhere: {others} machines refused")
    return lines


def _cells(explanation: Explanation, placement: Placement) -> str:
    chosen = "+".join(str(c) for c in placement.cells)
    word = "cell" if len(placement.cells) == 1 else "cells"
    if len(explanation.fitting_cells) == len(placement.cells):
        only = "is the only one that fits" if len(placement.cells) == 1 else "are the only ones that fit"
        return _step("5", "cells", f"{word} {chosen} {only}")
    fitting = ", ".join(str(c) for c in sorted(explanation.fitting_cells))
    has = "has" if len(placement.cells) == 1 else "have"
    return _step("5", "cells", f"{word} {chosen} {has} the least free memory of those that fit ({fitting})")


# --- refusals and certainty --------------------------------------------------------------------


def _refusals(explanation: Explanation, *, every: bool) -> list[str]:
    grouped = _grouped(explanation.refusals)
    shown = grouped if every else grouped[:_LINES]
    lines = [f"  refused: {shown[0]}", *(f"           {text}" for text in shown[1:])] if shown else []
    if len(grouped) > len(shown):
        lines.append(f"           and {len(grouped) - len(shown)} more reasons")
    return lines


def _grouped(refusals: Iterable[Refusal]) -> list[str]:
    # `rack7-bm01, bm02, bm03 no cell of 224 GiB left`: machines of a rack with one reason together.
    groups: dict[tuple[str, str], list[str]] = {}
    for refusal in refusals:
        groups.setdefault((refusal.rule, refusal.reason), []).append(refusal.candidate)
    return [harmless(f"{_abbreviated(names)}: {rule}: {reason}") for (rule, reason), names in groups.items()]


def _abbreviated(names: Sequence[str]) -> str:
    shown: list[str] = []
    front = ""
    for name in names:
        prefix, dash, rest = name.rpartition("-")
        shown.append(rest if dash and prefix == front else name)
        front = prefix
    return ", ".join(shown)


def certainty_text(certainty: Certainty | None, tie_breaks: int) -> str:
    """In how many of the repeated tie-breaks the VM goes there; "" when nothing was repeated."""
    if certainty is None or not tie_breaks:
        return ""
    rack, machine = round(certainty.rack * tie_breaks), round(certainty.machine * tie_breaks)
    return f"Same rack in {rack} of {tie_breaks} tie-breaks, same machine in {machine}."


def explanation_document(
    name: str, explanation: Explanation, certainty: Certainty | None = None, tie_breaks: int = 0
) -> dict[str, Any]:
    """The same as data: every ranked rack and machine with its figures, every refusal."""
    placement = explanation.placement
    place = None
    if placement is not None:
        place = {
            "machine": placement.machine,
            "rack": placement.rack,
            "availability_zone": placement.availability_zone,
            "numa_cells": list(placement.cells),
        }
    zones = explanation.demand.zones
    return {
        "object": name,
        "vm_sku_name": explanation.demand.sku.name,
        "availability_zones": None if zones is None else sorted(zones),
        "to": place,
        "seed": explanation.seed,
        "machines_in_all": explanation.total_machines,
        "filters": [{"rule": f.rule, "machines": f.machines} for f in explanation.filters],
        "racks": [_ranked(r) for r in explanation.racks],
        "machines": [_ranked(r) for r in explanation.machines],
        "fitting_cells": list(explanation.fitting_cells),
        "rejected": [
            {"candidate": r.candidate, "rule": r.rule, "reason": r.reason} for r in explanation.refusals
        ],
        "certainty": None if certainty is None else {"rack": certainty.rack, "machine": certainty.machine},
        "tie_breaks": tie_breaks,
    }


def _ranked(ranked: Ranked) -> dict[str, Any]:
    keys = [{"rule": k.rule, "value": k.value, "text": k.text} for k in ranked.keys]
    return {"name": ranked.name, "keys": keys, "tie_break": ranked.digest or None}
