"""A report format of one file: the addresses that a plan changes, one a line."""

from __future__ import annotations

from nexusform.cli.report_flag import PlanReportInput


def render_addresses(subject: PlanReportInput) -> bytes:
    """Return the changed addresses."""
    return "".join(f"{change.address}\n" for change in subject.plan.changes).encode()
