"""Tests of known outcomes of the scheduling cycle."""

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
from nexusform.domains.fleet.scheduling.scheduling_cycle import run_scheduling_cycles
from nexusform.kubernetes.matching import Toleration, build_label_selector
from tests.domains.fleet.scheduling.samples import (
    ALL,
    BOUND,
    FIXED,
    NODES,
    SCHEDULED,
    UNSCHEDULED,
    N,
    build_bound,
    build_labels_term,
    build_pick_n,
    build_property_term,
    build_snapshot,
    build_sorter,
    fleet,
    get_reasons,
    get_scores,
    list_held_clusters,
    member,
    schedule,
)

SEVEN = [f"cluster-{i}" for i in range(1, 8)]


def test_ties_go_to_largest_name() -> None:
    result = schedule(fleet(*SEVEN), build_pick_n(3))
    assert list_held_clusters(result) == ["cluster-5", "cluster-6", "cluster-7"]
    assert result.status is not None
    assert [d.cluster for d in result.status.list_decisions()] == [
        f"cluster-{i}" for i in (7, 6, 5, 4, 3, 2, 1)
    ]


def test_names_are_compared_by_bytes() -> None:
    assert list_held_clusters(
        schedule(fleet("cluster-10", "cluster-9", "cluster-A", "cluster-a"), build_pick_n(2))
    ) == ["cluster-A", "cluster-a"]


def test_downscale_removes_smallest_names_first() -> None:
    prior = build_bound(*SEVEN)
    assert list_held_clusters(schedule(fleet(*SEVEN), build_pick_n(2), prior)) == [
        "cluster-6",
        "cluster-7",
    ]


def test_downscale_removes_scheduled_then_low_recorded_scores() -> None:
    prior = [
        Binding("a", BOUND, 0, 50, 0),
        Binding("b", BOUND, 0, 100, -1),
        Binding("c", BOUND, 0, None, None),
        Binding("d", SCHEDULED, 0, 100, 5),
        Binding("e", BOUND, 0, 0, 1),
    ]
    order = []
    for number in (4, 3, 2, 1, 0):
        result = schedule(fleet(*"abcde"), build_pick_n(number), prior)
        gone = {b.cluster for b in result.bindings if b.state is UNSCHEDULED} - set(order)
        order += sorted(gone)
    assert order == ["d", "c", "b", "a", "e"]


def test_downscale_uses_recorded_scores() -> None:
    members = [member("a", nodes="100"), member("b", nodes="1")]
    prior = [Binding("a", BOUND, 0, 0, 0), Binding("b", BOUND, 0, 100, 0)]
    policy = build_pick_n(1, preferred_terms=(build_sorter(NODES, "Descending"),))
    assert list_held_clusters(schedule(members, policy, prior)) == ["b"]


def test_zero_clusters_is_fulfilled() -> None:
    result = schedule(fleet("a", "b"), build_pick_n(0))
    assert result.status is not None
    assert result.status.is_fulfilled
    assert result.status.condition.message.endswith("found 0 cluster(s)")
    assert result.status.list_decisions() == ()


def test_pick_all_without_clusters_is_fulfilled() -> None:
    result = schedule([], Policy())
    assert result.status is not None
    assert result.status.condition.reason == "SchedulingPolicyFulfilled"
    assert result.status.condition.message == (
        "found all cluster needed as specified by the scheduling policy, found 0 cluster(s)"
    )


def test_pick_all_has_zero_scores() -> None:
    result = schedule(
        [member("a", {"env": "prod"}), member("b")],
        Policy(ALL, required_terms=(build_labels_term(env="prod"),)),
    )
    assert result.bindings == (Binding("a", SCHEDULED, 0, 0, 0),)
    assert get_reasons(result) == {
        "a": (
            'Successfully scheduled resources for placement in "a" (affinity score: 0,'
            " topology spread score: 0): picked by scheduling policy"
        ),
        "b": (
            "ClusterUnschedulable, cluster does not match with any of the required cluster "
            "affinity terms"
        ),
    }


def test_not_enough_clusters() -> None:
    result = schedule(fleet("a", "b"), build_pick_n(3))
    assert list_held_clusters(result) == ["a", "b"]
    assert result.status is not None
    assert result.status.condition.status == "False"
    assert result.status.condition.reason == "SchedulingPolicyUnfulfilled"
    assert result.status.condition.message == (
        "could not find all clusters needed as specified by the scheduling policy, found 2 "
        "cluster(s) instead"
    )


