"""`nexusform simulate ...`: what-if questions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import click
from msgspec import Struct
from msgspec.structs import replace

from nexusform.cli.arguments import (
    declare_flag_group,
    declare_number,
    declare_optional_choice_flag,
    declare_positionals,
    declare_repeatable_text,
    declare_switch_flag,
    declare_text_flag,
)
from nexusform.cli.commands import define_command
from nexusform.cli.report_output import Answer, PlanFileAnswerFlags, is_document, write_answer
from nexusform.cli.shared_flags import (
    ViewFlags,
    create_context,
    declare_state_flag,
    declare_variable_flags,
)
from nexusform.diagnostics.diagnostic import Diagnostic, DiagnosticsError
from nexusform.diagnostics.phrases import enclose, format_count, format_first_items
from nexusform.domain_table import LazyTable, collect_loaders
from nexusform.domains.whatif.questions.failure_simulation import Failure
from nexusform.domains.whatif.workflow.simulation_input import (
    SimulationInput,
    UnreadableInput,
    locate_diagnostics,
    open_observed_clusters,
    open_snapshot,
)
from nexusform.domains.whatif.workflow.state_warnings import select_missing_data
from nexusform.files.external_files import ArgumentFile
from nexusform.providers.clock import read_clock
from nexusform.scheduling.racks.vms import UNKNOWN_STATE
from nexusform.snapshots.snapshot import SiteSnapshot, Snapshot, VmOwnerSnapshot
from nexusform.workflow.opening.command_context import CommandContext

# Only pages have maps.
if TYPE_CHECKING:
    from nexusform.rendering.report.playback import Playback


class SimulationFlags(Struct, frozen=True, kw_only=True):
    """Flags of all questions: output of the answer, configuration and state."""

    answer: PlanFileAnswerFlags = declare_flag_group(PlanFileAnswerFlags)
    state: str = declare_state_flag()
    variables: tuple[tuple[str, str], ...] = declare_variable_flags()
    view: ViewFlags = declare_flag_group(ViewFlags)


def run_question(
    flags: SimulationFlags,
    build_answer: Callable[[Snapshot, SimulationInput], Answer],
    open_input: Callable[[CommandContext, str], SimulationInput] = open_snapshot,
    *,
    uses_pods: bool = True,
) -> int:
    """Read the input, answer the question, and print the answer or diagnostics.

    Return the exit code. With `uses_pods`, the answer depends on pods.
    """
    screen = flags.view.create_screen()
    context = create_context(flags.state, flags.variables, requires_state=not flags.answer.plan)
    # A document is alone on stdout: warnings go to stderr.
    is_aside = is_document(flags.answer)
    try:
        inputs = open_input(context, flags.answer.plan)
    except UnreadableInput as problem:
        screen.print_diagnostics(problem.diagnostics, problem.sources, is_aside=is_aside)
        return 1
    if uses_pods and inputs.observations.clusters:
        from nexusform.domains.whatif.workflow.observation_uncertainty import add_observation_doubts

        inputs = add_observation_doubts(inputs)
    screen.print_diagnostics(inputs.diagnostics, inputs.sources, is_aside=is_aside)
    try:
        answer = build_answer(inputs.snapshot, inputs)
    except DiagnosticsError as rejection:
        diagnostics, sources = locate_diagnostics(context, rejection.diagnostics)
        screen.print_diagnostics(diagnostics, {**inputs.sources, **sources})
        return 1
    answer = qualify_answer(answer, inputs.diagnostics)
    return write_answer(answer, flags.answer, screen)


def qualify_answer(answer: Answer, diagnostics: Iterable[Diagnostic]) -> Answer:
    """Return a hypothetical answer with the warnings about its input.

    Its verdict holds as far as the input was read.
    """
    problems = tuple(diagnostics)
    warnings = tuple(problem.detail or problem.summary for problem in problems)
    report = answer.report
    if select_missing_data(problems):
        # What was not read may change every answer.
        report = replace(report, verdict=f"As far as it was read: {report.verdict}")
    return replace(answer, report=report, is_hypothetical=True, warnings=warnings)


def _select_site_or_all(snapshot: Snapshot, site: str) -> tuple[SiteSnapshot, ...]:
    """Return the site with this id, or all sites for ""."""
    from nexusform.domains.whatif.questions.name_lookup import find_site

    return (find_site(snapshot, site),) if site else tuple(snapshot.sites.values())


class CapacityArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `simulate capacity`."""

    sku: tuple[str, ...] = declare_repeatable_text(
        "Count this VM SKU (default: SKUs in use, the largest)", metavar="SKU"
    )
    zones: str = declare_text_flag("Count only racks in these availability zones", metavar="Z,...")
    mix: str = declare_text_flag("Count sets of VMs", metavar="NxSKU,...")
    site: str = declare_text_flag("Use only this site", metavar="ID")
    question: SimulationFlags = declare_flag_group(SimulationFlags)


