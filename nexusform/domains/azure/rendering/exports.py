"""A saved plan as input of Azure's tools: text and diagnostics."""

import json
from collections.abc import Container, Iterator, Mapping
from operator import attrgetter
from typing import Any, Final

from nexusform.diagnostics.diagnostic import Diagnostic, build_error, build_warning
from nexusform.diagnostics.phrases import enclose, format_first_items, group_by
from nexusform.domains.azure.importers.azure_request_bodies import list_hugepages_problems
from nexusform.domains.azure.rendering.az_script import render_az_script
from nexusform.domains.azure.rendering.azure_objects import (
    API_VERSION,
    CLUSTER,
    LOCATION,
    POOL,
    RESOURCE_GROUP,
    SUBSCRIPTION,
    AzureResource,
    PlannedAzureResources,
    RecreatedNode,
    ResourceAction,
    UserInput,
    collect_azure_objects,
    group_inputs_by_name,
)
from nexusform.json_data.plain_data import get_mapping
from nexusform.plans.plan import Action, Plan
from nexusform.rendering.notation.json_values import omit_empty


def export_azapi(plan: Plan) -> tuple[str, list[Diagnostic]]:
    """Export Terraform JSON configuration, "" after errors or without resources.

    Warn about parts missing in it.
    """
    objects = collect_azure_objects(plan)
    errors = list(_check_properties(plan, objects))
    if errors:
        return "", errors
    missing_parts = [f"removing {item.title}" for item in objects.deleted]
    recreated = [item for item in objects.created if item.action is ResourceAction.REPLACE]
    missing_parts += [f"re-creating {item.title}" for item in recreated]
    missing_parts += [item.title for item in objects.ordered if isinstance(item, RecreatedNode)]
    missing_parts += [cordon.title for cordon in objects.cordons]
    missing_parts += [action.title for action in objects.machine_actions]
    problems = list(_check_exported_objects(plan, objects.skipped))
    if missing_parts:
        detail = (
            "This format cannot express deletions and actions on machines: "
            f"{format_first_items(missing_parts, 5)}. Use the commands of -format=az for these."
        )
        problems.append(build_warning("missing-in-export", detail))
    if not objects.applied:
        return "", problems
    return json.dumps(build_azapi_document(objects), indent=2, ensure_ascii=False) + "\n", problems


def export_az(plan: Plan) -> tuple[str, list[Diagnostic]]:
    """Export a script of `az networkcloud` commands, with diagnostics.

    The script is "" after errors or without commands.
    """
    objects = collect_azure_objects(plan)
    errors = list(_check_properties(plan, objects))
    script, unsupported = render_az_script(objects)
    if unsupported:
        detail = (
            f"`az networkcloud` has no argument for {format_first_items(unsupported, 5)}. Nothing "
            "was written. Export with -format=azapi, or use `nexusform apply`."
        )
        errors.append(build_error("incomplete-export", detail))
    if errors:
        return "", errors
    is_empty = not any((objects.ordered, objects.deleted, objects.cordons, objects.machine_actions))
    return "" if is_empty else script, list(_check_exported_objects(plan, objects.skipped))


def _check_properties(plan: Plan, objects: PlannedAzureResources) -> Iterator[Diagnostic]:
    """Yield errors about hugepages and lost properties.

    Azure cannot provide these hugepages. The properties are lost by a re-creation.
    """
    for change in plan.changes:
        if (
            change.address.type in ("nexus_kubernetes_cluster", "nexus_agent_pool")
            and change.after is not None
        ):
            before = change.before if change.action in (Action.UPDATE, Action.NO_OP) else None
            for problem in list_hugepages_problems(before, change.after):
                yield build_error("incomplete-export", problem, address=str(change.address))
    incomplete = [
        item
        for item in objects.applied
        if item.action is ResourceAction.REPLACE and item.unknown_properties
    ]
    if not incomplete:
        # Nothing is lost.
        return
    gaps = [
        (
            f"of {format_first_items([item.title for item in items], 5)} does not set "
            f"{', '.join(properties)}"
        )
        for properties, items in group_by(incomplete, attrgetter("unknown_properties")).items()
    ]
    detail = (
        f"{format_first_items([item.title for item in incomplete], 5)}: would be re-created "
        "without properties that "
        "are not in the plan (networks, keys, options). "
        f"The azure block {'; that '.join(gaps[:3])} (write null where Azure has none)."
    )
    yield build_error("incomplete-export", detail)


def _check_exported_objects(plan: Plan, vnfs: tuple[str, ...]) -> Iterator[Diagnostic]:
    """Warn of VNFs and scheduler settings.

    VNFs are unknown to Azure. Scheduler settings are not part of any exported resource.
    """
    if vnfs:
        names = format_first_items(vnfs, 5)
        detail = f"{names}: a VNF is created by its VNF manager, not by Azure. It is not exported."
        yield build_warning("missing-in-export", detail)
    for change in plan.changes:
        scheduler = get_mapping(change.after, "scheduler")
        if change.address.type == "nexus_site" and scheduler:
            spread = enclose(" -rack-spread=", scheduler.get("rack_spread"))
            flags = f"-seed={scheduler.get('tie_break_seed')}{spread}"
            text = f"The scheduler block of {change.id} is not part of any resource."
            detail = f"{text} Pass it to `predict` with {flags}."
            yield build_warning("missing-in-export", detail)


_HEADER: Final = (
    "Written by nexusform from a plan. Resources are created one after another, in the predicted "
    "order."
)


