"""The scheduling cycle's known outcomes, one by one."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nexusform.domains.fleet.scheduling.bindings import (
    Binding,
    BindingAction,
    BindingChange,
    ChangeCause,
    ClusterSelectorTerm,
    Health,
    Policy,
    PropertyRequirement,
    TopologySpreadConstraint,
)
from nexusform.domains.fleet.scheduling.member_list import MemberList
from nexusform.domains.fleet.scheduling.scheduling_cycle import run_cycle, run_scheduling_cycles
from nexusform.kubernetes.matching import Toleration, build_label_selector
from tests.domains.fleet.scheduling.samples import (
    ALL,
    BOUND,
    FIXED,
    NODES,
    SCHEDULED,
    UNSCHEDULED,
    N,
    bound,
    fleet,
    held,
    labels_term,
    member,
    pick,
    place,
    property_term,
    reasons,
    scores,
    snapshot,
    sorted_by,
)

SEVEN = [f"cluster-{i}" for i in range(1, 8)]


def test_ties_go_to_the_largest_name() -> None:
    result = place(fleet(*SEVEN), pick(3))
    assert held(result) == ["cluster-5", "cluster-6", "cluster-7"]
    assert result.status is not None
    assert [d.cluster for d in result.status.list_decisions()] == [f"cluster-{i}" for i in (7, 6, 5, 4, 3, 2, 1)]


def test_names_are_compared_by_bytes() -> None:
    assert held(place(fleet("cluster-10", "cluster-9", "cluster-A", "cluster-a"), pick(2))) == [
        "cluster-A",
        "cluster-a",
    ]


def test_downscale_lets_the_smallest_names_go_first() -> None:
    prior = bound(*SEVEN)
    assert held(place(fleet(*SEVEN), pick(2), prior)) == ["cluster-6", "cluster-7"]


def test_downscale_prefers_scheduled_then_low_recorded_scores() -> None:
    prior = [
        Binding("a", BOUND, 0, 50, 0),
        Binding("b", BOUND, 0, 100, -1),
        Binding("c", BOUND, 0, None, None),
        Binding("d", SCHEDULED, 0, 100, 5),
        Binding("e", BOUND, 0, 0, 1),
    ]
    order = []
    for number in (4, 3, 2, 1, 0):
        result = place(fleet(*"abcde"), pick(number), prior)
        gone = {b.cluster for b in result.bindings if b.state is UNSCHEDULED} - set(order)
        order += sorted(gone)
    assert order == ["d", "c", "b", "a", "e"]


def test_downscale_uses_recorded_scores_not_todays() -> None:
    members = [member("a", nodes="100"), member("b", nodes="1")]
    prior = [Binding("a", BOUND, 0, 0, 0), Binding("b", BOUND, 0, 100, 0)]
    policy = pick(1, preferred_terms=(sorted_by(NODES, "Descending"),))
    assert held(place(members, policy, prior)) == ["b"]


def test_zero_clusters_is_fulfilled() -> None:
    result = place(fleet("a", "b"), pick(0))
    assert result.status is not None
    assert result.status.is_fulfilled
    assert result.status.condition.message.endswith("found 0 cluster(s)")
    assert result.status.list_decisions() == ()


def test_pick_all_without_any_cluster_is_fulfilled() -> None:
    result = place([], None)
    assert result.status is not None
    assert result.status.condition.reason == "SchedulingPolicyFulfilled"
    assert result.status.condition.message == (
        "found all cluster needed as specified by the scheduling policy, found 0 cluster(s)"
    )


def test_pick_all_scores_nothing() -> None:
    result = place([member("a", {"env": "prod"}), member("b")], Policy(ALL, required_terms=(labels_term(env="prod"),)))
    assert result.bindings == (Binding("a", SCHEDULED, 0, 0, 0),)
    assert reasons(result) == {
        "a": (
            'Successfully scheduled resources for placement in "a" (affinity score: 0,'
            " topology spread score: 0): picked by scheduling policy"
        ),
        "b": "ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms",
    }


def test_not_enough_clusters() -> None:
    result = place(fleet("a", "b"), pick(3))
    assert held(result) == ["a", "b"]
    assert result.status is not None
    assert result.status.condition.status == "False"
    assert result.status.condition.reason == "SchedulingPolicyUnfulfilled"
    assert result.status.condition.message == (
        "could not find all clusters needed as specified by the scheduling policy, found 2 cluster(s) instead"
    )


def test_outscored_clusters_say_so() -> None:
    result = place(
        [member("a", nodes="3"), member("b", nodes="5")], pick(1, preferred_terms=(sorted_by(NODES, "Descending"),))
    )
    assert reasons(result)["a"] == (
        'Cluster "a" does not score high enough (affinity score: 0, topology spread score: 0)'
    )


def test_a_pickn_without_number_wants_all_eligible_clusters() -> None:
    members = [*fleet("a", "b"), member("c", health=Health.UNHEALTHY), member("d", taints=["x"])]
    result = place(members, Policy(N))
    assert held(result) == ["a", "b"]
    assert result.status is not None
    assert not result.status.is_fulfilled


class TestPickFixed:
    def test_found_missing_and_ineligible(self) -> None:
        members = [member("a", taints=["x"]), member("b", health=Health.NOT_JOINED)]
        result = place(members, Policy(FIXED, cluster_names=("b", "c", "a")))
        assert result.bindings == (Binding("a", SCHEDULED, 0),)
        assert result.status is not None
        assert [(d.cluster, d.is_selected, d.reason) for d in result.status.list_decisions()] == [
            ("a", True, 'Successfully scheduled resources for placement in "a": picked by scheduling policy'),
            (
                "b",
                False,
                (
                    'Cluster "b" is not eligible for resource placement yet:'
                    " cluster is not connected to the fleet: member agent not joined yet"
                ),
            ),
            ("c", False, 'Specified cluster "c" is not found'),
        ]
        assert result.status.condition.message.endswith("found 1 cluster(s) instead")

    def test_a_cluster_that_turns_unhealthy_keeps_its_binding(self) -> None:
        prior = [Binding("a", BOUND, 0)]
        result = place([member("a", health=Health.UNHEALTHY)], Policy(FIXED, cluster_names=("a",)), prior)
        assert result.bindings == tuple(prior)
        assert result.status is not None
        assert not result.status.is_fulfilled

    def test_no_names_touches_nothing(self) -> None:
        prior = (Binding("a", BOUND, 0),)
        result = place(fleet("a"), Policy(FIXED), prior, index=1)
        assert result.bindings == prior
        assert result.status is None

    def test_other_names(self) -> None:
        prior = [Binding("a", BOUND, 0), Binding("b", BOUND, 0)]
        result = place(fleet("a", "b", "c"), Policy(FIXED, cluster_names=("b", "c")), prior, index=1)
        assert [(b.cluster, b.state, b.policy_snapshot) for b in result.bindings] == [
            ("a", UNSCHEDULED, 0),
            ("b", BOUND, 1),
            ("c", SCHEDULED, 1),
        ]


class TestBindings:
    def test_unscheduled_ones_remember_their_state_and_return_to_it(self) -> None:
        members = [member("a", {"env": "prod"}), member("b", {"env": "test"})]
        before = [replace(b, affinity_score=7) for b in bound("a")]
        gone = place(members, pick(1, required_terms=(labels_term(env="test"),)), before, index=1)
        kept = next(b for b in gone.bindings if b.cluster == "a")
        assert (kept.state, kept.previous_state, kept.affinity_score) == (UNSCHEDULED, BOUND, 7)
        back = place(members, pick(2), gone.bindings, index=2)
        assert next(b for b in back.bindings if b.cluster == "a") == Binding(
            "a", BOUND, 2, 0, 0, None, resource_snapshot=0
        )
        assert BindingChange("a", BindingAction.RECOVERED, ChangeCause.PICKED) in back.changes

    def test_without_a_previous_state_the_cycle_stops(self) -> None:
        prior = (Binding("a", UNSCHEDULED, 0), Binding("gone", BOUND, 0))
        result = place(fleet("a"), pick(1), prior)
        assert result.abort is not None
        assert "previous state" in result.abort.message
        assert result.status is None
        assert [b.state for b in result.bindings] == [UNSCHEDULED, UNSCHEDULED]

    def test_a_policy_change_keeps_what_is_picked_again(self) -> None:
        members = fleet("a", "b", "c")
        result = place(members, pick(1, tolerations=(Toleration("k", "Exists"),)), bound("a"), index=1)
        assert result.changes == (BindingChange("a", BindingAction.REPOINTED, ChangeCause.PICKED),)
        assert held(result) == ["a"]

    def test_a_better_score_moves_it_all_the_same(self) -> None:
        members = [member("a", nodes="1"), member("b", nodes="9")]
        policy = pick(1, preferred_terms=(sorted_by(NODES, "Descending"),))
        assert held(place(members, policy, bound("a"), index=1)) == ["b"]

    def test_health_is_not_looked_at(self) -> None:
        members = [member("a", taints=["t"], health=Health.UNHEALTHY), member("b")]
        assert held(place(members, pick(1), bound("a"))) == ["a"]

    @pytest.mark.parametrize("members", [fleet("b"), [member("a", health=Health.LEAVING), member("b")]])
    def test_dangling_ones_are_replaced(self, members: list) -> None:
        result = place(members, pick(1), bound("a"))
        assert [(b.cluster, b.state) for b in result.bindings] == [("a", UNSCHEDULED), ("b", SCHEDULED)]
        assert result.changes[0] == BindingChange("a", BindingAction.UNSCHEDULED, ChangeCause.CLUSTER_LEFT)

    def test_an_evicted_one_is_dropped_and_may_be_picked_again(self) -> None:
        evicted = replace(bound("b")[0], is_deleting=True)
        result = place(fleet("a", "b"), pick(1), [evicted])
        assert result.bindings == (Binding("b", SCHEDULED, 0, 0, 0),)
        assert [c.action for c in result.changes] == [BindingAction.DROPPED, BindingAction.CREATED]

    def test_an_idle_placement_refreshes_its_status_with_selected_clusters_only(self) -> None:
        result = place(fleet("a", "b"), pick(1), bound("a"))
        assert result.changes == ()
        assert list(reasons(result)) == ["a"]


class TestAffinity:
    @pytest.mark.parametrize(
        ("operator", "value", "expected"),
        [
            ("Gt", "5", ["c"]),
            ("Ge", "5", ["b", "c"]),
            ("Lt", "5", ["a"]),
            ("Le", "5.0", ["a", "b"]),
            ("Eq", "5000m", ["b"]),
            ("Ne", "5", ["a", "c"]),
        ],
    )
    def test_a_missing_property_fails_every_operator(self, operator: str, value: str, expected: list[str]) -> None:
        members = [member("a", nodes="3"), member("b", nodes="5"), member("c", nodes="7"), member("d")]
        assert held(place(members, Policy(ALL, required_terms=(property_term(NODES, operator, value),)))) == expected

    def test_terms_are_alternatives_and_their_parts_are_not(self) -> None:
        members = [
            member("a", {"region": "east"}, nodes="9"),
            member("b", {"region": "east"}, nodes="3"),
            member("c", {"region": "west"}, nodes="9"),
            member("d", {"env": "prod"}),
        ]
        both = ClusterSelectorTerm(
            build_label_selector({"region": "east"}), (PropertyRequirement(NODES, "Ge", ("5",)),)
        )
        assert held(place(members, Policy(ALL, required_terms=(both, labels_term(env="prod"))))) == ["a", "d"]

    @pytest.mark.parametrize(
        "required", [None, (), (ClusterSelectorTerm(),), (ClusterSelectorTerm(build_label_selector()),)]
    )
    def test_nothing_required_matches_all(self, required: tuple | None) -> None:
        assert held(place(fleet("a", "b"), Policy(ALL, required_terms=required))) == ["a", "b"]

    def test_one_bad_value_stops_the_whole_placement(self) -> None:
        members = [member("a", nodes="9"), member("b", nodes="many")]
        result = place(members, Policy(ALL, required_terms=(property_term(NODES, "Ge", "5"),)))
        assert result.bindings == ()
        assert result.status is None
        assert result.abort is not None
        assert result.abort.cluster == "b"

    def test_labels_are_tested_first(self) -> None:
        members = [member("a", {"env": "prod"}, nodes="9"), member("b", {"env": "test"}, nodes="many")]
        term = ClusterSelectorTerm(build_label_selector({"env": "prod"}), (PropertyRequirement(NODES, "Ge", ("5",)),))
        assert held(place(members, Policy(ALL, required_terms=(term,)))) == ["a"]

    @pytest.mark.parametrize(
        "name", ["total-ephemeral-storage", "cpu", "spare-cpu", "total-", "-cpu", "total-nvidia.com/gpu-x"]
    )
    def test_resource_names_the_scheduler_cannot_read(self, name: str) -> None:
        term = property_term(f"resources.kubernetes-fleet.io/{name}", "Ge", "1")
        assert place(fleet("a"), Policy(ALL, required_terms=(term,))).abort is not None

    def test_the_old_node_count_is_simply_missing_today(self) -> None:
        members = [member("a", nodes="9")]
        term = property_term("kubernetes.azure.com/node-count", "Ge", "1")
        assert held(place(members, Policy(ALL, required_terms=(term,)))) == []


class TestOtherFilters:
    @pytest.mark.parametrize(
        ("health", "reason"),
        [
            (Health.LEAVING, "cluster has left the fleet"),
            (Health.NO_AGENT, "cluster is not connected to the fleet: member agent not online yet"),
            (Health.NO_HEARTBEAT, "cluster is not connected to the fleet: no recent heartbeat signals"),
            (Health.NOT_JOINED, "cluster is not connected to the fleet: member agent not joined yet"),
            (Health.NO_HEALTH, "health condition from member agent is not available"),
            (Health.UNHEALTHY, "unhealthy for a prolonged period of time"),
        ],
    )
    def test_eligibility(self, health: Health, reason: str) -> None:
        result = place([member("a", health=health)], pick(1))
        assert reason in reasons(result)["a"]

    def test_young_unhealthiness_is_tolerated(self) -> None:
        assert held(place([member("a", health=Health.RECENTLY_UNHEALTHY)], pick(1))) == ["a"]

    def test_taints(self) -> None:
        result = place([member("a", taints=["x", "y"])], pick(1, tolerations=(Toleration("x", "Exists"),)))
        assert reasons(result)["a"] == (
            "ClusterUnschedulable, taint &{Key:y Value: Effect:NoSchedule} cannot be tolerated"
        )

    def test_an_empty_operator_tolerates_nothing(self) -> None:
        assert held(place([member("a", taints=["x"])], pick(1, tolerations=(Toleration("x", ""),)))) == []

    def test_namespaces(self) -> None:
        members = [
            member("a", namespaces=["web"]),
            member("b", namespaces=["other"]),
            member("c", namespaces=[]),
            member("d"),
        ]
        result = place(members, None, namespace="web")
        assert held(result) == ["a", "d"]
        assert reasons(result)["b"] == "ClusterUnschedulable, target namespace does not exist on cluster"
        assert reasons(result)["c"] == "ClusterUnschedulable, cluster has no namespace information available"
        assert held(place(members, None)) == ["a", "b", "c", "d"]

    def test_only_the_first_refusal_is_reported(self) -> None:
        everything = member("a", taints=["x"], health=Health.UNHEALTHY, namespaces=["other"])
        term = labels_term(env="prod")
        matching = replace(everything, labels={"env": "prod"})
        healthy = replace(matching, health=Health.HEALTHY)
        there = replace(healthy, namespaces=frozenset({"web"}))
        texts = [
            reasons(place([fixed], pick(1, required_terms=(term,)), namespace="web"))["a"]
            for fixed in (everything, matching, healthy, there)
        ]
        expected = ("affinity", "unhealthy", "namespace", "taint")
        assert all(part in text for part, text in zip(expected, texts, strict=True))

    def test_at_most_twenty_unselected_clusters_are_listed(self) -> None:
        names = [f"m{i:02d}" for i in range(40)]
        result = place(fleet(*names), pick(5))
        assert result.status is not None
        assert len(result.status.unselected_decisions) == 20
        assert result.status.unselected_decisions[0].cluster == "m34"

    def test_outscored_and_refused_clusters_share_the_twenty(self) -> None:
        refused = [member(f"m{i:02d}", taints=["x"]) for i in range(10)]
        result = place([*refused, *fleet(*(f"n{i:02d}" for i in range(17)))], pick(2))
        assert result.status is not None
        clusters = [d.cluster for d in result.status.unselected_decisions]
        assert clusters == [f"n{i:02d}" for i in reversed(range(15))] + [f"m{i:02d}" for i in range(5)]

    def test_a_refused_cluster_that_is_held_uses_up_a_place(self) -> None:
        names = [f"m{i:02d}" for i in range(25)]
        members = [member(name, taints=["x"]) for name in names]
        result = place(members, pick(2), bound("m00"))
        assert result.status is not None
        assert [d.cluster for d in result.status.unselected_decisions] == names[1:20]


def spread(key: str, skew: int = 1, action: str = "DoNotSchedule") -> TopologySpreadConstraint:
    return TopologySpreadConstraint(key, skew, action)


class TestSpread:
    def test_the_first_pick_of_all_scores_minus_one_per_constraint(self) -> None:
        members = [member(f"m{i}", {"region": f"r{i % 2}", "day": "d1"}) for i in range(4)]
        result = run_scheduling_cycles(
            (), MemberList(members), pick(1, spread_constraints=(spread("region"), spread("day"))), snapshot(pick(1))
        )
        assert [b.topology_spread_score for b in result.bindings] == [-2]

    def test_one_cluster_a_cycle(self) -> None:
        members = [member(f"m{i}", {"region": f"r{i % 3}"}) for i in range(9)]
        policy = pick(3, spread_constraints=(spread("region"),))
        first = run_cycle((), MemberList(members), policy, snapshot(policy))
        assert first.needs_requeue
        assert first.status is None
        assert len(first.bindings) == 1
        result = place(members, policy)
        assert result.cycles == 3
        assert {members[int(name[1])].labels["region"] for name in held(result)} == {"r0", "r1", "r2"}
        assert [b.topology_spread_score for b in sorted(result.bindings, key=lambda b: -int(b.cluster[1]))] == [
            -1,
            0,
            1,
        ]

    def test_spread_outranks_affinity(self) -> None:
        members = [
            member("a1", {"region": "a"}, nodes="100"),
            member("a2", {"region": "a"}, nodes="99"),
            member("b1", {"region": "b"}, nodes="1"),
        ]
        policy = pick(
            2,
            spread_constraints=(spread("region", 5, "ScheduleAnyway"),),
            preferred_terms=(sorted_by(NODES, "Descending"),),
        )
        assert held(place(members, policy)) == ["a1", "b1"]

    def test_a_hard_constraint_refuses_and_says_so(self) -> None:
        members = [
            member("a1", {"region": "a"}),
            member("a2", {"region": "a"}),
            member("b1", {"region": "b"}, taints=["x"]),
        ]
        result = place(members, pick(2, spread_constraints=(spread("region"),)))
        assert held(result) == ["a2"]
        assert reasons(result)["a1"] == (
            'ClusterUnschedulable, violated doNotSchedule topology spread constraint "region" (max skew 1)'
        )

    def test_a_soft_one_costs_a_thousand(self) -> None:
        members = [member("a1", {"day": "1"}), member("a2", {"day": "1"}), member("b1", {"day": "2"}, taints=["x"])]
        result = place(members, pick(2, spread_constraints=(spread("day", 1, "ScheduleAnyway"),)))
        assert {b.cluster: b.topology_spread_score for b in result.bindings} == {"a1": -1000, "a2": -1}

    def test_domains_include_ineligible_clusters(self) -> None:
        members = [member("a1", {"region": "a"}), member("a2", {"region": "a"})]
        dead = member("b1", {"region": "b"}, health=Health.NO_AGENT)
        policy = pick(2, spread_constraints=(spread("region"),))
        assert held(place(members, policy)) == ["a1", "a2"]
        assert held(place([*members, dead], policy)) == ["a2"]

    def test_a_skew_that_is_too_big_already_refuses_everybody(self) -> None:
        members = [member(f"a{i}", {"region": "a"}) for i in range(4)]
        empty = [member("b1", {"region": "b"}), member("c1", {"region": "c"})]
        result = place([*members, *empty], pick(5, spread_constraints=(spread("region"),)), bound("a0", "a1", "a2"))
        assert held(result) == ["a0", "a1", "a2"]

    def test_clusters_without_the_label_take_part_in_nothing(self) -> None:
        members = [member("a1", {"region": "a"}), member("plain"), member("simple")]
        result = place(members, pick(3, spread_constraints=(spread("region"),)))
        assert {b.cluster: b.topology_spread_score for b in result.bindings} == {"a1": -1, "plain": 0, "simple": 0}

    def test_a_policy_change_drops_obsolete_ones_in_the_first_batch(self) -> None:
        members = [member(f"m{i}", {"region": f"r{i}"}) for i in range(4)]
        policy = pick(2, spread_constraints=(spread("region"),))
        first = run_cycle(bound("m0", "m1"), MemberList(members), policy, snapshot(policy, 1))
        assert [(b.cluster, b.state) for b in first.bindings] == [("m0", UNSCHEDULED), ("m1", BOUND)]
        result = place(members, policy, bound("m0", "m1"), index=1)
        assert [(b.cluster, b.state) for b in result.bindings] == [
            ("m0", UNSCHEDULED),
            ("m1", BOUND),
            ("m3", SCHEDULED),
        ]

    def test_by_region_and_update_day(self) -> None:
        members = [
            member(f"m{i}", {"region": ("east", "west", "north")[i % 3], "updateDay": str(i % 2)}) for i in range(12)
        ]
        policy = pick(6, spread_constraints=(spread("region", 2), spread("updateDay", 2, "ScheduleAnyway")))
        chosen = held(place(members, policy))
        counts = {
            key: sorted(
                sum(members[int(name[1:])].labels[key] == value for name in chosen)
                for value in {m.labels[key] for m in members}
            )
            for key in ("region", "updateDay")
        }
        assert counts == {"region": [2, 2, 2], "updateDay": [3, 3]}


class TestScores:
    @pytest.mark.parametrize(
        ("order", "weight", "values", "expected"),
        [
            ("Descending", 100, ("100", "20", "10"), (100, 11, 0)),
            ("Ascending", 100, ("1", "0.2", "0.1"), (0, 89, 100)),
            ("Descending", 20, ("100", "20", "10"), (20, 2, 0)),
            ("Descending", -50, ("3", "2", "1"), (-50, -25, 0)),
            ("Descending", 1, ("3", "2", "1"), (1, 1, 0)),
            ("Descending", -1, ("3", "2", "1"), (-1, -1, 0)),
            ("Descending", 100, ("5", "5", "5"), (0, 0, 0)),
            ("Descending", 100, ("5", None, "1"), (100, 0, 0)),
            ("Ascending", 100, (None, None, "1"), (0, 0, 0)),
        ],
    )
    def test_interpolation(
        self, order: str, weight: int, values: tuple[str | None, ...], expected: tuple[int, ...]
    ) -> None:
        members = [member(name, nodes=value) for name, value in zip("abc", values, strict=True)]
        result = place(members, pick(3, preferred_terms=(sorted_by(NODES, order, weight),)))
        assert scores(result) == dict(zip("abc", expected, strict=True))

    def test_extremes_are_those_of_the_whole_fleet(self) -> None:
        members = [
            member("a", nodes="1", health=Health.UNHEALTHY),
            member("b", nodes="2"),
            member("c", nodes="2"),
            member("d", nodes="8"),
        ]
        result = place(members, pick(2, preferred_terms=(sorted_by(NODES, "Ascending"),)))
        assert held(result) == ["b", "c"]
        assert scores(result)["b"] == 86

    def test_terms_add_up_after_rounding(self) -> None:
        members = [member("a", nodes="3"), member("b", nodes="2"), member("c", nodes="1")]
        two = (sorted_by(NODES, "Descending", 1), sorted_by(NODES, "Descending", 1))
        assert scores(place(members, pick(3, preferred_terms=two)))["b"] == 2

    def test_one_amount_spelt_two_ways_at_an_extreme_stops_the_cycle(self) -> None:
        members = [member("a", cost="300m"), member("b", cost="0.3"), member("c", cost="0.1")]
        policy = pick(1, preferred_terms=(sorted_by("kubernetes.azure.com/per-cpu-core-cost", "Descending"),))
        result = place(members, policy)
        assert result.abort is not None
        assert "cannot interpolate weight" in result.abort.message

    def test_an_unreadable_value_anywhere_stops_a_sorter(self) -> None:
        members = [member("a", nodes="3"), member("b", nodes="x", health=Health.UNHEALTHY)]
        zero_weight = pick(1, preferred_terms=(sorted_by(NODES, "Descending", 0),))
        assert place(members, zero_weight).abort is not None
