"""Carry out a plan: record, execute, settle the outputs, save."""

from __future__ import annotations

import re
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.applying.agreement import Miss
from nexusform.applying.claims import (
    addresses_done,
    addresses_left_to_others,
    records_of_claims,
    settle_claims,
)
from nexusform.applying.events import Listener, Outcome
from nexusform.applying.executor import Applied, Options, execute
from nexusform.applying.recorder import Recorder, opening_records
from nexusform.applying.standing import provider_of
from nexusform.diagnostics import Diagnostic, error, has_errors, warning
from nexusform.forecasts import broken_sure
from nexusform.planning.planner import make_plan
from nexusform.planning.replanning.finalising import Following, Settled, finalised, settled
from nexusform.planning.request import PlanRequest
from nexusform.plans.plan import CheckResult, Plan, Step, StepKind
from nexusform.plans.saved import plan_file
from nexusform.ports import FollowsPlans
from nexusform.state import codec, journal
from nexusform.state.draft import Remaining, planned_records
from nexusform.state.journal import Begun, Finished, Planned, Record
from nexusform.state.objects import State
from nexusform.state_ports import BackendProblem, SealsDocuments
from nexusform.words import counted, first_of, form
from nexusform.workflow.opening.stored import Stored
from nexusform.workflow.opening.surroundings import write_output
from nexusform.workflow.plan_files.resuming import Rest
from nexusform.workflow.plan_files.saved_plans import with_confinement
from nexusform.workflow.runs.run import Run, base_request

RESCUE: Final = "errored.nfstate"
_HIDDEN: Final = "(sensitive value)"


class ApplyOptions(Struct, frozen=True):
    """How to apply; see applying.executor.Options. `plan_digest` is that of a saved plan."""

    parallelism: int = 10
    fail_fast: bool = False
    stopping: Callable[[], bool] = lambda: False
    plan_digest: str = ""
    waits_for_people: bool = False


class ApplyOutcome(Struct, frozen=True):
    """What came of it.

    `following` are outputs that came out otherwise because a prediction was missed. `sends` tells
    whether any provider of the plan sends to a site; `provider_names` are the short names of those that
    took part. `broken_sure`: what the plan told as certain and is not so.
    """

    applied: Applied
    diagnostics: tuple[Diagnostic, ...]
    imported: int = 0
    sends: bool = False
    provider_names: tuple[str, ...] = ()
    following: tuple[Miss, ...] = ()
    broken_sure: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether everything was done and saved."""
        return self.applied.complete and not has_errors(self.diagnostics)


def apply_plan(run: Run, plan: Plan, listener: Listener, options: ApplyOptions) -> ApplyOutcome:
    """Carry out a plan that was made of the run's state."""
    plan, problems = finalised(plan, _same_request(run, plan), make_plan)
    if problems:
        return ApplyOutcome(Applied(run.stored.state, ()), tuple(problems))
    recorder = Recorder(run.project.backend, run.stored.state)
    opening = opening_records(plan, run.stored.state, str(uuid.uuid4()), options.plan_digest)
    if len(opening) == 1 and not plan.steps and not plan.has_changes:
        # Nothing to write, so nothing is written, but under another key when the key was changed.
        return ApplyOutcome(Applied(run.stored.state, ()), tuple(_encrypted_anew(run)))
    # The plan goes first: a journal that is cut off must not say of it that it was applied.
    for record in (*_followed(run, plan, opening, options.plan_digest), *opening):
        recorder.note(record)
    replaced = [_planned_anew(run.stored.remaining, plan)] if run.stored.remaining else []
    outcome = _follow(run, plan, recorder, listener, options)
    return replace(outcome, diagnostics=(*replaced, *outcome.diagnostics))


def apply_rest(run: Run, rest: Rest, listener: Listener, options: ApplyOptions) -> ApplyOutcome:
    """Carry out the steps that an earlier apply left, as its plan has them."""
    recorder = Recorder(run.project.backend, run.stored.state, run.stored.remaining)
    state = run.stored.state
    if run.stored.remaining is not None and state.serial < run.stored.remaining.serial:
        # It ended between a checkpoint and the record of the serial that follows it.
        serial = run.stored.remaining.serial
        recorder.note(Begun(state.lineage, serial, state.nexusform_version, state.catalogue))
    # A run that was killed settled nothing of what it did.
    left = {step.id for step in rest.plan.steps}
    unsettled = [step for step in rest.saved.plan.steps if step.id not in left] if rest.killed else []
    return _follow(run, rest.plan, recorder, listener, options, unsettled)


def _followed(run: Run, plan: Plan, opening: Sequence[Record], plan_digest: str) -> list[Planned]:
    """The plan as the journal holds it while it is followed."""
    if not plan.steps:
        return []
    snapshot = {name: source.text for name, source in run.project.configuration.files.items()}
    document = plan_file.write(with_confinement(plan, run.project.place), snapshot)
    steps = sum(1 for step in plan.steps if step.kind is not StepKind.GATE)
    begun = next(record for record in opening if isinstance(record, Begun))
    return planned_records(document, steps, plan_digest, begun.lineage, begun.serial)


