"""Estimated maximum cost of a CEL selector, in the cost units of kube-apiserver.

Sources: cel-go checker/cost.go; kubernetes staging/src/k8s.io/apiserver/pkg/cel/library/cost.go;
kubernetes staging/src/k8s.io/dynamic-resource-allocation/cel/compile.go for the sizes of a device.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from typing import Final, TypeAlias

from msgspec import Struct

# Minimum and maximum size: characters, elements or entries.
_Size: TypeAlias = tuple[int, int]
_Path: TypeAlias = tuple[str, ...]
# Sizes of the keys and values of a map; the keys of a list are its indexes.
_EntrySizes: TypeAlias = tuple[_Size, _Size]

_MAX_UINT64: Final = (1 << 64) - 1
_UNKNOWN_SIZE: Final[_Size] = (0, _MAX_UINT64)
_ONE: Final[_Size] = (1, 1)
_TRAVERSAL_FACTOR: Final = 0.1
_REGEX_FACTOR: Final = 0.25
# Functions that also write their result.
_READS: Final = {"replace": 2, "split": 2}
_ORDERS: Final = tuple(
    f"{order}_{kind}"
    for order in ("less", "less_equals", "greater", "greater_equals")
    for kind in ("string", "bytes")
)
_LIST_COST: Final = 10
_MAP_COST: Final = 30
_STRUCT_COST: Final = 40

# ResourceSliceMaxAttributesAndCapacitiesPerDevice.
_MAX_ATTRIBUTES: Final = 32
# DeviceAttributeMaxValueLength, DeviceMaxDomainLength, DeviceMaxIDLength.
_MAX_VALUE: Final = 64
_MAX_DOMAIN: Final = 63
_MAX_IDENTIFIER: Final = 32

# Fields of the messages of cel/expr/checked.proto and syntax.proto.
_CONSTANT: Final = 3
_IDENTIFIER: Final = 4
_SELECT: Final = 5
_CALL: Final = 6
_LIST: Final = 7
_STRUCT: Final = 8
_COMPREHENSION: Final = 9
_TEXT_CONSTANT: Final = 6
_BYTES_CONSTANT: Final = 7
_PRIMITIVE: Final = 3
_MAP_TYPE: Final = 7
# A primitive type: the text.
_TEXT_TYPE: Final = b"\x18\x05"
_SCALARS: Final = (1, 2, 3, 4)


class _Message:
    """A decoded protobuf message: the values of each field number, without a schema."""

    def __init__(self, data: bytes) -> None:
        self._fields: dict[int, list[int | bytes]] = {}
        for number, value in _iterate_fields(data):
            self._fields.setdefault(number, []).append(value)

    def has(self, number: int) -> bool:
        """Return whether the message has a field."""
        return number in self._fields

    def get_integer(self, number: int) -> int:
        """Return the last integer of a field, 0 if there is none."""
        value = self._fields.get(number, [0])[-1]
        return value if isinstance(value, int) else 0

    def list_bytes(self, number: int) -> list[bytes]:
        """Return the byte values of a field."""
        return [value for value in self._fields.get(number, []) if isinstance(value, bytes)]

    def get_text(self, number: int) -> str:
        """Return the last text of a field, "" if there is none."""
        return b"".join(self.list_bytes(number)[-1:]).decode(errors="replace")

    def get_message(self, number: int) -> _Message:
        """Return the message of a field; an empty one if there is none."""
        return _Message(b"".join(self.list_bytes(number)))

    def list_messages(self, number: int) -> list[_Message]:
        """Return the messages of a field."""
        return [_Message(data) for data in self.list_bytes(number)]


def _iterate_fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the field numbers and values of a protobuf message."""
    position = 0
    while position < len(data):
        key, position = _read_varint(data, position)
        wire_type = key & 7
        if wire_type == 0:
            value, position = _read_varint(data, position)
            yield key >> 3, value
            continue
        if wire_type == 2:
            length, position = _read_varint(data, position)
        else:
            length = 8 if wire_type == 1 else 4
        yield key >> 3, data[position : position + length]
        position += length


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Return the integer at a position, and the position after it."""
    value = 0
    shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
        shift += 7


class _Variable(Struct, frozen=True):
    """Path of a local variable from `device` (() without one), and its sizes."""

    path: _Path
    size: _Size | None
    entry_sizes: _EntrySizes | None = None


def estimate_cost(serialized: bytes) -> int:
    """Return the maximum cost of a checked expression, as serialized by the library.

    Raises ValueError for a list or map of several types: kube-apiserver rejects it.
    """
    checked = _Message(serialized).get_message(2)
    overloads = {
        entry.get_integer(1): [
            item.decode(errors="replace") for item in entry.get_message(2).list_bytes(3)
        ]
        for entry in checked.list_messages(2)
    }
    types = {
        entry.get_integer(1): b"".join(entry.list_bytes(2)) for entry in checked.list_messages(3)
    }
    return _CostEstimator(overloads, types).estimate(checked.get_message(4))


class _CostEstimator:
    """Costs of the nodes of an expression, with the sizes and paths found on the way."""

    def __init__(self, overloads: Mapping[int, Sequence[str]], types: Mapping[int, bytes]) -> None:
        self._overloads = overloads
        self._types = types
        self._paths: dict[int, _Path] = {}
        self._sizes: dict[int, _Size] = {}
        self._entry_sizes: dict[int, _EntrySizes] = {}
        self._variables: dict[str, list[_Variable]] = {}
        # The arguments of `format` may have several types.
        self._mixed_lists: set[int] = set()

    def estimate(self, node: _Message) -> int:
        """Return the maximum cost of a node."""
        estimates = {
            _IDENTIFIER: self._estimate_identifier,
            _SELECT: self._estimate_select,
            _CALL: self._estimate_call,
            _LIST: self._estimate_list,
            _STRUCT: self._estimate_struct,
            _COMPREHENSION: self._estimate_comprehension,
        }
        for number, estimate in estimates.items():
            if node.has(number):
                return min(estimate(node, node.get_message(number)), _MAX_UINT64)
        return 0

    def _estimate_identifier(self, node: _Message, identifier: _Message) -> int:
        name = identifier.get_text(1)
        variables = self._variables.get(name)
        if variables:
            self._set_path(node, variables[-1].path)
            self._set_size(node, variables[-1].size)
            self._set_entry_sizes(node, variables[-1].entry_sizes)
        else:
            self._set_path(node, (name,))
        return 1

    def _estimate_select(self, node: _Message, select: _Message) -> int:
        operand = select.get_message(1)
        cost = 1 + self.estimate(operand)
        self._set_path(node, self._extend_path(operand, select.get_text(2)))
        return cost

    def _estimate_list(self, node: _Message, created_list: _Message) -> int:
        elements = created_list.list_messages(1)
        cost = sum(self.estimate(element) for element in elements)
        if node.get_integer(2) not in self._mixed_lists:
            self._check_types(elements)
        self._set_size(node, (len(elements), len(elements)))
        sizes = [self._find_size(element) for element in elements]
        self._set_entry_sizes(node, (_ONE, _unite_sizes(sizes)))
        return cost + _LIST_COST

    def _estimate_struct(self, node: _Message, struct: _Message) -> int:
        entries = struct.list_messages(2)
        cost = 0
        for entry in entries:
            cost += self.estimate(entry.get_message(3)) + self.estimate(entry.get_message(4))
        for number in (3, 4):
            self._check_types([entry.get_message(number) for entry in entries])
        keys = [self._find_size(entry.get_message(3)) for entry in entries]
        values = [self._find_size(entry.get_message(4)) for entry in entries]
        self._set_entry_sizes(node, (_unite_sizes(keys), _unite_sizes(values)))
        self._set_size(node, (len(entries), len(entries)))
        return cost + (_STRUCT_COST if struct.has(1) else _MAP_COST)

    def _check_types(self, nodes: Sequence[_Message]) -> None:
        """Raise ValueError for nodes of several types. Only the driver of a device is a text."""
        types = {
            _TEXT_TYPE
            if self._get_path(node) == ("device", "driver")
            else self._types.get(node.get_integer(2), b"")
            for node in nodes
        }
        if len(types) > 1:
            raise ValueError("kube-apiserver rejects a list or map with values of several types")

    def _read_type(self, node: _Message) -> _Message:
        return _Message(self._types.get(node.get_integer(2), b""))

    def _estimate_comprehension(self, node: _Message, loop: _Message) -> int:
        """Return the cost of a loop (a macro such as `all`), or of `cel.bind`."""
        values, start, condition = (loop.get_message(number) for number in (2, 4, 5))
        step, result = (loop.get_message(number) for number in (6, 7))
        cost = self.estimate(values) + self.estimate(start)
        count = self._find_size(values)
        accumulator = loop.get_text(3)
        self._push(accumulator, self._build_variable(start))
        if count == (0, 0):
            # As of cel.bind: its value is the start of a loop over nothing.
            cost += self.estimate(result)
            self._pop(accumulator)
            self._copy_sizes_of_result(result, node)
            return cost
        names = [name for name in (loop.get_text(1), loop.get_text(8)) if name]
        for name, variable in zip(names, self._build_loop_variables(values, names), strict=True):
            self._push(name, variable)
        cost += count[1] * (self.estimate(condition) + self.estimate(step))
        for name in names:
            self._pop(name)
        cost += self.estimate(result)
        self._pop(accumulator)
        self._set_size(node, _ONE if start.has(_CONSTANT) else count)
        if not start.has(_CONSTANT):
            self._set_entry_sizes(node, self._get_entry_sizes(step))
        return cost

    def _copy_sizes_of_result(self, result: _Message, node: _Message) -> None:
        """Record the sizes of `cel.bind`. The library forgets that of its variable."""
        if result.has(_IDENTIFIER):
            size = _find_device_size(self._get_path(result))
            self._set_size(node, None if size is None else (0, size))
        else:
            self._copy_sizes(result, node)

    def _build_variable(self, node: _Message) -> _Variable:
        """Build a variable with the value of a node."""
        size = self._find_known_size(node)
        return _Variable(self._get_path(node), size, self._get_entry_sizes(node))

    def _build_loop_variables(self, values: _Message, names: Sequence[str]) -> list[_Variable]:
        """Build the variables of a loop: keys and values, or one (keys of a map)."""
        key_size, value_size = self._get_entry_sizes(values) or (None, None)
        keys = _Variable(self._extend_path(values, "@keys"), key_size)
        elements = _Variable(self._extend_path(values, "@values"), value_size)
        if len(names) == 2:
            return [keys, elements]
        return [keys] if self._is_map(values) else [elements]

    def _is_map(self, node: _Message) -> bool:
        """Return whether a value is a map. The maps of a device have no type here."""
        is_declared = self._read_type(node).has(_MAP_TYPE)
        return is_declared or _is_device_map(self._get_path(node))

    def _estimate_call(self, node: _Message, call: _Message) -> int:
        function = call.get_text(2)
        arguments = call.list_messages(3)
        if function == "format":
            self._mixed_lists.update(argument.get_integer(2) for argument in arguments)
        costs = [self.estimate(argument) for argument in arguments]
        operands = arguments
        total = sum(costs)
        if call.has(1):
            target = call.get_message(1)
            total += self.estimate(target)
            operands = [target, *arguments]
        if function == "dyn":
            self._copy_sizes(operands[0], node)
            return total + 1
        if function == "_?_:_" and len(costs) == 3:
            self._unite_entry_sizes(node, arguments[1:])
            self._set_size(node, _unite_sizes([self._find_size(item) for item in arguments[1:]]))
            return costs[0] + max(costs[1:])
        if function in ("_&&_", "_||_"):
            return total
        if function == "_[_]":
            self._set_path(node, self._extend_path(operands[0], "@values"))
            entry_sizes = self._get_entry_sizes(operands[0])
            self._set_size(node, entry_sizes[1] if entry_sizes else None)
            return total + 1
        sizes = [self._find_size(operand) for operand in operands]
        own_costs = [
            self._estimate_function(node, function, overload, sizes, operands)
            for overload in self._overloads.get(node.get_integer(2), [])
        ]
        return total + max(own_costs, default=0)

    def _estimate_function(
        self,
        node: _Message,
        function: str,
        overload: str,
        sizes: Sequence[_Size],
        operands: Sequence[_Message],
    ) -> int:
        """Return the cost of a function without its operands', and record the size of its result.

        The first operand of a method is its target.
        """
        first = sizes[0] if sizes else _ONE
        last = sizes[-1] if sizes else _ONE
        result_size = self._find_text_size(function, sizes)
        if result_size is not None:
            self._set_size(node, result_size)
            read_size = result_size if function == "join" else first
            return _traverse(read_size[1] * _READS.get(function, 1))
        if function in ("format", "quantity", "semver"):
            return _traverse(first[1])
        if overload in ("add_string", "add_bytes", "add_list"):
            self._set_size(node, _add_sizes(first, last))
            self._unite_entry_sizes(node, operands)
            return 1 if overload == "add_list" else _traverse(first[1] + last[1])
        if overload == "in_list":
            return last[1]
        if function == "matches":
            return _traverse(first[1] + 1) * ceil(last[1] * _REGEX_FACTOR)
        if function == "contains":
            return _traverse(first[1]) * _traverse(last[1])
        if function in ("startsWith", "endsWith"):
            return _traverse(last[1])
        if function in ("_==_", "_!=_") or overload in _ORDERS:
            return _traverse(min(first[1], last[1]))
        return 1

    def _find_text_size(self, function: str, sizes: Sequence[_Size]) -> _Size | None:
        """Return the size of the result of a function that reads its target; None for others."""
        first = sizes[0] if sizes else _ONE
        if function in ("indexOf", "lastIndexOf"):
            return _ONE
        if function in ("lowerAscii", "upperAscii", "substring", "trim"):
            return first
        if function == "split":
            return 0, first[1]
        if function == "replace" and len(sizes) >= 3:
            return _find_replaced_size(*sizes[:3])
        if function == "join":
            # The kube-apiserver does not look up the sizes of the elements.
            separator = sizes[1] if len(sizes) > 1 else (0, 0)
            minimum = max(first[0] - 1, 0) * separator[0]
            return min(minimum, _MAX_UINT64), min(first[1], 1) * _MAX_UINT64
        return None

    def _find_size(self, node: _Message) -> _Size:
        """Return the size of a node's value, from nothing to everything if it is unknown."""
        return self._find_known_size(node) or _UNKNOWN_SIZE

    def _find_known_size(self, node: _Message) -> _Size | None:
        """Return the size of a node's value; None if it is unknown."""
        identity = node.get_integer(2)
        if identity in self._sizes:
            return self._sizes[identity]
        if node.has(_CONSTANT):
            constant = node.get_message(_CONSTANT)
            size = 1
            if constant.has(_TEXT_CONSTANT):
                size = len(constant.get_text(_TEXT_CONSTANT))
            elif constant.has(_BYTES_CONSTANT):
                size = sum(map(len, constant.list_bytes(_BYTES_CONSTANT)))
            return size, size
        size_of_path = _find_device_size(self._get_path(node))
        if size_of_path is not None:
            return 0, size_of_path
        is_scalar = self._read_type(node).get_integer(_PRIMITIVE) in _SCALARS
        return _ONE if is_scalar else None

    def _set_size(self, node: _Message, size: _Size | None) -> None:
        """Record the size of a node, united with that of another overload."""
        if size is None:
            return
        known_size = self._sizes.get(node.get_integer(2), size)
        self._sizes[node.get_integer(2)] = _unite_sizes([known_size, size])

    def _get_entry_sizes(self, node: _Message) -> _EntrySizes | None:
        return self._entry_sizes.get(node.get_integer(2))

    def _set_entry_sizes(self, node: _Message, sizes: _EntrySizes | None) -> None:
        if sizes is not None:
            self._entry_sizes[node.get_integer(2)] = sizes

    def _unite_entry_sizes(self, node: _Message, parts: Sequence[_Message]) -> None:
        """Record the sizes of the entries of a node, which come from one of its parts."""
        known = [sizes for sizes in map(self._get_entry_sizes, parts) if sizes is not None]
        if known:
            keys, values = zip(*known, strict=True)
            self._set_entry_sizes(node, (_unite_sizes(keys), _unite_sizes(values)))

    def _copy_sizes(self, source: _Message, node: _Message) -> None:
        self._set_size(node, self._find_known_size(source))
        self._set_entry_sizes(node, self._get_entry_sizes(source))

    def _get_path(self, node: _Message) -> _Path:
        return self._paths.get(node.get_integer(2), ())

    def _set_path(self, node: _Message, path: _Path) -> None:
        self._paths[node.get_integer(2)] = path

    def _extend_path(self, node: _Message, name: str) -> _Path:
        """Return the path of a part of a node's value; () if the node has none."""
        path = self._get_path(node)
        return (*path, name) if path else ()

    def _push(self, name: str, variable: _Variable) -> None:
        self._variables.setdefault(name, []).append(variable)

    def _pop(self, name: str) -> None:
        self._variables[name].pop()


