"""A saved plan as input of Azure's tools: text and diagnostics."""

from __future__ import annotations

import json
from collections.abc import Iterator

from nexusform.diagnostics.diagnostic import Diagnostic, build_error, build_warning
from nexusform.diagnostics.phrases import format_first_items
from nexusform.domains.azure.rendering.az_script import render_az_script
from nexusform.domains.azure.rendering.azapi_document import build_azapi_document
from nexusform.domains.azure.rendering.azure_objects import PlannedAzureResources, ResourceAction, collect_azure_objects
from nexusform.plans.plan import Plan


def export_azapi(plan: Plan) -> tuple[str, list[Diagnostic]]:
    """Export Terraform JSON configuration; warn about parts of the plan it cannot contain."""
    objects = collect_azure_objects(plan)
    errors = list(_check_properties_of_recreations(objects))
    if errors:
        return "", errors
    missing_parts = [f"removing {item.title}" for item in objects.deleted]
    missing_parts += [f"re-creating {item.title}" for item in objects.created if item.action is ResourceAction.REPLACE]
    missing_parts += [item.title for item in objects.cordons]
    problems = list(_report_objects_not_exported(plan, objects.skipped))
    if missing_parts:
        detail = (
            f"This format cannot express deletions and cordons: {format_first_items(missing_parts, 5)}. Do "
            "these first with the commands of -format=az."
        )
        problems.append(build_warning("missing-in-export", detail))
    if not objects.applied:
        return "", problems
    return json.dumps(build_azapi_document(objects), indent=2, ensure_ascii=False) + "\n", problems


def export_az(plan: Plan) -> tuple[str, list[Diagnostic]]:
    """Export a script of `az networkcloud` commands."""
    objects = collect_azure_objects(plan)
    errors = list(_check_properties_of_recreations(objects))
    script, unsupported = render_az_script(objects)
    if unsupported:
        detail = (
            f"`az networkcloud` has no argument for {format_first_items(unsupported, 5)}. Nothing was "
            "written. Export with -format=azapi, or use `nexusform apply`."
        )
        errors.append(build_error("incomplete-export", detail))
    if errors:
        return "", errors
    is_empty = not (objects.applied or objects.deleted or objects.cordons)
    return "" if is_empty else script, list(_report_objects_not_exported(plan, objects.skipped))


def _check_properties_of_recreations(objects: PlannedAzureResources) -> Iterator[Diagnostic]:
    """Reject the re-creation of existing resources with unknown properties, since those would be lost."""
    incomplete = [item for item in objects.applied if item.action is ResourceAction.REPLACE and item.unknown_properties]
    if not incomplete:
        return
    titles_by_properties: dict[tuple[str, ...], list[str]] = {}
    for item in incomplete:
        titles_by_properties.setdefault(item.unknown_properties, []).append(item.title)
    gaps = [
        f"of {format_first_items(titles, 5)} does not set {', '.join(properties)}"
        for properties, titles in titles_by_properties.items()
    ]
    detail = (
        f"{format_first_items([item.title for item in incomplete], 5)}: would be re-created without properties that "
        "are not in the plan (networks, keys, options). "
        f"The azure block {'; that '.join(gaps[:3])} (write null where Azure has none)."
    )
    yield build_error("incomplete-export", detail)


def _report_objects_not_exported(plan: Plan, vnfs: tuple[str, ...]) -> Iterator[Diagnostic]:
    """Report objects unknown to Azure, and scheduler settings absent in every body."""
    if vnfs:
        detail = (
            f"{format_first_items(vnfs, 5)}: a VNF is created by its VNF manager, not by Azure. It is not exported."
        )
        yield build_warning("missing-in-export", detail)
    seeds = {
        change.id: scheduler
        for change in plan.changes
        if change.address.type == "nexus_site" and (scheduler := (change.after or {}).get("scheduler"))
    }
    for site, scheduler in seeds.items():
        spread = scheduler.get("rack_spread")
        flags = f"-seed={scheduler.get('tie_break_seed')}" + (f" -rack-spread={spread}" if spread else "")
        detail = f"The scheduler block of {site} is not part of any resource. Pass it to `predict` with {flags}."
        yield build_warning("missing-in-export", detail)
