from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from nexusform.applying.apply_recorder import ApplyRecorder, recover_step_outcomes
from nexusform.applying.provider_calls import build_call, compute_deposed_key
from nexusform.interfaces.plugins import ObjectKey, ProviderProblem
from nexusform.plans.plan import Action, Change, StepKind
from nexusform.providers.simulated import SimulatedProvider, make_provider
from nexusform.state.journal import NO_STEP, InstanceOutcome, parse_journal
from nexusform.state.objects import InstanceState, ObjectState, State
from tests.applying.plans import (
    JournalLines,
    build_address,
    build_attributes,
    build_change,
    build_step,
)
from tests.state.journal_replay import apply_journal_records


def build_provider(directory: Path) -> SimulatedProvider:
    return make_provider({"reality": "site.json"}, str(directory), ExitStack())


def record_interrupted_step(
    state: State, kind: StepKind, of: Change, provider: Any
) -> tuple[State, list[Any], Any]:
    """Return the state, the open steps and the call of a killed run.

    It was killed after it recorded the intent of a step.
    """
    lines = JournalLines()
    recorder = ApplyRecorder(lines, state)  # type: ignore[arg-type]
    call = build_call(build_step(0, kind, 0, of), of, provider)
    recorder.record_intent(call)
    recorder.flush()
    records, _ = parse_journal(lines.written)
    replayed, opened = apply_journal_records(state, records)
    return replayed, opened, call


def recover_state(state: State, opened: list[Any], provider: Any) -> State:
    return apply_journal_records(state, recover_step_outcomes(opened, {"simulated": provider}))[0]


def build_existing_state(**more: Any) -> State:
    known = ObjectState(build_attributes("r0", **more), creation=1, dependencies=("nexus_site.s",))
    return State(
        lineage="l",
        serial=1,
        instances={build_address("r0"): InstanceState(known)},
        last_creation=1,
    )


@pytest.mark.parametrize("took_effect", [False, True])
def test_create_is_recorded_only_if_it_took_effect(tmp_path: Path, took_effect: bool) -> None:
    provider = build_provider(tmp_path)
    wanted = build_change(
        "r0", Action.CREATE, 1, dependencies=("nexus_site.s",), sensitive_after=(("size",),)
    )
    state, opened, call = record_interrupted_step(State(), StepKind.CREATE, wanted, provider)
    if took_effect:
        provider.create(_build_request(call))
    after = recover_state(state, opened, provider)
    assert list(after.instances) == ([build_address("r0")] if took_effect else [])
    if took_effect:
        made = after.instances[build_address("r0")].current
        assert made is not None
        assert (made.attributes["size"], made.dependencies, made.sensitive, made.tainted) == (
            2,
            ("nexus_site.s",),
            (("size",),),
            False,
        )


def test_creation_number_of_open_create_is_not_reused(tmp_path: Path) -> None:
    state, opened, _ = record_interrupted_step(
        State(), StepKind.CREATE, build_change("r0", Action.CREATE, 7), build_provider(tmp_path)
    )
    assert recover_state(state, opened, build_provider(tmp_path)).last_creation == 7


@pytest.mark.parametrize("took_effect", [False, True])
def test_delete_is_recorded_only_if_it_took_effect(tmp_path: Path, took_effect: bool) -> None:
    provider = build_provider(tmp_path)
    existing = build_attributes("r0", size=2)
    doomed = build_change("r0", Action.DELETE, 0, 1, before=existing)
    provider.create(
        _build_request(
            build_call(
                build_step(0, StepKind.CREATE, 0, _build_create()), _build_create(), provider
            )
        )
    )
    state, opened, call = record_interrupted_step(
        build_existing_state(), StepKind.DELETE, doomed, provider
    )
    if took_effect:
        provider.delete(_build_request(call))
    after = recover_state(state, opened, provider)
    assert list(after.instances) == ([] if took_effect else [build_address("r0")])


def list_completed_steps(opened: list[Any], provider: Any) -> list[int]:
    outcomes = recover_step_outcomes(opened, {"simulated": provider})
    return [
        each.number
        for each in outcomes
        if isinstance(each, InstanceOutcome) and each.number != NO_STEP
    ]


def test_interrupted_delete_is_repeated_until_the_object_is_gone(tmp_path: Path) -> None:
    provider = build_provider(tmp_path)
    create = build_call(
        build_step(0, StepKind.CREATE, 0, _build_create()), _build_create(), provider
    )
    provider.create(_build_request(create))
    existing = build_attributes("r0", size=2)
    deletion = build_change("r0", Action.DELETE, 0, 1, before=existing)
    _, opened, call = record_interrupted_step(
        build_existing_state(), StepKind.DELETE, deletion, provider
    )
    assert list_completed_steps(opened, provider) == []
    provider.delete(_build_request(call))
    assert list_completed_steps(opened, provider) == [0]


def test_interrupted_update_of_an_object_that_is_gone_is_not_completed(tmp_path: Path) -> None:
    (tmp_path / "site.json").write_text("[]")
    provider = build_provider(tmp_path)
    update = replace(build_change("r0", Action.UPDATE, 1, 1), after=build_attributes("r0", size=5))
    _, opened, _ = record_interrupted_step(
        build_existing_state(size=2), StepKind.UPDATE, update, provider
    )
    assert list_completed_steps(opened, provider) == []


