"""A saved plan as what other tools carry out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from nexusform.diagnostics import Diagnostic, error, has_errors, warning
from nexusform.planning.plan import Plan
from nexusform.resource_types.registry import registries
from nexusform.words import first_of
from nexusform.workflow.place import Place
from nexusform.workflow.saved_plans import read_plan

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

    return _resources(plan, azapi_document)


def _arm(plan: Plan) -> tuple[str, list[Diagnostic]]:
    from nexusform.domains.azure.rendering.arm import arm_document

    return _resources(plan, arm_document)


def _resources(plan: Plan, document_of: Callable[[Any], Mapping[str, Any]]) -> tuple[str, list[Diagnostic]]:
    """A document of resources, and what of the plan it cannot say."""
    from nexusform.domains.azure.rendering.azure_objects import Do, azure_objects

    objects = azure_objects(plan)
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
    empty = not (objects.placed or objects.removed or objects.cordons)
    return "" if empty else az_script(objects), list(_left_out(plan, objects.left_out))


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
