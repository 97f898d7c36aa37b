"""Evaluation of conditionals (`a ? b : c`, and conditions) and of templates."""

from typing import Final

from nexusform.json_data.plain_data import ConversionProblem
from nexusform.language.evaluation_run import UNKNOWN_STRING, ExpressionRun, Requirement
from nexusform.language.syntax.syntax_nodes import (
    Conditional,
    Expression,
    StringLiteral,
    Template,
    TemplateIf,
)
from nexusform.language.type_conversion import convert_value, describe_problem
from nexusform.language.type_unification import unify_types
from nexusform.schemas.value_types import (
    BOOL,
    DYNAMIC,
    STRING,
    ObjectType,
    TupleType,
    Type,
    describe_type,
)
from nexusform.values.typed_value import (
    DYNAMIC_UNKNOWN,
    NO_MARKS,
    UNKNOWN,
    Refinement,
    Value,
    add_refinement,
    build_prefix,
    combine_refinements,
    format_number,
    get_refinement,
)


def evaluate_template(node: Template, run: ExpressionRun) -> Value:
    """Evaluate a template of several parts to a string."""
    return join_parts(node.parts, run, node)


def join_parts(parts: tuple[Expression, ...], run: ExpressionRun, enclosing: Expression) -> Value:
    """Join the evaluated parts to one string.

    With an unknown part only its prefix up to this part is known.
    """
    pieces: list[str] = []
    marks = NO_MARKS
    is_known = True
    prefix = ""
    for part in parts:
        if part.__class__ is StringLiteral:
            pieces.append(part.value)
            continue
        value = run.evaluate(part)
        marks |= value.marks
        text = _convert_to_text(value, part, run, enclosing)
        if text is None:
            # The first unknown part: all known text up to it is a prefix of the result.
            if is_known:
                prefix = "".join(pieces) + get_refinement(value).prefix
            is_known = False
        else:
            pieces.append(text)
    if not is_known:
        return Value(STRING, UNKNOWN, marks, build_prefix(prefix))
    result = Value(STRING, "".join(pieces), marks)
    run.count_result(result)
    return result


def _convert_to_text(
    value: Value, part: Expression, run: ExpressionRun, enclosing: Expression
) -> str | None:
    """Return the text of an interpolated value.

    Return None if it is unknown, or invalid and reported.
    """
    raw = value.raw
    kind = raw.__class__
    # The frequent types need no conversion.
    if kind is str:
        return str(raw)
    if kind is int:
        return format_number(raw)
    text = run.convert_to_required(value, _INTERPOLATED, part, enclosing)
    return None if text is None or text.raw is UNKNOWN else text.raw


_INTERPOLATED: Final = Requirement(
    STRING,
    null_id="invalid-template-interpolation-value",
    null_detail="The expression result is null. Cannot include a null value in a string template.",
    type_id="invalid-template-interpolation-value",
    lead="Cannot include the given value in a string template:",
)


def evaluate_template_if(node: TemplateIf, run: ExpressionRun) -> Value:
    """Evaluate `%{ if }` to the text of the chosen branch.

    Errors of the other branch are ignored.
    """
    condition = evaluate_condition(node.condition, run, node)
    # Reported as invalid.
    if condition is None:
        return UNKNOWN_STRING
    # Marks are those of both branches, so that they are independent of the condition.
    branches = [
        run.run_separately(join_parts, branch, run, node) for branch in (node.then, node.otherwise)
    ]
    marks = condition.marks.union(*[text.marks for text, _ in branches])
    if condition.raw is UNKNOWN:
        return UNKNOWN_STRING.add_marks(marks)
    chosen, diagnostics = branches[0 if condition.raw else 1]
    run.diagnostics.extend(diagnostics)
    return chosen.add_marks(marks)


