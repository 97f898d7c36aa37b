from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from nexusform.diagnostics.diagnostic import DiagnosticsError
from nexusform.domains.whatif.questions.fleet_edits import (
    MemberEditKind,
    MemberEdits,
    build_plan_edits,
    parse_member_edits,
)
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.planning.edits import AddedBlocks
from nexusform.planning.hypothesis.hypothetical_plan import plan_hypothesis
from nexusform.planning.plan_request import ArgumentAdjustment
from nexusform.state.objects import State
from tests.domains.fleet.planning.fleet_harness import (
    build_hub,
    build_member,
    build_node_count,
    build_pick_n,
    build_placement,
)
from tests.domains.whatif.questions.random_fleets import MEMBER_EDITS, find_fleet_difference
from tests.planning.harness import build_request, build_state_after, list_rows, plan

FLEET = build_hub() + "".join(
    build_member(n, {"ring": n[-1]}, build_node_count(n[-1])) for n in ("c1", "c2", "c3", "c4")
)
TWO = build_placement(build_pick_n(2))


@pytest.fixture(scope="module")
def two_of_four() -> State:
    return build_state_after(plan(FLEET + TWO))


def build_edits(text: str, state: State, flags: Mapping[str, Sequence[str]]) -> MemberEdits:
    texts = {verb: flags.get(verb.value, ()) for verb in MemberEditKind}
    return build_plan_edits(plan(text, state).plan, parse_member_edits(texts))


def plan_edits(text: str, state: State, **flags: str | Sequence[str]) -> PlanResult:
    """Return the hypothetical plan with these flags of `simulate fleet`."""
    texts = {verb: [value] if isinstance(value, str) else value for verb, value in flags.items()}
    changes = build_edits(text, state, texts)
    added = (AddedBlocks(build_request(text + changes.blocks).configuration),)
    return plan_hypothesis(build_request(text, state), (*added, *changes.edits)).after


def list_moves(result: PlanResult) -> dict[str, str]:
    """Return the action of each binding with a changed one."""
    return {
        name: str(row.action) for name, row in list_rows(result).items() if row.action != "keep"
    }


def test_placement_moves_if_member_leaves(two_of_four: State) -> None:
    result = plan_edits(FLEET + TWO, two_of_four, leave="c4")
    assert list_moves(result) == {"c4": "remove", "c2": "place"}
    assert [item.id for item in result.plan.diagnostics] == ["member-leaves-objects"]


@pytest.mark.parametrize("key", ["", "c4"])
def test_plan_is_that_of_a_configuration_without_the_member(key: str) -> None:
    """A reference to the member is an error, as if its block were removed."""
    repetition = f'for_each = toset(["{key}"])\nname = each.key' if key else ""
    others = build_hub() + build_member("c1") + TWO
    text = others + build_member("c4", more=repetition)
    state = build_state_after(plan(text))
    result = plan_edits(text, state, leave="c4")
    assert list_moves(result) == list_moves(plan(others, state))
    assert "c4" in list_moves(result)
    index = f'["{key}"]' if key else ""
    output = f'output "o" {{\n  value = fleet_member_cluster.c4{index}.name\n}}\n'
    errors = plan_edits(text + output, state, leave="c4").plan
    assert errors.errored
    assert any("c4" in problem.detail for problem in errors.diagnostics)


def test_placement_falls_short_if_too_many_members_leave(two_of_four: State) -> None:
    result = plan_edits(FLEET + TWO, two_of_four, leave=("c4", "c3", "c2"))
    assert "unfulfilled-placement" in {problem.id for problem in result.plan.diagnostics}


def test_edits_of_one_member_are_combined(two_of_four: State) -> None:
    flags = {
        "label": ["c4:a=b", "c4:ring-"],
        "taint": ["c4:x=y", "c4:z"],
        "drain": ["c4"],
        "health": ["c4:Unhealthy"],
        "property": ["c4:kubernetes-fleet.io/node-count=9"],
    }
    changes = build_edits(FLEET + TWO, two_of_four, flags)
    values = {
        edit.path[0]: edit.value for edit in changes.edits if isinstance(edit, ArgumentAdjustment)
    }
    assert values["labels"] == {"a": "b"}
    assert [taint["key"] for taint in values["taint"]] == ["cordon-key", "x", "z"]
    assert values["health"] == "Unhealthy"
    assert values["properties"] == {"kubernetes-fleet.io/node-count": "9"}
    assert changes.drained == ("c4",)


