"""Warnings of a plan that reads a site: uncaptured parts, failures and unmanaged VMs."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from nexusform.diagnostics.diagnostic import Problem, Severity
from nexusform.diagnostics.phrases import (
    enclose,
    format_count,
    format_first_items,
    select_word_form,
)
from nexusform.domains.azure.importers.az_capture_commands import (
    CAPTURE_NODES,
    NOT_CAPTURED,
    TIMES_NOT_CAPTURED,
    VMS_NOT_CAPTURED,
    WORKLOAD_KINDS,
    build_capture_command,
    build_pool_command,
    describe_missing_clusters,
    format_missing_nodes,
)
from nexusform.domains.azure.importers.az_field_checks import UNREAD_FIELD
from nexusform.domains.azure.importers.az_import import (
    CLUSTER,
    POOL,
    VIRTUAL_MACHINE,
    find_unmanaged_vms,
    find_unscheduled_vms,
)
from nexusform.domains.azure.importers.az_inventory import (
    FAILED,
    WITHOUT_A_MACHINE,
    build_failure_findings,
)
from nexusform.domains.azure.importers.az_records import AzCluster, AzSite, format_names

_NOT_REFRESHED: Final = "state-not-refreshed"
_MISSING_SITE: Final = "site-not-captured"
_UNMANAGED: Final = "unmanaged-vms"
# Warnings of a list that was not read.
INCOMPLETE_IDS: Final = frozenset({_MISSING_SITE, _NOT_REFRESHED, NOT_CAPTURED, VMS_NOT_CAPTURED})
# Findings of reading a source that a plan states of its own objects: a warning below, a difference
# of the site, an unread fact, or a value of the state.
_STATED_ELSEWHERE: Final = frozenset(
    {
        FAILED,
        NOT_CAPTURED,
        TIMES_NOT_CAPTURED,
        UNREAD_FIELD,
        VMS_NOT_CAPTURED,
        WITHOUT_A_MACHINE,
        "derived-value",
        "unknown-hardware",
        "unknown-machine",
    }
)
_MAX_NAMES: Final = 4
# Kind of document that lists a type, and its display name.
_KINDS: Final = {
    "nexus_rack": ("racks", "rack"),
    "nexus_bare_metal_machine": ("bare_metal_machines", "machine"),
    CLUSTER: ("kubernetes_clusters", "Kubernetes cluster"),
    POOL: ("kubernetes_clusters", "agent pool"),
    VIRTUAL_MACHINE: ("virtual_machines", "virtual machine"),
}


class SiteWarningBuilder:
    """Source (display name) and its sites by name.

    `unobserved` are ids by site and type that are in state but not observed. `managed` are type and
    id of all objects in state. `findings` are those of reading the source.
    """

    def __init__(
        self,
        source: str,
        sites: Mapping[str, AzSite],
        unobserved: Mapping[tuple[str, str], Collection[str]],
        managed: AbstractSet[tuple[str, str]],
        findings: Sequence[Problem] = (),
    ) -> None:
        """Keep the observed sites of one source.

        Also keep the ids of objects in state without a complete list.
        """
        # Its name in messages.
        self.source = source
        # Sites of the source, by name.
        self.sites = sites
        # Ids of objects in state without a complete list, by site and type.
        self.unobserved = unobserved
        # Type and id of the objects in state.
        self.managed = managed
        # Findings of reading the source.
        self.findings = findings

    def build_warnings(self) -> list[Problem]:
        """Build all warnings.

        A site without objects in state gets only those about unmanaged VMs.
        """
        managed_sites = {object_id.partition("/")[0] for _, object_id in self.managed}
        failures: list[Problem] = []
        unlisted_clusters: set[str] = set()
        # By id: the site concerned, "" for any, and the detail.
        details_by_id: dict[str, list[tuple[str, str]]] = {
            _MISSING_SITE: list(self._describe_missing_sites()),
            _NOT_REFRESHED: list(self._describe_uncaptured_managed_kinds()),
            NOT_CAPTURED: [],
            VMS_NOT_CAPTURED: [],
            _UNMANAGED: [],
        }

        def add_details(warning_id: str, site: AzSite, details: Iterable[str]) -> None:
            details_by_id[warning_id] += ((site.name, detail) for detail in details)

        for site in self.sites.values():
            add_details(_UNMANAGED, site, self._describe_unmanaged_vms(site))
            add_details(VMS_NOT_CAPTURED, site, self._describe_unscheduled_vms(site))
            if site.name not in managed_sites:
                continue
            failures += build_failure_findings(site.inventory.failures, site.name)
            unlisted_clusters.update(site.inventory.unlisted_clusters)
            managed_clusters, others = self._select_clusters_without_node_list(site)
            if managed_clusters:
                text = (
                    f"{format_missing_nodes(managed_clusters)} They are planned as recorded in the "
                    "state."
                )
                add_details(_NOT_REFRESHED, site, [f"{text} {CAPTURE_NODES}"])
            add_details(VMS_NOT_CAPTURED, site, self._describe_uncaptured_unmanaged_kinds(site))
            if others:
                text = f"{format_missing_nodes(others)} Their capacity counts as free."
                add_details(VMS_NOT_CAPTURED, site, [f"{text} {CAPTURE_NODES}"])
            add_details(NOT_CAPTURED, site, self._describe_clusters_without_pool_list(site))
        if unlisted_clusters:
            # They may be on any site.
            details_by_id[VMS_NOT_CAPTURED].append(
                ("", describe_missing_clusters(sorted(unlisted_clusters)))
            )
        findings = [
            finding
            for finding in self.findings
            if finding.id not in _STATED_ELSEWHERE and finding.site_id in {"", *managed_sites}
        ]
        return [
            *failures,
            *findings,
            *(
                Problem((), warning_id, detail, Severity.WARNING, site_id=site_id)
                for warning_id, details in details_by_id.items()
                for site_id, detail in details
            ),
        ]

    def _describe_missing_sites(self) -> Iterator[tuple[str, str]]:
        """Describe the sites of objects in state that the source does not contain, by name."""
        counts: Counter[str] = Counter()
        for (site, _), ids in self.unobserved.items():
            if site not in self.sites:
                counts[site] += len(ids)
        present_sites = enclose(", but only ", format_first_items(sorted(self.sites), _MAX_NAMES))
        for site, count in sorted(counts.items()):
            detail = (
                f"{self.source[0].upper()}{self.source[1:]} does not contain the site "
                f'"{site}"{present_sites}. {format_count(count, "object")} of it '
                f"{select_word_form(count, 'is', 'are')} planned as recorded in the state; current "
                "data is unknown."
            )
            yield site, detail

    def _describe_uncaptured_managed_kinds(self) -> Iterator[tuple[str, str]]:
        """Describe objects in state of kinds without a complete list, with their site."""
        for (site, type_name), ids in sorted(self.unobserved.items()):
            if site not in self.sites:
                # It is described as missing.
                continue
            kind, display_name = _KINDS[type_name]
            names = format_first_items(
                sorted(object_id.partition("/")[2] for object_id in ids), _MAX_NAMES
            )
            verb = select_word_form(len(ids), "was", "were")
            detail = (
                f"{format_count(len(ids), display_name)} of {site} {verb} not captured and "
                f"{select_word_form(len(ids), 'is', 'are')} planned as recorded in the state "
                f"({names}): {self.source} has no complete list of {display_name}s. Capture it "
                f"with: {build_capture_command(kind)}"
            )
            yield site, detail

    def _describe_uncaptured_unmanaged_kinds(self, site: AzSite) -> Iterator[str]:
        """Describe kinds of workloads that were not captured and have no object in state."""
        # Kinds with objects in state have a warning about these.
        recorded_kinds = {
            _KINDS[type_name][0]
            for site_name, type_name in self.unobserved
            if site_name == site.name
        }
        # They have a warning of their own.
        if site.inventory.unlisted_clusters:
            recorded_kinds.add("kubernetes_clusters")
        for kind, (plural, consequence) in WORKLOAD_KINDS.items():
            if kind not in site.inventory.listed_kinds and kind not in recorded_kinds:
                yield (
                    f"{self.source[0].upper()}{self.source[1:]} has no complete list of {plural}: "
                    f"{consequence}. Capture it with: {build_capture_command(kind)} (where there "
                    "are none, that is an empty list)."
                )

    def _describe_clusters_without_pool_list(self, site: AzSite) -> Iterator[str]:
        """Describe clusters in state without a list of their pools in the source."""
        clusters = []
        for cluster in site.inventory.clusters:
            is_managed = (CLUSTER, f"{site.name}/{cluster.name}") in self.managed
            if is_managed and not cluster.has_pool_list:
                clusters.append(cluster)
        if clusters:
            names = format_names(clusters, _MAX_NAMES)
            yield (
                f"The agent pools of {format_count(len(clusters), 'cluster')} of {site.name} were "
                f"not captured ({names}): count, mode, zones, labels and taints are planned as "
                "recorded in the state. Capture them for each cluster: "
                f"{build_pool_command(clusters[0])}"
            )

    def _select_clusters_without_node_list(
        self, site: AzSite
    ) -> tuple[list[AzCluster], list[AzCluster]]:
        """Return the clusters without a list of their nodes: those in state, and the others."""
        managed: list[AzCluster] = []
        unmanaged: list[AzCluster] = []
        for cluster in site.inventory.clusters:
            if not cluster.has_node_list:
                is_managed = (CLUSTER, f"{site.name}/{cluster.name}") in self.managed
                (managed if is_managed else unmanaged).append(cluster)
        return managed, unmanaged

    def _has_managed_hardware(self, site: AzSite) -> bool:
        """Return whether the state has a rack or machine of a site."""
        hardware_types = {"nexus_bare_metal_machine", "nexus_rack"}
        return any(
            kind in hardware_types and object_id.partition("/")[0] == site.name
            for kind, object_id in self.managed
        )

    def _describe_unscheduled_vms(self, site: AzSite) -> Iterator[str]:
        """Describe unmanaged VMs without a machine of a site with managed racks or machines."""
        names = find_unscheduled_vms(site, self.managed)
        if names and self._has_managed_hardware(site):
            yield (
                f"{format_count(len(names), 'VM')} on {site.name} "
                f"{select_word_form(len(names), 'belongs', 'belong')} to no resource and "
                f"{select_word_form(len(names), 'has', 'have')} no machine "
                f"({format_first_items(names, _MAX_NAMES)}). "
                f"{select_word_form(len(names), 'Its', 'Their')} capacity counts as free. Plan "
                f"again when {select_word_form(len(names), 'it runs', 'they run')}."
            )

    def _describe_unmanaged_vms(self, site: AzSite) -> Iterator[str]:
        """Describe unmanaged VMs of a site with managed racks or machines."""
        if not self._has_managed_hardware(site):
            # Capacity of the site is not planned.
            return
        owners = Counter(vm.owner or vm.name for vm in find_unmanaged_vms(site, self.managed))
        count = owners.total()
        if not count:
            return
        texts = [f"{name}: {number:,}" for name, number in sorted(owners.items())]
        owner_counts = format_first_items(texts, _MAX_NAMES)
        yield (
            f"{format_count(count, 'VM')} on {site.name} "
            f"{select_word_form(count, 'belongs', 'belong')} to no resource "
            f"({owner_counts}). {select_word_form(count, 'Its', 'Their')} capacity counts as "
            "used. `nexusform import "
            f"-from=... -generate-config-out=FILE` imports {select_word_form(count, 'it', 'them')}."
        )
