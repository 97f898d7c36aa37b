"""Kubernetes versions of clusters: rejected changes, and ends of extended availability."""

from collections.abc import Iterator
from typing import Final

from nexusform.diagnostics.diagnostic import Diagnostic, Problem, Severity
from nexusform.interfaces.plugins import UNFINISHED_KEY, PlanningKind, PluginRegistries
from nexusform.kubernetes.releases.kubernetes_versions import (
    ABANDONED,
    WARNING_DAYS,
    OfferedVersions,
    VersionRejection,
    describe_abandoned_cluster,
    explain_skipped_versions,
    find_availability_end,
    find_upgrade_hops,
    parse_version,
)
from nexusform.planning.conclusion.plan_result import PlanResult, index_site_resources
from nexusform.plans.plan import Change
from nexusform.plans.site_capacity.site_resource_capacity import SiteResources

ENDING: Final = "ending-kubernetes-version"
_PATH: Final = ("kubernetes_version",)


def check_version_changes(result: PlanResult, registries: PluginRegistries) -> Iterator[Diagnostic]:
    """Yield an error for each rejected change of a version, and a warning for each version near or past its end."""
    resources_by_site = index_site_resources(result.plan.changes)
    for change in result.plan.changes:
        is_cluster = registries.get_kind(change.address.type) is PlanningKind.CLUSTER
        if not (is_cluster and change.before and change.after):
            continue  # only a cluster before and after the plan changes its version
        supplies = resources_by_site.get(str(change.after.get("site_id")), SiteResources())
        problem = _check_cluster(change, supplies, result.plan.timestamp)
        if problem is not None:
            yield result.objects[change.address].instance.build_diagnostic(problem)


def _check_cluster(change: Change, supplies: SiteResources, today: str) -> Problem | None:
    """Return the error of a rejected change of version, or a warning for an unchanged one near or past the end of its
    availability, else None. `supplies` are resources of the site read by a provider.
    """
    assert change.before is not None
    assert change.after is not None
    current, target = change.before.get("kubernetes_version"), change.after.get("kubernetes_version")
    version = parse_version(str(current or ""))
    if version is None:  # an unknown version
        return None
    upgrades = dict(supplies.upgrades).get(str(change.after.get("name")), ())
    offers = OfferedVersions(supplies.versions, upgrades, dict(supplies.available_until))
    if isinstance(target, str) and target != current:
        if UNFINISHED_KEY in change.note or parse_version(target) is None:
            return None  # a failed upgrade may be undone; the resource type checks the text of a version
        hops = find_upgrade_hops(change.id, str(current), target, offers, today)
        if isinstance(hops, VersionRejection):
            return Problem(_PATH, hops.id, hops.detail)
        if len(hops) > 1:  # a plan makes one hop
            return Problem(_PATH, "no-such-upgrade", explain_skipped_versions(str(current), target, hops))
        return None
    end = find_availability_end(version, today, offers.versions, offers.available_until) if today else None
    if end is None or end.days > WARNING_DAYS:  # no known end, or a distant one
        return None
    brief = f"{change.id}: extended availability ends {end.date}" if end.date else ""  # "": the date is unknown
    if end.is_past:
        detail = describe_abandoned_cluster(change.id, str(current), end)
        return Problem(_PATH, ABANDONED, detail, Severity.WARNING, brief=brief)
    detail = (
        f"{change.id} runs {current}. Its extended availability ends on {end.date}. After it the cluster cannot be "
        "upgraded, only deleted. Upgrade it before: nexusform simulate kubernetes-upgrade shows the hops."
    )
    return Problem(_PATH, ENDING, detail, Severity.WARNING, brief=brief)
