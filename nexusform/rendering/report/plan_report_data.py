"""A plan with the rows of its report, each computed once on demand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

from nexusform.diagnostics.diagnostic import SourceFile
from nexusform.diagnostics.phrases import format_list
from nexusform.interfaces.plugins import PluginRegistries
from nexusform.placement_kinds.registry import (
    format_location_briefly,
    format_location_text,
    get_kind_title,
)
from nexusform.plans.plan import Action, Mode, PlacementTable, Plan
from nexusform.rendering.report.decision_lines import (
    COUNT_LABEL,
    DecisionLine,
    build_decision_lines,
)
from nexusform.rendering.report.finding_entries import (
    Finding,
    FindingEntries,
    build_finding_entries,
    collect_findings,
)
from nexusform.rendering.report.object_rows import (
    ObjectFold,
    SchemaLookup,
    build_drift_folds,
    build_object_folds,
    create_schema_lookup,
    select_drift,
)
from nexusform.rendering.report.placement_rows import (
    LocationFormatter,
    PlacementLineGroup,
    PlacementSummary,
    ShownPlacements,
    build_count_clauses,
    build_placement_groups,
    build_placement_summaries,
)
from nexusform.rendering.report.plan_sentences import describe_object_counts
from nexusform.rendering.report.plan_verdict import (
    build_headline,
    compute_impact,
    describe_rejection,
)
from nexusform.rendering.report.report_tree import Report, Section

if TYPE_CHECKING:
    from nexusform.rendering.report.change_stanzas import ChangeStanza
    from nexusform.rendering.report.difference_tree import DifferenceNode
    from nexusform.rendering.report.site_rows import SiteRow

_NO_REGISTRIES = PluginRegistries()
_NO_SOURCES: Mapping[str, SourceFile] = {}

# Label of the line with the numbers of objects to add, change and destroy.


class PlanReportData:
    """The rows of a plan.

    `detail` is the flag -placements; `is_long` names NUMA cells and racks, too.
    """

    def __init__(
        self,
        plan: Plan,
        sources: Mapping[str, SourceFile] = _NO_SOURCES,
        registries: PluginRegistries = _NO_REGISTRIES,
        detail: ShownPlacements = ShownPlacements.CHANGED,
        *,
        is_long: bool = False,
    ) -> None:
        """Set the plan and its options.

        `detail` is the flag -placements, `is_long` names NUMA cells and racks, too.
        """
        self.plan = plan
        self.sources = sources
        self.registries = registries
        self.vm_detail = detail
        self.is_long = is_long

    @cached_property
    def find_schema(self) -> SchemaLookup:
        """The function to find the schema of an address."""
        return create_schema_lookup(self.registries)

    @cached_property
    def objects(self) -> tuple[ObjectFold, ...]:
        """The changed objects, similar ones together."""
        return build_object_folds(self.plan, self.find_schema)

    @cached_property
    def stanzas(self) -> tuple[ChangeStanza, ...]:
        """The changed objects with their differences."""
        from nexusform.rendering.report.change_stanzas import build_stanzas

        return build_stanzas(self.plan, self.registries, self.vm_detail)

    @cached_property
    def drift(self) -> tuple[ObjectFold, ...]:
        """The objects changed outside of nexusform."""
        return build_drift_folds(select_drift(self.plan), self.find_schema)

    @cached_property
    def drift_stanzas(self) -> tuple[ChangeStanza, ...]:
        """The objects changed outside of nexusform, with their differences."""
        from nexusform.rendering.report.change_stanzas import build_drift_stanzas

        return build_drift_stanzas(self.plan, self.registries)

    @cached_property
    def outputs(self) -> tuple[DifferenceNode, ...]:
        """The changed outputs."""
        changed = [
            output for output in self.plan.root_values.outputs if output.action is not Action.NO_OP
        ]
        if not changed:
            # Most plans need no import.
            return ()
        from nexusform.rendering.report.change_stanzas import compare_output

        return tuple(map(compare_output, changed))

    @cached_property
    def groups(self) -> tuple[PlacementLineGroup, ...]:
        """The changed placements by pool, placement or workload."""
        return build_placement_groups(self.plan, self.vm_detail, self.location_formatter)

    @property
    def changed_tables(self) -> list[PlacementTable]:
        """The tables of pools with changed placements."""
        return [group.table for group in self.groups if group.table is not None]

    @property
    def location_formatter(self) -> LocationFormatter:
        """The function to format the location of a single object."""
        return format_location_text if self.is_long else format_location_briefly

    @property
    def placed_vms(self) -> int:
        """The number of VMs with a new location; 0 if placements are not displayed."""
        return self.plan.placed_vms if self.vm_detail is not ShownPlacements.NONE else 0

    @cached_property
    def summaries(self) -> tuple[PlacementSummary, ...]:
        """The numbers of placements."""
        return build_placement_summaries(self.plan)

    @cached_property
    def sites(self) -> tuple[SiteRow, ...]:
        """The sites of a plan over several sites; () for a single site."""
        if len(self.plan.site_records.sites) < 2:
            return ()
        from nexusform.rendering.report.site_rows import build_site_rows

        return build_site_rows(self.plan)

    @cached_property
    def domain_sections(self) -> Mapping[str, tuple[Section, ...]]:
        """The sections of domains by their place on a page."""
        from nexusform.rendering.report.domain_sections import build_domain_sections

        return build_domain_sections(self.plan)

    @property
    def cluster_names(self) -> Iterator[tuple[str, str]]:
        """The names of clusters in sections of domains, with their ids."""
        for section in chain.from_iterable(self.domain_sections.values()):
            yield from section.cluster_names

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """The diagnostics by level."""
        return collect_findings(self.plan)

    @cached_property
    def entries(self) -> FindingEntries:
        """The warnings and advice in short form."""
        return build_finding_entries(self.plan)

    @property
    def is_refresh_only(self) -> bool:
        """Whether the plan records drift only."""
        return self.plan.options.mode is Mode.REFRESH_ONLY


def build_plan_report(view: PlanReportData) -> Report:
    """Build the report of a plan without sections."""
    plan = view.plan
    return Report(
        title=build_headline(plan),
        verdict=describe_rejection(plan),
        is_finding=plan.is_rejected,
        facts=plan.observed.provider_titles,
        impact=compute_impact(plan),
        decision=build_decision_lines(plan),
    )


def build_count_lines(view: PlanReportData) -> list[DecisionLine]:
    """Return the line `Placements` with counts by kind, if there are any, and the line `Plan`.

    Return [] for a failed plan.
    """
    plan = view.plan
    if plan.is_failed:
        return []
    texts = []
    for summary in view.summaries:
        # The first is of all kinds.
        title = f"{get_kind_title(summary.kind)}: " if summary.kind else ""
        text = f"{title}{', '.join(build_count_clauses(summary))}"
        # Each kind has its own.
        has_notes = bool(summary.notes) and (bool(summary.kind) or len(view.summaries) == 1)
        texts.append(f"{text}; of these, {format_list(summary.notes)}" if has_notes else text)
    placements = [DecisionLine("Placements", tuple(texts))] if texts else []
    counts = describe_object_counts(plan)
    return [*placements, DecisionLine(COUNT_LABEL, (counts.removeprefix("Plan: "),))]
