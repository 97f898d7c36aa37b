"""Prior state at the start of planning, including objects of import blocks."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from nexusform.configuration.declarations.configuration import ImportBlock, ResourceBlock
from nexusform.configuration.reference_checks import check_references
from nexusform.diagnostics.diagnostic import Diagnostic, Span, build_error, has_errors
from nexusform.diagnostics.phrases import group_by
from nexusform.interfaces.plugins import ResourceType, VmHandlers
from nexusform.json_data.plain_data import convert_to_plain, get_list, get_mapping
from nexusform.language.syntax.syntax_nodes import (
    Expression,
    Index,
    RelativeTraversal,
    Step,
    Traversal,
    TraverseIndex,
)
from nexusform.language.type_conversion import convert_value
from nexusform.planning.name_resolution.evaluation_settings import build_state_evaluation
from nexusform.planning.name_resolution.instance_scope import InstanceScope, ModuleInstance
from nexusform.planning.name_resolution.name_evaluation import Evaluation
from nexusform.planning.name_resolution.repetition import (
    INVALID_EXPANSION,
    LIST,
    MAP,
    SINGLE_INSTANCE,
    BlockExpansion,
    RepetitionData,
    expand_repetition,
)
from nexusform.planning.plan_request import ImportedObject, PlanRequest
from nexusform.planning.preparation.planning_order import iterate_modules, iterate_resource_blocks
from nexusform.planning.preparation.target_selection import Selection
from nexusform.plans.plan import Mode
from nexusform.resources.address import Address, ConfigAddress
from nexusform.schemas.block_schema import BlockSchema, NestedBlock, Nesting, get_order_attribute
from nexusform.schemas.value_types import NUMBER, STRING, ListType, SetType, TupleType
from nexusform.state.objects import (
    EMPTY_INSTANCE,
    InstanceState,
    ObjectState,
    State,
    iterate_current_objects,
)
from nexusform.values.typed_value import build_number


class PriorState(Struct, frozen=True):
    """Objects at the start of planning.

    `state` is the recorded state after `moved` blocks, including the objects to import (`imports`).
    `instances` are its instances as observed by providers, `by_block` their addresses. `previous`
    maps an address to its recorded one, if they differ. `diagnostics` are about the moves.
    """

    state: State
    instances: Mapping[Address, InstanceState]
    by_block: Mapping[ConfigAddress, Sequence[Address]]
    previous: Mapping[Address, Address]
    imports: Mapping[Address, ImportedObject]
    diagnostics: tuple[Diagnostic, ...]

    def get_object(self, address: Address) -> ObjectState | None:
        """Return the current object at an address."""
        return self.instances.get(address, EMPTY_INSTANCE).current

    @property
    def objects(self) -> dict[Address, ObjectState]:
        """Current objects by address."""
        return dict(iterate_current_objects(self.instances))

    def get_recorded_object(self, address: Address) -> ObjectState | None:
        """Return the current object at an address as in state, not as observed."""
        return self.state.instances.get(address, EMPTY_INSTANCE).current

    def get_deposed(self, address: Address) -> Mapping[str, ObjectState]:
        """Return the objects left by unfinished replacements, by deposed key."""
        return self.instances.get(address, EMPTY_INSTANCE).deposed

    def get_dependencies(
        self, address: Address, deposed: str = "", default: tuple[str, ...] = ()
    ) -> tuple[str, ...]:
        """Return the dependencies of an object (or of a deposed one, by its key).

        Return `default` if the object is not in state.
        """
        recorded = self.get_deposed(address).get(deposed) if deposed else self.get_object(address)
        return recorded.dependencies if recorded is not None else default


def iterate_vm_owners(
    objects: Iterable[tuple[Address, ObjectState]], types: Mapping[str, ResourceType]
) -> Iterator[tuple[Address, ObjectState, VmHandlers]]:
    """Yield the objects of types with VMs, each with the handlers of its type."""
    for address, current in objects:
        resource_type = types.get(address.type)
        if resource_type is not None and resource_type.vms is not None:
            yield address, current, resource_type.vms


def build_prior_state(request: PlanRequest) -> PriorState:
    """Build the prior state of a plan: after moves, with observed and imported objects.

    Only normal plans import.
    """
    imports = request.imports if request.mode is Mode.NORMAL else {}
    # Nothing to move or to observe.
    if not request.state.instances:
        state = add_imports(request.state, imports)
        by_block = _group_by_block(state.instances)
        return PriorState(
            state, state.instances, by_block, previous={}, imports=imports, diagnostics=()
        )
    from nexusform.planning.preparation.moves import apply_moves

    types = request.registries.resource_types
    moved_state, problems = apply_moves(request.configuration, request.state)
    recorded_instances = {
        address: _correct_instance(instance, types.get(address.type))
        for address, instance in moved_state.state.instances.items()
    }
    state = add_imports(replace(moved_state.state, instances=recorded_instances), imports)
    instances = dict(state.instances)
    new_addresses = {old: new for new, old in moved_state.previous.items()}
    # Replace the recorded objects by those observed by the providers (None: missing), at their
    # addresses before moves.
    for prior_address, current in request.refreshed_objects.items():
        address = new_addresses.get(prior_address, prior_address)
        instance = instances.get(address)
        if instance is None:
            continue
        # Nothing is left of the instance.
        if current is None and not instance.deposed:
            instances.pop(address, None)
        else:
            observed = InstanceState(current, instance.deposed)
            instances[address] = _correct_instance(observed, types.get(address.type))
    return PriorState(
        state, instances, _group_by_block(instances), moved_state.previous, imports, tuple(problems)
    )


def exclude_unselected_imports(prior: PriorState, selection: Selection) -> PriorState:
    """Return the prior state without the objects to import outside the selection.

    -target, -exclude.
    """
    excluded = {address for address in prior.imports if not selection.has(address)}
    if not excluded:
        return prior
    instances = dict(prior.instances)
    imports = dict(prior.imports)
    for address in excluded:
        instances.pop(address, None)
        del imports[address]
    return replace(prior, instances=instances, by_block=_group_by_block(instances), imports=imports)


def _correct_instance(instance: InstanceState, resource_type: ResourceType | None) -> InstanceState:
    """Return an instance with the attributes of its object corrected by its type."""
    current = instance.current
    if current is None or resource_type is None or resource_type.correct_recorded_object is None:
        return instance
    attributes = resource_type.correct_recorded_object(current.attributes, current.private)
    if attributes is current.attributes:
        return instance
    return replace(instance, current=replace(current, attributes=attributes))


def _group_by_block(addresses: Iterable[Address]) -> dict[ConfigAddress, list[Address]]:
    return group_by(addresses, lambda address: address.config_address)


class ImportTarget(Struct, frozen=True):
    """One object to import: its address, id, provider, and block (None: missing).

    `recorded` is the object in state at this address: it is not imported.
    """

    address: Address
    id: str
    provider: str
    span: Span
    block: ResourceBlock | None
    recorded: ObjectState | None = None


def list_import_targets(request: PlanRequest) -> tuple[list[ImportTarget], list[Diagnostic]]:
    """Return the objects to import by import blocks, and the problems.

    An object in state with the id of its block is excepted: it is imported already. Import blocks
    may refer to variables, locals, and resources in state.
    """
    from nexusform.planning.preparation.moves import apply_moves

    schemas = request.registries.schemas
    # Otherwise a misspelt name would be reported as a value that is not known yet.
    invalid_references = check_references(
        request.configuration, schemas["managed"], schemas["data"]
    )
    if has_errors(invalid_references):
        return [], invalid_references
    moved_state, _ = apply_moves(request.configuration, request.state)
    evaluation = build_state_evaluation(replace(request, state=moved_state.state))
    blocks = {block.address: block for block in iterate_resource_blocks(request.configuration)}
    targets: dict[Address, ImportTarget] = {}
    problems: list[Diagnostic] = []
    for module, block in iterate_import_blocks(evaluation):
        for address, object_id in iterate_requested_imports(block, module, evaluation, problems):
            earlier = targets.get(address)
            if earlier is not None:
                start = earlier.span.start
                location = f"{earlier.span.filename}:{start.line},{start.column}"
                duplicate_error = build_error(
                    "duplicate-import-configuration",
                    f"An import block for the resource {address} was already declared at "
                    f"{location}. Remove one of them.",
                    block.to.span,
                    block="import",
                    headline=f'Duplicate import configuration for "{address}"',
                )
                problems.append(duplicate_error)
                continue
            instance = moved_state.state.instances.get(address, EMPTY_INSTANCE)
            recorded = instance.current
            if recorded is None and instance.deposed:
                detail = (
                    f"{address} has an object of an unfinished replacement, which the next apply "
                    "destroys. Apply without this import block first, or import to another address."
                )
                problems.append(
                    build_error(
                        "resource-already-managed-by-nexusform",
                        detail,
                        block.to.span,
                        block="import",
                    )
                )
            elif recorded is None or recorded.attributes.get("id") != object_id:
                resource = blocks.get(address.config_address)
                provider = (
                    resource.provider
                    if resource is not None and resource.provider
                    else block.provider
                )
                targets[address] = ImportTarget(
                    address, object_id, provider, block.to.span, resource, recorded
                )
    problems += evaluation.diagnostics
    return list(targets.values()), problems


def iterate_import_blocks(evaluation: Evaluation) -> Iterator[tuple[ModuleInstance, ImportBlock]]:
    """Yield each import block of a configuration, once for each instance of its module."""
    for module in iterate_modules(evaluation.root.module):
        # The instances of other modules are not computed.
        for block in module.imports:
            for instance in evaluation.list_module_instances(module.path):
                yield instance, block


def iterate_requested_imports(
    block: ImportBlock, module: ModuleInstance, evaluation: Evaluation, problems: list[Diagnostic]
) -> Iterator[tuple[Address, str]]:
    """Yield the addresses and ids requested by an import block of a module, one per instance.

    Errors are added to `problems`.
    """
    scope = evaluation.build_scope(module)
    repetitions: Iterable[RepetitionData] = (SINGLE_INSTANCE,)
    if block.for_each is not None:
        expansion, expansion_problems = _expand_import(block.for_each, evaluation, scope)
        problems += expansion_problems
        # A tentative evaluation, such as that of `validate`, may have variables without a
        # value: no error.
        if expansion.unknown and not evaluation.settings.is_tentative:
            problems.append(
                _build_unknown_argument_error(
                    "invalid-for-each-argument", "for_each", block.for_each
                )
            )
        repetitions = expansion.repetitions
    for repetition in repetitions:
        inner_scope = evaluation.build_scope(module, repetition)
        address = _evaluate_import_address(block.to, inner_scope, problems)
        object_id = _evaluate_import_id(block, inner_scope, problems)
        if address is not None and object_id is not None:
            yield replace(address, module=(*module.path, *address.module)), object_id


def _expand_import(
    for_each: Expression, evaluation: Evaluation, scope: InstanceScope
) -> tuple[BlockExpansion, list[Diagnostic]]:
    """Return the instances of an import block.

    Its keys are in no address, so it accepts lists and sets of anything too: each.key is the index
    in a list or tuple, and the element of a set.
    """
    collection = evaluation.evaluate_expression(for_each, scope)
    if collection is None:
        return INVALID_EXPANSION, []
    is_sequence = isinstance(collection.type, ListType | TupleType)
    has_elements = collection.is_known and not (collection.is_null or collection.has_marks)
    if not has_elements or not (is_sequence or isinstance(collection.type, SetType)):
        return expand_repetition(None, for_each, lambda _expression: collection, "import")
    if isinstance(collection.type, SetType) and not collection.is_wholly_known:
        return BlockExpansion(MAP, (), unknown="for_each"), []
    repetitions = [
        RepetitionData(None, element, build_number(index) if is_sequence else element)
        for index, element in enumerate(collection.raw)
    ]
    return BlockExpansion(LIST, tuple(repetitions)), []


def _evaluate_import_id(
    block: ImportBlock, scope: InstanceScope, problems: list[Diagnostic]
) -> str | None:
    """Return the id requested by an import block.

    Return None if it is invalid, with an error in `problems` or the evaluation.
    """
    value = scope.names.evaluate_expression(block.id, scope)
    # Its errors are diagnostics of the evaluation.
    if value is None:
        return None
    plain, *_ = convert_to_plain(value)
    # Other platforms number their objects.
    if value.is_known and value.type is NUMBER:
        plain = convert_value(value, STRING).raw
    if not value.is_known:
        # Not an error: a variable may have no value yet.
        if scope.names.settings.is_tentative:
            return None
        problems.append(_build_unknown_argument_error("invalid-import-id-argument", "id", block.id))
    elif value.has_marks:
        detail = "The import ID cannot be sensitive: it is shown in the plan."
        problems.append(
            build_error("invalid-import-id-argument", detail, block.id.span, block="import")
        )
    elif not isinstance(plain, str) or not plain:
        detail = "The import ID must be a non-empty string or a number."
        problems.append(
            build_error("invalid-import-id-argument", detail, block.id.span, block="import")
        )
    else:
        return plain
    return None


def _build_unknown_argument_error(kind: str, name: str, expression: Expression) -> Diagnostic:
    sources = "variables, locals, and resources in the state"
    detail = (
        f'The "{name}" of an import block must be known before planning; it may refer to {sources}.'
    )
    return build_error(kind, detail, expression.span, block="import")


def _evaluate_import_address(
    to: Expression, scope: InstanceScope, problems: list[Diagnostic]
) -> Address | None:
    """Return the address of `to`, with its keys evaluated.

    Return None if it is invalid, with an error in `problems`.
    """
    steps = _evaluate_steps(to, scope, problems)
    if steps is None:
        return None
    from nexusform.configuration.refactoring_blocks import build_address_pattern

    root = to
    # The innermost expression has the names up to the first computed key.
    while not isinstance(root, Traversal):
        assert isinstance(root, (Index, RelativeTraversal))
        root = root.collection if isinstance(root, Index) else root.source
    pattern = build_address_pattern(Traversal(root.root, tuple(steps), to.span), problems)
    if pattern is None:
        return None
    return Address(pattern.module, "managed", pattern.type, pattern.name, pattern.key)


def _evaluate_steps(
    to: Expression, scope: InstanceScope, problems: list[Diagnostic]
) -> list[Step] | None:
    """Return the steps of the address in an import block, with its keys evaluated.

    For nexus_rack.r[local.key] they are .r["a"]. Return None if a key is invalid, or not known yet.
    """
    # Without computed keys.
    if isinstance(to, Traversal):
        return list(to.steps)
    if isinstance(to, RelativeTraversal):
        source_steps = _evaluate_steps(to.source, scope, problems)
        return None if source_steps is None else [*source_steps, *to.steps]
    assert isinstance(to, Index)
    source_steps = _evaluate_steps(to.collection, scope, problems)
    value = scope.names.evaluate_expression(to.key, scope)
    if (
        value is None
        or source_steps is None
        or (not value.is_known and scope.names.settings.is_tentative)
    ):
        # Already reported, or not known yet.
        return None
    plain: Any = convert_to_plain(value)[0]
    if type(plain) not in (str, int) or value.has_marks:
        detail = "An instance key must be a known text or whole number, and not sensitive."
        problems.append(build_error("invalid-import-address", detail, to.key.span, block="import"))
        return None
    return [*source_steps, TraverseIndex(plain, to.key.span)]


def normalize_imported_attributes(
    schema: BlockSchema, attributes: Mapping[str, Any], object_id: str
) -> dict[str, Any]:
    """Return attributes in the shape of their type.

    Missing ones are null or empty, a missing id is `object_id`.
    """
    values = _normalize_attributes_to_schema(schema, attributes)
    if values["id"] is None:
        values["id"] = object_id
    return values


def _normalize_attributes_to_schema(
    schema: BlockSchema, attributes: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the attributes of the schema only.

    Missing ones are None, missing lists and maps of blocks empty.
    """
    values: dict[str, Any] = {name: attributes.get(name) for name in schema.attributes}
    for name, block in schema.blocks.items():
        values[name] = _normalize_block_to_schema(block, attributes.get(name))
        # The order of its labels is an attribute, too.
        if block.nesting is Nesting.MAP:
            values[get_order_attribute(name)] = attributes.get(
                get_order_attribute(name), list(values[name])
            )
    return values


