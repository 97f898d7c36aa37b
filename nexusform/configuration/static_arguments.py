"""Arguments that are read as text instead of being evaluated: names, references, relative paths.

In JSON syntax they are strings with the native syntax as content.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from nexusform.diagnostics.diagnostic import Diagnostic, build_error
from nexusform.diagnostics.source import Position, SourceFile, Span
from nexusform.json_data.plain_data import PathStep
from nexusform.language.parser import parse_expression
from nexusform.language.syntax import syntax_nodes as syntax
from nexusform.language.syntax.positions import describe_span

_NAME = re.compile(r"[^\W\d][\w-]*")
NAME_RULE = (
    "A name must start with a letter or underscore and may contain only letters, digits, underscores, and dashes."
)
_REFERENCE_RULE = (
    "A single static variable reference is required: only attribute access and indexing with constant keys. "
    "No calculations, function calls, template expressions, etc are allowed here."
)


def is_name(text: str) -> bool:
    """Check whether the text is a valid block name."""
    return _NAME.fullmatch(text) is not None


def check_name(label: syntax.Label, diagnostic_id: str, problems: list[Diagnostic]) -> bool:
    """Check whether a label is a name; otherwise add a diagnostic."""
    if is_name(label.value):
        return True
    problems.append(build_error(diagnostic_id, NAME_RULE, label.span))
    return False


def format_header(block: syntax.Block) -> str:
    """Format the header of a block as in diagnostics: `resource "type" "name"`."""
    return " ".join([block.type, *(f'"{label.value}"' for label in block.labels)])


def describe_duplicate(kind: str, name: str, earlier: Span, rule: str) -> str:
    """Return the detail of a duplicate."""
    return f'{kind} "{name}" was already declared at {describe_span(earlier)}. {rule}'


def parse_static_expression(expression: syntax.Expression, problems: list[Diagnostic]) -> syntax.Expression | None:
    """Return the expression itself, or the expression in a string."""
    if not isinstance(expression, syntax.StringLiteral):
        return expression
    span = expression.span
    start = Position(span.start.line, span.start.column + 1, span.start.byte + 1)
    parsed, new_problems = parse_expression(SourceFile(span.filename, expression.value), start)
    problems.extend(new_problems)
    return parsed


def parse_reference(expression: syntax.Expression, problems: list[Diagnostic]) -> syntax.Traversal | None:
    """Parse one static reference; None after a diagnostic."""
    previous_count = len(problems)
    traversal = parse_static_expression(expression, problems)
    if isinstance(traversal, syntax.Traversal):
        return traversal
    if len(problems) == previous_count:
        problems.append(build_error("invalid-expression", _REFERENCE_RULE, expression.span))
    return None


def list_expressions(attribute: syntax.Attribute, problems: list[Diagnostic]) -> tuple[syntax.Expression, ...]:
    """Return the items of a static list expression."""
    if isinstance(attribute.expression, syntax.TupleCons):
        return attribute.expression.items
    problems.append(
        build_error(
            "invalid-expression",
            "A static list expression is required: write the elements in brackets, [a, b].",
            attribute.expression.span,
        )
    )
    return ()


def parse_references(attribute: syntax.Attribute | None, problems: list[Diagnostic]) -> tuple[syntax.Traversal, ...]:
    """Parse the references of `depends_on` and similar arguments."""
    if attribute is None:
        return ()
    traversals = [parse_reference(expression, problems) for expression in list_expressions(attribute, problems)]
    return tuple(traversal for traversal in traversals if traversal is not None)


def get_keyword(attribute: syntax.Attribute) -> str:
    """Return the bare word of an argument, or ""."""
    match attribute.expression:
        case syntax.Traversal(root, ()):
            return root.name
        case syntax.StringLiteral(value):
            return value
    return ""


def parse_relative_path(traversal: syntax.Traversal, problems: list[Diagnostic]) -> tuple[PathStep, ...] | None:
    """Parse a traversal into an object as the steps of a path: `agent_pool["np1"].count`."""
    steps: list[PathStep] = [traversal.root.name]
    for step in traversal.steps:
        if isinstance(step, syntax.TraverseAttribute):
            steps.append(int(step.name) if step.name.isdecimal() else step.name)
        elif isinstance(step, syntax.TraverseIndex) and isinstance(step.key, (str, int)):
            steps.append(step.key)
        else:
            problems.append(
                build_error("invalid-expression", "An index must be a whole number or a string.", step.span)
            )
            return None
    return tuple(steps)


def find_single_block(blocks: Iterable[syntax.Block], kind: str, problems: list[Diagnostic]) -> syntax.Block | None:
    """Return the block of a type that is allowed once; further ones are reported."""
    matches = [block for block in blocks if block.type == kind]
    for duplicate in matches[1:]:
        detail = (
            f'Only one "{kind}" block is allowed here. Another was given at {describe_span(matches[0].header_span)}.'
        )
        problems.append(
            build_error("duplicate-block", detail, duplicate.header_span, headline=f"Duplicate {kind} block")
        )
    return matches[0] if matches else None


def sort_by_position(problems: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Sort by file name and position in the file; problems without a position are first."""

    def get_position(problem: Diagnostic) -> tuple[str, int]:
        subject = problem.subject
        return (subject.filename, subject.start.byte) if subject else ("", -1)

    return sorted(problems, key=get_position)
