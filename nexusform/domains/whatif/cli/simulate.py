"""`nexusform simulate ...`: what would happen if."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import click
from msgspec import Struct

from nexusform.cli.answers import Answer, AnswerFlags, tell
from nexusform.cli.arguments import group, number, optional_choice, positionals, switch, text, texts
from nexusform.cli.commands import Entry, LazyGroup, command
from nexusform.cli.flags import ViewFlags, place_of, state_flag, variable_flags
from nexusform.diagnostics import Diagnostic, Refused
from nexusform.domain_table import Loaded, targets_of_domains
from nexusform.domains.whatif.questions.failure import Failure
from nexusform.domains.whatif.questions.pods_down import ClusterPods
from nexusform.domains.whatif.workflow.simulate import AskedWorld, located_in, open_world
from nexusform.workflow.opening.place import Place
from nexusform.worlds.world_view import Cluster, SiteView, WorldView

Named = TypeVar("Named")

COMMANDS: Final[dict[str, Entry]] = {
    "capacity": Entry("nexusform.domains.whatif.cli.simulate:capacity", "Count spare capacity"),
    "runtime-upgrade": Entry(
        "nexusform.domains.whatif.cli.simulate:runtime_upgrade",
        "Simulate a runtime upgrade of the machines",
    ),
    "kubernetes-upgrade": Entry(
        "nexusform.domains.whatif.cli.simulate:kubernetes_upgrade",
        "Simulate a Kubernetes upgrade",
    ),
    "failure": Entry(
        "nexusform.domains.whatif.cli.simulate:failure",
        "Simulate the loss of machines, racks or sites",
    ),
    "repack": Entry(
        "nexusform.domains.whatif.cli.repack:repack", "Find the fewest re-creations to free capacity"
    ),
    "fleet": Entry(
        "nexusform.domains.whatif.cli.simulate:fleet",
        "Simulate changes of fleet members",
    ),
}

simulate: Final = LazyGroup(
    "simulate", COMMANDS, summary="Simulate capacity, failures, upgrades and repacking."
)


def named(result: Named | Diagnostic) -> Named:
    """What was looked for; an error that says so where it is not there."""
    if isinstance(result, Diagnostic):
        raise Refused(result)
    return result


def ask(
    place: Place,
    flags: AnswerFlags,
    view: ViewFlags,
    question: Callable[[WorldView, AskedWorld], Answer],
    *,
    pods: bool = True,
) -> int:
    """Open the world, ask, and tell; problems are told instead. Without `pods`: about machines alone."""
    screen = view.screen()
    world = open_world(place, flags.plan, pods=pods)
    screen.diagnostics(world.diagnostics, world.sources, aside=flags.is_document)
    if world.view is None:
        return 1
    try:
        answer = question(world.view, world)
    except Refused as refused:
        located, sources = located_in(place, refused.diagnostics)
        screen.diagnostics(located, {**world.sources, **sources})
        return 1
    return tell(answer, flags, screen)


def _sites(view: WorldView, site: str) -> tuple[SiteView, ...]:
    """The site asked for, or all."""
    from nexusform.domains.whatif.questions.lookup import find_site

    return (named(find_site(view, site)),) if site else tuple(view.sites.values())


class CapacityArguments(Struct, frozen=True, kw_only=True):
    """What `simulate capacity` takes."""

    sku: tuple[str, ...] = texts("Count this VM SKU (default: SKUs in use, the largest)", metavar="SKU")
    zones: str = text("Count only racks in these availability zones", metavar="Z,...")
    mix: str = text("Count sets of VMs", metavar="NxSKU,...")
    site: str = text("Use only this site", metavar="ID")
    answer: AnswerFlags = group(AnswerFlags)
    state: str = state_flag()
    variables: tuple[tuple[str, str], ...] = variable_flags()
    view: ViewFlags = group(ViewFlags)


@command("capacity", CapacityArguments)
def capacity(arguments: CapacityArguments) -> int:
    """Count spare capacity: by SKU and zone, with planned racks, with one rack down.

    Also reports stranded capacity and fragmented cells. Exit code 2 if a requested SKU or mix does
    not fit.
    """

    def question(view: WorldView, world: AskedWorld) -> Answer:
        from nexusform.domains.whatif.questions.capacity import find_capacity
        from nexusform.domains.whatif.questions.lookup import find_mix, find_skus, find_zones
        from nexusform.domains.whatif.rendering.capacity_outline import capacity_document, capacity_outline

        sites = _sites(view, arguments.site)
        zones = named(find_zones(sites, arguments.zones))
        skus = named(find_skus(sites[0].skus, arguments.sku))
        mix = named(find_mix(sites[0].skus, arguments.mix)) if arguments.mix else ()
        capacities = [find_capacity(site, skus, zones, mix) for site in sites]
        outline = capacity_outline(capacities, world.origin)

        def page() -> str:
            from nexusform.domains.whatif.rendering.simulation_page import simulation_page, standing_play

            return simulation_page(outline, list(map(standing_play, sites)), "free")

        return Answer("capacity", world.origin, outline, capacity_document(capacities), page=page)

    place = place_of(arguments.state, arguments.variables)
    return ask(place, arguments.answer, arguments.view, question, pods=False)


class RuntimeUpgradeArguments(Struct, frozen=True, kw_only=True):
    """What `simulate runtime-upgrade` takes."""

    site: str = text("Use only this site", metavar="ID")
    strategy: str | None = optional_choice(
        "Set the strategy (default: update_strategy, else Rack)",
        ("Rack", "PauseAfterRack"),
    )
    max_unavailable: int | None = number(
        "Limit machines down at once (default: update_strategy)",
        default=None,
        at_least=1,
    )
    drain: bool = switch("Power machines off without a drain", default=True)
    answer: AnswerFlags = group(AnswerFlags)
    state: str = state_flag()
    variables: tuple[tuple[str, str], ...] = variable_flags()
    view: ViewFlags = group(ViewFlags)


@command("runtime-upgrade", RuntimeUpgradeArguments)
def runtime_upgrade(arguments: RuntimeUpgradeArguments) -> int:
    """Simulate a runtime upgrade rack by rack: VMs down, VMs left per cluster.

    Exit code 2 if a control plane loses its quorum or a pool has no node left.
    """

    def question(view: WorldView, world: AskedWorld) -> Answer:
        from nexusform.domains.whatif.questions.runtime_upgrade import (
            AskedOptions,
            UpgradeStrategy,
            simulate_runtime_upgrade,
        )
        from nexusform.domains.whatif.rendering.runtime_upgrade_outline import (
            runtime_upgrade_document,
            runtime_upgrade_outline,
        )

        strategy = UpgradeStrategy(arguments.strategy) if arguments.strategy else None
        asked = AskedOptions(strategy, arguments.max_unavailable, arguments.drain)
        sites = _sites(view, arguments.site)
        upgrades = [simulate_runtime_upgrade(site, asked.for_site(site), world.pods) for site in sites]
        outline = runtime_upgrade_outline(upgrades, world.origin)

        def page() -> str:
            from nexusform.domains.whatif.rendering.simulation_page import simulation_page, upgrade_play

            plays = [upgrade_play(site, upgrade) for site, upgrade in zip(sites, upgrades, strict=True)]
            return simulation_page(outline, plays)

        document = runtime_upgrade_document(upgrades)
        return Answer("runtime-upgrade", world.origin, outline, document, page=page)

    return ask(place_of(arguments.state, arguments.variables), arguments.answer, arguments.view, question)


class KubernetesUpgradeArguments(Struct, frozen=True, kw_only=True):
    """What `simulate kubernetes-upgrade` takes."""

    cluster: tuple[str, ...] = positionals(required=True)
    to: str = text("Upgrade to version V, one minor version at a time", metavar="V")
    answer: AnswerFlags = group(AnswerFlags)
    state: str = state_flag()
    variables: tuple[tuple[str, str], ...] = variable_flags()
    view: ViewFlags = group(ViewFlags)


@command("kubernetes-upgrade", KubernetesUpgradeArguments)
def kubernetes_upgrade(arguments: KubernetesUpgradeArguments) -> int:
    """Simulate a Kubernetes upgrade of CLUSTER (id, name or address), batch by batch.

    New VMs of a batch are placed before old ones are removed. -to=V upgrades one minor version at a
    time. For several clusters it finds an order with surge capacity for all. Exit code 2 without
    capacity, or if availability is lost.
    """
    if len(arguments.cluster) > 1 and not arguments.to:
        raise click.UsageError("Several clusters: say to which version, by -to=V.")

    def question(view: WorldView, world: AskedWorld) -> Answer:
        from nexusform.domains.whatif.questions.lookup import find_kubernetes_cluster

        chosen = [named(find_kubernetes_cluster(view, name)) for name in dict.fromkeys(arguments.cluster)]
        return _hops(chosen, arguments.to, world) if arguments.to else _one_upgrade(*chosen[0], world)

    return ask(place_of(arguments.state, arguments.variables), arguments.answer, arguments.view, question)


def _one_upgrade(site: SiteView, cluster: Cluster, world: AskedWorld) -> Answer:
    """One upgrade, whatever the version."""
    from nexusform.domains.whatif.questions.kubernetes_upgrade import simulate_kubernetes_upgrade
    from nexusform.domains.whatif.rendering.kubernetes_upgrade_outline import (
        KUBERNETES_UPGRADE,
        kubernetes_upgrade_outline,
    )

    upgrade = simulate_kubernetes_upgrade(site, cluster, world.pods.get(cluster.id))
    outline = kubernetes_upgrade_outline(upgrade, world.origin)

    def page() -> str:
        from nexusform.domains.whatif.rendering.simulation_page import (
            kubernetes_upgrade_play,
            simulation_page,
        )

        return simulation_page(outline, [kubernetes_upgrade_play(site, upgrade)])

    document = KUBERNETES_UPGRADE(upgrade)
    return Answer("kubernetes-upgrade", world.origin, outline, document, page=page)


def _hops(chosen: Sequence[tuple[SiteView, Cluster]], to: str, world: AskedWorld) -> Answer:
    """The way of clusters of one site to a version."""
    from nexusform.domains.whatif.questions.kubernetes_upgrade_hops import find_path
    from nexusform.domains.whatif.rendering.kubernetes_upgrade_hops_outline import (
        upgrade_path_document,
        upgrade_path_outline,
    )

    sites = {site.id: site for site, _ in chosen}
    if len(sites) > 1:
        raise click.UsageError(f"One site at a time; these clusters are on {' and '.join(sorted(sites))}.")
    path = find_path(chosen[0][0], [cluster for _, cluster in chosen], to, world.pods)
    outline = upgrade_path_outline(path, world.origin)
    return Answer("kubernetes-upgrade", world.origin, outline, upgrade_path_document(path))


# By question; each takes the arguments of its command and returns the exit code.
SITE_QUESTIONS: Final[Mapping[str, Callable[[Any], int]]] = Loaded(targets_of_domains("simulates"))


class FailureArguments(Struct, frozen=True, kw_only=True):
    """What `simulate failure` takes: exactly one of the four scopes."""

    machine: str = text("Lose this machine", metavar="ID")
    rack: str = text("Lose this rack", metavar="ID")
    cluster: str = text("Lose this cluster", metavar="ID")
    site: str = text("Lose this site; with * or ?, each rack of each site", metavar="ID|GLOB")
    engine: str = text("Use local processes or dask://HOST:PORT (many sites)", metavar="ENGINE")
    workers: int = number("Set the number of worker processes (many sites)", default=0, at_least=0)
    allow_source: tuple[str, ...] = texts("Allow module sources below DIR (many sites)", metavar="DIR")
    answer: AnswerFlags = group(AnswerFlags)
    state: str = state_flag()
    variables: tuple[tuple[str, str], ...] = variable_flags()
    view: ViewFlags = group(ViewFlags)


@command("failure", FailureArguments)
def failure(arguments: FailureArguments) -> int:
    """Simulate the loss of a machine, rack, cluster or site: VMs down, re-created VMs.

    -site=* reads nexusform.sites.hcl and loses each rack of every site, one at a time. Exit code 2
    if a quorum is lost, a pool has no node left, or a node fits nowhere else. Exit code 1 if a site
    fails.
    """
    lost = [name for name in (arguments.machine, arguments.rack, arguments.cluster, arguments.site) if name]
    if len(lost) != 1:
        raise click.UsageError("Name what is lost by exactly one of -machine, -rack, -cluster and -site.")
    if {"*", "?"} & set(arguments.site) and "failure" in SITE_QUESTIONS:
        return SITE_QUESTIONS["failure"](arguments)
    if arguments.engine or arguments.workers or arguments.allow_source:
        raise click.UsageError("-engine, -workers and -allow-source go with -site=*.")

    def question(view: WorldView, world: AskedWorld) -> Answer:
        from nexusform.domains.whatif.rendering.failure_outline import FAILURE, failure_outline

        loss = _lose(view, world.pods, arguments)
        outline = failure_outline(loss, world.origin)

        def page() -> str:
            from nexusform.domains.whatif.rendering.simulation_page import failure_play, simulation_page

            return simulation_page(outline, [failure_play(view.sites[loss.site_id], loss)])

        return Answer("failure", world.origin, outline, FAILURE(loss), page=page)

    return ask(place_of(arguments.state, arguments.variables), arguments.answer, arguments.view, question)


def _lose(view: WorldView, pods: Mapping[str, ClusterPods], arguments: FailureArguments) -> Failure:
    """The failure that is asked about: of a site, a cluster, a rack or a machine."""
    from nexusform.domains.whatif.questions import lookup
    from nexusform.domains.whatif.questions.failure import (
        FailureScope,
        lose_cluster,
        lose_machines,
        lose_site,
    )

    if arguments.site:
        return lose_site(named(lookup.find_site(view, arguments.site)), pods)
    if arguments.cluster:
        return lose_cluster(*named(lookup.find_cluster(view, arguments.cluster)), pods)
    if arguments.rack:
        site, rack = named(lookup.find_rack(view, arguments.rack))
        names = [machine.name for machine in site.machines_of_rack[rack]]
        return lose_machines(site, FailureScope.RACK, f"{site.id}/{rack}", names, pods)
    site, machine = named(lookup.find_machine(view, arguments.machine))
    return lose_machines(site, FailureScope.MACHINE, f"{site.id}/{machine}", [machine], pods)


class FleetArguments(Struct, frozen=True, kw_only=True):
    """What `simulate fleet` takes: any number of things that happen to members, all at once."""

    leave: tuple[str, ...] = texts("Remove this member from the fleet", metavar="MEMBER")
    drain: tuple[str, ...] = texts("Cordon this member and evict its placements", metavar="MEMBER")
    join: tuple[str, ...] = texts("Add a member, with properties of LIKE", metavar="MEMBER[=LIKE]")
    taint: tuple[str, ...] = texts("Add a taint; KEY- removes one", metavar="MEMBER:KEY[=VALUE][:NoSchedule]")
    label: tuple[str, ...] = texts("Set a label; KEY- removes one", metavar="MEMBER:KEY=VALUE")
    property: tuple[str, ...] = texts("Set a property; NAME- removes one", metavar="MEMBER:NAME=VALUE")
    health: tuple[str, ...] = texts("Set the health, such as Unhealthy", metavar="MEMBER:HEALTH")
    answer: AnswerFlags = group(AnswerFlags)
    state: str = state_flag()
    variables: tuple[tuple[str, str], ...] = variable_flags()
    view: ViewFlags = group(ViewFlags)


@command("fleet", FleetArguments)
def fleet(arguments: FleetArguments) -> int:
    """Simulate changes of fleet members: placements, pods and remaining capacity.

    All changes apply at once. Exit code 2 if a placement has too few clusters or pending pods, or
    scheduling stops. Also if a drained member keeps a placement.
    """
    from nexusform.domains.whatif.questions.fleet import simulate_fleet
    from nexusform.domains.whatif.questions.fleet_edits import Verb, read_edits
    from nexusform.domains.whatif.rendering.fleet_outline import FLEET, fleet_outline
    from nexusform.domains.whatif.workflow.simulate import open_fleet

    flags = {verb: getattr(arguments, verb.value) for verb in Verb}
    if not any(flags.values()):
        ways = ", ".join(f"-{verb}" for verb in Verb)
        raise click.UsageError(f"Say what happens to a member, by one or more of {ways}.")
    screen = arguments.view.screen()
    world, origin = open_fleet(place_of(arguments.state, arguments.variables), arguments.answer.plan)
    screen.diagnostics(origin.diagnostics, origin.sources, aside=arguments.answer.is_document)
    if world is None:
        return 1
    edits, problems = read_edits(flags)
    simulation = problems or simulate_fleet(world, edits)
    if isinstance(simulation, list):
        screen.diagnostics(simulation, origin.sources)
        return 1
    outline = fleet_outline(simulation, origin.origin)

    def page() -> str:
        from nexusform.domains.whatif.rendering.fleet_page import fleet_page

        return fleet_page(simulation, outline)

    answer = Answer("fleet", origin.origin, outline, FLEET(simulation), page=page)
    return tell(answer, arguments.answer, screen)
