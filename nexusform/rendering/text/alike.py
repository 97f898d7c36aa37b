"""Changes that are the same but for the object's own names, put together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from nexusform.planning.plan import Change, Plan
from nexusform.rendering.notation.hcl_text import quoted
from nexusform.rendering.report.report import PLACEMENT_MAPS, Report, Stanza
from nexusform.rendering.report.wording import SYMBOLS, headline, headline_address
from nexusform.rendering.text.stanza_text import stanza_text
from nexusform.schema import order_attribute


class Alike(Struct, frozen=True):
    """One change told in full, and the addresses of those like it."""

    change: Change
    others: tuple[str, ...]


class AlikeStanzas(Struct, frozen=True):
    """One stanza drawn, and the addresses of those that differ from it in their own names only."""

    text: str
    others: tuple[str, ...]


def drawn_changes(plan: Plan, report: Report) -> list[tuple[Change, Stanza | None]]:
    """Every change with its stanza, where it has one."""
    stanzas = {(stanza.address, stanza.headline): stanza for stanza in report.stanzas}
    keys = [(headline_address(change), headline(change)) for change in plan.changes]
    return [(change, stanzas.get(key)) for change, key in zip(plan.changes, keys, strict=True)]


def compared(side: Mapping[str, Any]) -> dict[str, Any]:
    """An object's attributes as far as a list of changes tells them.

    Placements have a part of their own, and the order of labelled blocks stands beside them.
    """
    orders = {order_attribute(name) for name in side}
    left_out = orders | PLACEMENT_MAPS.keys()
    return {name: plain for name, plain in side.items() if name not in left_out}


def alike_changes(plan: Plan) -> list[Alike]:
    """The changes that do something, in the plan's order of the first of each group.

    Objects that come or go are alike by type; others when the same parts change in the same way.
    """
    groups: dict[tuple[Any, ...], list[Change]] = {}
    for change in plan.changes:
        if SYMBOLS[change.action]:
            groups.setdefault(_likeness(change), []).append(change)
    return [_alike(first, others) for first, *others in groups.values()]


def _alike(change: Change, others: Iterable[Change]) -> Alike:
    return Alike(change, tuple(str(other.address) for other in others))


def _likeness(change: Change) -> tuple[Any, ...]:
    """What changes of one group have in common."""
    kind = (change.action, headline(change), change.address.type)
    if change.before is None or change.after is None:
        return kind
    before, after = compared(change.before), compared(change.after)
    own_names = _own_names(change)
    parts = []
    for name in sorted({**before, **after}):
        old, new = before.get(name), after.get(name)
        if old != new:
            parts.append((name, _masked(repr(old), own_names), _masked(repr(new), own_names)))
    return (*kind, tuple(parts))


def alike_stanzas(drawn: Iterable[tuple[Change, Stanza | None]]) -> list[AlikeStanzas]:
    """The stanzas, those that differ only in the object's own names told once."""
    texts: dict[str, str] = {}
    others: dict[str, list[str]] = {}
    for change, stanza in drawn:
        if stanza is None:
            continue
        text = stanza_text(stanza)
        body = text.partition("\n")[2].replace(stanza.header, change.address.type, 1)
        likeness = f"{stanza.headline}\n{_masked(body, _own_names(change))}"
        if likeness in texts:
            others[likeness].append(stanza.address)
        else:
            texts[likeness] = text
            others[likeness] = []
    return [AlikeStanzas(text, tuple(others[likeness])) for likeness, text in texts.items()]


def _own_names(change: Change) -> list[str]:
    """What tells the object from its siblings: id, name and instance key, as they are drawn."""
    names = [change.address.key]
    for side in (change.before, change.after):
        if side is not None:
            names += [side.get("id"), side.get("name")]
    drawn: set[str] = set()
    for name in names:
        if isinstance(name, str) and name:
            drawn |= {quoted(name), repr(name)}
    # A longer name may hold a shorter one, so it is masked first.
    return sorted(drawn, key=len, reverse=True)


def _masked(text: str, own: Sequence[str]) -> str:
    for name in own:
        text = text.replace(name, "\0")
    return text
