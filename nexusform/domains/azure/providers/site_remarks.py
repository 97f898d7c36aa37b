"""What is to be said where a plan reads a site: what the site did not tell, and who else stands there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from nexusform.diagnostics import Problem, Severity
from nexusform.domains.azure.importers.az_capture import (
    CAPTURE_NODES,
    NOT_CAPTURED,
    TENANTS,
    capture_command,
    clusters_missing,
    nodes_missing,
    pool_command,
)
from nexusform.domains.azure.importers.az_health import trouble_findings
from nexusform.domains.azure.importers.az_model import AzCluster, AzSite
from nexusform.domains.azure.importers.az_ownership import unmanaged_vms
from nexusform.words import counted, first_of, form

_UNMANAGED: Final = "unmanaged-vms"
_MOST_NAMED: Final = 4
_CLUSTER: Final = "nexus_kubernetes_cluster"
_POOL: Final = "nexus_agent_pool"
# Type -> the kind of document that lists it, and what it is called.
_KINDS: Final = {
    "nexus_rack": ("racks", "rack"),
    "nexus_bare_metal_machine": ("bare_metal_machines", "machine"),
    _CLUSTER: ("kubernetes_clusters", "Kubernetes cluster"),
    _POOL: ("kubernetes_clusters", "agent pool"),
    "nexus_virtual_machine": ("virtual_machines", "virtual machine"),
}


class SiteView:
    """A source (in words) and the sites that it shows; `unseen` are the objects (ids by site and type) that
    it does not tell of although state has them, `managed` type and id of all that state has.
    """

    def __init__(
        self,
        source: str,
        sites: Sequence[AzSite],
        unseen: Mapping[tuple[str, str], Collection[str]],
        managed: AbstractSet[tuple[str, str]],
    ) -> None:
        self.source = source
        self.sites = {site.name: site for site in sites}
        self.unseen = unseen
        self.managed = managed

    def remarks(self) -> list[Problem]:
        """Warnings."""
        named = {object_id.partition("/")[0] for _, object_id in self.managed}
        details = [*self._absent_sites(), *self._absent_kinds()]
        lacking = {name for site in self.sites.values() for name in site.inventory.clusters_lacking}
        if lacking and any(site in named for site in self.sites):
            details.append(clusters_missing(sorted(lacking)))
        for site in self.sites.values():
            if site.name in named:
                details += [*self._unlisted(site), *self._pools_unlisted(site), *self._nodes_unlisted(site)]
        troubles = [
            problem
            for site in self.sites.values()
            if site.name in named
            for problem in trouble_findings(site.inventory.troubles, site.name)
        ]
        strangers = [detail for site in self.sites.values() for detail in self._strangers(site)]
        return [
            *troubles,
            *(Problem((), NOT_CAPTURED, detail, Severity.WARNING) for detail in details),
            *(Problem((), _UNMANAGED, detail, Severity.WARNING) for detail in strangers),
        ]

    def _absent_sites(self) -> Iterator[str]:
        """What is said of sites that are not shown at all."""
        counts: Counter[str] = Counter()
        for (site, _), ids in self.unseen.items():
            if site not in self.sites:
                counts[site] += len(ids)
        there = f"only {first_of(sorted(self.sites), _MOST_NAMED)}" if self.sites else "no site at all"
        for site, count in sorted(counts.items()):
            yield (
                f'{self.source[0].upper()}{self.source[1:]} does not show the site "{site}", but {there}. '
                f"{counted(count, 'object')} of it {form(count, 'is', 'are')} planned as state has "
                f"{form(count, 'it', 'them')}; what became of {form(count, 'it', 'them')} is not known."
            )

    def _absent_kinds(self) -> Iterator[str]:
        """What is said of objects whose kind was not captured."""
        for (site, type_name), ids in sorted(self.unseen.items()):
            if site not in self.sites:
                continue
            kind, word = _KINDS[type_name]
            names = first_of(sorted(one.partition("/")[2] for one in ids), _MOST_NAMED)
            was, them = form(len(ids), "was", "were"), form(len(ids), "it", "them")
            yield (
                f"{counted(len(ids), word)} of {site} {was} not captured and {form(len(ids), 'is', 'are')} "
                f"planned as state has {them} ({names}): {self.source} holds no whole list of {word}s. "
                f"Capture it with: {capture_command(kind)}"
            )

    def _unlisted(self, site: AzSite) -> Iterator[str]:
        """Kinds of tenants that were not captured, of which state has none at this site either."""
        known = {_KINDS[type_name][0] for of_site, type_name in self.unseen if of_site == site.name}
        for kind, (words, consequence) in TENANTS.items():
            is_contradicted = kind == "kubernetes_clusters" and site.inventory.clusters_lacking
            if kind not in site.inventory.listed and kind not in known and not is_contradicted:
                yield (
                    f"{self.source[0].upper()}{self.source[1:]} holds no whole list of {words}: "
                    f"{consequence}. Capture it with: {capture_command(kind)} (where there are none, that "
                    "is an empty list)."
                )

    def _pools_unlisted(self, site: AzSite) -> Iterator[str]:
        """What is said of clusters without a list of their pools."""
        clusters = [cluster for cluster in site.inventory.clusters if self._lacks_pools(cluster, site)]
        if clusters:
            names = first_of([cluster.name for cluster in clusters], _MOST_NAMED)
            yield (
                f"The agent pools of {counted(len(clusters), 'cluster')} of {site.name} were not captured "
                f"({names}): count, mode, zones, labels and taints are planned as state has them. Capture "
                f"them, cluster by cluster: {pool_command(clusters[0])}"
            )

    def _nodes_unlisted(self, site: AzSite) -> Iterator[str]:
        """What is said of clusters without their nodes."""
        hiding = [cluster for cluster in site.inventory.clusters if not cluster.nodes_listed]
        known = [cluster for cluster in hiding if self._is_managed(cluster, site)]
        others = [cluster for cluster in hiding if not self._is_managed(cluster, site)]
        if known:
            yield f"{nodes_missing(known)} they are planned as state has them. {CAPTURE_NODES}"
        if others:
            yield f"{nodes_missing(others)} their room counts as free. {CAPTURE_NODES}"

    def _lacks_pools(self, cluster: AzCluster, site: AzSite) -> bool:
        return not cluster.pools_listed and self._is_managed(cluster, site)

    def _is_managed(self, cluster: AzCluster, site: AzSite) -> bool:
        return (_CLUSTER, f"{site.name}/{cluster.name}") in self.managed

    def _strangers(self, site: AzSite) -> Iterator[str]:
        """Who stands on machines without being managed."""
        machines = {one for one in self.managed if one[0] in {"nexus_bare_metal_machine", "nexus_rack"}}
        if not any(one_id.partition("/")[0] == site.name for _, one_id in machines):
            return
        owners = Counter(vm.owner or vm.name for vm in unmanaged_vms(site, self.managed))
        count = owners.total()
        if not count:
            return
        each = first_of([f"{name}: {number:,}" for name, number in sorted(owners.items())], _MOST_NAMED)
        yield (
            f"{counted(count, 'VM')} on {site.name} {form(count, 'belongs', 'belong')} to no resource "
            f"({each}). {form(count, 'Its', 'Their')} room counts as taken. `nexusform import -from=... "
            f"-generate-config-out=FILE` takes {form(count, 'it', 'them')} over."
        )
