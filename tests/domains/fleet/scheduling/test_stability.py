"""Tests of stable placements over random fleets and policies."""

from __future__ import annotations

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from nexusform.domains.fleet.scheduling.bindings import (
    Binding,
    Health,
    Member,
    Policy,
    PolicySnapshot,
)
from nexusform.domains.fleet.scheduling.member_list import MemberList
from nexusform.domains.fleet.scheduling.scheduling_cycle import run_scheduling_cycles
from nexusform.domains.fleet.scheduling.watcher import WatchedPlacement, enqueue_placements
from tests.domains.fleet.scheduling.samples import UNSCHEDULED, list_held_clusters
from tests.domains.fleet.scheduling.test_agreement import Situation, member, pick_n, situations
from tests.kill_points import scale_count

quick = settings(
    max_examples=scale_count(200), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


def build_snapshot(policy: Policy) -> PolicySnapshot:
    return PolicySnapshot(1, "", policy.number_of_clusters)


def index_current_bindings(bindings: tuple[Binding, ...]) -> dict[str, Binding]:
    return {b.cluster: b for b in bindings if b.state is not UNSCHEDULED}


@quick
@given(situations())
def test_second_scheduling_changes_nothing(situation: Situation) -> None:
    members, policy, prior, namespace = situation
    once = run_scheduling_cycles(
        prior, MemberList(members), policy, build_snapshot(policy), namespace
    )
    assume(once.abort is None)
    again = run_scheduling_cycles(
        once.bindings, MemberList(members), policy, build_snapshot(policy), namespace
    )
    assert again.bindings == once.bindings
    assert again.changes == ()


@quick
@given(situations(asks=pick_n), st.integers(1, 3))
def test_scale_out_keeps_existing_bindings(situation: Situation, more: int) -> None:
    members, policy, _, namespace = situation
    roster = MemberList(members)
    first = replace(build_snapshot(policy), number_of_clusters=policy.number_of_clusters or 0)
    before = run_scheduling_cycles((), roster, policy, first, namespace)
    wider = replace(first, number_of_clusters=(first.number_of_clusters or 0) + more)
    after = run_scheduling_cycles(before.bindings, roster, policy, wider, namespace)
    now = {b.cluster: b for b in after.bindings}
    assert all(now[b.cluster] == b for b in before.bindings)


@quick
@given(situations(asks=pick_n), st.data())
def test_fulfilled_pick_n_ignores_cluster_changes(
    situation: Situation, data: st.DataObject
) -> None:
    members, policy, _, namespace = situation
    most = run_scheduling_cycles((), MemberList(members), policy, build_snapshot(policy), namespace)
    number = replace(build_snapshot(policy), number_of_clusters=len(list_held_clusters(most)))
    before = run_scheduling_cycles(most.bindings, MemberList(members), policy, number, namespace)
    assert before.status is not None
    assert before.status.is_fulfilled
    changed = [replace(data.draw(member), name=m.name) for m in members]
    changed = [replace(m, health=Health.UNHEALTHY) if m.is_leaving else m for m in changed]
    assert (
        enqueue_placements(
            members, changed, [WatchedPlacement("p", policy.placement_type, is_fulfilled=True)]
        )
        == {}
    )
    after = run_scheduling_cycles(before.bindings, MemberList(changed), policy, number, namespace)
    assert after.bindings == before.bindings


@quick
@given(situations(), st.data())
def test_leaving_cluster_moves_only_its_bindings(situation: Situation, data: st.DataObject) -> None:
    members, policy, _, namespace = situation
    assume(members)
    before = run_scheduling_cycles(
        (), MemberList(members), policy, build_snapshot(policy), namespace
    )
    gone = data.draw(st.sampled_from([m.name for m in members]))
    left: list[Member] = [m for m in members if m.name != gone]
    after = run_scheduling_cycles(
        before.bindings, MemberList(left), policy, build_snapshot(policy), namespace
    )
    stayed = {
        name: b for name, b in index_current_bindings(before.bindings).items() if name != gone
    }
    assert {
        name: b for name, b in index_current_bindings(after.bindings).items() if name in stayed
    } == stayed
    assert gone not in index_current_bindings(after.bindings)


@quick
@given(situations(), st.randoms(use_true_random=False))
def test_input_order_is_irrelevant(situation: Situation, random: object) -> None:
    members, policy, prior, namespace = situation
    one = run_scheduling_cycles(
        prior, MemberList(members), policy, build_snapshot(policy), namespace
    )
    shuffled = list(members)
    turned = list(prior)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    random.shuffle(turned)  # type: ignore[attr-defined]
    other = run_scheduling_cycles(
        turned, MemberList(shuffled), policy, build_snapshot(policy), namespace
    )
    assert other.bindings == one.bindings
    assert other.status == one.status