def evaluate_conditional(node: Conditional, run: ExpressionRun) -> Value:
    """Evaluate a conditional to the chosen branch, converted to the common type.

    Errors of the other branch are ignored.
    """
    then, then_problems = run.evaluate_separately(node.then)
    otherwise, otherwise_problems = run.evaluate_separately(node.otherwise)
    common_type = _find_common_type(then, otherwise)
    if common_type is None:
        return run.report_problem(
            "inconsistent-conditional-result-types",
            "The true and false result expressions must have consistent types. "
            + _describe_difference(then.type, otherwise.type),
            node,
        )
    condition = evaluate_condition(node.condition, run, node)
    # Reported as invalid.
    if condition is None:
        return Value(common_type, UNKNOWN)
    # The marks of both branches, so that they stay the same once an unknown condition is known.
    marks = condition.marks | then.marks | otherwise.marks
    if condition.raw is UNKNOWN:
        return _build_unknown_choice(then, otherwise, common_type).add_marks(marks)
    if condition.raw:
        word = "true"
        part = node.then
        chosen = then
        problems = then_problems
    else:
        word = "false"
        part = node.otherwise
        chosen = otherwise
        problems = otherwise_problems
    run.diagnostics.extend(problems)
    try:
        return convert_value(chosen, common_type).add_marks(marks)
    except ConversionProblem as problem:
        detail = f"The {word} result value has the wrong type: {describe_problem(problem)}."
        return run.report_problem("inconsistent-conditional-result-types", detail, part, node)


def _build_unknown_choice(then: Value, otherwise: Value, result_type: Type) -> Value:
    """Build the result for an unknown condition.

    The result is unknown, with the known properties shared by both branches.
    """
    if then.raw is None and otherwise.raw is None:
        return Value(result_type, None)
    refinement = combine_refinements(get_refinement(then), get_refinement(otherwise))
    if then.type != otherwise.type:
        # The chosen value will be converted: its prefix may change, and equal elements may become
        # one (but not none).
        refinement = Refinement(
            refinement.not_null, shortest=min(refinement.shortest, 1), longest=refinement.longest
        )
    return add_refinement(Value(result_type, UNKNOWN), refinement)


def _find_common_type(then: Value, otherwise: Value) -> Type | None:
    """Return the common type of two branches; None if there is none.

    An untyped null takes the type of the other branch. With a branch of open type the result is
    open: the chosen value is not converted.
    """
    if then.type is DYNAMIC and then.raw is None:
        return otherwise.type
    if otherwise.type is DYNAMIC and otherwise.raw is None:
        return then.type
    if then.type is DYNAMIC or otherwise.type is DYNAMIC:
        return DYNAMIC
    return unify_types([then.type, otherwise.type])


def _describe_difference(then: Type, otherwise: Type) -> str:
    """Describe in one sentence why the branches of a conditional have no common type.

    The branches are `then` and `otherwise`.
    """
    if isinstance(then, ObjectType) and isinstance(otherwise, ObjectType):
        return _describe_object_difference(then, otherwise)
    if isinstance(then, TupleType) and isinstance(otherwise, TupleType):
        first = len(then.elements)
        second = len(otherwise.elements)
        if first != second:
            return (
                f"The 'true' tuple has length {first}, but the 'false' tuple has length {second}."
            )
        for position, (first_type, second_type) in enumerate(
            zip(then.elements, otherwise.elements, strict=True)
        ):
            if unify_types([first_type, second_type]) is None:
                return (
                    f"Type mismatch for tuple element {position}: "
                    f"{_describe_difference(first_type, second_type)}"
                )
    return (
        f"The 'true' value is {describe_type(then)}, but the 'false' value is "
        f"{describe_type(otherwise)}."
    )


def _describe_object_difference(then: ObjectType, otherwise: ObjectType) -> str:
    """Describe the first attribute without a common type in the objects of two branches."""
    for name, kind in then.attributes:
        other_type = otherwise.get_attribute(name)
        if other_type is None:
            return (
                f"The 'true' value includes object attribute \"{name}\", absent in the 'false' "
                "value."
            )
        if unify_types([kind, other_type]) is None:
            return (
                f'Type mismatch for object attribute "{name}": '
                f"{_describe_difference(kind, other_type)}"
            )
    extra = next(name for name, _ in otherwise.attributes if then.get_attribute(name) is None)
    return f"The 'false' value includes object attribute \"{extra}\", absent in the 'true' value."


def evaluate_condition(
    expression: Expression, run: ExpressionRun, enclosing: Expression
) -> Value | None:
    """Evaluate a condition to a bool, possibly unknown.

    Report an invalid one and return None. `enclosing` is the expression with the condition, the
    context in this report.
    """
    previous_count = len(run.diagnostics)
    condition = run.evaluate(expression)
    if run.has_failed_since(previous_count) and condition == DYNAMIC_UNKNOWN:
        # The result of an error reported during its evaluation.
        return None
    return run.convert_to_required(condition, _CONDITION, expression, enclosing)


_CONDITION: Final = Requirement(
    BOOL,
    null_id="null-condition",
    null_detail="The condition value is null. Conditions must either be true or false.",
    type_id="incorrect-condition-type",
    lead="The condition expression must be of type bool:",
)
