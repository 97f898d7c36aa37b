"""Sites that have a state and that no file names any more: said, since nothing else would say it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from nexusform.diagnostics import Diagnostic, warning
from nexusform.domains.sites.types.definition import FILE_NAME
from nexusform.domains.sites.types.fleet_plan import UndeclaredSite
from nexusform.json_forms import Form
from nexusform.placement_kinds.kinds import kind_order, noun_of
from nexusform.rendering.answers.outline import Section
from nexusform.source import Position, Span
from nexusform.words import counted, form, listed

UNDECLARED: Final = "site-no-longer-declared"
_WHAT_TO_DO: Final = (
    "Nothing is done to it, and what it has runs on. To take it down, declare it again with destroy = true "
    "and apply that; to keep it, declare it again; to give it up, move its state away."
)


def undeclared_sections(sites: Sequence[UndeclaredSite], most: int) -> Iterable[Section]:
    """A row for each, and what can be done."""
    if not sites:
        return
    lines = [f"{site.name}: {_standing(site)}" for site in sites[:most]]
    left = len(sites) - most
    if left > 0:
        lines.append(f"{counted(left, 'more site')}: -json has all.")
    title = f"Warning: {counted(len(sites), 'site')} {form(len(sites), 'is', 'are')} no longer declared"
    yield Section(title, (*lines, _WHAT_TO_DO))


def _standing(site: UndeclaredSite) -> str:
    """`its state states/lon9.nfstate stands, with 12 VMs on 5 objects`."""
    if site.objects is None:
        return f"its state {site.state} may stand. {site.reason}"
    kinds = sorted(site.placed, key=kind_order)
    placed = [counted(site.placed[kind], noun_of(kind)) for kind in kinds]
    return f"its state {site.state} stands, with {listed([counted(site.objects, 'object'), *placed])}."


_UNDECLARED: Final = Form(UndeclaredSite, "name state serial objects placed reason")


def undeclared_document(sites: Sequence[UndeclaredSite]) -> list[dict[str, Any]]:
    """The same for machines. `objects` is null where a state could not be read."""
    return [_UNDECLARED(site) for site in sites]


def undeclared_findings(sites: Sequence[UndeclaredSite]) -> Iterable[Diagnostic]:
    """A warning for each, at the head of the file that does not name it."""
    at = Position(1, 1, 0)
    for site in sites:
        detail = f"{site.name}: {_standing(site)} {_WHAT_TO_DO}"
        yield warning(UNDECLARED, detail, Span(FILE_NAME, at, at))
