"""Where the value of an expression comes from: its parts with their values, names followed to what they are
defined as, and what made something sensitive or unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from nexusform.address import ConfigAddress, Mode
from nexusform.configuration.declared.configuration import Variable
from nexusform.diagnostics import Diagnostic
from nexusform.language.evaluator import Trace, traced
from nexusform.language.syntax import nodes as syntax
from nexusform.language.traced_part import TracedPart
from nexusform.language.value_notes import traversal_text
from nexusform.planning.names.evaluation import Evaluation
from nexusform.planning.names.repetition import ONCE, Repetition
from nexusform.planning.names.scope import ModuleInstance
from nexusform.schema import Attribute
from nexusform.source import SourceFile, Span
from nexusform.values import UNKNOWN, Value

_LOOPS = (syntax.ForTuple, syntax.ForObject, syntax.TemplateFor, syntax.Splat)
_WRAPPINGS = (syntax.Parentheses, syntax.TemplateWrap)
_PLAIN = (syntax.Literal, syntax.StringLiteral, syntax.SplatElement)


class _Definition(Struct, frozen=True):
    # What a name stands for: an expression in a module instance.
    name: str
    expression: syntax.Expression
    instance: ModuleInstance
    repetition: Repetition = ONCE


class Origins:
    """Follows the parts of one expression; `sources` hold the text of every file that it may lead to."""

    def __init__(self, evaluation: Evaluation, sources: Mapping[str, SourceFile], own: str) -> None:
        self._evaluation = evaluation
        self._texts = {name: source.text.encode() for name, source in sources.items()}
        self._own = own
        self._fails = False
        self._followed: set[tuple[object, ...]] = set()

    def of(self, expression: syntax.Expression) -> tuple[TracedPart, list[Diagnostic]]:
        """The tree of an expression in the root module."""
        root = self._evaluation.root
        trace, problems = traced(expression, self._evaluation.scope(root))
        self._fails = trace.failed
        return self._part(trace, root, hidden=False), problems

    def _part(self, trace: Trace, instance: ModuleInstance, *, hidden: bool) -> TracedPart:
        """What a traced expression came to, and what it is made of."""
        expression = trace.expression
        # An error that is caught would tell of the sensitive value that it is about.
        is_caught = trace.failed and not self._fails
        hidden = hidden or (is_caught and any(part.value.has_marks for part in trace.parts))
        if isinstance(expression, _WRAPPINGS) and len(trace.parts) == 1:
            return self._part(trace.parts[0], instance, hidden=hidden)
        # What is inside of a loop over something sensitive carries no mark of its own, and how often it is
        # gone through is not to be told.
        is_loop = isinstance(expression, _LOOPS) and bool(trace.parts)
        secret = is_loop and trace.parts[0].value.has_marks
        traces = trace.parts[:2] if secret else trace.parts
        parts = []
        for position, part in enumerate(traces):
            if not isinstance(part.expression, _PLAIN):
                inside_secret = secret and position > 0
                parts.append(self._part(part, instance, hidden=hidden or inside_secret))
        repeated = False
        if isinstance(expression, syntax.Traversal):
            definition = self._definition(expression, instance)
            if definition is not None:
                repeated = not self._is_new(definition)
                if not repeated:
                    parts.append(self._defined(definition, hidden=hidden))
        return TracedPart(
            text=self._text(expression.span),
            value=trace.value,
            place=None if expression.span.filename == self._own else expression.span,
            reasons=tuple(self._why(trace, instance, hidden=hidden)),
            parts=tuple(parts),
            omitted=0 if secret else trace.omitted,
            hidden=hidden,
            repeated=repeated,
            failed=trace.failed and not hidden,
        )

    def _why(self, trace: Trace, instance: ModuleInstance, *, hidden: bool) -> Iterator[str]:
        """What made a traced value sensitive, unknown or an error."""
        expression, value = trace.expression, trace.value
        if not trace.failed and isinstance(expression, syntax.Traversal):
            if value.has_marks or not value.is_wholly_known:
                yield from self._reasons(expression, value, instance)
        elif not trace.failed and isinstance(expression, syntax.Call):
            yield from _reasons_of_call(expression, trace)
        if trace.problem and not hidden:
            yield f"error: {trace.problem}"

    def _text(self, span: Span) -> str:
        written = self._texts.get(span.filename, b"")[span.start.byte : span.end.byte]
        return " ".join(written.decode(errors="replace").split())

    # --- names ---

    def _is_new(self, definition: _Definition) -> bool:
        """Whether a definition is met for the first time; from now on it is not."""
        key = (definition.instance.path, definition.expression.span)
        if key in self._followed:
            return False
        self._followed.add(key)
        return True

    def _defined(self, definition: _Definition, *, hidden: bool) -> TracedPart:
        scope = self._evaluation.scope(definition.instance, definition.repetition)
        trace, _ = traced(definition.expression, scope)
        return self._part(trace, definition.instance, hidden=hidden)

    def _definition(self, traversal: syntax.Traversal, instance: ModuleInstance) -> _Definition | None:
        """Where the name that a reference begins with is defined; None for resources and constants."""
        root, name = traversal.root.name, _name_at(traversal, 0)
        module = instance.module
        if root == "local" and name in module.locals:
            return _Definition(name, module.locals[name].expression, instance)
        if root == "var" and instance.call is not None and instance.parent is not None:
            passed = instance.call.inputs.get(name)
            if passed is not None:
                return _Definition(name, passed[0], instance.parent, instance.repetition)
        if root == "module" and name in module.calls:
            return self._module_output(traversal, instance, name)
        return None

    def _module_output(
        self, traversal: syntax.Traversal, instance: ModuleInstance, name: str
    ) -> _Definition | None:
        """Where the output of a call is defined that a reference asks for."""
        step = traversal.steps[1] if len(traversal.steps) > 1 else None
        key = step.key if isinstance(step, syntax.TraverseIndex) else None
        output = _name_at(traversal, 1 if key is None else 2)
        if key is not None and not isinstance(key, str):
            key = int(key)
        called = self._evaluation.called_module(instance, name, key)
        if called is None or output not in called.module.outputs:
            return None
        return _Definition(output, called.module.outputs[output].expression, called)

    # --- why ---

    def _reasons(self, traversal: syntax.Traversal, value: Value, instance: ModuleInstance) -> Iterator[str]:
        """Why the value of a reference is sensitive or unknown, `sensitive: ...` or `unknown: ...`."""
        root, name = traversal.root.name, _name_at(traversal, 0)
        module = instance.module
        if root == "var" and name in module.variables:
            yield from self._reasons_of_variable(module.variables[name], value, instance)
        elif root == "module" and name in module.calls:
            definition = self._definition(traversal, instance)
            output = definition.instance.module.outputs[definition.name] if definition is not None else None
            if output is not None and output.sensitive:
                yield f'sensitive: output "{output.name}" is declared so ({_line(output.span)})'
        elif root == "data":
            yield from self._reasons_of_resource(traversal, value, instance, 1)
        elif ("managed", root, name) in module.resources:
            yield from self._reasons_of_resource(traversal, value, instance, 0)

    def _reasons_of_variable(
        self, declared: Variable, value: Value, instance: ModuleInstance
    ) -> Iterator[str]:
        where = _line(declared.span)
        if declared.sensitive:
            yield f'sensitive: variable "{declared.name}" is declared so ({where})'
        if instance.call is None and value.raw is UNKNOWN:
            yield f'unknown: variable "{declared.name}" has no value ({where})'

    def _reasons_of_resource(
        self, traversal: syntax.Traversal, value: Value, instance: ModuleInstance, used: int
    ) -> Iterator[str]:
        """Why the value of a resource is sensitive or unknown; `used` steps stand before its name."""
        mode: Mode = "data" if used else "managed"
        kind = _name_at(traversal, 0) if used else traversal.root.name
        block = instance.module.resources.get((mode, kind, _name_at(traversal, used)))
        if block is None:
            return
        steps = traversal.steps[used + 1 :]
        attribute = next((step.name for step in steps if isinstance(step, syntax.TraverseAttribute)), "")
        schema = self._evaluation.setting.schemas[block.mode].get(kind)
        declared = schema.attributes.get(attribute) if schema is not None else None
        address = ConfigAddress(instance.module.path, block.mode, kind, block.name)
        if value.has_marks:
            yield _why_sensitive(str(address), attribute, declared)
        if value.is_wholly_known:
            return
        views = self._evaluation.resource(instance, block).items.values()
        if any(view.attributes is None for view in views):
            yield f"unknown: {address} does not stand yet; what it is is known after apply"
        else:
            yield f"unknown: {traversal_text(traversal)} is known after apply"


def _why_sensitive(address: str, attribute: str, declared: Attribute | None) -> str:
    if declared is not None and declared.sensitive:
        return f'sensitive: "{attribute}" of {address} always is'
    return f"sensitive: {address} was given a sensitive value"


def _reasons_of_call(call: syntax.Call, trace: Trace) -> Iterator[str]:
    if call.name.removeprefix("core::") == "sensitive":
        yield "sensitive: sensitive() marks it"
    if trace.value.raw is UNKNOWN and not call.arguments:
        yield f"unknown: {call.name}() is known after apply"


def _name_at(traversal: syntax.Traversal, position: int) -> str:
    step = traversal.steps[position] if position < len(traversal.steps) else None
    return step.name if isinstance(step, syntax.TraverseAttribute) else ""


def _line(span: Span) -> str:
    return f"{span.filename}:{span.start.line}"
