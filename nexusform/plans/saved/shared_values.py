"""Plain data with equal values stored once: a list of shared values, and texts that reference them.

Plans repeat themselves: steps repeat values of changes, the VMs of one machine have equal
attributes, the placements of a fleet have equal conditions. A text that begins with the mark is a
reference: with `?` to the unknown value, with a number to one of the shared values, and at the head
of a list, with `:` and a number, to the keys of an object with its values following. A shared value
references earlier ones only. The mark begins no other text, so references are unambiguous.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import ValidationError, convert

from nexusform.values.typed_value import UNKNOWN

_LETTER: Final = "&"
_UNKNOWN: Final = "?"
_KEYS: Final = ":"
# Nothing is shared below this level.
_MAXIMUM_DEPTH: Final = 50
# Scalars: longer lists of them are not compared with one another.
_LONG_LIST: Final = 64
# Objects with fewer keys, or keys of fewer objects, are written with their keys.
_MINIMUM_SHARED_KEYS: Final = 3
_SCALARS: Final = frozenset({str, int, float, bool, type(None)})
# Of a number of a shared value.
_DIGITS: Final = 9
# Limit of the parts of all expanded documents: a small file must not expand into a large plan.
_MAXIMUM_PARTS: Final = 100_000_000


class SharedValuesError(Exception):
    """Shared values with invalid references; the message is a sentence."""


class DocumentDeduplicator:
    """Documents that share values.

    They are written as `mark`, the `shared` values, and the `documents` that reference them. A text
    with the mark as its prefix is a reference: `unknown_reference` to the unknown value.
    """

    def __init__(self, documents: Mapping[str, Any]) -> None:
        """Store equal lists and objects of the documents once, in `shared`.

        References replace them in `documents`.
        """
        collector = _NodeCollector()
        roots = {name: collector.collect_node(document, 0) for name, document in documents.items()}
        # No text of the documents begins with it.
        self.mark = _LETTER * (collector.longest_run + 1)
        # In place of an unknown value.
        self.unknown_reference = self.mark + _UNKNOWN
        self._uses = collector.uses_of_keys
        # Reference by the keys of objects.
        self._keys: dict[tuple[str, ...], str] = {}
        self._values: list[Any] = []
        nodes = collector.nodes
        # Its tables are not needed any more.
        del collector
        # The parts of a node precede it.
        for node in nodes:
            # It adds shared keys and values.
            self._write(node)
        self.shared = {"keys": list(self._keys), "values": self._values}
        self.documents = {name: _get_written_form_of_part(root) for name, root in roots.items()}

    def _write(self, node: _SharedNode) -> None:
        """Set the written form of a list or object from those of its parts.

        They are written before it. A value used twice or more is stored once in `self._values`,
        unless it is very short. Its written form is a text with its position there, such as `&3`.
        Other values are written in full.
        """
        parts: Any = [_get_written_form_of_part(part) for part in node.parts]
        node.parts = ()
        written = parts if node.keys is None else self._write_object(node.keys, parts)
        # A shorter list or object is no longer than a reference to it.
        minimum_parts = 3 if node.keys is None else 1
        if node.uses > 1 and len(parts) >= minimum_parts:
            self._values.append(written)
            written = f"{self.mark}{len(self._values) - 1}"  # a reference
        node.written = written

    def _write_object(self, keys: tuple[str, ...], parts: list[Any]) -> Any:
        """Write an object.

        With its keys if they are few or rare, else as a list with a reference to them.
        """
        if len(keys) < _MINIMUM_SHARED_KEYS or self._uses[keys] < _MINIMUM_SHARED_KEYS:
            return dict(zip(keys, parts, strict=True))
        head = self._keys.setdefault(keys, f"{self.mark}{_KEYS}{len(self._keys)}")
        return [head, *parts]


class _SharedNode:
    """A list (`keys` None) or an object, once for all equal ones.

    `uses` counts its parents.
    """

    __slots__ = ("keys", "parts", "uses", "written")

    def __init__(self, keys: tuple[str, ...] | None, parts: Any) -> None:
        # None for a list.
        self.keys = keys
        # Elements or values, which are scalars and nodes.
        self.parts = parts
        # Lists and objects with this part.
        self.uses = 0
        # The text of a reference, or the value in full.
        self.written: Any = None


def _get_written_form_of_part(part: Any) -> Any:
    """Return the written form of a list or object (a node), or else the scalar itself."""
    return part.written if part.__class__ is _SharedNode else part


class _NodeCollector:
    """Collector of document nodes from the scalars up; `nodes` are in that order."""

    def __init__(self) -> None:
        """Start without nodes; equal values share one node, found by content or by identity."""
        # Of lists and objects, each after its parts.
        self.nodes: list[_SharedNode] = []
        # By keys and types of the parts, then by parts.
        self._by_content: dict[Any, dict[tuple[Any, ...], _SharedNode]] = {}
        # By the `id` of a value.
        self._by_identity: dict[int, _SharedNode] = {}
        # Number of nodes of objects with these keys.
        self.uses_of_keys: Counter[tuple[str, ...]] = Counter()
        # One tuple for all equal ones.
        self._keys: dict[tuple[str, ...], tuple[str, ...]] = {}
        # The list keeps temporary dicts alive: their `id` is not reused.
        self._converted: list[dict[str, Any]] = []
        # Of the mark's letter at the beginning of a text.
        self.longest_run = 0

    def collect_node(self, value: Any, depth: int) -> Any:
        """Return the value itself if it is a scalar, else the node of all equal ones.

        Equal lists or objects share a node.

        `depth` is the level of the value in its document. Example: `{"a": [1, 2], "b": [1, 2]}` has
        one node for both lists, with two uses, and one for the object.
        """
        kind = value.__class__
        if kind in _SCALARS:
            # The mark of references must begin no text.
            self._scan_texts_for_mark_letters((value,))
            return value
        known_node = self._by_identity.get(id(value))
        if known_node is not None:
            return known_node
        if kind is list or kind is tuple:
            is_long_list = len(value) > _LONG_LIST and _SCALARS.issuperset(map(type, value))
            return self._collect_container(value, None, value, depth, is_shared=not is_long_list)
        if kind is not dict:
            if not isinstance(value, Mapping):
                # Unknown, or a number that is exact.
                return value
            value = dict(value)
            # It stays alive: its id is not reused.
            self._converted.append(value)
        keys = tuple(value)
        # Equal keys become one tuple with one id.
        keys = self._keys.setdefault(keys, keys)
        return self._collect_container(value, keys, value.values(), depth)

    def _collect_container(
        self,
        value: Any,
        keys: tuple[str, ...] | None,
        items: Iterable[Any],
        depth: int,
        *,
        is_shared: bool = True,
    ) -> _SharedNode:
        """Return the node of a list (`keys` None) or object with these items.

        The nodes of its items come before it. Equal values have one node. Without `is_shared`, or
        very deep in a document, each value has a node of its own.
        """
        if depth > _MAXIMUM_DEPTH or not is_shared:
            self._scan_texts_for_mark_letters(value)
            return self._add_collected_node(_SharedNode(keys, list(items)))
        depth += 1
        parts = tuple(
            [
                part if part.__class__ in _SCALARS else self.collect_node(part, depth)
                for part in items
            ]
        )
        # True equals 1, so equal parts need equal types, too.
        kinds = tuple(map(type, parts))
        form = id(keys), kinds
        nodes = self._by_content.get(form)
        if nodes is None:
            nodes = self._by_content[form] = {}
        node = nodes.get(parts)
        if node is None:
            node = nodes[parts] = self._add_shared_node(keys, parts)
        if _SharedNode in kinds:
            # Its id finds this value faster. No other value gets this id, because the documents
            # keep the value alive. A container of scalars only is found by content as fast.
            self._by_identity[id(value)] = node
        return node

    def _add_shared_node(self, keys: tuple[str, ...] | None, parts: tuple[Any, ...]) -> _SharedNode:
        """Add the node of a list or object; no node has equal content yet.

        `keys` is None for a list. Each part with a node has one more use: values with several uses
        are stored once.
        """
        for part in parts:
            # Any other part is a scalar.
            if part.__class__ is _SharedNode:
                part.uses += 1
            elif part.__class__ is str and part[:1] == _LETTER:
                # The mark of references must begin no other text.
                self._scan_texts_for_mark_letters((part,))
        return self._add_collected_node(_SharedNode(keys, parts))

    def _add_collected_node(self, node: _SharedNode) -> _SharedNode:
        """Append and return a node, and count the use of its keys if it is an object."""
        self.nodes.append(node)
        if node.keys is not None:
            self.uses_of_keys[node.keys] += 1
        return node

    def _scan_texts_for_mark_letters(self, value: Any) -> None:
        """Search the texts in a value for runs of the mark's letter at their beginning.

        `&&x` begins with a run of two. A reference begins with the mark. The mark becomes longer
        than the longest run: no text may look like a reference.
        """
        pending = [value]
        while pending:
            part = pending.pop()
            if isinstance(part, str):
                if part[:1] == _LETTER:
                    self.longest_run = max(self.longest_run, len(part) - len(part.lstrip(_LETTER)))
            elif isinstance(part, Mapping):
                pending.extend(part.values())
            elif isinstance(part, list | tuple):
                pending.extend(part)


class DocumentExpander:
    """Replacement of references by shared values and UNKNOWN.

    Raises SharedValuesError, as does `expand`.
    """

    def __init__(self, mark: str, shared: Any, maximum_parts: int = _MAXIMUM_PARTS) -> None:
        """Expand all shared values of a plan file once.

        Raises SharedValuesError if they have another form.
        """
        if not isinstance(shared, dict) or shared.keys() != {"keys", "values"}:
            raise SharedValuesError("Its shared values are not an object of keys and values.")
        self._mark = mark
        self._maximum_parts = maximum_parts
        try:
            # A list for each kind of object.
            self._keys = convert(shared["keys"], list[list[str]])
        except ValidationError:
            raise SharedValuesError(
                "The keys that its objects share are not lists of texts."
            ) from None
        self._values: list[Any] = []
        # The number of parts in each of `_values`.
        self._sizes: list[int] = []
        # The number of parts expanded so far.
        self._size = 0
        if not isinstance(shared["values"], list):
            raise SharedValuesError("Its shared values are not a list.")
        # It refers only to values before it.
        for value in shared["values"]:
            self._size = 0
            self._values.append(self.expand(value))
            self._sizes.append(self._size)
        self._size = 0

    def expand(self, document: Any) -> Any:
        """Return the document, changed in place, with all references resolved.

        A reference is a text with the mark as its prefix: it becomes a shared value or UNKNOWN. A
        list with a reference to keys as its first element becomes an object: its other elements are
        the values of these keys. Containers are searched one by one, not recursively. Raises
        SharedValuesError. Example with the mark `&`: `["&:0", "&1"]` is an object with the keys
        number 0, here a single one. Its value is the shared value number 1.
        """
        # A container around the document, because the document itself may be a reference.
        box = [document]
        # Still to be searched.
        containers: list[Any] = [box]
        while containers:
            container = containers.pop()
            steps: Any = (
                list(container.items()) if container.__class__ is dict else enumerate(container)
            )
            self._check_expanded_size(len(container))
            for step, part in steps:
                kind = part.__class__
                if kind is str:
                    if part.startswith(self._mark):  # a reference
                        container[step] = self._resolve_reference(part)
                elif kind is dict:
                    containers.append(part)
                elif kind is list:
                    if part and part[0].__class__ is str and part[0].startswith(self._mark + _KEYS):
                        container[step] = self._expand_object_with_shared_keys(part)
                    # The list, or the object in its place.
                    containers.append(container[step])
        return box[0]

    def _expand_object_with_shared_keys(self, parts: list[Any]) -> dict[str, Any]:
        """Return the object stored as a list: a reference to its keys, then its values."""
        keys = self._keys[
            self._parse_number(parts[0].removeprefix(self._mark + _KEYS), len(self._keys))
        ]
        if len(keys) != len(parts) - 1:
            raise SharedValuesError("An object of it has more keys than values, or fewer.")
        return dict(zip(keys, parts[1:], strict=True))

    def _resolve_reference(self, text: str) -> Any:
        """Return the value of a text that begins with the mark."""
        name = text.removeprefix(self._mark)
        if name == _UNKNOWN:
            return UNKNOWN
        number = self._parse_number(name, len(self._values))
        self._check_expanded_size(self._sizes[number])
        return self._values[number]

    def _parse_number(self, name: str, below: int) -> int:
        """Return the number in a reference.

        Raises SharedValuesError unless it is a number less than `below`.
        """
        if not (name.isascii() and name.isdecimal()) or len(name) > _DIGITS or int(name) >= below:
            raise SharedValuesError("It refers to a missing shared value.")
        return int(name)

    def _check_expanded_size(self, parts: int) -> None:
        """Add a number of parts to those expanded so far.

        Raises SharedValuesError above the maximum.
        """
        self._size += parts
        if self._size > self._maximum_parts:
            raise SharedValuesError("Its expanded values exceed the maximum of a plan.")
