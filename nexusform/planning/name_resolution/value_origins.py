"""Origins of the value of an expression.

They are its parts, the definitions of names, and the causes of sensitive or unknown values.
"""

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from nexusform.diagnostics.diagnostic import Diagnostic, SourceFile
from nexusform.language.evaluation_run import TracedExpression
from nexusform.language.evaluator import EvaluationTrace, trace_expression
from nexusform.language.syntax import syntax_nodes as syntax
from nexusform.language.value_descriptions import format_traversal
from nexusform.planning.name_resolution.instance_scope import (
    InstanceScope,
    ModuleInstance,
    NameResolver,
)
from nexusform.planning.name_resolution.repetition import SINGLE_INSTANCE, RepetitionData
from nexusform.resources.address import ConfigAddress, Key, Mode
from nexusform.values.typed_value import UNKNOWN, Value

_LOOPS = (syntax.ForTuple, syntax.ForObject, syntax.TemplateFor, syntax.Splat)
_WRAPPINGS = (syntax.Parentheses, syntax.TemplateWrap)
_PLAIN = (syntax.Literal, syntax.StringLiteral, syntax.SplatElement)


class _Definition(Struct, frozen=True):
    # Definition of a name: an expression in a module instance.
    name: str
    expression: syntax.Expression
    instance: ModuleInstance
    repetition: RepetitionData = SINGLE_INSTANCE

    @property
    def key(self) -> tuple[object, ...]:
        return self.instance.path, self.expression.span  # its identity