def test_update_is_recorded_as_observed(tmp_path: Path) -> None:
    provider = build_provider(tmp_path)
    provider.create(
        _build_request(
            build_call(
                build_step(0, StepKind.CREATE, 0, _build_create()), _build_create(), provider
            )
        )
    )
    wanted = replace(
        build_change("r0", Action.UPDATE, 1, 1),
        before=build_attributes("r0", size=2),
        after=build_attributes("r0", size=5),
    )
    state, opened, call = record_interrupted_step(
        build_existing_state(size=2), StepKind.UPDATE, wanted, provider
    )
    assert _get_size(recover_state(state, opened, provider)) == 2
    provider.update(_build_request(call))
    after = recover_state(state, opened, provider)
    assert _get_size(after) == 5
    current = after.instances[build_address("r0")].current
    assert current is not None
    assert current.dependencies == ("nexus_site.s",)


def test_create_before_destroy_keeps_old_object_deposed(tmp_path: Path) -> None:
    provider = build_provider(tmp_path)
    wanted = build_change("r0", Action.REPLACE_CREATE_FIRST, 2, 1)
    state, opened, call = record_interrupted_step(
        build_existing_state(), StepKind.CREATE, wanted, provider
    )
    provider.create(_build_request(call))
    instance = recover_state(state, opened, provider).instances[build_address("r0")]
    assert instance.current is not None
    assert instance.current.creation == 2
    assert [old.creation for old in instance.deposed.values()] == [1]


@pytest.mark.parametrize("took_effect", [False, True])
def test_interrupted_delete_of_deposed_object_keeps_current(
    tmp_path: Path, took_effect: bool
) -> None:
    provider = build_provider(tmp_path)
    existing = build_attributes("r0", size=2)
    replaced = build_change("r0", Action.REPLACE_CREATE_FIRST, 2, 1, before=existing)
    old = _build_create()
    new = build_change("r0", Action.CREATE, 2)
    provider.set_state_objects((), [("nexus_rack", "lab/r0")])
    for made in (old, new):
        provider.create(
            _build_request(build_call(build_step(0, StepKind.CREATE, 0, made), made, provider))
        )
    doomed = compute_deposed_key(ObjectKey("nexus_rack", "lab/r0", 1))
    both = InstanceState(
        ObjectState(build_attributes("r0", size=2), creation=2),
        {doomed: ObjectState(build_attributes("r0"), creation=1)},
    )
    before = replace(build_existing_state(), instances={build_address("r0"): both}, last_creation=2)
    state, opened, call = record_interrupted_step(before, StepKind.DELETE, replaced, provider)
    if took_effect:
        provider.delete(_build_request(call))
    instance = recover_state(state, opened, provider).instances[build_address("r0")]
    assert instance.current == both.current
    assert list(instance.deposed) == ([] if took_effect else [doomed])


def test_create_is_recovered_with_observed_attributes(tmp_path: Path) -> None:
    provider = build_provider(tmp_path)
    wanted = build_change("r0", Action.CREATE, 1)
    state, opened, call = record_interrupted_step(State(), StepKind.CREATE, wanted, provider)
    request = _build_request(call)
    provider.create(replace(request, planned=build_attributes("r0", size=7)))
    assert _get_size(recover_state(state, opened, provider)) == 7


def test_missing_replacement_is_not_confused_with_old_object() -> None:
    """A provider without a reality file answers from the state, so it returns the old object."""
    provider = SimulatedProvider()
    kept = build_existing_state(size=1)
    replaced = build_change("r0", Action.REPLACE_CREATE_FIRST, 2, 1)
    state, opened, _ = record_interrupted_step(kept, StepKind.CREATE, replaced, provider)
    assert recover_state(state, opened, provider).instances == kept.instances


def test_state_is_kept_without_a_reality_file() -> None:
    provider = SimulatedProvider()
    state, opened, call = record_interrupted_step(
        State(), StepKind.CREATE, build_change("r0", Action.CREATE, 1), provider
    )
    provider.create(_build_request(call))
    assert recover_state(state, opened, provider).instances == {}
    kept = build_existing_state()
    state, opened, _ = record_interrupted_step(
        kept, StepKind.DELETE, build_change("r0", Action.DELETE, 0, 1), provider
    )
    assert recover_state(state, opened, provider).instances == kept.instances


def test_missing_provider_is_reported(tmp_path: Path) -> None:
    _, opened, _ = record_interrupted_step(
        State(), StepKind.CREATE, build_change("r0", Action.CREATE, 1), build_provider(tmp_path)
    )
    with pytest.raises(ProviderProblem, match='no provider "simulated"'):
        recover_step_outcomes(opened, {})


def _build_create() -> Change:
    return build_change("r0", Action.CREATE, 1)


def _build_request(call: Any) -> Any:
    from nexusform.interfaces.plugins import ChangeRequest

    return ChangeRequest(call.key, str(call.change.address), call.step.prior, call.step.planned)


def _get_size(state: State) -> Any:
    current = state.instances[build_address("r0")].current
    assert current is not None
    return current.attributes["size"]
