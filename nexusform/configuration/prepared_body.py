"""Validated body, ready to be evaluated for any number of instances."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from nexusform.diagnostics.diagnostic import Diagnostic, Span, build_error, has_errors, suggest_name
from nexusform.json_data.plain_data import (
    ConversionProblem,
    Path,
    PathStep,
    Refinements,
    convert_to_plain,
    list_refinements,
)
from nexusform.language.evaluator import Scope, evaluate_expression
from nexusform.language.references import list_traversals as references_in
from nexusform.language.syntax.scanner import describe_span as place_of
from nexusform.language.syntax.syntax_nodes import (
    Attribute,
    Expression,
    ObjectCons,
    Parentheses,
    Traversal,
    TupleCons,
)
from nexusform.language.type_conversion import (
    convert_value,
    describe_problem,
    remove_optional_attributes,
)
from nexusform.schemas import block_schema as schemas
from nexusform.schemas.block_schema import NestedBlock, Nesting, get_order_attribute
from nexusform.values.typed_value import DYNAMIC_UNKNOWN, UNKNOWN, Refinement, is_within_bounds

if TYPE_CHECKING:
    from nexusform.configuration.dynamic_blocks import DynamicBlock


class EvaluationResult:
    """Notes of an evaluation besides the values.

    Ephemeral values are errors unless `allows_ephemeral`.
    """

    __slots__ = ("allows_ephemeral", "problems", "refinements", "sensitive")

    def __init__(self, *, allows_ephemeral: bool = False) -> None:
        self.allows_ephemeral = allows_ephemeral
        self.problems: list[Diagnostic] = []
        # Paths of sensitive parts.
        self.sensitive: list[Path] = []
        # Known limits of unknown parts, with their paths.
        self.refinements: list[tuple[Path, Refinement]] = []


class PreparedBody:
    """Validated body.

    `evaluate` it for every instance; it never changes. `template` contains the values of every
    instance (constants, defaults, None), `varying` the arguments to be evaluated each time,
    `sensitive_names` the names that the schema marks as sensitive, `lengths` count arguments
    with their lists.
    """

    __slots__ = (
        "_arguments",
        "_blocks",
        "_copied_names",
        "_lengths",
        "_location",
        "_sensitive_names",
        "_template",
        "_varying_arguments",
    )

    def __init__(
        self,
        location: Span,
        arguments: Mapping[str, PreparedArgument],
        *,
        template: dict[str, Any],
        varying: Sequence[PreparedArgument],
        blocks: Sequence[NestedBlockGroup],
        sensitive_names: Sequence[str],
        lengths: Mapping[str, str],
    ) -> None:
        """Keep the prepared parts, and note the mutable values of `template`.

        They are copied for each instance.
        """
        self._location = location
        # By the name of a count, the list with as many elements.
        self._lengths = lengths
        self._arguments = arguments
        # The values equal in every instance.
        self._template = template
        # Arguments that are evaluated for every instance.
        self._varying_arguments = tuple(varying)
        self._blocks = tuple(blocks)
        self._sensitive_names = tuple(sensitive_names)
        self._copied_names = tuple(
            n for n, v in template.items() if v.__class__ in (list, dict)
        )  # mutable values

    def is_configured(self, name: str) -> bool:
        """Return whether the body has this argument."""
        return name in self._arguments

    def evaluate(
        self, scope: Scope, *, allows_ephemeral: bool = False
    ) -> tuple[dict[str, Any], tuple[Path, ...], list[Diagnostic]]:
        """Return the values as plain data by name, the paths of sensitive parts, and the problems.

        Absent and null arguments have their default or None; computed ones are omitted. Unknown or
        invalid values are UNKNOWN.
        """
        result = EvaluationResult(allows_ephemeral=allows_ephemeral)
        values = self.fill(scope, result)
        return values, tuple(result.sensitive), result.problems

    def fill(self, scope: Scope, result: EvaluationResult) -> dict[str, Any]:
        """Return the values as `evaluate` does.

        Problems, sensitive paths and refinements are added to `result`. The paths start at this
        body, also if `result` belongs to an enclosing one.
        """
        values = self._template.copy()
        # A caller may change lists and mappings of an instance.
        for name in self._copied_names:
            values[name] = copy_deep_plain_data(values[name])
        nulls = self._evaluate_varying_arguments(values, scope, result)
        # The count must be the length of the list.
        for count_name, list_name in self._lengths.items():
            if count_name in nulls:
                # A null count is not compared, as if the argument were absent.
                continue
            count = values[count_name]
            elements = values[list_name]
            if isinstance(elements, list) and isinstance(count, int) and count != len(elements):
                detail = (
                    f'"{list_name}" has {len(elements)} elements, but "{count_name}" is {count}. '
                    f'Make them equal, or remove "{count_name}".'
                )
                result.problems.append(
                    build_error("conflicting-arguments", detail, self._arguments[list_name].span)
                )
        for name in self._sensitive_names:
            if values.get(name) is not None and (name,) not in result.sensitive:
                result.sensitive.append((name,))
        for block in self._blocks:
            block.fill(values, scope, result)
        return values

    def _evaluate_varying_arguments(
        self, values: dict[str, Any], scope: Scope, result: EvaluationResult
    ) -> set[str]:
        """Set the values of the varying arguments, and return the names of the null ones.

        A null argument keeps its default in `values`; if it is required, report it and set UNKNOWN.
        """
        nulls: set[str] = set()
        for argument in self._varying_arguments:
            plain_value, sensitive, refinements, problems = argument.evaluate(
                scope, allows_ephemeral=result.allows_ephemeral
            )
            name = argument.attribute.name
            result.problems.extend(problems)
            if plain_value is not None:
                values[name] = plain_value
            else:
                nulls.add(name)
                if argument.schema.required:
                    result.problems.append(build_missing_argument_error(name, argument.span))
                    values[name] = UNKNOWN
            if sensitive:
                result.sensitive.extend((name, *path) for path in sensitive)
            if refinements:
                result.refinements.extend(
                    ((name, *path), refinement) for path, refinement in refinements
                )
        return nulls

    def locate(self, path: Path) -> Span:
        """Return the span of a value, or of the nearest enclosing part with a text of its own."""
        if not path:
            return self._location
        argument = self._arguments.get(str(path[0]))
        if argument is not None:
            return locate_literal_part(argument.attribute.expression, path[1:])
        for block in self._blocks:
            if path[0] == block.name:
                return block.locate(path[1:]) or self._location
        return self._location

    def list_references(self) -> Iterator[Traversal]:
        """List every reference of the body, except those to iterators of its dynamic blocks."""
        for argument in self._arguments.values():
            yield from references_in(argument.attribute.expression)
        for block in self._blocks:
            yield from block.list_references()


class StaticBlock(Struct, frozen=True):
    """Nested block that is not dynamic."""

    label: str
    body: PreparedBody
    span: Span


class RepeatedBlock(Struct, frozen=True):
    """Dynamic block with its content."""

    dynamic: DynamicBlock
    body: PreparedBody

    @property
    def span(self) -> Span:
        """Span of its header."""
        return self.dynamic.header_span


class _EvaluatedBlock(Struct, frozen=True):
    """Nested block with its values."""

    label: str
    values: dict[str, Any]
    span: Span


class NestedBlockGroup:
    """All nested blocks of one type in a body, in source order; `location` is the body's."""

    __slots__ = ("items", "location", "name", "nested")

    def __init__(
        self,
        name: str,
        nested: NestedBlock,
        items: Sequence[StaticBlock | RepeatedBlock],
        location: Span,
    ) -> None:
        """Keep the blocks of the type.

        `items` are static blocks and those repeated by `dynamic`.
        """
        self.name = name
        self.nested = nested
        self.items = tuple(items)
        # Of an error about missing blocks.
        self.location = location

    def fill(self, values: dict[str, Any], scope: Scope, result: EvaluationResult) -> None:
        """Evaluate the blocks, and add them to `values` under the name of their type.

        By the nesting of the type this is one body (None without a block), a list of bodies, or a
        map of bodies by label. A map also gets the order of its labels. If the number or a label is
        unknown, the value is UNKNOWN.
        """
        # It says whether the number and labels of the blocks are known.
        is_known = True
        has_dynamic = False
        evaluated_blocks: list[_EvaluatedBlock] = []
        for item in self.items:
            if isinstance(item, StaticBlock):
                self._add_evaluated_block(evaluated_blocks, item.label, item, scope, result)
            else:
                has_dynamic = True
                is_known = (
                    self._add_dynamic_blocks(evaluated_blocks, item, scope, result) and is_known
                )
        if not is_known:
            if self.nested.nesting is Nesting.MAP:
                # Labels that are known must differ all the same; "" stands for unknown ones.
                known = [(block.label, block.span) for block in evaluated_blocks if block.label]
                result.problems.extend(check_block_labels(self.name, known))
            values[self.name] = UNKNOWN
            if self.nested.nesting is Nesting.MAP:
                values[get_order_attribute(self.name)] = UNKNOWN
            return
        # Static blocks alone were counted at preparation.
        if has_dynamic:
            labels_and_spans = [(block.label, block.span) for block in evaluated_blocks]
            result.problems.extend(
                check_block_count(self.nested, self.name, labels_and_spans, self.location)
            )
        if self.nested.nesting is Nesting.SINGLE:
            values[self.name] = evaluated_blocks[0].values if evaluated_blocks else None
        elif self.nested.nesting is Nesting.LIST:
            values[self.name] = [block.values for block in evaluated_blocks]
        else:
            by_label = {block.label: block.values for block in evaluated_blocks}
            values[self.name] = by_label
            values[get_order_attribute(self.name)] = list(by_label)

    def _add_dynamic_blocks(
        self,
        evaluated_blocks: list[_EvaluatedBlock],
        item: RepeatedBlock,
        scope: Scope,
        result: EvaluationResult,
    ) -> bool:
        """Evaluate a dynamic block's blocks.

        Return whether their number and labels are known. With an unknown number, evaluate the
        content once for its errors.
        """
        from nexusform.configuration.dynamic_blocks import (
            IteratorScope,
            build_iterator_scopes,
            evaluate_label,
        )

        scopes, problems = build_iterator_scopes(item.dynamic, scope)
        result.problems.extend(problems)
        # `for_each` is unknown or invalid.
        if scopes is None:
            # Its values are discarded.
            separate_result = EvaluationResult(allows_ephemeral=result.allows_ephemeral)
            unknown_scope = IteratorScope(
                scope, item.dynamic.iterator, DYNAMIC_UNKNOWN, DYNAMIC_UNKNOWN
            )
            item.body.fill(unknown_scope, separate_result)
            result.problems.extend(separate_result.problems)
            return False
        is_known = True
        for item_scope in scopes:
            # None: not known; "": the type has none.
            label: str | None = None if item.dynamic.lacks_label else ""
            if item.dynamic.label is not None:
                label, problems = evaluate_label(item.dynamic.label, item_scope)
                result.problems.extend(problems)
            is_known = is_known and label is not None
            self._add_evaluated_block(evaluated_blocks, label or "", item, item_scope, result)
        return is_known

    def _add_evaluated_block(
        self,
        evaluated_blocks: list[_EvaluatedBlock],
        label: str,
        item: StaticBlock | RepeatedBlock,
        scope: Scope,
        result: EvaluationResult,
    ) -> None:
        """Evaluate one block and add it to the list.

        In `result`, put its name and its label or position before each new path: paths start at
        the enclosing body.
        """
        # New paths begin here.
        first_sensitive = len(result.sensitive)
        first_refined = len(result.refinements)
        # A block without a label has its position.
        step: PathStep = label if self.nested.nesting is Nesting.MAP else len(evaluated_blocks)
        prefix: Path = (self.name,) if self.nested.nesting is Nesting.SINGLE else (self.name, step)
        evaluated_blocks.append(_EvaluatedBlock(label, item.body.fill(scope, result), item.span))
        result.sensitive[first_sensitive:] = [
            (*prefix, *p) for p in result.sensitive[first_sensitive:]
        ]
        result.refinements[first_refined:] = [
            ((*prefix, *p), bounds) for p, bounds in result.refinements[first_refined:]
        ]

    def locate(self, path: Path) -> Span | None:
        """Return the span of the part at a path inside these blocks.

        Return None without any block of this type.
        """
        if not self.items:
            return None
        if self.nested.nesting is Nesting.SINGLE:
            # No step selects a block.
            return self.items[0].body.locate(path)
        # The step is a label or a position.
        item = self._find_block_at_step(path[0]) if path else self.items[0]
        return item.body.locate(path[1:])

    def _find_block_at_step(self, step: PathStep) -> StaticBlock | RepeatedBlock:
        """Find the static block with a label or position, else a dynamic block.

        It may generate the wanted one. Without both, return the first block for a label, the last
        block for a position.
        """
        is_label = isinstance(step, str)
        for position, item in enumerate(self.items):
            if isinstance(item, RepeatedBlock):
                if not is_label:
                    # It generates any number of blocks, so later positions are unknown.
                    return item
            elif step in (item.label, position):
                return item
        if not is_label:
            return self.items[-1]
        return next((item for item in self.items if isinstance(item, RepeatedBlock)), self.items[0])

    def list_references(self) -> Iterator[Traversal]:
        """List the references of the blocks.

        References to the iterator inside a dynamic block are omitted.
        """
        for item in self.items:
            if isinstance(item, StaticBlock):
                yield from item.body.list_references()
                continue
            dynamic = item.dynamic
            # It is outside the block: its iterator has no meaning there.
            yield from references_in(dynamic.for_each)
            references = list(item.body.list_references())
            references.extend(references_in(dynamic.label) if dynamic.label else ())
            yield from (
                traversal for traversal in references if traversal.root.name != dynamic.iterator
            )