def test_members_join_as_new_or_copied_ones() -> None:
    by_ring = """
      placement_type = "PickAll"
      affinity {
        cluster_affinity {
          required_during_scheduling_ignored_during_execution {
            cluster_selector_term {
              label_selector {
                match_labels = { ring = "4" }
              }
            }
          }
        }
      }
    """
    more = 'properties = { text = "$${x}" }\ntaint {\n  key = "odd"\n}'
    text = FLEET + build_member("c6", {"ring": "6"}, more) + build_placement(by_ring)
    state = build_state_after(plan(text))
    assert not list_moves(plan_edits(text, state, join="c5"))
    assert list_moves(plan_edits(text, state, join="c5", label="c5:ring=4")) == {"c5": "place"}
    assert list_moves(plan_edits(text, state, join="c5=c4")) == {"c5": "place"}
    assert not list_moves(plan_edits(text, state, join="c5=c6", label="c5:ring=4"))
    fixed = plan_edits(text, state, join="c5=c6", label="c5:ring=4", taint="c5:odd-")
    assert list_moves(fixed) == {"c5": "place"}
    [joined] = [change.after for change in fixed.plan.changes if change.action == "create"]
    assert joined is not None
    assert joined["properties"] == {"text": "${x}"}


def test_member_with_nodes_is_not_copied() -> None:
    text = build_member("c1", more='kubernetes_cluster_id = "s/a"')
    changes = parse_member_edits({MemberEditKind.JOIN: ["c2=c1"]})
    request = plan(text.replace('"s/a"', '""'))
    [member] = request.plan.changes
    assert member.after is not None
    member.after["kubernetes_cluster_id"] = "s/a"  # type: ignore[index]
    with pytest.raises(DiagnosticsError, match="c1 has nodes"):
        build_plan_edits(request.plan, changes)


@pytest.mark.parametrize(
    ("flag", "text", "reason"),
    [
        ("leave", "c44", 'There is no member "c44". Did you mean "c4"?'),
        ("label", "c4", "Write -label=MEMBER:KEY=VALUE"),
        ("label", "c4:no-", 'c4 has no label "no". It has: '),
        ("taint", "c4:no-", 'c4 has no taint "no". It has no taint.'),
        ("property", "c4:no-", 'c4 has no property "no"'),
        ("health", "c4", "-health=c4 is not a valid change."),
        ("taint", "c4:k=v:NoExecute", "Write -taint=MEMBER:KEY[=VALUE][:NoSchedule]"),
        ("taint", "c4::NoSchedule-", "-taint=c4::NoSchedule- is not a valid change."),
        ("taint", "c4:k:NoExecute-", "-taint=c4:k:NoExecute- is not a valid change."),
        ("label", "c4:-", "-label=c4:- is not a valid change."),
        ("health", "c4:Ill", "RecentlyUnhealthy"),
        ("join", "c4", "c4 is already a member"),
    ],
)
def test_errors_are_reported(two_of_four: State, flag: str, text: str, reason: str) -> None:
    with pytest.raises(DiagnosticsError) as rejection:
        build_edits(FLEET + TWO, two_of_four, {flag: [text]})
    [problem] = rejection.value.diagnostics
    assert reason in problem.detail


def test_all_errors_are_reported_at_once(two_of_four: State) -> None:
    flags = {"leave": ["c44"], "drain": ["c33", "c4"], "label": ["c4:no-"]}
    with pytest.raises(DiagnosticsError) as rejection:
        build_edits(FLEET + TWO, two_of_four, flags)
    assert len(rejection.value.diagnostics) == 3


@pytest.mark.parametrize("flags", [{"leave": ["c4", "c4"]}, {"leave": ["c4"], "drain": ["c4"]}])
def test_further_edits_of_leaving_member_are_rejected(
    two_of_four: State, flags: Mapping[str, Sequence[str]]
) -> None:
    with pytest.raises(DiagnosticsError, match="c4 already leaves the fleet"):
        build_edits(FLEET + TWO, two_of_four, flags)


def test_edits_are_those_of_a_written_fleet() -> None:
    """Twin: `.ci/nightly` compares 300 fleets."""
    assert set(MEMBER_EDITS) == set(MemberEditKind)
    differences = [find_fleet_difference(seed) for seed in range(21)]
    assert not [difference for difference in differences if difference]
