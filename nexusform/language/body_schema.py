"""What a body may hold, and what one holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct, field

from nexusform.diagnostics import Diagnostic, error
from nexusform.language.syntax import Attribute, Block
from nexusform.source import Span


class BodySchema(Struct, frozen=True):
    """The arguments (name -> whether required) and blocks (type -> names of its labels) allowed."""

    attributes: Mapping[str, bool] = field(default_factory=dict)
    blocks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class Content(Struct, frozen=True):
    """What a body holds of its schema: arguments by name and blocks, both in source order.

    `end_span` is where the body ends, for complaints about what is missing.
    """

    attributes: dict[str, Attribute]
    blocks: tuple[Block, ...]
    end_span: Span


def missing_arguments(schema: BodySchema, names: Iterable[str], place: Span) -> list[Diagnostic]:
    """A complaint for every required argument that was not found."""
    present = set(names)
    return [
        error(
            "missing-required-argument",
            f'The argument "{name}" is required, but no definition was found.',
            place,
        )
        for name, required in schema.attributes.items()
        if required and name not in present
    ]


def missing_label(block_type: str, labels: tuple[str, ...], count: int, place: Span) -> Diagnostic:
    """The complaint about a block with too few labels."""
    missing = labels[count]
    return error(
        "missing-block-label",
        f"All {block_type} blocks must have {len(labels)} labels ({', '.join(labels)}).",
        place,
        headline=f"Missing {missing} for {block_type}",
    )


def extraneous_label(block_type: str, labels: tuple[str, ...], place: Span) -> Diagnostic:
    """The complaint about a block with too many labels."""
    if labels:
        detail = f"Only {len(labels)} labels ({', '.join(labels)}) are expected for {block_type} blocks."
        return error("extraneous-block-label", detail, place, headline=f"Extraneous label for {block_type}")
    return error(
        "extraneous-block-label",
        f"No labels are expected for {block_type} blocks.",
        place,
        headline=f"Extraneous label for {block_type}",
    )
