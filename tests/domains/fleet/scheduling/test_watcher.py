"""Which change of a member queues which placements, and which queues none."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from nexusform.domains.fleet.scheduling.bindings import (
    Ask,
    BindingAction,
    BindingChange,
    Cause,
    Health,
    Member,
    Policy,
    ResourceUsage,
)
from nexusform.domains.fleet.scheduling.watcher import (
    Occasion,
    Trigger,
    Watched,
    observations,
    queued,
    trigger_for,
    trigger_of,
)
from nexusform.kubernetes.matching import Taint, Toleration
from tests.domains.fleet.scheduling.samples import ALL, FIXED, NODES, N, labels_term, member, pick, quantity

BEFORE = member("a", {"env": "prod"}, nodes="3", cpu="4", taints=["x", "y"], namespaces=["web"])


def changed(**fields: object) -> Callable[[Member], Member]:
    return lambda m: replace(m, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "trigger"),
    [
        (changed(labels={"env": "test"}), Trigger.CLUSTER_LABELS_CHANGED),
        (changed(labels={}), Trigger.CLUSTER_LABELS_CHANGED),
        (changed(taints=(Taint("x"),)), Trigger.TAINT_REMOVED),
        (changed(taints=(Taint("x"), Taint("y", "v"))), Trigger.TAINT_REMOVED),
        (changed(taints=(Taint("y"), Taint("x"))), None),
        (changed(taints=(Taint("x"), Taint("y"), Taint("z"))), None),
        (changed(properties={NODES: "4"}), Trigger.CLUSTER_PROPERTIES_CHANGED),
        (changed(properties={}), Trigger.CLUSTER_PROPERTIES_CHANGED),
        (
            changed(resources=ResourceUsage(available={"cpu": quantity("5")})),
            Trigger.CLUSTER_PROPERTIES_CHANGED,
        ),
        (changed(resources=ResourceUsage(available={"cpu": quantity("4000m")})), None),
        (changed(namespaces=frozenset({"web", "api"})), Trigger.CLUSTER_PROPERTIES_CHANGED),
        (changed(health=Health.UNHEALTHY), None),
        (changed(health=Health.LEAVING), None),
        (changed(health=Health.RECENTLY_UNHEALTHY), None),
        (changed(), None),
    ],
)
def test_updates(change: Callable[[Member], Member], trigger: Trigger | None) -> None:
    assert trigger_for(BEFORE, change(BEFORE)) is trigger


def test_coming_and_going() -> None:
    down = replace(BEFORE, health=Health.NOT_JOINED)
    leaving = replace(BEFORE, health=Health.LEAVING)
    assert trigger_for(None, down) is None
    assert trigger_for(None, BEFORE) is Trigger.CLUSTER_JOINED
    assert trigger_for(down, BEFORE) is Trigger.CLUSTER_BECAME_ELIGIBLE
    assert trigger_for(leaving, replace(leaving, labels={})) is None
    assert trigger_for(leaving, None) is Trigger.CLUSTER_LEFT
    assert trigger_for(BEFORE, None) is Trigger.CLUSTER_LEFT


def test_who_is_queued() -> None:
    every = [Watched(f"{kind}-{done}", kind, done) for kind in (ALL, FIXED, N) for done in (True, False)]
    better = replace(BEFORE, properties={NODES: "9"})
    assert [q.placement for q in queued([BEFORE], [better], every)] == [
        "PickAll-True",
        "PickAll-False",
        "PickFixed-False",
        "PickN-False",
    ]
    assert [q.placement for q in queued([BEFORE], [], every)] == [w.key for w in every]
    both = queued([BEFORE, member("b")], [better], [Watched("done", N, True), Watched("open", N, False)])
    assert [[c.trigger for c in q.changes] for q in both] == [
        [Trigger.CLUSTER_LEFT],
        [Trigger.CLUSTER_PROPERTIES_CHANGED, Trigger.CLUSTER_LEFT],
    ]


def test_observations_name_what_would_refuse_now() -> None:
    ask = Ask(pick(1, required=(labels_term(env="prod"),), tolerations=(Toleration("x", "Exists"),)))
    fine = member("a", {"env": "prod"}, taints=["x"])
    worse = member("a", {"env": "test"}, taints=["x", "z"], health=Health.UNHEALTHY)
    assert [o.trigger for o in observations(fine, worse, ask)] == [
        Trigger.CLUSTER_BECAME_INELIGIBLE,
        Trigger.TAINT_ADDED,
        Trigger.LABELS_NO_LONGER_MATCH,
    ]
    assert observations(worse, worse, ask) == ()
    assert observations(fine, fine, ask) == ()
    named = Ask(Policy(FIXED, cluster_names=("a",)))
    assert [o.trigger for o in observations(fine, worse, named)] == [Trigger.CLUSTER_BECAME_INELIGIBLE]


@pytest.mark.parametrize(
    ("change", "occasion", "trigger"),
    [
        (BindingAction.CREATED, Occasion(created=True), Trigger.PLACEMENT_CREATED),
        (BindingAction.CREATED, Occasion(policy_changed=True), Trigger.POLICY_CHANGED),
        (BindingAction.CREATED, Occasion(number_increased=True), Trigger.NUMBER_INCREASED),
        (BindingAction.CREATED, Occasion(members={"a": Trigger.TAINT_REMOVED}), Trigger.TAINT_REMOVED),
        (
            BindingAction.CREATED,
            Occasion(members={"b": Trigger.CLUSTER_LEFT}, left=frozenset("b")),
            Trigger.CLUSTER_LEFT,
        ),
        (BindingAction.CREATED, Occasion(evicted=frozenset("a")), Trigger.EVICTED),
        (BindingAction.REPOINTED, Occasion(), Trigger.POLICY_CHANGED),
        (BindingAction.CREATED, Occasion(), Trigger.RESOURCES_CHANGED),
    ],
)
def test_triggers_of_picks(change: BindingAction, occasion: Occasion, trigger: Trigger) -> None:
    assert trigger_of(BindingChange("a", change, Cause.PICKED), occasion) is trigger


@pytest.mark.parametrize(
    ("cause", "trigger"),
    [
        (Cause.CLUSTER_LEFT, Trigger.CLUSTER_LEFT),
        (Cause.POLICY, Trigger.POLICY_CHANGED),
        (Cause.DOWNSCALE, Trigger.NUMBER_DECREASED),
    ],
)
def test_triggers_of_releases(cause: Cause, trigger: Trigger) -> None:
    assert trigger_of(BindingChange("a", BindingAction.UNSCHEDULED, cause), Occasion(created=True)) is trigger