def test_outscored_clusters_have_a_reason() -> None:
    result = schedule(
        [member("a", nodes="3"), member("b", nodes="5")],
        build_pick_n(1, preferred_terms=(build_sorter(NODES, "Descending"),)),
    )
    assert get_reasons(result)["a"] == (
        'Cluster "a" does not score high enough (affinity score: 0, topology spread score: 0)'
    )


def test_pick_n_without_number_selects_all_eligible_clusters() -> None:
    members = [*fleet("a", "b"), member("c", health=Health.UNHEALTHY), member("d", taints=["x"])]
    result = schedule(members, Policy(N))
    assert list_held_clusters(result) == ["a", "b"]
    assert result.status is not None
    assert not result.status.is_fulfilled


class TestPickFixedPolicy:
    def test_found_missing_and_ineligible(self) -> None:
        members = [member("a", taints=["x"]), member("b", health=Health.NOT_JOINED)]
        result = schedule(members, Policy(FIXED, cluster_names=("b", "c", "a")))
        assert result.bindings == (Binding("a", SCHEDULED, 0),)
        assert result.status is not None
        assert [(d.cluster, d.is_selected, d.reason) for d in result.status.list_decisions()] == [
            (
                "a",
                True,
                (
                    'Successfully scheduled resources for placement in "a": picked by scheduling '
                    "policy"
                ),
            ),
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

    def test_unhealthy_cluster_keeps_its_binding(self) -> None:
        prior = [Binding("a", BOUND, 0)]
        result = schedule(
            [member("a", health=Health.UNHEALTHY)], Policy(FIXED, cluster_names=("a",)), prior
        )
        assert result.bindings == tuple(prior)
        assert result.status is not None
        assert not result.status.is_fulfilled

    def test_policy_without_names_changes_nothing(self) -> None:
        prior = (Binding("a", BOUND, 0),)
        result = schedule(fleet("a"), Policy(FIXED), prior, index=1)
        assert result.bindings == prior
        assert result.status is None

    def test_changed_names(self) -> None:
        prior = [Binding("a", BOUND, 0), Binding("b", BOUND, 0)]
        result = schedule(
            fleet("a", "b", "c"), Policy(FIXED, cluster_names=("b", "c")), prior, index=1
        )
        assert [(b.cluster, b.state, b.policy_snapshot) for b in result.bindings] == [
            ("a", UNSCHEDULED, 0),
            ("b", BOUND, 1),
            ("c", SCHEDULED, 1),
        ]


class TestBindingTransitions:
    def test_unscheduled_bindings_return_to_their_previous_state(self) -> None:
        members = [member("a", {"env": "prod"}), member("b", {"env": "test"})]
        before = [replace(b, affinity_score=7) for b in build_bound("a")]
        gone = schedule(
            members,
            build_pick_n(1, required_terms=(build_labels_term(env="test"),)),
            before,
            index=1,
        )
        kept = next(b for b in gone.bindings if b.cluster == "a")
        assert (kept.state, kept.previous_state, kept.affinity_score) == (UNSCHEDULED, BOUND, 7)
        back = schedule(members, build_pick_n(2), gone.bindings, index=2)
        assert next(b for b in back.bindings if b.cluster == "a") == Binding(
            "a", BOUND, 2, 0, 0, None, resource_snapshot=0
        )
        assert BindingChange("a", BindingAction.RECOVERED, ChangeCause.PICKED) in back.changes

    def test_cycle_stops_without_previous_state(self) -> None:
        prior = (Binding("a", UNSCHEDULED, 0), Binding("gone", BOUND, 0))
        result = schedule(fleet("a"), build_pick_n(1), prior)
        assert result.abort is not None
        assert "previous state" in result.abort.message
        assert result.status is None
        assert [b.state for b in result.bindings] == [UNSCHEDULED, UNSCHEDULED]

    def test_policy_change_keeps_clusters_picked_again(self) -> None:
        members = fleet("a", "b", "c")
        result = schedule(
            members,
            build_pick_n(1, tolerations=(Toleration("k", "Exists"),)),
            build_bound("a"),
            index=1,
        )
        assert result.changes == (BindingChange("a", BindingAction.REPOINTED, ChangeCause.PICKED),)
        assert list_held_clusters(result) == ["a"]

    def test_better_score_moves_binding_after_policy_change(self) -> None:
        members = [member("a", nodes="1"), member("b", nodes="9")]
        policy = build_pick_n(1, preferred_terms=(build_sorter(NODES, "Descending"),))
        assert list_held_clusters(schedule(members, policy, build_bound("a"), index=1)) == ["b"]

    def test_health_of_bound_cluster_is_ignored(self) -> None:
        members = [member("a", taints=["t"], health=Health.UNHEALTHY), member("b")]
        assert list_held_clusters(schedule(members, build_pick_n(1), build_bound("a"))) == ["a"]

    @pytest.mark.parametrize(
        "members", [fleet("b"), [member("a", health=Health.LEAVING), member("b")]]
    )
    def test_dangling_bindings_are_replaced(self, members: list) -> None:
        result = schedule(members, build_pick_n(1), build_bound("a"))
        assert [(b.cluster, b.state) for b in result.bindings] == [
            ("a", UNSCHEDULED),
            ("b", SCHEDULED),
        ]
        assert result.changes[0] == BindingChange(
            "a", BindingAction.UNSCHEDULED, ChangeCause.CLUSTER_LEFT
        )

    def test_evicted_binding_is_dropped_and_may_be_picked_again(self) -> None:
        evicted = replace(build_bound("b")[0], is_deleting=True)
        result = schedule(fleet("a", "b"), build_pick_n(1), [evicted])
        assert result.bindings == (Binding("b", SCHEDULED, 0, 0, 0),)
        assert [c.action for c in result.changes] == [BindingAction.DROPPED, BindingAction.CREATED]

    def test_idle_placement_updates_status_of_selected_clusters_only(self) -> None:
        result = schedule(fleet("a", "b"), build_pick_n(1), build_bound("a"))
        assert result.changes == ()
        assert list(get_reasons(result)) == ["a"]


class TestClusterAffinity:
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
    def test_missing_property_fails_every_operator(
        self, operator: str, value: str, expected: list[str]
    ) -> None:
        members = [
            member("a", nodes="3"),
            member("b", nodes="5"),
            member("c", nodes="7"),
            member("d"),
        ]
        assert (
            list_held_clusters(
                schedule(
                    members,
                    Policy(ALL, required_terms=(build_property_term(NODES, operator, value),)),
                )
            )
            == expected
        )

    def test_terms_are_ored_and_their_parts_are_anded(self) -> None:
        members = [
            member("a", {"region": "east"}, nodes="9"),
            member("b", {"region": "east"}, nodes="3"),
            member("c", {"region": "west"}, nodes="9"),
            member("d", {"env": "prod"}),
        ]
        both = ClusterSelectorTerm(
            build_label_selector({"region": "east"}), (PropertyRequirement(NODES, "Ge", ("5",)),)
        )
        assert list_held_clusters(
            schedule(members, Policy(ALL, required_terms=(both, build_labels_term(env="prod"))))
        ) == ["a", "d"]

    @pytest.mark.parametrize(
        "required",
        [None, (), (ClusterSelectorTerm(),), (ClusterSelectorTerm(build_label_selector()),)],
    )
    def test_empty_requirements_match_all(self, required: tuple | None) -> None:
        assert list_held_clusters(
            schedule(fleet("a", "b"), Policy(ALL, required_terms=required))
        ) == ["a", "b"]

    @pytest.mark.parametrize("value", ["many", ""])
    def test_unreadable_value_stops_the_whole_placement(self, value: str) -> None:
        members = [member("a", nodes="9"), member("b", nodes=value)]
        result = schedule(
            members, Policy(ALL, required_terms=(build_property_term(NODES, "Ge", "5"),))
        )
        assert result.bindings == ()
        assert result.status is None
        assert result.abort is not None
        assert result.abort.cluster == "b"

    def test_labels_are_checked_before_properties(self) -> None:
        members = [
            member("a", {"env": "prod"}, nodes="9"),
            member("b", {"env": "test"}, nodes="many"),
        ]
        term = ClusterSelectorTerm(
            build_label_selector({"env": "prod"}), (PropertyRequirement(NODES, "Ge", ("5",)),)
        )
        assert list_held_clusters(schedule(members, Policy(ALL, required_terms=(term,)))) == ["a"]

    @pytest.mark.parametrize(
        "name",
        ["total-ephemeral-storage", "cpu", "spare-cpu", "total-", "-cpu", "total-nvidia.com/gpu-x"],
    )
    def test_unsupported_resource_names_stop_the_cycle(self, name: str) -> None:
        term = build_property_term(f"resources.kubernetes-fleet.io/{name}", "Ge", "1")
        assert schedule(fleet("a"), Policy(ALL, required_terms=(term,))).abort is not None

    def test_old_node_count_property_is_missing(self) -> None:
        members = [member("a", nodes="9")]
        term = build_property_term("kubernetes.azure.com/node-count", "Ge", "1")
        assert list_held_clusters(schedule(members, Policy(ALL, required_terms=(term,)))) == []


class TestOtherFilters:
    @pytest.mark.parametrize(
        ("health", "reason"),
        [
            (Health.LEAVING, "cluster has left the fleet"),
            (Health.NO_AGENT, "cluster is not connected to the fleet: member agent not online yet"),
            (
                Health.NO_HEARTBEAT,
                "cluster is not connected to the fleet: no recent heartbeat signals",
            ),
            (
                Health.NOT_JOINED,
                "cluster is not connected to the fleet: member agent not joined yet",
            ),
            (Health.NO_HEALTH, "health condition from member agent is not available"),
            (Health.UNHEALTHY, "unhealthy for a prolonged period of time"),
        ],
    )
    def test_eligibility(self, health: Health, reason: str) -> None:
        result = schedule([member("a", health=health)], build_pick_n(1))
        assert reason in get_reasons(result)["a"]

    def test_recent_unhealthiness_is_tolerated(self) -> None:
        assert list_held_clusters(
            schedule([member("a", health=Health.RECENTLY_UNHEALTHY)], build_pick_n(1))
        ) == ["a"]

    def test_taints(self) -> None:
        result = schedule(
            [member("a", taints=["x", "y"])],
            build_pick_n(1, tolerations=(Toleration("x", "Exists"),)),
        )
        assert get_reasons(result)["a"] == (
            "ClusterUnschedulable, taint &{Key:y Value: Effect:NoSchedule} cannot be tolerated"
        )

    @pytest.mark.parametrize(
        "toleration", [Toleration("x", ""), Toleration("x", "Exists", effect="NoExecute")]
    )
    def test_other_operator_or_effect_tolerates_nothing(self, toleration: Toleration) -> None:
        policy = build_pick_n(1, tolerations=(toleration,))
        assert list_held_clusters(schedule([member("a", taints=["x"])], policy)) == []

    def test_namespaces(self) -> None:
        members = [
            member("a", namespaces=["web"]),
            member("b", namespaces=["other"]),
            member("c", namespaces=[]),
            member("d"),
        ]
        result = schedule(members, Policy(), namespace="web")
        assert list_held_clusters(result) == ["a", "d"]
        assert (
            get_reasons(result)["b"]
            == "ClusterUnschedulable, target namespace does not exist on cluster"
        )
        assert (
            get_reasons(result)["c"]
            == "ClusterUnschedulable, cluster has no namespace information available"
        )
        assert list_held_clusters(schedule(members, Policy())) == ["a", "b", "c", "d"]

    def test_only_first_rejection_is_reported(self) -> None:
        everything = member("a", taints=["x"], health=Health.UNHEALTHY, namespaces=["other"])
        term = build_labels_term(env="prod")
        matching = replace(everything, labels={"env": "prod"})
        healthy = replace(matching, health=Health.HEALTHY)
        there = replace(healthy, namespaces=frozenset({"web"}))
        texts = [
            get_reasons(
                schedule([fixed], build_pick_n(1, required_terms=(term,)), namespace="web")
            )["a"]
            for fixed in (everything, matching, healthy, there)
        ]
        expected = ("affinity", "unhealthy", "namespace", "taint")
        assert all(part in text for part, text in zip(expected, texts, strict=True))

    def test_at_most_twenty_unselected_clusters_are_listed(self) -> None:
        names = [f"m{i:02d}" for i in range(40)]
        result = schedule(fleet(*names), build_pick_n(5))
        assert result.status is not None
        assert len(result.status.unselected_decisions) == 20
        assert result.status.unselected_decisions[0].cluster == "m34"

    def test_outscored_and_rejected_clusters_share_limit_of_twenty(self) -> None:
        refused = [member(f"m{i:02d}", taints=["x"]) for i in range(10)]
        result = schedule([*refused, *fleet(*(f"n{i:02d}" for i in range(17)))], build_pick_n(2))
        assert result.status is not None
        clusters = [d.cluster for d in result.status.unselected_decisions]
        assert clusters == [f"n{i:02d}" for i in reversed(range(15))] + [
            f"m{i:02d}" for i in range(5)
        ]

    def test_rejected_bound_cluster_counts_toward_the_limit(self) -> None:
        names = [f"m{i:02d}" for i in range(25)]
        members = [member(name, taints=["x"]) for name in names]
        result = schedule(members, build_pick_n(2), build_bound("m00"))
        assert result.status is not None
        assert [d.cluster for d in result.status.unselected_decisions] == names[1:20]


def build_spread(
    key: str, skew: int = 1, action: str = "DoNotSchedule"
) -> TopologySpreadConstraint:
    return TopologySpreadConstraint(key, skew, action)


class TestTopologySpread:
    def test_first_pick_scores_minus_one_per_constraint(self) -> None:
        members = [member(f"m{i}", {"region": f"r{i % 2}", "day": "d1"}) for i in range(4)]
        result = run_scheduling_cycles(
            (),
            MemberList(members),
            build_pick_n(1, spread_constraints=(build_spread("region"), build_spread("day"))),
            build_snapshot(build_pick_n(1)),
        )
        assert [b.topology_spread_score for b in result.bindings] == [-2]

    def test_each_cycle_picks_one_cluster(self) -> None:
        members = [member(f"m{i}", {"region": f"r{i % 3}"}) for i in range(9)]
        policy = build_pick_n(3, spread_constraints=(build_spread("region"),))
        first = run_scheduling_cycles(
            (), MemberList(members), policy, build_snapshot(policy), is_single=True
        )
        assert first.needs_requeue
        assert first.status is None
        assert len(first.bindings) == 1
        result = schedule(members, policy)
        assert result.cycles == 3
        assert {members[int(name[1])].labels["region"] for name in list_held_clusters(result)} == {
            "r0",
            "r1",
            "r2",
        }
        assert [
            b.topology_spread_score
            for b in sorted(result.bindings, key=lambda b: -int(b.cluster[1]))
        ] == [-1, 0, 1]

    def test_spread_outranks_affinity(self) -> None:
        members = [
            member("a1", {"region": "a"}, nodes="100"),
            member("a2", {"region": "a"}, nodes="99"),
            member("b1", {"region": "b"}, nodes="1"),
        ]
        policy = build_pick_n(
            2,
            spread_constraints=(build_spread("region", 5, "ScheduleAnyway"),),
            preferred_terms=(build_sorter(NODES, "Descending"),),
        )
        assert list_held_clusters(schedule(members, policy)) == ["a1", "b1"]

    def test_hard_constraint_rejects_with_reason(self) -> None:
        members = [
            member("a1", {"region": "a"}),
            member("a2", {"region": "a"}),
            member("b1", {"region": "b"}, taints=["x"]),
        ]
        result = schedule(members, build_pick_n(2, spread_constraints=(build_spread("region"),)))
        assert list_held_clusters(result) == ["a2"]
        assert get_reasons(result)["a1"] == (
            'ClusterUnschedulable, violated doNotSchedule topology spread constraint "region" '
            "(max skew 1)"
        )

    def test_soft_constraint_costs_a_thousand(self) -> None:
        members = [
            member("a1", {"day": "1"}),
            member("a2", {"day": "1"}),
            member("b1", {"day": "2"}, taints=["x"]),
        ]
        result = schedule(
            members, build_pick_n(2, spread_constraints=(build_spread("day", 1, "ScheduleAnyway"),))
        )
        assert {b.cluster: b.topology_spread_score for b in result.bindings} == {
            "a1": -1000,
            "a2": -1,
        }

    def test_domains_include_ineligible_clusters(self) -> None:
        members = [member("a1", {"region": "a"}), member("a2", {"region": "a"})]
        dead = member("b1", {"region": "b"}, health=Health.NO_AGENT)
        policy = build_pick_n(2, spread_constraints=(build_spread("region"),))
        assert list_held_clusters(schedule(members, policy)) == ["a1", "a2"]
        assert list_held_clusters(schedule([*members, dead], policy)) == ["a2"]

    def test_existing_excess_skew_rejects_all_clusters(self) -> None:
        members = [member(f"a{i}", {"region": "a"}) for i in range(4)]
        empty = [member("b1", {"region": "b"}), member("c1", {"region": "c"})]
        result = schedule(
            [*members, *empty],
            build_pick_n(5, spread_constraints=(build_spread("region"),)),
            build_bound("a0", "a1", "a2"),
        )
        assert list_held_clusters(result) == ["a0", "a1", "a2"]

    def test_clusters_without_the_label_are_not_counted(self) -> None:
        members = [member("a1", {"region": "a"}), member("plain"), member("simple")]
        result = schedule(members, build_pick_n(3, spread_constraints=(build_spread("region"),)))
        assert {b.cluster: b.topology_spread_score for b in result.bindings} == {
            "a1": -1,
            "plain": 0,
            "simple": 0,
        }

    def test_policy_change_drops_obsolete_bindings_in_first_batch(self) -> None:
        members = [member(f"m{i}", {"region": f"r{i}"}) for i in range(4)]
        policy = build_pick_n(2, spread_constraints=(build_spread("region"),))
        first = run_scheduling_cycles(
            build_bound("m0", "m1"),
            MemberList(members),
            policy,
            build_snapshot(policy, 1),
            is_single=True,
        )
        assert [(b.cluster, b.state) for b in first.bindings] == [
            ("m0", UNSCHEDULED),
            ("m1", BOUND),
        ]
        result = schedule(members, policy, build_bound("m0", "m1"), index=1)
        assert [(b.cluster, b.state) for b in result.bindings] == [
            ("m0", UNSCHEDULED),
            ("m1", BOUND),
            ("m3", SCHEDULED),
        ]

    def test_spread_by_region_and_update_day(self) -> None:
        members = [
            member(f"m{i}", {"region": ("east", "west", "north")[i % 3], "updateDay": str(i % 2)})
            for i in range(12)
        ]
        policy = build_pick_n(
            6,
            spread_constraints=(
                build_spread("region", 2),
                build_spread("updateDay", 2, "ScheduleAnyway"),
            ),
        )
        chosen = list_held_clusters(schedule(members, policy))
        counts = {
            key: sorted(
                sum(members[int(name[1:])].labels[key] == value for name in chosen)
                for value in {m.labels[key] for m in members}
            )
            for key in ("region", "updateDay")
        }
        assert counts == {"region": [2, 2, 2], "updateDay": [3, 3]}


class TestAffinityScores:
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
        result = schedule(
            members, build_pick_n(3, preferred_terms=(build_sorter(NODES, order, weight),))
        )
        assert get_scores(result) == dict(zip("abc", expected, strict=True))

    def test_extremes_are_taken_from_the_whole_fleet(self) -> None:
        members = [
            member("a", nodes="1", health=Health.UNHEALTHY),
            member("b", nodes="2"),
            member("c", nodes="2"),
            member("d", nodes="8"),
        ]
        result = schedule(
            members, build_pick_n(2, preferred_terms=(build_sorter(NODES, "Ascending"),))
        )
        assert list_held_clusters(result) == ["b", "c"]
        assert get_scores(result)["b"] == 86

    def test_terms_are_added_after_rounding(self) -> None:
        members = [member("a", nodes="3"), member("b", nodes="2"), member("c", nodes="1")]
        two = (build_sorter(NODES, "Descending", 1), build_sorter(NODES, "Descending", 1))
        assert get_scores(schedule(members, build_pick_n(3, preferred_terms=two)))["b"] == 2

    def test_equal_extremes_in_two_notations_stop_the_cycle(self) -> None:
        members = [member("a", cost="300m"), member("b", cost="0.3"), member("c", cost="0.1")]
        policy = build_pick_n(
            1,
            preferred_terms=(build_sorter("kubernetes.azure.com/per-cpu-core-cost", "Descending"),),
        )
        result = schedule(members, policy)
        assert result.abort is not None
        assert "cannot interpolate weight" in result.abort.message

    def test_unreadable_value_on_any_cluster_stops_a_sorter(self) -> None:
        members = [member("a", nodes="3"), member("b", nodes="x", health=Health.UNHEALTHY)]
        zero_weight = build_pick_n(1, preferred_terms=(build_sorter(NODES, "Descending", 0),))
        assert schedule(members, zero_weight).abort is not None
