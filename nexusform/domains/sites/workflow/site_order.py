"""Order of sites: a site that reads another's state is applied after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nexusform.diagnostics.diagnostic import Diagnostic, build_error
from nexusform.domains.sites.types.fleet_definition import FleetDefinition
from nexusform.domains.sites.types.site_tasks import SiteResult


def compute_dependencies(results: Sequence[SiteResult]) -> dict[str, tuple[str, ...]]:
    """Compute for each site the other sites with states that it reads."""
    owners = {result.state_location: result.site for result in results if result.state_location}
    dependencies: dict[str, tuple[str, ...]] = {}
    for result in results:
        other_sites = {owners[state] for state in result.read_states if state in owners} - {result.site}
        if other_sites:
            dependencies[result.site] = tuple(sorted(other_sites))
    return dependencies


def check_site_order(definition: FleetDefinition, dependencies: Mapping[str, Sequence[str]]) -> list[Diagnostic]:
    """Return one error for a cycle, or one for each site that depends on a later wave."""
    spans = {site.name: site.span for site in definition.sites}
    waves = {site.name: site.wave for site in definition.sites}
    wave_positions = {wave.name: position for position, wave in enumerate(definition.waves)}
    cycle = _find_cycle(dependencies)
    if cycle:
        chain = " -> ".join(f'"{name}"' for name in (*cycle, cycle[0]))
        detail = f"These sites read each other's states in a cycle: {chain}."
        return [build_error("cycle", detail, spans[cycle[0]])]
    return [
        build_error(
            "site-in-later-wave",
            f'The site "{name}" (wave "{waves[name]}") reads the state of "{other}", which is applied '
            f'later, in the wave "{waves[other]}". Move it to that wave or a later one.',
            spans[name],
        )
        for name, other_sites in dependencies.items()
        for other in other_sites
        if wave_positions[waves[other]] > wave_positions[waves[name]]
    ]


def _find_cycle(dependencies: Mapping[str, Sequence[str]]) -> list[str]:
    """Find a cycle of sites, starting with the first name; [] if there is none."""
    pending = {name: set(other_sites) for name, other_sites in dependencies.items()}
    while True:
        free = [name for name, other_sites in pending.items() if not other_sites & pending.keys()]
        if not free:
            break
        for name in free:
            del pending[name]
    if not pending:
        return []
    ring = [min(pending)]
    while True:
        following = min(pending[ring[-1]] & pending.keys())
        if following in ring:
            return ring[ring.index(following) :]
        ring.append(following)


def split_wave_by_dependencies(names: Sequence[str], dependencies: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Split the sites of a wave into rounds, each after its dependencies in the wave."""
    remaining = list(names)
    ordered: list[list[str]] = []
    while remaining:
        ready = [name for name in remaining if not set(dependencies.get(name, ())) & set(remaining)]
        ordered.append(ready or remaining)  # planning rejects cycles
        remaining = [name for name in remaining if name not in set(ordered[-1])]
    return ordered
