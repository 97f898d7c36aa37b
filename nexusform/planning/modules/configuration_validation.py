"""Validation of a configuration without state and placement: every mistake at once.

Values that depend on unset variables, on repetition or on resources are unknown.
"""

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.configuration.declarations.configuration import (
    Condition,
    Configuration,
    ModuleCall,
    ResourceBlock,
)
from nexusform.configuration.reference_checks import check_references
from nexusform.diagnostics.diagnostic import Diagnostic, Severity, Span
from nexusform.interfaces.plugins import PlanningKind, PluginRegistries
from nexusform.json_data.plain_data import get_mapping
from nexusform.planning.instances import argument_evaluation
from nexusform.planning.instances.instance import Instance
from nexusform.planning.modules.root_outputs import check_sensitive_output
from nexusform.planning.name_resolution.evaluation_settings import (
    PreparedBodyCache,
    build_evaluation_settings,
)
from nexusform.planning.name_resolution.instance_scope import EvaluationSettings, ModuleInstance
from nexusform.planning.name_resolution.name_evaluation import Evaluation
from nexusform.planning.name_resolution.repetition import SINGLE_INSTANCE
from nexusform.planning.plan_request import PlanRequest
from nexusform.planning.preparation.planning_order import compute_planning_order, iterate_modules
from nexusform.planning.preparation.prior_state import iterate_requested_imports
from nexusform.planning.vm_planning.site_plans import collect_vm_skus
from nexusform.plans.plan import Mode
from nexusform.resources.address import Address, ModulePathStep
from nexusform.scheduling.site_inventory import PlanInventory
from nexusform.values.typed_value import EPHEMERAL, Value, build_unknown


def validate_configuration(request: PlanRequest, *, is_plan: bool = True) -> list[Diagnostic]:
    """Return all problems independent of state and placement.

    If references form cycles, return only problems of references. In a plan (`is_plan`), a
    failed precondition hides the problems of its block, as in Terraform: the plan itself
    reports the precondition.
    """
    configuration = request.configuration
    registries = request.registries
    schemas = registries.schemas
    reference_problems = check_references(configuration, schemas["managed"], schemas["data"])
    problems = list(reference_problems)
    _, cycles = compute_planning_order(configuration, registries.resource_types)
    if cycles:
        return [*problems, *cycles]
    bodies = PreparedBodyCache(schemas)
    settings = build_evaluation_settings(request, bodies, request.state)
    settings = mark_unset_variables_unknown(settings, configuration, request.variables)
    # The evaluation below reports invalid expressions.
    problems += check_move_blocks(request, Evaluation(settings))
    evaluation = Evaluation(settings)
    skus = _find_numa_cells_of_skus(request, evaluation)
    for module in iterate_modules(configuration.root):
        # A placeholder for every instance of the module, with unknown variables.
        instance = ModuleInstance(tuple(map(ModulePathStep, module.path)), module)
        problems += _ModuleValidator(
            instance, registries, bodies, evaluation, skus, is_plan
        ).validate()
    problems += bodies.diagnostics
    problems += remove_errors_of_rejected_references(evaluation.diagnostics, reference_problems)
    return problems


def remove_errors_of_rejected_references(
    diagnostics: Iterable[Diagnostic], reference_problems: Iterable[Diagnostic]
) -> list[Diagnostic]:
    """Return the diagnostics of evaluation without those inside a rejected reference.

    A missing or unexpected key, or a misspelled output, is one error, reported before evaluation.
    """
    rejected_spans = [
        problem.context or problem.subject
        for problem in reference_problems
        if problem.id in _REFERENCE_ERRORS
    ]
    return [
        diagnostic
        for diagnostic in diagnostics
        if not any(_is_inside(diagnostic.subject, span) for span in rejected_spans)
    ]


_REFERENCE_ERRORS: Final = frozenset(
    {"missing-instance-key", "unexpected-instance-key", "unsupported-attribute"}
)


def _is_inside(inner: Span | None, outer: Span | None) -> bool:
    """Return whether a range of a file is a part of another one; False without a range."""
    return (
        inner is not None
        and outer is not None
        and inner.filename == outer.filename
        and outer.start <= inner.start
        and inner.end <= outer.end
    )