def _normalize_block_to_schema(block: NestedBlock, value: Any) -> Any:
    """Return the bodies of a nested block with the attributes of its schema.

    They are a list, a map, or one body or None.
    """
    if block.nesting is Nesting.LIST:
        return [_normalize_attributes_to_schema(block.schema, part) for part in get_list(value)]
    if block.nesting is Nesting.MAP:
        return {
            label: _normalize_attributes_to_schema(block.schema, part)
            for label, part in get_mapping(value).items()
        }
    return None if value is None else _normalize_attributes_to_schema(block.schema, value)


def add_imports(state: State, imports: Mapping[Address, ImportedObject]) -> State:
    """Return the state including the objects to import."""
    if not imports:
        return state
    instances = {
        **state.instances,
        **{address: InstanceState(imported.object) for address, imported in imports.items()},
    }
    last = max(state.last_creation, *(imported.object.creation for imported in imports.values()))
    return replace(state, instances=instances, last_creation=last)


def build_unconfigured_object_error(
    address: Address, object_id: str, span: Span, *, is_forgotten: bool
) -> Diagnostic:
    """Build the error for an import of an object in state that the plan would destroy.

    With `is_forgotten`, the plan would only remove it from the state.
    """
    consequence = (
        "so the plan would remove it from the state. Write its block; or remove this import block "
        "to remove the object from the state."
        if is_forgotten
        else "so the plan would destroy what this block imports. Write its block; or remove this "
        "import block to destroy the object."
    )
    detail = (
        f'{address} is in the state already (id "{object_id}"), and the configuration has no '
        f"block for it, {consequence}"
    )
    return build_error(
        "missing-import-target-configuration",
        detail,
        span,
        address=str(address),
        block="import",
        headline="Import of an object in state without configuration",
    )


def build_missing_configuration_error(address: Address, span: Span) -> Diagnostic:
    """Build the error for an import without a configured target."""
    detail = (
        f"The configuration for the given import target {address} does not exist. All target "
        "instances must have an associated configuration to be imported. Write its block, or "
        "generate it with -generate-config-out=FILE (for resources of the root module without "
        "count and for_each)."
    )
    return build_error("missing-import-target-configuration", detail, span, block="import")
