"""The planner verifies a repacking: each window is a hypothesis with cordons and replaced VMs."""

from __future__ import annotations

import random
from collections.abc import Collection

import pytest

from nexusform.domains.whatif.questions.repack_context import RepackRequest
from nexusform.domains.whatif.questions.repack_planning import RepackStatus, plan_repack
from nexusform.planning.edits import VmReplacement
from nexusform.planning.hypothesis.hypothetical_plan import plan_hypothesis
from nexusform.planning.planner import make_plan
from nexusform.scheduling.racks.vms import build_standalone_demand
from nexusform.state.objects import State
from tests.domains.whatif.questions.repack_sites import LARGE, SKUS, SMALL
from tests.kill_points import scale_count
from tests.planning.harness import build_request, build_state_after, cluster, pool
from tests.planning.hypothesis.edit_kinds import locate_vms
from tests.worlds.small_worlds import get_site

pytest.importorskip("highspy")

RACKS = ("r1", "r2")
MACHINES = 3


def render(clusters: str, cordons: Collection[str] = ()) -> str:
    """Return a configuration of two racks, with cordoned machines."""
    text = 'resource "nexus_site" "s" {}\n'
    for rack in RACKS:
        overrides = "".join(
            f'  machine_override "{name}" {{\n    cordoned = true\n  }}\n'
            for name in sorted(cordons)
            if name.startswith(f"{rack}-")
        )
        text += (
            f'resource "nexus_rack" "{rack}" {{\n  site_id = nexus_site.s.id\n  name = "{rack}"\n'
            f"  machine_count = {MACHINES}\n{overrides}}}\n"
        )
    return text + clusters


def build_fragmented_site(draw: random.Random) -> tuple[str, State] | None:
    """Return clusters and their state after others were deleted; None if they do not fit."""
    sizes = [(draw.choice(SMALL), draw.randint(1, 4)) for _ in range(draw.randint(4, 8))]
    clusters = [
        cluster(f"c{number}", pools=pool("p", count, sku))
        for number, (sku, count) in enumerate(sizes)
    ]
    created = make_plan(build_request(render("".join(clusters))))
    if created.plan.errored:
        return None
    kept = "".join(draw.sample(clusters, len(clusters) // 2))
    state = build_state_after(created)
    return kept, build_state_after(make_plan(build_request(render(kept), state)), state)


def test_planner_places_recreated_vms_as_the_repacking_says() -> None:
    windows = 0
    for seed in range(scale_count(400)):
        site = build_fragmented_site(random.Random(seed))
        if site is None:
            continue
        clusters, state = site
        wanted = get_site(state).scheduler.count_free_slots(build_standalone_demand(SKUS[LARGE]))
        want = wanted.minimum + 1
        result = plan_repack(get_site(state), RepackRequest(sku=SKUS[LARGE], want=want))
        if result.status is RepackStatus.IMPOSSIBLE:
            continue
        for window in result.windows:
            if any(step.hits < step.runs for step in window.steps):
                break
            windows += 1
            pools = get_site(state).pools
            edits = [
                VmReplacement(f"{pools[step.source.pool].address}:{step.source.vm.name}")
                for step in window.steps
            ]
            request = build_request(render(clusters, window.cordons), state)
            after = plan_hypothesis(request, edits).after
            places = locate_vms(after)
            for edit, step in zip(edits, window.steps, strict=True):
                assert places[edit.address][0] == step.target.machine, f"seed {seed}"
            state = build_state_after(after, state)
        else:
            # The cordons end with the last window.
            site_after = make_plan(build_request(render(clusters), state)).sites["s"]
            free = site_after.scheduler.count_free_slots(build_standalone_demand(SKUS[LARGE]))
            assert free.minimum >= want, f"seed {seed}"
    assert windows
