"""Tree of the waiting sites of a wave, as a queue of runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from nexusform.domains.sites.rendering.name_list import format_names
from nexusform.domains.sites.types.fleet_plan import FleetPlan, PlannedSite
from nexusform.rendering.report.report_tree import Section


def build_waiting_sections(plan: FleetPlan) -> Iterator[Section]:
    """Build a section with a tree for each wave with waiting sites."""
    for wave in plan.waves:
        sites = plan.select_wave(wave.name)
        names = {site.name for site in sites}
        dependencies = {site.name: frozenset(site.dependencies) & names for site in sites}
        waiting = sum(map(bool, dependencies.values()))
        if waiting:
            title = f'Order in the wave "{wave.name}": {waiting:,} of {len(sites):,} sites wait for others'
            yield Section(title, commands=tuple(_render_site_tree(sites, dependencies)))


def _render_site_tree(sites: Sequence[PlannedSite], dependencies: dict[str, frozenset[str]]) -> list[str]:
    """Draw the sites below their dependencies. Sites with the same neighbours share a node."""
    import networkx as nx  # few plans have dependencies between sites

    dependents: dict[str, set[str]] = {}
    for name, others in dependencies.items():
        for other in others:
            dependents.setdefault(other, set()).add(name)
    groups: dict[tuple[frozenset[str], frozenset[str]], list[str]] = {}
    for site in sites:
        neighbours = dependencies[site.name], frozenset(dependents.get(site.name, ()))
        if any(neighbours):
            groups.setdefault(neighbours, []).append(site.name)
    labels = {name: format_names(names) for names in groups.values() for name in names}
    graph: Any = nx.DiGraph()
    for (others, _), names in groups.items():
        graph.add_node(labels[names[0]])
        graph.add_edges_from((labels[other], labels[names[0]]) for other in sorted(others))
    ordered: Any = nx.DiGraph()
    ordered.add_nodes_from(graph)
    ordered.add_edges_from(sorted(nx.transitive_reduction(graph).edges))
    return list(nx.generate_network_text(ordered))