def build_azapi_document(objects: PlannedAzureResources) -> dict[str, Any]:
    """Build the content of a `.tf.json` file."""
    writer = _DocumentWriter(objects)
    resources: dict[str, Any] = {}
    updates: dict[str, Any] = {}
    # Of the created resources, in order.
    labels = iter(writer.labels)
    for resource in objects.applied:
        if resource.action is ResourceAction.UPDATE:
            label = _choose_free_label(resource, updates)
            updates[label] = writer.build_update(label, resource)
        else:
            label = next(labels)
            resources[label] = writer.build_resource(label, resource)
    document: dict[str, Any] = {
        "//": _HEADER,
        "terraform": {
            "required_providers": {"azapi": {"source": "Azure/azapi", "version": "~> 2.0"}}
        },
        "variable": dict(writer.build_variables()),
    }
    blocks = {"azapi_resource": resources, "azapi_update_resource": updates}
    document["resource"] = omit_empty(blocks)
    return omit_empty(document)


def _choose_free_label(resource: AzureResource, used: Container[str]) -> str:
    """Return the label of a resource.

    It is numbered if another resource has the same one (`a/b_c` and `a_b/c`).
    """
    label = resource.label
    number = 2
    while label in used:
        label = f"{resource.label}_{number}"
        number = number + 1
    return label


class _DocumentWriter:
    """Writer of one document.

    `labels` are the created resources in order.
    """

    def __init__(self, objects: PlannedAzureResources) -> None:
        """Choose a free block label for each created resource.

        Also index the labels of clusters by name.
        """
        self.objects = objects
        # Referenced variables, in order of use.
        self.inputs: list[UserInput] = []
        # Created resources by label of their block.
        self.labels: dict[str, AzureResource] = {}
        for resource in objects.created:
            self.labels[_choose_free_label(resource, self.labels)] = resource
        # Labels by name of the cluster.
        self.clusters = {
            resource.names[0]: label
            for label, resource in self.labels.items()
            if resource.type == CLUSTER
        }
        # Address of the previous block.
        self.previous = ""

    def build_resource(self, label: str, resource: AzureResource) -> dict[str, Any]:
        """Build a created resource, dependent on the previous one."""
        location = {
            "name": self._build_reference(self.objects.build_location(resource.site)),
            "type": "CustomLocation",
        }
        block: dict[str, Any] = {
            "type": f"{resource.type}@{API_VERSION}",
            "name": _escape_literal(resource.names[-1]),
            "parent_id": self._build_parent(resource),
            "location": self._build_reference(LOCATION),
            **omit_empty({"tags": self._convert_value(resource.tags)}),
            "body": {
                "extendedLocation": location,
                "properties": self._convert_value(resource.properties),
            },
        }
        return self._add_dependency_on_previous_block(block, f"azapi_resource.{label}")

    def build_update(self, label: str, resource: AzureResource) -> dict[str, Any]:
        """Build the update of an existing resource."""
        parts = {"properties": resource.update_properties, "tags": resource.update_tags}
        block = {
            "type": f"{resource.type}@{API_VERSION}",
            "name": _escape_literal(resource.names[-1]),
            "parent_id": self._build_parent(resource),
            "body": self._convert_value(omit_empty(parts)),
        }
        return self._add_dependency_on_previous_block(block, f"azapi_update_resource.{label}")

    def _add_dependency_on_previous_block(
        self, block: dict[str, Any], address: str
    ) -> dict[str, Any]:
        """Return the block with a dependency on the previous block.

        The next block depends on this one (`address`).
        """
        if self.previous:
            block["depends_on"] = [self.previous]
        self.previous = address
        return block

    def build_variables(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Build the referenced variables in order."""
        for inputs in group_inputs_by_name(self.inputs).values():
            variable = inputs[0]
            kind = "map(string)" if variable.entry else "string"
            description = variable.meaning
            entries = ", ".join(item.entry for item in inputs if item.entry)
            # Of a map; they replace the full stop.
            if entries:
                description = f"{variable.meaning[:-1]}: {entries}."
            yield "_".join(variable.name_words), {"type": kind, "description": description}

    def _build_parent(self, resource: AzureResource) -> str:
        """Build the parent id: the cluster for a pool, else the resource group."""
        if resource.type != POOL:
            return self._build_group(resource)
        cluster_name = resource.names[0]
        # The same document creates it.
        if cluster_name in self.clusters:
            return f"${{azapi_resource.{self.clusters[cluster_name]}.id}}"
        return f"{self._build_group(resource)}/providers/{CLUSTER}/{_escape_literal(cluster_name)}"

    def _build_group(self, resource: AzureResource) -> str:
        """Build the id of a resource group: the one of the azure block, else a variable."""
        if not resource.group:
            return self._build_reference(RESOURCE_GROUP)
        subscription = self._build_reference(SUBSCRIPTION)
        return f"/subscriptions/{subscription}/resourceGroups/{_escape_literal(resource.group)}"

    def _build_reference(self, variable: UserInput) -> str:
        """Build a reference to a variable and record it."""
        self.inputs.append(variable)
        entry = enclose('["', variable.entry, '"]')
        return f"${{var.{'_'.join(variable.name_words)}{entry}}}"

    def _convert_value(self, value: Any) -> Any:
        """Convert a value to Terraform JSON.

        Inputs of the user become references, and other strings are escaped.
        """
        if isinstance(value, UserInput):
            return self._build_reference(value)
        if isinstance(value, Mapping):
            return {
                _escape_literal(name): self._convert_value(inner) for name, inner in value.items()
            }
        if isinstance(value, list):
            return list(map(self._convert_value, value))
        return _escape_literal(value) if isinstance(value, str) else value


def _escape_literal(text: str) -> str:
    """Escape a string for Terraform."""
    return text.replace("${", "$${").replace("%{", "%%{")
