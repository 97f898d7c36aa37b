"""Failures of machines for tests, simulated on a state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nexusform.domains.whatif.questions.failure_simulation import (
    Failure,
    FailureScope,
    simulate_machine_failure,
)
from nexusform.domains.whatif.questions.pod_outage import NO_PODS, ClusterPods
from nexusform.planning.hypothesis.start_points import StartPoint, build_snapshot_request
from nexusform.snapshots.snapshot import list_state_objects
from nexusform.state.objects import State
from tests.planning.harness import NOW, build_all_types
from tests.worlds.small_worlds import get_site


def build_start(state: State) -> StartPoint:
    return StartPoint(
        build_snapshot_request(list_state_objects(state), build_all_types(), state, NOW)
    )


def simulate_loss(
    state: State,
    machines: Sequence[str],
    *,
    scope: FailureScope = FailureScope.MACHINE,
    lost: str = "m",
    site_id: str = "s",
    pods: Mapping[str, ClusterPods] = NO_PODS,
) -> Failure:
    start = build_start(state)
    return simulate_machine_failure(start, get_site(state, site_id), scope, lost, machines, pods)


def simulate_rack_failure(state: State, rack: str, site_id: str = "s", lost: str = "") -> Failure:
    machines = [machine.name for machine in get_site(state, site_id).machines_by_rack[rack]]
    return simulate_loss(
        state, machines, scope=FailureScope.RACK, lost=lost or rack, site_id=site_id
    )
