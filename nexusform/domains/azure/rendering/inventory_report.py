"""Report of `inventory check`, as text and as data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from nexusform.diagnostics.diagnostic import Diagnostic
from nexusform.diagnostics.phrases import format_count, format_first_items, select_word_form
from nexusform.domains.azure.questions.reconciliation import CapturedSite
from nexusform.json_data.record_forms import RecordForm, build_row_form
from nexusform.rendering.report.report_tree import Report, Row, Section, Table

_MAX_NAMES = 8


def build_inventory_report(origin: str, sites: Sequence[CapturedSite], findings: Sequence[Diagnostic]) -> Report:
    """Build the report: figures of each site, then findings."""
    sections: list[Section] = []
    for site in sites:
        sections += _build_sections(site)
    if findings:
        lines = tuple(f"- {finding.summary}: {finding.detail}" for finding in findings)
        sections.append(Section("Findings", lines, is_finding=True))
    has_findings = bool(findings) or any(site.closed or site.unplaced for site in sites)
    names = f"{format_count(len(sites), 'site')}: {format_first_items([site.name for site in sites], _MAX_NAMES)}."
    return Report(f"Inventory {origin}", names, has_findings, (), tuple(sections))


def _build_sections(site: CapturedSite) -> Iterator[Section]:
    """Build the sections of a site: contents, hardware, unschedulable machines."""
    yield Section(site.name, tuple(_describe_inventory_counts_and_age(site)))
    rows = tuple(
        Row((sku_id or "none", sku or "not in the catalogue", f"{count:,}")) for sku_id, sku, count in site.skus
    )
    yield Section(
        f"Hardware of {site.name}", table=Table(("machineSkuId", "Catalogue", "Machines"), rows, frozenset({2}))
    )
    if site.closed:
        closed = tuple(Row(pair, is_finding=True) for pair in site.closed)
        yield Section(
            f"Machines closed to new VMs on {site.name}", table=Table(("Machine", "Reason"), closed), is_finding=True
        )


def _describe_inventory_counts_and_age(site: CapturedSite) -> Iterator[str]:
    """Describe counts and age of the export, and VMs without machine."""
    age = "of unknown age"
    if site.exported_at:
        age = f"{'made' if site.is_age_certain else 'newest change'} {site.exported_at}"
    machines = f"{format_count(site.machines, 'machine')} ({site.compute:,} compute)"
    vms = format_count(site.vms, "VM")
    yield (f"{format_count(site.racks, 'rack')}, {machines}, {format_count(site.clusters, 'cluster')}, {vms}; {age}")
    if site.unplaced:
        count_text = format_count(len(site.unplaced), "VM")
        verb = select_word_form(len(site.unplaced), "is", "are")
        yield f"{count_text} {verb} on no machine: {format_first_items(site.unplaced, _MAX_NAMES)}"


_SITE: Final = RecordForm(
    CapturedSite,
    "name racks machines compute_machines=compute kubernetes_clusters=clusters vms closed machine_skus=skus "
    "without_machine=unplaced exported_at",
    closed=build_row_form("machine reason"),
    machine_skus=build_row_form("machine_sku_id? machine_sku? machines"),
)
_FINDING: Final = RecordForm(Diagnostic, "severity id detail")


def build_inventory_document(sites: Sequence[CapturedSite], findings: Sequence[Diagnostic]) -> dict[str, Any]:
    """Build the contents of an export as JSON data."""
    return {"sites": [_SITE(site) for site in sites], "findings": [_FINDING(finding) for finding in findings]}