def _planned_anew(remaining: Remaining, plan: Plan) -> Diagnostic:
    partial = "; -target and -exclude left the rest out" if plan.targets or plan.excludes else ""
    left = counted(remaining.left, "step") if remaining.left else "nothing but its end"
    return warning(
        "earlier-steps-were-planned-anew",
        f"An earlier apply (serial {remaining.serial}) left {left} undone. This plan was made "
        "of what stands since and took the place of that one: what of it was still to do is among the steps "
        f"of this plan{partial}.",
    )


def _follow(
    run: Run,
    plan: Plan,
    recorder: Recorder,
    listener: Listener,
    options: ApplyOptions,
    unsettled: Sequence[Step] = (),
) -> ApplyOutcome:
    """Carry the plan out, settle what hangs on its results and what it claimed, and save the state. The
    claims on `unsettled` steps, which were done before, are settled as well.
    """
    for provider in run.providers.values():
        if isinstance(provider, FollowsPlans):
            provider.follow(plan.basis.answers)
    applied = execute(
        plan,
        recorder,
        run.providers,
        run.project.registries.resource_types,
        clock=run.clock,
        listener=listener,
        options=Options(options.parallelism, options.fail_fast, options.stopping, options.waits_for_people),
    )
    alarms = _settle_claims(run, plan, recorder, applied, unsettled)
    ending = _settled(run, plan, applied)
    checks = tuple(_check_document(check) for check in ending.checks)
    recorder.note(Finished(ending.outputs, checks))
    problems = [*ending.diagnostics, *_alarm(alarms), *_unfinished(applied)]
    problems += [_journal_problem(applied.problem)] if applied.problem else []
    state = recorder.state()
    problems += _save(run, recorder, state, complete=applied.complete)
    taking_part = {provider_of(plan.changes[step.change]) for step in plan.steps}
    return ApplyOutcome(
        applied=replace(applied, state=state),
        diagnostics=tuple(problems),
        imported=sum(1 for change in plan.changes if change.importing),
        sends=any(run.providers[name].sends for name in taking_part if name in run.providers),
        following=tuple(map(_output_miss, ending.following)),
        broken_sure=alarms,
        provider_names=tuple(sorted(name.split(".")[0] for name in taking_part)),
    )


def _settle_claims(
    run: Run, plan: Plan, recorder: Recorder, applied: Applied, unsettled: Sequence[Step]
) -> tuple[str, ...]:
    """Note with the sites what became of the plan's claims; what of it was told as certain and is not so."""
    state = recorder.state()
    done = addresses_done(applied.ends, plan, unsettled) | addresses_left_to_others(applied.ends)
    settlement = settle_claims(plan, done, state, run.project.registries.resource_types)
    for record in records_of_claims(settlement, state):
        recorder.note(record)
    return broken_sure(chain(applied.claims, *settlement.claims.values()))


def _alarm(alarms: Sequence[str]) -> list[Diagnostic]:
    """A warning where what the plan told as certain is not so."""
    if not alarms:
        return []
    return [
        warning(
            "sure-claims-broke",
            f"{first_of(alarms, _MOST_ALARMS, separator='; ')}. What decides there does not follow the rule "
            "by which this plan was made, or something else has changed in between: look at what stands "
            "before you rely on the next plan. The state has what was seen; nothing is marked for "
            "replacement.",
        )
    ]


_MOST_ALARMS: Final = 5


def _unfinished(applied: Applied) -> list[Diagnostic]:
    """An error for an apply that did not do all of its steps."""
    counts = Counter(end.outcome for end in applied.ends)
    if counts[Outcome.WAITING]:
        return [_waiting(counts)]
    failed, skipped = counts[Outcome.FAILED], counts[Outcome.SKIPPED]
    if applied.problem or not (failed or skipped):
        return []  # a journal that could not be written is told of by itself
    why = f"{counted(failed, 'step')} failed" if failed else "It was interrupted"
    left = f", {counted(skipped, 'step')} {form(skipped, 'was', 'were')} not begun" if skipped else ""
    by_others = sum(end.by_others for end in applied.ends)
    if by_others and by_others == failed:
        return [error("the-apply-did-not-finish", _for_others(by_others, left))]
    return [
        error(
            "the-apply-did-not-finish",
            f"{why}{left}. What was done is saved. `nexusform apply -resume` does the rest as it was "
            "planned; a new plan starts from what stands.",
        )
    ]


def _waiting(counts: Mapping[Outcome | None, int]) -> Diagnostic:
    """An error of its own for an apply that goes on later: nothing went wrong with the steps that wait."""
    waiting, failed = counts[Outcome.WAITING], counts[Outcome.FAILED]
    skipped = counts[Outcome.SKIPPED]
    others = f", {counted(failed, 'step')} failed" if failed else ""
    others += f", {counted(skipped, 'step')} {form(skipped, 'was', 'were')} not begun" if skipped else ""
    return error(
        "the-apply-waits",
        f"{counted(waiting, 'step')} {form(waiting, 'waits', 'wait')}{others}; it is said above for "
        "what. What was done is saved. `nexusform apply -resume` goes on from here.",
    )


