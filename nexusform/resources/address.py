"""Addresses of blocks and instances: parse, format, sort.

An address such as `module.edge["a"].nexus_rack.r[0]` is a path of module instances, then mode,
type, name and key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from msgspec import Struct

Key: TypeAlias = int | str | None
Mode: TypeAlias = Literal["managed", "data"]
# By the keyword of a block.
MODES: Final[Mapping[str, Mode]] = {"resource": "managed", "data": "data"}
MODE_KEYWORDS: Final[Mapping[Mode, Literal["resource", "data"]]] = {
    "managed": "resource",
    "data": "data",
}
MODE_PREFIXES: Final[Mapping[Mode, str]] = {"managed": "", "data": "data."}  # of addresses
OTHER_MODES: Final[Mapping[Mode, Mode]] = {"managed": "data", "data": "managed"}

_NAME = re.compile(r"[^\W\d][\w-]*")


# Never part of a cycle, so excluded from garbage collection.
class ModulePathStep(Struct, frozen=True, gc=False):
    """Module call on the path from the root, with the instance key if it has one."""

    name: str
    key: Key = None

    def __str__(self) -> str:
        return f"module.{self.name}{format_key(self.key)}"


ModulePath: TypeAlias = tuple[ModulePathStep, ...]
ROOT_MODULE: ModulePath = ()


class ConfigAddress(Struct, frozen=True):
    """Address of a block: the static module path (call names), type and name."""

    module: tuple[str, ...]
    mode: Mode
    type: str
    name: str

    def __str__(self) -> str:
        modules = "".join(f"module.{name}." for name in self.module)
        return f"{modules}{MODE_PREFIXES[self.mode]}{self.type}.{self.name}"


class Address(Struct, frozen=True, gc=False):
    """Address of one instance of a resource or data block."""

    module: ModulePath
    mode: Mode
    type: str
    name: str
    key: Key = None

    @property
    def resource(self) -> Address:
        """Same address without the instance key."""
        return self if self.key is None else Address(self.module, self.mode, self.type, self.name)

    @property
    def config_address(self) -> ConfigAddress:
        """Address of its block."""
        return ConfigAddress(
            tuple(step.name for step in self.module), self.mode, self.type, self.name
        )

    @property
    def name_with_keys(self) -> str:
        """Name with its key and the modules, without the type: `module.a["x"].p["y"]`."""
        name = f"{self.name}{format_key(self.key)}"
        return f"{format_module(self.module)}.{name}" if self.module else name

    def __str__(self) -> str:
        local = f"{MODE_PREFIXES[self.mode]}{self.type}.{self.name}{format_key(self.key)}"
        return f"{format_module(self.module)}.{local}" if self.module else local


def format_key(key: Key) -> str:
    """Format a key as `[0]`, `["a"]`, or nothing.

    Quotes, backslashes and template markers are escaped.
    """
    if key is None:
        return ""
    if isinstance(key, int):
        return f"[{key}]"
    escaped = key.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'["{escaped.replace("${", "$${").replace("%{", "%%{")}"]'


def format_module(path: ModulePath) -> str:
    """Format a path as `module.a["k"].module.b`, or "" for the root."""
    return ".".join(str(step) for step in path)


def compute_key_sort_key(key: Key) -> tuple[int, int, bytes]:
    """Return the sort key: no key, then numbers by value, then strings by their UTF-8 bytes."""
    if key is None:
        return (0, 0, b"")
    if isinstance(key, int):
        return (1, key, b"")
    return (2, 0, key.encode())


def compute_address_order(address: Address) -> tuple[object, ...]:
    """Return the sort key: root before modules, then by type, name and key."""
    path = tuple((step.name, compute_key_sort_key(step.key)) for step in address.module)
    return (path, address.mode, address.type, address.name, compute_key_sort_key(address.key))


class AddressPattern(Struct, frozen=True):
    """Address of `-target`, `moved` and `state` commands.

    It is a module path, optionally with a resource, optionally with an instance. Without a key
    (None) every instance matches.
    """

    module: ModulePath
    mode: Mode = "managed"
    type: str = ""
    name: str = ""
    key: Key = None

    def is_match(self, address: Address) -> bool:
        """Return whether the pattern matches the instance.

        module.a matches module.a[0].T.N and all below it. A key of None in the pattern matches
        every key. Without a type, the pattern is a module.
        """
        if len(address.module) < len(self.module):
            # Above the module.
            return False
        for pattern_step, step in zip(self.module, address.module, strict=False):
            if pattern_step.name != step.name or pattern_step.key not in (None, step.key):
                # The address is in another module.
                return False
        if not self.type:
            # It is a module.
            return True
        if len(address.module) > len(self.module) or self.key not in (None, address.key):
            # Below the module, or another instance.
            return False
        return (address.mode, address.type, address.name) == (self.mode, self.type, self.name)

    def __str__(self) -> str:
        if not self.type:
            return format_module(self.module)
        return str(Address(self.module, self.mode, self.type, self.name, self.key))


def render_moved_block(old: str, new: str) -> str:
    """Render the `moved` block from one address to another."""
    return f"moved {{\n  from = {old}\n  to   = {new}\n}}"


class AddressProblem(ValueError):
    """Text that is not an address; the message is for the user."""


def parse_pattern(text: str) -> AddressPattern:
    """Parse a typed address, such as module.a["k"].nexus_rack.r1[0], data.T.N or module.a.

    Raises AddressProblem.
    """
    # ("name", NAME) and ("key", KEY), in order.
    parts = _split_address_into_parts(text)
    module: list[ModulePathStep] = []
    position = 0
    while position < len(parts) and parts[position] == ("name", "module"):
        if position + 1 >= len(parts) or parts[position + 1][0] != "name":
            raise AddressProblem(f'"{text}": a module name must follow "module".')
        key, next_position = _get_key_at_position(parts, position + 2)
        module.append(ModulePathStep(str(parts[position + 1][1]), key))
        position = next_position
    resource_parts = parts[position:]
    if not resource_parts and module:
        return AddressPattern(tuple(module))  # a module
    mode: Mode = "managed"
    if resource_parts[:1] == [("name", "data")]:
        mode = "data"
        resource_parts = resource_parts[1:]
    if len(resource_parts) < 2 or resource_parts[0][0] != "name" or resource_parts[1][0] != "name":
        raise AddressProblem(
            f'"{text}" is not a resource address: expected TYPE.NAME, e.g. nexus_rack.r1.'
        )
    key, next_position = _get_key_at_position(resource_parts, 2)
    if next_position != len(resource_parts):
        raise AddressProblem(f'"{text}": unexpected text after the instance key.')
    return AddressPattern(
        tuple(module), mode, str(resource_parts[0][1]), str(resource_parts[1][1]), key
    )


def parse_address(text: str) -> Address:
    """Parse the address of one resource or instance.

    Raises AddressProblem.
    """
    pattern = parse_pattern(text)
    if not pattern.type:
        raise AddressProblem(f'"{text}" names a module; a resource is needed here.')
    return Address(pattern.module, pattern.mode, pattern.type, pattern.name, pattern.key)


def _get_key_at_position(parts: list[tuple[str, Key]], position: int) -> tuple[Key, int]:
    """Return the key at a position, None for a name or the end, and the next position.

    `parts` are of an address, for example `a[0]`: [("name", "a"), ("key", 0)].
    """
    if position < len(parts) and parts[position][0] == "key":
        return parts[position][1], position + 1
    return None, position


def _split_address_into_parts(text: str) -> list[tuple[str, Key]]:
    """Split an address into ("name", NAME) and ("key", KEY) parts, in order.

    Raises AddressProblem.
    """
    parts: list[tuple[str, Key]] = []
    index = 0
    while index < len(text):
        if text[index] == "[":
            key, index = _parse_bracketed_key(text, index + 1)
            parts.append(("key", key))
        else:
            match = _NAME.match(text, index)
            if match is None:
                raise AddressProblem(f'"{text}" is not an address: "{text[index:]}" is not a name.')
            parts.append(("name", match.group()))
            index = match.end()
        if index < len(text) and text[index] == ".":
            index += 1
            if text[index : index + 1] in ("", "["):
                raise AddressProblem(f'"{text}" is not an address: a name must follow each dot.')
        elif index < len(text) and text[index] != "[":
            raise AddressProblem(f'"{text}" is not an address: unexpected "{text[index]}".')
    if not parts:
        raise AddressProblem("An empty text is not an address.")
    return parts


def _parse_bracketed_key(text: str, index: int) -> tuple[Key, int]:
    """Parse the key after a bracket.

    Return it, and the index after its closing bracket. Raises AddressProblem.
    """
    number = re.compile(r"([0-9]{1,18})\]").match(text, index)
    if number:
        return int(number.group(1)), number.end()
    string_match = re.compile(r'"((?:[^"\\]++|\\.)*+)"\]').match(text, index)
    if string_match is None:
        raise AddressProblem(
            f'"{text}": an instance key is a number (18 digits) or a quoted string in brackets.'
        )
    key = re.sub(
        r"\\(.)", lambda escape: "\n" if escape[1] == "n" else escape[1], string_match.group(1)
    )
    # Escaped template markers.
    return key.replace("$${", "${").replace("%%{", "%{"), string_match.end()