def _find_numa_cells_of_skus(
    request: PlanRequest, evaluation: Evaluation
) -> Mapping[str, int] | None:
    """Return the NUMA cells of every SKU by name; 1 if unknown.

    Return None if the configuration declares a SKU with a name unknown before planning, or a site
    with SKUs of its own.
    """
    catalogue_skus, _ = collect_vm_skus(request, PlanInventory())
    numa_cells = {name: sku.numa_cells for name, sku in catalogue_skus.items()}
    for module in iterate_modules(request.configuration.root):
        for block in module.resources.values():
            declared = request.registries.resource_types.get(block.type)
            if block.mode == "managed" and declared is not None and declared.has_own_skus:
                return None
            if (
                block.mode == "data"
                or request.registries.get_kind(block.type) is not PlanningKind.VM_SKU
            ):
                continue
            prepared = evaluation.settings.get_body(block)
            # An invalid block.
            if prepared is None:
                return None
            # One instance stands for all.
            instance = ModuleInstance(tuple(map(ModulePathStep, module.path)), module)
            values, _, _ = prepared.evaluate(evaluation.build_scope(instance))
            name = values.get("name") or block.name
            # The block has several names, or one that is not known yet.
            if not isinstance(name, str) or _has_count_or_for_each(block):
                return None
            own_cells = values.get("numa_cells")
            numa_cells[name] = own_cells if isinstance(own_cells, int) else 1
    return numa_cells


def mark_unset_variables_unknown(
    settings: EvaluationSettings, configuration: Configuration, values: Mapping[str, Value]
) -> EvaluationSettings:
    """Return the settings with unknown values for unset variables.

    Data sources are not read.
    """
    variables = {
        name: values.get(name, build_unknown(declared.type))
        for name, declared in configuration.root.variables.items()
    }
    return replace(
        settings,
        variables=variables,
        read_data=lambda _block, _arguments, _address: (None, []),
        is_tentative=True,
    )


class _ModuleValidator(Struct, frozen=True):
    # Validator of one module; `skus` has the NUMA cells of all VM SKUs by name, None if
    # not all names are known.
    instance: ModuleInstance
    registries: PluginRegistries
    bodies: PreparedBodyCache
    evaluation: Evaluation
    skus: Mapping[str, int] | None
    is_plan: bool

    def validate(self) -> list[Diagnostic]:
        """Evaluate everything in the module; return its problems.

        The evaluation keeps the problems of expressions.
        """
        module = self.instance.module
        evaluation = self.evaluation
        is_child_module = bool(self.instance.path)
        problems: list[Diagnostic] = []
        # The root module has the variables of the request.
        if is_child_module:
            for name, declared in module.variables.items():
                unknown = build_unknown(declared.type).add_marks(declared.marks & EPHEMERAL)
                evaluation.set_variable(self.instance, name, unknown)
        for name in module.locals:
            evaluation.get_local(self.instance, name)
        for name, output in module.outputs.items():
            value = evaluation.get_output(self.instance, name)
            if not is_child_module:
                problems += check_sensitive_output(output, value)
        scope = evaluation.build_scope(self.instance)
        problems += self._validate_conditions()
        # For their problems; values may be unknown.
        for import_block in module.imports:
            list(iterate_requested_imports(import_block, self.instance, evaluation, problems))
        for block in module.all_blocks:
            problems += self._validate_block_without_state(block)
        for call in module.calls.values():
            expansion, repetition_problems = evaluation.expand_block(call, scope)
            problems += repetition_problems
            if expansion.repetitions or expansion.unknown:
                # A plan reports the failed rules of each instance.
                problems += self._validate_call(call, evaluation, checks_rules=not self.is_plan)
            else:
                # Its count may guard against the values of variables: `var.size > 0 ? 1 : 0`.
                problems += self._validate_call(
                    call, self._build_evaluation_without_values(), checks_rules=True
                )
        return problems

    def _build_evaluation_without_values(self) -> Evaluation:
        """Return an evaluation with unknown variables and the locals of the module.

        The problems of the locals are reported elsewhere.
        """
        # The variables of a child module are unknown.
        if self.instance.path:
            return self.evaluation
        settings = self.evaluation.settings
        evaluation = Evaluation(mark_unset_variables_unknown(settings, settings.configuration, {}))
        for name in self.instance.module.locals:
            evaluation.get_local(self.instance, name)
        return evaluation

    def _validate_call(
        self, call: ModuleCall, outer_evaluation: Evaluation, *, checks_rules: bool
    ) -> list[Diagnostic]:
        """Return the problems of the values that a call passes to the variables of its module.

        The plan computes them in the same way, for every instance. Here each.* and count.* are
        unknown, and calls without instances count, too. With `checks_rules`, validation rules
        are checked, too.
        """
        # The module itself is validated with unknown variables.
        evaluation = outer_evaluation.create_tentative_copy()
        instance = ModuleInstance(
            (*self.instance.path, ModulePathStep(call.name)), call.module, call, self.instance
        )
        problems: list[Diagnostic] = []
        for name, (expression, _span) in call.inputs.items():
            # An argument without a variable: reported, but its value may have errors, too.
            if name not in call.module.variables:
                evaluation.evaluate_expression(expression, evaluation.build_scope(self.instance))
        for variable in call.module.variables.values():
            evaluation.get_variable(instance, variable)
            if variable.validations and checks_rules:
                # Loaded on first use.
                from nexusform.planning.modules.module_conditions import check_validations

                problems += check_validations(instance, variable, evaluation).problems
        return [*evaluation.diagnostics, *problems]

    def _validate_conditions(self) -> list[Diagnostic]:
        """Return the problems of checks, as warnings.

        The evaluation keeps the problems of other conditions.
        """
        module = self.instance.module
        conditions: list[Condition] = []
        for variable in module.variables.values():
            conditions += variable.validations
        for output in module.outputs.values():
            conditions += output.preconditions
        for block in module.all_blocks:
            conditions += (*block.lifecycle.preconditions, *block.lifecycle.postconditions)
        asserts = [*chain.from_iterable(check.asserts for check in module.checks)]
        # Nothing to check, so no module is loaded.
        if not conditions and not asserts:
            return []
        from nexusform.planning.instances.condition_checks import evaluate_condition

        scope = self.evaluation.build_scope(self.instance)
        for condition in conditions:
            evaluate_condition(condition, self.evaluation, scope, address="")
        check_evaluation = self.evaluation.create_reporting_copy()
        for condition in asserts:
            evaluate_condition(condition, check_evaluation, scope, address="")
        return [
            replace(problem, severity=Severity.WARNING) for problem in check_evaluation.diagnostics
        ]

    def _validate_block_without_state(self, block: ResourceBlock) -> list[Diagnostic]:
        """Return the problems of one block independent of state.

        The evaluation keeps the problems of expressions.
        """
        sources = self.registries.data_sources
        types = self.registries.resource_types
        resource_type = (sources if block.mode == "data" else types).get(block.type)
        prepared = self.bodies.get_body(block)
        scope = self.evaluation.build_scope(self.instance)
        if block.lifecycle.prevent_destroy_condition is not None:
            # For its errors.
            self.evaluation.evaluate_expression(block.lifecycle.prevent_destroy_condition, scope)
        expansion, repetition_problems = self.evaluation.expand_block(block, scope)
        # An unknown type has no arguments to check.
        if resource_type is None or prepared is None:
            return repetition_problems
        address = Address(self.instance.path, block.mode, block.type, block.name)
        instance = Instance(
            address=address,
            type=resource_type,
            prior=None,
            block=block,
            module=self.instance,
            # `each` and `count` are unknown.
            repetition=SINGLE_INSTANCE,
            prepared=prepared,
        )
        problems = argument_evaluation.evaluate_arguments(instance, self.evaluation)
        if self.is_plan and not self.evaluation.is_every_condition_met(
            block.lifecycle.preconditions, scope
        ):
            # As in Terraform, a failed precondition hides them.
            problems = []
        # Without instances, none needs a name.
        if not (expansion.repetitions or expansion.unknown):
            problems = [
                problem for problem in problems if not _is_instance_name_problem(problem, block)
            ]
        problems += repetition_problems
        if resource_type.vms is not None and self.skus is not None:
            unknown_skus = resource_type.vms.check_skus(get_mapping(instance.config), self.skus)
            problems += instance.build_diagnostics(unknown_skus)
        return problems