def build_missing_argument_error(name: str, span: Span) -> Diagnostic:
    """Return the error about a required argument that is absent or null."""
    detail = f'The argument "{name}" is required, but no definition was found.'
    return build_error("missing-required-argument", detail, span)


def check_block_count(
    nested: NestedBlock, name: str, blocks: Sequence[tuple[str, Span]], location: Span
) -> Iterator[Diagnostic]:
    """Report too few or too many blocks of a type, or two blocks with the same label.

    `blocks` has the label and the span of each block. Missing blocks are reported at `location`.
    """
    is_single = nested.nesting is Nesting.SINGLE
    maximum = 1 if is_single else nested.max_items
    if len(blocks) < nested.min_items:
        if is_single:
            detail = f'A block of type "{name}" is required here.'
            yield build_error("missing-block", detail, location, headline=f"Missing {name} block")
        else:
            detail = f'At least {nested.min_items} "{name}" blocks are required.'
            yield build_error(
                "insufficient-blocks", detail, location, headline=f"Insufficient {name} blocks"
            )
    if maximum is not None and len(blocks) > maximum:
        first_surplus_span = blocks[maximum][1]
        if maximum == 1:
            detail = (
                f"Only one {name} block is allowed. Another was given at {place_of(blocks[0][1])}."
            )
            yield build_error(
                "duplicate-block", detail, first_surplus_span, headline=f"Duplicate {name} block"
            )
        else:
            detail = f'No more than {maximum} "{name}" blocks are allowed.'
            yield build_error(
                "too-many-blocks", detail, first_surplus_span, headline=f"Too many {name} blocks"
            )
    if nested.nesting is Nesting.MAP:
        yield from check_block_labels(name, blocks)


