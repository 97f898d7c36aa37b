"""Tests of member changes and the placements queued for them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from nexusform.domains.fleet.scheduling.bindings import (
    BindingAction,
    BindingChange,
    ChangeCause,
    Health,
    Member,
    PlacementRequest,
    Policy,
    ResourceUsage,
)
from nexusform.domains.fleet.scheduling.watcher import (
    SchedulingTriggers,
    Trigger,
    WatchedPlacement,
    enqueue_placements,
    find_change_trigger,
    find_member_observations,
    find_queue_trigger,
)
from nexusform.kubernetes.matching import Taint, Toleration
from tests.domains.fleet.scheduling.samples import (
    ALL,
    FIXED,
    NODES,
    N,
    build_labels_term,
    build_pick_n,
    member,
    quantity,
)

BEFORE = member("a", {"env": "prod"}, nodes="3", cpu="4", taints=["x", "y"], namespaces=["web"])


def change_member(**fields: object) -> Callable[[Member], Member]:
    return lambda m: replace(m, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "trigger"),
    [
        (change_member(labels={"env": "test"}), Trigger.CLUSTER_LABELS_CHANGED),
        (change_member(labels={}), Trigger.CLUSTER_LABELS_CHANGED),
        (change_member(taints=(Taint("x"),)), Trigger.TAINT_REMOVED),
        (change_member(taints=(Taint("x"), Taint("y", "v"))), Trigger.TAINT_REMOVED),
        (change_member(taints=(Taint("y"), Taint("x"))), None),
        (change_member(taints=(Taint("x"), Taint("y"), Taint("z"))), None),
        (change_member(properties={NODES: "4"}), Trigger.CLUSTER_PROPERTIES_CHANGED),
        (change_member(properties={}), Trigger.CLUSTER_PROPERTIES_CHANGED),
        (
            change_member(resources=ResourceUsage(available={"cpu": quantity("5")})),
            Trigger.CLUSTER_PROPERTIES_CHANGED,
        ),
        (change_member(resources=ResourceUsage(available={"cpu": quantity("4000m")})), None),
        (change_member(namespaces=frozenset({"web", "api"})), Trigger.CLUSTER_PROPERTIES_CHANGED),
        (change_member(health=Health.UNHEALTHY), None),
        (change_member(health=Health.LEAVING), None),
        (change_member(health=Health.RECENTLY_UNHEALTHY), None),
        (change_member(), None),
    ],
)
def test_trigger_of_member_updates(
    change: Callable[[Member], Member], trigger: Trigger | None
) -> None:
    assert find_queue_trigger(BEFORE, change(BEFORE)) is trigger


def test_trigger_of_joined_and_left_members() -> None:
    down = replace(BEFORE, health=Health.NOT_JOINED)
    leaving = replace(BEFORE, health=Health.LEAVING)
    assert find_queue_trigger(None, down) is None
    assert find_queue_trigger(None, BEFORE) is Trigger.CLUSTER_JOINED
    assert find_queue_trigger(down, BEFORE) is Trigger.CLUSTER_BECAME_ELIGIBLE
    assert find_queue_trigger(leaving, replace(leaving, labels={})) is None
    assert find_queue_trigger(leaving, None) is Trigger.CLUSTER_LEFT
    assert find_queue_trigger(BEFORE, None) is Trigger.CLUSTER_LEFT


def test_queued_placements() -> None:
    every = [
        WatchedPlacement(f"{kind}-{done}", kind, done)
        for kind in (ALL, FIXED, N)
        for done in (True, False)
    ]
    better = replace(BEFORE, properties={NODES: "9"})
    assert list(enqueue_placements([BEFORE], [better], every)) == [
        "PickAll-True",
        "PickAll-False",
        "PickFixed-False",
        "PickN-False",
    ]
    assert list(enqueue_placements([BEFORE], [], every)) == [w.key for w in every]
    both = enqueue_placements(
        [BEFORE, member("b")],
        [better],
        [WatchedPlacement("done", N, True), WatchedPlacement("open", N, False)],
    )
    assert [[change.trigger for change in changes] for changes in both.values()] == [
        [Trigger.CLUSTER_LEFT],
        [Trigger.CLUSTER_PROPERTIES_CHANGED, Trigger.CLUSTER_LEFT],
    ]


def test_observations_name_current_rejections() -> None:
    ask = PlacementRequest(
        build_pick_n(
            1,
            required_terms=(build_labels_term(env="prod"),),
            tolerations=(Toleration("x", "Exists"),),
        )
    )
    fine = member("a", {"env": "prod"}, taints=["x"])
    worse = member("a", {"env": "test"}, taints=["x", "z"], health=Health.UNHEALTHY)
    assert [o.trigger for o in find_member_observations(fine, worse, ask)] == [
        Trigger.CLUSTER_BECAME_INELIGIBLE,
        Trigger.TAINT_ADDED,
        Trigger.LABELS_NO_LONGER_MATCH,
    ]
    assert find_member_observations(worse, worse, ask) == ()
    assert find_member_observations(fine, fine, ask) == ()
    named = PlacementRequest(Policy(FIXED, cluster_names=("a",)))
    assert [o.trigger for o in find_member_observations(fine, worse, named)] == [
        Trigger.CLUSTER_BECAME_INELIGIBLE
    ]


@pytest.mark.parametrize(
    ("change", "occasion", "trigger"),
    [
        (BindingAction.CREATED, SchedulingTriggers(is_new=True), Trigger.PLACEMENT_CREATED),
        (BindingAction.CREATED, SchedulingTriggers(policy_changed=True), Trigger.POLICY_CHANGED),
        (
            BindingAction.CREATED,
            SchedulingTriggers(number_increased=True),
            Trigger.NUMBER_INCREASED,
        ),
        (
            BindingAction.CREATED,
            SchedulingTriggers(member_triggers={"a": Trigger.TAINT_REMOVED}),
            Trigger.TAINT_REMOVED,
        ),
        (
            BindingAction.CREATED,
            SchedulingTriggers(
                member_triggers={"b": Trigger.CLUSTER_LEFT}, departed_clusters=frozenset("b")
            ),
            Trigger.CLUSTER_LEFT,
        ),
        (
            BindingAction.CREATED,
            SchedulingTriggers(lost_bindings={"a": Trigger.EVICTED}),
            Trigger.EVICTED,
        ),
        (
            BindingAction.CREATED,
            SchedulingTriggers(lost_bindings={"a": Trigger.BINDING_DELETED}),
            Trigger.BINDING_DELETED,
        ),
        (
            BindingAction.CREATED,
            SchedulingTriggers(lost_bindings={"b": Trigger.BINDING_DELETED, "c": Trigger.EVICTED}),
            Trigger.EVICTED,
        ),
        (
            BindingAction.CREATED,
            SchedulingTriggers(lost_bindings={"b": Trigger.BINDING_DELETED}),
            Trigger.BINDING_DELETED,
        ),
        (BindingAction.REPOINTED, SchedulingTriggers(), Trigger.POLICY_CHANGED),
        (BindingAction.CREATED, SchedulingTriggers(), Trigger.RESOURCES_CHANGED),
    ],
)
def test_triggers_of_picks(
    change: BindingAction, occasion: SchedulingTriggers, trigger: Trigger
) -> None:
    assert find_change_trigger(BindingChange("a", change, ChangeCause.PICKED), occasion) is trigger


@pytest.mark.parametrize(
    ("cause", "trigger"),
    [
        (ChangeCause.CLUSTER_LEFT, Trigger.CLUSTER_LEFT),
        (ChangeCause.POLICY, Trigger.POLICY_CHANGED),
        (ChangeCause.DOWNSCALE, Trigger.NUMBER_DECREASED),
    ],
)
def test_triggers_of_releases(cause: ChangeCause, trigger: Trigger) -> None:
    assert (
        find_change_trigger(
            BindingChange("a", BindingAction.UNSCHEDULED, cause), SchedulingTriggers(is_new=True)
        )
        is trigger
    )
