"""What can be said of a configuration without state and without placing anything: every mistake at
once. Values that depend on variables without a value, on repetition or on resources are unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec.structs import replace

from nexusform.address import Address, ModuleStep
from nexusform.configuration.model import Configuration, Module, ResourceBlock
from nexusform.configuration.references import check_references
from nexusform.diagnostics import Diagnostic, Severity
from nexusform.planning.instances.instance import Instance, evaluate_arguments
from nexusform.planning.modules.outputs import shown_secrets
from nexusform.planning.names.bodies import PreparedBodies
from nexusform.planning.names.evaluation import Evaluation, ModuleInstance, Setting
from nexusform.planning.names.repetition import ONCE, expand
from nexusform.planning.names.setting import setting_for
from nexusform.planning.preparation.order import modules, planning_order
from nexusform.planning.request import PlanRequest
from nexusform.planning.vms.surroundings import vm_skus
from nexusform.ports import Kind, Registries
from nexusform.scheduling.world import Inventory
from nexusform.values import Value, unknown


def validate(configuration: Configuration, registries: Registries, request: PlanRequest) -> list[Diagnostic]:
    """Check everything that can be checked. `request` gives files, time and, where they are known,
    variables; its state is not looked at.
    """
    schemas = registries.schemas
    problems = check_references(configuration, schemas["managed"], schemas["data"])
    _, cyclic = planning_order(configuration, registries.resource_types)
    if cyclic:
        return [*problems, *cyclic]
    bodies = PreparedBodies(schemas)
    setting = _unknowing(setting_for(request, bodies), configuration, request.variables)
    evaluation = Evaluation(setting)
    skus = _known_skus(configuration, request, evaluation)
    for module in modules(configuration.root):
        problems += _module(_some_instance(module), registries, bodies, evaluation, skus)
    return [*problems, *bodies.diagnostics, *evaluation.diagnostics]


def _known_skus(
    configuration: Configuration, request: PlanRequest, evaluation: Evaluation
) -> frozenset[str] | None:
    """All SKU names, None when the configuration declares one whose name is not known yet."""
    catalogued, _ = vm_skus(request, Inventory())
    names = set(catalogued)
    for module in modules(configuration.root):
        for block in module.resources.values():
            resource_type = request.registries.resource_types.get(block.type)
            if block.mode != "managed" or resource_type is None or resource_type.kind is not Kind.VM_SKU:
                continue
            prepared = evaluation.setting.prepared(block)
            if prepared is None:
                return None
            values, _, _ = prepared.evaluate(evaluation.scope(_some_instance(module)))
            name = values.get("name") or block.name
            if not isinstance(name, str) or block.count is not None or block.for_each is not None:
                return None
            names.add(name)
    return frozenset(names)


def _some_instance(module: Module) -> ModuleInstance:
    """Stands for every instance of a module: its variables are unknown."""
    return ModuleInstance(tuple(ModuleStep(name) for name in module.path), module)


def _unknowing(setting: Setting, configuration: Configuration, given: Mapping[str, Value]) -> Setting:
    """The setting with unknown variables where none is given, and data sources unread."""
    variables = {
        name: given.get(name, unknown(declared.type))
        for name, declared in configuration.root.variables.items()
    }
    return replace(
        setting,
        variables=variables,
        read_data=lambda _block, _arguments, _address: (None, []),
        tentative=True,
    )


def _module(
    instance: ModuleInstance,
    registries: Registries,
    bodies: PreparedBodies,
    evaluation: Evaluation,
    skus: Collection[str] | None,
) -> list[Diagnostic]:
    module = instance.module
    found: list[Diagnostic] = []
    if instance.path:
        for name, declared in module.variables.items():
            evaluation.assume(instance, name, unknown(declared.type))
    for name in module.locals:
        evaluation.local(instance, name)
    for name, output in module.outputs.items():
        value = evaluation.output(instance, name)
        found += [] if instance.path else shown_secrets(output, value)
    _conditions(instance, evaluation)
    for block in module.resources.values():
        found += _block(block, instance, registries, bodies, evaluation, skus)
    for call in module.calls.values():
        scope = evaluation.scope(instance)
        for expression, _span in call.inputs.values():
            evaluation.evaluated(expression, scope)
    return found


def _conditions(instance: ModuleInstance, evaluation: Evaluation) -> None:
    """What is wrong with the conditions themselves; whether they hold is for plans to say.

    Those of check blocks only ever warn, in plans.
    """
    module, scope = instance.module, evaluation.scope(instance)
    blocks = module.resources.values()
    for condition in (
        *(c for variable in module.variables.values() for c in variable.validations),
        *(c for output in module.outputs.values() for c in output.preconditions),
        *(c for b in blocks if not _repeats(b) for c in b.lifecycle.preconditions),
        *(c for b in blocks if not _repeats(b) for c in b.lifecycle.postconditions),
    ):
        evaluation.evaluated(condition.condition, scope)
        evaluation.evaluated(condition.error_message, scope)


def _repeats(block: ResourceBlock) -> bool:
    return block.count is not None or block.for_each is not None


def _block(
    block: ResourceBlock,
    module: ModuleInstance,
    registries: Registries,
    bodies: PreparedBodies,
    evaluation: Evaluation,
    skus: Collection[str] | None,
) -> list[Diagnostic]:
    table = registries.data_sources if block.mode == "data" else registries.resource_types
    resource_type = table.get(block.type)
    prepared = bodies.of(block)
    scope = evaluation.scope(module)
    _, repeated = expand(
        block.count, block.for_each, lambda expression: evaluation.evaluated(expression, scope), block.header
    )
    if resource_type is None or prepared is None:
        return repeated
    address = Address(module.path, block.mode, block.type, block.name)
    instance = Instance(address, resource_type, None, block, module, ONCE, prepared)
    found = [d for d in evaluate_arguments(instance, evaluation) if not _about_repetition(d, block)]
    found += repeated
    if resource_type.vms is not None and instance.config is not None and skus is not None:
        found += [instance.problem(p) for p in resource_type.vms.unknown_skus(instance.config, skus)]
    return found


def _about_repetition(found: Diagnostic, block: ResourceBlock) -> bool:
    """A finding that only holds because the block was looked at without its repetition."""
    return (
        _repeats(block)
        and found.severity is Severity.ERROR
        and found.id == "missing-required-argument"
        and (found.subject == block.header_span)
    )
