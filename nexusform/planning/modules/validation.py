"""What can be said of a configuration without state and without placing anything: every mistake at
once. Values that depend on variables without a value, on repetition or on resources are unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from nexusform.address import Address, ModuleStep
from nexusform.configuration.declared.configuration import Condition, Configuration, Module, ResourceBlock
from nexusform.configuration.reference_checks import check_references
from nexusform.diagnostics import Diagnostic, Severity
from nexusform.planning.instances import argument_evaluation
from nexusform.planning.instances.instance import Instance
from nexusform.planning.modules.outputs import shown_secrets
from nexusform.planning.names.evaluation import Evaluation
from nexusform.planning.names.repetition import ONCE
from nexusform.planning.names.scope import ModuleInstance, Setting
from nexusform.planning.names.setting import PreparedBodies, setting_for
from nexusform.planning.preparation.order import modules, planning_order
from nexusform.planning.request import PlanRequest
from nexusform.planning.vms.sites import vm_skus
from nexusform.plans.plan import Mode
from nexusform.ports import Kind, Registries
from nexusform.scheduling.world import Inventory
from nexusform.values import Value, unknown


def validate(request: PlanRequest) -> list[Diagnostic]:
    """Check everything that can be checked. Of the request, state is not looked at."""
    configuration, registries = request.configuration, request.registries
    schemas = registries.schemas
    problems = check_references(configuration, schemas["managed"], schemas["data"])
    _, cycles = planning_order(configuration, registries.resource_types)
    if cycles:
        return [*problems, *cycles]
    bodies = PreparedBodies(schemas)
    setting = setting_for(request, bodies, request.state)
    setting = unknowing(setting, configuration, request.variables)
    problems += problems_of_moves(request, Evaluation(setting))
    evaluation = Evaluation(setting)
    skus = _known_skus(request, evaluation)
    for module in modules(configuration.root):
        problems += _Module(_some_instance(module), registries, bodies, evaluation, skus).problems()
    return [*problems, *bodies.diagnostics, *evaluation.diagnostics]


def _known_skus(request: PlanRequest, evaluation: Evaluation) -> frozenset[str] | None:
    """All SKU names, None when the configuration declares one whose name is not known yet."""
    catalogued, _ = vm_skus(request, Inventory())
    names = set(catalogued)
    for module in modules(request.configuration.root):
        for block in module.resources.values():
            resource_type = request.registries.resource_types.get(block.type)
            if block.mode == "data" or resource_type is None or resource_type.kind is not Kind.VM_SKU:
                continue
            prepared = evaluation.setting.prepared(block)
            if prepared is None:
                return None
            values, _, _ = prepared.evaluate(evaluation.scope(_some_instance(module)))
            name = values.get("name") or block.name
            if not isinstance(name, str) or _repeats(block):
                return None
            names.add(name)
    return frozenset(names)


def _some_instance(module: Module) -> ModuleInstance:
    """Stands for every instance of a module: its variables are unknown."""
    return ModuleInstance(tuple(ModuleStep(name) for name in module.path), module)


def unknowing(setting: Setting, configuration: Configuration, known: Mapping[str, Value]) -> Setting:
    """The setting with unknown variables where no value is known, and data sources unread."""
    variables = {
        name: known.get(name, unknown(declared.type))
        for name, declared in configuration.root.variables.items()
    }
    return replace(
        setting,
        variables=variables,
        read_data=lambda _block, _arguments, _address: (None, []),
        tentative=True,
    )


class _Module(Struct, frozen=True):
    # One module while it is checked; `skus` are the names of all VM SKUs, None when not all are known.
    instance: ModuleInstance
    registries: Registries
    bodies: PreparedBodies
    evaluation: Evaluation
    skus: frozenset[str] | None

    def problems(self) -> list[Diagnostic]:
        """What is wrong with the module; what evaluation finds is in the evaluation's diagnostics."""
        module, evaluation = self.instance.module, self.evaluation
        below_root = bool(self.instance.path)
        problems: list[Diagnostic] = []
        if below_root:
            for name, declared in module.variables.items():
                evaluation.assume(self.instance, name, unknown(declared.type))
        for name in module.locals:
            evaluation.local(self.instance, name)
        for name, output in module.outputs.items():
            value = evaluation.output(self.instance, name)
            problems += [] if below_root else shown_secrets(output, value)
        self._evaluate_conditions()
        for block in module.resources.values():
            problems += self._block_problems(block)
        for call in module.calls.values():
            scope = evaluation.scope(self.instance)
            for expression, _span in call.inputs.values():
                evaluation.evaluated(expression, scope)
        return problems

    def _evaluate_conditions(self) -> None:
        """What is wrong with the conditions themselves; whether they hold is for plans to say.

        Those of check blocks only ever warn, in plans.
        """
        scope = self.evaluation.scope(self.instance)
        for condition in _conditions(self.instance.module):
            self.evaluation.evaluated(condition.condition, scope)
            self.evaluation.evaluated(condition.error_message, scope)

    def _block_problems(self, block: ResourceBlock) -> list[Diagnostic]:
        """What can be said of one block without any state."""
        sources, types = self.registries.data_sources, self.registries.resource_types
        resource_type = (sources if block.mode == "data" else types).get(block.type)
        prepared = self.bodies.of(block)
        expansion, repetition_problems = self.evaluation.expansion(
            block, self.evaluation.scope(self.instance)
        )
        if resource_type is None or prepared is None:
            return repetition_problems
        address = Address(self.instance.path, block.mode, block.type, block.name)
        instance = Instance(
            address=address,
            type=resource_type,
            prior=None,
            block=block,
            module=self.instance,
            repetition=ONCE,
            prepared=prepared,
        )
        problems = argument_evaluation.evaluate(instance, self.evaluation)
        if expansion is None or not (expansion.repetitions or expansion.unknown):
            problems = [problem for problem in problems if not _about_repetition(problem, block)]
        problems += repetition_problems
        if resource_type.vms is not None and instance.config is not None and self.skus is not None:
            unknown_skus = resource_type.vms.unknown_skus(instance.config, self.skus)
            problems += [instance.problem(problem) for problem in unknown_skus]
        return problems