def _find_device_size(path: _Path) -> int | None:
    """Return the maximum size of the value at a path; None outside of `device`."""
    if path[:1] != ("device",) or len(path) == 1:
        return None
    if path[1] == "driver":
        return _MAX_DOMAIN
    if path[-1] == "@keys":
        return _MAX_DOMAIN if len(path) == 3 else _MAX_IDENTIFIER
    return _MAX_ATTRIBUTES if len(path) <= 3 else _MAX_VALUE


def _is_device_map(path: _Path) -> bool:
    """Return whether a path is that of attributes or capacity, or of those of a domain."""
    return path[:1] == ("device",) and path[1:2] != ("driver",) and len(path) in (2, 3)


def _traverse(size: int) -> int:
    """Return the cost of reading a text."""
    return min(ceil(size * _TRAVERSAL_FACTOR), _MAX_UINT64)


def _add_sizes(left: _Size, right: _Size) -> _Size:
    return min(left[0] + right[0], _MAX_UINT64), min(left[1] + right[1], _MAX_UINT64)


def _unite_sizes(sizes: Sequence[_Size]) -> _Size:
    """Return a size that covers all of these."""
    return (
        min((size[0] for size in sizes), default=0),
        min(max((size[1] for size in sizes), default=0), _MAX_UINT64),
    )


def _find_replaced_size(text: _Size, old: _Size, new: _Size) -> _Size:
    """Return the size of a text after replacements."""
    if old[0] == 0:
        return 0, (text[1] + 1) * new[1] + text[1]
    if new[1] <= old[0]:
        return 0, text[1]
    return 0, -(-text[1] // old[0]) * new[1]
