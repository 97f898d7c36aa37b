from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from nexusform.applying.apply_recorder import ApplyRecorder
from nexusform.applying.interrupted_steps import recover_step_outcomes
from nexusform.applying.provider_calls import build_call, compute_deposed_key
from nexusform.interfaces.plugins import ObjectKey, ProviderProblem
from nexusform.plans.plan import Action, Change, StepKind
from nexusform.providers.simulated import SimulatedProvider, make_provider
from nexusform.state.journal import parse_journal
from nexusform.state.objects import InstanceState, ObjectState, State
from nexusform.state.state_draft import apply_journal_records
from tests.applying.plans import Lines, address, attributes, change, step


def site(directory: Path) -> SimulatedProvider:
    return make_provider({"reality": "site.json"}, str(directory), ExitStack())


def begun(state: State, kind: StepKind, of: Change, provider: Any) -> tuple[State, list[Any], Any]:
    """A run that wrote its intent and was killed; the state that its journal tells, and the call."""
    lines = Lines()
    recorder = ApplyRecorder(lines, state)  # type: ignore[arg-type]
    call = build_call(step(0, kind, 0, of), of, provider)
    recorder.record_intent(call)
    recorder.flush()
    records, _ = parse_journal(lines.written)
    replayed, opened = apply_journal_records(state, records)
    return replayed, opened, call


def settled(state: State, opened: list[Any], provider: Any) -> State:
    return apply_journal_records(state, recover_step_outcomes(opened, {"simulated": provider}))[0]


def standing(**more: Any) -> State:
    known = ObjectState(attributes("r0", **more), creation=1, dependencies=("nexus_site.s",))
    return State(lineage="l", serial=1, instances={address("r0"): InstanceState(known)}, last_creation=1)


@pytest.mark.parametrize("took_effect", [False, True])
def test_a_create_is_recorded_exactly_when_it_took_effect(tmp_path: Path, took_effect: bool) -> None:
    provider = site(tmp_path)
    wanted = change("r0", Action.CREATE, 1, dependencies=("nexus_site.s",), sensitive_after=(("size",),))
    state, opened, call = begun(State(), StepKind.CREATE, wanted, provider)
    if took_effect:
        provider.create(_request(call))
    after = settled(state, opened, provider)
    assert list(after.instances) == ([address("r0")] if took_effect else [])
    if took_effect:
        made = after.instances[address("r0")].current
        assert made is not None
        assert (made.attributes["size"], made.dependencies, made.sensitive, made.tainted) == (
            2,
            ("nexus_site.s",),
            (("size",),),
            False,
        )


def test_the_creation_number_of_an_open_create_is_not_given_again(tmp_path: Path) -> None:
    state, opened, _ = begun(State(), StepKind.CREATE, change("r0", Action.CREATE, 7), site(tmp_path))
    assert settled(state, opened, site(tmp_path)).last_creation == 7


@pytest.mark.parametrize("took_effect", [False, True])
def test_a_delete_is_recorded_exactly_when_it_took_effect(tmp_path: Path, took_effect: bool) -> None:
    provider = site(tmp_path)
    doomed = change("r0", Action.DELETE, 0, 1)
    provider.create(_request(build_call(step(0, StepKind.CREATE, 0, _made()), _made(), provider)))
    state, opened, call = begun(standing(), StepKind.DELETE, doomed, provider)
    if took_effect:
        provider.delete(_request(call))
    after = settled(state, opened, provider)
    assert list(after.instances) == ([] if took_effect else [address("r0")])


def test_an_update_is_recorded_as_it_stands(tmp_path: Path) -> None:
    provider = site(tmp_path)
    provider.create(_request(build_call(step(0, StepKind.CREATE, 0, _made()), _made(), provider)))
    wanted = replace(change("r0", Action.UPDATE, 1, 1), after=attributes("r0", size=5))
    state, opened, call = begun(standing(size=2), StepKind.UPDATE, wanted, provider)
    assert _size(settled(state, opened, provider)) == 2
    provider.update(_request(call))
    after = settled(state, opened, provider)
    assert _size(after) == 5
    current = after.instances[address("r0")].current
    assert current is not None
    assert current.dependencies == ("nexus_site.s",)


