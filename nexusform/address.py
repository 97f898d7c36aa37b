"""Addresses: which block, which instance. Parse, print, order.

`module.edge["a"].nexus_rack.r[0]`: a path of module instances, then mode, type, name and key.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from msgspec import Struct

Key: TypeAlias = int | str | None
Mode: TypeAlias = Literal["managed", "data"]

_NAME = re.compile(r"[^\W\d][\w-]*")


class ModuleStep(Struct, frozen=True, gc=False):  # in no circle, so not for the collector
    """One module call on the way from the root, with the instance key if it has one."""

    name: str
    key: Key = None

    def __str__(self) -> str:
        return f"module.{self.name}{key_text(self.key)}"


ModulePath: TypeAlias = tuple[ModuleStep, ...]
ROOT: ModulePath = ()


class ConfigAddress(Struct, frozen=True):
    """A block as written: the static module path (call names) and what it declares."""

    module: tuple[str, ...]
    mode: Mode
    type: str
    name: str

    def __str__(self) -> str:
        data = "data." if self.mode == "data" else ""
        return "".join(f"module.{m}." for m in self.module) + f"{data}{self.type}.{self.name}"


class Address(Struct, frozen=True, gc=False):
    """One instance of a resource or data block."""

    module: ModulePath
    mode: Mode
    type: str
    name: str
    key: Key = None

    @property
    def resource(self) -> Address:
        """The same without the instance key."""
        return self if self.key is None else Address(self.module, self.mode, self.type, self.name)

    @property
    def config(self) -> ConfigAddress:
        """The block that declares it."""
        return ConfigAddress(tuple(m.name for m in self.module), self.mode, self.type, self.name)

    def __str__(self) -> str:
        data = "data." if self.mode == "data" else ""
        local = f"{data}{self.type}.{self.name}{key_text(self.key)}"
        return f"{module_text(self.module)}.{local}" if self.module else local


def key_text(key: Key) -> str:
    """`[0]`, `["a"]`, or nothing. Quotes, backslashes and template markers are escaped."""
    if key is None:
        return ""
    if isinstance(key, int):
        return f"[{key}]"
    escaped = key.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'["{escaped.replace("${", "$${").replace("%{", "%%{")}"]'


def module_text(path: ModulePath) -> str:
    """`module.a["k"].module.b`, or "" for the root."""
    return ".".join(str(step) for step in path)


def key_order(key: Key) -> tuple[int, int, bytes]:
    """No key, then numbers by value, then strings by their UTF-8 bytes."""
    if key is None:
        return (0, 0, b"")
    if isinstance(key, int):
        return (1, key, b"")
    return (2, 0, key.encode())


def address_order(address: Address) -> tuple[object, ...]:
    """Root before modules, then by type, name and key."""
    path = tuple((step.name, key_order(step.key)) for step in address.module)
    return (path, address.mode, address.type, address.name, key_order(address.key))


class AddressPattern(Struct, frozen=True):
    """What `-target`, `moved` and `state` commands name: a module path, optionally a resource in
    it, optionally an instance. `key` is None when none was written: every instance matches.
    """

    module: ModulePath
    mode: Mode | None = None
    type: str = ""
    name: str = ""
    key: Key = None

    def matches(self, address: Address) -> bool:
        """Whether the instance is named by this pattern (a module names all below it)."""
        if not _module_matches(self.module, address.module, exact=bool(self.type)):
            return False
        if not self.type:
            return True
        same = (address.mode, address.type, address.name) == (self.mode, self.type, self.name)
        return same and (self.key is None or self.key == address.key)

    def __str__(self) -> str:
        if not self.type:
            return module_text(self.module)
        return str(Address(self.module, self.mode or "managed", self.type, self.name, self.key))


def moved_block(old: str, new: str) -> str:
    """The `moved` block from one address to another, as a configuration has it."""
    return f"moved {{\n  from = {old}\n  to   = {new}\n}}"


def _module_matches(pattern: ModulePath, path: ModulePath, *, exact: bool) -> bool:
    if len(path) < len(pattern) or (exact and len(path) != len(pattern)):
        return False
    return all(
        want.name == have.name and (want.key is None or want.key == have.key)
        for want, have in zip(pattern, path, strict=False)
    )


class AddressProblem(ValueError):
    """Text that is no address; the message says why, for the user."""


def parse_pattern(text: str) -> AddressPattern:
    """Read an address as users type it. Raises AddressProblem."""
    words = _words(text)
    module: list[ModuleStep] = []
    position = 0
    while position < len(words) and words[position] == ("name", "module"):
        if position + 1 >= len(words) or words[position + 1][0] != "name":
            raise AddressProblem(f'"{text}": a module name must follow "module".')
        key, after = _key_at(words, position + 2)
        module.append(ModuleStep(str(words[position + 1][1]), key))
        position = after
    rest = words[position:]
    if not rest and module:
        return AddressPattern(tuple(module))
    mode: Mode = "managed"
    if rest and rest[0] == ("name", "data"):
        mode, rest = "data", rest[1:]
    if len(rest) < 2 or rest[0][0] != "name" or rest[1][0] != "name":
        raise AddressProblem(f'"{text}" is not a resource address: expected TYPE.NAME, e.g. nexus_rack.r1.')
    key, after = _key_at(rest, 2)
    if after != len(rest):
        raise AddressProblem(f'"{text}": unexpected text after the instance key.')
    return AddressPattern(tuple(module), mode, str(rest[0][1]), str(rest[1][1]), key)


def parse_address(text: str) -> Address:
    """Read the address of one resource or instance. Raises AddressProblem."""
    pattern = parse_pattern(text)
    if not pattern.type:
        raise AddressProblem(f'"{text}" names a module; a resource is needed here.')
    return Address(pattern.module, pattern.mode or "managed", pattern.type, pattern.name, pattern.key)


def _key_at(words: list[tuple[str, Key]], position: int) -> tuple[Key, int]:
    if position < len(words) and words[position][0] == "key":
        return words[position][1], position + 1
    return None, position


def _words(text: str) -> list[tuple[str, Key]]:
    """The names and keys of an address in their order. Raises AddressProblem."""
    words: list[tuple[str, Key]] = []
    at = 0
    while at < len(text):
        if text[at] == "[":
            key, at = _read_key(text, at + 1)
            words.append(("key", key))
        else:
            match = _NAME.match(text, at)
            if match is None:
                raise AddressProblem(f'"{text}" is not an address: "{text[at:]}" is not a name.')
            words.append(("name", match.group()))
            at = match.end()
        if at < len(text) and text[at] == ".":
            at += 1
            if at == len(text):
                raise AddressProblem(f'"{text}" ends in a dot.')
        elif at < len(text) and text[at] != "[":
            raise AddressProblem(f'"{text}" is not an address: unexpected "{text[at]}".')
    if not words:
        raise AddressProblem("An empty text is not an address.")
    return words


def _read_key(text: str, at: int) -> tuple[Key, int]:
    """The key that begins after a bracket, and where it ends. Raises AddressProblem."""
    number = re.compile(r"(\d+)\]").match(text, at)
    if number:
        return int(number.group(1)), number.end()
    quoted = re.compile(r'"((?:[^"\\]++|\\.)*+)"\]').match(text, at)
    if quoted is None:
        raise AddressProblem(f'"{text}": an instance key is a number or a quoted string in brackets.')
    raw = re.sub(r"\\(.)", lambda m: {"n": "\n"}.get(m.group(1), m.group(1)), quoted.group(1))
    return raw.replace("$${", "${").replace("%%{", "%{"), quoted.end()
