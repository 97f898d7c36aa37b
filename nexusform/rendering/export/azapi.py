"""A plan as Terraform's JSON configuration for the provider azapi (version 2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from nexusform.rendering.export.azure_objects import (
    API_VERSION,
    CLUSTER,
    LOCATION,
    POOL,
    RESOURCE_GROUP,
    AzureObject,
    AzureObjects,
    Do,
    Input,
    distinct,
    meaning_of,
)

_WRITTEN: Final = (
    "Written by nexusform from a plan. Resources are made one after the other, as it foretold them."
)


def azapi_document(objects: AzureObjects) -> dict[str, Any]:
    """The content of a `.tf.json` file."""
    writer = _Writer(objects)
    resources: dict[str, Any] = {}
    updates: dict[str, Any] = {}
    labels = iter(writer.labels)
    for one in objects.placed:
        if one.do is Do.UPDATE:
            updates[one.label] = writer.changed(one)
        else:
            label = next(labels)
            resources[label] = writer.made(label, one)
    written: dict[str, Any] = {
        "//": _WRITTEN,
        "terraform": {"required_providers": {"azapi": {"source": "Azure/azapi", "version": "~> 2.0"}}},
        "variable": dict(writer.variables()),
    }
    blocks = {"azapi_resource": resources, "azapi_update_resource": updates}
    written["resource"] = {name: block for name, block in blocks.items() if block}
    return {name: block for name, block in written.items() if block}


class _Writer:
    """One document while it is written. `labels` are the resources that are made, in their order."""

    def __init__(self, objects: AzureObjects) -> None:
        self.objects = objects
        self.inputs: list[Input] = []
        self.labels: dict[str, AzureObject] = {}
        for one in objects.made:
            label, number = one.label, 2
            while label in self.labels:
                label, number = f"{one.label}_{number}", number + 1
            self.labels[label] = one
        self.clusters = {one.names[0]: label for label, one in self.labels.items() if one.type == CLUSTER}
        self.previous = ""

    def made(self, label: str, one: AzureObject) -> dict[str, Any]:
        """A resource that comes after the one that was written before it."""
        location = {"name": self._text(self.objects.location(one.site)), "type": "CustomLocation"}
        block: dict[str, Any] = {
            "type": f"{one.type}@{API_VERSION}",
            "name": _literal(one.names[-1]),
            "parent_id": self._parent(one),
            "location": self._text(LOCATION),
            **({"tags": self._value(one.tags)} if one.tags else {}),
            "body": {"extendedLocation": location, "properties": self._value(one.properties)},
        }
        return self._in_order(block, f"azapi_resource.{label}")

    def changed(self, one: AzureObject) -> dict[str, Any]:
        """What is sent to a resource that stands."""
        block = {
            "type": f"{one.type}@{API_VERSION}",
            "name": _literal(one.names[-1]),
            "parent_id": self._parent(one),
            "body": {"properties": self._value(one.changed)},
        }
        return self._in_order(block, f"azapi_update_resource.{one.label}")

    def _in_order(self, block: dict[str, Any], address: str) -> dict[str, Any]:
        """The block, to be done after the one before it."""
        if self.previous:
            block["depends_on"] = [self.previous]
        self.previous = address
        return block

    def variables(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """The variables that were named, in their order."""
        for inputs in distinct(self.inputs).values():
            first = inputs[0]
            kind = "map(string)" if first.entry else "string"
            yield first.snake, {"type": kind, "description": meaning_of(inputs)}

    def _parent(self, one: AzureObject) -> str:
        if one.type != POOL:
            return self._text(RESOURCE_GROUP)
        if one.names[0] in self.clusters:
            return f"${{azapi_resource.{self.clusters[one.names[0]]}.id}}"
        return f"{self._text(RESOURCE_GROUP)}/providers/{CLUSTER}/{_literal(one.names[0])}"

    def _text(self, one: Input) -> str:
        self.inputs.append(one)
        entry = f'["{one.entry}"]' if one.entry else ""
        return f"${{var.{one.snake}{entry}}}"

    def _value(self, value: Any) -> Any:
        """A value as Terraform's JSON has it: inputs as references, all other text as it stands."""
        if isinstance(value, Input):
            return self._text(value)
        if isinstance(value, Mapping):
            return {_literal(name): self._value(part) for name, part in value.items()}
        if isinstance(value, list):
            return [self._value(part) for part in value]
        return _literal(value) if isinstance(value, str) else value


def _literal(text: str) -> str:
    """A text that Terraform takes as it stands."""
    return text.replace("${", "$${").replace("%{", "%%{")
