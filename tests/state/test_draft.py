"""Tests of journals applied to a state."""

from nexusform.resources.address import parse_address
from nexusform.schemas.value_types import STRING
from nexusform.state.journal import ApplyEnd, ApplyStart, InstanceMoves, InstanceOutcome, Intent
from nexusform.state.objects import InstanceState, ObjectState, OutputState, State
from nexusform.state.state_draft import MAX_APPLIED_PLANS, StateDraft
from tests.state.journal_replay import apply_journal_records

A, B, C = (parse_address(f"t.{name}") for name in "abc")


def build_instance(creation: int, **attributes: object) -> InstanceState:
    return InstanceState(ObjectState(attributes, creation))


BASE = State("l", 1, "0.1", "c1", {A: build_instance(1), B: build_instance(2)}, last_creation=2)


def test_outcomes_are_applied_and_open_intents_are_returned() -> None:
    planned = ObjectState({"id": "c"}, 3)
    lost = Intent(B, "delete", "t", "b", 2)
    state, open_intents = apply_journal_records(
        BASE,
        [
            ApplyStart("l", 2, "0.2", "c2", "digest"),
            Intent(C, "create", "t", "c", 3, planned),
            lost,
            InstanceOutcome(C, 3, InstanceState(planned)),
        ],
    )
    assert state.instances == {
        A: build_instance(1),
        B: build_instance(2),
        C: InstanceState(planned),
    }
    assert (state.serial, state.nexusform_version, state.catalogue) == (2, "0.2", "c2")
    assert state.applied_plans == ("digest",)
    assert state.last_creation == 3
    assert [(o.intent, o.prior) for o in open_intents] == [(lost, build_instance(2))]


def test_failed_step_closes_its_intent() -> None:
    _, open_intents = apply_journal_records(
        BASE, [Intent(A, "update", "t", "a", 1), InstanceOutcome(A, 1, build_instance(1), "no")]
    )
    assert open_intents == []


def test_old_and_new_object_of_one_address_have_separate_intents() -> None:
    create = Intent(A, "create", "t", "a", 3)
    delete = Intent(A, "delete", "t", "a", 1)
    _, open_intents = apply_journal_records(
        BASE, [create, delete, InstanceOutcome(A, 1, build_instance(1))]
    )
    assert [o.intent for o in open_intents] == [create]


def test_deleted_instances_are_removed_from_state() -> None:
    assert set(apply_journal_records(BASE, [InstanceOutcome(A, 1, None)])[0].instances) == {B}
    assert set(
        apply_journal_records(BASE, [InstanceOutcome(A, 1, InstanceState(None))])[0].instances
    ) == {B}


def test_addresses_can_be_swapped_and_chained() -> None:
    state, _ = apply_journal_records(BASE, [InstanceMoves(((A, B), (B, A)))])
    assert state.instances == {B: build_instance(1), A: build_instance(2)}
    state, _ = apply_journal_records(BASE, [InstanceMoves(((A, B), (B, C)))])
    assert state.instances == {B: build_instance(1), C: build_instance(2)}


def test_move_of_missing_instance_does_nothing() -> None:
    assert apply_journal_records(BASE, [InstanceMoves(((C, A),))])[0] == BASE


def test_creation_number_of_an_intent_is_never_reused() -> None:
    assert apply_journal_records(BASE, [Intent(C, "create", "t", "c", 9)])[0].last_creation == 9
    deposed = InstanceState(None, {"00000000": ObjectState({}, 8)})
    assert apply_journal_records(BASE, [InstanceOutcome(C, 8, deposed)])[0].last_creation == 8


def test_end_record_sets_outputs_and_checks() -> None:
    outputs = {"o": OutputState("v", STRING)}
    state, _ = apply_journal_records(BASE, [ApplyEnd(outputs, ({"kind": "check"},))])
    assert state.outputs == outputs
    assert state.check_results == ({"kind": "check"},)


def test_replaying_twice_changes_nothing() -> None:
    records = [
        ApplyStart("l", 2, plan_digest="d"),
        InstanceOutcome(C, 3, build_instance(3)),
        InstanceOutcome(A, 1, None),
        ApplyEnd(),
    ]
    once, _ = apply_journal_records(BASE, records)
    assert apply_journal_records(once, records)[0] == once


def test_only_the_last_digests_are_kept() -> None:
    draft = StateDraft(BASE)
    for number in range(MAX_APPLIED_PLANS + 5):
        draft.apply_record(ApplyStart("l", number, plan_digest=f"d{number}"))
    plans = draft.build_state().applied_plans
    assert len(plans) == MAX_APPLIED_PLANS
    assert plans[-1] == f"d{MAX_APPLIED_PLANS + 4}"


def test_built_state_does_not_change_later() -> None:
    draft = StateDraft(BASE)
    before = draft.build_state()
    draft.apply_record(InstanceOutcome(A, 1, None))
    assert A in before.instances
    assert draft.get_instance(A) is None
