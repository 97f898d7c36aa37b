"""`nexusform simulate ...`: its questions, each imported on use."""

from typing import Final

import click

from nexusform.cli.command_groups import LazyGroup
from nexusform.command_entry import CommandEntry


def _load_capacity() -> click.Command:
    from nexusform.domains.whatif.cli.simulate import capacity

    return capacity


def _load_runtime_upgrade() -> click.Command:
    from nexusform.domains.whatif.cli.simulate import runtime_upgrade

    return runtime_upgrade


def _load_kubernetes_upgrade() -> click.Command:
    from nexusform.domains.whatif.cli.simulate import kubernetes_upgrade

    return kubernetes_upgrade


def _load_failure() -> click.Command:
    from nexusform.domains.whatif.cli.simulate import failure

    return failure


def _load_repack() -> click.Command:
    from nexusform.domains.whatif.cli.repack import repack

    return repack


def _load_simulate_placement() -> click.Command:
    from nexusform.domains.whatif.cli.trials import simulate_placement

    return simulate_placement


def _load_simulate_rebalance() -> click.Command:
    from nexusform.domains.whatif.cli.trials import simulate_rebalance

    return simulate_rebalance


def _load_fleet() -> click.Command:
    from nexusform.domains.whatif.cli.fleet import fleet

    return fleet


COMMANDS: Final[dict[str, CommandEntry]] = {
    "capacity": CommandEntry("Count spare capacity", load=_load_capacity),
    "runtime-upgrade": CommandEntry(
        "Simulate a runtime upgrade of the machines", load=_load_runtime_upgrade
    ),
    "kubernetes-upgrade": CommandEntry(
        "Simulate a Kubernetes upgrade", load=_load_kubernetes_upgrade
    ),
    "failure": CommandEntry("Simulate the loss of machines, racks or sites", load=_load_failure),
    "repack": CommandEntry("Find the fewest re-creations to free capacity", load=_load_repack),
    "placement": CommandEntry(
        "Predict if a new placement runs, and where", load=_load_simulate_placement
    ),
    "rebalance": CommandEntry(
        "Find the fewest evictions so that all pods run", load=_load_simulate_rebalance
    ),
    "fleet": CommandEntry("Simulate changes of fleet members", load=_load_fleet),
}
simulate: Final = LazyGroup(
    "simulate", COMMANDS, summary="Simulate capacity, failures, upgrades and repacking."
)
