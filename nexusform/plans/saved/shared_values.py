"""Plain data in which what is equal stands once: a list of shared values, and texts that point into it.

Plans repeat themselves: the steps hold what the changes hold, the VMs of one machine say the same of it, the
placements of a fleet have the same conditions. A text that begins with the mark stands for something else:
with `?` for a value that is unknown, with a number for one of the shared values, and at the head of a list,
with `:` and a number, for the keys of an object whose values follow. A shared value points at earlier ones
only. The mark begins no other text, so nothing else can be taken for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from nexusform.values import UNKNOWN

_LETTER: Final = "&"
_UNKNOWN: Final = "?"
_KEYS: Final = ":"
_DEEPEST: Final = 50  # below so many levels nothing is shared
_LONG: Final = 64  # scalars: longer lists of them are not compared with one another
_FEW: Final = 3  # objects with fewer keys, or keys of fewer objects, are written with their keys
_SCALARS: Final = frozenset({str, int, float, bool, type(None)})
_DIGITS: Final = 9  # of a number of a shared value
# Parts of all documents when everything is written out: a small file must not unfold into a large plan.
_MOST_PARTS: Final = 100_000_000


class Misshapen(Exception):
    """Shared values that cannot be put in their places; the message is a sentence."""


class Sharing:
    """Documents that share values: `mark`, what is `shared`, and the `documents` that point at it."""

    def __init__(self, documents: Mapping[str, Any]) -> None:
        gatherer = _Gatherer()
        roots = {name: gatherer.node(document, 0) for name, document in documents.items()}
        self.mark = gatherer.mark()
        self._uses = gatherer.uses_of_keys
        self._keys: dict[tuple[str, ...], str] = {}
        self._values: list[Any] = []
        for node in gatherer.nodes:
            self._write(node)
        self.shared = {"keys": list(self._keys), "values": self._values}
        self.documents = {name: _written(root) for name, root in roots.items()}

    @property
    def unknown(self) -> str:
        """What stands for an unknown value."""
        return self.mark + _UNKNOWN

    def _write(self, node: _Node) -> None:
        """Settle how a value is written, once its parts are."""
        parts: Any = [_written(part) for part in node.parts]
        node.parts = ()
        written = parts if node.keys is None else self._object(node.keys, parts)
        if node.uses > 1 and len(parts) > (2 if node.keys is None else 0):
            self._values.append(written)
            written = f"{self.mark}{len(self._values) - 1}"
        node.written = written

    def _object(self, keys: tuple[str, ...], parts: list[Any]) -> Any:
        if len(keys) < _FEW or self._uses[keys] < _FEW:
            return dict(zip(keys, parts, strict=True))
        head = self._keys.setdefault(keys, f"{self.mark}{_KEYS}{len(self._keys)}")
        return [head, *parts]


class _Node:
    """A list (`keys` None) or an object, once for all that are equal. `uses` counts those that hold it."""

    __slots__ = ("keys", "parts", "uses", "written")

    def __init__(self, keys: tuple[str, ...] | None, parts: Any) -> None:
        self.keys = keys
        self.parts = parts
        self.uses = 0
        self.written: Any = None


def _written(part: Any) -> Any:
    return part.written if part.__class__ is _Node else part


class _Gatherer:
    """Goes through documents from the leaves up; `nodes` are in that order."""

    def __init__(self) -> None:
        self.nodes: list[_Node] = []
        self._by_content: dict[Any, _Node] = {}
        self._by_identity: dict[int, _Node] = {}
        self.uses_of_keys: Counter[tuple[str, ...]] = Counter()
        self._keys: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._made: list[dict[str, Any]] = []  # kept, so that no identity is given twice
        self._longest = 0  # run of the mark's letter at the beginning of a text

    def mark(self) -> str:
        """A text that begins no other."""
        return _LETTER * (self._longest + 1)

    def node(self, value: Any, depth: int) -> Any:
        """The value itself where it is a scalar, else the node of all that are equal to it."""
        kind = value.__class__
        if kind in _SCALARS:
            self._note_texts((value,))
            return value
        known = self._by_identity.get(id(value))
        if known is not None:
            return known
        if kind is list or kind is tuple:
            node = self._list(value, depth)
        elif kind is dict:
            node = self._object(value, depth)
        elif isinstance(value, Mapping):
            self._made.append(dict(value))
            return self._object(self._made[-1], depth)
        else:
            return value  # unknown, or a number that is exact
        if _Node in map(type, node.parts):
            # The documents hold the value while this goes on, so its identity is nobody else's. What holds
            # scalars alone is as soon looked up by them.
            self._by_identity[id(value)] = node
        return node

    def _list(self, value: Any, depth: int) -> _Node:
        is_deep = depth > _DEEPEST
        if is_deep or (len(value) > _LONG and _SCALARS.issuperset(map(type, value))):
            self._note_texts(value)
            return self._add(_Node(None, value))
        return self._equal(None, self._parts(value, depth + 1))

    def _parts(self, values: Iterable[Any], depth: int) -> tuple[Any, ...]:
        return tuple([part if part.__class__ in _SCALARS else self.node(part, depth) for part in values])

    def _object(self, value: Mapping[str, Any], depth: int) -> _Node:
        keys = tuple(value)
        keys = self._keys.setdefault(keys, keys)
        if depth > _DEEPEST:
            self._note_texts(value)
            return self._add(_Node(keys, list(value.values())))
        return self._equal(keys, self._parts(value.values(), depth + 1))

    def _equal(self, keys: tuple[str, ...] | None, parts: tuple[Any, ...]) -> _Node:
        """The one node of these parts. Classes count: true is not 1."""
        content = keys, parts, tuple(map(type, parts))
        node = self._by_content.get(content)
        if node is None:
            node = self._by_content[content] = self._add(_Node(keys, parts))
            for part in parts:
                if part.__class__ is _Node:
                    part.uses += 1
                elif part.__class__ is str and part[:1] == _LETTER:
                    self._note(part)
        return node

    def _add(self, node: _Node) -> _Node:
        self.nodes.append(node)
        if node.keys is not None:
            self.uses_of_keys[node.keys] += 1
        return node

    def _note(self, text: str) -> None:
        self._longest = max(self._longest, len(text) - len(text.lstrip(_LETTER)))

    def _note_texts(self, value: Any) -> None:
        """Look at all texts of a value that is kept as it is."""
        waiting = [value]
        while waiting:
            holder = waiting.pop()
            if isinstance(holder, str):
                if holder[:1] == _LETTER:
                    self._note(holder)
            elif isinstance(holder, Mapping):
                waiting.extend(holder.values())
            elif isinstance(holder, list | tuple):
                waiting.extend(holder)


class Unsharing:
    """Puts shared values, and UNKNOWN, in their places. Raises Misshapen, as does `whole`."""

    def __init__(self, mark: str, shared: Any, most_parts: int = _MOST_PARTS) -> None:
        if not isinstance(shared, dict) or shared.keys() != {"keys", "values"}:
            raise Misshapen("Its shared values are not an object of keys and values.")
        self._mark = mark
        self._most = most_parts
        self._keys = _checked_keys(shared["keys"])
        self._values: list[Any] = []
        self._sizes: list[int] = []
        self._size = 0
        for value in _listed(shared["values"]):
            self._size = 0
            self._values.append(self.whole(value))
            self._sizes.append(self._size)
        self._size = 0

    def whole(self, document: Any) -> Any:
        """The document with everything in its place; it is changed."""
        box = [document]
        waiting: list[Any] = [box]
        while waiting:
            holder = waiting.pop()
            steps: Any = list(holder.items()) if holder.__class__ is dict else enumerate(holder)
            self._count(len(holder))
            for step, part in steps:
                kind = part.__class__
                if kind is str:
                    if part.startswith(self._mark):
                        holder[step] = self._meant(part)
                elif kind is dict:
                    waiting.append(part)
                elif kind is list:
                    if part and part[0].__class__ is str and part[0].startswith(self._mark + _KEYS):
                        holder[step] = self._object(part)
                    waiting.append(holder[step])
        return box[0]

    def _object(self, parts: list[Any]) -> dict[str, Any]:
        """The object of a list with keys at its head."""
        keys = self._keys[self._number(parts[0].removeprefix(self._mark + _KEYS), len(self._keys))]
        if len(keys) != len(parts) - 1:
            raise Misshapen("An object of it has more keys than values, or fewer.")
        return dict(zip(keys, parts[1:], strict=True))

    def _meant(self, text: str) -> Any:
        """What a text that begins with the mark stands for."""
        name = text.removeprefix(self._mark)
        if name == _UNKNOWN:
            return UNKNOWN
        number = self._number(name, len(self._values))
        self._count(self._sizes[number])
        return self._values[number]

    def _number(self, name: str, below: int) -> int:
        if not (name.isascii() and name.isdecimal()) or len(name) > _DIGITS or int(name) >= below:
            raise Misshapen("It points at a shared value that is not there.")
        return int(name)

    def _count(self, parts: int) -> None:
        self._size += parts
        if self._size > self._most:
            raise Misshapen("Written out, its values are more than any plan holds.")


def _checked_keys(keys: Any) -> list[list[str]]:
    lists = isinstance(keys, list) and all(isinstance(each, list) for each in keys)
    if not lists or not all(all(isinstance(key, str) for key in each) for each in keys):
        raise Misshapen("The keys that its objects share are not lists of texts.")
    return list(keys)


def _listed(values: Any) -> list[Any]:
    if not isinstance(values, list):
        raise Misshapen("The values that its parts share are no list.")
    return values
