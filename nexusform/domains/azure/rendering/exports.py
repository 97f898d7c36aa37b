"""A saved plan as what Azure's tools carry out: the text, and what is to be said of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from nexusform.diagnostics import Diagnostic, error, warning
from nexusform.domains.azure.rendering.az_script import az_script
from nexusform.domains.azure.rendering.azapi import azapi_document
from nexusform.domains.azure.rendering.azure_objects import AzureObject, AzureObjects, Do, azure_objects
from nexusform.plans.plan import Plan
from nexusform.words import first_of


def azapi(plan: Plan) -> tuple[str, list[Diagnostic]]:
    """Terraform's JSON configuration, and what of the plan it cannot say."""
    objects = azure_objects(plan)
    refused = list(_remade_unknown(objects))
    if refused:
        return "", refused
    unsaid = [f"removing {one.title}" for one in objects.removed]
    unsaid += [f"making {one.title} anew" for one in objects.made if one.do is Do.REPLACE]
    unsaid += [one.title for one in objects.cordons]
    problems = list(_left_out(plan, objects.left_out))
    if unsaid:
        detail = (
            f"This form says what is to stand, not what goes or is cordoned: {first_of(unsaid, 5)}. Do that "
            "first, by the commands of -format=az."
        )
        problems.append(warning("not-said-in-the-export", detail))
    if not objects.placed:
        return "", problems
    return json.dumps(azapi_document(objects), indent=2, ensure_ascii=False) + "\n", problems


def az(plan: Plan) -> tuple[str, list[Diagnostic]]:
    """A script of `az networkcloud` commands."""
    objects = azure_objects(plan)
    refused = list(_remade_unknown(objects))
    script, unsaid = az_script(objects)
    if unsaid:
        detail = (
            f"The commands of `az networkcloud` have no argument for {first_of(unsaid, 5)}. Nothing is "
            "written, so that no script stops half way: export with -format=azapi, or use `nexusform apply`."
        )
        refused.append(error("export-is-not-whole", detail))
    if refused:
        return "", refused
    empty = not (objects.placed or objects.removed or objects.cordons)
    return "" if empty else script, list(_left_out(plan, objects.left_out))


def _remade_unknown(objects: AzureObjects) -> Iterator[Diagnostic]:
    """What stands in Azure and is to be made anew without all of its body: its networks would go."""
    lost = [one for one in objects.placed if one.do is Do.REPLACE and one.unknown]
    if lost:
        detail = (
            f"{_titles(lost)}: would be made anew without what Azure has beyond the plan's arguments "
            f"(networks, keys, options). {_to_be_written(lost)}"
        )
        yield error("export-is-not-whole", detail)


def _titles(objects: Sequence[AzureObject]) -> str:
    return first_of([one.title for one in objects], 5)


def _to_be_written(lacking: Sequence[AzureObject]) -> str:
    """What azure blocks have to say for bodies to be whole."""
    by_parts: dict[tuple[str, ...], list[AzureObject]] = {}
    for one in lacking:
        by_parts.setdefault(one.unknown, []).append(one)
    said = [f"of {_titles(objects)} says nothing of {', '.join(of)}" for of, objects in by_parts.items()]
    return f"The azure block {'; that '.join(said[:3])} (write null where Azure has none)."


def _left_out(plan: Plan, vnfs: tuple[str, ...]) -> Iterator[Diagnostic]:
    """What Azure knows nothing of, and what decides places and stands in no body."""
    if vnfs:
        detail = f"{first_of(vnfs, 5)}: a VNF is made by its VNF manager, not by Azure. It is left out."
        yield warning("not-said-in-the-export", detail)
    seeds = {
        change.id: scheduler
        for change in plan.changes
        if change.address.type == "nexus_site" and (scheduler := (change.after or {}).get("scheduler"))
    }
    for site, scheduler in seeds.items():
        spread = scheduler.get("rack_spread")
        flags = f"-seed={scheduler.get('tie_break_seed')}" + (f" -rack-spread={spread}" if spread else "")
        detail = f"The scheduler block of {site} stands in no resource: give it to `predict` as {flags}."
        yield warning("not-said-in-the-export", detail)
