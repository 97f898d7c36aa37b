"""A plan as an ARM template."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from nexusform.domains.azure.rendering.azure_objects import (
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
    resources = [writer.resource(resource) for resource in objects.placed]
    return {
        "$schema": _SCHEMA,
        "contentVersion": "1.0.0.0",
        "metadata": {"description": f"Written by nexusform from a plan.{_where(objects)}"},
        "parameters": writer.parameters(),
        "resources": resources,
    }


def _where(objects: AzureObjects) -> str:
    """Where the template is to be deployed to, where the plan says it."""
    named = [group for group in objects.groups if group]
    return f" Deploy it to the resource group {named[0]}." if named else ""


class _Writer:
    """One template while it is written."""

    def __init__(self, objects: AzureObjects) -> None:
        self.objects = objects
        self.inputs: list[Input] = [LOCATION]
        self.previous = ""

    def resource(self, azure_object: AzureObject) -> dict[str, Any]:
        """A resource with all of its body: a deployment brings what stands to it."""
        location = {"name": self._text(self.objects.location(azure_object.site)), "type": "CustomLocation"}
        block: dict[str, Any] = {
            "type": azure_object.type,
            "apiVersion": API_VERSION,
            "name": azure_object.title,
            "location": self._text(LOCATION),
            "extendedLocation": location,
            **({"tags": self._value(azure_object.tags)} if azure_object.tags else {}),
            "properties": self._value(azure_object.properties),
        }
        if self.previous:
            block["dependsOn"] = [self.previous]
        names = ", ".join(f"'{_quoted(name)}'" for name in azure_object.names)
        self.previous = f"[resourceId('{azure_object.type}', {names})]"
        return block

    def parameters(self) -> dict[str, Any]:
        """The parameters that were named, in their order."""
        written: dict[str, Any] = {}
        for inputs in distinct(self.inputs).values():
            parameter = inputs[0]
            definition: dict[str, Any] = {"type": "object" if parameter.entry else "string"}
            if parameter == LOCATION:
                definition["defaultValue"] = "[resourceGroup().location]"
            written[parameter.camel] = {**definition, "metadata": {"description": meaning_of(inputs)}}
        return written

    def _text(self, parameter: Input) -> str:
        """An expression for a parameter, which is noted."""
        self.inputs.append(parameter)
        entry = f"['{_quoted(parameter.entry)}']" if parameter.entry else ""
        return f"[parameters('{parameter.camel}'){entry}]"

    def _value(self, value: Any) -> Any:
        """A value as the template has it: inputs as expressions, no other text taken for one."""
        if isinstance(value, Input):
            return self._text(value)
        if isinstance(value, Mapping):
            return {name: self._value(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [self._value(inner) for inner in value]
        return f"[{value}" if isinstance(value, str) and value.startswith("[") else value


def _quoted(text: str) -> str:
    return text.replace("'", "''")
