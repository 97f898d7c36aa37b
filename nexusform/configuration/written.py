"""Arguments that are read as written rather than evaluated: names, references, relative paths.

In JSON syntax they are strings that hold what the native syntax writes bare.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from nexusform.diagnostics import Diagnostic, error
from nexusform.language.parser import parse_expression
from nexusform.language.syntax import nodes as syntax
from nexusform.language.syntax.positions import describe
from nexusform.plain_data import PathStep
from nexusform.source import Position, SourceFile, Span

_NAME = re.compile(r"[^\W\d][\w-]*")
NAME_RULE = (
    "A name must start with a letter or underscore and may contain only letters, digits, underscores, and "
    "dashes."
)
_REFERENCE_RULE = (
    "A single static variable reference is required: only attribute access and indexing with constant keys. "
    "No calculations, function calls, template expressions, etc are allowed here."
)


def is_name(text: str) -> bool:
    """Whether the text may name a block."""
    return _NAME.fullmatch(text) is not None


def check_name(label: syntax.Label, invalid: str, problems: list[Diagnostic]) -> bool:
    """Whether a label is a name; says so when it is not."""
    if is_name(label.value):
        return True
    problems.append(error(invalid, NAME_RULE, label.span))
    return False


def header_text(block: syntax.Block) -> str:
    """The header of a block as diagnostics show it: `resource "type" "name"`."""
    return " ".join([block.type, *(f'"{label.value}"' for label in block.labels)])


def already(kind: str, name: str, earlier: Span, rule: str) -> str:
    """The detail of a duplicate."""
    return f'{kind} "{name}" was already declared at {describe(earlier)}. {rule}'


def as_expression(expression: syntax.Expression, problems: list[Diagnostic]) -> syntax.Expression | None:
    """The expression itself, or the one that a string holds."""
    if not isinstance(expression, syntax.StringLiteral):
        return expression
    span = expression.span
    inside = Position(span.start.line, span.start.column + 1, span.start.byte + 1)
    parsed, wrong = parse_expression(SourceFile(span.filename, expression.value), inside)
    problems.extend(wrong)
    return parsed


def reference(expression: syntax.Expression, problems: list[Diagnostic]) -> syntax.Traversal | None:
    """One static reference; None after a diagnostic."""
    before = len(problems)
    traversal = as_expression(expression, problems)
    if isinstance(traversal, syntax.Traversal):
        return traversal
    if len(problems) == before:
        problems.append(error("invalid-expression", _REFERENCE_RULE, expression.span))
    return None


def listed_expressions(
    attribute: syntax.Attribute, problems: list[Diagnostic]
) -> tuple[syntax.Expression, ...]:
    """The items of a list that must be written as one."""
    if isinstance(attribute.expression, syntax.TupleCons):
        return attribute.expression.items
    problems.append(
        error(
            "invalid-expression",
            "A static list expression is required: write the elements in brackets, [a, b].",
            attribute.expression.span,
        )
    )
    return ()


def references(
    attribute: syntax.Attribute | None, problems: list[Diagnostic]
) -> tuple[syntax.Traversal, ...]:
    """The references of `depends_on` and the like."""
    if attribute is None:
        return ()
    traversals = [reference(e, problems) for e in listed_expressions(attribute, problems)]
    return tuple(t for t in traversals if t is not None)


def keyword(attribute: syntax.Attribute) -> str:
    """The bare word that an argument consists of, or ""."""
    match attribute.expression:
        case syntax.Traversal(root, ()):
            return root.name
        case syntax.StringLiteral(value):
            return value
    return ""


def relative_path(traversal: syntax.Traversal, problems: list[Diagnostic]) -> tuple[PathStep, ...] | None:
    """A traversal into an object as the steps of a path: `agent_pool["np1"].count`."""
    steps: list[PathStep] = [traversal.root.name]
    for step in traversal.steps:
        if isinstance(step, syntax.TraverseAttribute):
            steps.append(int(step.name) if step.name.isdecimal() else step.name)
        elif isinstance(step, syntax.TraverseIndex) and isinstance(step.key, (str, int)):
            steps.append(step.key)
        else:
            problems.append(
                error("invalid-expression", "An index must be a whole number or a string.", step.span)
            )
            return None
    return tuple(steps)


def only_block(blocks: Iterable[syntax.Block], kind: str, problems: list[Diagnostic]) -> syntax.Block | None:
    """The one block of a type that may stand once; more are told."""
    same = [b for b in blocks if b.type == kind]
    for extra in same[1:]:
        detail = (
            f'Only one "{kind}" block is allowed here. Another was given at {describe(same[0].header_span)}.'
        )
        problems.append(
            error("duplicate-block", detail, extra.header_span, headline=f"Duplicate {kind} block")
        )
    return same[0] if same else None


def in_text_order(problems: Iterable[Diagnostic]) -> list[Diagnostic]:
    """By file name and place in the file; what has no place comes first."""

    def place(problem: Diagnostic) -> tuple[str, int]:
        subject = problem.subject
        return (subject.filename, subject.start.byte) if subject else ("", -1)

    return sorted(problems, key=place)
