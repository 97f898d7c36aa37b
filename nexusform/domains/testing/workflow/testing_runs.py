"""One test file's runs: what each is given, its plan and apply, its assertions, and tearing down."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.advice.registry import RULE_IDS
from nexusform.applying.events import Outcome, StepEvent
from nexusform.backends.memory import MemoryBackend
from nexusform.configuration.declared.configuration import Condition, Configuration
from nexusform.configuration.loader import read_variables
from nexusform.configuration.reference_checks import check_expression
from nexusform.diagnostics import Diagnostic, Severity, did_you_mean, error, has_errors, warning
from nexusform.domains.pods.scheduling.risks import RISKS
from nexusform.domains.testing.configuration.testing_blocks import RunBlock, RunFile
from nexusform.domains.testing.workflow.testing_configuration import (
    AssertScope,
    OutsideScope,
    StandIns,
    as_tested,
    stand_ins,
    variable_value,
)
from nexusform.language.evaluator import evaluate
from nexusform.language.syntax.nodes import Traversal, TraverseAttribute
from nexusform.planning.instances.condition_verdicts import ID_OF_CONDITION, evaluate_condition, failure
from nexusform.planning.names.setting import StandingEvaluation, standing_evaluation
from nexusform.planning.request import PlanRequest
from nexusform.planning.verdicts.separation import BROKEN
from nexusform.plans.plan import Mode, Plan
from nexusform.ports import Clock
from nexusform.resource_types.registry import registries
from nexusform.source import SourceFile
from nexusform.state.objects import EMPTY, InstanceState, ObjectState, State
from nexusform.values import Value, object_value
from nexusform.workflow.opening.elsewhere import RemoteStates, Servers
from nexusform.workflow.opening.place import Place
from nexusform.workflow.opening.project import Project
from nexusform.workflow.opening.stored import Stored
from nexusform.workflow.opening.surroundings import RealFiles
from nexusform.workflow.plan_files.apply import ApplyOptions, ApplyOutcome, apply_plan
from nexusform.workflow.runs.locking import Locking
from nexusform.workflow.runs.run import PlanOptions, Run, base_request, begin

_MISSING = "no-value-for-required-variable"
_UNDECLARED = "value-for-undeclared-variable"
# What a plan risks is told by plan and advise; a test asks whether it is right.
_RISKS = frozenset({*RULE_IDS, *RISKS, BROKEN})
_CONDITION_FAILURES = frozenset(ID_OF_CONDITION.values())
_INSTANCE_KEY = re.compile(r'\["(?:[^"\\]++|\\.)*+"\]|\[\d+\]')


class RunFailed(Exception):
    """A run could not be carried out; it ends the file."""

    def __init__(self, diagnostics: Sequence[Diagnostic], plan: Plan | None = None) -> None:
        super().__init__("the run failed")
        self.diagnostics = list(diagnostics)
        self.plan = plan


class RunOutcome(Struct):
    """A run that was carried out. `failed` when an expectation was not met: then the next may run."""

    diagnostics: list[Diagnostic]
    plan: Plan
    state: State | None
    failed: bool = False


class _Used(Struct):
    """A module that was run: how to destroy what it made."""

    project: Project
    stand_ins: StandIns
    run: str


class Bench(Struct):
    """Where the runs of one file take place. States are kept by module, outputs by run."""

    place: Place
    file: RunFile
    main: Configuration
    var_options: Sequence[tuple[str, str]]
    sources: dict[str, SourceFile]
    clock: Clock
    outputs: dict[str, Value] = field(default_factory=dict)
    _backends: dict[str, MemoryBackend] = field(default_factory=dict)
    _used: dict[str, _Used] = field(default_factory=dict)

    def run(self, block: RunBlock, configuration: Configuration) -> RunOutcome:
        """Carry out one run. Raises RunFailed."""
        scope, problems = self._outside_scope()
        values, wrong = self._variables(block, configuration, scope)
        problems += wrong
        instead, wrong = stand_ins(self.file, block, scope)
        problems += wrong
        tested, wrong = as_tested(configuration, self.file, block)
        problems += wrong
        if has_errors(problems):
            raise RunFailed(problems)
        key = block.state_key or block.source
        project = Project(
            place=replace(self.place, state_path=""),
            configuration=tested,
            variables=values,
            sources=self.sources,
            registries=registries(),
            files=RealFiles(self.place.confinement),
            backend=self._backends.setdefault(key, MemoryBackend()),
            data_values=instead.data,
            remote_states=RemoteStates(self.place, tested.settings),
            servers=Servers(self.place),
        )
        with self._session(project, instead) as session:
            done = self._carried_out(block, session, problems)
        if block.command == "apply":
            self._used.pop(key, None)
            self._used[key] = _Used(project, instead, block.name)
        return done

    # --- what a run is given ---

    def _outside_scope(self) -> tuple[OutsideScope, list[Diagnostic]]:
        """What expressions outside of the configuration see."""
        variables, problems = self._from_outside(self.main)
        functions = standing_evaluation(self._request(self.main)).setting.functions()
        scope = OutsideScope(functions, variables, self.outputs)
        for name, expression in self.file.variables.items():
            declared = self.main.root.variables.get(name)
            if declared is not None:
                value, wrong = variable_value(declared, expression, scope)
            else:
                value, wrong = evaluate(expression, scope)
            problems += wrong
            if value is not None:
                variables[name] = value
        return scope, problems

    def _from_outside(self, configuration: Configuration) -> tuple[dict[str, Value], list[Diagnostic]]:
        """Variables of the environment, variable files and flags, with defaults."""
        variables, problems = read_variables(
            configuration,
            environment=self.place.environment,
            var_options=self.var_options,
            directory=self.place.directory,
            confinement=self.place.confinement,
        )
        declared = configuration.root.variables
        values = {
            name: value
            for name, (value, origin) in variables.items()
            if origin.text != "default" or declared[name].default is not None
        }
        return values, [p for p in problems if p.id not in (_MISSING, _UNDECLARED)]

    def _variables(
        self, block: RunBlock, configuration: Configuration, scope: OutsideScope
    ) -> tuple[dict[str, Value], list[Diagnostic]]:
        """The variables of a run, from its block, its file and the command line."""
        values, problems = self._from_outside(configuration)
        declared = configuration.root.variables
        for name, expression in {**self.file.variables, **block.variables}.items():
            variable = declared.get(name)
            if variable is not None:
                value, wrong = variable_value(variable, expression, scope)
                problems += wrong
                if value is not None:
                    values[name] = value
            elif name in block.variables:
                detail = (
                    f'The configuration that this run is about declares no variable "{name}".'
                    f"{did_you_mean(name, declared)}"
                )
                problems.append(warning(_UNDECLARED, detail, expression.span, block=block.header))
        for name in declared:
            if name not in values and not has_errors(problems):
                detail = (
                    f'The variable "{name}" has no default, and neither the run, the file nor the command '
                    "line gives a value."
                )
                problems.append(error(_MISSING, detail, block.span, block=block.header))
        return values, problems

    def _request(self, configuration: Configuration, state: State = EMPTY) -> PlanRequest:
        files = RealFiles(self.place.confinement)
        project = Project(
            place=self.place,
            configuration=configuration,
            variables={},
            sources={},
            registries=registries(),
            files=files,
            backend=MemoryBackend(),
        )
        return base_request(project, Stored(state))

    # --- carrying it out ---

    @contextmanager
    def _session(self, project: Project, instead: StandIns) -> Iterator[Run]:
        unlocked = Locking(enabled=False, alone=True)
        with begin(project, "OperationTypeTest", unlocked, clock=self.clock) as session:
            if not session.ready:
                raise RunFailed(session.diagnostics)
            session.providers = instead.over(session.providers)
            yield session

    def _carried_out(self, block: RunBlock, session: Run, problems: list[Diagnostic]) -> RunOutcome:
        """Plan, apply where asked, and judge."""
        options = PlanOptions(
            mode=Mode(block.mode),
            refresh=block.refresh,
            unasked="" if block.refresh else "refresh = false asks no provider",
            targets=block.targets,
            replaces=block.replaces,
        )
        plan = session.plan(options).plan
        relevant = [d for d in plan.diagnostics if d.id not in _RISKS or d.severity is Severity.ERROR]
        unexpected, missing = without_expected(block.expected, relevant, block.header)
        problems += unexpected
        if plan.errored:
            return self._stopped(block, plan, problems, missing)
        state = _planned(session, plan)
        if block.command == "apply":
            outcome = apply_plan(session, plan, _Silent(), ApplyOptions())
            wrong = _failures(outcome)
            if wrong:
                raise RunFailed([*problems, *wrong], plan)
            state = outcome.applied.state
        problems += missing
        failed = bool(missing) or has_errors(unexpected)
        failed |= self._asserted(block, session, state, problems)
        return RunOutcome(problems, plan, state if block.command == "apply" else None, failed)

    def _stopped(
        self, block: RunBlock, plan: Plan, problems: list[Diagnostic], missing: list[Diagnostic]
    ) -> RunOutcome:
        """A plan in error: all is well when it was meant to be, and nothing was to be applied."""
        problems = [*problems, *missing]
        if not has_errors(problems) and block.command == "apply":
            detail = (
                "Conditions failed while planning, as expected, so the apply that this run asks for could "
                "not be carried out. Use command = plan where planning is expected to fail."
            )
            problems.append(error("expected-failure-while-planning", detail, block.span, block=block.header))
        unmet = bool(missing) and not any(d.severity is Severity.ERROR and d not in missing for d in problems)
        if has_errors(problems) and not unmet:
            raise RunFailed(problems, plan)
        return RunOutcome(problems, plan, None, failed=unmet)

    # --- assertions ---

    def _asserted(self, block: RunBlock, session: Run, state: State, problems: list[Diagnostic]) -> bool:
        """Judge the assertions and remember the outputs; whether one failed. Raises RunFailed."""
        request = base_request(session.project, Stored(state))
        evaluation = standing_evaluation(replace(request, applying=block.command == "apply"))
        scope = AssertScope(evaluation.scope(evaluation.root), self.outputs)
        failed = False
        for condition in block.asserts:
            status, remarks = _judged(condition, block, scope, evaluation)
            problems += remarks
            if status == "error":
                raise RunFailed(problems)
            failed |= status == "fail"
        outputs = session.project.configuration.root.outputs
        self.outputs[block.name] = object_value(
            {name: evaluation.output(evaluation.root, name) for name in outputs}
        )
        return failed

    # --- tearing down ---

    def tear_down(self, begins: Callable[[str], None]) -> list[Diagnostic]:
        """Destroy what the runs made, the latest first; `begins` is told the last run of each state."""
        problems: list[Diagnostic] = []
        for used in reversed(self._used.values()):
            begins(used.run)
            try:
                with self._session(used.project, used.stand_ins) as session:
                    plan = session.plan(PlanOptions(mode=Mode.DESTROY, refresh=False)).plan
                    problems += [d for d in plan.diagnostics if d.severity is Severity.ERROR]
                    if not plan.errored:
                        problems += _failures(apply_plan(session, plan, _Silent(), ApplyOptions()))
            except RunFailed as failed:
                problems += failed.diagnostics
        return problems


def _judged(
    condition: Condition, block: RunBlock, scope: AssertScope, evaluation: StandingEvaluation
) -> tuple[str, list[Diagnostic]]:
    """pass, fail or error, with the diagnostics."""
    root = scope.inner.instance.module
    schemas = registries().schemas
    diagnostics: list[Diagnostic] = []
    for expression in (condition.condition, condition.error_message):
        diagnostics += check_expression(
            expression, root, schemas["managed"], schemas["data"], besides=("run", "output")
        )
    if has_errors(diagnostics):
        return "error", [replace(d, block=block.header) for d in diagnostics]
    before = len(evaluation.diagnostics)
    status, message = evaluate_condition(condition, evaluation, scope, "")
    diagnostics = [replace(d, block=d.block or block.header) for d in evaluation.diagnostics[before:]]
    if status == "fail":
        diagnostics.append(failure(condition, "assert", message, "", block.header, scope))
    elif status == "unknown":
        detail = (
            "The condition depends on a value that is known only after apply. Leave that value out of it, or "
            "let this run block apply (command = apply)."
        )
        span = condition.condition.span
        diagnostics.append(error("unknown-condition-value", detail, span, block=block.header))
        status = "error"
    return status, diagnostics


def _planned(session: Run, plan: Plan) -> State:
    """The state as the plan would leave it; what is known only after apply is unknown in it."""
    state = session.stored.state
    if plan.mode is Mode.REFRESH_ONLY:
        instances = dict(state.instances)
        for address, current in plan.refreshed.items():
            if current is None:
                instances.pop(address, None)
            else:
                instances[address] = InstanceState(current)
        return replace(state, instances=instances)
    instances = {
        change.address: InstanceState(ObjectState(change.after, change.creation, change.sensitive_after))
        for change in plan.changes
        if change.after is not None and not change.deposed
    }
    return replace(state, instances=instances)


def _failures(outcome: ApplyOutcome) -> list[Diagnostic]:
    """What an apply could not do."""
    failed = [
        error("apply-failed", event.error, address=event.address)
        for event in outcome.applied.ends
        if event.outcome is Outcome.FAILED
    ]
    return [*failed, *outcome.diagnostics]


# --- expect_failures: which failed conditions were meant to fail -------------------------------


def without_expected(
    expected: Sequence[Traversal], diagnostics: Iterable[Diagnostic], header: str
) -> tuple[list[Diagnostic], list[Diagnostic]]:
    """The problems that were not meant to be, and one for everything that failed to fail.

    A failed check block that was not expected is an error here.
    """
    awaited = {_address_of(traversal): traversal for traversal in expected}
    met: set[str] = set()
    remaining: list[Diagnostic] = []
    for problem in diagnostics:
        names = _expected_as(problem) & set(awaited)
        if names:
            met |= names
        elif problem.id == ID_OF_CONDITION["check"]:
            remaining.append(replace(problem, severity=Severity.ERROR))
        else:
            remaining.append(problem)
    return remaining, [_did_not_fail(name, t, header) for name, t in awaited.items() if name not in met]


def _expected_as(problem: Diagnostic) -> set[str]:
    """How a failed condition may be named: its address with and without instance keys."""
    if problem.id not in _CONDITION_FAILURES or not problem.address:
        return set()
    return {problem.address, _INSTANCE_KEY.sub("", problem.address)}


def _address_of(traversal: Traversal) -> str:
    parts = [traversal.root.name]
    for step in traversal.steps:
        if isinstance(step, TraverseAttribute):
            parts.append(f".{step.name}")
        else:
            parts.append(f'["{step.key}"]' if isinstance(step.key, str) else f"[{step.key}]")
    return "".join(parts)


def _did_not_fail(name: str, traversal: Traversal, header: str) -> Diagnostic:
    detail = f"The checkable object, {name}, was expected to report an error but did not."
    return error("missing-expected-failure", detail, traversal.span, block=header)


class _Silent:
    """Nobody listens to the steps of a test."""

    def started(self, event: StepEvent) -> None:
        """A step begins."""

    def progressed(self, event: StepEvent) -> None:
        """It goes on."""

    def ended(self, event: StepEvent) -> None:
        """It ended."""