def _for_others(count: int, left: str) -> str:
    """Steps that nexusform does not do itself: doing them again changes nothing before somebody did."""
    steps = f"{counted(count, 'step')} {form(count, 'waits', 'wait')}"
    return (
        f"{steps} for a site to which nexusform sends nothing{left}. Make the changes there, as told above "
        "for each, let the site be read anew (capture the export again), and run `nexusform apply`: a new "
        "plan takes over what it finds done."
    )


def _same_request(run: Run, plan: Plan) -> PlanRequest:
    """What the plan was made from, to make it once more with the clock answering."""
    return replace(
        base_request(run.project, run.stored),
        mode=plan.mode,
        targets=plan.targets,
        excludes=plan.excludes,
        replaces=plan.replaces,
        refreshed=plan.refreshed,
    )


def _settled(run: Run, plan: Plan, applied: Applied) -> Settled:
    """The outputs and conditions to remember. After a failure outputs stay as they were: they may refer to
    what was not done.
    """
    if not applied.complete:
        return Settled(run.stored.state.outputs, plan.checks)
    request = base_request(run.project, Stored(applied.state))
    missed = {_without_keys(miss.address) for miss in applied.misses}
    return settled(plan, request, run.stored.state.outputs, missed)


def _output_miss(output: Following) -> Miss:
    hidden = output.planned.sensitive or output.actual.sensitive
    shown = (_HIDDEN, _HIDDEN) if hidden else (output.planned.value, output.actual.value)
    return Miss("output", (output.name,), *shown)


def _without_keys(address: str) -> str:
    return re.sub(r'\["(?:[^"\\]++|\\.)*+"\]|\[[0-9]+\]', "", address)


def _check_document(check: CheckResult) -> dict[str, Any]:
    return {
        "address": {"kind": check.kind, "to_display": check.address},
        "status": check.status,
        "instances": [
            {
                "address": {"to_display": check.address},
                "status": check.status,
                "problems": [{"message": message} for message in check.problems],
            }
        ],
    }


def _journal_problem(words: str) -> Diagnostic:
    return error(
        "the-journal-cannot-be-written",
        f"{words} Steps that were running have ended; no further one was started.",
    )


def _save(run: Run, recorder: Recorder, state: State, *, complete: bool) -> list[Diagnostic]:
    """Flush and compact; when the backend refuses, the state goes to a file here.

    What a failed or interrupted apply left to do stays in the journal.
    """
    document = codec.encode(state)
    try:
        recorder.flush()
        remaining = None if complete else recorder.remaining()
        kept = [journal.encode(record) for record in (*recorder.unsettled(), *_rest(remaining))]
        run.project.backend.compact(document, kept)
    except BackendProblem as problem:
        if not recorder.has_written:
            # No step is begun before its intent is written: a state that says otherwise must not be pushed.
            detail = f"{problem} Nothing was done, and the plan still applies."
            return [error("the-state-cannot-be-written", detail)]
        return [_rescue(run, document, str(problem))]
    return []


def _rest(remaining: Remaining | None) -> list[Record]:
    return remaining.records() if remaining else []


def _encrypted_anew(run: Run) -> list[Diagnostic]:
    """Write the state again when what stands was encrypted with a method that is on its way out."""
    backend = run.project.backend
    try:
        if isinstance(backend, SealsDocuments) and backend.is_outdated():
            backend.compact(codec.encode(run.stored.state), run.stored.kept_lines())
    except BackendProblem as problem:
        return [error("the-state-cannot-be-written", str(problem))]
    return []


def _rescue(run: Run, document: bytes, words: str) -> Diagnostic:
    """Write a state that the backend does not take into a file, beside the configuration unless said
    otherwise.
    """
    place = run.project.place
    path = Path(place.rescue) if place.rescue else Path(place.directory) / RESCUE
    try:
        if isinstance(run.project.backend, SealsDocuments):
            document = run.project.backend.sealed(document)
    except BackendProblem as problem:
        return error("the-state-could-not-be-saved", f"{words} It could not be encrypted either: {problem}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_output(str(path), document, private=True)
    except OSError as problem:
        return error(
            "the-state-could-not-be-saved",
            f"{words} It could not be written to {path} either ({problem.strerror}). The journal holds what "
            "was recorded before; run `nexusform apply -resume` once the backend works again.",
        )
    if place.rescue:
        back = "-resume puts it there once the backend works again."
        return error("the-state-could-not-be-saved", f"{words} It was written to {path} instead. {back}")
    return error(
        "the-state-could-not-be-saved",
        f"{words} It was written to {path} instead. When the backend works again, run "
        f"`nexusform state push {path}`, then remove that file.",
    )
