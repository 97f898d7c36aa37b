"""`nexusform simulate ...`: what would happen if."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import click

from nexusform.cli import flags
from nexusform.cli.answers import Answer, answer_flags, tell
from nexusform.cli.commands import Entry, LazyGroup, command, option, switch
from nexusform.cli.screen import Screen
from nexusform.diagnostics import Diagnostic
from nexusform.whatif.failure import Failure
from nexusform.whatif.pods_down import ClusterPods
from nexusform.whatif.world_view import SiteView, WorldView
from nexusform.workflow.simulate import World, open_world

Found = TypeVar("Found")

COMMANDS: Final[dict[str, Entry]] = {
    "capacity": Entry("nexusform.cli.simulate:capacity", "How many more VMs fit, and what is stranded"),
    "runtime-upgrade": Entry(
        "nexusform.cli.simulate:runtime_upgrade", "What goes down while a site's machines are upgraded"
    ),
    "kubernetes-upgrade": Entry(
        "nexusform.cli.simulate:kubernetes_upgrade", "Whether a cluster's upgrade finds room for its surge"
    ),
    "failure": Entry(
        "nexusform.cli.simulate:failure", "What the loss of a machine, rack, cluster or site does"
    ),
}

simulate: Final = LazyGroup("simulate", COMMANDS, summary="Ask what would happen if.")


class _Refused(Exception):
    """What was asked for is not there."""

    def __init__(self, problem: Diagnostic) -> None:
        super().__init__(problem.detail)
        self.problem = problem


def _found(result: Found | Diagnostic) -> Found:
    if isinstance(result, Diagnostic):
        raise _Refused(result)
    return result


def _asked(given: Mapping[str, Any], ask: Any) -> int:
    """Open the world, ask, and tell; problems are told instead."""
    screen = Screen(no_color=given["no_color"], compact_warnings=given["compact_warnings"])
    world = open_world(flags.place_of(given), given["plan"] or "")
    screen.diagnostics(world.diagnostics, world.sources)
    if world.view is None:
        return 1
    try:
        answer: Answer = ask(world.view, world)
    except _Refused as refused:
        screen.diagnostics([refused.problem], world.sources)
        return 1
    return tell(answer, given, screen)


def _sites(view: WorldView, text: str | None) -> tuple[SiteView, ...]:
    """The site asked for, or all."""
    from nexusform.whatif.lookup import find_site

    return (_found(find_site(view, text)),) if text else tuple(view.sites.values())


@command("capacity", summary=COMMANDS["capacity"].summary)
@option("sku", "Count this VM SKU; default: those in use, and the largest", metavar="SKU", many=True)
@option("zones", "Only the racks in these availability zones", metavar="Z,...", default="")
@option("mix", "Fill the site with sets of VMs", metavar="NxSKU,...", default="")
@option("site", "Only this site", metavar="ID")
@answer_flags
@flags.state_flags
@flags.view_flags
def capacity(**given: Any) -> int:
    """Count how many more VMs fit: by SKU and zone, with planned racks, with any one rack lost.

    Says besides what is stranded and which cells small VMs have broken. Exit code 2 when a SKU asked for
    has no room, or not one set of the mix fits.
    """

    def ask(view: WorldView, world: World) -> Answer:
        from nexusform.rendering.answers.capacity_outline import capacity_document, capacity_outline
        from nexusform.whatif.capacity import find_capacity
        from nexusform.whatif.lookup import find_mix, find_skus, find_zones

        sites = _sites(view, given["site"])
        zones = _found(find_zones(sites, given["zones"]))
        skus = _found(find_skus(sites[0].skus, given["sku"]))
        mix = _found(find_mix(sites[0].skus, given["mix"])) if given["mix"] else ()
        answers = [find_capacity(site, skus, zones, mix) for site in sites]
        outline = capacity_outline(answers, world.origin)
        return Answer("capacity", world.origin, outline, capacity_document(answers))

    return _asked(given, ask)


@command("runtime-upgrade", summary=COMMANDS["runtime-upgrade"].summary)
@option("site", "Only this site", metavar="ID")
@option(
    "strategy",
    "Go on from rack to rack, or wait for a word after each",
    metavar="Rack|PauseAfterRack",
    default="Rack",
    kind=click.Choice(["Rack", "PauseAfterRack"]),
)
@option(
    "max-unavailable",
    "Machines of a rack that are down at once; default: all",
    metavar="N",
    kind=click.IntRange(min=1),
)
@switch("drain", "Machines lose power instead of being drained first", default=True)
@answer_flags
@flags.state_flags
@flags.view_flags
def runtime_upgrade(**given: Any) -> int:
    """Walk through a runtime upgrade, rack by rack: which VMs are down, and what is left of each cluster.

    Exit code 2 when a control plane loses its quorum or a pool has no node left.
    """

    def ask(view: WorldView, world: World) -> Answer:
        from nexusform.rendering.answers.runtime_upgrade_outline import (
            runtime_upgrade_document,
            runtime_upgrade_outline,
        )
        from nexusform.whatif.runtime_upgrade import Strategy, UpgradeOptions, simulate_runtime_upgrade

        options = UpgradeOptions(Strategy(given["strategy"]), given["max_unavailable"], given["drain"])
        sites = _sites(view, given["site"])
        upgrades = [simulate_runtime_upgrade(site, options, world.pods) for site in sites]
        outline = runtime_upgrade_outline(upgrades, world.origin)
        return Answer("runtime-upgrade", world.origin, outline, runtime_upgrade_document(upgrades))

    return _asked(given, ask)


@command("kubernetes-upgrade", summary=COMMANDS["kubernetes-upgrade"].summary)
@click.argument("cluster")
@answer_flags
@flags.state_flags
@flags.view_flags
def kubernetes_upgrade(cluster: str, **given: Any) -> int:
    """Walk through a Kubernetes upgrade of CLUSTER (an id, a name or an address), batch by batch.

    Each batch's new VMs are placed by the rule while the old ones still stand. Exit code 2 when one finds no
    room, or availability is lost on the way.
    """

    def ask(view: WorldView, world: World) -> Answer:
        from nexusform.rendering.answers.kubernetes_upgrade_outline import (
            kubernetes_upgrade_document,
            kubernetes_upgrade_outline,
        )
        from nexusform.whatif.kubernetes_upgrade import simulate_kubernetes_upgrade
        from nexusform.whatif.lookup import find_kubernetes_cluster

        site, found = _found(find_kubernetes_cluster(view, cluster))
        upgrade = simulate_kubernetes_upgrade(site, found, world.pods.get(found.id))
        outline = kubernetes_upgrade_outline(upgrade, world.origin)
        return Answer("kubernetes-upgrade", world.origin, outline, kubernetes_upgrade_document(upgrade))

    return _asked(given, ask)


@command("failure", summary=COMMANDS["failure"].summary)
@option("machine", "This machine is lost", metavar="ID")
@option("rack", "This rack is lost", metavar="ID")
@option("cluster", "This cluster is lost", metavar="ID")
@option("site", "This site is lost", metavar="ID")
@answer_flags
@flags.state_flags
@flags.view_flags
def failure(**given: Any) -> int:
    """Lose a machine, a rack, a cluster or a site: what is down, what is left, what comes back where.

    Exit code 2 when a control plane loses its quorum, a pool has no node left, or a node fits nowhere else.
    """
    named = [(scope, given[scope]) for scope in ("machine", "rack", "cluster", "site") if given[scope]]
    if len(named) != 1:
        raise click.UsageError("Name what is lost by exactly one of -machine, -rack, -cluster and -site.")

    def ask(view: WorldView, world: World) -> Answer:
        from nexusform.rendering.answers.failure_outline import failure_document, failure_outline

        found = _lose(view, world.pods, *named[0])
        return Answer("failure", world.origin, failure_outline(found, world.origin), failure_document(found))

    return _asked(given, ask)


def _lose(view: WorldView, pods: Mapping[str, ClusterPods], scope: str, text: str) -> Failure:
    from nexusform.whatif import lookup
    from nexusform.whatif.failure import Scope, lose_cluster, lose_machines, lose_site

    if scope == "site":
        return lose_site(_found(lookup.find_site(view, text)), pods)
    if scope == "cluster":
        return lose_cluster(*_found(lookup.find_cluster(view, text)), pods)
    if scope == "rack":
        site, rack = _found(lookup.find_rack(view, text))
        names = [machine.name for machine in site.machines_of_rack[rack]]
        return lose_machines(site, Scope.RACK, f"{site.id}/{rack}", names, pods)
    site, machine = _found(lookup.find_machine(view, text))
    return lose_machines(site, Scope.MACHINE, f"{site.id}/{machine}", [machine], pods)
