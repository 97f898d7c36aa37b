"""Report of sites with a state but no longer declared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from nexusform.diagnostics.diagnostic import Diagnostic, Position, Span, build_warning
from nexusform.diagnostics.phrases import format_count, format_list, select_word_form
from nexusform.domains.sites.types.fleet_definition import FILE_NAME
from nexusform.domains.sites.types.fleet_plan import UndeclaredSite
from nexusform.json_data.record_forms import RecordForm
from nexusform.placement_kinds.placement_kind import get_kind_noun, get_kind_order
from nexusform.rendering.report.report_tree import Section

UNDECLARED: Final = "site-no-longer-declared"
_ADVICE: Final = (
    "It is not changed; its workload keeps running. To delete it, declare it with destroy = true and "
    "apply. To keep it, declare it again. To forget it, move its state away."
)


def build_undeclared_sections(sites: Sequence[UndeclaredSite], max_rows: int) -> Iterable[Section]:
    """Build the section with a row per site and the advice."""
    if not sites:
        return
    lines = [f"{site.name}: {_describe_state(site)}" for site in sites[:max_rows]]
    hidden_count = len(sites) - max_rows
    if hidden_count > 0:
        lines.append(f"{format_count(hidden_count, 'more site')}: -json has all.")
    title = (
        f"Warning: {format_count(len(sites), 'site')} {select_word_form(len(sites), 'is', 'are')} no longer declared"
    )
    yield Section(title, (*lines, _ADVICE))


def _describe_state(site: UndeclaredSite) -> str:
    """Describe the state of a site and its number of objects and placements."""
    if site.objects is None:
        return f"its state {site.state_location} may exist. {site.reason}"
    kinds = sorted(site.placement_counts, key=get_kind_order)
    placement_texts = [format_count(site.placement_counts[kind], get_kind_noun(kind)) for kind in kinds]
    return (
        f"its state {site.state_location} exists, with "
        f"{format_list([format_count(site.objects, 'object'), *placement_texts])}."
    )


_UNDECLARED: Final = RecordForm(
    UndeclaredSite, "name state=state_location serial objects placed=placement_counts reason"
)


def build_undeclared_document(sites: Sequence[UndeclaredSite]) -> list[dict[str, Any]]:
    """Build the report as JSON data; `objects` is null for an unreadable state."""
    return [_UNDECLARED(site) for site in sites]


def build_undeclared_findings(sites: Sequence[UndeclaredSite]) -> Iterable[Diagnostic]:
    """Build a warning for each site, located at the start of the sites file."""
    position = Position(1, 1, 0)
    for site in sites:
        detail = f"{site.name}: {_describe_state(site)} {_ADVICE}"
        yield build_warning(UNDECLARED, detail, Span(FILE_NAME, position, position))
