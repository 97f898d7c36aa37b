"""A saved plan as what other tools carry out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from nexusform.diagnostics import Diagnostic, error, has_errors, warning
from nexusform.planning.plan import Plan
from nexusform.resource_types.registry import registries
from nexusform.words import first_of
from nexusform.workflow.place import Place
from nexusform.workflow.saved_plans import read_plan

if TYPE_CHECKING:  # what is written is loaded where it is asked for
    from nexusform.domains.azure.rendering.azure_objects import AzureObjects

FORMATS: Final = ("azapi", "arm", "az", "manifests", "node-labels", "sol003")


class Exported(Struct, frozen=True):
    """The text, "" where the plan holds nothing of the kind, and what was met."""

    text: str = ""
    diagnostics: tuple[Diagnostic, ...] = ()


def export_plan(place: Place, path: str, form: str) -> Exported:
    """Write a saved plan in another tool's form."""
    saved, problems = read_plan(path, place)
    if saved is None or has_errors(problems):
        return Exported(diagnostics=tuple(problems))
    plan = saved.plan
    if plan.errored:
        detail = f"The plan in {path} has errors, so it says of no VM where it goes. Plan again."
        return Exported(diagnostics=(*problems, error("plan-not-exported", detail)))
    text, more = _WRITERS[form](plan)
    return Exported(text, (*problems, *more))


def _azapi(plan: Plan) -> tuple[str, list[Diagnostic]]:
    from nexusform.domains.azure.rendering.azapi import azapi_document

    return _resources(plan, azapi_document, _remade_unknown)


def _arm(plan: Plan) -> tuple[str, list[Diagnostic]]:
    from nexusform.domains.azure.rendering.arm import arm_document

    return _resources(plan, arm_document, _arm_refusals)


def _remade_unknown(objects: AzureObjects) -> Iterator[Diagnostic]:
    """What stands in Azure and is to be made anew without a body that is written: its networks would go."""
    from nexusform.domains.azure.rendering.azure_objects import Do

    lost = [one.title for one in objects.placed if one.do is Do.REPLACE and not one.is_whole]
    if lost:
        detail = (
            f"{first_of(lost, 5)}: would be made anew without what Azure has beyond the plan's arguments "
            "(networks, keys, options), since no azure block holds its body. Write the body there."
        )
        yield error("export-is-not-whole", detail)


def _arm_refusals(objects: AzureObjects) -> Iterator[Diagnostic]:
    """A template puts whole resources, into one group."""
    from nexusform.domains.azure.rendering.azure_objects import Do

    yield from _remade_unknown(objects)
    put = [one.title for one in objects.placed if one.do is Do.UPDATE and not one.is_whole]
    if put:
        detail = (
            f"{first_of(put, 5)}: a template puts whole resources, and what Azure has of these beyond the "
            "plan's arguments (networks, keys, options) is not known: it would be dropped. Export with "
            "-format=az or -format=azapi, which send the change alone, or write the body in the azure block."
        )
        yield error("export-is-not-whole", detail)
    named = [group or "one that no azure block names" for group in objects.groups]
    if len(named) > 1:
        detail = (
            f"A template goes to one resource group, and the plan has resources in {first_of(named, 5)}. "
            "Make a plan for each with -target, or export with -format=az or -format=azapi."
        )
        yield error("export-is-not-whole", detail)


def _resources(
    plan: Plan,
    document_of: Callable[[Any], Mapping[str, Any]],
    refusals: Callable[[AzureObjects], Iterator[Diagnostic]],
) -> tuple[str, list[Diagnostic]]:
    """A document of resources, and what of the plan it cannot say."""
    from nexusform.domains.azure.rendering.azure_objects import Do, azure_objects

    objects = azure_objects(plan)
    refused = list(refusals(objects))
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
    return json.dumps(document_of(objects), indent=2, ensure_ascii=False) + "\n", problems


def _az(plan: Plan) -> tuple[str, list[Diagnostic]]:
    from nexusform.domains.azure.rendering.az_script import az_script
    from nexusform.domains.azure.rendering.azure_objects import azure_objects

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


def _manifests(plan: Plan) -> tuple[str, list[Diagnostic]]:
    from nexusform.domains.fleet.rendering.manifests import fleet_manifests

    export = fleet_manifests(plan, registries())
    return export.text, [warning("not-said-in-the-export", each) for each in export.unsaid]


def _node_labels(plan: Plan) -> tuple[str, list[Diagnostic]]:
    from nexusform.domains.fleet.rendering.manifests import node_labels_script

    return node_labels_script(plan), []


def _sol003(plan: Plan) -> tuple[str, list[Diagnostic]]:
    from nexusform.domains.vnf.rendering.sol003 import grant_requests

    grants = grant_requests(plan)
    problems: list[Diagnostic] = []
    if grants.unsaid:
        detail = (
            "A placement constraint lets two VNFCs share a place or not, so what is written is stricter than "
            f"the plan: {first_of(grants.unsaid, 5)}."
        )
        problems.append(warning("not-said-in-the-export", detail))
    if not grants.requests:
        return "", problems
    return json.dumps(grants.requests, indent=2, ensure_ascii=False) + "\n", problems


_WRITERS: Final[Mapping[str, Callable[[Plan], tuple[str, list[Diagnostic]]]]] = dict(
    zip(FORMATS, (_azapi, _arm, _az, _manifests, _node_labels, _sol003), strict=True)
)