@define_command("capacity", CapacityArguments)
def capacity(arguments: CapacityArguments) -> int:
    """Count spare capacity: by SKU and zone, with planned racks, with one rack down.

    Also reports stranded capacity and fragmented cells. Exit code 2 if a requested SKU or mix
    does not fit.
    """

    def build_answer(snapshot: Snapshot, inputs: SimulationInput) -> Answer:
        """Compute the capacity of the selected sites, with a report and maps."""
        from nexusform.domains.whatif.questions.capacity import compute_site_capacity
        from nexusform.domains.whatif.questions.name_lookup import (
            find_skus,
            find_zones,
            parse_sku_mix,
        )
        from nexusform.domains.whatif.rendering.site_capacity_report import build_capacity_report

        sites = _select_site_or_all(snapshot, arguments.site)
        zones = find_zones(sites, arguments.zones)
        # SKUs are equal for all sites.
        skus = find_skus(sites[0].skus, arguments.sku)
        mix = parse_sku_mix(sites[0].skus, arguments.mix) if arguments.mix else ()
        capacities = [compute_site_capacity(site, skus, zones, mix, inputs.start) for site in sites]
        report = build_capacity_report(capacities, inputs.origin)

        def build_playbacks() -> list[Playback]:
            from nexusform.domains.whatif.rendering import map_playbacks

            return list(map(map_playbacks.build_current_playback, sites))

        return Answer("capacity", inputs.origin, report, plays=build_playbacks)

    return run_question(arguments.question, build_answer, uses_pods=False)


class RuntimeUpgradeArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `simulate runtime-upgrade`."""

    site: str = declare_text_flag("Use only this site", metavar="ID")
    strategy: str | None = declare_optional_choice_flag(
        "Set the strategy (default: update_strategy, else Rack)", ("Rack", "PauseAfterRack")
    )
    max_unavailable: int | None = declare_number(
        "Limit machines down at once (default: update_strategy)", default=None, minimum=1
    )
    drain: bool = declare_switch_flag("Power machines off without a drain", default=True)
    question: SimulationFlags = declare_flag_group(SimulationFlags)


@define_command("runtime-upgrade", RuntimeUpgradeArguments)
def runtime_upgrade(arguments: RuntimeUpgradeArguments) -> int:
    """Simulate a runtime upgrade rack by rack: VMs down, VMs left per cluster.

    Exit code 2 if a control plane loses its quorum, a pool has no node left, or unhealthy machines
    stop the upgrade.
    """

    def build_answer(snapshot: Snapshot, inputs: SimulationInput) -> Answer:
        """Simulate the upgrade of the selected sites, with a report and maps."""
        from nexusform.domains.whatif.questions.runtime_upgrade import (
            RequestedUpgradeOptions,
            UpgradeStrategy,
            simulate_runtime_upgrade,
        )
        from nexusform.domains.whatif.rendering.runtime_upgrade_report import (
            build_runtime_upgrade_report,
        )

        strategy = UpgradeStrategy(arguments.strategy) if arguments.strategy else None
        requested = RequestedUpgradeOptions(strategy, arguments.max_unavailable, arguments.drain)
        sites = _select_site_or_all(snapshot, arguments.site)
        upgrades = [
            simulate_runtime_upgrade(
                inputs.start, site, requested.resolve_for_site(site), inputs.pods
            )
            for site in sites
        ]
        report = build_runtime_upgrade_report(upgrades, inputs.origin)

        def build_playbacks() -> list[Playback]:
            from nexusform.domains.whatif.rendering import map_playbacks

            pairs = zip(sites, upgrades, strict=True)
            return [
                map_playbacks.build_runtime_upgrade_playback(site, upgrade)
                for site, upgrade in pairs
            ]

        return Answer("runtime-upgrade", inputs.origin, report, plays=build_playbacks)

    return run_question(arguments.question, build_answer)


class KubernetesUpgradeArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `simulate kubernetes-upgrade`."""

    cluster: tuple[str, ...] = declare_positionals(required=True)
    to: str = declare_text_flag("Upgrade to version V, one minor version at a time", metavar="V")
    question: SimulationFlags = declare_flag_group(SimulationFlags)