class ValueOriginTracer:
    """Tracer of the parts of one expression.

    `sources` hold the text of every file it may lead to.
    """

    def __init__(
        self, evaluation: NameResolver, sources: Mapping[str, SourceFile], own: str
    ) -> None:
        self._evaluation = evaluation
        self._texts = {name: source.text.encode() for name, source in sources.items()}
        # File name of the traced expression itself.
        self._own = own
        # It says whether the whole expression has an error.
        self._fails = False
        # Keys of the definitions traced so far.
        self._followed: set[tuple[object, ...]] = set()

    def trace_expression(
        self, expression: syntax.Expression, instance: ModuleInstance
    ) -> tuple[TracedExpression, list[Diagnostic]]:
        """Return the trace tree of an expression in a module instance."""
        trace, problems = trace_expression(expression, self._build_scope(instance))
        self._fails = trace.has_failed
        return self._build_part(trace, instance, hidden=False), problems

    def _build_scope(
        self, instance: ModuleInstance, repetition: RepetitionData = SINGLE_INSTANCE
    ) -> InstanceScope:
        return InstanceScope(self._evaluation, instance, repetition, this=None)

    def _build_parts(
        self, traces: Iterable[EvaluationTrace], instance: ModuleInstance, *, hidden: bool
    ) -> list[TracedExpression]:
        """Build the traced expressions of several steps, without literals."""
        shown_traces = [trace for trace in traces if not isinstance(trace.expression, _PLAIN)]
        return [self._build_part(trace, instance, hidden=hidden) for trace in shown_traces]

    def _build_part(
        self, trace: EvaluationTrace, instance: ModuleInstance, *, hidden: bool
    ) -> TracedExpression:
        """Build the traced expression of one step of an evaluation.

        It has the text and value of the step, and those of its parts. A name, such as `local.zone`,
        has its definition as a further part. A second use does not repeat the parts of the
        definition (`is_repeated`). Literals and parentheses are skipped. With `hidden`, the step is
        inside a sensitive value or error, so its value is not shown.
        """
        expression = trace.expression
        # An error caught by try() or can() (the whole expression does not fail) would reveal
        # its sensitive value.
        is_caught = trace.has_failed and not self._fails
        hidden = hidden or (is_caught and any(part.value.has_marks for part in trace.parts))
        if isinstance(expression, _WRAPPINGS) and len(trace.parts) == 1:
            return self._build_part(trace.parts[0], instance, hidden=hidden)
        # By default, none is hidden.
        visible_parts = trace.parts
        hidden_parts = trace.parts[:0]
        is_loop = isinstance(expression, _LOOPS) and bool(trace.parts)
        # The first part is the collection.
        is_secret_loop = is_loop and trace.parts[0].value.has_marks
        if is_secret_loop:
            # Values in such a loop have no mark of their own. Only one is listed, as their number
            # is hidden, too.
            visible_parts = trace.parts[:1]
            hidden_parts = trace.parts[1:2]
        parts = self._build_parts(visible_parts, instance, hidden=hidden)
        parts += self._build_parts(hidden_parts, instance, hidden=True)
        definition = self._find_definition(expression, instance)
        # Its parts are in the tree already.
        is_repeated = definition is not None and definition.key in self._followed
        if definition is not None and not is_repeated:
            # A second use does not repeat its parts.
            self._followed.add(definition.key)
            scope = self._build_scope(definition.instance, definition.repetition)
            definition_trace, _ = trace_expression(definition.expression, scope)
            parts.append(self._build_part(definition_trace, definition.instance, hidden=hidden))
        span = expression.span
        source = self._texts.get(span.filename, b"")[span.start.byte : span.end.byte]
        return TracedExpression(
            text=" ".join(source.decode(errors="replace").split()),
            value=trace.value,
            # None: typed in the console.
            span=None if span.filename == self._own else span,
            reasons=tuple(self._explain_value(trace, instance, hidden=hidden)),
            parts=tuple(parts),
            omitted=0 if is_secret_loop else trace.omitted,
            is_hidden=hidden,
            is_repeated=is_repeated,
            has_failed=trace.has_failed and not hidden,
        )

    def _explain_value(
        self, trace: EvaluationTrace, instance: ModuleInstance, *, hidden: bool
    ) -> Iterator[str]:
        """Yield the causes of a sensitive, unknown or invalid value.

        With `hidden`, the text of an error is left out. Only the innermost part that fails has the
        text of its error; the parts around it yield nothing.
        """
        expression = trace.expression
        value = trace.value
        if trace.has_failed:
            if trace.problem and not hidden:
                yield f"error: {trace.problem}"
        elif isinstance(expression, syntax.Traversal):  # a reference
            if value.has_marks or not value.is_wholly_known:
                yield from self._explain_reference(expression, value, instance)
        elif isinstance(expression, syntax.Call):
            # A function call.
            if expression.name.removeprefix("core::") == "sensitive":
                yield "sensitive: sensitive() marks it"
            # Such as timestamp().
            if value.raw is UNKNOWN and not expression.arguments:
                yield f"unknown: {expression.name}() is known after apply"

    def find_unknown_parts(
        self, expression: syntax.Expression, instance: ModuleInstance
    ) -> list[syntax.Expression]:
        """Return the first unknown part of an expression, then the parts that make it unknown.

        Each is from the definition of the one before it. Return [] if the value is known.
        """
        parts: list[syntax.Expression] = []
        definition: _Definition | None = _Definition("", expression, instance)
        while definition is not None and definition.key not in self._followed:
            self._followed.add(definition.key)
            scope = self._build_scope(definition.instance, definition.repetition)
            trace, _ = trace_expression(definition.expression, scope)
            part = _find_innermost_unknown(trace)
            if part is None:
                break
            parts.append(part)
            definition = self._find_definition(part, definition.instance)
        return parts

    def _find_definition(
        self, traversal: syntax.Expression, instance: ModuleInstance
    ) -> _Definition | None:
        """Return the definition of a local, a variable set by a module call, or a module output.

        The result is None for other names.
        """
        if not isinstance(traversal, syntax.Traversal):  # no reference
            return None
        root = traversal.root.name
        name = _get_step_name(traversal, 0)
        module = instance.module
        if root == "local" and name in module.locals:
            return _Definition(name, module.locals[name].expression, instance)
        if root == "var" and instance.call is not None and name in instance.call.inputs:
            assert instance.parent is not None, "a module with a call has a parent"
            expression, _span = instance.call.inputs[name]
            return _Definition(name, expression, instance.parent, instance.repetition)
        if root == "module" and name in module.calls:
            return self._find_module_output(traversal, instance, name)
        return None

    def _find_module_output(
        self, traversal: syntax.Traversal, instance: ModuleInstance, call_name: str
    ) -> _Definition | None:
        """Return the definition of `module.NAME.OUTPUT` or `module.NAME[KEY].OUTPUT`.

        Return None if there is no such output.
        """
        key: Key = None
        # The steps are the name of the call, a key if there is one, and the output.
        output_position = 1
        step = traversal.steps[1] if len(traversal.steps) > 1 else None
        if isinstance(step, syntax.TraverseIndex):
            key = step.key if isinstance(step.key, str) else int(step.key)
            output_position = 2
        output = _get_step_name(traversal, output_position)
        module_instance = self._evaluation.find_module_instance(instance, call_name, key)
        if module_instance is None or output not in module_instance.module.outputs:
            return None
        return _Definition(
            output, module_instance.module.outputs[output].expression, module_instance
        )

    def _explain_reference(
        self, traversal: syntax.Traversal, value: Value, instance: ModuleInstance
    ) -> Iterator[str]:
        """Yield the reasons of a sensitive or unknown reference.

        Each begins with its kind: `sensitive: ...` or `unknown: ...`.
        """
        root = traversal.root.name
        name = _get_step_name(traversal, 0)
        module = instance.module
        if root == "var" and name in module.variables:
            declared = module.variables[name]
            location = f"{declared.span.filename}:{declared.span.start.line}"
            for mark in sorted(declared.marks):
                yield f'{mark}: variable "{declared.name}" is declared so ({location})'
            # Unset, in the root module.
            if instance.call is None and value.raw is UNKNOWN:
                yield f'unknown: variable "{declared.name}" has no value ({location})'
        elif root == "module" and name in module.calls:
            definition = self._find_definition(traversal, instance)
            # No single instance and output is named.
            if definition is None:
                return
            output = definition.instance.module.outputs[definition.name]
            location = f"{output.span.filename}:{output.span.start.line}"
            for mark in sorted(output.marks):
                yield f'{mark}: output "{output.name}" is declared so ({location})'
        elif root == "data":
            yield from self._explain_sensitive_or_unknown_resource(
                traversal, value, instance, name_position=1
            )
        elif ("managed", root, name) in module.resources:
            yield from self._explain_sensitive_or_unknown_resource(
                traversal, value, instance, name_position=0
            )

    def _explain_sensitive_or_unknown_resource(
        self,
        traversal: syntax.Traversal,
        value: Value,
        instance: ModuleInstance,
        name_position: int,
    ) -> Iterator[str]:
        """Yield the reasons of a sensitive or unknown resource value.

        `name_position` is 1 in data.TYPE.NAME, else 0.
        """
        mode: Mode = "data" if name_position else "managed"
        kind = _get_step_name(traversal, 0) if name_position else traversal.root.name
        block = instance.module.resources.get(
            (mode, kind, _get_step_name(traversal, name_position))
        )
        # It is not declared.
        if block is None:
            return
        steps = traversal.steps[name_position + 1 :]
        attribute = next(
            (step.name for step in steps if isinstance(step, syntax.TraverseAttribute)), ""
        )
        schema = self._evaluation.settings.schemas[block.mode].get(kind)
        declared = schema.attributes.get(attribute) if schema is not None else None
        address = ConfigAddress(instance.module.path, block.mode, kind, block.name)
        if value.has_marks:
            is_declared = declared is not None and declared.sensitive
            subject = (
                f'"{attribute}" of {address} always is sensitive'
                if is_declared
                else f"{address} has a sensitive value"
            )
            yield f"sensitive: {subject}"
        if value.is_wholly_known:
            return
        views = self._evaluation.get_resource(instance, block).items.values()
        if any(view.attributes is None for view in views):
            yield f"unknown: {address} does not exist yet; known after apply"
        else:
            yield f"unknown: {format_traversal(traversal)} is known after apply"


