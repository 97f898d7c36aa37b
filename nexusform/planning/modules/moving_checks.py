"""moved and removed blocks beside what the configuration declares: whatever stands in state, these
statements cannot be followed.
"""

from __future__ import annotations

from collections.abc import Iterator

from nexusform.address import (
    Address,
    AddressPattern,
    Key,
    ModulePath,
    ModuleStep,
    module_text,
)
from nexusform.configuration.declared.configuration import (
    Configuration,
    Module,
    ModuleCall,
    Removed,
    ResourceBlock,
)
from nexusform.diagnostics import Diagnostic, error
from nexusform.planning.names.evaluation import Evaluation
from nexusform.planning.names.scope import ModuleInstance
from nexusform.planning.preparation.move_statements import Statement, circles, written_statements
from nexusform.planning.preparation.order import modules
from nexusform.source import Span


def moving_problems(configuration: Configuration, evaluation: Evaluation) -> list[Diagnostic]:
    """What is wrong with moved blocks. Keys that are not known yet are let be."""
    problems: list[Diagnostic] = []
    statements = written_statements(configuration)
    if not statements:
        return problems
    quiet = evaluation.reporting()
    moves = _Moves(quiet)
    for statement in statements:
        for instance in quiet.module_instances(statement.module):
            problems += moves.look_at(statement, instance)
    if not problems:
        problems += [_circle(statements) for statements in circles(statements)]
    return problems


class _Moves:
    # What was said of addresses so far: where each moves, and what moves there. `b` as all instances of a
    # block and `b` as its only one are two things.

    def __init__(self, evaluation: Evaluation) -> None:
        self.evaluation = evaluation
        self._to: dict[tuple[bool, str], tuple[str, Statement]] = {}
        self._from: dict[tuple[bool, str], tuple[str, Statement]] = {}

    def look_at(self, statement: Statement, instance: ModuleInstance) -> Iterator[Diagnostic]:
        """One statement in one instance of its module."""
        source, target = _under(instance, statement.source), _under(instance, statement.target)
        if statement.source.type != statement.target.type:
            yield _another_type(statement, source)
            return
        declared = self._declared(statement, instance)
        if declared is not None:
            yield _still_exists(statement, source, target, declared)
        every = statement.of_all_instances
        other, earlier = self._to.setdefault((every, source), (target, statement))
        if other != target:
            yield _ambiguous(statement, f"{source} moves to {other}", f"{source} moves to {target}", earlier)
        other, earlier = self._from.setdefault((every, target), (source, statement))
        if other != source:
            yield _ambiguous(statement, f"{other} moves to {target}", f"{source} moves to {target}", earlier)

    def _declared(self, statement: Statement, instance: ModuleInstance) -> Span | None:
        """Where the configuration still declares what a statement moves away; None: it does not."""
        source = statement.source
        steps = source.module if source.type else source.module[:-1]
        for step in steps:
            called = self._called(instance, step)
            if called is None:
                return None
            instance = called
        if not source.type:
            last = source.module[-1]
            call = instance.module.calls.get(last.name)
            if call is None:
                return None
            exists = statement.of_all_instances or self._called(instance, last) is not None
            return _span(call) if exists else None
        block = instance.module.resources.get((source.mode or "managed", source.type, source.name))
        if block is None:
            return None
        exists = statement.of_all_instances or source.key in self._keys(instance, block)
        return _span(block) if exists else None

    def _called(self, parent: ModuleInstance, step: ModuleStep) -> ModuleInstance | None:
        if step.name not in parent.module.calls:
            return None
        return self.evaluation.called_module(parent, step.name, step.key)

    def _keys(self, instance: ModuleInstance, block: ResourceBlock) -> set[Key]:
        expansion, _ = self.evaluation.expansion(block, self.evaluation.scope(instance))
        return {each.key for each in expansion.repetitions} if expansion is not None else set()


def _span(declared: ResourceBlock | ModuleCall) -> Span:
    """What decides that something exists: the argument that repeats it, else its header."""
    repeating = declared.for_each or declared.count
    return repeating.span if repeating is not None else declared.header_span


def _under(instance: ModuleInstance, pattern: AddressPattern) -> str:
    """An address that a statement in a module instance names."""
    path: ModulePath = (*instance.path, *pattern.module)
    if not pattern.type:
        return module_text(path)
    return str(Address(path, pattern.mode or "managed", pattern.type, pattern.name, pattern.key))


def _place(span: Span) -> str:
    return f"{span.filename}:{span.start.line},{span.start.column}"


def _still_exists(statement: Statement, source: str, target: str, declared: Span) -> Diagnostic:
    return error(
        "moved-object-still-exists",
        f"This block says that {source} moved, but it is still declared at {_place(declared)}. Declare it as "
        f"{target} instead, or remove this block.",
        statement.span,
        block="moved",
    )


def _another_type(statement: Statement, source: str) -> Diagnostic:
    return error(
        "moved-to-another-type",
        f"{source} cannot move to a {statement.target.type}: an object keeps its type. Remove this block; to "
        "go on without destroying the object, forget it with a removed block and import it under its new "
        "type.",
        statement.span,
        address=source if statement.source.type else "",
        block="moved",
    )


def _ambiguous(statement: Statement, earlier_says: str, this_says: str, earlier: Statement) -> Diagnostic:
    return error(
        "ambiguous-move-statements",
        f"The moved block at {_place(earlier.span)} says that {earlier_says}, and this one that {this_says}. "
        "An object moves to one address, and to an address moves one object. Remove one of the two.",
        statement.span,
        block="moved",
    )


def _circle(statements: list[Statement]) -> Diagnostic:
    lines = "".join(f"\n  {_place(statement.span)}: {statement}" for statement in statements)
    return error(
        "cyclic-dependency-in-move-statements",
        "These moved blocks lead back to where they begin, so nobody can tell where the objects belong. To "
        f"exchange two objects, move one to a third name in a plan of its own first.{lines}",
        statements[0].span,
        block="moved",
    )


# --- removed blocks ----------------------------------------------------------------------------


def removal_problems(configuration: Configuration) -> Iterator[Diagnostic]:
    """Removed blocks of what is still declared."""
    for module in modules(configuration.root):
        for removed in module.removed:
            declared = _still_declared(module, removed.source)
            if declared is not None:
                yield _not_removed(module, removed, declared)


def _still_declared(module: Module, source: AddressPattern) -> ResourceBlock | ModuleCall | None:
    """The block that a removed block names and that is still there."""
    call: ModuleCall | None = None
    for step in source.module:
        call = module.calls.get(step.name)
        if call is None:
            return None
        module = call.module
    if not source.type:
        return call
    return module.resources.get((source.mode or "managed", source.type, source.name))


def _not_removed(module: Module, removed: Removed, declared: ResourceBlock | ModuleCall) -> Diagnostic:
    kind = "removed-resource-still-exists" if removed.source.type else "removed-module-still-exists"
    around = "".join(f"module.{name}." for name in module.path)
    return error(
        kind,
        f"This block says that {around}{removed.source} was removed, but it is still declared at "
        f"{_place(declared.header_span)}. Remove one of the two blocks.",
        removed.span,
        block="removed",
    )
