"""The answer to `inventory check`, for people and as data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from nexusform.diagnostics import Diagnostic
from nexusform.domains.azure.questions.reconciliation import SiteCapture
from nexusform.rendering.answers.outline import Outline, Row, Section, Table
from nexusform.words import counted, first_of, form

_MOST_NAMED = 8


def inventory_outline(origin: str, sites: Sequence[SiteCapture], findings: Sequence[Diagnostic]) -> Outline:
    """Each site in figures, and what is to be known of it."""
    sections: list[Section] = []
    for site in sites:
        sections += _sections(site)
    if findings:
        lines = tuple(f"- {finding.summary}: {finding.detail}" for finding in findings)
        sections.append(Section("Met while reading", lines, bad=True))
    bad = bool(findings) or any(site.closed or site.homeless for site in sites)
    names = f"{counted(len(sites), 'site')}: {first_of([site.name for site in sites], _MOST_NAMED)}."
    return Outline(f"Inventory {origin}", names, bad, (), tuple(sections))


def _sections(site: SiteCapture) -> Iterator[Section]:
    """What was read of a site, its hardware, and the machines that take nothing."""
    yield Section(site.name, tuple(_what_it_holds(site)))
    rows = tuple(
        Row((sku_id or "none", sku or "not in the catalogue", f"{count:,}"))
        for sku_id, sku, count in site.skus
    )
    yield Section(
        f"Hardware of {site.name}",
        table=Table(("machineSkuId", "Catalogue", "Machines"), rows, frozenset({2})),
    )
    if site.closed:
        closed = tuple(Row(pair, bad=True) for pair in site.closed)
        yield Section(
            f"Takes no new VM on {site.name}", table=Table(("Machine", "Because it is"), closed), bad=True
        )


def _what_it_holds(site: SiteCapture) -> Iterator[str]:
    """How much there is and how old the export is; then the VMs without a machine."""
    age = "of unknown age"
    if site.exported_at:
        age = f"{'made' if site.age_certain else 'newest change'} {site.exported_at}"
    machines = f"{counted(site.machines, 'machine')} ({site.compute:,} compute)"
    vms = counted(site.vms, "VM")
    yield f"{counted(site.racks, 'rack')}, {machines}, {counted(site.clusters, 'cluster')}, {vms}; {age}"
    if site.homeless:
        homeless = counted(len(site.homeless), "VM")
        stand = form(len(site.homeless), "stands", "stand")
        yield f"{homeless} {stand} on no machine: {first_of(site.homeless, _MOST_NAMED)}"


def inventory_document(sites: Sequence[SiteCapture], findings: Sequence[Diagnostic]) -> dict[str, Any]:
    """What an export holds, as JSON data."""
    return {
        "sites": [_site_document(site) for site in sites],
        "findings": [
            {"severity": finding.severity.value, "id": finding.id, "detail": finding.detail}
            for finding in findings
        ],
    }


def _site_document(site: SiteCapture) -> dict[str, Any]:
    return {
        "name": site.name,
        "racks": site.racks,
        "machines": site.machines,
        "compute_machines": site.compute,
        "kubernetes_clusters": site.clusters,
        "vms": site.vms,
        "closed": [{"machine": name, "reason": why} for name, why in site.closed],
        "machine_skus": [
            {"machine_sku_id": sku_id or None, "machine_sku": sku or None, "machines": count}
            for sku_id, sku, count in site.skus
        ],
        "without_machine": list(site.homeless),
        "exported_at": site.exported_at,
    }
