"""Resources as expressions see them: objects, and all instances of a block."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct, field

from nexusform.address import Key, key_order
from nexusform.plain_data import Path, from_plain
from nexusform.planning.names.repetition import LIST, MAP, SINGLE
from nexusform.schema import BlockSchema, implied_type
from nexusform.value_types import DYNAMIC
from nexusform.values import Value, object_value, tuple_value, unknown


class ObjectView(Struct):
    """An instance's attributes as expressions see them; parts become Values when asked for."""

    attributes: Mapping[str, Any] | None
    sensitive: tuple[Path, ...]
    schema: BlockSchema
    present: Callable[[Mapping[str, Any], str], Any] | None = None
    _whole: Value | None = None

    def value(self) -> Value:
        """The whole object."""
        if self._whole is None:
            kind = implied_type(self.schema)
            values = self.attributes
            if values is not None and self.present is not None:
                values = {name: self.present(values, name) for name in values}
            self._whole = unknown(kind) if values is None else from_plain(dict(values), kind, self.sensitive)
        return self._whole

    def attribute(self, name: str) -> Value | None:
        """One attribute, None when the type has no such attribute."""
        kind = implied_type(self.schema).attribute(name)
        if kind is None:
            return None
        if self._whole is not None:
            whole: Value = self._whole
            return whole.raw[name] if isinstance(whole.raw, dict) else unknown(kind)
        if self.attributes is None:
            return unknown(kind)
        inner = [path[1:] for path in self.sensitive if path and path[0] == name]
        part = self.attributes.get(name) if self.present is None else self.present(self.attributes, name)
        return from_plain(part, kind, inner)


class ResourceView(Struct):
    """All instances of one block in one module instance. `shape` "" = not known in this pass."""

    shape: str
    items: dict[Key, ObjectView] = field(default_factory=dict)
    _whole: Value | None = None

    def value(self) -> Value:
        """One object, a tuple by index, or an object by key."""
        if self._whole is None:
            if self.shape == SINGLE:
                view = self.items.get(None)
                self._whole = view.value() if view else unknown(DYNAMIC)
            elif self.shape == LIST:
                keys = sorted(self.items, key=key_order)
                self._whole = tuple_value([self.items[key].value() for key in keys])
            elif self.shape == MAP:
                self._whole = object_value({str(key): item.value() for key, item in self.items.items()})
            else:
                self._whole = unknown(DYNAMIC)
        return self._whole
