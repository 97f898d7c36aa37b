"""The answer to `inventory check`, for people and as data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from nexusform.diagnostics import Diagnostic
from nexusform.domains.azure.questions.reconciliation import SiteCapture
from nexusform.json_forms import Form, columns
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


_SITE: Final = Form(
    SiteCapture,
    "name racks machines compute_machines=compute kubernetes_clusters=clusters vms closed machine_skus=skus "
    "without_machine=homeless exported_at",
    closed=columns("machine reason"),
    machine_skus=columns("machine_sku_id? machine_sku? machines"),
)
_FINDING: Final = Form(Diagnostic, "severity id detail")


def inventory_document(sites: Sequence[SiteCapture], findings: Sequence[Diagnostic]) -> dict[str, Any]:
    """What an export holds, as JSON data."""
    return {
        "sites": [_SITE(site) for site in sites],
        "findings": [_FINDING(finding) for finding in findings],
    }