def describe_unknown_origin(
    evaluation: NameResolver, expression: syntax.Expression, instance: ModuleInstance
) -> str:
    """Return a sentence with the unknown part of an expression, and where it comes from.

    Return "" if no part can be named.
    """
    tracer = ValueOriginTracer(evaluation, sources={}, own="")
    parts = tracer.find_unknown_parts(expression, instance)
    names = [_format_part(part) for part in parts]
    if not parts or not names[0]:
        return ""
    origin = parts[-1].span
    location = f"{origin.filename}:{origin.start.line}"
    if len(parts) == 1 or not names[-1]:
        return f"The unknown part is {names[0]} ({location})."
    return f"The unknown part is {names[0]}. Its value comes from {names[-1]} ({location})."


def _find_innermost_unknown(trace: EvaluationTrace) -> syntax.Expression | None:
    """Return the first innermost part of an evaluation with an unknown value."""
    if trace.has_failed or trace.value.is_wholly_known:
        return None
    for part in trace.parts:
        innermost = _find_innermost_unknown(part)
        if innermost is not None:
            return innermost
    return trace.expression


def _format_part(expression: syntax.Expression) -> str:
    """Return a reference or a call as in the configuration; "" for other expressions."""
    if isinstance(expression, syntax.Traversal):
        return format_traversal(expression)
    if isinstance(expression, syntax.Call):
        return f"{expression.name}({'...' if expression.arguments else ''})"
    return ""


def _get_step_name(traversal: syntax.Traversal, position: int) -> str:
    """Return the name of the step at this position, "" for a key or without such a step.

    Position 0 is the first step after the root.
    """
    step = traversal.steps[position] if position < len(traversal.steps) else None
    return step.name if isinstance(step, syntax.TraverseAttribute) else ""
