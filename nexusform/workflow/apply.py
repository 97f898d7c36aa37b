"""Carry out a plan: record, execute, settle the outputs, save."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.applying.events import Listener
from nexusform.applying.executor import Applied, Options, execute
from nexusform.applying.opening import opening_records
from nexusform.applying.outcomes import known_parts
from nexusform.applying.recorder import Recorder
from nexusform.applying.standing import provider_of
from nexusform.diagnostics import Diagnostic, error
from nexusform.planning.plan import Action, CheckResult, Mode, Plan
from nexusform.planning.planner import make_plan
from nexusform.planning.replanning.finalising import finalised
from nexusform.planning.request import PlanRequest
from nexusform.ports import BackendProblem
from nexusform.state import codec
from nexusform.state.journal import Finished
from nexusform.state.model import OutputState, State
from nexusform.values import UNKNOWN
from nexusform.workflow.run import Run, base_request
from nexusform.workflow.stored import Stored
from nexusform.workflow.writing import write_output

RESCUE: Final = "errored.nfstate"


class ApplyOptions(Struct, frozen=True):
    """How to apply; see applying.executor.Options. `plan_digest` is that of a saved plan."""

    parallelism: int = 10
    fail_fast: bool = False
    stopping: Callable[[], bool] = lambda: False
    plan_digest: str = ""


class ApplyOutcome(Struct, frozen=True):
    """What came of it.

    `sends` tells whether any provider of the plan sends to a site; `provider_names` are the short
    names of those that took part.
    """

    applied: Applied
    diagnostics: tuple[Diagnostic, ...]
    imported: int = 0
    sends: bool = False
    provider_names: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether everything was done and saved."""
        return self.applied.complete and not self.diagnostics


def apply_plan(run: Run, plan: Plan, listener: Listener, options: ApplyOptions) -> ApplyOutcome:
    """Carry out a plan that was made of the run's state."""
    plan, problems = finalised(plan, _same_request(run, plan), make_plan)
    if problems:
        return ApplyOutcome(Applied(run.stored.state, ()), tuple(problems))
    recorder = Recorder(run.project.backend, run.stored.state)
    opening = opening_records(plan, run.stored.state, str(uuid.uuid4()), options.plan_digest)
    if len(opening) == 1 and not plan.steps and not plan.has_changes:
        return ApplyOutcome(Applied(run.stored.state, ()), ())  # nothing to write, so nothing is written
    for record in opening:
        recorder.note(record)
    applied = execute(
        plan,
        recorder,
        run.providers,
        run.project.registries.resource_types,
        clock=run.clock,
        listener=listener,
        options=Options(options.parallelism, options.fail_fast, options.stopping),
    )
    outputs = _outputs(run, plan, applied)
    checks = tuple(_check_document(check) for check in plan.checks)
    recorder.note(Finished(outputs, checks))
    problems = [_journal_problem(applied.problem)] if applied.problem else []
    state = recorder.state()
    problems += _save(run, recorder, state)
    taking_part = {provider_of(plan.changes[step.change]) for step in plan.steps}
    return ApplyOutcome(
        applied=replace(applied, state=state),
        diagnostics=tuple(problems),
        imported=sum(1 for change in plan.changes if change.importing),
        sends=any(run.providers[name].sends for name in taking_part if name in run.providers),
        provider_names=tuple(sorted(name.split(".")[0] for name in taking_part)),
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


def _outputs(run: Run, plan: Plan, applied: Applied) -> Mapping[str, OutputState]:
    """The root outputs to remember: as planned, or evaluated anew where apply brought other values.

    After a failure they stay as they were: they may refer to what was not done. After a partial
    apply the ones that are still unknown do.
    """
    standing = run.stored.state.outputs
    if not applied.complete:
        return standing
    known = {n: o for n, o in plan.planned_outputs.items() if not _has_unknown(o.value)}
    settled = not applied.misses and len(known) == len(plan.planned_outputs)
    if settled and plan.mode is not Mode.REFRESH_ONLY:
        return known
    request = base_request(run.project, Stored(applied.state))
    asked = replace(request, applying=True, tie_breaks=0, ways_out=False, lint=False)
    again = make_plan(asked).plan
    if not again.errored and again.count(Action.NO_OP) == len(again.changes):
        return {n: replace(o, value=known_parts(o.value)) for n, o in again.planned_outputs.items()}
    # The configuration says more than was applied, so it cannot tell what the outputs are now.
    kept = {n: o for n, o in standing.items() if n in plan.planned_outputs or plan.mode is Mode.REFRESH_ONLY}
    return {**kept, **known}


def _has_unknown(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_has_unknown(part) for part in value.values())
    if isinstance(value, list):
        return any(_has_unknown(part) for part in value)
    return value is UNKNOWN


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


def _save(run: Run, recorder: Recorder, state: State) -> list[Diagnostic]:
    """Flush and compact; when the backend refuses, the state goes to a file here."""
    document = codec.encode(state)
    try:
        recorder.flush()
        run.project.backend.compact(document)
    except BackendProblem as problem:
        return [_rescue(run, document, str(problem))]
    return []


def _rescue(run: Run, document: bytes, words: str) -> Diagnostic:
    path = Path(run.project.place.directory) / RESCUE
    try:
        write_output(str(path), document, private=True)
    except OSError as problem:
        return error(
            "the-state-could-not-be-saved",
            f"{words} It could not be written to {path} either ({problem.strerror}). The journal holds what "
            "was recorded before; run `nexusform apply -resume` once the backend works again.",
        )
    return error(
        "the-state-could-not-be-saved",
        f"{words} It was written to {path} instead. When the backend works again, run "
        f"`nexusform state push {path}`, then remove that file.",
    )