def _conditions(module: Module) -> Iterator[Condition]:
    """The conditions of a module that can be evaluated without knowing an instance."""
    for variable in module.variables.values():
        yield from variable.validations
    for output in module.outputs.values():
        yield from output.preconditions
    single = [block for block in module.resources.values() if not _repeats(block)]
    for block in single:
        yield from block.lifecycle.preconditions
    for block in single:
        yield from block.lifecycle.postconditions


def _repeats(block: ResourceBlock) -> bool:
    return block.count is not None or block.for_each is not None


def _about_repetition(problem: Diagnostic, block: ResourceBlock) -> bool:
    """A problem that only the instances of a block have: their name, which no default can be."""
    return (
        _repeats(block)
        and problem.severity is Severity.ERROR
        and problem.id == "missing-required-argument"
        and problem.subject == block.header_span
    )


def problems_of_moves(request: PlanRequest, evaluation: Evaluation) -> list[Diagnostic]:
    """What is wrong with `moved` and `removed` blocks; the latter say nothing where nothing is taken away,
    both nothing where there is nothing to destroy.
    """
    configuration = request.configuration
    if request.mode is Mode.DESTROY and not request.state.instances:
        return []
    has_moved = any(module.moved for module in modules(configuration.root))
    has_removed = any(module.removed for module in modules(configuration.root))
    takes_away = request.mode in {Mode.NORMAL, Mode.DESTROY}
    if not has_moved and not (has_removed and takes_away):
        return []
    from nexusform.planning.modules.moving_checks import moving_problems, removal_problems

    problems = list(removal_problems(configuration)) if takes_away else []
    return problems + moving_problems(configuration, evaluation)
