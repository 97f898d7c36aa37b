"""Checks of moved and removed blocks against the configuration, independent of state."""

from collections.abc import Iterator

from nexusform.configuration.declarations.configuration import (
    Configuration,
    Module,
    ModuleCall,
    ResourceBlock,
)
from nexusform.diagnostics.diagnostic import Diagnostic, Span, build_error
from nexusform.planning.name_resolution.instance_scope import ModuleInstance
from nexusform.planning.name_resolution.name_evaluation import Evaluation
from nexusform.planning.preparation.moves import (
    MoveStatement,
    find_move_cycles,
    get_resource_name,
    list_move_statements,
)
from nexusform.planning.preparation.planning_order import iterate_modules
from nexusform.resources.address import Address, AddressPattern, ModulePath, format_module


def check_moved_blocks(configuration: Configuration, evaluation: Evaluation) -> list[Diagnostic]:
    """Return the problems of `moved` blocks.

    Cycles are reported only if there are no other problems.
    """
    problems: list[Diagnostic] = []
    statements = list_move_statements(configuration)
    # Its own problems are dropped.
    silent_evaluation = evaluation.create_reporting_copy()
    checker = _MoveChecker(silent_evaluation)
    for statement in statements:
        for instance in silent_evaluation.list_module_instances(statement.module):
            problems += checker.check_statement(statement, instance)
    if not problems:
        problems += [_build_cycle_error(cycle) for cycle in find_move_cycles(statements)]
    return problems


class _MoveChecker:
    # The first move of each address so far. The address of a block, such as `nexus_rack.r`, may
    # mean all of its instances (True in the key), or its only instance (False).

    def __init__(self, evaluation: Evaluation) -> None:
        self.evaluation = evaluation
        self._targets: dict[tuple[bool, str], tuple[str, MoveStatement]] = {}  # by source
        self._sources: dict[tuple[bool, str], tuple[str, MoveStatement]] = {}  # by target

    def check_statement(
        self, statement: MoveStatement, instance: ModuleInstance
    ) -> Iterator[Diagnostic]:
        """Yield the problems of one statement in one instance of its module.

        Its move is recorded.
        """
        source = _build_address(instance, statement.source)
        target = _build_address(instance, statement.target)
        # A module has the type "".
        if statement.source.type != statement.target.type:
            yield build_error(
                "moved-to-another-type",
                f"{source} cannot move to a {statement.target.type}: the type of an object cannot "
                "change. Remove this block. To keep the object, forget it with a removed block and "
                "import it under its new type.",
                statement.span,
                address=source if statement.source.type else "",
                block="moved",
            )
            return
        declared = self._find_source_declaration(statement, instance)
        if declared is not None:
            yield build_error(
                "moved-object-still-exists",
                f"This block says that {source} moved, but it is still declared at "
                f"{_format_location(declared)}. Declare it as {target} instead, or remove this "
                "block.",
                statement.span,
                block="moved",
            )
        is_for_all = statement.is_for_all_instances
        # An object may move to one target only, and only one object to a target.
        move = f"{source} moves to {target}"
        first_target, earlier = self._targets.setdefault((is_for_all, source), (target, statement))
        if first_target != target:
            yield _build_ambiguity_error(
                statement, f"{source} moves to {first_target}", move, earlier
            )
        first_source, earlier = self._sources.setdefault((is_for_all, target), (source, statement))
        if first_source != source:
            yield _build_ambiguity_error(
                statement, f"{first_source} moves to {target}", move, earlier
            )

    def _find_source_declaration(
        self, statement: MoveStatement, instance: ModuleInstance
    ) -> Span | None:
        """Return the span of a declaration of the moved object; None without one."""
        source = statement.source
        # To the module with the block or call.
        steps = source.module if source.type else source.module[:-1]
        for step in steps:
            # The call was removed with the object.
            if step.name not in instance.module.calls:
                return None
            child = self.evaluation.find_module_instance(instance, step.name, step.key)
            if child is None:
                return None
            instance = child
        declared: ResourceBlock | ModuleCall | None = instance.module.resources.get(
            get_resource_name(source)
        )
        key = source.key
        # It names a module.
        if not source.type:
            declared = instance.module.calls.get(source.module[-1].name)
            key = source.module[-1].key
        if declared is None:
            return None
        keys = {
            repetition.key for repetition in self.evaluation.list_repetitions(instance, declared)
        }
        if not statement.is_for_all_instances and key not in keys:
            return None
        # Argument of the repetition.
        argument = declared.for_each or declared.count
        return argument.span if argument is not None else declared.header_span


def _build_address(instance: ModuleInstance, pattern: AddressPattern) -> str:
    """Return the address named by a statement in a module instance."""
    path: ModulePath = (*instance.path, *pattern.module)
    if not pattern.type:
        return format_module(path)
    return str(Address(path, *get_resource_name(pattern), pattern.key))


def _format_location(span: Span) -> str:
    return f"{span.filename}:{span.start.line},{span.start.column}"


def _build_ambiguity_error(
    statement: MoveStatement, earlier_move: str, this_move: str, earlier: MoveStatement
) -> Diagnostic:
    """Build the error about two moves with the same source or target.

    It is located at the later `statement`.
    """
    return build_error(
        "ambiguous-move-statements",
        f"The moved block at {_format_location(earlier.span)} says that {earlier_move}, and this "
        f"one that {this_move}. Each address can be the source or the target of one move only. "
        "Remove one of them.",
        statement.span,
        block="moved",
    )


def _build_cycle_error(statements: list[MoveStatement]) -> Diagnostic:
    """Build the error about moved blocks in a cycle, located at the first statement.

    The detail lists all statements.
    """
    lines = "".join(
        f"\n  {_format_location(statement.span)}: {statement}" for statement in statements
    )
    return build_error(
        "cyclic-dependency-in-move-statements",
        "These moved blocks form a cycle. To swap two objects, first move one to a third name in a "
        f"separate plan.{lines}",
        statements[0].span,
        block="moved",
    )


def check_removed_blocks(configuration: Configuration) -> Iterator[Diagnostic]:
    """Yield an error for each `removed` block with a target that is still declared.

    The target is a resource or module.
    """
    for module in iterate_modules(configuration.root):
        for removed in module.removed_blocks:
            declared = _find_declared_block(module, removed.source)
            if declared is not None:
                kind = (
                    "removed-resource-still-exists"
                    if removed.source.type
                    else "removed-module-still-exists"
                )
                prefix = "".join(f"module.{name}." for name in module.path)
                yield build_error(
                    kind,
                    f"This block says that {prefix}{removed.source} was removed, but it is still "
                    f"declared at {_format_location(declared.header_span)}. Remove one of the two "
                    "blocks.",
                    removed.span,
                    block="removed",
                )


def _find_declared_block(
    module: Module, source: AddressPattern
) -> ResourceBlock | ModuleCall | None:
    """Return the resource block or module call named by a `removed` block.

    Return None if nothing of that name is declared.
    """
    call: ModuleCall | None = None
    for step in source.module:
        call = module.calls.get(step.name)
        if call is None:
            return None
        module = call.module
    # It names a module.
    if not source.type:
        return call
    return module.resources.get(get_resource_name(source))
