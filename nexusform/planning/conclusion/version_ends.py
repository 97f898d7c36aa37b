"""Clusters with a Kubernetes version past, or soon past, its extended availability."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from nexusform.diagnostics.diagnostic import Diagnostic, Severity, build_diagnostic
from nexusform.interfaces.plugins import PlanningKind, Registries
from nexusform.kubernetes.releases.versions import (
    WARNING_DAYS,
    VersionEnd,
    describe_abandoned,
    find_version_end,
    parse_version,
)
from nexusform.plans.plan import Change, Plan
from nexusform.plans.site_capacity.other_capacity import Supplies, read_recorded_supplies

ABANDONED: Final = "abandoned-kubernetes-version"
_ENDING: Final = "ending-kubernetes-version"


def check_version_ends(plan: Plan, registries: Registries) -> Iterator[Diagnostic]:
    """Yield an error for each upgrade of an abandoned cluster, and a warning for each version near its end."""
    supplies = {
        str((change.after or change.before or {}).get("id")): recorded
        for change in plan.changes
        if (recorded := read_recorded_supplies(change.private)) is not None
    }
    for change in plan.changes:
        if registries.get_kind(change.address.type) is PlanningKind.CLUSTER and change.before and change.after:
            yield from _check_cluster(change, supplies.get(str(change.after.get("site_id"))), plan.timestamp)


def _check_cluster(change: Change, supplies: Supplies | None, today: str) -> Iterator[Diagnostic]:
    assert change.before is not None
    assert change.after is not None
    current = str(change.before.get("kubernetes_version") or "")
    version = parse_version(current)
    if version is None or not today:
        return
    dates = dict(supplies.available_until) if supplies is not None else {}
    end = find_version_end(version, today, supplies.versions if supplies is not None else None, dates)
    if end is None or end.days > WARNING_DAYS:
        return
    is_upgrade = change.after.get("kubernetes_version") != current
    if end.is_past:
        severity = Severity.ERROR if is_upgrade else Severity.WARNING
        yield _build_diagnostic(change, ABANDONED, describe_abandoned(change.id, current, end), end, severity)
    elif not is_upgrade:
        detail = (
            f"{change.id} runs {current}. Its extended availability ends on {end.date}. After it the cluster cannot be "
            "upgraded, only deleted. Upgrade it before: nexusform simulate kubernetes-upgrade shows the hops."
        )
        yield _build_diagnostic(change, _ENDING, detail, end, Severity.WARNING)


def _build_diagnostic(change: Change, kind: str, detail: str, end: VersionEnd, severity: Severity) -> Diagnostic:
    return build_diagnostic(
        severity,
        kind,
        detail,
        change.source,
        address=str(change.address),
        block=change.block,
        brief=f"{change.id}: extended availability ends {end.date}" if end.date else "",
        is_preexisting=severity is Severity.WARNING,
    )