def check_block_labels(name: str, blocks: Iterable[tuple[str, Span]]) -> Iterator[Diagnostic]:
    """Report each block whose label an earlier block has; `blocks` are labels and spans."""
    first_spans: dict[str, Span] = {}
    for label, span in blocks:
        if label not in first_spans:
            first_spans[label] = span
            continue
        first_span = first_spans[label]
        if first_span is span:
            # A dynamic block generates both.
            reason = "two elements of for_each have this label. Use another one."
        else:
            reason = f"the first is at {place_of(first_span)}. Use another label."
        detail = f'Duplicate block {name} "{label}": {reason}'
        yield build_error("duplicate-block", detail, span, headline=f"Duplicate {name} block")


def copy_deep_plain_data(plain: Any) -> Any:
    """Return a copy that shares no list or mapping with the original."""
    if plain.__class__ is dict:
        return {k: copy_deep_plain_data(v) for k, v in plain.items()}
    if plain.__class__ is list:
        return list(map(copy_deep_plain_data, plain))
    return plain


def locate_literal_part(expression: Expression, path: Path) -> Span:
    """Return the span of the part of a literal collection at a path, as far as it is literal."""
    for step in path:
        while isinstance(expression, Parentheses):
            expression = expression.inner
        part = _find_literal_element(expression, step)
        if part is None:
            break
        expression = part
    return expression.span


