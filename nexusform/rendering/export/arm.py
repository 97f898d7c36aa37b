"""A plan as an ARM template."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from nexusform.rendering.export.azure_objects import (
    API_VERSION,
    LOCATION,
    AzureObject,
    AzureObjects,
    Input,
    distinct,
    meaning_of,
)

_SCHEMA: Final = "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#"


def arm_document(objects: AzureObjects) -> dict[str, Any]:
    """The template. Each resource depends on the one before it, so that they are made in the plan's order."""
    writer = _Writer(objects)
    resources = [writer.resource(one) for one in objects.placed]
    return {
        "$schema": _SCHEMA,
        "contentVersion": "1.0.0.0",
        "metadata": {"description": "Written by nexusform from a plan."},
        "parameters": writer.parameters(),
        "resources": resources,
    }


class _Writer:
    """One template while it is written."""

    def __init__(self, objects: AzureObjects) -> None:
        self.objects = objects
        self.inputs: list[Input] = [LOCATION]
        self.previous = ""

    def resource(self, one: AzureObject) -> dict[str, Any]:
        """A resource with all of its body: a deployment brings what stands to it."""
        location = {"name": self._text(self.objects.location(one.site)), "type": "CustomLocation"}
        block: dict[str, Any] = {
            "type": one.type,
            "apiVersion": API_VERSION,
            "name": one.title,
            "location": self._text(LOCATION),
            "extendedLocation": location,
            **({"tags": self._value(one.tags)} if one.tags else {}),
            "properties": self._value(one.properties),
        }
        if self.previous:
            block["dependsOn"] = [self.previous]
        names = ", ".join(f"'{_quoted(name)}'" for name in one.names)
        self.previous = f"[resourceId('{one.type}', {names})]"
        return block

    def parameters(self) -> dict[str, Any]:
        """The parameters that were named, in their order."""
        written: dict[str, Any] = {}
        for inputs in distinct(self.inputs).values():
            first = inputs[0]
            parameter: dict[str, Any] = {"type": "object" if first.entry else "string"}
            if first == LOCATION:
                parameter["defaultValue"] = "[resourceGroup().location]"
            written[first.camel] = {**parameter, "metadata": {"description": meaning_of(inputs)}}
        return written

    def _text(self, one: Input) -> str:
        self.inputs.append(one)
        entry = f"['{_quoted(one.entry)}']" if one.entry else ""
        return f"[parameters('{one.camel}'){entry}]"

    def _value(self, value: Any) -> Any:
        """A value as the template has it: inputs as expressions, no other text taken for one."""
        if isinstance(value, Input):
            return self._text(value)
        if isinstance(value, Mapping):
            return {name: self._value(part) for name, part in value.items()}
        if isinstance(value, list):
            return [self._value(part) for part in value]
        return f"[{value}" if isinstance(value, str) and value.startswith("[") else value


def _quoted(text: str) -> str:
    return text.replace("'", "''")
