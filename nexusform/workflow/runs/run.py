"""One run against a state: lock, read, settle, refresh, plan, apply, save, unlock.

`begin` gives a Run that holds the lock until its block ends. A run that could not begin is not
`ready` and says why in its diagnostics.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.address import Address
from nexusform.backends.registry import is_local
from nexusform.diagnostics import Diagnostic, Refused, error, has_errors, warning
from nexusform.log import log, logged
from nexusform.planning.conclusion.result import PlanResult
from nexusform.planning.conclusion.room_left import with_room
from nexusform.planning.planner import make_plan
from nexusform.planning.request import Imported, PlanRequest, Progress
from nexusform.plans.plan import Change, Mode, Plan
from nexusform.ports import Clock, JudgesPlans, Provider, ProviderProblem
from nexusform.providers.registry import PROVIDERS
from nexusform.source import Position, Span
from nexusform.state.json_text import collector_paused
from nexusform.state.objects import EMPTY, InstanceState, ObjectState
from nexusform.state_ports import BackendProblem, SealsDocuments, StateBackend
from nexusform.workflow.opening.linting import with_lint
from nexusform.workflow.opening.project import Project
from nexusform.workflow.opening.providers import (
    OF_PROVIDERS,
    captures_read,
    make_providers,
    remarks,
    stand_already,
)
from nexusform.workflow.opening.stored import Stored, read_stored
from nexusform.workflow.opening.surroundings import SystemClock, commit_of, plan_time
from nexusform.workflow.runs.locking import TAKEN_OVER, HeldLock, Locking, acquire


class Notices(Struct, frozen=True):
    """What a run tells while it goes on: that it waits for a lock, what it reads, how far planning came."""

    waiting: Callable[[str], None] = lambda _: None
    reading: Callable[[str, str], None] = lambda _address, _id: None
    locking: Callable[[str], None] = lambda _: None
    progress: Progress = lambda _stage, _done, _of: None


class PlanOptions(Struct, frozen=True):
    """What shapes a plan; see PlanRequest.

    `unasked` says, of a run without `refresh`, why nobody is asked what they make of it; "" where none
    expects that. `generate_config_out` is the file for the configuration of what import blocks name and the
    configuration lacks, "" for none. `now` is the time that the plan takes as now, "" for the present.
    `adopting` are objects to take over beside those of import blocks.
    """

    mode: Mode = Mode.NORMAL
    refresh: bool = True
    unasked: str = ""
    targets: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    replaces: tuple[str, ...] = ()
    tie_breaks: int | None = None
    first_tie_break: int = 0
    want_rejected: bool = False
    explain: tuple[tuple[str, str], ...] = ()
    generate_config_out: str = ""
    now: str = ""
    adopting: Mapping[Address, Imported] = field(default_factory=dict)


class Run(Struct):
    """A run in progress. `stored` is what the backend holds, journal settled. `left_open`: the run before did
    not come to its end, since its journal or its lock still stood there.
    """

    project: Project
    clock: Clock
    diagnostics: list[Diagnostic] = field(default_factory=list)
    stored: Stored = field(default_factory=lambda: Stored(EMPTY))
    providers: Mapping[str, Provider] = field(default_factory=dict)
    lock: HeldLock | None = None
    left_open: bool = False
    notices: Notices = field(default_factory=Notices)

    @property
    def ready(self) -> bool:
        """Whether planning may begin."""
        return not has_errors(self.diagnostics)

    def plan(self, options: PlanOptions) -> PlanResult:
        """Plan against the stored state, if that can be so and takes no longer than it may."""
        limits = self.project.configuration.settings.limits
        try:
            with _within(self.project.place.seconds_to_plan(limits)), collector_paused():
                return self._planned(options)
        except Refused as refused:
            return self._failed(options, refused.diagnostics)

    def _planned(self, options: PlanOptions) -> PlanResult:
        said = self._contradictions()
        if has_errors(said):
            return self._failed(options, said)
        # Imports first: what they take over out of other objects, these are then read without.
        imported, problems = self._imports(self.request(options), options)
        if has_errors(problems):
            return self._failed(options, problems)
        said += problems
        request = self.request(options)
        if options.refresh and (request.state.instances or self._observes()):
            from nexusform.workflow.runs.what_stands import as_it_stands

            try:
                request, found = as_it_stands(request, self.providers, self.notices.reading)
            except ProviderProblem as problem:
                return self._failed(options, [error("reading-what-stands-failed", str(problem))])
            said += found
        with logged("info", "plan made", mode=options.mode):
            taken = {**request.imports, **imported, **options.adopting}
            result = make_plan(replace(request, imports=taken))
        result, judgements = self._judged(result, options)
        said += judgements
        inventories = (*result.plan.inventories, *captures_read(self.providers, result.plan.timestamp))
        result = replace(result, plan=replace(result.plan, inventories=inventories))
        return self._concluded(result, said)

    def _judged(self, result: PlanResult, options: PlanOptions) -> tuple[PlanResult, list[Diagnostic]]:
        """The plan with what those that it is for make of it."""
        asked = any(isinstance(each, JudgesPlans) for each in self.providers.values())
        if not options.refresh:
            if not asked or not options.unasked:
                return result, []
            from nexusform.workflow.runs.judging import unasked

            return result, unasked(result, self.providers, options.unasked)
        said = stand_already(result.plan, self.providers)
        if asked:
            from nexusform.workflow.runs.judging import judged, verdicts

            said += judged(result, self.providers, self.project.configuration, said)
            result = replace(result, plan=replace(result.plan, judgements=verdicts(self.providers)))
        return result, [*said, *remarks(result.plan, self.providers)]

    def _failed(self, options: PlanOptions, problems: Sequence[Diagnostic]) -> PlanResult:
        """No plan: all that state has stays."""
        from nexusform.planning.conclusion.conclusion import without_changes

        return without_changes(self.request(options), problems)

    def _observes(self) -> bool:
        """Whether a provider looks at a site: then it is asked, be it for nothing that state knows."""
        return any(provider.observes for provider in self.providers.values())

    def _contradictions(self) -> list[Diagnostic]:
        """What is wrong with the state by itself."""
        if not self.stored.state.instances:
            return []
        from nexusform.planning.verification.standing_state import state_problems

        return list(state_problems(self.stored.state, self.project.registries.resource_types, PROVIDERS))

    def _concluded(self, result: PlanResult, more: Sequence[Diagnostic]) -> PlanResult:
        """The result with what else is to be said of it, with lint, and with the room of its sites."""
        if more:
            errored = result.plan.errored or has_errors(more)
            plan = replace(result.plan, diagnostics=(*result.plan.diagnostics, *more), errored=errored)
            result = replace(result, plan=plan)
        if result.plan.mode is Mode.NORMAL:
            result = with_lint(result, self.project.configuration)
        with logged("info", "room counted"):
            return with_room(result, self.project.registries)

    def plan_of(self, made: Plan) -> Plan:
        """The plan that is made of what a saved one was made of, asking no provider."""
        options = options_of(made)
        instances = self.stored.state.instances
        imports = {
            change.address: _imported(change, instances.get(change.address))
            for change in made.changes
            if change.importing
        }
        request = replace(self.request(options), refreshed=dict(made.refreshed), imports=imports)
        plan = self._concluded(make_plan(request), self._contradictions()).plan
        # What providers read is handed on (`refreshed`), and when that was captured with it.
        captures = [read for read in made.inventories if read.address.startswith(OF_PROVIDERS)]
        inventories = (*plan.inventories, *captures)
        return replace(plan, inventories=inventories, judgements=made.judgements)

    def _imports(
        self, request: PlanRequest, options: PlanOptions
    ) -> tuple[Mapping[Address, Imported], list[Diagnostic]]:
        """What import blocks take over; configuration that was generated becomes part of the project."""
        path = options.generate_config_out
        importing = options.mode is Mode.NORMAL and bool(request.configuration.root.imports)
        if not path and not importing:
            return {}, []
        from nexusform.workflow.runs.importing import find_imports, refusal_to_generate, with_generated

        refusal = refusal_to_generate(path) if path else None
        if refusal is not None:
            return {}, [refusal]
        if not importing:
            return {}, []
        imports = find_imports(request, self.providers, generate=bool(path))
        if imports.generated and not has_errors(imports.diagnostics):
            project, problems = with_generated(self.project, path, imports.generated)
            imports.diagnostics += problems
            self.project = project or self.project
        return imports.objects, imports.diagnostics

    def request(self, options: PlanOptions) -> PlanRequest:
        """What the planner is asked."""
        return replace(
            base_request(self.project, self.stored),
            mode=options.mode,
            targets=options.targets,
            excludes=options.excludes,
            replaces=options.replaces,
            progress=self.notices.progress,
            tie_breaks=options.tie_breaks,
            first_tie_break=options.first_tie_break,
            want_rejected=options.want_rejected,
            explain=options.explain,
            now=options.now or plan_time(self.project.place.environment),
        )


def options_of(made: Plan) -> PlanOptions:
    """What a plan was asked for, to make it again."""
    return PlanOptions(
        mode=made.mode,
        targets=made.targets,
        excludes=made.excludes,
        replaces=made.replaces,
        tie_breaks=made.tie_breaks,
        want_rejected=any(row.rejected for row in made.placements),
        now=made.timestamp,
    )


def _imported(change: Change, recorded: InstanceState | None) -> Imported:
    """What a change takes over, as it was found. Of what state has `recorded` (its provider is another now)
    the rest stays, with what the new provider noted: that is in the change.
    """
    attributes, number = change.before or {}, change.prior_creation
    taken = ObjectState(attributes, number, change.sensitive_before, provider=change.provider)
    if recorded is not None and recorded.current is not None:
        private = {**(recorded.current.private or {}), **(change.private or {})} or None
        taken = replace(recorded.current, attributes=attributes, provider=change.provider, private=private)
    nowhere = Position(1, 1, 0)
    return Imported(change.importing, taken, change.source or Span("", nowhere, nowhere))


def base_request(project: Project, stored: Stored) -> PlanRequest:
    """A plan request of a project without any options."""
    return PlanRequest(
        configuration=project.configuration,
        variables=project.variables,
        state=stored.state,
        registries=project.registries,
        files=project.files,
        now=plan_time(project.place.environment),
        workspace=project.workspace,
        working_directory=project.place.directory,
        prior_digest=stored.digest,
        data_values=project.data_values,
        limits=project.place.limits_over(project.configuration.settings.limits),
        new_uuid=lambda: str(uuid.uuid4()),
        read_state=project.remote_states.read if project.remote_states is not None else None,
        ask=project.servers.ask if project.servers is not None else None,
        commit=commit_of(
            project.place.directory, project.place.environment, project.place.confinement_of_directory
        ),
    )


def _within(seconds: int) -> AbstractContextManager[None]:
    """The time that planning may take; 0 = any."""
    if not seconds:
        return nullcontext()
    from nexusform.workflow.runs.time_budget import within

    return within(seconds)


@contextmanager
def begin(
    project: Project,
    operation: str,
    locking: Locking,
    *,
    notices: Notices | None = None,
    clock: Clock | None = None,
    settles: bool = True,
) -> Iterator[Run]:
    """Lock the state, read it, look into what an earlier run left, and set the providers up.

    Without `settles` what is found out of an earlier run is not recorded.
    """
    notices = notices or Notices()
    run = Run(project, clock or SystemClock(), notices=notices)
    with ExitStack() as leaving:
        _lock(run, operation, locking, leaving)
        if run.ready:
            _read(run, leaving, settles=settles)
        yield run


def _lock(run: Run, operation: str, locking: Locking, leaving: ExitStack) -> None:
    """Take the lock of the state, and give it back at the end."""
    project = run.project
    run.lock, problems = acquire(
        project.backend,
        operation,
        locking,
        clock=run.clock,
        environment=project.place.environment,
        waiting=run.notices.waiting,
    )
    run.diagnostics += problems
    if run.lock is not None:
        held = run.lock
        run.notices.locking("Acquired the state lock.")
        leaving.callback(lambda: run.diagnostics.extend(held.release()))


def _read(run: Run, leaving: ExitStack, *, settles: bool) -> None:
    """Read the state, make the providers, and settle what an earlier run left open."""
    with logged("info", "state read", state=run.project.backend.describe()):
        stored, problems = read_stored(run.project.backend)
    run.diagnostics += problems
    if stored is None:
        return
    taken_over = any(each.id == TAKEN_OVER for each in run.diagnostics)
    run.left_open = stored.has_journal or taken_over
    log("debug", "state", serial=stored.state.serial, objects=len(stored.state.instances))
    try:
        if isinstance(run.project.backend, SealsDocuments):
            run.project.backend.check()
    except BackendProblem as problem:
        run.diagnostics.append(error("the-state-cannot-be-written", str(problem)))
        return
    if not stored.state.lineage and run.project.place.environment.get("NF_IN_AUTOMATION"):
        run.diagnostics += _state_stays_here(run.project.backend)
    providers, problems = make_providers(base_request(run.project, stored), run.project.place, leaving)
    run.diagnostics += problems
    if has_errors(problems):
        return
    run.providers = providers
    run.stored = stored
    if not stored.has_journal:
        return
    from nexusform.workflow.opening.interrupted import settle_stored

    write = settles and run.lock is not None
    settled, problems = settle_stored(stored, providers, run.project.backend, write=write)
    run.diagnostics += problems
    run.stored = settled or stored


def _state_stays_here(backend: StateBackend) -> list[Diagnostic]:
    """A warning when nothing stands, and what an apply writes would be gone with this machine."""
    kept_by = backend.inner if isinstance(backend, SealsDocuments) else backend
    if not is_local(kept_by):
        return []
    return [
        warning(
            "the-state-stays-on-this-machine",
            f"NF_IN_AUTOMATION is set, and there is no state at {backend.describe()}. A CI job's files are "
            "gone with the job: the next one would plan everything anew. Keep the state in a backend that "
            'all jobs reach, for example `backend "azurerm"`.',
        )
    ]
