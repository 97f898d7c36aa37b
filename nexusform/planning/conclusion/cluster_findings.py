"""Findings about clusters and pools by facts of their site.

Rejected changes of Kubernetes versions, ends of extended availability, and missing networks. Azure
reports the latter an hour after the start.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from nexusform.configuration.declarations.configuration import DEFAULT_PROVIDER
from nexusform.diagnostics.diagnostic import Diagnostic, Problem, Severity
from nexusform.diagnostics.phrases import format_first_items
from nexusform.documents.scalars import list_scalars
from nexusform.interfaces.plugins import PlanningKind, PluginRegistries
from nexusform.json_data.plain_data import Path
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
from nexusform.planning.vm_planning.vm_object import VmObject
from nexusform.plans.plan import Action, Change
from nexusform.plans.site_capacity.site_resource_capacity import AttachableNetworks, SiteResources
from nexusform.resources.address import Address
from nexusform.schemas.block_schema import UNFINISHED_KEY

_ENDING: Final = "ending-kubernetes-version"
_PATH: Final = ("kubernetes_version",)


def check_version_changes(result: PlanResult, registries: PluginRegistries) -> Iterator[Diagnostic]:
    """Yield errors for rejected changes of versions, and warnings near their end of support.

    Versions past the end of support are included.
    """
    resources_by_site = index_site_resources(result.plan.changes)
    for change in result.plan.changes:
        if registries.get_kind(change.address.type) is not PlanningKind.CLUSTER:
            continue
        # Only a cluster before and after the plan changes its version.
        if not change.before or not change.after:
            continue
        site_resources = resources_by_site.get(str(change.after.get("site_id")), SiteResources())
        problem = _check_cluster(change, site_resources, result.plan.start.timestamp)
        if problem is not None:
            yield result.objects[change.address].instance.build_diagnostic(problem)


def _check_cluster(change: Change, site_resources: SiteResources, today: str) -> Problem | None:
    """Return an error for a rejected change of a cluster's version, a warning, or None.

    The warning is about a version near or past the end of its availability. `site_resources` has
    the versions offered by the site. If `today` is "", availability is not checked.
    """
    assert change.before is not None
    assert change.after is not None
    current = str(change.before.get("kubernetes_version") or "")
    target = change.after.get("kubernetes_version")
    # An unknown version.
    if parse_version(current) is None:
        return None
    upgrades = dict(site_resources.upgrades).get(str(change.after.get("name")), ())
    offers = OfferedVersions(
        site_resources.versions, upgrades, dict(site_resources.available_until)
    )
    if not isinstance(target, str) or target == current:
        return _check_availability(change.id, current, offers, today) if today else None
    if UNFINISHED_KEY in change.note or parse_version(target) is None:
        # A failed upgrade may be undone; the resource type checks the text of a version.
        return None
    hops = find_upgrade_hops(change.id, current, target, offers, today)
    if isinstance(hops, VersionRejection):
        return Problem(_PATH, hops.id, hops.detail)
    # A plan makes one hop.
    if len(hops) > 1:
        return Problem(_PATH, "no-such-upgrade", explain_skipped_versions(current, target, hops))
    return None


def _check_availability(
    cluster_id: str, current: str, offers: OfferedVersions, today: str
) -> Problem | None:
    """Return a warning if a cluster's extended availability has ended or ends soon.

    `current` is the version of the cluster.
    """
    version = parse_version(current)
    assert version is not None
    end = find_availability_end(version, today, offers.versions, offers.available_until)
    # No known end, or a distant one.
    if end is None or end.days > WARNING_DAYS:
        return None
    # "": the date is unknown.
    brief = f"{cluster_id}: extended availability ends {end.date}" if end.date else ""
    # The cluster is abandoned.
    if end.days < 0:
        detail = describe_abandoned_cluster(cluster_id, current, end)
        return Problem(_PATH, ABANDONED, detail, Severity.WARNING, brief=brief)
    detail = (
        f"{cluster_id} runs {current}. Its extended availability ends on {end.date}. After it the "
        "cluster cannot be upgraded, only deleted. Upgrade it before: nexusform simulate "
        "kubernetes-upgrade shows the hops."
    )
    return Problem(_PATH, _ENDING, detail, Severity.WARNING, brief=brief)


_NETWORK_ID: Final = re.compile(
    r"/subscriptions/\S*/providers/microsoft\.networkcloud/(l2networks|l3networks|trunkednetworks)/[^/\s]+/?"
)
_TYPE_NAMES: Final = {
    "l2networks": "L2 networks", "l3networks": "L3 networks", "trunkednetworks": "trunked networks"
}  # fmt: skip
_MAX_NAMES: Final = 4
_NO_LISTS: Final = AttachableNetworks(types=(), networks=())


def warn_missing_networks(
    changes: Sequence[Change], objects: Mapping[Address, VmObject]
) -> Iterator[Diagnostic]:
    """Yield a warning per unusable network in the `azure` block of a changed cluster, pool or VM.

    The site lacks the network, or reports a bad state of it. Types of networks without a list on
    the site are not checked.
    """
    for change, vm_object, networks in _list_changes_with_networks(changes, objects):
        # By network id: "" if usable, else the bad state.
        states = dict(networks.networks)
        for path, network_id in dict(_list_azure_ids(change.after)).items():
            match = _NETWORK_ID.fullmatch(network_id.lower())
            # The first group is the type.
            if match is None or match[1] not in networks.types:
                continue
            if any(path[: len(secret)] == secret for secret in change.sensitive_after):
                # No report may display the id.
                continue
            name = network_id.rstrip("/").rpartition("/")[2]
            state = states.get(network_id.lower().rstrip("/"))
            # "": the network is usable. None: the site does not list it.
            if state == "":
                continue
            available = [
                other_id.rpartition("/")[2]
                for other_id, bad_state in networks.networks
                if not bad_state
            ]
            reason = f"is in the state {state}" if state else "is not on this site"
            names = format_first_items(available, _MAX_NAMES)
            remedy = f"Usable networks: {names}." if available else "No network is usable."
            detail = (
                f"The network {name} {reason}. Azure accepts the request, and fails it after "
                f"about an hour. {remedy} "
                "Create the network first, or set another one."
            )
            problem = Problem(
                path[:1], "network-not-on-site", detail, Severity.WARNING, brief=f"{name} {reason}"
            )
            yield vm_object.instance.build_diagnostic(problem)


def list_missing_data(result: PlanResult) -> Iterator[str]:
    """Yield the kinds of facts that changed objects use but the export lacks.

    They are facts about clusters, pools and VMs of the site.
    """
    unlisted_types: set[str] = set()
    uses_networks = uses_hugepages = False
    for change, _, networks in _list_changes_with_networks(result.plan.changes, result.objects):
        uses_hugepages |= _has_hugepages(change.after)
        for _, text in _list_azure_ids(change.after):
            match = _NETWORK_ID.fullmatch(text.lower())
            if match is not None:
                uses_networks = True
                network_type = match[1]
                unlisted_types |= {network_type} - set(networks.types)
    yield from sorted(_TYPE_NAMES[network_type] for network_type in unlisted_types)
    # No export contains facts about isolation domains or hugepages.
    if uses_networks:
        yield "isolation domains and their racks"
    if uses_hugepages:
        yield "hugepages of machines"


def _has_hugepages(value: Any) -> bool:
    """Return whether a value requests hugepages at any depth."""
    if isinstance(value, Mapping):
        for name, part in value.items():
            if part and str(name).startswith("hugepages"):
                return True
            if _has_hugepages(part):
                return True
        return False
    return isinstance(value, list | tuple) and any(map(_has_hugepages, value))


def _list_changes_with_networks(
    changes: Sequence[Change], objects: Mapping[Address, VmObject]
) -> Iterator[tuple[Change, VmObject, AttachableNetworks]]:
    """Yield the changed clusters, pools and VMs, each with its VMs and the networks of its site.

    Without a list of networks, objects of the simulation (the default provider) are skipped, and
    others get empty lists.
    """
    resources_by_site = index_site_resources(changes)
    for change in changes:
        vm_object = objects.get(change.address)
        if vm_object is None or change.action in (Action.NO_OP, Action.DELETE):
            continue
        networks = resources_by_site.get(
            vm_object.request.demand.site_id, SiteResources()
        ).attachable
        provider_name, _, _alias = change.provider.partition(".")
        if networks is not None:
            yield change, vm_object, networks
        elif provider_name != DEFAULT_PROVIDER:
            yield change, vm_object, _NO_LISTS


def _list_azure_ids(value: Any) -> Iterator[tuple[Path, str]]:
    """Yield the ids of networks and other resources in `azure` blocks.

    Each comes with its path in the arguments.
    """
    for path, scalar in list_scalars(value):
        if "azure" in path and "/providers/" in str(scalar):
            yield path, str(scalar)
