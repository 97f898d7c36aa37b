"""What stands when planning begins: the state, with the objects that import blocks take over."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from nexusform.address import Address, ConfigAddress
from nexusform.configuration.declared.configuration import ImportBlock, ResourceBlock
from nexusform.configuration.moving_blocks import pattern_of
from nexusform.diagnostics import Diagnostic, error
from nexusform.language.syntax.nodes import (
    Expression,
    Index,
    RelativeTraversal,
    Step,
    Traversal,
    TraverseIndex,
)
from nexusform.plain_data import to_plain
from nexusform.planning.names.evaluation import Evaluation
from nexusform.planning.names.repetition import ONCE, Repetition, expand
from nexusform.planning.names.scope import InstanceScope
from nexusform.planning.names.setting import standing_evaluation
from nexusform.planning.preparation.moves import apply_moves, refreshed_after
from nexusform.planning.preparation.order import resource_blocks
from nexusform.planning.preparation.selection import Selection
from nexusform.planning.request import Imported, PlanRequest
from nexusform.plans.plan import Mode
from nexusform.schema import BlockSchema, NestedBlock, Nesting, order_attribute
from nexusform.source import Span
from nexusform.state.objects import InstanceState, ObjectState, State


class Prior(Struct, frozen=True):
    """What stands when planning begins.

    `state` is the recorded state under the addresses that moved blocks give, as if it held the objects
    that are to be taken over already (`imports`). `instances` are its instances with what the providers
    observed put over them, `by_block` the addresses of these. `previous` maps an address to the one it was
    recorded under, where they differ. `diagnostics` are about the moves.
    """

    state: State
    instances: Mapping[Address, InstanceState]
    by_block: Mapping[ConfigAddress, Sequence[Address]]
    previous: Mapping[Address, Address]
    imports: Mapping[Address, Imported]
    diagnostics: tuple[Diagnostic, ...]

    def object(self, address: Address) -> ObjectState | None:
        """The current object at an address."""
        instance = self.instances.get(address)
        return instance.current if instance is not None else None

    def deposed(self, address: Address) -> Mapping[str, ObjectState]:
        """What is left of replacements that could not be finished, by deposed key."""
        instance = self.instances.get(address)
        return instance.deposed if instance is not None else {}

    def dependencies(self, address: Address, deposed: str, default: tuple[str, ...]) -> tuple[str, ...]:
        """What state recorded of the object's dependencies; `default` when it knows no such object."""
        recorded = self.deposed(address).get(deposed) if deposed else self.object(address)
        return recorded.dependencies if recorded is not None else default


def prior_of(request: PlanRequest) -> Prior:
    """What stands before a plan. Objects are taken over by normal plans only."""
    moved, problems = apply_moves(request.configuration, request.state)
    imports = request.imports if request.mode is Mode.NORMAL else {}
    state = with_imports(moved.state, imports)
    instances = _as_observed(state.instances, refreshed_after(request.refreshed, moved.previous))
    return Prior(state, instances, _by_block(instances), moved.previous, imports, tuple(problems))


def selected(prior: Prior, selection: Selection) -> Prior:
    """What stands, without the objects that would be taken over, and that this plan leaves out."""
    left_out = [address for address in prior.imports if not selection.has(address)]
    if not left_out:
        return prior
    instances = dict(prior.instances)
    imports = dict(prior.imports)
    for address in left_out:
        instances.pop(address, None)
        del imports[address]
    return replace(prior, instances=instances, by_block=_by_block(instances), imports=imports)


def _as_observed(
    recorded: Mapping[Address, InstanceState], observed: Mapping[Address, ObjectState | None]
) -> dict[Address, InstanceState]:
    """The recorded instances as the providers found them (None: gone)."""
    instances = dict(recorded)
    for address, current in observed.items():
        instance = instances.get(address)
        if instance is None:
            continue
        if current is None and not instance.deposed:
            instances.pop(address, None)
        else:
            instances[address] = InstanceState(current, instance.deposed)
    return instances


def _by_block(addresses: Iterable[Address]) -> dict[ConfigAddress, list[Address]]:
    by_block: dict[ConfigAddress, list[Address]] = {}
    for address in addresses:
        by_block.setdefault(address.config, []).append(address)
    return by_block


class ImportTarget(Struct, frozen=True):
    """One object to take over: where to, its id, who serves it, and the block it belongs to (None:
    there is none yet).
    """

    address: Address
    id: str
    provider: str
    span: Span
    block: ResourceBlock | None


def import_targets(request: PlanRequest) -> tuple[list[ImportTarget], list[Diagnostic]]:
    """What the import blocks ask for and the state does not hold yet.

    Their expressions see variables, locals, and resources as far as the state has them.
    """
    imports = request.configuration.root.imports
    if not imports:
        return [], []
    moved, _ = apply_moves(request.configuration, request.state)
    evaluation = standing_evaluation(replace(request, state=moved.state))
    blocks = {block.address: block for block in resource_blocks(request.configuration)}
    targets: dict[Address, ImportTarget] = {}
    problems: list[Diagnostic] = []
    for block in imports:
        for address, object_id in _asked(block, evaluation, problems):
            earlier = targets.get(address)
            if earlier is not None:
                problems.append(_twice(block, address, earlier))
            elif address not in moved.state.instances:
                owner = blocks.get(address.config)
                provider = (owner.provider if owner is not None else "") or block.provider
                targets[address] = ImportTarget(address, object_id, provider, block.to.span, owner)
    problems += evaluation.diagnostics
    return list(targets.values()), problems