def _has_count_or_for_each(block: ResourceBlock) -> bool:
    return block.count is not None or block.for_each is not None


def _is_instance_name_problem(problem: Diagnostic, block: ResourceBlock) -> bool:
    """Return whether a problem is the error about the missing `name` of a repeated block.

    It has `count` or `for_each`: "the block's own name can be used only once".

    Planned instances need different names; a block without instances needs none.
    """
    is_missing_argument = (
        problem.severity is Severity.ERROR and problem.id == "missing-required-argument"
    )
    # The evaluation of an instance reports only `name` at the block's header. Other arguments
    # are checked earlier.
    return (
        _has_count_or_for_each(block)
        and is_missing_argument
        and problem.subject == block.header_span
    )


def check_move_blocks(request: PlanRequest, evaluation: Evaluation) -> list[Diagnostic]:
    """Return the problems of `moved` and `removed` blocks.

    `removed` blocks are checked only in normal and destroy plans.
    """
    configuration = request.configuration
    # Nothing to move or destroy.
    if request.mode is Mode.DESTROY and not request.state.instances:
        return []
    checks_removals = request.mode in {Mode.NORMAL, Mode.DESTROY}
    modules = iterate_modules(configuration.root)
    if not any(
        module.moved_blocks or (checks_removals and module.removed_blocks) for module in modules
    ):
        # Nothing to check.
        return []
    from nexusform.planning.modules.move_checks import check_moved_blocks, check_removed_blocks

    problems = list(check_removed_blocks(configuration)) if checks_removals else []
    return problems + check_moved_blocks(configuration, evaluation)