def _find_literal_element(expression: Expression, step: PathStep) -> Expression | None:
    """Return the element of a literal list or object.

    Return None without such an element, or if the expression is neither a list nor an object. A
    step is the index of an item, or the key of an entry. A key that is computed by an expression
    matches no step.
    """
    if isinstance(expression, TupleCons) and isinstance(step, int) and step < len(expression.items):
        return expression.items[step]
    if isinstance(expression, ObjectCons):
        for key, value in expression.items:
            if key.literal_text == step:
                return value
    return None


class PreparedArgument:
    """Argument with its schema."""

    __slots__ = ("_concrete_type", "attribute", "schema", "type")

    def __init__(self, attribute: Attribute, schema: schemas.AttributeSchema) -> None:
        self.attribute = attribute
        self.schema = schema
        self.type = schema.type
        # Type of converted values.
        self._concrete_type = remove_optional_attributes(schema.type)

    @property
    def span(self) -> Span:
        """Span of the value."""
        return self.attribute.expression.span

    def evaluate(
        self, scope: Scope, *, allows_ephemeral: bool = False
    ) -> tuple[Any, tuple[Path, ...], Refinements, list[Diagnostic]]:
        """Return the value as plain data of its type, with paths and problems.

        The paths are those of sensitive parts, and the refinements those of unknown parts. An
        invalid value is returned as UNKNOWN, so that dependent values cause no second message.
        """
        value, problems = evaluate_expression(self.attribute.expression, scope)
        if problems and has_errors(problems):
            return UNKNOWN, (), (), problems
        # An equal type converts to the same value.
        if value.type is not self._concrete_type:
            try:
                value = convert_value(value, self.type)
            except ConversionProblem as problem:
                detail = (
                    f'Inappropriate value for attribute "{self.attribute.name}": '
                    f"{describe_problem(problem)}."
                )
                type_problem = build_error("incorrect-attribute-value-type", detail, self.span)
                return UNKNOWN, (), (), [*problems, type_problem]
        plain_value, sensitive = convert_to_plain(value)
        # Ephemeral parts are among the sensitive ones, so the cheaper check is first.
        if sensitive and not (allows_ephemeral or self.schema.write_only) and value.has_ephemeral:
            detail = (
                f'Ephemeral values are not valid for "{self.attribute.name}", because it is saved '
                "in the state. Use a "
                "write-only argument, or wrap the value in ephemeralasnull()."
            )
            ephemeral_problem = build_error("invalid-use-of-ephemeral-value", detail, self.span)
            return UNKNOWN, (), (), [*problems, ephemeral_problem]
        if plain_value is not None and plain_value is not UNKNOWN:
            violation = _describe_schema_violation(self.schema, plain_value, hidden=bool(sensitive))
            if violation:
                detail = f'"{self.attribute.name}" {violation}'
                return (
                    UNKNOWN,
                    sensitive,
                    (),
                    [*problems, build_error("invalid-value-for-argument", detail, self.span)],
                )
        return plain_value, sensitive, list_refinements(value), problems


def _describe_schema_violation(schema: schemas.AttributeSchema, value: Any, *, hidden: bool) -> str:
    """Return how a known scalar violates its schema, as the end of a sentence; "" if it does not.

    Choices and patterns are for text, bounds for numbers. `hidden` keeps the value out
    of the message.
    """
    if schema.choices and value not in schema.choices:
        # There are two or more.
        *first_choices, last_choice = [f'"{choice}"' for choice in schema.choices]
        requirement = f"{', '.join(first_choices)} or {last_choice}"
    elif not is_within_bounds(value, schema.minimum, schema.maximum):
        requirement = f"between {schema.minimum} and {schema.maximum}"
        if schema.maximum is None:
            requirement = f"at least {schema.minimum}"
        elif schema.minimum is None:
            requirement = f"at most {schema.maximum}"
    elif schema.pattern and not re.fullmatch(schema.pattern, value):
        requirement = schema.pattern_hint
    else:
        return ""
    if hidden:
        return f"must be {requirement}."
    if isinstance(value, str):
        return f'must be {requirement}, not "{value}".{suggest_name(value, schema.choices)}'
    return f"must be {requirement}, not {value}."
