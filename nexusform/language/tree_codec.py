"""A tree to bytes and back, so that a parse can be kept between runs.

The form is JSON, never code. It is laid out for fast reading: nodes stand in columns, grouped by
their height above the leaves and by their type, so that a whole group is made by one `map`; a node
is named by its number in that order. Positions and spans have tables of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal
from functools import partial
from typing import Any

from nexusform.language import syntax
from nexusform.language.parser import SYNTAX_VERSION, collector_off
from nexusform.language.syntax import Body, JsonBody
from nexusform.source import Position, Span

_FORMAT = f"nexusform-tree-1.{SYNTAX_VERSION}"

# What each field of a node is, in order: v a plain value, s a span, n a node, o a node or None,
# t a tuple of nodes, p a tuple of pairs of nodes. The order of this table is part of the format.
_NODES: tuple[tuple[type[Any], str], ...] = (
    (syntax.Literal, "vs"),
    (syntax.StringLiteral, "vs"),
    (syntax.Template, "ts"),
    (syntax.TemplateWrap, "ns"),
    (syntax.TemplateIf, "ntts"),
    (syntax.TemplateFor, "vvnts"),
    (syntax.TraverseRoot, "vs"),
    (syntax.TraverseAttribute, "vs"),
    (syntax.TraverseIndex, "vs"),
    (syntax.Traversal, "nts"),
    (syntax.RelativeTraversal, "nts"),
    (syntax.Index, "nns"),
    (syntax.Splat, "nnvs"),
    (syntax.SplatElement, "s"),
    (syntax.Unary, "vns"),
    (syntax.Binary, "vnns"),
    (syntax.Conditional, "nnns"),
    (syntax.Call, "vtvss"),
    (syntax.TupleCons, "ts"),
    (syntax.ObjectKey, "nvs"),
    (syntax.ObjectCons, "ps"),
    (syntax.ForTuple, "vvnnos"),
    (syntax.ForObject, "vvnnnvos"),
    (syntax.Parentheses, "ns"),
    (syntax.Attribute, "vnss"),
    (syntax.Label, "vs"),
    (syntax.Block, "vtnsss"),
    (syntax.Body, "ttss"),
    (syntax.JsonProperty, "vns"),
    (syntax.JsonObject, "ts"),
    (syntax.JsonArray, "ts"),
    (syntax.JsonScalar, "vs"),
    (syntax.JsonBody, "ts"),
)
_TAGS = {cls: tag for tag, (cls, _) in enumerate(_NODES)}
_NAMES = [cls.__struct_fields__ for cls, _ in _NODES]
_LARGEST_INTEGER = 2**53

_Place = tuple[int, int, int]  # height, tag, number within that group


def encode(body: Body | JsonBody) -> bytes:
    """The bytes that stand for a tree; equal trees give equal bytes."""
    import orjson

    with collector_off():
        return orjson.dumps(_Encoder().document(body))


class _Encoder:
    """Gathers nodes into groups, children first."""

    def __init__(self) -> None:
        self.groups: dict[tuple[int, int], list[list[Any]]] = {}
        self.positions: dict[Position, int] = {}
        self.spans: dict[tuple[Position, Position], int] = {}

    def document(self, body: Body | JsonBody) -> list[Any]:
        """Everything about a tree, ready for JSON."""
        root = self._node(body)
        order = sorted(self.groups)
        base, total = {}, 0
        for key in order:
            base[key] = total
            total += len(self.groups[key][0])

        def number(place: _Place) -> int:
            return base[place[0], place[1]] + place[2]

        groups = [
            [tag, [_numbered(kind, column, number) for kind, column in self._columns(height, tag)]]
            for height, tag in order
        ]
        places = [[each.line, each.column, each.byte] for each in self.positions]
        return [
            _FORMAT,
            body.span.filename,
            list(zip(*places, strict=True)),
            [
                [self.positions[start] for start, _ in self.spans],
                [self.positions[end] for _, end in self.spans],
            ],
            groups,
            number(root),
        ]

    def _columns(self, height: int, tag: int) -> Iterable[tuple[str, list[Any]]]:
        return zip(_NODES[tag][1], self.groups[height, tag], strict=True)

    def _node(self, node: Any) -> _Place:
        """Add a node, after its children."""
        tag = _TAGS[type(node)]
        kinds = _NODES[tag][1]
        row = [self._field(kind, getattr(node, name)) for kind, name in zip(kinds, _NAMES[tag], strict=True)]
        height = 1 + max((_height(kind, cell) for kind, cell in zip(kinds, row, strict=True)), default=-1)
        columns = self.groups.setdefault((height, tag), [[] for _ in row])
        for column, cell in zip(columns, row, strict=True):
            column.append(cell)
        return height, tag, len(columns[0]) - 1

    def _field(self, kind: str, value: Any) -> Any:
        if kind == "v":
            return _plain(value)
        if kind == "s":
            return self._span(value)
        if kind == "n":
            return self._node(value)
        if kind == "o":
            return None if value is None else self._node(value)
        if kind == "p":
            return [self._node(each) for pair in value for each in pair]
        return [self._node(each) for each in value]

    def _span(self, span: Span) -> int:
        for place in (span.start, span.end):
            self.positions.setdefault(place, len(self.positions))
        return self.spans.setdefault((span.start, span.end), len(self.spans))


def _height(kind: str, cell: Any) -> int:
    """The greatest height of the nodes in a field, -1 without any."""
    if kind == "n":
        return int(cell[0])
    if kind in "tp":
        return max((place[0] for place in cell), default=-1)
    return -1 if kind != "o" or cell is None else int(cell[0])


def _numbered(kind: str, column: list[Any], number: Callable[[_Place], int]) -> list[Any]:
    if kind == "n":
        return [number(place) for place in column]
    if kind == "o":
        return [None if place is None else number(place) for place in column]
    if kind in "tp":
        return [[number(place) for place in places] for places in column]
    return column


def _plain(value: Any) -> Any:
    """A value as JSON; numbers that JSON readers may bend are written as text."""
    if isinstance(value, Decimal):
        return ["decimal", str(value)]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= _LARGEST_INTEGER:
        return ["integer", str(value)]
    return value


def decode(data: bytes, filename: str | None = None) -> Body | JsonBody | None:
    """The tree that `encode` wrote, or None when the bytes are no tree of this version.

    `filename` replaces the name that spans carry, when the same text stands in another file.
    """
    import orjson

    try:
        with collector_off():
            document = orjson.loads(data)
            if not isinstance(document, list) or document[:1] != [_FORMAT]:
                return None
            return _decoded(document, filename)
    except (ValueError, TypeError, IndexError, KeyError, ArithmeticError):
        # A damaged cache is as good as none: the text is parsed again.
        return None


def _decoded(document: list[Any], filename: str | None) -> Body | JsonBody | None:
    _, written_name, places, ends, groups, root = document
    positions = list(map(Position, *places))
    at = positions.__getitem__
    make_span = partial(Span, filename or written_name)
    spans = list(map(make_span, map(at, ends[0]), map(at, ends[1])))
    nodes: list[Any] = []
    for tag, columns in groups:
        cls, kinds = _NODES[tag]
        filled = [_filled(kind, column, nodes, spans) for kind, column in zip(kinds, columns, strict=True)]
        nodes.extend(map(cls, *filled))
    body = nodes[root]
    return body if isinstance(body, (Body, JsonBody)) else None


def _filled(kind: str, column: list[Any], nodes: list[Any], spans: list[Span]) -> Iterable[Any]:
    get = nodes.__getitem__
    if kind == "s":
        return map(spans.__getitem__, column)
    if kind == "v":
        return [_revived(cell) if type(cell) is list else cell for cell in column]
    if kind == "n":
        return map(get, column)
    if kind == "t":
        return [tuple(map(get, cell)) if cell else () for cell in column]
    if kind == "o":
        return [None if cell is None else nodes[cell] for cell in column]
    return [tuple(zip(map(get, cell[::2]), map(get, cell[1::2]), strict=True)) for cell in column]


def _revived(cell: list[str]) -> int | Decimal:
    kind, text = cell
    return Decimal(text) if kind == "decimal" else int(text)
