"""`nexusform apply`, and what destroy shares with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import click
from msgspec import Struct

from nexusform.applying.events import Listener, StepEvent
from nexusform.cli.arguments import group, number, optional, switch, texts
from nexusform.cli.commands import command
from nexusform.cli.flags import LockFlags, ViewFlags, ownership_flag, place_of, state_flag, variable_flags
from nexusform.cli.interrupts import Interrupts, graceful_interrupts
from nexusform.cli.plan import Showing, showing_of
from nexusform.cli.planning_flags import PlacementFlags, PlanningFlags
from nexusform.cli.screen import input_allowed
from nexusform.cli.voice import TextVoice, Voice
from nexusform.diagnostics import Diagnostic, error, has_errors
from nexusform.placement_kinds.kinds import noun_of
from nexusform.plans.impact.effects import Effect, effect_counts
from nexusform.plans.plan import Action, Mode, Plan, StepKind
from nexusform.plans.saved.plan_file import SavedPlan
from nexusform.words import counted, first_of, listed
from nexusform.workflow.opening.project import Opened, Project, open_project
from nexusform.workflow.opening.stored import Stored, state_digest
from nexusform.workflow.plan_files.apply import ApplyOptions, ApplyOutcome, apply_plan, apply_rest
from nexusform.workflow.plan_files.resuming import Rest, differences, discard, find_rest, rest_of
from nexusform.workflow.plan_files.saved_plans import open_saved, read_plan
from nexusform.workflow.plan_files.signed_plans import signature_problems
from nexusform.workflow.runs.locking import Locking
from nexusform.workflow.runs.plan_verdicts import judge
from nexusform.workflow.runs.run import PlanOptions, Run, begin

SURE_CLAIM_BROKE: Final = 2  # exit code: all was done, and what the plan was sure of is not so


class ApplyFlags(Struct, frozen=True, kw_only=True):
    """What apply and destroy take beyond planning flags."""

    auto_approve: bool = switch("Skip the confirmation")
    input: bool = switch("Fail instead of asking", default=True)
    parallelism: int = number("Limit the number of concurrent steps", default=10, at_least=1)
    fail_fast: bool = switch("Start no further step after a failure")
    as_json: bool = switch("Print JSON events (with -auto-approve or PLANFILE)", flag="json")
    concise: bool = switch("Print no line per step")
    show_sensitive: bool = switch("Show sensitive values")
    take_ownership: bool = ownership_flag()
    shown: PlacementFlags = group(PlacementFlags)
    variables: tuple[tuple[str, str], ...] = variable_flags()
    lock: LockFlags = group(LockFlags)
    state: str = state_flag()
    view: ViewFlags = group(ViewFlags)

    def showing(self) -> Showing:
        """How the run tells its plan. Raises a usage error for reports that cannot be written."""
        return showing_of(
            self.shown,
            self.view,
            as_json=self.as_json,
            show_sensitive=self.show_sensitive,
            concise=self.concise,
        )


class ApplyArguments(Struct, frozen=True, kw_only=True):
    """What `apply` takes; without `planfile` it plans afresh."""

    planfile: str | None = optional(None)
    resume: bool = switch("Continue an interrupted or failed apply")
    discard: bool = switch("Drop the rest of an interrupted or failed apply")
    verify: tuple[str, ...] = texts(
        "Reject an outdated plan, or one without this signature",
        metavar="replan|key:FILE",
    )
    planning: PlanningFlags = group(PlanningFlags)
    flags: ApplyFlags = group(ApplyFlags)


@command("apply", ApplyArguments)
def apply(arguments: ApplyArguments) -> int:
    """Plan, ask for approval and apply; or apply the saved plan PLANFILE.

    Exit code 0 if all steps succeeded, 1 for errors. Exit code 2: applied, but a certain prediction
    was wrong.
    """
    shaping = arguments.planning.changed()
    verification = verification_of(arguments.verify)
    if arguments.verify and (arguments.planfile is None or arguments.resume or arguments.discard):
        raise click.UsageError(
            "-verify is about a plan that was saved: name its file, and apply it as a whole."
        )
    if arguments.discard and arguments.resume:
        raise click.UsageError("-resume does what is left and -discard drops it: they do not go together.")
    if arguments.discard:
        return _discard(arguments.flags)
    if arguments.resume:
        if shaping:
            raise click.UsageError(f"-{shaping[0]} shapes a plan, and -resume follows one that was begun.")
        return _resume(arguments.flags, arguments.planfile)
    if arguments.planfile is None:
        return apply_fresh(arguments.flags, arguments.planning.options())
    if shaping:
        raise click.UsageError(
            f"-{shaping[0]} shapes a plan, and {arguments.planfile} is one already. Plan again with it."
        )
    return _apply_saved(arguments.planfile, verification, arguments.flags)


class Verification(Struct, frozen=True):
    """What -verify asks for: `key_files` hold the keys with which a plan must be signed; with `replan`
    planning again must give the same.
    """

    key_files: tuple[str, ...] = ()
    replan: bool = False


def verification_of(words: Sequence[str]) -> Verification:
    """What the words of -verify say. Raises a usage error."""
    key_files: list[str] = []
    for word in words:
        kind, _, value = word.partition(":")
        if kind == "key" and value:
            key_files.append(value)
        elif word != "replan":
            raise click.UsageError(
                f'-verify: "{word}" is not known; write -verify=replan or -verify=key:FILE.'
            )
    return Verification(tuple(key_files), replan="replan" in words)


class _Job(Struct, frozen=True):
    """One apply: its flags, how it tells what it does, how it locks."""

    flags: ApplyFlags
    showing: Showing
    locking: Locking

    @property
    def voice(self) -> Voice:
        return self.showing.voice

    def may_ask(self) -> bool:
        return self.voice.asks and input_allowed(self.flags.input)


def _job(flags: ApplyFlags) -> _Job:
    return _Job(flags, flags.showing(), flags.lock.locking())


def apply_fresh(flags: ApplyFlags, options: PlanOptions) -> int:
    """Plan, ask and apply."""
    job = _job(flags)
    if not flags.auto_approve and not job.may_ask():
        job.voice.diagnostics([_cannot_ask()], {})
        return 1
    opened = open_project(place_of(flags.state, flags.variables, take_ownership=flags.take_ownership))
    job.voice.diagnostics(opened.diagnostics, opened.sources)
    if opened.project is None:
        return 1
    return _run(job, opened.project, lambda run: _plan_ask_apply(run, job, options))


def _plan_ask_apply(run: Run, job: _Job, options: PlanOptions) -> int:
    """Plan, ask unless that is not wanted, and apply; the exit code."""
    code = _finish_first(run, job) if options.mode is Mode.NORMAL else 0
    if code:
        return code
    with job.voice.planning():
        plan = run.plan(options).plan
    job.showing.tell(plan, run, next_step=False)
    if plan.errored:
        return 1
    if plan.has_changes and not job.flags.auto_approve and not _agreed(job.voice, plan):
        return 1
    return _carry_out(run, job, plan)


def _finish_first(run: Run, job: _Job) -> int:
    """What an apply that was killed has left comes before a new plan; 0 when there is nothing left of it that
    speaks against one.
    """
    rest, problems = rest_of(run.stored, run.project.place)
    if rest is None:
        # what cannot be read may still be the rest of a killed apply: only -discard drops it
        job.voice.diagnostics(problems, run.project.sources)
        return 1 if has_errors(problems) else 0
    if not rest.killed:
        return 0
    asks = job.may_ask() and not job.flags.auto_approve
    problems += [] if asks else differences(run, rest)
    if has_errors(problems):
        job.voice.diagnostics(problems, run.project.sources)
        return 1
    if asks and not _agreed_to_finish(job.voice, rest):
        return 1
    job.voice.notice(f"Finishing an earlier apply first. {rest.left}.")
    outcome = _carry_out_rest(run, job, rest)
    run.stored = Stored(outcome.applied.state, digest=state_digest(outcome.applied.state))
    return _exit_code(outcome)


def _resume(flags: ApplyFlags, planfile: str | None) -> int:
    """Do what is left of the last apply; of PLANFILE when one is named."""
    job = _job(flags)
    place = place_of(flags.state, flags.variables, take_ownership=flags.take_ownership)
    rest, backend, problems = find_rest(place)
    if planfile is not None and rest is not None:
        saved, wrong = read_plan(planfile, place)
        problems += wrong
        if saved is not None and saved.digest != rest.plan_digest:
            problems.append(error("nothing-to-resume", f'"{planfile}" is not the plan that was begun last.'))
    opened = Opened(None, (), {})
    if rest is not None and not has_errors(problems):
        opened = open_saved(place, rest.saved, backend, vouched=True)
    job.voice.diagnostics([*problems, *opened.diagnostics], opened.sources)
    if opened.project is None:
        return 1
    return _run(job, opened.project, lambda run: _carry_on(run, job))


def _carry_on(run: Run, job: _Job) -> int:
    """Do what an earlier apply left to do."""
    rest, problems = rest_of(run.stored, run.project.place)
    job.voice.diagnostics(problems, run.project.sources)
    if has_errors(problems):
        return 1
    if rest is None:
        job.voice.notice("Nothing is left to do.")
        return 0
    return _exit_code(_carry_out_rest(run, job, rest))


def _discard(flags: ApplyFlags) -> int:
    """Drop what an earlier apply left to do."""
    job = _job(flags)
    opened = open_project(place_of(flags.state, flags.variables, take_ownership=flags.take_ownership))
    job.voice.diagnostics(opened.diagnostics, opened.sources)
    if opened.project is None:
        return 1

    def drop(run: Run) -> int:
        steps, problems = discard(run)
        job.voice.diagnostics(problems, run.project.sources)
        if problems:
            return 1
        done = "Dropped what was left of an earlier apply: its end, for its steps were done."
        dropped = f"Dropped {counted(steps, 'step')} of an earlier apply." if steps else done
        job.voice.notice("No apply had left anything to do." if steps is None else dropped)
        return 0

    return _run(job, opened.project, drop)


def _apply_saved(path: str, verification: Verification, flags: ApplyFlags) -> int:
    """Apply a saved plan, once its signatures are verified."""
    job = _job(flags)
    place = place_of(flags.state, flags.variables, take_ownership=flags.take_ownership)
    saved, problems = read_plan(path, place)
    if saved is not None:
        for key in verification.key_files:
            problems += signature_problems(saved.signature, saved.signed_digest, key, place.confinement)
    opened = Opened(None, (), {})
    if saved is not None and not has_errors(problems):
        opened = open_saved(place, saved, vouched=bool(verification.key_files))
    job.voice.diagnostics([*problems, *opened.diagnostics], opened.sources)
    if saved is None or opened.project is None:
        return 1
    return _run(job, opened.project, lambda run: _judge_and_apply(run, job, saved, verification))


def _judge_and_apply(run: Run, job: _Job, saved: SavedPlan, verification: Verification) -> int:
    rest, _ = rest_of(run.stored, run.project.place)
    if rest is not None and rest.killed and rest.plan_digest == saved.digest and not rest.steps:
        # What the plan says is done; only its end was not recorded any more.
        job.voice.notice("All steps of this plan were done when its apply was cut off. Recording its end.")
        return _exit_code(_carry_out_rest(run, job, rest))
    if rest is None and run.left_open and run.stored.state.applied_plans[-1:] == (saved.digest,):
        job.voice.notice("All of this plan was done when its apply was cut off. Its end is recorded now.")
        return 0
    verdict = judge(run, saved, replan=verification.replan, vouched=bool(verification.key_files))
    job.voice.diagnostics(verdict.diagnostics, run.project.sources)
    if verdict.plan is None:
        return 1
    job.showing.write_reports(verdict.plan, run)
    return _carry_out(run, job, verdict.plan, saved.digest)


def _run(job: _Job, project: Project, work: Callable[[Run], int]) -> int:
    """Do the work while the lock is held; the exit code."""
    with begin(project, "OperationTypeApply", job.locking, notices=job.showing.notices) as run:
        already_told = len(run.diagnostics)
        job.voice.diagnostics(run.diagnostics, project.sources)
        code = work(run) if run.ready else 1
    job.voice.diagnostics(run.diagnostics[already_told:], project.sources)
    return 1 if has_errors(run.diagnostics) else code


def _carry_out(run: Run, job: _Job, plan: Plan, digest: str = "") -> int:
    """Apply an approved plan; a plan without changes leaves the state alone."""
    outcome = _watched(job, plan, digest, lambda events, options: apply_plan(run, plan, events, options))
    return _exit_code(_told(run, job, plan, outcome))


def _exit_code(outcome: ApplyOutcome) -> int:
    if not outcome.complete:
        return 1
    return SURE_CLAIM_BROKE if outcome.broken_sure else 0


def _carry_out_rest(run: Run, job: _Job, rest: Rest) -> ApplyOutcome:
    outcome = _watched(job, rest.plan, "", lambda events, options: apply_rest(run, rest, events, options))
    return _told(run, job, rest.plan, outcome)


def _watched(
    job: _Job, plan: Plan, digest: str, carry_out: Callable[[Listener, ApplyOptions], ApplyOutcome]
) -> ApplyOutcome:
    """Carry out under the progress display, interruptible."""
    voice, flags = job.voice, job.flags
    steps = sum(1 for step in plan.steps if step.kind is not StepKind.GATE)
    with graceful_interrupts(voice.notice) as interrupts, voice.applying(steps):
        options = ApplyOptions(
            flags.parallelism,
            flags.fail_fast,
            interrupts.stopping,
            plan_digest=digest,
            waits_for_people=job.may_ask(),
        )
        return carry_out(_WhileSomebodyReads(voice, interrupts), options)


def _told(run: Run, job: _Job, plan: Plan, outcome: ApplyOutcome) -> ApplyOutcome:
    voice = job.voice
    voice.applied(outcome, plan.mode)
    voice.diagnostics(outcome.diagnostics, run.project.sources)
    if plan.mode is not Mode.DESTROY:
        voice.outputs(outcome.applied.state.outputs)
    return outcome


# --- questions ---------------------------------------------------------------------------------


def _cannot_ask() -> Diagnostic:
    return error(
        "approval-is-needed",
        f"The plan must be approved, and no question may be asked here. {_WITHOUT_QUESTION}",
    )


_WITHOUT_QUESTION: Final = (
    "Add -auto-approve, or save a plan with `nexusform plan -out=FILE` and apply that file."
)


_QUESTIONS: Final[Mapping[Mode, tuple[str, str]]] = {
    Mode.NORMAL: (
        "Do you want to perform these actions",
        "nexusform will perform the actions described above.",
    ),
    Mode.DESTROY: (
        "Do you really want to destroy all resources",
        "nexusform will destroy all that is listed above. There is no undo.",
    ),
    Mode.REFRESH_ONLY: (
        "Would you like to update the state to reflect these detected changes",
        "nexusform will write these changes to the state without changing any object.",
    ),
}


def _agreed(voice: Voice, plan: Plan) -> bool:
    """Whether somebody agreed to carry the plan out."""
    assert isinstance(voice, TextVoice), "only people are asked"
    question, explanation = _QUESTIONS[plan.mode]
    if plan.mode is Mode.DESTROY and (plan.targets or plan.excludes):
        question = f"Do you really want to destroy {_destroyed(plan)}"
    where = f' in workspace "{plan.workspace}"' if plan.workspace != "default" else ""
    screen = voice.screen
    answer = screen.ask(f"{question}{where}?", f"  {explanation}\n  Only 'yes' will be accepted to approve.")
    if answer == "yes":
        screen.out()
        return True
    screen.out(f"\n{'Destroy' if plan.mode is Mode.DESTROY else 'Apply'} cancelled.")
    if answer is None:
        screen.out(f"There was nobody to answer. {_WITHOUT_QUESTION}")
    return False


def _destroyed(plan: Plan) -> str:
    """What a destroy plan of a part destroys: `2 objects (a.b, c.d) with 33 VMs`."""
    going = [str(change.address) for change in plan.changes if change.action is Action.DELETE]
    counts = effect_counts(plan.placements)
    leaving = [
        f"{counted(each.count, noun_of(each.kind))}" for each in counts if each.effect is Effect.REMOVED
    ]
    inhabitants = f" with {listed(leaving)}" if leaving else ""
    return f"{counted(len(going), 'object')} ({first_of(going, _MOST_NAMED)}){inhabitants}"


_MOST_NAMED: Final = 4


def _agreed_to_finish(voice: Voice, rest: Rest) -> bool:
    """Whether somebody agreed to do first what an earlier apply left to do."""
    assert isinstance(voice, TextVoice), "only people are asked"
    screen = voice.screen
    answer = screen.ask(
        f"An earlier apply was interrupted. {rest.left}. Finish it first?",
        "  It is done as it was planned. Only 'yes' will be accepted;\n"
        "  `nexusform apply -discard` drops it.",
    )
    if answer != "yes":
        screen.out("\nApply cancelled.")
        return False
    screen.out()
    return True


# --- interrupts --------------------------------------------------------------------------------


class _WhileSomebodyReads:
    """Tells a voice of steps until its reader is gone (`apply | head`): then no further step is begun."""

    def __init__(self, voice: Voice, interrupts: Interrupts) -> None:
        self._voice = voice
        self._interrupts = interrupts
        self._heard = True

    def started(self, event: StepEvent) -> None:
        """A step began."""
        self._tell(self._voice.started, event)

    def progressed(self, event: StepEvent) -> None:
        """A step goes on."""
        self._tell(self._voice.progressed, event)

    def ended(self, event: StepEvent) -> None:
        """A step ended."""
        self._tell(self._voice.ended, event)

    def _tell(self, tell: Callable[[StepEvent], None], event: StepEvent) -> None:
        """Tell what happens to a step, until nobody listens any more."""
        if not self._heard:
            return
        try:
            tell(event)
        except BrokenPipeError:
            self._heard = False
            self._interrupts.received += 1