def test_a_create_before_destroy_keeps_the_old_one_deposed(tmp_path: Path) -> None:
    provider = site(tmp_path)
    wanted = change("r0", Action.REPLACE_CREATE_FIRST, 2, 1)
    state, opened, call = begun(standing(), StepKind.CREATE, wanted, provider)
    provider.create(_request(call))
    instance = settled(state, opened, provider).instances[address("r0")]
    assert instance.current is not None
    assert instance.current.creation == 2
    assert [old.creation for old in instance.deposed.values()] == [1]


@pytest.mark.parametrize("took_effect", [False, True])
def test_an_interrupted_delete_of_a_deposed_object_keeps_the_current_one(tmp_path: Path, took_effect: bool) -> None:
    provider = site(tmp_path)
    replaced = change("r0", Action.REPLACE_CREATE_FIRST, 2, 1)
    old, new = _made(), change("r0", Action.CREATE, 2)
    for made in (old, new):
        provider.create(_request(build_call(step(0, StepKind.CREATE, 0, made), made, provider)))
    doomed = compute_deposed_key(ObjectKey("nexus_rack", "lab/r0", 1))
    both = InstanceState(
        ObjectState(attributes("r0", size=2), creation=2), {doomed: ObjectState(attributes("r0"), creation=1)}
    )
    before = replace(standing(), instances={address("r0"): both}, last_creation=2)
    state, opened, call = begun(before, StepKind.DELETE, replaced, provider)
    if took_effect:
        provider.delete(_request(call))
    instance = settled(state, opened, provider).instances[address("r0")]
    assert instance.current == both.current
    assert list(instance.deposed) == ([] if took_effect else [doomed])


def test_a_create_is_settled_with_what_stands_and_not_with_what_was_planned(tmp_path: Path) -> None:
    provider = site(tmp_path)
    wanted = change("r0", Action.CREATE, 1)
    state, opened, call = begun(State(), StepKind.CREATE, wanted, provider)
    request = _request(call)
    provider.create(replace(request, planned=attributes("r0", size=7)))
    assert _size(settled(state, opened, provider)) == 7


def test_a_successor_that_was_not_made_is_not_taken_for_the_old_object() -> None:
    """A provider without a reality answers with what state remembers, which is another object."""
    provider = SimulatedProvider()
    kept = standing(size=1)
    replaced = change("r0", Action.REPLACE_CREATE_FIRST, 2, 1)
    state, opened, _ = begun(kept, StepKind.CREATE, replaced, provider)
    assert settled(state, opened, provider).instances == kept.instances


def test_without_a_reality_only_the_state_tells() -> None:
    provider = SimulatedProvider()
    state, opened, call = begun(State(), StepKind.CREATE, change("r0", Action.CREATE, 1), provider)
    provider.create(_request(call))
    assert settled(state, opened, provider).instances == {}
    kept = standing()
    state, opened, _ = begun(kept, StepKind.DELETE, change("r0", Action.DELETE, 0, 1), provider)
    assert settled(state, opened, provider).instances == kept.instances


def test_a_provider_that_is_gone_is_told_of(tmp_path: Path) -> None:
    _, opened, _ = begun(State(), StepKind.CREATE, change("r0", Action.CREATE, 1), site(tmp_path))
    with pytest.raises(ProviderProblem, match='no provider "simulated"'):
        recover_step_outcomes(opened, {})


def _made() -> Change:
    return change("r0", Action.CREATE, 1)


def _request(call: Any) -> Any:
    from nexusform.interfaces.plugins import ChangeRequest

    return ChangeRequest(call.key, str(call.change.address), call.step.prior, call.step.planned)


def _size(state: State) -> Any:
    current = state.instances[address("r0")].current
    assert current is not None
    return current.attributes["size"]
