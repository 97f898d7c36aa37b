"""Runs of one test file: inputs, plan and apply, assertions, and teardown."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.advice.registry import RULE_IDS
from nexusform.applying.events import StepListener, StepOutcome
from nexusform.backends.memory import MemoryBackend
from nexusform.configuration.declarations.configuration import Condition, Configuration
from nexusform.configuration.loader import (
    check_constant_variables,
    read_given_variables,
    read_root_variables,
)
from nexusform.configuration.reference_checks import check_expression
from nexusform.diagnostics.diagnostic import (
    Diagnostic,
    Severity,
    SourceFile,
    build_error,
    build_warning,
    has_errors,
    suggest_name,
)
from nexusform.diagnostics.levels import MISSING_VALUE
from nexusform.domains.pods.scheduling.workload_warnings import RISKS
from nexusform.domains.testing.configuration.test_file_blocks import RunBlock, TestFile
from nexusform.domains.testing.workflow.tested_configuration import (
    AssertionScope,
    TestFileScope,
    ValueOverrides,
    allow_destruction,
    apply_declared_defaults,
    build_tested_configuration,
    build_untyped_variable,
    collect_value_overrides,
    evaluate_test_variable,
    evaluate_text,
    remove_ephemeral_outputs,
)
from nexusform.interfaces.plugins import Clock
from nexusform.language.evaluator import evaluate_expression
from nexusform.language.syntax.syntax_nodes import Traversal, TraverseAttribute
from nexusform.planning.instances.condition_checks import (
    ID_OF_CONDITION,
    build_failure,
    evaluate_condition,
)
from nexusform.planning.name_resolution.evaluation_settings import (
    StateEvaluation,
    build_state_evaluation,
)
from nexusform.planning.plan_request import PlanRequest
from nexusform.planning.verdicts.separation_rules import SEPARATION_VIOLATED
from nexusform.plans.plan import Mode, Plan
from nexusform.resource_types.registry import build_registries
from nexusform.state.objects import EMPTY, InstanceState, ObjectState, State
from nexusform.values.typed_value import NULL, UNKNOWN, Value, build_object
from nexusform.workflow.opening.command_context import CommandContext
from nexusform.workflow.opening.project import Project
from nexusform.workflow.opening.remote_inputs import RemoteStateReader, ServerResponseCache
from nexusform.workflow.opening.stored_state import StoredState
from nexusform.workflow.opening.system_io import ConfinedFileAccess
from nexusform.workflow.plan_files.plan_execution import ApplyOutcome, PlanApplyOptions, apply_plan
from nexusform.workflow.runs.run import PlanOptions, Run, begin_run, build_base_request
from nexusform.workflow.runs.state_locking import LockOptions

_UNDECLARED = "value-for-undeclared-variable"
# Risks are reported by plan and advise, not by tests.
_RISKS = frozenset({*RULE_IDS, *RISKS, SEPARATION_VIOLATED})
_CONDITION_FAILURES = frozenset(ID_OF_CONDITION.values())
_INSTANCE_KEY = re.compile(r'\["(?:[^"\\]++|\\.)*+"\]|\[\d+\]')


class RunBlockError(Exception):
    """A run failed with an error; it ends the file."""

    def __init__(self, diagnostics: Sequence[Diagnostic], plan: Plan | None = None) -> None:
        """Create the error.

        `plan` is the plan to show, None if there is none.
        """
        super().__init__("the run failed")
        self.diagnostics = list(diagnostics)
        self.plan = plan


class RunOutcome(Struct):
    """Outcome of a completed run.

    With `has_failed`, an assertion failed; later runs are still executed.
    """

    diagnostics: list[Diagnostic]
    plan: Plan
    state: State | None
    has_failed: bool = False


class _AppliedModule(Struct):
    """Applied module, with the data to destroy its resources."""

    project: Project
    overrides: ValueOverrides
    run: str


class RunBlockExecutor(Struct):
    """Executor of the runs of one file.

    States are kept by module, outputs by run.
    """

    context: CommandContext
    file: TestFile
    configuration: Configuration
    var_options: Sequence[tuple[str, str]]
    sources: dict[str, SourceFile]
    clock: Clock
    apply_options: PlanApplyOptions
    outputs: dict[str, Value] = field(default_factory=dict)
    # Variables of the current run that its configuration does not declare.
    _test_variables: dict[str, Value] = field(default_factory=dict)
    _backends: dict[str, MemoryBackend] = field(default_factory=dict)
    _applied_modules: dict[str, _AppliedModule] = field(default_factory=dict)

    def run(self, block: RunBlock, configuration: Configuration) -> RunOutcome:
        """Execute one run.

        Raises RunBlockError.
        """
        own_configuration, problems = apply_declared_defaults(self.configuration, self.file)
        configuration, new_problems = apply_declared_defaults(configuration, self.file)
        problems += [problem for problem in new_problems if problem not in problems]
        # The scope of expressions in the test file: its variables replace those from outside.
        variables, new_problems = self._read_external_variables(own_configuration)
        problems += new_problems
        functions = build_state_evaluation(
            self._build_request(self.configuration)
        ).settings.functions()
        undeclared_variables, new_problems = self._read_undeclared_variables()
        variables |= undeclared_variables
        problems += new_problems
        scope = TestFileScope(functions, variables, self.outputs)
        used_names = block.list_used_variables() | (
            configuration.root.variables.keys() - block.variables.keys()
        )
        for name, expression in self.file.variables.items():
            variable = self.configuration.root.variables.get(name)
            if variable is not None:
                value, new_problems = evaluate_test_variable(variable, expression, scope)
            else:
                # Of another module: its type is unknown here.
                value, new_problems = evaluate_expression(expression, scope)
            # A value that this run does not use may be for a later run.
            if name in used_names:
                problems += new_problems
            if value is not None:
                # In `scope`, too: later expressions may refer to it.
                variables[name] = value
        values, new_problems = self._resolve_variables(block, configuration, scope)
        # An invalid variable of the file was reported above.
        problems += [problem for problem in new_problems if problem not in problems]
        self._test_variables, new_problems = self._evaluate_test_variables(
            block, configuration, scope
        )
        problems += new_problems
        overrides, new_problems = collect_value_overrides(self.file, block, scope)
        problems += new_problems
        tested_configuration, new_problems = build_tested_configuration(
            configuration, self.file, block
        )
        problems += new_problems
        if has_errors(problems):
            raise RunBlockError(problems)
        # Runs with the same key share a state.
        key = block.state_key or block.source
        project = Project(
            # The state is in memory.
            context=replace(self.context, state_path=""),
            configuration=remove_ephemeral_outputs(tested_configuration),
            variables=values,
            sources=self.sources,
            registries=build_registries(),
            files=ConfinedFileAccess(self.context.confinement),
            backend=self._backends.setdefault(key, MemoryBackend()),
            data_values=overrides.data,
            planned_values=overrides.planned,
            remote_states=RemoteStateReader(self.context, tested_configuration.settings),
            servers=ServerResponseCache(self.context),
        )
        with self._open_session(project, overrides) as session:
            outcome = self._execute_run(block, session, tested_configuration, problems)
        if block.command == "apply":
            # The latest apply comes last, and is destroyed first.
            self._applied_modules.pop(key, None)
            self._applied_modules[key] = _AppliedModule(project, overrides, block.name)
        return outcome

    def _read_external_variables(
        self, configuration: Configuration
    ) -> tuple[dict[str, Value], list[Diagnostic]]:
        """Return the variables with a value.

        It comes from the environment, variable files and flags, or from a default.
        """
        variables, problems = read_root_variables(
            configuration,
            environment=self.context.environment,
            var_options=self.var_options,
            directory=self.context.directory,
            confinement=self.context.confinement,
        )
        declared_variables = configuration.root.variables
        values = {
            name: value
            for name, (value, origin) in variables.items()
            # Otherwise it has no value.
            if origin.text != "default" or declared_variables[name].default is not None
        }
        # Each run checks.
        return values, [
            problem for problem in problems if problem.id not in (MISSING_VALUE, _UNDECLARED)
        ]

    def _read_undeclared_variables(self) -> tuple[dict[str, Value], list[Diagnostic]]:
        """Return the values from outside that only the test file uses, and the problems.

        Without a `variable` block in the file, text of the command line or the environment is an
        expression if it can be one.
        """
        declared = self.configuration.root.variables
        file_variables = self.file.declared_variables
        span = self.file.runs[0].span if self.file.runs else None
        used_names = (self.file.list_used_variables() | file_variables.keys()) - declared.keys()
        if span is None or not used_names:
            return {}, []
        variables = {
            name: file_variables.get(name) or build_untyped_variable(name, span)
            for name in sorted(used_names)
        }
        found, problems = read_given_variables(
            variables,
            environment=self.context.environment,
            var_options=self.var_options,
            directory=self.context.directory,
            confinement=self.context.confinement,
        )
        values = {
            name: value
            if origin.span is not None or name in file_variables
            else evaluate_text(value)
            for name, (value, origin) in found.items()
            # Otherwise it has no value.
            if not origin.is_default or variables[name].default is not None
        }
        # A value that only other files use has no declaration here.
        return values, [
            problem for problem in problems if problem.id not in (MISSING_VALUE, _UNDECLARED)
        ]

    def _resolve_variables(
        self, block: RunBlock, configuration: Configuration, scope: TestFileScope
    ) -> tuple[dict[str, Value], list[Diagnostic]]:
        """Return the variables of a run.

        A value is that of its block, else of its file, else from outside, else the default.
        """
        values, problems = self._read_external_variables(configuration)
        declared = configuration.root.variables
        for name, expression in {**self.file.variables, **block.variables}.items():
            variable = declared.get(name)
            if variable is not None:
                value, new_problems = evaluate_test_variable(variable, expression, scope)
                problems += new_problems
                if value is not None:
                    values[name] = value
            elif name in block.variables and name not in block.list_asserted_variables():
                # A variable of the file may be for other modules.
                detail = (
                    "The tested configuration declares no variable "
                    f'"{name}".{suggest_name(name, declared)}'
                )
                problems.append(
                    build_warning(_UNDECLARED, detail, expression.span, block=block.header)
                )
        for name in declared:
            # An error may be the cause.
            if name not in values and not has_errors(problems):
                detail = (
                    f'The required variable "{name}" is not set. Set it in the run block, in the '
                    "file or on the command line."
                )
                problems.append(build_error(MISSING_VALUE, detail, block.span, block=block.header))
        problems += check_constant_variables(configuration, values)
        return values, problems

    def _evaluate_test_variables(
        self, block: RunBlock, configuration: Configuration, scope: TestFileScope
    ) -> tuple[dict[str, Value], list[Diagnostic]]:
        """Return the variables of the file and the run that the configuration does not declare.

        Assertions and the variables of runs may refer to them.
        """
        declared = configuration.root.variables
        values = {
            name: value
            for name, value in scope.variables.items()
            if name not in declared
            and (name in self.file.variables or name not in self.configuration.root.variables)
        }
        problems: list[Diagnostic] = []
        for name, expression in block.variables.items():
            if name not in declared:
                value, new_problems = evaluate_expression(expression, scope)
                problems += new_problems
                values[name] = value
        return values, problems

    def _build_request(self, configuration: Configuration) -> PlanRequest:
        """Build the request to evaluate a configuration without a state and variables."""
        files = ConfinedFileAccess(self.context.confinement)
        project = Project(
            context=self.context,
            configuration=configuration,
            variables={},
            sources={},
            registries=build_registries(),
            files=files,
            backend=MemoryBackend(),
        )
        return build_base_request(project, StoredState(EMPTY))

    @contextmanager
    def _open_session(self, project: Project, overrides: ValueOverrides) -> Iterator[Run]:
        """Open a run without a lock, with the overrides on its providers.

        Raises RunBlockError.
        """
        locking = LockOptions(enabled=False, is_exclusive=True)
        with begin_run(project, "OperationTypeTest", locking, clock=self.clock) as session:
            if not session.is_ready:
                raise RunBlockError(session.diagnostics)
            session.providers = overrides.wrap_providers(session.providers)
            yield session

    def _execute_run(
        self,
        block: RunBlock,
        session: Run,
        configuration: Configuration,
        problems: list[Diagnostic],
    ) -> RunOutcome:
        """Plan, apply if requested, and evaluate the assertions.

        Assertions read all outputs of `configuration`. `problems` has the warnings so far and
        gets those of the plan. Raises RunBlockError for an unexpected error. If an expected
        failure is missing, the run fails as by an assertion, and later runs follow.
        """
        options = PlanOptions(
            mode=Mode(block.mode),
            refresh=block.refresh,
            dry_run_skip_reason="" if block.refresh else "refresh = false calls no provider",
            targets=block.target_addresses,
            replaces=block.replace_addresses,
        )
        plan = session.plan(options).plan
        # A test does not report the risks of a plan.
        relevant_diagnostics = [
            d for d in plan.diagnostics if d.id not in _RISKS or d.severity is Severity.ERROR
        ]
        unexpected_problems, missing_failures = filter_expected_failures(
            block.expected_failures, relevant_diagnostics, block.header
        )
        problems += unexpected_problems
        if has_errors(unexpected_problems):
            raise RunBlockError([*problems, *missing_failures], plan)
        outcome = (
            self._handle_failed_plan(block, session, configuration, plan, problems)
            if plan.errored
            else self._finish_run(block, session, configuration, plan, problems)
        )
        if not missing_failures:
            return outcome
        return replace(
            outcome, diagnostics=[*outcome.diagnostics, *missing_failures], has_failed=True
        )

    def _finish_run(
        self,
        block: RunBlock,
        session: Run,
        configuration: Configuration,
        plan: Plan,
        problems: list[Diagnostic],
    ) -> RunOutcome:
        """Apply the plan if requested, and evaluate the assertions.

        Raises RunBlockError for a failed apply.
        """
        state = _build_planned_state(session, plan)
        if block.command == "apply":
            outcome = apply_plan(session, plan, StepListener(), self.apply_options)
            new_problems = _build_apply_failure_errors(outcome)
            problems += new_problems
            if has_errors(new_problems):
                raise RunBlockError(problems, plan)
            state = outcome.applied.state
        has_failed = self._evaluate_assertions(block, session, configuration, state, problems)
        return RunOutcome(problems, plan, state if block.command == "apply" else None, has_failed)

    def _handle_failed_plan(
        self,
        block: RunBlock,
        session: Run,
        configuration: Configuration,
        plan: Plan,
        problems: list[Diagnostic],
    ) -> RunOutcome:
        """Evaluate the assertions after expected errors.

        Raises RunBlockError for an apply, or errors in `problems`.
        """
        if not has_errors(problems) and block.command == "apply":
            problems += [d for d in plan.diagnostics if d.severity is Severity.ERROR]
            detail = (
                "Conditions failed during the plan, as expected, so this run cannot apply it. Use "
                "command = plan if the plan is expected to fail."
            )
            problems.append(
                build_error("expected-failure-in-plan", detail, block.span, block=block.header)
            )
        if has_errors(problems):
            raise RunBlockError(problems, plan)
        addresses_with_errors = {
            item.address for item in plan.diagnostics if item.severity is Severity.ERROR
        }
        # Assertions read null in place of these.
        failed_outputs = set()
        for name, output in plan.root_values.planned_outputs.items():
            if output.value is UNKNOWN or f"output.{name}" in addresses_with_errors:
                failed_outputs.add(name)
        state = _build_planned_state(session, plan)
        has_failed = self._evaluate_assertions(
            block, session, configuration, state, problems, frozenset(failed_outputs)
        )
        return RunOutcome(problems, plan, state=None, has_failed=has_failed)

    def _evaluate_assertions(
        self,
        block: RunBlock,
        session: Run,
        configuration: Configuration,
        state: State,
        problems: list[Diagnostic],
        # Without a value after an expected failure: null.
        failed_outputs: frozenset[str] = frozenset(),
    ) -> bool:
        """Return whether an assertion failed; record the outputs of the run.

        Raises RunBlockError for an error.
        """
        project = replace(session.project, configuration=configuration)
        request = build_base_request(project, StoredState(state))
        evaluation = build_state_evaluation(replace(request, is_applying=block.command == "apply"))
        scope = AssertionScope(
            evaluation.build_scope(evaluation.root),
            self.outputs,
            failed_outputs,
            self._test_variables,
        )
        has_failed = False
        for condition in block.assertions:
            status, new_problems = _evaluate_assertion(condition, block, scope, evaluation)
            problems += new_problems
            if status == "error":
                raise RunBlockError(problems)
            has_failed |= status == "fail"
        outputs = configuration.root.outputs
        self.outputs[block.name] = build_object(
            {
                name: NULL
                if name in failed_outputs
                else evaluation.get_output(evaluation.root, name)
                for name in outputs
            }
        )
        return has_failed

    def destroy_resources(self, report_teardown: Callable[[str], None]) -> list[Diagnostic]:
        """Destroy the resources of each state, latest first.

        `report_teardown` gets the name of its last apply run.
        """
        problems: list[Diagnostic] = []
        for applied_module in reversed(self._applied_modules.values()):
            report_teardown(applied_module.run)
            configuration = applied_module.project.configuration
            project = replace(
                applied_module.project,
                configuration=replace(configuration, root=allow_destruction(configuration.root)),
            )
            try:
                with self._open_session(project, applied_module.overrides) as session:
                    plan = session.plan(PlanOptions(mode=Mode.DESTROY, refresh=False)).plan
                    problems += [d for d in plan.diagnostics if d.severity is Severity.ERROR]
                    if not plan.errored:
                        outcome = apply_plan(session, plan, StepListener(), self.apply_options)
                        problems += _build_apply_failure_errors(outcome)
            except RunBlockError as failed:
                problems += failed.diagnostics
        return problems


def _evaluate_assertion(
    condition: Condition, block: RunBlock, scope: AssertionScope, evaluation: StateEvaluation
) -> tuple[str, list[Diagnostic]]:
    """Return "pass", "fail" or "error" (also for an unknown value), with the diagnostics."""
    root = scope.inner.instance.module
    schemas = build_registries().schemas
    # These names are allowed in assertions only.
    names = ("run", "output", *(f"var.{name}" for name in scope.test_variables))
    diagnostics: list[Diagnostic] = []
    for expression in (condition.condition, condition.error_message):
        diagnostics += check_expression(
            expression, root, schemas["managed"], schemas["data"], extra_names=names
        )
    if has_errors(diagnostics):
        return "error", [replace(d, block=block.header) for d in diagnostics]
    # The evaluation adds those of the condition.
    previous_count = len(evaluation.diagnostics)
    status, message = evaluate_condition(condition, evaluation, scope, address="")
    diagnostics = [
        replace(d, block=d.block or block.header) for d in evaluation.diagnostics[previous_count:]
    ]
    if status == "fail":
        diagnostics.append(
            build_failure(condition, "assert", message, address="", block=block.header, scope=scope)
        )
    elif status == "unknown":
        detail = (
            "The condition depends on a value that is known only after apply. Remove the value "
            "from the condition, or set command = apply."
        )
        diagnostics.append(
            build_error(
                "unknown-condition-value", detail, condition.condition.span, block=block.header
            )
        )
        status = "error"
    return status, diagnostics


def _build_planned_state(session: Run, plan: Plan) -> State:
    """Return the state after a plan; computed values may be unknown.

    After a refresh-only plan, objects are as read.
    """
    state = session.stored.state
    if plan.options.mode is Mode.REFRESH_ONLY:
        instances = dict(state.instances)
        for address, refreshed_object in plan.observed.refreshed_objects.items():
            # It no longer exists.
            if refreshed_object is None:
                instances.pop(address, None)
            else:
                instances[address] = InstanceState(refreshed_object)
        return replace(state, instances=instances)
    instances = {}
    for change in plan.changes:
        # Only current objects.
        if change.after is not None and not change.deposed:
            planned_object = ObjectState(change.after, change.creation, change.sensitive_after)
            instances[change.address] = InstanceState(planned_object)
    return replace(state, instances=instances)


def _build_apply_failure_errors(outcome: ApplyOutcome) -> list[Diagnostic]:
    """Return the failures of an apply."""
    errors = [
        build_error("apply-failed", event.error, address=event.address)
        for event in outcome.applied.end_events
        if event.outcome is StepOutcome.FAILED
    ]
    return [*errors, *outcome.diagnostics]


def filter_expected_failures(
    expected_failures: Sequence[Traversal], diagnostics: Iterable[Diagnostic], header: str
) -> tuple[list[Diagnostic], list[Diagnostic]]:
    """Return the unexpected problems, and one for each expected failure that did not occur.

    An expected failure of an object without an instance key, such as `nexus_site.a`, includes those
    of all its instances. Other problems than failed conditions are never expected.
    """
    expected_by_name = {_format_address(traversal): traversal for traversal in expected_failures}
    matched_names: set[str] = set()
    unexpected_problems: list[Diagnostic] = []
    for problem in diagnostics:
        expected_names: set[str] = set()
        if problem.id in _CONDITION_FAILURES:
            expected_names = {
                problem.address,
                _INSTANCE_KEY.sub("", problem.address),
            } & expected_by_name.keys()
        if expected_names:
            matched_names |= expected_names
        elif problem.id == ID_OF_CONDITION["check"]:
            # In a plan it is a warning.
            unexpected_problems.append(replace(problem, severity=Severity.ERROR))
        else:
            unexpected_problems.append(problem)
    missing_failure_errors = []
    for name, traversal in expected_by_name.items():
        if name not in matched_names:
            detail = f"The checkable object, {name}, was expected to report an error but did not."
            missing_failure_errors.append(
                build_error("missing-expected-failure", detail, traversal.span, block=header)
            )
    return unexpected_problems, missing_failure_errors


def _format_address(traversal: Traversal) -> str:
    """Format a reference as in plans: `output.size`, `nexus_site.a["lon1"]`."""
    parts = [traversal.root.name]
    for step in traversal.steps:
        if isinstance(step, TraverseAttribute):
            parts.append(f".{step.name}")
        else:
            parts.append(f'["{step.key}"]' if isinstance(step.key, str) else f"[{step.key}]")
    return "".join(parts)