def _asked(
    block: ImportBlock, evaluation: Evaluation, problems: list[Diagnostic]
) -> Iterator[tuple[Address, str]]:
    """The addresses and ids that an import block asks for, one per instance."""
    scope = evaluation.scope(evaluation.root)
    repetitions: Iterable[Repetition] = (ONCE,)
    if block.for_each is not None:
        expansion, wrong = expand(
            None, block.for_each, lambda each: evaluation.evaluated(each, scope), "import"
        )
        problems += wrong
        if expansion is None or expansion.unknown:
            if expansion is not None:
                problems.append(_unknown("invalid-for-each-argument", "for_each", block.for_each))
            return
        repetitions = expansion.repetitions
    for repetition in repetitions:
        inner = evaluation.scope(evaluation.root, repetition)
        address = _address(block.to, inner, problems)
        object_id = _id(block, inner, problems)
        if address is not None and object_id is not None:
            yield address, object_id


def _id(block: ImportBlock, scope: InstanceScope, problems: list[Diagnostic]) -> str | None:
    """The id that an import block asks for; None when it cannot be one, which joins `problems`."""
    value = scope.names.evaluated(block.id, scope)
    if value is None:
        return None
    plain = to_plain(value)[0]
    if not value.is_known:
        problems.append(_unknown("invalid-import-id-argument", "id", block.id))
    elif value.has_marks:
        detail = "The import ID cannot be sensitive: it is shown in the plan."
        problems.append(error("invalid-import-id-argument", detail, block.id.span, block="import"))
    elif not isinstance(plain, str) or not plain:
        detail = "The import ID must be a text that is not empty."
        problems.append(error("invalid-import-id-argument", detail, block.id.span, block="import"))
    else:
        return plain
    return None


def _unknown(kind: str, name: str, at: Expression) -> Diagnostic:
    detail = (
        f'The "{name}" of an import block must be known before anything is planned; it may refer to '
        "variables, locals, and resources that the state holds already."
    )
    return error(kind, detail, at.span, block="import")


def _twice(block: ImportBlock, address: Address, earlier: ImportTarget) -> Diagnostic:
    place = f"{earlier.span.filename}:{earlier.span.start.line},{earlier.span.start.column}"
    detail = (
        f"An import block for the resource {address} was already declared at {place}. Remove one of them."
    )
    return error(
        "duplicate-import-configuration",
        detail,
        block.to.span,
        block="import",
        headline=f'Duplicate import configuration for "{address}"',
    )


def _address(to: Expression, scope: InstanceScope, problems: list[Diagnostic]) -> Address | None:
    """The address of `to`, the keys in it evaluated."""
    steps = _steps(to, scope, problems)
    if steps is None:
        return None
    root = _root(to)
    pattern = pattern_of(Traversal(root.root, tuple(steps), to.span), problems)
    if pattern is None or not pattern.type:
        return None
    return Address(pattern.module, "managed", pattern.type, pattern.name, pattern.key)


def _root(to: Expression) -> Traversal:
    while not isinstance(to, Traversal):
        assert isinstance(to, (Index, RelativeTraversal))
        to = to.collection if isinstance(to, Index) else to.source
    return to


def _steps(to: Expression, scope: InstanceScope, problems: list[Diagnostic]) -> list[Step] | None:
    """The steps of the address that an import goes to, its keys evaluated; None when one cannot be."""
    if isinstance(to, Traversal):
        return list(to.steps)
    if isinstance(to, RelativeTraversal):
        before = _steps(to.source, scope, problems)
        return None if before is None else [*before, *to.steps]
    assert isinstance(to, Index)
    before = _steps(to.collection, scope, problems)
    value = scope.names.evaluated(to.key, scope)
    if value is None or before is None:
        return None
    plain = to_plain(value)[0]
    if isinstance(plain, bool) or not isinstance(plain, (str, int)) or value.has_marks:
        detail = "An instance key must be a known text or whole number, and not sensitive."
        problems.append(error("invalid-import-address", detail, to.key.span, block="import"))
        return None
    return [*before, TraverseIndex(plain, to.key.span)]


# --- what providers gave ----------------------------------------------------------------------------


def adopted(schema: BlockSchema, attributes: Mapping[str, Any], object_id: str) -> dict[str, Any]:
    """An object's attributes in the shape of its type: what the provider left out is null or empty."""
    values = _in_shape(schema, attributes)
    if "id" in values and values["id"] is None:
        values["id"] = object_id
    return values


def _in_shape(schema: BlockSchema, attributes: Mapping[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {name: attributes.get(name) for name in schema.attributes}
    for name, block in schema.blocks.items():
        values[name] = _block_in_shape(block, attributes.get(name))
        if block.nesting is Nesting.MAP:
            values[order_attribute(name)] = attributes.get(order_attribute(name), list(values[name]))
    return values


def _block_in_shape(block: NestedBlock, value: Any) -> Any:
    if block.nesting is Nesting.LIST:
        return [_in_shape(block.schema, part) for part in value or ()]
    if block.nesting is Nesting.MAP:
        return {label: _in_shape(block.schema, part) for label, part in (value or {}).items()}
    return None if value is None else _in_shape(block.schema, value)


def with_imports(state: State, imports: Mapping[Address, Imported]) -> State:
    """The state as if it held the objects that are to be taken over."""
    if not imports:
        return state
    instances = {
        **state.instances,
        **{address: InstanceState(taken.object) for address, taken in imports.items()},
    }
    last = max(state.last_creation, *(taken.object.creation for taken in imports.values()))
    return replace(state, instances=instances, last_creation=last)


def without_configuration(address: Address, span: Span) -> Diagnostic:
    """The error for an import whose target is not in the configuration."""
    detail = (
        f"The configuration for the given import target {address} does not exist. All target instances must "
        "have an associated configuration to be imported. Write its block, or let -generate-config-out=FILE "
        "write it (for resources of the root module without count and for_each)."
    )
    return error("configuration-for-import-target-does-not-exist", detail, span, block="import")
