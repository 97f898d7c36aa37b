"""A plan as Terraform's JSON configuration for the provider azapi (version 2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from nexusform.domains.azure.rendering.azure_objects import (
    API_VERSION,
    CLUSTER,
    LOCATION,
    POOL,
    RESOURCE_GROUP,
    SUBSCRIPTION,
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
    for resource in objects.placed:
        if resource.do is Do.UPDATE:
            updates[resource.label] = writer.changed(resource)
        else:
            label = next(labels)
            resources[label] = writer.made(label, resource)
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
        for resource in objects.made:
            label, number = resource.label, 2
            while label in self.labels:
                label, number = f"{resource.label}_{number}", number + 1
            self.labels[label] = resource
        self.clusters = {
            resource.names[0]: label for label, resource in self.labels.items() if resource.type == CLUSTER
        }
        self.previous = ""

    def made(self, label: str, resource: AzureObject) -> dict[str, Any]:
        """A resource that comes after the one that was written before it."""
        location = {"name": self._text(self.objects.location(resource.site)), "type": "CustomLocation"}
        block: dict[str, Any] = {
            "type": f"{resource.type}@{API_VERSION}",
            "name": _literal(resource.names[-1]),
            "parent_id": self._parent(resource),
            "location": self._text(LOCATION),
            **({"tags": self._value(resource.tags)} if resource.tags else {}),
            "body": {"extendedLocation": location, "properties": self._value(resource.properties)},
        }
        return self._in_order(block, f"azapi_resource.{label}")

    def changed(self, resource: AzureObject) -> dict[str, Any]:
        """What is sent to a resource that stands."""
        block = {
            "type": f"{resource.type}@{API_VERSION}",
            "name": _literal(resource.names[-1]),
            "parent_id": self._parent(resource),
            "body": {
                **({"properties": self._value(resource.changed)} if resource.changed else {}),
                **({"tags": self._value(resource.changed_tags)} if resource.changed_tags else {}),
            },
        }
        return self._in_order(block, f"azapi_update_resource.{resource.label}")

    def _in_order(self, block: dict[str, Any], address: str) -> dict[str, Any]:
        """The block, to be done after the one before it."""
        if self.previous:
            block["depends_on"] = [self.previous]
        self.previous = address
        return block

    def variables(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """The variables that were named, in their order."""
        for inputs in distinct(self.inputs).values():
            variable = inputs[0]
            kind = "map(string)" if variable.entry else "string"
            yield variable.snake, {"type": kind, "description": meaning_of(inputs)}

    def _parent(self, resource: AzureObject) -> str:
        """What a resource stands in: its cluster for a pool, else the resource group."""
        if resource.type != POOL:
            return self._group(resource)
        if resource.names[0] in self.clusters:
            return f"${{azapi_resource.{self.clusters[resource.names[0]]}.id}}"
        return f"{self._group(resource)}/providers/{CLUSTER}/{_literal(resource.names[0])}"

    def _group(self, resource: AzureObject) -> str:
        """The id of a resource group: of the one that the azure block names, else what is filled in."""
        if not resource.group:
            return self._text(RESOURCE_GROUP)
        return f"/subscriptions/{self._text(SUBSCRIPTION)}/resourceGroups/{_literal(resource.group)}"

    def _text(self, variable: Input) -> str:
        """A reference to a variable, which is noted."""
        self.inputs.append(variable)
        entry = f'["{variable.entry}"]' if variable.entry else ""
        return f"${{var.{variable.snake}{entry}}}"

    def _value(self, value: Any) -> Any:
        """A value as Terraform's JSON has it: inputs as references, all other text as it stands."""
        if isinstance(value, Input):
            return self._text(value)
        if isinstance(value, Mapping):
            return {_literal(name): self._value(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [self._value(inner) for inner in value]
        return _literal(value) if isinstance(value, str) else value


def _literal(text: str) -> str:
    """A text that Terraform takes as it stands."""
    return text.replace("${", "$${").replace("%{", "%%{")