@define_command("kubernetes-upgrade", KubernetesUpgradeArguments)
def kubernetes_upgrade(arguments: KubernetesUpgradeArguments) -> int:
    """Simulate a Kubernetes upgrade of CLUSTER (id, name or address), batch by batch.

    New VMs of a batch are placed before old ones are removed. -to=V upgrades one minor version at a
    time. For several clusters it finds an order with surge capacity for all. Exit code 2 without
    capacity, or if availability is lost.
    """
    if len(arguments.cluster) > 1 and not arguments.to:
        raise click.UsageError("Several clusters need a version: -to=V.")

    def build_answer(snapshot: Snapshot, inputs: SimulationInput) -> Answer:
        """Simulate the upgrade of one cluster, or with -to the path of several ones."""
        from nexusform.domains.whatif.questions.name_lookup import find_kubernetes_cluster

        names = dict.fromkeys(arguments.cluster)
        selected = [find_kubernetes_cluster(snapshot, name) for name in names]
        if arguments.to:
            return _build_upgrade_path_answer(selected, arguments.to, inputs)
        # Without -to there is only one cluster.
        return _build_upgrade_answer(*selected[0], inputs)

    return run_question(arguments.question, build_answer)


def _build_upgrade_answer(
    site: SiteSnapshot, cluster: VmOwnerSnapshot, inputs: SimulationInput
) -> Answer:
    """Build the answer for the upgrade of one cluster to any version.

    The capacity needed is the same.
    """
    from nexusform.domains.whatif.questions.kubernetes_upgrade import simulate_kubernetes_upgrade
    from nexusform.domains.whatif.rendering.kubernetes_upgrade_report import (
        build_kubernetes_upgrade_report,
    )

    upgrade = simulate_kubernetes_upgrade(inputs.start, site, cluster, inputs.pods.get(cluster.id))
    report = build_kubernetes_upgrade_report(upgrade, inputs.origin)

    def build_playbacks() -> list[Playback]:
        from nexusform.domains.whatif.rendering import map_playbacks

        return [map_playbacks.build_kubernetes_upgrade_playback(site, upgrade)]

    return Answer("kubernetes-upgrade", inputs.origin, report, plays=build_playbacks)


def _build_upgrade_path_answer(
    selected: Sequence[tuple[SiteSnapshot, VmOwnerSnapshot]],
    target_version: str,
    inputs: SimulationInput,
) -> Answer:
    """Build the answer for clusters of one site and a target version."""
    from nexusform.domains.whatif.questions.kubernetes_upgrade_path import find_upgrade_path
    from nexusform.domains.whatif.rendering.kubernetes_upgrade_report import (
        build_upgrade_path_report,
    )

    sites = {site.id: site for site, _ in selected}
    if len(sites) > 1:
        raise click.UsageError(
            f"Only one site is allowed; these clusters are on {' and '.join(sorted(sites))}."
        )
    [site] = sites.values()
    today = read_clock(os.environ)
    path = find_upgrade_path(
        inputs.start, site, [cluster for _, cluster in selected], target_version, inputs.pods, today
    )
    report = build_upgrade_path_report(path, inputs.origin)
    return Answer("kubernetes-upgrade", inputs.origin, report)


# By question; each takes the arguments of its command and returns the exit code.
SITE_QUESTIONS: Final[Mapping[str, Callable[[Any], int]]] = LazyTable(collect_loaders("simulates"))


class FailureArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `simulate failure`: one of the five scopes, the observed machines, or both."""

    machine: str = declare_text_flag("Lose this machine", metavar="ID")
    rack: str = declare_text_flag("Lose this rack", metavar="ID")
    cluster: str = declare_text_flag("Lose this cluster", metavar="ID")
    node: str = declare_text_flag(
        "Drain this node of a cluster listed by kubectl", metavar="[CLUSTER/]NAME"
    )
    site: str = declare_text_flag(
        "Lose this site; with * or ?, each rack of each site", metavar="ID|GLOB"
    )
    observed: bool = declare_switch_flag("Lose the machines observed off or not ready, too")
    engine: str = declare_text_flag(
        "Use local processes or dask://HOST:PORT (many sites)", metavar="ENGINE"
    )
    workers: int = declare_number(
        "Set the number of worker processes (many sites)", default=0, minimum=0
    )
    allow_source: tuple[str, ...] = declare_repeatable_text(
        "Allow module sources below DIR (many sites)", metavar="DIR", file=ArgumentFile("modules")
    )
    question: SimulationFlags = declare_flag_group(SimulationFlags)


@define_command("failure", FailureArguments)
def failure(arguments: FailureArguments) -> int:
    """Simulate the loss of a machine, rack, cluster or site: VMs down, re-created VMs.

    -site=* reads nexusform.sites.hcl and loses each rack of every site, one at a time. Exit code 2
    if a quorum is lost, a pool has no node left, or a node fits nowhere else. Exit code 1 if a site
    fails. -observed starts from the machines off or not ready at the last read: alone, or with
    -machine or -rack. -node drains a node of `data kubernetes_nodes` and shows evicted pods and
    their new nodes.
    """
    scopes = (arguments.machine, arguments.rack, arguments.cluster, arguments.node, arguments.site)
    lost_names = list(filter(None, scopes))
    if len(lost_names) > 1 or not (lost_names or arguments.observed):
        raise click.UsageError(
            "Specify exactly one of -machine, -rack, -cluster, -node and -site, or -observed."
        )
    if arguments.observed and (arguments.cluster or arguments.node or arguments.site):
        raise click.UsageError("-observed can be combined with -machine and -rack only.")
    # A pattern: each site has its own state.
    if {"*", "?"} & set(arguments.site) and "failure" in SITE_QUESTIONS:
        return SITE_QUESTIONS["failure"](arguments)
    if arguments.engine or arguments.workers or arguments.allow_source:
        raise click.UsageError("-engine, -workers and -allow-source need -site=*.")

    if arguments.node:
        return run_question(
            arguments.question, partial(_simulate_drain, arguments), open_observed_clusters
        )

    def build_answer(snapshot: Snapshot, inputs: SimulationInput) -> Answer:
        """Simulate the loss requested by the flags, with a report and a map."""
        from nexusform.domains.whatif.rendering.failure_report import build_failure_report

        loss = _simulate_failure(snapshot, inputs, arguments)
        report = build_failure_report(loss, inputs.origin)

        def build_playbacks() -> list[Playback]:
            from nexusform.domains.whatif.rendering import map_playbacks

            return [map_playbacks.build_failure_playback(snapshot.sites[loss.site_id], loss)]

        return Answer("failure", inputs.origin, report, plays=build_playbacks)

    return run_question(arguments.question, build_answer)


def _simulate_drain(arguments: FailureArguments, _: Snapshot, inputs: SimulationInput) -> Answer:
    """Simulate the drain of the requested node."""
    from nexusform.domains.whatif.questions.pod_outage import (
        find_observed_node,
        simulate_node_drain,
    )
    from nexusform.domains.whatif.rendering.failure_report import build_drain_report

    drain = simulate_node_drain(*find_observed_node(inputs.pods, arguments.node))
    return Answer("failure", inputs.origin, build_drain_report(drain, inputs.origin))


def _simulate_failure(
    snapshot: Snapshot, inputs: SimulationInput, arguments: FailureArguments
) -> Failure:
    """Simulate the failure selected by the flags.

    -observed adds the machines down at the last read.
    """
    from nexusform.domains.whatif.questions import name_lookup
    from nexusform.domains.whatif.questions.failure_simulation import (
        FailureScope,
        simulate_cluster_loss,
        simulate_machine_failure,
        simulate_site_loss,
    )

    start = inputs.start
    pods = inputs.pods
    if arguments.site:
        return simulate_site_loss(start, name_lookup.find_site(snapshot, arguments.site), pods)
    if arguments.cluster:
        site, cluster = name_lookup.find_cluster(snapshot, arguments.cluster)
        return simulate_cluster_loss(start, site, cluster, pods)
    if arguments.rack:
        site, rack = name_lookup.find_rack(snapshot, arguments.rack)
        scope = FailureScope.RACK
        title = f"{site.id}/{rack}"
        lost_machines = [machine.name for machine in site.machines_by_rack[rack]]
    elif arguments.machine:
        site, machine = name_lookup.find_machine(snapshot, arguments.machine)
        scope = FailureScope.MACHINE
        title = f"{site.id}/{machine}"
        lost_machines = [machine]
    else:
        sites = [candidate for candidate in snapshot.sites.values() if candidate.machines_down]
        if not sites:
            machines = chain.from_iterable(
                candidate.machines.values() for candidate in snapshot.sites.values()
            )
            unknown = [
                machine.name
                for machine in machines
                if any(reason.value == UNKNOWN_STATE for reason in machine.unschedulable_reasons)
            ]
            note = enclose(" In an unknown state: ", format_first_items(unknown, 4), ".")
            raise click.UsageError(
                f"No machine is observed off or not ready.{note} Specify what to lose, for example "
                "-rack=ID."
            )
        if len(sites) > 1:
            ids = format_first_items(sorted(candidate.id for candidate in sites), 4)
            raise click.UsageError(
                f"{len(sites)} sites have machines down ({ids}). Add -rack or -machine of one site."
            )
        [site] = sites
        # Only the machines added below.
        scope = FailureScope.OBSERVED
        title = site.id
        lost_machines = []
    down = site.machines_down.difference(lost_machines) if arguments.observed else ()
    added = [name for name in site.machines if name in down]
    if added and lost_machines:
        title += f" and {format_count(len(added), 'machine')} observed down"
    return simulate_machine_failure(start, site, scope, title, [*lost_machines, *added], pods)
